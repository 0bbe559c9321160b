//! Between the world and a protocol: what a connection is fed and what it holds, and the place where
//! deliveries are broken on purpose.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use switchboard_core::{
    Connection, Frame, Input, Lookup, Opening, OpeningRequest, Output, Principal, Protocol, Refusal,
    RefusalReply, Reply, RequestId, Route, Seed, SessionId, Timestamp, Upgrade, Violation,
};

use super::{Fault, Invariant, Mutation};

/// A protocol whose connections are watched.
#[derive(Debug)]
pub(super) struct Tapped {
    inner: Box<dyn Protocol>,
    tap: Tap,
}

/// What all watched connections report to.
#[derive(Clone, Debug)]
pub(super) struct Tap(Arc<Mutex<Reports>>);

#[derive(Debug)]
struct Reports {
    fault: Option<Fault>,
    mutation: Option<Mutation>,
    /// Events until the mutation strikes.
    countdown: u32,
}

impl Tap {
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Self(Arc::new(Mutex::new(Reports { fault: None, mutation, countdown: 60 })))
    }

    pub(super) fn protocol(&self, inner: impl Protocol + 'static) -> Tapped {
        Tapped { inner: Box::new(inner), tap: self.clone() }
    }

    /// The first thing that was wrong.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.reports().fault.take()
    }

    fn report(&self, fault: Fault) {
        self.reports().fault.get_or_insert(fault);
    }

    /// Whether this is the delivery to break.
    fn strikes(&self, mutation: Mutation) -> bool {
        let mut reports = self.reports();
        if reports.mutation != Some(mutation) {
            return false;
        }
        reports.countdown = reports.countdown.saturating_sub(1);
        if reports.countdown == 0 {
            reports.mutation = None;
            return true;
        }
        false
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.reports().mutation == Some(mutation)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Protocol for Tapped {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn routes(&self) -> &'static [Route] {
        self.inner.routes()
    }

    fn max_message(&self) -> usize {
        self.inner.max_message()
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        self.inner.inspect(request)
    }

    fn preview(&self, request: &OpeningRequest, principal: &Principal) -> Option<Lookup> {
        self.inner.preview(request, principal)
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(TappedConnection {
            inner: self.inner.accept(upgrade, seed)?,
            tap: self.tap.clone(),
            asked: BTreeMap::new(),
            positions: BTreeMap::new(),
            inputs: 0,
            outputs: 0,
            output_bytes: 0,
            hoard: Vec::new(),
        }))
    }

    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply {
        self.inner.refuse(refusal, request_id)
    }
}

/// One connection, watched.
struct TappedConnection {
    inner: Box<dyn Connection>,
    tap: Tap,
    /// Where it asked to be fed from.
    asked: BTreeMap<RequestId, (SessionId, Option<u64>)>,
    /// Number of the last event of each session that it was fed.
    positions: BTreeMap<SessionId, u64>,
    inputs: u64,
    /// What it did since the last input.
    outputs: u64,
    output_bytes: usize,
    /// What a connection that never forgets would keep.
    hoard: Vec<Bytes>,
}

impl fmt::Debug for TappedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)?;
        self.hoard.fmt(f)
    }
}

impl TappedConnection {
    /// Events arrive in order, without gaps, from the place that was asked for.
    fn watch(&mut self, input: &Input<'_>) {
        match input {
            Input::Done(request, Reply::Attached(view)) => {
                if let Some((session, from)) = self.asked.remove(request) {
                    self.positions.insert(session, from.unwrap_or(view.head.seq));
                }
            }
            Input::Committed(session, committed) => {
                let seq = committed.position.seq;
                let last = self.positions.insert((*session).clone(), seq);
                if last != Some(seq - 1) {
                    let detail = format!("a connection is fed {seq} of {session} after {last:?}");
                    self.tap.report(Fault::new(Invariant::Positions, detail));
                }
            }
            _ => {}
        }
    }

    fn sends(&mut self, bytes: &[u8]) {
        self.output_bytes += bytes.len();
        if self.tap.is(Mutation::Hoard) {
            self.hoard.extend(std::iter::repeat_n(Bytes::copy_from_slice(bytes), 400));
        }
    }

    /// What it holds, and what one input made it do, is bounded.
    fn measure(&mut self) {
        self.inputs += 1;
        if self.outputs > MAX_OUTPUTS || self.output_bytes > MAX_OUTPUT_BYTES {
            let (outputs, bytes) = (self.outputs, self.output_bytes);
            let detail = format!("one input led to {outputs} outputs of {bytes} bytes");
            self.tap.report(Fault::new(Invariant::Bounds, detail));
        }
        (self.outputs, self.output_bytes) = (0, 0);
        if self.inputs.is_multiple_of(MEASURE_EVERY) {
            let weight = weight(self);
            if weight > MAX_WEIGHT {
                let detail = format!("a connection has grown to {weight} bytes");
                self.tap.report(Fault::new(Invariant::Bounds, detail));
            }
        }
    }
}

impl Connection for TappedConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.measure();
        let committed = matches!(input, Input::Committed(..));
        assert!(!(committed && self.tap.strikes(Mutation::Panic)), "a panic on purpose");
        if committed && self.tap.strikes(Mutation::SkipDelivery) {
            return Ok(());
        }
        self.watch(&input);
        if let Input::Committed(session, committed) = &input
            && self.tap.strikes(Mutation::RepeatDelivery)
        {
            self.watch(&input);
            self.inner.handle_input(Input::Committed(session, committed), now)?;
        }
        self.inner.handle_input(input, now)
    }

    fn poll_output(&mut self) -> Output {
        let output = self.inner.poll_output();
        self.outputs += 1;
        match &output {
            Output::Send(Frame::Binary(bytes)) => self.sends(bytes),
            Output::Send(Frame::Text(text)) => self.sends(text.as_bytes()),
            Output::Attach(request, session, from) => {
                self.asked.insert(*request, (session.clone(), from.map(|from| from.seq)));
            }
            Output::Detach(session) => {
                self.positions.remove(session);
            }
            _ => {}
        }
        output
    }

    fn wants_events(&self) -> bool {
        self.inner.wants_events()
    }

    fn max_message(&self) -> usize {
        self.inner.max_message()
    }

    fn wants_frames(&self) -> bool {
        self.inner.wants_frames()
    }
}

/// Bytes of everything that something holds, as it prints itself: whatever it is, if it grows without
/// bound, so does this.
pub(crate) fn weight(thing: &impl fmt::Debug) -> usize {
    let mut counter = Counter(0);
    let _ = write!(counter, "{thing:?}");
    counter.0
}

struct Counter(usize);

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

const MEASURE_EVERY: u64 = 48;
/// What may wait for a slow reader, printed, and everything else.
const MAX_WEIGHT: usize = 512 << 10;
const MAX_OUTPUTS: u64 = 8192;
const MAX_OUTPUT_BYTES: usize = 1 << 20;
