// Checks a running server from outside: `acolyte_peer.mjs URL`.
//
// The server and the environment are those of `tests/peers/python/acolyte_peer.py`; so are the checks, as far as they
// concern the main path. What differs is the library beneath: npm `ws`.

import { randomBytes } from "node:crypto";

import WebSocket from "ws";

import { Failed, ensure, equal, range } from "./asp_wire.mjs";

const PATIENCE = 60_000;
const fresh = () => `rpc_${randomBytes(8).toString("hex")}`;
const counted = (count) => range(count).map((number) => `${number + 1} `).join("");

/** Every message has these fields and no others. */
const FIELDS = {
  "status.result": ["status"], "chat.accepted": ["taskId"], "chat.queued": ["position"], "chat.started": [],
  "chat.event": ["event"], "chat.done": ["reply"], "chat.error": ["error", "errorCode", "errorId", "errorMessage"],
  "chat.abort.result": ["aborted", "requestId"], "task.status.result": ["task"], error: ["error"],
};

/** What may follow what, per chat. */
const GRAMMAR = {
  new: ["chat.accepted", "error"],
  "chat.accepted": ["chat.queued", "chat.started", "chat.error"],
  "chat.queued": ["chat.queued", "chat.started", "chat.error"],
  "chat.started": ["chat.event", "chat.done", "chat.error"],
  "chat.event": ["chat.event", "chat.done", "chat.error"],
  "chat.done": [], "chat.error": [], error: [],
};

class Rpc {
  inbox = [];
  chats = new Map();
  waiting = [];

  static open(url, { key, protocols = [], ...options } = {}) {
    const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    const socket = new WebSocket(url, protocols, { headers, perMessageDeflate: false, ...options });
    const rpc = new Rpc();
    rpc.socket = socket;
    return new Promise((resolve, reject) => {
      socket.on("open", () => resolve(rpc));
      socket.on("error", reject);
      socket.on("unexpected-response", (_, answer) => reject(new Failed(`status ${answer.statusCode}`)));
      socket.on("message", (data, binary) => {
        try {
          ensure(!binary, "a binary message from the server");
          rpc.take(JSON.parse(data.toString()));
        } catch (error) {
          rpc.broken = error;
        }
        rpc.wake();
      });
      socket.on("close", (code) => {
        rpc.code = code;
        rpc.wake();
      });
    });
  }

  wake() {
    for (const look of this.waiting.splice(0)) look();
  }

  take(message) {
    const { id, type, ...fields } = message;
    ensure(/^rpc_[a-z0-9]+$/.test(id), "id", id);
    ensure(type in FIELDS, "unknown message", type);
    equal(Object.keys(fields).sort(), FIELDS[type], `fields of ${type}`);
    const chat = this.chats.get(id);
    if (chat !== undefined) {
      ensure(GRAMMAR[chat.last].includes(type), `${type} after ${chat.last}`);
      chat.last = type;
      if (type === "chat.accepted") ensure(/^task_[a-z0-9]+$/.test((chat.task = message.taskId)), "taskId", chat.task);
      if (type === "chat.queued") chat.positions.push(message.position);
      if (type === "chat.event") chat.events.push(message.event);
      if (type === "chat.event" && message.event.type === "text-delta") chat.text += message.event.text;
      if (type === "chat.done") {
        chat.reply = message.reply;
        if (chat.reply.outputStreamed) ensure(chat.text.trim().endsWith(chat.reply.output.trim()), "output", chat.reply.output);
      }
      if (type === "chat.error") chat.error = message;
    }
    this.inbox.push(message);
  }

