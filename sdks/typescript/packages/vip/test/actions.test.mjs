import assert from "node:assert/strict";
import { test } from "node:test";
import { ActionFailure, Actions } from "../dist/actions.js";

const ACTIONS = {
  navigate: { type: "navigation", description: "Open a page", parameters: { type: "object", required: ["target"] } },
  "cart.add": { type: "button", description: "Add", element_id: "add", parameters: { type: "object", properties: { count: { type: "integer", minimum: 1 } } } },
  "search.fill": { type: "input", description: "Search", element_id: "q", input_type: "text" },
  "bags.fill": { type: "input", description: "Bags", element_id: "bags", input_type: "number" },
  "news.fill": { type: "input", description: "News", element_id: "news", input_type: "checkbox" },
  "way.fill": { type: "input", description: "Way", element_id: "way", input_type: "radiobutton", options: ["standard", "express"] },
  "off.button": { type: "button", description: "Off", element_id: "off", enabled: false },
  "hidden.button": { type: "button", description: "Hidden", element_id: "hidden" },
  "hidden.global": { type: "button", description: "Global", element_id: "global", global: true },
  "order.cancel": { type: "button", description: "Cancel", element_id: "btn-cancel", sensitive: true, confirmation: { prompt: "Cancel?", ttl_ms: 5000 } },
};

/** A page, a clock and a person, all in the hands of the test. */
function stage(changes = {}) {
  const world = {
    ran: [], state: "invoke_action", now: 1000, version: 3, answer: true, asked: [], handler: undefined, turn: undefined, ...changes,
  };
  const actions = new Actions({
    state: () => world.state,
    contextVersion: () => world.version,
    find: (id) =>
      ACTIONS[id] && {
        def: ACTIONS[id],
        visible: !id.startsWith("hidden"),
        handler: (parameters, call) => {
          world.ran.push([id, parameters]);
          return world.handler?.(parameters, call);
        },
      },
    routes: () => [{ target: "home" }, { target: "orders" }],
    confirm: async (request) => {
      world.asked.push(request);
      return world.answer;
    },
    lastTurn: () => world.turn,
    contextAfter: async (navigated) => (navigated ? { mode: "full", context_version: 4, narration: "New." } : undefined),
    now: () => world.now,
  });
  let count = 0;
  const invoke = (action_id, parameters = {}, more = {}) =>
    actions.handle({
      invocation_id: `inv-${++count}`, action_id, type: ACTIONS[action_id]?.type ?? "button", parameters, context_version: world.version,
      response_id: "r", timeout_ms: 1000, ...more,
    });
  const confirm = (action, parameters, more = {}) =>
    invoke("system.confirm", { reference_action_id: action, reference_invocation_id: "x", reference_parameters: parameters, prompt: "Sure?", channel: "ui", expires_at: world.now + 60000, ...more }, { type: "confirmation", timeout_ms: 60000 });
  return { world, actions, invoke, confirm };
}

const refusals = [
  ["nothing.here", {}, { context_version: 3 }, "ACT_NOT_FOUND"],
  ["nothing.here", {}, { context_version: 2 }, "ACT_STALE_CONTEXT"],
  ["off.button", { element_id: "off" }, {}, "ACT_DISABLED"],
  ["hidden.button", { element_id: "hidden" }, {}, "ACT_NOT_VISIBLE"],
  ["cart.add", { element_id: "add", count: 0 }, {}, "ACT_INVALID_PARAMETERS"],
  ["cart.add", { element_id: "another" }, {}, "ACT_INVALID_PARAMETERS"],
  ["navigate", {}, {}, "ACT_INVALID_PARAMETERS"],
  ["search.fill", { element_id: "q", input_type: "text", value: 7 }, {}, "ACT_TYPE_MISMATCH"],
  ["search.fill", { element_id: "q", input_type: "number", value: "x" }, {}, "ACT_TYPE_MISMATCH"],
  ["search.fill", { element_id: "q", input_type: "text", value: "x".repeat(4097) }, {}, "ACT_TYPE_MISMATCH"],
  ["bags.fill", { element_id: "bags", input_type: "number", value: "7" }, {}, "ACT_TYPE_MISMATCH"],
  ["news.fill", { element_id: "news", input_type: "checkbox", value: "yes" }, {}, "ACT_TYPE_MISMATCH"],
  ["way.fill", { element_id: "way", input_type: "radiobutton", value: "drone" }, {}, "ACT_TYPE_MISMATCH"],
  ["navigate", { target: "cellar" }, {}, "ACT_TARGET_UNKNOWN"],
  ["order.cancel", { element_id: "btn-cancel" }, {}, "ACT_CONFIRMATION_REQUIRED"],
];

