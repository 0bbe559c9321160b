//! One connection, seen from the server: chats over RPC, or a single one over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use switchboard_core::model::NewTurn;
use switchboard_core::{
    AgentId, Asked, AttachmentId, Connection, Frame, Input, Op, Output, Position, Principal, Reject,
    Reply as Answer, RequestId, Seed, SessionId, Timestamp, TurnId, Upgrade, Violation,
};

mod attach;
mod chats;
mod clock;
mod events;
mod exchange;
mod follow;
mod stop;
mod unary;

pub(crate) use exchange::{Exchange, Purpose};
pub(crate) use unary::unsupported;

use crate::codec;
use crate::error::words;
use crate::ledger::Ledger;
use crate::limits::AcolyteLimits;
use crate::map::{ListNames, Rendering};
use crate::message::{Capabilities, ClientMessage, ErrorId, RpcId, ServerMessage, TaskId};
use crate::protocol::Service;
use crate::state::ChatState;
use attach::Attaching;
use clock::Clock;
use follow::Following;

/// The server's half of one connection.
#[derive(Debug)]
pub struct AcolyteConnection {
    limits: AcolyteLimits,
    service: Service,
    principal: Principal,
    agent: AgentId,
    agents: Vec<AgentId>,
    /// The address under which the client reached the server.
    origin: String,
    seed: Seed,
    derived: u64,
    ledger: Arc<Ledger>,
    wire: Wire,
    /// What was agreed, once the client has made an offer.
    agreed: Capabilities,
    /// The version that was offered and is not spoken: there are no chats until a better offer.
    refused_version: Option<String>,
    lists: ListNames,
    chats: BTreeMap<RpcId, Chat>,
    /// The order in which chats wait.
    waiting: VecDeque<RpcId>,
    slot: Slot,
    attaching: BTreeMap<RpcId, Attaching>,
    followed: BTreeMap<SessionId, Following>,
    pending: Asked<Pending>,
    clock: Clock,
    leaving: bool,
    closed: bool,
    out: VecDeque<Output>,
    now: Timestamp,
}

/// What carries the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Messages of a WebSocket.
    Rpc,
    /// One request over HTTP, and the stream that answers it.
    Stream,
}

/// The one place in which a chat of this connection runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Chat(RpcId),
    /// The client has its terminal, but the turn has not come to rest.
    Stopping(SessionId, TurnId),
}

/// A chat that the client has not seen the end of.
#[derive(Debug)]
struct Chat {
    task: TaskId,
    turn: TurnId,
    session: SessionId,
    state: ChatState,
    /// The turn that was asked for, until the session has taken it.
    submitted: Option<Box<NewTurn>>,
    /// The client knows that it was taken.
    accepted: bool,
    rendering: Rendering,
    /// The messages that ask for its end.
    aborts: Vec<RpcId>,
    /// When the client last heard of it.
    said_at: Timestamp,
    /// What was asked of its session came too fast, and is tried again then.
    retry_at: Option<Timestamp>,
    /// Whether it takes up the connection's one place; chats that are attached do not.
    own: bool,
    /// Whether its session is followed on its behalf.
    follows: bool,
    /// What lets it go on without this connection.
    link: Option<Link>,
    /// Whether its events say where they are.
    positions: bool,
    /// The client knows what came up to here.
    after: u64,
    /// The last event that was taken in.
    seen: u64,
}

impl Chat {
    /// Whether its task is this connection's to look after; otherwise it only looks on.
    const fn is_kept(&self) -> bool {
        self.own || self.link.is_some()
    }

    /// Whether it came too fast, so that its session does not know of it.
    const fn is_put_off(&self) -> bool {
        self.retry_at.is_some() && self.submitted.is_some()
    }
}

/// Ties a chat to its turn beyond this connection.
#[derive(Clone, Debug)]
struct Link {
    attachment: AttachmentId,
    generation: u32,
}

/// What an answer from a session is for.
#[derive(Debug)]
enum Pending {
    /// The turn of a chat.
    Start(RpcId),
    /// A chat that waited begins.
    Release(RpcId),
    /// A session that is followed from there.
    Follow(SessionId, Option<Position>),
    /// The end of a chat.
    Interrupt(RpcId),
    /// A task that is to be followed again.
    TakeOver(RpcId),
    /// A session in which a task is to be watched, followed from there.
    Watch(RpcId, Option<Position>),
    /// A task that is to be told of again, although it is over.
    Trace(RpcId),
    /// A task that nobody looks after.
    Find(RpcId, TaskId),
    /// Nobody waits.
    Nothing,
}

impl AcolyteConnection {
    pub(crate) fn new(
        limits: AcolyteLimits,
        service: Service,
        ledger: Arc<Ledger>,
        wire: Wire,
        upgrade: Upgrade,
        seed: Seed,
    ) -> Self {
        let Upgrade { principal, agent, agents, request, .. } = upgrade;
        let agent = principal.scopes.reachable(&agent, &agents);
        Self {
            limits,
            service,
            principal,
            agent,
            agents,
            origin: request.origin,
            seed,
            derived: 0,
            ledger,
            wire,
            agreed: Capabilities::default(),
            refused_version: None,
            lists: ListNames { checklist: true, tasklist: true },
            chats: BTreeMap::new(),
            waiting: VecDeque::new(),
            slot: Slot::Free,
            attaching: BTreeMap::new(),
            followed: BTreeMap::new(),
            pending: Asked::default(),
            clock: Clock::default(),
            leaving: false,
            closed: false,
            out: VecDeque::new(),
            now: Timestamp::default(),
        }
    }

