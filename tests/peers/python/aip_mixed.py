"""One session, several protocols: what AIP starts, Acolyte and ASP follow and stop, and the admin API shows."""

from acolyte_wire import Rpc
from asp_wire import Peer, STANDARD

from aip_peer import leave
from aip_rest import admin, ask
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def under_way(world, **members):
    """A task that waits for its device, and the session's name for everybody else."""
    who = world.somebody()
    device, constellation = await world.pair(who)
    plan = script([command("one", word="hello")], [command("two")], **members)
    wire = await constellation.task(plan, fresh("shared"))
    asked = await device.kind("command", wire)
    # The device has a session of its own, in which nothing runs.
    for row in (await admin(world, who, "sessions", live="true"))["sessions"]:
        if (await admin(world, who, f"sessions/{row['session']}/turns"))["turns"]:
            return who, device, constellation, wire, asked, row["session"]
    raise Failed("no session of the task is shown")


async def acolyte(world, who):
    rpc = await Rpc.open(f"ws://{world.host}/v1/rpc", who)
    await rpc.offer("task.resume")
    return rpc


async def asp(world, who):
    peer = await Peer.open(f"ws://{world.host}/v1/agent-socket", who)
    await peer.hello([*STANDARD, "watch"])
    ensure("watch" in peer.features, "watch is not agreed on", peer.features)
    return peer


async def stopped(device, constellation, wire):
    for side in (constellation, device):
        ended = await side.kind("task_end", wire)
        ensure(ended["status"] == "failed" and ended["error"].startswith("cancelled: "), "end", ended)


@check
async def a_task_is_followed_through_both_other_protocols(world):
    who, device, constellation, wire, asked, session = await under_way(world, result="all done")
    rpc, peer = await acolyte(world, who), await asp(world, who)
    chat = await rpc.attach(sessionId=session)
    call = await rpc.event(chat, "tool-call")
    equal((call["toolName"], call["args"]), ("one", {"word": "hello"}), "the call, in Acolyte")
    watched = await peer.invoke(None, kind="watch", session=session)
    seen = await peer.next(lambda frame: frame.id == watched)
    ensure(seen.opcode != 6, "refused:", seen)
    await device.results(asked, result_of(asked["actions"][0], result="seen"))
    await device.results(await device.kind("command", wire))
    await constellation.end(wire)
    ended = await rpc.finish(chat)
    equal(ended.terminal["type"], "chat.done", "the end, in Acolyte")
    equal([event["toolName"] for event in ended.of("tool-result")], ["one", "two"], "results, in Acolyte")
    frames = await peer.finish(watched)
    records = [frame.record("t") for frame in frames]
    ensure(frames[-1].opcode != 6, "the end, in ASP", frames[-1])
    ensure(any(frame.record("name") == "two" or "two" in repr(frame.value) for frame in frames), "the calls", records)
    await rpc.close()
    await peer.close()
    await leave(constellation, device)


@check
async def a_task_is_stopped_from_acolyte(world):
    who, device, constellation, wire, _, session = await under_way(world)
    rpc = await acolyte(world, who)
    chat = await rpc.attach(sessionId=session)
    await rpc.event(chat, "tool-call")
    ensure(await rpc.abort(chat), "not aborted")
    await stopped(device, constellation, wire)
    equal((await rpc.finish(chat)).error_code, "E_ABORTED", "the end, in Acolyte")
    await rpc.close()
    await leave(constellation, device)


@check
async def a_task_is_stopped_from_asp(world):
    who, device, constellation, wire, _, session = await under_way(world)
    peer = await asp(world, who)
    watched = await peer.invoke(None, kind="watch", session=session)
    await peer.next(lambda frame: frame.id == watched)
    await peer.interrupt(watched)
    await stopped(device, constellation, wire)
    await peer.finish(watched)
    await peer.close()
    # The names are free again, and the next turn of the session runs.
    device.serves()
    await constellation.end(await constellation.task("next", wire))
    await leave(constellation, device)


@check
async def a_task_is_also_found_by_its_own_name(world):
    who, device, constellation, wire, asked, _ = await under_way(world)
    rpc = await acolyte(world, who)
    chat = await rpc.attach(sessionId=wire)
    await rpc.event(chat, "tool-call")
    await device.results(asked)
    await device.results(await device.kind("command", wire))
    await constellation.end(wire)
    await rpc.finish(chat)
    await rpc.close()
    await leave(constellation, device)


@check
async def strangers_see_nothing_of_it(world):
    who, device, constellation, wire, asked, session = await under_way(world)
    stranger = world.somebody()
    rpc = await acolyte(world, stranger)
    id = await rpc.send("chat.attach", None, {"sessionId": session})
    await rpc.refused(id, "No such task to attach to")
    peer = await asp(world, stranger)
    watched = await peer.invoke(None, kind="watch", session=session)
    equal((await peer.next(lambda frame: frame.id == watched)).opcode, 6, "watching")
    for path in (f"sessions/{session}/events", f"devices/{device.name}"):
        answer = await ask(world, "GET", f"/admin/v1/{path}", {"Authorization": f"Bearer {stranger}"})
        equal(answer.status_code, 404, path)
    equal((await admin(world, stranger, "devices"))["devices"], [], "devices")
    await device.results(asked)
    await device.results(await device.kind("command", wire))
    await constellation.end(wire)
    await rpc.close()
    await peer.close()
    await leave(constellation, device)


@check
async def the_admin_api_shows_the_session_and_the_device(world):
    who, device, constellation, wire, asked, session = await under_way(world)
    [shown] = (await admin(world, who, "devices", online="true"))["devices"]
    equal((shown["device"], shown["online"], shown["platform"]), (device.name, True, "linux"), "device")
    equal(shown["facts"]["cpu_count"], 8, "facts")
    await device.results(asked)
    await device.results(await device.kind("command", wire))
    await constellation.end(wire)
    log = await admin(world, who, f"sessions/{session}/events")
    numbers = [event["position"] for event in log["events"]]
    ensure(len(numbers) >= 6, "events", log)
    turns = (await admin(world, who, f"sessions/{session}/turns"))["turns"]
    equal(len(turns), 1, "turns")
    everybody = (await admin(world, "admin", "devices", online="true"))["devices"]
    ensure(device.name in [one["device"] for one in everybody], "devices for an admin")
    await device.close()
    deadline = time.monotonic() + 10
    while (await admin(world, who, f"devices/{device.name}"))["online"]:
        ensure(time.monotonic() < deadline, "still online")
        await asyncio.sleep(0.02)
    await leave(constellation)


@check
async def a_device_is_no_way_into_the_sessions_of_others(world):
    """What a device's principal may see of a session that somebody else runs on it."""
    device = await world.device("lab", fresh("lab-1"))
    boss = await world.constellation(device, "boss", fresh("boss-1"))
    wire = await boss.task(script([command("wait")]), fresh("private"))
    asked = await device.kind("command", wire)
    mine = (await admin(world, "boss", "sessions", live="true"))["sessions"]
    ensure(mine, "the owner sees its session")
    lab = {row["session"] for row in (await admin(world, "lab", "sessions"))["sessions"]}
    ensure(not lab & {row["session"] for row in mine}, "the device's principal owns it, too")
    await device.results(asked)
    await boss.end(wire)
    await leave(boss, device)
