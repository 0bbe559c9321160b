// An agent as an HTTP function behind an ASP relay, with nothing but Node.
//
//     FUNCTION_SECRET=whsec_... node function.mjs [port]

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const MAX_BODY = 16 * 1024 * 1024;
const MAX_SKEW_S = 300;
const PING_MS = 10_000;
const MEMORY_MS = 15 * 60_000;
const MAX_MEMORY = 100_000;
const DELAY_MS = Number(process.env.FUNCTION_DELAY_MS ?? 20);

// --- Who asks: a signature over id, time and the body as it came ------------------------------------------

/** An answer without records: a status and what is wrong. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Several secrets, apart by spaces, while one takes the place of another. */
function readKeys(text) {
  const secrets = text.split(/\s+/).filter(Boolean);
  if (secrets.length === 0) throw new Error("set FUNCTION_SECRET to the secret that the relay signs with");
  return secrets.map((secret) => {
    if (!secret.startsWith("whsec_")) throw new Error("a secret begins with whsec_");
    return Buffer.from(secret.slice("whsec_".length), "base64");
  });
}

function verify(keys, headers, body, nowS) {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures } = headers;
  if (!id || !timestamp || !signatures) {
    throw new Refused(401, "webhook-id, webhook-timestamp and webhook-signature are needed");
  }
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new Refused(401, "webhook-timestamp must be whole Unix seconds");
  if (Math.abs(nowS - Number(timestamp)) > MAX_SKEW_S) {
    throw new Refused(401, `signed more than ${MAX_SKEW_S} s from now`);
  }
  const given = signatures.split(/\s+/).slice(0, 16);
  const tags = given.filter((entry) => entry.startsWith("v1,")).map((entry) => Buffer.from(entry.slice(3), "base64"));
  let fits = false;
  for (const key of keys) {
    const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    for (const tag of tags) fits = (tag.length === expected.length && timingSafeEqual(tag, expected)) || fits;
  }
  if (!fits) throw new Refused(401, "no signature fits");
}

// --- What was asked before --------------------------------------------------------------------------------

/**
 * Remembers legs of invocations, so that none is answered twice. An attempt that broke off may be followed by the
 * next one; anything else that repeats is a duplicate.
 */
class Seen {
  legs = new Map(); // "leg inv" -> { state, attempt, at }, oldest first

  begin(key, attempt) {
    const now = performance.now();
    for (const [oldest, { at }] of this.legs) {
      if (this.legs.size < MAX_MEMORY && now - at <= MEMORY_MS) break;
      this.legs.delete(oldest);
    }
    const { state, attempt: last } = this.legs.get(key) ?? { state: "broken", attempt: 0 };
    if (state !== "broken" || attempt <= last) throw new Refused(409, "this invocation was taken already");
    this.put(key, "running", attempt);
  }

  leave(key, state) {
    const leg = this.legs.get(key);
    if (leg) this.put(key, state, leg.attempt);
  }

  put(key, state, attempt) {
    this.legs.delete(key);
    this.legs.set(key, { state, attempt, at: performance.now() });
  }
}

// --- What was asked: the text of a chat -------------------------------------------------------------------

function inputText(body) {
  if (body.payload_b64 !== undefined) return Buffer.from(body.payload_b64, "base64").toString();
  let { payload } = body;
  if (payload !== null && typeof payload === "object" && !Array.isArray(payload)) {
    const kind = payload.kind ?? (payload.tool === undefined ? "chat" : "tool");
    payload = payload.input ?? payload.prompt ?? payload.message;
    if (kind !== "chat" || payload === undefined) throw new Refused(422, "this function answers chats only");
  }
  if (Array.isArray(payload)) {
    payload = payload.map((part) => (part?.type === "text" ? part.text : "")).join("");
  }
  if (typeof payload !== "string") throw new Refused(422, "the input must be text");
  return payload;
}

// --- The relay, as a function calls it --------------------------------------------------------------------

