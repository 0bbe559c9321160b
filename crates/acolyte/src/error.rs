//! Errors (§8): their codes, and one table from what can go wrong to these.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use switchboard_core::Reject;
use switchboard_core::model::{CallEnd, CallError, Failure, FailureKind};

use crate::message::ErrorId;

/// What is said of a failed chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// For a person.
    pub error_message: String,
    /// For the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<ErrorId>,
    /// Which kind of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// In detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetail>,
}

/// An error in detail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Of which category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Of which kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// In which tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// A code. The set is open: what a tool says of itself is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// Something took too long.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("E_TIMEOUT"));
    /// A file is not there.
    pub const FILE_NOT_FOUND: Self = Self(Cow::Borrowed("E_FILE_NOT_FOUND"));
    /// What may be spent is used up.
    pub const BUDGET_EXHAUSTED: Self = Self(Cow::Borrowed("E_BUDGET_EXHAUSTED"));
    /// Something may not be touched.
    pub const SANDBOX_VIOLATION: Self = Self(Cow::Borrowed("E_SANDBOX_VIOLATION"));
    /// Somebody stopped it.
    pub const ABORTED: Self = Self(Cow::Borrowed("E_ABORTED"));
    /// The version is not spoken.
    pub const PROTOCOL_VERSION: Self = Self(Cow::Borrowed("E_PROTOCOL_VERSION"));
    /// There is too much to do, or the reader is too slow.
    pub const OVERLOADED: Self = Self(Cow::Borrowed("E_OVERLOADED"));
    /// Everything else.
    pub const UNKNOWN: Self = Self(Cow::Borrowed("E_UNKNOWN"));

    /// The code as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its category and kind.
    pub fn class(&self) -> (&'static str, &'static str) {
        match self.as_str() {
            "E_TIMEOUT" => ("timeout", "timeout"),
            "E_FILE_NOT_FOUND" => ("file-not-found", "file_not_found"),
            "E_BUDGET_EXHAUSTED" => ("budget-exhausted", "budget_exhausted"),
            "E_SANDBOX_VIOLATION" => ("other", "sandbox_violation"),
            "E_ABORTED" => ("other", "aborted"),
            "E_PROTOCOL_VERSION" => ("other", "protocol_version"),
            "E_OVERLOADED" => ("other", "overloaded"),
            _ => ("other", "unknown"),
        }
    }

    /// The code, from wherever it happened.
    pub fn detail(&self, source: Source, tool: Option<&str>) -> ErrorDetail {
        let (category, kind) = self.class();
        ErrorDetail {
            code: Some(self.as_str().to_owned()),
            category: Some(category.to_owned()),
            kind: Some(kind.to_owned()),
            source: Some(source.name().to_owned()),
            tool: tool.map(str::to_owned),
        }
    }

    /// A failed chat with this code.
    pub fn body(&self, source: Source, message: impl Into<String>, id: ErrorId) -> ErrorBody {
        ErrorBody {
            error_message: message.into(),
            error_id: Some(id),
            error_code: Some(self.as_str().to_owned()),
            error: Some(self.detail(source, None)),
        }
    }
}

/// Where an error happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Outside of the answer.
    Server,
    /// While the answer was made.
    Generate,
    /// A tool said that it failed.
    ToolResult,
    /// A tool broke.
    ToolError,
}

impl Source {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Generate => "generate",
            Self::ToolResult => "tool-result",
            Self::ToolError => "tool-error",
        }
    }
}

/// The code of a failed chat.
pub fn failure_code(failure: &Failure) -> Code {
    match failure.kind {
        FailureKind::CallTimeout | FailureKind::Overdue => Code::TIMEOUT,
        FailureKind::BudgetExhausted => Code::BUDGET_EXHAUSTED,
        FailureKind::Forbidden => Code::SANDBOX_VIOLATION,
        FailureKind::SlowConsumer => Code::OVERLOADED,
        FailureKind::Execution
        | FailureKind::ToolNotFound
        | FailureKind::InvalidArgs
        | FailureKind::Tool
        | FailureKind::ModelUnavailable
        | FailureKind::WorkerLost
        | FailureKind::Unreachable
        | FailureKind::BadResponse
        | FailureKind::Aborted
        | FailureKind::InvalidRequest
        | FailureKind::UnknownAgent
        | FailureKind::Unprepared
        | FailureKind::Internal => bracketed(&failure.message).unwrap_or(Code::UNKNOWN),
    }
}

