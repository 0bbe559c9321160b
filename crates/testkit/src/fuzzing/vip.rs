//! VIP: text to events and back, frames of audio, screens and what may be done on them, and anything that can
//! happen to a connection.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::{Frame, Op, OpeningRequest, SessionId};
use switchboard_vip::action::{check, digest, invocable, redact, tool_schema};
use switchboard_vip::audio::{AudioFrame, Format};
use switchboard_vip::codec::{decode_client, decode_server, encode_client, encode_server};
use switchboard_vip::context::Context;
use switchboard_vip::message::TurnDetection;
use switchboard_vip::minutes::{CHRONICLE, Minute, Secretary, Settings};
use switchboard_vip::{STREAM, Service, Speech, Vip, VipLimits};

use super::Choices;
use super::connection::Bench;
use crate::seal::NoSeal;

/// Reads bytes as events of both sides, and as a frame of audio; what was understood is written and read again, and
/// has to be the same.
///
/// # Panics
/// Something is broken.
pub fn vip_decode(bytes: &[u8]) {
    if let Ok(frame) = AudioFrame::decode(Bytes::copy_from_slice(bytes)) {
        assert_eq!(frame.encode(), bytes, "a frame is written as it was read");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match decode_client(text) {
        Ok((head, event)) => {
            let again = decode_client(&encode_client(&head, &event));
            assert_eq!(again, Ok((head, event)), "an event is read as it was written");
        }
        Err(malformed) => assert!(malformed.fault.message.len() <= 1024, "a refusal is short"),
    }
    if let Ok((head, event)) = decode_server(text) {
        let again = decode_server(&encode_server(&head, &event));
        assert_eq!(again, Ok((head, event)), "an event is read as it was written");
    }
}

/// Reads bytes as a list of updates of a screen, and of parameters for what may be done there. Whatever is accepted
/// holds together, and what is checked once is checked the same again.
///
/// # Panics
/// Something is broken.
pub fn vip_context(bytes: &[u8]) {
    let Ok(Value::Array(updates)) = serde_json::from_slice(bytes) else { return };
    let mut current: Option<Context> = None;
    for update in updates.iter().take(8) {
        let Ok(applied) = Context::apply(current.as_ref(), update) else { continue };
        let context = applied.context;
        assert!(
            context.visibility.iter().all(|id| context.actions.contains_key(id)),
            "what is seen is there"
        );
        assert!(current.is_none_or(|current| context.version > current.version), "versions grow");
        let kept = serde_json::to_value(&context).unwrap_or_default();
        let again: Option<Context> = serde_json::from_value(kept).ok();
        assert!(again.as_ref() == Some(&context), "a screen survives being kept");
        for (id, action) in invocable(&context) {
            let schema = tool_schema(action, &context);
            assert!(schema.is_object(), "a tool has a schema");
            for parameters in updates.iter().take(8) {
                let _ = redact(&context, id, parameters);
                let Ok(prepared) = check(&context, id, parameters) else { continue };
                let again = check(&context, id, &prepared.parameters).map(|again| digest(&again.parameters));
                assert_eq!(
                    again.ok(),
                    Some(digest(&prepared.parameters)),
                    "what was prepared stays as it is"
                );
            }
        }
        current = Some(context);
    }
}

/// Feeds a connection frames, answers, events, speech, errands, time, pressure and goodbyes in any order that a
/// server could. It always comes to rest, is silent after it has closed, and stays small.
///
/// # Panics
/// Something is broken.
pub fn vip_connection(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let choice = choices.byte();
    let service = Service {
        seal: Arc::new(NoSeal),
        issuer: None,
        public_url: None,
        allow_development: true,
        agent: None,
        prompts: BTreeMap::new(),
        providers: Vec::new(),
        ice_servers: Vec::new(),
        webrtc: false,
        speech: Speech { hears: true, speaks: choice & 1 == 0, missing: Vec::new() },
        introduction: "Hello. This is a notice.".to_owned(),
        introduction_interruptible: choice & 2 == 0,
    };
    let limits = VipLimits { replay: 40, events: 1000, events_burst: 1000, ..VipLimits::default() };
    let session = SessionId::new(SESSION);
    let created = Minute::Created(Box::new(settings(choice)));
    let ops = [
        Op::Open { epoch: 1, agent: "echo".into(), name: None },
        Op::Chronicle { chronicle: CHRONICLE.into() },
        Op::Record { chronicle: CHRONICLE.into(), record: json!([created]) },
    ];
    let internal = choice & 4 != 0;
    let path = if internal { CONTROL } else { STREAM };
    let request = OpeningRequest {
        path,
        target: path.replace("{sid}", SESSION),
        websocket: true,
        ..OpeningRequest::default()
    };
    let protocol = Vip::new(limits, service);
    Bench::joining(&protocol, request, likely_frame, Secretary, (&session, &ops))
        .served_by(errand)
        .run(choices.rest);
}

fn settings(choice: u8) -> Settings {
    let set = |bit: u8, yes: &str, no: &str| if choice & bit != 0 { yes.to_owned() } else { no.to_owned() };
    Settings {
        app_id: "shop".to_owned(),
        sub: "ann".to_owned(),
        environment: "development".to_owned(),
        mode: set(4, "internal", "external"),
        scopes: Vec::new(),
        locale: "en-US".to_owned(),
        actions: true,
        confirmation_channels: vec![set(8, "voice", "ui")],
        input: Format::Pcm16k,
        output: Format::Pcm24k,
        framing: set(16, "base64", "binary"),
        turn_detection: TurnDetection::default(),
        instructions: None,
        voice: None,
        activate_on: set(32, "connect", "manual"),
        first_visit: false,
        agent: "echo".to_owned(),
        provider: None,
        metadata: BTreeMap::new(),
        resume_s: 60,
        created_at: 1_000_000_000,
        expires_at: 1_000_600_000,
    }
}

/// What comes of an errand.
fn errand(asked: &Value) -> Value {
    match asked["errand"].as_str() {
        Some("perform") => json!({ "data": { "done": true } }),
        Some("unseal") => json!({ "args": { "value": "secret" } }),
        Some("mint") => json!({ "value": "x", "expires_at": 1_000_060 }),
        _ => json!({ "failed": "INTERNAL", "message": "no" }),
    }
}

/// An event that makes sense, most of the time: of the state that was told last, and about what was asked last.
fn likely_frame(choices: &mut Choices<'_>, said: &VecDeque<Bytes>, number: u64) -> Frame {
    let told: Vec<Value> = said.iter().rev().filter_map(|text| serde_json::from_slice(text).ok()).collect();
    let state_seq = told.iter().find_map(|event| event["state_seq"].as_u64()).unwrap_or_default();
    let last = |kind: &str| told.iter().find(|event| event["type"] == kind).cloned().unwrap_or_default();
    let invoked = last("action.invoke");
    let response = told.iter().find_map(|event| event["response_id"].as_str()).unwrap_or("r").to_owned();
    let (kind, data) = likely_event(choices, number, &invoked["data"], &response);
    if kind.is_empty() {
        let frame = [1, choices.byte(), 0, choices.byte(), 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        return Frame::Binary(Bytes::copy_from_slice(&frame));
    }
    let wrong = choices.below(16) == 0;
    let event = json!({
        "type": kind, "id": format!("c-{number}"), "seq": if wrong { number + 3 } else { number }, "ts": 1,
        "state_seq": state_seq, "turn_id": format!("t-{}", choices.below(3)), "data": data,
    });
    Frame::Text(event.to_string())
}

fn likely_event(
    choices: &mut Choices<'_>,
    number: u64,
    invoked: &Value,
    response: &str,
) -> (&'static str, Value) {
    // What opens the conversation is likely to come first.
    let choice = match number {
        1 => 0,
        2 => 1,
        _ => choices.below(24),
    };
    let triggers = ["text", "vad", "ptt", "wake_word", "follow_up"];
    let trigger = choices.pick(&triggers).unwrap_or("text");
    match choice {
        0 => ("client.connect", json!({ "session_id": SESSION, "protocol_version": "0.1" })),
        1 => ("state.update", screen(number)),
        2 => {
            let delta = json!({ "mode": "delta", "base_version": number.saturating_sub(1), "context_version": number,
                "visibility_add": ["lamp.on"], "narration": "Still home." });
            ("state.update", delta)
        }
        3 => ("input.start", json!({ "mode": "text", "trigger": "text" })),
        4 => ("input.start", json!({ "mode": "voice", "trigger": trigger, "stream_id": 1 })),
        5 | 6 => ("input.text", json!({ "text": "hello" })),
        7 => ("input.end", json!({ "reason": if trigger == "text" { "text" } else { "vad" } })),
        8 => ("input.detected", json!({ "origin": "client", "confidence": 0.9 })),
        9 => ("input.cancel", json!({ "reason": "user" })),
        10 => ("input.barge_in", json!({ "trigger": "manual", "played_ms": 10, "stream_id": 1 })),
        11 => ("audio.progress", json!({ "response_id": response, "played_ms": u64::from(choices.byte()) })),
        12 => ("audio.complete", json!({ "response_id": response, "played_ms": 40 })),
        13 => ("action.ack", json!({ "invocation_id": invoked["invocation_id"], "started": true })),
        14 | 15 => {
            let failed = choices.below(4) == 0;
            let mut result = json!({ "invocation_id": invoked["invocation_id"], "action_id": invoked["action_id"],
                "status": "success", "event": "action.success", "executed": true, "duration_ms": 1 });
            if failed {
                result["status"] = "error".into();
                result["event"] = "action.failure".into();
                result["error"] = json!({ "code": "ACT_EXECUTION_FAILED", "message": "no" });
            }
            ("action.result", result)
        }
        16 => ("control.mute", json!({ "target": "input", "muted": choices.below(2) == 0 })),
        17 => (
            "session.update",
            json!({ "turn_detection": { "type": "server_vad" }, "activate_on": "connect" }),
        ),
        18 => ("session.ping", json!({ "nonce": "n" })),
        19 => {
            let report = json!({ "state": "user_speaking", "previous": "idle", "trigger": "input.start" });
            ("state.report", report)
        }
        20 => ("provider.attached", json!({ "transport": "websocket" })),
        21 => ("function.call", json!({ "invocation_id": "f", "name": "lookup", "parameters": { "q": 1 } })),
        22 => ("session.close", json!({ "reason": "user_hangup" })),
        // A frame of audio.
        _ => ("", Value::Null),
    }
}

fn screen(version: u64) -> Value {
    json!({
        "mode": "full", "context_version": version, "route": { "id": "home" }, "routes": [{ "target": "home" }],
        "narration": "Home.",
        "actions": {
            "lamp.on": { "type": "button", "description": "Lamp", "element_id": "lamp" },
            "nav.go": { "type": "navigation", "description": "Go", "global": true },
            "secret.fill": { "type": "input", "description": "Password", "element_id": "pw", "input_type": "password" },
            "order.cancel": { "type": "button", "description": "Cancel", "element_id": "c", "sensitive": true,
                "confirmation": { "prompt": "Cancel?", "channels": ["ui", "voice"] } },
            "lookup": { "type": "button", "description": "Look up", "element_id": "l", "executor": "server" },
        },
        "visibility": ["lamp.on", "secret.fill", "order.cancel", "lookup"],
    })
}

const SESSION: &str = "vs_00000000000000000000000000";
const CONTROL: &str = "/v1/vip/sessions/{sid}/control";
