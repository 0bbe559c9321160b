//! One connection, seen from the server: many conversations on one socket (§8).
//!
//! Envelopes become *jobs*, which are done one after another: a job looks things up, asks the session of
//! its conversation, and answers; only then the next one begins. So replies come in the order of their
//! requests, and a request sees what those before it have led to. What happens in a conversation goes out
//! as it happens, through the [`Annals`](crate::annals::Annals) that the connection keeps of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use switchboard_core::{
    AgentId, Asked, Connection, Frame, Input, Lookup, Op, Output, Principal, Reject, Reply, RequestId, Seed,
    SessionId, Timestamp, Upgrade, Violation,
};

mod beside;
mod clock;
mod hear;
mod held;
mod inbound;
mod jobs;
mod lite;
mod live;
mod memories;
mod say;
mod stop;
mod subscribe;
mod syncing;
mod tools;
mod vary;

use crate::codec::{self, Dialect};
use crate::error::Code;
use crate::id::{Id, Prefix};
use crate::limits::AliciaLimits;
use crate::message::{Acknowledgement, Body, Envelope, ErrorMessage};
use crate::protocol::{Alicia, Service};
use clock::Clock;
use inbound::Intake;
use jobs::{Answer, Job, Work};
use live::Conversation;

/// The server's half of one connection.
#[derive(Debug)]
pub struct AliciaConnection {
    limits: Arc<AliciaLimits>,
    service: Service,
    principal: Principal,
    agent: AgentId,
    seed: Seed,
    derived: u64,
    dialect: Dialect,
    intake: Intake,
    /// The conversations that the client follows.
    followed: BTreeMap<SessionId, Conversation>,
    /// What the client declared last, for conversations that it follows without a word.
    manners: Manners,
    waiting: VecDeque<Job>,
    /// The one job that is being done.
    work: Option<Box<Work>>,
    pending: Asked<Pending>,
    clock: Clock,
    leaving: bool,
    closed: bool,
    out: VecDeque<Output>,
    now: Timestamp,
}

/// What a client has declared about itself (§4.12).
#[derive(Clone, Debug, Default)]
struct Manners {
    streaming: bool,
    audio: bool,
    /// The tools that it runs itself.
    tools: Vec<String>,
}

/// What the answer to a request is for.
#[derive(Debug)]
enum Pending {
    /// The job that is being done.
    Work,
    /// Nobody waits.
    Nothing,
}

impl AliciaConnection {
    pub(crate) fn new(protocol: &Alicia, upgrade: Upgrade, seed: Seed) -> Self {
        let Upgrade { principal, agent, agents, .. } = upgrade;
        let agent = principal.scopes.reachable(&agent, &agents);
        let limits = protocol.limits.clone();
        Self {
            intake: Intake::new(&limits),
            limits,
            service: protocol.service.clone(),
            principal,
            agent,
            seed,
            derived: 0,
            dialect: Dialect::Undecided,
            followed: BTreeMap::new(),
            manners: Manners::default(),
            waiting: VecDeque::new(),
            work: None,
            pending: Asked::default(),
            clock: Clock::default(),
            leaving: false,
            closed: false,
            out: VecDeque::new(),
            now: Timestamp::default(),
        }
    }

    /// Asks a session on behalf of the job that is being done.
    fn submit(&mut self, session: &SessionId, op: Op) {
        let request = self.pending.ask(Pending::Work);
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    /// Tells a session something whose answer nobody waits for.
    fn tell(&mut self, session: &SessionId, op: Op) {
        let request = self.pending.ask(Pending::Nothing);
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    /// Looks something up on behalf of the job that is being done.
    fn look(&mut self, lookup: Lookup) {
        let request = self.pending.ask(Pending::Work);
        self.out.push_back(Output::Look(request, Box::new(lookup)));
    }

    /// Follows a session on behalf of the job that is being done.
    fn attach(&mut self, session: &SessionId) {
        let request = self.pending.ask(Pending::Work);
        self.out.push_back(Output::Attach(request, session.clone(), None));
    }

    fn fresh(&mut self, prefix: Prefix) -> Id {
        self.derived += 1;
        Id::fresh(prefix, &self.seed, self.derived)
    }

    fn send(&mut self, envelope: &Envelope) {
        if self.is_lite() {
            return self.send_in_lite(envelope);
        }
        self.out.push_back(Output::Send(Frame::Binary(codec::encode(envelope))));
    }

    /// Sends something that has no place in the order of the conversation.
    fn say(&mut self, conversation: Option<&Id>, body: impl Into<Body>) {
        self.send(&Envelope::new(conversation.cloned(), body));
    }

    fn acknowledge(&mut self, job: &Job, success: bool) {
        // What came without a place in the order has nothing to be acknowledged by.
        if job.stanza > 0 && job.acknowledged {
            let ack = Acknowledgement { acknowledged_stanza_id: job.stanza, success };
            self.say(job.conversation.as_ref(), ack);
        }
    }

    fn report(&mut self, code: Code, message: &str) -> ErrorMessage {
        let id = self.fresh(Prefix::Error);
        code.report(id, message)
    }

    /// Refuses a job: an error that names it, then the acknowledgement that it needs (§5.9).
    fn refuse(&mut self, job: &Job, code: Code, message: &str) {
        let error = self.report(code, message);
        self.refuse_with(job, error);
    }

    fn refuse_with(&mut self, job: &Job, mut error: ErrorMessage) {
        error.originating_id = error.originating_id.or_else(|| job.name());
        self.say(job.conversation.as_ref(), error);
        self.acknowledge(job, false);
    }

    fn done(&mut self, request: RequestId, reply: Reply) {
        match self.pending.answered(request) {
            Some(Pending::Work) => self.proceed(Answer::Done(Box::new(reply))),
            Some(Pending::Nothing) | None => {}
        }
    }

    fn rejected(&mut self, request: RequestId, reject: Reject) {
        match self.pending.answered(request) {
            Some(Pending::Work) => self.proceed(Answer::Rejected(reject)),
            Some(Pending::Nothing) | None => {}
        }
    }
}

impl Connection for AliciaConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        self.clock.begin(now);
        if self.closed {
            return Ok(());
        }
        match input {
            Input::Frame(frame) => {
                self.clock.heard_at = now;
                match frame {
                    Frame::Binary(bytes) => self.receive(&bytes),
                    Frame::Pong(_) => self.clock.answered(now),
                    // Text is ignored (§8.1), and the transport answers pings by itself.
                    Frame::Text(_) | Frame::Ping(_) | Frame::Media(_) | Frame::Head(_) => {}
                }
            }
            Input::Committed(session, committed) => self.committed(session, committed),
            Input::Done(request, reply) => self.done(request, reply),
            Input::Rejected(request, reject) => self.rejected(request, reject),
            // Neither enrolled nor with a voice: nobody has anything to say to it.
            Input::Signal(_) | Input::Voice(_) => {}
            Input::Timeout => self.timeout(),
            Input::Backlog(bytes) => self.clock.backlog.report(bytes, now),
            Input::Drain { .. } => self.leaving = true,
            Input::Closed(reason) => self.close(reason),
        }
        self.start_work();
        self.leave_if_done();
        Ok(())
    }

    fn wants_events(&self) -> bool {
        // A replay comes before what happens meanwhile, and a reader that lags reads the log later.
        self.clock.backlog.is_below(MAX_BACKLOG)
            && !self.work.as_ref().is_some_and(|work| work.holds_events())
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }
}

/// Bytes in front of the transport above which no events are taken in; they wait in the log.
const MAX_BACKLOG: usize = 256 << 10;
