//! What comes in: in order, not too much of it, and not too fast.

use super::*;

impl Stage {
    fn send_raw(&mut self, text: &str) {
        self.feed(Input::Frame(Frame::Text(text.to_owned())));
    }

    /// Something with another number than the next.
    fn send_as(&mut self, seq: u64, kind: &str, data: Value) {
        self.seq = seq - 1;
        self.send(kind, None, data);
    }
}

#[test]
fn numbers_are_passed_over_when_they_were_seen_and_missed_when_they_are_not() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send_as(2, "session.ping", json!({ "nonce": "seen" }));
    assert!(stage.said().is_empty());
    stage.send_as(3, "session.ping", json!({ "nonce": "next" }));
    assert_eq!(stage.one("session.pong")["data"]["nonce"], "next");
    stage.send_as(5, "session.ping", json!({ "nonce": "gap" }));
    assert_eq!(stage.codes(), ["PROTO_SEQ_GAP"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4408));
}

#[test]
fn a_message_whose_number_cannot_be_read_may_have_had_one() {
    let mut stage = Stage::new(|_, _| {});
    stage.send_raw("{");
    stage.said();
    stage.send_as(4, "session.ping", json!({ "nonce": "n" }));
    assert_eq!(kinds(&stage.said()), ["session.pong"]);
    // But only once.
    stage.send_as(6, "session.ping", json!({ "nonce": "n" }));
    assert_eq!(stage.codes(), ["PROTO_SEQ_GAP"]);
}

#[test]
fn the_third_malformed_message_in_a_minute_is_the_last() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send_raw("{");
    stage.send_raw("{");
    assert_eq!((stage.codes().len(), stage.closed), (2, None));
    // What is older than a minute is forgotten.
    stage.pass(60_001);
    stage.send_raw("{");
    stage.send_raw("{");
    assert_eq!(stage.closed, None);
    stage.send_raw("{");
    assert_eq!(stage.closed.map(|close| close.code), Some(4400));
}

#[test]
fn vip_025_the_fifth_violation_in_a_minute_is_the_last() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    let violate = |stage: &mut Stage| stage.send("input.cancel", Some("t-9"), json!({ "reason": "user" }));
    for _ in 0..4 {
        violate(&mut stage);
    }
    assert_eq!((stage.codes(), stage.closed), (vec!["PROTO_INVALID_TRANSITION".to_owned(); 4], None));
    violate(&mut stage);
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.fatal", "state.changed", "session.terminated"]);
    assert_eq!(said[0]["data"]["code"], "PROTO_TOO_MANY_VIOLATIONS");
    assert_eq!(stage.closed.map(|close| close.code), Some(4400));
}

#[test]
fn vip_089_a_flood_of_events_is_one_strike_a_second_and_the_third_is_the_last() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    let ping = |stage: &mut Stage| stage.send("session.ping", None, json!({ "nonce": "n" }));
    // Two were said before.
    for _ in 0..98 {
        ping(&mut stage);
    }
    assert_eq!(stage.codes().len(), 0);
    ping(&mut stage);
    let refused = stage.one("error.recoverable");
    assert_eq!(
        (&refused["data"]["code"], &refused["data"]["retry_after_ms"], &refused["reply_to"]),
        (&json!("RATE_EVENTS"), &json!(20), &json!("c-101"))
    );
    // However many there are at once, it is one flood: each of them is told that it was refused, up to a bound.
    for _ in 0..1_000 {
        ping(&mut stage);
    }
    assert_eq!((stage.codes(), stage.closed), (vec!["RATE_EVENTS".to_owned(); 100], None));
    // One that does not stop is over in its third second.
    for closed in [None, Some(4429)] {
        stage.pass(1_000);
        for _ in 0..60 {
            ping(&mut stage);
        }
        assert_eq!(stage.closed.map(|close| close.code), closed);
    }
    assert_eq!(stage.one("error.fatal")["data"]["code"], "RATE_EVENTS");
}

