//! The three ways in which a function learns that nobody wants its answer any more.

use switchboard_asp::message::{Finish, RecordBody};
use switchboard_asp::relay::{Event, Invocation};

use crate::relay::Relay;
use crate::support::{Function, Language, Reader, SECRET, chat, now_s, until};

pub(crate) async fn abort(language: Language) {
    let (function, _relay, invocation, running) = waiting(language).await;
    drop(running);
    assert_eq!(function.cancelled(&invocation.inv).await, ["abort"]);
}

pub(crate) async fn abort_early(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("cold 60000", &relay);
    let asked = tokio::spawn(function.signed("/invoke", &invocation, SECRET, now_s()).send());
    until("the function polls, so it runs", || relay.polls() > 0).await;
    asked.abort();
    assert_eq!(function.cancelled(&invocation.inv).await, ["abort"]);
}

pub(crate) async fn interrupt(language: Language) {
    let (function, relay, invocation, running) = waiting(language).await;
    let stranger = interrupted(&chat("", &relay));
    assert!(function.post("/interrupt", &stranger).await.status().is_success(), "it may run elsewhere");
    assert!(!running.has_ended());
    assert!(function.post("/interrupt", &interrupted(&invocation)).await.status().is_success());
    assert_eq!(function.cancelled(&invocation.inv).await, ["interrupt"]);
    ends_as_interrupted(running).await;
    let again = function.post("/interrupt", &interrupted(&invocation)).await;
    assert!(again.status().is_success(), "it is over, and that is all right");
}

pub(crate) async fn poll(language: Language) {
    let (function, relay, invocation, running) = waiting(language).await;
    relay.cancel();
    assert_eq!(function.cancelled(&invocation.inv).await, ["poll"]);
    ends_as_interrupted(running).await;
}

pub(crate) async fn interrupt_later(language: Language) {
    let function = Function::start_with(language, &[("FUNCTION_DELAY_MS", "100")]).await;
    let relay = Relay::start().await;
    let invocation = chat(&format!("later {}", "word ".repeat(600)), &relay);
    assert_eq!(function.invoke(&invocation).await.status(), 202);
    until("words are pushed", || relay.pushed().len() > 2).await;
    assert!(function.post("/interrupt", &interrupted(&invocation)).await.status().is_success());
    assert_eq!(function.cancelled(&invocation.inv).await, ["interrupt"]);
    // Whatever was on its way may still come, and nothing after it.
    let known = relay.pushed().len();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(relay.pushed().len() <= known + 1);
}

/// A function that waits, and says so.
async fn waiting(language: Language) -> (Function, Relay, Invocation, Reader) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("wait 300", &relay);
    let mut running = Reader::new(function.invoke(&invocation).await);
    running.until("status").await;
    (function, relay, invocation, running)
}

fn interrupted(invocation: &Invocation) -> Invocation {
    let mut interrupt = invocation.clone();
    interrupt.event = Event::Interrupt;
    interrupt.payload = None;
    interrupt
}

pub(crate) async fn ends_as_interrupted(running: Reader) {
    let heard = running.rest().await;
    assert!(!heard.broke);
    match heard.record("end") {
        RecordBody::End(end) => assert_eq!(end.finish, Finish::Interrupted),
        other => panic!("{other:?}"),
    }
}
