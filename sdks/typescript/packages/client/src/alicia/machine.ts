/**
 * The client half of Alicia over one WebSocket, without socket, clock or randomness.
 *
 * Each conversation is joined with a Configuration that says up to which stanza everything was seen; what was missed comes first, and
 * stanzas are taken in their order alone. What was said and not acknowledged is said again under the same id, which the server knows.
 */

import { Backoff } from "../backoff.js";
import type { Cause, Input, Machine, Output } from "../machine.js";
import { decodeMsgpack, encodeMsgpack } from "../wire/msgpack.js";
import { isMap, type Value, type ValueMap } from "../wire/value.js";

export const TYPE = {
  error: 1, user: 2, assistant: 3, reasoning: 5, toolRequest: 6, toolResult: 7, ack: 8, transcription: 9, stop: 10, variation: 11, configuration: 12,
  start: 13, memory: 14, commentary: 15, sentence: 16,
} as const;

export interface Envelope {
  stanzaId: number;
  conversationId: string;
  type: number;
  meta?: ValueMap;
  body: ValueMap;
}

export function encodeEnvelope({ stanzaId, conversationId, type, meta, body }: Envelope): Uint8Array {
  return encodeMsgpack({ stanzaId, conversationId, type, ...(meta && Object.keys(meta).length > 0 ? { meta } : {}), body });
}

/** An envelope as liberal as the protocol wants it; undefined for what is none. */
export function decodeEnvelope(bytes: Uint8Array): Envelope | undefined {
  let value: Value;
  try {
    value = decodeMsgpack(bytes, true);
  } catch {
    return undefined;
  }
  if (!isMap(value) || !isMap(value["body"]) || typeof value["type"] !== "number" || !Number.isInteger(value["type"]) || value["type"] < 1 || value["type"] > 65_535) return undefined;
  const { stanzaId, conversationId, type, meta, body } = value;
  const fits = typeof stanzaId === "number" && Number.isInteger(stanzaId) && Math.abs(stanzaId) < 2 ** 31;
  return { stanzaId: fits ? stanzaId : 0, conversationId: typeof conversationId === "string" ? conversationId.replace(/^conv_(?=ac_)/, "") : "", type, body, ...(isMap(meta) ? { meta } : {}) };
}

export type AliciaEvent =
  | { type: "up" }
  /** A conversation is joined; `id` is its name at the server from now on. */
  | { type: "joined"; key: number; id: string }
  | { type: "refused"; key: number; code: number; message: string }
  /** An envelope of a conversation, once and in its order. */
  | { type: "told"; key: number; envelope: Envelope }
  | { type: "acknowledged"; key: number; message: string; success: boolean }
  /** It began while this side was away: what it began with may be missing. */
  | { type: "again"; key: number }
  /** What lies between was forgotten by the server: the messages have to be read anew. */
  | { type: "reload"; key: number }
  | { type: "disconnected"; cause: Cause; retryAt: number }
  | { type: "off"; cause: Cause };

export interface AliciaConfig {
  tools: readonly string[];
  reasoning: boolean;
  answerMs: number;
  backoffFirstMs: number;
  backoffMostMs: number;
  renewable: boolean;
  random: () => number;
}

interface Conversation {
  id: string;
  stage: "waiting" | "asked" | "ready";
  /** Everything up to here was told; 0 for nothing. */
  mark: number;
  stanza: number;
  by: number;
  strikes: number;
  joined: boolean;
  /** What the server has not acknowledged, by the id of the body. */
  sent: Map<string, { type: number; body: ValueMap; stanza: number | undefined }>;
}

type Link = "off" | "dialing" | "up" | "waiting";

export class AliciaMachine implements Machine<AliciaEvent> {
  link: Link = "off";
  private readonly config: AliciaConfig;
  private readonly conversations = new Map<number, Conversation>();
  private readonly keys = new Map<string, number>();
  private readonly backoff: Backoff;
  private last = 0;
  private stanza = 0;
  private retryAt: number | undefined;
  private renewals = 0;
  private readonly outputs: Output<AliciaEvent>[] = [];

