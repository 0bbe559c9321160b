//! The OpenAI-compatible agent against a real HTTP server that streams like one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, OpenAi, OpenAiConfig, Secret, Turn};
use switchboard_core::model::{
    Author, CallEnd, CallError, CallKind, CallRequest, Executor, FailureKind, Finish, Output, Part, Tool,
    ToolAnnotations, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{AgentId, MessageRow, MessageStatus, SessionId, Timestamp, ToolName, TurnId};
use tokio::sync::watch;

use support::endpoint::{Reply, Server};
use support::{Port, brief, chat, run};

fn delta(delta: Value) -> Value {
    json!({ "id": "x", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn text(text: &str) -> Value {
    delta(json!({ "content": text }))
}

fn stop(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn counts(input: u64, output: u64) -> Value {
    json!({ "choices": [], "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": { "cached_tokens": 1 } } })
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn finish(end: &TurnEnd) -> Finish {
    match end.outcome {
        TurnOutcome::Done(finish) => finish,
        ref other => panic!("not done: {other:?}"),
    }
}

fn failure(result: Result<TurnEnd, AgentError>) -> (FailureKind, String) {
    match result {
        Err(AgentError::Failed(failure)) => (failure.kind, failure.message),
        other => panic!("not failed: {other:?}"),
    }
}

fn tool(name: &str) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: "A tool.".into(),
        input_schema: json!({ "type": "object", "properties": { "city": { "type": "string" } } }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Anyone,
        grace_ms: 0,
        options: Value::Null,
    }
}

#[tokio::test]
async fn an_answer_is_streamed_with_reasoning_and_usage() {
    let server = Server::start(vec![Reply::Stream(vec![
        delta(json!({ "role": "assistant", "content": "" })),
        delta(json!({ "reasoning_content": "hm " })),
        delta(json!({ "reasoning": "so" })),
        text("Grüße, "),
        text("wörld 🌍"),
        stop("stop"),
        counts(12, 3),
    ])])
    .await;
    let port = Port::silent();
    let agent = server.agent(|config| {
        config.system = Some("Be brief.".into());
        config.temperature = Some(0.5);
        config.max_tokens = Some(99);
        config.extra.insert("seed".into(), json!(7));
    });
    let end = run(&agent, &port, chat("hello")).await.unwrap();
    assert_eq!(port.text(), "Grüße, wörld 🌍");
    let reasoning: Vec<Output> =
        port.outputs().into_iter().filter(|output| matches!(output, Output::Reasoning(_))).collect();
    assert_eq!(reasoning, [Output::Reasoning("hm ".into()), Output::Reasoning("so".into())]);
    assert_eq!(finish(&end), Finish::Complete);
    let usage = end.usage.unwrap();
    assert_eq!((usage.0["input_tokens"], usage.0["output_tokens"], usage.0["cached_tokens"]), (12, 3, 1));
    assert_eq!(port.outputs().last(), Some(&Output::Usage(usage)));

    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", request.head);
    assert!(request.head.to_ascii_lowercase().contains("authorization: bearer sk-test"));
    assert_eq!(request.body["model"], "test-model");
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["stream_options"]["include_usage"], true);
    assert_eq!((&request.body["temperature"], &request.body["max_tokens"]), (&json!(0.5), &json!(99)));
    assert_eq!(request.body["seed"], 7);
    assert_eq!(request.body.get("tools"), None);
    let messages =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "hello" }]);
    assert_eq!(request.body["messages"], messages);
}

