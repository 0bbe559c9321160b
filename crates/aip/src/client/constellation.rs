//! A constellation: one connection for one device, and tasks for it one after another.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_core::client::{Down, LinkChange};
use switchboard_core::{ClientMachine, Seed, Timestamp};

use super::link::{Link, NORMAL, Phase, Sent, Step};
use super::{
    Cause, CommandError, ConstellationEvent, DEFAULT_INTERVAL, DeviceInfo, DeviceState, Ending, FailureKind,
    Fault, Heartbeat, Ids, Input, NoInfo, Output, Pipeline, Registration, Strategy, TaskExecution,
    TaskRequest, Times, Trouble,
};
use crate::message::{ClientMessage, ClientType, ServerMessage, ServerMessageType, TaskStatus};

/// What a constellation is and wants.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstellationConfig {
    /// The client id.
    pub constellation_id: String,
    /// The device it is there for.
    pub target_device: String,
    /// What else to say at registration.
    pub metadata: Map<String, Value>,
    /// Whether to ask what the device is like before it is given tasks.
    pub ask_info: bool,
    /// How many tasks may wait.
    pub max_waiting: usize,
    /// How long a task may take.
    pub task: Duration,
    /// How long the answer about the device may take.
    pub info: Duration,
    /// How long other things may take.
    pub times: Times,
}

impl ConstellationConfig {
    /// A constellation of this name for this device, with what the reference uses for the rest.
    pub fn new(constellation_id: impl Into<String>, target_device: impl Into<String>) -> Self {
        Self {
            constellation_id: constellation_id.into(),
            target_device: target_device.into(),
            metadata: Map::new(),
            ask_info: true,
            max_waiting: 256,
            task: Duration::from_secs(300),
            info: Duration::from_secs(10),
            times: Times {
                heartbeat: DEFAULT_INTERVAL,
                registration: Duration::from_secs(30),
                reconnect: Strategy::default(),
            },
        }
    }
}

/// A task for the device.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// What is to be done.
    pub request: String,
    /// What a person calls it.
    pub task_name: Option<String>,
    /// What it is called otherwise; made up if there is none.
    pub session_id: Option<String>,
    /// Anything else.
    pub metadata: Option<Map<String, Value>>,
}

impl NewTask {
    /// This is to be done.
    pub fn new(request: impl Into<String>) -> Self {
        Self { request: request.into(), task_name: None, session_id: None, metadata: None }
    }

    /// What a person calls it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.task_name = Some(name.into());
        self
    }

    /// What it is called otherwise.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session_id = Some(session.into());
        self
    }
}

/// One constellation: at most one transport at a time, any number of them one after another.
#[derive(Debug)]
pub struct Constellation {
    config: ConstellationConfig,
    link: Link<ConstellationEvent>,
    ids: Ids,
    registration: Registration,
    tasks: TaskExecution,
    heartbeat: Heartbeat,
    info: DeviceInfo,
    state: DeviceState,
    waiting: VecDeque<Waiting>,
    running: Option<Running>,
    /// Questions without an answer, and until when it may come.
    asked: BTreeMap<String, Timestamp>,
    /// The question that comes before all tasks.
    first_asked: Option<String>,
}

/// A task that was not sent.
#[derive(Debug)]
struct Waiting {
    session_id: String,
    task: NewTask,
}

/// The task that was sent.
#[derive(Debug)]
struct Running {
    session_id: String,
    request_id: Option<String>,
    by: Timestamp,
    accepted: bool,
}

impl ClientMachine for Constellation {
    type Event = ConstellationEvent;
    type Fault = Fault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        let step = self.link.handle(input, now);
        self.step(step, now);
        self.expire(now);
    }

    fn poll_output(&mut self) -> Output<ConstellationEvent> {
        self.link.poll().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }

    fn link(event: &ConstellationEvent) -> Option<LinkChange<'_, Fault>> {
        match event {
            ConstellationEvent::State(DeviceState::Connected) => Some(LinkChange::Up),
            ConstellationEvent::Down(down) => Some(LinkChange::Down(down)),
            ConstellationEvent::State(_)
            | ConstellationEvent::TaskAccepted { .. }
            | ConstellationEvent::TaskEnded { .. }
            | ConstellationEvent::Info { .. }
            | ConstellationEvent::Trouble(_) => None,
        }
    }
}

