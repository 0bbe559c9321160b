//! One turn on its way through a function (§14.7).
//!
//! ```text
//! dispatch ─▶ streaming ─▶ done            dispatch ─▶ async: all comes by push ─▶ done
//!    ▲  │         │
//!    │  └▶ backoff│ suspend
//!    └────────────┴─▶ suspended until everything asked is answered: next leg
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use switchboard_asp::Value;
use switchboard_asp::message::{Feature, Phase, ToolActivity, ToolDefFrame};
use switchboard_asp::relay::map::{self, Meaning};
use switchboard_asp::relay::{Answer, Cancellation, Event, Piece};
use switchboard_core::model::{
    CallEnd, CallError, CallKind, Executor, Failure, FailureKind, Output, Standby, Tool, TurnEnd, TurnOutcome,
};
use switchboard_core::{CallId, ToolName, hex};

use super::Function;
use super::octets::Octets;
use super::relay::{Delivery, Opened};
use super::request;
use crate::agent::AgentError;
use crate::chunk;
use crate::toolbox::is_usable;
use crate::turn::{Resumption, ToolUse, Turn};

/// A turn that a function works on.
pub(super) struct Work<'a> {
    pub(super) function: Arc<Function>,
    pub(super) turn: &'a mut Turn,
    line: Line,
    /// What was asked and is not answered.
    open: FuturesUnordered<BoxFuture<'static, Settled>>,
    /// Tools that the function executes itself, by its names for them.
    own: BTreeMap<String, CallId>,
    leg: u32,
    /// What the function has left for itself.
    state: Option<Json>,
    /// The answers for the next leg.
    answers: Vec<Answer>,
    next_n: u64,
    /// Whether anything of this leg was passed on: then it is not repeated.
    pub(super) forwarded: bool,
    pub(super) told_of_start: bool,
    pub(super) cpu_ms: Option<u64>,
    /// What the function has answered in octets.
    octets: Octets,
}

/// What came of something that was asked.
struct Settled {
    /// The function's name for it.
    name: String,
    kind: CallKind,
    end: CallEnd,
}

/// How a leg ended.
pub(super) enum Leg {
    Ended(Box<TurnEnd>),
    Suspended(Value),
}

/// How an attempt of a leg ended.
pub(super) enum Attempt {
    Leg(Leg),
    /// It has led to nothing, and may be tried again.
    Again {
        failure: Failure,
        after: Option<Duration>,
    },
    Failed(Failure),
}

/// What reaches a turn beside the function's response.
pub(super) enum Heard {
    Pushed(Delivery),
    Answered(Box<SettledCall>),
}

/// Opaque to the exchange, which only hands it on.
pub(super) struct SettledCall(Settled);

impl<'a> Work<'a> {
    pub(super) fn new(function: Arc<Function>, turn: &'a mut Turn) -> Self {
        let resumption = turn.resumption();
        let line = Line::new(function.clone(), turn);
        let mut work = Self {
            function,
            turn,
            line,
            open: FuturesUnordered::new(),
            own: BTreeMap::new(),
            leg: 0,
            state: None,
            answers: Vec::new(),
            next_n: 0,
            forwarded: false,
            told_of_start: false,
            cpu_ms: None,
            octets: Octets::default(),
        };
        if let Some(resumption) = resumption {
            work.take_up(resumption);
        }
        work
    }

    /// Goes on where an earlier run has let go.
    fn take_up(&mut self, resumption: Resumption) {
        self.leg = resumption.suspensions;
        self.state = Some(resumption.state);
        self.next_n = resumption.records;
        for past in resumption.calls {
            let name = own_name(past.id.as_str()).to_owned();
            match past.end {
                Some(end) => self.settle(Settled { name, kind: past.kind, end }),
                None => self.wait_for(name, past.id, past.kind),
            }
        }
    }

