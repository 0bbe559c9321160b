//! Every key of the configuration but those of agents and sessions, with its default.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use switchboard_acolyte::AcolyteLimits;
use switchboard_agents::{CommandContext, McpConfig};
use switchboard_aip::AipLimits;
use switchboard_asp::AspLimits;
use switchboard_core::SessionLimits;
use switchboard_store::SqliteOptions;

use super::agents::{AgentConfig, built_in};
use super::alicia::AliciaConfig;
use super::describe::{Describe, Kind, sections};
use super::memory::MemoryConfig;
use super::secrets::Secrets;
use super::speech::SpeechConfig;
use super::vip::VipConfig;
use super::voice::VoiceConfig;

sections! {
    /// The whole configuration. Its default runs a durable single node on loopback.
    pub struct Config {
        /// Where to listen. An address other than loopback needs credentials, and TLS or a proxy
        /// that ends it.
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 4600)),
        /// The folder for everything that must survive a restart.
        pub data_dir: PathBuf = PathBuf::from("switchboard-data"),
        /// The agent that serves turns which name no other.
        pub agent: String = "demo".into(),
        /// Which agent serves whom, where the client has not named one: the first route that fits
        /// counts, and `agent` where none does.
        pub routes: Vec<RouteConfig> = Vec::new(),
        /// Origins of web pages that may connect, like `https://app.example`; `*` allows all.
        /// The server's own origin is always allowed, and so are clients that send none; on
        /// loopback, so are pages that this machine itself serves.
        pub allowed_origins: Vec<String> = Vec::new(),
        /// Names under which the server may be addressed, like `chat.example`. On loopback,
        /// `localhost`, `127.0.0.1` and `[::1]` are always allowed, and nothing else is unless
        /// named here; on other addresses an empty list allows all.
        pub allowed_hosts: Vec<String> = Vec::new(),
        /// Proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are believed.
        pub trusted_proxies: Vec<IpAddr> = Vec::new(),
        /// Folders of this machine in which clients may let agents work, with all that lies within
        /// them. While everybody is let in as the development principal, an empty list allows any;
        /// otherwise it allows none.
        pub workspaces: Vec<PathBuf> = Vec::new(),
        /// Where the log is kept.
        pub store: StoreConfig = StoreConfig::default(),
        /// Encryption of the listener.
        pub tls: TlsConfig = TlsConfig::default(),
        /// Who may connect.
        pub auth: AuthConfig = AuthConfig::default(),
        /// Bounds of the whole server.
        pub limits: LimitsConfig = LimitsConfig::default(),
        /// Bounds of each session.
        pub session: SessionLimits = SessionLimits::default(),
        /// The Agent Socket Protocol.
        pub asp: AspConfig = AspConfig::default(),
        /// Acolyte: chat RPC for terminals.
        pub acolyte: AcolyteConfig = AcolyteConfig::default(),
        /// The Agent Interaction Protocol: devices and orchestrators.
        pub aip: AipConfig = AipConfig::default(),
        /// Alicia: conversations with an assistant.
        pub alicia: AliciaConfig = AliciaConfig::default(),
        /// VIP: voice for apps.
        pub vip: VipConfig = VipConfig::default(),
        /// Functions as agents: what they are told of this server.
        pub relay: RelayConfig = RelayConfig::default(),
        /// Agents, by the name under which clients ask for them.
        pub agents: BTreeMap<String, AgentConfig> = built_in(),
        /// Servers of the Model Context Protocol, whose tools agents and clients can use, by name.
        pub mcp: BTreeMap<String, McpConfig> = BTreeMap::new(),
        /// What people have asked to be remembered, laid before the agents that answer them.
        pub memory: MemoryConfig = MemoryConfig::default(),
        /// What people say aloud, and who understands it.
        pub speech: SpeechConfig = SpeechConfig::default(),
        /// Who listens and who speaks, for protocols that carry audio.
        pub voice: VoiceConfig = VoiceConfig::default(),
        /// How the server leaves.
        pub drain: DrainConfig = DrainConfig::default(),
        /// Logs, metrics and the admin API.
        pub telemetry: TelemetryConfig = TelemetryConfig::default(),
        ;
        /// Secrets that the keys name, as they were found in the environment.
        pub secrets: Secrets,
    }

    /// Where the log is kept.
    pub struct StoreConfig {
        /// `sqlite` keeps it in the data folder; `memory` loses it with the process.
        pub kind: StoreKind = StoreKind::Sqlite,
        /// `full` survives loss of power; `normal` survives a crash of the process only.
        pub synchronous: Synchronous = Synchronous::Normal,
    }

    /// Encryption of the listener.
    pub struct TlsConfig {
        /// A PEM file with the certificate chain, the server's own first.
        pub cert: Option<PathBuf> = None,
        /// A PEM file with the private key.
        pub key: Option<PathBuf> = None,
        /// A proxy in front of the server ends TLS, so that plain text on an address other than
        /// loopback is meant.
        pub terminated_elsewhere: bool = false,
    }

    /// Who may connect.
    pub struct AuthConfig {
        /// Long-lived keys.
        pub api_keys: Vec<ApiKey> = Vec::new(),
        /// Issuers of JSON Web Tokens.
        pub jwt: Vec<JwtIssuer> = Vec::new(),
        /// Lets everybody in as the principal `dev` with all scopes. Unset, it is on exactly when
        /// the listener is on loopback and nothing else is configured here; it can never be on
        /// otherwise.
        pub development: Option<bool> = None,
    }

    /// One API key. Either `hash` or `key_env`.
    pub struct ApiKey {
        /// A name for the key, used to revoke it.
        pub id: String = String::new(),
        /// SHA-256 of the key, in hexadecimal.
        pub hash: Option<String> = None,
        /// The environment variable that holds the key itself.
        pub key_env: Option<String> = None,
        /// Whom the key stands for.
        pub principal: String = String::new(),
        /// What it allows; unset, everything but `admin`. A list means exactly what it says: `connect`,
        /// `read`, `invoke`, `tools`, `approve`, `manage`, `dispatch`, `admin`; `agent:<name>`,
        /// `device:<name>`, `constellation:<name>`, `target:<name>`, `target:<owner>/<name>` and
        /// `mcp:<server>`, where a name may end in `*`. A protocol before a word (`asp:invoke`) makes
        /// it count there only. See docs/rights.md.
        pub scopes: Option<Vec<String>> = None,
    }

    /// One issuer of JSON Web Tokens. Exactly one of `secret_env`, `public_key` and `jwks`.
    pub struct JwtIssuer {
        /// The `iss` that its tokens carry.
        pub issuer: String = String::new(),
        /// The `aud` that its tokens must carry, such as this server's origin.
        pub audience: String = String::new(),
        /// The one algorithm that its tokens may use.
        pub algorithm: Option<Algorithm> = None,
        /// The environment variable that holds the shared secret, for HS algorithms.
        pub secret_env: Option<String> = None,
        /// A PEM file with the public key, for the other algorithms.
        pub public_key: Option<PathBuf> = None,
        /// A file with a JSON Web Key Set, for the other algorithms; tokens choose by `kid`.
        pub jwks: Option<PathBuf> = None,
        /// Begins the principals of this issuer, as in `<namespace>|<sub>`. Unset, it is the
        /// issuer.
        pub namespace: Option<String> = None,
        /// What a token allows whose claim `scope` (or `scp`) is missing, empty or malformed; the words
        /// are those of `auth.api_keys[].scopes`. Unset, such a token allows nothing.
        pub default_scopes: Vec<String> = Vec::new(),
        /// How far clocks may be apart, in seconds.
        pub leeway_s: u64 = 10,
    }

    /// Bounds of the whole server.
    pub struct LimitsConfig {
        /// Connections at the same time.
        pub connections: usize = 20_000,
        /// Connections of one principal at the same time.
        pub connections_per_principal: usize = 2_000,
        /// Connections from one address at the same time; an IPv6 /64 counts as one.
        pub connections_per_address: usize = 2_000,
        /// New connections per second from one address.
        pub new_connections_per_address_per_s: u64 = 200,
        /// New connections from one address that may come at once.
        pub new_connections_per_address_burst: u64 = 400,
        /// Credentials from one address that may be wrong within a minute; then nobody from there is
        /// heard for a minute. Loopback is exempt.
        pub bad_credentials_per_minute: u64 = 30,
        /// Frames per second of one principal, over all its connections.
        pub principal_frames_per_s: u64 = 2_000,
        /// Frames of one principal that may come at once.
        pub principal_frames_burst: u64 = 4_000,
        /// Inbound bytes per second of one principal, over all its connections.
        pub principal_bytes_per_s: u64 = 16 << 20,
        /// Inbound bytes of one principal that may come at once.
        pub principal_bytes_burst: u64 = 64 << 20,
        /// New turns per second of one principal, over all its connections.
        pub principal_turns_per_s: u64 = 400,
        /// New turns of one principal that may come at once.
        pub principal_turns_burst: u64 = 4096,
        /// Requests that may wait in front of one session.
        pub mailbox: usize = 1_024,
        /// Committed events of a session that are kept in memory for its readers.
        pub ring_events: usize = 1_024,
        /// Bytes of committed events of a session that are kept in memory for its readers.
        pub ring_bytes: usize = 1 << 20,
        /// Sessions in memory at the same time.
        pub resident_sessions: usize = 50_000,
        /// How long an idle session stays in memory, in milliseconds; less where there are more than 512.
        pub session_idle_ms: u64 = 2_000,
        /// Events after which a session's state is saved, so that it opens without reading all.
        pub snapshot_events: u64 = 1_000,
        /// Turns that agents of this process work on at the same time. One that waits for the answer of
        /// a person, a client or a device does not count.
        pub running_turns: usize = 10_000,
        /// Of these, turns of one principal. A slot that becomes free goes to the principal that has the
        /// fewest.
        pub running_turns_per_principal: usize = 5_000,
        /// Turns of one principal that may wait for a slot; further ones fail at once.
        pub waiting_turns_per_principal: usize = 5_000,
        /// How long a turn may wait for a slot before it fails, in milliseconds.
        pub turn_wait_ms: u64 = 30_000,
        /// Turns for one device that are worked on at the same time; others wait.
        pub device_turns: usize = 4,
        /// How long the executor of a turn may give no sign of life before it counts as lost, in
        /// milliseconds; it gives one three times as often.
        pub lease_ms: u64 = 30_000,
        /// Bytes that may wait to be written to one connection before it counts as stuck, besides what
        /// is being written and one large message.
        pub write_buffer_bytes: usize = 8 << 20,
        /// The largest single message that is sent. It has to hold the longest answer as its protocol
        /// writes it, which may be six times `session.answer_bytes`.
        pub outgoing_message_bytes: usize = 128 << 20,
        /// Bytes of messages and of HTTP bodies that one principal has begun and not finished, over all
        /// its connections; one message alone always fits. A connection that goes beyond it is closed.
        pub principal_unfinished_bytes: usize = 64 << 20,
        /// Sessions that one principal may have, also those in which nothing was asked.
        pub sessions_per_principal: u64 = 1_000_000,
        /// Bytes that one principal may have in the log; tables that are derived from it take as much again several
        /// times. What has begun goes on, and can be read, beyond it.
        pub stored_bytes_per_principal: u64 = 64 << 30,
        /// How long one message, or the body of an HTTP request, may take from its first byte to its
        /// last, in milliseconds.
        pub message_timeout_ms: u64 = 60_000,
        /// Sockets at the same time that carry no connection: they have said nothing yet, or wait for
        /// another request. For a newcomer the one that has been idle longest is closed.
        pub handshakes: usize = 4_096,
        /// Of these, sockets of one address; an IPv6 /64 counts as one, and `trusted_proxies` are
        /// exempt. For a newcomer the address loses its own oldest idle one.
        pub handshakes_per_address: usize = 512,
        /// How long a client may take to open a connection, in milliseconds.
        pub handshake_timeout_ms: u64 = 10_000,
        /// Entries on one page of the admin API.
        pub admin_page: usize = 1_000,
    }

    /// The Agent Socket Protocol.
    pub struct AspConfig {
        /// Whether it is served, at `/v1/agent-socket`.
        pub enabled: bool = true,
        /// Whether it is served at `/ws`, too.
        pub ws_alias: bool = false,
        /// Bounds of each of its connections.
        pub limits: AspLimits = AspLimits::default(),
    }

    /// Acolyte: chat RPC for terminals.
    pub struct AcolyteConfig {
        /// Whether it is served, at `/v1/rpc`, `/v1/chat/stream`, `/v1/status` and
        /// `/v1/admin/shutdown`.
        pub enabled: bool = true,
        /// The model that the server calls its default; unset, the name of the agent that serves the
        /// connection. A chat that
        /// names a configured agent as its model is served by that agent, any other by the default
        /// one.
        pub model: Option<String> = None,
        /// What becomes of questions that agents ask: no client of this protocol can answer, so they
        /// are turned down (`deny`), or wait for other participants of the session (`wait`).
        pub questions: Questions = Questions::Deny,
        /// Bounds of each of its connections.
        pub limits: AcolyteLimits = AcolyteLimits::default(),
    }

    /// The Agent Interaction Protocol: devices and orchestrators.
    pub struct AipConfig {
        /// Whether it is served, at `/ws` and `/api/`.
        pub enabled: bool = true,
        /// The agent that plans tasks; unset, the default agent.
        pub agent: Option<String> = None,
        /// Whether a constellation may register for no device, and then use each within its reach.
        pub allow_untargeted: bool = false,
        /// For tests only: tasks are planned by the deterministic planner of the wire reference, which
        /// reads a script after `aip-script:` and sends one `echo` command otherwise.
        pub test_planner: bool = false,
        /// In whose name devices are given commands: `agent_name`, `process_name`, `root_name`. Devices
        /// look their tools up by it; unset, the agent's name suits the platform of the device.
        pub command: CommandContext = CommandContext::default(),
        /// Bounds of each of its connections.
        pub limits: AipLimits = AipLimits::default(),
    }

    /// Functions as agents: what they are told of this server.
    pub struct RelayConfig {
        /// Under which URL functions reach this server, such as `https://chat.example`; unset, the
        /// address on which it listens.
        pub public_url: Option<String> = None,
    }

    /// One route to an agent. What is not given fits everything; a text may end in `*`.
    pub struct RouteConfig {
        /// The protocol that is spoken: `asp`, `acolyte`, `aip`, `alicia` or `vip`.
        pub protocol: Option<String> = None,
        /// The path of the connection, such as `/v1/agent-socket`.
        pub path: Option<String> = None,
        /// Who asks.
        pub principal: Option<String> = None,
        /// Values that the `meta` of the request has to carry.
        pub meta: BTreeMap<String, String> = BTreeMap::new(),
        /// The agent that serves it.
        pub agent: String = String::new(),
    }

    /// How the server leaves.
    pub struct DrainConfig {
        /// How long running turns may take to finish, in milliseconds.
        pub timeout_ms: u64 = 30_000,
        /// When clients are told to come back, in milliseconds.
        pub retry_ms: u64 = 1_000,
        /// Over how long their return is spread, in milliseconds.
        pub spread_ms: u64 = 5_000,
    }

    /// Logs, metrics and the admin API.
    pub struct TelemetryConfig {
        /// `human` for a terminal, `json` for a collector.
        pub log_format: LogFormat = LogFormat::Human,
        /// What is logged: a level, or directives such as `info,switchboard_server=debug`.
        pub log_level: String = "info".into(),
        /// Whether `/metrics` is served.
        pub metrics: bool = true,
        /// Whether `/metrics` needs no credential; otherwise it needs the scope `admin`.
        pub metrics_public: bool = false,
        /// Whether `/admin/v1/` is served.
        pub admin: bool = true,
    }
}

