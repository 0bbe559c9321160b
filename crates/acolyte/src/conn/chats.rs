//! Chats: started, queued, handed to their session, stopped (§5, §7).

use std::time::Duration;

use switchboard_core::model::{NewTurn, Origin};
use switchboard_core::{
    AgentId, AttachmentId, Frame, Head, Op, Output, Reject, SessionId, Timestamp, TurnId,
};

use super::{AcolyteConnection, Chat, Link, Pending, Slot, Wire};
use crate::codec;
use crate::error::{Code, ErrorBody, Source, reject_words, words};
use crate::map::{self, Rendering};
use crate::message::{ChatRequest, RpcId, ServerMessage, StreamEvent, TaskId};
use crate::state::{ChatState, TaskState};

impl AcolyteConnection {
    /// `chat.start`
    pub(super) fn start(&mut self, id: RpcId, request: Box<ChatRequest>) {
        if let Some(version) = &self.refused_version {
            let why = super::unary::unsupported(version);
            return self.refuse(&id, why);
        }
        if self.leaving {
            return self.refuse(&id, words::LEAVING);
        }
        if self.chats.contains_key(&id) || self.attaching.contains_key(&id) {
            return self.refuse(&id, format!("Chat request already running for id: {id}"));
        }
        if self.slot != Slot::Free && self.waiting.len() >= self.limits.queue as usize {
            let why = format!("RPC queue is full ({} queued). Try again shortly.", self.waiting.len());
            return self.refuse(&id, why);
        }
        let chat = self.chat(request);
        let task = chat.task.clone();
        self.ledger.accept(task.clone(), self.principal.id.clone(), chat.session.clone(), self.now);
        self.chats.insert(id.clone(), chat);
        self.send(&id, &ServerMessage::ChatAccepted { task: task.clone() });
        if self.slot == Slot::Free {
            return self.begin(id);
        }
        self.ledger.advance(&task, TaskState::Queued, self.now);
        self.waiting.push_back(id.clone());
        let position = self.waiting.len() as u64;
        self.send(&id, &ServerMessage::ChatQueued { position });
    }

    /// The one request of a stream over HTTP.
    pub(super) fn receive_request(&mut self, body: &[u8]) {
        if !self.chats.is_empty() {
            return;
        }
        let request = match codec::decode_request(body) {
            Ok(request) => Box::new(request),
            Err(error) => {
                self.out.push_back(Output::Send(Frame::Head(Box::new(super::exchange::plain(400)))));
                self.out.push_back(Output::Send(Frame::Text(error.to_string())));
                return self.hang_up();
            }
        };
        let chat = self.chat(request);
        let task = chat.task.clone();
        self.ledger.accept(task.clone(), self.principal.id.clone(), chat.session.clone(), self.now);
        let head = Head {
            status: 200,
            headers: vec![
                ("content-type", "text/event-stream".into()),
                ("cache-control", "no-cache".into()),
                ("connection", "keep-alive".into()),
                ("acolyte-task-id", task.to_string()),
            ],
        };
        self.out.push_back(Output::Send(Frame::Head(Box::new(head))));
        self.clock.sent_at = self.now;
        // Nobody else can see it, so any id will do.
        let id = RpcId::unknown();
        self.chats.insert(id.clone(), chat);
        self.begin(id);
    }

    fn chat(&mut self, request: Box<ChatRequest>) -> Chat {
        let counter = self.derive();
        let turn = TurnId::fresh(&self.seed, counter);
        let task = TaskId::of(&turn);
        let resumable = self.may_resume();
        let session = match &request.session_id {
            Some(name) => SessionId::named(&self.principal, name),
            None => self.anonymous(&task),
        };
        Chat {
            turn,
            session,
            state: ChatState::Waiting,
            rendering: Rendering::new(self.agent.as_str(), self.lists),
            request: Some(request),
            submitted: None,
            aborts: Vec::new(),
            said_at: self.now,
            retry_at: None,
            own: true,
            link: resumable.then(|| Link { attachment: AttachmentId::from(task.as_str()), generation: 1 }),
            positions: resumable,
            after: 0,
            seen: 0,
            task,
        }
    }

    /// The session of a chat that names none. The zero byte keeps it apart from names of clients.
    pub(super) fn anonymous(&self, task: &TaskId) -> SessionId {
        SessionId::named(&self.principal, &format!("\0acolyte\0{task}"))
    }

