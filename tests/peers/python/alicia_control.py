"""Stops, variations and branches (5.5, 5.6)."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def vary(peer, conv, target, mode, **more):
    """A variation that is accepted; its acknowledgement is the first that comes."""
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": target, "mode": mode, **more})
    first = await peer.upcoming(conv)
    equal((first.type, first.get("acknowledgedStanzaId"), first.get("success")), (ACK, stanza, True), f"first {first} after {peer.sent!r:.300}")
    return stanza


# --- stop ------------------------------------------------------------------------------------------


@check
async def al_071_a_stop_is_acknowledged_at_once(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    began = time.monotonic()
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "targetId": answer, "reason": "user_clicked_stop"})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    # A busy machine gets more than the 250 ms and 2 s of the reference.
    ensure(time.monotonic() - began < 5, "it took", time.monotonic() - began)
    await peer.expect(STATS, conv)
    await leave(peer)


@check
async def al_072_no_sentence_follows_a_stop(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv, "sentences 300 every 20")
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    await asyncio.sleep(0.5)
    await peer.barrier()
    # The Memory of the peer refuses sentences behind the final one.
    pieces = peer.memory[conv].answers[answer]["pieces"]
    ensure(len(pieces) < 250, "it was not stopped", len(pieces))
    row = await world.message(peer.who, conv, answer)
    equal(row["contents"].strip(), joined(pieces).strip(), "what is kept")
    peer.inbox.clear()
    equal((await peer.turn(conv, "say next")).text, "next", "the next turn")
    await leave(peer)


@check
async def al_073_what_a_stop_may_say(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "stopType": "everything"})
    await peer.refused(stanza, 101)
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "stopType": "speech"})
    await peer.ack(stanza)
    before = len(peer.memory[conv].answers[answer]["pieces"])
    while len(peer.memory[conv].answers[answer]["pieces"]) < before + 3:
        await peer.receive()
    ensure(not peer.memory[conv].answers[answer]["final"], "text goes on after a stop of speech")
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "stopType": "generation"})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    await leave(peer)


@check
async def al_074_a_stop_of_something_unknown(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "targetId": fresh("am")})
    await peer.ack(stanza, False)
    await peer.barrier()
    equal([e for e in peer.inbox if e.type == ERROR], [], "no error")
    ensure(not peer.memory[conv].answers[answer]["final"], "the answer goes on")
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "targetId": answer})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    await peer.expect(STATS, conv)
    peer.inbox.clear()
    # It is over already: true, and nothing else.
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "targetId": answer})
    await peer.ack(stanza)
    await peer.silent(conv)
    await leave(peer)


@check
async def a_stop_from_another_device(world):
    peer, other, conv = await world.pair()
    user, answer = await peer.streaming(conv)
    stanza = await other.send(STOP, conv, {"conversationId": conv, "reason": "user_requested"})
    await other.ack(stanza)
    mine, theirs = await peer.finish(conv, answer), await other.finish(conv, answer)
    equal(mine.raw, theirs.raw, "the same bytes for everybody")
    await leave(peer, other)


@check
async def a_stop_without_streaming(world):
    peer, conv = await world.met(features=())
    id, stanza = await peer.say(conv, "hang after 2")
    await peer.ack(stanza)
    await asyncio.sleep(0.3)
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.expect(STATS, conv)
    peer.inbox.clear()
    equal((await peer.turn(conv, "say next")).text, "next", "the next turn")
    await leave(peer)


# --- regenerate, edit, continue --------------------------------------------------------------------


@check
async def al_075_regenerate_for_user_and_assistant_targets(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "sentences 2")
    answers = [first.answer]
    for target, mode in ((first.user, "regenerate"), (first.answer, "regenerate"), (first.answer, "retry"), (first.user, "retry")):
        await vary(peer, conv, target, mode)
        turn = await peer.answer(conv)
        equal(turn.of(START)[0]["previousId"], first.user, "previousId")
        equal(turn.of(USER), [], "no UserMessage")
        ensure(turn.answer not in answers, "an answer of its own")
        answers.append(turn.answer)
        equal(await world.path(peer.who, conv), [first.user, turn.answer], "the active path")
    equal(sorted(await world.siblings(peer.who, first.answer)), sorted(answers), "all answers are kept")
    await leave(peer)


@check
async def al_079_retry_acts_as_regenerate_while_streaming(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": user, "mode": "retry"})
    second = await peer.expect(START, conv, previousId=user)
    ensure(peer.memory[conv].answers[answer]["final"] and second["id"] != answer, "the first is ended first")
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.finish(conv, second["id"])
    await leave(peer)


@check
async def al_076_edit_with_new_content(world):
    peer, other, conv = await world.pair()
    first = await peer.turn(conv, "say one")
    second = await peer.turn(conv, "say two")
    await other.barrier()
    other.inbox.clear()
    await vary(peer, conv, second.user, "edit", newContent="say three")
    turn = await peer.answer(conv)
    equal(turn.types[0], USER, f"the announcement first: {turn.entries}")
    announced, [start] = turn.of(USER)[0], turn.of(START)
    equal((announced["content"], announced.get("previousId")), ("say three", first.answer), "announcement")
    ensure(announced["id"] not in (second.user, first.user), "an id of its own")
    equal((start["previousId"], turn.text), (announced["id"], "three"), "it is answered")
    equal((await other.expect(USER, conv)).raw, announced.raw, "other peers are told, too")
    rows = await world.messages(peer.who, conv)
    equal([row["id"] for row in rows], [first.user, first.answer, announced["id"], turn.answer], "the active path")
    equal((rows[2]["sequence_number"], announced["sequenceNumber"]), (3, 3), "the number of the target")
    equal(sorted(await world.siblings(peer.who, second.user)), sorted([second.user, announced["id"]]), "siblings")
    await leave(peer, other)


@check
async def al_076_edit_while_streaming(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": user, "mode": "edit", "newContent": "say better"})
    await peer.ack(stanza)
    announced = await peer.expect(USER, conv, content="say better")
    final = await peer.finish(conv, answer)
    ensure(final.at <= announced.at, "the final sentence comes before the announcement", final, announced)
    start = await peer.expect(START, conv, previousId=announced["id"])
    await peer.finish(conv, start["id"])
    equal(await world.path(peer.who, conv), [announced["id"], start["id"]], "the first message of all has siblings as well")
    await leave(peer)


@check
async def al_077_edit_with_a_follow_up(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    second = await peer.turn(conv, "say two")
    for previous in ({}, {"previous": second.user}):
        await vary(peer, conv, second.user, "edit")
        turn = await peer.turn(conv, "say three", **previous)
        equal(await world.path(peer.who, conv), [first.user, first.answer, turn.user, turn.answer], "the active path")
        ensure(turn.user in await world.siblings(peer.who, second.user), "a sibling of the target")
    await leave(peer)


@check
async def al_077_edit_whose_follow_up_is_late(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    began = time.monotonic()
    await vary(peer, conv, first.user, "edit")
    error = await peer.error(202)
    ensure(4 <= time.monotonic() - began <= 10, "it took", time.monotonic() - began)
    equal(await world.path(peer.who, conv), [first.user, first.answer], "the target stays active")
    later = await peer.turn(conv, "say later")
    equal(await world.path(peer.who, conv), [first.user, first.answer, later.user, later.answer], "an ordinary message")
    await leave(peer)


@check
async def al_078_edit_of_an_assistant_message(world):
    peer, other, conv = await world.pair()
    first = await peer.turn(conv, "say one")
    await other.answer(conv)
    await vary(peer, conv, first.answer, "edit", newContent="Better words.")
    edited = await peer.expect(ASSISTANT, conv, id=first.answer, content="Better words.", previousId=first.user)
    equal((edited.stanza, edited.raw), (min(peer.memory[conv].entries), (await other.expect(ASSISTANT, conv)).raw), "sequenced, for everybody")
    equal((await world.message(peer.who, conv, first.answer))["contents"], "Better words.", "stored")
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": first.answer, "mode": "edit"})
    await peer.refused(stanza, (101, 105, 202))
    equal(await world.path(peer.who, conv), [first.user, first.answer], "no sibling")
    await leave(peer, other)


@check
async def al_079_continue_adds_a_child(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    await vary(peer, conv, first.answer, "continue")
    turn = await peer.answer(conv)
    equal(turn.of(START)[0]["previousId"], first.answer, "previousId")
    equal(await world.path(peer.who, conv), [first.user, first.answer, turn.answer], "the active path")
    stanza = await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": first.user, "mode": "continue"})
    await peer.refused(stanza, 202)
    await leave(peer)


@check
async def variations_that_cannot_be(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    other = (await peer.handshake()).conv
    for body, code in (
        ({"targetId": turn.user}, 101),
        ({"targetId": turn.user, "mode": "improve"}, 101),
        ({"targetId": "", "mode": "regenerate"}, 101),
        ({"targetId": fresh("am"), "mode": "regenerate"}, 203),
    ):
        stanza = await peer.send(VARIATION, conv, {"conversationId": conv, **body})
        await peer.refused(stanza, code)
    stanza = await peer.send(VARIATION, other, {"conversationId": other, "targetId": turn.user, "mode": "regenerate"})
    await peer.refused(stanza, 203)
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "nothing happened")
    await peer.silent()
    await leave(peer)


@check
async def variations_without_streaming(world):
    peer, conv = await world.met(features=())
    first = await peer.turn(conv, "say one")
    await vary(peer, conv, first.answer, "regenerate")
    turn = await peer.answer(conv)
    equal((turn.types, turn.of(ASSISTANT)[0]["previousId"]), ([ASSISTANT, STATS], first.user), "a message of its own")
    ensure(turn.answer != first.answer, "an id of its own")
    await leave(peer)


# --- branches --------------------------------------------------------------------------------------


@check
async def al_080_a_branch_and_the_way_back(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    second = await peer.turn(conv, "say two")
    branch = await peer.turn(conv, "say three", previous=first.answer)
    main, side = [first.user, first.answer, second.user, second.answer], [first.user, first.answer, branch.user, branch.answer]
    equal(await world.path(peer.who, conv), side, "the branch is active")
    equal(sorted(await world.siblings(peer.who, second.user)), sorted([second.user, branch.user]), "siblings")
    await world.http("POST", f"/conversations/{conv}/switch-branch", peer.who, json={"tip_message_id": second.answer})
    equal(await world.path(peer.who, conv), main, "back")
    next_one = await peer.turn(conv, "say four")
    equal(await world.path(peer.who, conv), [*main, next_one.user, next_one.answer], "the tip is where it goes on")
    rows = await world.messages(peer.who, conv)
    numbers = [row["sequence_number"] for row in rows]
    ensure(numbers == sorted(set(numbers)), "numbers grow along a path", numbers)
    for tip in (fresh("am"), ""):
        await world.http("POST", f"/conversations/{conv}/switch-branch", peer.who, json={"tip_message_id": tip}, status=(400, 404, 422))
    await leave(peer)


@check
async def a_branch_from_the_middle_of_an_answer_supersedes(world):
    peer, conv = await world.met()
    first = await peer.turn(conv, "say one")
    user, answer = await peer.streaming(conv)
    id, stanza = await peer.say(conv, "say elsewhere", previous=first.answer)
    await peer.ack(stanza)
    start = await peer.expect(START, conv, previousId=id)
    ensure(peer.memory[conv].answers[answer]["final"], "the old answer is ended")
    await peer.finish(conv, start["id"])
    equal(await world.path(peer.who, conv), [first.user, first.answer, id, start["id"]], "the active path")
    await leave(peer)
