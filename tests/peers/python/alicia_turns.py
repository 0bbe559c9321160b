"""Turns: text, reasoning, failures and repetition (4.2–4.5, 5.1, 5.2, 5.8)."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
async def al_041_a_text_turn_in_its_order(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "sentences 3")
    [start], sentences = turn.of(START), turn.of(SENTENCE)
    equal(turn.types[:1] + turn.types[-1:], [START, STATS], f"order of {turn.entries}")
    equal(set(turn.types[1:-1]), {SENTENCE}, f"nothing else in {turn.entries}")
    equal([e.stanza for e in turn.entries[:-1]], list(range(-1, -len(turn.entries), -1)), "stanzas from −1")
    equal((start["previousId"], start["conversationId"]), (turn.user, conv), "StartAnswer")
    equal([s["sequence"] for s in sentences], list(range(1, len(sentences) + 1)), "sequence")
    equal([s.final for s in sentences], [False] * (len(sentences) - 1) + [True], "exactly one final")
    ensure(all(s["previousId"] == start["id"] and s.get("id") for s in sentences), "previousId and id", sentences)
    equal(turn.text.split(), "This is sentence 1. This is sentence 2. This is sentence 3.".split(), "text")
    ensure(len(sentences) >= 3, "the text was not cut into sentences", sentences)
    await leave(peer)


@check
async def al_041_a_message_is_stored_before_it_is_acknowledged(world):
    peer, conv = await world.met()
    id, stanza = await peer.say(conv, "hang after 1")
    await peer.ack(stanza)
    row = await world.message(peer.who, conv, id)
    equal((row["id"], row["contents"], row["role"]), (id, "hang after 1", "user"), "stored")
    await leave(peer)


@check
async def al_042_the_id_of_a_message_is_kept(world):
    peer, conv = await world.met()
    for prefix in ("am_", "", "a+b/c~!", "i" * 107):
        turn = await peer.turn(conv, f"say hello {len(prefix)}", id=prefix + secrets.token_hex(16)[:21])
        rows = await world.messages(peer.who, conv)
        equal([row["id"] for row in rows[-2:]], [turn.user, turn.answer], "path")
        equal(rows[-1]["previous_id"], turn.user, "previous_id of the answer")
    await leave(peer)


@check
async def al_016_stanzas_are_dense_over_turns(world):
    peer, conv = await world.met()
    for number in range(1, 6):
        turn = await peer.turn(conv, f"sentences {number}")
        equal(turn.of(STATS)[0]["messageCount"], 2 * number, "messageCount")
    stanzas = sorted(peer.memory[conv].entries, reverse=True)
    equal(stanzas, list(range(-1, -len(stanzas) - 1, -1)), "stanzas")
    again = await peer.handshake(conv)
    equal(again.head, stanzas[-1], "head")
    await leave(peer)


@check
async def al_018_what_is_not_sequenced_takes_no_id(world):
    peer, conv = await world.met()
    await peer.turn(conv, "say one")
    before = (await peer.handshake(conv)).head
    note = fresh("an")
    await peer.send(NOTE, conv, {"id": note, "messageId": (await world.path(peer.who, conv))[0], "content": "n", "category": "general", "action": "create", "timestamp": now()})
    await peer.expect(NOTED, success=True)
    await peer.subscribe(conv, fromSequence=0)
    equal([(await peer.upcoming(conv)).stanza for _ in range(2)], [0, 0], "missed messages")
    equal((await peer.handshake(conv)).head, before, "head")
    await leave(peer)


@check
async def al_050_joined_sentences_are_what_is_stored(world):
    peer, conv = await world.met()
    texts = (
        "say Hello there.",
        "say Olá! ¿Qué tal? 你好。很好！ Dr. Smith paid 3.50 on Jan. 5. Really?! \"Yes.\" (Sure.) End",
        "say First paragraph. Still first.\n\nSecond paragraph.\n- a list\n- of things\n\n\nThird.",
        "chunks 3 One two three. Four five six!  Two spaces before. Tab\tinside. 🌍 Emoji. The end.",
        "say no end of a sentence anywhere",
        "say ```\ncode();\n```\nDone.",
    )
    for text in texts:
        turn = await peer.turn(conv, text)
        expected = text.split(" ", 2)[2] if text.startswith("chunks") else text.split(" ", 1)[1]
        equal(turn.text, expected, f"joined sentences {[s['text'] for s in turn.of(SENTENCE)]}")
        equal((await world.message(peer.who, conv, turn.answer))["contents"], turn.text, "stored")
    await leave(peer)


@check
async def al_050_a_long_text_is_cut_at_the_size_limit(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "size 30000")
    pieces = [s["text"] for s in turn.of(SENTENCE)]
    ensure(len(pieces) >= 4, "pieces", [len(piece) for piece in pieces])
    # There is neither a sentence end nor a space in it.
    equal(len("".join(pieces)), 30000, "length of all pieces")
    await leave(peer)


@check
async def al_046_an_answer_without_a_word_has_one_final_sentence(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "nothing")
    [sentence] = turn.of(SENTENCE)
    equal((sentence["text"], sentence.final), ("", True), "sentence")
    await leave(peer)


@check
async def al_049_without_streaming_an_answer_is_one_message(world):
    for features in ((), ("tool_use", "nonsense")):
        peer, conv = await world.met(features=features)
        turn = await peer.turn(conv, "sentences 4")
        equal(turn.types, [ASSISTANT, STATS], f"what came: {turn.entries}")
        [message] = turn.of(ASSISTANT)
        equal((message.stanza, message["previousId"]), (-1, turn.user), "message")
        equal(message["content"], (await world.message(peer.who, conv, message["id"]))["contents"], "stored")
        equal(message["sequenceNumber"], 2, "sequenceNumber")
        await leave(peer)
    # Subscribe alone declares nothing either.
    who = world.somebody()
    conv, peer = await world.create(who), await world.open(who)
    await peer.subscribe(conv)
    equal((await peer.turn(conv, "sentences 2")).types, [ASSISTANT, STATS], "after Subscribe")
    await leave(peer)


@check
async def al_048_partial_responses_mean_streaming(world):
    peer, conv = await world.met(features=("partial_responses",))
    turn = await peer.turn(conv, "sentences 2")
    equal((turn.types[0], turn.of(ASSISTANT)), (START, []), "what came")
    # A later Configuration changes the features, and replays nothing.
    again = await peer.handshake(conv, features=())
    equal(again.replay, [], "replay")
    equal((await peer.turn(conv, "say plain")).types, [ASSISTANT, STATS], "without streaming now")
    await leave(peer)


@check
async def al_045_what_cannot_be_a_message(world):
    peer, conv = await world.met()
    for content in ("", "   \n\t "):
        id, stanza = await peer.say(conv, content)
        await peer.refused(stanza, 105, id)
    id, stanza = await peer.say(conv, "say hello", previous=fresh("am"))
    await peer.refused(stanza, 203, id)
    id, stanza = await peer.say(conv, "say " + "x" * 65_533)
    await peer.refused(stanza, (104, 105), id)
    equal(await world.path(peer.who, conv), [], "nothing is stored")
    await peer.silent(conv)
    turn = await peer.turn(conv, "chunks 60000 " + "y" * (65_536 - len("chunks 60000 ")))
    ensure(turn.text.startswith("yyyy"), "65 536 bytes are allowed")
    await leave(peer)


@check
async def al_015_ids_are_opaque_but_bounded(world):
    peer, conv = await world.met()
    for id in ("x" * 129, "with space", "ümlaut", "am_fallback"):
        _, stanza = await peer.say(conv, "say hello", id=id)
        await peer.error((101, 105, 202))
        await peer.ack(stanza, False)
    equal(await world.path(peer.who, conv), [], "nothing is stored")
    await leave(peer)


@check
async def al_043_a_repeated_message_starts_no_turn(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say once")
    _, stanza = await peer.say(conv, "say once", id=turn.user)
    await peer.ack(stanza)
    # The same from a new connection, as after a drop.
    other = await world.open(peer.who)
    await other.handshake(conv, 0)
    _, stanza = await other.say(conv, "say once", id=turn.user)
    await other.ack(stanza)
    await other.silent(conv)
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "path")
    equal([e for e in peer.inbox if e.stanza < 0 or e.type == USER], [], "nothing came of it")
    await leave(peer, other)


@check
async def al_044_the_same_id_with_other_content(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say once")
    _, stanza = await peer.say(conv, "say twice", id=turn.user)
    await peer.refused(stanza, 202, turn.user)
    second = (await peer.handshake()).conv
    _, stanza = await peer.say(second, "say once", id=turn.user)
    await peer.refused(stanza, 202, turn.user)
    equal(await world.path(peer.who, second), [], "nothing is stored")
    equal((await world.message(peer.who, conv, turn.user))["contents"], "say once", "stored")
    await leave(peer)


@check
async def al_019_a_repeated_stanza(world):
    peer, conv = await world.met()
    id, stanza = await peer.say(conv, "say one", stanza=10)
    await peer.ack(10)
    turn = await peer.answer(conv, id)
    # Known body id: acknowledged again. Unknown: dropped.
    await peer.say(conv, "say one", id=id, stanza=10)
    await peer.ack(10)
    for repeat in (10, 3):
        unknown, _ = await peer.say(conv, "say other", stanza=repeat)
        await peer.error(103, True, unknown)
    equal(await world.path(peer.who, conv), [id, turn.answer], "path")
    peer.stanza = 1000
    await peer.turn(conv, "say a gap upward is fine")
    await leave(peer)


@check
async def an_unsequenced_message_is_not_acknowledged(world):
    peer, conv = await world.met()
    id, _ = await peer.say(conv, "say zero", stanza=0)
    turn = await peer.answer(conv, id)
    equal(turn.types[0], START, f"first of {turn.entries}")
    equal(turn.of(ACK), [], "acknowledgements")
    await leave(peer)


@check
async def al_051_a_new_message_supersedes(world):
    peer, conv = await world.met()
    _, answer = await peer.streaming(conv)
    id, stanza = await peer.say(conv, "say second")
    await peer.ack(stanza)
    # The Memory of the peer sees to it that the first answer is closed before the second begins.
    start = await peer.expect(START, conv, previousId=id)
    ensure(peer.memory[conv].answers[answer]["final"], "the first has no end")
    await peer.finish(conv, start["id"])
    await peer.barrier()
    path = await world.messages(peer.who, conv)
    equal([row["id"] for row in path][1:], [answer, id, start["id"]], "path")
    equal(path[1]["contents"].strip(), joined(peer.memory[conv].answers[answer]["pieces"]).strip(), "what is kept of the first")
    await leave(peer)


@check
async def al_052_a_failure_after_the_start(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "fail after 2")
    sentences, [error] = turn.of(SENTENCE), turn.of(ERROR)
    equal((sentences[-1]["text"], sentences[-1].final), ("", True), "the final sentence")
    equal(turn.types[-3:], [SENTENCE, ERROR, STATS], f"order of {turn.entries}")
    ensure(error["code"] in (501, 502) and error["recoverable"] and error.stanza < 0, "error", error)
    equal(error["originatingId"], turn.answer, "originatingId")
    ensure("This is sentence 2." in turn.text, "partial text", turn.text)
    kept = {row["id"]: row["contents"] for row in await world.messages(peer.who, conv, all="true")}
    equal(kept[turn.answer].strip(), turn.text.strip(), "partial text is kept")
    equal((await peer.turn(conv, "say again")).text, "again", "the next turn")
    await leave(peer)


@check
async def al_052_a_failure_without_streaming(world):
    peer, conv = await world.met(features=())
    turn = await peer.turn(conv, "fail after 1")
    equal((turn.of(START), turn.of(SENTENCE)), ([], []), "nothing streams")
    [error] = turn.of(ERROR)
    ensure(error["code"] in (501, 502) and error.stanza < 0, "error", error)
    equal(error["originatingId"], turn.user, "originatingId")
    await leave(peer)


@check
async def al_054_reasoning_names_the_answer(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "think 3")
    steps = turn.of(REASONING)
    ensure(steps, "no reasoning in", turn.entries)
    equal([step["sequence"] for step in steps], list(range(1, len(steps) + 1)), "sequence")
    equal({step["messageId"] for step in steps}, {turn.answer}, "messageId")
    ensure(all(f"Thought {n}." in "".join(step["content"] for step in steps) for n in (1, 2, 3)), "thoughts", steps)
    equal((turn.types[0], turn.types[-2]), (START, SENTENCE), "between start and final sentence")
    equal(turn.text, "Thought it over.", "the text of the answer")
    plain, conv = await world.met(features=())
    turn = await plain.turn(conv, "think 2")
    equal(turn.types[0], ASSISTANT, "the message first")
    ensure(turn.of(REASONING) and turn.types[-1] == STATS, "then reasoning", turn.entries)
    await leave(peer, plain)


@check
async def al_054_reasoning_can_be_switched_off(world):
    peer, conv = await world.met()
    await world.http("PATCH", f"/conversations/{conv}", peer.who, json={"preferences": {"enable_reasoning": False}})
    turn = await peer.turn(conv, "think 3")
    equal((turn.of(REASONING), turn.text), ([], "Thought it over."), "answer")
    await leave(peer)


@check
async def al_088_session_stats_are_in_milliseconds(world):
    began = time.monotonic()
    peer, conv = await world.met()
    await asyncio.sleep(1.2)
    stats = (await peer.turn(conv, "tool weather")).of(STATS)[0]
    took = (time.monotonic() - began) * 1000
    ensure(1000 <= stats["sessionDuration"] <= took + 1000, "sessionDuration", stats, took)
    equal((stats["messageCount"], stats["toolCallCount"], stats["memoriesUsed"]), (2, 1, 0), f"counts of {stats}")
    await leave(peer)


@check
async def trace_ids_are_handed_on(world):
    peer, conv = await world.met()
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    meta = {"messaging.trace_id": trace, "messaging.span_id": span, "source": "keyboard", "n": 7, "deep": {"a": [1, 2.5, None]}}
    id, stanza = await peer.say(conv, "say traced", meta=meta)
    await peer.ack(stanza)
    turn = await peer.answer(conv, id)
    equal({e.meta.get("messaging.trace_id", trace) for e in turn.entries}, {trace}, "trace id")
    ensure(all(e.meta.get("messaging.span_id") != span for e in turn.entries), "a span of its own")
    large = {"blob": "x" * 4100}
    _, stanza = await peer.say(conv, "say too much meta", meta=large)
    await peer.refused(stanza, (104, 105))
    await leave(peer)
