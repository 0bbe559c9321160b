/** The examples and the programs of the READMEs, run as they stand, against the real server. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test as plain } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { Window } from "happy-dom";
import WebSocket from "ws";
import { startServer, until } from "../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 60_000 }, run);
const sdk = path.resolve(fileURLToPath(import.meta.url), "../..");
const examples = path.resolve(sdk, "../../examples");
// Within the workspace, so that packages are found as if they were installed.
const work = path.join(sdk, ".work");
let server;
before(async () => {
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  server = await startServer();
});
after(async () => {
  await server?.stop();
  await rm(work, { recursive: true, force: true });
});

async function copy(name) {
  await cp(path.join(examples, name), path.join(work, name), { recursive: true, filter: (source) => !source.includes("node_modules") });
  return path.join(work, name);
}

/** Runs a program; `write` gives it lines. */
function run(file, args = [], env = {}) {
  const child = spawn(process.execPath, [file, ...args], { env: { ...process.env, SWITCHBOARD_URL: server.url, ...env } });
  let said = "";
  let complained = "";
  child.stdout.on("data", (chunk) => (said += chunk));
  child.stderr.on("data", (chunk) => (complained += chunk));
  const ended = new Promise((resolve) => child.once("close", resolve));
  return { said: () => said, complained: () => complained, write: (line) => child.stdin.write(`${line}\n`), close: () => child.stdin.end(), ended, kill: (signal) => child.kill(signal) };
}

/** The first program of a README. */
async function program(name, language) {
  const text = await readFile(path.join(sdk, "packages", name, "README.md"), "utf8");
  return new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\n\`\`\``).exec(text)[1].replaceAll("http://127.0.0.1:4600", server.url);
}

test("node-script: prints the answer, says what is wrong", async () => {
  const folder = await copy("node-script");
  const good = run(path.join(folder, "ask.mjs"), ["count", "5"]);
  assert.equal(await good.ended, 0, good.complained());
  assert.equal(good.said(), "1 2 3 4 5 \n");
  const bad = run(path.join(folder, "ask.mjs"), ["fail", "tool"]);
  assert.equal(await bad.ended, 1);
  assert.match(bad.complained(), /asked to fail/);
});

test("terminal-chat: streams, asks back, stops, remembers", async () => {
  const folder = await copy("terminal-chat");
  const chat = run(path.join(folder, "chat.mjs"), ["tty"]);
  await until(() => chat.said().includes("> "), "it asks");
  chat.write("count 3");
  await until(() => chat.said().includes("1 2 3 \n"), "it answers");
  chat.write("ask which one?");
  await until(() => chat.said().includes("which one?"), "it asks back");
  chat.write("red");
  await until(() => chat.said().includes("answer: red"), "it heard");
  chat.close();
  assert.equal(await chat.ended, 0, chat.complained());
  const again = run(path.join(folder, "chat.mjs"), ["tty"]);
  await until(() => again.said().includes("> count 3") && again.said().includes("answer: red"), "it shows what was said");
  again.close();
  await again.ended;
});

test("worker-function: bundles for a place without Node, and answers", async () => {
  const folder = await copy("worker-function");
  const outfile = path.join(folder, "bundle.mjs");
  await build({ entryPoints: [path.join(folder, "worker.mjs")], bundle: true, format: "esm", platform: "neutral", mainFields: ["module", "main"], conditions: ["workerd", "worker", "browser"], outfile });
  const { default: worker } = await import(pathToFileURL(outfile).href);
  const FUNCTION_SECRET = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;
  const body = JSON.stringify({ asp: 1, event: "invoke", cid: "c".repeat(20), rid: 1, inv: "inv_1", attempt: 1, payload: { kind: "chat", input: "hello there" } });
  const at = String(Math.floor(Date.now() / 1000));
  const signature = createHmac("sha256", Buffer.alloc(32, 3)).update(`inv_1.${at}.${body}`).digest("base64");
  const request = () => new Request("https://worker.example/invoke", { method: "POST", body, headers: { "webhook-id": "inv_1", "webhook-timestamp": at, "webhook-signature": `v1,${signature}` } });
  const records = (await (await worker.fetch(request(), { FUNCTION_SECRET })).text()).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(records.filter(({ t }) => t === "text").map(({ d }) => d).join(""), "HELLO THERE");
  assert.equal((await worker.fetch(request(), { FUNCTION_SECRET })).status, 409);
});

