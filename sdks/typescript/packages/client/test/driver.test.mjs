/** What surrounds a connection: refusals, tokens, clocks, networks that come and go. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { test as plain } from "node:test";
import WebSocket, { WebSocketServer } from "ws";
import { createClient, tool, UsageError } from "../dist/index.js";
import { socketUrl } from "../dist/driver.js";
import { startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 30_000 }, run);
const SECRET = "a secret that is long enough for HS256";

/** A server that refuses every upgrade, and says the same to a plain request. */
async function refusing(answer) {
  const server = createServer((request, response) => {
    const { status, headers = {}, body = "" } = answer(request);
    response.writeHead(status, headers).end(body);
  });
  server.on("upgrade", (request, socket) => {
    const { status } = answer(request);
    socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))) };
}

function jwt(claims) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part({ iss: "https://issuer.test", aud: "switchboard", sub: "ann", scope: "connect read invoke tools", ...claims })}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

const AUTH = ["auth.jwt=[{issuer='https://issuer.test',audience='switchboard',algorithm='HS256',secret_env='SDK_TEST_SECRET',leeway_s=0}]"];
const authServer = () => startServer({ settings: AUTH, env: { SDK_TEST_SECRET: SECRET } });

test("refusals are told with a code and what to do", async () => {
  const cases = [
    [401, "UNAUTHORIZED", /token/],
    [403, "FORBIDDEN", /scopes|origins/],
    [404, "NOT_FOUND", /path|agent/],
  ];
  for (const [status, code, advice] of cases) {
    const server = await refusing(() => ({ status, body: JSON.stringify({ error: { code: 1, msg: "words of the server" } }) }));
    const client = createClient({ url: server.url, WebSocket });
    await assert.rejects(client.connect(), (error) => error.name === "ConnectionError" && error.code === code && error.status === status && advice.test(error.advice) && /words of the server/.test(error.message) && !error.retryable);
    assert.deepEqual([client.state, client.error.code], ["closed", code]);
    await assert.rejects(client.session("s").ask("x").text(), { code: "CLOSED" });
    await client.close();
    await server.stop();
  }
});

test("429 and 503 are waited for, as long as the server says", async () => {
  for (const [status, code] of [[429, "RATE_LIMITED"], [503, "UNAVAILABLE"]]) {
    let asked = 0;
    const server = await refusing(() => ((asked += 1), { status, headers: { "retry-after": "1" } }));
    const client = createClient({ url: server.url, WebSocket, backoff: { firstMs: 1, mostMs: 2 } });
    const began = Date.now();
    client.connect().catch(() => undefined);
    const error = await new Promise((resolve) => client.on("error", resolve));
    assert.deepEqual([error.code, error.retryable, error.retryAfterMs, client.state], [code, true, 1000, "connecting"].with(3, client.state));
    await until(() => asked > 2, "it tries again");
    assert.ok(Date.now() - began >= 990, "not before it may");
    await client.close();
    await server.stop();
  }
});

test("nobody there: the client tries until somebody is", async () => {
  const first = await startServer();
  const { port } = first;
  await first.kill();
  const client = createClient({ url: `http://127.0.0.1:${port}`, WebSocket, backoff: { firstMs: 5, mostMs: 20 } });
  const states = [];
  client.on("state", (state) => states.push(state));
  const answer = client.session("s").ask("echo hello").text();
  await new Promise((resolve) => client.on("error", (error) => error.code === "UNREACHABLE" && resolve()));
  const second = await startServer({ data: first.data, port });
  assert.equal(await answer, "hello");
  assert.deepEqual(states, ["connecting", "reconnecting", "online"]);
  await client.close();
  await second.kill();
  await first.stop();
});

