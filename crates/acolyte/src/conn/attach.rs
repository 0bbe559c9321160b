//! `chat.attach`: a task is followed again, or watched, from a position. Ours; known to clients that
//! offer `task.resume`.

use switchboard_core::{
    AttachmentId, AttachmentView, Op, Output, Position, SessionId, SessionView, TurnId, TurnRow, TurnView,
};

use super::{AcolyteConnection, Chat, Link, Pending};
use crate::error::words;
use crate::map::Rendering;
use crate::message::{Attach, RESUME, RpcId, ServerMessage, TaskId};
use crate::state::ChatState;

/// A task that is to be followed.
#[derive(Debug)]
pub(super) struct Attaching {
    task: Option<TaskId>,
    session: SessionId,
    after: u64,
}

impl AcolyteConnection {
    /// Whether the client can come back to a task.
    pub(super) fn may_resume(&self) -> bool {
        self.agreed.has(RESUME)
    }

    pub(super) fn attach(&mut self, id: RpcId, attach: Attach) {
        if let Some(version) = &self.refused_version {
            let why = super::unary::unsupported(version);
            return self.refuse(&id, why);
        }
        if self.chats.contains_key(&id) || self.attaching.contains_key(&id) {
            return self.refuse(&id, format!("Chat request already running for id: {id}"));
        }
        let attached = self.chats.values().filter(|chat| !chat.own).count() + self.attaching.len();
        if attached >= self.limits.attached as usize {
            return self.refuse(&id, format!("{attached} tasks are attached already"));
        }
        let session = self.session_of(attach.session.as_deref(), attach.task.as_ref());
        let Attach { task, after, .. } = attach;
        let attaching = Attaching { task: task.clone(), session: session.clone(), after };
        self.attaching.insert(id.clone(), attaching);
        match task {
            Some(task) => {
                let attachment = AttachmentId::from(task.as_str());
                let op = Op::TakeOver { attachment, secret: None, next_secret: None };
                self.submit(&session, op, Pending::TakeOver(id));
            }
            None => self.follow_for(id, &session),
        }
    }

    /// The session of a task, by the name that the client has for it.
    pub(super) fn session_of(&self, name: Option<&str>, task: Option<&TaskId>) -> SessionId {
        match (name, task) {
            // May be somebody else's that was shared.
            (Some(name), _) if SessionId::is_canonical(name) => SessionId::from(name),
            (Some(name), _) => SessionId::named(&self.principal, name),
            (None, Some(task)) => self.anonymous(task),
            (None, None) => SessionId::named(&self.principal, ""),
        }
    }

    pub(super) fn taken_over(&mut self, id: &RpcId, view: &AttachmentView) {
        let Some(attaching) = self.attaching.remove(id) else { return };
        let session = attaching.session.clone();
        let link = Link { attachment: view.attachment.clone(), generation: view.generation };
        let task = attaching.task.as_ref();
        let Some(turn) = view.turns.iter().find(|turn| task.is_some_and(|task| task.turn() == turn.turn))
        else {
            // Its turn was never taken: there is nothing to wait for.
            let Link { attachment, generation } = link;
            self.submit(&session, Op::CloseAttachment { attachment, generation }, Pending::Nothing);
            return self.refuse(id, words::NO_TASK);
        };
        let from = Position { epoch: view.head.epoch, seq: turn.accepted.saturating_sub(1) };
        self.attached(id, attaching, &turn.turn, from, Some(link));
    }

    /// Not a task of this protocol that waits for its client, but it may be watched.
    pub(super) fn not_taken_over(&mut self, id: &RpcId) {
        if let Some(attaching) = self.attaching.get(id) {
            let session = attaching.session.clone();
            self.follow_for(id.clone(), &session);
        }
    }

    pub(super) fn watched(&mut self, id: &RpcId, from: Option<Position>, view: &SessionView) {
        let Some(attaching) = self.attaching.get(id) else { return };
        let (session, task) = (attaching.session.clone(), attaching.task.clone());
        self.following(&session, from, view);
        let wanted = |turn: &&TurnView| task.as_ref().is_none_or(|task| TaskId::of(&turn.turn) == *task);
        let turn = view.turns.iter().filter(wanted).min_by_key(|turn| turn.accepted);
        match (turn, task) {
            (Some(turn), _) => self.attach_to(id, &turn.turn, turn.accepted),
            // It may be over, and its end not have reached the client.
            (None, Some(task)) => {
                let request = self.request(Pending::Trace(id.clone()));
                self.out.push_back(Output::Find(request, session, task.turn()));
            }
            (None, None) => self.not_watched(id),
        }
    }

    pub(super) fn traced(&mut self, id: &RpcId, row: Option<&TurnRow>) {
        match row {
            Some(row) => self.attach_to(id, &row.turn, row.accepted),
            None => self.not_watched(id),
        }
    }

    pub(super) fn not_watched(&mut self, id: &RpcId) {
        if let Some(attaching) = self.attaching.remove(id) {
            self.refuse(id, words::NO_TASK);
            self.unfollow(&attaching.session);
        }
    }

    /// A turn of a session that is followed already is looked at from its beginning.
    fn attach_to(&mut self, id: &RpcId, turn: &TurnId, accepted: u64) {
        let Some(attaching) = self.attaching.remove(id) else { return };
        let session = attaching.session.clone();
        match self.epoch_of(&session) {
            Some(epoch) => {
                let from = Position { epoch, seq: accepted.saturating_sub(1) };
                self.attached(id, attaching, turn, from, None);
            }
            None => self.refuse(id, words::NO_TASK),
        }
        self.unfollow(&session);
    }

    /// From here on it is a chat like any other, from the event that accepted its turn.
    fn attached(
        &mut self,
        id: &RpcId,
        attaching: Attaching,
        turn: &TurnId,
        from: Position,
        link: Option<Link>,
    ) {
        let Attaching { session, after, .. } = attaching;
        let task = TaskId::of(turn);
        let chat = Chat {
            task: task.clone(),
            turn: turn.clone(),
            session: session.clone(),
            state: ChatState::Starting,
            submitted: None,
            accepted: true,
            rendering: Rendering::new(self.agent.as_str(), self.lists),
            aborts: Vec::new(),
            said_at: self.now,
            retry_at: None,
            own: false,
            follows: true,
            link,
            positions: true,
            after,
            seen: from.seq,
        };
        if chat.link.is_some() {
            self.ledger.adopt(&task, &self.principal.id, &session, self.now);
        }
        self.chats.insert(id.clone(), chat);
        self.send(id, &ServerMessage::ChatAccepted { task });
        self.follow_from(&session, from);
    }
}
