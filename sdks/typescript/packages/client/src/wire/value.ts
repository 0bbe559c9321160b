/** Values of JSON and MessagePack, within bounds that hold before anything is allocated for them. */

import { decodeUtf8, encodeUtf8 } from "./utf8.js";

export type Value = null | boolean | number | string | Uint8Array | Value[] | ValueMap;
export interface ValueMap {
  [key: string]: Value | undefined;
}

/** The bytes or the text are not a value of the data model. */
export class ValueError extends Error {
  override name = "ValueError";
}

export const MAX_DEPTH = 32;
export const MAX_MAP_ENTRIES = 4096;
export const MAX_NODES = 1 << 18;
const MAX_INT = 2 ** 53;

export function isMap(value: unknown): value is ValueMap {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/** The compact JSON form; bytes are `{"$b64":"…"}`. */
export function encodeJson(value: Value): Uint8Array {
  return encodeUtf8(JSON.stringify(value, (_key, item: unknown) => (item instanceof Uint8Array ? { $b64: base64(item) } : item)));
}

export function decodeJson(bytes: Uint8Array): Value {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new ValueError("not UTF-8");
  return parseJson(text);
}

export function parseJson(text: string): Value {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new ValueError("not JSON");
  }
  return fromForeign(parsed);
}

/** A value from what `JSON.parse`, or the user, gave; throws where it is beyond the bounds. */
export function fromForeign(foreign: unknown): Value {
  let nodes = MAX_NODES;
  const read = (value: unknown, depth: number): Value => {
    if ((nodes -= 1) < 0) throw new ValueError("too many values");
    if (typeof value === "number") return checkNumber(value);
    if (value === null || typeof value === "boolean" || typeof value === "string" || value instanceof Uint8Array) return value;
    if (typeof value !== "object") throw new ValueError(`${typeof value} is no value`);
    if (depth >= MAX_DEPTH) throw new ValueError("nested too deeply");
    if (Array.isArray(value)) return value.map((item) => read(item === undefined ? null : item, depth + 1));
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    if (entries.length > MAX_MAP_ENTRIES) throw new ValueError("a map with too many members");
    if (entries.length === 1 && entries[0]![0] === "$b64" && typeof entries[0]![1] === "string") return fromBase64(entries[0]![1]);
    const map: ValueMap = {};
    for (const [key, item] of entries) define(map, key, read(item, depth + 1));
    return map;
  };
  return read(foreign, 0);
}

/** Sets a member whatever its name is: a `__proto__` of a peer is a name like any other. */
export function define(map: ValueMap, key: string, value: Value): void {
  if (key === "__proto__") Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true });
  else map[key] = value;
}

function checkNumber(number: number): number {
  if (!Number.isFinite(number)) throw new ValueError("a number that is not finite");
  if (Number.isInteger(number) && Math.abs(number) > MAX_INT) throw new ValueError("an integer beyond 2^53");
  return number;
}

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const bits = (bytes[at]! << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    text += ALPHABET[bits >> 18]! + ALPHABET[(bits >> 12) & 63]!;
    text += at + 1 < bytes.length ? ALPHABET[(bits >> 6) & 63]! : "=";
    text += at + 2 < bytes.length ? ALPHABET[bits & 63]! : "=";
  }
  return text;
}

export function fromBase64(text: string): Uint8Array {
  const digits = text.replace(/=+$/, "");
  if (text.length % 4 !== 0 || text.length - digits.length > 2 || digits.length % 4 === 1) throw new ValueError("not base64");
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  let bits = 0;
  let have = 0;
  let at = 0;
  for (const digit of digits) {
    const value = ALPHABET.indexOf(digit);
    if (value < 0) throw new ValueError("not base64");
    bits = ((bits << 6) | value) & 0xffffff;
    have += 6;
    if (have >= 8) bytes[at++] = (bits >> (have -= 8)) & 255;
  }
  return bytes;
}

/** Base64 of URLs, without padding. */
export function base64Url(bytes: Uint8Array): string {
  return base64(bytes).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
