//! Client tools, questions, server tools.

use std::time::Duration;

use serde_json::json;
use switchboard_asp::message::{AskReply, CallResult, InvokeBody};
use switchboard_asp::{Opcode, Value};
use switchboard_client::asp::{
    Answer, Client, ClientError, CommandError, Connect, Invoke, RequestEvent, ToolFailure, tool,
};
use tokio::net::TcpStream;

use crate::support::{Peer, Server, next, soon};

fn result_of(invoke: Invoke) -> CallResult {
    match invoke.body {
        InvokeBody::Result(result) => result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn calls_are_executed_and_answered() {
    let server = Server::start().await;
    let options = Connect::new(server.url())
        .tool(tool("add", "Adds", json!({"type": "object"})).expect("valid"))
        .on_call(|call| async move {
            match call.name.as_str() {
                "add" => {
                    Ok(json!(call.args["a"].as_i64().unwrap_or(0) + call.args["b"].as_i64().unwrap_or(0)))
                }
                "panic" => panic!("on purpose"),
                "sleep" => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok(json!(null))
                }
                _ => Err(ToolFailure::new("TOOL_NOT_FOUND", "only add")),
            }
        });
    let connecting = tokio::spawn(Client::connect(options));
    let mut peer = server.upgrade().await;
    let hello = peer.hello().await;
    assert_eq!(hello.tools.expect("tools")[0].name, "add");
    peer.agree("").await;
    let client = connecting.await.expect("joined").expect("connects");
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.record(id, r#"{"t":"call","n":0,"call_id":"c0","name":"add","args":{"a":2,"b":3}}"#).await;
    assert!(matches!(next(&mut request).await, Ok(RequestEvent::Call(call)) if call.name == "add"));
    let (answer, invoke) = peer.invoke().await;
    let result = result_of(invoke);
    assert_eq!(
        (result.parent, result.call_id.as_str(), result.ok, result.output),
        (id, "c0", true, Some(Value::Int(5)))
    );
    peer.end(answer, "accepted").await;
    for (call, timeout, name) in
        [("other", 1000, "TOOL_NOT_FOUND"), ("panic", 1000, "PANICKED"), ("sleep", 50, "TIMEOUT")]
    {
        let record = format!(
            r#"{{"t":"call","call_id":"{call}","name":"{call}","args":{{}},"timeout_ms":{timeout}}}"#
        );
        peer.record(id, &record).await;
        let result = result_of(peer.invoke().await.1);
        assert_eq!((result.ok, result.error.expect("error").name.as_str()), (false, name));
    }
    // An interrupted request wants no result any more.
    peer.record(id, r#"{"t":"call","call_id":"c9","name":"sleep","args":{},"timeout_ms":100}"#).await;
    while !matches!(next(&mut request).await, Ok(RequestEvent::Call(call)) if call.call_id == "c9") {}
    request.interrupt();
    assert_eq!(peer.cancelled().await, id);
    assert!(peer.is_quiet().await);
}

#[tokio::test]
async fn without_a_handler_calls_are_refused_and_one_may_come_later() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let _request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.record(id, r#"{"t":"call","call_id":"c1","name":"now","args":{}}"#).await;
    assert_eq!(result_of(peer.invoke().await.1).error.expect("error").name, "TOOL_NOT_FOUND");
    client.on_call(|_| async { Ok(json!("noon")) });
    barrier(&client, &mut peer).await;
    peer.record(id, r#"{"t":"call","call_id":"c2","name":"now","args":{}}"#).await;
    assert_eq!(result_of(peer.invoke().await.1).output, Some(Value::Str("noon".into())));
}

#[tokio::test]
async fn questions_are_answered() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.record(id, r#"{"t":"ask","ask_id":"q1","text":"which?"}"#).await;
    let Ok(RequestEvent::Ask(ask)) = next(&mut request).await else { panic!() };
    let serve = async {
        let (answer, invoke) = peer.invoke().await;
        let reply = AskReply { parent: id, ask_id: "q1".into(), text: Some("this".into()), data: None };
        assert_eq!(invoke.body, InvokeBody::Reply(reply));
        peer.end(answer, "accepted").await;
    };
    let (answered, ()) = tokio::join!(client.answer(ask.ask_id, Answer::Text("this".into())), serve);
    assert_eq!(answered, Ok(()));
    let again = client.answer("q1", Answer::Data(Value::Null)).await;
    assert_eq!(again, Err(ClientError::Command(CommandError::NotOpen)));
}

#[tokio::test]
async fn server_tools_are_listed() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    assert!(client.tools().is_empty());
    let serve = async {
        let (id, invoke) = peer.invoke().await;
        assert_eq!(invoke.body, InvokeBody::List);
        let set =
            r#"{"op":"set","rev":1,"tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{}}]}"#;
        peer.send(Opcode::ToolDef, 0, set).await;
        peer.end(id, "complete").await;
    };
    let (tools, ()) = soon(async { tokio::join!(client.list_tools(), serve) }).await;
    assert_eq!(tools.expect("list").iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(client.tools().len(), 2);
}

/// Waits until the client's task has seen everything said to it before.
async fn barrier(client: &Client, peer: &mut Peer<TcpStream>) {
    let serve = async {
        let nonce = peer.hello().await.nonce.expect("nonce");
        peer.send(Opcode::Hello, 0, &format!(r#"{{"op":"pong","nonce":"{nonce}"}}"#)).await;
    };
    let (pong, ()) = tokio::join!(client.ping(), serve);
    pong.expect("pong");
}
