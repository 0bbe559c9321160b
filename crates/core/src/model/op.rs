//! What may be asked of a session.

use std::sync::Arc;

use serde_json::Value;

use crate::id::{
    AgentId, AttachmentId, CallId, Callsign, MessageId, PrincipalId, SessionId, ToolName, TurnId, WorkerId,
};
use crate::model::{
    Batch, CallEnd, CallKind, Device, DeviceLoss, Event, Executor, Import, Origin, Output, Part, Place,
    RequestKey, SecretHash, Setting, Standing, Told, Tool, TurnEnd, TurnRequest,
};
use crate::principal::Role;
use crate::rights::Right;
use crate::scopes::Scopes;
use crate::time::Timestamp;

/// Who asks. Set by the server from what was authenticated, never from a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The identity behind it.
    pub principal: PrincipalId,
    /// In which capacity.
    pub kind: ActorKind,
    /// The name under which the connection that asks is enrolled.
    pub callsign: Option<Callsign>,
    /// As what it is enrolled.
    pub registered: Option<Role>,
    /// What the credential of a client allows; of no meaning for others.
    pub scopes: Scopes,
}

/// The capacity in which an actor asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorKind {
    /// A client; its role in the session decides.
    Client,
    /// The executor of turns.
    Worker(WorkerId),
    /// The server itself: time, recovery.
    Server,
}

impl Actor {
    /// A client with this identity, and every ordinary scope.
    pub fn client(principal: PrincipalId) -> Self {
        Self::new(principal, ActorKind::Client)
    }

    /// An executor of turns.
    pub fn worker(worker: WorkerId) -> Self {
        Self::new(PrincipalId::from("switchboard"), ActorKind::Worker(worker))
    }

    /// The server itself.
    pub fn server() -> Self {
        Self::new(PrincipalId::from("switchboard"), ActorKind::Server)
    }

    fn new(principal: PrincipalId, kind: ActorKind) -> Self {
        Self { principal, kind, callsign: None, registered: None, scopes: Scopes::default() }
    }

