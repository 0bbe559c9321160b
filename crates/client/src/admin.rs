//! The HTTP API for operators, `/admin/v1/`.
//!
//! A credential without the scope `admin` sees its own sessions and devices only.

use std::fmt;
use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use switchboard_core::{
    Callsign, Committed, DeviceRow, MessageId, MessageRow, PrincipalId, SessionId, SessionRow, TurnRow,
};

use crate::endpoint::is_loopback;
use crate::http::{self, chain};
use crate::tls::{TlsError, Trust};

/// A client of the admin API; cheap to clone.
#[derive(Clone)]
pub struct Admin {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

impl Admin {
    /// Talks to the server at `url`: `http:`, `https:`, `ws:` or `wss:`; the path does not matter.
    ///
    /// # Errors
    /// The URL is not one, or TLS cannot be set up.
    pub fn new(url: &str, token: Option<&str>, trust: &Trust) -> Result<Self, AdminError> {
        let invalid = || AdminError::Url(url.to_owned());
        let http_url = match url.split_once("://") {
            Some(("ws" | "http", rest)) => format!("http://{rest}"),
            Some(("wss" | "https", rest)) => format!("https://{rest}"),
            Some(_) | None => return Err(invalid()),
        };
        let mut base = Url::parse(&http_url).map_err(|_| invalid())?;
        let host = base.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if token.is_some() && base.scheme() == "http" && !is_loopback(host) {
            return Err(AdminError::Plaintext);
        }
        base.set_path("");
        base.set_query(None);
        base.set_fragment(None);
        let builder = http::client(base.scheme() == "https", trust)?.timeout(Duration::from_secs(60));
        let http = builder.build().map_err(|error| AdminError::Unreachable(chain(&error)))?;
        Ok(Self { http, base, token: token.map(str::to_owned) })
    }

    /// Sessions, the most recently used first.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn sessions(&self, query: &SessionsQuery) -> Result<Page<SessionRow>, AdminError> {
        let mut parameters = Vec::new();
        if query.live {
            parameters.push(("live", "true".to_owned()));
        }
        if query.used {
            parameters.push(("used", "true".to_owned()));
        }
        parameters.extend(query.owner.clone().map(|owner| ("owner", owner)));
        parameters.extend(query.cursor.clone().map(|cursor| ("cursor", cursor)));
        parameters.extend(query.limit.map(|limit| ("limit", limit.to_string())));
        let page: Sessions = self.get(&["sessions"], &parameters).await?;
        Ok(Page { items: page.sessions, next: page.next })
    }

    /// One session.
    ///
    /// # Errors
    /// [`AdminError::NotFound`] if there is no such session, or it is somebody else's.
    pub async fn session(&self, session: &SessionId) -> Result<SessionRow, AdminError> {
        self.get(&["sessions", session.as_str()], &[]).await
    }

    /// Events after a position, `<epoch>-<seq>` or a number, in order.
    ///
    /// # Errors
    /// See [`AdminError`]; [`AdminError::Gone`] if the position belongs to a history that was replaced.
    pub async fn events(
        &self,
        session: &SessionId,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<EventsPage, AdminError> {
        self.get(&["sessions", session.as_str(), "events"], &page_parameters(after, limit)).await
    }

    /// Turns after a position, in order.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn turns(
        &self,
        session: &SessionId,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<TurnRow>, AdminError> {
        let path = ["sessions", session.as_str(), "turns"];
        let page: Turns = self.get(&path, &page_parameters(after, limit)).await?;
        Ok(Page { items: page.turns, next: page.next })
    }

    /// Messages from `tip`, or from the newest, back towards the first.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn messages(
        &self,
        session: &SessionId,
        tip: Option<&MessageId>,
        limit: Option<usize>,
    ) -> Result<Page<MessageRow>, AdminError> {
        let mut parameters = Vec::new();
        parameters.extend(tip.map(|tip| ("tip", tip.to_string())));
        parameters.extend(limit.map(|limit| ("limit", limit.to_string())));
        let page: Messages = self.get(&["sessions", session.as_str(), "messages"], &parameters).await?;
        Ok(Page { items: page.messages, next: page.next.map(|next| next.to_string()) })
    }

