//! VIP in the configuration: who vouches for users, which providers there are, how peers are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchboard_vip::VipLimits;
use toml::Value;

use super::agents::add;
use super::check::Findings;
use super::describe::{Describe, Key, Kind, sections};
use super::sections::Config;
use crate::vouch::{FunctionConfig, IssuerConfig, ProviderConfig};

sections! {
    /// VIP: voice for apps.
    pub struct VipConfig {
        /// Whether it is served, at `/v1/vip/` and `/.well-known/vip`.
        pub enabled: bool = true,
        /// The agent that answers; unset, the one that routes or `agent` name, or where that is the demo, the
        /// butler.
        pub agent: Option<String> = None,
        /// What the server calls itself as an issuer of tokens and as the audience of App Tokens;
        /// unset, `vip.public_url`, or the origin under which a client reaches it.
        pub issuer: Option<String> = None,
        /// The origin under which clients reach this server, such as `https://voice.example`; unset,
        /// the one to which they have sent their request.
        pub public_url: Option<String> = None,
        /// Whether there are sessions of development, for which nobody has to vouch; unset, while
        /// everybody is let in as the development principal.
        pub allow_development: Option<bool> = None,
        /// New sessions of development per minute from one address, without a token; loopback is exempt.
        pub development_sessions_per_minute: u64 = 30,
        /// The environment variable that holds the secret under which developers sign App Tokens of
        /// their own, with HS256; of at least 32 bytes.
        pub development_secret_env: Option<String> = None,
        /// Whether the demo application is served, at `/demo/vip/`; unset, while everybody is let in
        /// as the development principal.
        pub demo: Option<bool> = None,
        /// What is said when an introduction is asked for.
        pub introduction: String = "Hello! How can I help you?".into(),
        /// Whether the user may speak over the introduction; if not, still after 15 seconds of it.
        pub introduction_interruptible: bool = true,
        /// Instructions that applications choose by name.
        pub prompts: BTreeMap<String, PromptConfig> = BTreeMap::new(),
        /// Applications whose App Tokens are believed.
        pub issuers: Vec<IssuerConfig> = Vec::new(),
        /// Providers that clients may talk to by themselves, the preferred one first.
        pub providers: Vec<ProviderConfig> = Vec::new(),
        /// Functions that actions may leave to the server.
        pub functions: Vec<FunctionConfig> = Vec::new(),
        /// Servers that help WebRTC peers to find a way.
        pub ice_servers: Vec<IceServerConfig> = Vec::new(),
        /// WebRTC as a transport.
        pub webrtc: WebRtcConfig = WebRtcConfig::default(),
        /// Bounds of each session.
        pub limits: VipLimits = VipLimits::default(),
    }

    /// Instructions under a name.
    pub struct PromptConfig {
        /// What the agent is told; `{{name}}` stands for a variable that the application gives.
        pub instructions: String = String::new(),
    }

    /// One server that helps WebRTC peers to find a way.
    pub struct IceServerConfig {
        /// Where it is, such as `stun:stun.example:3478`.
        pub urls: Vec<String> = Vec::new(),
        /// The name that clients show there.
        pub username: Option<String> = None,
        /// The environment variable that holds the credential that clients show there.
        pub credential_env: Option<String> = None,
    }

    /// WebRTC as a transport.
    pub struct WebRtcConfig {
        /// Whether it is offered.
        pub enabled: bool = true,
        /// The address and UDP port of all peers; unset, a port of the system's choice on the address
        /// of `listen`.
        pub listen: Option<SocketAddr> = None,
        /// Addresses under which clients reach that port, where they are not those of this machine.
        pub public_ips: Vec<IpAddr> = Vec::new(),
        /// Peers at the same time.
        pub peers: usize = 1_000,
        /// How long a peer may take to connect, in milliseconds.
        pub connect_timeout_ms: u64 = 15_000,
    }
}

impl Config {
    /// Whether sessions of development may be created over VIP.
    pub fn allows_vip_development(&self) -> bool {
        self.vip.allow_development.unwrap_or_else(|| self.is_development())
    }

    /// Whether the demo application is served.
    pub fn shows_demo(&self) -> bool {
        self.vip.enabled && self.vip.demo.unwrap_or_else(|| self.is_development())
    }

    /// Where WebRTC peers are served.
    pub(crate) fn webrtc_listen(&self) -> SocketAddr {
        self.vip.webrtc.listen.unwrap_or_else(|| SocketAddr::new(self.listen.ip(), 0))
    }

