//! From an HTTP request to a driven connection, be it a WebSocket or a single exchange.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use switchboard_core::{
    AgentId, Connection, Credential, Method, Opening, OpeningRequest, Pii, Protocol, Rate, Refusal, Route,
    Scope, Seed, Timestamp, Upgrade,
};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use crate::auth::{AuthError, Authenticator, Identity};
use crate::driver::Driver;
use crate::gateway::{Caller, Gateway};
use crate::limits::{ConnectionGuard, ConnectionLimits, PrincipalBuckets, TooMany};
use crate::meters::TransportMeters;
use crate::origin::{OriginError, OriginPolicy};
use crate::port::Port;
use crate::registry::{Entry, Registry};
use crate::routes::Whence;
use crate::transport::{Exchange, Socket, Transport};

/// What is needed to let a connection in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) origins: OriginPolicy,
    pub(crate) limits: ConnectionLimits,
    pub(crate) buckets: PrincipalBuckets,
    pub(crate) max_backlog: usize,
    pub(crate) meters: BTreeMap<&'static str, TransportMeters>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) draining: std::sync::atomic::AtomicBool,
    /// Whether the listener itself speaks TLS.
    pub(crate) secure: bool,
}

/// Everything about a request that decides whether it becomes a connection.
pub(crate) struct Visitor {
    pub(crate) address: SocketAddr,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Where it came to.
    pub(crate) route: Route,
    /// What it gives up by becoming a connection.
    pub(crate) place: Option<Place>,
}

/// A place among the sockets that have not become a connection yet.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    /// Leaves it to somebody else.
    fn give_up(&self) {
        drop(self.0.lock().take());
    }
}

impl Door {
    /// Lets a visitor in as a WebSocket of `protocol`, or says no in the protocol's own words.
    pub(crate) fn upgrade(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        websocket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    ) -> Response {
        let entered = self.admit(protocol, visitor).and_then(|admitted| self.enter(protocol, admitted));
        let entered = match entered {
            Ok(entered) => entered,
            Err(refusal) => return self.refuse(protocol, &refusal),
        };
        let Ok(mut websocket) = websocket else {
            return self.refuse(protocol, &Refusal::Malformed("not a valid WebSocket upgrade"));
        };
        websocket = websocket
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_write_buffer_size(protocol.max_message() + MAX_WRITE_BUFFER)
            .max_message_size(protocol.max_message())
            .max_frame_size(protocol.max_message());
        if let Some(Pii(subprotocol)) = &entered.subprotocol {
            websocket = websocket.protocols([subprotocol.clone()]);
        }
        let door = self.clone();
        let response = websocket.on_upgrade(move |socket: WebSocket| door.drive(entered, Socket(socket)));
        with_headers(&**protocol, response)
    }

