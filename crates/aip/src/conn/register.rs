//! Registration: who a client is, and whether it may be that (§6.1, §9.2).

use serde_json::{Map, Value};
use switchboard_core::model::Device;
use switchboard_core::{Callsign, Enrolment, Op, Output, Reject, Role, SessionId};

use super::{AipConnection, Identity, Pending};
use crate::codec;
use crate::error::{REFUSED, words};
use crate::map::PROTOCOL;
use crate::message::{ClientMessage, ClientMessageType, ClientType};
use crate::state::Step;

impl AipConnection {
    /// The first message of a connection, which can only be REGISTER.
    pub(super) fn receive_first(&mut self, text: &str) {
        if text.len() > self.limits.max_first_message as usize {
            return self.turn_down("the message is too large for an unregistered client", None, None);
        }
        let message = match codec::decode_client(text) {
            Ok(message) => message,
            Err(error) => {
                let why = error.to_string();
                return self.turn_down(&why, error.session_id, error.request_id);
            }
        };
        if message.kind != ClientMessageType::Register {
            return self.turn_down(words::REGISTER_FIRST, message.session_id, message.request_id);
        }
        match self.enrolment(&message) {
            Err(why) => self.turn_down(&why, None, message.request_id),
            Ok(enrolment) => {
                self.step(Step::Register);
                let request = self.asked.ask(Pending::Enrol(Box::new(message)));
                self.out.push_back(Output::Enrol(request, enrolment));
            }
        }
    }

    /// What is asked for, or why it cannot be had. Nothing here looks at who else is connected.
    fn enrolment(&self, message: &ClientMessage) -> Result<Enrolment, String> {
        let client_id = message.client_id.as_deref().filter(|id| !id.is_empty()).ok_or(words::CLIENT_ID)?;
        if let Some(why) = self.too_long(message) {
            return Err(why);
        }
        let role = match message.client_type {
            ClientType::Device => Role::Device,
            ClientType::Constellation => Role::Orchestrator,
        };
        if !self.principal.scopes.allows_callsign(role, client_id) {
            return Err(words::NOT_PERMITTED.to_owned());
        }
        let target = message.target_id.as_deref().filter(|id| !id.is_empty() && role == Role::Orchestrator);
        if role == Role::Orchestrator && target.is_none() && !self.service.allow_untargeted {
            return Err(words::TARGET_NEEDED.to_owned());
        }
        Ok(Enrolment { callsign: Callsign::from(client_id), role, target: target.map(Callsign::from) })
    }

    /// The name is this client's.
    pub(super) fn enrolled(&mut self, message: ClientMessage) {
        let callsign = Callsign::from(message.client_id.as_deref().unwrap_or_default());
        let mut metadata = message.metadata.unwrap_or_default();
        let platform =
            metadata.get("platform").and_then(Value::as_str).unwrap_or(DEFAULT_PLATFORM).to_owned();
        let wants = |name: &str| metadata.get(name) == Some(&Value::Bool(true));
        let (wants_tasks, names_askers) = (wants("task_announce"), wants("names_askers"));
        let target = message.target_id.filter(|id| !id.is_empty()).map(Callsign::new);
        self.identity = Some(Identity {
            callsign: callsign.clone(),
            role: message.client_type,
            target: target.filter(|_| message.client_type == ClientType::Constellation),
            platform: platform.clone(),
            wants_tasks,
            names_askers,
        });
        if message.client_type == ClientType::Constellation {
            return self.registered(Step::Granted);
        }
        self.step(Step::GrantedToDevice);
        let facts = metadata.shift_remove("system_info").filter(Value::is_object).unwrap_or(Value::Null);
        self.facts.known = facts.clone();
        let profile = profile(metadata);
        let device = Device { callsign, protocol: PROTOCOL.to_owned(), platform, facts, profile };
        let home = self.home();
        let counter = self.count();
        let open = Op::Open {
            epoch: self.seed.epoch(counter),
            agent: self.agent.clone(),
            name: Some(format!("device {}", device.callsign)),
        };
        self.submit(&home, open, Pending::Nothing);
        self.submit(&home, Op::Join(Box::new(device)), Pending::Join);
    }

    /// The session that keeps the profile of this device.
    pub(super) fn home(&self) -> SessionId {
        self.home_of(self.identity.as_ref().map_or("", |identity| identity.callsign.as_str()))
    }

    /// The session that keeps the profile of a device of this principal's.
    fn home_of(&self, device: &str) -> SessionId {
        SessionId::named(&self.principal, &format!("\0aip\0{device}"))
    }

    /// The session of tasks that this principal calls so. Names with a zero byte in front are those of sessions that
    /// the server keeps for itself, so a client that uses one is given another.
    pub(super) fn session_of_tasks(&self, session_id: &str) -> SessionId {
        match session_id.strip_prefix('\0') {
            Some(rest) => SessionId::named(&self.principal, &format!("\0aip-task\0{rest}")),
            None => SessionId::named(&self.principal, session_id),
        }
    }

    pub(super) fn not_enrolled(&mut self, message: &ClientMessage, reject: &Reject) {
        let why = match reject {
            Reject::Enrolled(callsign) => words::duplicate(callsign.as_str()),
            Reject::Offline(device) => words::not_connected(device.as_str()),
            Reject::Forbidden => {
                return self.turn_down(words::NOT_PERMITTED, None, message.request_id.clone());
            }
            Reject::NotFound
            | Reject::UnknownTurn(_)
            | Reject::TurnOver(_)
            | Reject::Fenced(_)
            | Reject::DuplicateTurn(_)
            | Reject::CallGone(_)
            | Reject::UnknownTool(_)
            | Reject::InvalidArgs(_)
            | Reject::UnknownAgent(_)
            | Reject::UnknownMessage(_)
            | Reject::DuplicateMessage(_)
            | Reject::Inactive
            | Reject::Unserved { .. }
            | Reject::KeyConflict
            | Reject::AttachmentGone
            | Reject::Invalid(_)
            | Reject::Limit { .. }
            | Reject::Quota { .. }
            | Reject::RateLimited { .. }
            | Reject::Draining
            | Reject::Busy
            | Reject::Unavailable { .. }
            | Reject::Unauthenticated => words::INTERNAL.to_owned(),
        };
        self.refuse_registration(&why, message.request_id.clone());
    }

    /// The client may begin.
    pub(super) fn registered(&mut self, step: Step) {
        self.step(step);
        self.confirm(None);
        for body in std::mem::take(&mut self.early_notes) {
            self.noted(&body);
        }
    }

    /// Says why, and closes. Nobody is to blame: the same registration may be good a moment later.
    fn refuse_registration(&mut self, why: &str, request_id: Option<String>) {
        self.refuse(why, None, request_id);
        self.end(REFUSED);
    }

    /// The same, to a client that says what makes no sense, or asks for what it may not have; that is counted (§9.5).
    pub(super) fn turn_down(&mut self, why: &str, session_id: Option<String>, request_id: Option<String>) {
        self.fleet.count_refusal(&self.principal.id, self.now);
        self.refuse(why, session_id, request_id);
        self.end(REFUSED);
    }

    /// The profile of the device could not be kept.
    pub(super) fn not_joined(&mut self) {
        self.refuse_registration(words::INTERNAL, None);
    }
}

/// What is kept of the metadata besides the facts.
fn profile(metadata: Map<String, Value>) -> Value {
    if metadata.is_empty() { Value::Null } else { Value::Object(metadata) }
}

/// What the reference takes a device for that does not say (§6.1).
const DEFAULT_PLATFORM: &str = "windows";
