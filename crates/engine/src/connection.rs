//! What drives one connection, whatever protocol it speaks.
//!
//! Something happens: a frame arrives, the inbox or a followed session has news, time passes, the transport takes
//! what waits. The [`Connection`] is fed exactly one input and drained, and what it asks for is an [`Output`] of the
//! worker: whoever runs it carries the outputs out in their order, reads the log for it where a session is followed
//! from further back than its feed reaches, and writes what is in the [`Outbox`].
//!
//! After every input the worker takes in answers first and events after them, so that an answer comes before the
//! events that it led to.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::{
    Batch, Callsign, Close, CloseReason, Connection, Frame, Input, Lookup, Op, Output as Wanted, Pii,
    Principal, Reject, Reply, RequestId, Right, SessionId, Timestamp, TurnId, Utterance, Violation, VoiceOp,
};

use crate::caller::{Caller, Surroundings};
use crate::feed::{Cursor, Feed, Next, told};
use crate::inbox::{Delivery, Inbox};
use crate::outbox::Outbox;
use crate::session::{Command, ReadFailed};

/// What a connection worker wants done.
pub enum Output<S: Surroundings> {
    /// Hand a command to a session; if it takes none, answer the request in it with [`Reject::Busy`].
    Command(SessionId, Command<S::Node>),
    /// Hand an op of the server's own to a session, however full its mailbox is.
    Insist(SessionId, Op),
    /// Read events of a session after a number, at most about so many, and hand them in with
    /// [`ConnectionWorker::caught_up`] before the next output is asked for.
    Read {
        /// Whose.
        session: SessionId,
        /// Those with a higher number.
        after: u64,
        /// How many.
        limit: usize,
    },
    /// Look up a turn of the principal's.
    Find(RequestId, SessionId, TurnId),
    /// Look something up in the tables of a projection.
    Look(RequestId, Box<Lookup>),
    /// Turn speech into words.
    Hear(RequestId, Box<Utterance>),
    /// Listen to somebody, or speak.
    Voice(VoiceOp),
    /// Run a service call of the protocol.
    Call(RequestId, Pii<Value>),
    /// Look up who has had a device of this name, and call [`name_looked_up`](crate::name_looked_up).
    LookUpName(RequestId, Callsign),
    /// Check a renewed credential.
    Authenticate(RequestId, Pii<String>),
    /// The followed sessions are others than before.
    Followed,
    /// Stop the server: the principal may.
    Stop,
    /// Nothing more for now.
    Idle,
}

/// Bounds of what may be on its way to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// A peer with more bytes than this in front of it, besides the largest message, is sent away.
    pub backlog: usize,
    /// The largest single message.
    pub message: usize,
}

/// Drives one connection from its first frame to its last.
pub struct ConnectionWorker<S: Surroundings> {
    connection: Box<dyn Connection>,
    caller: Caller,
    /// What waits to be written to the transport.
    pub outbox: Outbox,
    outgoing: Outgoing,
    /// The time when something last happened.
    now: Timestamp,
    followed: Vec<Followed>,
    outputs: VecDeque<Output<S>>,
    round: Round,
    /// Events that may still be fed before the transport has its turn.
    budget: usize,
    /// Requests that wait for their answer; too many stop the reading.
    outstanding: usize,
    wake: Option<Timestamp>,
    /// The principal has used up its share: nothing is read before this.
    read_after: Option<Timestamp>,
    /// Nothing can be read any more; the peer is still told why, until this.
    deaf_until: Option<Timestamp>,
    reported_backlog: usize,
    violated: bool,
    closing: Option<Close>,
    /// What sessions are asked once the peer has its answer.
    last: Vec<(SessionId, Op)>,
    /// The server is to stop, once the peer has its answer.
    stops: bool,
}

/// A session that the connection follows, at its own pace.
#[derive(Debug)]
struct Followed {
    session: SessionId,
    feed: Arc<Feed>,
    /// How far it has read.
    cursor: Arc<Cursor>,
    /// The head of the feed when it was last looked at. Answers that were delivered before these events were published
    /// have been taken in since.
    told: u64,
}

