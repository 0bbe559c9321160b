/**
 * What components show, kept outside of them: a store is made once per client and name, is read by any number of components, and does
 * not care whether React mounts them twice, throws a render away, or renders on a server.
 */

import type { Client, Input, Message, SwitchboardError, Turn, TurnEvent, TurnStatus, Value } from "@switchboard/client";

export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  readonly snapshot = (): T => this.value;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    this.watched();
    return () => void this.listeners.delete(listener);
  };

  protected watched(): void {
    // Nothing has to begin.
  }

  protected set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }
}

export interface ToolUse {
  id: string;
  name: string;
  /** Whether it runs in this page. */
  own: boolean;
  state: "running" | "done" | "failed";
  args?: Value;
  output?: Value;
  error?: string;
}

export interface TurnView {
  text: string;
  reasoning: string;
  status: TurnStatus;
  tools: readonly ToolUse[];
  usage?: Record<string, number>;
  place?: number;
  error?: SwitchboardError;
}

const EMPTY: TurnView = { text: "", reasoning: "", status: "waiting", tools: [] };

/** One turn as it is shown. It is read by this store unless somebody else reads it. */
export class TurnStore extends Store<TurnView> {
  private started = false;

  constructor(readonly turn: Turn) {
    super({ ...EMPTY, text: turn.said, reasoning: turn.reasoning, status: turn.status });
  }

  protected override watched(): void {
    this.start();
  }

  start(): void {
    if (this.started) return;
    this.started = true;
    this.turn.listen((event) => this.set(apply(this.snapshot(), event, this.turn)));
    const finish = () => this.set({ ...this.snapshot(), status: this.turn.status, ...(this.turn.error ? { error: this.turn.error } : {}) });
    this.turn.text().then(finish, finish);
  }
}

function apply(view: TurnView, event: TurnEvent, turn: Turn): TurnView {
  const next = { ...view, status: turn.status };
  switch (event.type) {
    case "text":
      return { ...next, text: turn.said };
    case "reasoning":
      return { ...next, reasoning: turn.reasoning };
    case "restarted":
      return { ...EMPTY, status: turn.status };
    case "usage":
      return { ...next, usage: event.usage };
    case "status":
      return { ...next, ...(event.place === undefined ? {} : { place: event.place }) };
    case "call":
      return { ...next, tools: [...view.tools, { id: event.id, name: event.name, own: true, state: "running", args: event.args }] };
    case "result":
      return { ...next, tools: changed(view.tools, event.id, { state: event.ok ? "done" : "failed", ...(event.output === undefined ? {} : { output: event.output }), ...(event.error ? { error: event.error.message } : {}) }) };
    case "tool":
      if (event.phase === "start") return { ...next, tools: [...view.tools, { id: event.id, name: event.name, own: false, state: "running", ...(event.args === undefined ? {} : { args: event.args }) }] };
      if (event.phase === "delta") return next;
      return { ...next, tools: changed(view.tools, event.id, { state: event.phase === "done" ? "done" : "failed", ...(event.output === undefined ? {} : { output: event.output }) }) };
    default:
      return next;
  }
}

function changed(tools: readonly ToolUse[], id: string, change: Partial<ToolUse>): ToolUse[] {
  return tools.map((tool) => (tool.id === id ? { ...tool, ...change } : tool));
}

export interface ChatMessage {
  id: string;
  role: "user" | "assistant" | "system";
  text: string;
  /** The turn that gives this answer, while this page knows it. */
  turn?: Turn;
}

export interface SessionView {
  messages: readonly ChatMessage[];
  /** The latest turn that is not over. */
  turn: Turn | undefined;
  /** Whether what was said earlier is there. */
  loaded: boolean;
  error: SwitchboardError | undefined;
}

const NOTHING: SessionView = { messages: [], turn: undefined, loaded: false, error: undefined };

/** One session as it is shown: what was said, and what is being said. */
export class SessionStore extends Store<SessionView> {
  private loading: Promise<void> | undefined;
  private known: Message[] = [];
  private own: ChatMessage[] = [];
  private last = 0;

  constructor(
    private readonly client: Client,
    private readonly name: string,
    private readonly history: boolean,
  ) {
    super(NOTHING);
  }

  protected override watched(): void {
    void this.load();
  }

  /** Takes up what an earlier page has left running, and reads what was said before. */
  load(): Promise<void> {
    return (this.loading ??= this.begin());
  }

  ask(input: Input, options?: Parameters<ReturnType<Client["session"]>["ask"]>[1]): Turn {
    const turn = this.client.session(this.name).ask(input, options);
    this.show(turn, input);
    return turn;
  }

  /** Stops what runs. */
  stop(): void {
    for (const { turn } of this.own) if (turn && !turn.finished) turn.stop();
  }

  private async begin(): Promise<void> {
    let error: SwitchboardError | undefined;
    const session = this.client.session(this.name);
    try {
      const left = await session.resume();
      if (left) this.show(left, left.input, true);
      if (this.history) this.known = await session.history();
    } catch (thrown) {
      error = thrown as SwitchboardError;
    }
    this.update({ loaded: true, ...(error ? { error } : {}) });
  }

  private show(turn: Turn, input: Input | undefined, before = false): void {
    const number = (this.last += 1);
    const answer: ChatMessage = { id: `a${number}`, role: "assistant", text: "", turn };
    const pair: ChatMessage[] = [...(input === undefined ? [] : [{ id: `q${number}`, role: "user" as const, text: textOf(input) }]), answer];
    this.own = before ? [...pair, ...this.own] : [...this.own, ...pair];
    const store = turnStore(turn);
    store.subscribe(() => this.refresh(answer.id, store.snapshot()));
    this.update({ error: undefined });
  }

  private refresh(id: string, view: TurnView): void {
    this.own = this.own.map((message) => (message.id === id && message.text !== view.text ? { ...message, text: view.text } : message));
    this.update(view.error ? { error: view.error } : {});
  }

  private update(change: Partial<SessionView>): void {
    const turns = this.own.map(({ turn }) => turn).filter((turn) => turn !== undefined);
    // What this page has seen itself is not shown a second time by the history that it has read meanwhile.
    const runs = new Set(turns.map(({ run }) => run).filter((run) => run !== undefined));
    const earlier = this.known.filter(({ id }) => !runs.has(id.replace(/\.(in|out)$/, ""))).map(({ id, role, text }) => ({ id, role, text }));
    this.set({ ...this.snapshot(), messages: [...earlier, ...this.own], turn: turns.filter((turn) => !turn.finished).at(-1), ...change });
  }
}

export function textOf(input: Input): string {
  return typeof input === "string" ? input : input.map((part) => (part.type === "text" ? part.text : "")).join("");
}

const turns = new WeakMap<Turn, TurnStore>();

export function turnStore(turn: Turn): TurnStore {
  let store = turns.get(turn);
  if (!store) turns.set(turn, (store = new TurnStore(turn)));
  return store;
}

const sessions = new WeakMap<Client, Map<string, SessionStore>>();

export function sessionStore(client: Client, name: string, history: boolean): SessionStore {
  let known = sessions.get(client);
  if (!known) sessions.set(client, (known = new Map()));
  const key = `${history}:${name}`;
  let store = known.get(key);
  if (!store) known.set(key, (store = new SessionStore(client, name, history)));
  return store;
}
