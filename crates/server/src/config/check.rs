//! What the types cannot say: keys that depend on each other, and bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;

use switchboard_agents::Secret;
use switchboard_core::{Scope, Scopes};

use super::agents::AgentConfig;
use super::load::{ConfigError, Problem, Source};
use super::sections::{ApiKey, Config, JwtIssuer};

impl Config {
    /// Checks everything that the types cannot say.
    ///
    /// # Errors
    /// Every problem, each with its key and what is expected there.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut findings = Findings::default();
        self.check_exposure(&mut findings);
        self.check_auth(&mut findings);
        self.check_origins(&mut findings);
        self.check_limits(&mut findings);
        self.check_asp(&mut findings);
        self.check_acolyte(&mut findings);
        self.check_aip(&mut findings);
        self.check_alicia(&mut findings);
        self.check_agents(&mut findings);
        self.check_memory(&mut findings);
        self.check_speech(&mut findings);
        self.check_voice(&mut findings);
        self.check_vip(&mut findings);
        if findings.problems.is_empty() { Ok(()) } else { Err(ConfigError { problems: findings.problems }) }
    }

    /// The environment variables that the configuration names as holders of secrets.
    pub fn secret_names(&self) -> BTreeSet<String> {
        let keys = self.auth.api_keys.iter().filter_map(|key| key.key_env.clone());
        let issuers = self.auth.jwt.iter().filter_map(|issuer| issuer.secret_env.clone());
        let agents = self.agents.values().filter_map(|agent| match agent {
            AgentConfig::OpenAi(agent) => agent.api_key_env.clone(),
            AgentConfig::Function(agent) => agent.secret_env.clone(),
            AgentConfig::Echo(_)
            | AgentConfig::Script(_)
            | AgentConfig::Butler(_)
            | AgentConfig::Demo(_)
            | AgentConfig::Off(_) => None,
        });
        let mcp = self.mcp.values().flat_map(|server| server.env_names().map(str::to_owned));
        let embeddings = self.memory.embeddings.api_key_env.clone();
        let recognition = self.speech.recognition.api_key_env.clone();
        let synthesis = self.voice.synthesis.api_key_env.clone();
        let speech = recognition.into_iter().chain(synthesis);
        let own = keys.chain(issuers).chain(agents).chain(mcp).chain(embeddings);
        own.chain(speech).chain(self.vip_secret_names()).collect()
    }

    /// The keys whose values differ in `other`, but for those that can change while the server runs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let table = |config: &Self| match toml::Value::try_from(config) {
            Ok(toml::Value::Table(table)) => table,
            Ok(_) | Err(_) => toml::Table::new(),
        };
        let (own, others) = (table(self), table(other));
        let names: BTreeSet<&String> = own.keys().chain(others.keys()).collect();
        let changes = names.into_iter().filter(|name| !LIVE_KEYS.contains(&name.as_str()));
        changes.filter(|name| own.get(*name) != others.get(*name)).cloned().collect()
    }

    /// Hands agents the keys whose variables they name.
    pub(crate) fn reveal_keys(&mut self) {
        for agent in self.agents.values_mut() {
            let (name, key) = match agent {
                AgentConfig::OpenAi(openai) => (&openai.api_key_env, &mut openai.api_key),
                AgentConfig::Function(function) => (&function.secret_env, &mut function.secret),
                AgentConfig::Echo(_)
                | AgentConfig::Script(_)
                | AgentConfig::Butler(_)
                | AgentConfig::Demo(_)
                | AgentConfig::Off(_) => continue,
            };
            *key = name.as_deref().and_then(|name| self.secrets.find(name)).map(Secret::new);
        }
    }

    fn check_exposure(&self, findings: &mut Findings) {
        let loopback = self.listen.ip().is_loopback();
        if !loopback && self.auth.development == Some(true) {
            findings.add(
                "auth.development",
                format!(
                    "must be off while listening on {}: development mode is for loopback only",
                    self.listen
                ),
            );
        }
        if !loopback && !self.auth.has_credentials() {
            findings.add(
                "listen",
                format!("{} is not loopback: configure auth.api_keys or auth.jwt first", self.listen),
            );
        }
        if loopback && self.auth.development == Some(false) && !self.auth.has_credentials() {
            findings.add(
                "auth",
                "nobody could connect: configure auth.api_keys or auth.jwt, or allow development",
            );
        }
        if self.auth.development == Some(true) && self.auth.has_credentials() {
            findings.add("auth.development", "must be off when auth.api_keys or auth.jwt is configured");
        }
        if !loopback && !self.has_tls() && !self.tls.terminated_elsewhere {
            findings.add(
                "tls",
                format!(
                    "{} is not loopback: set tls.cert and tls.key, or tls.terminated_elsewhere when a proxy ends TLS",
                    self.listen
                ),
            );
        }
        match (&self.tls.cert, &self.tls.key) {
            (Some(_), None) => findings.add("tls.key", "must be given together with tls.cert"),
            (None, Some(_)) => findings.add("tls.cert", "must be given together with tls.key"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if self.data_dir.as_os_str().is_empty() {
            findings.add("data_dir", "must not be empty");
        }
    }

    fn check_auth(&self, findings: &mut Findings) {
        let mut ids = BTreeSet::new();
        for (index, key) in self.auth.api_keys.iter().enumerate() {
            let at = format!("auth.api_keys[{index}]");
            self.check_api_key(&at, key, findings);
            if !ids.insert(&key.id) {
                findings.add(format!("{at}.id"), format!("{} is used twice", key.id));
            }
            let same = |other: &&ApiKey| key.hash.is_some() && other.hash == key.hash;
            if let Some(other) = self.auth.api_keys.iter().take(index).find(same) {
                findings.add(
                    format!("{at}.hash"),
                    format!("is the hash of {} too: make a key of its own", other.id),
                );
            }
        }
        let mut namespaces: BTreeMap<&str, &str> = BTreeMap::new();
        for (index, issuer) in self.auth.jwt.iter().enumerate() {
            let at = format!("auth.jwt[{index}]");
            self.check_issuer(&at, issuer, findings);
            let namespace = issuer.namespace();
            let holder = *namespaces.entry(namespace).or_insert(&issuer.issuer);
            if holder != issuer.issuer {
                findings.add(
                    format!("{at}.namespace"),
                    format!("{namespace} belongs to {holder}: two issuers must not share their principals"),
                );
            }
        }
    }

    fn check_api_key(&self, at: &str, key: &ApiKey, findings: &mut Findings) {
        findings.name(format!("{at}.id"), &key.id);
        findings.name(format!("{at}.principal"), &key.principal);
        match (&key.hash, &key.key_env) {
            (Some(hash), None) => {
                if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    findings.add(
                        format!("{at}.hash"),
                        "expected the SHA-256 of the key as 64 hexadecimal digits",
                    );
                }
            }
            (None, Some(name)) => {
                self.check_secret(format!("{at}.key_env"), name, MIN_KEY_BYTES, findings);
                // Browsers send it as a sub-protocol, which takes nothing else.
                if self.acolyte.enabled && self.secrets.find(name).is_some_and(|key| !is_token(key)) {
                    let problem = format!("{name} may hold only letters, digits and {TOKEN_MARKS}");
                    findings.add(format!("{at}.key_env"), problem);
                }
            }
            (Some(_), Some(_)) | (None, None) => findings.add(at, "expected exactly one of hash and key_env"),
        }
        if let Some(words) = &key.scopes {
            if words.is_empty() {
                findings.add(
                    format!("{at}.scopes"),
                    "an empty list allows nothing: leave it out for everything but admin, or name what it allows",
                );
            }
            check_scopes(&format!("{at}.scopes"), words, findings);
        }
    }

    fn check_issuer(&self, at: &str, issuer: &JwtIssuer, findings: &mut Findings) {
        findings.name(format!("{at}.issuer"), &issuer.issuer);
        findings.name(format!("{at}.audience"), &issuer.audience);
        if issuer.namespace().contains('|') {
            findings.add(format!("{at}.namespace"), "must not contain |, which ends a namespace");
        }
        if issuer.namespace.as_ref().is_some_and(String::is_empty) {
            findings.add(format!("{at}.namespace"), "must not be empty");
        }
        findings.range(format!("{at}.leeway_s"), issuer.leeway_s, 0..=300);
        check_scopes(&format!("{at}.default_scopes"), &issuer.default_scopes, findings);
        let Some(algorithm) = issuer.algorithm else {
            findings.add(format!("{at}.algorithm"), "is required: the one algorithm that tokens may use");
            return;
        };
        match (&issuer.secret_env, &issuer.public_key, &issuer.jwks) {
            (Some(name), None, None) if algorithm.is_symmetric() => {
                self.check_secret(format!("{at}.secret_env"), name, MIN_SECRET_BYTES, findings);
            }
            (None, Some(_), None) | (None, None, Some(_)) if !algorithm.is_symmetric() => {}
            (Some(_), None, None) | (None, Some(_), None) | (None, None, Some(_)) => findings.add(
                format!("{at}.algorithm"),
                "HS algorithms need secret_env, all others public_key or jwks".to_owned(),
            ),
            _ => findings.add(at, "expected exactly one of secret_env, public_key and jwks"),
        }
    }

    pub(super) fn check_secret(&self, key: String, name: &str, bytes: usize, findings: &mut Findings) {
        match self.secrets.find(name) {
            None => findings.add(key, format!("the environment variable {name} is not set")),
            Some(secret) if secret.len() < bytes => {
                findings.add(key, format!("{name} is too short to be secret: at least {bytes} bytes"));
            }
            Some(_) => {}
        }
    }

    fn check_origins(&self, findings: &mut Findings) {
        if self.is_development() && self.allowed_origins.iter().any(|origin| origin == "*") {
            findings.add(
                "allowed_origins",
                "must not be * in development mode, where pages need no credential: list the origins, or \
                 configure auth.api_keys",
            );
        }
        for origin in self.allowed_origins.iter().filter(|origin| *origin != "*") {
            if crate::origin::Origin::parse(origin).is_none() {
                findings.add(
                    "allowed_origins",
                    format!("{origin} is no origin: expected scheme://host or scheme://host:port, or *"),
                );
            }
        }
        for host in &self.allowed_hosts {
            if crate::origin::host_name(host).is_none() {
                findings.add("allowed_hosts", format!("{host} is no host name"));
            }
        }
    }

    fn check_limits(&self, findings: &mut Findings) {
        let limits = &self.limits;
        for (key, value) in [
            ("connections", limits.connections),
            ("connections_per_principal", limits.connections_per_principal),
            ("connections_per_address", limits.connections_per_address),
            ("mailbox", limits.mailbox),
            ("ring_events", limits.ring_events),
            ("resident_sessions", limits.resident_sessions),
            ("running_turns", limits.running_turns),
            ("running_turns_per_principal", limits.running_turns_per_principal),
            ("waiting_turns_per_principal", limits.waiting_turns_per_principal),
            ("device_turns", limits.device_turns),
            ("handshakes", limits.handshakes),
            ("handshakes_per_address", limits.handshakes_per_address),
        ] {
            findings.range(format!("limits.{key}"), value, 1..=10_000_000);
        }
        for (key, value) in [
            ("sessions_per_principal", limits.sessions_per_principal),
            ("stored_bytes_per_principal", limits.stored_bytes_per_principal),
        ] {
            findings.range(format!("limits.{key}"), value, 1..=1 << 50);
        }
        findings.range(
            "limits.new_connections_per_address_per_s",
            limits.new_connections_per_address_per_s,
            RATE,
        );
        findings.range(
            "limits.new_connections_per_address_burst",
            limits.new_connections_per_address_burst,
            RATE,
        );
        findings.range("limits.bad_credentials_per_minute", limits.bad_credentials_per_minute, RATE);
        for (key, value) in [
            ("frames_per_s", limits.principal_frames_per_s),
            ("frames_burst", limits.principal_frames_burst),
            ("bytes_per_s", limits.principal_bytes_per_s),
            ("bytes_burst", limits.principal_bytes_burst),
            ("turns_per_s", limits.principal_turns_per_s),
            ("turns_burst", limits.principal_turns_burst),
        ] {
            findings.range(format!("limits.principal_{key}"), value, RATE);
        }
        findings.range("limits.ring_bytes", limits.ring_bytes, 4 << 10..=1 << 30);
        findings.range("limits.session_idle_ms", limits.session_idle_ms, 1..=86_400_000);
        findings.range("limits.snapshot_events", limits.snapshot_events, 1..=1_000_000);
        findings.range("limits.write_buffer_bytes", limits.write_buffer_bytes, 64 << 10..=1 << 30);
        findings.range("limits.outgoing_message_bytes", limits.outgoing_message_bytes, 64 << 10..=4 << 30);
        if limits.outgoing_message_bytes < ESCAPED * self.session.answer_bytes + (1 << 20) {
            findings.add(
                "limits.outgoing_message_bytes",
                "must be 1 MiB more than six times session.answer_bytes, or the longest answers cannot be sent",
            );
        }
        findings.range(
            "limits.principal_unfinished_bytes",
            limits.principal_unfinished_bytes,
            64 << 10..=1 << 40,
        );
        findings.range("limits.turn_wait_ms", limits.turn_wait_ms, 10..=3_600_000);
        findings.range("limits.message_timeout_ms", limits.message_timeout_ms, 100..=3_600_000);
        findings.range("limits.handshake_timeout_ms", limits.handshake_timeout_ms, 100..=120_000);
        findings.range("limits.admin_page", limits.admin_page, 1..=10_000);
        findings.range("drain.timeout_ms", self.drain.timeout_ms, 0..=3_600_000);
        findings.range("drain.retry_ms", self.drain.retry_ms, 0..=3_600_000);
        findings.range("drain.spread_ms", self.drain.spread_ms, 0..=3_600_000);
        let session = &self.session;
        for (key, value) in [
            ("running_turns", session.running_turns),
            ("queued_turns", session.queued_turns),
            ("open_calls", session.open_calls),
            ("tools", session.tools),
            ("attachments", session.attachments),
            ("answer_bytes", session.answer_bytes),
            ("record_bytes", session.record_bytes),
        ] {
            findings.range(format!("session.{key}"), value, 1..=1 << 32);
        }
    }

    fn check_acolyte(&self, findings: &mut Findings) {
        let acolyte = &self.acolyte.limits;
        for (key, value, range) in [
            ("max_message", acolyte.max_message, 1 << 10..=256 << 20),
            ("queue", acolyte.queue, 1..=10_000),
            ("attached", acolyte.attached, 1..=10_000),
            ("tasks", acolyte.tasks, 1..=1_000_000),
            ("chat_s", acolyte.chat_s, 1..=7 * 86_400),
            ("heartbeat_s", acolyte.heartbeat_s, 1..=3_600),
            ("keepalive_s", acolyte.keepalive_s, 1..=3_600),
            ("ping_s", acolyte.ping_s, 1..=3_600),
            ("dead_s", acolyte.dead_s, 2..=3_600),
            ("stall_s", acolyte.stall_s, 1..=3_600),
            ("resume_s", acolyte.resume_s, 1..=86_400),
        ] {
            findings.range(format!("acolyte.limits.{key}"), value, range);
        }
        if self.acolyte.model.as_deref() == Some("") {
            findings.add("acolyte.model", "must not be empty; without it, the agent gives its name");
        }
        if acolyte.dead_s <= acolyte.ping_s {
            findings
                .add("acolyte.limits.dead_s", "must be longer than ping_s, or every quiet peer is dropped");
        }
    }

    fn check_aip(&self, findings: &mut Findings) {
        let aip = &self.aip.limits;
        for (key, value, range) in [
            ("max_message", aip.max_message, 1 << 10..=100 << 20),
            ("max_first_message", aip.max_first_message, 1 << 10..=100 << 20),
            ("id_chars", aip.id_chars, 16..=4_096),
            ("registration_s", aip.registration_s, 1..=600),
            ("ping_s", aip.ping_s, 1..=3_600),
            ("silence_s", aip.silence_s, 2..=3_600),
            ("takeover_ms", aip.takeover_ms, 100..=600_000),
            ("facts_ms", aip.facts_ms, 1..=60_000),
            ("facts_bytes", aip.facts_bytes, 1 << 10..=100 << 20),
            ("facts_per_minute", aip.facts_per_minute, 1..=100_000),
            ("tasks_per_device", aip.tasks_per_device, 1..=100_000),
            ("tasks_per_constellation", aip.tasks_per_constellation, 1..=100_000),
            ("task_s", aip.task_s, 1..=7 * 86_400),
            ("dispatch_s", aip.dispatch_s, 1..=86_400),
            ("result_s", aip.result_s, 1..=7 * 86_400),
            ("results", aip.results, 1..=1_000_000),
            ("frames_per_s", aip.frames_per_s, 1..=100_000_000),
            ("frames_burst", aip.frames_burst, 1..=100_000_000),
            ("refusals_per_minute", aip.refusals_per_minute, 1..=1_000_000),
        ] {
            findings.range(format!("aip.limits.{key}"), value, range);
        }
        if aip.silence_s <= aip.ping_s {
            findings
                .add("aip.limits.silence_s", "must be longer than ping_s, or every quiet peer is dropped");
        }
        if let Some(agent) = &self.aip.agent
            && !self.agents.contains_key(agent)
        {
            findings.add("aip.agent", format!("there is no agent {agent}"));
        }
        if self.aip.enabled && self.asp.enabled && self.asp.ws_alias {
            findings.add("asp.ws_alias", "/ws is taken by AIP; switch one of the two off");
        }
    }

    /// The bounds of section 16 of the reference.
    fn check_asp(&self, findings: &mut Findings) {
        let asp = &self.asp.limits;
        findings.range("asp.limits.hard_cap", asp.hard_cap, 1..=HARD_CAP);
        findings.range("asp.limits.max_payload", asp.max_payload, 1..=asp.hard_cap.max(1));
        findings.range("asp.limits.max_payload_bare", asp.max_payload_bare, 1..=asp.hard_cap.max(1));
        findings.range("asp.limits.max_message", asp.max_message, 1 << 10..=HARD_CAP + (64 << 10));
        findings.range("asp.limits.max_inflight", asp.max_inflight, 1..=1_024);
        findings.range("asp.limits.max_inflight_bare", asp.max_inflight_bare, 1..=1_024);
        findings.range("asp.limits.window", asp.window, 16 << 10..=16 << 20);
        findings.range("asp.limits.heartbeat_s", asp.heartbeat_s, 5..=300);
        findings.range("asp.limits.dead_s", asp.dead_s, 5..=300);
        if asp.dead_s <= asp.heartbeat_s {
            findings
                .add("asp.limits.dead_s", "must be longer than heartbeat_s, or every quiet peer is dropped");
        }
        findings.range("asp.limits.resume_s", asp.resume_s, 0..=600);
        findings.range("asp.limits.lifetime_s", asp.lifetime_s, 60..=30 * 86_400);
        findings.range("asp.limits.drain_s", asp.drain_s, 0..=3_600);
        findings.range("asp.limits.max_waiting", asp.max_waiting, 64 << 10..=256 << 20);
        findings.range("asp.limits.merge_above", asp.merge_above, 1 << 10..=asp.max_waiting.max(1 << 10));
        findings.range("asp.limits.max_sessions", asp.max_sessions, 1..=4_096);
        for (key, value) in [
            ("connections_per_s", asp.connections_per_s),
            ("connections_burst", asp.connections_burst),
            ("frames_per_s", asp.frames_per_s),
            ("frames_burst", asp.frames_burst),
            ("bytes_per_s", asp.bytes_per_s),
            ("bytes_burst", asp.bytes_burst),
            ("invokes_per_s", asp.invokes_per_s),
            ("invokes_burst", asp.invokes_burst),
            ("interrupts_per_s", asp.interrupts_per_s),
            ("interrupts_burst", asp.interrupts_burst),
            ("hellos_per_s", asp.hellos_per_s),
            ("hellos_burst", asp.hellos_burst),
            ("errors_per_min", asp.errors_per_min),
            ("errors_burst", asp.errors_burst),
        ] {
            findings.range(format!("asp.limits.{key}"), u64::from(value), RATE);
        }
        if asp.bytes_burst < asp.max_message {
            findings.add(
                "asp.limits.bytes_burst",
                "must be at least max_message, or a large message never gets through",
            );
        }
    }

    pub(super) fn has_agent(&self, name: &str) -> bool {
        self.agents.get(name).is_some_and(|agent| !matches!(agent, AgentConfig::Off(_)))
    }

    fn check_agents(&self, findings: &mut Findings) {
        for (name, agent) in &self.agents {
            for server in
                agent.mcp().unwrap_or_default().iter().filter(|server| !self.mcp.contains_key(*server))
            {
                let message = format!("no MCP server {server}: expected a name of `mcp`");
                findings.add(format!("agents.{name}.mcp"), message);
            }
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
                findings.add(format!("agents.{name}"), "expected a name of 1 to 64 letters, digits, - and _");
            }
            if let AgentConfig::OpenAi(openai) = agent {
                if openai.model.is_empty() {
                    findings.add(format!("agents.{name}.model"), "is required: the model to ask");
                }
                let prices = [
                    ("price_input", openai.price_input),
                    ("price_cached_input", openai.price_cached_input),
                    ("price_output", openai.price_output),
                ];
                for (key, price) in prices {
                    if let Some(price) = price {
                        findings.range(format!("agents.{name}.{key}"), price, 0.0..=1e9);
                    }
                }
                if let Some(variable) = &openai.api_key_env {
                    self.check_secret(format!("agents.{name}.api_key_env"), variable, 1, findings);
                }
            }
            if let AgentConfig::Function(function) = agent {
                if let Err(error) = function.check() {
                    findings.add(format!("agents.{name}.{}", error.key), error.problem);
                }
                if let Some(variable) = &function.secret_env {
                    self.check_secret(format!("agents.{name}.secret_env"), variable, 1, findings);
                }
            }
        }
        if !self.has_agent(&self.agent) {
            let names: Vec<&str> =
                self.agents.keys().map(String::as_str).filter(|name| self.has_agent(name)).collect();
            findings.add("agent", format!("no agent {}: expected one of {}", self.agent, names.join(", ")));
        }
        for (name, server) in &self.mcp {
            findings.name(format!("mcp.{name}"), name);
            if let Err(error) = server.check() {
                findings.add(format!("mcp.{name}"), error.to_string());
            }
        }
        for (index, route) in self.routes.iter().enumerate() {
            if !self.has_agent(&route.agent) {
                let message = format!("no agent {}: expected a configured one", route.agent);
                findings.add(format!("routes[{index}].agent"), message);
            }
        }
        if crate::telemetry::filter(&self.telemetry.log_level).is_none() {
            findings.add(
                "telemetry.log_level",
                "expected a level such as info, or directives such as info,axum=warn",
            );
        }
    }
}

