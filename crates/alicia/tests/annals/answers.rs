//! Answers: streamed, whole, stopped, failed.

use switchboard_alicia::annals::{Notice, join};
use switchboard_alicia::deed::{Deed, Wishes};
use switchboard_alicia::{Body, Code};
use switchboard_core::model::{
    Failure, FailureKind, Finish, Names, Op, Origin, Output, Place, Remembered, Standing, TurnEnd,
    TurnOutcome,
};
use switchboard_core::{Pii, TurnId};

use crate::support::{World, chat, is_null, kinds, names, number, sentences, text};

fn whole() -> Wishes {
    Wishes { streaming: false, ..Wishes::default() }
}

#[test]
fn al_016_stanzas_are_contiguous_from_minus_one() {
    let mut world = World::new();
    assert_eq!(world.annals.head(), 0);
    world.run("t1");
    world.tell("t1", "One. Two. Three");
    world.complete("t1");
    let stanzas: Vec<i32> =
        world.entries.iter().filter(|entry| !entry.is_aside()).map(|entry| entry.stanza).collect();
    assert_eq!(stanzas, [-1, -2, -3, -4]);
    assert_eq!(world.annals.head(), -4);
    assert_eq!(number(world.rows.conversation(), "last_server_stanza_id"), -4);
}

#[test]
fn al_018_announcements_consume_no_stanza_and_stand_behind_the_last_one() {
    let mut world = World::new();
    world.say("t1", "first", &Wishes::default());
    world.say("t2", "second", &Wishes::default());
    world.claim("t2");
    world.say("t3", "third", &Wishes::default());
    let places: Vec<_> =
        world.entries.iter().map(|entry| (entry.stanza, entry.ordinal, entry.envelope.stanza_id)).collect();
    assert_eq!(places, [(0, 1, 0), (0, 2, 0), (-1, 0, -1), (-2, 0, -2), (-2, 1, 0)]);
    world.bodies();
}

#[test]
fn al_050_sentences_follow_their_start_and_join_to_what_is_stored() {
    let mut world = World::new();
    world.run("t1");
    for delta in ["Hel", "lo. ", "How are", " you?\n\n", "I am", " fine."] {
        world.tell("t1", delta);
    }
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 13, 16, 16, 16]);
    let Body::StartAnswer(start) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!((start.id.as_str(), start.previous_id.as_str()), ("am_t1_out", "am_t1_in"));
    assert_eq!(
        sentences(&bodies),
        [(1, "Hello.", false), (2, "How are you?", false), (3, "\n\nI am fine.", true)]
    );
    let mut joined = String::new();
    for body in &bodies {
        if let Body::AssistantSentence(sentence) = body {
            assert_eq!(sentence.previous_id, start.id);
            assert!(sentence.id.as_ref().unwrap().as_str().starts_with("ams_"));
            join(&mut joined, &sentence.text.0);
        }
    }
    let row = world.rows.message("am_t1_out");
    assert_eq!(text(row, "contents"), joined);
    assert_eq!(joined, "Hello. How are you?\n\nI am fine.");
    assert_eq!((text(row, "completion_status"), text(row, "message_role")), ("completed", "assistant"));
    assert_eq!((text(row, "previous_id"), number(row, "sequence_number")), ("am_t1_in", 2));
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_out");
    assert_eq!(world.rows.of("alicia_sentences", "message_id", "am_t1_out").len(), 3);
}

#[test]
fn al_047_sentences_name_their_answer_and_count_from_one() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "One. Two. Three. Four");
    world.complete("t1");
    let bodies = world.bodies();
    let numbers: Vec<_> = bodies
        .iter()
        .filter_map(|body| if let Body::AssistantSentence(sentence) = body { Some(sentence) } else { None })
        .map(|sentence| (sentence.previous_id.as_str(), sentence.sequence))
        .collect();
    assert_eq!(numbers, [("am_t1_out", 1), ("am_t1_out", 2), ("am_t1_out", 3), ("am_t1_out", 4)]);
}

#[test]
fn al_046_the_last_sentence_alone_is_final() {
    for text in ["One. Two.", "One. Two. ", "One", "\n"] {
        let mut world = World::new();
        world.run("t1");
        world.tell("t1", text);
        world.complete("t1");
        let bodies = world.bodies();
        let finals: Vec<bool> = sentences(&bodies).iter().map(|(_, _, last)| *last).collect();
        assert_eq!(finals.iter().filter(|last| **last).count(), 1, "{text:?}");
        assert_eq!(finals.last(), Some(&true), "{text:?}");
    }
}

