//! Commands: what a turn asks of its device.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::model::{CallEnd, CallError};
use switchboard_core::{CallId, ToolName, TurnId};

/// Something that the device of a turn is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Which tool of the device.
    pub name: ToolName,
    /// Its arguments.
    pub args: Value,
    /// What the protocol of the device has to know beside them. Commands of one plan share it.
    pub options: Arc<Value>,
}

/// What came of a [`Command`].
#[derive(Clone, Debug, PartialEq)]
pub struct CommandEnd {
    /// The call that it was.
    pub call: CallId,
    /// How it ended.
    pub end: CallEnd,
}

/// A name of the form that devices expect, which depends on nothing but the turn and the number.
pub(crate) fn uuid(turn: &TurnId, what: &str, number: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(turn.as_str().as_bytes());
    hash.update([0]);
    hash.update(what.as_bytes());
    hash.update(number.to_be_bytes());
    switchboard_core::uuid(&hash.finalize())
}

/// Nobody knows how far a command got that was cancelled, so it is not sent once more.
pub(crate) fn not_repeated() -> CallEnd {
    CallEnd::Failed(CallError::new("gone", "the command was lost before it was answered"))
}
