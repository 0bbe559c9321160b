//! What functions answer, in every form that they may choose, and what clients get of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::setup::{Relayed, asp_frame, end, frames_of, text, text_of};
use crate::support::ANN;
use crate::support::function::{Exchange, lines};
use crate::support::wire::{ERROR, Frame, INVOKE, Peer, STREAM, TOOL_DEF, frame};

pub(crate) const NDJSON: &str = "application/x-ndjson";
pub(crate) const SSE: &str = "text/event-stream";
pub(crate) const FRAMES: &str = "application/vnd.asp.frames";

/// Answers in chunks of so many bytes each, with a moment between them so that they arrive one by one.
async fn answer(mut exchange: Exchange, kind: &str, body: &[u8], size: usize) {
    exchange.begin(kind, &[]).await;
    for chunk in body.chunks(size) {
        exchange.chunk(chunk).await;
        sleep(Duration::from_millis(1)).await;
    }
    exchange.finish(&[]).await;
}

/// One request, answered so; its frames.
pub(crate) async fn answered(relayed: &mut Relayed, kind: &str, body: &[u8], size: usize) -> Vec<Frame> {
    let mut peer = relayed.client().await;
    let want = json!(["text", "reason", "tool", "usage", "data"]);
    peer.send(INVOKE, 1, &json!({ "input": "hi", "want": want })).await;
    let exchange = relayed.function.next().await;
    answer(exchange, kind, body, size).await;
    frames_of(&mut peer, 1).await
}

/// What the three record formats have to lead to.
fn records() -> Vec<Value> {
    vec![
        json!({ "t": "start", "run": "mine" }),
        json!({ "t": "reason", "d": "hm " }),
        text("Zwölf "),
        json!({ "t": "ping" }),
        json!({ "t": "sparkle", "glitter": true }),
        json!({ "t": "tool", "call_id": "x", "name": "look", "phase": "start", "args": { "q": 1 } }),
        json!({ "t": "tool", "call_id": "x", "name": "look", "phase": "done", "output": { "a": 2 } }),
        text("Bären 🐻"),
        json!({ "t": "data", "mime": "application/json", "value": { "deep": [1, 2] } }),
        json!({ "t": "usage", "input_tokens": 3 }),
        json!({ "t": "end", "finish": "length", "output": { "x": 1 } }),
    ]
}

fn assert_records(frames: &[Frame], at: &str) {
    assert_eq!(text_of(frames), "Zwölf Bären 🐻", "{at}");
    let of = |t: &str| -> Vec<&Value> {
        frames.iter().map(|frame| &frame.value).filter(|value| value["t"] == t).collect()
    };
    let reason: String = of("reason").iter().filter_map(|record| record["d"].as_str()).collect();
    assert_eq!(reason, "hm ", "{at}");
    let tools: Vec<(&Value, &Value)> =
        of("tool").iter().map(|record| (&record["name"], &record["phase"])).collect();
    assert_eq!(tools, [(&json!("look"), &json!("start")), (&json!("look"), &json!("done"))], "{at}");
    assert_eq!(of("tool")[1]["output"], json!({ "a": 2 }), "{at}");
    assert_eq!(of("data")[0]["value"], json!({ "deep": [1, 2] }), "{at}");
    assert_eq!(of("usage")[0]["input_tokens"], 3, "{at}");
    assert!(of("sparkle").is_empty() && of("ping").is_empty(), "{at}");
    let last = frames.last().unwrap();
    assert_eq!((last.outcome().as_str(), &last.value["output"]), ("length", &json!({ "x": 1 })), "{at}");
}

#[tokio::test]
async fn asp_062_records_by_line() {
    let mut relayed = Relayed::start(&[]).await;
    let body = lines(&records());
    for size in [1 << 20, 7] {
        let frames = answered(&mut relayed, NDJSON, &body, size).await;
        assert_records(&frames, &format!("chunks of {size}"));
    }
    // With returns, empty lines, a parameter, and no line end at the end.
    let body = String::from_utf8(body).unwrap().replace('\n', "\r\n\n");
    let frames =
        answered(&mut relayed, "Application/X-NDJSON; charset=utf-8", body.trim_end().as_bytes(), 50).await;
    assert_records(&frames, "untidy");
}