#[test]
fn the_row_of_an_answer_is_there_from_its_start() {
    let mut world = World::new();
    world.run("t1");
    let row = world.rows.message("am_t1_out");
    assert_eq!((text(row, "contents"), text(row, "completion_status")), ("", "streaming"));
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_in");
}

#[test]
fn al_048_a_whole_answer_has_no_start_and_no_sentences() {
    let mut world = World::new();
    world.say("t1", "question", &whole());
    world.claim("t1");
    world.emit("t1", Output::Reasoning("Because.".to_owned()));
    world.emit("t1", remembered("amem_1", 0.9));
    world.tell("t1", "One. ");
    world.tell("t1", "Two.");
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 14, 3, 5], "memories, the answer, its thoughts");
    let Body::AssistantMessage(answer) = &bodies[2] else { panic!("{bodies:?}") };
    assert_eq!((answer.id.as_str(), answer.content.0.as_str()), ("am_t1_out", "One. Two."));
    assert_eq!(answer.superset.as_ref().map(|superset| superset.sequence_number), Some(2));
    assert_eq!(text(world.rows.message("am_t1_out"), "contents"), "One. Two.");
}

#[test]
fn an_answer_too_long_for_one_envelope_comes_in_pieces() {
    let mut world = World::new();
    world.say("t1", "question", &whole());
    world.claim("t1");
    world.emit("t1", Output::Reasoning("Because.".to_owned()));
    let long = "A sentence of some length. ".repeat(20_000);
    world.tell("t1", &long);
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies[..4]), [2, 13, 5, 16]);
    assert!(!kinds(&bodies).contains(&3));
    assert_eq!(sentences(&bodies).iter().filter(|(_, _, last)| *last).count(), 1);
    assert_eq!(text(world.rows.message("am_t1_out"), "contents"), long);
}

#[test]
fn an_answer_without_text_is_complete() {
    let mut world = World::new();
    world.run("t1");
    world.finish("t1", TurnEnd::new(TurnOutcome::Done(Finish::Empty)));
    assert_eq!(sentences(&world.bodies()), [(1, "", true)]);
    assert_eq!(text(world.rows.message("am_t1_out"), "completion_status"), "completed");
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_in", "there is nothing to follow");

    world.say("t2", "question", &whole());
    world.claim("t2");
    world.complete("t2");
    assert_eq!(kinds(&world.bodies()), [2, 3]);
}

#[test]
fn al_052_a_failure_behind_the_start_ends_the_answer_and_names_it() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "One. And th");
    world.finish("t1", TurnEnd::failed(FailureKind::ModelUnavailable, "overloaded"));
    let (bodies, notices) = world.drain();
    assert_eq!(kinds(&bodies), [2, 13, 16, 16, 16, 1]);
    assert_eq!(sentences(&bodies), [(1, "One.", false), (2, "And th", false), (3, "", true)]);
    let Body::ErrorMessage(error) = &bodies[5] else { panic!("{bodies:?}") };
    assert_eq!((error.code, error.message.0.as_str()), (502, "overloaded"));
    assert_eq!(error.originating_id.as_ref().map(|id| id.as_str()), Some("am_t1_out"));
    assert!(error.recoverable);
    let row = world.rows.message("am_t1_out");
    assert_eq!((text(row, "completion_status"), text(row, "contents")), ("failed", "One. And th"));
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_in");
    let Notice::Settled(settled) = &notices[0] else { panic!("{notices:?}") };
    assert_eq!((settled.failure, settled.streamed), (Some(Code::Provider), true));
    assert_eq!(notices[1], Notice::TurnOver { turn: "t1".into() });
}

#[test]
fn a_failure_before_the_start_names_the_question() {
    let mut world = World::new();
    world.say("t1", "question", &Wishes::default());
    world.ask(Op::Conclude {
        turn: "t1".into(),
        end: TurnEnd::new(TurnOutcome::Failed(Failure::new(FailureKind::Internal, "broken"))),
    });
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 1]);
    let Body::ErrorMessage(error) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!((error.code, error.originating_id.as_ref().map(|id| id.as_str())), (501, Some("am_t1_in")));
    assert!(world.rows.of("alicia_messages", "id", "am_t1_out").is_empty());

    world.say("t2", "question", &whole());
    world.claim("t2");
    world.tell("t2", "half");
    world.finish("t2", TurnEnd::new(TurnOutcome::Expired));
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 1]);
    let Body::ErrorMessage(error) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!((error.code, error.originating_id.as_ref().map(|id| id.as_str())), (503, Some("am_t2_in")));
    let row = world.rows.message("am_t2_out");
    assert_eq!((text(row, "completion_status"), text(row, "contents")), ("failed", "half"));
}

