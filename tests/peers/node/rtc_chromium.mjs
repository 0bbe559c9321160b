// A WebRTC peer that is a browser: `rtc_chromium.mjs LABEL PROTOCOL`, run by `crates/rtc/tests/rtc/foreign.rs`.
//
// It speaks in lines of JSON. Out: `offer`, without any candidates; `candidates`, a fragment for trickling; `text` for
// every message; `pitch` of what it hears. In: `answer`, `close`. Its microphone hums 440 Hz, after two seconds.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { launch, wav } from "./chromium.mjs";
import { prepareCall } from "./page_call.mjs";

const [label, protocol] = process.argv.slice(2);
const RATE = 48000;
const say = (line) => console.log(JSON.stringify(line));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const folder = mkdtempSync(join(tmpdir(), "microphone-"));
const microphone = join(folder, "hum.wav");
const hum = (n) => (n < 2 * RATE ? 0 : 12000 * Math.sin((2 * Math.PI * 440 * n) / RATE));
writeFileSync(microphone, wav(Array.from({ length: 40 * RATE }, (_, n) => hum(n))));

let browser;
let closed = false;

async function listen() {
  while (!closed) {
    const { lasting, pitch } = await browser.evaluate(() => sound());
    if (lasting > 0.1) return say({ pitch });
    await sleep(200);
  }
}

try {
  const said = (line) => {
    if (line.opened) browser.evaluate(() => send("grüße"));
    say(line);
  };
  browser = await launch({ microphone: `${microphone}%noloop`, said });
  await browser.evaluate(prepareCall, { label, protocol });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.answer) {
      await browser.evaluate((answer) => accept(answer), order.answer);
      listen().catch(() => {});
    }
    if (order.close) {
      closed = true;
      await browser.evaluate(() => hangUp());
      // Its good-bye is on the way when the call returns; the browser that sends it goes later.
      await sleep(1000);
      break;
    }
  }
} catch (error) {
  say({ error: String(error) });
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}
