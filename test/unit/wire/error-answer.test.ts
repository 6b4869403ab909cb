import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { passthrough } from "../../../src/wire/endpoints/passthrough.ts";
import { runs } from "../../support/effort.ts";

function answerOf(route: string, body: unknown) {
  const reader = [...endpoints, passthrough].find((endpoint) => endpoint.route === route)?.answerReader();
  reader?.push(Buffer.from(typeof body === "string" ? body : (JSON.stringify(body) ?? "")));
  return reader?.end();
}

const word = fc.string({ minLength: 1, maxLength: 20 }).filter((text) => text.trim() !== "");
const code = fc.constantFrom(1, 400, 401, 500, 503, 504, "500", "10001", "server_error");

/** Members that state an error. */
const stated = fc.oneof(
  fc.record({ error: fc.oneof(word, fc.record({ message: word, code })) }),
  fc.record({ detail: word }),
  fc.record({ code, message: word }),
  fc.record({ success: fc.constant(false), msg: word }),
  fc.record({ object: fc.constant("error"), message: word }),
  fc.record({ status: fc.constantFrom("failed", "error", 500) }),
  fc.record({ type: fc.constant("error"), error: fc.record({ message: word }) }),
);

const message = fc.oneof(
  fc.record({ content: word }),
  fc.record({ content: fc.tuple(fc.record({ type: fc.constant("text"), text: word })) }),
  fc.record({ refusal: word }),
  fc.record({ reasoning_content: word }),
  fc.record({ tool_calls: fc.tuple(fc.record({ function: fc.record({ name: word, arguments: fc.string() }) })) }),
  fc.record({ audio: fc.record({ data: word }) }),
  fc.record({ unknown: word }),
);

const usage = fc.oneof(
  fc.record({ prompt_tokens: fc.nat(9), completion_tokens: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ input_tokens: fc.integer({ min: 1, max: 9 }), output_tokens: fc.nat(9) }),
  fc.record({ total_tokens: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ promptTokenCount: fc.constantFrom(3, "3") }),
);
const usageAnywhere = fc.oneof(
  fc.record({ usage }),
  fc.record({ usageMetadata: usage }),
  fc.record({ x_groq: fc.record({ usage }) }),
  fc.record({ meta: fc.record({ usage }) }),
  fc.record({ choices: fc.tuple(fc.record({ usage })) }),
  fc.record({ error: fc.record({ message: word, usage }) }),
  fc.record({ error: fc.record({ metadata: fc.record({ usageMetadata: usage }) }) }),
);

/** Output of an answer of each route. Long texts are empty in the outlines of the last three. */
const outputs: Readonly<Record<string, fc.Arbitrary<object>>> = {
  "/v1/chat/completions": fc.record({ choices: fc.array(fc.record({ message }), { minLength: 1, maxLength: 3 }) }),
  "/v1/completions": fc.record({ choices: fc.array(fc.record({ text: word }), { minLength: 1, maxLength: 3 }) }),
  "/v1/responses": fc.oneof(
    fc.record({ output: fc.tuple(fc.record({ type: fc.constantFrom("message", "web_search_call"), content: word })) }),
    fc.record({ output: fc.tuple(fc.record({ type: fc.constant("reasoning"), encrypted_content: word })) }),
    fc.record({ output_text: word }),
  ),
  "/v1/embeddings": fc.record({ data: fc.tuple(fc.record({ embedding: fc.array(fc.double(), { minLength: 1 }) })) }),
  "/v1/images/generations": fc.record({
    data: fc.tuple(fc.record({ b64_json: fc.constantFrom("AAAA", "A".repeat(5_000)) })),
  }),
  "/v1/audio/transcriptions": fc.record({ text: fc.constantFrom("a", "long ".repeat(1_000)) }),
};

describe.each(Object.entries(outputs))("an answer of %s", (route, output) => {
  it("with output or a usage above 0 is never an error", () => {
    fc.assert(
      fc.property(stated, fc.oneof(output, usageAnywhere), (error, delivered) => {
        expect(answerOf(route, { ...error, ...delivered })?.error).toBeUndefined();
        if (!("error" in delivered)) expect(answerOf(route, { ...delivered, ...error })?.error).toBeUndefined();
      }),
      { numRuns: runs(5_000) },
    );
  });

  it("with an error alone is an error, also next to ids and addresses", () => {
    const envelope = fc.record(
      {
        id: word,
        request_id: word,
        trace_id: word,
        created: fc.nat(),
        model: word,
        choices: fc.constantFrom(null, []),
        data: fc.constantFrom(null, {}, []),
        usage: fc.constantFrom(null, {}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }),
        documentation_url: fc.webUrl(),
      },
      { requiredKeys: [] },
    );
    const alone = fc.record({ error: fc.record({ message: word, code }) });
    fc.assert(
      fc.property(envelope, alone, (around, error) => {
        const answer = answerOf(route, { ...around, ...error });
        expect(answer).toMatchObject({ error: { reason: expect.any(String) }, usage: undefined, isAnswer: false });
      }),
      { numRuns: runs(2_000) },
    );
  });
});

it("random JSON never makes a reader throw, and an error has neither usage nor output", () => {
  const member = fc.constantFrom("error", "code", "data", "choices", "output", "usage", "message", "success", "text");
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.jsonValue({ maxDepth: 1 }),
      fc.constantFrom(0, 200, 401, 504, "failed", false, null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(member, tie("value"), { maxKeys: 5 }),
    ),
  }));
  const routes = [...endpoints, passthrough].map(({ route }) => route);
  fc.assert(
    fc.property(fc.constantFrom(...routes), value, (route, body) => {
      const answer = answerOf(route, body);
      if (answer?.error !== undefined) expect(answer).toMatchObject({ usage: undefined, texts: [] });
    }),
    { numRuns: runs(20_000) },
  );
});

describe.each(["/v1/images/generations", "/v1/embeddings", "/*path"])("an answer of %s next to an error", (route) => {
  const image = "A".repeat(5_000);
  it.each<object>([
    { code: 1, data: image },
    { code: 1, data: [image] },
    { code: 1, data: { images: [{ url: "https://a" }] } },
    { code: 1, data: { result: { images: { first: "https://a" } } } },
    { code: 20000, msg: "", result: image },
    { error: { message: "1 of 2 failed" }, output: [image] },
    { errors: ["no"], sample_image: image },
    { errors: ["no"], image },
    { error: { message: "1 of 2 failed" }, image_url: "https://a/b.png" },
    { error: { message: "segment 7 failed" }, transcript: "hello" },
    { code: 10000, image_url: "https://a/b.png" },
    { code: 10000, image_urls: ["https://a/b.png"] },
    { code: 10000, file: { url: "https://a/b.png" } },
    { code: "SUCCEED", message: "SUCCEED", sample: "https://a/b.png" },
    { code: "SUCCEED", message: "no", data: null },
  ])("may be a result: %j", (body) => {
    expect(answerOf(route, body)?.error).toBeUndefined();
  });

  it.each<[object, string]>([
    [{ code: 10000, message: "no", data: "" }, "refused"],
    [{ code: 10000, message: "no", request_id: "r", traceId: "t", data: [] }, "refused"],
    [{ error: { message: "no" }, output: [""], text: "" }, "refused"],
    [{ error: { message: image, code: 401 } }, "refused"],
    // A long text is not known, and may be that of a timeout.
    [{ error: { message: image } }, "open"],
    [{ error: { message: image, code: 504 } }, "open"],
  ])("is an error: %j", (body, kind) => {
    expect(answerOf(route, body)).toMatchObject({ error: { kind }, isAnswer: false });
  });
});
