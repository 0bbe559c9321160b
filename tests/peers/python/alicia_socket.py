"""The multiplexed socket: upgrade, subscriptions, limits (8, 11)."""

import socket

from websockets.exceptions import InvalidStatus

from alicia_world import *

CHECKS, PATIENT, HASTY = [], [], []


def check(function):
    CHECKS.append(function)
    return function


def patient(function):
    """Mostly waits."""
    PATIENT.append(function)
    return function


def hasty(function):
    """Against the server that has little patience, and a short queue."""
    HASTY.append(function)
    return function


async def refusal(world, **options):
    try:
        peer = await Peer.open(world.url, options.pop("token", None), **options)
    except InvalidStatus as refused:
        return refused.response.status_code
    await peer.close()
    return 101


@check
async def al_089_strangers_and_foreign_pages_stay_outside(world):
    who = world.somebody()
    equal(await refusal(world), 401, "without a credential")
    equal(await refusal(world, token=who + "x"), 401, "with a wrong one")
    equal(await refusal(world, headers={"X-User-ID": "default_user"}), 401, "X-User-ID is no credential")
    equal(await refusal(world, token=who, origin="https://evil.test"), 403, "a foreign page")
    equal(await refusal(world, token=who, origin=world.base), 101, "its own page")
    equal(await refusal(world, token=who), 101, "no page at all")
    for path in ("/conversations", f"/conversations/{fresh('ac')}/messages", "/conversations/x/sync/status"):
        await world.http("GET", path, status=401)
    await world.http("GET", "/conversations", headers={"X-User-ID": "default_user"}, status=401)


@check
async def al_090_the_ack_comes_before_everything_else(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv, "sentences 100 every 20", 1)
    for _ in range(3):
        other = await world.open(peer.who)
        # `subscribe` wants the acknowledgement as the first envelope of the conversation.
        await other.subscribe(conv, fromSequence=0)
        await other.expect(SENTENCE, conv)
        await leave(other)
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await leave(peer)


@check
async def al_091_what_cannot_be_subscribed_to(world):
    peer = await world.open()
    foreign, deleted = await world.create(world.somebody()), await world.create(peer.who)
    await world.http("DELETE", f"/conversations/{deleted}", peer.who)
    for conv in (foreign, deleted, fresh("ac"), "nonsense"):
        equal((await peer.subscribe(conv, False))["error"], "not_found", conv)
        stanza = await peer.send(STOP, conv, {"conversationId": conv})
        await peer.refused(stanza, 202)
    await peer.send(SUBSCRIBE, "", {})
    refused = await peer.expect(SUBSCRIBED, success=False, error="conversation_id_required")
    equal(refused["conversationId"], "", "conversationId")
    own = await world.create(peer.who)
    for bad in (-1, "7", 1.5):
        await peer.send(SUBSCRIBE, own, {"conversationId": own, "fromSequence": bad})
        refused = await peer.next(lambda e: e.type in (SUBSCRIBED, ERROR))
        ensure(refused.type == ERROR or refused.get("error") == "invalid_request", bad, refused)
    # The conversation of the envelope does as well.
    await peer.send(SUBSCRIBE, own, {})
    await peer.expect(SUBSCRIBED, own, success=True)
    await peer.turn(own, "say here")
    await leave(peer)


