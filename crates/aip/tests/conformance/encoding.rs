//! Encoding as a server shows it (§3): AIP-005, AIP-010 to AIP-017. The codec has tests of its own.

use serde_json::{Value, json};
use switchboard_core::Frame;
use switchboard_testkit::{BatchCommand, Received, Step};

use crate::support::{Talk, beat, finish, register, register_boss, results, short, task};

#[test]
fn aip_005_each_message_is_one_text_frame_with_one_object() {
    let mut talk = Talk::new();
    let dev = talk.enter("ann");
    talk.world.send(dev, Frame::Text(register("dev", json!({})).to_string()));
    talk.world.send(dev, Frame::Text(beat().to_string()));
    talk.world.send(dev, Frame::Text("nonsense".to_owned()));
    let received = talk.world.take(dev);
    assert_eq!(received.len(), 3);
    for received in received {
        let Received::Frame(Frame::Text(text)) = received else { panic!("{received:?}") };
        assert!(serde_json::from_str::<Value>(&text).unwrap().is_object());
    }
}

#[test]
fn aip_010_the_bytes_are_those_of_the_reference() {
    let mut talk = Talk::new();
    let dev = talk.enter("ann");
    talk.world.send(dev, Frame::Text(register("dev", json!({})).to_string()));
    let received = talk.world.take(dev);
    let [Received::Frame(Frame::Text(text))] = &received[..] else { panic!("{received:?}") };
    let message: Value = serde_json::from_str(text).unwrap();
    let id = message["response_id"].as_str().unwrap();
    let expected = format!(
        concat!(
            r#"{{"type":"heartbeat","status":"ok","user_request":null,"agent_name":null,"process_name":null,"#,
            r#""root_name":null,"actions":null,"messages":null,"error":null,"session_id":null,"task_name":null,"#,
            r#""timestamp":"2026-01-01T00:00:00+00:00","response_id":"{}","result":null}}"#
        ),
        id
    );
    assert_eq!(*text, expected);
    assert_eq!(id.len(), 36, "a UUID");
}

#[test]
fn aip_011_what_a_message_does_not_need_may_be_missing_or_null() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let nulls = json!({
        "type": "heartbeat", "status": "ok", "session_id": null, "task_name": null, "client_id": null,
        "target_id": null, "request": null, "action_results": null, "timestamp": null, "request_id": null,
        "prev_response_id": null, "error": null, "metadata": null,
    });
    for message in [beat(), nulls] {
        talk.say(dev, &message);
        assert_eq!(talk.short(dev), ["ack"]);
    }
    talk.say(dev, &json!({ "type": "task", "status": "continue", "request": "one" }));
    let told = talk.heard(dev);
    assert_eq!(told.len(), 2);
    assert!(told[1]["task_name"].is_string(), "a name is made up");
}

#[test]
fn aip_012_unknown_fields_are_ignored() {
    let mut talk = Talk::new();
    let dev = talk.enter("ann");
    let mut message = register("dev", json!({}));
    message["response_id"] = json!(7);
    message["result"] = json!([1, { "deep": null }]);
    message["x-new"] = json!({ "type": 5 });
    talk.say(dev, &message);
    assert_eq!(talk.short(dev), ["ack"]);
}

#[test]
fn aip_013_what_is_of_another_kind_is_an_error_and_the_connection_stays() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for (message, field) in [
        (json!({ "type": "Heartbeat", "status": "ok" }), "type"),
        (json!({ "type": "heartbeat", "status": "OK" }), "status"),
        (json!({ "type": "heartbeat" }), "status"),
        (json!({ "status": "ok" }), "type"),
        (json!({ "type": "heartbeat", "status": "ok", "client_type": null }), "client_type"),
        (json!({ "type": "heartbeat", "status": "ok", "client_type": "server" }), "client_type"),
        (json!({ "type": "heartbeat", "status": "ok", "client_id": 5 }), "client_id"),
        (json!({ "type": "heartbeat", "status": "ok", "metadata": [] }), "metadata"),
        (json!({ "type": "task", "status": "continue", "request": 5 }), "request"),
        (json!({ "type": "command_results", "status": "ok", "action_results": {} }), "action_results"),
        (
            json!({ "type": "command_results", "status": "ok", "action_results": [{ "status": "great" }] }),
            "status",
        ),
        (json!({ "type": "command", "status": "ok" }), "type"),
        (json!({ "type": null, "status": "ok" }), "type"),
    ] {
        talk.say(dev, &message);
        let error = talk.one(dev);
        assert_eq!(error["type"], "error", "{message}");
        assert!(error["error"].as_str().unwrap().contains(field), "{error} names {field}");
    }
    for text in ["[]", "5", "null", "\"heartbeat\"", "true"] {
        talk.world.send(dev, Frame::Text(text.to_owned()));
        assert!(short(&talk.one(dev)).starts_with("error "), "{text}");
    }
    talk.say(dev, &beat());
    assert_eq!(talk.short(dev), ["ack"]);
}

