import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { message, part, responseItem, type Known, type Shape } from "../../../src/wire/output-members.ts";

/* What an answer said comes back in the next request. Its bytes bound it, unless it refers to other content. */

function read(route: string, body: object): ModelRequest {
  const endpoint = endpoints.find((one) => one.route === route);
  const result = endpoint?.readRequest(Buffer.from(JSON.stringify(body)));
  if (result?.ok !== true) throw new Error(JSON.stringify(result));
  return result.request;
}

const user = { role: "user", content: "go on" };
const chat = (said: object) =>
  read("/v1/chat/completions", { model: "m", messages: [user, { role: "assistant", ...said }, user] });
const response = (...items: object[]) => read("/v1/responses", { model: "m", input: [...items, user] });
const assistant = (said: object) => response({ type: "message", role: "assistant", ...said });

/** Both forms of an assistant's message. */
const speakers: readonly (readonly [string, string, (said: object) => ModelRequest])[] = [
  ["chat completions", "messages", chat],
  ["responses", "input", assistant],
];

const found = ({ size, fields }: ModelRequest) => ({
  context: size.unboundedFields,
  unknown: fields.unknown,
  mentions: fields.mentions,
});
const nothing = { context: [], unknown: [], mentions: [] };

describe("members that answers are known to have", () => {
  it.each<[string, object]>([
    ["Gemini's signature of a text", { extra_content: { google: { thought_signature: "A".repeat(5000) } } }],
    [
      "Gemini's signature of a call",
      {
        content: null,
        tool_calls: [
          {
            id: "call_1",
            type: "function",
            index: 0,
            function: { name: "f", arguments: '{"url":"https://a"}' },
            extra_content: { google: { thought_signature: "s" } },
          },
        ],
      },
    ],
    ["reasoning", { reasoning_content: "I think", reasoning_opaque: "s", thought_signature: "s", signature: "s" }],
    ["entries of reasoning", { reasoning_details: [{ type: "reasoning.encrypted", data: "x", id: "rs_1", index: 0 }] }],
    ["a single text of reasoning", { reasoning: { text: "I think" }, thinking: "I think" }],
    [
      "pages that the answer cites",
      { citations: ["https://a"], annotations: [{ url_citation: { url: "https://a" } }] },
    ],
    ["fields of a provider", { provider_specific_fields: { citations: [["https://a"]], thinking: "t" } }],
    ["an index, a status and a phase", { index: 0, status: "completed", phase: "final_answer", id: "msg_1" }],
    ["a refusal and an older call", { refusal: "no", function_call: { name: "f", arguments: "{}" } }],
    [
      "a call with a freely written input",
      { tool_calls: [{ id: "c", type: "custom", custom: { name: "n", input: "x" } }] },
    ],
    ["a part of the answer", { content: [{ type: "text", text: "x", thought_signature: "s", phase: "p", id: "i" }] }],
  ])("are bounded by their bytes in a chat: %s", (_, said) => {
    expect(found(chat(said))).toEqual(nothing);
  });

  it.each<[string, object]>([
    ["a message", { type: "message", role: "assistant", content: "x", encrypted_content: "s", agent: { name: "a" } }],
    [
      "a part",
      {
        role: "assistant",
        content: [{ type: "output_text", text: "x", thought_signature: "s", citations: ["https://a"] }],
      },
    ],
    [
      "a call",
      { type: "function_call", call_id: "c", id: "fc_1", name: "f", arguments: "{}", signature: "s", phase: "p" },
    ],
    ["reasoning", { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "s", format: "x", signature: "s" }],
  ])("are bounded by their bytes in an item: %s", (_, item) => {
    expect(found(response(item))).toEqual(nothing);
  });

  it("count images as image parts, without their bytes", () => {
    const url = `data:image/png;base64,${"A".repeat(9000)}`;
    const request = chat({ content: "", images: [{ type: "image_url", index: 0, image_url: { url } }] });
    expect(request.size).toMatchObject({ imageParts: 1, unboundedFields: [] });
    expect(request.size.textBytes).toBeLessThan(500);
    expect(request.classes.prompt).toContain("image_input");
  });

  it.each<object>([
    { images: [{ type: "image_url", file_id: "file-1" }] },
    { images: [{ image_url: { url: "https://a" }, file_id: "file-1" }] },
    { images: [7] },
  ])("do not count other entries of images as parts: %j", (said) => {
    expect(chat(said).size.unboundedFields).toEqual(["messages.images"]);
  });

  it("show a cache that is kept for an hour", () => {
    const marked = { type: "function", id: "c", function: { name: "f", arguments: "" }, cache_control: { ttl: "1h" } };
    for (const said of [
      { tool_calls: [marked] },
      { content: [{ type: "new", text: "x", cache_control: { ttl: "1h" } }] },
    ])
      expect(chat(said).classes.prompt).toContain("cache_write_1h");
  });
});

