//! One task, as the one who asked for it sees it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use switchboard_aip::client::{Ending, FailureKind};
use tokio::sync::mpsc;

use super::error::TaskError;

/// What happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// The server took it.
    Accepted,
    /// It is over; nothing follows.
    Ended(Ending),
}

/// The tasks of a client that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Tasks(BTreeMap<String, mpsc::Sender<TaskUpdate>>);

impl Tasks {
    /// The task of this name, which was submitted just now, and how it is cancelled.
    pub(super) fn open(
        &mut self,
        session_id: String,
        cancel: impl Fn(String, String) + Send + Sync + 'static,
    ) -> Task {
        let (sender, updates) = mpsc::channel(UPDATES);
        self.0.insert(session_id.clone(), sender);
        Task { session_id, updates, cancel: Box::new(cancel), over: false }
    }

    pub(super) fn accepted(&self, session_id: &str) {
        if let Some(task) = self.0.get(session_id) {
            let _ = task.try_send(TaskUpdate::Accepted);
        }
    }

    pub(super) fn ended(&mut self, session_id: &str, ending: impl FnOnce() -> Ending) {
        if let Some(task) = self.0.remove(session_id) {
            let _ = task.try_send(TaskUpdate::Ended(ending()));
        }
    }
}

/// A task. Dropping it before its end cancels it.
pub struct Task {
    session_id: String,
    updates: mpsc::Receiver<TaskUpdate>,
    /// Cancels the task with this id for this reason.
    cancel: Box<dyn Fn(String, String) + Send + Sync>,
    over: bool,
}

impl Task {
    /// What the server calls it.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Wants it to end; the end follows.
    pub fn cancel(&self, reason: impl Into<String>) {
        (self.cancel)(self.session_id.clone(), reason.into());
    }

    /// The next update; none after the last one.
    pub async fn next(&mut self) -> Option<TaskUpdate> {
        if self.over {
            return None;
        }
        // Without a word, the client was closed.
        let update = self.updates.recv().await.unwrap_or_else(|| {
            TaskUpdate::Ended(Ending::Failed {
                kind: FailureKind::DeviceDisconnection,
                error: "the client was closed".to_owned(),
                result: Value::Null,
            })
        });
        self.over = matches!(update, TaskUpdate::Ended(_));
        Some(update)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// It did not end well.
    pub async fn result(mut self) -> Result<Value, TaskError> {
        while let Some(update) = self.next().await {
            match update {
                TaskUpdate::Accepted => {}
                TaskUpdate::Ended(Ending::Completed(result)) => return Ok(result),
                TaskUpdate::Ended(Ending::Failed { kind, error, result }) => {
                    return Err(TaskError { kind, error, result });
                }
            }
        }
        let (kind, error) = (FailureKind::ExecutionError, "the end was read already".to_owned());
        Err(TaskError { kind, error, result: Value::Null })
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.over {
            self.cancel("nobody waits for it any more");
        }
    }
}

/// A task has no more than that.
const UPDATES: usize = 2;
