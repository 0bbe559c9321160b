//! One session: a pure function from what is asked to what happens.
//!
//! [`Session::decide`] says what an op leads to and cannot change anything; [`Session::apply`]
//! takes in what was committed and cannot fail. Live service, replay and crash recovery are the
//! same loop over the same two functions, so a replayed session equals the live one.
//!
//! State is bounded: ended turns leave, messages are known by their identifiers only, and both
//! are forgotten after a while. What lies further back is read from the log or a projection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{
    AgentId, AttachmentId, CallId, Callsign, MessageId, PrincipalId, SessionId, ToolName, TurnId,
};
use crate::limits::SessionLimits;
use crate::model::{
    Actor, Call, Claim, Device, Executor, Names, Origin, RequestKey, SecretHash, Setting, Standing, Tool,
    TurnRequest,
};
use crate::position::Position;
use crate::principal::Role;
use crate::time::Timestamp;

mod apply;
mod decide;
mod decide_turns;
mod devices;
mod recall;
mod tree;
mod turns;
mod wake;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod attachments_tests;
#[cfg(test)]
mod calls_tests;
#[cfg(test)]
mod devices_tests;
#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod stops_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tools_tests;
#[cfg(test)]
mod tree_tests;
#[cfg(test)]
mod turns_tests;

pub use decide::Decision;
use recall::KnownMessage;

/// The state of one session, derived from its events alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    id: SessionId,
    #[serde(skip)]
    limits: SessionLimits,
    /// None until [`Event::SessionOpened`](crate::Event::SessionOpened): not born yet.
    owner: Option<PrincipalId>,
    agent: Option<AgentId>,
    name: Option<String>,
    head: Position,
    opened_at: Timestamp,
    updated_at: Timestamp,
    participants: BTreeMap<PrincipalId, Role>,
    /// Boxed, as are devices and tools: most sessions have few, and a node of the map has room for eleven.
    attachments: BTreeMap<AttachmentId, Box<Attachment>>,
    /// Devices that keep their profile here.
    #[serde(default)]
    devices: BTreeMap<Callsign, Box<DeviceState>>,
    tools: BTreeMap<ToolName, Box<Tool>>,
    tools_revision: u64,
    tip: Option<MessageId>,
    recent_messages: VecDeque<KnownMessage>,
    turns: BTreeMap<TurnId, TurnState>,
    ended: VecDeque<EndedTurn>,
    requests: VecDeque<KnownRequest>,
    turn_count: u64,
    #[serde(default)]
    standing: Standing,
    /// The accounts that are kept of it.
    #[serde(default)]
    chronicles: BTreeSet<Box<str>>,
    /// In a snapshot: what those accounts have to remember.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    accounts: BTreeMap<Box<str>, Bytes>,
}

impl Session {
    /// A session of which nothing has happened yet.
    pub fn new(id: SessionId, limits: SessionLimits) -> Self {
        Self {
            id,
            limits,
            owner: None,
            agent: None,
            name: None,
            head: Position::default(),
            opened_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            participants: BTreeMap::new(),
            attachments: BTreeMap::new(),
            devices: BTreeMap::new(),
            tools: BTreeMap::new(),
            tools_revision: 0,
            tip: None,
            recent_messages: VecDeque::new(),
            turns: BTreeMap::new(),
            ended: VecDeque::new(),
            requests: VecDeque::new(),
            turn_count: 0,
            standing: Standing::Active,
            chronicles: BTreeSet::new(),
            accounts: BTreeMap::new(),
        }
    }

    /// The same state with what the accounts of it have to remember, to be stored as a snapshot.
    #[must_use]
    pub fn with_accounts(mut self, accounts: BTreeMap<Box<str>, Bytes>) -> Self {
        self.accounts = accounts;
        self
    }

    /// Takes out of a snapshot what the accounts have to remember.
    pub fn take_accounts(&mut self) -> BTreeMap<Box<str>, Bytes> {
        std::mem::take(&mut self.accounts)
    }

