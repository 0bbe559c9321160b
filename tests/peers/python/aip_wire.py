"""The messages of AIP as the reference describes them, on nothing but `websockets`.

Written from the reference alone and without the project's own code, so that both can be wrong only in different
ways. It believes nothing: every message that comes in is held against its table (sections 3 and 4), and every
connection against the order that its sessions have to have (section 11).
"""

import asyncio
import json
import re
import socket
import struct
import time
import uuid
from datetime import datetime, timedelta, timezone

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from asp_wire import Failed, ensure, equal, jwt

# Generous: the machine may be busy with everything else.
PATIENCE = 40.0
CLIENT_FIELDS = (
    "type status client_type session_id task_name client_id target_id request action_results timestamp request_id "
    "prev_response_id error metadata"
).split()
SERVER_FIELDS = (
    "type status user_request agent_name process_name root_name actions messages error session_id task_name timestamp "
    "response_id result"
).split()
TASK_STATUS = ("continue", "completed", "failed", "ok", "error")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
# An escape of anything but a control character or what JSON itself needs.
ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[01])")

LOST_DEVICE = "Task was cancelled because target device disconnected"
LOST_OWNER = "Task was cancelled due to client disconnection"
BAD_NAME = "Invalid task_name: must be a non-empty string of characters [A-Za-z0-9._-] and must not start with '.'"


# --- the tables ------------------------------------------------------------------------------------


def text(value, what):
    ensure(isinstance(value, str) and value, what, "is no text:", repr(value)[:200])


def text_or_null(value, what):
    ensure(value is None or isinstance(value, str), what, "is neither text nor null:", repr(value)[:200])


def is_uuid4(value):
    try:
        return str(uuid.UUID(value)) == value and uuid.UUID(value).version == 4
    except (ValueError, AttributeError, TypeError):
        return False


def fresh_id(value, what):
    ensure(is_uuid4(value), what, "is no UUID4:", repr(value)[:200])


def now():
    return datetime.now(timezone.utc).isoformat()


def timestamp(value):
    ensure(isinstance(value, str) and TIMESTAMP.fullmatch(value), "timestamp", repr(value))
    ensure(not value.endswith(".000000+00:00"), "a fraction of zero is left out:", value)
    at, present = datetime.fromisoformat(value), datetime.now(timezone.utc)
    ensure(abs(at - present) < timedelta(minutes=2), "timestamp is not of now:", value)


def action(value):
    equal(list(value), ["tool_name", "parameters", "tool_type", "call_id"], "fields of a command")
    text(value["tool_name"], "tool_name")
    ensure(value["parameters"] is None or isinstance(value["parameters"], dict), "parameters", value)
    ensure(value["tool_type"] in ("data_collection", "action"), "tool_type", value)
    fresh_id(value["call_id"], "call_id")


# What may be set besides type, status and timestamp, per type; the first list has to be (section 4).
CATALOGUE = {
    "heartbeat": (("ok",), ["response_id"], ["session_id"]),
    "error": (("error",), ["error", "response_id"], ["session_id"]),
    "task": (
        ("continue",),
        ["user_request", "task_name", "session_id", "response_id"],
        ["agent_name", "process_name"],
    ),
    "command": (
        ("continue",),
        ["actions", "session_id", "response_id", "agent_name"],
        ["process_name", "root_name", "task_name"],
    ),
    "task_end": (("completed", "failed"), ["session_id", "response_id"], ["result", "error", "messages"]),
    "device_info_response": (("ok", "error"), [], ["response_id", "result", "error"]),
    "device_info_request": (("ok",), ["response_id"], []),
}


