import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatParts } from "../../../src/tokens/chat-template.ts";
import { chatOf, weatherTool } from "./cookbook.ts";

const partsOf = (...tools: unknown[]) => chatParts(chatOf([], tools), "o200k_base");

describe("chatParts", () => {
  it("adds only the reply to a chat without messages and tools", () => {
    expect(partsOf()).toEqual({ texts: [], tokens: 3 });
  });

  it("takes a function apart into the lines that are published", () => {
    expect(partsOf(weatherTool)).toEqual({
      texts: [
        "get_current_weather:Get the current weather in a given location",
        "location:string:The city and state, e.g. San Francisco, CA",
        "unit:string:The unit of temperature to return",
        "celsius",
        "fahrenheit",
      ],
      tokens: 3 + 7 + 3 + 3 + (3 - 3 + 3 + 3) + 12,
    });
  });

  it("ends the tools once, and starts each function", () => {
    expect(partsOf(weatherTool, weatherTool).tokens - partsOf(weatherTool).tokens).toBe(7 + 3 + 3 + 6);
  });

  it("drops the full stop that ends a description", () => {
    expect(partsOf({ type: "function", function: { name: "now", description: "The time." } }).texts).toEqual([
      "now:The time",
    ]);
  });

  it("reads the flat form of a function alike", () => {
    expect(partsOf({ type: "function", ...weatherTool.function, strict: true })).toEqual(partsOf(weatherTool));
  });

  it("counts what is nested by its JSON text", () => {
    const properties = {
      where: { type: ["object", "null"], properties: { city: { type: "string" } } },
      days: { type: "array", items: { type: "integer" }, enum: [1, null, { a: 2 }] },
    };
    expect(partsOf({ function: { name: "f", parameters: { properties, $defs: { a: true } } } }).texts).toEqual([
      "f:",
      'where:["object","null"]:',
      '{"properties":{"city":{"type":"string"}}}',
      "days:array:",
      "1",
      "",
      '{"a":2}',
      '{"items":{"type":"integer"}}',
      '{"$defs":{"a":true}}',
    ]);
  });

  it("counts a tool that is no function by its JSON text", () => {
    expect(partsOf({ type: "custom", custom: { format: "text" } })).toEqual({
      texts: ['{"type":"custom","custom":{"format":"text"}}'],
      tokens: 3 + 7 + 12,
    });
  });

  it("takes any shape: 2,000 of them, and parts of tools in the wrong places", () => {
    const schemaKeys = ["name", "description", "parameters", "properties", "type", "enum"];
    const key = fc.constantFrom("function", ...schemaKeys, "__proto__", "other");
    const { tool } = fc.letrec((tie) => ({
      tool: fc.oneof(
        { maxDepth: 5, withCrossShrink: true },
        fc.jsonValue({ maxDepth: 1 }),
        fc.array(tie("tool"), { maxLength: 3 }),
        fc.dictionary(key, tie("tool"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(fc.array(tool, { maxLength: 3 }), (tools) => {
        const parts = partsOf(...tools);
        expect(Number.isSafeInteger(parts.tokens)).toBe(true);
        expect(parts.texts.every((text) => typeof text === "string")).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it("takes nesting that is too deep for JSON.stringify", () => {
    const depth = 200_000;
    const deep: unknown = JSON.parse(`${'{"a":['.repeat(depth)}"leaf"${"]}".repeat(depth)}`);
    const text = partsOf(deep).texts.join("");
    expect(text).toContain('"leaf"');
    expect(text.match(/"a":/g)).toHaveLength(depth);
  });
});
