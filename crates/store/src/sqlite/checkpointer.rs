//! Moving pages from the write-ahead log into the database, beside the writer.
//!
//! A checkpoint waits for the disk. Done by the writer alone, it would hold up every append that
//! comes meanwhile. So a connection of its own moves the bulk, and what came meanwhile, which is
//! little, the writer moves itself; only then can the log start over.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use crate::log::StoreError;

/// The thread that does it, when asked.
#[derive(Debug)]
pub(super) struct Checkpointer {
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    moved: Arc<AtomicBool>,
}

impl Checkpointer {
    /// Starts the thread. It has time for something else first, which it does with its connection.
    pub(super) fn start(
        path: &Path,
        first: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::ZERO)?;
        let (asked, requests) = mpsc::sync_channel(1);
        let moved = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&moved);
        let work = move || {
            if let Err(error) = first(&connection) {
                tracing::warn!(%error, "the log could not be looked through");
            }
            while requests.recv().is_ok() {
                if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                    tracing::warn!(%error, "a checkpoint failed");
                }
                done.store(true, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new()
            .name("switchboard-ckpt".into())
            .spawn(work)
            .map_err(|error| StoreError::Failed(format!("cannot start the checkpointer: {error}")))?;
        Ok(Self { asked: Some(asked), thread: Some(thread), moved })
    }

    /// Asks for the bulk to be moved; one move that is under way is as good.
    pub(super) fn ask(&self) {
        if let Some(asked) = &self.asked {
            let _ = asked.try_send(());
        }
    }

    /// Waits until a move that was asked for is done: nobody else can move anything meanwhile, and
    /// SQLite does not wait for that by itself.
    pub(super) fn wait(&self, patience: Duration) {
        let mut waited = Duration::ZERO;
        while !self.moved.load(Ordering::Acquire) && waited < patience {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }

    /// Whether the bulk was moved, and nobody has taken note of it yet.
    pub(super) fn has_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }

    /// The same, and takes note of it.
    pub(super) fn takes_moved(&self) -> bool {
        self.moved.swap(false, Ordering::Acquire)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How often a move that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(1);
