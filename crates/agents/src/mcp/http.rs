//! MCP over streamable HTTP, with our own HTTP client: bodies are bounded, and neither addresses nor
//! bodies get into errors, which the library writes to the log.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::outcome;
use super::stdio::MAX_MESSAGE_BYTES;
use super::tap::Notices;
use crate::http;
use crate::openai::Secret;

/// An HTTP client as the MCP library uses it.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client,
    bearer: Option<Secret>,
    notices: Arc<Notices>,
}

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("the exchange failed: {0}")]
    Exchange(reqwest::Error),
    #[error("an answer is longer than {MAX_MESSAGE_BYTES} bytes")]
    TooLarge,
}

type Failure = StreamableHttpError<HttpError>;

/// A transport to the server at `url`. Does not connect yet.
pub(super) fn transport(
    url: &str,
    bearer: Option<Secret>,
    connect_timeout: Duration,
    notices: Arc<Notices>,
) -> Result<StreamableHttpClientTransport<Http>, String> {
    let client = client(url, connect_timeout).map_err(|error| format!("cannot set up HTTP: {error}"))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).max_sse_event_size(MAX_MESSAGE_BYTES);
    // A session that is gone may have had other tools: the connection begins anew, and lists them.
    config = config.reinit_on_expired_session(false);
    let mut retry = ExponentialBackoff::default();
    retry.max_delay = Some(Duration::from_secs(10));
    config.retry_config = Arc::new(retry);
    Ok(StreamableHttpClientTransport::with_client(Http { client, bearer, notices }, config))
}

fn client(url: &str, connect_timeout: Duration) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let scheme = if url.starts_with("https:") { "https" } else { "http" };
    Ok(http::client(scheme, connect_timeout)?.build()?)
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        let request = self.client.post(uri.as_ref()).json(&message);
        let request = request.header(ACCEPT, format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}"));
        let response = self.send(request, session.as_deref(), headers).await?;
        let status = response.status();
        if !status.is_success() {
            return self.refused(response, id, session.is_some()).await;
        }
        let Some(id) = id else { return Ok(StreamableHttpPostResponse::Accepted) };
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session =
            response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(&response, EVENT_STREAM_MIME_TYPE) {
            let events = events(response, Some(id), self.notices.clone());
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let message = match body(response, MAX_MESSAGE_BYTES).await {
            Ok(body) => serde_json::from_slice(&body)
                .map_err(|_| StreamableHttpError::UnexpectedServerResponse("no JSON-RPC message".into()))?,
            Err(HttpError::TooLarge) => outcome::too_large(id),
            Err(error @ HttpError::Exchange(_)) => return Err(StreamableHttpError::Client(error)),
        };
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.send(self.client.delete(uri.as_ref()), Some(&*session), headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut request = self.client.get(uri.as_ref()).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(last_event) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, last_event);
        }
        let opened = match self.send(request, session.as_deref(), headers).await {
            Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            Ok(response) if !response.status().is_success() => {
                Err(HttpStatusError::new(response.status().as_u16(), None).into())
            }
            Ok(response) if !is(&response, EVENT_STREAM_MIME_TYPE) => {
                Err(StreamableHttpError::UnexpectedContentType(None))
            }
            Ok(response) => Ok(events(response, None, self.notices.clone())),
            Err(error) => Err(error),
        };
        if opened.is_err() {
            self.notices.suspicion.notify_one();
        }
        opened
    }
}

impl Http {
    async fn send(
        &self,
        mut request: RequestBuilder,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failure> {
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        if let Some(bearer) = &self.bearer {
            request = request.bearer_auth(bearer.reveal());
        }
        let sent = request.headers(headers.into_iter().collect()).send().await;
        sent.map_err(|error| StreamableHttpError::Client(HttpError::Exchange(error.without_url())))
    }

    /// Some servers refuse with an error of JSON-RPC, which says more than a status.
    async fn refused(
        &self,
        response: Response,
        id: Option<RequestId>,
        had_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && had_session {
            self.notices.suspicion.notify_one();
            return Err(StreamableHttpError::SessionExpired);
        }
        if is(&response, JSON_MIME_TYPE)
            && let Some(id) = id
            && let Ok(body) = body(response, MAX_REFUSAL_BYTES).await
            && let Ok(ServerJsonRpcMessage::Error(refusal)) = serde_json::from_slice(&body)
        {
            let message = ServerJsonRpcMessage::error(refusal.error, Some(id));
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
        Err(HttpStatusError::new(status.as_u16(), None).into())
    }
}

fn is(response: &Response, mime_type: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(mime_type.as_bytes()))
}

async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| HttpError::Exchange(error.without_url()))?
    {
        if body.len() + chunk.len() > limit {
            return Err(HttpError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a response. If they answer the request `id`, one that is too large to be read
/// becomes an error for it. A stream that answers nothing is there for as long as the server is, so
/// that its end raises a suspicion.
fn events(
    response: Response,
    id: Option<RequestId>,
    notices: Arc<Notices>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let read = SseStream::from_bytes_stream(bounded(response.bytes_stream(), MAX_MESSAGE_BYTES));
    let Some(id) = id else {
        let end = stream::poll_fn(move |_| {
            notices.suspicion.notify_one();
            Poll::Ready(None)
        });
        return read.chain(end).boxed();
    };
    let answer = move |event| match event {
        Err(error) if is_too_large(&error) => {
            let message = serde_json::to_string(&outcome::too_large(id.clone()));
            Ok(Sse::default().data(message.unwrap_or_default()))
        }
        event => event,
    };
    read.map(answer).boxed()
}

fn is_too_large(error: &SseError) -> bool {
    match error {
        SseError::Body(error) => matches!(error.downcast_ref(), Some(HttpError::TooLarge)),
        SseError::InvalidLine
        | SseError::DuplicatedEventLine
        | SseError::DuplicatedIdLine
        | SseError::DuplicatedRetry
        | SseError::Utf8Parse(_)
        | SseError::IntParse(_) => false,
    }
}

/// Ends with an error when more than `limit` bytes come without the empty line that ends an event.
fn bounded<B: AsRef<[u8]>>(
    bytes: impl Stream<Item = reqwest::Result<B>>,
    limit: usize,
) -> impl Stream<Item = Result<B, HttpError>> {
    let mut length = 0;
    let mut line_is_empty = true;
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(|error| HttpError::Exchange(error.without_url()))?;
        for byte in chunk.as_ref() {
            length += 1;
            match byte {
                b'\n' if line_is_empty => length = 0,
                b'\n' => line_is_empty = true,
                b'\r' => {}
                _ => line_is_empty = false,
            }
            if length > limit {
                return Err(HttpError::TooLarge);
            }
        }
        Ok(chunk)
    })
}

const MAX_REFUSAL_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    async fn passes(text: &'static str, limit: usize) -> bool {
        let chunks = stream::iter(text.as_bytes().chunks(3).map(reqwest::Result::Ok));
        bounded(chunks, limit).all(|chunk| std::future::ready(chunk.is_ok())).await
    }

    #[tokio::test]
    async fn an_event_is_bounded_and_a_stream_is_not() {
        assert!(passes("data: abc\n\ndata: abc\r\n\r\nid: 1\ndata: a\n\n", 16).await);
        assert!(!passes("data: abc\ndata: abc\n\n", 16).await);
        assert!(!passes("data: abcdefghijklmnop", 16).await);
    }
}