    pub(super) fn vip_secret_names(&self) -> impl Iterator<Item = String> + '_ {
        let vip = &self.vip;
        let issuers = vip.issuers.iter().filter_map(|issuer| issuer.secret_env.clone());
        let providers = vip.providers.iter().filter_map(|provider| provider.api_key_env.clone());
        let functions = vip.functions.iter().filter_map(|function| function.token_env.clone());
        let helpers = vip.ice_servers.iter().filter_map(|server| server.credential_env.clone());
        issuers.chain(providers).chain(functions).chain(helpers).chain(vip.development_secret_env.clone())
    }

    pub(super) fn check_vip(&self, findings: &mut Findings) {
        let vip = &self.vip;
        self.check_vip_limits(findings);
        findings.range(
            "vip.development_sessions_per_minute",
            vip.development_sessions_per_minute,
            1..=1_000_000,
        );
        if let Some(agent) = &vip.agent
            && !self.has_agent(agent)
        {
            findings.add("vip.agent", format!("no agent {agent}: expected a configured one"));
        }
        for (key, url) in [("vip.public_url", &vip.public_url), ("vip.issuer", &vip.issuer)] {
            if url.as_ref().is_some_and(String::is_empty) {
                findings.add(key, "must not be empty");
            }
        }
        if let Some(url) = &vip.public_url
            && crate::origin::Origin::parse(url).is_none()
        {
            findings.add("vip.public_url", "expected an origin such as https://voice.example");
        }
        if let Some(variable) = &vip.development_secret_env {
            self.check_secret("vip.development_secret_env".into(), variable, MIN_SECRET_BYTES, findings);
        }
        for (name, prompt) in &vip.prompts {
            findings.name(format!("vip.prompts.{name}"), name);
            if prompt.instructions.is_empty() {
                findings.add(format!("vip.prompts.{name}.instructions"), "is required");
            }
        }
        self.check_vip_parties(findings);
        findings.range("vip.webrtc.peers", vip.webrtc.peers, 1..=100_000);
        findings.range("vip.webrtc.connect_timeout_ms", vip.webrtc.connect_timeout_ms, 1_000..=120_000);
    }

    fn check_vip_parties(&self, findings: &mut Findings) {
        let vip = &self.vip;
        let (mut names, mut namespaces) = (BTreeSet::new(), BTreeMap::new());
        for (index, issuer) in vip.issuers.iter().enumerate() {
            let at = format!("vip.issuers[{index}]");
            findings.name(format!("{at}.issuer"), &issuer.issuer);
            if !names.insert(&issuer.issuer) {
                findings.add(format!("{at}.issuer"), format!("{} is used twice", issuer.issuer));
            }
            let namespace = issuer.namespace();
            let holder = *namespaces.entry(namespace).or_insert(&issuer.issuer);
            if *holder != issuer.issuer {
                let message = format!("{namespace} belongs to {holder}: two must not share their principals");
                findings.add(format!("{at}.namespace"), message);
            }
            if issuer.algorithms.is_empty() {
                findings.add(format!("{at}.algorithms"), "is required: the algorithms that tokens may use");
            }
            if let Some(variable) = &issuer.secret_env {
                self.check_secret(format!("{at}.secret_env"), variable, MIN_SECRET_BYTES, findings);
            }
        }
        let mut ids = BTreeSet::new();
        for (index, provider) in vip.providers.iter().enumerate() {
            let at = format!("vip.providers[{index}]");
            findings.name(format!("{at}.id"), &provider.id);
            findings.range(format!("{at}.ttl_s"), provider.ttl_s, provider.adapter.lifetimes());
            findings.range(format!("{at}.timeout_ms"), provider.timeout_ms, 100..=28_000);
            if !ids.insert(&provider.id) {
                findings.add(format!("{at}.id"), format!("{} is used twice", provider.id));
            }
            if let Some(variable) = &provider.api_key_env {
                self.check_secret(format!("{at}.api_key_env"), variable, 1, findings);
            }
        }
        let mut ids = BTreeSet::new();
        for (index, function) in vip.functions.iter().enumerate() {
            let at = format!("vip.functions[{index}]");
            findings.name(format!("{at}.name"), &function.name);
            findings.name(format!("{at}.url"), &function.url);
            findings.range(format!("{at}.timeout_ms"), function.timeout_ms, 100..=28_000);
            findings.range(format!("{at}.max_answer_bytes"), function.max_answer_bytes, 1..=1 << 20);
            if !ids.insert(&function.name) {
                findings.add(format!("{at}.name"), format!("{} is used twice", function.name));
            }
            if let Some(variable) = &function.token_env {
                self.check_secret(format!("{at}.token_env"), variable, 1, findings);
            }
        }
        for (index, server) in vip.ice_servers.iter().enumerate() {
            let at = format!("vip.ice_servers[{index}]");
            let schemes = ["stun:", "stuns:", "turn:", "turns:"];
            let known = |url: &String| schemes.iter().any(|scheme| url.starts_with(scheme));
            if server.urls.is_empty() || !server.urls.iter().all(known) {
                findings.add(format!("{at}.urls"), "expected addresses such as stun:stun.example:3478");
            }
            if let Some(variable) = &server.credential_env {
                self.check_secret(format!("{at}.credential_env"), variable, 1, findings);
            }
        }
    }

    /// The bounds of section 15 of the reference.
    fn check_vip_limits(&self, findings: &mut Findings) {
        let limits = &self.vip.limits;
        for (key, value, range) in [
            ("text_bytes", limits.text_bytes, 1 << 10..=16 << 20),
            ("channel_bytes", limits.channel_bytes, 1 << 10..=64 << 10),
            ("frame_bytes", limits.frame_bytes, 1 << 10..=1 << 20),
            ("body_bytes", limits.body_bytes, 1 << 10..=16 << 20),
            ("token_s", limits.token_s, 60..=3_600),
            ("session_s", limits.session_s, 60..=14_400),
            ("development_s", limits.development_s, 60..=600),
            ("idle_s", limits.idle_s, 30..=1_800),
            ("resume_s", limits.resume_s, 0..=600),
            ("open_s", limits.open_s, 1..=600),
            ("connect_ms", limits.connect_ms, 100..=60_000),
            ("context_ms", limits.context_ms, 100..=60_000),
            ("replay", limits.replay, 1..=10_000),
            ("events", limits.events, 1..=100_000),
            ("events_burst", limits.events_burst, 1..=100_000),
            ("updates", limits.updates, 1..=10_000),
            ("turn_ms", limits.turn_ms, 1_000..=60_000),
            ("thinking_ms", limits.thinking_ms, 100..=600_000),
            ("uninterruptible_ms", limits.uninterruptible_ms, 100..=15_000),
            ("sessions", limits.sessions, 1..=100_000),
            ("credentials", limits.credentials, 1..=1_000),
            ("lead_ms", limits.lead_ms, 0..=5_000),
            ("answer_s", limits.answer_s, 1..=86_400),
        ] {
            findings.range(format!("vip.limits.{key}"), value, range);
        }
    }
}

