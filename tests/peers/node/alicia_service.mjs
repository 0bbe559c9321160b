// The socket, the codec, sync, feedback and memories, HTTP, and the lite profile (2, 4.15 to 4.23, 7, 8, Appendix A).

import { T, decode, encode, ensure, equal, fresh, joined, now, range, show, sleep } from "./alicia_wire.mjs";

const TV_17 = "84a87374616e7a614964fcae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6ba474797065cd03e7a4626f647980";
const TV_04 = "84a87374616e7a61496400ae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6ba47479706508a4626f647983ae636f6e766572736174696f6e4964b861635f303132333435363738396162636465666768696a6bb461636b6e6f776c65646765645374616e7a61496402a773756363657373c3";
const NEGATIVE = ["", "c0", "80", "81a47479706502", "82a47479706502a4626f6479c0", "82a474797065a3666f6fa4626f647980", `${TV_17}00`, TV_04.slice(0, -2), "dfffffffff"];
const bytes = (...parts) => Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "hex") : Buffer.from(part))));
const text = (value) => encode(value);
const double = (value) => {
  const raw = Buffer.alloc(9, 0xcb);
  raw.writeDoubleBE(value, 1);
  return raw;
};
const written = (localId, contents = "offline", sequenceNumber = 1, more = {}) => ({ localId, sequenceNumber, role: "user", contents, createdAt: "2026-01-01T00:00:00Z", ...more });

async function sync(peer, conv, ...messages) {
  peer.send(T.SYNC, conv, { messages });
  const answer = await peer.next(({ type }) => type === T.SYNCED || type === T.ERROR);
  equal(answer.type, T.SYNCED, `answer ${show(answer)}`);
  equal(answer.body.syncedMessages.map((one) => one.localId), messages.map((one) => one.localId), "AL-099: one result each");
  return answer.body.syncedMessages;
}

async function vote(peer, conv, target, word, more = {}) {
  const id = fresh("av");
  peer.send(T.VOTE, conv, { id, conversationId: conv, messageId: target, targetType: "message", targetId: target, vote: word, timestamp: now(), ...more });
  const { body } = await peer.expect(T.VOTED, conv, { feedbackId: more.id ?? id, targetId: target });
  return [body.aggregates.upvotes, body.aggregates.downvotes, body.aggregates.specialVotes?.critical ?? 0, body.userVote];
}

async function memorise(peer, action, id, memory = undefined) {
  peer.send(T.MEMORISE, "", { id, action, ...(memory ? { memory } : {}), timestamp: now() });
  return (await peer.expect(T.MEMORISED, "", { memoryId: id, action })).body.success;
}

/** Envelopes of the lite profile until one of this type. */
async function lite(peer, last) {
  const got = [];
  do {
    const value = await peer.next(() => true);
    ensure(!("stanzaId" in value), "a stanza in the lite profile", value);
    got.push([value.type, value.body]);
  } while (got.at(-1)[0] !== last);
  return got;
}

