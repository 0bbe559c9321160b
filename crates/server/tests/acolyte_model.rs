//! A model behind Acolyte: what it is told of a chat, and what the chat makes of its steps.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use serde_json::{Value, json};

use support::function::{Exchange, Function};
use support::rpc::{Rpc, delta, http, is_terminal};
use support::{ANN, InProcess};

/// A server whose agent asks a model that the test speaks for.
async fn with_model() -> (InProcess, Function) {
    let model = Function::start().await;
    let url = format!("agents.model.base_url={}/v1", model.url());
    let settings = ["agent=model", "agents.model.kind=openai", "agents.model.model=m", &url];
    (InProcess::start(&settings).await, model)
}

/// Answers with one piece.
async fn answer(exchange: Exchange, delta: Value, reason: &str) {
    let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    exchange.reply(200, &["Content-Type: text/event-stream"], body).await;
}

async fn say(exchange: Exchange, text: &str) {
    answer(exchange, json!({ "content": text }), "stop").await;
}

/// What the model is told, as roles and words.
fn told(exchange: &Exchange) -> Vec<(String, String)> {
    let messages = exchange.asked.body["messages"].as_array().expect("messages");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages.iter().map(|message| (word(&message["role"]), word(&message["content"]))).collect()
}

fn words(told: &[(&str, &str)]) -> Vec<(String, String)> {
    told.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// A history of these entries.
fn history(entries: &[(&str, &str)]) -> Value {
    let entries = entries.iter().enumerate().map(|(number, (role, content))| {
        let id = format!("msg_{number}");
        json!({ "id": id, "role": role, "content": content, "timestamp": "2026-02-28T00:00:00.000Z" })
    });
    entries.collect()
}

/// What the model is told of a chat, which it answers with `ok`.
async fn told_of(rpc: &mut Rpc, model: &mut Function, more: Value) -> Vec<(String, String)> {
    let id = rpc.start("now", more).await;
    let exchange = model.next().await;
    let told = told(&exchange);
    say(exchange, "ok").await;
    assert_eq!(rpc.finish(&id).await.1["reply"]["output"], "ok");
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_that_a_chat_tells_reaches_the_model_in_that_chat() {
    let (server, mut model) = with_model().await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let past = [("system", "s1"), ("user", "q1"), ("assistant", "a1")];
    let wanted = words(&[("user", "s1"), ("user", "q1"), ("assistant", "a1"), ("user", "now")]);
    let anonymous = json!({ "history": history(&past) });
    assert_eq!(told_of(&mut rpc, &mut model, anonymous.clone()).await, wanted);
    let named = json!({ "history": history(&past), "sessionId": "sess_told" });
    for time in ["told", "known"] {
        assert_eq!(told_of(&mut rpc, &mut model, named.clone()).await, wanted, "{time}");
    }

    let edited = [("user", "q1"), ("assistant", "edited"), ("user", "q2"), ("assistant", "a2")];
    let named = json!({ "history": history(&edited), "sessionId": "sess_told" });
    let whole: Vec<(&str, &str)> = edited.into_iter().chain([("user", "now")]).collect();
    assert_eq!(told_of(&mut rpc, &mut model, named).await, words(&whole));

    let body = json!({ "message": "now", "model": "m", "history": history(&past) }).to_string();
    let stream = http(server.address, "POST /v1/chat/stream", ANN, &[], body);
    let asked = async {
        let exchange = model.next().await;
        let told = told(&exchange);
        say(exchange, "ok").await;
        told
    };
    let (stream, told) = tokio::join!(stream, asked);
    assert_eq!((stream.status, told), (200, wanted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_and_suggestions_reach_the_model_for_their_chat_alone() {
    let (server, mut model) = with_model().await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let skill = json!({ "name": "rhyme", "instructions": "Answer in verse." });
    let request = json!({ "activeSkills": [skill], "suggestions": ["Be brief."], "sessionId": "sess_s" });
    let told = told_of(&mut rpc, &mut model, request).await;
    let system = "Skill rhyme:\nAnswer in verse.\n\nBe brief.";
    assert_eq!(told, words(&[("system", system), ("user", "now")]));
    let told = told_of(&mut rpc, &mut model, json!({ "sessionId": "sess_s" })).await;
    assert_eq!(told, words(&[("user", "now")]));
}

/// An answer that asks for these tools, with these arguments.
fn asks_for(calls: &[(&str, &str)], text: &str) -> Value {
    let calls = calls.iter().enumerate().map(|(index, (name, arguments))| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "index": index, "id": format!("c{index}"), "type": "function", "function": function })
    });
    json!({ "content": text, "tool_calls": calls.collect::<Value>() })
}

/// What a chat says when the model answers with these, one after another: its text, its events and its reply.
async fn chat(answers: &[Value]) -> (String, Vec<Value>, Value) {
    let (server, mut model) = with_model().await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let id = rpc.start("go", json!({})).await;
    for delta in answers {
        let reason = if delta["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        answer(model.next().await, delta.clone(), reason).await;
    }
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        let message = rpc.wait(|message| message["id"] == id).await;
        text.push_str(delta(&message).unwrap_or_default());
        if is_terminal(&message) {
            return (text, events, message["reply"].clone());
        }
        events.push(message["event"].clone());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_026_calls_that_cannot_be_run_are_told_as_failed_and_end_their_step() {
    let wrong = asks_for(&[("no_such", "{}"), ("neither", "{")], "let me try");
    let (text, events, reply) = chat(&[wrong, json!({ "content": "answer" })]).await;
    assert_eq!(text, "let me try\nanswer");
    assert_eq!((&reply["output"], &reply["modelCalls"]), (&json!("answer"), &json!(2)));
    assert_eq!(reply["toolCalls"], json!(["no_such", "neither"]));
    assert_eq!(reply.get("error"), None);
    let called: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool-call").collect();
    let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool-result").collect();
    for (call, end) in called.iter().zip(&ended) {
        assert_eq!(call["toolCallId"], end["toolCallId"]);
        assert_eq!((&end["isError"], &end["errorCode"]), (&json!(true), &json!("E_UNKNOWN")));
        assert_eq!((&end["error"]["tool"], &end["error"]["kind"]), (&call["toolName"], &json!("unknown")));
    }
    assert_eq!((called.len(), ended.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_032_a_model_that_falls_silent_after_a_tool_has_not_answered() {
    let (text, _, reply) = chat(&[asks_for(&[("no_such", "{}")], "narr"), json!({ "content": "" })]).await;
    assert_eq!(text, "narr\n");
    assert_eq!(
        (&reply["output"], &reply["outputStreamed"]),
        (&json!("No output from model."), &json!(false))
    );
    assert_eq!((&reply["error"], &reply["modelCalls"]), (&json!("The model had nothing to say"), &json!(2)));
}
