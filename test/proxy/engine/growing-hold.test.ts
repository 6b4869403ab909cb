import { gunzipSync, gzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import type { RefusalCode } from "../../../src/core/refusals.ts";
import { pauseMsMax } from "../../../src/request/growing-hold.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";
import { errorOf } from "../../support/answers.ts";
import { NewCharges } from "../../support/new-charges.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usage,
  usageChunk,
  type OpenRequest,
  type ScriptedGateway,
} from "../../support/scripted-gateway.ts";
import { bytesOf, errorCode, lastErrorCode, open, fetchAnswer, type OpenAnswer } from "../../support/wire-client.ts";
import { patientClock } from "../../support/patient-clock.ts";

/** Pico-USD per token of gpt-4o: USD 1.25 in and 5.00 out per million. */
const perToken = { input: 1_250_000n, output: 5_000_000n };
const slice = 64;
const modelMax = 16_384;

const request = { model: "gpt-4o", stream: true, messages: [{ role: "user", content: "hello" }] };
const eventStream = { "content-type": "text/event-stream" };

/** Returns the hold for this request and output, from the length of its body and the template of one message. */
function holdFor(body: object, outputTokens: number): PicoUsd {
  return (BigInt(bytesOf(body).length + 3 + 8) * perToken.input + BigInt(outputTokens) * perToken.output) as PicoUsd;
}

/** Returns the amount by which a charge exceeds its hold. */
function beyond({ cost }: Charge, hold: PicoUsd): PicoUsd {
  return ((cost ?? 0n) > hold ? (cost ?? 0n) - hold : 0n) as PicoUsd;
}

/** Returns a text of this many tokens, eight bytes each. */
const words = (tokens: number): string => " harbour".repeat(tokens);

let gateway: ScriptedGateway;
const everything = new AsyncDisposableStack();
beforeAll(async () => {
  gateway = everything.use(await scriptedGateway());
});
afterAll(() => everything.disposeAsync());

type Scene = RunningProxy & { readonly newCharges: NewCharges };

/** Starts a proxy with a hard budget of this limit and slices of 64 tokens. */
async function underBudget(
  limit: PicoUsd | string,
  env: Record<string, string> = {},
  more: Pick<ProxyOptions, "clock" | "threads"> = {},
): Promise<Scene> {
  const proxy = await startProxy({
    gatewayUrl: gateway.url,
    clock: patientClock(pauseMsMax),
    ...more,
    // With `inject`, the head of a model's first stream does not wait for its first choice.
    env: { FAREBOX_STREAM_SLICE: String(slice), FAREBOX_STREAM_USAGE: "inject", ...env },
  });
  await proxy.budget("key:alice", typeof limit === "string" ? limit : formatUsd(limit));
  return Object.assign(proxy, { newCharges: new NewCharges(proxy) });
}

/** Begins a stream on both sides. */
async function begun(
  proxy: RunningProxy,
  body: object = request,
  path?: string,
): Promise<{ received: OpenRequest; client: OpenAnswer }> {
  const opening = open(proxy, body, { ...(path !== undefined && { path }) });
  const received = await gateway.nextChat();
  received.response.writeHead(200, eventStream).flushHeaders();
  return { received, client: await opening };
}

/** Returns the number of refusals with this code from the metrics. */
async function refusalsOf(proxy: RunningProxy, code: RefusalCode): Promise<string | undefined> {
  return valueOf(readPage(await proxy.metrics()), "farebox_refusals_total", { code });
}

/** Writes events until the other side closes. Returns how many were written. */
async function writeUntilEnded(received: OpenRequest, event: (nth: number) => string): Promise<number> {
  let written = 0;
  for (; !received.response.destroyed; written += 1) {
    await Promise.race([new Promise((resolve) => received.response.write(event(written), resolve)), received.closed]);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return written;
}

/** Writes the same event until the proxy ends the answer, each after the client has received the one before. */
async function writeInStep(
  received: OpenRequest,
  client: OpenAnswer,
  event: string,
): Promise<{ readonly written: number; readonly body: Buffer }> {
  const taken: Buffer[] = [];
  for (let written = 0; ; written += 1) {
    received.response.write(event);
    const next = await client.take(event.length).catch(() => null);
    // The answer ended with the previous event.
    if (next === null) return { written, body: Buffer.concat(taken) };
    taken.push(next);
  }
}

/** Sends a request that the gateway answers at once. Returns its charge. */
async function answeredWhole(proxy: Scene, body: object): Promise<Charge> {
  const answering = fetchAnswer(proxy, body);
  const { response } = await gateway.nextChat();
  if ((body as { stream?: boolean }).stream === true)
    response.writeHead(200, eventStream).end(delta("a") + finish({ usage }) + done);
  else
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ model: "gpt-4o", choices: [{ message: { content: "a" } }], usage }));
  await answering;
  return proxy.newCharges.settled();
}

