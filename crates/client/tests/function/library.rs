//! The library by itself: what no example shows.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use hyper::StatusCode;
use parking_lot::Mutex;
use serde_json::json;
use switchboard_asp::relay::{self, ContentKind, Ended};
use switchboard_client::Trust;
use switchboard_client::function::{
    BrokeOff, Cause, ConnectionState, Delivered, Enc, Finish, Format, Invocation, Options, Plaintext,
    RecordError, Records, RelayError, Relays, Reply, serve,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::relay::Relay;
use crate::support::{Function, SECRET, chat, content, hear, now_s, soon, until};

#[tokio::test]
async fn every_format_says_the_same() {
    let relay = Relay::start().await;
    for (format, kind) in [
        (Format::Ndjson, ContentKind::Ndjson),
        (Format::Sse, ContentKind::Sse),
        (Format::Frames(Enc::Json), ContentKind::Frames),
        (Format::Frames(Enc::Msgpack), ContentKind::Frames),
    ] {
        let options = options().format(format);
        let (function, _server) = serving(options, |invocation, reply| async move {
            let mut records = reply.records();
            records.start(invocation.inv()).await?;
            records.reason("hm\n").await?;
            records.text("two\nlines").await?;
            records.data(Some("application/json"), json!({"a": [1, 2.5, null]})).await?;
            records.usage(&[("output_tokens", 3)]).await?;
            records.end(Finish::Length).await
        })
        .await;
        let response = function.invoke(&chat("hello", &relay)).await;
        assert_eq!(content(&response), Some(kind));
        let heard = hear(response).await;
        assert_eq!(heard.types(), ["start", "reason", "text", "data", "usage", "end"], "{format:?}");
        assert_eq!(heard.numbers(), [0, 1, 2, 3, 4, 5], "{format:?}");
        assert_eq!(heard.text(), "two\nlines", "{format:?}");
    }
}

#[tokio::test]
async fn a_handler_without_an_answer_may_be_asked_again() {
    let relay = Relay::start().await;
    let (function, _server) = serving(options(), |invocation, reply| async move {
        match (invocation.attempt(), invocation.text().as_deref()) {
            (1, Some("panic")) => panic!("as it was asked to"),
            (1, Some("refuse")) => reply.refuse(StatusCode::BAD_GATEWAY, "not now"),
            (1, _) => drop(reply),
            _ => reply.empty(),
        }
        Ok(())
    })
    .await;
    for (text, status) in [("panic", 500), ("refuse", 502), ("nothing", 500)] {
        let mut invocation = chat(text, &relay);
        assert_eq!(function.invoke(&invocation).await.status(), status, "{text}");
        assert_eq!(function.invoke(&invocation).await.status(), 409, "{text} again");
        invocation.attempt = 2;
        assert_eq!(function.invoke(&invocation).await.status(), 204, "{text}, second attempt");
        invocation.attempt = 3;
        assert_eq!(function.invoke(&invocation).await.status(), 409, "{text}, after the answer");
    }
}

#[tokio::test]
async fn too_much_at_once_is_sent_away() {
    let relay = Relay::start().await;
    let (function, _server) = serving(options().max_running(1), |invocation, reply| async move {
        let mut records = reply.records();
        records.start(invocation.inv()).await?;
        if invocation.text().as_deref() == Some("stay") {
            std::future::pending::<()>().await;
        }
        records.end(Finish::Complete).await
    })
    .await;
    let stays = function.invoke(&chat("stay", &relay)).await;
    let mut invocation = chat("go", &relay);
    let refused = function.invoke(&invocation).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers().get("retry-after").map(|value| value.as_bytes()), Some(&b"1"[..]));
    drop(stays);
    let taken = soon(async {
        loop {
            invocation.attempt += 1;
            let response = function.invoke(&invocation).await;
            if response.status() != 503 {
                return response;
            }
        }
    });
    assert_eq!(hear(taken.await).await.ended, Ended::Terminal);
}

