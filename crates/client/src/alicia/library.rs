//! What is served over HTTP: lists, histories and branches.

use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, Response, Url};
use serde_json::{Map, Value, json};
use switchboard_alicia::Id;
use switchboard_alicia::client::Fault;
use switchboard_core::client::Refusal;

use super::error::{Cause, ConnectError, LibraryError};
use super::options::{Connect, PATH};
use super::rows::{ConversationRow, MemoryRow, MessageRow, Page, SyncCounts};
use crate::http::chain;
use crate::socket::seconds_as_ms;

/// Conversations and messages as they are stored. Cheap to clone; needs no connection.
#[derive(Clone)]
pub struct Library {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

impl Library {
    /// Talks to the same server as a client with these options.
    ///
    /// # Errors
    /// The options contradict themselves or each other.
    pub fn new(connect: &Connect) -> Result<Self, ConnectError> {
        let http = connect
            .http_client()?
            .timeout(ANSWER)
            .build()
            .map_err(|error| Cause::Unreachable(chain(&error)))?;
        let base = connect.http_url(PATH, "/api/v1")?;
        let base = Url::parse(&base).map_err(|_| super::OptionsError::Url(base))?;
        Ok(Self { http, base, token: connect.exposed_token().map(str::to_owned) })
    }

    /// Conversations of this user, the most recently used first; `before` is [`Page::next`].
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn conversations(&self, before: Option<i64>) -> Result<Page<ConversationRow>, LibraryError> {
        let before = before.map(|before| before.to_string());
        let parameters: Vec<_> = before.iter().map(|before| ("before", before.as_str())).collect();
        let (items, page) = self.list(&["conversations"], "conversations", &parameters).await?;
        Ok(Page { items, next: page.get("next_before").and_then(Value::as_i64) })
    }

    /// One conversation.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn conversation(&self, conversation: &Id) -> Result<ConversationRow, LibraryError> {
        let path = ["conversations", conversation.as_str()];
        self.read(Method::GET, &path, &[], None).await
    }

    /// Makes a conversation.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn create(&self, title: Option<&str>) -> Result<ConversationRow, LibraryError> {
        self.read(Method::POST, &["conversations"], &[], Some(json!({ "title": title }))).await
    }

    /// Gives a conversation another title.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn rename(&self, conversation: &Id, title: &str) -> Result<ConversationRow, LibraryError> {
        self.change(conversation, json!({ "title": title })).await
    }

    /// Changes title, status or preferences of a conversation.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn change(&self, conversation: &Id, changes: Value) -> Result<ConversationRow, LibraryError> {
        let path = ["conversations", conversation.as_str()];
        self.read(Method::PATCH, &path, &[], Some(changes)).await
    }

    /// Deletes a conversation.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn delete(&self, conversation: &Id) -> Result<(), LibraryError> {
        let path = ["conversations", conversation.as_str()];
        self.ask(Method::DELETE, &path, &[], None).await.map(drop)
    }

    /// The messages of a conversation's active path, oldest first; `after` is [`Page::next`].
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn messages(
        &self,
        conversation: &Id,
        after: Option<i64>,
    ) -> Result<Page<MessageRow>, LibraryError> {
        self.part(conversation, after, &[]).await
    }

    /// All messages of a conversation, those of other branches, too.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn tree(
        &self,
        conversation: &Id,
        after: Option<i64>,
    ) -> Result<Page<MessageRow>, LibraryError> {
        self.part(conversation, after, &[("all", "true")]).await
    }

    /// The messages that share a parent with this one, itself among them.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn siblings(&self, message: &Id) -> Result<Vec<MessageRow>, LibraryError> {
        let path = ["messages", message.as_str(), "siblings"];
        Ok(self.list(&path, "siblings", &[]).await?.0)
    }

    /// Makes the path to this message the active one.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn switch_branch(&self, conversation: &Id, tip: &Id) -> Result<(), LibraryError> {
        let path = ["conversations", conversation.as_str(), "switch-branch"];
        let body = json!({ "tip_message_id": tip.as_str() });
        self.ask(Method::POST, &path, &[], Some(body)).await.map(drop)
    }

    /// What became of messages that were written offline.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn sync_counts(&self, conversation: &Id) -> Result<SyncCounts, LibraryError> {
        let path = ["conversations", conversation.as_str(), "sync", "status"];
        self.read(Method::GET, &path, &[], None).await
    }

    /// What is remembered for this user.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub async fn memories(&self) -> Result<Vec<MemoryRow>, LibraryError> {
        Ok(self.list(&["memories"], "memories", &[]).await?.0)
    }

    async fn part(
        &self,
        conversation: &Id,
        after: Option<i64>,
        parameters: &[(&str, &str)],
    ) -> Result<Page<MessageRow>, LibraryError> {
        let path = ["conversations", conversation.as_str(), "messages"];
        let after = after.map(|after| after.to_string());
        let mut parameters = parameters.to_vec();
        parameters.extend(after.iter().map(|after| ("after", after.as_str())));
        let (items, page): (Vec<MessageRow>, _) = self.list(&path, "messages", &parameters).await?;
        let more = page.get("has_more").and_then(Value::as_bool).unwrap_or_default();
        let next = items.last().map(|last| last.sequence_number).filter(|_| more);
        Ok(Page { items, next })
    }

    /// A list, and what stands beside it.
    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        key: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(Vec<T>, Map<String, Value>), LibraryError> {
        let mut page: Map<String, Value> = self.read(Method::GET, path, parameters, None).await?;
        let items = page.remove(key).unwrap_or_default();
        Ok((serde_json::from_value(items).map_err(unusable)?, page))
    }

    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<T, LibraryError> {
        let response = self.ask(method, path, parameters, body).await?;
        let body = response.bytes().await.map_err(unreachable)?;
        serde_json::from_slice(&body).map_err(unusable)
    }

    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<Response, LibraryError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(seconds_as_ms).map(Duration::from_millis);
        let body = response.bytes().await.unwrap_or_default();
        Err(Cause::Refused(Refusal::read::<Fault>(status.as_u16(), retry_after, &body)).into())
    }
}

/// Does not show the token.
impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Library").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

fn unreachable(error: reqwest::Error) -> LibraryError {
    Cause::Unreachable(chain(&error)).into()
}

fn unusable(error: serde_json::Error) -> LibraryError {
    LibraryError::Unusable(error.to_string())
}

const ANSWER: Duration = Duration::from_secs(60);
