//! The requests of one connection, and the tombstones of those that have ended.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use switchboard_core::model::NewTurn;
use switchboard_core::{CallId, RequestId, SessionId, Timestamp, TurnId};

use crate::codec::chunk_text;
use crate::map::{Ending, OpenCall, Options, json_weight};
use crate::message::RecordBody;
use crate::state::RequestState;

/// One request from its first INVOKE frame to its terminal frame.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) state: RequestState,
    pub(super) session: SessionId,
    /// None while its INVOKE comes in, and for kinds that start no turn.
    pub(super) turn: Option<TurnId>,
    /// The turn is somebody else's: it goes on without this connection.
    pub(super) watches: bool,
    pub(super) options: Options,
    /// Number of the event that accepted its turn; 0 until that is known.
    pub(super) accepted: u64,
    /// Number of the last event that was rendered; earlier ones are not rendered again.
    pub(super) seen: u64,
    /// The session is to be followed again from an earlier place, for this request's sake: until it is,
    /// events come too early.
    pub(super) joins: Option<RequestId>,
    /// Its client holds so much of it back that what follows is left in the log until that is sent.
    pub(super) behind: bool,
    /// Whether its execution was seen to begin.
    pub(super) started: bool,
    /// Index of the next record.
    pub(super) next_n: u64,
    /// After a resume: records below this index have arrived before.
    pub(super) skip_below: u64,
    /// After a resume: events up to this number are repetitions.
    pub(super) replay_until: u64,
    /// Credit left; not used without the feature.
    pub(super) window: i64,
    pub(super) paused: bool,
    /// The client has cancelled it: nothing but its end is sent.
    pub(super) cancelled: bool,
    /// The open calls, and what this client has to do with each.
    pub(super) calls: BTreeMap<CallId, OpenCall>,
    /// The answer, where it is sent with the end only.
    pub(super) collected: Collected,
    /// Whether something of the answer was streamed.
    pub(super) spoke: bool,
    pub(super) queue: VecDeque<Queued>,
    pub(super) queued_bytes: usize,
    /// A session that somebody else may own was tried first; if it is not there, the name is the
    /// client's own.
    pub(super) fallback: Option<Box<NewTurn>>,
}

impl Request {
    pub(super) fn new(state: RequestState, session: SessionId, window: u32) -> Self {
        Self {
            state,
            session,
            turn: None,
            watches: false,
            options: Options::default(),
            accepted: 0,
            seen: 0,
            joins: None,
            behind: false,
            started: false,
            next_n: 0,
            skip_below: 0,
            replay_until: 0,
            window: i64::from(window),
            paused: false,
            cancelled: false,
            calls: BTreeMap::new(),
            collected: Collected::default(),
            spoke: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            fallback: None,
        }
    }

    /// The index of its end: after everything that the client has seen, here or before a resume.
    pub(super) fn last_number(&self) -> u64 {
        self.next_n.max(self.skip_below)
    }

    /// Whether the client claims, at the end of the request, to have seen more of it than there is: all records,
    /// and at most an output that was a record of its own. The output of a cancelled request is dropped uncounted, so
    /// nothing can be said of it.
    pub(super) fn claims_too_much(&self) -> bool {
        !self.cancelled && self.skip_below > self.next_n + 1
    }

    /// Number of the last event that it does not need any more.
    pub(super) fn settled(&self) -> Option<u64> {
        (self.accepted > 0).then(|| self.seen.max(self.accepted - 1))
    }

    /// Takes the next index, for a record that has one.
    pub(super) fn number(&mut self) -> u64 {
        let n = self.next_n;
        self.next_n += 1;
        n
    }
}

/// An answer that is collected for the end of its request.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) text: String,
    /// Bytes of it as JSON.
    weight: usize,
    /// There was more than the end can carry: the answer goes out in pieces, of which this is the rest.
    pub(super) overflowed: bool,
}

impl Collected {
    /// Takes in more; answers the whole pieces that have to go out.
    pub(super) fn push(&mut self, text: &str, options: &Options) -> Vec<String> {
        self.weight += json_weight(text);
        self.overflowed |= !options.end_carries(self.weight);
        self.text.push_str(text);
        if !self.overflowed {
            return Vec::new();
        }
        let mut pieces: Vec<String> = chunk_text(&self.text, options.piece()).map(str::to_owned).collect();
        // The last one may still grow.
        self.text = pieces.pop().unwrap_or_default();
        pieces
    }
}

