//! Handshakes, replays, holes and repetitions.

use super::*;
use crate::message::SubscribeAck;

#[test]
fn al_037_every_connection_begins_with_a_handshake_at_the_contiguous_mark() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    lab.hear(-2, sentence("am_a", 1, "One."));
    lab.events.clear();
    lab.input(Input::Closed(Some(1013)));
    let interrupted = ConversationEvent::Interrupted { answer: id("am_a") };
    assert_eq!(lab.next(), interrupted);
    lab.again();
    let asked = lab.handshake(-2, -4);
    assert_eq!((asked.stanza_id, asked.conversation_id), (1, Some(id(CONV))));
    lab.hear(-3, sentence("am_a", 2, "Two."));
    lab.hear(-4, last("am_a", 3, "Three."));
    let ConversationEvent::Joined(joined) = lab.next() else { panic!() };
    assert!(joined.again && joined.head == -4);
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    let ConversationEvent::Answered(answer) = lab.next() else { panic!() };
    assert_eq!((answer.text.0.as_str(), answer.whole), ("One. Two. Three.", true));
    assert_eq!(lab.client.mark(key), Some(-4));
    // Once more, and from there.
    lab.reconnect();
    lab.handshake(-4, -4);
}

#[test]
fn al_037_the_mark_is_what_lies_before_a_hole_not_the_newest_stanza() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    lab.hear(-5, last("am_a", 4, "late"));
    assert_eq!(lab.client.mark(key), Some(-1));
    lab.sent.clear();
    lab.reconnect();
    lab.handshake(-1, -5);
}

#[test]
fn al_038_a_stanza_that_was_taken_is_dropped_however_long_ago() {
    let (mut lab, key) = Lab::joined();
    for number in 1..=1_500 {
        lab.hear(-number, whole(&format!("am_{number}"), "am_q", "x"));
    }
    assert_eq!(lab.events.len(), 1_500);
    lab.events.clear();
    for number in 1..=1_500 {
        // The same stanza, even if it says something else.
        lab.hear(-number, whole(&format!("am_{number}"), "am_q", "y"));
    }
    lab.nothing();
    assert_eq!(lab.client.mark(key), Some(-1_500));
}

#[test]
fn al_038_stanzas_of_one_conversation_are_no_duplicates_of_another() {
    let (mut lab, _) = Lab::joined();
    let other = lab.join(Some("ac_other"), Since::Now, &[]);
    lab.take();
    lab.hear_in(Some("ac_other"), 0, theirs(0));
    lab.events.clear();
    lab.hear(-1, whole("am_a", "am_q", "x"));
    lab.hear_in(Some("ac_other"), -1, whole("am_b", "am_q", "x"));
    assert_eq!(lab.events.len(), 2);
    assert_eq!(lab.client.mark(other), Some(-1));
}

#[test]
fn al_039_a_hole_leads_to_another_handshake_at_the_mark() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    lab.hear(-2, sentence("am_a", 1, "One."));
    lab.events.clear();
    lab.hear(-4, last("am_a", 3, "Three."));
    lab.hear(-5, start("am_b", "am_r"));
    let asked = lab.handshake(-2, -5);
    assert_eq!(asked.stanza_id, 2, "on the same connection, once");
    assert!(lab.sent.is_empty());
    lab.hear(-3, sentence("am_a", 2, "Two."));
    lab.hear(-4, last("am_a", 3, "Three."));
    lab.hear(-5, start("am_b", "am_r"));
    assert!(matches!(lab.next(), ConversationEvent::Joined(joined) if joined.again));
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Answered(answer) if answer.text.0 == "One. Two. Three."));
    assert!(matches!(lab.next(), ConversationEvent::Started { .. }));
    assert_eq!(lab.client.mark(key), Some(-5));
}

#[test]
fn al_039_a_hole_that_stays_is_given_up_and_the_messages_are_asked_for() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    for _ in 0..2 {
        lab.hear(-3, last("am_a", 2, "Two."));
        lab.handshake(-1, -3);
    }
    lab.hear(-3, last("am_a", 2, "Two."));
    lab.handshake(0, -3);
    let Body::Subscribe(subscribe) = lab.take().body else { panic!() };
    assert_eq!(subscribe.from_sequence, Some(0));
    assert_eq!(lab.client.mark(key), Some(-3));
}

