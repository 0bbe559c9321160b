"""What bytes may look like (2, 14): hand-made ones, as other encoders write them, and wrong ones."""

import struct

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


TV_04 = bytes.fromhex("84a87374616e7a61496400ae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6ba47479706508a4626f647983ae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6bb461636b6e6f776c65646765645374616e7a61496402a773756363657373c3")
TV_17 = bytes.fromhex("84a87374616e7a614964fcae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6ba474797065cd03e7a4626f647980")


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def negatives():
    """The negative vectors of section 14, and more of their kind."""
    yield "empty", b""
    yield "nil", bytes.fromhex("c0")
    yield "no type", bytes.fromhex("80")
    yield "no body", bytes.fromhex("81a47479706502")
    yield "body nil", bytes.fromhex("82a47479706502a4626f6479c0")
    yield "type is text", bytes.fromhex("82a474797065a3666f6fa4626f647980")
    yield "one byte more", TV_17 + b"\x00"
    yield "one byte less", TV_04[:-1]
    yield "a huge map", bytes.fromhex("dfffffffff")
    yield "a huge array", bytes.fromhex("ddffffffff")
    yield "a huge text", bytes.fromhex("81a474797065dbffffffff61")
    yield "type 0", pack({"stanzaId": 1, "conversationId": "", "type": 0, "body": {}})
    yield "type 65536", pack({"stanzaId": 1, "conversationId": "", "type": 65536, "body": {}})
    yield "type -1", pack({"stanzaId": 1, "conversationId": "", "type": -1, "body": {}})
    yield "type 1.5", pack({"stanzaId": 1, "conversationId": "", "type": 1.5, "body": {}})
    yield "body is a list", pack({"stanzaId": 1, "conversationId": "", "type": 2, "body": []})
    yield "a key that is no text", pack({"stanzaId": 1, "conversationId": "", "type": 2, "body": {}, 7: 1})
    yield "too deep", pack({"stanzaId": 1, "conversationId": "", "type": 2, "body": {"x": nested(40)}})
    yield "reserved byte", b"\xc1"
    yield "an integer", b"\x07"
    yield "a text", pack("hello")
    yield "body keys at the top", pack({"stanzaId": 1, "conversationId": "", "type": 2, "id": "am_x", "content": "hi"})


@check
async def al_001_everything_comes_in_canonical_form(world):
    """`Envelope` compares every frame with its canonical encoding; here is one of each type."""
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    seen, take = {CONFIGURATION, ACK, INFO, STATS, ELITES}, peer.take
    peer.take = lambda envelope: (seen.add(envelope.type), take(envelope))
    other = await world.open(peer.who)
    await other.handshake(conv, 0, features=())
    await peer.send(MEMORISE, "", {"id": fresh("amem"), "action": "create", "memory": {"content": "think 1", "category": "fact"}, "timestamp": now()})
    await peer.expect(MEMORISED, success=True)
    turn = await peer.turn(conv, "think 1", meta={"messaging.trace_id": "0af7651916cd43dd8448eb211c80319c", "messaging.span_id": "b7ad6b7169203331"})
    await peer.turn(conv, "tool weather")
    await peer.turn(conv, "fail after 1")
    await other.barrier()
    other.inbox.clear()
    await other.turn(conv, "say both ways")
    await peer.answer(conv)
    await peer.send(VOTE, conv, {"id": fresh("av"), "conversationId": conv, "messageId": turn.answer, "targetType": "message", "targetId": turn.answer, "vote": "critical", "timestamp": now()})
    await peer.send(NOTE, conv, {"id": fresh("an"), "messageId": turn.answer, "content": "n", "category": "general", "action": "create", "timestamp": now()})
    await peer.send(SYNC, conv, {"messages": [{"localId": "local_1", "sequenceNumber": 1, "role": "user", "contents": "x", "createdAt": "2026-01-01T00:00:00Z"}, {"localId": "", "sequenceNumber": 1, "role": "user", "contents": "x", "createdAt": "2026-01-01T00:00:00Z"}]})
    for type in (VOTED, NOTED, SYNCED):
        await peer.expect(type)
    await peer.subscribe(conv, fromSequence=0)
    await world.http("PATCH", f"/conversations/{conv}", peer.who, json={"title": "Canonical"})
    await peer.expect(UPDATE, conv, title="Canonical")
    await peer.unsubscribe(conv)
    missing = set(BODIES) - seen
    equal(missing, set(), "types that did not come")
    await leave(peer, other)


