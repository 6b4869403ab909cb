import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { Books } from "../../support/books.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { ask, eventsIn, lastErrorCode } from "../../support/wire-client.ts";

let proxy: RunningProxy;
let books: Books;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy());
  await proxy.budget("key:alice", "1000", "total", "soft");
  books = new Books(proxy);
});
afterAll(() => everything.disposeAsync());

type Parts = Readonly<Record<string, string | Blob>>;

function formOf(parts: Parts): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(parts)) form.append(name, value);
  return form;
}

const post = (path: string, parts: Parts, key = proxy.key): Promise<Response> =>
  fetch(proxy.url + path, { method: "POST", headers: { authorization: `Bearer ${key}` }, body: formOf(parts) });
/** Three seconds of sound, as the sandbox hears it. */
const sound = new Blob([Buffer.alloc(48_000, 7)]);
const image = new Blob([Buffer.alloc(200_000, 7)]);
const images = (more: object = {}) => ({ model: "gpt-image-1", prompt: "A quiet harbour", ...more });
const errorOf = async (answer: Response) => ((await answer.json()) as { error: object }).error;

/** Rates of gpt-image-1 in pico-USD: text in, image in, image out. */
const [textIn, imageIn, imageOut] = [5_000_000n, 10_000_000n, 40_000_000n];

async function endedAsBilled(): Promise<Charge> {
  const { charge, billed } = await books.endedBeside();
  expect(charge).toMatchObject({ state: "posted", source: "reported", cost: billed?.cost, overage: 0n });
  return charge;
}

describe("images", () => {
  it("cost their text and their tokens, each class at its rate", async () => {
    const answer = await ask(proxy, images({ n: 2, quality: "low" }), { path: "/v1/images/generations" });
    expect(answer.status).toBe(200);
    const charge = await endedAsBilled();
    expect(charge.tokens).toMatchObject({ input: 3, image_output: 2 * 272, output: 0 });
    expect(charge.cost).toBe(3n * textIn + 544n * imageOut);
    expect(answer.headers["x-farebox-cost-usd"]).toBe("0.021775");
  });

  it("of 20 MB pass as they come and are priced by their outline", async () => {
    const answer = await ask(proxy, images({ prompt: "x #sandbox big:20000000" }), { path: "/v1/images/generations" });
    expect(answer.body.length).toBeGreaterThan(20_000_000);
    expect((await endedAsBilled()).tokens.image_output).toBe(4160);
  });

  it("to edit are uploaded, and priced as what they are", async () => {
    for (const path of ["/v1/images/edits", "/v1/images/variations"]) {
      const answer = await post(path, { model: "gpt-image-1", prompt: "Make it green", "image[]": image, mask: image });
      expect(answer.status).toBe(200);
      const charge = await endedAsBilled();
      expect(charge).toMatchObject({ route: path, tokens: { image_input: 646, image_output: 4160 } });
      expect(charge.cost).toBe(BigInt(charge.tokens.input) * textIn + 646n * imageIn + 4160n * imageOut);
    }
  });

  it("stream their parts, and are priced by the last event", async () => {
    const answer = await ask(proxy, images({ stream: true, partial_images: 2, prompt: "x #sandbox big:300000" }), {
      path: "/v1/images/generations",
    });
    expect(eventsIn(answer.body).map((data) => JSON.parse(data).type)).toEqual([
      "image_generation.partial_image",
      "image_generation.partial_image",
      "image_generation.completed",
    ]);
    expect((await endedAsBilled()).stream).toBe(true);
  });

  it("whose stream is cut are charged at their hold: nothing states the output", async () => {
    const answer = await ask(proxy, images({ stream: true, partial_images: 2, prompt: "x #sandbox cut:1" }), {
      path: "/v1/images/generations",
    });
    expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
    const charge = await books.ended();
    books.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "gateway_reset" });
  });

  it("without usage are charged at their hold", async () => {
    await ask(proxy, images({ prompt: "x #sandbox no-usage" }), { path: "/v1/images/generations" });
    const charge = await books.ended();
    books.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "no_usage" });
  });

  it("of a model without a price are recorded without one", async () => {
    await ask(proxy, images({ model: "dall-e-3" }), { path: "/v1/images/generations" });
    expect(await books.ended()).toMatchObject({ state: "posted", cost: null, formula: "unpriced", source: "reported" });
    books.billed();
  });

  it("are not priced in a chat, whose usage does not separate them from text", async () => {
    await proxy.chat({ model: "gpt-image-1" });
    expect(await books.ended()).toMatchObject({ cost: null, formula: "unpriced" });
    books.billed();
  });
});

