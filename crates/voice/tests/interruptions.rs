//! Somebody, or something, is heard while an answer is spoken.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::doubles::{Hum, Stopwatch};
use common::{Line, PCM16, packets, program, settings, silence, spoken};
use switchboard_core::{VoiceEvent, VoiceOp, VoiceSettings};
use switchboard_voice::hear::Recogniser;
use switchboard_voice::speak::{Speaker, Synthesiser};
use switchboard_voice::{Voices, VoicesConfig};
use tokio::time::{Instant, sleep};

/// Six seconds.
const ANSWER: &str = "There are two apples and five pears in your cart, \
    and one of the pears was on sale and is half as expensive until tomorrow at noon.";

/// What somebody says, made before the clock stops; and a voice that speaks, and listens while it does.
async fn answering(words: &str) -> (Vec<f32>, Line) {
    let words = spoken(&program(Speaker::Flite), None, words).await;
    tokio::time::pause();
    let recogniser: Arc<dyn Recogniser> = Arc::new(Stopwatch::new());
    let synthesiser: Arc<dyn Synthesiser> = Arc::new(Hum::default());
    let voices = Voices::with(&VoicesConfig::default(), Ok(recogniser), Ok(vec![synthesiser]));
    let mut line = Line::open(&voices, VoiceSettings { lead_ms: 0, ..settings() });
    line.ask(VoiceOp::Overhear(true));
    line.say(1, ANSWER, true);
    line.until(is_packet).await;
    (words, line)
}

/// Sends samples as they are spoken, and says what came meanwhile, and when.
async fn overheard(line: &mut Line, samples: &[f32]) -> Vec<(u128, VoiceEvent)> {
    let began = Instant::now();
    let mut events = Vec::new();
    for packet in packets(samples, PCM16) {
        line.ask(VoiceOp::Packet(packet));
        sleep(Duration::from_millis(20)).await;
        events.extend(line.pending().into_iter().map(|event| (began.elapsed().as_millis(), event)));
    }
    events
}

fn is_speech(event: &VoiceEvent) -> bool {
    matches!(event, VoiceEvent::Speech { turn: None, .. })
}

fn is_packet(event: &VoiceEvent) -> bool {
    matches!(event, VoiceEvent::Packet { .. })
}

fn is_said(event: &VoiceEvent) -> bool {
    matches!(event, VoiceEvent::Said { .. })
}

fn offset(event: &VoiceEvent) -> Option<u64> {
    if let VoiceEvent::Packet { offset_ms, .. } = event { Some(*offset_ms) } else { None }
}

/// Everything that is left of an answer that lasts so long.
fn rest_of(duration_ms: u64) -> Vec<u64> {
    (1..duration_ms / 20).map(|number| number * 20).collect()
}

/// Enough of a voice to be suspicious, and too little for a word.
fn grunt(word: &[f32]) -> &[f32] {
    &word[word.len() / 2 - 1_600..word.len() / 2 + 800]
}

#[tokio::test]
async fn a_noise_holds_the_answer_back_only_for_a_moment() {
    let (word, mut line) = answering("Hey!").await;
    let events = overheard(&mut line, &[&silence(400)[..], grunt(&word), &silence(1_600)[..]].concat()).await;
    assert!(!events.iter().any(|(_, event)| is_speech(event)), "nobody spoke: {events:?}");
    let times: Vec<u128> = events.iter().filter(|(_, event)| is_packet(event)).map(|(at, _)| *at).collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!((200..700).contains(&gap), "the answer was held back for {gap} ms");
    let (rest, said) = line.until(is_said).await;
    let VoiceEvent::Said { duration_ms, .. } = said else { panic!() };
    let offsets: Vec<u64> = events.iter().map(|(_, event)| event).chain(&rest).filter_map(offset).collect();
    assert_eq!(offsets, rest_of(duration_ms), "it goes on where it stopped, and nothing is lost");
}

#[tokio::test]
async fn words_interrupt_the_answer_and_are_the_head_of_the_next_turn() {
    let (words, mut line) = answering("Please stop and cancel my order.").await;
    let (head, rest) = words.split_at(12_800);
    let events = overheard(&mut line, &[&silence(400)[..], head].concat()).await;
    let told = events.iter().position(|(_, event)| is_speech(event)).expect("somebody speaks");
    let held = events[..told].iter().rev().find(|(_, event)| is_packet(event)).unwrap();
    assert!(events[told].0 - held.0 >= 100, "the answer waits while that is found out");
    assert!(!events[told..].iter().any(|(_, event)| is_packet(event)), "and does not go on");
    line.ask(VoiceOp::Hush { response: 1 });
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: Some(600), overheard: true });
    let mut events = overheard(&mut line, &[rest, &silence(1_000)[..]].concat()).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (later, heard) = line.until(|event| matches!(event, VoiceEvent::Heard { .. })).await;
    events.extend(later.into_iter().map(|event| (0, event)));
    assert!(events.iter().any(|(_, event)| *event == VoiceEvent::Silence { turn: 1 }), "{events:?}");
    assert!(
        !events.iter().any(|(_, event)| matches!(event, VoiceEvent::Speech { .. })),
        "that was told already"
    );
    let VoiceEvent::Heard { heard, .. } = heard else { panic!() };
    let ms: usize = heard.text.0.trim_end_matches(" ms").parse().unwrap();
    assert!(ms + 500 > words.len() / 16, "all words belong to the turn: {ms} ms of {}", words.len() / 16);
}

#[tokio::test]
async fn somebody_who_is_not_let_in_does_not_stop_the_answer_for_long() {
    let (words, mut line) =
        answering("I am only talking to somebody else who is here in this very room.").await;
    let events = overheard(&mut line, &[words, silence(2_000)].concat()).await;
    let told = events.iter().position(|(_, event)| is_speech(event)).expect("somebody speaks");
    assert!(events[told..].iter().any(|(_, event)| is_packet(event)), "it goes on by itself");
    line.until(is_said).await;
}

#[tokio::test]
async fn who_may_not_interrupt_is_not_heard() {
    let (words, mut line) = answering("Please stop and cancel my order.").await;
    line.ask(VoiceOp::Overhear(false));
    let events = overheard(&mut line, &words).await;
    assert!(!events.iter().any(|(_, event)| is_speech(event)));
    let packets = events.iter().filter(|(_, event)| is_packet(event)).count();
    let sent = words.len() / 320;
    // A paused clock ticks in whole milliseconds, and always a little late.
    assert!(packets.abs_diff(sent) <= sent / 10, "the answer goes on: {packets} packets while {sent} came");
}

#[tokio::test]
async fn a_suspicion_that_nothing_follows_does_not_last() {
    let (words, mut line) = answering("Stop it right there, please.").await;
    // The microphone goes off in the middle of a word.
    overheard(&mut line, &[&silence(300)[..], &words[..12_000]].concat()).await;
    line.pending();
    let began = Instant::now();
    line.until(is_packet).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    line.until(is_said).await;
}

#[tokio::test]
async fn what_is_thought_of_while_somebody_seems_to_speak_waits() {
    let (word, mut line) = answering("Hey!").await;
    line.until(is_said).await;
    overheard(&mut line, &[&silence(300)[..], grunt(&word)].concat()).await;
    line.say(2, "One two three.", true);
    let events = overheard(&mut line, &silence(1_000)).await;
    let first = events.iter().find(|(_, event)| is_packet(event)).unwrap().0;
    assert!((100..700).contains(&first), "after {first} ms");
}
