//! The turns that agents of this process are working on.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::model::{CallEnd, TurnEnd};
use switchboard_core::{AgentId, CallId};
use switchboard_engine::Notice;
use tokio::sync::{Notify, watch};

use super::work::Work;

/// One running execution, as the task of its session reaches it. Dropping it tells the agent to stop.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) agent: AgentId,
    /// What its agent does.
    pub(crate) work: Arc<Work>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) board: Arc<CallBoard>,
}

impl Execution {
    /// Tells the agent answers that are not committed yet, and has it react on the spot.
    pub(super) fn answer_ahead(&self, answers: Vec<(CallId, CallEnd)>) {
        self.work.tell(|| answers.into_iter().for_each(|(call, end)| self.board.post(call, end)));
    }

    /// Passes on what concerns the agent while its turn goes on.
    pub(super) fn notify(&self, notice: Notice) {
        match notice {
            Notice::Answer(call, end) => return self.board.post(call, end),
            Notice::Stop(reason) => self.board.explain(reason.as_deref().unwrap_or("interrupted")),
            Notice::Refused(end) => {
                self.board.judge(end);
                self.board.explain("refused");
            }
            Notice::Halt | Notice::Over(_) => {}
        }
        self.stop.send_replace(true);
    }
}

/// Where the ends of calls are posted for the agent that waits for them.
#[derive(Debug, Default)]
pub(crate) struct CallBoard {
    /// In the order in which they came, which is mostly that in which they are asked for.
    ended: Mutex<VecDeque<(CallId, CallEnd)>>,
    notify: Notify,
    /// How the turn has to end, when the session found something wrong with what the agent did.
    verdict: Mutex<Option<TurnEnd>>,
    /// Why the agent has to stop, if somebody has said so.
    stop_reason: Mutex<Option<String>>,
}

impl CallBoard {
    pub(crate) fn post(&self, call: CallId, end: CallEnd) {
        self.ended.lock().push_back((call, end));
        self.notify.notify_waiters();
    }

    pub(crate) async fn end_of(&self, call: &CallId) -> CallEnd {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            if let Some(end) = self.take(call) {
                return end;
            }
            notified.await;
        }
    }

    /// The end of a call, if it is there.
    pub(crate) fn take(&self, call: &CallId) -> Option<CallEnd> {
        let mut ended = self.ended.lock();
        let place = ended.iter().position(|(known, _)| known == call)?;
        ended.remove(place).map(|(_, end)| end)
    }

    pub(crate) fn explain(&self, reason: &str) {
        self.stop_reason.lock().get_or_insert_with(|| reason.to_owned());
    }

    pub(crate) fn stop_reason(&self) -> Option<String> {
        self.stop_reason.lock().clone()
    }

    pub(crate) fn judge(&self, end: TurnEnd) {
        self.verdict.lock().get_or_insert(end);
    }

    pub(crate) fn verdict(&self) -> Option<TurnEnd> {
        self.verdict.lock().take()
    }
}
