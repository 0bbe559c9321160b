//! What was said in a session before this client came.

use std::time::Duration;

use switchboard_core::{MessageRow, SessionId};

use crate::remote::{Remote, named};

/// The newest messages, the newest first. None if the server does not show them to this client:
/// the conversation can go on without.
pub(super) async fn messages(remote: &Remote, session: &str) -> Vec<MessageRow> {
    match tokio::time::timeout(PATIENCE, fetch(remote, session)).await {
        Ok(Some(messages)) => messages,
        Ok(None) | Err(_) => Vec::new(),
    }
}

async fn fetch(remote: &Remote, session: &str) -> Option<Vec<MessageRow>> {
    let admin = remote.admin().ok()?;
    let id = if SessionId::is_canonical(session) {
        SessionId::from(session)
    } else {
        // Whoever sees the sessions of others cannot tell which of several is their own.
        match named(&admin, session).await.ok()?.as_slice() {
            [row] => row.session.clone(),
            _ => return None,
        }
    };
    Some(admin.messages(&id, None, Some(MOST)).await.ok()?.items)
}

const MOST: usize = 20;
const PATIENCE: Duration = Duration::from_secs(2);
