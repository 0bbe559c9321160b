//! VIP, as the server's registry knows it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use switchboard_core::{
    AgentId, Comparison, Condition, Connection, Lookup, Method, Opening, OpeningRequest, Pii, Principal,
    PrincipalId, Protocol, Question, Rate, Refusal, RefusalReply, Right, Route, Scopes, Seed, SessionId,
    Timestamp, Transport, Upgrade, Within,
};

use crate::conn::{self, Kind};
use crate::error::{Code, Fault};
use crate::http::{self, Recent};
use crate::limits::VipLimits;
use crate::minutes::{Arrivals, tables};
use crate::record::SessionRecord;
use crate::token::{self, EphemeralClaims, Seal, SessionClaims, Unsealed};

/// The protocol, with its bounds and what the deployment says of itself.
#[derive(Clone, Debug)]
pub struct Vip {
    pub(crate) limits: Arc<VipLimits>,
    pub(crate) service: Arc<Service>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) arrivals: Arc<Arrivals>,
}

/// What the deployment says of itself.
#[derive(Clone)]
pub struct Service {
    /// Signs tokens.
    pub seal: Arc<dyn Seal>,
    /// What the server calls itself as an issuer and audience; none: the origin under which it is reached.
    pub issuer: Option<String>,
    /// The origin under which clients reach it, such as `https://vip.example`; none: where the request came to.
    pub public_url: Option<String>,
    /// Whether sessions may be created for development.
    pub allow_development: bool,
    /// The agent that answers, unless routes say otherwise.
    pub agent: Option<AgentId>,
    /// Instructions by the id of their prompt; `{{name}}` stands for a variable.
    pub prompts: BTreeMap<String, String>,
    /// Providers with endpoints of their own, in the order of preference.
    pub providers: Vec<Provider>,
    /// What WebRTC peers may use to find a way.
    pub ice_servers: Vec<IceServer>,
    /// Whether WebRTC is offered.
    pub webrtc: bool,
    /// What there is of a voice.
    pub speech: Speech,
    /// What is said when the introduction is asked for and the agent has none.
    pub introduction: String,
    /// Whether the user may speak over it.
    pub introduction_interruptible: bool,
}

/// Whether this server understands speech and speaks, and what it lacks for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speech {
    /// Whether speech is understood: if not, users type.
    pub hears: bool,
    /// Whether answers are spoken: if not, they are text.
    pub speaks: bool,
    /// What is missing and what to do about it, for whoever runs the server; users are never told.
    pub missing: Vec<String>,
}

/// A provider with an endpoint of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its id.
    pub id: String,
    /// How it is spoken to: `vip-native`, `openai-realtime-v1`, or a vendor's own.
    pub adapter: String,
    /// `websocket` or `webrtc`.
    pub transport: String,
    /// Where; none for this server itself.
    pub url: Option<String>,
    /// The model.
    pub model: String,
    /// The voice.
    pub voice: Option<String>,
    /// `header`, `subprotocol` or `sdp_post`.
    pub auth_style: String,
    /// What stands before the credential in a sub-protocol.
    pub subprotocol_prefix: Option<String>,
    /// The label of its data channel.
    pub data_channel: Option<String>,
    /// How long a credential for it is good, in seconds, where this server makes it.
    pub ttl_s: u64,
    /// Whether its key is for production, and no session of development may have it.
    pub production: bool,
}

/// A server that helps WebRTC peers to find a way.
#[derive(Clone, PartialEq, Eq)]
pub struct IceServer {
    /// Where.
    pub urls: Vec<String>,
    /// The name to show.
    pub username: Option<String>,
    /// The credential to show.
    pub credential: Option<String>,
}

