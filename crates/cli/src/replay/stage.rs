//! A server that is none: whoever connects is answered as the recorded server answered.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::link::{Events, Live, talk};
use super::variables::Variables;
use crate::recording::{Answer, MAX_MESSAGE, Request, What};

/// The connections that are to come.
pub(super) struct Stage {
    roles: Mutex<Vec<(u32, Request)>>,
    events: Events,
    places: Arc<Semaphore>,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Stage {
    /// Waits for connections that begin like these.
    pub(super) fn new(roles: Vec<(u32, Request)>, events: Events) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Self { roles: Mutex::new(roles), events, places })
    }

    /// Lets clients in, for ever.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else { continue };
            let stage = self.clone();
            tokio::spawn(async move {
                stage.connection(stream).await;
                drop(place);
            });
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let stage = self.clone();
            async move { Ok::<_, Infallible>(stage.answer(request).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        // A client that goes is heard where it spoke.
        let _ = served.await;
    }

    async fn answer(self: Arc<Self>, mut request: hyper::Request<Incoming>) -> Response<Body> {
        let key = request.headers().get("sec-websocket-key").cloned();
        let upgrade = hyper::upgrade::on(&mut request);
        let Some(come) = read(request).await else { return plain(StatusCode::PAYLOAD_TOO_LARGE) };
        let Some(on) = self.role_of(&come) else {
            let stranger = Live::Heard(What::Request(come));
            let _ = self.events.send((NOBODY, stranger)).await;
            return plain(StatusCode::NOT_FOUND);
        };
        let (sender, mut commands) = mpsc::channel(COMMANDS);
        let _ = self.events.send((on, Live::Come(sender))).await;
        let _ = self.events.send((on, Live::Heard(What::Request(come)))).await;
        let head = loop {
            match commands.recv().await {
                Some(What::Answer(head)) => break head,
                Some(_) => {}
                None => return plain(StatusCode::SERVICE_UNAVAILABLE),
            }
        };
        let (101, Some(key)) = (head.status, key) else { return head_of(&head, body(commands)) };
        tokio::spawn(talk(on, Role::Server, upgrade, commands, self.events.clone()));
        let mut response = head_of(&head, Full::new(Bytes::new()).boxed_unsync());
        upgraded(response.headers_mut(), &key);
        response
    }

    /// Takes the first recorded connection that begins like this one.
    fn role_of(&self, request: &Request) -> Option<u32> {
        let mut roles = self.roles.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(_, recorded): &(u32, Request)| {
            recorded.method == request.method
                && recorded.websocket == request.websocket
                && Variables::default().text("path", recorded.path(), request.path())
        };
        let index = roles.iter().position(same)?;
        Some(roles.remove(index).0)
    }
}

async fn read(request: hyper::Request<Incoming>) -> Option<Request> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MAX_MESSAGE).collect().await.ok()?.to_bytes();
    let headers = parts.headers.iter();
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    Some(Request {
        method: parts.method.to_string(),
        target: parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
        headers: headers.collect(),
        body: crate::recording::Payload::of(&body),
        websocket: parts.headers.contains_key("sec-websocket-key"),
    })
}

/// The body of an answer, as the player gives it piece by piece.
fn body(commands: mpsc::Receiver<What>) -> Body {
    let pieces = stream::unfold(commands, |mut commands| async move {
        loop {
            match commands.recv().await {
                Some(What::Chunk(payload)) => {
                    return Some((Ok::<_, Infallible>(Frame::data(payload.bytes())), commands));
                }
                Some(What::End(_) | What::Lost(_)) | None => return None,
                Some(
                    What::Request(_) | What::Answer(_) | What::Text(_) | What::Binary(_) | What::Close(_),
                ) => {}
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn head_of(head: &Answer, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn upgraded(headers: &mut HeaderMap, key: &HeaderValue) {
    headers.insert("connection", HeaderValue::from_static("Upgrade"));
    headers.insert("upgrade", HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert("sec-websocket-accept", accept);
    }
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// The number of a connection that was not recorded.
pub(super) const NOBODY: u32 = 0;
const MAX_CONNECTIONS: usize = 1_024;
/// What may wait to be sent on a connection.
pub(super) const COMMANDS: usize = 64;
