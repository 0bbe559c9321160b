/** Against the real server, through a proxy that cuts the connection after every single message. */

import assert from "node:assert/strict";
import { after, before, test as plain } from "node:test";
import WebSocket from "ws";
import { z } from "zod";
import { createClient, tool, ToolError } from "../dist/index.js";
import { inflate } from "../dist/deflate.js";
import { msgpack } from "../dist/msgpack.js";
import { startProxy, startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 30_000 }, run);

let server;
before(async () => (server = await startServer({ settings: ["asp.limits.resume_s=2", "asp.limits.connections_per_s=1000", "asp.limits.connections_burst=1000"] })));
after(() => server?.stop());

const options = (url = server.url, more = {}) => ({ url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });
const numbers = (count) => Array.from({ length: count }, (_, index) => `${index + 1} `).join("");
let names = 0;
const name = () => `s${(names += 1)}`;

/** A storage as pages have it, and as a phone has it. */
class Storage extends Map {
  getItem = (key) => Promise.resolve(this.get(key) ?? null);
  setItem = (key, value) => Promise.resolve(void this.set(key, value));
  removeItem = (key) => Promise.resolve(void this.delete(key));
}

test("an answer comes in events, and ends once", async () => {
  const client = createClient(options());
  const turn = client.session(name()).ask("count 5");
  const events = [];
  for await (const event of turn) events.push(event);
  assert.equal(events[0].type, "start");
  assert.equal(events.filter(({ type }) => type === "text").map(({ text }) => text).join(""), numbers(5));
  assert.deepEqual(events.filter(({ type }) => type === "end").length, 1);
  assert.equal(events.at(-1).end.finish, "complete");
  assert.deepEqual([turn.status, turn.said, await turn.text()], ["done", numbers(5), numbers(5)]);
  assert.equal(turn.position.next > 5, true);
  await client.close();
});

test("cut after every message of either side: nothing is doubled, nothing lost", async () => {
  const expected = numbers(12);
  let cuts = 0;
  for (const side of ["fromServer", "fromClient"]) {
    for (let limit = 0; limit < (side === "fromServer" ? 18 : 4); limit += 1) {
      // The first connection is cut, and each that follows a little later.
      const proxy = await startProxy(server.port, (connection) => (connection <= 3 ? { [side]: limit + connection - 1 } : undefined));
      const clock = tool({ name: "clock", input: { type: "object" }, run: () => "noon" });
      const client = createClient(options(proxy.url, { tools: [clock] }));
      const session = client.session(name());
      const counted = session.ask("count 12");
      const called = session.ask('call clock {"zone":"utc"}');
      const events = [];
      for await (const event of counted) {
        if (event.type === "restarted") events.length = 0;
        events.push(event);
      }
      const texts = events.filter(({ type }) => type === "text").map(({ text }) => text).join("");
      assert.equal(texts, expected, `${side} after ${limit}`);
      assert.equal(events.filter(({ type }) => type === "end").length, 1);
      assert.equal(await called.text(), "result: noon", `${side} after ${limit}`);
      cuts += proxy.cuts;
      await client.close();
      await proxy.stop();
    }
  }
  assert.ok(cuts >= 40, `${cuts} cuts`);
  // And each question was asked once.
  const client = createClient(options());
  for (let number = 2; number <= names; number += 1) {
    const history = await client.session(`s${number}`).history();
    assert.deepEqual(history.map(({ role }) => role), ["user", "assistant", "user", "assistant"], `s${number}`);
  }
  await client.close();
});

test("cut while the server is away for longer than it waits: the key leads to the same answer", async () => {
  const proxy = await startProxy(server.port);
  const client = createClient(options(proxy.url, { backoff: { firstMs: 3000, mostMs: 6000 } }));
  const turn = client.session(name()).ask("count 30 every 20");
  const events = [];
  for await (const event of turn) {
    events.push(event);
    if (event.type === "restarted") events.length = 0;
    if (event.text === "5 ") {
      proxy.plan = () => ({ fromServer: 0 });
      proxy.cut();
      setTimeout(() => (proxy.plan = () => undefined), 2600);
    }
  }
  assert.equal(turn.said, numbers(30));
  assert.equal(events.filter(({ type }) => type === "text").map(({ text }) => text).join(""), numbers(30));
  await client.close();
  await proxy.stop();
});

