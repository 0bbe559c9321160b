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
        self.succession = minutes.succession.clone();
        self.outgoing.seq = minutes.from.max(minutes.last).max(minutes.sent);
        // Whoever carries the session so far sees this, and lets go of it.
        self.outgoing.note(Minute::Opened { arrival: self.arrival.clone() });
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
    }

    /// This transport is on record, with numbers of its own: it has the session, or a newer one was there before.
    pub(super) fn in_line(&mut self, held: bool) {
        if self.phase != Phase::Opening {
            return;
        }
        if let Some(before) = &self.incoming.before {
            (self.transport, self.outgoing.seq) = (before.transport, before.from);
            self.outgoing.counted = before.from;
        }
        if !held {
            return self.replaced();
        }
        self.phase = Phase::Greeting;
        for frame in self.incoming.take_early() {
            self.receive(frame);
        }
    }

    /// A transport that has lost the session, and did not know, has taken it over: it goes as soon as it does.
    pub(super) fn regain(&mut self) {
        if self.phase != Phase::Live || self.regaining {
            return;
        }
        self.regaining = true;
        let op = Op::TakeOver { attachment: self.attachment.clone(), secret: None, next_secret: None };
        self.submit(op, |connection, outcome| {
            connection.regaining = false;
            match outcome {
                Ok(Reply::Attachment(view)) => connection.generation = view.generation,
                Ok(_) => {}
                Err(_) => connection.fail(&Fault::new(Code::Internal)),
            }
        });
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
            if !agreed || resume.last_server_seq > before.from {
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
        self.submit(op, move |connection, outcome| connection.admit(event_id, hello, outcome));
    }

    fn admit(&mut self, event_id: String, hello: ClientConnect, outcome: Result<Reply, Reject>) {
        // It may have had to go in the meantime.
        if self.phase != Phase::Admitting {
            return;
        }
        self.generation = match outcome {
            Ok(Reply::Attachment(view)) => view.generation,
            Ok(_) => 1,
            Err(reject) => {
                self.phase = Phase::Greeting;
                let gone = reject == Reject::AttachmentGone;
                let code = if gone { Code::SesResumeRejected } else { Code::Internal };
                return self.fail(&Fault::new(code).about(event_id));
            }
        };
        let sent = self.incoming.before.as_ref().map_or(0, |before| before.sent);
        match hello.resume.as_ref().map(|resume| resume.last_server_seq).filter(|seen| sent > *seen) {
            Some(seen) => self.find_missed(seen, event_id, hello),
            None => self.welcome(&event_id, hello, Vec::new()),
        }
    }

    /// Lets the client in, and says again what it has missed.
    fn welcome(&mut self, event_id: &str, hello: ClientConnect, missed: Vec<(u64, String)>) {
        let Some(before) = self.incoming.before.take().filter(|_| self.phase == Phase::Admitting) else {
            return;
        };
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
        let connected = SessionConnected {
            session_id: hello.session_id.clone(),
            mode: if self.kind == Kind::Control { Mode::Internal } else { Mode::External },
            environment: Environment::from_name(&self.settings.environment)
                .unwrap_or(Environment::Production),
            resumed,
            resume_token,
            resume_window_s: self.settings.resume_s.into(),
            context_version: before.context.as_ref().map_or(0, |context| context.version),
            replay_from: missed.first().map(|(seq, _)| *seq),
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
        }
        missed.into_iter().for_each(|(_, event)| self.outgoing.repeat(event));
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

    /// Looks up what the client has missed; the oldest are left out where there are too many.
    fn find_missed(&mut self, seen: u64, event_id: String, hello: ClientConnect) {
        let session = self.session.as_str();
        let lookup = Lookup {
            table: tables::EVENTS.name,
            within: Within::Session(self.session.clone()),
            conditions: vec![
                Condition { column: "session_id", is: Comparison::Equal, value: session.into() },
                Condition {
                    column: "seq",
                    is: Comparison::Above,
                    value: Cell::Integer(i64::try_from(seen).unwrap_or(i64::MAX)),
                },
            ],
            question: Question::Rows(vec![("seq", Order::Falling)]),
            limit: self.limits.replay as usize,
        };
        let request = self.asked.ask(Box::new(move |connection: &mut Self, outcome| {
            let Ok(Reply::Rows(rows)) = outcome else { return connection.fail(&Fault::new(Code::Internal)) };
            let cell =
                |row: &Found, column| tables::EVENTS.column(column).and_then(|place| row.get(place)).cloned();
            let event = |row: &Found| {
                let seq = u64::try_from(cell(row, "seq")?.as_integer()?).ok()?;
                Some((seq, cell(row, "event")?.as_text()?.to_owned()))
            };
            connection.welcome(&event_id, hello, rows.iter().rev().filter_map(event).collect());
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
