//! Tells when everything that was said on a socket has been handed to the operating system.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The flushes of a socket. HTTP flushes a socket when nothing more waits in front of it: whoever has said
/// something before, and waits for the next flush, knows that it is out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes(Arc<Mutex<Vec<oneshot::Sender<()>>>>);

impl Flushes {
    /// Tells somebody of the next flush; should the socket be gone before, the sender is dropped.
    pub(crate) fn tell(&self, waiting: oneshot::Sender<()>) {
        self.0.lock().push(waiting);
    }

    /// The socket was flushed.
    pub(crate) fn flushed(&self) {
        for waiting in std::mem::take(&mut *self.0.lock()) {
            let _ = waiting.send(());
        }
    }
}
