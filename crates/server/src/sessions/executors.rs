//! The turns that agents of this process are working on.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::model::{CallEnd, TurnEnd};
use switchboard_core::{AgentId, CallId};
use tokio::sync::{Notify, watch};

/// One running execution, as its session sees it. Dropping it tells the agent to stop.
#[derive(Debug)]
pub(crate) struct Executing {
    pub(crate) agent: AgentId,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) board: Arc<CallBoard>,
}

/// Where the ends of calls are posted for the agent that waits for them.
#[derive(Debug, Default)]
pub(crate) struct CallBoard {
    ended: Mutex<HashMap<CallId, CallEnd>>,
    notify: Notify,
    /// How the turn has to end, when the session found something wrong with what the agent did.
    verdict: Mutex<Option<TurnEnd>>,
}

impl CallBoard {
    pub(crate) fn post(&self, call: CallId, end: CallEnd) {
        self.ended.lock().insert(call, end);
        self.notify.notify_waiters();
    }

    pub(crate) async fn end_of(&self, call: &CallId) -> CallEnd {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            if let Some(end) = self.ended.lock().remove(call) {
                return end;
            }
            notified.await;
        }
    }

    pub(crate) fn judge(&self, end: TurnEnd) {
        self.verdict.lock().get_or_insert(end);
    }

    pub(crate) fn verdict(&self) -> Option<TurnEnd> {
        self.verdict.lock().take()
    }
}
