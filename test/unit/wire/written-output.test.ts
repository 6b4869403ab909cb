import { describe, expect, it } from "vitest";
import { readChatAnswer } from "../../../src/wire/endpoints/chat-completions.ts";
import { chatTranscript } from "../../../src/wire/chat-stream.ts";
import { readResponse, responsesTranscript } from "../../../src/wire/endpoints/responses-answer.ts";
import { answerTerms, latestTerms, type AnswerTerms, type AnswerOutput } from "../../../src/wire/model-answer.ts";
import type { StreamTranscript } from "../../../src/wire/stream-transcript.ts";

function writtenIn({ texts, uncountable }: AnswerOutput): {
  readonly texts: readonly string[];
  readonly unknown: number;
  readonly sealed: number;
  readonly media: boolean;
} {
  const { unknownBytes = 0, sealedBytes = 0, hasMedia = false } = uncountable ?? {};
  return { texts, unknown: unknownBytes, sealed: sealedBytes, media: hasMedia };
}
const nothing = { texts: [], unknown: 0, sealed: 0, media: false };

function message(members: object): ReturnType<typeof writtenIn> {
  const answer = readChatAnswer(Buffer.from(JSON.stringify({ choices: [{ index: 0, message: members }] })));
  if (answer === undefined) throw new Error("the answer cannot be read");
  return writtenIn(answer);
}

