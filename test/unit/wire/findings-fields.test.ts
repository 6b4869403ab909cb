import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { passthrough } from "../../../src/wire/endpoints/passthrough.ts";
import {
  chatParts,
  includedData,
  messageMembers,
  responseItems,
  responseParts,
  responseTools,
} from "../../../src/wire/field-table.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { withHeadersAndQuery } from "../../../src/wire/headers.ts";
import type { RequestFields } from "../../../src/wire/findings.ts";

const fieldsAt = (route: string): RequestFields => {
  const found = endpoints.find((endpoint) => endpoint.route === route);
  if (found === undefined) throw new Error(`no endpoint at ${route}`);
  return found.fields;
};

function readAt(route: string, body: object | string): ModelRequest {
  const endpoint = endpoints.find((one) => one.route === route);
  const read = endpoint?.readRequest(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));
  if (read?.ok !== true) throw new Error(JSON.stringify(read));
  return read.request;
}

/** Names of the members that an interface of the official SDK declares itself. */
function declared(file: string, name: string): string[] {
  const text = readFileSync(
    new URL(`../../../node_modules/openai/resources/${file}.d.ts`, import.meta.url),
    "utf8",
  ).replaceAll(/\/\*[^]*?\*\//g, "");
  const start = new RegExp(`interface ${name}(<[^{]*>)?( extends [^{]*)? \\{`).exec(text);
  if (start === null) throw new Error(`${file} has no ${name}`);
  const names: string[] = [];
  let depth = 0;
  for (const line of text.slice(start.index + start[0].length).split("\n")) {
    const member = /^\s+(\w+)\??:/.exec(line)?.[1];
    if (depth === 0 && member !== undefined) names.push(member);
    depth += line.split("{").length - line.split("}").length;
    if (depth < 0) return names;
  }
  throw new Error(`${name} does not end`);
}

describe("the field table knows every field of the official SDK", () => {
  it.each([
    ["/v1/chat/completions", "chat/completions/completions", "ChatCompletionCreateParamsBase"],
    ["/v1/completions", "completions", "CompletionCreateParamsBase"],
    ["/v1/embeddings", "embeddings", "EmbeddingCreateParams"],
    ["/v1/responses", "responses/responses", "ResponseCreateParamsBase"],
    ["/v1/images/generations", "images", "ImageGenerateParamsBase"],
    ["/v1/images/edits", "images", "ImageEditParamsBase"],
    ["/v1/images/variations", "images", "ImageCreateVariationParams"],
    ["/v1/audio/speech", "audio/speech", "SpeechCreateParams"],
    ["/v1/audio/transcriptions", "audio/transcriptions", "TranscriptionCreateParamsBase"],
    ["/v1/audio/translations", "audio/translations", "TranslationCreateParams"],
  ])("in a request of %s", (route, file, name) => {
    const names = declared(file, name);
    expect(names).toContain("model");
    expect(names.filter((field) => fieldsAt(route).meaningOf(field) === undefined)).toEqual([]);
  });

  it.each(["Developer", "System", "User", "Assistant", "Tool", "Function"])("in a message: %s", (role) => {
    const names = declared("chat/completions/completions", `ChatCompletion${role}MessageParam`);
    expect(names.filter((field) => messageMembers.meaningOf(field) === undefined)).toEqual([]);
  });

  it.each<[string, typeof chatParts, string, string]>([
    ["text", chatParts, "chat/completions/completions", "ChatCompletionContentPartText"],
    ["image_url", chatParts, "chat/completions/completions", "ChatCompletionContentPartImage"],
    ["input_audio", chatParts, "chat/completions/completions", "ChatCompletionContentPartInputAudio"],
    ["refusal", chatParts, "chat/completions/completions", "ChatCompletionContentPartRefusal"],
    ["message", responseItems, "responses/responses", "EasyInputMessage"],
    ["message", responseItems, "responses/responses", "ResponseOutputMessage"],
    ["function_call", responseItems, "responses/responses", "ResponseFunctionToolCall"],
    ["custom_tool_call", responseItems, "responses/responses", "ResponseCustomToolCall"],
    ["custom_tool_call_output", responseItems, "responses/responses", "ResponseCustomToolCallOutput"],
    ["reasoning", responseItems, "responses/responses", "ResponseReasoningItem"],
    ["tool_search_call", responseItems, "responses/responses", "ToolSearchCall"],
    ["tool_search_output", responseItems, "responses/responses", "ResponseToolSearchOutputItemParam"],
    ["additional_tools", responseItems, "responses/responses", "AdditionalTools"],
    ["local_shell_call", responseItems, "responses/responses", "LocalShellCall"],
    ["local_shell_call_output", responseItems, "responses/responses", "LocalShellCallOutput"],
    ["shell_call", responseItems, "responses/responses", "ShellCall"],
    ["shell_call_output", responseItems, "responses/responses", "ShellCallOutput"],
    ["apply_patch_call", responseItems, "responses/responses", "ApplyPatchCall"],
    ["apply_patch_call_output", responseItems, "responses/responses", "ApplyPatchCallOutput"],
    ["input_text", responseParts, "responses/responses", "ResponseInputText"],
    ["input_image", responseParts, "responses/responses", "ResponseInputImage"],
    ["input_file", responseParts, "responses/responses", "ResponseInputFile"],
    ["output_text", responseParts, "responses/responses", "ResponseOutputText"],
  ])("in an item or a part: %s", (type, kinds, file, name) => {
    const known = kinds.get(type);
    if (typeof known !== "object") throw new Error(`${type} has no members`);
    expect(declared(file, name).filter((field) => known.meaningOf(field) === undefined)).toEqual([]);
  });

  it.each([
    ["namespace", "NamespaceTool"],
    ["shell", "FunctionShellTool"],
    ["apply_patch", "ApplyPatchTool"],
    ["tool_search", "ToolSearchTool"],
    ["local_shell", "LocalShell"],
  ])("in a tool: %s", (type, name) => {
    const known = responseTools.get(type);
    if (typeof known !== "object") throw new Error(`${type} has no members`);
    expect(declared("responses/responses", name).filter((field) => known.meaningOf(field) === undefined)).toEqual([]);
  });

  it("in the includable data of an answer", () => {
    const text = readFileSync(
      new URL("../../../node_modules/openai/resources/responses/responses.d.ts", import.meta.url),
      "utf8",
    );
    const named = /type ResponseIncludable = ([^;]*);/.exec(text)?.[1]?.match(/(?<=')[^' |]+(?=')/g) ?? [];
    expect(named).toContain("reasoning.encrypted_content");
    expect(named.filter((name) => !includedData.has(name))).toEqual([]);
  });
});

describe("fields that name models or choose providers", () => {
  it.each([...endpoints, passthrough].map(({ route, fields }) => [route, fields] as const))(
    "have their meaning at %s, and names of built-ins have none",
    (_, fields) => {
      for (const name of ["models", "fallbacks", "preset"]) expect(fields.meaningOf(name)).toBe("models");
      for (const name of ["provider", "plugins", "route"])
        expect(fields.meaningOf(name)).toMatchObject({ expensive: expect.any(String) });
      // Rates by region are read where the service tier is.
      const isRead = fields.meaningOf("service_tier") === "priced";
      expect(fields.meaningOf("inference_geo")).toEqual(
        isRead ? "priced" : { expensive: expect.any(String), unless: ["global"] },
      );
      expect(fields.meaningOf("constructor")).toBeUndefined();
      expect(fields.meaningOf("__proto__")).toBeUndefined();
    },
  );
});

describe("texts in unknown fields", () => {
  const chat = (more: string) =>
    readAt("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a text"}]${more}}`).fields;

  it("are the values and member names of the unknown field only", () => {
    expect(chat(',"x":{"a":["b",{"c":"b"}],"d":"e,f"},"user":"g","seed":1').mentions).toEqual(
      expect.arrayContaining(["a", "b", "c", "d", "e,f", "e", "f"]),
    );
    expect(chat(',"user":"g","metadata":{"model":"o1"},"stop":["o1"]')).toMatchObject({
      mentions: [],
      unknown: [],
      models: [],
      doubts: [],
    });
  });

  it("exclude texts too long for a name, and are limited in number", () => {
    expect(chat(`,"x":["${"y".repeat(300)}","${"z".repeat(5_000)}"]`).mentions).toEqual([]);
    const many = Array.from({ length: 10_001 }, (_, index) => `t${index}`);
    const refused = endpoints[0]?.readRequest(
      Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }], x: many })),
    );
    expect(refused).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
    const models = endpoints[0]?.readRequest(
      Buffer.from(
        JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }], models: many.slice(0, 101) }),
      ),
    );
    expect(models).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
  });

  it("are found at any depth", () => {
    const deep = `${"[".repeat(5_000)}"o1"${"]".repeat(5_000)}`;
    expect(chat(`,"x":${deep}`).mentions).toContain("o1");
    expect(chat(`,"fallbacks":${deep}`).mentions).toContain("o1");
    expect(
      readAt("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x","y":${deep}}]}`).fields
        .mentions,
    ).toContain("o1");
  });
});