describe("sound", () => {
  it("is charged by its seconds", async () => {
    const answer = await post("/v1/audio/transcriptions", { model: "whisper-1", file: sound });
    expect(await answer.json()).toMatchObject({ usage: { type: "duration", seconds: 3 } });
    // USD 0.006 a minute.
    expect(await endedAsBilled()).toMatchObject({ cost: 300_000_000n, tokens: { audio_input: 3 } });
    expect(answer.headers.get("x-farebox-cost-usd")).toBe("0.0003");
  });

  it("is charged by its tokens, plain and streamed", async () => {
    for (const more of [{}, { stream: "true" }]) {
      const answer = await post("/v1/audio/transcriptions", { model: "gpt-4o-transcribe", ...more, file: sound });
      expect(await answer.text()).toContain("text");
      const charge = await endedAsBilled();
      expect(charge.tokens).toMatchObject({ audio_input: 30 });
      expect(charge.cost).toBe(30n * 6_000_000n + BigInt(charge.tokens.output) * 10_000_000n);
    }
  });

  it("in a translation, too", async () => {
    await post("/v1/audio/translations", { model: "whisper-1", file: sound });
    expect(await endedAsBilled()).toMatchObject({ route: "/v1/audio/translations" });
  });

  it("is charged for the duration that a verbose answer states without a usage", async () => {
    await post("/v1/audio/transcriptions", {
      model: "whisper-1",
      response_format: "verbose_json",
      prompt: "#sandbox no-usage",
      file: sound,
    });
    expect(await endedAsBilled()).toMatchObject({ cost: 300_000_000n });
  });

  it.each(["text", "srt"])("as %s states no usage, and is charged at its hold", async (format) => {
    const answer = await post("/v1/audio/transcriptions", { model: "whisper-1", response_format: format, file: sound });
    expect(answer.headers.get("content-type")).toContain("text/plain");
    const charge = await books.ended();
    books.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "no_usage" });
  });

  it("is charged by its characters, which the request states", async () => {
    const input = "Grüße 😀";
    const answer = await ask(proxy, { model: "tts-1", input, voice: "alloy" }, { path: "/v1/audio/speech" });
    expect(answer.headers["content-type"]).toBe("audio/mpeg");
    expect(answer.body).toHaveLength(7 * 600);
    const { charge, billed } = await books.endedBeside();
    expect(charge).toMatchObject({ source: "counted", tokens: { input: 7 }, cost: 7n * 15_000_000n });
    expect(charge.cost).toBe(billed?.cost);
  });

  it("of a model that bills by audio tokens costs what a stream states, and its hold where nothing states it", async () => {
    await ask(proxy, { model: "gpt-4o-mini-tts", input: "Hello", voice: "alloy" }, { path: "/v1/audio/speech" });
    const plain = await books.ended();
    expect(plain).toMatchObject({ formula: "assumed", source: "assumed" });
    expect([plain.cost, (plain.cost ?? 0n) > 15_000n * 12_000_000n]).toEqual([plain.hold, true]);
    await ask(
      proxy,
      { model: "gpt-4o-mini-tts", input: "Hello", voice: "alloy", stream_format: "sse" },
      { path: "/v1/audio/speech" },
    );
    const stream = await books.ended();
    expect(stream).toMatchObject({ source: "reported", stream: true });
    const { input, output, audio_output } = stream.tokens;
    expect(stream.cost).toBe(BigInt(input) * 600_000n + BigInt(output + audio_output) * 12_000_000n);
    books.billed();
  });
});

