//! The OpenAI-compatible agent against recorded streams: shapes that the official `openai` package
//! makes and reads (see `tests/peers/python/openai_streams.py`), replayed by a real HTTP server whole,
//! in pieces, slowly and cut off. What that package's own client makes of a stream is in
//! `expected.json`, and the agent has to make the same of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::ToolName;
use switchboard_core::model::{
    CallEnd, CallKind, Executor, FailureKind, Finish, Output, Tool, ToolAnnotations, TurnEnd, TurnOutcome,
};
use tokio::sync::watch;

use support::endpoint::{Reply, Request, Server};
use support::{Port, brief, chat, run};

/// What the official client reads from a stream.
#[derive(Debug, Deserialize)]
struct Expected {
    text: String,
    refusal: String,
    reasoning: String,
    calls: Vec<Value>,
    finish: Option<String>,
    usage: Option<BTreeMap<String, u64>>,
    error: Option<String>,
}

fn recorded(file: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/openai");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_str(&recorded("expected.json")).unwrap()
}

/// A recorded stream in pieces of so many bytes.
fn pieces(stream: &str, size: usize) -> Reply {
    Reply::Pieces(stream.as_bytes().chunks(size).map(|piece| (0, piece.to_vec())).collect())
}

fn tool(name: &str) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: String::new(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Anyone,
        grace_ms: 0,
        options: Value::Null,
    }
}

fn failure(result: Result<TurnEnd, AgentError>) -> (FailureKind, String) {
    match result {
        Err(AgentError::Failed(failure)) => (failure.kind, failure.message),
        other => panic!("not failed: {other:?}"),
    }
}