#[tokio::test]
async fn asp_062_records_by_event() {
    let mut relayed = Relayed::start(&[]).await;
    let mut body = String::from(": hello\n\nretry: 10\n\n");
    for (index, record) in records().iter().enumerate() {
        let record = record.to_string();
        if index % 2 == 0 {
            body.push_str(&format!("event: record\nid: {index}\ndata: {record}\n\n: still here\n\n"));
        } else {
            // One record over two lines of data.
            let (first, second) = record.split_once(',').unwrap_or((&record, ""));
            let second = if second.is_empty() { String::new() } else { format!("data: ,{second}\r\n") };
            body.push_str(&format!("data:{first}\r\n{second}\r\n"));
        }
    }
    for size in [1 << 20, 11] {
        let frames = answered(&mut relayed, SSE, body.as_bytes(), size).await;
        assert_records(&frames, &format!("chunks of {size}"));
    }
}

#[tokio::test]
async fn asp_062_records_by_frame() {
    let mut relayed = Relayed::start(&[]).await;
    let body: Vec<u8> = records().iter().flat_map(|record| asp_frame(STREAM, 1, record)).collect();
    for size in [1 << 20, 5] {
        let frames = answered(&mut relayed, FRAMES, &body, size).await;
        assert_records(&frames, &format!("chunks of {size}"));
    }
    // Text as such, ended by nothing at all.
    let body = [frame(STREAM, 1, "Zwölf".as_bytes()), frame(STREAM, 1, b"")].concat();
    let frames = answered(&mut relayed, FRAMES, &body, 3).await;
    assert_eq!((text_of(&frames).as_str(), frames.last().unwrap().outcome().as_str()), ("Zwölf", "complete"));
    // Type 6 ends it as a success, and as a failure.
    for (payload, outcome) in [
        (json!({ "code": 0, "finish": "complete", "metrics": { "cpu_ms": 45 } }), "complete"),
        (json!({ "code": 2401, "name": "TOOL_FAILED", "msg": "no" }), "2401"),
    ] {
        let frames = answered(&mut relayed, FRAMES, &asp_frame(ERROR, 1, &payload), 9).await;
        assert_eq!(frames.last().unwrap().outcome(), outcome);
    }
}

