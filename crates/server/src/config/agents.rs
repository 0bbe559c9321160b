//! Agents of the configuration, and the bounds of sessions and ASP: types of other crates,
//! documented here. A test holds the tables against what those types read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use switchboard_acolyte::AcolyteLimits;
use switchboard_agents::{
    ButlerConfig, CommandContext, EchoConfig, FunctionConfig, McpConfig, OpenAiConfig, ScriptConfig,
};
use switchboard_aip::AipLimits;
use switchboard_asp::AspLimits;
use switchboard_core::SessionLimits;
use toml::Value;

use super::describe::{Describe, Key, Kind};

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "there are a handful, made once")]
pub enum AgentConfig {
    /// Says what it hears.
    Echo(EchoConfig),
    /// Plays a story from a file.
    Script(ScriptConfig),
    /// Does what it is told with the tools that are offered, without a model.
    Butler(ButlerConfig),
    /// Asks an endpoint that is compatible with OpenAI's chat completions.
    OpenAi(OpenAiConfig),
    /// Passes turns on to a function behind an HTTP endpoint.
    Function(FunctionConfig),
    /// The built-in demonstration, which needs no key and no network.
    Demo(DemoConfig),
    /// None: takes an agent away that would otherwise be there.
    Off(OffConfig),
}

impl AgentConfig {
    /// The MCP servers whose tools it reaches; none: every one.
    pub(crate) fn mcp(&self) -> Option<&[String]> {
        match self {
            Self::Echo(config) => config.mcp.as_deref(),
            Self::Script(config) => config.mcp.as_deref(),
            Self::Butler(config) => config.mcp.as_deref(),
            Self::OpenAi(config) => config.mcp.as_deref(),
            Self::Demo(config) => config.mcp.as_deref(),
            // What is elsewhere is told of no tools unless the operator says so.
            Self::Function(config) => Some(config.mcp.as_deref().unwrap_or_default()),
            Self::Off(_) => Some(&[]),
        }
    }
}

/// The demonstration plays a story of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DemoConfig {
    /// The MCP servers whose tools can be used; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

/// An agent that is not there has nothing to configure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffConfig {}

/// The agents that are there unless they are taken away.
pub(super) fn built_in() -> BTreeMap<String, AgentConfig> {
    BTreeMap::from([
        ("butler".to_owned(), AgentConfig::Butler(ButlerConfig::default())),
        ("demo".to_owned(), AgentConfig::Demo(DemoConfig::default())),
        ("echo".to_owned(), AgentConfig::Echo(EchoConfig::default())),
    ])
}

impl Describe for AgentConfig {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, _default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, None, AGENT_KEYS, keys);
    }
}

impl Describe for McpConfig {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, _default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, None, MCP_KEYS, keys);
    }
}

impl Describe for SessionLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, SESSION_KEYS, keys);
    }
}

impl Describe for AspLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, ASP_KEYS, keys);
    }
}

impl Describe for AcolyteLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, ACOLYTE_KEYS, keys);
    }
}

impl Describe for CommandContext {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, COMMAND_KEYS, keys);
    }
}

impl Describe for AipLimits {
    const KIND: Kind = Kind::Table;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        add(prefix, default, AIP_KEYS, keys);
    }
}

pub(super) fn add(prefix: &str, defaults: Option<&Value>, table: &[(&str, Kind, &str)], keys: &mut Vec<Key>) {
    for (field, kind, doc) in table {
        keys.push(Key {
            name: format!("{prefix}.{field}"),
            kind: *kind,
            default: defaults.and_then(|defaults| defaults.get(field)).cloned(),
            doc: (*doc).into(),
        });
    }
}