@check
async def al_008_negative_vectors_are_101_and_the_connection_stays(world):
    for name, raw in negatives():
        peer, conv = await world.met()
        await peer.bytes(raw)
        error = await peer.error(101)
        equal((error["severity"], error.stanza), (2, 0), f"{name}: {error}")
        await peer.barrier()
        # What can be read of it may be refused by its stanza, too.
        equal([e for e in peer.inbox if e.type != ACK or e["success"]], [], f"{name}: one answer")
        await peer.close()


@check
async def al_009_depth_32_is_fine(world):
    peer, conv = await world.met()
    id = fresh("am")
    # Envelope, body, and thirty lists.
    body = {"id": id, "conversationId": conv, "content": "say deep", "unknown": nested(29)}
    stanza = await peer.send(USER, conv, body)
    await peer.ack(stanza)
    await peer.answer(conv, id)
    started = time.monotonic()
    await peer.bytes(b"\x91" * 200_000)
    await peer.error(101)
    await peer.bytes(b"\x81\xa1x" * 100_000)
    await peer.error(101)
    ensure(time.monotonic() - started < 10, "it took", time.monotonic() - started)
    await leave(peer)


@check
async def al_010_ten_malformed_ones_are_too_many(world):
    peer, conv = await world.met()
    for _ in range(9):
        await peer.bytes(b"\xc0")
        await peer.error(101)
    await peer.barrier()
    await peer.bytes(b"\xc0")
    await peer.closed()
    back = await world.open(peer.who)
    await back.handshake(conv, 0)
    await leave(back)


@check
async def al_011_unknown_types_are_skipped(world):
    peer, conv = await world.met()
    await peer.bytes(TV_17)
    for type in (19, 32, 33, 34, 35, 36, 39, 44, 50, 56, 60, 70, 72, 80, 90, 93, 99, 999, 65535):
        await peer.send(type, conv, {"conversationId": conv})
    await peer.silent(settle=0.1)
    equal((await peer.turn(conv, "say fine")).text, "fine", "it goes on")
    await leave(peer)


@check
async def al_012_types_of_the_other_side_are_102(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    bodies = {
        ASSISTANT: {"id": fresh("am"), "conversationId": conv, "content": "I said so"},
        REASONING: {"id": fresh("ar"), "messageId": turn.answer, "conversationId": conv, "sequence": 1, "content": "hm"},
        REQUEST: {"id": fresh("atu"), "messageId": turn.answer, "conversationId": conv, "toolName": "rm", "parameters": {}, "execution": "server"},
        TRANSCRIPTION: {"id": fresh("am"), "conversationId": conv, "text": "spoken", "final": True},
        START: {"id": fresh("am"), "previousId": turn.user, "conversationId": conv},
        SENTENCE: {"previousId": turn.answer, "conversationId": conv, "sequence": 9, "text": "more", "isFinal": True},
    }
    for type in (ASSISTANT, REASONING, REQUEST, TRANSCRIPTION, START, MEMORY, SENTENCE, SYNCED, VOTED, NOTED, MEMORISED, INFO, STATS, UPDATE, ELITES, SUBSCRIBED, UNSUBSCRIBED):
        await peer.send(type, conv, bodies.get(type, {"conversationId": conv}))
        error = await peer.error(102)
        equal((error["severity"], error.stanza), (1, 0), f"{type}: {error}")
    await peer.silent(conv, 0.2)
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "no effect")
    await leave(peer)


@check
async def errors_of_clients_are_never_answered(world):
    peer, conv = await world.met()
    await peer.send(ERROR, conv, {"id": fresh("err"), "conversationId": conv, "code": 501, "message": "local fault", "severity": 2, "recoverable": True})
    await peer.send(ACK, conv, {"conversationId": conv, "acknowledgedStanzaId": -1, "success": True})
    await peer.silent(settle=0.2)
    await leave(peer)


