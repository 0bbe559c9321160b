//! When pages move from the write-ahead log into the database.
//!
//! The checkpointer moves the bulk beside the writer, and the writer the little that came meanwhile. Readers that need
//! old pages hold this up; they are waited for only once the log has grown far beyond its usual size.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use crate::log::StoreError;
use crate::sqlite::SqliteOptions;
use crate::sqlite::checkpointer::Checkpointer;
use crate::sqlite::familiar::Familiar;

/// The write-ahead log, as its writer sees it.
#[derive(Debug)]
pub(super) struct WriteAhead {
    /// Its pages, as of the last commit.
    pages: Arc<AtomicU32>,
    checkpointer: Checkpointer,
    /// Whether the checkpointer is at work.
    asked: bool,
    /// How many pages it usually grows to.
    every: u32,
    /// At how many of them the next checkpoint is due.
    due_at: u32,
    /// How long the writer's connection waits for others otherwise.
    busy_timeout: Duration,
}

impl WriteAhead {
    /// Watches the log of this connection, and starts the thread beside it.
    pub(super) fn watch(
        connection: &mut Connection,
        path: &Path,
        familiar: &Arc<Familiar>,
        options: &SqliteOptions,
    ) -> Result<Self, StoreError> {
        let pages = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            seen.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let all = Arc::clone(familiar);
        Ok(Self {
            pages,
            checkpointer: Checkpointer::start(path, move |connection| all.learn(connection))?,
            asked: false,
            every: options.checkpoint_pages,
            due_at: options.checkpoint_pages,
            busy_timeout: options.busy_timeout,
        })
    }

    /// Whether pages are to be moved, or were.
    pub(super) fn is_due(&self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        let overdue = pages >= self.every.saturating_mul(PATIENCE);
        let is_due = pages >= self.due_at && (overdue || !self.asked);
        is_due || self.checkpointer.has_moved()
    }

    /// Has pages moved, if that is due. `healthy` says whether the log could be written lately.
    pub(super) fn move_if_due(&mut self, connection: &Connection, healthy: bool) {
        if !self.is_due() {
            return;
        }
        let (pages, every) = (self.pages.load(Ordering::Relaxed), self.every);
        if self.checkpointer.takes_moved() {
            self.asked = false;
        } else if pages < every.saturating_mul(PATIENCE) {
            self.asked = true;
            self.checkpointer.ask();
            return;
        }
        match checkpoint(connection, "PASSIVE", healthy) {
            Some(Checkpoint::Whole) => self.due_at = every,
            // Readers still need old pages. If that goes on for long, wait for them a moment.
            Some(Checkpoint::Part) if pages >= every.saturating_mul(PATIENCE) => {
                // Beyond that, appends wait for the log rather than the log for appends.
                let overdue = pages >= every.saturating_mul(PATIENCE + PATIENCE / 2);
                let patience = if overdue { OVERDUE_WAIT } else { CHECKPOINT_WAIT };
                if self.asked {
                    self.checkpointer.wait(patience);
                }
                set_busy_timeout(connection, patience);
                let done = checkpoint(connection, "RESTART", healthy);
                set_busy_timeout(connection, self.busy_timeout);
                let whole = matches!(done, Some(Checkpoint::Whole));
                self.due_at = if whole { every } else { pages.saturating_add(every) };
            }
            Some(Checkpoint::Part) | None => self.due_at = pages.saturating_add(every),
        }
    }
}

/// Moves what nobody needs where it is, whether it is due or not.
pub(super) fn move_now(connection: &Connection, healthy: bool) {
    checkpoint(connection, "PASSIVE", healthy);
}

/// How long the connection waits for others.
pub(super) fn set_busy_timeout(connection: &Connection, timeout: Duration) {
    if let Err(error) = connection.busy_timeout(timeout) {
        tracing::warn!(%error, "cannot set the busy timeout");
    }
}

enum Checkpoint {
    Whole,
    Part,
}

fn checkpoint(connection: &Connection, mode: &str, healthy: bool) -> Option<Checkpoint> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let done = connection.query_row(&sql, [], |row| {
        let (busy, total, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(if !busy && moved >= total { Checkpoint::Whole } else { Checkpoint::Part })
    });
    // While nothing can be written this fails again and again, and the log has said so once.
    done.inspect_err(|error| match healthy {
        true => tracing::warn!(%error, "checkpoint failed"),
        false => tracing::debug!(%error, "checkpoint failed"),
    })
    .ok()
}

/// So many times the usual size may the write-ahead log reach before readers are waited for.
const PATIENCE: u32 = 8;
/// How long the writer waits for a checkpoint that is long overdue.
const OVERDUE_WAIT: Duration = Duration::from_secs(2);
const CHECKPOINT_WAIT: Duration = Duration::from_millis(50);