#[test]
fn failures_have_the_codes_of_the_table() {
    for (kind, code) in [
        (FailureKind::Execution, 502),
        (FailureKind::BadResponse, 502),
        (FailureKind::ToolNotFound, 301),
        (FailureKind::CallTimeout, 304),
        (FailureKind::WorkerLost, 501),
        (FailureKind::Overdue, 503),
        (FailureKind::Unreachable, 503),
    ] {
        let mut world = World::new();
        world.run("t1");
        world.finish("t1", TurnEnd::failed(kind, "words"));
        let bodies = world.bodies();
        let Some(Body::ErrorMessage(error)) = bodies.last() else { panic!("{bodies:?}") };
        assert_eq!(error.code, code, "{kind:?}");
    }
}

#[test]
fn al_072_after_a_stop_only_the_final_sentence_follows() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "One. Two. And thr");
    world.bodies();
    world.interrupt("t1", Some("user_clicked_stop"));
    let bodies = world.bodies();
    assert_eq!(sentences(&bodies), [(3, "And thr", true)]);
    let row = world.rows.message("am_t1_out");
    assert_eq!((text(row, "completion_status"), text(row, "contents")), ("completed", "One. Two. And thr"));
    let meta = world.rows.one("alicia_meta", "ref", "am_t1_out");
    assert_eq!((text(meta, "key"), text(meta, "value")), ("truncated", "user_clicked_stop"));
    assert!(world.annals.live_answers().all(|(_, answer)| answer.is_settled()));
    world.complete("t1");
    let (bodies, notices) = world.drain();
    assert!(bodies.is_empty(), "{bodies:?}");
    assert!(matches!(notices.last(), Some(Notice::TurnOver { .. })));
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_out");
}

#[test]
fn a_stop_before_any_text_leaves_a_failed_row() {
    let mut world = World::new();
    world.run("t1");
    world.interrupt("t1", None);
    assert_eq!(sentences(&world.bodies()), [(1, "", true)]);
    let row = world.rows.message("am_t1_out");
    assert_eq!((text(row, "completion_status"), text(row, "contents")), ("failed", ""));
    assert_eq!(text(world.rows.one("alicia_meta", "ref", "am_t1_out"), "value"), "stopped");
    world.complete("t1");

    world.say("t2", "question", &whole());
    world.claim("t2");
    world.tell("t2", "So far");
    world.interrupt("t2", None);
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 3], "{bodies:?}");
    assert_eq!(text(world.rows.message("am_t2_out"), "completion_status"), "completed");
}

#[test]
fn al_051_a_new_message_ends_the_old_answer_first_and_follows_it() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Half an ans");
    world.bodies();
    world.say("t2", "another", &Wishes::default());
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [16, 2]);
    assert_eq!(sentences(&bodies), [(1, "Half an ans", true)]);
    assert_eq!(text(world.rows.one("alicia_meta", "ref", "am_t1_out"), "value"), "superseded");
    assert_eq!(text(world.rows.message("am_t2_in"), "previous_id"), "am_t1_out");
    world.complete("t1");
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t2_in", "it is followed already");
    world.claim("t2");
    assert_eq!(kinds(&world.bodies()), [13]);
}

fn remembered(memory: &str, relevance: f64) -> Output {
    Output::Remembered(Remembered {
        memory: memory.to_owned(),
        content: "likes tea ".repeat(200),
        relevance,
        source: None,
    })
}

#[test]
fn al_053_a_memory_trace_carries_similarity_and_the_question() {
    let mut world = World::new();
    world.run("t1");
    world.emit("t1", remembered("amem_1", 0.75));
    world.emit("t1", remembered("amem_2", 7.0));
    world.emit("t1", remembered("amem_1", 0.75));
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 13, 14, 14], "once per memory, behind the start");
    let Body::MemoryTrace(trace) = &bodies[2] else { panic!("{bodies:?}") };
    assert_eq!((trace.message_id.as_str(), trace.memory_id.as_str()), ("am_t1_in", "amem_1"));
    assert_eq!((trace.relevance.get(), trace.content.0.len()), (0.75, 1_024));
    let row = world.rows.one("alicia_memory_used", "memory_id", "amem_2");
    assert_eq!((text(row, "message_id"), number(row, "position_in_results")), ("am_t1_in", 2));
    assert_eq!(row["similarity_score"].as_real(), Some(1.0));
}

