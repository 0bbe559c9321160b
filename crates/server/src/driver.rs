//! The only asynchronous code per connection, one for all protocols.
//!
//! Wait for a frame, something in the port, a wake time or room on the transport; feed exactly one
//! input; drain; and when nothing more is ready, write everything drained with one flush.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use switchboard_core::{
    Close, CloseReason, Connection, Frame, Input, Op, Output, Principal, Reject, Reply, RequestId, SessionId,
    Timestamp,
};
use switchboard_store::Batch;
use tokio::time::{Instant, Sleep};

use crate::auth::{AuthError, Authenticator, Credential, Identity};
use crate::clock::Clock;
use crate::feed::{Feed, Mark, Next, catch_up};
use crate::gateway::{Caller, Gateway};
use crate::meters::TransportMeters;
use crate::outbox::Outbox;
use crate::port::{Delivery, Port};
use crate::transport::{Arrival, Transport};
use crate::voices::Speaker;

/// Drives one connection from its first frame to its last.
pub(crate) struct Driver {
    connection: Box<dyn Connection>,
    caller: Caller,
    gateway: Arc<Gateway>,
    authenticator: Arc<Authenticator>,
    clock: Clock,
    /// The time when the driver last had to wait.
    now: Timestamp,
    followed: Vec<Followed>,
    /// Listens and speaks, from the first time that it is asked.
    voice: Option<Box<dyn Speaker>>,
    outbox: Outbox,
    /// Requests that wait for their answer; too many stop the reading.
    outstanding: usize,
    wake: Option<Timestamp>,
    timer: Pin<Box<Sleep>>,
    /// The principal has used up its share: nothing is read before this.
    read_after: Option<Timestamp>,
    /// Nothing can be read any more; the peer is still told why, until this.
    deaf_until: Option<Timestamp>,
    reported_backlog: usize,
    outgoing: Outgoing,
    meters: TransportMeters,
    closing: Option<Close>,
    /// What sessions are asked once the peer has its answer.
    last: Vec<(SessionId, Op)>,
    /// The server is to stop, once the peer has its answer.
    stops: bool,
}

/// What may be on its way to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// A peer with more bytes than this in front of it, besides the largest message, is sent away.
    pub(crate) backlog: usize,
    /// The largest single message.
    pub(crate) message: usize,
}

/// A session that the connection follows, at its own pace.
struct Followed {
    session: SessionId,
    feed: Arc<Feed>,
    /// How far it has read.
    mark: Arc<Mark>,
    /// Up to where the session had told of its events, and before them answered whoever asked, when this was last
    /// looked at.
    told: u64,
}

/// What the driver waited for.
enum Step {
    Received(Option<Result<Arrival, CloseReason>>),
    Woken,
    Timer,
    Pressure,
    Lost,
}

