//! From an HTTP request to a driven connection, be it a WebSocket or a single exchange.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{self, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use switchboard_core::{
    AgentId, Connection, Found, Lookup, OpeningRequest, Pii, Principal, Protocol, Rate, Refusal, Reject,
    Reply, Right, Route, Seed, Upgrade,
};
use switchboard_engine::{Caller, Inbox, Outgoing};
use tracing::Instrument as _;

use crate::auth::{Authenticator, Identity};
use crate::courtesy::{Courtesy, allowed};
use crate::driver::Driver;
use crate::gateway::{self, Client, Gateway};
use crate::limits::{ConnectionGuard, ConnectionLimits};
use crate::meters::TransportMeters;
use crate::origin::OriginPolicy;
use crate::registry::{Entry, Registry};
use crate::routes::Whence;
use crate::transport::{Bounds, Exchange, Handshake, Socket, Transport};
use crate::unfinished::{Held, Unfinished};
use crate::visitor::Visitor;

mod admission;

use admission::Admitted;

/// What is needed to let a connection in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) origins: OriginPolicy,
    pub(crate) limits: ConnectionLimits,
    pub(crate) unfinished: Unfinished,
    /// How long a message or the body of a request may take.
    pub(crate) message_timeout: Duration,
    pub(crate) outgoing: Outgoing,
    pub(crate) meters: BTreeMap<&'static str, TransportMeters>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) draining: std::sync::atomic::AtomicBool,
}

impl Door {
    /// Lets a visitor in as a WebSocket of `protocol`, or says no in the protocol's own words.
    pub(crate) async fn upgrade(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        handshake: Option<Handshake>,
    ) -> Response {
        let courtesy = self.courtesy(protocol, &visitor.headers);
        let entered = match self.admit(protocol, visitor, &courtesy) {
            Ok(admitted) => self.enter(protocol, admitted).await,
            Err(refusal) => Err(refusal),
        };
        let entered = match entered {
            Ok(entered) => entered,
            Err(refusal) => return self.refuse(protocol, &refusal, &courtesy),
        };
        let Some(handshake) = handshake else {
            let refusal = Refusal::Malformed("not a valid WebSocket upgrade");
            return self.refuse(protocol, &refusal, &courtesy);
        };
        let bounds = Bounds {
            max_message: protocol.max_message(),
            patience: self.message_timeout,
            held: self.unfinished.of(&entered.identity.principal.id),
        };
        let subprotocol = entered.subprotocol.as_ref().map(|Pii(subprotocol)| subprotocol.as_str());
        let (response, socket) = handshake.accept(subprotocol);
        let door = self.clone();
        tokio::spawn(async move {
            // A peer that has left before it was answered is no news.
            if let Ok(socket) = socket.await {
                let socket = Socket::new(socket, bounds).await;
                door.drive(entered, socket).await;
            }
        });
        courtesy.complete(&**protocol, response)
    }

