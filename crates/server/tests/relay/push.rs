//! What functions push, while they answer and after.

use serde_json::{Value, json};

use crate::setup::{Relayed, asp_frame, end, frames_of, stream, text, text_of, tool};
use crate::support::function::{Asked, Exchange};
use crate::support::wire::{ERROR, Frame, Peer, STREAM, TOOL_DEF, frame};
use crate::support::{ANN, BOB};

const FRAMES: &str = "Content-Type: application/vnd.asp.frames";

/// A request whose output comes by push.
pub(crate) async fn asynchronous(relayed: &mut Relayed) -> (Peer, Asked) {
    let (peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    (peer, asked)
}

/// A request that is over, and what its function was given.
pub(crate) async fn finished(relayed: &mut Relayed, peer: &mut Peer, id: u16) -> Asked {
    peer.invoke(id, "hi").await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.ndjson(&[end()]).await;
    peer.finish(id).await;
    asked
}

/// A push of one frame.
pub(crate) fn one(frame: Value) -> Value {
    json!({ "frames": [frame] })
}

#[tokio::test]
async fn an_asynchronous_function_answers_by_push() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let mut expected = String::new();
    for number in 0..20 {
        let (a, b) = (format!("{number}a "), format!("{number}b "));
        let body = json!({ "frames": [stream(1, text(&a)), stream(1, text(&b))] });
        let (status, answer) = relayed.push(&asked, &body).await;
        assert_eq!((status, &answer), (202, &json!({ "accepted": 2, "delivered": "live" })));
        expected.push_str(&a);
        expected.push_str(&b);
    }
    let last = json!({ "t": "end", "finish": "filtered", "output": 7, "metrics": { "cpu_ms": 45 } });
    assert_eq!(relayed.push(&asked, &one(stream(1, last))).await.0, 202);
    let frames = frames_of(&mut peer, 1).await;
    assert_eq!(text_of(&frames), expected, "in the order of the pushes");
    let last = frames.last().unwrap();
    assert_eq!((last.outcome().as_str(), &last.value["output"]), ("filtered", &json!(7)));
    assert_eq!(last.value["metrics"]["cpu_ms"], 45);
    let numbers: Vec<u64> = frames.iter().filter_map(Frame::number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

#[tokio::test]
async fn pushed_frames_may_be_frames() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let url = asked.body["push"]["url"].as_str().unwrap();
    let tools = json!([{ "name": "dig", "input_schema": { "type": "object" } }]);
    let body = [
        asp_frame(STREAM, 1, &text("one ")),
        frame(STREAM, 1, b"two"),
        asp_frame(TOOL_DEF, 0, &json!({ "op": "add", "tools": tools })),
        asp_frame(STREAM, 1, &end()),
    ]
    .concat();
    let answer = relayed.call("POST", asked.push_token(), url, &[FRAMES], &body).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer, json!({ "accepted": 4, "delivered": "live" }));
    let mut defined = false;
    let mut said = String::new();
    loop {
        let frame = peer.next().await.unwrap();
        defined |= frame.opcode == TOOL_DEF && frame.value["tools"][0]["name"] == "dig";
        said.push_str(frame.text().unwrap_or_default());
        if frame.is_terminal() {
            assert_eq!(frame.outcome(), "complete");
            break;
        }
    }
    if !defined {
        peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    }
    assert_eq!(said, "one two");
}

#[tokio::test]
async fn a_pushed_error_ends_the_request() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let error = json!({ "code": 2950, "name": "TOO_WET", "msg": "rain" });
    let body = one(json!({ "type": "ERROR", "rid": 1, "payload": error }));
    assert_eq!(relayed.push(&asked, &body).await.0, 202);
    let (_, last) = peer.finish(1).await;
    assert_eq!((last.outcome().as_str(), &last.value["name"]), ("2950", &json!("TOO_WET")));
    assert_eq!(relayed.push(&asked, &one(stream(1, text("late")))).await.0, 403);
}

#[tokio::test]
async fn pushes_may_come_beside_a_response() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    exchange.begin_records().await;
    exchange.record(text("streamed ")).await;
    peer.wait(|frame| frame.text() == Some("streamed ")).await;
    assert_eq!(relayed.push(&asked, &one(stream(1, text("pushed ")))).await.0, 202);
    peer.wait(|frame| frame.text() == Some("pushed ")).await;
    exchange.record(text("streamed")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(1).await.0, "streamed");
}

