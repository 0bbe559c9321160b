/** Messages of the Agent Socket Protocol as they are on the wire. */

import { isMap, type Value, type ValueMap } from "../wire/value.js";
import { PayloadError } from "./codec.js";

export interface AspTool {
  name: string;
  description?: string;
  input_schema: ValueMap;
  output_schema?: ValueMap;
  annotations?: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; confirm?: boolean };
  version?: string;
  ttl_s?: number;
}

export type AspPart = { type: "text"; text: string } | { type: "data"; mime: string; data: Uint8Array } | { type: "ref"; uri: string };

export interface AspInvoke {
  kind: "chat" | "tool" | "step" | "result" | "reply" | "list" | "watch";
  session?: string;
  agent?: string;
  serial?: boolean;
  deadline_ms?: number;
  idem?: string;
  stream?: boolean;
  want?: string[];
  meta?: ValueMap;
  input?: string | AspPart[];
  tool?: string;
  args?: ValueMap;
  step?: { goal: string; state?: Value; budget?: { tokens?: number; ms?: number } };
  parent?: number;
  call_id?: string;
  ok?: boolean;
  output?: Value;
  error?: { name: string; msg: string };
  ask_id?: string;
  text?: string;
  data?: Value;
  turn?: string;
}

export type AspFinish = "complete" | "interrupted" | "length" | "filtered" | "accepted" | "empty";
const FINISHES: readonly string[] = ["complete", "interrupted", "length", "filtered", "accepted", "empty"];
const STATES: readonly string[] = ["queued", "starting", "running", "waiting", "retrying"];
const PHASES: readonly string[] = ["start", "delta", "done", "error"];

export interface AspMetrics {
  cpu_ms?: number;
  wall_ms?: number;
  queue_ms?: number;
  first_ms?: number;
}

export interface AspEnd {
  finish: AspFinish;
  output?: Value;
  usage?: Record<string, number>;
  metrics?: AspMetrics;
  abandoned?: boolean;
}

export type AspRecord = { n?: number } & (
  | { t: "start"; run: string; model?: string }
  | { t: "status"; state: "queued" | "starting" | "running" | "waiting" | "retrying"; pos?: number; msg?: string }
  | { t: "text"; d: string }
  | { t: "reason"; d: string }
  | { t: "tool"; call_id: string; name: string; phase: "start" | "delta" | "done" | "error"; args?: Value; d?: string; output?: Value }
  | { t: "call"; call_id: string; name: string; args: ValueMap; timeout_ms: number }
  | { t: "ask"; ask_id: string; text: string; schema?: ValueMap }
  | { t: "data"; mime?: string; value: Value }
  | { t: "usage"; usage: Record<string, number> }
  | { t: "notice"; level: "info" | "warn"; text: string; data?: Value }
  | ({ t: "end" } & AspEnd)
);

export interface AspError {
  code: number;
  name: string;
  msg: string;
  retry: boolean;
  retry_ms?: number;
  fatal?: boolean;
  ref?: number;
  detail?: ValueMap;
}

export interface AspServerHello {
  op: "greet" | "accept" | "pong" | "authed" | "goaway";
  ver?: number;
  cid?: string;
  features?: string[];
  enc?: string;
  limits: { max_payload?: number; max_message?: number; max_inflight?: number; window?: number };
  heartbeat_s?: number;
  resume?: { token: string; window_s: number };
  resumed?: boolean;
  lost: number[];
  nonce?: string;
  exp?: number;
  retry_ms?: number;
  reason?: string;
}

/** A record, or undefined if this version does not know its type. Throws where what it needs is missing. */
export function readRecord(map: ValueMap): AspRecord | { n?: number; t: undefined } {
  const n = count(map["n"]);
  if (map["n"] !== undefined && n === undefined) throw new PayloadError(2005, "n must be a count");
  const numbered = n === undefined ? {} : { n };
  const t = text(map, "t");
  switch (t) {
    case "start":
      return { ...numbered, t, run: text(map, "run"), ...optional("model", string(map["model"])) };
    case "status":
      return { ...numbered, t, state: choice(map, "state", STATES) as "queued", ...optional("pos", count(map["pos"])), ...optional("msg", string(map["msg"])) };
    case "text":
    case "reason":
      return { ...numbered, t, d: text(map, "d") };
    case "tool":
      return {
        ...numbered, t, call_id: text(map, "call_id"), name: text(map, "name"), phase: choice(map, "phase", PHASES) as "start",
        ...optional("args", map["args"]), ...optional("d", string(map["d"])), ...optional("output", map["output"]),
      };
    case "call":
      return { ...numbered, t, call_id: text(map, "call_id"), name: text(map, "name"), args: needMap(map, "args"), timeout_ms: count(map["timeout_ms"]) ?? 30_000 };
    case "ask":
      return { ...numbered, t, ask_id: text(map, "ask_id"), text: text(map, "text"), ...optional("schema", isMap(map["schema"]) ? map["schema"] : undefined) };
    case "data":
      return { ...numbered, t, value: map["value"] ?? null, ...optional("mime", string(map["mime"])) };
    case "usage":
      return { ...numbered, t, usage: readUsage(map) };
    case "notice":
      return { ...numbered, t, level: map["level"] === "warn" ? "warn" : "info", text: text(map, "text"), ...optional("data", map["data"]) };
    case "end":
      return {
        ...numbered, t, finish: choice(map, "finish", FINISHES) as AspFinish, ...optional("output", map["output"]),
        ...optional("usage", isMap(map["usage"]) ? readUsage(map["usage"]) : undefined), ...optional("metrics", readMetrics(map["metrics"])),
        ...optional("abandoned", map["abandoned"] === true ? true : undefined),
      };
    default:
      return { ...numbered, t: undefined };
  }
}

