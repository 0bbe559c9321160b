// The bytes of Alicia as the reference describes them, on nothing but `ws` and `@msgpack/msgpack`.
//
// Written from the reference alone and without the project's own code. It believes nothing: every envelope that comes
// in is checked for its keys (section 4), its class (3), the order of stanza ids (2.3) and the grammar of answers.

import { randomBytes } from "node:crypto";

import { decode, encode } from "@msgpack/msgpack";
import WebSocket from "ws";

import { Failed, ensure, jwt, range, show, sleep } from "./asp_wire.mjs";

export { Failed, ensure, range, show, sleep, encode, decode };

/** Compares all of it, however long it is. */
export function equal(actual, expected, what = "value") {
  ensure(JSON.stringify(actual) === JSON.stringify(expected), `${what}: expected ${show(expected)}, got ${show(actual)}`);
}

export const PATIENCE = 20_000;
export const T = {
  ERROR: 1, USER: 2, ASSISTANT: 3, REASONING: 5, REQUEST: 6, RESULT: 7, ACK: 8, TRANSCRIPTION: 9, STOP: 10, VARIATION: 11,
  CONFIGURATION: 12, START: 13, MEMORY: 14, COMMENTARY: 15, SENTENCE: 16, SYNC: 17, SYNCED: 18, VOTE: 20, VOTED: 21, NOTE: 22,
  NOTED: 23, MEMORISE: 24, MEMORISED: 25, INFO: 26, STATS: 27, UPDATE: 28, WEIGHTS: 29, ELITE: 30, ELITES: 31,
  SUBSCRIBE: 40, UNSUBSCRIBE: 41, SUBSCRIBED: 42, UNSUBSCRIBED: 43,
};
export const STREAMING = ["streaming", "tool_use", "reasoning_steps"];
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const UNSEQUENCED = [2, 8, 12, 18, 21, 23, 25, 26, 27, 28, 31, 42, 43];
const SEQUENCED = [5, 6, 7, 13, 14, 15, 16];

export const fresh = (prefix = "am") => `${prefix}_${[...randomBytes(21)].map((byte) => ALPHABET[byte & 63]).join("")}`;
export const now = () => Date.now();
export const hex = (envelopes) => envelopes.map((envelope) => envelope.raw.toString("hex"));

/** The joining rule of 4.16. */
export function joined(pieces) {
  return pieces.reduce((text, piece) => text + (text && piece && !/\s$/.test(text) && !/^\s/.test(piece) ? " " : "") + piece, "");
}

