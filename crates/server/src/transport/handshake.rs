//! How an HTTP request becomes a WebSocket (RFC 6455, section 4.2).

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A request that may become a WebSocket.
pub(crate) struct Handshake {
    accept: HeaderValue,
    offered: Vec<String>,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// What a request asks for; none if it is no valid request for a WebSocket.
    pub(crate) fn read(parts: &mut Parts) -> Option<Self> {
        let headers = &parts.headers;
        let valid = parts.method == Method::GET
            && parts.version == Version::HTTP_11
            && lists(headers, header::CONNECTION, "upgrade")
            && lists(headers, header::UPGRADE, "websocket")
            && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| valid)?;
        // Whatever it is, it has 16 bytes.
        if STANDARD.decode(key.as_bytes()).ok()?.len() != 16 {
            return None;
        }
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
        let offered = entries(headers, header::SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
        let upgrade = parts.extensions.remove::<OnUpgrade>()?;
        Some(Self { accept, offered, upgrade })
    }

    /// The answer that makes it one, and the socket once that was sent.
    pub(crate) fn accept(
        self,
        subprotocol: Option<&str>,
    ) -> (Response, impl Future<Output = hyper::Result<TokioIo<Upgraded>>> + use<>) {
        let Self { accept, offered, upgrade } = self;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        // One that was not offered would be refused by the client.
        let chosen = subprotocol.filter(|chosen| offered.iter().any(|offered| offered == chosen));
        if let Some(chosen) = chosen.and_then(|chosen| HeaderValue::from_str(chosen).ok()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
        }
        (response, async move { upgrade.await.map(TokioIo::new) })
    }
}

/// Whether a header has an entry, in upper or lower case.
fn lists(headers: &HeaderMap, name: HeaderName, entry: &str) -> bool {
    entries(headers, name).any(|listed| listed.eq_ignore_ascii_case(entry))
}

/// The entries of a header, on however many lines.
fn entries(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn reads(change: impl FnOnce(&mut Parts)) -> bool {
        let request = Request::builder()
            .header("connection", "keep-alive, Upgrade")
            .header("upgrade", "WebSocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let mut parts = request.body(()).unwrap().into_parts().0;
        let socket = hyper::upgrade::on(Request::new(()));
        parts.extensions.insert(socket);
        change(&mut parts);
        Handshake::read(&mut parts).is_some()
    }

    #[test]
    fn only_valid_requests_become_websockets() {
        assert!(reads(|_| {}));
        for name in ["connection", "upgrade", "sec-websocket-version", "sec-websocket-key"] {
            assert!(!reads(|parts| drop(parts.headers.remove(name))), "{name}");
        }
        for key in ["", "x", "AAAAAAAAAAAAAAAAAAAA", "dGhlIHNhbXBsZSBub25jZQ"] {
            let key = HeaderValue::from_static(key);
            assert!(!reads(|parts| drop(parts.headers.insert("sec-websocket-key", key))));
        }
        assert!(!reads(|parts| parts.method = Method::POST));
        assert!(!reads(|parts| parts.version = Version::HTTP_10));
    }
}
