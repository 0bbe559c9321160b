//! One ASP connection, seen from the server: decode, state, map.

use std::collections::{BTreeMap, VecDeque};

use switchboard_core::model::Tool;
use switchboard_core::{
    AgentId, Asked, AttachmentId, Close as CoreClose, CloseReason, Connection, Frame as TransportFrame,
    Input, Op, Output, Principal, Reject, Reply, RequestId, Seed, SessionId, Signal, Timestamp, ToolName,
    TurnId, Upgrade, Violation,
};

mod bucket;
mod clockwork;
mod events;
mod hello;
mod inbound;
mod invoke;
mod outbound;
mod requests;
mod resume;
mod watch;

use crate::codec::{Assembler, AssemblerLimits};
use crate::error::Close;
use crate::limits::AspLimits;
use crate::message::{Enc, Features, ServerHello, ServerHelloOp};
use crate::state::{Happening, Lifecycle};
use bucket::Buckets;
use clockwork::Clocks;
use requests::Requests;
use resume::Resuming;

/// The server's half of one connection.
#[derive(Debug)]
pub struct AspConnection {
    limits: AspLimits,
    principal: Principal,
    agent: AgentId,
    agents: Vec<AgentId>,
    /// Whether the agent is a function, and this a relay.
    remote: bool,
    seed: Seed,
    /// Counts what is derived from the seed.
    derived: u64,
    life: Lifecycle,
    wire: Wire,
    link: Link,
    requests: Requests,
    assembler: Assembler,
    buckets: Buckets,
    clocks: Clocks,
    /// Messages that came while the accept waited for the log.
    held_back: Vec<bytes::Bytes>,
    held_back_bytes: usize,
    resuming: Option<Box<Resuming>>,
    pending: Asked<Pending>,
    /// Boxed: there are mostly few, and a node of the map has room for eleven.
    tools: BTreeMap<ToolName, Box<Tool>>,
    /// `rev` of the last TOOL_DEF.
    tools_revision: u64,
    client_tools: Vec<Tool>,
    /// Whether HELLO named them, be it none.
    client_tools_told: bool,
    /// After a resume: sessions whose tools are awaited before all are told again.
    tools_awaited: usize,
    /// The transport has more to write than it takes.
    pressed: bool,
    out: VecDeque<Output>,
    now: Timestamp,
}

/// How bytes are written for this peer.
#[derive(Debug)]
struct Wire {
    features: Features,
    /// What was agreed; applies from the accept on.
    agreed: Features,
    enc: Enc,
    /// How the peer writes; text counts as JSON.
    heard: Enc,
    /// Whether a HELLO was accepted; a bare connection never has.
    greeted: bool,
    /// Largest payload that the client takes.
    max_payload: u32,
    window: u32,
    /// Bytes sent so far.
    sent: u64,
}

/// What ties the connection to sessions.
#[derive(Debug)]
struct Link {
    attachment: AttachmentId,
    generation: u32,
    /// The implicit session of the connection.
    home: SessionId,
    sessions: BTreeMap<SessionId, Followed>,
    /// Whether the attachment is recorded in the log, so that it survives the transport.
    durable: bool,
    left: bool,
}

/// A session in which this connection takes part.
#[derive(Debug, Default)]
struct Followed {
    /// When it was last used for an INVOKE; the longest idle one goes first.
    used: u64,
    /// The last event that the view told of when the following began; earlier changes of the tools
    /// are known from there. 0 until it has begun.
    head: u64,
    /// Which history of the session this is.
    epoch: u32,
    /// The log failed just when the following was asked for.
    missed: bool,
}

/// What an answer from a session is for.
#[derive(Debug)]
enum Pending {
    /// The accept waits for it.
    Accept,
    /// The resume waits for it.
    TakeOver,
    /// The resume waits for what a linked session knows of the attachment.
    Relink(SessionId),
    /// A turn.
    Start(u16),
    /// A `result` or `reply`.
    Answer(u16),
    /// A request that is to be stopped, and the turn that it stands for.
    Cancel(u16, TurnId),
    /// A session that should exist now; if not, the next use tries again.
    Follow(SessionId),
    /// The client's tools, and the request because of which they are offered; none for a HELLO.
    Tools(Option<u16>),
    /// What runs in a session, of which a request wants to follow a turn.
    Watch(u16, SessionId, Option<TurnId>),
    /// A renewed credential.
    Auth,
    /// Nobody waits.
    Nothing,
}

