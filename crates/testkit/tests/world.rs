//! The world itself: the rules that every other test relies on.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

use switchboard_asp::{Asp, AspLimits, Opcode};
use switchboard_core::model::TurnOutcome;
use switchboard_core::{Event, Frame, Principal, SessionId};
use switchboard_testkit::{
    CrashPoint, Order, PeerId, Received, Recovery, Script, Settings, Step, World, opening,
};

fn asp() -> Asp {
    Asp::new(AspLimits::default())
}

fn ann() -> Principal {
    Principal::new("ann")
}

fn frame(opcode: Opcode, id: u16, payload: &[u8]) -> Frame {
    let mut out = bytes::BytesMut::new();
    switchboard_asp::Frame::new(opcode, id, payload.to_vec()).encode(&mut out).unwrap();
    Frame::Binary(out.freeze())
}

/// The text of a bare stream.
fn text(received: &[Received]) -> String {
    let payloads = received.iter().filter_map(|received| match received {
        Received::Frame(Frame::Binary(bytes)) if bytes[0] == 0x13 => {
            Some(String::from_utf8(bytes[8..].to_vec()).unwrap())
        }
        _ => None,
    });
    payloads.collect()
}

fn ends(world: &World) -> Vec<TurnOutcome> {
    let ends = world.history().iter().filter_map(|(_, committed)| match &committed.event {
        Event::TurnEnded { end, .. } => Some(end.outcome.clone()),
        _ => None,
    });
    ends.collect()
}

fn script() -> Script {
    Script::new().on(
        "count",
        vec![
            Step::Repeat { times: 5, every: 100, steps: vec![Step::Text("x".into())] },
            Step::Text("!".into()),
        ],
    )
}

fn counting(recovery: Recovery) -> (World, PeerId) {
    let mut world = World::new();
    world.set_default_agent("demo", script().recovering(recovery));
    let peer = world.connect(&asp(), ann(), opening());
    (world, peer)
}

#[test]
fn time_moves_only_when_told_to() {
    let (mut world, peer) = counting(Recovery::Fail);
    world.send(peer, frame(Opcode::Invoke, 1, b"count"));
    assert_eq!(text(&world.take(peer)), "x");
    world.advance(99);
    assert_eq!(world.take(peer), []);
    world.advance(1);
    assert_eq!(text(&world.take(peer)), "x");
    world.advance(1000);
    assert_eq!(text(&world.take(peer)), "xxx!");
    assert_eq!(world.check_replay(), Ok(()));
}

#[test]
fn what_is_on_the_way_is_lost_with_a_transport_that_nobody_reads() {
    let (mut world, peer) = counting(Recovery::Fail);
    world.send(peer, frame(Opcode::Invoke, 1, b"count"));
    assert_eq!(text(&world.take(peer)), "x");
    world.stall(peer);
    world.advance(100);
    assert!(world.backlog(peer) > 0);
    world.cut(peer);
    assert_eq!(world.take(peer), [Received::Lost]);
    assert!(!world.is_open(peer));
    assert_eq!(
        ends(&world),
        [TurnOutcome::Interrupted { abandoned: false }],
        "a bare client takes its turns along"
    );
}

/// Starts a turn that hangs on no connection.
fn free_turn(world: &mut World, input: &str) -> SessionId {
    use switchboard_core::model::{NewTurn, Origin, Part, Place, TurnRequest};
    use switchboard_core::{Actor, Op, Timestamp};
    let session = SessionId::from("s");
    let actor = Actor::client("ann".into());
    let open = Op::Open { epoch: 1, agent: "demo".into(), name: None };
    world.ask(&session, actor.clone(), open).unwrap();
    let turn = NewTurn {
        turn: "t".into(),
        request: TurnRequest::Chat { parts: vec![Part::Text(input.into())] },
        agent: None,
        device: None,
        origin: Origin {
            principal: "ann".into(),
            protocol: "test".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: serde_json::Value::Null,
        },
        place: Place::default(),
        history: None,
        workspace: None,
        serial: true,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        key: None,
        meta: serde_json::Value::Null,
    };
    world.ask(&session, actor, Op::StartTurn(Box::new(turn))).unwrap();
    session
}

fn answer(world: &World) -> String {
    let outputs = world.history().iter().filter_map(|(_, committed)| match &committed.event {
        Event::TurnOutput { output: switchboard_core::model::Output::Text(text), .. } => Some(text.as_str()),
        _ => None,
    });
    outputs.collect()
}

