/**
 * The client half of the Agent Socket Protocol, without socket, clock or randomness.
 *
 *           connect            open, features wanted          accept, or 10 s without
 *   off ──────────▶ dialing ─────────────────────▶ greeting ──────────────────────▶ up
 *    ▲               │  ▲                             │                             │
 *    │  401 403 400  │  │ timer                       │                             │
 *    │  404          │  │              429, 503,      │ resumable close or loss     │
 *    │◀──────────────┘  └── waiting ◀──network────────┴─────────────────────────────┤
 *    └───────────────────────────────── any other close, bye ◀──────────────────────┘
 *
 * A request keeps its id from `invoke` to `ended`, across lost connections and when it is invoked again; exactly one `ended`
 * comes for each. What it was told before counts: a record that was delivered is not delivered again.
 */

import { Backoff } from "../backoff.js";
import type { Cause, Input, Machine, Output } from "../machine.js";
import { decodeUtf8 } from "../wire/utf8.js";
import type { Value, ValueMap } from "../wire/value.js";
import {
  Assembler, COMPRESSED, decodePayload, type Enc, encFlag, encodeFrame, encodeValue, END, ERROR, FrameError, fromServer, HEADER,
  HELLO, type Frame, type Inflate, type Msgpack, INTERRUPT, INVOKE, mapOf, MAX_MESSAGE, MAX_PAYLOAD, MAX_PAYLOAD_BARE, MORE, type Payload,
  PayloadError, readFrames, STREAM, TOOL_DEF,
} from "./codec.js";
import {
  type AspEnd, type AspError, type AspFinish, type AspInvoke, type AspRecord, type AspServerHello, type AspTool, optional, readError,
  readRecord, readServerHello, readTools,
} from "./message.js";
import { RESUMABLE } from "./wire.js";

export type Link = "off" | "dialing" | "greeting" | "up" | "waiting";

export type Loss = "disconnected" | "replay" | "refused" | "expired" | "closed" | "left";

export type Ending = { type: "end"; end: AspEnd } | { type: "error"; error: AspError } | { type: "lost"; loss: Loss };

export type AspEvent =
  | { type: "accepted"; cid: string | undefined; features: ReadonlySet<string>; resumed: boolean; lost: number[] }
  | { type: "bare" }
  /** `credit` goes back with `consumed` once the record is processed. */
  | { type: "record"; id: number; record: AspRecord; credit: number }
  /** The request was invoked again and is told from the start: output so far is void. */
  | { type: "restarted"; id: number }
  | { type: "ended"; id: number; ending: Ending }
  | { type: "push"; record: AspRecord }
  | { type: "tools" }
  | { type: "authExpiring" }
  | { type: "authenticated"; exp: number | undefined }
  | { type: "pong"; nonce: string | undefined }
  | { type: "goaway"; reason: string | undefined; retryMs: number }
  | { type: "error"; error: AspError }
  | { type: "disconnected"; cause: Cause; retryAt: number }
  | { type: "off"; cause: Cause };

export interface AspConfig {
  features: readonly string[];
  enc: readonly Enc[];
  client?: { name: string; version: string; platform?: string };
  tools: readonly AspTool[];
  maxPayload: number;
  window: number;
  maxQueued: number;
  acceptTimeoutMs: number;
  backoffFirstMs: number;
  backoffMostMs: number;
  /** Whether a new credential can be had: then being refused for the old one is not the end. */
  renewable: boolean;
  random: () => number;
  inflate?: Inflate;
  /** Without it MessagePack is neither offered nor read. */
  msgpack?: Msgpack;
}

export const STANDARD = ["flags", "events", "frag", "credit", "push", "client_tools", "resume", "ping"] as const;

export const DEFAULTS: AspConfig = {
  features: [...STANDARD, "reauth", "watch"],
  enc: ["json", "msgpack"],
  tools: [],
  maxPayload: MAX_PAYLOAD,
  window: 256 << 10,
  maxQueued: 256,
  acceptTimeoutMs: 10_000,
  backoffFirstMs: 500,
  backoffMostMs: 30_000,
  renewable: false,
  random: Math.random,
};

/** What a page has to keep so that the next one can go on. It holds a secret: whoever has it can come back as this client. */
export interface AspSaved {
  grant?: { cid: string; token: string; until: number };
  lastId: number;
  requests: { id: number; invoke: AspInvoke; sent: boolean; next: number; answered: string[] }[];
}

type State = "active" | "cancelling" | "suspended";

interface Request {
  state: State;
  answer: boolean;
  internal: boolean;
  order: number;
  /** Sent, or due at this time. */
  due: number | undefined;
  invoke: AspInvoke | undefined;
  next: number;
  rerun: boolean;
  expectReplayGone: boolean;
  interrupt: { reason: string | undefined } | undefined;
  failure: AspError | undefined;
  open: Set<string>;
  answered: Set<string>;
  consumed: number;
  outstanding: number;
  partial: number;
  attempts: number;
}

interface Agreed {
  features: ReadonlySet<string>;
  enc: Enc;
  maxPayload: number;
  maxMessage: number;
  maxInflight: number;
  window: number;
  heartbeatMs: number;
}

