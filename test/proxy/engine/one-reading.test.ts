import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway, type OpenRequest, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { patientClock } from "../../support/patient-clock.ts";
import { stillClock } from "../../support/still-clock.ts";
import { fetchAnswer, lastErrorCode, readToEnd, send, type WireAnswer } from "../../support/wire-client.ts";

/* Tests that an answer is charged for what it says, whatever its form, label, mode and order. */

const owned = new AsyncDisposableStack();
let gateway: ScriptedGateway;
/** A proxy without a budget, which reads only the end of most streams, and one whose hard budget reads them all. */
let free: RunningProxy;
let bounded: RunningProxy;
beforeAll(async () => {
  gateway = owned.use(await scriptedGateway());
  // A gateway's refusal of stream usage would be tried again.
  const options = { gatewayUrl: gateway.url, env: { FAREBOX_STREAM_USAGE: "inject" } };
  free = owned.use(await startProxy(options));
  bounded = owned.use(await startProxy(options));
  await bounded.budget("key:alice", "1000000");
});
afterAll(() => owned.disposeAsync());

const chat = { model: "gpt-4o", stream: true, messages: [{ role: "user", content: "hello" }] };
const responses = { model: "gpt-4o", stream: true, input: "hello" };
const eventStream = { "content-type": "text/event-stream" };
const event = (value: object | string) => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const chunk = (content: string, more: object = {}) =>
  event({ model: "gpt-4o", choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
const finish = (more: object = {}) =>
  event({ model: "gpt-4o", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], ...more });
const usage = (prompt: number, completion: number, more: object = {}) => ({
  usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...more },
});
const done = event("[DONE]");

/** How the gateway ends its answer: as HTTP does, or by closing the connection. */
type End = "end" | "reset";

interface Answered extends WireAnswer {
  readonly charge: Charge;
}

async function lastCharge(proxy: RunningProxy): Promise<Charge> {
  return (await proxy.charges()).at(-1) as Charge;
}

async function answered(
  proxy: RunningProxy,
  body: object,
  path: string,
  answer: { readonly text: string; readonly headers?: Record<string, string>; readonly end?: End },
): Promise<Answered> {
  const answering = fetchAnswer(proxy, body, { path });
  const { response } = await gateway.nextChat();
  response.writeHead(200, answer.headers ?? eventStream);
  if (answer.end === "reset") response.write(answer.text, () => response.destroy());
  else response.end(answer.text);
  return { ...(await answering), charge: await lastCharge(proxy) };
}

/** Returns what both proxies charge, in µUSD, with its source and doubts. Both must charge the same. */
async function charged(text: string, end: End = "end", body: object = chat, path = "/v1/chat/completions") {
  const both = [];
  for (const proxy of [free, bounded]) {
    const { charge } = await answered(proxy, body, path, { text, end });
    both.push({ micro: Number(charge.cost ?? 0n) / 1e6, source: charge.source, doubts: charge.doubts });
  }
  expect(both[1]).toEqual(both[0]);
  return both[0];
}
const respond = (text: string, end: End = "end") => charged(text, end, responses, "/v1/responses");

