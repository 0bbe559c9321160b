//! Feedback of the lite profile: ratings of -1, 0 or 1, kept as the votes of the full one.

use serde_json::{Value, json};
use switchboard_core::{Cell, Comparison, Condition, Found, Lookup, Op, Question, SessionId, Table, Within};

use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed};
use crate::id::{Id, Prefix};
use crate::limits::size;
use crate::message::{TargetType, Vote};
use crate::rows::{Row, moment};

use super::Problem;
use super::exchange::Exchange;
use super::request::{object, text};

/// What is rated, and where it is kept.
#[derive(Clone, Copy)]
pub(super) struct Rated {
    table: &'static Table,
    kind: TargetType,
    /// How the answer names it.
    key: &'static str,
    missing: fn() -> Problem,
}

/// A message.
pub(super) const MESSAGE: Rated = Rated {
    table: &tables::MESSAGES,
    kind: TargetType::Message,
    key: "message_id",
    missing: Problem::no_message,
};
/// A use of a tool.
pub(super) const TOOL_USE: Rated = Rated {
    table: &tables::TOOL_USES,
    kind: TargetType::ToolUse,
    key: "tool_use_id",
    missing: Problem::no_tool_use,
};
/// A use of a memory.
pub(super) const MEMORY_USE: Rated = Rated {
    table: &tables::MEMORY_USED,
    kind: TargetType::MemoryUsage,
    key: "memory_use_id",
    missing: Problem::no_memory,
};

impl Exchange {
    /// The caller's rating of something; null if there is none.
    pub(super) fn show_feedback(&mut self, rated: Rated) -> Result<(), Problem> {
        self.with_row(rated.table, rated.missing, move |exchange, cells| {
            let Some(target) = Target::of(rated, cells) else { return exchange.refuse(&(rated.missing)()) };
            exchange.look(exchange.vote_on(&target), move |exchange, votes| {
                exchange.answer(200, &votes.first().map_or(Value::Null, |vote| target.told(vote)));
            });
        })
    }

    /// Rates something, instead of what the caller has said of it before.
    pub(super) fn give_feedback(&mut self, rated: Rated, body: &[u8]) -> Result<(), Problem> {
        let body = object(body)?;
        let vote = match body.get("rating").and_then(Value::as_i64) {
            Some(1) => Some(Vote::Up),
            Some(0) => None,
            Some(-1) => Some(Vote::Down),
            Some(_) | None => return Err(Problem::malformed("rating must be -1, 0 or 1")),
        };
        let note = text(&body, "note")?.filter(|note| !note.is_empty());
        if note.as_ref().is_some_and(|note| note.len() > size(self.limits.feedback_note)) {
            return Err(Problem::too_large("note is too long"));
        }
        self.with_row(rated.table, rated.missing, move |exchange, cells| {
            let Some(target) = Target::of(rated, cells) else { return exchange.refuse(&(rated.missing)()) };
            exchange.look(exchange.vote_on(&target), move |exchange, votes| {
                let status = if votes.is_empty() { 201 } else { 200 };
                exchange.cast(target, vote, note, status);
            });
        })
    }

    fn cast(&mut self, target: Target, vote: Option<Vote>, note: Option<String>, status: u16) {
        let id = Id::fresh(Prefix::Vote, &self.seed, 1);
        let rating = match vote {
            Some(Vote::Up) => 1,
            Some(Vote::Down | Vote::Critical) => -1,
            Some(Vote::Remove) | None => 0,
        };
        let deed = Deed::Voted {
            id: id.to_string(),
            message: target.message.clone(),
            target_type: target.rated.kind.name().to_owned(),
            target: target.id.clone(),
            vote: vote.map(|vote| vote.name().to_owned()),
            quick: None,
            note: note.clone(),
        };
        let op = Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() };
        let now = i64::try_from(self.now.as_millis()).unwrap_or(i64::MAX);
        let told = target.rendered(id.as_str(), rating, note.as_deref(), now);
        self.submit_all(target.session, [op].into(), move |exchange| exchange.answer(status, &told));
    }

    /// The caller's vote on something.
    fn vote_on(&self, target: &Target) -> Lookup {
        let is = |column, value: &str| Condition { column, is: Comparison::Equal, value: value.into() };
        Lookup {
            table: tables::VOTES.name,
            within: Within::Session(target.session.clone()),
            conditions: vec![
                is("created_by", self.principal.id.as_str()),
                is("target_type", target.rated.kind.name()),
                is("target_id", &target.id),
                Condition { column: "deleted_at", is: Comparison::Equal, value: Cell::Null },
            ],
            question: Question::Rows(Vec::new()),
            limit: 1,
        }
    }
}

/// Something that is rated.
struct Target {
    rated: Rated,
    id: String,
    /// The message that owns it.
    message: String,
    session: SessionId,
}

impl Target {
    fn of(rated: Rated, cells: &Found) -> Option<Self> {
        let row = Row::new(rated.table, cells);
        let id = row.text("id")?.to_owned();
        let message = row.text("message_id").map_or_else(|| id.clone(), str::to_owned);
        Some(Self { rated, id, message, session: SessionId::new(row.text("conversation_id")?) })
    }

    fn told(&self, vote: &Found) -> Value {
        let row = Row::new(&tables::VOTES, vote);
        let rating = match row.text("vote") {
            Some("up") => 1,
            Some(_) => -1,
            None => 0,
        };
        let made = row.integer("created_at").unwrap_or_default();
        self.rendered(row.text("id").unwrap_or_default(), rating, row.text("note"), made)
    }

    fn rendered(&self, id: &str, rating: i64, note: Option<&str>, made_ms: i64) -> Value {
        let mut told = json!({
            "id": id,
            "rating": rating,
            "note": note.unwrap_or_default(),
            "created_at": moment(made_ms),
        });
        if let Some(members) = told.as_object_mut() {
            members.insert(self.rated.key.to_owned(), json!(self.id));
        }
        told
    }
}
