//! The handle of a client.

use switchboard_alicia::Id;
use switchboard_alicia::client::{AliciaClient, CommandError, Outcome, RequestKey};
use switchboard_alicia::message::{MemoryActionKind, MemoryContent};
use switchboard_core::Timestamp;
use tokio::sync::oneshot;

use super::conversation::{Conversation, Join};
use super::error::{ClientError, ConnectError};
use super::event::{Events, Snapshot};
use super::options::Connect;
use super::shell::Shell;
use super::updates::Updates;
use crate::driver::{Handle, connection, seed};

/// A connection to an Alicia server that comes back by itself. Clones share it; when the last clone and the
/// last [`Conversation`] are dropped, it is closed.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) handle: Handle<Shell>,
}

connection!(Client, Snapshot, Connect);

impl Client {
    /// A client that does nothing before [`Self::online`] is called. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(connect: Connect) -> Result<Self, ConnectError> {
        let target = connect.socket()?;
        let crate::Connect { first, backoff, mut config, .. } = connect;
        config.backoff = backoff.unwrap_or(config.backoff);
        let machine = AliciaClient::new(config, seed());
        Ok(Self { handle: Handle::start(Shell::default(), machine, target, first, Snapshot::default()) })
    }

    /// Follows a conversation, or makes one; done when the server lets this client follow it.
    ///
    /// # Errors
    /// It is not to be had, or followed already.
    pub async fn conversation(&self, join: Join) -> Result<(Conversation, Updates), ClientError> {
        let joined = self.handle.answer(|shell, work, reply| shell.join(join, work, reply));
        let (id, guard, updates) = joined.await??;
        Ok((Conversation::new(id, self.clone(), guard), updates))
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
        self.handle.teller().tell(|_, work| work.machine.network_is_back());
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
        self.handle.ask(move |shell, work| shell.request(ask, work, reply)).await?;
        match told.await {
            Ok(at_once) => Ok((at_once, settling)),
            // It was refused here.
            Err(_) => Err(settling.outcome().await.err().unwrap_or(ClientError::Closed)),
        }
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
