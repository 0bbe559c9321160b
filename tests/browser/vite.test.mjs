/** The example with React and Vite in a real browser, as it is in development and as it is built: a chat, and a voice with a microphone. */

import assert from "node:assert/strict";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { startServer } from "./support/server.mjs";
import { recording } from "./support/speech.mjs";

const root = path.resolve(fileURLToPath(import.meta.url), "../../..");
const sdk = path.join(root, "sdks/typescript");
const vite = await import(pathToFileURL(createRequire(path.join(sdk, "package.json")).resolve("vite")).href);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"];
const WAIT_MS = 60_000;

let folder;
let app;
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "switchboard-vite-"));
  app = path.join(folder, "app");
  await cp(path.join(root, "examples/react-chat"), app, { recursive: true, filter: (source) => !/node_modules|dist/.test(path.relative(root, source)) });
  await symlink(path.join(sdk, "node_modules"), path.join(app, "node_modules"));
});
after(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function inDevelopment() {
  const dev = await vite.createServer({ root: app, configFile: path.join(app, "vite.config.js"), logLevel: "warn", cacheDir: path.join(folder, "cache"), server: { host: "127.0.0.1", port: 0, fs: { strict: false } } });
  await dev.listen();
  return { url: `http://127.0.0.1:${dev.httpServer.address().port}/`, stop: () => dev.close() };
}

async function built() {
  await vite.build({ root: app, configFile: path.join(app, "vite.config.js"), logLevel: "warn" });
  const preview = await vite.preview({ root: app, configFile: path.join(app, "vite.config.js"), preview: { host: "127.0.0.1", port: 0 } });
  return { url: `http://127.0.0.1:${preview.httpServer.address().port}/`, stop: () => new Promise((resolve) => preview.httpServer.close(resolve)) };
}

for (const [name, serve] of [["in development", inDevelopment], ["built", built]]) {
  test(`${name}: a chat that streams, uses a tool, stops and resumes; a voice that hears and is given back`, { timeout: 180_000 }, async () => {
    const site = await serve();
    const server = await startServer([`allowed_origins=["${new URL(site.url).origin}"]`, "agent=story", "agents.story.kind=script", "agents.story.builtin=conformance"]);
    const microphone = await recording(path.join(folder, "microphone.wav"), 0.5, "please open the orders page", 20);
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...FLAGS, `--use-file-for-fake-audio-capture=${microphone}`] });
    try {
      const page = await browser.newPage();
      page.setDefaultTimeout(WAIT_MS);
      const problems = [];
      page.on("pageerror", (error) => problems.push(error.message));
      await page.addInitScript(() => {
        window.contexts = [];
        const Native = window.AudioContext;
        window.AudioContext = class extends Native {
          constructor(...options) {
            super(...options);
            window.contexts.push(this);
          }
        };
      });
      await page.goto(`${site.url}?server=${encodeURIComponent(server.url)}`);
      const ask = async (text) => {
        await page.getByLabel("Ask something").fill(text);
        await page.getByRole("button", { name: "Send" }).click();
      };
      await ask("call page_title");
      await page.getByText("result: Chat").waitFor();
      await ask("count 5000 every 10");
      await page.getByText("1 2 3 4 5").waitFor();
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByRole("button", { name: "Send" }).waitFor();
      await ask("count 120 every 25");
      await page.getByText("1 2 3 4 5 6 7 8 9 10").last().waitFor();
      await page.reload();
      await page.getByText("118 119 120").waitFor();
      assert.equal(await page.getByText("118 119 120").count(), 1);

      const voice = page.getByLabel("Voice", { exact: true });
      await page.getByRole("button", { name: "Talk" }).click();
      await page.locator("section[data-state=user_speaking]").waitFor();
      await page.waitForFunction(() => document.querySelector("meter[aria-label=You]").value > 0.01);
      await page.locator("section[data-state=user_speaking]").waitFor({ state: "detached" });
      assert.deepEqual(await page.evaluate(() => window.contexts.map(({ state }) => state)), ["running"]);
      await page.getByRole("button", { name: "Hang up" }).click();
      await page.getByRole("button", { name: "Talk" }).waitFor();
      await page.waitForFunction(() => window.contexts.every(({ state }) => state === "closed"));
      assert.ok(voice);
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
      await site.stop();
      await server.stop();
    }
  });
}

test("a page of an origin that is not allowed is told what to do", { timeout: 60_000 }, async () => {
  const strict = await startServer();
  const site = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>x</title>"));
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${site.address().port}/`);
    const answered = await page.evaluate((url) => fetch(`${url}/admin/v1/agents`).then(() => "read", () => "kept away"), strict.url);
    assert.equal(answered, "kept away");
  } finally {
    await browser.close();
    await strict.stop();
    site.close();
  }
});
