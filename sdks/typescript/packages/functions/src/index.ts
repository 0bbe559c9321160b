/**
 * Agents as HTTP functions: `agent({ secret }, async function* (turn) { yield "Hello"; })` gives a handler from a `Request` to a `Response`, as
 * Bun, Deno, Cloudflare Workers and most frameworks want it; `@switchboard/functions/node` and `/lambda` fit it to the others.
 */

import { Suspend, Turn } from "./turn.js";
import { type Ending, type JsonObject, type Output, type RelayBody, TurnFailure } from "./types.js";
import { Refused, verify } from "./verify.js";

export { Suspend, Turn } from "./turn.js";
export { CallFailure, type Ending, type FunctionTool, type Json, type JsonObject, type Output, type RelayAnswer, type RelayBody, TurnFailure } from "./types.js";
export { keyOf, Refused, verify } from "./verify.js";

/** What answers a turn: yields text or other output, and returns how it ended where there is something to say about that. */
export type Handler = (turn: Turn) => AsyncGenerator<Output | Suspend, Ending | void, undefined> | AsyncIterable<Output | Suspend>;

export interface AgentOptions {
  /** `whsec_…`, as `secret_env` of the agent names it; several, newest first, while one takes the place of another. */
  secret: string | readonly string[];
  /** Largest body that is read. */
  maxBody?: number;
  /** How many invocations are remembered, so that none is answered twice. */
  remembered?: number;
  fetch?: typeof globalThis.fetch;
  now?: () => number;
}

const MEMORY_MS = 15 * 60_000;
const KEEP_ALIVE_MS = 10_000;

/** A handler of requests of the relay. */
export function agent(options: AgentOptions, handler: Handler): (request: Request) => Promise<Response> {
  const secrets = typeof options.secret === "string" ? options.secret.split(/\s+/).filter(Boolean) : options.secret;
  if (secrets.length === 0) throw new TypeError("a secret is needed: whsec_ and a key in base64");
  const now = options.now ?? Date.now;
  const maxBody = options.maxBody ?? 8 << 20;
  const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  const seen = new Seen(options.remembered ?? 10_000, now);
  const running = new Map<string, Turn>();

  return async (request) => {
    try {
      if (request.method !== "POST") throw new Refused(405, "only POST is served");
      const bytes = await bodyOf(request, maxBody);
      await verify(request.headers, bytes, secrets, Math.floor(now() / 1000));
      const body = read(bytes);
      if (body.event === "interrupt") running.get(body.inv)?.abort("interrupted");
      if (body.event !== "invoke" && body.event !== "continue") return new Response(null, { status: 204 });
      if (body.payload !== undefined && body.payload["kind"] !== undefined && body.payload["kind"] !== "chat") throw new Refused(422, "this function answers chats only");
      const done = seen.begin(body);
      return answer(body, handler, fetch, running, done, request.signal);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return Response.json({ error: { msg: error.message } }, { status: error.status });
    }
  };
}

