//! The HTTP endpoints, over real sessions and the store in memory.

mod conversations;
mod messages;
mod syncing;
mod town;
