/**
 * Internal mode: sound goes straight to a provider, and only control goes to the server. This side
 * keeps the state, tells the server of every step, and is the one that lets actions through.
 */

import { NativeAdapter } from "./adapters/native.js";
import { RealtimeAdapter } from "./adapters/realtime.js";
import { Emitter } from "./emitter.js";
import type {
  ActionResult, ClientEvent, ClientEvents, ClientType, ContextFull, Correlation, HistoryItem, JsonObject, Provider,
  Role, ServerEvent, ServerEvents, ServerType, SessionGrant, TurnDetection,
} from "./events.js";
import type { AudioFrame } from "./frames.js";
import type { ContextSource, Runtime, RuntimeEvents } from "./link.js";
import { Machine, stateNamed, type Transition, type Trigger } from "./machine.js";
import type { Session } from "./session.js";
import { openSocket, type SocketFactory, type TransportEvents } from "./transport.js";

/** Speaks a provider's own language on one side, and this protocol's on the other. */
export interface Adapter {
  readonly rates: { input: number; output: number };
  /** Connects to the provider; returns what it calls the session. */
  open(context: ContextFull | undefined): Promise<string | undefined>;
  send(event: ClientEvent): void;
  sendFrame(frame: AudioFrame): void;
  close(): void;
}

/** What an adapter needs of the session. */
export interface AdapterHost {
  readonly provider: Provider;
  readonly sessionId: string;
  readonly machine: Machine;
  /** Says something to the page, as a server would. */
  say<Type extends ServerType>(type: Type, data: ServerEvents[Type], correlation?: Correlation): void;
  /** Moves the state, and says so; false where the matrix does not have it. */
  move(trigger: Trigger, turnId?: string): boolean;
  frame(frame: AudioFrame): void;
  /** Has the server run one of its functions. */
  call(invocationId: string, name: string, parameters: JsonObject): Promise<ServerEvents["function.result"]>;
  socket(url: string, protocols: string[], events: TransportEvents): ReturnType<typeof openSocket>;
  lost(reason: string): void;
}

export type AdapterFactory = (host: AdapterHost) => Adapter;

const ADAPTERS: { readonly [name: string]: AdapterFactory } = {
  "vip-native": (host) => new NativeAdapter(host),
  "openai-realtime-v1": (host) => new RealtimeAdapter(host),
};

/** Everything else is between this side and the provider. */
const FOR_CONTROL: readonly ClientType[] = [
  "state.update", "session.close", "session.ping", "control.mute", "error.recoverable", "error.fatal", "function.call",
];
const CALL_TIMEOUT_MS = 30_000;
const FRESH_ENOUGH_MS = 5_000;

export class InternalSession extends Emitter<RuntimeEvents> implements Runtime {
  readonly machine = new Machine();
  readonly framed = true;
  microphone: MediaStreamTrack | undefined;
  private source: ContextSource | undefined;
  private shown: ContextFull | undefined;
  private adapter: Adapter | undefined;
  private sent = 0;
  private received = 0;
  private said = 0;
  private turnId: string | undefined;
  private readonly calls = new Map<string, (result: ServerEvents["function.result"]) => void>();

  constructor(
    private readonly control: Session,
    private readonly adapters: { readonly [name: string]: AdapterFactory } = ADAPTERS,
    private readonly socketFactory?: SocketFactory,
  ) {
    super();
    control.on("traffic", (traffic) => this.emit("traffic", traffic));
    control.on("reconnecting", (news) => this.emit("reconnecting", news));
    control.on("connected", (news) => void this.attach(news.resumed));
    control.on("event", (event) => this.controlled(event));
    control.on("ended", (news) => {
      this.detach();
      this.emit("ended", news);
    });
    this.machine.watch((transition) => this.report(transition));
  }

  get context(): ContextSource | undefined {
    return this.source;
  }

  /** Both the server and the provider are shown the same screen. */
  set context(source: ContextSource | undefined) {
    this.source = source;
    this.control.context = source && {
      full: () => (this.shown = source.full()),
      resync: (version) => source.resync(version),
    };
  }

  get grant(): SessionGrant | undefined {
    return this.control.grant;
  }

  get turnDetection(): TurnDetection {
    return this.control.turnDetection;
  }

  get rates(): { input: number; output: number } {
    return this.adapter?.rates ?? this.control.rates;
  }

  start(): Promise<void> {
    this.machine.fire("client.connect");
    return this.control.start();
  }

  hangUp(reason: ClientEvents["session.close"]["reason"] = "user_hangup"): Promise<void> {
    this.detach();
    return this.control.hangUp(reason);
  }

  send<Type extends ClientType>(type: Type, data: ClientEvents[Type], correlation: Correlation = {}): string {
    if (correlation.turn_id) this.turnId = correlation.turn_id;
    let id = "";
    if (FOR_CONTROL.includes(type)) id = this.control.send(type, data, correlation);
    if (!FOR_CONTROL.includes(type) || type === "state.update") {
      const seq = ++this.sent;
      const event = { type, id: id || `p-${seq}`, seq, ts: Date.now(), state_seq: this.machine.seq, ...correlation, data } as ClientEvent;
      if (!id) this.emit("traffic", { direction: "out", event });
      id = event.id;
      this.adapter?.send(event);
    }
    return id;
  }

  sendFrame(frame: AudioFrame): void {
    this.adapter?.sendFrame(frame);
  }

  sendResult(result: ActionResult): void {
    this.send("action.result", result);
  }

  noteContext(version: number): void {
    this.control.noteContext(version);
  }

  call(method: string, path: string, body?: unknown): Promise<unknown> {
    return this.control.call(method, path, body);
  }

