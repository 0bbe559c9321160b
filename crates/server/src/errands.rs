//! What connections have done outside of every session, by whoever serves their protocol.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use switchboard_core::{Errand, Pii, Principal, Reject, Reply, RequestId};
use tokio::sync::Semaphore;

use switchboard_engine::Inbox;

/// Runs the errands of one protocol, in the protocol's own words.
pub(crate) trait Errands: Debug + Send + Sync {
    /// Does what is asked. Whoever asked may be gone before it is done.
    fn run(self: Arc<Self>, caller: ErrandCaller, errand: Value) -> Running;
}

/// An errand on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Errand, Reject>> + Send>>;

/// On whose behalf an errand is run.
#[derive(Clone, Debug)]
pub(crate) struct ErrandCaller {
    /// Whoever the connection speaks for until now.
    pub(crate) principal: Principal,
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// The scheme, host and inbox under which it reached the server.
    pub(crate) origin: String,
}

/// Everybody who runs errands, by the name of the protocol.
#[derive(Debug)]
pub(crate) struct ErrandDesk {
    /// Named once everything is there that they need.
    runners: OnceLock<BTreeMap<&'static str, Arc<dyn Errands>>>,
    room: Arc<Semaphore>,
}

impl Default for ErrandDesk {
    fn default() -> Self {
        Self { runners: OnceLock::new(), room: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl ErrandDesk {
    /// Says who runs errands from now on; only the first time counts.
    pub(crate) fn staff(&self, runners: BTreeMap<&'static str, Arc<dyn Errands>>) {
        let _ = self.runners.set(runners);
    }

    /// Has an errand run; the answer arrives at the inbox of whoever asked.
    pub(crate) fn run(
        &self,
        protocol: &'static str,
        caller: ErrandCaller,
        request: RequestId,
        errand: Pii<Value>,
        inbox: Arc<Inbox>,
    ) {
        let Some(runner) = self.runners.get().and_then(|runners| runners.get(protocol)).cloned() else {
            let reason = "nobody runs errands for this protocol".to_owned();
            return inbox.answer(request, Err(Reject::Unserved { reason }));
        };
        let room = self.room.clone();
        tokio::spawn(async move {
            let run = async {
                // Never closed, so there is room in the end.
                let _place = room.acquire().await;
                runner.run(caller, errand.0).await
            };
            let answer = match tokio::time::timeout(LONGEST, run).await {
                Ok(answer) => answer.map(|errand| Reply::Errand(Box::new(errand))),
                Err(_) => Err(Reject::Unserved { reason: "it took too long".to_owned() }),
            };
            inbox.answer(request, answer);
        });
    }
}

/// Errands that are run at the same time; others wait.
const AT_ONCE: usize = 256;
/// How long an errand may take, the wait included.
const LONGEST: Duration = Duration::from_secs(30);
