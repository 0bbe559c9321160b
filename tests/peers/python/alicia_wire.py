"""The bytes of Alicia as the reference describes them, on nothing but `websockets` and `msgpack`.

Written from the reference alone and without the project's own code, so that both can be wrong only in different ways.
It believes nothing: every envelope that comes in is checked for its canonical form (2.2), its keys (4), its class (3),
the order of stanza ids (2.3) and the grammar of answers (4.13, 4.16).
"""

import asyncio
import json
import re
import secrets
import time

import msgpack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from asp_wire import Failed, ensure, equal, jwt

PATIENCE = 20.0
(ERROR, USER, ASSISTANT, AUDIO, REASONING, REQUEST, RESULT, ACK, TRANSCRIPTION, STOP, VARIATION) = range(1, 12)
(CONFIGURATION, START, MEMORY, COMMENTARY, SENTENCE, SYNC, SYNCED) = range(12, 19)
(VOTE, VOTED, NOTE, NOTED, MEMORISE, MEMORISED, INFO, STATS, UPDATE, WEIGHTS, ELITE, ELITES) = range(20, 32)
SUBSCRIBE, UNSUBSCRIBE, SUBSCRIBED, UNSUBSCRIBED = range(40, 44)
STREAMING = ("streaming", "tool_use", "reasoning_steps")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
UNSEQUENCED = {USER, ACK, CONFIGURATION, SYNCED, VOTED, NOTED, MEMORISED, INFO, STATS, UPDATE, ELITES, SUBSCRIBED, UNSUBSCRIBED}
SEQUENCED = {REASONING, REQUEST, RESULT, START, MEMORY, COMMENTARY, SENTENCE}


def fresh(prefix="am"):
    return f"{prefix}_" + "".join(secrets.choice(ALPHABET) for _ in range(21))


def now():
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


def pack(value):
    return msgpack.packb(value, use_bin_type=True)


def joined(pieces):
    """The joining rule of 4.16."""
    text = ""
    for piece in pieces:
        apart = text and piece and not text[-1].isspace() and not piece[0].isspace()
        text += (" " if apart else "") + piece
    return text


# --- what envelopes look like (section 4) ----------------------------------------------------------


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


class Envelope:
    """One that came in, with the bytes that it came in."""

    def __init__(self, raw):
        self.raw, self.at = raw, time.monotonic()
        value = msgpack.unpackb(raw, strict_map_key=True)
        ENVELOPE(value)
        ensure(value.get("meta", True), "an empty meta is sent", value)
        equal(pack(value).hex(), raw.hex(), "canonical encoding")
        self.stanza, self.conv, self.type = value["stanzaId"], value["conversationId"], value["type"]
        self.meta, self.body = value.get("meta", {}), value["body"]
        ensure(self.type in BODIES, "a type that a server does not send:", self.type)
        try:
            BODIES[self.type](self.body)
            self.check()
        except Failed as failed:
            raise Failed(f"{self!r}: {failed}") from None

    def check(self):
        if self.type in UNSEQUENCED:
            equal(self.stanza, 0, "stanzaId of what is not sequenced")
        if self.type in SEQUENCED:
            ensure(self.stanza < 0, "what is sequenced has no stanzaId")
        if self.body.get("conversationId"):
            equal(self.conv, self.body["conversationId"], "conversationId of envelope and body")
        if self.type in (USER, ASSISTANT):
            equal(self.body["contents"], self.body["content"], "contents")
            equal(self.body["role"], "user" if self.type == USER else "assistant", "role")
        if self.type == SENTENCE:
            ensure(self.body["text"] or self.final, "an empty sentence that is not final")
        if self.type == ERROR:
            ensure(self.body["severity"] in SEVERITIES[self.body["code"]], "severity of", self.body["code"])
        if self.type == SUBSCRIBED:
            equal("error" in self.body, not self.body["success"], "presence of error")
        if self.type == SYNCED:
            for one in self.body["syncedMessages"]:
                equal(("message" in one, "conflict" in one), (one["status"] == "synced", one["status"] == "conflict"), "parts")

    @property
    def final(self):
        return self.body.get("isFinal", False)

    def __getitem__(self, name):
        return self.body[name]

    def get(self, name, default=None):
        return self.body.get(name, default)

    def __repr__(self):
        return f"{self.stanza}:{self.type}{self.body!r:.400}"


