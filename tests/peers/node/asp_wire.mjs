// The bytes of ASP as the reference describes them, on nothing but `ws` and Node.
//
// Written from the reference alone and without the project's own code. It believes nothing: every frame that
// comes in is checked for what section 3 says.

import { createHmac } from "node:crypto";
import { connect } from "node:net";
import { inflateRawSync } from "node:zlib";

import WebSocket from "ws";

export const [HELLO, INVOKE, STREAM, INTERRUPT, TOOL_DEF, ERROR] = [1, 2, 3, 4, 5, 6];
export const [END, MORE, COMPRESSED, REPLAY] = [0x01, 0x02, 0x10, 0x20];
export const [ENC_JSON, ENC_RAW, ENC_MSGPACK] = [0x04, 0x08, 0x0c];
export const STANDARD = ["flags", "events", "frag", "credit", "push", "client_tools", "resume", "ping"];
export const PATIENCE = 15_000;

export class Failed extends Error {}

export function ensure(condition, ...why) {
  if (!condition) throw new Failed(why.map((part) => (typeof part === "string" ? part : show(part))).join(" "));
}

export function equal(actual, expected, what = "value") {
  ensure(show(actual) === show(expected), `${what}: expected ${show(expected)}, got ${show(actual)}`);
}

export const show = (value) => (value === undefined ? "undefined" : JSON.stringify(value)).slice(0, 2000);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const range = (count) => Array.from({ length: count }, (_, index) => index);

/** One frame, with the length that it really has. */
export function frame(opcode, id, payload = Buffer.alloc(0), flags = 0, version = 1) {
  payload = Buffer.from(payload);
  const head = header((version << 4) | opcode, flags, id, payload.length);
  return Buffer.concat([head, payload]);
}

export function header(first, flags, id, length) {
  const head = Buffer.alloc(8);
  head.writeUInt8(first, 0);
  head.writeUInt8(flags, 1);
  head.writeUInt16BE(id, 2);
  head.writeUInt32BE(length, 4);
  return head;
}

/** A frame, or several fragments of one put together. */
class Frame {
  constructor(opcode, flags, id, payload, fragments = 1) {
    Object.assign(this, { opcode, flags, id, payload, fragments, at: performance.now(), value: null });
  }

  /** Decodes the payload as section 3.2 says. */
  read(events) {
    const enc = this.flags & 0x0c;
    const text = () => new TextDecoder("utf-8", { fatal: true }).decode(this.payload);
    if (this.opcode === STREAM && !events) this.value = text();
    else if (this.payload.length === 0) this.value = null;
    else if (enc === ENC_JSON || (enc === 0 && this.payload[0] === 0x7b)) this.value = JSON.parse(text());
    else if (enc === ENC_RAW) this.value = { t: "text", d: text() };
    else this.value = unpack(this.payload);
    return this;
  }

  /** Whether it ends its request, in any of the five ways. */
  get terminal() {
    if (this.id === 0) return false;
    if (this.opcode === ERROR) return true;
    if (this.opcode !== STREAM) return false;
    return this.payload.length === 0 || Boolean(this.flags & END) || this.member("t") === "end";
  }

  member(name) {
    return this.value !== null && typeof this.value === "object" ? this.value[name] : undefined;
  }

  toJSON() {
    return { opcode: this.opcode, flags: this.flags, id: this.id, value: this.value };
  }
}

/** The frames of one WebSocket message; nothing may be left over. */
function split(message) {
  const frames = [];
  let offset = 0;
  while (offset < message.length) {
    ensure(message.length - offset >= 8, "a frame without a whole header");
    const first = message[offset];
    const length = message.readUInt32BE(offset + 4);
    equal(first >> 4, 1, "version");
    ensure([HELLO, STREAM, TOOL_DEF, ERROR].includes(first & 15), "an opcode that servers do not send", first & 15);
    const payload = message.subarray(offset + 8, offset + 8 + length);
    equal(payload.length, length, "payload length");
    frames.push(new Frame(first & 15, message[offset + 1], message.readUInt16BE(offset + 2), payload));
    offset += 8 + length;
  }
  return frames;
}

