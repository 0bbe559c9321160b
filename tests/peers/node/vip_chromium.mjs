// A session of VIP in a browser, over WebRTC (4.2): `vip_chromium.mjs URL`.
//
// The server allows development, hears and speaks. The microphone of the browser is a WAV file that flite has made: the
// same sentence over and over. One line per check, `ok NAME` or `FAIL NAME why`, and at the end how many.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { launch, wav } from "./chromium.mjs";
import { prepareCall } from "./page_call.mjs";

const base = process.argv[2];
const PATIENCE = 60_000;
const SENTENCE = "please open the settings page";
const REQUEST = {
  protocol_versions: ["0.1"],
  environment: "development",
  mode: "external",
  app_id: "shop-web",
  client: { name: "peer", version: "1.0", platform: "web" },
  capabilities: { transports: ["webrtc"] },
  audio: { input_formats: ["opus/48000"], output_formats: ["opus/48000"] },
  turn_detection: { type: "server_vad", silence_ms: 700 },
};
const TREE = {
  mode: "full",
  context_version: 1,
  route: { id: "home", path: "/", title: "Home" },
  routes: [{ target: "home" }, { target: "settings" }],
  narration: "The home page.",
  actions: {},
  visibility: [],
};

const folder = mkdtempSync(join(tmpdir(), "microphone-"));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
function ensure(condition, ...why) {
  if (!condition) throw new Error(why.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" "));
}

/** What flite makes of the sentence, at 48 kHz, with silence around it. */
function microphoneOf(folder) {
  const made = join(folder, "said.wav");
  execFileSync("flite", ["-voice", "rms", "-t", SENTENCE, "-o", made]);
  const bytes = readFileSync(made);
  const times = 48000 / bytes.readUInt32LE(24);
  const said = new Int16Array(bytes.subarray(44, 44 + ((bytes.length - 44) & ~1)).slice().buffer);
  const smooth = Array.from({ length: (said.length - 1) * times }, (_, n) => {
    const at = Math.floor(n / times);
    return said[at] + ((said[at + 1] - said[at]) * (n % times)) / times;
  });
  const silence = Array(3 * 48000).fill(0);
  const file = join(folder, "microphone.wav");
  writeFileSync(file, wav([...silence, ...smooth, ...silence]));
  return file;
}

/** A call of a session: events in and out, and what the page hears. */
class Call {
  constructor() {
    [this.inbox, this.log, this.seq, this.stateSeq, this.lines] = [[], [], 0, 0, []];
  }

  async open(microphone) {
    this.created = await ask("POST", "/v1/vip/sessions", 201, { body: JSON.stringify(REQUEST), type: "application/json" }).then((answer) => answer.json());
    const { offer_url, data_channel } = this.created.transport.webrtc;
    ensure(data_channel === "vip-events", "VIP-086:", data_channel);
    this.browser = await launch({ microphone, said: (line) => this.hear(line) });
    await this.browser.evaluate(prepareCall, { label: data_channel, protocol: "vip.v1" });
    const token = this.created.session_token;
    const answer = await ask("POST", offer_url, 201, { body: await this.line("offer"), type: "application/sdp", token });
    this.location = answer.headers.get("location");
    ensure(this.location, "VIP-085: no Location");
    await this.browser.evaluate((sdp) => accept(sdp), await answer.text());
    await ask("PATCH", this.location, 204, { body: await this.line("candidates"), type: "application/trickle-ice-sdpfrag", token });
    await this.line("opened");
  }

  hear(line) {
    if (!("text" in line)) return void this.lines.push(line);
    const event = JSON.parse(line.text);
    this.stateSeq = event.state_seq;
    this.inbox.push(event);
    this.log.push(event.type);
  }

  /** What the page says of this kind. */
  line(kind) {
    return until(`${kind} from the page`, () => this.lines.find((line) => kind in line)?.[kind]);
  }

  /** The next event of one of these types; others go by. */
  next(...types) {
    return until(`${types} after ${this.log.slice(-8)}`, () => {
      while (this.inbox.length) {
        const event = this.inbox.shift();
        if (types.includes(event.type)) return event;
        ensure(event.type !== "error.fatal", event);
      }
    });
  }

  async send(type, data, envelope = {}) {
    const event = { type, id: `c-${++this.seq}`, seq: this.seq, ts: Date.now(), state_seq: this.stateSeq, data, ...envelope };
    await this.browser.evaluate((text) => send(text), JSON.stringify(event));
  }
}

async function ask(method, path, status, { body, type, token }) {
  const headers = { "content-type": type, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(new URL(path, base), { method, headers, body });
  ensure(answer.status === status, method, path, "gave", answer.status, answer.status === status ? "" : await answer.text());
  return answer;
}

async function until(what, found) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(20)) {
    const value = found();
    if (value) return value;
  }
  throw new Error(`no ${what}`);
}

// --- the checks, in their order ----------------------------------------------------------------------

async function vip_085_a_browser_is_let_in(call) {
  await call.open(microphoneOf(folder));
}

async function s1_a_browser_connects(call) {
  await call.send("client.connect", { session_id: call.created.session_id, protocol_version: "0.1" });
  const connected = await call.next("session.connected");
  ensure(connected.data.audio.input === "opus/48000" && connected.data.audio.output === "opus/48000", connected);
  await call.send("state.update", TREE);
  await call.next("server.ready");
  ensure((await call.next("state.changed")).data.state === "idle", "not idle");
}

async function s2_what_is_spoken_is_understood_and_answered_aloud(call) {
  // The sentence is said again and again: a turn that begins in the midst of it may hear only a part.
  for (let attempt = 1; ; attempt++) {
    const turn = `t-${attempt}`;
    await call.send("input.start", { mode: "voice", trigger: "ptt" }, { turn_id: turn });
    const heard = await call.next("input.complete", "error.recoverable");
    const understood = /setting/i.test(heard.data.text ?? "");
    if (!understood) {
      ensure(attempt < 5, "not understood:", heard);
      if (heard.type === "error.recoverable") continue;
    }
    const opened = await call.next("response.audio");
    await call.next("audio.start");
    await until("sound in the page", () => call.loud || (listen(call), false));
    const { data } = await call.next("audio.end");
    ensure(data.duration_ms > 300, data);
    await call.send("audio.complete", { response_id: opened.data.response_id, played_ms: data.duration_ms });
    await until("idle", () => call.inbox.some((event) => event.type === "state.changed" && event.data.state === "idle"));
    if (understood) return;
    call.loud = false;
  }
}

/** Asks the page what it hears, one question at a time. */
function listen(call) {
  call.asking ??= call.browser.evaluate(() => sound()).then(({ peak }) => {
    call.loud ||= peak > 0.05;
    call.asking = undefined;
  });
}

async function s8_a_browser_hangs_up(call) {
  await call.send("session.close", { reason: "user_hangup" });
  ensure((await call.next("session.terminated")).data.reason === "user_hangup", "another reason");
  await call.line("closed");
}

const call = new Call();
let failed = 0;
let passed = 0;
try {
  for (const check of [vip_085_a_browser_is_let_in, s1_a_browser_connects, s2_what_is_spoken_is_understood_and_answered_aloud, s8_a_browser_hangs_up]) {
    try {
      await check(call);
      passed += 1;
      console.log(`ok ${check.name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${check.name} ${error.message.replace(/\s+/g, " ")}`);
      break;
    }
  }
} finally {
  await call.browser?.close();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
