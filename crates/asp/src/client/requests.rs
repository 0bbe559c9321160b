//! The client's requests and their ids.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_core::Timestamp;

use super::state::{RequestEvent, RequestState};
use crate::message::{ErrorBody, Finish, Invoke, Kind};

/// Every request that is not over, by id. An id in here is in use.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<u16, Request>,
    last_id: u16,
    invoked: u64,
}

impl Requests {
    /// Takes the next free id: counting up, 65535 to 1, skipping those in use (ASP-024).
    pub(super) fn add(&mut self, invoke: Invoke, origin: Origin) -> Option<u16> {
        let mut id = self.last_id;
        for _ in 0..u16::MAX {
            id = id.checked_add(1).unwrap_or(1);
            if !self.open.contains_key(&id) {
                self.last_id = id;
                self.invoked = self.invoked.saturating_add(1);
                self.open.insert(id, Request::new(invoke, origin, self.invoked));
                return Some(id);
            }
        }
        None
    }

    pub(super) fn get(&self, id: u16) -> Option<&Request> {
        self.open.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Request> {
        self.open.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: u16) -> Option<Request> {
        self.open.remove(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Request)> {
        self.open.iter().map(|(id, request)| (*id, request))
    }

    pub(super) fn ids(&self) -> Vec<u16> {
        self.open.keys().copied().collect()
    }

    /// Ids of requests that were sent and are not over.
    pub(super) fn sent(&self) -> Vec<u16> {
        self.iter().filter(|(_, request)| request.is_sent()).map(|(id, _)| id).collect()
    }

    /// Ids of requests that wait to be sent, in the order in which they were invoked.
    pub(super) fn unsent(&self) -> Vec<u16> {
        let mut waiting: Vec<(u64, u16)> =
            self.iter().filter(|(_, request)| !request.is_sent()).map(|(id, r)| (r.order, id)).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// How many requests use a place at the server.
    pub(super) fn in_flight(&self) -> usize {
        self.open.values().filter(|request| request.is_sent() && !request.is_answer()).count()
    }

    /// How many requests wait to be sent.
    pub(super) fn queued(&self) -> usize {
        self.open.values().filter(|request| !request.is_sent()).count()
    }

    /// Whether nothing that was sent is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.values().all(|request| !request.is_sent())
    }

    /// The request that asked this question.
    pub(super) fn asker(&self, ask_id: &str) -> Option<u16> {
        self.iter().find(|(_, request)| request.asks.contains(ask_id)).map(|(id, _)| id)
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) state: RequestState,
    pub(super) kind: Kind,
    pub(super) origin: Origin,
    pub(super) order: u64,
    /// Whether the INVOKE is on its way; until then only this client knows of the request.
    pub(super) sending: Sending,
    /// The INVOKE, as long as it may have to be sent (again).
    pub(super) invoke: Option<Box<Invoke>>,
    /// The next index expected; everything below was seen.
    pub(super) next_n: u64,
    /// Invoked again with the same `idem`, and not answered yet.
    pub(super) rerun: bool,
    /// Dropped by the server, then invoked again under its id: an ERROR about the loss may still come.
    pub(super) expect_replay_gone: bool,
    /// An interrupt that waits for the connection.
    pub(super) interrupt: Option<QueuedInterrupt>,
    /// Why this client cannot go on with it.
    pub(super) failure: Option<ErrorBody>,
    /// Calls and questions without answer.
    pub(super) calls: BTreeSet<String>,
    pub(super) asks: BTreeSet<String>,
    /// Calls and questions that were answered: asked again, they are not answered again.
    pub(super) answered: BTreeSet<String>,
    /// Bytes consumed whose credit was not returned.
    pub(super) consumed: u64,
    /// Bytes delivered and not consumed.
    pub(super) outstanding: u64,
    /// Bytes of a record whose last fragment is not here, and whose credit was not returned.
    pub(super) partial: u64,
    pub(super) attempts: u32,
}

impl Request {
    fn new(invoke: Invoke, origin: Origin, order: u64) -> Self {
        Self {
            state: RequestState::Free.on(RequestEvent::Invoke).0,
            kind: invoke.body.kind(),
            origin,
            order,
            sending: Sending::Due(Timestamp::default()),
            invoke: Some(Box::new(invoke)),
            next_n: 0,
            rerun: false,
            expect_replay_gone: false,
            interrupt: None,
            failure: None,
            calls: BTreeSet::new(),
            asks: BTreeSet::new(),
            answered: BTreeSet::new(),
            consumed: 0,
            outstanding: 0,
            partial: 0,
            attempts: 0,
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sending == Sending::Sent
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self.kind, Kind::Result | Kind::Reply)
    }

    /// Whether it may be invoked again after it was lost: the server recognises the key, and an answer whose
    /// call is closed does nothing.
    pub(super) fn is_repeatable(&self) -> bool {
        self.is_answer() || self.invoke.as_ref().is_some_and(|invoke| invoke.idem.is_some())
    }

    /// The first index to ask for after a cut; what was seen before it was invoked again does not count.
    pub(super) fn wanted(&self) -> u64 {
        if self.rerun { 0 } else { self.next_n }
    }

    /// Output has come: what may be invoked again only by its key is needed no longer otherwise.
    pub(super) fn has_output(&mut self) {
        if !self.is_repeatable() {
            self.invoke = None;
        }
    }

    /// Puts it back among the unsent.
    pub(super) fn resend_at(&mut self, at: Timestamp) {
        self.state = RequestState::Active;
        self.sending = Sending::Due(at);
        (self.consumed, self.partial) = (0, 0);
    }

    /// What an end without `finish` means.
    pub(super) fn default_finish(&self) -> Finish {
        match self.state {
            RequestState::Cancelling => Finish::Interrupted,
            RequestState::Free | RequestState::Active | RequestState::Suspended => Finish::Complete,
        }
    }
}

/// Whether an INVOKE is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// Not before this time.
    Due(Timestamp),
    /// It is.
    Sent,
}

/// Who wants the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The user.
    User,
    /// This client, for itself.
    Internal,
}

/// An interrupt that waits for the connection.
#[derive(Debug)]
pub(super) struct QueuedInterrupt {
    pub(super) reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_wrap_and_skip_those_in_use() {
        let mut requests = Requests::default();
        let add = |requests: &mut Requests| requests.add(Invoke::chat("x"), Origin::User);
        assert_eq!(add(&mut requests), Some(1));
        assert_eq!(add(&mut requests), Some(2));
        requests.remove(2);
        for id in 3..=u16::MAX {
            assert_eq!(add(&mut requests), Some(id));
            requests.remove(id);
        }
        assert_eq!(add(&mut requests), Some(2), "1 is still in use");
        for _ in 3..=u16::MAX {
            assert!(add(&mut requests).is_some());
        }
        assert_eq!(add(&mut requests), None);
        requests.remove(7);
        assert_eq!(add(&mut requests), Some(7));
    }
}
