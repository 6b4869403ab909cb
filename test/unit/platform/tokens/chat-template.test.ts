import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatText, PromptForm, ToolTurn } from "../../../../src/core/prompt-text.ts";
import { tokenInput } from "../../../../src/platform/tokens/chat-template.ts";
import { noChat } from "../../../../src/wire/prompt-text.ts";
import { chatOf, weatherTool } from "./cookbook.ts";
import { runs } from "../../../support/effort.ts";

const inputOfTools = (...tools: unknown[]) => tokenInput(chatOf([], tools));
const inputOfChat = (changes: Partial<ChatText>, form?: PromptForm) => tokenInput({ ...noChat, ...changes }, form);
const functionTool = (definition: object) => ({ type: "function", function: { name: "f", ...definition } });
const withProperties = (properties: object, rest: object = {}) => functionTool({ parameters: { properties, ...rest } });

/** Returns the lines between the braces of the only function's parameters. */
function membersOf(tool: unknown): string {
  const [text = ""] = inputOfTools(tool).texts;
  return text.slice(text.indexOf("(_: {\n") + 6, text.lastIndexOf("}) => any;"));
}

describe("tokenInput", () => {
  it("adds only the tokens that begin the reply to a chat without messages and tools", () => {
    expect(inputOfTools()).toEqual({ texts: [], escaped: [], tokens: 3 });
    expect(inputOfChat({}, "harmony")).toEqual({ texts: [], escaped: [], tokens: 2 });
  });

  it("writes functions as types of a namespace", () => {
    const [text] = inputOfTools(weatherTool, functionTool({})).texts;
    expect(text).toBe(
      [
        "namespace functions {",
        "",
        "// Get the current weather in a given location",
        "type get_current_weather = (_: {",
        "// The city and state, e.g. San Francisco, CA",
        "location: string,",
        "// The unit of temperature to return",
        'unit?: "celsius" | "fahrenheit",',
        "}) => any;",
        "",
        "type f = () => any;",
        "",
        "} // namespace functions",
      ].join("\n"),
    );
  });

  it.each<[string, object, string]>([
    ["an integer", { a: { type: "integer" } }, "a?: number,\n"],
    ["a list", { a: { type: "array", items: { type: "string" } } }, "a?: string[],\n"],
    ["a list of anything", { a: { type: "array" } }, "a?: any[],\n"],
    [
      "an object",
      { a: { type: "object", properties: { b: { type: "null" } }, required: ["b"] } },
      "a?: {\nb: null,\n},\n",
    ],
    ["an object without properties", { a: { type: "object" } }, "a?: object,\n"],
    ["alternatives", { a: { anyOf: [{ type: "string" }, { type: "null" }] } }, "a?: string | null,\n"],
    ["several types", { a: { type: ["string", "null"] } }, "a?: string | null,\n"],
    ["a constant", { a: { const: 1 } }, "a?: 1,\n"],
    ["a default", { a: { type: "string", default: "x" } }, "a?: string, // default: x\n"],
    ["a title", { a: { type: "string", title: "A", description: "It." } }, "// A\n// It.\na?: string,\n"],
    [
      "a description of several lines",
      { a: { type: "string", description: "One.\n  - two\n" } },
      "// One.\n- two\na?: string,\n",
    ],
    ["properties without a type", { a: { minimum: 1 }, b: 7 }, "a?: any,\nb?: any,\n"],
  ])("writes %s", (_, properties, members) => {
    expect(membersOf(withProperties(properties))).toBe(members);
  });

  it("writes a definition once, so that references cannot make the text long", () => {
    const two = { type: "object", properties: { a: { $ref: "#/$defs/next" }, b: { $ref: "#/$defs/next" } } };
    const next = { type: "object", properties: { c: { $ref: "#/$defs/next" } } };
    expect(membersOf(withProperties({ x: two }, { $defs: { next } }))).toBe(
      "x?: {\na?: {\nc?: next,\n},\nb?: next,\n},\n",
    );
    const names = Array.from({ length: 2000 }, (_, at) => `d${at}`);
    const $defs = Object.fromEntries(
      names.map((name, at) => [name, { anyOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] }]),
    );
    const [text = ""] = inputOfTools(withProperties({ x: { $ref: "#/$defs/d0" } }, { $defs })).texts;
    expect(text.length).toBeLessThan(50_000);
  });

  it("adds the overhead of tools once, by API, prompt form, system message and parallel calls", () => {
    expect(inputOfTools(weatherTool).tokens).toBe(3 + 9);
    expect(inputOfTools(weatherTool, weatherTool).tokens).toBe(3 + 9);
    expect(inputOfChat({ tools: [weatherTool], hasSystem: true }).tokens).toBe(3 + 9 - 4);
    expect(inputOfChat({ tools: [weatherTool], hasSystem: true }, "harmony").tokens).toBe(2 + 91);
    expect(inputOfChat({ tools: [weatherTool], api: "responses" }).tokens).toBe(3 + 3);
    expect(inputOfChat({ tools: [weatherTool], api: "responses" }, "harmony").tokens).toBe(2 + 9);
    const sequential = { tools: [weatherTool], isSequential: true };
    expect(inputOfChat(sequential, "harmony").tokens).toBe(2 + 91 + 78);
    expect(inputOfChat(sequential).tokens).toBe(3 + 9);
  });

  it("subtracts a token, or two in the harmony form, if the first property has no title or description", () => {
    expect(inputOfTools(withProperties({ a: { type: "string" }, b: {} })).tokens).toBe(3 + 9 - 1);
    expect(inputOfTools(withProperties({ a: { title: "A" } })).tokens).toBe(3 + 9);
    expect(inputOfChat({ tools: [withProperties({ a: {} })] }, "harmony").tokens).toBe(2 + 91 - 2);
    // Not in the older list of functions.
    expect(inputOfTools(withProperties({ a: {} }).function).tokens).toBe(3 + 9);
  });

  it("reads a flat function like a nested one", () => {
    expect(inputOfTools({ type: "function", ...weatherTool.function, strict: true })).toEqual(
      inputOfTools(weatherTool),
    );
  });

  it("counts a tool that is not a function by its JSON text", () => {
    const tool = { type: "custom", name: "c", custom: { format: "text" } };
    expect(inputOfTools(tool)).toEqual({
      texts: ["namespace functions {\n\n} // namespace functions", JSON.stringify(tool)],
      escaped: [],
      tokens: 3 + 9 + 7,
    });
  });

  it("adds the tokens of a tool choice", () => {
    const tools = [weatherTool];
    expect(inputOfChat({ tools, toolChoice: "none" }).tokens).toBe(3 + 9 + 1);
    const named = inputOfChat({ tools, toolChoice: { name: "abc" } });
    expect([named.tokens, named.texts.at(-1)]).toEqual([3 + 9 + 7, "abc"]);
    expect(inputOfChat({ tools, toolChoice: { name: "abc" } }, "harmony").tokens).toBe(2 + 91);
  });

  const call = { name: "f", arguments: "{}" };
  it("names the function again after the result of a tool call, but not of an older function call", () => {
    const turn: ToolTurn = { kind: "tool", calls: [call], results: ["é"] };
    expect(inputOfChat({ turns: [turn] })).toEqual({ texts: ["f", "{}", "é", "f"], escaped: [], tokens: 3 + 5 + 4 });
    expect(inputOfChat({ turns: [turn], api: "responses" }).tokens).toBe(3 + 7 + 6);
    expect(inputOfChat({ turns: [turn] }, "harmony").tokens).toBe(2 + 9 + 6);
    expect(inputOfChat({ turns: [turn], api: "responses" }, "harmony").tokens).toBe(2 + 12 + 8);
    expect(inputOfChat({ turns: [{ ...turn, kind: "function" }] })).toEqual({
      texts: ["f", "{}", "é"],
      escaped: [],
      tokens: 3 + 3 + 3,
    });
    const odd = { ...turn, calls: [{ name: "no name".repeat(20), arguments: "" }] };
    expect(inputOfChat({ turns: [odd] }).texts.at(-1)).toBe("");
  });

  it("escapes the results of parallel calls in chats, but not in responses", () => {
    const turn: ToolTurn = { kind: "tool", calls: [call, call], results: ["é😀", "b"] };
    const parts = inputOfChat({ turns: [turn] });
    expect(parts).toMatchObject({ texts: ["f", "{}", "f", "{}", "f", "f"], escaped: ["é😀", "b"] });
    expect(parts.tokens).toBe(3 + 2 * (5 + 4) + 12 + 2 * 3);
    expect(inputOfChat({ turns: [turn], api: "responses" }).texts).toContain("é😀");
  });

  it("counts the schema of an answer by its JSON text", () => {
    const schema = { type: "object", properties: { a: { description: "A" } }, additionalProperties: false };
    const strict = { name: "n", description: "d", schema, isStrict: true };
    const { additionalProperties: _, ...shown } = schema;
    expect(inputOfChat({ schema: strict })).toEqual({
      texts: ["n", "// d", JSON.stringify(shown)],
      escaped: [],
      tokens: 3 + 6 - 1,
    });
    expect(inputOfChat({ schema: { ...strict, isStrict: false } }).texts.at(-1)).toBe(JSON.stringify(schema));
    expect(inputOfChat({ schema: strict, hasSystem: true }).tokens).toBe(3 + 2 - 1);
    expect(inputOfChat({ schema: strict, api: "responses" }).tokens).toBe(3 - 1);
  });

  it("counts tools of any shape, even with members in the wrong places", () => {
    const schemaKeys = ["name", "description", "parameters", "properties", "type", "enum", "items", "anyOf", "$ref"];
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
        const parts = inputOfTools(...tools);
        expect(Number.isSafeInteger(parts.tokens)).toBe(true);
        expect(parts.texts.filter((text) => typeof text !== "string")).toEqual([]);
      }),
      { numRuns: runs(2_000) },
    );
  });

  it("counts nesting that is too deep for JSON.stringify", () => {
    const depth = 200_000;
    const deep: unknown = JSON.parse(`${'{"a":['.repeat(depth)}"leaf"${"]}".repeat(depth)}`);
    const text = inputOfTools(deep).texts.join("");
    expect(text).toContain('"leaf"');
    expect(text.match(/"a":/g)).toHaveLength(depth);
  });

  it("writes a deeply nested schema in a text that is no longer than the schema", () => {
    const depth = 100_000;
    const json = `${'{"type":"array","items":'.repeat(depth)}{}${"}".repeat(depth)}`;
    const [text = ""] = inputOfTools(withProperties({ deep: JSON.parse(json) })).texts;
    expect(text.length).toBeLessThan(json.length);
    expect(text).toContain("[][]");
  });
});
