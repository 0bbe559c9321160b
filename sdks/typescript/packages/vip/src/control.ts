/** What is asked of the server over HTTP: a session, and everything about it. */

import type { Environment, ErrorData, Mode, SessionGrant, TurnDetection } from "./events.js";
import type { SocketFactory } from "./transport.js";

export interface SessionOptions {
  /** The origin of the server; this page's own if not given. */
  endpoint?: string;
  appId: string;
  environment?: Environment;
  /** Who is talked to: the server, or a provider that it hands out a credential for. */
  mode?: Mode;
  locale?: string;
  /** Gets a fresh App Token from the application's backend; needed in production. */
  appToken?: () => Promise<string>;
  turnDetection?: Partial<TurnDetection>;
  /** What carries the session. WebRTC falls back to WebSocket where the server has none. */
  transport?: "websocket" | "webrtc";
  confirmationChannels?: ("ui" | "voice")[];
  activateOn?: "manual" | "first_visit" | "connect";
  firstVisit?: boolean;
  instructions?: string;
  promptId?: string;
  client?: { name: string; version: string };
  metadata?: { [name: string]: string };
  extensions?: string[];
  /** Where the session is kept over a reload; null keeps it nowhere. */
  storage?: Storage | null;
  /** For tests. */
  socketFactory?: SocketFactory;
  fetch?: typeof fetch;
}

/** What a failed request was answered with. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly error: Partial<ErrorData>,
  ) {
    super(error.message ?? `the server answered ${status}`);
  }
}

/** A request about sessions. */
export interface Request {
  method: string;
  path: string;
  body?: unknown;
  token?: string | undefined;
  headers?: { [name: string]: string };
}

/** Sends it; returns what was answered, or throws a {@link RequestError}. */
export async function request(options: SessionOptions, { method, path, body, token, headers = {} }: Request): Promise<unknown> {
  const send = options.fetch ?? fetch.bind(globalThis);
  const answer = await send(new URL(path, options.endpoint ?? location.origin), {
    method,
    headers: {
      ...headers,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (answer.status === 204) return undefined;
  const value = (await answer.json().catch(() => ({}))) as { error?: Partial<ErrorData> };
  if (!answer.ok) throw new RequestError(answer.status, value.error ?? {});
  return value;
}

/** Has a session made. */
export async function createSession(options: SessionOptions): Promise<SessionGrant> {
  const prompt = { ...(options.promptId ? { id: options.promptId } : {}), ...(options.instructions ? { instructions: options.instructions } : {}) };
  const body = {
    protocol_versions: ["0.1"],
    environment: options.environment ?? "production",
    mode: options.mode ?? "external",
    app_id: options.appId,
    client: { name: options.client?.name ?? "switchboard-vip", version: options.client?.version ?? "0.1.0", platform: "web" },
    locale: options.locale ?? (navigator.language || "en-US"),
    capabilities: {
      transports: options.transport === "webrtc" ? ["webrtc", "websocket"] : ["websocket"],
      actions: true,
      text_input: true,
      resume: true,
      confirmation_channels: options.confirmationChannels ?? ["ui"],
      extensions: options.extensions ?? [],
    },
    audio: { input_formats: ["pcm16/16000"], output_formats: ["pcm16/24000"], framing: "binary" },
    ...(options.turnDetection ? { turn_detection: options.turnDetection } : {}),
    ...(Object.keys(prompt).length ? { prompt } : {}),
    activate_on: options.activateOn ?? "manual",
    visit: { first: options.firstVisit ?? false },
    ...(options.metadata ? { metadata: options.metadata } : {}),
  };
  const token = await options.appToken?.();
  const headers = { "idempotency-key": crypto.randomUUID() };
  return (await request(options, { method: "POST", path: "/v1/vip/sessions", body, token, headers })) as SessionGrant;
}
