//! The minutes of a session: what has to be known to go on with it, and what can be read about it.
//!
//! They are a fold over the events of the session, kept with it by the server. A transport takes them over as
//! they stand when it opens, and puts on record whatever a later one has to know, before anybody else learns
//! of it. So a session goes on wherever its client comes back, after a restart of the server too.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::model::{Author, CallEnd, Message, Output, TurnOutcome};
use switchboard_core::{
    AttachmentId, Cell, Change, Chronicle, Chronicler, Committed, Event, MessageId, Record, SessionId, Table,
    Timestamp, TurnId,
};

use crate::context::Context;

mod minute;
mod succession;
pub mod tables;

pub(crate) use succession::Arrivals;
pub use succession::{Arrival, Succession};

pub use minute::{Asked, CHRONICLE, Minute, Settings, Spoken};

/// What the transports of the app are attached to its session as, one after the other.
pub(crate) fn attachment_of(session: &str) -> AttachmentId {
    AttachmentId::new(format!("{session}.app"))
}

/// Takes the minutes of sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Secretary;

impl Chronicler for Secretary {
    fn name(&self) -> &'static str {
        CHRONICLE
    }

    fn tables(&self) -> &'static [Table] {
        tables::TABLES
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        Box::new(Minutes::new(session))
    }

    fn resume(&self, _session: &SessionId, state: &[u8]) -> Option<Box<dyn Chronicle>> {
        Some(Box::new(Minutes::restore(state)?))
    }
}

/// The minutes of one session, as far as they are needed to go on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Minutes {
    session: String,
    /// What was agreed upon; none before the session was created.
    pub settings: Option<Settings>,
    /// The number of the latest transport.
    pub transport: u32,
    /// Digest of the token with which the client can come back.
    pub resume: Option<String>,
    /// Whether a client is connected.
    pub connected: bool,
    /// Whether one ever was.
    pub opened: bool,
    /// How often the app's attachment was opened or taken over.
    #[serde(default)]
    pub generation: u32,
    /// The state, by name, and its number.
    pub state: (String, u64),
    /// The number of the last event that was sent and can be sent again.
    pub sent: u64,
    /// The number of the last event that was sent at all, as far as that is known.
    #[serde(default)]
    pub last: u64,
    /// The number of the last event of the latest transport, once it is done.
    #[serde(default)]
    pub numbered: Option<u64>,
    /// The latest transport begins behind this number, which is beyond all that were given before.
    #[serde(default)]
    pub from: u64,
    /// Which transport has the session.
    #[serde(default)]
    pub succession: Succession,
    /// What the app says about itself.
    pub context: Option<Context>,
    /// The response that the client knows of and that has not ended.
    pub response: Option<String>,
    /// What was heard of an answer that is being spoken: should the server die meanwhile, that is what is left.
    #[serde(default)]
    heard: Option<HeardSoFar>,
    /// What the app was asked to do and has not answered.
    pub asked: BTreeMap<String, Asked>,
    /// What the user was answered and has not been told.
    pub unsaid: Option<String>,
    /// The number of the last item of the history.
    pub history: u64,
    /// The last items of it, by id.
    #[serde(default)]
    noted: VecDeque<String>,
    /// Why it is over.
    pub ended: Option<String>,
    /// What the user has said in a turn that is about to be accepted.
    held: Option<(String, Value)>,
    /// Turns of this session that speak for themselves, and what the client calls them.
    turns: BTreeMap<String, String>,
    /// What is being answered.
    #[serde(default)]
    answers: BTreeMap<String, Answer>,
}

/// What was heard of an answer so far.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct HeardSoFar {
    response: String,
    turn_id: Option<String>,
    text: String,
}

/// An answer that is not complete.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    message: String,
    agent: String,
    text: String,
}