/// How far the worker is with what has arrived.
#[derive(Debug)]
enum Round {
    /// To be looked at: how far the followed sessions are, then the inbox.
    Look,
    /// Something from the inbox; whether there was something at all.
    Deliver(VecDeque<Delivery>, bool),
    /// The followed session of this index; whether there was something in this round.
    Follow(usize, bool),
    /// Events are read from the log for the followed session of this index.
    Read(usize),
    /// There is nothing more.
    Rest,
}

impl<S: Surroundings> ConnectionWorker<S> {
    /// A worker for a connection that was just accepted.
    pub fn new(
        connection: Box<dyn Connection>,
        caller: Caller,
        outgoing: Outgoing,
        around: &mut S,
        now: Timestamp,
    ) -> Self {
        let mut worker = Self {
            connection,
            caller,
            outbox: Outbox::default(),
            outgoing,
            now,
            followed: Vec::new(),
            outputs: VecDeque::new(),
            round: Round::Look,
            budget: EVENT_BUDGET,
            outstanding: 0,
            wake: None,
            read_after: None,
            deaf_until: None,
            reported_backlog: 0,
            violated: false,
            closing: None,
            last: Vec::new(),
            stops: false,
        };
        worker.drain(around);
        worker
    }

    /// Whoever asks through the connection.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The connection itself.
    pub fn connection(&self) -> &dyn Connection {
        &*self.connection
    }

    /// How it is to be closed, once it is.
    pub const fn closing(&self) -> Option<Close> {
        self.closing
    }

    /// Whether the peer broke the protocol since this was last asked.
    pub fn has_violated(&mut self) -> bool {
        std::mem::take(&mut self.violated)
    }

    /// The sessions that it follows.
    pub fn sessions(&self) -> Vec<SessionId> {
        let followed = self.followed.iter().filter(|followed| followed.cursor.position() != GONE);
        followed.map(|followed| followed.session.clone()).collect()
    }

    /// Whether the transport is to be read now.
    pub fn reads(&self) -> bool {
        self.outstanding < MAX_OUTSTANDING
            && self.read_after.is_none_or(|at| at <= self.now)
            && self.deaf_until.is_none()
            && self.connection.wants_frames()
    }