#[tokio::test]
async fn requests_that_are_none_are_refused() {
    let relay = Relay::start().await;
    let (function, _server) = serving(options().max_body(1_000), |_, reply: Reply| async move {
        reply.empty();
        Ok(())
    })
    .await;
    let get = soon(crate::support::http().get(function.url("/invoke")).send()).await.expect("a response");
    assert_eq!(get.status(), 405);
    assert_eq!(function.invoke(&chat(&"x".repeat(2_000), &relay)).await.status(), 413);
    assert_eq!(function.invoke(&chat("x", &relay)).await.status(), 204);
}

#[tokio::test]
async fn the_deadline_cancels() {
    let relay = Relay::start().await;
    let causes = Arc::new(Mutex::new(Vec::new()));
    let known = causes.clone();
    let options = options().on_cancel(move |inv, cause| known.lock().push((inv, cause)));
    let (function, _server) = serving(options, |_, reply: Reply| async move {
        let records = reply.records();
        std::future::pending::<()>().await;
        records.end(Finish::Complete).await
    })
    .await;
    let mut invocation = chat("hello", &relay);
    invocation.deadline_ms = Some(300);
    let heard = hear(function.invoke(&invocation).await).await;
    assert_eq!((heard.types(), heard.broke), (vec!["end"], false));
    until("it is told", || *causes.lock() == [(invocation.inv.clone(), Cause::Deadline)]).await;
}

#[tokio::test]
async fn what_runs_ends_with_its_server() {
    let relay = Relay::start().await;
    let alive = Arc::new(());
    let held = alive.clone();
    let (function, server) = serving(options(), move |_, reply: Reply| {
        let held = held.clone();
        async move {
            let _records = reply.later()?;
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        }
    })
    .await;
    assert_eq!(function.invoke(&chat("hello", &relay)).await.status(), 202);
    assert!(Arc::strong_count(&alive) > 2, "it runs on after its response");
    server.abort();
    until("it is dropped", || Arc::strong_count(&alive) == 1).await;
}

#[tokio::test]
async fn what_is_done_after_the_answer_is_not_cancelled() {
    let relay = Relay::start().await;
    let done = Arc::new(Mutex::new(0));
    let counted = done.clone();
    let (function, _server) = serving(options(), move |_, reply: Reply| {
        let counted = counted.clone();
        async move {
            reply.records().end(Finish::Complete).await?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            *counted.lock() += 1;
            Ok(())
        }
    })
    .await;
    for _ in 0..20 {
        assert_eq!(hear(function.invoke(&chat("hello", &relay)).await).await.ended, Ended::Terminal);
    }
    until("all are done", || *done.lock() == 20).await;
}

#[tokio::test]
async fn the_relay_can_be_called() {
    let relay = Relay::start().await;
    let invocation = Invocation::new(chat("hello", &relay)).expect("an invocation");
    let relays = Relays::new(&Trust::System, Plaintext::Refuse).expect("TLS");
    let calls = relays.of(&invocation).expect("a grant");
    let connection = soon(calls.connection()).await.expect("a connection");
    assert_eq!((connection.state, connection.inflight), (ConnectionState::Live, 1));
    assert!(!soon(calls.cancellation()).await.expect("an answer").cancelled);
    let receipt = soon(calls.push("a", Vec::new())).await.expect("a receipt");
    assert_eq!((receipt.accepted, receipt.delivered), (0, Delivered::Live));
    relay.refuse_pushes(&[StatusCode::GONE]);
    let gone = soon(calls.push("b", Vec::new())).await.expect_err("gone");
    assert_eq!(gone, RelayError::Refused { status: 410, message: "not now".to_owned() });
    assert_eq!(relay.refused().len(), 1, "what is gone is not tried again");
    relay.cancel();
    assert_eq!(soon(calls.cancelled()).await.reason.as_deref(), Some("user"));
    assert_eq!(soon(calls.answer_to("q")).await.expect("no answer"), None);
    soon(calls.disconnect()).await.expect("closed");
    assert!(relay.is_closed());
}

