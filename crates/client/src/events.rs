//! What happens to a connection, for whoever wants to know.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use switchboard_core::client::Cause;
use tokio::sync::mpsc;

/// What happens to a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent<F> {
    /// Connected.
    Connected,
    /// Connected again, and what was under way goes on.
    Resumed {
        /// How much of it the server did not have any more.
        lost: usize,
    },
    /// Not connected; the client tries again.
    Disconnected {
        /// Why.
        cause: Cause<F>,
        /// When it will.
        retry_in: Duration,
    },
    /// Not connected, and it stays so; see `online` of the client.
    Closed {
        /// Why.
        cause: Cause<F>,
    },
}

impl<F> ConnectionEvent<F> {
    pub(crate) fn lost(cause: Cause<F>, retry_in: Option<Duration>) -> Self {
        match retry_in {
            Some(retry_in) => Self::Disconnected { cause, retry_in },
            None => Self::Closed { cause },
        }
    }
}

/// Connection events from the moment of asking on. A reader that falls behind loses the newest.
#[derive(Debug)]
pub struct Events<E> {
    receiver: mpsc::Receiver<E>,
}

impl<E> Events<E> {
    pub(crate) fn new(receiver: mpsc::Receiver<E>) -> Self {
        Self { receiver }
    }

    /// The next event; none once the client is closed.
    pub async fn next(&mut self) -> Option<E> {
        self.receiver.recv().await
    }
}

impl<E> Stream for Events<E> {
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        self.receiver.poll_recv(context)
    }
}

/// The other ends.
#[derive(Debug)]
pub(crate) struct Subscribers<E>(Vec<mpsc::Sender<E>>);

impl<E: Clone> Subscribers<E> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, subscriber: mpsc::Sender<E>) {
        self.0.push(subscriber);
    }

    pub(crate) fn publish(&mut self, event: &E) {
        self.0.retain(|subscriber| match subscriber.try_send(event.clone()) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    }
}
