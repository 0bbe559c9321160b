import assert from "node:assert/strict";
import { test } from "node:test";
import { canonical, digest } from "../dist/canonical.js";
import { readServerEvent } from "../dist/events.js";
import { decodeFrame, encodeFrame, END, fromBase64, INPUT, MONITOR, OUTPUT, pcmOfFloats, floatsOfPcm, toBase64 } from "../dist/frames.js";
import { hex } from "./support.mjs";

const samples = (...values) => new Uint8Array(Int16Array.from(values).buffer);
const VECTORS = [
  [{ kind: INPUT, flags: 0, stream: 1, seq: 0, offsetMs: 0, payload: samples(1, -1) }, "1100000100000000000000000100ffff"],
  [{ kind: INPUT, flags: END, stream: 1, seq: 57, offsetMs: 1140, payload: new Uint8Array(0) }, "110100010000003900000474"],
  [{ kind: OUTPUT, flags: 0, stream: 32769, seq: 2, offsetMs: 40, payload: samples(-32768, 32767) }, "1200800100000002000000280080ff7f"],
  [{ kind: INPUT, flags: MONITOR, stream: 2, seq: 0, offsetMs: 0, payload: samples(0) }, "1102000200000000000000000000"],
];

test("vip_067_frames_have_a_header_of_twelve_bytes_in_big_endian", () => {
  for (const [frame, bytes] of VECTORS) {
    assert.equal(hex(encodeFrame(frame)), bytes);
    const decoded = decodeFrame(Uint8Array.from(Buffer.from(bytes, "hex")));
    assert.deepEqual({ ...decoded, payload: hex(decoded.payload) }, { ...frame, payload: hex(frame.payload) });
  }
});

test("what is no frame is not read as one", () => {
  const good = Buffer.from(VECTORS[0][1], "hex");
  for (let length = 0; length < 12; length++) assert.equal(decodeFrame(good.subarray(0, length)), undefined);
  for (const [offset, value] of [[0, 0x21], [0, 0x13], [0, 0x10], [1, 0x08]]) {
    const bad = Buffer.from(good);
    bad[offset] = value;
    assert.equal(decodeFrame(bad), undefined);
  }
});

test("samples survive the way to numbers and back", () => {
  const bytes = samples(0, 1, -1, 12345, -32768, 32767);
  assert.deepEqual(pcmOfFloats(floatsOfPcm(bytes)), bytes);
  assert.deepEqual(pcmOfFloats(Float32Array.of(2, -2)), samples(32767, -32768));
  assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
});

test("the digest of the reference's confirmation is the reference's", async () => {
  const parameters = { order_id: "A-17", element_id: "btn-cancel" };
  assert.equal(canonical(parameters), '{"element_id":"btn-cancel","order_id":"A-17"}');
  assert.equal(await digest(parameters), "6d90c92799de43597e37ae862fca81b6762de8fb516b460e66565081a44bcde7");
});

test("a value has one spelling", () => {
  const value = { "\u20ac": "Euro", "\r": 1e21, "1": [56.0, 0.000001, 1e-7, -0, true, null], "": { b: 1, a: "\u0007\"\\" }, "\ud83d\ude00": 4.5 };
  assert.equal(canonical(value), '{"":{"a":"\\u0007\\"\\\\","b":1},"\\r":1e+21,"1":[56,0.000001,1e-7,0,true,null],"€":"Euro","😀":4.5}');
  assert.throws(() => canonical(NaN));
});

test("events are read liberally, and nonsense is not", () => {
  assert.equal(readServerEvent("{"), undefined);
  assert.equal(readServerEvent("[1]"), undefined);
  assert.equal(readServerEvent('{"seq":1}'), undefined);
  const event = readServerEvent('{"type":"invoke_action","id":"s-1","seq":1,"ts":1,"state_seq":0,"extra":true}');
  assert.equal(event.type, "action.invoke");
  assert.deepEqual(event.data, {});
});