/** A connection, with what has come in and was not looked at yet. */
export class Peer {
  constructor(socket) {
    Object.assign(this, { socket, features: [], enc: "json", accept: null, rejected: null, nextId: 0 });
    Object.assign(this, { inbox: [], partial: new Map(), ended: new Map(), over: null, broken: null, wake: () => {} });
    socket.on("message", (data, binary) => this.receive(data, binary));
    socket.on("close", (code) => {
      this.over = code;
      this.wake();
    });
    socket.on("error", () => {});
  }

  static open(url, token, { protocols = ["asp-v1"], headers = {}, query = "" } = {}) {
    const all = token === null ? headers : { Authorization: `Bearer ${token}`, ...headers };
    const socket = new WebSocket(url + query, protocols, { headers: all, perMessageDeflate: false, maxPayload: 0 });
    return new Promise((resolve, reject) => {
      const peer = new Peer(socket);
      socket.once("open", () => resolve(peer));
      socket.once("unexpected-response", (_, response) => reject(new Failed(`refused with ${response.statusCode}`)));
      socket.once("error", reject);
    });
  }

  /** Negotiates; a resume that is rejected says so before the accept. */
  async hello({ features = STANDARD, enc = "json", ...members } = {}) {
    this.sayHello({ features, enc: [enc], ...members });
    const answer = await this.next((f) => f.opcode === HELLO);
    equal(answer.value.op, "accept", "op");
    const rejected = this.inbox.filter((f) => f.opcode === ERROR && f.member("code") === 2600);
    this.inbox = this.inbox.filter((f) => !rejected.includes(f));
    this.rejected = rejected[0] ?? null;
    return answer.value;
  }

  sayHello(members) {
    this.send(frame(HELLO, 0, JSON.stringify(members)));
  }

  encode(value) {
    return this.enc === "msgpack" ? [pack(value), ENC_MSGPACK] : [Buffer.from(JSON.stringify(value)), ENC_JSON];
  }

  invocation(id, value, flags = 0) {
    const [payload, enc] = this.encode(value);
    return frame(INVOKE, id, payload, flags | (this.features.includes("flags") ? enc : 0));
  }

  invoke(chat, { id = 0, ...members } = {}) {
    id = id || ++this.nextId;
    this.send(this.invocation(id, { ...(chat === null ? {} : { kind: "chat", input: chat }), ...members }));
    return id;
  }

  interrupt(id, members = null) {
    const [payload, enc] = members === null ? [Buffer.alloc(0), 0] : this.encode(members);
    this.send(frame(INTERRUPT, id, payload, this.features.includes("flags") ? enc : 0));
  }

  send(data) {
    // Its id may be used again from here on.
    if (Buffer.isBuffer(data) && data.length >= 8 && (data[0] & 15) === INVOKE) this.ended.delete(data.readUInt16BE(2));
    this.socket.send(data);
  }

  receive(data, binary) {
    try {
      ensure(binary, "a text message from the server");
      for (const part of split(data)) this.take(part);
    } catch (error) {
      this.broken ??= error;
    }
    this.wake();
  }

  take(part) {
    ensure(this.features.includes("flags") || part.flags === 0, "flags without agreement", part.flags);
    equal(part.flags & 0xc0, 0, "reserved flags");
    if (part.flags & MORE) {
      ensure(this.features.includes("frag"), "a fragment without agreement");
      ensure(!(part.flags & END), "END with MORE");
    }
    let whole = part;
    const key = `${part.opcode}/${part.id}`;
    if (this.partial.has(key) || part.flags & MORE) {
      const parts = this.partial.get(key) ?? [];
      parts.push(part);
      this.partial.set(key, parts);
      equal(part.flags & (0x0c | COMPRESSED), parts[0].flags & (0x0c | COMPRESSED), "flags of a fragment");
      if (part.flags & MORE) return;
      this.partial.delete(key);
      const payload = Buffer.concat(parts.map((piece) => piece.payload));
      whole = new Frame(part.opcode, part.flags, part.id, payload, parts.length);
    }
    if (whole.flags & COMPRESSED) {
      ensure(this.features.includes("deflate"), "compression without agreement");
      whole.payload = inflateRawSync(whole.payload);
    }
    whole.read(this.features.includes("events"));
    if (whole.opcode === HELLO && whole.member("op") === "accept") {
      // From the next frame on, even within the same message.
      ensure(this.accept === null, "a second accept");
      Object.assign(this, { accept: whole.value, enc: whole.value.enc, features: whole.value.features });
    }
    if (whole.id !== 0 && [STREAM, ERROR].includes(whole.opcode)) {
      // Exactly one terminal frame, and nothing after it (ASP-029, ASP-040).
      ensure(!this.ended.has(whole.id), "a frame after the terminal one:", whole);
      if (whole.terminal) this.ended.set(whole.id, whole);
    }
    this.inbox.push(whole);
  }

