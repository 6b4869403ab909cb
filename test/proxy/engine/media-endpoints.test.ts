import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { NewCharges } from "../../support/new-charges.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchAnswer, eventsIn, lastErrorCode } from "../../support/wire-client.ts";

let proxy: RunningProxy;
let newCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy());
  await proxy.budget("key:alice", "1000", "total", "soft");
  newCharges = new NewCharges(proxy);
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
/** Three seconds of sound in the sandbox. */
const sound = new Blob([Buffer.alloc(48_000, 7)]);
/** Returns a WAV file of 16,000 bytes a second that states another length. */
function wave(bytes: number, stated = bytes): Buffer<ArrayBuffer> {
  const file = Buffer.alloc(44 + bytes, 7);
  file.write("RIFF", 0, "latin1");
  file.write("WAVE", 8, "latin1");
  file.write("fmt ", 12, "latin1");
  file.set([16, 0, 0, 0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0], 16);
  file.write("data", 36, "latin1");
  file.writeUInt32LE(stated, 40);
  return file;
}
const image = new Blob([Buffer.alloc(200_000, 7)]);
const images = (more: object = {}) => ({ model: "gpt-image-1", prompt: "A quiet harbour", ...more });
const errorOf = async (answer: Response) => ((await answer.json()) as { error: object }).error;

/** Rates of gpt-image-1 in pico-USD per token: text input, image input, image output. */
const [textIn, imageIn, imageOut] = [5_000_000n, 10_000_000n, 40_000_000n];

async function settledAsBilled(): Promise<Charge> {
  const { charge, billed } = await newCharges.settledAndBilled();
  expect(charge).toMatchObject({ state: "posted", source: "reported", cost: billed?.cost, overage: 0n });
  return charge;
}

describe("images", () => {
  it("cost their text tokens and image tokens at the rate of each", async () => {
    const answer = await fetchAnswer(proxy, images({ n: 2, quality: "low" }), { path: "/v1/images/generations" });
    expect(answer.status).toBe(200);
    const charge = await settledAsBilled();
    expect(charge.tokens).toMatchObject({ input: 3, image_output: 2 * 272, output: 0 });
    expect(charge.cost).toBe(3n * textIn + 544n * imageOut);
    expect(answer.headers["x-farebox-cost-usd"]).toBe("0.021775");
  });

  it("of 20 MB pass unchanged and are priced by their outline", async () => {
    const answer = await fetchAnswer(proxy, images({ prompt: "x #sandbox big:20000000" }), {
      path: "/v1/images/generations",
    });
    expect(answer.body.length).toBeGreaterThan(20_000_000);
    expect((await settledAsBilled()).tokens.image_output).toBe(4160);
  });

  it("can be edited by upload, and cost text, image input and image output at their rates", async () => {
    for (const path of ["/v1/images/edits", "/v1/images/variations"]) {
      const answer = await post(path, { model: "gpt-image-1", prompt: "Make it green", "image[]": image, mask: image });
      expect(answer.status).toBe(200);
      const charge = await settledAsBilled();
      expect(charge).toMatchObject({ route: path, tokens: { image_input: 646, image_output: 4160 } });
      expect(charge.cost).toBe(BigInt(charge.tokens.input) * textIn + 646n * imageIn + 4160n * imageOut);
    }
  });

  it("are streamed in parts and priced by the last event", async () => {
    const answer = await fetchAnswer(
      proxy,
      images({ stream: true, partial_images: 2, prompt: "x #sandbox big:300000" }),
      {
        path: "/v1/images/generations",
      },
    );
    expect(eventsIn(answer.body).map((data) => JSON.parse(data).type)).toEqual([
      "image_generation.partial_image",
      "image_generation.partial_image",
      "image_generation.completed",
    ]);
    expect((await settledAsBilled()).stream).toBe(true);
  });

  it("in a stream that breaks are charged at their hold because the output is unknown", async () => {
    const answer = await fetchAnswer(proxy, images({ stream: true, partial_images: 2, prompt: "x #sandbox cut:1" }), {
      path: "/v1/images/generations",
    });
    expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "gateway_reset" });
  });

  it("without usage are charged at their hold", async () => {
    await fetchAnswer(proxy, images({ prompt: "x #sandbox no-usage" }), { path: "/v1/images/generations" });
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "no_usage" });
  });

  it("of an unpriced model are recorded without a cost", async () => {
    await fetchAnswer(proxy, images({ model: "dall-e-3" }), { path: "/v1/images/generations" });
    expect(await newCharges.settled()).toMatchObject({
      state: "posted",
      cost: null,
      formula: "unpriced",
      source: "reported",
    });
    newCharges.billed();
  });

  it("have no price in a chat, because its usage does not separate them from text", async () => {
    await proxy.chat({ model: "gpt-image-1" });
    expect(await newCharges.settled()).toMatchObject({ cost: null, formula: "unpriced" });
    newCharges.billed();
  });
});