class Memory:
    """What a device knows of a conversation, also after it was away."""

    def __init__(self):
        self.entries = {}
        self.answers = {}

    def take(self, envelope):
        """A sequenced envelope: the same bytes as before, or the next step of the grammar."""
        known = self.entries.get(envelope.stanza)
        if known is not None:
            equal(envelope.raw.hex(), known.raw.hex(), f"bytes of {envelope.stanza} when it came again")
            return
        self.entries[envelope.stanza] = envelope
        if envelope.type == START:
            open_ones = [id for id, answer in self.answers.items() if not answer["final"]]
            ensure(not open_ones, "StartAnswer while another answer is open", open_ones, envelope)
            ensure(envelope["id"] not in self.answers, "an answer starts twice", envelope)
            self.answers[envelope["id"]] = {"pieces": [], "final": False}
        elif envelope.type == SENTENCE:
            answer = self.answers.get(envelope["previousId"])
            if answer is None:
                # This device came in the middle of the answer.
                answer = self.answers[envelope["previousId"]] = {"pieces": [""] * (envelope["sequence"] - 1), "final": False}
            ensure(not answer["final"], "a sentence after the final one", envelope)
            equal(envelope["sequence"], len(answer["pieces"]) + 1, f"sequence of {envelope}")
            answer["pieces"].append(envelope["text"])
            answer["final"] = envelope.final
        elif envelope.type == ASSISTANT and envelope["id"] in self.answers:
            ensure(self.answers[envelope["id"]]["final"], "AssistantMessage in the middle of its answer", envelope)


# --- a connection ----------------------------------------------------------------------------------


class Handshake:
    """What a Configuration was answered with."""

    def __init__(self, configuration, ack, replay, info):
        self.configuration, self.ack, self.replay, self.info = configuration, ack, replay, info
        self.conv = configuration["conversationId"]
        self.head = configuration.get("lastSequenceSeen", 0)


class Turn:
    """What came of a user message."""

    def __init__(self, user, entries):
        self.user, self.entries = user, entries

    def of(self, *types):
        return [envelope for envelope in self.entries if envelope.type in types]

    @property
    def types(self):
        return [envelope.type for envelope in self.entries]

    @property
    def answer(self):
        """The id of the answer."""
        [first] = self.of(START, ASSISTANT)
        return first["id"]

    @property
    def text(self):
        return joined(sentence["text"] for sentence in self.of(SENTENCE)) or "".join(message["content"] for message in self.of(ASSISTANT))


