//! Chats over WebSocket.

use serde_json::json;
use switchboard_client::Refusal;
use switchboard_client::acolyte::{
    CallError, Cause, ChatEvent, Client, ClientError, Connect, ConnectError, ConnectionEvent, Ending, Fault,
    FirstAttempt, Loss, TaskId, TaskState, Update,
};

use crate::support::{Server, ending, event, request, soon, status, text};

fn task() -> Option<TaskId> {
    TaskId::parse("task_1")
}

#[tokio::test]
async fn a_chat_is_a_stream_of_what_happens() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).token("k3y");
    let (client, mut peer) = tokio::join!(Client::connect(options), server.accept("task.resume"));
    let client = client.expect("connect");
    assert_eq!((peer.path.as_str(), peer.bearer.as_deref()), ("/v1/rpc", Some("Bearer k3y")));
    assert_eq!(client.snapshot().model(), Some("big"));

    let mut chat = client.chat(request("hi")).await.expect("chat");
    let start = peer.begin().await;
    assert_eq!(start["payload"]["request"]["message"], "hi");
    let first = soon(chat.next()).await;
    assert_eq!(first, Some(Update::Event(ChatEvent::Accepted(task().expect("task")))));
    assert_eq!(chat.task(), task().as_ref());
    peer.text(&start, "hello", 1).await;
    assert_eq!(text(&mut chat).await, "hello");
    peer.done(&start).await;
    assert!(matches!(ending(&mut chat).await, Ending::Done(_)));
    client.close().await;
    assert_eq!(peer.closed().await, Some(1000));
    assert!(matches!(client.chat(request("hi")).await, Err(ClientError::Closed)));
}

#[tokio::test]
async fn a_cut_chat_goes_on_with_the_next_connection() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair("task.resume").await;
    let mut events = client.events();
    let mut chat = client.chat(request("count")).await.expect("chat");
    let start = peer.begin().await;
    peer.text(&start, "1 ", 4).await;
    assert_eq!(text(&mut chat).await, "1 ");
    drop(peer);
    assert!(matches!(event(&mut events).await, ConnectionEvent::Disconnected { .. }));

    let mut peer = server.accept("task.resume").await;
    let attach = peer.heard("chat.attach").await;
    assert_eq!(attach["payload"], json!({"taskId": "task_1", "sessionId": "sess_a", "after": 4}));
    peer.say(&attach, json!({"type": "chat.accepted", "taskId": "task_1"})).await;
    peer.say(&attach, json!({"type": "chat.started"})).await;
    peer.text(&attach, "2", 5).await;
    peer.done(&attach).await;
    assert_eq!(event(&mut events).await, ConnectionEvent::Resumed { lost: 0 });
    assert_eq!(text(&mut chat).await, "2");
    assert!(matches!(ending(&mut chat).await, Ending::Done(_)));
}

#[tokio::test]
async fn without_resume_a_cut_is_a_loss_with_its_task() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair("stream.sse").await;
    let mut events = client.events();
    let mut chat = client.chat(request("hi")).await.expect("chat");
    peer.begin().await;
    drop(peer);
    assert_eq!(ending(&mut chat).await, Ending::Lost { loss: Loss::Disconnected, task: task() });
    assert!(matches!(event(&mut events).await, ConnectionEvent::Disconnected { .. }));
    // What is said meanwhile waits.
    let mut chat = client.chat(request("later")).await.expect("chat");
    let mut peer = server.accept("stream.sse").await;
    let start = peer.begin().await;
    assert_eq!(start["payload"]["request"]["message"], "later");
    assert_eq!(event(&mut events).await, ConnectionEvent::Connected);
    // And what has become of the other one can be asked for.
    let asked = client.task(task().expect("task"), None);
    let answer = async {
        let question = peer.heard("task.status").await;
        let task = json!({"id": "task_1", "state": "cancelled", "createdAt": "a", "updatedAt": "b"});
        peer.say(&question, json!({"type": "task.status.result", "task": task})).await;
    };
    let (told, ()) = tokio::join!(asked, answer);
    assert_eq!(told.expect("answer").expect("task").state, TaskState::Cancelled);
    peer.done(&start).await;
    assert!(matches!(ending(&mut chat).await, Ending::Done(_)));
}

