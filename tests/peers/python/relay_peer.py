"""Checks a running relay from outside: `relay_peer.py URL`, with an example function behind it.

The default agent of the server is one of `examples/function-*`, whatever it is written in, and PEER_KEY_ANN is
the API key of a principal (see `crates/cli/tests/functions.rs`). One line per check, as in `asp_peer.py`.
"""

import asyncio
import os
import sys
import time

import httpx

from asp_wire import *
from checks import run_beside, summary, wanted

CHECKS = []
PATIENCE_OF_A_CHECK = 60


def check(function):
    CHECKS.append(function)
    return function


class World:
    def __init__(self, url):
        self.url, self.key = url, os.environ["PEER_KEY_ANN"]
        self.base = url.replace("ws://", "http://").split("/v1/")[0]

    async def peer(self, **members):
        peer = await Peer.open(self.url, self.key)
        await peer.hello(**members)
        return peer


def tool(name):
    return {"name": name, "description": "adds", "input_schema": {"type": "object"}}


def end_of(frames):
    equal(frames[-1].record("t"), "end", f"the last record of {frames!r:.300}")
    return frames[-1].value


@check
async def a_relay_greets_with_the_name_of_the_connection(world):
    peer = await Peer.open(world.url, world.key)
    greeting = await peer.next(lambda frame: frame.opcode == HELLO)
    equal(greeting.value["op"], "greet", "op")
    accept = await peer.hello()
    equal(accept["cid"], greeting.value["cid"], "cid")
    equal(accept["server"]["mode"], "relay", "mode")


@check
async def words_are_streamed_and_numbered(world):
    peer = await world.peer()
    frames = await peer.turn("echo one two three")
    equal(text_of(frames), "one two three", "text")
    equal(numbers_of(frames), list(range(len(numbers_of(frames)))), "indexes")
    equal(end_of(frames)["finish"], "complete", "finish")


@check
async def a_bare_client_gets_nothing_but_text(world):
    peer = await Peer.open(world.url, world.key)
    await peer.send(frame(INVOKE, 1, b"echo plain words"))
    got = b""
    while True:
        part = await peer.next(lambda f: f.id == 1 and f.opcode == STREAM)
        if not part.payload:
            break
        got += part.payload
    equal(got.decode(), "plain words", "text")


@check
async def a_cold_start_is_shown_without_a_number(world):
    peer = await world.peer()
    frames = await peer.turn("cold 1500")
    starting = [f for f in frames if f.record("t") == "status" and f.record("state") == "starting"]
    equal(len(starting), 1, "notices of the start")
    ensure("n" not in starting[0].value, "the notice is numbered")
    equal(numbers_of(frames), list(range(len(numbers_of(frames)))), "indexes")


@check
async def output_that_is_pushed_later_arrives(world):
    peer = await world.peer()
    equal(text_of(await peer.turn("later all in good time")), "all in good time", "text")


@check
async def processor_time_is_told(world):
    peer = await world.peer()
    ensure(end_of(await peer.turn("cpu"))["metrics"]["cpu_ms"] >= 0, "no cpu_ms")


@check
async def a_function_that_fails_or_dies_ends_its_request(world):
    peer = await world.peer()
    frames = await peer.turn("fail")
    equal(frames[-1].opcode, ERROR, "opcode")
    frames = await peer.turn("die")
    equal(frames[-1].record("code"), 2503, "code")
    ensure(text_of(frames), "what it said first is lost")
    equal(text_of(await peer.turn("echo well again")), "well again", "text")


@check
async def a_tool_of_the_client_is_called_and_the_function_goes_on(world):
    peer = await world.peer(tools=[tool("sum")])
    id = await peer.invoke('call sum {"a": 2, "b": 3}')
    call = await peer.record(id, "call")
    equal((call["name"], call["args"]), ("sum", {"a": 2, "b": 3}), "call")
    answer = await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output={"sum": 5})
    equal(end_of(await peer.finish(answer))["finish"], "accepted", "finish of the answer")
    frames = await peer.finish(id)
    ensure("5" in text_of(frames), "the answer is not used:", text_of(frames))
    late = await peer.invoke(kind="result", parent=id, call_id=call["call_id"], ok=True, output={})
    equal((await peer.finish(late))[-1].record("code"), 2303, "a late answer")


@check
async def questions_are_answered_suspended_or_held(world):
    peer = await world.peer()
    for word in ("ask", "hold"):
        id = await peer.invoke(f"{word} which colour")
        ask = await peer.record(id, "ask")
        answer = await peer.invoke(kind="reply", parent=id, ask_id=ask["ask_id"], text="blue")
        await peer.finish(answer)
        ensure("blue" in text_of(await peer.finish(id)), word)


@check
async def an_interrupt_is_answered_at_once(world):
    peer = await world.peer()
    id = await peer.invoke("wait 30")
    await peer.next(lambda f: f.id == id and f.opcode == STREAM and f.record("t") in ("status", "text"))
    began = time.monotonic()
    await peer.interrupt(id, reason="enough")
    equal(end_of(await peer.finish(id))["finish"], "interrupted", "finish")
    ensure(time.monotonic() - began < 5, "it took too long")


@check
async def a_tool_that_was_found_is_pushed(world):
    peer = await world.peer()
    for words in ("tool", "tool inline"):
        await peer.turn(words)
        await peer.next(lambda f: f.opcode == TOOL_DEF and f.record("op") == "add")
        # Known by now, so that the next one would not be told again.
        peer = await world.peer()


@check
async def a_cut_connection_is_resumed_without_a_hole(world):
    peer = await world.peer()
    words = " ".join(str(number) for number in range(60))
    id = await peer.invoke(f"echo {words}")
    seen = [await peer.next(lambda f: f.id == id and f.record("t") == "text") for _ in range(5)]
    frames = [f for f in peer.inbox if f.id == id]
    peer.inbox = []
    last = max(numbers_of(seen + frames))
    accept = peer.accept
    await peer.cut()
    again = await Peer.open(world.url, world.key)
    resume = {"cid": accept["cid"], "token": accept["resume"]["token"], "next": {str(id): last + 1}}
    await again.hello(resume=resume)
    ensure(again.accept["resumed"], "not resumed")
    rest = await again.finish(id)
    got = [f for f in seen + frames + rest if f.record("t") == "text"]
    got.sort(key=lambda f: f.value["n"])
    equal("".join(f.value["d"] for f in got), words, "text")


@check
async def a_client_of_another_protocol_is_served(world):
    headers = {"Authorization": f"Bearer {world.key}"}
    async with httpx.AsyncClient(base_url=world.base, headers=headers, timeout=30) as client:
        jwks = (await client.get("/.well-known/jwks.json")).json()
        equal(jwks["keys"][0]["kty"], "OKP", "kty")
        body = {"model": "m", "message": "echo over another protocol", "history": []}
        async with client.stream("POST", "/v1/chat/stream", json=body) as answer:
            equal(answer.status_code, 200, "status")
            said = "".join([line async for line in answer.aiter_lines()])
    ensure("protocol" in said, said[:300])


async def main(url):
    results = []
    await run_beside(wanted(CHECKS), World(url), results, PATIENCE_OF_A_CHECK)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
