/**
 * The client half of Acolyte over WebSocket, without socket, clock or randomness.
 *
 *           Up               chat.accepted
 *  waiting ────▶ sent ─────────────────────▶ open ──▶ (terminal)
 *     ▲            │ cut, chat.attach          │ ▲
 *     └────────────┘           cut, resumable  ▼ │ chat.accepted
 *                                   suspended ──▶ attaching
 *                                       ▲  Up        │ cut
 *                                       └────────────┘
 *
 * Where both sides know `task.resume`, a chat outlives its connection: it is attached to the next one behind the last position that
 * was seen, so that nothing is told twice and nothing is missing.
 */

import { Backoff } from "../backoff.js";
import type { Cause, Input, Machine, Output } from "../machine.js";
import { isMap, parseJson, type Value, type ValueMap } from "../wire/value.js";

export interface AcolyteHistoryEntry {
  id: string;
  role: "system" | "user" | "assistant";
  content: string;
  kind?: "text" | "tool_payload" | "status";
  timestamp: string;
}

export interface AcolyteRequest {
  message: string;
  history: AcolyteHistoryEntry[];
  /** The default model of the server where it is not named. */
  model?: string;
  sessionId?: string;
  resourceId?: string;
  activeSkills?: { name: string; instructions: string }[];
  suggestions?: string[];
  workspace?: string;
}

export interface AcolyteAttach {
  taskId?: string;
  sessionId?: string;
}

export type AcolyteEnding =
  | { type: "done"; reply: ValueMap }
  | { type: "error"; error: ValueMap }
  /** The message was refused and has had no effect. */
  | { type: "refused"; message: string }
  | { type: "lost"; loss: "disconnected" | "unknown" | "closed" | "left" };

export type AcolyteEvent =
  | { type: "up"; status: ValueMap; capabilities: ReadonlySet<string> }
  | { type: "accepted"; id: number; task: string }
  | { type: "queued"; id: number; position: number }
  | { type: "started"; id: number }
  | { type: "chat"; id: number; event: ValueMap }
  | { type: "ended"; id: number; ending: AcolyteEnding }
  | { type: "disconnected"; cause: Cause; retryAt: number }
  | { type: "off"; cause: Cause };

export interface AcolyteConfig {
  capabilities: readonly string[];
  maxChats: number;
  answerMs: number;
  quietMs: number;
  backoffFirstMs: number;
  backoffMostMs: number;
  renewable: boolean;
  random: () => number;
}

export const ACOLYTE_DEFAULTS: AcolyteConfig = {
  // One name for lists is enough.
  capabilities: ["abort.terminal", "error.structured", "event.checklist", "stream.lossless", "task.resume", "workspace.path"],
  maxChats: 256,
  answerMs: 10_000,
  quietMs: 30_000,
  backoffFirstMs: 500,
  backoffMostMs: 30_000,
  renewable: false,
  random: Math.random,
};

interface Chat {
  state: "waiting" | "sent" | "open" | "suspended" | "attaching";
  opening: { start: AcolyteRequest } | { attach: AcolyteAttach };
  wire: string | undefined;
  session: string | undefined;
  task: string | undefined;
  position: number | undefined;
  /** So many events behind the position were told. */
  partial: number;
  /** So many events are told again, and not to the user. */
  skip: number;
  started: boolean;
  queued: number | undefined;
  abort: boolean;
}

type Link = "off" | "dialing" | "greeting" | "up" | "waiting";

export class AcolyteMachine implements Machine<AcolyteEvent> {
  link: Link = "off";
  status: ValueMap = {};
  agreed: ReadonlySet<string> = new Set();

  private readonly config: AcolyteConfig;
  private readonly chats = new Map<number, Chat>();
  private readonly wires = new Map<string, number>();
  private readonly calls = new Map<string, { what: "offer" | "ping" | "abort"; by: number }>();
  private readonly backoff: Backoff;
  private last = 0;
  private minted = 0;
  private heardAt = 0;
  private retryAt: number | undefined;
  private renewals = 0;
  private readonly outputs: Output<AcolyteEvent>[] = [];