describe("a stream that states several usages", () => {
  // gpt-4o: 1.25 USD per million prompt tokens and 5 USD per million completion tokens at the gateway's prices.
  it.each<[string, string, object]>([
    [
      "is charged for the larger sides if they shrink",
      chunk("a") +
        finish() +
        event({ model: "gpt-4o", choices: [], ...usage(5000, 50) }) +
        event({ choices: [], ...usage(1, 1) }) +
        done,
      { source: "reported", doubts: ["usage_contradicts"] },
    ],
    [
      "is charged for the last one if they grow",
      chunk("a", usage(5000, 1)) + finish(usage(5000, 50)) + done,
      { source: "reported", doubts: [] },
    ],
  ])("%s", async (_, text, expected) => {
    const whole = await charged(chunk("a") + finish(usage(5000, 50)) + done);
    expect(await charged(text)).toEqual({ ...expected, micro: whole?.micro });
  });

  it("is charged for the model of an early event if it costs more", async () => {
    const plain = await charged(chunk("a") + finish(usage(1000, 100)) + done);
    const early = chunk("a", { model: "gpt-4-turbo" }) + finish(usage(1000, 100)) + done;
    const late = chunk("a") + finish({ ...usage(1000, 100), model: "gpt-4-turbo" }) + done;
    const [first, last] = [await charged(early), await charged(late)];
    expect(first).toEqual(last);
    expect(first?.micro).toBeGreaterThan(plain?.micro ?? 0);
    expect(first?.doubts).toEqual(["served_model"]);
  });

  const delta = (text: string) =>
    event({ type: "response.output_text.delta", item_id: "i", output_index: 0, delta: text });
  const completed = (more: object = {}) =>
    event({
      type: "response.completed",
      response: {
        model: "gpt-4o",
        output: [{ type: "message", id: "i", content: [{ type: "output_text", text: "a" }] }],
        usage: { input_tokens: 9, output_tokens: 1, total_tokens: 10 },
        ...more,
      },
    });

  it("is charged for the text after response.completed", async () => {
    const before = await respond(delta("a") + completed());
    const after = await respond(delta("a") + completed() + delta(" harbour".repeat(1000)));
    expect(after?.micro).toBeCloseTo((before?.micro ?? 0) * 1 + 1000 * 5, -2);
    expect(after?.doubts).toEqual(["usage_contradicts"]);
  });

  it("is charged for the most calls that any event shows", async () => {
    const call = (index: number) =>
      event({
        type: "response.output_item.done",
        output_index: index,
        item: { type: "web_search_call", id: `w${index}`, status: "completed" },
      });
    const plain = await respond(delta("a") + completed());
    const searched = await respond(call(0) + call(1) + delta("a") + completed());
    const inUsage = await respond(
      delta("a") +
        completed({ usage: { input_tokens: 9, output_tokens: 1, server_tool_use: { web_search_requests: 2 } } }),
    );
    expect(searched?.micro).toBeGreaterThan(plain?.micro ?? 0);
    expect(searched?.micro).toBe(inUsage?.micro);
  });

  it("is charged for each call of hosted tools, even if all have one index", async () => {
    const call = (id: string) =>
      event({ type: "response.output_item.done", output_index: 0, item: { type: "web_search_call", id } });
    const one = await respond(call("w0") + delta("a") + completed());
    const two = await respond(call("w0") + call("w1") + delta("a") + completed());
    const plain = await respond(delta("a") + completed());
    expect((two?.micro ?? 0) - (plain?.micro ?? 0)).toBe(2 * ((one?.micro ?? 0) - (plain?.micro ?? 0)));
    expect(two?.micro).toBeGreaterThan(one?.micro ?? Infinity);
  });

  it("is charged at the tier of its end, not at that of an earlier event", async () => {
    const asked = { ...responses, service_tier: "priority" };
    const created = (tier: string) =>
      event({ type: "response.created", response: { model: "gpt-4o", output: [], usage: null, service_tier: tier } });
    const plain = await charged(delta("a") + completed({ service_tier: "default" }), "end", asked, "/v1/responses");
    for (const tier of ["auto", "priority"]) {
      const text = created(tier) + delta("a") + completed({ service_tier: "default" });
      expect(await charged(text, "end", asked, "/v1/responses")).toEqual(plain);
    }
  });

  it("has no doubt because of a name without a price in an early event", async () => {
    const text = chunk("a", { model: "other/auto" }) + finish(usage(1000, 100)) + done;
    expect(await charged(text)).toMatchObject({ source: "reported", doubts: [] });
  });

  it("is not believed if it counts no output next to text", async () => {
    const counted = await charged(chunk("a harbour") + finish() + done);
    const zero = await charged(chunk("a harbour") + finish(usage(8, 0)) + done);
    expect(zero).toMatchObject({ source: "counted", micro: counted?.micro, doubts: ["usage_contradicts"] });
  });

  it("is believed if it counts no output next to an unknown constant", async () => {
    const constant = { system: "x-prod-3" };
    const text = chunk("", constant) + chunk("", constant) + finish({ ...usage(9, 0), ...constant }) + done;
    const empty = await charged(chunk("") + finish(usage(9, 0)) + done);
    expect(await charged(text)).toEqual(empty);
    expect(empty).toMatchObject({ source: "reported", doubts: [] });
    const choices = [{ index: 0, message: { role: "assistant", content: "" }, finish_reason: "stop" }];
    expect(await charged(JSON.stringify({ model: "gpt-4o", choices, ...usage(9, 0), ...constant }))).toEqual(empty);
    const long = await charged(JSON.stringify({ model: "gpt-4o", choices, ...usage(9, 0), said: "x".repeat(300) }));
    expect(long).toMatchObject({ source: "partial", doubts: ["unknown_output", "usage_contradicts"] });
  });

  it("is believed if it counts no output next to the prompt that the request asked for", async () => {
    const prompt = " harbour".repeat(200);
    const choices = [{ index: 0, text: prompt, finish_reason: "length" }];
    const stream = event({ model: "gpt-4o", choices }) + event({ choices: [], ...usage(200, 0) }) + done;
    for (const text of [stream, JSON.stringify({ model: "gpt-4o", choices, ...usage(200, 0) })]) {
      const chargedWith = (more: object) =>
        charged(text, "end", { model: "gpt-4o", stream: true, prompt, ...more }, "/v1/completions");
      expect(await chargedWith({ echo: true, max_tokens: 0 })).toEqual({ source: "reported", micro: 250, doubts: [] });
      expect((await chargedWith({ echo: true, max_tokens: 200 }))?.source).toBe("counted");
      expect((await chargedWith({ max_tokens: 0 }))?.source).toBe("counted");
    }
  });

  const output = { usage: { output_tokens: 500 } };
  const prompt = { usage: { prompt_tokens: 9000 } };
  const sides = chunk("", { usage: { input_tokens: 9000, output_tokens: 1 } }) + chunk("a") + finish(output) + done;
  const json = (usage: object) =>
    JSON.stringify({ model: "gpt-4o", choices: [{ index: 0, message: { content: "a" } }], ...usage });
  it.each<[string, string, number, string, End?]>([
    ["in two events", sides, 13_750, "reported"],
    [
      "next to a 0 for the other",
      chunk("", usage(9000, 0)) + chunk("a") + finish(usage(0, 500)) + done,
      13_750,
      "reported",
    ],
    ["of the output, which is all", chunk("a") + finish(output) + done, 2510, "counted"],
    ["of the output, in a whole answer", json(output), 2510, "counted"],
    ["of the output, and 0 for the prompt", json(usage(0, 500)), 2510, "counted"],
    ["of the prompt, and is then cut", chunk("a", prompt), 11_255, "partial", "reset"],
    ["of the prompt, in a whole answer", json(prompt), 11_255, "counted"],
  ])("is charged for one side of a usage %s", async (_, text, micro, source, end = "end") => {
    const cost = await charged(text, end);
    expect(cost).toMatchObject({ source, doubts: [] });
    expect(Math.round(cost?.micro ?? 0)).toBeCloseTo(micro, -1);
  });

  it("is charged for the usages of all its choices", async () => {
    const one = (index: number) =>
      event({ model: "gpt-4o", choices: [{ index, delta: { content: " harbour".repeat(500) } }] }) +
      event({ model: "gpt-4o", choices: [{ index, delta: {}, finish_reason: "stop", ...usage(10, 500) }] });
    const both = await charged(one(0) + one(1) + done, "end", { ...chat, n: 2 });
    const whole = await charged(one(0) + one(1) + event({ choices: [], ...usage(10, 1000) }) + done, "end", {
      ...chat,
      n: 2,
    });
    expect(both).toEqual({ source: "reported", micro: whole?.micro, doubts: ["usage_contradicts"] });
    expect(whole?.doubts).toEqual([]);
  });
});

