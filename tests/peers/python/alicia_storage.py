"""What the wire leaves in the database (6.1, 10), read with nothing but `sqlite3`."""

import json
import sqlite3

from alicia_marks import memorise, vote
from alicia_sync import sync, written
from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def rows(world, table, **where):
    """The rows of a table in the order in which they were made."""
    database = sqlite3.connect(f"file:{world.database}?mode=ro", uri=True, timeout=PATIENCE)
    database.row_factory = sqlite3.Row
    try:
        condition = " AND ".join(f'"{name}" = ?' for name in where)
        found = database.execute(f'SELECT * FROM "{table}" WHERE {condition} ORDER BY rowid', tuple(where.values()))
        return [dict(row) for row in found]
    finally:
        database.close()


def row(world, table, **where):
    found = rows(world, table, **where)
    ensure(len(found) == 1, f"{len(found)} rows in {table} for {where}", found)
    return found[0]


def log(world, conv):
    """The server log: stanza, ordinal and bytes, in the order of replay."""
    found = [(entry["stanza_id"], entry["ordinal"], entry["type"], entry["envelope"]) for entry in rows(world, "alicia_server_log", conversation_id=conv)]
    return sorted(found, key=lambda entry: (-entry[0], entry[1]))


@check
async def al_034_the_log_holds_the_bytes_of_the_wire(world):
    peer, watcher, conv = await world.pair()
    first = await peer.turn(conv, "sentences 2")
    await peer.turn(conv, "tool weather")
    await watcher.barrier()
    live = [e for e in watcher.inbox if e.stanza < 0 or e.type == USER]
    kept = log(world, conv)
    equal([entry[3].hex() for entry in kept], [e.raw.hex() for e in live], "bytes, side entries in place")
    equal([(entry[1] > 0, entry[2]) for entry in kept], [(e.type == USER, e.type) for e in live], "ordinal and type")
    equal(row(world, "alicia_conversations", id=conv)["last_server_stanza_id"], min(e.stanza for e in live), "last_server_stanza_id")
    await leave(peer, watcher)


@check
async def al_034_an_entry_is_stored_before_it_is_sent(world):
    peer, conv = await world.met()
    id, stanza = await peer.say(conv, "sentences 40 every 20")
    await peer.ack(stanza)
    equal(row(world, "alicia_messages", conversation_id=conv, id=id)["contents"], "sentences 40 every 20", "AL-041")
    for _ in range(20):
        seen = await peer.next(lambda e: e.stanza < 0)
        entry = row(world, "alicia_server_log", conversation_id=conv, stanza_id=seen.stanza, ordinal=0)
        equal(entry["envelope"].hex(), seen.raw.hex(), "bytes")
        if seen.type == SENTENCE:
            equal(row(world, "alicia_sentences", conversation_id=conv, id=seen["id"])["text"], seen["text"], "sentence")
        else:
            answer = row(world, "alicia_messages", conversation_id=conv, id=seen["id"])
            equal((answer["completion_status"], answer["previous_id"]), ("streaming", id), "the answer while it streams")
    await leave(peer)