describe("sound", () => {
  it("in a transcription is charged by its seconds", async () => {
    const answer = await post("/v1/audio/transcriptions", { model: "whisper-1", file: sound });
    expect(await answer.json()).toMatchObject({ usage: { type: "duration", seconds: 3 } });
    // USD 0.006 per minute.
    expect(await settledAsBilled()).toMatchObject({ cost: 300_000_000n, tokens: { audio_input: 3 } });
    expect(answer.headers.get("x-farebox-cost-usd")).toBe("0.0003");
  });

  it("in a transcription is charged by its tokens, plain and streamed", async () => {
    for (const more of [{}, { stream: "true" }]) {
      const answer = await post("/v1/audio/transcriptions", { model: "gpt-4o-transcribe", ...more, file: sound });
      expect(await answer.text()).toContain("text");
      const charge = await settledAsBilled();
      expect(charge.tokens).toMatchObject({ audio_input: 30 });
      expect(charge.cost).toBe(30n * 6_000_000n + BigInt(charge.tokens.output) * 10_000_000n);
    }
  });

  it("in a translation is charged as billed", async () => {
    await post("/v1/audio/translations", { model: "whisper-1", file: sound });
    expect(await settledAsBilled()).toMatchObject({ route: "/v1/audio/translations" });
  });

  it("in a transcription without usage is charged by the duration in a verbose answer", async () => {
    await post("/v1/audio/transcriptions", {
      model: "whisper-1",
      response_format: "verbose_json",
      prompt: "#sandbox no-usage",
      file: sound,
    });
    expect(await settledAsBilled()).toMatchObject({ cost: 300_000_000n });
  });

  it.each(["text", "srt"])("in a transcription as %s has no usage, and is charged at its hold", async (format) => {
    const answer = await post("/v1/audio/transcriptions", { model: "whisper-1", response_format: format, file: sound });
    expect(answer.headers.get("content-type")).toContain("text/plain");
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "no_usage" });
  });

  it.each(["text", "srt"])(
    "in a transcription of a WAV file as %s is charged by the bytes of the file",
    async (format) => {
      const file = new Blob([wave(47_956, 100)]);
      await post("/v1/audio/transcriptions", { model: "whisper-1", response_format: format, file });
      const { charge, billed } = await newCharges.settledAndBilled();
      expect(charge).toMatchObject({ source: "counted", cost: 300_000_000n, tokens: { audio_input: 3 } });
      expect(charge).toMatchObject({ cost: billed?.cost, doubts: ["image_bound"] });
    },
  );

  it("in a large WAV file is charged by the bytes of the file, which arrive in pieces", async () => {
    const file = new Blob([wave(1_600_000)]);
    await post("/v1/audio/translations", { model: "whisper-1", response_format: "vtt", file });
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "counted", tokens: { audio_input: 100 } });
  });

  it.each<[string, (form: FormData) => void]>([
    ["other bytes in the file", (form) => form.set("file", sound)],
    ["a second file", (form) => form.append("other", new Blob([wave(9)]), "b.wav")],
    ["two files", (form) => form.append("file", new Blob([wave(9)]), "b.wav")],
    ["an unknown field", (form) => form.append("file_url", "https://example.com/long.wav")],
  ])("in a transcription without usage is charged at its hold with %s", async (_, change) => {
    const form = formOf({ model: "whisper-1", response_format: "text", file: new Blob([wave(48_000)]) });
    change(form);
    await fetch(`${proxy.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}` },
      body: form,
    });
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "assumed", cost: charge.hold });
  });

  it("generated from text is charged by the characters of the request", async () => {
    const input = "Grüße 😀";
    const answer = await fetchAnswer(proxy, { model: "tts-1", input, voice: "alloy" }, { path: "/v1/audio/speech" });
    expect(answer.headers["content-type"]).toBe("audio/mpeg");
    expect(answer.body).toHaveLength(7 * 600);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "counted", tokens: { input: 7 }, cost: 7n * 15_000_000n });
    expect(charge.cost).toBe(billed?.cost);
  });

  it("generated by a model with audio tokens is charged as reported if it is streamed, and otherwise at its hold", async () => {
    await fetchAnswer(
      proxy,
      { model: "gpt-4o-mini-tts", input: "Hello", voice: "alloy" },
      { path: "/v1/audio/speech" },
    );
    const plain = await newCharges.settled();
    expect(plain).toMatchObject({ formula: "assumed", source: "assumed" });
    expect([plain.cost, (plain.cost ?? 0n) > 15_000n * 12_000_000n]).toEqual([plain.hold, true]);
    await fetchAnswer(
      proxy,
      { model: "gpt-4o-mini-tts", input: "Hello", voice: "alloy", stream_format: "sse" },
      { path: "/v1/audio/speech" },
    );
    const stream = await newCharges.settled();
    expect(stream).toMatchObject({ source: "reported", stream: true });
    const { input, output, audio_output } = stream.tokens;
    expect(stream.cost).toBe(BigInt(input) * 600_000n + BigInt(output + audio_output) * 12_000_000n);
    newCharges.billed();
  });
});