  /** The next message that matches; others wait. */
  async next(matches) {
    const end = Date.now() + PATIENCE;
    for (;;) {
      if (this.broken) throw this.broken;
      const index = this.inbox.findIndex(matches);
      if (index >= 0) return this.inbox.splice(index, 1)[0];
      ensure(this.code === undefined, `closed with ${this.code}`);
      ensure(Date.now() < end, "nothing that was waited for came", JSON.stringify(this.inbox).slice(0, 500));
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, Math.max(end - Date.now(), 1));
        this.waiting.push(() => (clearTimeout(timer), resolve()));
      });
    }
  }

  /** Waits until something is so. */
  async until(so) {
    const end = Date.now() + PATIENCE;
    while (!so()) {
      if (this.broken) throw this.broken;
      ensure(Date.now() < end, "it does not come to be so");
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000);
        this.waiting.push(() => (clearTimeout(timer), resolve()));
      });
    }
  }

  send(type, payload, id = fresh(), encode = (text) => text) {
    this.socket.send(encode(JSON.stringify({ id, type, payload })));
    return id;
  }

  start(message, { id = fresh(), encode, ...members } = {}) {
    this.chats.set(id, { last: "new", text: "", events: [], positions: [] });
    return this.send("chat.start", { request: { message, history: [], model: "gpt-5-mini", ...members } }, id, encode);
  }

  async finish(id) {
    await this.next((message) => message.id === id && ["chat.done", "chat.error"].includes(message.type));
    return this.chats.get(id);
  }

  chat(message, members) {
    return this.finish(this.start(message, members));
  }

  async running(message = "hang after 1") {
    const id = this.start(message);
    await this.next((m) => m.id === id && m.event?.type === "text-delta");
    return id;
  }

  async answer(id) {
    return this.next((message) => message.id === id);
  }

  async abort(requestId) {
    return (await this.answer(this.send("chat.abort", { requestId }))).aborted;
  }

  async state(taskId) {
    return (await this.answer(this.send("task.status", { taskId }))).task?.state ?? null;
  }

  async closed(code) {
    while (this.code === undefined) await this.next(() => false).catch(() => {});
    equal(this.code, code, "close code");
  }

  close() {
    this.socket.close();
  }
}

