//! Attachments: how a client outlives its transport.

use super::testing::*;
use crate::connection::Reply;
use crate::limits::SessionLimits;
use crate::model::{Event, NewTurn, Op};
use crate::reject::Reject;
use crate::session::{AttachmentView, TurnStatus};

#[track_caller]
fn view(reply: Reply) -> AttachmentView {
    let Reply::Attachment(view) = reply else { panic!("{reply:?}") };
    *view
}

fn generation(world: &World) -> u32 {
    world.session.attachment(&"a".into()).unwrap().generation
}

#[test]
fn an_opened_attachment_is_empty_and_of_the_given_generation() {
    let mut world = World::opened();
    let decision = world.ask(&owner(), attach("a", 1000)).unwrap();
    assert_eq!(names(&decision.events), ["attachment_opened"]);
    let view = view(decision.reply);
    assert_eq!((view.generation, view.linked, view.turns), (1, vec![], vec![]));
    assert_eq!(view.head, world.session.head());
    assert!(world.session.is_live());
}

#[test]
fn the_right_secret_takes_over_and_raises_the_generation() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), detach("a", 1));
    assert_eq!(world.session.next_wake(), Some(world.ahead(1000)));
    let decision = world.ask(&owner(), take_over("a", "first", "second")).unwrap();
    assert_eq!(names(&decision.events), ["attachment_opened"]);
    let view = view(decision.reply);
    assert_eq!((view.generation, view.head), (2, world.session.head()));
    assert_eq!(world.session.next_wake(), None, "it no longer waits");
    world.events(&owner(), take_over("a", "second", "third"));
    assert_eq!(generation(&world), 3);
}

#[test]
fn a_live_attachment_can_be_taken_over() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), take_over("a", "first", "second"));
    assert_eq!(generation(&world), 2);
}

#[test]
fn a_wrong_used_or_foreign_secret_takes_nothing_over() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let gone = Reject::AttachmentGone;
    assert_eq!(world.refusal(&owner(), take_over("a", "wrong", "second")), gone);
    assert_eq!(world.refusal(&contributor(), take_over("a", "first", "second")), gone);
    assert_eq!(world.refusal(&owner(), take_over("b", "first", "second")), gone);
    world.events(&owner(), take_over("a", "first", "second"));
    assert_eq!(world.refusal(&owner(), take_over("a", "first", "third")), gone);
}

#[test]
fn a_take_over_hears_of_links_and_of_the_turns_in_order_of_acceptance() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let link = Op::LinkAttachment { attachment: "a".into(), session: "other".into() };
    assert_eq!(names(&world.events(&owner(), link)), ["attachment_linked"]);
    for turn in ["z", "m", "b"] {
        world.events(&owner(), start(bound(turn, "a")));
    }
    world.events(&owner(), start(parallel("unrelated")));
    world.interrupt("z");
    let ended = world.session.head().seq;
    let view = view(world.ask(&owner(), take_over("a", "first", "second")).unwrap().reply);
    assert_eq!(view.linked, ["other".into()]);
    let turns: Vec<_> = view.turns.iter().map(|turn| (turn.turn.as_str(), turn.ended)).collect();
    assert_eq!(turns, [("z", Some(ended)), ("m", None), ("b", None)]);
    assert!(view.turns.is_sorted_by_key(|turn| turn.accepted));
}

#[test]
fn a_linked_attachment_is_opened_anew_with_a_higher_generation_only() {
    let mut world = World::opened();
    let linked =
        |generation| Op::OpenAttachment { attachment: "a".into(), generation, secret: None, window_ms: 1000 };
    world.events(&owner(), linked(3));
    for generation in [1, 3] {
        assert_eq!(world.refusal(&owner(), linked(generation)), Reject::AttachmentGone);
    }
    assert_eq!(world.refusal(&contributor(), linked(4)), Reject::AttachmentGone);
    world.events(&owner(), linked(4));
    assert_eq!(generation(&world), 4);
    assert_eq!(world.refusal(&owner(), take_over("a", "first", "x")), Reject::AttachmentGone);
}

#[test]
fn an_attachment_of_the_last_generation_cannot_be_taken_over() {
    let mut world = World::opened();
    let secret = Some(secret("first"));
    let last = Op::OpenAttachment { attachment: "a".into(), generation: u32::MAX, secret, window_ms: 1000 };
    world.events(&owner(), last);
    assert_eq!(world.refusal(&owner(), take_over("a", "first", "x")), Reject::AttachmentGone);
}

