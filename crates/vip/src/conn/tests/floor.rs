//! The user's floor: taking it, being heard, giving it up.

use switchboard_core::{Heard, Unheard};

use super::*;

fn server_vad(settings: &mut Settings) {
    settings.turn_detection.kind = DetectionType::ServerVad;
}

fn speech() -> VoiceEvent {
    VoiceEvent::Speech { turn: None, confidence: 0.9, level_db: -20.0 }
}

/// The number that the voice has for the turn it listens to.
fn listened(stage: &Stage) -> u64 {
    let listened = stage.voice.iter().rev().find_map(|op| match op {
        VoiceOp::Listen { turn, .. } => Some(*turn),
        _ => None,
    });
    listened.expect("somebody is listened to")
}

fn packets(stage: &Stage) -> usize {
    stage.voice.iter().filter(|op| matches!(op, VoiceOp::Packet(_))).count()
}

/// Speaking, with 40 ms sent of an answer, and the server listening for interruptions.
fn speaking() -> Stage {
    let mut stage = Stage::new(|settings, _| server_vad(settings));
    stage.type_in("t-1", "tell me");
    stage.words("A whole sentence. And another one. And a third. ");
    let response = stage.response();
    stage.feed(Input::Voice(packet(response, 0)));
    stage.feed(Input::Voice(packet(response, 20)));
    assert_eq!(stage.state(), State::AiSpeaking);
    stage.said();
    stage
}

#[test]
fn vip_030_a_listen_limit_ends_or_forgets_the_turn() {
    for (seen, state, code) in [(false, State::Idle, Some("REC_NO_SPEECH")), (true, State::AiThinking, None)]
    {
        let mut stage = Stage::new(|_, _| {});
        stage.take_floor("t-1");
        stage.said();
        stage.send("input.timeout", Some("t-1"), json!({ "speech_seen": seen }));
        let said = stage.said();
        assert_eq!(stage.state(), state);
        assert_eq!(said[0]["data"]["reason"], "timeout");
        let errors: Vec<&str> = said.iter().filter_map(|event| event["data"]["code"].as_str()).collect();
        assert_eq!(errors.first().copied(), code);
    }
    // What was heard here counts, whatever the client believes.
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.send("input.timeout", Some("t-9"), json!({ "speech_seen": false }));
    assert_eq!(stage.state(), State::UserSpeaking, "that is another turn");
    let turn = Some(listened(&stage));
    stage.feed(Input::Voice(VoiceEvent::Speech { turn, confidence: 0.9, level_db: -20.0 }));
    stage.send("input.timeout", Some("t-1"), json!({ "speech_seen": false }));
    assert_eq!(stage.state(), State::AiThinking);
}

#[test]
fn vip_030_the_server_has_a_listen_limit_of_its_own() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    stage.pass(7_999);
    assert!(stage.said().is_empty());
    stage.pass(1);
    assert_eq!(kinds(&stage.said()), ["input.timeout", "state.changed", "error.recoverable"]);
    assert_eq!(stage.state(), State::Idle);

    stage.take_floor("t-2");
    let turn = Some(listened(&stage));
    stage.feed(Input::Voice(VoiceEvent::Speech { turn, confidence: 0.9, level_db: -20.0 }));
    stage.said();
    stage.pass(59_999);
    assert!(stage.said().is_empty(), "who speaks may speak for a minute");
    stage.pass(1);
    let said = stage.said();
    assert_eq!(kinds(&said), ["input.timeout", "state.changed"]);
    assert_eq!((&said[0]["data"]["speech_seen"], stage.state()), (&json!(true), State::AiThinking));
}

