"""What VIP's wire looks like, as data: schemas of sections 2, 7, 8 and 13, the transitions of 10.2, the errors of 14.

`vip_reference.json` holds the formal schemas, the error table and the test vectors of the reference as they stand
there; the notation rows, for which the reference gives no formal schema, are compiled here one to one.
"""

import json
import pathlib

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from asp_wire import Failed, ensure, equal

REFERENCE = json.loads((pathlib.Path(__file__).parent / "vip_reference.json").read_text())
ERRORS, VECTORS = REFERENCE["errors"], REFERENCE["vectors"]
FORMAL = REFERENCE["schemas"]["vip:events"]["$defs"]
REGISTRY = Registry().with_resources((id, Resource.from_contents(schema)) for id, schema in REFERENCE["schemas"].items())

STATES = ("not_connected", "connecting", "idle", "user_speaking", "ai_thinking", "ai_speaking", "invoke_action")
NC, CO, ID, US, AT, AS, IA = STATES
# From, to, trigger: section 10.2.
MATRIX = {
    (NC, CO, "client.connect"),
    (CO, ID, "server.ready"),
    (ID, US, "input.start"),
    (ID, AS, "server.announce"),
    (US, AT, "input.end"),
    (US, ID, "input.cancel"),
    (AT, AS, "response.audio"),
    (AT, IA, "response.tool"),
    (AT, US, "input.barge_in"),
    (AS, ID, "audio.complete"),
    (AS, US, "input.barge_in"),
    (IA, AT, "action.result"),
    (IA, ID, "action.done"),
    (AT, ID, "error.recoverable"),
    (AT, ID, "response.none"),
} | {(state, NC, "session.close") for state in STATES[1:]}
# Triggers that the server itself puts on the wire, and the event that it puts there.
TRIGGERS = {
    "server.ready": "server.ready",
    "server.announce": "server.announce",
    "response.audio": "response.audio",
    "response.tool": "action.invoke",
    "action.done": "action.done",
    "error.recoverable": "error.recoverable",
}

# --- the notation ------------------------------------------------------------------------------------


def text(most=None, least=0):
    return {"type": "string", "minLength": least} | ({"maxLength": most} if most is not None else {})


def one_of(*values):
    return {"enum": list(values)}


def many(items, most=None):
    return {"type": "array", "items": items} | ({"maxItems": most} if most is not None else {})


def record(needed=None, **optional):
    """An object with these members; whatever else it has is nobody's business."""
    needed = needed or {}
    return {"type": "object", "required": list(needed), "properties": {**needed, **optional}}


NUMBER, FLAG, ANY, OBJECT = {"type": "number"}, {"type": "boolean"}, {}, {"type": "object"}
INT = {"type": "integer"}
COUNT = MS = {"type": "integer", "minimum": 0}
TS = {"type": "integer", "minimum": 1_600_000_000_000}
SEC = {"type": "integer", "minimum": 1_600_000_000, "maximum": 9_999_999_999}
PART = {"type": "number", "minimum": 0, "maximum": 1}
NAME = text(40, 1)
FORMAT = one_of("pcm16/16000", "pcm16/24000", "pcm16/48000", "opus/48000")
OUT_STREAM = {"type": "integer", "minimum": 32768, "maximum": 65535}
SESSION_ID = {"type": "string", "pattern": "^vs_[0-9A-Z]{26}$"}
MODE = one_of("internal", "external")
ENVIRONMENT = one_of("development", "production")
AUDIO = record({"input": FORMAT, "output": FORMAT, "frame_ms": {"type": "integer", "minimum": 10, "maximum": 100}, "framing": one_of("binary", "base64")})
TURN_DETECTION = record(
    {
        "type": one_of("client_vad", "server_vad", "manual"),
        "silence_ms": {"type": "integer", "minimum": 200, "maximum": 3000},
        "no_speech_ms": MS,
        "interrupt_response": FLAG,
        "follow_up_listen": FLAG,
    }
)
PROVIDER = record(
    {
        "id": text(),
        "adapter": {"type": "string", "pattern": "^(vip-native|openai-realtime-v1|x-[a-z0-9]+-.+)$"},
        "transport": one_of("websocket", "webrtc"),
        "url": text(least=1),
        "model": text(least=1),
        "credential": record({"type": {"const": "bearer"}, "value": text(least=1), "expires_at": SEC}),
        "auth": record({"style": one_of("header", "subprotocol", "sdp_post")}, subprotocol_prefix=text()),
        "locked": many(text()),
    },
    voice=text(),
    data_channel=text(),
)
DETECTED = record({"origin": one_of("client", "server")}, confidence=PART, level_db=NUMBER)
RESPONSE = dict(
    in_reply_to=NAME,
    content=text(),
    content_type=one_of("text", "ssml"),
    interruptible=FLAG,
    expects_reply=FLAG,
    stream_id=OUT_STREAM,
    modality=one_of("audio", "text"),
)
METRICS = record(asr_ms=MS, llm_ttft_ms=MS, tts_ttfb_ms=MS, e2e_ms=MS)
USAGE = {"type": "object", "additionalProperties": INT}

