//! The handle of a client over WebSocket.

use serde_json::{Map, Value};
use switchboard_acolyte::Task;
use switchboard_acolyte::client::{Answer, CallError};
use switchboard_acolyte::message::{Attach, ChatRequest, TaskId};
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::{Actor, Command, Control};
use super::chat::Chat;
use super::error::{ClientError, ConnectError};
use super::event::{Events, Snapshot};
use super::options::Options;

/// A connection to an Acolyte server that comes back by itself. Clones share it; when the last clone
/// and the last [`Chat`] are dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    control: mpsc::UnboundedSender<Control>,
    snapshot: watch::Receiver<Snapshot>,
}

impl Client {
    /// Connects. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// There is no connection; [`super::Cause::advice`] says what to do.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let first = options.first;
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (control, control_queue) = mpsc::unbounded_channel();
        let (actor, snapshot) = Actor::new(options, command_queue, control.downgrade(), control_queue)?;
        tokio::spawn(actor.run());
        let client = Self { commands, control, snapshot };
        let connected = client.ask(|reply| Command::Connect { first, reply }).await;
        connected.unwrap_or(Err(ConnectError::ClientClosed))?;
        Ok(client)
    }

    /// Starts a chat. While the connection is lost, it waits.
    ///
    /// # Errors
    /// The connection has ended for good, too many chats are open, or no server would take it.
    pub async fn chat(&self, request: ChatRequest) -> Result<Chat, ClientError> {
        let request = Box::new(request);
        self.ask(|reply| Command::Chat { request, reply }).await?
    }

    /// Follows a task that runs, or has run a moment ago; needs `task.resume`.
    ///
    /// # Errors
    /// As for [`Self::chat`].
    pub async fn attach(&self, attach: Attach) -> Result<Chat, ClientError> {
        self.ask(|reply| Command::Attach { attach, reply }).await?
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// Not connected, or no answer.
    pub async fn status(&self) -> Result<Map<String, Value>, ClientError> {
        match self.ask(|reply| Command::Status { reply }).await?? {
            Answer::Status(status) => Ok(status),
            Answer::Task(_) => Err(CallError::Unusable.into()),
        }
    }

    /// What has become of a task; none if the server has forgotten it. `session` is its conversation,
    /// and only needed for tasks of earlier connections.
    ///
    /// # Errors
    /// Not connected, or no answer.
    pub async fn task(&self, task: TaskId, session: Option<String>) -> Result<Option<Task>, ClientError> {
        match self.ask(|reply| Command::Task { task, session, reply }).await?? {
            Answer::Task(task) => Ok(task),
            Answer::Status(_) => Err(CallError::Unusable.into()),
        }
    }

    /// The connection as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Events of the connection from now on.
    pub fn events(&self) -> Events {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let _ = self.control.send(Control::Subscribe(sender));
        Events::new(receiver)
    }

    /// Leaves. Done when the connection is closed.
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
