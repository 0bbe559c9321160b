//! What operators say about those who vouch for users, and about what is done on their behalf.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::describe::sections;
use crate::config::{Describe, Kind};

sections! {
    /// One application whose App Tokens are believed. Its keys are those of `jwks_url`, `jwks_file` or
    /// `public_key`, exactly one of them if any algorithm but HS256 is allowed; with HS256, `secret_env`.
    pub struct IssuerConfig {
        /// The `iss` that its tokens carry.
        pub issuer: String = String::new(),
        /// Begins the principals of this issuer, as in `<namespace>|<sub>`. Unset, it is the issuer.
        pub namespace: Option<String> = None,
        /// The algorithms that its tokens may use: `ES256`, `EdDSA`, `RS256`, `HS256`.
        pub algorithms: Vec<AppAlgorithm> = Vec::new(),
        /// Where its JSON Web Key Set is; tokens choose by `kid`.
        pub jwks_url: Option<String> = None,
        /// A file with a JSON Web Key Set, or with a single key; tokens choose by `kid`.
        pub jwks_file: Option<PathBuf> = None,
        /// A PEM file with the public key. It fits one algorithm, which has to be the only one but HS256.
        pub public_key: Option<PathBuf> = None,
        /// The environment variable that holds the shared secret for HS256, of at least 32 bytes.
        pub secret_env: Option<String> = None,
        /// The `aud` that its tokens must carry; unset, the issuer that discovery names.
        pub audience: Option<String> = None,
    }

    /// Sessions of development: for whoever tries things out.
    pub struct DevelopmentConfig {
        /// Whether there are any.
        pub allowed: bool = false,
        /// The environment variable that holds the secret under which developers sign App Tokens of their own,
        /// with HS256; of at least 32 bytes.
        pub secret_env: Option<String> = None,
    }

    /// A provider that clients talk to by themselves, with a credential that lives for seconds.
    pub struct ProviderConfig {
        /// What it is called.
        pub id: String = String::new(),
        /// How it is talked to.
        pub adapter: ProviderAdapter = ProviderAdapter::VipNative,
        /// Over what it is talked to.
        pub transport: ProviderTransport = ProviderTransport::Websocket,
        /// Where clients connect; for `vip-native`, unset: this server itself.
        pub url: Option<String> = None,
        /// Its model.
        pub model: String = String::new(),
        /// Its voice; unset, its own choice.
        pub voice: Option<String> = None,
        /// For `openai-realtime-v1`: where the API is; `/v1/realtime/client_secrets` is added.
        pub base_url: String = "https://api.openai.com".into(),
        /// For `openai-realtime-v1`: the environment variable that holds the long-term key, which never leaves
        /// this server.
        pub api_key_env: Option<String> = None,
        /// How long a credential can be used to connect, in seconds; at most 60 for `vip-native`.
        pub ttl_s: u64 = 60,
        /// Whether the key is one of production, so that sessions of development get no credential.
        pub production: bool = true,
        /// How long getting a credential may take, in milliseconds.
        pub timeout_ms: u64 = 10_000,
    }

    /// A function of the server, which actions with `executor: "server"` run.
    pub struct FunctionConfig {
        /// The name of the action.
        pub name: String = String::new(),
        /// Where it is: `{"name", "parameters", "session", "sub"}` is sent by POST, and the answer is the result.
        pub url: String = String::new(),
        /// The environment variable that holds the bearer token to send along.
        pub token_env: Option<String> = None,
        /// How long it may take, in milliseconds.
        pub timeout_ms: u64 = 10_000,
        /// How long an answer may be, in bytes.
        pub max_answer_bytes: usize = 64 << 10,
    }
}

impl IssuerConfig {
    /// What the principals of this issuer begin with.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(&self.issuer)
    }
}

impl ProviderConfig {
    /// The settings that are fixed when a credential is made, by name and in order.
    pub fn locked(&self) -> Vec<&'static str> {
        let voice = self.voice.is_some().then_some("voice");
        ["instructions", "model"].into_iter().chain(voice).collect()
    }
}

/// The algorithms of App Tokens. `none` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
    /// RSA PKCS #1 v1.5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// HMAC with SHA-256.
    #[serde(rename = "HS256")]
    Hs256,
}

impl Describe for AppAlgorithm {
    const KIND: Kind = Kind::Choice(&["ES256", "EdDSA", "RS256", "HS256"]);
}

/// How a provider is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderAdapter {
    /// In VIP's own words; this server signs the credential.
    #[serde(rename = "vip-native")]
    VipNative,
    /// In those of the Realtime API; the provider makes the credential.
    #[serde(rename = "openai-realtime-v1")]
    OpenAiRealtime,
}

impl ProviderAdapter {
    /// How long a credential may be good, in seconds (§3.3).
    pub(crate) const fn lifetimes(self) -> RangeInclusive<u64> {
        match self {
            Self::VipNative => 10..=60,
            Self::OpenAiRealtime => 10..=600,
        }
    }

    /// As clients read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VipNative => "vip-native",
            Self::OpenAiRealtime => "openai-realtime-v1",
        }
    }
}

impl Describe for ProviderAdapter {
    const KIND: Kind = Kind::Choice(&["vip-native", "openai-realtime-v1"]);
}

/// Over what a provider is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderTransport {
    /// A WebSocket.
    Websocket,
    /// WebRTC.
    Webrtc,
}

impl Describe for ProviderTransport {
    const KIND: Kind = Kind::Choice(&["websocket", "webrtc"]);
}
