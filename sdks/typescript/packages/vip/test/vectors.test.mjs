/** The vectors of vectors/vip: events, frames, digests, and where every trigger leads. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { canonical, digest } from "../dist/canonical.js";
import { readServerEvent } from "../dist/events.js";
import { decodeFrame, encodeFrame } from "../dist/frames.js";
import { schemaError } from "../dist/schema.js";
import { STATES, transition } from "../dist/machine.js";

const folder = new URL("../../../../../vectors/vip/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
const vectors = readdirSync(new URL("frames/", folder)).sort().map((name) => read(`frames/${name}`));
const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

test("every event of the server is read as what it says; cut short, it is none", () => {
  let events = 0;
  for (const vector of vectors.filter(({ kind }) => kind === "events")) {
    for (const { direction, text } of vector.events) {
      if (direction !== "to_client") continue;
      const event = readServerEvent(text);
      assert.deepEqual(event && { type: event.type, seq: event.seq, data: event.data }, (({ type, seq, data }) => ({ type, seq, data }))(JSON.parse(text)), vector.id);
      for (let length = 0; length < text.length; length += 7) assert.equal(readServerEvent(text.slice(0, length)), undefined, `${vector.id} at ${length}`);
      events += 1;
    }
  }
  assert.ok(events >= 5, String(events));
});

test("frames of audio are read and written as the same bytes", () => {
  const { frames } = vectors.find(({ kind }) => kind === "audio");
  let known = 0;
  for (const vector of frames) {
    const frame = decodeFrame(bytesOf(vector.hex));
    if (vector.error !== undefined) {
      assert.equal(frame, undefined, vector.hex);
      continue;
    }
    assert.ok(frame, vector.hex);
    assert.equal(Buffer.from(encodeFrame(frame)).toString("hex"), vector.hex);
    for (let length = 0; length < 12; length += 1) assert.equal(decodeFrame(bytesOf(vector.hex).subarray(0, length)), undefined);
    known += 1;
  }
  assert.ok(known > 0);
});

test("what a confirmation was given for has the digest of the vector", async () => {
  const vector = vectors.find(({ digest: given }) => given !== undefined);
  assert.equal(await digest(vector.parameters), vector.digest.replace(/^sha256:/, ""));
  assert.equal(canonical(JSON.parse(canonical(vector.parameters))), canonical(vector.parameters));
});

test("parameters in the vectors fit the schemas that stand beside them", () => {
  const context = JSON.parse(vectors.find(({ id }) => id === "V05").events[0].text).data;
  const { parameters } = vectors.find(({ id }) => id === "V07");
  assert.equal(schemaError(context.actions["order.cancel"].parameters, parameters), undefined);
  assert.notEqual(schemaError(context.actions["order.cancel"].parameters, {}), undefined);
});

test("every trigger leads from every state where the server's table says", () => {
  const { states, triggers, next } = read("matrix.json");
  assert.deepEqual(states, [...STATES]);
  for (const state of states) for (const trigger of triggers) assert.equal(transition(state, trigger) ?? null, next[state][trigger], `${state} ${trigger}`);
});
