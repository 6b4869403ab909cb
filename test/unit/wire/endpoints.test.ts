import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noTokens, usageIn } from "../../../src/core/usage.ts";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { passthrough } from "../../../src/wire/endpoints/passthrough.ts";
import { typedRefusalEvent } from "../../../src/wire/refusals.ts";
import { readUsage } from "../../../src/wire/usage.ts";
import { runs } from "../../support/effort.ts";

const at = (route: string) => {
  const found = endpoints.find((endpoint) => endpoint.route === route);
  if (found === undefined) throw new Error(`no endpoint at ${route}`);
  return found;
};

function answerOf(route: string, body: unknown) {
  const reader = at(route).answerReader();
  reader.push(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));
  return reader.end();
}

function passthroughAnswer(body: object) {
  const reader = passthrough.answerReader();
  reader.push(Buffer.from(JSON.stringify(body)));
  return reader.end();
}

function requestOf(route: string, body: object) {
  const read = at(route).readRequest(Buffer.from(JSON.stringify(body)));
  if (!read.ok) throw new Error(JSON.stringify(read.refusal));
  return read.request;
}

describe("the usage of an answer, in its endpoint's words", () => {
  it.each<[string, object, object]>([
    [
      "/v1/responses",
      {
        output: [],
        usage: {
          input_tokens: 75,
          input_tokens_details: { cached_tokens: 20 },
          output_tokens: 1186,
          output_tokens_details: { reasoning_tokens: 1024 },
          total_tokens: 1261,
        },
      },
      { input: 55, cached_input: 20, output: 162, reasoning: 1024 },
    ],
    [
      "/v1/completions",
      { choices: [{ text: "a" }], usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 } },
      { input: 5, output: 7 },
    ],
    ["/v1/embeddings", { data: [], usage: { prompt_tokens: 8, total_tokens: 8 } }, { input: 8, output: 0 }],
    [
      "/v1/images/generations",
      {
        data: [{ b64_json: "A" }],
        usage: {
          total_tokens: 100,
          input_tokens: 50,
          output_tokens: 50,
          input_tokens_details: { text_tokens: 10, image_tokens: 40 },
        },
      },
      { input: 10, image_input: 40, output: 0, image_output: 50 },
    ],
    [
      "/v1/images/edits",
      {
        data: [],
        usage: { input_tokens: 9, output_tokens: 50, output_tokens_details: { image_tokens: 45, text_tokens: 5 } },
      },
      { input: 9, output: 5, image_output: 45 },
    ],
    [
      "/v1/audio/transcriptions",
      {
        text: "a",
        usage: {
          type: "tokens",
          input_tokens: 14,
          input_token_details: { text_tokens: 4, audio_tokens: 10 },
          output_tokens: 45,
          total_tokens: 59,
        },
      },
      { input: 4, audio_input: 10, output: 45 },
    ],
    ["/v1/audio/transcriptions", { text: "a", usage: { type: "duration", seconds: 9 } }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", duration: 8.47 }, { audio_input: 9 }],
  ])("%s %j", (route, body, tokens) => {
    const answer = answerOf(route, body);
    expect(answer).toMatchObject({ isAnswer: true, usage: { clamped: false } });
    expect(answer?.usage?.tokens).toMatchObject(tokens);
  });

  it("does not apply to a model that is billed otherwise", () => {
    const seconds = readUsage({ type: "duration", seconds: 3 });
    expect([usageIn("second", seconds, []), usageIn("token", seconds, []), usageIn("character", seconds, [])]).toEqual([
      seconds,
      undefined,
      undefined,
    ]);
    const tokens = readUsage({ input_tokens: 1, output_tokens: 2 });
    expect([usageIn("token", tokens, []), usageIn("second", tokens, [])]).toEqual([tokens, undefined]);
  });

  it.each([
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/audio/transcriptions",
  ])("stands under Gemini's name in answers of %s", (route) => {
    for (const name of ["usageMetadata", "usage_metadata"]) {
      const answer = answerOf(route, {
        [name]: {
          promptTokenCount: 100,
          candidatesTokenCount: 5,
          thoughtsTokenCount: 3,
          cachedContentTokenCount: 60,
          totalTokenCount: 108,
        },
      });
      expect(answer?.usage).toEqual({
        tokens: { ...noTokens, input: 40, cached_input: 60, output: 5, reasoning: 3 },
        clamped: false,
      });
    }
  });

  it.each([0, -1, "9", null, Number.NaN, 1e12])("is undefined with %s seconds", (seconds) => {
    expect(readUsage({ type: "duration", seconds })).toBeUndefined();
  });

  it("is not stated by a response that is still to run, nor by an error", () => {
    expect(answerOf("/v1/responses", { status: "queued", output: [], usage: null })?.isAnswer).toBe(false);
    for (const { route } of endpoints)
      expect(answerOf(route, { error: { message: "x" } })).toMatchObject({ isAnswer: false, usage: undefined });
  });

  it("names its model in at most 256 characters, of which none is half a pair", () => {
    const bodies = [{ choices: [] }, { output: [] }, { data: [] }, { text: "" }];
    for (const [length, kept] of [
      [256, 256],
      [257, 256],
      [1_000_000, 256],
    ] as const) {
      for (const { route } of [...endpoints, passthrough]) {
        const models = bodies.map(
          (body) =>
            (route === passthrough.route ? passthroughAnswer : (each: object) => answerOf(route, each))({
              ...body,
              model: "m".repeat(length),
            })?.servedModel,
        );
        for (const model of models) expect([null, "m".repeat(kept)]).toContain(model);
      }
    }
    expect(answerOf("/v1/chat/completions", { choices: [], model: `${"m".repeat(255)}\u{1F600}` })?.servedModel).toBe(
      "m".repeat(255),
    );
  });

  it.each([
    ["/v1/chat/completions", { choices: [{ delta: { content: "a" } }] }],
    ["/v1/completions", { choices: [{ text: "a" }] }],
    ["/v1/responses", { type: "response.created", response: {} }],
    ["/v1/responses", { type: "response.completed", response: { usage: { input_tokens: 1, output_tokens: 1 } } }],
  ])("names the model of a stream of %s in at most 256 characters: %j", (route, event) => {
    const transcript = at(route).transcript();
    const model = "m".repeat(100_000);
    const named = "response" in event ? { ...event, response: { ...event.response, model } } : { ...event, model };
    transcript.push(Buffer.from(`data: ${JSON.stringify(named)}\n\n`));
    expect(transcript.everything()?.servedModel).toBe("m".repeat(256));
  });

  it("is looked for in whatever comes, without a fault", () => {
    const shapes = fc.oneof(
      fc.json(),
      fc.string(),
      fc
        .record({ data: fc.jsonValue(), output: fc.jsonValue(), usage: fc.jsonValue(), text: fc.jsonValue() })
        .map((body) => JSON.stringify(body)),
    );
    fc.assert(
      fc.property(fc.constantFrom(...endpoints), shapes, ({ route }, body) => void answerOf(route, body)),
      { numRuns: runs(1000) },
    );
  });
});

