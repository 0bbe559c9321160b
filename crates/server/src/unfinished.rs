//! Bytes that principals have sent of messages which are not whole yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use switchboard_core::PrincipalId;

/// How much each principal has unfinished, over all its connections and requests.
#[derive(Debug)]
pub(crate) struct Unfinished {
    most: usize,
    principals: Mutex<HashMap<PrincipalId, Weak<AtomicUsize>>>,
}

impl Unfinished {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, principals: Mutex::default() }
    }

    /// What one connection of a principal has unfinished: nothing yet.
    pub(crate) fn of(&self, principal: &PrincipalId) -> Held {
        let mut principals = self.principals.lock();
        let known = principals.get(principal).and_then(Weak::upgrade);
        let all = known.unwrap_or_else(|| {
            // As many are remembered as are connected, and a few.
            if principals.len() == principals.capacity() {
                principals.retain(|_, all| all.strong_count() > 0);
            }
            let all = Arc::new(AtomicUsize::new(0));
            principals.insert(principal.clone(), Arc::downgrade(&all));
            all
        });
        Held { all, own: 0, most: self.most }
    }

    /// What a principal has unfinished now.
    #[cfg(test)]
    pub(crate) fn held(&self, principal: &PrincipalId) -> usize {
        let principals = self.principals.lock();
        principals.get(principal).and_then(Weak::upgrade).map_or(0, |all| all.load(Ordering::SeqCst))
    }
}

/// What one connection has unfinished; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    all: Arc<AtomicUsize>,
    own: usize,
    most: usize,
}

/// The principal has as much unfinished as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Held {
    /// The message has `bytes` by now.
    ///
    /// # Errors
    /// Together with what else the principal has unfinished that is too much. One message alone never is: it has a
    /// bound of its own.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.own);
        if more == 0 {
            return Ok(());
        }
        let all = self.all.fetch_add(more, Ordering::SeqCst) + more;
        self.own += more;
        if all > self.most && all > self.own {
            return Err(Full);
        }
        Ok(())
    }

    /// The message is whole, or given up.
    pub(crate) fn release(&mut self) {
        if self.own > 0 {
            self.all.fetch_sub(self.own, Ordering::SeqCst);
            self.own = 0;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_one_share_and_one_message_always_fits() {
        let unfinished = Unfinished::new(100);
        let (ann, bob) = (PrincipalId::from("ann"), PrincipalId::from("bob"));
        let (mut one, mut two) = (unfinished.of(&ann), unfinished.of(&ann));
        assert_eq!(one.grow_to(500), Ok(()));
        assert_eq!(two.grow_to(1), Err(Full));
        assert_eq!(unfinished.of(&bob).grow_to(100), Ok(()));
        drop(two);
        one.release();
        assert_eq!(unfinished.held(&ann), 0);
        assert_eq!(unfinished.of(&ann).grow_to(100), Ok(()));
        let mut three = unfinished.of(&ann);
        assert_eq!((one.grow_to(60), three.grow_to(40), three.grow_to(41)), (Ok(()), Ok(()), Err(Full)));
    }

    #[test]
    fn whoever_has_left_is_forgotten() {
        let unfinished = Unfinished::new(100);
        for number in 0..10_000 {
            let _ = unfinished.of(&PrincipalId::new(format!("p{number}"))).grow_to(1);
        }
        assert!(unfinished.principals.lock().len() < 10);
    }
}
