//! How long each stage of the pipeline takes on this machine, with real models and programs.
//!
//! `cargo run --release -p switchboard-voice --example stages -- MODELS_DIR`, after `switchboard models fetch`.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use earshot::Detector;
use switchboard_core::AudioFormat;
use switchboard_voice::audio::{Packer, Resampler, Sound, Unpacker};
use switchboard_voice::hear::{Recogniser, Speech};
use switchboard_voice::speak::{Program, Speaker, Synthesiser};
use switchboard_voice::{VoicesConfig, local_recogniser};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let models_dir: PathBuf = std::env::args_os().nth(1).unwrap_or_else(|| "models".into()).into();
    let config = VoicesConfig { models_dir, ..VoicesConfig::default() };
    let sentence = "Please go to the orders page and show me what I have bought.";
    let speech = speak(&config, sentence).await?;
    hear(&config, &speech).await?;
    listen(&speech);
    convert(&speech);
    pack(&speech)
}

/// Has both programs say the sentence, and gives the last one.
async fn speak(config: &VoicesConfig, sentence: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut samples = Vec::new();
    for speaker in Speaker::ALL {
        let Some(program) = Program::find(speaker, &config.program_dirs, Duration::from_secs(10)) else {
            continue;
        };
        let began = Instant::now();
        let sound = program.speak(sentence, "en-US", None).await?;
        report(&format!("{} speaks {} ms", speaker.command(), sound.duration_ms()), began, 1);
        samples.clear();
        Resampler::new(sound.rate, 16_000).ok_or("an odd rate")?.process(&sound.samples, &mut samples);
    }
    Ok(samples)
}

async fn hear(config: &VoicesConfig, speech: &[f32]) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let recogniser: Arc<dyn Recogniser> = local_recogniser(config)?;
    report("the model is loaded", began, 1);
    for seconds in [1, 3] {
        let samples = speech[..speech.len().min(seconds * 16_000)].to_vec();
        let speech = Speech { samples, language: "en-US".into(), hints: Arc::default() };
        let began = Instant::now();
        recogniser.hear(&speech).await?;
        report(&format!("{seconds} s are understood"), began, 1);
    }
    Ok(())
}

fn listen(speech: &[f32]) {
    let mut detector = Detector::default_boxed();
    let (frames, _) = speech.as_chunks::<256>();
    let began = Instant::now();
    for frame in frames {
        detector.predict_f32(frame);
    }
    report("a frame of 16 ms is listened to", began, frames.len());
}

fn convert(speech: &[f32]) {
    for (from, to) in [(48_000, 16_000), (16_000, 24_000), (22_050, 24_000)] {
        let Some(mut resampler) = Resampler::new(from, to) else { continue };
        let mut samples = Vec::new();
        let began = Instant::now();
        let packets = speech.chunks(from as usize / 50);
        let count = packets.len();
        for packet in packets {
            samples.clear();
            resampler.process(packet, &mut samples);
        }
        report(&format!("20 ms are brought from {from} to {to} Hz"), began, count);
    }
}

fn pack(speech: &[f32]) -> Result<(), Box<dyn Error>> {
    let mut packer = Packer::new(AudioFormat::Opus, 20)?;
    let mut unpacker = Unpacker::new(AudioFormat::Opus)?;
    let sound = Sound { samples: speech.to_vec(), rate: packer.rate() };
    let began = Instant::now();
    let samples = sound.samples.chunks_exact(packer.packet_samples());
    let packets = samples.map(|samples| packer.pack(samples)).collect::<Result<Vec<_>, _>>()?;
    report("20 ms are packed as Opus", began, packets.len());
    let mut samples = Vec::new();
    let began = Instant::now();
    for packet in &packets {
        samples.clear();
        unpacker.unpack(packet, &mut samples)?;
    }
    report("20 ms are unpacked from Opus", began, packets.len());
    Ok(())
}

fn report(what: &str, began: Instant, count: usize) {
    let each = began.elapsed() / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    println!("{what:40} {each:>12.1?}");
}