/** A page of happy-dom with real React, in which a bundle of an example runs. */
async function page(entry, { alias = {}, define = {} } = {}) {
  const outfile = path.join(work, `${path.basename(path.dirname(entry))}-${Math.random().toString(36).slice(2)}.mjs`);
  await build({
    entryPoints: [entry], bundle: true, format: "esm", platform: "node", outfile, jsx: "automatic", loader: { ".js": "jsx" }, alias,
    external: ["react", "react-dom", "react-dom/*", "react/*"], logLevel: "error",
    define: { "process.env.NODE_ENV": '"development"', ...define },
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  const window = new Window({ url: "http://localhost/" });
  Object.assign(globalThis, { window, document: window.document, navigator: window.navigator, HTMLElement: window.HTMLElement, Node: window.Node, Element: window.Element, ShadowRoot: window.ShadowRoot, getComputedStyle: window.getComputedStyle.bind(window), sessionStorage: window.sessionStorage, IS_REACT_ACT_ENVIRONMENT: true, WebSocket });
  const { act, createElement } = await import("react");
  const { createRoot } = await import("react-dom/client");
  const container = document.createElement("div");
  document.body.append(container);
  const root = createRoot(container);
  const module = await import(pathToFileURL(outfile).href);
  const Component = module.default ?? module.App;
  await act(async () => root.render(createElement(Component)));
  return {
    container,
    text: () => container.textContent,
    show: (holds, what) => until(async () => (await act(async () => new Promise((resolve) => setTimeout(resolve, 5))), holds(container.textContent)), `${what}; it says ${container.textContent}`),
    type: (value) =>
      act(async () => {
        const input = container.querySelector("input, textarea");
        const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(input), "value");
        set.call(input, value);
        input.dispatchEvent(new window.Event("input", { bubbles: true }));
      }),
    press: (label) => act(async () => [...container.querySelectorAll("button, [role=button]")].find((button) => button.textContent === label).click()),
    unmount: () => act(async () => root.unmount()),
  };
}

async function converse(shown) {
  await shown.type("count 4");
  await shown.press("Send");
  await shown.show((text) => text.includes("1 2 3 4 "), "the answer");
  await shown.show((text) => text.includes("Send"), "it is over");
  await shown.type("count 5000 every 5");
  await shown.press("Send");
  await shown.show((text) => text.includes("1 2 3 4 5 6") && text.includes("Stop"), "it streams");
  await shown.press("Stop");
  await shown.show((text) => text.includes("Send"), "it has stopped");
  await shown.unmount();
}

test("next-chat: the page streams and stops", async () => {
  const folder = await copy("next-chat");
  await converse(await page(path.join(folder, "app/page.jsx"), { define: { "process.env.NEXT_PUBLIC_SWITCHBOARD_URL": JSON.stringify(server.url) } }));
});

test("expo-chat: the app streams, runs its tool and stops, in react-native-web", async () => {
  const folder = await copy("expo-chat");
  const storage = path.join(folder, "storage.mjs");
  await writeFile(storage, "const kept = new Map(); export default { getItem: async (key) => kept.get(key) ?? null, setItem: async (key, value) => void kept.set(key, value), removeItem: async (key) => void kept.delete(key) };");
  const shown = await page(path.join(folder, "App.jsx"), {
    alias: { "react-native": "react-native-web", "@react-native-async-storage/async-storage": storage },
    define: { "process.env.EXPO_PUBLIC_SWITCHBOARD_URL": JSON.stringify(server.url) },
  });
  await shown.type("call platform");
  await shown.press("Send");
  await shown.show((text) => text.includes("result: web"), "the tool has run");
  await shown.show((text) => text.includes("Send"), "it is over");
  await converse(shown);
});

test("the README of the client", async () => {
  const file = path.join(work, "client.mjs");
  await writeFile(file, `import WebSocket from "ws"; globalThis.WebSocket = WebSocket;\n${await program("client", "js")}`);
  const ran = run(file);
  assert.equal(await ran.ended, 0, ran.complained());
  assert.match(ran.said(), /You said: Where shall we go\?[\s\S]*complete/);
});

test("the README of functions", async () => {
  const file = path.join(work, "functions.mjs");
  await writeFile(file, (await program("functions", "js")).replace("8787", "0").replace("createServer(toNode(handler))", "const server = createServer(toNode(handler)); server").replace(/;?$/, '\nserver.on("listening", () => console.log(server.address().port));'));
  const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;
  const ran = run(file, [], { FUNCTION_SECRET: secret });
  const port = Number(await until(() => /^\d+\n/.exec(ran.said())?.[0], "it listens"));
  const own = await startServer({ settings: ["agent=mine", "agents.mine.kind=function", `agents.mine.url=http://127.0.0.1:${port}`, "agents.mine.secret_env=S", "agents.mine.allow_private=true"], env: { S: secret } });
  const { createClient } = await import("@switchboard/client");
  const client = createClient({ url: own.url, WebSocket });
  assert.equal(await client.session("s").ask("hello").text(), "You said: hello");
  await client.close();
  await own.stop();
  ran.kill();
});

test("the README of react", async () => {
  await mkdir(path.join(work, "react-readme"), { recursive: true });
  const file = path.join(work, "react-readme/app.jsx");
  await writeFile(file, await program("react", "jsx"));
  const shown = await page(file);
  await shown.type("call page_title");
  document.title = "The page";
  await shown.press("Send");
  await shown.show((text) => text.includes("result: The page"), "the tool has run");
  await shown.unmount();
});
