//! A device.

use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_aip::client::{
    self as half, DeviceConfig, DeviceEvent, Ending, FailureKind, Message, Middleware, Refused, Run, RunId,
};
use switchboard_aip::message::{ClientMessage, ClientMessageType, Outcome, TaskStatus};

use super::error::{Cause, ClientError, ConnectError};
use super::event::{Event, Events, Snapshot};
use super::options::Connect;
use super::task::{Task, Tasks};
use super::tools::{AnyTools, Tools};
use crate::driver::{self, Handle, connection, seed};

/// A device that registers, beats, runs commands and comes back by itself. Clones share it; when the
/// last clone and the last [`Task`] are dropped, it leaves.
#[derive(Debug, Clone)]
pub struct Device {
    handle: Handle<Shell>,
}

connection!(Device, Snapshot);

impl Device {
    /// Connects. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// There is no connection; [`ConnectError::advice`] says what to do.
    pub async fn connect(
        connect: Connect,
        config: DeviceConfig,
        tools: impl Tools,
    ) -> Result<Self, ConnectError> {
        let device = Self::new(connect, config, tools)?;
        device.online().await?;
        Ok(device)
    }

    /// A device that does nothing before [`Self::online`] is called; [`Self::events`] before that
    /// misses nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(
        mut connect: Connect,
        mut config: DeviceConfig,
        tools: impl Tools,
    ) -> Result<Self, ConnectError> {
        let (target, first) = (connect.socket()?, connect.first);
        connect.pace(&mut config.times);
        let tools = AnyTools::new(tools);
        let mut machine = half::Device::new(config, seed());
        // Before all others, so that they see what is sent.
        machine.middleware().add(Facts(tools.clone()));
        connect.add_middleware(machine.middleware());
        let shell = Shell { tools, tasks: Tasks::default() };
        Ok(Self { handle: Handle::start(shell, machine, target, first, Snapshot::default()) })
    }

    /// Wants something done by this device itself.
    ///
    /// # Errors
    /// Not connected, nothing to do, or too much already.
    pub async fn submit(
        &self,
        request: impl Into<String>,
        task_name: Option<String>,
    ) -> Result<Task, ClientError> {
        let request = request.into();
        let submitted = self.handle.ask(move |shell, work| {
            let (now, teller) = (work.now(), work.teller().ok_or(ClientError::Closed)?);
            let id = work.machine.submit(request, task_name, now)?;
            Ok(shell.tasks.open(id, move |id, reason| {
                teller.tell(move |_, work| {
                    let now = work.now();
                    // Without a connection the task is over.
                    let _ = work.machine.cancel(&id, &reason, now);
                });
            }))
        });
        submitted.await?
    }

    /// What to say of the device from now on, for tools that do not say it themselves. The server is
    /// told.
    ///
    /// # Errors
    /// The client was closed.
    pub async fn set_info(&self, info: Map<String, Value>) -> Result<(), ClientError> {
        let set = self.handle.ask(move |_, work| {
            let now = work.now();
            work.machine.set_info(info, now);
        });
        Ok(set.await?)
    }
}

/// What runs, and who waits for what.
struct Shell {
    tools: AnyTools,
    /// Tasks of the device's own that somebody waits for.
    tasks: Tasks,
}

type Work = driver::Work<Shell>;

impl driver::Shell for Shell {
    type Machine = half::Device;
    type Snapshot = Snapshot;
    type Notice = Event;
    type Update = ();
    type Task = RunId;
    type Done = Outcome;

    fn event(&mut self, event: DeviceEvent, work: &mut Work) {
        match event {
            DeviceEvent::Registered => {
                work.snapshot.send_replace(Snapshot { connected: true });
                work.publish(&Event::Connected);
            }
            DeviceEvent::Run(run) => self.start(run, work),
            DeviceEvent::Abandoned(id) => work.tasks.stop(|run| *run == id),
            DeviceEvent::Assigned { session_id, task_name, request } => {
                work.publish(&Event::Assigned { session_id, task_name, request });
            }
            DeviceEvent::Accepted { session_id } => self.tasks.accepted(&session_id),
            DeviceEvent::TaskEnded { session_id, status, result, error } => {
                if let Some(session_id) = &session_id {
                    self.tasks.ended(session_id, || ending(status, result, error.clone()));
                }
                work.publish(&Event::TaskEnded { session_id, status, error });
            }
            DeviceEvent::Trouble(trouble) => work.publish(&Event::Trouble(trouble)),
            DeviceEvent::Down(_) => drop(work.snapshot.send_replace(Snapshot { connected: false })),
        }
    }

    fn done(&mut self, run: RunId, outcome: Outcome, work: &mut Work) {
        let now = work.now();
        // If nobody waits for it any more, that is fine.
        let _ = work.machine.finish(run, outcome, now);
    }

    fn lost(cause: Cause, retry_in: Option<Duration>) -> Option<Event> {
        Some(Event::lost(cause, retry_in))
    }
}

impl Shell {
    fn start(&self, run: Run, work: &mut Work) {
        work.tasks.start(run.id, self.tools.clone().run(run));
    }
}

fn ending(status: TaskStatus, result: Value, error: Option<String>) -> Ending {
    if status == TaskStatus::Completed {
        return Ending::Completed(result);
    }
    let error = error.unwrap_or_else(|| "the task failed".to_owned());
    Ending::Failed { kind: FailureKind::ExecutionError, error, result }
}

/// Puts what the device is like now into what is said of it.
#[derive(Debug)]
struct Facts(AnyTools);

impl Middleware for Facts {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        let Message::Client(message) = message else { return Ok(message) };
        let metadata = match message.kind {
            ClientMessageType::Register => {
                let mut metadata = message.metadata.clone().unwrap_or_default();
                self.0.facts().map(|facts| {
                    metadata.insert("system_info".to_owned(), facts.into());
                    metadata
                })
            }
            ClientMessageType::DeviceInfoResponse => self.0.facts(),
            ClientMessageType::Task
            | ClientMessageType::Heartbeat
            | ClientMessageType::CommandResults
            | ClientMessageType::Error
            | ClientMessageType::TaskEnd
            | ClientMessageType::DeviceInfoRequest => None,
        };
        Ok(match metadata {
            Some(metadata) => ClientMessage { metadata: Some(metadata), ..message }.into(),
            None => message.into(),
        })
    }
}