impl AspConnection {
    pub(crate) fn new(limits: AspLimits, upgrade: Upgrade, seed: Seed) -> Self {
        let attachment = AttachmentId::fresh(&seed, 0);
        let home = home_session(&upgrade.principal, &attachment);
        let complete06 =
            upgrade.opening.parameters.iter().any(|(name, value)| name == "end" && value == "complete06");
        let features = if complete06 {
            Features::BARE.with(crate::message::Feature::Complete06)
        } else {
            Features::BARE
        };
        let mut connection = Self {
            assembler: Assembler::new(AssemblerLimits {
                max_payload: limits.max_payload_bare as usize,
                ..AssemblerLimits::default()
            }),
            buckets: Buckets::new(&limits),
            wire: Wire {
                features,
                agreed: features,
                enc: Enc::Msgpack,
                heard: Enc::Json,
                greeted: false,
                max_payload: limits.max_payload_bare,
                window: limits.window,
                sent: 0,
            },
            link: Link {
                attachment,
                generation: 1,
                home,
                sessions: BTreeMap::new(),
                durable: false,
                left: false,
            },
            principal: upgrade.principal,
            agent: upgrade.agent,
            agents: upgrade.agents,
            remote: upgrade.remote,
            tools: upgrade.tools.into_iter().map(|tool| (tool.name.clone(), Box::new(tool))).collect(),
            tools_revision: 0,
            client_tools: Vec::new(),
            client_tools_told: false,
            tools_awaited: 0,
            seed,
            derived: 1,
            life: Lifecycle::Open,
            requests: Requests::default(),
            clocks: Clocks::default(),
            held_back: Vec::new(),
            held_back_bytes: 0,
            resuming: None,
            pending: Asked::default(),
            pressed: false,
            out: VecDeque::new(),
            now: Timestamp::default(),
            limits,
        };
        if connection.remote {
            // A relay says at once by which name functions know the connection.
            let mut greeting = ServerHello::new(ServerHelloOp::Greet);
            greeting.cid = Some(connection.link.attachment.to_string());
            // Nobody has said yet what the client reads; everybody reads JSON.
            let usual = std::mem::replace(&mut connection.wire.enc, Enc::Json);
            connection.send_hello(&greeting);
            connection.wire.enc = usual;
        }
        connection
    }

    /// Asks something of a session.
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

    fn fresh_turn(&mut self) -> TurnId {
        let counter = self.derive();
        TurnId::fresh(&self.seed, counter)
    }

    /// Moves on; a step that the state machine does not know changes nothing.
    fn happen(&mut self, happening: Happening) {
        if let Some(next) = self.life.after(happening) {
            self.life = next;
        }
    }

    /// Closes the transport with this code.
    fn close(&mut self, close: Close) {
        if self.life != Lifecycle::Closed {
            self.happen(Happening::Close);
            self.out.push_back(Output::Close(core_close(close)));
        }
    }
}

impl Connection for AspConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        if self.clocks.begin(now) {
            self.clocks.expire_with(self.principal.expires_at);
        }
        if self.life == Lifecycle::Closed {
            return Ok(());
        }
        match input {
            Input::Frame(TransportFrame::Binary(message)) => {
                self.clocks.received(now);
                self.receive(message);
            }
            Input::Frame(TransportFrame::Text(_)) => {
                self.clocks.received(now);
                self.fatal(crate::Code::TextMessage, "only binary messages are read", Close::Text);
            }
            Input::Frame(TransportFrame::Ping(_) | TransportFrame::Pong(_)) => self.clocks.received(now),
            // Only ever goes out.
            Input::Frame(TransportFrame::Head(_) | TransportFrame::Media(_)) => {}
            Input::Committed(session, committed) => self.committed(session, committed),
            Input::Done(request, reply) => self.done(request, reply),
            Input::Rejected(request, reject) => self.rejected(request, reject),
            Input::Signal(Signal::Note { body, .. }) => self.pushed(body),
            // Neither enrolled nor with a voice.
            Input::Signal(Signal::Invited { .. } | Signal::Contested) | Input::Voice(_) => {}
            Input::Timeout => self.timeout(),
            Input::Backlog(bytes) => self.backlog(bytes),
            Input::Drain { retry_ms } => self.drain(retry_ms, "restart"),
            Input::Closed(reason) => self.closed(reason),
        }
        self.finish_drain();
        Ok(())
    }

    fn wants_events(&self) -> bool {
        !self.is_full()
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }
}

impl AspConnection {
    fn done(&mut self, request: RequestId, reply: Reply) {
        let Some(pending) = self.pending.answered(request) else { return };
        match (pending, reply) {
            (Pending::Accept, Reply::Attachment(_)) => {
                self.link.durable = true;
                self.send_accept(None);
            }
            (Pending::TakeOver, Reply::Attachment(view)) => self.taken_over(*view),
            (Pending::Relink(session), Reply::Attachment(view)) => self.relinked(session, Some(*view)),
            (Pending::Start(id), Reply::Turn { session, turn, accepted, replayed }) => {
                self.turn_accepted(id, session, turn, accepted, replayed);
            }
            (Pending::Answer(id), _) => self.end_accepted(id),
            (Pending::Follow(session), Reply::Attached(view)) => {
                self.requests.joined(request);
                self.learn_tools(&session, &view);
            }
            (Pending::Watch(id, session, turn), Reply::Attached(view)) => {
                self.watched(id, session, turn.as_ref(), &view);
            }
            (Pending::Auth, Reply::Authenticated(principal)) => self.authed(principal),
            (
                Pending::Accept
                | Pending::TakeOver
                | Pending::Relink(_)
                | Pending::Start(_)
                | Pending::Cancel(..)
                | Pending::Follow(_)
                | Pending::Tools(_)
                | Pending::Watch(..)
                | Pending::Auth
                | Pending::Nothing,
                _,
            ) => {}
        }
    }