#[test]
fn only_its_principal_links_an_attachment_and_once() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let link = |attachment: &str| Op::LinkAttachment { attachment: attachment.into(), session: "s".into() };
    assert_eq!(world.refusal(&owner(), link("b")), Reject::AttachmentGone);
    assert_eq!(world.refusal(&contributor(), link("a")), Reject::AttachmentGone);
    assert_eq!(names(&world.events(&owner(), link("a"))), ["attachment_linked"]);
    assert_eq!(world.events(&owner(), link("a")), []);
}

#[test]
fn attachments_and_links_are_limited() {
    let mut world = World::with_limits(SessionLimits { attachments: 1, ..limits() });
    let limit = Reject::Limit { what: "attachments" };
    world.attach("a", 1000);
    assert_eq!(world.refusal(&owner(), attach("b", 1000)), limit);
    let link = |session: &str| Op::LinkAttachment { attachment: "a".into(), session: session.into() };
    world.events(&owner(), link("one"));
    assert_eq!(world.refusal(&owner(), link("two")), limit);
    world.events(&owner(), close("a", 1));
    world.attach("b", 1000);
}

#[test]
fn a_transport_that_was_taken_over_can_neither_detach_nor_close() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.events(&owner(), take_over("a", "first", "second"));
    assert_eq!(world.events(&owner(), detach("a", 1)), []);
    assert_eq!(world.events(&owner(), close("a", 1)), []);
    assert_eq!(world.session.next_wake(), None);
    assert_eq!(generation(&world), 2);
}

#[test]
fn nobody_else_detaches_or_closes_an_attachment() {
    let mut world = World::opened();
    world.attach("a", 1000);
    assert_eq!(world.events(&contributor(), detach("a", 1)), []);
    assert_eq!(world.events(&contributor(), close("a", 1)), []);
    assert_eq!(world.events(&owner(), close("unknown", 1)), []);
}

#[test]
fn detaching_twice_does_not_prolong_the_window() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let expires = world.ahead(1000);
    world.events(&owner(), detach("a", 1));
    world.pass(500);
    assert_eq!(world.events(&owner(), detach("a", 1)), []);
    assert_eq!(world.session.next_wake(), Some(expires));
}

#[test]
fn an_attachment_that_waited_in_vain_closes_and_interrupts_its_bound_turns_only() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.attach("b", 1000);
    world.events(&owner(), start(bound("bound", "a")));
    let mut loose = bound("loose", "a");
    loose.origin.bound = false;
    world.events(&owner(), start(loose));
    world.events(&owner(), start(bound("elsewhere", "b")));
    world.events(&owner(), detach("a", 1));
    world.pass(999);
    assert_eq!(world.wake(), []);
    world.pass(1);
    let events = world.wake();
    assert_eq!(names(&events), ["turn_interrupted", "turn_ended", "attachment_closed"]);
    assert!(matches!(&events[0], Event::TurnInterrupted { by: None, reason: Some(_), .. }));
    assert_eq!(world.status("bound"), None);
    assert_eq!(world.status("loose"), Some(TurnStatus::Ready));
    assert_eq!(world.status("elsewhere"), Some(TurnStatus::Ready));
    assert_eq!(world.refusal(&owner(), take_over("a", "first", "x")), Reject::AttachmentGone);
}

#[test]
fn closing_an_attachment_stops_its_running_turns_and_moves_the_queue_up() {
    let mut world = World::opened();
    world.attach("a", 1000);
    let serial = |turn, attachment| NewTurn { serial: true, ..bound(turn, attachment) };
    world.events(&owner(), start(serial("t1", "a")));
    world.claim("t1");
    world.events(&owner(), start(serial("t2", "a")));
    world.start("t3");
    let events = world.events(&owner(), close("a", 1));
    assert_eq!(
        names(&events),
        ["turn_interrupted", "turn_interrupted", "turn_ended", "attachment_closed", "turn_queued"]
    );
    assert_eq!(world.status("t1"), Some(TurnStatus::Stopping));
    assert_eq!(announced(&events), [("t3", 1)]);
    assert_eq!(world.session.attachment(&"a".into()), None);
}

#[test]
fn a_turn_that_ends_by_its_deadline_is_not_interrupted_as_well() {
    let mut world = World::opened();
    world.attach("a", 100);
    let deadline = world.ahead(100);
    world.events(&owner(), start(NewTurn { deadline, ..bound("t1", "a") }));
    world.events(&owner(), detach("a", 1));
    world.pass(100);
    assert_eq!(names(&world.wake()), ["turn_ended", "attachment_closed"]);
}

#[test]
fn a_turn_cannot_be_hung_on_somebody_elses_attachment() {
    let mut world = World::opened();
    world.attach("a", 1000);
    assert_eq!(world.refusal(&contributor(), start(bound("t1", "a"))), Reject::AttachmentGone);
}
