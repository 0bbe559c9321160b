//! Whatever comes: nothing panics, and what was written is read again.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use switchboard_vip::action::{check, digest, invocable, redact, tool_schema};
use switchboard_vip::audio::{AudioFrame, Direction};
use switchboard_vip::codec::{decode_client, decode_server, encode_client, encode_server};
use switchboard_vip::context::Context;
use switchboard_vip::message::{AudioChunk, Head, Role};

/// Any JSON, but often with the names that mean something.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z._]{0,12}".prop_map(Value::from),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..8).prop_map(|members| Value::Object(
                members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "mode",
        "full",
        "delta",
        "context_version",
        "base_version",
        "route",
        "routes",
        "id",
        "target",
        "narration",
        "actions",
        "actions_upsert",
        "actions_remove",
        "visibility",
        "visibility_add",
        "tree",
        "children",
        "kind",
        "text",
        "data",
        "type",
        "button",
        "input",
        "navigation",
        "confirmation",
        "x-a-b",
        "element_id",
        "input_type",
        "number",
        "parameters",
        "object",
        "properties",
        "required",
        "$ref",
        "#",
        "sensitive",
        "parallel",
        "description",
        "options",
        "press",
        "value",
        "seq",
        "ts",
        "state_seq",
        "role",
        "user",
        "input.start",
        "action.result",
    ])
}

/// An event with an envelope that holds.
fn event(name: &str, data: &Value) -> String {
    json!({"type": name, "id": "e", "seq": 1, "ts": 1, "state_seq": 0, "data": data}).to_string()
}

const CLIENT: [&str; 24] = [
    "client.connect",
    "state.update",
    "input.start",
    "input.detected",
    "input.text",
    "input.end",
    "input.cancel",
    "input.timeout",
    "input.barge_in",
    "audio.progress",
    "audio.complete",
    "action.ack",
    "action.result",
    "control.mute",
    "session.update",
    "session.ping",
    "session.close",
    "state.report",
    "provider.attached",
    "history.append",
    "function.call",
    "audio.chunk",
    "error.recoverable",
    "error.fatal",
];
const SERVER: [&str; 30] = [
    "session.connected",
    "server.ready",
    "state.changed",
    "state.ack",
    "state.resync",
    "input.detected",
    "input.end",
    "input.barge_in",
    "input.timeout",
    "transcript.partial",
    "input.complete",
    "server.announce",
    "response.audio",
    "response.text.delta",
    "audio.start",
    "audio.end",
    "audio.interrupted",
    "response.done",
    "action.invoke",
    "action.cancel",
    "action.done",
    "session.updated",
    "session.terminating",
    "session.terminated",
    "session.pong",
    "credential.refreshed",
    "function.result",
    "audio.chunk",
    "error.recoverable",
    "error.fatal",
];

fn context() -> Context {
    let update = json!({
        "mode": "full", "context_version": 1, "route": {"id": "home"}, "narration": "Home.",
        "routes": [{"target": "home"}],
        "actions": {
            "press": {"type": "button", "description": "Press", "element_id": "b"},
            "id": {"type": "input", "description": "Id", "element_id": "i", "input_type": "number"},
        },
        "visibility": ["press", "id"],
    });
    match Context::apply(None, &update) {
        Ok(applied) => applied.context,
        Err(fault) => panic!("{fault}"),
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_decoders_panic(text in "\\PC{0,200}", json in any_json()) {
        for text in [text, json.to_string()] {
            let _ = decode_client(&text);
            let _ = decode_server(&text);
        }
    }

    #[test]
    fn whatever_is_read_as_an_event_is_written_so_that_it_is_read_again(
        data in any_json(), client in prop::sample::select(CLIENT.to_vec()), server in prop::sample::select(SERVER.to_vec()),
    ) {
        if let Ok((head, read)) = decode_client(&event(client, &data)) {
            prop_assert_eq!(read.name(), client);
            prop_assert!(decode_client(&encode_client(&head, &read)) == Ok((head, read)));
        }
        if let Ok((head, read)) = decode_server(&event(server, &data)) {
            prop_assert_eq!(read.name(), server);
            prop_assert!(decode_server(&encode_server(&head, &read)) == Ok((head, read)));
        }
    }

    #[test]
    fn heads_survive(
        id in "[ -~]{1,40}", seq in 1_u64.., ts: u64, state_seq: u64, role in 0_usize..3,
        turn_id in prop::option::of("\\PC{1,20}"), response_id in prop::option::of("[a-z]{1,40}"),
        reply_to in prop::option::of("[a-z]{1,40}"),
    ) {
        let head = Head { id, seq, ts, state_seq, role: Role::ALL[role], turn_id, response_id, reply_to };
        let ping = event("session.ping", &json!({"nonce": "n"}));
        let Ok((_, ping)) = decode_client(&ping) else { panic!("a ping") };
        prop_assert_eq!(decode_client(&encode_client(&head, &ping)), Ok((head, ping)));
    }

    #[test]
    fn no_update_makes_the_context_panic_and_what_is_accepted_holds(update in any_json(), parts in prop::collection::vec((name(), any_json()), 0..6)) {
        let current = context();
        let mut forged: Map<String, Value> = serde_json::from_value(json!({
            "mode": "delta", "base_version": 1, "context_version": 2,
        })).unwrap_or_default();
        forged.extend(parts.into_iter().map(|(key, value)| (key.to_owned(), value)));
        for update in [update, Value::Object(forged)] {
            for current in [None, Some(&current)] {
                let Ok(applied) = Context::apply(current, &update) else { continue };
                let context = applied.context;
                prop_assert!(context.visibility.iter().all(|id| context.actions.contains_key(id)));
                prop_assert!(current.is_none_or(|current| context.version > current.version));
                for (id, action) in invocable(&context) {
                    let _ = tool_schema(action, &context);
                    let _ = check(&context, id, &update);
                    let _ = redact(&context, id, &update);
                }
            }
        }
    }

    #[test]
    fn parameters_of_any_kind_are_checked_and_have_a_digest(parameters in any_json()) {
        let context = context();
        for id in ["press", "id"] {
            if let Ok(prepared) = check(&context, id, &parameters) {
                // What was prepared once is prepared the same again.
                let again = check(&context, id, &prepared.parameters).map(|again| digest(&again.parameters));
                prop_assert_eq!(again.ok(), Some(digest(&prepared.parameters)));
            }
        }
        // The digest is that of what is written, not of how.
        let text = parameters.to_string();
        let read: Value = serde_json::from_str(&text).unwrap_or_default();
        prop_assert_eq!(digest(&read), digest(&parameters));
    }

    #[test]
    fn frames_of_any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        if let Ok(frame) = AudioFrame::decode(bytes.clone()) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }

    #[test]
    fn frames_survive_both_framings(
        input: bool, end: bool, monitor: bool, gap: bool, stream: u16, seq: u32, offset_ms: u32,
        payload in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let direction = if input { Direction::Input } else { Direction::Output };
        let stream = if input { (stream & 0x7fff).max(1) } else { stream | 0x8000 };
        let frame = AudioFrame { direction, end, monitor, gap, stream, seq, offset_ms, payload: payload.into() };
        prop_assert_eq!(AudioFrame::decode(frame.encode()), Ok(frame.clone()));
        let chunk = AudioChunk::from(frame.clone());
        let text = serde_json::to_string(&chunk).unwrap_or_default();
        let read: Result<AudioChunk, _> = serde_json::from_str(&text);
        prop_assert_eq!(read.ok().map(|chunk| chunk.into_frame(direction)), Some(Ok(frame)));
    }
}
