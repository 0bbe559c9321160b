/** Writes the types of the messages, from schemas/ to the client: `node wire.mjs [--check]`. */

import { readFileSync, writeFileSync } from "node:fs";

const check = process.argv.includes("--check");
const schema = JSON.parse(readFileSync(new URL("schemas/asp.json", import.meta.url), "utf8"));
const target = new URL("packages/client/src/asp/wire.ts", import.meta.url);

function type(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((name) => JSON.stringify(name)).join(" | ");
  switch (schema.type) {
    case "string": return schema.contentEncoding ? "Uint8Array" : "string";
    case "integer": case "number": return "number";
    case "boolean": return "boolean";
    case "null": return "null";
    case "array": {
      const items = type(schema.items);
      return items.includes(" | ") ? `(${items})[]` : `${items}[]`;
    }
    case "object": return schema.additionalProperties ? `Record<string, ${type(schema.additionalProperties)}>` : "ValueMap";
    default: return "Value";
  }
}

const lines = [
  "/** The messages of the protocol as they are on the wire. Made by wire.mjs of the schemas that the server's types give; do not edit. */",
  "",
  'import type { Value, ValueMap } from "../wire/value.js";',
];
for (const [name, { properties, required }] of Object.entries(schema.$defs)) {
  lines.push("", `export interface ${name} {`);
  for (const [key, of] of Object.entries(properties)) lines.push(`  ${key}${required.includes(key) ? "" : "?"}: ${type(of)};`);
  lines.push("}");
}
const union = (ending) => Object.keys(schema.$defs).filter((name) => name.endsWith(ending) && name !== ending).join(" | ");
lines.push("", `export type Invoke = ${union("Invoke")};`, `export type WireRecord = ${union("Record")};`, `export type Part = ${union("Part")};`);
lines.push(`export type Feature = ${schema["x-features"].map((name) => JSON.stringify(name)).join(" | ")};`);
const resumable = schema["x-closes"].filter(({ resumable }) => resumable).map(({ code }) => code);
lines.push("", "/** Close codes after which a client comes back for its requests. */", `export const RESUMABLE: readonly number[] = [${resumable.join(", ")}];`);
lines.push("", "/** Names of errors by their numbers. */", `export type ErrorCode = ${schema["x-codes"].map(({ code }) => code).join(" | ")};`);
lines.push(`export type ErrorName = ${schema["x-codes"].map(({ name }) => JSON.stringify(name)).join(" | ")};`, "");

const text = lines.join("\n");
if (check) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("wire: the types are not those of the schemas: run sdks/typescript/build and commit");
    process.exit(1);
  }
} else writeFileSync(target, text);
