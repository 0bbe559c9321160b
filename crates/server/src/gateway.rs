//! The way from a connection to the sessions: what its principal may ask is asked on its behalf.

use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::{
    Actor, Op, Position, Principal, Reject, Reply, RequestId, RequestRow, Scope, SessionId, TurnId,
};

use crate::auth::Identity;
use crate::limits::PrincipalBucket;
use crate::port::Port;
use crate::sessions::{Letter, Mail, ReplyTo, Sessions};

/// Whoever asks through one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    /// The same, as the registry of connections sees it.
    pub(crate) identity: Arc<Mutex<Identity>>,
    /// What all connections of the principal may use together.
    pub(crate) bucket: Arc<PrincipalBucket>,
    pub(crate) port: Arc<Port>,
}

/// Shared by every connection.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) sessions: Arc<Sessions>,
    draining: std::sync::atomic::AtomicBool,
    stopped: tokio::sync::Notify,
}

impl Gateway {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, draining: false.into(), stopped: tokio::sync::Notify::new() }
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
    }

    /// Stops the server, if the caller may.
    pub(crate) fn stop(&self, caller: &Caller) {
        if caller.principal.scopes.allows(Scope::Admin) {
            tracing::warn!(principal = %caller.principal.id, "the server was told to stop");
            self.stopped.notify_one();
        }
    }

    /// Waits until the server is told to stop.
    pub(crate) async fn stopped(&self) {
        self.stopped.notified().await;
    }

    /// Submits what a connection asks; the answer arrives at its port.
    pub(crate) fn submit(&self, caller: &Caller, request: RequestId, session: SessionId, op: Op) {
        let Caller { principal, port, .. } = caller;
        let session = match self.admit(caller, session, &op) {
            Ok(session) => session,
            Err(reject) => return port.answer(request, Err(reject)),
        };
        let mail = Mail {
            actor: Actor::client(principal.id.clone()),
            op,
            reply: ReplyTo::Connection(port.clone(), request),
            room: None,
        };
        if self.sessions.send(&session, Letter::Op(Box::new(mail))).is_err() {
            port.answer(request, Err(Reject::Busy));
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
        self.sessions.attach(session, &caller.principal, from, request, &caller.port);
    }

    /// Looks up a turn of the caller's; that of somebody else looks like one that never was.
    pub(crate) fn find(&self, caller: &Caller, request: RequestId, session: SessionId, turn: TurnId) {
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

    /// Whether the credential reaches this op, and in which session it belongs: a repeated
    /// idempotency key leads to the session in which it was first used.
    fn admit(&self, caller: &Caller, session: SessionId, op: &Op) -> Result<SessionId, Reject> {
        let principal = &caller.principal;
        let host = &self.sessions.environment.host;
        match op {
            Op::Open { agent, .. } if !host.knows(agent) || !principal.scopes.allows_agent(agent) => {
                Err(Reject::UnknownAgent(agent.clone()))
            }
            Op::ChangeTools(_) if !principal.scopes.allows(Scope::Tools) => Err(Reject::Forbidden),
            Op::StartTurn(turn) => {
                if !principal.scopes.allows(Scope::Invoke) {
                    return Err(Reject::Forbidden);
                }
                if let Some(agent) = &turn.agent
                    && (!host.knows(agent) || !principal.scopes.allows_agent(agent))
                {
                    return Err(Reject::UnknownAgent(agent.clone()));
                }
                if self.draining.load(std::sync::atomic::Ordering::Relaxed) {
                    return Err(Reject::Draining);
                }
                let now = self.sessions.environment.clock.now();
                caller.bucket.take_turn(now).map_err(|retry_after| Reject::RateLimited { retry_after })?;
                let Some(key) = &turn.key else { return Ok(session) };
                Ok(self.sessions.environment.keys.lock().reserve(
                    (principal.id.clone(), key.key.clone()),
                    session,
                    now,
                ))
            }
            Op::Open { .. }
            | Op::Admit { .. }
            | Op::OpenAttachment { .. }
            | Op::TakeOver { .. }
            | Op::LinkAttachment { .. }
            | Op::Detach { .. }
            | Op::CloseAttachment { .. }
            | Op::ChangeTools(_)
            | Op::Interrupt { .. }
            | Op::Fail { .. }
            | Op::Progress { .. }
            | Op::Answer { .. } => Ok(session),
            // Not for clients; the session would say the same.
            Op::Claim { .. }
            | Op::Emit { .. }
            | Op::Request { .. }
            | Op::Finish { .. }
            | Op::Lose { .. }
            | Op::Recover
            | Op::Wake => Err(Reject::Forbidden),
        }
    }
}
