"""The messages of Acolyte as the reference describes them, on nothing but `websockets`.

Written from the reference alone and without the project's own code, so that both can be wrong only in different
ways. It believes nothing: every message that comes in is held against its table, field by field, and every chat
against its grammar.
"""

import asyncio
import json
import re
import secrets
import time

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from asp_wire import Failed, ensure, equal, jwt

# Generous: the machine may be busy with everything else.
PATIENCE = 60.0
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
STATES = ("accepted", "queued", "running", "completed", "failed", "cancelled")
PROVIDERS = ("anthropic", "google", "openai", "vercel")
REFERENCE = "error.structured, stream.sse, workspace.path"


# --- the tables (sections 3 to 8) ------------------------------------------------------------------


def text(value, least=0):
    ensure(isinstance(value, str) and len(value) >= least, "not a text:", repr(value)[:200])


def filled(value):
    text(value)
    ensure(value.strip(), "blank")


def integer(value, least=0):
    ensure(isinstance(value, int) and not isinstance(value, bool) and value >= least, "not an integer:", repr(value))


def boolean(value):
    ensure(isinstance(value, bool), "not a boolean:", repr(value))


def mapping(value):
    ensure(isinstance(value, dict), "not an object:", repr(value)[:200])


def texts(value):
    ensure(isinstance(value, list), "not a list:", repr(value)[:200])
    for item in value:
        text(item)


def matching(pattern):
    def check(value):
        ensure(isinstance(value, str) and re.fullmatch(pattern, value), "does not match", pattern, repr(value)[:200])

    return check


def identifier(prefix):
    return matching(prefix + "_[a-z0-9]+")


def one_of(*words):
    return lambda value: ensure(value in words, repr(value), "is none of", words)


def each(check):
    def all_of(value):
        ensure(isinstance(value, list), "not a list:", repr(value)[:200])
        for item in value:
            check(item)

    return all_of


def shape(required, optional=None):
    """Exactly these fields, each with its type; nothing else, and null nowhere."""
    optional = optional or {}

    def check(value):
        mapping(value)
        missing, strange = required.keys() - value.keys(), value.keys() - required.keys() - optional.keys()
        ensure(not missing, "missing", missing, "in", repr(value)[:300])
        ensure(not strange, "strange", strange, "in", repr(value)[:300])
        for name, item in value.items():
            try:
                (required.get(name) or optional[name])(item)
            except Failed as failed:
                raise Failed(f"{name}: {failed}") from None

    return check


def tagged(tag, table):
    """One of several shapes, by the word under `tag`."""

    def check(value):
        mapping(value)
        ensure(value.get(tag) in table, "unknown", tag, repr(value)[:300])
        required, optional = table[value[tag]]
        shape({tag: text, **required}, optional)(value)

    return check


DETAIL = {name: lambda value: text(value, 1) for name in ("code", "category", "kind", "source")}
CLASSES = {
    "E_TIMEOUT": ("timeout", "timeout"),
    "E_FILE_NOT_FOUND": ("file-not-found", "file_not_found"),
    "E_BUDGET_EXHAUSTED": ("budget-exhausted", "budget_exhausted"),
    "E_SANDBOX_VIOLATION": ("other", "sandbox_violation"),
    "E_ABORTED": ("other", "aborted"),
    "E_PROTOCOL_VERSION": ("other", "protocol_version"),
    "E_OVERLOADED": ("other", "overloaded"),
}


def error_body(value, tool=None):
    """`errorCode` and `error`, which have to agree (section 8)."""
    shape(DETAIL, {"tool": text})(value["error"])
    detail = value["error"]
    equal(value["errorCode"], detail["code"], "errorCode")
    equal((detail["category"], detail["kind"]), CLASSES.get(detail["code"], ("other", "unknown")), "class")
    sources = ("tool-result", "tool-error") if tool else ("server", "generate")
    ensure(detail["source"] in sources, "source", detail)
    equal(detail.get("tool"), tool, "tool")


