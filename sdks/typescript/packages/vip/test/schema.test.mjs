import assert from "node:assert/strict";
import { test } from "node:test";
import { schemaError } from "../dist/schema.js";

const cases = [
  [{ type: "object", required: ["a"], properties: { a: { type: "string", minLength: 2 } } }, [{ a: "xy", b: 1 }], [{}, { a: "x" }, { a: 1 }, [], null, "a"]],
  [{ type: "integer", minimum: 1, maximum: 3 }, [1, 3, 2.0], [0, 4, 1.5, "1"]],
  [{ type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1, multipleOf: 0.1 }, [0.3, 0.7], [0, 1, 0.25]],
  [{ type: ["string", "null"], maxLength: 2 }, ["ab", null, "😀😀"], ["abc", 1]],
  [{ enum: ["a", 1, { x: [1, 2] }] }, ["a", 1, { x: [1, 2] }], ["b", 2, { x: [2, 1] }]],
  [{ const: { a: 1, b: 2 } }, [{ b: 2, a: 1 }], [{ a: 1 }, null]],
  [{ type: "object", properties: { a: true }, additionalProperties: false }, [{}, { a: 9 }], [{ b: 1 }]],
  [{ type: "object", additionalProperties: { type: "number" } }, [{ z: 1 }], [{ z: "1" }]],
  [{ type: "array", items: { type: "string" }, minItems: 1, maxItems: 2, uniqueItems: true }, [["a"], ["a", "b"]], [[], ["a", "a"], ["a", "b", "c"], [1]]],
  [{ prefixItems: [{ type: "string" }], items: { type: "number" } }, [["a", 1, 2]], [[1], ["a", "b"]]],
  [{ type: "string", pattern: "^[A-Z]-\\d+$" }, ["A-17"], ["a-17", "A-"]],
  [{ allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1, 2], [0, 3]],
  [{ anyOf: [{ type: "string" }, { type: "number" }] }, ["a", 1], [true, null]],
  [{ oneOf: [{ minimum: 1 }, { maximum: 2 }] }, [0, 3], [1, 2]],
  [{ not: { type: "string" } }, [1], ["a"]],
  [{ $ref: "#/$defs/a", $defs: { a: { type: "string" } } }, ["x"], [1]],
  [{ $ref: "#/$defs/~1odd~0name", $defs: { "/odd~name": { type: "string" } } }, ["x"], [1]],
  [{ $ref: "https://elsewhere.example/schema" }, [], ["x"]],
  [{ $ref: "#/$defs/none" }, [], ["x"]],
  [{ type: "string", pattern: "(" }, [], ["x"]],
  [false, [], [1]],
  [true, [1], []],
];

test("vip_050_values_that_do_not_fit_their_schema_are_found", () => {
  for (const [schema, fitting, others] of cases) {
    for (const value of fitting) assert.equal(schemaError(schema, value), undefined, `${JSON.stringify(schema)} ${JSON.stringify(value)}`);
    for (const value of others) assert.notEqual(schemaError(schema, value), undefined, `${JSON.stringify(schema)} ${JSON.stringify(value)}`);
  }
});

test("a schema that refers to itself comes to an end", () => {
  let deep = {};
  for (let i = 0; i < 100; i++) deep = { next: deep };
  const schema = { type: "object", properties: { next: { $ref: "#" } } };
  assert.match(schemaError(schema, deep), /too deeply/);
  assert.match(schemaError({ $ref: "#" }, 1), /too deeply/);
});

test("names of Object's own do not count as members", () => {
  assert.notEqual(schemaError({ required: ["toString"] }, {}), undefined);
  assert.equal(schemaError({ properties: { a: false } }, { constructor: 1 }), undefined);
});
