"""Checks running servers from outside: `acolyte_peer.py URL --open URL --folder PATH`, or `acolyte_peer.py URL --shutdown`.

URL is that of a server with the conformance story as its default agent, raised limits, `keepalive_s` of one second, one
workspace (PATH, with an empty folder `inner` in it), and the credentials that the environment names (see
`crates/cli/tests/acolyte.rs`): PEER_KEY_ANN, PEER_KEY_ADMIN (the only one with the scope `admin`), PEER_JWT_SECRET,
PEER_JWT_ISSUER and PEER_JWT_AUDIENCE. The server behind `--open` has no credentials, `heartbeat_s` of one second, and
drops whoever is silent for eight seconds, or takes nothing for five.

Names begin with the statement of the reference that they show. One line per check; see `checks.py`.
"""

import asyncio
import base64
import hashlib
import json
import os
import socket
import sys
import time
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed

import acolyte_http
from acolyte_wire import *
from checks import run, run_beside, summary, wanted

CHECKS, OPEN = [], []


def check(function):
    """Against the server with credentials."""
    CHECKS.append(function)
    return function


def unkeyed(function):
    """Against the server without."""
    OPEN.append(function)
    return function


class World:
    """Where the server is, and who may talk to it."""

    def __init__(self, base, folder=None):
        self.base, self.folder = base.rstrip("/"), folder
        parts = urlsplit(self.base)
        self.address, self.host = (parts.hostname, parts.port), parts.netloc
        self.url = f"ws://{self.host}/v1/rpc"
        self.ann, self.admin = (os.environ[f"PEER_KEY_{who}"] for who in ("ANN", "ADMIN"))

    def somebody(self):
        """A principal whom no other check knows, so that counts are its own."""
        env = os.environ
        issuer, audience = env["PEER_JWT_ISSUER"], env["PEER_JWT_AUDIENCE"]
        claims = {"iss": issuer, "aud": audience, "sub": fresh("sub"), "exp": int(time.time()) + 3600}
        return jwt(env["PEER_JWT_SECRET"], None, **claims)

    async def rpc(self, token=None, **options):
        return await Rpc.open(self.url, token or self.somebody(), **options)

    async def http(self, target, method="GET", body=b"", upgrade=False, headers=()):
        """One HTTP request, written by hand: status, headers, and what follows them up to the stated length."""
        fields = [("Host", self.host), *headers]
        if upgrade:
            key = base64.b64encode(os.urandom(16)).decode()
            fields += [("Upgrade", "websocket"), ("Connection", "Upgrade")]
            fields += [("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", key)]
        if body or method == "POST":
            fields.append(("Content-Length", str(len(body))))
        reader, writer = await asyncio.open_connection(*self.address)
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            first, *rest = head.decode().strip().split("\r\n")
            answered = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
            said = await asyncio.wait_for(read_body(reader, answered), PATIENCE)
            return int(first.split()[1]), answered, said
        finally:
            writer.close()

    async def upgrade(self, target="/v1/rpc", **headers):
        """An upgrade by hand: status and headers."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        status, answered, said = await self.http(target, upgrade=True, headers=fields)
        if status != 101:
            ensure(answered["content-type"].startswith(("text/plain", "application/json")), answered)
        return status, answered, said.decode()


async def read_body(reader, headers):
    """The body of an answer, of a stated length or in chunks."""
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    said = b""
    while size := int(await reader.readline(), 16):
        said += await reader.readexactly(size)
        await reader.readexactly(2)
    return said


async def running(rpc, message="hang after 1", **members):
    """A chat that is at work and stays so."""
    id = await rpc.start(message, **members)
    await rpc.event(id, "text-delta")
    return id


def kinds(messages):
    return [message["type"] for message in messages]


# --- the upgrade (section 2) -----------------------------------------------------------------------


@check
async def ac_003_an_upgrade_needs_a_key(world):
    status, headers, said = await world.upgrade()
    equal((status, said), (401, "Unauthorized"), "without a key")
    status, _, said = await world.upgrade(Sec_WebSocket_Protocol="chat, bearer")
    equal((status, said), (401, "Unauthorized"), "without a key among sub-protocols")
    # Who somebody is comes before what they want.
    status, _, said = await world.http("/v1/rpc")
    equal((status, said), (401, b"Unauthorized"), "not even an upgrade")


@check
async def ac_004_a_wrong_key_and_another_spelling_of_the_scheme(world):
    for value in (f"bearer {world.ann}", f"BEARER {world.ann}", f"Bearer {world.ann}x", "Bearer ", world.ann, f"Basic {world.ann}"):
        status, _, said = await world.upgrade(Authorization=value)
        equal((status, said), (401, "Unauthorized"), value)
    for value in (f"bearer.{world.ann}x", f"Bearer.{world.ann}", f"bearer.{world.ann[:-1]}", "bearer.", world.ann):
        status, _, said = await world.upgrade(Sec_WebSocket_Protocol=value)
        equal((status, said), (401, "Unauthorized"), value)


@check
async def ac_005_a_key_in_the_header(world):
    rpc = await Rpc.open(world.url, world.ann)
    equal(rpc.websocket.subprotocol, None, "nothing was offered, nothing is selected")
    equal((await rpc.chat("echo hello")).reply["output"], "hello", "output")
    await rpc.close()


@check
async def ac_006_a_key_as_a_subprotocol(world):
    own = f"bearer.{world.ann}"
    for offered in ([own], ["chat", own], [own, "chat"], ["bearer.wrong-key", "chat", own, "more"]):
        rpc = await Rpc.open(world.url, subprotocols=offered)
        equal(rpc.websocket.subprotocol, own, f"selected of {len(offered)}")
        equal((await rpc.chat("echo hello")).reply["output"], "hello", "output")
        await rpc.close()
    status, headers, _ = await world.upgrade(Sec_WebSocket_Protocol=f"chat,   {own}  ,more")
    equal((status, headers["sec-websocket-protocol"]), (101, own), "blanks around")


@check
async def ac_007_an_offer_is_answered(world):
    own = f"bearer.{world.ann}"
    status, headers, _ = await world.upgrade(Sec_WebSocket_Protocol=own)
    equal((status, headers.get("sec-websocket-protocol")), (101, own), "alone")
    status, headers, _ = await world.upgrade(Authorization=f"Bearer {world.ann}", Sec_WebSocket_Protocol="chat, superchat")
    equal((status, headers.get("sec-websocket-protocol")), (101, "chat"), "the key is in the header")
    status, headers, _ = await world.upgrade(Authorization=f"Bearer {world.ann}")
    equal((status, headers.get("sec-websocket-protocol")), (101, None), "nothing offered")
    ensure("sec-websocket-extensions" not in headers, "nothing is compressed", headers)


@check
async def ac_008_a_key_in_the_query_is_none(world):
    for query in (f"?apiKey={world.ann}", f"?api_key={world.ann}", f"?token={world.ann}"):
        for target in (f"/v1/rpc{query}", f"/v1/status{query}"):
            status, _, said = await world.http(target, upgrade=target.startswith("/v1/rpc"))
            equal((status, said), (401, b"Unauthorized"), target)
    status, _, _ = await world.upgrade("/v1/rpc?whatever=1", Authorization=f"Bearer {world.ann}")
    equal(status, 101, "a query is ignored otherwise")


@check
async def ac_009_not_an_upgrade(world):
    key = [("Authorization", f"Bearer {world.ann}")]
    status, headers, said = await world.http("/v1/rpc", headers=key)
    equal((status, said), (400, b"WebSocket upgrade failed"), "GET")
    ensure(headers["content-type"].startswith("text/plain"), headers)
    status, _, said = await world.http("/v1/rpc", "POST", b"{}", headers=key)
    equal((status, said), (400, b"WebSocket upgrade failed"), "any method")
    broken = [*key, ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "8")]
    status, _, said = await world.http("/v1/rpc", headers=broken)
    equal((status, said), (400, b"WebSocket upgrade failed"), "an old version")


@check
async def upgrades_from_foreign_pages_are_refused(world):
    key = f"Bearer {world.ann}"
    neighbours = ("http://localhost", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:1")
    strangers = ("https://evil.test", "null", f"http://{world.host}.evil.test", "http://localhost.evil.test")
    # Other pages of this machine are not listed either.
    for origin in (*strangers, *neighbours):
        status, _, said = await world.upgrade(Authorization=key, Origin=origin)
        equal((status, said), (403, "Forbidden"), origin)
    status, _, _ = await world.upgrade(Authorization=key, Origin=f"http://{world.host}")
    equal(status, 101, "a page of the server's own")


@check
async def versions_are_judged_at_the_upgrade(world):
    key = f"Bearer {world.ann}"
    for target, headers in (("/v1/rpc?protocol=9", {}), ("/v1/rpc", {"acolyte_protocol": "9"})):
        status, answered, said = await world.upgrade(target, Authorization=key, **headers)
        equal((status, answered["content-type"]), (400, "application/json"), target)
        error = json.loads(said)
        equal(error["errorCode"], "E_PROTOCOL_VERSION", "errorCode")
        error_body(error)
    for target, headers in (("/v1/rpc?protocol=1", {}), ("/v1/rpc", {"acolyte_protocol": "1"})):
        status, answered, _ = await world.upgrade(target, Authorization=key, **headers)
        equal((status, answered["acolyte-protocol"]), (101, "1"), target)
    # Who somebody is comes first here, too.
    equal((await world.upgrade("/v1/rpc?protocol=9"))[0], 401, "without a key")


# --- status (sections 4.1 and 10) ------------------------------------------------------------------


@check
async def ac_012_status_under_the_same_id(world):
    rpc = await world.rpc()
    id = await rpc.send("status.get")
    status = (await rpc.answer(id, "status.result"))["status"]
    equal((status["tasks_total"], status["tasks_running"], status["rpc_queue_length"]), (0, 0, 0), "counts")
    equal(status["service"], world.base, "service")
    ensure("protocol_versions" not in status and "capabilities_agreed" not in status, "nothing was offered", status)
    await rpc.close()


@check
async def ac_013_version_and_capabilities(world):
    rpc = await world.rpc()
    status = await rpc.status()
    equal(status["protocol_version"], "1", "protocol_version")
    ensure({"error.structured", "stream.sse", "workspace.path"} <= set(status["capabilities"].split(", ")), status)
    answer = await rpc.status({"protocol_version": "1", "capabilities": "stream.sse,  nonsense , error.structured"})
    equal(answer["protocol_versions"], ["1"], "protocol_versions")
    equal(answer["capabilities_agreed"], "error.structured, stream.sse", "capabilities_agreed")
    answer = await rpc.status({"protocol_version": "1", "capabilities": ""})
    equal(answer["capabilities_agreed"], "", "nothing in common")
    await rpc.close()


@check
async def ac_015_an_unknown_payload_is_ignored(world):
    rpc = await world.rpc()
    for payload in ({"what": {"ever": 1}}, {"protocol_version": 1, "capabilities": ["x"]}, {"protocol_version": None}):
        status = await rpc.status(payload)
        ensure("capabilities_agreed" not in status, payload, status)
    for payload in ("text", 7, [1], None):
        id = fresh()
        await rpc.websocket.send(json.dumps({"id": id, "type": "status.get", "payload": payload}))
        await rpc.answer(id, "status.result")
    await rpc.close()


@check
async def ac_016_unary_answers_while_a_chat_runs(world):
    rpc = await world.rpc()
    id = await running(rpc)
    for _ in range(3):
        status = await rpc.status()
        equal((status["tasks_total"], status["tasks_running"]), (1, 1), "counts")
        equal((await rpc.task(rpc.chats[id].task))["state"], "running", "state")
    equal(await rpc.abort(id), True, "aborted")
    await rpc.close()


@check
async def ac_079_a_version_that_is_not_spoken(world):
    rpc = await world.rpc()
    words = 'Unsupported protocol version "9"; supported: 1'
    await rpc.refused(await rpc.send("status.get", None, {"protocol_version": "9"}), words)
    await rpc.refused(await rpc.start("echo x"), words)
    await rpc.alive()
    await rpc.refused(await rpc.start("echo x"), words)
    await rpc.status({"protocol_version": "1"})
    equal((await rpc.chat("echo x")).reply["output"], "x", "after a better offer")
    await rpc.close()


# --- chats (sections 5 and 6) ----------------------------------------------------------------------


@check
async def ac_017_a_plain_chat(world):
    rpc = await world.rpc()
    id = await rpc.start("count 5", sessionId="sess_plain1", resourceId="user_1", suggestions=["be kind"], activeSkills=[])
    chat = await rpc.finish(id)
    equal(chat.events[0], {"type": "status", "state": {"kind": "running"}}, "the first event")
    equal(chat.events[1]["type"], "usage", "the second event")
    equal(chat.text, "1 2 3 4 5 ", "text")
    reply = chat.reply
    equal((reply["output"], reply["outputStreamed"], reply["model"]), ("1 2 3 4 5 ", True, "gpt-5-mini"), "reply")
    equal((reply["toolCalls"], reply["activeSkills"], reply.get("error")), ([], [], None), "reply")
    await rpc.alive()
    ensure(not any(message["id"] == id for message in rpc.inbox), "nothing follows the terminal")
    await rpc.close()


@check
async def ac_021_order_is_kept(world):
    rpc = await world.rpc()
    chat = await rpc.chat("count 3000")
    equal(chat.text, "".join(f"{number} " for number in range(1, 3001)), "text")
    chat = await rpc.chat("echo Grüße, 🌍! \u2028 \\ \" \n tab\t")
    equal(chat.reply["output"], "Grüße, 🌍! \u2028 \\ \" \n tab", "characters")
    await rpc.close()


@check
async def ac_022_output_that_was_not_streamed(world):
    rpc = await world.rpc()
    reply = (await rpc.chat('finish empty {"a": 1}')).reply
    equal((reply["outputStreamed"], json.loads(reply["output"])), (False, {"a": 1}), "a structured result")
    reply = (await rpc.chat("nothing")).reply
    equal(reply["outputStreamed"], False, "outputStreamed")
    ensure(reply["error"], "nothing at all is a failure")
    await rpc.close()


@check
async def ac_024_tools_are_announced_and_end(world):
    rpc = await world.rpc()
    chat = await rpc.chat("tool builder 3")
    [call], outputs, [result] = chat.of("tool-call"), chat.of("tool-output"), chat.of("tool-result")
    equal((call["toolName"], call["args"]), ("worker", {"name": "builder", "n": 3}), "call")
    said = [output["content"].get("text", "").strip() for output in outputs if output["content"]["kind"] == "text"]
    equal(said, ["piece 1", "piece 2", "piece 3"], "output")
    ensure("isError" not in result, result)
    equal((chat.reply["output"], chat.reply["toolCalls"]), ("done", ["worker"]), "reply")
    await rpc.close()


@check
async def ac_026_a_failed_tool(world):
    rpc = await world.rpc()
    for message, code in (("tool-error it broke", "E_UNKNOWN"), ("tool-error no such file [E_FILE_NOT_FOUND]", "E_FILE_NOT_FOUND")):
        chat = await rpc.chat(message)
        [result] = chat.of("tool-result")
        equal((result["isError"], result["errorCode"]), (True, code), "result")
        equal((chat.reply["output"], chat.reply.get("error")), ("done", None), "AC-027: the turn goes on")
    await rpc.close()


@check
async def ac_028_reasoning_is_no_output(world):
    rpc = await world.rpc()
    chat = await rpc.chat("reason 3")
    equal([event["text"] for event in chat.of("reasoning")], ["thought 1 ", "thought 2 ", "thought 3 "], "reasoning")
    equal((chat.reply["output"], chat.text.strip()), ("done", "done"), "output")
    await rpc.close()


@check
async def ac_029_lists_are_snapshots(world):
    rpc = await world.rpc()
    chat = await rpc.chat("checklist")
    lists = [event for event in chat.events if event["type"] in ("checklist", "tasklist")]
    equal(kinds(lists), ["checklist", "tasklist"] * 2, "both names, checklist first")
    for one, other in zip(lists[::2], lists[1::2]):
        equal({**one, "type": 0}, {**other, "type": 0}, "the same twice")
    states = [[item["status"] for item in event["items"]] for event in lists[::2]]
    equal(states, [["in_progress", "pending"], ["done", "failed"]], "states")
    equal({event["groupId"] for event in lists}, {"g"}, "groupId")
    for name in ("checklist", "tasklist"):
        await rpc.offer(f"event.{name}")
        named = {event["type"] for event in (await rpc.chat("checklist")).events} & {"checklist", "tasklist"}
        equal(named, {name}, "what was offered")
    await rpc.close()


@check
async def ac_030_everything_at_once(world):
    rpc = await world.rpc()
    chat = await rpc.chat("everything")
    seen = {event["type"] for event in chat.events}
    wanted = {"status", "usage", "reasoning", "text-delta", "checklist", "tasklist", "tool-call", "tool-output", "tool-result"}
    ensure(wanted <= seen, "missing", wanted - seen)
    equal(chat.reply["usage"]["outputTokens"], 9, "the agent's own count")
    equal((await rpc.chat("usage 11 7")).of("usage")[-1], {"type": "usage", "inputTokens": 11, "outputTokens": 7}, "usage")
    equal([event["message"] for event in (await rpc.chat("warn watch out")).of("notice")], ["watch out"], "notice")
    await rpc.close()


@check
async def ac_031_an_absent_workspace(world):
    rpc = await world.rpc()
    for path in ("/nope", world.folder + "/gone", "/", world.folder + "/../", world.folder + "x", "relative", ""):
        chat = await rpc.chat("echo x", workspace=path)
        equal(chat.error_code, "E_UNKNOWN", path)
        equal(chat.terminal["errorMessage"], f"Workspace path does not exist: {path}", path)
        equal(chat.terminal["error"]["source"], "server", path)
        ensure({event["type"] for event in chat.events} <= {"status", "usage"}, "nothing was generated", chat.events)
        equal((await rpc.task(chat.task))["state"], "failed", "state")
    for path in (world.folder, world.folder + "/inner"):
        equal((await rpc.chat("echo x", workspace=path)).reply["output"], "x", path)
    await rpc.close()


@check
async def ac_032_failures_can_be_read(world):
    rpc = await world.rpc()
    generation = ("execution", "tool_not_found", "invalid_args", "tool", "model_unavailable", "call_timeout", "worker_lost")
    for kind in generation:
        chat = await rpc.chat(f"fail {kind}")
        ensure(kind in chat.reply["error"], kind, chat.reply)
        equal((await rpc.task(chat.task))["state"], "completed", "R2")
    chat = await rpc.chat("fail execution after 2")
    equal((chat.reply["output"], chat.reply["outputStreamed"]), ("1 2 ", True), "what there was")
    for kind, code in (("internal", "E_UNKNOWN"), ("unreachable", "E_UNKNOWN"), ("forbidden", "E_SANDBOX_VIOLATION")):
        chat = await rpc.chat(f"fail {kind}")
        equal(chat.error_code, code, kind)
        equal((await rpc.task(chat.task))["state"], "failed", kind)
    for message in ("panic", "panic after 2"):
        ensure((await rpc.chat(message)).terminal, "a terminal")
    await rpc.close()


@check
async def questions_are_turned_down(world):
    rpc = await world.rpc()
    chat = await rpc.chat("ask how are you?")
    [result] = chat.of("tool-result")
    equal((result["isError"], result["errorCode"]), (True, "E_SANDBOX_VIOLATION"), "result")
    await rpc.close()


@check
async def ac_061_a_reply_of_several_mebibytes(world):
    rpc = await world.rpc()
    for size in (1 << 20, (3 << 20) + 1):
        chat = await rpc.chat(f"size {size}")
        letters = "abcdefghijklmnopqrstuvwxyz"
        whole = (letters * (size // 26 + 1))[:size]
        ensure(chat.text == whole and chat.reply["output"] == whole, f"{size}: {len(chat.text)} {len(chat.reply['output'])}")
    await rpc.close()


# --- the queue (section 7.2) -----------------------------------------------------------------------


@check
async def ac_035_waiting_chats_are_numbered_and_served_in_order(world):
    rpc = await world.rpc()
    first = await running(rpc)
    ids = [await rpc.start(f"echo {number}") for number in range(4)]
    await rpc.alive()
    equal([rpc.chats[id].positions for id in ids], [[1], [2], [3], [4]], "positions")
    status = await rpc.status()
    equal((status["tasks_total"], status["tasks_running"], status["rpc_queue_length"]), (5, 1, 4), "counts")
    equal([(await rpc.task(rpc.chats[id].task))["state"] for id in ids], ["queued"] * 4, "states")
    rpc.inbox.clear()
    abort = await rpc.send("chat.abort", None, {"requestId": first})
    await rpc.next(lambda m: m["id"] == ids[-1] and m["type"] == "chat.done")
    order = [(m["type"], m["id"]) for m in rpc.inbox if m["type"] != "chat.event"]
    # The terminal, then everybody's new place, then the one that is taken (Q4); no places move by the abort itself (Q6).
    expected = [("chat.error", first), ("chat.abort.result", abort)]
    for index, id in enumerate(ids):
        expected += [("chat.queued", other) for other in ids[index + 1 :]]
        expected += [("chat.started", id), ("chat.done", id)]
    equal(order, expected[:-1], "order")
    equal([rpc.chats[id].positions for id in ids], [[1], [2, 1], [3, 2, 1], [4, 3, 2, 1]], "positions")
    equal([rpc.chats[id].reply["output"] for id in ids], ["0", "1", "2", "3"], "outputs")
    await rpc.close()


@check
async def ac_037_an_aborted_place_in_the_queue(world):
    rpc = await world.rpc()
    first = await running(rpc)
    ids = [await rpc.start(f"echo {number}") for number in range(3)]
    await rpc.alive()
    rpc.inbox.clear()
    abort = await rpc.send("chat.abort", None, {"requestId": ids[1]})
    answer = await rpc.answer(abort, "chat.abort.result")
    equal(answer["aborted"], True, "aborted")
    expected = [("chat.error", ids[1]), ("chat.queued", ids[0]), ("chat.queued", ids[2])]
    equal([(m["type"], m["id"]) for m in rpc.inbox], expected, "order")
    equal([rpc.chats[id].positions for id in ids], [[1, 1], [2], [3, 2]], "positions (Q5, R12)")
    equal((rpc.chats[ids[1]].error_code, (await rpc.task(rpc.chats[ids[1]].task))["state"]), ("E_ABORTED", "cancelled"), "AC-042")
    equal(await rpc.abort(ids[1]), False, "it is over")
    equal(await rpc.abort(first), True, "the one that runs")
    equal([(await rpc.finish(id)).reply["output"] for id in (ids[0], ids[2])], ["0", "2"], "AC-043: it never started")
    await rpc.close()


@check
async def ac_039_the_26th_is_refused(world):
    rpc = await world.rpc()
    first = await running(rpc)
    ids = [await rpc.start(f"echo {number}") for number in range(25)]
    for _ in range(2):
        await rpc.refused(await rpc.start("echo too many"), "RPC queue is full (25 queued). Try again shortly.")
    status = await rpc.status()
    equal((status["tasks_total"], status["rpc_queue_length"]), (26, 25), "counts")
    equal([rpc.chats[id].positions for id in ids], [[number] for number in range(1, 26)], "positions")
    equal(await rpc.abort(ids[7]), True, "one leaves")
    last = await rpc.start("echo last")
    equal(await rpc.abort(first), True, "the one that runs")
    equal((await rpc.finish(last)).reply["output"], "last", "there was room again")
    equal([chat.phase for chat in rpc.chats.values()].count("over"), 27, "all are over")
    await rpc.close()


@check
async def ac_040_connections_run_beside_each_other(world):
    token = world.somebody()
    rpcs = [await world.rpc(token) for _ in range(3)]
    ids = [await running(rpc) for rpc in rpcs]
    equal((await rpcs[0].status())["tasks_running"], 3, "tasks_running")
    # Also in one session: the client has the history, and nothing has to wait (R7).
    one, other = await world.rpc(token), await world.rpc(token)
    held = await running(one, sessionId="sess_same")
    equal((await other.chat("echo beside", sessionId="sess_same")).reply["output"], "beside", "output")
    equal(await one.abort(held), True, "aborted")
    for rpc, id in zip(rpcs, ids):
        equal(rpc.chats[id].phase, "running", "phase")
        equal(await rpc.abort(id), True, "aborted")
    for rpc in (*rpcs, one, other):
        await rpc.close()


# --- abort (section 7.3) ---------------------------------------------------------------------------


@check
async def ac_041_nothing_follows_an_abort(world):
    rpc = await world.rpc()
    id = await running(rpc, "count 100000 every 1")
    equal(await rpc.abort(id), True, "aborted")
    chat = rpc.chats[id]
    # AC-046: the terminal came before the result, or the grammar would have found nothing yet.
    equal((chat.phase, chat.error_code, chat.terminal["errorMessage"]), ("over", "E_ABORTED", "Request aborted"), "terminal")
    equal((await rpc.task(chat.task))["state"], "cancelled", "AC-042")
    equal(await rpc.abort(id), False, "it is over")
    equal((await rpc.chat("echo next")).reply["output"], "next", "AC-045")
    await rpc.close()


@check
async def ac_044_aborts_of_what_is_not_there(world):
    token = world.somebody()
    rpc, other = await world.rpc(token), await world.rpc(token)
    id = await running(rpc)
    waiting = await rpc.start("echo waiting")
    for request in (fresh(), id, waiting):
        equal(await other.abort(request), False, "unknown, or of another connection")
    finished = await other.start("echo x")
    await other.finish(finished)
    equal(await other.abort(finished), False, "finished")
    equal(await rpc.abort(fresh()), False, "unknown")
    equal((await rpc.task(rpc.chats[id].task))["state"], "running", "left alone")
    for payload in (None, {}, {"requestId": "nonsense"}, {"requestId": 7}, {"requestId": "task_1"}):
        await rpc.refused(await rpc.send("chat.abort", None, payload))
    equal(await rpc.abort(id), True, "its own")
    equal((await rpc.finish(waiting)).reply["output"], "waiting", "AC-045")
    await rpc.close()
    await other.close()


@check
async def aborts_that_come_at_once(world):
    rpc = await world.rpc()
    for _ in range(20):
        id = await rpc.start("count 1000")
        first, second = [await rpc.send("chat.abort", None, {"requestId": id}) for _ in range(2)]
        results = [(await rpc.answer(abort, "chat.abort.result"))["aborted"] for abort in (first, second)]
        chat = rpc.chats[id] if rpc.chats[id].phase == "over" else await rpc.finish(id)
        expected = "cancelled" if True in results else "completed"
        equal((await rpc.task(chat.task))["state"], expected, f"state after {results}")
    await rpc.close()


# --- tasks (sections 4.4 and 7) --------------------------------------------------------------------


@check
async def ac_048_states_at_the_proper_moments(world):
    rpc = await world.rpc()
    first = await running(rpc)
    second = await rpc.start("echo x")
    await rpc.alive()
    tasks = [rpc.chats[id].task for id in (first, second)]
    before = [await rpc.task(task) for task in tasks]
    equal([task["state"] for task in before], ["running", "queued"], "states")
    equal(await rpc.abort(first), True, "aborted")
    await rpc.finish(second)
    after = [await rpc.task(task) for task in tasks]
    # AC-053: as soon as the terminal is there.
    equal([task["state"] for task in after], ["cancelled", "completed"], "states")
    for one, other in zip(before, after):
        equal(one["createdAt"], other["createdAt"], "AC-051: createdAt")
        ensure(one["createdAt"] <= one["updatedAt"] <= other["updatedAt"], one, other)
    equal((await rpc.task((await rpc.chat("fail internal")).task))["state"], "failed", "failed")
    await rpc.close()


@check
async def ac_049_unknown_tasks_are_null(world):
    rpc, stranger = await world.rpc(), await world.rpc()
    equal(await rpc.task(fresh("task")), None, "never existed")
    chat = await rpc.chat("echo mine")
    equal(await stranger.task(chat.task), None, "somebody else's looks the same")
    equal((await rpc.task(chat.task))["state"], "completed", "my own")
    for payload in (None, {}, {"taskId": "nonsense"}, {"taskId": None}, {"taskId": "rpc_1"}):
        await rpc.refused(await rpc.send("task.status", None, payload))
    await rpc.close()
    await stranger.close()


@check
async def ac_050_a_task_is_known_on_other_connections(world):
    token = world.somebody()
    rpc, other = await world.rpc(token), await world.rpc(token)
    id = await running(rpc)
    task = rpc.chats[id].task
    equal((await other.task(task))["state"], "running", "state")
    equal(await rpc.abort(id), True, "aborted")
    equal((await other.task(task))["state"], "cancelled", "state")
    await rpc.close()
    equal((await other.task(task))["state"], "cancelled", "state")
    await other.close()


@check
async def ac_055_a_closed_connection_cancels(world):
    token = world.somebody()
    watcher = await world.rpc(token)
    for leave in (Rpc.close, Rpc.cut):
        rpc = await world.rpc(token)
        ids = [await running(rpc), await rpc.start("echo waiting"), await rpc.start("echo waiting, too")]
        await rpc.alive()
        tasks = [rpc.chats[id].task for id in ids]
        equal([(await watcher.task(task))["state"] for task in tasks], ["running", "queued", "queued"], "states")
        await leave(rpc)
        for task in tasks:
            await watcher.task_becomes(task, "cancelled")
        equal((await watcher.status())["tasks_running"], 0, "tasks_running")
    await watcher.close()


@check
async def ac_056_a_closed_connection_leaves_no_queue(world):
    token = world.somebody()
    rpc, watcher = await world.rpc(token), await world.rpc(token)
    await running(rpc)
    for _ in range(25):
        await rpc.start("echo waiting")
    await rpc.alive()
    equal((await watcher.status())["rpc_queue_length"], 25, "rpc_queue_length")
    await rpc.cut()
    deadline = time.monotonic() + PATIENCE
    while (status := await watcher.status())["rpc_queue_length"] or status["tasks_running"]:
        ensure(time.monotonic() < deadline, status)
        await asyncio.sleep(0.05)
    equal(status["tasks_total"], 26, "tasks_total")
    await watcher.close()


@check
async def ac_057_service_goes_on_after_clients_vanish(world):
    token = world.somebody()
    for _ in range(10):
        rpc = await world.rpc(token)
        await running(rpc, "count 100000 every 1")
        await rpc.cut()
    # Some that vanish in the middle of a message, or of the upgrade.
    for sent in (b"GET /v1/rpc HT", b"GET /v1/rpc HTTP/1.1\r\nHost: localhost\r\n", b""):
        _, writer = await asyncio.open_connection(*world.address)
        writer.write(sent)
        await writer.drain()
        writer.transport.abort()
    rpc = await world.rpc(token)
    equal((await rpc.chat("echo still here")).reply["output"], "still here", "output")
    deadline = time.monotonic() + PATIENCE
    while (status := await rpc.status())["tasks_running"]:
        ensure(time.monotonic() < deadline, status)
        await asyncio.sleep(0.05)
    await rpc.close()


# --- limits (section 9) ----------------------------------------------------------------------------


@check
async def ac_059_lengths_are_utf_16_units(world):
    rpc = await world.rpc()
    for fill in ("x" * 99_992, "é" * 99_992, "🌍" * 49_996):
        whole = "measure " + fill
        expected = f"{len(whole)} {len(whole.encode())} {hashlib.sha256(whole.encode()).hexdigest()}"
        equal((await rpc.chat(whole)).reply["output"], expected, "100000 units arrive unharmed")
    for message in ("x" * 100_001, "🌍" * 50_000 + "x"):
        await rpc.refused(await rpc.start(message))
    equal((await rpc.chat("echo fine")).reply["output"], "fine", "afterwards")
    await rpc.close()


@check
async def ac_060_limits_of_requests(world):
    rpc = await world.rpc()
    entry = {"id": "msg_1", "role": "user", "content": "hi", "timestamp": "2026-01-01T00:00:00.000Z"}
    fits = [
        {"history": [entry] * 500},
        {"model": "m" * 200},
        {"model": "🌍" * 100},
        {"suggestions": ["s" * 1000] * 10},
    ]
    for members in fits:
        equal((await rpc.chat("echo fits", **members)).reply["output"], "fits", repr(members)[:40])
    # It may not be there, but it is not too long.
    equal((await rpc.chat("echo x", workspace="/" + "w" * 4095)).error_code, "E_UNKNOWN", "workspace")
    too_much = [
        {"history": [entry] * 501},
        {"model": "m" * 201},
        {"model": "🌍" * 100 + "m"},
        {"suggestions": ["s"] * 11},
        {"suggestions": ["s" * 1001]},
        {"workspace": "/" + "w" * 4096},
    ]
    for members in too_much:
        await rpc.refused(await rpc.start("echo x", **members))
    await rpc.close()


@check
async def ac_062_messages_of_16_mebibytes(world):
    limit = 16 << 20
    rpc = await world.rpc()
    envelope = '{"id":"rpc_big","type":"status.get","payload":{"fill":"%s"}}'
    room = limit - len(envelope) + 2
    await rpc.websocket.send(envelope % ("x" * room))
    await rpc.answer("rpc_big", "status.result")
    await rpc.websocket.send((envelope % ("x" * room)).encode())
    await rpc.answer("rpc_big", "status.result")
    # One byte more; far more; and in pieces, of which each is small.
    for pieces in ([envelope % ("x" * (room + 1))], ["x" * (40 << 20)], ["x" * (1 << 20)] * 20):
        rpc = await world.rpc()
        try:
            await rpc.websocket.send(iter(pieces))
        except ConnectionClosed:
            pass
        await rpc.closed(1009)
    rpc = await world.rpc()
    equal((await rpc.chat("echo fine")).reply["output"], "fine", "others")
    await rpc.close()


# --- what is refused, and what is not (sections 4.5, 4.6, 11) --------------------------------------


@check
async def ac_063_unknown_fields_are_ignored(world):
    rpc = await world.rpc()
    id = fresh()
    rpc.chats[id] = Chat()
    payload = {"request": request_of("echo fine"), "future": {"x": None}}
    await rpc.send("chat.start", id, payload, trace="abc", meta=[None])
    equal((await rpc.finish(id)).reply["output"], "fine", "output")
    await rpc.close()


@check
async def ac_064_unknown_keys_of_a_request_are_refused(world):
    rpc = await world.rpc()
    await rpc.refused(await rpc.start("echo x", futureOption=1))
    equal((await rpc.status())["tasks_total"], 0, "there is no task")
    await rpc.close()


@check
async def ac_065_garbage(world):
    rpc = await world.rpc()
    garbage = ["{oops", "", " ", "null", "7", '"text"', "[]", "{}", '{"type":"status.get"}', '{"id":7,"type":"status.get"}']
    garbage += ['{"id":"RPC_1","type":"status.get"}', '{"id":"rpc_","type":"status.get"}', '{"id":"rpc_a-b","type":"status.get"}']
    garbage += ['{"id":"task_1","type":"status.get"}', "[" * 100_000, '{"id":"rpc_1","type":"status.get"}x', "\ufeff{}"]
    garbage += [b"\xff\xfe\x00", b"", '{"id":"rpc_1","type":"status.get"}'.encode("utf-16")]
    for sent in garbage:
        await rpc.websocket.send(sent)
        await rpc.refused("rpc_unknown")
    equal((await rpc.chat("echo fine")).reply["output"], "fine", "the connection stays")
    await rpc.close()


@check
async def ac_066_unknown_methods_and_bad_payloads(world):
    rpc = await world.rpc()
    for kind in ("chat.rewind", "", "STATUS.GET", "status.get ", "chat.accepted", "error"):
        await rpc.refused(await rpc.send(kind))
    for payload in (None, {}, {"request": None}, {"request": []}, {"request": {}}, "text"):
        await rpc.refused(await rpc.send("chat.start", None, payload))
    for missing in ("message", "history", "model"):
        request = {key: value for key, value in request_of("echo x").items() if key != missing}
        await rpc.refused(await rpc.send("chat.start", None, {"request": request}))
    for members in ({"message": 7}, {"message": None}, {"history": {}}, {"history": None}, {"model": None}):
        await rpc.refused(await rpc.send("chat.start", None, {"request": {**request_of("echo x"), **members}}))
    for kind in (7, None, {}, ["status.get"]):
        await rpc.refused(await rpc.send(kind))
    # Not for clients that have not offered it.
    await rpc.refused(await rpc.send("chat.attach", None, {"taskId": fresh("task")}))
    await rpc.close()


@check
async def ac_067_binary_messages_are_json(world):
    rpc = await world.rpc()
    message = {"id": "rpc_bin", "type": "chat.start", "payload": {"request": request_of("echo bïnary 🌍")}}
    rpc.chats["rpc_bin"] = Chat()
    await rpc.websocket.send(json.dumps(message, ensure_ascii=False).encode())
    equal((await rpc.finish("rpc_bin")).reply["output"], "bïnary 🌍", "output")
    await rpc.close()


@check
async def ac_068_an_id_that_is_in_use(world):
    rpc = await world.rpc()
    id = await running(rpc)
    waiting = await rpc.start("echo waiting")
    for used in (id, waiting):
        await rpc.start("echo x", id=used)
        await rpc.next(lambda m: m["id"] == used and m["type"] == "error" and m["error"] == f"Chat request already running for id: {used}")
    equal((await rpc.task(rpc.chats[id].task))["state"], "running", "it goes on")
    equal(await rpc.abort(id), True, "aborted")
    equal((await rpc.finish(waiting)).reply["output"], "waiting", "output")
    equal((await rpc.chat("echo again", id=id)).reply["output"], "again", "free again")
    await rpc.close()


@check
async def ac_069_malformed_members(world):
    rpc = await world.rpc()
    strange = [{"sessionId": value} for value in ("", "sess_", "sess_A", "sess_a-b", "user_1", "x", 7, None)]
    strange += [{"resourceId": value} for value in ("", "user_", "proj_A", "sess_1", "x", 7, None)]
    skills = ("text", None, {}, [{}], [{"name": "x"}], [{"name": "", "instructions": "y"}], [{"name": "x", "instructions": ""}], [7])
    strange += [{"activeSkills": value} for value in skills]
    strange += [{"suggestions": value} for value in ("text", None, [7], [None])]
    strange += [{"workspace": value} for value in (7, None, [])]
    for members in strange:
        await rpc.refused(await rpc.start("echo x", **members))
    skill = {"name": "x", "instructions": "y", "more": 1}
    reply = (await rpc.chat("echo x", activeSkills=[skill], resourceId="proj_0a")).reply
    equal(reply["activeSkills"], [{"name": "x", "instructions": "y"}], "unknown keys are dropped")
    await rpc.close()


@check
async def ac_070_unusable_history(world):
    rpc = await world.rpc()
    for entry in (7, None, "text", {}, {"role": "user"}, {"role": "nobody", "content": "x"}, {"role": "user", "content": 7}):
        chat = await rpc.chat("echo x", history=[entry])
        equal((chat.error_code, (await rpc.task(chat.task))["state"]), ("E_UNKNOWN", "failed"), repr(entry))
    # An empty message is legal; with nothing to ask there is no answer (R15).
    equal((await rpc.chat("")).error_code, "E_UNKNOWN", "nothing to ask")
    await rpc.close()


# --- slow readers (R9) -----------------------------------------------------------------------------


async def not_reading(world, **options):
    """A connection whose client does not take what comes until it asks for it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, world.address)
    return await world.rpc(sock=sock, max_queue=1, **options)


