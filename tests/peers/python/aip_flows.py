"""Registration, heartbeats, device info, and what becomes of those who leave (sections 6.1, 6.4 to 6.6)."""

from aip_peer import leave
from aip_rest import admin
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


DUPLICATE = "client_id '{}' is already registered; duplicate registrations are not allowed"
NOT_PERMITTED = "client_id is not permitted for this credential"


async def turned_away(client, why, **message):
    """Says something that is no registration, or none that is good enough; is told why, and closed."""
    await client.send(request_id="q1", **message)
    await client.refused(why, message.get("session_id"), "q1")
    await client.closed(1008)


# --- registration ----------------------------------------------------------------------------------


@check
async def aip_018_the_first_message_is_a_registration(world):
    fields = {
        "heartbeat": {},
        "task": {"status": "continue", "request": "x", "session_id": "s"},
        "command_results": {"action_results": [], "prev_response_id": "r", "session_id": "s"},
        "error": {"status": "error", "error": "disk full"},
        "task_end": {"status": "failed", "session_id": "s"},
        "device_info_request": {"target_id": "x"},
        "device_info_response": {"metadata": {}},
    }
    for kind, more in fields.items():
        await turned_away(await world.open(), bool, kind=kind, **more)
    for raw in ("", "hello", "[]", "null", "{}", '{"type":"register"}', '{"type":"register","status":"OK"}'):
        client = await world.open()
        await client.say(raw)
        await client.refused(bool)
        await client.closed(1008)
    client = await world.open()
    await client.say(b'{"type":"register","status":"ok","client_id":"x"}')
    await client.refused(bool)
    await client.closed(1008)


@check
async def aip_019_a_registration_needs_a_name(world):
    for name in ("", None):
        await turned_away(await world.open(), bool, kind="register", client_id=name)
    client = await world.open()
    await client.say('{"type":"register","status":"ok"}')
    await client.refused(bool)
    await client.closed(1008)


@check
async def aip_020_a_registration_is_confirmed(world):
    first, second = await world.device(), await world.device()
    ensure(not first.ids & second.ids, "the same response_id twice")
    await first.quiet()
    await leave(first, second)


