//! Devices: whose word counts, and what is left when one is lost.

use serde_json::json;

use super::testing::*;
use crate::model::{
    Actor, Batch, CallEnd, CallRequest, DeviceLoss, Event, Executor, NewTurn, Op, TurnOutcome,
};
use crate::projection::{Row, rows};
use crate::reject::Reject;
use crate::session::TurnStatus;

fn dev() -> Actor {
    Actor::client("somebody".into()).enrolled(Some("dev".into()))
}

fn other_device() -> Actor {
    Actor::client("somebody".into()).enrolled(Some("other".into()))
}

fn lose_device() -> Op {
    Op::LoseDevice { device: "dev".into(), why: DeviceLoss::Disconnected }
}

/// A running turn `t1` for the device, which was asked for the call `c`.
fn at_work() -> World {
    let mut world = World::opened();
    world.events(&owner(), start(NewTurn { device: Some("dev".into()), ..chat("t1") }));
    world.claim("t1");
    world.events(&worker(), request("t1", asked_of(Executor::Device("dev".into()), question("c"))));
    world
}

#[test]
fn only_the_device_that_is_asked_may_answer() {
    let mut world = at_work();
    assert_eq!(world.refusal(&other_device(), answer("t1", "c")), Reject::NotFound);
    assert_eq!(world.refusal(&stranger(), answer("t1", "c")), Reject::NotFound);
    assert_eq!(world.refusal(&owner(), answer("t1", "c")), Reject::Forbidden, "not even the owner");
    let contributor = contributor().enrolled(Some("other".into()));
    assert_eq!(world.refusal(&contributor, answer("t1", "c")), Reject::Forbidden);
    assert_eq!(names(&world.events(&dev(), answer("t1", "c"))), ["call_ended"]);
    assert_eq!(world.refusal(&dev(), answer("t1", "c")), Reject::CallGone("c".into()));
}

#[test]
fn a_device_may_end_its_own_turn_and_no_other() {
    let mut world = at_work();
    world.events(&owner(), start(parallel("t2")));
    let conclude = |turn: &str| Op::Conclude { turn: turn.into(), end: crate::model::TurnEnd::complete() };
    assert_eq!(world.refusal(&dev(), conclude("t2")), Reject::Forbidden);
    assert_eq!(world.refusal(&dev(), interrupt("t2")), Reject::Forbidden);
    assert_eq!(world.refusal(&other_device(), conclude("t1")), Reject::NotFound);
    assert_eq!(world.refusal(&dev(), start(parallel("t3"))), Reject::Forbidden);
    assert_eq!(names(&world.events(&dev(), conclude("t1"))), ["call_ended", "turn_ended"]);
    assert_eq!(world.refusal(&dev(), conclude("t1")), Reject::NotFound, "nothing is asked of it any more");
}

#[test]
fn a_turn_dies_with_its_device() {
    let mut world = at_work();
    let events = world.events(&Actor::server(), lose_device());
    assert_eq!(names(&events), ["call_ended", "turn_ended"]);
    assert!(matches!(&end_of(&events).outcome, TurnOutcome::Failed(failure)
        if failure.message == "Task was cancelled because target device disconnected"));
    assert!(world.events(&Actor::server(), lose_device()).is_empty());
}

#[test]
fn aip_099_a_turn_whose_device_goes_because_the_server_stops_says_so() {
    let mut world = at_work();
    let lose = Op::LoseDevice { device: "dev".into(), why: DeviceLoss::ServerStops };
    let events = world.events(&Actor::server(), lose);
    assert!(matches!(&end_of(&events).outcome, TurnOutcome::Failed(failure)
        if failure.message == "the server is shutting down"));
}

#[test]
fn aip_097_the_session_that_keeps_profiles_is_not_for_turns() {
    let mut world = World::opened();
    world.events(&owner().enrolled(Some("dev".into())), Op::Join(Box::new(profile("dev"))));
    assert_eq!(world.refusal(&owner(), start(chat("t1"))), Reject::NotFound, "as if there were none");
    world.events(&Actor::server(), lose_device());
    assert_eq!(world.refusal(&owner(), start(chat("t1"))), Reject::NotFound, "also when the device has left");
}

#[test]
fn a_turn_that_only_used_a_device_goes_on_without_it() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", asked_of(Executor::Device("dev".into()), question("c"))));
    world.events(&worker(), add_tools(vec![tool("hammer", Executor::Device("dev".into()))]));
    let events = world.events(&Actor::server(), lose_device());
    assert_eq!(names(&events), ["call_ended", "tools_changed"]);
    assert!(
        matches!(&events[0], Event::CallEnded { end: CallEnd::Failed(error), .. } if error.name == "gone")
    );
    assert_eq!(world.status("t1"), Some(TurnStatus::Running));
}

#[test]
fn after_a_restart_no_device_is_there() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", asked_of(Executor::Device("dev".into()), question("c"))));
    world.events(&owner().enrolled(Some("dev".into())), Op::Join(Box::new(profile("dev"))));
    let events = world.events(&Actor::server(), Op::Recover);
    assert_eq!(names(&events), ["call_ended", "device_left"]);
    assert!(world.session.device(&"dev".into()).unwrap().left_at.is_some());
}

#[test]
fn a_device_speaks_for_itself_alone() {
    let mut world = World::opened();
    let own = owner().enrolled(Some("dev".into()));
    assert_eq!(world.refusal(&owner(), Op::Join(Box::new(profile("dev")))), Reject::Forbidden);
    assert_eq!(world.refusal(&own, Op::Join(Box::new(profile("another")))), Reject::Forbidden);
    let report = || Op::Report { facts: json!({ "cpu_count": 8 }) };
    assert_eq!(world.refusal(&own, report()), Reject::Forbidden, "it has not joined");
    world.events(&own, Op::Join(Box::new(profile("dev"))));
    assert!(world.session.is_live());
    assert_eq!(world.refusal(&owner(), report()), Reject::Forbidden);
    let before = world.session.clone();
    let events = world.events(&own, report());
    assert_eq!(names(&events), ["device_reported"]);
    assert!(world.events(&own, report()).is_empty(), "no news");
    let committed =
        crate::Committed { position: before.head().next(), at: world.now, event: events[0].clone() };
    let [Row::Device(row)] = &rows(&before, &committed)[..] else { panic!("one row") };
    assert_eq!((row.facts.clone(), row.left_at), (json!({ "cpu_count": 8 }), None));
    assert_eq!(names(&world.events(&Actor::server(), lose_device())), ["device_left"]);
    assert!(!world.session.is_live());
    assert_eq!(world.refusal(&own, report()), Reject::Forbidden, "it has left");
}

#[test]
fn the_calls_of_a_batch_are_asked_for_at_once_or_not_at_all() {
    let mut world = World::opened();
    world.run("t1");
    let call = |id: &str| CallRequest {
        batch: Some(Batch { id: "b".into(), size: 2 }),
        options: json!({ "tool_type": "action" }).into(),
        ..asked_of(Executor::Device("dev".into()), question(id))
    };
    let op = |calls| Op::Request { turn: "t1".into(), fence: 1, calls };
    assert!(matches!(world.refusal(&worker(), op(vec![call("c"), call("c")])), Reject::Invalid(_)));
    let events = world.events(&worker(), op(vec![call("c"), call("d")]));
    assert_eq!(names(&events), ["call_requested", "call_requested"]);
    assert!(events.iter().all(|event| event.device() == Some(&"dev".into())));
    assert!(matches!(&events[1], Event::CallRequested { call, .. } if call.options["tool_type"] == "action"));
}
