//! Chats that are stopped: by their client, or because their connection ends (§7.3, §7.4).

use switchboard_core::{Op, Reject, SessionId};

use super::chats::Terminal;
use super::{AcolyteConnection, Link, Pending, RpcId, Slot};
use crate::error::{Code, Source, reject_words, words};
use crate::message::ServerMessage;
use crate::state::{ChatState, TaskState};

impl AcolyteConnection {
    /// `chat.abort`
    pub(super) fn abort(&mut self, id: RpcId, request: RpcId) {
        let Some(chat) = self.chats.get_mut(&request) else { return self.answer_abort(&id, &request, false) };
        chat.aborts.push(id);
        if chat.is_put_off() {
            // Its session does not know of it, so nobody has to be asked.
            self.end_aborted(&request);
        } else if chat.aborts.len() == 1 {
            let (session, turn) = (chat.session.clone(), chat.turn.clone());
            let op = Op::Interrupt { turn, reason: Some("abort_requested".into()) };
            self.submit(&session, op, Pending::Interrupt(request));
        }
    }

    /// The turn of a chat is stopped: nothing of it follows but this (R1).
    pub(super) fn interrupted(&mut self, id: &RpcId) {
        let Some(chat) = self.chats.get(id) else { return };
        if self.slot == Slot::Chat(id.clone()) {
            // The next one has to wait until the agent has stopped.
            let session = chat.session.clone();
            self.slot = Slot::Stopping(session.clone(), chat.turn.clone());
            self.keep_following(&session);
        }
        self.end_aborted(id);
    }

    pub(super) fn end_aborted(&mut self, id: &RpcId) {
        let body = Code::ABORTED.body(Source::Server, words::ABORTED, self.error_id());
        self.end(id, TaskState::Cancelled, Terminal::Error(body));
    }

    pub(super) fn interrupt_rejected(&mut self, id: &RpcId, reject: &Reject) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        // It has ended by itself: the client hears that first, and then that it was not this.
        if matches!(reject, Reject::TurnOver(_) | Reject::UnknownTurn(_)) {
            return;
        }
        let passing =
            matches!(reject, Reject::Unavailable { .. } | Reject::Busy | Reject::RateLimited { .. });
        for abort in std::mem::take(&mut chat.aborts) {
            if passing {
                self.refuse(&abort, words::NOT_NOW);
            } else {
                self.answer_abort(&abort, id, false);
            }
        }
    }

    pub(super) fn answer_abort(&mut self, id: &RpcId, request: &RpcId, aborted: bool) {
        self.send(id, &ServerMessage::ChatAbortResult { request: request.clone(), aborted });
    }

    /// Ends a chat that will not hear of its turn.
    pub(super) fn lose(&mut self, id: &RpcId, reject: &Reject) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        let (session, turn) = (chat.session.clone(), chat.turn.clone());
        if chat.own {
            let op = Op::Interrupt { turn, reason: Some("internal".into()) };
            self.submit(&session, op, Pending::Nothing);
        } else if let Some(link) = chat.link.take() {
            // It goes on, and can be tried again.
            self.ledger.leave(&chat.task);
            self.detach(&session, link);
        }
        let (code, message) = reject_words(reject);
        let body = code.body(Source::Server, message, self.error_id());
        self.fail(id, body);
    }

    /// Ends every chat because the connection ends, with a terminal if the client can still hear it.
    pub(super) fn abandon(&mut self, reason: &str, terminal: Option<&str>) {
        let waiting: Vec<RpcId> = self.waiting.drain(..).collect();
        let running: Vec<RpcId> = self.chats.keys().filter(|id| !waiting.contains(id)).cloned().collect();
        for id in running.into_iter().chain(waiting) {
            if let Some(chat) = self.chats.get(&id)
                && chat.is_kept()
                && !self.leave_behind(&id)
            {
                self.abandon_one(&id, reason, terminal);
            }
            self.chats.remove(&id);
        }
    }

    fn abandon_one(&mut self, id: &RpcId, reason: &str, terminal: Option<&str>) {
        if let Some(message) = terminal {
            self.acknowledge(id);
            let body = Code::ABORTED.body(Source::Server, message, self.error_id());
            self.tell(id, Terminal::Error(body));
        }
        let Some(chat) = self.chats.remove(id) else { return };
        self.ledger.advance(&chat.task, TaskState::Cancelled, self.now);
        if chat.follows {
            let op = Op::Interrupt { turn: chat.turn.clone(), reason: Some(reason.to_owned()) };
            self.submit(&chat.session, op, Pending::Nothing);
            self.part(&chat);
        }
    }

    /// Lets a chat go on without this connection, so that it can be followed again. One that still waits is released
    /// by that, and waits for others of its session only.
    fn leave_behind(&mut self, id: &RpcId) -> bool {
        let Some(chat) = self.chats.get(id) else { return false };
        let Some(link) = chat.link.clone() else { return false };
        // It is in no log, or its client wanted it to end.
        if chat.is_put_off() || !chat.aborts.is_empty() {
            return false;
        }
        self.ledger.leave(&chat.task);
        // A server that leaves releases nothing: the one that comes after it does.
        if !(self.leaving && chat.state == ChatState::Waiting) {
            let session = chat.session.clone();
            self.detach(&session, link);
        }
        true
    }

    pub(super) fn detach(&mut self, session: &SessionId, link: Link) {
        let Link { attachment, generation } = link;
        self.submit(session, Op::Detach { attachment, generation }, Pending::Nothing);
    }
}