ERROR = {"errorMessage": lambda value: text(value, 1), "errorId": identifier("err"), "errorCode": text, "error": mapping}
SKILL = shape({"name": lambda value: text(value, 1), "instructions": lambda value: text(value, 1)})
ITEM = shape(
    {
        "id": lambda value: text(value, 1),
        "label": lambda value: text(value, 1),
        "status": one_of("pending", "in_progress", "done", "failed"),
        "order": integer,
    }
)
LIST = {"groupId": lambda value: text(value, 1), "groupTitle": lambda value: text(value, 1), "items": each(ITEM)}
PART = tagged(
    "kind",
    {
        "tool-header": ({"labelKey": filled}, {"detail": text, "state": one_of("on", "off")}),
        "text": ({"text": filled}, {}),
        "file-header": ({"labelKey": filled, "count": integer, "targets": each(filled)}, {}),
        "scope-header": ({"labelKey": filled, "scope": filled, "patterns": texts, "matches": integer}, {}),
        "edit-header": ({"labelKey": filled, "path": filled, "added": integer, "removed": integer}, {}),
        "diff": (
            {"marker": one_of("add", "remove", "context"), "lineNumber": lambda value: integer(value, 1), "text": text},
            {},
        ),
        "shell-output": ({"stream": one_of("stdout", "stderr"), "text": text}, {}),
        "no-output": ({}, {}),
        "truncated": ({}, {"count": integer, "unit": text}),
    },
)
CALL = {"toolCallId": lambda value: text(value, 1), "toolName": lambda value: text(value, 1)}
EVENT = tagged(
    "type",
    {
        # Over RPC only `running` is sent, and a stream knows no other state either.
        "status": ({"state": tagged("kind", {"running": ({}, {"toolCalls": integer})})}, {}),
        "reasoning": ({"text": text}, {}),
        "tool-call": ({**CALL, "args": mapping}, {}),
        "tool-output": ({**CALL, "content": PART}, {}),
        "tool-result": (CALL, {"isError": boolean, "errorCode": text, "error": mapping}),
        "text-delta": ({"text": text}, {}),
        "usage": ({"inputTokens": integer, "outputTokens": integer}, {}),
        "checklist": (LIST, {}),
        "tasklist": (LIST, {}),
        "notice": ({"level": one_of("warn", "error"), "message": text}, {"source": text}),
        "skill-activated": ({"skill": SKILL}, {}),
        "skill-deactivated": ({"name": lambda value: text(value, 1)}, {}),
    },
)
TOKENS = {"inputTokens": integer, "outputTokens": integer, "totalTokens": integer}
BREAKDOWN = ("budget", "used", "system", "tool", "skill", "memory", "message")
REPLY = shape(
    {"output": text, "outputStreamed": boolean, "model": lambda value: text(value, 1)},
    {
        "usage": shape(TOKENS, {"inputBudgetTokens": integer}),
        "promptBreakdown": shape({}, {f"{name}Tokens": integer for name in BREAKDOWN}),
        "toolCalls": texts,
        "modelCalls": integer,
        "error": lambda value: text(value, 1),
        "activeSkills": each(SKILL),
    },
)
TASK = shape({"id": identifier("task"), "state": one_of(*STATES), "createdAt": matching(TIME), "updatedAt": matching(TIME)})


def status(value):
    """Section 4.1: the fields, and nothing that makes a reader of the reference reject it."""
    mapping(value)
    required = {
        "ok": one_of(True),
        "providers": each(one_of(*PROVIDERS)),
        "provider_auth": texts,
        "model": text,
        "protocol_version": one_of("1"),
        "capabilities": text,
        "service": matching(r"https?://[^/\s]+"),
        "tasks_total": integer,
        "tasks_running": integer,
        "rpc_queue_length": integer,
    }
    for name, check in required.items():
        ensure(name in value, "missing", name)
        check(value[name])
    for name, item in value.items():
        simple = isinstance(item, (bool, str, int, float))
        ensure(simple or (isinstance(item, list) and all(isinstance(x, str) for x in item)), name, item)
    tokens = value["capabilities"].split(", ")
    equal(tokens, sorted(tokens), "sorted capabilities")
    ensure(set(REFERENCE.split(", ")) <= set(tokens), "capabilities", tokens)


