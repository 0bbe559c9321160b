//! Messages of the server. Whatever this version does not know is ignored (F1 to F3).

use serde_json::{Map, Value};
use switchboard_core::Timestamp;

use super::chats::{Abort, ChatState};
use super::telling::{done, failed, unusable};
use super::{
    AcolyteClient, Answer, Asked, CallError, Cause, ChatEvent, ChatId, Ending, Event, Fault, Link, Loss,
};
use crate::codec::{Heard, decode_server};
use crate::error::ErrorBody;
use crate::message::{Capabilities, Reply, RpcId, ServerMessage, StreamEvent, TaskId};
use crate::protocol::VERSION;

impl AcolyteClient {
    pub(super) fn receive(&mut self, message: &[u8], now: Timestamp) {
        let (id, message) = match decode_server(message) {
            Heard::Message(id, message) => (id, message),
            // For a question, an answer that cannot be used is one.
            Heard::Unknown(Some(id)) => return self.fail_call(&id, CallError::Unusable, now),
            Heard::Unknown(None) => return,
            Heard::Spoiled(id) => return self.failed(&id, unusable()),
        };
        match message {
            ServerMessage::StatusResult { status } => self.status_result(&id, status, now),
            ServerMessage::ChatAccepted { task } => self.accepted(&id, task, now),
            ServerMessage::ChatQueued { position } => self.queued(&id, position),
            ServerMessage::ChatStarted => self.started(&id),
            ServerMessage::ChatEvent { event, position } => self.stream(&id, event, position),
            ServerMessage::ChatDone { reply } => self.done(&id, reply),
            ServerMessage::ChatError(error) => self.failed(&id, error),
            ServerMessage::ChatAbortResult { request, aborted } => self.abort_result(&id, &request, aborted),
            ServerMessage::TaskStatusResult { task } => {
                if self.calls.get(&id).is_some_and(|call| call.what == Asked::Task) {
                    self.calls.remove(&id);
                    self.event(Event::Answer(id, Ok(Answer::Task(task))));
                }
            }
            ServerMessage::Error { error } => self.refused(&id, error, now),
        }
    }

    fn status_result(&mut self, id: &RpcId, status: Map<String, Value>, now: Timestamp) {
        match self.calls.get(id).map(|call| call.what) {
            Some(Asked::Offer) => {
                self.calls.remove(id);
                self.greeted(status, now);
            }
            Some(Asked::Status) => {
                self.calls.remove(id);
                self.event(Event::Answer(id.clone(), Ok(Answer::Status(status))));
            }
            Some(Asked::Task | Asked::Abort(_)) | None => {}
        }
    }

    /// The server has answered the offer (H1, H2).
    fn greeted(&mut self, status: Map<String, Value>, now: Timestamp) {
        let text = |key: &str| status.get(key).and_then(Value::as_str);
        let theirs = text("protocol_version").unwrap_or_default();
        if theirs != VERSION {
            let theirs = theirs.to_owned();
            return self.close(1000, Fault::Version { theirs, ours: VERSION }.into(), now);
        }
        let agreed = text("capabilities_agreed").map(Capabilities::parse).unwrap_or_default();
        // Whatever was not offered is not agreed.
        self.agreed = agreed.agreed(&self.config.capabilities);
        self.link = Link::Up;
        self.backoff.reset();
        let suspended: Vec<ChatId> = self
            .chats
            .ids()
            .into_iter()
            .filter(|id| self.chats.get_mut(*id).is_some_and(|chat| chat.state == ChatState::Suspended))
            .collect();
        self.resuming = suspended.len();
        let agreed = self.agreed.clone();
        self.event(Event::Up { status, agreed, resuming: suspended.len() });
        if !self.can_resume() {
            // The server that comes back is not the one that went.
            for id in suspended {
                self.lose(id, Loss::Gone);
                self.resumed_one(false);
            }
        }
        self.send_waiting();
    }

    /// The server has answered for one more chat of the earlier connection.
    fn resumed_one(&mut self, goes_on: bool) {
        self.resuming = self.resuming.saturating_sub(1);
        self.lost += usize::from(!goes_on);
        if self.resuming == 0 {
            let lost = std::mem::take(&mut self.lost);
            self.event(Event::Resumed { lost });
        }
    }

