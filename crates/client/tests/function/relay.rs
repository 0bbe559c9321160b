//! The relay's end of what functions call: pushes, cancellation, answers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use switchboard_asp::relay::{Answer, Answers, Cancellation, PushForm, PushLimits, Pushed};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::{CID, TOKEN};

/// A relay that functions can call.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    answered: Notify,
}

#[derive(Default)]
struct Known {
    pushed: Vec<Pushed>,
    /// Statuses for the next pushes, before any is taken.
    refusals: Vec<StatusCode>,
    refused: Vec<Option<String>>,
    cancelled: bool,
    answers: Vec<Answer>,
    polls: u64,
    questions: u64,
    closed: bool,
}

impl Relay {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let shared = Arc::new(Shared::default());
        let server = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = server.clone();
                let service = service_fn(move |request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(shared.respond(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn cancel(&self) {
        self.shared.known.lock().cancelled = true;
        self.shared.answered.notify_waiters();
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.shared.known.lock().answers.push(answer);
        self.shared.answered.notify_waiters();
    }

    /// Answers the next pushes with these.
    pub(crate) fn refuse_pushes(&self, statuses: &[StatusCode]) {
        self.shared.known.lock().refusals = statuses.to_vec();
    }

    pub(crate) fn pushed(&self) -> Vec<Pushed> {
        self.shared.known.lock().pushed.clone()
    }

    /// The `idem` of the pushes that were refused.
    pub(crate) fn refused(&self) -> Vec<Option<String>> {
        self.shared.known.lock().refused.clone()
    }

    /// How often it was asked whether the request was cancelled.
    pub(crate) fn polls(&self) -> u64 {
        self.shared.known.lock().polls
    }

    /// How often it was asked for answers.
    pub(crate) fn questions(&self) -> u64 {
        self.shared.known.lock().questions
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.known.lock().closed
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let bearer = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        if bearer != Some(&format!("Bearer {TOKEN}")) {
            return response(StatusCode::UNAUTHORIZED, "{}");
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let path = parts.uri.path().strip_prefix(&format!("/v1/relay/connections/{CID}"));
        match (parts.method, path) {
            (Method::POST, Some("/frames")) => self.push(body),
            (Method::GET, Some("")) => {
                response(StatusCode::OK, r#"{"state":"live","connected_at":1767225600000,"inflight":1}"#)
            }
            (Method::DELETE, Some("")) => {
                self.known.lock().closed = true;
                response(StatusCode::NO_CONTENT, "")
            }
            (Method::GET, Some(path)) if path.ends_with("/answers") => {
                let query = parts.uri.query().unwrap_or_default();
                let after = query.strip_prefix("after=").and_then(|k| k.parse().ok()).expect("after");
                self.answers(after).await
            }
            (Method::GET, Some(path)) if path.starts_with("/requests/") => {
                let mut known = self.known.lock();
                known.polls += 1;
                let cancelled = known.cancelled;
                let reason = cancelled.then(|| "user".to_owned());
                response(StatusCode::OK, Cancellation { cancelled, reason }.to_json())
            }
            _ => response(StatusCode::NOT_FOUND, "{}"),
        }
    }

    fn push(&self, body: Bytes) -> Response<Full<Bytes>> {
        let pushed = match Pushed::read(PushForm::Json, body, PushLimits::default()) {
            Ok(pushed) => pushed,
            Err(error) => panic!("a function pushed what is none: {error}"),
        };
        let mut known = self.known.lock();
        if !known.refusals.is_empty() {
            let status = known.refusals.remove(0);
            known.refused.push(pushed.idem);
            return response(status, r#"{"error":"not now"}"#);
        }
        let accepted = pushed.count;
        known.pushed.push(pushed);
        response(StatusCode::ACCEPTED, format!(r#"{{"accepted":{accepted},"delivered":"live"}}"#))
    }

    /// Waits as a relay does, but not as long.
    async fn answers(&self, after: u64) -> Response<Full<Bytes>> {
        self.known.lock().questions += 1;
        let answered = self.answered.notified();
        let mut answers = self.answers_after(after);
        if answers.answers.is_empty() && !answers.cancelled {
            let _ = tokio::time::timeout(Duration::from_secs(20), answered).await;
            answers = self.answers_after(after);
        }
        response(StatusCode::OK, answers.to_json())
    }

    fn answers_after(&self, after: u64) -> Answers {
        let known = self.known.lock();
        let answers = known.answers.iter().filter(|answer| answer.k > after).cloned().collect();
        Answers { answers, cancelled: known.cancelled }
    }
}

fn response(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
