//! Resume (§13.2): a newer transport takes over an attachment, with everything that belongs to it.

use std::collections::BTreeMap;
use std::fmt;

use switchboard_core::model::AttachmentSecret;
use switchboard_core::{AttachmentId, AttachmentView, Op, Position, SessionId, TurnView};

use super::requests::Request;
use super::{AspConnection, Followed, Pending, home_session};
use crate::error::Code;
use crate::map::Options;
use crate::message::{ErrorBody, Features, ResumeRequest};
use crate::state::{Happening, RequestState};

/// A resume under way.
#[derive(Debug)]
pub(super) struct Resuming {
    features: Features,
    next: Vec<(u16, u64)>,
    /// Linked sessions that have not answered yet.
    waiting: usize,
    turns: Vec<(SessionId, TurnView)>,
    heads: BTreeMap<SessionId, Position>,
    /// What this connection would have been called without the resume.
    own: AttachmentId,
}

impl AspConnection {
    pub(super) fn take_over(&mut self, resume: ResumeRequest, features: Features) {
        self.happen(Happening::HelloPending);
        let own = std::mem::replace(&mut self.link.attachment, AttachmentId::from(resume.cid.as_str()));
        self.link.home = home_session(&self.principal, &self.link.attachment);
        self.own_client_tools();
        self.resuming = Some(Box::new(Resuming {
            features,
            next: resume.next,
            waiting: 0,
            turns: Vec::new(),
            heads: BTreeMap::new(),
            own,
        }));
        let op = Op::TakeOver {
            attachment: self.link.attachment.clone(),
            secret: Some(AttachmentSecret::new(resume.token.expose()).hash()),
            next_secret: Some(self.secret().hash()),
        };
        let home = self.link.home.clone();
        self.submit(&home, op, Pending::TakeOver);
    }

    pub(super) fn resume_rejected(&mut self) {
        let Some(resuming) = self.resuming.take() else { return };
        self.link.attachment = resuming.own;
        self.link.home = home_session(&self.principal, &self.link.attachment);
        self.own_client_tools();
        self.send_error(0, &ErrorBody::new(Code::ResumeRejected, "the connection cannot be resumed"));
        self.life = crate::state::Lifecycle::Open;
        self.begin(resuming.features);
    }

    /// The client's tools are executed by whatever attachment this connection speaks for.
    fn own_client_tools(&mut self) {
        for tool in &mut self.client_tools {
            tool.executor = switchboard_core::model::Executor::Attachment(self.link.attachment.clone());
        }
    }

    pub(super) fn taken_over(&mut self, view: AttachmentView) {
        self.link.generation = view.generation;
        self.link.durable = true;
        let home = self.link.home.clone();
        self.link.sessions.insert(home.clone(), Followed::default());
        let linked = view.linked.clone();
        let window_ms = self.window_ms();
        let Some(resuming) = self.resuming.as_mut() else { return };
        resuming.heads.insert(home.clone(), view.head);
        resuming.turns.extend(view.turns.into_iter().map(|turn| (home.clone(), turn)));
        resuming.waiting = linked.len();
        for session in linked {
            let op = Op::OpenAttachment {
                attachment: self.link.attachment.clone(),
                generation: view.generation,
                secret: None,
                window_ms,
            };
            self.submit(&session.clone(), op, Pending::Relink(session));
        }
        self.finish_resume();
    }

    pub(super) fn relinked(&mut self, session: SessionId, view: Option<AttachmentView>) {
        let Some(resuming) = self.resuming.as_mut() else { return };
        resuming.waiting = resuming.waiting.saturating_sub(1);
        if let Some(view) = view {
            resuming.heads.insert(session.clone(), view.head);
            resuming.turns.extend(view.turns.into_iter().map(|turn| (session.clone(), turn)));
        }
        self.finish_resume();
    }

    /// The client claims to have seen records that were never sent: it is told so, rather than that nothing is
    /// missing, and what still runs is stopped.
    pub(super) fn replay_gone(&mut self, id: u16) {
        let Some(request) = self.requests.get(id) else { return };
        if let Some(turn) = request.turn.clone().filter(|_| !request.watches) {
            let session = request.session.clone();
            let op = Op::Interrupt { turn, reason: Some("not resumed".into()) };
            self.submit(&session, op, Pending::Nothing);
        }
        self.fail_request(id, Code::ReplayGone, "no such record was sent", None);
    }

    /// Once every session has answered: who is still there, who is lost, and what is sent again.
    fn finish_resume(&mut self) {
        if self.resuming.as_ref().is_none_or(|resuming| resuming.waiting > 0) {
            return;
        }
        let Some(resuming) = self.resuming.take() else { return };
        self.wire.agreed = resuming.features;
        // An id may have been used for several turns; the last one counts.
        let mut by_id: BTreeMap<u16, (Handle, SessionId, TurnView)> = BTreeMap::new();
        for (session, turn) in resuming.turns {
            let Some(handle) = turn.origin.handle.as_deref().and_then(Handle::parse) else { continue };
            if by_id.get(&handle.id).is_none_or(|(known, ..)| *known < handle) {
                by_id.insert(handle.id, (handle, session, turn));
            }
        }
        let mut lost = Vec::new();
        let mut from: BTreeMap<SessionId, u64> = BTreeMap::new();
        for (id, next) in &resuming.next {
            // Nobody has seen more records than there are; such a request is cancelled with those left out.
            let plausible = |(_, session, turn): &(Handle, SessionId, TurnView)| {
                let head = resuming.heads.get(session).map_or(0, |head| head.seq);
                let events = turn.ended.unwrap_or(head).saturating_sub(turn.accepted);
                *next <= Options::restore(&turn.origin.options).most_records(events)
            };
            let known = by_id.get(id).is_some_and(plausible);
            let Some((_, session, turn)) = known.then(|| by_id.remove(id)).flatten() else {
                lost.push(*id);
                continue;
            };
            let mut request = Request::new(RequestState::Queued, session.clone(), self.wire.window);
            request.turn = Some(turn.turn);
            request.accepted = turn.accepted;
            request.options = Options::restore(&turn.origin.options);
            request.skip_below = *next;
            request.replay_until = resuming.heads.get(&session).map_or(0, |head| head.seq);
            self.requests.insert(*id, request);
            let first = from.entry(session).or_insert(u64::MAX);
            *first = (*first).min(turn.accepted.saturating_sub(1));
        }
        // What the client does not ask for any more is cancelled.
        for (id, (_, session, turn)) in by_id {
            self.requests.bury(id, self.now);
            if turn.ended.is_none() {
                let op = Op::Interrupt { turn: turn.turn, reason: Some("not resumed".into()) };
                self.submit(&session, op, Pending::Nothing);
            }
        }
        self.tools_awaited = resuming.heads.len();
        for (session, head) in &resuming.heads {
            let seq = from.get(session).copied().unwrap_or(head.seq);
            self.link.sessions.entry(session.clone()).or_default();
            self.follow(session, Some(Position { epoch: head.epoch, seq }));
        }
        self.send_accept(Some(lost.clone()));
        for id in lost {
            self.requests.bury(id, self.now);
            self.send_error(id, &ErrorBody::new(Code::ReplayGone, "the request is not known any more"));
        }
    }
}

/// What an attachment calls a turn: its request id, and which of the turns under that id it is. The
/// same id may have been used in several sessions, whose positions cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle {
    pub(super) id: u16,
    pub(super) generation: u32,
    pub(super) number: u64,
}

impl Handle {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let handle = Self {
            id: parts.next()?.parse().ok()?,
            generation: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(handle)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.id, self.generation, self.number)
    }
}
