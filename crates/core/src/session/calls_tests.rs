//! Calls: who may answer, and that each ends once.

use serde_json::json;

use super::testing::*;
use crate::limits::SessionLimits;
use crate::model::{Actor, Batch, CallEnd, CallError, CallRequest, Event, Executor, Op};
use crate::reject::Reject;
use crate::session::TurnStatus;

/// A running turn `t1` that waits for the call `c` of this executor.
fn waiting_for(executor: Executor) -> World {
    let mut world = World::opened();
    world.events(&contributor(), attach("a", 1000));
    world.run("t1");
    world.events(&worker(), request("t1", asked_of(executor, question("c"))));
    world
}

fn gone() -> Reject {
    Reject::CallGone("c".into())
}

#[test]
fn a_turn_waits_until_its_call_is_answered() {
    let mut world = waiting_for(Executor::Anyone);
    assert_eq!(world.status("t1"), Some(TurnStatus::Waiting));
    assert_eq!(names(&world.events(&owner(), progress("t1", "c"))), ["call_progress"]);
    let end = CallEnd::done(json!("yes"));
    assert_eq!(
        world.events(&owner(), answer("t1", "c")),
        [Event::CallEnded { turn: "t1".into(), call: "c".into(), end }]
    );
    assert_eq!(world.status("t1"), Some(TurnStatus::Running));
}

#[test]
fn a_call_may_be_answered_with_an_error() {
    let mut world = waiting_for(Executor::Anyone);
    let end = CallEnd::Failed(CallError::new("denied", "no"));
    assert_eq!(names(&world.events(&owner(), answer_with("t1", "c", end))), ["call_ended"]);
}

#[test]
fn a_call_is_answered_once() {
    let mut world = waiting_for(Executor::Anyone);
    world.events(&owner(), answer("t1", "c"));
    for actor in [owner(), contributor(), Actor::server()] {
        assert_eq!(world.refusal(&actor, answer("t1", "c")), gone());
        assert_eq!(world.refusal(&actor, progress("t1", "c")), gone());
    }
}

#[test]
fn a_call_is_found_only_in_its_turn() {
    let mut world = waiting_for(Executor::Anyone);
    world.events(&owner(), start(parallel("t2")));
    assert_eq!(world.refusal(&owner(), answer("t2", "c")), gone());
    assert_eq!(world.refusal(&owner(), answer("t3", "c")), gone());
    assert_eq!(world.refusal(&owner(), answer("t1", "d")), Reject::CallGone("d".into()));
}

#[test]
fn anyone_who_may_answer_may_answer_a_call_to_anyone() {
    for actor in [owner(), contributor(), device(), Actor::server()] {
        waiting_for(Executor::Anyone).events(&actor, answer("t1", "c"));
    }
    for actor in [observer(), worker()] {
        assert_eq!(waiting_for(Executor::Anyone).refusal(&actor, answer("t1", "c")), Reject::Forbidden);
    }
}

#[test]
fn only_the_principal_asked_may_answer() {
    let executor = Executor::Principal("device".into());
    for actor in [owner(), contributor(), observer(), worker()] {
        let mut world = waiting_for(executor.clone());
        assert_eq!(world.refusal(&actor, answer("t1", "c")), Reject::Forbidden);
        assert_eq!(world.refusal(&actor, progress("t1", "c")), Reject::Forbidden);
    }
    waiting_for(executor).events(&device(), answer("t1", "c"));
}

#[test]
fn only_the_principal_behind_the_attachment_asked_may_answer() {
    let executor = Executor::Attachment("a".into());
    for actor in [owner(), device(), observer(), worker()] {
        assert_eq!(waiting_for(executor.clone()).refusal(&actor, answer("t1", "c")), Reject::Forbidden);
    }
    waiting_for(executor).events(&contributor(), answer("t1", "c"));
}

#[test]
fn only_the_worker_that_holds_the_turn_may_answer_for_the_agent() {
    for actor in [owner(), contributor(), other_worker()] {
        assert_eq!(waiting_for(Executor::Agent).refusal(&actor, answer("t1", "c")), Reject::Forbidden);
    }
    waiting_for(Executor::Agent).events(&worker(), progress("t1", "c"));
    waiting_for(Executor::Agent).events(&worker(), answer("t1", "c"));
}

#[test]
fn only_a_worker_may_say_that_a_call_timed_out_or_was_cancelled() {
    for end in [CallEnd::TimedOut, CallEnd::Cancelled] {
        let refusal = waiting_for(Executor::Anyone).refusal(&owner(), answer_with("t1", "c", end.clone()));
        assert!(matches!(refusal, Reject::Invalid(_)), "{refusal:?}");
        waiting_for(Executor::Agent).events(&worker(), answer_with("t1", "c", end));
    }
}

