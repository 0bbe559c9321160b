/** A client of the Agent Socket Protocol. */

import { BaseClient, lostTurn } from "../base.js";
import { Driver, socketUrl } from "../driver.js";
import { SwitchboardError, TurnError, UsageError } from "../errors.js";
import type { Machine } from "../machine.js";
import { messagesOf } from "../history.js";
import { randomId } from "../platform.js";
import { Turn } from "../turn.js";
import type { AskOptions, Client, ClientOptions, Finish, Input, Message, Session, TurnEvent, Value } from "../types.js";
import { base64Url, type ValueMap } from "../wire/value.js";
import { encodeUtf8 } from "../wire/utf8.js";
import type { Inflate, Msgpack } from "./codec.js";
import { type AspEvent, AspMachine, type AspSaved, DEFAULTS, type Ending, STANDARD } from "./machine.js";
import type { AspInvoke, AspRecord, AspTool } from "./message.js";

export interface AspClientOptions extends ClientOptions {
  /** Credit per request in bytes: how much of an answer may be on its way unread. */
  window?: number;
  /** Unpacks compressed answers; see `@switchboard/client/deflate`. Without it none are asked for. */
  inflate?: Inflate;
  /** Maps as MessagePack, for programs that send bytes; see `@switchboard/client/msgpack`. Without it they are JSON. */
  msgpack?: Msgpack;
  /** The name by which this program introduces itself. */
  name?: string;
  version?: string;
}

interface Slot {
  turn: Turn;
  id: number;
  key: string;
  watched: boolean;
  next: number;
  /** An earlier page left it; nobody has asked for it here yet. */
  left: boolean;
}

/** How often it is looked whether others have started something. */
const FOLLOW_MS = 1000;

/** A client of a Switchboard server, over the Agent Socket Protocol. Connects when something is asked, or by `connect`. */
export function createClient(options: AspClientOptions): AspClient {
  return new AspClient(options);
}

export class AspClient extends BaseClient<AspEvent> implements Client {
  readonly protocol = "asp";

  protected readonly driver: Driver<AspEvent>;
  private readonly machine: AspMachine;
  private readonly slots = new Map<number, Slot>();
  private readonly answers = new Map<number, { resolve(): void; reject(error: SwitchboardError): void }>();
  private readonly pings = new Map<string, (ms: number) => void>();
  private readonly sessions = new Map<string, AspSession>();
  private restored: Promise<void> | undefined;
  private savedRevision = 0;
  /** A token that came before the connection could take it. */
  private renewed: string | undefined;
  private offered = "";
  /** What runs belongs to the next page. */
  private suspended = false;

  constructor(protected override readonly options: AspClientOptions) {
    super(options);
    const url = socketUrl(options.url, "/v1/agent-socket", { agent: options.agent }, options.allowPlaintext === true, options.token !== undefined);
    this.machine = new AspMachine({
      features: [...DEFAULTS.features, ...(options.inflate ? ["deflate"] : [])],
      client: { name: options.name ?? "@switchboard/client", version: options.version ?? "0.1.0" },
      tools: this.definitions(),
      renewable: typeof options.token === "function",
      ...(options.window === undefined ? {} : { window: options.window }),
      ...(options.inflate === undefined ? {} : { inflate: options.inflate }),
      ...(options.msgpack === undefined ? {} : { msgpack: options.msgpack, enc: ["msgpack", "json"] as const }),
      ...(options.backoff?.firstMs === undefined ? {} : { backoffFirstMs: options.backoff.firstMs }),
      ...(options.backoff?.mostMs === undefined ? {} : { backoffMostMs: options.backoff.mostMs }),
    });
    this.driver = new Driver(this.machine, options, {
      url,
      protocols: (token) => ["asp-v1", ...(token === undefined ? [] : [`asp-bearer.${base64Url(encodeUtf8(token))}`])],
      event: (event) => this.event(event),
      renewed: (token) => {
        this.renewed = this.machine.authenticate(token) ? undefined : token;
        this.driver.drain();
      },
      settled: () => this.saveChanges(),
    });
    this.offered = JSON.stringify(this.definitions());
  }

  /** The server's tools, as far as it has told them. */
  get serverTools(): readonly AspTool[] {
    return [...this.machine.tools.values()];
  }

