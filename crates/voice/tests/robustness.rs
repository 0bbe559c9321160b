//! What does not go as it should, with real models and real programs.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use common::{Line, PATIENCE, models_dir, packets, program, settings, silence, spoken, voices};
use switchboard_core::{AudioFormat, Heard, Unheard, VoiceEvent, VoiceOp, VoiceSettings};
use switchboard_voice::hear::{HearError, Moonshine, Recogniser, Speech};
use switchboard_voice::speak::{Program, SpeakError, Speaker, Synthesiser};
use switchboard_voice::{
    Readiness, RecogniserChoice, SynthesiserChoice, Voices, VoicesConfig, local_recogniser,
};
use tokio::time::pause;

fn noise(ms: usize, level: f32) -> Vec<f32> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * level
    };
    (0..ms * 16).map(|_| next()).collect()
}

async fn moonshine() -> Moonshine {
    let dir = models_dir().await;
    let library = std::fs::read_dir(dir.join("onnxruntime")).unwrap().map(|entry| entry.unwrap().path());
    Moonshine::load(&library.into_iter().next().unwrap(), &dir.join("moonshine-tiny"), 1).unwrap()
}

#[tokio::test]
async fn noise_says_nothing() {
    let voices = voices().await;
    pause();
    let mut line = Line::open(&voices, settings());
    for (turn, sound) in (1..).zip([silence(3_000), noise(3_000, 0.05), noise(3_000, 0.5)]) {
        line.ask(VoiceOp::Listen { turn, silence_ms: Some(500), overheard: false });
        line.send(&sound).await;
        line.ask(VoiceOp::Conclude { turn });
        assert_eq!(line.next().await, VoiceEvent::Unheard { turn, why: Unheard::NoSpeech });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_makes_no_words_of_noise_or_next_to_nothing() {
    let moonshine = moonshine().await;
    for samples in
        [vec![], silence(50), silence(2_000), noise(2_000, 0.1), noise(2_000, 1.0), vec![f32::NAN; 16_000]]
    {
        let length = samples.len();
        let heard =
            moonshine.hear(&Speech { samples, language: "en".into(), hints: Arc::default() }).await.unwrap();
        assert!(heard.text.0.is_empty(), "{length} samples: {}", heard.text.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_knows_one_language() {
    let moonshine = moonshine().await;
    let hear =
        |language: &str| Speech { samples: silence(500), language: language.into(), hints: Arc::default() };
    assert_eq!(moonshine.hear(&hear("de-DE")).await.err(), Some(HearError::Language));
    for language in ["en", "en-US", "EN-gb", ""] {
        assert!(moonshine.hear(&hear(language)).await.is_ok(), "{language}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_leaves_the_model_to_others() {
    let moonshine = moonshine().await;
    let words = spoken(&program(Speaker::Flite), None, "Please open the settings.").await;
    let speech = Speech { samples: words.repeat(4), language: "en".into(), hints: Arc::default() };
    for _ in 0..5 {
        let hurry = tokio::time::timeout(Duration::from_millis(5), moonshine.hear(&speech)).await;
        assert!(hurry.is_err());
    }
    let one = Speech { samples: words, language: "en".into(), hints: Arc::default() };
    let heard = tokio::time::timeout(PATIENCE, moonshine.hear(&one)).await.unwrap().unwrap();
    assert!(heard.text.0.contains("settings"), "{}", heard.text.0);
}

/// Is only asked when a turn has ended.
#[derive(Debug)]
struct Patient(Arc<dyn Recogniser>);

#[async_trait]
impl Recogniser for Patient {
    async fn hear(&self, speech: &Speech) -> Result<Heard, HearError> {
        self.0.hear(speech).await
    }

    fn interim(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_minute_is_all_that_is_heard_of_three() {
    let config = VoicesConfig { models_dir: models_dir().await, ..VoicesConfig::default() };
    let recogniser: Arc<dyn Recogniser> = Arc::new(Patient(local_recogniser(&config).unwrap()));
    let voices = Voices::with(&config, Ok(recogniser), Err(String::new()));
    let sentence = "And then we went on to talk about everything that came to our minds.";
    let words = spoken(&program(Speaker::Flite), None, sentence).await;
    pause();
    let mut line = Line::open(&voices, settings());
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: Some(1_000), overheard: false });
    let story: Vec<f32> = words.iter().copied().cycle().take(180 * 16_000).collect();
    line.send(&story).await;
    line.until(|event| *event == VoiceEvent::Silence { turn: 1 }).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let ended = |event: &VoiceEvent| matches!(event, VoiceEvent::Heard { .. } | VoiceEvent::Unheard { .. });
    let (_, end) = line.until(ended).await;
    let VoiceEvent::Heard { heard, .. } = end else { panic!("{end:?}") };
    let times = heard.text.0.matches("everything").count();
    assert!((8..=24).contains(&times), "{times} times in: {}", heard.text.0);
}

#[tokio::test]
async fn words_are_understood_through_opus() {
    let voices = voices().await;
    let words = spoken(&program(Speaker::Flite), None, "Go to the orders page.").await;
    pause();
    let mut line = Line::open(&voices, VoiceSettings { input: AudioFormat::Opus, ..settings() });
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: Some(600), overheard: false });
    for packet in packets(&[silence(300), words, silence(900)].concat(), AudioFormat::Opus) {
        line.ask(VoiceOp::Packet(packet));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    line.until(|event| *event == VoiceEvent::Silence { turn: 1 }).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (_, end) = line.until(|event| matches!(event, VoiceEvent::Heard { .. })).await;
    let VoiceEvent::Heard { heard, .. } = end else { panic!() };
    assert!(heard.text.0.to_lowercase().contains("page"), "{}", heard.text.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_speak_whatever_they_are_given() {
    for speaker in [Speaker::Flite, Speaker::Espeak] {
        let program = program(speaker);
        let plain = program.speak("Hello there.", "en-US", None).await.unwrap();
        assert!(plain.duration_ms() > 300, "{speaker:?}: {plain:?}");
        let odd = [
            "--help",
            "-f /etc/passwd",
            "$(reboot)",
            "quote \" and ' it",
            "two\nlines\0and nothing",
            "über 3 €",
        ];
        for text in odd {
            let sound = program.speak(text, "en-US", None).await.unwrap();
            assert!(
                sound.duration_ms() > 100 && sound.duration_ms() < 20_000,
                "{speaker:?}, {text:?}: {sound:?}"
            );
        }
        let voice = program.speak("Hello there.", "en-US", Some("../../etc/passwd")).await.unwrap();
        assert_eq!(voice, plain, "what cannot be the name of a voice is none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_have_languages_and_voices() {
    let (flite, espeak) = (program(Speaker::Flite), program(Speaker::Espeak));
    assert_eq!(flite.speak("Guten Tag", "de-DE", None).await, Err(SpeakError::Language));
    assert!(espeak.speak("Guten Tag", "de-DE", None).await.is_ok());
    let one = flite.speak("Good morning.", "en", Some("rms")).await.unwrap();
    let other = flite.speak("Good morning.", "en", Some("slt")).await.unwrap();
    assert_ne!(one, other);
    let german = espeak.speak("Good morning.", "de", None).await.unwrap();
    assert_ne!(espeak.speak("Good morning.", "en", None).await.unwrap(), german);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_too_long_or_fails_is_an_error() {
    let dirs = VoicesConfig::default().program_dirs;
    let hasty = Program::find(Speaker::Flite, &dirs, Duration::from_nanos(1)).unwrap();
    assert_eq!(hasty.speak("Hello.", "en", None).await, Err(SpeakError::Late));
    let dir = tempfile::tempdir().unwrap();
    let pretends = dir.path().join("flite");
    for script in
        ["#!/bin/sh\nexit 3", "#!/bin/sh\necho no sound", "#!/bin/sh\ncat /dev/zero", "no program at all"]
    {
        std::fs::write(&pretends, script).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&pretends, std::fs::Permissions::from_mode(0o755)).unwrap();
        let broken = Program::find(Speaker::Flite, &[dir.path().into()], PATIENCE).unwrap();
        let error = broken.speak("Hello.", "en", None).await;
        assert!(matches!(error, Err(SpeakError::Failed(_))), "{script}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_models_and_programs_the_house_says_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    let config = VoicesConfig {
        models_dir: empty.path().into(),
        program_dirs: vec![empty.path().into()],
        ..VoicesConfig::default()
    };
    let voices = Voices::new(config.clone()).unwrap();
    let Readiness::Missing(hears) = voices.hears() else { panic!() };
    assert!(hears.contains("models fetch"), "{hears}");
    let Readiness::Missing(speaks) = voices.speaks() else { panic!() };
    assert!(speaks.contains("install"), "{speaks}");
    let none = VoicesConfig {
        recogniser: RecogniserChoice::None,
        synthesiser: SynthesiserChoice::None,
        ..config.clone()
    };
    assert!(matches!(Voices::new(none).unwrap().hears(), Readiness::Missing(_)));
    let folder = empty.path().join("moonshine-tiny");
    std::fs::create_dir(&folder).unwrap();
    let broken = VoicesConfig {
        models_dir: models_dir().await,
        recogniser: RecogniserChoice::Local { model_dir: Some(folder) },
        ..config
    };
    assert!(
        matches!(Voices::new(broken).unwrap().hears(), Readiness::Missing(_)),
        "a model that cannot be read"
    );
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused() {
    for config in [
        VoicesConfig { hear_timeout_ms: 0, ..VoicesConfig::default() },
        VoicesConfig { recognitions_at_once: 0, ..VoicesConfig::default() },
        VoicesConfig { syntheses_at_once: 1_000_000, ..VoicesConfig::default() },
        VoicesConfig { recogniser: RecogniserChoice::OpenAi(Default::default()), ..VoicesConfig::default() },
        VoicesConfig {
            synthesiser: SynthesiserChoice::OpenAi(Default::default()),
            ..VoicesConfig::default()
        },
    ] {
        assert!(Voices::new(config).is_err());
    }
    let text = r#"{"recogniser":{"kind":"openai","model":"whisper-1"},"synthesiser":{"kind":"flite"},"voice":"slt"}"#;
    let config: VoicesConfig = serde_json::from_str(text).unwrap();
    assert_eq!(config.synthesiser, SynthesiserChoice::Flite);
    assert_eq!(
        serde_json::from_str::<VoicesConfig>(&serde_json::to_string(&config).unwrap()).unwrap(),
        config
    );
    assert!(
        serde_json::from_str::<VoicesConfig>(r#"{"recogniser":{"kind":"openai","modell":"x"}}"#).is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_voices_that_only_pass_audio_cost_next_to_nothing() {
    let voices = voices().await;
    let lines: Vec<Line> = (0..200).map(|_| Line::open(&voices, settings())).collect();
    let second = packets(&noise(1_000, 0.1), common::PCM16);
    let busy = || tokio::runtime::Handle::current().metrics();
    let before: Duration = (0..2).map(|worker| busy().worker_total_busy_duration(worker)).sum();
    let began = tokio::time::Instant::now();
    for _ in 0..10 {
        for packet in &second {
            for line in &lines {
                line.ask(VoiceOp::Packet(packet.clone()));
            }
        }
    }
    let asked = began.elapsed();
    let after: Duration = (0..2).map(|worker| busy().worker_total_busy_duration(worker)).sum();
    // Ten seconds of audio for each of them, in the time that the machine has for that.
    assert!(asked + (after - before) < Duration::from_secs(5), "{asked:?} and {:?}", after - before);
}
