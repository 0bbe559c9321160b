/** The programs of this repository that take part: the server, which is killed and started again, and a device. */

import { spawn } from "node:child_process";
import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { until } from "./witness.mjs";

const story = fileURLToPath(new URL("story.toml", import.meta.url));
const START_MS = 60_000;

/** The server, with everything that it keeps in `folder`. */
export class Server {
  constructor({ binary, models, folder }) {
    Object.assign(this, { binary, models, folder, address: "127.0.0.1:0" });
  }

  get url() {
    return `http://${this.address}`;
  }

  /** Starts it; the second time where it was before. */
  async start() {
    const settings = {
      agent: "five", "agents.five.kind": "script", "agents.five.path": story,
      "voice.models_dir": this.models, "voice.synthesiser": "flite",
    };
    const set = Object.entries(settings).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
    const data = path.join(this.folder, "data");
    const said = path.join(this.folder, "server.txt");
    // Files and not pipes, so that it can outlive this process.
    const [output, errors] = [await open(said, "w"), await open(path.join(this.folder, "server.log"), "a")];
    this.process = spawn(this.binary, ["serve", "--listen", this.address, "--data-dir", data, ...set], {
      stdio: ["ignore", output.fd, errors.fd], detached: true,
    });
    this.exited = new Promise((resolve) => this.process.once("exit", resolve));
    let code;
    void this.exited.then((exit) => (code = exit ?? "a signal"));
    await output.close();
    await errors.close();
    const listening = async () => {
      if (code !== undefined) throw new Error(`the server ended with ${code}:\n${await this.log()}`);
      return /listening on (\S+)/.exec(await readFile(said, "utf8"))?.[1];
    };
    this.address = await until(listening, "the server listens", START_MS);
  }

  log() {
    return readFile(path.join(this.folder, "server.log"), "utf8").then((text) => text.slice(-4000), () => "");
  }

  /** As `kill -9` does. */
  async kill() {
    this.process?.kill("SIGKILL");
    await this.exited;
  }

  async get(path) {
    const answer = await fetch(`${this.url}${path}`);
    if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}: ${await answer.text()}`);
    return answer.json();
  }

  /** Waits for a turn of a session that is none of those known. */
  async nextTurn(session, known) {
    const found = async () => {
      const { turns } = await this.get(`/admin/v1/sessions/${session}/turns`);
      return turns.find(({ turn }) => !known.includes(turn))?.turn;
    };
    return until(found, "the next turn");
  }

  /** Everything that was committed, in its order. */
  async events(session) {
    const events = [];
    let after = 0;
    do {
      const page = await this.get(`/admin/v1/sessions/${session}/events?after=${after}`);
      events.push(...page.events);
      after = page.next;
    } while (after);
    return events;
  }
}

/** `switchboard device`: this machine, as far as a folder with a log in it goes. */
export class Device {
  /** The commands that it has run, in their order. */
  ran = [];
  online = false;

  constructor({ binary, folder, screen, id = "lab-1" }) {
    Object.assign(this, { binary, root: path.join(folder, id), screen, id });
  }

  /** Writes the log; answers how many errors are in it. */
  async fill() {
    await mkdir(this.root, { recursive: true });
    const count = 5 + Math.floor(Math.random() * 5);
    const quiet = ["INFO backup begins", "INFO user came", "WARN slow answer"];
    const lines = Array.from({ length: count }, (_, index) => [
      quiet[index % quiet.length], `ERROR ${index === count - 1 ? "the disk is nearly full" : ERRORS[index % ERRORS.length]}`,
    ]);
    await writeFile(path.join(this.root, "app.log"), lines.flat().map((line, index) => `06:${String(10 + index)}:00 ${line}\n`).join(""));
    return count;
  }

  async start(url) {
    const allow = ["grep", "tail"].flatMap((program) => ["--allow", program]);
    this.process = spawn(this.binary, ["device", "--id", this.id, "--root", this.root, ...allow, "--url", url.replace("http", "ws")], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    createInterface({ input: this.process.stdout }).on("line", (line) => this.hear(line));
    await this.comesOnline();
  }

  comesOnline() {
    return until(() => this.online, `${this.id} is connected`);
  }

  hear(line) {
    if (line.startsWith("connected as")) {
      this.online = true;
      this.screen.connect("AIP");
      this.screen.act("AIP", `${this.id} is connected and offers its tools`);
    } else if (/trying again in/.test(line)) {
      this.online = false;
      this.screen.disconnect("AIP");
    } else if (line.startsWith("running run_command ")) {
      const command = line.slice("running run_command ".length);
      this.ran.push(command);
      // News from the browser are a little longer on their way; what led to this is to be shown before it.
      setTimeout(() => this.screen.act("AIP", `${this.id} $ ${command}`), 150);
    }
  }

  stop() {
    this.process?.kill("SIGTERM");
  }
}

const ERRORS = ["no answer from the printer", "a password was wrong", "the queue is full", "a file is missing"];
