//! The way from a connection to the sessions: what its principal may ask is asked on its behalf.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_agents::Visit;
use switchboard_core::model::NewTurn;
use switchboard_core::{
    Actor, AgentId, AttachmentId, Callsign, Enrolment, Granted, Lookup, Op, Pii, Position, Principal,
    PrincipalId, Rate, Reject, Reply, RequestId, RequestRow, Reservation, Right, Role, SessionId, Signal,
    TurnId, Utterance, Within,
};

use crate::audit;
use crate::auth::Identity;
use crate::errands::{ErrandCaller, ErrandDesk};
use crate::limits::{ConnectionGuard, PrincipalBucket, PrincipalBuckets};
use crate::port::{Delivery, Port};
use crate::relay::{Here, Visits};
use crate::routes::Whence;
use crate::sessions::{Letter, Mail, ReplyTo, Sessions, own};
use crate::speech::Ears;
use crate::voices::{House, Speaker};

/// Whoever asks through one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    /// The same, as the registry of connections sees it.
    pub(crate) identity: Arc<Mutex<Identity>>,
    /// What all connections of the principal may use together.
    pub(crate) bucket: Arc<PrincipalBucket>,
    /// Counts the connection while it lives.
    pub(crate) guard: ConnectionGuard,
    pub(crate) port: Arc<Port>,
    /// What the connection speaks.
    pub(crate) protocol: &'static str,
    /// How fast it may be spoken, where that is the protocol's own.
    pub(crate) frames: Option<Rate>,
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// The scheme, host and port under which it reached the server.
    pub(crate) origin: String,
    /// Where it came to.
    pub(crate) path: String,
    /// The agent that serves it where it names no other.
    pub(crate) agent: AgentId,
    /// Whether it was given that agent, because its client did not name one.
    pub(crate) assigned: bool,
    /// The session in which it asked last for an attachment.
    pub(crate) home: Option<SessionId>,
    /// The name under which the connection is enrolled.
    pub(crate) callsign: Option<Callsign>,
    /// The name that it asked for, until it is told that it has it.
    pub(crate) enrolling: Option<Callsign>,
    /// As what it is enrolled, or asks to be.
    pub(crate) role: Option<Role>,
    /// What it is called where a function serves it.
    pub(crate) visits: Option<AttachmentId>,
}

impl Caller {
    fn actor(&self) -> Actor {
        Actor::client(self.principal.id.clone())
            .allowed(self.principal.scopes.clone())
            .registered(self.callsign.clone().zip(self.role))
    }

    /// Whether the credential allows what is asked; if not, the request is answered.
    fn may(&self, right: Right, request: RequestId) -> bool {
        let role = self.role.filter(|_| self.callsign.is_some());
        let may = self.principal.scopes.permit(right, role);
        if !may {
            audit::refused(&self.principal.id, right);
            self.port.answer(request, Err(Reject::Forbidden));
        }
        may
    }
}

/// Shared by every connection.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) visits: Visits,
    pub(crate) buckets: PrincipalBuckets,
    pub(crate) errands: ErrandDesk,
    ears: Arc<Ears>,
    voices: Arc<dyn House>,
    draining: std::sync::atomic::AtomicBool,
    stopped: tokio::sync::Notify,
}

impl Gateway {
    pub(crate) fn new(
        sessions: Arc<Sessions>,
        buckets: PrincipalBuckets,
        ears: Arc<Ears>,
        voices: Arc<dyn House>,
    ) -> Self {
        Self {
            sessions,
            buckets,
            errands: ErrandDesk::default(),
            ears,
            voices,
            visits: Visits::default(),
            draining: false.into(),
            stopped: tokio::sync::Notify::new(),
        }
    }

    /// Takes in idempotency keys that were used before this process started, oldest first.
    pub(crate) fn remember(&self, rows: impl IntoIterator<Item = RequestRow>) {
        let mut keys = self.sessions.environment.keys.lock();
        for row in rows {
            keys.insert((row.principal, row.key), row.session, row.at);
        }
    }

