//! The relay, as a function that runs calls it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use switchboard_asp::message::ToolDef;
use switchboard_asp::relay::{
    Answer, Answers, BodyError, CancelGrant, Cancellation, Piece, PushForm, PushGrant, Pushed, PushedFrame,
};
use tokio::time::sleep;

use super::invocation::{Invocation, answers};
use super::records::added;
use crate::endpoint::is_loopback;
use switchboard_core::client::{Refusal, words};

use crate::http::{chain, client};
use crate::tls::{TlsError, Trust};

/// Calls relays; one for all invocations.
#[derive(Debug, Clone)]
pub struct Relays {
    http: reqwest::Client,
    plaintext: Plaintext,
}

impl Relays {
    /// Trusts these authorities.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(trust: &Trust, plaintext: Plaintext) -> Result<Self, TlsError> {
        // A machine without authorities can still call relays without TLS.
        let builder = match client(true, trust) {
            Err(TlsError::NoRoots) => client(false, trust)?,
            builder => builder?,
        };
        let http = builder.build().map_err(|error| TlsError::Setup(chain(&error)))?;
        Ok(Self { http, plaintext })
    }

    /// The relay of an invocation, if it may be called.
    pub fn of(&self, invocation: &Invocation) -> Option<Relay> {
        let body = invocation.body();
        let push = body.push.clone()?;
        Some(Relay { http: self.http.clone(), plaintext: self.plaintext, push, cancel: body.cancel.clone() })
    }
}

/// Whether tokens may go to other machines without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plaintext {
    /// No.
    #[default]
    Refuse,
    /// Yes: the network between function and relay is trusted.
    Permit,
}

/// The relay of one invocation.
#[derive(Debug, Clone)]
pub struct Relay {
    http: reqwest::Client,
    plaintext: Plaintext,
    push: PushGrant,
    cancel: Option<CancelGrant>,
}

impl Relay {
    /// Asks again and again, as often as the relay wishes, until the request was cancelled. A relay that says
    /// nothing of use is asked on.
    pub async fn cancelled(&self) -> Cancellation {
        let Some(grant) = &self.cancel else { return std::future::pending().await };
        let pause = Duration::from_millis(grant.poll_ms).clamp(MIN_POLL, MAX_POLL);
        loop {
            sleep(pause).await;
            match self.cancellation().await {
                Ok(cancellation) if cancellation.cancelled => return cancellation,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Whether the request was cancelled.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub async fn cancellation(&self) -> Result<Cancellation, RelayError> {
        let request = self.http.get(self.url(self.cancel_url()?)?).timeout(TIMEOUT);
        Ok(Cancellation::from_json(&self.send(request).await?)?)
    }

    /// The client's answers after the one that counts `after`; waits up to 20 s for one.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub async fn answers(&self, after: u64) -> Result<Answers, RelayError> {
        let mut url = self.url(self.cancel_url()?)?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push("answers");
        }
        url.query_pairs_mut().append_pair("after", &after.to_string());
        let request = self.http.get(url).timeout(LONG_TIMEOUT);
        Ok(Answers::from_json(&self.send(request).await?)?)
    }

    /// Waits for the answer to a call or a question; none if the request was cancelled. For a function that keeps
    /// its response open, or answers by push.
    ///
    /// # Errors
    /// See [`RelayError`]; what passes is tried again.
    pub async fn answer_to(&self, id: &str) -> Result<Option<Answer>, RelayError> {
        let mut after = 0;
        loop {
            match self.answers(after).await {
                Ok(said) if said.cancelled => return Ok(None),
                Ok(said) => {
                    after = said.answers.iter().map(|answer| answer.k).fold(after, u64::max);
                    if let Some(answer) = said.answers.into_iter().find(|answer| answers(answer, id)) {
                        return Ok(Some(answer));
                    }
                }
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(error),
            }
            sleep(MIN_POLL).await;
        }
    }

    /// Pushes frames. One that does not get through is sent again; the relay knows it by `idem`, which no other
    /// push may use.
    ///
    /// # Errors
    /// See [`RelayError`]; what passes was tried again.
    pub async fn push(&self, idem: &str, frames: Vec<PushedFrame>) -> Result<Receipt, RelayError> {
        let count = frames.len();
        let body = Pushed { idem: Some(idem.to_owned()), frames, count }.to_json();
        let url = self.url(&self.push.url)?;
        let mut pause = FIRST_PAUSE;
        for _ in 1..PUSH_ATTEMPTS {
            match self.push_once(url.clone(), body.clone()).await {
                Err(error) if error.is_temporary() => sleep(pause).await,
                outcome => return outcome,
            }
            pause *= 2;
        }
        self.push_once(url, body).await
    }

    /// Pushes tools that were found, for the connection.
    ///
    /// # Errors
    /// See [`Relay::push`].
    pub async fn push_tools(&self, idem: &str, tools: Vec<ToolDef>) -> Result<Receipt, RelayError> {
        self.push(idem, vec![PushedFrame { rid: 0, piece: Piece::ToolDef(added(tools)) }]).await
    }

    /// What is known of the client's connection.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub async fn connection(&self) -> Result<Connection, RelayError> {
        let request = self.http.get(self.connection_url()?).timeout(TIMEOUT);
        json(&self.send(request).await?)
    }