#[tokio::test]
async fn earlier_messages_are_shown_also_those_that_were_told_with_the_turn() {
    let server = Server::start(vec![Reply::Stream(vec![text("ok"), stop("stop")])]).await;
    let port = Port::silent();
    let row = |turn: &str, author: Author, text: &str| MessageRow {
        session: SessionId::from("ses_test"),
        message: format!("{turn}.{text}").as_str().into(),
        parent: None,
        turn: TurnId::from(turn),
        author,
        parts: vec![Part::Text(text.into())],
        seq: 1,
        at: Timestamp::from_secs(1),
        status: MessageStatus::Complete,
    };
    *port.history.lock().unwrap() = vec![
        row("old", Author::User("ann".into()), "first"),
        row("old", Author::Agent(AgentId::from("agent")), "second"),
        row("inv_test", Author::User("ann".into()), "third"),
        row("inv_test", Author::Agent(AgentId::from("agent")), "fourth"),
    ];
    run(&server.agent(|_| {}), &port, chat("fifth")).await.unwrap();
    let wanted = json!([
        { "role": "user", "content": "first" },
        { "role": "assistant", "content": "second" },
        { "role": "user", "content": "third" },
        { "role": "assistant", "content": "fourth" },
        { "role": "user", "content": "fifth" },
    ]);
    assert_eq!(server.requests()[0].body["messages"], wanted);
}

#[tokio::test]
async fn tools_are_called_and_their_results_fed_back() {
    let fragment = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let server = Server::start(vec![
        Reply::Stream(vec![
            text("Let me look. "),
            // The second call begins before the first, and their fragments alternate.
            delta(json!({ "tool_calls": [fragment(1, Some("b"), Some("no_such"), "{")] })),
            delta(json!({ "tool_calls": [fragment(0, Some("a"), Some("geo_weather"), "")] })),
            delta(json!({ "tool_calls": [fragment(0, None, None, "{\"city\":"), fragment(1, None, None, "}")] })),
            delta(json!({ "tool_calls": [fragment(0, None, None, "\"Bern\"}")] })),
            delta(json!({ "tool_calls": [fragment(2, Some("c"), Some("geo_weather"), "not json")] })),
            delta(json!({ "tool_calls": [fragment(3, Some("d"), Some("fails"), "")] })),
            stop("tool_calls"),
            counts(10, 5),
        ]),
        Reply::Stream(vec![text("Sunny."), stop("stop"), counts(20, 2)]),
    ])
    .await;
    let port = Port::new(|call: &CallRequest| match &call.kind {
        CallKind::Tool { name, args } if name.as_str() == "geo.weather" => {
            assert_eq!(*args, json!({ "city": "Bern" }).into());
            Some(CallEnd::done(json!({ "sky": "blue" })))
        }
        CallKind::Tool { .. } => Some(CallEnd::Failed(CallError::new("Oops", "broken"))),
        CallKind::Question { .. } => None,
    });
    *port.tools.lock().unwrap() = vec![tool("geo.weather"), tool("fails")];
    let end = run(&server.agent(|_| {}), &port, chat("weather?")).await.unwrap();
    assert_eq!(port.text(), "Let me look. Sunny.");
    let usage = end.usage.unwrap();
    assert_eq!((usage.0["input_tokens"], usage.0["output_tokens"]), (30, 7));

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let tools = &requests[0].body["tools"];
    assert_eq!(tools[0]["function"]["name"], "geo_weather");
    assert_eq!(tools[0]["function"]["parameters"]["type"], "object");
    let messages = requests[1].body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["role"], "assistant");
    assert_eq!(messages[1]["content"], "Let me look. ");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Bern\"}");
    let results: Vec<(&str, &str)> = messages[2..]
        .iter()
        .map(|message| (message["tool_call_id"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results[0], ("a", "{\"sky\":\"blue\"}"));
    assert_eq!(results[1], ("b", "error: there is no tool called no_such"));
    assert!(results[2].1.starts_with("error: the arguments are not valid JSON"), "{results:?}");
    assert_eq!(results[3], ("d", "error: Oops: broken"));
}

#[tokio::test]
async fn a_model_that_never_stops_asking_for_tools_is_stopped() {
    let call =
        json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "t", "arguments": "{}" } }] });
    let server = Server::start(vec![Reply::Stream(vec![delta(call), stop("tool_calls")])]).await;
    let port = Port::new(|_| Some(CallEnd::done(json!(1))));
    *port.tools.lock().unwrap() = vec![tool("t")];
    let (kind, message) =
        failure(run(&server.agent(|config| config.tool_rounds = 3), &port, chat("x")).await);
    assert_eq!(kind, FailureKind::Execution);
    assert!(message.contains("more than 3 times"), "{message}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn reasons_to_stop_are_told_apart() {
    for (reason, wanted) in [
        ("stop", Finish::Complete),
        ("length", Finish::Length),
        ("content_filter", Finish::Filtered),
        ("other", Finish::Complete),
    ] {
        let server = Server::start(vec![Reply::Stream(vec![text("x"), stop(reason)])]).await;
        let end = run(&server.agent(|_| {}), &Port::silent(), chat("x")).await.unwrap();
        assert_eq!(finish(&end), wanted, "{reason}");
    }
    let refusal = Reply::Stream(vec![delta(json!({ "refusal": "I will not." })), stop("stop")]);
    let server = Server::start(vec![refusal, Reply::Stream(vec![stop("stop")])]).await;
    let port = Port::silent();
    let end = run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
    assert_eq!((finish(&end), port.text().as_str()), (Finish::Filtered, "I will not."));
    let end = run(&server.agent(|_| {}), &Port::silent(), chat("x")).await.unwrap();
    assert_eq!(finish(&end), Finish::Empty);
}

