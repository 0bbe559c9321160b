//! The turns that agents of this process are working on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::model::{CallEnd, TurnEnd};
use switchboard_core::{AgentId, CallId, WorkerId};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::work::Work;

/// One running execution, as its session sees it. Dropping it tells the agent to stop.
#[derive(Debug)]
pub(crate) struct Executing {
    pub(crate) agent: AgentId,
    pub(crate) worker: WorkerId,
    /// What its agent does, where the agent can be told what is not committed yet.
    pub(crate) ahead: Option<Arc<Work>>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) board: Arc<CallBoard>,
    pub(crate) lease: Arc<Lease>,
}

/// A sign of life that an executor renews while it works, or waits for its turn to begin. One that
/// has stopped renewing is lost, whatever became of it.
///
/// Silence alone proves nothing if the whole process was stopped: whoever looks then first has
/// doubts, and gives the executor time for a sign.
#[derive(Debug)]
pub(crate) struct Lease {
    signs: Mutex<Signs>,
    term: Duration,
}

#[derive(Debug)]
struct Signs {
    renewed: Instant,
    doubted: Option<Instant>,
}

impl Lease {
    pub(crate) fn new(term: Duration) -> Self {
        Self { signs: Mutex::new(Signs { renewed: Instant::now(), doubted: None }), term }
    }

    /// How often it is to be renewed.
    pub(crate) fn interval(&self) -> Duration {
        self.term / 3
    }

    pub(crate) fn renew(&self) {
        *self.signs.lock() = Signs { renewed: Instant::now(), doubted: None };
    }

    /// When it has to be looked at, unless it is renewed.
    pub(crate) fn due(&self) -> Instant {
        let signs = self.signs.lock();
        match signs.doubted {
            Some(doubted) => doubted + self.interval(),
            None => signs.renewed + self.term - self.interval(),
        }
    }

    /// Looks at it; answers whether it has run out.
    pub(crate) fn look(&self, now: Instant) -> bool {
        if now < self.due() {
            return false;
        }
        let mut signs = self.signs.lock();
        signs.doubted.replace(now).is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn an_executor_is_lost_after_its_term_and_not_before() {
        let lease = Lease::new(TERM);
        let pass = async |seconds| tokio::time::advance(Duration::from_secs(seconds)).await;
        pass(19).await;
        assert!(!lease.look(Instant::now()));
        pass(1).await;
        assert_eq!(lease.due(), Instant::now());
        assert!(!lease.look(Instant::now()), "only doubted");
        pass(9).await;
        assert!(!lease.look(Instant::now()));
        pass(1).await;
        assert!(lease.look(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_gives_its_executors_time() {
        let lease = Lease::new(TERM);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(!lease.look(Instant::now()));
        lease.renew();
        tokio::time::advance(Duration::from_secs(15)).await;
        assert!(!lease.look(Instant::now()));
    }
}
