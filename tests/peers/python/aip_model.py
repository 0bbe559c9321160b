"""A model that asks for tools, and a device that has some: `aip_model.py`.

Serves an OpenAI-compatible endpoint and says where; then reads, from standard input, where a server is whose agent
asks that endpoint (`crates/cli/tests/aip.rs` starts it). One line per check; see `checks.py`.
"""

import asyncio
import json
import sys

from aip_peer import World, leave
from aip_wire import *
from checks import run, summary

TOOLS = [
    {
        "tool_key": "action::run_command",
        "tool_name": "run_command",
        "title": None,
        "namespace": "Shell",
        "tool_type": "action",
        "description": "Runs a command in a shell.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        "output_schema": None,
        "meta": None,
        "annotations": None,
    },
    {
        "tool_key": "data_collection::screen.shot",
        "tool_name": "screen.shot",
        "namespace": "Screen",
        "tool_type": "data_collection",
        "description": "Takes a picture.",
        "input_schema": {"type": "object", "properties": {}},
    },
]
REQUEST = "open the log and count the errors"


class Model:
    """Answers like an endpoint of OpenAI, by a plan; keeps what it was asked."""

    def __init__(self):
        self.requests, self.plan = [], []

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
        self.requests.append(json.loads(await reader.readexactly(length)))
        answer = self.plan.pop(0)(self.requests[-1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for delta, reason in answer:
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()


def says(text):
    return lambda request: [({"role": "assistant", "content": text}, None), ({}, "stop")]


def calls(*wanted):
    """Asks for tools, by the name under which the request offers what ends like this."""

    def answer(request):
        offered = [tool["function"]["name"] for tool in request.get("tools", [])]
        made = []
        for index, (ending, arguments) in enumerate(wanted):
            name = next((name for name in offered if name.endswith(ending)), f"none of {offered}")
            function = {"name": name, "arguments": json.dumps(arguments)}
            made.append({"index": index, "id": f"call_{index}", "type": "function", "function": function})
        return [({"role": "assistant", "tool_calls": made}, None), ({}, "tool_calls")]

    return answer


def on_device(log):
    """Runs what a device would run; `log` gets to know it."""

    def answer(item, message):
        log.append((item["tool_name"], item["tool_type"], item["parameters"]))
        if item["tool_name"] == "list_tools":
            return result_of(item, result=TOOLS)
        if item["tool_name"] == "run_command":
            return result_of(item, result={"stdout": "3\n"}, namespace="Shell")
        return result_of(item, "failure", error="no screen is connected")

    return answer


async def model_uses_the_tools_of_the_device(world, model):
    model.plan = [
        calls(("run_command", {"command": "grep -c ERROR app.log"})),
        says("There are 3 errors."),
    ]
    device, constellation = await world.pair()
    log = []
    device.serves(on_device(log))
    session = await constellation.task(REQUEST)
    ended = await constellation.end(session)
    first, second = model.requests
    names = [tool["function"]["name"] for tool in first["tools"]]
    ensure(len(names) >= 2 and any(name.endswith("run_command") for name in names), "tools", names)
    [offered] = [tool["function"] for tool in first["tools"] if tool["function"]["name"].endswith("run_command")]
    equal(offered["parameters"], TOOLS[0]["input_schema"], "parameters of the tool")
    ensure(TOOLS[0]["description"] in offered["description"], "description", offered)
    ensure(REQUEST in json.dumps(first["messages"]), "what was asked", first["messages"])
    equal([name for name, _, _ in log if name != "list_tools"], ["run_command"], "what the device ran")
    ensure(("run_command", "action", {"command": "grep -c ERROR app.log"}) in log, "the command", log)
    [told] = [message for message in second["messages"] if message["role"] == "tool"]
    equal(json.loads(told["content"]), {"stdout": "3\n"}, "what the model is told")
    equal(told["tool_call_id"], "call_0", "call")
    ensure("There are 3 errors." in json.dumps(ended["result"]), "the answer", ended)
    asked = [message for message in device.inbox if message["type"] == "command"]
    equal({message["agent_name"] for message in asked}, {"LinuxAgent"}, "in whose name")
    await leave(constellation, device)


async def failures_of_tools_come_to_the_model(world, model):
    model.plan = [calls(("shot", {}), ("run_command", {"command": "true"})), says("No screen.")]
    device, constellation = await world.pair()
    log = []
    device.serves(on_device(log))
    ended = await constellation.end(await constellation.task("take a picture"))
    ensure("No screen." in json.dumps(ended["result"]), "the answer", ended)
    # Odd names are made fit for the model, and are the device's own again on their way to it.
    ensure(("screen.shot", "data_collection", {}) in log, "the command", log)
    told = [json.dumps(message) for message in model.requests[1]["messages"] if message["role"] == "tool"]
    equal(len(told), 2, "results")
    ensure("no screen is connected" in told[0], "what the model is told", told)
    await leave(constellation, device)


async def commands_of_a_model_come_one_at_a_time(world, model):
    """Several calls at once are one command, or several of which the next waits for the results of the last."""
    wanted = [("run_command", {"command": f"step {number}"}) for number in range(3)]
    model.plan = [calls(*wanted), says("Done.")]
    device, constellation = await world.pair()
    session = await constellation.task("three steps")
    ran = []
    while len(ran) < 3:
        asked = await device.kind("command", session)
        await asyncio.sleep(0.2)
        # The validator, too, refuses a second command while one is open.
        await device.quiet()
        ran += [item["parameters"]["command"] for item in asked["actions"] if item["tool_name"] == "run_command"]
        told = lambda item: TOOLS if item["tool_name"] == "list_tools" else "ok"
        await device.results(asked, *(result_of(item, result=told(item)) for item in asked["actions"]))
    equal(ran, ["step 0", "step 1", "step 2"], "order")
    await constellation.end(session)
    await leave(constellation, device)


async def a_device_without_tools_is_talked_about_all_the_same(world, model):
    model.plan = [says("Nothing to do.")]
    device, constellation = await world.pair()
    device.serves(lambda item, message: result_of(item, result=[]))
    ended = await constellation.end(await constellation.task("anything?"))
    ensure("Nothing to do." in json.dumps(ended["result"]), "the answer", ended)
    await leave(constellation, device)


async def a_task_of_a_model_is_cancelled(world, model):
    model.plan = [calls(("run_command", {"command": "sleep 1000"})), says("Never said.")]
    device, constellation = await world.pair()
    session = await constellation.task("take your time")
    listed = await device.kind("command", session)
    await device.results(listed, result_of(listed["actions"][0], result=TOOLS))
    while True:
        asked = await device.kind("command", session)
        if asked["actions"][0]["tool_name"] == "run_command":
            break
        await device.results(asked, *(result_of(item, result=TOOLS) for item in asked["actions"]))
    await constellation.send("task_end", "failed", session_id=session, error="enough")
    for side in (constellation, device):
        ended = await side.kind("task_end", session)
        ensure(ended["status"] == "failed" and ended["error"].startswith("cancelled: "), "end", ended)
    equal(len(model.requests), 1, "the model is not asked again")
    await leave(constellation, device)


async def main():
    model, results = Model(), []
    endpoint = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{endpoint.sockets[0].getsockname()[1]}/v1", flush=True)
    world = World((await asyncio.to_thread(sys.stdin.readline)).strip())
    for check in (
        model_uses_the_tools_of_the_device,
        failures_of_tools_come_to_the_model,
        commands_of_a_model_come_one_at_a_time,
        a_device_without_tools_is_talked_about_all_the_same,
        a_task_of_a_model_is_cancelled,
    ):
        model.requests = []

        async def one(world, check=check):
            await check(world, model)

        one.__name__ = check.__name__
        await run(one, world, results, 3 * PATIENCE)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
