//! What was said in a session before this client came.

use std::time::Duration;

use switchboard_client::admin::AdminError;
use switchboard_core::model::Author;
use switchboard_core::{MessageRow, MessageStatus, SessionId};

use crate::remote::{Remote, named};
use crate::sessions::story;

/// A message as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) who: Who,
    pub(super) text: String,
    /// Whether something is missing at its end.
    pub(super) partial: bool,
    /// Which of how many it is that could stand in its place.
    pub(super) place: Option<String>,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    User,
    Agent,
}

impl From<&MessageRow> for Past {
    fn from(row: &MessageRow) -> Self {
        let who = match row.author {
            Author::User(_) => Who::User,
            Author::Agent(_) | Author::System => Who::Agent,
        };
        let partial = match row.status {
            MessageStatus::Complete => false,
            MessageStatus::Partial => true,
        };
        Self { who, text: story::parts(&row.parts), partial, place: None }
    }
}

/// The newest messages, the newest first. None if the server does not show them to this client:
/// the conversation can go on without.
pub(super) async fn messages(remote: &Remote, session: &str, most: usize) -> Option<Vec<MessageRow>> {
    tokio::time::timeout(PATIENCE, fetch(remote, session, most)).await.ok()?
}

async fn fetch(remote: &Remote, session: &str, most: usize) -> Option<Vec<MessageRow>> {
    let admin = remote.admin().ok()?;
    let id = if SessionId::is_canonical(session) {
        SessionId::from(session)
    } else {
        // Whoever sees the sessions of others cannot tell which of several is their own.
        match named(&admin, session).await.ok()?.as_slice() {
            [] => return Some(Vec::new()),
            [row] => row.session.clone(),
            [..] => return None,
        }
    };
    match admin.messages(&id, None, Some(most)).await {
        Ok(page) => Some(page.items),
        Err(AdminError::NotFound(_)) => Some(Vec::new()),
        Err(_) => None,
    }
}

const PATIENCE: Duration = Duration::from_secs(2);
