//! INVOKE (§7), INTERRUPT (§9) and ERROR from the client.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard_core::model::{CallEnd, Executor, NewTurn, Origin, RequestKey, Tool, ToolChange};
use switchboard_core::{
    AgentId, CallId, Op, Position, Reject, RequestId, Right, SessionId, SessionView, ToolName, TurnId, hex,
};

use super::requests::{Queued, Request};
use super::resume::Handle;
use super::{AspConnection, Followed, Pending};
use crate::error::Code;
use crate::map::{self, OpenCall, Options};
use crate::message::{End, ErrorBody, Feature, Finish, Interrupt, Invoke, InvokeBody, Mode};
use crate::state::RequestState;
use crate::value::Value;

impl AspConnection {
    pub(super) fn invoke(&mut self, id: u16, invoke: Invoke, digest: Option<[u8; 32]>) {
        if !self.may_invoke(id) {
            return;
        }
        let window = self.wire.window;
        if self.requests.get(id).is_none() {
            let request = Request::new(RequestState::Receiving, self.link.home.clone(), window);
            self.requests.insert(id, request);
        }
        match invoke.body {
            InvokeBody::List => {
                self.set_state(id, RequestState::Running);
                self.push_all_tools();
                self.end_with(id, Finish::Complete);
            }
            InvokeBody::Result(result) => {
                let (parent, call) = (result.parent, CallId::from(result.call_id.as_str()));
                self.answer(id, parent, &OpenCall::Executed, call, map::call_end(result));
            }
            InvokeBody::Reply(reply) => {
                let (parent, call) = (reply.parent, CallId::from(reply.ask_id.as_str()));
                self.answer(id, parent, &OpenCall::Asked, call, map::answer(reply));
            }
            InvokeBody::Watch { turn } => self.watch(id, invoke.session.as_deref(), turn.as_deref()),
            InvokeBody::Chat(_) | InvokeBody::Tool { .. } | InvokeBody::Step(_) => {
                self.start(id, invoke, digest)
            }
        }
    }

    fn start(&mut self, id: u16, invoke: Invoke, digest: Option<[u8; 32]>) {
        let right = match &invoke.body {
            InvokeBody::Tool { .. } => Right::RunTool,
            InvokeBody::Chat(_)
            | InvokeBody::Step(_)
            | InvokeBody::Result(_)
            | InvokeBody::Reply(_)
            | InvokeBody::List
            | InvokeBody::Watch { .. } => Right::Ask,
        };
        if !self.principal.scopes.permit(right, None) {
            return self.fail_request(id, Code::Forbidden, right.refusal(), None);
        }
        let agent = invoke.agent.as_deref().map_or_else(|| self.agent.clone(), AgentId::from);
        if !self.principal.scopes.allows_agent(&agent) {
            let message = "the credential does not reach this agent";
            return self.fail_request(id, Code::Forbidden, message, None);
        }
        let Some(session) = self.session_of(id, &invoke) else {
            return self.fail_request(id, Code::QueueFull, "the connection follows too many sessions", None);
        };
        let Some(request) = map::turn_request(&invoke.body) else { return };
        let turn = self.fresh_turn();
        let handle = Handle { id, generation: self.link.generation, number: self.derived }.to_string();
        let options = Options::of(&invoke, self.largest());
        let key = match (&invoke.idem, digest) {
            (Some(key), Some(digest)) => Some(RequestKey { key: key.clone(), digest: hex(&digest) }),
            _ => None,
        };
        let origin = Origin {
            attachment: Some(self.link.attachment.clone()),
            handle: Some(handle),
            bound: true,
            options: options.store(self.wire.features, self.wire.heard),
            ..Origin::new(self.principal.id.clone(), "asp")
        };
        let deadline = self.now.after(Duration::from_millis(u64::from(invoke.deadline_ms)));
        let new = NewTurn {
            agent: Some(agent),
            // Without a session of their own, requests never wait for each other.
            serial: invoke.serial && invoke.session.is_some(),
            key,
            meta: invoke.meta.clone().map_or(Json::Null, |meta| Json::from(Value::Map(meta))),
            ..NewTurn::new(turn.clone(), request, origin, deadline)
        };
        self.requests.bind(id, session.clone(), turn);
        if let Some(request) = self.requests.get_mut(id) {
            request.state = RequestState::Queued;
            request.options = options;
            let shared = invoke.session.as_deref() == Some(session.as_str());
            request.fallback = shared.then(|| Box::new(new.clone()));
        }
        self.submit(&session, Op::StartTurn(Box::new(new)), Pending::Start(id));
    }

