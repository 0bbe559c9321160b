//! Committed events to what the client hears of them.

use switchboard_core::model::{CallEnd, CallError};
use switchboard_core::{CallId, Committed, Event, Frame, Op, Output, SessionId};

use super::chats::Terminal;
use super::{AcolyteConnection, Chat, Pending, Slot, Wire, error_id};
use crate::codec;
use crate::map::{self, Said};
use crate::message::{RpcId, ServerMessage, StreamEvent};
use crate::state::{ChatState, TaskState};

impl AcolyteConnection {
    pub(super) fn committed(&mut self, session: &SessionId, committed: &Committed) {
        if !self.takes(session, committed.position) {
            return;
        }
        let Some(turn) = committed.event.turn() else { return };
        // Who has heard it has seen it; mostly there is one.
        let unheard = |chat: &Chat| {
            chat.follows
                && chat.seen < committed.position.seq
                && chat.turn == *turn
                && chat.session == *session
        };
        while let Some(id) = self.chats.iter().find(|(_, chat)| unheard(chat)).map(|(id, _)| id.clone()) {
            self.hear(&id, committed);
        }
        let stopping = matches!(&self.slot, Slot::Stopping(home, own) if home == session && own == turn);
        if stopping && matches!(committed.event, Event::TurnEnded { .. }) {
            self.rest();
        }
    }

    /// One chat takes in one event of its turn.
    fn hear(&mut self, id: &RpcId, committed: &Committed) {
        // What happens to it is in the log, and so is it.
        if self.chats.get(id).is_some_and(|chat| !chat.accepted) {
            self.accept(id);
        }
        let Committed { position, at, event } = committed;
        self.derived += 1;
        let (counter, now, wire) = (self.derived, self.now, self.wire);
        let Self { chats, out, seed, ledger, clock, .. } = self;
        let Some(chat) = chats.get_mut(id) else { return };
        chat.seen = position.seq;
        let kept = chat.is_kept();
        if kept && matches!(event, Event::TurnAccepted { .. }) {
            ledger.accepted_at(&chat.task, *at);
        }
        let known = position.seq <= chat.after;
        let mut terminal = None;
        // The last message of an event says where it is: whoever knows it, knows the whole event.
        let mut held: Option<StreamEvent<'static>> = None;
        let mut send = |text: String| {
            clock.sent_at = now;
            out.push_back(Output::Send(Frame::Text(text)));
        };
        let errors = || error_id(seed, counter);
        chat.rendering.render(event, *at, errors, &mut |said| match said {
            Said::Queued(position) => {
                if kept {
                    ledger.advance(&chat.task, TaskState::Queued, now);
                }
                if wire == Wire::Rpc {
                    send(codec::encode_server(id, &ServerMessage::ChatQueued { position }));
                }
            }
            Said::Started => {
                if kept {
                    ledger.advance(&chat.task, TaskState::Running, now);
                }
                chat.state = ChatState::Running;
                if wire == Wire::Rpc {
                    send(codec::encode_server(id, &ServerMessage::ChatStarted));
                }
            }
            Said::Event(_) if known => {}
            Said::Event(said) => {
                chat.said_at = now;
                match wire {
                    Wire::Stream => send(codec::encode_stream(&said)),
                    Wire::Rpc if chat.positions => {
                        if let Some(before) = held.replace(said.into_owned()) {
                            send(codec::encode_event(id, &before, None));
                        }
                    }
                    Wire::Rpc => send(codec::encode_event(id, &said, None)),
                }
            }
            Said::Done(reply) => terminal = Some((TaskState::Completed, Terminal::Done(reply))),
            Said::Failed(body) => terminal = Some((TaskState::Failed, Terminal::Error(body))),
            Said::Cancelled(body) => terminal = Some((TaskState::Cancelled, Terminal::Error(body))),
        });
        if let Some(last) = held {
            send(codec::encode_event(id, &last, Some(position.seq)));
        }
        let denied = map::unanswerable(event).filter(|_| kept && self.service.deny_questions).cloned();
        if let Some(call) = denied {
            self.deny(id, call);
        }
        if let Some((state, terminal)) = terminal {
            self.end(id, state, terminal);
        }
    }

    /// Nobody at this client can answer a question, so that its agent need not wait.
    fn deny(&mut self, id: &RpcId, call: CallId) {
        let Some(chat) = self.chats.get(id) else { return };
        let (session, turn) = (chat.session.clone(), chat.turn.clone());
        let error = CallError::new("E_SANDBOX_VIOLATION", "this client cannot answer questions");
        let end = CallEnd::Failed(error);
        self.submit(&session, Op::Answer { turn, call, end }, Pending::Nothing);
    }
}