describe("a stream that is cut", () => {
  it.each<[string, string, string, object]>([
    ["a cumulative usage", chunk("a", usage(9000, 300)), "/v1/chat/completions", chat],
    [
      "Gemini's usage",
      chunk("a", { usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 300, totalTokenCount: 9300 } }),
      "/v1/chat/completions",
      chat,
    ],
    [
      "the usage of response.in_progress",
      event({
        type: "response.in_progress",
        response: {
          model: "gpt-4o",
          output: [],
          usage: { input_tokens: 9000, output_tokens: 300, total_tokens: 9300 },
        },
      }) + event({ type: "response.output_text.delta", item_id: "i", output_index: 0, delta: "a" }),
      "/v1/responses",
      responses,
    ],
  ])("is charged at least for %s", async (_, text, path, body) => {
    const whole = await charged(chunk("a") + finish(usage(9000, 300)) + done);
    const cut = await charged(text, "reset", body, path);
    expect(cut).toMatchObject({ source: "partial", doubts: [] });
    // The text after the usage adds at most a few tokens.
    expect(cut?.micro).toBeGreaterThanOrEqual(whole?.micro ?? Infinity);
    expect(cut?.micro).toBeLessThan((whole?.micro ?? 0) + 20);
  });

  it("is charged for the prompt in Anthropic's first event", async () => {
    const start = {
      type: "message_start",
      message: { model: "gpt-4o", usage: { input_tokens: 9000, output_tokens: 1 } },
    };
    const text = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } };
    const cut = await charged(event(start) + event(text), "reset");
    const whole = await charged(chunk("a") + finish(usage(9000, 1)) + done);
    expect(cut?.source).toBe("partial");
    expect(cut?.micro).toBeGreaterThanOrEqual(whole?.micro ?? Infinity);
  });

  it("is charged for a stated prompt, and for the output after it", async () => {
    const first = event({ model: "gpt-4o", choices: [{ index: 0, delta: { role: "assistant" } }], ...usage(9000, 1) });
    const cut = await charged(first + chunk(" harbour".repeat(100)), "reset");
    const whole = await charged(chunk("a") + finish(usage(9000, 101)) + done);
    expect(cut?.source).toBe("partial");
    expect(cut?.micro).toBeGreaterThanOrEqual(whole?.micro ?? Infinity);
    expect(cut?.micro).toBeLessThan((whole?.micro ?? 0) * 1.2);
  });

  it.each(["", "null", " NULL "])("is not complete because of the finish reason %j", async (reason) => {
    const open = event({
      model: "gpt-4o",
      choices: [{ index: 0, text: "a", delta: { content: "a" }, finish_reason: reason }],
    });
    for (const [body, path] of [
      [chat, "/v1/chat/completions"],
      [{ model: "gpt-4o", stream: true, prompt: "hello" }, "/v1/completions"],
    ] as const) {
      const { charge, body: got } = await answered(free, body, path, { text: open });
      expect(charge).toMatchObject({ source: "partial", reason: "gateway_cut" });
      expect(lastErrorCode(got)).toBe("gateway_stream_broken");
    }
  });
});

