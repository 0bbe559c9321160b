"""What peers may write, and what becomes of nonsense (sections 3, 7, 12 and 13)."""

from aip_peer import leave
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def wrong(client, raw, *words):
    """One error that names what is wrong; the connection stays."""
    await client.say(raw)
    answer = await client.next(lambda message: True)
    equal(answer["type"], "error", f"answer to {raw!r:.200}")
    for word in words:
        ensure(word in answer["error"], repr(word), "is not named in", repr(answer["error"]), f"for {raw!r:.200}")
    return answer


def nested(levels):
    return "[" * levels + "]" * levels


@check
async def aip_011_and_014_the_shortest_form_will_do(world):
    token = world.somebody()
    device = await world.open(Device, token, fresh("bare"))
    await device.say(json.dumps({"type": "register", "status": "ok", "client_id": device.name}))
    await device.kind("heartbeat")
    await device.say('{"status":"ok","type":"heartbeat"}')
    await device.kind("heartbeat")
    device.asked[None] = 2
    await device.say('{"type":"task","status":"continue","request":"echo"}')
    session = (await device.kind("heartbeat"))["session_id"]
    asked = await device.kind("command", session)
    equal(asked["actions"][0]["parameters"], {"text": "echo"}, "parameters")
    equal(asked["actions"][0]["tool_name"], "echo", "tool")
    del device.open[session]
    answer = {"type": "command_results", "status": "continue", "session_id": session}
    await device.say({**answer, "prev_response_id": asked["response_id"], "action_results": [{"status": "success"}]})
    ended = await device.end(session)
    wanted = {**result_of(asked["actions"][0]), "status": "success"}
    equal(ended["result"]["turns"], [[wanted]], "matched by position")
    await leave(device)


@check
async def aip_012_unknown_fields_are_ignored(world):
    device, constellation = await world.pair()
    await constellation.say({**client_message("heartbeat"), "extra": {"a": 1}, "response_id": 7, "result": []})
    await constellation.kind("heartbeat")
    session = await constellation.task(script([command("x")]))
    asked = await device.kind("command", session)
    await device.results(asked, {**result_of(asked["actions"][0]), "surprise": [1]})
    one = (await constellation.end(session))["result"]["turns"][0][0]
    ensure("surprise" not in one, "an unknown field came back", one)
    await leave(constellation, device)


@check
async def aip_013_wrong_types_are_refused(world):
    device, constellation = await world.pair()
    good = client_message("heartbeat", client_id=device.name)
    for name in ("session_id", "task_name", "client_id", "target_id", "request", "timestamp", "request_id", "error"):
        for value in (1, True, [], {}):
            await wrong(device, {**good, name: value}, name)
    await wrong(device, {**good, "prev_response_id": 1}, "prev_response_id")
    for value in (1, "x", []):
        await wrong(device, {**good, "metadata": value}, "metadata")
    bad = [{}, {"status": "SUCCESS"}, {"status": None}, {"status": "success", "error": 1}, 1]
    for value in (1, "x", {}, *([one] for one in bad)):
        await wrong(device, {**good, "action_results": value}, "action_results")
    for value in (None, "Device", "DEVICE", "server", 1, ""):
        await wrong(device, {**good, "client_type": value}, "client_type")
    for value in (None, "HEARTBEAT", "Heartbeat", "command", "register_confirmation", "cancel", "", 1, []):
        await wrong(device, {**good, "type": value}, "type")
    for value in (None, "OK", "success", "", 1):
        await wrong(device, {**good, "status": value}, "status")
    for name in ("type", "status"):
        await wrong(device, {key: value for key, value in good.items() if key != name}, name)
    await device.beat()
    await leave(constellation, device)