describe("the first hold", () => {
  let proxy: Scene;
  let free: Scene;
  beforeAll(async () => {
    proxy = everything.use(await underBudget("1000"));
    const unbounded = everything.use(
      await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_STREAM_SLICE: String(slice) } }),
    );
    await unbounded.budget("key:alice", "1", "1d", "soft");
    free = Object.assign(unbounded, { newCharges: new NewCharges(unbounded) });
  });

  it.each<[string, object, number]>([
    ["a slice of a stream without a maximum", {}, slice],
    ["a slice of a stream whose maximum is null", { max_tokens: null }, slice],
    ["a slice for each choice", { n: 3 }, 3 * slice],
    ["the stated maximum", { max_tokens: 1000 }, 1000],
    ["a maximum below a slice", { max_completion_tokens: 7 }, 7],
    ["the model's maximum if the stated one is malformed", { max_tokens: "1000" }, modelMax],
    ["the model's maximum if the stated one is larger", { max_tokens: 1e15 }, modelMax],
    ["the model's maximum without a stream", { stream: false }, modelMax],
  ])("covers %s", async (_, more, tokens) => {
    const body = { ...request, ...more };
    expect(await answeredWhole(proxy, body)).toMatchObject({ hold: holdFor(body, tokens), source: "reported" });
  });

  it("covers the model's maximum if a stream may hide output or write other output than text", async () => {
    const reasoning = { ...request, model: "gpt-5" };
    expect((await answeredWhole(proxy, reasoning)).hold).toBeGreaterThan(128_000n * perToken.output);
    const spoken = { ...request, modalities: ["text", "audio"] };
    expect((await answeredWhole(proxy, spoken)).hold).toBeGreaterThan(BigInt(modelMax) * perToken.output);
  });

  it("covers the model's maximum if no hard budget applies, because the stream is not watched", async () => {
    expect(await answeredWhole(free, request)).toMatchObject({ hold: holdFor(request, modelMax) });
  });

  it("is refused if the first slice does not fit: 402, or 429 while others hold the room", async () => {
    await using poor = await underBudget(holdFor(request, slice));
    const never = await fetchAnswer(poor, {
      ...request,
      messages: [{ role: "user", content: "hello, hello" }],
      max_tokens: 100,
    });
    expect([never.status, errorCode(never)]).toEqual([402, "budget_exceeded"]);
    const { received, client } = await begun(poor);
    const busy = await poor.chat({ stream: true });
    expect([busy.status, (await errorOf(busy)).code]).toEqual([429, "budget_held"]);
    received.response.end(finish({ usage }) + done);
    await client.rest();
    expect(await poor.newCharges.settled()).toMatchObject({ source: "reported", hold: holdFor(request, slice) });
  });
});

describe("a stream within its budget", () => {
  it("is not delayed while its hold grows", async () => {
    await using proxy = await underBudget("1000");
    const { received, client } = await begun(proxy);
    for (let nth = 0; nth < 60; nth += 1) {
      const event = delta(words(10));
      received.response.write(event);
      expect((await client.take(event.length)).toString()).toBe(event);
    }
    received.response.end(finish() + done);
    await client.rest();
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ source: "counted", tokens: { output: 600 }, overage: 0n });
    expect(charge.hold).toBeGreaterThan(charge.cost ?? 0n);
    // The hold is extended half a slice ahead of need, by one slice at a time.
    expect(charge.hold).toBeLessThanOrEqual(holdFor(request, 600 + 2 * slice));
  });

  it("of few large pieces has its hold extended before the next piece", async () => {
    await using proxy = await underBudget("1000");
    const { received, client } = await begun(proxy);
    for (const tokens of [500, 1, 2000]) {
      const event = delta(words(tokens));
      received.response.write(event);
      expect(await client.take(event.length)).toHaveLength(event.length);
    }
    received.response.end(finish() + done);
    await client.rest();
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "counted",
      tokens: { output: 2501 },
      overage: 0n,
    });
  });

  it("beyond the model's maximum holds the worst case and is no longer watched", async () => {
    await using proxy = await underBudget("1000", { FAREBOX_STREAM_SLICE: "8000" });
    const { received, client } = await begun(proxy);
    const event = delta(words(4000));
    for (let nth = 0; nth < 5; nth += 1) {
      received.response.write(event);
      await client.take(event.length);
    }
    received.response.end(finish() + done);
    await client.rest();
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ hold: holdFor(request, modelMax), tokens: { output: 20_000 } });
    expect(charge.overage).toBe((charge.cost ?? 0n) - (charge.hold ?? 0n));
  });

  it("with injected usage has a growing hold, and its client does not see the usage chunk", async () => {
    await using proxy = await underBudget("1000", { FAREBOX_STREAM_USAGE: "inject" });
    const { received, client } = await begun(proxy);
    const pieces = delta(words(200)) + finish();
    received.response.end(pieces + usageChunk() + done);
    expect((await client.rest()).toString()).toBe(pieces + done);
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ source: "reported", tokens: { output: 3 } });
    expect(charge.hold).toBeGreaterThan(holdFor(request, 200));
  });
});