@check
async def aip_021_a_name_is_taken_once(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    for name in (device.name, constellation.name):
        for other in (who, world.somebody()):
            await turned_away(
                await world.open(Device, other, name), DUPLICATE.format(name), kind="register", metadata={}
            )
        again = await world.open(Constellation, who, name)
        await turned_away(again, DUPLICATE.format(name), kind="register", target_id=device.name)
    device.serves()
    await constellation.end(await constellation.task("still there"))
    await leave(device, constellation)


@check
async def aip_022_a_name_is_free_once_its_connection_is_gone(world):
    name, who = fresh("device"), world.somebody()
    for way in ("close", "reset", "close", "reset"):
        device = await again(world.device, who, name)
        await getattr(device, way)()

    async def stranger():
        opened = await world.open(Device, world.somebody(), name)
        await turned_away(opened, NOT_PERMITTED, kind="register", metadata={})

    # AIP-092: it is not free for others.
    await again(stranger)


async def again(register, *arguments, within=10):
    """Registers as soon as the name is free, which takes a moment."""
    deadline = time.monotonic() + within
    while True:
        try:
            return await register(*arguments)
        except Failed as failed:
            ensure(time.monotonic() < deadline, "never free:", failed)
            await asyncio.sleep(0.02)


@check
async def aip_023_a_constellation_needs_a_device_that_is_there(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    for target in ("nobody-here", constellation.name, device.name.upper(), ""):
        opened = await world.open(Constellation, who)
        error = f"Target device '{target}' is not connected" if target else bool
        await turned_away(opened, error, kind="register", target_id=target)
    await leave(device)
    for _ in range(100):
        opened = await world.open(Constellation, who)
        await opened.send("register", target_id=device.name)
        answer = await opened.next(lambda message: True)
        if answer["type"] == "error":
            equal(answer["error"], f"Target device '{device.name}' is not connected", "error")
            await opened.closed(1008)
            break
        await opened.close()
    else:
        raise Failed("a device that left is still there")


@check
async def aip_024_a_constellation_needs_a_target(world):
    for fields in ({}, {"target_id": None}):
        opened = await world.open(Constellation)
        await turned_away(opened, "target_id is required for constellation clients", kind="register", **fields)


@check
async def aip_026_a_second_registration_changes_nothing(world):
    device, constellation = await world.pair()
    for client in (device, constellation):
        for name in (client.name, fresh("other")):
            await client.send("register", client_id=name, target_id=device.name)
            await client.refused(bool)
    device.serves()
    await constellation.end(await constellation.task("same as before"))
    await leave(device, constellation)


@check
async def aip_027_platform_and_system_info_are_kept(world):
    who = world.somebody()
    device = await world.device(who, metadata={"system_info": {"cpu_count": 3, "odd": {"ümlaut": [1, None]}}})
    constellation = await world.constellation(device, who)
    id = await constellation.info()
    answer = await constellation.kind("device_info_response")
    equal((answer["response_id"], answer["result"]["cpu_count"]), (id, 3), "info")
    equal(answer["result"]["odd"], {"ümlaut": [1, None]}, "unknown facts")
    shown = await admin(world, who, f"devices/{device.name}")
    equal((shown["platform"], shown["online"]), ("windows", True), f"profile {shown}")
    await leave(constellation, device)


# --- heartbeats ------------------------------------------------------------------------------------


@check
async def aip_038_each_heartbeat_is_answered_once(world):
    device = await world.device()
    for _ in range(200):
        await device.say(client_message("heartbeat", client_id=device.name, metadata={"device_id": "x"}))
    for _ in range(200):
        answer = await device.next(lambda message: True)
        equal((answer["type"], answer["session_id"]), ("heartbeat", None), "answer")
    await device.say({"type": "heartbeat", "status": "ok"})
    await device.kind("heartbeat")
    await device.quiet()
    await leave(device)


@check
async def aip_039_heartbeats_are_answered_while_a_task_runs(world):
    device, constellation = await world.pair()
    own = await device.task(script([command("slow")], delay_s=0.4))
    session = await constellation.task(script([command("slow")], delay_s=0.4))
    for _ in range(5):
        for client in (device, constellation):
            began = time.monotonic()
            await client.beat()
            ensure(time.monotonic() - began < 10, "a heartbeat waited for a planner")
    for wanted in (own, session):
        await device.results(await device.kind("command", wanted))
    await asyncio.gather(device.end(own), constellation.end(session))
    await leave(constellation, device)


@check
async def aip_040_a_constellation_may_beat_as_a_device(world):
    device, constellation = await world.pair()
    await constellation.say(client_message("heartbeat", client_type="device", client_id=constellation.name))
    await constellation.kind("heartbeat")
    await constellation.say(client_message("heartbeat", client_type="device", client_id=device.name))
    await constellation.refused("client_id does not match the registered connection")
    await leave(constellation, device)


# --- device info -----------------------------------------------------------------------------------


@check
async def aip_065_device_info_is_answered_under_its_id(world):
    device, constellation = await world.pair()
    for id in ("one", "device_info_dev-7_1762425000.123456", "ü"):
        await constellation.info(id=id)
        answer = await constellation.kind("device_info_response")
        equal((answer["status"], answer["response_id"]), ("ok", id), "answer")
        info = device.profile()["metadata"]["system_info"]
        equal({key: answer["result"].get(key) for key in info}, info, "info")
    await constellation.send("device_info_request", target_id=device.name)
    equal((await constellation.kind("device_info_response"))["response_id"], None, "without an id")
    await leave(constellation, device)


@check
async def aip_066_device_info_is_for_the_constellation_of_the_device(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    other = await world.device(who)
    await device.send("device_info_request", target_id=device.name, request_id="mine")
    await device.refused("DEVICE_INFO_REQUEST is permitted only for constellation clients", id="mine")
    for target in (other.name, "nobody-here", constellation.name):
        id = await constellation.info(target)
        await constellation.refused("Not authorized to request device info for this device", id=id)
    await leave(constellation, other, device)


@check
async def aip_067_a_failure_is_told_in_three_places(world):
    # Nothing, or nothing that could be called facts.
    for metadata in ({}, None, {"system_info": None}, {"system_info": "a text"}, {"system_info": [1]}):
        device = await world.device(who := world.somebody(), metadata=metadata)
        constellation = await world.constellation(device, who)
        id = await constellation.info()
        answer = await constellation.kind("device_info_response")
        # The validator holds `error` and `result.error` against each other.
        equal((answer["status"], answer["response_id"]), ("error", id), f"answer for {metadata}")
        await leave(constellation, device)


@check
async def aip_068_fresh_info_is_pulled_once_and_then_the_cache_serves(world):
    device, constellation = await world.pair()
    id = await constellation.info()
    pull = await device.kind("device_info_request")
    now_known = {"device_id": device.name, "platform": "linux", "cpu_count": 99}
    await device.send(
        "device_info_response", prev_response_id=pull["response_id"], request_id=pull["response_id"], metadata=now_known
    )
    answer = await constellation.kind("device_info_response")
    equal((answer["response_id"], answer["result"]["cpu_count"]), (id, 99), "what was pulled")
    # Somebody who never answers is asked once; then what is known has to do.
    began = time.monotonic()
    await constellation.info(id="late")
    await device.kind("device_info_request")
    answer = await constellation.kind("device_info_response")
    waited = time.monotonic() - began
    equal((answer["response_id"], answer["result"]["cpu_count"]), ("late", 99), "what is known")
    ensure(0.7 < waited < 20, "waited", waited)
    await constellation.info(id="again")
    equal((await constellation.kind("device_info_response"))["response_id"], "again", "id")
    await device.quiet()
    await leave(constellation, device)


@check
async def aip_069_info_that_nobody_asked_for_is_taken_silently(world):
    device, constellation = await world.pair()
    await device.send("device_info_response", metadata={"device_id": device.name, "cpu_count": 2})
    await device.send("device_info_response", metadata=None)
    await device.send("device_info_response", prev_response_id="never-asked", metadata={"cpu_count": 5})
    await device.quiet()
    await constellation.info()
    equal((await constellation.kind("device_info_response"))["result"]["cpu_count"], 5, "the last that was said")
    # Facts are a device's to tell.
    await constellation.send("device_info_response", metadata={"cpu_count": 77})
    await constellation.beat()
    await constellation.info()
    answer = await constellation.next(lambda message: message["type"] == "device_info_response")
    equal(answer["result"]["cpu_count"], 5, "nobody else may tell them")
    await leave(constellation, device)


# --- leaving ---------------------------------------------------------------------------------------


async def busy(world, tasks=6):
    """A device with more tasks than it runs at once, none of which gets an answer."""
    device, constellation = await world.pair()
    sessions = [await constellation.task(script([command("wait", number=number)])) for number in range(tasks)]
    for _ in range(min(tasks, 4)):
        await device.kind("command")
    return device, constellation, sessions


@check
async def aip_070_tasks_end_when_their_device_is_lost(world):
    for way in ("close", "reset"):
        device, constellation, [session] = await busy(world, 1)
        await getattr(device, way)()
        gone = time.monotonic()
        ended = await constellation.end(session, "failed", LOST_DEVICE)
        ensure(ended["at"] - gone < 5, "took", ended["at"] - gone)
        await constellation.quiet()
        await leave(constellation)


@check
async def aip_074_running_and_waiting_tasks_of_a_lost_device_end(world):
    device, constellation, sessions = await busy(world, 10)
    await device.reset()
    gone = time.monotonic()
    for session in sessions:
        ended = await constellation.end(session, "failed", LOST_DEVICE)
        ensure(ended["at"] - gone < 5, "took", ended["at"] - gone)
    await constellation.quiet()
    await leave(constellation)


@check
async def aip_074_a_device_that_runs_its_own_task_may_come_back_at_once(world):
    who = world.somebody()
    device = await world.device(who)
    await device.task(script([command("wait")]), "own-session")
    await device.kind("command")
    await device.reset()
    device = await again(world.device, who, device.name)
    # The id is free again, since its session is over.
    device.serves()
    deadline = time.monotonic() + 10
    while True:
        await device.submit("again", "own-session")
        answer = await device.next(lambda message: message["type"] != "task_end")
        if answer["type"] == "heartbeat":
            break
        ensure(time.monotonic() < deadline, "the session never ends:", answer["error"])
    await device.end("own-session")
    await leave(device)


@check
async def aip_071_a_constellation_that_leaves_cancels_and_the_device_is_told(world):
    for way in ("close", "reset"):
        device, constellation, sessions = await busy(world, 6)
        await getattr(constellation, way)()
        # Those that it had begun; what never began is none of its business.
        for _ in range(4):
            ended = await device.kind("task_end")
            equal((ended["status"], ended["error"]), ("failed", LOST_OWNER), "end")
            ensure(ended["session_id"] in sessions, "session", ended)
        await device.quiet(but=("task_end",))
        await leave(device)


@check
async def aip_072_late_results_are_dropped_and_the_device_stays_useful(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    session = await constellation.task(script([command("wait")]))
    late = await device.kind("command", session)
    await constellation.close()
    await device.end(session, "failed", LOST_OWNER)
    for _ in range(3):
        await device.results(late)
    await device.quiet()
    constellation = await world.constellation(device, who)
    device.serves()
    await constellation.end(await constellation.task("fine"))
    await leave(constellation, device)


async def drained(world):
    """The server leaves: the caller sends SIGTERM once it reads `ready`."""
    device, constellation, sessions = await busy(world, 3)
    idle = await world.device()
    own = await idle.task(script([command("wait")]))
    print("ready", flush=True)
    for session in sessions:
        ended = await constellation.kind("task_end", session)
        equal(ended["status"], "failed", "status")
        text(ended["error"], "error")
    equal((await idle.kind("task_end", own))["status"], "failed", "status")
    for client in (device, constellation, idle):
        await client.closed(1001)


drained.__name__ = "owners_are_told_before_the_server_leaves"
