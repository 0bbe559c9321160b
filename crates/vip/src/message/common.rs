//! What both sides say.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::payload::{Payload, flaws, quiet, unbounded};
use crate::audio::{AudioFrame, BadFrame, Direction, Format};
use crate::error::{Code, Fault, cut};
use crate::named::named;
use crate::size::{is_id, is_id_if_any, is_within, json_bytes};

named! {
    /// Who drives the conversation.
    Mode {
        /// The client, with a provider of its own.
        Internal = "internal",
        /// The server.
        External = "external",
    }
}

named! {
    /// How strict authentication is.
    Environment {
        /// It may be relaxed.
        Development = "development",
        /// It is strict.
        Production = "production",
    }
}

named! {
    /// How audio is sent over a socket.
    Framing {
        /// In binary messages.
        Binary = "binary",
        /// In `audio.chunk`.
        Base64 = "base64",
    }
}

named! {
    /// When the system begins by itself.
    ActivateOn {
        /// Never.
        Manual = "manual",
        /// When the user is here for the first time.
        FirstVisit = "first_visit",
        /// Always.
        Connect = "connect",
    }
}

named! {
    /// Who finds out that somebody speaks.
    DetectionType {
        /// The client listens for it.
        ClientVad = "client_vad",
        /// The server listens for it.
        ServerVad = "server_vad",
        /// The user says so.
        Manual = "manual",
    }
}

/// The audio that was agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioChoice {
    /// From the client.
    pub input: Format,
    /// To the client.
    pub output: Format,
    /// How much a frame holds.
    pub frame_ms: u32,
    /// How frames travel.
    pub framing: Framing,
}

/// How turns begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnDetection {
    /// Who finds out.
    #[serde(rename = "type")]
    pub kind: DetectionType,
    /// The silence that ends a turn.
    pub silence_ms: u32,
    /// The silence that means that nobody speaks.
    pub no_speech_ms: u32,
    /// Whether speech interrupts the system.
    pub interrupt_response: bool,
    /// Whether a question of the system gives the floor to the user.
    pub follow_up_listen: bool,
}

impl Default for TurnDetection {
    fn default() -> Self {
        Self {
            kind: DetectionType::ClientVad,
            silence_ms: 700,
            no_speech_ms: 8000,
            interrupt_response: true,
            follow_up_listen: true,
        }
    }
}

impl TurnDetection {
    /// Whether the numbers are within their bounds.
    pub fn is_valid(&self) -> bool {
        (200..=3000).contains(&self.silence_ms) && self.no_speech_ms <= 60_000
    }

    /// With what is to be changed.
    #[must_use]
    pub fn changed(self, change: &TurnDetectionChange) -> Self {
        Self {
            kind: change.kind.unwrap_or(self.kind),
            silence_ms: change.silence_ms.unwrap_or(self.silence_ms),
            no_speech_ms: change.no_speech_ms.unwrap_or(self.no_speech_ms),
            interrupt_response: change.interrupt_response.unwrap_or(self.interrupt_response),
            follow_up_listen: change.follow_up_listen.unwrap_or(self.follow_up_listen),
        }
    }
}

/// What is to be changed about how turns begin and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnDetectionChange {
    /// Who finds out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DetectionType>,
    /// The silence that ends a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u32>,
    /// The silence that means that nobody speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_speech_ms: Option<u32>,
    /// Whether speech interrupts the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_response: Option<bool>,
    /// Whether a question of the system gives the floor to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up_listen: Option<bool>,
}

named! {
    /// Which side noticed something.
    Origin {
        /// The client.
        Client = "client",
        /// The server.
        Server = "server",
    }
}

/// Somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDetected {
    /// Who noticed.
    pub origin: Origin,
    /// How sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How loud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_db: Option<f64>,
}

named! {
    /// Why a turn of the user ends.
    InputEndReason {
        /// The user says nothing more.
        Silence = "silence",
        /// The user let go of the button.
        PttRelease = "ptt_release",
        /// The user said so.
        Manual = "manual",
        /// It took too long.
        Timeout = "timeout",
        /// It was typed.
        Text = "text",
    }
}

/// The user has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEnd {
    /// Why.
    pub reason: InputEndReason,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The time to speak is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputTimeout {
    /// Whether anybody spoke.
    pub speech_seen: bool,
}

named! {
    /// How a user interrupts.
    BargeInTrigger {
        /// By speaking.
        Vad = "vad",
        /// By a key or a touch.
        Manual = "manual",
    }
}

/// The user takes the floor from the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputBargeIn {
    /// How.
    pub trigger: BargeInTrigger,
    /// Who noticed.
    #[serde(default = "from_client")]
    pub origin: Origin,
    /// What is interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// How much of it was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played_ms: Option<u64>,
    /// The stream of the turn that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<u16>,
    /// How much audio from before belongs to it.
    #[serde(default)]
    pub preroll_ms: u32,
    /// How sure it is that somebody speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

const fn from_client() -> Origin {
    Origin::Client
}

/// Whether this is a share of one, if it is there.
pub(super) fn is_share(number: Option<f64>) -> bool {
    number.is_none_or(|number| (0.0..=1.0).contains(&number))
}

/// Whether this can be the stream of a client, if it is there.
pub(super) fn is_client_stream(stream: Option<u16>) -> bool {
    stream.is_none_or(|stream| Direction::Input.streams().contains(&stream))
}

