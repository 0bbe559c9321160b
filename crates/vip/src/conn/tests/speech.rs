//! What is said, and how far it was heard.

use super::*;
use crate::minutes::tables;

#[test]
fn vip_028_nothing_is_heard_while_the_user_speaks() {
    let mut stage = Stage::new(|settings, _| settings.activate_on = "connect".to_owned());
    let response = stage.response();
    stage.feed(Input::Voice(packet(response, 0)));
    assert_eq!(stage.frames.len(), 1);
    let turn = Some("t-1");
    stage.send("input.barge_in", turn, json!({ "trigger": "manual", "played_ms": 10, "stream_id": 1 }));
    assert!(stage.voice.contains(&VoiceOp::Hush { response }));
    // The voice may learn of it late; the user must not hear that.
    stage.feed(Input::Voice(packet(response, 20)));
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 40 }));
    assert_eq!(stage.frames.len(), 1);
    let said = stage.said();
    assert_eq!(said.iter().filter(|event| event["type"] == "response.done").count(), 1);
    assert_eq!(said.last().unwrap()["data"]["status"], "incomplete");
}

#[test]
fn vip_038_what_is_not_interruptible_is_heard_to_its_end_but_not_for_ever() {
    let mut stage = Stage::new(|settings, service| {
        settings.activate_on = "connect".to_owned();
        service.introduction_interruptible = false;
    });
    let response = stage.response();
    let said = stage.said();
    let announced = said.iter().find(|event| event["type"] == "server.announce").unwrap();
    assert_eq!(announced["data"]["interruptible"], false);
    stage.feed(Input::Voice(packet(response, 0)));
    stage.said();
    for trigger in ["vad", "manual"] {
        stage.send("input.barge_in", Some("t-1"), json!({ "trigger": trigger, "played_ms": 0 }));
        let said = stage.said();
        assert_eq!(kinds(&said), ["error.recoverable"]);
        assert_eq!(said[0]["data"]["code"], "PROTO_NOT_INTERRUPTIBLE");
        assert_eq!(stage.connection.state(), State::AiSpeaking);
    }
    // Nor does it help to begin as if nobody were speaking.
    stage.send_since(1, "input.start", Some("t-1"), json!({ "trigger": "ptt", "stream_id": 1 }));
    assert_eq!(stage.codes(), ["PROTO_NOT_INTERRUPTIBLE"]);
    assert_eq!(stage.connection.state(), State::AiSpeaking);
    stage.feed(Input::Voice(packet(response, 15_000)));
    stage.send("input.barge_in", Some("t-1"), json!({ "trigger": "manual", "played_ms": 15_000 }));
    assert_eq!(stage.connection.state(), State::UserSpeaking);
}

#[test]
fn what_others_are_answered_is_announced_once_it_is_complete() {
    let mut stage = Stage::new(|_, _| {});
    let ended = |turn: &TurnId, end: TurnEnd| Event::TurnEnded { turn: turn.clone(), end: Box::new(end) };
    let said = |turn: &TurnId, text: &str| {
        let output = model::Output::Text(text.to_owned());
        Event::TurnOutput { turn: turn.clone(), output }
    };
    for (name, end) in
        [("stopped", TurnEnd::new(TurnOutcome::Interrupted { abandoned: false })), ("t", TurnEnd::complete())]
    {
        let turn = TurnId::from(name);
        stage.commit(samples::accepted(&turn, "asp"));
        stage.commit(said(&turn, "Half a "));
        stage.commit(said(&turn, "word."));
        stage.said();
        stage.commit(ended(&turn, end));
    }
    let told = stage.said();
    assert_eq!(kinds(&told), ["server.announce", "state.changed"], "{told:?}");
    assert_eq!(told[0]["data"]["content"], "Half a word.");
    assert_eq!(told[0]["data"]["reason"], "notification");
}

#[test]
fn what_was_heard_of_an_answer_is_put_right_once_its_turn_is_over() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    let turn = stage.turn.clone().unwrap();
    let output = model::Output::Text("A whole sentence. And another one. And a third. ".to_owned());
    stage.commit(Event::TurnOutput { turn: turn.clone(), output });
    stage.feed(Input::Voice(packet(stage.response(), 0)));
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 10 }));
    let edits = |stage: &Stage| stage.ops.iter().filter(|op| matches!(op, Op::Edit { .. })).count();
    assert_eq!(edits(&stage), 0, "it is still being written");
    let end = Box::new(TurnEnd::new(TurnOutcome::Interrupted { abandoned: false }));
    stage.commit(Event::TurnEnded { turn, end });
    assert_eq!(edits(&stage), 1);
}

