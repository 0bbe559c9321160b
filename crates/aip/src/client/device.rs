//! A device: registers, beats, runs commands.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_core::client::{Down, LinkChange};
use switchboard_core::{ClientMachine, Seed, Timestamp};

use super::link::{Link, NORMAL, Sent, Step};
use super::{
    Cause, CommandError, CommandResults, DEFAULT_INTERVAL, DeviceEvent, DeviceInfo, Fault, Heartbeat, Ids,
    Input, Output, Pipeline, Registration, Run, RunId, Strategy, TaskExecution, TaskRequest, Times, Trouble,
};
use crate::message::{
    ClientMessage, Command, Outcome, ResultStatus, ServerMessage, ServerMessageType, TaskStatus,
};

/// What a device is and wants.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// The client id.
    pub device_id: String,
    /// `windows`, `linux`, …
    pub platform: String,
    /// What to say of the device, at registration and whenever the server asks; see
    /// [`SystemInfo`](crate::message::SystemInfo).
    pub info: Map<String, Value>,
    /// What else to say at registration.
    pub metadata: Map<String, Value>,
    /// Whether tasks of others are announced before their commands come (A25). Such a device must not
    /// take an announcement for work of its own.
    pub task_announce: bool,
    /// Whether commands are to say who asks for them and for which task, for people to read (A34).
    pub names_askers: bool,
    /// How many messages with commands, and how many tasks of its own, may wait.
    pub max_waiting: usize,
    /// How long things may take.
    pub times: Times,
}

impl DeviceConfig {
    /// A device of this name, with what the reference uses for the rest.
    pub fn new(device_id: impl Into<String>, platform: impl Into<String>) -> Self {
        Self {
            device_id: device_id.into(),
            platform: platform.into(),
            info: Map::new(),
            metadata: Map::new(),
            task_announce: false,
            names_askers: false,
            max_waiting: 64,
            times: Times {
                heartbeat: DEFAULT_INTERVAL,
                registration: Duration::from_secs(30),
                reconnect: Strategy::device(),
            },
        }
    }
}

/// One device: at most one transport at a time, any number of them one after another.
///
/// Commands are handed out one at a time, in their order. After the first that fails the rest of its
/// message is skipped. Messages wait for each other.
#[derive(Debug)]
pub struct Device {
    config: DeviceConfig,
    link: Link<DeviceEvent>,
    ids: Ids,
    registration: Registration,
    tasks: TaskExecution,
    heartbeat: Heartbeat,
    info: DeviceInfo,
    batches: VecDeque<Batch>,
    runs: u64,
    /// Sessions of the device's own tasks.
    open: BTreeSet<String>,
}

/// The commands of one message.
#[derive(Debug)]
struct Batch {
    /// Without its commands.
    message: Box<ServerMessage>,
    response_id: String,
    waiting: VecDeque<Command>,
    /// What was handed out, and its `call_id`.
    running: Option<(RunId, Option<String>)>,
    done: Vec<Outcome>,
}

impl ClientMachine for Device {
    type Event = DeviceEvent;
    type Fault = Fault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        let step = self.link.handle(input, now);
        self.step(step, now);
    }

    fn poll_output(&mut self) -> Output<DeviceEvent> {
        self.link.poll().unwrap_or_else(|| Output::Idle { wake: self.link.wake() })
    }

    fn link(event: &DeviceEvent) -> Option<LinkChange<'_, Fault>> {
        match event {
            DeviceEvent::Registered => Some(LinkChange::Up),
            DeviceEvent::Down(down) => Some(LinkChange::Down(down)),
            DeviceEvent::Run(_)
            | DeviceEvent::Abandoned(_)
            | DeviceEvent::Assigned { .. }
            | DeviceEvent::Accepted { .. }
            | DeviceEvent::TaskEnded { .. }
            | DeviceEvent::Trouble(_) => None,
        }
    }
}

impl Device {
    /// A device without a connection. Its ids come from the seed.
    pub fn new(config: DeviceConfig, seed: Seed) -> Self {
        let link = Link::new(config.device_id.clone(), config.times.clone(), &seed);
        let of = |purpose| Ids::new(Seed::new(seed.derive(purpose, 0)));
        Self {
            config,
            link,
            ids: of("sessions"),
            registration: Registration::new(of("registration")),
            tasks: TaskExecution::new(of("tasks")),
            heartbeat: Heartbeat::new(of("heartbeat")),
            info: DeviceInfo::new(of("info")),
            batches: VecDeque::new(),
            runs: 0,
            open: BTreeSet::new(),
        }
    }