// Keys of bodies in their order; `?` may be absent, and a letter says what it is: s text, i integer, b boolean, m map,
// a list, f float, t time, x anything.
const SAID = "id:s previousId?:s conversationId:s content:s timestamp?:i";
const SUPERSET = "contents:s role:s sequenceNumber:i createdAt:t updatedAt:t localId?:s serverId?:s";
const BODIES = Object.fromEntries(Object.entries({
  1: "id:s conversationId:s code:i message:s severity:i recoverable:b originatingId?:s",
  2: `${SAID} ${SUPERSET}`,
  3: `${SAID} ${SUPERSET}`,
  5: "id:s messageId:s conversationId:s sequence:i content:s",
  6: "id:s messageId:s conversationId:s toolName:s parameters:m execution:s timeoutMs?:i",
  7: "id:s requestId:s conversationId:s success:b result?:x errorCode?:s errorMessage?:s",
  8: "conversationId:s acknowledgedStanzaId:i success:b",
  12: "conversationId:s lastSequenceSeen?:i features?:a",
  13: "id:s previousId:s conversationId:s answerType?:s plannedSentenceCount?:i",
  14: "id:s messageId:s conversationId:s memoryId:s content:s relevance:f source?:s",
  16: "id?:s previousId:s conversationId:s sequence:i text:s isFinal?:b",
  18: "syncedMessages:a syncedAt:t",
  21: "feedbackId:s targetType:s targetId:s aggregates:m userVote:s",
  23: "noteId:s messageId:s success:b",
  25: "memoryId:s action:s success:b",
  26: "connection:m model:m mcpServers:a",
  27: "messageCount:i toolCallCount:i memoriesUsed:i sessionDuration:i",
  28: "conversationId:s title?:s status?:s updatedAt:t",
  31: "conversationId:s elites:a currentEliteId:s timestamp:i",
  42: "conversationId:s success:b error?:s missedMessages?:i",
  43: "conversationId:s success:b",
}).map(([type, keys]) => [type, keys.split(" ").map((key) => key.match(/^(\w+)(\??):(\w)$/).slice(1))]));
const KINDS = {
  s: (value) => typeof value === "string",
  i: Number.isSafeInteger,
  b: (value) => typeof value === "boolean",
  m: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
  a: Array.isArray,
  f: (value) => typeof value === "number" && value >= 0 && value <= 1,
  t: (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(value),
  x: () => true,
};

/** One that came in, with the bytes that it came in. */
class Envelope {
  constructor(raw) {
    this.raw = raw;
    const value = decode(raw);
    const keys = ["stanzaId", "conversationId", "type", ...("meta" in value ? ["meta"] : []), "body"];
    equal(Object.keys(value), keys, "keys of an envelope");
    Object.assign(this, { stanza: value.stanzaId, conv: value.conversationId, type: value.type, meta: value.meta ?? {}, body: value.body });
    ensure(this.type in BODIES, "a type that a server does not send", value);
    const known = BODIES[this.type];
    equal(Object.keys(this.body), known.map(([key]) => key).filter((key) => key in this.body), `keys of ${this.type}`);
    for (const [key, optional, kind] of known) {
      ensure(optional || key in this.body, `${key} is missing in`, value);
      ensure(!(key in this.body) || KINDS[kind](this.body[key]), `${key} is not ${kind} in`, value);
    }
    if (UNSEQUENCED.includes(this.type)) equal(this.stanza, 0, `stanzaId of ${this.type}`);
    if (SEQUENCED.includes(this.type)) ensure(this.stanza < 0, "no stanzaId", value);
    if (this.body.conversationId) equal(this.body.conversationId, this.conv, "conversationId");
  }

  get final() {
    return this.body.isFinal === true;
  }

  toJSON() {
    return { [`${this.stanza}:${this.type}`]: this.body };
  }
}

/** What a device knows of a conversation, also after it was away. */
class Memory {
  entries = new Map();
  answers = new Map();

  take(envelope) {
    const known = this.entries.get(envelope.stanza);
    if (known) return equal(envelope.raw.toString("hex"), known.raw.toString("hex"), `bytes of ${envelope.stanza} when it came again`);
    this.entries.set(envelope.stanza, envelope);
    const { body, type } = envelope;
    if (type === T.START) {
      for (const [id, answer] of this.answers) ensure(answer.final, `StartAnswer while ${id} is open`, envelope);
      this.answers.set(body.id, { pieces: [], final: false });
    }
    if (type === T.SENTENCE) {
      if (!this.answers.has(body.previousId)) this.answers.set(body.previousId, { pieces: Array(body.sequence - 1).fill(""), final: false });
      const answer = this.answers.get(body.previousId);
      ensure(!answer.final, "a sentence after the final one", envelope);
      equal(body.sequence, answer.pieces.push(body.text), "sequence");
      answer.final = envelope.final;
    }
  }

  get head() {
    return Math.min(0, ...this.entries.keys());
  }
}

/** What came of a user message. */
export class Turn {
  constructor(user, entries) {
    Object.assign(this, { user, entries, types: entries.map((envelope) => envelope.type) });
  }

  of(...types) {
    return this.entries.filter((envelope) => types.includes(envelope.type));
  }

  get answer() {
    return this.of(T.START, T.ASSISTANT)[0].body.id;
  }

  get text() {
    const sentences = this.of(T.SENTENCE).map((envelope) => envelope.body.text);
    return sentences.length ? joined(sentences) : this.of(T.ASSISTANT)[0]?.body.content;
  }
}

/** A connection, with what has come in and was not looked at yet. */
export class Peer {
  inbox = [];
  stanza = 0;
  cursors = new Map();
  asked = [];
  waiting = [];

  static open(world, who = world.somebody(), { memory = new Map(), headers = {}, ...options } = {}) {
    const peer = Object.assign(new Peer(), { world, who, memory });
    const all = who === null ? headers : { Authorization: `Bearer ${who}`, ...headers };
    peer.socket = new WebSocket(world.url, { headers: all, perMessageDeflate: false, maxPayload: 0, ...options });
    return new Promise((resolve, reject) => {
      peer.socket.on("open", () => resolve(peer));
      peer.socket.on("error", reject);
      peer.socket.on("unexpected-response", (_, answer) => reject(new Failed(`status ${answer.statusCode}`)));
      peer.socket.on("message", (data, binary) => {
        try {
          ensure(binary, "a text frame from the server");
          if (!peer.raw) peer.take(new Envelope(data));
          else peer.inbox.push(decode(data));
        } catch (error) {
          peer.broken ??= error;
        }
        peer.wake();
      });
      peer.socket.on("close", (code) => {
        peer.code = code;
        peer.wake();
      });
    });
  }

  wake() {
    for (const look of this.waiting.splice(0)) look();
  }

  take(envelope) {
    const { type, conv, stanza, body } = envelope;
    if (type === T.CONFIGURATION && this.asked.length) {
      const seen = this.asked.shift();
      if (seen) this.cursors.set(conv, -Math.abs(seen));
      else if (!this.cursors.has(conv)) this.cursors.set(conv, body.lastSequenceSeen ?? 0);
    }
    if (type === T.UNSUBSCRIBED) this.cursors.delete(conv);
    if (stanza < 0) {
      if (this.cursors.has(conv)) equal(stanza, this.cursors.get(conv) - 1, `the next stanza ${show(envelope)}`);
      this.cursors.set(conv, stanza);
      this.known(conv).take(envelope);
    }
    this.inbox.push(envelope);
  }

  known(conv) {
    if (!this.memory.has(conv)) this.memory.set(conv, new Memory());
    return this.memory.get(conv);
  }

  /** The next envelope that matches; others wait. */
  async next(matches, patience = PATIENCE) {
    const end = Date.now() + patience;
    for (;;) {
      if (this.broken) throw this.broken;
      const index = this.inbox.findIndex(matches);
      if (index >= 0) return this.inbox.splice(index, 1)[0];
      const where = () => `sent last: ${show(this.sent).slice(0, 300)}; inbox: ${show(this.inbox)}`;
      if (this.code !== undefined) throw new Failed(`closed with ${this.code}; ${where()}`);
      if (Date.now() >= end) throw new Failed(`nothing that was waited for came; ${where()}`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, Math.max(end - Date.now(), 1));
        this.waiting.push(() => (clearTimeout(timer), resolve()));
      });
    }
  }

  /** The next of a type, which has to say this. */
  async expect(type, conv, body = {}) {
    const found = await this.next((envelope) => envelope.type === type && (!conv || envelope.conv === conv));
    for (const [key, value] of Object.entries(body)) equal(found.body[key], value, `${key} of ${show(found)}, after ${show(this.sent)}`);
    return found;
  }

  upcoming(conv) {
    return this.next((envelope) => envelope.conv === conv);
  }

  async ack(stanza, success = true) {
    const found = await this.next((envelope) => envelope.type === T.ACK && envelope.body.acknowledgedStanzaId === stanza);
    equal(found.body.success, success, `success of ${show(found)}, after ${show(this.sent)}; inbox ${show(this.inbox)}`);
    return found;
  }

  async error(codes, recoverable = true, origin = undefined) {
    const found = await this.expect(T.ERROR);
    ensure([codes].flat().includes(found.body.code), "expected", codes, "got", found, "after", this.sent);
    equal(found.body.recoverable, recoverable, `recoverable of ${show(found)}`);
    if (origin !== undefined) equal(found.body.originatingId, origin, "originatingId");
    return found;
  }

  /** An error, and then an acknowledgement without success. */
  async refused(stanza, codes, origin) {
    const error = await this.error(codes, true, origin);
    await this.ack(stanza, false);
    return error;
  }

  /** Everything that was sent before has been dealt with. */
  async barrier() {
    const id = fresh("ac");
    this.send(T.UNSUBSCRIBE, id, { conversationId: id });
    await this.expect(T.UNSUBSCRIBED, id, { success: true });
  }

  /** Nothing at all has come, or comes soon. */
  async silent(conv, settle = 400) {
    await sleep(settle);
    await this.barrier();
    equal(this.inbox.filter((envelope) => !conv || envelope.conv === conv), [], `nothing may come after ${show(this.sent)}`);
  }

  async closed(code) {
    while (this.code === undefined) await this.next(() => false).catch((error) => ensure(this.code !== undefined, error.message));
    if (code !== undefined) equal(this.code, code, "close code");
  }

  bytes(raw) {
    this.sent = Buffer.from(raw).toString("hex");
    this.socket.send(raw);
  }

  send(type, conv, body, { stanza = ++this.stanza, meta } = {}) {
    const value = { stanzaId: stanza, conversationId: conv, type, ...(meta ? { meta } : {}), body };
    this.bytes(encode(value));
    this.sent = value;
    return stanza;
  }

  configure(conv = "", seen = undefined, features = STREAMING) {
    const body = { ...(conv ? { conversationId: conv } : {}), ...(seen === undefined ? {} : { lastSequenceSeen: seen }) };
    this.asked.push(seen);
    return this.send(T.CONFIGURATION, conv, { ...body, clientVersion: "0.1.0", device: "node", features });
  }

  /** 6.2, step by step. */
  async handshake(conv = "", seen = undefined, features = STREAMING) {
    // What was refused has left its mark here.
    this.asked.length = 0;
    this.configure(conv, seen, features);
    const configuration = await this.next(({ type }) => type === T.CONFIGURATION || type === T.ERROR);
    equal(configuration.type, T.CONFIGURATION, `answer ${show(configuration)} to ${show(this.sent)}`);
    conv ||= configuration.conv;
    equal(configuration.conv, conv, "conversationId");
    const ack = await this.upcoming(conv);
    equal([ack.type, ack.body.acknowledgedStanzaId, ack.body.success], [T.ACK, -Math.abs(seen ?? 0) || 0, true], `acknowledgement ${show(ack)}`);
    const replay = [];
    let found;
    while ((found = await this.upcoming(conv)).type !== T.INFO) replay.push(found);
    const info = [found, await this.upcoming(conv), await this.upcoming(conv)];
    equal(info.map(({ type }) => type), [T.INFO, T.STATS, T.ELITES], "what follows the replay");
    return { conv, replay, info, head: configuration.body.lastSequenceSeen ?? 0, configuration };
  }

  async subscribe(conv, success = true, more = {}) {
    this.send(T.SUBSCRIBE, conv, { conversationId: conv, ...more });
    const first = await this.upcoming(conv);
    equal([first.type, first.body.success], [T.SUBSCRIBED, success], `answer ${show(first)} to ${show(this.sent)}`);
    return first.body;
  }

  async unsubscribe(conv) {
    this.send(T.UNSUBSCRIBE, conv, { conversationId: conv });
    return this.expect(T.UNSUBSCRIBED, conv, { success: true });
  }

  say(conv, content, { id = fresh(), previousId, stanza, meta } = {}) {
    const body = { id, ...(previousId ? { previousId } : {}), conversationId: conv, content, timestamp: now() };
    return [id, this.send(T.USER, conv, body, { stanza, meta })];
  }

  async turn(conv, content, options) {
    const [id, stanza] = this.say(conv, content, options);
    const first = await this.upcoming(conv);
    equal([first.type, first.body.acknowledgedStanzaId, first.body.success], [T.ACK, stanza, true], `first ${show(first)} after ${show(this.sent)}`);
    return this.answer(conv, id);
  }

  /** Everything of an answer up to the SessionStats that follow it. */
  async answer(conv, user) {
    const entries = [];
    for (let over = false; ; ) {
      const found = await this.upcoming(conv);
      entries.push(found);
      over ||= found.final || found.type === T.ASSISTANT || (found.type === T.ERROR && found.stanza < 0);
      if (over && found.type === T.STATS) return new Turn(user, entries);
    }
  }

  /** A turn in the middle of its answer: user id, answer id. */
  async streaming(conv, content = "sentences 200 every 50", sentences = 2) {
    const [id, stanza] = this.say(conv, content);
    await this.ack(stanza);
    const start = await this.expect(T.START, conv, { previousId: id });
    for (const _ of range(sentences)) await this.expect(T.SENTENCE, conv);
    return [id, start.body.id];
  }

  finish(conv, answer) {
    return this.next((e) => e.conv === conv && e.type === T.SENTENCE && e.body.previousId === answer && e.final);
  }

  /** An answer has come to its end, now or earlier. */
  async ended(conv, answer) {
    if (!this.known(conv).answers.get(answer)?.final) await this.finish(conv, answer);
  }

  cut() {
    this.socket.terminate();
  }

  async leave() {
    await this.barrier();
    this.socket.close();
  }
}

