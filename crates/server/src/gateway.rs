//! What a connection asks of this process beside what the engine decides: agents, rates, functions, and whoever speaks.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_agents::Visit;
use switchboard_core::model::NewTurn;
use switchboard_core::{
    AgentId, AttachmentId, Callsign, Lookup, Op, Pii, Principal, PrincipalId, Rate, Reject, Reply, RequestId,
    RequestRow, Reservation, Right, SessionId, Timestamp, TurnId, Utterance, Within,
};
use switchboard_engine::{Caller, Delivery, Inbox, Shared, Surroundings, name_looked_up};

use crate::audit;
use crate::auth::{AuthError, Authenticator, Credential, Identity};
use crate::errands::{ErrandCaller, ErrandDesk};
use crate::limits::{ConnectionGuard, PrincipalBucket, PrincipalBuckets};
use crate::relay::{Here, Visits};
use crate::routes::Whence;
use crate::sessions::{Environment, Sessions};
use crate::speech::Ears;
use crate::voices::{House, Speaker};

/// Shared by every connection.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) visits: Visits,
    pub(crate) buckets: PrincipalBuckets,
    pub(crate) errands: ErrandDesk,
    ears: Arc<Ears>,
    voices: Arc<dyn House>,
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
            stopped: tokio::sync::Notify::new(),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.sessions.environment.shared
    }

    /// Takes in idempotency keys that were used before this process started, oldest first.
    pub(crate) fn remember(&self, rows: impl IntoIterator<Item = RequestRow>) {
        let mut keys = self.shared().keys.lock();
        for row in rows {
            keys.insert((row.principal, row.key), row.session, row.at);
        }
    }

    /// From now on no turn is started.
    pub(crate) fn drain(&self) {
        self.shared().drain();
    }

    /// Reserves names of devices, instead of those that were reserved before.
    pub(crate) fn reserve(&self, reservations: Vec<Reservation>) {
        self.shared().reserve(reservations);
    }

    /// Stops the server, for somebody who may.
    pub(crate) fn stop(&self, principal: &PrincipalId) {
        tracing::warn!(%principal, "the server was told to stop");
        self.stopped.notify_one();
    }

    /// Waits until the server is told to stop.
    pub(crate) async fn stopped(&self) {
        self.stopped.notified().await;
    }

    /// Looks up a turn of the principal's; that of somebody else looks like one that never was.
    pub(crate) fn find(&self, caller: &Caller, request: RequestId, session: SessionId, turn: TurnId) {
        let log = self.sessions.environment.log.clone();
        let (inbox, principal) = (caller.inbox.clone(), caller.principal.id.clone());
        tokio::spawn(async move {
            let found = match log.session(&session).await {
                Ok(Some(row)) if row.owner == principal => log.turn(&session, &turn).await,
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            inbox.answer(
                request,
                match found {
                    Ok(row) => Ok(Reply::Found(row.map(Box::new))),
                    Err(error) => Err(Reject::Unavailable { reason: error.to_string() }),
                },
            );
        });
    }

    /// Looks something up in the tables of a projection, as far as the caller may see it.
    pub(crate) fn look(&self, caller: &Caller, request: RequestId, lookup: Box<Lookup>) {
        let sessions = self.sessions.clone();
        let (inbox, principal) = (caller.inbox.clone(), caller.principal.id.clone());
        tokio::spawn(async move { inbox.answer(request, look(&sessions, principal, &lookup).await) });
    }

    /// Looks up who has had the name of a device before.
    pub(crate) fn look_up_name(&self, caller: &Caller, request: RequestId, name: Callsign) {
        let Environment { log, shared, .. } = self.sessions.environment.clone();
        let (inbox, principal) = (caller.inbox.clone(), caller.principal.id.clone());
        tokio::spawn(async move {
            let claimed = match log.device(&name).await {
                Ok(rows) => Ok(rows.iter().any(|row| row.principal != principal && !row.is_released())),
                Err(error) => Err(Reject::Unavailable { reason: error.to_string() }),
            };
            if claimed == Ok(true) {
                tracing::info!(
                    %principal,
                    "refused the name of a device of another principal; `switchboard devices release` frees it"
                );
            }
            name_looked_up(&name, claimed, (inbox, request), &shared);
        });
    }

    /// Turns speech into words.
    pub(crate) fn hear(&self, inbox: &Arc<Inbox>, request: RequestId, utterance: Box<Utterance>) {
        self.ears.hear(utterance, request, inbox.clone());
    }

    /// A voice for a connection; what it has to say arrives in the connection's inbox.
    pub(crate) fn voice(&self, inbox: &Arc<Inbox>) -> Box<dyn Speaker> {
        let inbox = inbox.clone();
        self.voices.clone().open(Box::new(move |event| inbox.deliver(Delivery::Voice(event))))
    }
}

/// Where a connection comes from, and what it may use.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) authenticator: Arc<Authenticator>,
    /// Whose it is, as the registry of connections sees it.
    pub(crate) identity: Arc<Mutex<Identity>>,
    /// What all connections of the principal may use together.
    pub(crate) bucket: Arc<PrincipalBucket>,
    /// Counts the connection while it lives.
    pub(crate) guard: ConnectionGuard,
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
    /// What it is called where a function serves it.
    pub(crate) visits: Option<AttachmentId>,
}

