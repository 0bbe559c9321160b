//! Sessions that send and receive audio all the time, beside as many bare sockets that echo it.
//!
//! Recognition is left out: it takes a core by itself. What is sent is too quiet for speech, in turns that are
//! cancelled and, while the answer is spoken, as audio that is only overheard; detection of speech runs on all
//! of it. Answers are typed for, and spoken out of the cache of sentences.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::Message;

use super::client::{Client, What};
use super::{PATH, SETTINGS};
use crate::bench::figures::Scale;
use crate::bench::peer::open_socket;
use crate::bench::report::{Figure, percentile};
use crate::bench::servers::{Process, micros};

/// What was seen of one session, or of all.
#[derive(Debug, Default)]
struct Seen {
    /// Frames that were sent.
    sent: u64,
    /// Frames that came.
    received: u64,
    /// Frames that never came.
    dropped: u64,
    /// Frames that came after the moment at which they were to be heard.
    late: u64,
    /// From each interruption to the last frame of what was interrupted, in milliseconds.
    silence: Vec<f64>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.dropped += other.dropped;
        self.late += other.late;
        self.silence.extend(other.silence);
    }
}

pub(super) async fn figures(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let (sessions, time) = if scale.rounds > 10 { (200, 60) } else { (50, 15) };
    let time = Duration::from_secs(time);
    let (bare_each, bare_frames) = echoes(sessions, time / 3).await?;
    let process = Process::server(&[&SETTINGS[..], &["vip.agent=narrator"]].concat()).await?;
    // Every sentence of the story is in the cache before anything is counted.
    tell(&mut Client::connect(&process.address, "server_vad").await?).await?;
    let mut clients = Vec::new();
    for _ in 0..sessions {
        clients.push(Client::connect(&process.address, "server_vad").await?);
    }
    let (before, began) = (process.cpu(), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, client) in (0_u32..).zip(clients) {
        // People do not all speak at the same moment.
        let phase = Duration::from_secs(5) * number / sessions;
        tasks.spawn(converse(client, phase, began + time));
    }
    let mut seen = Seen::default();
    while let Some(result) = tasks.join_next().await {
        seen.add(result??);
    }
    let (spent, elapsed) = (process.cpu().saturating_sub(before), began.elapsed());
    let frames = seen.sent + seen.received;
    let each = spent.as_secs_f64() * 1e6 / frames as f64;
    let name = |what: &str| format!("VIP, {sessions} sessions with audio in and out, no recognition: {what}");
    let share = 100.0 * spent.as_secs_f64() / elapsed.as_secs_f64() / f64::from(sessions);
    Ok(vec![
        Figure::new(name("processor per session"), share, "% of a core").budget(0.5, 0.25),
        Figure::new(name("dropped frames"), seen.dropped as f64, "")
            .yardstick("frames received", seen.received as f64)
            .budget(0.0, 0.0),
        Figure::new(name("late frames"), 100.0 * seen.late as f64 / seen.received as f64, "%")
            .yardstick("frames received", seen.received as f64)
            .budget(1.0, 0.1),
        Figure::new(name("interrupt to last frame, p99"), percentile(&mut seen.silence, 99.0), "ms")
            .yardstick("interruptions", seen.silence.len() as f64)
            .budget(100.0, 20.0),
        Figure::new(name("processor per audio frame, either way"), each, "µs")
            .yardstick(&format!("bare echo of {bare_frames} such frames (µs)"), bare_each),
        Figure::new(name("processor per audio frame, ratio to the bare echo"), each / bare_each, "×"),
    ])
}

/// Speaks, is not heard, asks, listens, interrupts every second answer; until the time is over.
async fn converse(mut client: Client, phase: Duration, until: Instant) -> anyhow::Result<Seen> {
    tokio::time::sleep(phase).await;
    let (mut seen, mut pace, mut round) = (Seen::default(), every_frame(), 0);
    while Instant::now() < until {
        client.begin_speech().await?;
        for _ in 0..SPOKEN {
            pace.tick().await;
            client.sound(quiet(), false).await?;
        }
        client.say("input.cancel", json!({"reason": "user"})).await?;
        client.until(|received| received.is_state("idle")).await?;
        client.ask("Tell me a story.").await?;
        listen(&mut client, &mut pace, round % 2 == 0, &mut seen).await?;
        round += 1;
    }
    seen.sent = client.sent;
    client.say("session.close", json!({"reason": "app"})).await?;
    Ok(seen)
}