describe("a stream that exceeds its budget", () => {
  it("uses the remaining budget up to a small reserve, and then ends with an error for the client", async () => {
    // 200 words of one token each: their byte bound holds 1,000 tokens more, which pays for 250 output tokens.
    const wordy = { ...request, messages: [{ role: "user", content: " hello".repeat(200) }] };
    const limit = holdFor(wordy, slice + 30);
    await using proxy = await underBudget(limit);
    const { received, client } = await begun(proxy, wordy);
    const { written, body } = await writeInStep(received, client, delta(words(1)));
    const [error] = body.toString().split("data: ").slice(-1);
    expect(JSON.parse(error ?? "")).toEqual({
      error: {
        message: expect.stringContaining("cannot pay for more of this stream"),
        type: "insufficient_quota",
        param: null,
        code: "budget_exceeded",
        metadata: {
          scope: "key:alice",
          subject: null,
          period: "total",
          limit_usd: formatUsd(limit),
          spent_usd: "0.00",
          held_usd: formatUsd(limit),
          needed_usd: expect.stringMatching(/^0\.\d+$/),
          resets_at: null,
        },
      },
    });
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({
      state: "posted",
      source: "partial",
      reason: "budget_exceeded",
      status: 200,
      hold: limit,
    });
    expect(charge.overage).toBe(beyond(charge, limit));
    const delivered = body.toString().split("harbour").length - 1;
    // Counting the prompt frees part of its byte bound for output.
    expect(delivered).toBeGreaterThan(slice + 30 + 200 - 16);
    expect(written).toBeGreaterThanOrEqual(delivered);
    expect(charge.tokens.output).toBeGreaterThanOrEqual(delivered);
    expect(charge.tokens.output).toBeLessThanOrEqual(delivered + 16);
    // Refused extensions of one stream count as one refusal.
    expect(await refusalsOf(proxy, "budget_exceeded")).toBe("1");
  });

  it.each<[string, object, (nth: number) => object]>([
    ["text", {}, () => ({ content: words(1) })],
    ["the arguments of a tool call", {}, () => ({ tool_calls: [{ index: 0, function: { arguments: words(1) } }] })],
    ["visible reasoning", {}, () => ({ reasoning_content: words(1) })],
    ["a refusal", {}, () => ({ refusal: words(1) })],
    ["several choices", { n: 2 }, () => ({ content: words(1) })],
  ])("is ended whatever it writes: %s", async (_, more, deltaOf) => {
    const body = { ...request, ...more };
    const choices = "n" in more ? 2 : 1;
    const limit = holdFor(body, choices * slice);
    await using proxy = await underBudget(limit);
    const { received, client } = await begun(proxy, body);
    const reading = client.rest();
    await writeUntilEnded(
      received,
      (nth) =>
        `data: ${JSON.stringify({ model: "gpt-4o", choices: [{ index: nth % choices, delta: deltaOf(nth), finish_reason: null }] })}\n\n`,
    );
    const answer = await reading;
    expect(lastErrorCode(answer)).toBe("budget_exceeded");
    const charge = await proxy.newCharges.settled();
    const delivered = answer.toString().split("harbour").length - 1;
    expect(charge).toMatchObject({
      source: "partial",
      reason: "budget_exceeded",
      hold: limit,
      overage: beyond(charge, limit),
    });
    expect(charge.tokens.output).toBeGreaterThan(choices * (slice - 16));
    // Part of the last event may have arrived, but no client can read it.
    expect(charge.tokens.output).toBeGreaterThanOrEqual(delivered - 1);
    expect(charge.tokens.output).toBeLessThanOrEqual(delivered + choices * 16);
  });
});