describe.each(speakers)("unknown members of an assistant's message in %s", (_, path, say) => {
  it.each<unknown>([
    "a text",
    { note: "a text", score: 0.5 },
    ["a", "b"],
    7,
    true,
    "gpt-5",
    { model: "gpt-5", fallbacks: ["gpt-5"] },
    { has_files: true, image_url: null, uri: "" },
    "see https://a",
    "x".repeat(9000),
  ])("are bounded by their bytes, with a doubt, and name no model: %j", (value) => {
    const request = say({ content: "x", wonder: value });
    expect(found(request)).toEqual({ ...nothing, unknown: [`${path}.wonder`] });
    expect(request.fields.doubts).toEqual(["unknown_field"]);
  });

  it.each<unknown>([
    "https://a",
    " HTTP://a",
    `https://a?sign=${"x".repeat(9000)}`,
    "gs://bucket/a",
    "s3://bucket/a",
    "file:///a",
    "data:image/png;base64,AAAA",
    "file-AbCd1234EfGh",
    { file_id: "f" },
    { deep: [{ fileId: "f" }] },
    { vectorStoreIds: ["v"] },
    { container: "c" },
    { imageURL: "a" },
    { $ref: "a" },
    { uri: "a" },
    { id: "a" },
    { "https://a": 1 },
    { mime_type: "image/png", payload: "iVBOR" },
    [[{ document: {} }]],
    { file: 5 },
  ])("hold the whole context if they may refer to other content: %j", (value) => {
    expect(found(say({ content: "x", wonder: value }))).toEqual({
      context: [`${path}.wonder`],
      unknown: [`${path}.wonder`],
      mentions: [],
    });
  });

  it.each(["file_id", "fileid", "FileID", "document_url", "images_2", "cached_content", "Content", "ROLE2_ID", "Type"])(
    "hold the whole context for the name %s",
    (name) => {
      expect(say({ content: "x", [name]: "a" }).size.unboundedFields).toEqual([`${path}.${name}`]);
    },
  );

  it("count the same in a part of an unknown type", () => {
    const parts = (more: object) => found(say({ content: [{ type: "new", text: "x", ...more }] }));
    expect(parts({})).toEqual({ ...nothing, unknown: [`${path}.content.new`] });
    expect(parts({ wonder: "x" })).toEqual({ ...nothing, unknown: [`${path}.content.new`, `${path}.content.wonder`] });
    expect(parts({ file_id: "f" }).context).toEqual([`${path}.content.file_id`]);
    expect(parts({ image: "AAAA" }).context).toEqual([`${path}.content.image`]);
    expect(parts({ type: "new_file", data: "x" }).context).toEqual([`${path}.content.new_file`]);
    expect(parts({ type: 5 }).context).toHaveLength(1);
  });

  it("hold the whole context if the message may be another's", () => {
    expect(say({ content: "x", wonder: "x", Role: "user" }).size.unboundedFields).toContain(`${path}.wonder`);
  });
});

describe("members of other messages and items", () => {
  it.each(["user", "system", "developer", "tool", "function"])(
    "hold the whole context, and may name models: %s",
    (role) => {
      const said = { role, content: "x", wonder: { model: "gpt-5" } };
      for (const request of [read("/v1/chat/completions", { model: "m", messages: [said] }), response(said)]) {
        expect(request.size.unboundedFields).toHaveLength(1);
        expect(request.fields.mentions).toEqual(["model", "gpt-5"]);
      }
    },
  );

  it.each<object>([
    { type: "function_call", call_id: "c", name: "f", arguments: "{}", wonder: "gpt-5" },
    { type: "reasoning", summary: [], wonder: "gpt-5" },
    { type: "function_call_output", call_id: "c", output: "x", wonder: "gpt-5" },
  ])("hold the whole context in an item: %j", (item) => {
    expect(found(response(item))).toEqual({
      context: ["input.wonder"],
      unknown: ["input.wonder"],
      mentions: ["gpt-5"],
    });
  });
});

