//! What belongs to single messages: the message itself, the tools and memories that an answer used; and what
//! stands behind the agent that answers.

use serde_json::{Map, Value, json};
use switchboard_core::{
    Comparison, Condition, Found, Lookup, Order, Question, Reject, SessionId, Table, Within,
};

use crate::annals::tables;
use crate::id::Id;
use crate::message::{ConversationStatus, McpStatus, Role};
use crate::rows::{self, Row, StoredMessage};

use super::Problem;
use super::exchange::Exchange;
use super::render;
use super::request::MOST_ITEMS;

impl Exchange {
    pub(super) fn show_message(&mut self) -> Result<(), Problem> {
        self.with_message(|exchange, message| exchange.answer(200, &render::message(&message)))
    }

    /// The message that the path names, if it is the caller's.
    pub(super) fn with_message(
        &mut self,
        then: impl FnOnce(&mut Self, StoredMessage) + Send + 'static,
    ) -> Result<(), Problem> {
        self.with_row(&tables::MESSAGES, Problem::no_message, |exchange, cells| {
            match StoredMessage::read(cells) {
                Some(message) => then(exchange, message),
                None => exchange.refuse(&Problem::no_message()),
            }
        })
    }

    /// The row that the path names in a table, if it is the caller's.
    pub(super) fn with_row(
        &mut self,
        table: &'static Table,
        missing: fn() -> Problem,
        then: impl FnOnce(&mut Self, &Found) + Send + 'static,
    ) -> Result<(), Problem> {
        let id = self.request.named().ok_or_else(missing)?;
        self.look(rows::by_id(table, Within::Own, &id), move |exchange, mut rows| {
            let cells = rows.pop().filter(|cells| !Row::new(table, cells).is_deleted());
            let session = cells.as_ref().and_then(|cells| Row::new(table, cells).text("conversation_id"));
            let (Some(session), Some(cells)) = (session.map(SessionId::new), cells.clone()) else {
                return exchange.refuse(&missing());
            };
            // A session that was deleted answers nothing, and takes everything in it along.
            let alive = rows::where_equal(table, Within::Session(session), "id", id.as_str(), 1);
            exchange.try_look(alive, move |exchange, outcome| match outcome {
                Ok(_) => then(exchange, &cells),
                Err(Reject::NotFound) => exchange.refuse(&missing()),
                Err(reject) => exchange.refuse(&reject.into()),
            });
        });
        Ok(())
    }

    pub(super) fn list_tool_uses_of_message(&mut self) -> Result<(), Problem> {
        self.with_message(|exchange, message| {
            let lookup =
                of_message(&tables::TOOL_USES, &message, "message_id", &message.id, "sequence_number");
            exchange.look(lookup, |exchange, rows| {
                exchange.answer(200, &json!({ "tool_uses": tool_uses(&rows) }));
            });
        })
    }

    pub(super) fn show_tool_use(&mut self) -> Result<(), Problem> {
        self.with_row(&tables::TOOL_USES, Problem::no_tool_use, |exchange, cells| {
            exchange.answer(200, &render::tool_use(cells));
        })
    }

    /// The latest first, those of all conversations of the caller.
    pub(super) fn list_tool_uses(&mut self) -> Result<(), Problem> {
        let limit = self.request.limit()?;
        let offset = match self.request.number("offset")?.map(usize::try_from) {
            None => 0,
            Some(Ok(offset)) if offset <= MOST_OFFSET => offset,
            Some(_) => return Err(Problem::malformed(format!("offset must be 0 to {MOST_OFFSET}"))),
        };
        self.look(deleted_conversations(), move |exchange, deleted| {
            let beside = |cells: &Found| {
                let id = Row::new(&tables::CONVERSATIONS, cells).text("id")?;
                Some(Condition { column: "conversation_id", is: Comparison::Unequal, value: id.into() })
            };
            let conditions: Vec<Condition> = deleted.iter().filter_map(beside).collect();
            let all = |question, limit| Lookup {
                table: tables::TOOL_USES.name,
                within: Within::Own,
                conditions: conditions.clone(),
                question,
                limit,
            };
            let newest = Question::Rows(vec![("created_at", Order::Falling), ("id", Order::Rising)]);
            let page = all(newest, offset + limit);
            exchange.look(all(Question::Count, 1), move |exchange, counted| {
                let total = rows::count(&counted);
                exchange.look(page, move |exchange, rows| {
                    let shown = tool_uses(rows.get(offset..).unwrap_or_default());
                    let list =
                        json!({ "tool_uses": shown, "total": total, "limit": limit, "offset": offset });
                    exchange.answer(200, &list);
                });
            });
        });
        Ok(())
    }

