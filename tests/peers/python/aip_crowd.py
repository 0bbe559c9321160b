"""Many at once, one who does not read, and how long a step takes; run one after another (AIP-062, 077, 090)."""

import statistics

from aip_peer import leave
from aip_raw import Raw
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
async def aip_090_the_next_command_comes_at_once(world):
    device, constellation = await world.pair(compression=None)
    session = await constellation.task(script(*([command("step", n=n)] for n in range(200))))
    took = []
    asked = await device.kind("command", session)
    for _ in range(199):
        began = time.monotonic()
        await device.results(asked)
        asked = await device.kind("command", session)
        took.append(asked["at"] - began)
    await device.results(asked)
    await constellation.end(session)
    # As a yardstick, what the same two ends need for a message that nobody has to plan.
    beats = []
    for _ in range(200):
        began = time.monotonic()
        beats.append((await device.beat())["at"] - began)
    step, beat = (statistics.median(times) * 1000 for times in (took, beats))
    print(f"# results to next command: {step:.2f} ms median; a heartbeat: {beat:.2f} ms", flush=True)
    # Timings are no tests. 40 ms is what a delayed acknowledgement of TCP would add to each step.
    ensure(step < max(20, 10 * beat), "a step takes", step, "ms, a heartbeat", beat)
    await leave(constellation, device)


@check
async def aip_062_fifty_devices_work_without_cross_talk(world):
    count, tasks = 50, 4
    tokens = [world.somebody() for _ in range(5)]
    pairs = await asyncio.gather(*(world.pair(tokens[number % 5]) for number in range(count)))
    for device, _ in pairs:
        device.serves(lambda item, message, own=device.name: result_of(item, result=[own, item["parameters"]]))

    async def work(number):
        device, constellation = pairs[number]
        turns = lambda task: [[command("t", device=number, task=task, turn=turn)] for turn in range(3)]
        plans = [script(*turns(task), result=[number, task]) for task in range(tasks)]
        sessions = {await constellation.task(plan): task for task, plan in enumerate(plans)}
        for session, task in sessions.items():
            ended = await constellation.end(session)
            equal(ended["result"]["result"], [number, task], "result")
            for turn, [one] in enumerate(ended["result"]["turns"]):
                wanted = [device.name, {"device": number, "task": task, "turn": turn}]
                equal(one["result"], wanted, "what came from which device")
        strange = [message for message in device.inbox if message["session_id"] not in sessions]
        equal(strange, [], "messages of other sessions")

    await asyncio.gather(*(work(number) for number in range(count)))
    for device, constellation in pairs:
        await device.beat()
        equal(constellation.inbox, [], "left over")
        kinds = [message["type"] for message in device.inbox]
        equal((kinds.count("command"), kinds.count("task_end")), (tasks * 3, tasks), "what the device was told")
    await asyncio.gather(*(leave(constellation, device) for device, constellation in pairs))


@check
async def aip_077_others_are_served_while_one_does_not_read(world):
    who, name = world.somebody(), fresh("stuck")
    raw = await (await Raw.open(world, who)).register(name)
    raw.reader._transport.pause_reading()
    stuck = await world.constellation(name, who)
    device, constellation = await world.pair()
    device.serves()
    for _ in range(2000):
        await raw.frame(1, b'{"type":"heartbeat","status":"ok"}')
    for _ in range(4):
        await stuck.task(script([command("t", fill="x" * 2_000_000)]))
    for _ in range(30):
        await constellation.end(await constellation.task("meanwhile"))
        await stuck.beat()
    raw.close()
    await leave(constellation, device)
    await stuck.reset()