describe("a media request under a hard budget", () => {
  let poor: string;
  beforeAll(async () => {
    poor = await proxy.addKey("poor");
    await proxy.budget("key:poor", "4");
  });

  it("holds every image at the largest size", async () => {
    expect(
      (await fetchAnswer({ url: proxy.url, key: poor }, images({ n: 2 }), { path: "/v1/images/generations" })).status,
    ).toBe(200);
    const charge = await settledAsBilled();
    expect(charge.hold).toBeGreaterThan(2n * 6600n * imageOut);
  });

  it("gets 402 for more images than the budget can pay for", async () => {
    const answer = await fetchAnswer({ url: proxy.url, key: poor }, images({ n: 20 }), {
      path: "/v1/images/generations",
    });
    expect(answer.status).toBe(402);
  });

  it("is refused for a model without a price", async () => {
    const answer = await fetchAnswer({ url: proxy.url, key: poor }, images({ model: "dall-e-3" }), {
      path: "/v1/images/generations",
    });
    expect(JSON.parse(answer.body.toString()).error).toMatchObject({ code: "model_not_priced" });
  });

  it("is priced by all its fields, wherever they are", async () => {
    const before = { model: "gpt-image-1", n: "2", image, prompt: "x" };
    const after = { image, prompt: "x", n: "2", model: "gpt-image-1" };
    const holds: (bigint | null)[] = [];
    for (const parts of [before, after]) {
      expect((await post("/v1/images/edits", parts, poor)).status).toBe(200);
      holds.push((await settledAsBilled()).hold);
    }
    expect(holds[1]).toBe(holds[0]);
    expect((await post("/v1/images/edits", { image, model: "gpt-image-1", n: "20" }, poor)).status).toBe(402);
  });

  it("holds the worst case of a streamed transcription, which is not watched", async () => {
    const answer = await post(
      "/v1/audio/transcriptions",
      { model: "gpt-4o-transcribe", stream: "true", file: sound },
      poor,
    );
    expect(await answer.text()).toContain("transcript.text.done");
    // A context of sound and 2,000 tokens of text.
    expect((await settledAsBilled()).hold).toBe(16_000n * 6_000_000n + 2_000n * 10_000_000n);
  });

  it("is refused if its form names no model", async () => {
    const answer = await post("/v1/images/edits", { image, prompt: "x" }, poor);
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({ code: "invalid_request", param: "model" });
  });
});

