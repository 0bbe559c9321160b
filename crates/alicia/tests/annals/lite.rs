//! The same conversations, in the lite profile.

use serde_json::json;
use switchboard_alicia::annals::Page;
use switchboard_alicia::deed::{Luggage, Spoken, Wishes};
use switchboard_alicia::lite::serve;
use switchboard_alicia::message::{Acknowledgement, Role, SubscribeAck, SubscribeError};
use switchboard_alicia::{
    AliciaLimits, Code, Decoded, Dialect, Envelope, Id, LiteBody, LiteEnvelope, Side, Word, decode,
    encode_lite,
};
use switchboard_core::model::{
    CallEnd, CallError, CallKind, Executor, FailureKind, Op, Output, Part, Remembered, TurnEnd,
};

use crate::support::{CONVERSATION, World, names, worker};

/// What a lite client is sent, after checking that it can read it.
fn sent(world: &mut World) -> Vec<LiteBody> {
    let entries = std::mem::take(&mut world.entries);
    let notices = std::mem::take(&mut world.notices);
    let page = Page { entries, notices, records: Vec::new() };
    serve::page(&world.annals, &page).into_iter().map(readable).collect()
}

#[track_caller]
fn readable(envelope: LiteEnvelope) -> LiteBody {
    let decoded = decode(&encode_lite(&envelope), Side::Server, Dialect::Lite, &AliciaLimits::default());
    let [Ok(Decoded::Lite(read))] = decoded.as_slice() else { panic!("{decoded:?}") };
    assert_eq!(**read, envelope);
    assert_eq!(envelope.conversation_id.as_ref().map(Id::as_str), Some(CONVERSATION));
    envelope.body
}

fn kinds(bodies: &[LiteBody]) -> Vec<u16> {
    bodies.iter().map(LiteBody::number).collect()
}

#[test]
fn al_108_a_streamed_turn_ends_with_its_whole_text() {
    let mut world = World::new();
    world.run("t1");
    let memory = Remembered {
        memory: "amem_1".into(),
        content: "tea".into(),
        relevance: 0.9,
        source: Some("x".into()),
    };
    world.emit("t1", Output::Remembered(memory));
    world.emit("t1", Output::Reasoning("Hm.".into()));
    world.call(
        "t1",
        "c1",
        CallKind::Tool { name: "clock".into(), args: json!({"tz": "UTC"}).into() },
        Executor::Agent,
    );
    world.answer("t1", "c1", CallEnd::Failed(CallError::new("", "broken")), &worker());
    world.tell("t1", "One. Two.");
    world.complete("t1");
    let bodies = sent(&mut world);
    assert_eq!(kinds(&bodies), [2, 13, 14, 5, 6, 7, 16, 16, 3, 80]);
    let LiteBody::UserMessage(question) = &bodies[0] else { panic!("{bodies:?}") };
    assert_eq!(
        (question.id.as_ref().map(Id::as_str), question.role.clone()),
        (Some("am_t1_in"), Some(Word::Known(Role::User)))
    );
    assert_eq!(question.created_at.as_deref(), Some("2026-01-01T00:00:00.000Z"));
    let LiteBody::StartAnswer(start) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!(start.message_id.as_str(), "am_t1_out");
    let LiteBody::MemoryTrace(trace) = &bodies[2] else { panic!("{bodies:?}") };
    assert_eq!(trace.source, None);
    let LiteBody::ToolUseRequest(request) = &bodies[4] else { panic!("{bodies:?}") };
    assert_eq!(request.arguments.get_str("tz"), Some("UTC"));
    let LiteBody::ToolUseResult(result) = &bodies[5] else { panic!("{bodies:?}") };
    assert_eq!(result.error.as_ref().map(|error| error.0.as_str()), Some("execution_error: broken"));
    assert_eq!(result.request_id, request.id);
    let LiteBody::AssistantSentence(sentence) = &bodies[7] else { panic!("{bodies:?}") };
    assert_eq!((sentence.message_id.as_str(), sentence.is_final), ("am_t1_out", true));
    let LiteBody::AssistantMessage(whole) = &bodies[8] else { panic!("{bodies:?}") };
    assert_eq!((whole.id.as_str(), whole.content.0.as_str()), ("am_t1_out", "One. Two."));
    assert!(whole.created_at.is_some() && whole.role == Some(Word::Known(Role::Assistant)));
    let LiteBody::GenerationComplete(over) = &bodies[9] else { panic!("{bodies:?}") };
    assert!(over.success && over.error.is_none());
}