    /// From now on no turn is started.
    pub(crate) fn drain(&self) {
        self.draining.store(true, std::sync::atomic::Ordering::Relaxed);
        self.sessions.environment.roll.lock().stop();
    }

    /// Stops the server, if the caller may.
    pub(crate) fn stop(&self, caller: &Caller) {
        if caller.principal.scopes.permit(Right::Administer, None) {
            tracing::warn!(principal = %caller.principal.id, "the server was told to stop");
            self.stopped.notify_one();
        }
    }

    /// Waits until the server is told to stop.
    pub(crate) async fn stopped(&self) {
        self.stopped.notified().await;
    }

    /// Submits what a connection asks; the answer arrives at its port.
    pub(crate) fn submit(&self, caller: &mut Caller, request: RequestId, session: SessionId, mut op: Op) {
        if !caller.may(Right::of(&op), request) {
            return;
        }
        if let Op::StartTurn(turn) = &mut op {
            self.route(caller, turn);
            if let (Some(agent), Some(attachment)) = (&turn.agent, &turn.origin.attachment) {
                self.visit(caller, agent, attachment, &session);
            }
        } else if matches!(op, Op::OpenAttachment { .. } | Op::TakeOver { .. }) {
            caller.home.get_or_insert_with(|| session.clone());
        }
        let port = &caller.port;
        let session = match self.admit(caller, session, &op) {
            Ok(session) => session,
            Err(reject) => return port.answer(request, Err(reject)),
        };
        let mail =
            Mail { actor: caller.actor(), op, reply: ReplyTo::Connection(port.clone(), request), room: None };
        if self.sessions.send(&session, Letter::Op(Box::new(mail))).is_err() {
            port.answer(request, Err(Reject::Busy));
        }
    }

    /// Sends a request on to another agent, if the client has not named one and a route says so.
    fn route(&self, caller: &Caller, turn: &mut NewTurn) {
        let given = caller.assigned && turn.agent.as_ref() == Some(&caller.agent);
        let chosen = turn.agent.is_some() && !given;
        if chosen || turn.meta.is_null() {
            return;
        }
        let Caller { protocol, path, principal, .. } = caller;
        let whence = Whence { protocol, path, principal: &principal.id };
        let directory = self.sessions.environment.host.directory();
        if let Some(agent) = directory.routes.of_request(whence, &turn.meta) {
            turn.agent = Some(agent);
        }
    }

    /// An attachment is a connection's own from here on: it was opened, or taken over.
    pub(crate) fn attached(&self, caller: &mut Caller, attachment: &AttachmentId) {
        if let Some(session) = caller.home.clone() {
            let agent = caller.agent.clone();
            self.visit(caller, &agent, attachment, &session);
        }
    }

    /// Takes note of a connection that a function serves, so that the function can reach it.
    fn visit(&self, caller: &mut Caller, agent: &AgentId, attachment: &AttachmentId, session: &SessionId) {
        let environment = &self.sessions.environment;
        if caller.visits.as_ref() == Some(attachment) || !environment.host.is_remote(agent) {
            return;
        }
        self.end_visit(caller);
        let visit = Visit {
            connection: attachment.clone(),
            session: session.clone(),
            principal: caller.principal.id.clone(),
        };
        let now = environment.clock.now();
        environment.host.came(agent, &visit, now);
        self.visits.note(Here { port: caller.port.clone(), since: now, visit, agent: agent.clone() });
        caller.visits = Some(attachment.clone());
    }

    fn end_visit(&self, caller: &mut Caller) {
        let Some(attachment) = caller.visits.take() else { return };
        if let Some(here) = self.visits.leave(&caller.principal.id, &attachment, &caller.port) {
            let environment = &self.sessions.environment;
            environment.host.left(&here.agent, &here.visit, environment.clock.now());
        }
    }

