//! The handle.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use switchboard_asp::client::Answer;
use switchboard_asp::message::{Invoke, InvokeBody, Secret, ToolDef};
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::{Actor, Command, Control};
use super::error::{ClientError, ConnectError};
use super::event::{Events, Renewed, Snapshot};
use super::options::Options;
use super::request::Request;
use super::tool::{Handler, ToolCall, ToolFailure};
use crate::endpoint::check_token;

/// A connection to an ASP server that comes back by itself. Clones share it; when the last clone and the last
/// [`Request`] are dropped, it is closed.
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
    /// There is no connection; [`ConnectError::advice`] says what to do.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let first = options.first;
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (control, control_queue) = mpsc::unbounded_channel();
        let (actor, snapshot) = Actor::new(options, command_queue, control.downgrade(), control_queue)?;
        tokio::spawn(actor.run());
        let client = Self { commands, control, snapshot };
        client
            .ask(|reply| Command::Connect { first, reply })
            .await
            .unwrap_or(Err(ConnectError::ClientClosed))?;
        Ok(client)
    }

    /// Connects again after the connection has ended for good.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub async fn reconnect(&self) -> Result<(), ConnectError> {
        let first = super::options::FirstAttempt::FailFast;
        self.ask(|reply| Command::Connect { first, reply }).await.unwrap_or(Err(ConnectError::ClientClosed))
    }

    /// Opens a request. While the connection is lost, or the server has no place, it waits.
    ///
    /// # Errors
    /// The connection has ended for good, or too many requests wait.
    pub async fn invoke(&self, invoke: Invoke) -> Result<Request, ClientError> {
        let invoke = Box::new(invoke);
        self.ask(|reply| Command::Invoke { invoke, reply }).await?
    }

    /// Stops every request of this client.
    pub fn interrupt_all(&self) {
        // Without the task behind the client there is nothing to stop.
        let _ = self.control.send(Control::InterruptAll);
    }

    /// Executes this client's tools from now on; see [`Options::on_call`].
    pub fn on_call<F, R>(&self, handler: F)
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<serde_json::Value, ToolFailure>> + Send + 'static,
    {
        let _ = self.control.send(Control::OnCall(Handler::new(handler)));
    }

    /// Answers a question, [`super::RequestEvent::Ask`]; done when the server has the answer.
    ///
    /// # Errors
    /// The question is not open any more.
    pub async fn answer(&self, ask_id: impl Into<String>, answer: Answer) -> Result<(), ClientError> {
        let ask_id = ask_id.into();
        self.ask(|reply| Command::Answer { ask_id, answer, reply }).await?
    }

    /// The server's tools, asked for anew.
    ///
    /// # Errors
    /// As for [`Self::invoke`], or the server refuses.
    pub async fn list_tools(&self) -> Result<Arc<[ToolDef]>, ClientError> {
        let request = self.invoke(Invoke::new(InvokeBody::List)).await?;
        match request.collect_text().await {
            Ok(_) => Ok(self.tools()),
            Err(super::RequestError::Server(error)) => Err(ClientError::Server(error)),
            Err(super::RequestError::Closed) => Err(ClientError::Closed),
            Err(super::RequestError::Lost(_) | super::RequestError::SlowConsumer) => {
                Err(ClientError::Disconnected)
            }
        }
    }

    /// The server's tools, as far as it has told them.
    pub fn tools(&self) -> Arc<[ToolDef]> {
        self.snapshot.borrow().tools.clone()
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

    /// Checks the connection end to end; answers the time it took.
    ///
    /// # Errors
    /// `ping` is not agreed, or the connection is lost.
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        self.ask(|reply| Command::Ping { reply }).await?
    }

    /// Uses a new token: at once if `reauth` is agreed, and for every later connection.
    ///
    /// # Errors
    /// The server refuses it, or it does not fit a header.
    pub async fn renew(&self, token: impl Into<String>) -> Result<Renewed, ClientError> {
        let token = Secret::new(token);
        if check_token(token.expose()).is_err() {
            return Err(ClientError::Token);
        }
        self.ask(|reply| Command::Renew { token, reply }).await?
    }

    /// Leaves: the server cancels what runs and keeps nothing. Done when the connection is closed.
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