  constructor(config: Partial<AcolyteConfig> = {}) {
    this.config = { ...ACOLYTE_DEFAULTS, ...config };
    this.backoff = new Backoff(this.config.backoffFirstMs, this.config.backoffMostMs, this.config.random);
  }

  poll(): Output<AcolyteEvent> | undefined {
    return this.outputs.shift();
  }

  wake(): number | undefined {
    if (this.link === "waiting") return this.retryAt;
    if (this.link !== "greeting" && this.link !== "up") return undefined;
    let wake = this.heardAt + this.config.quietMs;
    for (const { by } of this.calls.values()) wake = Math.min(wake, by);
    return wake;
  }

  handle(input: Input, now: number): void {
    const open = this.link === "greeting" || this.link === "up";
    switch (input.type) {
      case "opened":
        if (this.link !== "dialing") return;
        this.link = "greeting";
        this.heardAt = now;
        this.ask("offer", "status.get", { protocol_version: "1", capabilities: this.config.capabilities.join(", ") }, now);
        return;
      case "refused":
      case "unreachable":
        if (this.link === "dialing") this.down(input, now);
        return;
      case "message":
        if (!open) return;
        this.heardAt = now;
        if (typeof input.data === "string") this.receive(input.data, now);
        return;
      case "closed":
        if (this.link === "dialing") this.down({ type: "unreachable" }, now);
        else if (open) this.down({ type: "closed", code: input.code }, now);
        return;
      case "woken":
        if (this.link === "waiting") {
          this.backoff.reset();
          this.retryAt = now;
        } else if (this.link === "up") this.ask("ping", "status.get", undefined, now, 5_000);
        this.timeout(now);
        return;
      case "timeout":
        this.timeout(now);
    }
  }

  connect(): void {
    if (this.link !== "off") return;
    this.link = "dialing";
    this.out({ type: "connect" });
  }

  start(request: AcolyteRequest): number | "full" {
    return this.add({ start: request }, request.sessionId);
  }

  attach(attach: AcolyteAttach): number | "full" {
    return this.add({ attach }, attach.sessionId);
  }

  abort(id: number, now: number): void {
    const chat = this.chats.get(id);
    if (!chat || chat.abort) return;
    chat.abort = true;
    if (chat.state === "waiting") this.end(id, { type: "error", error: { errorCode: "E_ABORTED", errorMessage: "stopped before it was sent" } });
    else if (chat.state === "open" && this.link === "up") this.sendAbort(chat, now);
  }

  /** A new connection with a new credential; only where chats go on. */
  refresh(now: number): void {
    if (this.link !== "up" || (this.chats.size > 0 && !this.agreed.has("task.resume"))) return;
    this.out({ type: "close", code: 1001 });
    this.down({ type: "refreshed" }, now);
  }

  leave(now: number): void {
    if (this.link === "off") return;
    if (this.link !== "waiting") this.out({ type: "close", code: 1000 });
    this.link = "waiting";
    this.down({ type: "left" }, now);
  }

  /** Leaves without stopping what can be attached to later. */
  pause(now: number): void {
    if (this.link === "off") return;
    if (this.link !== "waiting") this.out({ type: "close", code: 1001 });
    this.link = "off";
    this.retryAt = undefined;
    this.calls.clear();
    this.wires.clear();
    this.event({ type: "disconnected", cause: { type: "refreshed" }, retryAt: now });
  }

  taskOf(id: number): string | undefined {
    return this.chats.get(id)?.task;
  }

  positionOf(id: number): number {
    return this.chats.get(id)?.position ?? 0;
  }

  private add(opening: Chat["opening"], session: string | undefined): number | "full" {
    if (this.chats.size >= this.config.maxChats) return "full";
    const id = (this.last += 1);
    this.chats.set(id, {
      state: "waiting", opening, wire: undefined, session, task: undefined, position: undefined, partial: 0, skip: 0, started: false,
      queued: undefined, abort: false,
    });
    if (this.link === "up") this.send(id);
    return id;
  }

