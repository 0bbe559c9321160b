/** A client of Alicia: many conversations on one socket, branches, memories, and messages written offline. */

import { BaseClient, lostTurn } from "../base.js";
import { Driver, socketUrl } from "../driver.js";
import { SwitchboardError, TurnError } from "../errors.js";
import { errorOfResponse } from "../history.js";
import type { Machine } from "../machine.js";
import { randomId } from "../platform.js";
import { Turn } from "../turn.js";
import type { AskOptions, Client, ClientOptions, Input, Message, Session, Value } from "../types.js";
import { isMap, type ValueMap } from "../wire/value.js";
import { type AliciaEvent, AliciaMachine, type Envelope, TYPE } from "./machine.js";

export type AliciaClientOptions = ClientOptions;

export function createAliciaClient(options: AliciaClientOptions): AliciaClient {
  return new AliciaClient(options);
}

interface Slot {
  turn: Turn;
  /** The id of the message that was asked; none for a variation. */
  question: string | undefined;
  answer: string | undefined;
  acknowledged: boolean;
  end: string;
  stopped: boolean;
  left: boolean;
  next: number;
}

interface Room {
  name: string;
  key: number;
  slots: Slot[];
  followers: Set<(turn: Turn) => void>;
  joined: Promise<string>;
  opened: { resolve(id: string): void; reject(error: SwitchboardError): void };
  /** Calls that were run, and what they gave: asked again, they are not run again. */
  results: Map<string, ValueMap & { id: string }>;
}

interface Kept {
  rooms: { name: string; id: string; mark: number; turns: { question: string; text: string }[] }[];
}

export interface Memory {
  id: string;
  content: string;
  [member: string]: Value | undefined;
}

export class AliciaClient extends BaseClient<AliciaEvent> implements Client {
  readonly protocol = "alicia";

  protected readonly driver: Driver<AliciaEvent>;
  private readonly machine: AliciaMachine;
  private readonly rooms = new Map<string, Room>();
  private readonly byKey = new Map<number, Room>();
  private readonly sessions = new Map<string, AliciaSession>();
  private restored: Promise<void> | undefined;
  private kept: Kept | undefined;
  private suspended = false;

