/** All five protocols at once, as examples/five-protocols shows them: one order, one history, one end per turn. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { account, compare } from "../../examples/five-protocols/check.mjs";
import { LANES, Screen } from "../../examples/five-protocols/screen.mjs";
import { tell } from "../../examples/five-protocols/story.mjs";
import { binary, models } from "./support/server.mjs";

test("one session is spoken to, worked on, stopped, steered, killed and taken up again through five protocols", async () => {
  const lines = [];
  const screen = new Screen({ colour: false, write: (line) => lines.push(line) });
  const { rows, problems } = await tell({ binary, models, screen }).catch((error) => {
    error.message += `\n${lines.join("\n")}`;
    throw error;
  });
  assert.deepEqual(problems, [], lines.join("\n"));
  assert.deepEqual(rows.map(({ protocol, outcome }) => [protocol, outcome]), [["AIP", "done"], ["VIP", "interrupted"], ["ASP", "done"], ["Alicia", "done"]]);
  const seen = rows.map(({ cells }) => LANES.filter((lane) => cells[lane].startsWith("✓")).length);
  assert.deepEqual(seen, [4, 5, 5, 4], lines.join("\n"));
});

/** A log of two turns, and clients that have seen it as it is. */
function world() {
  const events = [
    { turn_accepted: { turn: "inv_1", origin: { protocol: "vip", handle: "t-1" } } },
    { call_requested: { turn: "inv_1", call: { kind: { tool: { name: "run_command", args: { command: "uname" } } }, executor: { device: "lab-1" } } } },
    { turn_output: { turn: "inv_1", output: { text: "One. " } } },
    { turn_ended: { turn: "inv_1", end: { outcome: { interrupted: { abandoned: false } } } } },
    { turn_accepted: { turn: "inv_2", origin: { protocol: "asp", handle: "1" } } },
    { turn_output: { turn: "inv_2", output: { text: "Two." } } },
    { turn_ended: { turn: "inv_2", end: { outcome: { done: "complete" } } } },
  ].map((event, index) => ({ position: { epoch: 1, seq: index + 1 }, event }));
  const first = () => ({ name: "inv_1", turn: "inv_1", words: "One.", calls: ["run_command"], ends: ["one"] });
  const second = () => ({ name: "inv_2", turn: "inv_2", words: "Two.", calls: [], ends: ["one"] });
  const cast = {
    browser: { lane: "VIP", turns: [{ ...first(), name: "t-1", turn: "t-1" }], announced: [{ words: "Two.", ends: ["complete"] }] },
    device: { ran: ["uname"] },
    terminal: { lane: "Acolyte", turns: [first(), second()] },
    program: { lane: "ASP", turns: [first(), second()], numbers: [0, 1, 2] },
    phone: { lane: "Alicia", turns: [first(), second()] },
  };
  const judge = () => compare(account(events), cast, { lent: [], expected: { VIP: [1, 2], Alicia: [2] } }).problems;
  return { events, cast, judge };
}

test("whatever differs from the log is found", () => {
  assert.deepEqual(world().judge(), []);
  const faults = {
    "an event is missing": ({ events }) => events.splice(2, 1),
    "a turn ends twice in the log": ({ events }) => events.push({ ...events.at(-1), position: { epoch: 1, seq: 8 } }),
    "a word is missing": ({ cast }) => (cast.terminal.turns[1].words = "Tw."),
    "a word came twice": ({ cast }) => (cast.phone.turns[0].words = "One. One."),
    "an end is missing": ({ cast }) => (cast.program.turns[1].ends = []),
    "an end came twice": ({ cast }) => cast.phone.turns[1].ends.push("again"),
    "another order": ({ cast }) => cast.terminal.turns.reverse(),
    "a call was not shown": ({ cast }) => (cast.program.turns[0].calls = []),
    "a record is missing": ({ cast }) => cast.program.numbers.splice(1, 1),
    "a command was run twice": ({ cast }) => cast.device.ran.push("uname"),
    "nothing was said aloud": ({ cast }) => cast.browser.announced.pop(),
    "something else was said aloud": ({ cast }) => (cast.browser.announced[0].words = "Three."),
    "a turn that nobody asked for": ({ cast }) => cast.phone.turns.push({ name: "inv_3", turn: "inv_3", words: "", calls: [], ends: ["one"] }),
    "a client saw nothing of a turn": ({ cast }) => cast.phone.turns.pop(),
  };
  for (const [what, plant] of Object.entries(faults)) {
    const here = world();
    plant(here);
    assert.notDeepEqual(here.judge(), [], what);
  }
});
