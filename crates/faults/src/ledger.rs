//! The log as the server has it: every session, read through the admin API from its first position.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use switchboard_client::Trust;
use switchboard_client::admin::{Admin, SessionsQuery};
use switchboard_core::model::{Finish, Output, TurnOutcome};
use switchboard_core::{Event, SessionId, TurnId};

use crate::history::{Log, Turn};
use crate::words::{Words, read_prompt};

/// Reads everything.
///
/// # Errors
/// The server does not answer.
pub(crate) async fn read(url: &str) -> anyhow::Result<Log> {
    let admin = Admin::new(url, None, &Trust::System)?;
    let sessions = sessions(&admin).await.context("the sessions cannot be listed")?;
    let logs = stream::iter(sessions).map(|session| {
        let admin = &admin;
        async move {
            let log = session_log(admin, &session).await;
            log.with_context(|| format!("the log of session {session} cannot be read"))
        }
    });
    let mut logs = logs.buffer_unordered(AT_ONCE);
    let mut all = Log::default();
    while let Some(log) = logs.try_next().await? {
        all.turns.extend(log.turns);
        all.holes.extend(log.holes);
    }
    Ok(all)
}

async fn sessions(admin: &Admin) -> anyhow::Result<Vec<SessionId>> {
    let mut query = SessionsQuery { used: true, ..SessionsQuery::default() };
    let mut sessions = Vec::new();
    loop {
        let page = admin.sessions(&query).await?;
        sessions.extend(page.items.into_iter().map(|row| row.session));
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(sessions),
        }
    }
}

async fn session_log(admin: &Admin, session: &SessionId) -> anyhow::Result<Log> {
    let mut reader = Reader::new(session);
    let mut after = None;
    loop {
        let page = admin.events(session, after.as_deref(), None).await?;
        for committed in page.events {
            reader.read(committed.position.seq, committed.event);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(reader.log),
        }
    }
}

/// Takes in the events of one session, in order.
struct Reader {
    session: String,
    position: u64,
    /// Where the turns are that belong to a scenario, and how far their output was read.
    turns: BTreeMap<TurnId, (usize, Words)>,
    log: Log,
}

impl Reader {
    fn new(session: &SessionId) -> Self {
        let (turns, log) = Default::default();
        Self { session: session.to_string(), position: 0, turns, log }
    }

    fn read(&mut self, position: u64, event: Event) {
        if position != self.position + 1 {
            let hole = format!("{position} after {} in session {}", self.position, self.session);
            self.log.holes.push(hole);
        }
        self.position = position;
        if let Event::TurnAccepted { turn, request, .. } = &event {
            if let Some((request, asked)) = read_prompt(&request.text()) {
                let session = self.session.clone();
                self.turns.insert(turn.clone(), (self.log.turns.len(), Words::default()));
                self.log.turns.push(Turn { session, request, asked, ..Turn::default() });
            }
            return;
        }
        let Some((index, words)) = event.turn().and_then(|turn| self.turns.get_mut(turn)) else { return };
        let Some(turn) = self.log.turns.get_mut(*index) else { return };
        if let Event::TurnOutput { output: Output::Text(text), .. } = &event {
            // What cannot be read has no place in any answer.
            let read = words.push(text).into_iter();
            turn.words.extend(read.map(|word| match word {
                Some(word) if word.request == turn.request => word.index,
                Some(_) | None => u32::MAX,
            }));
        } else if let Event::TurnEnded { end, .. } = &event {
            turn.ends.push(end.outcome == TurnOutcome::Done(Finish::Complete));
        }
    }
}

/// Sessions that are read at the same time.
const AT_ONCE: usize = 8;