function writtenInStream(
  transcript: StreamTranscript,
  events: readonly (object | string)[],
): ReturnType<typeof writtenIn> {
  for (const event of events)
    transcript.push(Buffer.from(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`));
  return writtenIn(transcript.everything());
}
const chat = (...events: (object | string)[]) => writtenInStream(chatTranscript(), events);
const responses = (...events: (object | string)[]) => writtenInStream(responsesTranscript(), events);

describe("a message", () => {
  it.each<[string, object, Partial<typeof nothing>]>([
    [
      "copies of its reasoning",
      { reasoning: "ab", reasoning_content: "ab", reasoning_details: [{ type: "t", text: "ab" }] },
      { texts: ["ab"] as never },
    ],
    [
      "reasoning in pieces, and whole",
      { reasoning_details: [{ text: "a" }, { text: "b" }], reasoning: "ab" },
      { texts: ["a", "b"] as never },
    ],
    [
      "different reasoning under two names",
      { reasoning: "ab", reasoning_content: "cd" },
      { texts: ["ab", "cd"] as never },
    ],
    [
      "the same piece twice",
      { reasoning_details: [{ text: "a" }, { text: "a" }], reasoning: "a" },
      { texts: ["a", "a"] as never },
    ],
    [
      "a summary next to its reasoning",
      { reasoning: "ab", reasoning_details: [{ text: "ab" }, { summary: "s" }] },
      { texts: ["ab", "s"] as never },
    ],
    [
      "a copy of its reasoning among the fields of its provider",
      {
        content: "x",
        reasoning_content: "ab",
        provider_specific_fields: { reasoning_content: "ab", citations: ["y"] },
      },
      { texts: ["x", "ab"] as never },
    ],
    ["an answer equal to its reasoning", { content: "ab", reasoning: "ab" }, { texts: ["ab", "ab"] as never }],
    [
      "arguments as an object",
      { tool_calls: [{ function: { name: "f", arguments: { city: "Bern", at: [1, 2] } } }] },
      { texts: ["f", '{"city":"Bern","at":[1,2]}'] as never },
    ],
    ["an object instead of a text", { refusal: { because: "no" } }, { unknown: "because".length + 2 }],
    ["unknown numbers, which are not output,", { musings: { count: 5, list: [1, 2] } }, {}],
    ["unknown texts in lists", { musings: [["é", { a: "b" }]] }, { unknown: 4 }],
    [
      "members of any name",
      JSON.parse('{"__proto__":"abc","constructor":"de","toString":{"x":"f"}}') as object,
      { unknown: 7 },
    ],
    ["lists within lists", { content: [[{ type: "text", text: "abc" }]] }, { unknown: "typetexttextabc".length }],
    [
      "signatures",
      {
        reasoning_details: [{ signature: "abcd" }],
        tool_calls: [{ extra_content: { google: { thought_signature: "ef" } } }],
      },
      { sealed: 4 + "googlethought_signatureef".length },
    ],
    ["an image", { images: [{ type: "image_url", image_url: { url: "data:," } }] }, { media: true }],
    [
      "sound and its transcript",
      { audio: { id: "a", data: "AAAA", transcript: "Hi", expires_at: 5 } },
      { texts: ["Hi"] as never, media: true },
    ],
    [
      "only members that are free",
      {
        role: "assistant",
        content: "",
        refusal: null,
        annotations: [{ type: "url_citation", url_citation: { title: "t" } }],
      },
      {},
    ],
  ])("with %s has each output counted once", (_, members, expected) => {
    expect(message(members)).toEqual({ ...nothing, ...expected });
  });

  it("is read if it is nested deeper than the stack", () => {
    const deep = `${"[".repeat(20_000)}"abc"${"]".repeat(20_000)}`;
    for (const name of ["musings", "content", "tool_calls", "reasoning_details"]) {
      const answer = readChatAnswer(Buffer.from(`{"choices":[{"message":{"${name}":${deep}}}]}`));
      expect(answer?.uncountable?.unknownBytes).toBe(3);
    }
    const given = readChatAnswer(Buffer.from(`{"choices":[{"message":{"function_call":{"arguments":${deep}}}}]}`));
    expect(given?.uncountable?.unknownBytes ?? given?.texts[0]?.length).toBeGreaterThanOrEqual(3);
  });
});

describe("a chat stream", () => {
  const chunk = (delta: object, more: object = {}) => ({ choices: [{ index: 0, delta, ...more }] });

  it("does not count a message that repeats the deltas, but counts a message without deltas", () => {
    const repeated = ["Hel", "lo", " you"].map((content, index, all) =>
      chunk({ content }, { message: { role: "assistant", content: all.slice(0, index + 1).join("") } }),
    );
    expect(chat(...repeated)).toEqual({ ...nothing, texts: ["Hello you"] });
    expect(
      chat(
        chunk({}, { message: { content: "Hello", musings: "abc" } }),
        chunk({}, { message: { content: "Hello", musings: "abc" } }),
      ),
    ).toEqual({ ...nothing, texts: ["Hello"], unknown: 3 });
  });

  it("counts an unknown member next to the choices once if it never changes, and each time otherwise", () => {
    const regions = (...all: string[]) =>
      chat(...all.map((region) => ({ region, choices: [{ index: 0, delta: { content: "a" } }] })));
    expect(regions("eu", "eu", "eu").unknown).toBe(2);
    expect(regions("eu", "eu", "us").unknown).toBe(6);
    expect(regions("eu", "us", "eu", "eu").unknown).toBe(8);
    expect(regions("x".repeat(300), "x".repeat(300)).unknown).toBe(600);
  });

  it("reads the chunks of Gemini's own interface", () => {
    const part = (more: object) => ({
      candidates: [{ content: { role: "model", parts: [more] }, index: 0 }],
      usageMetadata: { promptTokensDetails: [{ modality: "TEXT", tokenCount: 1 }] },
      modelVersion: "g",
      responseId: "r",
    });
    expect(
      chat(
        part({ text: "Hel" }),
        part({ text: "lo", thoughtSignature: "abcd" }),
        part({ functionCall: { name: "f", args: { a: 1 } } }),
      ),
    ).toEqual({ ...nothing, texts: ['Hellof{"a":1}'], sealed: 4 });
  });

  it("counts events that are not chunks by their bytes, except the first 1024 of a cut event", () => {
    expect(chat("not json", '"a text"', '[{"choices":"ab"}]', "7", "null").unknown).toBe(8 + 6 + "choicesab".length);
    for (const [length, unknown] of [
      [500, 0],
      [5000, 5000 - 1024],
    ] as const) {
      const transcript = chatTranscript();
      transcript.push(Buffer.from(`data: ${"{".repeat(length)}`));
      expect(writtenIn(transcript.everything()).unknown).toBe(unknown);
    }
  });
});

describe("a response stream", () => {
  const at = (item_id: string | undefined, output_index: number | undefined, more: object = {}) => ({
    item_id,
    output_index,
    content_index: 0,
    ...more,
  });
  const delta = (text: string, where: object) => ({ type: "response.output_text.delta", ...where, delta: text });
  const done = (text: string, where: object) => ({ type: "response.output_text.done", ...where, text });
  const item = (id: string | undefined, text: string) => ({
    ...(id !== undefined && { id }),
    type: "message",
    content: [{ type: "output_text", text }],
  });
  const bare = (text: string) => item(undefined, text);
  const itemDone = (output_index: number, whole: object) => ({
    type: "response.output_item.done",
    output_index,
    item: whole,
  });
  const completed = (...output: object[]) => ({ type: "response.completed", response: { output } });
  const total = (events: readonly object[]) => responses(...events).texts.join("").length;

  it.each<[string, object[], number]>([
    [
      "with other ids in each event",
      [
        delta("Hello", at("a", 0)),
        done("Hello", at("b", 0)),
        itemDone(0, item("c", "Hello")),
        completed(item("d", "Hello")),
      ],
      5,
    ],
    [
      "with an id for each delta",
      [delta("Hel", at("a", 0)), delta("lo", at("b", 0)), done("Hello", at("c", 0)), completed(item("d", "Hello"))],
      5,
    ],
    [
      "without ids",
      [
        delta("Hello", at(undefined, 0)),
        delta("Two", at(undefined, 1)),
        completed(item(undefined, "Hello"), item(undefined, "Two")),
      ],
      8,
    ],
    ["without ids and indexes", [delta("Hello", {}), done("Hello", {}), completed(item(undefined, "Hello"))], 5],
    [
      "of two items at one index",
      [
        delta("Hello", at("a", 0)),
        delta("Two", at("b", 0)),
        done("Hello", at("a", 0)),
        done("Two", at("b", 0)),
        completed(item("a", "Hello"), item("b", "Two")),
      ],
      8,
    ],
    ["of two whole items at one index", [done("Hello", at("a", 0)), done("Other", at("b", 0))], 10],
    [
      "of whole items alone",
      [
        itemDone(0, item("a", "Hello")),
        itemDone(0, item("b", "Other")),
        completed(item("a", "Hello"), item("b", "Other")),
      ],
      10,
    ],
    [
      "of items without ids that begin with the same words",
      [itemDone(0, bare("Hello")), itemDone(1, bare("Hello, too")), completed(bare("Hello"), bare("Hello, too"))],
      15,
    ],
    ["whose items are only in its response", [completed(bare("Hello"), bare("Hello"))], 10],
    ["whose response has other indexes", [delta("Hello", at("a", 1)), completed(item("a", "Hello"))], 5],
    [
      "whose response has other indexes and ids",
      [
        {
          type: "response.reasoning_summary_text.delta",
          item_id: "r",
          output_index: 0,
          summary_index: 0,
          delta: "Hmm",
        },
        delta("Hello", at("a", 1)),
        completed(item("z", "Hello")),
      ],
      8,
    ],
    ["whose response has no output", [delta("Hello", at("a", 0)), completed()], 5],
    [
      "whose response has only the joined text",
      [{ type: "response.completed", response: { output: [], output_text: "Hello" } }],
      5,
    ],
    [
      "whose response repeats only the joined text",
      [delta("Hello", at("a", 0)), { type: "response.completed", response: { output: [], output_text: "Hello" } }],
      5,
    ],
    ["whose whole text is longer than its deltas", [delta("Hel", at("a", 0)), done("Hello", at("a", 0))], 5],
    ["that is cut", [delta("Hel", at("a", 0))], 3],
  ])("%s counts each item once", (_, events, expected) => {
    expect(total(events)).toBe(expected);
    expect(responses(...events).unknown).toBe(0);
  });

  it("counts repeated unknown output once, and every string of an unknown event", () => {
    const musing = { id: "a", type: "musing", thoughts: "abc" };
    const all = [
      { type: "response.created", response: { output: [], region: "eu" } },
      { type: "response.output_item.added", output_index: 0, item: musing },
      itemDone(0, musing),
      { type: "response.completed", response: { output: [musing], region: "eu" } },
    ];
    expect(responses(...all)).toEqual({ ...nothing, unknown: 5 });
    expect(
      responses(
        { type: "response.musings.delta", sequence_number: 4, item_id: "a", delta: "abc", more: ["d"] },
        { type: "response.musings.delta", delta: "efg" },
      ).unknown,
    ).toBe(7);
    expect(
      responses(
        { type: "response.web_search_call.searching", item_id: "a", output_index: 0, sequence_number: 1 },
        { type: "keepalive" },
      ),
    ).toEqual(nothing);
  });

  it("recognizes images, sound and encrypted reasoning", () => {
    expect(
      responses({
        type: "response.image_generation_call.partial_image",
        partial_image_b64: "AAAA",
        output_format: "png",
      }).media,
    ).toBe(true);
    expect(responses({ type: "response.audio.delta", delta: "AAAA" })).toEqual({ ...nothing, media: true });
    const reasoning = { id: "r", type: "reasoning", summary: [], encrypted_content: "abcd" };
    expect(responses(itemDone(0, reasoning), completed(reasoning))).toEqual({ ...nothing, sealed: 4 });
  });

  it("has the same texts as the plain answer", () => {
    const output = [
      {
        type: "web_search_call",
        id: "w",
        status: "completed",
        action: { type: "search", query: "harbour", queries: ["harbour", "Bern"], sources: [{ url: "u" }] },
      },
      { type: "file_search_call", id: "f", queries: ["one"], results: [{ text: "found" }] },
      { type: "mcp_list_tools", id: "l", server_label: "s", tools: [{ name: "t", description: "d" }] },
      { type: "local_shell_call", id: "s", action: { type: "exec", command: ["ls", "-l"], env: { A: "b" } } },
      {
        type: "computer_call",
        id: "c",
        action: { type: "type", text: "hi" },
        pending_safety_checks: [{ message: "m" }],
      },
      { type: "function_call_output", id: "o", call_id: "x", output: "what the tool said" },
    ];
    const texts = ["harbour", "Bern", "one", "ls", "-l", '{"A":"b"}', "hi"];
    const answer = readResponse(Buffer.from(JSON.stringify({ output })));
    expect(answer?.texts).toEqual(texts);
    expect(answer?.uncountable).toBeUndefined();
    expect(responses(completed(...output))).toEqual({ ...nothing, texts });
  });
});

describe("the terms of a stream", () => {
  it("keep a bounded number of kinds of calls, and the most calls of each", () => {
    let terms: AnswerTerms = { servedModel: null };
    for (let event = 0; event < 100; event++) {
      const kinds = Array.from({ length: 32 }, (_, kind) => [`tool${event}_${kind}_requests`, 2]);
      const usage = { server_tool_use: { web_search_requests: event % 5, ...Object.fromEntries(kinds) } };
      terms = latestTerms(terms, answerTerms({ usage }));
    }
    const calls = terms.toolCalls ?? {};
    expect(Object.keys(calls).length).toBeLessThanOrEqual(33);
    expect(calls).toMatchObject({ web_search_call: 4, other_call: 2 });
  });

  it("keep a bounded number of models, without the latest", () => {
    let terms: AnswerTerms = { servedModel: null };
    for (const name of Array.from({ length: 100 }, (_, index) => `m${index}`))
      terms = latestTerms(terms, answerTerms({ model: name }));
    terms = latestTerms(terms, answerTerms({ model: "m0" }));
    expect(terms.servedModel).toBe("m0");
    expect(terms.otherModels).toHaveLength(15);
    expect(terms.otherModels).not.toContain("m0");
  });
});