test("the server is killed in the middle and started again", async () => {
  const own = await startServer();
  let port = own.port;
  const client = createClient(options(`http://127.0.0.1:${port}`));
  const turn = client.session("killed").ask("count 40 every 20");
  const states = [];
  client.on("state", (state) => states.push(state));
  let again;
  for await (const event of turn) {
    if (event.text === "5 ") {
      await own.kill();
      again = await startServer({ data: own.data, port });
    }
  }
  assert.equal(turn.said, numbers(40));
  assert.deepEqual(states.filter((state) => state === "reconnecting").length >= 1, true);
  assert.equal(client.state, "online");
  await client.close();
  await again.kill();
  await own.stop();
});

test("stop ends the turn with what was said", async () => {
  const client = createClient(options());
  const turn = client.session(name()).ask("count 1000 every 5");
  const events = [];
  for await (const event of turn) {
    events.push(event);
    if (event.text === "3 ") turn.stop("enough");
  }
  assert.equal(events.at(-1).end.finish, "interrupted");
  assert.equal(turn.status, "interrupted");
  // Leaving the loop stops it, too.
  const left = client.session(name()).ask("count 1000 every 5");
  for await (const event of left) if (event.type === "text") break;
  await until(() => left.finished, "it has stopped");
  const aborted = client.session(name()).ask("count 1000 every 5", { signal: AbortSignal.timeout(100) });
  assert.equal((await aborted.done()).finish, "interrupted");
  await client.close();
});

test("tools of the page: typed arguments, failures, refusals of the user", async () => {
  const add = tool({ name: "add", description: "Adds", input: z.object({ a: z.number(), b: z.number() }), run: ({ a, b }) => a + b });
  const printer = tool({ name: "printer", input: {}, run: () => { throw new ToolError("NO_PAPER", "out of paper"); } });
  const wipe = tool({ name: "wipe", input: {}, confirm: true, description: "everything be wiped", run: () => "wiped" });
  const client = createClient(options(server.url, { tools: [add, printer, wipe] }));
  const session = client.session(name());
  assert.equal(await session.ask('call add {"a":1,"b":2}').text(), "result: 3");
  assert.match(await session.ask('call add {"a":"one"}').text(), /INVALID_ARGS/);
  assert.match(await session.ask("call printer").text(), /NO_PAPER/);
  assert.match(await session.ask("call nobody within 300").text().catch((error) => error.code), /TOOL_NOT_FOUND|not_found|CALL_TIMEOUT/i);
  for (const yes of [true, false]) {
    const turn = session.ask("call wipe");
    const done = turn.text();
    const [approval] = await until(() => client.open.length > 0 && client.open, "the user is asked");
    assert.equal(approval.tool, "wipe");
    await (yes ? approval.approve() : approval.deny());
    assert.match(await done, yes ? /result: wiped/ : /DENIED/);
    assert.equal(client.open.length, 0);
    await assert.rejects(approval.approve(), { code: "NOT_OPEN" });
  }
  // A tool that comes later is offered at once.
  const take = client.tool(tool({ name: "late", input: {}, run: () => "here" }));
  await until(() => client.state === "online", "it is connected");
  assert.equal(await session.ask("call late").text(), "result: here");
  take();
  await client.close();
});

test("questions of the agent are answered once", async () => {
  const client = createClient(options());
  const turn = client.session(name()).ask("ask which one?");
  for await (const event of turn) if (event.type === "question") await event.question.answer("the red one");
  assert.equal(turn.said, "answer: the red one");
  await client.close();
});

test("a turn that fails says why, what to do, and what was said until then", async () => {
  const client = createClient(options());
  const turn = client.session(name()).ask("fail tool after 2");
  await assert.rejects(turn.text(), (error) => error.name === "TurnError" && error.code === "TOOL_FAILED" && error.advice.length > 10 && error.partial === "1 2 ");
  assert.equal(turn.status, "failed");
  await assert.rejects(client.session(name()).ask("x", { agent: "nobody" }).text(), { code: "AGENT_NOT_FOUND" });
  await client.close();
});

test("a page that is loaded again goes on with the turn, from its start and without a second one", async () => {
  const storage = new Storage();
  const session = name();
  const first = createClient(options(server.url, { storage }));
  const before = first.session(session).ask("count 60 every 20");
  for await (const event of before) {
    if (event.text !== "5 ") continue;
    await first.suspend();
    break;
  }
  const second = createClient(options(server.url, { storage }));
  const turn = await second.session(session).resume();
  assert.equal(turn.input, "count 60 every 20");
  assert.equal(await turn.text(), numbers(60));
  assert.equal(await second.session(session).resume(), undefined);
  assert.equal((await second.session(session).history()).length, 2);
  await second.close();
  assert.equal(storage.size, 0, "a client that was closed leaves nothing");
});

