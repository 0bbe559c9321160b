//! What lite peers are not told yet: an answer to a message that was posted over HTTP, until the reply to that
//! request has been written.
//!
//! The client knows its message by the id in the reply. Were it told of the answer before, it would not know
//! what is answered. That the reply was written is noted in the log by whoever wrote it; should that never come,
//! time releases what is held.

use std::collections::BTreeMap;

use bytes::Bytes;
use switchboard_core::{Frame, Output, SessionId, Timestamp, TurnId};

use super::AliciaConnection;
use super::clock::millis;
use crate::limits::size;

/// The answers of a conversation that are held.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<TurnId, Hold>);

/// An answer whose question was posted.
#[derive(Debug)]
struct Hold {
    /// After this it is told however that may be.
    until: Timestamp,
    told: Vec<Bytes>,
    bytes: usize,
    /// Whether it was told before the reply was written, since there was too much of it or too little time.
    released: bool,
}

impl Held {
    /// Keeps something of an answer; gives back what may be told now, which is all of it once it is released.
    fn keep(&mut self, turn: &TurnId, what: Vec<Bytes>, until: Timestamp, most: usize) -> Vec<Bytes> {
        // Nothing more is expected of those that were told nevertheless.
        self.0.retain(|known, hold| !hold.released || known == turn);
        let new = || Hold { until, told: Vec::new(), bytes: 0, released: false };
        let hold = self.0.entry(turn.clone()).or_insert_with(new);
        if hold.released {
            return what;
        }
        hold.bytes = what.iter().fold(hold.bytes, |bytes, envelope| bytes.saturating_add(envelope.len()));
        hold.told.extend(what);
        if hold.bytes > most { hold.release() } else { Vec::new() }
    }

    /// The reply was written.
    fn replied(&mut self, turn: &TurnId) -> Vec<Bytes> {
        self.0.remove(turn).map(|hold| hold.told).unwrap_or_default()
    }

    fn overdue(&mut self, now: Timestamp) -> Vec<Bytes> {
        let late = self.0.values_mut().filter(|hold| !hold.released && hold.until <= now);
        late.flat_map(Hold::release).collect()
    }

    fn next(&self) -> Option<Timestamp> {
        self.0.values().filter(|hold| !hold.released).map(|hold| hold.until).min()
    }
}

impl Hold {
    fn release(&mut self) -> Vec<Bytes> {
        self.released = true;
        std::mem::take(&mut self.told)
    }
}

impl AliciaConnection {
    /// Tells something of an answer, or holds it.
    pub(super) fn hold(&mut self, session: &SessionId, turn: &TurnId, told: Vec<Bytes>) {
        let until = self.now.after(millis(self.limits.reply_hold_ms));
        let most = size(self.limits.reply_hold_bytes);
        let Some(known) = self.followed.get_mut(session) else { return };
        let free = known.held.keep(turn, told, until, most);
        self.tell_held(free);
    }

    /// The reply to the request with which a turn began was written.
    pub(super) fn release(&mut self, session: &SessionId, turn: &TurnId) {
        let Some(known) = self.followed.get_mut(session) else { return };
        let free = known.held.replied(turn);
        self.tell_held(free);
    }

    pub(super) fn release_overdue(&mut self) {
        let now = self.now;
        let free: Vec<Bytes> = self.followed.values_mut().flat_map(|known| known.held.overdue(now)).collect();
        self.tell_held(free);
    }

    pub(super) fn next_release(&self) -> Option<Timestamp> {
        self.followed.values().filter_map(|known| known.held.next()).min()
    }

    fn tell_held(&mut self, free: Vec<Bytes>) {
        self.out.extend(free.into_iter().map(|bytes| Output::Send(Frame::Binary(bytes))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn some(text: &'static str) -> Vec<Bytes> {
        vec![Bytes::from_static(text.as_bytes())]
    }

    #[test]
    fn what_is_held_comes_in_order_with_the_reply_and_only_then() {
        let (mut held, turn) = (Held::default(), TurnId::from("t1"));
        assert!(held.keep(&turn, some("start"), at(10), 100).is_empty());
        assert!(held.keep(&turn, some("sentence"), at(20), 100).is_empty());
        assert_eq!(held.next(), Some(at(10)));
        assert!(held.overdue(at(9)).is_empty());
        assert_eq!(held.replied(&turn), [some("start"), some("sentence")].concat());
        assert!(held.replied(&turn).is_empty());
        assert_eq!(held.next(), None);
    }

    #[test]
    fn time_and_size_release_what_is_held_and_what_follows() {
        let (mut held, turn) = (Held::default(), TurnId::from("t1"));
        held.keep(&turn, some("start"), at(10), 100);
        assert_eq!(held.overdue(at(10)), some("start"));
        assert_eq!(held.keep(&turn, some("more"), at(20), 100), some("more"));
        assert_eq!(held.next(), None);
        let other = TurnId::from("t2");
        held.keep(&other, some("four"), at(10), 5);
        assert_eq!(held.keep(&other, some("more"), at(10), 5), [some("four"), some("more")].concat());
    }
}
