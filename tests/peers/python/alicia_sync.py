"""Messages that were written offline (7), on the socket and over HTTP."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def written(local, contents="offline", number=1, role="user", **more):
    return {"localId": local, "sequenceNumber": number, **more, "role": role, "contents": contents, "createdAt": "2026-01-01T00:00:00Z"}


async def sync(peer, conv, *messages):
    await peer.send(SYNC, conv, {"messages": list(messages)})
    # Each message is a transaction of its own, and there may be 500.
    answer = await peer.next(lambda e: e.type == SYNCED or (e.type == ERROR and not e.stanza), 2 * PATIENCE)
    equal(answer.type, SYNCED, f"answer {answer} to {peer.sent!r:.400}")
    results = answer["syncedMessages"]
    equal([one["localId"] for one in results], [message["localId"] for message in messages], "AL-099: one result each, in order")
    return results


def conflict(one, reason):
    equal((one["status"], one["conflict"]["reason"], one["conflict"]["resolution"]), ("conflict", reason, "manual"), f"{one}")


@check
async def al_099_a_batch_is_stored_in_order(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say online")
    # TV-15, with a conversation of ours.
    results = await sync(peer, conv, written("local_1", number=7), written("local_2", "answer", 8, "assistant", previousId="local_1"), written("local_3", "more", 2))
    ids = [one["serverId"] for one in results]
    equal([one["status"] for one in results], ["synced"] * 3, "status")
    ensure(all(re.fullmatch(r"am_[A-Za-z0-9_-]{21}", id) for id in ids) and len(set(ids)) == 3, "serverId", ids)
    rows = await world.messages(peer.who, conv)
    equal([row["id"] for row in rows], [first.user, first.answer, *ids], "the tip follows")
    equal([row["contents"] for row in rows[2:]], ["offline", "answer", "more"], "contents")
    for one, row in zip(results, rows[2:]):
        message = one["message"]
        equal((message["id"], message["serverId"], message["localId"], message["conversationId"]), (row["id"], row["id"], one["localId"], conv), "message")
        equal((message["sequenceNumber"], message["role"], message.get("previousId")), (row["sequence_number"], row["role"], row.get("previous_id")), "message")
    numbers = [row["sequence_number"] for row in rows]
    equal(numbers, sorted(set(numbers)), "a number that is taken is replaced")
    equal(numbers[2], 7, "one that is above the maximum is kept")
    await leave(peer)


@check
async def al_100_the_same_again_is_the_same(world):
    peer, conv = await world.met()
    [one] = await sync(peer, conv, written("local_1"))
    [again] = await sync(peer, conv, written("local_1", number=99))
    equal((again["status"], again["serverId"], again["message"]["id"]), ("synced", one["serverId"], one["serverId"]), "again")
    [other] = await sync(peer, conv, written("local_1", "something else"))
    conflict(other, "Content mismatch with existing message")
    equal((other["serverId"], other["conflict"]["serverMessage"]["contents"]), (one["serverId"], "offline"), "serverMessage")
    equal(await world.path(peer.who, conv), [one["serverId"]], "stored once")
    # A local id is known for this conversation only.
    second = (await peer.handshake()).conv
    [elsewhere] = await sync(peer, second, written("local_1", "something else"))
    ensure(elsewhere["status"] == "synced" and elsewhere["serverId"] != one["serverId"], "another conversation", elsewhere)
    await leave(peer)


@check
async def al_101_one_failure_undoes_nothing(world):
    peer, conv = await world.met()
    results = await sync(
        peer, conv,
        written("local_1", "one"), written("", "no id"), written("local_2", "no role", role=""), written("local_3", "system", role="system"),
        written("local_4", "dangling", previousId=fresh("am")), written("local_5", "two"), written("local_6", "three", previousId="local_5"),
        written("local_7", "after a conflict", previousId="local_4"), written("local_1", "other"), written("local_8", "four", previousId="local_1"),
    )
    equal([one["status"] for one in results], ["synced", *["conflict"] * 4, "synced", "synced", "conflict", "conflict", "synced"], "status")
    for index, reason in ((1, "Local ID is required"), (2, "Message role is required"), (3, "Role not allowed"), (4, "Previous message not found"), (7, "Previous message not found"), (8, "Content mismatch with existing message")):
        conflict(results[index], reason)
    equal([results[index]["serverId"] for index in (1, 2, 3, 4)], [""] * 4, "serverId without a row")
    ids = {index: results[index]["serverId"] for index in (0, 5, 6, 9)}
    rows = {row["id"]: row for row in await world.messages(peer.who, conv, all="true")}
    equal(sorted(rows), sorted(ids.values()), "exactly those are stored")
    equal((rows[ids[5]]["previous_id"], rows[ids[6]]["previous_id"], rows[ids[9]]["previous_id"]), (ids[0], ids[5], ids[0]), "parents")
    equal(await world.path(peer.who, conv), [ids[0], ids[9]], "the tip is the last that was inserted")
    await leave(peer)


@check
async def al_101_what_is_left_out_is_empty(world):
    peer, conv = await world.met()
    without = lambda name, **more: {key: value for key, value in {**written("local_x"), **more}.items() if key != name}
    await peer.send(SYNC, conv, {"messages": [written("local_1"), without("localId"), without("role", localId="local_2"), {**written("local_3"), "createdAt": "yesterday"}]})
    results = (await peer.expect(SYNCED))["syncedMessages"]
    equal([one["status"] for one in results], ["synced", "conflict", "conflict", "synced"], "status")
    conflict(results[1], "Local ID is required")
    conflict(results[2], "Message role is required")
    # What is no time is the server's.
    ensure(results[3]["message"]["createdAt"][:10] not in ("2026-01-01", "yesterday"), "createdAt", results[3])
    equal(results[0]["message"]["createdAt"][:19], "2026-01-01T00:00:00", "createdAt")
    await leave(peer)


@check
async def al_101_sync_starts_no_answer(world):
    peer, conv = await world.met()
    [one] = await sync(peer, conv, written("local_1", "say hello"))
    equal(await sync(peer, conv), [], "an empty batch")
    await peer.silent(conv)
    equal((await peer.handshake(conv)).head, 0, "head")
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": one["serverId"], "mode": "regenerate"})
    await peer.ack(stanza)
    turn = await peer.answer(conv)
    equal((turn.of(START)[0]["previousId"], turn.text), (one["serverId"], "hello"), "it is answered when asked for")
    await leave(peer)


@check
async def synced_messages_are_told_to_the_others(world):
    peer, other, conv = await world.pair()
    results = await sync(peer, conv, written("local_1", "mine"), written("local_2", "its", 2, "assistant"))
    told = [await other.upcoming(conv), await other.upcoming(conv)]
    equal([(e.type, e.stanza, e["id"], e["contents"], e.get("localId")) for e in told], [(USER, 0, results[0]["serverId"], "mine", "local_1"), (ASSISTANT, 0, results[1]["serverId"], "its", "local_2")], "announcements")
    await peer.barrier()
    equal([e for e in peer.inbox if e.type in (USER, ASSISTANT)], [], "the sender is not told")
    await sync(peer, conv, written("local_1", "mine"))
    await other.silent(conv, 0.2)
    await leave(peer, other)


@check
async def the_same_batch_from_two_sockets_at_once(world):
    peer, other, conv = await world.pair()
    batch = [written(f"local_{n}", f"message {n}", n) for n in range(1, 40)]
    one, two = await asyncio.gather(sync(peer, conv, *batch), sync(other, conv, *batch))
    equal([r["serverId"] for r in one], [r["serverId"] for r in two], "the same ids for both")
    equal({r["status"] for r in (*one, *two)}, {"synced"}, "status")
    rows = await world.messages(peer.who, conv, all="true")
    equal(sorted(row["id"] for row in rows), sorted(r["serverId"] for r in one), "each once")
    await leave(peer, other)


@check
async def batches_are_bounded(world):
    peer, conv = await world.met()
    results = await sync(peer, conv, *(written(f"local_{n}", f"m{n}", n) for n in range(1, 501)))
    equal({one["status"] for one in results}, {"synced"}, "500 are fine")
    await peer.send(SYNC, conv, {"messages": [written(f"other_{n}", "x", n) for n in range(501)]})
    await peer.error((104, 105))
    await peer.send(SYNC, conv, {})
    await peer.error((101, 105))
    equal(len(await world.messages(peer.who, conv, all="true", limit=500)), 500, "nothing of the rest is stored")
    await leave(peer)


# --- over HTTP -------------------------------------------------------------------------------------


def snake(message):
    return {re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name): value for name, value in message.items()}


@check
async def al_100_sync_over_http_in_json(world):
    peer, conv = await world.met()
    url = f"/conversations/{conv}/sync"
    body = {"messages": [snake(written("local_1", "by http")), snake(written("local_2", "two", 2, previousId="local_1")), snake(written("", "x"))]}
    answer = await world.json("POST", url, peer.who, json=body)
    one, two, three = answer["synced_messages"]
    moment(answer["synced_at"])
    equal((one["local_id"], one["status"], three["status"]), ("local_1", "synced", "conflict"), "status")
    equal((two["message"]["previous_id"], two["message"]["server_id"]), (one["server_id"], two["server_id"]), "message")
    equal(three["conflict"]["reason"], "Local ID is required", "reason")
    told = await peer.upcoming(conv)
    equal((told.type, told["id"]), (USER, one["server_id"]), "subscribers are told")
    # The same semantics on both: the socket knows what came over HTTP.
    [again] = await sync(peer, conv, written("local_1", "by http"))
    equal(again["serverId"], one["server_id"], "again")
    await sync(peer, conv, written("local_2", "other"))
    status = await world.json("GET", f"{url}/status", peer.who)
    equal((status["conversation_id"], status["pending_count"], status["conflict_count"]), (conv, 0, 1), f"status {status}")
    equal(status["synced_count"] + status["conflict_count"], 2, f"status {status}")
    moment(status["last_synced_at"])
    await leave(peer)


@check
async def al_100_sync_over_http_in_msgpack(world):
    peer, conv = await world.met()
    url, kind = f"/conversations/{conv}/sync", "application/msgpack"
    body = pack({"messages": [written("local_1", "packed"), written("local_1", "other")]})
    answer = await world.http("POST", url, peer.who, content=body, headers={"Content-Type": kind, "Accept": kind})
    ensure(answer.headers["content-type"].startswith(kind), "content-type", answer.headers)
    value = msgpack.unpackb(answer.content)
    BODIES[SYNCED](value)
    one, two = value["syncedMessages"]
    conflict(two, "Content mismatch with existing message")
    # Either may be asked for with either.
    answer = await world.http("POST", url, peer.who, content=body, headers={"Content-Type": kind, "Accept": "application/json"})
    equal(answer.json()["synced_messages"][0]["server_id"], one["serverId"], "JSON for MessagePack")
    answer = await world.http("POST", url, peer.who, json={"messages": [snake(written("local_1", "packed"))]}, headers={"Accept": kind})
    equal(msgpack.unpackb(answer.content)["syncedMessages"][0]["serverId"], one["serverId"], "MessagePack for JSON")
    await leave(peer)


@check
async def sync_over_http_refuses_what_is_wrong(world):
    who = world.somebody()
    conv, foreign = await world.create(who), await world.create(world.somebody())
    for target in (foreign, fresh("ac")):
        await world.http("POST", f"/conversations/{target}/sync", who, json={"messages": []}, status=404)
        await world.http("GET", f"/conversations/{target}/sync/status", who, status=404)
    for options in ({"content": b"{", "headers": {"Content-Type": "application/json"}}, {"json": {}}, {"json": {"messages": 7}}, {"json": []}, {"content": b"\xc1", "headers": {"Content-Type": "application/msgpack"}}):
        await world.http("POST", f"/conversations/{conv}/sync", who, status=(400, 422), **options)
    many = [snake(written(f"l{n}", "x", n)) for n in range(501)]
    await world.http("POST", f"/conversations/{conv}/sync", who, json={"messages": many}, status=(400, 413, 422))
    equal(await world.path(who, conv), [], "nothing is stored")