describe("what a request says of its cost", () => {
  it("completions: every prompt has choices of its own, and all of best_of are billed", () => {
    expect(requestOf("/v1/completions", { model: "m", prompt: ["a", "b"], n: 2, best_of: 5 }).size).toMatchObject({
      prompts: 2,
      choices: 10,
      outputLimit: 16,
    });
    expect(requestOf("/v1/completions", { model: "m", prompt: [1, 2, 3], max_tokens: 9 }).size).toMatchObject({
      prompts: 1,
      choices: 1,
      outputLimit: 9,
    });
    expect(requestOf("/v1/completions", { model: "m", prompt: [[1, 2], [3]], max_tokens: "x" }).size).toMatchObject({
      prompts: 2,
      outputLimit: Infinity,
    });
  });

  it("responses: what the body does not show is named, and what nothing bounds", () => {
    const hidden = [
      { type: "item_reference", id: "x" },
      { role: "user", content: [{ type: "input_image", file_id: "f" }] },
    ];
    expect(
      requestOf("/v1/responses", { model: "m", input: hidden, conversation: "c", wonder: 1 }).size.unboundedFields,
    ).toEqual(["conversation", "wonder", "input.item_reference", "input.content.file_id"]);
    expect(
      requestOf("/v1/responses", {
        model: "m",
        background: true,
        tools: [{ type: "mcp" }],
        prompt: { id: "p" },
        service_tier: "priority",
      }),
    ).toMatchObject({
      unboundedFields: ["prompt", "background"],
      terms: { serviceTier: "priority", hostedTools: { calls: ["mcp_call"], areShown: true, callsMax: null } },
    });
    expect(
      requestOf("/v1/responses", {
        model: "m",
        background: false,
        tools: [{ type: "function", name: "f" }],
        prompt: null,
        service_tier: "flex",
      }).unboundedFields,
    ).toEqual([]);
  });

  it("responses: an image is bounded by the part, not by its bytes", () => {
    const url = `data:image/png;base64,${"A".repeat(100_000)}`;
    const { size, classes } = requestOf("/v1/responses", {
      model: "m",
      input: [{ role: "user", content: [{ type: "input_image", image_url: url, detail: "low" }] }],
    });
    expect(size).toMatchObject({ imageParts: 1, unboundedFields: [] });
    expect(size.textBytes).toBeLessThan(200);
    expect(classes.prompt).toContain("image_input");
  });

  it("responses: a content that is one part without a list around it is that part", () => {
    const image = { type: "input_image", image_url: "https://x/a.png" };
    for (const item of [
      { role: "user", content: image },
      { type: "function_call_output", call_id: "c", output: image },
    ]) {
      const { size, classes } = requestOf("/v1/responses", { model: "m", input: [item] });
      expect(size).toMatchObject({ imageParts: 1, unboundedFields: [] });
      expect(classes.prompt).toContain("image_input");
    }
    expect(requestOf("/v1/responses", { model: "m", input: "x", previous_response_id: "r" }).classes.prompt).toEqual(
      expect.arrayContaining(["image_input", "audio_input"]),
    );
  });

  it.each<[string, string, unknown]>([
    ["/v1/completions", "prompt", { type: "image_url" }],
    ["/v1/completions", "prompt", ["a", { type: "image_url" }]],
    ["/v1/completions", "prompt", [[{ type: "image_url" }]]],
    ["/v1/embeddings", "input", [{ type: "image_url" }]],
    ["/v1/embeddings", "input", [[{ type: "image_url" }]]],
  ])("%s: nothing bounds a part of %s that is no text: %j", (route, field, value) => {
    expect(requestOf(route, { model: "m", input: "x", [field]: value }).unboundedFields).toEqual([field]);
  });

  it("images: those that are sent along in JSON are parts", () => {
    expect(
      requestOf("/v1/images/edits", {
        model: "m",
        image: ["https://x/a.png", "https://x/b.png"],
        mask: "https://x/m.png",
      }).size.imageParts,
    ).toBe(3);
    expect(requestOf("/v1/images/edits", { model: "m", image: { url: "https://x/a.png" } }).size.imageParts).toBe(1);
    expect(requestOf("/v1/images/generations", { model: "m", prompt: "x", image: null }).size.imageParts).toBe(0);
  });

  it("speech: characters as Unicode counts them, however long the text", () => {
    expect(requestOf("/v1/audio/speech", { model: "m", input: "Grüße 😀" }).characters).toBe(7);
    expect(requestOf("/v1/audio/speech", { model: "m", input: "é".repeat(3000) }).characters).toBe(3000);
  });

  it("never a fault, whatever comes", () => {
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(1, "x", [], {}, null));
    const body = fc.record(
      {
        model: fc.constantFrom<unknown>("m", 1, null),
        input: value,
        prompt: value,
        n: value,
        tools: value,
        best_of: value,
        max_output_tokens: value,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...endpoints),
        body,
        ({ route }, fields) => void at(route).readRequest(Buffer.from(JSON.stringify(fields))),
      ),
      { numRuns: runs(1000) },
    );
  });
});