    /// The same state under other limits; needed after a snapshot, which does not carry them.
    #[must_use]
    pub fn with_limits(mut self, limits: SessionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Its identifier.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whose it is; none if it does not exist yet.
    pub const fn owner(&self) -> Option<&PrincipalId> {
        self.owner.as_ref()
    }

    /// The agent that serves turns which name no other.
    pub const fn agent(&self) -> Option<&AgentId> {
        self.agent.as_ref()
    }

    /// What the owner calls it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The place of the last event.
    pub const fn head(&self) -> Position {
        self.head
    }

    /// When it was opened.
    pub const fn opened_at(&self) -> Timestamp {
        self.opened_at
    }

    /// When something last happened that is more than a step of a turn under way.
    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// What it is to its owner.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// The accounts that are kept of it.
    pub fn chronicles(&self) -> impl Iterator<Item = &str> {
        self.chronicles.iter().map(|name| &**name)
    }

    /// The message from which the conversation goes on.
    pub const fn tip(&self) -> Option<&MessageId> {
        self.tip.as_ref()
    }

    /// How many turns were ever accepted.
    pub const fn turn_count(&self) -> u64 {
        self.turn_count
    }

    /// What `principal` may do here; none if it may not even know of the session.
    pub fn role_of(&self, principal: &PrincipalId) -> Option<Role> {
        if self.standing == Standing::Deleted {
            return None;
        }
        if self.owner.as_ref() == Some(principal) {
            return Some(Role::Owner);
        }
        self.participants.get(principal).copied()
    }

    /// What an actor may do here: by who it is, or as a device of which something is asked, or that keeps its
    /// profile here.
    pub fn role_of_actor(&self, actor: &Actor) -> Option<Role> {
        self.role_of(&actor.principal).filter(|_| actor.takes_part()).or_else(|| {
            let callsign = actor.callsign.as_ref().filter(|_| self.standing != Standing::Deleted)?;
            let keeps = self.owner.as_ref() == Some(&actor.principal) && self.devices.contains_key(callsign);
            (keeps || self.asks(callsign)).then_some(Role::Device)
        })
    }

    /// Whether something is asked of this device now.
    pub fn asks(&self, device: &Callsign) -> bool {
        self.turns.values().any(|turn| turn.concerns(device))
    }

    /// The device of this name that keeps its profile here, and whether it is connected.
    pub fn device(&self, callsign: &Callsign) -> Option<&DeviceState> {
        self.devices.get(callsign).map(|device| &**device)
    }

    /// The turns that have not ended.
    pub fn turns(&self) -> impl Iterator<Item = &TurnState> {
        self.turns.values()
    }

    /// One turn that has not ended.
    pub fn turn(&self, turn: &TurnId) -> Option<&TurnState> {
        self.turns.get(turn)
    }

    /// The tools that are registered.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values().map(|tool| &**tool)
    }

    /// Keeps definitions that equal these no second time: read from a snapshot, each session has its own.
    pub fn share_tools(&mut self, offered: &[Tool]) {
        for tool in offered {
            if let Some(known) = self.tools.get_mut(&tool.name).filter(|known| ***known == *tool) {
                **known = tool.clone();
            }
        }
    }

    /// Whether a key of this principal has led to a turn here, as far as the session remembers.
    pub fn knows_key(&self, principal: &PrincipalId, key: &str) -> bool {
        self.requests.iter().any(|known| known.principal == *principal && known.request.key == key)
    }

    /// Whether something goes on by itself: a turn, or an attachment that waits or is live.
    pub fn is_live(&self) -> bool {
        !self.turns.is_empty()
            || !self.attachments.is_empty()
            || self.devices.values().any(|device| device.left_at.is_none())
    }

    /// What a connection learns when it begins to follow the session.
    pub fn view(&self) -> SessionView {
        SessionView {
            head: self.head,
            tools: self.tools().cloned().collect(),
            tools_revision: self.tools_revision,
            turns: self.turns.values().map(TurnState::view).collect(),
            standing: self.standing,
            chronicles: BTreeMap::new(),
        }
    }

