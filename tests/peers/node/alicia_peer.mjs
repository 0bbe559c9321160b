// Checks a running server from outside: `alicia_peer.mjs URL`.
//
// The server and the environment are those of `tests/peers/python/alicia_peer.py`. What differs is the library
// beneath, npm `ws` and `@msgpack/msgpack`, and who wrote the codec. PEER_ONLY holds words of which a name has to
// contain one.

import { CHECKS as SERVICE } from "./alicia_service.mjs";
import { CHECKS as TURNS } from "./alicia_turns.mjs";
import { Failed, PATIENCE, World } from "./alicia_wire.mjs";

const AT_ONCE = 6;
const results = [];

async function run(title, check, world) {
  let timer;
  const patience = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failed("took too long")), 3 * PATIENCE);
  });
  try {
    await Promise.race([check(world), patience]);
    results.push(true);
    console.log(`ok ${title}`);
  } catch (error) {
    results.push(false);
    const why = error instanceof Failed ? error.message : String(error.stack);
    console.log(`FAIL ${title} ${why.split(/\s+/).join(" ")}`);
  } finally {
    clearTimeout(timer);
  }
}

const only = (process.env.PEER_ONLY ?? "").split(",").filter(Boolean);
const waiting = Object.entries({ ...TURNS, ...SERVICE }).filter(([title]) => !only.length || only.some((word) => title.includes(word)));
const world = new World(process.argv[2]);
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let next; (next = waiting.shift()); ) await run(...next, world);
  }),
);
const passed = results.filter(Boolean).length;
console.log(`${passed} passed, ${results.length - passed} failed`);
process.exit(passed === results.length && passed > 0 ? 0 : 1);
