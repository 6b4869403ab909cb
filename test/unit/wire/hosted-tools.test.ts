import { describe, expect, it } from "vitest";
import { chatFields, responsesFields } from "../../../src/wire/field-table.ts";
import { isHostedTool, toolName, withoutTools } from "../../../src/wire/hosted-tools.ts";

function removed(body: string, ...fields: string[]): string {
  const without = withoutTools(Buffer.from(body), fields);
  return without.ok ? without.body.toString() : JSON.stringify(without.refusal);
}

const search = '{"type":"web_search"}';
const fn = '{ "type":"function", "name":"f" }';
const mcp = '{"type":"mcp","server_label":"one"}';
const other = '{"type":"mcp","server_label":"two"}';

describe("a request without hosted tools", () => {
  it.each<[what: string, body: string, fields: string[], expected: string]>([
    [
      "keeps every other byte",
      `{ "model":"é",\n "tools" : [ ${fn} , ${search}, ${mcp} ] , "input":"x" }`,
      ["tools[1] (web_search)"],
      `{ "model":"é",\n "tools" : [ ${fn}, ${mcp} ] , "input":"x" }`,
    ],
    [
      "loses its first tools",
      `{"tools":[${search}, ${mcp},${fn}]}`,
      ["tools[0]", "tools[1] (mcp)"],
      `{"tools":[${fn}]}`,
    ],
    ["loses its last tool", `{"tools":[${fn},${search} ]}`, ["tools[1] (web_search)"], `{"tools":[${fn} ]}`],
    [
      "loses a list without tools, and what belongs to it",
      `{"a":1,"tool_choice":"auto","parallel_tool_calls":true,"tools":[${search}],"b":2}`,
      ["tools[0] (web_search)"],
      '{"a":1,"b":2}',
    ],
    ["loses a choice of none", `{"tools":[${search}],"tool_choice":"none","b":2}`, ["tools[0]"], '{"b":2}'],
    ["loses a choice that is an object", `{"tools":[${search}],"tool_choice":{"type":"auto"}}`, ["tools[0]"], "{}"],
    ["loses a repeated choice", `{"tool_choice":"auto","tools":[${search}],"tool_choice":null}`, ["tools[0]"], "{}"],
    [
      "keeps the choice of the remaining tools",
      `{"tools":[${search},${fn}],"tool_choice":"required","parallel_tool_calls":true}`,
      ["tools[0]"],
      `{"tools":[${fn}],"tool_choice":"required","parallel_tool_calls":true}`,
    ],
    ["loses a single tool that is not in a list", `{"tools":${search},"b":2}`, ["tools[0]"], '{"b":2}'],
    [
      "loses members of its own",
      `{"web_search_options":{"a":[1,2]}, "model":"m","mcp_servers":[{}]}`,
      ["web_search_options", "mcp_servers"],
      '{"model":"m"}',
    ],
    [
      "loses tools of items and namespaces",
      `{"input":[{"role":"user"},{"type":"additional_tools","tools":[${search}]}],"tools":[${search},{"type":"namespace","tools":[${fn},${mcp}]}]}`,
      ["tools[0] (web_search)", "tools[1].tools[1] (mcp)", "input[1].tools[0] (web_search)"],
      `{"input":[{"role":"user"},{"type":"additional_tools","tools":[]}],"tools":[{"type":"namespace","tools":[${fn}]}]}`,
    ],
    [
      "keeps a prompt of any length",
      `{"input":"${'tools[0] \\" , ] '.repeat(500)}","tools":[${search},${fn}]}`,
      ["tools[0] (web_search)"],
      `{"input":"${'tools[0] \\" , ] '.repeat(500)}","tools":[${fn}]}`,
    ],
    [
      "keeps a choice of another server",
      `{"tools":[${mcp},${other}],"tool_choice":{"type":"mcp","server_label":"two"}}`,
      ["tools[0] (mcp)"],
      `{"tools":[${other}],"tool_choice":{"type":"mcp","server_label":"two"}}`,
    ],
    [
      "keeps a choice of a type that another tool has",
      `{"tools":[${mcp},${other}],"tool_choice":{"type":"mcp"}}`,
      ["tools[0] (mcp)"],
      `{"tools":[${other}],"tool_choice":{"type":"mcp"}}`,
    ],
    [
      "keeps a choice of a function",
      `{"tools":[${search},${fn}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
      ["tools[0]"],
      `{"tools":[${fn}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
    ],
  ])("%s", (_, body, fields, expected) => {
    expect(removed(body, ...fields)).toBe(expected);
  });

  const named = '{"type":"web_search_20250305","name":"web_search"}';
  it.each<[what: string, tools: string, choice: string, missing: string]>([
    ["of the tool's type", `${search},${fn}`, '{"type":"web_search"}', "web_search"],
    ["of the tool's type with a date", `${named},${fn}`, '{"type":"web_search_20260101"}', "web_search_20260101"],
    ["of the tool's name", `${named},${fn}`, '{"type":"tool","name":"web_search"}', "web_search"],
    ["of the tool's server", `${mcp},${other}`, '{"type":"mcp","server_label":"one"}', "one"],
    ["as a text", `${search},${fn}`, '"web_search"', "web_search"],
    [
      "among the allowed tools",
      `${search},${fn}`,
      `{"type":"allowed_tools","mode":"auto","tools":[${fn},${search}]}`,
      "web_search",
    ],
    [
      "among the allowed tools of a chat",
      `${search},${fn}`,
      `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[${search}]}}`,
      "web_search",
    ],
    ["of any tool, if none remains", search, '"required"', "a tool"],
    ["of any tool in Anthropic's form, if none remains", search, '{"type":"any"}', "a tool"],
  ])("is refused for a choice %s", (_, tools, choice, missing) => {
    expect(JSON.parse(removed(`{"tools":[${tools}],"tool_choice":${choice}}`, "tools[0]"))).toEqual({
      code: "invalid_request",
      param: "tool_choice",
      message: `'tool_choice' asks for ${missing}, but this key's requests are sent without hosted tools whose cost has no bound; choose another tool or leave 'tool_choice' out`,
    });
  });
});

it("a hosted tool is one of the listed tools, or a field that asks for one", () => {
  const tools = { calls: ["mcp_call"], fields: ["tools[0] (mcp)"], areShown: true, callsMax: null };
  const asked = ["tools[0] (mcp)", "tools[1] (mcp)", "mcp_servers", "plugins", "provider", "metadata", "query plugins"];
  expect(asked.filter((field) => isHostedTool(responsesFields, tools, field))).toEqual([
    "tools[0] (mcp)",
    "mcp_servers",
    "plugins",
  ]);
  expect(isHostedTool(chatFields, null, "web_search_options")).toBe(true);
  expect(["tools[3] (web_search)", "tools[3]", "mcp_servers"].map(toolName)).toEqual([
    "web_search",
    "tools[3]",
    "mcp_servers",
  ]);
});