impl Constellation {
    /// A constellation without a connection. Its ids come from the seed.
    pub fn new(config: ConstellationConfig, seed: Seed) -> Self {
        let link = Link::new(config.constellation_id.clone(), config.times.clone(), &seed);
        let of = |purpose| Ids::new(Seed::new(seed.derive(purpose, 0)));
        Self {
            config,
            link,
            ids: of("sessions"),
            registration: Registration::new(of("registration")),
            tasks: TaskExecution::new(of("tasks")),
            heartbeat: Heartbeat::new(of("heartbeat")),
            info: DeviceInfo::new(of("info")),
            state: DeviceState::Disconnected,
            waiting: VecDeque::new(),
            running: None,
            asked: BTreeMap::new(),
            first_asked: None,
        }
    }

    /// Gives the device a task, behind those that wait; answers its session. Exactly one
    /// [`ConstellationEvent::TaskEnded`] follows.
    ///
    /// # Errors
    /// There is no connection and none is looked for, or the task cannot be taken.
    pub fn submit(&mut self, task: NewTask, now: Timestamp) -> Result<String, CommandError> {
        if task.request.is_empty() {
            return Err(CommandError::Empty);
        }
        if self.link.phase() == Phase::Off {
            return Err(CommandError::NotConnected);
        }
        if self.waiting.len() >= self.config.max_waiting {
            return Err(CommandError::Full { limit: self.config.max_waiting });
        }
        let session_id = task.session_id.clone().unwrap_or_else(|| self.ids.fresh());
        let runs = self.running.as_ref().is_some_and(|running| running.session_id == session_id);
        if runs || self.waiting.iter().any(|waiting| waiting.session_id == session_id) {
            return Err(CommandError::Duplicate);
        }
        self.waiting.push_back(Waiting { session_id: session_id.clone(), task });
        self.start_next(now);
        Ok(session_id)
    }

