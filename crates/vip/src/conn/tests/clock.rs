//! What happens by itself when time passes.

use switchboard_core::model::{Failure, FailureKind};

use super::*;

#[test]
fn vip_018_who_does_not_say_hello_in_time_is_gone() {
    let mut stage = Stage::opened(|_| {});
    stage.pass(4_999);
    assert_eq!(stage.closed, None);
    stage.pass(1);
    assert_eq!(stage.codes(), ["PROTO_HANDSHAKE_TIMEOUT"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4408));
}

#[test]
fn who_does_not_show_a_screen_in_time_is_gone() {
    let mut stage = Stage::opened(|_| {});
    stage.pass(4_000);
    stage.hello(json!({}));
    stage.said();
    stage.pass(9_999);
    assert_eq!(stage.closed, None, "the time for the hello is over, and does not count any more");
    stage.pass(1);
    assert_eq!(stage.codes(), ["SES_CONTEXT_TIMEOUT"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4408));
    // The session waits for another transport, which may do better.
    assert!(stage.ops.iter().any(|op| matches!(op, Op::Detach { .. })));
    assert!(!stage.ops.iter().any(|op| matches!(op, Op::CloseAttachment { .. })));
}

#[test]
fn vip_076_a_transport_that_does_not_answer_is_dead_within_45_seconds() {
    let mut stage = Stage::new(|_, _| {});
    stage.alive = false;
    stage.said();
    stage.pass(39_999);
    assert_eq!((stage.pings, stage.closed), (2, None));
    stage.pass(1);
    assert_eq!(stage.codes(), ["NET_HEARTBEAT_TIMEOUT"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4408));
    // One answer in time, and it lives.
    let mut stage = Stage::new(|_, _| {});
    stage.alive = false;
    stage.pass(30_000);
    stage.feed(Input::Frame(Frame::Pong(Bytes::new())));
    stage.pass(20_000);
    assert_eq!(stage.closed, None);
    // On a data channel the client asks, and is asked nothing.
    let mut stage = Stage::opened(|setup| setup.kind = Kind::Peer);
    stage.hello(json!({ "context": screen() }));
    stage.pass(30_000);
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    stage.pass(20_000);
    assert_eq!((stage.pings, stage.closed), (0, None));
}

#[test]
fn vip_080_an_idle_session_is_warned_once_and_ended() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.pass(269_000);
    assert!(stage.said().is_empty());
    stage.pass(30_000);
    let warned = stage.one("session.terminating");
    assert_eq!(warned["data"], json!({ "reason": "idle", "in_ms": 30_000 }));
    // Being there is not doing anything.
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    stage.said();
    stage.pass(1_000);
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.fatal", "state.changed", "session.terminated"]);
    assert_eq!(
        (&said[0]["data"]["code"], &said[2]["data"]["reason"]),
        (&json!("SES_IDLE_TIMEOUT"), &json!("idle"))
    );
    assert_eq!(stage.closed.map(|close| close.code), Some(4440));
    assert!(stage.ops.iter().any(|op| matches!(op, Op::CloseAttachment { .. })));
}

#[test]
fn whoever_does_something_is_not_idle() {
    let mut stage = Stage::new(|_, _| {});
    stage.pass(280_000);
    stage.send("input.detected", None, json!({ "origin": "client" }));
    stage.said();
    stage.pass(269_000);
    assert!(stage.said().is_empty());
    stage.pass(1_000);
    stage.one("session.terminating");
    // A session in which something happens is not idle, either.
    stage.send("input.start", Some("t-1"), json!({ "mode": "text", "trigger": "text" }));
    stage.send("input.text", Some("t-1"), json!({ "text": "hello" }));
    stage.send("input.end", Some("t-1"), json!({ "reason": "text" }));
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    stage.connection.deadlines.active(Timestamp::from_millis(0));
    stage.said();
    stage.feed(Input::Timeout);
    assert_eq!((stage.said().len(), stage.closed), (0, None));
}

