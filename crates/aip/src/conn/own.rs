//! Tasks of this client: from their proposal to the one message that ends them (§6.2, §6.3).

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::model::{FailureKind, NewTurn, Origin, TurnEnd, TurnRequest};
use switchboard_core::{
    Callsign, Enrolled, Op, Output, Position, PrincipalId, Reject, Role, SessionId, Timestamp, TurnId,
};

use super::{AipConnection, Pending};
use crate::awaited::Dispatch;
use crate::error::{bounded, reject_words, words};
use crate::fleet::Taken;
use crate::ledger;
use crate::map::{Course, Names, PROTOCOL, Seen};
use crate::message::{ClientMessage, ClientType, ServerMessage, ServerMessageType, TaskStatus};
use crate::validate;

/// A task that is asked for.
#[derive(Debug)]
pub(super) struct Proposal {
    message: ClientMessage,
    names: Names,
    device: Callsign,
    request: String,
    /// Who sent it to the device over HTTP, if somebody did.
    dispatcher: Option<PrincipalId>,
}

/// A task of this client.
#[derive(Debug)]
pub(super) struct OwnTask {
    names: Names,
    turn: TurnId,
    session: SessionId,
    course: Course,
    /// Who may read the result over HTTP.
    reader: PrincipalId,
    begun: Timestamp,
    /// The session id that the client chose, if it did.
    chosen: Option<String>,
    request_id: Option<String>,
    accepted: bool,
    /// The task anew, while it is not known whether its session id is that of a session which somebody shared.
    unshared: Option<Box<NewTurn>>,
}

impl OwnTask {
    pub(super) fn is(&self, session: &SessionId, turn: &TurnId) -> bool {
        self.session == *session && self.turn == *turn
    }

    pub(super) fn follows(&self, session: &SessionId) -> bool {
        self.accepted && self.session == *session
    }
}

impl AipConnection {
    /// A client asks for a task. Everything that can be said without looking at others comes first.
    pub(super) fn propose(&mut self, message: ClientMessage) {
        let Some(identity) = &self.identity else { return };
        let (role, own, registered) = (identity.role, identity.callsign.clone(), identity.target.clone());
        let dispatched = self.take_dispatch(&message);
        let chosen = message.session_id.clone().filter(|id| !id.is_empty());
        let dispatcher = dispatched.as_ref().map(|known| known.reader.clone());
        let session_id = chosen.or_else(|| dispatched.map(|known| known.session_id));
        let session_id = session_id.unwrap_or_else(|| self.fresh_id());
        let task_name = message.task_name.as_deref().and_then(validate::sanitise_task_name);
        let task_name = Some(task_name.unwrap_or_else(|| self.fresh_id()));
        let target = message.target_id.clone().filter(|id| !id.is_empty()).map(Callsign::new);
        let proposal = Proposal {
            names: Names { session_id, task_name },
            device: target.clone().unwrap_or_else(|| own.clone()),
            request: message.request.clone().unwrap_or_default(),
            dispatcher,
            message,
        };
        if proposal.request.is_empty() {
            return self.refuse_task(&proposal, words::REQUEST);
        }
        match (role, target) {
            (ClientType::Device, Some(target)) if target != own => {
                self.refuse_task(&proposal, words::NOT_ITSELF);
            }
            (ClientType::Device, _) => self.start(proposal),
            (ClientType::Constellation, None) => self.refuse_task(&proposal, words::TASK_TARGET),
            (ClientType::Constellation, target) if target == registered => self.start(proposal),
            (ClientType::Constellation, Some(_)) => {
                self.undecided += 1;
                let request = self.asked.ask(Pending::Target(Box::new(proposal)));
                self.out.push_back(Output::Roll(request));
            }
        }
    }

    /// A target other than the registered one: whether it is there is told within what the principal
    /// may see, and it may be used only by a constellation that registered for none.
    pub(super) fn check_target(&mut self, proposal: Proposal, roll: &[Enrolled]) {
        let found = roll.iter().find(|enrolled| enrolled.callsign == proposal.device);
        let untargeted = self.identity.as_ref().is_some_and(|identity| identity.target.is_none());
        match found {
            None => {
                let why = words::not_connected(proposal.device.as_str());
                self.refuse_task(&proposal, &why);
            }
            Some(enrolled) if enrolled.role != Role::Device => {
                self.refuse_task(&proposal, words::NOT_A_DEVICE);
            }
            Some(_) if !untargeted => self.refuse_task(&proposal, words::OTHER_DEVICE),
            Some(_) => self.start(proposal),
        }
    }

