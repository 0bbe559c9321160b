"""The bytes of ASP as the reference describes them, on nothing but `websockets` and `msgpack`.

Written from the reference alone and without the project's own code, so that both can be wrong only in
different ways. It believes nothing: every frame that comes in is checked for what section 3 says.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import struct
import time
import zlib

import msgpack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

HELLO, INVOKE, STREAM, INTERRUPT, TOOL_DEF, ERROR = range(1, 7)
END, MORE, COMPRESSED, REPLAY = 0x01, 0x02, 0x10, 0x20
ENC_JSON, ENC_RAW, ENC_MSGPACK = 0x04, 0x08, 0x0C
STANDARD = ["flags", "events", "frag", "credit", "push", "client_tools", "resume", "ping"]
PATIENCE = 15.0


def frame(opcode, id, payload=b"", flags=0, version=1):
    """One frame, with the length that it really has."""
    return struct.pack(">BBHI", version << 4 | opcode, flags, id, len(payload)) + payload


class Failed(Exception):
    """What a check expected did not happen."""


def ensure(condition, *why):
    if not condition:
        raise Failed(" ".join(str(part) for part in why))


def equal(actual, expected, what="value"):
    ensure(actual == expected, f"{what}: expected {expected!r}, got {actual!r}")


class Frame:
    """A frame, or several fragments of one put together."""

    def __init__(self, opcode, flags, id, payload, fragments=1):
        self.opcode, self.flags, self.id, self.payload = opcode, flags, id, payload
        self.fragments = fragments
        self.at = time.monotonic()
        self.value = None

    def read(self, events):
        """Decodes the payload as section 3.2 says."""
        enc = self.flags & 0x0C
        if self.opcode == STREAM and not events:
            self.value = self.payload.decode()
        elif not self.payload:
            self.value = None
        elif enc == ENC_JSON or (enc == 0 and self.payload[:1] == b"{"):
            self.value = json.loads(self.payload)
        elif enc == ENC_RAW:
            self.value = {"t": "text", "d": self.payload.decode()}
        else:
            self.value = msgpack.unpackb(self.payload)
        return self

    @property
    def terminal(self):
        """Whether it ends its request, in any of the five ways."""
        if self.id == 0:
            return False
        if self.opcode == ERROR:
            return True
        if self.opcode != STREAM:
            return False
        return not self.payload or bool(self.flags & END) or self.record("t") == "end"

    def record(self, member):
        return self.value.get(member) if isinstance(self.value, dict) else None

    def __repr__(self):
        return f"Frame(op={self.opcode} flags={self.flags:#x} id={self.id} {self.value!r:.200})"


def split(message):
    """The frames of one WebSocket message; nothing may be left over."""
    offset, frames = 0, []
    while offset < len(message):
        ensure(len(message) - offset >= 8, "a frame without a whole header")
        first, flags, id, length = struct.unpack_from(">BBHI", message, offset)
        equal(first >> 4, 1, "version")
        ensure(first & 15 in range(1, 7), "unknown opcode", first & 15)
        ensure(first & 15 not in (INVOKE, INTERRUPT), "opcode that only clients send", first & 15)
        payload = message[offset + 8 : offset + 8 + length]
        equal(len(payload), length, "payload length")
        frames.append(Frame(first & 15, flags, id, payload))
        offset += 8 + length
    return frames


class Peer:
    """A connection, with what has come in and was not looked at yet."""

    def __init__(self, websocket):
        self.websocket = websocket
        self.features, self.enc = [], "json"
        self.accept = None
        self.inbox, self.partial = [], {}
        self.ended = {}
        self.next_id = 0

    @classmethod
    async def open(cls, url, token, subprotocols=("asp-v1",), headers=None, query="", **options):
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        websocket = await connect(
            url + query,
            subprotocols=list(subprotocols),
            additional_headers=headers,
            compression=None,
            max_size=None,
            max_queue=None,
            ping_interval=None,
            proxy=None,
            open_timeout=PATIENCE,
            close_timeout=2,
            **options,
        )
        return cls(websocket)

    async def hello(self, features=STANDARD, enc="json", **members):
        """Negotiates; a resume that is rejected says so before the accept."""
        await self.say_hello(features=features, enc=[enc], **members)
        # A relay has greeted before.
        answer = await self.next(lambda frame: frame.opcode == HELLO and frame.record("op") != "greet")
        equal(answer.value.get("op"), "accept", "op")
        rejected = [frame for frame in self.inbox if frame.opcode == ERROR and frame.record("code") == 2600]
        self.inbox = [frame for frame in self.inbox if frame not in rejected]
        self.rejected = rejected[0] if rejected else None
        return answer.value

    async def say_hello(self, **members):
        await self.send(frame(HELLO, 0, json.dumps(members).encode()))

    def encode(self, value):
        if self.enc == "msgpack":
            return msgpack.packb(value), ENC_MSGPACK
        return json.dumps(value).encode(), ENC_JSON

    def invocation(self, id, value, flags=0):
        payload, enc = self.encode(value)
        return frame(INVOKE, id, payload, flags | (enc if "flags" in self.features else 0))

    def fresh(self):
        self.next_id += 1
        return self.next_id

    async def invoke(self, chat=None, /, id=None, **members):
        id = id or self.fresh()
        value = {**({"kind": "chat", "input": chat} if chat is not None else {}), **members}
        await self.send(self.invocation(id, value))
        return id

    async def interrupt(self, id, **members):
        payload, enc = self.encode(members) if members else (b"", 0)
        await self.send(frame(INTERRUPT, id, payload, enc if "flags" in self.features else 0))

    async def send(self, data):
        if isinstance(data, bytes) and len(data) >= 8 and data[0] & 15 == INVOKE:
            # Its id may be used again from here on.
            self.ended.pop(int.from_bytes(data[2:4], "big"), None)
        await self.websocket.send(data)

    async def receive(self, timeout=PATIENCE):
        """Takes in one WebSocket message."""
        message = await asyncio.wait_for(self.websocket.recv(), timeout)
        ensure(isinstance(message, bytes), "a text message from the server")
        for part in split(message):
            self.take(part)

    def take(self, part):
        flags_agreed = "flags" in self.features
        ensure(flags_agreed or part.flags == 0, "flags without agreement", part.flags)
        equal(part.flags & 0xC0, 0, "reserved flags")
        key = (part.opcode, part.id)
        if part.flags & MORE:
            ensure("frag" in self.features, "a fragment without agreement")
            ensure(not part.flags & END, "END with MORE")
        whole = part
        if key in self.partial or part.flags & MORE:
            parts = self.partial.setdefault(key, [])
            parts.append(part)
            equal(part.flags & (0x0C | COMPRESSED), parts[0].flags & (0x0C | COMPRESSED), "flags of a fragment")
            if part.flags & MORE:
                return
            del self.partial[key]
            payload = b"".join(piece.payload for piece in parts)
            whole = Frame(part.opcode, part.flags, part.id, payload, len(parts))
        if whole.flags & COMPRESSED:
            ensure("deflate" in self.features, "compression without agreement")
            whole.payload = zlib.decompress(whole.payload, -zlib.MAX_WBITS)
        whole.read("events" in self.features)
        if whole.opcode == HELLO and whole.record("op") == "accept":
            # From the next frame on, even within the same message.
            ensure(self.accept is None, "a second accept")
            self.accept = whole.value
            self.enc, self.features = whole.value["enc"], whole.value["features"]
        if whole.id and whole.opcode in (STREAM, ERROR):
            # Exactly one terminal frame, and nothing after it (ASP-029, ASP-040).
            ensure(whole.id not in self.ended, "a frame after the terminal one:", whole, self.ended.get(whole.id))
            if whole.terminal:
                self.ended[whole.id] = whole
        self.inbox.append(whole)

    async def next(self, matches, timeout=PATIENCE):
        """The next frame that matches; others wait."""
        deadline = time.monotonic() + timeout
        seen = 0
        while True:
            for index in range(seen, len(self.inbox)):
                if matches(self.inbox[index]):
                    return self.inbox.pop(index)
            seen = len(self.inbox)
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                await self.receive(left)
            except TimeoutError:
                raise Failed(f"nothing that was waited for came; inbox: {self.inbox!r:.500}") from None
            except ConnectionClosed as closed:
                raise Failed(f"closed with {closed.rcvd}; inbox: {self.inbox!r:.500}") from None

    async def record(self, id, t, timeout=PATIENCE):
        return (await self.next(lambda f: f.id == id and f.opcode == STREAM and f.record("t") == t, timeout)).value

    async def error(self, id, code, timeout=PATIENCE):
        """The next ERROR on an id."""
        answer = await self.next(lambda f: f.id == id and f.opcode == ERROR, timeout)
        equal(answer.value.get("code"), code, f"error on id {id} ({answer.value})")
        return answer.value

    async def finish(self, id, timeout=PATIENCE):
        """Everything of a request up to its terminal frame."""
        frames = []
        while True:
            frames.append(await self.next(lambda f: f.id == id and f.opcode in (STREAM, ERROR), timeout))
            if frames[-1].terminal:
                return frames

    async def turn(self, text, **members):
        return await self.finish(await self.invoke(text, **members))

    async def quiet(self, seconds, but=lambda frame: False):
        """Nothing comes for a while, except what may."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                await self.receive(left)
            except TimeoutError:
                break
        loud = [frame for frame in self.inbox if not but(frame)]
        ensure(not loud, "not quiet:", loud)

    async def closed(self, code, timeout=PATIENCE):
        """The connection is closed by the server with this code; what came before is kept."""
        try:
            while True:
                await self.receive(timeout)
        except TimeoutError:
            raise Failed(f"not closed, expected {code}; inbox: {self.inbox!r:.500}") from None
        except ConnectionClosed as closed:
            equal(closed.rcvd.code if closed.rcvd else None, code, "close code")

    async def cut(self):
        """The transport breaks, without a word."""
        self.websocket.transport.abort()
        await self.websocket.wait_closed()

    async def close(self):
        await self.websocket.close()


