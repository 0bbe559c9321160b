"""Everything at once: requests that do not wait for answers, many devices, loss at every stanza (11.3)."""

import random

from alicia_resume import bytes_of
from alicia_sync import written
from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
async def loss_at_every_stanza_of_a_conversation(world):
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    watcher = await world.open(peer.who)
    await watcher.handshake(conv, 0)
    await peer.send(MEMORISE, conv, {"id": fresh("amem"), "action": "create", "memory": {"content": "tool weather", "category": "fact"}, "timestamp": now()})
    await peer.expect(MEMORISED, success=True)
    first = await peer.turn(conv, "tool weather")
    await peer.turn(conv, "think 2")
    id, stanza = await peer.say(conv, "client clock")
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv)
    await peer.send(RESULT, conv, {"id": request["id"], "success": True, "result": 1})
    await peer.answer(conv, id)
    for target, more in ((first.user, {"mode": "edit", "newContent": "sentences 2"}), (first.answer, {"mode": "retry"}), (first.answer, {"mode": "edit", "newContent": "Edited."})):
        stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": target, **more})
        await peer.ack(stanza)
        if more.get("newContent") == "Edited.":
            await peer.expect(ASSISTANT, conv)
        else:
            await peer.answer(conv)
    await peer.turn(conv, "fail after 1")
    await watcher.barrier()
    log = [e for e in watcher.inbox if e.stanza < 0 or e.type == USER]
    head = min(e.stanza for e in log)
    ensure(head < -15, "a rich log", head)
    for mark in range(1, -head + 1):
        back = await world.open(peer.who)
        replay = (await back.handshake(conv, mark)).replay
        after = next(index for index, e in enumerate(log) if e.stanza == -mark) + 1
        equal(bytes_of(replay), bytes_of(log[after:]), f"replay from {mark}")
        await back.close()
    await peer.close()
    await watcher.close()


@check
async def handshakes_in_a_row_while_an_answer_streams(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv, "sentences 150 every 10", 1)
    others = [await world.open(peer.who) for _ in range(4)]
    for other in others:
        await other.handshake(conv, -1)
    for _ in range(6):
        for other in others:
            head = min(peer.memory[conv].entries)
            await other.configure(conv, -random.randint(1, -head))
        await asyncio.sleep(0.1)
        await peer.barrier()
    await peer.ended(conv, answer)
    for other in others:
        await other.ended(conv, answer)
        await other.barrier()
        entries = other.memory[conv].entries
        equal(bytes_of(entries.values()), bytes_of(peer.memory[conv].entries[stanza] for stanza in entries), "the same bytes")
        await other.close()
    await leave(peer)


@check
async def nobody_waits_for_answers(world):
    peer = await world.open()
    conv = await world.create(peer.who)
    await peer.configure(conv, 0)
    id, said = await peer.say(conv, "say quick")
    note = fresh("an")
    await peer.send(NOTE, conv, {"id": note, "messageId": id, "content": "n", "category": "general", "action": "create", "timestamp": now()})
    again = (await peer.say(conv, "say quick", id=id))[1]
    stop = await peer.send(STOP, conv, {"conversationId": conv, "targetId": fresh("am")})
    for type, body in ((CONFIGURATION, {}), (ACK, {"acknowledgedStanzaId": 0})):
        found = await peer.upcoming(conv)
        equal((found.type, *(found[name] for name in body)), (type, *body.values()), "handshake")
    await peer.expect(ELITES, conv)
    replies = [await peer.next(lambda e: e.type in (ACK, NOTED)) for _ in range(4)]
    equal([e.get("acknowledgedStanzaId") or e["noteId"] for e in replies], [said, note, again, stop], "replies in the order of requests")
    await peer.next(lambda e: e.final)
    equal(len(peer.memory[conv].answers), 1, "one answer")
    await leave(peer)


@check
async def nothing_comes_behind_an_unsubscribe_that_did_not_wait(world):
    for settle in (0, 0, 0.01, 0.05):
        peer, conv = await world.met()
        await peer.say(conv, "sentences 50 every 5")
        await asyncio.sleep(settle)
        await peer.send(UNSUBSCRIBE, conv, {"conversationId": conv})
        await peer.expect(UNSUBSCRIBED, conv, success=True)
        peer.inbox.clear()
        await peer.silent(conv, 0.2)
        await peer.close()


@check
async def five_devices_talk_at_once(world):
    peer, conv = await world.met()
    devices = [peer, *[await world.open(peer.who) for _ in range(4)]]
    for device in devices[1:]:
        await device.handshake(conv, 0)
    sent = {}

    async def talk(device, number):
        for turn in range(4):
            id, stanza = await device.say(conv, f"sentences {random.randint(1, 6)} every 5")
            await device.ack(stanza)
            sent[id] = device
            await asyncio.sleep(random.random() * 0.1)

    await asyncio.gather(*(talk(device, number) for number, device in enumerate(devices)))
    while True:
        await asyncio.sleep(0.5)
        for device in devices:
            await device.barrier()
        if all(answer["final"] for answer in peer.memory[conv].answers.values()):
            break
    logs = [bytes_of(device.memory[conv].entries.values()) for device in devices]
    equal(len(set(map(tuple, logs))), 1, "everybody has seen the same log")
    rows = [row["id"] for row in await world.messages(peer.who, conv, all="true", limit=500) if row["role"] == "user"]
    equal(sorted(rows), sorted(sent), "every message is stored once")
    for device in devices:
        told = [e["id"] for e in device.inbox if e.type == USER]
        equal(sorted(told), sorted(id for id, by in sent.items() if by is not device), "AL-110: told of those of the others, once")
    await leave(*devices)