const NOTHING: ReadonlySet<string> = new Set();
/** Some gateways let WebSocket frames of 32 KiB through. */
const FRAGMENT = (32 << 10) - HEADER;
/** How long a leaving server lets requests finish, and then some. */
const DRAIN_MS = 35_000;
/** How long an answer to a ping may take when there is reason to doubt the connection. */
const PROBE_MS = 5_000;
const ANSWER_ATTEMPTS = 6;
const ANSWER_PAUSE_MS = 500;

export class AspMachine implements Machine<AspEvent> {
  link: Link = "off";
  cid: string | undefined;
  readonly tools = new Map<string, AspTool>();

  private readonly config: AspConfig;
  private agreed: Agreed;
  private accepted = false;
  private grant: { cid: string; token: string; windowMs: number } | undefined;
  private resuming = false;
  private resumeUntil: number | undefined;
  private leaving: { reconnectAt: number; giveUpAt: number } | undefined;
  private readonly requests = new Map<number, Request>();
  private lastId = 0;
  private invoked = 0;
  private rev: number | undefined;
  private readonly assembler: Assembler;
  private readonly backoff: Backoff;
  private acceptBy: number | undefined;
  private retryAt: number | undefined;
  private heardAt = 0;
  private pingedAt: number | undefined;
  private probing = false;
  private renewals = 0;
  private readonly outputs: Output<AspEvent>[] = [];
  /** Changes whenever `save` would give something else than an index. */
  revision = 0;

  constructor(config: Partial<AspConfig> = {}) {
    const whole = { ...DEFAULTS, ...config };
    this.config = { ...whole, enc: whole.enc.filter((enc) => enc === "json" || whole.msgpack) };
    this.assembler = new Assembler(this.config.maxPayload);
    this.backoff = new Backoff(this.config.backoffFirstMs, this.config.backoffMostMs, this.config.random);
    this.agreed = this.bare();
  }

  get features(): ReadonlySet<string> {
    return this.agreed.features;
  }

  state(id: number): State | "free" {
    return this.requests.get(id)?.state ?? "free";
  }

  poll(): Output<AspEvent> | undefined {
    return this.outputs.shift();
  }

  handle(input: Input, now: number): void {
    const open = this.link === "greeting" || this.link === "up";
    switch (input.type) {
      case "opened":
        this.opened(now);
        break;
      case "refused":
      case "unreachable":
        if (this.link === "dialing") this.down(input, now);
        break;
      case "message":
        if (!open) break;
        if (typeof input.data === "string") this.violate("a text message", 1003, now);
        else {
          this.heard(now);
          this.receive(input.data, now);
        }
        break;
      case "closed":
        if (this.link === "dialing") this.down({ type: "unreachable" }, now);
        else if (open) this.down({ type: "closed", code: input.code }, now);
        break;
      case "woken":
        this.woken(now);
        break;
      case "timeout":
        this.timeout(now);
        break;
    }
    this.settle(now);
  }

  wake(): number | undefined {
    switch (this.link) {
      case "off":
        return undefined;
      case "dialing":
        return this.resumeUntil;
      case "waiting":
        return least(this.retryAt, this.resumeUntil);
      case "greeting":
        return least(this.bareAt(), this.alive());
      case "up": {
        const { leaving } = this;
        const work = !leaving ? this.nextDue() : this.idle() ? leaving.reconnectAt : Math.max(leaving.giveUpAt, leaving.reconnectAt);
        return least(work, this.alive());
      }
    }
  }

  // ---- what the user asks for

  connect(): void {
    if (this.link !== "off") return;
    this.link = "dialing";
    this.out({ type: "connect" });
  }

  /** Opens a request; without a connection, or without a free place at the server, it waits. */
  invoke(invoke: AspInvoke, now: number, internal = false): number | "off" | "full" {
    if (this.link === "off") return "off";
    if (!internal && this.queued() >= this.config.maxQueued) return "full";
    const id = this.freeId();
    if (id === undefined) return "full";
    this.add(id, invoke, internal);
    this.settle(now);
    return id;
  }

  /** Stops a request. Its output is not delivered any more; its end still comes. */
  interrupt(id: number, reason?: string): void {
    const request = this.requests.get(id);
    if (!request) return;
    if (request.due !== undefined) this.finishInterrupted(id);
    else if (request.state === "active") {
      cancel(request);
      this.sendInterrupt(id, reason);
    } else if (request.state === "suspended") request.interrupt = { reason };
  }

  interruptAll(reason?: string): void {
    let running = false;
    for (const [id, request] of [...this.requests]) {
      if (request.due === undefined && request.state === "active") {
        running = true;
        cancel(request);
      } else this.interrupt(id, reason);
    }
    if (running) this.sendInterrupt(0, reason);
  }

  /** Answers a `call` record, once. */
  answerCall(id: number, callId: string, result: { ok: true; output?: Value } | { ok: false; error: { name: string; msg: string } }, now: number): number | "gone" | "off" {
    return this.answer(id, callId, { kind: "result", parent: id, call_id: callId, ...result }, now);
  }

