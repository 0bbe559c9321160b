/** What the clients of all protocols share: states, tools of the page, and what waits for a person. */

import { Driver } from "./driver.js";
import { Emitter } from "./emitter.js";
import { errorOfCause, type ConnectionError, SwitchboardError, ToolError, TurnError } from "./errors.js";
import type { Cause, Machine } from "./machine.js";
import { type AbortSignalLike, platform } from "./platform.js";
import type { Tool, ToolContext } from "./tools.js";
import type { Turn } from "./turn.js";
import type { Approval, Client, ClientEvents, ClientOptions, ConnectionState, Question, Session } from "./types.js";
import { fromForeign, isMap, type Value } from "./wire/value.js";

export type Outcome = { ok: true; output: Value } | { ok: false; code: string; message: string };

interface Running {
  turn: Turn;
  abort(): void;
}

const MAX_CALLS = 256;

export abstract class BaseClient<Event> extends Emitter<ClientEvents> implements Client {
  abstract readonly protocol: Client["protocol"];
  state: ConnectionState = "idle";
  error: SwitchboardError | undefined;
  readonly open: (Question | Approval)[] = [];

  protected readonly ownTools = new Map<string, Tool>();
  protected abstract readonly driver: Driver<Event>;
  private readonly calls = new Map<string, Running>();
  private connecting: { resolve(): void; reject(error: ConnectionError): void }[] = [];

  constructor(protected readonly options: ClientOptions) {
    super();
    for (const own of options.tools ?? []) this.ownTools.set(own.name, own);
  }

  abstract session(name: string): Session;
  abstract close(): Promise<void>;
  abstract suspend(): Promise<void>;
  protected abstract machineOf(): Machine<Event> & { connect(): void };
  /** The tools of this page are others. */
  protected abstract toolsChanged(): void;

  async connect(): Promise<void> {
    if (this.state === "online") return;
    const connected = new Promise<void>((resolve, reject) => this.connecting.push({ resolve, reject }));
    await this.start();
    await connected;
  }

  tool(own: Tool): () => void {
    this.ownTools.set(own.name, own);
    this.toolsChanged();
    return () => {
      if (this.ownTools.get(own.name) !== own) return;
      this.ownTools.delete(own.name);
      this.toolsChanged();
    };
  }

  /** Looks whether the connection is still there, and comes back at once if not: for an app that comes to the front. Pages do so by themselves. */
  check(): void {
    this.driver.input({ type: "woken" });
  }

  /** Connects unless that is under way. */
  protected async start(): Promise<void> {
    this.driver.watch();
    if (this.state === "idle" || this.state === "closed") this.become("connecting");
    this.machineOf().connect();
    this.driver.drain();
  }

  protected up(): void {
    this.error = undefined;
    this.become("online");
    for (const { resolve } of this.connecting.splice(0)) resolve();
  }

  protected lost(cause: Cause): void {
    if (cause.type !== "refreshed" && cause.type !== "moved") {
      this.error = errorOfCause(cause);
      this.emit("error", this.error);
    }
    this.become(this.driver.online ? "reconnecting" : "offline");
  }

  protected off(cause: Cause): void {
    this.driver.rest();
    const error = errorOfCause(cause);
    if (cause.type !== "left") {
      this.error = error;
      this.emit("error", error);
    }
    this.become("closed");
    for (const { reject } of this.connecting.splice(0)) reject(error);
  }

  protected become(state: ConnectionState): void {
    if (this.state === state) return;
    this.state = state;
    this.emit("state", state);
  }

  // ---- tools of this page

  /** Runs a tool for an agent; `done` is called once, unless nobody waits any more. */
  protected call(turn: Turn, id: string, name: string, given: Value, timeoutMs: number, done: (outcome: Outcome) => void): void {
    const own = this.ownTools.get(name);
    if (!own) return done({ ok: false, code: "TOOL_NOT_FOUND", message: `this client has no tool ${name}` });
    if (this.calls.size >= MAX_CALLS) return done({ ok: false, code: "BUSY", message: "this client runs too many tools already" });
    const controller = new Abort();
    const clock = this.options.clock ?? platform;
    let over = false;
    const end = (outcome: Outcome | undefined) => {
      if (over) return;
      over = true;
      clock.clearTimeout(timer);
      this.calls.delete(id);
      if (outcome) done(outcome);
    };
    const timer = clock.setTimeout(() => {
      end({ ok: false, code: "TIMEOUT", message: "the tool took too long" });
      controller.abort();
    }, timeoutMs);
    this.calls.set(id, { turn, abort: () => (end(undefined), controller.abort()) });
    void this.runTool(own, turn, id, given, controller.signal).then(end);
  }