test("a token is asked for before it runs out, and used in the live connection", async () => {
  const server = await authServer();
  let given = 0;
  const client = createClient({ url: server.url, WebSocket, token: async () => ((given += 1), jwt({ exp: Math.floor(Date.now() / 1000) + (given === 1 ? 3 : 600) })) });
  const states = [];
  client.on("state", (state) => states.push(state));
  const turn = client.session("s").ask("count 50 every 100");
  assert.equal((await turn.text()).length, Array.from({ length: 50 }, (_, index) => `${index + 1} `).join("").length);
  assert.deepEqual(states, ["connecting", "online"], "the connection stayed");
  assert.ok(given >= 2);
  await client.close();
  await server.stop();
});

test("a token that was refused is asked for once more, and then that is it", async () => {
  const server = await authServer();
  let given = 0;
  const good = createClient({ url: server.url, WebSocket, backoff: { firstMs: 1, mostMs: 2 }, token: () => jwt({ exp: Math.floor(Date.now() / 1000) + ((given += 1) === 1 ? -60 : 600) }) });
  await good.connect();
  assert.equal(given >= 2, true);
  await good.close();
  let tries = 0;
  const bad = createClient({ url: server.url, WebSocket, backoff: { firstMs: 1, mostMs: 2 }, token: () => ((tries += 1), "nonsense") });
  await assert.rejects(bad.connect(), { code: "UNAUTHORIZED" });
  assert.ok(tries < 10, String(tries));
  await bad.close();
  const broken = createClient({ url: server.url, WebSocket, backoff: { firstMs: 1, mostMs: 2 }, token: () => Promise.reject(new Error("no backend")) });
  broken.connect().catch(() => undefined);
  const error = await new Promise((resolve) => broken.on("error", resolve));
  assert.match(error.message, /no token: no backend/);
  await broken.close();
  await server.stop();
});