/// Speaking, with the answer complete and so much of it sent.
fn answered(millis: u64) -> (Stage, u64) {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("One two three. Four five six. ");
    stage.end_turn(TurnEnd::complete());
    let response = stage.response();
    for (text, from_ms, to_ms) in [("One two three.", 0, 1_000), ("Four five six.", 1_000, 2_000)] {
        let text = Pii(text.to_owned());
        stage.feed(Input::Voice(VoiceEvent::Sentence { response, text, from_ms, to_ms, took_ms: 5 }));
    }
    for offset_ms in (0..millis).step_by(20) {
        stage.feed(Input::Voice(packet(response, offset_ms)));
    }
    stage.said();
    (stage, response)
}

fn spoken(stage: &Stage) -> Vec<(String, bool)> {
    let minutes = stage.recorded();
    let spoken = minutes.iter().filter_map(|minute| minute.get("spoken"));
    spoken
        .map(|spoken| (spoken["text"].as_str().unwrap().to_owned(), spoken["complete"].as_bool().unwrap()))
        .collect()
}

#[test]
fn vip_035_an_interrupted_answer_is_on_record_as_far_as_it_was_heard() {
    for (played, heard) in [
        (999, "One two"),
        (1_000, "One two three."),
        (1_800, "One two three. Four five"),
        // Nobody has heard more than was sent.
        (9_000, "One two three. Four five six."),
    ] {
        let (mut stage, _) = answered(2_000);
        stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": played }));
        let said = stage.said();
        assert_eq!(kinds(&said), ["state.changed", "audio.interrupted", "response.done"]);
        assert_eq!(said[1]["data"]["spoken_text"], heard, "{played}");
        assert_eq!(said[1]["data"]["truncated_at_ms"], played.min(2_000));
        assert_eq!(spoken(&stage), [(heard.to_owned(), false)]);
    }
}

#[test]
fn an_interruption_after_the_last_packet_cuts_what_was_not_heard() {
    let (mut stage, response) = answered(2_000);
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 2_000 }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["audio.end", "response.done"]);
    assert_eq!(
        (&said[0]["data"]["duration_ms"], &said[1]["data"]["status"]),
        (&json!(2_000), &json!("complete"))
    );
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 1_000 }));
    // It was ended once, and is not again (VIP-070), whatever comes of it.
    assert_eq!(kinds(&stage.said()), ["state.changed", "audio.interrupted"]);
    assert_eq!(spoken(&stage), [("One two three.".to_owned(), false)]);

    let (mut stage, response) = answered(2_000);
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 2_000 }));
    let sent = stage.frames.len();
    stage.feed(Input::Voice(packet(response, 2_000)));
    assert_eq!(stage.frames.len(), sent, "nothing follows the end (VIP-069)");
    stage.said();
    stage.send("session.close", None, json!({ "reason": "app" }));
    assert!(!kinds(&stage.said()).contains(&"response.done"));

    let (mut stage, response) = answered(2_000);
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 2_000 }));
    stage.said();
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 2_000 }));
    assert_eq!(kinds(&stage.said()), ["state.changed"], "there was nothing left to cut");
    assert_eq!(spoken(&stage), [("One two three. Four five six. ".to_owned(), true)]);
}

#[test]
fn vip_071_playback_is_over_when_the_client_says_so_or_does_not_for_too_long() {
    let (mut stage, response) = answered(2_000);
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 2_000 }));
    stage.said();
    stage.send("audio.complete", None, json!({ "response_id": "r-9.9", "played_ms": 2_000 }));
    assert_eq!(stage.state(), State::AiSpeaking, "that is another one");
    stage.pass(6_999);
    assert!(stage.said().is_empty());
    stage.pass(1);
    assert_eq!(stage.one("state.changed")["data"]["trigger"], "audio.complete");
    assert_eq!(spoken(&stage), [("One two three. Four five six. ".to_owned(), true)]);

    let (mut stage, response) = answered(2_000);
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 2_000 }));
    let id = stage.one("response.done")["data"]["response_id"].clone();
    stage.send("audio.complete", None, json!({ "response_id": id, "played_ms": 2_000 }));
    assert_eq!(stage.state(), State::Idle);
}