#[test]
fn al_054_thoughts_carry_the_answer_unless_they_are_disabled() {
    let mut world = World::new();
    world.run("t1");
    for delta in ["First", ".\n", "\nSecond"] {
        world.emit("t1", Output::Reasoning(delta.to_owned()));
    }
    world.tell("t1", "Text.");
    world.emit("t1", Output::Reasoning("Third".to_owned()));
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 13, 5, 5, 16, 5, 16]);
    let steps: Vec<_> = bodies
        .iter()
        .filter_map(|body| if let Body::ReasoningStep(step) = body { Some(step) } else { None })
        .map(|step| (step.message_id.as_str(), step.sequence, step.content.0.as_str()))
        .collect();
    assert_eq!(steps, [("am_t1_out", 1, "First."), ("am_t1_out", 2, "Second"), ("am_t1_out", 3, "Third")]);
    assert_eq!(world.rows.of("alicia_reasoning_steps", "message_id", "am_t1_out").len(), 3);

    let preferences = serde_json::Map::from_iter([("enable_reasoning".to_owned(), false.into())]);
    world.record(&Deed::Preferred { preferences });
    world.run("t2");
    world.emit("t2", Output::Reasoning("Secret\n\n".to_owned()));
    world.complete("t2");
    assert_eq!(kinds(&world.bodies()), [2, 13, 16]);
}

#[test]
fn al_088_statistics_count_in_milliseconds() {
    let mut world = World::new();
    world.run("t1");
    world.pass(12_345);
    world.complete("t1");
    let stats = world.annals.stats(world.now);
    assert_eq!((stats.message_count, stats.session_duration), (2, 12_345));
    let row = world.rows.one("alicia_session_stats", "conversation_id", crate::support::CONVERSATION);
    assert_eq!((number(row, "message_count"), number(row, "session_duration_seconds")), (2, 12));
}

#[test]
fn a_turn_that_is_begun_again_has_one_start() {
    let mut world = World::new();
    world.run("t1");
    world.ask_as(&switchboard_core::model::Actor::server(), Op::Lose { turn: "t1".into(), continues: false });
    world.claim("t1");
    world.tell("t1", "Done.");
    world.complete("t1");
    assert_eq!(kinds(&world.bodies()), [2, 13, 16]);
}

#[test]
fn an_answer_given_again_or_gone_on_with_follows_what_is_there() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "First.");
    world.complete("t1");
    world.bodies();
    let again = |input: &str, turn: &str| Names { input: Some(input.into()), again: true, ..names(turn) };
    world.start("t2", "question", &Wishes::default(), again("am_t1_in", "t2"), Default::default());
    world.claim("t2");
    world.tell("t2", "Second.");
    world.complete("t2");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [13, 16], "nobody has said anything new");
    assert_eq!(text(world.rows.message("am_t2_out"), "previous_id"), "am_t1_in");
    assert_eq!(text(world.rows.message("am_t1_out"), "contents"), "First.");
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t2_out");

    world.start("t3", "go on", &Wishes::default(), again("am_t2_out", "t3"), Default::default());
    world.claim("t3");
    world.complete("t3");
    let bodies = world.bodies();
    let Body::StartAnswer(start) = &bodies[0] else { panic!("{bodies:?}") };
    assert_eq!(start.previous_id.as_str(), "am_t2_out");
}

