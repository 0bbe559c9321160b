/** Messages of the Agent Socket Protocol as they are on the wire. */

import { isMap, type Value, type ValueMap } from "../wire/value.js";
import { PayloadError } from "./codec.js";
import type * as wire from "./wire.js";

export type AspTool = wire.Tool;
export type AspPart = wire.Part;
export type AspFinish = wire.EndRecord["finish"];
export type AspMetrics = wire.Metrics;
export type AspError = wire.Error;

/** Any INVOKE; which members belong to which kind, `wire.Invoke` says. */
export type AspInvoke = { kind: wire.Invoke["kind"] } & { [K in Members<wire.Invoke>]?: Member<wire.Invoke, K> | undefined };
type Members<T> = T extends unknown ? Exclude<keyof T, "kind"> : never;
type Member<T, K extends PropertyKey> = T extends { [key in K]?: infer V } ? V : never;

const FINISHES: readonly AspFinish[] = ["complete", "interrupted", "length", "filtered", "accepted", "empty"];
const STATES: readonly wire.StatusRecord["state"][] = ["queued", "starting", "running", "waiting", "retrying"];
const PHASES: readonly wire.ToolRecord["phase"][] = ["start", "delta", "done", "error"];

export interface AspEnd {
  finish: AspFinish;
  output?: Value;
  usage?: Record<string, number>;
  metrics?: AspMetrics;
  abandoned?: boolean;
}

/** A record as it is read: the counts of `usage` are put together. */
export type AspRecord =
  | Exclude<wire.WireRecord, wire.UsageRecord | wire.EndRecord>
  | { t: "usage"; n?: number; usage: Record<string, number> }
  | ({ t: "end"; n?: number } & AspEnd);

export type AspServerHello = Pick<wire.ServerHello, "op" | "ver" | "cid" | "heartbeat_s" | "resume" | "resumed" | "nonce" | "exp" | "retry_ms" | "reason"> & {
  /** Names that this version does not know are among them. */
  features?: string[];
  enc?: string;
  limits: wire.ServerLimits;
  lost: number[];
};

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
    return { ...optional("finish", (FINISHES as readonly string[]).includes(finish ?? "") ? (finish as AspFinish) : undefined), ...optional("metrics", readMetrics(map["metrics"])) };
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
