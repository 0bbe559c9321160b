"""Tasks: from a constellation, and of a device itself (sections 6.2, 6.3, 10.2 and 11)."""

from aip_peer import leave
from aip_wire import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def turned_down(client, error, session=None, request="x", **fields):
    """A task that is refused: error, and an end if it named a session that does not run."""
    await client.submit(request, session, request_id="q1", **fields)
    return await client.refused(error, session, "q1", ends=session is not None)


@check
async def aip_043_a_task_is_acknowledged_first_and_ends_on_both_sides(world):
    device, constellation = await world.pair()
    await constellation.submit(script([command("a", x=1)], [command("b"), command("c")]), "run42@t1")
    ack = await constellation.next(lambda message: True)
    equal((ack["type"], ack["session_id"]), ("heartbeat", "run42@t1"), "first")
    seen = []
    for names in (["a"], ["b", "c"]):
        asked = await device.next(lambda message: True)
        equal((asked["type"], asked["session_id"]), ("command", "run42@t1"), "command")
        equal([item["tool_name"] for item in asked["actions"]], names, "tools")
        given = [result_of(item, result={"did": item["tool_name"]}, namespace="Bash") for item in asked["actions"]]
        await device.results(asked, *given)
        seen.append(given)
    ended = await constellation.end("run42@t1")
    equal(ended["result"], {"turns": seen, "result": None}, "result")
    told = await device.end("run42@t1")
    same = lambda message: {name: message[name] for name in SERVER_FIELDS if name != "timestamp"}
    equal(same(told), same(ended), "what the device is told")
    await constellation.quiet()
    await device.quiet()
    await leave(constellation, device)


@check
async def aip_044_a_session_without_a_name_gets_one(world):
    device, constellation = await world.pair()
    for client in (constellation, device):
        session = await client.task("no name")
        fresh_id(session, "session_id")
        await device.results(await device.kind("command", session))
        await client.end(session)
    await leave(constellation, device)