describe("a stream of images", () => {
  const path = "/v1/images/generations";
  const asked = { model: "gpt-image-1", prompt: "a harbour", stream: true, n: 2 };
  const image = "x".repeat(20_000);
  const part = event({ type: "image_generation.partial_image", b64_json: image });
  const whole = (output?: number) =>
    event({
      type: "image_generation.completed",
      b64_json: image,
      ...(output !== undefined && { usage: { input_tokens: 9, output_tokens: output } }),
    });

  it.each<[string, string, End]>([
    ["breaks off in the second image", whole(4000) + part, "reset"],
    ["ends in the second image", whole(4000) + part, "end"],
    ["states no usage of the first image", whole() + part + whole(4000), "end"],
    ["states no output of the second image", whole(4000) + whole(0), "end"],
    ["states no output of its image", whole(0), "end"],
  ])("is charged at its hold if it %s", async (_, text, end) => {
    for (const proxy of [free, bounded]) {
      const { charge } = await answered(proxy, asked, path, { text, end });
      expect(charge).toMatchObject({ source: "assumed", cost: charge.hold });
    }
  });

  it("is charged for both images if each states its usage", async () => {
    const { charge } = await answered(free, asked, path, { text: whole(4000) + part + whole(2000) });
    expect(charge).toMatchObject({ source: "reported", tokens: { image_output: 6000 } });
  });

  it("is charged at its hold if a whole answer states no output", async () => {
    const text = JSON.stringify({ data: [{ b64_json: image }], usage: { input_tokens: 9, output_tokens: 0 } });
    const headers = { "content-type": "application/json" };
    const { charge } = await answered(free, { ...asked, stream: false }, path, { text, headers });
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold });
  });
});

