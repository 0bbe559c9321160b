//! The handle of a constellation.

use serde_json::{Map, Value};
use switchboard_aip::client::{ConstellationConfig, DeviceState, NewTask};
use tokio::sync::{mpsc, oneshot, watch};

use super::constellation_actor::{Actor, Command};
use super::error::{ClientError, ConnectError};
use super::event::Events;
use super::link::Control;
use super::options::{Options, OptionsError};
use super::task::Task;

/// A connection to have one device do tasks, one after another, that comes back by itself. Clones
/// share it; when the last clone and the last [`Task`] are dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Constellation {
    commands: mpsc::Sender<Command>,
    control: mpsc::UnboundedSender<Control>,
    state: watch::Receiver<DeviceState>,
}

impl Constellation {
    /// Connects. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// There is no connection, or no such device; [`super::Cause::advice`] says what to do.
    pub async fn connect(options: Options, config: ConstellationConfig) -> Result<Self, ConnectError> {
        let constellation = Self::new(options, config)?;
        constellation.online().await?;
        Ok(constellation)
    }

    /// A constellation that does nothing before [`Self::online`] is called; [`Self::events`] before
    /// that misses nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(options: Options, config: ConstellationConfig) -> Result<Self, OptionsError> {
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (control, control_queue) = mpsc::unbounded_channel();
        let (actor, state) = Actor::new(options, config, command_queue, control.downgrade(), control_queue)?;
        tokio::spawn(actor.run());
        Ok(Self { commands, control, state })
    }

    /// Looks for a connection, if there is none, and waits for it.
    ///
    /// # Errors
    /// There is none; [`super::Cause::advice`] says what to do.
    pub async fn online(&self) -> Result<(), ConnectError> {
        let online = self.ask(|reply| Command::Connect { reply }).await;
        online.unwrap_or(Err(ConnectError::ClientClosed))
    }

    /// Has the device do a task, behind those that wait.
    ///
    /// # Errors
    /// There is no connection and none is looked for, or the task cannot be taken.
    pub async fn run(&self, task: NewTask) -> Result<Task, ClientError> {
        self.ask(|reply| Command::Run { task, reply }).await?
    }

    /// What the device is like.
    ///
    /// # Errors
    /// Not connected, or nobody knows.
    pub async fn device_info(&self) -> Result<Map<String, Value>, ClientError> {
        self.ask(|reply| Command::Info { reply }).await?
    }

    /// The device's state, as far as it is known here.
    pub fn state(&self) -> DeviceState {
        *self.state.borrow()
    }

    /// Events from now on.
    pub fn events(&self) -> Events {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let _ = self.control.send(Control::Subscribe(sender));
        Events::new(receiver)
    }

    /// Leaves; tasks that have not ended fail. Done when the connection is closed.
    pub async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        // If it is closed already, that is fine.
        let _ = self.control.send(Control::Close(reply));
        let _ = closed.await;
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, ClientError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ClientError::Closed)?;
        answer.await.map_err(|_| ClientError::Closed)
    }
}

/// Commands that may wait.
const COMMANDS: usize = 64;
/// Events that may wait, per subscriber.
const EVENTS: usize = 256;