impl Driver {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        caller: Caller,
        gateway: Arc<Gateway>,
        authenticator: Arc<Authenticator>,
        outgoing: Outgoing,
        meters: TransportMeters,
    ) -> Self {
        let clock = gateway.sessions.environment.clock;
        Self {
            connection,
            caller,
            gateway,
            authenticator,
            clock,
            now: clock.now(),
            followed: Vec::new(),
            voice: None,
            outbox: Outbox::default(),
            outstanding: 0,
            wake: None,
            timer: Box::pin(tokio::time::sleep(FAR)),
            read_after: None,
            deaf_until: None,
            reported_backlog: 0,
            outgoing,
            meters,
            closing: None,
            last: Vec::new(),
            stops: false,
        }
    }

    /// Serves the connection until it is over; answers the code it was closed with.
    pub(crate) async fn drive(&mut self, socket: &mut impl Transport) -> u16 {
        self.drain();
        socket.take_at_most(self.connection.max_message());
        let mut unflushed = 0;
        while self.closing.is_none() {
            self.absorb().await;
            if self.closing.is_some() {
                break;
            }
            // A peer that never pauses must not keep what is for it from being sent.
            let write_first = unflushed >= FLUSH_EVERY || self.outbox.bytes() >= FLUSH_BYTES;
            let step = self.step(socket, write_first).await;
            self.now = self.clock.now();
            match step {
                Step::Received(Some(Ok(arrival))) => {
                    unflushed += 1;
                    self.receive(arrival);
                }
                Step::Received(Some(Err(reason))) => self.lost(reason),
                Step::Received(None) | Step::Lost => self.lost(CloseReason::TransportLost),
                Step::Woken => unflushed += 1,
                Step::Timer => self.timeout(),
                Step::Pressure => {
                    unflushed = 0;
                    self.report_backlog();
                }
            }
            if self.outbox.is_empty() && unflushed > 0 {
                unflushed = 0;
                self.count_written();
            }
            if self.outbox.is_above(self.outgoing.backlog) {
                self.input(Input::Closed(CloseReason::TooSlow));
            }
            socket.take_at_most(self.connection.max_message());
        }
        self.voice = None;
        for followed in &self.followed {
            followed.feed.unfollow(&self.caller.port);
        }
        self.gateway.leave(&mut self.caller);
        let code = self.closing.map_or(NO_CODE, |close| close.code);
        if let Some(close) = self.closing {
            if close.code == TRY_AGAIN {
                let protocol = self.caller.protocol;
                let waiting = self.outbox.bytes();
                tracing::warn!(protocol, waiting, "a peer was too slow; its connection is closed");
            }
            // Boxed, so that a connection does not carry the room for its end all its life.
            Box::pin(self.close(socket, close)).await;
        }
        self.count_written();
        for (session, op) in std::mem::take(&mut self.last) {
            self.gateway.submit(&mut self.caller, NOBODY, session, op);
        }
        if self.stops {
            self.gateway.stop(&self.caller);
        }
        code
    }

    async fn step(&mut self, socket: &mut impl Transport, write_first: bool) -> Step {
        if self.read_after.is_some_and(|at| at <= self.now) {
            self.read_after = None;
        }
        let reading = self.outstanding < MAX_OUTSTANDING
            && self.read_after.is_none()
            && self.deaf_until.is_none()
            && self.connection.wants_frames();
        if let Some(at) = [self.wake, self.read_after, self.deaf_until].into_iter().flatten().min() {
            let at = self.clock.instant(at);
            // The timer may fire early, which is harmless, but never late.
            if at < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(at);
            }
        }
        let port = &self.caller.port;
        let (outbox, timer, reported) = (&mut self.outbox, &mut self.timer, self.reported_backlog);
        std::future::poll_fn(|cx| {
            if write_first && let Some(step) = poll_write(outbox, socket, reported, cx) {
                return Poll::Ready(step);
            }
            if port.poll_woken(cx).is_ready() {
                return Poll::Ready(Step::Woken);
            }
            if reading && let Poll::Ready(received) = socket.poll_next_unpin(cx) {
                return Poll::Ready(Step::Received(received));
            }
            if timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Step::Timer);
            }
            match poll_write(outbox, socket, reported, cx) {
                Some(step) => Poll::Ready(step),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Takes in everything that has arrived at the port and in the followed sessions.
    async fn absorb(&mut self) {
        let mut budget = EVENT_BUDGET;
        loop {
            let deliveries = look_around(&mut self.followed, &self.caller.port);
            let mut progress = !deliveries.is_empty();
            for delivery in deliveries {
                self.deliver(delivery);
            }
            for index in 0..self.followed.len() {
                progress |= self.follow(index, &mut budget).await;
            }
            self.followed.retain(|followed| followed.mark.position() != GONE);
            if !progress || self.closing.is_some() {
                return;
            }
            if budget == 0 {
                // Come back after the transport has had its turn.
                self.caller.port.wake();
                return;
            }
        }
    }

    /// Feeds events of one session, as far as they were told; answers whether there were any.
    async fn follow(&mut self, index: usize, budget: &mut usize) -> bool {
        let mut fed = false;
        while *budget > 0 && self.closing.is_none() && self.connection.wants_events() {
            let Some(Followed { session, feed, mark, told }) = self.followed.get(index) else { break };
            let (position, told) = (mark.position(), *told);
            // Also what is gone, which is beyond everything.
            if position >= told {
                break;
            }
            let session = session.clone();
            match feed.next(position) {
                Next::UpToDate => break,
                Next::Batch(batch) => self.feed_batch(index, &session, &batch, budget),
                Next::Behind => {
                    let log = self.gateway.sessions.environment.log.clone();
                    let caught_up = catch_up(&*log, &session, position, told, *budget).await;
                    self.now = self.clock.now();
                    match caught_up {
                        Ok(batches) if batches.is_empty() => break,
                        Ok(batches) => {
                            for batch in &batches {
                                self.feed_batch(index, &session, batch, budget);
                            }
                        }
                        Err(error) => {
                            tracing::error!(%error, "the log could not be read");
                            self.input(Input::Closed(CloseReason::Internal));
                            break;
                        }
                    }
                }
            }
            fed = true;
        }
        fed
    }

    fn feed_batch(&mut self, index: usize, session: &SessionId, batch: &Arc<Batch>, budget: &mut usize) {
        for committed in &batch.events {
            let Some(Followed { mark, .. }) = self.followed.get(index) else { return };
            let read = mark.position();
            if read == GONE || self.closing.is_some() || !self.connection.wants_events() {
                return;
            }
            let seq = committed.position.seq;
            if seq <= read {
                continue;
            }
            mark.advance(seq);
            *budget = budget.saturating_sub(1);
            self.input(Input::Committed(session, committed));
            // Told at once, so that it does not produce more than the transport takes.
            if self.outbox.bytes() >= self.reported_backlog + HIGH_WATER {
                self.report_backlog();
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Done(request, reply) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                if let Reply::Authenticated(principal) = &reply {
                    self.caller.principal = principal.clone();
                }
                if let Reply::Enrolled = &reply {
                    self.gateway.enrolled(&mut self.caller);
                }
                if let Reply::Attachment(view) = &reply {
                    self.gateway.attached(&mut self.caller, &view.attachment);
                }
                if let Reply::Errand(errand) = &reply
                    && let Some(principal) = &errand.principal
                    && let Err(reject) = self.adopt(principal.clone())
                {
                    return self.input(Input::Rejected(request, reject));
                }
                self.input(Input::Done(request, reply));
            }
            Delivery::Rejected(request, reject) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.input(Input::Rejected(request, reject));
            }
            Delivery::Attached(request, attached) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.followed.retain(|followed| followed.session != attached.session);
                self.followed.push(Followed {
                    session: attached.session,
                    feed: attached.feed,
                    mark: attached.mark,
                    // What follows is looked at when the answers before it are in.
                    told: 0,
                });
                self.show_sessions();
                self.input(Input::Done(request, Reply::Attached(Box::new(attached.view))));
            }
            Delivery::Signal(signal) => self.input(Input::Signal(signal)),
            Delivery::Voice(event) => self.input(Input::Voice(event)),
            Delivery::Drain { retry_ms } => self.input(Input::Drain { retry_ms }),
            Delivery::Close(reason) => self.input(Input::Closed(reason)),
        }
    }

    fn receive(&mut self, arrival: Arrival) {
        let frame = match arrival {
            Arrival::Frame(frame) => frame,
            Arrival::Closed(code) => return self.input(Input::Closed(CloseReason::PeerClosed(code))),
        };
        let bytes = frame.size();
        tracing::debug!(bytes, "received");
        self.meters.frames_received.increment(1);
        self.meters.bytes_received.increment(bytes as u64);
        if let Err(delay) = self.caller.bucket.take_inbound(1, bytes as u64, self.now) {
            self.meters.delayed.increment(1);
            self.read_after = Some(self.now.after(delay));
        }
        self.input(Input::Frame(frame));
    }

    fn timeout(&mut self) {
        // A slow peer makes progress that is no news until somebody looks.
        if self.reported_backlog > 0 {
            self.report_backlog();
        }
        if self.wake.is_some_and(|at| at <= self.now) {
            self.input(Input::Timeout);
        }
        if self.deaf_until.is_some_and(|at| at <= self.now) {
            self.closing.get_or_insert(CloseReason::Internal.close());
        }
        if self.timer.is_elapsed() {
            self.timer.as_mut().reset(Instant::now() + FAR);
        }
    }

    fn lost(&mut self, reason: CloseReason) {
        self.input(Input::Closed(reason));
        if reason == CloseReason::TransportLost {
            // Nobody is left to hear anything.
            self.closing = Some(Close { code: NO_CODE, reason: "" });
        } else {
            // What is said last may have to be put on record first.
            self.deaf_until = Some(self.now.after(FAREWELL));
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let result = self.connection.handle_input(input, self.now);
        self.drain();
        if let Err(violation) = result {
            self.meters.violations.increment(1);
            self.closing.get_or_insert(violation.0);
        }
    }

    fn drain(&mut self) {
        loop {
            match self.connection.poll_output() {
                Output::Send(frame) => self.send(frame),
                Output::Submit(request, session, op) => {
                    self.outstanding += 1;
                    self.gateway.submit(&mut self.caller, request, session, op);
                }
                Output::SubmitLast(session, op) => self.last.push((session, op)),
                Output::Attach(request, session, from) => {
                    self.outstanding += 1;
                    self.gateway.attach(&self.caller, request, &session, from);
                }
                Output::Detach(session) => {
                    let mut seen = u64::MAX;
                    for followed in self.followed.iter().filter(|followed| followed.session == session) {
                        followed.feed.unfollow(&self.caller.port);
                        seen = followed.mark.position();
                        followed.mark.advance(GONE);
                    }
                    self.gateway.part(&self.caller, session, seen);
                    self.show_sessions();
                }
                Output::Find(request, session, turn) => {
                    self.outstanding += 1;
                    self.gateway.find(&self.caller, request, session, turn);
                }
                Output::Look(request, lookup) => {
                    self.outstanding += 1;
                    self.gateway.look(&self.caller, request, lookup);
                }
                Output::Hear(request, utterance) => {
                    self.outstanding += 1;
                    self.gateway.hear(&self.caller, request, utterance);
                }
                Output::Voice(op) => {
                    self.voice.get_or_insert_with(|| self.gateway.voice(&self.caller)).ask(op);
                }
                Output::Errand(request, errand) => {
                    self.outstanding += 1;
                    self.gateway.errand(&self.caller, request, errand);
                }
                Output::Enrol(request, enrolment) => {
                    self.outstanding += 1;
                    self.gateway.enrol(&mut self.caller, request, enrolment);
                }
                Output::Roll(request) => {
                    self.outstanding += 1;
                    self.gateway.list(&self.caller, request);
                }
                Output::Note(request, to, body) => {
                    self.outstanding += 1;
                    self.gateway.note(&self.caller, request, to, body);
                }
                Output::Stop => self.stops = true,
                Output::Authenticate(request, credential) => self.authenticate(request, &credential.0),
                Output::Close(close) => {
                    self.closing.get_or_insert(close);
                }
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
            }
        }
    }

    /// A message without which the rest makes no sense to the peer, be it too large to be sent, ends the connection.
    fn send(&mut self, frame: Frame) {
        let bytes = frame.size();
        if bytes <= self.outgoing.message {
            return self.outbox.push(frame);
        }
        tracing::warn!(
            protocol = self.caller.protocol,
            bytes,
            "a message is too large to be sent (limits.outgoing_message_bytes); the connection is closed"
        );
        self.closing.get_or_insert(CloseReason::Internal.close());
    }

    fn report_backlog(&mut self) {
        self.reported_backlog = self.outbox.report();
        self.input(Input::Backlog(self.reported_backlog));
    }

    fn count_written(&mut self) {
        let (frames, bytes, flushes) = self.outbox.written();
        if flushes > 0 {
            self.meters.frames_sent.increment(frames);
            self.meters.bytes_sent.increment(bytes);
            self.meters.flushes.increment(flushes);
        }
    }

    fn show_sessions(&self) {
        let followed = self.followed.iter().filter(|followed| followed.mark.position() != GONE);
        self.caller.port.show_sessions(followed.map(|followed| followed.session.clone()).collect());
    }

    fn authenticate(&mut self, request: RequestId, credential: &str) {
        self.outstanding += 1;
        let guard = &self.caller.guard;
        // Whoever is shut out is not heard here either.
        let identified = if guard.is_shut_out(self.now) {
            Err(AuthError::Invalid)
        } else {
            self.authenticator.identify(Some(credential), self.now)
        };
        if matches!(identified, Err(AuthError::Invalid)) {
            guard.count_bad_credential(self.now);
        }
        let answer = match identified {
            Ok(mut identity) if identity.principal.id == self.caller.principal.id => {
                identity.principal = identity.principal.within(self.caller.protocol);
                let principal = identity.principal.clone();
                *self.caller.identity.lock() = identity;
                Ok(Reply::Authenticated(principal))
            }
            Ok(_) | Err(_) => Err(Reject::Unauthenticated),
        };
        self.caller.port.answer(request, answer);
    }

    /// The connection speaks for somebody else from now on, unless that somebody may not be here.
    fn adopt(&mut self, principal: Principal) -> Result<(), Reject> {
        let identity = Identity { principal, credential: Credential::Token { jti: None } };
        if self.authenticator.is_revoked(&identity) {
            return Err(Reject::Unauthenticated);
        }
        self.gateway.adopt(&mut self.caller, identity)
    }

    /// Sends what is left, and says goodbye.
    async fn close(&mut self, socket: &mut impl Transport, close: Close) {
        if close.code == NO_CODE {
            return;
        }
        let farewell = async {
            if std::future::poll_fn(|cx| self.outbox.poll_flush(socket, cx)).await.is_ok() {
                socket.finish(close).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Sees how far the followed sessions have told of their events, and takes what has arrived. In this order, so that
/// an answer comes before its events.
fn look_around(followed: &mut [Followed], port: &Port) -> Vec<Delivery> {
    for followed in followed {
        followed.told = followed.feed.head();
    }
    port.take()
}

/// Writes as much as the transport takes; a step when the connection should know about it.
fn poll_write(
    outbox: &mut Outbox,
    socket: &mut impl Transport,
    reported: usize,
    cx: &mut Context<'_>,
) -> Option<Step> {
    if let Poll::Ready(Err(_)) = outbox.poll_flush(socket, cx) {
        return Some(Step::Lost);
    }
    let backlog = outbox.bytes();
    let grown = backlog >= HIGH_WATER && backlog >= reported + HIGH_WATER;
    // Also when a lot was there and is gone: the connection may be waiting to release more.
    let fallen = (reported > 0 || outbox.peak() >= HIGH_WATER) && backlog <= LOW_WATER;
    (grown || fallen).then_some(Step::Pressure)
}

/// Whoever asks last does not hear the answer.
const NOBODY: RequestId = RequestId(u64::MAX);
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);
const GONE: u64 = u64::MAX;
const NO_CODE: u16 = 0;
/// Of a peer that did not keep up (RFC 6455, 7.4.1).
const TRY_AGAIN: u16 = 1013;
const EVENT_BUDGET: usize = 512;
const MAX_OUTSTANDING: usize = 128;
const FLUSH_EVERY: usize = 64;
const FLUSH_BYTES: usize = 64 << 10;
const HIGH_WATER: usize = 64 << 10;
const LOW_WATER: usize = 16 << 10;
const FAREWELL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::RingBounds;

    #[test]
    fn no_event_overtakes_the_answer_of_whoever_asked() {
        const LAST: u64 = 200_000;
        let port = Arc::new(Port::default());
        let feed = Arc::new(Feed::new(0, RingBounds { events: 1, bytes: 1 }));
        let mark = Mark::at(0);
        let mut followed = [Followed { session: "s".into(), feed: feed.clone(), mark, told: 0 }];
        let session = std::thread::spawn({
            let port = port.clone();
            move || {
                for number in 1..=LAST {
                    // As a session does, once a batch is committed.
                    port.answer(RequestId(number), Err(Reject::Busy));
                    feed.reset_head(number);
                }
            }
        });
        let mut answered = 0;
        while followed[0].told < LAST {
            for delivery in look_around(&mut followed, &port) {
                let Delivery::Rejected(RequestId(number), _) = delivery else { panic!("{delivery:?}") };
                answered = number;
            }
            assert!(followed[0].told <= answered, "{} after {answered}", followed[0].told);
        }
        session.join().unwrap();
    }
}