    /// Follows a session on behalf of a connection.
    pub(crate) fn attach(
        &self,
        caller: &Caller,
        request: RequestId,
        session: &SessionId,
        from: Option<Position>,
    ) {
        if !caller.may(Right::Follow, request) {
            return;
        }
        self.sessions.attach(session, caller.actor(), from, request, &caller.port);
    }

    /// Looks up a turn of the caller's; that of somebody else looks like one that never was.
    pub(crate) fn find(&self, caller: &Caller, request: RequestId, session: SessionId, turn: TurnId) {
        if !caller.may(Right::Follow, request) {
            return;
        }
        let log = self.sessions.environment.log.clone();
        let (port, principal) = (caller.port.clone(), caller.principal.id.clone());
        tokio::spawn(async move {
            let found = match log.session(&session).await {
                Ok(Some(row)) if row.owner == principal => log.turn(&session, &turn).await,
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            port.answer(
                request,
                match found {
                    Ok(row) => Ok(Reply::Found(row.map(Box::new))),
                    Err(error) => Err(Reject::Unavailable { reason: error.to_string() }),
                },
            );
        });
    }

    /// Looks something up in the tables of a chronicle, as far as the caller may see it: in a session
    /// in which it takes part, or in those that are its own.
    pub(crate) fn look(&self, caller: &Caller, request: RequestId, lookup: Box<Lookup>) {
        if !caller.may(Right::Look, request) {
            return;
        }
        let sessions = self.sessions.clone();
        let (port, principal) = (caller.port.clone(), caller.principal.id.clone());
        tokio::spawn(async move { port.answer(request, look(&sessions, principal, &lookup).await) });
    }

    /// Turns speech into words.
    pub(crate) fn hear(&self, caller: &Caller, request: RequestId, utterance: Box<Utterance>) {
        if !caller.may(Right::Speak, request) {
            return;
        }
        self.ears.hear(utterance, request, caller.port.clone());
    }

    /// A voice for a connection; what it has to say arrives at the connection's port.
    pub(crate) fn voice(&self, caller: &Caller) -> Box<dyn Speaker> {
        let port = caller.port.clone();
        self.voices.clone().open(Box::new(move |event| port.deliver(Delivery::Voice(event))))
    }

    /// Has something done outside of every session.
    pub(crate) fn errand(&self, caller: &Caller, request: RequestId, errand: Pii<serde_json::Value>) {
        let on_behalf = ErrandCaller {
            principal: caller.principal.clone(),
            address: caller.address,
            origin: caller.origin.clone(),
        };
        self.errands.run(caller.protocol, on_behalf, request, errand, caller.port.clone());
    }

    /// The connection speaks for somebody else from now on, as an errand has found out.
    ///
    /// # Errors
    /// The principal has too many connections.
    pub(crate) fn adopt(&self, caller: &mut Caller, identity: Identity) -> Result<(), Reject> {
        let principal = identity.principal.clone();
        if principal.id != caller.principal.id {
            let too_many = |_| Reject::Limit { what: "connections_per_principal" };
            caller.guard.transfer(&principal.id).map_err(too_many)?;
            let own = caller.frames.map(|rate| (caller.protocol, rate));
            caller.bucket = self.buckets.of(&principal.id, own, self.sessions.environment.clock.now());
        }
        *caller.identity.lock() = identity;
        caller.principal = principal;
        Ok(())
    }

    /// Reserves names of devices, instead of those that were reserved before.
    pub(crate) fn reserve(&self, reservations: Vec<Reservation>) {
        self.sessions.environment.roll.lock().reserve(reservations);
    }

    /// Makes a connection reachable under a name.
    pub(crate) fn enrol(&self, caller: &mut Caller, request: RequestId, enrolment: Enrolment) {
        let now = self.sessions.environment.clock.now();
        let callsign = enrolment.callsign.clone();
        if let Some(known) = caller.callsign.as_ref().or(caller.enrolling.as_ref()) {
            return caller.port.answer(request, Err(Reject::Enrolled(known.clone())));
        }
        let role = enrolment.role;
        if !caller.principal.scopes.allows_callsign(role, callsign.as_str()) {
            return caller.port.answer(request, Err(Reject::Forbidden));
        }
        caller.role = Some(role);
        let place = Place(caller.port.clone());
        let granted =
            self.sessions.environment.roll.lock().enrol(enrolment, &caller.principal, place.clone(), now);
        match granted {
            Ok(Granted::Now) => {
                caller.enrolling = Some(callsign);
                caller.port.answer(request, Ok(Reply::Enrolled));
            }
            Ok(Granted::IfUnclaimed) => {
                caller.enrolling = Some(callsign.clone());
                self.enrol_unclaimed(caller.principal.id.clone(), request, callsign, place);
            }
            Err(refused) => {
                if let Some(Place(port)) = refused.contested {
                    port.deliver(Delivery::Signal(Signal::Contested));
                }
                caller.port.answer(request, Err(refused.reject));
            }
        }
    }

    /// Looks up who has had the name of a device before. Meanwhile nobody else can take it, and nobody is reached
    /// under it.
    fn enrol_unclaimed(&self, principal: PrincipalId, request: RequestId, callsign: Callsign, place: Place) {
        let (log, roll) = (self.sessions.environment.log.clone(), self.sessions.environment.roll.clone());
        tokio::spawn(async move {
            let answer = match log.device(&callsign).await {
                Ok(rows) if rows.iter().all(|row| row.principal == principal || row.is_released()) => {
                    Ok(Reply::Enrolled)
                }
                Ok(_) => {
                    tracing::info!(
                        %principal,
                        "refused the name of a device of another principal; `switchboard devices release` frees it"
                    );
                    Err(Reject::Forbidden)
                }
                Err(error) => Err(Reject::Unavailable { reason: error.to_string() }),
            };
            if answer.is_ok() {
                roll.lock().confirm(&callsign, &place);
            } else {
                roll.lock().leave(&callsign, &place);
            }
            place.0.answer(request, answer);
        });
    }

    /// The connection has the name that it asked for, and speaks as whoever has it from here on.
    pub(crate) fn enrolled(&self, caller: &mut Caller) {
        caller.callsign = caller.enrolling.take();
    }

    /// Lists who is enrolled, as far as the caller may know.
    pub(crate) fn list(&self, caller: &Caller, request: RequestId) {
        let list = self.sessions.environment.roll.lock().list(&caller.principal);
        caller.port.answer(request, Ok(Reply::Roll(list)));
    }

    /// Passes a word from one connection to another.
    pub(crate) fn note(&self, caller: &Caller, request: RequestId, to: Callsign, body: serde_json::Value) {
        if !caller.may(Right::Note, request) {
            return;
        }
        let own = caller.callsign.as_ref();
        let found = self.sessions.environment.roll.lock().find(&caller.principal, own, &to);
        let answer = match found {
            Some(Place(port)) => {
                let from = caller.principal.id.clone();
                port.deliver(Delivery::Signal(Signal::Note { from, body }));
                Ok(Reply::Noted)
            }
            None => Err(Reject::Offline(to)),
        };
        caller.port.answer(request, answer);
    }

    /// A device has no more business in a session, as far as it has seen.
    pub(crate) fn part(&self, caller: &Caller, session: SessionId, seen: u64) {
        let Some(callsign) = caller.callsign.as_ref() else { return };
        if let Some(after) = self.sessions.environment.roll.lock().part(callsign, &session, seen) {
            caller.port.deliver(Delivery::Signal(Signal::Invited { session, after }));
        }
    }

    /// The connection is gone: its name is free, and the sessions that rely on it hear of it.
    pub(crate) fn leave(&self, caller: &mut Caller) {
        self.end_visit(caller);
        let Some(device) = caller.callsign.take().or_else(|| caller.enrolling.take()) else { return };
        let place = Place(caller.port.clone());
        let mut roll = self.sessions.environment.roll.lock();
        let (sessions, why) = (roll.leave(&device, &place), roll.loss());
        drop(roll);
        for session in sessions {
            self.sessions.insist(&session, own(Op::LoseDevice { device: device.clone(), why }));
        }
    }

    /// Whether the caller may give work to a device: its own connection always may.
    fn reaches(&self, caller: &Caller, device: &Callsign) -> bool {
        caller.callsign.as_ref() == Some(device)
            || self.sessions.environment.roll.lock().reaches(
                &caller.principal,
                caller.callsign.as_ref(),
                device,
            )
    }

    /// Whether an op may go on to its session, and in which session it belongs: a repeated idempotency key
    /// leads to the session in which it was first used. What the credential allows was looked at before.
    fn admit(&self, caller: &Caller, session: SessionId, op: &Op) -> Result<SessionId, Reject> {
        let known = |agent: &AgentId| {
            let host = &self.sessions.environment.host;
            if host.knows(agent) && caller.principal.scopes.allows_agent(agent) {
                Ok(())
            } else {
                Err(Reject::UnknownAgent(agent.clone()))
            }
        };
        match op {
            Op::Open { agent, .. } => known(agent).map(|()| session),
            Op::StartTurn(turn) => {
                turn.agent.as_ref().map_or(Ok(()), known)?;
                self.admit_turn(caller, session, turn)
            }
            Op::Join(_) => {
                // So that the session which keeps the profile hears when the device is gone.
                if let Some(callsign) = caller.callsign.as_ref() {
                    let place = Position::default();
                    self.sessions.environment.roll.lock().invite(callsign, &session, place);
                }
                Ok(session)
            }
            Op::Report { .. }
            | Op::Admit { .. }
            | Op::OpenAttachment { .. }
            | Op::TakeOver { .. }
            | Op::LinkAttachment { .. }
            | Op::Detach { .. }
            | Op::CloseAttachment { .. }
            | Op::ChangeTools(_)
            | Op::Import(_)
            | Op::Edit { .. }
            | Op::MoveTip { .. }
            | Op::Rename { .. }
            | Op::Stand(_)
            | Op::Chronicle { .. }
            | Op::Record { .. }
            | Op::Release { .. }
            | Op::Interrupt { .. }
            | Op::Conclude { .. }
            | Op::Progress { .. }
            | Op::Answer { .. }
            // No credential allows the rest.
            | Op::Claim { .. }
            | Op::Emit { .. }
            | Op::Request { .. }
            | Op::Finish { .. }
            | Op::Lose { .. }
            | Op::LoseDevice { .. }
            | Op::ReleaseDevice { .. }
            | Op::Recover
            | Op::Wake => Ok(session),
        }
    }

    fn admit_turn(&self, caller: &Caller, session: SessionId, turn: &NewTurn) -> Result<SessionId, Reject> {
        if let Some(device) = &turn.device
            && !self.reaches(caller, device)
        {
            return Err(Reject::Offline(device.clone()));
        }
        if self.draining.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Reject::Draining);
        }
        let now = self.sessions.environment.clock.now();
        caller.bucket.take_turn(now).map_err(|retry_after| Reject::RateLimited { retry_after })?;
        let Some(key) = &turn.key else { return Ok(session) };
        let key = (caller.principal.id.clone(), key.key.clone());
        Ok(self.sessions.environment.keys.lock().reserve(key, session, now))
    }
}

/// Where an enrolled connection is reached.
#[derive(Clone, Debug)]
pub(crate) struct Place(pub(crate) Arc<Port>);

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What the tables of a chronicle hold, as far as the principal may see it.
pub(crate) async fn look(
    sessions: &Arc<Sessions>,
    principal: PrincipalId,
    lookup: &Lookup,
) -> Result<Reply, Reject> {
    if let Within::Session(session) = &lookup.within
        && sessions.role(session, principal.clone()).await?.is_none()
    {
        return Err(Reject::NotFound);
    }
    match sessions.environment.log.look(&principal, lookup).await {
        Ok(found) => Ok(Reply::Rows(found)),
        Err(error) => Err(Reject::Unavailable { reason: error.to_string() }),
    }
}
