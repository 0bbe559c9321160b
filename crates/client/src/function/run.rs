//! An invocation while it runs: whether it was cancelled, and whether its answer has ended.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::seen::Ticket;

/// Why an invocation was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The relay broke the connection off.
    Abort,
    /// The relay said so.
    Interrupt,
    /// The relay said so when asked.
    Poll,
    /// The time is up.
    Deadline,
    /// The function's server stops.
    Shutdown,
}

impl Cause {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Interrupt => "interrupt",
            Self::Poll => "poll",
            Self::Deadline => "deadline",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What those who take part in an invocation know of each other. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Progress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cause: watch::Sender<Option<Cause>>,
    ended: AtomicBool,
}

impl Progress {
    /// Cancels, unless the answer has ended or somebody was faster.
    pub(super) fn cancel(&self, cause: Cause) {
        if !self.has_ended() {
            self.0.cause.send_if_modified(|known| {
                let first = known.is_none();
                *known = known.or(Some(cause));
                first
            });
        }
    }

    /// Why it was cancelled, once it is.
    pub(super) async fn cancelled(&self) -> Option<Cause> {
        let mut cause = self.0.cause.subscribe();
        let cause = cause.wait_for(Option::is_some).await;
        cause.ok().and_then(|cause| *cause)
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        *self.0.cause.borrow()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    pub(super) fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Shared { cause: watch::Sender::new(None), ended: AtomicBool::new(false) }))
    }
}

/// The relay's end of an answer. It is dropped when the answer has ended, or before: hyper drops what belongs to a
/// broken connection, and then nobody wants the answer any more.
#[derive(Debug)]
pub(super) struct Listening {
    progress: Progress,
    ticket: Option<Ticket>,
}

impl Listening {
    pub(super) fn new(progress: Progress, ticket: Ticket) -> Self {
        Self { progress, ticket: Some(ticket) }
    }

    /// The answer does not need the connection any more.
    pub(super) fn answered(mut self) {
        self.ticket.take().into_iter().for_each(Ticket::finish);
    }

    /// There is no answer, and a later attempt may get one.
    pub(super) fn refused(mut self) {
        self.ticket = None;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        match self.ticket.take() {
            Some(ticket) if self.progress.has_ended() => ticket.finish(),
            Some(ticket) => {
                // First, so that whoever learns of it may try again.
                drop(ticket);
                self.progress.cancel(Cause::Abort);
            }
            None => {}
        }
    }
}

/// What runs, by `inv`.
#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<HashMap<String, Progress>>>);

impl Running {
    /// Enters an invocation until what is returned is dropped.
    pub(super) fn enter(&self, inv: &str, progress: &Progress) -> Entered {
        self.0.lock().insert(inv.to_owned(), progress.clone());
        Entered { running: self.clone(), inv: inv.to_owned() }
    }

    /// Cancels an invocation, if it runs here.
    pub(super) fn cancel(&self, inv: &str, cause: Cause) {
        let progress = self.0.lock().get(inv).cloned();
        if let Some(progress) = progress {
            progress.cancel(cause);
        }
    }
}

#[derive(Debug)]
pub(super) struct Entered {
    running: Running,
    inv: String,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.inv);
    }
}