  constructor(options: AliciaClientOptions) {
    super(options);
    const url = socketUrl(options.url, "/api/v1/ws", {}, options.allowPlaintext === true, options.token !== undefined);
    this.machine = new AliciaMachine({
      tools: [...this.ownTools.keys()],
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

  /** A conversation by its id (`ac_…`), or by a name of one's own; which conversation that is, is kept in `storage`. */
  session(name: string): AliciaSession {
    let session = this.sessions.get(name);
    if (!session) this.sessions.set(name, (session = new AliciaSession(this, name)));
    return session;
  }

  /** What is remembered of the person. */
  readonly memories = {
    list: async (): Promise<Memory[]> => listOf(await this.json("GET", "/api/v1/memories"), "memories") as unknown as Memory[],
    add: async (content: string): Promise<Memory> => (await this.json("POST", "/api/v1/memories", { content })) as unknown as Memory,
    remove: async (id: string): Promise<void> => void (await this.json("DELETE", `/api/v1/memories/${encodeURIComponent(id)}`)),
  };

  async close(): Promise<void> {
    this.suspended = true;
    this.machine.leave(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("closed");
    await this.options.storage?.removeItem(this.storageKey);
  }

  async suspend(): Promise<void> {
    await this.save();
    this.suspended = true;
    this.machine.leave(this.driver.now());
    this.driver.drain();
    this.driver.rest();
    this.become("idle");
  }

  protected machineOf(): Machine<AliciaEvent> & { connect(): void } {
    return this.machine;
  }

  protected toolsChanged(): void {
    void Promise.resolve().then(() => {
      this.machine.offer([...this.ownTools.keys()], this.driver.now());
      this.driver.drain();
    });
  }

  protected override async start(): Promise<void> {
    await (this.restored ??= this.restore());
    this.suspended = false;
    await super.start();
  }

  /** @internal */
  async room(name: string): Promise<Room> {
    await this.start();
    let room = this.rooms.get(name);
    if (!room) {
      let opened!: Room["opened"];
      const joined = new Promise<string>((resolve, reject) => (opened = { resolve, reject }));
      joined.catch(() => undefined);
      const kept = this.kept?.rooms.find((kept) => kept.name === name);
      room = { name, key: 0, slots: [], followers: new Set(), joined, opened, results: new Map() };
      for (const { question, text } of kept?.turns ?? []) {
        const slot = this.slot(room, question, text);
        slot.left = slot.acknowledged = true;
        room.slots.push(slot);
      }
      this.rooms.set(name, room);
      const mark = kept && kept.turns.length > 0 ? Math.min(-1, kept.mark) : 0;
      room.key = this.machine.join(kept?.id ?? (/^ac_/.test(name) ? name : ""), mark, this.driver.now());
      this.byKey.set(room.key, room);
      this.driver.drain();
    }
    return room;
  }

  /** @internal */
  ask(name: string, input: Input, options: AskOptions, previousId?: string): Turn {
    const text = typeof input === "string" ? input : input.map((part) => (part.type === "text" ? part.text : "")).join("");
    const question = options.key && /^am_/.test(options.key) ? options.key : `am_${randomId(21)}`;
    const early: { room?: Room } = {};
    const slot = this.slot(early, question, input);
    options.signal?.addEventListener("abort", () => slot.turn.stop());
    this.room(name).then(
      (room) => {
        early.room = room;
        if (slot.turn.status === "stopping") return slot.turn.push({ type: "end", end: { finish: "interrupted" } });
        room.slots.push(slot);
        this.emit("turn", slot.turn);
        this.machine.say(room.key, TYPE.user, { id: question, ...(previousId === undefined ? {} : { previousId }), conversationId: "", content: text, timestamp: Math.round((this.options.clock ?? { now: () => Date.now() }).now()) }, this.driver.now());
        this.driver.drain();
        void this.save();
      },
      (error: unknown) => slot.turn.fail(new TurnError("CLOSED", String(error), "look at the client's `error`")),
    );
    return slot.turn;
  }

  /** @internal Regenerates, continues or edits a message. */
  vary(name: string, targetId: string, mode: string, newContent?: string): Turn {
    const early: { room?: Room } = {};
    const slot = this.slot(early, undefined, newContent);
    void this.room(name).then(async (room) => {
      early.room = room;
      await room.joined;
      room.slots.push(slot);
      this.machine.tell(room.key, TYPE.variation, { targetId, mode, ...(newContent === undefined ? {} : { newContent }) });
      this.driver.drain();
    });
    return slot.turn;
  }

  /** @internal */
  async left(name: string): Promise<Turn | undefined> {
    await (this.restored ??= this.restore());
    if (!this.rooms.has(name) && !this.kept?.rooms.some((kept) => kept.name === name && kept.turns.length > 0)) return undefined;
    const room = await this.room(name);
    const slot = room.slots.filter(({ left }) => left).at(-1);
    if (slot) slot.left = false;
    return slot?.turn;
  }

  /** @internal */
  turnsOf(name: string): Turn[] {
    return (this.rooms.get(name)?.slots ?? []).map(({ turn }) => turn);
  }

  /** @internal */
  async json(method: string, path: string, body?: ValueMap): Promise<ValueMap> {
    const response = await this.driver.http(path, { method, headers: { accept: "application/json", ...(body ? { "content-type": "application/json" } : {}) }, ...(body ? { body: JSON.stringify(body) } : {}) });
    if (!response.ok) throw await errorOfResponse(response);
    const text = await response.text();
    return text ? (JSON.parse(text) as ValueMap) : {};
  }

  private slot(of: { room?: Room } | Room, question: string | undefined, input: Input | undefined): Slot {
    const room = () => ("room" in of || !("key" in of) ? (of as { room?: Room }).room : (of as Room));
    const slot: Slot = {
      question, answer: undefined, acknowledged: false, end: "", stopped: false, left: false, next: 0,
      turn: new Turn("name" in of ? of.name : "", input, {
        stop: (reason) => {
          const at = room();
          if (!at || this.suspended) return;
          slot.stopped = true;
          this.settleTurn(slot.turn);
          this.machine.tell(at.key, TYPE.stop, { ...(slot.answer === undefined ? {} : { targetId: slot.answer }), reason: reason ?? "user_requested", stopType: "generation" });
          this.driver.drain();
        },
        consumed: () => undefined,
        position: () => ({ key: slot.question ?? "", next: slot.next }),
      }),
    };
    return slot;
  }

  private event(event: AliciaEvent): void {
    switch (event.type) {
      case "up":
        return this.up();
      case "disconnected":
        return this.lost(event.cause);
      case "off":
        this.off(event.cause);
        if (!this.suspended) for (const room of this.byKey.values()) for (const slot of room.slots.splice(0)) slot.turn.fail(lostTurn(event.cause.type === "left" ? "left" : "closed"));
        return;
      default: {
        const room = this.byKey.get(event.key);
        if (!room) return;
        switch (event.type) {
          case "joined":
            room.opened.resolve(event.id);
            void this.save();
            return;
          case "refused": {
            const error = new TurnError(`ALICIA_${event.code}`, event.message, "check the conversation's id, and whether it is still there");
            room.opened.reject(error);
            this.rooms.delete(room.name);
            for (const slot of room.slots.splice(0)) slot.turn.fail(error);
            return;
          }
          case "acknowledged": {
            const slot = room.slots.find(({ question }) => question === event.message);
            if (slot) slot.acknowledged = true;
            return;
          }
          case "again":
            return void this.lookUp(room);
          case "reload":
            for (const slot of [...room.slots]) if (slot.acknowledged) this.finish(room, slot, () => slot.turn.fail(lostTurn("expired")));
            return;
          case "told":
            return this.told(room, event.envelope);
        }
      }
    }
  }

  private told(room: Room, { type, body }: Envelope): void {
    const text = (key: string) => (typeof body[key] === "string" ? body[key] : "");
    const count = (slot: Slot | undefined) => void (slot && (slot.next += 1));
    const answer = type === TYPE.sentence ? text("previousId") : type === TYPE.start ? text("id") : text("messageId");
    // Told again after it was read elsewhere.
    if (type !== TYPE.error && answer && this.lately.some((ended) => ended.answer === answer)) return;
    switch (type) {
      case TYPE.start: {
        const slot = room.slots.find(({ question, answer }) => question !== undefined && question === text("previousId") && answer === undefined) ?? room.slots.find(({ question, answer }) => question === undefined && answer === undefined);
        const own = slot ?? this.others(room);
        own.answer = text("id");
        own.turn.push({ type: "start", run: text("id") });
        return count(own);
      }
      case TYPE.sentence: {
        const slot = this.answering(room, text("previousId"));
        const piece = text("text");
        if (piece) {
          const apart = slot.end !== "" && !/\s/.test(slot.end) && !/^\s/.test(piece);
          slot.end = piece.at(-1) ?? "";
          if (!slot.stopped) slot.turn.push({ type: "text", text: apart ? ` ${piece}` : piece });
        }
        count(slot);
        if (body["isFinal"] === true) this.finish(room, slot, () => slot.turn.push({ type: "end", end: { finish: slot.stopped ? "interrupted" : "complete" } }));
        return;
      }
      case TYPE.assistant: {
        const slot = room.slots.find(({ question }) => question !== undefined && question === text("previousId"));
        if (!slot) return;
        slot.turn.push({ type: "text", text: text("content") });
        return this.finish(room, slot, () => slot.turn.push({ type: "end", end: { finish: "complete" } }));
      }
      case TYPE.reasoning: {
        const slot = this.answering(room, text("messageId"));
        slot.turn.push({ type: "reasoning", text: text("content") });
        return count(slot);
      }
      case TYPE.memory:
        return this.answering(room, text("messageId")).turn.push({ type: "data", mime: "application/vnd.switchboard.memory+json", value: body });
      case TYPE.toolRequest:
        return this.requested(room, body);
      case TYPE.toolResult: {
        const slot = room.slots.find(({ answer }) => answer !== undefined);
        return slot?.turn.push({ type: "tool", id: text("requestId"), name: "", phase: body["success"] === true ? "done" : "error", output: body["result"] ?? text("errorMessage") });
      }
      case TYPE.error: {
        const origin = text("originatingId");
        const slot = room.slots.find(({ question, answer }) => origin !== "" && (question === origin || answer === origin)) ?? (origin === "" ? room.slots[0] : undefined);
        const code = typeof body["code"] === "number" ? body["code"] : 500;
        const error = new TurnError(`ALICIA_${code}`, text("message") || "the server refused", body["recoverable"] === true ? "ask again" : "correct the request", body["recoverable"] === true);
        if (slot) this.finish(room, slot, () => slot.turn.fail(error));
        else {
          // The final sentence of an answer that failed came first.
          const ended = this.lately.find(({ answer }) => answer === origin);
          if (!ended) this.emit("error", error);
        }
      }
    }
  }

  /** An answer that was complete before it could be heard is read instead. */
  private async lookUp(room: Room): Promise<void> {
    const rows = await this.json("GET", `/api/v1/conversations/${await room.joined}/messages`).catch(() => ({}));
    for (const row of listOf(rows, "messages")) {
      const question = row["previous_id"] ?? row["previousId"];
      const slot = room.slots.find((slot) => slot.question !== undefined && slot.question === question && slot.next === 0);
      const status = row["completion_status"] ?? row["status"];
      if (!slot || row["role"] !== "assistant" || status === "streaming" || status === "pending") continue;
      slot.answer = String(row["id"]);
      const { text } = messageOf(row);
      this.finish(room, slot, () => {
        if (text) slot.turn.push({ type: "text", text });
        if (status === "failed" || status === "error") slot.turn.fail(new TurnError("FAILED", "the turn failed while this page was away", "ask again", true));
        else slot.turn.push({ type: "end", end: { finish: "complete" } });
      });
    }
  }

  private readonly lately: { answer: string | undefined }[] = [];

  private requested(room: Room, body: ValueMap): void {
    const id = String(body["id"]);
    const name = String(body["toolName"]);
    const slot = this.answering(room, String(body["messageId"]));
    const args = body["parameters"] ?? {};
    if (body["execution"] === "server") return slot.turn.push({ type: "tool", id, name, phase: "start", args });
    const again = room.results.get(id);
    if (again) return this.machine.say(room.key, TYPE.toolResult, again, this.driver.now());
    slot.turn.push({ type: "call", id, name, args });
    this.call(slot.turn, id, name, args, typeof body["timeoutMs"] === "number" ? body["timeoutMs"] : 30_000, (outcome) => {
      slot.turn.push({ type: "result", id, name, ...(outcome.ok ? { ok: true, output: outcome.output } : { ok: false, error: { code: outcome.code, message: outcome.message } }) });
      const result = {
        id: `${id}_result`, requestId: id, conversationId: "", success: outcome.ok,
        ...(outcome.ok ? { result: outcome.output } : { errorCode: CODES[outcome.code] ?? "execution_error", errorMessage: outcome.message }),
      };
      room.results.set(id, result);
      if (room.results.size > MAX_RESULTS) room.results.delete(room.results.keys().next().value!);
      this.machine.say(room.key, TYPE.toolResult, result, this.driver.now());
      this.driver.drain();
    });
  }

  /** The turn of an answer; after a reload the beginning of it may lie before what is told. */
  private answering(room: Room, answer: string): Slot {
    const known = room.slots.find((slot) => slot.answer === answer);
    if (known) return known;
    const slot = room.slots.find((slot) => slot.question !== undefined && slot.answer === undefined) ?? this.others(room);
    slot.answer = answer;
    return slot;
  }

  private others(room: Room): Slot {
    const slot = this.slot(room, undefined, undefined);
    room.slots.push(slot);
    for (const follower of room.followers) follower(slot.turn);
    // What nobody follows is not kept.
    if (room.followers.size === 0) slot.turn.text().catch(() => undefined);
    return slot;
  }

  private finish(room: Room, slot: Slot, end: () => void): void {
    const at = room.slots.indexOf(slot);
    if (at >= 0) room.slots.splice(at, 1);
    this.lately.push({ answer: slot.answer });
    if (this.lately.length > 64) this.lately.shift();
    this.settleTurn(slot.turn);
    end();
    void this.save();
  }

  // ---- what is kept for the next page

  private get storageKey(): string {
    return this.options.storageKey ?? `switchboard:alicia:${this.options.url}`;
  }

  private async save(): Promise<void> {
    const { storage } = this.options;
    if (!storage || this.suspended) return;
    const rooms = [...this.rooms.values()].map((room) => {
      const turns = room.slots.filter(({ question, stopped }) => question !== undefined && !stopped).map(({ question, turn }) => ({ question: question!, text: typeof turn.input === "string" ? turn.input : "" }));
      const before = this.marks.get(room.key) ?? this.machine.markOf(room.key);
      // From where the oldest turn began; there is none, from here.
      const mark = turns.length === 0 ? this.machine.markOf(room.key) : before;
      this.marks.set(room.key, mark);
      return { name: room.name, id: this.machine.idOf(room.key), mark, turns };
    });
    for (const kept of this.kept?.rooms ?? []) if (!this.rooms.has(kept.name)) rooms.push(kept);
    try {
      await storage.setItem(this.storageKey, JSON.stringify({ rooms: rooms.filter(({ id }) => id) } satisfies Kept));
    } catch {
      // A storage that is full or forbidden keeps nothing; all else works.
    }
  }

  private readonly marks = new Map<number, number>();

  private async restore(): Promise<void> {
    try {
      const kept = JSON.parse((await this.options.storage?.getItem(this.storageKey)) ?? "null") as Kept | null;
      if (kept && Array.isArray(kept.rooms)) this.kept = kept;
    } catch {
      this.kept = undefined;
    }
  }
}

const MAX_RESULTS = 256;
const CODES: Record<string, string> = { TOOL_NOT_FOUND: "unknown_tool", INVALID_ARGS: "invalid_parameters", TIMEOUT: "timeout", DENIED: "cancelled" };

export class AliciaSession implements Session {
  constructor(
    private readonly client: AliciaClient,
    readonly name: string,
  ) {}

  get turns(): readonly Turn[] {
    return this.client.turnsOf(this.name);
  }

  /** The conversation's id at the server; a new one is made where there is none. */
  async id(): Promise<string> {
    return (await this.client.room(this.name)).joined;
  }

  /** `after` begins a branch behind an earlier message. */
  ask(input: Input, options: AskOptions & { after?: string } = {}): Turn {
    return this.client.ask(this.name, input, options, options.after);
  }

  /** Another answer to the same question; the earlier one stays as a branch. */
  regenerate(answer: string): Turn {
    return this.client.vary(this.name, answer, "regenerate");
  }

  /** The same answer, further. */
  continue(answer: string): Turn {
    return this.client.vary(this.name, answer, "continue");
  }

  /** A question of the user with other words, as a branch, and its answer. */
  edit(question: string, text: string): Turn {
    return this.client.vary(this.name, question, "edit", text);
  }

  /** The active path, oldest first. */
  async history(options: { limit?: number; before?: string } = {}): Promise<Message[]> {
    const messages = listOf(await this.client.json("GET", `/api/v1/conversations/${await this.id()}/messages`), "messages").map(messageOf);
    const end = options.before === undefined ? messages.length : messages.findIndex(({ id }) => id === options.before);
    return messages.slice(Math.max(0, end - (options.limit ?? end)), end);
  }

  /** The branches beside a message. */
  async siblings(message: string): Promise<Message[]> {
    return listOf(await this.client.json("GET", `/api/v1/messages/${encodeURIComponent(message)}/siblings`), "siblings").map(messageOf);
  }

  /** Goes on from this message. */
  async switchTo(message: string): Promise<void> {
    await this.client.json("POST", `/api/v1/conversations/${await this.id()}/switch-branch`, { tipMessageId: message, tip_message_id: message });
  }

  /** Messages that were written offline; each is answered with its id at the server, or the conflict. */
  async sync(messages: { localId: string; role: "user" | "assistant"; contents: string; createdAt: string; previousId?: string }[]): Promise<ValueMap[]> {
    const body = { messages: messages.map((message, index) => ({ sequenceNumber: index + 1, ...message })) };
    return listOf(await this.client.json("POST", `/api/v1/conversations/${await this.id()}/sync`, body as unknown as ValueMap), "syncedMessages", "synced_messages");
  }

  async *follow(options: { signal?: AskOptions["signal"] } = {}): AsyncGenerator<Turn, void, undefined> {
    const room = await this.client.room(this.name);
    const waiting: Turn[] = [];
    let wake: (() => void) | undefined;
    let stopped = options.signal?.aborted === true;
    const follower = (turn: Turn) => {
      waiting.push(turn);
      wake?.();
    };
    options.signal?.addEventListener("abort", () => {
      stopped = true;
      wake?.();
    });
    room.followers.add(follower);
    try {
      while (!stopped) {
        const turn = waiting.shift();
        if (turn) yield turn;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      room.followers.delete(follower);
    }
  }

  resume(): Promise<Turn | undefined> {
    return this.client.left(this.name);
  }
}

function listOf(answer: ValueMap | Value[], ...names: string[]): ValueMap[] {
  const list = Array.isArray(answer) ? answer : names.map((name) => answer[name]).find(Array.isArray);
  return ((list as Value[] | undefined) ?? []).filter(isMap);
}

function messageOf(row: ValueMap): Message {
  const text = row["contents"] ?? row["content"];
  const at = Date.parse(String(row["created_at"] ?? row["createdAt"]));
  const parent = row["previous_id"] ?? row["previousId"];
  return { id: String(row["id"]), role: row["role"] === "assistant" ? "assistant" : "user", text: typeof text === "string" ? text : "", ...(Number.isNaN(at) ? {} : { at }), ...(typeof parent === "string" ? { parent } : {}) };
}

