//! The handle of a client.

use switchboard_alicia::Id;
use switchboard_alicia::message::{MemoryActionKind, MemoryContent};
use switchboard_core::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::{Actor, Command, Control};
use super::conversation::{Conversation, Join};
use super::error::{ClientError, ConnectError};
use super::event::{Events, Snapshot};
use super::options::Options;
use super::updates::Updates;
use switchboard_alicia::client::{AliciaClient, CommandError, Outcome, RequestKey};

/// A connection to an Alicia server that comes back by itself. Clones share it; when the last clone and the
/// last [`Conversation`] are dropped, it is closed.
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
        let (actor, snapshot) = Actor::new(options, command_queue, control_queue)?;
        tokio::spawn(actor.run());
        let client = Self { commands, control, snapshot };
        let connected = client.ask(|reply| Command::Connect { first, reply }).await;
        connected.unwrap_or(Err(ConnectError::ClientClosed))?;
        Ok(client)
    }

    /// Follows a conversation, or makes one; done when the server lets this client follow it.
    ///
    /// # Errors
    /// It is not to be had, or followed already.
    pub async fn conversation(&self, join: Join) -> Result<(Conversation, Updates), ClientError> {
        let (client, control) = (self.clone(), self.control.clone());
        let (id, guard, updates) = self.ask(|reply| Command::Join { join, control, reply }).await??;
        Ok((Conversation::new(id, client, guard), updates))
    }

    /// Has something remembered for this user; answers the id of the memory.
    ///
    /// # Errors
    /// The server does not take it.
    pub async fn remember(&self, memory: MemoryContent) -> Result<Id, ClientError> {
        Ok(self.request(move |machine, now| machine.remember(memory, now)).await?.1)
    }

    /// Changes a memory: its content, whether it is pinned, archived or there at all.
    ///
    /// # Errors
    /// There is no such memory.
    pub async fn memory(
        &self,
        memory: Id,
        action: MemoryActionKind,
        content: Option<MemoryContent>,
    ) -> Result<(), ClientError> {
        let change = move |machine: &mut AliciaClient, now| {
            Ok((machine.change_memory(memory, action, content, now)?, ()))
        };
        self.request(change).await.map(drop)
    }

    /// The network is back: if the connection is lost, it is tried at once.
    pub fn network_is_back(&self) {
        let _ = self.control.send(Control::NetworkIsBack);
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

    /// Asks the server for something; done when that is settled. Answers what the machine said at once, too.
    pub(super) async fn request<T, F>(&self, ask: F) -> Result<(Outcome, T), ClientError>
    where
        T: Send + 'static,
        F: FnOnce(&mut AliciaClient, Timestamp) -> Result<(RequestKey, T), CommandError> + Send + 'static,
    {
        let (at_once, settled) = self.begin(ask).await?;
        Ok((settled.outcome().await?, at_once))
    }

    /// The same; done when it is on its way.
    pub(super) async fn begin<T, F>(&self, ask: F) -> Result<(T, Settling), ClientError>
    where
        T: Send + 'static,
        F: FnOnce(&mut AliciaClient, Timestamp) -> Result<(RequestKey, T), CommandError> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let ask = Box::new(move |machine: &mut AliciaClient, now: Timestamp| {
            let (key, at_once) = ask(machine, now)?;
            let _ = tell.send(at_once);
            Ok(key)
        });
        let (reply, settling) = oneshot::channel();
        let settling = Settling(settling);
        self.commands.send(Command::Request { ask, reply }).await.map_err(|_| ClientError::Closed)?;
        match told.await {
            Ok(at_once) => Ok((at_once, settling)),
            // It was refused here.
            Err(_) => Err(settling.outcome().await.err().unwrap_or(ClientError::Closed)),
        }
    }

    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ClientError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ClientError::Closed)?;
        answer.await.map_err(|_| ClientError::Closed)
    }
}

/// Something that the server was asked for and has not settled.
#[derive(Debug)]
pub(super) struct Settling(oneshot::Receiver<Result<Outcome, ClientError>>);

impl Settling {
    pub(super) async fn outcome(self) -> Result<Outcome, ClientError> {
        self.0.await.unwrap_or(Err(ClientError::Closed))
    }
}

/// Commands that may wait.
const COMMANDS: usize = 64;
/// Events that may wait, per subscriber.
const EVENTS: usize = 256;
