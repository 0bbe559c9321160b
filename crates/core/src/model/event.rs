//! What happened: the only thing that is ever stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{
    AgentId, AttachmentId, CallId, Callsign, MessageId, PrincipalId, SessionId, ToolName, TurnId,
};
use crate::model::{
    Call, CallEnd, Claim, Device, Executor, Message, Names, Origin, Output, Part, RequestKey, SecretHash,
    Setting, Standing, Tool, TurnEnd, TurnRequest,
};
use crate::position::Position;
use crate::principal::Role;
use crate::time::Timestamp;

/// An event with its place in the log and the time at which it was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Its place; dense per session.
    pub position: Position,
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// A committed fact of one session. What is large and rare is boxed: most events are small pieces of
/// output, and each is moved a few times on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The session came to be; always the first event.
    SessionOpened {
        /// Whose it is.
        owner: PrincipalId,
        /// Which history this is; part of every position.
        epoch: u32,
        /// The agent that serves turns which name no other.
        agent: AgentId,
        /// What the owner calls it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A participant may now take part, or has a new role.
    ParticipantJoined {
        /// Who.
        principal: PrincipalId,
        /// As what.
        role: Role,
    },
    /// A participant may no longer take part.
    ParticipantLeft {
        /// Who.
        principal: PrincipalId,
    },
    /// A client attached in a way that survives a dropped transport; repeated with a higher
    /// generation when a newer transport takes it over.
    AttachmentOpened {
        /// Which attachment.
        attachment: AttachmentId,
        /// Counts take-overs; the transport with an older one has lost it.
        generation: u32,
        /// Whose it is.
        principal: PrincipalId,
        /// Digest of the secret that the next take-over must show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<SecretHash>,
        /// How long it lives without a transport, in milliseconds.
        window_ms: u64,
    },
    /// The attachment also takes part in another session; recorded in its home session only.
    AttachmentLinked {
        /// Which attachment.
        attachment: AttachmentId,
        /// The other session.
        session: SessionId,
    },
    /// The attachment lost its transport.
    AttachmentDetached {
        /// Which attachment.
        attachment: AttachmentId,
        /// The transport that was lost; an older one than the current does not count.
        generation: u32,
    },
    /// The attachment is over; its turns are interrupted.
    AttachmentClosed {
        /// Which attachment.
        attachment: AttachmentId,
    },
    /// A device is enrolled and keeps its profile in this session.
    DeviceJoined {
        /// Whose device it is.
        principal: PrincipalId,
        /// What it says of itself.
        device: Box<Device>,
    },
    /// A device of this session has news of itself.
    DeviceReported {
        /// The device.
        device: Callsign,
        /// What it says of itself now.
        facts: Box<Value>,
    },
    /// The connection of a device of this session is gone.
    DeviceLeft {
        /// The device.
        device: Callsign,
    },
    /// The name of a device of this session is free for others, until the device enrols again.
    DeviceReleased {
        /// The device.
        device: Callsign,
        /// The administrator who released it.
        by: PrincipalId,
    },
    /// The tools of the session changed.
    ToolsChanged {
        /// Grows by one with each change.
        revision: u64,
        /// New tools, and new definitions of known ones.
        added: Vec<Tool>,
        /// Tools that are gone.
        removed: Vec<ToolName>,
        /// The turn that found them, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
    },
    /// A message was put into the tree.
    MessageAdded {
        /// The message.
        message: Box<Message>,
    },
    /// What an agent had said was put right.
    MessageEdited {
        /// Which message.
        message: MessageId,
        /// What it says now.
        parts: Vec<Part>,
    },
    /// The conversation goes on from another message than the last.
    TipMoved {
        /// From this one.
        tip: MessageId,
    },
    /// The owner calls the session something else.
    SessionRenamed {
        /// What.
        name: String,
    },
    /// The owner put the session away, took it up again, or wants it gone.
    StandingChanged {
        /// What it is now.
        standing: Standing,
    },
    /// A protocol keeps an account of this session from here on, in tables of its own; the account
    /// begins with the session.
    ChronicleBegun {
        /// Which account.
        chronicle: Box<str>,
    },
    /// Something was noted that means something to one account of the session only.
    Recorded {
        /// Which account.
        chronicle: Box<str>,
        /// By whom.
        by: PrincipalId,
        /// What; the account's own business.
        record: Box<Value>,
    },
    /// A turn was accepted; it will have exactly one [`Event::TurnEnded`].
    TurnAccepted {
        /// Which turn.
        turn: TurnId,
        /// What it is asked to do.
        request: Box<TurnRequest>,
        /// Who serves it.
        agent: AgentId,
        /// The device that it is for, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Callsign>,
        /// Where it came from.
        origin: Box<Origin>,
        /// Serial turns of a session run one after another.
        serial: bool,
        /// It does not begin before it is released.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
        /// Its execution is never begun again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        once: bool,
        /// What the agent is told beside what is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setting: Option<Box<Setting>>,
        /// After this it ends as expired.
        deadline: Timestamp,
        /// The message that its input follows; none for the tip.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<MessageId>,
        /// The names of its messages, where they were chosen by the client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        names: Option<Box<Names>>,
        /// How many messages before its input the agent is shown; none for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recall: Option<u32>,
        /// The folder in which the agent is to work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<Box<str>>,
        /// Makes a repetition harmless.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Box<RequestKey>>,
        /// Opaque data of the client, handed to the agent.
        #[serde(default, skip_serializing_if = "is_null")]
        meta: Box<Value>,
    },
    /// The turn waits, as number `position` from 1; repeated whenever that changes.
    TurnQueued {
        /// Which turn.
        turn: TurnId,
        /// Its place in the queue.
        position: u32,
    },
    /// An executor claimed the turn and began.
    TurnStarted {
        /// Which turn.
        turn: TurnId,
        /// By whom.
        claim: Claim,
    },
    /// The turn is offered to executors: again, since its executor was lost before any output, or at last, since its
    /// client holds it back no longer.
    TurnReleased {
        /// Which turn.
        turn: TurnId,
        /// After this it ends as expired; only of a turn that was held back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
    },
    /// The executor produced output.
    TurnOutput {
        /// Which turn.
        turn: TurnId,
        /// What it produced.
        output: Output,
    },
    /// The turn asks for something and waits.
    CallRequested {
        /// Which turn.
        turn: TurnId,
        /// What it asks.
        call: Arc<Call>,
    },
    /// A call reports progress.
    CallProgress {
        /// Which turn.
        turn: TurnId,
        /// Which call.
        call: CallId,
        /// A piece of output.
        delta: String,
    },
    /// A call ended.
    CallEnded {
        /// Which turn.
        turn: TurnId,
        /// Which call.
        call: CallId,
        /// How.
        end: CallEnd,
    },
    /// Somebody stopped the turn; nothing of it follows but its end.
    TurnInterrupted {
        /// Which turn.
        turn: TurnId,
        /// Who stopped it; none when the server did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<PrincipalId>,
        /// Why, in the words of whoever stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The one end of a turn.
    TurnEnded {
        /// Which turn.
        turn: TurnId,
        /// How it ended.
        end: Box<TurnEnd>,
    },
}

impl Event {
    /// The turn that this event is about.
    pub const fn turn(&self) -> Option<&TurnId> {
        match self {
            Self::TurnAccepted { turn, .. }
            | Self::TurnQueued { turn, .. }
            | Self::TurnStarted { turn, .. }
            | Self::TurnReleased { turn, .. }
            | Self::TurnOutput { turn, .. }
            | Self::CallRequested { turn, .. }
            | Self::CallProgress { turn, .. }
            | Self::CallEnded { turn, .. }
            | Self::TurnInterrupted { turn, .. }
            | Self::TurnEnded { turn, .. } => Some(turn),
            Self::ToolsChanged { turn, .. } => turn.as_ref(),
            Self::MessageAdded { message } => Some(&message.turn),
            Self::SessionOpened { .. }
            | Self::ParticipantJoined { .. }
            | Self::ParticipantLeft { .. }
            | Self::AttachmentOpened { .. }
            | Self::AttachmentLinked { .. }
            | Self::AttachmentDetached { .. }
            | Self::AttachmentClosed { .. }
            | Self::DeviceJoined { .. }
            | Self::DeviceReported { .. }
            | Self::DeviceLeft { .. }
            | Self::DeviceReleased { .. }
            | Self::MessageEdited { .. }
            | Self::TipMoved { .. }
            | Self::SessionRenamed { .. }
            | Self::StandingChanged { .. }
            | Self::ChronicleBegun { .. }
            | Self::Recorded { .. } => None,
        }
    }

    /// What the event means to whoever lets agents execute the session's turns.
    pub const fn for_executor(&self) -> Option<ForExecutor<'_>> {
        match self {
            // A turn that was held back begins; with what is claimed in the same batch, its executor has begun, too.
            Self::TurnAccepted { .. } | Self::TurnReleased { deadline: Some(_), .. } => {
                Some(ForExecutor::Accepted)
            }
            Self::TurnReleased { turn, deadline: None } => Some(ForExecutor::Over { turn, end: None }),
            Self::TurnEnded { turn, end } => Some(ForExecutor::Over { turn, end: Some(end) }),
            Self::TurnInterrupted { turn, reason, .. } => {
                Some(ForExecutor::Stop { turn, reason: reason.as_ref() })
            }
            Self::CallEnded { turn, call, end } => Some(ForExecutor::Answer { turn, call, end }),
            Self::SessionOpened { .. }
            | Self::ParticipantJoined { .. }
            | Self::ParticipantLeft { .. }
            | Self::AttachmentOpened { .. }
            | Self::AttachmentLinked { .. }
            | Self::AttachmentDetached { .. }
            | Self::AttachmentClosed { .. }
            | Self::DeviceJoined { .. }
            | Self::DeviceReported { .. }
            | Self::DeviceLeft { .. }
            | Self::DeviceReleased { .. }
            | Self::ToolsChanged { .. }
            | Self::MessageAdded { .. }
            | Self::MessageEdited { .. }
            | Self::TipMoved { .. }
            | Self::SessionRenamed { .. }
            | Self::StandingChanged { .. }
            | Self::ChronicleBegun { .. }
            | Self::Recorded { .. }
            | Self::TurnQueued { .. }
            | Self::TurnStarted { .. }
            | Self::TurnOutput { .. }
            | Self::CallRequested { .. }
            | Self::CallProgress { .. } => None,
        }
    }

    /// Whether it is only a step of a turn under way.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::TurnOutput { .. }
                | Self::CallRequested { .. }
                | Self::CallProgress { .. }
                | Self::CallEnded { .. }
        )
    }

    /// The device that has to hear of this event's session, since something is asked of it.
    pub fn device(&self) -> Option<&Callsign> {
        match self {
            Self::TurnAccepted { device, .. } => device.as_ref(),
            Self::CallRequested { call, .. } => match &call.executor {
                Executor::Device(device) => Some(device),
                Executor::Agent | Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => None,
            },
            Self::SessionOpened { .. }
            | Self::ParticipantJoined { .. }
            | Self::ParticipantLeft { .. }
            | Self::AttachmentOpened { .. }
            | Self::AttachmentLinked { .. }
            | Self::AttachmentDetached { .. }
            | Self::AttachmentClosed { .. }
            | Self::DeviceJoined { .. }
            | Self::DeviceReported { .. }
            | Self::DeviceLeft { .. }
            | Self::DeviceReleased { .. }
            | Self::ToolsChanged { .. }
            | Self::MessageAdded { .. }
            | Self::MessageEdited { .. }
            | Self::TipMoved { .. }
            | Self::SessionRenamed { .. }
            | Self::StandingChanged { .. }
            | Self::ChronicleBegun { .. }
            | Self::Recorded { .. }
            | Self::TurnQueued { .. }
            | Self::TurnStarted { .. }
            | Self::TurnReleased { .. }
            | Self::TurnOutput { .. }
            | Self::CallProgress { .. }
            | Self::CallEnded { .. }
            | Self::TurnInterrupted { .. }
            | Self::TurnEnded { .. } => None,
        }
    }

    /// The name under which the event is stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SessionOpened { .. } => "session_opened",
            Self::ParticipantJoined { .. } => "participant_joined",
            Self::ParticipantLeft { .. } => "participant_left",
            Self::AttachmentOpened { .. } => "attachment_opened",
            Self::AttachmentLinked { .. } => "attachment_linked",
            Self::AttachmentDetached { .. } => "attachment_detached",
            Self::AttachmentClosed { .. } => "attachment_closed",
            Self::DeviceJoined { .. } => "device_joined",
            Self::DeviceReported { .. } => "device_reported",
            Self::DeviceLeft { .. } => "device_left",
            Self::DeviceReleased { .. } => "device_released",
            Self::ToolsChanged { .. } => "tools_changed",
            Self::MessageAdded { .. } => "message_added",
            Self::MessageEdited { .. } => "message_edited",
            Self::TipMoved { .. } => "tip_moved",
            Self::SessionRenamed { .. } => "session_renamed",
            Self::StandingChanged { .. } => "standing_changed",
            Self::ChronicleBegun { .. } => "chronicle_begun",
            Self::Recorded { .. } => "recorded",
            Self::TurnAccepted { .. } => "turn_accepted",
            Self::TurnQueued { .. } => "turn_queued",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnReleased { .. } => "turn_released",
            Self::TurnOutput { .. } => "turn_output",
            Self::CallRequested { .. } => "call_requested",
            Self::CallProgress { .. } => "call_progress",
            Self::CallEnded { .. } => "call_ended",
            Self::TurnInterrupted { .. } => "turn_interrupted",
            Self::TurnEnded { .. } => "turn_ended",
        }
    }
}

/// What an event means to whoever lets agents execute the turns of its session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ForExecutor<'a> {
    /// There is a new turn, which may be ready to start.
    Accepted,
    /// The run of a turn is over; this turn, or one that waited for it, may be ready to start.
    Over {
        /// Which turn.
        turn: &'a TurnId,
        /// How the turn ended; none if it is offered again.
        end: Option<&'a TurnEnd>,
    },
    /// The agent has to stop.
    Stop {
        /// Which turn.
        turn: &'a TurnId,
        /// Why, in the words of whoever stopped it.
        reason: Option<&'a String>,
    },
    /// What the agent has asked for is there.
    Answer {
        /// Which turn.
        turn: &'a TurnId,
        /// Which call.
        call: &'a CallId,
        /// How it ended.
        end: &'a CallEnd,
    },
}

#[expect(clippy::borrowed_box, reason = "serde hands over what the field holds")]
fn is_null(meta: &Box<Value>) -> bool {
    meta.is_null()
}