    /// Lets a visitor in for one exchange; its answer may be a stream.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        body: Body,
    ) -> Response {
        // Nothing of the body is read for somebody who may not come in.
        let admitted = match self.admit(protocol, visitor) {
            Ok(admitted) => admitted,
            Err(refusal) => return self.refuse(protocol, &refusal),
        };
        let read = axum::body::to_bytes(body, protocol.max_message());
        let request = match tokio::time::timeout(BODY_PATIENCE, read).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) if is_too_big(&error) => return self.refuse(protocol, &Refusal::TooBig),
            // Whoever broke off or never finished does not wait for an answer.
            Ok(Err(_)) | Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
        };
        match self.enter(protocol, admitted) {
            Err(refusal) => self.refuse(protocol, &refusal),
            Ok(entered) => {
                // A stream may stay as long as any connection.
                if let Some(place) = &visitor.place {
                    place.give_up();
                }
                let (exchange, answer) = Exchange::new(request);
                let door = self.clone();
                tokio::spawn(door.drive(entered, exchange));
                with_headers(&**protocol, answer.response().await)
            }
        }
    }

    pub(crate) fn refuse(&self, protocol: &Arc<dyn Protocol>, refusal: &Refusal) -> Response {
        self.meters(protocol).refused(refusal);
        tracing::debug!(protocol = protocol.name(), ?refusal, "a connection was refused");
        let reply = protocol.refuse(refusal);
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [(header::CONTENT_TYPE, reply.content_type)], reply.body).into_response();
        for (name, value) in reply.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        with_headers(&**protocol, response)
    }

    fn meters(&self, protocol: &Arc<dyn Protocol>) -> TransportMeters {
        self.meters.get(protocol.name()).cloned().unwrap_or_else(|| TransportMeters::new(protocol.name()))
    }

    fn admit(&self, protocol: &Arc<dyn Protocol>, visitor: &Visitor) -> Result<Admitted, Refusal> {
        let now = self.gateway.sessions.environment.clock.now();
        let header = |name| visitor.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let address = self.origins.client_address(visitor.address.ip(), header(FORWARDED_FOR));
        let arrivals = protocol.arrivals();
        let mut guard = self.limits.open(address, protocol.name(), arrivals, now).map_err(too_many)?;
        if self.draining.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Refusal::Draining { retry_ms: DRAINING_RETRY_MS });
        }
        self.origins.check(header(header::HOST.as_str()), header(header::ORIGIN.as_str())).map_err(
            |error| {
                Refusal::Forbidden(match error {
                    OriginError::Host => "the host is not allowed",
                    OriginError::Origin => "the origin is not allowed",
                })
            },
        )?;
        let request = self.opening_request(&**protocol, visitor);
        let opening = protocol.inspect(&request)?;
        let (identity, subprotocol) = self.identify(&opening, now).inspect_err(|refusal| {
            if matches!(refusal, Refusal::CredentialInvalid) {
                guard.count_bad_credential(now);
            }
        })?;
        let principal = &identity.principal;
        if !principal.scopes.allows(Scope::Connect) {
            return Err(Refusal::Forbidden("the credential does not allow connections"));
        }
        let host = &self.gateway.sessions.environment.host;
        if let Some(agent) = &opening.agent {
            if !host.knows(agent) {
                return Err(Refusal::UnknownAgent);
            }
            if !principal.scopes.allows_agent(agent) {
                return Err(Refusal::Forbidden("the credential does not reach this agent"));
            }
        }
        guard.identify(&principal.id).map_err(too_many)?;
        let subprotocol = subprotocol.or_else(|| opening.subprotocol.clone());
        Ok(Admitted { request, opening, subprotocol, identity, address, guard })
    }

    /// Who it is, and the sub-protocol that the credential which counts goes with.
    fn identify(
        &self,
        opening: &Opening,
        now: Timestamp,
    ) -> Result<(Identity, Option<Pii<String>>), Refusal> {
        let refusal = |error| match error {
            AuthError::Missing => Refusal::CredentialMissing,
            AuthError::Invalid => Refusal::CredentialInvalid,
            AuthError::Expired => Refusal::CredentialExpired,
        };
        let mut refused = None;
        for Credential { token, subprotocol } in &opening.credentials {
            match self.authenticator.identify(Some(&token.0), now) {
                Ok(identity) => return Ok((identity, subprotocol.clone())),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) => Err(refusal(error)),
            None => self.authenticator.identify(None, now).map(|identity| (identity, None)).map_err(refusal),
        }
    }

    /// Makes the connection of a visitor who may come in.
    fn enter(&self, protocol: &Arc<dyn Protocol>, admitted: Admitted) -> Result<Entered, Refusal> {
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
        let path = request.target.clone();
        let upgrade = Upgrade {
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
            agent,
            assigned,
            frames,
            subprotocol: _,
            identity,
            address,
            guard,
            meters,
        } = entered;
        let port = Arc::new(Port::default());
        let opened_at = self.gateway.sessions.environment.clock.now();
        let principal = identity.principal.clone();
        let identity = Arc::new(Mutex::new(identity));
        let listed = self.registry.enter(Entry {
            protocol,
            identity: identity.clone(),
            address,
            opened_at,
            port: port.clone(),
        });
        let span = tracing::info_span!("connection", protocol, connection_id = listed.number);
        let bucket = self.buckets.of(&principal.id, frames.map(|rate| (protocol, rate)), opened_at);
        let number = listed.number;
        let caller = Caller {
            principal,
            identity,
            bucket,
            port,
            protocol,
            path,
            agent,
            assigned,
            home: None,
            callsign: None,
            number,
            visits: None,
        };
        let (gateway, authenticator) = (self.gateway.clone(), self.authenticator.clone());
        meters.opened.increment(1);
        meters.open.increment(1);
        let mut driver =
            Driver::new(connection, caller, gateway, authenticator, self.max_backlog, meters.clone());
        async move {
            let code = driver.drive(&mut transport).instrument(span).await;
            meters.open.decrement(1);
            meters.closed(code);
            drop((listed, guard));
        }
    }

    fn opening_request(&self, protocol: &dyn Protocol, visitor: &Visitor) -> OpeningRequest {
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let mut authorizations = visitor.headers.get_all(header::AUTHORIZATION).iter();
        let authorization = match (authorizations.next(), authorizations.next()) {
            (Some(one), None) => Some(Pii(text(one).unwrap_or_default())),
            (None, _) => None,
            // Two credentials are as good as a wrong one.
            (Some(_), Some(_)) => Some(Pii(String::new())),
        };
        let subprotocols = visitor
            .headers
            .get_all(header::SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(text)
            .flat_map(|list| list.split(',').map(|entry| Pii(entry.trim().to_owned())).collect::<Vec<_>>())
            .collect();
        let websocket = visitor
            .headers
            .get(header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let read = protocol.headers().iter();
        let host = visitor.headers.get(header::HOST).and_then(text).unwrap_or_default();
        OpeningRequest {
            path: visitor.route.path,
            target: visitor.uri.path().to_owned(),
            origin: format!("{}://{host}", if self.secure { "https" } else { "http" }),
            headers: read
                .flat_map(|name| {
                    visitor.headers.get_all(*name).iter().filter_map(text).map(|value| (*name, value))
                })
                .collect(),
            query: visitor.uri.query().unwrap_or_default().to_owned(),
            authorization,
            subprotocols,
            websocket,
            method: match visitor.route.transport {
                switchboard_core::Transport::Http(method) => method,
                switchboard_core::Transport::WebSocket => Method::Get,
            },
        }
    }
}

/// A visitor who may come in.
struct Admitted {
    request: OpeningRequest,
    opening: Opening,
    subprotocol: Option<Pii<String>>,
    identity: Identity,
    address: IpAddr,
    guard: ConnectionGuard,
}

/// A connection that only lacks its transport.
struct Entered {
    connection: Box<dyn Connection>,
    protocol: &'static str,
    path: String,
    agent: AgentId,
    assigned: bool,
    frames: Option<Rate>,
    subprotocol: Option<Pii<String>>,
    identity: Identity,
    address: IpAddr,
    guard: ConnectionGuard,
    meters: TransportMeters,
}

fn too_many(error: TooMany) -> Refusal {
    Refusal::TooMany { retry_ms: error.retry_ms() }
}

/// An answer with what the protocol sends with every answer.
fn with_headers(protocol: &dyn Protocol, mut response: Response) -> Response {
    for (name, value) in protocol.answer_headers() {
        response.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    response
}

fn is_too_big(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>())
}

/// Small, so that an idle connection is; a larger message grows it for a while.
const READ_BUFFER: usize = 2 << 10;
/// Several messages go out with one system call.
const WRITE_BUFFER: usize = 16 << 10;
const MAX_WRITE_BUFFER: usize = 256 << 10;
const DRAINING_RETRY_MS: u64 = 1000;
/// How long the body of a request may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
const FORWARDED_FOR: &str = "x-forwarded-for";
