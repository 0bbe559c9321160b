//! Devices in the world: who is reached by name, what is asked of whom, and what a loss leads to.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

mod puppet;

use puppet::{Heard, ID, Puppet, Stage};
use serde_json::{Value, json};
use switchboard_core::model::{
    CallEnd, CallError, CallKind, Device, DeviceLoss, NewTurn, Origin, Part, Place, TurnEnd, TurnOutcome,
    TurnRequest,
};
use switchboard_core::{
    CallId, Close, CloseReason, Enrolment, Event, Frame, Head, Op, OpeningRequest, Output, Pii, Position,
    Principal, Refusal, Reject, Reply, Role, Scopes, SessionId, Signal, Timestamp, ToolName,
};
use switchboard_testkit::{BatchCommand, CrashPoint, Order, Recovery, Script, Settings, Step, World};

fn ann() -> Principal {
    Principal::new("ann")
}

/// Somebody who may give work to devices of others.
fn bob() -> Principal {
    Principal { scopes: Scopes::parse("connect invoke constellation:boss target:*"), ..Principal::new("bob") }
}

fn enrol(callsign: &str, role: Role, target: Option<&str>) -> Output {
    Output::Enrol(ID, Enrolment { callsign: callsign.into(), role, target: target.map(Into::into) })
}

fn device(world: &mut World, callsign: &str) -> Puppet {
    let puppet = Puppet::new(world, ann());
    assert_eq!(puppet.asks(world, enrol(callsign, Role::Device, None)), Ok(Reply::Enrolled));
    puppet
}

/// Bob, with an open session of his own.
fn orchestrator(world: &mut World) -> Puppet {
    let puppet = Puppet::new(world, bob());
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    puppet.asks(world, Output::Submit(ID, session(), open)).unwrap();
    puppet
}

fn session() -> SessionId {
    "s".into()
}

fn start(turn: &str, input: &str, device: &str) -> Output {
    let origin = Origin {
        principal: "nobody".into(),
        protocol: "test".into(),
        attachment: None,
        handle: None,
        bound: false,
        options: Value::Null,
    };
    let turn = NewTurn {
        turn: turn.into(),
        request: TurnRequest::Chat { parts: vec![Part::Text(input.into())] },
        agent: None,
        device: Some(device.into()),
        origin,
        place: Place::default(),
        history: None,
        workspace: None,
        serial: false,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        key: None,
        meta: Value::Null,
    };
    Output::Submit(ID, session(), Op::StartTurn(Box::new(turn)))
}

fn two_batches() -> Vec<Step> {
    let click = BatchCommand::new("click", json!({ "x": 1 })).with_options(json!({ "tool_type": "action" }));
    vec![
        Step::Batch { commands: vec![click.clone(), BatchCommand::new("type", json!({}))], timeout_ms: 1000 },
        Step::Results,
        Step::Wait(100),
        Step::Batch { commands: vec![click], timeout_ms: 1000 },
        Step::EndWithResults { result: Some(json!("fine")), error: None },
    ]
}

fn planner() -> Script {
    Script::new().on("work", two_batches()).on("wait", vec![Step::Hang])
}

fn world() -> World {
    let mut world = World::new();
    world.set_default_agent("planner", planner());
    world
}

/// Follows the session from its beginning.
fn attach() -> Output {
    Output::Attach(ID, session(), Some(Position { epoch: 1, seq: 0 }))
}

/// The calls that wait for an answer, in order, with the tool's name.
fn open_calls(world: &World, turn: &str) -> Vec<(ToolName, CallId)> {
    let Some(turn) = world.session(&session()).and_then(|session| session.turn(&turn.into())) else {
        return Vec::new();
    };
    let requested = world.log(&session()).iter().filter_map(|committed| match &committed.event {
        Event::CallRequested { call, .. } if turn.calls.contains_key(&call.id) => match &call.kind {
            CallKind::Tool { name, .. } => Some((name.clone(), call.id.clone())),
            CallKind::Question { .. } => None,
        },
        _ => None,
    });
    requested.collect()
}

