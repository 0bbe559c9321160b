//! The chats of a client, and where each of them is.

use std::collections::BTreeMap;

use super::ChatId;
use super::telling::Telling;
use crate::message::{Attach, ChatRequest, RpcId, TaskId};

/// Every chat that is not over.
#[derive(Debug, Default)]
pub(super) struct Chats {
    open: BTreeMap<ChatId, Chat>,
    /// Under which id each is known to the server on this connection.
    wires: BTreeMap<RpcId, ChatId>,
    last: u64,
}

impl Chats {
    pub(super) fn add(&mut self, opening: Opening) -> ChatId {
        self.last += 1;
        let id = ChatId(self.last);
        self.open.insert(id, Chat::new(opening));
        id
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get_mut(&mut self, id: ChatId) -> Option<&mut Chat> {
        self.open.get_mut(&id)
    }

    /// The chat that the server calls so.
    pub(super) fn on_wire(&mut self, wire: &RpcId) -> Option<(ChatId, &mut Chat)> {
        let id = *self.wires.get(wire)?;
        Some((id, self.open.get_mut(&id)?))
    }

    /// In the order in which they were started.
    pub(super) fn ids(&self) -> Vec<ChatId> {
        self.open.keys().copied().collect()
    }

    pub(super) fn is_any_on_wire(&self) -> bool {
        !self.wires.is_empty()
    }

    /// From now on the server calls it so.
    pub(super) fn bind(&mut self, id: ChatId, wire: RpcId) {
        if let Some(chat) = self.open.get_mut(&id) {
            chat.wire = Some(wire.clone());
            self.wires.insert(wire, id);
        }
    }

    /// The server knows none of them any more.
    pub(super) fn unbind_all(&mut self) {
        self.wires.clear();
        self.open.values_mut().for_each(|chat| chat.wire = None);
    }

    pub(super) fn remove(&mut self, id: ChatId) -> Option<Chat> {
        let chat = self.open.remove(&id)?;
        if let Some(wire) = &chat.wire {
            self.wires.remove(wire);
        }
        Some(chat)
    }
}

/// One chat.
#[derive(Debug)]
pub(super) struct Chat {
    pub(super) state: ChatState,
    pub(super) opening: Opening,
    pub(super) wire: Option<RpcId>,
    pub(super) session: Option<String>,
    pub(super) task: Option<TaskId>,
    pub(super) queued: Option<u64>,
    pub(super) started: bool,
    pub(super) abort: Abort,
    /// Everything up to here was told.
    position: u64,
    /// So many events behind it were told as well.
    partial: usize,
    /// So many events are told again by the server, and not to the user.
    skip: usize,
    pub(super) telling: Telling,
}

/// How a chat begins.
#[derive(Clone, Debug)]
pub(super) enum Opening {
    Start(Box<ChatRequest>),
    Attach(Attach),
}

/// Where a chat is.
///
/// ```text
///            Up               chat.accepted
///   Waiting ────▶ Sent ─────────────────────▶ Open ──▶ (terminal)
///      ▲            │ cut, chat.attach          │ ▲
///      └────────────┘           cut, resumable  ▼ │ chat.accepted
///                                    Suspended ──▶ Attaching
///                                        ▲  Up        │ cut
///                                        └────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatState {
    /// For a connection.
    Waiting,
    /// The server has not answered.
    Sent,
    /// The server has it.
    Open,
    /// The connection is lost; the server still has it.
    Suspended,
    /// The server is asked to go on with it.
    Attaching,
}

/// Whether a chat is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    No,
    /// As soon as the server can be told.
    Wanted,
    /// The server was told.
    Asked,
}

impl Chat {
    fn new(opening: Opening) -> Self {
        let (session, task, position) = match &opening {
            Opening::Start(request) => (request.session_id.clone(), None, 0),
            Opening::Attach(attach) => (attach.session.clone(), attach.task.clone(), attach.after),
        };
        Self {
            state: ChatState::Waiting,
            opening,
            wire: None,
            session,
            task,
            queued: None,
            started: false,
            abort: Abort::No,
            position,
            partial: 0,
            skip: 0,
            telling: Telling::default(),
        }
    }

    /// What to ask for in order to go on where it was cut off.
    pub(super) fn attach(&mut self) -> Attach {
        self.skip = std::mem::take(&mut self.partial);
        Attach { task: self.task.clone(), session: self.session.clone(), after: self.position }
    }

    /// The connection is lost in the midst of it.
    pub(super) fn suspend(&mut self) {
        self.state = ChatState::Suspended;
        self.partial += std::mem::take(&mut self.skip);
        if self.abort == Abort::Asked {
            self.abort = Abort::Wanted;
        }
    }

    /// Whether an event was not told before. `counts` is false for events that may come at any time
    /// and say nothing new.
    ///
    /// The server says where it is with the last of several events that belong together, and after a
    /// cut it begins with the first of them again.
    pub(super) fn is_fresh(&mut self, position: Option<u64>, counts: bool) -> bool {
        let mut fresh = true;
        if counts {
            fresh = self.skip == 0;
            self.skip = self.skip.saturating_sub(1);
            self.partial += 1;
        }
        if let Some(position) = position {
            fresh &= position > self.position;
            self.position = self.position.max(position);
            (self.partial, self.skip) = (0, 0);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat() -> Chat {
        Chat::new(Opening::Start(Box::default()))
    }

    #[test]
    fn what_was_told_behind_the_last_position_is_not_told_again() {
        let mut chat = chat();
        assert!(chat.is_fresh(None, true) && chat.is_fresh(Some(4), true));
        assert!(chat.is_fresh(None, true) && chat.is_fresh(None, true));
        chat.suspend();
        assert_eq!(chat.attach().after, 4);
        assert!(!chat.is_fresh(None, true), "the first of the two again");
        chat.suspend();
        assert_eq!(chat.attach().after, 4);
        assert!(chat.is_fresh(None, false), "a sign of life is not counted");
        assert!(!chat.is_fresh(None, true) && !chat.is_fresh(None, true));
        assert!(chat.is_fresh(Some(5), true));
        assert!(!chat.is_fresh(Some(5), true), "known");
        chat.suspend();
        assert_eq!(chat.attach().after, 5);
        assert!(chat.is_fresh(None, true));
    }

    #[test]
    fn a_position_ends_what_is_skipped() {
        let mut chat = chat();
        assert!(chat.is_fresh(None, true) && chat.is_fresh(None, true));
        chat.suspend();
        chat.attach();
        assert!(!chat.is_fresh(Some(1), true), "told, and now with its place");
        assert!(chat.is_fresh(Some(2), true));
    }
}