    pub(super) async fn run(mut self) -> Result<TurnEnd, AgentError> {
        if self.state.is_some() {
            self.wait_for_answers().await?;
        }
        loop {
            match self.leg().await {
                Ok(Leg::Ended(mut end)) => {
                    end.metrics.cpu_ms = end.metrics.cpu_ms.or(self.cpu_ms);
                    self.line.finish(Cancellation::default());
                    return Ok(*end);
                }
                Ok(Leg::Suspended(state)) => {
                    let state = Json::from(state);
                    self.turn.suspend(state.clone()).await?;
                    self.state = Some(state);
                    self.leg += 1;
                    self.wait_for_answers().await?;
                }
                Err(AgentError::Failed(failure)) => {
                    // Only one that took too long can still be at work.
                    if failure.kind == FailureKind::Overdue {
                        self.line.abort(&failure.message);
                    } else {
                        self.line.finish(Cancellation::default());
                    }
                    return Err(AgentError::Failed(failure));
                }
                Err(AgentError::Over) => return Err(AgentError::Over),
            }
        }
    }

    async fn leg(&mut self) -> Result<Leg, AgentError> {
        self.forwarded = false;
        let answers = std::mem::take(&mut self.answers);
        let mut attempt = self.first_attempt();
        let last = attempt + self.function.config.retries;
        loop {
            let (failure, after) = match self.attempt(attempt, &answers).await? {
                Attempt::Leg(leg) => return Ok(leg),
                Attempt::Failed(failure) => return Err(AgentError::Failed(failure)),
                Attempt::Again { failure, after } => (failure, after),
            };
            self.function.breaker.failed(self.turn.now());
            if self.forwarded || attempt >= last {
                return Err(AgentError::Failed(failure));
            }
            attempt += 1;
            let delay = after.unwrap_or_else(|| self.backoff(attempt));
            tracing::warn!(attempt, delay_ms = delay.as_millis(), "asking a function again");
            self.turn.stand_by(Standby::Retrying).await?;
            if let Some(leg) = self.pause(delay).await? {
                return Ok(leg);
            }
        }
    }

    /// A run that takes over from a lost one does not begin to count again.
    fn first_attempt(&self) -> u32 {
        let lost = self.turn.brief().fence.saturating_sub(1);
        if self.leg == 0 { 1 + lost * (self.function.config.retries + 1) } else { 1 }
    }

    async fn attempt(&mut self, attempt: u32, answers: &[Answer]) -> Result<Attempt, AgentError> {
        let now = self.turn.now();
        let event = if self.leg == 0 { Event::Invoke } else { Event::Continue };
        let mut invocation = request::invocation(self.turn.brief(), event, &self.function.relay, now);
        invocation.leg = self.leg;
        invocation.attempt = attempt;
        if self.leg > 0 {
            invocation.state = self.state.clone().and_then(|state| Value::try_from(state).ok());
            invocation.answers = answers.to_vec();
            invocation.next_n = Some(self.next_n);
        }
        if self.function.config.history > 0 {
            invocation.history = map::history(&self.turn.history(self.function.config.history).await);
        }
        let tools = told_tools(self.turn).await;
        let beside = request::Beside::of(self.turn.brief(), tools);
        let request = self.function.endpoint.request(&invocation, &beside, &self.function.relay, now);
        match self.dispatch(request).await? {
            Ok(response) => self.receive(response, invocation.rid).await,
            Err(attempt) => Ok(attempt),
        }
    }

    /// Waits for what may come beside a response. Nothing is lost when it is dropped.
    pub(super) async fn hear(&mut self) -> Heard {
        tokio::select! {
            Some(delivery) = self.line.opened.deliveries.recv() => Heard::Pushed(delivery),
            Some(settled) = self.open.next(), if !self.open.is_empty() => {
                Heard::Answered(Box::new(SettledCall(settled)))
            }
        }
    }

