//! Turns that their client holds back.

use super::testing::*;
use crate::model::{Event, NewTurn, Op, TurnOutcome};
use crate::reject::Reject;
use crate::session::TurnStatus;
use crate::time::Timestamp;

fn held(turn: &str, attachment: &str) -> NewTurn {
    NewTurn { held: true, ..bound(turn, attachment) }
}

fn release(turn: &str) -> Op {
    Op::Release { turn: turn.into(), deadline: Timestamp::NEVER }
}

#[test]
fn a_turn_that_is_held_back_begins_when_its_client_says_so() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let deadline = world.ahead(50);
    let accepted = world.events(&owner(), start(NewTurn { deadline, ..held("t1", "a") }));
    assert_eq!(names(&accepted), ["turn_accepted"]);
    assert_eq!(world.status("t1"), Some(TurnStatus::Held));
    assert!(world.ask(&worker(), Op::Claim { turn: "t1".into(), relayed: false }).is_err());
    assert_eq!(world.refusal(&contributor(), release("t1")), Reject::Forbidden);
    let released = world.events(&owner(), release("t1"));
    assert_eq!(released, [Event::TurnReleased { turn: "t1".into(), deadline: Some(Timestamp::NEVER) }]);
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    world.pass(100);
    assert_eq!(world.wake(), [], "its time began with its release");
    assert_eq!(world.events(&owner(), release("t1")), [], "it is released already");
    world.claim("t1");
    assert_eq!(world.status("t1"), Some(TurnStatus::Running));
}

#[test]
fn turns_that_are_held_back_neither_wait_for_others_nor_make_them_wait() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), start(held("t1", "a")));
    assert_eq!(announced(&world.start("t2")), []);
    assert_eq!(announced(&world.start("t3")), [("t3", 1)]);
    world.events(&owner(), release("t1"));
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    assert_eq!(world.status("t3"), Some(TurnStatus::Queued(1)));
}

#[test]
fn when_their_client_is_gone_they_run_one_after_another() {
    let mut world = World::opened();
    for attachment in ["a", "b", "c"] {
        world.attach(attachment, 1000);
    }
    world.events(&owner(), start(bound("t1", "a")));
    world.events(&owner(), start(held("t2", "b")));
    world.events(&owner(), start(held("t3", "c")));
    let gone = world.events(&owner(), detach("b", 1));
    assert_eq!(names(&gone), ["attachment_detached", "turn_released"]);
    let gone = world.events(&owner(), detach("c", 1));
    assert_eq!(
        (names(&gone), announced(&gone)),
        (vec!["attachment_detached", "turn_queued"], vec![("t3", 1)])
    );
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    world.claim("t2");
    world.finish("t2", 1);
    assert_eq!(world.status("t3"), Some(TurnStatus::Ready));
}

#[test]
fn behind_whoever_runs_already_they_take_the_places_of_their_acceptance() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), start(held("t1", "a")));
    world.run("t2");
    world.start("t3");
    let gone = world.events(&owner(), detach("a", 1));
    assert_eq!(announced(&gone), [("t1", 1), ("t3", 2)]);
    assert_eq!(announced(&world.interrupt("t3")), []);
    assert_eq!(world.status("t1"), Some(TurnStatus::Queued(1)), "another one still runs");
    world.finish("t2", 1);
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
}

#[test]
fn a_restart_releases_them_as_a_lost_client_does() {
    let mut world = World::opened();
    for attachment in ["a", "b"] {
        world.attach(attachment, 1000);
    }
    world.events(&owner(), start(held("t1", "a")));
    world.events(&owner(), start(held("t2", "b")));
    let mut alone = held("t3", "a");
    alone.origin.attachment = None;
    world.events(&owner(), start(alone));
    let events = world.events(&crate::model::Actor::server(), Op::Recover);
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    assert_eq!(world.status("t2"), Some(TurnStatus::Queued(1)));
    assert_eq!(world.status("t3"), None, "nobody can come back for it");
    assert!(matches!(end_of(&events).outcome, TurnOutcome::Interrupted { .. }));
}

#[test]
fn stopped_or_abandoned_they_never_begin() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), start(held("t1", "a")));
    assert_eq!(names(&world.interrupt("t1")), ["turn_interrupted", "turn_ended"]);
    assert!(matches!(world.refusal(&owner(), release("t1")), Reject::TurnOver(_)));
    world.events(&owner(), start(held("t2", "a")));
    let closed = world.events(&owner(), close("a", 1));
    assert_eq!(names(&closed), ["turn_interrupted", "turn_ended", "attachment_closed"]);
}

#[test]
fn what_nobody_could_release_is_refused() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let mut loose = held("t1", "a");
    loose.origin.bound = false;
    assert_eq!(world.refusal(&owner(), start(loose)), Reject::AttachmentGone);
    assert_eq!(world.refusal(&owner(), start(held("t1", "never opened"))), Reject::AttachmentGone);
    world.events(&owner(), detach("a", 1));
    assert_eq!(world.refusal(&owner(), start(held("t1", "a"))), Reject::AttachmentGone);
}

#[test]
fn they_are_bounded_as_if_they_ran() {
    let limits = crate::SessionLimits { running_turns: 2, ..limits() };
    let mut world = World::with_limits(limits);
    world.attach("a", 1000);
    world.events(&owner(), start(held("t1", "a")));
    world.events(&owner(), start(parallel("t2")));
    assert_eq!(world.refusal(&owner(), start(held("t3", "a"))), Reject::Limit { what: "running_turns" });
}