describe("stream output other than text deltas", () => {
  type Wrote = (nth: number) => string;
  const chunkOf = (content: object, more: object = {}) =>
    `data: ${JSON.stringify({ model: "gpt-4o", choices: [{ index: 0, delta: content, finish_reason: null }], ...more })}\n\n`;
  const typed = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 1, output_index: 0, item_id: "i", ...fields })}\n\n`;
  const responses = { model: "gpt-4o", stream: true, input: "hello" };
  /** Returns a text that never repeats. */
  const piece = (nth: number) => `${words(8)} ${nth}`;

  const written: [string, string, object, Wrote, boolean][] = [
    [
      "the input of a custom tool",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({ tool_calls: [{ index: 0, custom: { input: piece(nth) } }] }),
      true,
    ],
    [
      "details of reasoning",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({ reasoning_details: [{ type: "reasoning.text", text: piece(nth), index: 0 }] }),
      true,
    ],
    [
      "blocks of thinking",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({ thinking_blocks: [{ type: "thinking", thinking: piece(nth) }] }),
      true,
    ],
    [
      "the transcript of audio",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({ audio: { id: "a", transcript: piece(nth) } }),
      true,
    ],
    [
      "arguments as an object",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({ tool_calls: [{ index: 0, function: { arguments: { given: piece(nth) } } }] }),
      true,
    ],
    ["an unknown member of a delta", "/v1/chat/completions", request, (nth) => chunkOf({ musings: piece(nth) }), false],
    [
      "an unknown member of a choice",
      "/v1/chat/completions",
      request,
      (nth) =>
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, scratchpad: { deep: [piece(nth)] } }] })}\n\n`,
      false,
    ],
    [
      "an unknown member of a chunk",
      "/v1/chat/completions",
      request,
      (nth) => chunkOf({}, { scratchpad: piece(nth) }),
      false,
    ],
    [
      "a string instead of choices",
      "/v1/chat/completions",
      request,
      (nth) => `data: ${JSON.stringify({ choices: piece(nth) })}\n\n`,
      false,
    ],
    ["events that are not JSON", "/v1/chat/completions", request, (nth) => `data: ${piece(nth)}\n\n`, false],
    [
      "lines that are not events",
      "/v1/chat/completions",
      request,
      (nth) => `chunk ${JSON.stringify({ choices: [{ index: 0, delta: { content: piece(nth) } }] })}\n`,
      false,
    ],
    [
      "an unknown member of a completion",
      "/v1/completions",
      { model: "gpt-4o", stream: true, prompt: "hello", max_tokens: null },
      (nth) => `data: ${JSON.stringify({ choices: [{ index: 0, musings: piece(nth) }] })}\n\n`,
      false,
    ],
    [
      "deltas of a custom tool's input",
      "/v1/responses",
      responses,
      (nth) => typed("response.custom_tool_call_input.delta", { delta: piece(nth) }),
      true,
    ],
    [
      "code for an interpreter",
      "/v1/responses",
      responses,
      (nth) => typed("response.code_interpreter_call_code.delta", { delta: piece(nth) }),
      true,
    ],
    [
      "whole texts without deltas",
      "/v1/responses",
      responses,
      (nth) =>
        typed("response.output_text.done", {
          output_index: nth,
          item_id: `m${nth}`,
          content_index: 0,
          text: piece(nth),
        }),
      true,
    ],
    [
      "items without deltas",
      "/v1/responses",
      responses,
      (nth) =>
        typed("response.output_item.done", {
          output_index: nth,
          item: { id: `m${nth}`, type: "apply_patch_call", operation: { type: "update_file", diff: piece(nth) } },
        }),
      true,
    ],
    [
      "events of an unknown type",
      "/v1/responses",
      responses,
      (nth) => typed("response.musings.delta", { delta: piece(nth) }),
      false,
    ],
    [
      "an unknown member of an event",
      "/v1/responses",
      responses,
      (nth) => typed("response.output_text.delta", { content_index: 0, musings: [piece(nth)] }),
      false,
    ],
    [
      "items of an unknown type",
      "/v1/responses",
      responses,
      (nth) =>
        typed("response.output_item.done", {
          output_index: nth,
          item: { id: `m${nth}`, type: "musing", thoughts: piece(nth) },
        }),
      false,
    ],
  ];

  // A completion stream without a maximum writes 16 tokens, so its hold never grows.
  const growing = written.filter(([, path]) => path !== "/v1/completions");
  it.each(growing)("extends the hold, and ends with the budget: %s (%s)", async (_, path, body, wrote, isKnown) => {
    await using proxy = await underBudget("0.01", { FAREBOX_STREAM_SLICE: "128" });
    const answer = await inStep(await begun(proxy, body, path), wrote);
    expect(lastErrorCode(answer)).toBe("budget_exceeded");
    const charge = await proxy.newCharges.settled();
    const delivered = answer.toString().split("harbour").length - 1;
    expect(charge).toMatchObject({
      source: "partial",
      reason: "budget_exceeded",
      doubts: isKnown ? [] : ["unknown_output"],
    });
    expect(charge.hold).toBeGreaterThan(holdFor(body, 128));
    expect(charge.tokens.output).toBeGreaterThanOrEqual(isKnown ? delivered : Math.min(delivered, modelMax));
    expect(charge.overage).toBe(beyond(charge, charge.hold as PicoUsd));
  });

  it.each(written)(
    "is charged at the end of a stream without usage: %s (%s)",
    async (_, path, body, wrote, isKnown) => {
      await using proxy = await underBudget("1000");
      const answering = fetchAnswer(proxy, body, { path });
      const received = await gateway.nextChat();
      const events = Array.from({ length: 20 }, (_, nth) => wrote(nth)).join("");
      const end =
        path === "/v1/responses"
          ? typed("response.completed", {
              response: { id: "r", object: "response", model: "gpt-4o", status: "completed", output: [], usage: null },
            })
          : finish() + done;
      received.response.writeHead(200, eventStream).end(events + end);
      expect(lastErrorCode((await answering).body)).toBeUndefined();
      const charge = await proxy.newCharges.settled();
      expect(charge).toMatchObject({
        source: isKnown ? "counted" : "partial",
        reason: null,
        doubts: isKnown ? [] : ["unknown_output"],
      });
      expect(charge.tokens.output).toBeGreaterThanOrEqual(20 * 8);
      // Unknown output is bounded at one token per byte; known output is counted.
      expect(charge.tokens.output).toBeLessThanOrEqual(20 * (isKnown ? 20 : 8 * " harbour".length + 90));
    },
  );

  it.each(growing.filter(([what]) => /custom tool$|details|member of a (delta|chunk)/.test(what)))(
    "stays within 0.02 USD for 40 parallel streams: %s",
    async (_, path, body, wrote, isKnown) => {
      await using proxy = await underBudget("0.02");
      const streams: Awaited<ReturnType<typeof begun>>[] = [];
      for (let count = 0; count < 40; count += 1) streams.push(await begun(proxy, body, path));
      const answers = await Promise.all(
        streams.map((stream) => inStep(stream, (nth) => wrote(nth).replace(words(7), ""))),
      );
      const charges = await proxy.charges();
      expect(charges).toHaveLength(40);
      for (const charge of charges)
        expect(charge).toMatchObject({
          source: "partial",
          reason: "budget_exceeded",
          doubts: isKnown ? [] : ["unknown_output"],
        });
      const posted = charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
      const delivered =
        BigInt(answers.reduce((sum, answer) => sum + answer.toString().split("harbour").length - 1, 0)) *
        perToken.output;
      expect(delivered).toBeGreaterThan(0n);
      expect(delivered).toBeLessThanOrEqual(20_000_000_000n);
      expect(posted).toBeGreaterThanOrEqual(delivered);
    },
  );
});

