//! What happens to a connection, for whoever wants to know.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;

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
