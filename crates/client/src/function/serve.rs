//! A small HTTP server around a function.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::Stream as _;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_asp::relay::{Event, X_CPU_TIME};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::invocation::Invocation;
use super::options::Options;
use super::output::{BrokeOff, Output};
use super::records::{RecordError, Records};
use super::relay::{Relay, Relays};
use super::reply::{Head, Reply};
use super::run::{Cause, Listening, Progress, Running};
use crate::tls::TlsError;

/// Serves a function until the future is dropped, which cancels what runs.
///
/// Every path is served, so that both `/invoke` with `/interrupt` and one URL for all events work. The handler
/// answers by its [`Reply`]; its future is dropped when the request is cancelled, in whichever way the function
/// learns of it first.
///
/// # Errors
/// TLS towards the relay cannot be set up.
pub async fn serve<H, F>(listener: TcpListener, options: Options, handler: H) -> Result<(), TlsError>
where
    H: Fn(Invocation, Reply) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), RecordError>> + Send + 'static,
{
    let relays = Relays::new(&options.trust, options.plaintext)?;
    let (stop, stopping) = watch::channel(());
    let server = Arc::new(Server {
        running: Running::default(),
        places: Arc::new(Semaphore::new(options.max_running)),
        options,
        relays,
        handler,
        stopping,
    });
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let Ok(place) = connections.clone().acquire_owned().await else { break };
        match listener.accept().await {
            Ok((stream, _)) => drop(tasks.spawn(serve_connection(server.clone(), stream, place))),
            // Too many open files, usually: that passes.
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(stop);
    Ok(())
}

async fn serve_connection<H, F>(server: Arc<Server<H>>, stream: TcpStream, _place: OwnedSemaphorePermit)
where
    H: Fn(Invocation, Reply) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), RecordError>> + Send + 'static,
{
    // Records are small, and each should leave at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.respond(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection broke");
    }
}

struct Server<H> {
    options: Options,
    relays: Relays,
    running: Running,
    places: Arc<Semaphore>,
    handler: H,
    stopping: watch::Receiver<()>,
}

