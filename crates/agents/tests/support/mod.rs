//! A turn without a server: what the agent does is recorded as the events it would lead to.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod endpoint;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use switchboard_agents::{Agent, AgentError, Brief, Turn, TurnPort};
use switchboard_core::model::{
    Call, CallEnd, CallRequest, Executor, Output, Part, Tool, TurnEnd, TurnRequest,
};
use switchboard_core::{
    AgentId, CallId, Event, MessageRow, Op, PrincipalId, Reject, SessionId, Timestamp, ToolName, TurnId,
};
use tokio::sync::watch;

type Answers = dyn Fn(&CallRequest) -> Option<CallEnd> + Send + Sync;

/// Records ops as events; answers calls with a closure (none: never).
pub(crate) struct Port {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) tools: Mutex<Vec<Tool>>,
    pub(crate) history: Mutex<Vec<MessageRow>>,
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
            history: Mutex::default(),
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

    fn take(&self, op: Op) -> Result<(), Reject> {
        let mut events = self.events.lock().unwrap();
        match op {
            Op::Emit { turn, fence: _, output } => events.push(Event::TurnOutput { turn, output }),
            Op::Request { turn, fence: _, call } => {
                let end = (self.answers)(&call);
                let remote = call.executor.is_none();
                let event = Call {
                    id: call.id.clone(),
                    kind: call.kind,
                    executor: call.executor.unwrap_or(Executor::Anyone),
                    deadline: call.deadline,
                    batch: call.batch,
                };
                events.push(Event::CallRequested { turn: turn.clone(), call: Box::new(event) });
                if remote {
                    if let Some(end) = end.clone() {
                        events.push(Event::CallEnded { turn, call: call.id.clone(), end });
                    }
                    self.ends.lock().unwrap().insert(call.id, end);
                }
            }
            Op::Progress { turn, call, delta } => events.push(Event::CallProgress { turn, call, delta }),
            Op::Answer { turn, call, end } => events.push(Event::CallEnded { turn, call, end }),
            Op::ChangeTools(change) => events.push(Event::ToolsChanged {
                revision: 1,
                added: change.add,
                removed: change.remove,
                turn: change.turn,
            }),
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
        Timestamp::from_secs(1_000)
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
        principal: PrincipalId::from("ann"),
        attachment: None,
        request,
        workspace: None,
        recall: None,
        meta: serde_json::json!({ "k": "v" }),
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
    let (_keep, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(request, fence), port.clone(), interrupted, journal);
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
