import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { shippedPrices } from "../../../src/server/package.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { settlementFor, type Posted } from "../../../src/core/settlement.ts";
import type { Catalogue } from "../../../src/ports/catalogue.ts";
import type { TokenCounter } from "../../../src/ports/token-counter.ts";
import { writtenIn, type Ending } from "../../../src/request/response.ts";
import { meterResponse } from "../../../src/request/meter.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { createTokenCounter } from "../../../src/platform/tokens/token-counter.ts";
import type { Endpoint } from "../../../src/wire/endpoint.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { imageEndpoints } from "../../../src/wire/endpoints/images.ts";
import { responses } from "../../../src/wire/endpoints/responses.ts";
import { runs } from "../../support/effort.ts";

const clock = systemClock();
let catalogue: Catalogue;
let counter: TokenCounter & AsyncDisposable;
beforeAll(async () => {
  const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
  if (!loaded.ok) throw new Error("no catalogue");
  ({ catalogue } = loaded);
  counter = createTokenCounter();
});
afterAll(() => counter[Symbol.asyncDispose]());

/** Returns the posting for an answer, with a hold far above it unless `hold` is stated. */
async function posted(
  endpoint: Endpoint,
  body: object,
  ending: Ending,
  more: { readonly hold?: bigint; readonly model?: string } = {},
): Promise<Posted> {
  const name = more.model ?? "gpt-4o";
  const bytes = Buffer.from(JSON.stringify({ model: name, ...body }));
  const read = endpoint.readRequest(bytes);
  if (!read.ok) throw new Error("the request is sound");
  const model = catalogue.find(name, clock.now());
  const outcome = await meterResponse({ tokens: counter, clock }, ending, {
    model,
    body: new BodyBytes([bytes]),
    request: read.request,
    inFlightTokens: 0,
    billed: [{ servedPrice: null, billing: undefined }],
    runPrice: () => ({ isOther: false, price: null }),
  });
  const settlement = settlementFor(
    { hold: (more.hold ?? 10n ** 15n) as never, price: model?.price?.version ?? null },
    outcome,
  );
  if (settlement.kind === "void") throw new Error("nothing was posted");
  return settlement;
}

const chat = { messages: [{ role: "user", content: "hello" }] };
const requestFor = (endpoint: Endpoint) => (endpoint === responses ? { input: "hello" } : chat);

function plain(endpoint: Endpoint, answer: object, ranMs = 1): Ending {
  const reader = endpoint.answerReader();
  reader.push(Buffer.from(JSON.stringify(answer)));
  const read = reader.end();
  if (read === undefined) throw new Error("the answer cannot be read");
  return { kind: "whole", ...writtenIn(read), ranMs };
}

function streamed(endpoint: Endpoint, events: readonly object[], reason?: string): Ending {
  const transcript = endpoint.transcript();
  for (const event of events) transcript.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  const written = { ...writtenIn(transcript.end()), ranMs: 1 };
  return reason === undefined ? { kind: "whole", ...written } : { kind: "cut", reason, ...written };
}

/** Words whose tokens do not depend on their neighbors. */
const text = fc
  .array(fc.constantFrom(" harbour", " the", " Zürich", " 駅", " 😀", " weather", ' {"a":', " function"), {
    minLength: 1,
    maxLength: 60,
  })
  .map((words) => words.join(""));
