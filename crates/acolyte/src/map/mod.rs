//! The only seam between Acolyte and the canonical model: requests to turns, events to what a chat
//! says. Every event is named.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use switchboard_core::model::{
    Author, Call, CallEnd, CallKind, Executor, Finish, NoticeLevel, Origin, Output, TurnEnd, TurnOutcome,
};
use switchboard_core::{AgentId, CallId, Event, Timestamp};

mod parts;
mod request;

use crate::error::{Code, ErrorBody, Source, call_code, failure_code, is_of_generation, words};
use crate::message::{
    ChatRequest, ErrorId, Level, OutputPart, PendingState, PromptBreakdown, Reply, ReplyUsage, Skill,
    StreamEvent,
};
use parts::{counts, detail, estimate, object, output_part, plain, result_parts, snapshot};

pub use request::{meta, setting, told, turn_request};

/// What a chat has to say.
#[derive(Debug, PartialEq)]
pub enum Said<'a> {
    /// It waits for others of its session, as this number from 1.
    Queued(u64),
    /// It began.
    Started,
    /// Something happened.
    Event(StreamEvent<'a>),
    /// It is over, with an answer.
    Done(Box<Reply>),
    /// It is over, without one.
    Failed(ErrorBody),
    /// It was stopped.
    Cancelled(ErrorBody),
}

/// Under which names lists are sent (R4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListNames {
    /// As `checklist`.
    pub checklist: bool,
    /// As `tasklist`.
    pub tasklist: bool,
}

/// Turns the events of one turn into what its chat says.
#[derive(Debug)]
pub struct Rendering {
    lists: ListNames,
    /// The client knows that it began.
    started: bool,
    model: String,
    skills: Vec<Skill>,
    /// An estimate of what the model reads, until the agent counts.
    prompt_tokens: u64,
    counted: Option<(u64, u64)>,
    calls: BTreeMap<CallId, Shown>,
    tools: Vec<String>,
    /// The text of the step that the model is at.
    step: String,
    /// The last text of an earlier step that was not empty.
    narration: String,
    /// This step has used a tool, or asked somebody.
    tool_since: bool,
    /// All tools of this step have ended: what the model does next belongs to another.
    step_over: bool,
    /// How many steps have begun.
    steps: u64,
    /// Characters of answer so far, for the estimate.
    written: u64,
    usage_at: Option<Timestamp>,
}

/// A call that the client was told of.
#[derive(Debug)]
struct Shown {
    name: String,
    is_question: bool,
    spoke: bool,
}

impl Rendering {
    /// For a turn that `agent` answers, until the event that accepted it says more.
    pub fn new(agent: &str, lists: ListNames) -> Self {
        Self {
            lists,
            started: false,
            model: agent.to_owned(),
            skills: Vec::new(),
            prompt_tokens: 0,
            counted: None,
            calls: BTreeMap::new(),
            tools: Vec::new(),
            step: String::new(),
            narration: String::new(),
            tool_since: false,
            step_over: false,
            steps: 0,
            written: 0,
            usage_at: None,
        }
    }

    /// What a chat has to know of its request when it is over; kept with its turn.
    pub fn options(request: &ChatRequest) -> Value {
        let history: usize = request
            .history
            .iter()
            .filter_map(|entry| entry.get("content").and_then(Value::as_str).map(str::len))
            .sum();
        json!({
            "model": request.model,
            "skills": request.active_skills.as_deref().unwrap_or_default(),
            "promptTokens": estimate(request.message.len() + history),
        })
    }