@check
async def rows_of_a_turn(world):
    peer, conv = await world.met()
    memory_id = fresh("amem")
    equal(await memorise(peer, "create", memory_id, "tool weather", conv), True, "memory")
    turn = await peer.turn(conv, "tool weather")
    user, answer = row(world, "alicia_messages", conversation_id=conv, id=turn.user), row(world, "alicia_messages", conversation_id=conv, id=turn.answer)
    told = lambda message: tuple(message[name] for name in ("previous_id", "message_role", "contents", "sequence_number", "completion_status", "sync_status"))
    equal(told(user), (None, "user", "tool weather", 1, "completed", "synced"), "user")
    equal(told(answer), (turn.user, "assistant", turn.text, 2, "completed", "synced"), "answer")
    sentences = rows(world, "alicia_sentences", conversation_id=conv, message_id=turn.answer)
    wire = turn.of(SENTENCE)
    equal([(s["id"], s["sentence_sequence_number"], s["text"], s["completion_status"]) for s in sentences], [(s["id"], s["sequence"], s["text"], "completed") for s in wire], "sentences")
    [request], use = turn.of(REQUEST), row(world, "alicia_tool_uses", conversation_id=conv)
    equal((use["id"], use["message_id"], use["tool_name"], json.loads(use["tool_arguments"])), (request["id"], turn.answer, "weather", {"q": "weather", "n": 3}), "tool use")
    equal((use["status"], json.loads(use["tool_result"]), use["sequence_number"]), ("success", {"sky": "clear", "degrees": 21.5}, 1), "tool use")
    ensure(use["completed_at"], "completed_at", use)
    [trace], used = turn.of(MEMORY), row(world, "alicia_memory_used", conversation_id=conv)
    equal((used["id"], used["message_id"], used["memory_id"], used["position_in_results"]), (trace["id"], turn.user, memory_id, 1), "memory use")
    equal(used["similarity_score"], trace["relevance"], "similarity_score")
    conversation = row(world, "alicia_conversations", id=conv)
    equal((conversation["tip_message_id"], conversation["status"], conversation["livekit_room_name"]), (turn.answer, "active", f"conv_{conv}"), "conversation")
    stats, [sent] = row(world, "alicia_session_stats", conversation_id=conv), turn.of(STATS)
    equal((stats["message_count"], stats["tool_call_count"], stats["memories_used"]), (2, 1, 1), "stats")
    ensure(abs(stats["session_duration_seconds"] - sent["sessionDuration"] // 1000) <= 1, "seconds", stats, sent)
    await leave(peer)


@check
async def al_107_every_meta_entry_is_a_row(world):
    peer, conv = await world.met()
    meta = {"source": "keyboard", "n": 7, "yes": True, "deep": {"a": [1, 2.5, None]}, "timestamp": "2026-01-01T00:00:00Z", "otel_span": "x"}
    id, stanza = await peer.say(conv, "say meta", meta=meta)
    await peer.ack(stanza)
    kept = {entry["key"]: entry["value"] for entry in rows(world, "alicia_meta", conversation_id=conv, ref=id)}
    equal(sorted(kept), sorted(meta), "keys")
    for key, value in meta.items():
        equal(kept[key] if isinstance(value, str) else json.loads(kept[key]), value, key)
    equal(kept["deep"], '{"a":[1,2.5,null]}', "compact JSON")
    await peer.answer(conv, id)
    await leave(peer)


@check
async def al_070_rows_of_tools_that_did_not_succeed(world):
    peer, conv = await world.met(features=(*STREAMING, "tool:clock"))
    await peer.turn(conv, "tool-error weather no sky")
    failed = row(world, "alicia_tool_uses", conversation_id=conv, status="error")
    equal(failed["error_message"], "execution_error: no sky", "error_message")
    id, stanza = await peer.say(conv, "client clock")
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv)
    equal(row(world, "alicia_tool_uses", conversation_id=conv, id=request["id"])["status"], "running", "while it runs")
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "reason": "user_clicked_stop"})
    await peer.ack(stanza)
    turn = await peer.answer(conv, id)
    equal(row(world, "alicia_tool_uses", conversation_id=conv, id=request["id"])["status"], "cancelled", "after a stop")
    [sentence] = [s for s in turn.of(SENTENCE) if s.final]
    answer = row(world, "alicia_messages", conversation_id=conv, id=sentence["previousId"])
    truncated = row(world, "alicia_meta", conversation_id=conv, ref=answer["id"], key="truncated")
    equal((answer["completion_status"], truncated["value"]), ("completed", "user_clicked_stop"), "R-18")
    await leave(peer)


@check
async def rows_of_answers_that_ended_early(world):
    peer, conv = await world.met()
    user, answer = await peer.streaming(conv)
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    equal(row(world, "alicia_meta", conversation_id=conv, ref=answer, key="truncated")["value"], "stopped", "without a reason")
    await peer.expect(STATS, conv)
    user, answer = await peer.streaming(conv)
    id, stanza = await peer.say(conv, "fail after 1")
    await peer.ack(stanza)
    await peer.finish(conv, answer)
    equal(row(world, "alicia_meta", conversation_id=conv, ref=answer, key="truncated")["value"], "superseded", "superseded")
    error = await peer.next(lambda e: e.type == ERROR)
    failed = row(world, "alicia_messages", conversation_id=conv, id=error["originatingId"])
    equal((failed["completion_status"], failed["contents"].strip()), ("failed", "This is sentence 1."), "failed")
    # Nothing was said at all.
    await peer.expect(STATS, conv)
    peer.inbox.clear()
    id, stanza = await peer.say(conv, "hang after 0")
    await peer.ack(stanza)
    start = await peer.expect(START, conv, previousId=id)
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    await peer.finish(conv, start["id"])
    equal(row(world, "alicia_messages", conversation_id=conv, id=start["id"])["completion_status"], "failed", "nothing was said")
    await leave(peer)


@check
async def al_085_rows_of_memories_keep_their_importance(world):
    peer = await world.open()
    id = fresh("amem")
    await memorise(peer, "create", id, "likes tea")
    made = row(world, "alicia_memory", id=id)
    equal((made["content"], made["importance"], made["confidence"], made["source_type"], json.loads(made["tags"])), ("likes tea", 0.5, 1.0, "manual", ["preference"]), "made")
    await memorise(peer, "pin", id)
    await memorise(peer, "archive", id)
    flagged = row(world, "alicia_memory", id=id)
    equal((flagged["pinned"], flagged["archived"], flagged["importance"]), (1, 1, 0.5), "flags")
    await memorise(peer, "delete", id)
    ensure(row(world, "alicia_memory", id=id)["deleted_at"], "delete is soft")
    await leave(peer)


