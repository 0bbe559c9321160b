"""The events and frames of VIP as the reference describes them, on nothing but `websockets`.

Written from the reference alone and without the project's own code, so that both can be wrong only in different ways.
It believes nothing: every event that comes in is checked for its envelope (6), its data (7), the order of numbers, the
transitions (10.2) and their signals (10.4), audio for its header (5.2), its place and its pace, and every end of a
connection for the error that has to come before (VIP-077).
"""

import asyncio
import base64
import json
import secrets
import struct
import time

from jsonschema import Draft202012Validator
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from asp_wire import Failed, ensure, equal
from vip_schema import *

PATIENCE = 30.0
END, MONITOR, GAP = 1, 2, 4
RATES = {"pcm16/16000": 32, "pcm16/24000": 48, "pcm16/48000": 96}
# What may come in between wherever something else is expected next.
SOFT = {"transcript.partial", "response.text.delta", "audio.chunk", "session.terminating", "input.detected"}


def now():
    return int(time.time() * 1000)


def fresh(prefix):
    return f"{prefix}-{secrets.token_hex(5)}"


def frame(stream, seq, offset, payload=b"", flags=0, kind=1, version=1):
    """A binary frame (5.2)."""
    return struct.pack(">BBHII", version << 4 | kind, flags, stream, seq, offset) + payload


class Event:
    """One that came in."""

    def __init__(self, raw):
        self.at = time.monotonic()
        try:
            self.value = json.loads(raw)
        except ValueError:
            raise Failed(f"no JSON: {raw[:200]}") from None
        check(FORMAL["envelope"], self.value, "envelope")
        self.type, self.data = self.value["type"], self.value["data"]
        ensure(self.type in EVENTS, "a type that a server does not send:", raw[:300])
        check(EVENTS[self.type], self.data, self.type)
        self.seq, self.id, self.state_seq = (self.value[name] for name in ("seq", "id", "state_seq"))
        ensure(abs(self.value["ts"] - now()) < 600_000, "ts is not milliseconds of now:", self.value["ts"])

    def __getitem__(self, name):
        return self.data[name]

    def get(self, name, default=None):
        return self.data.get(name, default)

    @property
    def code(self):
        return self.data.get("code") if self.type.startswith("error.") else None

    def __repr__(self):
        return f"{self.seq}/{self.state_seq}:{self.type}{json.dumps(self.data)[:300]}"


class Response:
    """A System Output, from its opening to its end."""

    def __init__(self, id):
        self.id, self.opened, self.start, self.end, self.interrupted, self.done = id, None, None, None, None, None
        self.stream, self.frames, self.audio, self.caption, self.short = None, [], b"", "", None

    @property
    def ms(self):
        """How much audio has come."""
        return self.frames[-1].until if self.frames else 0


class Frame:
    """A frame of output."""

    def __init__(self, seq, offset, payload, flags, format, frame_ms):
        self.at, self.seq, self.offset, self.payload, self.flags = time.monotonic(), seq, offset, payload, flags
        self.lasts = len(payload) / RATES[format] if format in RATES else (frame_ms if payload else 0)
        self.until = offset + self.lasts


class Session:
    """What a client keeps of a session, whatever happens to its transports."""

    def __init__(self, created, base, headers=()):
        self.created, self.base, self.headers = created, base, dict(headers)
        self.id, self.token = created["session_id"], created["session_token"]
        self.client_seq, self.last_seq, self.ids, self.fleeting = 0, 0, set(), set()
        self.events, self.responses, self.invocations, self.turns = {}, {}, {}, set()
        self.resume_token, self.tree, self.version, self.confirmed = None, None, 0, set()
        # Whether somebody else was here before, so that the first event sets the number.
        self.joined = False

    @property
    def auth(self):
        return {"Authorization": f"Bearer {self.token}"}