#[test]
fn vip_080_a_session_ends_when_it_is_over_whatever_happens() {
    let mut stage = Stage::new(|_, _| {});
    for second in 0..569 {
        stage.pass(1_000);
        if second % 100 == 0 {
            stage.send("input.detected", None, json!({ "origin": "client" }));
        }
    }
    stage.said();
    stage.pass(30_000);
    let warned = stage.one("session.terminating");
    assert_eq!(warned["data"], json!({ "reason": "max_duration", "in_ms": 30_000 }));
    stage.pass(1_000);
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.fatal", "state.changed", "session.terminated"]);
    assert_eq!(said[2]["data"]["reason"], "max_duration");
    assert_eq!(stage.closed.map(|close| close.code), Some(4441));
}

#[test]
fn an_agent_that_does_not_answer_in_time_is_stopped() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    let turn = stage.turn.clone().unwrap();
    stage.said();
    stage.pass(14_999);
    assert!(stage.said().is_empty());
    stage.pass(1);
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.recoverable", "state.changed"]);
    assert_eq!((&said[0]["data"]["code"], stage.state()), (&json!("PROV_TIMEOUT"), State::Idle));
    assert_eq!((stage.stopped(), stage.closed), (vec![turn], None));
}

#[test]
fn providers_that_fail_again_and_again_end_the_session() {
    let fail = |stage: &mut Stage, turn: &str, kind: FailureKind| {
        stage.type_in(turn, "tell me");
        stage.said();
        stage.end_turn(TurnEnd::failed(kind, "no"));
    };
    let mut stage = Stage::new(|_, _| {});
    fail(&mut stage, "t-1", FailureKind::ModelUnavailable);
    fail(&mut stage, "t-2", FailureKind::ModelUnavailable);
    // What is not the absence of a provider does not count, and an answer makes good for everything.
    fail(&mut stage, "t-3", FailureKind::InvalidRequest);
    assert_eq!((stage.codes(), stage.closed), (vec!["PROV_REJECTED".to_owned()], None));
    stage.type_in("t-4", "tell me");
    stage.end_turn(TurnEnd::complete());
    for (turn, closed) in [("t-5", None), ("t-6", None), ("t-7", Some(4502))] {
        fail(&mut stage, turn, FailureKind::ModelUnavailable);
        assert_eq!(stage.codes()[0], "PROV_UNAVAILABLE");
        assert_eq!(stage.closed.map(|close| close.code), closed, "{turn}");
    }
}

#[test]
fn why_a_model_did_not_answer_is_told_apart() {
    let code = |status: u16| {
        let mut stage = Stage::new(|_, _| {});
        stage.type_in("t-1", "tell me");
        stage.said();
        let failure = Failure::new(FailureKind::ModelUnavailable, "no").with_http_status(status);
        stage.end_turn(TurnEnd::new(TurnOutcome::Failed(failure)));
        stage.codes().remove(0)
    };
    for (statuses, expected) in [
        (&[402, 429][..], "PROV_QUOTA"),
        (&[400, 401, 403, 404], "PROV_REJECTED"),
        (&[408, 409, 425, 500, 503], "PROV_UNAVAILABLE"),
    ] {
        for status in statuses {
            assert_eq!(code(*status), expected, "{status}");
        }
    }
}

#[test]
fn a_server_that_leaves_waits_for_the_end_of_what_is_going_on() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.said();
    stage.feed(Input::Drain { retry_ms: 500 });
    assert_eq!(stage.one("session.terminating")["data"], json!({ "reason": "drain", "in_ms": 0 }));
    assert_eq!(stage.closed, None);
    stage.end_turn(TurnEnd::complete());
    let fatal = stage.one("error.fatal");
    assert_eq!(fatal["data"]["code"], "NET_SERVER_DRAINING");
    assert_eq!(fatal["data"]["retry_after_ms"], 500, "when to come back");
    assert_eq!(stage.closed.map(|close| close.code), Some(1012));
    assert!(stage.ops.iter().any(|op| matches!(op, Op::Detach { .. })), "the session goes on elsewhere");
}
