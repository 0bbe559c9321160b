//! The message tree where clients name, supersede, repeat, import, edit and choose; and what owners do.

use serde_json::json;

use super::testing::*;
use crate::id::{MessageId, PrincipalId};
use crate::model::{Committed, Event, Import, Names, NewTurn, Op, Parent, Part, Place, Standing, Voice};
use crate::projection::{Row, rows};
use crate::reject::Reject;
use crate::session::{Session, TurnStatus};
use crate::time::Timestamp;

fn named(turn: &str, input: &str, answer: &str) -> NewTurn {
    let names = Names { input: Some(input.into()), answer: Some(answer.into()), again: false };
    NewTurn { place: Place { names, supersedes: true, ..Place::default() }, ..chat(turn) }
}

fn again(turn: &str, about: &str, answer: &str) -> NewTurn {
    let mut new = named(turn, about, answer);
    new.place.names.again = true;
    new
}

fn import(id: &str, parent: Parent) -> Op {
    let meta = json!({ "local_id": "local_1" });
    Op::Import(Box::new(Import { id: id.into(), parent, voice: Voice::User, text: "offline".into(), meta }))
}

fn edit(message: &str, text: &str) -> Op {
    Op::Edit { message: message.into(), parts: vec![Part::Text(text.into())] }
}

#[track_caller]
fn answered(world: &mut World, new: NewTurn, text: &str) {
    let turn = new.turn.to_string();
    world.events(&owner(), start(new));
    world.claim(&turn);
    world.emit(&turn, 1, text);
    world.finish(&turn, 1);
}

fn tip(world: &World) -> Option<&str> {
    world.session.tip().map(MessageId::as_str)
}

#[test]
fn a_client_may_name_the_messages_of_its_turn() {
    let mut world = World::opened();
    let events = world.events(&owner(), start(named("t1", "question", "answer")));
    assert!(matches!(&events[0], Event::MessageAdded { message } if message.id.as_str() == "question"));
    world.claim("t1");
    world.emit("t1", 1, "yes");
    world.finish("t1", 1);
    assert_eq!(tip(&world), Some("answer"));
    let twice = |input: &str, answer: &str| start(named("t2", input, answer));
    assert_eq!(world.refusal(&owner(), twice("question", "a")), Reject::DuplicateMessage("question".into()));
    assert_eq!(world.refusal(&owner(), twice("q", "answer")), Reject::DuplicateMessage("answer".into()));
}

#[test]
fn superseding_stops_what_runs_and_follows_what_it_has_said() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    world.emit("t1", 1, "half an ans");
    let events = world.events(&owner(), start(named("t2", "q2", "a2")));
    assert_eq!(names(&events), ["turn_interrupted", "message_added", "turn_accepted", "turn_queued"]);
    assert_eq!(parent(&events), Some("a1".into()));
    assert_eq!(world.status("t1"), Some(TurnStatus::Stopping));
    world.finish("t1", 1);
    assert_eq!(tip(&world), Some("q2"), "what was superseded does not take the tip back");
    assert_eq!(names(&world.claim("t2")), ["turn_started"], "its input is there already");
    world.emit("t2", 1, "whole");
    world.finish("t2", 1);
    assert_eq!(tip(&world), Some("a2"));
}

#[test]
fn superseding_what_has_said_nothing_follows_its_question() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    let events = world.events(&owner(), start(named("t2", "q2", "a2")));
    assert_eq!(parent(&events), Some("q1".into()));
    // Also where the client names the answer that never came.
    let mut after_silence = named("t3", "q3", "a3");
    after_silence.place.parent = Parent::Message("a2".into());
    let events = world.events(&owner(), start(after_silence));
    assert_eq!(parent(&events), Some("q2".into()));
}

#[test]
fn superseding_ends_at_once_what_nobody_executes() {
    let mut world = World::opened();
    world.start("t1");
    world.start("t2");
    let events = world.events(&owner(), start(named("t3", "q3", "a3")));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::TurnEnded { .. })).count(), 2);
    assert_eq!(world.status("t3"), Some(TurnStatus::Ready));
}

#[test]
fn a_question_is_answered_again_beside_its_first_answer() {
    let mut world = World::opened();
    answered(&mut world, named("t1", "q1", "a1"), "one");
    let events = world.events(&owner(), start(again("t2", "q1", "a2")));
    assert_eq!(names(&events), ["turn_accepted"], "nothing is asked anew");
    assert_eq!(world.session.turn(&"t2".into()).unwrap().parent, Some("q1".into()));
    world.claim("t2");
    world.emit("t2", 1, "two");
    world.finish("t2", 1);
    assert_eq!(tip(&world), Some("a2"));
    let unknown = world.refusal(&owner(), start(again("t3", "nowhere", "a3")));
    assert_eq!(unknown, Reject::UnknownMessage("nowhere".into()));
}

