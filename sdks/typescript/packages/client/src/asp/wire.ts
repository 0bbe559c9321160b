/** The messages of the protocol as they are on the wire. Made by wire.mjs of the schemas that the server's types give; do not edit. */

import type { Value, ValueMap } from "../wire/value.js";

export interface Hello {
  ver?: number[];
  features?: string[];
  enc?: ("json" | "msgpack")[];
  client?: ClientInfo;
  limits?: ClientLimits;
  tools?: Tool[];
  resume?: ResumeRequest;
  nonce?: string;
  token?: string;
  op?: "hello" | "ping" | "auth" | "bye";
}

export interface ClientInfo {
  name: string;
  version: string;
  platform?: string;
}

export interface ClientLimits {
  max_payload?: number;
  window?: number;
}

export interface ResumeRequest {
  cid: string;
  token: string;
  next: Record<string, number>;
}

export interface ServerHello {
  op: "greet" | "accept" | "pong" | "authed" | "goaway";
  ver?: number;
  cid?: string;
  features?: ("flags" | "events" | "frag" | "deflate" | "zstd" | "credit" | "push" | "client_tools" | "resume" | "ping" | "reauth" | "complete06" | "watch")[];
  enc?: "json" | "msgpack";
  limits?: ServerLimits;
  heartbeat_s?: number;
  resume?: ResumeGrant;
  resumed?: boolean;
  lost?: number[];
  server?: ServerInfo;
  nonce?: string;
  exp?: number;
  retry_ms?: number;
  reason?: string;
}

export interface ServerLimits {
  max_payload?: number;
  max_message?: number;
  max_inflight?: number;
  window?: number;
  frames_per_s?: number;
  invokes_per_s?: number;
}

export interface ResumeGrant {
  token: string;
  window_s: number;
}

export interface ServerInfo {
  name: string;
  version: string;
  mode: "direct" | "relay";
}

export interface Tool {
  name: string;
  description?: string;
  input_schema: ValueMap;
  output_schema?: ValueMap;
  annotations?: Annotations;
  version?: string;
  ttl_s?: number;
}

export interface Annotations {
  read_only?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  confirm?: boolean;
}

export interface ToolDefFrame {
  op?: "add" | "remove" | "set";
  rev?: number;
  tools?: Tool[];
  names?: string[];
}

export interface ChatInvoke {
  kind: "chat";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  input: string;
}

export interface ToolInvoke {
  kind: "tool";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  tool: string;
  args: ValueMap;
}

export interface StepInvoke {
  kind: "step";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  step: Step;
}

export interface ResultInvoke {
  kind: "result";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  parent: number;
  call_id: string;
  ok: boolean;
  output?: Value;
  error?: CallFailure;
}

export interface ReplyInvoke {
  kind: "reply";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  parent: number;
  ask_id: string;
  text?: string;
  data?: Value;
}

export interface ListInvoke {
  kind: "list";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
}

export interface WatchInvoke {
  kind: "watch";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  turn?: string;
}

export interface PartsInvoke {
  kind: "chat";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  input: ValueMap[];
}

export interface Step {
  goal: string;
  state?: Value;
  budget?: Budget;
}

export interface Budget {
  tokens?: number;
  ms?: number;
}

export interface CallFailure {
  name: string;
  msg: string;
}

export interface TextPart {
  type: "text";
  text: string;
}

export interface DataPart {
  type: "data";
  mime: string;
  data: Uint8Array;
}

export interface RefPart {
  type: "ref";
  uri: string;
}

export interface StartRecord {
  t: "start";
  n?: number;
  run: string;
  model?: string;
}

export interface StatusRecord {
  t: "status";
  n?: number;
  state: "queued" | "starting" | "running" | "waiting" | "retrying";
  pos?: number;
  msg?: string;
}

export interface TextRecord {
  t: "text";
  n?: number;
  d: string;
}

export interface ReasonRecord {
  t: "reason";
  n?: number;
  d: string;
}

export interface ToolRecord {
  t: "tool";
  n?: number;
  call_id: string;
  name: string;
  phase: "start" | "delta" | "done" | "error";
  args?: Value;
  d?: string;
  output?: Value;
}

export interface CallRecord {
  t: "call";
  n?: number;
  call_id: string;
  name: string;
  args: ValueMap;
  timeout_ms: number;
}

