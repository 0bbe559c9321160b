/**
 * What this package needs of the place where it runs, and nothing else: no DOM, no Node built-ins. Each of them can be
 * handed in, and is taken from `globalThis` otherwise.
 */

export interface SocketLike {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount?: number;
  onopen: ((event: unknown) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code?: number; reason?: string }) => void) | null;
  onerror: ((event: unknown) => void) | null;
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
}

/** The constructor `WebSocket` of browsers, Bun, React Native and Node 22; in Node 20 the one of the package `ws`. */
export type SocketConstructor = new (url: string, protocols?: string[]) => SocketLike;

export interface ResponseLike {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: { get(name: string): string | null };
  readonly body?: unknown;
  text(): Promise<string>;
}

export interface RequestInitLike {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  signal?: AbortSignalLike;
}

export type FetchLike = (url: string, init?: RequestInitLike) => Promise<ResponseLike>;

export interface AbortSignalLike {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** Timers, and a clock of milliseconds. It may jump: a laptop that slept shows as a timer that is late. */
export interface Clock {
  now(): number;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** `localStorage`, `sessionStorage`, and React Native's `AsyncStorage` are of this shape. */
export interface StorageLike {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): unknown;
  removeItem(key: string): unknown;
}

interface Globals {
  WebSocket?: SocketConstructor;
  fetch?: FetchLike;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  crypto?: { getRandomValues(bytes: Uint8Array): Uint8Array };
  TextDecoder?: new (label: string, options: { fatal: boolean }) => { decode(bytes: Uint8Array): string };
  TextEncoder?: new () => { encode(text: string): Uint8Array };
  AbortController?: new () => { readonly signal: AbortSignalLike; abort(): void };
  addEventListener?(type: string, listener: () => void): void;
  removeEventListener?(type: string, listener: () => void): void;
  location?: { href: string };
  navigator?: { onLine?: boolean };
}

export const platform = globalThis as unknown as Globals;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (run, ms) => platform.setTimeout(run, ms),
  clearTimeout: (timer) => platform.clearTimeout(timer),
};

/** Letters and digits that nobody can guess, if this place has a source of random numbers. */
export function randomId(length = 24): string {
  const bytes = new Uint8Array(length);
  if (platform.crypto) platform.crypto.getRandomValues(bytes);
  else for (let at = 0; at < length; at += 1) bytes[at] = Math.random() * 256;
  let text = "";
  for (const byte of bytes) text += (byte % 36).toString(36);
  return text;
}
