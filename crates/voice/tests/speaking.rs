//! When what is heard of a response, by a clock that only moves when everybody waits.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::doubles::Hum;
use common::{Line, settings};
use switchboard_core::{AudioFormat, Dumb, VoiceEvent, VoiceOp, VoiceSettings};
use switchboard_voice::speak::Synthesiser;
use switchboard_voice::{Voices, VoicesConfig};
use tokio::time::{Instant, advance, sleep, timeout};

fn voices(hum: &Arc<Hum>) -> Arc<Voices> {
    let hum: Arc<dyn Synthesiser> = Arc::clone(hum) as _;
    Voices::with(&VoicesConfig::default(), Err("nobody listens".into()), Ok(vec![hum]))
}

fn line(hum: &Arc<Hum>, lead_ms: u32) -> Line {
    Line::open(&voices(hum), VoiceSettings { lead_ms, ..settings() })
}

/// Every packet of a response with the time at which it came, until the response ends.
async fn packets(line: &mut Line) -> (Vec<(u64, u64)>, VoiceEvent) {
    let began = Instant::now();
    let mut packets = Vec::new();
    loop {
        let event = line.next().await;
        if let VoiceEvent::Packet { offset_ms, .. } = event {
            packets.push((began.elapsed().as_millis() as u64, offset_ms));
        } else if !matches!(event, VoiceEvent::Sentence { .. }) {
            return (packets, event);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn packets_leave_at_their_time() {
    for lead_ms in [0, 100, 1_000] {
        let mut line = line(&Arc::new(Hum::default()), lead_ms);
        line.say(1, "One two three four five six seven eight nine ten.", true);
        let (packets, end) = packets(&mut line).await;
        assert_eq!(end, VoiceEvent::Said { response: 1, duration_ms: 2_000 });
        assert_eq!(packets.len(), 100);
        for (at, offset) in packets {
            let due = offset.saturating_sub(lead_ms.into());
            assert!((due..=due + 10).contains(&at), "{offset} left at {at} with a lead of {lead_ms}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_sentence_is_heard_while_the_answer_is_still_being_thought_of() {
    let hum = Arc::new(Hum::default());
    let mut line = line(&hum, 0);
    line.say(1, "Here it comes", false);
    sleep(Duration::from_secs(1)).await;
    assert!(line.pending().is_empty(), "no sentence is complete");
    line.say(1, ". And now", false);
    let (_, sentence) = line.until(|event| matches!(event, VoiceEvent::Sentence { .. })).await;
    let VoiceEvent::Sentence { response: 1, text, from_ms: 0, to_ms: 600, .. } = sentence else {
        panic!("{sentence:?}")
    };
    assert_eq!(text.0, "Here it comes.");
    let (before, _) = line.until(|event| matches!(event, VoiceEvent::Packet { offset_ms: 580, .. })).await;
    assert_eq!(before.len(), 29);
    sleep(Duration::from_secs(3)).await;
    line.say(1, " the rest.", true);
    let (later, said) = packets(&mut line).await;
    assert_eq!(said, VoiceEvent::Said { response: 1, duration_ms: 1_400 });
    assert_eq!(later[0].1, 600, "it goes on where it stopped");
    assert_eq!(later.last().map(|(at, _)| *at), Some(780), "at its usual pace");
}

#[tokio::test(start_paused = true)]
async fn the_next_sentence_is_made_while_one_is_heard() {
    let hum = Arc::new(Hum { takes: Duration::from_millis(500), ..Hum::default() });
    let mut line = line(&hum, 0);
    line.say(1, "One two three four. Five six seven eight. Nine ten eleven twelve.", true);
    let (packets, end) = packets(&mut line).await;
    assert_eq!(end, VoiceEvent::Said { response: 1, duration_ms: 2_400 });
    for (at, offset) in packets {
        assert!(
            (500 + offset..=520 + offset).contains(&at),
            "{offset} left at {at}: nobody waits after the first"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn sentences_are_not_made_long_before_they_are_heard() {
    let hum = Arc::new(Hum::default());
    let mut line = line(&hum, 0);
    let sentences: String =
        (0..20).map(|number| format!("This is sentence number {number} of some. ")).collect();
    line.say(1, &sentences, true);
    line.until(|event| matches!(event, VoiceEvent::Packet { .. })).await;
    sleep(Duration::from_millis(100)).await;
    assert!(hum.asked.lock().len() <= 4, "{} were made", hum.asked.lock().len());
}

#[tokio::test(start_paused = true)]
async fn after_hush_nothing_is_heard() {
    let hum = Arc::new(Hum { takes: Duration::from_millis(100), ..Hum::default() });
    let mut line = line(&hum, 200);
    line.say(1, "One two three four. Five six seven eight. ", false);
    line.until(|event| matches!(event, VoiceEvent::Packet { offset_ms: 400, .. })).await;
    line.ask(VoiceOp::Hush { response: 1 });
    line.pending();
    line.say(1, "Nine ten. ", true);
    assert!(timeout(Duration::from_secs(5), line.next()).await.is_err(), "it was hushed");
    line.say(2, "Something else.", true);
    let (all, said) = line.until(|event| matches!(event, VoiceEvent::Said { .. })).await;
    assert_eq!(said, VoiceEvent::Said { response: 2, duration_ms: 400 });
    assert!(matches!(all[0], VoiceEvent::Sentence { response: 2, from_ms: 0, .. }), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_packet_is_on_its_way_when_hush_returns() {
    let hum = Arc::new(Hum::default());
    for round in 0..20 {
        let mut line = line(&hum, 5_000);
        line.say(1, "One two three four five six seven eight nine ten.", true);
        line.until(|event| matches!(event, VoiceEvent::Packet { .. })).await;
        std::thread::sleep(Duration::from_micros(round * 31));
        line.ask(VoiceOp::Hush { response: 1 });
        line.pending();
        sleep(Duration::from_millis(2)).await;
        assert!(line.pending().is_empty(), "in round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_response_takes_the_place_of_the_one_before() {
    let mut line = line(&Arc::new(Hum::default()), 0);
    line.say(3, "One two three four five six seven eight nine ten.", true);
    line.until(|event| matches!(event, VoiceEvent::Packet { offset_ms: 200, .. })).await;
    line.say(4, "Eleven.", true);
    line.say(3, "Still three.", true);
    line.until(|event| matches!(event, VoiceEvent::Sentence { response: 4, .. })).await;
    let (rest, _) =
        line.until(|event| matches!(event, VoiceEvent::Said { response: 4, duration_ms: 200 })).await;
    assert!(rest.iter().all(|event| matches!(event, VoiceEvent::Packet { response: 4, .. })), "{rest:?}");
    assert!(timeout(Duration::from_secs(5), line.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_spoken_is_nothing_to_say() {
    let mut line = line(&Arc::new(Hum::default()), 0);
    for (response, text) in [(1, ""), (2, "  \n "), (3, "```\ncode\n```"), (4, "***")] {
        line.say(response, text, true);
        assert_eq!(line.next().await, VoiceEvent::Said { response, duration_ms: 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_sentence_that_fails_ends_the_response_at_its_place() {
    let mut line = line(&Arc::new(Hum::default()), 0);
    line.say(1, "One two three four. This will fail. Never heard.", true);
    let (packets, end) = packets(&mut line).await;
    assert_eq!(packets.len(), 40, "the first sentence is heard to its end");
    assert_eq!(end, VoiceEvent::Mute { response: 1, why: Dumb::Failed("it failed".into()) });
    line.say(1, "More.", true);
    assert!(timeout(Duration::from_secs(5), line.next()).await.is_err());
    line.say(2, "Another.", true);
    line.until(|event| matches!(event, VoiceEvent::Said { response: 2, .. })).await;
}

#[tokio::test(start_paused = true)]
async fn a_sentence_that_takes_too_long_fails() {
    let hum = Arc::new(Hum { takes: Duration::from_secs(3_600), ..Hum::default() });
    let mut line = line(&hum, 0);
    line.say(1, "Hello.", true);
    let began = Instant::now();
    assert_eq!(
        line.next().await,
        VoiceEvent::Mute { response: 1, why: Dumb::Failed("it took too long".into()) }
    );
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_speak_says_so() {
    let hum = Arc::new(Hum::default());
    let foreign = VoiceSettings { language: "de-DE".into(), ..settings() };
    let mut line = Line::open(&voices(&hum), foreign);
    line.say(1, "Hallo.", true);
    let why = Dumb::Unavailable("nobody here speaks this language".into());
    assert_eq!(line.next().await, VoiceEvent::Mute { response: 1, why });
    let mute = Voices::with(&VoicesConfig::default(), Err(String::new()), Err("install flite".into()));
    let mut line = Line::open(&mute, settings());
    line.say(1, "Hello. ", false);
    line.say(1, "Hello again.", true);
    let why = Dumb::Unavailable("install flite".into());
    assert_eq!(line.next().await, VoiceEvent::Mute { response: 1, why });
    assert!(timeout(Duration::from_secs(5), line.next()).await.is_err(), "once");
    let odd = VoiceSettings { output: AudioFormat::Pcm16 { rate: 12 }, ..settings() };
    let mut line = Line::open(&voices(&hum), odd);
    line.say(1, "Hello.", true);
    assert!(matches!(line.next().await, VoiceEvent::Mute { response: 1, why: Dumb::Failed(_) }));
}

#[tokio::test(start_paused = true)]
async fn an_endless_answer_ends() {
    let mut line = line(&Arc::new(Hum::default()), 0);
    for _ in 0..100 {
        line.say(1, &"word ".repeat(1_000), false);
    }
    let (_, end) =
        line.until(|event| matches!(event, VoiceEvent::Mute { .. } | VoiceEvent::Said { .. })).await;
    assert!(matches!(end, VoiceEvent::Mute { response: 1, why: Dumb::Failed(_) }), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_is_not_made_again() {
    let hum = Arc::new(Hum::default());
    let voices = voices(&hum);
    for _ in 0..3 {
        let mut line = Line::open(&voices, settings());
        line.say(1, "Welcome back!", true);
        line.until(|event| matches!(event, VoiceEvent::Said { .. })).await;
    }
    assert_eq!(*hum.asked.lock(), ["Welcome back!"]);
}

#[tokio::test(start_paused = true)]
async fn opus_packets_are_spoken_too() {
    let settings = VoiceSettings { output: AudioFormat::Opus, ..settings() };
    let mut line = Line::open(&voices(&Arc::new(Hum::default())), settings);
    line.say(1, "One two three.", true);
    let (packets, end) = packets(&mut line).await;
    assert_eq!((packets.len(), end), (30, VoiceEvent::Said { response: 1, duration_ms: 600 }));
}

#[tokio::test(start_paused = true)]
async fn a_voice_that_is_dropped_is_silent_and_gone() {
    let hum = Arc::new(Hum::default());
    let voices = voices(&hum);
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let lines: Vec<Line> = (0..20).map(|_| Line::open(&voices, settings())).collect();
    for line in &lines {
        line.say(1, "One two three four five six seven.", true);
        line.ask(VoiceOp::Listen { turn: 1, silence_ms: None, overheard: false });
    }
    advance(Duration::from_millis(50)).await;
    sleep(Duration::from_millis(50)).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(alive() >= before + 40);
    drop(lines);
    sleep(Duration::from_millis(50)).await;
    assert_eq!(alive(), before);
}