    fn start(&mut self, proposal: Proposal) {
        if self.leaving {
            return self.refuse_task(&proposal, words::LEAVING);
        }
        if self.own.len() >= self.limits.tasks_per_constellation as usize {
            return self.refuse_task(&proposal, words::TOO_MANY_TASKS);
        }
        let Some(owner) = self.owner() else { return };
        let session_id = proposal.names.session_id.clone();
        match self.fleet.claim(&session_id, owner, &proposal.device) {
            Ok(()) => {}
            Err(Taken::ByItself) => return self.refuse_task(&proposal, &words::running(&session_id)),
            Err(Taken::ByAnother) => return self.refuse_task(&proposal, &words::owned(&session_id)),
            Err(Taken::Busy) => return self.refuse_task(&proposal, words::BUSY),
        }
        let counter = self.count();
        let turn = TurnId::fresh(&self.seed, counter);
        let Proposal { message, names, device, request, dispatcher } = proposal;
        let mut options = names.options();
        if let Some(dispatcher) = &dispatcher {
            options[ledger::READER] = dispatcher.as_str().into();
        }
        let origin = Origin {
            handle: Some(names.session_id.clone()),
            bound: true,
            options,
            ..Origin::new(self.principal.id.clone(), PROTOCOL)
        };
        let deadline = self.now.after(Duration::from_secs(self.limits.task_s.into()));
        let new = NewTurn {
            agent: Some(self.agent.clone()),
            device: Some(device),
            meta: message.metadata.map_or(Value::Null, Value::Object),
            ..NewTurn::new(turn.clone(), TurnRequest::chat(request.clone()), origin, deadline)
        };
        // A session that somebody shared is joined under its canonical name, if that is one.
        let maybe_shared = SessionId::is_canonical(&session_id);
        let unshared = maybe_shared.then(|| Box::new(new.clone()));
        let session = if maybe_shared {
            let session = SessionId::from(session_id.as_str());
            self.ask_for_turn(&session, &session_id, new);
            session
        } else {
            self.start_named(&session_id, new)
        };
        let reader = dispatcher.unwrap_or_else(|| self.principal.id.clone());
        if let Some(task_name) = &names.task_name {
            self.fleet.begin((reader.clone(), task_name.clone()), self.now);
        }
        let task = OwnTask {
            names,
            turn,
            session,
            course: Course::new(request),
            reader,
            begun: self.now,
            chosen: message.session_id,
            request_id: message.request_id,
            accepted: false,
            unshared,
        };
        self.own.insert(session_id, task);
    }

    /// Starts a turn in the session that the client calls so, which is made if there is none.
    fn start_named(&mut self, session_id: &str, new: NewTurn) -> SessionId {
        let session = self.session_of_tasks(session_id);
        let counter = self.count();
        let epoch = self.seed.epoch(counter);
        let open = Op::Open { epoch, agent: self.agent.clone(), name: Some(session_id.to_owned()) };
        self.submit(&session, open, Pending::Nothing);
        self.keep_ledger(&session);
        self.ask_for_turn(&session, session_id, new);
        session
    }

    fn ask_for_turn(&mut self, session: &SessionId, session_id: &str, new: NewTurn) {
        self.undecided += 1;
        self.submit(session, Op::StartTurn(Box::new(new)), Pending::Start(session_id.to_owned()));
    }

    /// Has what comes of tasks written down, of those too that are over already.
    fn keep_ledger(&mut self, session: &SessionId) {
        self.submit(session, Op::Chronicle { chronicle: ledger::CHRONICLE.into() }, Pending::Nothing);
    }

    /// Says no to a task.
    pub(super) fn refuse_task(&mut self, proposal: &Proposal, why: &str) {
        let Proposal { message, names, dispatcher, .. } = proposal;
        self.refuse_message(why, message);
        self.end_refused(message.session_id.clone(), why);
        if let Some(dispatcher) = dispatcher {
            self.turn_away(dispatcher, names, why);
        }
    }

    /// Ends a task that was not taken, for a client that chose its session id and so waits for its
    /// end (A8).
    pub(super) fn end_refused(&mut self, session_id: Option<String>, why: &str) {
        let Some(session_id) = session_id.filter(|id| !id.is_empty()) else { return };
        // A task of this client that runs under the same id is not over.
        if !self.own.contains_key(&session_id) && self.worked_on(&session_id).is_none() {
            let end = ServerMessage::new(ServerMessageType::TaskEnd, TaskStatus::Failed);
            self.send(ServerMessage { error: Some(bounded(why)), session_id: Some(session_id), ..end });
        }
    }

    /// The task is accepted: it is confirmed before anything else of it is said.
    pub(super) fn started(&mut self, session_id: &str, session: SessionId, turn: TurnId, accepted: Position) {
        let Some(task) = self.own.get_mut(session_id) else { return };
        task.accepted = true;
        task.unshared = None;
        task.session = session.clone();
        task.turn = turn;
        self.confirm(Some(session_id.to_owned()));
        // Only now: whoever may not start anything in a session of others leaves nothing there.
        if session.as_str() == session_id {
            self.keep_ledger(&session);
        }
        // A device is invited to its own tasks as to any other.
        if self.identity.as_ref().is_some_and(|identity| identity.role == ClientType::Constellation) {
            self.follow(&session, Some(accepted));
        }
    }

