//! From an open transport to an idle session (§4.1, §11): taking the session up, the hello, coming back.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_core::{
    Cell, Comparison, Condition, Found, Lookup, Op, Order, Output, Question, Reject, Reply, Seed, SessionId,
    SessionView, Within,
};

use crate::error::{Code, Fault};
use crate::matrix::Trigger;
use crate::message::{
    ActionResult, AnnounceReason, AudioChoice, ClientConnect, Environment, Framing, Head, Mode, Resume,
    ServerEvent, ServerReady, SessionConnected, SpeechOffer,
};
use crate::minutes::{CHRONICLE, Minute, Minutes, tables};
use crate::protocol::VERSION;
use crate::token::EphemeralClaims;

use super::outgoing::About;
use super::speak::Announcement;
use super::{Kind, Phase, VipConnection};

/// The session that our own provider endpoint opens for a credential. It is the same for the same credential, so
/// that none can be used twice.
pub(super) fn provider_session(claims: &EphemeralClaims) -> SessionId {
    let digest: [u8; 32] = Sha256::digest(format!("{}\n{}", claims.sid, claims.jti)).into();
    let fresh = SessionId::fresh(&Seed::new(digest), 1);
    SessionId::new(format!("vs_{}", fresh.as_str().trim_start_matches("ses_").to_ascii_uppercase()))
}

impl VipConnection {
    /// Takes up a session that is there.
    pub(super) fn take_up(&mut self) {
        let request = self.asked.ask(Box::new(|connection: &mut Self, outcome| match outcome {
            Ok(Reply::Attached(view)) => connection.taken_up(&view),
            Err(Reject::NotFound) => connection.fail(&Fault::new(Code::SesNotFound)),
            Ok(_) | Err(_) => connection.fail(&Fault::new(Code::Internal)),
        }));
        self.out.push_back(Output::Attach(request, self.session.clone(), None));
    }

    /// Opens a session of our own provider endpoint, on behalf of another; once.
    pub(super) fn found(&mut self, origin: &str) {
        self.settings.metadata.insert(ON_BEHALF_OF.to_owned(), origin.to_owned());
        let lookup = Lookup {
            table: tables::SESSIONS.name,
            within: Within::Own,
            conditions: vec![Condition {
                column: "session_id",
                is: Comparison::Equal,
                value: self.session.as_str().into(),
            }],
            question: Question::Count,
            limit: 1,
        };
        let request = self.asked.ask(Box::new(|connection: &mut Self, outcome| {
            let used = |rows: &[Found]| {
                rows.first().and_then(|row| row.first()).and_then(Cell::as_integer).unwrap_or_default() > 0
            };
            match outcome {
                Ok(Reply::Rows(rows)) if !used(&rows) => connection.found_new(),
                Ok(Reply::Rows(_)) => connection.fail(&Fault::new(Code::AuthTokenReplayed)),
                Ok(_) | Err(_) => connection.fail(&Fault::new(Code::Internal)),
            }
        }));
        self.out.push_back(Output::Look(request, Box::new(lookup)));
    }

    fn found_new(&mut self) {
        let created = Minute::Created(Box::new(self.settings.clone()));
        self.in_turn(VecDeque::from([
            Op::Open { epoch: self.seed.epoch(1), agent: self.agent.clone(), name: None },
            Op::Chronicle { chronicle: CHRONICLE.into() },
            Op::Record { chronicle: CHRONICLE.into(), record: json!([created]) },
        ]));
    }

    fn in_turn(&mut self, mut ops: VecDeque<Op>) {
        let Some(op) = ops.pop_front() else { return self.take_up() };
        self.submit(op, move |connection, outcome| match outcome {
            Ok(_) => connection.in_turn(ops),
            Err(_) => connection.fail(&Fault::new(Code::Internal)),
        });
    }