  constructor(config: Partial<AliciaConfig> = {}) {
    this.config = { tools: [], reasoning: true, answerMs: 10_000, backoffFirstMs: 1000, backoffMostMs: 30_000, renewable: false, random: Math.random, ...config };
    this.backoff = new Backoff(this.config.backoffFirstMs, this.config.backoffMostMs, this.config.random);
  }

  poll(): Output<AliciaEvent> | undefined {
    return this.outputs.shift();
  }

  wake(): number | undefined {
    if (this.link === "waiting") return this.retryAt;
    if (this.link !== "up") return undefined;
    let wake: number | undefined;
    for (const { stage, by } of this.conversations.values()) if (stage === "asked") wake = Math.min(wake ?? Infinity, by);
    return wake;
  }

  handle(input: Input, now: number): void {
    switch (input.type) {
      case "opened":
        if (this.link !== "dialing") return;
        this.link = "up";
        this.stanza = 0;
        this.event({ type: "up" });
        return this.flush(now);
      case "refused":
      case "unreachable":
        if (this.link === "dialing") this.down(input, now);
        return;
      case "message": {
        if (this.link !== "up" || typeof input.data === "string") return;
        const envelope = decodeEnvelope(input.data);
        if (envelope) this.receive(envelope, now);
        return this.flush(now);
      }
      case "closed":
        if (this.link === "dialing") this.down({ type: "unreachable" }, now);
        else if (this.link === "up") this.down({ type: "closed", code: input.code }, now);
        return;
      case "woken": {
        if (this.link === "waiting") {
          this.backoff.reset();
          this.retryAt = now;
          return this.timeout(now);
        }
        // A handshake that asks for nothing shows whether anybody is there.
        const [first] = [...this.conversations.values()].filter(({ stage }) => stage === "ready");
        if (this.link === "up" && first) this.handshake(first, now);
        return;
      }
      case "timeout":
        return this.timeout(now);
    }
  }

  connect(): void {
    if (this.link !== "off") return;
    this.link = "dialing";
    this.out({ type: "connect" });
  }

  /** Takes part in a conversation; a new one without an id. */
  join(id: string, mark: number, now: number): number {
    const known = id ? this.keys.get(id) : undefined;
    if (known !== undefined) return known;
    const key = (this.last += 1);
    this.conversations.set(key, { id, stage: "waiting", mark, stanza: 0, by: 0, strikes: 0, joined: false, sent: new Map() });
    if (id) this.keys.set(id, key);
    this.flush(now);
    return key;
  }

  /** Says something that has an id of its own, until the server has acknowledged it. */
  say(key: number, type: number, body: ValueMap & { id: string }, now: number): void {
    this.conversations.get(key)?.sent.set(body.id, { type, body, stanza: undefined });
    this.flush(now);
  }

  /** Says something once, if there is a connection. */
  tell(key: number, type: number, body: ValueMap): void {
    const conversation = this.conversations.get(key);
    if (conversation && this.link === "up" && conversation.stage === "ready") this.send(conversation.id, type, { ...body, conversationId: conversation.id });
  }

  idOf(key: number): string {
    return this.conversations.get(key)?.id ?? "";
  }

  markOf(key: number): number {
    return this.conversations.get(key)?.mark ?? 0;
  }

  offer(tools: readonly string[], now: number): void {
    (this.config as { tools: readonly string[] }).tools = tools;
    for (const conversation of this.conversations.values()) if (conversation.stage === "ready") conversation.stage = "waiting";
    this.flush(now);
  }

  refresh(now: number): void {
    if (this.link !== "up") return;
    this.out({ type: "close", code: 1001 });
    this.down({ type: "refreshed" }, now);
  }