class Peer:
    """A connection, with what has come in and was not looked at yet."""

    def __init__(self, websocket, memory=None):
        self.websocket, self.inbox, self.stanza = websocket, [], 0
        self.memory = {} if memory is None else memory
        self.cursors, self.asked = {}, []

    @classmethod
    async def open(cls, url, token, memory=None, headers=None, **options):
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        websocket = await connect(
            url, additional_headers=headers, compression=None, max_size=None, max_queue=None, ping_interval=None, open_timeout=PATIENCE, **options
        )
        return cls(websocket, memory)

    # --- in

    async def receive(self, timeout=PATIENCE):
        raw = await asyncio.wait_for(self.websocket.recv(), timeout)
        ensure(isinstance(raw, bytes), "a text frame from the server:", raw)
        self.take(Envelope(raw))

    def take(self, envelope):
        if envelope.type == CONFIGURATION and self.asked:
            seen = self.asked.pop(0)
            if seen:
                self.cursors[envelope.conv] = -abs(seen)
            else:
                self.cursors.setdefault(envelope.conv, envelope.get("lastSequenceSeen", 0))
        if envelope.type == UNSUBSCRIBED:
            self.cursors.pop(envelope.conv, None)
        if envelope.stanza < 0:
            cursor = self.cursors.get(envelope.conv)
            if cursor is not None:
                equal(envelope.stanza, cursor - 1, f"the next stanza, {envelope}")
            self.cursors[envelope.conv] = envelope.stanza
            self.memory.setdefault(envelope.conv, Memory()).take(envelope)
        self.inbox.append(envelope)

    async def next(self, matches, timeout=PATIENCE):
        """The next envelope that matches; others wait."""
        deadline, seen = time.monotonic() + timeout, 0
        while True:
            for index in range(seen, len(self.inbox)):
                if matches(self.inbox[index]):
                    return self.inbox.pop(index)
            seen = len(self.inbox)
            try:
                await self.receive(max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise Failed(f"nothing that was waited for came; sent last: {self.sent!r:.300}; inbox: {self.inbox!r:.1200}") from None
            except ConnectionClosed as closed:
                raise Failed(f"closed with {closed.rcvd}; sent last: {self.sent!r:.300}; inbox: {self.inbox!r:.800}") from None

    async def expect(self, type, conv=None, timeout=PATIENCE, **body):
        """The next of a type, which has to say this."""
        found = await self.next(lambda e: e.type == type and (conv is None or e.conv == conv), timeout)
        for name, value in body.items():
            equal(found.get(name), value, f"{name} of {found}, after {self.sent!r:.300}")
        return found

    async def upcoming(self, conv):
        """Whatever comes next in a conversation."""
        return await self.next(lambda e: e.conv == conv)

    async def ack(self, stanza, success=True, conv=None):
        found = await self.next(lambda e: e.type == ACK and e["acknowledgedStanzaId"] == stanza and (conv is None or e.conv == conv))
        equal(found["success"], success, f"success of {found}, after {self.sent!r:.300}; inbox {self.inbox!r:.600}")
        return found

    async def error(self, code, recoverable=True, origin=None):
        codes = code if isinstance(code, tuple) else (code,)
        found = await self.expect(ERROR)
        ensure(found["code"] in codes, "expected code", codes, "got", found, "after", repr(self.sent)[:400])
        equal(found["recoverable"], recoverable, f"recoverable of {found}, after {self.sent!r:.300}")
        if origin is not None:
            equal(found.get("originatingId"), origin, f"originatingId of {found}")
        return found

    async def refused(self, stanza, code, origin=None):
        """An error that names what was sent last, and then an acknowledgement without success."""
        error = await self.error(code, True, origin or self.sent["body"].get("id") or str(stanza))
        ack = await self.ack(stanza, False)
        ensure(error.at <= ack.at, "the acknowledgement came first")
        return error

    async def barrier(self):
        """Everything that was sent before has been dealt with, and the connection is as it was."""
        id = fresh("ac")
        await self.send(UNSUBSCRIBE, id, {"conversationId": id})
        await self.expect(UNSUBSCRIBED, id, success=True)

    async def silent(self, conv=None, settle=0.4):
        """Nothing at all has come, or comes soon."""
        await asyncio.sleep(settle)
        await self.barrier()
        equal([e for e in self.inbox if conv is None or e.conv == conv], [], f"nothing may come after {self.sent!r:.300}")

    async def closed(self, code=None):
        """The server closes; what came before is kept."""
        try:
            while True:
                await self.receive()
        except TimeoutError:
            raise Failed(f"not closed; inbox: {self.inbox!r:.500}") from None
        except ConnectionClosed as closed:
            if code is not None:
                equal(closed.rcvd.code if closed.rcvd else None, code, "close code")

    # --- out

    sent = None

    async def bytes(self, raw):
        self.sent = raw.hex()
        await self.websocket.send(raw)

    def envelope(self, type, conv, body, stanza=None, meta=None):
        if stanza is None:
            self.stanza += 1
            stanza = self.stanza
        value = {"stanzaId": stanza, "conversationId": conv, "type": type}
        if meta:
            value["meta"] = meta
        return {**value, "body": body}

    async def send(self, type, conv, body, stanza=None, meta=None):
        value = self.envelope(type, conv, body, stanza, meta)
        await self.bytes(pack(value))
        self.sent = value
        return value["stanzaId"]

    async def configure(self, conv="", seen=None, features=STREAMING, **more):
        body = {"conversationId": conv} if conv else {}
        if seen is not None:
            body["lastSequenceSeen"] = seen
        self.asked.append(seen)
        return await self.send(CONFIGURATION, conv, {**body, "clientVersion": "0.1.0", "device": "test", "features": list(features), **more})

    async def handshake(self, conv="", seen=None, **more):
        """6.2, step by step."""
        # What was refused has left its mark here.
        self.asked.clear()
        await self.configure(conv, seen, **more)
        configuration = await self.next(lambda e: e.type in (CONFIGURATION, ERROR))
        equal(configuration.type, CONFIGURATION, f"answer {configuration} to {self.sent!r:.300}")
        if conv:
            equal(configuration["conversationId"], conv, "conversationId")
        conv = configuration["conversationId"]
        ack = await self.upcoming(conv)
        equal((ack.type, ack.get("acknowledgedStanzaId"), ack.get("success")), (ACK, -abs(seen or 0), True), f"acknowledgement {ack}")
        replay, info = [], []
        while (found := await self.upcoming(conv)).type != INFO:
            ensure(found.stanza < 0 or found.type in (USER, ASSISTANT), "not a replay:", found)
            replay.append(found)
        info = [found, await self.upcoming(conv), await self.upcoming(conv)]
        equal([e.type for e in info], [INFO, STATS, ELITES], "what follows the replay")
        return Handshake(configuration, ack, replay, info)

    async def subscribe(self, conv, success=True, **more):
        await self.send(SUBSCRIBE, conv, {"conversationId": conv, **more})
        first = await self.upcoming(conv)
        equal((first.type, first.get("success")), (SUBSCRIBED, success), f"answer {first} to {self.sent!r:.300}")
        return first

    async def unsubscribe(self, conv):
        await self.send(UNSUBSCRIBE, conv, {"conversationId": conv})
        return await self.expect(UNSUBSCRIBED, conv, success=True)

    async def say(self, conv, content, id=None, stanza=None, meta=None, **more):
        """A user message; its id and its stanza."""
        id = id or fresh("am")
        body = {"id": id, **({"previousId": more.pop("previous")} if "previous" in more else {}), "conversationId": conv, "content": content, "timestamp": now()}
        return id, await self.send(USER, conv, {**body, **more}, stanza, meta)

    async def turn(self, conv, content, **more):
        """A whole turn; the acknowledgement has to come first."""
        id, stanza = await self.say(conv, content, **more)
        first = await self.upcoming(conv)
        equal((first.type, first.get("acknowledgedStanzaId"), first.get("success")), (ACK, stanza, True), f"first {first} after {self.sent!r:.300}")
        return await self.answer(conv, id)

    async def answer(self, conv, user=None):
        """Everything of an answer up to the SessionStats that follow it."""
        entries, over = [], False
        while True:
            found = await self.upcoming(conv)
            entries.append(found)
            over = over or found.final or found.type == ASSISTANT or (found.type == ERROR and found.stanza < 0)
            if over and found.type == STATS:
                return Turn(user, entries)

    async def streaming(self, conv, content="sentences 200 every 50", sentences=2):
        """A turn in the middle of its answer: user id, answer id."""
        id, stanza = await self.say(conv, content)
        await self.ack(stanza)
        start = await self.expect(START, conv, previousId=id)
        for _ in range(sentences):
            await self.expect(SENTENCE, conv)
        return id, start["id"]

    async def finish(self, conv, answer):
        """The final sentence of an answer, which is still to come."""
        return await self.next(lambda e: e.conv == conv and e.type == SENTENCE and e["previousId"] == answer and e.final)

    async def ended(self, conv, answer):
        """An answer has come to its end, now or earlier."""
        known = self.memory.setdefault(conv, Memory())
        if not known.answers.get(answer, {}).get("final"):
            await self.finish(conv, answer)

    async def cut(self):
        """The transport breaks, without a word."""
        self.websocket.transport.abort()
        await self.websocket.wait_closed()

    async def close(self):
        await self.websocket.close()
