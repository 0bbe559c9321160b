//! Slots for turns that agents are at work on, shared fairly between principals.
//!
//! A principal has a share of the slots, so that there are some left for others. Whoever finds none waits, and a slot that
//! becomes free goes to the principal that has the fewest at work; among its turns, to the one that has waited longest.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::PrincipalId;
use tokio::sync::oneshot;

use crate::config::LimitsConfig;

/// All slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    shared: Arc<Shared>,
}

/// One slot, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    principal: PrincipalId,
}

/// The principal has as many turns waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

impl Slots {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let shares = Shares { free: limits.running_turns, next: 0, principals: HashMap::new() };
        Self {
            shared: Arc::new(Shared {
                share: limits.running_turns_per_principal,
                most_waiting: limits.waiting_turns_per_principal,
                shares: Mutex::new(shares),
            }),
        }
    }

    /// A slot, unless one would have to be waited for.
    pub(crate) fn try_take(&self, principal: &PrincipalId) -> Option<Slot> {
        self.shared.shares.lock().take(principal, self.shared.share).then(|| self.slot(principal))
    }

    /// Waits for a slot, behind those of the same principal that wait already.
    ///
    /// # Errors
    /// Too many of them wait.
    pub(crate) async fn take(&self, principal: &PrincipalId) -> Result<Slot, Crowded> {
        let waiting = {
            let mut shares = self.shared.shares.lock();
            if shares.take(principal, self.shared.share) {
                return Ok(self.slot(principal));
            }
            let waiting = shares.principals.get(principal).map_or(0, |share| share.waiting.len());
            if waiting >= self.shared.most_waiting {
                return Err(Crowded);
            }
            shares.wait(principal)
        };
        self.wait(principal, waiting).await
    }

    /// Waits for a slot to go on with what was begun: however many others wait.
    pub(crate) async fn take_again(&self, principal: &PrincipalId) -> Result<Slot, Crowded> {
        let waiting = {
            let mut shares = self.shared.shares.lock();
            if shares.take(principal, self.shared.share) {
                return Ok(self.slot(principal));
            }
            shares.wait(principal)
        };
        self.wait(principal, waiting).await
    }

    async fn wait(
        &self,
        principal: &PrincipalId,
        (number, granted): (u64, oneshot::Receiver<Slot>),
    ) -> Result<Slot, Crowded> {
        let _place = WaitingPlace { shared: &self.shared, principal, number };
        // Nobody else drops the other end.
        granted.await.map_err(|_| Crowded)
    }

    fn slot(&self, principal: &PrincipalId) -> Slot {
        Slot { shared: self.shared.clone(), principal: principal.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.shares.lock().release(&self.principal);
        self.shared.grant();
    }
}

/// Somebody who waits; forgotten when it is dropped.
struct WaitingPlace<'a> {
    shared: &'a Arc<Shared>,
    principal: &'a PrincipalId,
    number: u64,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.shared.shares.lock().forget(self.principal, self.number);
    }
}

#[derive(Debug)]
struct Shared {
    /// Slots that one principal may have.
    share: usize,
    most_waiting: usize,
    shares: Mutex<Shares>,
}

impl Shared {
    /// Gives free slots to those who wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let Some((principal, waiter)) = self.shares.lock().choose(self.share) else { return };
            // One that comes too late is free again at once, and is given to the next.
            drop(waiter.granted.send(Slot { shared: self.clone(), principal }));
        }
    }
}

#[derive(Debug)]
struct Shares {
    free: usize,
    next: u64,
    principals: HashMap<PrincipalId, Share>,
}

/// What one principal has.
#[derive(Debug, Default)]
struct Share {
    running: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    granted: oneshot::Sender<Slot>,
}

impl Shares {
    fn take(&mut self, principal: &PrincipalId, share: usize) -> bool {
        let running = self.principals.get(principal).map_or(0, |known| known.running);
        if self.free == 0 || running >= share {
            return false;
        }
        self.free -= 1;
        self.principals.entry(principal.clone()).or_default().running += 1;
        true
    }

    fn wait(&mut self, principal: &PrincipalId) -> (u64, oneshot::Receiver<Slot>) {
        let (granted, receiver) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        let share = self.principals.entry(principal.clone()).or_default();
        share.waiting.push_back(Waiter { number, granted });
        (number, receiver)
    }

    fn release(&mut self, principal: &PrincipalId) {
        self.free += 1;
        if let Some(share) = self.principals.get_mut(principal) {
            share.running = share.running.saturating_sub(1);
        }
        self.tidy(principal);
    }

    fn forget(&mut self, principal: &PrincipalId, number: u64) {
        if let Some(share) = self.principals.get_mut(principal) {
            share.waiting.retain(|waiter| waiter.number != number);
        }
        self.tidy(principal);
    }

