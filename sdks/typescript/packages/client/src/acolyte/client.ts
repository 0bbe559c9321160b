/** A client of Acolyte, over its WebSocket or one request with server-sent events per turn. */

import { BaseClient, lostTurn } from "../base.js";
import { Driver, socketUrl } from "../driver.js";
import { TurnError, UsageError } from "../errors.js";
import { errorOfResponse, messagesOf } from "../history.js";
import type { Machine } from "../machine.js";
import { randomId } from "../platform.js";
import { Turn } from "../turn.js";
import type { AskOptions, Client, ClientOptions, Input, Message, Session, TurnEvent, Value } from "../types.js";
import { encodeUtf8 } from "../wire/utf8.js";
import { isMap, parseJson, type ValueMap } from "../wire/value.js";
import { type AcolyteEnding, type AcolyteEvent, type AcolyteHistoryEntry, AcolyteMachine, type AcolyteRequest } from "./machine.js";

export interface AcolyteClientOptions extends ClientOptions {
  /** `sse` asks each turn with a request of its own; there is nothing to come back to then. */
  transport?: "websocket" | "sse";
  model?: string;
  workspace?: string;
  suggestions?: string[];
}

export function createAcolyteClient(options: AcolyteClientOptions): AcolyteClient {
  return new AcolyteClient(options);
}

interface Slot {
  turn: Turn;
  id: number;
  sessionId: string;
  watched: boolean;
  left: boolean;
  asked: string;
  abort?: () => void;
}

interface Kept {
  chats: { task: string; sessionId: string; session: string; asked: string }[];
}

const MAX_HISTORY = 500;
const FOLLOW_MS = 1000;

export class AcolyteClient extends BaseClient<AcolyteEvent> implements Client {
  readonly protocol = "acolyte";

  protected readonly driver: Driver<AcolyteEvent>;
  private readonly machine: AcolyteMachine;
  private readonly slots = new Map<number, Slot>();
  private readonly streams = new Set<Slot>();
  private readonly sessions = new Map<string, AcolyteSession>();
  private restored: Promise<void> | undefined;
  private suspended = false;

  constructor(protected override readonly options: AcolyteClientOptions) {
    super(options);
    const url = socketUrl(options.url, "/v1/rpc", {}, options.allowPlaintext === true, options.token !== undefined);
    this.machine = new AcolyteMachine({
      renewable: typeof options.token === "function",
      ...(options.backoff?.firstMs === undefined ? {} : { backoffFirstMs: options.backoff.firstMs }),
      ...(options.backoff?.mostMs === undefined ? {} : { backoffMostMs: options.backoff.mostMs }),
    });
    this.driver = new Driver(this.machine, options, {
      url,
      protocols: (token) => (token === undefined ? [] : [`bearer.${token}`]),
      event: (event) => this.event(event),
      renewed: () => {
        this.machine.refresh(this.driver.now());
        this.driver.drain();
      },
    });
  }

  /** What the server says of itself. */
  get status(): ValueMap {
    return this.machine.status;
  }

  session(name: string): AcolyteSession {
    let session = this.sessions.get(name);
    if (!session) this.sessions.set(name, (session = new AcolyteSession(this, name)));
    return session;
  }

  override tool(): () => void {
    throw new UsageError("in Acolyte all tools run on the server", "use the ASP client for tools of the page");
  }

