//! From an HTTP request to a driven connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use switchboard_core::{Opening, OpeningRequest, Pii, Protocol, Refusal, Scope, Seed, Upgrade};
use tracing::Instrument as _;

use crate::auth::{AuthError, Authenticator, Identity};
use crate::driver::Driver;
use crate::gateway::{Caller, Gateway};
use crate::limits::{ConnectionGuard, ConnectionLimits, PrincipalBuckets, TooMany};
use crate::meters::TransportMeters;
use crate::origin::{OriginError, OriginPolicy};
use crate::port::Port;
use crate::registry::{Entry, Registry};

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
}

/// Everything about a request that decides whether it becomes a connection.
pub(crate) struct Visitor {
    pub(crate) address: SocketAddr,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) websocket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
}

impl Door {
    /// Lets a visitor in as a connection of `protocol`, or says no in the protocol's own words.
    pub(crate) fn enter(self: &Arc<Self>, protocol: &Arc<dyn Protocol>, visitor: Visitor) -> Response {
        match self.admit(protocol, &visitor) {
            Ok(admitted) => self.welcome(protocol, admitted, visitor),
            Err(refusal) => {
                self.meters(protocol).refused(&refusal);
                tracing::debug!(protocol = protocol.name(), ?refusal, "a connection was refused");
                refuse(protocol, &refusal)
            }
        }
    }

    fn meters(&self, protocol: &Arc<dyn Protocol>) -> TransportMeters {
        self.meters.get(protocol.name()).cloned().unwrap_or_else(|| TransportMeters::new(protocol.name()))
    }

    fn admit(&self, protocol: &Arc<dyn Protocol>, visitor: &Visitor) -> Result<Admitted, Refusal> {
        let now = self.gateway.sessions.environment.clock.now();
        let header = |name| visitor.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let address = self.origins.client_address(visitor.address.ip(), header(FORWARDED_FOR));
        let mut guard = self.limits.open(address, now).map_err(too_many)?;
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
        let opening = protocol.inspect(&opening_request(visitor))?;
        let credential = opening.credential.as_ref().map(|credential| credential.0.as_str());
        let identity = self.authenticator.identify(credential, now).map_err(|error| match error {
            AuthError::Missing => Refusal::CredentialMissing,
            AuthError::Invalid => Refusal::CredentialInvalid,
            AuthError::Expired => Refusal::CredentialExpired,
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
        Ok(Admitted { opening, identity, address, guard })
    }

    fn welcome(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        admitted: Admitted,
        visitor: Visitor,
    ) -> Response {
        let Admitted { opening, identity, address, guard } = admitted;
        let principal = identity.principal.clone();
        let Ok(websocket) = visitor.websocket else {
            return refuse(protocol, &Refusal::Malformed("not a valid WebSocket upgrade"));
        };
        let host = &self.gateway.sessions.environment.host;
        let upgrade = Upgrade {
            principal: principal.clone(),
            agent: opening.agent.clone().unwrap_or_else(|| host.default_agent().clone()),
            agents: host.agents(),
            tools: host.tools(opening.agent.as_ref().unwrap_or_else(|| host.default_agent())),
            opening: opening.clone(),
        };
        let connection = match protocol.accept(upgrade, Seed::new(crate::entropy::bytes())) {
            Ok(connection) => connection,
            Err(refusal) => return refuse(protocol, &refusal),
        };
        let door = self.clone();
        let meters = self.meters(protocol);
        let name = protocol.name();
        let mut websocket = websocket
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_write_buffer_size(protocol.max_message() + MAX_WRITE_BUFFER)
            .max_message_size(protocol.max_message())
            .max_frame_size(protocol.max_message());
        if let Some(subprotocol) = opening.subprotocol {
            websocket = websocket.protocols([subprotocol]);
        }
        websocket.on_upgrade(move |mut socket: WebSocket| async move {
            let port = Arc::new(Port::default());
            let opened_at = door.gateway.sessions.environment.clock.now();
            let identity = Arc::new(Mutex::new(identity));
            let listed = door.registry.enter(Entry {
                protocol: name,
                identity: identity.clone(),
                address,
                opened_at,
                port: port.clone(),
            });
            let span = tracing::info_span!("connection", protocol = name, connection_id = listed.number);
            let bucket = door.buckets.of(&principal.id, opened_at);
            let caller = Caller { principal, identity, bucket, port };
            let (gateway, authenticator) = (door.gateway.clone(), door.authenticator.clone());
            meters.opened.increment(1);
            meters.open.increment(1);
            let mut driver =
                Driver::new(connection, caller, gateway, authenticator, door.max_backlog, meters.clone());
            let code = driver.drive(&mut socket).instrument(span).await;
            meters.open.decrement(1);
            meters.closed(code);
            drop((listed, guard));
        })
    }
}

struct Admitted {
    opening: Opening,
    identity: Identity,
    address: IpAddr,
    guard: ConnectionGuard,
}

fn too_many(error: TooMany) -> Refusal {
    Refusal::TooMany { retry_ms: error.retry_ms() }
}

fn opening_request(visitor: &Visitor) -> OpeningRequest {
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
    OpeningRequest {
        query: visitor.uri.query().unwrap_or_default().to_owned(),
        authorization,
        subprotocols,
        websocket,
    }
}

fn refuse(protocol: &Arc<dyn Protocol>, refusal: &Refusal) -> Response {
    let reply = protocol.refuse(refusal);
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], reply.body).into_response();
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Small, so that an idle connection is; a larger message grows it for a while.
const READ_BUFFER: usize = 2 << 10;
/// Several messages go out with one system call.
const WRITE_BUFFER: usize = 16 << 10;
const MAX_WRITE_BUFFER: usize = 256 << 10;
const DRAINING_RETRY_MS: u64 = 1000;
const FORWARDED_FOR: &str = "x-forwarded-for";