fn answer(world: &mut World, device: &Puppet, turn: &str, end: &CallEnd) {
    for (_, call) in open_calls(world, turn) {
        let op = Op::Answer { turn: turn.into(), call, end: end.clone() };
        device.asks(world, Output::Submit(ID, session(), op)).unwrap();
    }
}

fn end_of(world: &World, turn: &str) -> Option<TurnEnd> {
    world.log(&session()).iter().find_map(|committed| match &committed.event {
        Event::TurnEnded { turn: ended, end } if ended.as_str() == turn => Some((**end).clone()),
        _ => None,
    })
}

fn failure_of(world: &World, turn: &str) -> Option<String> {
    match end_of(world, turn)?.outcome {
        TurnOutcome::Failed(failure) => Some(failure.message),
        _ => None,
    }
}

const LOST: &str = "Task was cancelled because target device disconnected";

#[test]
fn a_name_is_held_by_one_connection_for_as_long_as_it_lives() {
    let mut world = world();
    let first = device(&mut world, "dev");
    let (second, stranger) = (Puppet::new(&mut world, ann()), Puppet::new(&mut world, Principal::new("eve")));
    let taken = || Err(Reject::Enrolled("dev".into()));
    assert_eq!(stranger.asks(&mut world, enrol("dev", Role::Device, None)), taken());
    assert_eq!(first.signals(), [], "a stranger contests nothing");
    assert_eq!(second.asks(&mut world, enrol("dev", Role::Device, None)), taken());
    assert_eq!(first.signals(), [Signal::Contested]);
    assert_eq!(first.asks(&mut world, enrol("another", Role::Device, None)), taken(), "one name each");
    assert_eq!(world.callsign(first.peer), Some(&"dev".into()));
    world.cut(first.peer);
    assert_eq!(world.callsign(first.peer), None);
    assert_eq!(second.asks(&mut world, enrol("dev", Role::Device, None)), Ok(Reply::Enrolled));
    world.restart();
    assert_eq!(world.enrolled(&ann()), []);
}

#[test]
fn words_reach_whoever_may_be_seen() {
    let mut world = world();
    let dev = device(&mut world, "dev");
    let boss = Puppet::new(&mut world, bob());
    let note = |to: &str| Output::Note(ID, to.into(), json!({ "to": to }));
    assert_eq!(boss.asks(&mut world, enrol("boss", Role::Orchestrator, Some("dev"))), Ok(Reply::Enrolled));
    assert_eq!(boss.asks(&mut world, note("dev")), Ok(Reply::Noted));
    let word = |from: &str, to: &str| Signal::Note { from: from.into(), body: json!({ "to": to }) };
    assert_eq!(dev.signals(), [word("bob", "dev")]);
    assert_eq!(dev.asks(&mut world, note("boss")), Ok(Reply::Noted), "the device answers");
    assert_eq!(boss.signals(), [word("ann", "boss")]);
    assert_eq!(boss.asks(&mut world, note("nobody")), Err(Reject::Offline("nobody".into())));
    let eve = Puppet::new(&mut world, Principal::new("eve"));
    assert_eq!(eve.asks(&mut world, note("dev")), Err(Reject::Offline("dev".into())));
    assert_eq!(eve.asks(&mut world, Output::Roll(ID)), Ok(Reply::Roll(Vec::new())));
    let Ok(Reply::Roll(list)) = boss.asks(&mut world, Output::Roll(ID)) else { panic!("a roll") };
    assert_eq!(list.iter().map(|entry| entry.callsign.as_str()).collect::<Vec<_>>(), ["dev", "boss"]);
    assert_eq!(list[0].since, world.now());
}