  leave(now: number): void {
    if (this.link === "off") return;
    if (this.link !== "waiting") this.out({ type: "close", code: 1000 });
    this.down({ type: "left" }, now);
  }

  private receive(envelope: Envelope, now: number): void {
    const { type, body } = envelope;
    const id = envelope.conversationId || (typeof body["conversationId"] === "string" ? body["conversationId"] : "");
    let key = this.keys.get(id);
    if (key === undefined && type === TYPE.configuration) {
      const creating = [...this.conversations].find(([, { id, stage }]) => id === "" && stage === "asked");
      key = creating?.[0];
    }
    if (type === TYPE.error) return this.failed(key, envelope, now);
    const conversation = key === undefined ? undefined : this.conversations.get(key);
    if (key === undefined || !conversation) return;
    if (type === TYPE.configuration) return this.configured(key, conversation, id, body);
    if (type === TYPE.ack) {
      const stanza = body["acknowledgedStanzaId"];
      for (const [message, sent] of conversation.sent) {
        if (sent.stanza !== stanza) continue;
        conversation.sent.delete(message);
        this.event({ type: "acknowledged", key, message, success: body["success"] !== false });
      }
      return;
    }
    if (envelope.stanzaId < 0) {
      if (envelope.stanzaId >= conversation.mark && conversation.mark !== 0) return;
      if (envelope.stanzaId !== conversation.mark - 1) return this.hole(key, conversation, now);
      conversation.mark = envelope.stanzaId;
      conversation.strikes = 0;
    }
    this.event({ type: "told", key, envelope });
  }

  private configured(key: number, conversation: Conversation, id: string, body: ValueMap): void {
    if (conversation.stage !== "asked") return;
    conversation.id = id;
    this.keys.set(id, key);
    conversation.stage = "ready";
    this.renewals = 0;
    this.backoff.reset();
    const head = typeof body["lastSequenceSeen"] === "number" ? -Math.abs(body["lastSequenceSeen"]) : conversation.mark;
    const again = conversation.joined;
    conversation.joined = true;
    if (again && conversation.mark === 0 && head < 0) {
      // Nothing is told again from the very beginning, only from the first stanza on.
      conversation.mark = -1;
      if (head < -1) conversation.stage = "waiting";
      this.event({ type: "again", key });
    }
    // Without a mark nothing is told again, and one beyond the end is none.
    if (conversation.mark === 0 || head > conversation.mark) conversation.mark = head === 0 ? 0 : head;
    this.event({ type: "joined", key, id });
    // Said again under their own ids, which the server knows.
    for (const sent of conversation.sent.values()) sent.stanza = undefined;
  }

  private failed(key: number | undefined, envelope: Envelope, now: number): void {
    const { body } = envelope;
    const origin = typeof body["originatingId"] === "string" ? body["originatingId"] : "";
    const code = typeof body["code"] === "number" ? body["code"] : 500;
    const asked = [...this.conversations].find(([, { stage, stanza }]) => stage === "asked" && String(stanza) === origin);
    if (asked) {
      const [of, conversation] = asked;
      if (code === 202 && conversation.mark !== 0) {
        // The log does not reach back so far: from the present on, and the rest has to be read otherwise.
        conversation.mark = 0;
        conversation.stage = "waiting";
        this.event({ type: "reload", key: of });
        return;
      }
      this.conversations.delete(of);
      this.keys.delete(conversation.id);
      this.event({ type: "refused", key: of, code, message: String(body["message"] ?? "refused") });
      return;
    }
    if (key === undefined) return;
    const conversation = this.conversations.get(key);
    if (conversation && envelope.stanzaId < 0) {
      if (envelope.stanzaId >= conversation.mark && conversation.mark !== 0) return;
      if (envelope.stanzaId !== conversation.mark - 1) return this.hole(key, conversation, now);
      conversation.mark = envelope.stanzaId;
    }
    // Of a message that was refused nothing more has to be said.
    for (const [message, sent] of conversation?.sent ?? []) if (message === origin || String(sent.stanza) === origin) conversation?.sent.delete(message);
    this.event({ type: "told", key, envelope });
  }

