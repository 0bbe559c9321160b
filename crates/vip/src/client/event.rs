//! What goes into a [`VipClient`](super::VipClient) and what comes out.

use bytes::Bytes;
use serde_json::Value;
use switchboard_core::Timestamp;
use switchboard_core::client::{self, Down};

use crate::audio::Format;
use crate::context::ContextFault;
use crate::matrix::State;
use crate::message::{
    ActionCancelReason, ActionResult, AnnounceReason, AudioInterrupted, Credential, ErrorBody,
    FunctionResult, InputComplete, ResponseAudio, ResponseDone, ResponseTextDelta, SessionConnected,
    SessionTerminated, SessionTerminating, SessionUpdated, StateAck, TranscriptPartial,
};

/// What the application is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The handshake is accepted.
    Connected(Box<SessionConnected>),
    /// The state has changed: to be shown, each state in a way of its own (VIP-082).
    State(Changed),
    /// The user has the floor: the microphone belongs to this turn now.
    Listening {
        /// The turn.
        turn_id: String,
    },
    /// The microphone belongs to nobody any more.
    NotListening,
    /// What was understood so far.
    Partial(TranscriptPartial),
    /// What was understood.
    Understood(InputComplete),
    /// The system begins to say something; unasked if there is a reason.
    Response(ResponseAudio, Option<AnnounceReason>),
    /// More of its words; those that were known in the beginning too.
    Words(ResponseTextDelta),
    /// A piece of its audio, to be played behind those before.
    Play(Sound),
    /// No more pieces follow; when the last was played, tell [`played_out`](super::VipClient::played_out).
    LastPlayed {
        /// The response.
        response_id: String,
        /// How long it is.
        duration_ms: u64,
    },
    /// Stop playing at once, and throw away what is left of it.
    Silence {
        /// The response.
        response_id: String,
    },
    /// What is left of a response that was interrupted.
    Interrupted(AudioInterrupted),
    /// A response is over.
    Done(Box<ResponseDone>),
    /// Do something; then tell [`finish`](super::VipClient::finish).
    Execute(Execution),
    /// What is being done is not wanted any more. A result is still owed.
    Abandon {
        /// The call.
        invocation_id: String,
        /// Why.
        reason: ActionCancelReason,
    },
    /// Ask the user; then tell [`decide`](super::VipClient::decide).
    Ask(Question),
    /// The question is settled; it need not be shown any more.
    Asked {
        /// The call that asked it.
        invocation_id: String,
    },
    /// The context was accepted.
    Accepted(StateAck),
    /// The settings now.
    Settings(SessionUpdated),
    /// What a call that a provider asked for has led to (internal mode).
    Result(Box<ActionResult>),
    /// What a function on the server has led to (internal mode).
    Function(Box<FunctionResult>),
    /// The provider and a fresh credential for it (internal mode).
    Credential(Credential),
    /// Something went wrong, and it goes on.
    Problem(ErrorBody),
    /// The session will end.
    Terminating(SessionTerminating),
    /// The session has ended.
    Terminated(SessionTerminated),
    /// Not connected any more.
    Down(Down<LinkFault>),
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The state now.
    pub state: State,
    /// The state before.
    pub previous: State,
}

/// A piece of audio to be played.
#[derive(Clone, PartialEq, Eq)]
pub struct Sound {
    /// The response it belongs to.
    pub response_id: String,
    /// How it is written.
    pub format: Format,
    /// Where it begins in the response.
    pub offset_ms: u32,
    /// The audio.
    pub audio: Bytes,
}

/// Something to be done.
#[derive(Clone, PartialEq)]
pub struct Execution {
    /// The call.
    pub invocation_id: String,
    /// The action.
    pub action_id: String,
    /// Its primitive.
    pub kind: String,
    /// Its parameters, checked.
    pub parameters: Value,
    /// When the answer is given in its place.
    pub by: Timestamp,
}

/// Something to be confirmed by the user.
#[derive(Clone, PartialEq)]
pub struct Question {
    /// The call that asks.
    pub invocation_id: String,
    /// The action that the user has to agree to.
    pub action_id: String,
    /// The question.
    pub prompt: Option<String>,
    /// What exactly would be done.
    pub parameters: Value,
    /// When it is too late to answer.
    pub by: Timestamp,
}

/// How something that was to be done came out.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// It was done, wholly.
    Done(Option<Value>),
    /// It was not done, or not wholly (VIP-054).
    Failed {
        /// For a person.
        message: String,
        /// Whether anything may have changed.
        executed: bool,
    },
    /// It was given up, because that was asked for.
    Cancelled {
        /// Whether anything may have changed.
        executed: bool,
    },
}

/// What ends a connection of VIP, beyond what every protocol knows: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {}

impl client::Fault for LinkFault {
    const PROTOCOL: &'static str = "VIP";
    const WORDS_AT: &'static str = "/error/message";
    const CODE_AT: &'static str = "/error/code";

    /// Whether a session can be resumed after it.
    fn is_temporary_close(code: u16) -> bool {
        matches!(code, 1001 | 1005 | 1006 | 1011 | 1012 | 4408 | 4429 | 4500)
    }

    fn is_temporary(&self) -> bool {
        match *self {}
    }

    fn advice(&self) -> &'static str {
        match *self {}
    }
}

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no connection.
    #[error("there is no connection")]
    NotConnected,
    /// Not in this state.
    #[error("this is not possible in {0}")]
    State(State),
    /// The server does not know what is on the screen yet (VIP-020).
    #[error("the server does not know the screen yet")]
    NoContext,
    /// What is on the screen breaks a rule.
    #[error(transparent)]
    Context(#[from] ContextFault),
    /// There is no such call, or it was answered already.
    #[error("there is no such call")]
    NoCall,
    /// Another page is shown, and nobody said what is on it (VIP-059).
    #[error("a new page needs a new narration")]
    NoNarration,
    /// It is too long.
    #[error("it is too long")]
    TooLong,
    /// Only in the other mode.
    #[error("this belongs to the other mode")]
    Mode,
    /// There is no microphone.
    #[error("there is no microphone")]
    NoMicrophone,
    /// This output cannot be interrupted.
    #[error("this output cannot be interrupted")]
    NotInterruptible,
}

/// What another client needs in order to go on with the session.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Saved {
    /// The secret.
    pub resume_token: String,
    /// The last event of the server that was seen.
    pub last_server_seq: u64,
    /// The last event that was sent.
    pub last_client_seq: u64,
    /// The last version of the context.
    pub context_version: u64,
}

crate::message::quiet!(Sound, Execution, Question, Outcome, Saved);
