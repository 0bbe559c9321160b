/** What of a session outlives a reload of the page: it is kept for the tab that it belongs to. */

import type { SessionGrant } from "./events.js";

export interface Kept {
  grant: SessionGrant;
  resumeToken?: string;
  lastServerSeq: number;
  nextSeq: number;
  contextVersion: number;
}

const KEY = "switchboard-vip-session";

/** Whether a session is kept that could be picked up. */
export function hasKept(storage?: Storage | null): boolean {
  return recall(storage)?.resumeToken !== undefined;
}

export function keep(storage: Storage | null | undefined, kept: Kept): void {
  place(storage)?.setItem(KEY, JSON.stringify(kept));
}

export function forget(storage: Storage | null | undefined): void {
  place(storage)?.removeItem(KEY);
}

/** The session that this page had before it was loaded again, or another page of the same tab. */
export function recall(storage: Storage | null | undefined): Kept | undefined {
  try {
    const kept = JSON.parse(place(storage)?.getItem(KEY) ?? "null") as Kept | null;
    if (kept && kept.grant.expires_at * 1000 > Date.now() && kept.grant.resume.window_s > 0) return kept;
  } catch {
    forget(storage);
  }
  return undefined;
}

/** Where it is kept: nowhere if that is null, with the tab if nothing else is said. */
function place(storage: Storage | null | undefined): Storage | null {
  if (storage !== undefined) return storage;
  try {
    return globalThis.sessionStorage ?? null;
  } catch {
    // A browser that keeps nothing throws where it is looked for.
    return null;
  }
}