def null_or(check):
    return lambda value: value is None or check(value)


MESSAGE = {
    "status.result": ({"status": status}, {}),
    "chat.accepted": ({"taskId": identifier("task")}, {}),
    "chat.queued": ({"position": lambda value: integer(value, 1)}, {}),
    "chat.started": ({}, {}),
    "chat.event": ({"event": EVENT}, {"position": integer}),
    "chat.done": ({"reply": REPLY}, {}),
    "chat.error": (ERROR, {}),
    "chat.abort.result": ({"requestId": identifier("rpc"), "aborted": boolean}, {}),
    "task.status.result": ({"task": null_or(TASK)}, {}),
    "error": ({"error": lambda value: text(value, 1)}, {}),
}


# --- the grammar of a chat (sections 5.2 and 6) ----------------------------------------------------


class Chat:
    """What was said of one chat, in the order that it has to have.

    The same for both transports: a stream over HTTP begins where `chat.started` would be.
    """

    def __init__(self, phase="new", before=None):
        self.phase = phase
        self.task = None
        self.positions = []
        self.events, self.open, self.called = [], {}, set()
        self.terminal = None
        # The last position that was told, and how many events came up to there.
        self.after = self.settled = 0
        if before is not None:
            # A chat that is followed again goes on after the last position, whatever came later.
            self.phase = "running"
            for event in before.events[: before.settled]:
                self.event(event)
            self.phase, self.after, self.settled = phase, before.after, before.settled

    def step(self, allowed, then, what):
        ensure(self.phase in allowed, f"{what} of a chat that is {self.phase}")
        self.phase = then

    def take(self, message):
        kind = message["type"]
        if kind == "chat.accepted":
            self.step(("new",), "accepted", kind)
            self.task = message["taskId"]
        elif kind == "chat.queued":
            self.step(("accepted", "queued"), "queued", kind)
            ensure(not self.positions or message["position"] <= self.positions[-1], "moved back", self.positions)
            self.positions.append(message["position"])
        elif kind == "chat.started":
            self.step(("accepted", "queued"), "running", kind)
        elif kind == "chat.event":
            self.event(message["event"])
            if "position" in message:
                ensure(message["position"] > self.after, "a position that was there before", message)
                self.after, self.settled = message["position"], len(self.events)
        elif kind == "chat.done":
            self.done(message["reply"])
        elif kind == "chat.error":
            error_body(message)
            # Before it began, a chat can only be stopped.
            ensure(self.phase == "running" or message["errorCode"] == "E_ABORTED", "failed before it began", message)
            self.step(("accepted", "queued", "running"), "over", kind)
            self.terminal = message

    def event(self, event):
        self.step(("running",), "running", event["type"])
        kind = event["type"]
        if kind == "tool-call":
            ensure(event["toolCallId"] not in self.called, "announced twice", event)
            self.called.add(event["toolCallId"])
            self.open[event["toolCallId"]] = event["toolName"]
        elif kind in ("tool-output", "tool-result"):
            ensure(event["toolCallId"] in self.open, "a call that is not open", event)
            equal(event["toolName"], self.open[event["toolCallId"]], "toolName")
        if kind == "tool-result":
            del self.open[event["toolCallId"]]
            failed = event.get("isError", False)
            equal({"errorCode", "error"} <= event.keys(), failed, f"errorCode and error of {event}")
            if failed:
                error_body(event, tool=event["toolName"])
        self.events.append(event)

    def done(self, reply):
        self.step(("running",), "over", "done")
        ensure(not self.open, "calls without a result", self.open)
        tools = [event["toolName"] for event in self.of("tool-call")]
        equal(reply.get("toolCalls", tools), tools, "toolCalls")
        ensure(self.of("usage"), "no usage at all")
        if reply["outputStreamed"]:
            ensure(self.text.strip().endswith(reply["output"].strip()), "output", reply["output"], self.text[-300:])
        if "usage" in reply:
            last, usage = self.of("usage")[-1], reply["usage"]
            equal((last["inputTokens"], last["outputTokens"]), (usage["inputTokens"], usage["outputTokens"]), "usage")
            equal(usage["totalTokens"], usage["inputTokens"] + usage["outputTokens"], "totalTokens")
        self.terminal = {"type": "chat.done", "reply": reply}

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    @property
    def text(self):
        return "".join(event["text"] for event in self.of("text-delta"))

    @property
    def reply(self):
        ensure(self.terminal and self.terminal["type"] == "chat.done", "no reply but", self.terminal)
        return self.terminal["reply"]

    @property
    def error_code(self):
        ensure(self.terminal and self.terminal["type"] != "chat.done", "no error but", self.terminal)
        return self.terminal["errorCode"]