impl Describe for VipLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, LIMIT_KEYS, keys);
    }
}

const LIMIT_KEYS: &[(&str, Kind, &str)] = &[
    ("text_bytes", Kind::Integer, "Largest text event on a WebSocket, in bytes."),
    ("channel_bytes", Kind::Integer, "Largest text event on a data channel, in bytes."),
    ("frame_bytes", Kind::Integer, "Largest binary frame, in bytes."),
    ("body_bytes", Kind::Integer, "Largest body of an HTTP request, in bytes."),
    ("token_s", Kind::Integer, "How long a session token is good, in seconds."),
    ("session_s", Kind::Integer, "The longest session, in seconds."),
    ("development_s", Kind::Integer, "The longest session in development, in seconds."),
    ("idle_s", Kind::Integer, "A session in which nothing happens for so long is ended, in seconds."),
    ("resume_s", Kind::Integer, "How long a session waits for its client to come back, in seconds."),
    ("open_s", Kind::Integer, "How long a session waits for its first transport, in seconds."),
    ("connect_ms", Kind::Integer, "How long a transport waits for `client.connect`, in milliseconds."),
    ("context_ms", Kind::Integer, "How long it waits for the first tree, in milliseconds."),
    ("replay", Kind::Integer, "The most events that are sent again to a client that comes back."),
    ("events", Kind::Integer, "Events that a client may send per second."),
    ("events_burst", Kind::Integer, "Events that a client may send at once."),
    ("updates", Kind::Integer, "Updates of the context that a client may send per second."),
    ("turn_ms", Kind::Integer, "Longest turn of a user, in milliseconds."),
    ("thinking_ms", Kind::Integer, "Longest wait for the first output of an answer, in milliseconds."),
    ("uninterruptible_ms", Kind::Integer, "Longest answer that cannot be interrupted, in milliseconds."),
    ("sessions", Kind::Integer, "Sessions of one user at the same time."),
    ("credentials", Kind::Integer, "Credentials of a provider that one session may ask for in a minute."),
    ("lead_ms", Kind::Integer, "How far speech may be sent ahead of the ear, in milliseconds."),
    ("answer_s", Kind::Integer, "How long an answer may take as a whole, in seconds."),
];

/// Bytes of the shortest secret under which App Tokens are signed.
const MIN_SECRET_BYTES: usize = 32;