class Stream:
    """One transport of a session: the stream socket, or in internal mode the control socket."""

    def __init__(self, session, socket, control=False):
        self.session, self.socket, self.control = session, socket, control
        self.state, self.state_seq, self.turn = NC, None, None
        self.inbox, self.log, self.fatal, self.last, self.pending = [], [], None, None, None
        self.wrong, self.closed, self.replaying = None, None, False
        # Trigger events that carry the state_seq from before; a check of its own asks for them.
        self.stale, self.streams = [], {}
        self.changed = asyncio.Event()
        self.reader = asyncio.create_task(self.read())

    @classmethod
    async def open(cls, session, control=False, subprotocols=("vip.v1",), headers=None, url=None, origin=None):
        place = session.created["control"] if control else session.created["transport"]["websocket"]
        socket = await connect(
            url or place["url"], subprotocols=list(subprotocols), additional_headers=session.auth if headers is None else headers, origin=origin, max_size=None, ping_interval=None, compression=None, open_timeout=PATIENCE
        )
        equal(socket.subprotocol, "vip.v1", "the chosen subprotocol")
        return cls(session, socket, control)

    # --- what comes in ------------------------------------------------------------------------------

    async def read(self):
        try:
            async for message in self.socket:
                try:
                    if isinstance(message, str):
                        self.take(Event(message))
                    else:
                        self.take_frame(message)
                except Failed as wrong:
                    self.wrong = self.wrong or wrong
                self.changed.set()
        except ConnectionClosed:
            pass
        self.closed = self.socket.close_code
        self.check_end()
        self.changed.set()

    def fail(self, *why):
        """Something is wrong, whoever waits for whatever."""
        self.wrong = self.wrong or Failed(" ".join(str(part) for part in why))

    def take(self, event):
        session = self.session
        ensure(self.last is None or self.last.type != "session.terminated", "after session.terminated:", event)
        ensure(event.id not in session.ids, "an id comes twice:", event)
        if event.code == "SES_REPLACED":
            # The last of a transport that is no longer that of the session.
            self.fatal = self.last = event
            self.log.append(event)
            return
        self.check_seq(event)
        session.ids.add(event.id)
        session.events[event.seq] = event
        if event.type in FLEETING:
            session.fleeting.add(event.seq)
        replayed = self.replaying and event.seq < self.connected.seq
        if not replayed:
            self.check_state(event)
        self.check_kind(event, replayed)
        event.replayed = replayed
        self.last = event
        self.log.append(event)
        self.inbox.append(event)

    def check_seq(self, event):
        """Dense, on the first transport from 1; a replay keeps its numbers, and leaves out what is not stored."""
        session = self.session
        if self.last is None and event.type == "session.connected" and event["resumed"]:
            ensure(event.seq > session.last_seq, "session.connected after a resume has an old number:", event)
            self.connected, self.replaying, self.floor = event, True, session.last_seq
            self.replay_floor, self.top = session.last_seq, event.seq
        elif self.replaying and event.seq <= self.top and event.seq not in session.events:
            ensure(event.seq > self.replay_floor, "replay out of order:", event, "after", self.replay_floor)
            ensure(event.type not in FLEETING, "replay of what is not stored:", event)
            self.replay_floor = event.seq
            return
        else:
            if self.replaying and event.seq == self.top + 1:
                self.replaying = False
            if self.last is None and session.joined:
                session.last_seq = event.seq - 1
            equal(event.seq, session.last_seq + 1, f"seq of {event}")
        session.last_seq = event.seq

    def check_state(self, event):
        """Exactly one state, every transition one of the matrix, signalled next to its trigger (10.4)."""
        if self.state_seq is None:
            self.state_seq = event.state_seq
            if event.type == "session.connected":
                self.state = CO
                if not event["resumed"]:
                    equal(event.state_seq, 0, "state_seq in connecting")
        if event.type == "session.connected":
            self.state = CO
        if event.type == "state.changed":
            change = (event["previous"], event["state"], event["trigger"])
            equal(event["state_seq"], event.state_seq, f"state_seq of envelope and data of {event}")
            if event["state"] == CO:
                self.state, self.state_seq = CO, event.state_seq
                return
            ensure(change in MATRIX, "a transition outside of 10.2:", event)
            for response in self.session.responses.values():
                if response.short and event["trigger"] not in ("input.barge_in", "session.close"):
                    raise response.short
                response.short = None
            equal(event["previous"], self.state, f"previous of {event}")
            equal(event.state_seq, self.state_seq + 1, f"state_seq of {event}")
            wanted = TRIGGERS.get(event["trigger"])
            # In internal mode the client tells what has happened elsewhere.
            if wanted and not (self.control and event["previous"] != CO):
                equal(self.last.type, wanted, f"the event before {event}")
                if self.pending is None:
                    self.stale.append(self.last)
            self.state, self.state_seq, self.pending = event["state"], event.state_seq, None
            return
        ensure(self.pending is None, "between a trigger and its state.changed:", self.pending, event)
        certain = event.type in ("server.ready", "server.announce", "response.audio", "action.done") or event.type == "action.invoke" and self.state == AT
        possible = certain or event.type in TRIGGERS.values() or event.type in ("input.end", "input.timeout", "input.barge_in", "response.done")
        if possible and event.state_seq == self.state_seq + 1 or certain and event.state_seq == self.state_seq:
            if event.state_seq == self.state_seq:
                self.stale.append(event)
            self.pending = event
            return
        equal(event.state_seq, self.state_seq, f"state_seq of {event} in {self.state}")

    def check_kind(self, event, replayed):
        kind, session = event.type, self.session
        if self.control:
            ensure(kind not in NOT_ON_CONTROL, "on a control socket:", event)
        if kind in ("error.recoverable", "error.fatal"):
            check_error(event.data, kind == "error.fatal")
            self.fatal = event if kind == "error.fatal" else self.fatal
        elif kind in ("response.audio", "server.announce", "response.text.delta", "audio.start", "audio.end", "audio.interrupted", "response.done"):
            self.check_response(event, replayed)
        elif kind == "action.invoke":
            self.check_invoke(event, replayed)
        elif kind == "input.complete":
            ensure(event["turn_id"] not in session.turns, "input.complete twice:", event)
            session.turns.add(event["turn_id"])
        elif kind == "session.connected":
            equal(event["session_id"], session.id, "session_id")
            session.resume_token = event.get("resume_token", session.resume_token)
        elif kind == "audio.chunk":
            equal(session.created["audio"]["framing"], "base64", "framing")
            self.take_audio(event["stream_id"], event["seq"], event["offset_ms"], base64.b64decode(event["audio"], validate=True), event.get("flags", 0))

    def check_response(self, event, replayed):
        response = self.session.responses.setdefault(event["response_id"], Response(event["response_id"]))
        kind = event.type
        if event.value.get("response_id"):
            equal(event.value["response_id"], response.id, "response_id of envelope and data")
        # What was sent wholly can still be interrupted while it plays.
        ensure(response.done is None or kind == "audio.interrupted", "after response.done:", event)
        if replayed and response.opened is None and kind not in ("response.audio", "server.announce"):
            # A replay may begin in the middle.
            response.done = event if kind == "response.done" else None
        elif kind in ("response.audio", "server.announce"):
            ensure(response.opened is None, "a response is opened twice:", event)
            response.opened, response.stream = event, event.get("stream_id")
            if event.get("modality", "audio") == "audio":
                ensure(response.stream is not None, "spoken, but without a stream:", event)
                ensure(response.stream not in self.streams, "a stream_id comes twice:", event)
                self.streams[response.stream] = response
        elif kind == "response.text.delta":
            ensure(response.interrupted is None, "the text of an interrupted response goes on:", event)
            response.caption += event["text"]
        elif kind == "audio.start":
            ensure(response.opened is not None and response.start is None, "audio.start out of place:", event)
            equal(event["stream_id"], response.stream, "stream_id of audio.start")
            equal(event["format"], self.session.created["audio"]["output"], "format")
            ensure(replayed or self.state == AS, "audio.start in", self.state)
            response.start = event
        elif kind == "audio.end":
            # An answer without a sound has its end, too (VIP-090).
            begun = response.start is not None or event["duration_ms"] == 0 and not response.frames
            ensure(begun and response.end is None and response.interrupted is None, "audio.end out of place:", event)
            equal(event["stream_id"], response.stream, "stream_id of audio.end")
            if not replayed and self.session.created["audio"]["output"] in RATES:
                if abs(event["duration_ms"] - response.ms) > 40:
                    # Only a barge-in takes back what was to be sent.
                    response.short = Failed(f"duration_ms of {event}, but frames of {response.ms} ms came")
            response.end = event
        elif kind == "audio.interrupted":
            ensure(response.interrupted is None, "interrupted twice:", event)
            response.interrupted = event
        else:
            response.done = event
            if event["status"] == "complete":
                ensure(response.start is None or response.end is not None or replayed, "complete before audio.end:", event)
                ensure(not response.interrupted, "interrupted, and complete:", event)

    def check_invoke(self, event, replayed):
        """What a client checks before it does anything (9.2), as far as the tree is known."""
        session, id = self.session, event["invocation_id"]
        known = session.invocations.get(id)
        attempt = event.get("attempt", 1)
        if known:
            ensure(attempt > known.get("attempt", 1) or replayed, "an invocation comes twice:", event)
            equal({**event.data, "attempt": 0}, {**known.data, "attempt": 0}, "what is sent again")
        else:
            if not replayed:
                ensure(event.get("parallel", False) == (self.state == AS), "action.invoke in", self.state, event)
            equal(attempt, 1, "the first attempt")
        session.invocations[id] = event
        equal(event.value.get("role"), "assistant", "role of action.invoke")
        tree = session.tree
        if tree is None or known or replayed:
            return
        action = tree["actions"].get(event["action_id"])
        if event["action_id"] == "system.confirm":
            equal(event["type"], "confirmation", "type")
            action = tree["actions"].get(event["parameters"]["reference_action_id"], {})
            ensure(action.get("sensitive"), "a confirmation of what needs none:", event)
            return
        ensure(action is not None, "VIP-047: not in the registry:", event)
        equal(event["context_version"], session.version, "context_version")
        equal(event["type"], action["type"], "type")
        equal(event["timeout_ms"], action.get("timeout_ms", 10000), "timeout_ms") if action["type"] != "confirmation" else None
        ensure(action.get("enabled", True), "disabled:", event)
        ensure(action.get("executor", "client") == "client", "an action of the server:", event)
        parameters = dict(event["parameters"])
        if action["type"] == "navigation":
            ensure(parameters["target"] in [route["target"] for route in tree.get("routes", [])], "VIP-049: target:", event)
        elif action["type"] != "confirmation":
            ensure(action.get("global") or event["action_id"] in tree["visibility"], "VIP-048: not visible:", event)
        if action["type"] in ("button", "input"):
            equal(parameters.pop("element_id"), action["element_id"], "element_id")
        if action["type"] == "input":
            equal(parameters.pop("input_type"), action["input_type"], "input_type")
        if action["type"] != "confirmation" and "parameters" in action:
            ensure(Draft202012Validator(action["parameters"]).is_valid(parameters), "parameters break the schema:", event)
        if action.get("sensitive"):
            confirmation = event.get("confirmation_id")
            ensure((confirmation, id) in session.confirmed, "VIP-055: not confirmed:", event, session.confirmed)
            session.confirmed.discard((confirmation, id))

    def take_frame(self, message):
        ensure(len(message) >= 12, "a frame without a header:", message.hex())
        first, flags, stream, seq, offset = struct.unpack(">BBHII", message[:12])
        equal((first >> 4, first & 15), (1, 2), "version and kind of a frame")
        equal(self.session.created["audio"]["framing"], "binary", "framing")
        self.take_audio(stream, seq, offset, message[12:], flags)

    def take_audio(self, stream, seq, offset, payload, flags):
        ensure(not self.control, "audio on a control socket")
        response = self.streams.get(stream)
        ensure(response is not None, "a frame of a stream that was not announced:", stream)
        equal(self.state, AS, f"VIP-028: state while a frame of {stream} comes")
        ensure(response.start is not None, "VIP-069: a frame before audio.start")
        ensure(response.end is None and response.interrupted is None and response.done is None, "a frame after the end of its stream", stream, seq)
        ensure(flags & ~(END | MONITOR | GAP) == 0 and not flags & MONITOR, "flags", flags)
        ensure(not (response.frames and response.frames[-1].flags & END), "a frame after END")
        equal(seq, len(response.frames), "seq of a frame")
        ensure(payload or flags & END, "an empty frame")
        if not response.frames:
            ensure(self.last.type == "audio.start", "between audio.start and the first frame:", self.last)
        format = response.start["format"]
        if format in RATES:
            ensure(len(payload) % 2 == 0, "odd PCM")
        one = Frame(seq, offset, payload, flags, format, self.session.created["audio"]["frame_ms"])
        ensure(abs(offset - response.ms) <= 1, "offset_ms", offset, "after", response.ms, "ms")
        response.frames.append(one)
        response.audio += payload
        lead = one.until - (one.at - response.frames[0].at) * 1000
        ensure(lead <= 5600, "5.3: ahead of playback by", lead, "ms")

    def check_end(self):
        """VIP-077: whoever ends badly says so first."""
        code, last = self.closed, self.last
        if code == 1000 and last is not None and self.by_server:
            if last.type != "session.terminated":
                self.fail("closed with 1000 without session.terminated; last was", last)
        elif code not in (None, 1000, 1001, 1005, 1006, 1012):
            if self.fatal is None:
                self.fail("VIP-077: closed with", code, "without error.fatal; last was", last)
            elif ERRORS[self.fatal["code"]]["close"] != code:
                self.fail("closed with", code, "after", self.fatal)
        if self.pending is not None and code != 1006:
            self.fail("no state.changed after", self.pending)

    @property
    def by_server(self):
        return self.socket.protocol.close_rcvd_then_sent is True

    # --- what a check asks for ----------------------------------------------------------------------

    async def wait(self, condition, what, patience=PATIENCE):
        """Until the condition holds; what it gives."""
        deadline = time.monotonic() + patience
        while True:
            if self.wrong:
                raise Failed(f"{self.wrong}; so far {self.tail()}")
            found = condition()
            if found:
                return found
            left = deadline - time.monotonic()
            if self.closed is not None:
                raise Failed(f"closed with {self.closed} while waiting for {what}; so far {self.tail()}")
            if left <= 0:
                raise Failed(f"no {what} in {patience:.0f} s; so far {self.tail()}")
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except asyncio.TimeoutError:
                pass

    def tail(self):
        return self.log[-8:]

    async def next(self, skip=SOFT, patience=PATIENCE):
        """The next event, except for those of a kind that may always come."""

        def first():
            while self.inbox and self.inbox[0].type in skip:
                self.inbox.pop(0)
            return self.inbox.pop(0) if self.inbox else None

        return await self.wait(first, "event", patience)

    async def expect(self, kind, patience=PATIENCE, **data):
        """The next event is of this kind, with these members."""
        event = await self.next(SOFT - {kind}, patience)
        ensure(event.type == kind and all(event.get(name) == value for name, value in data.items()), f"expected {kind} {data}, got", event, "after", self.tail())
        return event

    async def until(self, kind, patience=PATIENCE, **data):
        """The next event of this kind, with these members; others go by."""

        def found():
            while self.inbox:
                event = self.inbox.pop(0)
                if event.type == kind and all(event.get(name) == value for name, value in data.items()):
                    return event

        return await self.wait(found, f"{kind} {data}", patience)

    async def error(self, *codes, about=None, patience=PATIENCE):
        """The next event is a non-fatal error with one of these codes."""
        event = await self.next(patience=patience)
        ensure(event.type == "error.recoverable" and event["code"] in codes, f"expected {codes}, got", event, "after", self.tail())
        if about is not None:
            equal(event.get("ref_id"), about, f"ref_id of {event}")
        return event

    async def dies(self, code, error=None, patience=PATIENCE):
        """The server ends the transport with this code, after this fatal error."""
        await self.wait(lambda: self.closed is not None, f"close {code}", patience)
        equal(self.closed, code, f"close code after {self.tail()}")
        if error is not None:
            ensure(self.fatal is not None, "no error.fatal;", self.tail())
            equal(self.fatal["code"], error, "the fatal error")
        if self.wrong:
            raise self.wrong
        return self.fatal

    async def idle_for(self, seconds):
        """Nothing comes for a while."""
        await asyncio.sleep(seconds)
        if self.wrong:
            raise self.wrong
        loud = [event for event in self.inbox if event.type not in SOFT]
        equal(loud, [], "what comes unasked")

    async def barrier(self):
        """Whatever was sent before is answered."""
        nonce = fresh("n")
        await self.send("session.ping", {"nonce": nonce})
        found = []

        def pong():
            while self.inbox:
                event = self.inbox.pop(0)
                if event.type == "session.pong" and event["nonce"] == nonce:
                    return event
                found.append(event)

        await self.wait(pong, "session.pong")
        return [event for event in found if event.type not in SOFT]

    # --- what goes out ------------------------------------------------------------------------------

    async def send(self, kind, data=None, **envelope):
        """An event, as a client that does everything right would send it except for what is given; its id."""
        self.session.client_seq += 1
        event = {"type": kind, "id": fresh("c"), "seq": self.session.client_seq, "ts": now(), "state_seq": self.state_seq or 0, "data": data or {}, **envelope}
        event = {name: value for name, value in event.items() if value is not None}
        if "seq" in envelope and isinstance(event.get("seq"), int):
            self.session.client_seq = max(self.session.client_seq - 1, event["seq"])
        await self.raw(json.dumps(event))
        return event.get("id")

    async def raw(self, message):
        try:
            await self.socket.send(message)
        except ConnectionClosed:
            pass

    async def connect(self, **data):
        """client.connect, and its answer."""
        await self.send("client.connect", {"session_id": self.session.id, "protocol_version": "0.1", **data})
        event = await self.next()
        equal(event.type, "session.connected", f"what client.connect is answered with: {event}")
        equal(event["audio"], self.session.created["audio"], "audio")
        return event

    async def update(self, tree, **envelope):
        id = await self.send("state.update", tree, **envelope)
        return id

    def adopt(self, tree):
        """What the tree is from now on."""
        session = self.session
        if tree["mode"] == "full":
            session.tree = json.loads(json.dumps(tree))
        else:
            known = session.tree
            for name in ("route", "routes", "narration", "visibility"):
                known[name] = tree.get(name, known.get(name))
            known["actions"].update(tree.get("actions_upsert", {}))
            for id in tree.get("actions_remove", []):
                known["actions"].pop(id, None)
            known["visibility"] = [id for id in known["visibility"] if id in known["actions"] and id not in tree.get("visibility_remove", [])] + tree.get("visibility_add", [])
        session.version = tree["context_version"]

    async def ready(self, tree):
        """S1: the first tree, until idle."""
        id = await self.update(tree)
        ack = await self.expect("state.ack", context_version=tree["context_version"], applied="now")
        equal(ack.value.get("reply_to", id), id, "reply_to of state.ack")
        self.adopt(tree)
        await self.expect("server.ready", context_version=tree["context_version"])
        await self.expect("state.changed", state=ID, previous=CO, trigger="server.ready")
        return ack

    async def change(self, tree):
        """Another tree while that is allowed."""
        await self.update(tree)
        ack = await self.expect("state.ack", context_version=tree["context_version"], applied="now")
        self.adopt(tree)
        return ack

    async def leave(self):
        """The check is over, and nothing was wrong until now."""
        if self.closed is None:
            await self.barrier()
        await self.close()

    async def close(self):
        await self.socket.close()
        await self.reader
        if self.wrong:
            raise self.wrong

    async def drop(self):
        """The transport is lost."""
        self.socket.transport.abort()
        await self.reader
