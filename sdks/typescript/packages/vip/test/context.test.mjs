import assert from "node:assert/strict";
import { test } from "node:test";
import { applyUpdate, assertAction, ContextFeed, difference } from "../dist/context.js";

const button = (description) => ({ type: "button", description, element_id: "b" });
const screen = (changes = {}) => ({
  route: { id: "home" },
  routes: [{ target: "home" }, { target: "orders" }],
  narration: "Home.",
  actions: { "cart.add": button("Add"), "cart.clear": button("Empty") },
  visibility: ["cart.add"],
  ...changes,
});

test("a whole screen comes first, then only what changed", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  assert.deepEqual(feed.next("idle", 0), { mode: "full", context_version: 1, ...screen() });
  feed.acknowledged(1);
  assert.equal(feed.next("idle", 0), undefined);
  feed.show(screen({ narration: "Home, with honey.", actions: { "cart.add": button("Add more"), extra: button("Extra") }, visibility: ["extra"] }));
  assert.deepEqual(feed.next("idle", 0), {
    mode: "delta",
    base_version: 1,
    context_version: 2,
    narration: "Home, with honey.",
    actions_upsert: { "cart.add": button("Add more"), extra: button("Extra") },
    actions_remove: ["cart.clear"],
    visibility: ["extra"],
  });
});

test("vip_041_changes_are_held_and_coalesced_while_they_may_not_be_sent", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("connecting", 0);
  feed.acknowledged(1);
  for (const state of ["user_speaking", "ai_thinking", "not_connected"]) {
    for (let i = 0; i < 5; i++) {
      feed.show(screen({ narration: `${state} ${i}` }));
      assert.equal(feed.next(state, 0), undefined);
    }
  }
  const update = feed.next("ai_speaking", 0);
  assert.deepEqual(update, { mode: "delta", base_version: 1, context_version: 2, narration: "not_connected 4" });
});

test("what comes back to how it was is not worth an update", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("idle", 0);
  feed.acknowledged(1);
  feed.show(screen({ narration: "Another." }));
  feed.next("user_speaking", 0);
  feed.show(screen());
  assert.equal(feed.next("idle", 0), undefined);
});

test("one update at a time is on the way, and a lost one is sent whole", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("idle", 0);
  feed.show(screen({ narration: "Two." }));
  assert.equal(feed.next("idle", 1000), undefined);
  const again = feed.next("idle", 6000);
  assert.equal(again.mode, "full");
  assert.equal(again.context_version, 2);
  assert.equal(again.narration, "Two.");
});

test("a refused update is sent whole, unless it never will be accepted", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("idle", 0);
  feed.rejected(false);
  assert.equal(feed.next("idle", 0).mode, "full");
  feed.rejected(true);
  assert.equal(feed.next("idle", 0), undefined);
  feed.show(screen({ narration: "Better." }));
  assert.equal(feed.next("idle", 0).mode, "full");
});

test("versions only grow, whatever the server has", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("idle", 0);
  feed.resync(9);
  assert.equal(feed.next("idle", 0).context_version, 10);
  assert.equal(feed.full().context_version, 11);
});

test("vip_059_a_result_of_a_navigation_carries_the_whole_screen", () => {
  const feed = new ContextFeed();
  feed.show(screen());
  feed.next("idle", 0);
  feed.acknowledged(1);
  feed.show(screen({ route: { id: "orders" }, narration: "Orders." }));
  const embedded = feed.embedded(true);
  assert.equal(embedded.mode, "full");
  assert.equal(embedded.narration, "Orders.");
  assert.equal(feed.embedded(false), undefined);
});

test("a change of the route always brings a narration", () => {
  assert.deepEqual(difference(screen(), screen({ route: { id: "orders" } })), { route: { id: "orders" }, narration: "Home." });
});

test("a delta applied is the screen that it came from", () => {
  const before = { mode: "full", context_version: 3, ...screen() };
  const after = screen({ narration: "New.", actions: { extra: button("Extra") }, visibility: ["extra"], route: { id: "x" } });
  const delta = { mode: "delta", base_version: 3, context_version: 4, ...difference(before, after) };
  assert.deepEqual(applyUpdate(before, delta), { mode: "full", context_version: 4, ...after });
  assert.equal(applyUpdate(before, { ...delta, base_version: 2 }), undefined);
});

test("vip_046_types_of_ones_own_begin_with_x", () => {
  assert.throws(() => assertAction("a", { type: "slider", description: "Slide" }), /x-/);
  assertAction("a", { type: "x-shop-slider", description: "Slide" });
});

test("an action that no server would accept is refused where it is declared", () => {
  const bad = [
    ["1a", { type: "navigation", description: "d" }],
    ["system.own", { type: "navigation", description: "d" }],
    ["get_system_states", { type: "navigation", description: "d" }],
    ["a", { type: "navigation", description: "" }],
    ["a", { type: "button", description: "d" }],
    ["a", { type: "input", description: "d", element_id: "e" }],
    ["a", { type: "input", description: "d", element_id: "e", input_type: "radiobutton" }],
    ["a", { type: "button", description: "d", element_id: "e", sensitive: true, parallel: true }],
    ["a", { type: "button", description: "d", element_id: "e", confirmation: {} }],
  ];
  for (const [id, def] of bad) assert.throws(() => assertAction(id, def), TypeError, JSON.stringify([id, def]));
});
