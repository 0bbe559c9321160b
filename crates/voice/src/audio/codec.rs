//! Packets, as connections carry them.

use bytes::Bytes;
use ropus::{Application, Bitrate, Channels, DecodeMode, Decoder, Encoder, FrameDuration};
use switchboard_core::AudioFormat;

use super::EAR_RATE;
use super::pcm::{read_pcm16, write_pcm16};
use super::resampler::Resampler;

/// A format that nothing can be made of; says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(&'static str);

/// A packet that is not of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet cannot be decoded")]
pub struct BadPacket;

/// Makes samples at [`EAR_RATE`] of packets.
pub struct Unpacker(Unpacking);

enum Unpacking {
    Pcm { samples: Vec<f32>, resampler: Box<Resampler> },
    Opus { decoder: Box<Decoder>, frame: Vec<f32> },
}

impl Unpacker {
    /// For packets of a format.
    ///
    /// # Errors
    /// The format is not supported.
    pub fn new(format: AudioFormat) -> Result<Self, Unusable> {
        Ok(Self(match format {
            AudioFormat::Pcm16 { rate } => {
                let resampler = Resampler::new(rate, EAR_RATE).ok_or(RATE)?;
                Unpacking::Pcm { samples: Vec::new(), resampler: Box::new(resampler) }
            }
            AudioFormat::Opus => {
                let decoder = Decoder::new(EAR_RATE, Channels::Mono).map_err(|_| OPUS)?;
                Unpacking::Opus { decoder: Box::new(decoder), frame: vec![0.0; LONGEST_OPUS] }
            }
        }))
    }

    /// Appends the samples of one packet.
    ///
    /// # Errors
    /// It is not of the format; the next one may be.
    pub fn unpack(&mut self, packet: &[u8], into: &mut Vec<f32>) -> Result<(), BadPacket> {
        match &mut self.0 {
            Unpacking::Pcm { samples, resampler } => {
                if !packet.len().is_multiple_of(2) || packet.len() > LONGEST_PCM {
                    return Err(BadPacket);
                }
                samples.clear();
                read_pcm16(packet, samples);
                resampler.process(samples, into);
                Ok(())
            }
            Unpacking::Opus { decoder, frame } => {
                if packet.is_empty() || packet.len() > LONGEST_PCM {
                    return Err(BadPacket);
                }
                let count = decoder.decode_float(packet, frame, DecodeMode::Normal).map_err(|_| BadPacket)?;
                into.extend_from_slice(frame.get(..count).ok_or(BadPacket)?);
                Ok(())
            }
        }
    }
}

/// Makes packets of samples.
pub struct Packer {
    packing: Packing,
    packet_ms: u32,
    rate: u32,
}

enum Packing {
    Pcm,
    Opus { encoder: Box<Encoder>, packet: Vec<u8> },
}

impl Packer {
    /// For packets of a format and a length.
    ///
    /// # Errors
    /// The format is not supported.
    pub fn new(format: AudioFormat, packet_ms: u32) -> Result<Self, Unusable> {
        if !(10..=100).contains(&packet_ms) {
            return Err(Unusable("packets have to hold 10 to 100 ms"));
        }
        match format {
            AudioFormat::Pcm16 { rate } => {
                Resampler::new(EAR_RATE, rate).ok_or(RATE)?;
                if !(rate * packet_ms).is_multiple_of(1000) {
                    return Err(RATE);
                }
                Ok(Self { packing: Packing::Pcm, packet_ms, rate })
            }
            AudioFormat::Opus => {
                let length = match packet_ms {
                    10 => FrameDuration::Ms10,
                    20 => FrameDuration::Ms20,
                    40 => FrameDuration::Ms40,
                    60 => FrameDuration::Ms60,
                    _ => return Err(Unusable("Opus packets have to hold 10, 20, 40 or 60 ms")),
                };
                let bitrate = Bitrate::try_bits(OPUS_BITS).map_err(|_| OPUS)?;
                let encoder = Encoder::builder(OPUS_RATE, Channels::Mono, Application::Voip)
                    .bitrate(bitrate)
                    .complexity(OPUS_COMPLEXITY)
                    .frame_duration(length)
                    .build()
                    .map_err(|_| OPUS)?;
                let packing = Packing::Opus { encoder: Box::new(encoder), packet: vec![0; LARGEST_OPUS] };
                Ok(Self { packing, packet_ms, rate: OPUS_RATE })
            }
        }
    }

    /// Samples per second that it takes.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// How much a packet holds, in milliseconds.
    #[must_use]
    pub fn packet_ms(&self) -> u32 {
        self.packet_ms
    }

    /// How many samples a packet holds.
    #[must_use]
    pub fn packet_samples(&self) -> usize {
        (self.rate * self.packet_ms / 1000) as usize
    }

