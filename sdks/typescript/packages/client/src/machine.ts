/**
 * A protocol as the driver sees it: a machine without socket, clock or randomness. After every input and every command the
 * driver drains it until it is idle, and it says when it wants to be woken.
 */

export type Input =
  | { type: "opened" }
  /** The server answered the upgrade with a status. */
  | { type: "refused"; status: number; retryAfterMs?: number; message?: string }
  /** No address, no route, no TLS, no answer. */
  | { type: "unreachable" }
  | { type: "message"; data: Uint8Array | string }
  | { type: "closed"; code: number }
  /** The place where this runs says that the network has changed, or that it slept: is the connection still there? */
  | { type: "woken" }
  | { type: "timeout" };

export type Output<Event> =
  | { type: "connect" }
  | { type: "send"; data: Uint8Array | string }
  /** Close the socket and forget it, or give up on the attempt to open one. */
  | { type: "close"; code: number }
  | { type: "event"; event: Event };

export interface Machine<Event> {
  handle(input: Input, now: number): void;
  /** What is to be done next; undefined once there is nothing. */
  poll(): Output<Event> | undefined;
  /** When it wants a `timeout`; undefined if never. */
  wake(): number | undefined;
}

/** Why there is no connection. */
export type Cause =
  | { type: "refused"; status: number; retryAfterMs?: number; message?: string }
  | { type: "unreachable" }
  | { type: "closed"; code: number }
  /** Nothing came for too long. */
  | { type: "silent" }
  /** The server said that it leaves, and this side went first. */
  | { type: "moved" }
  /** This side wants to say HELLO again. */
  | { type: "refreshed" }
  /** The server sent what cannot be understood. */
  | { type: "violation"; message: string }
  | { type: "left" };