describe("heartbeats without JSON", () => {
  it.each(["ping", "[PING]", "keep-alive", ": PROCESSING"])("cost next to nothing: %s", async (beat) => {
    const stream = Array.from({ length: 40 }, () => event(beat) + chunk("a")).join("");
    const plain = await charged(chunk("a").repeat(40) + finish() + done);
    const beaten = await charged(stream + finish() + done);
    expect(beaten?.micro).toBeLessThanOrEqual((plain?.micro ?? 0) + 5 * beat.length);
  });

  it("do not hide text that an event states without JSON", async () => {
    const texts = ["one", "two", "one", "two"].map((text) => event(text.repeat(100))).join("");
    const { charge } = await answered(free, chat, "/v1/chat/completions", { text: texts + finish() + done });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(1200);
  });
});

describe("an error event of the gateway", () => {
  const errors: [string, object][] = [
    ["an error", { error: { message: "no", code: 500 } }],
    ["a text", { error: "no" }],
    ["a detail", { detail: "no" }],
    ["an object", { object: "error", message: "no" }],
    ["no success", { success: false, message: "no" }],
    ["a code", { code: 402, data: null, msg: "no" }],
    ["no choices", { choices: null, status_msg: "no" }],
  ];
  it.each(errors)("costs nothing if it is all: %s", async (_, error) => {
    for (const [body, path] of [
      [chat, "/v1/chat/completions"],
      [responses, "/v1/responses"],
      [{ model: "gpt-4o", stream: true, prompt: "hello" }, "/v1/completions"],
    ] as const) {
      for (const end of ["end", "reset"] as const) {
        const text = event(error);
        const { charge, body: got } = await answered(bounded, body, path, { text, end });
        expect([path, end, charge.state, charge.cost]).toEqual([path, end, "voided", null]);
        // Nothing follows the gateway's own error.
        expect(got.toString()).toBe(text);
      }
    }
  });

  it.each<[string, string]>([
    ["a report", event({ choices: [], status: "queued" })],
    ["an error", event({ error: { message: "overloaded", code: 529 } })],
  ])("does not hide that a stream is cut later: %s", async (_, first) => {
    for (const end of ["end", "reset"] as const) {
      const text = first + chunk("a harbour");
      const { charge, body } = await answered(free, chat, "/v1/chat/completions", { text, end });
      expect(lastErrorCode(body)).toBe("gateway_stream_broken");
      expect(charge).toMatchObject({ source: "partial", tokens: { output: 2 } });
    }
    const whole = first + chunk("a harbour") + finish() + done;
    const { charge } = await answered(free, chat, "/v1/chat/completions", { text: whole });
    expect(charge).toMatchObject({ source: "counted", reason: null });
  });

  it("is charged for output in the same event", async () => {
    const message = { role: "assistant", content: " harbour".repeat(100) };
    const text = event({ choices: [{ index: 0, message, finish_reason: "error", error: { code: 502 } }] });
    const { charge } = await answered(free, chat, "/v1/chat/completions", { text });
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_failed" });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(100);
  });

  it("is charged for the text before it in a compressed stream that is labelled as JSON", async () => {
    const headers = { "content-type": "application/json", "content-encoding": "gzip" };
    const answering = fetchAnswer(free, chat);
    const { response } = await gateway.nextChat();
    response
      .writeHead(200, headers)
      .end(gzipSync(chunk(" harbour".repeat(100)) + event({ error: { message: "no", code: 500 } })));
    await answering;
    expect((await lastCharge(free)).tokens.output).toBeGreaterThanOrEqual(100);
  });

  it("is charged for the text before it, but not for hidden reasoning", async () => {
    const { charge, body } = await answered(free, chat, "/v1/chat/completions", {
      text: chunk("a harbour") + event({ error: { message: "no" } }),
    });
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_failed", tokens: { output: 2 } });
    expect(lastErrorCode(body)).not.toBe("gateway_stream_broken");
  });

  it.each([{ usage: { total_tokens: 1000 } }, { usage: { cost: 0.02 } }, { billed_units: { input_tokens: 9 } }])(
    "is assumed to be billed if it states a usage in a form that cannot be read: %j",
    async (stated) => {
      const text = event({ error: { message: "no" }, ...stated });
      const { charge } = await answered(free, chat, "/v1/chat/completions", { text });
      expect(charge).toMatchObject({ source: "assumed", cost: charge.hold });
    },
  );

  it("is assumed to be billed after a timeout", async () => {
    const { charge } = await answered(free, chat, "/v1/chat/completions", {
      text: event({ error: { message: "upstream request timed out", code: 504 } }),
    });
    expect(charge).toMatchObject({ source: "assumed", reason: "gateway_504", cost: charge.hold });
  });
});

