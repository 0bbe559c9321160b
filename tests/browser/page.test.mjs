/** What the TypeScript module reads off a page, and does to it, in a real browser. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const dist = path.resolve(fileURLToPath(import.meta.url), "../../../sdks/typescript/packages/vip/dist");
let files;
let browser;

before(async () => {
  files = createServer(async (request, response) => {
    const name = path.basename(request.url);
    const body = name.endsWith(".js") ? await readFile(path.join(dist, request.url)).catch(() => undefined) : "<!doctype html><title>Page</title>";
    response.writeHead(body === undefined ? 404 : 200, { "content-type": name.endsWith(".js") ? "text/javascript" : "text/html" });
    response.end(body);
  });
  await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
});

after(async () => {
  await browser?.close();
  files?.close();
});

/** Runs in a page with this body; `look` gets the module's `Page`, and returns something to compare. */
async function look(body, run, options = {}) {
  const page = await browser.newPage();
  try {
    await page.goto(`http://127.0.0.1:${files.address().port}/`);
    await page.setContent(body);
    return await page.evaluate(
      async ([source, options]) => {
        const { Page } = await import("/screen.js");
        return new Function("Page", "options", `return (${source})(new Page(options), Page)`)(Page, options);
      },
      [run.toString(), options],
    );
  } finally {
    await page.close();
  }
}

test("elements become actions of the right kind", async () => {
  const { actions } = await look(
    `<button data-vip-action="a" disabled>Press  me</button>
     <label>Words <input data-vip-action="b" data-vip-description="Say it" maxlength="9"></label>
     <input type="number" data-vip-action="c" aria-label="Count" data-vip-parameters='{"type":"object","properties":{"value":{"maximum":3}}}'>
     <input type="checkbox" id="own" data-vip-action="d" aria-label="Tick">
     <input type="password" data-vip-action="e" aria-label="Secret">
     <fieldset data-vip-action="f"><legend>Way</legend><input type="radio" name="w" value="x"><input type="radio" name="w" value="y"></fieldset>
     <select data-vip-action="g" aria-label="Pick"><option value="1">One<option value="2" disabled>Two<option value="3">Three</select>
     <button role="switch" aria-checked="false" data-vip-action="h" data-vip-global data-vip-parallel>Dark</button>
     <div data-vip-action="i" data-vip-type="x-shop-spin" data-vip-description="Spin" data-vip-timeout="500">o</div>
     <button data-vip-action="j" data-vip-sensitive data-vip-confirm="Sure?" data-vip-idempotent="false">Go</button>`,
    (page) => page.screen(),
  );
  assert.deepEqual(actions, {
    a: { type: "button", description: "Press me", element_id: "vip-a", label: "Press me", enabled: false },
    b: { type: "input", description: "Say it", element_id: "vip-b", label: "Words", input_type: "text" },
    c: { type: "input", description: "Count", element_id: "vip-c", label: "Count", input_type: "number", parameters: { type: "object", properties: { value: { maximum: 3 } } } },
    d: { type: "input", description: "Tick", element_id: "own", label: "Tick", input_type: "checkbox" },
    e: { type: "input", description: "Secret", element_id: "vip-e", label: "Secret", input_type: "password" },
    f: { type: "input", description: "Way", element_id: "vip-f", label: "Way", input_type: "radiobutton", options: ["x", "y"] },
    g: { type: "input", description: "Pick", element_id: "vip-g", label: "Pick", input_type: "radiobutton", options: ["1", "3"] },
    h: { type: "input", description: "Dark", element_id: "vip-h", label: "Dark", input_type: "boolean", global: true, parallel: true },
    i: { type: "x-shop-spin", description: "Spin", element_id: "vip-i", label: "o", timeout_ms: 500 },
    j: { type: "button", description: "Go", element_id: "vip-j", label: "Go", idempotent: false, sensitive: true, confirmation: { prompt: "Sure?" } },
  });
});

test("what nobody could see is not visible", async () => {
  const hidden = (name, attributes, around = "") => `<div ${around}><button data-vip-action="${name}" ${attributes}>${name}</button></div>`;
  const body = [
    hidden("plain", ""), hidden("hidden", "hidden"), hidden("parent", "", "hidden"), hidden("none", 'style="display:none"'), hidden("invisible", 'style="visibility:hidden"'),
    hidden("unread", "", 'aria-hidden="true"'), hidden("inert", "", "inert"), hidden("below", 'style="position:absolute;top:5000px"'),
  ].join("");
  const visible = await look(body, (page) => page.screen().visibility);
  assert.deepEqual(visible, ["plain", "below"]);
});

