//! What only servers say (§7.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{
    ActionError, ActivateOn, AudioChoice, Environment, Mode, ResultStatus, TurnDetection, is_share,
};
use super::payload::{flaws, quiet, unbounded};
use crate::audio::Format;
use crate::matrix::{State, Transition};
use crate::named::named;
use crate::size::{is_id, is_within};

/// The handshake is accepted.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionConnected {
    /// The session.
    pub session_id: String,
    /// Who drives it.
    pub mode: Mode,
    /// How strict authentication is.
    pub environment: Environment,
    /// Whether an earlier transport was taken up again.
    pub resumed: bool,
    /// The secret for the next time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    /// How long the session waits for the next transport.
    pub resume_window_s: u64,
    /// The version of the context that is known.
    pub context_version: u64,
    /// The first event that is told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_from: Option<u64>,
    /// The audio.
    pub audio: AudioChoice,
    /// How turns begin and end.
    pub turn_detection: TurnDetection,
    /// What this server can do by voice; nothing is said of it where a provider does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechOffer>,
}

/// Whether speech is understood, and whether answers are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeechOffer {
    /// If not, users type.
    pub hears: bool,
    /// If not, answers are text.
    pub speaks: bool,
}

/// The context is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReady {
    /// Its version.
    pub context_version: u64,
}

/// The state has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChanged {
    /// The state now.
    pub state: State,
    /// The state before.
    pub previous: State,
    /// What led to it.
    pub trigger: String,
    /// The number of the state.
    pub state_seq: u64,
    /// The turn of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<Transition> for StateChanged {
    fn from(change: Transition) -> Self {
        Self {
            state: change.state,
            previous: change.previous,
            trigger: change.trigger.name().to_owned(),
            state_seq: change.seq,
            turn_id: None,
            reason: None,
        }
    }
}

named! {
    /// When a context takes effect.
    AppliedWhen {
        /// It has.
        Now = "now",
        /// As soon as the state allows it.
        Deferred = "deferred",
    }
}

/// A context is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateAck {
    /// Its version.
    pub context_version: u64,
    /// When it takes effect.
    pub applied: AppliedWhen,
    /// Actions of types that are not known.
    pub ignored_actions: Vec<String>,
    /// What could be better.
    pub warnings: Vec<Warning>,
}

/// Something about a context that could be better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is.
    pub code: String,
    /// Where it is.
    pub path: String,
    /// For a person.
    pub message: String,
}

named! {
    /// Why a whole context is asked for.
    ResyncReason {
        /// An update did not build on the version that is known.
        VersionConflict = "version_conflict",
        /// The session was taken up again.
        Resume = "resume",
        /// What is known makes no sense.
        Corrupt = "corrupt",
    }
}

/// A whole context is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateResync {
    /// The version that is known.
    pub have_version: u64,
    /// Why.
    pub reason: ResyncReason,
}

/// What was understood so far.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptPartial {
    /// In which turn.
    pub turn_id: String,
    /// The words.
    pub text: String,
    /// So many characters of them will not change any more.
    pub stable_chars: u64,
}

/// What the user said.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct InputComplete {
    /// In which turn.
    pub turn_id: String,
    /// The words.
    pub text: String,
    /// How sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// In which language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
}

named! {
    /// How the words of an output are written.
    ContentType {
        /// As they are.
        Text = "text",
        /// With marks for speech.
        Ssml = "ssml",
    }
}

named! {
    /// How an output reaches the user.
    Modality {
        /// It is heard.
        Audio = "audio",
        /// It is read.
        Text = "text",
    }
}

/// An output begins.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseAudio {
    /// Its id.
    pub response_id: String,
    /// The turn it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// The words, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// How they are written.
    #[serde(default = "as_text")]
    pub content_type: ContentType,
    /// Whether the user may interrupt it.
    #[serde(default = "yes")]
    pub interruptible: bool,
    /// Whether it is a question.
    #[serde(default)]
    pub expects_reply: bool,
    /// The stream of its audio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<u16>,
    /// How it reaches the user.
    #[serde(default = "as_audio")]
    pub modality: Modality,
}

impl ResponseAudio {
    /// An output that is heard and may be interrupted.
    pub fn new(response_id: impl Into<String>) -> Self {
        Self {
            response_id: response_id.into(),
            in_reply_to: None,
            content: None,
            content_type: ContentType::Text,
            interruptible: true,
            expects_reply: false,
            stream_id: None,
            modality: Modality::Audio,
        }
    }
}

const fn as_text() -> ContentType {
    ContentType::Text
}

const fn as_audio() -> Modality {
    Modality::Audio
}

const fn yes() -> bool {
    true
}

named! {
    /// Why the system speaks unasked.
    AnnounceReason {
        /// To introduce itself.
        Intro = "intro",
        /// Something happened.
        Notification = "notification",
        /// There is more to say to what was asked before.
        FollowUp = "follow_up",
    }
}

/// The system speaks unasked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerAnnounce {
    /// What it says.
    #[serde(flatten)]
    pub response: ResponseAudio,
    /// Why.
    pub reason: AnnounceReason,
}

/// More words of an output, to be read along.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseTextDelta {
    /// Of which output.
    pub response_id: String,
    /// The words.
    pub text: String,
}

/// The audio of an output begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioStart {
    /// Of which output.
    pub response_id: String,
    /// The stream.
    pub stream_id: u16,
    /// How it is written.
    pub format: Format,
}

/// All audio of an output was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioEnd {
    /// Of which output.
    pub response_id: String,
    /// The stream.
    pub stream_id: u16,
    /// How long it is.
    pub duration_ms: u64,
}

