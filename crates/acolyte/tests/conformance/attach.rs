//! Ours: `chat.attach`, and sessions that are followed for more than one reason at a time.

use serde_json::json;
use switchboard_acolyte::AcolyteLimits;
use switchboard_testkit::{Order, Settings, Step};

use crate::resume::{come_back, resuming};
use crate::support::{Talk, attach, events, gist, hang, of, short, start_in, task_of, texts};

#[test]
fn nothing_is_followed_for_an_attach_that_finds_nothing() {
    let mut talk = resuming(hang());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hello");
    talk.here();
    for (task, session) in [(None, "sess_s"), (Some("task_never"), "sess_s"), (None, "sess_none")] {
        talk.say(talk.peer, &attach("rpc_2", task, Some(session), 0));
        assert_eq!(short(&talk.here()), ["2 error refused"]);
        assert_eq!(talk.world.followed(talk.peer), []);
    }
    // The id is free again.
    talk.start("rpc_2", "hello");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"2 done "hello""#);
}

#[test]
fn a_chat_that_is_refused_leaves_nothing_followed() {
    let mut talk = Talk::new(hang());
    talk.world.set_gate(|_, op, _| match op {
        switchboard_core::Op::StartTurn(_) => Err(switchboard_core::Reject::Forbidden),
        _ => Ok(()),
    });
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hello");
    assert_eq!(gist(&talk.here()).last().unwrap(), "1 error E_SANDBOX_VIOLATION");
    assert_eq!(talk.world.followed(talk.peer), []);
}

#[test]
fn attaching_to_one_turn_of_a_session_loses_nothing_of_another() {
    // A slow reader has much of its own chat before it when it attaches to others of the session.
    let long =
        |text: &str| Step::Repeat { times: 100, every: 10, steps: vec![Step::Text(text.repeat(1000))] };
    let script = hang().on("a", vec![long("a")]).on("b", vec![long("b")]).on("c", vec![long("c")]);
    for seed in 0..10 {
        let settings = Settings { order: Order::Seeded(seed), commit_ms: seed % 3, ..Settings::default() };
        let mut talk = Talk::with(script.clone(), AcolyteLimits::default(), settings);
        talk.offer(talk.peer, "task.resume");
        let other = come_back(&mut talk);
        talk.start_in(other, "rpc_b", "sess_s", "b");
        talk.world.advance(200);
        let b = task_of(&talk.heard(other), "rpc_b");
        talk.world.stall(talk.peer);
        talk.start_in(talk.peer, "rpc_a", "sess_s", "a");
        let third = talk.connect();
        talk.world.advance(700);
        talk.start_in(third, "rpc_c", "sess_s", "c");
        talk.world.advance(50);
        let c = task_of(&talk.heard(third), "rpc_c");
        // In one go: later than what is behind, earlier than it, everything, and nothing.
        talk.enqueue(talk.peer, &attach("rpc_2", Some(&c), Some("sess_s"), 0));
        talk.enqueue(talk.peer, &attach("rpc_3", None, Some("sess_s"), 0));
        talk.enqueue(talk.peer, &attach("rpc_4", Some(&b), Some("sess_s"), 0));
        talk.enqueue(talk.peer, &attach("rpc_5", Some("task_none"), Some("sess_s"), 0));
        talk.world.settle();
        talk.world.advance(seed * 10);
        talk.world.unstall(talk.peer);
        talk.world.advance(5000);
        let heard = talk.here();
        for (id, text) in [("rpc_a", "a"), ("rpc_2", "c"), ("rpc_3", "b"), ("rpc_4", "b")] {
            let told = texts(&events(&heard, id));
            assert_eq!(told, text.repeat(100_000), "seed {seed}, {id}: {} bytes", told.len());
        }
        assert_eq!(talk.world.followed(talk.peer), []);
    }
}

#[test]
fn a_chat_in_a_session_that_an_attach_has_not_found_is_heard() {
    for seed in 0..50 {
        let settings = Settings { order: Order::Seeded(seed), commit_ms: seed % 3, ..Settings::default() };
        let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
        talk.offer(talk.peer, "task.resume");
        talk.enqueue(talk.peer, &attach("rpc_1", None, Some("sess_new"), 0));
        talk.enqueue(talk.peer, &start_in("rpc_2", "sess_new", "hello"));
        talk.enqueue(talk.peer, &attach("rpc_3", Some("task_none"), Some("sess_new"), 0));
        talk.world.settle();
        talk.world.advance(1000);
        let heard = talk.here();
        assert_eq!(gist(&of(&heard, "rpc_2")).last().unwrap(), r#"2 done "hello""#, "seed {seed}");
        assert_eq!(talk.world.followed(talk.peer), [], "seed {seed}");
    }
}

#[test]
fn a_session_that_cannot_be_followed_fails_the_chat_and_stops_its_turn() {
    for seed in 0..100 {
        let settings = Settings { order: Order::Seeded(seed), ..Settings::default() };
        let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
        talk.offer(talk.peer, "task.resume");
        talk.start_in(talk.peer, "rpc_0", "sess_s", "hello");
        talk.world.advance(100);
        talk.here();
        talk.world.fail_appends(1);
        talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
        talk.start_in(talk.peer, "rpc_2", "sess_s", "hello");
        talk.world.advance(2000);
        let heard = gist(&talk.here());
        if heard.iter().any(|line| line.starts_with("1 error")) {
            assert_eq!(heard.last().unwrap(), r#"2 done "hello""#, "seed {seed}: {heard:?}");
            let live = talk.world.session(&Talk::session("sess_s")).unwrap().turns().count();
            assert_eq!(live, 0, "seed {seed}: nothing runs for nobody");
        }
    }
}

#[test]
fn only_so_many_tasks_are_attached() {
    let limits = AcolyteLimits { attached: 2, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    talk.offer(talk.peer, "task.resume");
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let task = task_of(&talk.here(), "rpc_1");
    for (id, refused) in [("rpc_2", false), ("rpc_3", false), ("rpc_4", true)] {
        talk.say(talk.peer, &attach(id, Some(&task), Some("sess_s"), 0));
        let heard = talk.here();
        assert_eq!(heard.last().unwrap()["type"] == "error", refused, "{heard:?}");
    }
    for id in ["rpc_1", "rpc_2"] {
        talk.say(talk.peer, &attach(id, Some(&task), Some("sess_s"), 0));
        assert_eq!(talk.one()["error"], format!("Chat request already running for id: {id}"));
        talk.start(id, "hello");
        assert_eq!(talk.one()["error"], format!("Chat request already running for id: {id}"));
    }
}

#[test]
fn what_is_not_an_attach_is_refused() {
    let mut talk = resuming(hang());
    for payload in [
        json!(null),
        json!({}),
        json!({"after": 1}),
        json!({"taskId": "rpc_1"}),
        json!({"taskId": null, "sessionId": "sess_s"}),
        json!({"sessionId": 5}),
        json!({"sessionId": "sess_s", "after": -1}),
        json!({"sessionId": "sess_s", "after": null}),
        json!({"sessionId": "sess_s", "after": "1"}),
    ] {
        talk.say(talk.peer, &json!({"id": "rpc_1", "type": "chat.attach", "payload": payload}));
        assert_eq!(talk.one()["error"], "Invalid RPC message", "{payload}");
    }
}