    pub(super) fn not_started(&mut self, session_id: &str, reject: &Reject) {
        // Nobody shared a session that is called so: it is a name like any other.
        let unshared = self.own.get_mut(session_id).and_then(|task| task.unshared.take());
        if let (Some(new), Reject::NotFound) = (unshared, reject) {
            let session = self.start_named(session_id, *new);
            if let Some(task) = self.own.get_mut(session_id) {
                task.session = session;
            }
            return;
        }
        let Some(task) = self.forget_task(session_id) else { return };
        let why = reject_words(reject);
        self.turn_away(&task.reader, &task.names, &why);
        self.refuse(&why, task.chosen.clone(), task.request_id);
        self.end_refused(task.chosen, &why);
    }

    fn forget_task(&mut self, session_id: &str) -> Option<OwnTask> {
        let task = self.own.remove(session_id)?;
        if let Some(owner) = self.owner() {
            self.fleet.release(session_id, &owner);
        }
        if let Some(task_name) = &task.names.task_name {
            self.fleet.end(&(task.reader.clone(), task_name.clone()), task.begun);
        }
        Some(task)
    }

    /// What an event means for the tasks of this client.
    pub(super) fn own_event(&mut self, session: &SessionId, seen: Seen<'_>, at: Timestamp) {
        let (Seen::Text(turn, _) | Seen::Stopped(turn, _) | Seen::Ended(turn, _)) = seen else { return };
        let Some(task) = self.own.values_mut().find(|task| task.is(session, turn)) else { return };
        match seen {
            Seen::Text(_, text) => task.course.say(text),
            Seen::Stopped(_, reason) => task.course.stop(reason),
            Seen::Ended(turn, end) => {
                let message = task.course.end(turn, &task.names, end);
                let session_id = task.names.session_id.clone();
                self.forget_task(&session_id);
                self.send_as_of(message, at);
            }
            Seen::Accepted { .. } | Seen::Asked(..) | Seen::Answered(..) | Seen::Nothing => {}
        }
    }

    /// Keeps why a task came to nothing, to be read over HTTP.
    fn turn_away(&self, reader: &PrincipalId, names: &Names, why: &str) {
        if let Some(task_name) = &names.task_name {
            self.fleet.turn_away((reader.clone(), task_name.clone()), why, self.now);
        }
    }

    /// A client says that a task is over: its owner, or the device that works for it (A13).
    pub(super) fn end_task(&mut self, message: &ClientMessage) {
        let Some(session_id) = message.session_id.as_deref() else { return };
        let reason = message.error.clone().filter(|reason| !reason.is_empty());
        let failed = matches!(message.status, TaskStatus::Failed | TaskStatus::Error);
        let owned = self.own.get_mut(session_id).filter(|_| failed);
        let (session, turn) = if let Some(task) = owned {
            (task.session.clone(), task.turn.clone())
        } else if let Some((session, turn)) = self.worked_on(session_id) {
            if message.status == TaskStatus::Completed {
                let op = Op::Conclude { turn, end: TurnEnd::complete() };
                return self.insist(&session, op);
            }
            (session, turn)
        } else {
            return self.decline(session_id, reason.filter(|_| failed));
        };
        if failed {
            self.insist(&session, Op::Interrupt { turn, reason });
        }
    }

    /// A device does not take up what was sent to it over HTTP, and may say why.
    fn decline(&self, session_id: &str, reason: Option<String>) {
        if let Some(identity) = &self.identity {
            let why = reason.as_deref().map_or(Cow::Borrowed(words::NOT_TAKEN_UP), |why| bounded(why).into());
            self.fleet.decline((&self.principal.id, &identity.callsign), session_id, &why, self.now);
        }
    }

    /// The client is gone: nothing that it asked for goes on (A14).
    pub(super) fn abandon_tasks(&mut self, leaving: bool) {
        let tasks: Vec<String> = self.own.keys().cloned().collect();
        for session_id in tasks {
            let Some(task) = self.forget_task(&session_id) else { continue };
            let why = if leaving { words::LEAVING } else { words::OWNER_LOST };
            let end = TurnEnd::failed(FailureKind::Unreachable, why);
            if leaving {
                self.send(task.course.end(&task.turn, &task.names, &end));
            }
            self.submit(&task.session, Op::Conclude { turn: task.turn, end }, Pending::Nothing);
        }
    }

    /// A task for this device came over HTTP: it is told, and expected to ask for it itself.
    pub(super) fn dispatch(&mut self, body: &Value) {
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let task = ServerMessage::new(ServerMessageType::Task, TaskStatus::Continue);
        self.send(ServerMessage {
            user_request: text("request"),
            session_id: text("session_id"),
            task_name: text("task_name"),
            ..task
        });
    }

    /// The dispatched task that a device takes up with this message.
    fn take_dispatch(&self, message: &ClientMessage) -> Option<Dispatch> {
        let identity = self.identity.as_ref()?;
        let task_name = message.task_name.as_deref()?;
        let session_id = message.session_id.as_deref().filter(|id| !id.is_empty());
        self.fleet.take_up((&self.principal.id, &identity.callsign), task_name, session_id, self.now)
    }
}