const pieces = (whole: string, places: readonly number[]): string[] => {
  const letters = [...whole];
  const ends = [...new Set(places.map((place) => place % (letters.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => letters.slice(start, ends[index] ?? letters.length).join(""));
};
const places = fc.array(fc.nat(500), { maxLength: 6 });

/** Members that contain a text in a chat message or delta. */
const chatPlaces: Record<string, (text: string) => object> = {
  content: (text) => ({ content: text }),
  parts: (text) => ({ content: [{ type: "text", text }] }),
  refusal: (refusal) => ({ refusal }),
  reasoning: (reasoning) => ({ reasoning }),
  "reasoning and copies of it": (text) => ({
    reasoning: text,
    reasoning_content: text,
    reasoning_details: [{ type: "reasoning.text", text, index: 0 }],
  }),
  "details of reasoning": (text) => ({ reasoning_details: [{ type: "reasoning.summary", summary: text, id: "r" }] }),
  thinking: (thinking) => ({ thinking_blocks: [{ type: "thinking", thinking }] }),
  arguments: (given) => ({
    tool_calls: [{ index: 0, id: "call_1", type: "function", function: { arguments: given } }],
  }),
  input: (input) => ({ tool_calls: [{ index: 0, id: "call_1", type: "custom", custom: { input } }] }),
  "an older call": (given) => ({ function_call: { arguments: given } }),
  transcript: (transcript) => ({ audio: { id: "audio_1", expires_at: 5, transcript } }),
};
const unknownPlaces: Record<string, (text: string) => object> = {
  "an unknown member": (text) => ({ musings: text }),
  "an unknown tree": (text) => ({ musings: { deep: [{ down: [text] }] } }),
  "an object instead of a text": (text) => ({ refusal: { because: text } }),
  "an unknown member of a part": (text) => ({ content: [{ type: "text", musings: text }] }),
  "an unknown member of a call": (text) => ({ tool_calls: [{ index: 0, function: { musings: [text] } }] }),
};

interface Output {
  readonly where: string;
  readonly text: string;
  readonly choice: number;
  readonly places: readonly number[];
}
const anyOutputs = (where: readonly string[]): fc.Arbitrary<Output[]> =>
  fc.array(fc.record({ where: fc.constantFrom(...where), text, choice: fc.nat(2), places }), {
    minLength: 1,
    maxLength: 5,
  });

const all = { ...chatPlaces, ...unknownPlaces };
const head = {
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "gpt-4o",
  system_fingerprint: "fp",
  service_tier: "default",
};
const asMessages = (outputs: readonly Output[]): object => ({
  ...head,
  choices: outputs.map(({ where, text: written }, index) => ({
    index,
    message: { role: "assistant", ...all[where]?.(written) },
    logprobs: null,
    finish_reason: "stop",
  })),
});
const asChunks = (outputs: readonly Output[]): object[] => [
  ...outputs.flatMap(({ where, text: written, choice, places: cuts }) =>
    pieces(written, cuts).map((piece) => ({
      ...head,
      obfuscation: "abc",
      choices: [{ index: choice, delta: all[where]?.(piece), finish_reason: null }],
    })),
  ),
  { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
];

/** Members that contain a text in a response: the item, the event type, the member of the whole text, the index. */
const itemKinds: Record<
  string,
  { readonly item: (text: string) => object; readonly event: string; readonly whole: string; readonly index?: string }
> = {
  message: {
    item: (text) => ({ type: "message", content: [{ type: "output_text", text, annotations: [] }] }),
    event: "output_text",
    whole: "text",
    index: "content_index",
  },
  refusal: {
    item: (refusal) => ({ type: "message", content: [{ type: "refusal", refusal }] }),
    event: "refusal",
    whole: "refusal",
    index: "content_index",
  },
  summary: {
    item: (text) => ({ type: "reasoning", summary: [{ type: "summary_text", text }] }),
    event: "reasoning_summary_text",
    whole: "text",
    index: "summary_index",
  },
  reasoning: {
    item: (text) => ({ type: "reasoning", content: [{ type: "reasoning_text", text }] }),
    event: "reasoning_text",
    whole: "text",
    index: "content_index",
  },
  call: {
    item: (given) => ({ type: "function_call", call_id: "c", arguments: given }),
    event: "function_call_arguments",
    whole: "arguments",
  },
  "custom call": {
    item: (input) => ({ type: "custom_tool_call", call_id: "c", input }),
    event: "custom_tool_call_input",
    whole: "input",
  },
  mcp: {
    item: (given) => ({ type: "mcp_call", server_label: "s", arguments: given, output: "what the tool said" }),
    event: "mcp_call_arguments",
    whole: "arguments",
  },
  code: {
    item: (code) => ({ type: "code_interpreter_call", code, outputs: [{ type: "logs", logs: "what it printed" }] }),
    event: "code_interpreter_call_code",
    whole: "code",
  },
  patch: {
    item: (diff) => ({ type: "apply_patch_call", operation: { type: "update_file", diff } }),
    event: "apply_patch_call_operation_diff",
    whole: "diff",
  },
};
interface Item {
  readonly kind: string;
  readonly text: string;
  readonly places: readonly number[];
  /** Ways to state the text, at least one. */
  readonly ways: readonly ("deltas" | "done" | "item")[];
  readonly hasId: boolean;
}
const items = (kinds: readonly string[]): fc.Arbitrary<Item[]> =>
  fc.array(
    fc.record({
      kind: fc.constantFrom(...kinds),
      text,
      places,
      hasId: fc.boolean(),
      ways: fc.subarray(["deltas", "done", "item"] as const, { minLength: 1 }),
    }),
    { minLength: 1, maxLength: 4 },
  );
const itemOf = ({ kind, text: written, hasId }: Item, index: number): object => ({
  ...(hasId && { id: `item_${index}` }),
  status: "completed",
  ...itemKinds[kind]?.item(written),
});
const response = (output: readonly object[], status = "completed"): object => ({
  id: "r",
  object: "response",
  model: "gpt-4o",
  status,
  instructions: "Be brief.",
  tools: [{ type: "function", name: "f" }],
  text: { format: { type: "text" } },
  output,
  usage: null,
});
function asEvents(itemsOfAnswer: readonly Item[], isRepeated: boolean): object[] {
  const events = itemsOfAnswer.flatMap((item, index) => {
    const { event, whole, index: part } = itemKinds[item.kind] ?? { event: "", whole: "" };
    const at = {
      output_index: index,
      ...(item.hasId && { item_id: `item_${index}` }),
      ...(part !== undefined && { [part]: 0 }),
    };
    return [
      {
        type: "response.output_item.added",
        output_index: index,
        item: { ...(item.hasId && { id: `item_${index}` }), status: "in_progress" },
      },
      ...(item.ways.includes("deltas")
        ? pieces(item.text, item.places).map((delta) => ({
            type: `response.${event}.delta`,
            ...at,
            delta,
            obfuscation: "x",
          }))
        : []),
      ...(item.ways.includes("done") ? [{ type: `response.${event}.done`, ...at, [whole]: item.text }] : []),
      ...(item.ways.includes("item")
        ? [{ type: "response.output_item.done", output_index: index, item: itemOf(item, index) }]
        : []),
    ];
  });
  return [
    { type: "response.created", response: response([], "in_progress") },
    ...events,
    { type: "response.completed", response: response(isRepeated ? itemsOfAnswer.map(itemOf) : []) },
  ];
}

const tokensIn = async (texts: readonly { readonly text: string }[]): Promise<number> => {
  let sum = 0;
  for (const { text: written } of texts) {
    const count = await counter.countText(written, "o200k_base");
    if (count.ok) sum += count.tokens;
  }
  return sum;
};

describe("the posted output of generated answers without usage", () => {
  const expectOutput = async (settlement: Posted, outputs: readonly { readonly text: string }[], isKnown: boolean) => {
    const written = await tokensIn(outputs);
    expect(settlement.tokens.output).toBeGreaterThanOrEqual(written);
    if (isKnown) expect(settlement.tokens.output).toBeLessThanOrEqual(Math.floor(written * 1.03) + 1);
    expect(settlement.doubts ?? []).toEqual(isKnown ? [] : ["unknown_output"]);
  };

  it.each([
    ["matches the output of chats whose members are known", Object.keys(chatPlaces)],
    ["is at least the output of chats with unknown members", Object.keys(all)],
  ])("%s", async (_, where) => {
    await fc.assert(
      fc.asyncProperty(anyOutputs(where), async (outputs) => {
        const isKnown = outputs.every((one) => one.where in chatPlaces);
        await expectOutput(
          await posted(chatCompletions, chat, plain(chatCompletions, asMessages(outputs))),
          outputs,
          isKnown,
        );
        const whole = await posted(chatCompletions, chat, streamed(chatCompletions, asChunks(outputs)));
        await expectOutput(whole, outputs, isKnown);
        const cut = await posted(
          chatCompletions,
          chat,
          streamed(chatCompletions, asChunks(outputs).slice(0, -1), "gateway_cut"),
        );
        expect(cut).toMatchObject({ tokens: { output: whole.tokens.output }, source: "partial" });
      }),
      { numRuns: runs(60) },
    );
  });

  it("matches the output of responses, for any way to state their items", async () => {
    await fc.assert(
      fc.asyncProperty(items(Object.keys(itemKinds)), fc.boolean(), async (itemsOfAnswer, isRepeated) => {
        await expectOutput(
          await posted(responses, { input: "hello" }, plain(responses, response(itemsOfAnswer.map(itemOf)))),
          itemsOfAnswer,
          true,
        );
        await expectOutput(
          await posted(responses, { input: "hello" }, streamed(responses, asEvents(itemsOfAnswer, isRepeated))),
          itemsOfAnswer,
          true,
        );
      }),
      { numRuns: runs(80) },
    );
  });

  it("is, as an estimate, at most the model's output maximum for each choice", async () => {
    const musings = { choices: [{ index: 0, message: { musings: "x".repeat(200_000) } }] };
    expect((await posted(chatCompletions, chat, plain(chatCompletions, musings))).tokens.output).toBe(16_384);
    expect((await posted(chatCompletions, { ...chat, n: 2 }, plain(chatCompletions, musings))).tokens.output).toBe(
      2 * 16_384,
    );
  });
});

describe("members that gateways add to each chunk", () => {
  const word = " harbour";
  const chunk = (delta: object, more: object = {}, topLevel: object = {}) => ({
    ...head,
    ...topLevel,
    choices: [{ index: 0, delta, ...more }],
  });
  const chunks = (of: (index: number) => object) => Array.from({ length: 40 }, (_, index) => of(index));

  it.each<[name: string, of: (index: number) => object]>([
    ["a copy of the delta's text next to it", () => chunk({ content: word, token_id: 4 }, { text: word, seed: null })],
    [
      "padding of changing length",
      (index) => chunk({ content: word }, {}, { p: "abcdefghijklmnopqrstuvwxyz".slice(0, 1 + ((index * 7) % 25)) }),
    ],
  ])("are not counted: %s", async (_name, of) => {
    const { tokens, doubts = [] } = await posted(
      chatCompletions,
      chat,
      streamed(chatCompletions, chunks(of), "gateway_cut"),
    );
    expect([tokens.output, doubts]).toEqual([40, []]);
  });

  it("are not unknown output if they are a signature of the message", async () => {
    const signed = chunk({ content: "", extra_content: { google: { thought_signature: "A".repeat(40) } } });
    const ending = streamed(chatCompletions, [signed], "gateway_cut");
    expect(ending).toMatchObject({ uncountable: { unknownBytes: 0 } });
  });
});

describe("the doubts of a posted amount", () => {
  const answer = (message: object) => ({ ...head, choices: [{ index: 0, message, finish_reason: "stop" }] });
  const hello = plain(chatCompletions, answer({ content: "Hello" }), 4_000);

  it("are empty if all output is text", async () => {
    expect(await posted(chatCompletions, chat, hello)).toMatchObject({ source: "counted", tokens: { output: 1 } });
    expect((await posted(chatCompletions, chat, hello)).doubts).toBeUndefined();
  });

  it("state an estimate by run time for a model with hidden reasoning", async () => {
    expect(await posted(chatCompletions, chat, hello, { model: "gpt-5" })).toMatchObject({
      source: "counted",
      doubts: ["time_based"],
      tokens: { output: 1000 },
    });
  });

  it("state an image in the prompt, and an image or sound in the answer, which costs the hold", async () => {
    const seen = {
      messages: [
        { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }] },
      ],
    };
    expect(await posted(chatCompletions, seen, hello)).toMatchObject({ source: "counted", doubts: ["image_bound"] });
    const made = plain(
      chatCompletions,
      answer({ content: "Here:", images: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] }),
    );
    expect(await posted(chatCompletions, chat, made, { hold: 5_000_000_000n })).toMatchObject({
      source: "partial",
      doubts: ["image_bound"],
      cost: 5_000_000_000n,
    });
    // Text that exceeds the hold is posted anyway.
    expect((await posted(chatCompletions, chat, made, { hold: 1n })).cost).toBeGreaterThan(1n);
    const sound = plain(chatCompletions, answer({ audio: { id: "a", data: "AAAA", transcript: "Hello" } }));
    expect(await posted(chatCompletions, chat, sound, { hold: 5_000_000_000n })).toMatchObject({
      doubts: ["image_bound"],
      cost: 5_000_000_000n,
    });
  });

  it("state an image that was generated without usage", async () => {
    const [generations] = imageEndpoints;
    if (generations === undefined) throw new Error("there is no such endpoint");
    const made = plain(generations, { data: [{ b64_json: "AAAA" }] });
    expect(await posted(generations, { prompt: "x" }, made, { model: "gpt-image-1", hold: 7n })).toMatchObject({
      source: "assumed",
      cost: 7n,
      doubts: ["image_bound"],
    });
  });

  it("state encrypted reasoning, estimated by its bytes if the model shows its reasoning, and by time otherwise", async () => {
    const sealed = plain(
      chatCompletions,
      answer({ content: "Hello", reasoning_details: [{ type: "reasoning.encrypted", data: "A".repeat(100) }] }),
    );
    expect(await posted(chatCompletions, chat, sealed)).toMatchObject({
      source: "partial",
      doubts: ["unknown_output"],
      tokens: { output: 76 },
    });
    expect(await posted(chatCompletions, chat, sealed, { model: "gpt-5" })).toMatchObject({
      source: "counted",
      doubts: ["time_based"],
    });
  });

  it("are empty if usage is reported, whatever the output", async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
    for (const ending of [
      plain(chatCompletions, { ...answer({ musings: "x" }), usage }),
      streamed(chatCompletions, [
        { ...head, choices: [{ index: 0, delta: { musings: "x" }, finish_reason: "stop" }] },
        { ...head, choices: [], usage },
      ]),
    ]) {
      const settlement = await posted(chatCompletions, requestFor(chatCompletions), ending);
      expect(settlement).toMatchObject({ source: "reported", tokens: { output: 3 } });
      expect(settlement.doubts).toBeUndefined();
    }
  });

  it("state unknown output after an early usage, which does not cover it", async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
    const events = [
      { ...head, choices: [], usage },
      { ...head, choices: [{ index: 0, delta: { musings: " harbour".repeat(50) }, finish_reason: "stop" }] },
    ];
    expect(await posted(chatCompletions, chat, streamed(chatCompletions, events))).toMatchObject({
      source: "partial",
      doubts: ["unknown_output"],
      tokens: { output: 403 },
    });
  });
});