    /// Wants a task to end; its end follows.
    ///
    /// # Errors
    /// There is no such task.
    pub fn cancel(&mut self, session_id: &str, reason: &str, now: Timestamp) -> Result<(), CommandError> {
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.session_id == session_id) {
            self.waiting.remove(place);
            self.failed(session_id.to_owned(), FailureKind::ExecutionError, &format!("cancelled: {reason}"));
            return Ok(());
        }
        if self.running.as_ref().is_none_or(|running| running.session_id != session_id) {
            return Err(CommandError::Unknown);
        }
        self.call_off(session_id, reason, now);
        Ok(())
    }

    /// Asks what the device is like; the answer comes under this id.
    ///
    /// # Errors
    /// Not connected.
    pub fn request_info(&mut self, now: Timestamp) -> Result<String, CommandError> {
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        Ok(self.ask(now))
    }

    /// What looks at every message.
    pub const fn middleware(&mut self) -> &mut Pipeline {
        &mut self.link.middleware
    }

    /// The device's state.
    pub const fn state(&self) -> DeviceState {
        self.state
    }

    fn step(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Nothing => {}
            Step::Connecting => self.enter(DeviceState::Connecting),
            Step::Register => {
                let (id, target) = (&self.config.constellation_id, &self.config.target_device);
                let metadata = self.config.metadata.clone();
                let message = self.registration.register_as_constellation(id, target, metadata, now);
                self.enter(DeviceState::Registering);
                if self.link.send(message) == Sent::Blocked {
                    let lost = self.link.hang_up(NORMAL, Fault::Blocked.into());
                    self.step(lost, now);
                }
            }
            Step::Accepted => {
                self.enter(DeviceState::Connected);
                if self.config.ask_info {
                    let question = self.ask(now);
                    self.first_asked = Some(question);
                } else {
                    self.idle(now);
                }
            }
            Step::Message(message) => self.receive(*message, now),
            Step::Beat => {
                let device =
                    Map::from_iter([("device_id".to_owned(), self.config.target_device.clone().into())]);
                let message = self.heartbeat.heartbeat(&self.config.constellation_id, Some(device), now);
                self.link.send(message);
            }
            Step::Lost(cause) => self.lost(cause, now),
            Step::Left => {
                self.fail_all("this client left");
                self.link.leave();
                self.link.event(ConstellationEvent::Down(Down { cause: Cause::Left, retry_at: None }));
                self.enter(DeviceState::Disconnected);
            }
        }
    }

    /// Tasks end before anything else happens.
    fn lost(&mut self, cause: Cause, now: Timestamp) {
        const WHY: &str = "the connection to the server was lost";
        if self.link.is_up() {
            self.fail_all(WHY);
        }
        let retry_at = self.link.retry(&cause, now);
        if retry_at.is_none() {
            self.fail_all(WHY);
        }
        self.link.event(ConstellationEvent::Down(Down { cause, retry_at }));
        self.enter(if retry_at.is_some() { DeviceState::Disconnected } else { DeviceState::Failed });
    }

    fn receive(&mut self, message: ServerMessage, now: Timestamp) {
        match message.kind {
            ServerMessageType::Heartbeat => {
                let acked = self.running.as_mut().filter(|running| {
                    !running.accepted && message.session_id.as_deref() == Some(&running.session_id)
                });
                if let Some(running) = acked {
                    running.accepted = true;
                    let session_id = running.session_id.clone();
                    self.link.event(ConstellationEvent::TaskAccepted { session_id });
                }
            }
            ServerMessageType::TaskEnd => self.ended(message, now),
            ServerMessageType::Error => self.refused(message, now),
            ServerMessageType::DeviceInfoResponse => self.answered(message, now),
            ServerMessageType::Task | ServerMessageType::Command | ServerMessageType::DeviceInfoRequest => {
                let kind = message.kind;
                self.link.event(Trouble::Unusable(format!("a constellation has no use for {kind}")));
            }
        }
    }

    fn ended(&mut self, mut message: ServerMessage, now: Timestamp) {
        // Of tasks that were given up nobody wants to hear.
        let is_over = |running: &mut Running| message.session_id.as_deref() == Some(&running.session_id);
        let Some(running) = self.running.take_if(is_over) else { return };
        let result = message.take_result();
        let ending = match message.status {
            TaskStatus::Completed => Ending::Completed(result),
            // A task that ends without having ended has failed (A30).
            TaskStatus::Failed | TaskStatus::Continue | TaskStatus::Ok | TaskStatus::Error => {
                let error = message.error.unwrap_or_else(|| "the task failed".to_owned());
                let lost = error == DEVICE_LOST;
                let kind = if lost { FailureKind::DeviceDisconnection } else { FailureKind::ExecutionError };
                Ending::Failed { kind, error, result }
            }
        };
        self.link.event(ConstellationEvent::TaskEnded { session_id: running.session_id, ending });
        self.idle(now);
    }

    /// An error may be the answer to a question, or to a task that was not taken.
    fn refused(&mut self, message: ServerMessage, now: Timestamp) {
        let error = message.error.unwrap_or_else(|| "Unknown error".to_owned());
        if let Some(id) = message.response_id.as_ref().filter(|id| self.asked.contains_key(*id)) {
            self.told(id.clone(), Err(NoInfo::Unknown(error)), now);
            return;
        }
        let is_meant = |running: &mut Running| {
            let by_session = message.session_id.as_deref() == Some(&running.session_id);
            let by_request = message.response_id.is_some() && message.response_id == running.request_id;
            !running.accepted && (by_session || by_request)
        };
        match self.running.take_if(is_meant) {
            Some(running) => {
                self.failed(running.session_id, FailureKind::ExecutionError, &error);
                self.idle(now);
            }
            None => self.link.event(Trouble::Server { error, session_id: message.session_id }),
        }
    }

    fn answered(&mut self, mut message: ServerMessage, now: Timestamp) {
        let result = message.take_result();
        let Some(id) = message.response_id.filter(|id| self.asked.contains_key(id)) else { return };
        let info = match (message.status, result) {
            (TaskStatus::Error, _) => {
                Err(NoInfo::Unknown(message.error.unwrap_or_else(|| "Unknown error".to_owned())))
            }
            (_, Value::Object(info)) => match info.get("error") {
                None => Ok(info),
                Some(Value::String(error)) => Err(NoInfo::Unknown(error.clone())),
                Some(error) => Err(NoInfo::Unknown(error.to_string())),
            },
            (_, _) => Err(NoInfo::Unknown("the answer is not an object".to_owned())),
        };
        self.told(id, info, now);
    }

    fn told(&mut self, request_id: String, info: Result<Map<String, Value>, NoInfo>, now: Timestamp) {
        self.asked.remove(&request_id);
        let first = self.first_asked.take_if(|first| *first == request_id).is_some();
        self.link.event(ConstellationEvent::Info { request_id, info });
        if first {
            self.idle(now);
        }
    }

    fn ask(&mut self, now: Timestamp) -> String {
        let (id, target) = (&self.config.constellation_id, &self.config.target_device);
        let question = self.ids.fresh();
        let message = self.info.request_device_info(id, target, Some(question.clone()), now);
        // If it is blocked, the answer will not come in time.
        self.link.send(message);
        self.asked.insert(question.clone(), now.after(self.config.info));
        question
    }

    /// The device may have the next task.
    fn idle(&mut self, now: Timestamp) {
        self.enter(DeviceState::Idle);
        self.start_next(now);
    }

    fn start_next(&mut self, now: Timestamp) {
        while self.state == DeviceState::Idle {
            let Some(Waiting { session_id, task }) = self.waiting.pop_front() else { return };
            let request = TaskRequest::new(task.request, &self.config.constellation_id);
            let message = self.tasks.task_request(
                TaskRequest {
                    task_name: task.task_name,
                    session_id: Some(session_id.clone()),
                    target_id: Some(self.config.target_device.clone()),
                    client_type: ClientType::Constellation,
                    metadata: task.metadata,
                    ..request
                },
                now,
            );
            let request_id = message.request_id.clone();
            if self.link.send(message) == Sent::Blocked {
                self.failed(session_id, FailureKind::ExecutionError, "the task was stopped on its way");
                continue;
            }
            let by = now.after(self.config.task);
            self.running = Some(Running { session_id, request_id, by, accepted: false });
            self.enter(DeviceState::Busy);
        }
    }

    /// What has taken too long.
    fn expire(&mut self, now: Timestamp) {
        if let Some(running) = self.running.take_if(|running| running.by <= now) {
            self.call_off(&running.session_id, "it took too long", now);
            self.failed(running.session_id, FailureKind::Timeout, "the task took too long");
            self.idle(now);
        }
        let late = self.asked.iter().filter(|(_, by)| **by <= now).map(|(id, _)| id.clone());
        for id in late.collect::<Vec<String>>() {
            self.told(id, Err(NoInfo::Timeout), now);
        }
    }

    /// Tells the server that nobody waits for the task any more.
    fn call_off(&mut self, session_id: &str, reason: &str, now: Timestamp) {
        let (client, reason) = (&self.config.constellation_id, Some(reason.to_owned()));
        let message = self.tasks.task_end_ack(session_id, client, TaskStatus::Failed, reason, now);
        self.link.send(ClientMessage { client_type: ClientType::Constellation, ..message });
    }

    fn fail_all(&mut self, why: &str) {
        let running = self.running.take().map(|running| running.session_id);
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.session_id);
        for session_id in running.into_iter().chain(waiting) {
            self.failed(session_id, FailureKind::DeviceDisconnection, why);
        }
        for (request_id, _) in std::mem::take(&mut self.asked) {
            let info = Err(NoInfo::Disconnected);
            self.link.event(ConstellationEvent::Info { request_id, info });
        }
    }

    fn failed(&mut self, session_id: String, kind: FailureKind, error: &str) {
        let ending = Ending::Failed { kind, error: error.to_owned(), result: Value::Null };
        self.link.event(ConstellationEvent::TaskEnded { session_id, ending });
    }

    fn enter(&mut self, state: DeviceState) {
        if self.state != state {
            self.state = state;
            self.link.event(ConstellationEvent::State(state));
        }
    }

    fn wake(&self) -> Option<Timestamp> {
        let running = self.running.as_ref().map(|running| running.by);
        let asked = self.asked.values().min().copied();
        [self.link.wake(), running, asked].into_iter().flatten().min()
    }
}

impl From<Trouble> for ConstellationEvent {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// What servers say of a task whose device they have lost.
const DEVICE_LOST: &str = "Task was cancelled because target device disconnected";
