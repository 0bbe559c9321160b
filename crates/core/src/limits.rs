//! Bounds of one session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Every bound that a session enforces by itself, with the default of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionLimits {
    /// Turns that may run at the same time.
    pub running_turns: usize,
    /// Turns that may wait for their start.
    pub queued_turns: usize,
    /// Calls and questions that one turn may have open.
    pub open_calls: usize,
    /// Tools that may be registered.
    pub tools: usize,
    /// Participants besides the owner.
    pub participants: usize,
    /// Attachments that may be live or detached.
    pub attachments: usize,
    /// Bytes of answer text that one turn may produce.
    pub answer_bytes: usize,
    /// Idempotency keys remembered.
    pub requests: usize,
    /// For how long an idempotency key is remembered.
    #[serde(with = "crate::limits::milliseconds")]
    pub request_memory: Duration,
    /// Ended turns remembered for resume and duplicate detection.
    pub ended_turns: usize,
    /// How long an interrupted turn may take to stop before it is abandoned.
    #[serde(with = "crate::limits::milliseconds")]
    pub interrupt_grace: Duration,
    /// How often a turn is offered to executors that bring nothing new; losing the last one ends it.
    pub offers: u32,
    /// Bytes of one message that is imported or edited, and of one record.
    pub record_bytes: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            running_turns: 1024,
            queued_turns: 1024,
            open_calls: 128,
            tools: 256,
            participants: 256,
            attachments: 256,
            answer_bytes: 16 << 20,
            requests: 1024,
            request_memory: Duration::from_secs(15 * 60),
            ended_turns: 512,
            interrupt_grace: Duration::from_millis(800),
            offers: 3,
            record_bytes: 256 << 10,
        }
    }
}

/// Durations written as whole milliseconds.
pub(crate) mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