const AGENT_KEYS: &[(&str, Kind, &str)] = &[
    (
        "kind",
        Kind::Choice(&["echo", "script", "butler", "openai", "function", "demo", "off"]),
        "What the agent is. `off` takes a built-in one away.",
    ),
    (
        "delay_ms",
        Kind::Integer,
        "echo: milliseconds between two deltas; 0 is as fast as the session takes them.",
    ),
    ("chunk", Kind::Other("words, whole or an integer"), "echo: how the text is cut into deltas."),
    ("prefix", Kind::Text, "echo: said before the text."),
    ("repeat", Kind::Integer, "echo: how often the text is said."),
    ("tool", Kind::Boolean, "echo: whether the tool `echo` is offered."),
    ("deltas", Kind::Integer, "echo: answers with so many deltas, whatever was said."),
    ("delta_bytes", Kind::Integer, "echo: the size of each of them."),
    ("path", Kind::Path, "script: the file with the story, TOML or JSON."),
    ("builtin", Kind::Choice(&["demo", "conformance"]), "script: the story to play when there is no file."),
    ("base_url", Kind::Text, "openai: where the API is; `/chat/completions` is added."),
    ("model", Kind::Text, "openai: the model to ask."),
    ("api_key_env", Kind::Text, "openai: the environment variable that holds the key."),
    ("proxy", Kind::Text, "openai: an HTTP proxy."),
    (
        "system",
        Kind::Text,
        "openai: what the model is told first; `{{session}}`, `{{agent}}`, `{{principal}}`, `{{protocol}}`, `{{device}}`, `{{workspace}}`, `{{date}}` and `{{meta.<key>}}` are filled in.",
    ),
    (
        "history",
        Kind::Integer,
        "openai, function: how many earlier messages the model is shown, or the function is told; a function none unless set.",
    ),
    (
        "history_tokens",
        Kind::Integer,
        "openai: how many tokens the earlier messages, what is remembered, the setting and the request may have together; estimated as one for four bytes of ASCII or two of anything else, four for each message, 1000 for an image.",
    ),
    (
        "client_history_tokens",
        Kind::Integer,
        "openai: the same where the client tells the history with each request, and `history_tokens` is not set; \
         `history` does not count there, unless it is 0.",
    ),
    ("temperature", Kind::Number, "openai: how freely the model chooses its words."),
    ("max_tokens", Kind::Integer, "openai: how many tokens an answer may have."),
    (
        "include_usage",
        Kind::Boolean,
        "openai: whether to ask for token counts; a few endpoints refuse the question.",
    ),
    (
        "price_input",
        Kind::Number,
        "openai: what a million tokens of input cost; with a price, usage holds `cost_micros`, in millionths of its unit.",
    ),
    (
        "price_cached_input",
        Kind::Number,
        "openai: what a million tokens of input cost that were cached; unset, as much as any other.",
    ),
    ("price_output", Kind::Number, "openai: what a million tokens of output cost, reasoning included."),
    (
        "think_tags",
        Kind::Boolean,
        "openai: whether a text that begins with `<think>` is reasoning up to `</think>`.",
    ),
    ("extra", Kind::Table, "openai: further fields of the request, as the endpoint knows them."),
    ("tools", Kind::Boolean, "openai: whether the model may use the tools of the session."),
    ("tool_rounds", Kind::Integer, "openai: how often the model may ask for tools within one turn."),
    ("tool_timeout_ms", Kind::Integer, "openai, butler: how long a tool may take, in milliseconds."),
    (
        "tool_result_bytes",
        Kind::Integer,
        "openai: how many bytes of a tool's result the model is shown; the rest is cut off, with a note.",
    ),
    (
        "parallel_tool_calls",
        Kind::Boolean,
        "openai: whether the tools that one answer asks for run at the same time; if not, the endpoint is told so.",
    ),
    (
        "approve",
        Kind::Choice(&["destructive", "always", "never"]),
        "openai: which uses of tools a person has to approve; `destructive` are those of tools that are marked as destructive, except on the device that the turn is for, or as in need of confirmation.",
    ),
    (
        "approval_timeout_ms",
        Kind::Integer,
        "openai: how long that person may take, in milliseconds; then the answer is no.",
    ),
    (
        "connect_timeout_ms",
        Kind::Integer,
        "openai, function: how long a connection may take, in milliseconds.",
    ),
    (
        "first_token_timeout_ms",
        Kind::Integer,
        "openai: how long the model may take to begin its answer, in milliseconds.",
    ),
    (
        "idle_timeout_ms",
        Kind::Integer,
        "openai: how long the model may fall silent within its answer, in milliseconds.",
    ),
    ("request_timeout_ms", Kind::Integer, "openai: how long one whole request may take, in milliseconds."),
    ("attempts", Kind::Integer, "openai: how often a request that has brought nothing yet is sent."),
    (
        "backoff_ms",
        Kind::Integer,
        "openai, function: the first pause between two attempts, in milliseconds; it doubles each time.",
    ),
    (
        "max_backoff_ms",
        Kind::Integer,
        "openai: the longest pause between two attempts, in milliseconds, also if the endpoint asks for more.",
    ),
    ("url", Kind::Text, "function: where it is; `/invoke` and `/interrupt` are added."),
    ("single_url", Kind::Boolean, "function: everything goes to `url` itself."),
    (
        "secret_env",
        Kind::Text,
        "function: the environment variable with the secret that requests are signed with, `whsec_` and a \
         key in base64; several, newest first and apart by spaces, while one takes the place of another.",
    ),
    (
        "jwt",
        Kind::Boolean,
        "function: requests carry a JSON Web Token, whose keys are at `/.well-known/jwks.json`.",
    ),
    (
        "allow_private",
        Kind::Boolean,
        "function: it may live on a private address, such as this machine; refused otherwise.",
    ),
    ("concurrency", Kind::Integer, "function: turns that it works on at the same time; others wait."),
    (
        "first_byte_timeout_ms",
        Kind::Integer,
        "function: how long it may take to begin its response, in milliseconds.",
    ),
    (
        "gap_timeout_ms",
        Kind::Integer,
        "function: how long it may fall silent within its response, in milliseconds.",
    ),
    (
        "cold_start_ms",
        Kind::Integer,
        "function: after how long without a response clients are told that it is starting, in milliseconds.",
    ),
    ("retries", Kind::Integer, "function: how often a request is repeated that has led to no output."),
    (
        "breaker_failures",
        Kind::Integer,
        "function: failures in a row after which it is left alone for a while; 0 for never.",
    ),
    ("breaker_ms", Kind::Integer, "function: for how long it is left alone, in milliseconds."),
    ("presence", Kind::Boolean, "function: whether it is told when clients come and go."),
    (
        "mcp",
        Kind::List(&Kind::Text),
        "The MCP servers whose tools it reaches, by their names in `mcp`; unset, a function none, every other \
         agent all of them.",
    ),
];

