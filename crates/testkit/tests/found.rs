//! What simulations have found, each in its smallest form.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::BytesMut;
use serde_json::{Value, json};
use switchboard_asp::codec::encode_frame;
use switchboard_asp::{Asp, AspLimits, Flags, Opcode};
use switchboard_core::{Actor, Frame, Op, Principal, Role, SessionId};
use switchboard_testkit::{PeerId, Received, Script, Settings, Step, World, opening};

/// A HELLO for records in JSON that can be resumed.
fn hello(resume: &Value) -> Value {
    let mut hello = json!({"op": "hello", "ver": [1], "features": ["events", "resume"], "enc": ["json"]});
    if !resume.is_null() {
        hello["resume"] = resume.clone();
    }
    hello
}

fn connect(world: &mut World, resume: &Value) -> PeerId {
    let peer = world.connect(&Asp::new(AspLimits::default()), Principal::new("ann"), opening());
    send(world, peer, Opcode::Hello, 0, &hello(resume));
    peer
}

fn frame(opcode: Opcode, id: u16, map: &Value) -> Frame {
    let mut out = BytesMut::new();
    encode_frame(&mut out, opcode, Flags::NONE, id, map.to_string().as_bytes()).unwrap();
    Frame::Binary(out.freeze())
}

fn send(world: &mut World, peer: PeerId, opcode: Opcode, id: u16, map: &Value) {
    world.send(peer, frame(opcode, id, map));
}

/// Everything that arrived, as opcode, id and map.
fn take(world: &mut World, peer: PeerId) -> Vec<(u8, u16, Value)> {
    let frames = world.take(peer).into_iter().filter_map(binary);
    let read = |bytes: bytes::Bytes| {
        let id = u16::from_be_bytes([bytes[2], bytes[3]]);
        (bytes[0] & 0x0F, id, serde_json::from_slice(&bytes[8..]).unwrap())
    };
    frames.map(read).collect()
}

fn binary(received: Received) -> Option<bytes::Bytes> {
    match received {
        Received::Frame(Frame::Binary(bytes)) => Some(bytes),
        Received::Frame(_) | Received::Close(_) | Received::Lost => None,
    }
}

/// The records of one request.
fn records(frames: &[(u8, u16, Value)], id: u16) -> Vec<Value> {
    frames.iter().filter(|(opcode, of, _)| (*opcode, *of) == (3, id)).map(|(.., map)| map.clone()).collect()
}

fn counting() -> World {
    world(Settings::default())
}

fn world(settings: Settings) -> World {
    let mut world = World::with(settings);
    let text = |text: &str| Step::Text(text.into());
    let steps = vec![text("a"), Step::Wait(100), text("b"), Step::Wait(100), text("c")];
    world.set_default_agent("demo", Script::new().on("count", steps));
    world
}

fn keyed() -> Value {
    json!({"kind": "chat", "input": "count", "session": "s", "idem": "k"})
}

fn busy() -> Value {
    json!({"kind": "chat", "input": "x", "session": "s", "serial": false})
}

/// Events that came before the session was followed from the start were taken for the first ones.
#[test]
fn a_key_that_is_repeated_while_its_turn_runs_is_told_from_the_start() {
    for delay in 0..300 {
        let mut world = world(Settings { commit_ms: 10, ..Settings::default() });
        let peer = connect(&mut world, &Value::Null);
        world.advance(50);
        send(&mut world, peer, Opcode::Invoke, 1, &keyed());
        world.advance(delay);
        // Keeps the session busy, so that the repetition meets output of its turn.
        send(&mut world, peer, Opcode::Invoke, 9, &busy());
        world.advance(1);
        send(&mut world, peer, Opcode::Invoke, 2, &keyed());
        world.advance(1000);
        let frames = take(&mut world, peer);
        assert_eq!(records(&frames, 2), records(&frames, 1), "after {delay} ms");
        assert_eq!(records(&frames, 2).len(), 5, "after {delay} ms");
    }
}

/// Nothing more was heard of a request whose session could not be followed.
#[test]
fn a_repetition_that_cannot_be_followed_is_refused() {
    let mut refused = 0;
    for delay in 0..300 {
        let mut world = world(Settings { commit_ms: 10, ..Settings::default() });
        let peer = connect(&mut world, &Value::Null);
        world.advance(50);
        send(&mut world, peer, Opcode::Invoke, 1, &keyed());
        world.advance(delay);
        send(&mut world, peer, Opcode::Invoke, 9, &busy());
        world.advance(1);
        send(&mut world, peer, Opcode::Invoke, 2, &keyed());
        world.advance(9);
        world.fail_appends(1);
        world.advance(2000);
        let frames = take(&mut world, peer);
        let ends = frames.iter().filter(|(opcode, id, map)| *id == 2 && (*opcode == 6 || map["t"] == "end"));
        assert_eq!(ends.count(), 1, "after {delay} ms: {frames:?}");
        refused += frames.iter().filter(|(opcode, id, _)| (*opcode, *id) == (6, 2)).count();
    }
    assert!(refused > 0, "no delay made the log fail just then");
}