#[test]
fn everything_a_traced_turn_produces_belongs_to_its_trace() {
    let mut world = World::new();
    let trace = ("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned());
    world.say("t1", "question", &Wishes { trace: Some(trace.clone()), ..Wishes::default() });
    world.claim("t1");
    world.emit("t1", remembered("amem_1", 0.9));
    world.tell("t1", "Text.");
    world.complete("t1");
    let traces: Vec<_> = world.entries.iter().skip(1).map(|entry| entry.envelope.meta.trace()).collect();
    assert_eq!(traces.len(), 3);
    for own in traces {
        let own = own.expect("a trace");
        assert_eq!(own.trace_id(), trace.0);
        assert_ne!(own.span_id(), trace.1, "it is a span of its own");
    }
}

#[test]
fn turns_of_other_protocols_are_streamed_under_derived_names() {
    let mut world = World::new();
    let mut new = chat("inv_1", "hello", Place::default());
    new.origin =
        Origin { protocol: "asp".into(), options: serde_json::json!({"streaming": false}), ..new.origin };
    world.ask(Op::StartTurn(Box::new(new)));
    world.claim("inv_1");
    world.tell("inv_1", "Hi.");
    world.complete("inv_1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 13, 16]);
    let Body::StartAnswer(start) = &bodies[1] else { panic!("{bodies:?}") };
    assert_eq!((start.id.as_str(), start.previous_id.as_str()), ("inv_1.out", "inv_1.in"));
}

#[test]
fn what_other_protocols_run_besides_is_no_part_of_the_conversation() {
    let mut world = World::new();
    let mut new = chat("inv_1", "", Place::default());
    new.request = switchboard_core::model::TurnRequest::Step {
        goal: "plan".into(),
        state: serde_json::Value::Null,
        budget: Default::default(),
    };
    world.ask(Op::StartTurn(Box::new(new)));
    world.claim("inv_1");
    world.tell("inv_1", "Hi.");
    world.complete("inv_1");
    let (bodies, notices) = world.drain();
    assert!(bodies.is_empty() && notices.is_empty(), "{bodies:?} {notices:?}");
    assert_eq!(world.annals.stats(world.now).message_count, 0);
}

#[test]
fn live_answers_are_found_until_their_turn_ends() {
    let mut world = World::new();
    world.say("t1", "question", &whole());
    let live = |world: &World| -> Vec<(TurnId, bool, bool)> {
        let answers = world.annals.live_answers();
        answers.map(|(turn, answer)| (turn.clone(), answer.is_streaming(), answer.is_opened())).collect()
    };
    assert_eq!(live(&world), [("t1".into(), false, false)]);
    world.claim("t1");
    world.complete("t1");
    assert!(live(&world).is_empty());
    world.run("t2");
    assert_eq!(live(&world), [("t2".into(), true, true)]);
    let (turn, answer) = world.annals.live_answers().next().unwrap();
    assert_eq!(
        (turn.as_str(), answer.id().as_str(), answer.question().as_str()),
        ("t2", "am_t2_out", "am_t2_in")
    );
}

#[test]
fn what_is_said_is_not_formatted() {
    let mut world = World::new();
    world.say("t1", "secret question", &Wishes::default());
    world.claim("t1");
    world.tell("t1", "A secret answer. More");
    let shown = format!("{:?} {:?} {:?}", world.annals, world.entries, world.notices);
    assert!(!shown.contains("secret"), "{shown}");
    world.complete("t1");
    let page = world.annals.clone().take(world.events.last().unwrap());
    assert!(!format!("{page:?}").contains("secret"));
    let Some(Notice::Settled(settled)) =
        world.notices.iter().find(|notice| matches!(notice, Notice::Settled(_)))
    else {
        panic!("{:?}", world.notices)
    };
    assert_eq!(settled.contents, Pii("A secret answer. More".to_owned()));
    assert!(is_null(world.rows.message("am_t1_out"), "deleted_at"));
}

#[test]
fn a_sentence_before_a_thought_is_told_before_the_thought() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "One. ");
    world.emit("t1", Output::Reasoning("Hm.".to_owned()));
    world.tell("t1", "Two.");
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 13, 16, 5, 16]);
    assert_eq!(sentences(&bodies), [(1, "One.", false), (2, "Two.", true)]);
    assert_eq!(text(world.rows.message("am_t1_out"), "contents"), "One. Two.");
}

#[test]
fn al_120_failures_of_ours_are_told_in_words_for_people() {
    for kind in [
        FailureKind::WorkerLost,
        FailureKind::Unreachable,
        FailureKind::BadResponse,
        FailureKind::Aborted,
        FailureKind::Overdue,
        FailureKind::UnknownAgent,
        FailureKind::Forbidden,
        FailureKind::SlowConsumer,
        FailureKind::Unprepared,
        FailureKind::BudgetExhausted,
        FailureKind::Internal,
    ] {
        let mut world = World::new();
        world.run("t1");
        world.finish("t1", TurnEnd::failed(kind, "the executor was lost: limit reached: answer_bytes"));
        let bodies = world.bodies();
        let Some(Body::ErrorMessage(error)) = bodies.last() else { panic!("{bodies:?}") };
        let words = error.message.0.as_str();
        for jargon in ["executor", "limit", "bytes", "session", "turn", "agent", "worker", "_"] {
            assert!(!words.contains(jargon), "{kind:?}: {words}");
        }
        assert!(words.ends_with('.') && words.contains(' '), "{words}");
    }
    // What stops an answer is kept beside it, in such words too.
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "One. ");
    world.ask(Op::Stand(Standing::Archived));
    let truncated = world.rows.one("alicia_meta", "key", "truncated");
    assert_eq!(text(truncated, "value"), "the conversation was archived");
}
