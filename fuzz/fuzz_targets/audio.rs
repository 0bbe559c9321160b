//! Packets of audio, each behind its length, in a format that the first byte chooses.

use switchboard_core::AudioFormat;
use switchboard_voice::audio::Unpacker;

/// Decodes what can be decoded; answers how many samples that were.
pub(crate) fn decode(bytes: &[u8]) -> usize {
    let Some((which, mut rest)) = bytes.split_first() else { return 0 };
    let format = match which % 4 {
        0 => AudioFormat::Opus,
        1 => AudioFormat::Pcm16 { rate: 16_000 },
        2 => AudioFormat::Pcm16 { rate: 24_000 },
        _ => AudioFormat::Pcm16 { rate: 48_000 },
    };
    let Ok(mut unpacker) = Unpacker::new(format) else { return 0 };
    let (mut samples, mut packets) = (Vec::new(), 0);
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(more.len());
        let (packet, more) = more.split_at(length);
        rest = more;
        packets += 1;
        // What cannot be decoded does not keep the next from being so.
        let _ = unpacker.unpack(packet, &mut samples);
    }
    // A packet of Opus holds 120 ms at most, and one of samples no more than it is long.
    assert!(samples.len() <= packets * 1920 + bytes.len() * 2, "more sound than was sent");
    samples.len()
}
