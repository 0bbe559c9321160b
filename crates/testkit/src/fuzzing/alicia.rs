//! Alicia: bytes to envelopes and back in both profiles, and anything that can happen to a connection.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use switchboard_alicia::annals::Annalist;
use switchboard_alicia::message::ModelInfo;
use switchboard_alicia::value::{decode_msgpack, encode_msgpack};
use switchboard_alicia::{
    Alicia, AliciaLimits, Decoded, Dialect, Facts, Id, Map, Prefix, Service, Side, Value, decode, encode,
    encode_lite,
};
use switchboard_core::{Frame, OpeningRequest, Seed};

use super::Choices;
use super::connection::Bench;

/// Reads bytes as both sides and in every dialect; what was understood is written canonically, and that
/// form is read and written as itself. What is held is in proportion to what came.
///
/// # Panics
/// Something is broken.
pub fn alicia_decode(bytes: &[u8]) {
    let limits = AliciaLimits::default();
    if let Ok(value) = decode_msgpack(bytes) {
        assert!(count(&value) <= bytes.len(), "every value costs a byte");
        let canonical = packed(&value);
        let again = decode_msgpack(&canonical).map(|value| packed(&value));
        assert_eq!(again.as_ref(), Ok(&canonical), "a value is read as it was written");
    }
    for from in [Side::Client, Side::Server] {
        for dialect in [Dialect::LiveKit, Dialect::Undecided, Dialect::Full, Dialect::Lite] {
            let read = decode(bytes, from, dialect, &limits);
            assert!(read.len() <= limits.batch as usize, "an array has so many envelopes and no more");
            for result in read {
                match result {
                    Ok(decoded) => check(&decoded, from, dialect, &limits),
                    Err(error) => {
                        assert!(error.to_string().len() <= 2048, "a refusal is short");
                        assert!(error.close().is_none() || bytes.len() > limits.frame as usize);
                    }
                }
            }
        }
    }
}

/// An envelope in its canonical form is read and written as itself.
fn check(decoded: &Decoded, from: Side, dialect: Dialect, limits: &AliciaLimits) {
    let canonical = written(decoded);
    // A dialect that was undecided is what the envelope made of it.
    let dialect = if dialect == Dialect::LiveKit { dialect } else { decoded.dialect() };
    let mut again = decode(&canonical, from, dialect, limits);
    assert_eq!(again.len(), 1, "one envelope is written as one");
    match again.remove(0) {
        Ok(again) => assert_eq!(written(&again), canonical, "an envelope is read as it was written"),
        // The canonical form of short floats is longer, and packets of rooms are small.
        Err(error) => assert!(
            canonical.len() > switchboard_alicia::RELIABLE_PACKET && dialect == Dialect::LiveKit,
            "what was understood once is understood again: {error}"
        ),
    }
}

fn written(decoded: &Decoded) -> Bytes {
    match decoded {
        Decoded::Full { envelope, .. } => encode(envelope),
        Decoded::Lite(envelope) => encode_lite(envelope),
    }
}

fn packed(value: &Value) -> BytesMut {
    let mut out = BytesMut::new();
    encode_msgpack(value, &mut out);
    out
}

/// How many values there are; keys of maps are none.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Map(map) => map.iter().map(|(_, member)| count(member)).sum(),
        Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Bin(_) => 0,
    }
}

/// Feeds a connection frames, answers, events, time, pressure and goodbyes in any order that a server
/// could. It always comes to rest, is silent after it has closed, and stays small.
///
/// # Panics
/// Something is broken.
pub fn alicia_connection(bytes: &[u8]) {
    let limits = AliciaLimits {
        subscriptions: 2,
        work_queue: 3,
        envelopes_per_10_s: 1000,
        envelopes_burst: 1000,
        ..AliciaLimits::default()
    };
    let facts = |_: &_| Facts {
        model: ModelInfo { name: "model".into(), provider: "nobody".into() },
        servers: Vec::new(),
    };
    let service = Service { elites: Vec::new().into(), facts: std::sync::Arc::new(facts), hears: false };
    let request = OpeningRequest { path: "/api/v1/ws", websocket: true, ..OpeningRequest::default() };
    Bench::new(&Alicia::new(limits, service), request, likely_frame).with(Annalist).run(bytes);
}