#[test]
fn a_crash_loses_nothing_and_repeats_nothing_with_an_agent_that_replays() {
    for point in [None, Some(CrashPoint::BeforeAppend), Some(CrashPoint::AfterAppend)] {
        let (mut world, _) = counting(Recovery::Replay);
        free_turn(&mut world, "count");
        world.advance(150);
        match point {
            None => world.crash(),
            Some(point) => {
                world.crash_at(point, Some("turn_output"));
                world.advance(100);
            }
        }
        assert!(world.is_down());
        world.restart();
        world.advance(1000);
        assert_eq!(answer(&world), "xxxxx!", "{point:?}");
        assert_eq!(ends(&world).len(), 1, "{point:?}");
        assert_eq!(world.check_replay(), Ok(()));
    }
}

#[test]
fn a_crash_after_output_fails_the_turn_of_any_other_agent() {
    let (mut world, _) = counting(Recovery::Fail);
    free_turn(&mut world, "count");
    world.advance(150);
    world.crash();
    world.restart();
    world.advance(1000);
    assert_eq!(answer(&world), "xx");
    assert!(matches!(ends(&world).as_slice(), [TurnOutcome::Failed(_)]));
}

#[test]
fn a_log_that_refuses_costs_time_and_no_output() {
    let (mut world, peer) = counting(Recovery::Fail);
    world.send(peer, frame(Opcode::Invoke, 1, b"count"));
    world.fail_appends(2);
    world.advance(2000);
    assert_eq!(text(&world.take(peer)), "xxxxx!");
}

#[test]
fn a_log_that_refuses_does_not_make_a_client_that_left_come_back() {
    use switchboard_core::{Actor, Op};
    let (mut world, _) = counting(Recovery::Fail);
    let (session, actor) = (SessionId::from("s"), Actor::client("ann".into()));
    let attachment = || "a".into();
    for op in [
        Op::Open { epoch: 1, agent: "demo".into(), name: None },
        Op::OpenAttachment { attachment: attachment(), generation: 1, secret: None, window_ms: 60_000 },
    ] {
        world.ask(&session, actor.clone(), op).unwrap();
    }
    let mut fails_once = |op| {
        world.fail_appends(1);
        assert!(world.ask(&session, actor.clone(), op).is_err(), "not answered yet");
        world.advance(1000);
        world.log(&session).last().unwrap().event.name()
    };
    let admit = Op::Admit { principal: "bob".into(), role: Some(switchboard_core::Role::Observer) };
    assert_eq!(fails_once(admit), "attachment_opened", "whoever asked may ask again");
    assert_eq!(fails_once(Op::Detach { attachment: attachment(), generation: 1 }), "attachment_detached");
    let close = Op::CloseAttachment { attachment: attachment(), generation: 1 };
    assert_eq!(fails_once(close), "attachment_closed");
}

#[test]
fn a_conflict_is_decided_again_on_what_is_true_now() {
    use switchboard_core::model::ToolChange;
    use switchboard_core::{Actor, Op};
    let (mut world, _) = counting(Recovery::Fail);
    let session = free_turn(&mut world, "count");
    let tool =
        switchboard_testkit::ToolSpec { name: "t".into(), description: String::new(), input_schema: None };
    let change = ToolChange { add: vec![tool.tool()], remove: vec![], turn: None };
    world.write_behind(&session, &Actor::server(), &Op::ChangeTools(change)).unwrap();
    world.advance(2000);
    assert_eq!(answer(&world), "xxxxx!");
    assert_eq!(world.session(&session).unwrap().tools().count(), 1);
    assert_eq!(world.check_replay(), Ok(()));
}

#[test]
fn the_same_seed_leads_to_the_same_history() {
    let run = |seed| {
        let mut world = World::with(Settings { order: Order::Seeded(seed), ..Settings::default() });
        world.set_default_agent("demo", script());
        let peers: Vec<_> = (0..4).map(|_| world.connect(&asp(), ann(), opening())).collect();
        for peer in &peers {
            for id in 1..4 {
                world.enqueue(*peer, frame(Opcode::Invoke, id, b"count"));
            }
        }
        world.advance(3000);
        assert_eq!(world.check_replay(), Ok(()));
        assert_eq!(ends(&world).len(), 12);
        for peer in peers {
            assert_eq!(text(&world.take(peer)).len(), 18);
        }
        world
            .history()
            .iter()
            .map(|(session, committed)| (session.clone(), committed.event.name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn an_interrupt_that_is_not_noticed_is_followed_by_an_abandoned_end() {
    let mut world = World::new();
    let stubborn = Script::new().on("work", vec![Step::Text("a".into()), Step::Deaf, Step::Hang]);
    world.set_default_agent("demo", stubborn);
    let peer = world.connect(&asp(), ann(), opening());
    world.send(peer, frame(Opcode::Invoke, 1, b"work"));
    world.send(peer, frame(Opcode::Interrupt, 1, b""));
    world.advance(799);
    assert_eq!(ends(&world), []);
    world.advance(1);
    assert_eq!(ends(&world), [TurnOutcome::Interrupted { abandoned: true }]);
}
