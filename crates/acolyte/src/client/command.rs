//! What the user asks for. A command that is refused changes nothing.

use switchboard_core::Timestamp;
use switchboard_core::client::Down;

use super::chats::{Abort, ChatState, Opening};
use super::{
    AcolyteClient, Asked, Call, CallError, Cause, ChatId, CommandError, Ending, Event, Link, Loss, Output,
};
use crate::codec::encode_client;
use crate::message::{Attach, ChatRequest, ClientMessage, Offer, RpcId, Strictness, TaskId};

impl AcolyteClient {
    /// Starts a chat; answers what it is called in events. Without a connection it waits for one.
    ///
    /// # Errors
    /// Too many are open, or no server would take it.
    pub fn start(&mut self, request: ChatRequest) -> Result<ChatId, CommandError> {
        let fits = request
            .to_json()
            .as_object()
            .is_some_and(|object| ChatRequest::read(object, Strictness::Rpc).is_ok());
        if !fits {
            return Err(CommandError::Unfit);
        }
        self.open(Opening::Start(Box::new(request)))
    }

    /// Follows a task that runs, or has run a moment ago, as if it were a chat of this connection.
    ///
    /// # Errors
    /// Too many are open, or the server cannot do that.
    pub fn attach(&mut self, attach: Attach) -> Result<ChatId, CommandError> {
        if self.link == Link::Up && !self.can_resume() {
            return Err(CommandError::NoAttach);
        }
        self.open(Opening::Attach(attach))
    }

    fn open(&mut self, opening: Opening) -> Result<ChatId, CommandError> {
        let limit = self.config.max_chats;
        if self.chats.len() >= limit {
            return Err(CommandError::Full { limit });
        }
        let id = self.chats.add(opening);
        self.send_waiting();
        Ok(id)
    }

