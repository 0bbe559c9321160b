//! What is put on record of a session, besides what is an event of the core anyway.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audio::Format;
use crate::message::TurnDetection;

use super::Arrival;

/// The name of the account in the log.
pub const CHRONICLE: &str = "vip";

/// Something that is put on record.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Minute {
    /// The session was created (§2.2).
    Created(Box<Settings>),
    /// Its user has changed something about it (`session.update`).
    Changed(Box<Settings>),
    /// A transport was opened; any older one has lost the session.
    Opened {
        /// When it arrived.
        #[serde(default)]
        arrival: Arrival,
    },
    /// A client has said hello on it.
    Connected {
        /// Digest of the token with which it can come back; none if it cannot.
        resume: Option<String>,
    },
    /// The session is in this state now.
    State {
        /// Its name.
        state: String,
        /// Its number.
        seq: u64,
    },
    /// These events are about to be sent; each is whole.
    Sent(Vec<Value>),
    /// The number of the last event so far, whether that can be sent again or not.
    Numbered {
        /// Its number.
        seq: u64,
        /// The transport that has said it.
        #[serde(default)]
        transport: u32,
        /// Whether the transport is done, and none follows.
        #[serde(default)]
        last: bool,
    },
    /// What the app says about itself (§8).
    Context(Value),
    /// The app was asked to do something.
    Asked(Box<Asked>),
    /// The app has answered, or nobody waits for it any more.
    Settled {
        /// What was asked.
        invocation: String,
    },
    /// Something belongs into the history that is no message of the core.
    Noted(Value),
    /// An answer was spoken, as far as it was.
    Spoken(Box<Spoken>),
    /// More of an answer was heard, which is still being spoken.
    Heard {
        /// The response.
        response: String,
        /// What the user's turn is called.
        turn_id: Option<String>,
        /// What follows on what was heard before.
        more: String,
    },
    /// The session is over.
    Ended {
        /// Why.
        reason: String,
        /// The code of the error, if it was one.
        code: Option<String>,
    },
}

// What people say is not for logs.
impl fmt::Debug for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created(_) => "Created",
            Self::Changed(_) => "Changed",
            Self::Opened { .. } => "Opened",
            Self::Connected { .. } => "Connected",
            Self::State { .. } => "State",
            Self::Sent(_) => "Sent",
            Self::Numbered { .. } => "Numbered",
            Self::Context(_) => "Context",
            Self::Asked(_) => "Asked",
            Self::Settled { .. } => "Settled",
            Self::Noted(_) => "Noted",
            Self::Spoken(_) => "Spoken",
            Self::Heard { .. } => "Heard",
            Self::Ended { .. } => "Ended",
        })
    }
}

/// What the app was asked to do.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The name of the invocation.
    pub invocation: String,
    /// The turn that asks.
    pub turn: String,
    /// Its call.
    pub call: String,
    /// The action.
    pub action: String,
    /// The response to which it belongs.
    pub response: String,
    /// With which parameters; what is secret is not among them.
    #[serde(default)]
    pub parameters: Value,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("invocation", &self.invocation).finish_non_exhaustive()
    }
}

/// An answer that was spoken, as far as it was.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    /// The turn that it answers.
    pub turn: Option<String>,
    /// What the user's turn is called.
    pub turn_id: Option<String>,
    /// The response.
    pub response: String,
    /// What was heard of it.
    pub text: String,
    /// Whether that is all of it.
    pub complete: bool,
    /// What goes with it.
    pub metadata: Value,
}

impl fmt::Debug for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spoken").field("response", &self.response).finish_non_exhaustive()
    }
}

/// What was agreed upon when the session was created.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The application.
    pub app_id: String,
    /// The user, as the application names it.
    pub sub: String,
    /// `development` or `production`.
    pub environment: String,
    /// `internal` or `external`.
    pub mode: String,
    /// What its tokens allow.
    pub scopes: Vec<String>,
    /// The language.
    pub locale: String,
    /// Whether the client executes actions.
    pub actions: bool,
    /// How the client can ask for consent, in the order that it prefers.
    pub confirmation_channels: Vec<String>,
    /// The format of what the user says.
    pub input: Format,
    /// The format of what the user hears.
    pub output: Format,
    /// `binary` or `base64`.
    pub framing: String,
    /// How turns are taken.
    pub turn_detection: TurnDetection,
    /// What the agent is to do.
    pub instructions: Option<String>,
    /// The voice to speak with.
    pub voice: Option<String>,
    /// When the introduction is given.
    pub activate_on: String,
    /// Whether the user is here for the first time.
    pub first_visit: bool,
    /// The agent that answers.
    pub agent: String,
    /// The provider, in internal mode.
    pub provider: Option<String>,
    /// Whatever the client wants to be told again.
    pub metadata: BTreeMap<String, String>,
    /// How long it waits for a lost transport, in seconds.
    pub resume_s: u32,
    /// When it was created, in milliseconds.
    pub created_at: u64,
    /// When it ends at the latest, in milliseconds.
    pub expires_at: u64,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app_id, environment, mode, .. } = self;
        f.debug_struct("Settings")
            .field("app_id", app_id)
            .field("environment", environment)
            .field("mode", mode)
            .finish_non_exhaustive()
    }
}