impl fmt::Debug for IceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IceServer").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Vip {
    /// With these limits.
    pub fn new(limits: VipLimits, service: Service) -> Self {
        Self {
            limits: Arc::new(limits),
            service: Arc::new(service),
            recent: Arc::default(),
            arrivals: Arc::default(),
        }
    }

    /// The claims of the session token that comes with a request, wherever it is.
    fn session_claims(&self, request: &OpeningRequest, now: Timestamp) -> Result<SessionClaims, Refusal> {
        let (token, in_query) = session_token(request)?;
        let claims = self.service.seal.open(token::SESSION, &token).map_err(unsealed)?;
        let claims: SessionClaims = serde_json::from_value(claims).map_err(|_| Refusal::CredentialInvalid)?;
        if claims.aud != token::AUDIENCE {
            return Err(Refusal::CredentialInvalid);
        }
        if in_query && claims.env != "development" {
            return Err(Refusal::Named(Code::AuthTokenLocation.name()));
        }
        if claims.exp <= now.as_secs() {
            return Err(Refusal::CredentialExpired);
        }
        if segment(&request.target, SESSION_SEGMENT) != Some(claims.sid.as_str()) {
            return Err(Refusal::Named(Code::SesNotFound.name()));
        }
        Ok(claims)
    }

    /// The claims of the credential with which our own provider endpoint is opened.
    fn ephemeral_claims(&self, request: &OpeningRequest, now: Timestamp) -> Result<EphemeralClaims, Refusal> {
        let (token, in_query) = session_token(request)?;
        if in_query {
            return Err(Refusal::Named(Code::AuthTokenLocation.name()));
        }
        let claims = self.service.seal.open(token::EPHEMERAL, &token).map_err(unsealed)?;
        let claims: EphemeralClaims =
            serde_json::from_value(claims).map_err(|_| Refusal::CredentialInvalid)?;
        let known = self.service.providers.iter().any(|provider| {
            provider.id == claims.aud && provider.adapter == NATIVE && provider.url.is_none()
        });
        if !known {
            return Err(Refusal::CredentialInvalid);
        }
        if claims.exp <= now.as_secs() {
            return Err(Refusal::CredentialExpired);
        }
        Ok(claims)
    }
}

