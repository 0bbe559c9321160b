//! One request and its answer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use switchboard_core::model::Tool;
use switchboard_core::{
    AgentId, Asked, Close, Connection, Event, Found, Frame, Head, Input, Lookup, Op, Output, Position,
    Principal, Reject, Reply, Seed, SessionId, Timestamp, TurnId, Upgrade, Violation, Within,
};

use crate::annals::tables;
use crate::deed::CHRONICLE;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::protocol::{Alicia, Service};
use crate::rows;

use super::Problem;
use super::render::StoredConversation;
use super::request::Request;

/// One request and its answer. What is to be done with what it asks for waits beside the question.
pub(super) struct Exchange {
    pub(super) limits: Arc<AliciaLimits>,
    pub(super) service: Service,
    pub(super) principal: Principal,
    pub(super) agent: AgentId,
    /// What that agent executes itself.
    pub(super) tools: Vec<Tool>,
    pub(super) seed: Seed,
    pub(super) request: Request,
    pub(super) now: Timestamp,
    asked: Asked<Then>,
    /// A turn whose end is waited for.
    awaited: Option<Awaited>,
    /// What a session is told once the reply was written, or cannot be.
    last: Option<(SessionId, Op)>,
    out: VecDeque<Output>,
}

/// A turn whose end is waited for, and what is to be done then.
struct Awaited {
    turn: TurnId,
    then: Box<dyn FnOnce(&mut Exchange) + Send>,
}

/// What is to be done with an answer.
type Then = Box<dyn FnOnce(&mut Exchange, Result<Reply, Reject>) + Send>;

impl Exchange {
    pub(super) fn new(protocol: &Alicia, upgrade: Upgrade, seed: Seed) -> Self {
        let Upgrade { principal, agent, agents, tools, request, now, .. } = upgrade;
        Self {
            limits: protocol.limits.clone(),
            service: protocol.service.clone(),
            agent: principal.scopes.reachable(&agent, &agents),
            principal,
            tools,
            seed,
            request: Request(request),
            now,
            asked: Asked::default(),
            awaited: None,
            last: None,
            out: VecDeque::new(),
        }
    }

