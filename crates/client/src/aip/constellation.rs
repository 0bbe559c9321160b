//! Whoever has a device do tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_aip::client::{self as half, ConstellationConfig, ConstellationEvent, DeviceState, NewTask};
use tokio::sync::oneshot;

use super::error::{Cause, ClientError, ConnectError};
use super::event::{Event, Events};
use super::options::Connect;
use super::task::{Task, Tasks};
use crate::driver::{self, Handle, connection, seed};

/// A connection to have one device do tasks, one after another, that comes back by itself. Clones
/// share it; when the last clone and the last [`Task`] are dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Constellation {
    handle: Handle<Shell>,
}

connection!(Constellation, DeviceState);

impl Constellation {
    /// Connects. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// There is no connection, or no such device; [`ConnectError::advice`] says what to do.
    pub async fn connect(connect: Connect, config: ConstellationConfig) -> Result<Self, ConnectError> {
        let constellation = Self::new(connect, config)?;
        constellation.online().await?;
        Ok(constellation)
    }

    /// A constellation that does nothing before [`Self::online`] is called; [`Self::events`] before
    /// that misses nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(mut connect: Connect, mut config: ConstellationConfig) -> Result<Self, ConnectError> {
        let (target, first) = (connect.socket()?, connect.first);
        connect.pace(&mut config.times);
        let mut machine = half::Constellation::new(config, seed());
        connect.add_middleware(machine.middleware());
        let state = DeviceState::Disconnected;
        Ok(Self { handle: Handle::start(Shell::default(), machine, target, first, state) })
    }

    /// Has the device do a task, behind those that wait.
    ///
    /// # Errors
    /// There is no connection and none is looked for, or the task cannot be taken.
    pub async fn run(&self, task: NewTask) -> Result<Task, ClientError> {
        let submitted = self.handle.ask(move |shell, work| {
            let (now, teller) = (work.now(), work.teller().ok_or(ClientError::Closed)?);
            let id = work.machine.submit(task, now)?;
            Ok(shell.tasks.open(id, move |id, reason| {
                teller.tell(move |_, work| {
                    let now = work.now();
                    // A task that is not there has ended.
                    let _ = work.machine.cancel(&id, &reason, now);
                });
            }))
        });
        submitted.await?
    }

    /// What the device is like.
    ///
    /// # Errors
    /// Not connected, or nobody knows.
    pub async fn device_info(&self) -> Result<Map<String, Value>, ClientError> {
        let asked = self.handle.answer(|shell, work, reply| {
            let now = work.now();
            match work.machine.request_info(now) {
                Ok(question) => drop(shell.questions.insert(question, reply)),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        });
        asked.await?
    }
}

/// What a device is like, or why that is not known.
type Info = Result<Map<String, Value>, ClientError>;

/// Who waits for what.
#[derive(Default)]
struct Shell {
    tasks: Tasks,
    questions: BTreeMap<String, oneshot::Sender<Info>>,
}

type Work = driver::Work<Shell>;

impl driver::Shell for Shell {
    type Machine = half::Constellation;
    type Snapshot = DeviceState;
    type Notice = Event;
    type Update = ();
    type Task = ();
    type Done = ();

    fn event(&mut self, event: ConstellationEvent, work: &mut Work) {
        match event {
            ConstellationEvent::State(state) => {
                work.snapshot.send_replace(state);
                if state == DeviceState::Connected {
                    work.publish(&Event::Connected);
                }
            }
            ConstellationEvent::TaskAccepted { session_id } => self.tasks.accepted(&session_id),
            ConstellationEvent::TaskEnded { session_id, ending } => self.tasks.ended(&session_id, || ending),
            ConstellationEvent::Info { request_id, info } => {
                if let Some(reply) = self.questions.remove(&request_id) {
                    let _ = reply.send(info.map_err(Into::into));
                }
            }
            ConstellationEvent::Trouble(trouble) => work.publish(&Event::Trouble(trouble)),
            ConstellationEvent::Down(_) => {}
        }
    }

    fn done(&mut self, (): (), (): (), _work: &mut Work) {}

    fn lost(cause: Cause, retry_in: Option<Duration>) -> Option<Event> {
        Some(Event::lost(cause, retry_in))
    }
}