    /// Lets a visitor in for one exchange; its answer may be a stream.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        body: Body,
    ) -> Response {
        let courtesy = self.courtesy(protocol, &visitor.headers);
        match self.converse(protocol, visitor, body, &courtesy).await {
            Ok(response) => courtesy.complete(&**protocol, response),
            Err(refusal) => self.refuse(protocol, &refusal, &courtesy),
        }
    }

    async fn converse(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        body: Body,
        courtesy: &Courtesy,
    ) -> Result<Response, Refusal> {
        // Nothing of the body is read for somebody who may not come in.
        let admitted = self.admit(protocol, visitor, courtesy)?;
        let mut held = self.unfinished.of(&admitted.identity.principal.id);
        let read = read_body(body, protocol.max_message(), &mut held);
        let request = match tokio::time::timeout(self.message_timeout, read).await {
            Ok(Ok(request)) => request,
            Ok(Err(BodyError::TooBig)) => return Err(Refusal::TooBig),
            Ok(Err(BodyError::Full)) => return Err(Refusal::TooMany { retry_ms: RETRY_MS }),
            // Whoever broke off or never finished does not wait for an answer.
            Ok(Err(BodyError::Broken)) | Err(_) => return Ok(StatusCode::REQUEST_TIMEOUT.into_response()),
        };
        let entered = self.enter(protocol, admitted).await?;
        // A stream may stay as long as any connection.
        if let Some(place) = &visitor.place {
            place.give_up();
        }
        let (exchange, answer) = Exchange::new(request);
        let door = self.clone();
        tokio::spawn(door.drive(entered, exchange));
        Ok(answer.response(visitor.flushes.clone()).await)
    }

    /// Lets somebody in who does not come over HTTP, but opens as if it did; `parameters` are added to what
    /// the protocol reads of the request.
    pub(crate) async fn invite(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        request: OpeningRequest,
        parameters: Vec<(String, String)>,
        address: IpAddr,
    ) -> Result<Guest, Refusal> {
        let guard = self.count(protocol, address)?;
        let mut opening = protocol.inspect(&request)?;
        opening.parameters.extend(parameters);
        let admitted = self.vet(protocol, Right::Connect, request, opening, address, guard)?;
        Ok(Guest { door: self.clone(), entered: self.enter(protocol, admitted).await? })
    }

    /// Answers a request with a method for which there is no route: a browser may ask whether a page may
    /// ask, all else is refused.
    pub(crate) fn turn_away(
        &self,
        protocol: &Arc<dyn Protocol>,
        method: &http::Method,
        headers: &HeaderMap,
        routes: &[Route],
    ) -> Response {
        let courtesy = self.courtesy(protocol, headers);
        let preflight = (method == http::Method::OPTIONS).then(|| courtesy.preflight(headers, routes));
        match preflight.flatten() {
            Some(Ok(response)) => courtesy.complete(&**protocol, response),
            Some(Err(refusal)) => self.refuse(protocol, &refusal, &courtesy),
            None => {
                let mut response = self.refuse(protocol, &Refusal::WrongMethod, &courtesy);
                // Some protocols would rather not know of the path.
                if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                    response.headers_mut().extend(allowed(routes).map(|methods| (header::ALLOW, methods)));
                }
                response
            }
        }
    }

    /// Answers a request to a path that would be the protocol's if there were anything.
    pub(crate) fn lead_nowhere(
        &self,
        protocol: &Arc<dyn Protocol>,
        refusal: &Refusal,
        headers: &HeaderMap,
    ) -> Response {
        self.refuse(protocol, refusal, &self.courtesy(protocol, headers))
    }

    fn courtesy(&self, protocol: &Arc<dyn Protocol>, headers: &HeaderMap) -> Courtesy {
        Courtesy::new(&**protocol, headers, &self.origins)
    }

    fn refuse(&self, protocol: &Arc<dyn Protocol>, refusal: &Refusal, courtesy: &Courtesy) -> Response {
        self.meters(protocol).refused(refusal);
        tracing::debug!(protocol = protocol.name(), ?refusal, "a connection was refused");
        let reply = protocol.refuse(refusal, &courtesy.request_id);
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [(header::CONTENT_TYPE, reply.content_type)], reply.body).into_response();
        for (name, value) in reply.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        courtesy.dismiss(&**protocol, response)
    }

    fn meters(&self, protocol: &Arc<dyn Protocol>) -> TransportMeters {
        self.meters.get(protocol.name()).cloned().unwrap_or_else(|| TransportMeters::new(protocol.name()))
    }

    /// Makes the connection of a visitor who may come in.
    async fn enter(&self, protocol: &Arc<dyn Protocol>, admitted: Admitted) -> Result<Entered, Refusal> {
        let environment = &self.gateway.sessions.environment;
        environment.quotas.learn(&admitted.identity.principal.id, environment.clock.now()).await;
        let known = match protocol.preview(&admitted.request, &admitted.identity.principal) {
            Some(lookup) => self.look_up(&admitted.identity.principal, &lookup).await?,
            None => Vec::new(),
        };
        let Admitted { request, opening, subprotocol, identity, address, guard } = admitted;
        let host = &self.gateway.sessions.environment.host;
        let directory = host.directory();
        let principal = &identity.principal.id;
        let whence = Whence { protocol: protocol.name(), path: &request.target, principal };
        let routed = || directory.routes.of_connection(whence).unwrap_or_else(|| directory.default.clone());
        let agent = opening.agent.clone().unwrap_or_else(routed);
        // What the client has not chosen itself may still depend on what it asks.
        let assigned = opening.agent.is_none();
        let serving = agent.clone();
        let (path, origin) = (request.target.clone(), request.origin.clone());
        let upgrade = Upgrade {
            known,
            principal: identity.principal.clone(),
            now: self.gateway.sessions.environment.clock.now(),
            agents: directory.agents.keys().cloned().collect(),
            remote: host.is_remote(&agent),
            tools: host.tools(&agent),
            agent,
            request,
            opening,
        };
        let connection = protocol.accept(upgrade, Seed::new(crate::entropy::bytes()))?;
        let meters = self.meters(protocol);
        let (protocol, frames) = (protocol.name(), protocol.frames());
        Ok(Entered {
            connection,
            protocol,
            path,
            origin,
            agent: serving,
            assigned,
            frames,
            subprotocol,
            identity,
            address,
            guard,
            meters,
        })
    }

    /// What a protocol wants to know before it answers; nothing for somebody who may not know of it.
    async fn look_up(&self, principal: &Principal, lookup: &Lookup) -> Result<Vec<Found>, Refusal> {
        let looked = gateway::look(&self.gateway.sessions, principal.id.clone(), lookup);
        match tokio::time::timeout(LOOK_PATIENCE, looked).await {
            Ok(Ok(Reply::Rows(rows))) => Ok(rows),
            Ok(Ok(_) | Err(Reject::NotFound)) => Ok(Vec::new()),
            // The log cannot be read now; that says nothing about what is in it.
            Ok(Err(_)) | Err(_) => Err(Refusal::Draining { retry_ms: RETRY_MS }),
        }
    }

    /// Not an `async fn`, which would keep room for its arguments twice, all the connection's life.
    fn drive(
        self: Arc<Self>,
        entered: Entered,
        mut transport: impl Transport + 'static,
    ) -> impl Future<Output = ()> + Send {
        let Entered {
            connection,
            protocol,
            path,
            origin,
            agent,
            assigned,
            frames,
            subprotocol: _,
            identity,
            address,
            guard,
            meters,
        } = entered;
        let inbox = Arc::new(Inbox::default());
        let opened_at = self.gateway.sessions.environment.clock.now();
        let principal = identity.principal.clone();
        let identity = Arc::new(Mutex::new(identity));
        let listed = self.registry.enter(Entry {
            protocol,
            identity: identity.clone(),
            address,
            opened_at,
            inbox: inbox.clone(),
        });
        let span = tracing::info_span!("connection", protocol, connection_id = listed.number);
        let bucket = self.gateway.buckets.of(&principal.id, frames.map(|rate| (protocol, rate)), opened_at);
        let caller = Caller::new(principal, inbox);
        let client = Client {
            gateway: self.gateway.clone(),
            authenticator: self.authenticator.clone(),
            identity,
            bucket,
            guard,
            protocol,
            frames,
            address,
            origin,
            path,
            agent,
            assigned,
            home: None,
            visits: None,
        };
        meters.opened.increment(1);
        meters.open.increment(1);
        let mut driver = Driver::new(connection, caller, client, self.outgoing, meters.clone());
        async move {
            let code = driver.drive(&mut transport).instrument(span).await;
            meters.open.decrement(1);
            meters.closed(code);
            drop((listed, driver));
        }
    }
}