/** GET, or POST with a document; gives status and JSON. */
async function callRelay(body, url, { document, timeoutMs = 10_000, signal } = {}) {
  const timeout = AbortSignal.timeout(timeoutMs);
  const response = await fetch(url, {
    method: document ? "POST" : "GET",
    redirect: "error",
    headers: {
      authorization: `Bearer ${body.push.token}`,
      ...(document && { "content-type": "application/json" }),
    },
    body: document && JSON.stringify(document),
    signal: signal ? either(signal, timeout) : timeout,
  });
  const text = await response.text();
  return { status: response.status, said: response.ok && text ? JSON.parse(text) : undefined };
}

/** A signal that comes with the first of two; `AbortSignal.any` is younger than Node 18. */
function either(first, second) {
  const both = new AbortController();
  for (const signal of [first, second]) {
    if (signal.aborted) both.abort(signal.reason);
    signal.addEventListener("abort", () => both.abort(signal.reason), { once: true, signal: both.signal });
  }
  return both.signal;
}

/** Repeats what did not arrive; the relay knows it again by `idem`. */
async function push(body, idem, frames) {
  let outcome;
  for (let attempt = 0; attempt < 4; attempt += 1) {
    try {
      ({ status: outcome } = await callRelay(body, body.push.url, { document: { idem, frames } }));
      if (outcome < 500 && outcome !== 429) break;
    } catch (error) {
      outcome = error.message;
    }
    await sleep(200 * 2 ** attempt);
  }
  if (outcome !== 202) throw new Error(`the relay refused a push: ${outcome}`);
}

// --- Cancelling: by a broken connection, by /interrupt, by asking the relay -------------------------------

/** Nobody wants the answer any more. */
class Cancelled extends Error {}

/** One invocation while it runs. */
class Run {
  static running = new Map();

  cause = undefined;
  over = false;
  stop = new AbortController();

  constructor(body) {
    this.body = body;
    this.inv = body.inv;
    Run.running.set(this.inv, this);
    if (body.cancel && body.push) this.poll().catch(() => {});
  }

  cancel(cause) {
    if (this.cause || this.over) return;
    this.cause = cause;
    console.error(`cancelled inv=${this.inv} by=${cause}`);
    this.stop.abort();
  }

  end() {
    this.over = true;
    this.stop.abort();
    if (Run.running.get(this.inv) === this) Run.running.delete(this.inv);
  }

  /** Waits, unless it is cancelled meanwhile. */
  async pause(milliseconds) {
    await sleep(milliseconds, undefined, { signal: this.stop.signal }).catch(() => {});
    if (this.cause) throw new Cancelled();
  }

  async poll() {
    const { url, poll_ms: every = 1000 } = this.body.cancel;
    const { signal } = this.stop;
    for (;;) {
      await sleep(every, undefined, { signal });
      const { status, said } = await callRelay(this.body, url, { signal }).catch(() => ({}));
      if (status === 200 && said.cancelled) this.cancel("poll");
    }
  }
}

// --- Answering: records, numbered over all legs -----------------------------------------------------------

const UNNUMBERED = new Set(["error", "suspend", "ping", "tool_def"]);

class Records {
  constructor(run) {
    this.run = run;
    this.nextN = run.body.next_n ?? 0;
  }

  async record(t, members = {}) {
    if (this.run.cause && members.finish !== "interrupted") throw new Cancelled();
    const n = UNNUMBERED.has(t) ? {} : { n: this.nextN++ };
    await this.send({ t, ...n, ...members });
  }
}

/** Records in the body of the response, one per line; the head is sent with the first. */
class Response extends Records {
  headers = {};

  constructor(run, response) {
    super(run);
    this.response = response;
    response.on("close", () => {
      clearInterval(this.keepAlive);
      if (!response.writableFinished) run.cancel("abort");
    });
  }

  async send(record) {
    if (!this.response.headersSent) {
      this.response.writeHead(200, { "content-type": "application/x-ndjson", ...this.headers });
      this.keepAlive = setInterval(() => this.ping(), PING_MS);
    }
    this.keepAlive.refresh();
    // Waits for a slow reader instead of piling lines up.
    if (!this.response.write(`${JSON.stringify(record)}\n`)) await this.drained();
  }

  ping() {
    if (!this.response.writableNeedDrain) this.response.write('{"t":"ping"}\n');
  }

