//! An app that is talked to: text over VIP, with something on the screen that can be done, watched by
//! somebody who compares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::CallKind;
use switchboard_core::{
    Actor, Backoff, ClientInput, ClientMachine as _, Frame, Jitter, Op, OpeningRequest, Pii, PrincipalId,
    Seed, SessionId, Timestamp,
};
use switchboard_vip::audio::Format;
use switchboard_vip::client::{ClientConfig, Event, Outcome, VipClient};
use switchboard_vip::matrix::State;
use switchboard_vip::message::{AnnounceReason, CloseReason, ResponseDone, ResponseStatus, TurnDetection};
use switchboard_vip::minutes::{CHRONICLE, Minute, Settings};

use super::facts::{Fact, Lens, Seen, facts};
use super::guest::{Around, Heard, Said, Speaker};
use super::guests::seed;
use super::ledger::{Ledger, TurnLog};
use super::random::Random;
use super::wire::marker;
use super::{Fault, Invariant, Tongue, stories};
use crate::world::World;

/// An app and its user.
#[derive(Debug)]
pub(super) struct App {
    principal: PrincipalId,
    seed: Seed,
    client: VipClient,
    session: SessionId,
    /// Counts sessions, one after another.
    sessions: u64,
    created: bool,
    responses: BTreeMap<String, Response>,
    /// What is being done, until when, and whether it comes out well.
    calls: Vec<(Timestamp, String, bool)>,
    wire: Wire,
}

/// A response as its user sees it.
#[derive(Debug)]
struct Response {
    /// The turn of the user that it answers.
    handle: Option<String>,
    reason: Option<AnnounceReason>,
    seen: Seen,
}

/// What passes over the transports of a session, read a second time: what may follow what.
#[derive(Debug, Default)]
struct Wire {
    /// The number of the hello of the server, and of the last event since.
    hello: Option<u64>,
    last: u64,
    /// Responses that are over.
    over: BTreeSet<String>,
}

const LENS: Lens = Lens { thoughts: false, calls: false, lists: false, data: false };

impl App {
    pub(super) fn new(principal: PrincipalId, random: &mut Random) -> Self {
        let seed = seed(random);
        let session = session_id(&seed, 1);
        Self {
            principal,
            client: client(&session, &seed, 1),
            seed,
            session,
            sessions: 1,
            created: false,
            responses: BTreeMap::new(),
            calls: Vec::new(),
            wire: Wire::default(),
        }
    }

    /// The session is over: the next one is another.
    fn begin_anew(&mut self) {
        self.sessions += 1;
        self.session = session_id(&self.seed, self.sessions);
        self.client = client(&self.session, &self.seed, self.sessions);
        self.created = false;
        self.responses.clear();
        self.calls.clear();
        self.wire = Wire::default();
    }

    fn told(&mut self, event: Event, around: &mut Around<'_>) -> Result<(), Fault> {
        match event {
            Event::Connected(connected) => {
                around.note(format_args!("is let in, resumed: {}", connected.resumed));
                *around.resumed += u64::from(connected.resumed);
            }
            Event::Response(audio, reason) => {
                let response = Response { handle: audio.in_reply_to, reason, seen: Seen::default() };
                self.responses.insert(audio.response_id, response);
            }
            Event::Words(delta) => {
                let Some(response) = self.responses.get_mut(&delta.response_id) else { return Ok(()) };
                response.seen.push(Fact::Text(delta.text));
                return response.check(&self.session, false, around.ledger);
            }
            Event::Done(done) => return self.done(&done, around),
            Event::Execute(execution) => {
                let at = match around.random.below(6) {
                    0 => around.soon(800, 3_000),
                    1 => return Ok(()),
                    _ => around.soon(0, 200),
                };
                self.calls.push((at, execution.invocation_id, around.random.chance(80)));
            }
            Event::Down(down) => {
                around.note(format_args!("is off: {} {:?}", down.cause, down.retry_at));
                if down.retry_at.is_none() {
                    self.begin_anew();
                }
            }
            Event::Problem(error) => around.note(format_args!("is told {}", error.code)),
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self, done: &ResponseDone, around: &mut Around<'_>) -> Result<(), Fault> {
        around.note(format_args!("sees {} end: {:?}", done.response_id, done.status));
        let Some(mut response) = self.responses.remove(&done.response_id) else { return Ok(()) };
        if done.status != ResponseStatus::Complete {
            return Ok(());
        }
        // Words are not sent again to who comes back; the end has all of them.
        if let Some(text) = &done.text {
            let mut whole = Seen::default();
            whole.push(Fact::Text(text.clone()));
            if whole.text().starts_with(&response.seen.text()) {
                response.seen = whole;
            }
        }
        response.check(&self.session, true, around.ledger)
    }
}

impl Speaker for App {
    fn tongue(&self) -> Tongue {
        Tongue::Vip
    }