    /// Takes in what has come; answers whether the turn, or the leg, ends with it.
    pub(super) async fn take_heard(&mut self, heard: Heard) -> Result<Option<Leg>, AgentError> {
        match heard {
            Heard::Answered(settled) => {
                self.settle(settled.0);
                Ok(None)
            }
            Heard::Pushed(Delivery { pieces, taken }) => {
                let mut ended = Ok(None);
                for piece in pieces {
                    if matches!(ended, Ok(None)) {
                        ended = self.forward(piece).await;
                    }
                }
                // Nobody need wait for the answer any more.
                let acknowledge = move || {
                    let _ = taken.send(());
                };
                match &ended {
                    Ok(None | Some(Leg::Suspended(_))) => {
                        self.turn.settled().await;
                        acknowledge();
                    }
                    // An error that was pushed was taken, too: it is how the turn ends.
                    Ok(Some(Leg::Ended(_))) | Err(AgentError::Failed(_)) => {
                        self.turn.when_ended(Box::new(acknowledge));
                    }
                    Err(AgentError::Over) => {}
                }
                ended
            }
        }
    }

    async fn pause(&mut self, delay: Duration) -> Result<Option<Leg>, AgentError> {
        let mut over = std::pin::pin!(tokio::time::sleep(delay));
        loop {
            tokio::select! {
                () = &mut over => return Ok(None),
                heard = self.hear() => {
                    if let Some(leg) = self.take_heard(heard).await? {
                        return Ok(Some(leg));
                    }
                }
            }
        }
    }

    async fn wait_for_answers(&mut self) -> Result<(), AgentError> {
        while !self.open.is_empty() {
            let heard = self.hear().await;
            // A push cannot end what is suspended, and has nothing else to say.
            if let Some(Leg::Ended(_)) = self.take_heard(heard).await? {
                return Err(AgentError::failed(
                    FailureKind::BadResponse,
                    "a suspended function has ended its request",
                ));
            }
        }
        Ok(())
    }

    fn wait_for(&self, name: String, call: CallId, kind: CallKind) {
        let answer = self.turn.answer(call);
        self.open.push(Box::pin(async move { Settled { name, kind, end: answer.await } }));
    }

    fn settle(&mut self, settled: Settled) {
        let k = self.line.opened.answered() + 1;
        if let Some(answer) = map::answer(k, &settled.name, &settled.kind, &settled.end) {
            self.line.opened.answer(answer.clone());
            self.answers.push(answer);
        }
    }

    /// Passes a piece on to the turn; answers whether the turn, or the leg, ends with it.
    pub(super) async fn forward(&mut self, piece: Piece) -> Result<Option<Leg>, AgentError> {
        match piece {
            Piece::Ping => {}
            Piece::Suspend(state) => return Ok(Some(Leg::Suspended(state))),
            Piece::Error(error) => return Err(AgentError::Failed(map::failed(&error))),
            Piece::ToolDef(change) => self.change_tools(change).await?,
            Piece::Raw(bytes) => {
                for output in self.octets.feed(&bytes) {
                    self.emit(output).await?;
                }
            }
            Piece::Record(record) => {
                if let Some(output) = self.octets.rest() {
                    self.emit(output).await?;
                }
                self.next_n = record.n.map_or(self.next_n + 1, |n| n + 1);
                match map::meaning(record.body) {
                    Meaning::Nothing => {}
                    Meaning::Output(output) => self.emit(output).await?,
                    Meaning::Standby(standby) => self.turn.stand_by(standby).await?,
                    Meaning::Tool(activity) => self.show_tool(activity).await?,
                    Meaning::Ask(name, kind, timeout_ms) => self.ask(name, kind, timeout_ms).await?,
                    Meaning::End(end) => return Ok(Some(Leg::Ended(end))),
                }
            }
        }
        Ok(None)
    }

