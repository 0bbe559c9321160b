// Turns, tools, stops, variations, resumption and several devices (sections 4 to 6).

import { PATIENCE, STREAMING, T, ensure, equal, fresh, hex, joined, range, sleep } from "./alicia_wire.mjs";

const CLOCK = [...STREAMING, "tool:clock"];
const counted = (count) => range(count).map((n) => `This is sentence ${n + 1}.`).join(" ");

async function vary(peer, conv, targetId, mode, more = {}) {
  const stanza = peer.send(T.VARIATION, conv, { conversationId: conv, targetId, mode, ...more });
  const first = await peer.upcoming(conv);
  equal([first.type, first.body.acknowledgedStanzaId, first.body.success], [T.ACK, stanza, true], "the acknowledgement comes first");
}

async function asked(peer, conv, content = "client clock") {
  const [id, stanza] = peer.say(conv, content);
  await peer.ack(stanza);
  return [id, await peer.expect(T.REQUEST, conv, { execution: "client" })];
}

const resultOf = ({ conv, body }, more) => ({ id: `${body.id}_result`, requestId: body.id, conversationId: conv, ...more });

export const CHECKS = {
  async al_041_a_streamed_turn(world) {
    const [peer, conv] = await world.met();
    const turn = await peer.turn(conv, "sentences 3");
    const sentences = turn.of(T.SENTENCE);
    equal([turn.types[0], turn.types.at(-1), new Set(turn.types.slice(1, -1)).size], [T.START, T.STATS, 1], "order");
    equal(turn.entries.slice(0, -1).map((e) => e.stanza), range(turn.entries.length - 1).map((n) => -n - 1), "stanzas from −1");
    equal(sentences.map((e) => e.final), sentences.map((_, n) => n === sentences.length - 1), "exactly one final");
    equal([turn.of(T.START)[0].body.previousId, turn.text.trim()], [turn.user, counted(3)], "answer");
    const rows = await world.messages(peer.who, conv);
    equal(rows.map((row) => [row.id, row.contents.trim()]), [[turn.user, "sentences 3"], [turn.answer, counted(3)]], "stored");
    await peer.leave();
  },

  async al_049_a_turn_without_streaming(world) {
    const [peer, conv] = await world.met([]);
    const turn = await peer.turn(conv, "sentences 3");
    equal(turn.types, [T.ASSISTANT, T.STATS], "what came");
    const { stanza, body } = turn.of(T.ASSISTANT)[0];
    equal([stanza, body.previousId, body.contents, body.role, body.sequenceNumber], [-1, turn.user, body.content, "assistant", 2], "message");
    await peer.leave();
  },

  async al_043_duplicates(world) {
    const [peer, conv] = await world.met();
    const { user, answer } = await peer.turn(conv, "say once");
    await peer.ack(peer.say(conv, "say once", { id: user })[1]);
    await peer.silent(conv);
    await peer.refused(peer.say(conv, "say twice", { id: user })[1], 202, user);
    await peer.ack(peer.say(conv, "say once", { id: user, stanza: 2 })[1]);
    const [unknown] = peer.say(conv, "say other", { stanza: 2 });
    await peer.error(103, true, unknown);
    equal(await world.path(peer.who, conv), [user, answer], "path");
    await peer.leave();
  },

  async al_045_what_cannot_be_a_message(world) {
    const [peer, conv] = await world.met();
    for (const [content, more, code] of [["", {}, 105], ["  ", {}, 105], ["say hi", { previousId: fresh() }, 203]]) {
      const [id, stanza] = peer.say(conv, content, more);
      await peer.refused(stanza, code, id);
    }
    equal(await world.path(peer.who, conv), [], "nothing is stored");
    await peer.leave();
  },

  async al_050_text_is_cut_and_joined(world) {
    const [peer, conv] = await world.met();
    for (const text of ["Olá! 你好。很好！ 3.5 is a number. End", "One.\n\nTwo.\n- three\n- four", "One.  Two spaces.\tA tab. 🌍 done."]) {
      const turn = await peer.turn(conv, `say ${text}`);
      equal(turn.text, text, "joined");
      equal((await world.messages(peer.who, conv)).at(-1).contents, text, "stored");
    }
    await peer.leave();
  },

  async al_052_failures(world) {
    const [peer, conv] = await world.met();
    const turn = await peer.turn(conv, "fail after 2");
    const [error] = turn.of(T.ERROR);
    equal(turn.types.slice(-3), [T.SENTENCE, T.ERROR, T.STATS], "order");
    equal([turn.of(T.SENTENCE).at(-1).body.text, error.body.originatingId, error.body.recoverable], ["", turn.answer, true], "end");
    ensure([501, 502].includes(error.body.code) && error.stanza < 0, "error", error);
    await peer.leave();
  },

  async al_054_reasoning(world) {
    const [peer, conv] = await world.met();
    const turn = await peer.turn(conv, "think 3");
    const steps = turn.of(T.REASONING);
    equal(steps.map((e) => [e.body.sequence, e.body.messageId]), steps.map((_, n) => [n + 1, turn.answer]), "steps");
    ensure(steps.length > 0 && turn.text === "Thought it over.", "answer", turn.entries);
    await peer.leave();
  },

  async al_061_server_tools(world) {
    const [peer, conv] = await world.met();
    const turn = await peer.turn(conv, "tool weather");
    const [[request], [result]] = [turn.of(T.REQUEST), turn.of(T.RESULT)];
    equal([request.body.toolName, request.body.execution, request.body.messageId], ["weather", "server", turn.answer], "request");
    equal([request.body.parameters.q, request.body.parameters.n], ["weather", 3], "parameters");
    equal([result.body.requestId, result.body.success, result.body.result.degrees], [request.body.id, true, 21.5], "result");
    equal(turn.of(T.STATS)[0].body.toolCallCount, 1, "toolCallCount");
    const failed = await peer.turn(conv, "tool-error weather no sky");
    equal([failed.of(T.RESULT)[0].body.success, failed.of(T.RESULT)[0].body.errorCode, failed.of(T.ERROR)], [false, "execution_error", []], "failure");
    await peer.leave();
  },

  async al_062_client_tools(world) {
    const [peer, conv] = await world.met(CLOCK);
    let [id, request] = await asked(peer, conv, 'client clock {"tz":"UTC"}');
    equal([request.body.toolName, request.body.parameters], ["clock", { tz: "UTC" }], "request");
    await peer.ack(peer.send(T.RESULT, conv, resultOf(request, { success: true, result: "noon" })));
    ensure((await peer.answer(conv, id)).text.includes("You answered noon."), "result");
    for (const [errorCode, named] of [["execution_error", "execution_error"], ["unknown_tool", "unknown_tool"], ["TOOL_ERROR", "execution_error"]]) {
      [id, request] = await asked(peer, conv);
      await peer.ack(peer.send(T.RESULT, conv, resultOf(request, { success: false, errorCode, errorMessage: "because" })));
      const turn = await peer.answer(conv, id);
      ensure(turn.text.includes(`It ended as failed with ${named}.`) && !turn.of(T.ERROR).length, errorCode, turn.text);
    }
    // The first result wins; nobody asked for the last.
    [id, request] = await asked(peer, conv);
    await peer.ack(peer.send(T.RESULT, conv, { id: request.body.id, success: true, result: "first" }));
    await peer.ack(peer.send(T.RESULT, conv, resultOf(request, { success: true, result: "second" })));
    ensure((await peer.answer(conv, id)).text.includes("You answered first."), "the first wins");
    await peer.refused(peer.send(T.RESULT, conv, { id: fresh("atu"), success: true }), 203);
    await peer.leave();
  },

  async al_065_a_client_tool_times_out(world) {
    const [peer, conv] = await world.met(CLOCK);
    const [id, request] = await asked(peer, conv, "client clock within 3000");
    await peer.expect(T.RESULT, conv, { requestId: request.body.id, success: false, errorCode: "timeout" });
    ensure((await peer.answer(conv, id)).text.includes("It ended as timed_out"), "the turn goes on");
    await peer.ack(peer.send(T.RESULT, conv, resultOf(request, { success: true, result: 1 })));
    await peer.silent(conv);
    await peer.leave();
  },

  async al_072_stop_in_the_middle(world) {
    const [peer, conv] = await world.met();
    const [, answer] = await peer.streaming(conv);
    await peer.refused(peer.send(T.STOP, conv, { conversationId: conv, stopType: "all of it" }), 101);
    await peer.ack(peer.send(T.STOP, conv, { conversationId: conv, targetId: fresh() }), false);
    await peer.ack(peer.send(T.STOP, conv, { conversationId: conv, targetId: answer, reason: "user_clicked_stop" }));
    await peer.finish(conv, answer);
    await peer.expect(T.STATS, conv);
    peer.inbox.length = 0;
    await peer.ack(peer.send(T.STOP, conv, { conversationId: conv, targetId: answer }));
    await peer.silent(conv);
    const kept = joined(peer.known(conv).answers.get(answer).pieces);
    equal((await world.messages(peer.who, conv)).at(-1).contents.trim(), kept.trim(), "what is kept");
    await peer.leave();
  },

  async al_070_stop_during_a_tool(world) {
    const [peer, conv] = await world.met(CLOCK);
    const [id, request] = await asked(peer, conv);
    await peer.ack(peer.send(T.STOP, conv, { conversationId: conv }));
    const [result] = (await peer.answer(conv, id)).of(T.RESULT);
    equal([result.body.requestId, result.body.success, result.body.errorCode], [request.body.id, false, "cancelled"], "result");
    await peer.leave();
  },

  async al_051_supersede(world) {
    const [peer, conv] = await world.met();
    const [, answer] = await peer.streaming(conv);
    const [id, stanza] = peer.say(conv, "say second");
    await peer.ack(stanza);
    const start = await peer.expect(T.START, conv, { previousId: id });
    ensure(peer.known(conv).answers.get(answer).final, "the first has no end");
    await peer.finish(conv, start.body.id);
    await peer.leave();
  },

  async al_075_regenerate_and_retry(world) {
    const [peer, conv] = await world.met();
    const first = await peer.turn(conv, "say one");
    const answers = [first.answer];
    for (const [target, mode] of [[first.user, "regenerate"], [first.answer, "regenerate"], [first.answer, "retry"]]) {
      await vary(peer, conv, target, mode);
      const turn = await peer.answer(conv);
      equal([turn.of(T.START)[0].body.previousId, turn.of(T.USER)], [first.user, []], "answered again");
      answers.push(turn.answer);
      equal(await world.path(peer.who, conv), [first.user, turn.answer], "the active path");
    }
    equal(await world.siblings(peer.who, first.answer), answers.sort(), "siblings");
    await peer.leave();
  },

  async al_076_edit_with_new_content(world) {
    const [peer, other, conv] = await world.pair();
    const first = await peer.turn(conv, "say one");
    await other.answer(conv);
    await vary(peer, conv, first.user, "edit", { newContent: "say two" });
    const turn = await peer.answer(conv);
    const [announced] = turn.of(T.USER);
    equal([turn.types[0], announced.body.content, announced.body.sequenceNumber, turn.text], [T.USER, "say two", 1, "two"], "edit");
    equal((await other.expect(T.USER, conv)).raw.toString("hex"), announced.raw.toString("hex"), "for everybody");
    equal(await world.path(peer.who, conv), [announced.body.id, turn.answer], "the active path");
    await peer.leave();
    await other.leave();
  },

  async al_077_edit_with_a_follow_up(world) {
    const [peer, conv] = await world.met();
    const first = await peer.turn(conv, "say one");
    await vary(peer, conv, first.user, "edit");
    const turn = await peer.turn(conv, "say two", { previousId: first.user });
    equal(await world.path(peer.who, conv), [turn.user, turn.answer], "a sibling");
    await vary(peer, conv, turn.user, "edit");
    await peer.error(202);
    const late = await peer.turn(conv, "say late");
    equal(await world.path(peer.who, conv), [turn.user, turn.answer, late.user, late.answer], "too late");
    await peer.leave();
  },

  async al_078_edit_of_an_answer_and_continue(world) {
    const [peer, conv] = await world.met();
    const first = await peer.turn(conv, "say one");
    await vary(peer, conv, first.answer, "edit", { newContent: "Better." });
    const edited = await peer.expect(T.ASSISTANT, conv, { id: first.answer, content: "Better." });
    ensure(edited.stanza < 0, "sequenced", edited);
    await vary(peer, conv, first.answer, "continue");
    const turn = await peer.answer(conv);
    equal(turn.of(T.START)[0].body.previousId, first.answer, "AL-079: a child of the target");
    equal(await world.path(peer.who, conv), [first.user, first.answer, turn.answer], "the active path");
    for (const [body, code] of [[{ targetId: first.user, mode: "continue" }, 202], [{ targetId: fresh(), mode: "retry" }, 203], [{ targetId: first.user }, 101]]) {
      await peer.refused(peer.send(T.VARIATION, conv, { conversationId: conv, ...body }), code);
    }
    await peer.leave();
  },

  async al_080_branches(world) {
    const [peer, conv] = await world.met();
    const [first, second] = [await peer.turn(conv, "say one"), await peer.turn(conv, "say two")];
    const branch = await peer.turn(conv, "say three", { previousId: first.answer });
    equal(await world.path(peer.who, conv), [first.user, first.answer, branch.user, branch.answer], "the branch");
    await world.http("POST", `/conversations/${conv}/switch-branch`, peer.who, { json: { tip_message_id: second.answer } });
    equal(await world.path(peer.who, conv), [first.user, first.answer, second.user, second.answer], "and back");
    await peer.leave();
  },

  async al_024_cut_and_resume(world) {
    const [peer, other, conv] = await world.pair();
    const [, answer] = await peer.streaming(conv, "sentences 40 every 50", 5);
    const mark = peer.known(conv).head;
    peer.cut();
    const back = await world.open(peer.who, { memory: peer.memory });
    await back.handshake(conv, mark);
    await back.ended(conv, answer);
    await other.ended(conv, answer);
    await other.barrier();
    const { entries: live, head } = other.known(conv);
    equal([...back.known(conv).entries.keys()].sort((a, b) => b - a), [...live.keys()], "every stanza");
    for (const seen of [mark, -mark, -1, 1, head + 1, head, -head]) {
      const again = await world.open(peer.who);
      const handshake = await again.handshake(conv, seen);
      const wanted = [...live.values()].filter((e) => e.stanza < -Math.abs(seen));
      equal(hex(handshake.replay.filter((e) => e.stanza)), hex(wanted), `replay from ${seen}`);
      await again.leave();
    }
    const zero = await world.open(peer.who);
    const { replay, head: told } = await zero.handshake(conv, 0);
    equal([replay, told], [[], head], "AL-028: nothing from 0");
    const ahead = await world.open(peer.who);
    ahead.configure(conv, head - 3);
    await ahead.expect(T.CONFIGURATION, conv, { lastSequenceSeen: head });
    await ahead.error(202, true);
    for (const one of [back, other, zero, ahead]) await one.leave();
  },

  async al_029_a_gap_that_is_too_large(world) {
    const [peer, conv] = await world.met();
    await peer.turn(conv, "sentences 1100");
    const back = await world.open(peer.who);
    back.configure(conv, -1);
    await back.error(202, false);
    await peer.leave();
    await back.leave();
  },

  async al_030_unknown_foreign_deleted_archived(world) {
    const peer = await world.open();
    const [foreign, deleted, archived] = [await world.create(world.somebody()), await world.create(peer.who), await world.create(peer.who)];
    await world.http("DELETE", `/conversations/${deleted}`, peer.who);
    await world.http("PATCH", `/conversations/${archived}`, peer.who, { json: { status: "archived" } });
    const wordings = new Set();
    for (const conv of [foreign, deleted, fresh("ac")]) {
      peer.configure(conv, 0);
      wordings.add((await peer.error(201, false)).body.message.replace(conv, "…"));
      equal((await peer.subscribe(conv, false)).error, "not_found", "AL-091");
    }
    equal(wordings.size, 1, "one wording");
    peer.configure(archived, 0);
    await peer.error(202, false);
    equal((await peer.subscribe(archived, false)).error, "inactive", "archived");
    await peer.leave();
  },

  async al_109_other_devices(world) {
    const [peer, other, conv] = await world.pair();
    const turn = await peer.turn(conv, "say one");
    equal(turn.of(T.USER), [], "AL-110: not to the sender");
    const announced = await other.upcoming(conv);
    equal([announced.type, announced.stanza, announced.body.id, announced.body.contents], [T.USER, 0, turn.user, "say one"], "announcement");
    equal(hex((await other.answer(conv)).of(T.START, T.SENTENCE)), hex(turn.of(T.START, T.SENTENCE)), "the same bytes");
    const second = await peer.turn(conv, "say two");
    const back = await world.open(peer.who);
    const { replay } = await back.handshake(conv, turn.of(T.SENTENCE).at(-1).stanza);
    equal([replay[0].type, replay[0].body.id], [T.USER, second.user], "again in place on replay");
    for (const one of [peer, other, back]) await one.leave();
  },

  async al_035_nobody_is_there(world) {
    const [peer, conv] = await world.met();
    const [, answer] = await peer.streaming(conv, "sentences 30 every 30", 1);
    const mark = peer.known(conv).head;
    peer.cut();
    const end = Date.now() + PATIENCE;
    while (!(await world.messages(peer.who, conv)).find((row) => row.id === answer)?.contents.includes("sentence 30.")) {
      ensure(Date.now() < end, "the answer never ends");
      await sleep(200);
    }
    const back = await world.open(peer.who, { memory: peer.memory });
    ensure((await back.handshake(conv, mark)).replay.at(-1).final, "the final sentence is replayed");
    await back.leave();
  },
};
