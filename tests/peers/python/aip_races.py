"""Things that happen at the same moment: of many, one wins; whatever began ends once (sections 6.6, 9 and 10.2)."""

from aip_flows import again
from aip_peer import leave
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
async def aip_021_of_many_at_once_one_gets_the_name(world):
    for who in (world.somebody(), None):
        name = fresh("wanted")
        clients = []

        async def claim():
            client = await world.open(Device, who, name)
            clients.append(client)
            await client.send("register", metadata={})

        await asyncio.gather(*(claim() for _ in range(20)))
        answers = await asyncio.gather(*(client.next(lambda message: True) for client in clients))
        kinds = [answer["type"] for answer in answers]
        equal((kinds.count("heartbeat"), kinds.count("error")), (1, 19), "answers")
        winner = clients[kinds.index("heartbeat")]
        for client in clients:
            if client is not winner:
                await client.closed(1008)
        await winner.beat()
        await leave(winner)


@check
async def aip_035_of_many_at_once_one_gets_the_session(world):
    who = world.somebody()
    pairs = [await world.pair(who) for _ in range(4)] + [await world.pair() for _ in range(4)]
    for round in range(5):
        session = fresh("wanted")
        plan = script([command("wait", round=round)])
        await asyncio.gather(*(constellation.submit(plan, session) for _, constellation in pairs))
        answers = await asyncio.gather(*(constellation.next(lambda message: True) for _, constellation in pairs))
        kinds = [answer["type"] for answer in answers]
        # AIP-091: one of those of one principal, and all the others, who are principals of their own.
        equal((kinds[:4].count("heartbeat"), kinds[4:].count("heartbeat")), (1, 4), f"answers {kinds}")
        for kind, (device, constellation) in zip(kinds, pairs):
            if kind == "heartbeat":
                await device.results(await device.kind("command", session))
                await constellation.end(session)
                await device.end(session)
            else:
                await constellation.end(session, "failed", f"session_id '{session}' is owned by another client")
        for device, constellation in pairs:
            await device.quiet()
            await constellation.quiet()
            constellation.asked.clear()
    for device, constellation in pairs:
        await leave(constellation, device)


def asks_for(tool):
    return lambda message: message["type"] == "command" and message["actions"][0]["tool_name"] == tool


@check
async def aip_073_a_cancelled_session_begins_anew_at_once(world):
    device, constellation = await world.pair()
    session = fresh("again")
    device.tolerant = True
    await constellation.task(script([command("task-0")]), session)
    for number in range(1, 15):
        await constellation.send("task_end", "failed", session_id=session, error="next")
        await constellation.kind("task_end", session)
        await constellation.task(script([command(f"task-{number}")]), session)
        if number % 3 == 0:
            await device.next(asks_for(f"task-{number}"))
    last = await device.next(asks_for("task-14"))
    await device.results(last)
    await constellation.end(session)
    await constellation.quiet()
    await leave(constellation, device)


@check
async def aip_053_a_task_that_is_cancelled_as_it_ends_ends_once(world):
    device, constellation = await world.pair()
    for number in range(30):
        session = await constellation.task(script([command("x")]), fresh("race"))
        asked = await device.kind("command", session)
        steps = [device.results(asked), constellation.send("task_end", "failed", session_id=session)]
        steps.append(device.send("task_end", "failed", session_id=session))
        await asyncio.gather(*(steps if number % 2 else steps[::-1]))
        first, second = await constellation.kind("task_end", session), await device.kind("task_end", session)
        equal((first["status"], first["response_id"]), (second["status"], second["response_id"]), "ends")
    await asyncio.sleep(0.2)
    await constellation.quiet()
    await device.quiet()
    await leave(constellation, device)