@check
async def aip_075_malformed_messages_are_answered_and_the_connection_stays(world):
    device, constellation = await world.pair()
    beat = '{"type":"heartbeat","status":"ok"}'
    bad = ["", " ", "hello", "null", "1", '"x"', "[]", "[" + beat + "]", "{", beat + "x", beat + beat, "\ufeff" + beat]
    bad += ["{'type':'heartbeat'}", beat[:-1] + ",}", beat[:-1] + ',"error":"a\tb"}', beat[:-1] + ',"error":"\\ud800"}']
    bad += [beat[:-1] + ',"error":"\\x"}', "NaN", beat[:-1] + ',"metadata":{"a":NaN}}', beat[:-1] + ',"request":01}']
    for raw in bad:
        await wrong(device, raw)
    for raw in (f" \r\n\t{beat} \n", beat[:-1] + ',"error":"\\ud83d\\ude00"}'):
        await device.say(raw)
        await device.kind("heartbeat")
    # Of two keys with one name, the last counts.
    await device.say('{"type":"task","status":"ok","type":"heartbeat"}')
    await device.kind("heartbeat")
    session = await constellation.task(script([command("fine")]))
    await device.results(await device.kind("command", session))
    await constellation.end(session)
    await leave(constellation, device)


@check
async def aip_015_any_timestamp_will_do(world):
    device = await world.device()
    for stamp in ("2025-11-06T10:30:00Z", "yesterday", "", "1762425000.123", None):
        await device.say(client_message("heartbeat", timestamp=stamp))
        await device.kind("heartbeat")
    await leave(device)


@check
async def aip_017_deep_nesting_is_an_error_and_no_crash(world):
    device, constellation = await world.pair()
    beat = '{"type":"heartbeat","status":"ok","metadata":{"a":%s}}'
    for levels in (256, 400, 5000, 500_000):
        await wrong(device, beat % nested(levels))
    await device.say(beat % nested(126))
    await device.kind("heartbeat")
    # What may come in may also go out again.
    deep = nested(100)
    session = await constellation.task(
        'aip-script:{"turns":[[{"tool_name":"t","tool_type":"action","parameters":{"a":%s}}]]}' % deep
    )
    asked = await device.kind("command", session)
    equal(json.dumps(asked["actions"][0]["parameters"]["a"]), deep, "parameters")
    await device.results(asked, result_of(asked["actions"][0], result=json.loads(deep)))
    await constellation.end(session)
    await leave(constellation, device)


@check
async def aip_075_a_task_needs_a_request(world):
    device, constellation = await world.pair()
    for client in (device, constellation):
        for request in (None, ""):
            await client.submit(request, "fresh", request_id="q1")
            await client.refused("request is required", "fresh", "q1", ends=True)
            await client.submit(request)
            await client.refused("request is required")
    await leave(constellation, device)


@check
async def results_may_be_more_fewer_or_without_ids(world):
    device, constellation = await world.pair()
    turns = [[command("a"), command("b"), command("c")]]

    async def play(answer):
        session = await constellation.task(script(*turns))
        asked = await device.kind("command", session)
        await device.results(asked, *answer(asked["actions"]))
        [got] = (await constellation.end(session))["result"]["turns"]
        equal([one["call_id"] for one in got], [item["call_id"] for item in asked["actions"]], "call_ids")
        return [(one["status"], one["result"], one["error"]) for one in got]

    none = ("failure", None, "no result returned")
    done = lambda value: ("success", value, None)
    fewer = await play(lambda items: [result_of(items[0], result=1)])
    equal(fewer, [done(1), none, none], "fewer")
    middle = await play(lambda items: [result_of(items[1], result=2)])
    equal(middle, [none, done(2), none], "only the second")
    strange = lambda items: [result_of(item, result=n) for n, item in enumerate(items)]
    extra = await play(lambda items: strange(items) + [result_of({"call_id": "?"}), result_of({"call_id": None})])
    equal(extra, [done(0), done(1), done(2)], "more")
    turned = await play(lambda items: strange(items)[::-1])
    equal(turned, [done(0), done(1), done(2)], "by call_id, in another order")
    bare = await play(lambda items: [{"status": "success", "result": n} for n in range(3)])
    equal(bare, [done(0), done(1), done(2)], "by position")
    kinds = await play(
        lambda items: [
            result_of(items[0], "failure", error="bad"),
            result_of(items[1], "skipped", error="after a failure"),
            result_of(items[2], "none"),
        ]
    )
    equal(kinds, [("failure", None, "bad"), ("skipped", None, "after a failure"), ("none", None, None)], "statuses")
    session = await constellation.task(script(*turns))
    asked = await device.kind("command", session)
    await device.send(
        "command_results", "continue", session_id=session, prev_response_id=asked["response_id"], action_results=[]
    )
    [got] = (await constellation.end(session))["result"]["turns"]
    equal([one["error"] for one in got], ["no result returned"] * 3, "none at all")
    await leave(constellation, device)


