//! How turns are interrupted, abandoned, lost and recovered.

use serde_json::json;

use super::testing::*;
use crate::id::PrincipalId;
use crate::limits::SessionLimits;
use crate::model::{Actor, CallEnd, Event, FailureKind, NewTurn, Op, Output, TurnEnd, TurnOutcome};
use crate::reject::Reject;
use crate::session::TurnStatus;

const STOPPED: TurnOutcome = TurnOutcome::Interrupted { abandoned: false };
const ABANDONED: TurnOutcome = TurnOutcome::Interrupted { abandoned: true };

#[test]
fn interrupting_a_queued_or_ready_turn_ends_it_at_once() {
    let mut world = World::opened();
    world.start("t1");
    world.start("t2");
    for turn in ["t2", "t1"] {
        let events = world.interrupt(turn);
        assert_eq!(names(&events), ["turn_interrupted", "turn_ended"]);
        assert_eq!(end_of(&events).outcome, STOPPED);
        assert_eq!(world.status(turn), None);
    }
}

#[test]
fn an_interrupt_says_who_stopped_the_turn_and_why() {
    let mut world = World::opened();
    world.run("t1");
    let op = Op::Interrupt { turn: "t1".into(), reason: Some("enough".into()) };
    let by = Some(PrincipalId::from("contributor"));
    assert_eq!(
        world.events(&contributor(), op),
        [Event::TurnInterrupted { turn: "t1".into(), by, reason: Some("enough".into()) }]
    );
}

#[test]
fn an_interrupt_by_the_server_names_nobody() {
    let mut world = World::opened();
    world.run("t1");
    let events = world.events(&Actor::server(), interrupt("t1"));
    assert!(matches!(&events[0], Event::TurnInterrupted { by: None, .. }));
}

#[test]
fn an_interrupted_turn_takes_nothing_more_but_its_end() {
    let mut world = World::opened();
    world.run("t1");
    world.emit("t1", 1, "hel");
    assert_eq!(names(&world.interrupt("t1")), ["turn_interrupted"]);
    assert_eq!(world.status("t1"), Some(TurnStatus::Stopping));
    let over = Reject::TurnOver("t1".into());
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "lo")), over);
    assert_eq!(world.refusal(&worker(), request("t1", question("c"))), over);
    let end = TurnEnd { output: Some(json!(1).into()), ..TurnEnd::complete() };
    let events = world.events(&worker(), Op::Finish { turn: "t1".into(), fence: 1, end });
    assert_eq!(names(&events), ["turn_ended"]);
    assert_eq!(end_of(&events).outcome, STOPPED, "whatever the executor says");
    assert_eq!(end_of(&events).output, None);
}

#[test]
fn interrupting_a_waiting_turn_cancels_its_calls_first() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", question("c1")));
    world.events(&worker(), request("t1", question("c2")));
    assert_eq!(world.status("t1"), Some(TurnStatus::Waiting));
    let events = world.interrupt("t1");
    assert_eq!(names(&events), ["call_ended", "call_ended", "turn_interrupted"]);
    assert!(matches!(&events[0], Event::CallEnded { end: CallEnd::Cancelled, .. }));
    assert_eq!(names(&world.finish("t1", 1)), ["turn_ended"]);
}

#[test]
fn interrupting_twice_is_harmless() {
    let mut world = World::opened();
    world.run("t1");
    world.interrupt("t1");
    let wake = world.session.next_wake();
    world.pass(10);
    assert_eq!(world.interrupt("t1"), []);
    assert_eq!(world.session.next_wake(), wake, "a second interrupt does not prolong the grace");
}

#[test]
fn interrupting_what_is_over_or_never_was_is_refused() {
    let mut world = World::opened();
    world.run("t1");
    world.finish("t1", 1);
    assert_eq!(world.refusal(&owner(), interrupt("t1")), Reject::TurnOver("t1".into()));
    assert_eq!(world.refusal(&owner(), interrupt("t2")), Reject::UnknownTurn("t2".into()));
}

#[test]
fn an_executor_that_does_not_stop_in_time_is_abandoned() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    world.interrupt("t1");
    assert_eq!(world.session.next_wake(), Some(world.ahead(800)));
    world.pass(799);
    assert_eq!(world.wake(), []);
    world.pass(1);
    assert_eq!(end_of(&world.wake()).outcome, ABANDONED);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    assert_eq!(world.refusal(&worker(), finish("t1", 1)), Reject::TurnOver("t1".into()));
}

#[test]
fn a_stopping_turn_does_not_expire() {
    let mut world = World::opened();
    let deadline = world.ahead(100);
    world.events(&owner(), start(NewTurn { deadline, ..chat("t1") }));
    world.claim("t1");
    world.pass(50);
    world.interrupt("t1");
    world.pass(50);
    assert_eq!(world.wake(), []);
    world.pass(750);
    assert_eq!(end_of(&world.wake()).outcome, ABANDONED);
}

#[test]
fn a_turn_that_lost_its_executor_before_any_output_is_offered_again() {
    let mut world = World::with_limits(SessionLimits { offers: 3, ..limits() });
    world.start("t1");
    for fence in 1..3 {
        world.claim("t1");
        assert_eq!(names(&world.events(&Actor::server(), lose("t1"))), ["turn_released"], "{fence}");
        assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    }
    world.claim("t1");
    let events = world.events(&Actor::server(), lose("t1"));
    let TurnOutcome::Failed(failure) = &end_of(&events).outcome else { panic!("{events:?}") };
    assert_eq!(failure.kind, FailureKind::Unreachable);
}

