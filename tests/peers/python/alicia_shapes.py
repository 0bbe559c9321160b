"""What envelopes of Alicia look like, as sections 3, 4 and 11 of the reference say: keys, their order, and their values."""

import re

from asp_wire import Failed, ensure, equal

(ERROR, USER, ASSISTANT, AUDIO, REASONING, REQUEST, RESULT, ACK, TRANSCRIPTION, STOP, VARIATION) = range(1, 12)
(CONFIGURATION, START, MEMORY, COMMENTARY, SENTENCE, SYNC, SYNCED) = range(12, 19)
(VOTE, VOTED, NOTE, NOTED, MEMORISE, MEMORISED, INFO, STATS, UPDATE, WEIGHTS, ELITE, ELITES) = range(20, 32)
SUBSCRIBE, UNSUBSCRIBE, SUBSCRIBED, UNSUBSCRIBED = range(40, 44)
UNSEQUENCED = {USER, ACK, CONFIGURATION, SYNCED, VOTED, NOTED, MEMORISED, INFO, STATS, UPDATE, ELITES, SUBSCRIBED, UNSUBSCRIBED}
SEQUENCED = {REASONING, REQUEST, RESULT, START, MEMORY, COMMENTARY, SENTENCE}


def string(least=0, most=1 << 20):
    def check(value):
        ensure(isinstance(value, str), "not a text:", repr(value)[:200])
        ensure(least <= len(value.encode()) <= most, "length", len(value.encode()), "of", repr(value)[:200])

    return check


def ident(value):
    ensure(isinstance(value, str) and re.fullmatch(r"[!-~]{1,128}", value), "not an id:", repr(value)[:200])


def made(prefix):
    """An id that the server has made."""

    def check(value):
        ensure(isinstance(value, str) and re.fullmatch(prefix + r"_[A-Za-z0-9_+/-]{16,21}", value), f"not a {prefix}_ id:", repr(value)[:200])

    return check


def whole(least=-(1 << 31), most=1 << 53):
    def check(value):
        ensure(isinstance(value, int) and not isinstance(value, bool), "not an integer:", repr(value)[:200])
        ensure(least <= value <= most, "out of range:", value)

    return check


def real(value):
    ensure(isinstance(value, float) and 0.0 <= value <= 1.0, "not a float of 0–1:", repr(value)[:200])


def boolean(value):
    ensure(isinstance(value, bool), "not a boolean:", repr(value)[:200])


def mapping(value):
    ensure(isinstance(value, dict) and all(isinstance(key, str) for key in value), "not a map:", repr(value)[:200])


def anything(value):
    pass


def word(*words):
    return lambda value: ensure(value in words, repr(value), "is none of", words)


def moment(value):
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
    ensure(isinstance(value, str) and re.fullmatch(pattern, value), "not RFC 3339:", repr(value)[:200])


def each(check, most=1 << 20):
    def all_of(value):
        ensure(isinstance(value, list) and len(value) <= most, "not a list:", repr(value)[:200])
        for item in value:
            check(item)

    return all_of


def fields(*table, ordered=True):
    """Exactly these keys; those with a `?` may be absent. They come in this order."""
    known = {name.rstrip("?"): check for name, check in table}
    required = {name for name, _ in table if not name.endswith("?")}

    def check(value):
        mapping(value)
        missing, strange = required - value.keys(), value.keys() - known.keys()
        ensure(not missing, "missing", sorted(missing), "in", repr(value)[:300])
        ensure(not strange, "strange", sorted(strange), "in", repr(value)[:300])
        if ordered:
            equal(list(value), [name for name in known if name in value], "order of keys")
        for name, item in value.items():
            try:
                known[name](item)
            except Failed as failed:
                raise Failed(f"{name}: {failed}") from None

    return check