describe("a hard budget", () => {
  /** Requests a stream with a key that has this budget. The gateway writes the pieces one after the other. */
  async function within(limit: string, body: object, pieces: readonly string[]) {
    await using proxy = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_STREAM_SLICE: "64", FAREBOX_STREAM_USAGE: "inject" },
    });
    await proxy.budget("key:alice", limit);
    const request = send(proxy, { ...chat, ...body });
    const responding = once(request, "response");
    const { response } = await gateway.nextChat();
    response.writeHead(200, eventStream);
    for (const piece of pieces) {
      response.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
    const [got] = (await responding) as [IncomingMessage];
    return { ...(await readToEnd(got)), charge: await lastCharge(proxy) };
  }

  it.each([
    ["a stated maximum", { max_tokens: 2000 }, "0.0105"],
    ["no maximum", {}, "0.03"],
  ])("does not end a stream that states a small usage first: %s", async (_, body, limit) => {
    const first = event({ model: "gpt-4o", choices: [{ index: 0, delta: { role: "assistant" } }], ...usage(12, 1) });
    const words = Array.from({ length: 199 }, () => chunk(" harbour".repeat(10)));
    const { charge, body: got } = await within(limit, body, [first, ...words, finish(usage(12, 1990)) + done]);
    expect(lastErrorCode(got)).toBeUndefined();
    expect(charge).toMatchObject({ source: "reported", tokens: { input: 12, output: 1990 } });
  });

  it("does not end JSON that is labelled as a stream", async () => {
    const json = JSON.stringify({
      model: "gpt-4o",
      choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }],
      ...usage(8, 2),
    });
    const { charge, body } = await within("0.03", {}, [json.slice(0, 30), json.slice(30)]);
    expect(body.toString()).toBe(json);
    expect(charge).toMatchObject({ source: "reported", tokens: { input: 8, output: 2 } });
  });
});

