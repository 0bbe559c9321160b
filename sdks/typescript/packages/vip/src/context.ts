/** What the runtime is told about the screen: whole the first time, then only what changed, and only when it may be. */

import { canonical } from "./canonical.js";
import type { ActionDef, ContextDelta, ContextFull, ContextUpdate, Json, Screen, State } from "./events.js";
import { takesContext } from "./machine.js";

/** Bounds that every server keeps to. */
export const MAX_ACTIONS = 128;
export const MAX_NARRATION = 8192;
/** An update that is not answered in this time got lost. */
const ANSWER_TIMEOUT_MS = 5_000;
const ACTION_ID = /^[A-Za-z][A-Za-z0-9_.:-]{0,63}$/;
const CORE_TYPES = ["navigation", "button", "input", "confirmation"];
const RESERVED = ["get_available_routes", "get_system_states", "get_system_functions"];

/** Throws where an action could never be accepted, so that its author hears of it at once. */
export function assertAction(id: string, action: ActionDef): void {
  const wrong = (why: string) => {
    throw new TypeError(`action ${JSON.stringify(id)} ${why}`);
  };
  if (!ACTION_ID.test(id)) wrong("has an id that is not a letter followed by letters, digits and _ . : -");
  if (RESERVED.includes(id) || id.startsWith("system.")) wrong("has an id that is reserved");
  if (!CORE_TYPES.includes(action.type) && !/^x-[a-z0-9-]{1,62}$/.test(action.type)) wrong(`has the type ${action.type}: other types begin with x-`);
  if (!action.description || action.description.length > 512) wrong("needs a description of at most 512 characters");
  if ((action.type === "button" || action.type === "input") && !action.element_id) wrong("needs an element_id");
  if (action.type === "input" && !action.input_type) wrong("needs an input_type");
  if (action.input_type === "radiobutton" && !action.options?.length) wrong("needs options");
  if (action.sensitive && action.parallel) wrong("is sensitive and cannot be parallel");
  if (action.confirmation && !action.sensitive) wrong("has a confirmation but is not sensitive");
}

/** What changed from one screen to the next, or nothing. */
export function difference(from: Screen, to: Screen): Omit<ContextDelta, "mode" | "base_version" | "context_version"> | undefined {
  const changes: Omit<ContextDelta, "mode" | "base_version" | "context_version"> = {};
  const differ = (a: unknown, b: unknown) => canonical((a ?? null) as Json) !== canonical((b ?? null) as Json);
  if (differ(from.route, to.route)) changes.route = to.route;
  if (differ(from.routes, to.routes)) changes.routes = to.routes;
  // A change of the route without a narration would be refused.
  if (changes.route || from.narration !== to.narration) changes.narration = to.narration;
  if (differ(from.data, to.data)) changes.data = to.data ?? null;
  const upsert = Object.entries(to.actions).filter(([id, action]) => differ(from.actions[id], action));
  if (upsert.length) changes.actions_upsert = Object.fromEntries(upsert);
  const gone = Object.keys(from.actions).filter((id) => !Object.hasOwn(to.actions, id));
  if (gone.length) changes.actions_remove = gone;
  if (differ(from.visibility, to.visibility)) changes.visibility = to.visibility;
  return Object.keys(changes).length ? changes : undefined;
}

/**
 * Decides what to send of the screens it is shown. It holds the newest one while none may be sent,
 * so that any number of changes in that time becomes one update (VIP-041), and keeps one update at
 * a time on the way, so that a delta always has the base that the server has.
 */
export class ContextFeed {
  /** The version that was sent last; 0 before the first. */
  version = 0;
  private newest: Screen | undefined;
  private sent: Screen | undefined;
  /** The server may not have what was sent last. */
  private needsFull = true;
  private awaiting: { version: number; since: number } | undefined;
  private refused: Screen | undefined;

  /** The screen that the runtime has been told of last. */
  get known(): Screen | undefined {
    return this.sent;
  }

  /** Shows the screen as it is now. */
  show(screen: Screen): void {
    this.newest = screen;
  }

  /** What is to be sent in this state at this time, if anything is. */
  next(state: State, now: number): ContextUpdate | undefined {
    if (!takesContext(state)) return undefined;
    if (this.awaiting) {
      if (now - this.awaiting.since < ANSWER_TIMEOUT_MS) return undefined;
      this.rejected(false);
    }
    const update = this.compose(false);
    if (update) this.awaiting = { version: update.context_version, since: now };
    return update;
  }

  /** What a result carries of the screen: whole if the page is another one. */
  embedded(whole: boolean): ContextUpdate | undefined {
    const update = this.compose(whole || this.awaiting !== undefined);
    if (update) this.awaiting = undefined;
    return update;
  }

  /** The whole screen, for the handshake. */
  full(): ContextFull | undefined {
    const update = this.compose(true);
    return update?.mode === "full" ? update : undefined;
  }

  /** The server has this version now. */
  acknowledged(version: number): void {
    if (this.awaiting && version >= this.awaiting.version) this.awaiting = undefined;
  }

  /** The server did not take what was sent last; `invalid` if it never will. */
  rejected(invalid: boolean): void {
    this.awaiting = undefined;
    this.needsFull = true;
    this.refused = invalid ? this.sent : undefined;
  }

  /** The server wants everything again, and has at most this version. */
  resync(haveVersion: number): void {
    this.version = Math.max(this.version, haveVersion);
    this.awaiting = undefined;
    this.needsFull = true;
  }

  private compose(whole: boolean): ContextUpdate | undefined {
    const screen = this.newest;
    if (!screen) return undefined;
    if (this.needsFull || whole || !this.sent) {
      if (screen === this.refused && !whole) return undefined;
      this.needsFull = false;
      this.refused = undefined;
      this.sent = screen;
      this.version += 1;
      return { mode: "full", context_version: this.version, ...screen };
    }
    const changes = difference(this.sent, screen);
    if (!changes) return undefined;
    const base = this.version;
    this.sent = screen;
    this.version += 1;
    return { mode: "delta", base_version: base, context_version: this.version, ...changes };
  }
}

/** The whole screen after an update, or nothing where the update is based on another one. */
export function applyUpdate(current: ContextFull | undefined, update: ContextUpdate): ContextFull | undefined {
  if (update.mode === "full") return update;
  if (!current || current.context_version !== update.base_version) return undefined;
  const { mode: _mode, base_version: _base, actions_upsert: upsert, actions_remove: remove = [], visibility, ...rest } = update;
  const kept = Object.entries({ ...current.actions, ...upsert }).filter(([id]) => !remove.includes(id));
  return {
    ...current,
    ...rest,
    mode: "full",
    actions: Object.fromEntries(kept),
    visibility: (visibility ?? current.visibility).filter((id) => !remove.includes(id)),
  };
}