#[test]
fn another_tree_begins_at_a_root() {
    let mut world = World::opened();
    answered(&mut world, named("t1", "q1", "a1"), "one");
    let mut root = named("t2", "q2", "a2");
    root.place.parent = Parent::Root;
    assert_eq!(parent(&world.events(&owner(), start(root))), None);
}

#[test]
fn what_goes_with_a_message_is_stored_with_it() {
    let mut world = World::opened();
    let mut new = named("t1", "q1", "a1");
    new.place.meta = json!({ "source": "asr" });
    let events = world.events(&owner(), start(new));
    assert!(
        matches!(&events[0], Event::MessageAdded { message } if message.meta == json!({ "source": "asr" }))
    );
}

#[test]
fn messages_written_elsewhere_are_imported_without_a_turn() {
    let mut world = World::opened();
    world.events(&owner(), import("m1", Parent::Tip));
    let events = world.events(&owner(), import("m2", Parent::Tip));
    assert_eq!((parent(&events), tip(&world)), (Some("m1".into()), Some("m2")));
    assert_eq!(world.refusal(&owner(), import("m2", Parent::Tip)), Reject::DuplicateMessage("m2".into()));
    let dangling = import("m3", Parent::Message("nowhere".into()));
    assert_eq!(world.refusal(&owner(), dangling), Reject::UnknownMessage("nowhere".into()));
    assert_eq!(world.refusal(&observer(), import("m4", Parent::Tip)), Reject::Forbidden);
    assert!(world.session.turns().next().is_none());
}

#[test]
fn what_is_imported_during_an_answer_stands_behind_it() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    let events = world.events(&owner(), import("m1", Parent::Tip));
    assert_eq!(parent(&events), Some("a1".into()), "although nothing was said yet");
    assert_eq!(parent(&world.events(&owner(), import("m2", Parent::Tip))), Some("m1".into()));
    let beside = world.events(&owner(), import("m3", Parent::Message("a1".into())));
    assert_eq!(parent(&beside), Some("a1".into()), "an answer that is being given can be named");
    world.emit("t1", 1, "yes");
    world.finish("t1", 1);
    assert_eq!(tip(&world), Some("m3"), "the answer does not take the tip back");
}

#[test]
fn many_imports_during_an_answer_keep_the_tip_as_well() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    world.emit("t1", 1, "yes");
    for number in 0..1_000 {
        world.events(&owner(), import(&format!("m{number}"), Parent::Tip));
    }
    world.finish("t1", 1);
    assert_eq!(tip(&world), Some("m999"));
}

#[test]
fn an_answer_that_never_comes_does_not_cut_off_what_follows_it() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    world.events(&owner(), import("m1", Parent::Tip));
    let before = world.session.clone();
    let event = world.finish("t1", 1).pop().expect("an end");
    let committed = Committed { position: before.head().next(), at: Timestamp::default(), event };
    let rows = rows(&before, &committed);
    let answer = rows.iter().find_map(|row| if let Row::Message(row) = row { Some(row) } else { None });
    let answer = answer.expect("a row, since it is on the way back from what follows");
    assert_eq!((answer.message.as_str(), answer.parent.clone()), ("a1", Some("q1".into())));
    assert!(answer.parts.is_empty());
    assert_eq!(tip(&world), Some("m1"));
}

#[test]
fn what_is_imported_behind_a_stopped_silence_follows_the_question() {
    let mut world = World::opened();
    world.events(&owner(), start(named("t1", "q1", "a1")));
    world.claim("t1");
    world.events(&owner(), Op::Interrupt { turn: "t1".into(), reason: None });
    assert_eq!(parent(&world.events(&owner(), import("m1", Parent::Tip))), Some("q1".into()));
}

#[test]
fn what_was_said_can_be_put_right_but_not_while_it_is_said() {
    let mut world = World::opened();
    answered(&mut world, named("t1", "q1", "a1"), "wrong");
    assert_eq!(names(&world.events(&owner(), edit("a1", "right"))), ["message_edited"]);
    assert_eq!(world.refusal(&owner(), edit("nowhere", "x")), Reject::UnknownMessage("nowhere".into()));
    world.events(&owner(), start(named("t2", "q2", "a2")));
    world.claim("t2");
    world.emit("t2", 1, "in the mid");
    assert!(matches!(world.refusal(&owner(), edit("a2", "x")), Reject::Invalid(_)));
    let long = "x".repeat(limits().record_bytes + 1);
    assert_eq!(world.refusal(&owner(), edit("a1", &long)), Reject::Limit { what: "record_bytes" });
}