describe("an answer with the label of another form", () => {
  const json = `{"model":"gpt-4o","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10}}`;
  const stream = chunk("Hi") + finish(usage(8, 2)) + done;
  const labels = ["text/event-stream", "application/json", "text/plain", "application/octet-stream", undefined];
  const marks = ["", "\ufeff", "\n \n"];
  const withLabel = (label: string | undefined): Record<string, string> =>
    label === undefined ? {} : { "content-type": label };

  it.each(labels)("is charged for its usage and passed on unchanged: %s", async (label) => {
    for (const isAsked of [true, false])
      for (const mark of marks)
        for (const text of [json, stream]) {
          const { charge, body } = await answered(
            free,
            { ...chat, stream: isAsked, ...(isAsked && { stream_options: { include_usage: true } }) },
            "/v1/chat/completions",
            { text: mark + text, headers: withLabel(label) },
          );
          expect(charge).toMatchObject({ source: "reported", tokens: { input: 8, output: 2 } });
          expect(body.toString()).toBe(mark + text);
        }
  });

  it.each(labels)("gets nothing appended if it is JSON that breaks off: %s", async (label) => {
    const part = json.slice(0, -20);
    const answering = fetchAnswer(free, chat);
    const { response } = await gateway.nextChat();
    response.writeHead(200, withLabel(label));
    response.write(part, () => response.destroy());
    const { body } = await answering;
    // A JSON answer with its own label is held, so the client gets an error in its place.
    if (label === "text/event-stream") expect(body.toString()).toBe(part);
    else expect(body.toString()).not.toContain("data:");
    expect(await lastCharge(free)).toMatchObject({ source: "assumed" });
  });

  it.each(labels)("arrives piece by piece if it is a stream: %s", async (label) => {
    for (const isAsked of [true, false]) {
      const request = send(free, { ...chat, stream: isAsked });
      const received = await gateway.nextChat();
      received.response.writeHead(200, withLabel(label));
      received.response.write("\n");
      received.response.write(chunk("Hi"));
      const [response] = (await once(request, "response")) as [IncomingMessage];
      const [first] = (await once(response, "data")) as [Buffer];
      expect(first.toString()).toContain("Hi");
      expect(response.headers["content-type"]).toBe(label);
      received.response.end(finish(usage(8, 2)) + done);
      await readToEnd(response);
      expect(await lastCharge(free)).toMatchObject({ source: "reported" });
    }
  });

  /** A second of sound: 16,000 bytes. */
  const second = Buffer.concat([
    Buffer.from("RIFF\0\0\0\0WAVE"),
    Buffer.from("fmt \u0010\0\0\0\u0001\0\u0001\0\u0040\u001f\0\0", "latin1"),
    Buffer.from("\u0080\u003e\0\0\u0002\0\u0010\0data\0\0\0\0", "latin1"),
    Buffer.alloc(16_000, 7),
  ]);
  /** Requests a transcription with the given parts, whose order matters. */
  async function transcribed(parts: readonly (readonly [string, string | Buffer])[], label: string, text: string) {
    const form = new FormData();
    for (const [name, value] of [["model", "whisper-1"] as const, ...parts])
      if (typeof value === "string") form.append(name, value);
      else form.append(name, new Blob([Uint8Array.from(value)]), "a.wav");
    const headers = { authorization: `Bearer ${free.key}` };
    const answering = fetch(`${free.url}/v1/audio/transcriptions`, { method: "POST", headers, body: form });
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": label, "content-length": text.length }).end(text);
    const got = await answering;
    const answer = [await got.text(), got.headers.get("content-length")];
    return { answer, charge: await lastCharge(free) };
  }
  const streamed = ["stream", "true"] as const;
  const file = ["file", second] as const;
  /** So large that parts after it arrive after the request was priced. */
  const large = ["file", Buffer.concat([second, Buffer.alloc(1_000_000, 7)])] as const;
  const texts = ["data: is the first word\n\n", ": he said\nand left\n", "id: three\n", "[Music]\n"];

  it.each<[string, readonly (readonly [string, string | Buffer])[]]>([
    ["as text", [["response_format", "text"], file]],
    ["as text in a stream, which the model ignores", [streamed, ["response_format", "text"], file]],
    ["as subtitles in a stream", [streamed, ["response_format", "srt"], file]],
    ["in an unknown format", [streamed, ["response_format", "words"], file]],
    ["in two formats", [streamed, ["response_format", "json"], ["response_format", "text"], file]],
    ["as text in a list", [streamed, ["response_format[]", "text"], file]],
    ["as text after the file", [streamed, file, ["response_format", "text"]]],
    ["as text after a large file", [streamed, large, ["response_format", "text"]]],
  ])("is metered by its label where a transcription is asked for %s", async (_, parts) => {
    const seconds = parts.includes(large) ? 64n : 1n;
    for (const text of texts) {
      const { answer, charge } = await transcribed(parts, "text/plain", text);
      expect(answer).toEqual([text, String(text.length)]);
      expect(charge).toMatchObject({ cost: seconds * 100_000_000n });
    }
  });

  it.each<[string, readonly (readonly [string, string | Buffer])[]]>([
    ["no format", [streamed, file]],
    ["JSON", [streamed, ["response_format", "json"], file]],
    ["long JSON", [streamed, ["response_format", "verbose_json"], file]],
    ["JSON with speakers before a large file", [["response_format", "diarized_json"], streamed, large]],
  ])("is metered by its first bytes where a streamed transcription is asked for with %s", async (_, parts) => {
    const text = event({ type: "transcript.text.done", text: "a", usage: { type: "duration", seconds: 9 } });
    for (const label of ["text/plain", "application/octet-stream", "text/event-stream"]) {
      const { charge } = await transcribed(parts, label, text);
      expect(charge).toMatchObject({ source: "reported", cost: 900_000_000n });
    }
  });
});

