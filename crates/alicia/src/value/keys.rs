//! The keys of the reference, so that a decoded map need not own them.

/// The key that a text is, if the reference has it.
pub(super) fn known(text: &str) -> Option<&'static str> {
    let words = BY_LENGTH.get(text.len().checked_sub(1)?)?;
    words.iter().find(|word| **word == text).copied()
}

/// Every key of every body, by its length, from one byte on; those that come most often first.
const BY_LENGTH: &[&[&str]] = &[
    &[],
    &["id"],
    &[],
    &["type", "body", "text", "meta", "role", "code", "data", "mode", "name", "note", "vote"],
    &["audio", "error", "final", "label", "model", "title", "tools"],
    &[
        "result", "action", "device", "elites", "format", "isLast", "memory", "noteId", "pinned", "preset",
        "rating", "reason", "scores", "source", "status", "userId",
    ],
    &[
        "isFinal", "content", "success", "bestFor", "eliteId", "latency", "localId", "message", "quality",
        "upvotes", "weights",
    ],
    &[
        "stanzaId", "sequence", "toolName", "category", "conflict", "contents", "features", "language",
        "memoryId", "messages", "progress", "provider", "serverId", "severity", "speaking", "stopType",
        "syncedAt", "targetId", "toolUses", "trackSid", "userVote",
    ],
    &[
        "timestamp",
        "messageId",
        "execution",
        "timeoutMs",
        "requestId",
        "agentMode",
        "arguments",
        "createdAt",
        "diversity",
        "downvotes",
        "errorCode",
        "reasoning",
        "relevance",
        "toolCount",
        "updatedAt",
        "usePareto",
        "voiceMode",
    ],
    &[
        "previousId",
        "parameters",
        "aggregates",
        "answerType",
        "authorRole",
        "confidence",
        "connection",
        "durationMs",
        "efficiency",
        "feedbackId",
        "innovation",
        "mcpServers",
        "newContent",
        "newSibling",
        "resolution",
        "robustness",
        "sampleRate",
        "targetType",
        "totalCount",
    ],
    &[
        "allSiblings",
        "completedAt",
        "description",
        "enableTools",
        "inputSchema",
        "monitorMode",
        "queueLength",
        "recoverable",
        "requestType",
        "sentenceSeq",
        "successRate",
    ],
    &["errorMessage", "fromSequence", "memoriesUsed", "messageCount", "specialVotes", "whatsappMode"],
    &["assistantMode", "clientVersion", "originatingId", "quickFeedback", "serverMessage", "toolCallCount"],
    &[
        "conversationId",
        "commentaryType",
        "currentEliteId",
        "generalization",
        "missedMessages",
        "sequenceNumber",
        "syncedMessages",
    ],
    &["enableReasoning", "enableStreaming", "parentMessageId", "sessionDuration"],
    &["lastSequenceSeen"],
    &["messaging.span_id", "preferredLanguage"],
    &["messaging.trace_id"],
    &[],
    &["acknowledgedStanzaId", "plannedSentenceCount"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_among_those_of_its_length_and_is_found() {
        for (index, words) in BY_LENGTH.iter().enumerate() {
            for word in *words {
                assert_eq!(word.len(), index + 1, "{word}");
                assert_eq!(known(word), Some(*word));
            }
        }
        assert_eq!((known(""), known("stanzaid"), known(&"x".repeat(99))), (None, None, None));
    }
}