    /// What belongs to an attachment.
    pub fn attachment(&self, attachment: &AttachmentId) -> Option<AttachmentView> {
        let state = self.attachments.get(attachment)?;
        Some(AttachmentView {
            attachment: attachment.clone(),
            generation: state.generation,
            linked: state.linked.clone(),
            turns: self.turns_of(attachment),
            head: self.head,
        })
    }

    /// Whether an attachment waits for its client; none if there is no such attachment.
    pub fn is_detached(&self, attachment: &AttachmentId) -> Option<bool> {
        self.attachments.get(attachment).map(|known| known.detached_at.is_some())
    }
}

/// A turn that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnState {
    /// Which one.
    pub turn: TurnId,
    /// What it is asked to do.
    pub request: TurnRequest,
    /// Who serves it.
    pub agent: AgentId,
    /// The device that it is for.
    #[serde(default)]
    pub device: Option<Callsign>,
    /// Where it came from.
    pub origin: Origin,
    /// Whether it waits for other serial turns.
    pub serial: bool,
    /// Whether it waits until its client releases it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether its execution is never begun again.
    #[serde(default)]
    pub once: bool,
    /// What its agent is told beside what is asked.
    #[serde(default)]
    pub setting: Option<Box<Setting>>,
    /// After this it ends as expired.
    pub deadline: Timestamp,
    /// Opaque data of the client.
    pub meta: Value,
    /// The event that accepted it.
    pub accepted: Position,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The message that its input is to follow; none for the tip.
    pub after: Option<MessageId>,
    /// How many messages before its input the agent is shown; none for all.
    pub recall: Option<u32>,
    /// The folder in which the agent is to work.
    pub workspace: Option<Box<str>>,
    /// The names of its messages, where they were chosen by the client.
    #[serde(default)]
    pub names: Option<Box<Names>>,
    /// Whether its input is in the tree.
    pub placed: bool,
    /// The message that its answer follows.
    pub parent: Option<MessageId>,
    /// Whether a message follows its answer already.
    #[serde(default)]
    pub followed: bool,
    /// Its announced place in the queue.
    pub queued: Option<u32>,
    /// Who executes it.
    pub claim: Option<Claim>,
    /// How often it was claimed; the fence of the last claim.
    pub claims: u32,
    /// How many claims in a row have brought nothing new.
    #[serde(default)]
    pub barren_claims: u32,
    /// When its execution began.
    pub started_at: Option<Timestamp>,
    /// When its first output came.
    pub first_output_at: Option<Timestamp>,
    /// Its executor has let go of it until its calls are answered, and left what it needs to go on.
    #[serde(default)]
    pub suspended: bool,
    /// The answer's text so far.
    pub text: String,
    /// Calls that wait for their end.
    pub calls: BTreeMap<CallId, Arc<Call>>,
    /// When it was interrupted.
    pub interrupted_at: Option<Timestamp>,
}

impl TurnState {
    /// Where it is on its way.
    pub fn status(&self) -> TurnStatus {
        if self.interrupted_at.is_some() {
            TurnStatus::Stopping
        } else if self.claim.is_some() {
            if self.calls.is_empty() { TurnStatus::Running } else { TurnStatus::Waiting }
        } else if self.held {
            TurnStatus::Held
        } else if let Some(position) = self.queued {
            TurnStatus::Queued(position)
        } else {
            TurnStatus::Ready
        }
    }

    /// Whether it waits for whoever has this attachment to release it.
    pub(crate) fn is_held_by(&self, attachment: &AttachmentId) -> bool {
        self.held && self.origin.attachment.as_ref() == Some(attachment)
    }

    /// What its input is called.
    pub fn input(&self) -> MessageId {
        self.names
            .as_ref()
            .map_or_else(|| MessageId::input_of(&self.turn), |names| names.input_of(&self.turn))
    }

    /// What its answer is called.
    pub fn answer(&self) -> MessageId {
        let derived = || MessageId::answer_of(&self.turn);
        self.names.as_ref().map_or_else(derived, |names| names.answer_of(&self.turn))
    }

