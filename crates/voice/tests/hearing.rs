//! What becomes of turns, by a clock that only moves when everybody waits.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::doubles::Stopwatch;
use common::{Line, PCM16, packets, program, settings, silence, spoken};
use switchboard_core::{AudioFormat, Unheard, VoiceEvent, VoiceOp, VoiceSettings};
use switchboard_voice::hear::{HearError, Recogniser};
use switchboard_voice::speak::Speaker;
use switchboard_voice::{Voices, VoicesConfig};
use tokio::time::{Instant, sleep, timeout};

fn voices(stopwatch: &Arc<Stopwatch>) -> Arc<Voices> {
    let stopwatch: Arc<dyn Recogniser> = Arc::clone(stopwatch) as _;
    Voices::with(&VoicesConfig::default(), Ok(stopwatch), Err("nobody speaks".into()))
}

fn line(stopwatch: &Arc<Stopwatch>) -> Line {
    Line::open(&voices(stopwatch), settings())
}

/// Something that somebody says, made before the clock stops.
async fn said(text: &str) -> Vec<f32> {
    let words = spoken(&program(Speaker::Flite), None, text).await;
    tokio::time::pause();
    words
}

/// Sends samples as they are spoken.
async fn send(line: &Line, samples: &[f32]) {
    for packet in packets(samples, PCM16) {
        line.ask(VoiceOp::Packet(packet));
        sleep(Duration::from_millis(20)).await;
    }
}

fn is_end(event: &VoiceEvent) -> bool {
    matches!(event, VoiceEvent::Heard { .. } | VoiceEvent::Unheard { .. })
}

fn listen(turn: u64) -> VoiceOp {
    VoiceOp::Listen { turn, silence_ms: Some(700), overheard: false }
}

#[tokio::test]
async fn most_of_a_turn_is_understood_before_it_ends() {
    let words = said("Please open the settings for me.").await;
    let stopwatch = Arc::new(Stopwatch { takes: Duration::from_millis(300), ..Stopwatch::new() });
    let mut line = line(&stopwatch);
    line.ask(listen(1));
    send(&line, &[silence(300), words, silence(1_000)].concat()).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (before, end) = line.until(is_end).await;
    assert!(before.contains(&VoiceEvent::Silence { turn: 1 }), "{before:?}");
    assert!(before.iter().any(|event| matches!(event, VoiceEvent::Partial { turn: 1, .. })), "{before:?}");
    let VoiceEvent::Heard { turn: 1, heard, took_ms } = end else { panic!("{end:?}") };
    assert!(took_ms < 50, "the last guess was right, so nobody had to wait: {took_ms} ms");
    assert_eq!((heard.confidence, heard.language.as_deref()), (Some(0.5), Some("en")));
}

#[tokio::test]
async fn what_was_understood_so_far_is_told_once_a_second() {
    let word = said("Yes.").await;
    let stopwatch = Arc::new(Stopwatch { takes: Duration::from_millis(10), ..Stopwatch::new() });
    let mut line = line(&stopwatch);
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: None, overheard: false });
    // Every pause is a reason to ask what was said so far.
    let words = [&word[2_400..12_000], &silence(300)].concat().repeat(8);
    let began = Instant::now();
    let mut told = Vec::new();
    for packet in packets(&words, PCM16) {
        line.ask(VoiceOp::Packet(packet));
        sleep(Duration::from_millis(20)).await;
        let partials = line.pending().into_iter().filter(|event| matches!(event, VoiceEvent::Partial { .. }));
        told.extend(partials.map(|_| began.elapsed().as_millis()));
    }
    assert!(stopwatch.lengths.lock().len() > told.len(), "it was asked more often than it was told");
    assert!(told.len() >= 3 && told.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{told:?}");
}

#[tokio::test]
async fn nothing_is_asked_before_the_end_of_whom_that_costs_money() {
    let words = said("Please open the settings for me.").await;
    let stopwatch = Arc::new(Stopwatch { interim: false, ..Stopwatch::new() });
    let mut line = line(&stopwatch);
    line.ask(listen(1));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (before, _) = line.until(is_end).await;
    assert!(!before.iter().any(|event| matches!(event, VoiceEvent::Partial { .. })));
    assert_eq!(stopwatch.lengths.lock().len(), 1);
}