    /// Reports how a command ended. Its `call_id` is put in.
    ///
    /// # Errors
    /// Nobody waits for this command, or not any more.
    pub fn finish(&mut self, id: RunId, mut outcome: Outcome, now: Timestamp) -> Result<(), CommandError> {
        let batch = self.batches.front_mut().ok_or(CommandError::Unknown)?;
        let (_, call_id) =
            batch.running.take_if(|(running, _)| *running == id).ok_or(CommandError::Unknown)?;
        let failed = outcome.status == ResultStatus::Failure;
        outcome.call_id = call_id;
        batch.done.push(outcome);
        if failed {
            let skipped = batch.waiting.drain(..).map(|command| Outcome {
                error: Some("an earlier command failed".to_owned()),
                call_id: command.call_id,
                ..Outcome::new(ResultStatus::Skipped)
            });
            batch.done.extend(skipped);
        }
        self.work(now);
        Ok(())
    }

    /// Wants something done by this device itself; answers the session it will have.
    ///
    /// # Errors
    /// Not connected, nothing to do, or too much already.
    pub fn submit(
        &mut self,
        request: impl Into<String>,
        task_name: Option<String>,
        now: Timestamp,
    ) -> Result<String, CommandError> {
        let request = request.into();
        if request.is_empty() {
            return Err(CommandError::Empty);
        }
        self.check_up()?;
        if self.open.len() >= self.config.max_waiting {
            return Err(CommandError::Full { limit: self.config.max_waiting });
        }
        let session_id = self.ids.fresh();
        self.open.insert(session_id.clone());
        self.submit_task(request, task_name, Some(session_id.clone()), now);
        Ok(session_id)
    }

    /// Wants a task to end; its end follows.
    ///
    /// # Errors
    /// Not connected.
    pub fn cancel(&mut self, session_id: &str, reason: &str, now: Timestamp) -> Result<(), CommandError> {
        self.check_up()?;
        let (client, reason) = (&self.config.device_id, Some(reason.to_owned()));
        let message = self.tasks.task_end_ack(session_id, client, TaskStatus::Failed, reason, now);
        self.link.send(message);
        Ok(())
    }

    /// What to say of the device from now on; the server is told if there is a connection.
    pub fn set_info(&mut self, info: Map<String, Value>, now: Timestamp) {
        self.config.info = info;
        if self.link.is_up() {
            let message = self.info.device_info_push(&self.config.device_id, self.config.info.clone(), now);
            self.link.send(message);
        }
    }

    /// What looks at every message.
    pub const fn middleware(&mut self) -> &mut Pipeline {
        &mut self.link.middleware
    }