impl Protocol for Vip {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self) -> &'static [Route] {
        ROUTES
    }

    fn max_message(&self) -> usize {
        let VipLimits { text_bytes, frame_bytes, body_bytes, .. } = *self.limits;
        // What is somewhat too large is told so in the protocol's own words.
        text_bytes.max(frame_bytes).max(body_bytes).saturating_mul(4) as usize
    }

    fn headers(&self) -> &'static [&'static str] {
        &["content-type", "idempotency-key", "origin"]
    }

    fn frames(&self) -> Option<Rate> {
        // Fifty packets a second in each of a few sessions; what is too much for one is told to it.
        Some(Rate::per_second(2_000, 4_000))
    }

    fn judges_origins(&self) -> bool {
        true
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        let mut subprotocol = None;
        if matches!(request.path, STREAM | CONTROL | PROVIDER_STREAM) {
            if !request.websocket {
                return Err(Refusal::UpgradeRequired);
            }
            // Anything may be offered besides, but nothing else is spoken.
            if !request.subprotocols.iter().any(|offered| offered.0 == SUBPROTOCOL) {
                return Err(Refusal::Malformed("the subprotocol vip.v1 is not offered"));
            }
            subprotocol = Some(Pii(SUBPROTOCOL.to_owned()));
        }
        let agent = self.service.agent.clone();
        Ok(Opening { credentials: Vec::new(), subprotocol, agent, parameters: Vec::new() })
    }

    fn identify(
        &self,
        request: &OpeningRequest,
        _opening: &Opening,
        now: Timestamp,
    ) -> Option<Result<Principal, Refusal>> {
        let known = match request.path {
            DISCOVERY | KEYS | SESSIONS => return Some(Ok(stranger())),
            // An application may vouch for the user anew.
            TOKEN => match self.session_claims(request, now) {
                Err(Refusal::CredentialInvalid) => return Some(Ok(stranger())),
                Err(Refusal::Named(code)) if code == Code::AuthAlgForbidden.name() => {
                    return Some(Ok(stranger()));
                }
                known => known.map(|claims| claims.own),
            },
            PROVIDER_STREAM => self.ephemeral_claims(request, now).map(|claims| claims.own),
            _ => self.session_claims(request, now).map(|claims| claims.own),
        };
        if request.foreign && known.is_ok() {
            return Some(Err(Refusal::Named(Code::AuthOrigin.name())));
        }
        Some(known.map(|own| Principal { id: PrincipalId::from(own.as_str()), ..stranger_with(ORDINARY) }))
    }

    fn preview(&self, request: &OpeningRequest, principal: &Principal) -> Option<Lookup> {
        if *principal == stranger() {
            return None;
        }
        let session = match request.path {
            PROVIDER_STREAM => {
                let (token, _) = session_token(request).ok()?;
                let claims = self.service.seal.open(token::EPHEMERAL, &token).ok()?;
                claims["sid"].as_str()?.to_owned()
            }
            _ => segment(&request.target, SESSION_SEGMENT)?.to_owned(),
        };
        Some(by_session(&session))
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        let path = upgrade.request.path;
        if matches!(path, DISCOVERY | KEYS | SESSIONS) || upgrade.principal == stranger() {
            return Ok(http::exchange(self, upgrade, None, seed));
        }
        let record = upgrade.known.first().and_then(SessionRecord::read);
        let record = record.ok_or(Refusal::Named(Code::SesNotFound.name()))?;
        record.check(&self.limits, upgrade.now).map_err(|code| Refusal::Named(code.name()))?;
        let webrtc =
            upgrade.opening.parameters.iter().any(|(name, value)| name == "webrtc" && value == "true");
        let kind = match (path, record.settings.mode.as_str()) {
            (STREAM, EXTERNAL) => {
                if webrtc {
                    Kind::Peer
                } else {
                    Kind::Stream
                }
            }
            (CONTROL, INTERNAL) => Kind::Control,
            (STREAM | CONTROL, _) => return Err(Refusal::Named(Code::SesNotFound.name())),
            (PROVIDER_STREAM, _) => {
                let claims = self.ephemeral_claims(&upgrade.request, upgrade.now)?;
                return Ok(conn::provider(self, &upgrade, record, &claims, seed));
            }
            _ => {
                let claims = self.session_claims(&upgrade.request, upgrade.now).ok();
                return Ok(http::exchange(self, upgrade, claims.map(|claims| (claims, record)), seed));
            }
        };
        Ok(conn::open(self, kind, &upgrade, record, seed))
    }

    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply {
        let fault = match refusal {
            Refusal::UpgradeRequired => {
                Fault::new(Code::ProtoMalformed).because("this path speaks WebSocket")
            }
            Refusal::Malformed(what) => Fault::new(Code::ProtoMalformed).because(*what),
            Refusal::Named(code) => Fault::new(Code::from_name(code).unwrap_or(Code::Internal)),
            Refusal::WrongMethod => {
                Fault::new(Code::ProtoMalformed).because("there is nothing for this method")
            }
            Refusal::Version(_) => Fault::new(Code::ProtoVersion),
            Refusal::TooBig => Fault::new(Code::ProtoTooLarge),
            Refusal::CredentialMissing => Fault::new(Code::AuthTokenMissing),
            Refusal::CredentialInvalid => Fault::new(Code::AuthTokenInvalid),
            Refusal::CredentialExpired => Fault::new(Code::AuthTokenExpired),
            Refusal::Forbidden(what) => Fault::new(Code::AuthOrigin).because(*what),
            Refusal::UnknownAgent => Fault::new(Code::ProvUnavailable).because("no such agent"),
            Refusal::TooMany { retry_ms } => {
                Fault { retry_after_ms: Some(*retry_ms), ..Fault::new(Code::RateEvents) }
            }
            Refusal::Draining { retry_ms } => {
                Fault { retry_after_ms: Some(*retry_ms), ..Fault::new(Code::NetServerDraining) }
            }
        };
        let status = if *refusal == Refusal::UpgradeRequired {
            426
        } else if *refusal == Refusal::WrongMethod {
            405
        } else {
            fault.code.http().unwrap_or(400)
        };
        RefusalReply {
            status,
            headers: http::headers_of(status, &fault),
            content_type: http::JSON,
            body: fault.http_body(request_id),
        }
    }
}

/// The session token of a request, and whether it stands in its query.
fn session_token(request: &OpeningRequest) -> Result<(String, bool), Refusal> {
    if let Some(Pii(token)) = request.bearer()? {
        return Ok((token, false));
    }
    let offered = request.subprotocols.iter().find_map(|entry| entry.0.strip_prefix(BEARER));
    if let Some(token) = offered {
        return Ok((token.to_owned(), false));
    }
    let in_query = request.query.split('&').find_map(|pair| pair.strip_prefix("token="));
    in_query.map(|token| (token.to_owned(), true)).ok_or(Refusal::CredentialMissing)
}

fn unsealed(why: Unsealed) -> Refusal {
    match why {
        Unsealed::Invalid => Refusal::CredentialInvalid,
        Unsealed::Algorithm => Refusal::Named(Code::AuthAlgForbidden.name()),
    }
}

/// A segment of a path, by its number.
pub(crate) fn segment(target: &str, number: usize) -> Option<&str> {
    target.trim_start_matches('/').split('/').nth(number).filter(|segment| !segment.is_empty())
}

