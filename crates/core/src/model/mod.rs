//! The canonical model: what may be asked ([`Op`]), what happened ([`Event`]), and what they carry.
//!
//! Stored events are tagged by name and never removed; a field that is added later has a default.
//! [`Event`] is exhaustive on purpose: a new one must break the `map.rs` of every protocol.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

mod attachment;
mod call;
mod device;
mod event;
pub(crate) mod message;
mod op;
mod output;
mod standing;
mod tool;
mod turn;

pub use attachment::{AttachmentSecret, SecretHash};
pub use call::{Batch, Call, CallEnd, CallError, CallKind, Executor, UNANNOUNCED};
pub use device::{Device, DeviceLoss};
pub use event::{Committed, Event, ForExecutor};
pub use message::{Author, Import, Message, Names, Parent, Part, Place, Told, Voice};
pub use op::{Actor, ActorKind, CallRequest, NewTurn, Op, ToolChange};
pub use output::{Checklist, ChecklistItem, ChecklistState, NoticeLevel, Output, Remembered, Standby, Usage};
pub use standing::Standing;
pub use tool::{MCP_SERVER, Tool, ToolAnnotations};
pub use turn::{
    ANSWER_BYTES, Budget, Claim, Failure, FailureKind, Finish, Metrics, Origin, RequestKey, Setting, TurnEnd,
    TurnOutcome, TurnRequest,
};

/// Reads a value that is there, even if it is null, so that what is read equals what was written.
fn present<'de, T: From<Value>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Value::deserialize(deserializer).map(|value| Some(value.into()))
}
