//! Alicia in the configuration: its limits, and the elites on offer.

use std::collections::BTreeSet;

use switchboard_alicia::message::{Dimensions, Elite};
use switchboard_alicia::{AliciaLimits, Id, Offer};
use switchboard_core::AgentId;
use toml::Value;

use super::agents::add;
use super::check::Findings;
use super::describe::{Describe, Key, Kind, sections};
use super::sections::Config;

sections! {
    /// Alicia: conversations with an assistant.
    pub struct AliciaConfig {
        /// Whether it is served, at `/api/v1/ws` and below `/api/v1/`.
        pub enabled: bool = true,
        /// The elites on offer, best first: ways to answer among which people choose.
        pub elites: Vec<EliteConfig> = Vec::new(),
        /// Bounds of each of its connections.
        pub limits: AliciaLimits = AliciaLimits::default(),
    }

    /// One elite.
    pub struct EliteConfig {
        /// Its id, such as `pa_fast`.
        pub id: String = String::new(),
        /// What it is called.
        pub label: String = String::new(),
        /// What it does.
        pub description: String = String::new(),
        /// What it is best for.
        pub best_for: String = String::new(),
        /// How good it is, each from 0 to 1.
        pub scores: ScoresConfig = ScoresConfig::default(),
        /// The agent that answers for whoever chooses it; unset, the one that would answer anyhow.
        pub agent: Option<String> = None,
    }

    /// How good an elite is.
    pub struct ScoresConfig {
        /// How often it succeeds.
        pub success_rate: f64 = 0.5,
        /// How good its answers are.
        pub quality: f64 = 0.5,
        /// How little it costs.
        pub efficiency: f64 = 0.5,
        /// How little disturbs it.
        pub robustness: f64 = 0.5,
        /// How far it carries.
        pub generalization: f64 = 0.5,
        /// How different its answers are.
        pub diversity: f64 = 0.5,
        /// How new they are.
        pub innovation: f64 = 0.5,
    }
}

impl AliciaConfig {
    /// The elites as they are offered; what has no valid id is none.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        self.elites.iter().filter_map(EliteConfig::offer).collect()
    }
}

impl EliteConfig {
    fn offer(&self) -> Option<Offer> {
        let Self { id, label, description, best_for, scores, agent } = self;
        let elite = Elite {
            id: Id::new(id.as_str()).ok()?,
            label: label.clone(),
            scores: Dimensions::from_array(scores.to_array()),
            description: description.clone(),
            best_for: best_for.clone(),
        };
        Some(Offer { elite, agent: agent.as_deref().map(AgentId::from) })
    }
}

impl ScoresConfig {
    /// In the order of the wire.
    const fn to_array(&self) -> [f64; 7] {
        [
            self.success_rate,
            self.quality,
            self.efficiency,
            self.robustness,
            self.generalization,
            self.diversity,
            self.innovation,
        ]
    }
}

impl Config {
    pub(super) fn check_alicia(&self, findings: &mut Findings) {
        let limits = &self.alicia.limits;
        for (key, value, most) in [
            ("frame", limits.frame, 64 << 20),
            ("hard_cap", limits.hard_cap, 64 << 20),
            ("batch", limits.batch, 10_000),
            ("http_body", limits.http_body, 64 << 20),
            ("sync_body", limits.sync_body, 64 << 20),
            ("meta", limits.meta, 1 << 20),
            ("content", limits.content, 16 << 20),
            ("sentence", limits.sentence, 1 << 20),
            ("error_message", limits.error_message, 1 << 20),
            ("snippet", limits.snippet, 1 << 20),
            ("commentary", limits.commentary, 1 << 20),
            ("feedback_note", limits.feedback_note, 1 << 20),
            ("note", limits.note, 1 << 20),
            ("memory", limits.memory, 1 << 20),
            ("tool_name", limits.tool_name, 1 << 10),
            ("tool_parameters", limits.tool_parameters, 16 << 20),
            ("sync_batch", limits.sync_batch, 10_000),
            ("items", limits.items, 100_000),
            ("subscriptions", limits.subscriptions, 10_000),
            ("replay", limits.replay, 100_000),
            ("work_queue", limits.work_queue, 10_000),
            ("generation_s", limits.generation_s, 86_400),
            ("tool_ms", limits.tool_ms, 3_600_000),
            ("tool_most_ms", limits.tool_most_ms, 3_600_000),
            ("edit_s", limits.edit_s, 600),
            ("ping_s", limits.ping_s, 3_600),
            ("idle_s", limits.idle_s, 3_600),
            ("write_s", limits.write_s, 600),
            ("audio_s", limits.audio_s, 600),
            ("envelopes_per_10_s", limits.envelopes_per_10_s, 10_000_000),
            ("envelopes_burst", limits.envelopes_burst, 10_000_000),
            ("undecodable_per_min", limits.undecodable_per_min, 10_000_000),
            ("reply_hold_ms", limits.reply_hold_ms, 60_000),
            ("reply_hold_bytes", limits.reply_hold_bytes, 16 << 20),
        ] {
            findings.range(format!("alicia.limits.{key}"), value, 1..=most);
        }
        findings.range("alicia.limits.tool_grace_ms", limits.tool_grace_ms, 0..=60_000);
        if limits.hard_cap < limits.frame {
            findings.add("alicia.limits.hard_cap", "must be at least frame");
        }
        if limits.idle_s <= limits.ping_s {
            findings
                .add("alicia.limits.idle_s", "must be longer than ping_s, or every quiet peer is dropped");
        }
        let mut ids = BTreeSet::new();
        for (index, elite) in self.alicia.elites.iter().enumerate() {
            let at = format!("alicia.elites[{index}]");
            self.check_elite(&at, elite, findings);
            if !ids.insert(&elite.id) {
                findings.add(format!("{at}.id"), format!("{} is used twice", elite.id));
            }
        }
    }

