//! The HTTP endpoints, each exchange a connection of its own.
//!
//! Bodies are JSON with the names of columns; only sync speaks MessagePack as well. An answer that says no is
//! `{error, message, code}` with the code of its status. A conversation that is not the caller's looks like
//! one that does not exist.

use switchboard_core::{Connection, Method, Seed, Upgrade};

use crate::protocol::{
    Alicia, CONFIG, CONVERSATION, CONVERSATIONS, MEMORIES, MESSAGES, SIBLINGS, SWITCH_BRANCH, SYNC,
    SYNC_STATUS, TOKEN,
};

mod conversations;
mod exchange;
mod messages;
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
            (MEMORIES, Method::Get) => self.list_memories()?,
            _ => return Err(Problem::new(405, "method_not_allowed", "there is nothing for this method")),
        }
        Ok(())
    }
}
