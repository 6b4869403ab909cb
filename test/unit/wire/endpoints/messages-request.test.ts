// cspell:ignore cach
import { describe, expect, it } from "vitest";
import { messages, readMessagesRequest } from "../../../../src/wire/endpoints/messages.ts";
import { withOutputMaximum, type OutputMaximum } from "../../../../src/wire/endpoint.ts";
import { withHeadersAndQuery } from "../../../../src/wire/headers.ts";
import type { ModelRequest } from "../../../../src/wire/model-request.ts";

const hello = [{ role: "user", content: "hi" }];
const bytesOf = (body: object | string) =>
  Buffer.from(
    typeof body === "string" ? body : JSON.stringify({ model: "opus", max_tokens: 100, messages: hello, ...body }),
  );

function accepted(body: object | string): ModelRequest {
  const result = readMessagesRequest(bytesOf(body));
  if (!result.ok) throw new Error(JSON.stringify(result.refusal));
  return result.request;
}

function refusal(body: object | string): object {
  const result = readMessagesRequest(bytesOf(body));
  if (result.ok) throw new Error("the request was accepted");
  return result.refusal;
}

const withBlocks = (...blocks: readonly object[]) => ({ messages: [{ role: "user", content: blocks }] });
const answered = (...blocks: readonly object[]) => ({
  messages: [...hello, { role: "assistant", content: blocks }, ...hello],
});
const assistantBlock = (block: object) => ({ role: "assistant", content: [block] });
const tool = { name: "read", description: "Reads a file", input_schema: { type: "object", properties: {} } };
const unboundedTools = ({ terms, unboundedFields }: ModelRequest) =>
  terms?.hostedTools?.callsMax === undefined ? [...unboundedFields, ...(terms?.hostedTools?.fields ?? [])] : [];