    fn rejected(&mut self, request: RequestId, reject: Reject) {
        let Some(pending) = self.pending.answered(request) else { return };
        match pending {
            // Without the log there is no resume, but there is service.
            Pending::Accept => {
                self.wire.agreed = self.wire.agreed.without(crate::message::Feature::Resume);
                self.send_accept(None);
            }
            Pending::TakeOver => self.resume_rejected(),
            Pending::Relink(session) => self.relinked(session, None),
            Pending::Start(id) => self.turn_rejected(id, &reject),
            Pending::Answer(id) => {
                let (code, retry_ms) = crate::map::reject_code(&reject);
                let code = if code == crate::Code::Forbidden { crate::Code::CallGone } else { code };
                self.fail_request(id, code, &reject.to_string(), retry_ms);
            }
            Pending::Cancel(id, turn) if matches!(reject, Reject::Unavailable { .. } | Reject::Busy) => {
                self.abandon(id, &turn);
            }
            Pending::Cancel(id, turn) => self.cancel_rejected(id, &turn),
            Pending::Follow(session) => {
                match self.link.sessions.get_mut(&session) {
                    // The attachment may be known there, and has to be taken away later.
                    Some(followed) if matches!(reject, Reject::Unavailable { .. } | Reject::Busy) => {
                        followed.missed |= followed.head == 0;
                    }
                    Some(_) | None => {
                        self.link.sessions.remove(&session);
                    }
                }
                self.tools_arrived();
                // Nothing more would be heard of these.
                let (code, retry_ms) = crate::map::reject_code(&reject);
                for id in self.requests.joining(request) {
                    self.fail_request(id, code, &reject.to_string(), retry_ms);
                }
            }
            Pending::Tools(request) => self.tools_rejected(request, &reject),
            Pending::Watch(id, ..) if reject == Reject::NotFound => self.nothing_to_watch(id),
            Pending::Watch(id, ..) => {
                let (code, retry_ms) = crate::map::reject_code(&reject);
                self.fail_request(id, code, &reject.to_string(), retry_ms);
            }
            Pending::Auth => {
                self.fatal(crate::Code::AuthInvalid, "the renewed credential was refused", Close::Auth);
            }
            Pending::Nothing => {}
        }
    }

    fn closed(&mut self, reason: CloseReason) {
        match reason {
            CloseReason::PeerClosed(Some(1000)) | CloseReason::Dismissed => {
                self.leave_for_good();
                self.close(Close::Normal);
            }
            CloseReason::PeerClosed(_) | CloseReason::TransportLost => {
                self.leave();
                self.close(Close::GoingAway);
            }
            CloseReason::Restart => {
                self.leave();
                self.close(Close::Restart);
            }
            CloseReason::TooSlow => {
                self.leave();
                self.close(Close::Dead);
            }
            CloseReason::Internal => {
                self.leave();
                self.close(Close::Internal);
            }
            // A text message has no place here, whatever is in it.
            CloseReason::NotText => {
                self.leave();
                self.close(Close::Text);
            }
            CloseReason::Unauthorized => {
                self.fatal(crate::Code::AuthInvalid, "the credential was revoked", Close::Auth);
            }
            CloseReason::TooBig => {
                self.fatal(crate::Code::PayloadTooLarge, "the message is too large", Close::TooBig);
            }
        }
    }
}

/// The implicit session of an attachment. The zero byte keeps it apart from names that clients use.
fn home_session(principal: &Principal, attachment: &AttachmentId) -> SessionId {
    SessionId::named(principal, &format!("\0asp\0{attachment}"))
}

fn core_close(close: Close) -> CoreClose {
    let reason = match close {
        Close::Normal => "done",
        Close::GoingAway | Close::Abnormal => "gone",
        Close::Text => "text message",
        Close::TooBig => "message too big",
        Close::Restart => "restart",
        Close::TryLater => "try again later",
        Close::Protocol => "protocol error",
        Close::Auth => "authentication",
        Close::Forbidden => "forbidden",
        Close::Version => "unsupported version",
        Close::Dead => "no sign of life, or too slow",
        Close::TakenOver => "taken over by a newer connection",
        Close::Flood => "flood",
        Close::Internal => "internal error",
    };
    CoreClose { code: close.number(), reason }
}