@check
async def aip_071_a_constellation_may_leave_at_any_moment(world):
    who = world.somebody()
    device = await world.device(who)
    device.serves()
    for number in range(30):
        constellation = await world.constellation(device, who)
        for _ in range(3):
            await constellation.submit(script([command("x")], [command("y")]))
        await asyncio.sleep(number * 0.0007)
        await getattr(constellation, ("close", "reset")[number % 2])()
    await device.beat()
    constellation = await world.constellation(device, who)
    await constellation.end(await constellation.task("fine"))
    # Whatever was told to the device had an end, and nothing occupies it any more.
    for _ in range(8):
        await constellation.end(await constellation.task("fine"))
    deadline = time.monotonic() + 10
    while True:
        begun = {message["session_id"] for message in device.inbox if message["type"] == "command"}
        ends = [message["session_id"] for message in device.inbox if message["type"] == "task_end"]
        equal(len(ends), len(set(ends)), "told twice")
        if begun <= set(ends):
            break
        ensure(time.monotonic() < deadline, "never told of the end of", begun - set(ends))
        await asyncio.sleep(0.05)
    await leave(constellation, device)


@check
async def aip_074_a_device_may_come_and_go_while_tasks_come_in(world):
    who = world.somebody()
    name = fresh("restless")

    async def serving():
        # From the first moment on: commands may come with the confirmation.
        return await (await world.open(Device, who, name)).serves().register()

    device = await serving()
    constellation = await world.constellation(device, who)
    submitted, over = [], asyncio.Event()

    async def submit():
        while not over.is_set():
            session = fresh("churn")
            submitted.append(session)
            await constellation.submit(script([command("x")], [command("y")]), session)
            await asyncio.sleep(0.004)

    feeding = asyncio.ensure_future(submit())
    for number in range(12):
        await asyncio.sleep(0.05)
        await getattr(device, ("reset", "close")[number % 2])()
        device = await again(serving)
    over.set()
    await feeding
    # Each was taken or refused, and each has exactly one end: both kinds are told about it.
    answers, ends = {}, {}
    while len(ends) < len(submitted) or len(answers) < len(submitted):
        message = await constellation.next(lambda message: message["session_id"] is not None)
        found = ends if message["type"] == "task_end" else answers
        ensure(message["session_id"] not in found, "twice:", message)
        ensure(found is answers or message["session_id"] in answers, "an end before anything else", message)
        found[message["session_id"]] = message
    equal(answers.keys(), set(submitted), "answers")
    for session, ended in ends.items():
        if answers[session]["type"] == "heartbeat":
            good = ended["status"] == "completed" or ended["error"] == LOST_DEVICE
            ensure(good, "end", ended)
    ensure(any(ended["status"] == "completed" for ended in ends.values()), "nothing was ever done")
    await constellation.quiet()
    await constellation.end(await constellation.task("fine"))
    await leave(constellation, device)


@check
async def aip_079_whoever_does_not_wait_is_served_in_order(world):
    """Everything at once, from the registration on."""
    device = await world.open(Device)
    await device.send("register", **device.profile())
    for _ in range(50):
        await device.send("heartbeat")
    await device.submit(script([command("x")]), "eager")
    device.serves()
    seen = [await device.next(lambda message: message["type"] == "heartbeat") for _ in range(52)]
    equal([message["session_id"] for message in seen].count("eager"), 1, "acknowledgements")
    equal(seen[0]["session_id"], None, "the registration comes first")
    await device.end("eager")
    await leave(device)
    # Cancelled before it is confirmed: it is confirmed all the same, and then ends.
    device, constellation = await world.pair()
    for number in range(10):
        session = f"unwanted-{number}"
        await constellation.submit(script([command("x")]), session)
        await constellation.send("task_end", "failed", session_id=session, error="never mind")
        ack = await constellation.next(lambda message: True)
        equal((ack["type"], ack["session_id"]), ("heartbeat", session), "first")
        ended = await constellation.kind("task_end", session)
        ensure(ended["status"] == "failed" and ended["error"].startswith("cancelled: "), "end", ended)
    await constellation.quiet()
    await leave(constellation, device)


@check
async def aip_025_nothing_is_done_for_whoever_is_refused(world):
    device, constellation = await world.pair()
    device.serves()
    refused = await world.open(Device, None, device.name)
    await refused.send("register", metadata={})
    await refused.submit("x", "sneaky")
    await refused.send("heartbeat")
    await refused.refused(bool)
    await refused.closed(1008)
    equal(refused.inbox, [], "what else was said")
    await device.quiet()
    await constellation.end(await constellation.task("fine"))
    await leave(constellation, device)
