//! Who waits for what: chats and their readers, questions.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_acolyte::client::{AcolyteClient, Answer, ChatId, CommandError, Event};
use switchboard_acolyte::message::RpcId;
use tokio::sync::{mpsc, oneshot};

use super::chat::{BUFFER, Chat, How, Stopper, Update};
use super::error::{Cause, ClientError};
use super::event::{ConnectionEvent, Snapshot};
use crate::driver;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Shell {
    chats: BTreeMap<ChatId, mpsc::Sender<Update>>,
    calls: BTreeMap<RpcId, oneshot::Sender<Result<Answer, ClientError>>>,
}

pub(super) type Work = driver::Work<Shell>;

impl Shell {
    /// Has the half begin a chat, and follows it.
    pub(super) fn open(
        &mut self,
        work: &mut Work,
        begin: impl FnOnce(&mut AcolyteClient) -> Result<ChatId, CommandError>,
    ) -> Result<Chat, ClientError> {
        if !work.is_on() {
            return Err(ClientError::Off);
        }
        let id = begin(&mut work.machine)?;
        let teller = work.teller().ok_or(ClientError::Closed)?;
        let (updates, receiver) = mpsc::channel(BUFFER);
        self.chats.insert(id, updates);
        Ok(Chat::new(receiver, Stopper(How::Socket(id, teller))))
    }

    /// The question was asked under this id, or it was not.
    pub(super) fn asked(
        &mut self,
        asked: Result<RpcId, CommandError>,
        reply: oneshot::Sender<Result<Answer, ClientError>>,
    ) {
        match asked {
            Ok(id) => drop(self.calls.insert(id, reply)),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    fn deliver(&self, id: ChatId, update: Update, work: &mut Work) {
        if let Some(reader) = self.chats.get(&id) {
            work.deliver(reader, update);
        }
    }
}

impl driver::Shell for Shell {
    type Machine = AcolyteClient;
    type Snapshot = Snapshot;
    type Notice = ConnectionEvent;
    type Update = Update;
    type Task = ();
    type Done = ();

    fn event(&mut self, event: Event, work: &mut Work) {
        match event {
            Event::Up { status, agreed, resuming } => {
                work.snapshot.send_replace(Snapshot { connected: true, agreed, status });
                if resuming == 0 {
                    work.publish(&ConnectionEvent::Connected);
                }
            }
            Event::Resumed { lost } => work.publish(&ConnectionEvent::Resumed { lost }),
            Event::Chat(id, event) => self.deliver(id, Update::Event(event), work),
            Event::NotAborted(id, why) => self.deliver(id, Update::NotAborted(why), work),
            Event::Ended(id, ending) => {
                self.deliver(id, Update::Ended(ending), work);
                self.chats.remove(&id);
            }
            Event::Answer(id, answer) => {
                if let Some(reply) = self.calls.remove(&id) {
                    let _ = reply.send(answer.map_err(Into::into));
                }
            }
            Event::Down(_) => work.snapshot.send_modify(|snapshot| snapshot.connected = false),
        }
    }

    fn done(&mut self, (): (), (): (), _work: &mut Work) {}

    fn lost(cause: Cause, retry_in: Option<Duration>) -> Option<ConnectionEvent> {
        Some(ConnectionEvent::lost(cause, retry_in))
    }
}