  /** Answers an `ask` record, once. */
  answerAsk(id: number, askId: string, answer: { text: string } | { data: Value }, now: number): number | "gone" | "off" {
    return this.answer(id, askId, { kind: "reply", parent: id, ask_id: askId, ...answer }, now);
  }

  /** Output of a request was processed: its credit goes back. */
  consumed(id: number, bytes: number): void {
    const request = this.requests.get(id);
    if (!request) return;
    request.outstanding = Math.max(0, request.outstanding - bytes);
    this.returnCredit(id, bytes);
    this.returnPartial(id, 0);
  }

  /** False where `ping` is not agreed. */
  ping(nonce: string): boolean {
    if (!this.agreed.features.has("ping")) return false;
    this.sendMap(HELLO, 0, { op: "ping", nonce });
    return true;
  }

  /** Renews the credential of the live connection; false where `reauth` is not agreed. */
  authenticate(token: string): boolean {
    if (!this.agreed.features.has("reauth")) return false;
    this.sendMap(HELLO, 0, { op: "auth", token });
    return true;
  }

  /** Other tools from the next HELLO on, which is now if there is a connection that can be resumed. */
  offer(tools: readonly AspTool[], now: number): void {
    (this.config as { tools: readonly AspTool[] }).tools = tools;
    if (this.link === "up" && this.accepted && this.agreed.features.has("client_tools")) this.refresh(now);
  }

  /** Goes through a new HELLO with what this side wants now; requests go on. */
  refresh(now: number): void {
    if (this.link !== "up") return;
    this.out({ type: "close", code: 1001 });
    this.down({ type: "refreshed" }, now);
  }

  /** Leaves for good: the server cancels everything and keeps nothing. */
  bye(now: number): void {
    if (this.accepted) this.sendMap(HELLO, 0, { op: "bye" });
    if (this.link === "dialing" || this.link === "greeting" || this.link === "up") this.out({ type: "close", code: 1000 });
    this.down({ type: "left" }, now);
  }

  /** Leaves so that somebody can come back with what `save` gives: a page that is closed, an app in the background. */
  pause(now: number): void {
    if (this.link === "off") return;
    if (this.link !== "waiting") this.out({ type: "close", code: 1001 });
    this.down({ type: "refreshed" }, now);
    this.link = "off";
    this.retryAt = undefined;
  }

  save(now: number): AspSaved {
    const requests = [];
    for (const [id, request] of this.requests) {
      if (request.internal || request.answer || request.invoke?.idem === undefined || request.state === "cancelling" || request.interrupt) continue;
      requests.push({ id, invoke: request.invoke, sent: request.due === undefined, next: request.rerun ? 0 : request.next, answered: [...request.answered] });
    }
    const { grant } = this;
    return { ...(grant ? { grant: { cid: grant.cid, token: grant.token, until: this.resumeUntil ?? now + grant.windowMs } } : {}), lastId: this.lastId, requests };
  }

  /** Takes over what another page has left; only before the first connection. `next` says from which index each request is told. */
  restore(saved: AspSaved, now: number): void {
    if (this.link !== "off" || this.requests.size > 0) return;
    this.lastId = saved.lastId;
    const { grant } = saved;
    if (grant && grant.until > now) {
      this.cid = grant.cid;
      this.grant = { cid: grant.cid, token: grant.token, windowMs: 0 };
      this.resumeUntil = grant.until;
    }
    for (const { id, invoke, sent, next, answered } of saved.requests) {
      const request = this.add(id, invoke, false);
      request.next = next;
      request.answered = new Set(answered);
      if (this.grant && sent) {
        request.due = undefined;
        request.state = "suspended";
      }
    }
  }

  // ---- the connection

  private opened(now: number): void {
    if (this.link !== "dialing") return;
    const { features } = this.config;
    this.pingedAt = undefined;
    this.heard(now);
    if (features.length === 0) {
      this.link = "up";
      this.upBare();
      return;
    }
    this.link = "greeting";
    if (this.resumeUntil !== undefined && this.resumeUntil <= now) this.expire();
    this.acceptBy = now + this.config.acceptTimeoutMs;
    const next: ValueMap = {};
    for (const [id, request] of this.requests) if (request.due === undefined) next[id] = request.rerun ? 0 : request.next;
    this.resuming = this.grant !== undefined;
    // On coming back also none, since those of before would stay.
    const offersTools = features.includes("client_tools") && (this.config.tools.length > 0 || this.grant !== undefined);
    this.sendMap(HELLO, 0, {
      ver: [1],
      features: [...features],
      enc: [...this.config.enc],
      ...optional("client", this.config.client as ValueMap | undefined),
      limits: { max_payload: this.config.maxPayload, ...(features.includes("credit") ? { window: this.config.window } : {}) },
      ...(offersTools ? { tools: this.config.tools as unknown as Value } : {}),
      ...(this.grant ? { resume: { cid: this.grant.cid, token: this.grant.token, next } } : {}),
    });
  }

  private upBare(): void {
    this.acceptBy = undefined;
    this.backoff.reset();
    this.event({ type: "bare" });
    this.startFresh("refused");
  }

