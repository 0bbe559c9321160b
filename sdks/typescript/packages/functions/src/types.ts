/** What a function is told, and what it may say. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface FunctionTool {
  name: string;
  description?: string;
  input_schema: JsonObject;
  executor: "client" | "device" | "server";
  confirm?: boolean;
}

/** The body of a request of the relay. */
export interface RelayBody {
  asp: 1;
  event: "invoke" | "continue" | "interrupt" | "connect" | "disconnect";
  cid: string;
  rid?: number;
  inv: string;
  attempt?: number;
  leg?: number;
  next_n?: number;
  payload?: JsonObject;
  payload_b64?: string;
  session?: string;
  agent?: string;
  deadline_ms?: number;
  principal?: { sub: string; scope?: string; claims?: JsonObject };
  features?: string[];
  tools?: FunctionTool[];
  history?: { role: "user" | "assistant"; text: string }[];
  remembered?: string[];
  setting?: JsonObject;
  push?: { url: string; token: string; exp: number };
  cancel?: { url: string; poll_ms?: number };
  state?: Json;
  answers?: RelayAnswer[];
}

export interface RelayAnswer {
  k: number;
  call_id?: string;
  ask_id?: string;
  ok?: boolean;
  output?: Json;
  text?: string;
  data?: Json;
  error?: { name: string; msg: string };
}

/** What a handler may yield: text, or anything that the protocol knows. */
export type Output =
  | string
  | { text: string }
  | { reasoning: string }
  | { status: string }
  | { data: Json; mime?: string }
  | { usage: Record<string, number> }
  | { tool: { id: string; name: string; phase: "start" | "delta" | "done" | "error"; args?: Json; delta?: string; output?: Json } }
  | { checklist: { group: string; title: string; items: { id: string; label: string; state: "pending" | "active" | "done" | "failed" }[] } };

/** How a turn ends, where it is not simply over. */
export interface Ending {
  finish?: "complete" | "length" | "filtered" | "empty";
  output?: Json;
  usage?: Record<string, number>;
}

/** Thrown by a handler: the turn fails with this code of the protocol. */
export class TurnFailure extends Error {
  override name = "TurnFailure";

  constructor(
    readonly code: number,
    readonly title: string,
    message: string,
    readonly retry = false,
  ) {
    super(message);
  }
}

/** A tool that was called did not work. */
export class CallFailure extends Error {
  override name = "CallFailure";

  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
