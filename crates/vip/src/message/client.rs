//! What only clients say (§7.1).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{ActionResult, ActivateOn, TurnDetection, TurnDetectionChange, is_client_stream};
use super::history::HistoryItem;
use super::payload::{flaws, quiet, unbounded};
use crate::matrix::State;
use crate::named::named;
use crate::size::{is_id, is_id_if_any, is_within};

/// The first event on any transport.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientConnect {
    /// The session.
    pub session_id: String,
    /// The version that is spoken.
    pub protocol_version: String,
    /// What is on the screen, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// How an earlier transport is taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// How an earlier transport is taken up again.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// The secret.
    pub resume_token: String,
    /// The last event that was seen.
    pub last_server_seq: u64,
    /// What was done in the meantime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_results: Vec<ActionResult>,
}

/// How many results a client may bring when it comes back.
const MAX_PENDING: usize = 64;

named! {
    /// How the user says something.
    InputMode {
        /// By speaking.
        Voice = "voice",
        /// By typing.
        Text = "text",
    }
}

named! {
    /// What made the user take the floor.
    InputStartTrigger {
        /// A word.
        WakeWord = "wake_word",
        /// Speech.
        Vad = "vad",
        /// A button.
        Ptt = "ptt",
        /// The keyboard.
        Text = "text",
        /// A question of the system.
        FollowUp = "follow_up",
    }
}

/// The user takes the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputStart {
    /// How.
    #[serde(default = "by_voice")]
    pub mode: InputMode,
    /// Why.
    pub trigger: InputStartTrigger,
    /// The stream of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<u16>,
    /// How long to wait for speech.
    #[serde(default = "eight_seconds")]
    pub timeout_ms: u32,
    /// How much audio from before belongs to it.
    #[serde(default)]
    pub preroll_ms: u32,
}

const fn by_voice() -> InputMode {
    InputMode::Voice
}

const fn eight_seconds() -> u32 {
    8000
}

/// Something was typed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputText {
    /// The words.
    pub text: String,
    /// Whether nothing follows.
    #[serde(default = "yes", rename = "final")]
    pub is_final: bool,
}

const fn yes() -> bool {
    true
}

named! {
    /// Why a turn never was.
    InputCancelReason {
        /// The user says so.
        User = "user",
        /// The microphone was switched off.
        Muted = "muted",
        /// Nobody spoke.
        Timeout = "timeout",
        /// Something went wrong.
        Error = "error",
    }
}

/// The turn never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputCancel {
    /// Why.
    pub reason: InputCancelReason,
}

/// How far playback has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioProgress {
    /// Of which response.
    pub response_id: String,
    /// How much was heard.
    pub played_ms: u64,
}

named! {
    /// Whether playback worked.
    PlaybackStatus {
        /// It did.
        Played = "played",
        /// It did not.
        Failed = "failed",
    }
}

/// Playback is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioComplete {
    /// Of which response.
    pub response_id: String,
    /// How much was heard.
    pub played_ms: u64,
    /// Whether it worked.
    #[serde(default = "played")]
    pub status: PlaybackStatus,
}

const fn played() -> PlaybackStatus {
    PlaybackStatus::Played
}

/// A call has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionAck {
    /// Which one.
    pub invocation_id: String,
    /// Whether it is being carried out already.
    pub started: bool,
}

named! {
    /// What is switched off.
    MuteTarget {
        /// The microphone.
        Input = "input",
        /// The loudspeaker.
        Output = "output",
    }
}

/// The microphone or the loudspeaker is switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlMute {
    /// Which.
    pub target: MuteTarget,
    /// Off.
    pub muted: bool,
}

/// Settings to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUpdate {
    /// The language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// How turns begin and end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_detection: Option<TurnDetectionChange>,
    /// The voice of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<String>,
    /// When the system begins by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activate_on: Option<ActivateOn>,
}

/// Is anybody there?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPing {
    /// Comes back with the answer.
    pub nonce: String,
}

named! {
    /// Why a client ends the session.
    CloseReason {
        /// The user has hung up.
        UserHangup = "user_hangup",
        /// The app has.
        App = "app",
        /// The page is left.
        Unload = "unload",
        /// Something went wrong.
        Error = "error",
    }
}

/// The session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClose {
    /// Why.
    pub reason: CloseReason,
}

/// The state has changed, in internal mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateReport {
    /// The state now.
    pub state: State,
    /// The state before.
    pub previous: State,
    /// What led to it.
    pub trigger: String,
    /// The turn of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// The provider is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderAttached {
    /// What the provider calls the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_session_id: Option<String>,
    /// How it is connected.
    pub transport: String,
}

/// What was said between the client and its provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryAppend {
    /// In order.
    pub items: Vec<HistoryItem>,
}

/// A function on the server, asked for by the provider.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The call.
    pub invocation_id: String,
    /// The function.
    pub name: String,
    /// Its parameters.
    pub parameters: Value,
}

unbounded!(InputCancel, ControlMute, SessionClose);
flaws! {
    ClientConnect {
        session_id: |it| is_id(&it.session_id),
        protocol_version: |it| is_within(&it.protocol_version, 16),
        resume: |it| it.resume.as_ref().is_none_or(|resume| {
            is_within(&resume.resume_token, 512)
                && resume.pending_results.len() <= MAX_PENDING
                && resume.pending_results.iter().all(|result| result.mistake().is_none())
        }),
    }
    InputStart {
        stream_id: |it| is_client_stream(it.stream_id),
        timeout_ms: |it| it.timeout_ms <= 60_000,
        preroll_ms: |it| it.preroll_ms <= 500,
    }
    InputText { text: |it| is_within(&it.text, 4096), }
    AudioProgress { response_id: |it| is_id(&it.response_id), }
    AudioComplete { response_id: |it| is_id(&it.response_id), }
    ActionAck { invocation_id: |it| is_id(&it.invocation_id), }
    SessionUpdate {
        locale: |it| it.locale.as_ref().is_none_or(|locale| is_within(locale, 35)),
        turn_detection: |it| it.turn_detection.as_ref().is_none_or(|change| {
            TurnDetection::default().changed(change).is_valid()
        }),
        voice: |it| it.voice.as_ref().is_none_or(|voice| is_within(voice, 64)),
    }
    SessionPing { nonce: |it| is_within(&it.nonce, 32), }
    StateReport {
        trigger: |it| is_within(&it.trigger, 64),
        turn_id: |it| is_id_if_any(it.turn_id.as_ref()),
    }
    ProviderAttached {
        provider_session_id: |it| it.provider_session_id.as_ref().is_none_or(|id| is_within(id, 128)),
        transport: |it| is_within(&it.transport, 32),
    }
    HistoryAppend {
        items: |it| it.items.len() <= 50 && it.items.iter().all(HistoryItem::has_ids),
    }
    FunctionCall {
        invocation_id: |it| is_id(&it.invocation_id),
        name: |it| is_within(&it.name, 64),
        parameters: |it| it.parameters.is_object(),
    }
}
quiet!(ClientConnect, Resume, InputText, FunctionCall);