#[test]
fn vip_023_a_turn_is_ended_by_its_own_name_only() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    for (kind, data) in [
        ("input.start", json!({ "trigger": "ptt" })),
        ("input.end", json!({ "reason": "manual" })),
        ("input.cancel", json!({ "reason": "user" })),
        ("input.barge_in", json!({ "trigger": "manual" })),
    ] {
        stage.send(kind, Some("t-9"), data);
        let refused = stage.one("error.recoverable");
        assert_eq!(refused["data"]["code"], "PROTO_INVALID_TRANSITION", "{kind}");
        assert_eq!(refused["data"]["details"], json!({ "state": "user_speaking", "state_seq": 2 }));
        assert_eq!(stage.state(), State::UserSpeaking);
        stage.pass(61_000 / 60);
    }
    stage.send("input.start", Some("t-1"), json!({ "trigger": "ptt" }));
    assert!(stage.said().is_empty(), "the same once more");
}

#[test]
fn an_end_that_crosses_the_one_of_the_server_is_passed_over() {
    let mut stage = Stage::new(|settings, _| server_vad(settings));
    stage.take_floor("t-1");
    let turn = listened(&stage);
    // Another turn than the one that is listened to.
    stage.feed(Input::Voice(VoiceEvent::Silence { turn: turn + 1 }));
    assert_eq!(stage.state(), State::UserSpeaking);
    stage.feed(Input::Voice(VoiceEvent::Silence { turn }));
    assert_eq!(stage.state(), State::AiThinking);
    stage.said();
    stage.send("input.end", Some("t-1"), json!({ "reason": "silence" }));
    assert!(stage.said().is_empty());
    stage.send("input.end", Some("t-9"), json!({ "reason": "silence" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    // What is recognised of another turn is nobody's.
    let words = |turn: u64| VoiceEvent::Heard {
        turn,
        heard: Heard { text: Pii("hello".to_owned()), confidence: None, language: None },
        took_ms: 1,
    };
    stage.feed(Input::Voice(words(turn + 1)));
    assert!(stage.said().is_empty());
    stage.feed(Input::Voice(words(turn)));
    assert_eq!(stage.one("input.complete")["data"]["text"], "hello");
}

#[test]
fn vip_064_what_is_not_understood_leads_to_idle_and_leaves_nothing() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.send("input.end", Some("t-1"), json!({ "reason": "manual" }));
    stage.said();
    let turn = listened(&stage);
    stage.feed(Input::Voice(VoiceEvent::Unheard { turn, why: Unheard::NoWords }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.recoverable", "state.changed"]);
    assert_eq!((&said[0]["data"]["code"], stage.state()), (&json!("REC_NO_MATCH"), State::Idle));
    assert_eq!((&stage.closed, stage.connection.response.is_none()), (&None, true));
    stage.feed(Input::Voice(VoiceEvent::Partial { turn, text: Pii("hel".to_owned()), stable: 0 }));
    assert!(stage.said().is_empty(), "nobody waits for it any more");
    stage.type_in("t-2", "  ");
    assert_eq!(stage.codes(), ["REC_NO_SPEECH"]);
    assert_eq!((stage.state(), stage.turn.is_none()), (State::Idle, true));
}

#[test]
fn vip_064_why_nobody_understood_is_told_apart() {
    for (why, code) in [
        (Unheard::Unavailable("down".to_owned()), "PROV_UNAVAILABLE"),
        (Unheard::Exhausted("too often".to_owned()), "PROV_QUOTA"),
        (Unheard::Refused("no key".to_owned()), "PROV_REJECTED"),
        (Unheard::Late, "PROV_TIMEOUT"),
    ] {
        let mut stage = Stage::new(|_, _| {});
        stage.take_floor("t-1");
        stage.send("input.end", Some("t-1"), json!({ "reason": "manual" }));
        stage.said();
        let turn = listened(&stage);
        stage.feed(Input::Voice(VoiceEvent::Unheard { turn, why }));
        assert_eq!((stage.codes(), stage.state()), (vec![code.to_owned()], State::Idle));
    }
}

#[test]
fn a_typed_turn_has_an_end_to_its_length() {
    let mut stage = Stage::new(|_, _| {});
    stage.send("input.start", Some("t-1"), json!({ "mode": "text", "trigger": "text" }));
    for _ in 0..4 {
        stage.send("input.text", Some("t-1"), json!({ "text": "x".repeat(4_096) }));
    }
    stage.said();
    stage.send("input.text", Some("t-1"), json!({ "text": "x" }));
    assert_eq!(stage.codes(), ["PROTO_MALFORMED"]);
    stage.pass(8_000);
    assert_eq!(stage.state(), State::UserSpeaking, "nobody is waited for who has begun");
    stage.send("input.cancel", Some("t-1"), json!({ "reason": "user" }));
    assert!(stage.voice.is_empty(), "nobody was listened to: {:?}", stage.voice);
}

#[test]
fn text_that_is_refused_does_not_make_a_spoken_turn_a_typed_one() {
    let mut stage = Stage::new(|_, _| {});
    stage.send("input.start", Some("t-1"), json!({ "trigger": "ptt" }));
    stage.send("input.text", Some("t-9"), json!({ "text": "hello" }));
    stage.send("input.end", Some("t-1"), json!({ "reason": "manual" }));
    stage.said();
    stage.send("input.text", Some("t-1"), json!({ "text": "hello" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    let turn = listened(&stage);
    assert!(!stage.voice.contains(&VoiceOp::Forget { turn }), "what was said is still being understood");
    assert!(stage.voice.contains(&VoiceOp::Conclude { turn }));
    // Where audio was announced, nothing is typed.
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    stage.send("input.text", Some("t-1"), json!({ "text": "hello" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
}

#[test]
fn vip_068_audio_of_a_stream_that_was_not_announced_is_dropped() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    let output = AudioFrame {
        direction: Direction::Output,
        end: false,
        monitor: false,
        gap: false,
        stream: 40_000,
        seq: 0,
        offset_ms: 0,
        payload: Bytes::from_static(&[0; 4]),
    };
    let odd =
        AudioFrame { direction: Direction::Input, stream: 1, payload: Bytes::from_static(&[0; 3]), ..output };
    let overheard = AudioFrame { monitor: true, ..output.clone() };
    let frames = [output, overheard, odd].map(|frame| Frame::Binary(frame.encode()));
    for frame in frames.into_iter().chain([heard(2, false, 20)]) {
        stage.feed(Input::Frame(frame));
        assert_eq!(stage.codes(), ["PROTO_BAD_AUDIO_FRAME"]);
    }
    assert_eq!((packets(&stage), stage.state()), (0, State::UserSpeaking));
    stage.feed(Input::Frame(heard(1, false, 20)));
    assert_eq!((packets(&stage), stage.said().len()), (1, 0));
}

#[test]
fn audio_does_not_run_far_ahead_of_the_clock() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    stage.feed(Input::Frame(heard(1, false, 2_000)));
    stage.pass(1_000);
    stage.feed(Input::Frame(heard(1, false, 1_000)));
    assert_eq!((packets(&stage), stage.said().len()), (2, 0));
    stage.feed(Input::Frame(heard(1, false, 1_000)));
    assert_eq!(stage.codes(), ["RATE_AUDIO"]);
    assert_eq!(packets(&stage), 2);
}

#[test]
fn vip_089_speech_that_arrives_at_once_after_a_stall_costs_one_strike_and_no_more_than_what_is_dropped() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    let burst = |stage: &mut Stage, millis: usize| {
        for _ in 0..millis / 20 {
            stage.feed(Input::Frame(heard(1, false, 20)));
        }
    };
    burst(&mut stage, 5_000);
    assert_eq!((stage.codes(), stage.closed), (vec!["RATE_AUDIO".to_owned()], None));
    assert_eq!(packets(&stage), 125, "2.5 s of it");
    // The turn goes on at once: the dropped frames do not count against those that follow in time.
    stage.pass(20);
    burst(&mut stage, 20);
    assert_eq!((packets(&stage), stage.said().len()), (126, 0));
    // A second burst a while later is a second strike, and the third the last.
    stage.pass(2_000);
    burst(&mut stage, 3_000);
    assert_eq!((stage.codes(), stage.closed), (vec!["RATE_AUDIO".to_owned()], None));
    stage.pass(2_000);
    burst(&mut stage, 3_000);
    assert_eq!(stage.codes()[0], "RATE_AUDIO");
    assert_eq!(stage.closed.map(|close| close.code), Some(4429));
}

#[test]
fn vip_093_what_a_server_lacks_is_known_at_once_and_how_to_mend_it_is_not_told_to_users() {
    for hears in [true, false] {
        let mut stage = Stage::new(|_, service| {
            service.speech.hears = hears;
            service.speech.missing = vec!["run `switchboard models fetch onnxruntime`".to_owned()];
        });
        let connected = stage.one("session.connected");
        assert_eq!(connected["data"]["speech"], json!({ "hears": hears, "speaks": true }));
        assert!(!connected.to_string().contains("switchboard"));
    }
    let hint = || "run `switchboard models fetch onnxruntime`".to_owned();
    for (why, code) in [
        (Unheard::Unavailable(hint()), "PROV_UNAVAILABLE"),
        (Unheard::Exhausted(hint()), "PROV_QUOTA"),
        (Unheard::Refused(hint()), "PROV_REJECTED"),
    ] {
        let mut stage = Stage::new(|_, _| {});
        stage.take_floor("t-1");
        stage.send("input.end", Some("t-1"), json!({ "reason": "silence" }));
        stage.said();
        stage.feed(Input::Voice(VoiceEvent::Unheard { turn: 1, why }));
        let error = stage.one("error.recoverable");
        assert_eq!(error["data"]["code"], code);
        let message = error["data"]["message"].as_str().unwrap();
        assert!(message.contains("Typing still works") && !message.contains("switchboard"), "{message}");
    }
    // Where a provider does the hearing, this server says nothing of it.
    let mut control = Stage::opened(|setup| setup.kind = Kind::Control);
    control.hello(json!({}));
    assert_eq!(control.one("session.connected")["data"].get("speech"), None);
}

#[test]
fn vip_096_the_voice_is_told_what_can_be_done_and_what_is_on_the_screen() {
    let mut stage = Stage::new(|_, _| {});
    let change = json!({ "mode": "delta", "base_version": 1, "context_version": 2, "visibility": ["lamp.on"],
        "routes": [{ "target": "orders", "title": "Your orders" }, { "target": "help" }],
        "tree": [{ "id": "n", "kind": "list", "label": "Lamps", "children": [
            { "id": "m", "kind": "item", "label": "Reading lamp" }] }] });
    stage.send("state.update", None, change);
    let expected = |stage: &Stage| -> Vec<Vec<String>> {
        let labels = stage.voice.iter().filter_map(|op| match op {
            VoiceOp::Expect(labels) => Some(labels.0.clone()),
            _ => None,
        });
        labels.collect()
    };
    stage.take_floor("t-1");
    // Not what is out of reach. It comes before anything is listened to.
    let labels = ["Switch the lamp on", "Your orders", "help", "Lamps", "Reading lamp"];
    assert_eq!(expected(&stage), [labels]);
    let place = |wanted: fn(&VoiceOp) -> bool| stage.voice.iter().position(wanted).unwrap();
    let listens = place(|op| matches!(op, VoiceOp::Listen { .. }));
    assert!(place(|op| matches!(op, VoiceOp::Expect(_))) < listens);
    // What has not changed is not told again.
    stage.send("input.cancel", Some("t-1"), json!({ "reason": "user" }));
    stage.take_floor("t-2");
    assert_eq!(expected(&stage).len(), 1);
    assert!(!format!("{:?}", stage.voice).contains("lamp"), "screens are not for logs");
}

#[test]
fn vip_029_audio_outside_of_a_turn_is_dropped_and_not_complained_about_for_ever() {
    let mut stage = Stage::new(|_, _| {});
    for _ in 0..50 {
        stage.feed(Input::Frame(heard(1, false, 20)));
    }
    let codes = stage.codes();
    assert_eq!(codes.len(), 10);
    assert!(codes.iter().all(|code| code == "PROTO_AUDIO_FORBIDDEN_STATE"));
    assert_eq!((packets(&stage), &stage.closed), (0, &None));
    // Nobody overhears an idle session, whatever the frame says.
    stage.pass(2_000);
    stage.feed(Input::Frame(heard(1, true, 20)));
    assert_eq!((packets(&stage), stage.codes().len()), (0, 1));
}

#[test]
fn audio_that_was_on_its_way_when_the_server_ended_the_turn_is_forgiven() {
    let mut stage = Stage::new(|settings, _| server_vad(settings));
    stage.take_floor("t-1");
    let turn = listened(&stage);
    stage.feed(Input::Voice(VoiceEvent::Silence { turn }));
    stage.said();
    stage.pass(2_000);
    stage.feed(Input::Frame(heard(1, false, 20)));
    assert!(stage.said().is_empty());
    stage.pass(1);
    stage.feed(Input::Frame(heard(1, false, 20)));
    assert_eq!(stage.codes(), ["PROTO_AUDIO_FORBIDDEN_STATE"]);
    // Who has ended it has nothing left to say.
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.send("input.end", Some("t-1"), json!({ "reason": "manual" }));
    stage.said();
    stage.feed(Input::Frame(heard(1, false, 20)));
    assert_eq!(stage.codes(), ["PROTO_AUDIO_FORBIDDEN_STATE"]);
}

#[test]
fn the_server_overhears_only_while_it_has_the_floor() {
    let mut stage = speaking();
    stage.feed(Input::Frame(heard(7, true, 20)));
    assert_eq!((packets(&stage), stage.said().len()), (1, 0));
    let overheard: Vec<&VoiceOp> =
        stage.voice.iter().filter(|op| matches!(op, VoiceOp::Overhear(_))).collect();
    assert_eq!(overheard, [&VoiceOp::Overhear(true)], "thinking and speaking alike");
    // Who has not agreed to it is not overheard.
    let mut stage = Stage::new(|settings, _| {
        server_vad(settings);
        settings.turn_detection.interrupt_response = false;
    });
    stage.type_in("t-1", "tell me");
    stage.said();
    stage.feed(Input::Voice(speech()));
    assert_eq!((stage.state(), stage.said().len()), (State::AiThinking, 0));
}

#[test]
fn an_interruption_that_is_noticed_here_waits_for_the_word_of_the_client() {
    let mut stage = speaking();
    let response = stage.response();
    stage.feed(Input::Voice(speech()));
    let said = stage.said();
    assert_eq!(kinds(&said), ["input.detected", "input.barge_in", "state.changed"]);
    assert!(stage.voice.contains(&VoiceOp::Hush { response }));
    let sent = stage.frames.len();
    stage.feed(Input::Voice(packet(response, 40)));
    assert_eq!(stage.frames.len(), sent, "the user is not spoken over meanwhile (VIP-028)");
    let turn = said[1]["turn_id"].as_str().unwrap().to_owned();
    let copy = json!({ "trigger": "vad", "played_ms": 30, "stream_id": 3 });
    stage.send("input.barge_in", Some(&turn), copy.clone());
    let said = stage.said();
    assert_eq!(kinds(&said), ["audio.interrupted", "response.done"]);
    assert_eq!(said[0]["data"]["truncated_at_ms"], 30);
    stage.send("input.barge_in", Some(&turn), copy);
    assert!(stage.said().is_empty(), "once is enough");
    stage.feed(Input::Frame(heard(3, false, 20)));
    assert_eq!(packets(&stage), 1);

    let mut stage = speaking();
    stage.feed(Input::Voice(speech()));
    stage.said();
    stage.pass(499);
    assert!(stage.said().is_empty());
    stage.pass(1);
    let said = stage.said();
    assert_eq!(kinds(&said), ["audio.interrupted", "response.done"]);
    assert_eq!(said[0]["data"]["truncated_at_ms"], 40, "as much as was sent");
}

#[test]
fn vip_034_a_turn_that_is_over_before_the_client_says_so_keeps_its_answer() {
    let mut stage = speaking();
    let interrupted = stage.turn.clone().unwrap();
    stage.feed(Input::Voice(speech()));
    let turn_id = stage.one("input.barge_in")["turn_id"].as_str().unwrap().to_owned();
    let turn = listened(&stage);
    stage.pass(300);
    stage.feed(Input::Voice(VoiceEvent::Silence { turn }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["audio.interrupted", "response.done", "input.end", "state.changed"]);
    let heard = Heard { text: Pii("wait".to_owned()), confidence: None, language: None };
    stage.feed(Input::Voice(VoiceEvent::Heard { turn, heard, took_ms: 1 }));
    // Neither the limit for the client's copy nor the copy itself is about the new turn.
    stage.pass(300);
    stage.send("input.barge_in", Some(&turn_id), json!({ "trigger": "vad", "played_ms": 30 }));
    assert_eq!(stage.state(), State::AiThinking);
    assert_eq!(stage.stopped(), [interrupted]);
    stage.said();
    stage.words("Of course. ");
    stage.end_turn(TurnEnd::complete());
    assert_eq!(stage.one("response.audio")["data"]["content"], "Of course. ");
}

#[test]
fn an_interruption_that_is_taken_back_leaves_nothing_open() {
    let mut stage = speaking();
    stage.feed(Input::Voice(speech()));
    let turn_id = stage.one("input.barge_in")["turn_id"].as_str().unwrap().to_owned();
    stage.send("input.cancel", Some(&turn_id), json!({ "reason": "user" }));
    assert_eq!(kinds(&stage.said()), ["audio.interrupted", "response.done", "state.changed"]);
    stage.pass(1_000);
    assert!(stage.said().is_empty());
    stage.send("input.barge_in", Some(&turn_id), json!({ "trigger": "vad", "played_ms": 30 }));
    assert_eq!((stage.state(), stage.said().len()), (State::Idle, 0));
}

#[test]
fn vip_038_what_is_not_interruptible_is_not_interrupted_by_a_voice_either() {
    let mut stage = Stage::new(|settings, service| {
        server_vad(settings);
        settings.activate_on = "connect".to_owned();
        service.introduction_interruptible = false;
    });
    stage.said();
    stage.feed(Input::Voice(speech()));
    assert_eq!((stage.state(), stage.said().len()), (State::AiSpeaking, 0));
}

#[test]
fn a_user_who_began_when_the_server_did_keeps_the_floor() {
    let mut stage = Stage::new(|settings, _| settings.activate_on = "connect".to_owned());
    stage.said();
    // Who knows of the announcement has to interrupt it.
    stage.send("input.start", Some("t-1"), json!({ "trigger": "ptt", "stream_id": 1 }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    stage.send_since(1, "input.start", Some("t-1"), json!({ "trigger": "ptt", "stream_id": 1 }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["state.changed", "audio.interrupted", "response.done"]);
    assert_eq!((&said[0]["data"]["trigger"], stage.state()), (&json!("input.barge_in"), State::UserSpeaking));
    // An answer is no announcement.
    let mut stage = speaking();
    stage.send_since(1, "input.start", Some("t-2"), json!({ "trigger": "ptt" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    // And an interruption after the end of playback is a beginning.
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send("input.barge_in", Some("t-1"), json!({ "trigger": "vad", "stream_id": 1 }));
    assert_eq!(stage.one("state.changed")["data"]["trigger"], "input.start");
}

#[test]
fn a_track_is_heard_only_while_it_is_listened_to() {
    let mut stage = Stage::opened(|setup| setup.kind = Kind::Peer);
    stage.hello(json!({ "context": screen() }));
    let track = || Input::Frame(Frame::Media(Bytes::from_static(&[1; 10])));
    stage.feed(track());
    assert_eq!(packets(&stage), 0);
    stage.send("input.start", Some("t-1"), json!({ "trigger": "vad" }));
    stage.feed(track());
    assert_eq!(packets(&stage), 1);
    stage.send("input.end", Some("t-1"), json!({ "reason": "manual" }));
    stage.feed(track());
    assert_eq!(packets(&stage), 1);
    // Binary frames are not for a data channel (VIP-086).
    stage.said();
    stage.feed(Input::Frame(heard(1, false, 20)));
    assert_eq!(stage.codes(), ["PROTO_BAD_AUDIO_FRAME"]);
}
