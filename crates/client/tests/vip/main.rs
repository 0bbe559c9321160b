//! The async VIP client against the real server, over a cable that can be cut.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use switchboard_client::Refusal;
use switchboard_client::vip::{
    Answer, Cause, Connect, ConnectError, Event, Events, OptionsError, Session, State,
};

use support::{Cable, Served, soon};

/// A page with a lamp and a safe.
fn screen(narration: &str) -> Value {
    json!({
        "route": {"id": "home"}, "narration": narration,
        "routes": [{"target": "/cellar", "title": "The cellar"}],
        "actions": {
            "lamp": {"type": "button", "description": "Switches the lamp.", "element_id": "lamp"},
            "safe": {
                "type": "button", "description": "Opens the safe.", "element_id": "safe", "sensitive": true,
            },
        },
        "visibility": ["lamp", "safe"],
    })
}

fn options(address: impl std::fmt::Display) -> Connect {
    Connect::new(format!("http://{address}")).app("house").development().silent().screen(screen("A house."))
}

/// What is said from now on until nobody has the floor any more.
async fn answer(events: &mut Events) -> String {
    let mut words = String::new();
    loop {
        match soon(events.next()).await.expect("an event") {
            Event::Words(more) => words += &more.text,
            Event::State(changed) if changed.state == State::Idle => return words,
            Event::Problem(error) => panic!("{error:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_is_typed_is_answered() {
    let server = Served::start().await;
    let (session, mut events) = soon(Session::connect(options(server.address))).await.expect("a session");
    assert!(session.id().starts_with("vs_"));
    assert_eq!(session.state(), State::Idle);
    for words in ["one", "two and three"] {
        soon(session.say(format!("say {words}"))).await.expect("said");
        soon(session.until(State::AiThinking)).await.ok();
        let mut said = answer(&mut events).await;
        // The state in which it began may be told first.
        while said.is_empty() {
            said = answer(&mut events).await;
        }
        assert_eq!(said.trim(), words);
    }
    soon(session.hang_up()).await;
    assert_eq!(session.state(), State::NotConnected);
    while soon(events.next()).await.is_some() {}
    assert!(soon(session.say("say four")).await.is_err(), "nobody is there any more");
}

#[tokio::test]
async fn actions_are_done_once_and_sensitive_ones_only_with_consent() {
    let server = Served::start().await;
    let (lamp, safe) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        move |_call| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Answer::with(json!({"well": true})) }
        }
    };
    let options = options(server.address).action("lamp", counting(&lamp)).action("safe", counting(&safe));
    let (session, mut events) = soon(Session::connect(options)).await.expect("a session");
    soon(session.say("press lamp")).await.expect("said");
    let mut said = String::new();
    while !said.contains("Done") {
        said += &answer(&mut events).await;
    }
    assert_eq!(lamp.load(Ordering::SeqCst), 1);
    for agrees in [false, true] {
        soon(session.say("press safe")).await.expect("said");
        loop {
            if let Event::Ask(question) = soon(events.next()).await.expect("an event") {
                assert_eq!(question.action_id, "safe");
                soon(session.decide(question.invocation_id, agrees)).await.expect("decided");
                break;
            }
        }
        soon(session.until(State::Idle)).await.expect("an end");
        while answer(&mut events).await.is_empty() {}
        assert_eq!(safe.load(Ordering::SeqCst), usize::from(agrees));
    }
}

#[tokio::test]
async fn a_session_that_is_cut_goes_on() {
    let server = Served::start().await;
    let cable = Cable::to(server.address).await;
    let (session, mut events) = soon(Session::connect(options(cable.address))).await.expect("a session");
    cable.cut();
    let down = loop {
        if let Event::Down(down) = soon(events.next()).await.expect("an event") {
            break down;
        }
    };
    assert!(down.retry_at.is_some());
    assert_eq!(session.state(), State::NotConnected);
    cable.plug_into(server.address);
    soon(session.until(State::Idle)).await.expect("back");
    let mut resumed = false;
    while !resumed {
        if let Event::Connected(connected) = soon(events.next()).await.expect("an event") {
            resumed = connected.resumed;
        }
    }
    soon(session.say("say still here")).await.expect("said");
    let mut said = String::new();
    while said.trim() != "still here" {
        said = answer(&mut events).await;
    }
}

#[tokio::test]
async fn who_may_not_come_is_told_why() {
    let server = Served::start().await;
    let production = Connect::new(format!("http://{}", server.address)).app("house");
    let refused = soon(Session::connect(production)).await.expect_err("nobody vouches");
    match refused {
        ConnectError::Failed(Cause::Refused(Refusal { status: 401, code, .. })) => {
            assert_eq!(code.as_deref(), Some("AUTH_TOKEN_MISSING"));
        }
        other => panic!("{other:?}"),
    }
    let nobody = soon(Session::connect(options("127.0.0.1:9"))).await.expect_err("nobody listens");
    assert!(matches!(nobody, ConnectError::Failed(Cause::Unreachable(_))), "{nobody:?}");
    let broken = options(server.address).screen(json!({"route": {"id": "x"}, "narration": 7}));
    let broken = soon(Session::connect(broken)).await.expect_err("no such screen");
    assert!(matches!(broken, ConnectError::Options(OptionsError::Settings(_))), "{broken:?}");
}