describe("output that waits in the socket when a stream ends early", () => {
  const words = 20;
  const piece = chunk(" harbour".repeat(words), { obfuscation: "x".repeat(16_000) });
  const streamMs = 500;
  /** 6 MB, less than the 8 MB that Farebox reads at most. */
  const piecesMax = 375;

  /** Writes until a client that does not read blocks the gateway. Returns the number of words that were written. */
  async function filled({ response }: OpenRequest): Promise<number> {
    let pieces = 0;
    for (let isOpen = true; isOpen && pieces < piecesMax; pieces++) {
      isOpen = response.write(piece);
      // The socket is full if it does not drain within many turns of the event loop.
      for (let turn = 0; !isOpen && turn < 200; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
        isOpen = !response.writableNeedDrain;
      }
    }
    return pieces * words;
  }

  /**
   * Sends a request whose client does not read its answer. The time limit of a second for reading the rest does not run
   * out, because a busy machine may need longer.
   */
  async function unread(body: object = {}) {
    const clock = { ...stillClock(), after: patientClock(1_000).after };
    const adjust: NonNullable<ProxyOptions["adjust"]> = (settings) => ({
      ...settings,
      gateway: { ...settings.gateway, streamMs },
    });
    const proxy = await startProxy({ gatewayUrl: gateway.url, clock, adjust });
    const request = send(proxy, { ...chat, ...body });
    request.on("response", (response: IncomingMessage) => response.on("error", () => undefined));
    const received = await gateway.nextChat();
    received.response.writeHead(200, eventStream);
    return { proxy, clock, request, received };
  }

  it.each(["client_left", "time_limit"])("is charged: %s", async (reason) => {
    const { proxy, clock, request, received } = await unread({ max_tokens: 10 });
    await using _ = proxy;
    const written = await filled(received);
    if (reason === "client_left") request.destroy();
    await clock.forwardUntil(reason === "client_left" ? 0 : streamMs, received.closed);
    const charge = await lastCharge(proxy);
    expect(charge).toMatchObject({ source: "partial", reason, doubts: [] });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(written);
  });

  it("is charged at the stated maximum of all choices if the gateway does not pause", async () => {
    const { proxy, request, received } = await unread({ n: 5, max_tokens: 3000 });
    await using _ = proxy;
    await filled(received);
    request.destroy();
    const { response } = received;
    const pour = () => {
      while (!response.destroyed && response.write(piece));
    };
    response.on("drain", pour);
    pour();
    await received.closed;
    const charge = await lastCharge(proxy);
    expect(charge).toMatchObject({ source: "partial", reason: "client_left", doubts: ["unknown_output"] });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(15_000);
  });
});
