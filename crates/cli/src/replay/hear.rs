//! What one side of a connection says, as units that can be compared: a frame, an event of a stream,
//! the head of an answer, a body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::recording::message::{Dialect, Message};
use crate::recording::{MAX_MESSAGE, Side, What, header};

/// Something to compare.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    /// What kind of thing it is, in the words of its protocol.
    pub(super) label: String,
    /// Units of one lane keep their order; those of different ones may come in any.
    pub(super) lane: String,
    /// What it says.
    pub(super) value: Value,
}

/// Listens to one side of one connection.
#[derive(Debug)]
pub(super) struct Ear {
    dialect: Dialect,
    speaker: Side,
    /// Whether the body of the answer is a stream of events.
    streams: bool,
    body: Vec<u8>,
}

impl Ear {
    /// For what `speaker` says.
    pub(super) fn new(dialect: Dialect, speaker: Side) -> Self {
        Self { dialect, speaker, streams: false, body: Vec::new() }
    }

    /// What is complete now.
    pub(super) fn hear(&mut self, what: &What) -> Vec<Unit> {
        match what {
            What::Request(request) => {
                let body = opened(&request.body.bytes());
                let value = json!({ "method": request.method, "target": request.target,
                    "headers": kept(&request.headers, REQUEST), "body": body });
                vec![whole("request", value)]
            }
            What::Answer(answer) => {
                let kind = header(&answer.headers, "content-type").unwrap_or_default();
                self.streams = kind.starts_with("text/event-stream");
                let headers = kept(&answer.headers, ANSWER);
                vec![whole("answer", json!({ "status": answer.status, "headers": headers }))]
            }
            What::Chunk(payload) => {
                let bytes = payload.bytes();
                if self.body.len() + bytes.len() <= MAX_MESSAGE {
                    self.body.extend_from_slice(&bytes);
                }
                if self.streams { self.events() } else { Vec::new() }
            }
            What::End(_) => {
                let body = std::mem::take(&mut self.body);
                match (self.streams, body.is_empty()) {
                    (true, _) => vec![whole("end", json!({ "end": true }))],
                    (false, true) => Vec::new(),
                    (false, false) => vec![whole("body", json!({ "body": opened(&Bytes::from(body)) }))],
                }
            }
            What::Text(text) => self.message(&Message::text(text)),
            What::Binary(base64) => {
                let bytes = Bytes::from(STANDARD.decode(base64).unwrap_or_default());
                self.message(&Message::binary(self.dialect, &bytes))
            }
            What::Close(goodbye) => {
                vec![whole("close", json!({ "close": goodbye.code, "reason": goodbye.reason }))]
            }
            What::Lost(_) => vec![whole("loss", json!({ "lost": true }))],
        }
    }

    fn message(&self, message: &Message) -> Vec<Unit> {
        message.units().into_iter().filter_map(|value| self.unit(value)).collect()
    }

    /// Events of a stream end with an empty line.
    fn events(&mut self) -> Vec<Unit> {
        let mut units = Vec::new();
        while let Some(end) = self.body.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.body.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block);
            let data: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            // A comment keeps the connection alive, and says nothing.
            if !data.is_empty() {
                let data: Vec<&str> =
                    data.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                let value = opened(&Bytes::from(data.join("\n")));
                units.extend(self.unit(value));
            }
        }
        units
    }

    /// A message as a unit; none for what comes at times of its own.
    fn unit(&self, value: Value) -> Option<Unit> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let (label, lane) = match self.dialect {
            Dialect::Asp => {
                let payload = &value["payload"];
                let inside =
                    word(&payload["t"]).or_else(|| word(&payload["op"])).or_else(|| word(&payload["kind"]));
                let frame = word(&value["frame"]).unwrap_or_default();
                if frame == "HELLO" && inside.as_deref() == Some("pong") {
                    return None;
                }
                let id = &value["id"];
                (format!("{frame} {} id {id}", inside.unwrap_or_default()), id.to_string())
            }
            Dialect::Acolyte => {
                let kind = word(&value["type"]).unwrap_or_default();
                let event = word(&value["event"]["type"]);
                // How often the count of tokens is told is a matter of time.
                if kind == "usage" || event.as_deref() == Some("usage") {
                    return None;
                }
                let label = event.map_or_else(|| kind.clone(), |event| format!("{kind} {event}"));
                (label, value["id"].to_string())
            }
            Dialect::Alicia => {
                let logged = value["stanzaId"].as_i64().is_some_and(|stanza| stanza < 0);
                (format!("envelope of type {}", value["type"]), logged.to_string())
            }
            Dialect::Aip | Dialect::Vip | Dialect::Other => {
                let kind = word(&value["type"]).unwrap_or_else(|| "message".to_owned());
                (kind, String::new())
            }
        };
        // A client does one thing after the other, and calls its requests as it likes.
        let lane = if self.speaker == Side::Client { String::new() } else { lane };
        Some(Unit { label, lane, value })
    }
}

fn whole(label: &str, value: Value) -> Unit {
    Unit { label: label.to_owned(), lane: String::new(), value }
}

/// A body, as the tree that it holds.
fn opened(bytes: &Bytes) -> Value {
    let message = match std::str::from_utf8(bytes) {
        Ok(text) => Message::text(text),
        Err(_) => Message::Bytes(bytes.clone()),
    };
    message.units().into_iter().next().unwrap_or_default()
}

/// Headers that say something about the protocol.
fn kept(headers: &[(String, String)], names: &[&str]) -> Value {
    let kept = headers.iter().filter(|(name, _)| {
        names.contains(&name.as_str())
            || ["acolyte-", "vip-", "alicia-"].iter().any(|start| name.starts_with(start))
    });
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone().into())).collect())
}

const REQUEST: &[&str] =
    &["authorization", "content-type", "idempotency-key", "sec-websocket-protocol", "x-api-key"];
const ANSWER: &[&str] = &[
    "cache-control",
    "content-type",
    "location",
    "retry-after",
    "sec-websocket-protocol",
    "www-authenticate",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Answer, Payload};

    #[test]
    fn a_stream_is_heard_event_by_event_however_it_was_cut() {
        let head = What::Answer(Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        });
        let text = "data: {\"type\":\"text-delta\",\"text\":\"a\"}\n\n:\n\ndata: {\"type\":\"usage\"}\n\ndata: {\"type\":\"done\"}\n\n";
        let heard = |cuts: &[usize]| {
            let mut ear = Ear::new(Dialect::Acolyte, Side::Server);
            let mut units = ear.hear(&head);
            let mut from = 0;
            for cut in cuts.iter().copied().chain([text.len()]) {
                units.extend(ear.hear(&What::Chunk(Payload::Text(text[from..cut].to_owned()))));
                from = cut;
            }
            units.extend(ear.hear(&What::End(true)));
            units
        };
        let whole = heard(&[]);
        let labels: Vec<&str> = whole.iter().map(|unit| unit.label.as_str()).collect();
        assert_eq!(labels, ["answer", "text-delta", "done", "end"]);
        assert_eq!(whole, heard(&[7, 40, 43, 60]));
    }

    #[test]
    fn a_body_is_one_unit() {
        let mut ear = Ear::new(Dialect::Vip, Side::Server);
        assert!(ear.hear(&What::Chunk(Payload::Text("{\"a\":".to_owned()))).is_empty());
        assert!(ear.hear(&What::Chunk(Payload::Text("1}".to_owned()))).is_empty());
        assert_eq!(ear.hear(&What::End(true))[0].value, json!({"body": {"a": 1}}));
    }
}
