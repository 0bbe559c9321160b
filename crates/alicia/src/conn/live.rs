//! What happens in the conversations that a client follows, as it happens.

use std::collections::BTreeSet;

use switchboard_core::{Committed, Frame, Output, SessionId, Timestamp};

use super::hear::Ear;
use super::held::Held;
use super::{AliciaConnection, Manners};
use crate::annals::{Annals, Entry, Notice};
use crate::codec::Dialect;
use crate::id::Id;
use crate::message::{
    AssistantMessage, Body, ConnectionInfo, ConnectionStatus, ConversationStatus, Dimensions, Elite,
    EliteOptions, Preset, ServerInfo, UserMessage,
};

/// A conversation that the client follows.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) id: Id,
    pub(super) annals: Annals,
    /// Number of the last event that was taken in.
    pub(super) seen: u64,
    /// Number of an event that is still to come, and that the next job has to know of.
    pub(super) due: u64,
    pub(super) manners: Manners,
    /// Messages that this connection has written: their announcement is for the others.
    pub(super) own: BTreeSet<Id>,
    /// Tools that this connection has declared.
    pub(super) declared: BTreeSet<String>,
    /// Audio that waits for its end.
    pub(super) ear: Ear,
    /// A message that is to be replaced by the next one (§5.6).
    pub(super) edit: Option<Edit>,
    /// What a lite client is not told yet.
    pub(super) held: Held,
}

/// An edit that waits for its message.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// The message beside which the next one is put.
    pub(super) target: Id,
    /// What that message follows.
    pub(super) parent: Option<Id>,
    /// Its number.
    pub(super) number: i64,
    /// After this it is too late.
    pub(super) until: Timestamp,
}

impl Conversation {
    pub(super) fn new(id: Id, annals: Annals, seen: u64, manners: Manners) -> Self {
        let (own, declared) = (BTreeSet::new(), BTreeSet::new());
        let (ear, held) = (Ear::default(), Held::default());
        Self { id, annals, seen, due: seen, manners, own, declared, ear, edit: None, held }
    }

    /// Whether this connection has said that it has the tool which is asked for.
    pub(super) fn has_tool(&self, request: &Id) -> bool {
        let tool = self.annals.tool_of(request);
        tool.is_some_and(|tool| self.manners.tools.iter().any(|known| known == tool))
    }

    /// Whether something is still to come that the next job has to know of.
    pub(super) const fn lags(&self) -> bool {
        self.seen < self.due
    }
}

impl AliciaConnection {
    pub(super) fn committed(&mut self, session: &SessionId, committed: &Committed) {
        let Some(known) = self.followed.get_mut(session) else { return };
        known.seen = committed.position.seq;
        let unreplied = committed.event.turn().filter(|turn| known.annals.is_unreplied(turn)).cloned();
        let page = known.annals.follow(committed);
        if self.dialect == Dialect::Lite {
            self.pass_on_lite(session, &page, unreplied.as_ref());
        } else {
            page.entries.iter().for_each(|entry| self.pass_on(session, entry));
            page.notices.iter().for_each(|notice| self.notice(session, notice, committed.at));
        }
        self.rested();
    }

    /// Passes on an entry of the server log, unless this connection has written it itself.
    fn pass_on(&mut self, session: &SessionId, entry: &Entry) {
        let Some(known) = self.followed.get_mut(session) else { return };
        if let Body::UserMessage(UserMessage { id, .. }) | Body::AssistantMessage(AssistantMessage { id, .. }) =
            &entry.envelope.body
            && entry.is_aside()
            && known.own.remove(id)
        {
            return;
        }
        self.out.push_back(Output::Send(Frame::Binary(entry.bytes.clone())));
    }

    fn notice(&mut self, session: &SessionId, notice: &Notice, at: Timestamp) {
        let Some(known) = self.followed.get(session) else { return };
        let conversation = known.id.clone();
        match notice {
            Notice::Settled(_) | Notice::Replied { .. } => {}
            Notice::TurnOver { .. } => {
                let stats = known.annals.stats(at);
                self.say(Some(&conversation), stats);
            }
            Notice::Updated => {
                let update = known.annals.update();
                let gone = known.annals.status() == ConversationStatus::Deleted;
                self.say(Some(&conversation), update);
                if gone {
                    self.unfollow(session);
                }
            }
            Notice::Elites => self.offer_elites(session),
        }
    }

    /// Totals, model and elites, as they follow a handshake.
    pub(super) fn introduce(&mut self, session: &SessionId) {
        let Some(known) = self.followed.get(session) else { return };
        let conversation = known.id.clone();
        let stats = known.annals.stats(self.now);
        let facts = (self.service.facts)(&self.agent);
        let connection =
            ConnectionInfo { status: ConnectionStatus::Connected.into(), latency: self.clock.latency_ms };
        let info = ServerInfo { connection, model: facts.model, mcp_servers: facts.servers };
        self.say(Some(&conversation), info);
        self.say(Some(&conversation), stats);
        self.offer_elites(session);
    }

    /// The elites, the best first for how this conversation weighs them (§4.22).
    fn offer_elites(&mut self, session: &SessionId) {
        let Some(known) = self.followed.get(session) else { return };
        let conversation = known.id.clone();
        let weights =
            known.annals.weights().map_or_else(|| Preset::Balanced.dimensions(), Dimensions::from_array);
        let mut elites: Vec<Elite> = self.service.elites.iter().map(|offer| offer.elite.clone()).collect();
        elites.sort_by(|a, b| weights.score(b.scores).total_cmp(&weights.score(a.scores)));
        let current = known.annals.elite().filter(|id| elites.iter().any(|elite| elite.id.as_str() == *id));
        let current_elite_id = current.and_then(|id| Id::new(id).ok());
        let timestamp = i64::try_from(self.now.as_millis()).unwrap_or(i64::MAX);
        self.say(Some(&conversation), EliteOptions { elites, current_elite_id, timestamp });
    }

    /// Whether an answer is under way in some conversation.
    pub(super) fn is_answering(&self) -> bool {
        self.followed.values().any(|known| known.annals.live_answers().next().is_some())
    }

    /// Follows a conversation no longer.
    pub(super) fn unfollow(&mut self, session: &SessionId) {
        if self.followed.remove(session).is_some() {
            self.out.push_back(Output::Detach(session.clone()));
        }
    }
}