it("a price per request is charged for each image and can be verified", async () => {
  using prices = priceFolder(`provider: mine
models:
  painter-1:
    context_tokens: 1000
    max_output_tokens: 1000
    prices:
      - from: 2024-01-01
        source: "a test"
        per_request: { official: "0.04", gateway: "0.03" }
`);
  await using own = await startProxy({ env: { FAREBOX_PRICING: prices.path } });
  await own.budget("key:alice", "0.10");
  const paint = (n: number) =>
    fetchAnswer(own, images({ model: "painter-1", n, prompt: "x #sandbox no-usage" }), {
      path: "/v1/images/generations",
    });
  expect((await paint(3)).status).toBe(200);
  expect((await paint(1)).status).toBe(402);
  expect(await own.onlyCharge()).toMatchObject({
    formula: "per_request",
    source: "counted",
    cost: 90_000_000_000n,
    listCost: 120_000_000_000n,
  });
  const painted = await own.addKey("painter");
  await own.budget("key:painter", "0.10");
  const late = await fetch(`${own.url}/v1/images/edits`, {
    method: "POST",
    headers: { authorization: `Bearer ${painted}` },
    body: formOf({ model: "painter-1", image, n: "4" }),
  });
  expect(late.status).toBe(402);
  expect(await own.serving.ledger.verify()).toMatchObject({ differences: [] });
});

it("an upload with its model after the file is priced like any other", async () => {
  expect((await post("/v1/images/edits", { image, model: "gpt-image-1", n: "2" })).status).toBe(200);
  await settledAsBilled();
});

it("an upload by a key limited to some models may name its model after the file", async () => {
  const key = await proxy.addKey("narrow", { models: ["whisper-1"] });
  expect((await post("/v1/audio/transcriptions", { file: sound, model: "whisper-1" }, key)).status).toBe(200);
  await settledAsBilled();
  const answer = await post("/v1/images/edits", { image, model: "gpt-image-1" }, key);
  expect(await errorOf(answer)).toMatchObject({ code: "model_not_allowed" });
});

it.each([
  [
    ".NET",
    'multipart/form-data; boundary="b"',
    "--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=model\r\n\r\nwhisper-1\r\n" +
      "--b\r\nContent-Disposition: form-data; name=file; filename=a.wav; filename*=utf-8''a.wav\r\n\r\nRIFF\r\n--b--\r\n",
  ],
  [
    "older programs for .NET",
    "multipart/form-data; boundary=-----b",
    '\r\n-------b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n' +
      '-------b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n-------b--\r\n',
  ],
  [
    "axios 1.7",
    "multipart/form-data; boundary=axios-b",
    '--axios-b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n' +
      '--axios-b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--axios-b--\r\n\r\n',
  ],
  [
    "Java",
    "multipart/form-data;boundary=*****",
    '--*****\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n' +
      '--*****\r\nContent-Disposition: form-data; filename="a.wav"; size=4; name="file"\r\n\r\nRIFF\r\n--*****--\r\n',
  ],
])("a form as %s writes it is priced", async (_client, type, body) => {
  const answer = await fetch(`${proxy.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${proxy.key}`, "content-type": type },
    body,
  });
  expect(answer.status).toBe(200);
  expect(await settledAsBilled()).toMatchObject({ model: "whisper-1" });
});