#[test]
fn a_device_is_invited_to_what_is_asked_of_it_and_answers_batch_by_batch() {
    for order in [Order::Fixed, Order::Seeded(1), Order::Seeded(2), Order::Seeded(3)] {
        let mut world = World::with(Settings { order, ..Settings::default() });
        world.set_default_agent("planner", planner());
        let (dev, other) = (device(&mut world, "dev"), device(&mut world, "other"));
        let boss = orchestrator(&mut world);
        boss.asks(&mut world, start("t1", "work", "dev")).unwrap();
        let [Signal::Invited { session: invited, after }] = &dev.signals()[..] else { panic!("invited") };
        let first = &world.log(&session())[usize::try_from(after.seq).unwrap()];
        assert_eq!((invited, first.event.name()), (&session(), "turn_accepted"));
        assert_eq!(other.signals(), []);
        assert_eq!(other.asks(&mut world, attach()), Err(Reject::NotFound));
        let attach = Output::Attach(ID, session(), Some(*after));
        assert!(matches!(dev.asks(&mut world, attach), Ok(Reply::Attached(_))));
        let tools: Vec<_> = open_calls(&world, "t1").into_iter().map(|(tool, _)| tool).collect();
        assert_eq!(tools, ["click".into(), "type".into()]);
        let (_, call) = open_calls(&world, "t1").remove(0);
        let meddle = Op::Answer { turn: "t1".into(), call, end: CallEnd::done(json!(0)) };
        assert!(other.asks(&mut world, Output::Submit(ID, session(), meddle)).is_err());
        answer(&mut world, &dev, "t1", &CallEnd::done(json!("ok")));
        world.advance(100);
        assert_eq!(dev.signals(), [], "it follows the session");
        let skipped = CallError { detail: json!({ "namespace": "n" }), ..CallError::new("skipped", "late") };
        answer(&mut world, &dev, "t1", &CallEnd::Failed(skipped));
        let end = end_of(&world, "t1").unwrap();
        assert_eq!(end.outcome, TurnEnd::complete().outcome);
        let output = end.output.unwrap();
        assert_eq!(output["result"], "fine");
        assert_eq!(output["turns"][0][1]["status"], "success");
        assert_eq!(output["turns"][0][1]["result"], "ok");
        let last = &output["turns"][1][0];
        assert_eq!([&last["status"], &last["error"], &last["namespace"]], ["skipped", "late", "n"]);
        assert_eq!(world.check_replay(), Ok(()));
    }
}

#[test]
fn the_calls_of_a_batch_say_so() {
    let mut world = world();
    let _dev = device(&mut world, "dev");
    orchestrator(&mut world).asks(&mut world, start("t1", "work", "dev")).unwrap();
    let calls = world.log(&session()).iter().filter_map(|committed| match &committed.event {
        Event::CallRequested { call, .. } => Some(call),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.batch == calls[0].batch));
    assert_eq!(calls[0].batch.as_ref().unwrap().size, 2);
    assert_eq!(calls[0].options, json!({ "tool_type": "action" }).into());
    world.advance(1000);
    let [results] = &world
        .log(&session())
        .iter()
        .filter_map(|committed| match &committed.event {
            Event::TurnOutput { output: switchboard_core::model::Output::Data { value, .. }, .. } => {
                Some(value.clone())
            }
            _ => None,
        })
        .collect::<Vec<_>>()[..]
    else {
        panic!("one list of results")
    };
    assert_eq!(results.as_array().unwrap().len(), 2);
    assert_eq!(results[0]["status"], "failure", "nobody answered in time");
}

