/**
 * The transcripts of vectors/asp/scenarios, played against the client: what they say of the server is fed to it, what they say of
 * the client it is told to do, and what it tells its user is held against a few lines that know nothing of how it works.
 * Transcripts in which a client does what this one never does (broken frames, reused ids, lies) are about servers alone.
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { AspMachine, STANDARD } from "../dist/asp/machine.js";
import { decodePayload, encodeFrame, END, ERROR, HELLO, INTERRUPT, INVOKE, readFrames, STREAM, TOOL_DEF } from "../dist/asp/codec.js";
import { encodeUtf8 } from "../dist/wire/utf8.js";

const folder = new URL("../../../../../vectors/asp/scenarios/", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".txt")).sort();
const OPCODES = { HELLO, INVOKE, STREAM, INTERRUPT, TOOL_DEF, ERROR };
const CID = "7f8a0000000000000000000000000001";

class ServersOnly extends Error {}

/** One connection of a transcript, and what its user must be told. */
class Peer {
  constructor(features, tools = []) {
    this.machine = new AspMachine({ features, tools, random: () => 0.5 });
    this.features = features;
    this.now = 1_000_000;
    /** Of each request by the number in the transcript: its id here, and what the user knows. */
    this.requests = new Map();
    this.tokens = 0;
    this.machine.connect();
    assert.deepEqual(this.drain().map(({ type }) => type), ["connect"]);
    this.sent = this.input({ type: "opened" });
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

  pass(ms) {
    const end = this.now + ms;
    for (let wake = this.machine.wake(); wake !== undefined && wake <= end; wake = this.machine.wake()) {
      this.now = Math.max(this.now, wake);
      for (const { opcode } of this.frames(this.input({ type: "timeout" }))) if (opcode === HELLO) this.feed("HELLO", 0, 0, { op: "pong", nonce: "alive" });
    }
    this.now = end;
  }

  frames(outputs) {
    return outputs.filter(({ type }) => type === "send").flatMap(({ data }) => [...readFrames(data)]);
  }

  accept(more = {}) {
    const resume = this.features.includes("resume") ? { resume: { token: `tok-${(this.tokens += 1)}`, window_s: 60 } } : {};
    return this.feed("HELLO", 0, 0, { op: "accept", ver: 1, cid: CID, features: this.features, enc: "json", ...resume, ...more });
  }

  feed(opcode, id, flags, payload) {
    const bytes = payload === undefined ? new Uint8Array() : encodeUtf8(typeof payload === "string" ? payload : JSON.stringify(payload));
    return this.input({ type: "message", data: encodeFrame(OPCODES[opcode], flags, id, bytes) });
  }
}

class Player {
  peers = new Map();
  vars = new Map([["cid", CID]]);
  steps = 0;
  current = "a";
  /** Features of the next HELLO, until it is answered. */
  greeting = false;

  get peer() {
    const peer = this.peers.get(this.current);
    if (peer) return peer;
    const bare = new Peer([]);
    this.peers.set(this.current, bare);
    return bare;
  }

  line(line) {
    const [, word, rest] = /^(\S+)\s*(.*)$/.exec(line);
    if (/^\+\d/.test(word)) return this.peer.pass(duration(word));
    switch (word) {
      case "agent": case "tool": case "limit": case "session-limit": case "principal": case "token": case "commit": case "refuse":
      case "fail-appends": case "recovery": case "also-agent": case "E": case "E!":
        return undefined;
      case "use":
        this.current = rest;
        return undefined;
      case "connect":
        if (rest.includes("?")) throw new ServersOnly("a query");
        this.current = rest.trim() || "b";
        return undefined;
      case "hello":
        return this.hello(rest);
      case "cut":
        return this.close(1006);
      case "close":
        // Whoever closes by its own will is another kind of client.
        throw new ServersOnly("closes by hand");
      case "resume":
        return this.resume(rest);
      case "repeat": {
        const [, times, what] = /^(\d+) (.*)$/.exec(rest);
        for (let i = 1; i <= Number(times); i += 1) this.line(what.replaceAll("{i}", i));
        return undefined;
      }
      case "C>":
        for (const frame of split(rest)) this.client(frame);
        return undefined;
      case "S<": case "S<?": case "S<~": case "S<+":
        for (const frame of split(rest)) this.server(frame);
        return undefined;
      default:
        throw new ServersOnly(word);
    }
  }

