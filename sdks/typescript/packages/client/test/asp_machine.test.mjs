/** The machine alone, with a clock in the hand: what the transcripts of a server cannot show. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodePayload, encodeFrame, END, ERROR, HELLO, INTERRUPT, INVOKE, MORE, readFrames, STREAM, TOOL_DEF } from "../dist/asp/codec.js";
import { AspMachine, STANDARD } from "../dist/asp/machine.js";
import { encodeUtf8 } from "../dist/wire/utf8.js";

const CID = "7f8a0000000000000000000000000001";

class Peer {
  now = 1_000_000;

  constructor(config = {}) {
    this.machine = new AspMachine({ features: [...STANDARD], random: () => 0.5, ...config });
  }

  static up(config) {
    const peer = new Peer(config);
    peer.dial();
    peer.accept();
    return peer;
  }

  dial() {
    this.machine.connect();
    this.drain();
    return this.input({ type: "opened" });
  }

  drain() {
    const outputs = [];
    for (let output = this.machine.poll(); output; output = this.machine.poll()) outputs.push(output);
    return outputs;
  }

  input(input) {
    this.machine.handle(input, this.now);
    return this.drain();
  }

  frame(opcode, id, value, flags = 0) {
    return this.input({ type: "message", data: encodeFrame(opcode, flags, id, value === undefined ? new Uint8Array() : encodeUtf8(typeof value === "string" ? value : JSON.stringify(value))) });
  }

  accept(more = {}) {
    return this.frame(HELLO, 0, { op: "accept", ver: 1, cid: CID, features: [...STANDARD], enc: "json", resume: { token: "tok-1", window_s: 60 }, ...more });
  }

  chat(text, more = {}) {
    return this.machine.invoke({ kind: "chat", input: text, ...more }, this.now);
  }

  pass(ms) {
    const outputs = [];
    const end = this.now + ms;
    for (let wake = this.machine.wake(); wake !== undefined && wake <= end; wake = this.machine.wake()) {
      this.now = Math.max(this.now, wake);
      const step = this.input({ type: "timeout" });
      assert.ok(step.length > 0 || this.machine.wake() !== wake, "wakes for nothing");
      outputs.push(...step);
    }
    this.now = end;
    return outputs;
  }

  redial() {
    while (this.machine.link !== "dialing") {
      this.now = this.machine.wake();
      this.input({ type: "timeout" });
    }
    return hello(this.input({ type: "opened" }));
  }
}

const events = (outputs, type) => outputs.filter((output) => output.type === "event" && (!type || output.event.type === type)).map(({ event }) => event);
const sent = (outputs) => outputs.filter(({ type }) => type === "send").flatMap(({ data }) => [...readFrames(data)]).map(({ opcode, id, flags, payload }) => ({ opcode, id, flags, map: decodePayload(opcode, flags, true, payload).value }));
const hello = (outputs) => sent(outputs).find(({ opcode }) => opcode === HELLO)?.map;
const text = (n, d) => ({ t: "text", n, d });

test("a lost connection is resumed from the next index, with the token of the last accept", () => {
  const peer = Peer.up();
  const [a, b] = [peer.chat("a"), peer.chat("b")];
  peer.drain();
  for (let n = 0; n <= 16; n += 1) peer.frame(STREAM, a, text(n, "x"));
  peer.input({ type: "closed", code: 1006 });
  assert.equal(peer.machine.state(a), "suspended");
  assert.deepEqual(peer.redial().resume, { cid: CID, token: "tok-1", next: { [a]: 17, [b]: 0 } });
  peer.accept({ resumed: true, resume: { token: "tok-2", window_s: 60 } });
  assert.deepEqual(events(peer.frame(STREAM, a, text(16, "seen"))), []);
  assert.deepEqual(events(peer.frame(STREAM, a, text(17, "new")), "record").map(({ record }) => record.d), ["new"]);
  peer.input({ type: "closed", code: 1012 });
  assert.deepEqual(peer.redial().resume.token, "tok-2");
});

test("what is lost ends, or is asked for again with its key and told from the start", () => {
  const peer = Peer.up();
  const gone = peer.chat("a");
  const again = peer.chat("b", { idem: "key" });
  peer.drain();
  peer.frame(STREAM, again, text(0, "old"));
  peer.input({ type: "closed", code: 1006 });
  peer.redial();
  const outputs = peer.accept({ resumed: true, lost: [gone, again] });
  assert.deepEqual(events(outputs, "ended"), [{ type: "ended", id: gone, ending: { type: "lost", loss: "replay" } }]);
  assert.deepEqual(sent(outputs).map(({ opcode, id, map }) => [opcode, id, map.idem]), [[INVOKE, again, "key"]]);
  // The ERROR about the loss is not about the new execution; a second one would be.
  const error = { code: 2601, name: "REPLAY_GONE", msg: "", retry: false };
  assert.deepEqual(peer.frame(ERROR, again, error), []);
  assert.deepEqual(events(peer.frame(STREAM, again, text(0, "new"))).map(({ type }) => type), ["restarted", "record"]);
  assert.equal(events(peer.frame(ERROR, again, error), "ended").length, 1);
});

test("when the window has passed, what has a key is asked for on a fresh connection", () => {
  const peer = Peer.up();
  const [gone, again] = [peer.chat("a"), peer.chat("b", { idem: "key" })];
  peer.drain();
  peer.input({ type: "closed", code: 1006 });
  const outputs = [];
  for (const end = peer.now + 60_000; peer.now < end; ) {
    const step = peer.pass(Math.min(end - peer.now, Math.max(1, peer.machine.wake() - peer.now)));
    outputs.push(...step);
    if (step.some(({ type }) => type === "connect")) peer.input({ type: "unreachable" });
  }
  assert.deepEqual(events(outputs, "ended").map(({ id, ending }) => [id, ending.loss]), [[gone, "expired"]]);
  assert.equal(peer.redial().resume, undefined);
  assert.deepEqual(sent(peer.accept()).map(({ id }) => id), [again]);
});

test("full jitter: pauses are a random part of a bound that doubles", () => {
  for (const [part, least, most] of [[0, 0, 0], [0.999, 400, 30_000]]) {
    const peer = new Peer({ random: () => part });
    peer.machine.connect();
    peer.drain();
    const pauses = [];
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const [{ retryAt }] = events(peer.input({ type: "unreachable" }), "disconnected");
      pauses.push(retryAt - peer.now);
      peer.pass(retryAt - peer.now);
    }
    assert.ok(pauses.every((pause) => pause >= least && pause <= most), pauses.join());
    if (part > 0) assert.ok(pauses[1] > pauses[0] * 1.9 && pauses.at(-1) > 29_000);
  }
});

test("Retry-After wins, refusals for good end it, and a credential that ran out is asked for anew where that can be", () => {
  const refuse = (status, more = {}, config = {}) => {
    const peer = new Peer(config);
    peer.machine.connect();
    peer.drain();
    return { peer, outputs: peer.input({ type: "refused", status, ...more }) };
  };
  assert.equal(events(refuse(429, { retryAfterMs: 7000 }).outputs, "disconnected")[0].retryAt, 1_007_000);
  assert.equal(events(refuse(503).outputs, "disconnected").length, 1);
  for (const status of [400, 401, 403, 404]) assert.equal(events(refuse(status).outputs, "off").length, 1, String(status));
  const { peer, outputs } = refuse(401, {}, { renewable: true });
  assert.equal(events(outputs, "disconnected").length, 1);
  for (let tries = 0; tries < 2; tries += 1) {
    peer.pass(1000);
    peer.input({ type: "refused", status: 401 });
  }
  assert.equal(peer.machine.link, "off", "a token that is refused again and again is the end");
});

test("close codes: some are come back from, others end everything", () => {
  for (const code of [1001, 1006, 1012, 1013, 4408, 4500]) {
    const peer = Peer.up();
    peer.chat("a");
    peer.input({ type: "closed", code });
    assert.equal(peer.machine.link, "waiting", String(code));
  }
  for (const code of [1000, 1003, 1008, 1009, 4400, 4401, 4403, 4406, 4409, 4429]) {
    const peer = Peer.up();
    const id = peer.chat("a");
    peer.drain();
    const outputs = peer.input({ type: "closed", code });
    assert.equal(peer.machine.link, "off", String(code));
    assert.deepEqual(events(outputs, "ended").map(({ id, ending }) => [id, ending.loss]), [[id, "closed"]]);
  }
  const renewable = Peer.up({ renewable: true });
  renewable.input({ type: "closed", code: 4401 });
  assert.equal(renewable.machine.link, "waiting", "a token that ran out while the tab slept");
});

test("half frames, text, other versions, frames too large end the connection with their code", () => {
  const cases = [
    [{ type: "message", data: "text" }, 1003],
    [{ type: "message", data: new Uint8Array([0x13, 0, 0]) }, 4400],
    [{ type: "message", data: new Uint8Array([0x23, 0, 0, 1, 0, 0, 0, 0]) }, 4406],
    [{ type: "message", data: new Uint8Array([0x13, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]) }, 1009],
  ];
  for (const [input, code] of cases) {
    const peer = Peer.up();
    const outputs = peer.input(input);
    assert.deepEqual(outputs.filter(({ type }) => type === "close"), [{ type: "close", code }]);
    assert.equal(events(outputs, "off")[0].cause.type, "violation");
  }
});

test("a server that says nothing to HELLO is bare after ten seconds, and one that pongs nothing is dead", () => {
  const quiet = new Peer();
  quiet.dial();
  assert.deepEqual(events(quiet.pass(9_999)), []);
  assert.deepEqual(events(quiet.pass(1)).map(({ type }) => type), ["bare"]);
  const id = quiet.chat("hi");
  quiet.drain();
  assert.equal(events(quiet.frame(STREAM, id, '{"t":"text","d":"x"}'), "record")[0].record.d, '{"t":"text","d":"x"}', "a bare delta is text, whatever it looks like");
  assert.equal(events(quiet.frame(STREAM, id, undefined), "ended").length, 1, "an empty STREAM is terminal");

  const dead = Peer.up();
  const pings = sent(dead.pass(30_000));
  assert.deepEqual(pings.map(({ map }) => map.op), ["ping"]);
  const outputs = dead.pass(45_000);
  assert.deepEqual(outputs.filter(({ type }) => type === "close"), [{ type: "close", code: 4408 }]);
  assert.equal(events(outputs, "disconnected")[0].cause.type, "silent");
});

test("after a sleep the connection has five seconds to show that it is there", () => {
  const peer = Peer.up();
  assert.deepEqual(sent(peer.input({ type: "woken" })).map(({ map }) => map.op), ["ping"]);
  peer.frame(HELLO, 0, { op: "pong", nonce: "wake" });
  assert.deepEqual(peer.pass(10_000), []);
  peer.input({ type: "woken" });
  assert.equal(events(peer.pass(5_000), "disconnected")[0].cause.type, "silent");
  const waiting = Peer.up();
  waiting.input({ type: "closed", code: 1006 });
  assert.deepEqual(waiting.input({ type: "woken" }).map(({ type }) => type), ["connect"], "at once, not after the pause");
});

test("credit goes back at half of the window, for what was processed, fragments and all", () => {
  const peer = Peer.up();
  const id = peer.chat("a");
  peer.drain();
  const piece = "x".repeat(65_000);
  let owed = 0;
  for (let n = 0; n < 2; n += 1) owed += events(peer.frame(STREAM, id, text(n, piece)), "record")[0].credit;
  peer.machine.consumed(id, owed);
  assert.deepEqual(peer.drain(), []);
  const [{ credit }] = events(peer.frame(STREAM, id, text(2, piece)), "record");
  peer.machine.consumed(id, credit);
  const [back] = sent(peer.drain());
  assert.deepEqual([back.opcode, back.id, back.map], [INTERRUPT, id, { mode: "credit", bytes: owed + credit }]);
  // A record larger than the window could not be finished if its fragments held credit back.
  const json = JSON.stringify(text(3, "y".repeat(300_000)));
  let returned = 0;
  for (let at = 0; at < json.length; at += 30_000) {
    const last = at + 30_000 >= json.length;
    for (const { map } of sent(peer.frame(STREAM, id, json.slice(at, at + 30_000), 4 | (last ? 0 : MORE)))) returned += map.bytes;
  }
  assert.ok(returned >= 131_072, String(returned));
});

test("after an interrupt nothing is delivered but the end; one that waits for the connection is sent after it", () => {
  const peer = Peer.up();
  const id = peer.chat("a");
  peer.drain();
  peer.machine.interrupt(id);
  assert.deepEqual(sent(peer.drain()).map(({ opcode, id }) => [opcode, id]), [[INTERRUPT, id]]);
  assert.deepEqual(events(peer.frame(STREAM, id, text(0, "late"))), []);
  assert.equal(events(peer.frame(STREAM, id, { t: "end", n: 1, finish: "interrupted" }, END | 4), "ended")[0].ending.end.finish, "interrupted");
  const other = peer.chat("b");
  peer.drain();
  peer.input({ type: "closed", code: 1006 });
  peer.machine.interrupt(other, "gone");
  peer.redial();
  assert.deepEqual(sent(peer.accept({ resumed: true })).map(({ opcode, id, map }) => [opcode, id, map.reason]), [[INTERRUPT, other, "gone"]]);
});

test("goaway: nothing new is sent, what runs goes on, then the next connection", () => {
  const peer = Peer.up();
  const running = peer.chat("a");
  peer.drain();
  peer.frame(HELLO, 0, { op: "goaway", retry_ms: 1000, reason: "restart" });
  const later = peer.chat("b");
  assert.deepEqual(peer.drain(), []);
  peer.pass(1000);
  assert.equal(peer.machine.link, "up", "the answer is still coming");
  const outputs = peer.frame(STREAM, running, { t: "end", n: 0, finish: "complete" }, END | 4);
  assert.deepEqual(outputs.filter(({ type }) => type === "close"), [{ type: "close", code: 1001 }]);
  peer.redial();
  assert.deepEqual(sent(peer.accept({ resumed: true })).map(({ id, opcode }) => [opcode, id]), [[INVOKE, later]]);
});

test("calls and questions are answered once, also when they are told again", () => {
  const peer = Peer.up();
  const id = peer.chat("a");
  peer.drain();
  const call = { t: "call", n: 0, call_id: "c", name: "clock", args: {} };
  assert.equal(events(peer.frame(STREAM, id, call), "record").length, 1);
  assert.equal(typeof peer.machine.answerCall(id, "c", { ok: true, output: 1 }, peer.now), "number");
  assert.equal(peer.machine.answerCall(id, "c", { ok: true, output: 1 }, peer.now), "gone");
  assert.equal(peer.machine.answerAsk(id, "nobody", { text: "x" }, peer.now), "gone");
  const saved = peer.machine.save(peer.now);
  assert.deepEqual(saved.requests.map(({ answered, next }) => [answered, next]), []);
  const keyed = peer.chat("b", { idem: "k" });
  peer.drain();
  peer.frame(STREAM, keyed, { ...call, call_id: "d" });
  peer.machine.answerCall(keyed, "d", { ok: true }, peer.now);
  const kept = peer.machine.save(peer.now).requests.find(({ id }) => id === keyed);
  assert.deepEqual([kept.answered, kept.next], [["d"], 1]);
  // The next page hears of the call again, and leaves it alone.
  const next = new Peer();
  next.machine.restore({ ...peer.machine.save(peer.now), requests: [{ ...kept, next: 0 }] }, next.now);
  assert.deepEqual(hello(next.dial()).resume.next, { [keyed]: 0 });
  assert.deepEqual(peer.machine.save(peer.now).grant.token, "tok-1");
  next.accept({ resumed: true });
  assert.deepEqual(events(next.frame(STREAM, keyed, { ...call, call_id: "d" })), []);
});

test("an answer that is refused for its rate is sent again", () => {
  const peer = Peer.up();
  const id = peer.chat("a");
  peer.drain();
  peer.frame(STREAM, id, { t: "ask", n: 0, ask_id: "q", text: "?" });
  const own = peer.machine.answerAsk(id, "q", { text: "yes" }, peer.now);
  peer.drain();
  assert.deepEqual(events(peer.frame(ERROR, own, { code: 2200, name: "RATE_LIMITED", msg: "", retry: true, retry_ms: 300 })), []);
  assert.deepEqual(sent(peer.pass(300)).map(({ id, map }) => [id, map.text]), [[own, "yes"]]);
});

test("ids count up, skip those in use, and wrap", () => {
  const peer = new Peer({ maxQueued: 100_000 });
  peer.machine.connect();
  const first = peer.chat("a");
  for (let id = 2; id <= 65_535; id += 1) assert.equal(peer.chat("x"), id);
  assert.equal(peer.chat("x"), "full");
  peer.machine.interrupt(7);
  assert.equal(peer.chat("x"), 7);
  assert.equal(first, 1);
});

test("more than the server has places for waits, and is bounded", () => {
  const peer = Peer.up({ maxQueued: 2 });
  peer.accept();
  const ids = [];
  for (let count = 0; count < 64; count += 1) ids.push(peer.chat("x"));
  assert.equal(sent(peer.drain()).length, 64);
  const [waits, also] = [peer.chat("y"), peer.chat("z")];
  assert.equal(peer.chat("too many"), "full");
  assert.deepEqual(peer.drain(), []);
  assert.deepEqual(sent(peer.frame(STREAM, ids[0], { t: "end", n: 0, finish: "complete" }, END)).map(({ id }) => id), [waits]);
  assert.ok(also);
});

test("large requests go in fragments, too large ones not at all", () => {
  const peer = Peer.up();
  const id = peer.chat("x".repeat(100_000));
  const frames = peer.drain().flatMap(({ data }) => [...readFrames(data)]);
  assert.ok(frames.length > 3 && frames.every((frame) => frame.id === id));
  assert.ok(frames.slice(0, -1).every(({ flags }) => flags & MORE) && !(frames.at(-1).flags & MORE));
  peer.chat("x".repeat(2_000_000));
  const [ended] = events(peer.drain(), "ended");
  assert.equal(ended.ending.error.name, "PAYLOAD_TOO_LARGE");
});

test("what cannot be read ends its request alone, with the reason", () => {
  const peer = Peer.up();
  const [a, b] = [peer.chat("a"), peer.chat("b")];
  peer.drain();
  const outputs = peer.frame(STREAM, a, "{broken", 4);
  assert.deepEqual(sent(outputs).map(({ opcode, id, map }) => [opcode, id, map.code]), [[ERROR, a, 2005]]);
  assert.equal(events(peer.frame(STREAM, a, { t: "end", finish: "interrupted" }, END | 4), "ended")[0].ending.error.code, 2005);
  assert.deepEqual(events(peer.frame(STREAM, b, { t: "something-new", n: 0 })), [], "an unknown record is ignored");
  assert.deepEqual(events(peer.input({ type: "message", data: encodeFrame(15, 0, 0, new Uint8Array(3)) })), [], "an unknown opcode is ignored");
  assert.equal(events(peer.frame(STREAM, b, text(1, "fine")), "record").length, 1);
});

test("a gap in the list of tools is filled", () => {
  const peer = Peer.up();
  const frame = (op, rev, more) => peer.frame(TOOL_DEF, 0, { op, rev, ...more });
  const one = (name) => ({ tools: [{ name, input_schema: {} }] });
  assert.equal(events(frame("set", 3, one("a")), "tools").length, 1);
  assert.deepEqual(events(frame("add", 3, one("old"))), []);
  const outputs = frame("add", 7, one("b"));
  assert.deepEqual(sent(outputs).map(({ opcode, map }) => [opcode, map.kind]), [[INVOKE, "list"]]);
  assert.deepEqual([...peer.machine.tools.keys()], ["a", "b"]);
  frame("remove", 8, { names: ["a"] });
  assert.deepEqual([...peer.machine.tools.keys()], ["b"]);
});

test("other tools are offered with a new HELLO, and what runs goes on", () => {
  const peer = Peer.up();
  const id = peer.chat("a");
  peer.drain();
  peer.frame(STREAM, id, text(0, "x"));
  peer.machine.offer([{ name: "clock", input_schema: {} }], peer.now);
  assert.deepEqual(peer.drain().map((output) => output.code ?? output.event?.type), [1001, "disconnected"]);
  const said = peer.redial();
  assert.deepEqual([said.tools.map(({ name }) => name), said.resume.next], [["clock"], { [id]: 1 }]);
});
