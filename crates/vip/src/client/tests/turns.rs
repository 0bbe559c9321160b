use super::*;
use crate::error::Code;

fn barge_in(rig: &Rig) -> (Head, InputBargeIn) {
    let found = rig.sent.iter().rev().find_map(|(head, event)| {
        if let ClientEvent::InputBargeIn(barge_in) = event {
            Some((head.clone(), barge_in.clone()))
        } else {
            None
        }
    });
    found.expect("an interruption")
}

#[test]
fn a_spoken_turn_is_announced_carried_and_ended() {
    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.drain();
    assert_eq!((rig.said(), rig.client.state()), (vec!["input.start"], State::UserSpeaking));
    let turn_id = rig.sent[0].0.turn_id.clone().unwrap();
    assert!(rig.events.contains(&Event::Listening { turn_id: turn_id.clone() }));
    rig.go(State::UserSpeaking, "input.start");
    for _ in 0..3 {
        assert!(rig.client.hear(&packet(), rig.now));
    }
    rig.pass(60);
    rig.client.stop(InputEndReason::PttRelease, rig.now).unwrap();
    rig.drain();
    let numbers: Vec<(u32, u32, bool)> =
        rig.frames.iter().map(|frame| (frame.seq, frame.offset_ms, frame.end)).collect();
    assert_eq!(numbers, [(0, 0, false), (1, 20, false), (2, 40, false), (3, 60, true)]);
    assert!(rig.frames.iter().all(|frame| frame.direction == Direction::Input && !frame.monitor));
    let (head, ClientEvent::InputEnd(end)) = rig.sent.last().unwrap() else { panic!("an end") };
    assert_eq!((head.turn_id.as_deref(), end.duration_ms), (Some(turn_id.as_str()), Some(60)));
    assert_eq!(
        (rig.client.state(), rig.events.last()),
        (State::AiThinking, Some(&changed(State::UserSpeaking, State::AiThinking)))
    );
    assert!(rig.events.contains(&Event::NotListening));
    rig.go(State::AiThinking, "input.end");
    assert!(!rig.client.hear(&packet(), rig.now));
}

fn changed(previous: State, state: State) -> Event {
    Event::State(Changed { state, previous })
}