@check
async def al_013_body_and_envelope_name_different_conversations(world):
    peer, conv = await world.met()
    second = (await peer.handshake()).conv
    id = fresh("am")
    stanza = await peer.send(USER, conv, {"id": id, "conversationId": second, "content": "say no"})
    await peer.refused(stanza, 201)
    for each_one in (conv, second):
        equal(await world.path(peer.who, each_one), [], "no effect")
    # Absent, empty and nil mean the same as the envelope.
    for body in ({}, {"conversationId": ""}, {"conversationId": None}):
        id = fresh("am")
        stanza = await peer.send(USER, conv, {"id": id, **body, "content": "say yes"})
        await peer.ack(stanza)
        await peer.answer(conv, id)
    await leave(peer)


@check
async def al_014_conv_ac_is_normalised(world):
    peer, conv = await world.met()
    back = await world.open(peer.who)
    stanza = await back.send(SUBSCRIBE, "conv_" + conv, {"conversationId": "conv_" + conv})
    await back.expect(SUBSCRIBED, conv, success=True, conversationId=conv)
    for outer, inner in (("conv_" + conv, conv), (conv, "conv_" + conv), ("conv_" + conv, "conv_" + conv)):
        id = fresh("am")
        stanza = await back.send(USER, outer, {"id": id, "conversationId": inner, "content": "say hi"})
        await back.ack(stanza, conv=conv)
        await back.answer(conv, id)
    equal((await back.subscribe("conv_conv_" + conv, False))["error"], "not_found", "only the first conv_ goes")
    await leave(peer, back)


# --- other encoders --------------------------------------------------------------------------------


def text(value):
    raw = value.encode()
    return (bytes([0xA0 | len(raw)]) if len(raw) < 32 else bytes([0xD9, len(raw)])) + raw


