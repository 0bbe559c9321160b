//! One request and its answer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_core::{
    AgentId, Asked, Close, Connection, Found, Frame, Head, Input, Lookup, Op, OpeningRequest, Output, Pii,
    Reject, Reply, Seed, SessionId, Timestamp, Upgrade, Violation,
};

use crate::errand::Errand;
use crate::error::{Code, Fault};
use crate::limits::VipLimits;
use crate::protocol::{self, Service, Vip, failure};
use crate::record::SessionRecord;
use crate::token::SessionClaims;

use super::{JSON, Recent, headers_of};

/// One request and its answer. What is to be done with what it asks for waits beside the question.
pub(super) struct Exchange {
    pub(super) limits: Arc<VipLimits>,
    pub(super) service: Arc<Service>,
    pub(super) recent: Arc<Recent>,
    pub(super) agent: AgentId,
    pub(super) seed: Seed,
    pub(super) request: OpeningRequest,
    pub(super) known: Option<(SessionClaims, SessionRecord)>,
    pub(super) now: Timestamp,
    /// When the request came.
    pub(super) began: Timestamp,
    /// By whom, and under which key, an answer is expected that others have to wait for.
    pub(super) reserved: Option<(String, String)>,
    asked: Asked<Then>,
    /// What is to be tried again, and when.
    later: Option<(Timestamp, Retry)>,
    out: VecDeque<Output>,
}

/// What is to be done with an answer.
type Then = Box<dyn FnOnce(&mut Exchange, Result<Reply, Reject>) + Send>;
/// What is to be done later.
type Retry = Box<dyn FnOnce(&mut Exchange) + Send>;

impl Exchange {
    pub(super) fn new(
        protocol: &Vip,
        upgrade: Upgrade,
        known: Option<(SessionClaims, SessionRecord)>,
        seed: Seed,
    ) -> Self {
        let Upgrade { agent, request, now, .. } = upgrade;
        Self {
            limits: protocol.limits.clone(),
            service: protocol.service.clone(),
            recent: protocol.recent.clone(),
            agent,
            seed,
            request,
            known,
            now,
            began: now,
            reserved: None,
            asked: Asked::default(),
            later: None,
            out: VecDeque::new(),
        }
    }

    fn begin(&mut self, body: &[u8]) -> Result<(), Fault> {
        use switchboard_core::Method;

        match (self.request.path, self.request.method) {
            (protocol::DISCOVERY, _) => self.discover(),
            (protocol::KEYS, _) => self.show_keys(),
            (protocol::SESSIONS, _) => self.create(body)?,
            (protocol::SESSION, Method::Delete) => self.hang_up()?,
            (protocol::SESSION, _) => self.show_status()?,
            (protocol::TOKEN, _) => self.renew()?,
            (protocol::CREDENTIAL, _) => self.refresh_credential()?,
            (protocol::WEBRTC, _) => self.offer(body)?,
            (protocol::PEER, Method::Delete) => self.end_peer()?,
            (protocol::PEER, _) => self.trickle(body)?,
            (protocol::FUNCTION, _) => self.call_function(body)?,
            (protocol::HISTORY, _) => self.show_history()?,
            _ => return Err(Fault::new(Code::SesNotFound)),
        }
        Ok(())
    }

    /// The session that the request is about, and the claims that came with it.
    pub(super) fn session(&self) -> Result<(&SessionClaims, &SessionRecord), Fault> {
        self.known.as_ref().map(|(claims, record)| (claims, record)).ok_or_else(|| {
            // Only the endpoint that takes two kinds of tokens comes so far without.
            Fault::new(Code::AuthTokenInvalid)
        })
    }

    /// A header of the request.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.request.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The token after `Bearer`.
    pub(super) fn bearer(&self) -> Option<String> {
        self.request.bearer().ok()?.map(|Pii(token)| token)
    }

    /// The origin under which clients reach the server.
    pub(super) fn base(&self) -> String {
        let base = self.service.public_url.as_deref().unwrap_or(&self.request.origin);
        base.trim_end_matches('/').to_owned()
    }

