//! What a function says.

use bytes::Bytes;
use switchboard_asp::message::{Finish, RecordBody, ToolDefOp};
use switchboard_asp::relay::{ContentKind, Ended, Original, Payload, Piece, cpu_time};
use switchboard_asp::{Code, Map, Value};

use crate::relay::Relay;
use crate::support::{Function, Language, RID, Reader, chat, content, hear, kind_of, until};

pub(crate) async fn words(language: Language) {
    let function = Function::start_with(language, &[("FUNCTION_DELAY_MS", "200")]).await;
    let relay = Relay::start().await;
    let invocation = chat("echo grüß dich, wie geht's?", &relay);
    let response = function.invoke(&invocation).await;
    assert_eq!(content(&response), Some(ContentKind::Ndjson));
    let mut reader = Reader::new(response);
    reader.until("text").await;
    assert!(!reader.has_ended(), "the first word comes before the last");
    let heard = reader.rest().await;
    assert_eq!(heard.types(), ["start", "text", "text", "text", "text", "usage", "end"]);
    assert_eq!(heard.numbers(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(heard.text(), "grüß dich, wie geht's?");
    assert_eq!(heard.ended, Ended::Terminal);
    match heard.record("start") {
        RecordBody::Start { run, .. } => assert_eq!(*run, invocation.inv),
        other => panic!("{other:?}"),
    }
    match heard.record("usage") {
        RecordBody::Usage(usage) => assert_eq!(usage.0, [("output_words".to_owned(), 4)]),
        other => panic!("{other:?}"),
    }
    match heard.record("end") {
        RecordBody::End(end) => assert_eq!(end.finish, Finish::Complete),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn forms(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let part = |text: &str| Value::from(Map::new().with("type", "text").with("text", text));
    let parts = Value::Array(vec![part("hi "), part("there")]);
    for payload in [
        Payload::Json("hi there".into()),
        Payload::Json(Map::new().with("prompt", "hi there").into()),
        Payload::Json(Map::new().with("kind", "chat").with("message", "hi there").into()),
        Payload::Json(Map::new().with("input", parts.clone()).into()),
        Payload::Json(parts),
        Payload::Bytes(Bytes::from_static(b"hi there")),
    ] {
        let mut invocation = chat("", &relay);
        invocation.enc = matches!(payload, Payload::Bytes(_)).then_some(Original::Raw);
        invocation.payload = Some(payload);
        assert_eq!(hear(function.invoke(&invocation).await).await.text(), "hi there");
    }
}

pub(crate) async fn later(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("later you will see", &relay);
    let response = function.invoke(&invocation).await;
    assert_eq!(response.status(), 202);
    assert!(response.bytes().await.expect("a body").is_empty());
    let pieces = pushed_answer(&relay).await;
    let types: Vec<&str> = pieces.iter().map(kind_of).collect();
    assert_eq!(types, ["start", "text", "text", "text", "usage", "end"]);
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let Piece::Record(record) = piece else { panic!("{piece:?}") };
        assert_eq!(record.n, Some(index as u64));
        if let RecordBody::Text(delta) = &record.body {
            text.push_str(delta);
        }
    }
    assert_eq!(text, "you will see");
}

pub(crate) async fn push_again(language: Language) {
    use hyper::StatusCode;
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    relay.refuse_pushes(&[StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS]);
    assert_eq!(function.invoke(&chat("later on", &relay)).await.status(), 202);
    assert_eq!(pushed_answer(&relay).await.len(), 4);
    let (refused, pushed) = (relay.refused(), relay.pushed());
    assert_eq!(refused.len(), 2);
    let first = pushed.first().expect("a push").idem.clone();
    assert!(first.is_some() && refused.iter().all(|idem| *idem == first), "the same key each time");
    let mut keys: Vec<_> = pushed.iter().map(|push| push.idem.clone()).collect();
    keys.dedup();
    assert_eq!(keys.len(), pushed.len(), "another key for each push");
}

pub(crate) async fn tool(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let heard = hear(function.invoke(&chat("tool", &relay)).await).await;
    assert_eq!((heard.text().as_str(), heard.ended), ("there is a new tool", Ended::Terminal));
    let pushed = relay.pushed();
    let [push] = pushed.as_slice() else { panic!("{pushed:?}") };
    let [frame] = push.frames.as_slice() else { panic!("{push:?}") };
    assert_eq!(frame.rid, 0, "tools belong to the connection");
    let Piece::ToolDef(definition) = &frame.piece else { panic!("{frame:?}") };
    assert_eq!((definition.op, definition.tools[0].name.as_str()), (ToolDefOp::Add, "clock"));

    let heard = hear(function.invoke(&chat("tool inline", &relay)).await).await;
    assert_eq!(heard.types()[..2], ["start", "tool_def"]);
    assert_eq!(relay.pushed().len(), 1);
}

pub(crate) async fn cpu(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let response = function.invoke(&chat("cpu", &relay)).await;
    let header = response.headers().get("x-cpu-time").expect("a header").to_str().expect("text").to_owned();
    assert!(cpu_time(&header).is_some(), "{header}");
    assert_eq!(hear(response).await.text(), "the sum is 2666646666700000");
}

pub(crate) async fn fail(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let heard = hear(function.invoke(&chat("fail", &relay)).await).await;
    let [Piece::Error(error)] = heard.pieces.as_slice() else { panic!("{heard:?}") };
    assert_eq!(error.known(), Some(Code::ExecutionFailed));
    assert_eq!(error.msg, "this function was asked to fail");

    let heard = hear(function.invoke(&chat("call clock nonsense", &relay)).await).await;
    let [Piece::Error(error)] = heard.pieces.as_slice() else { panic!("{heard:?}") };
    assert_eq!(error.known(), Some(Code::InvalidArgs));
}

pub(crate) async fn die(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let heard = hear(function.invoke(&chat("die", &relay)).await).await;
    assert!(heard.broke, "the body must not seem whole");
    assert_eq!((heard.text().as_str(), heard.ended), ("I am about to ", Ended::WithoutTerminal));
    let cancelled = function.complaints().iter().any(|line| line.starts_with("cancelled"));
    assert!(!cancelled, "nobody cancelled it");
    assert_eq!(hear(function.invoke(&chat("still there", &relay)).await).await.text(), "still there");
}

pub(crate) async fn cold(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let began = tokio::time::Instant::now();
    let response = function.invoke(&chat("cold 700", &relay)).await;
    assert!(began.elapsed().as_millis() >= 650, "the head waits as well");
    assert_eq!(hear(response).await.text(), "warm after 700 ms");
}

/// Everything that was pushed for the request, up to its end.
async fn pushed_answer(relay: &Relay) -> Vec<Piece> {
    let pieces = || -> Vec<Piece> {
        let frames = relay.pushed().into_iter().flat_map(|push| push.frames);
        frames.inspect(|frame| assert_eq!(frame.rid, RID)).map(|frame| frame.piece).collect()
    };
    until("an end is pushed", || pieces().last().is_some_and(Piece::is_terminal)).await;
    pieces()
}
