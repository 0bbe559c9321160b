/** The demo application in headless Chromium, as somebody in front of it would use it. */

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { recording } from "./speech.mjs";

const WAIT_MS = 60_000;
const screenshots = path.resolve(fileURLToPath(import.meta.url), "../../screenshots");
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  // WebRTC to this very machine: its own addresses by name, and the loopback one among them.
  "--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns",
];

/**
 * Opens the shop. `says` is what the microphone will hear from the moment it is opened, as for
 * `recording`; without it there is no microphone.
 */
export async function openShop(server, { says, query = "", viewport = { width: 1280, height: 860 }, ...context } = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), "switchboard-browser-"));
  const flags = [...FLAGS];
  if (says) {
    const file = await recording(path.join(folder, "microphone.wav"), ...says);
    flags.push("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", `--use-file-for-fake-audio-capture=${file}%noloop`);
  }
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
  const page = await (await browser.newContext({ viewport, ...context })).newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  await page.addInitScript(listenToThePage);
  await page.goto(`${server.url}/demo/vip/${query}`);
  return new Shop(page, problems, async () => {
    await browser.close();
    await rm(folder, { recursive: true, force: true });
  });
}

/** Runs in the page: measures what comes out of its loudspeaker, and remembers every state. */
function listenToThePage() {
  const heard = (window.heard = { loudMs: 0, states: [], looks: {} });
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target instanceof AudioDestinationNode) {
      const meter = this.context.createScriptProcessor(1024, 1, 1);
      meter.onaudioprocess = ({ inputBuffer }) => {
        const samples = inputBuffer.getChannelData(0);
        const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
        if (power > 1e-5) heard.loudMs += inputBuffer.duration * 1000;
      };
      connect.call(this, meter);
      connect.call(meter, target);
    }
    return connect.call(this, target, ...rest);
  };
  // A network that goes away does not close the sockets of a page at once; this does.
  const sockets = [];
  window.WebSocket = class extends WebSocket {
    constructor(...options) {
      super(...options);
      sockets.push(this);
    }
  };
  window.breakSockets = () => sockets.forEach((socket) => socket.close(4000, "broken"));
  addEventListener("DOMContentLoaded", () => {
    const dock = document.querySelector(".dock");
    const note = () => {
      const { state } = dock.dataset;
      heard.states.push(state);
      // What is drawn for it follows in the same step.
      setTimeout(() => {
        if (dock.dataset.state !== state) return;
        const [shape, icon] = [...dock.querySelectorAll("#badge path")].map((path) => path.getAttribute("d"));
        const colour = getComputedStyle(dock).getPropertyValue("--state");
        heard.looks[state] = { shape, icon, colour, text: document.querySelector("#badge-text").textContent, spoken: document.querySelector("#announce").textContent };
      });
    };
    note();
    new MutationObserver(note).observe(dock, { attributes: true, attributeFilter: ["data-state"] });
  });
}

class Shop {
  constructor(page, problems, close) {
    Object.assign(this, { page, problems, close });
    page.setDefaultTimeout(WAIT_MS);
  }

  /** Waits for the state. */
  async state(name) {
    await this.page.waitForSelector(`.dock[data-state="${name}"]`);
  }

  async connect() {
    await this.page.click("#connect");
    await this.state("idle");
  }

  /** Types something, as one does without a microphone. */
  async type(text) {
    await this.page.fill("#say", text);
    await this.page.press("#say", "Enter");
  }

  /** Waits until the assistant has said something with these words, and is done. */
  async answer(pattern) {
    const said = this.page.locator("#captions .assistant:not(.partial)", { hasText: pattern });
    await said.last().waitFor();
    await this.state("idle");
    return said.last().locator("span").innerText();
  }

  /** Every event so far, of that type, oldest first. */
  async events(type) {
    return this.page.evaluate((type) => {
      const found = [...document.querySelectorAll("#log > li")].filter((item) => item.dataset.type === type);
      return found.map((item) => {
        const details = item.querySelector("details");
        if (!details.querySelector("pre")) {
          details.open = true;
          details.dispatchEvent(new Event("toggle"));
          details.open = false;
        }
        return { direction: item.dataset.direction, ...JSON.parse(details.querySelector("pre").textContent) };
      });
    }, type);
  }

  /** How long something could be heard, in milliseconds. */
  async loudMs() {
    return this.page.evaluate(() => Math.round(window.heard.loudMs));
  }

  /** The states since the page was loaded. */
  async states() {
    return this.page.evaluate(() => window.heard.states);
  }

  /** How each state looked. */
  async looks() {
    return this.page.evaluate(() => window.heard.looks);
  }

  async screenshot(name) {
    await mkdir(screenshots, { recursive: true });
    await this.page.screenshot({ path: path.join(screenshots, `${name}.png`) });
  }
}
