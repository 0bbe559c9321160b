import assert from "node:assert/strict";
import { test } from "node:test";
import { Machine, MATRIX, STATES, stateNamed, takesContext, transition } from "../dist/machine.js";

const TRIGGERS = [...new Set(MATRIX.map((row) => row.trigger))];

test("vip_021_the_seven_states_have_their_names", () => {
  assert.deepEqual(STATES, ["not_connected", "connecting", "idle", "user_speaking", "ai_thinking", "ai_speaking", "invoke_action"]);
  assert.equal(stateNamed("listening"), "user_speaking");
  assert.equal(stateNamed("processing"), "ai_thinking");
  assert.equal(stateNamed("speaking"), "ai_speaking");
  assert.equal(stateNamed("action"), "invoke_action");
  assert.equal(stateNamed("asleep"), undefined);
});

test("every pair of state and trigger leads where the matrix says, or nowhere", () => {
  const legal = new Map();
  for (const { from, to, trigger } of MATRIX) {
    for (const state of from === "*" ? STATES.slice(1) : [from]) legal.set(`${state} ${trigger}`, to);
  }
  assert.equal(legal.size, 15 + 2 * 6);
  for (const state of STATES) {
    for (const trigger of TRIGGERS) {
      const machine = new Machine();
      machine.adopt(state, 7, "test");
      const to = legal.get(`${state} ${trigger}`);
      assert.equal(transition(state, trigger), to, `${state} ${trigger}`);
      assert.equal(machine.fire(trigger), to !== undefined, `${state} ${trigger}`);
      assert.equal(machine.state, to ?? state);
    }
  }
});

test("the number of the state grows by one, and is 0 while connecting", () => {
  const machine = new Machine();
  const seen = [];
  machine.watch(({ state, previous, trigger, seq }) => seen.push([previous, state, trigger, seq]));
  for (const trigger of ["client.connect", "server.ready", "input.start", "input.end", "response.audio", "audio.complete"]) machine.fire(trigger);
  assert.deepEqual(seen.map((one) => one[3]), [0, 1, 2, 3, 4, 5]);
  assert.equal(machine.fire("action.result"), false);
  assert.equal(machine.seq, 5);
});

test("the screen may be told about in four states only", () => {
  assert.deepEqual(STATES.filter(takesContext), ["connecting", "idle", "ai_speaking", "invoke_action"]);
});
