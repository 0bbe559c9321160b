//! What a protocol crate offers to the server: routes, the way in, and the words for "no".

use std::fmt::{self, Debug};

use crate::bucket::Rate;
use crate::chronicle::{Found, Lookup};
use crate::connection::Connection;
use crate::id::AgentId;
use crate::model::Tool;
use crate::pii::Pii;
use crate::principal::Principal;
use crate::rights::Right;
use crate::seed::Seed;
use crate::time::Timestamp;

/// A protocol, as the server's registry knows it.
pub trait Protocol: Debug + Send + Sync {
    /// Its name in configuration, logs and metrics.
    fn name(&self) -> &'static str;

    /// Where it is served.
    fn routes(&self) -> &'static [Route];

    /// The largest transport message that is taken; a larger one closes the connection.
    fn max_message(&self) -> usize;

    /// The headers of an opening request that it reads, besides those that have a field of their
    /// own; in lower case.
    fn headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// How fast one address may open connections; none: as fast as the server allows anybody.
    fn arrivals(&self) -> Option<Rate> {
        None
    }

    /// How fast one principal may send messages, over all its connections of this protocol; none: as
    /// fast as the server allows it over all others.
    fn frames(&self) -> Option<Rate> {
        None
    }

    /// Reads what an opening request asks for, before anybody is authenticated.
    ///
    /// # Errors
    /// The request can never become a connection of this protocol.
    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal>;

    /// Who opens a connection, for a protocol with credentials of its own; none: whoever the server
    /// knows by the credentials of the opening.
    ///
    /// # Errors
    /// The credential is missing or wrong.
    fn identify(
        &self,
        _request: &OpeningRequest,
        _opening: &Opening,
        _now: Timestamp,
    ) -> Option<Result<Principal, Refusal>> {
        None
    }

    /// What has to be looked up before [`Protocol::accept`] can be asked; the rows are in
    /// [`Upgrade::known`]. Somebody who may not see them is shown none.
    fn preview(&self, _request: &OpeningRequest, _principal: &Principal) -> Option<Lookup> {
        None
    }

    /// Whether pages of any origin may ask, and the protocol decides itself what it makes of that.
    /// Answers then allow the origin of the request to read them, unless it is foreign.
    fn judges_origins(&self) -> bool {
        false
    }

    /// Headers to be sent with the answer to every request, as lower-case names and values.
    fn answer_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Makes the connection, once the principal is known.
    ///
    /// # Errors
    /// The principal may not have what it asks for.
    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal>;

    /// Says no in the protocol's own words, to the request of this name.
    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply;
}

/// One path of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path, exactly; a segment in braces stands for any one segment.
    pub path: &'static str,
    /// What is spoken there.
    pub transport: Transport,
    /// What a credential has to allow before anything else is looked at.
    pub right: Right,
}

/// A kind of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A WebSocket.
    WebSocket,
    /// One HTTP exchange: the body of the request is the only frame that comes in, and the frames
    /// that go out are the answer, its [`Head`](crate::Head) first.
    Http(Method),
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// GET.
    #[default]
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

/// The HTTP request with which a connection opens.
#[derive(Clone, Default)]
pub struct OpeningRequest {
    /// What the server calls the request; sent back with the answer, as `x-request-id`.
    pub id: String,
    /// Whether it comes from a page of an origin that is not allowed here. Only protocols that judge
    /// origins themselves ever see one.
    pub foreign: bool,
    /// The path of the route that it came to.
    pub path: &'static str,
    /// The path that was asked for, undecoded; another one where the route has a parameter.
    pub target: String,
    /// The scheme, host and port under which the client reached the server.
    pub origin: String,
    /// The headers that the protocol reads, in their order.
    pub headers: Vec<(&'static str, String)>,
    /// The query string, undecoded and without its question mark.
    pub query: String,
    /// The value of `Authorization`, if there is exactly one.
    pub authorization: Option<Pii<String>>,
    /// The offered sub-protocols, in order.
    pub subprotocols: Vec<Pii<String>>,
    /// Whether the request asks for a WebSocket.
    pub websocket: bool,
    /// The method of the request.
    pub method: Method,
}

impl OpeningRequest {
    /// The token of `Authorization: Bearer …`, the scheme in upper or lower case; none without the header.
    ///
    /// # Errors
    /// The header says something else.
    pub fn bearer(&self) -> Result<Option<Pii<String>>, Refusal> {
        let Some(Pii(value)) = &self.authorization else { return Ok(None) };
        match value.trim().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                Ok(Some(Pii(token.trim().to_owned())))
            }
            _ => Err(Refusal::CredentialInvalid),
        }
    }

    /// The tokens among the offered sub-protocols, after `prefix`: browsers can send no header with a
    /// WebSocket. The entry of the one that counts is selected.
    pub fn offered_tokens(&self, prefix: &str) -> impl Iterator<Item = Credential> {
        self.subprotocols.iter().filter_map(move |entry| {
            let token = Pii(entry.0.strip_prefix(prefix)?.to_owned());
            Some(Credential { token, subprotocol: Some(entry.clone()) })
        })
    }
}

// Headers and query may carry a credential, whatever the protocol calls it.
impl Debug for OpeningRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, target, origin, websocket, .. } = self;
        f.debug_struct("OpeningRequest")
            .field("path", path)
            .field("target", target)
            .field("origin", origin)
            .field("websocket", websocket)
            .finish_non_exhaustive()
    }
}