  /** Waits until `ready` answers something, or the time is over. */
  async until(ready, timeout, otherwise) {
    const deadline = performance.now() + timeout;
    for (;;) {
      if (this.broken) throw this.broken;
      const found = ready();
      if (found !== undefined) return found;
      const left = deadline - performance.now();
      if (left <= 0) return otherwise();
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        this.wake = () => (clearTimeout(timer), resolve());
      });
    }
  }

  /** The next frame that matches; others wait. */
  next(matches, timeout = PATIENCE) {
    const ready = () => {
      const index = this.inbox.findIndex(matches);
      if (index >= 0) return this.inbox.splice(index, 1)[0];
      ensure(this.over === null, `closed with ${this.over}; inbox:`, this.inbox);
      return undefined;
    };
    return this.until(ready, timeout, () => ensure(false, "nothing that was waited for came; inbox:", this.inbox));
  }

  async record(id, t, timeout) {
    return (await this.next((f) => f.id === id && f.opcode === STREAM && f.member("t") === t, timeout)).value;
  }

  async error(id, code) {
    const answer = await this.next((f) => f.id === id && f.opcode === ERROR);
    equal(answer.value.code, code, `error on id ${id} (${show(answer.value)})`);
    return answer.value;
  }

  /** Everything of a request up to its terminal frame. */
  async finish(id, timeout) {
    const frames = [];
    do frames.push(await this.next((f) => f.id === id && [STREAM, ERROR].includes(f.opcode), timeout));
    while (!frames.at(-1).terminal);
    return frames;
  }

  turn(chat, members) {
    return this.finish(this.invoke(chat, members));
  }

  turnBare(text, id = ++this.nextId) {
    this.send(frame(INVOKE, id, text));
    return this.finish(id);
  }

  /** Nothing comes for a while, except what may. */
  async quiet(ms, but = (f) => f.opcode === TOOL_DEF) {
    await sleep(ms);
    if (this.broken) throw this.broken;
    const loud = this.inbox.filter((f) => !but(f));
    ensure(loud.length === 0, "not quiet:", loud);
  }

  /** The connection is closed by the server with this code; what came before is kept. */
  async closed(code, timeout = PATIENCE) {
    const ready = () => (this.over === null ? undefined : { code: this.over });
    const over = await this.until(ready, timeout, () => ensure(false, `not closed, expected ${code}`, this.inbox));
    equal(over.code, code, "close code");
  }

  /** The transport breaks, without a word. */
  async cut() {
    this.socket.terminate();
    await this.until(() => (this.over === null ? undefined : true), PATIENCE, () => undefined);
  }

  close() {
    this.socket.close(1000);
  }

  errors() {
    return this.inbox.filter((f) => f.opcode === ERROR).map((f) => f.value.code);
  }
}

export const textOf = (frames) => frames.map((f) => (f.member("t") === "text" ? f.value.d : "")).join("");
export const numbersOf = (frames) => frames.map((f) => f.member("n")).filter((n) => n !== undefined);
export const kindsOf = (frames) => frames.map((f) => f.member("t"));
export const bearerEntry = (token) => `asp-bearer.${Buffer.from(token).toString("base64url")}`;