    /// When something has to happen although nothing arrives.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        [self.wake, self.read_after.filter(|at| *at > self.now), self.deaf_until].into_iter().flatten().min()
    }

    /// Nothing is to be read before this: the principal has used up its share.
    pub const fn read_after(&mut self, at: Timestamp) {
        self.read_after = Some(at);
    }

    /// Whether the connection has to know how much waits on the transport.
    pub fn is_pressed(&self) -> bool {
        let backlog = self.outbox.bytes();
        let grown = backlog >= HIGH_WATER && backlog >= self.reported_backlog + HIGH_WATER;
        // Also when a lot was there and is gone: the connection may be waiting to release more. Once, and once more when
        // nothing is left: a step that repeats itself while the transport takes nothing would never end.
        let much = self.reported_backlog > LOW_WATER || self.outbox.peak() >= HIGH_WATER;
        let fallen =
            if backlog == 0 { much || self.reported_backlog > 0 } else { much && backlog <= LOW_WATER };
        grown || fallen
    }

    /// Whether a followed session has something that the connection has not seen and wants.
    pub fn has_news(&self) -> bool {
        let behind = |followed: &Followed| followed.cursor.position() < followed.feed.head();
        self.connection.wants_events() && self.followed.iter().any(behind)
    }

    /// A whole message has arrived.
    pub fn receive(&mut self, frame: Frame, around: &mut S, now: Timestamp) {
        self.now = now;
        self.input(Input::Frame(frame), around);
        self.look(around);
    }

    /// The peer says goodbye.
    pub fn peer_closed(&mut self, code: Option<u16>, around: &mut S, now: Timestamp) {
        self.now = now;
        self.input(Input::Closed(CloseReason::PeerClosed(code)), around);
        self.look(around);
    }

    /// Nothing more can be read from the transport.
    pub fn lost(&mut self, reason: CloseReason, around: &mut S, now: Timestamp) {
        self.now = now;
        self.input(Input::Closed(reason), around);
        if reason == CloseReason::TransportLost {
            // Nobody is left to hear anything.
            self.closing = Some(Close { code: NO_CODE, reason: "" });
        } else {
            // What is said last may have to be put on record first.
            self.deaf_until = Some(now.after(FAREWELL));
        }
        self.look(around);
    }

    /// Something is in the inbox, or a followed session has moved on.
    pub fn woken(&mut self, around: &mut S, now: Timestamp) {
        self.now = now;
        self.look(around);
    }

    /// A time that was asked for has come, or a later one.
    pub fn timeout(&mut self, around: &mut S, now: Timestamp) {
        self.now = now;
        // A slow peer makes progress that is no news until somebody looks.
        if self.reported_backlog > 0 {
            self.report_backlog(around);
        }
        if self.read_after.is_some_and(|at| at <= now) {
            self.read_after = None;
        }
        if self.wake.is_some_and(|at| at <= now) {
            self.input(Input::Timeout, around);
        }
        if self.deaf_until.is_some_and(|at| at <= now) {
            self.closing.get_or_insert(CloseReason::Internal.close());
        }
        self.look(around);
    }

    /// The transport has taken something, or does not, as [`ConnectionWorker::is_pressed`] asks.
    pub fn pressed(&mut self, around: &mut S, now: Timestamp) {
        self.now = now;
        self.report_backlog(around);
        self.look(around);
    }

    /// The answer to [`Output::Read`].
    pub fn caught_up(&mut self, read: Result<Vec<Arc<Batch>>, ReadFailed>, around: &mut S, now: Timestamp) {
        self.now = now;
        let Round::Read(index) = self.round else { return };
        // Unless there was something, the next session has its turn.
        self.round = Round::Follow(index + 1, true);
        match read {
            Ok(batches) => {
                let head = self.followed.get(index).map_or(0, |followed| followed.told);
                for batch in told(batches, head) {
                    self.round = Round::Follow(index, true);
                    self.feed(index, &batch, around);
                }
            }
            Err(ReadFailed(error)) => {
                tracing::error!(error, "the log could not be read");
                self.input(Input::Closed(CloseReason::Internal), around);
            }
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self, around: &mut S) -> Output<S> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            if !self.proceed(around) {
                return Output::Idle;
            }
        }
    }

    /// The connection is over: followers and names are given back. What has to be done then is drained once more.
    pub fn leave(&mut self, around: &S) {
        self.round = Round::Rest;
        for followed in self.followed.drain(..) {
            followed.feed.unfollow(&self.caller.inbox);
        }
        if let Some((device, why, sessions)) = self.caller.leave(around.shared()) {
            let lost = |session| Output::Insist(session, Op::LoseDevice { device: device.clone(), why });
            self.outputs.extend(sessions.into_iter().map(lost));
        }
    }

    /// The peer has everything that was sent to it, or is gone: what is to be done then is drained once more.
    pub fn said_goodbye(&mut self, around: &mut S) {
        for (session, op) in std::mem::take(&mut self.last) {
            if let Some((session, command)) = self.caller.submit(NOBODY, session, op, around, self.now) {
                self.outputs.push_back(Output::Command(session, command));
            }
        }
        if self.stops && self.caller.principal.scopes.permit(Right::Administer, None) {
            self.outputs.push_back(Output::Stop);
        }
    }

    /// Looks at everything that has arrived inside. The transport has had its turn since that was last done.
    fn look(&mut self, around: &mut S) {
        if self.outbox.is_above(self.outgoing.backlog) && self.closing.is_none() {
            self.input(Input::Closed(CloseReason::TooSlow), around);
        }
        self.budget = EVENT_BUDGET;
        self.round = Round::Look;
    }

    /// Goes on with what has arrived; false if there is nothing to go on with.
    fn proceed(&mut self, around: &mut S) -> bool {
        if self.closing.is_some() {
            return false;
        }
        match &mut self.round {
            Round::Look => {
                let deliveries = look_around(&mut self.followed, &self.caller.inbox);
                let some = !deliveries.is_empty();
                self.round = Round::Deliver(deliveries.into(), some);
            }
            Round::Deliver(deliveries, some) => match deliveries.pop_front() {
                Some(delivery) => self.deliver(delivery, around),
                None => self.round = Round::Follow(0, *some),
            },
            &mut Round::Follow(index, some) if index < self.followed.len() => {
                self.follow(index, some, around)
            }
            &mut Round::Follow(_, some) => {
                self.followed.retain(|followed| followed.cursor.position() != GONE);
                if some && self.budget == 0 {
                    // Come back after the transport has had its turn.
                    self.caller.inbox.wake();
                }
                self.round = if some && self.budget > 0 { Round::Look } else { Round::Rest };
            }
            Round::Read(_) | Round::Rest => return false,
        }
        true
    }

    /// Feeds one batch of a session, as far as it was told.
    fn follow(&mut self, index: usize, some: bool, around: &mut S) {
        let next = Round::Follow(index + 1, some);
        let Some(Followed { session, feed, cursor, told }) = self.followed.get(index) else { return };
        let position = cursor.position();
        // Also what is gone, which is beyond everything.
        if self.budget == 0 || !self.connection.wants_events() || position >= *told {
            self.round = next;
            return;
        }
        match feed.next(position) {
            Next::UpToDate => self.round = next,
            Next::Batch(batch) => {
                self.round = Round::Follow(index, true);
                self.feed(index, &batch, around);
            }
            Next::Behind => {
                let session = session.clone();
                self.round = Round::Read(index);
                self.outputs.push_back(Output::Read { session, after: position, limit: self.budget });
            }
        }
    }

    fn feed(&mut self, index: usize, batch: &Arc<Batch>, around: &mut S) {
        let Some(Followed { session, .. }) = self.followed.get(index) else { return };
        let session = session.clone();
        for committed in &batch.events {
            let Some(Followed { cursor, .. }) = self.followed.get(index) else { return };
            let read = cursor.position();
            if read == GONE || self.closing.is_some() || !self.connection.wants_events() {
                return;
            }
            let seq = committed.position.seq;
            if seq <= read {
                continue;
            }
            debug_assert_eq!(seq, read + 1, "events arrive in order, without gaps");
            cursor.advance(seq);
            self.budget = self.budget.saturating_sub(1);
            self.input(Input::Committed(&session, committed), around);
            // Told at once, so that it does not produce more than the transport takes.
            if self.outbox.bytes() >= self.reported_backlog + HIGH_WATER {
                self.report_backlog(around);
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery, around: &mut S) {
        match delivery {
            Delivery::Done(request, reply) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                match self.done(&reply, around) {
                    Ok(()) => self.input(Input::Done(request, reply), around),
                    Err(reject) => self.input(Input::Rejected(request, reject), around),
                }
            }
            Delivery::Rejected(request, reject) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.input(Input::Rejected(request, reject), around);
            }
            Delivery::Attached(request, attached) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.followed.retain(|followed| followed.session != attached.session);
                self.followed.push(Followed {
                    session: attached.session,
                    feed: attached.feed,
                    cursor: attached.cursor,
                    // Its head is looked at when the answers before it are in.
                    told: 0,
                });
                self.outputs.push_back(Output::Followed);
                self.input(Input::Done(request, Reply::Attached(Box::new(attached.view))), around);
            }
            Delivery::Signal(signal) => self.input(Input::Signal(signal), around),
            Delivery::Voice(event) => self.input(Input::Voice(event), around),
            Delivery::Drain { retry_ms } => self.input(Input::Drain { retry_ms }, around),
            Delivery::Close(reason) => self.input(Input::Closed(reason), around),
        }
    }

    /// What an answer changes about the caller.
    fn done(&mut self, reply: &Reply, around: &mut S) -> Result<(), Reject> {
        match reply {
            Reply::Authenticated(principal) => self.caller.principal = principal.clone(),
            Reply::Enrolled => self.caller.registered(),
            Reply::Attachment(view) => around.attached(&self.caller, &view.attachment),
            Reply::Errand(done) => {
                if let Some(principal) = &done.principal {
                    around.adopt(principal)?;
                    self.caller.principal = Principal::clone(principal);
                }
            }
            Reply::Applied { .. }
            | Reply::Turn { .. }
            | Reply::Claimed { .. }
            | Reply::Attached(_)
            | Reply::Found(_)
            | Reply::Rows(_)
            | Reply::Heard(_)
            | Reply::Roll(_)
            | Reply::Noted => {}
        }
        Ok(())
    }

    fn input(&mut self, input: Input<'_>, around: &mut S) {
        let result = self.connection.handle_input(input, self.now);
        self.drain(around);
        if let Err(Violation(close)) = result {
            self.violated = true;
            self.closing.get_or_insert(close);
        }
    }

    fn drain(&mut self, around: &mut S) {
        loop {
            match self.connection.poll_output() {
                Wanted::Send(frame) => self.send(frame),
                Wanted::Submit(request, session, op) => {
                    self.outstanding += 1;
                    if let Some((session, command)) =
                        self.caller.submit(request, session, op, around, self.now)
                    {
                        self.outputs.push_back(Output::Command(session, command));
                    }
                }
                Wanted::SubmitLast(session, op) => self.last.push((session, op)),
                Wanted::Attach(request, session, from) => {
                    self.outstanding += 1;
                    if let Some(command) = self.caller.attach(request, from, around) {
                        self.outputs.push_back(Output::Command(session, command));
                    }
                }
                Wanted::Detach(session) => self.detach(session, around),
                Wanted::Find(request, session, turn) => {
                    let output = Output::Find(request, session, turn);
                    self.ask(Right::Follow, request, output, around);
                }
                Wanted::Look(request, lookup) => {
                    self.ask(Right::Look, request, Output::Look(request, lookup), around);
                }
                Wanted::Hear(request, utterance) => {
                    self.ask(Right::Speak, request, Output::Hear(request, utterance), around);
                }
                Wanted::Voice(op) => self.outputs.push_back(Output::Voice(op)),
                Wanted::Errand(request, call) => {
                    self.outstanding += 1;
                    self.outputs.push_back(Output::Call(request, call));
                }
                Wanted::Enrol(request, registration) => {
                    self.outstanding += 1;
                    let shared = around.shared();
                    if let Some(name) = self.caller.register(request, registration, shared, self.now) {
                        self.outputs.push_back(Output::LookUpName(request, name));
                    }
                }
                Wanted::Roll(request) => {
                    self.outstanding += 1;
                    self.caller.list(request, around.shared());
                }
                Wanted::Note(request, to, body) => {
                    self.outstanding += 1;
                    self.caller.note(request, to, body, around);
                }
                Wanted::Stop => self.stops = true,
                Wanted::Authenticate(request, credential) => {
                    self.outstanding += 1;
                    self.outputs.push_back(Output::Authenticate(request, credential));
                }
                Wanted::Close(close) => {
                    self.closing.get_or_insert(close);
                }
                Wanted::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
            }
        }
    }

    /// Has something done, if the credential allows it.
    fn ask(&mut self, right: Right, request: RequestId, output: Output<S>, around: &S) {
        self.outstanding += 1;
        if self.caller.may(right, request, around) {
            self.outputs.push_back(output);
        }
    }

    fn detach(&mut self, session: SessionId, around: &S) {
        let mut seen = u64::MAX;
        for followed in self.followed.iter().filter(|followed| followed.session == session) {
            followed.feed.unfollow(&self.caller.inbox);
            seen = followed.cursor.position();
            followed.cursor.advance(GONE);
        }
        self.caller.part(session, seen, around.shared());
        self.outputs.push_back(Output::Followed);
    }

    /// A message without which the rest makes no sense to the peer, be it too large to be sent, ends the connection.
    fn send(&mut self, frame: Frame) {
        let bytes = frame.size();
        if bytes <= self.outgoing.message {
            return self.outbox.push(frame);
        }
        tracing::warn!(
            bytes,
            "a message is too large to be sent (limits.outgoing_message_bytes); the connection is closed"
        );
        self.closing.get_or_insert(CloseReason::Internal.close());
    }

    fn report_backlog(&mut self, around: &mut S) {
        self.reported_backlog = self.outbox.report();
        self.input(Input::Backlog(self.reported_backlog), around);
    }
}

