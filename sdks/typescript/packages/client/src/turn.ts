/** One question and its answer, as it comes. */

import { TurnError, UsageError } from "./errors.js";
import type { End, Input, TurnEvent } from "./types.js";

/** What a turn needs of the client that runs it. */
export interface TurnHost {
  stop(reason: string | undefined): void;
  /** Output was read: more may be sent. */
  consumed(credit: number): void;
  position(): TurnPosition;
}

/** Up to where a turn was told: which turn, and the index of the next record. It can be stored beside what was shown. */
export interface TurnPosition {
  key: string;
  next: number;
}

export type TurnStatus = "waiting" | "queued" | "running" | "stopping" | "done" | "interrupted" | "failed";

interface Queued {
  event: TurnEvent;
  credit: number;
}

/**
 * An answer on its way. Read it once: as events (`for await (const event of turn)`), as pieces of text (`turn.textStream()`),
 * or whole (`await turn.text()`). What is not read holds the server back. Leaving a loop early stops the turn.
 */
export class Turn implements AsyncIterable<TurnEvent> {
  status: TurnStatus = "waiting";
  /** What was said so far, of what was read. */
  said = "";
  /** The reasoning so far, of what was read. */
  reasoning = "";
  /** The name of the turn at the server, once it has begun. */
  run: string | undefined;
  end: End | undefined;
  error: TurnError | undefined;

  private readonly queue: Queued[] = [];
  private waiting: ((ready: void) => void) | undefined;
  private claimed = false;
  private over = false;
  private dropped = false;
  private ended: (() => void)[] = [];
  private readonly listeners = new Set<(event: TurnEvent) => void>();

  constructor(
    readonly session: string,
    /** What was asked; undefined where somebody else has asked. */
    readonly input: Input | undefined,
    private readonly host: TurnHost,
  ) {}

  get position(): TurnPosition {
    return this.host.position();
  }

  /** Whether nothing more comes. */
  get finished(): boolean {
    return this.over;
  }

  /** Whether somebody reads it already. */
  get reading(): boolean {
    return this.claimed;
  }

  /** Stops the agent. The events go on to their end, which says `interrupted`. */
  stop(reason?: string): void {
    if (this.over || this.status === "stopping") return;
    this.status = "stopping";
    this.host.stop(reason);
  }

  /** The whole answer. Throws a `TurnError` where the turn failed; one that was stopped gives what was said until then. */
  async text(): Promise<string> {
    if (!this.claimed) for await (const event of this) void event;
    else if (!this.over) await new Promise<void>((resolve) => this.ended.push(resolve));
    if (this.error) throw this.error;
    return this.said;
  }

  /** The end, once it is there. Reads the turn if nobody else does. */
  async done(): Promise<End> {
    await this.text();
    return this.end ?? { finish: "complete" };
  }

  /** The answer in pieces. A piece that has to be taken back (`restarted`) throws: read events where that may happen. */
  async *textStream(): AsyncGenerator<string, void, undefined> {
    for await (const event of this) {
      if (event.type === "text") yield event.text;
      else if (event.type === "restarted") throw new TurnError("RESTARTED", "the turn began anew after a loss", "read events, and clear what was shown at `restarted`", true);
    }
  }

  [Symbol.asyncIterator](): AsyncIterator<TurnEvent> {
    if (this.claimed) throw new UsageError("this turn is being read already", "read a turn once, and use `said`, `end` and `text()` elsewhere");
    this.claimed = true;
    let done = false;
    return {
      next: async () => {
        while (!done) {
          const queued = this.queue.shift();
          if (queued) return { done: false, value: this.read(queued) };
          if (this.over) {
            done = true;
            const { error } = this;
            for (const resolve of this.ended.splice(0)) resolve();
            if (error) throw error;
            break;
          }
          await new Promise<void>((resolve) => (this.waiting = resolve));
        }
        return { done: true, value: undefined };
      },
      return: async () => {
        done = true;
        this.drop();
        return { done: true, value: undefined };
      },
    };
  }

  /** Tells of everything that is read from here on, whoever reads it. Returns how to stop that. */
  listen(listener: (event: TurnEvent) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** @internal Something happened. */
  push(event: TurnEvent, credit = 0): void {
    if (this.over) return;
    if (event.type === "end") {
      this.over = true;
      this.end = event.end;
    } else if (event.type === "status" && event.state === "queued") this.status = "queued";
    else if (this.status !== "stopping") this.status = "running";
    if (event.type === "start" && event.run !== undefined) this.run = event.run;
    if (this.dropped) return void this.read({ event, credit });
    this.queue.push({ event, credit });
    this.wake();
  }

  /** @internal It is over, and not well. */
  fail(error: TurnError): void {
    if (this.over) return;
    this.over = true;
    this.status = "failed";
    this.error = error;
    error.partial = this.said + this.queue.map(({ event }) => (event.type === "text" ? event.text : "")).join("");
    this.wake();
  }

  private read({ event, credit }: Queued): TurnEvent {
    if (credit > 0) this.host.consumed(credit);
    if (event.type === "text") this.said += event.text;
    else if (event.type === "reasoning") this.reasoning += event.text;
    else if (event.type === "restarted") this.said = this.reasoning = "";
    else if (event.type === "end") this.status = event.end.finish === "interrupted" ? "interrupted" : "done";
    for (const listener of [...this.listeners]) listener(event);
    return event;
  }

  /** Nobody reads on: the agent is stopped, and what comes until it has is thrown away. */
  private drop(): void {
    this.dropped = true;
    if (!this.over) this.stop();
    for (const queued of this.queue.splice(0)) this.read(queued);
    for (const resolve of this.ended.splice(0)) resolve();
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = undefined;
    waiting?.();
  }
}