export const CHECKS = {
  async al_089_the_upgrade(world) {
    const refused = (who, options) => world.open(who, options).then((peer) => (peer.socket.close(), "let in"), (error) => error.message);
    equal(await refused(null), "status 401", "nobody");
    equal(await refused("nonsense"), "status 401", "a wrong key");
    equal(await refused(world.somebody(), { origin: "https://evil.test" }), "status 403", "a foreign page");
    equal(await refused(world.somebody()), "let in", "somebody");
  },

  async al_092_subscriptions(world) {
    const [peer, conv] = await world.met();
    const [first, second] = [await peer.turn(conv, "say one"), await peer.turn(conv, "say two")];
    const path = [first.user, first.answer, second.user, second.answer];
    const other = await world.open(peer.who);
    for (const after of [0, 2, 4]) {
      const ack = await other.subscribe(conv, true, { fromSequence: after });
      equal(ack.missedMessages, 4 - after, "missedMessages");
      const missed = [];
      for (const _ of range(4 - after)) missed.push(await other.upcoming(conv));
      equal(missed.map((e) => [e.stanza, e.type, e.body.id, e.body.sequenceNumber]), path.slice(after).map((id, n) => [0, n % 2 ? T.ASSISTANT : T.USER, id, after + n + 1]), "missed");
    }
    await other.unsubscribe(conv);
    await other.unsubscribe(conv);
    await peer.turn(conv, "say alone");
    await other.silent(conv, 200);
    await other.refused(other.say(conv, "say no")[1], 202);
    other.send(T.SUBSCRIBE, "", {});
    await other.expect(T.SUBSCRIBED, "", { success: false, error: "conversation_id_required" });
    await peer.leave();
    await other.leave();
  },

  async the_101st_subscription(world) {
    const peer = await world.open();
    const convs = await Promise.all(range(101).map(() => world.create(peer.who)));
    for (const conv of convs.slice(0, 100)) {
      if (peer.stanza > 50) await sleep(220);
      await peer.subscribe(conv);
    }
    await sleep(1000);
    equal((await peer.subscribe(convs[100], false)).error, "too_many_subscriptions", "the 101st");
    peer.socket.close();
  },

  async a_505_for_whoever_is_too_fast(world) {
    const peer = await world.open();
    for (const _ of range(400)) peer.send(T.UNSUBSCRIBE, "ac_none", { conversationId: "ac_none" });
    equal((await peer.error(505)).body.severity, 1, "severity");
    ensure(peer.code === undefined, "the connection stays");
    peer.socket.close();
  },

  async al_008_negative_vectors(world) {
    for (const vector of NEGATIVE) {
      const peer = await world.open();
      await peer.handshake();
      peer.bytes(bytes(vector));
      equal((await peer.error(101)).body.severity, 2, vector);
      await peer.leave();
    }
    const peer = await world.open();
    for (const _ of range(10)) peer.bytes(bytes("c0"));
    await peer.closed();
  },

  async al_011_unknown_types_and_text_frames(world) {
    const [peer, conv] = await world.met();
    peer.bytes(bytes(TV_17));
    for (const type of [19, 32, 39, 44, 99, 65535]) peer.send(type, conv, {});
    peer.socket.send("text");
    await peer.silent();
    for (const type of [T.ASSISTANT, T.REQUEST, T.TRANSCRIPTION, T.START, T.SENTENCE, T.SYNCED, T.STATS, T.SUBSCRIBED]) {
      peer.send(type, conv, { conversationId: conv });
      equal((await peer.error(102)).body.severity, 1, `AL-012: ${type}`);
    }
    await peer.leave();
  },

  async al_013_conversation_ids(world) {
    const [peer, conv] = await world.met();
    const other = (await peer.handshake()).conv;
    await peer.refused(peer.send(T.USER, conv, { id: fresh(), conversationId: other, content: "say no" }), 201);
    const id = fresh();
    await peer.ack(peer.send(T.USER, `conv_${conv}`, { id, conversationId: `conv_${conv}`, content: "say AL-014" }));
    equal((await peer.answer(conv, id)).text, "AL-014", "normalised");
    await peer.leave();
  },

  async al_003_bytes_of_other_encoders(world) {
    const [peer, conv] = await world.met();
    // A browser: map16, undefined as an extension, times as floats.
    let id = fresh();
    const head = (stanza, type) => [text("stanzaId"), stanza, text("conversationId"), text(conv), text("type"), type, text("body")];
    peer.bytes(bytes("de0004", ...head("02", "02"), "de0005", text("id"), text(id), text("conversationId"), text(conv), text("content"), text("say browser"), text("previousId"), "d40000", text("timestamp"), double(now())));
    await peer.ack(2);
    equal((await peer.answer(conv, id)).text, "browser", "answer");
    // Go: fixed widths (AL-002).
    id = fresh();
    peer.bytes(bytes("84", ...head("d200000003", "cd0002"), "83", text("id"), text(id), text("conversationId"), text(conv), text("content"), text("say go")));
    await peer.ack(3);
    equal((await peer.answer(conv, id)).text, "go", "answer");
    // A stanza beyond i32, as a float (AL-021): TV-21.
    peer.bytes(bytes("84", ...head("cb43191d2118810004", "1e"), "83", text("conversationId"), text(conv), text("eliteId"), text("pa_swift"), text("timestamp"), "cb4279b76daa800000"));
    equal((await peer.upcoming(conv)).type, T.ELITES, "processed, not acknowledged");
    // An array of envelopes.
    const ids = [fresh("an"), fresh("an")];
    peer.bytes(encode(ids.map((note, n) => ({ stanzaId: 10 + n, conversationId: conv, type: T.NOTE, body: { id: note, messageId: id, content: "n", category: "general", action: "create", timestamp: now() } }))));
    for (const note of ids) await peer.expect(T.NOTED, undefined, { noteId: note, success: true });
    peer.stanza = 20;
    await peer.leave();
  },

  async al_100_sync(world) {
    const [peer, other, conv] = await world.pair();
    const [one, two, three] = await sync(peer, conv, written("local_1"), written("local_2", "two", 2, { previousId: "local_1" }), written("local_3", "x", 3, { previousId: fresh() }));
    equal([one.status, two.status, two.message.previousId, three.status, three.conflict.reason], ["synced", "synced", one.serverId, "conflict", "Previous message not found"], "results");
    equal([(await other.upcoming(conv)).body.id, (await other.upcoming(conv)).body.id], [one.serverId, two.serverId], "others are told");
    const [again, clash] = await sync(peer, conv, written("local_1"), written("local_2", "other"));
    equal([again.serverId, clash.status, clash.conflict.reason, clash.conflict.resolution], [one.serverId, "conflict", "Content mismatch with existing message", "manual"], "again");
    equal(await world.path(peer.who, conv), [one.serverId, two.serverId], "stored once");
    const batch = range(30).map((n) => written(`many_${n}`, `m${n}`, n + 3));
    const [mine, theirs] = await Promise.all([sync(peer, conv, ...batch), sync(other, conv, ...batch)]);
    equal(mine.map((r) => r.serverId), theirs.map((r) => r.serverId), "applied once");
    equal((await world.path(peer.who, conv)).length, 32, "applied once");
    peer.inbox.length = 0;
    equal((await peer.handshake(conv)).head, 0, "AL-101: no answer");
    await peer.leave();
    await other.leave();
  },

  async al_082_feedback_and_notes(world) {
    const [peer, conv] = await world.met();
    const { answer } = await peer.turn(conv, "say one");
    equal(await vote(peer, conv, answer, "up"), [1, 0, 0, "up"], "up");
    equal(await vote(peer, conv, answer, "critical"), [0, 0, 1, "critical"], "AL-083");
    equal(await vote(peer, conv, answer, "remove"), [0, 0, 0, ""], "remove");
    for (const [more, code] of [[{ vote: "meh" }, 105], [{ targetType: "meh" }, 105], [{ targetId: fresh(), messageId: fresh() }, 203]]) {
      const id = fresh("av");
      peer.send(T.VOTE, conv, { id, conversationId: conv, messageId: answer, targetType: "message", targetId: answer, vote: "up", timestamp: now(), ...more });
      await peer.error(code, true, id);
    }
    const id = fresh("an");
    for (const [action, success] of [["create", true], ["update", true], ["delete", true], ["update", false]]) {
      peer.send(T.NOTE, "", { id, messageId: answer, content: "n", category: "general", action, timestamp: now() });
      await peer.expect(T.NOTED, undefined, { noteId: id, messageId: answer, success });
    }
    const stanza = peer.send(T.COMMENTARY, conv, { id: fresh("aucc"), messageId: answer, conversationId: conv, content: "well" });
    await peer.ack(stanza);
    await peer.silent(undefined, 200);
    await peer.leave();
  },

  async al_053_memories(world) {
    const [peer, conv] = await world.met();
    const [id, content] = [fresh("amem"), "my favourite tea is oolong from Taiwan"];
    equal(await memorise(peer, "create", id, { content: "tea", category: "preference" }), true, "create");
    equal(await memorise(peer, "update", id, { content, category: "preference" }), true, "update");
    equal(await memorise(peer, "pin", id), true, "pin");
    const turn = await peer.turn(conv, `say ${content}`);
    const [trace] = turn.of(T.MEMORY);
    ensure(trace, "no trace", turn.entries);
    equal([trace.body.memoryId, trace.body.messageId, trace.body.content], [id, turn.user, content], "trace");
    equal(await memorise(peer, "archive", id), true, "archive");
    equal((await peer.turn(conv, `say ${content}`)).of(T.MEMORY), [], "archived");
    equal(await memorise(peer, "delete", id), true, "delete");
    equal(await memorise(peer, "pin", fresh("amem")), false, "unknown");
    await peer.leave();
  },

  async al_086_weights_and_elites(world) {
    const [peer, conv] = await world.met();
    const weights = { successRate: 0, quality: 0, efficiency: 1, robustness: 0, generalization: 0, diversity: 0, innovation: 0 };
    await peer.ack(peer.send(T.WEIGHTS, conv, { conversationId: conv, weights, timestamp: now() }));
    const { elites } = (await peer.expect(T.ELITES, conv)).body;
    const scores = elites.map((elite) => elite.scores.efficiency);
    equal([elites.length, scores], [3, [...scores].sort((a, b) => b - a)], "best first");
    await peer.refused(peer.send(T.WEIGHTS, conv, { conversationId: conv, weights: { ...weights, quality: NaN }, timestamp: now() }), 105);
    await peer.ack(peer.send(T.ELITE, conv, { conversationId: conv, eliteId: "pa_sound", timestamp: now() }));
    await peer.expect(T.ELITES, conv, { currentEliteId: "pa_sound" });
    await peer.refused(peer.send(T.ELITE, conv, { conversationId: conv, eliteId: "pa_none", timestamp: now() }), 203);
    await peer.leave();
  },

  async http_endpoints(world) {
    const [peer, conv] = await world.met();
    const made = await world.http("POST", "/conversations", peer.who, { json: { title: "Tea" } });
    equal([made.title, made.status, /^ac_/.test(made.id)], ["Tea", "active", true], "made");
    const ids = (await world.list("/conversations", peer.who, "conversations")).map((row) => row.id);
    equal(ids.sort(), [conv, made.id].sort(), "listed");
    await world.http("POST", `/conversations/${conv}/messages`, peer.who, { json: { contents: "say by post" } });
    const announced = await peer.expect(T.USER, conv);
    const turn = await peer.answer(conv, announced.body.id);
    equal([turn.text, await world.path(peer.who, conv)], ["by post", [announced.body.id, turn.answer]], "answered on the socket");
    const packed = await world.http("POST", `/conversations/${conv}/sync`, peer.who, { body: encode({ messages: [written("local_1", "packed")] }), headers: { "Content-Type": "application/msgpack", Accept: "application/msgpack" } });
    const [{ serverId, status }] = decode(packed).syncedMessages;
    equal(status, "synced", "MessagePack");
    const json = await world.http("POST", `/conversations/${conv}/sync`, peer.who, { json: { messages: [{ local_id: "local_1", sequence_number: 1, role: "user", contents: "packed", created_at: "2026-01-01T00:00:00Z" }] } });
    equal(json.synced_messages[0].server_id, serverId, "JSON");
    const state = await world.http("GET", `/conversations/${conv}/sync/status`, peer.who);
    equal([state.conversation_id, state.pending_count, state.conflict_count], [conv, 0, 0], "sync/status");
    await world.http("POST", `/conversations/${conv}/token`, peer.who, { json: { participant_id: "user_1" }, status: 501 });
    equal((await world.http("GET", "/config", peer.who)).asr_enabled, false, "config");
    await world.http("GET", `/conversations/${conv}`, world.somebody(), { status: 404 });
    await world.http("GET", "/conversations", undefined, { status: 401 });
    await peer.leave();
  },

  async al_088_session_stats(world) {
    const began = Date.now();
    const [peer, conv] = await world.met();
    await sleep(1200);
    const [{ body }] = (await peer.turn(conv, "say one")).of(T.STATS);
    ensure(body.sessionDuration >= 1000 && body.sessionDuration <= Date.now() - began + 1000, "sessionDuration", body);
    equal([body.messageCount, body.toolCallCount, body.memoriesUsed], [2, 0, 0], "counts");
    await peer.leave();
  },

  async al_108_the_lite_profile(world) {
    const who = world.somebody();
    const conv = await world.create(who);
    const peer = Object.assign(await world.open(who), { raw: true });
    const send = (type, body) => peer.socket.send(encode({ conversationId: conv, type, body: { conversationId: conv, ...body } }));
    peer.bytes(bytes("83ae636f6e766572736174696f6e4964ba636f6e765f303132333435363738396162636465666768696a6ba47479706528a4626f647981ae636f6e766572736174696f6e4964ba636f6e765f303132333435363738396162636465666768696a6b"));
    equal((await lite(peer, T.SUBSCRIBED))[0][1].success, false, "TV-20");
    send(T.SUBSCRIBE, {});
    equal((await lite(peer, T.SUBSCRIBED))[0][1].success, true, "subscribe");
    send(T.USER, { content: "sentences 3" });
    const got = await lite(peer, 80);
    const [[, user], [, start]] = got;
    const sentences = got.filter(([type]) => type === T.SENTENCE).map(([, body]) => body);
    const [[last, whole], [, done]] = got.slice(-2);
    equal([got[0][0], got[1][0], last, user.role], [T.USER, T.START, T.ASSISTANT, "user"], "order");
    equal([start.previousId, whole.id, done.messageId, done.success], [user.id, start.messageId, start.messageId, true], "ids");
    equal([whole.content, sentences.every((body) => body.messageId === start.messageId)], [joined(sentences.map((body) => body.text)), true], "text");
    peer.socket.close();
  },
};