#[tokio::test]
async fn what_is_said_before_a_tool_is_no_answer() {
    let call = json!([{ "index": 0, "id": "a", "function": { "name": "t", "arguments": "{}" } }]);
    let server = Server::start(vec![
        Reply::Stream(vec![text("Let me look."), delta(json!({ "tool_calls": call })), stop("tool_calls")]),
        Reply::Stream(vec![text(" \n"), stop("stop")]),
    ])
    .await;
    let port = Port::new(|_| Some(CallEnd::done(json!(1))));
    *port.tools.lock().unwrap() = vec![tool("t")];
    let end = run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
    assert_eq!(finish(&end), Finish::Empty);
}

#[tokio::test]
async fn a_stream_that_is_cut_after_output_fails_and_is_not_asked_again() {
    let server = Server::start(vec![Reply::Cut(event(&text("half ")))]).await;
    let port = Port::silent();
    let (kind, message) = failure(run(&server.agent(|_| {}), &port, chat("x")).await);
    assert_eq!((kind, port.text().as_str()), (FailureKind::ModelUnavailable, "half "));
    assert!(message.contains("lost") || message.contains("cut off"), "{message}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_whose_end_is_known_needs_no_done() {
    let server = Server::start(vec![Reply::Cut(event(&text("all")) + &event(&stop("length")))]).await;
    let end = run(&server.agent(|_| {}), &Port::silent(), chat("x")).await.unwrap();
    assert_eq!(finish(&end), Finish::Length);
}

#[tokio::test]
async fn what_brought_nothing_is_asked_again() {
    let overloaded =
        |status| Reply::Status(status, "retry-after: 0\r\n", "{\"error\":{\"message\":\"busy\"}}".into());
    let server = Server::start(vec![
        overloaded(429),
        Reply::Drop,
        Reply::Cut(": nothing yet\n\n".into()),
        overloaded(503),
        Reply::Stream(vec![text("at last"), stop("stop")]),
    ])
    .await;
    let port = Port::silent();
    run(&server.agent(|config| config.attempts = 5), &port, chat("x")).await.unwrap();
    assert_eq!(port.text(), "at last");
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn attempts_are_bounded() {
    let server = Server::start(vec![Reply::Status(500, "", "oh no".into())]).await;
    let (kind, message) =
        failure(run(&server.agent(|config| config.attempts = 3), &Port::silent(), chat("x")).await);
    assert_eq!(kind, FailureKind::ModelUnavailable);
    assert!(message.contains("HTTP 500"), "{message}");
    assert_eq!(server.requests().len(), 3);

    // An endpoint that wants to be left alone for an hour is not waited for.
    let server = Server::start(vec![Reply::Status(429, "retry-after: 3600\r\n", String::new())]).await;
    failure(run(&server.agent(|_| {}), &Port::silent(), chat("x")).await);
    assert_eq!(server.requests().len(), 1);

    // No money is no reason to ask again.
    let body = json!({ "error": { "message": "You exceeded your quota", "code": "insufficient_quota" } });
    let server = Server::start(vec![Reply::Status(429, "", body.to_string())]).await;
    let (_, message) = failure(run(&server.agent(|_| {}), &Port::silent(), chat("x")).await);
    assert!(message.contains("You exceeded your quota"), "{message}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_unavailable() {
    let agent = OpenAi::new(OpenAiConfig {
        base_url: "http://127.0.0.1:1/v1".into(),
        model: "m".into(),
        attempts: 2,
        backoff_ms: 1,
        ..OpenAiConfig::default()
    })
    .unwrap();
    let (kind, message) = failure(run(&agent, &Port::silent(), chat("x")).await);
    assert_eq!(
        (kind, message.as_str()),
        (FailureKind::ModelUnavailable, "the model endpoint cannot be reached")
    );
}

#[tokio::test]
async fn refusals_are_clear_and_never_show_the_key() {
    let body = json!({ "error": { "message": "bad key sk-test or model" } }).to_string();
    for (status, wanted, kind) in [
        (401, "refused the API key (HTTP 401)", FailureKind::ModelUnavailable),
        (403, "refused the API key (HTTP 403)", FailureKind::ModelUnavailable),
        (404, "no such model or path", FailureKind::ModelUnavailable),
        (400, "refused the request (HTTP 400): bad key [redacted] or model", FailureKind::Execution),
    ] {
        let server = Server::start(vec![Reply::Status(status, "", body.clone())]).await;
        let Err(AgentError::Failed(failed)) = run(&server.agent(|_| {}), &Port::silent(), chat("x")).await
        else {
            panic!("{status} is no answer");
        };
        let message = &failed.message;
        assert!(message.contains(wanted), "{message}");
        assert_eq!((failed.kind, failed.http_status()), (kind, Some(status)));
        assert!(!message.contains("sk-test"));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn malformed_chunks_are_reported_without_their_content() {
    for chunk in ["{\"choices\": [{\"secret", "{\"choices\": \"secret\"}", "secret"] {
        let server =
            Server::start(vec![Reply::Hang(event(&text("begun ")) + &format!("data: {chunk}\n\n"))]).await;
        let (kind, message) = failure(run(&server.agent(|_| {}), &Port::silent(), chat("x")).await);
        assert_eq!(kind, FailureKind::Execution);
        assert!(message.contains("malformed chunk") && !message.contains("secret"), "{message}");
    }
    let server = Server::start(vec![Reply::Hang("data: \u{1}".to_owned() + &"x".repeat(2 << 20))]).await;
    let (kind, message) = failure(run(&server.agent(|_| {}), &Port::silent(), chat("x")).await);
    assert_eq!(kind, FailureKind::Execution);
    assert!(message.contains("longer than"), "{message}");
    let error = json!({ "error": { "message": "model crashed", "code": 502 } });
    let server = Server::start(vec![Reply::Hang(event(&error))]).await;
    let (kind, message) = failure(run(&server.agent(|_| {}), &Port::silent(), chat("x")).await);
    assert_eq!(
        (kind, message.as_str()),
        (FailureKind::ModelUnavailable, "the model reported an error: model crashed")
    );
}

#[tokio::test]
async fn silence_has_a_limit_before_and_within_the_answer() {
    for reply in [Reply::Silence, Reply::Hang(": still thinking\n\n".into())] {
        let mut server = Server::start(vec![reply]).await;
        let agent = server.agent(|config| config.first_token_timeout_ms = 100);
        let (kind, message) = failure(run(&agent, &Port::silent(), chat("x")).await);
        assert_eq!(kind, FailureKind::ModelUnavailable);
        assert!(message.contains("did not begin to answer within 100 ms"), "{message}");
        server.closed.recv().await.unwrap();
        assert_eq!(server.requests().len(), 1);
    }
    let mut server = Server::start(vec![Reply::Hang(event(&text("and then ")))]).await;
    let (kind, message) =
        failure(run(&server.agent(|config| config.idle_timeout_ms = 100), &Port::silent(), chat("x")).await);
    assert_eq!(kind, FailureKind::ModelUnavailable);
    assert!(message.contains("fell silent for 100 ms"), "{message}");
    server.closed.recv().await.unwrap();

    let server = Server::start(vec![Reply::Hang(event(&text("and then ")))]).await;
    let (_, message) = failure(
        run(&server.agent(|config| config.request_timeout_ms = 150), &Port::silent(), chat("x")).await,
    );
    assert!(message.contains("took longer than 150 ms"), "{message}");
}

#[tokio::test]
async fn an_interrupt_closes_the_connection_to_the_model() {
    for reply in [Reply::Hang(event(&text("talking "))), Reply::Silence] {
        let mut server = Server::start(vec![reply]).await;
        let agent = server.agent(|_| {});
        let port = Port::silent();
        let (interrupt, interrupted) = watch::channel(false);
        let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
        let running =
            tokio::spawn(async move { agent.run(&mut turn).await.map(drop).unwrap_err().to_string() });
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        interrupt.send(true).unwrap();
        assert_eq!(running.await.unwrap(), "the turn is over");
        tokio::time::timeout(Duration::from_secs(30), server.closed.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn dropping_the_turn_closes_the_connection_too() {
    let mut server = Server::start(vec![Reply::Hang(event(&text("talking ")))]).await;
    let agent = server.agent(|_| {});
    let port = Port::silent();
    let (_keep, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
    let running = tokio::spawn(async move { agent.run(&mut turn).await.is_ok() });
    while port.text().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.abort();
    tokio::time::timeout(Duration::from_secs(30), server.closed.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_understood() {
    let body = json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": "whole" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 1, "completion_tokens": 1 } });
    let server = Server::start(vec![Reply::Status(200, "", body.to_string())]).await;
    let port = Port::silent();
    let end = run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
    assert_eq!((port.text().as_str(), finish(&end)), ("whole", Finish::Complete));
    assert_eq!(end.usage.unwrap().0["input_tokens"], 1);
}

#[tokio::test]
async fn a_step_returns_the_new_state() {
    let server = Server::start(vec![
        Reply::Stream(vec![text("```json\n{\"n\":2}\n```"), stop("stop")]),
        Reply::Stream(vec![text("no json"), stop("stop")]),
    ])
    .await;
    let agent = server.agent(|_| {});
    let step =
        TurnRequest::Step { goal: "count".into(), state: json!({ "n": 1 }), budget: Default::default() };
    let end = run(&agent, &Port::silent(), step.clone()).await.unwrap();
    assert_eq!(end.output, Some(json!({ "n": 2 }).into()));
    let end = run(&agent, &Port::silent(), step).await.unwrap();
    assert_eq!(end.output, Some(json!({ "text": "no json" }).into()));
    let (kind, _) = failure(run(&agent, &Port::silent(), support::tool("x", json!({}))).await);
    assert_eq!(kind, FailureKind::ToolNotFound);
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let with = |change: fn(&mut OpenAiConfig)| {
        let mut config = OpenAiConfig { model: "m".into(), ..OpenAiConfig::default() };
        change(&mut config);
        OpenAi::new(config).map(drop).map_err(|error| error.to_string())
    };
    assert!(with(|config| config.model = String::new()).unwrap_err().contains("model"));
    assert!(with(|config| config.base_url = "ftp://x".into()).unwrap_err().contains("http"));
    assert!(with(|config| config.base_url = "nonsense".into()).unwrap_err().contains("base_url"));
    assert!(with(|config| config.attempts = 0).unwrap_err().contains("attempts"));
    assert!(with(|config| config.price_output = Some(-1.0)).unwrap_err().contains("`price_output`"));
    let error = with(|config| config.api_key = Some(Secret::new("a\nb"))).unwrap_err();
    assert!(error.contains("API key") && !error.contains("a\nb"));
}
