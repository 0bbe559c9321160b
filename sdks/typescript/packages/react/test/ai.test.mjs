/** The transport in the AI SDK's own chat, against the real server. */

import assert from "node:assert/strict";
import { after, before, test as plain } from "node:test";
import { Chat } from "@ai-sdk/react";
import WebSocket from "ws";
import { createClient, tool } from "@switchboard/client";
import { SwitchboardTransport } from "../dist/ai.js";
import { startServer, until } from "../../../support/server.mjs";

const test = (name, run) => plain(name, { timeout: 30_000 }, run);
const numbers = (count) => Array.from({ length: count }, (_, index) => `${index + 1} `).join("");
let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

const client = (more = {}) => createClient({ url: server.url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });
const said = (chat) => chat.messages.at(-1).parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

test("useChat's chat: streams, uses tools of the page, reports failures", async () => {
  const own = client({ tools: [tool({ name: "clock", input: {}, run: () => "noon" })] });
  const chat = new Chat({ id: "one", transport: new SwitchboardTransport({ client: own }) });
  await chat.sendMessage({ text: "count 7" });
  assert.equal(said(chat), numbers(7));
  assert.equal(chat.status, "ready");
  await chat.sendMessage({ text: "call clock" });
  assert.equal(said(chat), "result: noon");
  const part = chat.messages.at(-1).parts.find(({ type }) => type === "dynamic-tool");
  assert.deepEqual([part.toolName, part.state, part.output], ["clock", "output-available", "noon"]);
  await chat.sendMessage({ text: "reason 3" });
  assert.equal(chat.messages.at(-1).parts.find(({ type }) => type === "reasoning").text, "thought 1 thought 2 thought 3 ");
  await chat.sendMessage({ text: "fail tool after 2" });
  assert.equal(chat.status, "error");
  assert.match(chat.error.message, /asked to fail/);
  await own.close();
});

test("stop stops the agent, not only the page", async () => {
  const own = client();
  const chat = new Chat({ id: "two", transport: new SwitchboardTransport({ client: own }) });
  const sending = chat.sendMessage({ text: "count 5000 every 5" });
  await until(() => chat.status === "streaming" && said(chat).includes("3 "), "it streams");
  await chat.stop();
  await sending;
  const before = said(chat);
  await until(() => own.session("two").turns.length === 0, "the turn is over");
  const [, answer] = await own.session("two").history();
  assert.ok(before.length < 1000 && answer.text.length < 1000);
  await own.close();
});

test("a page that is loaded again resumes the answer, whole and once", async () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value), removeItem: (key) => void kept.delete(key) };
  const first = client({ storage });
  const before = new Chat({ id: "three", transport: new SwitchboardTransport({ client: first }) });
  void before.sendMessage({ text: "count 60 every 20" }).catch(() => undefined);
  await until(() => before.messages.length === 2 && said(before).includes("5 "), "it streams");
  await first.suspend();
  const second = client({ storage });
  const after = new Chat({ id: "three", messages: before.messages.slice(0, 1), transport: new SwitchboardTransport({ client: second }) });
  await after.resumeStream();
  assert.equal(said(after), numbers(60));
  assert.equal((await second.session("three").history()).length, 2);
  const nothing = new Chat({ id: "four", transport: new SwitchboardTransport({ client: second }) });
  await nothing.resumeStream();
  assert.equal(nothing.messages.length, 0);
  await second.close();
});