/// What an opening request asks for.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The credentials, wherever the protocol carries them; the first that is good counts.
    pub credentials: Vec<Credential>,
    /// The sub-protocol to select, unless the credential names another.
    pub subprotocol: Option<Pii<String>>,
    /// The agent that is asked for.
    pub agent: Option<AgentId>,
    /// The protocol's own query parameters, decoded.
    pub parameters: Vec<(String, String)>,
}

/// A credential of an opening request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// What is shown.
    pub token: Pii<String>,
    /// The sub-protocol to select if this is the one that counts.
    pub subprotocol: Option<Pii<String>>,
}

/// Everything a protocol needs to make a connection.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// Who opens it.
    pub principal: Principal,
    /// When.
    pub now: Timestamp,
    /// The request itself.
    pub request: OpeningRequest,
    /// What was asked for.
    pub opening: Opening,
    /// The agent that serves turns which name no other.
    pub agent: AgentId,
    /// Every agent that is configured.
    pub agents: Vec<AgentId>,
    /// Whether that agent lives outside of this server, which then relays.
    pub remote: bool,
    /// The tools that the agent executes itself.
    pub tools: Vec<Tool>,
    /// The rows that [`Protocol::preview`] asked for.
    pub known: Vec<Found>,
}

/// Why a connection was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not ask for a WebSocket where one is needed.
    UpgradeRequired,
    /// It is malformed, or does not offer the protocol.
    Malformed(&'static str),
    /// There is nothing for this method.
    WrongMethod,
    /// The protocol has a name of its own for this.
    Named(&'static str),
    /// It asks for a version of the protocol that is not spoken; whatever it calls it.
    Version(Pii<String>),
    /// Its body is larger than is taken.
    TooBig,
    /// There is no credential.
    CredentialMissing,
    /// The credential is not valid.
    CredentialInvalid,
    /// The credential was valid once.
    CredentialExpired,
    /// The credential, the origin or the host does not reach this.
    Forbidden(&'static str),
    /// No such agent.
    UnknownAgent,
    /// Too many connections, or too fast.
    TooMany {
        /// When to try again, in milliseconds.
        retry_ms: u64,
    },
    /// The server is leaving.
    Draining {
        /// When to try again, in milliseconds.
        retry_ms: u64,
    },
}

impl Refusal {
    /// When to try again, in milliseconds; none where waiting would not help.
    pub const fn retry_ms(&self) -> Option<u64> {
        match self {
            Self::TooMany { retry_ms } | Self::Draining { retry_ms } => Some(*retry_ms),
            Self::UpgradeRequired
            | Self::Malformed(_)
            | Self::WrongMethod
            | Self::Named(_)
            | Self::Version(_)
            | Self::TooBig
            | Self::CredentialMissing
            | Self::CredentialInvalid
            | Self::CredentialExpired
            | Self::Forbidden(_)
            | Self::UnknownAgent => None,
        }
    }

    /// The headers that HTTP wants with an answer of this status: when to try again, how to show a
    /// credential, what to upgrade to.
    pub fn headers(&self, status: u16) -> Vec<(&'static str, String)> {
        let retry = self.retry_ms().map(|ms| ("retry-after", ms.div_ceil(1000).max(1).to_string()));
        let further = match status {
            401 => Some(("www-authenticate", "Bearer".to_owned())),
            426 => Some(("upgrade", "websocket".to_owned())),
            _ => None,
        };
        retry.into_iter().chain(further).collect()
    }
}

/// An HTTP answer that says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalReply {
    /// The status.
    pub status: u16,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(authorization: &str) -> Result<Option<String>, Refusal> {
        let request = OpeningRequest {
            authorization: Some(Pii(authorization.to_owned())),
            ..OpeningRequest::default()
        };
        request.bearer().map(|token| token.map(|Pii(token)| token))
    }

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        for header in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(shown(header), Ok(Some("abc".to_owned())), "{header}");
        }
        for header in ["", "Bearer", "Basic abc", "Bearerabc"] {
            assert_eq!(shown(header), Err(Refusal::CredentialInvalid), "{header}");
        }
        assert_eq!(OpeningRequest::default().bearer(), Ok(None));
    }

    #[test]
    fn offered_tokens_are_those_after_the_prefix() {
        let subprotocols = ["v1", "bearer.one", "bearer.", "Bearer.two"].map(|entry| Pii(entry.to_owned()));
        let request = OpeningRequest { subprotocols: subprotocols.into(), ..OpeningRequest::default() };
        let tokens: Vec<Credential> = request.offered_tokens("bearer.").collect();
        let expected = ["one", ""].map(|token| Credential {
            token: Pii(token.to_owned()),
            subprotocol: Some(Pii(format!("bearer.{token}"))),
        });
        assert_eq!(tokens, expected);
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_with_what() {
        let draining = Refusal::Draining { retry_ms: 1001 };
        assert_eq!(draining.headers(503), [("retry-after", "2".to_owned())]);
        assert_eq!(Refusal::TooMany { retry_ms: 0 }.headers(429), [("retry-after", "1".to_owned())]);
        assert_eq!(Refusal::CredentialMissing.headers(401), [("www-authenticate", "Bearer".to_owned())]);
        assert_eq!(Refusal::UpgradeRequired.headers(426), [("upgrade", "websocket".to_owned())]);
        assert!(Refusal::UnknownAgent.headers(404).is_empty());
    }
}
