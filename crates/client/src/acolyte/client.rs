//! The handle of a client over WebSocket.

use serde_json::{Map, Value};
use switchboard_acolyte::Task;
use switchboard_acolyte::client::{AcolyteClient, Answer, CallError};
use switchboard_acolyte::message::{Attach, ChatRequest, TaskId};

use super::chat::Chat;
use super::error::{ClientError, ConnectError};
use super::event::{Events, Snapshot};
use super::options::{Connect, SOCKET};
use super::shell::Shell;
use crate::driver::{Handle, connection, seed};

/// A connection to an Acolyte server that comes back by itself. Clones share it; when the last clone
/// and the last [`Chat`] are dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Handle<Shell>,
}

connection!(Client, Snapshot, Connect);

impl Client {
    /// A client that does nothing before [`Self::online`] is called. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(connect: Connect) -> Result<Self, ConnectError> {
        let target = connect.target(&SOCKET)?;
        let crate::Connect { first, backoff, mut config, .. } = connect;
        config.backoff = backoff.unwrap_or(config.backoff);
        let machine = AcolyteClient::new(config, seed());
        Ok(Self { handle: Handle::start(Shell::default(), machine, target, first, Snapshot::default()) })
    }

    /// Starts a chat. While the connection is lost, it waits.
    ///
    /// # Errors
    /// The connection has ended for good, too many chats are open, or no server would take it.
    pub async fn chat(&self, request: ChatRequest) -> Result<Chat, ClientError> {
        self.handle.ask(|shell, work| shell.open(work, |machine| machine.start(request))).await?
    }

    /// Follows a task that runs, or has run a moment ago; needs `task.resume`.
    ///
    /// # Errors
    /// As for [`Self::chat`].
    pub async fn attach(&self, attach: Attach) -> Result<Chat, ClientError> {
        self.handle.ask(|shell, work| shell.open(work, |machine| machine.attach(attach))).await?
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// Not connected, or no answer.
    pub async fn status(&self) -> Result<Map<String, Value>, ClientError> {
        let answer = self.handle.answer(|shell, work, reply| {
            let now = work.now();
            shell.asked(work.machine.status(now), reply);
        });
        match answer.await?? {
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
        let answer = self.handle.answer(|shell, work, reply| {
            let now = work.now();
            shell.asked(work.machine.task_status(task, session, now), reply);
        });
        match answer.await?? {
            Answer::Task(task) => Ok(task),
            Answer::Status(_) => Err(CallError::Unusable.into()),
        }
    }
}