def server_message(raw):
    """Reads one message of the server and holds it against its table."""
    ensure(isinstance(raw, str), "a binary message from the server")
    bare = STRING.sub("", raw)
    ensure(not re.search(r"\s", bare), "not compact:", raw[:200])
    ensure(not ESCAPED.search(raw), "escaped what is to be raw:", raw[:200])

    def pairs(items):
        keys = [key for key, _ in items]
        equal(len(keys), len(set(keys)), f"keys {keys!r:.200}")
        return dict(items)

    value = json.loads(raw, object_pairs_hook=pairs, parse_constant=lambda word: ensure(False, "no JSON:", word))
    ensure(isinstance(value, dict), "no object:", raw[:200])
    equal(list(value), SERVER_FIELDS, "fields")
    kind = value["type"]
    ensure(kind in CATALOGUE, "unknown type", kind)
    statuses, needed, allowed = CATALOGUE[kind]
    ensure(value["status"] in statuses, "status", value["status"], "of", kind)
    for name in needed:
        ensure(value[name] is not None, name, "is missing in", raw[:400])
    for name in set(SERVER_FIELDS) - {"type", "status", "timestamp", *needed, *allowed}:
        ensure(value[name] is None, name, "is set in", raw[:400])
    for name in set(SERVER_FIELDS) - {"actions", "messages", "result"}:
        text_or_null(value[name], name)
    timestamp(value["timestamp"])
    if kind not in ("error", "device_info_response"):
        fresh_id(value["response_id"], "response_id")
    if kind == "command":
        actions = value["actions"]
        ensure(isinstance(actions, list) and 1 <= len(actions) <= 128, "actions", raw[:200])
        for item in actions:
            action(item)
        equal(len({item["call_id"] for item in actions}), len(actions), "call_ids")
    if kind == "error":
        ensure(0 < len(value["error"]) <= 1024, "length of", value["error"])
        ensure(value["error"].splitlines()[0].strip(), "first line of", value["error"])
        ensure(not re.search(r"panicked|\.rs:\d|0x[0-9a-f]{8}", value["error"]), "inner things in", value["error"])
    if kind == "task_end":
        ensure(value["status"] == "failed" or value["error"] is None, "completed with an error", raw[:200])
        ensure(
            value["status"] == "completed" or value["error"] is not None or value["result"] is not None,
            "failed without a reason",
            raw[:200],
        )
        messages = value["messages"] or []
        ensure(isinstance(messages, list) and len(messages) <= 50, "messages", raw[:200])
        ensure(all(isinstance(line, str) for line in messages), "messages", raw[:200])
    if kind == "device_info_response":
        ensure(isinstance(value["result"], dict), "result", raw[:200])
        if value["status"] == "error":
            text(value["error"], "error")
            equal(value["result"].get("error"), value["error"], "result.error")
        else:
            equal(value["error"], None, "error")
    return value


def client_message(kind, status="ok", **fields):
    """All fourteen fields, as reference clients send them."""
    strange = fields.keys() - set(CLIENT_FIELDS)
    ensure(not strange, "a client has no", strange)
    message = {name: None for name in CLIENT_FIELDS}
    message.update(type=kind, status=status, client_type="device", timestamp=now())
    message.update(fields)
    return message


def command(tool_name, tool_type="action", /, **parameters):
    return {"tool_name": tool_name, "tool_type": tool_type, "parameters": parameters}


def script(*turns, **members):
    """A request for the deterministic planner (section 15)."""
    return "aip-script:" + json.dumps({"turns": list(turns), **members}, ensure_ascii=False)


def result_of(item, status="success", **fields):
    return {"status": status, "error": None, "result": None, "namespace": None, "call_id": item["call_id"], **fields}


