//! AIP as the server's registry knows it: its routes, its ways in, and its ways to say no (§2).

use std::sync::Arc;

use serde_json::json;
use switchboard_core::{
    AgentId, Connection, Credential, Method, Opening, OpeningRequest, Pii, Protocol, Rate, Refusal,
    RefusalReply, Right, Route, Seed, Transport, Upgrade,
};

use crate::conn::{AipConnection, Exchange, Purpose};
use crate::fleet::Fleet;
use crate::limits::AipLimits;

/// The protocol of devices and orchestrators.
#[derive(Debug)]
pub struct Aip {
    limits: Arc<AipLimits>,
    service: Arc<Service>,
    fleet: Arc<Fleet>,
}

/// How the server behaves where the protocol leaves that open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The agent that plans tasks; none for the server's own.
    pub agent: Option<AgentId>,
    /// Whether a constellation may register for no device, and then use each within its reach (A1).
    pub allow_untargeted: bool,
}

impl Aip {
    /// With these limits.
    pub fn new(limits: AipLimits, service: Service) -> Self {
        let fleet = Arc::new(Fleet::new(&limits));
        Self { limits: Arc::new(limits), service: Arc::new(service), fleet }
    }
}

impl Protocol for Aip {
    fn name(&self) -> &'static str {
        "aip"
    }

    fn routes(&self) -> &'static [Route] {
        ROUTES
    }

    fn max_message(&self) -> usize {
        self.limits.max_message as usize
    }

    fn headers(&self) -> &'static [&'static str] {
        &[KEY_HEADER]
    }

    fn frames(&self) -> Option<Rate> {
        let AipLimits { frames_per_s, frames_burst, .. } = *self.limits;
        Some(Rate::per_second(frames_per_s.into(), frames_burst.into()))
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        let mut credentials = Vec::new();
        let mut show = |token: Pii<String>| credentials.push(Credential { token, subprotocol: None });
        if let Some(token) = request.bearer()? {
            show(token);
        }
        for (_, key) in request.headers.iter().filter(|(name, _)| *name == KEY_HEADER) {
            show(Pii(key.clone()));
        }
        // A credential in the address ends up in logs of others, so it counts only where clients have
        // no other way.
        if request.path == SOCKET {
            for token in request.query.split('&').filter_map(|pair| pair.strip_prefix("token=")) {
                show(Pii(decoded(token)));
            }
        }
        Ok(Opening { credentials, subprotocol: None, agent: None, parameters: Vec::new() })
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        let purpose = match upgrade.request.path {
            HEALTH => Purpose::Health,
            CLIENTS => Purpose::Clients,
            DISPATCH => Purpose::Dispatch,
            RESULT => {
                let name = upgrade.request.target.rsplit('/').next().unwrap_or_default();
                Purpose::Result(decoded(name))
            }
            _ if !upgrade.principal.scopes.allows_enrolment() => {
                return Err(Refusal::Forbidden("the credential has no role here"));
            }
            _ => {
                if let Some(wait) = self.fleet.wait_of(&upgrade.principal.id, upgrade.now) {
                    let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    return Err(Refusal::TooMany { retry_ms });
                }
                let (limits, service, fleet) =
                    (self.limits.clone(), self.service.clone(), self.fleet.clone());
                return Ok(Box::new(AipConnection::new(limits, service, fleet, upgrade, seed)));
            }
        };
        Ok(Box::new(Exchange::new(purpose, upgrade.principal, self.fleet.clone(), seed)))
    }

    fn refuse(&self, refusal: &Refusal, _request_id: &str) -> RefusalReply {
        let (status, why) = match refusal {
            Refusal::UpgradeRequired => (426, "this is a WebSocket"),
            Refusal::Malformed(why) | Refusal::Named(why) => (400, *why),
            Refusal::Version(_) => (400, "unknown version"),
            Refusal::WrongMethod => (405, "Method Not Allowed"),
            Refusal::TooBig => (413, "the body is too large"),
            Refusal::CredentialMissing => (401, "Missing API key"),
            Refusal::CredentialInvalid | Refusal::CredentialExpired => (401, "Invalid API key"),
            Refusal::Forbidden(why) => (403, *why),
            Refusal::UnknownAgent => (404, "Not Found"),
            Refusal::TooMany { .. } => (429, "too many connections or attempts"),
            Refusal::Draining { .. } => (503, "the server is shutting down"),
        };
        let headers = refusal.headers(status);
        let body = json!({ "detail": why }).to_string();
        RefusalReply { status, headers, content_type: "application/json", body }
    }
}

/// A part of an address without its percent signs; what is no text stays as it is.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let hex = |digit: &u8| char::from(*digit).to_digit(16);
        match (byte, behind) {
            (b'%', [high, low, after @ ..]) => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    bytes.extend(u8::try_from(high * 16 + low));
                    rest = after;
                }
                _ => bytes.push(byte),
            },
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| part.to_owned())
}

const KEY_HEADER: &str = "x-api-key";
const SOCKET: &str = "/ws";
const HEALTH: &str = "/api/health";
const CLIENTS: &str = "/api/clients";
const DISPATCH: &str = "/api/dispatch";
const RESULT: &str = "/api/task_result/{task_name}";

static ROUTES: &[Route] = &[
    Route { path: SOCKET, transport: Transport::WebSocket, right: Right::Connect },
    Route { path: HEALTH, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: CLIENTS, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: DISPATCH, transport: Transport::Http(Method::Post), right: Right::Dispatch },
    Route { path: RESULT, transport: Transport::Http(Method::Get), right: Right::Dispatched },
];
