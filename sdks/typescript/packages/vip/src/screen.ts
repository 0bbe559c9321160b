/** Reads what can be done by voice off the page: declared on elements, or by the application. */

import { assertAction, MAX_ACTIONS, MAX_NARRATION } from "./context.js";
import type { ActionDef, InputType, JsonObject, Route, RouteTarget, Screen, Json } from "./events.js";

/** What an action is given when it runs. */
export interface ActionCall {
  invocationId: string;
  /** Fires when nobody waits for the action any longer. */
  signal: AbortSignal;
}

export type ActionHandler = (parameters: JsonObject, call: ActionCall) => unknown;

export interface Registered {
  def: ActionDef;
  handler: ActionHandler;
}

export interface PageOptions {
  /** Where to look for elements with `data-vip-action`. */
  root?: HTMLElement;
  /** `rendered` counts what is scrolled out of sight as visible, `viewport` does not. */
  visibility?: "rendered" | "viewport";
  route?: () => Route;
  routes?: () => RouteTarget[];
  /** The screen in words. Without it: the title, and the text of every `data-vip-narrate`. */
  narrate?: () => string;
  data?: () => Json;
  /** Goes to one of the routes; used for the action `navigate`. */
  navigate?: (target: string) => unknown;
}

const WATCHED = [
  "hidden", "disabled", "inert", "open", "class", "style", "aria-hidden", "aria-disabled", "aria-checked",
  "data-vip-action", "data-vip-description", "data-vip-label", "data-vip-parameters", "data-vip-narrate",
];

/** The page as a source of screens. */
export class Page {
  private readonly declared = new Map<string, Registered & { element?: () => Element | null }>();
  private readonly inViewport = new WeakMap<Element, boolean>();
  private intersections: IntersectionObserver | undefined;
  private mutations: MutationObserver | undefined;

  constructor(private readonly options: PageOptions) {
    if (options.navigate) {
      const navigate = options.navigate;
      this.declare(
        "navigate",
        {
          type: "navigation",
          description: "Open another page",
          global: true,
          parameters: { type: "object", required: ["target"], properties: { target: { type: "string" } } },
        },
        (parameters) => navigate(String(parameters.target)),
      );
    }
  }

  /** Adds an action that no element declares, or replaces it; returns how to take it away again. */
  declare(id: string, def: ActionDef, handler: ActionHandler): () => void {
    assertAction(id, def);
    const element = def.element_id;
    this.declared.set(id, { def, handler, ...(element ? { element: () => document.getElementById(element) } : {}) });
    return () => this.declared.delete(id);
  }

  /** Calls back whenever the page may have changed. */
  watch(changed: () => void): void {
    const root = this.root();
    this.mutations = new MutationObserver(changed);
    this.mutations.observe(root, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: WATCHED });
    if (this.options.visibility === "viewport") {
      this.intersections = new IntersectionObserver((entries) => {
        for (const entry of entries) this.inViewport.set(entry.target, entry.isIntersecting);
        changed();
      });
      for (const element of root.querySelectorAll("[data-vip-action]")) this.intersections.observe(element);
    }
  }

  unwatch(): void {
    this.mutations?.disconnect();
    this.intersections?.disconnect();
  }

  /** The action of that id as the page has it now. */
  find(id: string): (Registered & { visible: boolean }) | undefined {
    const found = this.collect().get(id);
    return found && { def: found.def, handler: found.handler, visible: !found.element || this.isVisible(found.element) };
  }

  /** The routes that can be gone to now. */
  routes(): RouteTarget[] {
    return this.options.routes?.() ?? [];
  }

  /** The page as it is now. */
  screen(): Screen {
    const found = this.collect();
    const actions: { [id: string]: ActionDef } = {};
    const visibility: string[] = [];
    for (const [id, { def, element }] of found) {
      actions[id] = def;
      if (def.type !== "navigation" && (!element || this.isVisible(element))) visibility.push(id);
    }
    const data = this.options.data?.();
    return {
      route: this.options.route?.() ?? { id: location.pathname + location.hash, path: location.pathname, title: document.title },
      routes: this.routes(),
      narration: (this.options.narrate?.() ?? this.narration()).slice(0, MAX_NARRATION) || document.title || "A page.",
      actions,
      visibility,
      ...(data === undefined ? {} : { data }),
    };
  }

  private root(): HTMLElement {
    return this.options.root ?? document.body;
  }

  private collect(): Map<string, Registered & { element?: Element | null }> {
    const found = new Map<string, Registered & { element?: Element | null }>();
    for (const [id, { def, handler, element }] of this.declared) {
      found.set(id, { def, handler, ...(element ? { element: element() } : {}) });
    }
    for (const element of this.root().querySelectorAll<HTMLElement>("[data-vip-action]")) {
      const id = element.dataset.vipAction ?? "";
      if (found.size >= MAX_ACTIONS) break;
      // The same action may be on several elements, such as two layouts of one menu: the visible one counts.
      const other = found.get(id)?.element;
      if (other && this.isVisible(other)) continue;
      const def = definitionOf(element, id);
      assertAction(id, def);
      found.set(id, { def, handler: handlerOf(element), element });
      this.intersections?.observe(element);
    }
    return found;
  }

  private isVisible(element: Element | null | undefined): boolean {
    if (!element || !isRendered(element)) return false;
    return this.options.visibility !== "viewport" || this.inViewport.get(element) === true;
  }

  private narration(): string {
    const parts = [document.title];
    for (const element of this.root().querySelectorAll<HTMLElement>("[data-vip-narrate]")) {
      const text = (element.dataset.vipNarrate || element.innerText).replace(/\s+/g, " ").trim();
      if (text && isRendered(element)) parts.push(text);
    }
    return parts.filter(Boolean).map((part) => (/[.!?:]$/.test(part) ? part : `${part}.`)).join(" ");
  }
}