    /// Whether the server knows this device.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    fn step(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Nothing | Step::Connecting => {}
            Step::Register => {
                let message = self.register(now);
                if self.link.send(message) == Sent::Blocked {
                    let lost = self.link.hang_up(NORMAL, Fault::Blocked.into());
                    self.step(lost, now);
                }
            }
            Step::Accepted => self.link.event(DeviceEvent::Registered),
            Step::Message(message) => self.receive(message, now),
            Step::Beat => {
                let message = self.heartbeat.heartbeat(&self.config.device_id, None, now);
                self.link.send(message);
            }
            Step::Lost(cause) => {
                self.abandon("the connection was lost");
                let retry_at = self.link.retry(&cause, now);
                self.link.event(DeviceEvent::Down(Down { cause, retry_at }));
            }
            Step::Left => {
                self.abandon("this client left");
                self.link.leave();
                self.link.event(DeviceEvent::Down(Down { cause: Cause::Left, retry_at: None }));
            }
        }
    }

    fn register(&self, now: Timestamp) -> ClientMessage {
        let mut metadata = self.config.metadata.clone();
        if !self.config.info.is_empty() {
            metadata.insert("system_info".to_owned(), self.config.info.clone().into());
        }
        if self.config.task_announce {
            metadata.insert("task_announce".to_owned(), true.into());
        }
        if self.config.names_askers {
            metadata.insert("names_askers".to_owned(), true.into());
        }
        self.registration.register_as_device(&self.config.device_id, metadata, &self.config.platform, now)
    }

    fn receive(&mut self, message: Box<ServerMessage>, now: Timestamp) {
        match message.kind {
            ServerMessageType::Task => self.assigned(*message, now),
            ServerMessageType::Heartbeat => {
                if let Some(session_id) = message.session_id {
                    self.link.event(DeviceEvent::Accepted { session_id });
                }
            }
            ServerMessageType::TaskEnd => self.ended(*message, now),
            ServerMessageType::Command => self.commanded(message, now),
            ServerMessageType::Error => {
                let error = message.error.unwrap_or_else(|| "Unknown error".to_owned());
                self.link.event(Trouble::Server { error, session_id: message.session_id });
            }
            ServerMessageType::DeviceInfoRequest => {
                let (id, info) = (&self.config.device_id, self.config.info.clone());
                let message = self.info.device_info_reply(id, info, message.response_id, now);
                self.link.send(message);
            }
            ServerMessageType::DeviceInfoResponse => {
                self.link.event(Trouble::Unusable("a device has asked for no device info".to_owned()));
            }
        }
    }

    /// The device takes the task for its own, unless it asked to be told of others' tasks.
    fn assigned(&mut self, message: ServerMessage, now: Timestamp) {
        self.link.event(DeviceEvent::Assigned {
            session_id: message.session_id.clone(),
            task_name: message.task_name.clone(),
            request: message.user_request.clone(),
        });
        if self.config.task_announce {
            return;
        }
        if let Some(session_id) = message.session_id
            && self.open.len() < self.config.max_waiting
        {
            self.open.insert(session_id);
        }
        self.submit_task(message.user_request.unwrap_or_default(), message.task_name, None, now);
    }

    fn submit_task(
        &mut self,
        request: String,
        task_name: Option<String>,
        session_id: Option<String>,
        now: Timestamp,
    ) {
        let metadata = Map::from_iter([("platform".to_owned(), self.config.platform.clone().into())]);
        let task = TaskRequest::new(request, &self.config.device_id);
        let task = TaskRequest { task_name, session_id, metadata: Some(metadata), ..task };
        let message = self.tasks.task_request(task, now);
        self.link.send(message);
    }

    fn commanded(&mut self, mut message: Box<ServerMessage>, now: Timestamp) {
        let Some(response_id) = message.response_id.clone() else {
            self.link
                .event(Trouble::Unusable("commands without a response_id cannot be answered".to_owned()));
            return;
        };
        let waiting = VecDeque::from(message.actions.take().unwrap_or_default());
        let mut batch = Batch { message, response_id, waiting, running: None, done: Vec::new() };
        if self.batches.len() >= self.config.max_waiting {
            let refused = batch.waiting.drain(..).map(|command| Outcome {
                error: Some("device busy".to_owned()),
                call_id: command.call_id,
                ..Outcome::new(ResultStatus::Failure)
            });
            batch.done.extend(refused);
            self.answer(batch, now);
            return;
        }
        self.batches.push_back(batch);
        self.work(now);
    }

    /// Hands out the next command, if none is being run.
    fn work(&mut self, now: Timestamp) {
        while let Some(batch) = self.batches.front_mut().filter(|batch| batch.running.is_none()) {
            match batch.waiting.pop_front() {
                // Nothing to run is quickly done.
                Some(command) if command.tool_name.is_empty() => batch
                    .done
                    .push(Outcome { call_id: command.call_id, ..Outcome::new(ResultStatus::Success) }),
                Some(command) => {
                    self.runs += 1;
                    let id = RunId(self.runs);
                    batch.running = Some((id, command.call_id.clone()));
                    let run = Run {
                        id,
                        command,
                        session_id: batch.message.session_id.clone(),
                        agent_name: batch.message.agent_name.clone(),
                        process_name: batch.message.process_name.clone(),
                        root_name: batch.message.root_name.clone(),
                        asked: batch.message.messages.clone().unwrap_or_default(),
                    };
                    self.link.event(DeviceEvent::Run(run));
                }
                None => {
                    if let Some(batch) = self.batches.pop_front() {
                        self.answer(batch, now);
                    }
                }
            }
        }
    }

    fn answer(&mut self, batch: Batch, now: Timestamp) {
        let results = CommandResults {
            action_results: batch.done,
            session_id: batch.message.session_id.clone(),
            client_id: Some(self.config.device_id.clone()),
            prev_response_id: batch.response_id,
            status: batch.message.status,
        };
        let message = self.tasks.command_results(results, now);
        self.link.send(message);
        match batch.message.status {
            // The last commands of a task say so themselves.
            TaskStatus::Completed | TaskStatus::Failed => self.ended(*batch.message, now),
            TaskStatus::Continue | TaskStatus::Ok | TaskStatus::Error => {}
        }
    }

    fn ended(&mut self, mut message: ServerMessage, now: Timestamp) {
        let result = message.take_result();
        if let Some(session_id) = &message.session_id {
            self.open.remove(session_id);
            self.forget(|batch| batch.message.session_id.as_ref() == Some(session_id));
        }
        self.link.event(DeviceEvent::TaskEnded {
            session_id: message.session_id,
            status: message.status,
            result,
            error: message.error,
        });
        self.work(now);
    }

    /// The connection is gone, and with it everyone who waits for something.
    fn abandon(&mut self, why: &str) {
        self.forget(|_| true);
        for session_id in std::mem::take(&mut self.open) {
            self.link.event(DeviceEvent::TaskEnded {
                session_id: Some(session_id),
                status: TaskStatus::Failed,
                result: Value::Null,
                error: Some(why.to_owned()),
            });
        }
    }

    fn forget(&mut self, is_over: impl Fn(&Batch) -> bool) {
        let over = |batch: &Batch| is_over(batch);
        let running =
            self.batches.iter().filter(|batch| over(batch)).filter_map(|batch| batch.running.as_ref());
        let abandoned: Vec<RunId> = running.map(|(id, _)| *id).collect();
        self.batches.retain(|batch| !over(batch));
        for id in abandoned {
            self.link.event(DeviceEvent::Abandoned(id));
        }
    }

    fn check_up(&self) -> Result<(), CommandError> {
        if self.link.is_up() { Ok(()) } else { Err(CommandError::NotConnected) }
    }
}

impl From<Trouble> for DeviceEvent {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}