  private receive(text: string, now: number): void {
    let message: Value;
    try {
      message = parseJson(text);
    } catch {
      return;
    }
    if (!isMap(message) || typeof message["id"] !== "string" || typeof message["type"] !== "string") return;
    const { id: wire, type } = message as { id: string; type: string };
    const call = this.calls.get(wire);
    if (type === "status.result") {
      this.calls.delete(wire);
      if (call?.what === "offer" && isMap(message["status"])) this.greeted(message["status"], now);
      return;
    }
    if (type === "chat.abort.result") return void this.calls.delete(wire);
    if (type === "error") {
      this.calls.delete(wire);
      if (call?.what === "offer") return this.close(1000, { type: "violation", message: String(message["error"]) }, now);
      const id = this.wires.get(wire);
      const chat = id === undefined ? undefined : this.chats.get(id);
      // An error under the id of a chat that runs is about another message.
      if (id === undefined || (chat?.state !== "sent" && chat?.state !== "attaching")) return;
      if (chat.state === "attaching") this.end(id, { type: "lost", loss: "disconnected" });
      else this.end(id, { type: "refused", message: typeof message["error"] === "string" ? message["error"] : "refused" });
      return;
    }
    const id = this.wires.get(wire);
    const chat = id === undefined ? undefined : this.chats.get(id);
    if (id === undefined || !chat) return;
    switch (type) {
      case "chat.accepted":
        if (chat.state !== "sent" && chat.state !== "attaching") return;
        if (typeof message["taskId"] === "string") chat.task = message["taskId"];
        if (chat.state === "sent") this.event({ type: "accepted", id, task: chat.task ?? "" });
        chat.state = "open";
        if (chat.abort) this.sendAbort(chat, now);
        return;
      case "chat.queued": {
        const position = message["position"];
        if (typeof position === "number" && chat.queued !== position) this.event({ type: "queued", id, position: (chat.queued = position) });
        return;
      }
      case "chat.started":
        if (!chat.started) this.event({ type: "started", id });
        chat.started = true;
        return;
      case "chat.event":
        this.told(id, chat, message);
        return;
      case "chat.done":
        if (isMap(message["reply"])) this.end(id, { type: "done", reply: message["reply"] });
        else this.end(id, { type: "error", error: { errorCode: "E_PROTOCOL", errorMessage: "a reply that cannot be read" } });
        return;
      case "chat.error": {
        const { id: _id, type: _type, ...error } = message;
        this.end(id, { type: "error", error });
      }
    }
  }

  private told(id: number, chat: Chat, message: ValueMap): void {
    const event = message["event"];
    const position = typeof message["position"] === "number" ? message["position"] : undefined;
    const again = chat.skip > 0;
    if (again) chat.skip -= 1;
    if (position === undefined) chat.partial += again ? 0 : 1;
    else {
      chat.position = position;
      chat.partial = chat.skip = 0;
    }
    if (!again && isMap(event)) this.event({ type: "chat", id, event });
  }

  private greeted(status: ValueMap, now: number): void {
    if (this.link !== "greeting") return;
    if (status["protocol_version"] !== "1") {
      return this.close(1000, { type: "violation", message: `the server speaks version ${String(status["protocol_version"])}, this client 1` }, now);
    }
    const agreed = typeof status["capabilities_agreed"] === "string" ? status["capabilities_agreed"].split(",").map((name) => name.trim()) : [];
    this.agreed = new Set(agreed.filter((name) => this.config.capabilities.includes(name)));
    this.status = status;
    this.link = "up";
    this.renewals = 0;
    this.backoff.reset();
    this.event({ type: "up", status, capabilities: this.agreed });
    for (const [id, chat] of [...this.chats]) {
      if (chat.state === "suspended" && !this.agreed.has("task.resume")) this.end(id, { type: "lost", loss: "disconnected" });
      else if (chat.state === "suspended") {
        const wire = this.bind(id, chat);
        chat.state = "attaching";
        chat.skip = chat.partial;
        this.sendMessage(wire, "chat.attach", {
          ...(chat.task === undefined ? {} : { taskId: chat.task }),
          ...(chat.session === undefined ? {} : { sessionId: chat.session }),
          ...(chat.position === undefined ? {} : { after: chat.position }),
        });
      } else if (chat.state === "waiting") this.send(id);
    }
  }