/// Waits for something that has to come, but not for ever.
async fn until(come: impl Fn() -> bool) {
    let waiting = async {
        while !come() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

/// What the agent made of a stream.
struct Made {
    result: Result<TurnEnd, AgentError>,
    text: String,
    reasoning: String,
    requests: Vec<Request>,
}

/// Has the agent ask an endpoint that answers with `reply`, and, once tools were used, with `plain`.
async fn made_of(reply: Reply) -> Made {
    let server = Server::start(vec![reply, pieces(&recorded("plain.sse"), usize::MAX)]).await;
    let port = Port::new(|call| match &call.kind {
        CallKind::Tool { name, args } => Some(CallEnd::done(json!([name, args]))),
        CallKind::Question { .. } => None,
    });
    *port.tools.lock().unwrap() = vec![tool("get_weather"), tool("get_time")];
    let agent = server.agent(|config| config.attempts = 1);
    let result = run(&agent, &port, chat("x")).await;
    let reasoning = port.outputs().into_iter().filter_map(|output| match output {
        Output::Reasoning(text) => Some(text),
        _ => None,
    });
    Made { result, text: port.text(), reasoning: reasoning.collect(), requests: server.requests() }
}

fn compare(name: &str, expected: &Expected, made: Made) {
    let after_tools = if expected.calls.is_empty() { "" } else { "Grüße, wörld 🌍!" };
    let text = format!("{}{}{after_tools}", expected.text, expected.refusal);
    assert_eq!(made.text, text, "{name}");
    assert_eq!(made.reasoning, expected.reasoning, "{name}");
    if let Some(error) = &expected.error {
        let (kind, message) = failure(made.result);
        assert_eq!(kind, FailureKind::ModelUnavailable, "{name}");
        assert_eq!(message, format!("the model reported an error: {error}"), "{name}");
        return;
    }
    let end = made.result.unwrap();
    let finish = match expected.finish.as_deref() {
        _ if !expected.refusal.is_empty() => Finish::Filtered,
        Some("content_filter") => Finish::Filtered,
        Some("length") => Finish::Length,
        _ => Finish::Complete,
    };
    assert_eq!(end.outcome, TurnOutcome::Done(finish), "{name}");
    assert_eq!(end.usage.map(|usage| usage.0), expected.usage, "{name}");
    if expected.calls.is_empty() {
        assert_eq!(made.requests.len(), 1, "{name}");
        return;
    }
    let messages = made.requests[1].body["messages"].as_array().unwrap();
    let wanted: Vec<Value> = expected
        .calls
        .iter()
        .map(|call| {
            let function = json!({ "name": call["name"], "arguments": call["arguments"] });
            json!({ "id": call["id"], "type": "function", "function": function })
        })
        .collect();
    assert_eq!(messages[1]["tool_calls"], json!(wanted), "{name}");
    let results = expected.calls.iter().map(|call| {
        let args: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        let content = json!([call["name"], args]).to_string();
        json!({ "role": "tool", "tool_call_id": call["id"], "content": content })
    });
    assert_eq!(messages[2..], results.collect::<Vec<_>>(), "{name}");
}

#[tokio::test]
async fn recorded_streams_are_read_as_the_official_client_reads_them() {
    let mut streams = 0;
    for (name, expected) in expected().iter().filter(|(name, _)| *name != "whole") {
        let stream = recorded(&format!("{name}.sse"));
        for stream in [stream.clone(), stream.replace('\n', "\r\n"), stream.replace('\n', "\r")] {
            for size in [usize::MAX, 1] {
                compare(name, expected, made_of(pieces(&stream, size)).await);
            }
        }
        streams += 1;
    }
    assert!(streams >= 20, "{streams}");
}

#[tokio::test]
async fn it_does_not_matter_where_a_stream_is_split() {
    let expected = expected();
    for name in ["plain", "tools_without_a_reason"] {
        let stream = recorded(&format!("{name}.sse")).replace('\n', "\r\n");
        for at in 1..stream.len() {
            let (first, second) = stream.as_bytes().split_at(at);
            let reply = Reply::Pieces(vec![(0, first.to_vec()), (0, second.to_vec())]);
            compare(&format!("{name} split at {at}"), &expected[name], made_of(reply).await);
        }
    }
}

#[tokio::test]
async fn a_whole_answer_is_read_as_the_official_client_reads_it() {
    let made = made_of(Reply::Status(200, "", recorded("whole.json"))).await;
    compare("whole", &expected()["whole"], made);
}

#[tokio::test]
async fn think_tags_are_told_apart_where_they_are_expected() {
    for size in [1, 3, usize::MAX] {
        let server = Server::start(vec![pieces(&recorded("think.sse"), size)]).await;
        let port = Port::silent();
        run(&server.agent(|config| config.think_tags = true), &port, chat("x")).await.unwrap();
        let reasoning: String = port
            .outputs()
            .into_iter()
            .filter_map(|output| match output {
                Output::Reasoning(text) => Some(text),
                _ => None,
            })
            .collect();
        assert_eq!((reasoning.as_str(), port.text().as_str()), ("\nLet me <b> see.", "42 </think>"));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_before_the_first_token_is_asked_for_again() {
    let stream = recorded("plain.sse");
    let first = stream.find("Grüße").unwrap();
    let role = stream.find("\n\n").unwrap() + 2;
    for cut in [0, 1, role - 10, role, first] {
        let server = Server::start(vec![Reply::Cut(stream[..cut].to_owned()), pieces(&stream, 50)]).await;
        let port = Port::silent();
        run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
        assert_eq!((port.text().as_str(), server.requests().len()), ("Grüße, wörld 🌍!", 2), "cut at {cut}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_after_the_first_token_is_not_asked_for_again() {
    for (name, marker) in [("plain", ", w"), ("parallel_tools", "call_a"), ("reasoning_content", "see.")] {
        let stream = recorded(&format!("{name}.sse"));
        let cut = stream.find(marker).unwrap();
        let server = Server::start(vec![Reply::Cut(stream[..cut].to_owned())]).await;
        let port = Port::silent();
        *port.tools.lock().unwrap() = vec![tool("get_weather")];
        let (kind, message) = failure(run(&server.agent(|_| {}), &port, chat("x")).await);
        assert_eq!(kind, FailureKind::ModelUnavailable);
        assert!(message.contains("lost") || message.contains("cut off"), "{message}");
        assert_eq!((server.requests().len(), port.calls().len()), (1, 0), "{name}");
    }
}

#[tokio::test]
async fn a_slow_first_token_is_waited_for() {
    let stream = recorded("comments.sse");
    let (comments, rest) = stream.split_at(stream.find("data:").unwrap());
    // What is to come takes longer than the answer may be silent once it has begun.
    let mut slow: Vec<(u64, Vec<u8>)> = (0..6).map(|_| (100, comments.as_bytes().to_vec())).collect();
    slow.push((300, rest.as_bytes().to_vec()));
    let server = Server::start(vec![Reply::Pieces(slow)]).await;
    let port = Port::silent();
    let agent = server.agent(|config| config.idle_timeout_ms = 250);
    run(&agent, &port, chat("x")).await.unwrap();
    assert_eq!((port.text().as_str(), server.requests().len()), ("slow and steady", 1));
}

#[tokio::test]
async fn an_error_that_may_pass_is_no_reason_to_give_up_before_the_first_token() {
    let busy = "data: {\"error\":{\"code\":429,\"message\":\"busy, sk-test\"}}\n\n";
    let server = Server::start(vec![pieces(busy, 9), pieces(&recorded("plain.sse"), 9)]).await;
    let port = Port::silent();
    run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
    assert_eq!((port.text().as_str(), server.requests().len()), ("Grüße, wörld 🌍!", 2));

    let server = Server::start(vec![pieces(busy, 9)]).await;
    let agent = server.agent(|config| config.attempts = 2);
    let (_, message) = failure(run(&agent, &Port::silent(), chat("x")).await);
    assert_eq!(message, "the model reported an error: busy, [redacted]");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_interrupt_is_noticed_by_an_endpoint_that_still_talks() {
    let stream = recorded("plain.sse");
    let event = stream.split_inclusive("\n\n").find(|event| event.contains("Grüße")).unwrap().to_owned();
    let endless =
        [Reply::Endless(event), Reply::Endless(": OPENROUTER PROCESSING\n\n".into()), Reply::Silence];
    for (reply, talks) in endless.into_iter().zip([true, false, false]) {
        let mut server = Server::start(vec![reply]).await;
        let agent = server.agent(|_| {});
        let port = Port::silent();
        let (interrupt, interrupted) = watch::channel(false);
        let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
        let running =
            tokio::spawn(async move { agent.run(&mut turn).await.map(drop).unwrap_err().to_string() });
        until(|| !server.requests().is_empty() && (!talks || port.text().len() >= 50)).await;
        assert!(server.closed.try_recv().is_err());
        interrupt.send(true).unwrap();
        assert_eq!(tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap(), "the turn is over");
        let said = port.text();
        tokio::time::timeout(PATIENCE, server.closed.recv()).await.unwrap().unwrap();
        assert_eq!((port.text(), server.requests().len()), (said, 1));
    }
}

/// How long a test waits for what should not take long.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_model_that_never_stops_reasoning_is_stopped() {
    let delta = json!({ "reasoning_content": "x".repeat(256 << 10) });
    let event = format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }));
    let mut server = Server::start(vec![Reply::Endless(event)]).await;
    let port = Port::silent();
    let (kind, message) = failure(run(&server.agent(|_| {}), &port, chat("x")).await);
    assert_eq!((kind, message.as_str()), (FailureKind::Execution, "the model reasons longer than is taken"));
    let reasoned = port.outputs().into_iter().map(|output| match output {
        Output::Reasoning(text) => text.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(reasoned.sum::<usize>(), 4 << 20);
    server.closed.recv().await.unwrap();
    assert_eq!(server.requests().len(), 1);
}
