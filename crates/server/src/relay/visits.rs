//! Where the clients of functions are connected.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_agents::Visit;
use switchboard_core::{AgentId, AttachmentId, PrincipalId, Timestamp};

use switchboard_engine::Inbox;

/// The connections whose turns go to functions, found by whose they are and what they are called.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    here: Mutex<HashMap<(PrincipalId, AttachmentId), Here>>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) since: Timestamp,
    pub(crate) visit: Visit,
    /// The agent that it came for.
    pub(crate) agent: AgentId,
}

impl Visits {
    /// Takes note of a connection; a newer transport of the same attachment takes its place.
    pub(crate) fn note(&self, here: Here) {
        let key = (here.visit.principal.clone(), here.visit.connection.clone());
        self.here.lock().insert(key, here);
    }

    pub(crate) fn find(&self, principal: &PrincipalId, attachment: &AttachmentId) -> Option<Here> {
        self.here.lock().get(&(principal.clone(), attachment.clone())).cloned()
    }

    /// The transport of a connection is gone; answers who that was, unless a newer one is there.
    pub(crate) fn leave(
        &self,
        principal: &PrincipalId,
        attachment: &AttachmentId,
        inbox: &Arc<Inbox>,
    ) -> Option<Here> {
        let key = (principal.clone(), attachment.clone());
        let mut here = self.here.lock();
        let own = here.get(&key).is_some_and(|known| Arc::ptr_eq(&known.inbox, inbox));
        if own { here.remove(&key) } else { None }
    }
}