it("a response that is cut ends with an event that Codex shows and does not try again, and one that the SDKs raise", () => {
  const message = "It broke.";
  for (const refusal of [
    { code: "gateway_stream_broken", message },
    { code: "gateway_unreachable", message },
    { code: "overloaded", message },
  ] as const) {
    const [failed, raised, ...others] = at("/v1/responses")
      .breakEvent(refusal)
      .split(/(?<=\n\n)/);
    expect(others).toEqual([]);
    expect(raised).toBe(typedRefusalEvent(refusal));
    const [name, data = ""] = (failed ?? "").split("\n");
    expect(name).toBe("event: response.failed");
    expect(JSON.parse(data.slice("data: ".length))).toEqual({
      type: "response.failed",
      sequence_number: 0,
      response: expect.objectContaining({
        object: "response",
        status: "failed",
        // Any other code is tried again, or replaces our words.
        error: { code: "invalid_prompt", message },
        output: [],
        usage: null,
      }) as unknown,
    });
  }
});

it("a broken stream of events with types ends with one that both kinds of clients raise", () => {
  const [name, data] = typedRefusalEvent({ code: "gateway_stream_broken", message: "It broke." }).split("\n");
  expect(name).toBe("event: error");
  const event = JSON.parse((data ?? "").slice("data: ".length));
  expect(event).toMatchObject({
    type: "error",
    code: "gateway_stream_broken",
    message: "It broke.",
    error: { code: "gateway_stream_broken", message: "It broke." },
  });
});
