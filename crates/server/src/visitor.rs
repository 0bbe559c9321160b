//! A request before it has become a connection.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use switchboard_core::{Method, OpeningRequest, Pii, Protocol, Route, Transport};

use crate::courtesy::Courtesy;
use crate::origin::OriginPolicy;
use crate::places::Place;
use crate::transport::Flushes;

/// Everything about a request that decides whether it becomes a connection.
pub(crate) struct Visitor {
    pub(crate) address: SocketAddr,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Where it came to.
    pub(crate) route: Route,
    /// What it gives up by becoming a connection.
    pub(crate) place: Option<Place>,
    /// The flushes of its socket, for one that is answered without becoming a connection.
    pub(crate) flushes: Option<Flushes>,
}

impl Visitor {
    /// The request as the protocol sees it.
    pub(crate) fn opening_request(
        &self,
        protocol: &dyn Protocol,
        courtesy: &Courtesy,
        origins: &OriginPolicy,
    ) -> OpeningRequest {
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let mut authorizations = self.headers.get_all(header::AUTHORIZATION).iter();
        let authorization = match (authorizations.next(), authorizations.next()) {
            (Some(one), None) => Some(Pii(text(one).unwrap_or_default())),
            (None, _) => None,
            // Two credentials are as good as a wrong one.
            (Some(_), Some(_)) => Some(Pii(String::new())),
        };
        let subprotocols = self
            .headers
            .get_all(header::SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(text)
            .flat_map(|list| list.split(',').map(|entry| Pii(entry.trim().to_owned())).collect::<Vec<_>>())
            .collect();
        let websocket = self
            .headers
            .get(header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let read = protocol.headers().iter();
        OpeningRequest {
            id: courtesy.request_id.clone(),
            foreign: courtesy.is_foreign(),
            path: self.route.path,
            target: self.uri.path().to_owned(),
            origin: origins.reached(self.address.ip(), &self.headers),
            headers: read
                .flat_map(|name| {
                    self.headers.get_all(*name).iter().filter_map(text).map(|value| (*name, value))
                })
                .collect(),
            query: self.uri.query().unwrap_or_default().to_owned(),
            authorization,
            subprotocols,
            websocket,
            method: match self.route.transport {
                Transport::Http(method) => method,
                Transport::WebSocket => Method::Get,
            },
        }
    }
}
