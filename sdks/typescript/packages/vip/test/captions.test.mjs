import assert from "node:assert/strict";
import { test } from "node:test";
import { Captions } from "../dist/captions.js";

function shown(...events) {
  const lines = [];
  const captions = new Captions(({ role, text, final, interrupted }) => lines.push(`${role[0]} ${text}${final ? "." : ""}${interrupted ? "|" : ""}`));
  for (const [type, data] of events) captions.receive({ type, data });
  return { lines, captions };
}

test("what the user said becomes clearer until it is final", () => {
  const { lines, captions } = shown(["transcript.partial", { turn_id: "t", text: "open", stable_chars: 4 }], ["input.complete", { turn_id: "t", text: "open orders" }]);
  assert.deepEqual(lines, ["u open", "u open orders."]);
  assert.deepEqual(captions.lastTurn, { id: "t", text: "open orders" });
});

test("what the assistant says is shown once, though it is known before it is spoken", () => {
  const { lines } = shown(
    ["response.audio", { response_id: "r", content: "One. Two." }],
    ["response.text.delta", { response_id: "r", text: "One." }],
    ["response.text.delta", { response_id: "r", text: " Two." }],
    ["response.done", { response_id: "r", status: "complete" }],
  );
  assert.deepEqual(lines, ["a One. Two.", "a One.", "a One. Two.", "a One. Two.."]);
});

test("what was cut off ends where it was heard", () => {
  const { lines } = shown(
    ["response.audio", { response_id: "r" }],
    ["response.text.delta", { response_id: "r", text: "One. Two." }],
    ["audio.interrupted", { response_id: "r", truncated_at_ms: 400, spoken_text: "One." }],
    ["response.done", { response_id: "r", status: "incomplete", text: "One. Two." }],
  );
  assert.deepEqual(lines, ["a One. Two.", "a One..|"]);
});