def wide(value):
    """A value in the widest form that there is."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(wide, value))
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(wide(key) + wide(item) for key, item in value.items())


@check
async def al_002_fixed_widths_as_go_writes_them(world):
    peer, conv = await world.met()
    id = fresh("am")
    raw = b"\x84" + text("stanzaId") + b"\xd2" + struct.pack(">i", 2) + text("conversationId") + text(conv)
    raw += text("type") + b"\xcd\x00\x02" + text("body") + b"\x84" + text("id") + text(id) + text("conversationId") + text(conv)
    raw += text("content") + text("say go") + text("timestamp") + b"\xd3" + struct.pack(">q", now())
    await peer.bytes(raw)
    await peer.ack(2)
    equal((await peer.answer(conv, id)).text, "go", "answer")
    id = fresh("am")
    await peer.bytes(wide({"body": {"content": "say wide", "id": id, "unknown": [1.5, None]}, "more": {}, "type": 2, "stanzaId": 3, "conversationId": conv, "meta": None}))
    await peer.ack(3)
    equal((await peer.answer(conv, id)).text, "wide", "answer")
    peer.stanza = 3
    await leave(peer)


@check
async def al_003_as_a_browser_writes_it(world):
    peer, conv = await world.met()
    id = fresh("am")
    raw = b"\xde\x00\x04" + text("stanzaId") + b"\x02" + text("conversationId") + text(conv) + text("type") + b"\x02"
    raw += text("body") + b"\xde\x00\x05" + text("id") + text(id) + text("conversationId") + text(conv) + text("content") + text("say browser")
    # AL-005 and AL-004: `undefined`, and a time as a float.
    raw += text("previousId") + b"\xd4\x00\x00" + text("timestamp") + b"\xcb" + struct.pack(">d", now())
    await peer.bytes(raw)
    await peer.ack(2)
    equal((await peer.answer(conv, id)).text, "browser", "answer")
    # Everything that can be a float is one, and everything optional is undefined or nil.
    id = fresh("am")
    raw = b"\xde\x00\x05" + text("stanzaId") + b"\xcb" + struct.pack(">d", 3) + text("conversationId") + text(conv) + text("type") + b"\xca" + struct.pack(">f", 2)
    raw += text("meta") + b"\xd4\x00\x00" + text("body") + b"\xdf\x00\x00\x00\x04" + text("id") + text(id) + text("previousId") + b"\xc0" + text("timestamp") + b"\xd4\x00\x00" + text("content") + text("say floats")
    await peer.bytes(raw)
    await peer.ack(3)
    equal((await peer.answer(conv, id)).text, "floats", "answer")
    peer.stanza = 3
    await leave(peer)


@check
async def al_006_float32_and_integers_where_floats_are_expected(world):
    peer, conv = await world.met()
    names = ("successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation")
    for encode in (lambda weight: b"\xca" + struct.pack(">f", weight), lambda weight: b"\xcb" + struct.pack(">d", weight), lambda weight: bytes([int(weight)])):
        peer.stanza += 1
        raw = b"\x84" + text("stanzaId") + bytes([peer.stanza]) + text("conversationId") + text(conv) + text("type") + bytes([WEIGHTS])
        raw += text("body") + b"\x83" + text("conversationId") + text(conv) + text("weights") + b"\x87" + b"".join(text(name) + encode(1.0) for name in names)
        await peer.bytes(raw + text("timestamp") + b"\xcb" + struct.pack(">d", now()))
        await peer.ack(peer.stanza)
        await peer.expect(ELITES, conv)
    await leave(peer)


@check
async def al_021_a_stanza_beyond_i32_is_0(world):
    peer, conv = await world.met()
    for stanza in (1767225600000001.0, 1767225600000001, 1 << 31, -(1 << 40), 2.5, 1e300):
        id, _ = await peer.say(conv, "say beyond", stanza=stanza)
        turn = await peer.answer(conv, id)
        equal((turn.text, turn.of(ACK)), ("beyond", []), f"{stanza}: processed, not acknowledged")
    # TV-21 with a conversation of ours.
    raw = b"\x84" + text("stanzaId") + bytes.fromhex("cb43191d2118810004") + text("conversationId") + text(conv) + text("type") + bytes([ELITE])
    raw += text("body") + b"\x83" + text("conversationId") + text(conv) + text("eliteId") + text("pa_swift") + text("timestamp") + bytes.fromhex("cb4279b76daa800000")
    await peer.bytes(raw)
    equal((await peer.upcoming(conv)).type, ELITES, "EliteOptions without an acknowledgement")
    await leave(peer)


@check
async def al_007_unknown_keys_are_ignored(world):
    peer, conv = await world.met()
    id = fresh("am")
    value = {"extra": {"a": 1}, "body": {"zzz": [1, 2], "content": "say keys", "attachments": [{}], "id": id}, "type": 2, "conversationId": conv, "stanzaId": 2, "nil": None}
    await peer.bytes(pack(value))
    await peer.ack(2)
    equal((await peer.answer(conv, id)).text, "keys", "answer")
    peer.stanza = 2
    await leave(peer)


@check
async def an_array_of_envelopes_is_processed_in_order(world):
    peer, conv = await world.met()
    second = (await peer.handshake()).conv
    ids = [fresh("am"), fresh("am")]
    envelopes = [peer.envelope(USER, each_one, {"id": id, "conversationId": each_one, "content": "say many"}) for each_one, id in zip((conv, second), ids)]
    envelopes.append(peer.envelope(UNSUBSCRIBE, "ac_x", {"conversationId": "ac_x"}))
    await peer.bytes(pack(envelopes))
    acks = [await peer.next(lambda e: e.type in (ACK, UNSUBSCRIBED)) for _ in range(3)]
    equal([e.get("acknowledgedStanzaId") for e in acks], [envelopes[0]["stanzaId"], envelopes[1]["stanzaId"], None], "order")
    for each_one, id in zip((conv, second), ids):
        equal((await peer.answer(each_one, id)).text, "many", "answer")
    await peer.bytes(pack([peer.envelope(UNSUBSCRIBE, "ac_x", {"conversationId": "ac_x"}) for _ in range(65)]))
    await peer.error((101, 104))
    await leave(peer)
