//! What is read, and what is refused (§4.5, §5.1, §9, §11): AC-059, AC-060, AC-062 to AC-067, AC-069.

use serde_json::{Value, json};
use switchboard_core::Frame;
use switchboard_testkit::Script;

use crate::support::{Seen, Talk, frames, gist, reply_of, short, start_with};

fn request(changes: Value) -> Value {
    let mut request = json!({"message": "hi", "history": [], "model": "m"});
    for (key, value) in changes.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

/// Whether a chat with these changes is accepted; otherwise it must be refused under its own id.
fn is_accepted(talk: &mut Talk, changes: Value) -> bool {
    talk.say(talk.peer, &start_with("rpc_q", request(changes)));
    let heard = talk.here();
    if heard[0]["type"] == "chat.accepted" {
        assert_eq!(heard.last().unwrap()["type"], "chat.done", "{heard:?}");
        return true;
    }
    let [refusal] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((&refusal["id"], &refusal["type"]), (&json!("rpc_q"), &json!("error")));
    // With the field that is at fault, if it is one that is known here.
    let why = refusal["error"].as_str().unwrap().strip_prefix("Invalid RPC message").unwrap();
    let known = [
        "message",
        "history",
        "model",
        "sessionId",
        "resourceId",
        "activeSkills",
        "suggestions",
        "workspace",
    ];
    assert!(why.is_empty() || known.iter().any(|field| why == format!(": request.{field}")), "{why}");
    false
}

fn accepts(changes: Value) -> bool {
    is_accepted(&mut Talk::new(Script::new()), changes)
}

/// So many UTF-16 units, some of them in pairs.
fn units(count: usize) -> [String; 3] {
    let pairs = "😀".repeat(count / 2) + &"x".repeat(count % 2);
    ["x".repeat(count), "é".repeat(count), pairs]
}

#[test]
fn ac_089_half_a_surrogate_pair_is_read_as_a_replacement_wherever_it_stands() {
    // What a terminal sends whose user has deleted half of an emoji; later messages have it in their history.
    let first = r#"{"message":"hi \ud83dx","history":[],"model":"m","sessionId":"sess_s"}"#;
    let entry =
        r#"{"id":"msg_1","role":"user","content":"hi \ud83dx","timestamp":"2026-01-01T00:00:00.000Z"}"#;
    let later =
        format!(r#"{{"message":"😀 \ud83d\ude00","history":[{entry}],"model":"m","sessionId":"sess_s"}}"#);
    let mut talk = Talk::new(Script::new());
    for (request, output) in [(first, "hi \u{fffd}x"), (&later, "😀 😀")] {
        let message = format!(r#"{{"id":"rpc_q","type":"chat.start","payload":{{"request":{request}}}}}"#);
        talk.world.send(talk.peer, Frame::Text(message));
        assert_eq!(reply_of(&talk.here(), "rpc_q")["output"], output);
        let peer = talk.post(request);
        let answer = talk.answer(peer);
        assert_eq!(answer.head.unwrap().status, 200);
        assert_eq!(frames(&answer.body).last().unwrap()["reply"]["output"], output);
    }
    // Elsewhere as well, keys included.
    let text = r#"{"id":"rpc_q","type":"status.get","payload":{"\udc00":"\ud83d"}}"#;
    talk.world.send(talk.peer, Frame::Text(text.to_owned()));
    assert_eq!(talk.one()["type"], "status.result");
}

#[test]
fn ac_094_what_nobody_looks_at_may_be_as_deep_and_as_large_as_it_likes() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut talk = Talk::new(Script::new());
    for unknown in [deep.as_str(), "1e999", "[-1e999]"] {
        let text = format!(r#"{{"id":"rpc_q","type":"status.get","payload":{{"future":{unknown}}}}}"#);
        talk.world.send(talk.peer, Frame::Text(text));
        assert_eq!(talk.one()["type"], "status.result");
        let request = format!(r#"{{"message":"hi","history":[],"model":"m","future":{unknown}}}"#);
        let peer = talk.post(&request);
        assert_eq!(frames(&talk.answer(peer).body).last().unwrap()["reply"]["output"], "hi");
        // Where it stands for something that is known, it is not it.
        let text = format!(r#"{{"id":"rpc_q","type":"task.status","payload":{{"taskId":{unknown}}}}}"#);
        talk.world.send(talk.peer, Frame::Text(text));
        assert_eq!(talk.one()["type"], "error");
    }
}

#[test]
fn ac_059_a_message_has_100000_utf16_units_at_most_and_arrives_unharmed() {
    let mut talk = Talk::new(Script::new());
    for message in units(100_000) {
        talk.say(talk.peer, &start_with("rpc_q", request(json!({"message": message}))));
        assert_eq!(reply_of(&talk.here(), "rpc_q")["output"], message);
    }
    for message in units(100_001) {
        assert!(!is_accepted(&mut talk, json!({"message": message})));
    }
    // A pair counts as two, not as one character and not as four bytes.
    assert!(!is_accepted(&mut talk, json!({"message": "😀".repeat(50_001)})));
}

#[test]
fn ac_060_histories_models_suggestions_and_workspaces_have_their_limits() {
    let entry =
        json!({"id": "msg_1", "role": "user", "content": "x", "timestamp": "2026-01-01T00:00:00.000Z"});
    for (count, good) in [(500, true), (501, false)] {
        assert_eq!(accepts(json!({"history": vec![entry.clone(); count]})), good, "{count} entries");
    }
    for model in units(200) {
        assert!(accepts(json!({"model": model})));
    }
    for model in units(201) {
        assert!(!accepts(json!({"model": model})));
    }
    for line in units(1000) {
        assert!(accepts(json!({"suggestions": vec![line; 10]})));
    }
    for line in units(1001) {
        assert!(!accepts(json!({"suggestions": [line]})));
    }
    assert!(!accepts(json!({"suggestions": vec!["x"; 11]})));
    for path in units(4096) {
        assert!(accepts(json!({"workspace": path})));
    }
    for path in units(4097) {
        assert!(!accepts(json!({"workspace": path})));
    }
}

#[test]
fn ac_062_a_message_above_16_mib_closes_with_1009_and_one_below_does_not() {
    let mut talk = Talk::new(Script::new());
    let message = json!({"id": "rpc_big", "type": "status.get"}).to_string();
    let padded = |length: usize| format!("{message}{}", " ".repeat(length - message.len()));
    talk.world.send(talk.peer, Frame::Text(padded(16 << 20)));
    assert_eq!(talk.one()["type"], "status.result");
    talk.world.send(talk.peer, Frame::Text(padded((16 << 20) + 1)));
    assert_eq!(talk.seen(talk.peer), [Seen::Close(1009)]);
}

#[test]
fn ac_063_unknown_fields_of_the_envelope_and_the_payload_are_ignored() {
    let mut talk = Talk::new(Script::new());
    let message = json!({
        "id": "rpc_1", "type": "chat.start", "future": {"a": 1}, "event": 5,
        "payload": {"request": request(json!({})), "more": [null]},
    });
    talk.say(talk.peer, &message);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "hi""#);
    talk.say(
        talk.peer,
        &json!({"id": "rpc_2", "type": "chat.abort", "payload": {"requestId": "rpc_1", "x": 1}}),
    );
    assert_eq!(short(&talk.here()), ["2 abort.result false"]);
    talk.say(
        talk.peer,
        &json!({"id": "rpc_3", "type": "task.status", "payload": {"taskId": "task_1", "x": 1}}),
    );
    assert_eq!(talk.one()["type"], "task.status.result");
}

#[test]
fn ac_064_unknown_keys_of_the_request_are_refused_under_its_id() {
    let mut talk = Talk::new(Script::new());
    for key in ["futureOption", "Message", "session_id", ""] {
        assert!(!is_accepted(&mut talk, json!({key: 1})), "{key:?}");
    }
    assert_eq!(talk.status(talk.peer)["tasks_total"], 0);
}

#[test]
fn ac_065_what_cannot_be_read_is_refused_as_unknown_and_the_connection_stays() {
    let mut talk = Talk::new(Script::new());
    for text in [
        "{oops",
        "",
        "[]",
        "5",
        "null",
        r#""rpc_1""#,
        r#"{"type":"status.get"}"#,
        r#"{"id":5,"type":"status.get"}"#,
        r#"{"id":"RPC_1","type":"status.get"}"#,
        r#"{"id":"rpc_","type":"status.get"}"#,
        r#"{"id":"rpc_A","type":"status.get"}"#,
        r#"{"id":"rpc_1 ","type":"status.get"}"#,
        r#"{"id":"rpc_a-b","type":"status.get"}"#,
        r#"{"id":"task_1","type":"status.get"}"#,
        r#"{"id":"rpc_1","type":"status.get"} trailing"#,
        r#"["rpc_1", "\ud83d"]"#,
        r#"{"id":"rpc_\ud83d","type":"status.get"}"#,
        r#"{"id":"rpc_1","payload":"\ud83d", oops}"#,
    ] {
        talk.world.send(talk.peer, Frame::Text(text.to_owned()));
        let answer = json!({"id": "rpc_unknown", "type": "error", "error": "Invalid RPC message"});
        assert_eq!(talk.one(), answer, "{text}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    talk.world.send(talk.peer, Frame::Text(deep));
    assert_eq!(talk.one()["id"], "rpc_unknown");
    talk.start("rpc_1", "hi");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "hi""#);
}

#[test]
fn ac_066_unknown_methods_and_bad_payloads_are_refused_under_their_id() {
    let mut talk = Talk::new(Script::new());
    let cases = [
        json!({"type": "chat.rewind"}),
        json!({"type": 5}),
        json!({}),
        json!({"type": "chat.start"}),
        json!({"type": "chat.start", "payload": null}),
        json!({"type": "chat.start", "payload": {"request": null}}),
        json!({"type": "chat.start", "payload": {"request": []}}),
        json!({"type": "chat.start", "payload": request(json!({}))}),
        json!({"type": "chat.abort"}),
        json!({"type": "chat.abort", "payload": {"requestId": "chat_1"}}),
        json!({"type": "chat.abort", "payload": {"requestId": 5}}),
        json!({"type": "task.status"}),
        json!({"type": "task.status", "payload": {"taskId": "rpc_1"}}),
        json!({"type": "task.status", "payload": {}}),
    ];
    for case in cases {
        let mut message = case.clone();
        message["id"] = "rpc_m1".into();
        talk.say(talk.peer, &message);
        let answer = json!({"id": "rpc_m1", "type": "error", "error": "Invalid RPC message"});
        assert_eq!(talk.one(), answer, "{case}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for unusable in [r#""cut \ud83d""#, "1e999", deep.as_str()] {
        let text = format!(r#" {{"type":"chat.start","payload":{{"request":{unusable}}},"id":"rpc_m1"}}"#);
        talk.world.send(talk.peer, Frame::Text(text));
        let answer = json!({"id": "rpc_m1", "type": "error", "error": "Invalid RPC message"});
        assert_eq!(talk.one(), answer);
    }
    for (field, wrong) in [
        ("message", json!(5)),
        ("history", json!(null)),
        ("model", json!("m".repeat(201))),
        ("sessionId", json!("my-session")),
        ("resourceId", json!("me")),
        ("activeSkills", json!([{ "name": "" }])),
        ("suggestions", json!(vec!["s"; 11])),
        ("workspace", json!(["/srv"])),
    ] {
        let (mut changes, mut expected) = (json!({}), "Invalid RPC message: request.".to_owned());
        changes[field] = wrong;
        expected += field;
        talk.say(talk.peer, &start_with("rpc_m1", request(changes)));
        assert_eq!(talk.one(), json!({"id": "rpc_m1", "type": "error", "error": expected}));
    }
    for missing in ["message", "history", "model"] {
        let mut request = request(json!({}));
        request.as_object_mut().unwrap().remove(missing);
        talk.say(talk.peer, &start_with("rpc_m2", request));
        assert_eq!(short(&talk.here()), ["m2 error refused"], "{missing}");
    }
    for changes in [
        json!({"message": 5}),
        json!({"message": null}),
        json!({"history": {}}),
        json!({"history": null}),
        json!({"model": null}),
        json!({"workspace": null}),
        json!({"workspace": 5}),
        json!({"suggestions": "x"}),
        json!({"suggestions": [5]}),
        json!({"suggestions": null}),
    ] {
        assert!(!is_accepted(&mut talk, changes.clone()), "{changes}");
    }
}

#[test]
fn ac_067_binary_messages_are_read_as_json() {
    let mut talk = Talk::new(Script::new());
    let message = start_with("rpc_1", request(json!({"message": "ü😀"})));
    talk.world.send_bytes(talk.peer, message.to_string().as_bytes());
    assert_eq!(reply_of(&talk.here(), "rpc_1")["output"], "ü😀");
    talk.world.send_bytes(talk.peer, &[0xff, 0xfe, b'{', b'}']);
    assert_eq!(talk.one()["id"], "rpc_unknown");
}

#[test]
fn ac_069_malformed_sessions_resources_and_skills_are_refused() {
    for session in ["", "demo", "sess_", "sess_A", "sess_a-b", "SESS_a", "user_a", "sess_a b", "ses_a"] {
        assert!(!accepts(json!({"sessionId": session})), "{session}");
    }
    assert!(accepts(json!({"sessionId": "sess_demo1"})));
    for resource in ["", "x", "user_", "proj_X", "sess_a", "user_a-b"] {
        assert!(!accepts(json!({"resourceId": resource})), "{resource}");
    }
    for resource in ["user_a", "proj_0123456789ab"] {
        assert!(accepts(json!({"resourceId": resource})));
    }
    for key in ["sessionId", "resourceId", "activeSkills"] {
        assert!(!accepts(json!({key: null})), "{key} null");
        assert!(!accepts(json!({key: 5})), "{key} 5");
    }
    for skills in [
        json!([{"name": "", "instructions": "x"}]),
        json!([{"name": "x", "instructions": ""}]),
        json!([{"name": "x"}]),
        json!([{"instructions": "x"}]),
        json!(["x"]),
        json!({"name": "x", "instructions": "x"}),
    ] {
        assert!(!accepts(json!({"activeSkills": skills})), "{skills}");
    }
    assert!(accepts(json!({"activeSkills": [{"name": "x", "instructions": "y", "z": 1}]})));
}

#[test]
fn what_the_agent_may_want_to_know_is_passed_on() {
    let mut talk = Talk::new(Script::new());
    let request = request(json!({
        "sessionId": "sess_s", "resourceId": "user_a", "workspace": "/tmp/x", "suggestions": ["one", "two"],
        "activeSkills": [{"name": "n", "instructions": "i"}, {"name": "m", "instructions": "j"}],
    }));
    talk.say(talk.peer, &start_with("rpc_1", request));
    talk.here();
    let log = talk.world.log(&Talk::session("sess_s"));
    let found = log.iter().find_map(|committed| match &committed.event {
        switchboard_core::Event::TurnAccepted { workspace, meta, setting, origin, serial, .. } => {
            Some((workspace.clone(), meta.clone(), setting.clone(), origin.clone(), *serial))
        }
        _ => None,
    });
    let (workspace, meta, setting, origin, serial) = found.unwrap();
    assert_eq!(workspace.as_deref(), Some("/tmp/x"));
    assert_eq!(
        *meta,
        json!({"model": "m", "resource": "user_a", "suggestions": ["one", "two"],
            "skills": [{"name": "n", "instructions": "i"}, {"name": "m", "instructions": "j"}]})
    );
    let setting = setting.unwrap();
    assert_eq!(setting.instructions.as_deref(), Some("Skill n:\ni\n\nSkill m:\nj\n\none\ntwo"));
    assert_eq!(setting.scene, None);
    assert_eq!((origin.protocol.as_str(), origin.handle.as_deref()), ("acolyte", Some("rpc_1")));
    assert!(!serial, "nothing has to wait for it");
    assert!(matches!(
        &log[0].event,
        switchboard_core::Event::SessionOpened { name: Some(name), .. } if name == "sess_s"
    ));
}
