//! Alicia, as the server's registry knows it.

use std::fmt;
use std::sync::Arc;

use switchboard_core::{
    AgentId, Connection, Credential, Method, Opening, OpeningRequest, Protocol, Refusal, RefusalReply, Right,
    Route, Seed, Transport, Upgrade,
};

use crate::limits::AliciaLimits;
use crate::message::{Elite, McpServer, ModelInfo};

/// The protocol, with its bounds and what the deployment says of itself.
#[derive(Clone, Debug)]
pub struct Alicia {
    pub(crate) limits: Arc<AliciaLimits>,
    pub(crate) service: Service,
}

/// What the deployment says of itself.
#[derive(Clone)]
pub struct Service {
    /// The elites on offer (31), each with the agent that it stands for.
    pub elites: Arc<[Offer]>,
    /// Model and servers of tools behind an agent, as they are now (26).
    pub facts: Arc<dyn Fn(&AgentId) -> Facts + Send + Sync>,
    /// Whether speech is understood.
    pub hears: bool,
}

/// An elite on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// How it is shown.
    pub elite: Elite,
    /// The agent that answers for whoever chooses it; none for the one that would answer anyhow.
    pub agent: Option<AgentId>,
}

/// What stands behind an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its model.
    pub model: ModelInfo,
    /// The servers of its tools.
    pub servers: Vec<McpServer>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("elites", &self.elites).finish_non_exhaustive()
    }
}

impl Alicia {
    /// With these limits.
    pub fn new(limits: AliciaLimits, service: Service) -> Self {
        Self { limits: Arc::new(limits), service }
    }
}

impl Protocol for Alicia {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self) -> &'static [Route] {
        ROUTES
    }

    fn max_message(&self) -> usize {
        self.limits.hard_cap.max(self.limits.sync_body) as usize
    }

    fn headers(&self) -> &'static [&'static str] {
        // The last is a name to show, which existing web clients send along: nothing depends on it.
        &["content-type", "accept", "x-user-id"]
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        let mut credentials = Vec::new();
        credentials.extend(request.bearer()?.map(|token| Credential { token, subprotocol: None }));
        credentials.extend(request.offered_tokens("bearer."));
        let subprotocol = request.subprotocols.first().cloned();
        Ok(Opening { credentials, subprotocol, agent: None, parameters: Vec::new() })
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        match upgrade.request.path {
            SOCKET if upgrade.request.websocket => {
                Ok(Box::new(crate::conn::AliciaConnection::new(self, upgrade, seed)))
            }
            SOCKET => Err(Refusal::UpgradeRequired),
            _ => Ok(crate::http::exchange(self, upgrade, seed)),
        }
    }

    fn refuse(&self, refusal: &Refusal, _request_id: &str) -> RefusalReply {
        let (status, error, message) = match refusal {
            Refusal::UpgradeRequired => (426, "upgrade_required", "this path speaks WebSocket"),
            Refusal::Malformed(what) => (400, "bad_request", *what),
            // What is asked for is not here, by whatever name.
            Refusal::Named(what) => (404, "not_found", *what),
            Refusal::Version(_) => (400, "bad_request", "this version is not spoken"),
            Refusal::WrongMethod => (405, "method_not_allowed", "there is nothing for this method"),
            Refusal::UnknownAgent => (404, "not_found", "no such agent"),
            Refusal::TooBig => (413, "too_large", "the body is too large"),
            Refusal::CredentialMissing => (401, "unauthorized", "a credential is needed"),
            Refusal::CredentialInvalid => (401, "unauthorized", "the credential is not valid"),
            Refusal::CredentialExpired => (401, "unauthorized", "the credential has expired"),
            Refusal::Forbidden(what) => (403, "forbidden", *what),
            Refusal::TooMany { .. } => (429, "too_many_requests", "too many connections, try again later"),
            Refusal::Draining { .. } => (503, "unavailable", "the server is leaving, try again shortly"),
        };
        let headers = refusal.headers(status);
        let body = serde_json::json!({ "error": error, "message": message, "code": status }).to_string();
        RefusalReply { status, headers, content_type: "application/json", body }
    }
}

