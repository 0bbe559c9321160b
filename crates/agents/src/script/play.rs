//! Playing a story.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use regex::Captures;
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{
    CallEnd, CallError, Checklist, ChecklistItem, FailureKind, Finish, Output, TurnEnd, TurnOutcome,
    TurnRequest, Usage,
};

use super::story::{
    Item, MAX_ACTIONS, MAX_REPEAT, MAX_SIZE, Number, Request, Rule, Speech, Step, Story, Then, ToolEnd,
    ToolUse, When,
};
use super::template::Variables;
use crate::agent::AgentError;
use crate::echo::Pace;
use crate::memory::shown;
use crate::turn::Turn;

/// Answers one turn as the story says.
pub(super) async fn play(story: &Story, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
    let mut player = Player::new(turn);
    let request = player.turn.request().clone();
    let text = request.text();
    let rule = story
        .rules
        .iter()
        .find(|rule| player.matches(rule, &request, text.trim()))
        .or_else(|| story.fallback.as_ref().filter(|_| !matches!(request, TurnRequest::Tool { .. })));
    let Some(rule) = rule else {
        return Err(match request {
            TurnRequest::Tool { name, .. } => {
                AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}"))
            }
            TurnRequest::Chat { .. } | TurnRequest::Step { .. } => {
                broken(format!("no rule of the story {} matches", story.name))
            }
        });
    };
    let mut end = match player.steps(&rule.steps).await? {
        Some(end) => end,
        None => TurnEnd::complete(),
    };
    if end.output.is_none()
        && let Some(output) = &rule.output
    {
        end.output = Some(output.resolve(&player.variables).map_err(broken)?.into());
    }
    end.usage = player.usage;
    Ok(end)
}

/// One turn under way.
struct Player<'a> {
    turn: &'a mut Turn,
    variables: Variables,
    actions: u64,
    /// The last counts that were told.
    usage: Option<Usage>,
}

impl<'a> Player<'a> {
    fn new(turn: &'a mut Turn) -> Self {
        let mut variables = Variables::default();
        let brief = turn.brief();
        variables.set("input", brief.request.text());
        variables.set("meta", brief.meta.clone());
        variables.set("turn", brief.turn.as_str());
        variables.set("session", brief.session.as_str());
        variables.set("agent", brief.agent.as_str());
        variables.set("principal", brief.origin.principal.as_str());
        variables.set("remembered", shown(&brief.remembered));
        let (instructions, scene) = match brief.setting.as_deref() {
            Some(setting) => (setting.instructions.as_deref(), setting.scene.as_deref()),
            None => (None, None),
        };
        variables.set("instructions", instructions.unwrap_or_default());
        variables.set("scene", scene.unwrap_or_default());
        match &brief.request {
            TurnRequest::Tool { args, .. } => variables.set("args", args.clone()),
            TurnRequest::Step { state, .. } => variables.set("state", state.clone()),
            TurnRequest::Chat { .. } => {}
        }
        Self { turn, variables, actions: 0, usage: None }
    }

    /// Whether a rule answers the request; if so, its groups become variables.
    fn matches(&mut self, rule: &Rule, request: &TurnRequest, text: &str) -> bool {
        match (&rule.when, request) {
            (When::Chat(pattern), TurnRequest::Chat { .. })
            | (When::Step(pattern), TurnRequest::Step { .. }) => self.capture(pattern, text),
            (When::Tool(name, pattern), TurnRequest::Tool { name: wanted, args }) if name == wanted => {
                pattern.as_ref().is_none_or(|pattern| self.capture(pattern, &args.to_string()))
            }
            (When::Chat(_) | When::Tool(..) | When::Step(_) | When::Otherwise, _) => false,
        }
    }

    fn capture(&mut self, pattern: &regex::Regex, text: &str) -> bool {
        let Some(groups) = pattern.captures(text) else { return false };
        self.set_groups(pattern, &groups);
        true
    }

    fn set_groups(&mut self, pattern: &regex::Regex, groups: &Captures<'_>) {
        for name in pattern.capture_names().flatten() {
            self.variables.set(name, groups.name(name).map_or("", |group| group.as_str()));
        }
    }

