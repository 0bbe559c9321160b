use super::*;

fn end(rig: &mut Rig, duration_ms: u64) {
    let end = AudioEnd { response_id: "r-1".into(), stream_id: 40_000, duration_ms };
    rig.say(ServerEvent::AudioEnd(end));
}

fn done(rig: &mut Rig, id: &str) {
    rig.say(ServerEvent::ResponseDone(Box::new(ResponseDone {
        response_id: id.into(),
        status: ResponseStatus::Complete,
        text: Some("Hello.".into()),
        usage: None,
        latency_metrics: None,
        model_id: None,
    })));
}

fn completes(rig: &Rig) -> Vec<AudioComplete> {
    let completes = rig.sent.iter().filter_map(|(_, event)| {
        if let ClientEvent::AudioComplete(complete) = event { Some(complete.clone()) } else { None }
    });
    completes.collect()
}

#[test]
fn vip_071_the_end_of_playback_is_told_once() {
    let mut rig = Rig::speaking();
    rig.play(40_000, 200, 100);
    assert!(matches!(rig.events.last(), Some(Event::Play(sound)) if sound.offset_ms == 200));
    // Not before everything has come.
    let early = rig.client.played_out("r-1", 200, PlaybackStatus::Played, rig.now);
    assert_eq!(early, Err(CommandError::State(State::AiSpeaking)));
    end(&mut rig, 300);
    done(&mut rig, "r-1");
    assert!(rig.events.contains(&Event::LastPlayed { response_id: "r-1".into(), duration_ms: 300 }));
    assert!(completes(&rig).is_empty());
    rig.client.played_out("r-1", 300, PlaybackStatus::Played, rig.now).unwrap();
    rig.client.played_out("r-1", 300, PlaybackStatus::Played, rig.now).unwrap();
    rig.drain();
    assert_eq!(completes(&rig).len(), 1);
    assert_eq!((completes(&rig)[0].played_ms, completes(&rig)[0].status), (300, PlaybackStatus::Played));
    assert_eq!(rig.client.state(), State::Idle);
    rig.go(State::Idle, "audio.complete");
    assert_eq!(rig.said(), ["audio.complete"]);
}

#[test]
fn a_loudspeaker_that_fails_ends_playback_too() {
    let mut rig = Rig::speaking();
    rig.client.played_out("r-1", 40, PlaybackStatus::Failed, rig.now).unwrap();
    rig.drain();
    assert_eq!((completes(&rig)[0].played_ms, completes(&rig)[0].status), (40, PlaybackStatus::Failed));
}

#[test]
fn words_that_are_known_in_the_beginning_are_shown_too() {
    let mut rig = Rig::thinking();
    rig.respond("r-2", |response| response.content = Some("All of it.".into()));
    let known = ResponseTextDelta { response_id: "r-2".into(), text: "All of it.".into() };
    assert_eq!(rig.events.iter().filter(|event| **event == Event::Words(known.clone())).count(), 1);
}

#[test]
fn what_is_only_read_is_over_when_it_is_complete() {
    let mut rig = Rig::thinking();
    rig.respond("r-2", |response| response.modality = Modality::Text);
    rig.say(ServerEvent::ResponseTextDelta(ResponseTextDelta {
        response_id: "r-2".into(),
        text: "Hi.".into(),
    }));
    assert!(completes(&rig).is_empty());
    done(&mut rig, "r-2");
    assert_eq!((completes(&rig)[0].response_id.as_str(), completes(&rig)[0].played_ms), ("r-2", 0));
}

#[test]
fn what_was_interrupted_is_never_completed() {
    let mut rig = Rig::speaking();
    rig.client.interrupt(rig.now).unwrap();
    end(&mut rig, 300);
    done(&mut rig, "r-1");
    let _ = rig.client.played_out("r-1", 300, PlaybackStatus::Played, rig.now);
    rig.drain();
    assert!(completes(&rig).is_empty());
    assert!(!rig.events.iter().any(|event| matches!(event, Event::LastPlayed { .. })));
}

