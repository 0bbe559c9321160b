//! Memories over HTTP: they belong to a person, and are noted in a session of their own.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use switchboard_core::{Cell, Comparison, Condition, Lookup, Op, Order, Question, SessionId, Within};

use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed, NOTEBOOK};
use crate::id::{Id, Prefix};
use crate::limits::size;
use crate::message::MemoryCategory;
use crate::rows;

use super::Problem;
use super::exchange::Exchange;
use super::render::memory;
use super::request::{flag, object, text};

impl Exchange {
    pub(super) fn list_memories(&mut self) -> Result<(), Problem> {
        let lookup = |question, limit| Lookup {
            table: tables::MEMORY.name,
            within: Within::Own,
            conditions: vec![Condition { column: "deleted_at", is: Comparison::Equal, value: Cell::Null }],
            question,
            limit,
        };
        let order = vec![("pinned", Order::Falling), ("updated_at", Order::Falling), ("id", Order::Rising)];
        let page = lookup(Question::Rows(order), self.request.limit()?);
        self.look(lookup(Question::Count, 1), move |exchange, counted| {
            let total = rows::count(&counted);
            exchange.look(page, move |exchange, rows| {
                let memories: Vec<Value> = rows.iter().map(memory).collect();
                exchange.answer(200, &json!({ "memories": memories, "total": total }));
            });
        });
        Ok(())
    }

    pub(super) fn show_memory(&mut self) -> Result<(), Problem> {
        self.with_row(&tables::MEMORY, Problem::no_memory, |exchange, cells| {
            exchange.answer(200, &memory(cells));
        })
    }

    pub(super) fn create_memory(&mut self, body: &[u8]) -> Result<(), Problem> {
        let change = self.memory_change(&object(body)?)?;
        let content = change.content.ok_or_else(|| Problem::malformed("content is missing or empty"))?;
        let id = Id::fresh(Prefix::Memory, &self.seed, 1);
        let deed = Deed::Memorised {
            id: id.to_string(),
            content: Some(content),
            category: Some(change.category.unwrap_or(MemoryCategory::Fact).name().to_owned()),
            pinned: Some(change.pinned.unwrap_or_default()),
            archived: change.archived,
            deleted: false,
            created: true,
        };
        self.note_memory(id, &deed, true, 201);
        Ok(())
    }

    pub(super) fn change_memory(&mut self, body: &[u8]) -> Result<(), Problem> {
        let change = self.memory_change(&object(body)?)?;
        self.with_row(&tables::MEMORY, Problem::no_memory, move |exchange, cells| {
            let Some(id) = rows::Row::new(&tables::MEMORY, cells).id("id") else {
                return exchange.refuse(&Problem::no_memory());
            };
            let deed = Deed::Memorised {
                id: id.to_string(),
                content: change.content,
                category: change.category.map(|category| category.name().to_owned()),
                pinned: change.pinned,
                archived: change.archived,
                deleted: false,
                created: false,
            };
            exchange.note_memory(id, &deed, false, 200);
        })
    }

    pub(super) fn delete_memory(&mut self) -> Result<(), Problem> {
        self.with_row(&tables::MEMORY, Problem::no_memory, move |exchange, cells| {
            let Some(id) = rows::Row::new(&tables::MEMORY, cells).id("id") else {
                return exchange.refuse(&Problem::no_memory());
            };
            let deed = Deed::Memorised {
                id: id.to_string(),
                content: None,
                category: None,
                pinned: None,
                archived: None,
                deleted: true,
                created: false,
            };
            let op = Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() };
            exchange.submit_all(exchange.notebook(), [op].into(), Self::answer_empty);
        })
    }

    /// What a body says of a memory.
    fn memory_change(&self, body: &Map<String, Value>) -> Result<Change, Problem> {
        let content = text(body, "content")?;
        if content.as_ref().is_some_and(|content| content.len() > size(self.limits.memory)) {
            return Err(Problem::too_large("content is too long"));
        }
        if content.as_ref().is_some_and(|content| content.trim().is_empty()) {
            return Err(Problem::malformed("content is missing or empty"));
        }
        let category = match text(body, "category")? {
            None => None,
            Some(name) => Some(MemoryCategory::from_name(&name).ok_or_else(|| {
                Problem::malformed(format!("category must be one of {}", MemoryCategory::NAMES.join(", ")))
            })?),
        };
        Ok(Change { content, category, pinned: flag(body, "pinned")?, archived: flag(body, "archived")? })
    }

    /// Where the memories of the caller are noted.
    pub(super) fn notebook(&self) -> SessionId {
        SessionId::named(&self.principal, NOTEBOOK)
    }

    /// What makes sure that there is such a place.
    pub(super) fn open_notebook(&self) -> VecDeque<Op> {
        let epoch = self.seed.epoch(1);
        let open = Op::Open { epoch, agent: self.agent.clone(), name: Some(NOTEBOOK.to_owned()) };
        VecDeque::from([open, Op::Chronicle { chronicle: CHRONICLE.into() }])
    }

    fn note_memory(&mut self, id: Id, deed: &Deed, new: bool, status: u16) {
        let mut ops = if new { self.open_notebook() } else { VecDeque::new() };
        ops.push_back(Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() });
        self.submit_all(self.notebook(), ops, move |exchange| {
            let lookup = rows::by_id(&tables::MEMORY, Within::Own, &id);
            exchange.look(lookup, move |exchange, rows| match rows.first() {
                Some(cells) => exchange.answer(status, &memory(cells)),
                None => exchange.refuse(&Problem::no_memory()),
            });
        });
    }
}

/// What a request says of a memory.
struct Change {
    content: Option<String>,
    category: Option<MemoryCategory>,
    pinned: Option<bool>,
    archived: Option<bool>,
}
