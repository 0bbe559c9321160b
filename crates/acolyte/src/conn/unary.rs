//! `status.get` (§4.1, §10) and `task.status` (§4.4).

use serde_json::{Map, Value, json};
use switchboard_core::{AgentId, Output, Principal, TurnRow};

use super::{AcolyteConnection, Pending};
use crate::ledger::{Known, Ledger, told};
use crate::map::ListNames;
use crate::message::{CHECKLIST, Capabilities, Offer, RpcId, ServerMessage, TASKLIST, TaskId};
use crate::protocol::{Service, VERSION};
use crate::state::TaskState;

impl AcolyteConnection {
    /// `status.get`
    pub(super) fn status(&mut self, id: &RpcId, offer: &Offer) {
        if let Some(version) = &offer.version {
            if version != VERSION {
                self.refused_version = Some(version.clone());
                return self.refuse(id, unsupported(version));
            }
            self.refused_version = None;
        }
        let mut status = status(&self.service, &self.ledger, &self.principal, &self.agents, &self.origin);
        if offer.version.is_some() || offer.capabilities.is_some() {
            let offered = offer.capabilities.clone().unwrap_or_default();
            self.agreed = offered.agreed(&Capabilities::supported());
            let (checklist, tasklist) = (self.agreed.has(CHECKLIST), self.agreed.has(TASKLIST));
            // Without a word about lists, both names are used.
            let silent = !checklist && !tasklist;
            self.lists = ListNames { checklist: checklist || silent, tasklist: tasklist || silent };
            status.insert("protocol_versions".into(), json!([VERSION]));
            status.insert("capabilities_agreed".into(), self.agreed.to_string().into());
        }
        self.send(id, &ServerMessage::StatusResult { status });
    }

    /// `task.status`
    pub(super) fn task_status(&mut self, id: RpcId, task: TaskId, session: Option<&str>) {
        let session = match self.ledger.find(&self.principal.id, &task) {
            Known::Task(task) => {
                return self.send(&id, &ServerMessage::TaskStatusResult { task: Some(task) });
            }
            Known::Unattended(session) => session,
            // Of a task that can be resumed, the log knows more than this process.
            Known::Nothing if self.may_resume() => self.session_of(session, Some(&task)),
            Known::Nothing => return self.send(&id, &ServerMessage::TaskStatusResult { task: None }),
        };
        let turn = task.turn();
        let request = self.request(Pending::Find(id, task));
        self.out.push_back(Output::Find(request, session, turn));
    }

    pub(super) fn found(&mut self, id: &RpcId, task: &TaskId, row: Option<&TurnRow>) {
        let task = row.map(|row| {
            let state = match row.status.as_str() {
                "accepted" => TaskState::Accepted,
                "running" => TaskState::Running,
                "done" => TaskState::Completed,
                "interrupted" => TaskState::Cancelled,
                _ => TaskState::Failed,
            };
            let updated = row.ended_at.or(row.started_at).unwrap_or(row.accepted_at);
            told(task, state, row.accepted_at, updated)
        });
        self.send(id, &ServerMessage::TaskStatusResult { task });
    }
}

/// What the server says of itself.
pub(super) fn status(
    service: &Service,
    ledger: &Ledger,
    principal: &Principal,
    agents: &[AgentId],
    origin: &str,
) -> Map<String, Value> {
    let counts = ledger.counts(&principal.id);
    let reachable = agents.iter().filter(|agent| principal.scopes.allows_agent(agent));
    let agents = reachable.map(|agent| format!("{agent} (agent)"));
    let provider_auth: Vec<String> = service.provider_auth.iter().cloned().chain(agents).collect();
    let Value::Object(status) = json!({
        "ok": true,
        "providers": service.providers,
        "provider_auth": provider_auth,
        "model": service.model,
        "protocol_version": VERSION,
        "capabilities": Capabilities::supported().to_string(),
        "service": origin,
        "tasks_total": counts.total,
        "tasks_running": counts.running,
        "rpc_queue_length": counts.queued,
        "server": service.server,
    }) else {
        return Map::new();
    };
    status
}

/// Why there are no chats in this version (H3).
pub(crate) fn unsupported(version: &str) -> String {
    let shown: String = version.chars().take(MAX_SHOWN).collect();
    format!("Unsupported protocol version \"{shown}\"; supported: {VERSION}")
}

const MAX_SHOWN: usize = 64;
