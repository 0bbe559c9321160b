"""The four endpoints beside the socket (section 2.2), and the admin API where it shows devices."""

import httpx

from aip_peer import leave
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def ask(world, method, path, headers=None, **options):
    async with httpx.AsyncClient(base_url=world.base, timeout=PATIENCE, trust_env=False) as client:
        return await client.request(method, path, headers=headers, **options)


async def rest(world, who, call, body=None, **options):
    """One call with a key: status and JSON body."""
    method = "GET" if body is None and not options else "POST"
    if body is not None:
        options["json"] = body
    answer = await ask(world, method, f"/api/{call}", {"X-API-Key": world.key(who)}, **options)
    if answer.status_code == 404 and answer.text == "Not Found":
        # No endpoint at all.
        return 404, None
    ensure(answer.headers["content-type"].startswith("application/json"), "content type", answer.headers)
    return answer.status_code, answer.json()


async def admin(world, who, path, **query):
    answer = await ask(world, "GET", f"/admin/v1/{path}", {"Authorization": f"Bearer {world.key(who)}"}, params=query)
    equal(answer.status_code, 200, f"status of {path}: {answer.text[:300]}")
    return answer.json()


async def finished(world, who, name):
    """The result of a task, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        status, body = await rest(world, who, f"task_result/{name}")
        equal(status, 200, "status")
        if body != {"status": "pending"}:
            equal((sorted(body), body["status"]), (["result", "status"], "done"), "result")
            return body["result"]
        ensure(time.monotonic() < deadline, "never done")
        await asyncio.sleep(0.02)


async def taken_up(device, told):
    """What a device does with an assignment: it submits it as its own task, as reference devices do."""
    device.asked[told["session_id"]] = device.asked.get(told["session_id"], 0) + 1
    fields = {"client_type": "device", "task_name": told["task_name"], "request": told["user_request"]}
    await device.send("task", "continue", session_id=None, request_id="5b1d", metadata={"platform": "linux"}, **fields)
    ack = await device.kind("heartbeat")
    return ack["session_id"]


ENDPOINTS = (("GET", "health"), ("GET", "clients"), ("POST", "dispatch"), ("GET", "task_result/x"))


@check
async def aip_085_every_endpoint_needs_a_key(world):
    device = await world.device("ann")
    body = {"client_id": device.name, "request": "x"}
    for method, call in ENDPOINTS:
        options = {"json": body} if method == "POST" else {}
        answer = await ask(world, method, f"/api/{call}", **options)
        equal(answer.status_code, 401, f"{call} without a key")
        ensure(isinstance(answer.json()["detail"], str), "detail", answer.text)
        for wrong in ("", "wrong", world.key("ann") + "x", world.key("ann")[:-1], world.key("ann").upper()):
            answer = await ask(world, method, f"/api/{call}", {"X-API-Key": wrong}, **options)
            equal((answer.status_code, answer.json()), (401, {"detail": "Invalid API key"}), f"{call} with {wrong!r}")
        for headers in ({"X-API-Key": world.key("ann")}, {"Authorization": f"Bearer {world.key('ann')}"}):
            answer = await ask(world, method, f"/api/{call}", headers, **options)
            equal(answer.status_code, 200, f"{call} with {headers.keys()}: {answer.text}")
        # A key in the address is for sockets only.
        answer = await ask(world, method, f"/api/{call}?token={world.key('ann')}", **options)
        equal(answer.status_code, 401, f"{call} with a key in the address")
    await leave(device)


@check
async def aip_085_who_is_online_is_told_in_order(world):
    who = world.somebody()
    first = await world.device(who)
    second = await world.device(who)
    third = await world.constellation(first, who)
    names = [client.name for client in (first, second, third)]
    hidden = await world.device()
    for call, rest_of in (("health", {"status": "healthy"}), ("clients", {})):
        status, body = await rest(world, who, call)
        equal(status, 200, "status")
        equal([name for name in body["online_clients"] if name in names], names, "order of registration")
        ensure(hidden.name not in body["online_clients"], "clients of others are shown")
        equal({key: value for key, value in body.items() if key != "online_clients"}, rest_of, "what else is there")
    await leave(third, second)
    deadline = time.monotonic() + 10
    while (await rest(world, who, "clients"))[1] != {"online_clients": [first.name]}:
        ensure(time.monotonic() < deadline, "those who left are still there")
        await asyncio.sleep(0.02)
    await leave(hidden, first)


@check
async def aip_086_dispatch_is_checked_in_order(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    for content in (b"", b"[]", b"null", b'"x"', b"1", b"{", b"hello"):
        headers = {"X-API-Key": who, "Content-Type": "application/json"}
        answer = await ask(world, "POST", "/api/dispatch", headers, content=content)
        equal(answer.status_code, 422, f"{content!r}: {answer.text}")
        ensure("detail" in answer.json(), "detail", answer.text)
    bad, offline = {"task_name": "/", "client_id": ""}, "nobody-here"
    for fields, status, detail in (
        ({}, 400, "Empty task content"),
        ({"request": "", **bad}, 400, "Empty task content"),
        ({"request": "x"}, 400, "Empty client ID"),
        ({"request": "x", **bad}, 400, "Empty client ID"),
        ({"request": "x", "client_id": offline, "task_name": "a/b"}, 400, BAD_NAME),
        ({"request": "x", "client_id": device.name, "task_name": ""}, 400, BAD_NAME),
        ({"request": "x", "client_id": device.name, "task_name": ".hidden"}, 400, BAD_NAME),
        ({"request": "x", "client_id": device.name, "task_name": "a b"}, 400, BAD_NAME),
        ({"request": "x", "client_id": device.name, "task_name": "ü"}, 400, BAD_NAME),
        ({"request": "x", "client_id": device.name, "task_name": "a\n"}, 400, BAD_NAME),
        ({"request": "x", "client_id": offline}, 404, "Client not online"),
        ({"request": "x", "client_id": constellation.name}, 404, "Client not online"),
    ):
        equal(await rest(world, who, "dispatch", fields), (status, {"detail": detail}), f"dispatch of {fields}")
    for fields in ({"request": 1, "client_id": "x"}, {"request": "x", "client_id": 1}, {"request": []}):
        status, body = await rest(world, who, "dispatch", fields)
        ensure(status in (400, 422) and "detail" in body, "dispatch of", fields, status, body)
    for client in (device, constellation):
        await client.quiet()
    await leave(constellation, device)


@check
async def aip_087_and_088_a_dispatched_task_runs_under_its_session_and_is_reported(world):
    who = world.somebody()
    device = await world.device(who)
    for name in ("T1", None, "a.b-c_1"):
        body = {"client_id": device.name, "request": script([command("look")], result={"lines": 20})}
        status, answer = await rest(world, who, "dispatch", {**body, **({"task_name": name} if name else {})})
        equal(status, 200, f"dispatch: {answer}")
        equal(sorted(answer), ["client_id", "session_id", "status", "task_name"], "fields")
        equal((answer["status"], answer["client_id"]), ("dispatched", device.name), "answer")
        if name:
            equal(answer["task_name"], name, "task_name")
        else:
            fresh_id(answer["task_name"], "task_name")
        told = await device.next(lambda message: True)
        wanted = {"type": "task", "user_request": body["request"]}
        wanted |= {key: answer[key] for key in ("task_name", "session_id")}
        equal({key: told[key] for key in wanted}, wanted, "assignment")
        equal(await rest(world, who, f"task_result/{answer['task_name']}"), (200, {"status": "pending"}), "not begun")
        equal(await taken_up(device, told), answer["session_id"], "session")
        asked = await device.kind("command", answer["session_id"])
        equal(asked["task_name"], answer["task_name"], "task_name")
        equal(await rest(world, who, f"task_result/{answer['task_name']}"), (200, {"status": "pending"}), "running")
        given = result_of(asked["actions"][0], result="seen")
        await device.results(asked, given)
        ended = await device.end(answer["session_id"])
        equal(await finished(world, who, answer["task_name"]), ended["result"], "reported result")
        equal(ended["result"], {"turns": [[given]], "result": {"lines": 20}}, "result")
        # Only to whom it belongs.
        equal(await rest(world, "bob", f"task_result/{answer['task_name']}"), (200, {"status": "pending"}), "others")
    await device.quiet()
    await leave(device)


@check
async def aip_088_the_latest_result_of_a_name_wins_also_of_other_ways_in(world):
    device, constellation = await world.pair(who := world.somebody())
    device.serves()
    for number in range(3):
        session = await constellation.task(script([command("x")], result=number), name="again")
        await constellation.end(session)
        deadline = time.monotonic() + 10
        while (await finished(world, who, "again"))["result"] != number:
            ensure(time.monotonic() < deadline, "an old result stays")
    session = await constellation.task(script(end="failed", error="no way"), name="broken")
    await constellation.end(session, "failed", "no way")
    await finished(world, who, "broken")
    await leave(constellation, device)


@check
async def aip_089_unknown_names_are_pending_and_nothing_blocks(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    session = await constellation.task(script([command("wait")]), name="long")
    asked = await device.kind("command", session)
    for name in ("unknown", "long", "..", "%00", "a" * 300, "ü", "a%2fb"):
        status, body = await rest(world, who, f"task_result/{name}")
        ensure((status, body) == (200, {"status": "pending"}) or status in (400, 404), name, status, body)
    began = time.monotonic()
    answers = await asyncio.gather(*(rest(world, who, f"task_result/{n}") for n in ("long", "x") * 10))
    equal(answers, [(200, {"status": "pending"})] * 20, "answers")
    ensure(time.monotonic() - began < 30, "they wait for each other")
    await device.results(asked)
    await constellation.end(session)
    await leave(constellation, device)


@check
async def other_methods_and_paths_are_refused(world):
    headers = {"X-API-Key": world.key("ann")}
    for method, call in (("POST", "health"), ("DELETE", "clients"), ("GET", "dispatch"), ("POST", "task_result/x")):
        answer = await ask(world, method, f"/api/{call}", headers)
        equal((answer.status_code, list(answer.json())), (405, ["detail"]), f"{method} {call}")
    for path in ("/api", "/api/", "/api/nothing", "/api/health/", "/api/task_result", "/api/task_result/"):
        equal((await ask(world, "GET", path, headers)).status_code, 404, path)


@check
async def dispatch_needs_the_right_to(world):
    device = await world.device("lab", fresh("lab-1"))
    body = {"client_id": device.name, "request": script([command("x")]), "task_name": fresh("T")}
    for who in ("scout", "lab", "mute"):
        status, answer = await rest(world, who, "dispatch", body)
        equal((status, list(answer)), (403, ["detail"]), f"dispatch by {who}")
    for who in ("bob", world.somebody()):
        equal(await rest(world, who, "dispatch", body), (404, {"detail": "Client not online"}), "by a stranger")
    outside = await world.device("ann")
    strange = {**body, "client_id": outside.name}
    equal(await rest(world, "boss", "dispatch", strange), (404, {"detail": "Client not online"}), "no target")
    for client in (device, outside):
        await client.quiet()
    status, answer = await rest(world, "boss", "dispatch", body)
    equal(status, 200, f"dispatch by boss: {answer}")
    told = await device.kind("task")
    equal(await taken_up(device, told), answer["session_id"], "session")
    await device.results(await device.kind("command", answer["session_id"]))
    ended = await device.end(answer["session_id"])
    equal(await finished(world, "boss", body["task_name"]), ended["result"], "result for whoever dispatched")
    equal(await rest(world, "bob", f"task_result/{body['task_name']}"), (200, {"status": "pending"}), "others")
    status, _ = await rest(world, "scout", f"task_result/{body['task_name']}")
    equal(status, 403, "a credential that may neither dispatch nor read")
    await leave(outside, device)


@check
async def two_dispatches_to_one_device_keep_apart(world):
    who = world.somebody()
    device = await world.device(who)
    for request in ("one", "two"):
        status, answer = await rest(
            world, who, "dispatch", {"client_id": device.name, "request": request, "task_name": request}
        )
        equal(status, 200, "status")
    told = [await device.kind("task") for _ in range(2)]
    for one in told[::-1]:
        equal(await taken_up(device, one), one["session_id"], "session")
        asked = await device.kind("command", one["session_id"])
        equal(asked["actions"][0]["parameters"], {"text": one["user_request"]}, "request")
        await device.results(asked, result_of(asked["actions"][0], result=one["user_request"]))
        await device.end(one["session_id"])
    for name in ("one", "two"):
        equal((await finished(world, who, name))["turns"][0][0]["result"], name, "result")
    await leave(device)