const MCP_KEYS: &[(&str, Kind, &str)] = &[
    ("command", Kind::Text, "The program to start; it is spoken to over its standard input and output."),
    ("args", Kind::List(&Kind::Text), "The arguments of the program."),
    (
        "env",
        Kind::Map,
        "Environment variables of the program; it inherits nothing but PATH, HOME, LANG and TMPDIR.",
    ),
    (
        "env_from",
        Kind::List(&Kind::Text),
        "Names of environment variables that are handed through to the program; for secrets.",
    ),
    ("cwd", Kind::Path, "The folder that the program starts in."),
    ("url", Kind::Text, "Instead of a program: the address of a server that speaks streamable HTTP."),
    ("bearer_env", Kind::Text, "The environment variable that holds the bearer token for `url`."),
    (
        "prefix",
        Kind::Text,
        "What the names of its tools begin with; unset, the name of the server and a dot.",
    ),
    ("tools", Kind::List(&Kind::Text), "The tools that are offered, by the server's names; unset, all."),
    (
        "confirm",
        Kind::List(&Kind::Text),
        "Tools whose every use a person has to confirm, besides those that the server calls destructive.",
    ),
    (
        "approval_timeout_ms",
        Kind::Integer,
        "How long that person may take, in milliseconds; then the answer is no. Agents with a time of their own \
         for this go by that.",
    ),
    ("call_timeout_ms", Kind::Integer, "How long a call may take at most, in milliseconds."),
    (
        "start_timeout_ms",
        Kind::Integer,
        "How long the server may take to start and to list its tools, in milliseconds.",
    ),
    (
        "backoff_ms",
        Kind::Integer,
        "The first pause before the server is started again, in milliseconds; it doubles each time.",
    ),
    (
        "max_backoff_ms",
        Kind::Integer,
        "The longest pause before the server is started again, in milliseconds.",
    ),
];