/// The end of a request that was cancelled right after a resume had an index from before.
#[test]
fn the_index_of_an_end_is_beyond_everything_that_was_seen() {
    let mut world = counting();
    let peer = connect(&mut world, &Value::Null);
    let accept = take(&mut world, peer).remove(0).2;
    send(&mut world, peer, Opcode::Invoke, 1, &json!({"kind": "chat", "input": "count"}));
    world.advance(110);
    assert_eq!(records(&take(&mut world, peer), 1).len(), 3);
    world.cut(peer);
    let peer = world.connect(&Asp::new(AspLimits::default()), Principal::new("ann"), opening());
    let resume = json!({"cid": accept["cid"], "token": accept["resume"]["token"], "next": {"1": 3}});
    world.enqueue(peer, frame(Opcode::Hello, 0, &hello(&resume)));
    world.enqueue(peer, frame(Opcode::Interrupt, 1, &json!({"mode": "cancel"})));
    world.advance(1000);
    let records = records(&take(&mut world, peer), 1);
    assert_eq!(records.last().unwrap()["finish"], "interrupted");
    assert!(records.iter().all(|record| record["n"].as_u64().unwrap() >= 3), "{records:?}");
}

/// A guest who was sent away could use the key of a turn again, elsewhere.
#[test]
fn a_key_leads_to_one_turn_whoever_is_sent_away() {
    let mut world = counting();
    let (owner, shared) = (Principal::new("bob"), SessionId::named(&Principal::new("bob"), "shared"));
    let own = |world: &mut World, op| world.ask(&shared, Actor::client(owner.id.clone()), op).unwrap();
    own(&mut world, Op::Open { epoch: 1, agent: "demo".into(), name: None });
    own(&mut world, Op::Admit { principal: "ann".into(), role: Some(Role::Contributor) });
    let peer = connect(&mut world, &Value::Null);
    let invoke = json!({"kind": "chat", "input": "count", "session": shared.as_str(), "idem": "k"});
    send(&mut world, peer, Opcode::Invoke, 1, &invoke);
    world.advance(1000);
    own(&mut world, Op::Admit { principal: "ann".into(), role: None });
    for (id, session) in [(2, shared.as_str()), (3, "mine"), (4, "mine")] {
        let invoke = json!({"kind": "chat", "input": "count", "session": session, "idem": "k"});
        send(&mut world, peer, Opcode::Invoke, id, &invoke);
        world.advance(1000);
    }
    let accepted = world.history().iter().filter(|(_, known)| known.event.name() == "turn_accepted");
    assert_eq!(accepted.count(), 1);
}

/// The checker took a copy for a fragment: a bit of the reserved byte means something only to those who
/// agreed on it (§3.1). To the server it is an INVOKE, which revives its id if that is over (§6).
#[test]
fn a_reserved_byte_of_a_bare_peer_means_nothing() {
    for reserved in 0..=u8::MAX {
        let mut world = counting();
        let peer = world.connect(&Asp::new(AspLimits::default()), Principal::new("ann"), opening());
        let mut copy = BytesMut::new();
        encode_frame(&mut copy, Opcode::Invoke, Flags::NONE, 3, b"count").unwrap();
        copy[1] = reserved;
        let copy = Frame::Binary(copy.freeze());
        // The second finds its id in use, the third finds it free again.
        world.enqueue(peer, copy.clone());
        world.enqueue(peer, copy.clone());
        world.advance(1000);
        world.send(peer, copy);
        world.advance(1000);
        let frames: Vec<_> = world.take(peer).into_iter().filter_map(binary).collect();
        let kinds: Vec<_> = frames.iter().map(|bytes| (bytes[0], bytes[3], &bytes[8..])).collect();
        let answer: [(u8, u8, &[u8]); 4] =
            [(0x13, 3, b"a"), (0x13, 3, b"b"), (0x13, 3, b"c"), (0x13, 3, b"")];
        assert_eq!((kinds[0].0, kinds[0].1), (0x16, 0), "{reserved:#04x}: {kinds:?}");
        assert_eq!(kinds[1..], [answer, answer].concat(), "{reserved:#04x}");
    }
}