  private accept(hello: AspServerHello, now: number): void {
    if (hello.ver !== undefined && hello.ver !== 1) return this.violate(`version ${hello.ver} was not offered`, 4406, now);
    const late = this.link === "up" && !this.accepted && this.config.features.length > 0;
    if (this.link !== "greeting" && !late) return;
    if (late && hello.resumed) {
      // What it resumed was given up when the accept did not come in time.
      this.out({ type: "close", code: 1001 });
      this.down({ type: "silent" }, now);
      return;
    }
    this.link = "up";
    this.accepted = true;
    this.acceptBy = this.resumeUntil = undefined;
    this.renewals = 0;
    this.backoff.reset();
    const offered = (hello.features ?? []).filter((name) => this.config.features.includes(name));
    this.agreed = {
      features: new Set(offered),
      enc: this.config.enc.find((enc) => enc === hello.enc) ?? this.bare().enc,
      maxPayload: hello.limits.max_payload ?? MAX_PAYLOAD,
      maxMessage: hello.limits.max_message ?? MAX_MESSAGE,
      maxInflight: Math.max(1, hello.limits.max_inflight ?? 64),
      window: Math.min(hello.limits.window ?? 256 << 10, this.config.window),
      heartbeatMs: Math.min(300, Math.max(5, hello.heartbeat_s ?? 30)) * 1000,
    };
    this.revision += 1;
    this.cid = hello.cid ?? this.cid;
    this.grant =
      hello.resume && this.cid !== undefined && this.agreed.features.has("resume")
        ? { cid: this.cid, token: hello.resume.token, windowMs: hello.resume.window_s * 1000 }
        : undefined;
    const resumed = hello.resumed === true && this.resuming;
    this.event({ type: "accepted", cid: this.cid, features: this.agreed.features, resumed, lost: hello.lost });
    if (resumed) this.goOn(hello.lost);
    else this.startFresh("refused");
    this.resuming = false;
  }

  private goOn(lost: number[]): void {
    for (const id of this.sent()) {
      if (lost.includes(id)) {
        this.lose(id, "lost", "replay");
        // If it is invoked again under its id, the ERROR about the loss may still be on its way.
        const again = this.requests.get(id);
        if (again) again.expectReplayGone = true;
        continue;
      }
      const request = this.requests.get(id)!;
      if (request.state === "suspended") request.state = "active";
      request.expectReplayGone = false;
      const { interrupt } = request;
      request.interrupt = undefined;
      if (interrupt) {
        cancel(request);
        this.sendInterrupt(id, interrupt.reason);
      } else this.returnCredit(id, 0);
    }
  }

  /** Nothing of an earlier connection is left at the server. */
  private startFresh(loss: Loss): void {
    for (const id of this.sent()) if (this.requests.get(id)?.state === "suspended") this.lose(id, "lost", loss);
    this.clearTools();
  }

  private expire(): void {
    this.resumeUntil = this.grant = undefined;
    this.startFresh("expired");
  }

  private down(cause: Cause, now: number): void {
    if (this.link === "off" || (this.link === "waiting" && cause.type !== "left")) return;
    const temporary = this.isTemporary(cause);
    this.link = temporary ? "waiting" : "off";
    this.acceptBy = undefined;
    this.accepted = this.resuming = this.probing = false;
    this.agreed = this.bare();
    this.assembler.abortAll();
    const { leaving } = this;
    this.leaving = undefined;
    if (temporary) {
      const asked = cause.type === "refused" ? cause.retryAfterMs : undefined;
      const pause =
        leaving && leaving.reconnectAt > now ? leaving.reconnectAt - now
        : (leaving && cause.type === "moved") || cause.type === "refreshed" ? 0
        : (asked ?? this.backoff.pause());
      this.retryAt = now + pause;
      this.event({ type: "disconnected", cause, retryAt: this.retryAt });
      if (this.grant) this.resumeUntil ??= now + this.grant.windowMs;
      for (const id of this.sent()) this.lose(id, this.grant ? "cut" : "cutForGood", "disconnected");
      return;
    }
    const loss = cause.type === "left" ? "left" : "closed";
    this.grant = this.resumeUntil = this.retryAt = undefined;
    this.backoff.reset();
    this.event({ type: "off", cause });
    for (const id of [...this.requests.keys()]) this.lose(id, "cutForGood", loss);
    this.clearTools();
  }

  private isTemporary(cause: Cause): boolean {
    switch (cause.type) {
      case "refused":
        if (cause.status === 401) return this.renew();
        return cause.status === 408 || cause.status === 429 || cause.status >= 500;
      case "closed":
        // The credential ran out, perhaps while this place slept: with a new one everything goes on.
        if (cause.code === 4401) return this.renew();
        return RESUMABLE.includes(cause.code);
      case "violation":
      case "left":
        return false;
      default:
        return true;
    }
  }

  private renew(): boolean {
    this.renewals += 1;
    return this.config.renewable && this.renewals <= 2;
  }