    /// Closes the client's connection.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub async fn disconnect(&self) -> Result<(), RelayError> {
        let request = self.http.delete(self.connection_url()?).timeout(TIMEOUT);
        self.send(request).await.map(drop)
    }

    async fn push_once(&self, url: Url, body: Bytes) -> Result<Receipt, RelayError> {
        let request = self.http.post(url).header("content-type", PushForm::Json.name()).body(body);
        json(&self.send(request.timeout(TIMEOUT)).await?)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Bytes, RelayError> {
        let unreachable = |error: reqwest::Error| RelayError::Unreachable(chain(&error.without_url()));
        let mut response = request.bearer_auth(self.push.token.expose()).send().await.map_err(unreachable)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(RelayError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        let status = response.status();
        if status.is_success() {
            return Ok(body.freeze());
        }
        Err(RelayError::Refused { status: status.as_u16(), message: words(&body, "/error") })
    }

    fn cancel_url(&self) -> Result<&str, RelayError> {
        self.cancel.as_ref().map(|grant| grant.url.as_str()).ok_or(RelayError::NotGranted)
    }

    /// That of the frames, without its last part.
    fn connection_url(&self) -> Result<Url, RelayError> {
        let url = self.push.url.strip_suffix("/frames").ok_or(RelayError::Url)?;
        self.url(url)
    }

    fn url(&self, text: &str) -> Result<Url, RelayError> {
        let url: Url = text.parse().map_err(|_| RelayError::Url)?;
        let host = url.host_str().ok_or(RelayError::Url)?;
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.plaintext == Plaintext::Permit || is_loopback(host) => Ok(url),
            "http" => Err(RelayError::Plaintext),
            _ => Err(RelayError::Url),
        }
    }
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Receipt {
    /// How many frames were taken.
    pub accepted: u64,
    /// Where they are.
    pub delivered: Delivered,
}

/// Where pushed frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivered {
    /// On their way to the client.
    Live,
    /// They wait for the client to come back.
    Buffered,
}

/// A client's connection.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Connection {
    /// Whether the client is there.
    pub state: ConnectionState,
    /// Since when, as the relay writes it.
    #[serde(default)]
    pub connected_at: serde_json::Value,
    /// Requests that are open.
    #[serde(default)]
    pub inflight: u64,
}

/// Whether a client is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// It is.
    Live,
    /// It may come back.
    Detached,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// The invocation came without leave to call the relay.
    #[error("the relay did not say how to call it: configure its public URL")]
    NotGranted,
    /// Not a URL of the kind that relays give.
    #[error("the relay gave a URL that cannot be used")]
    Url,
    /// A token that everybody on the way could read.
    #[error("the token would travel unencrypted: give the relay an https URL, or permit it")]
    Plaintext,
    /// No address, no route, no TLS, no answer.
    #[error("the relay cannot be reached: {0}")]
    Unreachable(String),
    /// Another status than success: 401 and 403 mean that the token does not permit this, 404 and 410 that the
    /// connection or request is gone.
    #[error("the relay refused with HTTP {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the relay said.
        message: String,
    },
    /// More than anybody can mean.
    #[error("the relay's answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
    /// The answer cannot be read.
    #[error("the relay's answer cannot be read, it may be of another version: {0}")]
    Answer(#[from] BodyError),
}

impl RelayError {
    /// Whether the same may work later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => Refusal { status: *status, ..Refusal::default() }.is_temporary(),
            Self::NotGranted | Self::Url | Self::Plaintext | Self::TooLong | Self::Answer(_) => false,
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);
/// Above the 20 s for which a relay holds a question for answers.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);
const MIN_POLL: Duration = Duration::from_millis(50);
const MAX_POLL: Duration = Duration::from_secs(60);
const PUSH_ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_ANSWER: usize = 1024 * 1024;

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, RelayError> {
    serde_json::from_slice(body).map_err(|_| RelayError::Answer(BodyError::Json))
}