/// Hears an answer to its end, or interrupts it; the microphone is overheard meanwhile.
async fn listen(
    client: &mut Client,
    pace: &mut Interval,
    interrupts: bool,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    let (mut response, mut first, mut next, mut speaking) = (String::new(), None, 0, false);
    loop {
        let received = tokio::select! {
            received = client.next() => received?,
            _ = pace.tick(), if speaking => {
                client.sound(quiet(), true).await?;
                let played = first.map_or(0, |first| micros().saturating_sub(first) / 1000);
                if interrupts && played > INTERRUPTED_AT_MS {
                    return interrupt(client, &response, played, seen).await;
                }
                continue;
            }
        };
        match &received.what {
            What::Frame(frame) => {
                let first = *first.get_or_insert(received.at);
                seen.received += 1;
                seen.dropped += u64::from(frame.seq.saturating_sub(next));
                seen.late += u64::from(received.at > first + u64::from(frame.offset_ms) * 1000);
                next = frame.seq + 1;
            }
            What::Event { name, data } => match name.as_str() {
                "response.audio" => {
                    response = data["response_id"].as_str().context("a response without an id")?.to_owned();
                }
                "state.changed" => speaking = data["state"] == "ai_speaking",
                "audio.end" => {
                    let duration = data["duration_ms"].as_u64().unwrap_or_default();
                    return hear_out(client, pace, &response, first, duration).await;
                }
                _ => {}
            },
        }
    }
}

/// Everything has come; plays what is left of it.
async fn hear_out(
    client: &mut Client,
    pace: &mut Interval,
    response: &str,
    first: Option<u64>,
    duration_ms: u64,
) -> anyhow::Result<()> {
    let end = first.unwrap_or_else(micros) + duration_ms * 1000;
    while micros() < end {
        pace.tick().await;
        client.sound(quiet(), true).await?;
    }
    client.say("audio.complete", json!({"response_id": response, "played_ms": duration_ms})).await?;
    client.until(|received| received.is_state("idle")).await?;
    Ok(())
}

/// Interrupts, and sees when the last frame comes.
async fn interrupt(
    client: &mut Client,
    response: &str,
    played_ms: u64,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    let began = micros();
    client.interrupt(response, played_ms).await?;
    let mut last = began;
    loop {
        let received = client.next().await?;
        match received.what {
            What::Frame(_) => {
                seen.received += 1;
                last = received.at;
            }
            What::Event { name, .. } if name == "audio.interrupted" => break,
            What::Event { .. } => {}
        }
    }
    seen.silence.push(last.saturating_sub(began) as f64 / 1000.0);
    client.say("input.cancel", json!({"reason": "user"})).await?;
    client.until(|received| received.is_state("idle")).await?;
    Ok(())
}

/// Hears the whole story once.
async fn tell(client: &mut Client) -> anyhow::Result<()> {
    client.ask("Tell me a story.").await?;
    listen(client, &mut every_frame(), false, &mut Seen::default()).await
}

/// Processor time of a bare echo per frame and way, in microseconds, and how many frames that were.
async fn echoes(connections: u32, time: Duration) -> anyhow::Result<(f64, u64)> {
    let process = Process::bare().await?;
    let mut sockets = Vec::new();
    for _ in 0..connections {
        sockets.push(open_socket(&process.address, PATH, None).await?);
    }
    let (before, until) = (process.cpu(), Instant::now() + time);
    let mut tasks = JoinSet::new();
    for mut socket in sockets {
        tasks.spawn(async move {
            let (mut pace, mut frames) = (every_frame(), 0_u64);
            while Instant::now() < until {
                pace.tick().await;
                // As long as a frame of ours, header and all.
                let mut frame = vec![0; 12];
                frame.extend_from_slice(&quiet());
                socket.send(Message::Binary(frame.into())).await?;
                socket.next().await.context("the echo ended")??;
                frames += 2;
            }
            anyhow::Ok(frames)
        });
    }
    let mut frames = 0;
    while let Some(result) = tasks.join_next().await {
        frames += result??;
    }
    let spent = process.cpu().saturating_sub(before);
    Ok((spent.as_secs_f64() * 1e6 / frames as f64, frames))
}

fn every_frame() -> Interval {
    let mut pace = interval(Duration::from_millis(20));
    // Like a microphone: what was held up comes in a burst.
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    pace
}

/// 20 ms of a quiet room at 16 kHz.
fn quiet() -> Bytes {
    const SAMPLES: [u8; 640] = {
        let mut samples = [0; 640];
        let mut n = 0;
        while n < 320 {
            // Every third sample a little above nothing.
            samples[2 * n] = if n % 3 == 0 { 12 } else { 0 };
            n += 1;
        }
        samples
    };
    Bytes::from_static(&SAMPLES)
}

/// Frames of a turn that is cancelled.
const SPOKEN: usize = 100;
/// How much of an answer is heard before it is interrupted.
const INTERRUPTED_AT_MS: u64 = 2_000;