  finish() {
    clearInterval(this.keepAlive);
    this.response.end();
  }

  async drained() {
    await new Promise((resolve) => {
      this.response.once("drain", resolve);
      this.response.once("close", resolve);
    });
  }
}

/** Records by push, after the response has been 202. */
class Pushes extends Records {
  count = 0;

  async send(record) {
    this.count += 1;
    const frame = { type: "STREAM", rid: this.run.body.rid, payload: record };
    await push(this.run.body, `${this.run.inv}-${this.count}`, [frame]);
  }
}

// --- The agent --------------------------------------------------------------------------------------------

async function speak(records, text) {
  const words = text.match(/\S+\s*|\s+/g) ?? [];
  for (const word of words) {
    await records.record("text", { d: word });
    await records.run.pause(DELAY_MS);
  }
  await records.record("usage", { output_words: words.length });
  await records.record("end", { finish: "complete" });
}

async function echo(records, text) {
  await records.record("start", { run: records.run.inv });
  await speak(records, text);
}

async function call(response, argument) {
  const [name, json] = cut(argument);
  let args;
  try {
    args = JSON.parse(json || "{}");
  } catch {
    args = undefined;
  }
  if (args === null || typeof args !== "object" || Array.isArray(args)) {
    const msg = "arguments must be a JSON object";
    return response.record("error", { code: 2302, name: "INVALID_ARGS", msg, retry: false });
  }
  await response.record("start", { run: response.run.inv });
  await response.record("call", { call_id: "call-1", name, args, timeout_ms: 30_000 });
  await response.record("suspend", { state: { waits_for: "call-1" } });
}

async function ask(response, question) {
  await response.record("start", { run: response.run.inv });
  await response.record("ask", { ask_id: "ask-1", text: question });
  await response.record("suspend", { state: { waits_for: "ask-1" } });
}

/** The next leg, after `call` or `ask`. */
async function goOn(response) {
  const { state, answers = [] } = response.run.body;
  const answer = answers.find(({ call_id, ask_id }) => (call_id ?? ask_id) === state.waits_for);
  if (answer) return speak(response, told(answer));
  const msg = "the answer is missing";
  await response.record("error", { code: 2400, name: "EXECUTION_FAILED", msg, retry: false });
}

/** Asks, and waits for the answer with the response kept open. */
async function hold(response, question) {
  const { body, stop } = response.run;
  await response.record("start", { run: response.run.inv });
  await response.record("ask", { ask_id: "ask-1", text: question });
  for (let after = 0; ; await response.run.pause(50)) {
    const url = `${body.cancel.url}/answers?after=${after}`;
    const { status, said } = await callRelay(body, url, { timeoutMs: 30_000, signal: stop.signal });
    if (status !== 200) throw new Error(`the relay gave no answers: ${status}`);
    if (said.cancelled) response.run.cancel("poll");
    for (const answer of said.answers) {
      after = Math.max(after, answer.k);
      if (answer.ask_id === "ask-1") return speak(response, told(answer));
    }
  }
}

function told({ ok, text, output, data, error }) {
  if (!ok) return `no answer: ${error?.name ?? "unknown"}`;
  return text === undefined ? `the result is ${JSON.stringify(output ?? data ?? null)}` : `you said: ${text}`;
}

async function wait(response, seconds) {
  await response.record("start", { run: response.run.inv });
  for (const until = performance.now() + Number(seconds) * 1000; performance.now() < until; ) {
    await response.record("status", { state: "running" });
    await response.run.pause(100);
  }
  await speak(response, `waited ${seconds} s`);
}

async function tool(response, how) {
  const clock = { name: "clock", description: "Tells the time", input_schema: { type: "object" } };
  const definition = { op: "add", tools: [clock] };
  await response.record("start", { run: response.run.inv });
  if (how === "inline") {
    await response.record("tool_def", definition);
  } else {
    const frame = { type: "TOOL_DEF", rid: 0, payload: definition };
    await push(response.run.body, `${response.run.inv}-tool`, [frame]);
  }
  await speak(response, "there is a new tool");
}

