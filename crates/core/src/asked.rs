//! What a connection has asked and not been answered yet.

use std::collections::BTreeMap;

use crate::connection::RequestId;

/// Requests under their numbers, with what each answer is for.
#[derive(Debug)]
pub struct Asked<P> {
    last: u64,
    open: BTreeMap<RequestId, P>,
}

impl<P> Asked<P> {
    /// Numbers one more request.
    pub fn ask(&mut self, purpose: P) -> RequestId {
        self.last += 1;
        let request = RequestId(self.last);
        self.open.insert(request, purpose);
        request
    }

    /// What the answer to a request is for; it is open no longer.
    pub fn answered(&mut self, request: RequestId) -> Option<P> {
        self.open.remove(&request)
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl<P> Default for Asked<P> {
    fn default() -> Self {
        Self { last: 0, open: BTreeMap::new() }
    }
}
