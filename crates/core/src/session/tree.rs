//! The message tree: where messages stand, and what is done to it without a turn. Beside it, what
//! owners and protocols note about a session.

use serde_json::Value;

use crate::id::{MessageId, TurnId};
use crate::model::{
    Actor, Author, Event, Import, Message, Names, NewTurn, Op, Parent, Part, Standing, Voice,
};
use crate::principal::Role;
use crate::reject::Reject;
use crate::session::{Decision, Session};
use crate::time::Timestamp;

impl Session {
    /// The message on which an op relies although the session does not know it by heart. Whoever can
    /// look it up in the log may vouch for it, with [`Session::decide_knowing`].
    pub fn relies_on<'a>(&self, op: &'a Op) -> Option<&'a MessageId> {
        let message = if let Op::StartTurn(new) = op {
            match (&new.place.names, &new.place.parent) {
                (Names { again: true, input: Some(message), .. }, _) | (_, Parent::Message(message)) => {
                    message
                }
                (_, Parent::Tip | Parent::Root) => return None,
            }
        } else if let Op::Import(import) = op {
            let Parent::Message(message) = &import.parent else { return None };
            message
        } else if let Op::Edit { message, .. } | Op::MoveTip { tip: message } = op {
            message
        } else {
            return None;
        };
        (!self.knows(message) && !self.is_being_written(message)).then_some(message)
    }

    /// Whether a message is in the tree, as far as the session remembers.
    fn knows(&self, message: &MessageId) -> bool {
        self.recent_messages.iter().rev().any(|known| known.id == *message)
    }

    /// Whether a message is the answer of a turn that has not ended.
    fn is_being_written(&self, message: &MessageId) -> bool {
        self.turns.values().any(|turn| turn.answer() == *message)
    }

    fn check_known(&self, message: &MessageId, vouched: &[MessageId]) -> Result<(), Reject> {
        if self.knows(message) || vouched.contains(message) {
            return Ok(());
        }
        Err(Reject::UnknownMessage(message.clone()))
    }

    fn check_new(&self, message: &MessageId) -> Result<(), Reject> {
        if self.knows(message) || self.is_being_written(message) {
            return Err(Reject::DuplicateMessage(message.clone()));
        }
        Ok(())
    }

    /// Whether the messages of a turn can stand where they are to stand.
    pub(super) fn check_place(&self, new: &NewTurn, vouched: &[MessageId]) -> Result<(), Reject> {
        let Names { input, answer, again } = &new.place.names;
        for name in input.iter().filter(|_| !again).chain(answer) {
            self.check_new(name)?;
        }
        let about = match (&new.place.parent, again) {
            (_, true) => input.as_ref().ok_or_else(|| Reject::Invalid("which message, again?".into()))?,
            (Parent::Message(parent), false) => parent,
            (Parent::Tip | Parent::Root, false) => return Ok(()),
        };
        // What is stopped in favour of the turn will be in the tree as soon as it has come to rest.
        if new.place.supersedes && self.is_being_written(about) {
            return Ok(());
        }
        self.check_known(about, vouched)
    }

    /// Stops every turn that has not ended, in favour of one that is about to be accepted.
    pub(super) fn supersede(
        &self,
        actor: &Actor,
        now: Timestamp,
        gone: &mut Vec<TurnId>,
        events: &mut Vec<Event>,
    ) {
        for turn in self.turns.values() {
            if Self::stop_turn(turn, Some(&actor.principal), Some(SUPERSEDED), now, events) {
                gone.push(turn.turn.clone());
            }
        }
    }

    /// The message that a new one follows. What a turn has said that is being stopped enters the tree
    /// when it has come to rest, but can be followed at once.
    pub(super) fn parent_in(&self, parent: &Parent, superseding: bool) -> Option<MessageId> {
        match parent {
            Parent::Root => None,
            Parent::Message(message) => {
                let silent =
                    self.turns.values().find(|turn| turn.answer() == *message && turn.text.is_empty());
                match silent {
                    Some(turn) => turn.parent.clone(),
                    None => Some(message.clone()),
                }
            }
            Parent::Tip => {
                let last = self.turns.values().filter(|_| superseding).max_by_key(|turn| turn.accepted.seq);
                match last {
                    Some(turn) if !turn.text.is_empty() => Some(turn.answer()),
                    Some(_) | None => self.tip.clone(),
                }
            }
        }
    }

    /// The message that one follows which comes without a turn. It disturbs no answer under way, and stands
    /// behind it: beside it, it would leave the active path as soon as the answer is there.
    fn parent_of_import(&self, parent: &Parent) -> Option<MessageId> {
        match parent {
            Parent::Root => None,
            Parent::Message(message) => Some(message.clone()),
            Parent::Tip => {
                let tip = self.tip.as_ref()?;
                let answering = self.turns.values().filter(|turn| turn.is_answering(tip));
                let latest = answering.max_by_key(|turn| turn.accepted.seq);
                Some(latest.map_or_else(|| tip.clone(), |turn| turn.answer()))
            }
        }
    }

    pub(super) fn decide_import(
        &self,
        actor: &Actor,
        role: Role,
        import: &Import,
        vouched: &[MessageId],
    ) -> Result<Decision, Reject> {
        self.check_change(role, import.text.len())?;
        self.check_new(&import.id)?;
        if let Parent::Message(parent) = &import.parent
            && !self.is_being_written(parent)
        {
            self.check_known(parent, vouched)?;
        }
        let message = Message {
            id: import.id.clone(),
            parent: self.parent_of_import(&import.parent),
            author: match import.voice {
                Voice::User => Author::User(actor.principal.clone()),
                Voice::Agent => Author::Agent(self.agent.clone().ok_or(Reject::NotFound)?),
                Voice::System => Author::System,
            },
            parts: vec![Part::Text(import.text.clone())],
            turn: TurnId::new(format!("{}.import", import.id)),
            meta: import.meta.clone(),
        };
        Ok(self.decision(vec![Event::MessageAdded { message: Box::new(message) }]))
    }

    pub(super) fn decide_edit(
        &self,
        role: Role,
        message: &MessageId,
        parts: &[Part],
        vouched: &[MessageId],
    ) -> Result<Decision, Reject> {
        self.check_change(role, parts.iter().map(Part::size).sum())?;
        if self.is_being_written(message) {
            return Err(Reject::Invalid("the message is still being written".into()));
        }
        self.check_known(message, vouched)?;
        Ok(self.decision(vec![Event::MessageEdited { message: message.clone(), parts: parts.to_vec() }]))
    }

    pub(super) fn decide_move_tip(
        &self,
        role: Role,
        tip: &MessageId,
        vouched: &[MessageId],
    ) -> Result<Decision, Reject> {
        self.check_change(role, 0)?;
        self.check_known(tip, vouched)?;
        let moved = self.tip.as_ref() != Some(tip);
        Ok(self.decision(if moved { vec![Event::TipMoved { tip: tip.clone() }] } else { Vec::new() }))
    }

    pub(super) fn decide_rename(&self, role: Role, name: &str) -> Result<Decision, Reject> {
        if role != Role::Owner {
            return Err(Reject::Forbidden);
        }
        self.check_change(role, name.len())?;
        let renamed = self.name() != Some(name);
        let event = || Event::SessionRenamed { name: name.to_owned() };
        Ok(self.decision(if renamed { vec![event()] } else { Vec::new() }))
    }

    pub(super) fn decide_stand(
        &self,
        actor: &Actor,
        role: Role,
        standing: Standing,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        if role != Role::Owner {
            return Err(Reject::Forbidden);
        }
        if standing == self.standing {
            return Ok(self.decision(Vec::new()));
        }
        let (mut events, mut gone) = (Vec::new(), Vec::new());
        if !standing.is_active() {
            for turn in self.turns.values() {
                if Self::stop_turn(turn, Some(&actor.principal), Some(standing.reason()), now, &mut events) {
                    gone.push(turn.turn.clone());
                }
            }
            self.requeue(&gone, &mut events);
        }
        events.push(Event::StandingChanged { standing });
        Ok(self.decision(events))
    }

    pub(super) fn decide_chronicle(&self, role: Role, chronicle: &str) -> Result<Decision, Reject> {
        if !role.may_submit() && role != Role::Observer {
            return Err(Reject::Forbidden);
        }
        let begun = self.chronicles.contains(chronicle);
        let event = || Event::ChronicleBegun { chronicle: chronicle.into() };
        Ok(self.decision(if begun { Vec::new() } else { vec![event()] }))
    }

    pub(super) fn decide_record(
        &self,
        actor: &Actor,
        role: Role,
        chronicle: &str,
        record: &Value,
    ) -> Result<Decision, Reject> {
        self.check_change(role, record.to_string().len())?;
        if !self.chronicles.contains(chronicle) {
            return Err(Reject::Invalid(format!("no such account is kept: {chronicle}")));
        }
        Ok(self.decision(vec![Event::Recorded {
            chronicle: chronicle.into(),
            by: actor.principal.clone(),
            record: Box::new(record.clone()),
        }]))
    }

    fn check_change(&self, role: Role, bytes: usize) -> Result<(), Reject> {
        if !role.may_submit() && role != Role::Agent {
            return Err(Reject::Forbidden);
        }
        if !self.standing.is_active() {
            return Err(Reject::Inactive);
        }
        if bytes > self.limits.record_bytes {
            return Err(Reject::Limit { what: "record_bytes" });
        }
        Ok(())
    }
}

/// Why a turn is stopped when the next one must not wait for it.
const SUPERSEDED: &str = "superseded";
