"""The endpoints beside the socket (5.6, 6.2, 7, 8.5, 9)."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
async def conversations_are_made_listed_changed_and_deleted(world):
    who, stranger = world.somebody(), world.somebody()
    made = await world.json("POST", "/conversations", who, json={"title": "Tea"}, status=201)
    ensure(re.fullmatch(r"ac_[A-Za-z0-9_-]{21}", made["id"]), "id", made)
    equal((made["title"], made["status"]), ("Tea", "active"), f"made {made}")
    url = f"/conversations/{made['id']}"
    equal((await world.json("GET", url, who))["id"], made["id"], "id")
    second = await world.create(who)
    listed = [row["id"] for row in await world.listed("GET", "/conversations", who, "conversations")]
    equal(sorted(listed), sorted([made["id"], second]), "listed")
    equal(await world.listed("GET", "/conversations", stranger, "conversations"), [], "a stranger sees none")
    peer = await world.open(who)
    await peer.subscribe(made["id"])
    await world.http("PATCH", url, who, json={"title": "Green tea"})
    equal((await peer.expect(UPDATE, made["id"]))["title"], "Green tea", "subscribers are told")
    equal((await world.json("GET", url, who))["title"], "Green tea", "title")
    for method, options in (("GET", {}), ("PATCH", {"json": {"title": "mine"}}), ("DELETE", {})):
        await world.http(method, url, stranger, status=404, **options)
        await world.http(method, f"/conversations/{fresh('ac')}", who, status=404, **options)
    await world.http("DELETE", url, who)
    await world.http("GET", url, who, status=404)
    await world.http("PATCH", url, who, json={"status": "active"}, status=404)
    listed = [row["id"] for row in await world.listed("GET", "/conversations", who, "conversations")]
    equal(listed, [second], "listed")
    await leave(peer)


@check
async def what_is_wrong_is_refused(world):
    who = world.somebody()
    conv = await world.create(who)
    url = f"/conversations/{conv}"
    for body in ({"status": "lost"}, {"status": 7}, {"title": 7}, []):
        await world.http("PATCH", url, who, json=body, status=(400, 422))
    for body in ({}, {"contents": ""}, {"contents": "   "}, {"contents": 7}, []):
        await world.http("POST", f"{url}/messages", who, json=body, status=(400, 422))
    await world.http("POST", f"{url}/messages", who, content=b"{", headers={"Content-Type": "application/json"}, status=400)
    await world.http("POST", f"{url}/messages", who, json={"contents": "hi", "previous_id": fresh("am")}, status=(400, 404, 422))
    await world.http("POST", f"{url}/switch-branch", who, json={}, status=(400, 422))
    for method, path in (("PUT", url), ("DELETE", f"{url}/messages"), ("GET", f"{url}/switch-branch")):
        answer = await world.client.request(method, path, headers={"Authorization": f"Bearer {who}"})
        equal(answer.status_code, 405, f"{method} {path}")
    equal(await world.path(who, conv), [], "nothing is stored")


@check
async def messages_and_their_siblings(world):
    peer, conv = await world.met()
    turns = [await peer.turn(conv, f"say {number}") for number in range(3)]
    rows = await world.messages(peer.who, conv)
    wanted = [id for turn in turns for id in (turn.user, turn.answer)]
    equal([row["id"] for row in rows], wanted, "the active path, oldest first")
    equal([row["sequence_number"] for row in rows], [1, 2, 3, 4, 5, 6], "numbers")
    equal([row["role"] for row in rows], ["user", "assistant"] * 3, "roles")
    equal([row.get("previous_id") for row in rows], [None, *wanted[:-1]], "parents")
    for row in rows:
        moment(row["created_at"])
    equal([row["id"] for row in await world.messages(peer.who, conv, limit=2)], wanted[:2], "limit")
    equal([row["id"] for row in await world.messages(peer.who, conv, limit=2, after=2)], wanted[2:4], "after")
    equal(await world.siblings(peer.who, turns[1].user), [turns[1].user], "nothing beside it")
    stranger = world.somebody()
    await world.http("GET", f"/messages/{turns[1].user}/siblings", stranger, status=404)
    await world.http("GET", f"/messages/{fresh('am')}/siblings", peer.who, status=404)
    await world.http("GET", f"/conversations/{conv}/messages", stranger, status=404)
    await world.http("POST", f"/conversations/{conv}/messages", stranger, json={"contents": "hi"}, status=404)
    await world.http("POST", f"/conversations/{conv}/switch-branch", stranger, json={"tip_message_id": turns[0].user}, status=404)
    await leave(peer)


@check
async def archived_conversations_take_no_messages(world):
    who = world.somebody()
    conv = await world.create(who)
    await world.http("PATCH", f"/conversations/{conv}", who, json={"status": "archived"})
    equal((await world.json("GET", f"/conversations/{conv}", who))["status"], "archived", "status")
    await world.http("POST", f"/conversations/{conv}/messages", who, json={"contents": "say hi"}, status=409)
    await world.http("POST", f"/conversations/{conv}/sync", who, json={"messages": []}, status=(200, 409))
    await world.http("PATCH", f"/conversations/{conv}", who, json={"status": "active"})
    await world.http("POST", f"/conversations/{conv}/messages", who, json={"contents": "say hi"}, status=(200, 201, 202))


@check
async def a_post_by_a_local_id_is_idempotent(world):
    peer, conv = await world.met()
    for _ in range(2):
        await world.http("POST", f"/conversations/{conv}/messages", peer.who, json={"contents": "say once", "local_id": "local_1"})
    await peer.answer(conv)
    await asyncio.sleep(0.3)
    equal(len(await world.path(peer.who, conv)), 2, "one message, one answer")
    await leave(peer)


@check
async def al_102_there_is_no_media_server_here(world):
    who = world.somebody()
    conv = await world.create(who)
    await world.http("POST", f"/conversations/{conv}/token", who, json={"participant_id": "user_1"}, status=501)
    await world.http("POST", f"/conversations/{conv}/token", world.somebody(), json={"participant_id": "user_1"}, status=404)
    config = await world.json("GET", "/config", who)
    ensure({"livekit_url", "tts_enabled", "asr_enabled", "tts"} <= config.keys(), "config", config)
    equal((config["tts_enabled"], config["asr_enabled"]), (False, False), "config")
