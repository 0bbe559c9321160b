//! Questions, answers and what is done about them.

use crate::message::{ControlVariation, Mode, ReasoningStep, StopType, Transcription};

use super::*;

#[test]
fn a_message_is_said_acknowledged_and_answered_in_sentences() {
    let (mut lab, key) = Lab::joined();
    let (request, question) = lab.say(key, "hi");
    let said = lab.take();
    let Body::UserMessage(message) = &said.body else { panic!("{said:?}") };
    assert_eq!((said.stanza_id, &message.id, message.content.0.as_str()), (2, &question, "hi"));
    assert_eq!(message.timestamp, Some(1_767_225_600_000));
    lab.hear(0, ack(2));
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(request, Ok(Outcome::Accepted))));

    lab.hear(-1, start("am_a", question.as_str()));
    lab.hear(-2, sentence("am_a", 1, "One."));
    lab.hear(-3, last("am_a", 2, "Two."));
    let answer = id("am_a");
    let begun = ConversationEvent::Started { answer: answer.clone(), question: Some(question.clone()) };
    assert_eq!(lab.next(), begun);
    let piece = |text: &str| ConversationEvent::Piece { answer: answer.clone(), text: Pii(text.to_owned()) };
    assert_eq!(lab.next(), piece("One."));
    assert_eq!(lab.next(), piece(" Two."));
    let complete = Answer {
        id: answer.clone(),
        question: Some(question),
        text: Pii("One. Two.".to_owned()),
        replaces: false,
        whole: true,
    };
    assert_eq!(lab.next(), ConversationEvent::Answered(complete));
    lab.nothing();
    assert_eq!(lab.client.mark(key), Some(-3));
}

#[test]
fn an_answer_may_come_whole_and_be_replaced() {
    let (mut lab, _) = Lab::joined();
    lab.hear(-1, whole("am_a", "am_q", "first"));
    let ConversationEvent::Answered(answer) = lab.next() else { panic!() };
    assert!(!answer.replaces && answer.whole && answer.question == Some(id("am_q")));
    lab.hear(-2, whole("am_a", "am_q", "second"));
    let ConversationEvent::Answered(answer) = lab.next() else { panic!() };
    assert!(answer.replaces && answer.text.0 == "second");
    // The same once more, as a subscription brings it.
    lab.hear(0, whole("am_a", "am_q", "second"));
    lab.nothing();
}

#[test]
fn what_was_told_is_not_told_again_under_another_stanza() {
    let (mut lab, _) = Lab::joined();
    let step =
        ReasoningStep { id: id("ar_1"), message_id: id("am_a"), sequence: 1, content: Pii("hm".to_owned()) };
    lab.hear(-1, step.clone());
    lab.hear(-2, step);
    assert!(matches!(lab.next(), ConversationEvent::Reasoning(_)));
    lab.nothing();
    lab.hear(0, announcement("am_q", "hello", 1));
    lab.hear(0, announcement("am_q", "hello", 1));
    assert!(matches!(lab.next(), ConversationEvent::Question(_)));
    lab.nothing();
}

#[test]
fn a_final_transcription_is_a_message_of_the_user_and_known_as_such() {
    let (mut lab, _) = Lab::joined();
    let heard = |is_final| Transcription {
        id: id("am_v"),
        previous_id: None,
        text: Pii("what time".to_owned()),
        is_final,
        confidence: None,
        language: None,
    };
    lab.hear(0, heard(false));
    lab.hear(-1, heard(true));
    assert!(matches!(lab.next(), ConversationEvent::Heard(_)));
    assert!(matches!(lab.next(), ConversationEvent::Heard(heard) if heard.is_final));
    // Neither an interim that comes late nor the same message from a subscription is news.
    lab.hear(0, heard(false));
    lab.hear(0, announcement("am_v", "what time", 1));
    lab.nothing();
}

#[test]
fn a_failed_turn_is_told_as_such_and_a_refused_request_to_whoever_asked() {
    let (mut lab, key) = Lab::joined();
    let (request, question) = lab.say(key, "hi");
    lab.take();
    lab.hear(0, error(Code::NotFound, question.as_str(), true));
    let Some(Event::Settled(settled, Err(RequestError::Refused(refusal)))) = lab.events.pop_front() else {
        panic!("not refused")
    };
    assert_eq!((settled, refusal.code), (request, 203));
    lab.hear(0, Acknowledgement { success: false, ..ack(2) });
    lab.nothing();

    let (request, question) = lab.say(key, "again");
    lab.take();
    lab.hear(0, ack(3));
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(request, Ok(Outcome::Accepted))));
    lab.hear(-1, error(Code::Provider, question.as_str(), true));
    assert!(matches!(lab.next(), ConversationEvent::Failed(failed) if failed.code == 502));
    lab.hear(0, error(Code::RateLimited, "elsewhere", true));
    assert!(matches!(lab.next(), ConversationEvent::Error(_)));
}

