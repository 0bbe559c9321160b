"""Handshakes, resumption, and several devices (6, 8.5)."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def bytes_of(envelopes):
    return [envelope.raw.hex() for envelope in envelopes]


@check
async def al_022_a_new_conversation(world):
    peer = await world.open()
    # TV-01, byte for byte.
    await peer.bytes(bytes.fromhex("84a87374616e7a61496401ae636f6e766572736174696f6e4964a0a4747970650ca4626f647984b06c61737453657175656e63655365656e00ad636c69656e7456657273696f6ea5302e312e30a6646576696365a3776562a8666561747572657391a973747265616d696e67"))
    types = []
    while len(types) < 5:
        await peer.receive()
        types.append(peer.inbox[-1].type)
    equal(types, [CONFIGURATION, ACK, INFO, STATS, ELITES], "order")
    configuration, ack, info, stats, elites = peer.inbox
    conv = configuration["conversationId"]
    ensure(re.fullmatch(r"ac_[A-Za-z0-9_-]{21}", conv), "conversationId", conv)
    equal(configuration.get("lastSequenceSeen", 0), 0, "head")
    ensure("streaming" in configuration["features"], "features", configuration)
    equal((ack["acknowledgedStanzaId"], ack["success"]), (0, True), "acknowledgement")
    equal((stats["messageCount"], info["connection"]["status"]), (0, "connected"), "info")
    equal({e.conv for e in peer.inbox}, {conv}, "conversation")
    peer.inbox.clear()
    peer.stanza = 1
    equal((await peer.turn(conv, "say hello")).types[0], START, "it streams")
    await leave(peer)


@check
async def al_024_cut_in_the_middle_of_an_answer(world):
    peer, other, conv = await world.pair()
    user, answer = await peer.streaming(conv, "sentences 40 every 50", 5)
    mark = min(peer.memory[conv].entries)
    await peer.cut()
    # In the middle of the answer, and again after its end; with either sign (AL-027).
    back = await world.open(peer.who, peer.memory)
    handshake = await back.handshake(conv, mark)
    ensure(handshake.head <= mark, "head", handshake.head)
    await back.ended(conv, answer)
    await other.ended(conv, answer)
    await other.barrier()
    live = other.memory[conv].entries
    equal(sorted(back.memory[conv].entries), sorted(live), "every stanza has come")
    equal(bytes_of(back.memory[conv].entries[stanza] for stanza in live), bytes_of(live.values()), "bytes")
    head = min(live)
    for seen in (mark, -mark, -1, 1, head + 1, -head - 1, head):
        again = await world.open(peer.who)
        handshake = await again.handshake(conv, seen)
        wanted = [live[stanza] for stanza in range(-abs(seen) - 1, head - 1, -1)]
        equal(bytes_of(e for e in handshake.replay if e.stanza), bytes_of(wanted), f"replay from {seen}")
        equal(handshake.head, head, "head")
        await leave(again)
    await leave(back, other)


@check
async def al_025_live_envelopes_do_not_overtake_a_replay(world):
    peer, conv = await world.met()
    await peer.turn(conv, "sentences 300")
    user, answer = await peer.streaming(conv, "sentences 200 every 5", 1)
    # Peers check that stanzas come one after another, replayed or live.
    backs = [await world.open(peer.who) for _ in range(3)]
    for back in backs:
        await back.handshake(conv, -1)
    for back in backs:
        await back.ended(conv, answer)
        await back.barrier()
    await peer.ended(conv, answer)
    for back in backs:
        equal(bytes_of(back.memory[conv].entries[s] for s in range(-2, min(back.memory[conv].entries) - 1, -1)), bytes_of(peer.memory[conv].entries[s] for s in range(-2, min(back.memory[conv].entries) - 1, -1)), "bytes")
    await leave(peer, *backs)


@check
async def al_028_nothing_is_replayed_from_zero(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "sentences 3")
    head = min(peer.memory[conv].entries)
    for count, seen in ((2, 0), (4, None)):
        back = await world.open(peer.who)
        handshake = await back.handshake(conv, seen)
        equal((handshake.replay, handshake.head), ([], head), "replay and head")
        equal(handshake.info[1]["messageCount"], count, "messageCount")
        again = await back.turn(conv, "say on")
        equal(again.of(START)[0].stanza, head - 1, "it counts on from the head")
        head = min(back.memory[conv].entries)
        await leave(back)
    await leave(peer)


@check
async def a_client_that_is_ahead(world):
    peer, conv = await world.met()
    await peer.turn(conv, "say one")
    head = min(peer.memory[conv].entries)
    back = await world.open(peer.who)
    await back.configure(conv, head - 5)
    equal((await back.expect(CONFIGURATION, conv)).get("lastSequenceSeen"), head, "the true head")
    await back.error(202, True)
    await leave(peer, back)


@check
async def al_029_a_gap_that_is_too_large(world):
    peer, conv = await world.met()
    await peer.turn(conv, "sentences 1100")
    back = await world.open(peer.who)
    await back.configure(conv, -1)
    await back.error(202, False)
    equal((await back.handshake(conv, 0)).replay, [], "with 0 it goes on")
    again = await world.open(peer.who)
    equal(len((await again.handshake(conv, min(peer.memory[conv].entries) + 1000)).replay), 1000, "1 000 are replayed")
    await leave(peer, back, again)


@check
async def al_030_unknown_deleted_and_foreign_look_the_same(world):
    peer = await world.open()
    foreign = await world.create(world.somebody())
    deleted = await world.create(peer.who)
    await world.http("DELETE", f"/conversations/{deleted}", peer.who)
    answers = set()
    for conv in (foreign, deleted, fresh("ac"), "nonsense"):
        for seen in (0, -3):
            stanza = await peer.configure(conv, seen)
            error = await peer.error(201, False)
            equal(error["severity"], 2, "severity")
            answers.add((error["message"].replace(conv, "…"), error.get("originatingId", "").replace(str(stanza), "n")))
    equal(len(answers), 1, f"one wording: {answers}")
    for conv in (foreign, deleted):
        await peer.say(conv, "say hello")
        await peer.error(202)
    ids = [row["id"] for row in await world.listed("GET", "/conversations", peer.who, "conversations")]
    equal(ids, [], "AL-031: no conversation is made")
    await peer.close()


@check
async def an_archived_conversation_is_inactive(world):
    peer, conv = await world.met()
    await peer.turn(conv, "say one")
    other = await world.open(peer.who)
    await other.subscribe(conv)
    await world.http("PATCH", f"/conversations/{conv}", peer.who, json={"status": "archived"})
    await other.expect(UPDATE, conv, status="archived")
    back = await world.open(peer.who)
    await back.configure(conv, -1)
    ensure("inactive" in (await back.error(202, False))["message"], "the message says so")
    equal((await back.subscribe(conv, False))["error"], "inactive", "subscribe")
    await world.http("PATCH", f"/conversations/{conv}", peer.who, json={"status": "active"})
    await back.handshake(conv, 0)
    equal((await back.turn(conv, "say two")).text, "two", "active again")
    await leave(back)


@check
async def al_035_an_answer_goes_on_without_anybody(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv, "sentences 30 every 30", 1)
    mark = min(peer.memory[conv].entries)
    await peer.cut()
    deadline = time.monotonic() + PATIENCE
    while "This is sentence 30." not in ((await world.message(peer.who, conv, answer)) or {}).get("contents", ""):
        ensure(time.monotonic() < deadline, "the answer never ends")
        await asyncio.sleep(0.2)
    back = await world.open(peer.who, peer.memory)
    handshake = await back.handshake(conv, mark)
    ensure(handshake.replay[-1].final, "the last that is replayed is the final sentence", handshake.replay[-1])
    await leave(back)


@check
async def one_connection_may_shake_hands_for_several_conversations(world):
    peer, first = await world.met()
    second = (await peer.handshake()).conv
    ensure(first != second, "two conversations")
    for conv in (first, second):
        equal((await peer.turn(conv, "sentences 2")).of(START)[0].stanza, -1, "each counts for itself")
    one, two = await peer.say(first, "sentences 20 every 20"), await peer.say(second, "sentences 20 every 20")
    for conv, (id, stanza) in ((first, one), (second, two)):
        await peer.ack(stanza)
        await peer.answer(conv, id)
    await leave(peer)


@check
async def al_109_another_device_is_told_and_the_sender_is_not(world):
    peer, other, conv = await world.pair()
    turn = await peer.turn(conv, "say one")
    sent = peer.sent["body"]["timestamp"]
    equal(turn.of(USER), [], "AL-110: the sender does not get it back")
    first = await other.upcoming(conv)
    equal((first.type, first.stanza, first["id"], first["content"]), (USER, 0, turn.user, "say one"), "announcement")
    equal((first["role"], first["sequenceNumber"], first.get("previousId"), first["timestamp"]), ("user", 1, None, sent), "superset")
    seen = await other.answer(conv)
    equal(bytes_of(e for e in seen.entries if e.stanza), bytes_of(e for e in turn.entries if e.stanza), "AL-096: the same log")
    back = await other.turn(conv, "say two")
    announced = await peer.upcoming(conv)
    equal((announced.type, announced["id"], announced["previousId"]), (USER, back.user, turn.answer), "the other way round")
    await peer.barrier()
    equal([e for e in peer.inbox if e.type == USER], [], "once")
    await leave(peer, other)


@check
async def al_109_announcements_are_replayed_in_place(world):
    peer, watcher, conv = await world.pair()
    turns = [await peer.turn(conv, f"sentences {number}") for number in (1, 2)]
    await vary_and_wait(peer, conv, turns[0].user)
    live = []
    while len([e for e in live if e.type == STATS]) < 3:
        live.append(await watcher.upcoming(conv))
    live = [e for e in live if e.type != STATS and (e.stanza or e.type == USER)]
    for seen in (-1, 2, min(peer.memory[conv].entries) + 1):
        back = await world.open(peer.who)
        replay = (await back.handshake(conv, seen)).replay
        after = next(index for index, e in enumerate(live) if e.stanza == -abs(seen)) + 1
        equal(bytes_of(replay), bytes_of(live[after:]), f"replay from {seen}: {replay}")
        await leave(back)
    await leave(peer, watcher)


async def vary_and_wait(peer, conv, target):
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": target, "mode": "edit", "newContent": "say edited"})
    await peer.ack(stanza)
    await peer.answer(conv)


@check
async def al_040_what_was_not_acknowledged_is_sent_again(world):
    peer, conv = await world.met()
    await peer.turn(conv, "say one")
    id, stanza = await peer.say(conv, "say lost?")
    await peer.cut()
    back = await world.open(peer.who, peer.memory)
    await back.handshake(conv, min(peer.memory[conv].entries))
    _, stanza = await back.say(conv, "say lost?", id=id)
    await back.ack(stanza)
    deadline = time.monotonic() + PATIENCE
    while len(rows := await world.messages(peer.who, conv)) < 4 or not rows[3]["contents"]:
        ensure(time.monotonic() < deadline, "no answer", rows)
        await asyncio.sleep(0.1)
    equal([rows[2]["id"], rows[3]["contents"], len(rows)], [id, "lost?", 4], "once")
    await leave(back)


@check
async def a_client_tool_stays_open_while_the_client_is_away(world):
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    id, stanza = await peer.say(conv, "client clock")
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv)
    await peer.cut()
    back = await world.open(peer.who)
    handshake = await back.handshake(conv, request.stanza + 1, features=(*STREAMING, "tool:clock"))
    equal(bytes_of(handshake.replay[:1]), bytes_of([request]), "the request is replayed")
    stanza = await back.send(RESULT, conv, {"id": request["id"] + "_result", "requestId": request["id"], "conversationId": conv, "success": True, "result": "noon"})
    await back.ack(stanza)
    ensure("You answered noon." in (await back.answer(conv, id)).text, "the turn goes on")
    await leave(back)