#[tokio::test]
async fn asp_062_frames_are_validated_before_they_are_forwarded() {
    let mut relayed = Relayed::start(&[]).await;
    let end = asp_frame(STREAM, 1, &end());
    for (what, mut body) in [
        ("another request", asp_frame(STREAM, 2, &text("x"))),
        ("a type that functions do not send", asp_frame(INVOKE, 1, &json!({ "input": "x" }))),
        ("an unknown type", frame(0xf, 1, b"x")),
        ("another version", vec![0x23, 0, 0, 1, 0, 0, 0, 0]),
        ("no record", asp_frame(STREAM, 1, &json!([1]))),
        ("a length beyond all bounds", vec![0x13, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
    ] {
        body.extend_from_slice(&end);
        let frames = answered(&mut relayed, FRAMES, &body, 1 << 20).await;
        assert_eq!(frames.last().unwrap().outcome(), "2502", "{what}");
        assert_eq!(text_of(&frames), "", "{what}");
    }
}

#[tokio::test]
async fn asp_062_plain_text_is_passed_on_as_it_comes() {
    let mut relayed = Relayed::start(&[]).await;
    let body = "{\"t\":\"end\"} is text here: Zwölf Bären 🐻";
    for size in [1 << 20, 1] {
        let frames = answered(&mut relayed, "text/plain; charset=utf-8", body.as_bytes(), size).await;
        assert_eq!(text_of(&frames), body, "chunks of {size}");
        assert_eq!(frames.last().unwrap().outcome(), "complete", "chunks of {size}");
    }
    // Nothing at all is a success too, and half a character is not.
    let frames = answered(&mut relayed, "text/plain", b"", 1).await;
    assert_eq!(frames.last().unwrap().outcome(), "complete");
    let frames = answered(&mut relayed, "text/plain", b"half \xf0\x9f\x90", 1).await;
    assert_eq!((text_of(&frames).as_str(), frames.last().unwrap().outcome().as_str()), ("half ", "2503"));
    let frames = answered(&mut relayed, "text/plain", b"no text \xff\xff", 100).await;
    assert_eq!(frames.last().unwrap().outcome(), "2502");
}

#[tokio::test]
async fn asp_062_a_chunk_of_text_does_not_wait_for_the_next() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin("text/plain", &[]).await;
    // The second one ends within a character, of which the rest comes with the third.
    for (chunk, seen) in [(&b"one "[..], "one "), (&b"tw\xc3"[..], "tw"), (&b"\xb6lf"[..], "ölf")] {
        exchange.chunk(chunk).await;
        let frame = peer.wait(|frame| frame.id == 1 && frame.text().is_some()).await;
        assert_eq!(frame.text(), Some(seen));
    }
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_062_bytes_are_passed_on_as_bytes() {
    let mut relayed = Relayed::start(&[]).await;
    let body: Vec<u8> = (0..=255).collect();
    for size in [1 << 20, 16] {
        let frames = answered(&mut relayed, "application/octet-stream", &body, size).await;
        let mut got = Vec::new();
        for frame in &frames {
            got.extend(frame.text().unwrap_or_default().bytes());
            if frame.value["t"] != "data" {
                continue;
            }
            let encoded = frame.value["value"]["$b64"].as_str().expect("bytes");
            got.extend(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap());
        }
        assert_eq!(got, body, "chunks of {size}");
        assert_eq!(frames.last().unwrap().outcome(), "complete");
    }
}

#[tokio::test]
async fn asp_090_octets_that_are_utf_8_are_text_without_asking_for_anything() {
    let mut relayed = Relayed::start(&[]).await;
    for size in [1 << 20, 3] {
        let (mut peer, exchange) = relayed.asked("hi").await;
        answer(exchange, "application/octet-stream", "Zwölf Bären".as_bytes(), size).await;
        let (text, last) = peer.finish(1).await;
        assert_eq!((text.as_str(), last.outcome().as_str()), ("Zwölf Bären", "complete"), "{size}");
    }
}

#[tokio::test]
async fn asp_062_a_document_is_the_output_of_the_end() {
    let mut relayed = Relayed::start(&[]).await;
    for (body, output) in [
        (r#"{"answer":[42,"ä"],"t":"text"}"#, json!({ "answer": [42, "ä"], "t": "text" })),
        ("[1]", json!([1])),
        ("\"word\"", json!("word")),
        ("7", json!(7)),
    ] {
        for size in [1 << 20, 1] {
            let frames = answered(&mut relayed, "application/json", body.as_bytes(), size).await;
            let last = frames.last().unwrap();
            assert_eq!((last.outcome().as_str(), &last.value["output"]), ("complete", &output), "{body}");
            assert_eq!(text_of(&frames), "");
        }
    }
    for body in ["{", "", "{} {}"] {
        let frames = answered(&mut relayed, "application/json", body.as_bytes(), 100).await;
        assert_eq!(frames.last().unwrap().outcome(), "2502", "{body}");
    }
}

#[tokio::test]
async fn asp_062_other_types_are_no_answer() {
    let mut relayed = Relayed::start(&[]).await;
    for kind in ["text/html", "application/jsonl", "image/png", "nonsense"] {
        let frames = answered(&mut relayed, kind, b"{}\n", 100).await;
        assert_eq!(frames.last().unwrap().outcome(), "2502", "{kind}");
    }
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(200, &[], "no type").await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2502");
    assert_eq!(relayed.function.all_of("invoke").len(), 5, "none of it is asked for again");
}

#[tokio::test]
async fn asp_062_lines_that_are_no_records_end_it() {
    let mut relayed = Relayed::start(&[]).await;
    for (kind, body) in [
        (NDJSON, "no json\n"),
        (NDJSON, "[1]\n"),
        (NDJSON, "{\"t\":\"text\"}\n"),
        (NDJSON, "{\"t\":\"end\",\"finish\":\"nonsense\"}\n"),
        (SSE, "data: no json\n\n"),
    ] {
        let body = [&lines(&[text("before ")])[..], body.as_bytes()].concat();
        let body =
            if kind == SSE { format!("data: {}\n\ndata: no json\n\n", text("before ")).into() } else { body };
        let frames = answered(&mut relayed, kind, &body, 1 << 20).await;
        let shown = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(
            (text_of(&frames).as_str(), frames.last().unwrap().outcome().as_str()),
            ("before ", "2502"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn asp_062_nothing_after_the_terminal_record_is_forwarded() {
    let mut relayed = Relayed::start(&[]).await;
    let body = lines(&[text("yes"), end(), text("no"), json!({ "t": "error", "code": 2400, "msg": "no" })]);
    let frames = answered(&mut relayed, NDJSON, &body, 1 << 20).await;
    assert_eq!((text_of(&frames).as_str(), frames.last().unwrap().outcome().as_str()), ("yes", "complete"));
}

#[tokio::test]
async fn asp_096_a_tool_that_nobody_has_announced_is_one_record() {
    let mut relayed = Relayed::start(&[]).await;
    let tool =
        |call: &str, phase: &str| json!({ "t": "tool", "call_id": call, "name": "look", "phase": phase });
    let done =
        json!({ "t": "tool", "call_id": "a", "name": "look", "phase": "done", "output": { "found": 2 } });
    let piece = json!({ "t": "tool", "call_id": "b", "name": "look", "phase": "delta", "d": "bits" });
    let said = [
        text("one"),
        done,
        text("two"),
        piece,
        tool("b", "done"),
        tool("c", "start"),
        tool("c", "done"),
        end(),
    ];
    let frames = answered(&mut relayed, NDJSON, &lines(&said), 4000).await;
    let shown: Vec<&Value> =
        frames.iter().map(|frame| &frame.value).filter(|value| value["n"].is_u64()).collect();
    let numbers: Vec<u64> = shown.iter().filter_map(|record| record["n"].as_u64()).collect();
    assert_eq!(numbers, (0..said.len() as u64).collect::<Vec<_>>(), "{shown:#?}");
    for (shown, said) in shown.iter().zip(&said) {
        assert_eq!((&shown["t"], &shown["phase"]), (&said["t"], &said["phase"]), "{shown}");
    }
    assert_eq!(shown[1]["output"], json!({ "found": 2 }));
    assert_eq!(shown[3]["d"], "bits");
}

#[tokio::test]
async fn asp_062_tools_and_errors_have_records_of_their_own() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let tools = json!([{ "name": "dig", "description": "digs", "input_schema": { "type": "object" } }]);
    let found = json!({ "t": "tool_def", "op": "add", "tools": tools });
    let failure = json!({ "t": "error", "code": 2950, "name": "TOO_WET", "msg": "rain", "retry": true, "retry_ms": 700 });
    exchange.ndjson(&[text("so far"), found, failure]).await;
    let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!(defined.value["tools"][0]["name"], "dig");
    assert_eq!(defined.value["tools"][0]["description"], "digs");
    let (_, last) = peer.finish(1).await;
    assert_eq!(last.opcode, ERROR);
    for (member, value) in [
        ("code", json!(2950)),
        ("name", json!("TOO_WET")),
        ("msg", json!("rain")),
        ("retry", json!(true)),
        ("retry_ms", json!(700)),
    ] {
        assert_eq!(last.value[member], value, "{member}");
    }
}

#[tokio::test]
async fn an_error_of_a_function_cannot_close_the_connection() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let failure =
        json!({ "t": "error", "code": 2101, "name": "AUTH_INVALID", "msg": "x", "fatal": true, "ref": 9 });
    exchange.ndjson(&[failure]).await;
    let (_, last) = peer.finish(1).await;
    assert_eq!(last.outcome(), "2101");
    assert_ne!(last.value["fatal"], true);
    assert!(last.value["ref"].is_null());
    peer.invoke(2, "still here").await;
    relayed.function.next().await.ndjson(&[text("yes"), end()]).await;
    assert_eq!(peer.finish(2).await.0, "yes");
}

#[tokio::test]
async fn asp_062_a_bare_client_gets_nothing_but_text() {
    let mut relayed = Relayed::start(&["agents.fn.cold_start_ms=50"]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"hi")).await;
    let mut exchange = relayed.function.next().await;
    sleep(Duration::from_millis(200)).await;
    exchange.begin_records().await;
    for record in records().into_iter().filter(|record| record["t"] != "end").chain([end()]) {
        exchange.record(record).await;
    }
    assert_eq!(bare_text(&mut peer).await, "Zwölf Bären 🐻");
}

/// What a bare client reads up to the end of its request.
async fn bare_text(peer: &mut Peer) -> String {
    let mut got = Vec::new();
    loop {
        let frame = peer.wait(|frame| frame.id == 1).await;
        assert_eq!((frame.opcode, frame.flags), (STREAM, 0), "{frame:?}");
        if frame.payload.is_empty() {
            return got.concat();
        }
        got.push(String::from_utf8(frame.payload).expect("whole characters"));
    }
}

#[tokio::test]
async fn asp_062_a_bare_client_does_not_get_the_output_of_an_end_after_text() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"hi")).await;
    relayed.function.next().await.ndjson(&records()).await;
    assert_eq!(bare_text(&mut peer).await, "Zwölf Bären 🐻");
}

#[tokio::test]
async fn asp_085_a_bare_client_gets_text_that_looks_like_a_record_as_it_is() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"hi")).await;
    let json = r#"{"t":"end","finish":"complete"}"#;
    relayed.function.next().await.ndjson(&[text(json), end()]).await;
    assert_eq!(bare_text(&mut peer).await, json);
}

#[tokio::test]
async fn a_failure_ends_the_request_of_a_bare_client() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"{\"input\":\"hi\"}")).await;
    relayed.function.next().await.ndjson(&[text("half")]).await;
    let last = peer.wait(|frame| frame.id == 1 && frame.opcode == ERROR).await;
    assert_eq!(last.outcome(), "2503");
}
