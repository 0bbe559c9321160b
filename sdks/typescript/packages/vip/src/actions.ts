/** Runs what the runtime asks for, after checking again that it may: at most once, and always with an answer. */

import { digest } from "./canonical.js";
import type { ActionDef, ActionResult, Channel, ContextUpdate, Invocation, Json, JsonObject, RouteTarget, State } from "./events.js";
import { isObject, schemaError } from "./schema.js";
import type { ActionHandler } from "./screen.js";

/** Thrown by a handler that wants to say more than that it failed. */
export class ActionFailure extends Error {
  constructor(
    message: string,
    readonly code = "ACT_EXECUTION_FAILED",
    /** Whether something may have been done already. */
    readonly executed = true,
  ) {
    super(message);
  }
}

/** What somebody is asked before something sensitive happens. */
export interface ConfirmationRequest {
  actionId: string;
  action: ActionDef;
  prompt: string;
  parameters: JsonObject;
  /** Fires when the question is moot: it expired, or was taken back. */
  signal: AbortSignal;
}

/** What the actions need of the rest. */
export interface ActionHost {
  state(): State;
  /** The version of the context that was sent last. */
  contextVersion(): number;
  find(id: string): { def: ActionDef; handler: ActionHandler; visible: boolean } | undefined;
  routes(): RouteTarget[];
  confirm(request: ConfirmationRequest): Promise<boolean>;
  /** The last finished turn of the user, for consent by voice. */
  lastTurn(): { id: string; text: string } | undefined;
  /** What the screen looks like after an action, if that differs from what the runtime knows. */
  contextAfter(navigated: boolean): Promise<ContextUpdate | undefined>;
  now(): number;
}

interface Confirmation {
  actionId: string;
  digest: string;
  expiresAt: number;
}

type Refusal = { code: string; message: string };

const MAX_RESULTS = 256;
const MAX_CONFIRMATIONS = 32;
const MAX_TEXT = 4096;
const MAX_DATA_BYTES = 32 * 1024;
const DEFAULT_TTL_MS = 60_000;
export const SYSTEM_CONFIRM = "system.confirm";

export class Actions {
  private readonly results = new Map<string, ActionResult>();
  private readonly running = new Map<string, AbortController>();
  private readonly confirmations = new Map<string, Confirmation>();

  constructor(private readonly host: ActionHost) {}

  /**
   * Answers an invocation. Nothing is returned while an earlier copy of it still runs: its answer
   * is on the way.
   */
  async handle(invocation: Invocation): Promise<ActionResult | undefined> {
    const id = invocation.invocation_id;
    const known = this.results.get(id);
    if (known) return known;
    if (this.running.has(id)) return undefined;
    const began = this.host.now();
    const abort = new AbortController();
    this.running.set(id, abort);
    let outcome: Outcome;
    try {
      outcome = await this.perform(invocation, abort);
    } finally {
      this.running.delete(id);
    }
    return this.settle(invocation, outcome, Math.max(0, Math.round(this.host.now() - began)));
  }

  /**
   * Answers an invocation without running it: with the answer that it got before, if it did, and
   * else with this refusal.
   */
  decline(invocation: Invocation, code: string, message: string): ActionResult {
    const known = this.results.get(invocation.invocation_id);
    return known ?? this.settle(invocation, refused({ code, message }), 0);
  }

  /** Takes an invocation back; it is still answered. */
  cancel(invocationId: string): void {
    this.running.get(invocationId)?.abort(new ActionFailure("the action was cancelled", "ACT_CANCELLED"));
  }

  /** Whether anything is being done right now. */
  get busy(): boolean {
    return this.running.size > 0;
  }

  private settle(invocation: Invocation, outcome: Outcome, durationMs: number): ActionResult {
    const result: ActionResult = {
      invocation_id: invocation.invocation_id,
      action_id: invocation.action_id,
      status: outcome.error ? "error" : "success",
      event: `${invocation.type === "navigation" ? "navigation" : "action"}.${outcome.error ? "failure" : "success"}`,
      executed: outcome.executed,
      ...(outcome.data === undefined ? {} : { data: outcome.data }),
      ...(outcome.error ? { error: outcome.error } : {}),
      ...(outcome.context ? { context: outcome.context } : {}),
      duration_ms: durationMs,
    };
    this.results.set(invocation.invocation_id, result);
    trim(this.results, MAX_RESULTS);
    return result;
  }