#[test]
fn a_failure_is_an_error_and_the_end() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Half");
    sent(&mut world);
    world.finish("t1", TurnEnd::failed(FailureKind::Execution, "broken"));
    let bodies = sent(&mut world);
    assert_eq!(kinds(&bodies), [16, 16, 1, 80]);
    let LiteBody::Error(error) = &bodies[2] else { panic!("{bodies:?}") };
    assert_eq!((error.code.as_str(), error.message_id.as_ref().map(Id::as_str)), ("502", Some("am_t1_out")));
    let LiteBody::GenerationComplete(over) = &bodies[3] else { panic!("{bodies:?}") };
    assert_eq!((over.success, over.error.as_deref()), (false, Some("502")));
}

#[test]
fn a_stop_keeps_what_there_is() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Half");
    sent(&mut world);
    world.interrupt("t1", None);
    assert_eq!(kinds(&sent(&mut world)), [16, 3, 80]);
    world.complete("t1");
    assert!(sent(&mut world).is_empty());
    world.run("t2");
    sent(&mut world);
    world.interrupt("t2", None);
    let bodies = sent(&mut world);
    assert_eq!(kinds(&bodies), [16, 80]);
    let LiteBody::GenerationComplete(over) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!((over.success, over.error.as_deref()), (false, Some("stopped")));
}

#[test]
fn al_108_a_whole_answer_is_told_like_a_streamed_one_and_an_edit_is_not() {
    let mut world = World::new();
    world.say("t1", "question", &Wishes { streaming: false, ..Wishes::default() });
    world.claim("t1");
    world.emit("t1", Output::Reasoning("Hm.".into()));
    world.tell("t1", "Answer.");
    world.complete("t1");
    let bodies = sent(&mut world);
    assert_eq!(kinds(&bodies), [2, 13, 5, 3, 80], "thoughts before the text that they led to");
    let LiteBody::AssistantMessage(whole) = &bodies[3] else { panic!("{bodies:?}") };
    assert_eq!((whole.id.as_str(), whole.content.0.as_str()), ("am_t1_out", "Answer."));
    // At the same moment, even.
    world.ask(Op::Edit { message: "am_t1_out".into(), parts: vec![Part::Text("Better.".into())] });
    assert_eq!(kinds(&sent(&mut world)), [3]);
}

#[test]
fn what_was_spoken_is_a_user_message() {
    let mut world = World::new();
    let luggage = Luggage { spoken: Some(Spoken::default()), ..Luggage::default() };
    world.start("t1", "what time", &Wishes::default(), names("t1"), luggage);
    let bodies = sent(&mut world);
    let [LiteBody::UserMessage(message)] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!(
        (message.content.0.as_str(), message.created_at.as_deref()),
        ("what time", Some("2026-01-01T00:00:00.000Z"))
    );
}

#[test]
fn a_title_is_told_and_a_trace_passed_on() {
    let mut world = World::new();
    world.ask(Op::Rename { name: "New".into() });
    let bodies = sent(&mut world);
    let [LiteBody::TitleUpdate(update)] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!(update.title.0, "New");
    let trace = Some(("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned()));
    world.say("t1", "question", &Wishes { trace, ..Wishes::default() });
    world.claim("t1");
    let entries = vec![world.entries.pop().unwrap()];
    let told = serve::page(&world.annals, &Page { entries, ..Page::default() });
    assert_eq!(told[0].trace.as_ref().map(|trace| trace.flags), Some(1));
}

#[test]
fn replies_are_said_in_lite_as_far_as_it_has_words() {
    let id = || Some(Id::new(CONVERSATION).unwrap());
    let refused =
        SubscribeAck { success: false, error: Some(SubscribeError::NotFound.into()), missed_messages: None };
    let told = serve::answer(&Envelope::new(id(), refused));
    let LiteBody::SubscribeAck(ack) = readable(told.into_iter().next().unwrap()) else { panic!() };
    assert_eq!((ack.success, ack.error.as_deref()), (false, Some("not_found")));
    let error = Code::InvalidState.report(Id::new("err_1").unwrap(), "no").about(&Id::new("am_1").unwrap());
    let told = serve::answer(&Envelope::new(id(), error));
    let LiteBody::Error(error) = readable(told.into_iter().next().unwrap()) else { panic!() };
    assert_eq!((error.code.as_str(), error.message_id.as_ref().map(Id::as_str)), ("202", Some("am_1")));
    let ack = Acknowledgement { acknowledged_stanza_id: 1, success: true };
    assert!(serve::answer(&Envelope::new(id(), ack)).is_empty());
}