@check
async def remarks_do_not_interrupt(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    user, answer = await peer.streaming(conv, "sentences 60 every 20")
    await peer.send(VOTE, conv, {"id": fresh("av"), "conversationId": conv, "messageId": first.answer, "targetType": "message", "targetId": first.answer, "vote": "up", "timestamp": now()})
    await peer.send(NOTE, conv, {"id": fresh("an"), "messageId": user, "content": "n", "category": "general", "action": "create", "timestamp": now()})
    await peer.send(MEMORISE, "", {"id": fresh("amem"), "action": "create", "memory": {"content": "x", "category": "fact"}, "timestamp": now()})
    await peer.send(COMMENTARY, conv, {"id": fresh("aucc"), "messageId": answer, "conversationId": conv, "content": "while it runs"})
    await peer.send(WEIGHTS, conv, {"conversationId": conv, "weights": {}, "preset": "speed", "timestamp": now()})
    await peer.send(SYNC, conv, {"messages": [written("local_1", previousId=first.answer)]})
    for type in (VOTED, NOTED, MEMORISED, ACK, ACK, SYNCED):
        await peer.expect(type)
    await peer.finish(conv, answer)
    equal(joined(peer.memory[conv].answers[answer]["pieces"]).strip(), " ".join(f"This is sentence {n}." for n in range(1, 61)), "the whole answer")
    await leave(peer)


@check
async def a_conversation_that_goes_away_under_its_subscribers(world):
    peer, other, conv = await world.pair()
    user, answer = await peer.streaming(conv, "sentences 100 every 20")
    await world.http("DELETE", f"/conversations/{conv}", peer.who)
    for device in (peer, other):
        await device.expect(UPDATE, conv, status="deleted")
    _, stanza = await peer.say(conv, "say still there?")
    refused = await peer.expect(ERROR)
    ensure(refused["code"] in (201, 202), "code", refused)
    back = await world.open(peer.who)
    equal((await back.subscribe(conv, False))["error"], "not_found", "subscribe")
    await back.close()
    await world.http("GET", f"/conversations/{conv}/messages", peer.who, status=404)
    await peer.close()
    await other.close()


@check
async def large_results_and_odd_values(world):
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    for value in ("x" * 900_000, list(range(10_000)), {"a": {"b": [None, True, -1, 1 << 53, 1.5, "ü🌍"]}}, None, 0, False, ""):
        id, stanza = await peer.say(conv, "client clock")
        await peer.ack(stanza)
        request = await peer.expect(REQUEST, conv)
        stanza = await peer.send(RESULT, conv, {"id": request["id"] + "_result", "requestId": request["id"], "conversationId": conv, "success": True, "result": value})
        await peer.ack(stanza)
        turn = await peer.answer(conv, id)
        ensure("You answered" in turn.text, "answer", turn.text[:200])
        await asyncio.sleep(0.3)
    await leave(peer)


@check
async def values_of_the_wrong_kind(world):
    peer, conv = await world.met()
    for body in ({"id": 7}, {"id": None}, {"content": 7}, {"content": None}, {"content": b"bytes"}, {"content": ["list"]}, {"previousId": 7}, {"id": ""}):
        stanza = await peer.send(USER, conv, {"id": fresh("am"), "conversationId": conv, "content": "say no", **body})
        await peer.error((101, 105))
    # A text that is not UTF-8.
    raw = pack(peer.envelope(USER, conv, {"id": fresh("am"), "conversationId": conv, "content": "say ????"})).replace(b"????", b"\xff\xfe\xc3\x28")
    await peer.bytes(raw)
    await peer.error((101, 105))
    equal(await world.path(peer.who, conv), [], "nothing is stored")
    await peer.close()


@check
async def numbers_as_floats_in_handshakes_and_subscriptions(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "sentences 2")
    back = await world.open(peer.who)
    handshake = await back.handshake(conv, -1.0)
    equal(bytes_of(handshake.replay), bytes_of(e for e in turn.entries[1:] if e.stanza), "replay")
    equal((await back.subscribe(conv, fromSequence=1.0))["missedMessages"], 1, "missedMessages")
    await back.upcoming(conv)
    # A Configuration may come without a stanza of its own.
    back.asked.append(0)
    await back.send(CONFIGURATION, conv, {"conversationId": conv, "features": ["streaming"]}, stanza=0)
    await back.expect(CONFIGURATION, conv)
    await leave(peer, back)