impl Minutes {
    /// The minutes of a session of which nothing has happened yet.
    pub fn new(session: &SessionId) -> Self {
        Self {
            session: session.to_string(),
            settings: None,
            transport: 0,
            resume: None,
            connected: false,
            opened: false,
            generation: 0,
            state: ("connecting".to_owned(), 0),
            sent: 0,
            last: 0,
            numbered: None,
            from: 0,
            succession: Succession::default(),
            context: None,
            response: None,
            heard: None,
            asked: BTreeMap::new(),
            unsaid: None,
            history: 0,
            noted: VecDeque::new(),
            ended: None,
            held: None,
            turns: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// The minutes as they were left; none if another version has left them.
    pub fn restore(state: &[u8]) -> Option<Self> {
        let (version, state) = state.split_first()?;
        (*version == VERSION).then(|| serde_json::from_slice(state).ok()).flatten()
    }

    fn dispatch(&mut self, event: &Event, desk: &mut Desk) {
        if let Some((turn, mut item)) = self.held.take() {
            if let Event::TurnAccepted { turn: accepted, origin, .. } = event
                && accepted.as_str() == turn
                && origin.protocol == CHRONICLE
            {
                item["turn_id"] = origin.handle.clone().into();
            }
            self.append(item, desk);
        }
        match event {
            Event::Recorded { chronicle, record, .. } if **chronicle == *CHRONICLE => {
                for minute in serde_json::from_value::<Vec<Minute>>((**record).clone()).unwrap_or_default() {
                    self.note(minute, desk);
                }
            }
            Event::AttachmentOpened { attachment, generation, .. } if self.is_the_apps(attachment) => {
                (self.connected, self.opened) = (true, true);
                self.generation = *generation;
                desk.set([("connected", true.into()), ("opened", true.into()), ("left_at", Cell::Null)]);
            }
            Event::AttachmentDetached { attachment, .. } if self.is_the_apps(attachment) => self.leave(desk),
            Event::AttachmentClosed { attachment } if self.is_the_apps(attachment) => {
                self.leave(desk);
                self.end("idle", desk);
            }
            Event::TurnAccepted { turn, origin, agent, names, .. } => {
                if origin.protocol == CHRONICLE {
                    self.turns.insert(turn.to_string(), origin.handle.clone().unwrap_or_default());
                    // The user goes on.
                    self.unsaid = None;
                }
                if self.answers.len() < MOST_ANSWERS {
                    let message = names.as_ref().map(|names| names.answer_of(turn));
                    let message = message.unwrap_or_else(|| MessageId::answer_of(turn)).to_string();
                    let answer = Answer { message, agent: agent.to_string(), text: String::new() };
                    self.answers.insert(turn.to_string(), answer);
                }
            }
            Event::TurnOutput { turn, output: Output::Text(text) } => {
                let answer = self.answers.get_mut(turn.as_str());
                if let Some(answer) = answer.filter(|answer| answer.text.len() + text.len() <= LONGEST_ANSWER)
                {
                    answer.text.push_str(text);
                }
            }
            Event::MessageAdded { message } => self.add(message, desk),
            Event::CallEnded { turn, call, end } => {
                if let Some(asked) = self.asked.remove(call.as_str()) {
                    let (status, error) = match end {
                        CallEnd::Done { .. } => ("success", Value::Null),
                        CallEnd::Failed(error) => ("error", json!(error.name)),
                        CallEnd::TimedOut => ("error", json!("ACT_TIMEOUT")),
                        CallEnd::Cancelled => ("error", json!("ACT_CANCELLED")),
                    };
                    let item = json!({"id": format!("{call}.result"), "role": "user", "kind": "result",
                        "status": "complete", "turn_id": self.turns.get(turn.as_str()),
                        "response_id": asked.response, "action_id": asked.action,
                        "data": {"invocation_id": asked.invocation, "status": status, "error": error},
                        "metadata": {}});
                    self.append(item, desk);
                }
            }
            Event::TurnEnded { turn, end } => {
                let own = self.turns.remove(turn.as_str()).is_some();
                if let Some(answer) = self.answers.remove(turn.as_str()) {
                    self.answered(answer, own, matches!(end.outcome, TurnOutcome::Done(_)), desk);
                }
            }
            Event::Recorded { .. }
            | Event::SessionOpened { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::AttachmentLinked { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::ToolsChanged { .. }
            | Event::MessageEdited { .. }
            | Event::TipMoved { .. }
            | Event::SessionRenamed { .. }
            | Event::StandingChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReleased { .. }
            | Event::TurnOutput { .. }
            | Event::CallRequested { .. }
            | Event::CallProgress { .. }
            | Event::TurnInterrupted { .. } => {}
        }
    }

    fn note(&mut self, minute: Minute, desk: &mut Desk) {
        match minute {
            Minute::Created(settings) => {
                desk.put([
                    ("app_id", settings.app_id.as_str().into()),
                    ("sub", settings.sub.as_str().into()),
                    ("environment", settings.environment.as_str().into()),
                    ("mode", settings.mode.as_str().into()),
                    ("settings", text_of(&*settings).into()),
                    ("state", "connecting".into()),
                    ("state_seq", 0i64.into()),
                    ("context_version", 0i64.into()),
                    ("last_event_seq", 0i64.into()),
                    ("connected", false.into()),
                    ("opened", false.into()),
                    ("live", true.into()),
                    ("created_at", number(settings.created_at)),
                    ("expires_at", number(settings.expires_at)),
                ]);
                self.settings = Some(*settings);
            }
            Minute::Changed(settings) => {
                desk.set([("settings", text_of(&*settings).into())]);
                self.settings = Some(*settings);
            }
            Minute::Opened { arrival } => self.open(&arrival),
            Minute::Connected { resume } => {
                self.keep_heard(desk);
                self.resume = resume;
                self.unsaid = None;
            }
            Minute::Numbered { seq, transport, last } => {
                self.count(seq, desk);
                // One that was replaced meanwhile does not speak for the one that has replaced it.
                if last && transport == self.transport {
                    self.numbered = Some(seq);
                }
            }
            Minute::State { state, seq } => {
                desk.set([("state", state.as_str().into()), ("state_seq", number(seq))]);
                self.state = (state, seq);
            }
            Minute::Sent(events) => self.send(events, desk),
            Minute::Context(update) => {
                // It was checked before it was put on record.
                if let Ok(applied) = Context::apply(self.context.as_ref(), &update) {
                    desk.set([
                        ("context_version", number(applied.context.version)),
                        ("context", text_of(&applied.context).into()),
                    ]);
                    self.context = Some(applied.context);
                }
            }
            Minute::Asked(asked) => {
                let item = json!({"id": asked.invocation, "role": "assistant", "kind": "action",
                    "status": "complete", "turn_id": self.turns.get(&asked.turn), "response_id": asked.response,
                    "action_id": asked.action,
                    "data": {"invocation_id": asked.invocation, "parameters": asked.parameters}, "metadata": {}});
                self.append(item, desk);
                if self.asked.len() < MOST_ASKED {
                    self.asked.insert(asked.call.clone(), *asked);
                }
            }
            Minute::Settled { invocation } => self.asked.retain(|_, asked| asked.invocation != invocation),
            Minute::Noted(item) => self.append(item, desk),
            Minute::Heard { response, turn_id, more } => match &mut self.heard {
                Some(heard) if heard.response == response => {
                    if heard.text.len() + more.len() <= LONGEST_ANSWER {
                        heard.text.push_str(&more);
                    }
                }
                heard => *heard = Some(HeardSoFar { response, turn_id, text: more }),
            },
            Minute::Spoken(spoken) => {
                self.heard = None;
                let status = if spoken.complete { "complete" } else { "incomplete" };
                let item = json!({"id": spoken.response, "role": "assistant", "kind": "message",
                    "text": spoken.text, "status": status, "turn_id": spoken.turn_id,
                    "response_id": spoken.response, "metadata": spoken.metadata});
                self.append(item, desk);
            }
            Minute::Ended { reason, .. } => self.end(&reason, desk),
        }
    }

    fn send(&mut self, events: Vec<Value>, desk: &mut Desk) {
        for event in events {
            let (Some(seq), Some(name)) = (event["seq"].as_u64(), event["type"].as_str()) else { continue };
            if name == "error.recoverable" || name == "error.fatal" {
                let item = json!({"id": event["id"], "role": "system", "kind": "error", "status": "complete",
                    "data": {"code": event["data"]["code"]}, "metadata": {}});
                self.append(item, desk);
            }
            let response = event["data"]["response_id"].as_str();
            match name {
                "response.audio" | "server.announce" => {
                    self.response = response.map(str::to_owned);
                    self.unsaid = None;
                }
                "action.invoke" => self.response = response.map(str::to_owned),
                "response.done" if self.response.as_deref() == response => self.response = None,
                _ => {}
            }
            self.sent = self.sent.max(seq);
            desk.records.push(Record {
                table: tables::EVENTS.name,
                change: Change::Put,
                cells: vec![
                    ("session_id", self.session.as_str().into()),
                    ("seq", number(seq)),
                    ("type", name.into()),
                    ("event", event.to_string().into()),
                    ("at", number(desk.at.as_millis())),
                ],
            });
        }
        self.count(self.sent, desk);
    }

    /// A transport was opened. Every transport has numbers of its own: one that may still say something keeps
    /// enough of them for that.
    fn open(&mut self, arrival: &Arrival) {
        let known = self.sent.max(self.last).max(self.from);
        self.from = match self.numbered.take() {
            Some(numbered) => known.max(numbered),
            None if self.transport == 0 => known,
            None => known.saturating_add(MOST_UNRECORDED),
        };
        self.transport += 1;
        self.succession.open(arrival);
    }

    /// Events were sent up to this number.
    fn count(&mut self, seq: u64, desk: &mut Desk) {
        if seq > self.last {
            self.last = seq;
            desk.set([("last_event_seq", number(seq))]);
        }
    }

    /// An answer is over. One that is spoken here is put on record when it was heard; what others were answered
    /// is part of the history, too.
    fn answered(&mut self, answer: Answer, own: bool, complete: bool, desk: &mut Desk) {
        let Answer { message, agent, text } = answer;
        if text.trim().is_empty() {
            return;
        }
        if own {
            // Whoever is connected says so as soon as it is told.
            if complete && self.response.is_none() {
                self.unsaid = Some(text);
            }
            return;
        }
        let status = if complete { "complete" } else { "incomplete" };
        let item = json!({"id": message, "role": "assistant", "kind": "message", "text": text,
            "status": status, "metadata": {"model_id": agent}});
        self.append(item, desk);
    }

    /// What a message of the core is in the history: what somebody has said, or has told of what was said before.
    fn add(&mut self, message: &Message, desk: &mut Desk) {
        let turn_id = self.turns.get(message.turn.as_str());
        let text = message.text();
        let item = match &message.author {
            Author::User(_) => {
                let settings = self.settings.as_ref();
                json!({"id": message.id, "role": "user", "kind": "message", "text": text, "status": "complete",
                    "turn_id": turn_id, "metadata": {"user_id": settings.map(|settings| &settings.sub),
                        "locale": settings.map(|settings| &settings.locale)}})
            }
            Author::Agent(agent) if turn_id.is_none() => {
                json!({"id": message.id, "role": "assistant", "kind": "message", "text": text,
                    "status": "complete", "metadata": {"model_id": agent}})
            }
            Author::Agent(_) | Author::System => return,
        };
        if matches!(message.author, Author::User(_)) && turn_id.is_none() {
            self.held = Some((message.turn.to_string(), item));
            return;
        }
        self.append(item, desk);
    }

    /// Adds to the history; the members that are not there are left out. A transport that breaks and the one that
    /// follows it may both tell how the same ended: the first to be on record is right.
    fn append(&mut self, mut item: Value, desk: &mut Desk) {
        if let Some(id) = item["id"].as_str() {
            if self.noted.iter().any(|noted| noted == id) {
                return;
            }
            self.noted.push_back(id.to_owned());
            if self.noted.len() > MOST_NOTED {
                self.noted.pop_front();
            }
        }
        self.history += 1;
        if let Some(item) = item.as_object_mut() {
            item.retain(|_, value| !value.is_null());
            item.insert("seq".to_owned(), self.history.into());
            item.insert("ts".to_owned(), desk.at.as_millis().into());
        }
        desk.records.push(Record {
            table: tables::HISTORY.name,
            change: Change::Put,
            cells: vec![
                ("session_id", self.session.as_str().into()),
                ("seq", number(self.history)),
                ("item", item.to_string().into()),
                ("at", number(desk.at.as_millis())),
            ],
        });
    }

    /// Others who take part in the session come and go without it.
    fn is_the_apps(&self, attachment: &AttachmentId) -> bool {
        *attachment == attachment_of(&self.session)
    }

    /// Nobody goes on with what was being spoken: what was heard of it belongs into the history.
    fn keep_heard(&mut self, desk: &mut Desk) {
        let Some(HeardSoFar { response, turn_id, text }) = self.heard.take() else { return };
        let agent = self.settings.as_ref().map(|settings| &settings.agent);
        let item = json!({"id": response, "role": "assistant", "kind": "message", "text": text,
            "status": "incomplete", "turn_id": turn_id, "response_id": response,
            "metadata": {"model_id": agent}});
        self.append(item, desk);
    }

    fn leave(&mut self, desk: &mut Desk) {
        self.keep_heard(desk);
        self.connected = false;
        "not_connected".clone_into(&mut self.state.0);
        desk.set([
            ("connected", false.into()),
            ("state", "not_connected".into()),
            ("left_at", number(desk.at.as_millis())),
        ]);
    }

    fn end(&mut self, reason: &str, desk: &mut Desk) {
        if self.ended.is_none() {
            self.ended = Some(reason.to_owned());
            desk.set([
                ("live", false.into()),
                ("state", "not_connected".into()),
                ("ended_at", number(desk.at.as_millis())),
                ("end_reason", reason.into()),
            ]);
        }
    }

    /// What a turn that runs has answered so far.
    pub fn said(&self, turn: &TurnId) -> &str {
        self.answers.get(turn.as_str()).map_or("", |answer| answer.text.as_str())
    }

    /// Whether a turn was started by the client of this session, and what it calls it.
    pub fn turn_id(&self, turn: &TurnId) -> Option<&str> {
        self.turns.get(turn.as_str()).map(String::as_str)
    }
}

impl Chronicle for Minutes {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        let mut desk = Desk { session: self.session.clone(), at: committed.at, records: Vec::new() };
        self.dispatch(&committed.event, &mut desk);
        desk.records
    }

    fn state(&self) -> Bytes {
        let mut state = vec![VERSION];
        match serde_json::to_writer(&mut state, self) {
            Ok(()) => state.into(),
            // Maps of text cannot fail; if they did, the minutes would be taken again.
            Err(_) => Bytes::new(),
        }
    }
}

impl fmt::Debug for Minutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minutes")
            .field("session", &self.session)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Where records are written down.
struct Desk {
    session: String,
    at: Timestamp,
    records: Vec<Record>,
}

impl Desk {
    fn put<const N: usize>(&mut self, cells: [(&'static str, Cell); N]) {
        self.change(Change::Put, cells);
    }

    fn set<const N: usize>(&mut self, cells: [(&'static str, Cell); N]) {
        self.change(Change::Set, cells);
    }

    fn change<const N: usize>(&mut self, change: Change, cells: [(&'static str, Cell); N]) {
        let key = ("session_id", self.session.as_str().into());
        let cells = std::iter::once(key).chain(cells).collect();
        self.records.push(Record { table: tables::SESSIONS.name, change, cells });
    }
}

fn number(value: u64) -> Cell {
    i64::try_from(value).unwrap_or(i64::MAX).into()
}

fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

const VERSION: u8 = 1;
/// Turns that may run at once; of further ones the history does not hold the answer.
const MOST_ANSWERS: usize = 64;
/// Bytes of an answer that are kept.
pub(crate) const LONGEST_ANSWER: usize = 256 << 10;
/// Open requests to one app; more than can be open at once.
const MOST_ASKED: usize = 64;
/// Events that are never sent again, captions and audio in text, which a transport may have sent or may still send
/// since the last that is on record: half an hour of them.
const MOST_UNRECORDED: u64 = 100_000;
/// Items of the history that are known by id: more than can be open when a transport breaks.
const MOST_NOTED: usize = 64;

#[cfg(test)]
mod tests;