#[test]
fn a_voice_that_never_begins_does_not_keep_the_floor() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    let turn = stage.turn.clone().unwrap();
    stage.words("A whole sentence. And another one. And a third. ");
    stage.said();
    stage.pass(19_999);
    assert_eq!(stage.state(), State::AiSpeaking);
    stage.pass(1);
    assert_eq!(kinds(&stage.said()), ["audio.end", "response.done", "state.changed"]);
    // And the agent need not go on.
    assert_eq!((stage.state(), stage.stopped()), (State::Idle, vec![turn]));
}

#[test]
fn vip_090_an_answer_without_a_sound_has_its_end_and_nobody_waits_for_it() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "celebrate");
    stage.words("🎉🎉🎉");
    stage.end_turn(TurnEnd::complete());
    let response = stage.response();
    assert_eq!(stage.one("response.audio")["data"]["modality"], "audio");
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 0 }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["audio.end", "response.done"]);
    assert_eq!(said[0]["data"]["duration_ms"], 0);
    assert_eq!(said[0]["data"]["response_id"], said[1]["data"]["response_id"]);
    // And so has one whose voice fails before its first sound.
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("Yes.");
    stage.end_turn(TurnEnd::complete());
    let response = stage.response();
    stage.said();
    let why = switchboard_core::Dumb::Failed("no".to_owned());
    stage.feed(Input::Voice(VoiceEvent::Mute { response, why }));
    assert_eq!(kinds(&stage.said()), ["error.recoverable", "audio.end", "response.done"]);
    // Where no sound was announced, there is no end of it.
    let mut silent = Stage::new(|_, service| service.speech.speaks = false);
    silent.type_in("t-1", "tell me");
    silent.words("Yes.");
    silent.end_turn(TurnEnd::complete());
    let said = silent.said();
    let answer = said.iter().find(|event| event["type"] == "response.audio").unwrap();
    assert_eq!(answer["data"]["modality"], "text");
    assert!(!kinds(&said).contains(&"audio.end"));
}

/// What a session keeps of everything that a transport has put on record, and the history that comes of it.
fn kept(stage: &Stage, more: &[Event]) -> Vec<Value> {
    let mut minutes = Minutes::new(&SessionId::new(SESSION));
    let events = std::iter::once(recorded(json!(stage.recorded()))).chain(more.iter().cloned());
    let records = events.flat_map(|event| {
        minutes.take(&Committed { position: Position::default(), at: Timestamp::default(), event })
    });
    let history = records.filter(|record| record.table == tables::HISTORY.name);
    let item = tables::HISTORY.column("item").unwrap();
    history.map(|record| serde_json::from_str(record.cells[item].1.as_text().unwrap()).unwrap()).collect()
}

#[test]
fn vip_095_what_was_heard_of_an_answer_is_kept_when_the_server_dies() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("One two three four. Five six seven eight. Nine ten. ");
    let response = stage.response();
    let sentence = |text: &str, from_ms: u64| VoiceEvent::Sentence {
        response,
        text: Pii(text.to_owned()),
        from_ms,
        to_ms: from_ms + 2_000,
        took_ms: 1,
    };
    stage.feed(Input::Voice(sentence("One two three four.", 0)));
    stage.feed(Input::Voice(sentence("Five six seven eight.", 2_000)));
    for number in 0..200 {
        stage.feed(Input::Voice(packet(response, number * 20)));
    }
    stage.pass(3_100);
    // The server dies, and what it has put on record is all there is. The client comes back.
    let again = [
        recorded(json!([Minute::Opened { arrival: Arrival { process: "next".to_owned(), number: 1 } }])),
        recorded(json!([Minute::Connected { resume: None }])),
    ];
    let heard = |history: &[Value]| {
        let told = history.iter().filter(|item| item["role"] == "assistant" && item["kind"] == "message");
        told.map(|item| (item["text"].clone(), item["status"].clone(), item["turn_id"].clone()))
            .collect::<Vec<_>>()
    };
    let cut = (json!("One two three four. Five six"), json!("incomplete"), json!("t-1"));
    assert_eq!(heard(&kept(&stage, &again)), std::slice::from_ref(&cut));
    // Or nobody does.
    let gone =
        Event::AttachmentDetached { attachment: format!("{SESSION}.app").as_str().into(), generation: 1 };
    assert_eq!(heard(&kept(&stage, &[gone])), [cut]);
    // One that was heard to its end is whole, and there once.
    stage.end_turn(TurnEnd::complete());
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 4_000 }));
    stage.pass(1_000);
    let id = stage.connection.response.as_ref().unwrap().id.clone();
    stage.send("audio.complete", None, json!({ "response_id": id, "played_ms": 4_000 }));
    let whole = json!("One two three four. Five six seven eight. Nine ten. ");
    assert_eq!(heard(&kept(&stage, &again)), [(whole, json!("complete"), json!("t-1"))]);
}

