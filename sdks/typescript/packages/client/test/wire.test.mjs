/** Values, texts and bytes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode } from "@msgpack/msgpack";
import { decodeMsgpack, encodeMsgpack } from "../dist/wire/msgpack.js";
import { decodeUtf8, encodeUtf8 } from "../dist/wire/utf8.js";
import { base64, decodeJson, encodeJson, fromBase64, fromForeign, parseJson, ValueError } from "../dist/wire/value.js";

/** Numbers that look random and are the same each time. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function value(next, depth = 0) {
  const pick = Math.floor(next() * (depth > 3 ? 7 : 9));
  const many = () => Math.floor(next() * 20);
  switch (pick) {
    case 0: return null;
    case 1: return next() < 0.5;
    case 2: return Math.floor((next() - 0.5) * 2 ** Math.floor(next() * 54));
    case 3: return (next() - 0.5) * 1e9;
    case 4: return "ä€😀x".repeat(many());
    case 5: return "k".repeat(many() * many());
    case 6: return new Uint8Array(many() * 20).map(() => next() * 256);
    case 7: return Array.from({ length: many() }, () => value(next, depth + 1));
    default: return Object.fromEntries(Array.from({ length: many() }, (_, index) => [`m${index}`, value(next, depth + 1)]));
  }
}

test("MessagePack is what another implementation writes and reads", () => {
  const next = random(7);
  for (let round = 0; round < 300; round += 1) {
    const sample = value(next);
    assert.deepEqual(decode(encodeMsgpack(sample)), sample);
    assert.deepEqual(decodeMsgpack(encode(sample)), sample);
  }
  for (const number of [0, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -1, -32, -33, -128, -129, -32768, -32769, -(2 ** 31), -(2 ** 31) - 1, -(2 ** 53) + 1]) {
    assert.deepEqual(encodeMsgpack(number), encode(number), String(number));
    assert.equal(decodeMsgpack(encodeMsgpack(number)), number);
  }
});

test("a value cut at every length is refused", () => {
  const bytes = encodeMsgpack({ a: [1, "two", new Uint8Array(3), { b: -5000000000, c: 1.5 }], d: "x".repeat(300), e: null });
  for (let length = 0; length < bytes.length; length += 1) assert.throws(() => decodeMsgpack(bytes.subarray(0, length)), ValueError);
  assert.throws(() => decodeMsgpack(new Uint8Array([...bytes, 0])), ValueError);
});

test("what is beyond the bounds is refused before it costs anything", () => {
  assert.throws(() => decodeMsgpack(new Uint8Array([0xdd, 0xff, 0xff, 0xff, 0xff])), ValueError, "a length that is a lie");
  assert.throws(() => decodeMsgpack(new Uint8Array(40).fill(0x91)), ValueError, "too deep");
  assert.throws(() => decodeMsgpack(new Uint8Array([0xc7, 1, 1, 1])), ValueError, "an extension");
  assert.throws(() => decodeMsgpack(new Uint8Array([0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2])), ValueError, "a key twice");
  assert.throws(() => decodeMsgpack(new Uint8Array([0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])), ValueError, "beyond 2^53");
  assert.throws(() => decodeMsgpack(new Uint8Array([0xa2, 0xc3, 0x28])), ValueError, "not UTF-8");
  assert.throws(() => parseJson("[".repeat(40) + "]".repeat(40)), ValueError);
  assert.throws(() => fromForeign({ a: 2 ** 60 }), ValueError);
  assert.throws(() => fromForeign({ a: () => 1 }), ValueError);
  assert.throws(() => fromForeign(Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [index, 1]))), ValueError);
});

test("a member named __proto__ is a member", () => {
  for (const read of [parseJson('{"__proto__":{"admin":true}}'), decodeMsgpack(encode(JSON.parse('{"__proto__":{"admin":true}}'), { ignoreUndefined: true }))]) {
    assert.equal(Object.getPrototypeOf(read), Object.prototype);
    assert.equal(read.admin, undefined);
  }
});

test("bytes travel in JSON as base64", () => {
  const bytes = new Uint8Array([0, 255, 1, 2]);
  assert.deepEqual(decodeJson(encodeJson({ a: bytes })), { a: bytes });
  for (let length = 0; length < 20; length += 1) {
    const sample = new Uint8Array(length).map((_, index) => index * 37);
    assert.equal(base64(sample), Buffer.from(sample).toString("base64"));
    assert.deepEqual(fromBase64(base64(sample)), sample);
  }
  for (const wrong of ["a", "ab=c", "====", "a b=", "ab*="]) assert.throws(() => fromBase64(wrong), ValueError, wrong);
});

test("UTF-8 is read strictly, short and long, with and without a decoder of the system", () => {
  for (const text of ["", "plain", "ä€😀", "\ufeffmark", "x".repeat(100) + "€", "\ufeff" + "y".repeat(40)]) {
    assert.equal(decodeUtf8(encodeUtf8(text)), text);
  }
  const wrong = [[0xff], [0xc0, 0x80], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80], [0xf0, 0x80, 0x80, 0x80]];
  for (const bytes of wrong) {
    assert.equal(decodeUtf8(new Uint8Array(bytes)), undefined);
    assert.equal(decodeUtf8(new Uint8Array([...new Array(30).fill(0x61), ...bytes])), undefined);
  }
});
