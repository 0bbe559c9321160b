//! Rows derived from the log, written in the same transaction as the events, and rebuildable from
//! them by replaying a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chronicle::Record;
use crate::id::{AgentId, Callsign, MessageId, PrincipalId, SessionId, TurnId};
use crate::model::{Author, Committed, Event, Part, TurnOutcome};
use crate::session::{DeviceState, Session};
use crate::time::Timestamp;

/// One change of a projection: the row as it is now.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A turn.
    Turn(TurnRow),
    /// A message.
    Message(MessageRow),
    /// An idempotency key.
    Request(RequestRow),
    /// A device.
    Device(Box<DeviceRow>),
    /// What a message says from now on.
    Edited(EditedRow),
    /// A row of a chronicle.
    Chronicled(Record),
}

/// What a message says from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedRow {
    /// The session it belongs to.
    pub session: SessionId,
    /// Which one.
    pub message: MessageId,
    /// What it says.
    pub parts: Vec<Part>,
}

/// A session at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Which one.
    pub session: SessionId,
    /// Whose it is.
    pub owner: PrincipalId,
    /// The agent that serves it.
    pub agent: AgentId,
    /// What the owner calls it.
    pub name: Option<String>,
    /// Which history this is.
    pub epoch: u32,
    /// Number of the last event.
    pub head: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When something last happened that is more than a step of a turn under way: what comes in great
    /// numbers must not move the session to another place in every list.
    pub updated_at: Timestamp,
    /// How many turns were ever accepted.
    pub turns: u64,
    /// Whether a turn runs or an attachment is open; such sessions are looked after on start.
    pub live: bool,
}

/// A turn at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRow {
    /// The session it runs in.
    pub session: SessionId,
    /// Which one.
    pub turn: TurnId,
    /// Who serves it.
    pub agent: AgentId,
    /// Who asked.
    pub principal: PrincipalId,
    /// The protocol through which they did.
    pub protocol: String,
    /// `accepted`, `running`, `done`, `failed`, `interrupted` or `expired`.
    pub status: String,
    /// Number of the event that accepted it.
    pub accepted: u64,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When its execution began.
    pub started_at: Option<Timestamp>,
    /// Number of the event that ended it.
    pub ended: Option<u64>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A message of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRow {
    /// The session it belongs to.
    pub session: SessionId,
    /// Which one.
    pub message: MessageId,
    /// The one it follows.
    pub parent: Option<MessageId>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Who said it.
    pub author: Author,
    /// What was said.
    pub parts: Vec<Part>,
    /// Number of the event that completed it.
    pub seq: u64,
    /// When that was.
    pub at: Timestamp,
    /// Whether it is whole.
    pub status: MessageStatus,
}

/// Whether a message is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// It is.
    Complete,
    /// It was cut off.
    Partial,
}

/// An idempotency key and the turn that it led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    /// Whose key.
    pub principal: PrincipalId,
    /// The key.
    pub key: String,
    /// Digest of what was asked.
    pub digest: String,
    /// The session of the turn.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Which history of the session.
    pub epoch: u32,
    /// Number of the event that accepted the turn.
    pub accepted: u64,
    /// When that was.
    pub at: Timestamp,
}

/// A device, connected or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// The name under which it enrols.
    pub device: Callsign,
    /// Whose device it is.
    pub principal: PrincipalId,
    /// The session that keeps its profile.
    pub session: SessionId,
    /// The protocol that it speaks.
    pub protocol: String,
    /// The kind of system that it runs on, in its own words.
    pub platform: String,
    /// What it found out about itself.
    pub facts: Value,
    /// What else it said when it enrolled.
    pub profile: Value,
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

impl DeviceRow {
    /// Whether others may enrol under its name.
    pub const fn is_released(&self) -> bool {
        self.released_at.is_some()
    }
}

impl Session {
    /// The session at a glance; none if it does not exist yet.
    pub fn summary(&self) -> Option<SessionRow> {
        Some(SessionRow {
            session: self.id().clone(),
            owner: self.owner()?.clone(),
            agent: self.agent()?.clone(),
            name: self.name().map(str::to_owned),
            epoch: self.head().epoch,
            head: self.head().seq,
            opened_at: self.opened_at(),
            updated_at: self.updated_at(),
            turns: self.turn_count(),
            live: self.is_live(),
        })
    }
}