  private async perform(invocation: Invocation, abort: AbortController): Promise<Outcome> {
    const state = this.host.state();
    if (state !== "invoke_action" && !(invocation.parallel && state === "ai_speaking")) {
      return refused({ code: "ACT_USER_INTERRUPTED", message: "this is not the time for actions" });
    }
    if (invocation.type === "confirmation") return this.confirm(invocation, abort);
    const found = this.host.find(invocation.action_id);
    const refusal = this.refusal(invocation, found) ?? (await this.consentRefusal(invocation, found?.def));
    if (refusal || !found) return refused(refusal ?? { code: "ACT_NOT_FOUND", message: "there is no such action" });
    return this.run(invocation, found.handler, abort);
  }

  /** The checks before anything runs, in their order; consent comes last and by itself. */
  private refusal(invocation: Invocation, found: { def: ActionDef; visible: boolean } | undefined): Refusal | undefined {
    const { action_id: id, type, parameters } = invocation;
    if (!found || found.def.type !== type) {
      return invocation.context_version < this.host.contextVersion()
        ? { code: "ACT_STALE_CONTEXT", message: `${id} is no longer there: the screen has changed` }
        : { code: "ACT_NOT_FOUND", message: `there is no action ${id}` };
    }
    const { def, visible } = found;
    if (def.enabled === false) return { code: "ACT_DISABLED", message: `${id} is not available at the moment` };
    if (type !== "navigation" && !visible && !def.global) return { code: "ACT_NOT_VISIBLE", message: `${id} is not on the screen` };
    if ((type === "button" || type === "input") && parameters.element_id !== def.element_id) {
      return { code: "ACT_INVALID_PARAMETERS", message: "element_id is that of another element" };
    }
    const { element_id: _element, input_type: _type, ...own } = parameters;
    const wrong = schemaError(def.parameters ?? { type: "object" }, own);
    if (wrong) return { code: "ACT_INVALID_PARAMETERS", message: wrong };
    if (type === "input") {
      const mismatch = inputMismatch(def, parameters);
      if (mismatch) return { code: "ACT_TYPE_MISMATCH", message: mismatch };
    }
    if (type === "navigation" && !this.host.routes().some((route) => route.target === parameters.target)) {
      return { code: "ACT_TARGET_UNKNOWN", message: "there is no such page" };
    }
    return undefined;
  }

  private async consentRefusal(invocation: Invocation, def: ActionDef | undefined): Promise<Refusal | undefined> {
    if (!def?.sensitive) return undefined;
    const required = { code: "ACT_CONFIRMATION_REQUIRED", message: `${invocation.action_id} needs to be confirmed first` };
    const id = invocation.confirmation_id;
    const confirmation = id === undefined ? undefined : this.confirmations.get(id);
    if (!confirmation || id === undefined) return required;
    const given = await digest(invocation.parameters);
    if (confirmation.actionId !== invocation.action_id || confirmation.digest !== given) return required;
    this.confirmations.delete(id);
    return confirmation.expiresAt <= this.host.now() ? { code: "ACT_CONFIRMATION_EXPIRED", message: "the confirmation has expired" } : undefined;
  }