named! {
    /// Whether something was done.
    ResultStatus {
        /// It was.
        Success = "success",
        /// It was not, or not wholly.
        Error = "error",
    }
}

named! {
    /// What came of an action, in the words of its primitive (§9.1).
    ResultEvent {
        /// The page changed.
        NavigationSuccess = "navigation.success",
        /// It did not.
        NavigationFailure = "navigation.failure",
        /// Anything else was done.
        ActionSuccess = "action.success",
        /// It was not.
        ActionFailure = "action.failure",
    }
}

impl ResultEvent {
    /// Whether it says that something was done.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::NavigationSuccess | Self::ActionSuccess)
    }
}

/// Why an action did not succeed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionError {
    /// The code.
    pub code: String,
    /// For a person.
    pub message: String,
    /// For a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl From<&Fault> for ActionError {
    fn from(fault: &Fault) -> Self {
        Self {
            code: fault.code.name().to_owned(),
            message: cut(&fault.message).to_owned(),
            details: fault.details.as_deref().cloned(),
        }
    }
}

/// What came of an action (§9.3).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionResult {
    /// The call.
    pub invocation_id: String,
    /// The action.
    pub action_id: String,
    /// Whether it was done.
    pub status: ResultStatus,
    /// The same in the words of its primitive.
    pub event: ResultEvent,
    /// Whether anything may have changed.
    pub executed: bool,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ActionError>,
    /// What is on the screen now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// How long it took.
    pub duration_ms: u64,
}

/// What an action may answer, in bytes.
const MAX_RESULT: usize = 32 << 10;

impl ActionResult {
    /// The member that does not fit.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let done = self.status == ResultStatus::Success;
        if !is_id(&self.invocation_id) {
            Some("invocation_id")
        } else if !is_within(&self.action_id, 64) {
            Some("action_id")
        } else if self.event.is_success() != done {
            Some("event")
        } else if !done && self.error.is_none() {
            Some("error")
        } else if self.data.as_ref().is_some_and(|data| json_bytes(data) > MAX_RESULT) {
            Some("data")
        } else {
            None
        }
    }
}

impl Payload for ActionResult {
    fn flaw(&self) -> Option<&'static str> {
        self.mistake()
    }
}

/// A frame of audio where there are no binary messages.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioChunk {
    /// Its stream.
    pub stream_id: u16,
    /// Its number.
    pub seq: u32,
    /// Where it begins.
    pub offset_ms: u32,
    /// As in the header of a frame.
    #[serde(default)]
    pub flags: u8,
    /// The audio.
    #[serde(with = "base64_bytes")]
    pub audio: Bytes,
}

impl AudioChunk {
    /// The frame that is in it.
    ///
    /// # Errors
    /// There is none.
    pub fn into_frame(self, direction: Direction) -> Result<AudioFrame, BadFrame> {
        AudioFrame::checked(direction, self.flags, self.stream_id, self.seq, self.offset_ms, self.audio)
    }
}

impl From<AudioFrame> for AudioChunk {
    fn from(frame: AudioFrame) -> Self {
        Self {
            stream_id: frame.stream,
            seq: frame.seq,
            offset_ms: frame.offset_ms,
            flags: frame.flags(),
            audio: frame.payload,
        }
    }
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::{Bytes, Deserialize};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes::from).map_err(|_| D::Error::custom("not base64"))
    }
}

/// An error, as either side tells the other (§14).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The code, which the reader may not know.
    pub code: String,
    /// What it is about.
    pub category: String,
    /// For a person.
    pub message: String,
    /// Whether the connection ends with it.
    pub fatal: bool,
    /// Whether trying again may help.
    pub retryable: bool,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The event that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ref_id: Option<String>,
    /// For a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl ErrorBody {
    /// The code, where it is known.
    pub fn known(&self) -> Option<Code> {
        Code::from_name(&self.code)
    }
}

impl From<&Fault> for ErrorBody {
    fn from(fault: &Fault) -> Self {
        Self {
            code: fault.code.name().to_owned(),
            category: fault.code.category().to_owned(),
            message: cut(&fault.message).to_owned(),
            fatal: fault.fatal,
            retryable: fault.code.retryable(),
            retry_after_ms: fault.retry_after_ms,
            ref_id: fault.ref_id.clone(),
            details: fault.details.as_deref().cloned(),
        }
    }
}

impl Payload for ErrorBody {
    fn flaw(&self) -> Option<&'static str> {
        if !is_within(&self.code, 64) {
            Some("code")
        } else if !is_within(&self.message, 512) {
            Some("message")
        } else if !is_id_if_any(self.ref_id.as_ref()) {
            Some("ref_id")
        } else {
            None
        }
    }

    fn named(&self, _name: &'static str) -> &'static str {
        if self.fatal { "error.fatal" } else { "error.recoverable" }
    }

    fn came_as(&mut self, name: &str) {
        self.fatal = name == "error.fatal";
    }
}

unbounded!(InputEnd, InputTimeout, AudioChunk);
flaws! {
    InputDetected { confidence: |it| is_share(it.confidence), }
    InputBargeIn {
        response_id: |it| is_id_if_any(it.response_id.as_ref()),
        stream_id: |it| is_client_stream(it.stream_id),
        preroll_ms: |it| it.preroll_ms <= 500,
        confidence: |it| is_share(it.confidence),
    }
}
quiet!(ActionError, ActionResult, AudioChunk, ErrorBody);