#[test]
fn a_planner_stops_at_a_failure_if_it_is_told_to() {
    let mut world = world();
    let batch = || Step::Batch { commands: vec![BatchCommand::new("a", Value::Null)], timeout_ms: 1000 };
    let steps = vec![batch(), Step::FailIfFailed("stopped".into()), batch(), Step::FailIfFailed("no".into())];
    let raise = Step::EndWithResults { result: None, error: Some("raised".into()) };
    let script = Script::new().on("strict", steps).on("raise", vec![raise]);
    world.set_default_agent("planner", script);
    let (dev, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
    boss.asks(&mut world, start("t1", "strict", "dev")).unwrap();
    answer(&mut world, &dev, "t1", &CallEnd::done(Value::Null));
    answer(&mut world, &dev, "t1", &CallEnd::Failed(CallError::new("failure", "broken")));
    assert_eq!(failure_of(&world, "t1").as_deref(), Some("no"));
    let output = end_of(&world, "t1").unwrap().output.unwrap();
    assert_eq!(output["turns"][1][0]["error"], "broken");
    boss.asks(&mut world, start("t2", "raise", "dev")).unwrap();
    assert_eq!(failure_of(&world, "t2").as_deref(), Some("raised"));
}

#[test]
fn work_for_a_device_out_of_reach_is_refused() {
    let mut world = world();
    let boss = orchestrator(&mut world);
    let offline = || Err(Reject::Offline("dev".into()));
    assert_eq!(boss.asks(&mut world, start("t1", "work", "dev")), offline());
    let dev = device(&mut world, "dev");
    let eve = Puppet::new(&mut world, Principal::new("eve"));
    assert_eq!(
        eve.asks(&mut world, start("t1", "work", "dev")),
        offline(),
        "before the session is looked at"
    );
    let lose =
        Output::Submit(ID, session(), Op::LoseDevice { device: "dev".into(), why: DeviceLoss::Disconnected });
    assert_eq!(boss.asks(&mut world, lose), Err(Reject::Forbidden));
    assert!(boss.asks(&mut world, start("t1", "wait", "dev")).is_ok());
    let refused = Puppet::new(&mut world, bob());
    let target = enrol("boss", Role::Orchestrator, Some("gone"));
    assert_eq!(refused.asks(&mut world, target), Err(Reject::Offline("gone".into())));
    // Its own connection reaches a device that nobody else may give work to.
    let own = SessionId::from("own");
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    dev.asks(&mut world, Output::Submit(ID, own.clone(), open)).unwrap();
    let Output::Submit(_, _, op) = start("t2", "wait", "dev") else { panic!("an op") };
    assert!(matches!(dev.asks(&mut world, Output::Submit(ID, own, op)), Ok(Reply::Turn { .. })));
}

#[test]
fn sessions_hear_of_a_lost_device_however_it_went() {
    let ways: [fn(&mut World, &Puppet); 4] = [
        |world, dev| world.cut(dev.peer),
        |world, dev| world.close(dev.peer, Some(1000)),
        |world, dev| world.evict(dev.peer, CloseReason::TooSlow),
        |world, dev| {
            dev.does(world, [Output::Close(Close { code: 1008, reason: "" })]);
        },
    ];
    for lose in ways {
        let mut world = world();
        let (dev, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
        boss.asks(&mut world, start("t1", "work", "dev")).unwrap();
        lose(&mut world, &dev);
        assert!(!world.is_open(dev.peer));
        assert_eq!(failure_of(&world, "t1").as_deref(), Some(LOST));
        assert_eq!(world.enrolled(&ann()), []);
    }
}

#[test]
fn the_loss_of_a_device_is_not_forgotten_with_a_log_that_refuses() {
    let mut world = world();
    let (dev, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
    boss.asks(&mut world, start("t1", "wait", "dev")).unwrap();
    world.fail_appends(2);
    world.cut(dev.peer);
    assert_eq!(end_of(&world, "t1"), None);
    world.advance(1000);
    assert_eq!(failure_of(&world, "t1").as_deref(), Some(LOST));
}

#[test]
fn a_session_that_keeps_a_profile_hears_of_the_loss() {
    let mut world = world();
    let dev = device(&mut world, "dev");
    let home = SessionId::from("home");
    let profile = Device {
        callsign: "dev".into(),
        protocol: "test".into(),
        platform: "linux".into(),
        facts: Value::Null,
        profile: Value::Null,
    };
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    let report = Op::Report { facts: json!({ "cpu_count": 8 }) };
    for op in [open, Op::Join(Box::new(profile)), report] {
        dev.asks(&mut world, Output::Submit(ID, home.clone(), op)).unwrap();
    }
    assert_eq!(dev.signals(), [], "it knows of its own home");
    world.cut(dev.peer);
    let names: Vec<_> = world.log(&home).iter().map(|committed| committed.event.name()).collect();
    assert_eq!(names, ["session_opened", "device_joined", "device_reported", "device_left"]);
}

#[test]
fn a_device_that_left_a_session_is_invited_again() {
    let mut world = world();
    let (dev, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
    boss.asks(&mut world, start("t1", "wait", "dev")).unwrap();
    assert_eq!(dev.signals().len(), 1);
    dev.does(&mut world, [attach()]);
    boss.asks(&mut world, start("t2", "wait", "dev")).unwrap();
    assert_eq!(dev.events().last(), Some(&"turn_started"));
    dev.does(&mut world, [Output::Detach(session())]);
    boss.asks(&mut world, start("t3", "wait", "dev")).unwrap();
    assert!(matches!(dev.heard()[..], [Heard::Signal(Signal::Invited { .. })]));
}

#[test]
fn a_device_that_is_gone_when_it_is_asked_fails_the_turn() {
    let mut world = world();
    let story = vec![Step::Wait(100), two_batches().remove(0)];
    world.set_default_agent("planner", Script::new().on("work", story).recovering(Recovery::Replay));
    let (_, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
    boss.asks(&mut world, start("t1", "work", "dev")).unwrap();
    world.crash();
    world.restart();
    assert_eq!(end_of(&world, "t1"), None, "nothing is asked of it yet");
    world.advance(100);
    assert_eq!(failure_of(&world, "t1").as_deref(), Some(LOST));
}

#[test]
fn a_plan_goes_on_after_a_crash_and_repeats_no_command() {
    for point in [None, Some(CrashPoint::BeforeAppend), Some(CrashPoint::AfterAppend)] {
        let mut world = world();
        world.set_default_agent("planner", planner().recovering(Recovery::Replay));
        let (dev, boss) = (device(&mut world, "dev"), orchestrator(&mut world));
        boss.asks(&mut world, start("t1", "work", "dev")).unwrap();
        answer(&mut world, &dev, "t1", &CallEnd::done(json!(1)));
        match point {
            None => world.crash(),
            Some(point) => {
                world.crash_at(point, Some("call_requested"));
                world.advance(100);
            }
        }
        assert!(world.is_down());
        world.restart();
        let dev = device(&mut world, "dev");
        world.advance(100);
        if point == Some(CrashPoint::AfterAppend) {
            assert_eq!(dev.signals(), [], "what was asked before the crash failed with it");
        } else {
            assert_eq!(dev.signals().len(), 1, "{point:?}");
            answer(&mut world, &dev, "t1", &CallEnd::done(json!(2)));
        }
        let output = end_of(&world, "t1").unwrap().output.unwrap();
        assert_eq!(output["turns"][0][0]["result"], 1);
        let last = &output["turns"][1][0];
        match point {
            Some(CrashPoint::AfterAppend) => assert_eq!(last["status"], "failure"),
            _ => assert_eq!(last["result"], 2),
        }
        assert_eq!(world.check_replay(), Ok(()));
    }
}

#[test]
fn answers_come_before_signals_of_what_they_led_to() {
    let mut world = world();
    let dev = device(&mut world, "dev");
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    dev.will_do(&mut world, [Output::Submit(ID, session(), open), start("t1", "wait", "dev")]);
    world.settle();
    let heard = dev.heard();
    assert!(matches!(
        heard[..],
        [
            Heard::Done(Reply::Applied { .. }),
            Heard::Done(Reply::Turn { .. }),
            Heard::Signal(Signal::Invited { after: Position { seq: 2, .. }, .. })
        ]
    ));
}

#[test]
fn an_exchange_is_answered_by_what_is_sent_until_rest() {
    let mut world = world();
    world.issue("key", ann());
    let stage = Stage::default();
    let request = OpeningRequest {
        path: "/open",
        authorization: Some(Pii("key".to_owned())),
        ..OpeningRequest::default()
    };
    let head = Head { status: 200, headers: vec![("content-type", "text/plain".to_owned())] };
    stage.0.lock().unwrap().todo.extend([
        Output::Send(Frame::Head(Box::new(head.clone()))),
        Output::Send(Frame::Text("one ".into())),
        Output::Send(Frame::Binary("two".into())),
        Output::Close(Close { code: 1000, reason: "" }),
    ]);
    assert_eq!(world.exchange(&stage, &request, b"{}"), Ok((head, "one two".to_owned())));
    let closed = OpeningRequest { path: "/closed", ..request.clone() };
    assert_eq!(world.exchange(&stage, &closed, b""), Err(Refusal::WrongMethod));
    let unknown = OpeningRequest { authorization: None, ..request };
    assert_eq!(world.exchange(&stage, &unknown, b""), Err(Refusal::CredentialMissing));
}
