//! Providers elsewhere, over real HTTP.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::http::HttpServer;
use common::{Line, program, settings, spoken};
use serde_json::{Value, json};
use switchboard_agents::Secret;
use switchboard_agents::speech::RecogniserConfig;
use switchboard_core::{Dumb, Unheard, VoiceEvent, VoiceOp};
use switchboard_voice::audio::{Sound, write_wav};
use switchboard_voice::hear::{HearError, OpenAiRecogniser, Recogniser, Speech};
use switchboard_voice::speak::{OpenAiSpeech, SpeakError, Speaker, SpeechConfig, Synthesiser};
use switchboard_voice::{Readiness, RecogniserChoice, SynthesiserChoice, Voices, VoicesConfig};

fn speech_config(server: &HttpServer) -> SpeechConfig {
    SpeechConfig {
        base_url: server.url(),
        model: "tts-1".into(),
        timeout_ms: 30_000,
        ..SpeechConfig::default()
    }
}

fn recogniser_config(server: &HttpServer) -> RecogniserConfig {
    RecogniserConfig {
        base_url: server.url(),
        model: "whisper-1".into(),
        attempts: 1,
        ..RecogniserConfig::default()
    }
}

fn half_a_second() -> Sound {
    Sound { samples: vec![0.25; 12_000], rate: 24_000 }
}

#[tokio::test]
async fn an_endpoint_speaks_in_the_voice_that_is_asked_for() {
    let server = HttpServer::start(|_, _| (200, write_wav(&half_a_second()))).await;
    let speech = OpenAiSpeech::new(speech_config(&server)).unwrap();
    assert_eq!(speech.speak("Hello.", "en", Some("nova")).await, Ok(half_a_second()));
    assert_eq!(speech.speak("Hello.", "en", None).await, Ok(half_a_second()));
    let requests = server.requests.lock();
    let body: Value = serde_json::from_slice(&requests[0].1).unwrap();
    assert_eq!(requests[0].0, "/audio/speech");
    assert_eq!(body, json!({"model": "tts-1", "input": "Hello.", "voice": "nova", "response_format": "wav"}));
    assert_eq!(serde_json::from_slice::<Value>(&requests[1].1).unwrap()["voice"], "alloy");
}

