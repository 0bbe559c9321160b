//! One chat over HTTP (§2.4): AC-071 to AC-077.

use serde_json::{Value, json};
use switchboard_acolyte::StreamEvent;
use switchboard_acolyte::codec::Streamed;
use switchboard_core::model::FailureKind;
use switchboard_testkit::{Script, Step};

use crate::support::{Talk, count, events, frames, gist, hang, is_id, streamed, text};

fn body(message: &str) -> String {
    json!({"message": message, "history": [], "model": "gpt-5-mini"}).to_string()
}

#[test]
fn ac_071_a_stream_is_made_of_data_frames_and_ends_with_its_one_terminal() {
    let mut talk = Talk::new(Script::new());
    let peer = talk.post(&body("hello\nworld"));
    let answer = talk.answer(peer);
    let head = answer.head.unwrap();
    assert_eq!(head.status, 200);
    let header =
        |name: &str| head.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(header("connection").as_deref(), Some("keep-alive"));
    let task = header("acolyte-task-id").unwrap();
    assert!(is_id(&task, "task"));
    assert!(answer.closed);
    assert!(answer.body.ends_with("\n\n"));
    for block in answer.body.trim_end().split("\n\n") {
        assert!(block.starts_with("data: {") && !block.contains('\n'), "{block:?}");
    }
    let frames = frames(&answer.body);
    let kinds: Vec<&str> = frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["status", "usage", "text-delta", "usage", "done"]);
    assert_eq!(frames[4]["reply"]["output"], "hello\nworld");
    assert!(matches!(streamed(&answer.body).last(), Some(Streamed::Done(_))));
    assert_eq!(talk.state(talk.peer, &task), "completed");
}

