//! Where everything for one connection arrives: answers, attachments, notices and wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use switchboard_core::{CloseReason, Reject, Reply, RequestId, SessionId, SessionView, Signal, VoiceEvent};

use crate::feed::{Cursor, Feed};

/// The inbox of one connection's driver. Costs next to nothing while idle.
#[derive(Debug, Default)]
pub struct Inbox {
    /// What the connection follows, for whoever looks at it from outside.
    sessions: Mutex<Vec<SessionId>>,
    deliveries: Mutex<Vec<Delivery>>,
    /// Whether something has happened since the driver last asked.
    news: AtomicBool,
    driver: AtomicWaker,
}

/// Something for one connection.
#[derive(Debug)]
pub enum Delivery {
    /// A request was done.
    Done(RequestId, Reply),
    /// A request was refused.
    Rejected(RequestId, Reject),
    /// The connection follows a session from here on.
    Attached(RequestId, Box<Attached>),
    /// Something for an enrolled connection.
    Signal(Signal),
    /// Something of its voice.
    Voice(VoiceEvent),
    /// The server is leaving.
    Drain {
        /// When the peer should come back.
        retry_ms: u64,
    },
    /// The transport has to go.
    Close(CloseReason),
}

/// A session that a connection follows from here on.
#[derive(Debug)]
pub struct Attached {
    /// Which.
    pub session: SessionId,
    /// Where its events are read.
    pub feed: Arc<Feed>,
    /// How far it has read.
    pub cursor: Arc<Cursor>,
    /// The session as it is.
    pub view: SessionView,
}

impl Inbox {
    /// Puts something in, and wakes the connection.
    pub fn deliver(&self, delivery: Delivery) {
        self.deliveries.lock().push(delivery);
        self.wake();
    }

    /// Puts the answer to a request in.
    pub fn answer(&self, request: RequestId, answer: Result<Reply, Reject>) {
        self.deliver(match answer {
            Ok(reply) => Delivery::Done(request, reply),
            Err(reject) => Delivery::Rejected(request, reject),
        });
    }

    /// Tells which sessions the connection follows now.
    pub fn show_sessions(&self, sessions: Vec<SessionId>) {
        *self.sessions.lock() = sessions;
    }

    /// Which sessions the connection follows.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.sessions.lock().clone()
    }

    /// There is something to look at.
    pub fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Takes everything that has arrived.
    pub fn take(&self) -> Vec<Delivery> {
        std::mem::take(&mut *self.deliveries.lock())
    }

    /// How much has arrived and was not taken.
    pub fn waiting(&self) -> usize {
        self.deliveries.lock().len()
    }

    /// Whether something has happened since this was last taken.
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Takes the news that something has happened.
    pub fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::Acquire)
    }

    /// Waits for something to arrive, or for a session to move on. Only the driver may, since only the last one who
    /// asked is woken.
    pub fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        if !self.news.swap(false, Ordering::Acquire) {
            self.driver.register(context.waker());
            // It may have happened just before.
            if !self.news.swap(false, Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn news_are_told_once_whether_somebody_waits_or_not() {
        let inbox = Arc::new(Inbox::default());
        let woken = || poll_fn(|context| inbox.poll_woken(context));
        assert!(woken().now_or_never().is_none(), "nothing has happened");
        inbox.wake();
        inbox.wake();
        woken().await;
        assert!(woken().now_or_never().is_none(), "it was told already");
        let waker = inbox.clone();
        let later = tokio::spawn(async move { waker.deliver(Delivery::Drain { retry_ms: 1 }) });
        woken().await;
        later.await.unwrap();
        assert_eq!(inbox.take().len(), 1);
    }
}