async function cpu(response) {
  const began = process.cpuUsage();
  let total = 0n;
  for (let number = 0n; number < 200_000n; number += 1n) total += number * number;
  const { user, system } = process.cpuUsage(began);
  response.headers["x-cpu-time"] = `${((user + system) / 1000).toFixed(3)}ms`;
  await echo(response, `the sum is ${total}`);
}

async function fail(response) {
  const msg = "this function was asked to fail";
  await response.record("error", { code: 2400, name: "EXECUTION_FAILED", msg, retry: false });
}

async function die(response) {
  await response.record("start", { run: response.run.inv });
  await response.record("text", { d: "I am " });
  await response.record("text", { d: "about to " });
  throw new Error("died, as it was asked to");
}

async function cold(response, milliseconds) {
  await response.run.pause(Number(milliseconds));
  await echo(response, `warm after ${milliseconds} ms`);
}

/** Runs after the response. */
async function later(records, text) {
  try {
    await echo(records, text);
  } catch (error) {
    if (!(error instanceof Cancelled)) console.error(`failed inv=${records.run.inv}: ${error.message}`);
  } finally {
    records.run.end();
  }
}

function cut(text) {
  const at = text.indexOf(" ");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

const commands = new Map(Object.entries({ echo, call, ask, hold, wait, tool, cpu, fail, die, cold }));

// --- HTTP -------------------------------------------------------------------------------------------------

const seen = new Seen();

async function readBody(request, keys) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MAX_BODY) throw new Refused(413, `at most ${MAX_BODY} bytes are taken`);
    chunks.push(chunk);
  }
  const raw = Buffer.concat(chunks);
  verify(keys, request.headers, raw, Date.now() / 1000);
  try {
    const body = JSON.parse(raw);
    if (typeof body?.inv === "string") return { event: "invoke", ...body };
  } catch {
    // Refused below.
  }
  throw new Refused(400, "the body must be a JSON object with inv");
}

async function invoke(body, httpResponse) {
  const key = `${body.leg ?? 0} ${body.inv}`;
  const text = body.event === "invoke" ? inputText(body) : "";
  seen.begin(key, body.attempt ?? 1);
  const run = new Run(body);
  const [name, argument] = cut(text);
  if (name === "later") {
    httpResponse.writeHead(202).end();
    seen.leave(key, "finished");
    return later(new Pushes(run), argument);
  }
  let state = "broken";
  try {
    const response = new Response(run, httpResponse);
    try {
      const command = commands.get(name);
      if (body.event === "continue") await goOn(response);
      else if (command) await command(response, argument);
      else await echo(response, text);
    } catch (error) {
      // Whatever was under way when it was cancelled, it was stopped by that.
      if (!run.cause) throw error;
      if (run.cause === "abort") return;
      await response.record("end", { finish: "interrupted" });
    }
    state = "finished";
    response.finish();
  } catch (error) {
    console.error(`failed inv=${run.inv}: ${error.message}`);
    // What was written goes out, then the connection ends in the middle of the answer.
    httpResponse.socket?.destroySoon();
  } finally {
    seen.leave(key, state);
    run.end();
  }
}

/** Every path is served, so that one URL for all events works as well. */
async function handle(keys, request, response) {
  try {
    if (request.method !== "POST") throw new Refused(405, "only POST is served");
    const body = await readBody(request, keys);
    if (body.event === "invoke" || body.event === "continue") return await invoke(body, response);
    if (body.event === "interrupt") Run.running.get(body.inv)?.cancel("interrupt");
    response.writeHead(204).end();
  } catch (error) {
    const status = error instanceof Refused ? error.status : 500;
    const document = { error: { msg: error instanceof Refused ? error.message : "it broke" } };
    if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(document));
  }
}

try {
  const keys = readKeys(process.env.FUNCTION_SECRET ?? "");
  const server = createServer((request, response) => handle(keys, request, response));
  server.listen(Number(process.argv[2] ?? process.env.PORT ?? 8787), "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${server.address().port}`);
  });
} catch (error) {
  console.error(`function.mjs: ${error.message}`);
  process.exitCode = 1;
}