  /** What a cut or a loss does to one request: it goes on, is invoked again, or ends. */
  private lose(id: number, step: "cut" | "cutForGood" | "lost", loss: Loss): void {
    const request = this.requests.get(id);
    if (!request) return;
    if (request.state === "cancelling") return this.finishInterrupted(id);
    if (step === "cut") {
      request.state = "suspended";
      return;
    }
    if (request.interrupt) return this.finishInterrupted(id);
    const answered = request.answer && loss !== "replay";
    const repeatable = request.answer || request.invoke?.idem !== undefined;
    if (loss !== "closed" && loss !== "left" && repeatable && !answered) {
      request.rerun = request.next > 0;
      resendAt(request, 0);
    } else this.finish(id, { type: "lost", loss });
  }

  private violate(message: string, code: number, now: number): void {
    this.out({ type: "close", code });
    this.down({ type: "violation", message }, now);
  }

  private heard(now: number): void {
    this.heardAt = now;
    this.pingedAt = undefined;
    this.probing = false;
  }

  private woken(now: number): void {
    if (this.link === "waiting") {
      this.backoff.reset();
      this.retryAt = now;
      this.timeout(now);
    } else if (this.link === "up" && this.agreed.features.has("ping") && !this.probing) {
      this.probing = true;
      this.pingedAt = now;
      this.ping("wake");
    }
  }

  private timeout(now: number): void {
    const due = (at: number | undefined) => at !== undefined && at <= now;
    if (this.link === "dialing" || this.link === "waiting") {
      if (due(this.resumeUntil)) this.expire();
      if (this.link === "waiting" && due(this.retryAt)) {
        this.link = "dialing";
        this.retryAt = undefined;
        this.out({ type: "connect" });
      }
      return;
    }
    if (this.link === "off") return;
    if (this.link === "greeting" && due(this.bareAt())) {
      this.link = "up";
      this.grant = this.resumeUntil = undefined;
      this.upBare();
    }
    if (due(this.deadAt())) {
      this.out({ type: "close", code: 4408 });
      this.down({ type: "silent" }, now);
      return;
    }
    if (this.pingedAt === undefined && this.agreed.features.has("ping") && now - this.heardAt >= this.agreed.heartbeatMs) {
      this.pingedAt = now;
      this.ping("alive");
    }
    for (const id of this.assembler.expire(now)) this.giveUp(id, 2011, "fragments took too long");
  }

  /** What follows from where everything is now. */
  private settle(now: number): void {
    if (this.link !== "up") return;
    if (!this.leaving) this.sendWaiting(now);
    else if (now >= this.leaving.reconnectAt && (this.idle() || now >= this.leaving.giveUpAt)) {
      this.out({ type: "close", code: 1001 });
      this.down({ type: "moved" }, now);
    }
  }

  /** A server that has not answered counts as bare; one that has let this client in before is only slow. */
  private bareAt(): number | undefined {
    if (this.acceptBy === undefined) return undefined;
    return this.grant && this.resumeUntil !== undefined ? Math.max(this.acceptBy, this.resumeUntil) : this.acceptBy;
  }

  /** When silence means that the connection is dead; without `ping` silence means nothing. */
  private deadAt(): number | undefined {
    if (this.pingedAt === undefined) return undefined;
    return this.probing ? this.pingedAt + PROBE_MS : this.heardAt + (this.agreed.heartbeatMs * 5) / 2;
  }

  private alive(): number | undefined {
    const heartbeat = this.agreed.features.has("ping") ? (this.deadAt() ?? this.heardAt + this.agreed.heartbeatMs) : undefined;
    return least(heartbeat, this.assembler.deadline);
  }

  // ---- what the server sends

