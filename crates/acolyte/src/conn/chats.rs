//! Chats: started, queued, handed to their session, ended (§5, §7).

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
        self.take_in(id, &request);
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
        // Nobody else can see it, so any id will do.
        self.take_in(RpcId::unknown(), &request);
    }

    /// Hands a chat to its session. The client hears of it when that is committed: what it knows of is in the log,
    /// whatever becomes of this process.
    fn take_in(&mut self, id: RpcId, request: &ChatRequest) {
        let mut chat = self.chat(request);
        if self.slot == Slot::Free {
            self.slot = Slot::Chat(id.clone());
            chat.state = ChatState::Starting;
        } else {
            self.waiting.push_back(id.clone());
        }
        let new = self.new_turn(&id, &chat, request);
        self.chats.insert(id.clone(), chat);
        match new {
            Err(why) => {
                let body = Code::UNKNOWN.body(Source::Server, why, self.error_id());
                self.fail(&id, body);
            }
            Ok(new) => {
                self.take_part(&id, request.session_id.as_deref());
                self.submit_turn(&id, new);
            }
        }
    }

    /// Tells the client that its chat was taken, and, where others go first, which place it has.
    pub(super) fn accept(&mut self, id: &RpcId) {
        self.acknowledge(id);
        let Some(place) = self.waiting.iter().position(|waiting| waiting == id) else { return };
        let Some(chat) = self.chats.get(id) else { return };
        self.ledger.advance(&chat.task, TaskState::Queued, self.now);
        self.send(id, &ServerMessage::ChatQueued { position: place as u64 + 1 });
    }

    pub(super) fn acknowledge(&mut self, id: &RpcId) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        chat.submitted = None;
        if std::mem::replace(&mut chat.accepted, true) {
            return;
        }
        let task = chat.task.clone();
        self.ledger.accept(task.clone(), self.principal.id.clone(), chat.session.clone(), self.now);
        match self.wire {
            Wire::Rpc => self.send(id, &ServerMessage::ChatAccepted { task }),
            Wire::Stream => {
                let head = Head {
                    status: 200,
                    headers: vec![
                        ("content-type", "text/event-stream".into()),
                        ("cache-control", "no-cache".into()),
                        ("connection", "keep-alive".into()),
                        ("acolyte-task-id", task.to_string()),
                    ],
                };
                self.clock.sent_at = self.now;
                self.out.push_back(Output::Send(Frame::Head(Box::new(head))));
            }
        }
    }

    fn chat(&mut self, request: &ChatRequest) -> Chat {
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
            submitted: None,
            accepted: false,
            aborts: Vec::new(),
            said_at: self.now,
            retry_at: None,
            own: true,
            follows: false,
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

    /// Gives a chat that waited the connection's one place.
    fn begin(&mut self, id: RpcId) {
        let Some(chat) = self.chats.get_mut(&id) else { return };
        chat.state = ChatState::Starting;
        let put_off = chat.is_put_off();
        self.slot = Slot::Chat(id.clone());
        if !put_off {
            self.release(&id);
        }
    }

    fn release(&mut self, id: &RpcId) {
        let Some(chat) = self.chats.get(id) else { return };
        let (session, turn) = (chat.session.clone(), chat.turn.clone());
        let deadline = self.now.after(Duration::from_secs(self.limits.chat_s.into()));
        self.submit(&session, Op::Release { turn, deadline }, Pending::Release(id.clone()));
    }

    /// What the session did not take for the moment is tried again.
    pub(super) fn release_rejected(&mut self, id: &RpcId, reject: &Reject) {
        // Otherwise it is over, and the client hears of that as it does of every end.
        if matches!(reject, Reject::RateLimited { .. } | Reject::Busy | Reject::Unavailable { .. })
            && let Some(chat) = self.chats.get_mut(id)
        {
            chat.retry_at = Some(self.now.after(RELEASE_AGAIN));
        }
    }

    /// The turn of a chat, or why there can be none.
    pub(super) fn new_turn(
        &self,
        id: &RpcId,
        chat: &Chat,
        request: &ChatRequest,
    ) -> Result<NewTurn, &'static str> {
        if !request.has_known_resource() {
            return Err("The resource id is not valid");
        }
        let entries = request.entries().ok_or("The history holds an entry that cannot be used")?;
        let history = map::told(request, entries);
        if request.message.is_empty() && history.is_empty() {
            return Err("There is nothing to ask");
        }
        let origin = Origin {
            attachment: chat.link.as_ref().map(|link| link.attachment.clone()),
            handle: Some(id.to_string()),
            bound: true,
            options: Rendering::options(request),
            ..Origin::new(self.principal.id.clone(), map::PROTOCOL)
        };
        let held = chat.state == ChatState::Waiting;
        // Those that go first may take as long each.
        let ahead = if held { self.waiting.len() as u64 } else { 0 };
        let deadline = self.now.after(Duration::from_secs(u64::from(self.limits.chat_s) * (1 + ahead)));
        Ok(NewTurn {
            agent: Some(self.agent_for(&request.model)),
            history: Some(history),
            workspace: request.workspace.clone(),
            // The client tells the history, so nothing has to wait for it (R7).
            serial: false,
            held,
            meta: map::meta(request),
            setting: map::setting(request).map(Box::new),
            ..NewTurn::new(chat.turn.clone(), map::turn_request(request), origin, deadline)
        })
    }

    /// A model that is the name of an agent is asked of that agent.
    fn agent_for(&self, model: &str) -> AgentId {
        let named = self.agents.iter().find(|agent| agent.as_str() == model);
        named.filter(|agent| self.principal.scopes.allows_agent(agent)).unwrap_or(&self.agent).clone()
    }

    /// Sees to it that the session of a chat exists, and that its events arrive here.
    fn take_part(&mut self, id: &RpcId, name: Option<&str>) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        chat.follows = true;
        let (session, link) = (chat.session.clone(), chat.link.clone());
        self.open(&session, name);
        self.follow(&session);
        if let Some(link) = link {
            self.open_attachment(&session, link);
        }
    }

    pub(super) fn open(&mut self, session: &SessionId, name: Option<&str>) {
        let counter = self.derive();
        let epoch = self.seed.epoch(counter);
        let open = Op::Open { epoch, agent: self.agent.clone(), name: name.map(str::to_owned) };
        self.submit(session, open, Pending::Nothing);
    }

    pub(super) fn open_attachment(&mut self, session: &SessionId, link: Link) {
        let Link { attachment, generation } = link;
        let window_ms = u64::from(self.limits.resume_s) * 1000;
        let op = Op::OpenAttachment { attachment, generation, secret: None, window_ms };
        self.submit(session, op, Pending::Nothing);
    }

    fn submit_turn(&mut self, id: &RpcId, new: NewTurn) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        let session = chat.session.clone();
        chat.submitted = Some(Box::new(new.clone()));
        self.submit(&session, Op::StartTurn(Box::new(new)), Pending::Start(id.clone()));
    }

    pub(super) fn start_rejected(&mut self, id: &RpcId, reject: &Reject) {
        let Some(chat) = self.chats.get_mut(id) else { return };
        if let Reject::RateLimited { retry_after } = reject {
            chat.retry_at = Some(self.now.after(*retry_after));
            if !chat.aborts.is_empty() {
                // It was to be stopped meanwhile, and now never starts.
                self.end_aborted(id);
            }
            return;
        }
        let (code, message) = reject_words(reject);
        let passing = matches!(reject, Reject::Busy | Reject::Unavailable { .. } | Reject::Draining);
        if passing && !chat.accepted && self.wire == Wire::Rpc {
            return self.turn_away(id, &message);
        }
        let body = code.body(Source::Server, message, self.error_id());
        self.fail(id, body);
    }

    /// Refuses a chat that could not be stored: it has had no effect, and may be sent again.
    fn turn_away(&mut self, id: &RpcId, why: &str) {
        let Some(chat) = self.chats.remove(id) else { return };
        self.refuse(id, why);
        for abort in &chat.aborts {
            self.answer_abort(abort, id, false);
        }
        self.leave(id, &chat);
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
            let Some(chat) = self.chats.get_mut(&id) else { continue };
            let waits = chat.state == ChatState::Waiting;
            match chat.submitted.take() {
                Some(new) => self.submit_turn(&id, NewTurn { held: waits, ..*new }),
                None => self.release(&id),
            }
        }
    }

    /// Ends a chat that never had an answer; the client is told that it began (R11).
    pub(super) fn fail(&mut self, id: &RpcId, body: ErrorBody) {
        self.acknowledge(id);
        let Some(chat) = self.chats.get(id) else { return };
        if chat.state != ChatState::Running {
            if chat.is_kept() {
                self.ledger.advance(&chat.task, TaskState::Running, self.now);
            }
            // Never before its turn.
            if self.wire == Wire::Rpc && chat.state == ChatState::Starting {
                self.send(id, &ServerMessage::ChatStarted);
            }
        }
        self.end(id, TaskState::Failed, Terminal::Error(body));
    }

    /// The one end of a chat: its task changes first, then the client hears of it (R10), then
    /// everybody who still waits, and last whoever asked for the end.
    pub(super) fn end(&mut self, id: &RpcId, state: TaskState, terminal: Terminal) {
        self.acknowledge(id);
        let Some(chat) = self.chats.remove(id) else { return };
        if chat.is_kept() {
            self.ledger.advance(&chat.task, state, self.now);
        }
        self.tell(id, terminal);
        if chat.state == ChatState::Waiting {
            self.waiting.retain(|waiting| waiting != id);
            self.tell_positions();
        }
        for abort in &chat.aborts {
            self.answer_abort(abort, id, state == TaskState::Cancelled);
        }
        self.leave(id, &chat);
        if self.wire == Wire::Stream {
            self.hang_up();
        }
    }

    /// Makes room for the others after a chat that is gone.
    fn leave(&mut self, id: &RpcId, chat: &Chat) {
        let waiting = self.waiting.len();
        self.waiting.retain(|waiting| waiting != id);
        if self.waiting.len() < waiting {
            self.tell_positions();
        }
        self.part(chat);
        if self.slot == Slot::Chat(id.clone()) {
            self.slot = Slot::Free;
            self.next();
        }
    }

    pub(super) fn tell(&mut self, id: &RpcId, terminal: Terminal) {
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
    pub(super) fn part(&mut self, chat: &Chat) {
        if !chat.follows {
            return;
        }
        if let Some(Link { attachment, generation }) = chat.link.clone() {
            let op = Op::CloseAttachment { attachment, generation };
            self.submit(&chat.session, op, Pending::Nothing);
        }
        self.unfollow(&chat.session);
    }

    /// Takes the next chat, once everybody who still waits knows their new place (Q4).
    pub(super) fn next(&mut self) {
        // What waits when the server leaves, waits for the server that comes after it.
        if self.slot != Slot::Free || self.leaving {
            return;
        }
        let Some(id) = self.waiting.pop_front() else { return };
        self.tell_positions();
        self.begin(id);
    }

    fn tell_positions(&mut self) {
        let waiting: Vec<RpcId> = self.waiting.iter().cloned().collect();
        for (id, position) in waiting.iter().zip(1..) {
            if self.chats.get(id).is_some_and(|chat| chat.accepted) {
                self.send(id, &ServerMessage::ChatQueued { position });
            }
        }
    }

    /// When the earliest chat that came too fast is tried again.
    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.chats.values().filter_map(|chat| chat.retry_at).min()
    }
}

/// When a chat that could not be released is tried again.
const RELEASE_AGAIN: Duration = Duration::from_millis(500);

/// How a chat ends for its client.
#[derive(Debug)]
pub(super) enum Terminal {
    Done(Box<crate::message::Reply>),
    Error(ErrorBody),
}
