//! Tones, as Opus packets.

use bytes::Bytes;
use ropus::{Application, Channels, DecodeMode, Decoder, Encoder};

pub(crate) const RATE: u32 = 48_000;
pub(crate) const FRAME: usize = 960;

/// So many packets of a tone, 20 ms each.
pub(crate) fn tone(hertz: f32, packets: usize) -> Vec<Bytes> {
    let mut encoder = Encoder::builder(RATE, Channels::Mono, Application::Voip).build().unwrap();
    (0..packets)
        .map(|packet| {
            let samples: Vec<i16> = (0..FRAME)
                .map(|sample| {
                    let time = (packet * FRAME + sample) as f32 / RATE as f32;
                    ((time * hertz * std::f32::consts::TAU).sin() * 12_000.0) as i16
                })
                .collect();
            let mut bytes = vec![0; 1275];
            let length = encoder.encode(&samples, &mut bytes).unwrap();
            bytes.truncate(length);
            Bytes::from(bytes)
        })
        .collect()
}

/// The tone in some packets, by how often it crosses zero. The codec needs some of them to warm up.
pub(crate) fn pitch(packets: &[Bytes]) -> f32 {
    let mut decoder = Decoder::new(RATE, Channels::Mono).unwrap();
    let mut samples = Vec::new();
    for packet in packets {
        let mut frame = vec![0; FRAME];
        let length = decoder.decode(packet, &mut frame, DecodeMode::Normal).unwrap();
        samples.extend_from_slice(&frame[..length]);
    }
    let settled = &samples[samples.len() / 2..];
    let crossings = settled.windows(2).filter(|pair| (pair[0] < 0) != (pair[1] < 0)).count();
    crossings as f32 / 2.0 / (settled.len() as f32 / RATE as f32)
}