#[test]
fn a_voice_that_is_lost_leaves_the_words() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    let response = stage.response();
    stage.said();
    // What belongs to another response is nobody's business.
    stage.feed(Input::Voice(packet(response + 1, 0)));
    assert!(stage.frames.is_empty() && stage.said().is_empty());
    let why = switchboard_core::Dumb::Unavailable("install the package flite".to_owned());
    stage.feed(Input::Voice(VoiceEvent::Mute { response, why }));
    let lost = stage.one("error.recoverable");
    assert_eq!(lost["data"]["code"], "PROV_TTS_FAILED");
    assert!(!lost.to_string().contains("flite"), "that is for who runs the server (VIP-093)");
    let asked = stage.voice.len();
    stage.words("More. ");
    stage.end_turn(TurnEnd::complete());
    let said = stage.said();
    assert_eq!(kinds(&said), ["response.text.delta", "audio.end", "response.done"]);
    assert_eq!((&said[2]["data"]["status"], stage.voice.len()), (&json!("complete"), asked));
}

#[test]
fn vip_069_an_answer_that_fails_on_the_way_has_its_end_and_is_not_complete() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    let response = stage.response();
    stage.feed(Input::Voice(packet(response, 0)));
    stage.end_turn(TurnEnd::failed(model::FailureKind::Execution, "no"));
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 20 }));
    let said = stage.said();
    let place = |kind: &str| kinds(&said).iter().position(|known| *known == kind).unwrap();
    assert!(place("response.audio") < place("audio.start") && place("audio.end") < place("response.done"));
    assert_eq!(said[place("response.done")]["data"]["status"], "failed");
    stage.pass(10_000);
    assert_eq!((stage.state(), spoken(&stage)[0].1), (State::Idle, false));
}

#[test]
fn progress_counts_for_the_response_that_it_names() {
    let (mut stage, _) = answered(2_000);
    stage.send("audio.progress", None, json!({ "response_id": "r-9.9", "played_ms": 1_900 }));
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    assert_eq!(stage.one("audio.interrupted")["data"]["truncated_at_ms"], 0);
    let (mut stage, _) = answered(2_000);
    let id = stage.connection.spoken_response();
    stage.send("audio.progress", None, json!({ "response_id": id, "played_ms": 1_000 }));
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    assert_eq!(stage.one("audio.interrupted")["data"]["truncated_at_ms"], 1_000);
}

#[test]
fn whoever_wants_to_read_is_not_spoken_to() {
    let mut stage = Stage::new(|_, _| {});
    // The microphone is another matter.
    stage.send("control.mute", None, json!({ "target": "input", "muted": true }));
    stage.type_in("t-1", "tell me");
    stage.words("Yes.");
    stage.end_turn(TurnEnd::complete());
    assert_eq!(stage.one("response.audio")["data"]["modality"], "audio");
    stage.feed(Input::Voice(VoiceEvent::Said { response: stage.response(), duration_ms: 0 }));
    stage.pass(10_000);
    stage.send("control.mute", None, json!({ "target": "output", "muted": true }));
    stage.said();
    let asked = stage.voice.len();
    stage.type_in("t-2", "tell me");
    stage.words("Yes.");
    stage.end_turn(TurnEnd::complete());
    let said = stage.said();
    let answer = said.iter().find(|event| event["type"] == "response.audio").unwrap();
    assert_eq!((&answer["data"]["modality"], &answer["data"]["stream_id"]), (&json!("text"), &Value::Null));
    assert_eq!(stage.voice.len(), asked);
}

#[test]
fn an_agent_gets_the_time_of_a_sentence_to_act_before_it_speaks() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "switch the lamp on");
    stage.words("I will do that. ");
    stage.said();
    stage.pass(799);
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    assert_eq!(kinds(&stage.said()), ["action.invoke", "state.changed"]);
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("I will do that. ");
    stage.said();
    stage.pass(800);
    assert_eq!(stage.state(), State::AiSpeaking);
    // Who has said more than that has begun to answer.
    for words in ["One. Two. ".to_owned(), "x".repeat(161)] {
        let mut stage = Stage::new(|_, _| {});
        stage.type_in("t-1", "tell me");
        stage.words(&words);
        assert_eq!(stage.state(), State::AiSpeaking, "{words}");
    }
}