  private receive(message: Uint8Array, now: number): void {
    try {
      for (const frame of readFrames(message)) {
        if (this.link !== "greeting" && this.link !== "up") return;
        if (frame.opcode >= HELLO && frame.opcode <= ERROR) this.receiveFrame(frame, now);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.violate(error.message, error.close, now);
    }
  }

  private receiveFrame(frame: Frame, now: number): void {
    const { opcode, id } = frame;
    const { features } = this.agreed;
    if (!fromServer(opcode, id, features.has("push"))) return;
    if (frame.payload.length > this.config.maxPayload) return this.refuseOversized(frame, now);
    const flags = features.has("flags") ? frame.flags & 0x3f : 0;
    const wrong =
      flags & END && flags & MORE ? "END and MORE exclude each other"
      : flags & MORE && !features.has("frag") ? "MORE was not agreed"
      : flags & COMPRESSED && !features.has("deflate") ? "COMPRESSED was not agreed"
      : undefined;
    if (wrong) {
      this.assembler.refuse(opcode, id, flags & END ? 0 : flags, now);
      this.giveUp(id, 2006, wrong);
      return;
    }
    const cost = opcode === STREAM ? frame.payload.length : 0;
    let whole;
    try {
      whole = this.assembler.push(frame, flags, now);
    } catch (error) {
      this.giveUp(id, (error as PayloadError).code, (error as PayloadError).message);
      return;
    }
    if (whole === "part") this.returnPartial(id, cost);
    else if (whole === "discarded") this.returnCredit(id, cost);
    else this.receiveMessage(whole, cost, now);
  }

  private receiveMessage(message: Frame, cost: number, now: number): void {
    const { opcode, id, flags } = message;
    let payload: Payload = { kind: "none" };
    try {
      let bytes: Uint8Array | undefined = message.payload;
      if (flags & COMPRESSED) bytes = this.config.inflate?.(bytes, Math.min(this.config.maxPayload, bytes.length * 100));
      if (!bytes) throw new PayloadError(2005, "a payload that cannot be unpacked");
      payload = decodePayload(opcode, flags, this.agreed.features.has("events"), bytes, this.config.msgpack);
      switch (opcode) {
        case HELLO:
          this.receiveHello(readServerHello(mapOf(payload)), now);
          break;
        case STREAM:
          this.receiveStream(id, payload, flags, cost);
          break;
        case TOOL_DEF:
          this.receiveTools(readTools(mapOf(payload)), now);
          break;
        default: {
          const error = payload.kind === "value" ? readError(mapOf(payload)) : executionFailed(payload);
          if ("code" in error) this.receiveError(id, error, now);
          else if (this.requests.has(id)) this.terminal(id, { type: "end", end: { finish: error.finish ?? this.defaultFinish(id), ...optional("metrics", error.metrics) } });
        }
      }
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error;
      this.unreadable(message, payload, error, cost);
    }
  }

  private receiveHello(hello: AspServerHello, now: number): void {
    switch (hello.op) {
      case "greet":
        this.cid = hello.cid ?? this.cid;
        break;
      case "accept":
        this.accept(hello, now);
        break;
      case "pong":
        this.event({ type: "pong", nonce: hello.nonce });
        break;
      case "authed":
        this.renewals = 0;
        this.event({ type: "authenticated", exp: hello.exp });
        break;
      case "goaway": {
        if (this.leaving) return;
        const retryMs = hello.retry_ms ?? this.backoff.pause();
        this.leaving = { reconnectAt: now + retryMs, giveUpAt: now + DRAIN_MS };
        this.event({ type: "goaway", reason: hello.reason, retryMs });
      }
    }
  }

  private receiveStream(id: number, payload: Payload, flags: number, cost: number): void {
    let record: AspRecord | { n?: number; t: undefined } | undefined;
    let end: AspEnd | undefined;
    if (payload.kind === "text") record = { t: "text", d: payload.text };
    else if (payload.kind === "raw") {
      const text = decodeUtf8(payload.bytes);
      record = text === undefined ? { t: "data", value: payload.bytes } : { t: "text", d: text };
    } else if (payload.kind === "value") {
      const read = readRecord(mapOf(payload));
      if (read.t === "end") {
        const { t: _t, n: _n, ...rest } = read;
        end = rest;
      } else record = read;
    }
    if (id === 0) {
      if (record?.t) this.event({ type: "push", record });
      return;
    }
    const ends = record === undefined || (flags & END) !== 0;
    if (record) this.deliver(id, record, cost);
    if (ends && this.requests.has(id)) this.terminal(id, { type: "end", end: end ?? { finish: this.defaultFinish(id) } });
  }

  private deliver(id: number, record: AspRecord | { n?: number; t: undefined }, cost: number): void {
    const request = this.requests.get(id);
    if (!request || request.due !== undefined || request.state !== "active") return;
    if (request.invoke && request.invoke.idem === undefined && !request.answer) request.invoke = undefined;
    cost += request.partial;
    request.partial = 0;
    const { n } = record;
    let restarted = false;
    // Even if the old execution answers, its indices cannot be compared with those of before: everything counts as new.
    if (request.rerun && (n !== undefined || !this.agreed.features.has("resume"))) {
      request.rerun = false;
      restarted = true;
      request.next = 0;
      request.open.clear();
    }
    const fresh = n === undefined || n >= request.next;
    if (n !== undefined && fresh) request.next = n + 1;
    let known = record.t !== undefined;
    if (fresh && (record.t === "call" || record.t === "ask")) {
      const key = record.t === "call" ? record.call_id : record.ask_id;
      known = !request.answered.has(key) && !request.open.has(key);
      if (known) request.open.add(key);
    }
    if (restarted) this.event({ type: "restarted", id });
    if (!fresh || !known || !record.t) {
      this.returnCredit(id, cost);
      return;
    }
    const credit = Math.max(1, cost);
    request.outstanding += credit;
    this.event({ type: "record", id, record, credit });
  }

  private terminal(id: number, ending: Ending): void {
    const request = this.requests.get(id);
    if (!request || request.due !== undefined || request.state === "suspended") return;
    // It ran anew, and had nothing to say.
    if (request.rerun && ending.type === "end") this.event({ type: "restarted", id });
    this.finish(id, ending);
  }

  private receiveError(id: number, error: AspError, now: number): void {
    if (id === 0) {
      this.event(error.code === 2104 ? { type: "authExpiring" } : { type: "error", error });
      return;
    }
    const request = this.requests.get(id);
    if (!request || request.due !== undefined) return;
    if (error.code === 2601 && request.expectReplayGone) {
      request.expectReplayGone = false;
      return;
    }
    // A leaving server did not take it; the next one will.
    const crossed = this.leaving !== undefined && error.code === 2501 && request.next === 0;
    // An answer must arrive, whatever the rate of INVOKEs is.
    const again = request.answer && error.retry && request.attempts < ANSWER_ATTEMPTS;
    if ((crossed || again) && request.state === "active" && request.invoke) {
      resendAt(request, crossed ? 0 : now + (error.retry_ms ?? ANSWER_PAUSE_MS));
      return;
    }
    this.terminal(id, { type: "error", error });
  }

  private receiveTools(frame: ReturnType<typeof readTools>, now: number): void {
    const { rev } = frame;
    let gap = false;
    if (rev !== undefined) {
      if (this.rev !== undefined && rev <= this.rev) return;
      gap = this.rev !== undefined && rev > this.rev + 1 && frame.op !== "set";
      this.rev = rev;
    }
    if (frame.op === "set") this.tools.clear();
    if (frame.op === "remove") for (const name of frame.names) this.tools.delete(name);
    else for (const tool of frame.tools) if (this.tools.size < 256 || this.tools.has(tool.name)) this.tools.set(tool.name, tool);
    if (gap && this.link === "up") this.invoke({ kind: "list" }, now, true);
    this.event({ type: "tools" });
  }

  private clearTools(): void {
    const had = this.tools.size > 0;
    this.tools.clear();
    this.rev = undefined;
    if (had) this.event({ type: "tools" });
  }

  /** A message that cannot be read. Only what makes the rest of a request worthless ends it. */
  private unreadable(message: Frame, payload: Payload, error: PayloadError, cost: number): void {
    const { opcode, id, flags } = message;
    if (opcode !== STREAM || id === 0) return;
    let t: Value | undefined;
    try {
      t = mapOf(payload)["t"];
    } catch {
      t = undefined;
    }
    if (flags & END || t === "end") this.terminal(id, { type: "error", error: ownError(2005, error.message) });
    else if (typeof t !== "string" || ["text", "call", "ask", "data"].includes(t)) this.giveUp(id, error.code, error.message);
    else this.returnCredit(id, cost);
  }

  private refuseOversized(frame: Frame, now: number): void {
    const { opcode, id } = frame;
    const flags = this.agreed.features.has("flags") ? frame.flags : 0;
    this.assembler.refuse(opcode, id, flags, now);
    const message = "the server sent more than this client accepts";
    if ((opcode === STREAM && flags & END) || opcode === ERROR) this.terminal(id, { type: "error", error: ownError(2202, message) });
    else if (opcode === STREAM) this.giveUp(id, 2202, message);
  }

  /** This client cannot go on with a request: the server cancels it, its end tells the user why. */
  private giveUp(id: number, code: number, message: string): void {
    const request = this.requests.get(id);
    if (!request || request.due !== undefined || request.state !== "active") return;
    cancel(request);
    request.failure = ownError(code, message);
    this.sendMap(ERROR, id, { code, name: request.failure.name, msg: message, retry: false });
  }

  // ---- requests

  private add(id: number, invoke: AspInvoke, internal: boolean): Request {
    this.invoked += 1;
    this.revision += 1;
    const request: Request = {
      state: "active", answer: invoke.kind === "result" || invoke.kind === "reply", internal, order: this.invoked, due: 0, invoke,
      next: 0, rerun: false, expectReplayGone: false, interrupt: undefined, failure: undefined, open: new Set(), answered: new Set(),
      consumed: 0, outstanding: 0, partial: 0, attempts: 0,
    };
    this.requests.set(id, request);
    return request;
  }

  /** Counting up, 65535 to 1, skipping those in use. */
  private freeId(): number | undefined {
    for (let tries = 0; tries < 65535; tries += 1) {
      this.lastId = this.lastId >= 65535 ? 1 : this.lastId + 1;
      if (!this.requests.has(this.lastId)) return this.lastId;
    }
    return undefined;
  }

  private answer(id: number, key: string, invoke: AspInvoke, now: number): number | "gone" | "off" {
    if (this.link === "off") return "off";
    const request = this.requests.get(id);
    if (!request?.open.delete(key)) return "gone";
    request.answered.add(key);
    this.revision += 1;
    const own = this.freeId();
    if (own === undefined) return "gone";
    this.add(own, invoke, false);
    this.settle(now);
    return own;
  }

  private sent(): number[] {
    return [...this.requests].filter(([, request]) => request.due === undefined).map(([id]) => id);
  }

  private queued(): number {
    let queued = 0;
    for (const request of this.requests.values()) if (request.due !== undefined) queued += 1;
    return queued;
  }

  private idle(): boolean {
    return this.sent().length === 0;
  }

  private nextDue(): number | undefined {
    let next: number | undefined;
    for (const { due } of this.requests.values()) if (due) next = least(next, due);
    return next;
  }

  private defaultFinish(id: number): AspFinish {
    return this.requests.get(id)?.state === "cancelling" ? "interrupted" : "complete";
  }

  private finishInterrupted(id: number): void {
    this.finish(id, { type: "end", end: { finish: "interrupted" } });
  }

  private finish(id: number, ending: Ending): void {
    const request = this.requests.get(id);
    if (!request) return;
    this.revision += 1;
    this.requests.delete(id);
    this.assembler.abort(id);
    if (!request.internal) this.event({ type: "ended", id, ending: request.failure ? { type: "error", error: request.failure } : ending });
  }

  /** Credit goes back once half of the window is due. */
  private returnCredit(id: number, bytes: number): void {
    const request = this.requests.get(id);
    if (!request) return;
    request.consumed += bytes;
    const half = Math.max(1, Math.floor(this.agreed.window / 2));
    if (this.agreed.features.has("credit") && request.consumed >= half && request.state === "active" && request.due === undefined) {
      this.sendMap(INTERRUPT, id, { mode: "credit", bytes: request.consumed });
      request.consumed = 0;
    }
  }

  /** A record larger than the window could not be finished if its fragments held credit back, so they do not. */
  private returnPartial(id: number, bytes: number): void {
    const request = this.requests.get(id);
    if (!request) return;
    request.partial += bytes;
    if (request.outstanding === 0 && request.partial > 0) {
      const { partial } = request;
      request.partial = 0;
      this.returnCredit(id, partial);
    }
  }

  // ---- what is sent

  private sendWaiting(now: number): void {
    let inFlight = 0;
    const waiting: [number, Request][] = [];
    for (const entry of this.requests) {
      if (entry[1].due !== undefined) waiting.push(entry);
      else if (!entry[1].answer) inFlight += 1;
    }
    waiting.sort(([, a], [, b]) => a.order - b.order);
    for (const [id, request] of waiting) {
      if (request.due! > now || (!request.answer && inFlight >= this.agreed.maxInflight)) continue;
      if (!request.answer) inFlight += 1;
      this.sendInvoke(id, request);
    }
  }

  private sendInvoke(id: number, request: Request): void {
    this.revision += 1;
    request.due = undefined;
    request.attempts += 1;
    const { invoke } = request;
    if (!invoke) return;
    const { features, enc, maxPayload, maxMessage } = this.agreed;
    const payload = encodeValue(enc, invoke as unknown as Value, this.config.msgpack);
    const flags = features.has("flags") ? encFlag(enc) : 0;
    const tooLarge = (limit: number) =>
      this.finish(id, { type: "error", error: ownError(2202, `the request has ${payload.length} bytes, the server takes ${limit}`) });
    if (payload.length > maxPayload) return tooLarge(maxPayload);
    const most = Math.max(1, maxMessage - HEADER);
    if (!features.has("frag")) {
      if (payload.length > most) return tooLarge(most);
      return this.out({ type: "send", data: encodeFrame(INVOKE, flags, id, payload) });
    }
    const size = Math.min(most, FRAGMENT);
    for (let at = 0; at === 0 || at < payload.length; at += size) {
      const more = at + size < payload.length ? MORE : 0;
      this.out({ type: "send", data: encodeFrame(INVOKE, flags | more, id, payload.subarray(at, at + size)) });
    }
  }

  private sendInterrupt(id: number, reason: string | undefined): void {
    // Without a reason the draft's own form, which a strict peer understands.
    if (reason === undefined) this.out({ type: "send", data: encodeFrame(INTERRUPT, 0, id, new Uint8Array()) });
    else this.sendMap(INTERRUPT, id, { mode: "cancel", reason });
  }

  private sendMap(opcode: number, id: number, map: ValueMap): void {
    const { features, enc } = this.agreed;
    this.out({ type: "send", data: encodeFrame(opcode, features.has("flags") ? encFlag(enc) : 0, id, encodeValue(enc, map, this.config.msgpack)) });
  }

  private bare(): Agreed {
    return {
      features: NOTHING, enc: this.config.enc[0] ?? "json", maxPayload: MAX_PAYLOAD_BARE, maxMessage: MAX_MESSAGE, maxInflight: 16,
      window: 256 << 10, heartbeatMs: 30_000,
    };
  }

  private event(event: AspEvent): void {
    this.out({ type: "event", event });
  }

  private out(output: Output<AspEvent>): void {
    this.outputs.push(output);
  }
}

/** Calls and questions of an interrupted request are void. */
function cancel(request: Request): void {
  request.state = "cancelling";
  request.open.clear();
}

function resendAt(request: Request, at: number): void {
  request.state = "active";
  request.due = at;
  request.consumed = request.partial = 0;
}

function ownError(code: number, msg: string): AspError {
  return { code, name: OWN_NAMES[code] ?? "PROTOCOL_ERROR", msg, retry: code === 2011 };
}

function executionFailed(payload: Payload): AspError {
  return { code: 2400, name: "EXECUTION_FAILED", msg: payload.kind === "text" ? payload.text.slice(0, 512) : "", retry: false };
}

const OWN_NAMES: Record<number, string> = { 2005: "BAD_PAYLOAD", 2006: "BAD_FLAGS", 2011: "FRAGMENT_ERROR", 2202: "PAYLOAD_TOO_LARGE" };

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}