  /** The server has accepted this side: now the provider, and then the server is told. */
  private async attach(resumed: boolean): Promise<void> {
    this.emit("connected", { resumed });
    try {
      const provider = await this.freshProvider();
      const make = this.adapters[provider.adapter];
      if (!make) throw new Error(`there is no adapter for ${provider.adapter}`);
      this.adapter?.close();
      const adapter = make(this.host(provider));
      this.adapter = adapter;
      this.shown ??= this.source?.full();
      const id = await adapter.open(this.shown);
      this.control.send("provider.attached", { ...(id ? { provider_session_id: id } : {}), transport: "websocket" });
      if (!this.grant?.control) {
        this.control.readyWithoutControl();
        this.machine.fire("server.ready");
      }
    } catch (error) {
      this.lost(error instanceof Error ? error.message : "the provider cannot be reached");
    }
  }

  /** The credential opens a connection for a minute only; one from before a reload is stale. */
  private async freshProvider(): Promise<Provider> {
    const provider = this.grant?.provider;
    if (provider && provider.credential.expires_at * 1000 > Date.now() + FRESH_ENOUGH_MS) return provider;
    return (await this.control.call("POST", "/credential")) as Provider;
  }

  private host(provider: Provider): AdapterHost {
    return {
      provider,
      sessionId: this.grant?.session_id ?? "",
      machine: this.machine,
      say: (type, data, correlation = {}) => this.deliver(type, data, correlation),
      move: (trigger, turnId) => this.move(trigger, turnId),
      frame: (frame) => this.emit("frame", frame),
      call: (invocationId, name, parameters) => this.callFunction(invocationId, name, parameters),
      socket: (url, protocols, events) => openSocket(url, protocols, events, this.socketFactory),
      lost: (reason) => this.lost(reason),
    };
  }

  private deliver<Type extends ServerType>(type: Type, data: ServerEvents[Type], correlation: Correlation): void {
    const seq = ++this.received;
    const event = { type, id: `l-${seq}`, seq, ts: Date.now(), state_seq: this.machine.seq, ...correlation, data } as ServerEvent;
    if (event.type === "state.changed") {
      this.turnId = event.data.turn_id ?? this.turnId;
      this.machine.adopt(stateNamed(event.data.state) ?? "idle", event.data.state_seq, event.data.trigger);
      event.state_seq = this.machine.seq;
    }
    this.emit("traffic", { direction: "in", event });
    this.emit("event", event);
    if (event.type === "input.complete") this.remember("user", event.data.text, "complete", { turn_id: event.data.turn_id });
    if (event.type === "response.done" && event.data.text) {
      this.remember("assistant", event.data.text, event.data.status === "complete" ? "complete" : "incomplete", { response_id: event.data.response_id });
    }
  }

  private move(trigger: Trigger, turnId?: string): boolean {
    const previous = this.machine.state;
    if (turnId) this.turnId = turnId;
    if (!this.machine.fire(trigger)) return false;
    const { state, seq } = this.machine;
    this.deliver("state.changed", { state, previous, trigger, state_seq: seq, ...(turnId ? { turn_id: turnId } : {}) }, {});
    return true;
  }

  /** The server keeps a copy of the state; connecting and leaving it sees by itself. */
  private report({ state, previous, trigger }: Transition): void {
    if (state === "connecting" || previous === "connecting" || state === "not_connected" || previous === "not_connected") return;
    this.control.send("state.report", { state, previous, trigger, ...(this.turnId ? { turn_id: this.turnId } : {}) });
  }

  private controlled(event: ServerEvent): void {
    switch (event.type) {
      case "server.ready":
        this.machine.fire("server.ready");
        break;
      case "function.result":
        this.calls.get(event.data.invocation_id)?.(event.data);
        this.calls.delete(event.data.invocation_id);
        break;
      case "error.recoverable": {
        // The server's word on the state is the last one, here too.
        const named = event.data.code === "PROTO_INVALID_TRANSITION" ? stateNamed(event.data.details?.state ?? "") : undefined;
        if (named) this.machine.adopt(named, event.data.details?.state_seq ?? this.machine.seq, "error.recoverable");
        this.emit("event", event);
        break;
      }
      case "state.changed":
        break;
      default:
        this.emit("event", event);
        break;
    }
  }

  private callFunction(invocationId: string, name: string, parameters: JsonObject): Promise<ServerEvents["function.result"]> {
    return new Promise((resolve) => {
      const late = { invocation_id: invocationId, status: "error" as const, error: { code: "ACT_TIMEOUT", message: "the function did not answer" } };
      const timer = setTimeout(() => resolve(late), CALL_TIMEOUT_MS);
      this.calls.set(invocationId, (result) => {
        clearTimeout(timer);
        resolve(result);
      });
      this.control.send("function.call", { invocation_id: invocationId, name, parameters });
    });
  }

  private remember(role: Role, text: string, status: HistoryItem["status"], about: { turn_id?: string; response_id?: string }): void {
    const seq = ++this.said;
    const item: HistoryItem = { seq, id: `h-${seq}`, role, kind: "message", text, status, ...about, ts: Date.now(), metadata: {} };
    this.control.send("history.append", { items: [item] });
  }

  private lost(reason: string): void {
    if (!this.adapter && this.machine.state === "not_connected") return;
    this.detach();
    const message = reason.slice(0, 512);
    this.emit("event", {
      type: "error.fatal", id: `l-${++this.received}`, seq: this.received, ts: Date.now(), state_seq: 0,
      data: { code: "PROV_UNAVAILABLE", category: "provider", message, fatal: true, retryable: true },
    });
    void this.control.hangUp("error");
  }

  private detach(): void {
    const adapter = this.adapter;
    this.adapter = undefined;
    adapter?.close();
    this.machine.fire("session.close");
  }
}
