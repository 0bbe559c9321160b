"""What is left of conversations after the server was killed: `alicia_kill.py`.

Serves a slow OpenAI-compatible model and says where. Then it reads, from standard input, where a server is whose
agent is `tests/peers/alicia_story.toml` for everybody, and that model for the principal of PEER_KEY_BOB; gets as far
as possible, says `kill`, and reads where the server is that was started in its place (`crates/cli/tests/alicia.rs`).
One line per check; see `checks.py`.
"""

import asyncio
import json
import os
import random
import sys

from alicia_resume import bytes_of
from alicia_sync import sync, written
from alicia_world import *
from checks import run, summary


async def model(reader, writer):
    """Answers every request with a sentence every 50 ms, and never comes to an end."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for number in range(1, 100_000):
            chunk = {"choices": [{"index": 0, "delta": {"content": f"The model says {number}. "}, "finish_reason": None}]}
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(0.05)
    except ConnectionError:
        pass


class Left:
    """A conversation in the state in which the kill finds it."""

    def __init__(self, peer, conv, **known):
        self.peer, self.who, self.conv, self.known = peer, peer.who, conv, known

    async def back(self, world, seen=None, features=(*STREAMING, "tool:clock")):
        """A new connection that knows what the old one had."""
        entries = self.peer.memory[self.conv].entries
        peer = await world.open(self.who, self.peer.memory)
        return peer, await peer.handshake(self.conv, min(entries) if seen is None else seen, features=features)


async def before(world):
    """Everything that is to survive."""
    left = {}
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv, "sentences 120 every 50", 6)
    left["story"] = Left(peer, conv, user=user, answer=answer)
    peer, conv = await world.met(os.environ["PEER_KEY_BOB"])
    user, answer = await peer.streaming(conv, "tell me everything", 6)
    left["model"] = Left(peer, conv, user=user, answer=answer)
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    user, stanza = await peer.say(conv, "client clock")
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv)
    left["tool"] = Left(peer, conv, user=user, answer=request["messageId"], request=request)
    peer, conv = await world.met()
    turns = [await peer.turn(conv, f"sentences {number}") for number in (1, 2)]
    synced = await sync(peer, conv, written("local_1"), written("local_2", "two", 2))
    left["done"] = Left(peer, conv, turns=turns, synced=synced, path=await world.path(peer.who, conv))
    left["acked"] = await burst(world)
    return left


RESTLESS = 12


async def burst(world):
    """Messages of which the last were acknowledged a moment before the kill."""
    peer, conv = await world.met()
    acked = []
    for number in range(40):
        id, stanza = await peer.say(conv, f"say {number}")
        await peer.ack(stanza)
        acked.append(id)
    return Left(peer, conv, acked=acked)


class Restless:
    """A device that does this and that until the server is gone."""

    CONTENTS = ("sentences 3", "sentences 30 every 20", "tool weather", "think 2", "fail after 2", "say short", "size 20000")

    async def run(self, world):
        self.peer, self.conv = await world.met()
        self.acked, self.synced, self.pending = [], [], None
        try:
            while True:
                await self.step()
                await asyncio.sleep(random.uniform(0.05, 0.3))
                self.peer.inbox.clear()
        except ConnectionClosed:
            pass
        except Failed as over:
            ensure("closed with" in str(over), over)

    async def step(self):
        choice = random.random()
        if choice < 0.6 or not self.acked:
            self.pending = fresh("am"), random.choice(self.CONTENTS)
            _, stanza = await self.peer.say(self.conv, self.pending[1], id=self.pending[0])
            await self.peer.ack(stanza)
            self.acked.append(self.pending[0])
            self.pending = None
        elif choice < 0.8:
            more = random.choice(({"mode": "regenerate"}, {"mode": "edit", "newContent": "sentences 5 every 10"}))
            stanza = await self.peer.send(VARIATION, self.conv, {"conversationId": self.conv, "targetId": random.choice(self.acked), **more})
            await self.peer.ack(stanza)
        elif choice < 0.9:
            stanza = await self.peer.send(STOP, self.conv, {"conversationId": self.conv})
            await self.peer.next(lambda e: e.type == ACK and e["acknowledgedStanzaId"] == stanza)
        else:
            [one] = await sync(self.peer, self.conv, written(f"local_{len(self.synced)}", "offline"))
            self.synced.append(one["serverId"])

    async def verify(self, world):
        entries = self.peer.memory.setdefault(self.conv, Memory()).entries
        back = await world.open(self.peer.who, self.peer.memory)
        # The Memory compares what comes again with what had come, and knows what may follow what.
        await back.handshake(self.conv, -1 if entries else 0)
        if self.pending:
            _, stanza = await back.say(self.conv, self.pending[1], id=self.pending[0])
            await back.ack(stanza)
            self.acked.append(self.pending[0])
        deadline = time.monotonic() + 2 * PATIENCE
        while not all(answer["final"] for answer in self.peer.memory[self.conv].answers.values()):
            ensure(time.monotonic() < deadline, "an answer without an end")
            await asyncio.sleep(0.3)
            await back.barrier()
        equal(sorted(entries, reverse=True), list(range(max(entries), min(entries) - 1, -1)) if entries else [], "no hole")
        found = [row["id"] for row in await world.messages(self.peer.who, self.conv, all="true", limit=500)]
        for id in (*self.acked, *self.synced):
            equal(found.count(id), 1, f"{id} is stored")
        await back.close()


async def everything_that_restless_devices_were_told_is_true(world):
    for device in world.left["restless"]:
        await device.verify(world)
    ensure(sum(len(device.acked) for device in world.left["restless"]) > 50, "they were not restless")


async def al_017_stanzas_go_on_and_nothing_is_lost(world):
    done = world.left["done"]
    turns, synced = done.known["turns"], done.known["synced"]
    equal(await world.path(done.who, done.conv), done.known["path"], "the active path")
    peer, handshake = await done.back(world, -1)
    head = min(done.peer.memory[done.conv].entries)
    live = [done.peer.memory[done.conv].entries[stanza] for stanza in range(-2, head - 1, -1)]
    equal(bytes_of(e for e in handshake.replay if e.stanza), bytes_of(live), "the log, byte for byte")
    equal(handshake.head, head, "head")
    again = await sync(peer, done.conv, written("local_1"), written("local_2", "two", 2))
    equal([one["serverId"] for one in again], [one["serverId"] for one in synced], "AL-100: the same ids")
    _, stanza = await peer.say(done.conv, "sentences 1", id=turns[0].user)
    await peer.ack(stanza)
    turn = await peer.turn(done.conv, "say on")
    equal(turn.of(START)[0].stanza, head - 1, "AL-017: the next id")
    await leave(peer)


async def al_041_what_was_acknowledged_is_there(world):
    acked = world.left["acked"]
    rows = [row["id"] for row in await world.messages(acked.who, acked.conv, all="true", limit=500)]
    missing = [id for id in acked.known["acked"] if id not in rows]
    equal(missing, [], "acknowledged, and gone")


async def cut(world, left, seen=None):
    """The rest of an answer that the kill has cut: a final sentence without words, and a 501."""
    answer = left.known["answer"]
    # Nothing that was sent before the kill is different now: the Memory compares bytes.
    peer, handshake = await left.back(world, seen)
    entries = [e for e in handshake.replay if e.stanza]
    while not any(e.type == ERROR for e in entries):
        entries.append(await peer.next(lambda e: e.conv == left.conv and e.stanza))
    final, error = entries[-2:]
    equal((final.type, final["previousId"], final["text"], final.final), (SENTENCE, answer, "", True), f"the end of {entries}")
    equal((error["code"], error["recoverable"], error["originatingId"]), (501, True, answer), f"{error}")
    rows = {row["id"]: row["contents"] for row in await world.messages(left.who, left.conv, all="true")}
    equal(rows[answer].strip(), joined(peer.memory[left.conv].answers[answer]["pieces"]).strip(), "the partial text is kept")
    return peer, entries


async def al_034_what_was_sent_is_sent_again(world):
    peer, _ = await cut(world, world.left["story"], -1)
    turn = await peer.turn(world.left["story"].conv, "say on")
    equal(turn.text, "on", "the next turn")
    await leave(peer)


async def al_036_an_answer_of_a_model_ends_with_a_501(world):
    peer, _ = await cut(world, world.left["model"])
    await leave(peer)


async def al_036_an_answer_that_waits_for_a_tool_ends_with_a_501(world):
    left = world.left["tool"]
    request = left.known["request"]
    peer, entries = await cut(world, left, request.stanza + 1)
    equal(bytes_of(entries[:1]), bytes_of([request]), "the request is sent again")
    [outcome] = [e for e in entries if e.type == RESULT]
    equal((outcome["requestId"], outcome["success"], outcome["errorCode"]), (request["id"], False, "cancelled"), f"{outcome}")
    # The client does not know yet, and has the result.
    result = {"id": request["id"] + "_result", "requestId": request["id"], "conversationId": left.conv, "success": True, "result": "noon"}
    stanza = await peer.send(RESULT, left.conv, result)
    await peer.ack(stanza)
    await peer.silent(left.conv)
    await leave(peer)


CHECKS = (
    everything_that_restless_devices_were_told_is_true,
    al_017_stanzas_go_on_and_nothing_is_lost,
    al_041_what_was_acknowledged_is_there,
    al_034_what_was_sent_is_sent_again,
    al_036_an_answer_of_a_model_ends_with_a_501,
    al_036_an_answer_that_waits_for_a_tool_ends_with_a_501,
)


async def line():
    said = await asyncio.to_thread(sys.stdin.readline)
    ensure(said.strip(), "nobody says where the server is")
    return said.strip()


async def main():
    server = await asyncio.start_server(model, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    world, results = World(await line()), []
    left = await before(world)
    restless = [Restless() for _ in range(RESTLESS)]
    at_work = [asyncio.create_task(device.run(world)) for device in restless]
    await asyncio.sleep(3)
    print("kill", flush=True)
    world = World(await line())
    world.left = left
    for one in left.values():
        # What was on its way belongs to what the device had.
        await one.peer.closed()
    await asyncio.gather(*at_work)
    world.left["restless"] = restless
    for check in CHECKS:
        await run(check, world, results, 3 * PATIENCE)
    return summary(results)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