describe("a plain answer", () => {
  const chat = (message: object, more: object = {}) => ({
    model: "gpt-4o",
    choices: [{ index: 0, message, finish_reason: "stop" }],
    ...more,
  });
  const response = (...output: object[]) => ({ object: "response", model: "gpt-4o", status: "completed", output });
  const text = words(50);

  it.each<[string, string, object, boolean]>([
    [
      "the input of a custom tool",
      "/v1/chat/completions",
      chat({ content: null, tool_calls: [{ id: "c", type: "custom", custom: { input: text } }] }),
      true,
    ],
    [
      "details of reasoning",
      "/v1/chat/completions",
      chat({ content: "", reasoning_details: [{ type: "reasoning.text", text }] }),
      true,
    ],
    ["an unknown member of a message", "/v1/chat/completions", chat({ content: "", musings: text }), false],
    ["an unknown member next to the choices", "/v1/chat/completions", chat({ content: "" }, { musings: text }), false],
    [
      "an unknown member of a completion",
      "/v1/completions",
      { model: "gpt-4o", choices: [{ index: 0, text: "", musings: [text] }] },
      false,
    ],
    ["a custom call", "/v1/responses", response({ type: "custom_tool_call", input: text }), true],
    [
      "a patch",
      "/v1/responses",
      response({ type: "apply_patch_call", operation: { type: "update_file", diff: text } }),
      true,
    ],
    ["an item of an unknown type", "/v1/responses", response({ type: "musing", thoughts: [text] }), false],
  ])("is charged for output in %s (%s)", async (_, path, answer, isKnown) => {
    await using proxy = await underBudget("1000");
    const chat = { model: "gpt-4o", messages: request.messages };
    const body =
      path === "/v1/responses"
        ? { model: "gpt-4o", input: "hello" }
        : path === "/v1/completions"
          ? { model: "gpt-4o", prompt: "hello" }
          : chat;
    const answering = fetchAnswer(proxy, body, { path });
    const { response: out } = await gateway.nextChat();
    out.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    expect((await answering).body.toString()).toBe(JSON.stringify(answer));
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({
      source: isKnown ? "counted" : "partial",
      reason: null,
      doubts: isKnown ? [] : ["unknown_output"],
    });
    expect(charge.tokens.output).toBe(isKnown ? 50 : Buffer.byteLength(text));
  });

  it("to a streamed request is bounded by its bytes if it cannot be read", async () => {
    // Room for a slice, but not for the worst case of such an answer.
    await using proxy = await underBudget("0.01");
    const answering = fetchAnswer(proxy, request);
    const { response: out } = await gateway.nextChat();
    out.writeHead(200, { "content-type": "application/json" }).end(`{"choices":[{"message":{"content":"${words(1000)}`);
    expect((await answering).status).toBe(200);
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ source: "partial", reason: "unreadable_answer", doubts: ["unknown_output"] });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(8000);
    expect(charge.cost).toBeGreaterThan(charge.hold ?? 0n);
  });
});