export interface AskRecord {
  t: "ask";
  n?: number;
  ask_id: string;
  text: string;
  schema?: ValueMap;
}

export interface DataRecord {
  t: "data";
  n?: number;
  mime?: string;
  value: Value;
}

export interface UsageRecord {
  t: "usage";
  n?: number;
}

export interface NoticeRecord {
  t: "notice";
  n?: number;
  level: "info" | "warn";
  text: string;
  data?: Value;
}

export interface EndRecord {
  t: "end";
  n?: number;
  finish: "complete" | "interrupted" | "length" | "filtered" | "accepted" | "empty";
  output?: Value;
  usage?: Record<string, number>;
  metrics?: Metrics;
  abandoned?: boolean;
}

export interface Metrics {
  cpu_ms?: number;
  wall_ms?: number;
  queue_ms?: number;
  first_ms?: number;
}

export interface Interrupt {
  mode?: "cancel" | "pause" | "resume" | "credit";
  reason?: string;
  bytes?: number;
}

export interface Error {
  code: number;
  name: string;
  msg: string;
  retry: boolean;
  retry_ms?: number;
  fatal?: boolean;
  ref?: number;
  detail?: ValueMap;
}

export interface Completion {
  code: number;
  finish?: "complete" | "interrupted" | "length" | "filtered" | "accepted" | "empty";
  metrics?: Metrics;
}

export type Invoke = ChatInvoke | ToolInvoke | StepInvoke | ResultInvoke | ReplyInvoke | ListInvoke | WatchInvoke | PartsInvoke;
export type WireRecord = StartRecord | StatusRecord | TextRecord | ReasonRecord | ToolRecord | CallRecord | AskRecord | DataRecord | UsageRecord | NoticeRecord | EndRecord;
export type Part = TextPart | DataPart | RefPart;
export type Feature = "flags" | "events" | "frag" | "deflate" | "zstd" | "credit" | "push" | "client_tools" | "resume" | "ping" | "reauth" | "complete06" | "watch";

/** Close codes after which a client comes back for its requests. */
export const RESUMABLE: readonly number[] = [1001, 1006, 1012, 1013, 4408, 4500];

/** Names of errors by their numbers. */
export type ErrorCode = 0 | 2000 | 2001 | 2002 | 2003 | 2004 | 2005 | 2006 | 2007 | 2008 | 2009 | 2010 | 2011 | 2012 | 2100 | 2101 | 2102 | 2103 | 2104 | 2200 | 2201 | 2202 | 2203 | 2204 | 2205 | 2206 | 2300 | 2301 | 2302 | 2303 | 2304 | 2305 | 2400 | 2401 | 2402 | 2403 | 2405 | 2406 | 2500 | 2501 | 2502 | 2503 | 2504 | 2505 | 2600 | 2601;
export type ErrorName = "OK" | "PROTOCOL_ERROR" | "UNSUPPORTED_VERSION" | "UNKNOWN_OPCODE" | "WRONG_DIRECTION" | "FRAME_TRUNCATED" | "BAD_PAYLOAD" | "BAD_FLAGS" | "BAD_REQUEST_ID" | "DUPLICATE_REQUEST" | "UNKNOWN_REQUEST" | "TEXT_MESSAGE" | "FRAGMENT_ERROR" | "HELLO_STATE" | "AUTH_REQUIRED" | "AUTH_INVALID" | "AUTH_EXPIRED" | "FORBIDDEN" | "AUTH_EXPIRING" | "RATE_LIMITED" | "TOO_MANY_REQUESTS" | "PAYLOAD_TOO_LARGE" | "QUEUE_FULL" | "SLOW_CONSUMER" | "FLOOD" | "QUOTA_EXCEEDED" | "INVALID_INVOKE" | "TOOL_NOT_FOUND" | "INVALID_ARGS" | "CALL_GONE" | "AGENT_NOT_FOUND" | "IDEMPOTENCY_CONFLICT" | "EXECUTION_FAILED" | "TOOL_FAILED" | "MODEL_UNAVAILABLE" | "CALL_TIMEOUT" | "DEADLINE_EXCEEDED" | "INTERNAL" | "FUNCTION_UNREACHABLE" | "RELAY_UNAVAILABLE" | "FUNCTION_BAD_RESPONSE" | "FUNCTION_ABORTED" | "WORKER_LOST" | "FUNCTION_TIMEOUT" | "RESUME_REJECTED" | "REPLAY_GONE";
