import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { usagesIn } from "../../../src/core/several-usages.ts";
import { noTokens } from "../../../src/core/usage.ts";
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

const stated = { prompt_tokens: 4, completion_tokens: 5 };
/** Functions that write a usage into an answer, in each place where gateways state it. */
const places: readonly ((usage: object) => object)[] = [
  (usage) => ({ choices: [{ message: { content: "Hi" } }], usage }),
  (usage) => ({ choices: [{ message: { content: "Hi" } }], usageMetadata: usage }),
  (usage) => ({ choices: [{ message: { content: "Hi" } }], x_groq: { id: "r", usage } }),
  (usage) => ({ choices: [{ message: { content: "Hi" } }], meta: { usage } }),
  (usage) => ({ choices: [{ message: { content: "Hi" }, usage }] }),
  (usage) => ({ choices: [{ message: { content: "Hi", usage } }] }),
  (usage) => ({ choices: [{ delta: { content: "Hi", usage } }] }),
  (usage) => ({ choices: [{ delta: { content: "Hi", usage }, usage }], usage }),
];

describe("the usage of an answer", () => {
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
    [
      "/v1/images/generations",
      { data: [], usage: { input_tokens: 9, output_tokens: 50, output_tokens_details: { text_tokens: 50 } } },
      { input: 9, output: 50, image_output: 0 },
    ],
    ["/v1/embeddings", { data: [], usage: { total_tokens: 8 } }, { input: 8, output: 0 }],
    ["/v1/embeddings", { data: [], usage: { prompt_tokens: 8 } }, { input: 8, output: 0 }],
    ["/v1/audio/transcriptions", { text: "a", usage: { type: "duration", seconds: 9 } }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", duration: "8.470000267028809" }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", duration: 8.47 }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", usage: { seconds: "8.47" } }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", usage: { prompt_audio_seconds: 9 } }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", segments: [{ end: 3.2 }, { end: "8.47" }, {}] }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", words: [{ end: 8.47 }] }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", duration: 8.47, segments: [{ end: 30 }] }, { audio_input: 9 }],
    ["/v1/audio/translations", { text: "a", usage: { seconds: 9 }, segments: [{ end: 30 }] }, { audio_input: 9 }],
    [
      "/v1/audio/transcriptions",
      { text: "a", usage: { prompt_tokens: 4, completion_tokens: 635, total_tokens: 3264 } },
      { input: 4, audio_input: 2625, output: 635 },
    ],
    ["/v1/embeddings", { data: [], usage: { prompt_tokens: 0, total_tokens: 8 } }, { input: 8, output: 0 }],
    ["/v1/embeddings", { data: [], usageMetadata: { totalTokenCount: "8" } }, { input: 8, output: 0 }],
    ...places.map(
      (place) => ["/v1/chat/completions", place(stated), { input: 4, output: 5 }] as [string, object, object],
    ),
  ])("is read in the format of %s: %j", (route, body, tokens) => {
    const answer = answerOf(route, body);
    expect(answer).toMatchObject({ isAnswer: true, usage: { clamped: false } });
    expect(answer?.usage?.tokens).toMatchObject(tokens);
  });

  it.each<[object, object]>([
    [{ usage: { type: "duration", seconds: "8.47" } }, { unit: "second", tokens: { audio_input: 9 } }],
    [{ duration: 8.47 }, { unit: "second", tokens: { audio_input: 9 } }],
    [
      { usage: { prompt_tokens: 4, completion_tokens: 635, total_tokens: 3264, prompt_audio_seconds: 203 } },
      { seconds: 203, tokens: { input: 4, audio_input: 2625, output: 635 } },
    ],
  ])("of a streamed transcription is read from its last event: %j", (last, usage) => {
    const transcript = at("/v1/audio/transcriptions").transcript();
    transcript.push(Buffer.from(`data: ${JSON.stringify({ type: "transcript.text.done", text: "a", ...last })}\n\n`));
    expect(transcript.everything()?.usage).toMatchObject(usage);
  });

  const media = (output: number | undefined, route = "images/generations") =>
    output === undefined
      ? {}
      : { usage: { input_tokens: 14, output_tokens: output, ...(route.startsWith("audio") && { type: "tokens" }) } };
  const image = "x".repeat(5_000);
  const partial = { type: "image_generation.partial_image", b64_json: image, partial_image_index: 0 };
  const imageDone = (output?: number) => ({ type: "image_generation.completed", b64_json: image, ...media(output) });
  const transcriptDone = (output?: number, text = "") => ({
    type: "transcript.text.done",
    text,
    ...media(output, "audio/transcriptions"),
  });
  const wordOf = (delta: string) => ({ type: "transcript.text.delta", delta });
  const speech = { type: "speech.audio.delta", audio: image };
  const speechDone = (output?: number) => ({ type: "speech.audio.done", ...media(output) });
  function streamed(route: string, events: readonly object[]) {
    const transcript = at(`/v1/${route}`).transcript();
    for (const event of events) transcript.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
    return transcript.end();
  }

  it.each<[string, string, readonly object[], number]>([
    ["of an image", "images/generations", [partial, imageDone(40)], 40],
    ["of two images", "images/generations", [partial, imageDone(40), partial, imageDone(50)], 90],
    ["of an edited image", "images/edits", [{ ...imageDone(40), type: "image_edit.completed" }], 40],
    ["of an image before an empty event", "images/generations", [imageDone(40), { type: "done", id: "1" }], 40],
    ["of silence", "audio/transcriptions", [transcriptDone(0)], 0],
    ["of silence in empty parts", "audio/translations", [wordOf(""), { ...transcriptDone(0), logprobs: [] }], 0],
    ["of a text", "audio/transcriptions", [wordOf("a"), transcriptDone(1, "a")], 1],
    ["of speech", "audio/speech", [speech, speech, speechDone(40)], 40],
    ["of no speech", "audio/speech", [speechDone(0)], 0],
  ])("covers a stream %s", (_, route, events, output) => {
    const { usage, soFar, finished } = streamed(route, events);
    expect({ soFar, finished }).toEqual({ soFar: undefined, finished: true });
    const { tokens } = usage ?? { tokens: noTokens };
    expect(tokens.output + tokens.image_output + tokens.audio_output).toBe(output);
  });

  it.each<[string, string, readonly object[]]>([
    ["that continues after it", "images/generations", [imageDone(40), partial]],
    ["with an image without usage before it", "images/generations", [imageDone(), imageDone(40)]],
    [
      "with an image without usage long before it",
      "images/generations",
      [imageDone(), ...Array.from({ length: 999 }, () => partial), imageDone(40)],
    ],
    ["with an image without usage after it", "images/generations", [imageDone(40), imageDone()]],
    ["with an image that has no output", "images/generations", [imageDone(0)]],
    ["with two images of which one has no output", "images/generations", [imageDone(40), imageDone(0)]],
    ["of a text that has no output", "audio/transcriptions", [transcriptDone(0, "a")]],
    ["of a long text that has no output", "audio/transcriptions", [transcriptDone(0, "a".repeat(5_000))]],
    ["of parts of a text that have no output", "audio/transcriptions", [wordOf("a"), transcriptDone(0)]],
    ["of a text that continues", "audio/transcriptions", [transcriptDone(1, "a"), wordOf("b")]],
    ["of speech that has no output", "audio/speech", [speech, speechDone(0)]],
    ["of short speech that has no output", "audio/speech", [{ ...speech, audio: "aGk=" }, speechDone(0)]],
  ])("does not cover a stream %s", (_, route, events) => {
    const { usage, soFar, finished } = streamed(route, events);
    expect({ usage, finished }).toEqual({ usage: undefined, finished: true });
    expect(soFar).toMatchObject({ later: { texts: [] }, isFinal: false });
  });

  it.each<[string, object, boolean]>([
    ["images/generations", { data: [{ b64_json: image }], ...media(0) }, false],
    ["images/edits", { data: [{ url: "a" }], ...media(0) }, false],
    ["images/generations", { data: [], ...media(0) }, true],
    ["images/generations", { data: [{ b64_json: image }], ...media(40) }, true],
    ["audio/transcriptions", { text: "", ...media(0, "audio") }, true],
    ["audio/transcriptions", { text: "a", ...media(0, "audio") }, false],
    ["audio/transcriptions", { text: image, ...media(0, "audio") }, false],
    ["audio/transcriptions", { text: image, usage: { type: "duration", seconds: 9 } }, true],
  ])("covers an answer only if it counts the output: %s %o", (route, body, isCovered) => {
    const answer = answerOf(`/v1/${route}`, body);
    expect([answer?.usage !== undefined, answer?.soFar !== undefined]).toEqual([isCovered, !isCovered]);
  });

  it("adds the output of choices that each state a usage", () => {
    const usage = (completion_tokens: number) => ({ usage: { prompt_tokens: 4, completion_tokens } });
    expect(answerOf("/v1/chat/completions", { choices: [usage(5), usage(5), usage(7)] })?.usage).toMatchObject({
      tokens: { input: 4, output: 17 },
      doubts: ["usage_contradicts"],
    });
  });

  it.each<[object, object]>([
    [{ server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 } }, { web_search_call: 2, web_fetch_call: 0 }],
    [{ serverToolUse: { webSearchRequests: 2 } }, { web_search_call: 2 }],
    [{ serverToolUse: { webSearchRequests: "2" } }, { web_search_call: 2 }],
    [{ num_search_queries: 2 }, { web_search_call: 2 }],
    [{ numSearchQueries: 2 }, { web_search_call: 2 }],
    [{ web_search_requests: 2 }, { web_search_call: 2 }],
    [{ prompt_tokens_details: { web_search_requests: 2 } }, { web_search_call: 2 }],
    [{ completion_tokens_details: { num_search_queries: 2 } }, { web_search_call: 2 }],
    [{ num_search_queries: 3, server_tool_use: { web_search_requests: 2 } }, { web_search_call: 3 }],
    [{ num_search_queries: "many" }, { unstated_call: 1 }],
  ])("counts searches: %j", (calls, toolCalls) => {
    for (const place of places) {
      const answer = answerOf("/v1/chat/completions", place({ ...stated, ...calls }));
      expect(answer?.toolCalls).toEqual(toolCalls);
      expect(answer?.usage).toMatchObject({ tokens: { input: 4, output: 5 }, clamped: false });
      expect(answer?.usage).not.toHaveProperty("doubts");
    }
  });

  it("is read after a byte order mark", () => {
    for (const [route, body] of [
      ["/v1/chat/completions", { choices: [{ message: {} }], usage: { prompt_tokens: 8, completion_tokens: 1 } }],
      ["/v1/responses", { output: [], usage: { input_tokens: 8, output_tokens: 1 } }],
      ["/v1/embeddings", { data: [], usage: { prompt_tokens: 8, total_tokens: 8 } }],
      ["/v1/images/generations", { data: [], usage: { input_tokens: 8, output_tokens: 1 } }],
    ] as const)
      expect(answerOf(route, `\ufeff${JSON.stringify(body)}`)?.usage?.tokens.input, route).toBe(8);
  });

  it.each(["-1", "0", "1e3", "", "8.", "a"])("is unknown for a duration of %j", (duration) => {
    expect(answerOf("/v1/audio/translations", { text: "a", duration })?.usage).toBeUndefined();
  });

  it.each<[object]>([
    [{ input_tokens: 9, output_tokens: 50, output_tokens_details: null }],
    [{ input_tokens: 9, output_tokens: 50, output_tokens_details: {} }],
    [{ input_tokens: 9, output_tokens: 50, output_tokens_details: { image_tokens: 0 } }],
    [{ prompt_tokens: 9, completion_tokens: 50, total_tokens: 59 }],
  ])("counts all output of an image endpoint as images if it does not divide it: %j", (usage) => {
    const { tokens } = answerOf("/v1/images/generations", { data: [], usage })?.usage ?? {};
    expect(tokens).toEqual({ ...noTokens, input: 9, image_output: 50 });
  });

  it("is undefined for a model with another unit", () => {
    const seconds = readUsage({ type: "duration", seconds: 3 });
    expect([
      usagesIn("second", seconds, [])[0],
      usagesIn("token", seconds, [])[0],
      usagesIn("character", seconds, [])[0],
    ]).toEqual([seconds, undefined, undefined]);
    const tokens = readUsage({ input_tokens: 1, output_tokens: 2 });
    expect([usagesIn("token", tokens, [])[0], usagesIn("second", tokens, [])[0]]).toEqual([tokens, undefined]);
  });

  it.each([
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/audio/transcriptions",
  ])("is read under Gemini's names in answers of %s", (route) => {
    const output = route === "/v1/images/generations" ? "image_output" : "output";
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
        tokens: { ...noTokens, input: 40, cached_input: 60, [output]: 5, reasoning: 3 },
        clamped: false,
      });
    }
  });

  it.each([0, -1, "nine", null, Number.NaN, 1e12])("is undefined with %s seconds", (seconds) => {
    expect(readUsage({ type: "duration", seconds })).toBeUndefined();
  });

  it("is undefined for a queued response and for an error", () => {
    expect(answerOf("/v1/responses", { status: "queued", output: [], usage: null })?.isAnswer).toBe(false);
    for (const { route } of endpoints)
      expect(answerOf(route, { error: { message: "x" } })).toMatchObject({ isAnswer: false, usage: undefined });
  });

  it("comes with a model name of at most 256 characters, without half a surrogate pair", () => {
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
  ])("comes with a model name of at most 256 characters in a stream of %s: %j", (route, event) => {
    const transcript = at(route).transcript();
    const model = "m".repeat(100_000);
    const named = "response" in event ? { ...event, response: { ...event.response, model } } : { ...event, model };
    transcript.push(Buffer.from(`data: ${JSON.stringify(named)}\n\n`));
    expect(transcript.everything()?.servedModel).toBe("m".repeat(256));
  });

  it("is read from any body without throwing", () => {
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

describe("the size of a request", () => {
  it("counts choices for each prompt of a completion, and all of best_of", () => {
    expect(requestOf("/v1/completions", { model: "m", prompt: ["a", "b"], n: 2, best_of: 5 }).size).toMatchObject({
      prompts: 2,
      choices: 10,
      outputMax: 16,
    });
    expect(requestOf("/v1/completions", { model: "m", prompt: [1, 2, 3], max_tokens: 9 }).size).toMatchObject({
      prompts: 1,
      choices: 1,
      outputMax: 9,
    });
    expect(requestOf("/v1/completions", { model: "m", prompt: [[1, 2], [3]], max_tokens: "x" }).size).toMatchObject({
      prompts: 2,
      outputMax: Infinity,
    });
  });

  it("names the fields of a response request that the body does not show or that have no bound", () => {
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

  it("bounds an image of a response request by the part, not by its bytes", () => {
    const url = `data:image/png;base64,${"A".repeat(100_000)}`;
    const { size, classes } = requestOf("/v1/responses", {
      model: "m",
      input: [{ role: "user", content: [{ type: "input_image", image_url: url, detail: "low" }] }],
    });
    expect(size).toMatchObject({ imageParts: 1, unboundedFields: [] });
    expect(size.textBytes).toBeLessThan(200);
    expect(classes.prompt).toContain("image_input");
  });

  it("reads a content part of a response request without a list around it like any part", () => {
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
  ])("has no bound at %s for a part of '%s' that is not text: %j", (route, field, value) => {
    expect(requestOf(route, { model: "m", input: "x", [field]: value }).unboundedFields).toEqual([field]);
  });

  it("counts images in a JSON image request as parts", () => {
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

  it("counts the Unicode characters of a speech request, also of a long text", () => {
    expect(requestOf("/v1/audio/speech", { model: "m", input: "Grüße 😀" }).characters).toBe(7);
    expect(requestOf("/v1/audio/speech", { model: "m", input: "é".repeat(3000) }).characters).toBe(3000);
  });

  it("is read from any fields without throwing", () => {
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

it("a broken response ends with an event that Codex shows without a retry, and one that SDKs raise", () => {
  const message = "It broke.";
  for (const refusal of [
    { code: "gateway_stream_broken", message },
    { code: "gateway_unreachable", message },
    { code: "overloaded", message },
  ] as const) {
    const [failed, raised, ...others] = at("/v1/responses")
      .breakEvent(refusal, "id")
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
        // Codex retries any other code or replaces the message.
        error: { code: "invalid_prompt", message },
        output: [],
        usage: null,
      }) as unknown,
    });
  }
});

it("a broken stream of typed events ends with an event that both kinds of clients raise", () => {
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
