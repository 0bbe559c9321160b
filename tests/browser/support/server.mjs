/** The real server, started for one file of tests. */

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(fileURLToPath(import.meta.url), "../../../..");
const START_TIMEOUT_MS = 60_000;

/** The program to test, and where its voice keeps its models. */
export const binary = path.resolve(process.env.SERVER_BINARY ?? path.join(root, "target/debug/switchboard"));
export const models = path.resolve(process.env.VOICE_MODELS ?? path.join(path.dirname(binary), "../tmp/voice-models"));

/** Starts a server on a port of its own; `stop` ends it and takes its data away. */
export async function startServer(settings = []) {
  const data = await mkdtemp(path.join(tmpdir(), "switchboard-browser-"));
  const set = [`voice.models_dir=${models}`, "voice.synthesiser=flite", "agent=butler", "agents.butler.kind=butler", ...settings].flatMap((setting) => ["--set", setting]);
  const child = spawn(binary, ["serve", "--listen", "127.0.0.1:0", "--data-dir", data, ...set], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk) => (said = (said + chunk).slice(-20_000)));
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
  const exited = new Promise((resolve) => child.once("exit", resolve));
  return {
    url: `http://${address}`,
    log: () => said,
    async stop() {
      child.kill("SIGKILL");
      await exited;
      await rm(data, { recursive: true, force: true });
    },
  };
}