    /// Devices, connected or not, by name.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn devices(&self, query: &DevicesQuery) -> Result<Page<Device>, AdminError> {
        let mut parameters = Vec::new();
        parameters.extend(query.online.map(|online| ("online", online.to_string())));
        parameters.extend(query.principal.clone().map(|principal| ("principal", principal)));
        parameters.extend(query.cursor.clone().map(|cursor| ("cursor", cursor)));
        parameters.extend(query.limit.map(|limit| ("limit", limit.to_string())));
        let page: Devices = self.get(&["devices"], &parameters).await?;
        Ok(Page { items: page.devices, next: page.next })
    }

    /// The agents that this credential may ask, and the servers of tools.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn agents(&self) -> Result<Agents, AdminError> {
        self.get(&["agents"], &[]).await
    }

    /// One device. Where several principals have one of this name, it is the connected one, or else
    /// the one that enrolled last.
    ///
    /// # Errors
    /// [`AdminError::NotFound`] if there is no such device, or it is somebody else's.
    pub async fn device(&self, device: &Callsign) -> Result<Device, AdminError> {
        self.get(&["devices", device.as_str()], &[]).await
    }

    /// Frees the name of a device, for whoever enrols under it next; answers whose it was. Needs the scope `admin`.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn release(&self, device: &Callsign) -> Result<Vec<PrincipalId>, AdminError> {
        let path = ["devices", device.as_str(), "release"];
        let answer: Released = self.send(self.http.post(self.url(&path))).await?;
        Ok(answer.released)
    }

    /// The API keys that are configured; needs the scope `admin`.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn keys(&self) -> Result<Vec<ApiKey>, AdminError> {
        let list: Keys = self.get(&["keys"], &[]).await?;
        Ok(list.keys)
    }

    /// Revokes, at once and for good; live connections end. Needs the scope `admin`.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn revoke(&self, subject: &Subject) -> Result<(), AdminError> {
        let request = self.http.post(self.url(&["revocations"])).json(subject);
        self.send::<serde_json::Value>(request).await.map(drop)
    }

    /// Takes a revocation back. Needs the scope `admin`.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn restore(&self, subject: &Subject) -> Result<(), AdminError> {
        let request = self.http.delete(self.url(&["revocations"])).json(subject);
        self.send::<serde_json::Value>(request).await.map(drop)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(["admin", "v1"]).extend(path);
        }
        url
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, String)],
    ) -> Result<T, AdminError> {
        let mut url = self.url(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        self.send(self.http.get(url)).await
    }

    async fn send<T: DeserializeOwned>(&self, mut request: reqwest::RequestBuilder) -> Result<T, AdminError> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let unreachable = |error: reqwest::Error| AdminError::Unreachable(chain(&error));
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(unreachable)?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(|error| AdminError::Answer(error.to_string()));
        }
        let said = serde_json::from_slice::<ErrorAnswer>(&body).map(|answer| answer.error.message);
        let message = said.unwrap_or_else(|_| status.to_string());
        Err(match status {
            StatusCode::UNAUTHORIZED => AdminError::Unauthorized(message),
            StatusCode::FORBIDDEN => AdminError::Forbidden(message),
            StatusCode::NOT_FOUND => AdminError::NotFound(message),
            StatusCode::GONE => AdminError::Gone(message),
            _ => AdminError::Refused { status: status.as_u16(), message },
        })
    }
}

/// Does not show the token.
impl fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admin").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// An API key, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApiKey {
    /// Its name in the configuration.
    pub id: String,
    /// Whom it stands for.
    pub principal: String,
    /// Whether it no longer counts.
    pub revoked: bool,
}