    /// Stops a chat; its end follows. While the connection is lost, that waits.
    pub fn abort(&mut self, id: ChatId, now: Timestamp) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        if chat.abort != Abort::No {
            return;
        }
        match chat.state {
            // Nobody but this client knows of it.
            ChatState::Waiting => self.end(id, Ending::Aborted),
            ChatState::Sent | ChatState::Open => {
                chat.abort = Abort::Wanted;
                self.send_abort(id, now);
            }
            ChatState::Suspended | ChatState::Attaching => chat.abort = Abort::Wanted,
        }
    }

    /// Under an id of its own, naming that of the chat (AC-088).
    pub(super) fn send_abort(&mut self, id: ChatId, now: Timestamp) {
        let Some(chat) = self.chats.get_mut(id).filter(|chat| chat.abort == Abort::Wanted) else { return };
        let Some(request) = chat.wire.clone() else { return };
        chat.abort = Abort::Asked;
        self.ask(&ClientMessage::ChatAbort { request }, Asked::Abort(id), now);
    }

    /// Asks what the server says of itself; the answer comes under this id.
    ///
    /// # Errors
    /// Not connected.
    pub fn status(&mut self, now: Timestamp) -> Result<RpcId, CommandError> {
        self.check_up()?;
        Ok(self.ask(&ClientMessage::StatusGet(Offer::default()), Asked::Status, now))
    }

    /// Asks what has become of a task; the answer comes under this id. `session` is the conversation
    /// it belongs to, and only needed for tasks of earlier connections.
    ///
    /// # Errors
    /// Not connected.
    pub fn task_status(
        &mut self,
        task: TaskId,
        session: Option<String>,
        now: Timestamp,
    ) -> Result<RpcId, CommandError> {
        self.check_up()?;
        Ok(self.ask(&ClientMessage::TaskStatus { task, session }, Asked::Task, now))
    }

    /// Looks for a connection.
    pub(super) fn connect(&mut self) {
        if self.link == Link::Off {
            self.dial();
        }
    }

    pub(super) fn dial(&mut self) {
        self.link = Link::Dialing;
        self.output(Output::Dial);
    }

    /// Leaves. Chats that have not ended are stopped: nobody would come back for them.
    pub(super) fn leave(&mut self, now: Timestamp) {
        for id in self.chats.ids() {
            self.abort(id, now);
        }
        self.close(1000, Cause::Left, now);
        self.give_up(Loss::Left);
    }

    /// There will be no further connection: every chat that still waits for one ends.
    pub fn give_up(&mut self, loss: Loss) {
        for id in self.chats.ids() {
            self.lose(id, loss);
        }
    }

    /// The transport is there: the offer comes first.
    pub(super) fn opened(&mut self, now: Timestamp) {
        if self.link.is_open() {
            return;
        }
        self.liveness.heard(now);
        self.message_at = now;
        let offer = Offer {
            version: Some(crate::protocol::VERSION.to_owned()),
            capabilities: Some(self.config.capabilities.clone()),
        };
        let id = self.ask(&ClientMessage::StatusGet(offer), Asked::Offer, now);
        self.link = Link::Greeting(id);
    }

    /// Sends everything that waits for a connection.
    pub(super) fn send_waiting(&mut self) {
        if self.link != Link::Up {
            return;
        }
        for id in self.chats.ids() {
            let Some(chat) = self.chats.get_mut(id) else { continue };
            let message = match (chat.state, &chat.opening) {
                (ChatState::Waiting, Opening::Start(request)) => {
                    chat.state = ChatState::Sent;
                    ClientMessage::ChatStart(request.clone())
                }
                (ChatState::Waiting, Opening::Attach(_)) => {
                    chat.state = ChatState::Sent;
                    ClientMessage::ChatAttach(chat.attach())
                }
                (ChatState::Suspended, _) => {
                    chat.state = ChatState::Attaching;
                    ClientMessage::ChatAttach(chat.attach())
                }
                (ChatState::Sent | ChatState::Open | ChatState::Attaching, _) => continue,
            };
            let wire = self.mint();
            self.output(Output::Text(encode_client(&wire, &message)));
            self.chats.bind(id, wire);
        }
    }

    fn ask(&mut self, message: &ClientMessage, what: Asked, now: Timestamp) -> RpcId {
        let id = self.mint();
        self.output(Output::Text(encode_client(&id, message)));
        self.calls.insert(id.clone(), Call { what, by: now.after(super::millis(self.config.answer_ms)) });
        id
    }

    pub(super) fn lose(&mut self, id: ChatId, loss: Loss) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        let task = chat.task.clone();
        let ending = match chat.abort {
            Abort::No => Ending::Lost { loss, task },
            Abort::Wanted | Abort::Asked => Ending::Aborted,
        };
        self.end(id, ending);
    }

    pub(super) fn end(&mut self, id: ChatId, ending: Ending) {
        if self.chats.remove(id).is_some() {
            self.event(Event::Ended(id, ending));
        }
    }

    fn check_up(&self) -> Result<(), CommandError> {
        if self.link == Link::Up { Ok(()) } else { Err(CommandError::NotConnected) }
    }

    /// The transport is gone.
    pub(super) fn down(&mut self, cause: Cause, now: Timestamp) {
        let waits = matches!(self.link, Link::Waiting(_)) && cause != Cause::Left;
        if self.link == Link::Off || waits {
            return;
        }
        let resumable = cause.is_temporary() && self.can_resume();
        let pause = || cause.retry_after().unwrap_or_else(|| self.backoff.pause());
        let retry_at = cause.is_temporary().then(pause).map(|pause| now.after(pause));
        self.link = retry_at.map_or(Link::Off, Link::Waiting);
        (self.resuming, self.lost) = (0, 0);
        let calls: Vec<RpcId> = self.calls.keys().cloned().collect();
        for id in calls {
            self.fail_call(&id, CallError::Disconnected, now);
        }
        self.chats.unbind_all();
        for id in self.chats.ids() {
            let Some(chat) = self.chats.get_mut(id) else { continue };
            match (chat.state, &chat.opening) {
                (ChatState::Waiting | ChatState::Suspended, _) => {}
                // Asking twice does no harm.
                (ChatState::Sent, Opening::Attach(_)) if resumable => {
                    chat.suspend();
                    chat.state = ChatState::Waiting;
                }
                (ChatState::Open | ChatState::Attaching, _) if resumable => chat.suspend(),
                (ChatState::Sent | ChatState::Open | ChatState::Attaching, _) => {
                    self.lose(id, Loss::Disconnected);
                }
            }
        }
        let loss = if cause == Cause::Left { Loss::Left } else { Loss::Closed };
        self.event(Event::Down(Down { cause, retry_at }));
        if retry_at.is_none() {
            self.give_up(loss);
        }
    }
}