  private send(id: number): void {
    const chat = this.chats.get(id);
    if (!chat) return;
    const wire = this.bind(id, chat);
    chat.state = "sent";
    if ("start" in chat.opening) {
      const { model = typeof this.status["model"] === "string" ? this.status["model"] : "default", ...request } = chat.opening.start;
      this.sendMessage(wire, "chat.start", { request: { ...request, model } as unknown as ValueMap });
    } else this.sendMessage(wire, "chat.attach", chat.opening.attach as ValueMap);
  }

  private sendAbort(chat: Chat, now: number): void {
    if (chat.wire !== undefined) this.ask("abort", "chat.abort", { requestId: chat.wire }, now);
  }

  private ask(what: "offer" | "ping" | "abort", type: string, payload: ValueMap | undefined, now: number, within = this.config.answerMs): void {
    const wire = this.mint();
    this.calls.set(wire, { what, by: now + within });
    this.sendMessage(wire, type, payload);
  }

  private timeout(now: number): void {
    if (this.link === "waiting" && this.retryAt !== undefined && this.retryAt <= now) {
      this.link = "dialing";
      this.retryAt = undefined;
      this.out({ type: "connect" });
      return;
    }
    if (this.link !== "greeting" && this.link !== "up") return;
    for (const { by } of this.calls.values()) if (by <= now) return this.close(1001, { type: "silent" }, now);
    if (now - this.heardAt >= this.config.quietMs && this.link === "up" && this.calls.size === 0) this.ask("ping", "status.get", undefined, now);
  }

  private close(code: number, cause: Cause, now: number): void {
    this.out({ type: "close", code });
    this.down(cause, now);
  }

  private down(cause: Cause, now: number): void {
    const temporary = this.isTemporary(cause);
    this.link = temporary ? "waiting" : "off";
    this.calls.clear();
    this.wires.clear();
    if (temporary) {
      const asked = cause.type === "refused" ? cause.retryAfterMs : undefined;
      this.retryAt = now + (cause.type === "refreshed" ? 0 : (asked ?? this.backoff.pause()));
      this.event({ type: "disconnected", cause, retryAt: this.retryAt });
    } else {
      this.backoff.reset();
      this.event({ type: "off", cause });
    }
    for (const [id, chat] of [...this.chats]) {
      chat.wire = undefined;
      if (!temporary) this.end(id, { type: "lost", loss: cause.type === "left" ? "left" : "closed" });
      else if (chat.state === "sent" && "attach" in chat.opening) chat.state = "waiting";
      // Whether the server has taken it nobody knows, and asking again might do it twice.
      else if (chat.state === "sent") this.end(id, { type: "lost", loss: "unknown" });
      else if (chat.state === "open" || chat.state === "attaching") {
        if (this.agreed.has("task.resume")) chat.state = "suspended";
        else this.end(id, { type: "lost", loss: "disconnected" });
      }
    }
  }

  private isTemporary(cause: Cause): boolean {
    const renew = () => this.config.renewable && (this.renewals += 1) <= 2;
    switch (cause.type) {
      case "refused":
        return cause.status === 401 ? renew() : cause.status === 408 || cause.status === 429 || cause.status >= 500;
      case "closed":
        return cause.code === 1008 ? renew() : [1001, 1006, 1011, 1012, 1013].includes(cause.code);
      case "violation":
      case "left":
        return false;
      default:
        return true;
    }
  }

  private end(id: number, ending: AcolyteEnding): void {
    const chat = this.chats.get(id);
    if (!chat) return;
    this.chats.delete(id);
    if (chat.wire !== undefined) this.wires.delete(chat.wire);
    this.event({ type: "ended", id, ending });
  }

  private bind(id: number, chat: Chat): string {
    chat.wire = this.mint();
    this.wires.set(chat.wire, id);
    return chat.wire;
  }

  private mint(): string {
    this.minted += 1;
    return `rpc_${this.minted.toString(36)}${Math.floor(this.config.random() * 2 ** 52).toString(36)}`;
  }

  private sendMessage(id: string, type: string, payload: ValueMap | undefined): void {
    this.out({ type: "send", data: JSON.stringify({ id, type, ...(payload ? { payload } : {}) }) });
  }

  private event(event: AcolyteEvent): void {
    this.out({ type: "event", event });
  }

  private out(output: Output<AcolyteEvent>): void {
    this.outputs.push(output);
  }
}