describe("under a hard budget", () => {
  let poor: string;
  beforeAll(async () => {
    poor = await proxy.addKey("poor");
    await proxy.budget("key:poor", "4");
  });

  it("holds every image at its largest", async () => {
    expect(
      (await ask({ url: proxy.url, key: poor }, images({ n: 2 }), { path: "/v1/images/generations" })).status,
    ).toBe(200);
    const charge = await endedAsBilled();
    expect(charge.hold).toBeGreaterThan(2n * 6600n * imageOut);
  });

  it("answers 402 for more images than it can pay for", async () => {
    const answer = await ask({ url: proxy.url, key: poor }, images({ n: 20 }), { path: "/v1/images/generations" });
    expect(answer.status).toBe(402);
  });

  it("refuses a model without a price", async () => {
    const answer = await ask({ url: proxy.url, key: poor }, images({ model: "dall-e-3" }), {
      path: "/v1/images/generations",
    });
    expect(JSON.parse(answer.body.toString()).error).toMatchObject({ code: "model_not_priced" });
  });

  it("accepts an upload that states first what prices depend on", async () => {
    expect((await post("/v1/images/edits", { model: "gpt-image-1", n: "1", image, prompt: "x" }, poor)).status).toBe(
      200,
    );
    await endedAsBilled();
  });

  it("holds the worst case of a streamed transcription, which is not watched", async () => {
    const answer = await post(
      "/v1/audio/transcriptions",
      { model: "gpt-4o-transcribe", stream: "true", file: sound },
      poor,
    );
    expect(await answer.text()).toContain("transcript.text.done");
    // A context of sound, and 2,000 tokens of text.
    expect((await endedAsBilled()).hold).toBe(16_000n * 6_000_000n + 2_000n * 10_000_000n);
  });

  it("requires the model before the file", async () => {
    const answer = await post("/v1/images/edits", { image, model: "gpt-image-1" }, poor);
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({
      code: "invalid_request",
      param: "model",
      message: expect.stringContaining("send 'model' before the file"),
    });
  });

  it("stops an upload that would become more expensive on its way, before the gateway has all of it", async () => {
    const answer = await post("/v1/images/edits", { model: "gpt-image-1", image, n: "10" }, poor);
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({
      param: "n",
      message: expect.stringContaining("send 'n' before the file"),
    });
    expect(await books.ended()).toMatchObject({ state: "voided", reason: "invalid_request" });
    expect(books.billed()).toEqual([]);
  });
});

it("a price of requests is charged for each image, and can be recomputed", async () => {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-prices-"));
  owned.defer(() => rm(folder, { recursive: true }));
  await writeFile(
    join(folder, "mine.yaml"),
    `provider: mine
models:
  painter-1:
    context_tokens: 1000
    max_output_tokens: 1000
    prices:
      - from: 2024-01-01
        source: "a test"
        per_request: { official: "0.04", gateway: "0.03" }
`,
  );
  await using own = await startProxy({ env: { FAREBOX_PRICING: folder } });
  await own.budget("key:alice", "0.10");
  const paint = (n: number) =>
    ask(own, images({ model: "painter-1", n, prompt: "x #sandbox no-usage" }), { path: "/v1/images/generations" });
  expect((await paint(3)).status).toBe(200);
  expect((await paint(1)).status).toBe(402);
  expect(await own.onlyCharge()).toMatchObject({
    formula: "per_request",
    source: "counted",
    cost: 90_000_000_000n,
    listCost: 120_000_000_000n,
  });
  const painted = await own.addKey("painter");
  const late = await fetch(`${own.url}/v1/images/edits`, {
    method: "POST",
    headers: { authorization: `Bearer ${painted}` },
    body: formOf({ model: "painter-1", image, n: "4" }),
  });
  expect(await errorOf(late)).toMatchObject({ param: "n" });
  expect(await own.serving.ledger.verify()).toMatchObject({ differences: [] });
});

it("an upload whose model comes late passes for a key without a hard budget, and has no price", async () => {
  expect((await post("/v1/images/edits", { image, model: "gpt-image-1", n: "2" })).status).toBe(200);
  expect(await books.ended()).toMatchObject({ model: "unnamed", cost: null, source: "reported" });
  books.billed();
});

it("a second model is refused for every key", async () => {
  const form = formOf({ model: "gpt-image-1", image });
  form.append("model", "dall-e-2");
  const answer = await fetch(`${proxy.url}/v1/images/edits`, {
    method: "POST",
    headers: { authorization: `Bearer ${proxy.key}` },
    body: form,
  });
  expect(await errorOf(answer)).toMatchObject({ param: "model", message: "'model' is given twice" });
  expect(await books.ended()).toMatchObject({ state: "voided" });
});

it("a key limited to some models must name one before the file", async () => {
  const key = await proxy.addKey("narrow", { models: ["whisper-1"] });
  expect((await post("/v1/audio/transcriptions", { model: "whisper-1", file: sound }, key)).status).toBe(200);
  await endedAsBilled();
  expect((await post("/v1/images/edits", { image, model: "gpt-image-1" }, key)).status).toBe(400);
});