const SESSION_KEYS: &[(&str, Kind, &str)] = &[
    ("running_turns", Kind::Integer, "Turns that may run at the same time."),
    ("queued_turns", Kind::Integer, "Turns that may wait for their start."),
    ("open_calls", Kind::Integer, "Calls and questions that one turn may have open."),
    ("tools", Kind::Integer, "Tools that may be registered."),
    ("participants", Kind::Integer, "Participants besides the owner."),
    ("attachments", Kind::Integer, "Attachments that may be live or detached."),
    ("answer_bytes", Kind::Integer, "Bytes of answer text that one turn may produce."),
    (
        "record_bytes",
        Kind::Integer,
        "Bytes of one message or note that is put into the session without a turn.",
    ),
    ("requests", Kind::Integer, "Idempotency keys remembered."),
    ("request_memory", Kind::Integer, "For how long an idempotency key is remembered, in milliseconds."),
    ("ended_turns", Kind::Integer, "Ended turns remembered for resume and duplicate detection."),
    (
        "interrupt_grace",
        Kind::Integer,
        "How long an interrupted turn may take to stop before it is abandoned, in milliseconds.",
    ),
    ("offers", Kind::Integer, "How often a turn is offered to executors that bring nothing new."),
];

const ASP_KEYS: &[(&str, Kind, &str)] = &[
    ("max_payload", Kind::Integer, "Largest assembled payload from a client that has said HELLO, in bytes."),
    ("max_payload_bare", Kind::Integer, "Largest payload from a bare client, in bytes."),
    ("hard_cap", Kind::Integer, "Largest declared payload that does not end the connection, in bytes."),
    ("max_message", Kind::Integer, "Largest WebSocket message, in bytes."),
    ("max_inflight", Kind::Integer, "Most requests in flight."),
    ("max_inflight_bare", Kind::Integer, "Most requests in flight of a bare client."),
    ("window", Kind::Integer, "Credit that each request starts with, in bytes."),
    ("heartbeat_s", Kind::Integer, "Silence after which the server pings, in seconds."),
    ("dead_s", Kind::Integer, "Silence after which the peer is dead, in seconds."),
    (
        "resume_s",
        Kind::Integer,
        "How long a dropped connection can be resumed, in seconds; 0 switches resume off.",
    ),
    ("lifetime_s", Kind::Integer, "Longest connection, in seconds; then the client is told to come back."),
    (
        "drain_s",
        Kind::Integer,
        "How long running requests may go on after the server has said that it leaves, in seconds.",
    ),
    ("merge_above", Kind::Integer, "Output that may wait before deltas are merged, in bytes."),
    ("max_waiting", Kind::Integer, "Output that may wait before the largest request is ended, in bytes."),
    (
        "max_sessions",
        Kind::Integer,
        "Sessions that one connection may follow; never fewer than max_inflight and one.",
    ),
    ("connections_per_s", Kind::Integer, "New connections per second from one address."),
    ("connections_burst", Kind::Integer, "New connections from one address that may come at once."),
    ("frames_per_s", Kind::Integer, "Frames per second."),
    ("frames_burst", Kind::Integer, "Frames in one burst."),
    ("bytes_per_s", Kind::Integer, "Inbound bytes per second."),
    ("bytes_burst", Kind::Integer, "Inbound bytes in one burst."),
    ("invokes_per_s", Kind::Integer, "INVOKEs per second."),
    ("invokes_burst", Kind::Integer, "INVOKEs in one burst."),
    ("interrupts_per_s", Kind::Integer, "INTERRUPTs per second, credit not counted."),
    ("interrupts_burst", Kind::Integer, "INTERRUPTs in one burst."),
    ("hellos_per_s", Kind::Integer, "HELLOs per second after the first."),
    ("hellos_burst", Kind::Integer, "HELLOs in one burst."),
    ("errors_per_min", Kind::Integer, "Protocol errors per minute that a client may cause."),
    ("errors_burst", Kind::Integer, "Protocol errors in one burst."),
    ("accept_version_zero", Kind::Boolean, "Whether frames with version 0 are taken for version 1."),
];