  /** What a turn that is over wanted is not wanted any more. */
  protected settleTurn(turn: Turn): void {
    for (const { turn: other, abort } of [...this.calls.values()]) if (other === turn) abort();
    const before = this.open.length;
    for (let at = this.open.length - 1; at >= 0; at -= 1) if (this.open[at]!.turn === turn) this.open.splice(at, 1);
    if (this.open.length !== before) this.emit("open", [...this.open]);
  }

  private async runTool(own: Tool, turn: Turn, callId: string, given: Value, signal: AbortSignalLike): Promise<Outcome> {
    try {
      const args = await own.check(given);
      const question = own.question(args);
      if (question !== undefined && !(await this.approved(turn, callId, question, own.name, given, signal))) {
        return { ok: false, code: "DENIED", message: "the user did not approve" };
      }
      const context: ToolContext = { callId, signal };
      const output = await own.run(args, context);
      return { ok: true, output: output === undefined ? null : fromForeign(output) };
    } catch (error) {
      if (error instanceof ToolError) return { ok: false, code: error.code, message: error.message };
      return { ok: false, code: "TOOL_FAILED", message: error instanceof Error ? error.message : String(error) };
    }
  }

  private approved(turn: Turn, id: string, text: string, tool: string, args: Value, signal: AbortSignalLike): Promise<boolean> {
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve(false));
      const decide = (yes: boolean) => async () => resolve(yes);
      this.raise(turn, { id, turn, text, tool, args, approve: decide(true), deny: decide(false) });
    });
  }

  // ---- what waits for a person

  /** A question of the server; one that asks for leave is an approval. */
  protected asked(turn: Turn, id: string, text: string, schema: Value | undefined, send: (answer: Value) => Promise<void>): void {
    const properties = isMap(schema) ? schema["properties"] : undefined;
    const approve = isMap(properties) ? properties["approve"] : undefined;
    if (isMap(approve) && approve["type"] === "boolean") {
      this.raise(turn, { id, turn, text, approve: () => send({ approve: true }), deny: () => send({ approve: false }) });
    } else this.raise(turn, { id, turn, text, ...(schema === undefined ? {} : { schema }), answer: send });
  }

  private raise(turn: Turn, pending: Question | Approval): void {
    const settle = () => {
      const at = this.open.indexOf(wrapped);
      if (at < 0) return;
      this.open.splice(at, 1);
      this.emit("open", [...this.open]);
    };
    const once = (run: (answer: Value) => Promise<void>) => async (answer?: Value) => {
      if (!this.open.includes(wrapped)) throw new SwitchboardError("NOT_OPEN", "this was answered, or is not wanted any more", "take it off the screen when `open` changes");
      settle();
      await run(answer ?? null);
    };
    const wrapped: Question | Approval =
      "answer" in pending
        ? { ...pending, answer: once(pending.answer) }
        : { ...pending, approve: once(pending.approve), deny: once(pending.deny) };
    this.open.push(wrapped);
    turn.push("answer" in wrapped ? { type: "question", question: wrapped } : { type: "approval", approval: wrapped });
    this.emit("open", [...this.open]);
  }
}

/** An `AbortController` where there may be none. */
class Abort {
  private readonly listeners = new Set<() => void>();
  readonly signal: AbortSignalLike & { aborted: boolean };

  constructor() {
    const Native = platform.AbortController;
    if (Native) {
      const native = new Native();
      this.signal = native.signal;
      this.abort = () => native.abort();
    } else {
      this.signal = {
        aborted: false,
        addEventListener: (_type, listener) => void this.listeners.add(listener),
        removeEventListener: (_type, listener) => void this.listeners.delete(listener),
      };
    }
  }

  abort(): void {
    this.signal.aborted = true;
    for (const listener of this.listeners) listener();
  }
}

/** The error that a lost turn ends with. */
export function lostTurn(why: string): TurnError {
  switch (why) {
    case "left":
      return new TurnError("CLOSED", "this client was closed", "keep the client open until its turns are over");
    case "closed":
      return new TurnError("CLOSED", "the connection has ended for good", "look at the client's `error`, then ask again", true);
    case "slow":
      return new TurnError("SLOW_READER", "the answer was not read fast enough", "read the turn, or stop it");
    default:
      return new TurnError("LOST", "the connection was lost, and the server does not have this turn any more", "ask again; what the turn has done may be done already", true);
  }
}