/** Where the server is, and who may talk to it. */
export class World {
  constructor(base) {
    this.base = base.replace(/\/$/, "");
    this.url = `${this.base.replace(/^http/, "ws")}/api/v1/ws`;
  }

  /** A principal whom no other check knows. */
  somebody() {
    const { PEER_JWT_SECRET, PEER_JWT_ISSUER, PEER_JWT_AUDIENCE } = process.env;
    return jwt(PEER_JWT_SECRET, { iss: PEER_JWT_ISSUER, aud: PEER_JWT_AUDIENCE, sub: fresh("sub"), exp: Math.floor(Date.now() / 1000) + 3600 });
  }

  open(who, options) {
    return Peer.open(this, who, options);
  }

  async met(features = STREAMING, who = undefined) {
    const peer = await this.open(who);
    return [peer, (await peer.handshake("", undefined, features)).conv];
  }

  async pair(features = STREAMING) {
    const [first, conv] = await this.met(features);
    const second = await this.open(first.who);
    await second.handshake(conv, 0, features);
    await first.barrier();
    first.inbox.length = 0;
    return [first, second, conv];
  }

  async http(method, path, who, { status = [200, 201, 202, 204], json, body, headers = {} } = {}) {
    const all = { ...(who ? { Authorization: `Bearer ${who}` } : {}), ...(json === undefined ? {} : { "Content-Type": "application/json" }), ...headers };
    const answer = await fetch(`${this.base}/api/v1${path}`, { method, headers: all, body: json === undefined ? body : JSON.stringify(json) });
    const said = Buffer.from(await answer.arrayBuffer());
    ensure([status].flat().includes(answer.status), `${method} ${path} ${show(json)}: expected ${status}, got ${answer.status} ${said.toString().slice(0, 500)}`);
    if (answer.headers.get("content-type")?.startsWith("application/json")) return JSON.parse(said.toString());
    return said;
  }

  async create(who, json = {}) {
    return (await this.http("POST", "/conversations", who, { json })).id;
  }

  async list(path, who, name) {
    const value = await this.http("GET", path, who);
    return Array.isArray(value) ? value : value[name];
  }

  messages(who, conv, query = "") {
    return this.list(`/conversations/${conv}/messages${query}`, who, "messages");
  }

  async path(who, conv) {
    return (await this.messages(who, conv)).map((row) => row.id);
  }

  async siblings(who, id) {
    return (await this.list(`/messages/${id}/siblings`, who, "siblings")).map((row) => row.id).sort();
  }
}
