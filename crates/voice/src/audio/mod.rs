//! Sound as numbers: samples, rates, packets and files.
//!
//! Inside of this crate sound is one channel of `f32` from -1 to 1. What comes in is brought to [`EAR_RATE`];
//! what goes out leaves at the rate that the connection asked for.

mod codec;
mod pcm;
mod resampler;
mod wav;

pub use codec::{BadPacket, Packer, Unpacker, Unusable};
pub use pcm::{read_pcm16, write_pcm16};
pub use resampler::Resampler;
pub use wav::{BadWav, read_wav, write_wav};

/// Samples per second of everything that is listened to.
pub const EAR_RATE: u32 = 16_000;

/// Samples with their rate.
#[derive(Clone, PartialEq)]
pub struct Sound {
    /// One channel, from -1 to 1.
    pub samples: Vec<f32>,
    /// Samples per second.
    pub rate: u32,
}

impl Sound {
    /// How long it is, in milliseconds.
    #[must_use]
    pub fn duration_ms(&self) -> u64 {
        self.samples.len() as u64 * 1000 / u64::from(self.rate.max(1))
    }
}

// What people say is not for logs.
impl std::fmt::Debug for Sound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sound({} ms at {} Hz)", self.duration_ms(), self.rate)
    }
}

/// How loud samples are, in decibels below full scale; silence is at -100.
#[must_use]
pub fn level_db(samples: &[f32]) -> f32 {
    let energy: f32 = samples.iter().map(|sample| sample * sample).sum();
    let mean = energy / samples.len().max(1) as f32;
    (10.0 * mean.max(1e-10).log10()).clamp(-100.0, 0.0)
}