test("what was asked while there was no connection is asked by the next page", async () => {
  const storage = new Storage();
  const session = name();
  const offline = createClient(options("http://127.0.0.1:1", { storage, storageKey: "k" }));
  offline.session(session).ask("count 3");
  await until(() => JSON.parse(storage.get("k") ?? '{"requests":[]}').requests.length === 1, "it is kept");
  await offline.suspend();
  const online = createClient(options(server.url, { storage, storageKey: "k" }));
  assert.equal(await (await online.session(session).resume()).text(), numbers(3));
  await online.close();
});

test("a page that comes back too late gets the answer by its key", async () => {
  const storage = new Storage();
  const session = name();
  const first = createClient(options(server.url, { storage }));
  const before = first.session(session).ask("count 5");
  await until(() => storage.size > 0 && JSON.parse([...storage.values()][0]).requests.length >= 0, "something is kept");
  await before.text();
  const slow = first.session(session).ask("count 20 every 100");
  for await (const event of slow) {
    if (event.text !== "3 ") continue;
    await first.suspend();
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const second = createClient(options(server.url, { storage }));
  const turn = await second.session(session).resume();
  // The server gave this page up after two seconds and stopped the turn; what it had said is told.
  await turn.done();
  assert.ok(turn.said.startsWith("1 2 3 "), turn.said);
  assert.equal((await second.session(session).history()).filter(({ role }) => role === "user").length, 2);
  await second.close();
});

test("two tabs with one memory: the second goes on, the first is told so, and nothing is asked twice", async () => {
  const storage = new Storage();
  const session = name();
  const first = createClient(options(server.url, { storage }));
  const turn = first.session(session).ask("count 40 every 25");
  const reading = turn.text().catch((error) => error);
  await until(() => [...storage.values()].some((kept) => JSON.parse(kept).requests[0]?.sent && JSON.parse(kept).grant), "it is kept");
  const second = createClient(options(server.url, { storage }));
  const same = await second.session(session).resume();
  assert.equal(await same.text(), numbers(40));
  const lost = await reading;
  assert.equal(lost.code, "CLOSED");
  assert.equal(first.error.code, "TAKEN_OVER");
  assert.equal((await second.session(session).history()).length, 2);
  await first.close();
  await second.close();
});

test("turns of others in a session can be followed", async () => {
  const session = name();
  const asker = createClient(options());
  const watcher = createClient(options());
  const leave = new AbortController();
  const seen = (async () => {
    for await (const turn of watcher.session(session).follow({ signal: leave.signal })) {
      const text = await turn.text();
      leave.abort();
      return text;
    }
    return undefined;
  })();
  await until(() => watcher.state === "online", "it watches");
  const asked = asker.session(session).ask("count 60 every 50");
  assert.equal(await seen, numbers(60));
  assert.equal(await asked.text(), numbers(60));
  await asker.close();
  await watcher.close();
});

test("a slow reader holds up its own answer alone, and answers may travel compressed", async () => {
  const client = createClient(options(server.url, { window: 16 << 10, inflate }));
  const slow = client.session(name()).ask("size 200000");
  const iterator = slow[Symbol.asyncIterator]();
  await iterator.next();
  assert.equal(await client.session(name()).ask("count 3").text(), numbers(3));
  let length = 0;
  for (let step = await iterator.next(); !step.done; step = await iterator.next()) if (step.value.type === "text") length += step.value.text.length;
  assert.equal(length, 200_000);
  assert.ok(client.features.has("deflate"));
  assert.ok((await client.ping()) >= 0);
  await client.close();
});

test("maps may travel as MessagePack, with bytes as bytes", async () => {
  const client = createClient(options(server.url, { msgpack }));
  const turn = client.session(name()).ask([{ type: "text", text: "count 3" }]);
  assert.equal(await turn.text(), numbers(3));
  const other = client.session(name()).ask("data {\"a\":[1,2.5,\"ä\"]}");
  const values = [];
  for await (const event of other) if (event.type === "data") values.push(event.value);
  assert.deepEqual(values, [{ a: [1, 2.5, "ä"] }]);
  await client.close();
});

test("tools of the server can be run without an agent", async () => {
  const echo = await startServer({ settings: ["agent=story"] });
  const client = createClient(options(echo.url));
  await client.connect();
  await until(() => client.serverTools.length > 0, "it has told its tools");
  const end = await client.session("t").run("greet", { name: "Ann" }).done();
  assert.deepEqual(end.output, { greeting: "Hello, Ann!" });
  await assert.rejects(client.session("t").run("greet", { nobody: 1 }).text(), { code: "INVALID_ARGS" });
  await client.close();
  await echo.stop();
});
