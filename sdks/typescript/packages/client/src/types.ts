/** One shape for every protocol. What a protocol cannot do says so with a `UsageError`. */

import type { SwitchboardError } from "./errors.js";
import type { Clock, FetchLike, SocketConstructor, StorageLike } from "./platform.js";
import type { Tool } from "./tools.js";
import type { Turn } from "./turn.js";
import type { Value } from "./wire/value.js";

export type { Value };

export type Part = { type: "text"; text: string } | { type: "data"; mime: string; data: Uint8Array } | { type: "ref"; uri: string };
export type Input = string | Part[];

export type Finish = "complete" | "interrupted" | "length" | "filtered" | "empty" | "failed";

export interface End {
  finish: Finish;
  /** What the turn gave besides its text. */
  output?: Value;
  usage?: Record<string, number>;
  metrics?: { cpuMs?: number; wallMs?: number; queueMs?: number; firstMs?: number };
}

/** What happens in a turn, in order. `end` comes last and once. */
export type TurnEvent =
  | { type: "start"; run?: string; model?: string }
  | { type: "status"; state: "queued" | "starting" | "running" | "waiting" | "retrying"; place?: number; text?: string }
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  /** A tool that runs elsewhere. */
  | { type: "tool"; id: string; name: string; phase: "start" | "delta" | "done" | "error"; args?: Value; delta?: string; output?: Value }
  /** A tool of this page is being run. */
  | { type: "call"; id: string; name: string; args: Value }
  /** What a tool of this page gave. */
  | { type: "result"; id: string; name: string; ok: boolean; output?: Value; error?: { code: string; message: string } }
  | { type: "question"; question: Question }
  | { type: "approval"; approval: Approval }
  | { type: "data"; mime?: string; value: Value }
  | { type: "usage"; usage: Record<string, number> }
  | { type: "checklist"; id: string; title: string; items: { id: string; label: string; status: "pending" | "in_progress" | "done" | "failed" }[] }
  | { type: "notice"; level: "info" | "warn" | "error"; text: string; data?: Value }
  /** The turn ran anew, or was told from the start: what it said so far is void. */
  | { type: "restarted" }
  | { type: "end"; end: End };

/** The agent wants to know something. */
export interface Question {
  readonly id: string;
  readonly turn: Turn;
  readonly text: string;
  /** JSON Schema of the answer, where it is not just text. */
  readonly schema?: Value;
  answer(answer: Value): Promise<void>;
}

/** A tool wants to run, and a person has to agree. */
export interface Approval {
  readonly id: string;
  readonly turn: Turn;
  readonly text: string;
  /** Name and arguments, where the tool is one of this page. */
  readonly tool?: string;
  readonly args?: Value;
  approve(): Promise<void>;
  deny(): Promise<void>;
}

export type ConnectionState =
  /** Not connected, and nobody has asked for it. */
  | "idle"
  | "connecting"
  | "online"
  /** Lost; this client comes back by itself, and what runs goes on. */
  | "reconnecting"
  /** As `reconnecting`, and the device says that it has no network. */
  | "offline"
  /** Over, until `connect` is called or something is asked. `error` says why. */
  | "closed";

export interface ClientEvents {
  state: ConnectionState;
  /** An error that concerns the connection; it is followed by a state where it changes one. */
  error: SwitchboardError;
  /** The tools that the server offers have changed. */
  tools: readonly { name: string; description?: string }[];
  notice: { level: "info" | "warn"; text: string; data?: Value };
  /** Questions and approvals that are open. */
  open: readonly (Question | Approval)[];
  turn: Turn;
}

/** A token, or a function that is asked for one before each connection and before the old one runs out. */
export type TokenSource = string | (() => string | Promise<string>);

export interface ClientOptions {
  /** `https://host`, `wss://host`, or with a path; a page may give a path alone. */
  url: string;
  token?: TokenSource;
  /** The agent to ask, where it is not the default one. */
  agent?: string;
  tools?: readonly Tool[];
  /** Where to keep what is needed to go on after a reload; without it nothing is kept. */
  storage?: StorageLike;
  /** The name under which it is kept; one per tab or screen. */
  storageKey?: string;
  /** How long one attempt to connect may take. */
  connectTimeoutMs?: number;
  /** First and longest pause between attempts to connect, before jitter. */
  backoff?: { firstMs?: number; mostMs?: number };
  /** Permits a token to travel unencrypted beyond this machine. */
  allowPlaintext?: boolean;
  WebSocket?: SocketConstructor;
  fetch?: FetchLike;
  clock?: Clock;
}

export interface AskOptions {
  agent?: string;
  /** Handed to the agent; at most 4 KiB. */
  meta?: Record<string, Value>;
  deadlineMs?: number;
  /** A key of one's own under which the server knows the request again; else one is made up. */
  key?: string;
  signal?: { readonly aborted: boolean; addEventListener(type: "abort", listener: () => void): void };
}

export interface Message {
  id: string;
  role: "user" | "assistant" | "system";
  text: string;
  /** Everything in it, where there is more than text. */
  parts?: Value;
  /** Milliseconds since 1970. */
  at?: number;
  parent?: string;
}

/** A conversation: what was said stays, and whoever opens it again goes on with it. */
export interface Session {
  readonly name: string;
  /** Turns of this session that this client knows and that are not over, oldest first. */
  readonly turns: readonly Turn[];
  ask(input: Input, options?: AskOptions): Turn;
  /** What was said, oldest first. */
  history(options?: { limit?: number; before?: string }): Promise<Message[]>;
  /** Turns that others start in this session, from now on; leaving the loop stops nothing. */
  follow(options?: { signal?: AskOptions["signal"] }): AsyncIterable<Turn>;
  /** The latest turn that an earlier page has left running, from its start. */
  resume(): Promise<Turn | undefined>;
}

export interface Client {
  readonly protocol: "asp" | "acolyte" | "alicia";
  readonly state: ConnectionState;
  readonly error: SwitchboardError | undefined;
  /** Questions and approvals that wait for an answer, oldest first. */
  readonly open: readonly (Question | Approval)[];
  session(name: string): Session;
  /** Offers a tool of this page; returns how to take it back. */
  tool(tool: Tool): () => void;
  connect(): Promise<void>;
  /** Looks whether the connection is still there: for an app that comes to the front. Pages do so by themselves. */
  check(): void;
  /** Leaves for good: what runs is stopped. */
  close(): Promise<void>;
  /** Leaves so that the next page can go on; needs `storage`. */
  suspend(): Promise<void>;
  on<K extends keyof ClientEvents>(event: K, listener: (value: ClientEvents[K]) => void): () => void;
}
