/** The frames of vectors/asp: read, written again, and cut at every length. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Assembler, COMPRESSED, decodePayload, encodeFrame, encodeValue, END, ERROR, FrameError, HELLO, INTERRUPT, INVOKE, mapOf, MORE, readFrames, STREAM, TOOL_DEF } from "../dist/asp/codec.js";
import { readError, readRecord, readServerHello, readTools } from "../dist/asp/message.js";
import { inflate } from "../dist/deflate.js";
import { msgpack } from "../dist/msgpack.js";
import { encodeUtf8 } from "../dist/wire/utf8.js";
import { base64Url, fromForeign } from "../dist/wire/value.js";

const folder = new URL("../../../../../vectors/asp/frames/", import.meta.url);
const vectors = readdirSync(folder).sort().map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")));
const OPCODES = { HELLO, INVOKE, STREAM, INTERRUPT, TOOL_DEF, ERROR };
const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const valid = vectors.filter(({ kind, error }) => kind === "frames" && !error);
const named = (id) => vectors.find((vector) => vector.id === id);

/** The whole messages of a vector, with their payloads opened. */
function messages(vector) {
  const assembler = new Assembler(1 << 20);
  const features = new Set(vector.features);
  const whole = [];
  for (const hex of vector.hex) {
    for (const frame of readFrames(bytesOf(hex))) {
      const message = assembler.push(frame, features.has("flags") ? frame.flags & 0x3f : 0, 0);
      if (message !== "part") whole.push(message);
    }
  }
  return whole.map((message) => {
    const payload = message.flags & COMPRESSED ? inflate(message.payload, 1 << 20) : message.payload;
    return { ...message, opened: decodePayload(message.opcode, message.flags, features.has("events"), payload, msgpack) };
  });
}

test("there are 26 vectors", () => assert.deepEqual(vectors.map(({ id }) => id), Array.from({ length: 26 }, (_, index) => `T${String(index + 1).padStart(2, "0")}`)));

test("valid vectors are read as what they say, and written as the same bytes", () => {
  for (const vector of valid) {
    const frames = vector.hex.flatMap((hex) => [...readFrames(bytesOf(hex))]);
    const expected = vector.frames.map(({ opcode, reserved, id, payload_hex }) => ({ opcode: OPCODES[opcode], flags: reserved, id, payload: bytesOf(payload_hex) }));
    assert.deepEqual(frames.map((frame) => ({ ...frame, payload: new Uint8Array(frame.payload) })), expected, vector.id);
    const written = Buffer.concat(frames.map(({ opcode, flags, id, payload }) => encodeFrame(opcode, flags, id, payload)));
    assert.equal(written.toString("hex"), vector.hex.join(""), vector.id);
    const read = messages(vector);
    assert.equal(read.length, vector.messages.length, vector.id);
    read.forEach((message, index) => {
      const { opcode, id, payload } = vector.messages[index];
      assert.deepEqual([message.opcode, message.id], [OPCODES[opcode], id], vector.id);
      const { opened } = message;
      assert.equal(opened.kind, payload.kind, vector.id);
      if (payload.kind === "value") assert.deepEqual(opened.value, fromForeign(payload.value), vector.id);
      if (payload.kind === "text") assert.equal(opened.text, payload.text, vector.id);
      if (payload.kind === "raw") assert.equal(Buffer.from(opened.bytes).toString("hex"), payload.hex, vector.id);
    });
  }
});

test("messages written anew are the same bytes", () => {
  let checked = 0;
  for (const vector of valid.filter(({ typed_exact, compressed }) => typed_exact && !compressed)) {
    const [message] = messages(vector);
    const { enc, value } = vector.messages[0].payload;
    const body = encodeValue(enc, fromForeign(value), msgpack);
    assert.equal(Buffer.from(body).toString("hex"), Buffer.from(message.payload).toString("hex"), vector.id);
    checked += 1;
  }
  assert.equal(checked, 11);
});