macro_rules! choices {
    ($(
        $(#[doc = $about:literal])+
        pub enum $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+ }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $( $(#[doc = $doc])+ #[serde(rename = $word)] $variant, )+ }

        impl Describe for $name {
            const KIND: Kind = Kind::Choice(&[$($word),+]);
        }
    )+};
}
pub(super) use choices;

choices! {
    /// Where the log is kept.
    pub enum StoreKind {
        /// In a file of the data folder.
        Sqlite = "sqlite",
        /// Nowhere but in memory.
        Memory = "memory",
    }

    /// What a commit survives.
    pub enum Synchronous {
        /// Loss of power.
        Full = "full",
        /// A crash of the process.
        Normal = "normal",
    }

    /// What becomes of questions that nobody at a client can answer.
    pub enum Questions {
        /// They are turned down.
        Deny = "deny",
        /// They wait for somebody else.
        Wait = "wait",
    }

    /// How logs look.
    pub enum LogFormat {
        /// For people.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }

    /// Algorithms of JSON Web Tokens. `none` is not among them.
    pub enum Algorithm {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// HMAC with SHA-384.
        Hs384 = "HS384",
        /// HMAC with SHA-512.
        Hs512 = "HS512",
        /// RSA PKCS #1 v1.5 with SHA-256.
        Rs256 = "RS256",
        /// RSA PKCS #1 v1.5 with SHA-384.
        Rs384 = "RS384",
        /// RSA PKCS #1 v1.5 with SHA-512.
        Rs512 = "RS512",
        /// RSA-PSS with SHA-256.
        Ps256 = "PS256",
        /// RSA-PSS with SHA-384.
        Ps384 = "PS384",
        /// RSA-PSS with SHA-512.
        Ps512 = "PS512",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// ECDSA on P-384 with SHA-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

impl Algorithm {
    /// Whether both sides share one secret.
    pub const fn is_symmetric(self) -> bool {
        matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512)
    }
}

impl StoreConfig {
    /// How the SQLite log behaves.
    pub fn options(&self) -> SqliteOptions {
        SqliteOptions { synchronous: self.synchronous.into(), ..SqliteOptions::default() }
    }
}

impl From<Synchronous> for switchboard_store::Synchronous {
    fn from(synchronous: Synchronous) -> Self {
        match synchronous {
            Synchronous::Full => Self::Full,
            Synchronous::Normal => Self::Normal,
        }
    }
}

impl AuthConfig {
    /// Whether anybody could show a credential.
    pub const fn has_credentials(&self) -> bool {
        !self.api_keys.is_empty() || !self.jwt.is_empty()
    }
}

impl Config {
    /// Whether everybody is let in as the development principal.
    pub const fn is_development(&self) -> bool {
        let wanted = match self.auth.development {
            Some(wanted) => wanted,
            None => true,
        };
        wanted && self.listen.ip().is_loopback() && !self.auth.has_credentials()
    }

    /// Whether the listener itself speaks TLS.
    pub const fn has_tls(&self) -> bool {
        self.tls.cert.is_some() || self.tls.key.is_some()
    }
}