describe("compactions", () => {
  it.each<object>([
    { type: "compaction", id: "cmp_1", encrypted_content: "A".repeat(100_000), created_by: "a" },
    { type: "compaction_summary", encrypted_content: "A" },
    { type: "context_compaction", encrypted_content: "A" },
    { type: "compaction_trigger" },
  ])("are bounded by their bytes", (item) => {
    const request = response(item);
    expect(found(request)).toEqual(nothing);
    expect(request.size.textBytes).toBe(JSON.stringify({ model: "m", input: [item, user] }).length);
  });

  it.each<object>([
    { type: "compaction", id: "cmp_1" },
    { type: "compaction", encrypted_content: { id: "x" } },
  ])("hold the whole context without their content: %j", (item) => {
    expect(response(item).size.unboundedFields).toEqual(["input.compaction"]);
  });

  it("hold the whole context for a reference next to their content", () => {
    const item = { type: "compaction", encrypted_content: "A", file_id: "f" };
    expect(response(item).size.unboundedFields).toEqual(["input.file_id"]);
  });
});

describe("a counted prompt", () => {
  const uncounted = (route: string, body: object) => {
    const bytes = Buffer.from(JSON.stringify(body));
    return read(route, body).prompt.bytesOutside(bytes);
  };
  const inChat = (said: object) =>
    uncounted("/v1/chat/completions", { model: "m", messages: [{ role: "assistant", ...said }] });
  const inResponse = (item: object) => uncounted("/v1/responses", { model: "m", input: [item] });
  const sealed = "A".repeat(2000);
  const long = { google: { thought_signature: sealed } };

  it.each<[object, object]>([
    [{ content: "x" }, { extra_content: long }],
    [{ content: "x" }, { reasoning_content: sealed }],
    [{ content: "x" }, { wonder: sealed }],
  ])("includes the bytes of an answer's members: %#", (said, more) => {
    expect(inChat({ ...said, ...more }) - inChat(said)).toBe(JSON.stringify(more).length);
  });

  it("includes the bytes of calls and parts that are not counted as text", () => {
    const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    const custom = { id: "c", type: "custom", custom: { name: "f", input: sealed } };
    const calls = (...list: object[]) => inChat({ content: "x", tool_calls: list }) - inChat({ content: "x" });
    expect(calls(call)).toBe(0);
    expect(calls({ ...call, extra_content: long })).toBeGreaterThan(2000);
    expect(calls({ ...call, function: { ...call.function, thought_signature: sealed } })).toBeGreaterThan(2000);
    expect(calls({ ...call, function: { name: "f", arguments: { x: sealed } } })).toBeGreaterThan(2000);
    expect(calls(custom)).toBeGreaterThan(2000);
    const parts = (part: object) => inChat({ content: [part] }) - inChat({ content: "" });
    expect(parts({ type: "text", text: sealed })).toBe(0);
    expect(parts({ type: "text", text: "x", signature: sealed })).toBeGreaterThan(2000);
    expect(parts({ type: "new", thinking: sealed })).toBeGreaterThan(2000);
    expect(parts({ type: "new", text: { x: sealed } })).toBeGreaterThan(2000);
  });

  it("includes the bytes of members that only an earlier answer has, in items", () => {
    const message = { role: "assistant", content: [{ type: "output_text", text: "x" }] };
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    for (const item of [message, call]) {
      expect(inResponse({ ...item, signature: sealed }) - inResponse(item)).toBeGreaterThan(2000);
    }
    const part = { type: "output_text", text: "x", thought_signature: sealed };
    expect(inResponse({ ...message, content: [part] }) - inResponse(message)).toBeGreaterThan(2000);
  });
});

/** Values that a member with a meaning may have in an answer. `undefined` for members of another kind than text. */
function valuesOf(known: Known): fc.Arbitrary<unknown> | undefined {
  if (typeof known === "object") return fc.oneof(objectsOf(known), fc.array(objectsOf(known), { maxLength: 3 }));
  if (known === "media") return undefined;
  if (known === "json") return fc.oneof(texts, fc.jsonValue());
  return known === "free" ? fc.oneof(texts, fc.integer(), fc.boolean()) : texts;
}