/** Whether somebody could see and use the element: displayed, not hidden from readers, not behind a dialog. */
export function isRendered(element: Element): boolean {
  if (!element.isConnected || element.closest("[inert], [aria-hidden=true]")) return false;
  const rendered = element.checkVisibility ? element.checkVisibility({ visibilityProperty: true }) : element.getClientRects().length > 0;
  if (!rendered) return false;
  for (const dialog of document.querySelectorAll("dialog:modal:not([data-vip-ignore])")) {
    if (!dialog.contains(element)) return false;
  }
  return true;
}

function definitionOf(element: HTMLElement, id: string): ActionDef {
  const data = element.dataset;
  const flag = (name: string) => data[name] !== undefined && data[name] !== "false";
  if (!element.id) element.id = `vip-${id}`;
  const type = data.vipType ?? (isField(element) ? "input" : "button");
  const label = data.vipLabel ?? element.getAttribute("aria-label") ?? labelOf(element);
  const def: ActionDef = { type, description: data.vipDescription || label || id, element_id: element.id };
  if (label) def.label = label.slice(0, 128);
  if (type === "input") {
    def.input_type = inputTypeOf(element);
    const options = optionsOf(element);
    if (def.input_type === "radiobutton") def.options = options;
  }
  if (data.vipParameters) def.parameters = JSON.parse(data.vipParameters) as JsonObject;
  if (flag("vipGlobal")) def.global = true;
  if (flag("vipParallel")) def.parallel = true;
  if (data.vipIdempotent === "false") def.idempotent = false;
  if (data.vipTimeout) def.timeout_ms = Number(data.vipTimeout);
  if (flag("vipSensitive")) {
    def.sensitive = true;
    if (data.vipConfirm) def.confirmation = { prompt: data.vipConfirm };
  }
  if (element.matches(":disabled, [aria-disabled=true]")) def.enabled = false;
  return def;
}

function labelOf(element: HTMLElement): string {
  const labels = "labels" in element ? (element as HTMLInputElement).labels : null;
  const legend = element.querySelector("legend");
  const text = labels?.[0]?.textContent ?? legend?.textContent ?? (element.matches("input, textarea, select, fieldset, [role=radiogroup]") ? "" : element.textContent);
  return (text ?? "").replace(/\s+/g, " ").trim();
}

function isField(element: Element): boolean {
  return element.matches("input, textarea, select, fieldset, [role=switch], [role=radiogroup]");
}

function radiosOf(element: Element): HTMLInputElement[] {
  if (element instanceof HTMLInputElement && element.type === "radio") {
    const scope = element.form ?? document;
    return [...scope.querySelectorAll<HTMLInputElement>("input[type=radio]")].filter((radio) => radio.name === element.name);
  }
  return [...element.querySelectorAll<HTMLInputElement>("input[type=radio]")];
}

function optionsOf(element: Element): string[] {
  if (element instanceof HTMLSelectElement) return [...element.options].filter((option) => !option.disabled).map((option) => option.value);
  return radiosOf(element).map((radio) => radio.value);
}

function inputTypeOf(element: HTMLElement): InputType {
  if (element instanceof HTMLSelectElement || element.matches("fieldset, [role=radiogroup], input[type=radio]")) return "radiobutton";
  if (element.matches("[role=switch]")) return "boolean";
  if (element.matches("input[type=checkbox]")) return "checkbox";
  if (element.matches("input[type=number], input[type=range]")) return "number";
  if (element.matches("input[type=password]")) return "password";
  return "text";
}

/** Does with the element what a person would do with it. */
function handlerOf(element: HTMLElement): ActionHandler {
  return (parameters) => {
    if (!isField(element)) {
      element.click();
      return undefined;
    }
    fill(element, parameters.value as string | number | boolean);
    return undefined;
  };
}

function fill(element: HTMLElement, value: string | number | boolean): void {
  if (element.matches("[role=switch]:not(input)")) {
    if ((element.getAttribute("aria-checked") === "true") !== value) element.click();
    return;
  }
  if (element instanceof HTMLInputElement && element.type === "checkbox") {
    if (element.checked !== value) element.click();
    return;
  }
  const radio = radiosOf(element).find((radio) => radio.value === value);
  if (radio) {
    if (!radio.checked) radio.click();
    return;
  }
  if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) {
    element.focus();
    element.value = String(value);
    element.dispatchEvent(new Event("input", { bubbles: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
    if (element.value !== String(value)) throw new Error("the field did not take the value");
    return;
  }
  throw new Error("there is no field to fill");
}