#[tokio::test]
async fn a_long_turn_is_understood_in_pieces_and_in_order() {
    let words =
        said("This is a rather long sentence that somebody says without ever taking a breath in between.")
            .await;
    let stopwatch = Arc::new(Stopwatch { takes: Duration::from_millis(700), ..Stopwatch::new() });
    let mut line = line(&stopwatch);
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: None, overheard: false });
    send(&line, &[&words[..], &silence(800), &words, &silence(800), &words].concat()).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (before, end) = line.until(is_end).await;
    let VoiceEvent::Heard { heard, .. } = end else { panic!("{end:?}") };
    assert_eq!(heard.text.0.matches("ms").count(), 3, "{}", heard.text.0);
    let stable: Vec<usize> = before
        .iter()
        .filter_map(|event| {
            let VoiceEvent::Partial { text, stable, .. } = event else { return None };
            assert!(heard.text.0.starts_with(&text.0[..*stable]), "what is stable stays");
            Some(*stable)
        })
        .collect();
    assert!(stable.is_sorted() && stable.last() > Some(&0), "{stable:?}");
}

#[tokio::test]
async fn silence_counts_also_where_nothing_is_sent() {
    let words = said("Show the help.").await;
    let mut line = line(&Arc::new(Stopwatch::new()));
    line.ask(listen(1));
    send(&line, &words[..words.len() - 1_600]).await;
    line.pending();
    let began = Instant::now();
    line.until(|event| *event == VoiceEvent::Silence { turn: 1 }).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(
        timeout(Duration::from_secs(10), line.until(|event| *event == VoiceEvent::Silence { turn: 1 }))
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_not_heard() {
    let stopwatch = Arc::new(Stopwatch::new());
    let mut line = line(&stopwatch);
    for (turn, sound) in [(1, silence(2_000)), (2, Vec::new())] {
        line.ask(listen(turn));
        send(&line, &sound).await;
        line.ask(VoiceOp::Conclude { turn });
        assert_eq!(line.next().await, VoiceEvent::Unheard { turn, why: Unheard::NoSpeech });
    }
    line.ask(VoiceOp::Conclude { turn: 99 });
    assert_eq!(line.next().await, VoiceEvent::Unheard { turn: 99, why: Unheard::NoSpeech });
    assert!(stopwatch.lengths.lock().is_empty());
}

#[tokio::test]
async fn why_nobody_was_understood_is_told() {
    let words = said("Show the help.").await;
    for (error, why) in [
        (HearError::Language, Unheard::Language),
        (HearError::Unavailable("no model".into()), Unheard::Unavailable("no model".into())),
        (HearError::Exhausted("no money".into()), Unheard::Exhausted("no money".into())),
        (HearError::Refused("no key".into()), Unheard::Refused("no key".into())),
        (HearError::Audio("odd".into()), Unheard::Audio("odd".into())),
    ] {
        let mut line = line(&Arc::new(Stopwatch { result: Err(error), ..Stopwatch::new() }));
        line.ask(listen(1));
        send(&line, &words).await;
        line.ask(VoiceOp::Conclude { turn: 1 });
        assert_eq!(line.until(is_end).await.1, VoiceEvent::Unheard { turn: 1, why });
    }
    let deaf = Voices::with(&VoicesConfig::default(), Err("run fetch".into()), Err(String::new()));
    let mut line = Line::open(&deaf, settings());
    line.ask(listen(1));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let why = Unheard::Unavailable("run fetch".into());
    assert_eq!(line.until(is_end).await.1, VoiceEvent::Unheard { turn: 1, why });
}

#[tokio::test]
async fn who_takes_too_long_to_understand_is_late() {
    let words = said("Show the help.").await;
    let mut line = line(&Arc::new(Stopwatch { takes: Duration::from_secs(3_600), ..Stopwatch::new() }));
    line.ask(listen(1));
    send(&line, &words).await;
    let began = Instant::now();
    line.ask(VoiceOp::Conclude { turn: 1 });
    assert_eq!(line.until(is_end).await.1, VoiceEvent::Unheard { turn: 1, why: Unheard::Late });
    assert!(began.elapsed() < Duration::from_secs(16), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_turn_that_never_was_is_not_understood() {
    let words = said("Forget about this, please.").await;
    let mut line = line(&Arc::new(Stopwatch::new()));
    line.ask(listen(1));
    send(&line, &words).await;
    line.ask(VoiceOp::Forget { turn: 1 });
    sleep(Duration::from_millis(1)).await;
    line.pending();
    send(&line, &words).await;
    assert!(
        timeout(Duration::from_secs(5), line.next()).await.is_err(),
        "what comes after it belongs to nobody"
    );
    line.ask(listen(2));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 2 });
    assert!(matches!(line.until(is_end).await.1, VoiceEvent::Heard { turn: 2, .. }));
}

#[tokio::test]
async fn a_turn_is_understood_though_the_next_has_begun() {
    let words = said("Show the help.").await;
    let mut line = line(&Arc::new(Stopwatch { takes: Duration::from_secs(2), ..Stopwatch::new() }));
    line.ask(listen(1));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    line.ask(listen(2));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 2 });
    assert!(matches!(line.until(is_end).await.1, VoiceEvent::Heard { turn: 1, .. }));
    assert!(matches!(line.until(is_end).await.1, VoiceEvent::Heard { turn: 2, .. }));
}

