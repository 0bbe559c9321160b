/** MessagePack without extension types, within the bounds of `value.ts`. */

import { decodeUtf8, encodeUtf8 } from "./utf8.js";
import { define, MAX_DEPTH, MAX_MAP_ENTRIES, MAX_NODES, type Value, ValueError, type ValueMap } from "./value.js";

export function encodeMsgpack(value: Value): Uint8Array {
  const writer = new Writer();
  writer.value(value, 0);
  return writer.bytes();
}

/** Reads exactly one value, the whole of `bytes`. Liberally, extension types count as absent, and of a key that comes twice the last counts. */
export function decodeMsgpack(bytes: Uint8Array, liberal = false): Value {
  const reader = new Reader(bytes, liberal);
  const value = reader.value(0);
  if (reader.left > 0) throw new ValueError("bytes after the value");
  return value;
}

class Writer {
  private buffer = new Uint8Array(256);
  private view = new DataView(this.buffer.buffer);
  private at = 0;

  bytes(): Uint8Array {
    return this.buffer.slice(0, this.at);
  }

  value(value: Value, depth: number): void {
    if (value === null) this.byte(0xc0);
    else if (typeof value === "boolean") this.byte(value ? 0xc3 : 0xc2);
    else if (typeof value === "number") this.number(value);
    else if (typeof value === "string") this.text(value);
    else if (value instanceof Uint8Array) {
      this.head(value.length, -1, 0, 0xc4);
      this.raw(value);
    } else if (depth >= MAX_DEPTH) throw new ValueError("nested too deeply");
    else if (Array.isArray(value)) {
      this.head(value.length, 15, 0x90, 0xdb);
      for (const item of value) this.value(item, depth + 1);
    } else {
      const entries = Object.entries(value).filter((entry): entry is [string, Value] => entry[1] !== undefined);
      this.head(entries.length, 15, 0x80, 0xdd);
      for (const [key, item] of entries) {
        this.text(key);
        this.value(item, depth + 1);
      }
    }
  }

  private text(text: string): void {
    const bytes = encodeUtf8(text);
    this.head(bytes.length, 31, 0xa0, 0xd9);
    this.raw(bytes);
  }

  /** A length: in the marker up to `most`, else in 8, 16 or 32 bits after `marker` and its successors. */
  private head(length: number, most: number, short: number, marker: number): void {
    if (length <= most) this.byte(short | length);
    else if (length < 0x100 && marker !== 0xdb && marker !== 0xdd) this.bits8(marker, length);
    else if (length < 0x10000) this.bits16(marker + 1, length);
    else this.bits32(marker + 2, length);
  }

  private number(number: number): void {
    if (!Number.isFinite(number)) throw new ValueError("a number that is not finite");
    if (!Number.isInteger(number) || Object.is(number, -0)) {
      this.room(9);
      this.buffer[this.at++] = 0xcb;
      this.view.setFloat64(this.at, number);
      this.at += 8;
    } else if (Math.abs(number) > 2 ** 53) throw new ValueError("an integer beyond 2^53");
    else if (number >= 0) {
      if (number < 0x80) this.byte(number);
      else if (number < 0x100) this.bits8(0xcc, number);
      else if (number < 0x10000) this.bits16(0xcd, number);
      else if (number < 2 ** 32) this.bits32(0xce, number);
      else this.bits64(0xcf, number);
    } else if (number >= -32) this.byte(number & 255);
    else if (number >= -0x80) this.bits8(0xd0, number & 255);
    else if (number >= -0x8000) this.bits16(0xd1, number & 0xffff);
    else if (number >= -(2 ** 31)) this.bits32(0xd2, number >>> 0);
    else this.bits64(0xd3, number);
  }

  private byte(byte: number): void {
    this.room(1);
    this.buffer[this.at++] = byte;
  }

  private bits8(marker: number, number: number): void {
    this.byte(marker);
    this.byte(number);
  }

  private bits16(marker: number, number: number): void {
    this.room(3);
    this.buffer[this.at++] = marker;
    this.view.setUint16(this.at, number);
    this.at += 2;
  }

  private bits32(marker: number, number: number): void {
    this.room(5);
    this.buffer[this.at++] = marker;
    this.view.setUint32(this.at, number);
    this.at += 4;
  }

  private bits64(marker: number, number: number): void {
    this.room(9);
    this.buffer[this.at++] = marker;
    const high = Math.floor(number / 2 ** 32);
    this.view.setUint32(this.at, high >>> 0);
    this.view.setUint32(this.at + 4, number - high * 2 ** 32);
    this.at += 8;
  }

  private raw(bytes: Uint8Array): void {
    this.room(bytes.length);
    this.buffer.set(bytes, this.at);
    this.at += bytes.length;
  }

