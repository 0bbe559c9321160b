//! Speech beside a connection: what is heard and what is said, without ever becoming history by itself.
//!
//! Audio takes a side path. A connection that carries it hands every packet to a voice of its own
//! ([`Output::Voice`](crate::Output::Voice)) and is told what came of it
//! ([`Input::Voice`](crate::Input::Voice)): who began to speak, which words were understood, which packets
//! are to be sent. What was said becomes history only when the connection asks a session for it.
//!
//! Turns and responses are numbered by the connection. A voice listens to one turn at a time and says one
//! response at a time; whatever is about an older one is stale and can be thrown away by its number.

use std::fmt;

use bytes::Bytes;

use crate::connection::Heard;
use crate::pii::Pii;

/// What a connection asks of its voice.
#[derive(Clone, PartialEq)]
pub enum VoiceOp {
    /// How to listen and speak from now on; always the first.
    Settle(Box<VoiceSettings>),
    /// What may well be said from now on, such as the labels of what can be done; it takes the place of what was
    /// expected before.
    Expect(Pii<Vec<String>>),
    /// Whoever is on the other side has the floor: the packets that follow belong to this turn.
    Listen {
        /// Which turn.
        turn: u64,
        /// The silence after speech that ends it, in milliseconds; none if only the connection ends it.
        silence_ms: Option<u32>,
        /// Whether what was overheard last is its head.
        overheard: bool,
    },
    /// One packet of audio: of the turn that is listened to, or overheard.
    Packet(Bytes),
    /// Whether packets outside of turns are listened to for the beginning of speech.
    Overhear(bool),
    /// The turn is over; answered with [`VoiceEvent::Heard`] or [`VoiceEvent::Unheard`].
    Conclude {
        /// Which turn.
        turn: u64,
    },
    /// The turn never was; what was heard of it is forgotten.
    Forget {
        /// Which turn.
        turn: u64,
    },
    /// More to say. The first for a response begins it.
    Say {
        /// Which response.
        response: u64,
        /// The words, in pieces of any size.
        text: Pii<String>,
        /// Whether nothing follows.
        last: bool,
    },
    /// Not another packet of this response.
    Hush {
        /// Which response.
        response: u64,
    },
}

/// How to listen and speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceSettings {
    /// The format of the packets that come in.
    pub input: AudioFormat,
    /// The format of the packets that go out.
    pub output: AudioFormat,
    /// How much a packet holds that goes out, in milliseconds.
    pub packet_ms: u32,
    /// How far ahead of the ear packets may be handed over, in milliseconds; 0 where the transport plays
    /// them as they come.
    pub lead_ms: u32,
    /// The language, as a BCP-47 tag.
    pub language: String,
    /// The voice to speak with, where there is a choice.
    pub voice: Option<String>,
}

/// How audio is written; one channel always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioFormat {
    /// Signed 16-bit samples, little-endian.
    Pcm16 {
        /// Samples per second.
        rate: u32,
    },
    /// One Opus packet, at 48 kHz.
    Opus,
}

/// What a voice has to say to its connection.
#[derive(Clone, PartialEq)]
pub enum VoiceEvent {
    /// Somebody speaks who did not before: in the turn that is listened to, or overheard.
    Speech {
        /// The turn; none if it was overheard.
        turn: Option<u64>,
        /// How sure that is, from 0 to 1.
        confidence: f32,
        /// How loud, in decibels below full scale.
        level_db: f32,
    },
    /// The silence that ends the turn has come.
    Silence {
        /// Which turn.
        turn: u64,
    },
    /// What was understood so far.
    Partial {
        /// Which turn.
        turn: u64,
        /// The words.
        text: Pii<String>,
        /// So many characters of it will not change any more.
        stable: usize,
    },
    /// What was said.
    Heard {
        /// Which turn.
        turn: u64,
        /// The words.
        heard: Heard,
        /// How long recognition took after the end of the turn, in milliseconds.
        took_ms: u64,
    },
    /// Nothing could be made of the turn.
    Unheard {
        /// Which turn.
        turn: u64,
        /// Why.
        why: Unheard,
    },
    /// A sentence of a response begins; its packets follow.
    Sentence {
        /// Which response.
        response: u64,
        /// The words.
        text: Pii<String>,
        /// Where it begins in the response, in milliseconds.
        from_ms: u64,
        /// Where it ends.
        to_ms: u64,
        /// How long the words took to become sound, in milliseconds.
        took_ms: u64,
    },
    /// A packet to be sent now.
    Packet {
        /// Which response.
        response: u64,
        /// Where it begins in the response, in milliseconds.
        offset_ms: u64,
        /// The audio.
        packet: Bytes,
    },
    /// Every packet of the response was handed over.
    Said {
        /// Which response.
        response: u64,
        /// How long it is, in milliseconds; 0 if it had nothing that can be spoken.
        duration_ms: u64,
    },
    /// The rest of the response cannot be spoken.
    Mute {
        /// Which response.
        response: u64,
        /// Why.
        why: Dumb,
    },
}

/// Why nothing could be made of what somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// Nobody spoke.
    NoSpeech,
    /// Somebody spoke, but no words were understood.
    NoWords,
    /// The audio cannot be used; the reason is for a person.
    Audio(String),
    /// The language is not understood.
    Language,
    /// Nobody here understands speech, or not now; the reason is for a person.
    Unavailable(String),
    /// Whoever understands speech was asked too often, or is not paid for more; the reason is for a person.
    Exhausted(String),
    /// Whoever understands speech does not take such a request; the reason is for a person.
    Refused(String),
    /// It took too long.
    Late,
}

/// Why something could not be spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dumb {
    /// Nobody here speaks; the reason is for a person.
    Unavailable(String),
    /// It failed, or took too long; the reason is for a person.
    Failed(String),
}

// What people say is not for logs.
impl fmt::Debug for VoiceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settle(settings) => f.debug_tuple("Settle").field(settings).finish(),
            Self::Expect(labels) => write!(f, "Expect({})", labels.0.len()),
            Self::Listen { turn, .. } => write!(f, "Listen({turn})"),
            Self::Packet(packet) => write!(f, "Packet({} bytes)", packet.len()),
            Self::Overhear(whether) => write!(f, "Overhear({whether})"),
            Self::Conclude { turn } => write!(f, "Conclude({turn})"),
            Self::Forget { turn } => write!(f, "Forget({turn})"),
            Self::Say { response, last, .. } => write!(f, "Say({response}, last: {last})"),
            Self::Hush { response } => write!(f, "Hush({response})"),
        }
    }
}

impl fmt::Debug for VoiceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speech { turn, .. } => write!(f, "Speech({turn:?})"),
            Self::Silence { turn } => write!(f, "Silence({turn})"),
            Self::Partial { turn, .. } => write!(f, "Partial({turn})"),
            Self::Heard { turn, .. } => write!(f, "Heard({turn})"),
            Self::Unheard { turn, why } => write!(f, "Unheard({turn}, {why:?})"),
            Self::Sentence { response, from_ms, to_ms, .. } => {
                write!(f, "Sentence({response}, {from_ms}..{to_ms} ms)")
            }
            Self::Packet { response, offset_ms, packet } => {
                write!(f, "Packet({response}, {offset_ms} ms, {} bytes)", packet.len())
            }
            Self::Said { response, duration_ms } => write!(f, "Said({response}, {duration_ms} ms)"),
            Self::Mute { response, why } => write!(f, "Mute({response}, {why:?})"),
        }
    }
}