#[test]
fn a_turn_that_lost_its_executor_after_output_fails() {
    for speak in [true, false] {
        let mut world = World::opened();
        world.run("t1");
        if speak {
            let status = Op::Emit { turn: "t1".into(), fence: 1, output: Output::Status("thinking".into()) };
            world.events(&worker(), status);
        } else {
            world.events(&worker(), request("t1", question("c")));
        }
        let events = world.events(&Actor::server(), lose("t1"));
        let TurnOutcome::Failed(failure) = &end_of(&events).outcome else { panic!("{events:?}") };
        assert_eq!(failure.kind, FailureKind::WorkerLost);
    }
}

#[test]
fn a_turn_whose_agent_can_continue_is_released_with_its_text() {
    let mut world = World::opened();
    world.run("t1");
    world.emit("t1", 1, "hel");
    world.events(&worker(), request("t1", question("c")));
    let events = world.events(&Actor::server(), Op::Lose { turn: "t1".into(), continues: true });
    assert_eq!(names(&events), ["turn_released"]);
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    world.events(&other_worker(), Op::Claim { turn: "t1".into(), relayed: false });
    world.events(&other_worker(), emit("t1", 2, "lo"));
    assert_eq!(world.session.turn(&"t1".into()).unwrap().text, "hello");
}

#[test]
fn a_turn_whose_agent_can_continue_fails_when_it_is_lost_too_often() {
    let mut world = World::with_limits(SessionLimits { offers: 3, ..limits() });
    world.run("t1");
    world.emit("t1", 1, "hel");
    let lose = || Op::Lose { turn: "t1".into(), continues: true };
    for fence in 2..=4 {
        assert_eq!(names(&world.events(&Actor::server(), lose())), ["turn_released"], "{fence}");
        world.claim("t1");
    }
    // Whatever is new shows that it gets on.
    world.emit("t1", 4, "lo");
    for fence in 5..=7 {
        assert_eq!(names(&world.events(&Actor::server(), lose())), ["turn_released"], "{fence}");
        world.claim("t1");
    }
    let events = world.events(&Actor::server(), lose());
    let TurnOutcome::Failed(failure) = &end_of(&events).outcome else { panic!("{events:?}") };
    assert_eq!(failure.kind, FailureKind::WorkerLost);
    assert_eq!(world.status("t1"), None);
}

#[test]
fn a_turn_that_waits_for_somebody_outlives_any_number_of_executors() {
    let mut world = World::with_limits(SessionLimits { offers: 1, ..limits() });
    world.run("t1");
    world.events(&worker(), request("t1", question("c")));
    for fence in 2..10 {
        let lose = Op::Lose { turn: "t1".into(), continues: true };
        assert_eq!(names(&world.events(&Actor::server(), lose)), ["turn_released"], "{fence}");
        world.claim("t1");
    }
}

#[test]
fn a_released_turn_is_still_the_first_of_the_queue() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    assert_eq!(announced(&world.events(&Actor::server(), lose("t1"))), []);
    assert_eq!(world.status("t2"), Some(TurnStatus::Queued(1)));
    let events = world.interrupt("t1");
    assert_eq!(names(&events), ["turn_interrupted", "turn_ended"]);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
}

#[test]
fn losing_an_executor_that_was_being_stopped_ends_the_turn() {
    let mut world = World::opened();
    world.run("t1");
    world.interrupt("t1");
    assert_eq!(end_of(&world.events(&Actor::server(), lose("t1"))).outcome, ABANDONED);
}

#[test]
fn losing_an_executor_that_nobody_had_changes_nothing() {
    let mut world = World::opened();
    world.start("t1");
    assert_eq!(world.events(&Actor::server(), lose("t1")), []);
}

#[test]
fn recovery_detaches_every_attachment_that_was_live() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.attach("b", 1000);
    world.events(&owner(), detach("b", 1));
    world.pass(500);
    let expected = Event::AttachmentDetached { attachment: "a".into(), generation: 1 };
    assert_eq!(world.events(&Actor::server(), Op::Recover), [expected]);
    assert_eq!(world.session.next_wake(), Some(world.ahead(500)), "the window of b goes on");
    assert_eq!(world.events(&Actor::server(), Op::Recover), [], "and once is enough");
}

#[test]
fn recovery_interrupts_turns_that_hung_on_a_bare_transport_only() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), start(bound("anchored", "a")));
    world.events(&owner(), start(bound("adrift", "never opened")));
    world.events(&owner(), start(bound("running", "never opened")));
    world.claim("running");
    world.events(&owner(), start(parallel("free")));
    let events = world.events(&Actor::server(), Op::Recover);
    assert_eq!(names(&events), ["attachment_detached", "turn_interrupted", "turn_ended", "turn_interrupted"]);
    assert_eq!(world.status("anchored"), Some(TurnStatus::Ready));
    assert_eq!(world.status("adrift"), None);
    assert_eq!(world.status("running"), Some(TurnStatus::Stopping));
    assert_eq!(world.status("free"), Some(TurnStatus::Ready));
}

#[test]
fn recovery_moves_the_queue_up() {
    let mut world = World::opened();
    let adrift = NewTurn { serial: true, ..bound("t1", "never opened") };
    world.events(&owner(), start(adrift));
    world.start("t2");
    world.start("t3");
    assert_eq!(announced(&world.events(&Actor::server(), Op::Recover)), [("t3", 1)]);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
}

#[test]
fn what_is_done_only_once_has_failed_with_its_executor() {
    for (said, continues) in [("", false), ("", true), ("half", true)] {
        let mut world = World::opened();
        world.events(&owner(), start(NewTurn { once: true, setting: None, ..chat("t1") }));
        world.claim("t1");
        if !said.is_empty() {
            world.emit("t1", 1, said);
        }
        let events = world.events(&Actor::server(), Op::Lose { turn: "t1".into(), continues });
        assert_eq!(names(&events), ["turn_ended"], "{said:?} {continues}");
    }
}