  private room(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(this.buffer.length * 2, this.at + bytes));
    larger.set(this.buffer);
    this.buffer = larger;
    this.view = new DataView(larger.buffer);
  }
}

/** What stands for nothing, until it is left out. */
const ABSENT: Value = new Uint8Array(0);

class Reader {
  private readonly view: DataView;
  private at = 0;
  private nodes = MAX_NODES;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly liberal: boolean,
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get left(): number {
    return this.bytes.length - this.at;
  }

  value(depth: number): Value {
    if ((this.nodes -= 1) < 0) throw new ValueError("too many values");
    const marker = this.view.getUint8(this.take(1));
    if (marker < 0x80) return marker;
    if (marker < 0x90) return this.map(marker & 15, depth);
    if (marker < 0xa0) return this.list(marker & 15, depth);
    if (marker < 0xc0) return this.text(marker & 31);
    if (marker >= 0xe0) return marker - 0x100;
    switch (marker) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.raw(this.length(marker - 0xc4)).slice();
      case 0xca: return finite(this.view.getFloat32(this.take(4)));
      case 0xcb: return finite(this.view.getFloat64(this.take(8)));
      case 0xcc: return this.length(0);
      case 0xcd: return this.length(1);
      case 0xce: return this.length(2);
      case 0xcf: return this.wide(false);
      case 0xd0: return this.view.getInt8(this.take(1));
      case 0xd1: return this.view.getInt16(this.take(2));
      case 0xd2: return this.view.getInt32(this.take(4));
      case 0xd3: return this.wide(true);
      case 0xd9: case 0xda: case 0xdb: return this.text(this.length(marker - 0xd9));
      case 0xdc: case 0xdd: return this.list(this.length(marker - 0xdb), depth);
      case 0xde: case 0xdf: return this.map(this.length(marker - 0xdd), depth);
      case 0xc7: case 0xc8: case 0xc9: return this.extension(this.length(marker - 0xc7));
      case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return this.extension(1 << (marker - 0xd4));
      default: throw new ValueError(`the marker 0x${marker.toString(16)} means nothing here`);
    }
  }

  private map(length: number, depth: number): Value {
    this.enter(length, depth);
    if (length > MAX_MAP_ENTRIES) throw new ValueError("a map with too many members");
    const map: ValueMap = {};
    for (let index = 0; index < length; index += 1) {
      const marker = this.view.getUint8(this.take(1));
      if ((marker < 0xa0 || marker > 0xbf) && (marker < 0xd9 || marker > 0xdb)) throw new ValueError("a key that is no text");
      const key = this.text(marker < 0xc0 ? marker & 31 : this.length(marker - 0xd9));
      if (Object.hasOwn(map, key) && !this.liberal) throw new ValueError("a key twice");
      const value = this.value(depth + 1);
      if (value === ABSENT) delete map[key];
      else define(map, key, value);
    }
    return map;
  }

  private list(length: number, depth: number): Value[] {
    this.enter(length, depth);
    const items: Value[] = [];
    for (let index = 0; index < length; index += 1) {
      const value = this.value(depth + 1);
      items.push(value === ABSENT ? null : value);
    }
    return items;
  }

  /** Every item takes at least one byte: a length beyond the rest is a lie found before any work. */
  private enter(length: number, depth: number): void {
    if (depth >= MAX_DEPTH) throw new ValueError("nested too deeply");
    if (length > this.left) throw new ValueError("cut off");
  }

  private extension(length: number): Value {
    if (!this.liberal) throw new ValueError("an extension type");
    this.take(length + 1);
    return ABSENT;
  }

  private text(length: number): string {
    const text = decodeUtf8(this.raw(length));
    if (text === undefined) throw new ValueError("not UTF-8");
    return text;
  }

  private raw(length: number): Uint8Array {
    const from = this.take(length);
    return this.bytes.subarray(from, from + length);
  }

  /** An unsigned number of 8, 16 or 32 bits. */
  private length(size: number): number {
    const at = this.take(1 << size);
    return size === 0 ? this.view.getUint8(at) : size === 1 ? this.view.getUint16(at) : this.view.getUint32(at);
  }

  private wide(signed: boolean): number {
    const at = this.take(8);
    const high = signed ? this.view.getInt32(at) : this.view.getUint32(at);
    const number = high * 2 ** 32 + this.view.getUint32(at + 4);
    if (Math.abs(number) > 2 ** 53) throw new ValueError("an integer beyond 2^53");
    return number;
  }

  private take(bytes: number): number {
    const at = this.at;
    if (bytes > this.left) throw new ValueError("cut off");
    this.at += bytes;
    return at;
  }
}

function finite(number: number): number {
  if (!Number.isFinite(number)) throw new ValueError("a number that is not finite");
  return number;
}