/// An output was interrupted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioInterrupted {
    /// Which.
    pub response_id: String,
    /// Where.
    pub truncated_at_ms: u64,
    /// What was heard of it.
    pub spoken_text: String,
}

named! {
    /// How an output ended.
    ResponseStatus {
        /// As it was meant to.
        Complete = "complete",
        /// Before that.
        Incomplete = "incomplete",
        /// With an error.
        Failed = "failed",
        /// There was none.
        None = "none",
    }
}

/// An output is over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseDone {
    /// Which.
    pub response_id: String,
    /// How it ended.
    pub status: ResponseStatus,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<BTreeMap<String, u64>>,
    /// How long things took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_metrics: Option<LatencyMetrics>,
    /// Who thought of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// How long things took until the user heard something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyMetrics {
    /// Until the words of the user were understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asr_ms: Option<u64>,
    /// Until the first words of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_ttft_ms: Option<u64>,
    /// Until the first sound of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tts_ttfb_ms: Option<u64>,
    /// All in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<u64>,
}

/// The app is to do something (§9.2).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionInvoke {
    /// The call; the same however often it is sent.
    pub invocation_id: String,
    /// The action.
    pub action_id: String,
    /// Its primitive.
    #[serde(rename = "type")]
    pub kind: String,
    /// With which parameters.
    pub parameters: Value,
    /// The version of the context that it was chosen from.
    pub context_version: u64,
    /// The output it belongs to.
    pub response_id: String,
    /// How long it may take.
    pub timeout_ms: u64,
    /// Whether the system goes on when it is done.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub follow_up: bool,
    /// Whether it happens while the system speaks.
    #[serde(default, skip_serializing_if = "is_no")]
    pub parallel: bool,
    /// How often it was sent.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempt: u32,
    /// The consent of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation_id: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_no(value: &bool) -> bool {
    !*value
}

const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_once(attempt: &u32) -> bool {
    *attempt == 1
}

named! {
    /// Why an action is called off.
    ActionCancelReason {
        /// It takes too long.
        Timeout = "timeout",
        /// The user does not want it any more.
        User = "user",
        /// The session ends.
        Shutdown = "shutdown",
    }
}

/// An action is called off, if that is still possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionCancel {
    /// The call.
    pub invocation_id: String,
    /// Why.
    pub reason: ActionCancelReason,
}

/// An action is done, and nothing follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionDone {
    /// The call.
    pub invocation_id: String,
}

/// The settings now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUpdated {
    /// The language.
    pub locale: String,
    /// How turns begin and end.
    pub turn_detection: TurnDetection,
    /// The voice of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<String>,
    /// When the system begins by itself.
    pub activate_on: ActivateOn,
}

named! {
    /// Why a session will end.
    TerminatingReason {
        /// Nothing happens.
        Idle = "idle",
        /// It has lasted too long.
        MaxDuration = "max_duration",
        /// The server is leaving.
        Drain = "drain",
    }
}

/// The session will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTerminating {
    /// Why.
    pub reason: TerminatingReason,
    /// When.
    pub in_ms: u64,
}

named! {
    /// Why a session has ended.
    TerminatedReason {
        /// The user has hung up.
        UserHangup = "user_hangup",
        /// The user has said so.
        VoiceHangup = "voice_hangup",
        /// Nothing happened.
        Idle = "idle",
        /// It has lasted too long.
        MaxDuration = "max_duration",
        /// Something went wrong.
        Error = "error",
        /// Another transport has taken it over.
        Replaced = "replaced",
        /// The server wanted it.
        Server = "server",
    }
}

/// The session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTerminated {
    /// Why.
    pub reason: TerminatedReason,
    /// The code of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it lasted.
    pub duration_ms: u64,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<BTreeMap<String, u64>>,
}

/// Somebody is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPong {
    /// As it was asked.
    pub nonce: String,
    /// When, in milliseconds.
    pub server_ts: u64,
}

/// What a function on the server has done.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionResult {
    /// The call.
    pub invocation_id: String,
    /// Whether it was done.
    pub status: ResultStatus,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ActionError>,
}

unbounded!(
    ServerReady,
    StateChanged,
    StateAck,
    StateResync,
    TranscriptPartial,
    ResponseTextDelta,
    AudioEnd,
    AudioStart,
    AudioInterrupted,
    ResponseDone,
    ActionCancel,
    ActionDone,
    SessionUpdated,
    SessionTerminating,
    SessionTerminated,
    SessionPong,
    FunctionResult,
);
flaws! {
    SessionConnected { session_id: |it| is_id(&it.session_id), }
    InputComplete { confidence: |it| is_share(it.confidence), }
    ResponseAudio { response_id: |it| is_id(&it.response_id), }
    ServerAnnounce { response_id: |it| is_id(&it.response.response_id), }
    ActionInvoke {
        invocation_id: |it| is_id(&it.invocation_id),
        action_id: |it| is_within(&it.action_id, 64),
        parameters: |it| it.parameters.is_object(),
        context_version: |it| it.context_version >= 1,
        timeout_ms: |it| (100..=120_000).contains(&it.timeout_ms),
        attempt: |it| it.attempt >= 1,
    }
}
quiet!(
    SessionConnected,
    TranscriptPartial,
    InputComplete,
    ResponseAudio,
    ServerAnnounce,
    ResponseTextDelta,
    AudioInterrupted,
    ResponseDone,
    ActionInvoke,
    FunctionResult,
);