test("vip_051_what_fails_a_check_is_refused_and_not_executed", async () => {
  for (const [id, parameters, more, code] of refusals) {
    const { world, invoke } = stage();
    const result = await invoke(id, parameters, more);
    assert.equal(result.status, "error", id);
    assert.equal(result.error.code, code, JSON.stringify([id, parameters]));
    assert.equal(result.executed, false);
    assert.match(result.event, /failure$/);
    assert.deepEqual(world.ran, []);
  }
});

test("what passes every check is done", async () => {
  const { world, invoke } = stage();
  assert.equal((await invoke("cart.add", { element_id: "add", count: 2 })).event, "action.success");
  assert.equal((await invoke("hidden.global", { element_id: "global" })).status, "success");
  assert.equal((await invoke("way.fill", { element_id: "way", input_type: "radiobutton", value: "express" })).status, "success");
  const moved = await invoke("navigate", { target: "orders" });
  assert.equal(moved.event, "navigation.success");
  assert.equal(moved.context.narration, "New.");
  assert.equal(world.ran.length, 4);
});

test("actions happen in their state only, or beside speech where they may", async () => {
  for (const [state, parallel, status] of [["ai_speaking", true, "success"], ["ai_speaking", false, "error"], ["idle", true, "error"], ["user_speaking", false, "error"]]) {
    const { invoke } = stage({ state });
    assert.equal((await invoke("cart.add", { element_id: "add" }, { parallel })).status, status, `${state} ${parallel}`);
  }
});

test("vip_053_a_repeated_invocation_gets_the_same_answer_and_runs_once", async () => {
  const { world, actions } = stage({ handler: async () => ({ n: 1 }) });
  const invocation = { invocation_id: "same", action_id: "cart.add", type: "button", parameters: { element_id: "add" }, context_version: 3, response_id: "r", timeout_ms: 1000 };
  const first = actions.handle(invocation);
  assert.equal(await actions.handle({ ...invocation, attempt: 2 }), undefined);
  const result = await first;
  world.state = "idle";
  assert.deepEqual(await actions.handle({ ...invocation, attempt: 2 }), result);
  assert.equal(world.ran.length, 1);
  assert.deepEqual(result.data, { n: 1 });
});

test("what is declined is answered and never run, and what was answered keeps its answer", async () => {
  const { world, actions } = stage();
  const invocation = { invocation_id: "old", action_id: "navigate", type: "navigation", parameters: { target: "home" }, context_version: 3, response_id: "r", timeout_ms: 1000 };
  const declined = actions.decline(invocation, "ACT_CANCELLED", "the connection was lost");
  assert.deepEqual([declined.event, declined.executed, declined.error.code], ["navigation.failure", false, "ACT_CANCELLED"]);
  assert.equal(await actions.handle(invocation), declined);
  assert.deepEqual(world.ran, []);
  const done = await actions.handle({ ...invocation, invocation_id: "done" });
  assert.equal(actions.decline({ ...invocation, invocation_id: "done" }, "ACT_CANCELLED", "x"), done);
});

test("vip_054_what_fails_half_way_has_failed", async () => {
  const fails = async (handler) => (await stage({ handler }).invoke("cart.add", { element_id: "add" }));
  const thrown = await fails(() => {
    throw new Error("out of stock");
  });
  assert.deepEqual([thrown.status, thrown.error.code, thrown.error.message, thrown.executed], ["error", "ACT_EXECUTION_FAILED", "out of stock", true]);
  const own = await fails(async () => {
    throw new ActionFailure("not today", "ACT_DISABLED", false);
  });
  assert.deepEqual([own.error.code, own.executed], ["ACT_DISABLED", false]);
  const large = await fails(() => "x".repeat(40_000));
  assert.equal(large.error.code, "ACT_EXECUTION_FAILED");
});