    /// The session that an INVOKE names, followed from now on. None when there are too many.
    fn session_of(&mut self, id: u16, invoke: &Invoke) -> Option<SessionId> {
        match invoke.session.as_deref() {
            None => {
                let home = self.link.home.clone();
                self.take_part(id, home, None, true)
            }
            // May be somebody else's that was shared; if not, it is a name like any other.
            Some(name) if SessionId::is_canonical(name) => {
                self.take_part(id, SessionId::from(name), None, false)
            }
            Some(name) => self.take_part(id, SessionId::named(&self.principal, name), Some(name), true),
        }
    }

    /// Makes sure, for the sake of a request, that this connection takes part in a session: it exists,
    /// knows of the attachment and of the client's tools, and its events arrive here.
    pub(super) fn take_part(
        &mut self,
        id: u16,
        session: SessionId,
        name: Option<&str>,
        open: bool,
    ) -> Option<SessionId> {
        self.derived += 1;
        let used = self.derived;
        if let Some(followed) = self.link.sessions.get_mut(&session).filter(|followed| !followed.missed) {
            followed.used = used;
            return Some(session);
        }
        let known = self.link.sessions.contains_key(&session);
        if !known && self.link.sessions.len() >= self.limits.sessions() && !self.leave_idle_session() {
            return None;
        }
        self.link.sessions.insert(session.clone(), Followed { used, ..Followed::default() });
        if open {
            self.submit_open(&session, name);
        }
        if self.link.durable && session != self.link.home {
            let attachment = self.link.attachment.clone();
            let (generation, window_ms) = (self.link.generation, self.window_ms());
            let op =
                Op::OpenAttachment { attachment: attachment.clone(), generation, secret: None, window_ms };
            self.submit(&session, op, Pending::Nothing);
            let home = self.link.home.clone();
            let link = Op::LinkAttachment { attachment, session: session.clone() };
            self.submit(&home, link, Pending::Nothing);
        }
        self.offer_tools(&session, Some(id));
        self.follow(&session, None);
        Some(session)
    }

    /// Offers the client's tools in a session that it takes part in because of this request.
    pub(super) fn offer_tools(&mut self, session: &SessionId, request: Option<u16>) {
        if !self.client_tools.is_empty() {
            let change = ToolChange { add: self.client_tools.clone(), remove: Vec::new(), turn: None };
            self.submit(session, Op::ChangeTools(change), Pending::Tools(request));
        }
    }

    /// What a client that has come back says of its tools counts from here on, in every session it takes part in.
    pub(super) fn offer_other_tools(&mut self, session: &SessionId, view: &SessionView) {
        if !self.client_tools_told {
            return;
        }
        let own = Executor::Attachment(self.link.attachment.clone());
        let known: Vec<&Tool> = view.tools.iter().filter(|tool| tool.executor == own).collect();
        let add: Vec<Tool> = self.client_tools.iter().filter(|tool| !known.contains(tool)).cloned().collect();
        let offered = |name: &ToolName| self.client_tools.iter().any(|tool| tool.name == *name);
        let remove: Vec<ToolName> =
            known.into_iter().map(|tool| tool.name.clone()).filter(|name| !offered(name)).collect();
        if !add.is_empty() || !remove.is_empty() {
            let change = ToolChange { add, remove, turn: None };
            self.submit(session, Op::ChangeTools(change), Pending::Tools(None));
        }
    }

    /// A client that waits for calls has to know that none will come. A refusal for any other reason
    /// befalls the request, too, which tells it.
    pub(super) fn tools_rejected(&mut self, request: Option<u16>, reject: &Reject) {
        if matches!(reject, Reject::Invalid(_) | Reject::Limit { .. }) {
            let error =
                ErrorBody::new(Code::BadPayload, &format!("the client's tools are refused: {reject}"));
            self.send_error(0, &request.into_iter().fold(error, ErrorBody::about));
        }
    }

    pub(super) fn submit_open(&mut self, session: &SessionId, name: Option<&str>) {
        let counter = self.derive();
        let op = Op::Open {
            epoch: self.seed.epoch(counter),
            agent: self.principal.scopes.reachable(&self.agent, &self.agents),
            name: name.map(str::to_owned),
        };
        self.submit(session, op, Pending::Nothing);
    }