/// The name of the protocol.
pub const NAME: &str = "alicia";
pub(crate) const SOCKET: &str = "/api/v1/ws";
pub(crate) const CONFIG: &str = "/api/v1/config";
pub(crate) const CONVERSATIONS: &str = "/api/v1/conversations";
pub(crate) const CONVERSATION: &str = "/api/v1/conversations/{id}";
pub(crate) const MESSAGES: &str = "/api/v1/conversations/{id}/messages";
pub(crate) const SYNC: &str = "/api/v1/conversations/{id}/sync";
pub(crate) const SYNC_STATUS: &str = "/api/v1/conversations/{id}/sync/status";
pub(crate) const SWITCH_BRANCH: &str = "/api/v1/conversations/{id}/switch-branch";
pub(crate) const TOKEN: &str = "/api/v1/conversations/{id}/token";
pub(crate) const SIBLINGS: &str = "/api/v1/messages/{id}/siblings";
pub(crate) const MESSAGE: &str = "/api/v1/messages/{id}";
pub(crate) const MESSAGE_TOOL_USES: &str = "/api/v1/messages/{id}/tool-uses";
pub(crate) const MESSAGE_FEEDBACK: &str = "/api/v1/messages/{id}/feedback";
pub(crate) const MEMORY_USES: &str = "/api/v1/messages/{id}/memory-uses";
pub(crate) const MEMORY_USE_FEEDBACK: &str = "/api/v1/memory-uses/{id}/feedback";
pub(crate) const TOOL_USES: &str = "/api/v1/tool-uses";
pub(crate) const TOOL_USE: &str = "/api/v1/tool-uses/{id}";
pub(crate) const TOOL_USE_FEEDBACK: &str = "/api/v1/tool-uses/{id}/feedback";
pub(crate) const MEMORIES: &str = "/api/v1/memories";
pub(crate) const MEMORY: &str = "/api/v1/memories/{id}";
pub(crate) const TOOL_SERVERS: &str = "/api/v1/mcp/servers";
pub(crate) const TOOLS: &str = "/api/v1/tools";
pub(crate) const PREFERENCES: &str = "/api/v1/preferences";
/// What all paths of the protocol begin with.
pub const PATHS: &str = "/api/v1/";

static ROUTES: &[Route] = &[
    Route { path: SOCKET, transport: Transport::WebSocket, right: Right::Connect },
    Route { path: CONFIG, transport: Transport::Http(Method::Get), right: Right::Connect },
    Route { path: CONVERSATIONS, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: CONVERSATIONS, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: CONVERSATION, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: CONVERSATION, transport: Transport::Http(Method::Patch), right: Right::Manage },
    Route { path: CONVERSATION, transport: Transport::Http(Method::Delete), right: Right::Manage },
    Route { path: MESSAGES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MESSAGES, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: SYNC, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: SYNC_STATUS, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: SWITCH_BRANCH, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: TOKEN, transport: Transport::Http(Method::Post), right: Right::Ask },
    Route { path: SIBLINGS, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MESSAGE, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MESSAGE_TOOL_USES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MESSAGE_FEEDBACK, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MESSAGE_FEEDBACK, transport: Transport::Http(Method::Post), right: Right::Annotate },
    Route { path: MEMORY_USES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MEMORY_USE_FEEDBACK, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MEMORY_USE_FEEDBACK, transport: Transport::Http(Method::Post), right: Right::Annotate },
    Route { path: TOOL_USES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: TOOL_USE, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: TOOL_USE_FEEDBACK, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: TOOL_USE_FEEDBACK, transport: Transport::Http(Method::Post), right: Right::Annotate },
    Route { path: MEMORIES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MEMORIES, transport: Transport::Http(Method::Post), right: Right::Annotate },
    Route { path: MEMORY, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: MEMORY, transport: Transport::Http(Method::Put), right: Right::Annotate },
    Route { path: MEMORY, transport: Transport::Http(Method::Delete), right: Right::Annotate },
    Route { path: TOOL_SERVERS, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: TOOLS, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: PREFERENCES, transport: Transport::Http(Method::Get), right: Right::Read },
    Route { path: PREFERENCES, transport: Transport::Http(Method::Patch), right: Right::Annotate },
];
