//! The end of a command in the words of the device's protocol.

use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_core::CallId;
use switchboard_core::model::{CallEnd, CallError};

use crate::command::CommandEnd;

/// What became of one command.
#[derive(Debug)]
pub(super) struct Outcome {
    status: Status,
    error: Value,
    /// Shared with the log for as long as that holds it.
    result: Arc<Value>,
    namespace: Value,
    call: CallId,
}

impl Outcome {
    /// Why the command failed, if it did. One that was skipped did not.
    pub(super) fn failure(&self) -> Option<&str> {
        let said = self.error.as_str().filter(|error| !error.is_empty());
        (self.status == Status::Failure).then_some(said.unwrap_or("the command failed"))
    }

    fn failed(error: &str, call: CallId) -> Self {
        let (result, namespace) = (Arc::default(), Value::Null);
        Self { status: Status::Failure, error: error.into(), result, namespace, call }
    }
}

impl From<CommandEnd> for Outcome {
    fn from(ended: CommandEnd) -> Self {
        let call = ended.call;
        match ended.end {
            CallEnd::Done { output, mut detail } => {
                let status = match detail.get("status").and_then(Value::as_str) {
                    Some("none") => Status::None,
                    Some(_) | None => Status::Success,
                };
                let (error, namespace) = (take(&mut detail, "error"), take(&mut detail, "namespace"));
                Self { status, error, result: output, namespace, call }
            }
            CallEnd::Failed(CallError { name, message, mut detail }) => {
                let status = if name == "skipped" { Status::Skipped } else { Status::Failure };
                // What a device said, where that is not the message.
                let said = detail.as_object_mut().and_then(|detail| detail.shift_remove("error"));
                let error = said.unwrap_or(Value::String(message));
                let (result, namespace) =
                    (take(&mut detail, "result").into(), take(&mut detail, "namespace"));
                Self { status, error, result, namespace, call }
            }
            CallEnd::TimedOut => Self::failed("command timed out", call),
            CallEnd::Cancelled => Self::failed("command cancelled", call),
        }
    }
}

impl From<Outcome> for Value {
    fn from(outcome: Outcome) -> Self {
        Self::Object(Map::from_iter([
            ("status".to_owned(), Self::from(outcome.status.as_str())),
            ("error".to_owned(), outcome.error),
            ("result".to_owned(), Arc::unwrap_or_clone(outcome.result)),
            ("namespace".to_owned(), outcome.namespace),
            ("call_id".to_owned(), Self::from(outcome.call.as_str())),
        ]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Success,
    Failure,
    Skipped,
    None,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Skipped => "skipped",
            Self::None => "none",
        }
    }
}

/// Takes a field out of what the executor added; null if there is none.
fn take(detail: &mut Value, field: &str) -> Value {
    detail.get_mut(field).map(Value::take).unwrap_or_default()
}
