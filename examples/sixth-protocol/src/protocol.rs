//! Linewise as the server's registry knows it: its route, its way in, and its ways to say no.

use switchboard_core::{
    Connection, Credential, Opening, OpeningRequest, Protocol, Refusal, RefusalReply, Right, Route, Seed,
    Transport, Upgrade,
};

use crate::conn::LinewiseConnection;
use crate::limits::LinewiseLimits;
use crate::map::PROTOCOL;

/// The line protocol.
#[derive(Debug, Default)]
pub struct Linewise {
    limits: LinewiseLimits,
}

impl Linewise {
    /// With these limits.
    pub const fn new(limits: LinewiseLimits) -> Self {
        Self { limits }
    }
}

impl Protocol for Linewise {
    fn name(&self) -> &'static str {
        PROTOCOL
    }

    fn routes(&self) -> &'static [Route] {
        &[Route { path: PATH, transport: Transport::WebSocket, right: Right::Connect }]
    }

    fn max_message(&self) -> usize {
        self.limits.line
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        if !request.websocket {
            return Err(Refusal::UpgradeRequired);
        }
        let header = request.bearer()?.map(|token| Credential { token, subprotocol: None });
        let credentials = header.into_iter().chain(request.offered_tokens("bearer.")).collect();
        let subprotocol = request.subprotocols.first().cloned();
        Ok(Opening { credentials, subprotocol, agent: None, parameters: Vec::new() })
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(LinewiseConnection::new(self.limits.clone(), upgrade, seed)))
    }

    fn refuse(&self, refusal: &Refusal, _request_id: &str) -> RefusalReply {
        let (status, why) = match refusal {
            Refusal::UpgradeRequired => (426, "this is a WebSocket"),
            Refusal::Malformed(why) | Refusal::Named(why) => (400, *why),
            Refusal::Version(_) => (400, "this version is not spoken"),
            Refusal::WrongMethod => (405, "there is nothing for this method"),
            Refusal::TooBig => (413, "the request is too large"),
            Refusal::CredentialMissing => (401, "a bearer token is needed"),
            Refusal::CredentialInvalid => (401, "the credential is not valid"),
            Refusal::CredentialExpired => (401, "the credential has expired"),
            Refusal::Forbidden(why) => (403, *why),
            Refusal::UnknownAgent => (404, "there is no such agent"),
            Refusal::TooMany { .. } => (429, "too many connections"),
            Refusal::Draining { .. } => (503, "the server is leaving"),
        };
        let headers = refusal.headers(status);
        RefusalReply { status, headers, content_type: "text/plain", body: format!("{why}\n") }
    }
}

/// Where it is served.
pub const PATH: &str = "/v1/lines";