/// Somebody who was let in, and is still on the way.
pub(crate) struct Guest {
    door: Arc<Door>,
    entered: Entered,
}

impl Guest {
    /// Serves the connection until it is over.
    pub(crate) fn drive(self, transport: impl Transport + 'static) -> impl Future<Output = ()> + Send {
        self.door.drive(self.entered, transport)
    }
}

/// A connection that only lacks its transport.
struct Entered {
    connection: Box<dyn Connection>,
    protocol: &'static str,
    path: String,
    origin: String,
    agent: AgentId,
    assigned: bool,
    frames: Option<Rate>,
    subprotocol: Option<Pii<String>>,
    identity: Identity,
    address: IpAddr,
    guard: ConnectionGuard,
    meters: TransportMeters,
}

/// Why a body cannot be had.
enum BodyError {
    /// It is larger than the protocol takes.
    TooBig,
    /// The principal has too many bytes of bodies and messages unfinished.
    Full,
    /// The peer broke off.
    Broken,
}

/// Reads a whole body, charging its bytes as they come.
async fn read_body(mut body: Body, max: usize, held: &mut Held) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if piece.len() > max.saturating_sub(whole.len()) {
            return Err(BodyError::TooBig);
        }
        whole.extend_from_slice(&piece);
        held.grow_to(whole.len()).map_err(|_| BodyError::Full)?;
    }
    Ok(whole.freeze())
}

const RETRY_MS: u64 = 1000;
/// How long a look into the log may take before a connection is made.
const LOOK_PATIENCE: Duration = Duration::from_secs(10);