    fn recall(&mut self, agent: &AgentId, origin: &Origin) {
        agent.as_str().clone_into(&mut self.model);
        // What other protocols remember is their own business.
        if origin.protocol != PROTOCOL {
            return;
        }
        let options = &origin.options;
        if let Some(model) = options["model"].as_str().filter(|model| !model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        self.skills = Vec::deserialize(&options["skills"]).unwrap_or_default();
        self.prompt_tokens = options["promptTokens"].as_u64().unwrap_or_default();
    }

    /// What the chat says about an event of its turn. `errors` names failures.
    ///
    /// Depends on what happened and when it did, but not on when it is told: whoever comes later is
    /// told the same.
    pub fn render(
        &mut self,
        event: &Event,
        at: Timestamp,
        errors: impl FnOnce() -> ErrorId,
        say: &mut dyn FnMut(Said<'_>),
    ) {
        match event {
            Event::TurnStarted { claim, .. } => {
                // A turn that is taken up again by another executor goes on where it was.
                if claim.fence == 1 {
                    self.start(say);
                    say(Said::Event(self.heartbeat()));
                    say(Said::Event(self.usage()));
                    self.usage_at = Some(at);
                }
            }
            Event::TurnAccepted { agent, origin, .. } => self.recall(agent, origin),
            Event::TurnQueued { position, .. } => say(Said::Queued(u64::from(*position).max(1))),
            Event::TurnOutput { output, .. } => self.output(output, at, say),
            Event::CallRequested { call, .. } => self.call_requested(call, say),
            Event::CallProgress { call, delta, .. } => self.call_progress(call, delta, say),
            Event::CallEnded { call, end, .. } => self.call_ended(call, end, at, say),
            Event::TurnEnded { end, .. } => self.ended(end, errors, say),
            Event::MessageAdded { message } => match message.author {
                // The client tells the history, and hears the answer as it is made.
                Author::User(_) | Author::Agent(_) | Author::System => {}
            },
            // Of no meaning to a chat.
            Event::SessionOpened { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::ToolsChanged { .. }
            | Event::MessageEdited { .. }
            | Event::TipMoved { .. }
            | Event::SessionRenamed { .. }
            | Event::StandingChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::Recorded { .. }
            | Event::TurnReleased { .. }
            | Event::TurnInterrupted { .. } => {}
        }
    }

    fn start(&mut self, say: &mut dyn FnMut(Said<'_>)) {
        if !std::mem::replace(&mut self.started, true) {
            say(Said::Started);
        }
    }

    /// A sign of life; says nothing new.
    pub fn heartbeat(&self) -> StreamEvent<'static> {
        let used = self.tools.len() as u64;
        StreamEvent::Status { state: PendingState::Running { tool_calls: (used > 0).then_some(used) } }
    }

    fn output(&mut self, output: &Output, at: Timestamp, say: &mut dyn FnMut(Said<'_>)) {
        match output {
            Output::Text(text) => {
                self.text(text, say);
                // Clients show a counter, which would stand still until the agent counts.
                if self.usage_at.is_some_and(|last| at.since(last) >= ESTIMATE_EVERY) {
                    self.tell_usage(at, say);
                }
            }
            Output::Reasoning(text) => {
                if !text.is_empty() {
                    self.go_on(self.step_over, say);
                    say(Said::Event(StreamEvent::Reasoning { text: Cow::Borrowed(text) }));
                }
            }
            Output::Status(_) | Output::Standby(_) | Output::Began { .. } => {
                say(Said::Event(self.heartbeat()))
            }
            Output::Suspended(_) | Output::Remembered(_) => {}
            Output::Usage(usage) => {
                self.counted = Some(counts(usage, (self.prompt_tokens, estimate(self.written_bytes()))));
                self.tell_usage(at, say);
            }
            Output::Checklist(checklist) => {
                let snapshot = snapshot(checklist);
                if self.lists.checklist {
                    say(Said::Event(StreamEvent::Checklist(snapshot.clone())));
                }
                if self.lists.tasklist {
                    say(Said::Event(StreamEvent::Tasklist(snapshot)));
                }
            }
            // There is no room for values but in the text.
            Output::Data { value, .. } => self.text(&plain(value), say),
            Output::Notice { level: NoticeLevel::Info, .. } => say(Said::Event(self.heartbeat())),
            Output::Notice { level: NoticeLevel::Warn, text } => say(Said::Event(StreamEvent::Notice {
                level: Level::Warn,
                message: text.clone(),
                source: None,
            })),
        }
    }

    fn text(&mut self, text: &str, say: &mut dyn FnMut(Said<'_>)) {
        if text.is_empty() {
            return;
        }
        self.go_on(self.tool_since, say);
        self.written += text.len() as u64;
        self.step.push_str(text);
        say(Said::Event(StreamEvent::TextDelta { text: Cow::Borrowed(text) }));
    }

    /// The model does something: in its first step, or, where the step before is `over`, in a new one.
    fn go_on(&mut self, over: bool, say: &mut dyn FnMut(Said<'_>)) {
        if self.steps > 0 && !over {
            return;
        }
        if self.steps > 0 {
            // Keeps the words of steps apart (E4).
            say(Said::Event(StreamEvent::TextDelta { text: Cow::Borrowed("\n") }));
        }
        self.steps += 1;
        if !self.step.trim().is_empty() {
            self.narration = std::mem::take(&mut self.step);
        }
        self.step.clear();
        (self.tool_since, self.step_over) = (false, false);
    }

    fn written_bytes(&self) -> usize {
        usize::try_from(self.written).unwrap_or(usize::MAX)
    }

    /// Tokens as they are known now.
    fn usage(&self) -> StreamEvent<'static> {
        let (input_tokens, output_tokens) = self.tokens();
        StreamEvent::Usage { input_tokens, output_tokens }
    }

    fn tokens(&self) -> (u64, u64) {
        self.counted.unwrap_or_else(|| (self.prompt_tokens, estimate(self.written_bytes())))
    }

    /// Not too often: each costs as much as a piece of the answer (E6).
    fn tell_usage(&mut self, at: Timestamp, say: &mut dyn FnMut(Said<'_>)) {
        if self.usage_at.is_none_or(|last| at.since(last) >= USAGE_EVERY) {
            self.usage_at = Some(at);
            say(Said::Event(self.usage()));
        }
    }

    fn call_requested(&mut self, call: &Call, say: &mut dyn FnMut(Said<'_>)) {
        let (name, args) = match &call.kind {
            CallKind::Tool { name, args } => (name.as_str().to_owned(), object(args)),
            CallKind::Question { text, .. } => {
                (QUESTION.to_owned(), Map::from_iter([("question".to_owned(), text.clone().into())]))
            }
        };
        let detail = detail(&args);
        self.go_on(self.step_over, say);
        self.tool_since = true;
        self.tools.push(name.clone());
        let is_question = matches!(call.kind, CallKind::Question { .. });
        self.calls.insert(call.id.clone(), Shown { name: name.clone(), is_question, spoke: false });
        say(Said::Event(StreamEvent::ToolCall {
            tool_call_id: call.id.to_string(),
            tool_name: name.clone(),
            args,
        }));
        let label_key = format!("tool.label.{}", name.to_lowercase().replace(['-', '.', ' '], "_"));
        let header = OutputPart::ToolHeader { label_key, detail, state: None };
        say(part(&call.id, &name, header));
    }

    fn call_progress(&mut self, call: &CallId, delta: &str, say: &mut dyn FnMut(Said<'_>)) {
        let Some(shown) = self.calls.get_mut(call) else { return };
        if let Some(content) = output_part(delta) {
            shown.spoke = true;
            say(part(call, &shown.name, content));
        }
    }

    fn call_ended(&mut self, call: &CallId, end: &CallEnd, at: Timestamp, say: &mut dyn FnMut(Said<'_>)) {
        let Some(shown) = self.calls.remove(call) else { return };
        // What is asked about a tool comes before it, in the same step.
        self.step_over = self.calls.is_empty() && !shown.is_question;
        let (tool_call_id, tool_name) = (call.to_string(), shown.name.clone());
        match end {
            CallEnd::Done { output, .. } if !shown.spoke => {
                for content in result_parts(output) {
                    say(part(call, &shown.name, content));
                }
            }
            CallEnd::Failed(error) if !error.message.trim().is_empty() => {
                say(part(call, &shown.name, OutputPart::Text { text: error.message.clone() }));
            }
            CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::TimedOut | CallEnd::Cancelled => {}
        }
        let failed = call_code(end);
        say(Said::Event(StreamEvent::ToolResult {
            is_error: failed.as_ref().map(|_| true),
            error_code: failed.as_ref().map(|(code, _)| code.as_str().to_owned()),
            error: failed.as_ref().map(|(code, source)| code.detail(*source, Some(&tool_name))),
            tool_call_id,
            tool_name,
        }));
        self.tell_usage(at, say);
    }

    fn ended(&mut self, end: &TurnEnd, errors: impl FnOnce() -> ErrorId, say: &mut dyn FnMut(Said<'_>)) {
        if let Some(usage) = &end.usage {
            self.counted = Some(counts(usage, self.tokens()));
        }
        if let TurnOutcome::Interrupted { .. } = &end.outcome {
            let body = Code::ABORTED.body(Source::Server, words::ABORTED, errors());
            return say(Said::Cancelled(body));
        }
        // One that never could begin is told of as if it had (R11).
        self.start(say);
        if let TurnOutcome::Done(finish) = &end.outcome {
            // A model that says nothing was asked all the same.
            self.go_on(self.tool_since && *finish != Finish::Complete, say);
        }
        let error = match &end.outcome {
            TurnOutcome::Failed(failure) if !is_of_generation(failure.kind) => {
                let body = failure_code(failure).body(Source::Server, &failure.message, errors());
                return say(Said::Failed(body));
            }
            TurnOutcome::Failed(failure) => Some(failure.message.clone()),
            TurnOutcome::Expired => Some("The chat took too long".to_owned()),
            TurnOutcome::Done(Finish::Filtered) => {
                Some("The answer was withheld by a content filter".to_owned())
            }
            TurnOutcome::Done(Finish::Empty) => Some("The model had nothing to say".to_owned()),
            TurnOutcome::Done(Finish::Length) => {
                let message = "The answer was cut off at the length limit".to_owned();
                say(Said::Event(StreamEvent::Notice { level: Level::Warn, message, source: None }));
                None
            }
            TurnOutcome::Done(Finish::Complete) | TurnOutcome::Interrupted { .. } => None,
        };
        say(Said::Event(self.usage()));
        say(Said::Done(Box::new(self.reply(end, error))));
    }

    /// The answer in words: those of a last step without tools (E5). Only an agent that says to be through with a
    /// tool has said before it what there was to say.
    fn spoken(&self, outcome: &TurnOutcome) -> &str {
        let said = if self.step.trim().is_empty() { "" } else { &self.step };
        match outcome {
            TurnOutcome::Done(Finish::Complete) if said.is_empty() => &self.narration,
            TurnOutcome::Done(Finish::Complete) => said,
            TurnOutcome::Done(Finish::Length | Finish::Filtered | Finish::Empty)
            | TurnOutcome::Failed(_)
            | TurnOutcome::Expired
            | TurnOutcome::Interrupted { .. } => {
                if self.tool_since {
                    ""
                } else {
                    said
                }
            }
        }
    }

    fn reply(&self, end: &TurnEnd, error: Option<String>) -> Reply {
        let spoken = self.spoken(&end.outcome);
        let structured = end.output.as_deref().filter(|output| !output.is_null()).map(plain);
        let (output, output_streamed, error) = match structured {
            _ if !spoken.is_empty() => (spoken.to_owned(), true, error),
            Some(value) => (value, false, error),
            None => (words::EMPTY.to_owned(), false, error.or_else(|| Some(words::EMPTY.to_owned()))),
        };
        let (input_tokens, output_tokens) = self.tokens();
        Reply {
            output,
            output_streamed,
            model: self.model.clone(),
            error,
            tool_calls: Some(self.tools.clone()),
            model_calls: Some(self.steps),
            active_skills: Some(self.skills.clone()),
            usage: Some(ReplyUsage {
                input_tokens,
                output_tokens,
                total_tokens: input_tokens.saturating_add(output_tokens),
                input_budget_tokens: None,
            }),
            prompt_breakdown: Some(PromptBreakdown {
                used_tokens: input_tokens,
                message_tokens: input_tokens,
                ..PromptBreakdown::default()
            }),
        }
    }
}

/// Whether a question was asked that a client of this protocol cannot answer (§13).
pub fn unanswerable(event: &Event) -> Option<&CallId> {
    let Event::CallRequested { call, .. } = event else { return None };
    let asked = matches!(call.kind, CallKind::Question { .. });
    let of_people = matches!(call.executor, Executor::Anyone | Executor::Principal(_));
    (asked && of_people).then_some(&call.id)
}

fn part(call: &CallId, name: &str, content: OutputPart) -> Said<'static> {
    Said::Event(StreamEvent::ToolOutput {
        tool_call_id: call.to_string(),
        tool_name: name.to_owned(),
        content,
    })
}

/// The name of this protocol, where turns say how they came.
pub(crate) const PROTOCOL: &str = "acolyte";
const QUESTION: &str = "question";
const USAGE_EVERY: Duration = Duration::from_millis(100);
/// How often tokens are estimated while text streams.
const ESTIMATE_EVERY: Duration = Duration::from_millis(500);
