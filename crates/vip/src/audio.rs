//! Audio (§5): formats, and the frames that carry it.

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};
use switchboard_core::AudioFormat;

use crate::named::named;

named! {
    /// How audio is written; one channel always.
    Format {
        /// 16-bit samples, 16 kHz.
        Pcm16k = "pcm16/16000",
        /// 16-bit samples, 24 kHz.
        Pcm24k = "pcm16/24000",
        /// 16-bit samples, 48 kHz.
        Pcm48k = "pcm16/48000",
        /// One Opus packet per frame.
        Opus = "opus/48000",
    }
}

/// The largest Opus packet.
const MAX_OPUS: usize = 1275;

impl Format {
    /// As the voice pipeline calls it.
    pub const fn audio_format(self) -> AudioFormat {
        match self {
            Self::Pcm16k => AudioFormat::Pcm16 { rate: 16_000 },
            Self::Pcm24k => AudioFormat::Pcm16 { rate: 24_000 },
            Self::Pcm48k => AudioFormat::Pcm16 { rate: 48_000 },
            Self::Opus => AudioFormat::Opus,
        }
    }

    /// How many bytes a millisecond has; none where that depends on what is heard.
    pub const fn bytes_per_ms(self) -> Option<usize> {
        match self {
            Self::Pcm16k => Some(32),
            Self::Pcm24k => Some(48),
            Self::Pcm48k => Some(96),
            Self::Opus => None,
        }
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Input,
    /// From the server to the client.
    Output,
}

impl Direction {
    /// The numbers that streams in this direction may have.
    pub const fn streams(self) -> std::ops::RangeInclusive<u16> {
        match self {
            Self::Input => 1..=32_767,
            Self::Output => 32_768..=65_535,
        }
    }
}

/// One frame of audio.
#[derive(Clone, PartialEq, Eq)]
pub struct AudioFrame {
    /// Where it goes.
    pub direction: Direction,
    /// Whether it is the last of its stream; it may be empty then.
    pub end: bool,
    /// Whether it is only overheard (§5.4).
    pub monitor: bool,
    /// Whether frames before it were lost.
    pub gap: bool,
    /// Its stream.
    pub stream: u16,
    /// Its number in the stream, from 0.
    pub seq: u32,
    /// Where it begins, from the start of the stream.
    pub offset_ms: u32,
    /// The audio.
    pub payload: Bytes,
}

// What people say is not for logs.
impl fmt::Debug for AudioFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direction, stream, seq, payload, .. } = self;
        write!(f, "AudioFrame({direction:?}, stream {stream}, seq {seq}, {} bytes)", payload.len())
    }
}

/// Why a frame is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// There is no whole header.
    #[error("the frame is shorter than its header")]
    Short,
    /// The frame is larger than frames may be.
    #[error("the frame is too large")]
    Large,
    /// The version is not 1.
    #[error("the version of the frame is not 1")]
    Version,
    /// It is neither input nor output.
    #[error("the kind of the frame is not known")]
    Kind,
    /// A flag is set that has no meaning.
    #[error("the frame has unknown flags")]
    Flags,
    /// The number of the stream is not one for its direction.
    #[error("the stream of the frame is out of range")]
    Stream,
    /// There is no audio in it, and it is not the last.
    #[error("the frame is empty")]
    Empty,
}

/// How long the header of a frame is.
pub const HEADER: usize = 12;
/// How long a frame may be, header and all.
pub const MAX_FRAME: usize = 64 << 10;

const END: u8 = 0x01;
const MONITOR: u8 = 0x02;
const GAP: u8 = 0x04;