  private async run(invocation: Invocation, handler: ActionHandler, abort: AbortController): Promise<Outcome> {
    const failure = new Promise<never>((_, reject) => {
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason));
    });
    const timer = setTimeout(() => abort.abort(new ActionFailure("the action took too long", "ACT_TIMEOUT")), invocation.timeout_ms);
    try {
      const call = { invocationId: invocation.invocation_id, signal: abort.signal };
      const work = Promise.resolve().then(() => handler(invocation.parameters, call));
      const returned = await Promise.race([work, failure]);
      const context = await this.host.contextAfter(invocation.type === "navigation");
      const data = asData(returned);
      return { executed: true, ...(data === undefined ? {} : { data }), ...(context ? { context } : {}) };
    } catch (error) {
      // Whatever was done before it failed was not everything, so it counts as failed (VIP-054).
      const context = await this.host.contextAfter(false);
      const known = error instanceof ActionFailure;
      const message = error instanceof Error ? error.message : "the action failed";
      return {
        executed: known ? error.executed : true,
        error: { code: known ? error.code : "ACT_EXECUTION_FAILED", message: message.slice(0, 512) },
        ...(context ? { context } : {}),
      };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Asks the person in front of the screen; nobody else can say yes. */
  private async confirm(invocation: Invocation, abort: AbortController): Promise<Outcome> {
    const { reference_action_id: reference, reference_parameters: parameters, prompt, channel, expires_at: expiresAt } = invocation.parameters;
    if (typeof reference !== "string" || !isObject(parameters)) {
      return refused({ code: "ACT_INVALID_PARAMETERS", message: "the confirmation refers to nothing" });
    }
    const found = this.host.find(reference);
    if (!found) return refused({ code: "ACT_NOT_FOUND", message: `there is no action ${reference}` });
    const left = (typeof expiresAt === "number" ? expiresAt : Infinity) - this.host.now();
    if (left <= 0) return refused({ code: "ACT_CONFIRMATION_EXPIRED", message: "the question has expired" });
    const spoken = channel === "voice" ? this.spokenAnswer(found.def, invocation.parameters.voice_evidence) : undefined;
    const used: Channel = spoken === undefined ? "ui" : "voice";
    const timer = setTimeout(() => abort.abort(new ActionFailure("nobody answered", "ACT_CONFIRMATION_EXPIRED", false)), Math.min(left, invocation.timeout_ms));
    let yes: boolean;
    try {
      const question = typeof prompt === "string" && prompt ? prompt : `${found.def.description}?`;
      yes = spoken ?? (await this.host.confirm({ actionId: reference, action: found.def, prompt: question, parameters, signal: abort.signal }));
      if (abort.signal.aborted) throw abort.signal.reason;
    } catch (error) {
      const known = error instanceof ActionFailure;
      return refused({ code: known ? error.code : "ACT_EXECUTION_FAILED", message: error instanceof Error ? error.message : "nobody could be asked" });
    } finally {
      clearTimeout(timer);
    }
    if (!yes) return { executed: true, data: { status: "rejected", channel: used } };
    const id = `cf-${crypto.randomUUID()}`;
    const ttl = found.def.confirmation?.ttl_ms ?? DEFAULT_TTL_MS;
    this.confirmations.set(id, { actionId: reference, digest: await digest(parameters), expiresAt: this.host.now() + ttl });
    trim(this.confirmations, MAX_CONFIRMATIONS);
    return { executed: true, data: { status: "confirmed", confirmation_id: id, channel: used } };
  }

  /** What was said counts only if this side heard it too, just now, and it was a yes or a no. */
  private spokenAnswer(def: ActionDef, evidence: Json | undefined): boolean | undefined {
    const channels = def.confirmation?.channels ?? ["ui", "voice"];
    const turn = this.host.lastTurn();
    if (!channels.includes("voice") || !isObject(evidence) || !turn || evidence.turn_id !== turn.id) return undefined;
    const first = turn.text.toLowerCase().match(/[a-z]+/)?.[0] ?? "";
    if (["yes", "yeah", "yep", "sure", "ok", "okay", "confirm", "confirmed"].includes(first)) return true;
    return ["no", "nope", "stop", "cancel", "don"].includes(first) ? false : undefined;
  }
}

interface Outcome {
  executed: boolean;
  data?: Json;
  error?: { code: string; message: string };
  context?: ContextUpdate;
}

function refused(error: Refusal): Outcome {
  return { executed: false, error };
}

/** Why the value is not one for such a field. */
export function inputMismatch(def: ActionDef, parameters: JsonObject): string | undefined {
  const value = parameters.value;
  if (parameters.input_type !== undefined && parameters.input_type !== def.input_type) return "the field is of another type";
  switch (def.input_type) {
    case "number":
      return typeof value === "number" ? undefined : "the field takes a number";
    case "boolean":
    case "checkbox":
      return typeof value === "boolean" ? undefined : "the field takes yes or no";
    case "radiobutton":
      return typeof value === "string" && def.options?.includes(value) ? undefined : "the field takes one of its options";
    default:
      return typeof value === "string" && [...value].length <= MAX_TEXT ? undefined : `the field takes text of at most ${MAX_TEXT} characters`;
  }
}

function asData(value: unknown): Json | undefined {
  if (value === undefined) return undefined;
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) return undefined;
  if (new TextEncoder().encode(text).length > MAX_DATA_BYTES) throw new ActionFailure("the result is too large");
  return JSON.parse(text) as Json;
}

/** Forgets the oldest beyond a number. */
function trim<Value>(map: Map<string, Value>, limit: number): void {
  for (const key of map.keys()) {
    if (map.size <= limit) return;
    map.delete(key);
  }
}