describe("readMessagesRequest", () => {
  it("reads what Claude Code sends without any unknown, unbounded or hidden field", () => {
    const ephemeral = { type: "ephemeral" };
    const request = accepted({
      max_tokens: 32_000,
      stream: true,
      system: [
        { type: "text", text: "You are an agent.", cache_control: ephemeral },
        { type: "text", text: "Rules." },
      ],
      metadata: { user_id: "user_1" },
      thinking: { type: "adaptive", display: "omitted" },
      context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      output_config: { effort: "high" },
      safeguards: { level: "default" },
      temperature: 1,
      tools: [tool, { ...tool, name: "later", defer_loading: true }, { type: "bash_20250124", name: "bash" }],
      tool_choice: { type: "auto" },
      messages: [
        ...hello,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "", signature: "c2VhbGVk" },
            { type: "redacted_thinking", data: "c2VhbGVk" },
            { type: "text", text: "I read it.", citations: null },
            { type: "tool_use", id: "t1", name: "read", input: { path: "a" }, caller: { type: "direct" } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "t1",
              is_error: false,
              content: [
                { type: "text", text: "x" },
                { type: "tool_reference", tool_name: "later" },
                { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
              ],
              cache_control: ephemeral,
            },
          ],
        },
        { role: "system", content: "Now be brief.", output_config: { effort: "low" } },
      ],
    });
    expect(request).toMatchObject({
      model: "opus",
      stream: true,
      unboundedFields: [],
      fields: { unknown: [], models: [], mentions: [], doubts: [], user: "user_1" },
      size: { unboundedFields: [], outputMax: 32_000, choices: 1, tools: 3, imageParts: 1, fileParts: 0 },
      classes: { prompt: ["input", "cached_input", "cache_write", "image_input"], completion: ["output", "reasoning"] },
      maximumField: "max_tokens",
      isCutWorthless: true,
    });
    expect(request.terms).toBeUndefined();
  });

  it.each<[string, object, string]>([
    ["servers of tools", { mcp_servers: [{ type: "url", url: "https://x.example" }] }, "mcp_servers"],
    ["a container", { container: "c_1" }, "container"],
    ["other models", { fallbacks: [{ model: "haiku" }] }, "fallbacks"],
    ["a stored thread", { thread: { id: "t" } }, "thread"],
    [
      "a summary of the prompt",
      { context_management: { edits: [{ type: "clear_tool_uses_20250919" }, { type: "compact_20260112" }] } },
      "context_management.edits[1] (compact_20260112)",
    ],
    [
      "an edit with two types",
      { context_management: { edits: [{ type: "clear_x", Type: "compact_20260112" }] } },
      "context_management.edits[0] (clear_x)",
    ],
    [
      "a stored file",
      withBlocks({ type: "document", source: { type: "file", file_id: "f" } }),
      "messages.content.source.file_id",
    ],
    [
      "a stored image in a result",
      withBlocks({ type: "tool_result", content: [{ type: "image", source: { type: "file", file_id: "f" } }] }),
      "messages.content.source.file_id",
    ],
    ["a file for a container", withBlocks({ type: "container_upload", file_id: "f" }), "messages.content.file_id"],
    [
      "a cache of another lifetime",
      withBlocks({ type: "text", text: "x", cache_control: { type: "ephemeral", ttl: "24h" } }),
      "messages.content.cache_control.ttl",
    ],
  ])("does not bound %s", (_, body, field) => {
    expect(accepted(body).unboundedFields).toContain(field);
  });

  it("leaves the bound of a speed and a region to the price", () => {
    const { unboundedFields, terms } = accepted({ speed: "fast", inference_geo: "us" });
    expect(unboundedFields).toEqual([]);
    expect(terms).toMatchObject({ speed: "fast", inferenceGeo: "us", hostedTools: null });
    expect(accepted({ speed: "standard", inference_geo: "global" }).terms).toBeUndefined();
  });

  it.each<[object, string]>([
    [{ type: "advisor_20260301", name: "advisor", model: "opus" }, "tools[1] (advisor_20260301)"],
    [{ type: "code_execution_20250825", name: "code_execution" }, "tools[1] (code_execution_20250825)"],
    [{ type: "mcp_toolset", mcp_server_name: "x" }, "tools[1] (mcp_toolset)"],
    [{ type: "tool_search_tool_regex_20251119", name: "search" }, "tools[1] (tool_search_tool_regex_20251119)"],
    [{ type: "web_search_20250305", name: "web_search" }, "tools[1] (web_search_20250305)"],
    [{ type: "web_search_20250305", name: "web_search", max_uses: 1e9 }, "tools[1] (web_search_20250305)"],
    [{ type: "web_search_20250305", name: "web_search", max_uses: "8" }, "tools[1] (web_search_20250305)"],
    [{ type: "web_fetch_20250910", name: "web_fetch" }, "tools[1] (web_fetch_20250910)"],
    [{ type: "Bash_20250124", name: "bash" }, "tools[1] (Bash_20250124)"],
    [{ type: "bash_20250124", Type: "code_execution_20250825" }, "tools[1]"],
  ])("does not bound the tool %j", (hosted, name) => {
    expect(unboundedTools(accepted({ tools: [tool, hosted] }))).toEqual([name]);
  });

  it("bounds searches and fetches by their own max_uses", () => {
    const search = { type: "web_search_20250305", name: "web_search", max_uses: 8, allowed_domains: ["x.example"] };
    const fetch = { type: "web_fetch_20250910", name: "web_fetch", max_uses: 2, max_content_tokens: 5000 };
    const { terms, size } = accepted({ tools: [search, tool, fetch] });
    expect(terms?.hostedTools).toMatchObject({
      calls: ["web_search_call", "web_fetch_call"],
      callsMax: 10,
      areLimited: true,
      freeCalls: { web_fetch_call: 5000 },
    });
    expect(size.unboundedFields).toEqual([]);
    const open = accepted({ tools: [{ ...fetch, max_content_tokens: undefined }] }).terms;
    expect(open?.hostedTools?.freeCalls).toEqual({ web_fetch_call: Infinity });
    expect(accepted({ tools: [{ ...search, wonder: 1 }] }).fields.unknown).toEqual(["tools.wonder"]);
    expect(refusal({ tools: [{ ...search, Max_Uses: 900 }] })).toMatchObject({ param: "tools.max_uses" });
  });

  it.each<[string, object]>([
    ["an unknown field", { wonder: 1 }],
    ["an unknown member of a message", { messages: [{ role: "user", content: "x", wonder: 1 }] }],
    ["an unknown block", withBlocks({ type: "wonder" })],
    ["a block in a message's content that is a list", { messages: [["x"]] }],
    ["an unknown member of a block", withBlocks({ type: "text", text: "x", wonder: 1 })],
    ["an unknown source", withBlocks({ type: "image", source: { type: "wonder" } })],
    ["an unknown block in a result", withBlocks({ type: "tool_result", content: [{ type: "wonder" }] })],
    ["a context management that is a list", { context_management: [] }],
  ])("holds the whole context for %s", (_, body) => {
    const { size, fields } = accepted(body);
    expect([size.unboundedFields.length, fields.doubts]).toEqual([1, ["unknown_field"]]);
  });

  it("knows the blocks of answers that clients send again", () => {
    const { size, fields, unboundedFields } = accepted(
      answered(
        { type: "server_tool_use", id: "s", name: "web_search", input: { query: "x" } },
        {
          type: "web_search_tool_result",
          tool_use_id: "s",
          content: [{ type: "web_search_result", url: "u", title: "t", page_age: null, encrypted_content: "e" }],
        },
        {
          type: "web_fetch_tool_result",
          tool_use_id: "f",
          content: {
            type: "web_fetch_result",
            url: "u",
            retrieved_at: "x",
            content: { type: "document", source: { type: "text", media_type: "text/plain", data: "x" }, title: "t" },
          },
        },
        { type: "compaction", content: "earlier" },
      ),
    );
    expect([size.unboundedFields, fields.unknown, unboundedFields, size.fileParts]).toEqual([[], [], [], 0]);
  });

  it("counts a document in base64 or by its address as a file, and its text by its bytes", () => {
    const parts = (source: object) => accepted(withBlocks({ type: "document", source })).size.fileParts;
    expect(parts({ type: "base64", media_type: "application/pdf", data: "AAAA" })).toBe(1);
    expect(parts({ type: "url", url: "https://x.example/a.pdf" })).toBe(1);
    expect(parts({ type: "text", media_type: "text/plain", data: "x" })).toBe(0);
    expect(parts({ type: "content", content: [{ type: "text", text: "x" }] })).toBe(0);
  });

  it.each<[string, string, readonly string[]]>([
    ["nothing", '{"model":"m","messages":[1]}', []],
    ["a mark", '{"model":"m","messages":[1],"cache_control":{"type":"ephemeral"}}', ["cache_write"]],
    [
      "a mark with an escape",
      '{"model":"m","messages":[{"role":"user"}],"cach\\u0065_control":{"type":"ephemeral"}}',
      ["cache_write"],
    ],
    ["an hour", '{"model":"m","messages":[1],"cache_control":{"ttl":"1h"}}', ["cache_write", "cache_write_1h"]],
    [
      "an hour in an unknown block",
      '{"model":"m","messages":[{"content":[{"type":"new","cache_control":{"ttl":"1h"}}]}]}',
      ["cache_write", "cache_write_1h"],
    ],
  ])("holds the rates of cache writes for %s", (_, body, expected) => {
    expect(accepted(body).classes.prompt.filter((name) => name.startsWith("cache_write"))).toEqual(expected);
  });

  it("adds the bytes of a tool for each further reference to it", () => {
    const deferred = { ...tool, defer_loading: true };
    const references = (count: number) =>
      withBlocks(...Array.from({ length: count }, () => ({ type: "tool_reference", tool_name: "read" })));
    const extra = (body: object) => accepted(body).size.textBytes - bytesOf(body).length;
    const definition = JSON.stringify(deferred).length;
    expect(extra({ ...references(1), tools: [deferred] })).toBe(0);
    expect(extra({ ...references(3), tools: [deferred] })).toBe(2 * definition);
    expect(extra({ ...references(1), tools: [tool] })).toBe(JSON.stringify(tool).length);
  });

  it("holds the gateway's own instructions for tools and formats", () => {
    const added = (body: object) => accepted(body).size.instructionTokens;
    expect(added({})).toBe(0);
    expect(added({ tools: [tool] })).toBe(1000);
    expect(added({ output_config: { format: { type: "json_schema", schema: {} } } })).toBe(1000);
    expect(added({ tools: [tool, { type: "bash_20250124", name: "bash" }] })).toBe(4000);
  });

  it("accepts a maximum of 0, and holds the model's maximum for an invalid one", () => {
    expect(accepted({ max_tokens: 0 }).size.outputMax).toBe(0);
    expect(accepted({ max_tokens: -1 }).size.outputMax).toBe(Infinity);
    expect(accepted({ max_tokens: undefined }).size.outputMax).toBeNull();
    const capped = (max: number) =>
      withOutputMaximum(bytesOf({ max_tokens: max }), messages.maximum as OutputMaximum, {
        field: "max_tokens",
        most: 50,
        unstated: 50,
      }).toString();
    expect([0, 49, 51, -1].map((max) => /"max_tokens":(-?\d+)/.exec(capped(max))?.[1])).toEqual([
      "0",
      "49",
      "50",
      "50",
    ]);
  });

  it("states the thinking that the maximum includes", () => {
    const thinking = (budget: unknown) =>
      accepted({ thinking: { type: "enabled", budget_tokens: budget } }).thinkingTokens;
    expect([thinking(60), thinking(100), thinking("x")]).toEqual([60, undefined, undefined]);
  });

  it("accepts every beta except one for a longer output", () => {
    const request = accepted({});
    const with_ = (beta: string) => withHeadersAndQuery(request, messages, [["anthropic-beta", beta]], "?beta=true");
    expect(with_("claude-code-20250219,context-1m-2025-08-07,fast-mode-2026-02-01,new-thing")).toBe(request);
    expect(with_("output-300k-2026-01-01").unboundedFields).toEqual(["header anthropic-beta"]);
  });

  it.each<[object | string, string]>([
    [{ messages: [] }, "messages"],
    [{ messages: "hi" }, "messages"],
    ['{"messages":[1]}', "model"],
    ['{"model":"m","messages":[1],"Max_tokens":5}', "max_tokens"],
    ['{"model":"m","messages":[1],"max_tokens":5,"max_tokens":6}', "max_tokens"],
    ['{"model":"m","messages":[1],"Context_Management":{}}', "context_management"],
    ['{"model":"m","messages":[{"content":[{"type":"text","type":"file"}]}]}', "messages.content.type"],
  ])("refuses %j", (body, param) => {
    expect(refusal(body)).toMatchObject({ code: "invalid_request", param });
  });

  it("reads the prompt as texts, calls and tools to count its tokens", () => {
    const body = bytesOf({
      system: "Be brief.",
      tools: [tool],
      messages: [
        { role: "user", content: [{ type: "text", text: "one" }] },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "read", input: { a: 1 } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "two" }] },
      ],
    });
    const text = accepted({}).prompt.text(body);
    expect(text).toMatchObject({
      kind: "chat",
      chat: {
        texts: ["system", "Be brief.", "user", "one", "assistant", "user", "two"],
        messages: 4,
        turns: [{ calls: [{ name: "read", arguments: '{"a":1}' }] }],
        tools: [{ type: "function", function: { name: "read" } }],
      },
    });
    const inside = JSON.stringify(JSON.parse(body.toString()).messages).length + '"Be brief."'.length;
    expect(accepted({}).prompt.bytesOutside(body)).toBe(body.length - inside);
  });

  it.each<[string, object]>([
    ["an unknown member of a message", { role: "assistant", content: "x", wonder: "a text" }],
    ["a member that answers have", { role: "assistant", content: "x", id: "msg_1", stop_reason: "end_turn" }],
    ["an unknown member of a block", assistantBlock({ type: "text", text: "x", wonder: { depth: [1, "a text"] } })],
    ["an unknown block", assistantBlock({ type: "wonder", text: "x", tool_use_id: "toolu_1", data: "c2VhbGVk" })],
    [
      "blocks in an unknown block",
      assistantBlock({
        type: "wonder_tool_result",
        tool_use_id: "srvtoolu_1",
        content: [{ type: "web_search_result", url: "https://x.example", title: "t", encrypted_content: "e" }],
      }),
    ],
    [
      "an unknown member of a search result",
      assistantBlock({
        type: "web_search_tool_result",
        tool_use_id: "s",
        content: [{ type: "web_search_result", url: "https://x.example", title: "t", encrypted_content: "e", rank: 1 }],
      }),
    ],
  ])("bounds what an answer said by its bytes: %s", (_, message) => {
    const { size, fields, unboundedFields } = accepted({ messages: [...hello, message, ...hello] });
    expect([size.unboundedFields, unboundedFields, fields.mentions]).toEqual([[], [], []]);
    const isKnown = JSON.stringify(message).includes("stop_reason");
    expect(fields.doubts).toEqual(isKnown ? [] : ["unknown_field"]);
  });

  it.each<[string, object]>([
    ["an id of a file", assistantBlock({ type: "text", text: "x", file_id: "file_1" })],
    ["an address", assistantBlock({ type: "wonder", page: "https://x.example" })],
    ["a stored source", assistantBlock({ type: "wonder", source: { type: "file", file_id: "f" } })],
    ["a kind of file", assistantBlock({ type: "document_v2", text: "x" })],
    [
      "an address in a block of a block",
      assistantBlock({ type: "wonder", content: [{ type: "wonder", page: "https://x.example" }] }),
    ],
    ["a long address", assistantBlock({ type: "text", text: "x", wonder: `https://x.example/${"a".repeat(5000)}` })],
    ["a container", { role: "assistant", content: "x", container: { id: "container_1" } }],
    ["another case of a member", { role: "assistant", Content: "x" }],
    ["another case of a role", { role: "assistant", Role: "user", content: "x" }],
    ["the same member in a user's message", { role: "user", content: "x", wonder: "a text" }],
  ])("holds the whole context for what may refer to other content: %s", (_, message) => {
    expect(accepted({ messages: [message] }).size.unboundedFields).toHaveLength(1);
  });

  it("refuses another case of a priced member in an earlier answer, and reads its marks of a cache", () => {
    const marked = assistantBlock({ type: "wonder", cache_control: { type: "ephemeral", ttl: "1h" } });
    expect(accepted({ messages: [marked] }).classes.prompt).toContain("cache_write_1h");
    expect(refusal({ messages: [{ role: "assistant", content: "x", Cache_Control: {} }] })).toMatchObject({
      param: "messages.cache_control",
    });
  });

  it("counts unknown members of earlier answers outside the texts, and unknown blocks as text", () => {
    const outside = (message: object) => {
      const body = bytesOf({ messages: [message] });
      return accepted({}).prompt.bytesOutside(body) - (body.length - JSON.stringify([message]).length);
    };
    expect(outside(assistantBlock({ type: "text", text: "x" }))).toBe(0);
    expect(outside(assistantBlock({ type: "text", text: "x", wonder: "12345" }))).toBe('{"wonder":"12345"}'.length);
    expect(outside({ role: "assistant", content: "x", wonder: "12345" })).toBe('{"wonder":"12345"}'.length);
    expect(outside(assistantBlock({ type: "wonder", page: "12345" }))).toBe(0);
    const { texts } = chatIn({ messages: [assistantBlock({ type: "wonder", page: "12345" })] });
    expect(texts).toEqual(["assistant", '{"type":"wonder","page":"12345"}']);
  });
});

function chatIn(body: object) {
  const text = accepted({}).prompt.text(bytesOf(body));
  if (text.kind !== "chat") throw new Error(text.kind);
  return text.chat;
}
