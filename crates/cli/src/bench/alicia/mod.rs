//! Alicia: its codec by itself, and conversations over its socket.

mod bare;
mod client;
mod codec;
mod served;

pub(super) use bare::bare_loop;
pub(super) use client::PATH;
pub(super) use codec::{figures as codec, work};
pub(super) use served::{opening, resume, sentences};
