//! What a device says of itself: told at registration, pulled when a constellation asks (§6.5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::{Bucket, Callsign, Op, Output, Rate, Timestamp};

use super::{AipConnection, Pending};
use crate::error::words;
use crate::message::{ClientMessage, ClientType, ServerMessage, ServerMessageType, TaskStatus};

/// Facts, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// A device: what it said last.
    pub(super) known: Value,
    /// A device: the question it was asked, and who is to be told.
    pull: Option<Pull>,
    /// A device: it does not answer questions, so it is not asked again.
    mute: bool,
    /// A device: how often its news are stored.
    bucket: Option<Bucket>,
    /// A device: when its latest news are to be stored, if they are not.
    unstored: Option<Timestamp>,
    /// A constellation: its questions, by their tickets.
    waiting: BTreeMap<String, Waiting>,
}

#[derive(Debug)]
struct Pull {
    id: String,
    until: Timestamp,
    /// Where to send the answer, and under which ticket.
    askers: Vec<(Callsign, String)>,
}

#[derive(Debug)]
struct Waiting {
    device: String,
    request_id: Option<String>,
    until: Timestamp,
}

impl AipConnection {
    /// A constellation asks what its device says of itself.
    pub(super) fn ask_facts(&mut self, message: ClientMessage) {
        let Some(identity) = &self.identity else { return };
        if identity.role != ClientType::Constellation {
            return self.refuse_message(words::INFO_ROLE, &message);
        }
        let registered = identity.target.clone();
        let own = identity.callsign.clone();
        let named = message.target_id.clone().filter(|id| !id.is_empty()).map(Callsign::new);
        if registered.is_some() && named.is_some() && named != registered {
            return self.refuse_message(words::INFO_DEVICE, &message);
        }
        let Some(device) = named.or(registered) else {
            return self.refuse_message(words::INFO_TARGET, &message);
        };
        if self.facts.waiting.len() >= MAX_WAITING {
            return self.refuse_message(words::TOO_MANY_QUESTIONS, &message);
        }
        let ticket = self.fresh_id();
        let until = self.now.after(self.pull_budget() + MARGIN);
        let waiting = Waiting { device: device.to_string(), request_id: message.request_id, until };
        self.facts.waiting.insert(ticket.clone(), waiting);
        let body = json!({ "ask": { "ticket": ticket, "from": own.as_str() } });
        let request = self.asked.ask(Pending::Facts(ticket));
        self.out.push_back(Output::Note(request, device, body));
    }

    /// A word from another connection.
    pub(super) fn noted(&mut self, body: &Value) {
        let text = |part: &Value, key: &str| part.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(ask) = body.get("ask") {
            if let (Some(ticket), Some(asker)) = (text(ask, "ticket"), text(ask, "from")) {
                self.pull_facts(Callsign::new(asker), ticket);
            }
        } else if let Some(tell) = body.get("tell") {
            if let Some(ticket) = text(tell, "ticket") {
                let facts = tell.get("facts").unwrap_or(&Value::Null);
                self.answer_facts(&ticket, facts);
            }
        } else if let Some(task) = body.get("dispatch") {
            self.dispatch(task);
        }
    }

    fn pull_facts(&mut self, asker: Callsign, ticket: String) {
        if self.identity.as_ref().is_none_or(|identity| identity.role != ClientType::Device) {
            return;
        }
        if self.facts.mute {
            let facts = self.facts.known.clone();
            return self.tell_facts(asker, ticket, facts);
        }
        if let Some(pull) = &mut self.facts.pull {
            return pull.askers.push((asker, ticket));
        }
        let id = self.fresh_id();
        let until = self.now.after(self.pull_budget());
        self.facts.pull = Some(Pull { id: id.clone(), until, askers: vec![(asker, ticket)] });
        let question = ServerMessage::new(ServerMessageType::DeviceInfoRequest, TaskStatus::Ok);
        self.send(ServerMessage { response_id: Some(id), ..question });
    }