#[tokio::test]
async fn a_token_does_not_travel_in_the_clear() {
    let relay = Relay::start().await;
    let mut body = chat("hello", &relay);
    let grant = body.push.as_mut().expect("a grant");
    grant.url = "http://relay.example/v1/relay/connections/c/frames".to_owned();
    let invocation = Invocation::new(body).expect("an invocation");
    let relays = Relays::new(&Trust::System, Plaintext::Refuse).expect("TLS");
    let calls = relays.of(&invocation).expect("a grant");
    assert_eq!(soon(calls.push("a", Vec::new())).await, Err(RelayError::Plaintext));
    assert_eq!(soon(calls.connection()).await, Err(RelayError::Plaintext));
    let shown = format!("{calls:?} {invocation:?}");
    assert!(!shown.contains(crate::support::TOKEN), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_output_pings_while_nothing_is_said() {
    let (mut records, mut output) = Records::respond(&asked(), Format::Ndjson);
    let began = tokio::time::Instant::now();
    let ping = output.next().await.expect("more").expect("a ping");
    assert_eq!(&ping[..], b"{\"t\":\"ping\"}\n");
    assert_eq!(began.elapsed().as_secs(), 10);
    records.text("hello").await.expect("written");
    let text = output.next().await.expect("more").expect("a record");
    assert_eq!(&text[..], b"{\"t\":\"text\",\"n\":0,\"d\":\"hello\"}\n");
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(output.next().now_or_never().is_none(), "it begins anew after each record");
    let (_, mut output) = Records::respond(&asked(), Format::Sse);
    assert_eq!(output.content_type(), "text/event-stream");
    assert_eq!(output.next().await, Some(Err(BrokeOff)), "nobody writes any more");
}

#[tokio::test]
async fn an_output_that_breaks_off_says_so_after_what_was_written() {
    let (mut records, mut output) = Records::respond(&asked(), Format::Ndjson);
    records.text("half").await.expect("written");
    drop(records);
    assert!(output.next().await.is_some_and(|chunk| chunk.is_ok()));
    assert_eq!(output.next().await, Some(Err(BrokeOff)));
    assert_eq!(output.next().await, None);
}

#[tokio::test]
async fn a_function_waits_for_a_slow_relay_and_stops_without_one() {
    let (mut records, output) = Records::respond(&asked(), Format::Ndjson);
    let mut written = 0;
    while records.text("more").now_or_never().is_some() {
        written += 1;
        assert!(written < 1_000, "what waits is bounded");
    }
    drop(output);
    assert_eq!(records.text("more").await, Err(RecordError::Gone));
}

#[tokio::test]
async fn what_cannot_be_said_is_an_error() {
    let relay = Relay::start().await;
    let invocation = Invocation::new(chat("hello", &relay)).expect("an invocation");
    let (mut records, mut output) = Records::respond(&invocation, Format::Ndjson);
    assert_eq!(records.call("c", "clock", json!([])).await, Err(RecordError::Arguments));
    let state = json!("x".repeat(70_000));
    assert!(matches!(records.suspend(state).await, Err(RecordError::Write(_))));
    assert_eq!(output.next().await, Some(Err(BrokeOff)));

    let relays = Relays::new(&Trust::System, Plaintext::Refuse).expect("TLS");
    let records = Records::push(&invocation, relays.of(&invocation).expect("a grant"));
    assert_eq!(records.suspend(json!({})).await, Err(RecordError::PushedSuspend));
    assert!(relay.pushed().is_empty());
}

fn options() -> Options {
    Options::new(SECRET).expect("a secret")
}

fn asked() -> Invocation {
    let mut body = relay::Invocation::new(relay::Event::Invoke, "c", 1, format!("inv_{}", now_s()));
    body.payload = Some(relay::Payload::Json("hello".into()));
    Invocation::new(body).expect("an invocation")
}

/// A function that is served here.
async fn serving<H, F>(options: Options, handler: H) -> (Function, Server)
where
    H: Fn(Invocation, Reply) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), RecordError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let task = tokio::spawn(async move {
        serve(listener, options, handler).await.expect("TLS");
    });
    (Function::at(url), Server(task))
}

/// A server that ends with its test.
struct Server(JoinHandle<()>);

impl Server {
    fn abort(&self) {
        self.0.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.abort();
    }
}