/** Sockets that a test holds in its hand, and a clock that does what it says. */
function stage() {
  const sockets = [];
  const timers = new Map();
  // What timers go by stands still in a sleep and knows nothing of the wall.
  let now = 1_000_000;
  let ahead = 0;
  let last = 0;
  class Fake {
    readyState = 1;
    sent = [];
    constructor(url, protocols) {
      Object.assign(this, { url, protocols });
      sockets.push(this);
    }
    send(data) {
      this.sent.push(data);
    }
    close(code) {
      this.closed = code ?? 1005;
    }
  }
  const clock = {
    now: () => now + ahead,
    setTimeout: (run, ms) => (timers.set((last += 1), { at: now + ms, run }), last),
    clearTimeout: (timer) => timers.delete(timer),
  };
  return {
    sockets,
    clock,
    Fake,
    jump: (ms) => (ahead += ms),
    async pass(ms) {
      const end = now + ms;
      for (;;) {
        const due = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
        if (!due) break;
        timers.delete(due[0]);
        now = Math.max(now, due[1].at);
        due[1].run();
        await new Promise((resolve) => setImmediate(resolve));
      }
      now = Math.max(now, end);
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("an attempt that takes too long is given up, and one that answers late is nobody's", async () => {
  const { sockets, clock, Fake, pass } = stage();
  const client = createClient({ url: "http://localhost:1", WebSocket: Fake, clock, connectTimeoutMs: 1000, fetch: () => Promise.reject(new Error("no")) });
  client.connect().catch(() => undefined);
  await turn();
  assert.equal(sockets.length, 1);
  await pass(1000);
  assert.equal(client.state, "reconnecting");
  assert.equal(sockets[0].onopen, null);
  await pass(2000);
  assert.ok(sockets.length > 1);
  await client.close();
});

test("a clock that jumps back stops nothing, one that jumps ahead is a sleep", async () => {
  const { sockets, clock, Fake, pass, jump } = stage();
  const client = createClient({ url: "http://localhost:1", WebSocket: Fake, clock, fetch: () => Promise.reject(new Error("no")) });
  client.connect().catch(() => undefined);
  await turn();
  sockets[0].onopen({});
  const hello = new TextEncoder().encode(JSON.stringify({ op: "accept", ver: 1, cid: "0123456789abcdef", features: ["flags", "events", "ping", "resume"], enc: "json", resume: { token: "t", window_s: 60 } }));
  const frame = new Uint8Array([0x11, 0, 0, 0, 0, 0, 0, hello.length, ...hello]);
  sockets[0].onmessage({ data: frame.buffer });
  assert.equal(client.state, "online");
  jump(-3_600_000);
  sockets[0].sent.length = 0;
  await pass(31_000);
  assert.equal(sockets[0].sent.length, 1, "a ping after half a minute");
  sockets[0].onmessage({ data: new Uint8Array([0x11, 0, 0, 0, 0, 0, 0, 2, 0x7b, 0x7d]).buffer });
  jump(3_600_000);
  await pass(31_000);
  assert.ok(sockets[0].sent.length >= 2, "asks at once whether the connection is there");
  await pass(5_001);
  assert.equal(client.state, "reconnecting");
  await client.close();
});

test("a page closes with codes that browsers allow, and the credential is one entry", async () => {
  const { sockets, clock, Fake } = stage();
  const client = createClient({ url: "https://host/base", WebSocket: Fake, clock, token: "s3cr3t/token+==", agent: "my agent" });
  client.connect().catch(() => undefined);
  await turn();
  assert.equal(sockets[0].url, "wss://host/base/v1/agent-socket?agent=my%20agent");
  assert.deepEqual(sockets[0].protocols, ["asp-v1", "asp-bearer.czNjcjN0L3Rva2VuKz09"]);
  sockets[0].onopen({});
  sockets[0].onmessage({ data: "text" });
  assert.equal(sockets[0].closed, 1005, "1003 is not for pages");
  assert.equal(client.error.code, "PROTOCOL");
  await client.close();
});

test("what cannot work is said at once, with what to do instead", async () => {
  for (const url of ["", "host", "ftp://host", "ws://", "https://user:secret@host"]) assert.throws(() => createClient({ url, WebSocket }), UsageError, url);
  assert.throws(() => createClient({ url: "http://example.com", token: "t", WebSocket }), /unencrypted/);
  assert.doesNotThrow(() => createClient({ url: "http://example.com", token: "t", allowPlaintext: true, WebSocket }));
  assert.equal(socketUrl("ws://127.0.0.1:4600/v1/agent-socket", "/v1/agent-socket", {}, false, true), "ws://127.0.0.1:4600/v1/agent-socket");
  assert.throws(() => tool({ name: "with blank", input: {}, run() {} }), UsageError);
  assert.throws(() => tool({ name: "list", input: { type: "array" }, run() {} }), /object/);
  assert.throws(() => tool({ name: "silent", input: { "~standard": { version: 1, vendor: "mine", validate: (value) => ({ value }) } }, run() {} }), /jsonSchema|JSON Schema/);
  const client = createClient({ url: "ws://localhost:1", WebSocket });
  assert.throws(() => client.session(""), UsageError);
  const read = client.session("s").ask("x");
  const first = read[Symbol.asyncIterator]();
  assert.throws(() => read[Symbol.asyncIterator](), UsageError);
  await first.return();
  await client.close();
  const without = createClient({ url: "ws://localhost:1", WebSocket: undefined, token: "a b" });
  await assert.rejects(without.connect(), (error) => /token/.test(error.message));
});

test("a proxy that cuts idle sockets, and one that speaks no WebSocket", async () => {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: (offered) => [...offered][0] });
  await new Promise((resolve) => sockets.on("listening", resolve));
  sockets.on("connection", (socket) => socket.on("message", () => setTimeout(() => socket.terminate(), 20)));
  const client = createClient({ url: `http://127.0.0.1:${sockets.address().port}`, WebSocket, backoff: { firstMs: 1, mostMs: 5 } });
  const errors = [];
  client.on("error", (error) => errors.push(error.code));
  client.connect().catch(() => undefined);
  await until(() => errors.length > 2, "it is cut again and again");
  assert.ok(errors.every((code) => code === "LOST"), errors.join());
  await client.close();
  await new Promise((resolve) => sockets.close(resolve));
});
