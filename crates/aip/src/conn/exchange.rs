//! The four HTTP endpoints (§2.2).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_core::{
    Asked, Callsign, Close, Connection, Enrolled, Frame, Head, Input, Output, Principal, Reject, Reply, Role,
    Seed, Timestamp, Violation, json, wide,
};

use crate::awaited::Dispatch;
use crate::codec;
use crate::fleet::Fleet;
use crate::ledger::{self, TaskResult};
use crate::validate;

/// What an exchange is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Whether the server lives, and who is connected.
    Health,
    /// Who is connected.
    Clients,
    /// Send a device a task.
    Dispatch,
    /// What came of a task.
    Result(String),
}

/// One request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    purpose: Purpose,
    principal: Principal,
    fleet: Arc<Fleet>,
    seed: Seed,
    task: Option<Task>,
    asked: Asked<Question>,
    out: VecDeque<Output>,
}

#[derive(Debug)]
enum Question {
    Roll,
    Delivered,
    /// What came of a task; with why one of its name was refused, if it was, and since when something is to come of
    /// the latest.
    Result(Option<TaskResult>, Option<Timestamp>),
}

#[derive(Debug)]
struct Task {
    client_id: String,
    task_name: String,
    session_id: String,
    request: String,
}

impl Exchange {
    pub(crate) fn new(purpose: Purpose, principal: Principal, fleet: Arc<Fleet>, seed: Seed) -> Self {
        Self { purpose, principal, fleet, seed, task: None, asked: Asked::default(), out: VecDeque::new() }
    }

    fn begin(&mut self, body: &[u8], now: Timestamp) {
        match &self.purpose {
            Purpose::Health | Purpose::Clients => self.ask_roll(),
            Purpose::Result(task_name) => {
                let (refusal, begun) =
                    self.fleet.standing(&(self.principal.id.clone(), task_name.clone()), now);
                let lookup = ledger::last_result(task_name, self.fleet.forgotten(now));
                let request = self.asked.ask(Question::Result(refusal, begun));
                self.out.push_back(Output::Look(request, Box::new(lookup)));
            }
            Purpose::Dispatch => match self.task(body) {
                Err((status, why)) => self.refuse(status, &why),
                Ok(task) => {
                    self.task = Some(task);
                    self.ask_roll();
                }
            },
        }
    }