impl<H, F> Server<H>
where
    H: Fn(Invocation, Reply) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), RecordError>> + Send + 'static,
{
    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<Outgoing> {
        if request.method() != Method::POST {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "only POST is served");
        }
        let (parts, body) = request.into_parts();
        let body = match timeout(BODY_TIMEOUT, Limited::new(body, self.options.max_body).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long for this function");
            }
            Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the body cannot be read"),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body takes too long"),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "signatures are compared with the clock of the calendar"
        )]
        let now = SystemTime::now();
        let invocation = match self.options.verifier.verify(&parts.headers, &body, now) {
            Ok(invocation) => invocation,
            Err(refused) => return refuse(refused.status(), &refused.to_string()),
        };
        match invocation.event() {
            Event::Invoke | Event::Continue => self.invoke(invocation).await,
            Event::Interrupt => {
                // It may run elsewhere, or nowhere any more.
                self.running.cancel(invocation.inv(), Cause::Interrupt);
                status(StatusCode::NO_CONTENT)
            }
            Event::Connect | Event::Disconnect => status(StatusCode::NO_CONTENT),
        }
    }

    async fn invoke(self: Arc<Self>, invocation: Invocation) -> Response<Outgoing> {
        let ticket = match self.options.seen.begin(&invocation) {
            Ok(ticket) => ticket,
            Err(duplicate) => return refuse(StatusCode::CONFLICT, &duplicate.to_string()),
        };
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let mut answer = refuse(StatusCode::SERVICE_UNAVAILABLE, "this function has too much to do");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return answer;
        };
        let progress = Progress::default();
        let listening = Listening::new(progress.clone(), ticket);
        let relay = self.relays.of(&invocation);
        let format = self.options.format;
        let (reply, head) = Reply::new(invocation.clone(), progress.clone(), relay.clone(), format);
        tokio::spawn(self.run(invocation.clone(), reply, progress.clone(), relay, place));
        match head.await {
            Ok(Head::Records { output, cpu_time }) => stream(output, cpu_time, listening),
            Ok(Head::Later) => {
                listening.answered();
                status(StatusCode::ACCEPTED)
            }
            Ok(Head::Empty) => status(StatusCode::NO_CONTENT),
            Ok(Head::Refused(code, message)) => {
                listening.refused();
                refuse(code, &message)
            }
            Err(_) if progress.is_cancelled() => {
                let (records, output) = Records::in_response(&invocation, format, progress);
                drop(records);
                stream(output, None, listening)
            }
            Err(_) => {
                listening.refused();
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "the function gave no answer")
            }
        }
    }

    /// Runs the handler until it is done, or nobody wants its answer any more.
    async fn run(
        self: Arc<Self>,
        invocation: Invocation,
        reply: Reply,
        progress: Progress,
        relay: Option<Relay>,
        _place: OwnedSemaphorePermit,
    ) {
        let inv = invocation.inv().to_owned();
        let _entered = self.running.enter(&inv, &progress);
        let limit = invocation.time_left().unwrap_or(MAX_TIME).min(MAX_TIME);
        let mut stopping = self.stopping.clone();
        // What a handler does before it first waits belongs to it as well.
        let mut handler = Box::pin(async { (self.handler)(invocation, reply).await });
        let cause = tokio::select! {
            biased;
            outcome = &mut handler => {
                if let Err(error) = outcome {
                    tracing::debug!(inv, %error, "an answer broke off");
                }
                return;
            }
            Some(cause) = progress.cancelled() => cause,
            () = cancelled(relay) => Cause::Poll,
            () = sleep(limit) => Cause::Deadline,
            _ = stopping.changed() => Cause::Shutdown,
        };
        progress.cancel(cause);
        drop(handler);
        if let (Some(cause), Some(hook)) = (progress.cause(), &self.options.on_cancel) {
            hook.call(inv, cause);
        }
    }
}

async fn cancelled(relay: Option<Relay>) {
    match relay {
        Some(relay) => drop(relay.cancelled().await),
        None => std::future::pending().await,
    }
}

fn status(status: StatusCode) -> Response<Outgoing> {
    let mut answer = Response::new(Outgoing::Whole(Full::default()));
    *answer.status_mut() = status;
    answer
}

fn refuse(code: StatusCode, message: &str) -> Response<Outgoing> {
    let document = serde_json::json!({"error": {"msg": message}});
    let mut answer = status(code);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *answer.body_mut() = Outgoing::Whole(document.to_string().into());
    answer
}

fn stream(output: Output, cpu_time: Option<Duration>, listening: Listening) -> Response<Outgoing> {
    let content_type = HeaderValue::from_static(output.content_type());
    let mut answer = Response::new(Outgoing::Streamed(output, listening));
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    let cpu_time = cpu_time.map(|time| format!("{:.3}ms", time.as_secs_f64() * 1_000.0));
    if let Some(value) = cpu_time.and_then(|text| HeaderValue::try_from(text).ok()) {
        answer.headers_mut().insert(X_CPU_TIME, value);
    }
    answer
}

/// The body of a response.
enum Outgoing {
    Whole(Full<Bytes>),
    /// Whoever drops it does not listen any more.
    Streamed(Output, #[expect(dead_code, reason = "it is there to be dropped")] Listening),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        match self.get_mut() {
            Self::Whole(body) => {
                let next = Pin::new(body).poll_frame(context);
                next.map(|next| next.and_then(Result::ok).map(Ok))
            }
            Self::Streamed(output, _) => {
                let next = Pin::new(output).poll_next(context);
                next.map(|next| next.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Streamed(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Streamed(..) => SizeHint::default(),
        }
    }
}

const MAX_CONNECTIONS: usize = 1_024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest deadline that the protocol has.
const MAX_TIME: Duration = Duration::from_secs(3_600);
