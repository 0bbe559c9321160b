/** Functions alone, and behind the real server. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test as plain } from "node:test";
import WebSocket from "ws";
import { createClient, tool } from "@switchboard/client";
import { agent, CallFailure, TurnFailure, verify } from "../dist/index.js";
import { toLambda } from "../dist/lambda.js";
import { toNode } from "../dist/node.js";
import { startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 30_000 }, run);
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
let handled = 0;
let aborted = "";

const handler = agent({ secret: SECRET }, async function* (turn) {
  handled += 1;
  const [word, ...rest] = turn.text.split(" ");
  switch (word) {
    case "count":
      for (let index = 1; index <= Number(rest[0]); index += 1) yield `${index} `;
      return { finish: "complete", output: { counted: Number(rest[0]) }, usage: { output_tokens: 3 } };
    case "slow":
      try {
        for (let index = 1; ; index += 1) {
          yield `${index} `;
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      } finally {
        aborted = turn.signal.aborted ? String(turn.signal.reason.message) : "ended";
      }
    case "tool":
      try {
        yield `it says ${JSON.stringify(await turn.call(rest[0], { zone: "utc" }))}`;
      } catch (error) {
        if (!(error instanceof CallFailure)) throw error;
        yield `failed with ${error.code}`;
      }
      return undefined;
    case "ask":
      yield `you said ${await turn.ask("which one?")}`;
      return undefined;
    case "later":
      if (turn.state === undefined) {
        yield "let me see ";
        yield turn.suspendFor({ ask: "which one?" }, { step: 1 });
      } else yield `after a while: ${turn.answers[0].text}, step ${turn.state.step}`;
      return undefined;
    case "refuse":
      throw new TurnFailure(2206, "QUOTA_EXCEEDED", "nothing left this month");
    case "break":
      throw new Error("something broke");
    default:
      yield { reasoning: "hm " };
      yield { status: "thinking" };
      yield { data: { a: 1 } };
      yield { text: `${turn.text} from ${turn.principal} with ${turn.history.length} before and tools ${turn.tools.map(({ name }) => name)}` };
      return undefined;
  }
});

let server;
let site;
before(async () => {
  site = createServer(toNode(handler));
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  server = await startServer({
    settings: ["agent=mine", "agents.mine.kind=function", `agents.mine.url=http://127.0.0.1:${site.address().port}`, "agents.mine.secret_env=SDK_FUNCTION_SECRET", "agents.mine.allow_private=true", "agents.mine.history=10"],
    env: { SDK_FUNCTION_SECRET: SECRET },
  });
});
after(async () => {
  await server?.stop();
  site?.closeAllConnections();
  site?.close();
});

const client = (more = {}) => createClient({ url: server.url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });

function signed(body, { secret = SECRET, id = body.inv, at = Math.floor(Date.now() / 1000), method = "POST" } = {}) {
  const text = JSON.stringify(body);
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${text}`).digest("base64");
  return new Request("http://function/invoke", { method, body: method === "GET" ? undefined : text, headers: { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": `v1,nonsense v1,${signature}` } });
}

const invoke = (inv, input, more = {}) => ({ asp: 1, event: "invoke", cid: "c".repeat(20), rid: 1, inv, attempt: 1, payload: { kind: "chat", input }, ...more });
const lines = async (response) => (await response.text()).trim().split("\n").map((line) => JSON.parse(line));

test("an answer streams, with its index, output and usage", async () => {
  const own = client();
  const turn = own.session("one").ask("count 5");
  const end = await turn.done();
  assert.equal(turn.said, "1 2 3 4 5 ");
  assert.deepEqual([end.output, end.usage], [{ counted: 5 }, { output_tokens: 3 }]);
  const other = own.session("one").ask("hello");
  const events = [];
  for await (const event of other) events.push(event.type);
  assert.match(other.said, /hello from dev with 2 before/);
  for (const type of ["start", "reasoning", "status", "data", "text", "end"]) assert.ok(events.includes(type), type);
  await own.close();
});

test("tools of the page, questions, and legs that wait without running", async () => {
  const own = client({ tools: [tool({ name: "clock", input: {}, run: ({ zone }) => `noon ${zone}` })] });
  assert.equal(await own.session("two").ask("tool clock").text(), 'it says "noon utc"');
  assert.match(await own.session("two").ask("tool nobody").text(), /failed with/);
  for (const [question, expected] of [["ask", "you said red"], ["later", "let me see after a while: red, step 1"]]) {
    const turn = own.session("two").ask(question);
    for await (const event of turn) if (event.type === "question") await event.question.answer("red");
    assert.equal(turn.said, expected);
  }
  await own.close();
});

test("an interrupt reaches the function", async () => {
  const own = client();
  const turn = own.session("three").ask("slow");
  for await (const event of turn) if (event.text === "5 ") turn.stop();
  assert.equal(turn.status, "interrupted");
  await until(() => aborted !== "", "the function has noticed");
  assert.match(aborted, /interrupted|disconnected/);
  await own.close();
});

test("failures are failures, with the function's own words where it chose some", async () => {
  const own = client();
  await assert.rejects(own.session("four").ask("refuse").text(), { code: "QUOTA_EXCEEDED", message: "nothing left this month" });
  await assert.rejects(own.session("four").ask("break").text(), { code: "EXECUTION_FAILED" });
  await own.close();
});

test("what is not signed, too old, not for it or not understood is refused", async () => {
  const status = async (request) => (await handler(request)).status;
  assert.equal(await status(new Request("http://f/", { method: "POST", body: "{}" })), 401);
  assert.equal(await status(signed(invoke("i1", "x"), { secret: `whsec_${Buffer.alloc(32, 9).toString("base64")}` })), 401);
  for (const at of [301, -301]) assert.equal(await status(signed(invoke("i2", "x"), { at: Math.floor(Date.now() / 1000) - at })), 401);
  assert.equal(await status(signed(invoke("i3", "x"), { id: "another" })), 200, "the id is signed as it was sent");
  const forged = signed(invoke("i4", "x"));
  assert.equal(await status(new Request(forged.url, { method: "POST", headers: forged.headers, body: JSON.stringify(invoke("i4", "y")) })), 401);
  assert.equal(await status(new Request("http://f/", { method: "GET" })), 405);
  assert.equal(await status(signed({ nothing: true }, { id: "x" })), 422);
  assert.equal(await status(signed(invoke("i5", "x", { payload: { kind: "tool", tool: "t", args: {} } }))), 422);
  assert.equal(await status(signed({ ...invoke("i6", "x"), event: "connect" })), 204);
  const small = agent({ secret: SECRET, maxBody: 100 }, async function* () {});
  assert.equal((await small(signed(invoke("i7", "x".repeat(200))))).status, 413);
  assert.throws(() => agent({ secret: "" }, async function* () {}), /secret/);
});

test("an invocation is answered once, and again only if it broke off", async () => {
  handled = 0;
  assert.deepEqual((await lines(await handler(signed(invoke("j1", "count 1"))))).map(({ t, n }) => [t, n]), [["start", 0], ["text", 1], ["end", 2]]);
  assert.equal((await handler(signed(invoke("j1", "count 1", { attempt: 2 })))).status, 409);
  assert.equal((await handler(signed(invoke("j1", "count 1", { leg: 1, event: "continue", next_n: 7, state: {} })))).status, 200);
  const broken = await handler(signed(invoke("j2", "slow")));
  const reader = broken.body.getReader();
  await reader.read();
  await reader.cancel();
  assert.equal((await handler(signed(invoke("j2", "slow")))).status, 409, "the same attempt");
  await until(async () => {
    const again = await handler(signed(invoke("j2", "count 1", { attempt: 2 })));
    return again.status === 200;
  }, "a later attempt is taken");
});

test("an old and a new secret, Lambda, and the vector of the protocol", async () => {
  const other = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
  const both = agent({ secret: `${other} ${SECRET}` }, async function* () { yield "hi"; });
  assert.equal((await both(signed(invoke("k1", "x")))).status, 200);
  assert.equal((await both(signed(invoke("k2", "x"), { secret: other }))).status, 200);
  const request = signed(invoke("k3", "x"));
  const event = { requestContext: { http: { method: "POST", path: "/invoke" } }, headers: Object.fromEntries(request.headers), body: Buffer.from(await request.text()).toString("base64"), isBase64Encoded: true };
  const result = await toLambda(both)(event);
  assert.deepEqual([result.statusCode, result.body.trim().split("\n").length], [200, 3]);
  const vector = JSON.parse(readFileSync(new URL("../../../../../vectors/asp/frames/T24.json", import.meta.url), "utf8"));
  const at = Number(vector.headers["webhook-timestamp"]);
  await verify(new Headers(vector.headers), new TextEncoder().encode(vector.body), [vector.secret], at);
  await assert.rejects(verify(new Headers(vector.headers), new TextEncoder().encode(`${vector.body} `), [vector.secret], at), { status: 401 });
});