# `data` of what a server sends (7.2).
EVENTS = {
    "session.connected": record(
        {"session_id": SESSION_ID, "mode": MODE, "environment": ENVIRONMENT, "resumed": FLAG, "resume_window_s": COUNT, "context_version": COUNT, "audio": AUDIO, "turn_detection": TURN_DETECTION},
        resume_token=text(least=22),
        replay_from=COUNT,
        speech=record({"hears": FLAG, "speaks": FLAG}),
    ),
    "server.ready": record({"context_version": {"type": "integer", "minimum": 1}}),
    "state.changed": FORMAL["state.changed"],
    "state.ack": record(
        {
            "context_version": COUNT,
            "applied": one_of("now", "deferred"),
            "ignored_actions": many(text()),
            "warnings": many(record({"code": text(least=1), "path": text(), "message": text()})),
        }
    ),
    "state.resync": record({"have_version": COUNT, "reason": one_of("version_conflict", "resume", "corrupt")}),
    "input.detected": {**DETECTED, "properties": {**DETECTED["properties"], "origin": {"const": "server"}}},
    "input.end": record({"reason": one_of("silence", "ptt_release", "manual", "timeout", "text")}, duration_ms=MS),
    "input.barge_in": {**FORMAL["input.barge_in"], "required": ["trigger", "origin"]},
    "input.timeout": record({"speech_seen": FLAG}),
    "transcript.partial": record({"turn_id": NAME, "text": text(), "stable_chars": COUNT}),
    "input.complete": record({"turn_id": NAME, "text": text()}, confidence=PART, locale=text(35)),
    "server.announce": record({"response_id": NAME, "reason": one_of("intro", "notification", "follow_up")}, **RESPONSE),
    "response.audio": record({"response_id": NAME}, **RESPONSE),
    "response.text.delta": record({"response_id": NAME, "text": text()}),
    "audio.start": record({"response_id": NAME, "stream_id": OUT_STREAM, "format": FORMAT}),
    "audio.end": record({"response_id": NAME, "stream_id": OUT_STREAM, "duration_ms": MS}),
    "audio.chunk": record({"stream_id": OUT_STREAM, "seq": COUNT, "offset_ms": MS, "audio": text()}, flags=COUNT),
    "audio.interrupted": record({"response_id": NAME, "truncated_at_ms": MS, "spoken_text": text()}),
    "response.done": record(
        {"response_id": NAME, "status": one_of("complete", "incomplete", "failed", "none")}, text=text(), usage=USAGE, latency_metrics=METRICS, model_id=text()
    ),
    "action.invoke": FORMAL["action.invoke"],
    "action.cancel": record({"invocation_id": NAME, "reason": one_of("timeout", "user", "shutdown")}),
    "action.done": record({"invocation_id": NAME}),
    "session.updated": OBJECT,
    "session.terminating": record({"reason": one_of("idle", "max_duration", "drain"), "in_ms": MS}),
    "session.terminated": record(
        {"reason": one_of("user_hangup", "voice_hangup", "idle", "max_duration", "error", "replaced", "server"), "duration_ms": MS}, code=one_of(*ERRORS), usage=OBJECT
    ),
    "session.pong": record({"nonce": text(32), "server_ts": TS}),
    "credential.refreshed": PROVIDER,
    "function.result": record({"invocation_id": NAME, "status": one_of("success", "error")}, data=ANY, error=OBJECT),
    "error.recoverable": FORMAL["error"],
    "error.fatal": FORMAL["error"],
}
# Sent only over a socket of the other kind (12.7).
NOT_ON_CONTROL = {name for name in EVENTS if name.startswith(("response.", "audio.", "input.", "transcript.", "action."))} | {"server.announce"}
# Never stored, so never replayed (11).
FLEETING = {"transcript.partial", "response.text.delta", "audio.chunk"}

# --- bodies over HTTP --------------------------------------------------------------------------------

