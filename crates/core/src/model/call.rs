//! Calls: an agent asks for a tool, action, command or answer, and waits for one result.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AttachmentId, CallId, Callsign, PrincipalId, ToolName};
use crate::time::Timestamp;

/// A call as it was committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Unique within the session.
    pub id: CallId,
    /// Tool use or question.
    pub kind: CallKind,
    /// Who has to answer.
    pub executor: Executor,
    /// After this the call ends as timed out.
    pub deadline: Timestamp,
    /// Calls of one batch were asked for together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// What the protocol that carries it to its executor has to know; its own business.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Arc<Value>,
}

impl Call {
    /// Whether whoever executes it has said that it begins. Of one that has not, its end or a piece of its output is
    /// the first that is shown, where a protocol has no need of a beginning.
    pub fn is_announced(&self) -> bool {
        self.options.get(UNANNOUNCED).is_none()
    }
}

/// Where the options of a call say that nobody has said that it begins.
pub const UNANNOUNCED: &str = "unannounced";

/// Calls that were asked for together, and are to be executed in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredBatch")]
pub struct Batch {
    /// Unique within the session.
    pub id: Arc<str>,
    /// How many calls belong to it; all of them are committed at once.
    pub size: u32,
}

/// A batch as it is stored; in the beginning it was nothing but a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredBatch {
    Sized { id: Arc<str>, size: u32 },
    Named(Arc<str>),
}

impl From<StoredBatch> for Batch {
    fn from(stored: StoredBatch) -> Self {
        match stored {
            StoredBatch::Sized { id, size } => Self { id, size },
            StoredBatch::Named(id) => Self { id, size: 1 },
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Run a tool.
    Tool {
        /// Which one.
        name: ToolName,
        /// Its arguments.
        args: Arc<Value>,
    },
    /// Ask a person.
    Question {
        /// The question.
        text: String,
        /// The shape of the answer, as JSON Schema.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::model::present"
        )]
        schema: Option<Value>,
        /// The tool that runs if the answer is yes. Only the server sets this, so that a question of an agent
        /// cannot pass for an approval; the answer needs a right of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approves: Option<ToolName>,
    },
}

impl CallKind {
    /// A question that decides about nothing but what its asker makes of the answer.
    pub fn question(text: impl Into<String>, schema: Option<Value>) -> Self {
        Self::Question { text: text.into(), schema, approves: None }
    }

    /// Whether the answer allows or forbids the use of a tool.
    pub const fn is_approval(&self) -> bool {
        matches!(self, Self::Question { approves: Some(_), .. })
    }
}

/// Who executes a call or a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// The agent itself, or the server on its behalf; progress and result come from there.
    Agent,
    /// The client behind this attachment.
    Attachment(AttachmentId),
    /// Any connection of this principal.
    Principal(PrincipalId),
    /// The device that is enrolled under this name.
    Device(Callsign),
    /// Whoever is attached and may answer.
    Anyone,
}

/// How a call ended; every call has exactly one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// It was answered.
    Done {
        /// The result. Shared, since it may be large, and many hold it at the same time.
        output: Arc<Value>,
        /// What the executor added to it, in the words of its protocol.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        detail: Value,
    },
    /// It was answered with an error.
    Failed(CallError),
    /// Nobody answered in time.
    TimedOut,
    /// The turn ended or was interrupted first.
    Cancelled,
}

impl CallEnd {
    /// Answered, with nothing but a result.
    pub fn done(output: Value) -> Self {
        Self::Done { output: output.into(), detail: Value::Null }
    }
}

/// An error reported by whoever executed a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// A short, stable name.
    pub name: String,
    /// What happened, for a person or a model.
    pub message: String,
    /// What the executor added to it, in the words of its protocol.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl CallError {
    /// An error with nothing added.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), detail: Value::Null }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_is_stored_as_before_and_an_approval_says_of_what() {
        let question = CallKind::question("sure?", None);
        let stored = json!({ "question": { "text": "sure?" } });
        assert_eq!(serde_json::to_value(&question).unwrap(), stored);
        assert_eq!(serde_json::from_value::<CallKind>(stored).unwrap(), question);
        assert!(!question.is_approval());
        let approval =
            CallKind::Question { text: "sure?".into(), schema: None, approves: Some("files.wipe".into()) };
        let stored = json!({ "question": { "text": "sure?", "approves": "files.wipe" } });
        assert_eq!(serde_json::to_value(&approval).unwrap(), stored);
        assert_eq!(serde_json::from_value::<CallKind>(stored).unwrap(), approval);
        assert!(approval.is_approval());
    }
}