#[test]
fn aip_014_whoever_does_not_say_what_it_is_is_a_device() {
    let mut talk = Talk::new();
    let dev = talk.enter("ann");
    talk.say(dev, &json!({ "type": "register", "status": "ok", "client_id": "dev" }));
    assert_eq!(talk.short(dev), ["ack"]);
    let boss = talk.boss("boss", "dev");
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_015_any_timestamp_is_taken_and_ours_have_an_offset() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.world.advance(7_250);
    for time in ["2025-11-06T10:30:00Z", "yesterday", "", "2025-11-06T10:30:00.123456+09:00"] {
        talk.say(dev, &json!({ "type": "heartbeat", "status": "ok", "timestamp": time }));
        assert_eq!(talk.one(dev)["timestamp"], "2026-01-01T00:00:07.250000+00:00");
    }
}

#[test]
fn aip_016_texts_and_numbers_pass_unchanged_in_both_directions() {
    let mut talk = Talk::new();
    let odd = json!({
        "text": "Ünïcödé \u{1f980} \u{0} \u{2028} \\ \" /",
        "nested": { "list": [1, -2, 1.5, 1e300, true, null, "", []] },
        "small": i64::MIN, "large": u64::MAX,
    });
    let commands = vec![BatchCommand::new("odd", odd.clone())];
    talk.plan("odd", vec![Step::Batch { commands, timeout_ms: 1000 }, finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1 ü\u{1f980}", "odd");
    assert_eq!(command["actions"][0]["parameters"], odd, "AIP-050");
    let call = &command["actions"][0]["call_id"];
    talk.say(dev, &results(&command, json!([{ "status": "success", "result": odd, "call_id": call }])));
    let end = talk.one(boss);
    assert_eq!(end["session_id"], "s1 ü\u{1f980}");
    assert_eq!(end["result"]["turns"][0][0]["result"], odd);
}

#[test]
fn aip_016_integers_of_any_size_are_kept_to_the_digit() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let big = "123456789012345678901234567890123456789012345678901234567890";
    let text = done_with(&command, big);
    talk.world.send(dev, Frame::Text(text));
    let received = talk.world.take(boss);
    let [Received::Frame(Frame::Text(end))] = &received[..] else { panic!("{received:?}") };
    assert!(end.contains(&format!(r#""result":{big}"#)), "{end}");
}

fn done_with(command: &Value, result: &str) -> String {
    let call = &command["actions"][0]["call_id"];
    let message = results(command, json!([{ "status": "success", "result": "RESULT", "call_id": call }]));
    message.to_string().replace("\"RESULT\"", result)
}

#[test]
fn aip_017_deep_messages_are_an_error_and_nothing_breaks() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"type":"heartbeat","status":"ok","metadata":{{"x":{open}{close}}}}}"#)
    };
    for levels in [400, 256, 100_000] {
        talk.world.send(dev, Frame::Text(deep(levels)));
        assert!(short(&talk.one(dev)).starts_with("error "), "{levels}");
    }
    talk.world.send(dev, Frame::Text("[".repeat(1 << 20)));
    assert!(short(&talk.one(dev)).starts_with("error "));
    talk.world.send(dev, Frame::Text(deep(126)));
    assert_eq!(talk.short(dev), ["ack"], "128 levels are accepted");
    let command = talk.command(boss, dev, "s1", "one");
    let inner = format!("{}{}", "[".repeat(190), "]".repeat(190));
    talk.world.send(dev, Frame::Text(done_with(&command, &inner)));
    assert_eq!(talk.world.take(boss).len(), 1, "as deep as the reference goes");
    let peer = talk.enter("ann");
    talk.world.send(peer, Frame::Text(deep(400)));
    let told = talk.short(peer);
    assert_eq!((told.len(), told[1].as_str()), (2, "close 1008"));
    let peer = talk.enter("ann");
    talk.say(peer, &register_boss("second", Some("dev")));
    assert_eq!(talk.short(peer), ["ack"]);
    talk.say(peer, &task("dev", "s2", "one"));
    assert_eq!(talk.short(peer), ["ack s2"]);
}