def text_of(frames):
    """The answer that the frames of a request make up."""
    return "".join(frame.record("d") or "" for frame in frames if frame.record("t") == "text")


def numbers_of(frames):
    return [frame.value["n"] for frame in frames if isinstance(frame.value, dict) and "n" in frame.value]


def bearer_entry(token):
    return "asp-bearer." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def jwt(secret, header=None, **claims):
    """A JSON Web Token, HS256 unless the header says otherwise."""
    header = {"alg": "HS256", "typ": "JWT", **(header or {})}
    encode = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    signed = f"{encode(header)}.{encode(claims)}"
    if header["alg"] == "none":
        return signed + "."
    digest = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def error(self):
        return json.loads(self.body)["error"]


async def http(address, target, headers):
    """One HTTP request, written by hand; the answer without its body's framing."""
    reader, writer = await asyncio.open_connection(*address)
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    writer.write("\r\n".join(lines).encode())
    await writer.drain()
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        status, *rest = head.decode().strip().split("\r\n")
        fields = {}
        for line in rest:
            name, _, value = line.partition(":")
            fields.setdefault(name.lower(), []).append(value.strip())
        length = int(fields.get("content-length", ["0"])[0])
        body = await asyncio.wait_for(reader.readexactly(length), PATIENCE)
        return Answer(int(status.split()[1]), fields, body)
    finally:
        writer.close()