/// The row of a session, for whoever takes part in it.
pub(crate) fn by_session(session: &str) -> Lookup {
    Lookup {
        table: tables::SESSIONS.name,
        within: Within::Session(SessionId::new(session)),
        conditions: vec![Condition { column: "session_id", is: Comparison::Equal, value: session.into() }],
        question: Question::Rows(Vec::new()),
        limit: 1,
    }
}

/// Somebody of whom nothing is known yet.
fn stranger() -> Principal {
    Principal { id: PrincipalId::from(STRANGER), ..stranger_with("connect") }
}

fn stranger_with(scopes: &str) -> Principal {
    Principal { scopes: Scopes::parse(scopes), ..Principal::new(STRANGER) }
}

/// The words of an error that somebody is told when an errand came to nothing.
pub(crate) fn failure(answer: &Value) -> Option<Fault> {
    let code = Code::from_name(answer.get("failed")?.as_str()?).unwrap_or(Code::Internal);
    let fault = Fault::new(code);
    Some(match answer.get("message").and_then(Value::as_str) {
        Some(message) => fault.because(message.to_owned()),
        None => fault,
    })
}

/// The name of the protocol in configuration, logs and events.
pub const NAME: &str = "vip";
/// The version that is spoken.
pub const VERSION: &str = "0.1";
/// The subprotocol of its transports.
pub const SUBPROTOCOL: &str = "vip.v1";
/// How its paths begin, besides the well-known ones.
pub const PATHS: &str = "/v1/vip/";
/// The label of its data channel.
pub const DATA_CHANNEL: &str = "vip-events";

pub(crate) const EXTERNAL: &str = "external";
pub(crate) const INTERNAL: &str = "internal";
pub(crate) const NATIVE: &str = "vip-native";
const BEARER: &str = "vip.bearer.";
const STRANGER: &str = "vip|stranger";
const ORDINARY: &str = "connect invoke tools approve";
const SESSION_SEGMENT: usize = 3;

pub(crate) const DISCOVERY: &str = "/.well-known/vip";
pub(crate) const KEYS: &str = "/.well-known/jwks.json";
pub(crate) const SESSIONS: &str = "/v1/vip/sessions";
pub(crate) const SESSION: &str = "/v1/vip/sessions/{sid}";
pub(crate) const TOKEN: &str = "/v1/vip/sessions/{sid}/token";
pub(crate) const CREDENTIAL: &str = "/v1/vip/sessions/{sid}/credential";
pub(crate) const WEBRTC: &str = "/v1/vip/sessions/{sid}/webrtc";
pub(crate) const PEER: &str = "/v1/vip/sessions/{sid}/webrtc/{pc}";
pub(crate) const FUNCTION: &str = "/v1/vip/sessions/{sid}/functions/{name}";
pub(crate) const HISTORY: &str = "/v1/vip/sessions/{sid}/history";
/// Where the events and the audio of a session are carried; also the path of a WebRTC peer's connection.
pub const STREAM: &str = "/v1/vip/sessions/{sid}/stream";
pub(crate) const CONTROL: &str = "/v1/vip/sessions/{sid}/control";
pub(crate) const PROVIDER_STREAM: &str = "/v1/vip/stream";

static ROUTES: &[Route] = &[
    Route { path: DISCOVERY, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: KEYS, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: SESSIONS, transport: Transport::Http(Method::Post), right: Right::Connect },
    Route { path: SESSION, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: SESSION, transport: Transport::Http(Method::Delete), right: Right::Connect },
    Route { path: TOKEN, transport: Transport::Http(Method::Post), right: Right::Connect },
    Route { path: CREDENTIAL, transport: Transport::Http(Method::Post), right: Right::Connect },
    Route { path: WEBRTC, transport: Transport::Http(Method::Post), right: Right::Connect },
    Route { path: PEER, transport: Transport::Http(Method::Patch), right: Right::Connect },
    Route { path: PEER, transport: Transport::Http(Method::Delete), right: Right::Connect },
    Route { path: FUNCTION, transport: Transport::Http(Method::Post), right: Right::Connect },
    Route { path: HISTORY, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: STREAM, transport: Transport::WebSocket, right: Right::Connect },
    Route { path: CONTROL, transport: Transport::WebSocket, right: Right::Connect },
    Route { path: PROVIDER_STREAM, transport: Transport::WebSocket, right: Right::Connect },
];