#[derive(Debug, Deserialize)]
struct Keys {
    keys: Vec<ApiKey>,
}

/// What is to be revoked, or restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The API key of this id.
    Key(String),
    /// The token with this `jti`.
    Token(String),
    /// Every credential of this principal.
    Principal(String),
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionsQuery {
    /// Only those with a running turn or an open attachment.
    pub live: bool,
    /// Only those with a turn.
    pub used: bool,
    /// Only those of this principal; needs the scope `admin`.
    pub owner: Option<String>,
    /// [`Page::next`] of the page before.
    pub cursor: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
}

/// Which devices to list.
#[derive(Debug, Clone, Default)]
pub struct DevicesQuery {
    /// Only those that are connected, or only those that are not.
    pub online: Option<bool>,
    /// Only those of this principal; others than oneself need the scope `admin`.
    pub principal: Option<String>,
    /// [`Page::next`] of the page before.
    pub cursor: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
}

/// A device, connected or not.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Device {
    /// What the log says of it.
    #[serde(flatten)]
    pub row: DeviceRow,
    /// Whether it is connected.
    pub online: bool,
    /// What it can be used for.
    pub capabilities: Vec<String>,
    /// How the operator groups it.
    pub tags: Vec<String>,
}

/// The agents of a server, and its servers of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agents {
    /// The agents, by name.
    pub agents: Vec<AgentInfo>,
    /// The servers of the Model Context Protocol.
    pub mcp: Vec<McpServerInfo>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// The name under which clients ask for it.
    pub agent: String,
    /// What it is, such as `openai` or `function`.
    pub kind: String,
    /// Whether it serves turns which name no other.
    pub default: bool,
    /// `ready` or `unavailable`.
    pub state: String,
    /// Why it is unavailable.
    pub problem: Option<String>,
    /// The tools that it executes itself.
    pub tools: Vec<String>,
}

/// A server of the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServerInfo {
    /// Its name in the configuration.
    pub server: String,
    /// `starting`, `ready` or `down`.
    pub state: String,
    /// Why it is down; only told to operators.
    pub problem: Option<String>,
    /// How many of its tools are offered.
    pub tools: usize,
    /// How often it was started again.
    pub restarts: u32,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// One page of a session's events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EventsPage {
    /// The events.
    pub events: Vec<Committed>,
    /// Position of the last event there is.
    pub head: String,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// Not a URL.
    #[error("{0} is not a URL like https://host or http://127.0.0.1:4600")]
    Url(String),
    /// A token would travel in the clear.
    #[error("a token is not sent over plain http beyond this machine; use https")]
    Plaintext,
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No address, no route, no TLS, no answer.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// 401.
    #[error("{0}")]
    Unauthorized(String),
    /// 403.
    #[error("{0}")]
    Forbidden(String),
    /// 404.
    #[error("{0}")]
    NotFound(String),
    /// 410.
    #[error("{0}")]
    Gone(String),
    /// Any other status.
    #[error("{message} (HTTP {status})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The answer cannot be read.
    #[error("the server's answer cannot be read, it may be of another version: {0}")]
    Answer(String),
}

#[derive(Deserialize)]
struct Sessions {
    sessions: Vec<SessionRow>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Turns {
    turns: Vec<TurnRow>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Messages {
    messages: Vec<MessageRow>,
    next: Option<MessageId>,
}

#[derive(Deserialize)]
struct Devices {
    devices: Vec<Device>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Released {
    released: Vec<PrincipalId>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorMessage,
}

#[derive(Deserialize)]
struct ErrorMessage {
    message: String,
}

fn page_parameters(after: Option<&str>, limit: Option<usize>) -> Vec<(&'static str, String)> {
    let after = after.map(|after| ("after", after.to_owned()));
    after.into_iter().chain(limit.map(|limit| ("limit", limit.to_string()))).collect()
}