function answer(body: RelayBody, handler: Handler, fetch: typeof globalThis.fetch, running: Map<string, Turn>, done: (finished: boolean) => void, aborted: AbortSignal): Response {
  const encoder = new TextEncoder();
  let n = body.next_n ?? 0;
  let closed = false;
  let turn!: Turn;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      const line = (record: JsonObject) => {
        if (!closed) controller.enqueue(encoder.encode(`${JSON.stringify(record)}\n`));
      };
      const record = ({ t, ...rest }: JsonObject) => line({ t: t ?? "text", n: n++, ...rest });
      turn = new Turn(body, record, fetch);
      running.set(body.inv, turn);
      const alive = setInterval(() => line({ t: "ping" }), KEEP_ALIVE_MS);
      const deadline = setTimeout(() => turn.abort("out of time"), body.deadline_ms ?? 300_000);
      turn.watch();
      void run(turn, handler, record, line)
        .catch((error: unknown) => {
          if (turn.signal.aborted) return record({ t: "end", finish: "interrupted" });
          const failure = error instanceof TurnFailure ? error : new TurnFailure(2400, "EXECUTION_FAILED", error instanceof Error ? error.message : String(error));
          return line({ t: "error", code: failure.code, name: failure.title, msg: failure.message.slice(0, 500), retry: failure.retry });
        })
        .finally(() => {
          clearInterval(alive);
          clearTimeout(deadline);
          turn.over();
          running.delete(body.inv);
          done(!closed);
          if (!closed) controller.close();
          closed = true;
        });
    },
    cancel() {
      closed = true;
      turn.abort("disconnected");
    },
  });
  aborted.addEventListener("abort", () => turn.abort("disconnected"));
  return new Response(stream, { headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" } });
}

async function run(turn: Turn, handler: Handler, record: (record: JsonObject) => void, line: (record: JsonObject) => void): Promise<void> {
  if (turn.body.event === "invoke") record({ t: "start", run: turn.id });
  const iterator = handler(turn)[Symbol.asyncIterator]();
  const stopped = new Promise<never>((_, reject) => turn.signal.addEventListener("abort", () => reject(turn.signal.reason as Error)));
  stopped.catch(() => undefined);
  try {
    for (;;) {
      const step = (await Promise.race([iterator.next(), stopped])) as IteratorResult<Output | Suspend, Ending | void>;
      if (step.done) {
        const { finish = "complete", output, usage } = step.value ?? {};
        return record({ t: "end", finish, ...(output === undefined ? {} : { output }), ...(usage === undefined ? {} : { usage }) });
      }
      if (step.value instanceof Suspend) return line({ t: "suspend", state: step.value.state });
      record(recordOf(step.value));
    }
  } finally {
    // Lets the handler tidy up; nobody waits for it.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
  }
}

const CHECKLIST = "application/vnd.switchboard.checklist+json";

function recordOf(output: Output): JsonObject {
  if (typeof output === "string") return { t: "text", d: output };
  if ("text" in output) return { t: "text", d: output.text };
  if ("reasoning" in output) return { t: "reason", d: output.reasoning };
  if ("status" in output) return { t: "status", state: "running", msg: output.status };
  if ("usage" in output) return { t: "usage", ...output.usage };
  if ("data" in output) return { t: "data", value: output.data, ...(output.mime === undefined ? {} : { mime: output.mime }) };
  if ("checklist" in output) return { t: "data", mime: CHECKLIST, value: output.checklist as unknown as JsonObject };
  const { id, name, phase, args, delta, output: result } = output.tool;
  return { t: "tool", call_id: id, name, phase, ...(args === undefined ? {} : { args }), ...(delta === undefined ? {} : { d: delta }), ...(result === undefined ? {} : { output: result }) };
}

async function bodyOf(request: Request, most: number): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(request.headers.get("content-length") ?? 0) > most) throw new Refused(413, "the body is too long for this function");
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > most) throw new Refused(413, "the body is too long for this function");
    parts.push(part.value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function read(bytes: Uint8Array): RelayBody {
  let body: Partial<RelayBody>;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Partial<RelayBody>;
  } catch {
    throw new Refused(400, "the body is not JSON");
  }
  if (typeof body !== "object" || body === null || typeof body.inv !== "string" || typeof body.cid !== "string" || typeof body.event !== "string") throw new Refused(422, "cid, inv and event are needed");
  return body as RelayBody;
}

/** Which legs of which invocations were taken on. One that broke off may be tried again, with a higher attempt. */
class Seen {
  private readonly legs = new Map<string, { at: number; attempt: number; broken: boolean }>();

  constructor(
    private readonly most: number,
    private readonly now: () => number,
  ) {}

  begin(body: RelayBody): (finished: boolean) => void {
    const key = `${body.inv} ${body.leg ?? 0}`;
    const attempt = body.attempt ?? 1;
    const known = this.legs.get(key);
    if (known && !(known.broken && attempt > known.attempt)) throw new Refused(409, "this invocation was taken already");
    const leg = { at: this.now(), attempt, broken: false };
    this.legs.delete(key);
    this.legs.set(key, leg);
    for (const [old, { at }] of this.legs) {
      if (this.legs.size <= this.most && this.now() - at <= MEMORY_MS) break;
      this.legs.delete(old);
    }
    return (finished) => {
      leg.broken = !finished;
      leg.at = this.now();
    };
  }
}
