//! One HTTP request after the other, passed on and written down.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use super::pump::pump;
use super::tape::Tape;
use crate::recording::target::Target;
use crate::recording::{Answer, MAX_MESSAGE, Payload, Request, Side, What};

/// Stands between clients and a server.
pub(super) struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    tape: Arc<Tape>,
    /// One for each connection, and one for each WebSocket that a connection has become.
    places: Arc<Semaphore>,
}

impl Proxy {
    pub(super) fn new(target: Target, tape: Arc<Tape>) -> Self {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self { shared: Arc::new(Shared { target, tape, places }) }
    }

    /// Lets clients in, for ever.
    pub(super) async fn serve(&self, listener: TcpListener) {
        loop {
            let Ok(place) = self.shared.places.clone().acquire_owned().await else { return };
            // Somebody who was gone before being let in is nobody's problem.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let shared = self.shared.clone();
            tokio::spawn(async move {
                shared.connection(stream).await;
                drop(place);
            });
        }
    }

    /// Waits a moment for connections that are ending.
    pub(super) async fn settle(&self) {
        let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(SETTLE, self.shared.places.acquire_many(all)).await;
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Shared {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        // Small frames must not wait for each other.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let shared = self.clone();
            async move { Ok::<_, Infallible>(shared.exchange(request).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        // What went wrong is in the recording, as far as it was seen.
        let _ = served.await;
    }

    async fn exchange(self: Arc<Self>, mut request: hyper::Request<Incoming>) -> Response<Body> {
        let websocket = is_websocket(request.headers());
        let upgrade = websocket.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_MESSAGE).collect().await else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the recorder takes no body of this size");
        };
        let body = body.to_bytes();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let authority = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        let noted = Request {
            method: parts.method.to_string(),
            target: target.clone(),
            headers: end_to_end(&parts.headers),
            body: Payload::of(&body),
            websocket,
        };
        let on = self.tape.begin(noted, authority.as_deref());
        let mut onwards = hyper::Request::new(Full::new(body));
        *onwards.method_mut() = parts.method;
        if let Ok(uri) = target.parse() {
            *onwards.uri_mut() = uri;
        }
        *onwards.headers_mut() = self.onwards(parts.headers);
        let mut response = match self.target.send(onwards).await {
            Ok(response) => response,
            Err(why) => {
                self.tape.note(on, Side::Server, What::Lost(true));
                return plain(StatusCode::BAD_GATEWAY, &why);
            }
        };
        let head = Answer { status: response.status().as_u16(), headers: end_to_end(response.headers()) };
        self.tape.note(on, Side::Server, What::Answer(head));
        match upgrade {
            Some(client) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let Ok(place) = self.places.clone().try_acquire_owned() else {
                    return plain(StatusCode::SERVICE_UNAVAILABLE, "the recorder is full");
                };
                let (server, tape) = (hyper::upgrade::on(&mut response), self.tape.clone());
                tokio::spawn(async move {
                    pump(tape, on, client, server).await;
                    drop(place);
                });
                let (parts, _) = response.into_parts();
                Response::from_parts(parts, Full::new(Bytes::new()).boxed_unsync())
            }
            Some(_) | None => self.pass_on(on, response),
        }
    }

    /// What the server is told: all but what belongs to the hop. A server on this machine sees the
    /// address that the client used, so that the links which it makes lead through the recorder.
    fn onwards(&self, mut headers: HeaderMap) -> HeaderMap {
        for name in ["sec-websocket-extensions", "content-length", "transfer-encoding"] {
            headers.remove(name);
        }
        if !self.target.is_loopback()
            && let Ok(host) = HeaderValue::from_str(&self.target.authority)
        {
            headers.insert(HOST, host);
        }
        headers
    }

    /// Passes an answer on as it comes. What streams is written down piece by piece, all else in one.
    fn pass_on(self: Arc<Self>, on: u32, response: Response<Incoming>) -> Response<Body> {
        let (mut parts, mut body) = response.into_parts();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let streams = kind.starts_with("text/event-stream");
        let (sender, receiver) = mpsc::channel::<Bytes>(CHUNKS);
        tokio::spawn(async move {
            let mut whole = Vec::new();
            let last = loop {
                match body.frame().await {
                    None => break (Side::Server, What::End(true)),
                    Some(Err(_)) => break (Side::Server, What::Lost(true)),
                    Some(Ok(frame)) => {
                        let Ok(data) = frame.into_data() else { continue };
                        if streams {
                            self.tape.note(on, Side::Server, What::Chunk(Payload::of(&data)));
                        } else if whole.len() + data.len() <= MAX_MESSAGE {
                            whole.extend_from_slice(&data);
                        }
                        if sender.send(data).await.is_err() {
                            break (Side::Client, What::Lost(true));
                        }
                    }
                }
            };
            if !whole.is_empty() {
                self.tape.note(on, Side::Server, What::Chunk(Payload::of(&whole)));
            }
            self.tape.note(on, last.0, last.1);
        });
        let pieces = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|data| (Ok::<_, Infallible>(Frame::data(data)), receiver))
        });
        parts.headers.remove("transfer-encoding");
        parts.headers.remove("connection");
        Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
    }
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get("upgrade").and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Headers that are about more than the single hop.
pub(super) fn end_to_end(headers: &HeaderMap) -> Vec<(String, String)> {
    let kept = |(name, value): (&HeaderName, &HeaderValue)| {
        let kept = !HOP.contains(&name.as_str());
        kept.then(|| Some((name.to_string(), value.to_str().ok()?.to_owned()))).flatten()
    };
    headers.iter().filter_map(kept).collect()
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed_unsync());
    *response.status_mut() = status;
    response
}

const HOP: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "transfer-encoding",
    "upgrade",
];
const MAX_CONNECTIONS: usize = 1_024;
/// Pieces of an answer that may wait for a slow client.
const CHUNKS: usize = 16;
const SETTLE: Duration = Duration::from_millis(500);
