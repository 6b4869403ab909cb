import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { plainTerms } from "../../../../src/core/bounds.ts";
import { chatTextOf, readChatRequest, withStreamUsage } from "../../../../src/wire/endpoints/chat-completions.ts";
import { chatFields } from "../../../../src/wire/field-table.ts";
import { bytesOutside, type ModelRequest } from "../../../../src/wire/model-request.ts";
import { noChat } from "../../../../src/wire/prompt-text.ts";
import { runs } from "../../../support/effort.ts";

const hello = [{ role: "user", content: "hi" }];

function bytesOf(body: unknown): Buffer {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

function accepted(body: unknown): ModelRequest {
  const result = readChatRequest(bytesOf(body));
  if (!result.ok) throw new Error(JSON.stringify(result.refusal));
  return result.request;
}

function refusal(body: unknown): object {
  const result = readChatRequest(Buffer.isBuffer(body) ? body : bytesOf(body));
  if (result.ok) throw new Error("the request was accepted");
  return result.refusal;
}

const request = (more: object): object => ({ model: "gpt-4o", messages: hello, ...more });
/** Returns a request as text, so that names can be given twice. */
const text = (more: string): string => `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]${more}}`;
const withParts = (...parts: unknown[]): object => ({ model: "gpt-4o", messages: [{ role: "user", content: parts }] });
const holdsContext = (body: unknown): boolean => accepted(body).size.unboundedFields.length > 0;

describe("readChatRequest", () => {
  it("reads the fields that determine the cost", () => {
    const body = request({
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 50,
      n: 2,
      tools: [{ type: "function", function: { name: "f" } }],
    });
    expect(accepted(body)).toMatchObject({
      model: "gpt-4o",
      stream: true,
      wantsStreamUsage: true,
      size: {
        messages: 1,
        tools: 1,
        choices: 2,
        outputMax: 50,
        imageParts: 0,
        unboundedFields: [],
        textBytes: bytesOf(body).length,
      },
      unboundedFields: [],
    });
  });

  it.each([
    ["nothing", ""],
    ["an incomplete text", '{"model":'],
    ["a trailing comma", '{"model":"gpt-4o",}'],
    ["a byte order mark", `\ufeff${text("")}`],
    ["a list", "[]"],
    ["a number", "7"],
    ["null", "null"],
    ["a text", '"gpt-4o"'],
    ["invalid UTF-8", Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xff]), Buffer.from('"}')])],
    ["an overlong form", Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')])],
    [
      "a surrogate in UTF-8",
      Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    ],
    ["UTF-16", Buffer.from(text(""), "utf16le")],
  ])("refuses %s as invalid JSON", (_, body) => {
    expect(refusal(body)).toMatchObject({ code: "invalid_json" });
  });

  it.each<[string, unknown, string]>([
    ["no model", { messages: hello }, "model"],
    ["an empty model", { model: "", messages: hello }, "model"],
    ["a model that is not a text", { model: 7, messages: hello }, "model"],
    ["a model name of 300 characters", { model: "x".repeat(300), messages: hello }, "model"],
    ["a control character in the model", { model: "gpt\u0000", messages: hello }, "model"],
    ["half a character in the model", '{"model":"gpt\\ud800","messages":[1]}', "model"],
    ["no messages", { model: "gpt-4o" }, "messages"],
    ["empty messages", { model: "gpt-4o", messages: [] }, "messages"],
    ["messages that are not a list", { model: "gpt-4o", messages: "hi" }, "messages"],
    ["a prototype instead of members", '{"__proto__":{"model":"gpt-4o","messages":[1]}}', "model"],
    ...[0, -1, 1.5, "2", true, [], {}, 1001, 1e300].map((n): [string, unknown, string] => [
      `n: ${JSON.stringify(n)}`,
      request({ n }),
      "n",
    ]),
  ])("refuses %s", (_, body, param) => {
    expect(refusal(body)).toMatchObject({ code: "invalid_request", param });
  });

  const priced = [...chatFields.entries()].filter(([, meaning]) => meaning !== "free").map(([name]) => name);

  it.each(priced)("refuses %s given twice, or in another letter case", (name) => {
    const more = name === "model" || name === "messages" ? "" : `,"${name}":1`;
    expect(refusal(text(`${more},"${name}":1`))).toMatchObject({ code: "invalid_request", param: name });
    for (const twin of [
      name.toUpperCase(),
      name[0]?.toUpperCase() + name.slice(1),
      name.replaceAll("s", "ſ"),
      name.replaceAll("k", "\u212a"),
    ]) {
      if (twin === name) continue;
      expect(refusal(text(`,"${twin}":1`)), twin).toMatchObject({ code: "invalid_request", param: name });
      const escaped = [...twin].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
      expect(refusal(text(`,"${escaped}":1`)), twin).toMatchObject({ code: "invalid_request", param: name });
    }
  });

  it("reads escaped names like plain ones", () => {
    expect(accepted('{"\\u006dodel":"gpt-4o","messages":[1]}').model).toBe("gpt-4o");
    expect(refusal('{"\\u006dodel":"gpt-4o","model":"o1","messages":[1]}')).toMatchObject({ param: "model" });
  });

  it("accepts repeated fields that do not affect the cost", () => {
    expect(accepted(text(',"temperature":1,"temperature":2,"user":"x","seed":null')).size.unboundedFields).toEqual([]);
  });

  it.each<[string, object, number | null]>([
    ["none", {}, null],
    ["null", { max_tokens: null }, null],
    ["max_tokens", { max_tokens: 7 }, 7],
    ["max_completion_tokens", { max_completion_tokens: 8 }, 8],
    ["the larger of both", { max_tokens: 9, max_completion_tokens: 8 }, 9],
    ["one of them null", { max_tokens: null, max_completion_tokens: 8 }, 8],
    ["one of them malformed", { max_tokens: "9", max_completion_tokens: 8 }, Infinity],
    ["a text", { max_tokens: "9" }, Infinity],
    ["a fraction", { max_tokens: 1.5 }, Infinity],
    ["zero", { max_tokens: 0 }, Infinity],
    ["a negative one", { max_tokens: -5 }, Infinity],
    ["an absurd one", { max_tokens: 1e15 }, Infinity],
    ["a list", { max_tokens: [5] }, Infinity],
  ])("takes the maximum of the output from %s", (_, more, expected) => {
    expect(accepted(request(more)).size.outputMax).toBe(expected);
  });

  it("counts parts and leaves their payloads out of the text", () => {
    const payload = "A".repeat(10_000);
    const body = withParts(
      { type: "text", text: "look" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${payload}`, detail: "high" } },
      { type: "image_url", image_url: "https://example.com/a.png" },
      { type: "input_audio", input_audio: { data: payload, format: "wav" } },
      { type: "file", file: { filename: "a.pdf", file_data: payload } },
      { type: "file", file: { file_id: "file-1" } },
    );
    const { size, classes } = accepted(body);
    expect(size).toMatchObject({ imageParts: 2, audioParts: 1, fileParts: 2, unboundedFields: [] });
    expect(size.textBytes).toBe(
      bytesOf(body).length - 3 * payload.length - "data:image/png;base64,".length - "https://example.com/a.png".length,
    );
    expect(classes.prompt).toEqual(expect.arrayContaining(["image_input", "audio_input"]));
  });

  it("reads a content part without a list around it like a list of that part", () => {
    const url = `data:image/png;base64,${"A".repeat(10_000)}`;
    for (const part of [
      { type: "image_url", image_url: { url } },
      { type: "input_audio", input_audio: { data: url } },
      { type: "file", file: { file_data: url } },
      { type: "video_url" },
    ]) {
      const [bare, listed] = [part, [part]].map((content) =>
        accepted({ model: "m", messages: [{ role: "user", content }] }),
      );
      expect(bare).toEqual({
        ...listed,
        size: { ...listed?.size, textBytes: (listed?.size.textBytes ?? 0) - 2 },
        prompt: bare?.prompt,
      });
    }
    expect(
      accepted({ model: "m", messages: [{ role: "user", content: { type: "image_url", image_url: { url } } }] }),
    ).toMatchObject({
      size: { imageParts: 1, unboundedFields: [] },
      classes: { prompt: expect.arrayContaining(["image_input"]) },
    });
    expect(
      chatTextOf(bytesOf({ model: "m", messages: [{ role: "user", content: { type: "text", text: "look" } }] })).texts,
    ).toEqual(["user", "look"]);
  });

  it("prices content that the body does not show also as images and sound", () => {
    for (const body of [
      request({ something_new: 1 }),
      withParts({ type: "video_url" }),
      withParts({ image_url: { url: "https://x" } }),
    ]) {
      expect(accepted(body).classes.prompt).toEqual([
        "input",
        "cached_input",
        "cache_write",
        "image_input",
        "audio_input",
      ]);
    }
    expect(accepted(request({})).classes.prompt).toEqual(["input", "cached_input", "cache_write"]);
  });

  it("subtracts at most the bytes of a payload", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.boolean(), (url, escapes) => {
        const part = JSON.stringify({ type: "image_url", image_url: { url } });
        const shown = escapes ? part.replaceAll("/", "\\/") : part;
        const body = `{"model":"m","messages":[{"role":"user","content":[${shown}]}]}`;
        const empty =
          '{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":""}}]}]}';
        expect(accepted(body).size.textBytes).toBeGreaterThanOrEqual(empty.length);
      }),
    );
  });

  it.each<[string, unknown]>([
    ["an unknown field", request({ something_new: 1 })],
    ["a free field in another letter case", request({ Temperature: 1 })],
    ["a field named like a built-in", text(',"constructor":1')],
    ["a field named __proto__", text(',"__proto__":{"n":5}')],
    ["an unknown member of a prediction", request({ prediction: { type: "content", content: "x", wonder: 1 } })],
    ["a prediction that is not an object", request({ prediction: "x" })],
    [
      "a part of a prediction that is not text",
      request({ prediction: { type: "content", content: [{ type: "file" }] } }),
    ],
    [
      "an unknown part of a result",
      withParts({ type: "tool_result", tool_use_id: "t", content: [{ type: "document" }] }),
    ],
    ["an unknown member of a thought", withParts({ type: "thinking", thinking: "x", image_url: { url: "https://x" } })],
    ["an unknown part", withParts({ type: "video_url", video_url: { url: "https://x" } })],
    ["a part without a type", withParts({ text: "x" })],
    ["a part that is not an object", withParts("x")],
    ["a part whose type is a built-in's name", withParts({ type: "constructor" })],
    ["an earlier audio answer", { model: "m", messages: [{ role: "assistant", audio: { id: "audio_1" } }] }],
    ["an unknown member of a message", { model: "m", messages: [{ role: "user", content: "x", images: ["aGk="] }] }],
    // A reader that ignores letter case would find an image here.
    [
      "a message's content in another letter case",
      { model: "m", messages: [{ role: "user", content: "x", Content: [{ type: "image_url" }] }] },
    ],
    [
      "a part's type in another letter case",
      withParts({ type: "text", text: "x", Type: "image_url", image_url: { url: "https://x" } }),
    ],
    ["an image inside a text", withParts({ type: "text", text: "x", image_url: { url: "https://x" } })],
  ])("has the whole context held for %s", (_, body) => {
    expect(holdsContext(body)).toBe(true);
  });

  it.each<[string, unknown]>([
    [
      "members of tool calls and answers",
      {
        model: "m",
        messages: [
          {
            role: "assistant",
            content: null,
            refusal: null,
            tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
          },
          { role: "tool", tool_call_id: "1", content: "x" },
        ],
      },
    ],
    [
      "a message's audio: null",
      { model: "m", messages: [{ role: "assistant", content: "x", audio: null, images: null }] },
    ],
    ["cache marks", withParts({ type: "text", text: "x", cache_control: { type: "ephemeral" } })],
    // Some clients write every field they know, with null for unset ones.
    [
      "null for unset fields",
      request({
        prediction: null,
        something_new: null,
        web_search_options: null,
        service_tier: null,
        n: null,
        stream: null,
        tools: null,
      }),
    ],
  ])("bounds a request by its text despite %s", (_, body) => {
    expect(accepted(body)).toMatchObject({ size: { unboundedFields: [] }, unboundedFields: [] });
  });

  it.each<[string, object, string[]]>([
    ["web search", { web_search_options: {} }, ["web_search_options"]],
    ["plugins", { plugins: [] }, ["plugins"]],
    ["best_of", { best_of: 5 }, ["best_of"]],
    ["two of them", { best_of: 5, plugins: [] }, ["best_of", "plugins"]],
  ])("finds no bound for %s", (_, more, fields) => {
    expect(accepted(request(more)).unboundedFields).toEqual(fields);
  });

  it.each<[string, object, string | null, string[], string[]]>([
    ["a service tier", { service_tier: "Priority" }, "priority", [], []],
    ["a service tier that is not a text", { service_tier: 1 }, "unknown", [], []],
    [
      "a hosted tool",
      { tools: [{ type: "function", function: {} }, { type: "web_search" }] },
      null,
      ["web_search_call"],
      ["tools[1] (web_search)"],
    ],
    [
      "a tool of a dated type, twice",
      { tools: [{ type: "web_search_2025_08_26" }, { type: "web_search_20250305" }] },
      null,
      ["web_search_call", "web_search_call"],
      ["tools[0] (web_search_2025_08_26)", "tools[1] (web_search_20250305)"],
    ],
    ["a tool without a type", { tools: [{ function: {} }] }, null, ["other_call"], ["tools[0]"]],
    ["a tool that is not an object", { tools: ["web_search"] }, null, ["other_call"], ["tools[0]"]],
    ["a tool without a list around it", { tools: { type: "mcp" } }, null, ["mcp_call"], ["tools[0] (mcp)"]],
    [
      "a tool of responses",
      { tools: [{ type: "local_shell" }] },
      null,
      ["local_shell_call"],
      ["tools[0] (local_shell)"],
    ],
    [
      "a tool's type in another letter case",
      { tools: [{ type: "function", TYPE: "web_search" }] },
      null,
      ["other_call"],
      ["tools[0]"],
    ],
    ["a search by a field", { web_search_options: {} }, null, ["web_search_call"], ["web_search_options"]],
  ])("states %s in the terms of the request", (_, more, serviceTier, calls, fields) => {
    const hostedTools = calls.length === 0 ? null : { calls, fields, areShown: false, callsMax: undefined };
    expect(accepted(request(more)).terms).toEqual({ ...plainTerms, serviceTier, hostedTools });
  });

  it.each([
    [{ speed: "Fast" }, { speed: "fast" }],
    [{ inference_geo: "us" }, { inferenceGeo: "us" }],
    [
      { speed: "turbo", inference_geo: ["us"] },
      { speed: "speed:turbo", inferenceGeo: "inference_geo:unknown" },
    ],
  ])("states the speed and the region in the terms of the request: %j", (more, terms) => {
    const read = accepted(request(more));
    expect([read.terms, read.unboundedFields, read.fields.doubts]).toEqual([{ ...plainTerms, ...terms }, [], []]);
  });

  it.each([
    {},
    { service_tier: "default", speed: "standard", inference_geo: "global" },
    { service_tier: null },
    { tools: [{ type: "function", function: {} }] },
  ])("states no terms for %j", (more) => {
    expect(accepted(request(more)).terms).toBeUndefined();
  });

  it.each(["auto", "default", "flex"])("bounds the service tier %s", (service_tier) => {
    expect(accepted(request({ service_tier })).unboundedFields).toEqual([]);
  });

  it("adds the token classes of answers with sound or images", () => {
    expect(accepted(request({})).classes.completion).toEqual(["output", "reasoning"]);
    expect(accepted(request({ modalities: ["text", "audio", "image"] })).classes.completion).toEqual([
      "output",
      "reasoning",
      "audio_output",
      "image_output",
    ]);
  });

  it.each<[unknown, readonly string[]]>([
    ["audio", ["audio_output"]],
    [["image", "text"], ["image_output"]],
    [["AUDIO"], ["audio_output", "image_output"]],
    [{ type: "audio" }, ["audio_output", "image_output"]],
    ["text", []],
    [null, []],
  ])("adds every token class that the modalities %j may mean", (modalities, media) => {
    expect(accepted(request({ modalities })).classes.completion).toEqual(["output", "reasoning", ...media]);
  });

  it("counts a list instead of a message as unknown", () => {
    const image = { type: "image_url", image_url: { url: "https://host/a.png" } };
    const { fields, size } = accepted({ model: "m", messages: [[{ role: "user", content: [image] }]] });
    expect([fields.unknown, size.unboundedFields]).toEqual([["messages"], ["messages"]]);
  });

  it("reads stream as true only from a plain true", () => {
    for (const stream of [false, null, "true", 1]) expect(accepted(request({ stream })).stream).toBe(false);
  });

  it("returns a request or a refusal for any JSON and any bytes", () => {
    const anyBytes = fc.oneof(
      fc.json().map((json) => Buffer.from(json)),
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    );
    const anyBody = fc.oneof(
      anyBytes,
      fc
        .record({
          model: fc.jsonValue(),
          messages: fc.array(fc.oneof(fc.jsonValue(), fc.record({ content: fc.jsonValue(), role: fc.jsonValue() }))),
          tools: fc.jsonValue(),
        })
        .map(bytesOf),
    );
    fc.assert(
      fc.property(anyBody, (bytes) => {
        const result = readChatRequest(bytes);
        if (!result.ok) return;
        chatTextOf(bytes);
        expect(result.request.size.textBytes).toBeLessThanOrEqual(bytes.length);
        expect(bytesOutside(bytes, "messages")).toBeLessThan(bytes.length);
      }),
      { numRuns: runs(2000) },
    );
  });

  it("reads bodies nested ten thousand levels deep", () => {
    const deep = "[".repeat(10_000) + "]".repeat(10_000);
    expect(holdsContext(text(`,"x":${deep}`))).toBe(true);
    expect(accepted(`{"model":"m","messages":[${deep}]}`).size.messages).toBe(1);
  });
});

describe("chatTextOf", () => {
  it("returns the texts without payloads", () => {
    const body = {
      model: "m",
      messages: [
        {
          role: "user",
          name: "bob",
          content: [
            { type: "text", text: "a" },
            { type: "image_url", image_url: { url: "data:x" } },
          ],
        },
        { role: "assistant", content: null, refusal: "no", tool_calls: [{ function: { name: "f", arguments: "{}" } }] },
      ],
      tools: [{ type: "function" }],
      functions: [{ name: "g" }],
    };
    expect(chatTextOf(bytesOf(body))).toEqual({
      ...noChat,
      texts: ["bob", "user", "a", "assistant"],
      messages: 2,
      names: 1,
      turns: [{ kind: "tool", calls: [{ name: "f", arguments: "{}" }], results: [] }],
      tools: [{ type: "function" }, { name: "g" }],
      images: [{ size: null, detail: "auto" }],
    });
  });

  it("groups results with the calls before them by kind and count", () => {
    const call = { name: "f", arguments: "{}" };
    const messages = [
      { role: "tool", content: "alone" },
      { role: "assistant", tool_calls: [{ function: call }, { function: call }] },
      { role: "tool", name: "ignored", content: "a" },
      {
        role: "tool",
        content: [
          { type: "text", text: "b" },
          { type: "text", text: "c" },
        ],
      },
      { role: "tool", content: "one too many" },
      { role: "assistant", function_call: call },
      { role: "function", name: "f", content: "d" },
    ];
    expect(chatTextOf(bytesOf({ model: "m", messages }))).toMatchObject({
      texts: ["assistant", "assistant", "f"],
      messages: 2,
      turns: [
        { kind: "tool", calls: [], results: ["alone"] },
        { kind: "tool", calls: [call, call], results: ["a", "bc"] },
        { kind: "tool", calls: [], results: ["one too many"] },
        { kind: "function", calls: [call], results: ["d"] },
      ],
    });
  });

  it("returns the system flag, tool choice and schema in addition to the texts", () => {
    const schema = { type: "object" };
    const body = {
      model: "m",
      messages: [{ role: "developer", content: "x" }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
    };
    expect(chatTextOf(bytesOf(body))).toMatchObject({
      hasSystem: true,
      toolChoice: { name: "f" },
      isSequential: true,
      schema: { name: "n", description: "", schema, isStrict: true },
    });
    expect(chatTextOf(bytesOf({ ...body, tool_choice: "none" })).toolChoice).toBe("none");
    expect(chatTextOf(bytesOf({ ...body, tool_choice: "auto" })).toolChoice).toBeNull();
  });

  // Passing so many texts as separate arguments overflowed the stack after the answer, and the hold remained.
  it("returns the texts of a message with 90,000 parts", () => {
    const parts = Array.from({ length: 90_000 }, () => '{"type":"text","text":"a"}').join(",");
    const bytes = bytesOf(`{"model":"m","messages":[{"role":"user","content":[${parts}]}]}`);
    expect(chatTextOf(bytes).texts).toHaveLength(90_001);
  });
});

describe("withStreamUsage", () => {
  const inject = (body: string): string => withStreamUsage(Buffer.from(body)).toString();

  it.each([
    ['{"model":"m"}', '{"stream_options":{"include_usage":true},"model":"m"}'],
    [' \n{ "model" : "m" }\n', ' \n{"stream_options":{"include_usage":true}, "model" : "m" }\n'],
    ['{"stream_options":null,"a":1}', '{"stream_options":{"include_usage":true},"a":1}'],
    ['{"stream_options" : { } ,"a":1}', '{"stream_options" : {"include_usage":true } ,"a":1}'],
    ['{"stream_options":{"include_usage" : false }}', '{"stream_options":{"include_usage" : true }}'],
    // Rewriting the other options would change numbers beyond 2^53.
    [
      '{"stream_options":{ "x": 12345678901234567890, "y":1.0}}',
      '{"stream_options":{"include_usage":true, "x": 12345678901234567890, "y":1.0}}',
    ],
    [
      '{"stream_options":{"include_usage":false,"x":{"include_usage":false},"include_usage":null}}',
      '{"stream_options":{"include_usage":true,"x":{"include_usage":false},"include_usage":true}}',
    ],
    [
      '{"messages":[{"stream_options":{}}],"s":"\\"stream_options\\":1"}',
      '{"stream_options":{"include_usage":true},"messages":[{"stream_options":{}}],"s":"\\"stream_options\\":1"}',
    ],
  ])("changes %s to %s", (body, expected) => {
    expect(inject(body)).toBe(expected);
  });

  it("requests usage and keeps every other value", () => {
    const options = fc.oneof(
      fc.constant(undefined),
      fc.constant(null),
      fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }),
      fc.record({ include_usage: fc.jsonValue(), x: fc.jsonValue() }),
    );
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }),
        options,
        fc.nat(3),
        (rest, stream_options, indent) => {
          const body = { ...rest, model: "m", ...(stream_options !== undefined && { stream_options }) };
          const read: unknown = JSON.parse(inject(JSON.stringify(body, null, indent)));
          const plain = JSON.parse(JSON.stringify(body)) as { stream_options?: object };
          expect(read).toEqual({ ...plain, stream_options: { ...plain.stream_options, include_usage: true } });
        },
      ),
      { numRuns: runs(500) },
    );
  });
});
