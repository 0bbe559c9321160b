//! The handle.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use switchboard_asp::client::{Answer, AspClient};
use switchboard_asp::message::{Invoke, InvokeBody, Secret, ToolDef};

use super::error::{ClientError, ConnectError};
use super::event::{Events, Renewed, Snapshot};
use super::options::Connect;
use super::request::Request;
use super::shell::Shell;
use super::tool::{Handler, ToolCall, ToolFailure};
use crate::driver::{Handle, connection, seed};
use crate::endpoint::check_token;

/// A connection to an ASP server that comes back by itself. Clones share it; when the last clone and the last
/// [`Request`] are dropped, it is closed.
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
        let target = connect.socket()?;
        let crate::Connect { first, backoff, config, .. } = connect;
        let mut client = config.client;
        client.backoff = backoff.unwrap_or(client.backoff);
        let shell = Shell::new(config.handler, MAX_BUFFERED);
        let machine = AspClient::new(client, &seed());
        Ok(Self { handle: Handle::start(shell, machine, target, first, Snapshot::default()) })
    }

    /// Opens a request. While the connection is lost, or the server has no place, it waits.
    ///
    /// # Errors
    /// The connection has ended for good, or too many requests wait.
    pub async fn invoke(&self, invoke: Invoke) -> Result<Request, ClientError> {
        self.handle.ask(move |shell, work| shell.invoke(invoke, work)).await?
    }

    /// Stops every request of this client.
    pub fn interrupt_all(&self) {
        self.handle.teller().tell(|_, work| {
            work.tasks.stop(|_| true);
            work.machine.interrupt_all(None);
        });
    }

    /// Executes this client's tools from now on; see [`Connect::on_call`].
    pub fn on_call<F, R>(&self, handler: F)
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<serde_json::Value, ToolFailure>> + Send + 'static,
    {
        let handler = Handler::new(handler);
        self.handle.teller().tell(move |shell, _| shell.handler = Some(handler));
    }

    /// Answers a question, [`super::RequestEvent::Ask`]; done when the server has the answer.
    ///
    /// # Errors
    /// The question is not open any more.
    pub async fn answer(&self, ask_id: impl Into<String>, answer: Answer) -> Result<(), ClientError> {
        let ask_id = ask_id.into();
        let answer = self.handle.answer(move |shell, work, reply| {
            let now = work.now();
            shell.answered(work.machine.answer_ask(&ask_id, answer, now), reply);
        });
        answer.await?
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
        self.snapshot().tools
    }

    /// Checks the connection end to end; answers the time it took.
    ///
    /// # Errors
    /// `ping` is not agreed, or the connection is lost.
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        self.handle.answer(|shell, work, reply| shell.ping(work, reply)).await?
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
        self.handle.answer(move |shell, work, reply| shell.renew(token, work, reply)).await?
    }
}

/// Output that may wait to be read by a server that does not know credit, per request.
const MAX_BUFFERED: u64 = 4 << 20;
