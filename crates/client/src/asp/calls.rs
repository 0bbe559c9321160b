//! Calls of this client's tools while they are executed.

use std::collections::BTreeMap;

use switchboard_asp::message::{Call, CallFailure};
use switchboard_asp::value::Value;
use tokio::task::{AbortHandle, JoinSet};

use super::tool::{Handler, ToolCall, ToolFailure};

/// The handler and the calls it works on.
pub(super) struct Calls {
    pub(super) handler: Option<Handler>,
    tasks: JoinSet<Done>,
    running: BTreeMap<(u16, String), AbortHandle>,
}

impl Calls {
    pub(super) fn new(handler: Option<Handler>) -> Self {
        Self { handler, tasks: JoinSet::new(), running: BTreeMap::new() }
    }

    /// Begins a call; answers at once if nobody executes it.
    pub(super) fn start(&mut self, id: u16, call: &Call) -> Option<Done> {
        let call_id = call.call_id.clone();
        let refuse = |name: &str, message: &str| Err(ToolFailure::new(name, message).into());
        let Some(handler) = self.handler.clone() else {
            let result = refuse("TOOL_NOT_FOUND", "this client executes no tools");
            return Some(Done { id, call_id, result });
        };
        if self.running.len() >= MAX_CALLS {
            let result = refuse("BUSY", "this client executes too many tools already");
            return Some(Done { id, call_id, result });
        }
        let todo = ToolCall::new(id, call);
        let key = (id, call_id.clone());
        let task = self.tasks.spawn(async move {
            let result = handler.run(todo).await;
            Done { id, call_id, result }
        });
        self.running.insert(key, task);
        None
    }

    /// The next call that is done; none while nothing is being executed. May be dropped at any time.
    pub(super) async fn next(&mut self) -> Option<Done> {
        loop {
            // Those that were stopped have nothing to say.
            if let Ok(done) = self.tasks.join_next().await? {
                self.running.remove(&(done.id, done.call_id.clone()));
                return Some(done);
            }
        }
    }

    /// What a request that is over wanted is not wanted any more.
    pub(super) fn stop(&mut self, id: u16) {
        let first = (id, String::new());
        while let Some((key, _)) = self.running.range(first.clone()..).next().filter(|(key, _)| key.0 == id) {
            let key = key.clone();
            if let Some(task) = self.running.remove(&key) {
                task.abort();
            }
        }
    }

    /// Stops everything.
    pub(super) fn stop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
    }

    /// Stops everything and waits until it has.
    pub(super) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}

/// A call that was executed.
pub(super) struct Done {
    pub(super) id: u16,
    pub(super) call_id: String,
    pub(super) result: Result<Option<Value>, CallFailure>,
}

const MAX_CALLS: usize = 256;
