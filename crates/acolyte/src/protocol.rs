//! Acolyte as the server's registry knows it: its routes, its ways in, and its ways to say no (§2).

use std::sync::Arc;

use serde_json::json;
use switchboard_core::{
    Connection, Credential, Method, Opening, OpeningRequest, Pii, Protocol, Refusal, RefusalReply, Right,
    Route, Seed, Transport, Upgrade,
};

use crate::conn::{AcolyteConnection, Exchange, Purpose, Wire};
use crate::error::{Code, Source};
use crate::ledger::Ledger;
use crate::limits::AcolyteLimits;

/// The protocol of a coding-agent terminal.
#[derive(Debug)]
pub struct Acolyte {
    limits: AcolyteLimits,
    service: Service,
    ledger: Arc<Ledger>,
}

/// What the server says of itself, and how it behaves where the protocol leaves that open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The name of the server and its version.
    pub server: String,
    /// The default model; none for the name of the agent that serves the connection.
    pub model: Option<String>,
    /// Providers of models, of those that the protocol knows.
    pub providers: Vec<String>,
    /// How each of them is paid.
    pub provider_auth: Vec<String>,
    /// Whether questions of agents are turned down at once, since no client can answer them; they
    /// wait for other participants otherwise.
    pub deny_questions: bool,
}

impl Acolyte {
    /// With these limits.
    pub fn new(limits: AcolyteLimits, service: Service) -> Self {
        let ledger = Arc::new(Ledger::new(limits.tasks as usize));
        Self { limits, service, ledger }
    }
}

impl Protocol for Acolyte {
    fn name(&self) -> &'static str {
        "acolyte"
    }

    fn routes(&self) -> &'static [Route] {
        ROUTES
    }

    fn max_message(&self) -> usize {
        self.limits.max_message as usize
    }

    fn headers(&self) -> &'static [&'static str] {
        &[VERSION_HEADER]
    }

    fn answer_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[(VERSION_HEADER, VERSION)]
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        let mut credentials = Vec::new();
        if let Some(Pii(value)) = &request.authorization {
            // As it is written: another spelling of the scheme is another scheme, and no key. Only where there are
            // keys does that matter.
            let token = value.strip_prefix("Bearer ").unwrap_or_default();
            credentials.push(Credential { token: Pii(token.to_owned()), subprotocol: None });
        }
        credentials.extend(request.offered_tokens("bearer."));
        let subprotocol = request.subprotocols.first().cloned();
        Ok(Opening { credentials, subprotocol, agent: None, parameters: Vec::new() })
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        if let Some(version) = offered_version(&upgrade.request).filter(|version| *version != VERSION) {
            return Err(Refusal::Version(Pii(version.to_owned())));
        }
        let (mut service, ledger) = (self.service.clone(), self.ledger.clone());
        service.model.get_or_insert_with(|| upgrade.agent.to_string());
        let wire = match upgrade.request.path {
            STATUS => return Ok(Box::new(Exchange::new(Purpose::Status, service, ledger, upgrade))),
            SHUTDOWN => return Ok(Box::new(Exchange::new(Purpose::Shutdown, service, ledger, upgrade))),
            STREAM => Wire::Stream,
            _ if upgrade.request.websocket => Wire::Rpc,
            _ => return Err(Refusal::UpgradeRequired),
        };
        Ok(Box::new(AcolyteConnection::new(self.limits.clone(), service, ledger, wire, upgrade, seed)))
    }

    fn refuse(&self, refusal: &Refusal, _request_id: &str) -> RefusalReply {
        let (status, words) = match refusal {
            Refusal::UpgradeRequired | Refusal::Malformed(_) | Refusal::Named(_) => {
                (400, "WebSocket upgrade failed")
            }
            Refusal::WrongMethod | Refusal::UnknownAgent => (404, "Not Found"),
            Refusal::TooBig => (413, "Payload Too Large"),
            Refusal::CredentialMissing | Refusal::CredentialInvalid | Refusal::CredentialExpired => {
                (401, "Unauthorized")
            }
            Refusal::Forbidden(_) => (403, "Forbidden"),
            Refusal::TooMany { .. } => (429, "Too Many Requests"),
            Refusal::Draining { .. } => (503, "Service Unavailable"),
            Refusal::Version(Pii(version)) => return refuse_version(version),
        };
        let headers = refusal.headers(status);
        RefusalReply { status, headers, content_type: "text/plain", body: words.to_owned() }
    }
}

/// The version that a request asks for, in its header, or in the query of an upgrade: elsewhere queries are ignored.
fn offered_version(request: &OpeningRequest) -> Option<&str> {
    let header = request.headers.iter().find(|(name, _)| *name == VERSION_HEADER);
    let query = if request.websocket { request.query.as_str() } else { "" };
    let named = || query.split('&').find_map(|pair| pair.strip_prefix("protocol="));
    header.map(|(_, version)| version.as_str()).or_else(named)
}

fn refuse_version(version: &str) -> RefusalReply {
    let message = crate::conn::unsupported(version);
    let body = json!({
        "errorMessage": message,
        "errorCode": Code::PROTOCOL_VERSION.as_str(),
        "error": Code::PROTOCOL_VERSION.detail(Source::Server, None),
    });
    let (headers, content_type) = (Vec::new(), "application/json");
    RefusalReply { status: 400, headers, content_type, body: body.to_string() }
}

/// The one version that is spoken.
pub(crate) const VERSION: &str = "1";
const VERSION_HEADER: &str = "acolyte-protocol";
const STATUS: &str = "/v1/status";
const SHUTDOWN: &str = "/v1/admin/shutdown";
const STREAM: &str = "/v1/chat/stream";

static ROUTES: &[Route] = &[
    Route { path: "/v1/rpc", transport: Transport::WebSocket, right: Right::Connect },
    Route { path: STATUS, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: STREAM, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: SHUTDOWN, transport: Transport::Http(Method::Post), right: Right::Administer },
];