#[test]
fn an_answer_that_is_a_question_expects_a_reply() {
    for (words, expects) in [("Shall I? ", json!(true)), ("I shall. ", json!(false))] {
        let mut stage = Stage::new(|_, _| {});
        stage.type_in("t-1", "tell me");
        stage.words(words);
        stage.end_turn(TurnEnd::complete());
        assert_eq!(stage.one("response.audio")["data"]["expects_reply"], expects);
    }
}

#[test]
fn a_voice_may_pause_between_two_sentences_but_not_for_ever() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    stage.feed(Input::Voice(packet(stage.response(), 0)));
    stage.said();
    stage.pass(20_019);
    assert_eq!(stage.state(), State::AiSpeaking);
    stage.pass(1);
    assert_eq!(kinds(&stage.said()), ["audio.end", "response.done", "state.changed"]);
}

#[test]
fn what_is_read_is_not_over_because_something_before_was_not_heard_out() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    stage.send("input.cancel", Some("t-2"), json!({ "reason": "user" }));
    stage.send("control.mute", None, json!({ "target": "output", "muted": true }));
    stage.type_in("t-3", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    stage.pass(60_000);
    assert_eq!(stage.state(), State::AiSpeaking, "it is still being written");
}

#[test]
fn there_is_an_end_to_what_is_followed_of_others() {
    let mut stage = Stage::new(|_, _| {});
    let turns: Vec<TurnId> = (0..65).map(|number| TurnId::from(format!("turn-{number}").as_str())).collect();
    for turn in &turns {
        stage.commit(samples::accepted(turn, "asp"));
    }
    stage.said();
    for turn in [&turns[64], &turns[63]] {
        let output = model::Output::Text(format!("News of {turn}."));
        stage.commit(Event::TurnOutput { turn: turn.clone(), output });
        stage.commit(Event::TurnEnded { turn: turn.clone(), end: Box::new(TurnEnd::complete()) });
    }
    assert_eq!(stage.one("server.announce")["data"]["content"], "News of turn-63.");
}

#[test]
fn an_answer_that_was_cut_short_is_still_one() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("As far as it goes");
    stage.end_turn(TurnEnd::new(TurnOutcome::Done(model::Finish::Length)));
    assert_eq!(stage.one("response.audio")["data"]["content"], "As far as it goes");
}

#[test]
fn the_voice_is_told_what_has_changed_before_it_speaks_again() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.send("input.cancel", Some("t-1"), json!({ "reason": "user" }));
    stage.send("session.update", None, json!({ "locale": "de-DE" }));
    stage.take_floor("t-2");
    let languages: Vec<String> = stage
        .voice
        .iter()
        .filter_map(|op| match op {
            VoiceOp::Settle(settings) => Some(settings.language.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(languages, ["en-US", "de-DE"]);
}

#[test]
fn announcements_wait_for_their_turn_and_only_the_latest_do() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    for number in 0..9 {
        let turn = TurnId::from(format!("turn-{number}").as_str());
        stage.commit(samples::accepted(&turn, "asp"));
        let output = model::Output::Text(format!("News {number}."));
        stage.commit(Event::TurnOutput { turn: turn.clone(), output });
        stage.commit(Event::TurnEnded { turn, end: Box::new(TurnEnd::complete()) });
    }
    assert!(!kinds(&stage.said()).contains(&"server.announce"), "nobody is interrupted by news");
    stage.send("input.cancel", Some("t-1"), json!({ "reason": "user" }));
    assert_eq!(stage.one("server.announce")["data"]["content"], "News 1.");
}

#[test]
fn vip_033_what_waits_to_be_sent_is_dropped_with_an_interruption() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    let response = stage.response();
    stage.said();
    // The audio is handed over faster than anybody takes it.
    for offset_ms in [0, 20, 40] {
        stage.connection.handle_input(Input::Voice(packet(response, offset_ms)), stage.now).unwrap();
    }
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 60 }));
    assert!(stage.frames.is_empty());
    assert_eq!(stage.one("audio.interrupted")["data"]["truncated_at_ms"], 0, "none of it was ever sent");
}