    fn tidy(&mut self, principal: &PrincipalId) {
        let idle = |share: &Share| share.running == 0 && share.waiting.is_empty();
        if self.principals.get(principal).is_some_and(idle) {
            self.principals.remove(principal);
        }
    }

    /// Who gets a free slot: it is theirs already.
    fn choose(&mut self, share: usize) -> Option<(PrincipalId, Waiter)> {
        if self.free == 0 {
            return None;
        }
        let waiting = self.principals.iter_mut().filter(|(_, known)| known.running < share);
        let waiting = waiting.filter_map(|(principal, known)| {
            let oldest = known.waiting.front()?.number;
            Some(((known.running, oldest), principal, known))
        });
        let (_, principal, known) = waiting.min_by_key(|(order, _, _)| *order)?;
        let waiter = known.waiting.pop_front()?;
        known.running += 1;
        self.free -= 1;
        Some((principal.clone(), waiter))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn slots(all: usize, share: usize, waiting: usize) -> Slots {
        Slots::new(&LimitsConfig {
            running_turns: all,
            running_turns_per_principal: share,
            waiting_turns_per_principal: waiting,
            ..LimitsConfig::default()
        })
    }

    fn is_untouched(slots: &Slots, all: usize) -> bool {
        let shares = slots.shared.shares.lock();
        shares.free == all && shares.principals.is_empty()
    }

    #[test]
    fn a_principal_leaves_some_to_others() {
        let (slots, ann, bob) = (slots(4, 3, 10), PrincipalId::from("ann"), PrincipalId::from("bob"));
        let taken: Vec<Slot> = (0..3).map(|_| slots.try_take(&ann).unwrap()).collect();
        assert!(slots.try_take(&ann).is_none());
        let his = slots.try_take(&bob).unwrap();
        assert!(slots.try_take(&bob).is_none(), "all are taken");
        drop((taken, his));
        assert!(is_untouched(&slots, 4));
    }

    #[tokio::test]
    async fn whoever_has_fewest_is_next() {
        let slots = slots(2, 2, 10);
        let (ann, bob, eve) = (PrincipalId::from("ann"), PrincipalId::from("bob"), PrincipalId::from("eve"));
        let (one, two) = (slots.try_take(&ann).unwrap(), slots.try_take(&ann).unwrap());
        let mut hers: Vec<_> = (0..3).map(|_| Box::pin(slots.take(&ann))).collect();
        assert!(hers.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let (mut his, mut evas) = (Box::pin(slots.take(&bob)), Box::pin(slots.take(&eve)));
        assert!((&mut his).now_or_never().is_none() && (&mut evas).now_or_never().is_none());
        drop(one);
        let his = his.now_or_never().unwrap().unwrap();
        assert!(
            (&mut evas).now_or_never().is_none() && (&mut hers[0]).now_or_never().is_none(),
            "he had none"
        );
        drop(two);
        // She has none now either, and has waited longer.
        let first = (&mut hers[0]).now_or_never().unwrap().unwrap();
        assert!((&mut evas).now_or_never().is_none());
        drop(his);
        let evas = evas.now_or_never().unwrap().unwrap();
        assert!((&mut hers[1]).now_or_never().is_none(), "in their order");
        drop((evas, first));
        assert!((&mut hers[1]).now_or_never().is_some() && (&mut hers[2]).now_or_never().is_some());
        drop(hers);
        assert!(is_untouched(&slots, 2));
    }

    #[tokio::test]
    async fn whoever_has_gone_is_passed_over() {
        let (slots, ann) = (slots(1, 1, 10), PrincipalId::from("ann"));
        let taken = slots.try_take(&ann).unwrap();
        let (mut gone, mut late) = (Box::pin(slots.take(&ann)), Box::pin(slots.take(&ann)));
        assert!((&mut gone).now_or_never().is_none() && (&mut late).now_or_never().is_none());
        drop(gone);
        drop(taken);
        // Granted, but nobody looked any more.
        drop(late);
        assert!(slots.try_take(&ann).is_some());
        assert!(is_untouched(&slots, 1));
    }

    #[tokio::test]
    async fn there_is_an_end_to_how_many_wait() {
        let (slots, ann) = (slots(1, 1, 2), PrincipalId::from("ann"));
        let taken = slots.try_take(&ann).unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(slots.take(&ann))).collect();
        assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        assert_eq!(slots.take(&ann).await.err(), Some(Crowded));
        let mut again = Box::pin(slots.take_again(&ann));
        assert!((&mut again).now_or_never().is_none(), "what was begun may always wait");
        drop(taken);
        let taken: Vec<_> = waiting.iter_mut().filter_map(|waiting| waiting.now_or_never()).collect();
        assert_eq!(taken.len(), 1, "in their order");
    }
}
