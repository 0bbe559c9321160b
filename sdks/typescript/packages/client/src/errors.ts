/** What can go wrong, and what to do about it. Every error has a `code` for programs and an `advice` for people. */

import type { Cause } from "./machine.js";

export class SwitchboardError extends Error {
  override name = "SwitchboardError";

  constructor(
    /** Which error: a name in capitals, the server's own where it is the server that says so. */
    readonly code: string,
    message: string,
    /** What a person can do about it. */
    readonly advice: string,
    /** Whether the same may work later. */
    readonly retryable = false,
    /** When to try again. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}

/** There is no connection. */
export class ConnectionError extends SwitchboardError {
  override name = "ConnectionError";

  constructor(
    code: string,
    message: string,
    advice: string,
    retryable: boolean,
    retryAfterMs: number | undefined,
    /** HTTP status of the answer to the upgrade. */
    readonly status?: number,
    /** Close code of the WebSocket. */
    readonly closeCode?: number,
  ) {
    super(code, message, advice, retryable, retryAfterMs);
  }
}

/** A turn did not end as it should. `partial` is what was said until then. */
export class TurnError extends SwitchboardError {
  override name = "TurnError";
  partial = "";
}

/** This package was used in a way that cannot work. */
export class UsageError extends SwitchboardError {
  override name = "UsageError";

  constructor(message: string, advice: string) {
    super("USAGE", message, advice);
  }
}

/** Thrown by a tool of this page to tell the agent what went wrong. */
export class ToolError extends Error {
  override name = "ToolError";

  constructor(
    /** Kind of failure, in capitals. */
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

const BY_STATUS: Record<number, [code: string, what: string, advice: string]> = {
  400: ["BAD_REQUEST", "the server does not understand the request", "check the URL: it must lead to a Switchboard server that serves this protocol"],
  401: ["UNAUTHORIZED", "the server does not accept the token", "give a valid token; give `token` as a function, so that a new one is asked for when the old one has expired"],
  403: ["FORBIDDEN", "the token, or this page's origin, may not do this", "use a token with the scopes that this needs, and list the page's origin in the server's `allowed_origins`"],
  404: ["NOT_FOUND", "there is no such endpoint or agent", "check the path of the URL and the name of the agent"],
  408: ["TIMEOUT", "the server did not answer in time", "wait; this client tries again by itself"],
  429: ["RATE_LIMITED", "too many connections or requests", "wait; this client tries again by itself when the server allows it"],
  503: ["UNAVAILABLE", "the server takes nobody in at the moment", "wait; this client tries again by itself"],
};

const BY_CLOSE: Record<number, [code: string, what: string, advice: string]> = {
  1000: ["CLOSED", "the server closed the connection", "connect again if there is more to do"],
  1001: ["RESTARTING", "the server is leaving", "wait; this client comes back by itself"],
  1003: ["PROTOCOL", "the server does not speak this protocol", "check the URL, and whether something between rewrites messages"],
  1006: ["LOST", "the connection was lost", "wait; this client comes back by itself"],
  1008: ["POLICY", "the server ended the connection because of its policy, perhaps because the token ran out", "connect again with a new token"],
  1009: ["TOO_BIG", "a message was larger than the server takes", "send less at once"],
  1011: ["INTERNAL", "the server broke", "wait; this client comes back by itself"],
  1012: ["RESTARTING", "the server is restarting", "wait; this client comes back by itself"],
  1013: ["UNAVAILABLE", "the server is busy", "wait; this client comes back by itself"],
  4400: ["PROTOCOL", "this client broke the rules of the protocol", "update client and server to versions that fit"],
  4401: ["UNAUTHORIZED", "the token ran out or was revoked", "give `token` as a function, so that a new one is asked for"],
  4403: ["FORBIDDEN", "the server does not allow this any more", "use a token with the scopes that this needs"],
  4406: ["VERSION", "the server speaks another version", "update client and server to versions that fit"],
  4408: ["SILENT", "nothing was heard for too long", "wait; this client comes back by itself"],
  4409: ["TAKEN_OVER", "another page or program goes on with this connection", "use one name of `resume` per tab, or keep it in sessionStorage"],
  4429: ["FLOOD", "this client sent far too much", "send less, and wait before connecting again"],
  4500: ["INTERNAL", "the server broke", "wait; this client comes back by itself"],
};

/** The error that a lost or refused connection stands for. */
export function errorOfCause(cause: Cause): ConnectionError {
  switch (cause.type) {
    case "refused": {
      const [code, what, advice] = BY_STATUS[cause.status] ?? (cause.status >= 500 ? BY_STATUS[503]! : ["REFUSED", "the server refused the connection", "check the URL and the token"]);
      const words = cause.message ? `${what} (HTTP ${cause.status}: ${cause.message})` : `${what} (HTTP ${cause.status})`;
      const retryable = cause.status === 408 || cause.status === 429 || cause.status >= 500;
      return new ConnectionError(code, words, advice, retryable, cause.retryAfterMs, cause.status);
    }
    case "closed": {
      const [code, what, advice] = BY_CLOSE[cause.code] ?? ["CLOSED", "the connection was closed", "connect again"];
      const retryable = [1001, 1006, 1011, 1012, 1013, 4408, 4500].includes(cause.code);
      return new ConnectionError(code, `${what} (close code ${cause.code})`, advice, retryable, undefined, undefined, cause.code);
    }
    case "unreachable":
      return new ConnectionError("UNREACHABLE", "the server cannot be reached", "check the address, the network and whether the server runs; of a web page, whether its origin is in the server's `allowed_origins`", true, undefined);
    case "silent":
      return new ConnectionError("SILENT", "nothing was heard from the server for too long", "wait; this client comes back by itself", true, undefined);
    case "moved":
    case "refreshed":
      return new ConnectionError("MOVED", "the connection is being opened anew", "wait; this client comes back by itself", true, undefined);
    case "violation":
      return new ConnectionError("PROTOCOL", `the server sent what cannot be understood: ${cause.message}`, "check the URL, and whether something between rewrites messages; update client and server", false, undefined);
    case "left":
      return new ConnectionError("CLOSED", "this client was closed", "make a new client", false, undefined);
  }
}
