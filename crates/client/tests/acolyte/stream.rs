//! Chats over HTTP.

use serde_json::json;
use switchboard_client::Refusal;
use switchboard_client::acolyte::{
    Cause, ClientError, CommandError, Connect, ConnectError, Ending, Loss, StreamClient, TaskId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Server, ending, request, soon, status, text};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nacolyte-task-id: task_1\r\n\
    Connection: close\r\n\r\n";

async fn client(server: &Server) -> StreamClient {
    let status = status("")["status"].to_string();
    let options = Connect::new(server.url()).token("k3y");
    let (client, head) = tokio::join!(StreamClient::connect(&options), server.answer("200 OK", &status));
    assert!(head.starts_with("get /v1/status http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer k3y\r\n"), "{head}");
    let (client, status) = client.expect("connect");
    assert_eq!(status["model"], "big");
    client
}

/// The server's end of a chat, with the beginning of its answer.
async fn begin(server: &Server, body: String) -> TcpStream {
    let (mut stream, head, request) = server.request().await;
    assert!(head.starts_with("post /v1/chat/stream http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer k3y\r\n"), "{head}");
    assert_eq!(request["message"], "hi");
    stream.write_all(format!("{HEAD}{body}").as_bytes()).await.expect("head");
    stream
}

fn delta(text: &str) -> String {
    format!("data: {}\n\n", json!({"type": "text-delta", "text": text}))
}

#[tokio::test]
async fn a_chat_is_a_stream_of_what_happens() {
    let server = Server::start().await;
    let client = client(&server).await;
    let request = request("hi");
    let (chat, mut stream) = tokio::join!(client.chat(&request), begin(&server, delta("one")));
    let mut chat = chat.expect("chat");
    assert_eq!(text(&mut chat).await, "one");
    assert_eq!(chat.task().map(TaskId::as_str), Some("task_1"));
    // However it is cut.
    let reply = json!({"type": "done", "reply": {"output": "one two", "outputStreamed": true, "model": "m"}});
    for byte in format!(":\n\n{}data: {reply}\n\n", delta(" two")).as_bytes() {
        stream.write_all(&[*byte]).await.expect("write");
    }
    assert_eq!(text(&mut chat).await, " two");
    assert!(matches!(ending(&mut chat).await, Ending::Done(_)), "without waiting for the end of the body");
}

#[tokio::test]
async fn a_cut_is_a_loss_with_its_task() {
    let server = Server::start().await;
    let client = client(&server).await;
    let request = request("hi");
    let (chat, stream) = tokio::join!(client.chat(&request), begin(&server, delta("half")));
    drop(stream);
    let lost = Ending::Lost { loss: Loss::Disconnected, task: TaskId::parse("task_1") };
    assert_eq!(ending(&mut chat.expect("chat")).await, lost);
}

#[tokio::test]
async fn to_stop_it_is_to_hang_up() {
    let server = Server::start().await;
    let client = client(&server).await;
    let request = request("hi");
    for dropped in [false, true] {
        let (chat, mut stream) = tokio::join!(client.chat(&request), begin(&server, delta("on")));
        let mut chat = chat.expect("chat");
        assert_eq!(text(&mut chat).await, "on");
        if dropped {
            drop(chat);
        } else {
            chat.abort();
            assert_eq!(ending(&mut chat).await, Ending::Aborted);
        }
        assert_eq!(soon(stream.read(&mut [0])).await.unwrap_or(0), 0, "hung up");
    }
}

#[tokio::test]
async fn failures_are_told() {
    let server = Server::start().await;
    let client = client(&server).await;
    let request = request("hi");
    let error = json!({"type": "error", "errorMessage": "no such folder", "errorCode": "E_UNKNOWN"});
    let (chat, _stream) = tokio::join!(client.chat(&request), begin(&server, format!("data: {error}\n\n")));
    match ending(&mut chat.expect("chat")).await {
        Ending::Failed { error, reply: None } => assert_eq!(error.error_message, "no such folder"),
        other => panic!("{other:?}"),
    }
    let (refused, _) = tokio::join!(client.chat(&request), server.answer("413 Too Large", "too much"));
    let Err(ClientError::Failed(cause)) = refused else { panic!("{refused:?}") };
    assert_eq!(cause.to_string(), "the server refused with HTTP 413: too much");
    let mut odd = request.clone();
    odd.session_id = Some("Sess".to_owned());
    assert!(matches!(client.chat(&odd).await, Err(ClientError::Command(CommandError::Unfit))));
}

#[tokio::test]
async fn there_is_no_connection_and_why() {
    let server = Server::start().await;
    let options = Connect::new(server.url());
    let connect = StreamClient::connect(&options);
    let (refused, _) = tokio::join!(connect, server.answer("401 Unauthorized", "Unauthorized"));
    assert!(matches!(refused, Err(ConnectError::Failed(Cause::Refused(Refusal { status: 401, .. })))));
    let version = r#"{"ok":true,"protocol_version":"9"}"#;
    let (other, _) = tokio::join!(StreamClient::connect(&options), server.answer("200 OK", version));
    let words = other.expect_err("another version").to_string();
    assert!(words.contains("version 9") && words.contains("version 1"), "{words}");
    let (odd, _) = tokio::join!(StreamClient::connect(&options), server.answer("200 OK", "<html>"));
    assert!(odd.expect_err("a web page").to_string().contains("does not speak Acolyte"));
    drop(server);
    let gone = StreamClient::connect(&options).await;
    assert!(matches!(gone, Err(ConnectError::Failed(Cause::Unreachable(_)))));
}