/// The rows that `committed` changes; `before` is the session just before it is applied.
pub fn rows(before: &Session, committed: &Committed) -> Vec<Row> {
    let (seq, at) = (committed.position.seq, committed.at);
    match &committed.event {
        Event::MessageAdded { message } => vec![Row::Message(MessageRow {
            session: before.id().clone(),
            message: message.id.clone(),
            parent: message.parent.clone(),
            turn: message.turn.clone(),
            author: message.author.clone(),
            parts: message.parts.clone(),
            seq,
            at,
            status: MessageStatus::Complete,
        })],
        Event::MessageEdited { message, parts } => vec![Row::Edited(EditedRow {
            session: before.id().clone(),
            message: message.clone(),
            parts: parts.clone(),
        })],
        Event::TurnAccepted { turn, agent, origin, key, .. } => {
            let mut rows = vec![Row::Turn(TurnRow {
                session: before.id().clone(),
                turn: turn.clone(),
                agent: agent.clone(),
                principal: origin.principal.clone(),
                protocol: origin.protocol.clone(),
                status: "accepted".into(),
                accepted: seq,
                accepted_at: at,
                started_at: None,
                ended: None,
                ended_at: None,
            })];
            if let Some(key) = key {
                rows.push(Row::Request(RequestRow {
                    principal: origin.principal.clone(),
                    key: key.key.clone(),
                    digest: key.digest.clone(),
                    session: before.id().clone(),
                    turn: turn.clone(),
                    epoch: committed.position.epoch,
                    accepted: seq,
                    at,
                }));
            }
            rows
        }
        Event::TurnStarted { turn, .. } => {
            let Some(mut row) = turn_row(before, turn) else { return Vec::new() };
            row.status = "running".into();
            row.started_at.get_or_insert(at);
            vec![Row::Turn(row)]
        }
        Event::TurnReleased { turn, .. } => turn_row(before, turn).map(Row::Turn).into_iter().collect(),
        Event::TurnEnded { turn, end } => {
            let Some(mut row) = turn_row(before, turn) else { return Vec::new() };
            let (status, whole) = match &end.outcome {
                TurnOutcome::Done(_) => ("done", MessageStatus::Complete),
                TurnOutcome::Failed(_) => ("failed", MessageStatus::Partial),
                TurnOutcome::Interrupted { .. } => ("interrupted", MessageStatus::Partial),
                TurnOutcome::Expired => ("expired", MessageStatus::Partial),
            };
            row.status = status.into();
            row.ended = Some(seq);
            row.ended_at = Some(at);
            let mut rows = vec![Row::Turn(row)];
            // One without a word is stored where something follows it: the way back must not end there.
            if let Some(state) = before.turn(turn)
                && (!state.text.is_empty() || state.followed)
            {
                let said = (!state.text.is_empty()).then(|| Part::Text(state.text.clone()));
                rows.push(Row::Message(MessageRow {
                    session: before.id().clone(),
                    message: state.answer(),
                    parent: state.parent.clone(),
                    turn: turn.clone(),
                    author: Author::Agent(state.agent.clone()),
                    parts: said.into_iter().collect(),
                    seq,
                    at,
                    status: whole,
                }));
            }
            rows
        }
        Event::DeviceJoined { principal, device } => {
            vec![Row::Device(Box::new(DeviceRow {
                device: device.callsign.clone(),
                principal: principal.clone(),
                session: before.id().clone(),
                protocol: device.protocol.clone(),
                platform: device.platform.clone(),
                facts: device.facts.clone(),
                profile: device.profile.clone(),
                joined_at: at,
                reported_at: at,
                left_at: None,
                released_at: None,
            }))]
        }
        Event::DeviceReported { device, facts } => {
            let Some(mut row) = device_row(before, device) else { return Vec::new() };
            row.facts = (**facts).clone();
            row.reported_at = at;
            vec![Row::Device(Box::new(row))]
        }
        Event::DeviceLeft { device } => {
            let Some(mut row) = device_row(before, device) else { return Vec::new() };
            row.left_at = Some(at);
            vec![Row::Device(Box::new(row))]
        }
        Event::DeviceReleased { device, by: _ } => {
            let Some(mut row) = device_row(before, device) else { return Vec::new() };
            row.released_at = Some(at);
            vec![Row::Device(Box::new(row))]
        }
        Event::SessionOpened { .. }
        | Event::ParticipantJoined { .. }
        | Event::ParticipantLeft { .. }
        | Event::AttachmentOpened { .. }
        | Event::AttachmentLinked { .. }
        | Event::AttachmentDetached { .. }
        | Event::AttachmentClosed { .. }
        | Event::ToolsChanged { .. }
        | Event::TipMoved { .. }
        | Event::SessionRenamed { .. }
        | Event::StandingChanged { .. }
        | Event::ChronicleBegun { .. }
        | Event::Recorded { .. }
        | Event::TurnQueued { .. }
        | Event::TurnOutput { .. }
        | Event::CallRequested { .. }
        | Event::CallProgress { .. }
        | Event::CallEnded { .. }
        | Event::TurnInterrupted { .. } => Vec::new(),
    }
}

fn device_row(before: &Session, device: &Callsign) -> Option<DeviceRow> {
    let DeviceState { device, principal, joined_at, reported_at, left_at, released_at } =
        before.device(device)?;
    Some(DeviceRow {
        device: device.callsign.clone(),
        principal: principal.clone(),
        session: before.id().clone(),
        protocol: device.protocol.clone(),
        platform: device.platform.clone(),
        facts: device.facts.clone(),
        profile: device.profile.clone(),
        joined_at: *joined_at,
        reported_at: *reported_at,
        left_at: *left_at,
        released_at: *released_at,
    })
}

fn turn_row(before: &Session, turn: &TurnId) -> Option<TurnRow> {
    let state = before.turn(turn)?;
    Some(TurnRow {
        session: before.id().clone(),
        turn: turn.clone(),
        agent: state.agent.clone(),
        principal: state.origin.principal.clone(),
        protocol: state.origin.protocol.clone(),
        status: "accepted".into(),
        accepted: state.accepted.seq,
        accepted_at: state.accepted_at,
        started_at: state.started_at,
        ended: None,
        ended_at: None,
    })
}
