//! The header's small fields: opcode (§4), flags in the Reserved byte (§3.1), encodings (§3.2).

use std::fmt;

use super::features::{Feature, Features};
use crate::error::FlagsError;

/// The six opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Capabilities, greeting, ping, authentication, goodbye.
    Hello = 0x01,
    /// Opens a request.
    Invoke = 0x02,
    /// Output of a request.
    Stream = 0x03,
    /// Cancels, pauses, resumes or credits a request.
    Interrupt = 0x04,
    /// Tools the server offers.
    ToolDef = 0x05,
    /// Failure, or success with `complete06`.
    Error = 0x06,
}

impl Opcode {
    /// Every opcode.
    pub const ALL: [Self; 6] =
        [Self::Hello, Self::Invoke, Self::Stream, Self::Interrupt, Self::ToolDef, Self::Error];

    /// The opcode of a Type nibble; `None` if nobody assigned it.
    pub fn from_nibble(nibble: u8) -> Option<Self> {
        Some(match nibble {
            0x01 => Self::Hello,
            0x02 => Self::Invoke,
            0x03 => Self::Stream,
            0x04 => Self::Interrupt,
            0x05 => Self::ToolDef,
            0x06 => Self::Error,
            _ => return None,
        })
    }

    /// The Type nibble.
    pub fn nibble(self) -> u8 {
        self as u8
    }

    /// Whether this opcode travels in that direction.
    pub fn travels(self, direction: Direction) -> bool {
        match self {
            Self::Hello | Self::Error => true,
            Self::Invoke | Self::Interrupt => direction == Direction::ToServer,
            Self::Stream | Self::ToolDef => direction == Direction::ToClient,
        }
    }

    /// Whether this opcode may carry that request id (§4).
    pub fn carries(self, id: u16, agreed: Features) -> bool {
        match self {
            Self::Hello => id == 0,
            Self::Invoke => id != 0,
            Self::Stream => id != 0 || agreed.has(Feature::Push),
            Self::Interrupt | Self::ToolDef | Self::Error => true,
        }
    }
}

/// Prints the name of the opcode table.
impl fmt::Display for Opcode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hello => "HELLO",
            Self::Invoke => "INVOKE",
            Self::Stream => "STREAM",
            Self::Interrupt => "INTERRUPT",
            Self::ToolDef => "TOOL_DEF",
            Self::Error => "ERROR",
        })
    }
}

/// Which way a frame travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Client to server.
    ToServer,
    /// Server to client.
    ToClient,
}

/// The Reserved byte.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// All zero: what is sent until `flags` is agreed.
    pub const NONE: Self = Self(0);
    /// Terminal STREAM of this id.
    pub const END: Self = Self(0x01);
    /// The payload continues in the next frame of this Type and id.
    pub const MORE: Self = Self(0x02);
    /// The payload is compressed.
    pub const COMPRESSED: Self = Self(0x10);
    /// Sent again after resume.
    pub const REPLAY: Self = Self(0x20);
    const ENC: u8 = 0x0C;
    const UNUSED: u8 = 0xC0;

    /// The byte as received.
    pub const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// The byte as sent.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// This set with its ENC field replaced.
    #[must_use]
    pub const fn with_enc(self, enc: EncFlag) -> Self {
        Self((self.0 & !Self::ENC) | ((enc as u8) << 2))
    }

    /// The ENC field.
    pub const fn enc(self) -> EncFlag {
        match self.0 & Self::ENC {
            0x04 => EncFlag::Json,
            0x08 => EncFlag::Raw,
            0x0C => EncFlag::Msgpack,
            _ => EncFlag::Unspecified,
        }
    }

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What a received byte means under the agreed features: nothing until `flags` is agreed (ASP-018).
    pub fn agreed(self, features: Features) -> Result<Self, FlagsError> {
        if !features.has(Feature::Flags) {
            return Ok(Self::NONE);
        }
        let flags = Self(self.0 & !Self::UNUSED);
        if flags.has(Self::END.with(Self::MORE)) {
            return Err(FlagsError::EndAndMore);
        }
        if flags.has(Self::MORE) && !features.has(Feature::Frag) {
            return Err(FlagsError::MoreNotAgreed);
        }
        if flags.has(Self::COMPRESSED) && features.compression().is_none() {
            return Err(FlagsError::CompressedNotAgreed);
        }
        Ok(flags)
    }
}

/// Prints the set bits by name.
impl fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = formatter.debug_set();
        for (flag, name) in [
            (Self::END, "END"),
            (Self::MORE, "MORE"),
            (Self::COMPRESSED, "COMPRESSED"),
            (Self::REPLAY, "REPLAY"),
        ] {
            if self.has(flag) {
                set.entry(&format_args!("{name}"));
            }
        }
        if self.enc() != EncFlag::Unspecified {
            set.entry(&self.enc());
        }
        if self.0 & Self::UNUSED != 0 {
            set.entry(&format_args!("{:#04x}", self.0 & Self::UNUSED));
        }
        set.finish()
    }
}

/// The ENC field of the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EncFlag {
    /// The receiver sniffs.
    Unspecified = 0,
    /// JSON.
    Json = 1,
    /// Raw bytes.
    Raw = 2,
    /// MessagePack.
    Msgpack = 3,
}

impl From<Enc> for EncFlag {
    fn from(enc: Enc) -> Self {
        match enc {
            Enc::Json => Self::Json,
            Enc::Msgpack => Self::Msgpack,
        }
    }
}

names! {
    /// The encoding of maps.
    Enc {
        /// JSON.
        Json = "json",
        /// MessagePack.
        Msgpack = "msgpack",
    }
}
