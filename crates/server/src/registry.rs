//! The connections that are open now: to be listed, drained and, when a credential is revoked,
//! closed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use switchboard_core::{CloseReason, Timestamp};
use tokio::sync::Notify;

use crate::admin::{ConnectionInfo, Connections};
use crate::auth::{Identity, Revocations};
use switchboard_engine::{Delivery, Inbox};

/// Every open connection of this process.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Entry>>,
    /// Set once all have been told to leave, with the advice for whoever was still on the way in.
    leaving: OnceLock<u64>,
    left: Notify,
}

/// One open connection.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) protocol: &'static str,
    /// Changes when the credential is renewed.
    pub(crate) identity: Arc<Mutex<Identity>>,
    pub(crate) address: IpAddr,
    pub(crate) opened_at: Timestamp,
    pub(crate) inbox: Arc<Inbox>,
}

/// Keeps a connection listed while it lives.
#[derive(Debug)]
pub(crate) struct Listed {
    registry: Arc<Registry>,
    pub(crate) number: u64,
}

impl Registry {
    pub(crate) fn enter(self: &Arc<Self>, entry: Entry) -> Listed {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.open.lock();
        if let Some(&retry_ms) = self.leaving.get() {
            entry.inbox.deliver(Delivery::Drain { retry_ms });
        }
        open.insert(number, entry);
        drop(open);
        Listed { registry: self.clone(), number }
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Tells every peer to come back later; advice is spread evenly from `first_ms` on, so that they
    /// do not all come back at once.
    pub(crate) fn drain(&self, first_ms: u64, spread_ms: u64) {
        let open = self.open.lock();
        // Under the lock: whoever enters later finds it.
        self.leaving.get_or_init(|| first_ms + spread_ms);
        let count = open.len().max(1) as u64;
        for (place, entry) in open.values().enumerate() {
            let retry_ms = first_ms + spread_ms * place as u64 / count;
            entry.inbox.deliver(Delivery::Drain { retry_ms });
        }
    }

    pub(crate) fn close_all(&self, reason: CloseReason) {
        for entry in self.open.lock().values() {
            entry.inbox.deliver(Delivery::Close(reason));
        }
    }

    /// Closes every connection whose credential no longer counts.
    pub(crate) fn close_revoked(&self, revocations: &Revocations) {
        for entry in self.open.lock().values().filter(|entry| revocations.covers(&entry.identity.lock())) {
            entry.inbox.deliver(Delivery::Close(CloseReason::Unauthorized));
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.open.lock().is_empty() {
                return;
            }
            left.await;
        }
    }
}

impl Connections for Registry {
    fn list(&self) -> Vec<ConnectionInfo> {
        let entries = self.open.lock();
        let info = |(number, entry): (&u64, &Entry)| {
            let principal = entry.identity.lock().principal.clone();
            ConnectionInfo {
                connection: *number,
                protocol: entry.protocol.to_owned(),
                principal: principal.id,
                address: entry.address,
                opened_at: entry.opened_at,
                expires_at: principal.expires_at,
                sessions: entry.inbox.sessions(),
            }
        };
        entries.iter().map(info).collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.registry.open.lock().remove(&self.number);
        self.registry.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use switchboard_core::Principal;

    use super::*;
    use crate::auth::Credential;

    fn enter(registry: &Arc<Registry>) -> (Arc<Inbox>, Listed) {
        let inbox = Arc::new(Inbox::default());
        let identity = Identity { principal: Principal::new("ann"), credential: Credential::Development };
        let listed = registry.enter(Entry {
            protocol: "asp",
            identity: Arc::new(Mutex::new(identity)),
            address: Ipv4Addr::LOCALHOST.into(),
            opened_at: Timestamp::default(),
            inbox: inbox.clone(),
        });
        (inbox, listed)
    }

    #[test]
    fn whoever_was_on_the_way_in_is_told_to_leave_too() {
        let registry = Arc::new(Registry::default());
        let (early, _early) = enter(&registry);
        assert!(early.take().is_empty());
        registry.drain(100, 50);
        assert!(matches!(early.take()[..], [Delivery::Drain { retry_ms: 100 }]));
        let (late, _late) = enter(&registry);
        assert!(matches!(late.take()[..], [Delivery::Drain { retry_ms: 150 }]));
    }
}
