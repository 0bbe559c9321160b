//! Whole conversations with real models and real voices.

mod common;

use common::{Line, program, settings, silence, spoken, voices};
use switchboard_core::{VoiceEvent, VoiceOp};
use switchboard_voice::Readiness;
use switchboard_voice::speak::Speaker;
use tokio::time::pause;

#[tokio::test]
async fn a_spoken_turn_is_noticed_ended_and_understood() {
    let voices = voices().await;
    assert_eq!((voices.hears(), voices.speaks()), (Readiness::Ready, Readiness::Ready));
    let words = spoken(&program(Speaker::Flite), None, "Please open the settings.").await;
    pause();
    let mut line = Line::open(&voices, settings());
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: Some(700), overheard: false });
    line.send(&[silence(500), words, silence(1_000)].concat()).await;
    let (before, _) = line.until(|event| matches!(event, VoiceEvent::Silence { turn: 1 })).await;
    assert!(matches!(before[0], VoiceEvent::Speech { turn: Some(1), .. }), "{before:?}");
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (_, heard) = line.until(|event| matches!(event, VoiceEvent::Heard { .. })).await;
    let VoiceEvent::Heard { turn: 1, heard, took_ms } = heard else { panic!() };
    assert!(took_ms < 15_000);
    assert!(heard.text.0.to_lowercase().contains("open the settings"), "{}", heard.text.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_spoken_sentence_by_sentence() {
    let voices = voices().await;
    let mut line = Line::open(&voices, settings());
    line.say(1, "The settings are open. ", false);
    let (before, sentence) = line.until(|event| matches!(event, VoiceEvent::Sentence { .. })).await;
    assert!(before.is_empty(), "{before:?}");
    let VoiceEvent::Sentence { text, to_ms: first_end, .. } = sentence else { panic!() };
    assert_eq!(text.0, "The settings are open.");
    line.say(1, "What else?", true);
    let (all, said) = line.until(|event| matches!(event, VoiceEvent::Said { .. })).await;
    let VoiceEvent::Said { response: 1, duration_ms } = said else { panic!() };
    let packets: Vec<u64> = all
        .iter()
        .filter_map(|event| {
            let VoiceEvent::Packet { response: 1, offset_ms, packet } = event else { return None };
            assert_eq!(packet.len(), 960);
            Some(*offset_ms)
        })
        .collect();
    assert_eq!(packets, (0..duration_ms / 20).map(|n| n * 20).collect::<Vec<_>>());
    assert!(duration_ms > first_end && duration_ms < 10_000);
}

#[tokio::test]
async fn words_that_interrupt_are_understood_from_their_beginning() {
    let words = spoken(&program(Speaker::Flite), None, "Please stop and cancel my order.").await;
    let voices = voices().await;
    pause();
    let mut line = Line::open(&voices, settings());
    line.ask(VoiceOp::Overhear(true));
    let (head, rest) = words.split_at(12_800);
    line.send(&[&silence(400)[..], head].concat()).await;
    line.until(|event| matches!(event, VoiceEvent::Speech { turn: None, .. })).await;
    line.ask(VoiceOp::Listen { turn: 1, silence_ms: Some(600), overheard: true });
    line.send(&[rest, &silence(1_200)[..]].concat()).await;
    line.until(|event| *event == VoiceEvent::Silence { turn: 1 }).await;
    line.ask(VoiceOp::Conclude { turn: 1 });
    let (_, heard) = line.until(|event| matches!(event, VoiceEvent::Heard { .. })).await;
    let VoiceEvent::Heard { heard, .. } = heard else { panic!() };
    let text = heard.text.0.to_lowercase();
    assert!(text.contains("stop") && text.contains("order"), "{text}");
}