    fn accepted(&mut self, wire: &RpcId, task: TaskId, now: Timestamp) {
        let Some((id, chat)) = self.chats.on_wire(wire) else { return };
        let resumed = match chat.state {
            ChatState::Attaching => true,
            ChatState::Sent => false,
            ChatState::Waiting | ChatState::Open | ChatState::Suspended => return,
        };
        chat.state = ChatState::Open;
        chat.task = Some(task.clone());
        if resumed {
            self.resumed_one(true);
        } else {
            self.event(Event::Chat(id, ChatEvent::Accepted(task)));
        }
        self.send_abort(id, now);
    }

    fn queued(&mut self, wire: &RpcId, position: u64) {
        let Some((id, chat)) = self.open_chat(wire) else { return };
        // Equal positions are said again (R12).
        if chat.queued.replace(position) != Some(position) {
            self.event(Event::Chat(id, ChatEvent::Queued(position)));
        }
    }

    fn started(&mut self, wire: &RpcId) {
        let Some((id, chat)) = self.open_chat(wire) else { return };
        if !std::mem::replace(&mut chat.started, true) {
            self.event(Event::Chat(id, ChatEvent::Started));
        }
    }

    fn stream(&mut self, wire: &RpcId, event: StreamEvent<'static>, position: Option<u64>) {
        let Some((id, chat)) = self.open_chat(wire) else { return };
        let counts = !matches!(event, StreamEvent::Status { .. });
        if chat.is_fresh(position, counts)
            && let Some(event) = chat.telling.hear(event)
        {
            self.event(Event::Chat(id, event));
        }
    }

    fn done(&mut self, wire: &RpcId, reply: Box<Reply>) {
        let Some((id, _)) = self.open_chat(wire) else { return };
        let (output, ending) = done(reply);
        if let Some(output) = output {
            self.event(Event::Chat(id, output));
        }
        self.end(id, ending);
    }

    fn failed(&mut self, wire: &RpcId, error: ErrorBody) {
        let Some((id, chat)) = self.open_chat(wire) else { return };
        let ending = failed(error, chat.abort != Abort::No);
        self.end(id, ending);
    }

    /// A server may have nothing more to say of a chat that it has stopped.
    fn abort_result(&mut self, id: &RpcId, request: &RpcId, aborted: bool) {
        let asked = self.calls.get(id).map(|call| call.what);
        let Some(Asked::Abort(chat)) = asked else { return };
        self.calls.remove(id);
        if aborted && self.chats.on_wire(request).is_some_and(|(named, _)| named == chat) {
            self.end(chat, Ending::Aborted);
        }
    }

    /// The message had no effect.
    fn refused(&mut self, id: &RpcId, why: String, now: Timestamp) {
        if self.calls.contains_key(id) {
            return self.fail_call(id, CallError::Refused(why), now);
        }
        let Some((chat_id, chat)) = self.chats.on_wire(id) else { return };
        match chat.state {
            ChatState::Sent => self.end(chat_id, Ending::Refused(why)),
            ChatState::Attaching => {
                self.lose(chat_id, Loss::Gone);
                self.resumed_one(false);
            }
            // About another message that has its id (R5).
            ChatState::Open | ChatState::Waiting | ChatState::Suspended => {}
        }
    }

    /// A question has no answer.
    pub(super) fn fail_call(&mut self, id: &RpcId, error: CallError, now: Timestamp) {
        let Some(call) = self.calls.remove(id) else { return };
        match (call.what, error) {
            (Asked::Offer, CallError::Refused(why)) => self.close(1000, Fault::Refused(why).into(), now),
            (Asked::Offer, error @ CallError::Unusable) => {
                self.close(1000, Fault::Refused(error.to_string()).into(), now);
            }
            (Asked::Offer, CallError::Timeout) => self.close(1001, Cause::Silent, now),
            (Asked::Offer, CallError::Disconnected) => {}
            (Asked::Status | Asked::Task, error) => self.event(Event::Answer(id.clone(), Err(error))),
            // It is asked for again on the next connection.
            (Asked::Abort(_), CallError::Disconnected) => {}
            (Asked::Abort(chat_id), error) => {
                if let Some(chat) = self.chats.get_mut(chat_id) {
                    chat.abort = Abort::No;
                    self.event(Event::NotAborted(chat_id, error.to_string()));
                }
            }
        }
    }

    /// A chat that the server has accepted on this connection.
    fn open_chat(&mut self, wire: &RpcId) -> Option<(ChatId, &mut super::chats::Chat)> {
        self.chats.on_wire(wire).filter(|(_, chat)| chat.state == ChatState::Open)
    }
}
