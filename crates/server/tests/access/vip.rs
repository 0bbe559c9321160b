//! VIP: a transport carries one session, and its token opens no other. What can be said on one's own about somebody
//! else's is tried here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::line::{Line, Speech};
use crate::scrub::scrubbed;
use crate::world::{MARK, Names, World, create};

/// The data of an event, about these things.
type Data = fn(&Names) -> Value;

/// What names something that could be somebody else's: the event, its data, and how many events answer it.
const NAMING: &[(&str, Data, usize)] = &[
    ("client.connect", |names| json!({ "session_id": names.vip, "protocol_version": "0.1" }), 2),
    ("action.ack", |names| json!({ "invocation_id": names.call, "started": true }), 0),
    (
        "action.result",
        |names| {
            json!({ "invocation_id": names.call, "action_id": "a", "status": "success", "event": "action.success",
                "executed": true, "duration_ms": 1 })
        },
        0,
    ),
    ("audio.progress", |names| json!({ "response_id": names.call, "played_ms": 1 }), 0),
    ("audio.complete", |names| json!({ "response_id": names.call, "played_ms": 1 }), 0),
    ("input.barge_in", |names| json!({ "trigger": "manual", "response_id": names.call, "played_ms": 1 }), 1),
    ("function.call", |names| json!({ "invocation_id": names.call, "name": "f", "parameters": {} }), 1),
];

/// What is about the transport's own session, and can be about no other.
const OWN: &[&str] = &[
    "state.update",
    "input.start",
    "input.detected",
    "input.text",
    "input.end",
    "input.cancel",
    "input.timeout",
    "control.mute",
    "session.update",
    "session.ping",
    "session.close",
    "state.report",
    "provider.attached",
    "history.append",
    "audio.chunk",
    "error.recoverable",
    "error.fatal",
];

/// Whether every event of a client is in one of the lists; the events are read from the code.
pub(crate) fn check_words() -> Vec<String> {
    let source = include_str!("../../../vip/src/message/mod.rs");
    let list = source.split("    ClientEvent {").nth(1).and_then(|rest| rest.split("\n    }").next());
    let known: BTreeSet<&str> = list.unwrap_or_default().split('"').skip(1).step_by(2).collect();
    assert!(known.len() > 20, "{known:?}");
    let said: BTreeSet<&str> = NAMING.iter().map(|(word, ..)| *word).chain(OWN.iter().copied()).collect();
    known.symmetric_difference(&said).map(|word| format!("VIP: {word} is not in both lists")).collect()
}

/// Says what names something on a transport of Bob's own, about Ann's things and about nobody's.
pub(crate) async fn check(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let nobody = world.names.of_nobody();
    for (word, data, answers) in NAMING {
        let foreign = told(world, word, *data, &world.names, *answers).await;
        let unknown = told(world, word, *data, &nobody, *answers).await;
        if foreign != unknown {
            wrong.push(format!("VIP {word}: a stranger can tell\n  {foreign}\n  from\n  {unknown}"));
        }
        if foreign.contains(MARK) {
            wrong.push(format!("VIP {word}: a stranger reads what is Ann's:\n  {foreign}"));
        }
    }
    wrong
}

async fn told(world: &World, word: &str, data: Data, names: &Names, answers: usize) -> String {
    let session = create(world.address(), "bob", "external").await;
    let (id, token) = (session["session_id"].as_str().unwrap(), session["session_token"].as_str());
    let path = format!("/v1/vip/sessions/{id}/stream");
    let mut line = Line::open(world.address(), &path, Speech::Vip, token, &[]).await.unwrap();
    if word != "client.connect" {
        let connect = json!({ "session_id": id, "protocol_version": "0.1" });
        line.say(&json!({ "type": "client.connect", "data": connect })).await;
        line.hear_until(|heard| heard["type"] == "session.connected").await;
        let screen = json!({ "mode": "full", "context_version": 1, "route": { "id": "home" }, "routes": [],
            "narration": "Home.", "actions": {}, "visibility": [] });
        line.say(&json!({ "type": "state.update", "data": screen })).await;
        line.hear_until(|heard| heard["type"] == "state.changed").await;
    }
    let said = json!({ "type": word, "data": data(names), "turn_id": "t-1" });
    let heard = line.ask(&said, answers).await;
    let text = json!(heard).to_string().replace(id, "OWN");
    scrubbed(&text, names)
}
