/**
 * What every client needs around its machine: sockets, timers, tokens, and the news of the place where it runs. All decisions are
 * the machine's.
 */

import { UsageError } from "./errors.js";
import type { Input, Machine } from "./machine.js";
import { type Clock, type FetchLike, platform, type SocketConstructor, type SocketLike, systemClock } from "./platform.js";
import type { ClientOptions } from "./types.js";

/** A timer that is this late means that the place slept, or stood still. */
const LATE_MS = 5_000;
const CONNECT_TIMEOUT_MS = 10_000;
const PROBE_TIMEOUT_MS = 5_000;
/** A token is renewed this long before it runs out, or after four fifths of its time if that is sooner. */
const RENEW_BEFORE_MS = 60_000;

export interface DriverHooks<Event> {
  /** The address of the WebSocket. */
  url: string;
  protocols(token: string | undefined): string[];
  event(event: Event): void;
  /** The credential runs out soon, and this is the next one. */
  renewed(token: string): void;
  /** The machine has been drained. */
  settled?(): void;
}

export class Driver<Event> {
  online = platform.navigator?.onLine !== false;

  private readonly clock: Clock;
  private readonly Socket: SocketConstructor | undefined;
  private readonly fetch: FetchLike | undefined;
  private socket: SocketLike | undefined;
  /** The attempt to open a socket that counts; an older one is nobody's any more. */
  private attempt = 0;
  private timer: unknown;
  private renewal: unknown;
  private draining = false;
  private wall: number;
  private elapsed = 0;
  private removeListeners: (() => void) | undefined;

  constructor(
    private readonly machine: Machine<Event>,
    private readonly options: ClientOptions,
    private readonly hooks: DriverHooks<Event>,
  ) {
    this.clock = options.clock ?? systemClock;
    this.Socket = options.WebSocket ?? platform.WebSocket;
    const fetch = options.fetch ?? platform.fetch;
    this.fetch = fetch && ((url, init) => fetch.call(globalThis, url, init));
    this.wall = this.clock.now();
  }

  /** Milliseconds that do not go back, whatever the clock on the wall does. */
  now(): number {
    const wall = this.clock.now();
    this.elapsed += Math.max(0, wall - this.wall);
    this.wall = wall;
    return this.elapsed;
  }

  /** The time on the wall of a time of this driver. */
  wallOf(at: number): number {
    return at - this.now() + this.wall;
  }

  ofWall(wall: number): number {
    return this.now() + wall - this.wall;
  }

  /** To be called after every command to the machine. */
  drain(): void {
    if (this.draining) return;
    this.draining = true;
    try {
      for (let output = this.machine.poll(); output; output = this.machine.poll()) {
        switch (output.type) {
          case "connect":
            void this.dial();
            break;
          case "send":
            this.socket?.send(output.data);
            break;
          case "close":
            this.hangUp(output.code);
            break;
          case "event":
            this.hooks.event(output.event);
        }
      }
    } finally {
      this.draining = false;
    }
    this.arm();
    this.hooks.settled?.();
  }

  input(input: Input): void {
    this.machine.handle(input, this.now());
    this.drain();
  }

  /** Listens for the network and the page to come back. */
  watch(): void {
    if (this.removeListeners || !platform.addEventListener) return;
    const online = () => {
      this.online = true;
      this.input({ type: "woken" });
    };
    const offline = () => {
      this.online = false;
      this.input({ type: "woken" });
    };
    const shown = () => this.input({ type: "woken" });
    const listeners: [string, () => void][] = [["online", online], ["offline", offline], ["pageshow", shown], ["focus", shown]];
    for (const [type, listener] of listeners) platform.addEventListener(type, listener);
    this.removeListeners = () => {
      for (const [type, listener] of listeners) platform.removeEventListener?.(type, listener);
    };
  }

  /** Nothing is kept alive by this driver any more. */
  rest(): void {
    this.clock.clearTimeout(this.timer);
    this.clock.clearTimeout(this.renewal);
    this.removeListeners?.();
    this.removeListeners = undefined;
  }

  async token(): Promise<string | undefined> {
    const { token } = this.options;
    const given = typeof token === "function" ? await token() : token;
    if (given !== undefined && !/^[\x21-\x7e]+$/.test(given)) throw new UsageError("the token is not one", "a token has visible ASCII letters alone, without blanks");
    return given;
  }