  hello(rest) {
    const [, names, json] = /^([^{]*)(\{.*)?$/.exec(rest);
    const features = names.split(/[\s,]+/).filter(Boolean).flatMap((name) => (name === "standard" ? [...STANDARD] : [name]));
    if (features.includes("deflate") || features.includes("zstd")) throw new ServersOnly("compression");
    const peer = new Peer(features, json ? (JSON.parse(json).tools ?? []) : []);
    this.peers.set(this.current, peer);
    this.checkHello(peer, features);
    if (features.length > 0) peer.accept();
    assert.equal(peer.machine.link, "up");
  }

  checkHello(peer, features) {
    const [hello] = peer.frames(peer.sent);
    if (features.length === 0) return assert.equal(hello, undefined);
    assert.equal(hello.opcode, HELLO);
    const { value } = decodePayload(HELLO, hello.flags, false, hello.payload);
    assert.deepEqual(value.features, features);
    return value;
  }

  close(code) {
    const { peer } = this;
    peer.input({ type: "closed", code });
    for (const [number, request] of peer.requests) {
      // Without resume, and where the user had stopped it, it is over.
      if (!peer.features.includes("resume") || request.interrupted) peer.requests.delete(number);
    }
    this.steps += 1;
  }

  resume(rest) {
    const { peer } = this;
    const said = rest ? JSON.parse(rest) : {};
    if (Object.keys(said).some((key) => key !== "next")) throw new ServersOnly("a resume that is wrong");
    while (peer.machine.link !== "dialing") {
      const wake = peer.machine.wake();
      if (wake === undefined) throw new ServersOnly("does not come back");
      peer.now = Math.max(peer.now, wake);
      peer.input({ type: "timeout" });
    }
    peer.sent = peer.input({ type: "opened" });
    const hello = this.checkHello(peer, peer.features);
    if (!hello.resume) throw new ServersOnly("nothing to resume");
    const next = Object.fromEntries([...peer.requests.values()].filter(({ ended }) => !ended).map(({ id, next }) => [id, next]));
    assert.deepEqual(hello.resume, { cid: CID, token: `tok-${peer.tokens}`, next }, "asks for what comes after what was told");
    for (const [number, n] of Object.entries(said.next ?? {})) {
      if (peer.requests.get(Number(number))?.next !== n) throw new ServersOnly("a position that is not its own");
    }
    this.greeting = true;
    this.steps += 1;
  }

  client(text) {
    // The transport answers pings by itself.
    if (text === "pong") return;
    const { opcode, number, payload, flags } = parse(text);
    const { peer } = this;
    if (flags !== undefined) throw new ServersOnly("flags by hand");
    if (opcode === "HELLO") {
      if (this.peers.has(this.current) || payload.op !== undefined) throw new ServersOnly("a HELLO of another kind");
      const made = new Peer(payload.features ?? []);
      this.peers.set(this.current, made);
      this.checkHello(made, payload.features ?? []);
      this.greeting = true;
      return;
    }
    if (this.greeting) throw new ServersOnly("does not wait for the accept");
    const known = peer.requests.get(number);
    if (opcode === "INTERRUPT") {
      if (payload?.mode && payload.mode !== "cancel") return;
      if (number === 0) {
        for (const request of peer.requests.values()) request.interrupted = true;
        peer.machine.interruptAll(payload?.reason);
      } else if (known && !known.ended) {
        known.interrupted = true;
        peer.machine.interrupt(known.id, payload?.reason);
        const [frame] = peer.frames(peer.drain());
        assert.deepEqual([frame?.opcode, frame?.id], [INTERRUPT, known.id]);
      }
      peer.drain();
      this.steps += 1;
      return;
    }
    if (opcode !== "INVOKE" || number === 0) throw new ServersOnly(opcode);
    if (known && !known.ended) throw new ServersOnly("an id that is in use");
    const invoke = typeof payload === "string" ? { kind: "chat", input: payload } : this.fill(payload, "INVOKE");
    if (typeof invoke !== "object" || Array.isArray(invoke)) throw new ServersOnly("no map");
    let id;
    if (invoke.kind === "result" || invoke.kind === "reply") {
      const parent = peer.requests.get(invoke.parent);
      const key = invoke.call_id ?? invoke.ask_id;
      if (!parent || parent.ended || !parent.open.delete(key)) throw new ServersOnly("answers what is not open");
      id = invoke.kind === "result"
        ? peer.machine.answerCall(parent.id, key, invoke.ok ? { ok: true, output: invoke.output } : { ok: false, error: invoke.error ?? { name: "X", msg: "" } }, peer.now)
        : peer.machine.answerAsk(parent.id, key, invoke.text === undefined ? { data: invoke.data ?? null } : { text: invoke.text }, peer.now);
    } else id = peer.machine.invoke(invoke, peer.now);
    assert.equal(typeof id, "number");
    const [frame] = peer.frames(peer.drain());
    if (!frame) throw new ServersOnly("more than the server has places for");
    assert.deepEqual([frame.opcode, frame.id], [INVOKE, id]);
    const sent = decodePayload(INVOKE, frame.flags, true, frame.payload).value;
    assert.equal(sent.kind, invoke.kind);
    if (invoke.input !== undefined) assert.deepEqual(sent.input, invoke.input);
    peer.requests.set(number, { id, next: 0, open: new Set(), seen: new Set(), interrupted: false, ended: false, repeatable: invoke.idem !== undefined });
    this.steps += 1;
  }

  server(text) {
    if (/^(ping|pong|nothing|rest)\b/.test(text)) return;
    const { peer } = this;
    if (/^lost/.test(text)) return this.close(1006);
    const closed = /^close (\d+)/.exec(text);
    if (closed) return this.close(Number(closed[1]));
    const { opcode, number, payload, flags = 0, any } = parse(text);
    if (any) throw new ServersOnly("any payload");
    if (opcode === "HELLO") {
      if (payload.op !== "accept") return void peer.feed("HELLO", 0, 0, this.fill(payload, "HELLO"));
      if (!this.greeting) throw new ServersOnly("an accept of its own");
      this.greeting = false;
      const filled = this.fill(payload, "HELLO");
      const lost = (filled.lost ?? []).map((id) => peer.requests.get(id)?.id ?? id);
      delete filled.resume;
      const resumed = filled.resumed === true;
      const outputs = peer.accept({ ...filled, features: filled.features ?? peer.features, ...(filled.lost ? { lost } : {}) });
      const accepted = outputs.find(({ event }) => event?.type === "accepted");
      assert.equal(accepted.event.resumed, resumed);
      for (const [key, request] of peer.requests) {
        const gone = !resumed || lost.includes(request.id);
        if (!gone || request.ended) continue;
        const ended = outputs.some(({ event }) => event?.type === "ended" && event.id === request.id);
        assert.equal(ended, !request.repeatable, "what is lost ends, unless it can be asked for again");
        if (ended) peer.requests.delete(key);
      }
      this.steps += 1;
      return;
    }
    const request = peer.requests.get(number);
    const filled = this.fill(payload, opcode, request);
    const outputs = peer.feed(opcode, number === 0 ? 0 : (request?.id ?? 60_000), flags, filled);
    const told = outputs.filter(({ type }) => type === "event").map(({ event }) => event);
    this.steps += 1;
    if (opcode === "TOOL_DEF") return;
    if (number === 0) {
      if (opcode === "ERROR") assert.ok(told.some(({ type }) => type === "error" || type === "authExpiring"), text);
      return;
    }
    if (!request || request.ended) return assert.deepEqual(told, [], `nothing is told of what is over: ${text}`);
    const ends = opcode === "ERROR" || filled === undefined || flags & END || filled.t === "end";
    if (ends) {
      request.ended = true;
      const [end] = told.filter(({ type }) => type === "ended");
      assert.equal(end?.id, request.id, text);
      if (opcode === "ERROR" && filled.code > 0) assert.equal(end.ending.error.code, filled.code);
      else if (opcode === "ERROR") assert.equal(end.ending.end.finish, filled.finish);
      else if (filled?.t === "end") assert.equal(end.ending.end.finish, filled.finish);
      return;
    }
    const n = typeof filled === "object" ? filled.n : undefined;
    const key = filled.call_id !== undefined && filled.t === "call" ? filled.call_id : filled.t === "ask" ? filled.ask_id : undefined;
    const fresh = !request.interrupted && (n === undefined || n >= request.next) && !(key !== undefined && request.seen.has(key));
    if (n !== undefined && n >= request.next && !request.interrupted) request.next = n + 1;
    if (key !== undefined && fresh) {
      request.seen.add(key);
      request.open.add(key);
    }
    const records = told.filter(({ type }) => type === "record");
    assert.equal(records.length, fresh ? 1 : 0, text);
    if (!fresh) return;
    assert.equal(records[0].id, request.id);
    if (typeof filled === "string") assert.deepEqual(records[0].record, { t: "text", d: filled });
    else for (const [member, value] of Object.entries(filled)) if (filled.t !== "usage") assert.deepEqual(records[0].record[member], value, text);
  }

  /** A payload with nothing left open: what the transcript does not say is made up. */
  fill(payload, opcode, request) {
    if (payload === undefined || typeof payload === "string") return payload;
    const own = (value, key) => {
      if (value === "*") return ["n", "code", "pos", "retry_ms", "exp", "window_s", "wall_ms", "cpu_ms", "queue_ms", "first_ms"].includes(key) ? 1 : key === "finish" ? "complete" : "any";
      if (typeof value === "string" && value.startsWith("$")) {
        if (!this.vars.has(value.slice(1))) this.vars.set(value.slice(1), key === "cid" ? value.slice(1).padEnd(20, "0") : value.slice(1));
        return this.vars.get(value.slice(1));
      }
      if (typeof value === "string" && value.startsWith("~")) return value.slice(1);
      if (Array.isArray(value)) return value.map((item) => own(item));
      if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== "!absent").map(([name, item]) => [name, own(item, name)]));
      return value;
    };
    const filled = own(payload);
    if (opcode === "STREAM") {
      const needed = { start: { run: "r" }, status: { state: "running" }, text: { d: "x" }, reason: { d: "x" }, tool: { call_id: "t", name: "t", phase: "start" }, call: { call_id: "c", name: "n", args: {}, timeout_ms: 30000 }, ask: { ask_id: "a", text: "?" }, data: { value: 1 }, end: { finish: "complete" }, notice: { level: "info", text: "" } };
      const numbered = this.peer.features.includes("resume") && request && filled.t !== "status" && filled.n === undefined ? { n: request.next } : {};
      return { ...needed[filled.t], ...numbered, ...filled };
    }
    if (opcode === "ERROR") return { code: 2300, name: "X", msg: "m", retry: false, ...filled };
    if (opcode === "TOOL_DEF") return { ...filled, ...(Array.isArray(filled.tools) ? { tools: filled.tools.map((tool) => ({ input_schema: {}, ...tool })) } : {}) };
    return filled;
  }
}

const split = (text) => text.split(/ ; (?=[A-Z_]+ )/);

function parse(text) {
  const found = /^([A-Z_]+)(?: #(\d+))?(?: \[([^\]]*)\])?(?: (json|msgpack|hex))?(?: (.*))?$/.exec(text.trim());
  if (!found || !(found[1] in OPCODES) || found[4] === "msgpack" || found[4] === "hex") throw new ServersOnly(text);
  const [, opcode, number = "0", named, , rest] = found;
  let flags;
  if (named !== undefined) {
    flags = 0;
    for (const flag of named.split(",")) {
      if (/^0x/.test(flag)) flags |= Number(flag);
      else if (flag === "END") flags |= END;
      else if (flag === "REPLAY") flags |= 0x20;
      else if (flag === "JSON") flags |= 4;
      else throw new ServersOnly(flag);
    }
  }
  return { opcode, number: Number(number), flags, any: rest === "...", payload: rest === undefined || rest === "..." ? undefined : JSON.parse(rest) };
}

function duration(word) {
  const [, number, unit] = /^\+(\d+)(ms|s)$/.exec(word);
  return Number(number) * (unit === "s" ? 1000 : 1);
}

let played = 0;
let steps = 0;
for (const file of files) {
  test(file, (context) => {
    const player = new Player();
    try {
      for (const [index, line] of readFileSync(new URL(file, folder), "utf8").split("\n").entries()) {
        if (line.trim() === "" || line.startsWith("#")) continue;
        try {
          player.line(line.trim());
        } catch (error) {
          if (error instanceof assert.AssertionError) error.message = `line ${index + 1}: ${line}\n${error.message}`;
          throw error;
        }
      }
    } catch (error) {
      if (!(error instanceof ServersOnly)) throw error;
      // Up to here everything held.
      steps += player.steps;
      return context.diagnostic(`about servers from here: ${error.message}`);
    }
    steps += player.steps;
    played += 1;
    return undefined;
  });
}

test("a third of the transcripts concern clients to their end, and many lines of the others", (context) => {
  context.diagnostic(`${played} of ${files.length} to their end, ${steps} steps`);
  assert.ok(played >= 32 && steps >= 850, `${played} of ${files.length}, ${steps} steps`);
});
