//! Chats over HTTP: one request, and the stream that answers it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value};
use switchboard_acolyte::client::{ChatEvent, CommandError, Ending, Fault, StreamChat};
use switchboard_acolyte::codec::decode_request;
use switchboard_acolyte::message::ChatRequest;
use switchboard_core::client::Refusal;
use tokio::sync::{Notify, mpsc};

use super::chat::{BUFFER, Chat, How, Stopper, Update};
use super::error::{Cause, ClientError, ConnectError};
use super::options::{Connect, SOCKET};
use crate::http::chain;
use crate::socket::seconds_as_ms;

/// A client without a connection: every chat is a request of its own, and they run side by side. A
/// chat whose stream is cut is lost; to stop one is to hang up. Cheap to clone.
#[derive(Clone)]
pub struct StreamClient {
    http: reqwest::Client,
    status_url: String,
    chat_url: String,
    token: Option<String>,
}

impl StreamClient {
    /// Asks the server what it speaks, and answers a client and what it said.
    ///
    /// # Errors
    /// It cannot be reached, does not let this client in, or speaks something else.
    pub async fn connect(connect: &Connect) -> Result<(Self, Map<String, Value>), ConnectError> {
        let silence = Duration::from_millis(connect.config.silence_ms);
        let builder = connect.http_client()?.read_timeout(silence);
        let http = builder.build().map_err(|error| Cause::Unreachable(chain(&error)))?;
        let client = Self {
            http,
            status_url: connect.http_url(SOCKET.path, "/v1/status")?,
            chat_url: connect.http_url(SOCKET.path, "/v1/chat/stream")?,
            token: connect.exposed_token().map(str::to_owned),
        };
        let status = client.status().await?;
        let theirs = status.get("protocol_version").and_then(Value::as_str).unwrap_or_default();
        if theirs != VERSION {
            let theirs = theirs.to_owned();
            return Err(Cause::from(Fault::Version { theirs, ours: VERSION }).into());
        }
        Ok((client, status))
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// There is no usable answer.
    pub async fn status(&self) -> Result<Map<String, Value>, Cause> {
        let request = self.authorized(self.http.get(&self.status_url));
        let response = answered(request.timeout(ANSWER).send().await).await?;
        let body = response.bytes().await.map_err(|error| Cause::Unreachable(chain(&error)))?;
        serde_json::from_slice(&body).map_err(|_| {
            let text = "the status cannot be read".to_owned();
            Cause::Refused(Refusal { status: 404, text, ..Refusal::default() })
        })
    }

    /// Starts a chat. Done when the server has begun to answer.
    ///
    /// # Errors
    /// The server cannot be reached or refuses it.
    pub async fn chat(&self, request: &ChatRequest) -> Result<Chat, ClientError> {
        let body = request.to_json().to_string();
        if decode_request(body.as_bytes()).is_err() {
            return Err(CommandError::Unfit.into());
        }
        let request = self.authorized(self.http.post(&self.chat_url));
        let request = request.header("content-type", "application/json").body(body);
        let response = answered(request.send().await).await?;
        let task = response.headers().get("acolyte-task-id").and_then(|task| task.to_str().ok());
        let stream = StreamChat::new(task);
        let (updates, receiver) = mpsc::channel(BUFFER);
        let stop = Arc::new(Notify::new());
        tokio::spawn(follow(stream, response, updates, stop.clone()));
        Ok(Chat::new(receiver, Stopper(How::HangUp(stop))))
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("acolyte-protocol", VERSION);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// Does not show the token.
impl fmt::Debug for StreamClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StreamClient").field("url", &self.chat_url).finish_non_exhaustive()
    }
}

/// Hands on what the stream says, until its end or until nobody wants it. Dropping the response hangs
/// up.
async fn follow(
    mut stream: StreamChat,
    mut response: Response,
    updates: mpsc::Sender<Update>,
    stop: Arc<Notify>,
) {
    if let Some(task) = stream.task().cloned() {
        // Whoever does not listen has stopped it.
        let _ = updates.send(Update::Event(ChatEvent::Accepted(task))).await;
    }
    let ending = loop {
        let piece = tokio::select! {
            () = stop.notified() => break Ending::Aborted,
            piece = response.chunk() => piece,
        };
        let Ok(Some(piece)) = piece else { break stream.close() };
        for event in stream.push(&piece) {
            let sent = tokio::select! {
                sent = updates.send(Update::Event(event)) => sent,
                () = stop.notified() => return hang_up(response, &updates).await,
            };
            if sent.is_err() {
                return;
            }
        }
        if stream.ending().is_some() {
            break stream.close();
        }
    };
    let _ = updates.send(Update::Ended(ending)).await;
}

async fn hang_up(response: Response, updates: &mpsc::Sender<Update>) {
    drop(response);
    let _ = updates.send(Update::Ended(Ending::Aborted)).await;
}

/// The answer, if it is one.
async fn answered(sent: Result<Response, reqwest::Error>) -> Result<Response, Cause> {
    let response = sent.map_err(|error| Cause::Unreachable(chain(&error)))?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(seconds_as_ms).map(Duration::from_millis);
    let body = response.bytes().await.unwrap_or_default();
    Err(Cause::Refused(Refusal::read::<Fault>(status.as_u16(), retry_after, &body)))
}

/// The one version that is spoken.
const VERSION: &str = "1";
const ANSWER: Duration = Duration::from_secs(10);