/** Writes the events of a stream at the client's pace until the stream is ended. Returns what the client received. */
async function inStep(
  { received, client }: { received: OpenRequest; client: OpenAnswer },
  wrote: (nth: number) => string,
): Promise<Buffer> {
  const got: Buffer[] = [];
  for (let nth = 0; nth < 500; nth += 1) {
    const event = wrote(nth);
    received.response.write(event);
    const taken = await client.take(Buffer.byteLength(event)).catch(() => Buffer.alloc(0));
    got.push(taken);
    if (taken.length === 0 || taken.includes("budget_exceeded")) break;
  }
  got.push(await client.rest());
  received.response.destroy();
  return Buffer.concat(got);
}

describe("an endless event", () => {
  const megabyte = Buffer.alloc(1024 * 1024, "x");
  const beginning = 'data: {"choices":[{"index":0,"delta":{"content":"';

  it("is cut off if the budget cannot pay for its bytes", async () => {
    await using proxy = await underBudget("0.01");
    const { received, client } = await begun(proxy);
    const reading = client.rest();
    received.response.write(beginning);
    let megabytes = 0;
    for (; !received.response.destroyed && megabytes < 52; megabytes += 1) {
      await Promise.race([new Promise((resolve) => received.response.write(megabyte, resolve)), received.closed]);
    }
    const body = await reading;
    expect(lastErrorCode(body)).toBe("budget_exceeded");
    expect(body.length).toBeLessThan(40 * megabyte.length);
    const charge = await proxy.newCharges.settled();
    // Up to the model's maximum, far beyond the hold of a slice.
    expect(charge).toMatchObject({
      source: "partial",
      reason: "budget_exceeded",
      doubts: ["unknown_output"],
      tokens: { output: modelMax },
    });
    expect(charge.cost).toBeGreaterThanOrEqual(BigInt(modelMax) * perToken.output);
  });

  it("of 52 MB is charged at the model's maximum, complete or cut, if the budget has room", async () => {
    for (const isWhole of [true, false]) {
      await using proxy = await underBudget("1000");
      const { received, client } = await begun(proxy);
      const reading = client.rest();
      received.response.write(beginning);
      for (let count = 0; count < 52; count += 1)
        await new Promise((resolve) => received.response.write(megabyte, resolve));
      received.response.end(isWhole ? `"}}]}\n\n${finish()}${done}` : "");
      expect((await reading).length).toBeGreaterThan(52 * megabyte.length);
      expect(await proxy.newCharges.settled()).toMatchObject({
        source: "partial",
        reason: isWhole ? null : "gateway_cut",
        doubts: ["unknown_output"],
        hold: holdFor(request, modelMax),
        tokens: { output: modelMax },
      });
    }
  });

  it("is not suspected in the last event of a response, which repeats the whole output", async () => {
    const responses = { model: "gpt-4o", stream: true, input: "hello", instructions: "x".repeat(300_000) };
    const response = (status: string, text: string, more: object = {}) => ({
      id: "r",
      object: "response",
      model: "gpt-4o",
      status,
      instructions: responses.instructions,
      output: text === "" ? [] : [{ id: "m", type: "message", content: [{ type: "output_text", text }] }],
      ...more,
    });
    const event = (type: string, fields: object) => `data: ${JSON.stringify({ type, ...fields })}\n\n`;
    const text = words(100);
    await using proxy = await underBudget(holdFor(responses, 300));
    const answering = fetchAnswer(proxy, responses, { path: "/v1/responses" });
    const { response: out } = await gateway.nextChat();
    out.writeHead(200, eventStream);
    out.write(event("response.created", { response: response("in_progress", "") }));
    for (let nth = 0; nth < 10; nth += 1)
      out.write(
        event("response.output_text.delta", { item_id: "m", output_index: 0, content_index: 0, delta: words(10) }),
      );
    const last = event("response.completed", { response: response("completed", text) });
    for (let at = 0; at < last.length; at += 60_000)
      await new Promise((resolve) => out.write(last.slice(at, at + 60_000), resolve));
    out.end();
    expect(lastErrorCode((await answering).body)).toBeUndefined();
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "counted",
      tokens: { output: 100 },
      overage: 0n,
      doubts: [],
    });
  });
});