const ACOLYTE_KEYS: &[(&str, Kind, &str)] = &[
    ("max_message", Kind::Integer, "Largest WebSocket message or HTTP body, in bytes."),
    ("queue", Kind::Integer, "Chats that may wait on one connection."),
    ("attached", Kind::Integer, "Tasks that one connection may follow besides its own."),
    ("tasks", Kind::Integer, "Tasks that are remembered after their end."),
    ("chat_s", Kind::Integer, "Longest chat, in seconds."),
    (
        "heartbeat_s",
        Kind::Integer,
        "Silence of a running chat after which it gives a sign of life, in seconds.",
    ),
    (
        "keepalive_s",
        Kind::Integer,
        "Silence of a stream over HTTP after which it gives a sign of life, in seconds.",
    ),
    ("ping_s", Kind::Integer, "Silence of a WebSocket after which the server pings, in seconds."),
    ("dead_s", Kind::Integer, "Silence after which the peer is dead, in seconds."),
    ("stall_s", Kind::Integer, "How long a peer may take nothing of what waits for it, in seconds."),
    (
        "resume_s",
        Kind::Integer,
        "How long a task goes on without a connection, for clients that offer to come back, in seconds.",
    ),
];

const COMMAND_KEYS: &[(&str, Kind, &str)] = &[
    ("agent_name", Kind::Text, "The agent of the device; unset, the one that suits its platform."),
    ("process_name", Kind::Text, "The process in which the commands have their effect."),
    ("root_name", Kind::Text, "The application to which that process belongs."),
];

const AIP_KEYS: &[(&str, Kind, &str)] = &[
    ("max_message", Kind::Integer, "The largest message, in bytes; a larger one closes the connection."),
    (
        "max_first_message",
        Kind::Integer,
        "The largest message of a client that has not registered yet, in bytes.",
    ),
    ("id_chars", Kind::Integer, "The longest identifier or name, in characters."),
    ("registration_s", Kind::Integer, "For how long a connection may stay without registering, in seconds."),
    ("ping_s", Kind::Integer, "How often a silent client is pinged, in seconds."),
    ("silence_s", Kind::Integer, "A client that is silent for this long is gone, in seconds."),
    (
        "takeover_ms",
        Kind::Integer,
        "For how long a connection whose name is claimed again may stay silent, in milliseconds.",
    ),
    (
        "facts_ms",
        Kind::Integer,
        "For how long a device may take to tell fresh facts about itself, in milliseconds.",
    ),
    (
        "facts_bytes",
        Kind::Integer,
        "The largest facts that a registered device may tell about itself, in bytes; larger ones are not taken.",
    ),
    (
        "facts_per_minute",
        Kind::Integer,
        "How often a minute news of one device are stored; of more, only the latest.",
    ),
    ("tasks_per_device", Kind::Integer, "Tasks that may run or wait on one device."),
    ("tasks_per_constellation", Kind::Integer, "Tasks that one constellation may have going on."),
    ("task_s", Kind::Integer, "How long a task may take, in seconds."),
    (
        "dispatch_s",
        Kind::Integer,
        "For how long a dispatched task may wait for its device to take it up, in seconds.",
    ),
    ("result_s", Kind::Integer, "For how long the result of a task can be read over HTTP, in seconds."),
    ("results", Kind::Integer, "Refused tasks of which that can be read; what came of others is in the log."),
    (
        "frames_per_s",
        Kind::Integer,
        "Messages per second of one principal, over all its devices and constellations.",
    ),
    ("frames_burst", Kind::Integer, "Messages of one principal that may come at once."),
    (
        "refusals_per_minute",
        Kind::Integer,
        "Refused registrations of one principal per minute, after which it has to wait.",
    ),
];