    /// The memories that an answer used, or that were used for a question, with what they say by now.
    pub(super) fn list_memory_uses_of_message(&mut self) -> Result<(), Problem> {
        self.with_message(|exchange, message| {
            let column = if message.role == Role::Assistant { "answer_id" } else { "message_id" };
            let lookup =
                of_message(&tables::MEMORY_USED, &message, column, &message.id, "position_in_results");
            exchange.look(lookup, move |exchange, uses| {
                exchange.tell_memory_uses(message.id, uses.into(), Vec::new());
            });
        })
    }

    fn tell_memory_uses(
        &mut self,
        message: Id,
        mut uses: std::collections::VecDeque<Found>,
        mut told: Vec<Value>,
    ) {
        let Some(cells) = uses.pop_front() else {
            return self.answer(200, &json!({ "memory_uses": told }));
        };
        let Some(memory) = Row::new(&tables::MEMORY_USED, &cells).id("memory_id") else {
            return self.tell_memory_uses(message, uses, told);
        };
        self.look(rows::by_id(&tables::MEMORY, Within::Own, &memory), move |exchange, found| {
            told.push(render::memory_use(&cells, &message, found.first()));
            exchange.tell_memory_uses(message, uses, told);
        });
    }

    /// The servers of tools behind the agent that answers the caller.
    pub(super) fn list_tool_servers(&mut self) {
        let facts = (self.service.facts)(&self.agent);
        let servers = facts.servers.iter().map(|server| {
            let enabled = server.status.known() == Some(McpStatus::Connected);
            let status = server.status.known().map(McpStatus::name);
            json!({ "id": server.name, "name": server.name, "enabled": enabled, "status": status })
        });
        let servers: Vec<Value> = servers.collect();
        self.answer(200, &json!({ "servers": servers }));
    }

    /// The tools of that agent, by the server that has them.
    pub(super) fn list_tools(&mut self) {
        let mut servers: Map<String, Value> = Map::new();
        for tool in &self.tools {
            let name = tool.name.as_str();
            let server = name.split_once('.').map_or(HERE, |(server, _)| server);
            let told = json!({ "name": name, "description": tool.description, "schema": *tool.input_schema });
            match servers.entry(server).or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(tools) => tools.push(told),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {}
            }
        }
        self.answer(200, &json!({ "tools": servers }));
    }
}

/// The conversations of the caller that were deleted, the latest first: what was used in them is not listed.
fn deleted_conversations() -> Lookup {
    let deleted = ConversationStatus::Deleted.name();
    Lookup {
        table: tables::CONVERSATIONS.name,
        within: Within::Own,
        conditions: vec![Condition { column: "status", is: Comparison::Equal, value: deleted.into() }],
        question: Question::Rows(vec![("updated_at", Order::Falling)]),
        limit: MOST_ITEMS,
    }
}

/// The rows of a message, in their order.
fn of_message(
    table: &'static Table,
    message: &StoredMessage,
    column: &'static str,
    id: &Id,
    order: &'static str,
) -> Lookup {
    Lookup {
        table: table.name,
        within: Within::Session(SessionId::new(message.conversation.as_str())),
        conditions: vec![Condition { column, is: Comparison::Equal, value: id.as_str().into() }],
        question: Question::Rows(vec![(order, Order::Rising)]),
        limit: MOST_ITEMS,
    }
}

/// As many as fit into one page; results may be long.
fn tool_uses(rows: &[Found]) -> Vec<Value> {
    let mut room = MOST_PAGE;
    let fits = rows.iter().map(render::tool_use).take_while(|told| {
        let left = room.checked_sub(told.to_string().len());
        room = left.unwrap_or_default();
        left.is_some()
    });
    fits.collect()
}

/// Where tools are that belong to no server.
const HERE: &str = "switchboard";
/// How far a list can be paged through.
const MOST_OFFSET: usize = 10_000;
/// Bytes of tool uses in one page.
const MOST_PAGE: usize = 8 << 20;