    async fn emit(&mut self, output: Output) -> Result<(), AgentError> {
        self.forwarded = true;
        let say: fn(String) -> Output = match &output {
            Output::Text(_) => Output::Text,
            Output::Reasoning(_) => Output::Reasoning,
            Output::Began { .. }
            | Output::Status(_)
            | Output::Usage(_)
            | Output::Checklist(_)
            | Output::Data { .. }
            | Output::Notice { .. }
            | Output::Remembered(_)
            | Output::Standby(_)
            | Output::Suspended(_) => return self.turn.emit(output).await,
        };
        if let Output::Text(text) | Output::Reasoning(text) = output {
            for piece in chunk::Chunk::Whole.split(&text) {
                self.turn.emit(say(piece.to_owned())).await?;
            }
        }
        Ok(())
    }

    /// Asks on behalf of the function, under its own name for it if nobody else in the session uses that.
    async fn ask(&mut self, name: String, kind: CallKind, timeout_ms: Option<u64>) -> Result<(), AgentError> {
        self.forwarded = true;
        let left = self.turn.brief().deadline.since(self.turn.now());
        let timeout = timeout_ms.map_or(left, Duration::from_millis).min(left);
        if let CallKind::Tool { name: tool, args } = &kind
            && self.turn.executes(tool)
        {
            let tool = ToolUse { name: tool.clone(), args: Json::clone(args) };
            let end = self.turn.use_as(self.other_name(&name), tool, timeout);
            self.open.push(Box::pin(async move {
                let end = end.await.unwrap_or(CallEnd::Cancelled);
                Settled { name, kind, end }
            }));
            return Ok(());
        }
        let mut call = CallId::from(name.as_str());
        let mut asked = self.turn.request_as(call.clone(), kind.clone(), timeout).await;
        if is_taken(&asked) {
            call = self.other_name(&name);
            asked = self.turn.request_as(call.clone(), kind.clone(), timeout).await;
        }
        if is_unknown(&asked)
            && let Some(client) = undeclared(self.turn).await
        {
            asked = self.turn.request_of(client, call.clone(), kind.clone(), timeout).await;
        }
        match asked {
            Ok(()) => {
                self.wait_for(name, call, kind);
                Ok(())
            }
            // The function can do better, or without.
            Err(AgentError::Failed(failure)) => {
                let error = CallError::new(map::refusal(failure.kind), failure.message);
                self.settle(Settled { name, kind, end: CallEnd::Failed(error) });
                Ok(())
            }
            Err(AgentError::Over) => Err(AgentError::Over),
        }
    }

    /// Another name for a call: calls of all turns of a session share one space of names.
    fn other_name(&self, name: &str) -> CallId {
        let digest = Sha256::digest(self.turn.brief().turn.as_str().as_bytes());
        let token = hex(digest.iter().take(4));
        CallId::new(format!("{name}{OTHER_NAME}{token}"))
    }

    async fn show_tool(&mut self, activity: ToolActivity) -> Result<(), AgentError> {
        self.forwarded = true;
        let ToolActivity { call_id, name, phase, args, d, output } = activity;
        let call = match self.own.get(&call_id) {
            Some(call) => call.clone(),
            None => {
                let (name, args) = (ToolName::new(name), args.map_or(Json::Null, Json::from));
                // What is not said to begin shows as the one record that the function has written.
                let call = match phase {
                    Phase::Start => self.turn.begin_tool(&name, args).await?,
                    Phase::Delta | Phase::Done | Phase::Error => {
                        self.turn.begin_tool_unannounced(&name, args).await?
                    }
                };
                self.own.insert(call_id.clone(), call.clone());
                call
            }
        };
        let given = output.map_or(Json::Null, Json::from);
        match phase {
            Phase::Start => Ok(()),
            Phase::Delta => self.turn.tool_progress(&call, d.unwrap_or_default()).await,
            Phase::Done => {
                self.own.remove(&call_id);
                self.turn.end_tool(&call, CallEnd::done(given)).await
            }
            Phase::Error => {
                self.own.remove(&call_id);
                let said = |member: &str| given.get(member).and_then(Json::as_str).map(str::to_owned);
                let name = said("name").unwrap_or_else(|| "error".to_owned());
                let message = said("msg").or(d).unwrap_or_else(|| given.to_string());
                self.turn.end_tool(&call, CallEnd::Failed(CallError::new(name, message))).await
            }
        }
    }

