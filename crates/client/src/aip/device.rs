//! The handle of a device.

use serde_json::{Map, Value};
use switchboard_aip::client::DeviceConfig;
use tokio::sync::{mpsc, oneshot};

use super::device_actor::{Actor, Command};
use super::error::{ClientError, ConnectError};
use super::event::Events;
use super::link::Control;
use super::options::{Options, OptionsError};
use super::task::Task;
use super::tools::{AnyTools, Tools};

/// A device that registers, beats, runs commands and comes back by itself. Clones share it; when the
/// last clone and the last [`Task`] are dropped, it leaves.
#[derive(Debug, Clone)]
pub struct Device {
    commands: mpsc::Sender<Command>,
    control: mpsc::UnboundedSender<Control>,
}

impl Device {
    /// Connects. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// There is no connection; [`super::Cause::advice`] says what to do.
    pub async fn connect(
        options: Options,
        config: DeviceConfig,
        tools: impl Tools,
    ) -> Result<Self, ConnectError> {
        let device = Self::new(options, config, tools)?;
        device.online().await?;
        Ok(device)
    }

    /// A device that does nothing before [`Self::online`] is called; [`Self::events`] before that
    /// misses nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(options: Options, config: DeviceConfig, tools: impl Tools) -> Result<Self, OptionsError> {
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (control, control_queue) = mpsc::unbounded_channel();
        let actor = Actor::new(
            options,
            config,
            AnyTools::new(tools),
            command_queue,
            control.downgrade(),
            control_queue,
        )?;
        tokio::spawn(actor.run());
        Ok(Self { commands, control })
    }

    /// Looks for a connection, if there is none, and waits for it.
    ///
    /// # Errors
    /// There is none; [`super::Cause::advice`] says what to do.
    pub async fn online(&self) -> Result<(), ConnectError> {
        let online = self.ask(|reply| Command::Connect { reply }).await;
        online.unwrap_or(Err(ConnectError::ClientClosed))
    }

    /// Wants something done by this device itself (§6.3).
    ///
    /// # Errors
    /// Not connected, nothing to do, or too much already.
    pub async fn submit(
        &self,
        request: impl Into<String>,
        task_name: Option<String>,
    ) -> Result<Task, ClientError> {
        let request = request.into();
        self.ask(|reply| Command::Submit { request, task_name, reply }).await?
    }

    /// What to say of the device from now on, for tools that do not say it themselves. The server is
    /// told.
    ///
    /// # Errors
    /// The client was closed.
    pub async fn set_info(&self, info: Map<String, Value>) -> Result<(), ClientError> {
        self.ask(|reply| Command::SetInfo { info, reply }).await
    }

    /// Events from now on.
    pub fn events(&self) -> Events {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let _ = self.control.send(Control::Subscribe(sender));
        Events::new(receiver)
    }

    /// Leaves: what is being run is stopped. Done when the connection is closed.
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