@check
async def ac_080_a_slow_reader_gets_everything(world):
    token = world.somebody()
    rpc, other = await not_reading(world, token=token), await world.rpc(token)
    id = await rpc.start("deltas 3000 of 4000")
    # Its own pace is nobody else's.
    await asyncio.sleep(2)
    equal((await other.chat("count 500")).reply["output"], "".join(f"{n} " for n in range(1, 501)), "somebody else")
    await asyncio.sleep(1)
    chat = await rpc.finish(id)
    delta = ("abcdefghijklmnopqrstuvwxyz" * 154)[:4000]
    ensure(chat.text == delta * 3000, f"{len(chat.text)} bytes, or in another order")
    ensure(chat.reply["output"] == chat.text, "output")
    equal((await other.task(chat.task))["state"], "completed", "state")
    await rpc.close()
    await other.close()


# --- coming back (ours: `task.resume`) -------------------------------------------------------------


@check
async def a_task_goes_on_without_its_connection(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    await rpc.offer("task.resume")
    ids = [await running(rpc, "count 200 every 10", sessionId="sess_on"), await rpc.start("count 3", sessionId="sess_on")]
    await rpc.alive()
    chats = [rpc.chats[id] for id in ids]
    await rpc.cut()
    rpc = await world.rpc(token)
    await rpc.offer("task.resume")
    for before, words in zip(chats, (200, 3)):
        chat = await rpc.finish(await rpc.attach(before, taskId=before.task, sessionId="sess_on"))
        equal(chat.text, "".join(f"{number} " for number in range(1, words + 1)), "every event exactly once")
        equal((chat.task, chat.reply["output"]), (before.task, chat.text), "reply")
        equal((await rpc.task(before.task))["state"], "completed", "state")
    stranger = await world.rpc()
    await stranger.offer("task.resume")
    await stranger.refused(await stranger.attach(taskId=chats[0].task, sessionId="sess_on"), "No such task to attach to")
    await stranger.close()
    await rpc.close()


@check
async def a_task_is_stopped_from_where_it_is_followed(world):
    token = world.somebody()
    rpc, other = await world.rpc(token), await world.rpc(token)
    for one in (rpc, other):
        await one.offer("task.resume")
    id = await running(rpc, "count 100000 every 5", sessionId="sess_stop")
    task = rpc.chats[id].task
    await rpc.cut()
    followed = await other.attach(rpc.chats[id], taskId=task, sessionId="sess_stop")
    await other.event(followed, "text-delta")
    equal(await other.abort(followed), True, "aborted")
    equal(other.chats[followed].error_code, "E_ABORTED", "terminal")
    equal((await other.task(task))["state"], "cancelled", "state")
    await other.close()


# --- without credentials, and with little patience -------------------------------------------------


@unkeyed
async def ac_011_everything_is_open_without_a_key(world):
    rpc = await Rpc.open(world.url)
    equal((await rpc.chat("echo open")).reply["output"], "open", "output")
    await rpc.close()
    # What is offered is answered all the same.
    rpc = await Rpc.open(world.url, subprotocols=["chat", "bearer.whatever"])
    ensure(rpc.websocket.subprotocol in ("chat", "bearer.whatever"), rpc.websocket.subprotocol)
    await rpc.close()
    status, _, said = await world.http("/v1/status")
    equal((status, json.loads(said)["ok"]), (200, True), "status")
    body = json.dumps(request_of("echo x")).encode()
    equal((await world.http("/v1/chat/stream", "POST", body))[0], 200, "stream")
    equal((await world.upgrade(Origin="https://evil.test"))[0], 403, "but not to the pages of others")


@unkeyed
async def whoever_answers_pings_stays(world):
    rpc = await Rpc.open(world.url)
    # The library answers pings while it waits.
    try:
        await rpc.receive(10)
    except TimeoutError:
        pass
    equal((await rpc.chat("echo still here")).reply["output"], "still here", "output")
    await rpc.close()


@unkeyed
async def ac_082_a_silent_chat_gives_signs_of_life(world):
    rpc = await Rpc.open(world.url)
    id = await running(rpc)
    for _ in range(3):
        equal(await rpc.event(id, "status"), {"type": "status", "state": {"kind": "running"}}, "heartbeat")
    equal(await rpc.abort(id), True, "aborted")
    await rpc.close()


@unkeyed
async def ac_057_a_half_open_client_is_noticed(world):
    reader, writer = await asyncio.open_connection(*world.address)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /v1/rpc HTTP/1.1\r\nHost: {world.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    payload = json.dumps({"id": "rpc_gone", "type": "chat.start", "payload": {"request": request_of("hang after 1")}}).encode()
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    writer.write(b"\x81\xfe" + len(payload).to_bytes(2, "big") + mask + masked)
    # From here on it says nothing, not even that it is still there; but it keeps its socket.
    accepted = b""
    while b'"taskId":"' not in accepted:
        accepted += await asyncio.wait_for(reader.read(4096), PATIENCE)
    task = accepted.split(b'"taskId":"')[1].split(b'"')[0].decode()
    watcher = await Rpc.open(world.url)
    await watcher.task_becomes(task, "cancelled")
    rest = await asyncio.wait_for(reader.read(-1), PATIENCE)
    ensure(b"\x89" in accepted + rest, "it was pinged")
    writer.close()
    await watcher.close()


@unkeyed
async def a_reader_of_a_stream_that_takes_nothing_is_sent_away(world):
    reader, writer, task = await acolyte_http.by_hand(world, "any", "deltas 3000 of 4000")
    watcher = await Rpc.open(world.url)
    await watcher.task_becomes(task, "cancelled")
    writer.close()
    await watcher.close()


@unkeyed
async def a_reader_that_takes_nothing_is_sent_away(world):
    rpc = await not_reading(world, token="any")
    watcher = await Rpc.open(world.url)
    id = await rpc.start("deltas 3000 of 4000")
    await rpc.event(id, "text-delta")
    task = rpc.chats[id].task
    await watcher.task_becomes(task, "cancelled")
    await rpc.cut()
    equal((await watcher.chat("echo fine")).reply["output"], "fine", "others")
    await watcher.close()


# --- shutdown (R13): the caller sees to it that the process ends -------------------------------------


async def ac_078_shutdown(world):
    rpcs = [await world.rpc() for _ in range(3)]
    ids = [[await running(rpc), await rpc.start("echo waiting")] for rpc in rpcs]
    for rpc in rpcs:
        await rpc.alive()
    idle, stuck = await world.rpc(), await not_reading(world)
    await stuck.start("deltas 3000 of 4000")
    await acolyte_http.shut_down(world)
    for rpc, chats in zip(rpcs, ids):
        await rpc.closed(1001)
        equal([rpc.chats[id].error_code for id in chats], ["E_ABORTED"] * 2, "running and waiting")
    await idle.closed(1001)
    await stuck.cut()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            _, writer = await asyncio.open_connection(*world.address)
        except ConnectionError:
            break
        writer.close()
        ensure(time.monotonic() < deadline, "it still listens")
        await asyncio.sleep(0.05)


async def main(arguments):
    base, *options = arguments
    option = lambda name: options[options.index(name) + 1] if name in options else None
    world, results = World(base, option("--folder")), []
    if "--shutdown" in options:
        await run(ac_078_shutdown, world, results, 4 * PATIENCE)
    else:
        checks = [run_beside(wanted(CHECKS + acolyte_http.CHECKS), world, results, 4 * PATIENCE)]
        if option("--open"):
            checks.append(run_beside(wanted(OPEN), World(option("--open")), results, 4 * PATIENCE))
        await asyncio.gather(*checks)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