it("a key limited to some models may not name another one in fields that are too long to read", async () => {
  const key = await proxy.addKey("narrow-forms", { models: ["whisper-1", "gpt-image-1"] });
  const fillers = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`x${index}`, "x".repeat(60_000)]));
  for (const [path, parts] of [
    ["/v1/audio/transcriptions", { file: sound, model: "whisper-1", engine: "gpt-4o-transcribe" }],
    ["/v1/images/edits", { image, model: "gpt-image-1", engine: "gpt-4o" }],
  ] as const) {
    expect(await errorOf(await post(path, parts, key))).toMatchObject({ code: "model_not_allowed" });
    for (const more of [fillers, { engine: "x".repeat(70_000) }])
      expect(await errorOf(await post(path, { ...parts, ...more }, key))).toMatchObject({
        code: "invalid_request",
        message: expect.stringMatching(/'\w+' is too long to read; this key may use only some models/),
      });
    expect((await post(path, { ...parts, engine: "x", prompt: "x".repeat(70_000) }, key)).status).toBe(200);
    await settledAsBilled();
  }
});

describe("a form that another reader could read differently is refused for every key, before anything is held", () => {
  const part = (disposition: string, value: string, more = "") =>
    `--b\r\ncontent-disposition: ${disposition}${more}\r\n\r\n${value}\r\n`;
  const model = part('form-data; name="model"', "whisper-1");
  const file = part('form-data; name="file"; filename="a.wav"', "RIFF");
  const other = "gpt-4o-transcribe";
  let rows: number;
  beforeAll(async () => {
    rows = (await proxy.charges()).length;
  });

  const hidden = [
    ["a second model", part('form-data; name="model"', other)],
    ["a model in capitals", part('form-data; name="Model"', other)],
    ["a model without quotes", part("form-data; name=model", other)],
    ["a model with an escape", part('form-data; name="mo\\del"', other)],
    ["a model with two names", part('form-data; name="x"; name="model"', other)],
    ["a model after the name of a file", part('form-data; name="x"; filename="a"; name="model"', other)],
    ["a model in an encoded name", part("form-data; name*=UTF-8''model", other)],
    ["a model in a folded header", part('form-data;\r\n name="model"', other)],
    ["a model as a list", part('form-data; name="model[]"', other)],
    ["a model as a file", part('form-data; name="model"; filename="m"', other)],
    ["an encoded part", part('form-data; name="language"', "e=6E", "\r\ncontent-transfer-encoding: quoted-printable")],
    ["other models as a file", part('form-data; name="models"; filename="m"', other)],
  ] as const;
  it.each(hidden.flatMap(([name, text]) => [[name, "before", text] as const, [name, "after", text] as const]))(
    "%s, %s the file",
    async (_name, where, text) => {
      const answer = await fetch(`${proxy.url}/v1/audio/transcriptions`, {
        method: "POST",
        headers: { authorization: `Bearer ${proxy.key}`, "content-type": "multipart/form-data; boundary=b" },
        body: `${model}${where === "before" ? text + file : file + text}--b--\r\n`,
      });
      expect(answer.status).toBe(400);
      expect(await errorOf(answer)).toMatchObject({ code: "invalid_request" });
      expect(newCharges.billed()).toEqual([]);
      expect(await proxy.charges()).toHaveLength(rows);
    },
  );

  it.each([
    ["no end", `${model}${file}`, "b"],
    ["a part after its end", `${model}${file}--b--\r\n${model}--b--\r\n`, "b"],
    ["another boundary", `${model}${file}--b--\r\n`, "c"],
    ["two boundaries", `${model}${file}--b--\r\n`, "b; boundary=c"],
  ])("%s", async (_name, body, boundary) => {
    const answer = await fetch(`${proxy.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}`, "content-type": `multipart/form-data; boundary=${boundary}` },
      body,
    });
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("the form can be read in several ways"),
    });
    expect(await proxy.charges()).toHaveLength(rows);
  });
});
