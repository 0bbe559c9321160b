//! A turn without a server: what the agent does is recorded as the events it would lead to.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod endpoint;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use switchboard_agents::{Agent, AgentError, Brief, Turn, TurnPort};
use switchboard_core::model::{
    Call, CallEnd, CallKind, CallRequest, Executor, Origin, Output, Part, Tool, TurnEnd, TurnRequest,
};
use switchboard_core::{
    AgentId, CallId, Callsign, Event, MessageRow, Op, PrincipalId, Reject, SessionId, Timestamp, ToolName,
    TurnId,
};
use tokio::sync::watch;

type Answers = dyn Fn(&CallRequest) -> Option<CallEnd> + Send + Sync;

/// Records ops as events; answers calls with a closure (none: never).
pub(crate) struct Port {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) tools: Mutex<Vec<Tool>>,
    /// Tools that are offered, but gone by the time that somebody asks for them.
    pub(crate) gone: Mutex<Vec<ToolName>>,
    pub(crate) history: Mutex<Vec<MessageRow>>,
    /// Seconds since the epoch.
    pub(crate) clock: AtomicU64,
    ends: Mutex<BTreeMap<CallId, Option<CallEnd>>>,
    answers: Box<Answers>,
}

impl Port {
    pub(crate) fn new(
        answers: impl Fn(&CallRequest) -> Option<CallEnd> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            events: Mutex::default(),
            tools: Mutex::default(),
            gone: Mutex::default(),
            history: Mutex::default(),
            clock: AtomicU64::new(1_000),
            ends: Mutex::default(),
            answers: Box::new(answers),
        })
    }

    pub(crate) fn silent() -> Arc<Self> {
        Self::new(|_| None)
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// What was put out, in order.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        outputs(&self.events())
    }

    /// The text of the answer.
    pub(crate) fn text(&self) -> String {
        text(&self.events())
    }

    /// The calls that were asked for, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let calls = self.events().into_iter().filter_map(|event| match event {
            Event::CallRequested { call, .. } => Some((*call).clone()),
            _ => None,
        });
        calls.collect()
    }

    /// What earlier runs have left open is answered here.
    pub(crate) fn take_over(&self, journal: &[Event]) {
        let ended = |id: &CallId| {
            journal.iter().any(|event| matches!(event, Event::CallEnded { call, .. } if call == id))
        };
        for event in journal {
            let Event::CallRequested { turn, call } = event else { continue };
            if ended(&call.id) || call.executor == Executor::Agent {
                continue;
            }
            let call = (**call).clone();
            let end = (self.answers)(&CallRequest {
                id: call.id.clone(),
                kind: call.kind,
                executor: Some(call.executor),
                deadline: call.deadline,
                batch: call.batch,
                options: call.options,
            });
            if let Some(end) = end.clone() {
                let event = Event::CallEnded { turn: turn.clone(), call: call.id.clone(), end };
                self.events.lock().unwrap().push(event);
            }
            self.ends.lock().unwrap().insert(call.id, end);
        }
    }

    fn take(&self, op: Op) -> Result<(), Reject> {
        let mut events = self.events.lock().unwrap();
        match op {
            Op::Emit { turn, fence: _, output } => events.push(Event::TurnOutput { turn, output }),
            Op::Request { turn, fence: _, calls } => {
                let mut ends = Vec::new();
                for mut call in calls {
                    if let (None, CallKind::Tool { name, .. }) = (&call.executor, &call.kind)
                        && self.gone.lock().unwrap().contains(name)
                    {
                        return Err(Reject::UnknownTool(name.clone()));
                    }
                    // A session knows who offers a tool, and what they have to be told.
                    if let (None, CallKind::Tool { name, .. }) = (&call.executor, &call.kind)
                        && let Some(tool) = self.tools.lock().unwrap().iter().find(|tool| tool.name == *name)
                    {
                        call.executor = Some(tool.executor.clone());
                        call.options = tool.options.clone().into();
                    }
                    if call.executor != Some(Executor::Agent) {
                        ends.push((call.id.clone(), (self.answers)(&call)));
                    }
                    let call = Call {
                        id: call.id,
                        kind: call.kind,
                        executor: call.executor.unwrap_or(Executor::Anyone),
                        deadline: call.deadline,
                        batch: call.batch,
                        options: call.options,
                    };
                    events.push(Event::CallRequested { turn: turn.clone(), call: Arc::new(call) });
                }
                for (call, end) in ends {
                    if let Some(end) = end.clone() {
                        events.push(Event::CallEnded { turn: turn.clone(), call: call.clone(), end });
                    }
                    self.ends.lock().unwrap().insert(call, end);
                }
            }
            Op::Progress { turn, call, delta } => events.push(Event::CallProgress { turn, call, delta }),
            Op::Answer { turn, call, end } => events.push(Event::CallEnded { turn, call, end }),
            Op::ChangeTools(change) => {
                let mut tools = self.tools.lock().unwrap();
                let gone = |tool: &Tool| {
                    change.remove.contains(&tool.name) || change.add.iter().any(|new| new.name == tool.name)
                };
                tools.retain(|tool| !gone(tool));
                tools.extend(change.add.iter().cloned());
                events.push(Event::ToolsChanged {
                    revision: 1,
                    added: change.add,
                    removed: change.remove,
                    turn: change.turn,
                });
            }
            other => panic!("an agent has no business with {other:?}"),
        }
        Ok(())
    }
}