@check
async def al_092_from_sequence_brings_what_was_missed(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    second = await peer.turn(conv, "say two")
    side = await peer.turn(conv, "say side", previous=first.answer)
    await world.http("POST", f"/conversations/{conv}/switch-branch", peer.who, json={"tip_message_id": second.answer})
    rows = await world.messages(peer.who, conv)
    equal([row["id"] for row in rows], [first.user, first.answer, second.user, second.answer], "the active path")
    for after in (0, 1, 2, 3, rows[-1]["sequence_number"], 1000):
        other = await world.open(peer.who)
        ack = await other.subscribe(conv, fromSequence=after)
        wanted = [row for row in rows if row["sequence_number"] > after]
        equal(ack["missedMessages"], len(wanted), f"missedMessages after {after}")
        for row in wanted:
            missed = await other.upcoming(conv)
            equal((missed.type, missed.stanza), (USER if row["role"] == "user" else ASSISTANT, 0), f"{missed}")
            equal((missed["id"], missed["contents"], missed["sequenceNumber"], missed.get("previousId")), (row["id"], row["contents"], row["sequence_number"], row.get("previous_id")), "message")
        # Again on the same connection: it succeeds and replays again.
        again = await other.subscribe(conv, fromSequence=after)
        equal([(await other.upcoming(conv))["id"] for _ in range(again["missedMessages"])], [row["id"] for row in wanted], "again")
        ensure("missedMessages" not in (await other.subscribe(conv)).body, "only with fromSequence")
        await other.silent(conv, 0.1)
        await leave(other)
    await leave(peer)


@check
async def al_092_more_than_a_thousand_are_not_sent(world):
    who = world.somebody()
    conv = await world.create(who)
    for batch in range(3):
        messages = [{"local_id": f"local_{batch}_{n}", "sequence_number": batch * 400 + n + 1, "role": "user", "contents": f"m{n}", "created_at": "2026-01-01T00:00:00Z"} for n in range(400)]
        await world.http("POST", f"/conversations/{conv}/sync", who, json={"messages": messages})
    peer = await world.open(who)
    equal((await peer.subscribe(conv, fromSequence=100))["missedMessages"], 1100, "the true count")
    await peer.silent(conv, 0.2)
    equal((await peer.subscribe(conv, fromSequence=1150))["missedMessages"], 50, "missedMessages")
    equal([(await peer.upcoming(conv))["sequenceNumber"] for _ in range(50)], list(range(1151, 1201)), "the last ones")
    await leave(peer)


@check
async def al_093_repeated_subscribe_and_unsubscribe(world):
    peer, conv = await world.met()
    for _ in range(3):
        await peer.subscribe(conv)
    await peer.turn(conv, "say once")
    for _ in range(3):
        equal((await peer.unsubscribe(conv))["conversationId"], conv, "conversationId")
    await peer.send(UNSUBSCRIBE, "", {})
    await peer.expect(UNSUBSCRIBED, success=False)
    await leave(peer)


@check
async def al_094_nothing_follows_an_unsubscribe(world):
    peer, other, conv = await world.pair()
    user, answer = await peer.streaming(conv, "sentences 100 every 10")
    await other.expect(SENTENCE, conv)
    await other.unsubscribe(conv)
    other.inbox.clear()
    await other.silent(conv, 0.5)
    # It is not even told when the answer is stopped, but may come back.
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    await other.silent(conv, 0.2)
    await other.subscribe(conv)
    await leave(peer, other)


@check
async def al_095_without_a_subscription_nothing_is_done(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    other = await world.open(peer.who)
    bodies = (
        (USER, {"id": fresh("am"), "content": "say no"}),
        (STOP, {}),
        (VARIATION, {"targetId": turn.user, "mode": "regenerate"}),
        (COMMENTARY, {"id": fresh("aucc"), "messageId": turn.answer, "content": "no"}),
        (RESULT, {"id": fresh("atu"), "success": True}),
        (SYNC, {"messages": []}),
        (VOTE, {"id": fresh("av"), "messageId": turn.answer, "targetType": "message", "targetId": turn.answer, "vote": "up", "timestamp": now()}),
        (WEIGHTS, {"weights": {}, "preset": "speed", "timestamp": now()}),
        (ELITE, {"eliteId": "pa_swift", "timestamp": now()}),
    )
    for type, body in bodies:
        await other.send(type, conv, body if type == SYNC else {"conversationId": conv, **body})
        error = await other.error(202)
        ensure("not subscribed" in error["message"], "message", type, error)
    await other.barrier()
    equal([e.type for e in other.inbox if e.type != ACK], [], f"nothing else came: {other.inbox}")
    ensure(all(not e["success"] for e in other.inbox), "no success", other.inbox)
    other.inbox.clear()
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "nothing was done")
    # Notes and memories name no conversation.
    note = fresh("an")
    await other.send(NOTE, "", {"id": note, "messageId": turn.answer, "content": "yes", "category": "general", "action": "create", "timestamp": now()})
    await other.expect(NOTED, noteId=note, success=True)
    await leave(peer, other)


@check
async def al_097_superset_bodies(world):
    peer, conv = await world.met(features=())
    other = await world.open(peer.who)
    await other.subscribe(conv)
    turn = await peer.turn(conv, "say superset")
    announced = await other.expect(USER, conv)
    # The shape is checked for everything that comes in; here, that both tell the same as the store.
    rows = await world.messages(peer.who, conv)
    for envelope, row in zip((announced, turn.of(ASSISTANT)[0]), rows):
        told = (envelope["id"], envelope["contents"], envelope["role"], envelope["sequenceNumber"])
        equal(told, (row["id"], row["contents"], row["role"], row["sequence_number"]), "superset")
    await leave(peer, other)


@check
async def a_message_over_http_is_announced_and_answered(world):
    peer, conv = await world.met()
    row = await world.json("POST", f"/conversations/{conv}/messages", peer.who, json={"contents": "say by post", "local_id": "local_9"})
    announced = await peer.upcoming(conv)
    equal((announced.type, announced["content"], announced.get("localId")), (USER, "say by post", "local_9"), "announcement")
    equal(announced["id"], row.get("id") or row["message"]["id"], "the id that the answer tells")
    turn = await peer.answer(conv, announced["id"])
    equal((turn.of(START)[0]["previousId"], turn.text), (announced["id"], "by post"), "answer")
    await leave(peer)


@check
async def text_frames_are_ignored(world):
    peer, conv = await world.met()
    for text in ("hello", "{}", ""):
        await peer.websocket.send(text)
    await peer.silent(settle=0.1)
    equal((await peer.turn(conv, "say fine")).text, "fine", "it goes on")
    await leave(peer)


@check
async def fragments_and_pings(world):
    peer, conv = await world.met()
    id = fresh("am")
    envelope = pack(peer.envelope(USER, conv, {"id": id, "conversationId": conv, "content": "say pieces"}))
    await peer.websocket.send([envelope[:1], envelope[1:40], b"", envelope[40:]])
    await peer.ack(2)
    equal((await peer.answer(conv, id)).text, "pieces", "answer")
    await asyncio.wait_for(await peer.websocket.ping(), PATIENCE)
    await leave(peer)


@patient
async def whoever_reads_nothing_is_dropped_and_may_come_back(world):
    who = world.somebody()
    peer, conv = await world.met(who)
    reader, writer = await raw(world, who, 1 << 16)
    # A reader that has stopped: its buffer fills, and then those of the system.
    writer.transport.pause_reading()
    body = pack({"stanzaId": 1, "conversationId": conv, "type": SUBSCRIBE, "body": {"conversationId": conv}})
    writer.write(bytes([0x82, 0x80 | 126]) + len(body).to_bytes(2, "big") + b"\0\0\0\0" + body)
    for _ in range(4):
        # Other peers of the conversation are not kept waiting.
        await peer.turn(conv, "size 2000000")
    # The reference gives a write ten seconds.
    await asyncio.sleep(12)
    writer.transport.resume_reading()
    total = 0
    while piece := await asyncio.wait_for(reader.read(1 << 20), PATIENCE):
        total += len(piece)
        ensure(total < 7_500_000, "it got everything, although it did not read")
    back = await world.open(who)
    equal((await back.handshake(conv, min(peer.memory[conv].entries) + 50)).replay[-1].raw, peer.memory[conv].entries[min(peer.memory[conv].entries)].raw, "it resumes")
    await leave(back)
    await peer.close()


@check
async def a_frame_that_is_too_large(world):
    peer, conv = await world.met()
    id, _ = await peer.say(conv, "say " + "x" * (1 << 20))
    await peer.error(104)
    await peer.barrier()
    peer.inbox.clear()
    equal((await peer.turn(conv, "say fine")).text, "fine", "it goes on")
    try:
        await peer.websocket.send(b"\x00" * ((4 << 20) + 1))
    except ConnectionClosed:
        pass
    await peer.closed(1009)


@check
async def a_505_is_no_reason_to_leave(world):
    peer, conv = await world.met()
    peer.inbox.clear()
    # Beyond what a client may follow at once, and what it may send besides.
    for _ in range(400):
        await peer.send(UNSUBSCRIBE, "ac_none", {"conversationId": "ac_none"})
    limited = await peer.error(505, True)
    equal(limited["severity"], 1, "severity")
    # What was refused is answered, too; in three seconds there is room for eighteen more.
    await asyncio.sleep(3)
    await leave(peer)


@patient
async def the_101st_subscription_is_one_too_many(world):
    peer = await world.open()
    convs = await asyncio.gather(*(world.create(peer.who) for _ in range(101)))
    for conv in convs[:100]:
        # The rate limit lets six envelopes per second through after the first sixty.
        if peer.stanza > 50:
            await asyncio.sleep(0.22)
        await peer.subscribe(conv)
    await asyncio.sleep(1)
    equal((await peer.subscribe(convs[100], False))["error"], "too_many_subscriptions", "the 101st")
    await peer.subscribe(convs[0])
    await peer.unsubscribe(convs[0])
    await peer.subscribe(convs[100])
    await peer.close()


async def raw(world, who, buffer=None):
    """A connection without a library: nothing is answered that is not answered here."""
    host, port = world.host.rsplit(":", 1)
    plain = socket.socket()
    if buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=plain)
    lines = ["GET /api/v1/ws HTTP/1.1", f"Host: {world.host}", f"Authorization: Bearer {who}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    writer.write("\r\n".join(lines).encode())
    ensure(b" 101 " in await reader.readuntil(b"\r\n\r\n"), "not upgraded")
    return reader, writer


@hasty
async def al_098_silent_clients_are_pinged_and_dropped(world):
    reader, writer = await raw(world, world.somebody())
    began, got = time.monotonic(), b""
    while piece := await asyncio.wait_for(reader.read(1000), PATIENCE):
        got += piece
    ensure(got[:1] == b"\x89", "the first frame is no ping:", got[:20])
    ensure(3 <= time.monotonic() - began, "dropped after", time.monotonic() - began)
    writer.close()


@hasty
async def al_098_any_frame_keeps_a_client_alive(world):
    reader, writer = await raw(world, world.somebody())
    began = time.monotonic()
    # Text frames are ignored, but they are frames; so are pongs that nobody asked for.
    for frame in (b"\x81\x80abcd", b"\x8a\x80abcd") * 4:
        await asyncio.sleep(1.5)
        writer.write(frame)
    writer.write(b"\x88\x80abcd")
    got = b""
    while piece := await asyncio.wait_for(reader.read(1000), PATIENCE):
        got += piece
    ensure(time.monotonic() - began >= 12, "dropped after", time.monotonic() - began, got[-20:])


@hasty
async def al_106_a_full_queue_is_504_and_keeps_its_order(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    # All of them in one frame, so that nobody can be quick enough.
    envelopes = [peer.envelope(COMMENTARY, conv, {"id": fresh("aucc"), "conversationId": conv, "messageId": turn.answer, "content": f"{number}"}) for number in range(64)]
    await peer.bytes(pack(envelopes))
    sent = [envelope["stanzaId"] for envelope in envelopes]
    acks, errors = [], 0
    while len(acks) < len(sent):
        found = await peer.upcoming(conv)
        if found.type == ERROR:
            equal((found["code"], found["severity"], found["recoverable"]), (504, 1, True), f"{found}")
            errors += 1
        else:
            equal(found.type, ACK, f"{found}")
            acks.append(found)
    equal(sorted(ack["acknowledgedStanzaId"] for ack in acks), sent, "each is answered once")
    accepted = [ack["acknowledgedStanzaId"] for ack in acks if ack["success"]]
    equal(accepted, sorted(accepted), "what was accepted keeps its order")
    refused = [ack for ack in acks if not ack["success"]]
    equal(errors, len(refused), "an error for each that was refused")
    ensure(4 <= len(accepted) < len(acks), "some are accepted, some are not", errors)
    equal((await peer.turn(conv, "say two")).text, "two", "it goes on")
    await leave(peer)


@hasty
async def an_answer_that_takes_too_long_is_ended_with_503(world):
    for features in (STREAMING, ()):
        peer, conv = await world.met(features=features)
        turn = await peer.turn(conv, "hang after 2")
        [error] = turn.of(ERROR)
        streamed = bool(features)
        equal((error["code"], error["recoverable"], error["originatingId"]), (503, True, turn.answer if streamed else turn.user), f"{error}")
        equal([s["text"] for s in turn.of(SENTENCE) if s.final], [""] if streamed else [], "the final sentence")
        equal((await peer.turn(conv, "say next")).text, "next", "the next turn")
        await leave(peer)