  async close(): Promise<void> {
    for (const slot of this.streams) slot.abort?.();
    this.machine.leave(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("closed");
    await this.options.storage?.removeItem(this.storageKey);
  }

  async suspend(): Promise<void> {
    this.suspended = true;
    await this.save();
    this.machine.pause(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("idle");
  }

  protected machineOf(): Machine<AcolyteEvent> & { connect(): void } {
    return this.machine;
  }

  protected toolsChanged(): void {
    // There are none.
  }

  protected override async start(): Promise<void> {
    await (this.restored ??= this.restore());
    this.suspended = false;
    await super.start();
  }

  /** @internal */
  ask(session: AcolyteSession, input: Input, options: AskOptions): Turn {
    const text = typeof input === "string" ? input : input.map((part) => (part.type === "text" ? part.text : "")).join("");
    const slot = this.slot(session.name, session.id, input, text, false);
    options.signal?.addEventListener("abort", () => slot.turn.stop());
    const send = async () => {
      await session.known();
      if (slot.turn.status === "stopping") return slot.turn.push({ type: "end", end: { finish: "interrupted" } });
      const model = options.agent ?? this.options.agent ?? this.options.model;
      const request: AcolyteRequest = {
        message: text,
        history: session.told.slice(-MAX_HISTORY),
        sessionId: session.id,
        ...(model === undefined ? {} : { model }),
        ...(this.options.workspace === undefined ? {} : { workspace: this.options.workspace }),
        ...(this.options.suggestions === undefined ? {} : { suggestions: this.options.suggestions }),
      };
      if (this.options.transport === "sse") return void this.stream(slot, request);
      await this.start();
      this.opened(slot, this.machine.start(request));
    };
    send().catch((error: unknown) => slot.turn.fail(error instanceof TurnError ? error : new TurnError("FAILED", error instanceof Error ? error.message : String(error), "look at the client's `error`")));
    return slot.turn;
  }

  /** @internal */
  async attach(session: AcolyteSession): Promise<Turn | undefined> {
    if (this.options.transport === "sse") throw new UsageError("over server-sent events turns of others cannot be followed", "use the WebSocket");
    await this.start();
    if (this.state !== "online") return undefined;
    const slot = this.slot(session.name, session.id, undefined, "", true);
    this.opened(slot, this.machine.attach({ sessionId: session.id }));
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
  async left(session: string): Promise<Turn | undefined> {
    await (this.restored ??= this.restore());
    const slot = [...this.slots.values()].filter((slot) => slot.left && slot.turn.session === session).at(-1);
    if (!slot) return undefined;
    slot.left = false;
    await this.start();
    return slot.turn;
  }

  /** @internal */
  turnsOf(session: string): Turn[] {
    return [...this.slots.values(), ...this.streams].filter(({ turn, watched }) => turn.session === session && !watched).map(({ turn }) => turn);
  }

  /** @internal */
  http(path: string) {
    return this.driver.http(path);
  }

  private opened(slot: Slot, id: number | "full"): void {
    if (id === "full") return slot.turn.fail(new TurnError("QUEUE_FULL", "too many chats are open already", "wait until some are over", true));
    slot.id = id;
    this.slots.set(id, slot);
    if (!slot.watched) this.emit("turn", slot.turn);
    this.driver.drain();
  }

  private slot(session: string, sessionId: string, input: Input | undefined, asked: string, watched: boolean): Slot {
    const slot: Slot = {
      id: 0, sessionId, watched, left: false, asked,
      turn: new Turn(session, input, {
        stop: () => {
          if (this.suspended) return;
          if (slot.abort) return slot.abort();
          if (slot.id) this.machine.abort(slot.id, this.driver.now());
          this.driver.drain();
        },
        consumed: () => undefined,
        position: () => ({ key: this.machine.taskOf(slot.id) ?? "", next: this.machine.positionOf(slot.id) }),
      }),
    };
    return slot;
  }

  private event(event: AcolyteEvent): void {
    switch (event.type) {
      case "up":
        return this.up();
      case "disconnected":
        return this.suspended ? undefined : this.lost(event.cause);
      case "off":
        return this.off(event.cause);
      default: {
        const slot = this.slots.get(event.id);
        if (!slot) return;
        const { turn } = slot;
        switch (event.type) {
          case "accepted":
            turn.run = event.task;
            if (slot.watched) this.emit("turn", turn);
            void this.save();
            return;
          case "queued":
            return turn.push({ type: "status", state: "queued", place: event.position });
          case "started":
            return turn.push({ type: "start", ...(turn.run === undefined ? {} : { run: turn.run }) });
          case "chat": {
            const told = turnEvent(event.event);
            if (told) turn.push(told);
            return;
          }
          case "ended":
            this.slots.delete(event.id);
            this.finish(slot, event.ending);
            if (slot.watched && !turn.run) this.emit("turn", turn);
            void this.save();
        }
      }
    }
  }

  private finish(slot: Slot, ending: AcolyteEnding): void {
    const { turn } = slot;
    switch (ending.type) {
      case "done": {
        const { reply } = ending;
        const text = typeof reply["output"] === "string" ? reply["output"] : "";
        if (reply["outputStreamed"] !== true && text) turn.push({ type: "text", text });
        if (typeof reply["error"] === "string") return turn.fail(new TurnError("FAILED", reply["error"], "look into the server's log for what the agent met; ask again later", true));
        if (!slot.watched) this.session(turn.session).told.push(...exchange(slot.asked, text));
        const usage = isMap(reply["usage"]) ? reply["usage"] : undefined;
        return turn.push({ type: "end", end: { finish: "complete", ...(usage ? { usage: { input_tokens: Number(usage["inputTokens"]), output_tokens: Number(usage["outputTokens"]) } } : {}) } });
      }
      case "error": {
        const { error } = ending;
        const code = typeof error["errorCode"] === "string" ? error["errorCode"] : "E_UNKNOWN";
        if (code === "E_ABORTED") return turn.push({ type: "end", end: { finish: "interrupted" } });
        return turn.fail(new TurnError(code, typeof error["errorMessage"] === "string" ? error["errorMessage"] : code, adviceOf(code), code === "E_OVERLOADED" || code === "E_TIMEOUT"));
      }
      case "refused":
        return turn.fail(new TurnError("REFUSED", ending.message, "correct the request, or wait if the queue was full", /queue|try again/i.test(ending.message)));
      case "lost":
        if (ending.loss === "unknown") return turn.fail(new TurnError("LOST", "the connection was lost before the server said that it has the question", "look at the history before asking again"));
        return turn.fail(lostTurn(ending.loss));
    }
  }

  // ---- one request with server-sent events

  private async stream(slot: Slot, request: AcolyteRequest): Promise<void> {
    const controller = new AbortController();
    slot.abort = () => controller.abort();
    this.streams.add(slot);
    this.emit("turn", slot.turn);
    try {
      const model = request.model ?? (await this.defaultModel());
      const response = await this.driver.http("/v1/chat/stream", {
        method: "POST",
        headers: { "content-type": "application/json", accept: "text/event-stream" },
        body: JSON.stringify({ ...request, model }),
        signal: controller.signal as never,
      });
      if (!response.ok) {
        const { code, message, advice, retryable } = await errorOfResponse(response);
        return slot.turn.fail(new TurnError(code, message, advice, retryable));
      }
      slot.turn.run = response.headers.get("acolyte-task-id") ?? undefined;
      slot.turn.push({ type: "start", ...(slot.turn.run === undefined ? {} : { run: slot.turn.run }) });
      for await (const data of events(response.body, () => response.text())) {
        let event: Value;
        try {
          event = parseJson(data);
        } catch {
          continue;
        }
        if (!isMap(event)) continue;
        if (event["type"] === "done" && isMap(event["reply"])) return this.finish(slot, { type: "done", reply: event["reply"] });
        if (event["type"] === "error") return this.finish(slot, { type: "error", error: event });
        const told = turnEvent(event);
        if (told) slot.turn.push(told);
      }
      slot.turn.fail(lostTurn("disconnected"));
    } catch (error) {
      if (controller.signal.aborted) slot.turn.push({ type: "end", end: { finish: "interrupted" } });
      else slot.turn.fail(new TurnError("LOST", error instanceof Error ? error.message : String(error), "check the network, and look at the history before asking again", true));
    } finally {
      this.streams.delete(slot);
    }
  }

  private model: Promise<string> | undefined;

  private defaultModel(): Promise<string> {
    return (this.model ??= this.driver.http("/v1/status").then(async (response) => {
      const status = response.ok ? parseJson(await response.text()) : {};
      return isMap(status) && typeof status["model"] === "string" ? status["model"] : "default";
    }));
  }

  // ---- what is kept for the next page

  private get storageKey(): string {
    return this.options.storageKey ?? `switchboard:acolyte:${this.options.url}`;
  }

  private async save(): Promise<void> {
    const { storage } = this.options;
    if (!storage || this.state === "closed") return;
    const chats = [];
    for (const [id, { turn, sessionId, watched, asked }] of this.slots) {
      const task = this.machine.taskOf(id);
      if (task !== undefined && !watched && turn.status !== "stopping") chats.push({ task, sessionId, session: turn.session, asked });
    }
    try {
      await storage.setItem(this.storageKey, JSON.stringify({ chats } satisfies Kept));
    } catch {
      // A storage that is full or forbidden keeps nothing; all else works.
    }
  }

  private async restore(): Promise<void> {
    const { storage } = this.options;
    if (!storage || this.options.transport === "sse") return;
    let kept: Kept | null = null;
    try {
      kept = JSON.parse((await storage.getItem(this.storageKey)) ?? "null") as Kept | null;
    } catch {
      kept = null;
    }
    for (const { task, sessionId, session, asked } of kept?.chats ?? []) {
      const slot = this.slot(session, sessionId, asked, asked, false);
      slot.left = true;
      const id = this.machine.attach({ taskId: task, sessionId });
      if (id === "full") return;
      slot.id = id;
      slot.turn.run = task;
      this.slots.set(id, slot);
    }
  }
}

class AcolyteSession implements Session {
  /** The name as the protocol wants it. */
  readonly id: string;
  /** What was said, as the agent is told it: in Acolyte the client owns the conversation. */
  readonly told: AcolyteHistoryEntry[] = [];
  private knows: Promise<void> | undefined;

  constructor(
    private readonly client: AcolyteClient,
    readonly name: string,
  ) {
    this.id = /^sess_[a-z0-9]+$/.test(name) ? name : `sess_${[...encodeUtf8(name)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }

  get turns(): readonly Turn[] {
    return this.client.turnsOf(this.name);
  }

  ask(input: Input, options: AskOptions = {}): Turn {
    return this.client.ask(this, input, options);
  }

  history(options: { limit?: number; before?: string } = {}): Promise<Message[]> {
    return messagesOf(this.client, this.id, options);
  }

  /** @internal What an earlier page has said; nothing where this may not be read. */
  known(): Promise<void> {
    return (this.knows ??= this.history({ limit: 50 }).then(
      (messages) => void this.told.unshift(...messages.filter(({ text }) => text).map(({ role, text, at }) => entry(role, text, at))),
      () => undefined,
    ));
  }

  async *follow(options: { signal?: AskOptions["signal"] } = {}): AsyncGenerator<Turn, void, undefined> {
    let stopped = false;
    let wake: (() => void) | undefined;
    options.signal?.addEventListener("abort", () => {
      stopped = true;
      wake?.();
    });
    while (!stopped && this.client.state !== "closed") {
      const turn = this.turns.length > 0 ? undefined : await this.client.attach(this);
      if (stopped) return;
      if (turn) {
        yield turn;
        await turn.done().catch(() => undefined);
      } else await new Promise<void>((resolve) => ((wake = resolve), void setTimeout(resolve, FOLLOW_MS)));
    }
  }

  resume(): Promise<Turn | undefined> {
    return this.client.left(this.name);
  }
}

declare function setTimeout(run: () => void, ms: number): unknown;
declare class AbortController {
  readonly signal: { readonly aborted: boolean };
  abort(): void;
}

function entry(role: "user" | "assistant" | "system", content: string, at?: number): AcolyteHistoryEntry {
  return { id: `msg_${randomId(16)}`, role, content, timestamp: new Date(at ?? Date.now()).toISOString() };
}

function exchange(asked: string, answered: string): AcolyteHistoryEntry[] {
  return [entry("user", asked), entry("assistant", answered)];
}

function adviceOf(code: string): string {
  if (code === "E_PROTOCOL_VERSION") return "update client and server to versions that fit";
  if (code === "E_SANDBOX_VIOLATION") return "ask for something within the workspace";
  if (code === "E_BUDGET_EXHAUSTED") return "ask for less at once, or begin a new session";
  if (code === "E_TIMEOUT" || code === "E_OVERLOADED") return "wait, then ask again";
  return "look into the server's log for what the agent met";
}

/** What an event of the protocol means for a turn; undefined where nobody needs to know. */
function turnEvent(event: ValueMap): TurnEvent | undefined {
  const text = (key: string) => (typeof event[key] === "string" ? event[key] : "");
  switch (event["type"]) {
    case "text-delta":
      return { type: "text", text: text("text") };
    case "reasoning":
      return { type: "reasoning", text: text("text") };
    case "status":
      return { type: "status", state: "running" };
    case "tool-call":
      return { type: "tool", id: text("toolCallId"), name: text("toolName"), phase: "start", args: event["args"] ?? {} };
    case "tool-output": {
      const part = event["content"];
      return { type: "tool", id: text("toolCallId"), name: text("toolName"), phase: "delta", ...(isMap(part) && typeof part["text"] === "string" ? { delta: part["text"] } : {}), ...(part === undefined ? {} : { output: part }) };
    }
    case "tool-result":
      return { type: "tool", id: text("toolCallId"), name: text("toolName"), phase: event["isError"] === true ? "error" : "done", ...(event["error"] === undefined ? {} : { output: event["error"] }) };
    case "usage":
      return { type: "usage", usage: { input_tokens: Number(event["inputTokens"]), output_tokens: Number(event["outputTokens"]) } };
    case "checklist":
    case "tasklist": {
      const items = Array.isArray(event["items"]) ? event["items"].filter(isMap) : [];
      return { type: "checklist", id: text("groupId"), title: text("groupTitle"), items: items.map((item) => ({ id: String(item["id"]), label: String(item["label"]), status: item["status"] as "pending" })) };
    }
    case "notice":
      return { type: "notice", level: event["level"] === "error" ? "error" : "warn", text: text("message") };
    case "error":
      return { type: "notice", level: "error", text: text("errorMessage") };
    default:
      return undefined;
  }
}

/** The data of server-sent events; whole lines alone, whatever the pieces are. */
async function* events(body: unknown, whole: () => Promise<string>): AsyncGenerator<string, void, undefined> {
  const reader = (body as { getReader?(): { read(): Promise<{ done: boolean; value?: Uint8Array }> } } | undefined)?.getReader?.();
  const decoder = reader && new TextDecoder();
  let held = reader ? "" : `${await whole()}\n\n`;
  let data: string[] = [];
  for (;;) {
    for (let end = held.search(/\r?\n/); end >= 0; end = held.search(/\r?\n/)) {
      const line = held.slice(0, end);
      held = held.slice(end + (held[end] === "\r" ? 2 : 1));
      if (line === "") {
        if (data.length > 0) yield data.join("\n");
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
    const step = await reader?.read();
    if (!step || step.done) return;
    held += decoder!.decode(step.value, { stream: true });
  }
}

declare class TextDecoder {
  decode(bytes: Uint8Array | undefined, options: { stream: boolean }): string;
}