#[test]
fn the_conversation_goes_on_from_the_message_that_is_chosen() {
    let mut world = World::opened();
    answered(&mut world, named("t1", "q1", "a1"), "one");
    answered(&mut world, again("t2", "q1", "a2"), "two");
    world.events(&owner(), Op::MoveTip { tip: "a1".into() });
    assert_eq!(parent(&world.events(&owner(), start(named("t3", "q3", "a3")))), Some("a1".into()));
    let unknown = world.refusal(&owner(), Op::MoveTip { tip: "nowhere".into() });
    assert_eq!(unknown, Reject::UnknownMessage("nowhere".into()));
    let unmoved = Op::MoveTip { tip: world.session.tip().cloned().unwrap() };
    assert!(world.events(&owner(), unmoved).is_empty());
}

#[test]
fn a_message_that_is_forgotten_counts_if_somebody_vouches_for_it() {
    let world = World::opened();
    let op = Op::MoveTip { tip: "long ago".into() };
    assert_eq!(world.session.relies_on(&op), Some(&"long ago".into()));
    assert!(world.session.decide(&owner(), &op, world.now).is_err());
    assert!(world.session.decide_knowing(&owner(), &op, world.now, &["long ago".into()]).is_ok());
    let mut branch = named("t1", "q", "a");
    branch.place.parent = Parent::Message("long ago".into());
    assert_eq!(world.session.relies_on(&start(branch)), Some(&"long ago".into()));
    assert_eq!(world.session.relies_on(&start(again("t2", "then", "a"))), Some(&"then".into()));
    assert_eq!(world.session.relies_on(&start(chat("t3"))), None);
    assert_eq!(world.session.relies_on(&import("m", Parent::Message("x".into()))), Some(&"x".into()));
}

#[test]
fn what_is_put_away_takes_no_work_until_it_is_taken_up_again() {
    let mut world = World::opened();
    world.run("t1");
    let events = world.events(&owner(), Op::Stand(Standing::Archived));
    assert_eq!(names(&events), ["turn_interrupted", "standing_changed"]);
    world.finish("t1", 1);
    assert_eq!(world.refusal(&owner(), start(chat("t2"))), Reject::Inactive);
    assert_eq!(world.refusal(&owner(), import("m", Parent::Tip)), Reject::Inactive);
    assert!(world.session.role_of(&PrincipalId::from("observer")).is_some(), "it can still be read");
    assert_eq!(world.refusal(&contributor(), Op::Stand(Standing::Active)), Reject::Forbidden);
    world.events(&owner(), Op::Stand(Standing::Active));
    world.start("t3");
}

#[test]
fn what_is_deleted_looks_like_what_never_was() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&owner(), Op::Stand(Standing::Deleted));
    for op in [start(chat("t2")), Op::Stand(Standing::Active), Op::Rename { name: "x".into() }, open()] {
        assert_eq!(world.refusal(&owner(), op), Reject::NotFound);
    }
    assert!(world.session.role_of(&PrincipalId::from("owner")).is_none());
    world.finish("t1", 1);
    assert!(world.session.turns().next().is_none(), "what ran comes to rest all the same");
}

#[test]
fn accounts_are_begun_once_and_take_only_records_of_their_own() {
    let mut world = World::opened();
    let record = || Op::Record { chronicle: "annals".into(), record: json!({ "vote": "up" }) };
    assert!(matches!(world.refusal(&owner(), record()), Reject::Invalid(_)));
    let chronicle = || Op::Chronicle { chronicle: "annals".into() };
    assert_eq!(names(&world.events(&owner(), chronicle())), ["chronicle_begun"]);
    assert!(world.events(&observer(), chronicle()).is_empty());
    assert_eq!(names(&world.events(&contributor(), record())), ["recorded"]);
    assert_eq!(world.refusal(&observer(), record()), Reject::Forbidden);
    let long = Op::Record { chronicle: "annals".into(), record: json!("x".repeat(limits().record_bytes)) };
    assert_eq!(world.refusal(&owner(), long), Reject::Limit { what: "record_bytes" });
}

#[test]
fn a_snapshot_carries_what_accounts_have_to_remember() {
    let world = World::opened();
    let accounts = [("annals".into(), "state".into())].into_iter().collect();
    let stored = serde_json::to_string(&world.session.clone().with_accounts(accounts)).unwrap();
    let mut read: Session = serde_json::from_str(&stored).unwrap();
    let accounts = read.take_accounts();
    assert_eq!(accounts.get("annals").map(|state| state.to_vec()), Some(b"state".to_vec()));
    assert_eq!(read.with_limits(limits()), world.session);
}

#[test]
fn only_the_owner_renames() {
    let mut world = World::opened();
    let rename = || Op::Rename { name: "tea".into() };
    assert_eq!(world.refusal(&contributor(), rename()), Reject::Forbidden);
    world.events(&owner(), rename());
    assert_eq!(world.session.name(), Some("tea"));
    assert!(world.events(&owner(), rename()).is_empty());
}
