//! How an OpenAI-compatible endpoint is reached and used.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::turn::Approval;

/// How an [`OpenAi`](crate::OpenAi) agent reaches its model, and what it tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiConfig {
    /// Where the API is; `/chat/completions` is added.
    pub base_url: String,
    /// The model to ask.
    pub model: String,
    /// The environment variable that holds the key; read by the program, not by this crate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never read from a file, and never written to one.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// An HTTP proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// What the model is told first. Holds what it knows about the turn where it says
    /// `{{session}}`, `{{agent}}`, `{{principal}}`, `{{protocol}}`, `{{device}}`, `{{workspace}}`,
    /// `{{date}}` (the day in UTC) or `{{meta.<key>}}` (a field of the client's own data); what is
    /// not known is empty, and any other name stays as it is. Values are never searched for names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// How many earlier messages the model is shown.
    pub history: usize,
    /// How many tokens the earlier messages, what is remembered of the user and the request may have
    /// together: the newest messages that fit are shown, and the other two always are. Tokens are estimated: one for four bytes of
    /// ASCII or two of anything else, four for each message, a thousand for an image. Where
    /// messages are left out, what is shown begins with a question rather than an answer, unless
    /// no question fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_tokens: Option<u64>,
    /// The same where the client tells the history with each request, and `history_tokens` is not set; `history` does
    /// not count there, unless it is 0.
    pub client_history_tokens: u64,
    /// How freely the model chooses its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How many tokens an answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Whether to ask for token counts; a few endpoints refuse the question.
    pub include_usage: bool,
    /// What a million tokens of input cost. Where a price is given, the usage of a turn holds
    /// `cost_micros`: what it cost, in millionths of the unit of the prices, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_input: Option<f64>,
    /// What a million tokens of input cost that the endpoint had cached; as much as any other
    /// unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_cached_input: Option<f64>,
    /// What a million tokens of output cost, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_output: Option<f64>,
    /// Whether a text that begins with `<think>` is reasoning up to `</think>`, as some endpoints
    /// send it.
    pub think_tags: bool,
    /// Further fields of the request, as the endpoint knows them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Whether the model may use the tools of the session.
    pub tools: bool,
    /// The MCP servers whose tools can be used; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
    /// How often the model may ask for tools within one turn.
    pub tool_rounds: u32,
    /// How long a tool may take, in milliseconds.
    pub tool_timeout_ms: u64,
    /// How many bytes of a tool's result the model is shown; the rest is cut off, with a note.
    pub tool_result_bytes: usize,
    /// Whether the tools that one answer asks for run at the same time. If not, they run one after
    /// another, and the endpoint is told so.
    pub parallel_tool_calls: bool,
    /// Which uses of tools a person has to approve first.
    pub approve: Approval,
    /// How long that person may take, in milliseconds; then the answer is no.
    pub approval_timeout_ms: u64,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long the model may take to begin its answer, in milliseconds.
    pub first_token_timeout_ms: u64,
    /// How long the model may fall silent within its answer, in milliseconds.
    pub idle_timeout_ms: u64,
    /// How long one whole request may take, in milliseconds.
    pub request_timeout_ms: u64,
    /// How often a request that has brought nothing yet is sent.
    pub attempts: u32,
    /// The first pause between two attempts, in milliseconds; it doubles each time.
    pub backoff_ms: u64,
    /// The longest pause between two attempts, in milliseconds, also if the endpoint asks for more.
    pub max_backoff_ms: u64,
}

impl Default for OpenAiConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".into(),
            model: String::new(),
            api_key_env: None,
            api_key: None,
            proxy: None,
            system: None,
            history: 50,
            history_tokens: None,
            client_history_tokens: 100_000,
            temperature: None,
            max_tokens: None,
            include_usage: true,
            price_input: None,
            price_cached_input: None,
            price_output: None,
            think_tags: false,
            extra: Map::new(),
            tools: true,
            mcp: None,
            tool_rounds: 8,
            tool_timeout_ms: 60_000,
            tool_result_bytes: 64 << 10,
            parallel_tool_calls: true,
            approve: Approval::default(),
            approval_timeout_ms: 300_000,
            connect_timeout_ms: 10_000,
            first_token_timeout_ms: 60_000,
            idle_timeout_ms: 30_000,
            request_timeout_ms: 600_000,
            attempts: 4,
            backoff_ms: 500,
            max_backoff_ms: 20_000,
        }
    }
}

/// Something that must not be seen: usable, but redacted wherever it is formatted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the one request that carries it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_neither_shown_nor_stored() {
        let config = OpenAiConfig { api_key: Some(Secret::new("sk-1")), ..OpenAiConfig::default() };
        assert!(!format!("{config:?}").contains("sk-1"));
        assert!(!serde_json::to_string(&config).unwrap().contains("sk-1"));
        assert!(serde_json::from_str::<OpenAiConfig>(r#"{"api_key":"sk-1"}"#).is_err());
    }
}
