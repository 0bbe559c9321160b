//! Turns in the spelling of the lite profile.

use bytes::Bytes;
use switchboard_core::Pii;

use crate::id::Id;
use crate::message::rows::body;
use crate::message::{Execution, Role, Word, names};
use crate::value::{Map, Value};

body! {
    /// A request cannot be honoured, or a turn failed.
    LiteError {
        /// Text here, a number in the full profile.
        code: String = required "code";
        /// For humans.
        message: Pii<String> = required "message" [0..=error_message];
        /// The message it is about.
        message_id: Option<Id> = optional "messageId";
        ..known_conversation
    }
}

body! {
    /// A typed turn. The server gives it an id of its own and the tip as parent, and sends it back.
    LiteUserMessage {
        /// From a client, not kept.
        id: Option<Id> = optional "id";
        ..conversation
        /// The text.
        content: Pii<String> = required "content" [1..=content];
        /// The message it follows.
        previous_id: Option<Id> = optional "previousId";
        /// Whose message it is; from the server.
        role: Option<Word<Role>> = optional "role";
        /// When it was made, RFC 3339; from the server.
        created_at: Option<String> = optional "createdAt";
    }
}

body! {
    /// The authoritative text of an answer, after its StartAnswer.
    LiteAssistantMessage {
        /// The message that was started.
        id: Id = required "id";
        /// The user message answered.
        previous_id: Option<Id> = optional "previousId";
        ..conversation
        /// The complete text.
        content: Pii<String> = required "content";
        /// When it was generated, in milliseconds since the Unix epoch.
        timestamp: Option<i64> = optional "timestamp";
        /// The thoughts that led to it.
        reasoning: Option<Pii<String>> = optional "reasoning";
        /// Whose message it is.
        role: Option<Word<Role>> = optional "role";
        /// When it was made, RFC 3339.
        created_at: Option<String> = optional "createdAt";
    }
}

body! {
    /// A tool is run.
    LiteToolUseRequest {
        /// What the result refers to.
        id: Id = required "id";
        /// The message that needs the tool.
        message_id: Id = required "messageId";
        ..conversation
        /// The name of the tool.
        tool_name: String = required "toolName" [1..=tool_name];
        /// Its arguments.
        arguments: Map = required "arguments";
        /// Who runs it.
        execution: Option<Word<Execution>> = optional "execution";
    }
}

body! {
    /// What a tool gave.
    LiteToolUseResult {
        /// The result itself.
        id: Id = required "id";
        /// The request.
        request_id: Id = required "requestId";
        /// The message that needed the tool.
        message_id: Option<Id> = optional "messageId";
        ..conversation
        /// Whether it worked.
        success: bool = required "success";
        /// What it gave.
        result: Option<Value> = optional "result";
        /// Why it failed.
        error: Option<Pii<String>> = optional "error";
    }
}

body! {
    /// An answer begins.
    LiteStartAnswer {
        /// The message about to stream.
        message_id: Id = required "messageId";
        ..conversation
        /// The user message answered.
        previous_id: Option<Id> = optional "previousId";
    }
}

body! {
    /// A piece of an answer.
    LiteAssistantSentence {
        /// Its own id.
        id: Option<Id> = optional "id";
        /// The message that was started.
        previous_id: Id = required "previousId";
        ..conversation
        /// From 1, step 1.
        sequence: u32 = required "sequence";
        /// The text.
        text: Pii<String> = required "text" [0..=sentence];
        /// Whether it is the last.
        is_final: bool = flag "isFinal";
        /// Its speech.
        audio: Option<Bytes> = optional "audio";
        /// The message that was started, once more.
        message_id: Id = required "messageId";
    }
}

body! {
    /// Regenerate, edit or continue; ControlVariation of the full profile.
    GenerationRequest {
        ..conversation
        /// The message to vary.
        message_id: Id = required "messageId";
        /// The message it follows.
        previous_id: Option<Id> = optional "previousId";
        /// What is to happen.
        request_type: RequestType = deciding "requestType";
        /// The text of an edit.
        new_content: Option<Pii<String>> = optional "newContent" [0..=content];
        /// Whether tools may be used.
        enable_tools: bool = defaulted "enableTools";
        /// Whether thoughts are shown.
        enable_reasoning: bool = defaulted "enableReasoning";
        /// Whether sentences are sent.
        enable_streaming: bool = defaulted "enableStreaming";
        /// Whether an elite answers.
        use_pareto: bool = defaulted "usePareto";
        /// When, in milliseconds since the Unix epoch.
        timestamp: Option<i64> = optional "timestamp";
    }
}

names! {
    /// What a GenerationRequest does.
    RequestType {
        /// Answer a message; refused from clients.
        Send = "send",
        /// Answer once more.
        Regenerate = "regenerate",
        /// Go on with an answer.
        Continue = "continue",
        /// Change a message.
        Edit = "edit",
    }
}

body! {
    /// What the assistant is thinking about.
    ThinkingSummary {
        /// `th_…`
        id: Id = required "id";
        /// The message being produced.
        message_id: Id = required "messageId";
        ..conversation
        /// The summary.
        content: Pii<String> = required "content";
        /// How far it is.
        progress: Option<f64> = optional "progress";
        /// When, in milliseconds since the Unix epoch.
        timestamp: Option<i64> = optional "timestamp";
    }
}

body! {
    /// A generation ended.
    GenerationComplete {
        /// The message it produced.
        message_id: Id = required "messageId";
        ..conversation
        /// Whether it worked.
        success: bool = required "success";
        /// Why not.
        error: Option<String> = optional "error";
    }
}