test("what a server sends has the types that its vectors say", () => {
  for (const vector of valid.filter(({ direction }) => direction === "to_client")) {
    for (const { opcode, opened } of messages(vector)) {
      if (opened.kind !== "value") continue;
      const { value } = opened;
      if (opcode === HELLO) assert.equal(readServerHello(value).op, value.op);
      if (opcode === TOOL_DEF) assert.deepEqual(readTools(value).tools.map(({ name }) => name), value.tools.map(({ name }) => name));
      if (opcode === STREAM) assert.equal(readRecord(value).t, value.t);
      if (opcode === ERROR && value.code) assert.deepEqual(readError(value), value);
    }
  }
  const [success] = messages(named("T14"));
  assert.deepEqual(readError(mapOf(success.opened)), { metrics: { cpu_ms: 45 } }, "code 0 is success");
});

test("invalid vectors give the error that they name", () => {
  for (const vector of vectors.filter(({ kind, error }) => kind === "frames" && error)) {
    if (vector.unknown) {
      const [frame] = readFrames(bytesOf(vector.hex[0]));
      assert.deepEqual([frame.opcode, frame.id], [vector.unknown.nibble, vector.unknown.id]);
      continue;
    }
    assert.throws(() => [...readFrames(bytesOf(vector.hex[0]))], (error) => error instanceof FrameError && error.code === vector.error.code && error.close === vector.error.close, vector.id);
  }
});

test("a message cut anywhere gives the frames before the cut, and then an error", () => {
  for (const vector of valid) {
    for (const hex of vector.hex) {
      const whole = bytesOf(hex);
      const ends = [];
      for (let at = 0; at < whole.length; ) ends.push((at += 8 + new DataView(whole.buffer, at).getUint32(4)));
      for (let length = 1; length < whole.length; length += 1) {
        let read = 0;
        let failed = false;
        try {
          for (const _ of readFrames(whole.subarray(0, length))) read += 1;
        } catch (error) {
          failed = error instanceof FrameError && error.code === 2004;
        }
        assert.equal(read, ends.filter((end) => end <= length).length, `${vector.id} at ${length}`);
        assert.equal(failed, !ends.includes(length), `${vector.id} at ${length}`);
      }
    }
  }
});

test("the browser's credential is the one of T25, records of a function are the frames of T26", () => {
  const browser = named("T25");
  assert.equal(`asp-v1, asp-bearer.${base64Url(encodeUtf8(browser.token))}`, browser.header);
  const { lines, hex, request_id, enc } = named("T26");
  lines.forEach((line, index) => {
    const value = JSON.parse(line);
    const flags = (enc === "json" ? 4 : 12) | (value.t === "end" ? END : 0);
    assert.equal(Buffer.from(encodeFrame(STREAM, flags, request_id, encodeValue(enc, value, msgpack))).toString("hex"), hex[index]);
  });
});

test("fragments of one id do not mix with others, take ten seconds at most, and nothing of a refused one is taken for new", () => {
  const assembler = new Assembler(10);
  const push = (id, flags, text, now = 0, opcode = STREAM) => assembler.push({ opcode, flags, id, payload: encodeUtf8(text) }, flags, now);
  assert.equal(push(1, MORE, "ab"), "part");
  assert.equal(push(2, MORE, "xy"), "part");
  assert.equal(Buffer.from(push(1, 0, "cd").payload).toString(), "abcd");
  assert.equal(Buffer.from(push(2, 0, "z").payload).toString(), "xyz");
  assert.equal(push(3, MORE, "12345"), "part");
  assert.throws(() => push(3, MORE, "678901"), /exceed/);
  assert.equal(push(3, 0, "tail"), "discarded");
  assert.equal(push(3, 0, "new").id, 3);
  assert.equal(push(4, MORE, "a", 0), "part");
  assert.deepEqual(assembler.expire(10_000), []);
  assert.equal(assembler.deadline, 10_001);
  assert.deepEqual(assembler.expire(10_001), [4]);
  assert.equal(push(5, MORE, "a"), "part");
  assert.throws(() => push(5, 0, "b", 0, TOOL_DEF), /interrupted/);
  assert.equal(push(6, MORE, "a"), "part");
  assert.equal(push(6, 0, "{}", 0, ERROR).opcode, ERROR, "an error ends what was begun");
});