SCORES = fields(*((name, real) for name in ("successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation")))
TOOL_USE = fields(
    ("id", made("atu")), ("messageId", ident), ("toolName", string(1, 100)), ("arguments?", mapping), ("result?", anything),
    ("status", word("pending", "running", "success", "error", "cancelled")), ("errorMessage?", string()),
    ("sequenceNumber", whole(0)), ("completedAt?", moment), ("createdAt", moment), ("updatedAt", moment), ordered=False,
)
MESSAGE = fields(
    ("id", ident), ("conversationId", ident), ("sequenceNumber", whole(1)), ("previousId?", ident), ("role", word("user", "assistant", "system")),
    ("contents", string()), ("localId?", ident), ("serverId?", ident), ("toolUses?", each(TOOL_USE)), ("createdAt", moment), ("updatedAt", moment), ordered=False,
)
CONFLICT = fields(("reason", string(1)), ("serverMessage?", MESSAGE), ("resolution", word("manual")))
SAID = (("id", ident), ("previousId?", ident), ("conversationId", ident), ("content", string()), ("timestamp?", whole(0)))
SUPERSET = (("contents", string()), ("role", word("user", "assistant", "system")), ("sequenceNumber", whole(1)), ("createdAt", moment), ("updatedAt", moment), ("localId?", ident), ("serverId?", ident))
ONE_SYNCED = fields(("localId", string()), ("serverId", string()), ("status", word("synced", "conflict")), ("message?", MESSAGE), ("conflict?", CONFLICT))
CONNECTION = fields(("status", word("connected", "connecting", "disconnected", "reconnecting")), ("latency", whole(0)))
MCP_SERVER = fields(("name", string(1)), ("status", word("connected", "disconnected", "error")))
ONE_ELITE = fields(("id", ident), ("label", string()), ("scores", SCORES), ("description", string()), ("bestFor", string()))
AGGREGATES = fields(("upvotes", whole(0)), ("downvotes", whole(0)), ("specialVotes?", mapping))
CONV = ("conversationId", ident)
BODIES = {
    ERROR: fields(("id", made("err")), ("conversationId", string(0, 128)), ("code", word(101, 102, 103, 104, 105, 201, 202, 203, 301, 304, 501, 502, 503, 504, 505)), ("message", string(1, 2048)), ("severity", whole(0, 3)), ("recoverable", boolean), ("originatingId?", ident)),
    USER: fields(*SAID, *SUPERSET),
    ASSISTANT: fields(*SAID, *SUPERSET),
    REASONING: fields(("id", made("ar")), ("messageId", ident), CONV, ("sequence", whole(1)), ("content", string(1))),
    REQUEST: fields(("id", made("atu")), ("messageId", ident), CONV, ("toolName", string(1, 100)), ("parameters", mapping), ("execution", word("server", "client")), ("timeoutMs?", whole(1, 300_000))),
    RESULT: fields(("id", ident), ("requestId", made("atu")), CONV, ("success", boolean), ("result?", anything), ("errorCode?", string(1)), ("errorMessage?", string())),
    ACK: fields(("conversationId", string(0, 128)), ("acknowledgedStanzaId", whole(most=(1 << 31) - 1)), ("success", boolean)),
    CONFIGURATION: fields(CONV, ("lastSequenceSeen?", whole(most=0)), ("features?", each(word("streaming", "tool_use", "reasoning_steps", "audio_output")))),
    START: fields(("id", ident), ("previousId", ident), CONV, ("answerType?", word("text")), ("plannedSentenceCount?", whole(0))),
    MEMORY: fields(("id", made("amu")), ("messageId", ident), CONV, ("memoryId", ident), ("content", string(1, 1024)), ("relevance", real), ("source?", string())),
    SENTENCE: fields(("id?", made("ams")), ("previousId", ident), CONV, ("sequence", whole(1)), ("text", string(0, 8192)), ("isFinal?", boolean)),
    SYNCED: fields(("syncedMessages", each(ONE_SYNCED, 500)), ("syncedAt", moment)),
    VOTED: fields(("feedbackId", ident), ("targetType", string(1)), ("targetId", ident), ("aggregates", AGGREGATES), ("userVote", word("up", "down", "critical", ""))),
    NOTED: fields(("noteId", ident), ("messageId", string(0, 128)), ("success", boolean)),
    MEMORISED: fields(("memoryId", ident), ("action", string()), ("success", boolean)),
    INFO: fields(("connection", CONNECTION), ("model", fields(("name", string(1)), ("provider", string(1)))), ("mcpServers", each(MCP_SERVER))),
    STATS: fields(("messageCount", whole(0)), ("toolCallCount", whole(0)), ("memoriesUsed", whole(0)), ("sessionDuration", whole(0)), ordered=False),
    UPDATE: fields(CONV, ("title?", string()), ("status?", word("active", "archived", "deleted")), ("updatedAt", moment)),
    ELITES: fields(CONV, ("elites", each(ONE_ELITE)), ("currentEliteId", string(0, 128)), ("timestamp", whole(0))),
    SUBSCRIBED: fields(("conversationId", string(0, 128)), ("success", boolean), ("error?", word("conversation_id_required", "invalid_request", "not_found", "inactive", "too_many_subscriptions", "internal")), ("missedMessages?", whole(0))),
    UNSUBSCRIBED: fields(("conversationId", string(0, 128)), ("success", boolean)),
}
# By code (11.2).
SEVERITIES = {101: (2,), 102: (1,), 103: (1,), 104: (2,), 105: (2,), 201: (2,), 202: (2,), 203: (2,), 301: (2,), 304: (2,), 501: (2, 3), 502: (1, 2), 503: (2,), 504: (1,), 505: (1,)}
ENVELOPE = fields(("stanzaId", whole(most=0)), ("conversationId", string(0, 128)), ("type", whole(1, 65535)), ("meta?", mapping), ("body", mapping))