DISCOVERY = record(
    {
        "protocol_versions": many(text()),
        "environments": many(ENVIRONMENT),
        "modes": many(MODE),
        "transports": many(one_of("websocket", "webrtc")),
        "audio": record({"input": many(FORMAT), "output": many(FORMAT)}),
        "subprotocols": {"const": ["vip.v1"]},
        "jwks_uri": text(least=8),
        "session_endpoint": text(least=8),
        "issuer": text(least=1),
        "limits": {"type": "object", "additionalProperties": INT},
    }
)
SOCKET = record({"url": {"type": "string", "pattern": "^wss?://"}, "subprotocol": {"const": "vip.v1"}})
CREATED = record(
    {
        "session_id": SESSION_ID,
        "protocol_version": {"const": "0.1"},
        "environment": ENVIRONMENT,
        "mode": MODE,
        "state": {"const": "connecting"},
        "session_token": {"type": "string", "pattern": "^[A-Za-z0-9._~-]+$"},
        "session_token_expires_at": SEC,
        "expires_at": SEC,
        "resume": record({"window_s": {"type": "integer", "minimum": 0, "maximum": 600}}),
        "audio": AUDIO,
        "turn_detection": TURN_DETECTION,
        "limits": record({name: COUNT for name in ("max_actions", "max_context_bytes", "max_text_bytes", "idle_timeout_s", "max_session_s")}),
        "issued_in_development": FLAG,
    },
    transport=record(
        {"websocket": SOCKET},
        webrtc=record({"offer_url": text(least=1), "data_channel": {"const": "vip-events"}, "ice_servers": many(record({"urls": many(text())}, username=text(), credential=text()))}),
    ),
    control=SOCKET,
    provider=PROVIDER,
)
STATUS = record(
    {
        "session_id": SESSION_ID,
        "state": one_of(*STATES),
        "state_seq": COUNT,
        "mode": MODE,
        "environment": ENVIRONMENT,
        "context_version": COUNT,
        "connected": FLAG,
        "created_at": SEC,
        "expires_at": SEC,
        "last_event_seq": COUNT,
        "metadata": {"type": "object", "additionalProperties": text(256)},
    }
)
RENEWED = record({"session_token": CREATED["properties"]["session_token"], "session_token_expires_at": SEC})
HISTORY_ITEM = record(
    {
        "seq": {"type": "integer", "minimum": 1},
        "id": text(least=1),
        "role": one_of("user", "assistant", "system"),
        "kind": one_of("message", "action", "result", "error", "state"),
        "status": one_of("complete", "incomplete"),
        "ts": TS,
        "metadata": OBJECT,
    },
    text=text(),
    turn_id=NAME,
    response_id=NAME,
    action_id=text(),
    data=ANY,
)
HISTORY = record({"items": many(HISTORY_ITEM, 200), "next_after": {"type": ["integer", "null"]}})
HTTP_ERROR = record({"error": {**FORMAL["error"], "required": [*FORMAL["error"]["required"], "request_id"], "properties": {**FORMAL["error"]["properties"], "request_id": text(least=1)}}})
SESSION_CLAIMS = record(
    {"iss": text(least=1), "aud": {"enum": ["vip-transport", ["vip-transport"]]}, "sub": text(least=1), "sid": SESSION_ID, "app": text(64), "env": ENVIRONMENT, "mode": MODE, "scp": ANY, "iat": SEC, "exp": SEC, "jti": text(least=8)}
)

_validators = {}


def check(schema, value, what):
    """The value is as the schema says."""
    validator = _validators.get(id(schema))
    if validator is None:
        Draft202012Validator.check_schema(schema)
        validator = _validators[id(schema)] = Draft202012Validator(schema, registry=REGISTRY)
    wrong = next(validator.iter_errors(value), None)
    if wrong is not None:
        raise Failed(f"{what}: {wrong.json_path}: {wrong.message:.200} in {json.dumps(value)[:400]}")


# Codes that are fatal or not, depending on how often (14).
STRIKES = {"PROTO_MALFORMED", "RATE_EVENTS", "RATE_AUDIO", "PROV_UNAVAILABLE"}


def check_error(error, fatal):
    """An Error is one of the table, with what the table says about it."""
    row = ERRORS.get(error["code"])
    ensure(row is not None, "a code that the reference does not have:", error)
    equal(error["category"], row["category"], f"category of {error['code']}")
    equal(error["retryable"], row["retryable"], f"retryable of {error['code']}")
    equal(error["fatal"], fatal, f"fatal of {error['code']} in its event")
    if error["code"] not in STRIKES:
        equal(error["fatal"], row["fatal"], f"fatal of {error['code']}")
    return row
