//! Streams, interrupts, credit.

use futures_util::StreamExt as _;
use switchboard_asp::Opcode;
use switchboard_asp::message::Mode;
use switchboard_client::asp::{
    ClientError, Code, CommandError, Connect, Finish, Invoke, RequestError, RequestEvent, State,
};

use crate::support::{Received, Server, next, soon, text};

#[tokio::test]
async fn a_request_streams_typed_events() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    assert!(client.snapshot().connected);
    let invoke = Invoke { session: Some("s".into()), ..Invoke::chat("hi") };
    let mut request = client.invoke(invoke.clone()).await.expect("invoke");
    assert_eq!(peer.invoke().await, (request.id(), invoke));
    let id = request.id();
    peer.record(id, r#"{"t":"start","n":0,"run":"r"}"#).await;
    peer.record(id, r#"{"t":"status","state":"running"}"#).await;
    peer.text(id, 1, "Hello").await;
    peer.record(id, r#"{"t":"usage","n":2,"in":1}"#).await;
    peer.end(id, "complete").await;
    assert_eq!(next(&mut request).await, Ok(RequestEvent::Start { run: "r".into(), model: None }));
    assert!(
        matches!(next(&mut request).await, Ok(RequestEvent::Status(status)) if status.state == State::Running)
    );
    assert_eq!(text(&mut request).await, "Hello");
    assert!(matches!(next(&mut request).await, Ok(RequestEvent::Usage(_))));
    assert!(matches!(next(&mut request).await, Ok(RequestEvent::End(end)) if end.finish == Finish::Complete));
    assert!(request.next().await.is_none());

    // As a stream, and as text.
    let request = client.invoke(Invoke::chat("again")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.text(id, 0, "a").await;
    peer.text(id, 1, "b").await;
    peer.end(id, "length").await;
    let collected = soon(request.collect_text()).await.expect("ends");
    assert_eq!((collected.text.as_str(), collected.end.finish), ("ab", Finish::Length));
    let request = client.invoke(Invoke::chat("fails")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.send(Opcode::Error, id, r#"{"code":2402,"name":"MODEL_UNAVAILABLE","msg":"down","retry":true}"#)
        .await;
    let events: Vec<_> = soon(request.collect()).await;
    let [Err(error)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((error.code(), error.is_retryable()), (Some(Code::ModelUnavailable), true));
}

#[tokio::test]
async fn an_interrupt_stops_the_deltas_and_keeps_the_end() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut request = client.invoke(Invoke::chat("long")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.text(id, 0, "one").await;
    assert_eq!(text(&mut request).await, "one");
    request.interrupter().interrupt();
    request.interrupt();
    assert_eq!(peer.cancelled().await, id);
    peer.text(id, 1, "late").await;
    peer.end(id, "interrupted").await;
    assert!(
        matches!(next(&mut request).await, Ok(RequestEvent::End(end)) if end.finish == Finish::Interrupted)
    );
    // Dropping one interrupts it, and it alone.
    let mut kept = client.invoke(Invoke::chat("kept")).await.expect("invoke");
    let dropped = client.invoke(Invoke::chat("dropped")).await.expect("invoke");
    let (kept_id, dropped_id) = (peer.invoke().await.0, peer.invoke().await.0);
    drop(dropped);
    assert_eq!(peer.cancelled().await, dropped_id);
    peer.text(dropped_id, 0, "late").await;
    peer.end(dropped_id, "interrupted").await;
    peer.text(kept_id, 0, "on").await;
    assert_eq!(text(&mut kept).await, "on");
    client.interrupt_all();
    assert_eq!(peer.cancelled().await, 0);
}

#[tokio::test]
async fn a_slow_reader_holds_up_its_own_request_only() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url()).window(64 << 10)).await;
    let mut slow = client.invoke(Invoke::chat("slow")).await.expect("invoke");
    let mut fast = client.invoke(Invoke::chat("fast")).await.expect("invoke");
    let (slow_id, fast_id) = (peer.invoke().await.0, peer.invoke().await.0);
    let chunk = "x".repeat(8 << 10);
    for n in 0..8 {
        peer.text(slow_id, n, &chunk).await;
    }
    assert!(peer.is_quiet().await, "nothing was read, so no credit goes back");
    for n in 0..4 {
        peer.text(fast_id, n, &chunk).await;
        assert_eq!(text(&mut fast).await.len(), chunk.len());
    }
    let (id, interrupt) = peer.interrupt().await;
    assert_eq!((id, interrupt.mode), (fast_id, Mode::Credit));
    assert!(interrupt.bytes.expect("bytes") >= 32 << 10);
    for _ in 0..8 {
        assert_eq!(text(&mut slow).await.len(), chunk.len());
    }
    let mut credit = 0;
    while credit < 64 << 10 {
        let (id, interrupt) = peer.interrupt().await;
        assert_eq!((id, interrupt.mode), (slow_id, Mode::Credit));
        credit += interrupt.bytes.expect("bytes");
    }
}

#[tokio::test]
async fn without_credit_a_slow_reader_loses_its_request_in_the_end() {
    let server = Server::start().await;
    let features = switchboard_asp::Features::STANDARD.without(switchboard_asp::Feature::Credit);
    let (client, mut peer) = server.pair(Connect::new(server.url()).features(features)).await;
    let mut request = client.invoke(Invoke::chat("slow")).await.expect("invoke");
    let id = peer.invoke().await.0;
    let chunk = "x".repeat(512 << 10);
    for n in 0..9 {
        peer.text(id, n, &chunk).await;
    }
    assert_eq!(peer.cancelled().await, id);
    let mut last = None;
    while let Some(event) = soon(request.next()).await {
        last = Some(event);
    }
    assert_eq!(last, Some(Err(RequestError::SlowConsumer)));
}

#[tokio::test]
async fn requests_of_a_closed_client_end() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    peer.invoke().await;
    let other = client.clone();
    let closing = tokio::spawn(async move { other.close().await });
    assert_eq!(peer.hello().await.op.name(), "bye");
    assert!(matches!(peer.receive().await, Received::Close(Some(1000))));
    assert!(matches!(peer.receive().await, Received::Gone));
    soon(closing).await.expect("closed");
    assert!(matches!(next(&mut request).await, Err(RequestError::Lost(_))));
    assert_eq!(client.invoke(Invoke::chat("x")).await.err(), Some(ClientError::Closed));
    client.close().await;
}

#[tokio::test]
async fn the_last_handle_closes_the_connection() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    drop(client);
    let id = peer.invoke().await.0;
    peer.text(id, 0, "still here").await;
    assert_eq!(text(&mut request).await, "still here");
    drop(request);
    loop {
        match peer.receive().await {
            Received::Close(code) => break assert_eq!(code, Some(1000)),
            Received::Message(..) => {}
            Received::Gone => panic!("no goodbye"),
        }
    }
}

#[tokio::test]
async fn too_many_waiting_requests_are_refused() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    peer.send(Opcode::Hello, 0, r#"{"op":"goaway","retry_ms":60000}"#).await;
    let mut events = client.events();
    crate::support::event(&mut events).await;
    let mut waiting = Vec::new();
    let refused = loop {
        match client.invoke(Invoke::chat("x")).await {
            Ok(request) => waiting.push(request),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, ClientError::Command(CommandError::QueueFull { limit: 256 }));
    assert_eq!(waiting.len(), 256);
}
