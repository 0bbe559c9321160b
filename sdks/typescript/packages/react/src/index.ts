/** React hooks for Switchboard. No DOM: they work in React Native as they do in a browser. */

import {
  type Approval, type AskOptions, type Client, type ConnectionState, type Input, type Question, type SwitchboardError, tool, type ToolDefinition, type Turn, UsageError,
} from "@switchboard/client";
import { createContext, createElement, type FunctionComponent, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { type ChatMessage, sessionStore, Store, turnStore, type TurnView } from "./stores.js";

export type { ChatMessage, SessionView, ToolUse, TurnView } from "./stores.js";

const Context = createContext<Client | undefined>(undefined);

/** Hands a client to the hooks below it. The client is made outside, and outlives every component. */
export const SwitchboardProvider: FunctionComponent<{ client: Client; children?: ReactNode }> = ({ client, children }) => createElement(Context.Provider, { value: client }, children);

export function useClient(given?: Client): Client {
  const provided = useContext(Context);
  const client = given ?? provided;
  if (!client) throw new UsageError("there is no client here", "put a <SwitchboardProvider client={…}> around the component, or hand in a client");
  return client;
}

export interface UseSession {
  messages: readonly ChatMessage[];
  /** The turn that runs, if one does. */
  turn: Turn | undefined;
  running: boolean;
  loaded: boolean;
  error: SwitchboardError | undefined;
  ask(input: Input, options?: AskOptions): Turn;
  stop(): void;
}

/** A conversation: what was said, what is being said, and how to say more. Goes on with what an earlier page has left running. */
export function useSession(name: string, options: { history?: boolean; client?: Client } = {}): UseSession {
  const client = useClient(options.client);
  const store = sessionStore(client, name, options.history ?? true);
  const view = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  const ask = useCallback((input: Input, asked?: AskOptions) => store.ask(input, asked), [store]);
  const stop = useCallback(() => store.stop(), [store]);
  return { ...view, running: view.turn !== undefined, ask, stop };
}

const NO_TURN = new Store<TurnView>({ text: "", reasoning: "", status: "waiting", tools: [] });

/** One turn as it goes on; reads it if nobody else does. */
export function useTurn(turn: Turn | undefined): TurnView & { stop(): void } {
  const store = turn ? turnStore(turn) : NO_TURN;
  const view = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  const stop = useCallback(() => turn?.stop(), [turn]);
  return { ...view, stop };
}

/** Offers a tool for as long as the component is there. Its functions are those of the latest render. */
export function useTool<Args>(definition: ToolDefinition<Args>, given?: Client): void {
  const client = useClient(given);
  const latest = useRef(definition);
  useEffect(() => {
    latest.current = definition;
  });
  const { name, description, readOnly, destructive, idempotent } = definition;
  const asks = definition.confirm !== undefined && definition.confirm !== false;
  // What it looks like to the agent; a schema that is made anew in each render is the same schema.
  const shape = useMemo(() => JSON.stringify(tool({ ...definition, run: () => undefined }).inputSchema), [definition]);
  useEffect(
    () =>
      client.tool(
        tool<Args>({
          ...latest.current,
          ...(asks ? { confirm: (args: Args) => (typeof latest.current.confirm === "function" ? latest.current.confirm(args) : `May ${description ?? name} run?`) } : {}),
          run: (args, context) => latest.current.run(args, context),
        }),
      ),
    [client, name, description, readOnly, destructive, idempotent, asks, shape],
  );
}

class ClientStore<T> extends Store<T> {
  private following = false;

  constructor(
    private readonly read: () => T,
    private readonly follow: (changed: () => void) => void,
  ) {
    super(read());
  }

  protected override watched(): void {
    if (this.following) return;
    this.following = true;
    this.follow(() => this.set(this.read()));
    this.set(this.read());
  }
}

const connections = new WeakMap<Client, ClientStore<{ state: ConnectionState; error: SwitchboardError | undefined }>>();
const waiting = new WeakMap<Client, ClientStore<readonly (Question | Approval)[]>>();

/** How the connection is. */
export function useConnection(given?: Client): { state: ConnectionState; error: SwitchboardError | undefined; connect(): Promise<void> } {
  const client = useClient(given);
  let store = connections.get(client);
  if (!store) {
    let last: { state: ConnectionState; error: SwitchboardError | undefined } = { state: client.state, error: client.error };
    const read = () => (last.state === client.state && last.error === client.error ? last : (last = { state: client.state, error: client.error }));
    connections.set(client, (store = new ClientStore(read, (changed) => void (client.on("state", changed), client.on("error", changed)))));
  }
  const view = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  const connect = useCallback(() => client.connect(), [client]);
  return { ...view, connect };
}

/** Questions and approvals that wait for somebody, oldest first. */
export function useApprovals(given?: Client): readonly (Question | Approval)[] {
  const client = useClient(given);
  let store = waiting.get(client);
  if (!store) {
    let last: readonly (Question | Approval)[] = [...client.open];
    waiting.set(client, (store = new ClientStore(() => last, (changed) => void client.on("open", (open) => ((last = open), changed())))));
  }
  return useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
}