#[test]
fn vip_026_what_was_detected_is_told_before_what_it_leads_to() {
    let mut rig = Rig::idle();
    rig.client.speech(0.9, Some(-20.0), rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.detected", "input.start"]);
    let mut rig = Rig::speaking();
    rig.client.speech(0.9, None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.detected", "input.barge_in"]);
    let mut rig = Rig::thinking();
    rig.client.speech(1.5, None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.detected", "input.barge_in"]);
    // In a turn it is a notice only.
    rig.client.speech(0.9, None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said().last(), Some(&"input.detected"));
}

#[test]
fn vip_027_the_microphone_goes_nowhere_while_nobody_has_the_floor() {
    let mut rig = Rig::idle();
    assert!(!rig.client.hear(&packet(), rig.now));
    rig.drain();
    assert!(rig.frames.is_empty() && rig.sent.is_empty());
    for rig in [Rig::thinking(), Rig::speaking()] {
        let mut rig = rig;
        assert!(!rig.client.hear(&packet(), rig.now));
    }
    // Not even in a turn that was typed, or while it is switched off.
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.client.mute(MuteTarget::Input, true, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.start", "input.cancel", "control.mute"]);
    assert!(!rig.client.hear(&packet(), rig.now));
    assert_eq!(rig.client.listen(InputStartTrigger::Ptt, rig.now), Err(CommandError::NoMicrophone));
}

#[test]
fn the_server_overhears_only_where_that_was_agreed() {
    let mut answer = connected();
    answer.turn_detection.kind = DetectionType::ServerVad;
    let mut rig = Rig::idle_as(ClientConfig::new("vs_1"), answer);
    assert!(!rig.client.hear(&packet(), rig.now));
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    assert!(rig.client.hear(&packet(), rig.now));
    rig.respond("r-1", |_| {});
    assert!(rig.client.hear(&packet(), rig.now));
    rig.drain();
    assert!(rig.frames.iter().all(|frame| frame.monitor) && rig.frames.len() == 2);
    // Nor is a microphone that is off overheard.
    rig.client.mute(MuteTarget::Input, true, rig.now).unwrap();
    assert!(!rig.client.hear(&packet(), rig.now));
    rig.client.mute(MuteTarget::Input, false, rig.now).unwrap();
    assert_eq!(rig.frames[0].stream, rig.frames[1].stream);
    // The turn that follows has a stream of its own.
    rig.say_as(rig.seq + 1, ServerEvent::InputBargeIn(overheard()), |head| head.turn_id = Some("t-s".into()));
    rig.seq += 1;
    assert!(rig.client.hear(&packet(), rig.now));
    rig.drain();
    let last = rig.frames.last().unwrap();
    assert!(!last.monitor && last.stream != rig.frames[0].stream && last.seq == 0);
}

fn overheard() -> InputBargeIn {
    InputBargeIn {
        trigger: BargeInTrigger::Vad,
        origin: Origin::Server,
        response_id: Some("r-1".into()),
        played_ms: None,
        stream_id: None,
        preroll_ms: 0,
        confidence: Some(0.8),
    }
}

#[test]
fn vip_031_playback_stops_before_anybody_is_told() {
    let mut rig = Rig::speaking();
    rig.client.interrupt(rig.now).unwrap();
    let first = rig.client.poll_output();
    assert_eq!(first, Output::Event(Event::Silence { response_id: "r-1".into() }));
    rig.drain();
    assert_eq!((rig.said(), rig.client.state()), (vec!["input.barge_in"], State::UserSpeaking));
    // What is still under way is not played.
    rig.play(40_000, 200, 20);
    assert!(!rig.events.iter().any(|event| matches!(event, Event::Play(_))));
    // The same if the server noticed first.
    let mut rig = Rig::speaking();
    rig.seq += 1;
    rig.say_as(rig.seq, ServerEvent::InputBargeIn(overheard()), |head| {
        head.turn_id = Some("t-server".into())
    });
    assert_eq!(rig.events.first(), Some(&Event::Silence { response_id: "r-1".into() }));
    let (head, told) = barge_in(&rig);
    assert_eq!((head.turn_id.as_deref(), told.origin), (Some("t-server"), Origin::Client));
}

#[test]
fn vip_032_an_interruption_says_how_much_was_heard() {
    let mut rig = Rig::speaking();
    rig.client.played("r-1", 120, rig.now);
    rig.pass(30);
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    let (_, told) = barge_in(&rig);
    assert_eq!((told.response_id.as_deref(), told.played_ms), (Some("r-1"), Some(150)));
    // Never more than there was.
    let mut rig = Rig::speaking();
    rig.pass(10_000);
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    assert_eq!(barge_in(&rig).1.played_ms, Some(200));
    // Nothing was heard of what is only thought about.
    let mut rig = Rig::thinking();
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    assert_eq!((barge_in(&rig).1.played_ms, barge_in(&rig).1.response_id), (None, None));
}

#[test]
fn what_cannot_be_interrupted_is_not() {
    let mut rig = Rig::thinking();
    rig.respond("r-1", |response| response.interruptible = false);
    rig.forget();
    assert_eq!(rig.client.interrupt(rig.now), Err(CommandError::NotInterruptible));
    assert_eq!(rig.client.speech(0.9, None, rig.now), Err(CommandError::NotInterruptible));
    rig.drain();
    assert_eq!(rig.said(), ["input.detected"]);
    let mut rig = Rig::idle();
    assert_eq!(rig.client.interrupt(rig.now), Err(CommandError::State(State::Idle)));
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    rig.go(State::InvokeAction, "response.tool");
    assert_eq!(rig.client.interrupt(rig.now), Err(CommandError::State(State::InvokeAction)));
}

#[test]
fn vip_024_the_state_of_the_server_is_believed() {
    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.client.state(), State::UserSpeaking);
    rig.state = State::InvokeAction;
    rig.state_seq = 17;
    rig.refuse(Code::ProtoInvalidTransition);
    assert_eq!(rig.client.state(), State::InvokeAction);
    assert!(rig.events.contains(&Event::NotListening));
    assert!(rig.events.contains(&changed(State::UserSpeaking, State::InvokeAction)));
    // From then on its numbers are used.
    rig.client.mute(MuteTarget::Output, true, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.sent.last().unwrap().0.state_seq, 17);
}

#[test]
fn typing_is_a_turn_of_its_own() {
    let mut rig = Rig::idle();
    rig.client.say("hello", rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.start", "input.text", "input.end"]);
    let ClientEvent::InputStart(start) = &rig.sent[0].1 else { panic!("a start") };
    assert_eq!(
        (start.mode, start.trigger, start.stream_id),
        (InputMode::Text, InputStartTrigger::Text, None)
    );
    assert_eq!(rig.client.state(), State::AiThinking);
    assert!(!rig.client.hear(&packet(), rig.now));

    let mut rig = Rig::speaking();
    rig.client.say("stop", rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.barge_in", "input.cancel", "input.start", "input.text", "input.end"]);
    assert_eq!(rig.client.say(&"x".repeat(4097), rig.now), Err(CommandError::TooLong));
    let turns: Vec<_> = rig.sent.iter().map(|(head, _)| head.turn_id.clone()).collect();
    assert!(turns[0] == turns[1] && turns[1] != turns[2] && turns[2] == turns[4]);
}

#[test]
fn being_quiet_is_an_interruption_without_a_turn() {
    let mut rig = Rig::speaking();
    rig.client.quiet(rig.now).unwrap();
    rig.drain();
    assert_eq!((rig.said(), rig.client.state()), (vec!["input.barge_in", "input.cancel"], State::Idle));
    rig.go(State::UserSpeaking, "input.barge_in");
    assert_eq!(rig.client.state(), State::Idle);
    rig.go(State::Idle, "input.cancel");
    assert_eq!(rig.client.state(), State::Idle);
}

#[test]
fn nobody_speaking_in_time_is_told() {
    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::WakeWord, rig.now).unwrap();
    rig.drain();
    rig.go(State::UserSpeaking, "input.start");
    rig.pass(7_999);
    assert_eq!(rig.said(), ["input.start"]);
    rig.pass(1);
    assert_eq!(rig.said(), ["input.start", "input.timeout"]);
    assert_eq!(rig.client.state(), State::Idle);

    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::WakeWord, rig.now).unwrap();
    rig.client.speech(0.9, None, rig.now).unwrap();
    rig.drain();
    rig.pass(60_000);
    assert!(!rig.said().contains(&"input.timeout"));
}

#[test]
fn vip_084_without_a_microphone_the_user_types() {
    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.client.lose_microphone(rig.now);
    rig.drain();
    assert_eq!(rig.said(), ["input.start", "error.recoverable", "input.cancel"]);
    let ClientEvent::Error(error) = &rig.sent[1].1 else { panic!("an error") };
    assert_eq!(error.code, "REC_MIC_UNAVAILABLE");
    assert_eq!(rig.client.listen(InputStartTrigger::Ptt, rig.now), Err(CommandError::NoMicrophone));
    assert_eq!(rig.client.say("typed instead", rig.now), Ok(()));
}

#[test]
fn vip_082_every_state_is_told_to_the_app() {
    let mut rig = Rig::idle();
    let tour = [
        (State::UserSpeaking, "input.start"),
        (State::AiThinking, "input.end"),
        (State::InvokeAction, "response.tool"),
        (State::AiThinking, "action.result"),
        (State::AiSpeaking, "response.audio"),
        (State::Idle, "audio.complete"),
    ];
    for (state, trigger) in tour {
        rig.go(state, trigger);
    }
    rig.input(Input::Closed(None));
    let states: Vec<State> = rig
        .events
        .iter()
        .filter_map(|event| if let Event::State(changed) = event { Some(changed.state) } else { None })
        .collect();
    let expected: Vec<State> = tour.iter().map(|(state, _)| *state).chain([State::NotConnected]).collect();
    assert_eq!(states, expected);
}

#[test]
fn vip_021_states_have_their_names_on_the_wire() {
    let names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
    assert_eq!(
        names,
        [
            "not_connected",
            "connecting",
            "idle",
            "user_speaking",
            "ai_thinking",
            "ai_speaking",
            "invoke_action"
        ]
    );
}

#[test]
fn audio_travels_as_text_where_that_was_agreed() {
    let mut answer = connected();
    answer.audio.framing = Framing::Base64;
    let mut rig = Rig::idle_as(ClientConfig::new("vs_1"), answer);
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    assert!(rig.client.hear(&packet(), rig.now));
    rig.drain();
    assert!(rig.frames.is_empty());
    let ClientEvent::AudioChunk(chunk) = &rig.sent.last().unwrap().1 else { panic!("a chunk") };
    assert_eq!((chunk.stream_id, chunk.seq, chunk.audio.len()), (1, 0, 640));
    // Half a sample is none.
    assert!(!rig.client.hear(&Bytes::from_static(&[1]), rig.now));
}