    fn check_elite(&self, at: &str, elite: &EliteConfig, findings: &mut Findings) {
        findings.name(format!("{at}.label"), &elite.label);
        if Id::new(elite.id.as_str()).is_err() {
            findings.add(format!("{at}.id"), "expected 1 to 128 characters without spaces, such as pa_fast");
        }
        for score in elite.scores.to_array() {
            findings.range(format!("{at}.scores"), score, 0.0..=1.0);
        }
        if let Some(agent) = &elite.agent
            && !self.has_agent(agent)
        {
            findings.add(format!("{at}.agent"), format!("no agent {agent}: expected a configured one"));
        }
    }
}

impl Describe for AliciaLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, LIMIT_KEYS, keys);
    }
}

const LIMIT_KEYS: &[(&str, Kind, &str)] = &[
    ("frame", Kind::Integer, "Largest WebSocket frame that is answered, in bytes."),
    ("hard_cap", Kind::Integer, "Largest WebSocket frame that does not end the connection, in bytes."),
    ("batch", Kind::Integer, "Most envelopes in one array."),
    ("http_body", Kind::Integer, "Largest body of an HTTP request, in bytes."),
    ("sync_body", Kind::Integer, "Largest body of an HTTP request that syncs messages, in bytes."),
    ("meta", Kind::Integer, "Largest `meta` of an envelope, in bytes."),
    ("content", Kind::Integer, "Longest message of a person, in bytes."),
    ("sentence", Kind::Integer, "Longest sentence of an answer, in bytes."),
    ("error_message", Kind::Integer, "Longest text of an error, in bytes."),
    ("snippet", Kind::Integer, "Longest part of a memory that is shown with an answer, in bytes."),
    ("commentary", Kind::Integer, "Longest remark, in bytes."),
    ("feedback_note", Kind::Integer, "Longest note with a vote, in bytes."),
    ("note", Kind::Integer, "Longest note of a person, in bytes."),
    ("memory", Kind::Integer, "Longest memory, in bytes."),
    ("tool_name", Kind::Integer, "Longest name of a tool, in bytes."),
    ("tool_parameters", Kind::Integer, "Largest parameters of a tool, as JSON, in bytes."),
    ("sync_batch", Kind::Integer, "Most messages that are synced at once."),
    ("items", Kind::Integer, "Most items of any other list."),
    ("subscriptions", Kind::Integer, "Conversations that one connection may subscribe to."),
    ("replay", Kind::Integer, "Most envelopes that are sent again to a client that comes back."),
    ("work_queue", Kind::Integer, "Requests of a conversation that may wait."),
    ("generation_s", Kind::Integer, "How long one answer may take, tools included, in seconds."),
    ("tool_ms", Kind::Integer, "Time for a tool whose request names none, in milliseconds."),
    ("tool_most_ms", Kind::Integer, "Most time that a request may give a tool, in milliseconds."),
    ("tool_grace_ms", Kind::Integer, "What a tool on the client's side gets on top, in milliseconds."),
    ("edit_s", Kind::Integer, "How long an edit waits for its message, in seconds."),
    ("ping_s", Kind::Integer, "How often the server pings, in seconds."),
    ("idle_s", Kind::Integer, "Silence after which a connection is dropped, in seconds."),
    ("write_s", Kind::Integer, "How long one write may take, in seconds."),
    ("audio_s", Kind::Integer, "Audio that may wait for its end, in seconds."),
    ("envelopes_per_10_s", Kind::Integer, "Envelopes that a client may send in ten seconds."),
    ("envelopes_burst", Kind::Integer, "Envelopes that a client may send at once."),
    (
        "undecodable_per_min",
        Kind::Integer,
        "Inputs in a minute that cannot be read, after which the connection ends.",
    ),
    (
        "reply_hold_ms",
        Kind::Integer,
        "How long a lite client is not told of an answer because the reply to the HTTP request that asked for it is still to be written, in milliseconds.",
    ),
    ("reply_hold_bytes", Kind::Integer, "Bytes of such an answer that may wait."),
];
