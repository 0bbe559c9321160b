//! Every bound of a connection and of what it carries, with the defaults of §8.2, §11.1 and §11.2.

use serde::{Deserialize, Serialize};

/// Largest envelope in a reliable data packet of a room; given by the platform.
pub const RELIABLE_PACKET: usize = 15_360;
/// Largest envelope in a lossy data packet of a room; given by the platform.
pub const LOSSY_PACKET: usize = 1_300;

/// Limits of one Alicia connection. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AliciaLimits {
    /// Largest WebSocket frame that is answered.
    pub frame: u32,
    /// Largest WebSocket frame that does not end the connection.
    pub hard_cap: u32,
    /// Most envelopes in one array.
    pub batch: u32,
    /// Largest body of an HTTP request.
    pub http_body: u32,
    /// Largest body of an HTTP request that syncs messages.
    pub sync_body: u32,
    /// Largest `meta` of an envelope.
    pub meta: u32,
    /// Longest `content` of a UserMessage.
    pub content: u32,
    /// Longest `text` of an AssistantSentence.
    pub sentence: u32,
    /// Longest `message` of an ErrorMessage.
    pub error_message: u32,
    /// Longest `content` of a MemoryTrace.
    pub snippet: u32,
    /// Longest `content` of a Commentary.
    pub commentary: u32,
    /// Longest `note` of a Feedback.
    pub feedback_note: u32,
    /// Longest `content` of a UserNote.
    pub note: u32,
    /// Longest `content` of a memory.
    pub memory: u32,
    /// Longest name of a tool.
    pub tool_name: u32,
    /// Largest `parameters` of a ToolUseRequest, as JSON.
    pub tool_parameters: u32,
    /// Most messages in one SyncRequest.
    pub sync_batch: u32,
    /// Most items of lists for which the reference names no number.
    pub items: u32,
    /// Conversations that one connection may subscribe to.
    pub subscriptions: u32,
    /// Most stanzas that are replayed.
    pub replay: u32,
    /// Requests of a conversation that may wait.
    pub work_queue: u32,
    /// How long one generation may take, tools included, in seconds.
    pub generation_s: u32,
    /// Time for a tool whose request names none, in milliseconds.
    pub tool_ms: u32,
    /// Most time that a request may give a tool, in milliseconds.
    pub tool_most_ms: u32,
    /// What a tool on the client's side gets on top, in milliseconds.
    pub tool_grace_ms: u32,
    /// How long an edit waits for its UserMessage, in seconds.
    pub edit_s: u32,
    /// How often the server pings, in seconds.
    pub ping_s: u32,
    /// Silence after which a connection is dropped, in seconds.
    pub idle_s: u32,
    /// How long one write may take, in seconds.
    pub write_s: u32,
    /// Audio that may wait for its end, in seconds.
    pub audio_s: u32,
    /// Envelopes that a client may send in ten seconds.
    pub envelopes_per_10_s: u32,
    /// Envelopes that a client may send at once.
    pub envelopes_burst: u32,
    /// Undecodable inputs in a minute after which the connection ends.
    pub undecodable_per_min: u32,
    /// How long a lite client is not told of an answer because the reply to the request that asked for it has
    /// not been written, in milliseconds.
    pub reply_hold_ms: u32,
    /// Bytes of such an answer that may wait.
    pub reply_hold_bytes: u32,
}

impl Default for AliciaLimits {
    fn default() -> Self {
        Self {
            frame: 1 << 20,
            hard_cap: 4 << 20,
            batch: 64,
            http_body: 1 << 20,
            sync_body: 10 << 20,
            meta: 4_096,
            content: 65_536,
            sentence: 8_192,
            error_message: 2_048,
            snippet: 1_024,
            commentary: 16_384,
            feedback_note: 4_096,
            note: 16_384,
            memory: 16_384,
            tool_name: 100,
            tool_parameters: 1 << 20,
            sync_batch: 500,
            items: 1_024,
            subscriptions: 100,
            replay: 1_000,
            work_queue: 100,
            generation_s: 300,
            tool_ms: 30_000,
            tool_most_ms: 300_000,
            tool_grace_ms: 2_000,
            edit_s: 5,
            ping_s: 30,
            idle_s: 60,
            write_s: 10,
            audio_s: 30,
            envelopes_per_10_s: 60,
            envelopes_burst: 60,
            undecodable_per_min: 10,
            reply_hold_ms: 5_000,
            reply_hold_bytes: 256 << 10,
        }
    }
}

/// A limit as a size in memory.
pub(crate) fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