    /// Asks a session, and goes on with its answer.
    pub(super) fn submit(
        &mut self,
        session: &SessionId,
        op: Op,
        then: impl FnOnce(&mut Self, Result<Reply, Reject>) + Send + 'static,
    ) {
        let request = self.asked.ask(Box::new(then));
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    /// Waits for the end of a turn that was accepted at this place.
    pub(super) fn wait_for(
        &mut self,
        session: &SessionId,
        turn: TurnId,
        accepted: Position,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.awaited = Some(Awaited { turn, then: Box::new(then) });
        let request = self.asked.ask(Box::new(|exchange, outcome| {
            if let Err(reject) = outcome {
                exchange.refuse(&reject.into());
            }
        }));
        self.out.push_back(Output::Attach(request, session.clone(), Some(accepted)));
    }

    fn committed(&mut self, event: &Event) {
        let ended =
            |awaited: &mut Awaited| matches!(event, Event::TurnEnded { turn, .. } if *turn == awaited.turn);
        if let Some(Awaited { then, .. }) = self.awaited.take_if(ended) {
            then(self);
        }
    }

    /// Asks a session one thing after another, and goes on when all of it is done.
    pub(super) fn submit_all(
        &mut self,
        session: SessionId,
        mut ops: VecDeque<Op>,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let Some(op) = ops.pop_front() else { return then(self) };
        self.submit(&session.clone(), op, move |exchange, outcome| match outcome {
            Ok(_) => exchange.submit_all(session, ops, then),
            Err(reject) => exchange.refuse(&reject.into()),
        });
    }

    /// Looks something up, whatever comes of it.
    pub(super) fn try_look(
        &mut self,
        lookup: Lookup,
        then: impl FnOnce(&mut Self, Result<Reply, Reject>) + Send + 'static,
    ) {
        let request = self.asked.ask(Box::new(then));
        self.out.push_back(Output::Look(request, Box::new(lookup)));
    }

    /// Looks something up, and goes on with the rows.
    pub(super) fn look(&mut self, lookup: Lookup, then: impl FnOnce(&mut Self, Vec<Found>) + Send + 'static) {
        self.try_look(lookup, move |exchange, outcome| match outcome {
            Ok(Reply::Rows(rows)) => then(exchange, rows),
            Ok(_) => exchange.refuse(&Reject::Busy.into()),
            Err(reject) => exchange.refuse(&reject.into()),
        });
    }

    /// The conversation that the path names. One that another protocol has begun is taken over.
    pub(super) fn with_conversation(
        &mut self,
        then: impl FnOnce(&mut Self, SessionId, StoredConversation) + Send + 'static,
    ) -> Result<(), Problem> {
        let id = self.request.named().ok_or_else(Problem::no_conversation)?;
        let session = SessionId::new(id.as_str());
        self.look_conversation(&session.clone(), move |exchange, found| match found {
            Some(conversation) => then(exchange, session, conversation),
            None => {
                let adopt = VecDeque::from([Op::Chronicle { chronicle: CHRONICLE.into() }]);
                exchange.submit_all(session.clone(), adopt, move |exchange| {
                    exchange.look_conversation(&session.clone(), move |exchange, found| match found {
                        Some(conversation) => then(exchange, session, conversation),
                        None => exchange.refuse(&Problem::no_conversation()),
                    });
                });
            }
        });
        Ok(())
    }

    pub(super) fn look_conversation(
        &mut self,
        session: &SessionId,
        then: impl FnOnce(&mut Self, Option<StoredConversation>) + Send + 'static,
    ) {
        let Ok(id) = Id::new(session.as_str()) else { return self.refuse(&Problem::no_conversation()) };
        let lookup = rows::by_id(&tables::CONVERSATIONS, Within::Session(session.clone()), &id);
        self.look(lookup, move |exchange, rows| {
            then(exchange, rows.first().and_then(StoredConversation::read));
        });
    }

    pub(super) fn refuse(&mut self, problem: &Problem) {
        let mut headers = vec![("content-type", JSON.to_owned())];
        if let Some(retry_ms) = problem.retry_ms {
            headers.push(("retry-after", retry_ms.div_ceil(1_000).max(1).to_string()));
        }
        self.say(problem.status, headers, problem.body().to_string().into());
    }

    pub(super) fn answer(&mut self, status: u16, body: &Value) {
        self.answer_as(status, JSON, body.to_string().into());
    }

    pub(super) fn answer_as(&mut self, status: u16, media: &str, body: Bytes) {
        self.say(status, vec![("content-type", media.to_owned())], body);
    }

    pub(super) fn answer_empty(&mut self) {
        self.say(204, Vec::new(), Bytes::new());
    }

    fn say(&mut self, status: u16, headers: Vec<(&'static str, String)>, body: Bytes) {
        self.out.push_back(Output::Send(Frame::Head(Box::new(Head { status, headers }))));
        if !body.is_empty() {
            self.out.push_back(Output::Send(Frame::Binary(body)));
        }
        self.end();
    }

    /// What a session is told once the reply was written, or cannot be.
    pub(super) fn tell_last(&mut self, session: SessionId, op: Op) {
        self.last = Some((session, op));
    }

    /// There is nothing to be told after all.
    pub(super) fn tell_nothing_last(&mut self) {
        self.last = None;
    }

    fn end(&mut self) {
        self.out.extend(self.last.take().map(|(session, op)| Output::SubmitLast(session, op)));
        self.out.push_back(Output::Close(DONE));
    }

    fn receive(&mut self, body: &[u8]) {
        if let Err(problem) = self.begin(body) {
            self.refuse(&problem);
        }
    }
}

impl Connection for Exchange {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        match input {
            Input::Frame(Frame::Text(text)) => self.receive(text.as_bytes()),
            Input::Frame(Frame::Binary(bytes)) => self.receive(&bytes),
            Input::Done(request, reply) => {
                if let Some(then) = self.asked.answered(request) {
                    then(self, Ok(reply));
                }
            }
            Input::Rejected(request, reject) => {
                if let Some(then) = self.asked.answered(request) {
                    then(self, Err(reject));
                }
            }
            Input::Committed(_, committed) => self.committed(&committed.event),
            Input::Closed(_) => self.end(),
            Input::Frame(Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_))
            | Input::Signal(_)
            | Input::Voice(_)
            | Input::Timeout
            | Input::Backlog(_)
            | Input::Drain { .. } => {}
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or(Output::Idle { wake: None })
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exchange").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The media type of nearly everything.
pub(super) const JSON: &str = "application/json";
const DONE: Close = Close { code: 1000, reason: "" };
