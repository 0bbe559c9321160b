//! What a function asks the client for.

use switchboard_asp::message::{CallFailure, RecordBody};
use switchboard_asp::relay::{Answer, Answered, Ended};
use switchboard_asp::{Map, Value};

use crate::relay::Relay;
use crate::support::{Function, Language, Reader, chat, continued, hear, until};

pub(crate) async fn call(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat(r#"call clock {"zone": "UTC", "deep": [1, {"a": null}]}"#, &relay);
    let heard = hear(function.invoke(&invocation).await).await;
    assert_eq!((heard.types(), heard.ended), (vec!["start", "call", "suspend"], Ended::Suspended));
    let RecordBody::Call(call) = heard.record("call") else { panic!("no call") };
    assert_eq!((call.name.as_str(), call.args.get_str("zone")), ("clock", Some("UTC")));
    assert_eq!(call.timeout_ms, 30_000);

    let mut next = continued(&invocation, &heard);
    let output = Value::from(Map::new().with("time", "12:00"));
    next.answers = vec![answer(called(&call.call_id, Some(output)))];
    let last = hear(function.invoke(&next).await).await;
    assert_eq!(last.text(), r#"the result is {"time":"12:00"}"#);
    assert_eq!(last.ended, Ended::Terminal);
    let numbers: Vec<u64> = (2..2 + last.count()).collect();
    assert_eq!(last.numbers(), numbers, "the second leg counts on");
    assert_eq!(function.invoke(&next).await.status(), 409, "a leg is answered once as well");
}

pub(crate) async fn ask(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("ask Which city?", &relay);
    let heard = hear(function.invoke(&invocation).await).await;
    assert_eq!((heard.types(), heard.ended), (vec!["start", "ask", "suspend"], Ended::Suspended));
    let RecordBody::Ask(ask) = heard.record("ask") else { panic!("no question") };
    assert_eq!(ask.text, "Which city?");

    let mut next = continued(&invocation, &heard);
    next.answers = vec![answer(replied(&ask.ask_id, "Köln"))];
    assert_eq!(hear(function.invoke(&next).await).await.text(), "you said: Köln");
}

pub(crate) async fn timeout(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("call clock", &relay);
    let heard = hear(function.invoke(&invocation).await).await;
    let RecordBody::Call(call) = heard.record("call") else { panic!("no call") };
    let mut next = continued(&invocation, &heard);
    let failure = CallFailure { name: "CALL_TIMEOUT".to_owned(), msg: "no answer came".to_owned() };
    let content = called(&call.call_id, None);
    next.answers = vec![Answer { ok: false, error: Some(failure), ..answer(content) }];
    assert_eq!(hear(function.invoke(&next).await).await.text(), "no answer: CALL_TIMEOUT");
}

pub(crate) async fn hold(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut reader = Reader::new(function.invoke(&chat("hold Which city?", &relay)).await);
    reader.until("ask").await;
    // Of another question, and not the one that is waited for.
    relay.answer(answer(replied("ask-0", "never mind")));
    until("it asks again", || relay.questions() >= 2).await;
    assert!(!reader.has_ended());
    relay.answer(Answer { k: 2, ..answer(replied("ask-1", "Bonn")) });
    let heard = reader.rest().await;
    assert_eq!((heard.text().as_str(), heard.ended), ("you said: Bonn", Ended::Terminal));
}

pub(crate) async fn pings(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut reader = Reader::new(function.invoke(&chat("hold Are you there?", &relay)).await);
    reader.until("ping").await;
    relay.answer(answer(replied("ask-1", "yes")));
    let heard = reader.rest().await;
    assert_eq!((heard.text().as_str(), heard.ended), ("you said: yes", Ended::Terminal));
    assert_eq!(heard.numbers(), (0..heard.count()).collect::<Vec<_>>(), "pings are not counted");
}

fn answer(content: Answered) -> Answer {
    Answer { k: 1, ok: true, content, error: None }
}

fn called(call_id: &str, output: Option<Value>) -> Answered {
    Answered::Call { call_id: call_id.to_owned(), output }
}

fn replied(ask_id: &str, text: &str) -> Answered {
    Answered::Ask { ask_id: ask_id.to_owned(), text: Some(text.to_owned()), data: None }
}
