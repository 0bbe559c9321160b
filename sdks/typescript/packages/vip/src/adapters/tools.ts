/** What a model is offered of a screen: a tool for everything that can be done there. */

import type { ActionDef, ContextFull, Json, JsonObject } from "../events.js";

const MAX_NAME = 64;

/** The tools, and which action each of their names stands for: providers know no dots in names. */
export function toolsOf(context: ContextFull): { tools: Json[]; names: ReadonlyMap<string, string> } {
  const names = new Map<string, string>();
  const tools: Json[] = [];
  for (const [id, action] of Object.entries(context.actions)) {
    const reachable = action.type === "navigation" || action.global || context.visibility.includes(id);
    if (action.type === "confirmation" || action.enabled === false || !reachable) continue;
    let name = id.replace(/[^A-Za-z0-9_-]/g, "_");
    while (names.has(name)) name = `${name}_`.slice(-MAX_NAME);
    names.set(name, id);
    tools.push({ type: "function", name, description: action.description, parameters: toolSchema(action, context) });
  }
  return { tools, names };
}

/** What the model is shown of an action's parameters. */
function toolSchema(action: ActionDef, context: ContextFull): JsonObject {
  if (action.type === "navigation") {
    const targets = context.routes.map((route) => route.target);
    return { type: "object", required: ["target"], properties: { target: { type: "string", ...(targets.length ? { enum: targets } : {}) } } };
  }
  if (action.type !== "input") return action.parameters ?? { type: "object", properties: {} };
  const value: JsonObject =
    action.input_type === "number" ? { type: "number" }
    : action.input_type === "boolean" || action.input_type === "checkbox" ? { type: "boolean" }
    : action.input_type === "radiobutton" ? { type: "string", enum: action.options ?? [] }
    : { type: "string", maxLength: 4096 };
  return { type: "object", required: ["value"], properties: { value } };
}

/** The parameters with what the protocol adds to them. */
export function complete(action: ActionDef, parameters: JsonObject): JsonObject {
  return {
    ...parameters,
    ...(action.element_id && (action.type === "button" || action.type === "input") ? { element_id: action.element_id } : {}),
    ...(action.type === "input" && action.input_type ? { input_type: action.input_type } : {}),
  };
}