const texts = fc.oneof(fc.string(), fc.string({ minLength: 1100, maxLength: 1200 }), fc.webUrl());

/** Members that refer to stored content, or that other tests cover. */
const excluded = new Set(
  "file_id container_id approval_request_id actions_id audio images cache_control type environment".split(" "),
);

function objectsOf(shape: Shape): fc.Arbitrary<object> {
  const members = Object.entries(shape.members).flatMap(([name, known]) => {
    const values = excluded.has(name) ? undefined : valuesOf(known);
    return values === undefined ? [] : [[name, values] as const];
  });
  return fc.record(Object.fromEntries(members), { requiredKeys: [] });
}

/** Places of an assistant's message where an answer has an object. */
const smuggled: readonly ((reference: object) => object)[] = [
  (reference) => reference,
  (reference) => ({
    tool_calls: [{ id: "c", type: "function", ...reference, function: { name: "f", arguments: "{}" } }],
  }),
  (reference) => ({
    tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}", ...reference } }],
  }),
  (reference) => ({ function_call: { name: "f", ...reference } }),
  (reference) => ({ content: [{ type: "text", text: "x", ...reference }] }),
  (reference) => ({ content: [{ type: "new", ...reference }] }),
  (reference) => ({ reasoning_details: [{ type: "x", ...reference }] }),
  (reference) => ({ extra_content: { google: reference } }),
  (reference) => ({ provider_specific_fields: reference }),
  (reference) => ({ metadata: { deep: [[reference]] } }),
];

describe("every answer", () => {
  it("comes back in a chat without holding the whole context", () => {
    const content = fc.oneof(texts, fc.array(objectsOf(part).map((each) => ({ type: "text", text: "x", ...each }))));
    fc.assert(
      fc.property(objectsOf(message), content, (said, parts) => {
        expect(chat({ ...said, content: parts, role: "assistant" }).size.unboundedFields).toEqual([]);
      }),
    );
  });

  it("comes back in Responses without holding the whole context", () => {
    const message = { type: "message", role: "assistant", content: "x" };
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    const reasoning = { type: "reasoning", summary: [], encrypted_content: "x" };
    fc.assert(
      fc.property(objectsOf(responseItem), fc.constantFrom(message, call, reasoning), (said, item) => {
        expect(response({ ...said, ...item, content: "x", output: "x" }).size.unboundedFields).toEqual([]);
      }),
    );
  });

  it.each(smuggled.map((place, index) => [index, place] as const))(
    "holds the whole context if a client adds a reference to it: %i",
    (_, place) => {
      const name = fc.constantFrom("file_id", "fileIds", "container_id", "vector_store_ids", "image_url", "uri", "ref");
      const address = fc.constantFrom("https://a/", "gs://b/", "s3://b/", "file:///", "data:text/plain,");
      const reference = fc.oneof(
        fc.record({ name, value: fc.string({ minLength: 1 }) }),
        fc.record({ name: fc.constant("wonder"), value: fc.tuple(address, texts).map((pieces) => pieces.join("")) }),
      );
      fc.assert(
        fc.property(reference, (added) => {
          const said = place({ [added.name]: added.value });
          expect(chat({ content: "x", ...said }).size.unboundedFields, JSON.stringify(said)).toHaveLength(1);
        }),
      );
    },
  );

  it("holds the whole context if it is nested more deeply than any answer", () => {
    const nested = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;
    const context = (depth: number) => chat({ content: "x", tool_calls: nested(depth) }).size.unboundedFields;
    expect([context(3), context(50)]).toEqual([[], ["messages.tool_calls"]]);
  });

  it("has no counted bytes if it is nested too deeply to be written", () => {
    const depth = 100_000;
    const deep = `{"role":"assistant","content":"x","wonder":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    const body = Buffer.from(`{"model":"m","messages":[${deep}]}`);
    const request = endpoints.find(({ route }) => route === "/v1/chat/completions")?.readRequest(body);
    if (request?.ok !== true) throw new Error(JSON.stringify(request));
    expect(request.request.prompt.bytesOutside(body)).toBe(Infinity);
  });
});
