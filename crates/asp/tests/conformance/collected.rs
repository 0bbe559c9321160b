//! Answers that are collected for the end of a request (`stream:false`, §7), and large records (§2.3).

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_asp::message::Features;
use switchboard_asp::{AspLimits, Flags, Frame, Opcode};
use switchboard_core::Frame as TransportFrame;
use switchboard_testkit::{Received, Script, Settings, Step, opening};

use crate::support::{Seen, Talk, split};

/// A client that collects whole records from messages of a bounded size.
struct Collector {
    talk: Talk,
    features: Vec<&'static str>,
    max_payload: u32,
    max_message: usize,
    accept: Value,
    partial: Vec<u8>,
}

impl Collector {
    fn new(script: Script, features: &[&'static str], max_payload: u32, max_message: u32) -> Self {
        let limits = AspLimits { max_message, ..AspLimits::default() };
        let mut collector = Self {
            talk: Talk::with(script, limits, Settings::default()),
            features: features.to_vec(),
            max_payload,
            max_message: max_message as usize,
            accept: Value::Null,
            partial: Vec::new(),
        };
        collector.hello(None);
        collector
    }

    fn hello(&mut self, resume: Option<Value>) {
        if self.features.is_empty() {
            return;
        }
        let mut hello = json!({
            "features": self.features, "enc": ["json"], "limits": {"max_payload": self.max_payload},
        });
        if let Some(resume) = resume {
            hello["resume"] = resume;
        }
        self.talk.say(Opcode::Hello, 0, hello.to_string());
        self.talk.features = Features::agree(self.features.iter().copied(), Features::ALL);
    }

    /// The messages that have arrived, each within the limit.
    fn messages(&mut self) -> Vec<Bytes> {
        let received = self.talk.world.take(self.talk.peer).into_iter();
        let messages = received.map(|received| match received {
            Received::Frame(TransportFrame::Binary(message)) => message,
            other => panic!("the server sent {other:?}"),
        });
        messages
            .inspect(|message| assert!(message.len() <= self.max_message, "{} bytes at once", message.len()))
            .collect()
    }

    /// The whole records of a message on #1; the accept is kept apart.
    fn records(&mut self, message: Bytes) -> Vec<Value> {
        let mut records = Vec::new();
        for seen in split(message) {
            let Seen::Frame(Frame { opcode, id, payload, flags, .. }) = seen else { panic!("{seen:?}") };
            self.partial.extend_from_slice(&payload);
            if flags.has(Flags::MORE) && !self.features.is_empty() {
                continue;
            }
            let whole = std::mem::take(&mut self.partial);
            assert!(whole.len() <= self.max_payload as usize, "{} bytes in a record", whole.len());
            if opcode == Opcode::Hello {
                self.accept = serde_json::from_slice(&whole).unwrap();
            } else if id == 1 && !self.features.is_empty() {
                records.push(serde_json::from_slice(&whole).unwrap());
            } else if id == 1 {
                records.push(json!({"t": if whole.is_empty() { "end" } else { "text" },
                    "d": String::from_utf8(whole).unwrap()}));
            }
        }
        records
    }

    fn ask(&mut self, stream: bool) {
        for message in self.messages() {
            self.records(message);
        }
        let invoke = json!({"kind": "chat", "input": "talk", "stream": stream});
        self.talk.say(Opcode::Invoke, 1, invoke.to_string());
        self.talk.world.advance(100);
    }

    fn rest(&mut self) -> Vec<Value> {
        let mut records = Vec::new();
        loop {
            let messages = self.messages();
            if messages.is_empty() {
                return records;
            }
            for message in messages {
                records.extend(self.records(message));
            }
            self.talk.world.advance(10);
        }
    }

    /// Cuts the connection, and resumes from this index.
    fn resume(&mut self, next: usize) {
        self.partial.clear();
        self.talk.world.cut(self.talk.peer);
        let resume = json!({
            "cid": self.accept["cid"], "token": self.accept["resume"]["token"], "next": {"1": next},
        });
        self.talk.reconnect(opening());
        self.hello(Some(resume));
        self.talk.world.advance(10);
    }
}

fn text(records: &[Value]) -> String {
    records.iter().filter_map(|record| record["d"].as_str().or_else(|| record["output"].as_str())).collect()
}

/// An answer of three million bytes, a part of which grows when it is written as JSON.
fn long() -> (Script, String) {
    let piece = format!("{}\n\"\u{1}é", "x".repeat(994));
    let steps = vec![Step::Text(piece.clone()); 3_000];
    (Script::new().on("talk", steps), piece.repeat(3_000))
}

#[test]
fn asp_087_a_collected_answer_of_any_size_is_delivered_in_messages_that_are_not_too_large() {
    const DEFAULT: u32 = 1 << 20;
    for (features, max_payload, max_message) in [
        (&[][..], DEFAULT, 2 << 20),
        (&["flags", "events"], DEFAULT, 2 << 20),
        (&["flags", "events", "resume"], DEFAULT, 2 << 20),
        (&["flags", "events", "resume", "frag"], DEFAULT, 2 << 20),
        (&["flags", "events", "resume"], 4_096, 2 << 20),
        (&["flags", "events", "resume"], DEFAULT, 128 << 10),
        (&["flags", "events", "resume", "frag"], DEFAULT, 128 << 10),
    ] {
        for stream in [false, true] {
            let (script, whole) = long();
            let mut client = Collector::new(script, features, max_payload, max_message);
            client.ask(stream);
            let records = client.rest();
            assert!(text(&records) == whole, "{features:?} {max_payload} {max_message}: the text differs");
            assert_eq!(records.last().unwrap()["t"], "end");
            if features.contains(&"resume") {
                for (index, record) in records.iter().enumerate() {
                    assert_eq!(record["n"], index, "every record has the next index");
                }
            }
        }
    }
}

#[test]
fn asp_087_the_pieces_of_a_collected_answer_can_be_resumed() {
    for (max_payload, afterwards) in [(1 << 20, 1 << 20), (4_096, 4_096), (4_096, 1 << 20), (1 << 20, 65_536)]
    {
        let (script, whole) = long();
        let mut client = Collector::new(script, &["flags", "events", "resume"], max_payload, 2 << 20);
        client.ask(false);
        let mut records = Vec::new();
        let messages = client.messages();
        for message in messages.into_iter().take(4) {
            records.extend(client.records(message));
        }
        assert_eq!(records.last().unwrap()["n"], records.len() - 1);
        // The client may take more or less by then.
        client.max_payload = afterwards;
        client.resume(records.len());
        records.extend(client.rest());
        assert!(text(&records) == whole, "{max_payload}, then {afterwards}: the text differs");
        let indexes: Vec<u64> = records.iter().filter_map(|record| record["n"].as_u64()).collect();
        assert_eq!(indexes, (0..indexes.len() as u64).collect::<Vec<_>>());
        assert_eq!(records.last().unwrap()["finish"], "complete");
    }
}

#[test]
fn asp_087_an_answer_that_fits_comes_with_the_end() {
    let script = Script::new().on("talk", vec![Step::Fill { bytes: 900_000, piece: 4_000 }]);
    let mut client = Collector::new(script, &["flags", "events", "resume"], 1 << 20, 2 << 20);
    client.ask(false);
    let records = client.rest();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["output"].as_str().unwrap().len(), 900_000);
}

#[test]
fn asp_048_the_pieces_of_a_collected_answer_wait_for_credit() {
    let (script, _) = long();
    let mut client = Collector::new(script, &["flags", "events", "resume", "credit"], 1 << 20, 2 << 20);
    client.ask(false);
    let sent: usize = client.messages().iter().map(Bytes::len).sum();
    assert!(sent < (256 << 10) + (1 << 20), "{sent} bytes without credit");
}
