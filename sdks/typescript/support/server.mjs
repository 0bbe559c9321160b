/** The real server, started for one file of tests, and a proxy in front of it that cuts connections where it is told. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(fileURLToPath(import.meta.url), "../../../..");
export const binary = path.resolve(process.env.SERVER_BINARY ?? path.join(root, "target/debug/switchboard"));
const START_TIMEOUT_MS = 60_000;

/** Starts a server on a port of its own. The agent is the story of the conformance tests, or `story` in TOML. */
export async function startServer({ story, settings = [], port = 0, data, env = {} } = {}) {
  if (!existsSync(binary)) throw new Error(`there is no ${binary}: cargo build -p switchboard-cli, or name it in SERVER_BINARY`);
  const own = data === undefined;
  data ??= await mkdtemp(path.join(tmpdir(), "switchboard-sdk-"));
  const set = ["agent=story", "agents.story.kind=script"];
  if (story === undefined) set.push("agents.story.builtin=conformance");
  else {
    await writeFile(path.join(data, "story.toml"), story);
    set.push(`agents.story.path=${path.join(data, "story.toml")}`);
  }
  set.push(...settings);
  const child = spawn(binary, ["serve", "--listen", `127.0.0.1:${port}`, "--data-dir", data, ...set.flatMap((setting) => ["--set", setting])], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let said = "";
  child.stderr.on("data", (chunk) => (said = (said + chunk).slice(-20_000)));
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the server did not start:\n${said}`)), START_TIMEOUT_MS);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${said}`)));
    child.stdout.on("data", (chunk) => {
      const found = /listening on (\S+)/.exec(String(chunk));
      if (!found) return;
      clearTimeout(timer);
      resolve(found[1]);
    });
  });
  return {
    url: `http://${address}`,
    port: Number(address.split(":").at(-1)),
    data,
    log: () => said,
    async kill(signal = "SIGKILL") {
      child.kill(signal);
      await exited;
    },
    async stop() {
      child.kill("SIGKILL");
      await exited;
      if (own) await rm(data, { recursive: true, force: true });
    },
  };
}

/**
 * A TCP proxy that knows where WebSocket messages end. `plan(connection)` says for each connection how many messages of either
 * side it lets through before it cuts; undefined for all. Of the one after that only half is let through.
 */
export async function startProxy(port, plan = () => undefined) {
  const sockets = new Set();
  const proxy = { connections: 0, cuts: 0, plan, paused: false };
  const server = net.createServer((client) => {
    proxy.connections += 1;
    const limits = proxy.plan(proxy.connections) ?? {};
    const upstream = net.connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    const cut = () => {
      proxy.cuts += 1;
      // What was written before arrives; nothing comes after it.
      client.end();
      upstream.destroy();
      setImmediate(() => client.destroySoon());
    };
    forward(upstream, client, limits.fromServer, cut);
    forward(client, upstream, limits.fromClient, cut);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(proxy, {
    url: `http://127.0.0.1:${server.address().port}`,
    /** Cuts everything that is open. */
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

function forward(from, to, limit, cut) {
  let held = Buffer.alloc(0);
  let upgraded = false;
  let messages = 0;
  let over = false;
  from.on("data", (chunk) => {
    if (over) return;
    if (limit === undefined) return void to.write(chunk);
    held = Buffer.concat([held, chunk]);
    for (;;) {
      const length = upgraded ? frameLength(held) : headLength(held);
      if (length === undefined || held.length < length) return;
      const whole = held.subarray(0, length);
      held = held.subarray(length);
      if (!upgraded) {
        upgraded = true;
        to.write(whole);
        continue;
      }
      const opcode = whole[0] & 15;
      if (opcode < 8 && messages === limit) {
        over = true;
        to.write(whole.subarray(0, whole.length >> 1), cut);
        return;
      }
      if (opcode < 8) messages += 1;
      to.write(whole);
    }
  });
}

function headLength(bytes) {
  const end = bytes.indexOf("\r\n\r\n");
  return end < 0 ? undefined : end + 4;
}

function frameLength(bytes) {
  if (bytes.length < 2) return undefined;
  const mask = bytes[1] & 0x80 ? 4 : 0;
  const short = bytes[1] & 0x7f;
  if (short < 126) return 2 + mask + short;
  if (short === 126) return bytes.length < 4 ? undefined : 4 + mask + bytes.readUInt16BE(2);
  return bytes.length < 10 ? undefined : 10 + mask + Number(bytes.readBigUInt64BE(2));
}

/** Waits until something is so. */
export async function until(holds, what = "it", ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
