"""Feedback, notes, memories, commentary and tuning (4.15, 4.18–4.22, 5.7)."""

import math

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def vote(peer, conv, target, word, kind="message", id=None, message=None, **more):
    body = {"id": id or fresh("av"), "conversationId": conv, "messageId": message or target, "targetType": kind, "targetId": target, "vote": word, **more, "timestamp": now()}
    await peer.send(VOTE, conv, body)
    answer = await peer.next(lambda e: e.type in (VOTED, ERROR))
    equal(answer.type, VOTED, f"answer {answer} to {body}")
    equal((answer["feedbackId"], answer["targetType"], answer["targetId"]), (body["id"], kind, target), "confirmation")
    counts = answer["aggregates"]
    return counts["upvotes"], counts["downvotes"], counts.get("specialVotes", {}).get("critical", 0), answer["userVote"]


@check
async def al_082_a_second_vote_replaces_the_first(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    equal(await vote(peer, conv, turn.answer, "up"), (1, 0, 0, "up"), "up")
    equal(await vote(peer, conv, turn.answer, "down", quickFeedback="too_generic", note="hm"), (0, 1, 0, "down"), "down")
    # AL-083: critical is its own value.
    equal(await vote(peer, conv, turn.answer, "critical", quickFeedback="no such word"), (0, 0, 1, "critical"), "critical")
    equal(await vote(peer, conv, turn.answer, "remove"), (0, 0, 0, ""), "remove")
    equal(await vote(peer, conv, turn.answer, "remove"), (0, 0, 0, ""), "remove again")
    equal(await vote(peer, conv, turn.user, "up"), (1, 0, 0, "up"), "another target")
    await peer.silent(settle=0.1)
    await leave(peer)


@check
async def al_081_votes_are_repeated_and_refused(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "tool weather")
    id = fresh("av")
    equal(await vote(peer, conv, turn.answer, "up", id=id), (1, 0, 0, "up"), "first")
    equal(await vote(peer, conv, turn.answer, "up", id=id), (1, 0, 0, "up"), "the same again")
    use = turn.of(REQUEST)[0]["id"]
    equal(await vote(peer, conv, use, "down", "tool_use", message=turn.answer, quickFeedback="wrong_tool"), (0, 1, 0, "down"), "a tool")
    sentence = turn.of(SENTENCE)[0]["id"]
    equal(await vote(peer, conv, sentence, "up", "sentence", message=turn.answer), (1, 0, 0, "up"), "a sentence")
    for change, code in (({"vote": "sideways"}, 105), ({"targetType": "weather"}, 105), ({"targetId": fresh("am"), "messageId": fresh("am")}, 203), ({"note": "x" * 4097}, (104, 105))):
        body = {"id": fresh("av"), "conversationId": conv, "messageId": turn.answer, "targetType": "message", "targetId": turn.answer, "vote": "up", "timestamp": now(), **change}
        await peer.send(VOTE, conv, body)
        await peer.error(code, True, body["id"])
    await peer.silent(settle=0.1)
    await leave(peer)


@check
async def al_082_votes_of_devices_are_of_one_user(world):
    peer, other, conv = await world.pair()
    turn = await peer.turn(conv, "say one")
    equal(await vote(peer, conv, turn.answer, "up"), (1, 0, 0, "up"), "one device")
    equal(await vote(other, conv, turn.answer, "down"), (0, 1, 0, "down"), "the other")
    await peer.barrier()
    equal([e for e in peer.inbox if e.type == VOTED], [], "confirmations go to who asked")
    await leave(peer, other)


async def note(peer, conv, message, action, id, content="remark", category="general", **more):
    await peer.send(NOTE, conv, {"id": id, "messageId": message, "content": content, "category": category, "action": action, **more, "timestamp": now()})
    answer = await peer.next(lambda e: e.type in (NOTED, ERROR))
    if answer.type == ERROR:
        return answer["code"]
    equal((answer["noteId"], answer["messageId"]), (id, message), "AL-084")
    return answer["success"]


@check
async def al_084_notes(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    id = fresh("an")
    for where in (conv, ""):
        id = fresh("an")
        equal(await note(peer, where, turn.answer, "create", id), True, "create")
        equal(await note(peer, where, turn.answer, "create", id), True, "the same again")
        equal(await note(peer, where, turn.answer, "update", id, "better", "correction"), True, "update")
        equal(await note(peer, where, turn.answer, "delete", id, ""), True, "delete")
        equal(await note(peer, where, turn.answer, "update", id), False, "it is gone")
    equal(await note(peer, conv, turn.answer, "create", fresh("an"), category=""), True, "empty category")
    equal(await note(peer, conv, turn.answer, "create", fresh("an"), category="gossip"), 105, "unknown category")
    equal(await note(peer, conv, turn.answer, "update", fresh("an")), False, "unknown note")
    equal(await note(peer, conv, fresh("am"), "create", fresh("an")), False, "unknown message")
    equal(await note(peer, conv, turn.answer, "burn", fresh("an")), False, "unknown action")
    ensure(await note(peer, conv, turn.answer, "create", fresh("an"), "x" * 16_385) in (104, 105, False), "too long")
    # Somebody else's message is as unknown as one that does not exist.
    stranger = await world.open()
    equal(await note(stranger, "", turn.answer, "create", fresh("an")), False, "a stranger")
    await leave(peer, stranger)


async def memorise(peer, action, id, content=None, conv="", **more):
    body = {"id": id, "action": action}
    if content is not None:
        body["memory"] = {"content": content, "category": "preference", **more}
    elif more:
        body["memory"] = more
    await peer.send(MEMORISE, conv, {**body, "timestamp": now()})
    answer = await peer.next(lambda e: e.type in (MEMORISED, ERROR))
    if answer.type == ERROR:
        return answer["code"]
    equal((answer["memoryId"], answer["action"], answer.conv), (id, action, conv), f"AL-084: {answer}")
    return answer["success"]


async def memory(world, who, id):
    rows = await world.listed("GET", "/memories", who, "memories")
    return next((row for row in rows if row["id"] == id), None)


@check
async def al_085_memories_are_made_changed_and_flagged(world):
    peer = await world.open()
    id = fresh("amem")
    equal(await memorise(peer, "create", id, "likes oolong tea"), True, "create")
    equal(await memorise(peer, "create", id, "likes oolong tea"), True, "the same again")
    made = await memory(world, peer.who, id)
    equal((made["content"], made["pinned"], made["archived"]), ("likes oolong tea", False, False), "made")
    equal(await memorise(peer, "update", id, "likes green tea", category="fact"), True, "update")
    equal(await memorise(peer, "pin", id), True, "pin")
    equal(await memorise(peer, "pin", id), True, "pin again")
    pinned = await memory(world, peer.who, id)
    equal((pinned["content"], pinned["pinned"], pinned.get("importance")), ("likes green tea", True, made.get("importance")), "pinned")
    equal(await memorise(peer, "pin", id, "likes green tea", pinned=False), True, "unpin")
    equal((await memory(world, peer.who, id))["pinned"], False, "unpinned")
    equal(await memorise(peer, "archive", id), True, "archive")
    archived = await memory(world, peer.who, id)
    ensure(archived is None or archived["archived"], "archived", archived)
    equal(await memorise(peer, "delete", id), True, "delete")
    equal(await memory(world, peer.who, id), None, "gone")
    for action, content in (("update", "x"), ("pin", None), ("archive", None), ("delete", None)):
        equal(await memorise(peer, action, fresh("amem"), content), False, f"{action} of an unknown one")
    for content in ("", "x" * 16_385, None):
        ensure(await memorise(peer, "create", fresh("amem"), content) in (False, 105, 104, 101), "create", repr(content)[:20])
    ensure(await memorise(peer, "forget", fresh("amem")) in (False, 105, 101), "an unknown action")
    await leave(peer)


@check
async def al_053_a_memory_is_used_in_a_later_turn(world):
    peer, conv = await world.met()
    id, other = fresh("amem"), fresh("amem")
    equal(await memorise(peer, "create", id, "my favourite tea is oolong from Taiwan", conv), True, "create")
    equal(await memorise(peer, "create", other, "the bicycle has a flat tyre", conv), True, "create")
    turn = await peer.turn(conv, "say my favourite tea is oolong from Taiwan")
    traces = turn.of(MEMORY)
    equal([trace["memoryId"] for trace in traces], [id], f"traces of {turn.entries}")
    [trace] = traces
    equal((trace["messageId"], trace["content"]), (turn.user, "my favourite tea is oolong from Taiwan"), "trace")
    equal(turn.types[:2], [START, MEMORY], "after StartAnswer")
    equal(turn.of(STATS)[0]["memoriesUsed"], 1, "memoriesUsed")
    # An archived or deleted one is not used any more, and nobody else's ever.
    equal(await memorise(peer, "archive", id), True, "archive")
    equal((await peer.turn(conv, "say my favourite tea is oolong from Taiwan")).of(MEMORY), [], "archived")
    stranger, theirs = await world.met()
    equal((await stranger.turn(theirs, "say the bicycle has a flat tyre")).of(MEMORY), [], "a stranger")
    await leave(peer, stranger)


@check
async def al_053_the_best_memories_come_first(world):
    peer, conv = await world.met()
    for number in range(8):
        equal(await memorise(peer, "create", fresh("amem"), "green tea oolong" + "".join(f" word{n}" for n in range(number)), conv), True, "create")
    traces = (await peer.turn(conv, "say green tea oolong")).of(MEMORY)
    ensure(1 <= len(traces) <= 5, "at most five", traces)
    scores = [trace["relevance"] for trace in traces]
    equal(scores, sorted(scores, reverse=True), "best first")
    await leave(peer)


@check
async def al_082_votes_on_everything(world):
    peer, conv = await world.met()
    equal(await memorise(peer, "create", fresh("amem"), "think 2", conv), True, "create")
    turn = await peer.turn(conv, "think 2")
    [trace], step = turn.of(MEMORY), turn.of(REASONING)[0]
    for kind, target in (("reasoning", step["id"]), ("memory_usage", trace["id"]), ("memory", trace["memoryId"])):
        equal(await vote(peer, conv, target, "up", kind, message=turn.answer), (1, 0, 0, "up"), kind)
        await peer.send(VOTE, conv, {"id": fresh("av"), "conversationId": conv, "messageId": turn.answer, "targetType": kind, "targetId": fresh("x"), "vote": "up", "timestamp": now()})
        await peer.error(203)
    await leave(peer)


@check
async def commentary_is_stored_and_never_answered(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    for body in (
        {"messageId": turn.answer, "content": "well said", "commentaryType": "feedback-positive"},
        {"messageId": "", "content": "about all of it"},
        {"targetId": turn.user, "authorRole": "user", "rating": 5, "commentType": "note", "content": "old keys"},
    ):
        id = fresh("aucc")
        for _ in range(2):
            stanza = await peer.send(COMMENTARY, conv, {"id": id, "conversationId": conv, **body})
            await peer.ack(stanza)
    for body, code in (({"messageId": fresh("am"), "content": "x"}, 203), ({"messageId": turn.answer, "content": ""}, 105), ({"messageId": turn.answer, "content": "x" * 16_385}, (104, 105))):
        stanza = await peer.send(COMMENTARY, conv, {"id": fresh("aucc"), "conversationId": conv, **body})
        await peer.refused(stanza, code)
    await peer.silent(conv)
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "no message")
    await leave(peer)


# --- tuning ----------------------------------------------------------------------------------------

DIMENSIONS = ("successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation")
PRESETS = {
    "accuracy": (0.40, 0.25, 0.10, 0.10, 0.10, 0.03, 0.02),
    "speed": (0.20, 0.15, 0.35, 0.15, 0.10, 0.03, 0.02),
    "reliable": (0.25, 0.20, 0.10, 0.30, 0.10, 0.03, 0.02),
    "creative": (0.15, 0.20, 0.10, 0.10, 0.10, 0.20, 0.15),
    "balanced": (0.25, 0.20, 0.15, 0.15, 0.10, 0.10, 0.05),
}


def ranked(elites, weights):
    """The ids, best first."""
    score = lambda elite: sum(weight * elite["scores"][name] for weight, name in zip(weights, DIMENSIONS))
    return [elite["id"] for elite in sorted(elites, key=score, reverse=True)]


async def weigh(peer, conv, weights=None, **more):
    """AL-087: an acknowledgement, then EliteOptions."""
    body = {"conversationId": conv, "weights": dict(zip(DIMENSIONS, weights)) if weights is not None else {}, **more, "timestamp": now()}
    stanza = await peer.send(WEIGHTS, conv, body)
    first = await peer.upcoming(conv)
    equal((first.type, first.get("acknowledgedStanzaId"), first.get("success")), (ACK, stanza, True), f"first {first} after {body}")
    return await peer.expect(ELITES, conv)


@check
async def al_086_elites_are_ranked_by_the_weights(world):
    peer = await world.open()
    handshake = await peer.handshake()
    conv, offered = handshake.conv, handshake.info[2]
    elites = offered["elites"]
    equal((sorted(e["id"] for e in elites), offered["currentEliteId"]), (["pa_bold", "pa_sound", "pa_swift"], ""), "offered")
    for name, preset in PRESETS.items():
        equal([e["id"] for e in (await weigh(peer, conv, None, preset=name))["elites"]], ranked(elites, preset), name)
    for weights in ((0, 0, 1, 0, 0, 0, 0), (0, 0, 0, 0.5, 0, 0, 0), (1, 0, 0, 0, 0, 0, 1), (0.9,) * 7):
        equal([e["id"] for e in (await weigh(peer, conv, weights, preset="creative"))["elites"]], ranked(elites, weights), f"{weights} win over a preset")
    equal([e["id"] for e in (await weigh(peer, conv, (0,) * 7))["elites"]], ranked(elites, PRESETS["balanced"]), "all zero")
    await leave(peer)


@check
async def al_086_weights_that_are_none(world):
    peer, conv = await world.met()
    for bad in (math.nan, math.inf, -0.1):
        stanza = await peer.send(WEIGHTS, conv, {"conversationId": conv, "weights": dict(zip(DIMENSIONS, (bad, *PRESETS["speed"][1:]))), "timestamp": now()})
        await peer.refused(stanza, 105)
    await peer.silent(conv, 0.1)
    await leave(peer)


@check
async def al_087_an_elite_is_selected(world):
    peer, other, conv = await world.pair()
    stanza = await peer.send(ELITE, conv, {"conversationId": conv, "eliteId": "pa_swift", "timestamp": now()})
    first = await peer.upcoming(conv)
    equal((first.type, first.get("acknowledgedStanzaId")), (ACK, stanza), "first")
    await peer.expect(ELITES, conv, currentEliteId="pa_swift")
    await other.expect(ELITES, conv, currentEliteId="pa_swift")
    for elite, code in (("", 101), ("pa_none", 203)):
        stanza = await peer.send(ELITE, conv, {"conversationId": conv, "eliteId": elite, "timestamp": now()})
        await peer.refused(stanza, code)
    back = await world.open(peer.who)
    equal((await back.handshake(conv, 0)).info[2]["currentEliteId"], "pa_swift", "it is kept")
    second = await back.handshake()
    equal(second.info[2]["currentEliteId"], "", "for this conversation only")
    await leave(peer, other, back)
