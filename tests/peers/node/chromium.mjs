// A headless Chromium with one page and a file for its microphone, driven through the debugging pipe.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The browser of this machine. */
export function executable() {
  const folders = (process.env.PATH ?? "").split(":");
  const found = NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(existsSync);
  if (!found) throw new Error(`none of ${NAMES.join(", ")} is installed: run script/setup`);
  return found;
}

/**
 * Starts the browser. `microphone` is a WAV file, played over and over, or once with `%noloop` behind its name; `said`
 * gets whatever the page passes to `say`.
 * `evaluate` runs a function in the page, with an argument that is JSON, and returns what it resolves to.
 */
export async function launch({ microphone, said = () => {} }) {
  // A page from localhost may use the microphone; a blank one may not.
  const server = createServer((_, response) => response.setHeader("content-type", "text/html").end("<title>page</title>"));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const profile = mkdtempSync(join(tmpdir(), "chromium-"));
  const browser = spawn(
    executable(),
    [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--remote-debugging-pipe", `--user-data-dir=${profile}`, "--autoplay-policy=no-user-gesture-required",
      "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
      `--use-file-for-fake-audio-capture=${microphone}`,
    ],
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
  );
  const pipe = debuggingPipe(browser.stdio[3], browser.stdio[4]);
  const gone = new Promise((resolve) => browser.once("exit", resolve));

  const { targetId } = await pipe.call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await pipe.call("Target.attachToTarget", { targetId, flatten: true });
  pipe.on("Runtime.bindingCalled", ({ payload }) => said(JSON.parse(payload)));
  await pipe.call("Runtime.enable", {}, sessionId);
  await pipe.call("Runtime.addBinding", { name: "sayJson" }, sessionId);
  const loaded = new Promise((resolve) => pipe.on("Page.loadEventFired", resolve));
  await pipe.call("Page.enable", {}, sessionId);
  await pipe.call("Page.navigate", { url: `http://127.0.0.1:${server.address().port}/` }, sessionId);
  await loaded;

  const evaluate = async (work, argument = null) => {
    const expression = `(async () => {
      globalThis.say = (what) => sayJson(JSON.stringify(what));
      return await (${work})(${JSON.stringify(argument)});
    })()`;
    const options = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
    const { result, exceptionDetails } = await pipe.call("Runtime.evaluate", options, sessionId);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const close = async () => {
    server.close();
    browser.kill();
    await gone;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { evaluate, close };
}

/** Calls and events of the debugging protocol: JSON, each followed by a zero byte. */
function debuggingPipe(input, output) {
  const waiting = new Map();
  const listeners = new Map();
  let number = 0;
  let rest = Buffer.alloc(0);
  output.on("data", (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      const message = JSON.parse(rest.subarray(0, end).toString());
      rest = rest.subarray(end + 1);
      if (message.method) listeners.get(message.method)?.(message.params);
      const call = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) call?.reject(new Error(message.error.message));
      else call?.resolve(message.result);
    }
  });
  const ended = () => waiting.forEach(({ reject }) => reject(new Error("the browser is gone")));
  output.on("close", ended);
  return {
    on: (method, listener) => listeners.set(method, listener),
    call: (method, params, sessionId) =>
      new Promise((resolve, reject) => {
        waiting.set(++number, { resolve, reject });
        input.write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
      }),
  };
}

/** A WAV file of 16-bit samples at 48 kHz. */
export function wav(samples) {
  const data = Buffer.from(Int16Array.from(samples).buffer);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20); // PCM
  head.writeUInt16LE(1, 22); // one channel
  head.writeUInt32LE(48000, 24);
  head.writeUInt32LE(96000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}
