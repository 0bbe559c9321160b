//! From the end of speech to the first sound of the answer: one session, a real recogniser, a real voice.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_voice::VoicesConfig;
use switchboard_voice::audio::{EAR_RATE, Resampler, write_pcm16};
use switchboard_voice::models::status;
use switchboard_voice::speak::{Program, Speaker, Synthesiser as _};
use tokio::time::interval;

use super::SETTINGS;
use super::client::{Client, What};
use crate::bench::figures::Scale;
use crate::bench::report::{Figure, percentile};
use crate::bench::servers::{Process, micros};

/// The stages as the server measures them, and what they are.
const STAGES: [(&str, &str); 4] = [
    ("asr_ms", "recognition"),
    ("llm_ttft_ms", "first words of the agent"),
    ("tts_ttfb_ms", "first sound of the voice"),
    ("e2e_ms", "all of it, as the server says"),
];

pub(super) async fn figures(scale: Scale, models: Option<&Path>) -> anyhow::Result<Vec<Figure>> {
    let name =
        |what: &str| format!("VIP, end of speech to first audio (Moonshine tiny, flite): {what}, median");
    let Some(models) = models.filter(|folder| status(folder).iter().all(|model| model.is_complete())) else {
        return Ok(vec![Figure::missing(name("all stages"), "name the folder of models with --models")]);
    };
    let Some(frames) = question().await? else {
        return Ok(vec![Figure::missing(name("all stages"), "flite is not installed")]);
    };
    let models = format!("voice.models_dir={}", models.display());
    let settings: Vec<&str> =
        SETTINGS.into_iter().chain([models.as_str(), "voice.recogniser=local", "vip.agent=brief"]).collect();
    let process = Process::server(&settings).await?;
    let mut client = Client::connect(&process.address, "manual").await?;
    // The first turn loads the model.
    ask(&mut client, &frames).await?;
    let (mut heard, mut stages) = (Vec::new(), vec![Vec::new(); STAGES.len()]);
    for _ in 0..scale.rounds.min(20) {
        let (first, metrics) = ask(&mut client, &frames).await?;
        heard.push(first);
        for ((key, _), times) in STAGES.iter().zip(&mut stages) {
            times.extend(metrics[*key].as_f64());
        }
    }
    let mut figures = vec![
        Figure::new(name("as the client hears it"), percentile(&mut heard, 50.0), "ms").budget(1500.0, 700.0),
    ];
    for ((_, what), mut times) in STAGES.into_iter().zip(stages) {
        figures.push(if times.is_empty() {
            Figure::missing(name(what), "the server does not say")
        } else {
            Figure::new(name(what), percentile(&mut times, 50.0), "ms")
        });
    }
    Ok(figures)
}

/// Asks aloud; answers how long the first sound took after the last word, in milliseconds, and what the server
/// says of it.
async fn ask(client: &mut Client, frames: &[Bytes]) -> anyhow::Result<(f64, Value)> {
    let mut pace = interval(Duration::from_millis(20));
    client.begin_speech().await?;
    for frame in frames {
        pace.tick().await;
        client.sound(frame.clone(), false).await?;
    }
    let ended = micros();
    client.say("input.end", json!({"reason": "ptt_release"})).await?;
    let (mut first, mut response, mut metrics, mut duration) = (None, String::new(), None, None);
    while metrics.is_none() || duration.is_none() {
        let received = client.next().await?;
        match received.what {
            What::Frame(_) => drop(first.get_or_insert(received.at)),
            What::Event { name, data } => match name.as_str() {
                "response.audio" => {
                    response = data["response_id"].as_str().context("a response without an id")?.to_owned();
                }
                "audio.end" => duration = data["duration_ms"].as_u64(),
                "response.done" => metrics = Some(data["latency_metrics"].clone()),
                _ => {}
            },
        }
    }
    let first = first.context("an answer without a sound")?;
    client.say("audio.complete", json!({"response_id": response, "played_ms": duration})).await?;
    client.until(|received| received.is_state("idle")).await?;
    Ok((first.saturating_sub(ended) as f64 / 1000.0, metrics.unwrap_or_default()))
}

/// A spoken question, in frames of 20 ms; none if nobody here can speak.
async fn question() -> anyhow::Result<Option<Vec<Bytes>>> {
    let folders = VoicesConfig::default().program_dirs;
    let Some(flite) = Program::find(Speaker::Flite, &folders, Duration::from_secs(60)) else {
        return Ok(None);
    };
    let sound = flite.speak("Please tell me a story about a small town.", "en-US", Some("rms")).await?;
    let mut samples = Vec::new();
    Resampler::new(sound.rate, EAR_RATE).context("no such rate")?.process(&sound.samples, &mut samples);
    samples.resize(samples.len().div_ceil(FRAME) * FRAME, 0.0);
    let frame = |samples: &[f32]| {
        let mut bytes = Vec::with_capacity(2 * FRAME);
        write_pcm16(samples, &mut bytes);
        Bytes::from(bytes)
    };
    Ok(Some(samples.chunks(FRAME).map(frame).collect()))
}

/// Samples of a frame.
const FRAME: usize = 320;