    /// Gives a chat the connection's one place.
    fn begin(&mut self, id: RpcId) {
        let Some(chat) = self.chats.get_mut(&id) else { return };
        chat.state = ChatState::Starting;
        self.slot = Slot::Chat(id.clone());
        let Some(request) = chat.request.take() else { return };
        match self.new_turn(&id, &request) {
            Err(why) => {
                let body = Code::UNKNOWN.body(Source::Server, why, self.error_id());
                self.fail(&id, body);
            }
            Ok(new) => {
                let name = request.session_id.as_deref();
                self.take_part(&id, name);
                self.submit_turn(&id, new);
            }
        }
    }

    /// The turn of a chat, or why there can be none.
    fn new_turn(&self, id: &RpcId, request: &ChatRequest) -> Result<NewTurn, &'static str> {
        if !request.has_known_resource() {
            return Err("The resource id is not valid");
        }
        let entries = request.entries().ok_or("The history holds an entry that cannot be used")?;
        let history = map::told(request, entries);
        if request.message.is_empty() && history.is_empty() {
            return Err("There is nothing to ask");
        }
        let chat = self.chats.get(id).ok_or("The chat is gone")?;
        Ok(NewTurn {
            turn: chat.turn.clone(),
            request: map::turn_request(request),
            agent: Some(self.agent_for(&request.model)),
            origin: Origin {
                principal: self.principal.id.clone(),
                protocol: "acolyte".into(),
                attachment: chat.link.as_ref().map(|link| link.attachment.clone()),
                handle: Some(id.to_string()),
                bound: true,
                options: Rendering::options(request),
            },
            parent: None,
            history: Some(history),
            workspace: request.workspace.clone(),
            // The client tells the history, so nothing has to wait for it (R7).
            serial: false,
            deadline: self.now.after(Duration::from_secs(self.limits.chat_s.into())),
            key: None,
            meta: map::meta(request),
        })
    }

    /// A model that is the name of an agent is asked of that agent.
    fn agent_for(&self, model: &str) -> AgentId {
        let named = self.agents.iter().find(|agent| agent.as_str() == model);
        named.filter(|agent| self.principal.scopes.allows_agent(agent)).unwrap_or(&self.agent).clone()
    }

    /// Sees to it that the session of a chat exists, and that its events arrive here.
    fn take_part(&mut self, id: &RpcId, name: Option<&str>) {
        let Some(chat) = self.chats.get(id) else { return };
        let (session, link) = (chat.session.clone(), chat.link.clone());
        let counter = self.derive();
        let [a, b, c, ..] = self.seed.derive("epoch", counter);
        let epoch = u32::from_be_bytes([0, a, b, c]) + 1;
        let open = Op::Open { epoch, agent: self.agent.clone(), name: name.map(str::to_owned) };
        self.submit(&session, open, Pending::Nothing);
        self.follow(id, &session, None);
        if let Some(Link { attachment, generation }) = link {
            let window_ms = u64::from(self.limits.resume_s) * 1000;
            let op = Op::OpenAttachment { attachment, generation, secret: None, window_ms };
            self.submit(&session, op, Pending::Nothing);
        }
    }

    fn submit_turn(&mut self, id: &RpcId, new: NewTurn) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        let session = chat.session.clone();
        chat.submitted = Some(Box::new(new.clone()));
        self.submit(&session, Op::StartTurn(Box::new(new)), Pending::Start(id.clone()));
    }

    /// Follows a session on behalf of a chat.
    pub(super) fn follow(
        &mut self,
        id: &RpcId,
        session: &SessionId,
        from: Option<switchboard_core::Position>,
    ) {
        let users = self.followed.entry(session.clone()).or_default();
        *users += 1;
        if *users == 1 || from.is_some() {
            let request = self.request(Pending::Follow(id.clone()));
            self.out.push_back(Output::Attach(request, session.clone(), from));
        }
    }

    pub(super) fn start_rejected(&mut self, id: &RpcId, reject: &Reject) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        if let Reject::RateLimited { retry_after } = reject {
            chat.retry_at = Some(self.now.after(*retry_after));
            return;
        }
        let (code, message) = reject_words(reject);
        let body = code.body(Source::Server, message, self.error_id());
        self.fail(id, body);
    }

    pub(super) fn follow_rejected(&mut self, id: &RpcId, reject: &Reject) {
        if self.chats.get(id).is_some_and(|chat| chat.state != ChatState::Running) {
            self.start_rejected(id, reject);
        }
    }

    /// Starts again what came too fast.
    pub(super) fn retry(&mut self) {
        let now = self.now;
        let due: Vec<RpcId> = self
            .chats
            .iter_mut()
            .filter_map(|(id, chat)| chat.retry_at.take_if(|at| *at <= now).map(|_| id.clone()))
            .collect();
        for id in due {
            if let Some(new) = self.chats.get_mut(&id).and_then(|chat| chat.submitted.take()) {
                self.submit_turn(&id, *new);
            }
        }
    }

    /// Ends a chat that never had an answer; the client is told that it began (R11).
    fn fail(&mut self, id: &RpcId, body: ErrorBody) {
        let Some(chat) = self.chats.get(id) else { return };
        let began = chat.state == ChatState::Running;
        let task = chat.task.clone();
        if !began {
            self.ledger.advance(&task, TaskState::Running, self.now);
            if self.wire == Wire::Rpc {
                self.send(id, &ServerMessage::ChatStarted);
            }
        }
        self.end(id, TaskState::Failed, Terminal::Error(body));
    }

    /// The one end of a chat: its task changes first, then the client hears of it (R10).
    pub(super) fn end(&mut self, id: &RpcId, state: TaskState, terminal: Terminal) {
        let Some(chat) = self.chats.remove(id) else { return };
        self.ledger.advance(&chat.task, state, self.now);
        for abort in &chat.aborts {
            self.answer_abort(abort, id, false);
        }
        self.tell(id, terminal);
        self.part(&chat);
        if self.slot == Slot::Chat(id.clone()) {
            self.slot = Slot::Free;
            self.next();
        }
        if self.wire == Wire::Stream {
            self.hang_up();
        }
    }

    fn tell(&mut self, id: &RpcId, terminal: Terminal) {
        if self.wire == Wire::Rpc {
            let message = match terminal {
                Terminal::Done(reply) => ServerMessage::ChatDone { reply },
                Terminal::Error(body) => ServerMessage::ChatError(body),
            };
            return self.send(id, &message);
        }
        let frame = match terminal {
            Terminal::Done(reply) => codec::encode_done(&reply),
            Terminal::Error(body) => codec::encode_stream(&StreamEvent::Error(body)),
        };
        self.out.push_back(Output::Send(Frame::Text(frame)));
    }

    /// Lets go of what a chat that is over was tied to.
    fn part(&mut self, chat: &Chat) {
        if let Some(Link { attachment, generation }) = chat.link.clone() {
            let op = Op::CloseAttachment { attachment, generation };
            self.submit(&chat.session, op, Pending::Nothing);
        }
        self.unfollow(&chat.session);
    }

    pub(super) fn unfollow(&mut self, session: &SessionId) {
        let Some(users) = self.followed.get_mut(session) else { return };
        *users -= 1;
        if *users == 0 {
            self.followed.remove(session);
            self.out.push_back(Output::Detach(session.clone()));
        }
    }

    /// Takes the next chat, once everybody who still waits knows their new place (Q4).
    pub(super) fn next(&mut self) {
        if self.slot != Slot::Free {
            return;
        }
        let Some(id) = self.waiting.pop_front() else { return };
        self.tell_positions();
        self.begin(id);
    }

    fn tell_positions(&mut self) {
        let waiting: Vec<RpcId> = self.waiting.iter().cloned().collect();
        for (id, position) in waiting.iter().zip(1..) {
            self.send(id, &ServerMessage::ChatQueued { position });
        }
    }

    /// `chat.abort`
    pub(super) fn abort(&mut self, id: RpcId, request: RpcId) {
        let Some(chat) = self.chats.get_mut(&request) else { return self.answer_abort(&id, &request, false) };
        // Not handed to its session, so nobody has to be asked.
        if chat.state == ChatState::Waiting || chat.retry_at.is_some() {
            let queued = chat.state == ChatState::Waiting;
            self.waiting.retain(|waiting| *waiting != request);
            let body = Code::ABORTED.body(Source::Server, words::ABORTED, self.error_id());
            self.end(&request, TaskState::Cancelled, Terminal::Error(body));
            if queued {
                self.tell_positions();
            }
            return self.answer_abort(&id, &request, true);
        }
        chat.aborts.push(id);
        if chat.aborts.len() == 1 {
            let (session, turn) = (chat.session.clone(), chat.turn.clone());
            let op = Op::Interrupt { turn, reason: Some("abort_requested".into()) };
            self.submit(&session, op, Pending::Interrupt(request));
        }
    }

    /// The turn of a chat is stopped: nothing of it follows but this (R1).
    pub(super) fn interrupted(&mut self, request: &RpcId) {
        let Some(chat) = self.chats.get_mut(request) else { return };
        let aborts = std::mem::take(&mut chat.aborts);
        let (session, turn) = (chat.session.clone(), chat.turn.clone());
        let holds_slot = self.slot == Slot::Chat(request.clone());
        if holds_slot {
            // The next one has to wait until the agent has stopped.
            self.slot = Slot::Stopping(session.clone(), turn);
            *self.followed.entry(session).or_default() += 1;
        }
        let body = Code::ABORTED.body(Source::Server, words::ABORTED, self.error_id());
        self.end(request, TaskState::Cancelled, Terminal::Error(body));
        for abort in aborts {
            self.answer_abort(&abort, request, true);
        }
    }

    pub(super) fn interrupt_rejected(&mut self, request: &RpcId, reject: &Reject) {
        let Some(chat) = self.chats.get_mut(request) else { return };
        for abort in std::mem::take(&mut chat.aborts) {
            match reject {
                Reject::Unavailable { .. } | Reject::Busy => {
                    self.refuse(&abort, "The request cannot be aborted now. Try again shortly.");
                }
                // It has ended by itself, which the client is about to hear.
                _ => self.answer_abort(&abort, request, false),
            }
        }
    }

    fn answer_abort(&mut self, id: &RpcId, request: &RpcId, aborted: bool) {
        self.send(id, &ServerMessage::ChatAbortResult { request: request.clone(), aborted });
    }

    /// Ends every chat because the connection ends, with a terminal if the client can still hear it.
    pub(super) fn abandon(&mut self, reason: &str, terminal: Option<&str>) {
        let running: Vec<RpcId> =
            self.chats.keys().filter(|id| !self.waiting.contains(id)).cloned().collect();
        let waiting: Vec<RpcId> = self.waiting.drain(..).collect();
        for id in running.into_iter().chain(waiting) {
            self.abandon_one(&id, reason, terminal);
        }
    }

    fn abandon_one(&mut self, id: &RpcId, reason: &str, terminal: Option<&str>) {
        let Some(mut chat) = self.chats.remove(id) else { return };
        let session = chat.session.clone();
        if let Some(Link { attachment, generation }) = chat.link.clone() {
            // It goes on without us, and can be followed again.
            if let Some(request) = chat.request.take() {
                self.chats.insert(id.clone(), chat);
                self.promote(id, &request);
                self.chats.remove(id);
            } else {
                self.ledger.attend(&chat.task, false);
            }
            return self.submit(&session, Op::Detach { attachment, generation }, Pending::Nothing);
        }
        if !chat.own {
            return;
        }
        self.ledger.advance(&chat.task, TaskState::Cancelled, self.now);
        if chat.request.is_none() {
            let op = Op::Interrupt { turn: chat.turn, reason: Some(reason.to_owned()) };
            self.submit(&session, op, Pending::Nothing);
        }
        if let Some(message) = terminal {
            let body = Code::ABORTED.body(Source::Server, message, self.error_id());
            self.tell(id, Terminal::Error(body));
        }
    }

    /// Hands a chat that waits to its session, where it waits for the others instead.
    fn promote(&mut self, id: &RpcId, request: &ChatRequest) {
        let Ok(new) = self.new_turn(id, request) else { return };
        self.take_part(id, request.session_id.as_deref());
        let Some(chat) = self.chats.get(id) else { return };
        let (session, task) = (chat.session.clone(), chat.task.clone());
        self.ledger.attend(&task, false);
        let new = NewTurn { serial: true, ..new };
        self.submit(&session, Op::StartTurn(Box::new(new)), Pending::Nothing);
    }

    /// When the earliest chat that came too fast is tried again.
    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.chats.values().filter_map(|chat| chat.retry_at).min()
    }
}

/// How a chat ends for its client.
#[derive(Debug)]
pub(super) enum Terminal {
    Done(Box<crate::message::Reply>),
    Error(ErrorBody),
}
