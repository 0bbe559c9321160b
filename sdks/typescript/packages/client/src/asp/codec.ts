/** Frames: header, several frames per message, payload encodings, fragments. */

import { decodeUtf8 } from "../wire/utf8.js";
import { decodeJson, encodeJson, type Value, ValueError, type ValueMap } from "../wire/value.js";

export const HELLO = 1;
export const INVOKE = 2;
export const STREAM = 3;
export const INTERRUPT = 4;
export const TOOL_DEF = 5;
export const ERROR = 6;

export const END = 0x01;
export const MORE = 0x02;
export const COMPRESSED = 0x10;
export const REPLAY = 0x20;
const ENC = 0x0c;

export const HEADER = 8;
export const HARD_CAP = 16 << 20;
export const MAX_PAYLOAD = 1 << 20;
export const MAX_PAYLOAD_BARE = 256 << 10;
export const MAX_MESSAGE = 2 << 20;

export type Enc = "json" | "msgpack";

export interface Frame {
  opcode: number;
  flags: number;
  id: number;
  payload: Uint8Array;
}

/** A frame whose layout cannot be trusted, and the code with which to close. */
export class FrameError extends Error {
  override name = "FrameError";
  constructor(
    readonly code: number,
    readonly close: number,
    message: string,
  ) {
    super(message);
  }
}

/** A message that cannot be read; the code of the ERROR that answers it. */
export class PayloadError extends Error {
  override name = "PayloadError";
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

export function encodeFrame(opcode: number, flags: number, id: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEADER + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, 0x10 | opcode);
  view.setUint8(1, flags);
  view.setUint16(2, id);
  view.setUint32(4, payload.length);
  bytes.set(payload, HEADER);
  return bytes;
}

/** The frames of one message, in order; throws at what is no whole frame. */
export function* readFrames(message: Uint8Array): Generator<Frame> {
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  let at = 0;
  while (at < message.length) {
    if (message.length - at < HEADER) throw new FrameError(2004, 4400, "the message ends inside a header");
    const first = view.getUint8(at);
    const length = view.getUint32(at + 4);
    if (first >> 4 !== 1) throw new FrameError(2001, 4406, `frame version ${first >> 4}`);
    if (length > HARD_CAP) throw new FrameError(2202, 1009, `a payload of ${length} bytes`);
    if (length > message.length - at - HEADER) throw new FrameError(2004, 4400, "the message ends inside a frame");
    const from = at + HEADER;
    yield { opcode: first & 15, flags: view.getUint8(at + 1), id: view.getUint16(at + 2), payload: message.subarray(from, from + length) };
    at = from + length;
  }
}

/** The encoding that a browser does not bring along; see `@switchboard/client/msgpack`. */
export interface Msgpack {
  encode(value: Value): Uint8Array;
  decode(bytes: Uint8Array): Value;
}

const WITHOUT: Msgpack = {
  encode: encodeJson,
  decode: () => {
    throw new ValueError("MessagePack was not agreed");
  },
};

export function encodeValue(enc: Enc, value: Value, msgpack: Msgpack = WITHOUT): Uint8Array {
  return enc === "json" ? encodeJson(value) : msgpack.encode(value);
}

/** The bits of ENC that say how a map is written. */
export function encFlag(enc: Enc): number {
  return enc === "json" ? 0x04 : 0x0c;
}

export type Payload = { kind: "none" } | { kind: "value"; value: Value } | { kind: "text"; text: string } | { kind: "raw"; bytes: Uint8Array };

/** Unpacks what is marked as compressed, up to `limit` bytes; undefined if it is damaged or larger. */
export type Inflate = (packed: Uint8Array, limit: number) => Uint8Array | undefined;

const NONE: Payload = { kind: "none" };

