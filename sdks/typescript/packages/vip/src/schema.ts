/**
 * The part of JSON Schema 2020-12 that actions need. What it does not know of, such as `format`, is
 * an annotation; a reference that leads nowhere is an error, never a free pass.
 */

import { canonical } from "./canonical.js";
import type { Json, JsonObject } from "./events.js";

const MAX_DEPTH = 32;

/** What is wrong with the value, or nothing. */
export function schemaError(schema: Json, value: Json): string | undefined {
  return check(schema, value, { root: schema, path: "", depth: 0 });
}

interface Place {
  root: Json;
  path: string;
  depth: number;
}

function check(schema: Json, value: Json, place: Place): string | undefined {
  const here = place.path || "the value";
  if (place.depth > MAX_DEPTH) return `${here} is nested too deeply`;
  if (typeof schema === "boolean") return schema ? undefined : `${here} is not allowed`;
  if (!isObject(schema)) return `${here} has no usable schema`;
  const inside = (path: string): Place => ({ root: place.root, path, depth: place.depth + 1 });

  if (schema.$ref !== undefined) {
    const target = typeof schema.$ref === "string" ? resolve(place.root, schema.$ref) : undefined;
    if (target === undefined) return `${here} has a schema whose reference leads nowhere`;
    const error = check(target, value, inside(place.path));
    if (error) return error;
  }
  if (schema.type !== undefined) {
    const types = Array.isArray(schema.type) ? schema.type : [schema.type];
    if (!types.some((type) => hasType(value, type))) return `${here} should be of type ${types.join(" or ")}`;
  }
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => same(one, value))) return `${here} is not one of the choices`;
  if (schema.const !== undefined && !same(schema.const, value)) return `${here} is not the expected value`;
  return (
    checkString(schema, value, here) ??
    checkNumber(schema, value, here) ??
    checkArray(schema, value, place, inside) ??
    checkObject(schema, value, place, inside) ??
    checkCombined(schema, value, here, inside(place.path))
  );
}

function checkString(schema: JsonObject, value: Json, here: string): string | undefined {
  if (typeof value !== "string") return undefined;
  const length = [...value].length;
  if (typeof schema.minLength === "number" && length < schema.minLength) return `${here} is too short`;
  if (typeof schema.maxLength === "number" && length > schema.maxLength) return `${here} is too long`;
  if (typeof schema.pattern === "string") {
    let pattern: RegExp;
    try {
      pattern = new RegExp(schema.pattern, "u");
    } catch {
      return `${here} has a schema with an unusable pattern`;
    }
    if (!pattern.test(value)) return `${here} does not have the expected form`;
  }
  return undefined;
}

function checkNumber(schema: JsonObject, value: Json, here: string): string | undefined {
  if (typeof value !== "number") return undefined;
  if (typeof schema.minimum === "number" && value < schema.minimum) return `${here} is too small`;
  if (typeof schema.maximum === "number" && value > schema.maximum) return `${here} is too large`;
  if (typeof schema.exclusiveMinimum === "number" && value <= schema.exclusiveMinimum) return `${here} is too small`;
  if (typeof schema.exclusiveMaximum === "number" && value >= schema.exclusiveMaximum) return `${here} is too large`;
  if (typeof schema.multipleOf === "number") {
    const quotient = value / schema.multipleOf;
    if (Math.abs(quotient - Math.round(quotient)) > 1e-9) return `${here} is not a multiple of ${schema.multipleOf}`;
  }
  return undefined;
}

function checkArray(schema: JsonObject, value: Json, place: Place, inside: (path: string) => Place): string | undefined {
  if (!Array.isArray(value)) return undefined;
  const here = place.path || "the value";
  if (typeof schema.minItems === "number" && value.length < schema.minItems) return `${here} has too few items`;
  if (typeof schema.maxItems === "number" && value.length > schema.maxItems) return `${here} has too many items`;
  if (schema.uniqueItems === true && new Set(value.map(canonical)).size < value.length) return `${here} has an item twice`;
  const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  for (const [index, item] of value.entries()) {
    const itemSchema = prefix[index] ?? schema.items;
    const error = itemSchema === undefined ? undefined : check(itemSchema, item, inside(`${place.path}[${index}]`));
    if (error) return error;
  }
  return undefined;
}

function checkObject(schema: JsonObject, value: Json, place: Place, inside: (path: string) => Place): string | undefined {
  if (!isObject(value)) return undefined;
  const at = (name: string) => (place.path ? `${place.path}.${name}` : name);
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (typeof name === "string" && !Object.hasOwn(value, name)) return `${at(name)} is missing`;
  }
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const [name, member] of Object.entries(value)) {
    const memberSchema = Object.hasOwn(properties, name) ? properties[name] : schema.additionalProperties;
    const error = memberSchema === undefined ? undefined : check(memberSchema, member, inside(at(name)));
    if (error) return error;
  }
  return undefined;
}

function checkCombined(schema: JsonObject, value: Json, here: string, inside: Place): string | undefined {
  for (const one of Array.isArray(schema.allOf) ? schema.allOf : []) {
    const error = check(one, value, inside);
    if (error) return error;
  }
  const fitting = (list: Json[]) => list.filter((one) => check(one, value, inside) === undefined).length;
  if (Array.isArray(schema.anyOf) && fitting(schema.anyOf) === 0) return `${here} fits none of the alternatives`;
  if (Array.isArray(schema.oneOf) && fitting(schema.oneOf) !== 1) return `${here} does not fit exactly one alternative`;
  if (schema.not !== undefined && check(schema.not, value, inside) === undefined) return `${here} is excluded`;
  return undefined;
}

function hasType(value: Json, type: Json): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function resolve(root: Json, reference: string): Json | undefined {
  if (!reference.startsWith("#")) return undefined;
  let found: Json | undefined = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    found = found !== undefined && isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

function same(a: Json, b: Json): boolean {
  return canonical(a) === canonical(b);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