impl Surroundings for Client {
    type Node = Environment;

    fn shared(&self) -> &Shared {
        self.gateway.shared()
    }

    fn refused(&self, principal: &PrincipalId, right: Right) {
        audit::refused(principal, right);
    }

    fn prepare(&mut self, caller: &Caller, session: &SessionId, op: &mut Op) {
        if let Op::StartTurn(turn) = op {
            self.route(caller, turn);
            if let (Some(agent), Some(attachment)) = (&turn.agent, &turn.origin.attachment) {
                self.visit(caller, agent, attachment, session);
            }
        } else if matches!(op, Op::OpenAttachment { .. } | Op::TakeOver { .. }) {
            self.home.get_or_insert_with(|| session.clone());
        }
    }

    fn knows_agent(&self, agent: &AgentId) -> bool {
        self.gateway.sessions.environment.host.knows(agent)
    }

    fn take_share(&mut self, _: &Principal, op: &Op, now: Timestamp) -> Result<(), Reject> {
        if !matches!(op, Op::StartTurn(_)) {
            return Ok(());
        }
        self.bucket.take_turn(now).map_err(|retry_after| Reject::RateLimited { retry_after })
    }

    fn adopt(&mut self, principal: &Principal) -> Result<(), Reject> {
        let identity = Identity { principal: principal.clone(), credential: Credential::Token { jti: None } };
        if self.authenticator.is_revoked(&identity) {
            return Err(Reject::Unauthenticated);
        }
        if principal.id != self.identity.lock().principal.id {
            let too_many = |_| Reject::Limit { what: "connections_per_principal" };
            self.guard.transfer(&principal.id).map_err(too_many)?;
            let own = self.frames.map(|rate| (self.protocol, rate));
            let now = self.gateway.sessions.environment.clock.now();
            self.bucket = self.gateway.buckets.of(&principal.id, own, now);
        }
        *self.identity.lock() = identity;
        Ok(())
    }

    fn attached(&mut self, caller: &Caller, attachment: &AttachmentId) {
        if let Some(session) = self.home.clone() {
            let agent = self.agent.clone();
            self.visit(caller, &agent, attachment, &session);
        }
    }
}

impl Client {
    /// Checks a renewed credential.
    pub(crate) fn authenticate(
        &self,
        caller: &Caller,
        credential: &str,
        now: Timestamp,
    ) -> Result<Reply, Reject> {
        // Whoever is shut out is not heard here either.
        let identified = if self.guard.is_shut_out(now) {
            Err(AuthError::Invalid)
        } else {
            self.authenticator.identify(Some(credential), now)
        };
        if matches!(identified, Err(AuthError::Invalid)) {
            self.guard.count_bad_credential(now);
        }
        match identified {
            Ok(mut identity) if identity.principal.id == caller.principal.id => {
                identity.principal = identity.principal.within(self.protocol);
                let principal = identity.principal.clone();
                *self.identity.lock() = identity;
                Ok(Reply::Authenticated(principal))
            }
            Ok(_) | Err(_) => Err(Reject::Unauthenticated),
        }
    }

    /// Runs a service call of the protocol.
    pub(crate) fn call(&self, caller: &Caller, request: RequestId, call: Pii<serde_json::Value>) {
        let on_behalf = ErrandCaller {
            principal: caller.principal.clone(),
            address: self.address,
            origin: self.origin.clone(),
        };
        self.gateway.errands.run(self.protocol, on_behalf, request, call, caller.inbox.clone());
    }

    /// Sends a request on to another agent, if the client has not named one and a route says so.
    fn route(&self, caller: &Caller, turn: &mut NewTurn) {
        let given = self.assigned && turn.agent.as_ref() == Some(&self.agent);
        let chosen = turn.agent.is_some() && !given;
        if chosen || turn.meta.is_null() {
            return;
        }
        let whence = Whence { protocol: self.protocol, path: &self.path, principal: &caller.principal.id };
        let directory = self.gateway.sessions.environment.host.directory();
        if let Some(agent) = directory.routes.of_request(whence, &turn.meta) {
            turn.agent = Some(agent);
        }
    }

    /// Takes note of a connection that a function serves, so that the function can reach it.
    fn visit(&mut self, caller: &Caller, agent: &AgentId, attachment: &AttachmentId, session: &SessionId) {
        let gateway = self.gateway.clone();
        let environment = &gateway.sessions.environment;
        if self.visits.as_ref() == Some(attachment) || !environment.host.is_remote(agent) {
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
        gateway.visits.note(Here { inbox: caller.inbox.clone(), since: now, visit, agent: agent.clone() });
        self.visits = Some(attachment.clone());
    }

    /// The connection is gone, for the function that serves it.
    pub(crate) fn end_visit(&mut self, caller: &Caller) {
        let Some(attachment) = self.visits.take() else { return };
        if let Some(here) = self.gateway.visits.leave(&caller.principal.id, &attachment, &caller.inbox) {
            let environment = &self.gateway.sessions.environment;
            environment.host.left(&here.agent, &here.visit, environment.clock.now());
        }
    }
}

/// What the tables of a projection hold, as far as the principal may see it: in a session
/// in which it takes part, or in those that are its own.
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
