//! Following a task through the log of its session.

use switchboard_client::admin::{Admin, AdminError, SessionsQuery};
use switchboard_core::SessionId;

use super::story::{Happened, Plot};

/// Where the reading of a session has come to.
#[derive(Debug)]
pub(super) struct Follower {
    admin: Admin,
    /// What the task's owner calls the session.
    name: String,
    session: Option<SessionId>,
    after: String,
    plot: Plot,
}

impl Follower {
    pub(super) fn new(admin: Admin, name: &str) -> Self {
        Self { admin, name: name.to_owned(), session: None, after: "0".to_owned(), plot: Plot::default() }
    }

    /// What has happened since the last time.
    pub(super) async fn news(&mut self) -> Result<Vec<Happened>, AdminError> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => match self.find().await? {
                Some(session) => self.session.insert(session).clone(),
                None => return Ok(Vec::new()),
            },
        };
        let mut news = Vec::new();
        loop {
            let page = self.admin.events(&session, Some(&self.after), Some(PAGE)).await?;
            if let Some(last) = page.events.last() {
                self.after = last.position.to_string();
            }
            news.extend(page.events.into_iter().filter_map(|event| self.plot.event(event)));
            if page.next.is_none() {
                return Ok(news);
            }
        }
    }

    /// The session; it is new, so it is among the first.
    async fn find(&self) -> Result<Option<SessionId>, AdminError> {
        let query = SessionsQuery { limit: Some(RECENT), ..SessionsQuery::default() };
        let rows = self.admin.sessions(&query).await?.items;
        Ok(rows.into_iter().find(|row| row.name.as_deref() == Some(&self.name)).map(|row| row.session))
    }
}

const PAGE: usize = 500;
const RECENT: usize = 200;
