//! What travels (§6, §7), under the names of the reference.

use serde::{Serialize, Serializer};
use serde_json::Value;

mod client;
mod common;
mod history;
mod payload;
mod server;

pub use client::{
    ActionAck, AudioComplete, AudioProgress, ClientConnect, CloseReason, ControlMute, FunctionCall,
    HistoryAppend, InputCancel, InputCancelReason, InputMode, InputStart, InputStartTrigger, InputText,
    MuteTarget, PlaybackStatus, ProviderAttached, Resume, SessionClose, SessionPing, SessionUpdate,
    StateReport,
};
pub use common::{
    ActionError, ActionResult, ActivateOn, AudioChoice, AudioChunk, BargeInTrigger, DetectionType,
    Environment, ErrorBody, Framing, InputBargeIn, InputDetected, InputEnd, InputEndReason, InputTimeout,
    Mode, Origin, ResultEvent, ResultStatus, TurnDetection, TurnDetectionChange,
};
pub use history::{HistoryItem, HistoryKind, HistoryStatus, Role};
use payload::Payload;
pub(crate) use payload::quiet;
pub use server::{
    ActionCancel, ActionCancelReason, ActionDone, ActionInvoke, AnnounceReason, AppliedWhen, AudioEnd,
    AudioInterrupted, AudioStart, ContentType, FunctionResult, InputComplete, LatencyMetrics, Modality,
    ResponseAudio, ResponseDone, ResponseStatus, ResponseTextDelta, ResyncReason, ServerAnnounce,
    ServerReady, SessionConnected, SessionPong, SessionTerminated, SessionTerminating, SessionUpdated,
    SpeechOffer, StateAck, StateChanged, StateResync, TerminatedReason, TerminatingReason, TranscriptPartial,
    Warning,
};

/// What every event has besides its type and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Unique per sender and session.
    pub id: String,
    /// Its number in its direction, from 1.
    pub seq: u64,
    /// When, in milliseconds, on the clock of the sender.
    pub ts: u64,
    /// Which state the sender knew of, or left behind.
    pub state_seq: u64,
    /// On whose behalf.
    pub role: Role,
    /// The turn of the user.
    pub turn_id: Option<String>,
    /// The response of the system.
    pub response_id: Option<String>,
    /// The event that this one answers.
    pub reply_to: Option<String>,
}

macro_rules! events {
    ($(#[$doc:meta])* $enum:ident { $($name:ident($body:ty) = $text:literal $(| $alias:literal)*,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $enum {
            $(#[doc = concat!("`", $text, "`")] $name($body),)*
        }

        impl $enum {
            /// The type of the event.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(body) => body.named($text),)*
                }
            }

            /// The event of this type with these data; none if the type is not known.
            pub(crate) fn read(name: &str, data: Value) -> Option<Result<Self, String>> {
                Some(match name {
                    $($text $(| $alias)* => <$body as Payload>::read(name, data).map(Self::$name),)*
                    _ => return None,
                })
            }
        }

        /// Only the data of the event.
        impl Serialize for $enum {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(body) => body.serialize(serializer),)*
                }
            }
        }
    };
}

events! {
    /// What a client says (§7.1).
    ClientEvent {
        ClientConnect(Box<ClientConnect>) = "client.connect",
        StateUpdate(Update) = "state.update",
        InputStart(InputStart) = "input.start",
        InputDetected(InputDetected) = "input.detected",
        InputText(InputText) = "input.text",
        InputEnd(InputEnd) = "input.end",
        InputCancel(InputCancel) = "input.cancel",
        InputTimeout(InputTimeout) = "input.timeout",
        InputBargeIn(InputBargeIn) = "input.barge_in",
        AudioProgress(AudioProgress) = "audio.progress",
        AudioComplete(AudioComplete) = "audio.complete",
        ActionAck(ActionAck) = "action.ack",
        ActionResult(Box<ActionResult>) = "action.result",
        ControlMute(ControlMute) = "control.mute",
        SessionUpdate(SessionUpdate) = "session.update",
        SessionPing(SessionPing) = "session.ping",
        SessionClose(SessionClose) = "session.close",
        StateReport(StateReport) = "state.report",
        ProviderAttached(ProviderAttached) = "provider.attached",
        HistoryAppend(HistoryAppend) = "history.append",
        FunctionCall(FunctionCall) = "function.call",
        AudioChunk(AudioChunk) = "audio.chunk",
        Error(ErrorBody) = "error.recoverable" | "error.fatal",
    }
}

events! {
    /// What a server says (§7.2).
    ServerEvent {
        SessionConnected(Box<SessionConnected>) = "session.connected",
        ServerReady(ServerReady) = "server.ready",
        StateChanged(StateChanged) = "state.changed",
        StateAck(StateAck) = "state.ack",
        StateResync(StateResync) = "state.resync",
        InputDetected(InputDetected) = "input.detected",
        InputEnd(InputEnd) = "input.end",
        InputBargeIn(InputBargeIn) = "input.barge_in",
        InputTimeout(InputTimeout) = "input.timeout",
        TranscriptPartial(TranscriptPartial) = "transcript.partial",
        InputComplete(InputComplete) = "input.complete",
        ServerAnnounce(ServerAnnounce) = "server.announce",
        ResponseAudio(ResponseAudio) = "response.audio",
        ResponseTextDelta(ResponseTextDelta) = "response.text.delta",
        AudioStart(AudioStart) = "audio.start",
        AudioEnd(AudioEnd) = "audio.end",
        AudioInterrupted(AudioInterrupted) = "audio.interrupted",
        ResponseDone(Box<ResponseDone>) = "response.done",
        ActionInvoke(Box<ActionInvoke>) = "action.invoke" | "invoke_action",
        ActionCancel(ActionCancel) = "action.cancel",
        ActionDone(ActionDone) = "action.done",
        SessionUpdated(SessionUpdated) = "session.updated",
        SessionTerminating(SessionTerminating) = "session.terminating",
        SessionTerminated(SessionTerminated) = "session.terminated",
        SessionPong(SessionPong) = "session.pong",
        CredentialRefreshed(Credential) = "credential.refreshed",
        FunctionResult(Box<FunctionResult>) = "function.result",
        AudioChunk(AudioChunk) = "audio.chunk",
        ErrorRecoverable(ErrorBody) = "error.recoverable",
        ErrorFatal(ErrorBody) = "error.fatal",
    }
}

impl ServerEvent {
    /// Whether it is told again after a connection was lost (§11).
    pub const fn is_stored(&self) -> bool {
        !matches!(
            self,
            Self::TranscriptPartial(_)
                | Self::ResponseTextDelta(_)
                | Self::AudioChunk(_)
                | Self::SessionPong(_)
        )
    }

    /// The error under the name that fits it.
    pub fn error(fault: &crate::error::Fault) -> Self {
        let body = ErrorBody::from(fault);
        if body.fatal { Self::ErrorFatal(body) } else { Self::ErrorRecoverable(body) }
    }
}

/// The data of `state.update`: a whole context, or what changed in it (§8), not looked into yet.
#[derive(Clone, PartialEq, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Update(pub Value);

/// The data of `credential.refreshed`: the provider with its credential (§3.3).
#[derive(Clone, PartialEq, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Credential(pub Value);

quiet!(Update, Credential);
payload::unbounded!(Update, Credential);