    /// One packet of [`Packer::packet_samples`] samples.
    ///
    /// # Errors
    /// They are more or fewer.
    pub fn pack(&mut self, samples: &[f32]) -> Result<Bytes, BadPacket> {
        if samples.len() != self.packet_samples() {
            return Err(BadPacket);
        }
        match &mut self.packing {
            Packing::Pcm => {
                let mut bytes = Vec::new();
                write_pcm16(samples, &mut bytes);
                Ok(bytes.into())
            }
            Packing::Opus { encoder, packet } => {
                let length = encoder.encode_float(samples, packet).map_err(|_| BadPacket)?;
                Ok(Bytes::copy_from_slice(packet.get(..length).ok_or(BadPacket)?))
            }
        }
    }
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = match &self.0 {
            Unpacking::Pcm { .. } => "pcm16",
            Unpacking::Opus { .. } => "opus",
        };
        write!(f, "Unpacker({format})")
    }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = match &self.packing {
            Packing::Pcm => "pcm16",
            Packing::Opus { .. } => "opus",
        };
        write!(f, "Packer({format}, {} Hz, {} ms)", self.rate, self.packet_ms)
    }
}

const RATE: Unusable = Unusable("the sample rate is not supported");
const OPUS: Unusable = Unusable("Opus cannot be set up");
/// Opus packets say themselves how wide their band is; speech from here has nothing above this one.
const OPUS_RATE: u32 = 24_000;
const OPUS_BITS: u32 = 32_000;
/// Of 10; beyond this speech only costs more.
const OPUS_COMPLEXITY: u8 = 5;
/// Samples of the longest Opus packet, 120 ms.
const LONGEST_OPUS: usize = EAR_RATE as usize * 120 / 1000;
/// Bytes of the largest Opus packet of 60 ms.
const LARGEST_OPUS: usize = 4_000;
/// Bytes of a whole second at the highest rate: more than any packet holds.
const LONGEST_PCM: usize = 96_000;

#[cfg(test)]
mod tests {
    use std::f32::consts::PI;

    use super::*;
    use crate::audio::level_db;

    const FORMATS: [AudioFormat; 4] = [
        AudioFormat::Pcm16 { rate: 16_000 },
        AudioFormat::Pcm16 { rate: 24_000 },
        AudioFormat::Pcm16 { rate: 48_000 },
        AudioFormat::Opus,
    ];

    #[test]
    fn a_tone_arrives_in_every_format() {
        for format in FORMATS {
            for packet_ms in [10, 20, 40, 60] {
                let mut packer = Packer::new(format, packet_ms).unwrap();
                let mut unpacker = Unpacker::new(format).unwrap();
                let rate = packer.rate() as f32;
                let tone: Vec<f32> =
                    (0..packer.rate()).map(|n| (2.0 * PI * 500.0 * n as f32 / rate).sin() * 0.5).collect();
                let mut heard = Vec::new();
                for samples in tone.chunks_exact(packer.packet_samples()) {
                    unpacker.unpack(&packer.pack(samples).unwrap(), &mut heard).unwrap();
                }
                let expected = (1000 / packet_ms * packet_ms * 16) as usize;
                assert!(heard.len().abs_diff(expected) <= 1, "{format:?}, {packet_ms} ms: {}", heard.len());
                let level = level_db(&heard[2_000..]);
                assert!((level + 9.0).abs() < 1.0, "{format:?}, {packet_ms} ms: {level} dB");
            }
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_and_the_next_one_is_taken() {
        for format in FORMATS {
            let mut unpacker = Unpacker::new(format).unwrap();
            let mut heard = Vec::new();
            let mut good = Packer::new(format, 20).unwrap();
            let packet = good.pack(&vec![0.0; good.packet_samples()]).unwrap();
            let bad: &[u8] = if format == AudioFormat::Opus { &[] } else { &[1, 2, 3] };
            assert_eq!(unpacker.unpack(bad, &mut heard), Err(BadPacket));
            assert_eq!(unpacker.unpack(&vec![0; LONGEST_PCM + 2], &mut heard), Err(BadPacket));
            assert!(heard.is_empty());
            unpacker.unpack(&packet, &mut heard).unwrap();
            assert!(heard.len().abs_diff(320) <= 1);
        }
    }

    #[test]
    fn arbitrary_bytes_never_break_the_opus_decoder() {
        let mut unpacker = Unpacker::new(AudioFormat::Opus).unwrap();
        let mut state = 1_u32;
        let mut heard = Vec::new();
        for round in 0..20_000_u32 {
            let packet: Vec<u8> = (0..round % 90)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            heard.clear();
            let _ = unpacker.unpack(&packet, &mut heard);
            assert!(heard.len() <= LONGEST_OPUS && heard.iter().all(|sample| sample.is_finite()));
        }
    }

    #[test]
    fn formats_that_nobody_uses_are_refused() {
        for rate in [0, 1, 7_000, 96_000, u32::MAX] {
            assert!(Unpacker::new(AudioFormat::Pcm16 { rate }).is_err(), "{rate}");
            assert!(Packer::new(AudioFormat::Pcm16 { rate }, 20).is_err(), "{rate}");
        }
        for packet_ms in [0, 1, 101, u32::MAX] {
            assert!(Packer::new(FORMATS[1], packet_ms).is_err(), "{packet_ms}");
        }
        assert!(Packer::new(AudioFormat::Opus, 30).is_err());
        assert!(Packer::new(FORMATS[1], 20).unwrap().pack(&[0.0; 3]).is_err());
    }
}
