"""Everything that somebody could pretend (sections 6.1, 6.2, 9 and 14)."""

import contextlib

from aip_flows import DUPLICATE, turned_away
from aip_peer import leave
from aip_rest import admin, rest
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


OTHER_ID = "client_id does not match the registered connection"
OTHER_ROLE = "client_type does not match the registered connection"
NOT_PERMITTED = "client_id is not permitted for this credential"
OWNED = "session_id '{}' is owned by another client"


@check
async def aip_029_another_name_is_refused_without_effect(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    other, bystander = await world.pair(who)
    running = await constellation.task(script([command("wait")]))
    asked = await device.kind("command", running)
    for client, name in ((device, other.name), (bystander, constellation.name), (device, "nobody"), (device, "")):
        fields = {"client_id": name, "request_id": "q1"}
        await client.send("heartbeat", **fields)
        await client.refused(OTHER_ID, id="q1")
        await client.submit("spoofed", "fresh-one", **fields)
        await client.refused(OTHER_ID, "fresh-one", "q1", ends=False)
        client.inbox = [message for message in client.inbox if message["type"] != "task_end"]
        await client.send("task_end", "failed", session_id=running, **fields)
        await client.refused(OTHER_ID, running, "q1")
        await client.send("device_info_response", metadata={"cpu_count": 66}, **fields)
        await client.refused(OTHER_ID, id="q1")
        await client.send("error", "error", error="x", **fields)
        await client.refused(OTHER_ID, id="q1")
    await device.results(asked, client_id=other.name)
    await device.kind("error")
    device.open[running] = asked["response_id"]
    await constellation.quiet(but=("task_end",))
    ensure(not [m for m in constellation.inbox if m["session_id"] == running], "a spoofed message had an effect")
    for client in (other, bystander):
        await client.quiet(but=("task_end",))
    await device.results(asked)
    await constellation.end(running)
    await constellation.info()
    equal((await constellation.kind("device_info_response"))["result"]["cpu_count"], 8, "facts")
    await leave(constellation, bystander, other, device)


@check
async def aip_030_another_role_is_refused_except_in_heartbeats(world):
    device, constellation = await world.pair()
    for client, role in ((device, "constellation"), (constellation, "device")):
        kinds = {
            "task": {"status": "continue", "request": "x", "target_id": device.name},
            "command_results": {"action_results": [], "prev_response_id": "r"},
            "task_end": {"status": "failed", "session_id": None},
            "device_info_request": {"target_id": device.name},
            "device_info_response": {"metadata": {"cpu_count": 66}},
            "error": {"status": "error", "error": "x"},
        }
        for kind, fields in kinds.items():
            await client.send(kind, client_type=role, request_id="q", **fields)
            await client.refused(OTHER_ROLE, id="q")
        await client.send("heartbeat", client_type=role)
        await client.kind("heartbeat")
    # A constellation that leaves the role out says that it is a device.
    await constellation.say({"type": "task", "status": "continue", "request": "x", "target_id": device.name})
    await constellation.refused(OTHER_ROLE)
    await device.quiet()
    await leave(constellation, device)


@check
async def aip_031_a_device_does_nothing_for_another(world):
    who = world.somebody()
    device, other = await world.device(who), await world.device(who)
    for target in (other.name, "nobody-here", device.name + "x"):
        await device.submit("x", "fresh-one", target_id=target, request_id="q1")
        await device.refused("Device clients may not target other devices", "fresh-one", "q1", ends=True)
    await other.quiet()
    await leave(other, device)


@check
async def aip_032_names_and_roles_are_bound_to_credentials(world):
    name = fresh("lab-1")
    lab = await world.device("lab", name)
    attempts = [
        ("lab", Device, fresh("desk"), {}),
        ("lab", Device, "lab", {}),
        ("lab", Constellation, fresh("lab-2"), {"target_id": name}),
        ("boss", Device, fresh("boss-1"), {}),
        ("boss", Device, fresh("lab-3"), {}),
        ("boss", Constellation, fresh("chief"), {"target_id": name}),
        # Before anything is looked up: who is online cannot be found out.
        ("boss", Device, name, {}),
        ("scout", Constellation, name, {"target_id": name}),
    ]
    for who, role, claimed, fields in attempts:
        await turned_away(await world.open(role, who, claimed), NOT_PERMITTED, kind="register", **fields)
    boss = await world.constellation(lab, "boss", fresh("boss-1"))
    lab.serves()
    await boss.end(await boss.task("allowed"))
    # Targets, too, are bound to the credential, there or not.
    elsewhere = await world.device("ann")
    known = {}
    for target in (elsewhere.name, "nobody-here", fresh("lab-2")):
        opened = await world.open(Constellation, "scout", fresh("scout-1"))
        await opened.send("register", target_id=target)
        known[target] = (await opened.refused(bool))["error"].replace(target, "TARGET")
        await opened.closed(1008)
    equal(len(set(known.values())), 1, f"what a stranger can find out: {known}")
    scout = await world.constellation(lab, "scout", fresh("scout-1"))
    await scout.end(await scout.task("allowed"))
    await leave(scout, boss, elsewhere, lab)


@check
async def aip_032_devices_of_others_are_out_of_reach(world):
    device = await world.device("ann")
    there, absent = {}, {}
    for name, found in ((device.name, there), ("nobody-here", absent)):
        opened = await world.open(Constellation, "bob")
        await opened.send("register", target_id=name)
        found["error"] = (await opened.refused(bool))["error"].replace(name, "TARGET")
        await opened.closed(1008)
    equal(there, absent, "a device of somebody else looks as if it were not there")
    await device.quiet()
    await leave(device)


@check
async def aip_033_a_constellation_keeps_to_its_target(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    other, bystander = await world.pair(who)
    await constellation.submit("x", "fresh-one", target_id=other.name, request_id="q1")
    await constellation.refused("Not authorized to task this device", "fresh-one", "q1", ends=True)
    stranger = await world.device()
    told = {}
    for target in (bystander.name, "nobody-here", stranger.name):
        await constellation.submit("x", "fresh-one", target_id=target, request_id="q1")
        refused = await constellation.refused(bool, "fresh-one", "q1", ends=True)
        told[target] = refused["error"].replace(target, "TARGET")
    equal(told[stranger.name], told["nobody-here"], "what is said of devices of others")
    await leave(stranger)
    for client in (other, bystander, device):
        await client.quiet()
    await leave(constellation, bystander, other, device)


@check
async def aip_034_only_the_executor_brings_results(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    other, bystander = await world.pair(who)
    stranger, _ = others = await world.pair()
    session = await constellation.task(script([command("secret")], result="mine"))
    asked = await device.kind("command", session)
    forged = [result_of(asked["actions"][0], result="forged")]
    for client in (other, bystander, constellation, *others):
        await client.results(asked, *forged)
        await client.results(asked, *forged, status="completed")
        await client.quiet()
    for client in (other, stranger):
        await client.send("task_end", "completed", session_id=session)
        await client.send("task_end", "failed", session_id=session)
        await client.quiet()
    await device.results(asked, result_of(asked["actions"][0], result="true"))
    ended = await constellation.end(session)
    equal(ended["result"]["turns"][0][0]["result"], "true", "result")
    await leave(*others[::-1], constellation, bystander, other, device)


@check
async def aip_035_a_session_is_not_taken_by_others(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    second = await world.constellation(device, who)
    strange_device, stranger = await world.pair()
    session = await constellation.task(script([command("wait")]), fresh("owned"))
    asked = await device.kind("command", session)
    # The device works for it, so it is not over; anybody else who waits under that id is told.
    for client in (second, device):
        await client.submit("mine now", session, request_id="q1")
        refused = await client.refused(OWNED.format(session), session, "q1", ends=client is second)
        for name in (constellation.name, device.name):
            ensure(name not in refused["error"], "the owner is told", refused)
        if client is not device:
            await client.send("task_end", "failed", session_id=session)
        await client.quiet()
    # AIP-091: to another principal it is another name.
    strange_device.serves()
    await stranger.end(await stranger.task("mine now", session))
    await device.results(asked)
    await constellation.end(session)
    # Once it is over, the id is anybody's, each in a session of its own.
    await stranger.end(await stranger.task("mine again", session))
    device.serves()
    await second.end(await second.task("mine then", session))
    await leave(stranger, strange_device, second, constellation, device)


@check
async def aip_036_answers_come_to_whoever_asked(world):
    who = world.somebody()
    device, first = await world.pair(who)
    second = await world.constellation(device, who)
    device.serves()
    for client, other in ((first, second), (second, first)):
        await client.info()
        await client.kind("device_info_response")
        await client.submit("x", target_id="elsewhere")
        await client.kind("error")
        session = await client.task("fine")
        await client.end(session)
        await client.beat()
        await other.quiet()
    await leave(second, first, device)


@check
async def aip_045_names_of_tasks_never_become_paths(world):
    """Over both ways in; that nothing was written is for the caller to see."""
    device, constellation = await world.pair(who := world.somebody())
    device.serves()
    for name in ("../../../../tmp/aip-escaped", "/tmp/aip-escaped", "..\\..\\aip-escaped", "a/../../aip-escaped"):
        session = await constellation.task("x", name=name)
        await constellation.end(session)
        status, body = await rest(world, who, "dispatch", {"client_id": device.name, "request": "x", "task_name": name})
        equal((status, body), (400, {"detail": BAD_NAME}), f"dispatch of {name}")
        for path in (name, name.replace("/", "%2f"), "%2e%2e%2fsecret"):
            status, body = await rest(world, who, f"task_result/{path}")
            ensure(status in (200, 404) and (status == 404 or body == {"status": "pending"}), "result", status, body)
    await leave(constellation, device)


@check
async def addresses_in_metadata_are_never_fetched(world):
    asked = []

    async def caught(reader, writer):
        asked.append(await reader.read(100))
        writer.close()

    bait = await asyncio.start_server(caught, "127.0.0.1", 0)
    port = bait.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/bait"
    keys = ("url", "href", "webhook", "callback_url", "image_url", "avatar", "registry", "endpoint", "$ref")
    metadata = {key: url for key in keys}
    info = {**metadata, "ip_address": f"127.0.0.1:{port}", "custom_metadata": metadata, "schema_version": url}
    who = world.somebody()
    device = await world.device(who, metadata={**metadata, "system_info": info, "platform": url})
    constellation = await world.constellation(device, who, metadata=metadata)
    await constellation.info()
    await constellation.kind("device_info_response")
    session = await constellation.task(script([command("get", url=url)]), metadata=metadata, name="bait")
    while True:
        message = await device.next(lambda message: message["type"] in ("command", "device_info_request"))
        if message["type"] == "command":
            break
    await device.results(message, result_of(message["actions"][0], result=metadata))
    await constellation.end(session)
    await asyncio.sleep(0.3)
    equal(asked, [], "somebody looked")
    await leave(constellation, device)
    bait.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(bait.wait_closed(), 1)


@check
async def aip_021_a_stranger_who_claims_a_name_disturbs_nobody(world):
    device, constellation = await world.pair("ann")
    session = await constellation.task(script([command("wait")]), fresh("hidden"))
    asked = await device.kind("command", session)
    stranger = await world.open(Device, "bob", device.name)
    await turned_away(stranger, DUPLICATE.format(device.name), kind="register", metadata={})
    await device.results(asked)
    await constellation.end(session)
    await leave(constellation, device)


@check
async def aip_032_tokens_are_bound_as_keys_are(world):
    for prefix in ("", "aip:"):
        own, other = fresh("own"), fresh("other")
        token = world.somebody(scope=f"{prefix}device:own-*")
        device = await world.device(token, own)
        await turned_away(await world.open(Device, token, other), NOT_PERMITTED, kind="register", metadata={})
        opened = await world.open(Constellation, token, fresh("own"))
        await turned_away(opened, NOT_PERMITTED, kind="register", target_id=own)
        await leave(device)


@check
async def sessions_of_others_are_not_joined_by_their_inner_names(world):
    """What the log calls a session is no way into it."""
    who = world.somebody()
    device, constellation = await world.pair(who)
    strange_device, stranger = await world.pair()
    strange_device.serves()
    session = await constellation.task(script([command("wait")]), fresh("inner"))
    asked = await device.kind("command", session)
    inner = [row["session"] for row in (await admin(world, who, "sessions"))["sessions"]]
    ensure(len(inner) >= 2, "the session of the task, and that of the device", inner)
    heads = {one: (await admin(world, who, f"sessions/{one}"))["head"] for one in inner}
    for one in (*inner, inner[0][:-1] + ("x" if inner[0][-1] != "x" else "y")):
        # AIP-097: a name like any other.
        await stranger.end(await stranger.task("mine", one))
        await stranger.send("task_end", "failed", session_id=one)
    await stranger.quiet()
    for one, head in heads.items():
        equal((await admin(world, who, f"sessions/{one}"))["head"], head, f"events of {one}")
    await device.results(asked)
    await constellation.end(session)
    await device.end(session)
    await device.quiet()
    await leave(stranger, strange_device, constellation, device)


@check
async def ids_may_hold_anything_and_mean_nothing(world):
    """Not even what the server itself might use as names inside."""
    who = world.somebody()
    device, constellation = await world.pair(who)
    other = await world.device(who)
    for client in (device, other):
        client.serves()
    for session in ("\0", f"\0aip\0{other.name}", f"\0aip\0{device.name}", "a\nb", "../x", "ses_", " ", "%00", "🌍"):
        await constellation.submit(script([command("x")]), session)
        first = await constellation.next(lambda message: True)
        ensure(first["type"] in ("heartbeat", "error") and first["session_id"] == session, "answer", first)
        ended = await constellation.kind("task_end", session)
        equal(ended["status"], "completed" if first["type"] == "heartbeat" else "failed", "end")
        for client in (device, other):
            await client.beat()
    back = await world.constellation(other, who)
    await back.end(await back.task("still useful"))
    for client in (device, other):
        shown = await admin(world, who, f"devices/{client.name}")
        equal((shown["online"], shown["facts"]["cpu_count"]), (True, 8), "device")
    await leave(back, other)
    await constellation.end(await constellation.task("still useful"))
    await leave(constellation, device)
