//! What every answer to a request carries, whatever else it says: the name of the request, and who may
//! read it.
//!
//! Pages of other origins may ask if their origin is allowed here, or where a protocol judges origins itself. Their
//! browsers let them read the answer only if it says so, which it does for origins that are allowed, and never for
//! others.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use switchboard_core::{Method, Protocol, Refusal, Route, Transport};

use crate::origin::{OriginError, OriginPolicy};

/// What the answer to one request carries.
#[derive(Debug)]
pub(crate) struct Courtesy {
    /// What the request is called.
    pub(crate) request_id: String,
    /// What is wrong with the headers `Host` and `Origin`.
    pub(crate) stranger: Option<OriginError>,
    /// Whether answers depend on the origin of the request.
    varies: bool,
    /// The origin that may read the answer.
    reader: Option<HeaderValue>,
    /// Whether the request has a body, which nobody may have read.
    has_body: bool,
}

impl Courtesy {
    /// Of a request to `protocol`.
    pub(crate) fn new(protocol: &dyn Protocol, headers: &HeaderMap, origins: &OriginPolicy) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let stranger = origins.check(text(header::HOST), text(header::ORIGIN)).err();
        let varies = protocol.judges_origins() || headers.contains_key(header::ORIGIN);
        let reader = headers.get(header::ORIGIN).filter(|_| stranger.is_none()).cloned();
        let has_body = headers.contains_key(header::TRANSFER_ENCODING)
            || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
        Self { request_id: request_id(), stranger, varies, reader, has_body }
    }

    /// Whether the request comes from a page of an origin that is not allowed here.
    pub(crate) fn is_foreign(&self) -> bool {
        self.stranger == Some(OriginError::Origin)
    }

    /// An answer with all that belongs to it.
    pub(crate) fn complete(&self, protocol: &dyn Protocol, mut response: Response) -> Response {
        let headers = response.headers_mut();
        for (name, value) in protocol.answer_headers() {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            headers.insert(REQUEST_ID, id);
        }
        if self.varies {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = &self.reader {
            let_read(headers, origin);
        }
        response
    }

    /// The answer to a request of which not everything was read: nothing else can be asked on its connection.
    pub(crate) fn dismiss(&self, protocol: &dyn Protocol, mut response: Response) -> Response {
        if self.has_body {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.complete(protocol, response)
    }

    /// The answer to a browser that asks whether a page may ask; none if that is not what is asked.
    ///
    /// # Errors
    /// The page may not.
    pub(crate) fn preflight(
        &self,
        headers: &HeaderMap,
        routes: &[Route],
    ) -> Option<Result<Response, Refusal>> {
        if !is_preflight(headers) {
            return None;
        }
        if self.reader.is_none() {
            return Some(Err(Refusal::Forbidden("the origin is not allowed")));
        }
        Some(Ok(may_ask(allowed(routes))))
    }
}

/// Whether a browser asks if a page of another origin may ask.
pub(crate) fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer that a page may ask, with these methods.
pub(crate) fn may_ask(methods: Option<HeaderValue>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answers = response.headers_mut();
    if let Some(methods) = methods {
        answers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    answers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ASKED));
    answers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED_S));
    response
}

/// Lets pages of this origin read an answer.
pub(crate) fn let_read(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// The methods of these routes, as a header names them.
pub(crate) fn allowed(routes: &[Route]) -> Option<HeaderValue> {
    let methods: Vec<&str> = routes.iter().filter_map(|route| method(route.transport)).collect();
    HeaderValue::from_str(&methods.join(", ")).ok()
}

const fn method(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::WebSocket => None,
        Transport::Http(Method::Get) => Some("GET"),
        Transport::Http(Method::Post) => Some("POST"),
        Transport::Http(Method::Put) => Some("PUT"),
        Transport::Http(Method::Patch) => Some("PATCH"),
        Transport::Http(Method::Delete) => Some("DELETE"),
    }
}

/// A name that no other request has.
fn request_id() -> String {
    let mut name = String::from("req_");
    for byte in crate::entropy::bytes().iter().take(12) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What pages may read of answers, besides what they always may.
const EXPOSED: &str = "x-request-id, location, retry-after, link, acolyte-protocol, acolyte-task-id";
/// What pages may send with requests, besides what they always may.
const ASKED: &str = "authorization, content-type, idempotency-key, acolyte-protocol, x-user-id";
/// How long a browser may remember that a page may ask.
const REMEMBERED_S: &str = "600";