#[test]
fn ac_072_what_cannot_be_used_is_400_before_any_stream() {
    for (body, words) in [
        ("{oops", "Invalid JSON body"),
        ("", "Invalid JSON body"),
        ("[]", "Invalid request shape"),
        ("5", "Invalid request shape"),
        ("{}", "Invalid request shape: history"),
        (r#"{"message":"x","history":[]}"#, "Invalid request shape: model"),
        (r#"{"message":"x","history":[],"model":"m","sessionId":"x"}"#, "Invalid request shape: sessionId"),
        (r#"{"message":"x","history":[],"model":"m","workspace":null}"#, "Invalid request shape: workspace"),
    ] {
        let mut talk = Talk::new(Script::new());
        let peer = talk.post(body);
        let answer = talk.answer(peer);
        let head = answer.head.unwrap();
        assert_eq!((head.status, answer.body.as_str(), answer.closed), (400, words, true), "{body}");
        assert_eq!(head.headers, [("content-type", "text/plain".to_owned())]);
        assert_eq!(talk.status(talk.peer)["tasks_total"], 0);
    }
    let mut talk = Talk::new(Script::new());
    let peer = talk.post(&body(&"x".repeat(100_001)));
    assert_eq!(talk.answer(peer).body, "Invalid request shape: message", "the limits are those of RPC");
    // Unknown keys are overlooked here.
    let peer = talk.post(r#"{"message":"x","history":[],"model":"m","future":1}"#);
    assert!(matches!(streamed(&talk.answer(peer).body).last(), Some(Streamed::Done(_))));
}

#[test]
fn ac_073_failures_after_the_head_are_frames() {
    let script = Script::new()
        .on("bad", vec![Step::Fail { kind: FailureKind::Unprepared, message: "no such folder".into() }]);
    let mut talk = Talk::new(script);
    let cases = [
        (body("bad"), "no such folder"),
        (
            r#"{"message":"x","history":[],"model":"m","resourceId":"nobody"}"#.to_owned(),
            "The resource id is not valid",
        ),
        (
            r#"{"message":"x","history":[5],"model":"m"}"#.to_owned(),
            "The history holds an entry that cannot be used",
        ),
        (r#"{"message":"","history":[],"model":"m"}"#.to_owned(), "There is nothing to ask"),
    ];
    for (body, message) in cases {
        let peer = talk.post(&body);
        let answer = talk.answer(peer);
        assert_eq!(answer.head.unwrap().status, 200);
        let frames = frames(&answer.body);
        let last = frames.last().unwrap();
        assert_eq!((&last["type"], &last["errorMessage"]), (&"error".into(), &message.into()));
        assert_eq!(last["errorCode"], last["error"]["code"]);
        assert!(is_id(last["errorId"].as_str().unwrap(), "err") && answer.closed);
        assert!(matches!(streamed(&answer.body).last(), Some(Streamed::Event(StreamEvent::Error(_)))));
    }
}

#[test]
fn ac_074_the_events_are_those_of_rpc() {
    let tool = |error: Option<&str>| Step::Tool {
        name: "shell-run".into(),
        args: json!({"cmd": "ls"}),
        progress: vec!["a".into()],
        output: json!("b"),
        error: error.map(str::to_owned),
    };
    let list = json!({"checklist": {"group": "g", "title": "t", "items": []}});
    let steps = vec![
        Step::Reason("hm".into()),
        text("a"),
        tool(None),
        tool(Some("[E_TIMEOUT] late")),
        serde_json::from_value(list).unwrap(),
        text("b"),
        Step::End(switchboard_core::model::Finish::Length),
    ];
    let mut talk = Talk::new(Script::new().on("go", steps));
    talk.start("rpc_1", "go");
    let heard = talk.here();
    let peer = talk.post(&body("go"));
    let answer = talk.answer(peer);
    let mut frames = frames(&answer.body);
    let done = frames.pop().unwrap();
    let same = |events: Vec<Value>| -> Vec<Value> {
        let rename = |mut event: Value| {
            if event.get("toolCallId").is_some() {
                event["toolCallId"] = "call".into();
            }
            event
        };
        events.into_iter().map(rename).collect()
    };
    assert_eq!(same(frames), same(events(&heard, "rpc_1")));
    assert_eq!(done["reply"], heard.last().unwrap()["reply"]);
}

#[test]
fn ac_075_a_comment_comes_after_fifteen_seconds_of_silence() {
    let script = Script::new().on("slow", vec![text("a"), Step::Wait(40_000), text("b")]);
    let mut talk = Talk::new(script);
    let peer = talk.post(&body("slow"));
    talk.answer(peer);
    talk.world.advance(14_999);
    assert_eq!(talk.answer(peer).body, "");
    talk.world.advance(1);
    assert_eq!(talk.answer(peer).body, ":\n\n");
    talk.world.advance(15_000);
    assert_eq!(talk.answer(peer).body, ":\n\n");
    talk.world.advance(9_999);
    assert_eq!(talk.answer(peer).body, "");
    talk.world.advance(1);
    let answer = talk.answer(peer);
    assert!(matches!(streamed(&answer.body).last(), Some(Streamed::Done(_))) && answer.closed);
}

#[test]
fn ac_076_streams_do_not_wait_for_each_other() {
    let mut talk = Talk::new(hang());
    let slow = talk.post(&body("hang"));
    let quick = talk.post(&body("hello"));
    assert!(talk.answer(quick).closed);
    assert!(!talk.answer(slow).closed);
}

#[test]
fn ac_077_a_reader_that_leaves_cancels_the_run() {
    for orderly in [false, true] {
        let mut talk = Talk::new(hang());
        let peer = talk.post(&body("hang"));
        let head = talk.answer(peer).head.unwrap();
        let task = head.headers.iter().find(|(name, _)| *name == "acolyte-task-id").unwrap().1.clone();
        if orderly {
            talk.world.close(peer, None);
        } else {
            talk.world.cut(peer);
        }
        assert_eq!(talk.state(talk.peer, &task), "cancelled");
        assert_eq!(count(&talk.world, "turn_interrupted"), 1);
        assert_eq!(count(&talk.world, "turn_ended"), 1);
    }
}

#[test]
fn a_server_that_leaves_ends_streams_with_an_error_frame() {
    let mut talk = Talk::new(hang());
    let peer = talk.post(&body("hang"));
    talk.answer(peer);
    talk.world.evict(peer, switchboard_core::CloseReason::Restart);
    let answer = talk.answer(peer);
    assert_eq!(frames(&answer.body)[0]["errorCode"], "E_ABORTED");
    assert!(answer.closed);
}

#[test]
fn a_second_body_of_a_stream_is_left_alone() {
    let mut talk = Talk::new(hang());
    let peer = talk.post(&body("hang"));
    talk.answer(peer);
    talk.world.send_bytes(peer, body("hello").as_bytes());
    assert_eq!(talk.answer(peer).body, "");
    talk.start("rpc_1", "hello");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "hello""#);
}