#[test]
fn an_interruption_that_is_refused_leaves_nothing_to_be_heard() {
    let mut rig = Rig::speaking();
    rig.client.played("r-1", 50, rig.now);
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    rig.refuse(crate::error::Code::ProtoNotInterruptible);
    assert_eq!((completes(&rig).len(), completes(&rig)[0].played_ms), (1, 50));
    // Until the server has heard of that, more may come.
    rig.go(State::AiSpeaking, "response.audio");
    rig.play(40_000, 200, 20);
    assert!(!rig.events.iter().any(|event| matches!(event, Event::Play(_))));
}

#[test]
fn a_question_gives_the_floor_to_the_user() {
    let ask = |rig: &mut Rig| {
        rig.respond("r-2", |response| {
            response.expects_reply = true;
            response.modality = Modality::Text;
        });
        done(rig, "r-2");
    };
    let mut rig = Rig::thinking();
    ask(&mut rig);
    assert_eq!(rig.said(), ["audio.complete"]);
    rig.go(State::Idle, "audio.complete");
    assert_eq!(rig.said(), ["audio.complete", "input.start"]);
    let ClientEvent::InputStart(start) = &rig.sent[1].1 else { panic!("a start") };
    assert_eq!(start.trigger, InputStartTrigger::FollowUp);
    // Once.
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::Idle, "input.cancel");
    assert_eq!(rig.sent.len(), 2);

    // Not where nobody wants that.
    let mut answer = connected();
    answer.turn_detection.follow_up_listen = false;
    let mut rig = Rig::idle_as(ClientConfig::new("vs_1"), answer);
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    ask(&mut rig);
    rig.go(State::Idle, "audio.complete");
    assert!(!rig.said().contains(&"input.start"));
}

#[test]
fn progress_is_told_once_a_second() {
    let mut rig = Rig::speaking();
    for step in 1..=30_u64 {
        rig.pass(100);
        rig.client.played("r-1", step * 100, rig.now);
    }
    rig.drain();
    assert_eq!(rig.said(), ["audio.progress"; 2]);
    rig.client.played("r-other", 1, rig.now);
}

#[test]
fn audio_that_belongs_to_nothing_is_not_played() {
    let mut rig = Rig::speaking();
    rig.play(40_001, 0, 20);
    assert!(rig.events.is_empty() && rig.sent.is_empty());
    // What cannot be read is complained about, and nothing breaks.
    rig.input(Input::Binary(Bytes::from_static(b"nonsense")));
    assert_eq!((rig.said(), rig.closed), (vec!["error.recoverable"], None));
    let own = AudioFrame {
        direction: Direction::Input,
        end: false,
        monitor: false,
        gap: false,
        stream: 1,
        seq: 0,
        offset_ms: 0,
        payload: packet(),
    };
    rig.input(Input::Binary(own.encode()));
    assert_eq!(rig.said().len(), 2);
}

#[test]
fn vip_086_a_data_channel_carries_no_audio() {
    let config = ClientConfig { carrier: Carrier::DataChannel, ..ClientConfig::new("vs_1") };
    let mut rig = Rig::idle_as(config, connected());
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    assert!(!rig.client.hear(&packet(), rig.now));
    rig.drain();
    let ClientEvent::InputStart(start) = &rig.sent[0].1 else { panic!("a start") };
    assert_eq!((start.stream_id, rig.frames.len()), (None, 0));
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    rig.respond("r-1", |_| {});
    let start =
        AudioStart { response_id: "r-1".into(), stream_id: 40_000, format: crate::audio::Format::Opus };
    rig.say(ServerEvent::AudioStart(start));
    rig.pass(1_000);
    end(&mut rig, 3_000);
    // Playback is as long as it is.
    rig.pass(1_999);
    assert!(completes(&rig).is_empty());
    rig.pass(1);
    assert_eq!(completes(&rig)[0].played_ms, 3_000);
    // An interruption says how long it was heard.
    rig.go(State::Idle, "audio.complete");
    rig.respond("r-2", |_| {});
    let start =
        AudioStart { response_id: "r-2".into(), stream_id: 40_001, format: crate::audio::Format::Opus };
    rig.say(ServerEvent::AudioStart(start));
    rig.pass(700);
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    let ClientEvent::InputBargeIn(barge_in) = &rig.sent.last().unwrap().1 else { panic!("an interruption") };
    assert_eq!(barge_in.played_ms, Some(700));
    // Whether anybody is there is asked every 15 seconds.
    rig.pass(15_000);
    assert_eq!(rig.said().iter().filter(|name| **name == "session.ping").count(), 1);
}