#[tokio::test]
async fn a_push_is_taken_once() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let body = json!({ "idem": "k1", "frames": [stream(1, text("once "))] });
    let (status, first) = relayed.push(&asked, &body).await;
    assert_eq!(status, 202);
    assert_eq!(relayed.push(&asked, &body).await, (202, first));
    let other = json!({ "idem": "k2", "frames": [stream(1, text("twice "))] });
    assert_eq!(relayed.push(&asked, &other).await.0, 202);
    // A key that led to nothing may be used again.
    let refused = json!({ "idem": "k3", "frames": [stream(2, text("nobody's"))] });
    assert_eq!(relayed.push(&asked, &refused).await.0, 403);
    let body = json!({ "idem": "k3", "frames": [stream(1, text("three")), stream(1, end())] });
    assert_eq!(relayed.push(&asked, &body).await.0, 202);
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("once twice three", "complete"));
}

#[tokio::test]
async fn an_end_is_taken_once_too() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let body = json!({ "idem": "last", "frames": [stream(1, text("done")), stream(1, end())] });
    let (status, first) = relayed.push(&asked, &body).await;
    assert_eq!(status, 202);
    peer.finish(1).await;
    // Whoever has not heard the answer asks again, and must not be told that it failed.
    assert_eq!(relayed.push(&asked, &body).await, (202, first));
}

#[tokio::test]
async fn bad_pushes_are_refused_as_a_whole() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let good = stream(1, text("never"));
    for bad in [
        json!({}),
        json!({ "frames": 7 }),
        json!([]),
        json!({ "frames": [good, { "type": "INVOKE", "rid": 1, "payload": {} }] }),
        json!({ "frames": [good, { "type": "STREAM", "payload": { "t": "text", "d": "no rid" } }] }),
        json!({ "frames": [good, { "type": "STREAM", "rid": 70_000, "payload": { "t": "text", "d": "x" } }] }),
        json!({ "frames": [good, { "type": "STREAM", "rid": 1 }] }),
        json!({ "frames": [good, { "type": "STREAM", "rid": 1, "payload": { "t": "text" } }] }),
        json!({ "frames": [good, { "type": "STREAM", "rid": 1, "payload": { "t": "suspend", "state": 1 } }] }),
        json!({ "frames": [good, { "type": "TOOL_DEF", "rid": 0, "payload": { "tools": [{ "name": "not good" }] } }] }),
        json!({ "frames": [good, { "type": "ERROR", "rid": 0, "payload": { "code": 2400, "msg": "x" } }] }),
        json!({ "idem": "k".repeat(65), "frames": [good] }),
    ] {
        let (status, answer) = relayed.push(&asked, &bad).await;
        assert_eq!(status, 400, "{bad}: {answer}");
        assert!(answer["error"]["msg"].is_string(), "{bad}: {answer}");
    }
    let url = asked.body["push"]["url"].as_str().unwrap();
    for (kind, body) in [
        (FRAMES, &b"\x13\0\0\x01\0\0\0\x09short"[..]),
        (FRAMES, b"\x12\0\0\x01\0\0\0\0"),
        (FRAMES, b"\x23\0\0\x01\0\0\0\0"),
        ("Content-Type: text/plain", b"{\"frames\":[]}"),
        ("Content-Type: application/json", b"no json"),
    ] {
        let answer = relayed.call("POST", asked.push_token(), url, &[kind], body).await;
        assert_eq!(answer.status, 400, "{kind}: {}", answer.body);
    }
    assert_eq!(relayed.push(&asked, &one(stream(1, end()))).await.0, 202);
    assert_eq!(peer.finish(1).await.0, "", "nothing of a bad push is taken");
}

#[tokio::test]
async fn large_pushes_are_refused() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked) = asynchronous(&mut relayed).await;
    let (status, _) = relayed.push(&asked, &one(stream(1, text(&"x".repeat(1 << 20))))).await;
    assert_eq!(status, 413);
    let many: Vec<Value> = (0..1_000).map(|_| stream(1, text("x"))).collect();
    assert_eq!(relayed.push(&asked, &json!({ "frames": many })).await.0, 413);
    let most = text(&"y".repeat(900 << 10));
    assert_eq!(relayed.push(&asked, &json!({ "frames": [stream(1, most), stream(1, end())] })).await.0, 202);
    assert_eq!(peer.finish(1).await.0.len(), 900 << 10);
}