impl<S: Surroundings> fmt::Debug for ConnectionWorker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, caller, followed, closing, .. } = self;
        f.debug_struct("ConnectionWorker")
            .field("connection", connection)
            .field("caller", caller)
            .field("followed", followed)
            .field("closing", closing)
            .finish_non_exhaustive()
    }
}

impl<S: Surroundings> fmt::Debug for Output<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command(..) => "Command",
            Self::Insist(..) => "Insist",
            Self::Read { .. } => "Read",
            Self::Find(..) => "Find",
            Self::Look(..) => "Look",
            Self::Hear(..) => "Hear",
            Self::Voice(_) => "Voice",
            Self::Call(..) => "Call",
            Self::LookUpName(..) => "LookUpName",
            Self::Authenticate(..) => "Authenticate",
            Self::Followed => "Followed",
            Self::Stop => "Stop",
            Self::Idle => "Idle",
        })
    }
}

/// Sees how far the followed sessions have told of their events, and takes what has arrived. In this order, so that
/// an answer comes before its events.
fn look_around(followed: &mut [Followed], inbox: &Inbox) -> Vec<Delivery> {
    for followed in followed {
        followed.told = followed.feed.head();
    }
    inbox.take()
}

/// Whoever asks last does not hear the answer.
const NOBODY: RequestId = RequestId(u64::MAX);
const GONE: u64 = u64::MAX;
/// The code of a connection whose peer is gone, so that nobody is told.
pub const NO_CODE: u16 = 0;
const EVENT_BUDGET: usize = 512;
const MAX_OUTSTANDING: usize = 128;
const HIGH_WATER: usize = 64 << 10;
const LOW_WATER: usize = 16 << 10;
/// How long a peer that is not heard any more may be told why.
pub const FAREWELL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::RingBounds;

    #[test]
    fn no_event_overtakes_the_answer_of_whoever_asked() {
        const LAST: u64 = 200_000;
        let inbox = Arc::new(Inbox::default());
        let feed = Arc::new(Feed::new(0, RingBounds { events: 1, bytes: 1 }));
        let cursor = Cursor::at(0);
        let mut followed = [Followed { session: "s".into(), feed: feed.clone(), cursor, told: 0 }];
        let session = std::thread::spawn({
            let inbox = inbox.clone();
            move || {
                for number in 1..=LAST {
                    // As a session does, once a batch is committed.
                    inbox.answer(RequestId(number), Err(Reject::Busy));
                    feed.reset_head(number);
                }
            }
        });
        let mut answered = 0;
        while followed[0].told < LAST {
            for delivery in look_around(&mut followed, &inbox) {
                let Delivery::Rejected(RequestId(number), _) = delivery else { panic!("{delivery:?}") };
                answered = number;
            }
            assert!(followed[0].told <= answered, "{} after {answered}", followed[0].told);
        }
        session.join().unwrap();
    }
}