def fresh(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


# --- a connection ----------------------------------------------------------------------------------


class Client:
    """A connection to `/ws`, with what has come in and was not looked at yet."""

    role = "device"

    def __init__(self, websocket, name):
        self.websocket, self.name = websocket, name
        self.target = None
        self.inbox, self.changed = [], asyncio.Event()
        self.over = self.wrong = None
        self.ids, self.calls = set(), set()
        # Sessions: asked for, acknowledged, and the batch that a device has not answered yet.
        self.asked, self.live, self.open = {}, set(), {}
        self.answers, self.tolerant = None, False
        self.reader = asyncio.ensure_future(self.read())

    @classmethod
    async def open(cls, url, token=None, name=None, by="query", **options):
        headers = dict(options.pop("headers", {}))
        if token is not None:
            if by == "query":
                url += f"?token={token}"
            else:
                name_of, value = {"bearer": ("Authorization", f"Bearer {token}"), "key": ("X-API-Key", token)}[by]
                headers[name_of] = value
        settings = dict(max_size=None, max_queue=None, ping_interval=None, proxy=None)
        settings.update(open_timeout=PATIENCE, close_timeout=5, **options)
        return cls(await connect(url, additional_headers=headers, **settings), name or fresh(cls.role))

    # Out.

    async def say(self, message):
        """Sends as it is: an object as compact JSON, a text or bytes unchanged."""
        if isinstance(message, dict):
            message = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        await self.websocket.send(message)

    async def send(self, kind, status="ok", **fields):
        await self.say(client_message(kind, status, **{"client_type": self.role, "client_id": self.name, **fields}))

    async def register(self, **fields):
        await self.send("register", **self.profile(**fields))
        answer = await self.next(lambda message: True)
        equal((answer["type"], answer["status"], answer["session_id"]), ("heartbeat", "ok", None), f"registration ({answer['error']})")
        return self

    async def beat(self):
        """Everything that was sent before has been dealt with."""
        await self.say(client_message("heartbeat", client_id=self.name))
        return await self.next(lambda message: message["type"] == "heartbeat" and message["session_id"] is None)

    async def task(self, request, session=None, name=None, **fields):
        """Submits, and waits for the acknowledgement; the id of the session."""
        await self.submit(request, session, name, **fields)
        ack = await self.next(lambda m: m["type"] in ("heartbeat", "error"))
        ensure(ack["type"] == "heartbeat", "refused:", ack["error"])
        text(ack["session_id"], "session_id")
        if session is not None:
            equal(ack["session_id"], session, "session_id")
        return ack["session_id"]

    async def submit(self, request, session=None, name=None, **fields):
        self.asked[session] = self.asked.get(session, 0) + 1
        fields = {"target_id": self.target, "task_name": name or fresh("task"), **fields}
        await self.send("task", "continue", request=request, session_id=session, **fields)

    async def results(self, message, *results, status="continue", **fields):
        """Answers a COMMAND; without results, each of its actions succeeded."""
        results = list(results) or [result_of(item) for item in message["actions"]]
        self.open.pop(message["session_id"], None)
        given = dict(session_id=message["session_id"], prev_response_id=message["response_id"])
        given.update(action_results=results, request_id=str(uuid.uuid4()), **fields)
        await self.send("command_results", status, **given)

    # In.

    async def read(self):
        try:
            async for raw in self.websocket:
                message = server_message(raw)
                message["at"] = time.monotonic()
                self.take(message)
                if message["type"] == "command" and self.answers is not None:
                    answers = [self.answers(item, message) for item in message["actions"]]
                    await self.results(message, *answers)
                self.inbox.append(message)
                self.changed.set()
            self.over = self.websocket.close_code
        except ConnectionClosed as closed:
            self.over = closed.rcvd.code if closed.rcvd else 1006
        except Failed as wrong:
            # Whoever waits for this client to do something shall not wait for long.
            self.wrong = wrong
            print(f"# {self.name}: {wrong}"[:600], flush=True)
            self.websocket.transport.abort()
        finally:
            self.changed.set()

    def take(self, message):
        """Ids are used once, and sessions begin and end in order."""
        kind, session = message["type"], message["session_id"]
        if kind not in ("error", "device_info_response"):
            ensure(message["response_id"] not in self.ids, "a response_id that was there before", message)
            self.ids.add(message["response_id"])
        if kind == "heartbeat" and session is not None:
            known = session if self.asked.get(session) else None
            ensure(self.asked.get(known), "the acknowledgement of a task that nobody asked for", message)
            self.asked[known] -= 1
            ensure(session not in self.live, "acknowledged twice", message)
            self.live.add(session)
        elif kind == "command":
            calls = {item["call_id"] for item in message["actions"]}
            ensure(not calls & self.calls, "a call_id that was there before", message)
            self.calls |= calls
            outstanding = self.open.get(session)
            ensure(self.tolerant or outstanding is None, "a second command while one is open", message, outstanding)
            self.open[session] = message["response_id"]
        elif kind == "task_end":
            self.live.discard(session)
            self.open.pop(session, None)

    async def next(self, matches, timeout=PATIENCE):
        """The next message that matches; others wait."""
        deadline, seen = time.monotonic() + timeout, 0
        while True:
            for index in range(seen, len(self.inbox)):
                if matches(self.inbox[index]):
                    return self.inbox.pop(index)
            seen = len(self.inbox)
            if self.wrong:
                raise self.wrong
            ensure(self.over is None, f"{self.name}: closed with {self.over}; inbox: {self.inbox!r:.600}")
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise Failed(f"{self.name}: nothing that was waited for came; inbox: {self.inbox!r:.600}") from None

    async def kind(self, kind, session=None, timeout=PATIENCE):
        """The next of a kind, and of a session if one is named."""
        return await self.next(
            lambda message: message["type"] == kind and session in (None, message["session_id"]), timeout
        )

    async def end(self, session, status="completed", error=None, timeout=PATIENCE):
        ended = await self.kind("task_end", session, timeout)
        equal((ended["status"], ended["error"]), (status, error), f"end of {session}")
        return ended

    async def refused(self, error, session=None, id=None, ends=False):
        """The next message is this error; with `ends`, the end of the session that was asked for follows."""
        answer = await self.next(lambda message: True)
        equal(answer["type"], "error", f"type of {answer!r:.300}")
        said = answer["error"]
        ensure(error(said) if callable(error) else said == error, f"expected {error!r}, got {said!r}")
        equal(answer["session_id"], session, f"session_id of {said!r}")
        if id is not None:
            equal(answer["response_id"], id, f"response_id of {said!r}")
        else:
            fresh_id(answer["response_id"], "response_id")
        if ends:
            ended = await self.next(lambda message: True)
            follows = (ended["type"], ended["status"], ended["session_id"])
            equal(follows, ("task_end", "failed", session), "what follows")
            text(ended["error"], "error of the end")
        return answer

    async def quiet(self, but=()):
        """Nothing has come but what may."""
        await self.beat()
        loud = [message for message in self.inbox if message["type"] not in but]
        ensure(not loud, self.name, "is not quiet:", repr(loud)[:600])

    async def closed(self, code, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        while self.over is None:
            if self.wrong:
                raise self.wrong
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise Failed(f"not closed, expected {code}; inbox: {self.inbox!r:.500}") from None
        equal(self.over, code, f"close code; inbox: {self.inbox!r:.500}")

    async def reset(self):
        """The transport breaks with a reset, without a word."""
        own = self.websocket.transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.websocket.transport.abort()
        await self.websocket.wait_closed()

    async def close(self):
        await self.websocket.close()
        await self.reader
        if self.wrong:
            raise self.wrong


class Device(Client):
    """A device. With `answers`, it runs commands by itself."""

    def profile(self, **fields):
        info = {
            "device_id": self.name,
            "platform": "linux",
            "os_version": "#1 SMP",
            "cpu_count": 8,
            "memory_total_gb": 31.25,
            "hostname": "lab",
            "ip_address": "10.0.0.7",
            "supported_features": ["gui", "cli"],
            "platform_type": "computer",
            "schema_version": "1.0",
            "custom_metadata": {},
        }
        metadata = {"system_info": info, "registration_time": now(), "platform": "linux"}
        return {"metadata": metadata, **fields}

    def serves(self, answers=lambda item, message: result_of(item, result=item["parameters"])):
        self.answers = answers
        return self


class Constellation(Client):
    """An orchestrator, registered for one device."""

    role = "constellation"

    def profile(self, target=None, **fields):
        self.target = target or self.target
        metadata = {"type": "constellation_client", "task_name": "run42", "targeted_device_id": self.target}
        return {"target_id": self.target, "metadata": metadata, **fields}

    async def info(self, target=None, id=None, **fields):
        id = id or fresh("info")
        await self.send("device_info_request", target_id=target or self.target, request_id=id, **fields)
        return id
