/** One invocation, as the handler sees it. */

import { CallFailure, type FunctionTool, type Json, type JsonObject, type RelayAnswer, type RelayBody } from "./types.js";

/** Ends this leg; what was asked comes with the next one. */
export class Suspend {
  constructor(readonly state: Json) {}
}

const POLL_MS = 1000;

export class Turn {
  /** Aborted when nobody wants the answer any more: interrupted, disconnected, or out of time. */
  readonly signal: AbortSignal;
  /** What an earlier leg has kept with `suspend`; undefined in the first. */
  readonly state: Json | undefined;
  /** The answers since the leg before. */
  readonly answers: readonly RelayAnswer[];

  private readonly controller = new AbortController();
  private asked = 0;
  private answered = 0;
  private polling = false;

  constructor(
    /** All that the relay said. */
    readonly body: RelayBody,
    private readonly send: (record: JsonObject) => void,
    private readonly fetch: typeof globalThis.fetch,
  ) {
    this.signal = this.controller.signal;
    this.state = body.state;
    this.answers = body.answers ?? [];
  }

  get id(): string {
    return this.body.inv;
  }

  /** What was said, as text. */
  get text(): string {
    const input = this.body.payload?.["input"];
    if (typeof input === "string") return input;
    if (!Array.isArray(input)) return "";
    return input.map((part) => (typeof part === "object" && part !== null && !Array.isArray(part) && typeof part["text"] === "string" ? part["text"] : "")).join("");
  }

  get session(): string | undefined {
    return this.body.session;
  }

  get principal(): string | undefined {
    return this.body.principal?.sub;
  }

  get tools(): readonly FunctionTool[] {
    return this.body.tools ?? [];
  }

  /** What was said before, oldest first; the server tells it where the agent has `history`. */
  get history(): readonly { role: "user" | "assistant"; text: string }[] {
    return this.body.history ?? [];
  }

  /** Has a tool run, and waits for what it gives. Throws a `CallFailure`. */
  async call(name: string, args: JsonObject = {}, options: { timeoutMs?: number } = {}): Promise<Json> {
    const id = this.name("call");
    this.send({ t: "call", call_id: id, name, args, timeout_ms: options.timeoutMs ?? 30_000 });
    const answer = await this.wait(id);
    if (answer.ok === false) throw new CallFailure(answer.error?.name ?? "FAILED", answer.error?.msg ?? "the tool failed");
    return answer.output ?? null;
  }

  /** Asks the user, and waits for the answer. */
  async ask(text: string, schema?: JsonObject): Promise<Json> {
    const id = this.name("ask");
    this.send({ t: "ask", ask_id: id, text, ...(schema ? { schema } : {}) });
    const answer = await this.wait(id);
    if (answer.ok === false) throw new CallFailure(answer.error?.name ?? "FAILED", answer.error?.msg ?? "nobody has answered");
    return answer.text ?? answer.data ?? null;
  }

  /**
   * Asks, and ends this leg: `yield turn.suspendFor({ ask: "…" }, state)` costs nothing while it waits, survives restarts, and the handler is called again
   * with `turn.state` and `turn.answers`.
   */
  suspendFor(what: { ask: string; schema?: JsonObject } | { call: string; args?: JsonObject; timeoutMs?: number }, state: Json): Suspend {
    if ("ask" in what) this.send({ t: "ask", ask_id: this.name("ask"), text: what.ask, ...(what.schema ? { schema: what.schema } : {}) });
    else this.send({ t: "call", call_id: this.name("call"), name: what.call, args: what.args ?? {}, timeout_ms: what.timeoutMs ?? 30_000 });
    return new Suspend(state);
  }

  /** @internal */
  abort(why: string): void {
    this.controller.abort(new Error(why));
  }

  /** @internal Asks the relay now and then whether the turn was cancelled: some platforms notice no broken connection. */
  watch(): void {
    const { cancel, push } = this.body;
    if (!cancel || !push || this.polling) return;
    this.polling = true;
    const poll = async () => {
      if (this.signal.aborted) return;
      try {
        const response = await this.fetch(cancel.url, { headers: { authorization: `Bearer ${push.token}` } });
        if (response.ok && ((await response.json()) as { cancelled?: boolean }).cancelled) this.abort("interrupted");
      } catch {
        // The next one may work.
      }
      if (!this.signal.aborted) this.timer = setTimeout(() => void poll(), cancel.poll_ms ?? POLL_MS);
    };
    this.timer = setTimeout(() => void poll(), cancel.poll_ms ?? POLL_MS);
  }

  private timer: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  over(): void {
    clearTimeout(this.timer);
    this.polling = true;
  }

  private name(kind: string): string {
    this.asked += 1;
    return `${kind}-${this.body.leg ?? 0}-${this.asked}`;
  }

  private async wait(id: string): Promise<RelayAnswer> {
    const { cancel, push } = this.body;
    if (!cancel || !push) throw new CallFailure("NO_RELAY", "the relay cannot be asked for answers: use suspendFor");
    for (;;) {
      this.signal.throwIfAborted();
      const response = await this.fetch(`${cancel.url}/answers?after=${this.answered}`, { headers: { authorization: `Bearer ${push.token}` }, signal: this.signal });
      if (!response.ok) {
        if (response.status < 500) throw new CallFailure("RELAY_REFUSED", `the relay gave no answers: ${response.status}`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        continue;
      }
      const said = (await response.json()) as { answers: RelayAnswer[]; cancelled: boolean };
      if (said.cancelled) {
        this.abort("interrupted");
        this.signal.throwIfAborted();
      }
      for (const answer of said.answers) {
        if ((answer.call_id ?? answer.ask_id) === id) return answer;
        this.answered = Math.max(this.answered, answer.k);
      }
    }
  }
}