  private hole(key: number, conversation: Conversation, _now: number): void {
    if (conversation.stage !== "ready") return;
    conversation.stage = "waiting";
    conversation.strikes += 1;
    if (conversation.strikes > 2) {
      conversation.strikes = conversation.mark = 0;
      this.event({ type: "reload", key });
    }
  }

  /** Handshakes first, for nothing goes without them; the answer to a new one names no request, so one at a time. */
  private flush(now: number): void {
    if (this.link !== "up") return;
    let creating = [...this.conversations.values()].some(({ id, stage }) => id === "" && stage === "asked");
    for (const conversation of this.conversations.values()) {
      if (conversation.stage === "waiting" && !(conversation.id === "" && creating)) {
        creating ||= conversation.id === "";
        this.handshake(conversation, now);
      }
      if (conversation.stage !== "ready") continue;
      for (const sent of conversation.sent.values()) {
        if (sent.stanza === undefined) sent.stanza = this.send(conversation.id, sent.type, { ...sent.body, conversationId: conversation.id });
      }
    }
  }

  private handshake(conversation: Conversation, now: number): void {
    const { id, mark } = conversation;
    const features = ["streaming", ...(this.config.reasoning ? ["reasoning_steps"] : []), "tool_use", ...this.config.tools.map((name) => `tool:${name}`)];
    conversation.stage = "asked";
    conversation.by = now + this.config.answerMs;
    conversation.stanza = this.send(id, TYPE.configuration, { ...(id ? { conversationId: id } : {}), ...(mark === 0 ? {} : { lastSequenceSeen: mark }), clientVersion: "@switchboard/client", features });
  }

  private timeout(now: number): void {
    if (this.link === "waiting" && this.retryAt !== undefined && this.retryAt <= now) {
      this.link = "dialing";
      this.retryAt = undefined;
      this.out({ type: "connect" });
    } else if (this.link === "up" && [...this.conversations.values()].some(({ stage, by }) => stage === "asked" && by <= now)) {
      this.out({ type: "close", code: 1001 });
      this.down({ type: "silent" }, now);
    }
  }

  private down(cause: Cause, now: number): void {
    const renew = () => this.config.renewable && (this.renewals += 1) <= 2;
    const temporary =
      cause.type === "refused" ? (cause.status === 401 ? renew() : cause.status === 408 || cause.status === 429 || cause.status >= 500)
      : cause.type === "closed" ? (cause.code === 1008 || cause.code === 4401 ? renew() : [1001, 1006, 1011, 1012, 1013, 4408, 4500].includes(cause.code))
      : cause.type !== "left" && cause.type !== "violation";
    this.link = temporary ? "waiting" : "off";
    for (const conversation of this.conversations.values()) {
      conversation.stage = "waiting";
      for (const sent of conversation.sent.values()) sent.stanza = undefined;
    }
    if (!temporary) {
      this.retryAt = undefined;
      this.backoff.reset();
      return this.event({ type: "off", cause });
    }
    const asked = cause.type === "refused" ? cause.retryAfterMs : undefined;
    this.retryAt = now + (cause.type === "refreshed" ? 0 : (asked ?? this.backoff.pause()));
    this.event({ type: "disconnected", cause, retryAt: this.retryAt });
  }

  private send(conversationId: string, type: number, body: ValueMap): number {
    this.stanza += 1;
    this.out({ type: "send", data: encodeEnvelope({ stanzaId: this.stanza, conversationId, type, body }) });
    return this.stanza;
  }

  private event(event: AliciaEvent): void {
    this.out({ type: "event", event });
  }

  private out(output: Output<AliciaEvent>): void {
    this.outputs.push(output);
  }
}
