//! The tokens that this server issues (§3.2, §3.3). Who signs them, and with which key, is not known here.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Signs claims, and knows its own signatures again. The same claims always lead to the same token.
pub trait Seal: Debug + Send + Sync {
    /// A token of this type (`typ`) with these claims.
    fn sign(&self, typ: &str, claims: &Value) -> String;

    /// The claims of a token of this type.
    ///
    /// # Errors
    /// It is no token of ours.
    fn open(&self, typ: &str, token: &str) -> Result<Value, Unsealed>;

    /// The public keys, as a JWK set.
    fn key_set(&self) -> Value;
}

/// Why a token is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// It is not even a token of this type, or its signature is wrong.
    Invalid,
    /// It names an algorithm that is never used here, such as `none`.
    Algorithm,
}

/// The claims of a session token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaims {
    /// Who issued it: this server.
    pub iss: String,
    /// What it is for.
    pub aud: String,
    /// The user, as the application names it.
    pub sub: String,
    /// The session.
    pub sid: String,
    /// The application.
    pub app: String,
    /// The environment.
    pub env: String,
    /// The mode.
    pub mode: String,
    /// What it allows, separated by spaces.
    pub scp: String,
    /// When it was issued, in seconds.
    pub iat: u64,
    /// When it ends, in seconds.
    pub exp: u64,
    /// Tells it from others.
    pub jti: String,
    /// The principal behind `sub`, as the rest of the server knows it.
    pub own: String,
}

/// The claims of an ephemeral credential for our own provider endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EphemeralClaims {
    /// Who issued it: this server.
    pub iss: String,
    /// The provider.
    pub aud: String,
    /// The user, as the application names it.
    pub sub: String,
    /// The session on whose behalf.
    pub sid: String,
    /// Digest of the settings that are locked.
    pub cfg: String,
    /// When it was issued, in seconds.
    pub iat: u64,
    /// When it ends, in seconds.
    pub exp: u64,
    /// It can be used once.
    pub jti: String,
    /// The principal behind `sub`, as the rest of the server knows it.
    pub own: String,
}

/// The `typ` of session tokens.
pub const SESSION: &str = "vip-session+jwt";
/// The `typ` of ephemeral credentials.
pub const EPHEMERAL: &str = "vip-ephemeral+jwt";
/// The `typ` of the tokens that applications sign.
pub const APP: &str = "vip-app+jwt";
/// The audience of session tokens.
pub const AUDIENCE: &str = "vip-transport";