describe("headers and the query", () => {
  const plain = readAt("/v1/chat/completions", { model: "m", messages: [{ role: "user", content: "x" }] });
  const chat = { fields: fieldsAt("/v1/chat/completions") };

  it("leave a request unchanged if they do not affect the price", () => {
    const headers = Object.entries({
      accept: "*/*",
      "user-agent": "x",
      "x-stainless-lang": "js",
      "openai-organization": "o",
      "openai-beta": "assistants=v2",
      "anthropic-version": "v",
    });
    expect(withHeadersAndQuery(plain, chat, headers, "")).toBe(plain);
    expect(withHeadersAndQuery(plain, chat, headers, "?api-version=1&beta=true")).toBe(plain);
  });

  it.each<[string, string, string, object]>([
    ["anthropic-beta", "wonder-1,pdfs-2024-09-25", "", { unknown: ["header anthropic-beta"] }],
    ["openai-wonder", "o1", "", { unknown: ["header openai-wonder"], mentions: ["o1"] }],
    ["accept", "x", "?a=o1,b&c", { unknown: ["query a", "query c"], mentions: expect.arrayContaining(["o1", "b"]) }],
    ["accept", "x", "?model=o1", { unknown: [], models: ["o1"] }],
    ["accept", "x", "?MODELS=o1%2Co3", { unknown: [], models: ["o1", "o3"] }],
  ])("with %s: %s and the query '%s' are read", (name, value, query, facts) => {
    expect(withHeadersAndQuery(plain, chat, [[name, value]], query).fields).toMatchObject(facts);
  });

  it.each([
    ["anthropic-beta", "context-1m-2025-08-07", "", "header anthropic-beta"],
    ["accept", "x", "?n=5", "query n"],
    ["accept", "x", "?provider=x", "query provider"],
  ])("with %s: %s and the query '%s' have no bound", (name, value, query, field) => {
    expect(withHeadersAndQuery(plain, chat, [[name, value]], query).unboundedFields).toEqual([field]);
  });
});
