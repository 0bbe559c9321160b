/** Acolyte: its vectors, and the real server behind a proxy that cuts. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test as plain } from "node:test";
import WebSocket from "ws";
import { createAcolyteClient } from "../dist/acolyte/index.js";
import { AcolyteMachine } from "../dist/acolyte/machine.js";
import { startProxy, startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 40_000 }, run);
const numbers = (count) => Array.from({ length: count }, (_, index) => `${index + 1} `).join("");
const folder = new URL("../../../../../vectors/acolyte/frames/", import.meta.url);
const vectors = readdirSync(folder).sort().map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")));

let server;
before(async () => (server = await startServer({ settings: ["acolyte.limits.resume_s=30"] })));
after(() => server?.stop());
const options = (url = server.url, more = {}) => ({ url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });
let names = 0;
const name = () => `s${(names += 1)}`;

test("the vectors: what the server says of each chat reaches its user, and ends it once", () => {
  let told = 0;
  for (const { id, kind, messages } of vectors) {
    if (kind !== "rpc") continue;
    const machine = new AcolyteMachine({ random: () => 0.5 });
    const drain = () => {
      const outputs = [];
      for (let output = machine.poll(); output; output = machine.poll()) outputs.push(output);
      return outputs;
    };
    machine.connect();
    drain();
    machine.handle({ type: "opened" }, 0);
    const [{ data }] = drain();
    const offer = JSON.parse(data);
    const capabilities = offer.payload.capabilities;
    machine.handle({ type: "message", data: JSON.stringify({ id: offer.id, type: "status.result", status: { protocol_version: "1", model: "m", capabilities_agreed: capabilities } }) }, 0);
    drain();
    const wires = new Map();
    const open = (wire) => {
      if (wires.has(wire)) return;
      const chat = machine.start({ message: "x", history: [] });
      const [sent] = drain();
      wires.set(wire, { chat, wire: JSON.parse(sent.data).id, ended: false });
    };
    for (const { direction, text } of messages) {
      let message;
      try {
        message = JSON.parse(text);
      } catch {
        continue;
      }
      if (direction !== "to_client" || !/^chat\.(accepted|queued|started|event|done|error)$/.test(message.type)) continue;
      open(message.id);
      const known = wires.get(message.id);
      machine.handle({ type: "message", data: JSON.stringify({ ...message, id: known.wire }) }, 0);
      const events = drain().filter(({ type }) => type === "event").map(({ event }) => event);
      if (known.ended) assert.deepEqual(events, [], `${id}: nothing follows the end`);
      else if (message.type === "chat.done" || message.type === "chat.error") {
        known.ended = true;
        assert.deepEqual(events.map(({ type, id }) => [type, id]), [["ended", known.chat]], id);
        told += 1;
      } else if (message.type === "chat.event") {
        assert.deepEqual(events.map(({ event }) => event), [message.event], id);
        told += 1;
      }
    }
  }
  assert.ok(told >= 20, String(told));
  const status = JSON.parse(vectors.find(({ id }) => id === "A01").messages[0].text);
  assert.deepEqual(Object.keys(status.payload), ["protocol_version", "capabilities"], "the offer has the members of A01");
});

test("an answer, its end, failures, and a memory that lasts over pages", async () => {
  const client = createAcolyteClient(options());
  const session = client.session("my trip");
  const turn = session.ask("count 5");
  const types = new Set();
  for await (const event of turn) types.add(event.type);
  assert.equal(turn.said.trim(), numbers(5).trim());
  for (const type of ["start", "status", "text", "usage", "end"]) assert.ok(types.has(type), type);
  const checks = client.session("lists").ask("checklist");
  const lists = [];
  for await (const event of checks) if (event.type === "checklist") lists.push(event.items.map(({ status }) => status));
  assert.deepEqual(lists, [["in_progress", "pending"], ["done", "failed"]]);
  const tools = [];
  for await (const event of client.session("tools").ask("tool thing 2")) if (event.type === "tool") tools.push(event.phase);
  assert.equal(tools[0], "start");
  assert.equal(tools.at(-1), "done");
  await assert.rejects(client.session("bad").ask("fail tool after 2").text(), (error) => error.code === "FAILED" && error.partial.trim() === "1 2");
  assert.deepEqual((await session.history()).map(({ role, text }) => [role, text.trim()]), [["user", "count 5"], ["assistant", numbers(5).trim()]]);
  await client.close();
  const other = createAcolyteClient(options());
  await other.session("my trip").ask("count 2").done();
  assert.equal((await other.session("my trip").history()).length, 4, "one conversation, not two");
  await other.close();
});

test("cut after every message: nothing is doubled, nothing lost", async () => {
  const expected = numbers(12).trim();
  let cuts = 0;
  for (let limit = 2; limit < 20; limit += 1) {
    const proxy = await startProxy(server.port, (connection) => (connection <= 3 ? { fromServer: limit + connection - 2 } : undefined));
    const client = createAcolyteClient(options(proxy.url));
    const turn = client.session(name()).ask("count 12");
    const texts = [];
    for await (const event of turn) if (event.type === "text") texts.push(event.text);
    assert.equal(texts.join("").trim(), expected, `after ${limit}`);
    cuts += proxy.cuts;
    await client.close();
    await proxy.stop();
  }
  assert.ok(cuts >= 15, `${cuts} cuts`);
});

test("a question whose acceptance was lost is not asked twice", async () => {
  // The first connection reads the history.
  const proxy = await startProxy(server.port, (connection) => (connection === 2 ? { fromServer: 1 } : undefined));
  const client = createAcolyteClient(options(proxy.url));
  await assert.rejects(client.session("lost").ask("count 3").text(), (error) => error.code === "LOST" && /history/.test(error.advice));
  await client.close();
  await proxy.stop();
});

test("stop, over either transport", async () => {
  for (const transport of ["websocket", "sse"]) {
    const client = createAcolyteClient(options(server.url, { transport }));
    const turn = client.session(name()).ask("count 5000 every 5");
    for await (const event of turn) if (event.type === "text" && event.text.includes("3 ")) turn.stop();
    assert.equal(turn.status, "interrupted", transport);
    assert.ok(turn.said.length < 1000);
    await client.close();
  }
});

test("server-sent events: streams, failures, refusals", async () => {
  const client = createAcolyteClient(options(server.url, { transport: "sse" }));
  assert.equal((await client.session("sse").ask("count 30").text()).trim(), numbers(30).trim());
  await assert.rejects(client.session("sse").ask("fail tool after 2").text(), { code: "FAILED" });
  await assert.rejects(client.session("sse").ask("x".repeat(100_001)).text(), { code: "BAD_REQUEST" });
  const nobody = createAcolyteClient({ url: "http://127.0.0.1:1", transport: "sse" });
  await assert.rejects(nobody.session("s").ask("x").text(), { code: "LOST" });
  await client.close();
});

test("a page that is loaded again attaches to what runs", async () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value), removeItem: (key) => void kept.delete(key) };
  const first = createAcolyteClient(options(server.url, { storage }));
  for await (const event of first.session("reload").ask("count 60 every 20")) {
    if (event.type !== "text" || !event.text.includes("5 ")) continue;
    await first.suspend();
    break;
  }
  const second = createAcolyteClient(options(server.url, { storage }));
  const turn = await second.session("reload").resume();
  assert.equal((await turn.text()).trim(), numbers(60).trim());
  assert.equal((await second.session("reload").history()).length, 2);
  await second.close();
});

test("turns of others can be followed", async () => {
  const [asker, watcher] = [createAcolyteClient(options()), createAcolyteClient(options())];
  const leave = new AbortController();
  const seen = (async () => {
    for await (const turn of watcher.session("shared").follow({ signal: leave.signal })) {
      const text = await turn.text();
      leave.abort();
      return text;
    }
    return undefined;
  })();
  await until(() => watcher.state === "online", "it watches");
  assert.equal((await asker.session("shared").ask("count 60 every 50").text()).trim(), numbers(60).trim());
  assert.equal((await seen).trim(), numbers(60).trim());
  await asker.close();
  await watcher.close();
});
