//! ASP as the server's registry knows it: its routes, its upgrade (§2) and its ways to say no.

use switchboard_core::{
    AgentId, Connection, Credential, Opening, OpeningRequest, Pii, Protocol, Rate, Refusal, RefusalReply,
    Right, Route, Seed, Transport, Upgrade,
};

use crate::conn::AspConnection;
use crate::error::Code;
use crate::limits::AspLimits;
use crate::upgrade::{PATH, PATH_ALIAS, SUBPROTOCOL, bearer_token, is_bearer_entry};

/// The Agent Socket Protocol.
#[derive(Debug)]
pub struct Asp {
    limits: AspLimits,
    routes: &'static [Route],
}

impl Asp {
    /// With these limits, on the path of the draft.
    pub fn new(limits: AspLimits) -> Self {
        Self { limits, routes: &ROUTES[..1] }
    }

    /// Also on the path that the draft's diagrams show.
    #[must_use]
    pub fn with_alias(mut self) -> Self {
        self.routes = ROUTES;
        self
    }
}

impl Protocol for Asp {
    fn name(&self) -> &'static str {
        "asp"
    }

    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn max_message(&self) -> usize {
        self.limits.max_message as usize
    }

    fn arrivals(&self) -> Option<Rate> {
        let AspLimits { connections_per_s, connections_burst, .. } = self.limits;
        Some(Rate::per_second(connections_per_s.into(), connections_burst.into()))
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        if !request.websocket {
            return Err(Refusal::UpgradeRequired);
        }
        let parameters = parse_query(&request.query);
        if parameters.iter().any(|(name, _)| names_token(name)) {
            return Err(Refusal::CredentialInvalid);
        }
        let entries: Vec<&str> = request.subprotocols.iter().map(|entry| entry.0.as_str()).collect();
        if !entries.contains(&SUBPROTOCOL) {
            return Err(Refusal::Malformed("the subprotocol asp-v1 is not offered"));
        }
        let agent = match parameters.iter().find(|(name, _)| name == "agent") {
            Some((_, agent)) if is_agent_name(agent) => Some(AgentId::from(agent.as_str())),
            Some(_) => return Err(Refusal::Malformed("agent is not a valid name")),
            None => None,
        };
        Ok(Opening {
            credentials: credential(request, &entries)?
                .map(|token| Credential { token, subprotocol: None })
                .into_iter()
                .collect(),
            subprotocol: Some(Pii(SUBPROTOCOL.to_owned())),
            agent,
            parameters,
        })
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(AspConnection::new(self.limits.clone(), upgrade, seed)))
    }

    fn refuse(&self, refusal: &Refusal, _request_id: &str) -> RefusalReply {
        let (status, code, message) = match refusal {
            Refusal::UpgradeRequired => (426, Code::ProtocolError, "this path speaks WebSocket only"),
            Refusal::Malformed(reason) | Refusal::Named(reason) => (400, Code::ProtocolError, *reason),
            Refusal::WrongMethod => (405, Code::ProtocolError, "not this method"),
            Refusal::Version(_) => (400, Code::ProtocolError, "this version is not spoken"),
            Refusal::TooBig => (413, Code::PayloadTooLarge, "the request is too large"),
            Refusal::CredentialMissing => (401, Code::AuthRequired, "a bearer token is needed"),
            Refusal::CredentialInvalid => (401, Code::AuthInvalid, "the credential is not valid"),
            Refusal::CredentialExpired => (401, Code::AuthExpired, "the credential has expired"),
            Refusal::Forbidden(reason) => (403, Code::Forbidden, *reason),
            Refusal::UnknownAgent => (404, Code::AgentNotFound, "no such agent"),
            Refusal::TooMany { .. } => (429, Code::RateLimited, "too many connections"),
            Refusal::Draining { .. } => {
                (503, Code::RelayUnavailable, "the server is leaving; come back later")
            }
        };
        let mut error = serde_json::json!({
            "code": code.number(), "name": code.name(), "msg": message, "retry": code.retry(),
        });
        if let Some(retry_ms) = refusal.retry_ms() {
            error["retry_ms"] = retry_ms.into();
        }
        let headers = refusal.headers(status);
        let body = serde_json::json!({ "error": error }).to_string();
        RefusalReply { status, headers, content_type: "application/json", body }
    }
}

/// The one credential of a request: in the header, or in the list of sub-protocols. Both are fine
/// if they say the same.
fn credential(request: &OpeningRequest, entries: &[&str]) -> Result<Option<Pii<String>>, Refusal> {
    let header = request.bearer()?.map(|Pii(token)| token);
    let mut claimed = entries.iter().copied().filter(|entry| is_bearer_entry(entry));
    let entry = match (claimed.next(), claimed.next()) {
        (None, _) => None,
        (Some(entry), None) => Some(bearer_token(entry).ok_or(Refusal::CredentialInvalid)?),
        (Some(_), Some(_)) => return Err(Refusal::CredentialInvalid),
    };
    match (header, entry) {
        (Some(header), Some(entry)) if header != entry => Err(Refusal::CredentialInvalid),
        (Some(token), _) | (None, Some(token)) => Ok(Some(Pii(token))),
        (None, None) => Ok(None),
    }
}

fn is_agent_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(name), percent_decode(value))
        })
        .collect()
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or(b'?'),
                    _ => b'?',
                }
            }
            other => other,
        };
        bytes.push(decoded);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether people put tokens under this name, which do not belong in a URL. However it is written.
fn names_token(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    TOKEN_NAMES.iter().any(|known| known.eq_ignore_ascii_case(&name))
}

const TOKEN_NAMES: &[&str] = &[
    "token",
    "accesstoken",
    "authtoken",
    "idtoken",
    "auth",
    "authorization",
    "bearer",
    "aspbearer",
    "apikey",
    "key",
    "jwt",
    "secret",
    "password",
];

static ROUTES: &[Route] = &[
    Route { path: PATH, transport: Transport::WebSocket, right: Right::Connect },
    Route { path: PATH_ALIAS, transport: Transport::WebSocket, right: Right::Connect },
];
