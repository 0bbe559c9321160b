/** What the tests stand on: a runtime that only listens, sockets without a network, and pages without a browser. */

import { Machine } from "../dist/machine.js";

/** A link that keeps what is sent. The test plays the server. */
export class FakeLink {
  machine = new Machine();
  framed = true;
  turnDetection = { type: "client_vad", silence_ms: 700, no_speech_ms: 8000, interrupt_response: true, follow_up_listen: true };
  sent = [];
  frames = [];

  constructor(state = "idle") {
    this.machine.adopt(state, 1, "test");
  }

  send(type, data, correlation = {}) {
    const id = `c-${this.sent.length + 1}`;
    this.sent.push({ type, id, data, ...correlation });
    return id;
  }

  sendFrame(frame) {
    this.frames.push({ state: this.machine.state, ...frame });
  }

  /** The server says so. */
  become(state, trigger) {
    this.machine.adopt(state, this.machine.seq + 1, trigger);
  }

  types() {
    return this.sent.map((event) => event.type);
  }
}

/** A loudspeaker that plays nothing, and knows how much. */
export class FakeSpeaker {
  audible = true;
  played = 1840;
  log = [];
  play(stream, pcm) {
    this.log.push(["play", stream, pcm.length]);
  }
  end(stream) {
    this.log.push(["end", stream]);
  }
  resume() {}
  async stop() {
    this.log.push(["stop"]);
    return this.played;
  }
}

/** A WebSocket whose other end is the test. */
export class FakeSocket {
  static made = [];
  readyState = 0;
  bufferedAmount = 0;
  sent = [];
  frames = [];

  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    FakeSocket.made.push(this);
  }

  send(data) {
    if (typeof data === "string") this.sent.push(JSON.parse(data));
    else this.frames.push(data);
  }

  close() {
    this.readyState = 3;
  }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  say(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }

  drop(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }

  types() {
    return this.sent.map((event) => event.type);
  }
}

/** 20 ms of PCM16 at 16 kHz: a tone, or silence. */
export function pcm(loud, samples = 320) {
  const bytes = new Uint8Array(samples * 2);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < samples; i++) view.setInt16(i * 2, loud ? Math.round(8000 * Math.sin(i / 5)) : 0, true);
  return bytes;
}

export function hex(bytes) {
  return Buffer.from(bytes).toString("hex");
}

/** Waits until the condition holds; fails after two seconds. */
export async function until(condition, what = "the condition") {
  for (let i = 0; i < 400; i++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`${what} did not come true`);
}

/** A Storage in memory. */
export class FakeStorage {
  values = new Map();
  getItem(key) {
    return this.values.get(key) ?? null;
  }
  setItem(key, value) {
    this.values.set(key, value);
  }
  removeItem(key) {
    this.values.delete(key);
  }
}