/** A JSON Web Token, HS256 unless the header says otherwise. */
export function jwt(secret, claims, change = {}) {
  const head = { alg: "HS256", typ: "JWT", ...change };
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${encode(head)}.${encode(claims)}`;
  if (head.alg === "none") return `${signed}.`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** One HTTP request, written by hand. */
export function http(host, port, target, headers) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    const lines = [`GET ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), "", ""];
    let received = Buffer.alloc(0);
    socket.setTimeout(PATIENCE, () => socket.destroy(new Failed("no answer to an HTTP request")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Failed("closed without an answer")));
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      const end = received.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [status, ...rest] = received.subarray(0, end).toString().split("\r\n");
      const fields = Object.fromEntries(
        rest.map((line) => [line.split(":")[0].toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
      );
      const body = received.subarray(end + 4);
      if (body.length < Number(fields["content-length"] ?? 0)) return;
      socket.destroy();
      resolve({ status: Number(status.split(" ")[1]), headers: fields, body: body.toString() });
    });
    socket.write(lines.join("\r\n"));
  });
}

/** MessagePack, as much of it as ASP uses. */
export function pack(value) {
  if (value === null || value === undefined) return Buffer.from([0xc0]);
  if (value === true || value === false) return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number") {
    const number = Buffer.alloc(9);
    if (Number.isSafeInteger(value)) {
      if (value >= 0 && value < 128) return Buffer.from([value]);
      number.writeUInt8(0xd3, 0);
      number.writeBigInt64BE(BigInt(value), 1);
    } else {
      number.writeUInt8(0xcb, 0);
      number.writeDoubleBE(value, 1);
    }
    return number;
  }
  const sized = (code, length, ...rest) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(code, 0);
    head.writeUInt32BE(length, 1);
    return Buffer.concat([head, ...rest]);
  };
  if (typeof value === "string") return sized(0xdb, Buffer.byteLength(value), Buffer.from(value));
  if (Array.isArray(value)) return sized(0xdd, value.length, ...value.map(pack));
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return sized(0xdf, entries.length, ...entries.flatMap(([name, item]) => [pack(name), pack(item)]));
}

export function unpack(bytes) {
  let at = 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const uint = (size) => {
    at += size;
    if (size === 8) return Number(view.getBigUint64(at - 8));
    return size === 1 ? view.getUint8(at - 1) : size === 2 ? view.getUint16(at - 2) : view.getUint32(at - 4);
  };
  const int = (size) => {
    at += size;
    if (size === 8) return Number(view.getBigInt64(at - 8));
    return size === 1 ? view.getInt8(at - 1) : size === 2 ? view.getInt16(at - 2) : view.getInt32(at - 4);
  };
  const take = (length) => {
    ensure(at + length <= bytes.length, "MessagePack that is cut");
    at += length;
    return bytes.subarray(at - length, at);
  };
  const text = (length) => new TextDecoder("utf-8", { fatal: true }).decode(take(length));
  const list = (length) => range(length).map(() => item());
  const map = (length) => Object.fromEntries(range(length).map(() => [item(), item()]));
  const item = () => {
    const code = uint(1);
    if (code < 0x80) return code;
    if (code < 0x90) return map(code & 15);
    if (code < 0xa0) return list(code & 15);
    if (code < 0xc0) return text(code & 31);
    if (code >= 0xe0) return code - 256;
    switch (code) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return Buffer.from(take(uint(1)));
      case 0xc5: return Buffer.from(take(uint(2)));
      case 0xc6: return Buffer.from(take(uint(4)));
      case 0xca: return (at += 4, view.getFloat32(at - 4));
      case 0xcb: return (at += 8, view.getFloat64(at - 8));
      case 0xcc: case 0xcd: case 0xce: case 0xcf: return uint(1 << (code - 0xcc));
      case 0xd0: case 0xd1: case 0xd2: case 0xd3: return int(1 << (code - 0xd0));
      case 0xd9: return text(uint(1));
      case 0xda: return text(uint(2));
      case 0xdb: return text(uint(4));
      case 0xdc: return list(uint(2));
      case 0xdd: return list(uint(4));
      case 0xde: return map(uint(2));
      case 0xdf: return map(uint(4));
      default: throw new Failed(`MessagePack code ${code.toString(16)}, which ASP does not use`);
    }
  };
  const value = item();
  equal(at, bytes.length, "bytes of MessagePack");
  return value;
}