#[test]
fn al_040_what_was_not_acknowledged_is_sent_again_with_its_id_after_the_replay() {
    let (mut lab, key) = Lab::joined();
    let (done, _) = lab.say(key, "one");
    let (open, question) = lab.say(key, "two");
    assert_eq!((lab.take().stanza_id, lab.take().stanza_id), (2, 3));
    lab.hear(0, ack(2));
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(done, Ok(Outcome::Accepted))));
    lab.hear(-1, start("am_a", "am_q"));
    lab.reconnect();
    lab.events.clear();
    // Said while there was no connection.
    let (later, _) = lab.say(key, "three");
    lab.handshake(-1, -2);
    assert!(lab.sent.is_empty(), "not before the replay is over");
    // The server has it, and tells so where it stands in the log; that is no news to its author.
    lab.hear(0, announcement(question.as_str(), "two", 3));
    lab.hear(-2, last("am_a", 1, ""));
    let again = lab.take();
    let Body::UserMessage(message) = again.body else { panic!() };
    assert_eq!((again.stanza_id, message.id, message.content.0.as_str()), (2, question, "two"));
    assert_eq!(lab.take().stanza_id, 3);
    lab.hear(0, ack(2));
    lab.hear(0, ack(3));
    assert!(
        !lab.events
            .iter()
            .any(|event| matches!(event, Event::Conversation(_, ConversationEvent::Question(_))))
    );
    let settled: Vec<_> = lab.events.iter().filter(|event| matches!(event, Event::Settled(..))).collect();
    assert_eq!(
        settled,
        [&Event::Settled(open, Ok(Outcome::Accepted)), &Event::Settled(later, Ok(Outcome::Accepted)),]
    );
}

#[test]
fn al_040_a_message_whose_answer_is_replayed_counts_as_said_before_it_is_acknowledged() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_z", "am_y"));
    lab.hear(-2, last("am_z", 1, "Before."));
    let (said, question) = lab.say(key, "hi");
    lab.sent.clear();
    lab.reconnect();
    lab.events.clear();
    lab.handshake(-2, -4);
    lab.hear(-3, start("am_a", question.as_str()));
    lab.hear(-4, last("am_a", 1, "Hello."));
    assert!(matches!(lab.next(), ConversationEvent::Joined(_)));
    let settled = Event::Settled(said, Ok(Outcome::Accepted));
    assert_eq!(lab.events.pop_front(), Some(settled), "who said it can tell its answer");
    assert_eq!(
        lab.next(),
        ConversationEvent::Started { answer: id("am_a"), question: Some(question.clone()) }
    );
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Answered(answer) if answer.text.0 == "Hello."));
    let again = lab.take();
    let Body::UserMessage(message) = again.body else { panic!() };
    assert_eq!(message.id, question);
    lab.hear(0, ack(again.stanza_id));
    lab.nothing();
    lab.reconnect();
    lab.handshake(-4, -4);
    assert!(lab.sent.is_empty(), "acknowledged");
}

#[test]
fn a_conversation_that_nothing_was_seen_of_is_caught_up_with_by_a_subscription() {
    let (mut lab, key) = Lab::joined();
    let (_, question) = lab.say(key, "hi");
    lab.take();
    lab.hear(0, ack(2));
    lab.events.clear();
    // Everything happened while the connection was lost: with a mark of 0 nothing is replayed.
    lab.reconnect();
    lab.handshake(0, -3);
    let asked = lab.take();
    let Body::Subscribe(subscribe) = asked.body else { panic!() };
    assert_eq!(subscribe.from_sequence, Some(0));
    lab.hear(0, SubscribeAck { success: true, error: None, missed_messages: Some(2) });
    lab.hear(0, announcement(question.as_str(), "hi", 1));
    lab.hear(0, whole("am_a", question.as_str(), "hello"));
    assert!(matches!(lab.next(), ConversationEvent::Joined(_)));
    assert!(matches!(lab.next(), ConversationEvent::Answered(answer) if answer.text.0 == "hello"));
    lab.hear(-4, start("am_b", "am_r"));
    assert!(matches!(lab.next(), ConversationEvent::Started { .. }), "from the head on");
    lab.nothing();
}

#[test]
fn an_answer_that_was_joined_in_the_midst_is_asked_for_when_it_is_complete() {
    let mut lab = Lab::new();
    lab.join(Some(CONV), Since::Now, &[]);
    lab.handshake(0, -7);
    lab.hear(-8, sentence("am_a", 3, "Three."));
    lab.hear(-9, last("am_a", 4, "Four."));
    assert!(matches!(lab.next(), ConversationEvent::Joined(_)));
    assert_eq!(lab.next(), ConversationEvent::Started { answer: id("am_a"), question: None });
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Piece { .. }));
    assert!(matches!(lab.next(), ConversationEvent::Answered(answer) if !answer.whole));
    assert!(matches!(lab.take().body, Body::Subscribe(_)));
    lab.hear(0, SubscribeAck { success: true, error: None, missed_messages: Some(1) });
    lab.hear(0, whole("am_a", "am_q", "One. Two. Three. Four."));
    let ConversationEvent::Answered(answer) = lab.next() else { panic!() };
    assert!(answer.replaces && answer.whole && answer.text.0 == "One. Two. Three. Four.");
}