impl JwtIssuer {
    /// What the principals of this issuer begin with.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(&self.issuer)
    }
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
}

impl Findings {
    pub(super) fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { source: Source::Default, key: key.into(), message: message.into() });
    }

    pub(super) fn range<T: PartialOrd + Display>(
        &mut self,
        key: impl Into<String>,
        value: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(&value) {
            self.add(key, format!("{value} is out of bounds: expected {} to {}", range.start(), range.end()));
        }
    }

    /// Something that becomes part of an identity.
    pub(super) fn name(&mut self, key: String, text: &str) {
        if text.is_empty() {
            self.add(key, "is required");
        } else if text.len() > 256 || text.chars().any(char::is_control) {
            self.add(key, "expected at most 256 bytes without control characters");
        }
    }
}

fn check_scopes(at: &str, words: &[String], findings: &mut Findings) {
    for word in words.iter().filter(|word| !Scopes::knows(word)) {
        let known = Scope::ALL.map(Scope::word).join(", ");
        findings.add(
            at,
            format!(
                "{word} is no scope: expected {known}, agent:<name>, device:<name>, constellation:<name>, \
                 target:<name>, target:<owner>/<name> or mcp:<server>, or one of them after the name of a \
                 protocol, as in asp:invoke"
            ),
        );
    }
}

/// Whether a text is a token as HTTP defines it.
fn is_token(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || TOKEN_MARKS.contains(letter))
}

/// What else there may be in a token.
const TOKEN_MARKS: &str = "!#$%&'*+-.^_`|~";
/// Bytes of the shortest API key that is accepted in the clear.
const MIN_KEY_BYTES: usize = 20;
/// Bytes of the shortest shared secret of an issuer.
const MIN_SECRET_BYTES: usize = 32;
/// The largest payload that ASP may ever carry.
const HARD_CAP: u32 = 16 << 20;
/// Bounds of every rate and burst.
/// What one byte of text may take in JSON.
const ESCAPED: usize = 6;
const RATE: RangeInclusive<u64> = 1..=1 << 32;

/// Keys that can change while the server runs.
const LIVE_KEYS: &[&str] = &["agent", "agents", "routes", "mcp", "auth"];