#[tokio::test]
async fn bare_samples_will_do() {
    let server = HttpServer::start(|_, _| (200, [0, 32].repeat(2_400))).await;
    let speech = OpenAiSpeech::new(speech_config(&server)).unwrap();
    let sound = speech.speak("Hello.", "en", None).await.unwrap();
    assert_eq!((sound.rate, sound.duration_ms(), sound.samples[0]), (24_000, 100, 0.25));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_an_error_that_tells_no_secrets() {
    for (status, body) in
        [(500, "Hello. is too much for me"), (401, "sk-secret"), (200, ""), (200, r#"{"error":1}"#)]
    {
        let server = HttpServer::start(move |_, _| (status, body.into())).await;
        let config = SpeechConfig { api_key: Some(Secret::new("sk-secret")), ..speech_config(&server) };
        let speech = OpenAiSpeech::new(config).unwrap();
        let error = speech.speak("Hello.", "en", None).await.unwrap_err();
        assert!(matches!(error, SpeakError::Failed(_)), "{error:?}");
        let shown = format!("{error} {error:?} {speech:?}");
        assert!(!shown.contains("sk-secret") && !shown.contains("Hello"), "{shown}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_late() {
    let server = HttpServer::start(|_, _| {
        std::thread::sleep(Duration::from_millis(500));
        (200, Vec::new())
    })
    .await;
    let config = SpeechConfig { timeout_ms: 50, ..speech_config(&server) };
    let error = OpenAiSpeech::new(config).unwrap().speak("Hello.", "en", None).await.unwrap_err();
    assert_eq!(error, SpeakError::Late);
}

#[tokio::test]
async fn an_endpoint_understands_what_it_is_sent() {
    let server = HttpServer::start(|_, _| (200, br#"{"text":" Open it. ","language":"en"}"#.to_vec())).await;
    let recogniser = OpenAiRecogniser::new(recogniser_config(&server)).unwrap();
    let heard = recogniser
        .hear(&Speech { samples: vec![0.5; 1_600], language: "en-US".into(), hints: Arc::default() })
        .await
        .unwrap();
    assert_eq!((heard.text.0.as_str(), heard.language.as_deref()), ("Open it.", Some("en")));
    assert!(!recogniser.interim());
    let requests = server.requests.lock();
    assert_eq!(requests[0].0, "/audio/transcriptions");
    let has = |bytes: &[u8]| requests[0].1.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"RIFF") && has(b"whisper-1") && has(&[0, 64, 0, 64]));
}

#[tokio::test]
async fn why_a_recogniser_fails_is_told_apart() {
    let is_unavailable: fn(&HearError) -> bool = |error| matches!(error, HearError::Unavailable(_));
    let is_refused: fn(&HearError) -> bool = |error| matches!(error, HearError::Refused(_));
    let is_exhausted: fn(&HearError) -> bool = |error| matches!(error, HearError::Exhausted(_));
    for (status, body, fits) in [
        (503, "", is_unavailable),
        (200, "no json", is_unavailable),
        (400, "{}", is_refused),
        (401, "{}", is_refused),
        (402, "{}", is_exhausted),
        (429, "{}", is_exhausted),
    ] {
        let server = HttpServer::start(move |_, _| (status, body.into())).await;
        let recogniser = OpenAiRecogniser::new(recogniser_config(&server)).unwrap();
        let result = recogniser
            .hear(&Speech { samples: vec![0.5; 1_600], language: "en".into(), hints: Arc::default() })
            .await;
        assert!(result.as_ref().is_err_and(fits), "{status}: {result:?}");
    }
}

#[tokio::test]
async fn a_conversation_goes_through_endpoints() {
    let server = HttpServer::start(|path, _| match path {
        "/audio/speech" => (200, write_wav(&half_a_second())),
        _ => (200, br#"{"text":"open the settings"}"#.to_vec()),
    })
    .await;
    let config = VoicesConfig {
        recogniser: RecogniserChoice::OpenAi(recogniser_config(&server)),
        synthesiser: SynthesiserChoice::OpenAi(speech_config(&server)),
        ..VoicesConfig::default()
    };
    let voices = Voices::new(config).unwrap();
    assert_eq!((voices.hears(), voices.speaks()), (Readiness::Ready, Readiness::Ready));
    let mut line = Line::open(&voices, settings());
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: None, overheard: false });
    line.send(&spoken(&program(Speaker::Flite), None, "Open the settings.").await).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (before, heard) = line.until(|event| matches!(event, VoiceEvent::Heard { .. })).await;
    assert!(!before.iter().any(|event| matches!(event, VoiceEvent::Partial { .. })));
    let VoiceEvent::Heard { heard, .. } = heard else { panic!() };
    assert_eq!(heard.text.0, "open the settings");
    line.say(1, "They are open.", true);
    line.until(|event| *event == VoiceEvent::Said { response: 1, duration_ms: 500 }).await;
}

#[tokio::test]
async fn whoever_speaks_and_listens_is_told_when_endpoints_fail() {
    let server = HttpServer::start(|_, _| (503, Vec::new())).await;
    let config = VoicesConfig {
        recogniser: RecogniserChoice::OpenAi(recogniser_config(&server)),
        synthesiser: SynthesiserChoice::OpenAi(speech_config(&server)),
        ..VoicesConfig::default()
    };
    let mut line = Line::open(&Voices::new(config).unwrap(), settings());
    line.say(1, "Hello.", true);
    let failed = Dumb::Failed("the speech endpoint answers 503".into());
    assert_eq!(line.next().await, VoiceEvent::Mute { response: 1, why: failed });
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: None, overheard: false });
    line.send(&spoken(&program(Speaker::Flite), None, "Open the settings.").await).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (_, end) = line.until(|event| matches!(event, VoiceEvent::Unheard { .. })).await;
    assert!(matches!(end, VoiceEvent::Unheard { turn: 1, why: Unheard::Unavailable(_) }), "{end:?}");
}
