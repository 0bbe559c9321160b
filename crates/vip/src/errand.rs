//! What a connection has done outside of every session: by whoever runs the server, in these words.
//!
//! An [`Errand`] travels as JSON in [`Output::Errand`](switchboard_core::Output::Errand), and is answered with
//! the JSON of the type that its variant names; a failure is answered with [`Failed`] instead.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something to be done.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "errand", rename_all = "snake_case")]
pub enum Errand {
    /// Find out who an application vouches for; answered with [`Vouched`], and the connection speaks for
    /// that principal from then on.
    Vouch {
        /// The App Token; none for whoever tries things out, in development.
        token: Option<String>,
        /// What the request says the environment is.
        development: bool,
        /// Whether the token is used up by this. If not, the answer only says whether it is.
        redeem: bool,
    },
    /// Get a credential for a provider's own endpoint; answered with [`Minted`].
    Mint {
        /// The id of the provider.
        provider: String,
        /// The session on whose behalf.
        session: String,
        /// Whether that is one of development, which never gets a key of production.
        development: bool,
        /// The instructions that the provider's session is fixed to.
        instructions: Option<String>,
        /// The user, as the application names it.
        sub: String,
    },
    /// Get what an agent asks for with a call whose arguments are never stored; answered with [`Unsealed`].
    Unseal {
        /// The session.
        session: String,
        /// The call.
        call: String,
    },
    /// Run a function on the server; answered with [`Performed`].
    Perform {
        /// Its name.
        name: String,
        /// Its parameters, already checked.
        parameters: Value,
        /// The agent of the session, whose tools it may be among.
        agent: String,
        /// The session.
        session: String,
        /// The user, as the application names it.
        sub: String,
    },
    /// Answer the offer of a WebRTC peer; answered with [`Answered`].
    Offer {
        /// The session.
        session: String,
        /// The offer.
        sdp: String,
        /// The session token that opened it; the peer's connection is opened with the same.
        token: String,
    },
    /// Tell a WebRTC peer about candidates; answered with an empty object.
    Trickle {
        /// The session.
        session: String,
        /// The peer.
        peer: String,
        /// The fragment of SDP.
        fragment: String,
    },
    /// End a WebRTC peer; answered with an empty object.
    HangUp {
        /// The session.
        session: String,
        /// The peer.
        peer: String,
    },
}

// Tokens and content are not for logs.
impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vouch { .. } => "Vouch",
            Self::Mint { .. } => "Mint",
            Self::Unseal { .. } => "Unseal",
            Self::Perform { .. } => "Perform",
            Self::Offer { .. } => "Offer",
            Self::Trickle { .. } => "Trickle",
            Self::HangUp { .. } => "HangUp",
        })
    }
}

/// An errand that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The code of the error (§14).
    pub failed: String,
    /// What to do about it, for a person; without content.
    pub message: String,
}

/// Who an application vouches for (§3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vouched {
    /// The principal, as the rest of the server knows it.
    pub own: String,
    /// The issuer; none in development without a token.
    pub iss: Option<String>,
    /// The user, as the application names it.
    pub sub: String,
    /// The application, where the token names it.
    pub app_id: Option<String>,
    /// The environment, where the token names it.
    pub env: Option<String>,
    /// The modes that are allowed; none for both.
    pub modes: Option<Vec<String>>,
    /// What is allowed.
    pub scopes: Vec<String>,
    /// The longest session, in seconds.
    pub max_session_s: Option<u64>,
    /// The origins from which a browser may ask; none for all that the server allows.
    pub origins: Option<Vec<String>>,
    /// The language that is expected.
    pub locale: Option<String>,
    /// Whether the token was used up before.
    pub replayed: bool,
}

/// A credential for a provider's own endpoint (§3.3).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minted {
    /// The credential.
    pub value: String,
    /// When it ends, in seconds.
    pub expires_at: u64,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// The arguments of a call.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Unsealed {
    /// As the agent gave them.
    pub args: Value,
}

impl fmt::Debug for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsealed").finish_non_exhaustive()
    }
}

/// What a function on the server has done.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Performed {
    /// Its result.
    pub data: Value,
}

impl fmt::Debug for Performed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Performed").finish_non_exhaustive()
    }
}

/// The answer to the offer of a WebRTC peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// What the peer is called from now on.
    pub peer: String,
    /// The answer.
    pub sdp: String,
}
