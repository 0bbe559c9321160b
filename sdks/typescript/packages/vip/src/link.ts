/** How the rest talks to a runtime, whichever it is: the server, or a provider behind an adapter. */

import type { Emitter } from "./emitter.js";
import type {
  ActionResult, ClientEvent, ClientEvents, ClientType, ContextFull, Correlation, ErrorData, ServerEvent, SessionGrant, TurnDetection,
} from "./events.js";
import type { AudioFrame } from "./frames.js";
import type { Machine } from "./machine.js";

/** What turns and speech need of a runtime. */
export interface Link {
  readonly machine: Machine;
  readonly turnDetection: TurnDetection;
  /** Whether sound travels in frames, or beside them as tracks. */
  readonly framed: boolean;
  /** Sends an event; returns its id. */
  send<Type extends ClientType>(type: Type, data: ClientEvents[Type], correlation?: Correlation): string;
  sendFrame(frame: AudioFrame): void;
}

/** What came or went. */
export interface Traffic {
  direction: "in" | "out";
  event: ClientEvent | ServerEvent;
}

export interface RuntimeEvents {
  event: ServerEvent;
  frame: AudioFrame;
  traffic: Traffic;
  track: MediaStream;
  /** A transport is up and the server has accepted it; the tree follows. */
  connected: { resumed: boolean };
  /** The transport is gone; another is tried in so many milliseconds. */
  reconnecting: { attempt: number; delayMs: number };
  /** It is over, and nothing is tried any more. */
  ended: { code: number; reason: string; error?: ErrorData };
}

/** Where the screens of handshakes come from. */
export interface ContextSource {
  full(): ContextFull | undefined;
  /** The other side has at most this version, and wants everything again. */
  resync(version: number): void;
}

/** A session as the page sees it, wherever its runtime is. */
export interface Runtime extends Link, Emitter<RuntimeEvents> {
  readonly grant: SessionGrant | undefined;
  /** Samples per second of what is heard from the microphone, and of what comes back. */
  readonly rates: { input: number; output: number };
  context: ContextSource | undefined;
  /** The microphone, for a transport that carries it as a track. */
  microphone: MediaStreamTrack | undefined;
  /** Picks up the session of this tab, or creates one. Done once it is ready. */
  start(): Promise<void>;
  hangUp(reason?: ClientEvents["session.close"]["reason"]): Promise<void>;
  /** Sends a result, or keeps it for the next transport. */
  sendResult(result: ActionResult): void;
  /** Remembers the version of the screen that was sent last, so that it only ever grows. */
  noteContext(version: number): void;
  /** A request about the session, with its own token. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
}