#[tokio::test]
async fn a_chat_can_be_stopped_and_stops_when_it_is_dropped() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair("").await;
    let mut chat = client.chat(request("hi")).await.expect("chat");
    let start = peer.begin().await;
    chat.abort();
    let abort = peer.heard("chat.abort").await;
    assert_eq!(abort["payload"]["requestId"], start["id"]);
    peer.say(&abort, json!({"type": "chat.abort.result", "requestId": start["id"], "aborted": true})).await;
    assert_eq!(ending(&mut chat).await, Ending::Aborted);
    let chat = client.chat(request("hi")).await.expect("chat");
    let start = peer.begin().await;
    drop(chat);
    assert_eq!(peer.heard("chat.abort").await["payload"]["requestId"], start["id"]);
}

#[tokio::test]
async fn what_is_read_slowly_is_not_lost() {
    const MANY: u64 = 5_000;
    let server = Server::start().await;
    let (client, mut peer) = server.pair("task.resume").await;
    let mut chat = client.chat(request("much")).await.expect("chat");
    let start = peer.begin().await;
    let words = "x".repeat(1_000);
    let write = async {
        for number in 1..=MANY {
            peer.text(&start, &format!("{number} {words} "), number).await;
        }
        peer.done(&start).await;
    };
    let read = async {
        // Long enough for every buffer to fill up.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        for number in 1..=MANY {
            assert!(text(&mut chat).await.starts_with(&format!("{number} ")));
        }
        ending(&mut chat).await
    };
    let ((), ending) = tokio::join!(write, read);
    assert!(matches!(ending, Ending::Done(_)));
}

#[tokio::test]
async fn there_is_no_connection_and_why() {
    let server = Server::start().await;
    let connect = |url: String| Client::connect(Connect::new(url));
    let (refused, _) = tokio::join!(connect(server.url()), server.answer("401 Unauthorized", "Unauthorized"));
    let Err(ConnectError::Failed(cause @ Cause::Refused(Refusal { status: 401, .. }))) = refused else {
        panic!("{refused:?}")
    };
    assert!(!cause.is_temporary() && cause.advice().contains("token"));

    let other = async {
        let mut peer = server.upgrade().await;
        let offer = peer.heard("status.get").await;
        let mut said = status("");
        said["status"]["protocol_version"] = "2".into();
        peer.say(&offer, said).await;
    };
    let (version, ()) = tokio::join!(connect(server.url()), other);
    let fault = Fault::Version { theirs: "2".to_owned(), ours: "1" };
    assert_eq!(version.expect_err("another version"), ConnectError::Failed(fault.into()));

    let url = server.url();
    drop(server);
    let unreachable = connect(url).await.expect_err("nobody there");
    assert!(matches!(unreachable, ConnectError::Failed(Cause::Unreachable(_))));
    assert!(matches!(connect("ftp://h".to_owned()).await, Err(ConnectError::Options(_))));
}

#[tokio::test]
async fn a_patient_client_waits_for_the_server() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).first_attempt(FirstAttempt::KeepTrying);
    let serve = async {
        server.answer("503 Service Unavailable", "").await;
        server.accept("").await
    };
    let (client, mut peer) = tokio::join!(Client::connect(options), serve);
    let client = client.expect("connect");
    let (status, ()) = tokio::join!(client.status(), async {
        let question = peer.heard("status.get").await;
        peer.say(&question, status("")).await;
    });
    assert_eq!(status.expect("status")["model"], "big");
    let (lost, ()) = tokio::join!(client.status(), async {
        peer.heard("status.get").await;
        drop(peer);
    });
    assert_eq!(lost, Err(ClientError::Call(CallError::Disconnected)));
}
