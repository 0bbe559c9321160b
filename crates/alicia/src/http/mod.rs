//! The HTTP endpoints, each exchange a connection of its own.
//!
//! Bodies are JSON with the names of columns; only sync speaks MessagePack as well. An answer that says no is
//! `{error, message, code}` with the code of its status. A conversation that is not the caller's looks like
//! one that does not exist.

use switchboard_core::{Connection, Method, Seed, Upgrade};

use crate::protocol::{
    Alicia, CONFIG, CONVERSATION, CONVERSATIONS, MEMORIES, MEMORY, MEMORY_USE_FEEDBACK, MEMORY_USES, MESSAGE,
    MESSAGE_FEEDBACK, MESSAGE_TOOL_USES, MESSAGES, PREFERENCES, SIBLINGS, SWITCH_BRANCH, SYNC, SYNC_STATUS,
    TOKEN, TOOL_SERVERS, TOOL_USE, TOOL_USE_FEEDBACK, TOOL_USES, TOOLS,
};

mod conversations;
mod details;
mod exchange;
mod feedback;
mod memories;
mod messages;
mod preferences;
mod problem;
mod render;
mod request;
mod syncing;

use exchange::Exchange;
use problem::Problem;

/// The connection that answers one request.
pub(crate) fn exchange(protocol: &Alicia, upgrade: Upgrade, seed: Seed) -> Box<dyn Connection> {
    Box::new(Exchange::new(protocol, upgrade, seed))
}

impl Exchange {
    /// Begins to answer, with the whole body at hand.
    fn begin(&mut self, body: &[u8]) -> Result<(), Problem> {
        let (path, method) = (self.request.path(), self.request.method());
        let most = if path == SYNC { self.limits.sync_body } else { self.limits.http_body };
        if body.len() > crate::limits::size(most) {
            return Err(Problem::too_large("the body is too large"));
        }
        match (path, method) {
            (CONFIG, Method::Get) => self.config(),
            (CONVERSATIONS, Method::Get) => self.list_conversations()?,
            (CONVERSATIONS, Method::Post) => self.create_conversation(body)?,
            (CONVERSATION, Method::Get) => self.show_conversation()?,
            (CONVERSATION, Method::Patch) => self.change_conversation(body)?,
            (CONVERSATION, Method::Delete) => self.delete_conversation()?,
            (MESSAGES, Method::Get) => self.list_messages()?,
            (MESSAGES, Method::Post) => self.post_message(body)?,
            (SYNC, Method::Post) => self.sync(body)?,
            (SYNC_STATUS, Method::Get) => self.sync_status()?,
            (SWITCH_BRANCH, Method::Post) => self.switch_branch(body)?,
            (TOKEN, Method::Post) => self.token()?,
            (SIBLINGS, Method::Get) => self.list_siblings()?,
            (MESSAGE, Method::Get) => self.show_message()?,
            (MESSAGE_TOOL_USES, Method::Get) => self.list_tool_uses_of_message()?,
            (MEMORY_USES, Method::Get) => self.list_memory_uses_of_message()?,
            (MESSAGE_FEEDBACK, Method::Get) => self.show_feedback(feedback::MESSAGE)?,
            (MESSAGE_FEEDBACK, Method::Post) => self.give_feedback(feedback::MESSAGE, body)?,
            (TOOL_USES, Method::Get) => self.list_tool_uses()?,
            (TOOL_USE, Method::Get) => self.show_tool_use()?,
            (TOOL_USE_FEEDBACK, Method::Get) => self.show_feedback(feedback::TOOL_USE)?,
            (TOOL_USE_FEEDBACK, Method::Post) => self.give_feedback(feedback::TOOL_USE, body)?,
            (MEMORY_USE_FEEDBACK, Method::Get) => self.show_feedback(feedback::MEMORY_USE)?,
            (MEMORY_USE_FEEDBACK, Method::Post) => self.give_feedback(feedback::MEMORY_USE, body)?,
            (MEMORIES, Method::Get) => self.list_memories()?,
            (MEMORIES, Method::Post) => self.create_memory(body)?,
            (MEMORY, Method::Get) => self.show_memory()?,
            (MEMORY, Method::Put) => self.change_memory(body)?,
            (MEMORY, Method::Delete) => self.delete_memory()?,
            (TOOL_SERVERS, Method::Get) => self.list_tool_servers(),
            (TOOLS, Method::Get) => self.list_tools(),
            (PREFERENCES, Method::Get) => self.show_preferences(),
            (PREFERENCES, Method::Patch) => self.change_preferences(body)?,
            _ => return Err(Problem::new(405, "method_not_allowed", "there is nothing for this method")),
        }
        Ok(())
    }
}