@check
async def an_error_of_a_client_is_echoed(world):
    device, constellation = await world.pair()
    await device.send("error", "error", error="disk full", request_id="e1")
    await device.refused("disk full", id="e1")
    await device.send("error", "error")
    await device.refused("Unknown error")
    session = await constellation.task(script([command("wait")]))
    asked = await device.kind("command", session)
    await device.send("error", "error", error="within", session_id=session)
    await device.refused("within", session)
    await device.results(asked)
    await constellation.end(session)
    await leave(constellation, device)


@check
async def the_end_of_an_unknown_session_is_ignored(world):
    device, constellation = await world.pair()
    for client in (device, constellation):
        for session in ("unknown", None, ""):
            for status in TASK_STATUS:
                await client.send("task_end", status, session_id=session)
        await client.quiet()
    await leave(constellation, device)


@check
async def aip_076_binary_messages_are_refused_and_the_registration_stays(world):
    device, constellation = await world.pair()
    for data in (b"", b"\x00\x01", b'{"type":"heartbeat","status":"ok"}', b"\xff" * 70_000):
        await wrong(device, data)
    start = '{"type": "file_transfer_start", "filename": "a.txt", "size": 12, "chunk_size": 8, "total_chunks": 2}'
    await wrong(device, start)
    await wrong(device, '{"chunk_num": 0, "chunk_size": 8, "type": "binary_data", "size": 8}')
    await wrong(device, b"12345678")
    device.serves()
    await constellation.end(await constellation.task("fine"))
    await leave(constellation, device)


@check
async def ids_are_256_characters_at_most(world):
    for length, fits in ((256, True), (257, False)):
        name = ("ü" + fresh("n")).ljust(length, "x")
        device = await world.open(Device, name=name)
        await device.send("register", metadata={})
        if fits:
            await device.kind("heartbeat")
            for field in ("session_id", "request_id", "task_name", "target_id"):
                await device.send("task", "continue", request="x", **{field: "y" * 257})
                answer = await device.kind("error")
                ensure(field in answer["error"], field, "is not named in", answer["error"])
                ensure(len(answer["error"]) < 1024, "an error that repeats everything")
            device.inbox.clear()
            session = await device.task(script([command("x")]), "s" * 256, "n" * 256, request_id="r" * 256)
            await device.results(await device.kind("command", session))
            await device.end(session)
            await leave(device)
        else:
            await device.refused(bool)
            await device.closed(1008)


@check
async def aip_078_errors_are_short_and_give_nothing_away(world):
    token = world.somebody()
    device = await world.device(token)
    for raw in (
        {"type": "x" * 100_000, "status": "ok"},
        {**client_message("heartbeat"), "client_type": "y" * 100_000},
        "z" * 100_000,
        {**client_message("heartbeat"), "status": "\n\n\n" + "w" * 5000},
        client_message("heartbeat", client_id="v" * 200),
        '{"type":"heartbeat","status":"ok","' + "k" * 100_000 + '":',
    ):
        answer = await wrong(device, raw)
        ensure(token not in answer["error"] and token.split(".")[2] not in answer["error"], "the credential is told")
    await device.send("error", "error", error="long " * 10_000)
    await device.kind("error")
    await device.quiet()
    await leave(device)