    fn taken_up(&mut self, view: &SessionView) {
        let minutes = view.chronicles.get(CHRONICLE).and_then(|state| Minutes::restore(state));
        let Some(minutes) = minutes else { return self.fail(&Fault::new(Code::SesNotFound)) };
        if minutes.ended.is_some() {
            return self.fail(&Fault::new(Code::SesTerminated));
        }
        if let Some(settings) = &minutes.settings {
            self.settings = settings.clone();
        }
        self.transport = minutes.transport + 1;
        self.outgoing.seq = minutes.sent.max(minutes.numbered.unwrap_or_default());
        // Whoever carries the session so far sees this, and lets go of it.
        self.outgoing.note(Minute::Opened { transport: self.transport });
        self.phase = Phase::Greeting;
        self.deadlines.greeting(&self.limits, self.now);
        for turn in view.turns.iter().filter(|turn| turn.ended.is_none()) {
            let ours = turn.origin.attachment.as_ref() == Some(&self.attachment);
            let turns = if ours { &mut self.orphans } else { &mut self.foreign };
            turns.insert(turn.turn.clone(), minutes.said(&turn.turn).to_owned());
        }
        self.incoming.before = Some(Box::new(minutes));
        let mine = |tool: &&switchboard_core::model::Tool| {
            tool.executor == switchboard_core::model::Executor::Attachment(self.attachment.clone())
        };
        self.tools = view.tools.iter().filter(mine).map(|tool| (tool.name.clone(), tool.clone())).collect();
        for frame in self.incoming.take_early() {
            self.receive(frame);
        }
    }

    /// The hello of the client.
    pub(super) fn connect(&mut self, head: &Head, hello: ClientConnect) {
        if self.phase != Phase::Greeting {
            return self.invalid(&head.id, "client.connect is said once");
        }
        if hello.protocol_version != VERSION {
            return self.fail(&Fault::new(Code::ProtoVersion).about(head.id.clone()));
        }
        // The client of a provider names the session on whose behalf it comes.
        let on_behalf = self.settings.metadata.get(ON_BEHALF_OF);
        if hello.session_id != self.session.as_str() && on_behalf != Some(&hello.session_id) {
            return self.fail(&Fault::new(Code::SesNotFound).about(head.id.clone()));
        }
        let Some(before) = &self.incoming.before else { return };
        if let Some(resume) = &hello.resume {
            let agreed = self.settings.resume_s > 0 && before.resume == Some(digest_of(&resume.resume_token));
            // Numbers go on from what the client has seen: it cannot make them up.
            if !agreed || resume.last_server_seq > before.most_seen() {
                return self.fail(&Fault::new(Code::SesResumeRejected).about(head.id.clone()));
            }
        }
        let opened = before.opened;
        self.phase = Phase::Admitting;
        let _ = self.machine.fire(Trigger::ClientConnect);
        let attachment = self.attachment.clone();
        let op = if opened {
            Op::TakeOver { attachment, secret: None, next_secret: None }
        } else {
            let window_ms = u64::from(self.settings.resume_s) * 1_000;
            Op::OpenAttachment { attachment, generation: 1, secret: None, window_ms }
        };
        let event_id = head.id.clone();
        self.submit(op, move |connection, outcome| connection.admit(&event_id, hello, outcome));
    }

    fn admit(&mut self, event_id: &str, hello: ClientConnect, outcome: Result<Reply, Reject>) {
        // It may have had to go in the meantime.
        if self.phase != Phase::Admitting {
            return;
        }
        self.phase = Phase::Greeting;
        self.generation = match outcome {
            Ok(Reply::Attachment(view)) => view.generation,
            Ok(_) => 1,
            Err(Reject::AttachmentGone) => {
                return self.fail(&Fault::new(Code::SesResumeRejected).about(event_id));
            }
            Err(_) => return self.fail(&Fault::new(Code::Internal)),
        };
        let Some(before) = self.incoming.before.take() else { return };
        let before = &*before;
        let resumed = hello.resume.is_some();
        let resume_token = (self.settings.resume_s > 0).then(|| self.fresh("resume"));
        self.outgoing.note(Minute::Connected { resume: resume_token.as_deref().map(digest_of) });
        // What the client has seen may have numbers that were never put on record.
        let seen = hello.resume.as_ref().map_or(0, |resume| resume.last_server_seq);
        self.outgoing.seq = self.outgoing.seq.max(before.sent).max(seen);
        self.context.clone_from(&before.context);
        self.phase = Phase::Live;
        self.deadlines.admitted(&self.limits, self.now);
        let missed = resumed && before.sent > seen;
        let connected = SessionConnected {
            session_id: hello.session_id.clone(),
            mode: if self.kind == Kind::Control { Mode::Internal } else { Mode::External },
            environment: Environment::from_name(&self.settings.environment)
                .unwrap_or(Environment::Production),
            resumed,
            resume_token,
            resume_window_s: self.settings.resume_s.into(),
            context_version: before.context.as_ref().map_or(0, |context| context.version),
            replay_from: missed.then(|| self.replay_after(seen, before.sent) + 1),
            audio: AudioChoice {
                input: self.settings.input,
                output: self.settings.output,
                frame_ms: 20,
                framing: Framing::from_name(&self.settings.framing).unwrap_or(Framing::Binary),
            },
            turn_detection: self.settings.turn_detection,
            speech: (self.kind != Kind::Control).then(|| {
                let speech = &self.service.speech;
                SpeechOffer { hears: speech.hears, speaks: speech.speaks }
            }),
        };
        let event = ServerEvent::SessionConnected(Box::new(connected));
        self.say(&event, About { reply_to: Some(event_id.to_owned()), ..About::default() });
        self.incoming.abandoned.clone_from(&before.response);
        let ClientConnect { context, resume, .. } = hello;
        if !resumed {
            self.drop_orphans();
        }
        if let Some(Resume { pending_results, .. }) = resume {
            self.catch_up(pending_results, before);
            if missed {
                return self.replay(seen, before.sent, event_id.to_owned(), context);
            }
        }
        self.greeted(event_id, context);
    }