describe("an image in a stream of text", () => {
  const image = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { images: [{ type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(1000)}` } }] } }] })}\n\n`;

  it("holds the worst case before the stream continues, and is charged at the hold", async () => {
    await using proxy = await underBudget("1000");
    const { received, client } = await begun(proxy);
    received.response.end(delta("Here:") + image + finish() + done);
    expect(lastErrorCode(await client.rest())).toBeUndefined();
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({
      source: "partial",
      hold: holdFor(request, modelMax),
      cost: charge.hold,
      doubts: ["image_bound"],
      formula: "assumed",
    });
  });

  it("ends the stream if the worst case does not fit", async () => {
    await using proxy = await underBudget("0.01");
    const { received, client } = await begun(proxy);
    const reading = client.rest();
    await writeUntilEnded(received, () => image);
    expect(lastErrorCode(await reading)).toBe("budget_exceeded");
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({
      source: "partial",
      reason: "budget_exceeded",
      cost: charge.hold,
      doubts: ["image_bound"],
    });
  });
});

describe("a compressed stream", () => {
  const whole = Buffer.from(delta(words(300)) + finish() + done);

  it("holds the model's maximum before any of it is read", async () => {
    await using proxy = await underBudget("1000");
    const opening = open(proxy, request);
    const { response } = await gateway.nextChat();
    response.writeHead(200, { ...eventStream, "content-encoding": "gzip" }).end(gzipSync(whole));
    const body = await (await opening).rest();
    expect(gunzipSync(body)).toEqual(whole);
    expect(await proxy.newCharges.settled()).toMatchObject({
      hold: holdFor(request, modelMax),
      tokens: { output: 300 },
    });
  });

  it("is ended if the model's maximum does not fit", async () => {
    await using proxy = await underBudget("0.01");
    const answering = fetchAnswer(proxy, request);
    const received = await gateway.nextChat();
    received.response
      .writeHead(200, { ...eventStream, "content-encoding": "gzip" })
      .write(gzipSync(whole).subarray(0, 40));
    expect((await answering).broken).not.toBeNull();
    await received.closed;
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ state: "posted", overage: 0n });
    expect(charge.reason).toMatch(/budget_exceeded/);
  });
});