/// A frame that makes sense, most of the time. The stanza grows with what is left of the input, so that
/// most frames of one run are in order.
fn likely_frame(choices: &mut Choices<'_>, said: &VecDeque<Bytes>, _number: u64) -> Frame {
    let stanza = i64::from(u16::MAX) - i64::try_from(choices.rest.len()).unwrap_or_default();
    // The seed is always the same, and so are the first ids that a connection makes.
    let made = |counter| Id::fresh(Prefix::Conversation, &Seed::new([7; 32]), counter).to_string();
    let conversation = match choices.below(6) {
        0 => String::new(),
        4 => made(2),
        5 => "ac_none".to_owned(),
        _ => made(1),
    };
    let message = format!("am_{}", choices.below(4));
    let (kind, body) = likely_body(choices, &conversation, &message, said);
    let lite = choices.below(16) == 0;
    let mut map = Map::new();
    if !lite {
        map.insert("stanzaId", if choices.below(8) == 0 { i64::from(choices.below(4)) } else { stanza });
    }
    map.insert("conversationId", conversation);
    map.insert("type", kind);
    map.insert("body", body);
    Frame::Binary(packed(&Value::Map(map)).freeze())
}

/// The use of a tool that a message asks for.
fn tool_use(message: &Bytes) -> Option<String> {
    let Ok(Value::Map(envelope)) = decode_msgpack(message) else { return None };
    let body = envelope.get("body").and_then(Value::as_map)?;
    (envelope.get_int("type") == Some(6)).then(|| body.get_str("id").map(str::to_owned)).flatten()
}

/// A type that a client sends, and a body for it.
fn likely_body(
    choices: &mut Choices<'_>,
    conversation: &str,
    message: &str,
    said: &VecDeque<Bytes>,
) -> (i64, Map) {
    let own = Map::new().with("conversationId", conversation);
    let asked = (choices.below(4) > 0).then(|| said.iter().rev().find_map(tool_use)).flatten();
    let tool = asked.unwrap_or_else(|| "atu_none".to_owned());
    match choices.below(20) {
        0..4 => (2, own.with("id", message).with("content", "hello")),
        4 => (2, own.with("id", message).with("previousId", "am_0").with("content", "branch")),
        5 => (7, own.with("id", "r").with("requestId", tool).with("success", true).with("result", "ok")),
        6 => (7, own.with("id", tool).with("success", false).with("errorCode", "timeout")),
        7 => (8, own.with("acknowledgedStanzaId", -1_i64).with("success", true)),
        8 => (10, own.with("stopType", choices.pick(&["all", "generation", "speech"]).unwrap_or("all"))),
        9 => {
            let mode = choices.pick(&["edit", "regenerate", "continue", "retry"]).unwrap_or("edit");
            let map = own.with("targetId", message).with("mode", mode);
            (11, if choices.below(2) == 0 { map.with("newContent", "other") } else { map })
        }
        10 => (12, own.with("lastSequenceSeen", -i64::from(choices.below(8)))),
        11 => {
            let features = ["streaming", "tool_use", "tool:run", "reasoning_steps"].map(Value::from);
            (12, own.with("features", Value::Array(features.to_vec())))
        }
        12 => (15, own.with("id", "aucc_1").with("messageId", message).with("content", "hm")),
        13 => {
            let one = Map::new()
                .with("localId", format!("local_{}", choices.below(4)))
                .with("sequenceNumber", i64::from(choices.below(8)))
                .with("role", choices.pick(&["user", "assistant", "system"]).unwrap_or("user"))
                .with("contents", "offline")
                .with("createdAt", "2026-01-01T00:00:00Z");
            (17, Map::new().with("messages", Value::Array(vec![Value::Map(one)])))
        }
        14 => {
            let vote = choices.pick(&["up", "down", "critical", "remove"]).unwrap_or("up");
            let map = own.with("id", "av_1").with("messageId", message).with("targetType", "message");
            (20, map.with("targetId", message).with("vote", vote).with("timestamp", 1_i64))
        }
        15 => {
            let action = choices.pick(&["create", "update", "delete"]).unwrap_or("create");
            let map = Map::new().with("id", "an_1").with("messageId", message).with("content", "note");
            (22, map.with("category", "general").with("action", action).with("timestamp", 1_i64))
        }
        16 => {
            let action = choices.pick(&["create", "update", "delete", "pin", "archive"]).unwrap_or("pin");
            let memory = Map::new().with("content", "likes tea").with("category", "fact");
            let map = Map::new().with("id", "amem_1").with("action", action).with("memory", memory);
            (24, map.with("timestamp", 1_i64))
        }
        17 => {
            let map = own.with("weights", Map::new().with("quality", 1_i64)).with("preset", "speed");
            (29, map.with("timestamp", 1_i64))
        }
        18 => (41, own),
        _ => (40, if choices.below(2) == 0 { own.with("fromSequence", 0_i64) } else { own }),
    }
}