#[test]
fn vip_089_many_updates_at_once_are_one_strike() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    for version in 2..=31 {
        let change = json!({ "mode": "delta", "base_version": version - 1, "context_version": version });
        stage.send("state.update", None, change);
    }
    let (acknowledged, refused): (Vec<Value>, Vec<Value>) =
        stage.said().into_iter().partition(|event| event["type"] == "state.ack");
    // One was sent before. Whoever was refused knows which one.
    assert_eq!((acknowledged.len(), refused.len(), stage.closed), (4, 26, None));
    assert!(refused.iter().all(|event| event["data"]["code"] == "RATE_EVENTS"));
    assert_eq!(refused[0]["reply_to"], "c-7");
    // Floods that are seconds apart are several.
    for closed in [None, Some(4429)] {
        stage.pass(1_000);
        for version in 2..=11 {
            stage.send(
                "state.update",
                None,
                json!({ "mode": "delta", "base_version": 9, "context_version": version }),
            );
        }
        assert_eq!(stage.closed.map(|close| close.code), closed);
    }
}

#[test]
fn updates_have_a_rate_of_their_own() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    let update = |stage: &mut Stage, version: u64| {
        let change = json!({ "mode": "delta", "base_version": version - 1, "context_version": version });
        stage.send("state.update", None, change);
    };
    for version in 2..=5 {
        update(&mut stage, version);
    }
    assert_eq!(kinds(&stage.said()), ["state.ack"; 4]);
    update(&mut stage, 6);
    assert_eq!(stage.codes(), ["RATE_EVENTS"]);
    stage.pass(200);
    update(&mut stage, 6);
    assert_eq!(kinds(&stage.said()), ["state.ack"]);
}

#[test]
fn messages_have_a_size_and_on_a_data_channel_a_smaller_one() {
    for (kind, most) in [(Kind::Stream, 262_144), (Kind::Peer, 65_536)] {
        let mut stage = Stage::opened(|setup| setup.kind = kind);
        stage.hello(json!({ "context": screen() }));
        stage.said();
        let ping = |length: usize| {
            let text = |filler: usize| {
                json!({ "type": "session.ping", "id": "c-2", "seq": 2, "ts": 0, "state_seq": 1,
                    "data": { "nonce": "n", "more": "x".repeat(filler) } })
                .to_string()
            };
            text(length - text(0).len())
        };
        stage.send_raw(&ping(most));
        assert_eq!(kinds(&stage.said()), ["session.pong"], "{kind:?}");
        stage.send_raw(&ping(most + 1));
        assert_eq!(stage.codes()[0], "PROTO_TOO_LARGE");
        assert_eq!(stage.closed.map(|close| close.code), Some(1009));
    }
}

#[test]
fn nothing_is_said_before_the_hello_nor_before_the_screen() {
    let mut stage = Stage::opened(|_| {});
    stage.send("session.close", None, json!({ "reason": "app" }));
    assert!(stage.said().is_empty(), "who is not there may go");
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    stage.hello(json!({}));
    stage.said();
    stage.send("input.start", Some("t-1"), json!({ "trigger": "ptt" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    stage.send("input.detected", None, json!({ "origin": "client" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    stage.hello(json!({}));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"], "once is enough");
    assert_eq!((stage.state(), stage.closed), (State::Connecting, None));
}

#[test]
fn what_comes_too_early_waits_but_not_without_end() {
    let mut stage = Stage::opened(|_| {});
    // The session is asked to let the client in; until it has, everything waits.
    let hello = json!({ "type": "client.connect", "id": "c-1", "seq": 1, "ts": 0, "state_seq": 0,
        "data": { "session_id": SESSION, "protocol_version": "0.1" } });
    let text = |text: String| Input::Frame(Frame::Text(text));
    stage.connection.handle_input(text(hello.to_string()), stage.now).unwrap();
    for _ in 0..256 {
        stage.connection.handle_input(text("{".to_owned()), stage.now).unwrap();
    }
    assert_eq!(stage.connection.phase, Phase::Admitting);
    stage.connection.handle_input(text("{".to_owned()), stage.now).unwrap();
    assert_eq!(stage.connection.phase, Phase::Over);
    stage.drain();
    assert_eq!(stage.closed.map(|close| close.code), Some(4429));
}

#[test]
fn audio_travels_in_the_framing_that_was_agreed() {
    let chunk = json!({ "stream_id": 1, "seq": 0, "offset_ms": 0, "audio": "AAAA" });
    for (framing, codes) in [("binary", 1), ("base64", 0)] {
        let mut stage = Stage::new(|settings, _| {
            settings.framing = framing.to_owned();
            settings.input = Format::Opus;
        });
        stage.take_floor("t-1");
        stage.said();
        stage.send("audio.chunk", None, chunk.clone());
        let packets = stage.voice.iter().filter(|op| matches!(op, VoiceOp::Packet(_))).count();
        assert_eq!((stage.codes().len(), packets), (codes, 1 - codes), "{framing}");
    }
}