    /// A device tells what it says of itself now, asked or not; never answered.
    pub(super) fn take_facts(&mut self, message: ClientMessage) {
        let Some(identity) = &self.identity else { return };
        if identity.role != ClientType::Device {
            return;
        }
        if message.status != TaskStatus::Error
            && let Some(facts) = message.metadata.filter(|facts| !facts.is_empty())
        {
            self.learn(Value::Object(facts));
        }
        let answers = |id: &Option<String>, pull: &Pull| id.as_deref() == Some(pull.id.as_str());
        let pulled = self
            .facts
            .pull
            .take_if(|pull| answers(&message.prev_response_id, pull) || answers(&message.request_id, pull));
        if let Some(pull) = pulled {
            self.tell_askers(pull);
        }
    }

    /// Takes in what a device says of itself. What is no news, or too much of it, costs the log nothing.
    fn learn(&mut self, facts: Value) {
        if facts == self.facts.known || size(&facts) > self.limits.facts_bytes as usize {
            return;
        }
        self.facts.known = facts;
        self.store_facts();
    }

    /// Stores the latest news of this device, at once or when there is room for them again.
    fn store_facts(&mut self) {
        let most = u64::from(self.limits.facts_per_minute);
        let bucket = self.facts.bucket.get_or_insert_with(|| Bucket::new(Rate::per_minute(most, most)));
        self.facts.unstored = bucket.take(1, self.now).err().map(|wait| self.now.after(wait));
        if self.facts.unstored.is_none() {
            let (home, facts) = (self.home(), self.facts.known.clone());
            self.insist(&home, Op::Report { facts });
        }
    }

    fn tell_askers(&mut self, pull: Pull) {
        for (asker, ticket) in pull.askers {
            let facts = self.facts.known.clone();
            self.tell_facts(asker, ticket, facts);
        }
    }

    fn tell_facts(&mut self, asker: Callsign, ticket: String, facts: Value) {
        let request = self.asked.ask(Pending::Nothing);
        let body = json!({ "tell": { "ticket": ticket, "facts": facts } });
        self.out.push_back(Output::Note(request, asker, body));
    }

    /// The constellation has its answer.
    pub(super) fn answer_facts(&mut self, ticket: &str, facts: &Value) {
        let Some(Waiting { device, request_id, .. }) = self.facts.waiting.remove(ticket) else { return };
        let answer = if facts.is_null() {
            // A6: both ways of saying it, for old clients and new ones.
            let why = words::no_info(&device);
            let answer = ServerMessage::new(ServerMessageType::DeviceInfoResponse, TaskStatus::Error);
            ServerMessage { result: Some(Arc::new(json!({ "error": why }))), error: Some(why), ..answer }
        } else {
            let answer = ServerMessage::new(ServerMessageType::DeviceInfoResponse, TaskStatus::Ok);
            ServerMessage { result: Some(Arc::new(facts.clone())), ..answer }
        };
        self.send(ServerMessage { response_id: request_id, ..answer });
    }

    pub(super) fn facts_wake(&self) -> Option<Timestamp> {
        let pull = self.facts.pull.as_ref().map(|pull| pull.until);
        let waiting = self.facts.waiting.values().map(|waiting| waiting.until);
        waiting.chain(pull).chain(self.facts.unstored).min()
    }

    pub(super) fn facts_timeout(&mut self) {
        let now = self.now;
        if self.facts.unstored.is_some_and(|at| at <= now) {
            self.store_facts();
        }
        if let Some(pull) = self.facts.pull.take_if(|pull| pull.until <= now) {
            self.facts.mute = true;
            self.tell_askers(pull);
        }
        let late: Vec<String> = self
            .facts
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.until <= now)
            .map(|(ticket, _)| ticket.clone())
            .collect();
        for ticket in late {
            self.answer_facts(&ticket, &Value::Null);
        }
    }

    fn pull_budget(&self) -> Duration {
        Duration::from_millis(self.limits.facts_ms.into())
    }
}

/// How long a value is as JSON, without writing it down.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a value is always JSON.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// For the way there and back.
const MARGIN: Duration = Duration::from_millis(500);
/// Questions that a constellation may have open.
const MAX_WAITING: usize = 64;