@check
async def aip_045_names_of_tasks_are_made_harmless(world):
    device, constellation = await world.pair()
    names = {
        "galaxy/run42/t1": "galaxy_run42_t1",
        "../../etc/passwd": "_.._etc_passwd",
        "..": None,
        "...hidden": "hidden",
        "a b\\c:d\n\0": "a_b_c_d__",
        "ünï": "_n_",
        "": None,
        "x" * 256: "x" * 256,
        "Fine-1.0_a": "Fine-1.0_a",
    }
    for name, safe in names.items():
        await constellation.submit("x", task_name=name)
        asked = await device.kind("command")
        if safe is None:
            fresh_id(asked["task_name"], "task_name")
        else:
            equal(asked["task_name"], safe, f"name of {name!r}")
        await device.results(asked)
        await constellation.kind("task_end")
    await constellation.submit("x", task_name=None)
    asked = await device.kind("command")
    ensure(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", asked["task_name"]), "task_name", asked["task_name"])
    await device.results(asked)
    await constellation.kind("task_end")
    constellation.inbox.clear()
    await leave(constellation, device)


@check
async def aip_046_and_047_tasks_need_a_target_that_is_there(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    needed = "Constellation task requests require target_id"
    await turned_down(constellation, needed, target_id=None)
    await turned_down(constellation, needed, "fresh-1", target_id=None)
    await device.close()
    error = f"Target device '{device.name}' is not connected"
    deadline = time.monotonic() + 10
    while True:
        await constellation.submit("x", "fresh-2", request_id="q2")
        answer = await constellation.next(lambda message: message["type"] in ("error", "task_end"))
        if answer["type"] == "error":
            break
        ensure(time.monotonic() < deadline, "the device never leaves")
    equal((answer["error"], answer["session_id"], answer["response_id"]), (error, "fresh-2", "q2"), "refusal")
    ended = await constellation.kind("task_end", "fresh-2")
    equal(ended["status"], "failed", "status")
    await leave(constellation)


@check
async def aip_048_commands_go_to_the_executor_only(world):
    who = world.somebody()
    device, constellation = await world.pair(who)
    other, bystander = await world.pair(who)
    session = await constellation.task(script([command("one")], [command("two")]))
    for _ in range(2):
        await device.results(await device.kind("command", session))
    await constellation.end(session)
    for client in (other, bystander):
        await client.quiet()
    await constellation.quiet()
    await leave(constellation, bystander, other, device)


@check
async def aip_049_one_command_is_outstanding_at_a_time(world):
    device, constellation = await world.pair()
    session = await constellation.task(script([command("one")], [command("two")]))
    first = await device.kind("command", session)
    await asyncio.sleep(0.3)
    await device.quiet()
    await device.results(first)
    await device.results(await device.kind("command", session))
    await constellation.end(session)
    await leave(constellation, device)


@check
async def aip_050_parameters_and_order_are_kept(world):
    device, constellation = await world.pair()
    deep = {"a": [1, 2.5, -0.0, 1e300, True, None, "", {"b": {}}], "ß": "line\nend\t\u0001", "empty": []}
    huge = {"big": 2**64, "bigger": 12345678901234567890123456789012345678901234567890, "negative": -(2**70)}
    asked = [command("t", "data_collection", **deep), command("u", **huge)]
    asked += [command(f"step{number}", "action" if number % 2 else "data_collection", n=number) for number in range(60)]
    asked.append({"tool_name": "bare", "tool_type": "action"})
    session = await constellation.task(script(asked))
    got = await device.kind("command", session)
    strip = lambda item: {name: item.get(name) for name in ("tool_name", "tool_type", "parameters")}
    for mine, theirs in zip(asked, got["actions"], strict=True):
        mine, theirs = strip(mine), strip(theirs)
        if mine["parameters"] is None:
            ensure(theirs["parameters"] in (None, {}), "parameters", theirs)
            theirs["parameters"] = None
        equal(theirs, mine, "action")
    await device.results(got)
    await constellation.end(session)
    await leave(constellation, device)


@check
async def aip_016_unicode_and_big_integers_come_back_unchanged(world):
    device, constellation = await world.pair()
    odd = {"text": "Grüße 🌍 \u2028 \u200d 中文", "number": 2**200, "small": -(2**63) - 1, "float": 0.1, "e": 1e-7}
    session = await constellation.task(script([command("t", **odd)]), task_name="ok")
    asked = await device.kind("command", session)
    equal(asked["actions"][0]["parameters"], odd, "parameters")
    await device.results(asked, result_of(asked["actions"][0], result=odd, error=None))
    ended = await constellation.end(session)
    equal(ended["result"]["turns"][0][0]["result"], odd, "result")
    await leave(constellation, device)


@check
async def aip_051_and_052_results_that_do_not_match_are_dropped(world):
    device, constellation = await world.pair()
    session = await constellation.task(script([command("one")], [command("two")]))
    first = await device.kind("command", session)
    wrong = [result_of(item, "failure", error="wrong") for item in first["actions"]]
    for fields in (
        {"prev_response_id": "unknown"},
        {"prev_response_id": None},
        {"prev_response_id": ""},
        {"session_id": "unknown"},
        {"session_id": None},
        {"session_id": "unknown", "prev_response_id": "unknown"},
    ):
        await device.results(first, *wrong, **fields)
    await device.send("command_results", "continue", session_id=session, prev_response_id=first["response_id"])
    device.open[session] = first["response_id"]
    await device.quiet()
    await device.results(first)
    second = await device.kind("command", session)
    # The same once more, and those of the first command for the second.
    await device.results(first, *wrong)
    await device.quiet()
    await device.results(second)
    ended = await constellation.end(session)
    equal([[one["status"] for one in turn] for turn in ended["result"]["turns"]], [["success"]] * 2, "results")
    await device.results(second)
    await device.end(session)
    await device.quiet()
    await leave(constellation, device)


@check
async def aip_054_a_task_of_the_device_itself_ends_once(world):
    device = await world.device()
    for fields in ({}, {"target_id": device.name}):
        session = await device.task(script([command("self")], result=[1, {"x": "y"}]), **fields)
        asked = await device.kind("command", session)
        await device.results(asked)
        equal((await device.end(session))["result"]["result"], [1, {"x": "y"}], "result")
        await device.quiet()
    await leave(device)


@check
async def aip_055_and_056_plans_that_fail(world):
    device, constellation = await world.pair()
    device.serves()
    session = await constellation.task(script([command("x")], end="failed", error="no way", result={"left": 1}))
    await constellation.end(session, "failed", "no way")
    await device.end(session, "failed", "no way")
    session = await constellation.task(script(end="raise", error="kaboom: ünexpected"))
    ended = await constellation.kind("task_end", session)
    ensure("kaboom: ünexpected" in ended["error"], "error", ended)
    session = await constellation.task("aip-script:{not json")
    equal((await constellation.kind("task_end", session))["status"], "failed", "a script that cannot be read")
    await leave(constellation, device)


@check
async def aip_057_a_command_that_is_not_answered_times_out(world):
    device, constellation = await world.pair()
    device.tolerant = True
    turns = [[command("slow"), command("slower")], [command("next")]]
    session = await constellation.task(script(*turns, command_timeout_s=0.3))
    late = await device.kind("command", session)
    following = await device.kind("command", session)
    equal(following["actions"][0]["tool_name"], "next", "planning went on")
    await device.results(late)
    await device.results(following)
    ended = await constellation.end(session)
    first, second = ended["result"]["turns"]
    equal([one["status"] for one in first], ["failure", "failure"], "one failure each")
    equal([one["call_id"] for one in first], [item["call_id"] for item in late["actions"]], "call_ids")
    ensure(all(one["error"] for one in first), "errors", first)
    equal([one["status"] for one in second], ["success"], "the next")
    await leave(constellation, device)


@check
async def aip_058_plans_go_on_after_failures_unless_they_say_otherwise(world):
    device, constellation = await world.pair()
    device.serves(lambda item, message: result_of(item, "failure", error="tool failed"))
    turns = [[command("a")], [command("b")]]
    ended = await constellation.end(await constellation.task(script(*turns)))
    equal([[one["error"] for one in turn] for turn in ended["result"]["turns"]], [["tool failed"]] * 2, "results")
    session = await constellation.task(script(*turns, stop_on_failure=True))
    ended = await constellation.kind("task_end", session)
    equal((ended["status"], len(ended["result"]["turns"])), ("failed", 1), "stopped")
    await leave(constellation, device)


@check
async def aip_059_a_status_of_results_ends_the_task(world):
    device, constellation = await world.pair()
    for status, outcome in (("completed", "completed"), ("failed", "failed"), ("error", "failed"), ("ok", None)):
        session = await constellation.task(script([command("a")], [command("b")]))
        await device.results(await device.kind("command", session), status=status)
        if outcome is None:
            await device.results(await device.kind("command", session))
        for client in (constellation, device):
            ended = await client.kind("task_end", session)
            equal(ended["status"], outcome or "completed", f"after {status}")
        await device.quiet()
    await leave(constellation, device)


@check
async def aip_060_a_session_that_runs_is_not_begun_twice(world):
    device, constellation = await world.pair()
    session = await constellation.task(script([command("once")]), "twice")
    asked = await device.kind("command", session)
    await constellation.submit("again", session, request_id="q9")
    await constellation.refused(bool, session, "q9")
    await constellation.quiet()
    await device.quiet()
    await device.results(asked)
    await constellation.end(session)
    # After its end, the id may be used again.
    device.serves()
    for _ in range(3):
        await constellation.end(await constellation.task("next", session))
    await leave(constellation, device)


@check
async def aip_061_a_device_is_sent_no_task_unless_it_asked(world):
    who = world.somebody()
    device = await world.device(who)
    constellation = await world.constellation(device, who)
    session = await constellation.task("plain")
    await device.results(await device.next(lambda message: True))
    await constellation.end(session)
    eager = await world.device(who, metadata={"task_announce": True, "platform": "linux"})
    constellation_2 = await world.constellation(eager, who)
    session = await constellation_2.task("announced", name="a/b")
    told = await eager.next(lambda message: True)
    wanted = ("task", "announced", "a_b", session)
    equal(tuple(told[name] for name in ("type", "user_request", "task_name", "session_id")), wanted, "announcement")
    await eager.results(await eager.kind("command", session))
    await constellation_2.end(session)
    await leave(constellation_2, eager, constellation, device)


@check
async def aip_073_a_task_is_cancelled_by_either_side(world):
    device, constellation = await world.pair()
    reasons = ((constellation, "changed my mind"), (device, "operator pressed stop"), (constellation, None))
    for client, reason in reasons:
        session = await constellation.task(script([command("wait")], [command("never")]))
        asked = await device.kind("command", session)
        await client.send("task_end", "failed", session_id=session, error=reason)
        for side in (constellation, device):
            ended = await side.kind("task_end", session)
            equal(ended["status"], "failed", "status")
            ensure(ended["error"].startswith("cancelled: " + (reason or "")), "error", ended["error"])
        await device.results(asked)
        await client.send("task_end", "failed", session_id=session)
        await device.quiet()
        await constellation.quiet()
    # One that waits behind four others never starts.
    sessions = [await constellation.task(script([command("wait")])) for _ in range(5)]
    asked = [await device.kind("command") for _ in range(4)]
    waiting = next(session for session in sessions if session not in {one["session_id"] for one in asked})
    await constellation.send("task_end", "failed", session_id=waiting)
    ended = await constellation.kind("task_end", waiting)
    ensure(ended["status"] == "failed" and ended["error"].startswith("cancelled: "), "waiting", ended)
    for one in asked:
        await device.results(one)
        await constellation.end(one["session_id"])
    await device.beat()
    ensure(not [m for m in device.inbox if m["type"] == "command"], "a cancelled task began", device.inbox)
    await leave(constellation, device)


@check
async def aip_073_a_device_may_end_its_task_as_completed(world):
    device, constellation = await world.pair()
    session = await constellation.task(script([command("wait")]))
    await device.kind("command", session)
    await device.send("task_end", "completed", session_id=session)
    await constellation.end(session)
    await device.end(session)
    await leave(constellation, device)


@check
async def aip_079_messages_are_applied_in_order(world):
    device, constellation = await world.pair()
    device.serves()
    for round in range(10):
        session = f"order-{round}"
        await constellation.submit(script([command("x")], delay_s=0.05), session)
        await constellation.send("heartbeat")
        await constellation.submit("dup", session)
        await constellation.send("heartbeat")
        # Heartbeats need not wait for tasks, but all that is said of the session comes after its acknowledgement.
        seen = []
        while len(seen) < 4:
            seen.append(await constellation.next(lambda message: message["type"] != "task_end"))
        own = [message["type"] for message in seen if message["session_id"] is not None]
        equal(own, ["heartbeat", "error"], "the first is taken, the second refused")
        await constellation.end(session)
    await leave(constellation, device)


@check
async def a_device_runs_four_keeps_64_waiting_and_is_busy_then(world):
    device, constellation = await world.pair()
    sessions = [await constellation.task(script([command("wait")])) for _ in range(68)]
    begun = [await device.kind("command") for _ in range(4)]
    await asyncio.sleep(0.3)
    await device.quiet()
    await constellation.submit("x", "one-too-many", request_id="q")
    await constellation.refused(lambda error: "device busy" in error, "one-too-many", "q", ends=True)
    device.serves()
    for one in begun:
        await device.results(one)
    for session in sessions:
        await constellation.end(session)
    await leave(constellation, device)


@check
async def commands_in_whose_name(world):
    """A device looks its tools up by `agent_name`, so it has to be one that it knows."""
    who = world.somebody()
    for platform, agent in (("linux", "LinuxAgent"), ("android", "MobileAgent")):
        device = await world.device(who, metadata={"platform": platform})
        constellation = await world.constellation(device, who)
        await constellation.task("x")
        equal((await device.kind("command"))["agent_name"], agent, f"agent of {platform}")
        await leave(constellation, device)