@check
async def rows_of_remarks(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "say one")
    await vote(peer, conv, turn.answer, "down", quickFeedback="too_generic", note="hm")
    voted = row(world, "alicia_votes", conversation_id=conv)
    equal((voted["vote"], voted["quick_feedback"], voted["note"], voted["target_type"], voted["deleted_at"]), ("down", "too_generic", "hm", "message", None), "vote")
    await vote(peer, conv, turn.answer, "critical", quickFeedback="no such word")
    live = [vote for vote in rows(world, "alicia_votes", conversation_id=conv) if not vote["deleted_at"]]
    equal([(vote["vote"], vote["quick_feedback"]) for vote in live], [("critical", None)], "one live vote; an unknown word is null")
    await vote(peer, conv, turn.answer, "remove")
    equal([vote for vote in rows(world, "alicia_votes", conversation_id=conv) if not vote["deleted_at"]], [], "removed")
    id = fresh("aucc")
    stanza = await peer.send(COMMENTARY, conv, {"id": id, "messageId": turn.answer, "conversationId": conv, "content": "well", "commentaryType": "correction"})
    await peer.ack(stanza)
    comment = row(world, "alicia_user_conversation_commentaries", conversation_id=conv, id=id)
    equal((comment["content"], comment["message_id"], json.loads(comment["meta"])["commentary_type"]), ("well", turn.answer, "correction"), "commentary")
    about = fresh("aucc")
    stanza = await peer.send(COMMENTARY, conv, {"id": about, "messageId": "", "conversationId": conv, "content": "all of it", "rating": 4, "authorRole": "user"})
    await peer.ack(stanza)
    comment = row(world, "alicia_user_conversation_commentaries", conversation_id=conv, id=about)
    kept = json.loads(comment["meta"])
    equal((comment["message_id"], kept.get("rating"), kept.get("authorRole", kept.get("author_role"))), (None, 4, "user"), f"about the conversation: {comment}")
    note = fresh("an")
    for action, content in (("create", "first"), ("update", "second")):
        await peer.send(NOTE, conv, {"id": note, "messageId": turn.answer, "content": content, "category": "correction", "action": action, "timestamp": now()})
        await peer.expect(NOTED, success=True)
    kept = row(world, "alicia_notes", id=note)
    equal((kept["content"], kept["category"], kept["message_id"]), ("second", "correction", turn.answer), "note")
    await leave(peer)


@check
async def al_100_rows_of_synced_messages(world):
    peer, conv = await world.met()
    [one] = await sync(peer, conv, written("local_1"))
    kept = row(world, "alicia_messages", conversation_id=conv, local_id="local_1")
    equal((kept["id"], kept["server_id"], kept["sync_status"], kept["completion_status"]), (one["serverId"], one["serverId"], "synced", "completed"), "synced")
    ensure(kept["synced_at"], "synced_at", kept)
    await sync(peer, conv, written("local_1", "other"))
    kept = row(world, "alicia_messages", conversation_id=conv, local_id="local_1")
    equal((kept["sync_status"], kept["contents"]), ("conflict", "offline"), "conflict")
    await leave(peer)


@check
async def al_086_weights_are_kept_with_the_sum_1(world):
    peer, conv = await world.met()
    names = ("successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation")
    for weights, wanted in (((1, 1, 0, 0, 0, 0, 0), (0.5, 0.5, 0, 0, 0, 0, 0)), ((0,) * 7, (0.25, 0.20, 0.15, 0.15, 0.10, 0.10, 0.05))):
        stanza = await peer.send(WEIGHTS, conv, {"conversationId": conv, "weights": dict(zip(names, weights)), "timestamp": now()})
        await peer.ack(stanza)
        kept = json.loads(row(world, "alicia_conversations", id=conv)["preferences"])["dimension_weights"]
        values = list(kept.values()) if isinstance(kept, dict) else kept
        ensure(all(abs(a - b) < 1e-9 for a, b in zip(values, wanted)) and len(values) == 7, "weights", kept, wanted)
    stanza = await peer.send(ELITE, conv, {"conversationId": conv, "eliteId": "pa_bold", "timestamp": now()})
    await peer.ack(stanza)
    equal(json.loads(row(world, "alicia_conversations", id=conv)["preferences"])["elite_id"], "pa_bold", "elite_id")
    await leave(peer)


@check
async def al_012_nothing_is_stored_of_what_is_refused(world):
    peer, conv = await world.met()
    for type, body in ((TRANSCRIPTION, {"id": fresh("am"), "text": "spoken", "final": True}), (TRANSCRIPTION, {"id": fresh("am"), "text": "spo"}), (ASSISTANT, {"id": fresh("am"), "content": "no"}), (REASONING, {"id": fresh("ar"), "messageId": "x", "sequence": 1, "content": "no"})):
        await peer.send(type, conv, {"conversationId": conv, **body})
        await peer.error(102)
    for table in ("alicia_messages", "alicia_reasoning_steps", "alicia_audio", "alicia_server_log"):
        equal(rows(world, table, conversation_id=conv), [], table)
    await leave(peer)
