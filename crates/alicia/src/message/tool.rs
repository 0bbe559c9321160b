//! Tools (§4.6, §4.7).

use switchboard_core::Pii;

use super::Reason;
use super::rows::body;
use super::words::{Word, names};
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::{AliciaLimits, size};
use crate::value::{Map, Value, json_size};

body! {
    /// A tool is to be run (§4.6).
    ToolUseRequest then bounded {
        /// `atu_…`; what the result refers to.
        id: Id = required "id";
        /// The assistant message that needs the tool.
        message_id: Id = required "messageId";
        ..conversation
        /// The name of the tool.
        tool_name: String = required "toolName" [1..=tool_name];
        /// Its arguments.
        parameters: Map = required "parameters";
        /// Who runs it.
        execution: Execution = deciding "execution";
        /// How long it may take in milliseconds, as it came: see [`ToolUseRequest::time`].
        timeout_ms: Option<i64> = optional "timeoutMs";
    }
}

impl ToolUseRequest {
    fn bounded(self, limits: &AliciaLimits) -> Result<Self, FieldError> {
        let most = size(limits.tool_parameters);
        if json_size(&self.parameters) > most {
            return Err(FieldError::new("parameters", Reason::TooLarge(most)));
        }
        Ok(self)
    }

    /// How long it may take, in milliseconds. A time out of range is no fault of the message: whoever runs
    /// the tool answers it with a result (AL-064).
    pub fn time(&self, limits: &AliciaLimits) -> Result<u32, ToolError> {
        let Some(time) = self.timeout_ms else { return Ok(limits.tool_ms) };
        let time = u32::try_from(time).ok().filter(|time| (1..=limits.tool_most_ms).contains(time));
        time.ok_or(ToolError::InvalidParameters)
    }
}

names! {
    /// Who runs a tool.
    Execution {
        /// The server; the client is only told.
        Server = "server",
        /// The client.
        Client = "client",
        /// The client if it declared the tool, else the server.
        Either = "either",
    }
}

body! {
    /// What a tool gave (§4.7).
    ToolUseResult {
        /// The result itself.
        id: Id = required "id";
        /// The request; without it, `id` is the request.
        request_id: Option<Id> = optional "requestId";
        ..conversation
        /// Whether it worked.
        success: bool = required "success";
        /// What it gave, normally a map.
        result: Option<Value> = optional "result";
        /// Why it failed.
        error_code: Option<Word<ToolError>> = optional "errorCode";
        /// The same for humans.
        error_message: Option<Pii<String>> = optional "errorMessage";
    }
}

impl ToolUseResult {
    /// The request that it answers.
    pub fn request(&self) -> &Id {
        self.request_id.as_ref().unwrap_or(&self.id)
    }
}

names! {
    /// Why a tool failed. The upper-case spellings of the period's code are read, and never written.
    ToolError {
        /// No tool has this name.
        UnknownTool = "unknown_tool" | "UNKNOWN_TOOL",
        /// It took too long.
        Timeout = "timeout" | "TIMEOUT",
        /// It failed.
        ExecutionError = "execution_error" | "EXECUTION_ERROR" | "TOOL_ERROR",
        /// Its arguments are wrong.
        InvalidParameters = "invalid_parameters" | "INVALID_PARAMETERS",
        /// The turn was stopped.
        Cancelled = "cancelled" | "CANCELLED" | "TOOL_CANCELLED",
    }
}