    /// Plays steps until one of them ends the turn. Boxed, because steps lie in steps.
    fn steps<'s>(
        &'s mut self,
        steps: &'s [Step],
    ) -> Pin<Box<dyn Future<Output = Result<Option<TurnEnd>, AgentError>> + Send + 's>> {
        Box::pin(async move {
            for step in steps {
                self.count()?;
                if let Some(end) = self.step(step).await? {
                    return Ok(Some(end));
                }
            }
            Ok(None)
        })
    }

    async fn step(&mut self, step: &Step) -> Result<Option<TurnEnd>, AgentError> {
        match step {
            Step::Text(speech) => self.speak(speech, Output::Text).await?,
            Step::Reasoning(speech) => self.speak(speech, Output::Reasoning).await?,
            Step::Status(text) => self.turn.emit(Output::Status(text.render(&self.variables))).await?,
            Step::Usage(counts) => {
                let mut usage = BTreeMap::new();
                for (name, count) in counts {
                    let count = count.resolve(&self.variables, u64::MAX, name).map_err(broken)?;
                    usage.insert(name.clone(), count);
                }
                self.usage = Some(Usage(usage.clone()));
                self.turn.emit(Output::Usage(Usage(usage))).await?;
            }
            Step::Checklist { group, title, items } => {
                let item = |item: &Item| ChecklistItem {
                    id: item.id.render(&self.variables),
                    label: item.label.render(&self.variables),
                    state: item.state,
                };
                let checklist = Checklist {
                    group: group.render(&self.variables),
                    title: title.render(&self.variables),
                    items: items.iter().map(item).collect(),
                };
                self.turn.emit(Output::Checklist(checklist)).await?;
            }
            Step::Data { mime, value } => {
                let value = value.resolve(&self.variables).map_err(broken)?;
                self.turn.emit(Output::Data { mime: mime.clone(), value }).await?;
            }
            Step::Notice { level, text } => {
                let text = text.render(&self.variables);
                self.turn.emit(Output::Notice { level: *level, text }).await?;
            }
            Step::Tool(tool) => self.use_tool(tool).await?,
            Step::Call(request) => self.call(request).await?,
            Step::Ask(request) => self.ask(request).await?,
            Step::Wait(delay) => {
                let delay = delay.millis(&self.variables, "wait").map_err(broken)?;
                self.turn.pause(delay).await?;
            }
            Step::Fail { kind, message } => {
                let kind = kind.resolve(&self.variables).map_err(broken)?;
                return Err(AgentError::failed(kind, message.render(&self.variables)));
            }
            Step::Finish { finish, output } => {
                let finish: Finish = finish.resolve(&self.variables).map_err(broken)?;
                let mut end = TurnEnd::new(TurnOutcome::Done(finish));
                if let Some(output) = output {
                    end.output = Some(output.resolve(&self.variables).map_err(broken)?.into());
                }
                return Ok(Some(end));
            }
            Step::ChangeTools { add, remove } => self.turn.change_tools(add.clone(), remove.clone()).await?,
            Step::Panic(message) => blow_up(&message.render(&self.variables)),
            Step::Hang => std::future::pending::<()>().await,
            Step::Repeat { count, steps } => {
                let count = count.resolve(&self.variables, MAX_REPEAT, "repeat").map_err(broken)?;
                let outer = self.variables.get("index");
                for index in 1..=count {
                    self.variables.set("index", index);
                    if let Some(end) = self.steps(steps).await? {
                        return Ok(Some(end));
                    }
                }
                self.variables.restore("index", outer);
            }
            Step::If { text, pattern, then, otherwise } => {
                let text = text.render(&self.variables);
                let branch = if self.capture(pattern, &text) { then } else { otherwise };
                return self.steps(branch).await;
            }
        }
        Ok(None)
    }

    async fn speak(&mut self, speech: &Speech, output: fn(String) -> Output) -> Result<(), AgentError> {
        let chunk = speech.chunk.resolve(&self.variables).map_err(broken)?;
        let delay = speech.delay_ms.millis(&self.variables, "delay_ms").map_err(broken)?;
        let repeat = self.repetitions(speech.repeat.as_ref())?;
        let size = match &speech.size {
            Some(size) => Some(size.resolve(&self.variables, MAX_SIZE, "size").map_err(broken)?),
            None => None,
        };
        let mut pace = Pace::new(delay);
        let outer = self.variables.get("index");
        for index in 1..=repeat.unwrap_or(1) {
            if repeat.is_some() {
                self.variables.set("index", index);
            }
            let mut text = speech.text.render(&self.variables);
            if let Some(size) = size {
                text = fill(&text, usize::try_from(size).unwrap_or(usize::MAX));
            }
            for piece in chunk.split(&text) {
                self.count()?;
                pace.wait(self.turn).await?;
                self.turn.emit(output(piece.to_owned())).await?;
            }
        }
        self.variables.restore("index", outer);
        Ok(())
    }

    async fn use_tool(&mut self, tool: &ToolUse) -> Result<(), AgentError> {
        let args = tool.args.resolve(&self.variables).map_err(broken)?;
        let delay = tool.delay_ms.millis(&self.variables, "delay_ms").map_err(broken)?;
        let repeat = self.repetitions(tool.repeat.as_ref())?;
        let timeout = tool.timeout_ms.millis(&self.variables, "timeout_ms").map_err(broken)?;
        if self.turn.offer(&tool.name, args.clone(), timeout).await?.is_some() {
            return Ok(());
        }
        let call = self.turn.begin_tool(&tool.name, args).await?;
        let outer = self.variables.get("index");
        for index in 1..=repeat.unwrap_or(1) {
            if repeat.is_some() {
                self.variables.set("index", index);
            }
            for text in &tool.output {
                self.count()?;
                self.turn.pause(delay).await?;
                self.turn.tool_progress(&call, text.render(&self.variables)).await?;
            }
        }
        self.variables.restore("index", outer);
        self.turn.pause(delay).await?;
        let end = match &tool.end {
            ToolEnd::Result(result) => CallEnd::done(result.resolve(&self.variables).map_err(broken)?),
            ToolEnd::Error { name, message } => {
                CallEnd::Failed(CallError::new(name.render(&self.variables), message.render(&self.variables)))
            }
        };
        self.turn.end_tool(&call, end).await
    }

    async fn call(&mut self, request: &Request) -> Result<(), AgentError> {
        let name = request.subject.render(&self.variables);
        let args = match &request.value {
            Some(args) => args.resolve(&self.variables).map_err(broken)?,
            None => json!({}),
        };
        let timeout = request.timeout_ms.millis(&self.variables, "timeout_ms").map_err(broken)?;
        let end = self.turn.call(&ToolName::from(name.as_str()), args, timeout).await?;
        self.take_end(request, &format!("the tool {name}"), end)
    }

    async fn ask(&mut self, request: &Request) -> Result<(), AgentError> {
        let text = request.subject.render(&self.variables);
        let schema = match &request.value {
            Some(schema) => Some(schema.resolve(&self.variables).map_err(broken)?),
            None => None,
        };
        let timeout = request.timeout_ms.millis(&self.variables, "timeout_ms").map_err(broken)?;
        let end = self.turn.ask(text, schema, timeout).await?;
        self.take_end(request, "the question", end)
    }

    /// Turns the end of a call into variables, or into the end of the turn.
    fn take_end(&mut self, request: &Request, what: &str, end: CallEnd) -> Result<(), AgentError> {
        let (outcome, value, error) = match end {
            CallEnd::Done { output, .. } => ("done", Arc::unwrap_or_clone(output), Value::Null),
            CallEnd::Failed(error) if request.on_error == Then::Fail => {
                let message = format!("{what} failed: {}", error.message);
                return Err(AgentError::failed(FailureKind::Tool, message));
            }
            CallEnd::Failed(CallError { name, message, .. }) => {
                ("failed", Value::Null, json!({ "name": name, "message": message }))
            }
            CallEnd::TimedOut if request.on_timeout == Then::Fail => {
                let message = format!("{what} was not answered in time");
                return Err(AgentError::failed(FailureKind::CallTimeout, message));
            }
            CallEnd::TimedOut => ("timed_out", Value::Null, Value::Null),
            CallEnd::Cancelled => return Err(AgentError::Over),
        };
        self.variables.set("outcome", outcome);
        self.variables.set("error", error);
        self.variables.set(request.variable.clone(), value);
        Ok(())
    }

    fn repetitions(&self, repeat: Option<&Number>) -> Result<Option<u64>, AgentError> {
        let resolve = |repeat: &Number| repeat.resolve(&self.variables, MAX_REPEAT, "repeat").map_err(broken);
        repeat.map(resolve).transpose()
    }

    /// Counts one more thing that the turn does.
    fn count(&mut self) -> Result<(), AgentError> {
        self.actions += 1;
        if self.actions > MAX_ACTIONS {
            return Err(broken(format!("the story does more than {MAX_ACTIONS} things in one turn")));
        }
        Ok(())
    }
}

/// `text` over and over until it has `size` bytes, or a few less where a character would be split.
fn fill(text: &str, size: usize) -> String {
    let mut filled = String::with_capacity(if text.is_empty() { 0 } else { size });
    let mut letters = text.chars().cycle();
    while let Some(letter) = letters.next().filter(|letter| filled.len() + letter.len_utf8() <= size) {
        filled.push(letter);
    }
    filled
}

/// The story cannot go on, and it is the story's fault.
fn broken(problem: impl Into<String>) -> AgentError {
    AgentError::failed(FailureKind::Execution, problem)
}

#[expect(clippy::panic, reason = "a story may ask for it, to see what the host makes of it")]
fn blow_up(message: &str) {
    panic!("{message}");
}