impl AudioFrame {
    /// Reads a frame.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(mut bytes: Bytes) -> Result<Self, BadFrame> {
        if bytes.len() > MAX_FRAME {
            return Err(BadFrame::Large);
        }
        let Some(&[kind, flags, s0, s1, q0, q1, q2, q3, o0, o1, o2, o3]) = bytes.first_chunk::<HEADER>()
        else {
            return Err(BadFrame::Short);
        };
        if kind >> 4 != 1 {
            return Err(BadFrame::Version);
        }
        let direction = match kind & 0x0f {
            1 => Direction::Input,
            2 => Direction::Output,
            _ => return Err(BadFrame::Kind),
        };
        let seq = u32::from_be_bytes([q0, q1, q2, q3]);
        let offset_ms = u32::from_be_bytes([o0, o1, o2, o3]);
        let payload = bytes.split_off(HEADER);
        Self::checked(direction, flags, u16::from_be_bytes([s0, s1]), seq, offset_ms, payload)
    }

    /// A frame from its parts, as the fallback without binary messages has them too.
    pub(crate) fn checked(
        direction: Direction,
        flags: u8,
        stream: u16,
        seq: u32,
        offset_ms: u32,
        payload: Bytes,
    ) -> Result<Self, BadFrame> {
        if flags & !(END | MONITOR | GAP) != 0 {
            return Err(BadFrame::Flags);
        }
        if !direction.streams().contains(&stream) {
            return Err(BadFrame::Stream);
        }
        let end = flags & END != 0;
        if payload.is_empty() && !end {
            return Err(BadFrame::Empty);
        }
        Ok(Self {
            direction,
            end,
            monitor: flags & MONITOR != 0,
            gap: flags & GAP != 0,
            stream,
            seq,
            offset_ms,
            payload,
        })
    }

    /// Writes the frame.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEADER + self.payload.len());
        bytes.put_u8(match self.direction {
            Direction::Input => 0x11,
            Direction::Output => 0x12,
        });
        bytes.put_u8(self.flags());
        bytes.put_u16(self.stream);
        bytes.put_u32(self.seq);
        bytes.put_u32(self.offset_ms);
        bytes.put_slice(&self.payload);
        bytes.freeze()
    }

    pub(crate) const fn flags(&self) -> u8 {
        (if self.end { END } else { 0 })
            | (if self.monitor { MONITOR } else { 0 })
            | (if self.gap { GAP } else { 0 })
    }

    /// Whether the audio can be in this format: whole samples, or a packet that is not too long.
    pub fn fits(&self, format: Format) -> bool {
        match format {
            Format::Pcm16k | Format::Pcm24k | Format::Pcm48k => self.payload.len().is_multiple_of(2),
            Format::Opus => self.payload.len() <= MAX_OPUS,
        }
    }

    /// How much audio it holds, in whole milliseconds; none where that cannot be told by its length.
    pub fn duration_ms(&self, format: Format) -> Option<usize> {
        Some(self.payload.len() / format.bytes_per_ms()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> AudioFrame {
        AudioFrame {
            direction: Direction::Output,
            end: false,
            monitor: false,
            gap: true,
            stream: 32_769,
            seq: 2,
            offset_ms: 40,
            payload: Bytes::from_static(&[1, 0, 2, 0]),
        }
    }

    #[test]
    fn formats_lead_back_to_their_names() {
        for format in Format::ALL.iter().copied() {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::Pcm24k.bytes_per_ms().map(|bytes| bytes * 20), Some(960));
        assert_eq!(Format::Pcm16k.audio_format(), AudioFormat::Pcm16 { rate: 16_000 });
    }

    #[test]
    fn frames_that_are_none_are_refused() {
        let bad = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = frame().encode().to_vec();
            change(&mut bytes);
            AudioFrame::decode(bytes.into()).unwrap_err()
        };
        assert_eq!(bad(&|bytes| bytes[0] = 0x22), BadFrame::Version);
        assert_eq!(bad(&|bytes| bytes[0] = 0x13), BadFrame::Kind);
        assert_eq!(bad(&|bytes| bytes[0] = 0x11), BadFrame::Stream);
        assert_eq!(bad(&|bytes| bytes[1] = 0x08), BadFrame::Flags);
        assert_eq!(bad(&|bytes| bytes[2] = 0), BadFrame::Stream);
        assert_eq!(bad(&|bytes| bytes.truncate(11)), BadFrame::Short);
        assert_eq!(bad(&|bytes| bytes.truncate(12)), BadFrame::Empty);
        assert_eq!(bad(&|bytes| bytes.resize(MAX_FRAME + 1, 0)), BadFrame::Large);
        assert_eq!(AudioFrame::decode(frame().encode()), Ok(frame()));
    }

    #[test]
    fn audio_has_whole_samples_or_a_packet() {
        let with = |length| AudioFrame { payload: vec![0; length].into(), ..frame() };
        assert!(with(4).fits(Format::Pcm24k) && !with(5).fits(Format::Pcm24k));
        assert!(with(1275).fits(Format::Opus) && !with(1276).fits(Format::Opus));
        assert_eq!(
            (with(960).duration_ms(Format::Pcm24k), with(9).duration_ms(Format::Opus)),
            (Some(20), None)
        );
    }
}