/** An ERROR, or the end of a request that says so under its opcode: `code` 0, or `metrics` without a code. */
export function readError(map: ValueMap): AspError | { finish?: AspFinish; metrics?: AspMetrics } {
  const code = count(map["code"]);
  if (code === 0 || (code === undefined && map["metrics"] !== undefined)) {
    const finish = string(map["finish"]);
    return { ...optional("finish", FINISHES.includes(finish ?? "") ? (finish as AspFinish) : undefined), ...optional("metrics", readMetrics(map["metrics"])) };
  }
  return {
    code: code !== undefined && code < 65536 ? code : 2400,
    name: string(map["name"]) ?? "",
    msg: (string(map["msg"]) ?? "").slice(0, 512),
    retry: map["retry"] === true,
    ...optional("retry_ms", count(map["retry_ms"])),
    ...optional("fatal", map["fatal"] === true ? true : undefined),
    ...optional("ref", count(map["ref"])),
    ...optional("detail", isMap(map["detail"]) ? map["detail"] : undefined),
  };
}

export function readServerHello(map: ValueMap): AspServerHello {
  const op = choice(map, "op", ["greet", "accept", "pong", "authed", "goaway"]) as AspServerHello["op"];
  const resume = isMap(map["resume"]) ? map["resume"] : undefined;
  const limits = isMap(map["limits"]) ? map["limits"] : {};
  const cid = string(map["cid"]);
  if (cid !== undefined && !/^[A-Za-z0-9_-]{16,64}$/.test(cid)) throw new PayloadError(2005, "cid is none");
  return {
    op,
    ...optional("ver", count(map["ver"])),
    ...optional("cid", cid),
    ...optional("features", strings(map["features"])),
    ...optional("enc", string(map["enc"])),
    limits: {
      ...optional("max_payload", count(limits["max_payload"])),
      ...optional("max_message", count(limits["max_message"])),
      ...optional("max_inflight", count(limits["max_inflight"])),
      ...optional("window", count(limits["window"])),
    },
    ...optional("heartbeat_s", count(map["heartbeat_s"])),
    ...optional("resume", resume ? { token: text(resume, "token"), window_s: count(resume["window_s"]) ?? 0 } : undefined),
    ...optional("resumed", map["resumed"] === true ? true : undefined),
    lost: Array.isArray(map["lost"]) ? map["lost"].filter((id): id is number => count(id) !== undefined) : [],
    ...optional("nonce", string(map["nonce"])),
    ...optional("exp", count(map["exp"])),
    ...optional("retry_ms", count(map["retry_ms"])),
    ...optional("reason", string(map["reason"])),
  };
}

export interface ToolFrame {
  op: "add" | "remove" | "set";
  rev?: number;
  tools: AspTool[];
  names: string[];
}

export function readTools(map: ValueMap): ToolFrame {
  const op = map["op"] === undefined ? "add" : (choice(map, "op", ["add", "remove", "set"]) as ToolFrame["op"]);
  const listed = "name" in map ? [map] : Array.isArray(map["tools"]) ? map["tools"] : [];
  const tools = listed.map((tool): AspTool => {
    if (!isMap(tool)) throw new PayloadError(2005, "a tool must be a map");
    return { ...(tool as unknown as AspTool), name: text(tool, "name"), input_schema: needMap(tool, "input_schema") };
  });
  return { op, tools, names: strings(map["names"]) ?? [], ...optional("rev", count(map["rev"])) };
}

function readUsage(map: ValueMap): Record<string, number> {
  const usage: Record<string, number> = {};
  for (const [name, value] of Object.entries(map)) {
    const number = name === "t" || name === "n" ? undefined : count(value);
    if (number !== undefined) usage[name] = number;
  }
  return usage;
}

function readMetrics(value: Value | undefined): AspMetrics | undefined {
  if (!isMap(value)) return undefined;
  const metrics: AspMetrics = {};
  for (const name of ["cpu_ms", "wall_ms", "queue_ms", "first_ms"] as const) {
    const ms = count(value[name]);
    if (ms !== undefined) metrics[name] = ms;
  }
  return metrics;
}

function text(map: ValueMap, key: string): string {
  const value = map[key];
  if (typeof value !== "string") throw new PayloadError(2005, `${key} must be text`);
  return value;
}

function needMap(map: ValueMap, key: string): ValueMap {
  const value = map[key];
  if (!isMap(value)) throw new PayloadError(2005, `${key} must be a map`);
  return value;
}

function choice(map: ValueMap, key: string, names: readonly string[]): string {
  const name = text(map, key);
  if (!names.includes(name)) throw new PayloadError(2005, `${key} is none of ${names.join(", ")}`);
  return name;
}

function string(value: Value | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function strings(value: Value | undefined): string[] | undefined {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : undefined;
}

function count(value: Value | undefined): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}

/** A member, unless there is nothing in it. */
export function optional<K extends string, V>(key: K, value: V | undefined): { [key in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { [key in K]?: V };
}