const CHECKS = {
  async ac_006_a_key_as_a_subprotocol({ url, ann }) {
    for (const protocols of [[`bearer.${ann}`], ["chat", `bearer.${ann}`, "more"]]) {
      const rpc = await Rpc.open(url, { protocols });
      equal(rpc.socket.protocol, `bearer.${ann}`, "selected");
      equal((await rpc.chat("echo hello")).reply.output, "hello", "output");
      rpc.close();
    }
    for (const protocols of [["chat"], [`bearer.${ann}x`]]) {
      const refused = await Rpc.open(url, { protocols }).then(() => "let in", (error) => error.message);
      equal(refused, "status 401", "a wrong key");
    }
  },

  async ac_005_a_key_in_the_header({ url, ann }) {
    const rpc = await Rpc.open(url, { key: ann });
    const { status } = await rpc.answer(rpc.send("status.get"));
    equal([status.ok, status.protocol_version], [true, "1"], "status");
    rpc.close();
    const refused = await Rpc.open(url, { key: ann, origin: "https://evil.test" }).catch((error) => error.message);
    equal(refused, "status 403", "a foreign page");
    const neighbour = Rpc.open(url, { key: ann, origin: "http://localhost:3000" }).catch((error) => error.message);
    equal(await neighbour, "status 403", "a page of this machine that is not listed");
    const own = new URL(url.replace(/^ws/, "http")).origin;
    (await Rpc.open(url, { key: ann, origin: own })).close();
  },

  async ac_021_chats({ url, ann }) {
    const rpc = await Rpc.open(url, { key: ann });
    const chat = await rpc.chat("count 1000");
    equal([chat.text, chat.reply.output, chat.reply.outputStreamed], [counted(1000), counted(1000), true], "answer");
    const kinds = new Set((await rpc.chat("everything")).events.map((event) => event.type));
    for (const kind of ["status", "usage", "reasoning", "text-delta", "checklist", "tasklist", "tool-call", "tool-output", "tool-result"]) {
      ensure(kinds.has(kind), "missing", kind);
    }
    equal((await rpc.chat("fail internal")).error.errorCode, "E_UNKNOWN", "errorCode");
    equal((await rpc.chat("size 3000000")).text.length, 3_000_000, "a large answer");
    rpc.close();
  },

  async ac_035_the_queue({ url, ann }) {
    const rpc = await Rpc.open(url, { key: ann });
    const first = await rpc.running();
    const ids = range(25).map((number) => rpc.start(`echo ${number}`));
    const full = rpc.start("echo too many");
    equal((await rpc.answer(full)).error, "RPC queue is full (25 queued). Try again shortly.", "full");
    // A chat has its place when it is stored, which may be later than the answer to one that is not.
    await rpc.until(() => ids.every((id) => rpc.chats.get(id).positions.length > 0));
    equal(ids.map((id) => rpc.chats.get(id).positions), range(25).map((number) => [number + 1]), "positions");
    equal(await rpc.abort(first), true, "aborted");
    for (const [number, id] of ids.entries()) {
      const chat = await rpc.finish(id);
      equal([chat.reply.output, chat.positions], [`${number}`, range(number + 1).map((n) => number + 1 - n)], "served");
    }
    rpc.close();
  },

  async ac_041_abort({ url, ann }) {
    const [rpc, other] = [await Rpc.open(url, { key: ann }), await Rpc.open(url, { key: ann })];
    const id = await rpc.running("count 100000 every 1");
    const [waiting, last] = [rpc.start("echo never"), rpc.start("echo next")];
    equal(await other.abort(id), false, "of another connection");
    equal(await rpc.abort(fresh()), false, "unknown");
    equal(await rpc.abort(waiting), true, "waiting");
    equal(await rpc.abort(id), true, "running");
    for (const stopped of [id, waiting]) {
      const { error, task } = rpc.chats.get(stopped);
      equal([error.errorCode, error.errorMessage], ["E_ABORTED", "Request aborted"], "terminal");
      equal(await other.state(task), "cancelled", "state");
    }
    equal((await rpc.finish(last)).reply.output, "next", "the next one");
    const gone = await rpc.running();
    rpc.socket.terminate();
    const end = Date.now() + PATIENCE;
    while ((await other.state(rpc.chats.get(gone).task)) !== "cancelled") ensure(Date.now() < end, "it is never cancelled");
    other.close();
  },

  async ac_067_binary_messages({ url, ann }) {
    const rpc = await Rpc.open(url, { key: ann });
    const encode = (text) => Buffer.from(text);
    equal((await rpc.chat("echo bïnary 🌍", { encode })).reply.output, "bïnary 🌍", "output");
    for (const garbage of ["{oops", Buffer.from([0xff, 0xfe])]) {
      rpc.socket.send(garbage);
      equal((await rpc.answer("rpc_unknown")).error, "Invalid RPC message", "garbage");
    }
    rpc.close();
  },

  async ac_062_a_message_that_is_too_large({ url, ann }) {
    const rpc = await Rpc.open(url, { key: ann });
    equal((await rpc.answer(rpc.send("status.get", { fill: "x".repeat(15 << 20) }))).type, "status.result", "15 MiB");
    rpc.socket.send("x".repeat((16 << 20) + 1));
    await rpc.closed(1009);
  },
};

const results = [];

async function run(title, check, world) {
  let timer;
  const patience = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failed("took too long")), 4 * PATIENCE);
  });
  try {
    await Promise.race([check(world), patience]);
    results.push(true);
    console.log(`ok ${title}`);
  } catch (error) {
    results.push(false);
    const why = error instanceof Failed ? error.message : String(error.stack);
    console.log(`FAIL ${title} ${why.split(/\s+/).join(" ")}`);
  } finally {
    clearTimeout(timer);
  }
}

const [base] = process.argv.slice(2);
const world = { url: `${base.replace(/^http/, "ws")}/v1/rpc`, ann: process.env.PEER_KEY_ANN };
for (const [title, check] of Object.entries(CHECKS)) await run(title, check, world);
const passed = results.filter(Boolean).length;
console.log(`${passed} passed, ${results.length - passed} failed`);
process.exit(passed === results.length ? 0 : 1);