    pub(super) fn follow(&mut self, session: &SessionId, from: Option<Position>) -> RequestId {
        let request = self.request(Pending::Follow(session.clone()));
        self.out.push_back(switchboard_core::Output::Attach(request, session.clone(), from));
        request
    }

    /// Stops following the session that was not used for the longest time.
    fn leave_idle_session(&mut self) -> bool {
        let busy = |session: &SessionId| self.requests.iter().any(|(_, request)| request.session == *session);
        let idle = self
            .link
            .sessions
            .iter()
            .filter(|(session, _)| **session != self.link.home && !busy(session))
            .min_by_key(|(_, followed)| followed.used)
            .map(|(session, _)| session.clone());
        let Some(session) = idle else { return false };
        self.link.sessions.remove(&session);
        if self.link.durable {
            let (attachment, generation) = (self.link.attachment.clone(), self.link.generation);
            self.submit(&session, Op::CloseAttachment { attachment, generation }, Pending::Nothing);
        }
        self.out.push_back(switchboard_core::Output::Detach(session));
        true
    }

    pub(super) fn turn_accepted(
        &mut self,
        id: u16,
        session: SessionId,
        turn: TurnId,
        accepted: Position,
        replayed: bool,
    ) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.fallback = None;
        request.accepted = accepted.seq;
        let followed = self.link.sessions.get(&session).is_some_and(|followed| !followed.missed);
        if !replayed && request.session == session && followed {
            return;
        }
        // The key was used before: this request stands for that turn, from its beginning. The key may
        // also lead to another session that has forgotten it; the turn is then new, but runs there. Or the
        // session is not followed, because the log failed just when that was asked for.
        if request.cancelled {
            let op = Op::Interrupt { turn: turn.clone(), reason: None };
            self.submit(&session, op, Pending::Cancel(id, turn.clone()));
        }
        self.requests.bind(id, session.clone(), turn);
        self.link.sessions.entry(session.clone()).or_default().missed = false;
        let seq = self.requests.settled(&session).unwrap_or(0);
        let follow = self.follow(&session, Some(Position { epoch: accepted.epoch, seq }));
        if let Some(request) = self.requests.get_mut(id) {
            request.joins = Some(follow);
        }
    }

    pub(super) fn turn_rejected(&mut self, id: u16, reject: &Reject) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.cancelled {
            return self.end_interrupted(id);
        }
        if *reject == Reject::NotFound
            && let Some(turn) = request.fallback.take()
        {
            let shared = request.session.clone();
            self.link.sessions.remove(&shared);
            let own = SessionId::named(&self.principal, shared.as_str());
            if self.take_part(id, own.clone(), Some(shared.as_str()), true).is_some() {
                self.requests.bind(id, own.clone(), turn.turn.clone());
                return self.submit(&own, Op::StartTurn(turn), Pending::Start(id));
            }
        }
        let (code, retry_ms) = map::reject_code(reject);
        self.fail_request(id, code, &reject.to_string(), retry_ms);
    }

    /// Answers a call or a question of another request; `kind` is what a client answers in this way.
    fn answer(&mut self, id: u16, parent: u16, kind: &OpenCall, call: CallId, end: CallEnd) {
        self.set_state(id, RequestState::Running);
        let target = self.requests.get(parent).and_then(|parent| {
            let known = match parent.calls.get(&call) {
                Some(known) => known == kind,
                // After a resume, calls become known by and by; until then the session knows better.
                None => parent.seen < parent.replay_until,
            };
            (known && !parent.cancelled).then(|| (parent.session.clone(), parent.turn.clone()))
        });
        let Some((session, Some(turn))) = target else {
            return self.fail_request(
                id,
                Code::CallGone,
                "no such call or question is open; a call takes a result, a question a reply",
                None,
            );
        };
        self.submit(&session, Op::Answer { turn, call, end }, Pending::Answer(id));
    }

    pub(super) fn end_accepted(&mut self, id: u16) {
        self.end_with(id, Finish::Accepted);
    }

    pub(super) fn interrupt(&mut self, id: u16, interrupt: &Interrupt) {
        let over = interrupt.mode != Mode::Credit && self.buckets.interrupts.take(1, self.now).is_err();
        match interrupt.mode {
            Mode::Cancel if id == 0 => {
                for id in self.requests.ids() {
                    self.cancel(id, interrupt.reason.as_deref());
                }
            }
            Mode::Cancel if self.requests.get(id).is_some() => self.cancel(id, interrupt.reason.as_deref()),
            // Only what stops something may come faster than the rate allows.
            _ if over => self.note_drop(),
            Mode::Credit | Mode::Pause | Mode::Resume if self.requests.get(id).is_some() => {
                if let Some(request) = self.requests.get_mut(id) {
                    match interrupt.mode {
                        Mode::Pause => request.paused = true,
                        Mode::Resume => request.paused = false,
                        Mode::Credit => {
                            let bytes = i64::try_from(interrupt.bytes.unwrap_or(0)).unwrap_or(i64::MAX);
                            request.window = request.window.saturating_add(bytes).min(MAX_WINDOW);
                        }
                        Mode::Cancel => {}
                    }
                }
                self.flush(id);
            }
            Mode::Pause | Mode::Resume if id == 0 => {
                for id in self.requests.ids() {
                    if let Some(request) = self.requests.get_mut(id) {
                        request.paused = interrupt.mode == Mode::Pause;
                    }
                    self.flush(id);
                }
            }
            Mode::Cancel | Mode::Credit | Mode::Pause | Mode::Resume => {
                if !self.requests.is_buried(id, self.now) {
                    let error = ErrorBody::new(Code::UnknownRequest, "the id was never used").about(id);
                    self.offence(0, &error);
                }
            }
        }
    }

    /// The client cannot go on with a request: the same as a cancel.
    pub(super) fn client_error(&mut self, id: u16) {
        if id != 0 && self.requests.get(id).is_some() {
            self.cancel(id, Some("client_error"));
        }
    }

    /// Stops a request; its terminal frame follows when its turn has ended.
    fn cancel(&mut self, id: u16, reason: Option<&str>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.cancelled {
            return;
        }
        request.cancelled = true;
        // The turn may be over, its end waiting behind output that is not wanted any more.
        let over = matches!(request.queue.back(), Some(Queued::Ending { .. }));
        request.queue.clear();
        request.queued_bytes = 0;
        match (&request.turn, request.state) {
            (_, RequestState::Receiving) => {
                self.assembler.abort(id);
                self.end_interrupted(id);
            }
            _ if over => self.end_interrupted(id),
            (Some(turn), _) => {
                let (turn, session) = (turn.clone(), request.session.clone());
                let op = Op::Interrupt { turn: turn.clone(), reason: reason.map(str::to_owned) };
                self.submit(&session, op, Pending::Cancel(id, turn));
            }
            // A `result` or `reply` is on its way and ends by itself; its id stays in use until then.
            (None, _) => {}
        }
    }

    pub(super) fn end_interrupted(&mut self, id: u16) {
        self.end_with(id, Finish::Interrupted);
    }

    /// A turn that cannot be interrupted is over. Its end may lie in the log behind output that the client held
    /// back and does not want any more, so the request ends here. A turn that is not accepted yet is another
    /// matter: whatever answers the INVOKE sees that the request is cancelled.
    pub(super) fn cancel_rejected(&mut self, id: u16, turn: &TurnId) {
        let over = |request: &Request| request.turn.as_ref() == Some(turn) && request.accepted > 0;
        if self.requests.get(id).is_some_and(over) {
            self.end_interrupted(id);
        }
    }

    /// A cancel could not be passed on: the work goes on without the client, which is told so.
    pub(super) fn abandon(&mut self, id: u16, turn: &TurnId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.turn.as_ref() == Some(turn) {
            let n = request.last_number();
            let end = End { abandoned: true, ..End::new(Finish::Interrupted) };
            self.send_ending(id, n, &map::Ending::End(end), false);
        }
    }

    fn end_with(&mut self, id: u16, finish: Finish) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let n = request.last_number();
        self.send_ending(id, n, &map::Ending::End(End::new(finish)), false);
    }

    pub(super) fn set_state(&mut self, id: u16, state: RequestState) {
        if let Some(request) = self.requests.get_mut(id) {
            request.state = state;
        }
    }

    /// How long an attachment lives without a transport.
    pub(super) fn window_ms(&self) -> u64 {
        u64::from(self.limits.resume_s) * 1000
    }

    /// Whether the client executes calls.
    pub(super) fn client_executes(&self) -> bool {
        self.wire.features.has(Feature::ClientTools)
    }
}

const MAX_WINDOW: i64 = 1 << 40;
