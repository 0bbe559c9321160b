//! One chat, as its user sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use switchboard_acolyte::client::{ChatEvent, ChatId, Ending, Loss};
use switchboard_acolyte::message::{StreamEvent, TaskId};
use tokio::sync::{Notify, mpsc};

use super::shell::Shell;
use crate::driver::Teller;

/// What happens to a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Something happened in it.
    Event(ChatEvent),
    /// It could not be stopped now, and goes on.
    NotAborted(String),
    /// It is over; nothing follows.
    Ended(Ending),
}

/// A stream of updates that ends with [`Update::Ended`]. Dropping it before stops the chat.
#[derive(Debug)]
pub struct Chat {
    updates: mpsc::Receiver<Update>,
    stopper: Stopper,
    task: Option<TaskId>,
    over: bool,
}

impl Chat {
    pub(super) fn new(updates: mpsc::Receiver<Update>, stopper: Stopper) -> Self {
        Self { updates, stopper, task: None, over: false }
    }

    /// Stops it; the end follows.
    pub fn abort(&self) {
        self.stopper.stop();
    }

    /// A handle that can stop it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Its task, as far as the updates so far have told it.
    pub fn task(&self) -> Option<&TaskId> {
        self.task.as_ref()
    }

    /// The next update; none after the last one. What is not read holds up the connection, so that the
    /// server stops sending.
    pub async fn next(&mut self) -> Option<Update> {
        std::future::poll_fn(|context| self.poll_update(context)).await
    }

    /// Reads to the end and keeps the text.
    pub async fn collect(mut self) -> (String, Ending) {
        let mut text = String::new();
        loop {
            match self.next().await {
                Some(Update::Event(ChatEvent::Stream(StreamEvent::TextDelta { text: delta }))) => {
                    text.push_str(&delta);
                }
                Some(Update::Event(_) | Update::NotAborted(_)) => {}
                Some(Update::Ended(ending)) => return (text, ending),
                None => return (text, Ending::Lost { loss: Loss::Left, task: self.task.clone() }),
            }
        }
    }

    fn poll_update(&mut self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(update) = self.updates.poll_recv(context) else { return Poll::Pending };
        // Without a word, the client was closed.
        let update = update
            .unwrap_or_else(|| Update::Ended(Ending::Lost { loss: Loss::Left, task: self.task.clone() }));
        match &update {
            Update::Event(ChatEvent::Accepted(task)) => self.task = Some(task.clone()),
            Update::Ended(_) => self.over = true,
            Update::Event(_) | Update::NotAborted(_) => {}
        }
        Poll::Ready(Some(update))
    }
}

impl Stream for Chat {
    type Item = Update;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Update>> {
        self.poll_update(context)
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        if !self.over {
            self.stopper.stop();
        }
    }
}

/// Stops one chat; does nothing once it is over.
#[derive(Debug, Clone)]
pub struct Stopper(pub(super) How);

/// How a chat is stopped.
#[derive(Debug, Clone)]
pub(super) enum How {
    /// By a message.
    Socket(ChatId, Teller<Shell>),
    /// By hanging up.
    HangUp(Arc<Notify>),
}

impl Stopper {
    /// Stops it.
    pub fn stop(&self) {
        match &self.0 {
            How::Socket(id, teller) => {
                let id = *id;
                teller.tell(move |_, work| {
                    let now = work.now();
                    work.machine.abort(id, now);
                });
            }
            How::HangUp(notify) => notify.notify_one(),
        }
    }
}

/// Updates that may wait to be read.
pub(super) const BUFFER: usize = 256;
