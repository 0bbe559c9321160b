"""Acolyte over HTTP, with `httpx` and `curl`: health, status, streams, shutdown. Run by `acolyte_peer.py`.

What arrives is held against the same tables as over RPC; see `acolyte_wire.py`.
"""

import asyncio
import contextlib
import json
import re

import httpx

from acolyte_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def client(world, token=None, **headers):
    """A client that trusts no environment; a token of None is nobody."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.AsyncClient(base_url=world.base, headers=headers, timeout=PATIENCE, trust_env=False)


def plain(answer, status, words):
    # The field that is at fault may follow.
    equal((answer.status_code, answer.text.split(": ")[0]), (status, words), f"answer to {answer.request.method} {answer.request.url}")
    ensure(answer.headers["content-type"].startswith("text/plain"), answer.headers)


@contextlib.asynccontextmanager
async def streaming(http, message, **members):
    """A stream, its head already checked."""
    async with http.stream("POST", "/v1/chat/stream", json=request_of(message, **members)) as answer:
        equal(answer.status_code, 200, "status")
        equal(answer.headers["content-type"], "text/event-stream", "content-type")
        equal(answer.headers["cache-control"], "no-cache", "cache-control")
        equal(answer.headers["acolyte-protocol"], "1", "acolyte-protocol")
        identifier("task")(answer.headers["acolyte-task-id"])
        yield answer


async def stream(http, message, **members):
    """A whole stream."""
    async with streaming(http, message, **members) as answer:
        events = Events()
        async for piece in answer.aiter_raw():
            events.push(piece)
        events.end()
        return events


async def until(pieces, events, condition):
    """Reads until something holds."""
    async for piece in pieces:
        events.push(piece)
        if condition(events):
            return
    raise Failed(f"the stream is over: {events.frames!r:.500}")


async def curl(*arguments):
    """The exit code of curl, and what it said."""
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", "--max-time", str(int(PATIENCE)), "--noproxy", "*", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output, errors.decode()


# --- health, status, refusals (section 2.2) --------------------------------------------------------


@check
async def ac_001_health_needs_nothing(world):
    async with client(world) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = await http.get("/healthz", headers=headers)
            equal((answer.status_code, answer.text), (200, '{"ok":true}'), "healthz")
            equal(answer.headers["content-type"], "application/json", "content-type")
    code, output, errors = await curl("--fail", f"{world.base}/healthz")
    equal((code, json.loads(output)), (0, {"ok": True}), errors)


@check
async def ac_002_status(world):
    async with client(world, world.somebody()) as http:
        answer = await http.get("/v1/status")
        equal((answer.status_code, answer.headers["content-type"]), (200, "application/json"), "status")
        equal(answer.headers["acolyte-protocol"], "1", "acolyte-protocol")
        status(answer.json())
        equal(answer.json()["service"], world.base, "service")
        equal((await http.get("/v1/status?what=ever")).status_code, 200, "a query is ignored")
    code, output, errors = await curl("--fail", "-H", f"Authorization: Bearer {world.ann}", f"{world.base}/v1/status")
    equal(code, 0, errors)
    status(json.loads(output))


@check
async def ac_003_everything_but_health_needs_a_key(world):
    async with client(world) as http:
        for method, path in (("GET", "/v1/status"), ("POST", "/v1/chat/stream"), ("POST", "/v1/admin/shutdown"), ("GET", "/v1/rpc")):
            # The body is not looked at before the key.
            answer = await http.request(method, path, content=b"{nonsense" if method == "POST" else None)
            plain(answer, 401, "Unauthorized")
            equal(answer.headers["acolyte-protocol"], "1", "acolyte-protocol")


@check
async def ac_004_wrong_keys(world):
    async with client(world) as http:
        for value in (f"Bearer {world.ann}x", f"bearer {world.ann}", f"BEARER {world.ann}", f"Basic {world.ann}", "Bearer", ""):
            for method, path in (("GET", "/v1/status"), ("POST", "/v1/chat/stream"), ("POST", "/v1/admin/shutdown")):
                plain(await http.request(method, path, headers={"Authorization": value}), 401, "Unauthorized")


@check
async def ac_010_unknown_paths_and_methods(world):
    async with client(world, world.ann) as http, client(world) as nobody:
        for method, path in (
            ("GET", "/v1/nothing"),
            ("GET", "/v1/rpc/"),
            ("GET", "/v1/status/"),
            ("GET", "/v1"),
            ("GET", "/V1/status"),
            ("POST", "/v1/status"),
            ("PUT", "/v1/status"),
            ("GET", "/v1/chat/stream"),
            ("DELETE", "/v1/chat/stream"),
            ("GET", "/v1/admin/shutdown"),
            ("POST", "/healthz"),
        ):
            for somebody in (http, nobody):
                plain(await somebody.request(method, path), 404, "Not Found")


@check
async def versions_are_judged_on_every_path(world):
    async with client(world, world.ann) as http:
        for method, path in (("GET", "/v1/status"), ("POST", "/v1/chat/stream")):
            body = request_of("echo x") if path.endswith("stream") else None
            answer = await http.request(method, path, json=body, headers={"acolyte-protocol": "9"})
            equal((answer.status_code, answer.headers["content-type"]), (400, "application/json"), path)
            equal(answer.headers["acolyte-protocol"], "1", "what is spoken")
            equal(answer.json()["errorMessage"], 'Unsupported protocol version "9"; supported: 1', "errorMessage")
            equal(answer.json()["errorCode"], "E_PROTOCOL_VERSION", "errorCode")
            error_body(answer.json())
        equal((await http.get("/v1/status", headers={"acolyte-protocol": "1"})).status_code, 200, "version 1")


# --- streams (section 2.4) -------------------------------------------------------------------------


@check
async def ac_071_a_stream_byte_by_byte(world):
    body = json.dumps(request_of("count 3"))
    code, output, errors = await curl(
        "--no-buffer", "--include", "-H", f"Authorization: Bearer {world.ann}", "-H", "Content-Type: application/json",
        "--data-binary", body, f"{world.base}/v1/chat/stream",
    )
    equal(code, 0, errors)
    head, stream = output.split(b"\r\n\r\n", 1)
    ensure(head.startswith(b"HTTP/1.1 200"), head)
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    equal(fields[b"content-type"], b"text/event-stream", "content-type")
    equal((fields[b"cache-control"], fields[b"connection"]), (b"no-cache", b"keep-alive"), "headers")
    # A comment may come anywhere between frames; there are no other lines.
    frames = stream.replace(b":\n\n", b"") if stream.startswith(b":\n\n") else stream.replace(b"\n\n:\n\n", b"\n\n")
    ensure(re.fullmatch(rb"(data: \{[^\r\n]*\}\n\n)+", frames), "framing", stream)
    events = Events()
    events.push(stream)
    equal(events.end().text, "1 2 3 ", "text")
    equal([frame["type"] for frame in events.frames].count("done"), 1, "one terminal")
    expected = b'data: {"type":"text-delta","text":"1 "}\n\n'
    ensure(expected in stream, "one line of JSON", stream)


@check
async def ac_071_line_breaks_stay_inside_of_json(world):
    async with client(world, world.somebody()) as http:
        text = "one\ntwo\r\nthree\n\ndata: four\u2028\u2029\u0085five"
        events = await stream(http, f"echo {text}")
        equal((events.chat.text, events.chat.reply["output"]), (text, text), "text")
        events = await stream(http, "size 2000000")
        equal((len(events.chat.text), len(events.chat.reply["output"])), (2_000_000, 2_000_000), "a large one")


@check
async def ac_072_refused_before_there_is_a_stream(world):
    token = world.somebody()
    async with client(world, token) as http:
        for body in (b"", b"{oops", b"\xff\xfe", b"{} x", b"[" * 100_000):
            plain(await http.post("/v1/chat/stream", content=body), 400, "Invalid JSON body")
        good = request_of("echo x")
        shapes = [[], "text", 7, None, {}, {"request": good}]
        shapes += [{key: value for key, value in good.items() if key != missing} for missing in good]
        shapes += [{**good, "message": 7}, {**good, "history": None}, {**good, "sessionId": "x"}, {**good, "workspace": None}]
        # The limits of RPC are those of HTTP.
        shapes += [{**good, "message": "x" * 100_001}, {**good, "model": "m" * 201}, {**good, "history": [{}] * 501}]
        shapes += [{**good, "suggestions": ["s"] * 11}, {**good, "workspace": "w" * 4097}]
        for value in shapes:
            plain(await http.post("/v1/chat/stream", content=json.dumps(value)), 400, "Invalid request shape")
        equal((await http.get("/v1/status")).json()["tasks_total"], 0, "there is no task")
        # Unknown keys are overlooked here.
        equal((await stream(http, "echo fine", futureOption=1)).chat.reply["output"], "fine", "unknown keys")


@check
async def bodies_that_are_too_large_are_refused(world):
    limit = 16 << 20
    async with client(world, world.somebody()) as http:
        plain(await http.post("/v1/chat/stream", content=b"x" * limit), 400, "Invalid JSON body")
        plain(await http.post("/v1/chat/stream", content=b"x" * (limit + 1)), 413, "Payload Too Large")
        plain(await http.post("/v1/chat/stream", content=b"x" * (2 * limit)), 413, "Payload Too Large")

        async def pieces():
            for _ in range(20):
                yield b"x" * (1 << 20)

        plain(await http.post("/v1/chat/stream", content=pieces()), 413, "Payload Too Large")
        equal((await stream(http, "echo fine")).chat.reply["output"], "fine", "afterwards")
    # Somebody without a key is not even listened to.
    async with client(world) as nobody:
        plain(await nobody.post("/v1/chat/stream", content=b"x" * (4 << 20)), 401, "Unauthorized")


@check
async def ac_073_failures_after_the_200(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    async with client(world, token) as http:
        for message, members, code, words in (
            ("fail internal", {}, "E_UNKNOWN", "asked to fail"),
            ("fail forbidden", {}, "E_SANDBOX_VIOLATION", "asked to fail"),
            ("echo x", {"workspace": "/nope"}, "E_UNKNOWN", "Workspace path does not exist: /nope"),
            ("echo x", {"workspace": "/"}, "E_UNKNOWN", "Workspace path does not exist: /"),
            ("echo x", {"history": [7]}, "E_UNKNOWN", ""),
            # Passes the shape here, but not further (2.4 c).
            ("echo x", {"resourceId": "nonsense"}, "E_UNKNOWN", ""),
            ("", {}, "E_UNKNOWN", ""),
        ):
            async with streaming(http, message, **members) as answer:
                events = Events()
                async for piece in answer.aiter_raw():
                    events.push(piece)
                events.end()
                equal(events.frames[-1]["type"], "error", message)
                equal(events.chat.error_code, code, message)
                ensure(words in events.frames[-1]["errorMessage"], events.frames[-1])
                equal((await rpc.task(answer.headers["acolyte-task-id"]))["state"], "failed", message)
        chat = (await stream(http, "fail execution after 2")).chat
        ensure(chat.reply["error"] and chat.reply["output"] == "1 2 ", chat.reply)
        chat = (await stream(http, "echo x", workspace=world.folder + "/inner")).chat
        equal(chat.reply["output"], "x", "a workspace that is allowed")
    await rpc.close()


def comparable(chat):
    """The events of a chat without what differs from run to run: ids, and how often tokens are counted."""
    names = {event["toolCallId"]: number for number, event in enumerate(chat.of("tool-call"))}
    known = lambda event: {**event, "toolCallId": names[event["toolCallId"]]} if "toolCallId" in event else event
    return [known(event) for event in chat.events if event["type"] != "usage"]


@check
async def ac_074_the_same_events_as_over_rpc(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    async with client(world, token) as http:
        for message in ("everything", "count 20", "tool x 3", "tool-error no", "checklist", "reason 2", "warn w", "nothing", "fail tool"):
            over_rpc, over_http = await rpc.chat(message), (await stream(http, message)).chat
            equal(comparable(over_http), comparable(over_rpc), message)
            equal(over_http.reply, over_rpc.reply, message)
    await rpc.close()


@check
async def ac_075_a_silent_stream_is_kept_alive(world):
    async with client(world, world.somebody()) as http:
        async with streaming(http, "hang") as answer:
            events = Events()
            await until(answer.aiter_raw(), events, lambda events: events.comments >= 3)


@check
async def ac_076_streams_run_beside_each_other(world):
    token = world.somebody()
    async with client(world, token) as http, contextlib.AsyncExitStack() as held:
        open_streams = []
        for _ in range(5):
            answer = await held.enter_async_context(streaming(http, "hang after 1", sessionId="sess_beside"))
            # A stream whose iterator is forgotten is closed by the library.
            open_streams.append(answer.aiter_raw())
            await until(open_streams[-1], Events(), lambda events: events.chat.text)
        several = [stream(http, f"count {number}", sessionId="sess_beside") for number in range(1, 11)]
        texts = [events.chat.text for events in await asyncio.gather(*several)]
        equal(texts, ["".join(f"{n} " for n in range(1, number + 1)) for number in range(1, 11)], "texts")
        equal((await http.get("/v1/status")).json()["tasks_running"], 5, "tasks_running")


@check
async def ac_077_whoever_leaves_cancels(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    async with client(world, token) as http:
        # While something comes, and while nothing does.
        for message in ("count 100000 every 1", "hang after 1"):
            async with streaming(http, message) as answer:
                task = answer.headers["acolyte-task-id"]
                pieces = answer.aiter_raw()
                await until(pieces, Events(), lambda events: events.chat.text)
                equal((await rpc.task(task))["state"], "running", message)
            await rpc.task_becomes(task, "cancelled")
        equal((await rpc.status())["tasks_running"], 0, "tasks_running")
    await rpc.close()


@check
async def ac_077_a_tool_that_is_killed_leaves_as_well(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    code, output, _ = await curl(
        "--max-time", "2", "--no-buffer", "--include", "-H", f"Authorization: Bearer {token}",
        "--data-binary", json.dumps(request_of("hang after 1")), f"{world.base}/v1/chat/stream",
    )
    equal(code, 28, "curl gave up")
    await rpc.task_becomes(re.search(rb"acolyte-task-id: (\S+)", output)[1].decode(), "cancelled")
    await rpc.close()


async def by_hand(world, token, message):
    """A stream on a bare socket: reader, writer, task."""
    reader, writer = await asyncio.open_connection(*world.address, limit=64 << 10)
    body = json.dumps(request_of(message))
    writer.write(
        f"POST /v1/chat/stream HTTP/1.1\r\nHost: {world.host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    ensure(head.startswith(b"HTTP/1.1 200"), head)
    return reader, writer, re.search(rb"acolyte-task-id: (\S+)", head)[1].decode()


@check
async def ac_077_whoever_hangs_up_half_way_leaves(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    reader, writer, task = await by_hand(world, token, "count 100000 every 5")
    await asyncio.wait_for(reader.readuntil(b"text-delta"), PATIENCE)
    # Nothing more will be asked on this connection: taken for a goodbye, as every HTTP server does.
    writer.write_eof()
    await rpc.task_becomes(task, "cancelled")
    await asyncio.wait_for(reader.read(-1), PATIENCE)
    writer.close()
    await rpc.close()


@check
async def ac_080_a_slow_reader_of_a_stream_gets_everything(world):
    token = world.somebody()
    rpc = await world.rpc(token)
    reader, writer, task = await by_hand(world, token, "deltas 3000 of 4000")
    await asyncio.sleep(2)
    equal((await rpc.chat("echo meanwhile")).reply["output"], "meanwhile", "somebody else")
    # Chunks are the transport's business; take them off.
    events = Events()
    while size := int(await asyncio.wait_for(reader.readline(), PATIENCE), 16):
        events.push(await asyncio.wait_for(reader.readexactly(size), PATIENCE))
        await reader.readexactly(2)
    delta = ("abcdefghijklmnopqrstuvwxyz" * 154)[:4000]
    ensure(events.end().text == delta * 3000, "text")
    equal((await rpc.task(task))["state"], "completed", "state")
    writer.close()
    await rpc.close()


# --- shutdown --------------------------------------------------------------------------------------


@check
async def shutdown_needs_the_scope(world):
    for token in (world.ann, world.somebody()):
        async with client(world, token) as http:
            plain(await http.post("/v1/admin/shutdown"), 403, "Forbidden")
            equal((await http.get("/v1/status")).status_code, 200, "it is still there")


async def shut_down(world):
    """Stops the server while streams are at work."""
    token = world.somebody()
    async with client(world, token) as http, contextlib.AsyncExitStack() as held:
        streams = []
        for _ in range(3):
            answer = await held.enter_async_context(streaming(http, "hang after 1"))
            events, pieces = Events(), answer.aiter_raw()
            await until(pieces, events, lambda events: events.chat.text)
            streams.append((events, pieces))
        async with client(world, world.admin) as admin:
            answer = await admin.post("/v1/admin/shutdown")
            equal((answer.status_code, answer.text), (200, '{"ok":true,"shutdown":true}'), "answered first")
            equal(answer.headers["content-type"], "application/json", "content-type")
        for events, pieces in streams:
            async for piece in pieces:
                events.push(piece)
            equal(events.end().error_code, "E_ABORTED", "live streams")