#[tokio::test]
async fn asp_068_output_is_refused_for_a_request_that_is_not_open() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let over = finished(&mut relayed, &mut peer, 1).await;
    let error = json!({ "type": "ERROR", "rid": 1, "payload": { "code": 2400, "msg": "x" } });
    for frame in [stream(1, text("late")), stream(1, end()), error.clone()] {
        let (status, answer) = relayed.push(&over, &one(frame)).await;
        assert_eq!(status, 403, "finished: {answer}");
    }
    // Another request is open under another number.
    peer.invoke(2, "hi").await;
    let mut exchange: Exchange = relayed.function.next().await;
    exchange.begin_records().await;
    let open = exchange.asked.clone();
    for rid in [1, 3] {
        assert_eq!(relayed.push(&open, &one(stream(rid, text("wrong")))).await.0, 403, "rid {rid}");
    }
    assert_eq!(relayed.push(&over, &one(stream(2, text("wrong")))).await.0, 403, "the leave of another");
    assert_eq!(relayed.push(&open, &one(error)).await.0, 403);
    // All or nothing.
    let mixed = json!({ "frames": [stream(2, text("no")), stream(1, text("no")), tool("no")] });
    assert_eq!(relayed.push(&open, &mixed).await.0, 403);
    assert_eq!(relayed.push(&open, &one(stream(2, text("right")))).await.0, 202);
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let mut frames = Vec::new();
    loop {
        let frame = peer.next().await.unwrap();
        assert_ne!(frame.opcode, TOOL_DEF);
        assert_ne!(frame.id, 1, "{frame:?}");
        let last = frame.is_terminal();
        frames.push(frame);
        if last {
            break;
        }
    }
    assert_eq!(text_of(&frames), "right");
}

#[tokio::test]
async fn asp_068_a_used_number_does_not_open_the_door_for_its_first_owner() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let first = finished(&mut relayed, &mut peer, 1).await;
    peer.invoke(1, "again").await;
    let exchange = relayed.function.next().await;
    assert_ne!(exchange.asked.inv(), first.inv());
    assert_eq!(relayed.push(&first, &one(stream(1, text("wrong")))).await.0, 403);
    exchange.ndjson(&[text("right"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "right");
}

#[tokio::test]
async fn asp_068_another_client_is_another_connection() {
    let mut relayed = Relayed::start(&[]).await;
    let (_ann, anns) = relayed.asked("ann").await;
    let mut bob = Peer::standard(relayed.address(), BOB).await;
    bob.invoke(1, "bob").await;
    let bobs = relayed.function.next().await;
    assert_eq!(bobs.asked.body["principal"]["sub"], "bob");
    assert_eq!(
        relayed.push_as(anns.asked.push_token(), &bobs.asked, &one(stream(1, text("x")))).await.0,
        403
    );
    bobs.ndjson(&[text("bob's"), end()]).await;
    assert_eq!(bob.finish(1).await.0, "bob's");
}

#[tokio::test]
async fn output_is_pushed_to_a_client_that_is_away() {
    let mut relayed = Relayed::start(&[]).await;
    let (peer, asked) = asynchronous(&mut relayed).await;
    let accept = peer.accept.clone();
    drop(peer);
    relayed.wait_for_state(&asked, "detached").await;
    let (status, answer) = relayed.push(&asked, &one(stream(1, text("meanwhile ")))).await;
    assert_eq!((status, &answer["delivered"]), (202, &json!("buffered")));
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    peer.wait(|frame| frame.text() == Some("meanwhile ")).await;
    let body = json!({ "frames": [stream(1, text("and now")), stream(1, end())] });
    let (status, _) = relayed.push(&asked, &body).await;
    assert_eq!(status, 202);
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("and now", "complete"));
    assert_ne!(last.opcode, ERROR);
}

#[tokio::test]
async fn a_function_pushes_for_a_client_of_acolyte() {
    let mut relayed = Relayed::start(&[]).await;
    let mut rpc = crate::support::rpc::Rpc::open(relayed.address(), ANN).await.unwrap();
    let id = rpc.start("over acolyte", json!({})).await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    let rid = u16::try_from(asked.body["rid"].as_u64().unwrap()).unwrap();
    let body = json!({ "frames": [stream(rid, text("pushed")), stream(rid, end())] });
    let (status, answer) = relayed.push(&asked, &body).await;
    assert_eq!(status, 202, "{answer}");
    assert_eq!(rpc.finish(&id).await.0, "pushed");
}