#[test]
fn an_unrecoverable_error_ends_the_conversation() {
    let (mut lab, key) = Lab::joined();
    let (request, _) = lab.say(key, "hi");
    lab.take();
    lab.hear(0, error(Code::Internal, "elsewhere", false));
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(request, Err(RequestError::Closed))));
    assert!(matches!(lab.next(), ConversationEvent::Closed(Ended::Refused(_))));
    assert!(matches!(lab.take().body, Body::Unsubscribe(_)));
    assert_eq!(lab.client.say(key, "hi", None, lab.now), Err(CommandError::NotFollowed));
    lab.hear(-1, start("am_a", "am_q"));
    lab.nothing();
    // And nothing of it is taken up again.
    lab.reconnect();
    assert!(lab.sent.is_empty());
}

#[test]
fn a_stop_names_the_answer_that_is_being_given() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, start("am_a", "am_q"));
    lab.next();
    lab.client.stop(key, None, Some(StopType::All), Some("user_requested".to_owned()), lab.now).unwrap();
    lab.drain();
    let Body::ControlStop(stop) = lab.take().body else { panic!() };
    assert_eq!((stop.target_id, stop.stop_type), (Some(id("am_a")), Some(StopType::All)));
    lab.hear(0, ack(2));
    lab.hear(-2, last("am_a", 1, ""));
    assert!(matches!(lab.events.pop_front(), Some(Event::Settled(_, Ok(Outcome::Accepted)))));
    assert!(matches!(lab.next(), ConversationEvent::Answered(answer) if answer.text.0.is_empty()));
}

#[test]
fn a_stop_without_a_target_is_not_sent_again() {
    let (mut lab, key) = Lab::joined();
    let request = lab.client.stop(key, None, None, None, lab.now).unwrap();
    lab.drain();
    assert!(matches!(lab.take().body, Body::ControlStop(_)));
    lab.input(Input::Closed(None));
    assert_eq!(lab.events.pop_front(), Some(Event::Settled(request, Err(RequestError::Disconnected))));
    assert_eq!(lab.client.stop(key, None, None, None, lab.now), Err(CommandError::NotConnected));
    lab.again();
    lab.handshake(0, 0);
    assert!(lab.sent.is_empty());
}

fn vary(mode: Mode, target: &str, text: Option<&str>) -> ControlVariation {
    ControlVariation { target_id: id(target), mode, new_content: text.map(|text| Pii(text.to_owned())) }
}

#[test]
fn variations_are_sent_again_unless_their_effect_was_seen() {
    // The variation, and whether what the replay brings is its effect.
    let cases: [(ControlVariation, Body, bool); 7] = [
        (vary(Mode::Regenerate, "am_q", None), start("am_b", "am_q").into(), true),
        (vary(Mode::Regenerate, "am_a", None), start("am_b", "am_q").into(), true),
        (vary(Mode::Regenerate, "am_a", None), start("am_b", "am_other").into(), false),
        (vary(Mode::Continue, "am_a", None), start("am_b", "am_a").into(), true),
        (vary(Mode::Continue, "am_a", None), start("am_b", "am_q").into(), false),
        (vary(Mode::Edit, "am_a", Some("new")), whole("am_a", "am_q", "new").into(), true),
        (vary(Mode::Edit, "am_a", Some("new")), whole("am_a", "am_q", "other").into(), false),
    ];
    for (variation, effect, seen) in cases {
        let (mut lab, key) = Lab::joined();
        lab.hear(-1, start("am_a", "am_q"));
        lab.hear(-2, last("am_a", 1, "old"));
        lab.events.clear();
        let request = lab.client.vary(key, variation.clone(), lab.now).unwrap();
        lab.drain();
        lab.take();
        lab.reconnect();
        lab.handshake(-2, -3);
        assert!(lab.sent.is_empty(), "not before the replay is over");
        lab.hear(-3, effect);
        if seen {
            assert!(lab.sent.is_empty(), "{variation:?}");
            assert!(lab.events.contains(&Event::Settled(request, Ok(Outcome::Accepted))), "{variation:?}");
        } else {
            assert_eq!(lab.take().body, variation.into());
        }
    }
    let (mut lab, key) = Lab::joined();
    lab.client.vary(key, vary(Mode::Edit, "am_q", Some("better")), lab.now).unwrap();
    lab.drain();
    lab.take();
    lab.reconnect();
    lab.handshake(0, 0);
    assert!(matches!(lab.take().body, Body::ControlVariation(_)), "no effect was seen");
    lab.reconnect();
    lab.take();
    lab.hear(0, announcement("am_r", "better", 1));
    lab.hear(0, theirs(0));
    assert!(lab.sent.is_empty());
}

#[test]
fn what_no_server_would_read_is_refused_at_once() {
    let (mut lab, key) = Lab::joined();
    for text in ["", "  ", &"x".repeat(65_537)] {
        let refused = lab.client.say(key, text, None, lab.now);
        assert!(matches!(refused, Err(CommandError::Unfit(_))), "{refused:?}");
    }
    lab.drain();
    lab.nothing();
}

#[test]
fn what_waits_is_bounded() {
    let mut lab = Lab::with(ClientConfig { max_requests: 2, ..ClientConfig::default() });
    let key = lab.join(Some(CONV), Since::Now, &[]);
    lab.say(key, "1");
    lab.say(key, "2");
    assert_eq!(lab.client.say(key, "3", None, lab.now), Err(CommandError::Full { limit: 2 }));
}