    async fn change_tools(&mut self, change: ToolDefFrame) -> Result<(), AgentError> {
        self.forwarded = true;
        let agent = self.turn.brief().agent.to_string();
        let known = self.turn.tools().await;
        let (add, remove) = map::tool_change(change, &agent, &known);
        self.turn.change_tools(add, remove).await
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let base = self.function.config.backoff_ms.saturating_mul(1 << attempt.saturating_sub(2).min(16));
        // From half to one and a half of it, so that many turns do not come back at once.
        let digest = Sha256::digest(format!("{}{attempt}", self.turn.brief().turn));
        let spread = u64::from(digest.first().copied().unwrap_or(128));
        Duration::from_millis(base / 2 + base * spread / 255)
    }
}

fn is_taken(asked: &Result<(), AgentError>) -> bool {
    matches!(asked, Err(AgentError::Failed(failure)) if failure.kind == FailureKind::Execution)
}

fn is_unknown(asked: &Result<(), AgentError>) -> bool {
    matches!(asked, Err(AgentError::Failed(failure)) if failure.kind == FailureKind::ToolNotFound)
}

/// The client of a turn, if it executes tools and has not said which: then only it knows what it has.
async fn undeclared(turn: &Turn) -> Option<Executor> {
    let origin = &turn.brief().origin;
    let client = Executor::Attachment(origin.attachment.clone()?);
    let executes = map::features(origin).iter().any(|feature| feature == Feature::ClientTools.name());
    let declared = turn.tools().await.iter().any(|tool| tool.executor == client);
    (executes && !declared).then_some(client)
}

/// The tools that a function can have executed in a turn; not those that it executes itself.
async fn told_tools(turn: &Turn) -> Vec<Tool> {
    let mut tools = turn.tools().await;
    let device = turn.brief().device.as_ref();
    tools.retain(|tool| is_usable(tool, device, |name| turn.executes(name)));
    tools
}

/// The function's name for a call.
fn own_name(call: &str) -> &str {
    call.split_once(OTHER_NAME).map_or(call, |(name, _)| name)
}

/// What keeps a running function in touch. However the run ends, the function can learn of it.
struct Line {
    function: Arc<Function>,
    opened: Opened,
    brief: crate::turn::Brief,
    port: Arc<dyn crate::turn::TurnPort>,
}

impl Line {
    fn new(function: Arc<Function>, turn: &Turn) -> Self {
        let brief = turn.brief().clone();
        let rid = map::request_id(&brief.origin);
        let opened = function.relay.open(request::connection_id(&brief), rid, request::invocation_id(&brief));
        Self { function, opened, port: turn.port().clone(), brief }
    }

    /// The function has ended by itself.
    fn finish(&mut self, how: Cancellation) {
        self.opened.close(how, self.port.now());
    }

    /// The function may still run, and is to stop: the exchange is aborted by whoever drops it, the function is
    /// told, and can ask.
    fn abort(&mut self, reason: &str) {
        let now = self.port.now();
        self.finish(Cancellation { cancelled: true, reason: Some(reason.to_owned()) });
        let invocation = request::invocation(&self.brief, Event::Interrupt, &self.function.relay, now);
        self.function.tell(invocation, now);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.opened.is_closed() {
            return;
        }
        match self.port.stop_reason() {
            Some(reason) => self.abort(&reason),
            // Another run goes on with the same invocation.
            None => self.finish(Cancellation::default()),
        }
    }
}

/// The end of a turn that has nothing to say.
pub(super) fn empty() -> Leg {
    Leg::Ended(Box::new(TurnEnd::new(TurnOutcome::Done(switchboard_core::model::Finish::Empty))))
}

/// Between the function's name for a call and what tells it from others of that name.
const OTHER_NAME: &str = "~";
