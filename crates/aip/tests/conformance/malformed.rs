//! Bad input (§7, §12): AIP-075, AIP-076, AIP-078, A20.

use serde_json::{Value, json};
use switchboard_core::Frame;

use crate::support::{Talk, beat, own_task, task, text};

#[test]
fn aip_075_what_cannot_be_read_is_an_error_and_the_connection_stays() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    for bad in [
        "",
        " ",
        "{",
        "hello",
        "[]",
        "{} {}",
        "{}",
        "\u{feff}{\"type\":\"heartbeat\",\"status\":\"ok\"}",
        "{\"type\":\"heartbeat\",\"status\":\"ok\"} x",
        "{\"type\":\"heartbeat\",\"status\":\"ok\",\"request\":\"a\u{1}b\"}",
        "{\"type\":\"heartbeat\",\"status\":\"ok\",\"request\":\"\\ud800\"}",
        "{\"type\":\"cancel\",\"status\":\"ok\"}",
        "{\"type\":\"register_confirmation\",\"status\":\"ok\"}",
        "{'type':'heartbeat'}",
    ] {
        for peer in [dev, boss] {
            talk.world.send(peer, Frame::Text(bad.to_owned()));
            let error = talk.one(peer);
            assert_eq!(
                (text(&error, "type"), text(&error, "status")),
                ("error".into(), "error".into()),
                "{bad}"
            );
            assert!(!text(&error, "error").is_empty());
        }
    }
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "and the task goes on");
    talk.world
        .send(dev, Frame::Text(" {\"type\":\"x\",\"type\":\"heartbeat\",\"status\":\"ok\"}\n".to_owned()));
    assert_eq!(talk.short(dev), ["end s1 completed", "ack"], "the last of two keys counts");
}

#[test]
fn aip_075_an_error_carries_the_ids_of_what_is_refused() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let bad = json!({ "type": "task", "status": "nope", "session_id": "s1", "request_id": "r1" });
    talk.say(dev, &bad);
    let error = talk.one(dev);
    assert_eq!((text(&error, "session_id"), text(&error, "response_id")), ("s1".into(), "r1".into()));
    for id in [json!(5), Value::Null, json!("")] {
        talk.say(dev, &json!({ "type": "nope", "status": "ok", "request_id": id }));
        assert_eq!(text(&talk.one(dev), "response_id").len(), 36, "a fresh id: {id}");
    }
}

#[test]
fn aip_075_a_task_without_a_request_is_an_error() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for request in [Value::Null, json!("")] {
        let mut message = own_task("s1", "");
        message["request"] = request;
        talk.say(dev, &message);
        let refused = ["error request is required", "end s1 failed request is required"];
        assert_eq!(talk.short(dev), refused, "A11");
    }
    talk.say(dev, &own_task("s1", " "));
    assert_eq!(talk.short(dev)[0], "ack s1", "what is not empty is a request");
}

#[test]
fn aip_076_binary_frames_are_an_error_each_and_nothing_else() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    for bytes in [&b""[..], b"\x00\xff", beat().to_string().as_bytes(), &[0; 100_000]] {
        talk.world.send_bytes(dev, bytes);
        assert_eq!(talk.short(dev), ["error Binary messages are not supported"], "A20");
    }
    let transfer = json!({ "type": "file_transfer_start", "filename": "a.txt", "size": 12 });
    for metadata in [json!({ "type": "binary_data", "size": 8 }), transfer] {
        talk.say(dev, &metadata);
        assert!(talk.short(dev)[0].starts_with("error "), "{metadata}");
    }
    assert_eq!(talk.online("ann"), ["dev", "boss"]);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_078_errors_are_short_and_show_no_values() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let secret = "s3cret".repeat(1000);
    for message in [
        json!({ "type": secret, "status": "ok" }),
        json!({ "type": "heartbeat", "status": secret }),
        json!({ "type": "heartbeat", "status": "ok", "client_id": [secret] }),
        json!({ "type": "heartbeat", "status": "ok", "client_id": secret }),
        json!({ "type": "error", "status": "error", "error": secret }),
        json!({ "type": "heartbeat", "status": "ok", secret.clone(): 1, "client_type": secret }),
    ] {
        talk.say(dev, &message);
        let error = text(&talk.one(dev), "error");
        assert!(error.chars().count() <= 1024, "{} characters", error.chars().count());
    }
    talk.say(dev, &json!({ "type": "error", "status": "error", "error": "ü".repeat(2000) }));
    assert_eq!(text(&talk.one(dev), "error"), "ü".repeat(1024), "cut between characters");
    talk.say(dev, &json!({ "type": "error", "status": "error", "error": "ü".repeat(1024) }));
    assert_eq!(text(&talk.one(dev), "error"), "ü".repeat(1024));
    talk.say(dev, &json!({ "type": "task", "status": "continue", "request": { "password": "hunter2" } }));
    assert!(!text(&talk.one(dev), "error").contains("hunter2"));
}

#[test]
fn aip_078_nothing_of_what_broke_inside_is_told() {
    let mut talk = Talk::new();
    let (_, boss) = talk.pair();
    let reject = switchboard_core::Reject::Invalid("/var/lib/switchboard: key=s3cret".into());
    let mut once = Some(reject);
    talk.world.set_gate(move |_, _, _| once.take().map_or(Ok(()), Err));
    talk.say(boss, &task("dev", "s1", "one"));
    let told = talk.short(boss).join("\n");
    assert!(!told.contains("s3cret") && !told.contains("/var"), "{told}");
}

#[test]
fn names_that_are_too_long_are_an_error_in_every_message() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for field in ["target_id", "session_id", "request_id", "task_name"] {
        let mut message = beat();
        message[field] = "ü".repeat(256).into();
        talk.say(dev, &message);
        assert_eq!(talk.short(dev), ["ack"]);
        message[field] = "ü".repeat(257).into();
        talk.say(dev, &message);
        assert_eq!(talk.short(dev), [format!("error {field} is longer than 256 characters")]);
    }
}