# --- a connection ----------------------------------------------------------------------------------


def fresh(prefix="rpc"):
    return f"{prefix}_{secrets.token_hex(8)}"


def request_of(message, **members):
    return {"message": message, "history": [], "model": "gpt-5-mini", **members}


class Rpc:
    """A connection to `/v1/rpc`, with what has come in and was not looked at yet."""

    def __init__(self, websocket):
        self.websocket = websocket
        self.inbox, self.chats, self.attached = [], {}, set()

    @classmethod
    async def open(cls, url, token=None, subprotocols=None, headers=None, **options):
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        settings = dict(compression=None, max_size=None, max_queue=None, ping_interval=None, proxy=None)
        settings.update(open_timeout=PATIENCE, close_timeout=5, **options)
        return cls(await connect(url, subprotocols=subprotocols, additional_headers=headers, **settings))

    async def send(self, kind, id=None, payload=None, **envelope):
        id = id or fresh()
        message = {"id": id, "type": kind, **envelope}
        if payload is not None:
            message["payload"] = payload
        await self.websocket.send(json.dumps(message))
        return id

    async def start(self, message, id=None, **members):
        """Starts a chat. What follows under its id is held against the grammar."""
        id = id or fresh()
        if id not in self.chats or self.chats[id].phase in ("over", "refused"):
            self.chats[id] = Chat()
            self.inbox = [message for message in self.inbox if message["id"] != id]
        return await self.send("chat.start", id, {"request": request_of(message, **members)})

    async def attach(self, before=None, id=None, **payload):
        """Follows a task, from where `before` was."""
        id = id or fresh()
        self.chats[id] = Chat(before=before)
        self.attached.add(id)
        if before is not None and before.after:
            payload["after"] = before.after
        return await self.send("chat.attach", id, payload)

    async def receive(self, timeout=PATIENCE):
        raw = await asyncio.wait_for(self.websocket.recv(), timeout)
        ensure(isinstance(raw, str), "a binary message from the server")
        self.take(json.loads(raw))

    def take(self, message):
        mapping(message)
        kind = message.get("type")
        ensure(kind in MESSAGE, "unknown message", repr(message)[:300])
        required, optional = MESSAGE[kind]
        shape({"id": identifier("rpc"), "type": text, **required}, optional)(message)
        if kind.startswith("chat.") and kind != "chat.abort.result":
            chat = self.chats.get(message["id"])
            ensure(chat is not None, "a chat that nobody started", message)
            if kind == "chat.started" and message["id"] not in self.attached:
                others = [id for id, other in self.chats.items() if other.phase == "running" and id not in self.attached]
                ensure(not others, "a second chat runs on this connection", message, others)
            chat.take(message)
        elif kind == "error" and (chat := self.chats.get(message["id"])) is not None and chat.phase == "new":
            chat.phase = "refused"
        self.inbox.append(message)

    async def next(self, matches, timeout=PATIENCE):
        """The next message that matches; others wait."""
        deadline, seen = time.monotonic() + timeout, 0
        while True:
            for index in range(seen, len(self.inbox)):
                if matches(self.inbox[index]):
                    return self.inbox.pop(index)
            seen = len(self.inbox)
            try:
                await self.receive(max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise Failed(f"nothing that was waited for came; inbox: {self.inbox!r:.800}") from None
            except ConnectionClosed as closed:
                raise Failed(f"closed with {closed.rcvd}; inbox: {self.inbox!r:.800}") from None

    async def answer(self, id, kind):
        """The next message with this id, which has to be of this kind."""
        message = await self.next(lambda message: message["id"] == id)
        equal(message["type"], kind, f"type of {message!r:.300}")
        return message

    async def event(self, id, kind):
        return (
            await self.next(lambda m: m["id"] == id and m["type"] == "chat.event" and m["event"]["type"] == kind)
        )["event"]

    async def finish(self, id):
        """Everything of a chat up to its terminal."""
        await self.next(lambda m: m["id"] == id and m["type"] in ("chat.done", "chat.error"))
        self.inbox = [message for message in self.inbox if message["id"] != id]
        return self.chats[id]

    async def chat(self, message, **members):
        return await self.finish(await self.start(message, **members))

    async def status(self, payload=None):
        return (await self.answer(await self.send("status.get", None, payload), "status.result"))["status"]

    async def offer(self, *capabilities):
        """Agrees on these, all of which the server has to have."""
        status = await self.status({"protocol_version": "1", "capabilities": ", ".join(capabilities)})
        equal(status["capabilities_agreed"], ", ".join(sorted(capabilities)), "capabilities_agreed")

    async def task(self, task, **payload):
        id = await self.send("task.status", None, {"taskId": task, **payload})
        return (await self.answer(id, "task.status.result"))["task"]

    async def task_becomes(self, task, state):
        """Asks again and again, since nothing tells when."""
        deadline = time.monotonic() + PATIENCE
        while (found := await self.task(task)) is None or found["state"] != state:
            ensure(found is None or found["state"] not in STATES[3:], f"task is {found}, not {state}")
            ensure(time.monotonic() < deadline, f"task stays {found}, and does not become {state}")
            await asyncio.sleep(0.05)
        return found

    async def abort(self, request):
        id = await self.send("chat.abort", None, {"requestId": request})
        answer = await self.answer(id, "chat.abort.result")
        equal(answer["requestId"], request, "requestId")
        return answer["aborted"]

    async def refused(self, id, why="Invalid RPC message"):
        said = (await self.answer(id, "error"))["error"]
        # The field that is at fault may follow.
        equal(said.split(": request.")[0], why, "error")

    async def alive(self):
        """Everything that was sent before has been dealt with, and the connection is as it was."""
        await self.status()
        # A chat is accepted when it is stored, which may be later than the answer to what was asked after it.
        while any(chat.phase in ("new", "accepted") for chat in self.chats.values()):
            await self.receive()

    async def closed(self, code):
        """The server closes with this code; what came before is kept."""
        try:
            while True:
                await self.receive()
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


# --- a stream over HTTP (section 2.4) --------------------------------------------------------------


class Events:
    """Takes the bytes of a stream: exactly `data: JSON\\n\\n`, or the comment `:\\n\\n`."""

    def __init__(self):
        self.rest = b""
        self.chat = Chat(phase="running")
        self.comments = 0
        self.frames = []

    def push(self, piece):
        self.rest += piece
        while b"\n\n" in self.rest:
            block, self.rest = self.rest.split(b"\n\n", 1)
            if block == b":":
                self.comments += 1
                continue
            ensure(block.startswith(b"data: "), "no data:", block[:200])
            ensure(b"\n" not in block and b"\r" not in block, "more than one line", block[:200])
            self.take(json.loads(block[6:].decode()))

    def take(self, frame):
        ensure(self.chat.terminal is None, "a frame after the terminal one", frame)
        self.frames.append(frame)
        if frame.get("type") == "done":
            shape({"type": text, "reply": REPLY})(frame)
            self.chat.done(frame["reply"])
        elif frame.get("type") == "error":
            shape({"type": text, **ERROR})(frame)
            error_body(frame)
            self.chat.step(("running",), "over", "error")
            self.chat.terminal = frame
        else:
            EVENT(frame)
            self.chat.event(frame)

    def end(self):
        """The body is over, which it may be only after a terminal."""
        equal(self.rest, b"", "what is left")
        ensure(self.chat.terminal is not None, "no terminal frame")
        return self.chat