test("vip_052_what_takes_too_long_or_is_taken_back_is_answered_all_the_same", async () => {
  let signal;
  const { actions, invoke } = stage({ handler: (_, call) => ((signal = call.signal), new Promise(() => undefined)) });
  const late = await invoke("cart.add", { element_id: "add" }, { timeout_ms: 20 });
  assert.equal(late.error.code, "ACT_TIMEOUT");
  assert.equal(signal.aborted, true);
  const taken = invoke("cart.add", { element_id: "add" });
  await new Promise((resolve) => setTimeout(resolve, 10));
  actions.cancel("inv-2");
  assert.equal((await taken).error.code, "ACT_CANCELLED");
});

test("vip_056_only_a_confirmation_of_its_own_lets_a_sensitive_action_through", async () => {
  const parameters = { element_id: "btn-cancel", order_id: "A-17" };
  const { world, invoke, confirm } = stage();
  const given = await confirm("order.cancel", parameters);
  assert.equal(given.data.status, "confirmed");
  assert.equal(world.asked[0].prompt, "Sure?");
  const id = given.data.confirmation_id;
  assert.equal((await invoke("order.cancel", { ...parameters, order_id: "A-18" }, { confirmation_id: id })).error.code, "ACT_CONFIRMATION_REQUIRED");
  assert.equal((await invoke("order.cancel", parameters, { confirmation_id: "cf-made-up" })).error.code, "ACT_CONFIRMATION_REQUIRED");
  assert.equal((await invoke("order.cancel", { order_id: "A-17", element_id: "btn-cancel" }, { confirmation_id: id })).status, "success");
  assert.equal(world.ran.length, 1);
});

test("vip_057_a_confirmation_counts_once_and_not_for_long", async () => {
  const parameters = { element_id: "btn-cancel" };
  const { world, invoke, confirm } = stage();
  const once = (await confirm("order.cancel", parameters)).data.confirmation_id;
  await invoke("order.cancel", parameters, { confirmation_id: once });
  assert.equal((await invoke("order.cancel", parameters, { confirmation_id: once })).error.code, "ACT_CONFIRMATION_REQUIRED");
  const old = (await confirm("order.cancel", parameters)).data.confirmation_id;
  world.now += 5001;
  assert.equal((await invoke("order.cancel", parameters, { confirmation_id: old })).error.code, "ACT_CONFIRMATION_EXPIRED");
  assert.equal(world.ran.length, 1);
});

test("a no is a no, and silence is not a yes", async () => {
  const { invoke, confirm } = stage({ answer: false });
  const no = await confirm("order.cancel", {});
  assert.deepEqual([no.status, no.data], ["success", { status: "rejected", channel: "ui" }]);
  const expired = await confirm("order.cancel", {}, { expires_at: 1 });
  assert.equal(expired.error.code, "ACT_CONFIRMATION_EXPIRED");
  assert.equal((await invoke("order.cancel", { element_id: "btn-cancel" })).error.code, "ACT_CONFIRMATION_REQUIRED");
});

test("a spoken yes counts only if this side heard it in the latest turn", async () => {
  const said = async (turn, evidence) => {
    const { world, confirm } = stage({ turn, answer: false });
    const result = await confirm("order.cancel", {}, { channel: "voice", voice_evidence: evidence });
    return [result.data.status, result.data.channel, world.asked.length];
  };
  const turn = { id: "t-5", text: "Yes, please." };
  assert.deepEqual(await said(turn, { turn_id: "t-5", transcript: "yes please" }), ["confirmed", "voice", 0]);
  assert.deepEqual(await said({ id: "t-5", text: "no" }, { turn_id: "t-5", transcript: "yes" }), ["rejected", "voice", 0]);
  assert.deepEqual(await said(turn, { turn_id: "t-4", transcript: "yes" }), ["rejected", "ui", 1]);
  assert.deepEqual(await said({ id: "t-5", text: "what time is it" }, { turn_id: "t-5", transcript: "yes" }), ["rejected", "ui", 1]);
  assert.deepEqual(await said(undefined, undefined), ["rejected", "ui", 1]);
});