/// Whether there was an answer to fail (R2): such a chat is done, with an error. One that never got
/// that far has failed.
pub const fn is_of_generation(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Execution
        | FailureKind::ToolNotFound
        | FailureKind::InvalidArgs
        | FailureKind::Tool
        | FailureKind::ModelUnavailable
        | FailureKind::CallTimeout
        | FailureKind::WorkerLost
        | FailureKind::BadResponse
        | FailureKind::Aborted
        | FailureKind::Overdue
        | FailureKind::BudgetExhausted => true,
        FailureKind::Unreachable
        | FailureKind::InvalidRequest
        | FailureKind::UnknownAgent
        | FailureKind::Unprepared
        | FailureKind::Forbidden
        | FailureKind::SlowConsumer
        | FailureKind::Internal => false,
    }
}

/// The code and source of a tool that did not succeed; none for one that did.
pub fn call_code(end: &CallEnd) -> Option<(Code, Source)> {
    match end {
        CallEnd::Done { .. } => None,
        CallEnd::Failed(error) => Some((tool_code(error), tool_source(error))),
        CallEnd::TimedOut => Some((Code::TIMEOUT, Source::ToolError)),
        CallEnd::Cancelled => Some((Code::ABORTED, Source::ToolError)),
    }
}

/// Whether the tool itself came to the result that it failed, as an MCP server or a device says of it.
fn tool_source(error: &CallError) -> Source {
    match error.name.as_str() {
        "tool_error" | "execution_error" | "failure" => Source::ToolResult,
        _ => Source::ToolError,
    }
}

/// Said outright, or in brackets, or by a word that is known.
fn tool_code(error: &CallError) -> Code {
    if is_code(&error.name) {
        return Code(Cow::Owned(error.name.clone()));
    }
    if let Some(code) = bracketed(&error.message) {
        return code;
    }
    match error.name.to_ascii_lowercase().replace('-', "_").as_str() {
        "timeout" | "timed_out" => Code::TIMEOUT,
        "not_found" | "file_not_found" => Code::FILE_NOT_FOUND,
        "budget_exhausted" | "limit" => Code::BUDGET_EXHAUSTED,
        "sandbox_violation" | "forbidden" | "permission_denied" => Code::SANDBOX_VIOLATION,
        "aborted" | "cancelled" => Code::ABORTED,
        _ => Code::UNKNOWN,
    }
}

/// The first upper-case word in square brackets.
fn bracketed(message: &str) -> Option<Code> {
    let mut rest = message;
    while let Some((_, after)) = rest.split_once('[') {
        let (word, _) = after.split_once(']')?;
        if is_code(word) {
            return Some(Code(Cow::Owned(word.to_owned())));
        }
        rest = after;
    }
    None
}

