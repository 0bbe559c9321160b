/** Holds what every client has seen against the log of the server. */

import { LANES } from "./screen.mjs";

const LANE_OF = { vip: "VIP", aip: "AIP", acolyte: "Acolyte", asp: "ASP", alicia: "Alicia" };
const flat = (text) => text.replace(/\s+/g, " ").trim();
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** What the log says: its turns in their order, with words, calls and ends. */
export function account(events) {
  const problems = [];
  const turns = new Map();
  events.forEach(({ position, event }, index) => {
    if (position.seq !== index + 1) problems.push(`the log has number ${position.seq} in place ${index + 1}`);
    const [[kind, fields]] = Object.entries(event);
    if (kind === "turn_accepted") {
      const { turn, origin } = fields;
      turns.set(turn, { turn, protocol: LANE_OF[origin.protocol], handle: origin.handle, words: "", calls: [], commands: [], ends: [] });
    }
    const known = turns.get(fields.turn);
    if (kind === "turn_output" && fields.output.text !== undefined) known.words += fields.output.text;
    if (kind === "call_requested") {
      const { kind: asked, executor } = fields.call;
      known.calls.push(asked.tool?.name ?? "question");
      if (executor.device && asked.tool?.name === "run_command") known.commands.push(asked.tool.args.command);
    }
    if (kind === "turn_ended") {
      const { outcome } = fields.end;
      known.ends.push(typeof outcome === "string" ? outcome : Object.keys(outcome)[0]);
    }
  });
  return { turns: [...turns.values()], problems, length: events.length };
}

/**
 * Compares. `expected` says, per lane, which turns it has to have seen, by their number from 1; `lent` is how the
 * task of AIP ended.
 */
export function compare(log, { browser, device, terminal, program, phone }, { lent, expected }) {
  const problems = [...log.problems];
  const numberOf = (seen) => 1 + log.turns.findIndex(({ turn, handle }) => turn === seen.turn || (handle === seen.name && seen.name));
  const cells = log.turns.map(() => Object.fromEntries(LANES.map((lane) => [lane, "–"])));
  const judge = (lane, number, wrong, tag = "") => {
    cells[number - 1][lane] = wrong.length ? "≠" : `✓${tag}`;
    problems.push(...wrong.map((what) => `${lane}, turn ${number}: ${what}`));
  };

  for (const witness of [browser, terminal, program, phone]) {
    const { lane } = witness;
    const numbers = witness.turns.map(numberOf);
    if (!same(numbers, [...numbers].sort((a, b) => a - b))) problems.push(`${lane} saw the turns in the order ${numbers.join(", ")}`);
    witness.turns.forEach((seen, index) => {
      const turn = log.turns[numbers[index] - 1];
      if (!turn) return problems.push(`${lane} saw a turn that is not in the log: ${seen.name}`);
      const wrong = [];
      if (flat(seen.words) !== flat(turn.words)) wrong.push(`“${flat(seen.words)}” was seen, “${flat(turn.words)}” was said`);
      if (seen.ends.length !== 1) wrong.push(`it ended ${seen.ends.length} times: ${seen.ends.join(", ")}`);
      // Neither an app nor a phone is told of everything that an agent uses.
      if ([terminal, program].includes(witness) && !same(seen.calls, turn.calls)) wrong.push(`${seen.calls.join(", ")} were seen, ${turn.calls.join(", ")} were called`);
      return judge(lane, numbers[index], wrong);
    });
  }

  // What others asked is said aloud in the browser, whole, once, and in its order.
  const others = log.turns.filter(({ protocol }) => protocol !== "VIP");
  browser.announced.forEach(({ words, ends }, index) => {
    const turn = others[index];
    if (!turn) return problems.push(`VIP said something that nobody was answered: “${words}”`);
    const wrong = [];
    if (flat(words) !== flat(turn.words)) wrong.push(`“${flat(words)}” was said aloud, “${flat(turn.words)}” was the answer`);
    if (ends.length !== 1) wrong.push(`it ended ${ends.length} times`);
    return judge("VIP", 1 + log.turns.indexOf(turn), wrong, " aloud");
  });

  // Every command was run once, also if the server was killed in between.
  const commands = log.turns.flatMap((turn) => turn.commands);
  if (!same(device.ran, commands)) problems.push(`AIP: ${device.ran.join("; ")} were run, ${commands.join("; ")} were asked for`);
  log.turns.forEach((turn, index) => {
    const count = turn.commands.length;
    if (count) judge("AIP", index + 1, [], ` ran ${count}`);
    if (turn.protocol === "AIP") judge("AIP", index + 1, same(lent.map(({ status }) => status), ["completed"]) ? [] : [`the task ended ${lent.length} times`]);
  });

  const range = program.numbers.map((_, index) => index);
  if (!same(program.numbers, range)) problems.push(`ASP: the records are numbered ${program.numbers.join(" ")}`);
  for (const [lane, numbers] of Object.entries(expected)) {
    for (const number of numbers) if (cells[number - 1]?.[lane] === "–" || !cells[number - 1]) problems.push(`${lane} has seen nothing of turn ${number}`);
  }

  const rows = log.turns.map(({ protocol, ends }, index) => {
    if (ends.length !== 1) problems.push(`turn ${index + 1} has ${ends.length} ends in the log`);
    return { number: index + 1, protocol, cells: cells[index], ends: ends.length, outcome: ends.join(", "), right: ends.length === 1 };
  });
  const summary = [
    `${log.length} events in the log, numbered without a gap`,
    "one order and one history: every client saw the words of the log",
    `${commands.length} commands were run, each once; every turn has one end`,
  ];
  return { rows, problems, summary };
}