  /** An HTTP request to the same server, with the same credential. */
  async http(path: string, init: { method?: string; headers?: Record<string, string>; body?: string; signal?: never } = {}) {
    if (!this.fetch) throw new UsageError("there is no `fetch` here", "hand one in as the option `fetch`");
    const token = await this.token();
    const base = this.hooks.url.replace(/^ws/, "http");
    const url = new RegExp("^(https?://[^/?#]+)").exec(base)![1]! + path;
    const headers = { ...init.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    return this.fetch(url, { ...init, headers });
  }

  private async dial(): Promise<void> {
    const attempt = ++this.attempt;
    const current = () => attempt === this.attempt;
    let token;
    try {
      token = await this.token();
    } catch (error) {
      if (current()) this.input({ type: "refused", status: error instanceof UsageError ? 400 : 503, message: `no token: ${error instanceof Error ? error.message : String(error)}` });
      return;
    }
    if (!current()) return;
    if (!this.Socket) {
      this.input({ type: "refused", status: 400, message: "there is no WebSocket here: hand one in as the option `WebSocket`, in Node 20 that of the package `ws`" });
      return;
    }
    this.renewLater(token);
    let socket: SocketLike;
    try {
      const protocols = this.hooks.protocols(token);
      socket = protocols.length > 0 ? new this.Socket(this.hooks.url, protocols) : new this.Socket(this.hooks.url);
    } catch (error) {
      this.input({ type: "refused", status: 400, message: error instanceof Error ? error.message : String(error) });
      return;
    }
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let opened = false;
    const mine = () => this.socket === socket;
    const failed = () => {
      if (!mine() || opened) return;
      this.clock.clearTimeout(timeout);
      this.forget(socket);
      void this.probe(token).then((input) => {
        if (current()) this.input(input);
      });
    };
    const timeout = this.clock.setTimeout(() => {
      if (!mine() || opened) return;
      this.forget(socket);
      socket.close();
      this.input({ type: "unreachable" });
    }, this.options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
    socket.onopen = () => {
      if (!mine()) return;
      opened = true;
      this.clock.clearTimeout(timeout);
      this.input({ type: "opened" });
    };
    socket.onmessage = ({ data }) => {
      if (!mine()) return;
      if (typeof data === "string") this.input({ type: "message", data });
      else if (data instanceof ArrayBuffer) this.input({ type: "message", data: new Uint8Array(data) });
      else if (ArrayBuffer.isView(data)) this.input({ type: "message", data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) });
    };
    socket.onerror = () => failed();
    socket.onclose = ({ code }) => {
      if (!opened) return failed();
      if (!mine()) return;
      this.forget(socket);
      this.input({ type: "closed", code: code === undefined || code === 1005 ? 1006 : code });
    };
  }

  /**
   * A WebSocket does not say why it could not be opened, so the server is asked over HTTP, with a request that looks at nothing but the
   * credential; a server that does not know it is asked at the address itself. No answer counts as unreachable.
   */
  private async probe(token: string | undefined): Promise<Input> {
    const address = this.hooks.url.replace(/^ws/, "http");
    let refused = await this.ask(`${/^https?:\/\/[^/?#]+/.exec(address)![0]}/admin/v1/agents`, token);
    if (refused?.status === 404) refused = await this.ask(address, token);
    return refused && refused.status !== 426 && refused.status !== 400 ? refused : { type: "unreachable" };
  }

  private async ask(url: string, token: string | undefined): Promise<(Input & { type: "refused" }) | undefined> {
    if (!this.fetch) return undefined;
    const controller = platform.AbortController && new platform.AbortController();
    const timeout = this.clock.setTimeout(() => controller?.abort(), PROBE_TIMEOUT_MS);
    try {
      const response = await this.fetch(url, {
        headers: { accept: "application/json", ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
        ...(controller ? { signal: controller.signal } : {}),
      });
      const { status } = response;
      const message = messageOf(await response.text());
      const after = Number(response.headers.get("retry-after"));
      return status < 400 ? undefined : { type: "refused", status, ...(after > 0 ? { retryAfterMs: after * 1000 } : {}), ...(message ? { message } : {}) };
    } catch {
      return undefined;
    } finally {
      this.clock.clearTimeout(timeout);
    }
  }

  private forget(socket: SocketLike): void {
    if (this.socket === socket) this.socket = undefined;
    // Errors of a socket that nobody wants any more are nobody's.
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => undefined;
  }

  private hangUp(code: number): void {
    this.attempt += 1;
    const { socket } = this;
    if (!socket) return;
    this.forget(socket);
    // A page may close with 1000 and its own codes only.
    const allowed = code === 1000 || (code >= 3000 && code < 5000);
    if (allowed) socket.close(code);
    else if (code === 1001) socket.close(4001, "going away");
    else socket.close();
  }

  private arm(): void {
    this.clock.clearTimeout(this.timer);
    const wake = this.machine.wake();
    if (wake === undefined) return;
    const ms = Math.min(Math.max(0, wake - this.now()), 2 ** 30);
    const due = this.now() + ms;
    this.timer = this.clock.setTimeout(() => {
      const late = this.now() - due > LATE_MS;
      // A clock that was set back must not make the timer come to nothing.
      this.elapsed = Math.max(this.elapsed, due);
      this.machine.handle({ type: late ? "woken" : "timeout" }, this.now());
      this.drain();
    }, ms);
  }

  /** A token that says when it runs out is replaced before. */
  private renewLater(token: string | undefined): void {
    this.clock.clearTimeout(this.renewal);
    const expires = typeof this.options.token === "function" ? expiryOf(token) : undefined;
    if (expires === undefined) return;
    const left = expires - this.clock.now();
    if (left <= 0) return;
    this.renewal = this.clock.setTimeout(() => void this.renew(), Math.min(2 ** 30, Math.max(1000, left - RENEW_BEFORE_MS, left * 0.2 > RENEW_BEFORE_MS ? 0 : left * 0.8)));
  }

  /** Asks for a token, and goes on with it. */
  async renew(): Promise<void> {
    if (typeof this.options.token !== "function") return;
    try {
      const token = await this.token();
      if (token === undefined) return;
      this.renewLater(token);
      this.hooks.renewed(token);
    } catch {
      // The next connection asks again, and says what is wrong.
    }
  }
}

/** Milliseconds since 1970 at which a JSON Web Token runs out. */
function expiryOf(token: string | undefined): number | undefined {
  const claims = token?.split(".")[1];
  if (!claims) return undefined;
  try {
    const decode = (globalThis as unknown as { atob(text: string): string }).atob;
    const { exp } = JSON.parse(decode(claims.replaceAll("-", "+").replaceAll("_", "/"))) as { exp?: unknown };
    return typeof exp === "number" ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** The words of an error body, whichever protocol it is of. */
function messageOf(body: string): string | undefined {
  try {
    const parsed = JSON.parse(body) as { error?: string | { msg?: string; message?: string }; message?: string; errorMessage?: string };
    const { error } = parsed;
    return (typeof error === "object" ? (error.msg ?? error.message) : (parsed.message ?? parsed.errorMessage ?? error)) ?? undefined;
  } catch {
    return body.length > 0 && body.length < 200 ? body : undefined;
  }
}

/** The address of a WebSocket from what the user gave: any scheme, with or without a path. */
export function socketUrl(given: string, path: string, query: Record<string, string | undefined>, allowPlaintext: boolean, hasToken: boolean): string {
  let text = given;
  const page = platform.location?.href;
  if (text.startsWith("/") && page) text = (/^https?:\/\/[^/]+/.exec(page)?.[0] ?? "") + text;
  const parts = /^(wss?|https?):\/\/([^/?#@]+)(\/[^?#]*)?(?:[?#].*)?$/.exec(text);
  if (!parts) throw new UsageError(`${given} is not the URL of a server`, "give https://host, wss://host, or in a page a path that begins with /");
  const secure = parts[1] === "wss" || parts[1] === "https";
  const host = parts[2]!.replace(/:\d+$/, "");
  const local = host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127\./.test(host);
  if (!secure && hasToken && !local && !allowPlaintext) throw new UsageError("the token would travel unencrypted", "use https: or wss:, or permit it with `allowPlaintext`");
  const base = (parts[3] ?? "").replace(/\/+$/, "");
  const asked = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const search = asked.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  return `${secure ? "wss" : "ws"}://${parts[2]!}${base.endsWith(path) ? base : base + path}${search ? `?${search}` : ""}`;
}
