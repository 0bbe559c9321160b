//! Turns whose client tells what was said before.

use super::testing::{World, names, owner, parallel, parent, start, worker};
use crate::id::MessageId;
use crate::model::{Author, Event, Message, NewTurn, Op, Part, Told, TurnEnd, Voice};

fn told(turn: &str, history: &[(Voice, &str)]) -> NewTurn {
    let history =
        history.iter().map(|(voice, text)| Told { voice: *voice, text: (*text).to_owned() }).collect();
    NewTurn { history: Some(history), ..parallel(turn) }
}

/// Runs a turn that answers with a text.
fn answered(world: &mut World, new: NewTurn, answer: &str) -> Vec<Event> {
    let turn = new.turn.clone();
    let events = world.events(&owner(), start(new));
    world.claim(turn.as_str());
    world.emit(turn.as_str(), 1, answer);
    world.events(&worker(), Op::Finish { turn, fence: 1, end: TurnEnd::complete() });
    events
}

/// The messages that the events add.
fn added(events: &[Event]) -> Vec<&Message> {
    let messages = events.iter().filter_map(|event| {
        if let Event::MessageAdded { message } = event { Some(message.as_ref()) } else { None }
    });
    messages.collect()
}

fn input(events: &[Event]) -> Option<MessageId> {
    added(events).last().and_then(|message| message.parent.clone())
}

#[test]
fn nothing_told_begins_anew_whatever_was_said() {
    let mut world = World::opened();
    answered(&mut world, told("t1", &[]), "one");
    let events = world.events(&owner(), start(told("t2", &[])));
    assert_eq!(names(&events), ["message_added", "turn_accepted"]);
    assert_eq!(parent(&events), None);
    assert!(matches!(&events[1], Event::TurnAccepted { recall: Some(0), .. }));
}

#[test]
fn what_the_session_remembers_is_not_stored_again() {
    let mut world = World::opened();
    answered(&mut world, told("t1", &[]), "one");
    let history = [(Voice::User, "hello from t1"), (Voice::Agent, "one")];
    let events = answered(&mut world, told("t2", &history), "two");
    assert_eq!(names(&events), ["message_added", "turn_accepted"]);
    assert_eq!(input(&events), Some(MessageId::answer_of(&"t1".into())));
    assert!(matches!(&events[1], Event::TurnAccepted { recall: Some(2), .. }));

    // A client forgets the beginning of a long conversation.
    let history = [(Voice::Agent, "one"), (Voice::User, "hello from t2"), (Voice::Agent, "two")];
    let events = world.events(&owner(), start(told("t3", &history)));
    assert_eq!(names(&events), ["message_added", "turn_accepted"]);
    assert_eq!(input(&events), Some(MessageId::answer_of(&"t2".into())));
    assert!(matches!(&events[1], Event::TurnAccepted { recall: Some(3), .. }));
}

#[test]
fn what_is_told_otherwise_becomes_a_branch() {
    let mut world = World::opened();
    answered(&mut world, told("t1", &[]), "one");
    let history =
        [(Voice::User, "hello from t1"), (Voice::Agent, "another answer"), (Voice::System, "be brief")];
    let events = world.events(&owner(), start(told("t2", &history)));
    assert_eq!(names(&events), ["message_added", "message_added", "message_added", "turn_accepted"]);
    let messages = added(&events);
    assert_eq!(messages[0].parent, Some(MessageId::input_of(&"t1".into())));
    assert!(matches!(messages[0].author, Author::Agent(_)));
    assert_eq!(messages[0].parts, [Part::Text("another answer".into())]);
    assert_eq!(messages[1].author, Author::System);
    assert_eq!(messages[1].parent, Some(messages[0].id.clone()));
    assert_eq!(messages[2].id, MessageId::input_of(&"t2".into()));
    assert_eq!(messages[2].parent, Some(messages[1].id.clone()));
}

#[test]
fn the_same_words_of_another_voice_are_something_else() {
    let mut world = World::opened();
    answered(&mut world, told("t1", &[]), "one");
    let events = world.events(&owner(), start(told("t2", &[(Voice::Agent, "hello from t1")])));
    assert_eq!(names(&events), ["message_added", "message_added", "turn_accepted"]);
    assert_eq!(parent(&events), None);
}

#[test]
fn a_told_turn_that_waits_has_its_place_already() {
    let mut world = World::opened();
    world.run("t1");
    let waiting = NewTurn { serial: true, ..told("t2", &[(Voice::User, "before")]) };
    let events = world.events(&owner(), start(waiting));
    assert_eq!(names(&events), ["message_added", "message_added", "turn_accepted", "turn_queued"]);
    world.finish("t1", 1);
    let events = world.events(&worker(), Op::Claim { turn: "t2".into(), relayed: false });
    assert_eq!(names(&events), ["turn_started"]);
}