fn is_code(word: &str) -> bool {
    (2..=64).contains(&word.len())
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The code and words for a chat that the session did not take.
pub fn reject_words(reject: &Reject) -> (Code, String) {
    match reject {
        Reject::Forbidden => (Code::SANDBOX_VIOLATION, "The credential does not allow chats".into()),
        Reject::UnknownAgent(agent) => (Code::SANDBOX_VIOLATION, format!("No agent serves this: {agent}")),
        Reject::Limit { .. } | Reject::RateLimited { .. } | Reject::Busy => {
            (Code::OVERLOADED, "The server is busy. Try again shortly.".into())
        }
        Reject::Quota { .. } => (Code::BUDGET_EXHAUSTED, "The storage of this account is used up.".into()),
        Reject::Draining => (Code::ABORTED, "The server is leaving. Try again shortly.".into()),
        Reject::Unavailable { .. } => {
            (Code::UNKNOWN, "The server cannot store anything now. Try again shortly.".into())
        }
        Reject::NotFound
        | Reject::UnknownTurn(_)
        | Reject::TurnOver(_)
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::UnknownTool(_)
        | Reject::InvalidArgs(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::Inactive
        | Reject::Unserved { .. }
        | Reject::KeyConflict
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Offline(_)
        | Reject::Invalid(_)
        | Reject::Unauthenticated => (Code::UNKNOWN, "The chat could not be started".into()),
    }
}

/// Refusals of whole messages (§4.5): not for programs, but kept as they are known.
pub mod words {
    /// Not JSON, no id, no such method, a payload that does not fit.
    pub const INVALID: &str = "Invalid RPC message";
    /// The server takes no more chats.
    pub const LEAVING: &str = "The server is leaving. Try again shortly.";
    /// There is nothing to follow.
    pub const NO_TASK: &str = "No such task to attach to";
    /// The session does not take the interruption.
    pub const NOT_NOW: &str = "The request cannot be aborted now. Try again shortly.";
    /// The turn was stopped.
    pub const ABORTED: &str = "Request aborted";
    /// The model said nothing.
    pub const EMPTY: &str = "No output from model.";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, message: &str) -> String {
        let end = CallEnd::Failed(CallError::new(name, message));
        call_code(&end).unwrap().0.as_str().to_owned()
    }

    #[test]
    fn the_code_of_a_tool_is_said_outright_or_in_brackets_or_by_a_word() {
        for (name, message, code) in [
            ("E_EDIT_FILE_MULTI_MATCH", "[E_TIMEOUT]", "E_EDIT_FILE_MULTI_MATCH"),
            ("ENOENT", "", "ENOENT"),
            ("X", "", "E_UNKNOWN"),
            ("EX", "", "EX"),
            ("error", "oh [no] [e_x] [E_X2] [E_Y]", "E_X2"),
            ("error", "[E_X", "E_UNKNOWN"),
            ("error", "[_X] [2X] [E-X]", "E_UNKNOWN"),
            ("timeout", "", "E_TIMEOUT"),
            ("Timed-Out", "", "E_TIMEOUT"),
            ("not_found", "", "E_FILE_NOT_FOUND"),
            ("file-not-found", "", "E_FILE_NOT_FOUND"),
            ("limit", "", "E_BUDGET_EXHAUSTED"),
            ("forbidden", "", "E_SANDBOX_VIOLATION"),
            ("cancelled", "", "E_ABORTED"),
            ("gone", "", "E_UNKNOWN"),
            ("not_found", "[E_TIMEOUT] late", "E_TIMEOUT"),
        ] {
            assert_eq!(told(name, message), code, "{name} {message}");
        }
        let long = format!("E{}", "X".repeat(64));
        assert_eq!((told(&long, ""), told(&long[..64], "")), ("E_UNKNOWN".into(), long[..64].to_owned()));
        assert_eq!(call_code(&CallEnd::TimedOut).map(|(code, _)| code), Some(Code::TIMEOUT));
        assert_eq!(call_code(&CallEnd::Cancelled).map(|(code, _)| code), Some(Code::ABORTED));
        assert_eq!(call_code(&CallEnd::done("x".into())), None);
    }

    #[test]
    fn what_a_tool_returns_is_told_apart_from_what_befalls_it() {
        for (name, source) in [
            ("tool_error", Source::ToolResult),
            ("execution_error", Source::ToolResult),
            ("failure", Source::ToolResult),
            ("error", Source::ToolError),
            ("unavailable", Source::ToolError),
            ("E_TIMEOUT", Source::ToolError),
        ] {
            let end = CallEnd::Failed(CallError::new(name, "no"));
            assert_eq!(call_code(&end).map(|(_, source)| source), Some(source), "{name}");
        }
    }

    #[test]
    fn every_code_of_the_table_has_its_class() {
        for (code, category, kind) in [
            (Code::TIMEOUT, "timeout", "timeout"),
            (Code::FILE_NOT_FOUND, "file-not-found", "file_not_found"),
            (Code::BUDGET_EXHAUSTED, "budget-exhausted", "budget_exhausted"),
            (Code::SANDBOX_VIOLATION, "other", "sandbox_violation"),
            (Code::ABORTED, "other", "aborted"),
            (Code::PROTOCOL_VERSION, "other", "protocol_version"),
            (Code::OVERLOADED, "other", "overloaded"),
            (Code::UNKNOWN, "other", "unknown"),
        ] {
            assert_eq!(code.class(), (category, kind));
        }
    }

    #[test]
    fn failures_have_the_code_of_their_kind_or_the_one_they_name() {
        let code = |kind, message: &str| failure_code(&Failure::new(kind, message));
        assert_eq!(code(FailureKind::CallTimeout, "[E_X]"), Code::TIMEOUT);
        assert_eq!(code(FailureKind::BudgetExhausted, "[E_X]"), Code::BUDGET_EXHAUSTED);
        assert_eq!(code(FailureKind::Forbidden, "[E_X]"), Code::SANDBOX_VIOLATION);
        assert_eq!(code(FailureKind::SlowConsumer, "[E_X]"), Code::OVERLOADED);
        assert_eq!(code(FailureKind::Internal, "[E_X]").as_str(), "E_X");
        assert_eq!(code(FailureKind::Unprepared, "no code"), Code::UNKNOWN);
    }
}
