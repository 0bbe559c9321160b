/** Tools that run in the page, described with Standard Schema (Zod 4, ArkType, …) or with JSON Schema. */

import { ToolError, UsageError } from "./errors.js";
import type { AbortSignalLike } from "./platform.js";
import { fromForeign, isMap, type Value, type ValueMap } from "./wire/value.js";

/** What a schema library gives: https://standardschema.dev. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => Record<string, unknown> };
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }[] };

/** A JSON Schema 2020-12 of an object. */
export type JsonSchema = { readonly type?: "object"; readonly [keyword: string]: unknown };

export interface ToolContext {
  readonly callId: string;
  /** Aborted when nobody waits for the result any more: the turn was stopped, or it took too long. */
  readonly signal: AbortSignalLike;
}

export interface ToolDefinition<Args> {
  /** Letters, digits, `_`, `.` and `-`, at most 64. */
  name: string;
  description?: string;
  input: StandardSchema<Args> | JsonSchema;
  /** The JSON Schema, for libraries that cannot say it themselves. */
  jsonSchema?: JsonSchema;
  /** Asks the user first: always, or with the words that this gives; undefined means no need to ask. */
  confirm?: boolean | ((args: Args) => string | undefined);
  readOnly?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  run(args: Args, context: ToolContext): unknown;
}

/** A tool of this page. */
export interface Tool {
  readonly name: string;
  readonly description: string | undefined;
  readonly inputSchema: ValueMap;
  readonly annotations: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; confirm?: boolean };
  /** The arguments as the schema gives them; throws a `ToolError` where they do not fit. */
  check(args: Value): Promise<unknown>;
  /** What the user is asked first. */
  question(args: unknown): string | undefined;
  run(args: unknown, context: ToolContext): unknown;
}

/** Makes a tool of a definition; throws at once where it could never work. */
export function tool<Args = Record<string, unknown>>(definition: ToolDefinition<Args>): Tool {
  const { name, description, input, confirm } = definition;
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(name)) throw new UsageError(`"${name}" cannot be the name of a tool`, "use letters, digits, _, . and -, at most 64");
  if (description !== undefined && description.length > 1024) throw new UsageError(`the description of ${name} is too long`, "use at most 1024 letters");
  const standard = "~standard" in input ? (input as StandardSchema<Args>)["~standard"] : undefined;
  const described = definition.jsonSchema ?? (standard ? standard.jsonSchema?.input({ target: "draft-2020-12" }) : input);
  if (!described) throw new UsageError(`${standard?.vendor ?? "this library"} does not say the JSON Schema of ${name}`, "give it as `jsonSchema` beside `input`");
  const { $schema: _, ...schema } = described as Record<string, unknown>;
  const inputSchema = fromForeign(schema);
  if (!isMap(inputSchema) || (inputSchema["type"] ?? "object") !== "object") throw new UsageError(`the input of ${name} is not an object`, "agents give named arguments: describe an object");
  return {
    name,
    description,
    inputSchema: { type: "object", ...inputSchema },
    annotations: {
      ...(definition.readOnly === undefined ? {} : { read_only: definition.readOnly }),
      ...(definition.destructive === undefined ? {} : { destructive: definition.destructive }),
      ...(definition.idempotent === undefined ? {} : { idempotent: definition.idempotent }),
    },
    async check(args) {
      if (!standard) return args;
      const result = await standard.validate(args);
      if (!result.issues) return result.value;
      const words = result.issues.map(({ message, path }) => (path?.length ? `${path.map((step) => String(typeof step === "object" ? step.key : step)).join(".")}: ${message}` : message));
      throw new ToolError("INVALID_ARGS", words.join("; "));
    },
    question(args) {
      if (typeof confirm === "function") return confirm(args as Args);
      return confirm ? `May ${description ?? name} run?` : undefined;
    },
    run: (args, context) => definition.run(args as Args, context),
  };
}