#[async_trait]
impl TurnPort for Port {
    async fn submit(&self, op: Op) -> Result<(), Reject> {
        self.take(op)
    }

    async fn post(&self, op: Op) -> Result<(), Reject> {
        self.take(op)
    }

    async fn call_end(&self, call: &CallId) -> CallEnd {
        let end = self.ends.lock().unwrap().get(call).cloned().flatten();
        match end {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }

    async fn history(&self, limit: usize) -> Vec<MessageRow> {
        let history = self.history.lock().unwrap();
        history[history.len().saturating_sub(limit)..].to_vec()
    }

    async fn tools(&self) -> Vec<Tool> {
        self.tools.lock().unwrap().clone()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.clock.load(Ordering::Relaxed))
    }
}

pub(crate) fn chat(text: &str) -> TurnRequest {
    TurnRequest::Chat { parts: vec![Part::Text(text.into())] }
}

pub(crate) fn tool(name: &str, args: Value) -> TurnRequest {
    TurnRequest::Tool { name: ToolName::from(name), args }
}

pub(crate) fn brief(request: TurnRequest, fence: u32) -> Brief {
    Brief {
        session: SessionId::from("ses_test"),
        turn: TurnId::from("inv_test"),
        agent: AgentId::from("agent"),
        origin: Origin {
            principal: PrincipalId::from("ann"),
            protocol: "asp".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        },
        request,
        device: None,
        workspace: None,
        recall: None,
        meta: serde_json::json!({ "k": "v" }),
        remembered: Vec::new(),
        setting: None,
        deadline: Timestamp::from_secs(10_000),
        fence,
    }
}

/// Runs a turn to its end.
pub(crate) async fn run(
    agent: &dyn Agent,
    port: &Arc<Port>,
    request: TurnRequest,
) -> Result<TurnEnd, AgentError> {
    replay(agent, port, request, Vec::new(), 1).await
}

/// Runs a turn of which earlier runs have committed `journal`.
pub(crate) async fn replay(
    agent: &dyn Agent,
    port: &Arc<Port>,
    request: TurnRequest,
    journal: Vec<Event>,
    fence: u32,
) -> Result<TurnEnd, AgentError> {
    replay_brief(agent, port, brief(request, fence), journal).await
}

/// Runs a turn for the device `dev-7`.
pub(crate) async fn run_on_device(
    agent: &dyn Agent,
    port: &Arc<Port>,
    text: &str,
) -> Result<TurnEnd, AgentError> {
    replay_on_device(agent, port, text, Vec::new(), 1).await
}

/// Runs a turn for the device `dev-7` of which earlier runs have committed `journal`.
pub(crate) async fn replay_on_device(
    agent: &dyn Agent,
    port: &Arc<Port>,
    text: &str,
    journal: Vec<Event>,
    fence: u32,
) -> Result<TurnEnd, AgentError> {
    port.take_over(&journal);
    let brief = Brief { device: Some(Callsign::from("dev-7")), ..brief(chat(text), fence) };
    replay_brief(agent, port, brief, journal).await
}

/// Runs a turn about this, of which earlier runs have committed `journal`.
pub(crate) async fn replay_brief(
    agent: &dyn Agent,
    port: &Arc<Port>,
    brief: Brief,
    journal: Vec<Event>,
) -> Result<TurnEnd, AgentError> {
    let (_keep, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief, port.clone(), interrupted, journal);
    agent.run(&mut turn).await
}

/// What a session makes of a lost run: open calls are cancelled.
pub(crate) fn lose(mut events: Vec<Event>) -> Vec<Event> {
    let mut open = Vec::new();
    for event in &events {
        match event {
            Event::CallRequested { call, .. } => open.push(call.id.clone()),
            Event::CallEnded { call, .. } => open.retain(|id| id != call),
            _ => {}
        }
    }
    events.extend(open.into_iter().map(|call| Event::CallEnded {
        turn: TurnId::from("inv_test"),
        call,
        end: CallEnd::Cancelled,
    }));
    events
}

pub(crate) fn outputs(events: &[Event]) -> Vec<Output> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::TurnOutput { output, .. } => Some(output.clone()),
            _ => None,
        })
        .collect()
}

pub(crate) fn text(events: &[Event]) -> String {
    outputs(events)
        .into_iter()
        .filter_map(|output| match output {
            Output::Text(text) => Some(text),
            _ => None,
        })
        .collect()
}