/** From the bytes of a whole message to a value, text or nothing. `flags` are those that were agreed. */
export function decodePayload(opcode: number, flags: number, events: boolean, payload: Uint8Array, msgpack: Msgpack = WITHOUT): Payload {
  if (payload.length === 0) return NONE;
  const lenient = opcode === HELLO || opcode === INTERRUPT;
  const enc = flags & ENC;
  if (enc === 0x08) return { kind: "raw", bytes: payload };
  if (enc !== 0) {
    try {
      return { kind: "value", value: enc === 0x04 ? decodeJson(payload) : msgpack.decode(payload) };
    } catch (error) {
      if (lenient) return NONE;
      if (opcode !== ERROR) throw new PayloadError(2005, (error as Error).message);
    }
  } else if (opcode !== STREAM || events) {
    const first = payload[0]!;
    try {
      if (first === 0x7b || first === 0x5b) return { kind: "value", value: decodeJson(payload) };
      if ((first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf) return { kind: "value", value: msgpack.decode(payload) };
    } catch {
      // A guess that was wrong: it is text, or nothing.
    }
  }
  if (lenient) return NONE;
  const text = decodeUtf8(payload);
  if (text !== undefined) return { kind: "text", text };
  if (opcode === ERROR) return { kind: "text", text: "an error that is not UTF-8" };
  throw new PayloadError(2005, "not UTF-8");
}

/** Which opcodes a server sends, and with which ids. */
export function fromServer(opcode: number, id: number, push: boolean): boolean {
  if (opcode === HELLO) return id === 0;
  if (opcode === STREAM) return id !== 0 || push;
  return opcode === TOOL_DEF || opcode === ERROR;
}

interface Open {
  opcode: number;
  /** None while the rest of a refused message is discarded. */
  parts: Uint8Array[] | undefined;
  flags: number;
  size: number;
  deadline: number;
  last: number;
}

const ASSEMBLY_MS = 10_000;
/** After this much silence no fragment of a message is taken to be on its way any more. */
const IN_FLIGHT_MS = 5_000;
const MAX_OPEN = 64;
const MAX_HELD = 4 << 20;

/** Fragments into messages, at most one unfinished message per id. */
export class Assembler {
  private readonly open = new Map<number, Open>();
  private held = 0;

  constructor(private readonly maxPayload: number) {}

  /** The whole message that this frame completes; "part" if there is more to come, "discarded" for a tail of what was refused. */
  push(frame: Frame, flags: number, now: number): Frame | "part" | "discarded" {
    const { opcode, id, payload } = frame;
    const known = this.open.get(id);
    const more = (flags & MORE) !== 0;
    if (known && known.opcode !== opcode && (opcode === INTERRUPT || opcode === ERROR)) {
      this.forget(id);
      return this.begin(frame, flags, now);
    }
    if (!known) return this.begin(frame, flags, now);
    const late = now > known.deadline;
    if (!known.parts) {
      if (known.opcode === opcode && !late) {
        if (!more) this.forget(id);
        return "discarded";
      }
      this.forget(id);
      return this.begin(frame, flags, now);
    }
    if (late) throw this.giveUp(id, known.opcode, known.opcode !== opcode || more, now, "took too long");
    if (known.opcode !== opcode) throw this.giveUp(id, known.opcode, true, now, "were interrupted by another opcode");
    known.last = now;
    if (((known.flags ^ flags) & (ENC | COMPRESSED)) !== 0) throw this.giveUp(id, opcode, more, now, "disagree on their encoding");
    if (known.size + payload.length > this.maxPayload) throw this.giveUp(id, opcode, more, now, `exceed ${this.maxPayload} bytes`, 2202);
    if (this.held + payload.length > MAX_HELD) throw this.giveUp(id, opcode, more, now, "hold too much", 2202);
    known.parts.push(payload.slice());
    known.size += payload.length;
    this.held += payload.length;
    if (more) return "part";
    const whole = new Uint8Array(known.size);
    let at = 0;
    for (const part of known.parts) {
      whole.set(part, at);
      at += part.length;
    }
    this.forget(id);
    return { opcode, flags, id, payload: whole };
  }

  /** A frame of this id was refused before it came here: the rest of its message is discarded, too. */
  refuse(opcode: number, id: number, flags: number, now: number): void {
    this.forget(id);
    if (flags & MORE) this.discard(id, opcode, now);
  }

  abort(id: number): void {
    this.forget(id);
  }

  abortAll(): void {
    this.open.clear();
    this.held = 0;
  }

  /** Ids whose fragments took too long. */
  expire(now: number): number[] {
    const late: number[] = [];
    for (const [id, known] of this.open) {
      if (now <= known.deadline) continue;
      const growing = known.parts !== undefined;
      this.forget(id);
      if (growing && now - known.last < IN_FLIGHT_MS) this.discard(id, known.opcode, now);
      if (growing) late.push(id);
    }
    return late;
  }

  get deadline(): number | undefined {
    let first: number | undefined;
    for (const { deadline } of this.open.values()) first = Math.min(first ?? Infinity, deadline + 1);
    return first;
  }

  private begin(frame: Frame, flags: number, now: number): Frame | "part" {
    const { opcode, id, payload } = frame;
    const more = (flags & MORE) !== 0;
    if (payload.length > this.maxPayload) throw this.giveUp(id, opcode, more, now, `exceed ${this.maxPayload} bytes`, 2202);
    if (!more) return { ...frame, flags };
    if (this.open.size >= MAX_OPEN || this.held + payload.length > MAX_HELD) throw this.giveUp(id, opcode, more, now, "are too many", 2202);
    this.held += payload.length;
    this.open.set(id, { opcode, parts: [payload.slice()], flags, size: payload.length, deadline: now + ASSEMBLY_MS, last: now });
    return "part";
  }

  private giveUp(id: number, opcode: number, continues: boolean, now: number, why: string, code = 2011): PayloadError {
    this.forget(id);
    if (continues) this.discard(id, opcode, now);
    return new PayloadError(code, `fragments ${why}`);
  }

  private discard(id: number, opcode: number, now: number): void {
    if (this.open.size >= MAX_OPEN * 2) return;
    this.open.set(id, { opcode, parts: undefined, flags: 0, size: 0, deadline: now + ASSEMBLY_MS, last: now });
  }

  private forget(id: number): void {
    const known = this.open.get(id);
    if (known?.parts) this.held -= known.size;
    this.open.delete(id);
  }
}

/** A map from a payload; throws where there is none. */
export function mapOf(payload: Payload): ValueMap {
  const { kind } = payload;
  if (kind === "value" && typeof payload.value === "object" && payload.value !== null && !Array.isArray(payload.value) && !(payload.value instanceof Uint8Array)) return payload.value;
  throw new PayloadError(2005, "a map is needed");
}