test("only what is in sight counts where that was asked for", async () => {
  const body = `<button data-vip-action="plain">a</button><button data-vip-action="below" style="position:absolute;top:5000px">b</button>`;
  const visible = await look(
    body,
    async (page) => {
      page.watch(() => undefined);
      page.screen();
      await new Promise((resolve) => setTimeout(resolve, 500));
      return page.screen().visibility;
    },
    { visibility: "viewport" },
  );
  assert.deepEqual(visible, ["plain"]);
});

test("a modal dialog covers the rest, but the question before an action does not", async () => {
  const body = `<button data-vip-action="page">a</button><dialog id="d"><button data-vip-action="inside">b</button></dialog><dialog id="q" data-vip-ignore>?</dialog>`;
  const seen = await look(body, (page) => {
    const before = page.screen().visibility;
    document.getElementById("q").showModal();
    const asked = page.screen().visibility;
    document.getElementById("q").close();
    document.getElementById("d").showModal();
    return [before, asked, page.screen().visibility];
  });
  assert.deepEqual(seen, [["page"], ["page"], ["inside"]]);
});

test("the same action on two elements is the one that is visible", async () => {
  const body = `<button id="wide" hidden data-vip-action="a">a</button><button id="narrow" data-vip-action="a">a</button><button id="third" data-vip-action="a">a</button>`;
  assert.deepEqual(await look(body, (page) => page.screen().actions.a.element_id), "narrow");
});

test("fields are filled and buttons pressed as if by hand", async () => {
  const body = `<button data-vip-action="press">p</button><input data-vip-action="text"><input type="number" data-vip-action="number"><input type="checkbox" data-vip-action="tick">
    <fieldset data-vip-action="radio"><input type="radio" name="w" value="x"><input type="radio" name="w" value="y"></fieldset>
    <select data-vip-action="select"><option value="1">One<option value="3">Three</select><textarea data-vip-action="long"></textarea>
    <button role="switch" aria-checked="false" data-vip-action="switch" onclick="this.setAttribute('aria-checked', this.getAttribute('aria-checked') !== 'true')">s</button>`;
  const done = await look(body, (page) => {
    const events = [];
    for (const type of ["click", "input", "change"]) document.addEventListener(type, (event) => events.push(`${type} ${event.target.dataset.vipAction ?? event.target.value}`));
    const values = { press: undefined, text: "hello", number: 4, tick: true, radio: "y", select: "3", long: "more", switch: true };
    for (let twice = 0; twice < 2; twice++) {
      for (const [id, value] of Object.entries(values)) if (id !== "press" || !twice) page.find(id).handler({ value }, {});
    }
    const at = (id) => document.querySelector(`[data-vip-action=${id}]`);
    return {
      values: [at("text").value, at("number").value, at("tick").checked, document.querySelector("[value=y]").checked, at("select").value, at("long").value, at("switch").getAttribute("aria-checked")],
      clicks: events.filter((event) => event.startsWith("click")),
      text: events.filter((event) => event.endsWith(" text")),
    };
  });
  assert.deepEqual(done.values, ["hello", "4", true, true, "3", "more", "true"]);
  assert.deepEqual(done.clicks, ["click press", "click tick", "click y", "click switch"], "what is so already is left alone");
  assert.deepEqual(done.text.slice(0, 2), ["input text", "change text"]);
});

test("a field that does not take its value has failed", async () => {
  const failed = await look(`<input type="number" data-vip-action="n">`, (page) => {
    try {
      page.find("n").handler({ value: "abc" }, {});
    } catch (error) {
      return error.message;
    }
    return "";
  });
  assert.match(failed, /did not take/);
});

test("without words of its own, a page is described by its title and what is marked", async () => {
  const narration = await look(
    `<title>Shop</title><h1 data-vip-narrate>Your  orders</h1><p data-vip-narrate="Two are on their way.">x</p><p hidden data-vip-narrate>no</p><input type="password" value="sesame" data-vip-action="p">`,
    (page) => page.screen().narration,
  );
  assert.match(narration, /^(Shop\. )?Your orders\. Two are on their way\.$/);
});

test("an action that can never work is said to be wrong at once", async () => {
  const message = await look(`<button data-vip-action="system.mine">a</button>`, (page) => {
    try {
      page.screen();
    } catch (error) {
      return error.message;
    }
    return "";
  });
  assert.match(message, /reserved/);
});
