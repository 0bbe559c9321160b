//! What time does (§9, R9): AC-080, AC-082, pings, dead and slow peers.

use serde_json::Value;
use switchboard_acolyte::AcolyteLimits;
use switchboard_core::{Frame, Principal};
use switchboard_testkit::{Script, Settings, Step};

use crate::support::{Seen, Talk, at, count, events, hang, reply_of, rpc, task_of, text, texts};

fn pong(talk: &mut Talk) {
    talk.world.send(talk.peer, Frame::Pong(Vec::new().into()));
}

fn messages(seen: Vec<Seen>) -> Vec<Value> {
    let message = |seen| if let Seen::Message(message) = seen { Some(message) } else { None };
    seen.into_iter().filter_map(message).collect()
}

#[test]
fn ac_080_a_slow_reader_gets_everything_in_the_end() {
    let script = Script::new().on("long", vec![Step::Fill { bytes: 4 << 20, piece: 20_000 }]);
    let mut talk = Talk::new(script);
    talk.world.stall(talk.peer);
    talk.start("rpc_1", "long");
    talk.world.advance(50_000);
    let backlog = talk.world.backlog(talk.peer);
    assert!(backlog < 1 << 20, "the rest stays in the log: {backlog}");
    talk.world.unstall(talk.peer);
    let heard = messages(talk.seen(talk.peer));
    assert_eq!(texts(&events(&heard, "rpc_1")).len(), 4 << 20);
    assert_eq!(reply_of(&heard, "rpc_1")["output"].as_str().unwrap().len(), 4 << 20);
}

#[test]
fn ac_080_a_reader_that_takes_nothing_for_a_minute_is_closed_with_1013() {
    let script = Script::new().on("long", vec![Step::Fill { bytes: 1 << 20, piece: 20_000 }, Step::Hang]);
    let mut talk = Talk::new(script);
    talk.start("rpc_0", "hello");
    let asker = talk.connect();
    talk.here();
    talk.world.stall(talk.peer);
    talk.start("rpc_1", "long");
    talk.world.advance(59_900);
    assert!(talk.world.is_open(talk.peer));
    pong(&mut talk);
    talk.world.advance(200);
    assert!(!talk.world.is_open(talk.peer), "signs of life are not reading");
    talk.world.unstall(talk.peer);
    let seen = talk.seen(talk.peer);
    assert_eq!(seen.last(), Some(&Seen::Close(1013)));
    let heard = messages(seen);
    talk.world.send(asker, Frame::Pong(Vec::new().into()));
    talk.seen(asker);
    assert_eq!(talk.state(asker, &task_of(&heard, "rpc_1")), "cancelled");
    let reasons: Vec<_> = talk
        .world
        .history()
        .iter()
        .filter_map(|(_, committed)| match &committed.event {
            switchboard_core::Event::TurnInterrupted { reason, .. } => reason.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["E_OVERLOADED"]);
}

#[test]
fn a_slow_reader_that_takes_something_stays() {
    let script = Script::new().on("long", vec![Step::Fill { bytes: 4 << 20, piece: 20_000 }, Step::Hang]);
    let mut talk = Talk::new(script);
    talk.world.stall(talk.peer);
    talk.start("rpc_1", "long");
    for _ in 0..10 {
        talk.world.advance(50_000);
        pong(&mut talk);
        let waiting = talk.world.backlog(talk.peer);
        talk.world.read_some(talk.peer, waiting);
        assert!(talk.world.is_open(talk.peer));
    }
}

#[test]
fn a_silent_peer_is_pinged_after_30_s_and_dead_after_120() {
    let mut talk = Talk::new(hang());
    talk.world.advance(29_999);
    assert_eq!(talk.seen(talk.peer), []);
    talk.world.advance(1);
    assert_eq!(talk.seen(talk.peer), [Seen::Ping]);
    talk.world.advance(30_000);
    assert_eq!(talk.seen(talk.peer), [Seen::Ping], "every 30 s, not more often");
    talk.world.advance(59_999);
    assert!(talk.world.is_open(talk.peer));
    talk.world.advance(1);
    assert!(!talk.world.is_open(talk.peer));
}

#[test]
fn a_peer_is_dead_when_it_is_due_whatever_the_pings() {
    let limits = AcolyteLimits { dead_s: 100, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    talk.world.advance(99_999);
    assert!(talk.world.is_open(talk.peer));
    talk.world.advance(1);
    assert!(!talk.world.is_open(talk.peer));
}

#[test]
fn a_peer_that_answers_pings_stays_for_ever() {
    let mut talk = Talk::new(hang());
    for _ in 0..100 {
        talk.world.advance(30_000);
        assert_eq!(talk.seen(talk.peer), [Seen::Ping]);
        pong(&mut talk);
    }
    assert!(talk.world.is_open(talk.peer));
}

#[test]
fn a_dead_peer_takes_its_chats_along() {
    let mut talk = Talk::new(hang());
    let asker = talk.connect();
    talk.start("rpc_a", "hang");
    let heard = talk.here();
    for _ in 0..4 {
        talk.world.advance(30_000);
        talk.world.send(asker, Frame::Pong(Vec::new().into()));
    }
    talk.seen(asker);
    assert_eq!(talk.state(asker, &task_of(&heard, "rpc_a")), "cancelled");
    assert_eq!(count(&talk.world, "turn_ended"), 1);
}

#[test]
fn ac_082_a_running_chat_that_is_silent_for_30_s_gives_a_sign_of_life() {
    let script = Script::new().on("slow", vec![text("a"), Step::Wait(10_000), text("b"), Step::Hang]);
    let mut talk = Talk::new(script);
    talk.start("rpc_1", "slow");
    talk.start("rpc_2", "slow");
    talk.here();
    talk.world.advance(39_999);
    let before = messages(talk.seen(talk.peer));
    assert_eq!(texts(&events(&before, "rpc_1")), "b");
    assert_eq!(before.len(), 2, "and an estimate of its tokens");
    for _ in 0..3 {
        talk.world.advance(1);
        let heard = messages(talk.seen(talk.peer));
        assert_eq!(
            heard,
            [serde_json::json!({
                "id": "rpc_1", "type": "chat.event",
                "event": {"type": "status", "state": {"kind": "running"}},
            })],
            "only the one that runs"
        );
        pong(&mut talk);
        talk.world.advance(29_999);
        assert_eq!(messages(talk.seen(talk.peer)), Vec::<Value>::new());
    }
}

#[test]
fn a_credential_that_ends_ends_the_connection_with_1008() {
    let mut talk = Talk::new(hang());
    let until = Principal { expires_at: Some(at(1_767_225_610)), ..Principal::new("eve") };
    talk.world.issue("eve", until);
    let (peer, _) = talk.world.knock(&talk.acolyte, &rpc("eve")).unwrap();
    talk.say(peer, &crate::support::start("rpc_1", "hang"));
    talk.heard(peer);
    talk.world.advance(9_999);
    assert!(talk.world.is_open(peer));
    talk.world.advance(1);
    let seen = talk.seen(peer);
    let [Seen::Message(error), Seen::Close(1008)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(error["errorCode"], "E_ABORTED");
}