    /// What is to be dispatched; checked in the order of the reference.
    fn task(&self, body: &[u8]) -> Result<Task, (u16, String)> {
        let Ok(Value::Object(body)) = json::from_slice::<Value>(body) else {
            return Err((422, "the body must be a JSON object".to_owned()));
        };
        let text = |key: &str| match body.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err((422, format!("{key} must be a string"))),
        };
        let (request, client_id, task_name) = (text("request")?, text("client_id")?, text("task_name")?);
        let present = |text: Option<String>| text.filter(|text| !text.is_empty());
        let request = present(request).ok_or_else(|| (400, "Empty task content".to_owned()))?;
        let client_id = present(client_id).ok_or_else(|| (400, "Empty client ID".to_owned()))?;
        let task_name = match task_name {
            None => codec::uuid(&self.seed, 1),
            Some(name) if validate::is_task_name(&name) && name.len() <= MAX_NAME => name,
            Some(_) => return Err((400, BAD_TASK_NAME.to_owned())),
        };
        Ok(Task { client_id, task_name, session_id: codec::uuid(&self.seed, 2), request })
    }

    fn ask_roll(&mut self) {
        let request = self.asked.ask(Question::Roll);
        self.out.push_back(Output::Roll(request));
    }

    fn know_roll(&mut self, roll: &[Enrolled], now: Timestamp) {
        let Some(task) = &self.task else {
            let ids: Vec<&str> = roll.iter().map(|enrolled| enrolled.callsign.as_str()).collect();
            return self.answer(
                200,
                &match self.purpose {
                    Purpose::Health => json!({ "status": "healthy", "online_clients": ids }),
                    Purpose::Clients | Purpose::Dispatch | Purpose::Result(_) => {
                        json!({ "online_clients": ids })
                    }
                },
            );
        };
        // A31: devices only.
        let device = Callsign::from(task.client_id.as_str());
        let is_it = |enrolled: &&Enrolled| enrolled.callsign == device && enrolled.role == Role::Device;
        let Some(enrolled) = roll.iter().find(is_it) else { return self.refuse(404, NOT_ONLINE) };
        let Task { task_name, session_id, request, .. } = task;
        // First, so that the device cannot be quicker.
        self.fleet.dispatch(Dispatch {
            principal: enrolled.principal.clone(),
            device: device.clone(),
            task_name: task_name.clone(),
            session_id: session_id.clone(),
            reader: self.principal.id.clone(),
            at: now,
        });
        let body =
            json!({ "dispatch": { "task_name": task_name, "session_id": session_id, "request": request } });
        let request = self.asked.ask(Question::Delivered);
        self.out.push_back(Output::Note(request, device, body));
    }

    /// The device did not hear of its task.
    fn withdraw(&self) {
        if let Some(task) = &self.task {
            self.fleet.withdraw(&task.session_id);
        }
    }

    fn delivered(&mut self) {
        let Some(Task { client_id, task_name, session_id, .. }) = self.task.take() else { return };
        self.answer(
            200,
            &json!({ "status": "dispatched", "task_name": task_name, "client_id": client_id, "session_id": session_id }),
        );
    }

    /// The latest counts, and one of which nothing has come yet is later than any result.
    fn know_result(
        &mut self,
        found: Option<TaskResult>,
        refusal: Option<TaskResult>,
        begun: Option<Timestamp>,
    ) {
        let latest = found.into_iter().chain(refusal).max_by_key(|result| result.at);
        match latest.filter(|result| begun.is_none_or(|begun| result.at >= begun)) {
            Some(result) => self.say(200, format!(r#"{{"status":"done","result":{}}}"#, result.json)),
            None => self.answer(200, &json!({ "status": "pending" })),
        }
    }

    fn refuse(&mut self, status: u16, why: &str) {
        self.answer(status, &json!({ "detail": why }));
    }

    fn answer(&mut self, status: u16, body: &Value) {
        self.say(status, body.to_string());
    }

    fn say(&mut self, status: u16, json: String) {
        let headers = vec![("content-type", "application/json".to_owned())];
        self.out.push_back(Output::Send(Frame::Head(Box::new(Head { status, headers }))));
        self.out.push_back(Output::Send(Frame::Text(wide::restore(json))));
        self.out.push_back(Output::Close(DONE));
    }
}

impl Connection for Exchange {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        match input {
            Input::Frame(Frame::Text(text)) => self.begin(text.as_bytes(), now),
            Input::Frame(Frame::Binary(bytes)) => self.begin(&bytes, now),
            Input::Done(request, reply) => match (self.asked.answered(request), reply) {
                (Some(Question::Roll), Reply::Roll(roll)) => self.know_roll(&roll, now),
                (Some(Question::Delivered), _) => self.delivered(),
                (Some(Question::Result(refusal, begun)), Reply::Rows(rows)) => {
                    self.know_result(ledger::found(&rows), refusal, begun);
                }
                _ => {}
            },
            Input::Rejected(request, reject) => {
                self.asked.answered(request);
                self.withdraw();
                if let Reject::Offline(_) = reject {
                    self.refuse(404, NOT_ONLINE);
                } else {
                    self.refuse(503, "try again");
                }
            }
            Input::Closed(_) => self.out.push_back(Output::Close(DONE)),
            Input::Frame(Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_))
            | Input::Committed(..)
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

const DONE: Close = Close { code: 1000, reason: "" };
const NOT_ONLINE: &str = "Client not online";
const BAD_TASK_NAME: &str =
    "Invalid task_name: must be a non-empty string of characters [A-Za-z0-9._-] and must not start with '.'";
const MAX_NAME: usize = 256;
