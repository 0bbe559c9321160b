//! An agent behind any endpoint that is compatible with OpenAI's chat completions.

mod answer;
mod catalogue;
mod config;
mod cost;
mod exchange;
mod prompt;
mod source;
mod sse;
mod system;
mod think;
mod tools;
mod window;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Proxy, Url};
use serde_json::{Map, Value, json};
use switchboard_core::model::{FailureKind, Finish, Output, TurnEnd, TurnOutcome, TurnRequest, Usage};

use crate::agent::{Agent, AgentError};
use crate::http;
use crate::names::ModelNames;
use crate::turn::{ApprovalPolicy, OfClients, Turn};
use answer::Answer;
use catalogue::Catalogue;

pub use config::{OpenAiConfig, Secret};

/// Asks a model. Answers and reasoning are streamed; the tools of the session are offered to the
/// model, and whoever offers them executes what it asks for, after a person has approved it where
/// that is needed. Token counts, and what they cost, are told as they grow.
#[derive(Debug)]
pub struct OpenAi {
    config: OpenAiConfig,
    client: Client,
    url: Url,
}

/// Why an [`OpenAi`] agent cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenAiError {
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// There can be no HTTP client.
    #[error("cannot set up HTTP: {0}")]
    Client(#[from] reqwest::Error),
}

impl OpenAi {
    /// An agent that asks the configured model. Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system has no usable TLS.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiError> {
        let invalid = |problem: &str| OpenAiError::Config(problem.to_owned());
        if config.model.is_empty() {
            return Err(invalid("`model` is missing"));
        }
        if config.attempts == 0 {
            return Err(invalid("`attempts` has to be at least 1"));
        }
        let prices = [
            ("price_input", config.price_input),
            ("price_cached_input", config.price_cached_input),
            ("price_output", config.price_output),
        ];
        if let Some((name, problem)) =
            prices.iter().find_map(|(name, price)| Some((name, cost::problem((*price)?)?)))
        {
            return Err(invalid(&format!("`{name}` {problem}")));
        }
        if config.api_key.as_ref().is_some_and(|key| !key.reveal().bytes().all(|b| b.is_ascii_graphic())) {
            return Err(invalid("the API key holds characters that no key can have"));
        }
        let url = Url::parse(&format!("{}/chat/completions", config.base_url.trim_end_matches('/')))
            .map_err(|error| OpenAiError::Config(format!("`base_url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("`base_url` has to begin with http:// or https://"));
        }
        let patience = Duration::from_millis(config.connect_timeout_ms);
        let mut builder =
            http::client(url.scheme(), patience).map_err(|error| OpenAiError::Config(error.to_string()))?;
        if let Some(proxy) = &config.proxy {
            builder = builder.proxy(Proxy::all(proxy)?);
        }
        Ok(Self { client: builder.build()?, config, url })
    }

    fn body(&self, messages: &[Value], catalogue: &Catalogue, request: &TurnRequest) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.config.model));
        body.insert("messages".into(), Value::Array(messages.to_vec()));
        body.insert("stream".into(), json!(true));
        if self.config.include_usage {
            body.insert("stream_options".into(), json!({ "include_usage": true }));
        }
        if let Some(temperature) = self.config.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        let budget = match request {
            TurnRequest::Step { budget, .. } => budget.tokens,
            TurnRequest::Chat { .. } | TurnRequest::Tool { .. } => None,
        };
        if let Some(tokens) = [self.config.max_tokens, budget].into_iter().flatten().min() {
            body.insert("max_tokens".into(), json!(tokens));
        }
        if let Some(tools) = catalogue.definitions() {
            body.insert("tools".into(), tools);
            // Said only where it is needed: some endpoints do not know the word.
            if !self.config.parallel_tool_calls {
                body.insert("parallel_tool_calls".into(), json!(false));
            }
        }
        body.extend(self.config.extra.clone());
        Value::Object(body)
    }

    /// The messages that begin the exchange with the model.
    async fn messages(&self, turn: &Turn) -> Vec<Value> {
        let brief = turn.brief();
        let told = brief.recall.and_then(|count| usize::try_from(count).ok());
        // A client that tells the history has chosen what belongs to it: tokens are its bound, not messages.
        let most = if told.is_some() { self.config.history.min(1) * MAX_TOLD } else { self.config.history };
        let history = turn.history(most).await;
        // Whoever tells the history tells all of it.
        let more = told.is_none_or(|told| history.len() < told) && history.len() >= most;
        let remembered = prompt::remembered_hint(&brief.remembered);
        let setting = brief.setting.as_deref();
        let instructions = setting.and_then(|setting| setting.instructions.clone());
        let scene = setting.and_then(|setting| setting.scene.as_deref()).and_then(prompt::scene_hint);
        let beside: Vec<&str> =
            [&instructions, &remembered, &scene].into_iter().flatten().map(String::as_str).collect();
        let told_tokens = told.map(|_| self.config.client_history_tokens);
        let tokens = self.config.history_tokens.or(told_tokens);
        let shown = window::newest(&history, more, &brief.request, &beside, tokens);
        let system = self.config.system.as_deref().map(|system| system::fill(system, brief, turn.now()));
        let device = brief.device.as_ref().map(prompt::device_hint);
        let hints = [system, instructions, device, remembered];
        prompt::messages(hints, shown, scene, &brief.request)
    }

    async fn count(&self, turn: &mut Turn, answer: &Answer, usage: &mut Usage) -> Result<(), AgentError> {
        let Some(counts) = &answer.counts else { return Ok(()) };
        counts.add_to(usage);
        if let Some(cost) = cost::cost(&self.config, usage) {
            usage.0.insert(wire::COST.to_owned(), cost);
        }
        turn.emit(Output::Usage(usage.clone())).await
    }
}