#[test]
fn a_use_of_a_tool_goes_to_whoever_registered_it() {
    let mut world = World::opened();
    world.register("t");
    world.run("t1");
    let events = world.events(&worker(), request("t1", tool_use("c", "t")));
    let Event::CallRequested { call, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(call.executor, Executor::Principal("owner".into()));
    assert_eq!(
        world.refusal(&worker(), request("t1", tool_use("d", "nope"))),
        Reject::UnknownTool("nope".into())
    );
    world.events(&worker(), request("t1", asked_of(Executor::Agent, tool_use("d", "nope"))));
}

#[test]
fn a_question_to_nobody_in_particular_goes_to_anyone() {
    let mut world = World::opened();
    world.run("t1");
    let events = world.events(&worker(), request("t1", question("c")));
    assert!(matches!(&events[0], Event::CallRequested { call, .. } if call.executor == Executor::Anyone));
}

#[test]
fn a_call_that_nobody_answers_times_out() {
    let mut world = World::opened();
    world.run("t1");
    let deadline = world.ahead(100);
    world.events(&worker(), request("t1", CallRequest { deadline, ..question("c") }));
    world.events(&worker(), request("t1", question("later")));
    assert_eq!(world.session.next_wake(), Some(deadline));
    world.pass(99);
    assert_eq!(world.wake(), []);
    world.pass(1);
    assert_eq!(
        world.wake(),
        [Event::CallEnded { turn: "t1".into(), call: "c".into(), end: CallEnd::TimedOut }]
    );
    assert_eq!(world.refusal(&owner(), answer("t1", "c")), gone());
    world.events(&owner(), answer("t1", "later"));
}

#[test]
fn the_end_of_a_turn_cancels_its_calls() {
    let cancelled = Event::CallEnded { turn: "t1".into(), call: "c".into(), end: CallEnd::Cancelled };
    for actor_and_op in [(worker(), finish("t1", 1)), (owner(), interrupt("t1"))] {
        let mut world = waiting_for(Executor::Anyone);
        let events = world.events(&actor_and_op.0, actor_and_op.1);
        assert_eq!(events[0], cancelled);
        assert_eq!(world.refusal(&owner(), answer("t1", "c")), gone());
    }
    let mut world = waiting_for(Executor::Anyone);
    let events = world.events(&Actor::server(), lose("t1"));
    assert_eq!((&events[0], names(&events)), (&cancelled, vec!["call_ended", "turn_ended"]));
}

#[test]
fn a_call_that_is_late_when_its_attachment_expires_ends_once() {
    let mut world = World::opened();
    world.attach("a", 100);
    world.events(&owner(), start(bound("t1", "a")));
    world.claim("t1");
    let deadline = world.ahead(50);
    world.events(&worker(), request("t1", CallRequest { deadline, ..question("c") }));
    world.events(&owner(), detach("a", 1));
    world.pass(100);
    assert_eq!(names(&world.wake()), ["call_ended", "turn_interrupted", "attachment_closed"]);
}

#[test]
fn open_calls_are_limited() {
    let mut world = World::with_limits(SessionLimits { open_calls: 2, ..limits() });
    world.run("t1");
    world.events(&worker(), request("t1", question("c1")));
    world.events(&worker(), request("t1", question("c2")));
    let limit = Reject::Limit { what: "open_calls" };
    assert_eq!(world.refusal(&worker(), request("t1", question("c3"))), limit);
    world.events(&owner(), answer("t1", "c1"));
    world.events(&worker(), request("t1", question("c3")));
}

#[test]
fn two_open_calls_never_share_a_name() {
    let mut world = waiting_for(Executor::Anyone);
    world.events(&owner(), start(parallel("t2")));
    world.claim("t2");
    for turn in ["t1", "t2"] {
        let refusal = world.refusal(&worker(), request(turn, question("c")));
        assert!(matches!(refusal, Reject::Invalid(_)), "{refusal:?}");
    }
}

#[test]
fn calls_of_a_batch_keep_its_name() {
    let mut world = World::opened();
    world.run("t1");
    let call = CallRequest { batch: Some(Batch { id: "b".into(), size: 1 }), ..question("c") };
    let events = world.events(&worker(), Op::Request { turn: "t1".into(), fence: 1, calls: vec![call] });
    assert!(
        matches!(&events[0], Event::CallRequested { call, .. } if call.batch.as_ref().is_some_and(|batch| &*batch.id == "b"))
    );
}
