//! One task, as the one who asked for it sees it.

use std::collections::BTreeMap;

use serde_json::Value;
use switchboard_aip::client::{Ending, FailureKind};
use tokio::sync::mpsc;

use super::error::{ClientError, TaskError};
use super::link::Control;

/// What happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// The server took it.
    Accepted,
    /// It is over; nothing follows.
    Ended(Ending),
}

/// The tasks of a client that somebody waits for.
#[derive(Debug)]
pub(super) struct Tasks {
    handles: mpsc::WeakUnboundedSender<Control>,
    open: BTreeMap<String, mpsc::Sender<TaskUpdate>>,
}

impl Tasks {
    pub(super) fn new(handles: mpsc::WeakUnboundedSender<Control>) -> Self {
        Self { handles, open: BTreeMap::new() }
    }

    /// The task of this name, which was submitted just now.
    pub(super) fn open(&mut self, session_id: String) -> Result<Task, ClientError> {
        let handle = self.handles.upgrade().ok_or(ClientError::Closed)?;
        let (task, updates) = Task::new(session_id.clone(), handle);
        self.open.insert(session_id, updates);
        Ok(task)
    }

    pub(super) fn accepted(&self, session_id: &str) {
        if let Some(task) = self.open.get(session_id) {
            let _ = task.try_send(TaskUpdate::Accepted);
        }
    }

    pub(super) fn ended(&mut self, session_id: &str, ending: impl FnOnce() -> Ending) {
        if let Some(task) = self.open.remove(session_id) {
            let _ = task.try_send(TaskUpdate::Ended(ending()));
        }
    }
}

/// A task. Dropping it before its end cancels it.
#[derive(Debug)]
pub struct Task {
    session_id: String,
    updates: mpsc::Receiver<TaskUpdate>,
    handle: mpsc::UnboundedSender<Control>,
    over: bool,
}

impl Task {
    /// Answers the task, and where its updates go.
    pub(super) fn new(
        session_id: String,
        handle: mpsc::UnboundedSender<Control>,
    ) -> (Self, mpsc::Sender<TaskUpdate>) {
        let (sender, updates) = mpsc::channel(UPDATES);
        (Self { session_id, updates, handle, over: false }, sender)
    }

    /// What the server calls it.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Wants it to end; the end follows.
    pub fn cancel(&self, reason: impl Into<String>) {
        let (session_id, reason) = (self.session_id.clone(), reason.into());
        // Without the client it has ended.
        let _ = self.handle.send(Control::Cancel { session_id, reason });
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

impl Drop for Task {
    fn drop(&mut self) {
        if !self.over {
            self.cancel("nobody waits for it any more");
        }
    }
}

/// A task has no more than that.
const UPDATES: usize = 2;