    /// The same, with what its credential allows.
    #[must_use]
    pub fn allowed(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// The same, asking through a connection that is enrolled as a device under this name.
    #[must_use]
    pub fn enrolled(self, callsign: Option<Callsign>) -> Self {
        self.registered(callsign.map(|callsign| (callsign, Role::Device)))
    }

    /// The same, asking through a connection that is enrolled under this name, in this role.
    #[must_use]
    pub fn registered(mut self, enrolment: Option<(Callsign, Role)>) -> Self {
        (self.callsign, self.registered) = enrolment.unzip();
        self
    }

    /// Whether this is a client whose credential does not allow it. Executors and the server itself hold
    /// no credentials; what they may do, the session decides.
    pub fn lacks(&self, right: Right) -> bool {
        matches!(self.kind, ActorKind::Client) && !self.scopes.permit(right, self.registered)
    }

    /// Whether sessions of its principal are open to it for that alone. They are not to a credential that
    /// allows nothing but to be a device.
    pub fn takes_part(&self) -> bool {
        self.registered == Some(Role::Orchestrator) || self.scopes.permit(Right::Follow, None)
    }
}

/// A request to change a session. Deciding it leads to events, or to a [`Reject`](crate::Reject).
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Client: make sure that the session exists and is the asker's.
    Open {
        /// Which history; used when the session is new.
        epoch: u32,
        /// The agent that serves turns which name no other.
        agent: AgentId,
        /// What the owner calls it.
        name: Option<String>,
    },
    /// Owner: give somebody a role, or take it away.
    Admit {
        /// Who.
        principal: PrincipalId,
        /// As what; none removes.
        role: Option<Role>,
    },
    /// Client: begin an attachment.
    OpenAttachment {
        /// Which one.
        attachment: AttachmentId,
        /// Counts take-overs; 1 for the first transport.
        generation: u32,
        /// Digest of the secret with which it can be taken over; none in linked sessions.
        secret: Option<SecretHash>,
        /// How long it lives without a transport, in milliseconds.
        window_ms: u64,
    },
    /// Client: continue an attachment on a newer transport. Answered with
    /// [`Reply::Attachment`](crate::Reply::Attachment).
    TakeOver {
        /// Which one.
        attachment: AttachmentId,
        /// Digest of the secret that the client showed; none where the attachment has none, and
        /// being its principal is enough.
        secret: Option<SecretHash>,
        /// Digest of the secret for the next time.
        next_secret: Option<SecretHash>,
    },
    /// Client: record that the attachment takes part in another session.
    LinkAttachment {
        /// Which one.
        attachment: AttachmentId,
        /// The other session.
        session: SessionId,
    },
    /// Client: the transport is gone, the attachment waits.
    Detach {
        /// Which one.
        attachment: AttachmentId,
        /// The transport that was lost.
        generation: u32,
    },
    /// Client: the attachment is over; its turns are interrupted.
    CloseAttachment {
        /// Which one.
        attachment: AttachmentId,
        /// The transport that says so.
        generation: u32,
    },
    /// Client or worker: change the tools.
    ChangeTools(ToolChange),
    /// Client: start a turn.
    StartTurn(Box<NewTurn>),
    /// Client: put a message that was written elsewhere into the tree.
    Import(Box<Import>),
    /// Client: put right what an agent has said.
    Edit {
        /// Which message.
        message: MessageId,
        /// What it is to say.
        parts: Vec<Part>,
    },
    /// Client: go on from another message than the last.
    MoveTip {
        /// From this one.
        tip: MessageId,
    },
    /// Owner: call the session something else.
    Rename {
        /// What.
        name: String,
    },
    /// Owner: put the session away, take it up again, or want it gone.
    Stand(Standing),
    /// Client: have an account kept of the session, in the tables of a protocol.
    Chronicle {
        /// Which account.
        chronicle: Box<str>,
    },
    /// Client: note something that means something to one account of the session only.
    Record {
        /// Which account.
        chronicle: Box<str>,
        /// What; the account's own business.
        record: Value,
    },
    /// Client: let a turn begin that the same client holds back.
    Release {
        /// Which one.
        turn: TurnId,
        /// After this it ends as expired, whatever was said when it was accepted.
        deadline: Timestamp,
    },
    /// Client: stop a turn.
    Interrupt {
        /// Which one.
        turn: TurnId,
        /// Why.
        reason: Option<String>,
    },
    /// Client, or the device that a turn is for: the turn is over, whatever its agent makes of it.
    Conclude {
        /// Which one.
        turn: TurnId,
        /// How.
        end: TurnEnd,
    },
    /// Client: an enrolled device keeps its profile in this session.
    Join(Box<Device>),
    /// Client: an enrolled device has news of itself.
    Report {
        /// What it says of itself now.
        facts: Value,
    },
    /// Client or worker: report progress of a call.
    Progress {
        /// The turn that asked.
        turn: TurnId,
        /// Which call.
        call: CallId,
        /// A piece of output.
        delta: String,
    },
    /// Client or worker: answer a call.
    Answer {
        /// The turn that asked.
        turn: TurnId,
        /// Which call.
        call: CallId,
        /// The result.
        end: CallEnd,
    },
    /// Worker: take a turn. Answered with the fence that the worker's further ops must carry.
    Claim {
        /// Which one.
        turn: TurnId,
        /// Whether the worker only passes on what somebody else produces.
        relayed: bool,
    },
    /// Worker: add output.
    Emit {
        /// Which turn.
        turn: TurnId,
        /// From [`Op::Claim`].
        fence: u32,
        /// What was produced.
        output: Output,
    },
    /// Worker: ask for something, or for several things at once.
    Request {
        /// Which turn.
        turn: TurnId,
        /// From [`Op::Claim`].
        fence: u32,
        /// What is asked.
        calls: Vec<CallRequest>,
    },
    /// Worker: end the turn.
    Finish {
        /// Which turn.
        turn: TurnId,
        /// From [`Op::Claim`].
        fence: u32,
        /// How it ended.
        end: TurnEnd,
    },
    /// Server: the executor of a turn is lost.
    Lose {
        /// Which turn.
        turn: TurnId,
        /// Whether the agent can go on from what it has emitted.
        continues: bool,
    },
    /// Server: the connection of a device is gone.
    LoseDevice {
        /// The device.
        device: Callsign,
        /// Why its connection is gone.
        why: DeviceLoss,
    },
    /// Server: an administrator has released the name of a device of this session.
    ReleaseDevice {
        /// The device.
        device: Callsign,
        /// Who.
        by: PrincipalId,
    },
    /// Server: the process has restarted, so no transport of before is alive.
    Recover,
    /// Server: time has passed.
    Wake,
}