    fn request(&self) -> OpeningRequest {
        OpeningRequest {
            path: switchboard_vip::STREAM,
            target: format!("/v1/vip/sessions/{}/stream", self.session),
            websocket: true,
            subprotocols: vec![Pii(switchboard_vip::SUBPROTOCOL.to_owned())],
            ..OpeningRequest::default()
        }
    }

    fn place(&self) -> Option<SessionId> {
        self.created.then(|| self.session.clone())
    }

    /// Creates the session, as its application would over HTTP, at another server of the same log.
    fn prepare(&mut self, world: &mut World) {
        if self.created || world.is_down() {
            return;
        }
        let created = world.now().as_millis();
        let epoch = self.seed.epoch(self.sessions);
        let minute = Minute::Created(Box::new(settings(&self.principal, created)));
        let ops = [
            Op::Open { epoch, agent: "steady".into(), name: None },
            Op::Chronicle { chronicle: CHRONICLE.into() },
            Op::Record { chronicle: CHRONICLE.into(), record: json!([minute]) },
        ];
        let actor = Actor::client(self.principal.clone());
        self.created = ops.iter().all(|op| world.write_behind(&self.session, &actor, op).is_ok());
    }

    fn act(&mut self, tag: &str, around: &mut Around<'_>) {
        self.come_back(around);
        match around.random.below(20) {
            0..13 => {
                let story = around.random.pick(stories::NAMES).copied().unwrap_or("echo");
                let words = format!("{story} {} {tag}", marker(&self.principal));
                let said = self.client.say(&words, around.now).is_ok();
                around.note(format_args!("says {story} {tag}: {said}"));
            }
            13..16 => {
                let quiet = self.client.quiet(around.now).is_ok();
                around.note(format_args!("wants it to be quiet: {quiet}"));
            }
            16 | 17 => drop(self.client.show(screen(around.random.below(4)), around.now)),
            18 if around.random.chance(30) => {
                around.note(format_args!("hangs up"));
                drop(self.client.hang_up(CloseReason::UserHangup, around.now));
            }
            _ => {}
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault> {
        match &heard {
            Heard::Opened => self.wire.hello = None,
            Heard::Frame(Frame::Text(text)) => self.wire.received(text)?,
            // Not let in: it may come back, or the session is gone.
            Heard::Closed(_) if self.client.state() == State::NotConnected && around.random.chance(40) => {
                self.begin_anew();
                self.come_back(around);
                return Ok(());
            }
            Heard::Frame(_) | Heard::Closed(_) | Heard::Timeout => {}
        }
        self.client.handle_input(heard.input(), around.now);
        Ok(())
    }

    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault> {
        while let Some(place) = self.calls.iter().position(|(at, ..)| *at <= around.now) {
            let (_, id, well) = self.calls.swap_remove(place);
            let outcome = if well {
                Outcome::Done(Some(json!("found it")))
            } else {
                Outcome::Failed { message: "it is broken".to_owned(), executed: false }
            };
            drop(self.client.finish(&id, outcome, None, around.now));
        }
        loop {
            return Ok(match Said::of(self.client.poll_output()) {
                Err(event) => {
                    self.told(event, around)?;
                    continue;
                }
                Ok(Said::Idle { wake }) => {
                    let calls = self.calls.iter().map(|(at, ..)| *at);
                    Said::Idle { wake: wake.into_iter().chain(calls).min() }
                }
                Ok(said) => said,
            });
        }
    }

    fn come_back(&mut self, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
    }

    fn is_idle(&self, _ledger: &Ledger) -> bool {
        self.responses.is_empty()
    }

    fn check_rest(&self, _ledger: &Ledger) -> Result<(), Fault> {
        let Some((id, response)) = self.responses.first_key_value() else { return Ok(()) };
        Err(Fault::new(Invariant::OneTerminal, format!("the response {id} never ends: {response:?}")))
    }
}

impl Response {
    fn check(&self, session: &SessionId, whole: bool, ledger: &Ledger) -> Result<(), Fault> {
        let broken = |detail: String| Fault::new(Invariant::SameView, detail);
        match (&self.handle, self.reason) {
            (Some(handle), None) => {
                let turn = ledger.handled(session, handle).ok_or_else(|| {
                    Fault::new(
                        Invariant::Durable,
                        format!("the turn {handle} is answered, and not in the log"),
                    )
                })?;
                if whole && !turn.is_stopped() && !self.asks(turn) {
                    let detail = format!("{} is complete, and goes on in the log", turn.tag);
                    return Err(Fault::new(Invariant::OneEnd, detail));
                }
                self.seen
                    .check(turn, LENS, whole)
                    .or_else(|detail| if self.asks(turn) { Ok(()) } else { Err(broken(detail)) })
            }
            // What was said when nobody was there, or to others.
            (_, Some(AnnounceReason::FollowUp | AnnounceReason::Notification)) => {
                let told = |turn: &TurnLog| {
                    turn.session == *session && facts(turn, LENS).iter().any(|fact| self.seen.is(fact))
                };
                match ledger.turns().any(|(_, turn)| told(turn)) {
                    true => Ok(()),
                    false => Err(broken(format!("an announcement is of no turn: {:?}", self.seen.text()))),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether it is a question of its turn.
    fn asks(&self, turn: &TurnLog) -> bool {
        let seen = self.seen.text();
        turn.events.iter().any(|committed| match &committed.event {
            switchboard_core::Event::CallRequested { call, .. } => {
                matches!(&call.kind, CallKind::Question { text, .. } if text.starts_with(&seen))
            }
            _ => false,
        })
    }
}

impl Wire {
    fn received(&mut self, text: &str) -> Result<(), Fault> {
        let event: Value = serde_json::from_str(text).unwrap_or_default();
        let (kind, seq) =
            (event["type"].as_str().unwrap_or_default(), event["seq"].as_u64().unwrap_or_default());
        match self.hello {
            None if kind == "session.connected" => (self.hello, self.last) = (Some(seq), 0),
            None => return Ok(()),
            Some(hello) => {
                // What was missed has its old numbers, then it goes on behind the hello.
                let next = if seq < hello { seq > self.last } else { seq == self.last.max(hello) + 1 };
                if !next {
                    let detail = format!("event {seq} after {}, the hello was {hello}", self.last);
                    return Err(Fault::new(Invariant::SameView, detail));
                }
                self.last = seq;
            }
        }
        let response = event["response_id"].as_str().or_else(|| event["data"]["response_id"].as_str());
        if let (Some(response), "response.audio" | "response.text.delta" | "response.done") = (response, kind)
        {
            if self.over.contains(response) {
                let detail = format!("{kind} of {response}, which is over");
                return Err(Fault::new(Invariant::OneTerminal, detail));
            }
            if kind == "response.done" {
                self.over.insert(response.to_owned());
            }
        }
        Ok(())
    }
}

fn client(session: &SessionId, seed: &Seed, number: u64) -> VipClient {
    let backoff = Backoff::new(Duration::from_millis(40), Duration::from_millis(800), Jitter::Around(50));
    let config = ClientConfig { microphone: false, backoff, ..ClientConfig::new(session.as_str()) };
    let mut client = VipClient::new(config, Seed::new(seed.derive("client", number)));
    drop(client.show(screen(0), Timestamp::default()));
    client
}

/// A page on which something can be done.
fn screen(page: u64) -> Value {
    json!({
        "route": {"id": format!("page{page}")},
        "routes": [{"target": "page0"}],
        "narration": format!("Page {page}."),
        "actions": {
            stories::CLIENT_TOOL: {
                "type": "button", "description": "Look something up", "element_id": "l", "parallel": page == 1,
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        },
        "visibility": [stories::CLIENT_TOOL],
    })
}

fn session_id(seed: &Seed, number: u64) -> SessionId {
    let fresh = SessionId::fresh(seed, number);
    SessionId::new(format!("vs_{}", fresh.as_str().trim_start_matches("ses_").to_ascii_uppercase()))
}

fn settings(principal: &PrincipalId, created_at: u64) -> Settings {
    Settings {
        app_id: "shop".to_owned(),
        sub: principal.to_string(),
        environment: "development".to_owned(),
        mode: "external".to_owned(),
        scopes: Vec::new(),
        locale: "en-US".to_owned(),
        actions: true,
        confirmation_channels: vec!["ui".to_owned()],
        input: Format::Pcm16k,
        output: Format::Pcm24k,
        framing: "binary".to_owned(),
        turn_detection: TurnDetection::default(),
        instructions: None,
        voice: None,
        activate_on: "manual".to_owned(),
        first_visit: false,
        agent: "steady".to_owned(),
        provider: None,
        metadata: BTreeMap::new(),
        resume_s: 20,
        created_at,
        expires_at: created_at + 3_600_000,
    }
}