#[test]
fn a_mark_that_is_too_old_is_given_up_and_too_much_is_loaded_elsewhere() {
    let mut lab = Lab::new();
    lab.join(Some(CONV), Since::Stanza(25), &[]);
    let asked = lab.take();
    let Body::Configuration(configuration) = &asked.body else { panic!() };
    assert_eq!(configuration.last_sequence_seen, Some(-25));
    lab.hear(0, error(Code::InvalidState, "1", false));
    lab.handshake(0, -5_000);
    assert!(matches!(lab.take().body, Body::Subscribe(_)));
    lab.hear(0, SubscribeAck { success: true, error: None, missed_messages: Some(1_001) });
    assert!(matches!(lab.next(), ConversationEvent::Joined(_)));
    assert_eq!(lab.next(), ConversationEvent::Reload);
    lab.nothing();
}

#[test]
fn a_client_ahead_of_the_log_goes_back_to_its_head() {
    let mut lab = Lab::new();
    let key = lab.join(Some(CONV), Since::Stanza(-9), &[]);
    lab.take();
    lab.hear(0, theirs(-4));
    // The complaint is about a handshake that is over.
    lab.hear(0, error(Code::InvalidState, "1", true));
    lab.handshake(-4, -4);
    assert_eq!(lab.client.mark(key), Some(-4));
    assert!(matches!(lab.take().body, Body::Subscribe(_)));
    lab.hear(-5, start("am_a", "am_q"));
    assert_eq!(lab.client.mark(key), Some(-5));
}

#[test]
fn a_conversation_that_is_not_to_be_had_is_closed() {
    let mut lab = Lab::new();
    lab.join(Some(CONV), Since::Now, &[]);
    lab.take();
    // As the reference has it: without a conversation.
    lab.hear_in(None, 0, error(Code::Conversation, "1", false));
    assert!(matches!(lab.next(), ConversationEvent::Closed(Ended::Refused(refusal)) if refusal.code == 201));
    lab.nothing();
}

#[test]
fn what_cannot_be_read_leaves_no_hole() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, Body::Unknown { number: 999, body: Map::new() });
    // A known type with a broken body.
    let broken = Envelope::new(Some(id(CONV)), Body::Unknown { number: 13, body: Map::new() }).numbered(-2);
    lab.input(Input::Binary(encode(&broken)));
    lab.hear(-3, start("am_a", "am_q"));
    assert!(matches!(lab.next(), ConversationEvent::Started { .. }));
    lab.nothing();
    assert_eq!(lab.client.mark(key), Some(-3));
}

#[test]
fn conversations_are_made_one_after_the_other() {
    let mut lab = Lab::new();
    let first = lab.join(None, Since::Now, &[]);
    let second = lab.join(None, Since::Now, &[]);
    let asked = lab.take();
    assert_eq!(asked.conversation_id, None);
    assert!(lab.sent.is_empty());
    lab.hear_in(Some("ac_1"), 0, theirs(0));
    assert_eq!(lab.take().conversation_id, None);
    lab.hear_in(Some("ac_2"), 0, theirs(0));
    for (key, name) in [(first, "ac_1"), (second, "ac_2")] {
        let Some(Event::Conversation(of, ConversationEvent::Joined(joined))) = lab.events.pop_front() else {
            panic!("not joined")
        };
        assert_eq!((of, joined.id, joined.again), (key, id(name), false));
    }
    lab.reconnect();
    assert_eq!(lab.take().conversation_id, Some(id("ac_1")));
    assert_eq!(lab.take().conversation_id, Some(id("ac_2")));
}

#[test]
fn a_replay_that_stops_is_asked_for_again() {
    let (mut lab, _) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    lab.reconnect();
    lab.handshake(-1, -3);
    lab.hear(-2, sentence("am_a", 1, "One."));
    lab.pass(9_000);
    assert!(lab.sent.is_empty());
    lab.pass(2_000);
    lab.handshake(-2, -3);
}

#[test]
fn a_handshake_that_the_server_cannot_take_just_then_is_tried_again() {
    let mut lab = Lab::new();
    lab.join(None, Since::Now, &[]);
    for attempt in 0..5 {
        let asked = lab.take();
        lab.hear_in(None, 0, error(Code::Unavailable, &asked.stanza_id.to_string(), true));
        lab.nothing();
        lab.live(1_000 << attempt);
    }
    let asked = lab.take();
    lab.hear_in(None, 0, error(Code::Unavailable, &asked.stanza_id.to_string(), true));
    assert!(matches!(lab.next(), ConversationEvent::Closed(Ended::Refused(_))));
}
