//! Exchanges that are over with one answer: `/v1/status` and `/v1/admin/shutdown` (§2.2).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_core::{
    AgentId, Close, Connection, Frame, Head, Input, Output, Principal, Scope, Timestamp, Upgrade, Violation,
};

use crate::ledger::Ledger;
use crate::protocol::Service;

/// One question, one answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    purpose: Purpose,
    service: Service,
    ledger: Arc<Ledger>,
    principal: Principal,
    agents: Vec<AgentId>,
    origin: String,
    out: VecDeque<Output>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Status,
    Shutdown,
}

impl Exchange {
    pub(crate) fn new(purpose: Purpose, service: Service, ledger: Arc<Ledger>, upgrade: Upgrade) -> Self {
        Self {
            purpose,
            service,
            ledger,
            principal: upgrade.principal,
            agents: upgrade.agents,
            origin: upgrade.request.origin,
            out: VecDeque::new(),
        }
    }

    fn answer(&mut self) {
        match self.purpose {
            Purpose::Status => {
                let (service, ledger) = (&self.service, &self.ledger);
                let status =
                    super::unary::status(service, ledger, &self.principal, &self.agents, &self.origin);
                self.say(json(200), Value::Object(status).to_string());
            }
            Purpose::Shutdown if self.principal.scopes.allows(Scope::Admin) => {
                self.say(json(200), json!({"ok": true, "shutdown": true}).to_string());
                self.out.push_back(Output::Stop);
            }
            Purpose::Shutdown => self.say(plain(403), "Forbidden".to_owned()),
        }
        self.out.push_back(Output::Close(DONE));
    }

    fn say(&mut self, head: Head, body: String) {
        self.out.push_back(Output::Send(Frame::Head(Box::new(head))));
        self.out.push_back(Output::Send(Frame::Text(body)));
    }
}

impl Connection for Exchange {
    fn handle_input(&mut self, input: Input<'_>, _: Timestamp) -> Result<(), Violation> {
        match input {
            Input::Frame(_) => self.answer(),
            Input::Closed(_) => self.out.push_back(Output::Close(DONE)),
            Input::Committed(..)
            | Input::Done(..)
            | Input::Rejected(..)
            | Input::Signal(_)
            | Input::Voice(_)
            | Input::Timeout
            | Input::Backlog(_)
            | Input::Drain { .. } => {}
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or(Output::Idle { wake: None })
    }
}

/// The head of an answer in plain words.
pub(super) fn plain(status: u16) -> Head {
    Head { status, headers: vec![("content-type", "text/plain".into())] }
}

fn json(status: u16) -> Head {
    Head { status, headers: vec![("content-type", "application/json".into())] }
}

const DONE: Close = Close { code: 1000, reason: "" };
