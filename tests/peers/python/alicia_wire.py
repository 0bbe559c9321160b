"""The bytes of Alicia as the reference describes them, on nothing but `websockets` and `msgpack`.

Written from the reference alone and without the project's own code, so that both can be wrong only in different ways.
It believes nothing: every envelope that comes in is checked for its canonical form (2.2), its keys (4), its class (3),
the order of stanza ids (2.3) and the grammar of answers (4.13, 4.16).
"""

import asyncio
import re
import secrets
import time

import msgpack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from alicia_shapes import *
from asp_wire import Failed, ensure, equal, jwt

PATIENCE = 20.0
STREAMING = ("streaming", "tool_use", "reasoning_steps")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


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