    /// Whether its answer is going to follow this message, or has begun to.
    pub(crate) fn is_answering(&self, message: &MessageId) -> bool {
        let comes = self.interrupted_at.is_none() || !self.text.is_empty();
        let chat = matches!(self.request, TurnRequest::Chat { .. });
        chat && comes && self.placed && self.parent.as_ref() == Some(message)
    }

    /// Whether something is asked of this device.
    pub(crate) fn concerns(&self, device: &Callsign) -> bool {
        let asked = |call: &Call| matches!(&call.executor, Executor::Device(asked) if asked == device);
        self.device.as_ref() == Some(device) || self.calls.values().any(|call| asked(call))
    }

    fn view(&self) -> TurnView {
        TurnView {
            turn: self.turn.clone(),
            origin: self.origin.clone(),
            accepted: self.accepted.seq,
            ended: None,
        }
    }
}

/// Where a turn is on its way.
///
/// ```text
/// accepted ─▶ Held ─ its client is gone ─┐
///    │         │ released                │
///    ▼         ▼                         ▼
/// Queued(n) ─▶ Ready ─claim─▶ Running   Queued(n) or Ready
///
///             Queued(n) ─▶ Ready ─claim─▶ Running ◀─▶ Waiting
///                │           ▲  │            │           │
///                │           └──┼─ released ─┤           │
///                ▼              ▼            ▼           ▼
///              ended ◀──────────┴──────── Stopping ◀─────┘    (or ended directly)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    /// Waits until its client releases it.
    Held,
    /// Waits for others, as this number from 1.
    Queued(u32),
    /// Waits for an executor.
    Ready,
    /// Is being executed.
    Running,
    /// Is being executed, and waits for a call or an answer.
    Waiting,
    /// Was interrupted; its executor is being stopped.
    Stopping,
}

/// What a connection learns about a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// The place of the last event.
    pub head: Position,
    /// The tools that are registered.
    pub tools: Vec<Tool>,
    /// Grows with each change of the tools.
    pub tools_revision: u64,
    /// The turns that have not ended.
    pub turns: Vec<TurnView>,
    /// What it is to its owner.
    pub standing: Standing,
    /// The accounts that are kept of it, by name, each as it stands at the head.
    pub chronicles: BTreeMap<Box<str>, Bytes>,
}

/// What a connection learns about an attachment that it opened or took over.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachmentView {
    /// Which one.
    pub attachment: AttachmentId,
    /// Counts take-overs.
    pub generation: u32,
    /// The other sessions in which it takes part.
    pub linked: Vec<SessionId>,
    /// Its turns in this session, recently ended ones included, in order of acceptance.
    pub turns: Vec<TurnView>,
    /// The place of the last event of this session.
    pub head: Position,
}

/// What a connection learns about a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnView {
    /// Which one.
    pub turn: TurnId,
    /// Where it came from.
    pub origin: Origin,
    /// Number of the event that accepted it.
    pub accepted: u64,
    /// Number of the event that ended it.
    pub ended: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Attachment {
    generation: u32,
    principal: PrincipalId,
    secret: Option<SecretHash>,
    window_ms: u64,
    /// When its transport was lost; none while it has one.
    detached_at: Option<Timestamp>,
    linked: Vec<SessionId>,
}

/// A device that keeps its profile in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// What it says of itself.
    pub device: Device,
    /// Whose device it is.
    pub principal: PrincipalId,
    /// When it enrolled last.
    pub joined_at: Timestamp,
    /// When it last had news of itself.
    pub reported_at: Timestamp,
    /// When its connection was gone; none while it has one.
    pub left_at: Option<Timestamp>,
    /// When its name became free for others; none while it is not.
    #[serde(default)]
    pub released_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EndedTurn {
    view: TurnView,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnownRequest {
    principal: PrincipalId,
    request: RequestKey,
    turn: TurnId,
    accepted: Position,
    at: Timestamp,
}

/// Messages that a session knows by heart; older ones are in the projection. Twice as many as the
/// longest history that a client tells.
const RECENT_MESSAGES: usize = 1024;