/// A turn to start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTurn {
    /// Its identifier, chosen by the asker; fresh.
    pub turn: TurnId,
    /// What to do.
    pub request: TurnRequest,
    /// The agent to ask; none for the session's own.
    pub agent: Option<AgentId>,
    /// The device that it is for, if it is about one.
    pub device: Option<Callsign>,
    /// Where it comes from.
    pub origin: Origin,
    /// Where its messages stand in the tree.
    pub place: Place,
    /// What was said before, as a client tells it that keeps its own history: the turn follows
    /// exactly that, whatever the session remembers. Takes the place of a parent.
    pub history: Option<Vec<Told>>,
    /// The folder of the server's machine in which the agent is to work.
    pub workspace: Option<String>,
    /// Whether it waits for other serial turns of the session.
    pub serial: bool,
    /// Whether it is held back until its client releases it, or that client's attachment is detached: from then on
    /// it is a serial turn. It has to be bound.
    pub held: bool,
    /// Whether its execution is never begun again: if the executor is lost, the turn has failed.
    pub once: bool,
    /// What the agent is told beside what is asked.
    pub setting: Option<Box<Setting>>,
    /// After this it ends as expired.
    pub deadline: Timestamp,
    /// Makes a repetition harmless.
    pub key: Option<RequestKey>,
    /// Opaque data of the client, handed to the agent.
    pub meta: Value,
}

impl NewTurn {
    /// A turn at the tip of its session, after those that wait there, by the session's own agent.
    pub fn new(turn: TurnId, request: TurnRequest, origin: Origin, deadline: Timestamp) -> Self {
        Self {
            turn,
            request,
            agent: None,
            device: None,
            origin,
            place: Place::default(),
            history: None,
            workspace: None,
            serial: true,
            held: false,
            once: false,
            setting: None,
            deadline,
            key: None,
            meta: Value::Null,
        }
    }
}

/// A change of the tools of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolChange {
    /// New tools, and new definitions of known ones.
    pub add: Vec<Tool>,
    /// Tools to take away; unknown names are ignored.
    pub remove: Vec<ToolName>,
    /// The turn that found them.
    pub turn: Option<TurnId>,
}

impl ToolChange {
    /// Whether this is what the change leads to; what it takes away may have been unknown.
    pub fn led_to(&self, event: &Event) -> bool {
        matches!(event, Event::ToolsChanged { added, removed, .. }
            if *added == self.add && removed.iter().all(|name| self.remove.contains(name)))
    }
}

/// A call that an executor asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRequest {
    /// Unique within the session, chosen by the executor.
    pub id: CallId,
    /// What is asked.
    pub kind: CallKind,
    /// Who has to answer; none: whoever registered the tool, or anyone for a question.
    pub executor: Option<Executor>,
    /// After this it ends as timed out.
    pub deadline: Timestamp,
    /// Calls of one batch are asked for together.
    pub batch: Option<Batch>,
    /// What the protocol that carries it to its executor has to know; its own business.
    pub options: Arc<Value>,
}
