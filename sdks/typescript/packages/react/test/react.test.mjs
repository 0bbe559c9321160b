/** The hooks in real React, against the real server. */

import assert from "node:assert/strict";
import { after, before, test as plain } from "node:test";
import { Window } from "happy-dom";
import WebSocket from "ws";
import { z } from "zod";
import { createClient } from "@switchboard/client";
import { startServer, until } from "../../../support/server.mjs";

const window = new Window();
Object.assign(globalThis, { window, document: window.document, navigator: window.navigator, IS_REACT_ACT_ENVIRONMENT: true });
const { act, createElement: h, StrictMode, Suspense, useState } = await import("react");
const { createRoot } = await import("react-dom/client");
const { renderToString } = await import("react-dom/server");
const { SwitchboardProvider, useApprovals, useClient, useConnection, useSession, useTool, useTurn } = await import("../dist/index.js");
const { Approvals, Composer, Messages } = await import("../dist/dom.js");

const test = (name, run) => plain(name, { timeout: 30_000 }, run);
let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

const client = (more = {}) => createClient({ url: server.url, WebSocket, backoff: { firstMs: 4, mostMs: 50 }, ...more });

/** Renders within a provider, in strict mode; `show` waits until the page says something. */
async function render(of, element) {
  const container = document.createElement("div");
  const root = createRoot(container);
  await act(async () => root.render(h(StrictMode, null, h(SwitchboardProvider, { client: of }, h(Suspense, null, element)))));
  return {
    container,
    text: () => container.textContent,
    show: (holds, what) => until(async () => (await act(async () => new Promise((resolve) => setTimeout(resolve, 5))), holds(container.textContent)), `${what ?? holds}; it says ${container.textContent}`),
    find: (selector) => container.querySelector(selector),
    click: (element) => act(async () => element.click()),
    unmount: () => act(async () => root.unmount()),
  };
}

function Talk({ name, onSession }) {
  const session = useSession(name);
  const connection = useConnection();
  onSession(session);
  return h("div", null, h("b", null, connection.state), h(Messages, { session }), h(Composer, { session }), h(Approvals));
}

test("a chat: asked once in strict mode, streamed, stopped, and shown again with its history", async () => {
  const own = client();
  let session;
  const page = await render(own, h(Talk, { name: "chat", onSession: (found) => (session = found) }));
  await page.show(() => session.loaded, "it is loaded");
  await act(async () => void session.ask("count 5"));
  await page.show((text) => text.includes("1 2 3 4 5 "));
  await page.show(() => !session.running, "it has ended");
  assert.deepEqual(session.messages.map(({ role, text }) => [role, text]), [["user", "count 5"], ["assistant", "1 2 3 4 5 "]]);
  await act(async () => void session.ask("count 5000 every 5"));
  await page.show(() => session.running && session.messages.at(-1).text.includes("3 "), "it streams");
  await page.click(page.find("button"));
  await page.show(() => !session.running, "it has stopped");
  await page.unmount();
  await own.close();
  const other = client();
  const again = await render(other, h(Talk, { name: "chat", onSession: (found) => (session = found) }));
  await again.show((text) => text.includes("count 5") && text.includes("1 2 3 4 5 "));
  assert.equal(session.messages.length, 4);
  await again.unmount();
  await other.close();
});

test("every piece is shown, however fast they come", async () => {
  const own = client();
  let turn;
  const One = () => {
    const [asked] = useState(() => (turn ??= own.session("fast").ask("count 2000")));
    const { text, status } = useTurn(asked);
    return h("p", null, status, " ", text);
  };
  const page = await render(own, h(One));
  await page.show((text) => text.startsWith("done"));
  assert.equal(page.text(), `done ${Array.from({ length: 2000 }, (_, index) => `${index + 1} `).join("")}`);
  await page.unmount();
  await own.close();
});

test("a tool is offered while its component is there, and runs what the latest render says", async () => {
  const own = client();
  let session;
  let say = "first";
  const Tool = () => {
    const word = say;
    useTool({ name: "word", input: z.object({}), run: () => word });
    return null;
  };
  const App = () => {
    session = useSession("tools");
    const [shown, setShown] = useState(true);
    App.hide = () => setShown(false);
    return shown ? h(Tool) : null;
  };
  const page = await render(own, h(App));
  await page.show(() => session.loaded && own.state !== "connecting", "it is loaded");
  await act(async () => void session.ask("call word"));
  await page.show(() => session.messages.at(-1)?.text === "result: first", "the tool has run");
  say = "second";
  await act(async () => page.container && App.hide && session.ask("count 1"));
  await page.show(() => !session.running, "it has ended");
  await act(async () => void session.ask("call word"));
  await page.show(() => session.messages.at(-1)?.text.startsWith("result: "), "it has run again");
  await act(async () => App.hide());
  await until(() => own.state === "online", "it is connected");
  await act(async () => void session.ask("call word").text().catch(() => undefined));
  await page.show(() => session.error?.code === "TOOL_NOT_FOUND", "the tool is gone");
  await page.unmount();
  await own.close();
});

test("approvals and questions appear, are answered, and go", async () => {
  const own = client();
  let session;
  let open;
  const App = () => {
    session = useSession("ask");
    open = useApprovals();
    useTool({ name: "wipe", input: {}, confirm: () => "Wipe everything?", run: () => "wiped" });
    return h("div", null, h(Approvals), h(Messages, { session }));
  };
  const page = await render(own, h(App));
  await page.show(() => session.loaded, "it is loaded");
  await act(async () => void session.ask("call wipe"));
  await page.show((text) => text.includes("Wipe everything?"));
  await page.click(page.find("[role=alertdialog] button"));
  await page.show((text) => text.includes("result: wiped"));
  assert.equal(open.length, 0);
  await act(async () => void session.ask("ask what colour?"));
  await page.show(() => open.length === 1, "it asks");
  await act(async () => void open[0].answer("red"));
  await page.show((text) => text.includes("answer: red"));
  await page.unmount();
  await own.close();
});

test("a page that is loaded again shows the turn that still runs, whole", async () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value), removeItem: (key) => void kept.delete(key) };
  const first = client({ storage });
  let session;
  const page = await render(first, h(Talk, { name: "reload", onSession: (found) => (session = found) }));
  await page.show(() => session.loaded, "it is loaded");
  await act(async () => void session.ask("count 60 every 20"));
  await page.show(() => session.messages.at(-1).text.includes("5 "), "it streams");
  await first.suspend();
  await page.unmount();
  const second = client({ storage });
  const again = await render(second, h(Talk, { name: "reload", onSession: (found) => (session = found) }));
  await again.show(() => session.messages.at(-1)?.text.endsWith("60 "), "it goes on");
  assert.deepEqual(session.messages.map(({ role }) => role), ["user", "assistant"]);
  assert.equal(session.messages[1].text, Array.from({ length: 60 }, (_, index) => `${index + 1} `).join(""));
  await again.unmount();
  await second.close();
});

test("rendered on a server nothing connects, and without a client it says what is missing", async () => {
  const own = client();
  const App = () => h("p", null, useSession("ssr").messages.length, useConnection().state, useApprovals().length, useTurn(undefined).status);
  assert.match(renderToString(h(SwitchboardProvider, { client: own }, h(App))), /0.*idle.*0.*waiting/);
  assert.equal(own.state, "idle");
  const Lost = () => (useClient(), null);
  assert.throws(() => renderToString(h(Lost)), /SwitchboardProvider|no client/);
});
