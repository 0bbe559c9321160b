//! `chat.attach`: a task is followed again, or watched, from a position. Ours; known to clients that
//! offer `task.resume`.

use switchboard_core::{
    AttachmentId, AttachmentView, Op, Output, Position, SessionId, SessionView, TurnView,
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
            None => self.watch(id, &session),
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

    fn watch(&mut self, id: RpcId, session: &SessionId) {
        let request = self.request(Pending::Watch(id));
        self.out.push_back(Output::Attach(request, session.clone(), None));
        *self.followed.entry(session.clone()).or_default() += 1;
    }

    pub(super) fn taken_over(&mut self, id: &RpcId, view: &AttachmentView) {
        let Some(attaching) = self.attaching.remove(id) else { return };
        let task = attaching.task.clone();
        let turn = view.turns.iter().find(|turn| task.as_ref().is_some_and(|task| task.turn() == turn.turn));
        let Some(turn) = turn else { return self.refuse(id, words::NO_TASK) };
        let link = Link { attachment: view.attachment.clone(), generation: view.generation };
        self.attached(id, attaching, turn, view.head.epoch, Some(link));
    }

    /// Not a task of this protocol that waits for its client, but it may be watched.
    pub(super) fn not_taken_over(&mut self, id: &RpcId) {
        if let Some(attaching) = self.attaching.get(id) {
            let session = attaching.session.clone();
            self.watch(id.clone(), &session);
        }
    }

    pub(super) fn watched(&mut self, id: &RpcId, view: &SessionView) {
        let Some(attaching) = self.attaching.remove(id) else { return };
        let wanted =
            |turn: &&TurnView| attaching.task.as_ref().is_none_or(|task| TaskId::of(&turn.turn) == *task);
        let turn = view.turns.iter().filter(wanted).min_by_key(|turn| turn.accepted);
        match turn {
            Some(turn) => self.attached(id, attaching, turn, view.head.epoch, None),
            None => self.refuse(id, words::NO_TASK),
        }
        let session = self.chats.get(id).map(|chat| chat.session.clone());
        if let Some(session) = session {
            self.unfollow(&session);
        }
    }

    pub(super) fn not_watched(&mut self, id: &RpcId) {
        if let Some(attaching) = self.attaching.remove(id) {
            self.unfollow(&attaching.session);
            self.refuse(id, words::NO_TASK);
        }
    }

    /// From here on it is a chat like any other, from the event that accepted its turn.
    fn attached(
        &mut self,
        id: &RpcId,
        attaching: Attaching,
        turn: &TurnView,
        epoch: u32,
        link: Option<Link>,
    ) {
        let task = TaskId::of(&turn.turn);
        let session = attaching.session;
        let chat = Chat {
            task: task.clone(),
            turn: turn.turn.clone(),
            session: session.clone(),
            state: ChatState::Starting,
            request: None,
            submitted: None,
            rendering: Rendering::new(self.agent.as_str(), self.lists),
            aborts: Vec::new(),
            said_at: self.now,
            retry_at: None,
            own: false,
            link,
            positions: true,
            after: attaching.after,
            seen: turn.accepted.saturating_sub(1),
        };
        if chat.link.is_some() {
            self.ledger.adopt(&task, &self.principal.id, &session, self.now);
        }
        self.chats.insert(id.clone(), chat);
        self.send(id, &ServerMessage::ChatAccepted { task });
        let from = Position { epoch, seq: turn.accepted.saturating_sub(1) };
        self.follow(id, &session, Some(from));
    }
}