    fn submit(&mut self, session: &SessionId, op: Op, pending: Pending) {
        let request = self.request(pending);
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    fn request(&mut self, pending: Pending) -> RequestId {
        self.pending.ask(pending)
    }

    fn derive(&mut self) -> u64 {
        self.derived += 1;
        self.derived
    }

    fn error_id(&mut self) -> ErrorId {
        let counter = self.derive();
        error_id(&self.seed, counter)
    }

    /// Sends a message over RPC.
    fn send(&mut self, id: &RpcId, message: &ServerMessage) {
        self.clock.sent_at = self.now;
        self.out.push_back(Output::Send(Frame::Text(codec::encode_server(id, message))));
    }

    fn refuse(&mut self, id: &RpcId, why: impl Into<String>) {
        self.send(id, &ServerMessage::Error { error: why.into() });
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.wire == Wire::Stream {
            return self.receive_request(bytes);
        }
        match codec::decode_client(bytes) {
            Err(refused) => self.refuse(&refused.id, refused.why),
            Ok((id, ClientMessage::StatusGet(offer))) => self.status(&id, &offer),
            Ok((id, ClientMessage::ChatStart(request))) => self.start(id, request),
            Ok((id, ClientMessage::ChatAbort { request })) => self.abort(id, request),
            Ok((id, ClientMessage::TaskStatus { task, session })) => {
                self.task_status(id, task, session.as_deref());
            }
            // A method like any unknown one, until the client has said that it knows it.
            Ok((id, ClientMessage::ChatAttach(_))) if !self.may_resume() => self.refuse(&id, words::INVALID),
            Ok((id, ClientMessage::ChatAttach(attach))) => self.attach(id, attach),
        }
    }

    fn done(&mut self, request: RequestId, answer: Answer) {
        let Some(pending) = self.pending.answered(request) else { return };
        match (pending, answer) {
            (Pending::Start(id), Answer::Turn { .. }) => self.accept(&id),
            (Pending::Interrupt(id), _) => self.interrupted(&id),
            (Pending::TakeOver(id), Answer::Attachment(view)) => self.taken_over(&id, &view),
            (Pending::Follow(session, from), Answer::Attached(view)) => self.following(&session, from, &view),
            (Pending::Watch(id, from), Answer::Attached(view)) => self.watched(&id, from, &view),
            (Pending::Trace(id), Answer::Found(row)) => self.traced(&id, row.as_deref()),
            (Pending::Find(id, task), Answer::Found(row)) => self.found(&id, &task, row.as_deref()),
            (
                Pending::Start(_)
                | Pending::Release(_)
                | Pending::Follow(..)
                | Pending::TakeOver(_)
                | Pending::Watch(..)
                | Pending::Trace(_)
                | Pending::Find(..)
                | Pending::Nothing,
                _,
            ) => {}
        }
    }

    fn rejected(&mut self, request: RequestId, reject: &Reject) {
        let Some(pending) = self.pending.answered(request) else { return };
        match pending {
            Pending::Start(id) => self.start_rejected(&id, reject),
            Pending::Release(id) => self.release_rejected(&id, reject),
            Pending::Follow(session, _) => self.not_followed(&session, reject),
            Pending::Interrupt(id) => self.interrupt_rejected(&id, reject),
            Pending::TakeOver(id) => self.not_taken_over(&id),
            Pending::Watch(id, _) | Pending::Trace(id) => self.not_watched(&id),
            Pending::Find(id, _) => self.send(&id, &ServerMessage::TaskStatusResult { task: None }),
            Pending::Nothing => {}
        }
    }
}

impl Connection for AcolyteConnection {
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
                    Frame::Text(text) => self.receive(text.as_bytes()),
                    Frame::Binary(bytes) => self.receive(&bytes),
                    Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_) => {}
                }
            }
            Input::Committed(session, committed) => self.committed(session, committed),
            Input::Done(request, answer) => self.done(request, answer),
            Input::Rejected(request, reject) => self.rejected(request, &reject),
            // Neither enrolled nor with a voice: nobody has anything to say to it.
            Input::Signal(_) | Input::Voice(_) => {}
            Input::Timeout => self.timeout(),
            Input::Backlog(bytes) => self.clock.backlog.report(bytes, now),
            Input::Drain { .. } => self.leaving = true,
            Input::Closed(reason) => self.close(reason),
        }
        self.leave_if_done();
        Ok(())
    }

    fn wants_events(&self) -> bool {
        self.clock.backlog.is_below(MAX_BACKLOG)
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }
}

fn error_id(seed: &Seed, counter: u64) -> ErrorId {
    let digest = seed.derive("error", counter);
    ErrorId::of(digest.split_at(10).0)
}

/// Bytes in front of the transport above which no events are taken in; they wait in the log.
const MAX_BACKLOG: usize = 64 << 10;