it("a plain answer to a streamed request is held at the worst case if there is room", async () => {
  for (const [limit, tokens] of [
    ["1000", modelMax],
    ["0.01", slice],
  ] as const) {
    await using proxy = await underBudget(limit);
    const answering = fetchAnswer(proxy, request);
    const { response } = await gateway.nextChat();
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ model: "gpt-4o", choices: [{ message: { content: "a" } }], usage }));
    expect((await answering).status).toBe(200);
    expect(await proxy.newCharges.settled()).toMatchObject({ source: "reported", hold: holdFor(request, tokens) });
    expect(await refusalsOf(proxy, "budget_exceeded")).toBe("0");
  }
});

describe("a stream while the ledger is locked", () => {
  /** Locks the ledger as another process that writes does: no hold can be placed until it is released. */
  function lockLedger({ database }: RunningProxy): Lock {
    const db = new Database(database);
    db.exec("begin immediate");
    const free = () => void db.close();
    return { free, [Symbol.dispose]: free };
  }

  interface Lock extends Disposable {
    free(): void;
  }

  /** Starts a proxy as `serve` does: only the writer thread waits for the other process. */
  const lockable = (clock = patientClock(pauseMsMax)) => underBudget("1000", {}, { clock, threads: true });

  /**
   * Waits long enough for more bytes to arrive if they were read: each turn is a whole exchange with the same proxy.
   */
  async function manyExchanges({ url }: RunningProxy): Promise<void> {
    for (let turn = 0; turn < 50; turn += 1) await (await fetch(`${url}/healthz`)).text();
  }

  /** Begins a stream that pauses because its hold is used up and cannot grow yet. */
  async function pausedStream(proxy: RunningProxy): Promise<{ received: OpenRequest; client: OpenAnswer; lock: Lock }> {
    const { received, client } = await begun(proxy);
    const lock = lockLedger(proxy);
    const used = delta(words(slice - 10));
    received.response.write(used);
    await client.take(used.length);
    return { received, client, lock };
  }

  it("pauses as soon as its hold is used up, and continues once the hold has grown", async () => {
    await using proxy = await lockable();
    const { received, client, lock } = await pausedStream(proxy);
    using _ = lock;
    const more = delta(words(5));
    let hasArrived = false;
    received.response.write(more);
    const next = client.take(more.length).then(() => (hasArrived = true));
    await manyExchanges(proxy);
    expect(hasArrived).toBe(false);
    lock.free();
    await next;
    received.response.end(finish() + done);
    await client.rest();
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "counted",
      tokens: { output: slice - 5 },
      overage: 0n,
    });
  });

  it("ends at the gateway at once if its client leaves, and settles once the ledger is writable", async () => {
    await using proxy = await lockable();
    const { received, client, lock } = await pausedStream(proxy);
    using _ = lock;
    client.leave();
    await received.closed;
    lock.free();
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "partial",
      reason: "client_left",
      tokens: { output: slice - 10 },
      overage: 0n,
    });
  });

  it("ends with an error if the gateway breaks off during the pause", async () => {
    await using proxy = await lockable();
    const { received, client, lock } = await pausedStream(proxy);
    using _ = lock;
    received.request.socket.destroy();
    await manyExchanges(proxy);
    lock.free();
    expect(lastErrorCode(await client.rest())).toBe("gateway_stream_broken");
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "partial",
      reason: "gateway_reset",
      // What the gateway sent during the pause was lost with the connection.
      tokens: { output: modelMax },
      doubts: ["unknown_output"],
    });
  });

  it("ends normally if the gateway finishes during the pause", async () => {
    await using proxy = await lockable();
    const { received, client, lock } = await pausedStream(proxy);
    using _ = lock;
    received.response.end(delta("!") + finish() + done);
    await manyExchanges(proxy);
    lock.free();
    expect((await client.rest()).toString()).toContain("[DONE]");
    expect(await proxy.newCharges.settled()).toMatchObject({
      source: "counted",
      tokens: { output: slice - 9 },
      overage: 0n,
    });
  });

  it("ends after too long a pause, and its charge includes what had arrived by then", async () => {
    const clock = patientClock(pauseMsMax);
    await using proxy = await lockable(clock);
    const { received, client, lock } = await pausedStream(proxy);
    using _ = lock;
    received.response.write(delta(words(5)));
    await manyExchanges(proxy);
    clock.runOut();
    const rest = await client.rest();
    await received.closed;
    lock.free();
    expect(rest.toString()).toContain("harbour");
    expect(lastErrorCode(rest)).toBe("ledger_unavailable");
    const charge = await proxy.newCharges.settled();
    expect(charge).toMatchObject({ source: "partial", reason: "ledger_unavailable", overage: 0n });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(slice - 5);
  });
});