  /** What both sides have agreed on. */
  get features(): ReadonlySet<string> {
    return this.machine.features;
  }

  session(name: string): AspSession {
    const known = this.sessions.get(name);
    if (known) return known;
    if (name.length === 0 || encodeUtf8(name).length > 64) throw new UsageError(`"${name}" cannot be the name of a session`, "use 1 to 64 bytes");
    const session = new AspSession(this, name);
    this.sessions.set(name, session);
    return session;
  }

  /** How long the way to the server and back takes, in milliseconds. */
  ping(): Promise<number> {
    const nonce = randomId(8);
    const sent = this.driver.now();
    return new Promise((resolve, reject) => {
      if (!this.machine.ping(nonce)) return reject(new SwitchboardError("NOT_AGREED", "the server does not answer pings, or there is no connection", "connect first"));
      this.pings.set(nonce, () => resolve(this.driver.now() - sent));
      this.driver.drain();
    });
  }

  /** Stops everything that runs. */
  stopAll(reason?: string): void {
    this.machine.interruptAll(reason);
    this.driver.drain();
  }

  async close(): Promise<void> {
    this.suspended = true;
    this.machine.bye(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("closed");
    await this.forget();
  }

  async suspend(): Promise<void> {
    const saved = this.save();
    this.suspended = true;
    await saved;
    this.machine.pause(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("idle");
  }

  protected override async start(): Promise<void> {
    await (this.restored ??= this.restore());
    this.suspended = false;
    await super.start();
  }

  protected machineOf(): Machine<AspEvent> & { connect(): void } {
    return this.machine;
  }

  protected toolsChanged(): void {
    // Several that change together make one HELLO.
    void Promise.resolve().then(() => {
      const tools = this.definitions();
      const offered = JSON.stringify(tools);
      if (offered === this.offered) return;
      this.offered = offered;
      this.machine.offer(tools, this.driver.now());
      this.driver.drain();
    });
  }

  /** @internal */
  request(invoke: AspInvoke, session: string, input: Input | undefined, signal?: AskOptions["signal"]): Turn {
    const slot = this.slot(session, input, invoke.idem ?? "", false);
    const open = () => {
      if (slot.turn.finished) return;
      if (slot.turn.status === "stopping") return slot.turn.push({ type: "end", end: { finish: "interrupted" } });
      const id = this.machine.invoke(invoke, this.driver.now());
      if (typeof id === "string") {
        const full = id === "full";
        slot.turn.fail(full ? new TurnError("QUEUE_FULL", "too many requests wait already", "wait until some are over", true) : lostTurn("closed"));
      } else {
        slot.id = id;
        this.slots.set(id, slot);
        this.emit("turn", slot.turn);
      }
      this.driver.drain();
    };
    signal?.addEventListener("abort", () => slot.turn.stop());
    if (signal?.aborted) slot.turn.stop();
    this.start().then(open, (error: unknown) => slot.turn.fail(new TurnError("CLOSED", String(error), "look at the client's `error`")));
    return slot.turn;
  }

  /** @internal Turns of a session that are not over. */
  turnsOf(session: string): Turn[] {
    return [...this.slots.values()].filter(({ turn, watched }) => turn.session === session && !watched).map(({ turn }) => turn);
  }

  /** @internal */
  async left(session: string): Promise<Turn | undefined> {
    await (this.restored ??= this.restore());
    const found = [...this.slots.values()].filter((slot) => slot.left && slot.turn.session === session).at(-1);
    if (!found) return undefined;
    found.left = false;
    await this.start();
    return found.turn;
  }

  /** @internal A turn of somebody else that runs, or undefined. */
  async watch(session: string): Promise<Turn | undefined> {
    await this.start();
    if (this.state !== "online") return undefined;
    if (!this.machine.features.has("watch")) throw new UsageError("this server does not let turns of others be followed", "use a server that agrees on the feature `watch`");
    const slot = this.slot(session, undefined, "", true);
    const id = this.machine.invoke({ kind: "watch", session }, this.driver.now());
    if (typeof id === "string") return undefined;
    slot.id = id;
    this.slots.set(id, slot);
    this.driver.drain();
    await new Promise<void>((resolve) => {
      const stop = this.on("turn", (turn) => {
        if (turn !== slot.turn) return;
        stop();
        resolve();
      });
    });
    return slot.turn.error ? undefined : slot.turn;
  }

  /** @internal */
  http(path: string) {
    return this.driver.http(path);
  }

  private slot(session: string, input: Input | undefined, key: string, watched: boolean): Slot {
    const slot: Slot = {
      id: 0, key, watched, next: 0, left: false,
      turn: new Turn(session, input, {
        stop: (reason) => {
          if (slot.id === 0 || this.suspended) return;
          this.settleTurn(slot.turn);
          this.machine.interrupt(slot.id, reason);
          this.driver.drain();
        },
        consumed: (credit) => {
          this.machine.consumed(slot.id, credit);
          this.driver.drain();
        },
        position: () => ({ key: slot.key, next: slot.next }),
      }),
    };
    return slot;
  }

  private event(event: AspEvent): void {
    switch (event.type) {
      case "accepted":
      case "bare":
        if (this.renewed !== undefined && this.machine.authenticate(this.renewed)) this.renewed = undefined;
        return this.up();
      case "record":
        return this.record(event.id, event.record, event.credit);
      case "restarted": {
        const slot = this.slots.get(event.id);
        if (!slot) return;
        this.settleTurn(slot.turn);
        slot.next = 0;
        return slot.turn.push({ type: "restarted" });
      }
      case "ended":
        return this.ended(event.id, event.ending);
      case "push":
        if (event.record.t === "notice") this.emit("notice", { level: event.record.level, text: event.record.text, ...(event.record.data === undefined ? {} : { data: event.record.data }) });
        return;
      case "tools":
        return this.emit("tools", this.serverTools);
      case "authExpiring":
        return void this.driver.renew();
      case "authenticated":
        return;
      case "pong": {
        const nonce = event.nonce ?? "";
        this.pings.get(nonce)?.(0);
        this.pings.delete(nonce);
        return;
      }
      case "goaway":
        return this.emit("notice", { level: "info", text: "the server is leaving; this client will come back by itself" });
      case "error": {
        const { code, name, msg, retry, retry_ms } = event.error;
        // A resume that was refused is no news: what can be repeated is repeated, the rest ends as lost.
        if (code !== 2600) this.emit("error", new SwitchboardError(name, msg || name, adviceOf(code), retry, retry_ms));
        return;
      }
      case "disconnected":
        return this.lost(event.cause);
      case "off": {
        this.renewed = undefined;
        return this.off(event.cause);
      }
    }
  }

  private record(id: number, record: AspRecord, credit: number): void {
    const slot = this.slots.get(id);
    if (!slot) return this.machine.consumed(id, credit);
    const { turn } = slot;
    if (record.n !== undefined) slot.next = record.n + 1;
    if (slot.watched && !turn.run) this.emit("turn", turn);
    if (record.t === "call") {
      const { call_id, name, args } = record;
      turn.push({ type: "call", id: call_id, name, args }, credit);
      this.call(turn, call_id, name, args, record.timeout_ms, (outcome) => {
        turn.push({ type: "result", id: call_id, name, ...(outcome.ok ? { ok: true, output: outcome.output } : { ok: false, error: { code: outcome.code, message: outcome.message } }) });
        this.machine.answerCall(id, call_id, outcome.ok ? { ok: true, output: outcome.output } : { ok: false, error: { name: outcome.code, msg: outcome.message } }, this.driver.now());
        this.driver.drain();
      });
      return;
    }
    if (record.t === "ask") {
      turn.push({ type: "status", state: "waiting" }, credit);
      return this.asked(turn, record.ask_id, record.text, record.schema, (answer) => this.reply(id, record.ask_id, answer));
    }
    const event = eventOf(record);
    if (event) turn.push(event, credit);
    else this.machine.consumed(id, credit);
  }

  private reply(id: number, askId: string, answer: Value): Promise<void> {
    const own = this.machine.answerAsk(id, askId, typeof answer === "string" ? { text: answer } : { data: answer }, this.driver.now());
    if (typeof own === "string") return Promise.reject(new SwitchboardError("NOT_OPEN", "this question is not open any more", "nothing has to be done"));
    const answered = new Promise<void>((resolve, reject) => this.answers.set(own, { resolve, reject }));
    this.driver.drain();
    return answered;
  }

  private ended(id: number, ending: Ending): void {
    const waiting = this.answers.get(id);
    if (waiting) {
      this.answers.delete(id);
      if (ending.type === "end") waiting.resolve();
      else if (ending.type === "error") waiting.reject(new SwitchboardError(ending.error.name, ending.error.msg, adviceOf(ending.error.code), ending.error.retry, ending.error.retry_ms));
      else waiting.reject(lostTurn(ending.loss));
      return;
    }
    const slot = this.slots.get(id);
    if (!slot) return;
    this.slots.delete(id);
    this.settleTurn(slot.turn);
    if (ending.type === "end") {
      const { finish, output, usage, metrics } = ending.end;
      slot.turn.push({
        type: "end",
        end: {
          finish: (finish === "accepted" ? "complete" : finish) as Finish,
          ...(output === undefined ? {} : { output }),
          ...(usage === undefined ? {} : { usage }),
          ...(metrics === undefined ? {} : { metrics: metricsOf(metrics) }),
        },
      });
    } else if (ending.type === "error") {
      const { code, name, msg, retry, retry_ms } = ending.error;
      slot.turn.fail(new TurnError(name || `ERROR_${code}`, msg || name, adviceOf(code), retry, retry_ms));
    } else slot.turn.fail(lostTurn(ending.loss));
    if (slot.watched && !slot.turn.run) this.emit("turn", slot.turn);
  }

  private definitions(): AspTool[] {
    return [...this.ownTools.values()].map(({ name, description, inputSchema, annotations }) => ({
      name,
      ...(description === undefined ? {} : { description }),
      input_schema: inputSchema,
      ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
    }));
  }

  // ---- what is kept for the next page

  private get storageKey(): string {
    return this.options.storageKey ?? `switchboard:${this.options.url}`;
  }

  private async restore(): Promise<void> {
    const { storage } = this.options;
    if (!storage) return;
    let kept: AspSaved | undefined;
    try {
      kept = JSON.parse((await storage.getItem(this.storageKey)) ?? "null") ?? undefined;
    } catch {
      kept = undefined;
    }
    if (!kept || !Array.isArray(kept.requests)) return;
    // From their start: a page that was loaded again has shown nothing yet.
    const requests = kept.requests.map((request) => ({ ...request, next: 0 }));
    const now = this.driver.now();
    const { grant } = kept;
    this.machine.restore({ lastId: kept.lastId, requests, ...(grant ? { grant: { ...grant, until: this.driver.ofWall(grant.until) } } : {}) }, now);
    for (const { id, invoke } of requests) {
      const slot = this.slot(invoke.session ?? "", invoke.input as Input | undefined, invoke.idem ?? "", false);
      slot.id = id;
      slot.left = true;
      this.slots.set(id, slot);
    }
  }

  /** At once, since a page may be gone in the next moment; indices do not matter, since the next page is told from the start. */
  private saveChanges(): void {
    if (!this.options.storage || this.suspended || this.machine.revision === this.savedRevision) return;
    this.savedRevision = this.machine.revision;
    void this.save();
  }

  private async save(): Promise<void> {
    const { storage } = this.options;
    if (!storage) return;
    const { grant, ...saved } = this.machine.save(this.driver.now());
    try {
      await storage.setItem(this.storageKey, JSON.stringify({ ...saved, ...(grant ? { grant: { ...grant, until: this.driver.wallOf(grant.until) } } : {}) }));
    } catch {
      // A storage that is full or forbidden keeps nothing; all else works.
    }
  }

  private async forget(): Promise<void> {
    await this.options.storage?.removeItem(this.storageKey);
  }
}

class AspSession implements Session {
  constructor(
    private readonly client: AspClient,
    readonly name: string,
  ) {}

  get turns(): readonly Turn[] {
    return this.client.turnsOf(this.name);
  }

  ask(input: Input, options: AskOptions = {}): Turn {
    return this.client.request({ kind: "chat", session: this.name, ...common(options), input: input as string }, this.name, input, options.signal);
  }

  /** Runs a tool of the server without an agent; what it gave is the `output` of the end. */
  run(tool: string, args: ValueMap = {}, options: AskOptions = {}): Turn {
    return this.client.request({ kind: "tool", session: this.name, ...common(options), tool, args }, this.name, undefined, options.signal);
  }

  async history(options: { limit?: number; before?: string } = {}): Promise<Message[]> {
    return messagesOf(this.client, this.name, options);
  }

  async *follow(options: { signal?: AskOptions["signal"] } = {}): AsyncGenerator<Turn, void, undefined> {
    let stopped = false;
    let wake: (() => void) | undefined;
    options.signal?.addEventListener("abort", () => {
      stopped = true;
      wake?.();
    });
    while (!stopped && !options.signal?.aborted && this.client.state !== "closed") {
      // One's own turn is the oldest that runs while it runs.
      const turn = this.turns.length > 0 ? undefined : await this.client.watch(this.name);
      if (stopped) return;
      if (turn) {
        yield turn;
        await turn.done().catch(() => undefined);
      } else await new Promise<void>((resolve) => ((wake = resolve), globalThis.setTimeout(resolve, FOLLOW_MS)));
    }
  }

  resume(): Promise<Turn | undefined> {
    return this.client.left(this.name);
  }
}

declare const globalThis: { setTimeout(run: () => void, ms: number): unknown };

function common(options: AskOptions): Partial<AspInvoke> {
  return {
    // The key under which a lost request is asked for again, so that nothing is done twice.
    idem: options.key ?? randomId(),
    want: ["text", "reason", "tool", "data", "usage"],
    ...(options.agent === undefined ? {} : { agent: options.agent }),
    ...(options.meta === undefined ? {} : { meta: options.meta }),
    ...(options.deadlineMs === undefined ? {} : { deadline_ms: options.deadlineMs }),
  };
}

function eventOf(record: AspRecord): TurnEvent | undefined {
  switch (record.t) {
    case "start":
      return { type: "start", run: record.run, ...(record.model === undefined ? {} : { model: record.model }) };
    case "status":
      return { type: "status", state: record.state, ...(record.pos === undefined ? {} : { place: record.pos }), ...(record.msg === undefined ? {} : { text: record.msg }) };
    case "text":
      return { type: "text", text: record.d };
    case "reason":
      return { type: "reasoning", text: record.d };
    case "tool":
      return {
        type: "tool", id: record.call_id, name: record.name, phase: record.phase,
        ...(record.args === undefined ? {} : { args: record.args }), ...(record.d === undefined ? {} : { delta: record.d }),
        ...(record.output === undefined ? {} : { output: record.output }),
      };
    case "data":
      return { type: "data", value: record.value, ...(record.mime === undefined ? {} : { mime: record.mime }) };
    case "usage":
      return { type: "usage", usage: record.usage };
    case "notice":
      return { type: "notice", level: record.level, text: record.text, ...(record.data === undefined ? {} : { data: record.data }) };
    default:
      return undefined;
  }
}

function metricsOf(metrics: { cpu_ms?: number; wall_ms?: number; queue_ms?: number; first_ms?: number }) {
  return {
    ...(metrics.cpu_ms === undefined ? {} : { cpuMs: metrics.cpu_ms }),
    ...(metrics.wall_ms === undefined ? {} : { wallMs: metrics.wall_ms }),
    ...(metrics.queue_ms === undefined ? {} : { queueMs: metrics.queue_ms }),
    ...(metrics.first_ms === undefined ? {} : { firstMs: metrics.first_ms }),
  };
}

/** What to do about an ERROR of the protocol, by its number. */
function adviceOf(code: number): string {
  if (code === 2103) return "use a token with the scopes that this needs";
  if (code === 2202) return "send less at once, or raise `asp.limits.max_payload` on the server";
  if (code === 2301) return "look at `serverTools` for what there is";
  if (code === 2302) return "give arguments that fit the tool's schema";
  if (code === 2304) return "look at the names of the server's agents: `switchboard agents list`";
  if (code === 2305) return "use a key of its own for each request";
  if (code === 2402) return "check the endpoint of the model behind the agent";
  if (code >= 2100 && code < 2200) return "give a valid token; as a function, so that a new one is asked for";
  if (code >= 2200 && code < 2300) return "wait, then ask again";
  if (code >= 2300 && code < 2400) return "correct the request";
  if (code >= 2500 && code < 2600) return "check the function behind the agent; ask again where `retryable` says so";
  if (code >= 2400 && code < 2500) return "look into the server's log for what the agent met; ask again where `retryable` says so";
  return "update client and server to versions that fit";
}

export { STANDARD };