#[async_trait]
impl Agent for OpenAi {
    fn kind(&self) -> &'static str {
        "openai"
    }

    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let request = turn.request().clone();
        if let TurnRequest::Tool { name, .. } = &request {
            return Err(AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}")));
        }
        turn.approve_by(ApprovalPolicy {
            which: self.config.approve,
            of_clients: OfClients::Asked,
            patience: Duration::from_millis(self.config.approval_timeout_ms),
        });
        let device = turn.brief().device.clone();
        let mut messages = self.messages(turn).await;
        let mut names = ModelNames::default();
        let mut usage = Usage::default();
        for round in 0..=self.config.tool_rounds {
            // Anew each time: what there is to do may change with what was done.
            let tools = if self.config.tools { turn.tools().await } else { Vec::new() };
            let catalogue = Catalogue::new(&tools, device.as_ref(), |name| turn.executes(name), &mut names);
            let answer = self.ask(turn, &self.body(&messages, &catalogue, &request)).await?;
            self.count(turn, &answer, &mut usage).await?;
            if answer.calls.is_empty() || answer.finish != Finish::Complete {
                return Ok(end(&request, &answer, usage));
            }
            if round == self.config.tool_rounds {
                break;
            }
            messages.push(assistant(&answer));
            let results = self.use_tools(turn, &catalogue, &answer.calls).await?;
            for (call, content) in answer.calls.iter().zip(results) {
                messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": content }));
            }
        }
        let message = format!("the model asked for tools more than {} times", self.config.tool_rounds);
        Err(AgentError::failed(FailureKind::Execution, message))
    }
}

/// The answer as the model is shown it when it goes on.
fn assistant(answer: &Answer) -> Value {
    let calls = answer.calls.iter().map(|call| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    });
    let content = if answer.text.is_empty() { Value::Null } else { json!(answer.text) };
    json!({ "role": "assistant", "content": content, "tool_calls": calls.collect::<Value>() })
}

fn end(request: &TurnRequest, answer: &Answer, usage: Usage) -> TurnEnd {
    let finish = match answer.finish {
        // What was said before it used tools is not the answer.
        Finish::Complete if answer.text.trim().is_empty() => Finish::Empty,
        finish @ (Finish::Complete | Finish::Length | Finish::Filtered | Finish::Empty) => finish,
    };
    TurnEnd {
        output: matches!(request, TurnRequest::Step { .. }).then(|| state(&answer.text).into()),
        usage: (!usage.0.is_empty()).then_some(usage),
        ..TurnEnd::new(TurnOutcome::Done(finish))
    }
}

/// The new state that a step has led to, also if the model put it into a code block.
fn state(text: &str) -> Value {
    let plain = text.trim().trim_start_matches("```json").trim_start_matches("```").trim_end_matches("```");
    serde_json::from_str(plain).unwrap_or_else(|_| json!({ "text": text }))
}

/// Messages of a history that a client tells.
const MAX_TOLD: usize = 10_000;
