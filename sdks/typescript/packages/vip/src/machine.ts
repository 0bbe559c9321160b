/** The state machine of a session: the table of legal transitions, and a copy of where the session is. */

import type { State } from "./events.js";

export const STATES: readonly State[] = [
  "not_connected",
  "connecting",
  "idle",
  "user_speaking",
  "ai_thinking",
  "ai_speaking",
  "invoke_action",
];

export type Trigger =
  | "client.connect"
  | "server.ready"
  | "input.start"
  | "server.announce"
  | "input.end"
  | "input.cancel"
  | "response.audio"
  | "response.tool"
  | "input.barge_in"
  | "audio.complete"
  | "action.result"
  | "action.done"
  | "session.close"
  | "transport.lost"
  | "error.recoverable"
  | "response.none";

/** Every legal transition; what is not here is not legal. `*` stands for every connected state. */
export const MATRIX: readonly { from: State | "*"; to: State; trigger: Trigger }[] = [
  { from: "not_connected", to: "connecting", trigger: "client.connect" },
  { from: "connecting", to: "idle", trigger: "server.ready" },
  { from: "idle", to: "user_speaking", trigger: "input.start" },
  { from: "idle", to: "ai_speaking", trigger: "server.announce" },
  { from: "user_speaking", to: "ai_thinking", trigger: "input.end" },
  { from: "user_speaking", to: "idle", trigger: "input.cancel" },
  { from: "ai_thinking", to: "ai_speaking", trigger: "response.audio" },
  { from: "ai_thinking", to: "invoke_action", trigger: "response.tool" },
  { from: "ai_thinking", to: "user_speaking", trigger: "input.barge_in" },
  { from: "ai_thinking", to: "idle", trigger: "error.recoverable" },
  { from: "ai_thinking", to: "idle", trigger: "response.none" },
  { from: "ai_speaking", to: "idle", trigger: "audio.complete" },
  { from: "ai_speaking", to: "user_speaking", trigger: "input.barge_in" },
  { from: "invoke_action", to: "ai_thinking", trigger: "action.result" },
  { from: "invoke_action", to: "idle", trigger: "action.done" },
  { from: "*", to: "not_connected", trigger: "session.close" },
  { from: "*", to: "not_connected", trigger: "transport.lost" },
];

const ALIASES: { readonly [name: string]: State } = {
  listening: "user_speaking",
  processing: "ai_thinking",
  speaking: "ai_speaking",
  action: "invoke_action",
};

/** The state of that name, or of an older name for it. */
export function stateNamed(name: string): State | undefined {
  return STATES.find((state) => state === name) ?? ALIASES[name];
}

/** Where the trigger leads from there, if anywhere. */
export function transition(from: State, trigger: Trigger): State | undefined {
  const row = MATRIX.find((row) => row.trigger === trigger && (row.from === from || (row.from === "*" && from !== "not_connected")));
  return row?.to;
}

/** Whether the trees of the screen may be sent there. */
export function takesContext(state: State): boolean {
  return state === "connecting" || state === "idle" || state === "ai_speaking" || state === "invoke_action";
}

export interface Transition {
  state: State;
  previous: State;
  trigger: string;
  seq: number;
}

/**
 * This side's copy of the state. Where the server decides, it is told with `adopt`; where this side
 * decides, it moves with `fire`, and never outside of the matrix.
 */
export class Machine {
  state: State = "not_connected";
  /** The number of the state: 0 while connecting, one more with every transition after it. */
  seq = 0;
  private readonly listeners = new Set<(transition: Transition) => void>();

  /** Hears of every change from now on; returns how to stop that. */
  watch(listener: (transition: Transition) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Moves by the trigger; false, and nothing moves, if the matrix has no such transition. */
  fire(trigger: Trigger): boolean {
    const to = transition(this.state, trigger);
    if (to === undefined) return false;
    this.move(to, trigger, to === "connecting" || to === "not_connected" ? 0 : this.seq + 1);
    return true;
  }

  /** Is where the server says it is. */
  adopt(state: State, seq: number, trigger: string): void {
    this.seq = seq;
    if (state !== this.state) this.move(state, trigger, seq);
  }

  private move(state: State, trigger: string, seq: number): void {
    const previous = this.state;
    this.state = state;
    this.seq = seq;
    for (const listener of [...this.listeners]) listener({ state, previous, trigger, seq });
  }
}