#[tokio::test]
async fn audio_that_comes_too_fast_spoils_only_its_turn() {
    let words = said("Show the help.").await;
    let mut line = line(&Arc::new(Stopwatch::new()));
    line.ask(listen(1));
    for packet in packets(&words.repeat(20), PCM16) {
        line.ask(VoiceOp::Packet(packet));
    }
    line.ask(VoiceOp::Conclude { turn: 1 });
    let why = Unheard::Audio("the audio came faster than it could be heard".into());
    assert_eq!(line.until(is_end).await.1, VoiceEvent::Unheard { turn: 1, why });
    line.ask(listen(2));
    send(&line, &words).await;
    line.ask(VoiceOp::Conclude { turn: 2 });
    assert!(matches!(line.until(is_end).await.1, VoiceEvent::Heard { turn: 2, .. }));
}

#[tokio::test]
async fn words_are_heard_in_every_format() {
    let words = said("Please open the settings.").await;
    let wide = AudioFormat::Pcm16 { rate: 48_000 };
    for input in [PCM16, AudioFormat::Pcm16 { rate: 24_000 }, wide, AudioFormat::Opus] {
        let stopwatch = Arc::new(Stopwatch::new());
        let mut line = Line::open(&voices(&stopwatch), VoiceSettings { input, ..settings() });
        line.ask(listen(1));
        for packet in packets(&[silence(300), words.clone(), silence(1_000)].concat(), input) {
            line.ask(VoiceOp::Packet(packet));
            sleep(Duration::from_millis(20)).await;
        }
        line.until(|event| *event == VoiceEvent::Silence { turn: 1 }).await;
        line.ask(VoiceOp::Conclude { turn: 1 });
        let (_, end) = line.until(is_end).await;
        assert!(matches!(end, VoiceEvent::Heard { turn: 1, .. }), "{input:?}: {end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn audio_of_another_format_cannot_be_used() {
    let odd = [PCM16, AudioFormat::Opus, AudioFormat::Pcm16 { rate: 1 }];
    for input in odd {
        let mut line =
            Line::open(&voices(&Arc::new(Stopwatch::new())), VoiceSettings { input, ..settings() });
        line.ask(listen(1));
        for _ in 0..50 {
            line.ask(VoiceOp::Packet(Bytes::from_static(&[0xff; 7])));
        }
        line.ask(VoiceOp::Conclude { turn: 1 });
        let (_, end) = line.until(is_end).await;
        let VoiceEvent::Unheard { turn: 1, why } = end else { panic!("{input:?}: {end:?}") };
        // Seven bytes may be an Opus packet, and then one of noise.
        let fits = matches!(why, Unheard::Audio(_)) || input == AudioFormat::Opus && why == Unheard::NoSpeech;
        assert!(fits, "{input:?}: {why:?}");
    }
}