    /// What was done while nobody was connected.
    fn catch_up(&mut self, results: Vec<ActionResult>, before: &Minutes) {
        let mut open = before.asked.clone();
        for result in results {
            open.retain(|_, asked| asked.invocation != result.invocation_id);
            self.settle_pending(result, before);
        }
        // What the app has not done by now it will not do.
        for asked in open.into_values() {
            self.give_up_asked(&asked);
        }
        if let Some(text) = &before.unsaid {
            self.miss(text.clone());
        }
        self.incoming.introduced = true;
    }

    /// The oldest are left out where there are too many.
    fn replay_after(&self, seen: u64, until: u64) -> u64 {
        seen.max(until.saturating_sub(self.limits.replay.into()))
    }

    /// Says again what the client has missed.
    fn replay(&mut self, seen: u64, until: u64, event_id: String, context: Option<Value>) {
        let number = |value: u64| Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let session = self.session.as_str();
        let from = self.replay_after(seen, until);
        let lookup = Lookup {
            table: tables::EVENTS.name,
            within: Within::Session(self.session.clone()),
            conditions: vec![
                Condition { column: "session_id", is: Comparison::Equal, value: session.into() },
                Condition { column: "seq", is: Comparison::Above, value: number(from) },
                Condition { column: "seq", is: Comparison::Below, value: number(until + 1) },
            ],
            question: Question::Rows(vec![("seq", Order::Rising)]),
            limit: self.limits.replay as usize,
        };
        let request = self.asked.ask(Box::new(move |connection: &mut Self, outcome| {
            let place = tables::EVENTS.column("event").unwrap_or_default();
            match outcome {
                Ok(Reply::Rows(rows)) => {
                    let text = |row: &Found| row.get(place).and_then(Cell::as_text).map(str::to_owned);
                    rows.iter().filter_map(text).for_each(|event| connection.outgoing.repeat(event));
                    connection.greeted(&event_id, context);
                }
                Ok(_) | Err(_) => connection.fail(&Fault::new(Code::Internal)),
            }
        }));
        self.out.push_back(Output::Look(request, Box::new(lookup)));
    }

    fn greeted(&mut self, event_id: &str, context: Option<Value>) {
        self.incoming.greeted = true;
        if let Some(response) = self.incoming.abandoned.take() {
            self.close_abandoned(response);
        }
        if let Some(context) = context {
            self.update(event_id, &context);
        }
        for frame in self.incoming.take_early() {
            self.receive(frame);
        }
    }

    /// The tree is there, and in internal mode the provider too: the session can begin.
    pub(super) fn ready(&mut self) {
        let Some(context) = &self.context else { return };
        let ready = ServerEvent::ServerReady(ServerReady { context_version: context.version });
        self.deadlines.context_by = None;
        self.go_saying(Trigger::ServerReady, None, None, |connection| connection.tell(&ready));
        let introduces = match self.settings.activate_on.as_str() {
            "connect" => true,
            "first_visit" => self.settings.first_visit,
            _ => false,
        };
        if introduces && !self.incoming.introduced && self.kind != Kind::Control {
            let words = self.service.introduction.clone();
            let mut announcement = Announcement::new(AnnounceReason::Intro, words);
            announcement.interruptible = self.service.introduction_interruptible;
            self.announcements.push_front(announcement);
        }
        self.incoming.introduced = true;
        self.announce_next();
    }
}

/// What is kept of a token that is never kept itself.
fn digest_of(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}

/// Where a session of our own provider endpoint names the one on whose behalf it is.
const ON_BEHALF_OF: &str = "on_behalf_of";
