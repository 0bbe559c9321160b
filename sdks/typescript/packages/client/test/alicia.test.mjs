/** Alicia: its vectors, and the real server behind a proxy that cuts. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test as plain } from "node:test";
import WebSocket from "ws";
import { z } from "zod";
import { createAliciaClient } from "../dist/alicia/index.js";
import { AliciaMachine, decodeEnvelope, encodeEnvelope } from "../dist/alicia/machine.js";
import { tool } from "../dist/index.js";
import { startProxy, startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 40_000 }, run);
const numbers = (count) => Array.from({ length: count }, (_, index) => `${index + 1} `).join("");
const folder = new URL("../../../../../vectors/alicia/frames/", import.meta.url);
const vectors = readdirSync(folder).sort().map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")));
const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

let server;
before(async () => (server = await startServer()));
after(() => server?.stop());
const options = (url = server.url, more = {}) => ({ url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });

test("the vectors are read as what they say, and canonical ones written as the same bytes", () => {
  let read = 0;
  let written = 0;
  for (const vector of vectors.filter(({ kind, profile, envelope }) => kind === "envelope" && profile === "full" && envelope)) {
    const envelope = decodeEnvelope(bytesOf(vector.hex[0]));
    assert.ok(envelope, vector.id);
    const plainValue = JSON.parse(JSON.stringify(envelope, (_key, value) => (value instanceof Uint8Array ? { $bin: Buffer.from(value).toString("hex") } : value)));
    assert.equal(plainValue.type, vector.envelope.type, vector.id);
    assert.equal(plainValue.conversationId, vector.envelope.conversationId ?? "", vector.id);
    for (const [key, value] of Object.entries(vector.envelope.body)) if (typeof value !== "object" && key in plainValue.body && key !== "errorCode") assert.deepEqual(plainValue.body[key], value, `${vector.id} ${key}`);
    read += 1;
    if (!vector.canonical || vector.canonical_floats) continue;
    // A whole number that travels as a float cannot be told from an integer here.
    if (Buffer.from(encodeEnvelope(envelope)).toString("hex") === vector.hex[0]) written += 1;
    else assert.match(vector.hex[0], /cb/, vector.id);
  }
  assert.ok(read >= 25 && written >= 10, `${read} read, ${written} written`);
  for (const vector of vectors.filter(({ error }) => error?.code === 101 && error.name === "malformed")) {
    const envelope = decodeEnvelope(bytesOf(vector.hex[0]));
    // What breaks a rule of its body alone is for the server to judge.
    if (envelope) assert.ok(envelope.type > 0, vector.id);
  }
  for (const vector of vectors.filter(({ envelope, profile }) => envelope && profile === "full")) {
    const bytes = bytesOf(vector.hex[0]);
    for (let length = 0; length < bytes.length; length += 1) assert.equal(decodeEnvelope(bytes.subarray(0, length)), undefined, `${vector.id} at ${length}`);
  }
});

test("stanzas are taken in their order: a hole is asked for, a repeat dropped", () => {
  const machine = new AliciaMachine({ random: () => 0.5 });
  const drain = () => {
    const outputs = [];
    for (let output = machine.poll(); output; output = machine.poll()) outputs.push(output);
    return outputs;
  };
  const feed = (type, stanzaId, body = {}) => {
    machine.handle({ type: "message", data: encodeEnvelope({ stanzaId, conversationId: "ac_1", type, body }) }, 0);
    return drain();
  };
  machine.connect();
  const key = machine.join("ac_1", -3, 0);
  machine.handle({ type: "opened" }, 0);
  const [, { data }] = drain().filter(({ type }) => type !== "event");
  assert.equal(decodeEnvelope(data).body.lastSequenceSeen, -3);
  feed(12, 0, { conversationId: "ac_1", lastSequenceSeen: -5 });
  const told = (outputs) => outputs.filter(({ event }) => event?.type === "told").map(({ event }) => event.envelope.stanzaId);
  assert.deepEqual(told(feed(16, -4, { previousId: "am_1", sequence: 1, text: "a" })), [-4]);
  assert.deepEqual(told(feed(16, -4, { previousId: "am_1", sequence: 1, text: "a" })), []);
  const outputs = feed(16, -6, { previousId: "am_1", sequence: 3, text: "c" });
  assert.deepEqual(told(outputs), []);
  assert.equal(decodeEnvelope(outputs.find(({ type }) => type === "send").data).body.lastSequenceSeen, -4);
  feed(12, 0, { conversationId: "ac_1", lastSequenceSeen: -6 });
  assert.deepEqual(told(feed(16, -5)), [-5]);
  assert.deepEqual(told(feed(16, -6)), [-6]);
  // What was not acknowledged is said again under the same id, what was is not.
  machine.say(key, 2, { id: "am_x", content: "x" }, 0);
  machine.say(key, 2, { id: "am_y", content: "y" }, 0);
  const stanzas = drain().map(({ data }) => decodeEnvelope(data).stanzaId);
  feed(8, 0, { conversationId: "ac_1", acknowledgedStanzaId: stanzas[0], success: true });
  machine.handle({ type: "closed", code: 1006 }, 0);
  machine.handle({ type: "woken" }, 0);
  machine.handle({ type: "opened" }, 0);
  drain();
  const again = feed(12, 0, { conversationId: "ac_1", lastSequenceSeen: -6 }).filter(({ type }) => type === "send").map(({ data }) => decodeEnvelope(data).body.id);
  assert.deepEqual(again, ["am_y"]);
});

test("an answer, thoughts, failures, many conversations on one socket", async () => {
  const client = createAliciaClient(options());
  const turn = client.session("one").ask("count 5");
  const types = [];
  for await (const event of turn) types.push(event.type);
  assert.equal(turn.said.trim(), numbers(5).trim());
  assert.deepEqual([types[0], types.at(-1)], ["start", "end"]);
  const [a, b] = await Promise.all([client.session("a").ask("count 8 every 5").text(), client.session("b").ask("count 9 every 5").text()]);
  assert.deepEqual([a.trim(), b.trim()], [numbers(8).trim(), numbers(9).trim()]);
  const thinking = client.session("one").ask("reason 2");
  await thinking.text();
  assert.match(thinking.reasoning, /thought 1/);
  assert.deepEqual((await client.session("one").history()).map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
  await assert.rejects(client.session("ac_0123456789abcdefghijk").ask("x").text(), { code: "ALICIA_201" });
  await client.close();
});

test("cut after every message: nothing is doubled, nothing lost", async () => {
  let cuts = 0;
  for (let limit = 1; limit < 18; limit += 1) {
    const proxy = await startProxy(server.port, (connection) => (connection <= 3 ? { fromServer: limit + connection - 1 } : undefined));
    const client = createAliciaClient(options(proxy.url));
    const turn = client.session("cut").ask("sentences and more: count 12");
    const first = client.session("cut");
    assert.match(await turn.text(), /^You said: sentences and more: count 12$/, `after ${limit}`);
    assert.equal((await first.ask("count 12").text()).trim(), numbers(12).trim(), `after ${limit}`);
    cuts += proxy.cuts;
    const direct = createAliciaClient(options());
    const history = await direct.session(await first.id()).history();
    assert.deepEqual(history.map(({ role }) => role), ["user", "assistant", "user", "assistant"], `after ${limit}`);
    await client.close();
    await direct.close();
    await proxy.stop();
  }
  assert.ok(cuts >= 20, `${cuts} cuts`);
});

test("tools of the page, stop, and turns of others", async () => {
  const clock = tool({ name: "clock", input: z.object({ zone: z.string().optional() }), run: ({ zone }) => ({ time: `noon ${zone}` }) });
  const client = createAliciaClient(options(server.url, { tools: [clock] }));
  const session = client.session("tools");
  assert.match(await session.ask('call clock {"zone":"utc"}').text(), /result: .*noon utc/);
  const turn = session.ask("count 5000 every 5");
  for await (const event of turn) if (event.type === "start") setTimeout(() => turn.stop(), 100);
  assert.equal(turn.status, "interrupted");
  const other = createAliciaClient(options());
  const leave = new AbortController();
  const followed = (async () => {
    for await (const theirs of client.session("tools").follow({ signal: leave.signal })) {
      const text = await theirs.text();
      leave.abort();
      return text;
    }
    return undefined;
  })();
  const id = await session.id();
  assert.equal((await other.session(id).ask("count 5").text()).trim(), numbers(5).trim());
  assert.equal((await followed).trim(), numbers(5).trim());
  await client.close();
  await other.close();
});

test("branches: another answer, other words, and back", async () => {
  const client = createAliciaClient(options());
  const session = client.session("branches");
  await session.ask("echo first").text();
  const [question, answer] = await session.history();
  assert.equal(await session.regenerate(answer.id).text(), "first");
  assert.ok((await session.siblings(answer.id)).length >= 1);
  assert.equal(await session.edit(question.id, "echo second").text(), "second");
  assert.deepEqual((await session.history()).map(({ text }) => text), ["echo second", "second"]);
  await session.switchTo(answer.id);
  assert.deepEqual((await session.history()).map(({ text }) => text), ["echo first", "first"]);
  await client.close();
});

test("what was written offline is synced, what is to be remembered is kept", async () => {
  const client = createAliciaClient(options());
  const session = client.session("offline");
  const synced = await session.sync([{ localId: "local_1", role: "user", contents: "written on a train", createdAt: new Date().toISOString() }]);
  assert.equal(synced[0].status, "synced");
  assert.deepEqual((await session.history()).map(({ text }) => text), ["written on a train"]);
  const memory = await client.memories.add("likes green tea");
  assert.ok((await client.memories.list()).some(({ id }) => id === memory.id));
  await client.memories.remove(memory.id);
  assert.ok(!(await client.memories.list()).some(({ id }) => id === memory.id));
  await client.close();
});

test("a page that is loaded again goes on with the answer", async () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value), removeItem: (key) => void kept.delete(key) };
  const first = createAliciaClient(options(server.url, { storage }));
  await first.session("reload").ask("count 2").text();
  for await (const event of first.session("reload").ask("count 60 every 20")) {
    if (event.type !== "start") continue;
    await new Promise((resolve) => setTimeout(resolve, 200));
    await first.suspend();
    break;
  }
  const second = createAliciaClient(options(server.url, { storage }));
  const turn = await second.session("reload").resume();
  assert.equal((await turn.text()).trim(), numbers(60).trim());
  assert.equal((await second.session("reload").history()).length, 4);
  await second.close();
});