/// Something of a request that waits to be sent.
#[derive(Debug)]
pub(super) enum Queued {
    /// A piece of the answer or of reasoning.
    Delta(Delta),
    /// Any other record.
    Record { n: Option<u64>, body: RecordBody, replay: bool },
    /// The terminal frame.
    Ending { n: u64, ending: Ending, replay: bool },
}

/// A piece of text, and the highest index that it contains.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) reasoning: bool,
    pub(super) n: u64,
    pub(super) text: String,
    pub(super) replay: bool,
}

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    live: BTreeMap<u16, Request>,
    by_turn: BTreeMap<TurnId, Vec<u16>>,
    tombstones: VecDeque<(Timestamp, u16)>,
}

impl Requests {
    pub(super) fn get(&self, id: u16) -> Option<&Request> {
        self.live.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Request> {
        self.live.get_mut(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn ids(&self) -> Vec<u16> {
        self.live.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Request)> {
        self.live.iter().map(|(id, request)| (*id, request))
    }

    /// A session is followed from where it was asked for: whoever waited for that is fed from now on.
    pub(super) fn joined(&mut self, follow: RequestId) {
        for request in self.live.values_mut().filter(|request| request.joins == Some(follow)) {
            request.joins = None;
        }
    }

    /// Number of the last event of a session that no request needs any more; none if nothing is known of that.
    pub(super) fn settled(&self, session: &SessionId) -> Option<u64> {
        let here = self.live.values().filter(|request| request.session == *session);
        here.filter_map(Request::settled).min()
    }

    /// The requests that wait until a session is followed from where it was asked for.
    pub(super) fn joining(&self, follow: RequestId) -> Vec<u16> {
        self.iter().filter(|(_, request)| request.joins == Some(follow)).map(|(id, _)| id).collect()
    }

    pub(super) fn insert(&mut self, id: u16, request: Request) {
        self.tombstones.retain(|(_, dead)| *dead != id);
        if let Some(turn) = &request.turn {
            self.by_turn.entry(turn.clone()).or_default().push(id);
        }
        self.live.insert(id, request);
    }

    /// The requests that stand for a turn; more than one when an idempotency key was repeated.
    pub(super) fn of_turn(&self, turn: &TurnId) -> &[u16] {
        self.by_turn.get(turn).map_or(&[], Vec::as_slice)
    }

    /// Ties a request to a turn, or to another one than before.
    pub(super) fn bind(&mut self, id: u16, session: SessionId, turn: TurnId) {
        self.unbind(id);
        if let Some(request) = self.live.get_mut(&id) {
            request.session = session;
            request.turn = Some(turn.clone());
            self.by_turn.entry(turn).or_default().push(id);
        }
    }

    /// Forgets a request and leaves a tombstone.
    pub(super) fn end(&mut self, id: u16, now: Timestamp) -> Option<Request> {
        self.unbind(id);
        let request = self.live.remove(&id)?;
        self.bury(id, now);
        Some(request)
    }

    /// Remembers for a while that an id was used.
    pub(super) fn bury(&mut self, id: u16, now: Timestamp) {
        self.tombstones.push_back((now, id));
        if self.tombstones.len() > MAX_TOMBSTONES {
            self.tombstones.pop_front();
        }
    }

    /// Whether a request of this id has ended a short while ago.
    pub(super) fn is_buried(&mut self, id: u16, now: Timestamp) -> bool {
        while self.tombstones.front().is_some_and(|(at, _)| now.since(*at) > TOMBSTONE) {
            self.tombstones.pop_front();
        }
        self.tombstones.iter().any(|(_, dead)| *dead == id)
    }

    /// Bytes that wait to be sent, over all requests.
    pub(super) fn waiting(&self) -> usize {
        self.live.values().map(|request| request.queued_bytes).sum()
    }

    /// The request with the most bytes waiting.
    pub(super) fn largest(&self) -> Option<u16> {
        self.live.iter().max_by_key(|(_, request)| request.queued_bytes).map(|(id, _)| *id)
    }

    fn unbind(&mut self, id: u16) {
        let Some(turn) = self.live.get(&id).and_then(|request| request.turn.clone()) else { return };
        if let Some(ids) = self.by_turn.get_mut(&turn) {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.by_turn.remove(&turn);
            }
        }
    }
}

const TOMBSTONE: Duration = Duration::from_secs(30);
const MAX_TOMBSTONES: usize = 4096;