    pub(super) fn issuer(&self) -> String {
        self.service.issuer.clone().unwrap_or_else(|| self.base())
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
            Err(reject) => exchange.refuse(&fault_of(&reject)),
        });
    }

    /// Looks something up, and goes on with the rows.
    pub(super) fn look(&mut self, lookup: Lookup, then: impl FnOnce(&mut Self, Vec<Found>) + Send + 'static) {
        let request = self.asked.ask(Box::new(move |exchange: &mut Self, outcome| match outcome {
            Ok(Reply::Rows(rows)) => then(exchange, rows),
            Ok(_) => exchange.refuse(&Fault::new(Code::Internal)),
            Err(Reject::NotFound) => then(exchange, Vec::new()),
            Err(reject) => exchange.refuse(&fault_of(&reject)),
        }));
        self.out.push_back(Output::Look(request, Box::new(lookup)));
    }

    /// Has an errand run, and goes on with its answer.
    pub(super) fn send_out<A: DeserializeOwned>(
        &mut self,
        errand: &Errand,
        then: impl FnOnce(&mut Self, A) + Send + 'static,
    ) {
        let errand = Pii(serde_json::to_value(errand).unwrap_or(Value::Null));
        let request = self.asked.ask(Box::new(move |exchange: &mut Self, outcome| match outcome {
            Ok(Reply::Errand(errand)) => match failure(&errand.answer.0) {
                Some(fault) => exchange.refuse(&fault),
                None => match serde_json::from_value(errand.answer.0) {
                    Ok(answer) => then(exchange, answer),
                    Err(_) => exchange.refuse(&Fault::new(Code::Internal)),
                },
            },
            Ok(_) => exchange.refuse(&Fault::new(Code::Internal)),
            Err(reject) => exchange.refuse(&fault_of(&reject)),
        }));
        self.out.push_back(Output::Errand(request, errand));
    }

    /// Does something after a while.
    pub(super) fn do_later(&mut self, wait: Duration, retry: impl FnOnce(&mut Self) + Send + 'static) {
        self.later = Some((self.now.after(wait), Box::new(retry)));
    }

    fn timeout(&mut self) {
        if let Some((_, retry)) = self.later.take_if(|(at, _)| *at <= self.now) {
            retry(self);
        }
    }

    pub(super) fn refuse(&mut self, fault: &Fault) {
        self.release();
        let status = fault.code.http().unwrap_or(400);
        let mut headers = headers_of(status, fault);
        headers.push(("content-type", JSON.to_owned()));
        headers.push(("cache-control", "no-store".to_owned()));
        let body = fault.http_body(&self.request.id);
        self.say(status, headers, body.into());
    }

    /// Whatever went wrong, the same may be asked again.
    fn release(&mut self) {
        if let Some((who, key)) = self.reserved.take() {
            self.recent.answered(&who, &key, None);
        }
    }

    pub(super) fn answer(&mut self, status: u16, body: &Value) {
        self.answer_with(status, "no-store", body.to_string());
    }

    pub(super) fn answer_with(&mut self, status: u16, cache: &str, body: String) {
        let headers = vec![("content-type", JSON.to_owned()), ("cache-control", cache.to_owned())];
        self.say(status, headers, body.into());
    }

    pub(super) fn answer_empty(&mut self) {
        self.say(204, Vec::new(), Bytes::new());
    }

    pub(super) fn say(&mut self, status: u16, headers: Vec<(&'static str, String)>, body: Bytes) {
        self.out.push_back(Output::Send(Frame::Head(Box::new(Head { status, headers }))));
        if !body.is_empty() {
            self.out.push_back(Output::Send(Frame::Binary(body)));
        }
        self.out.push_back(Output::Close(DONE));
    }

    fn receive(&mut self, body: &[u8]) {
        let begun = if body.len() > self.limits.body_bytes as usize {
            Err(Fault::new(Code::ProtoTooLarge))
        } else {
            self.begin(body)
        };
        if let Err(fault) = begun {
            self.refuse(&fault);
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
            Input::Timeout => self.timeout(),
            Input::Closed(_) => {
                self.release();
                self.later = None;
                self.out.push_back(Output::Close(DONE));
            }
            Input::Frame(Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_))
            | Input::Committed(..)
            | Input::Signal(_)
            | Input::Voice(_)
            | Input::Backlog(_)
            | Input::Drain { .. } => {}
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        let wake = self.later.as_ref().map(|(at, _)| *at);
        self.out.pop_front().unwrap_or(Output::Idle { wake })
    }
}

// Bodies and tokens are not for logs.
impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("path", &self.request.path).finish_non_exhaustive()
    }
}

/// How a refusal of the core is said here.
pub(crate) fn fault_of(reject: &Reject) -> Fault {
    match reject {
        Reject::NotFound => Fault::new(Code::SesNotFound),
        Reject::Forbidden | Reject::Unauthenticated => Fault::new(Code::AuthScope),
        Reject::Busy => Fault::new(Code::NetServerDraining).because("the server is busy, try again"),
        Reject::Unserved { reason } => Fault::new(Code::ProvUnavailable).because(reason.clone()),
        Reject::RateLimited { retry_after } => {
            Fault::new(Code::RateEvents).after(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX))
        }
        Reject::Draining => Fault::new(Code::NetServerDraining),
        Reject::UnknownTurn(_)
        | Reject::TurnOver(_)
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::UnknownTool(_)
        | Reject::InvalidArgs(_)
        | Reject::UnknownAgent(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::Inactive
        | Reject::KeyConflict
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Offline(_)
        | Reject::Invalid(_)
        | Reject::Limit { .. }
        | Reject::Quota { .. }
        | Reject::Unavailable { .. } => Fault::new(Code::Internal),
    }
}

const DONE: Close = Close { code: 1000, reason: "" };
