import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NewCharges } from "../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type Body, type WireAnswer, type WireOptions } from "../support/wire-client.ts";

/*
 * Tests that no spelling and no position of a model's name evades a key's only budget, which names models and has a
 * limit of 0. The proxy also forwards paths without a route.
 */

let proxy: RunningProxy;
let newCharges: NewCharges;
let bound: string;
let soft: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy({ env: { FAREBOX_PASSTHROUGH: "all" } }));
  bound = await proxy.addKey("bound");
  soft = await proxy.addKey("soft");
  for (const models of ["o1-pro*", "kling*"]) {
    await proxy.budget(`key:bound model:${models}`, "0");
    await proxy.budget(`key:soft model:${models}`, "0", "total", "soft");
  }
  newCharges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

/** Every JSON endpoint, with a request to a model that no budget limits. */
const requests: readonly (readonly [
  path: string,
  body: { readonly model: string; readonly [name: string]: unknown },
])[] = [
  ["/v1/chat/completions", { model: "gpt-4o-mini", ...chatOf("hello") }],
  ["/v1/completions", { model: "gpt-4o-mini", prompt: "hello", max_tokens: 4 }],
  ["/v1/embeddings", { model: "text-embedding-3-small", input: "hello" }],
  ["/v1/responses", { model: "gpt-4o-mini", input: "hello", max_output_tokens: 16 }],
  ["/v1/images/generations", { model: "gpt-image-1", prompt: "A harbour" }],
  ["/v1/audio/speech", { model: "tts-1", input: "hello", voice: "alloy" }],
];
const forms: readonly (readonly [path: string, model: string, file: string])[] = [
  ["/v1/images/edits", "gpt-image-1", "image"],
  ["/v1/images/variations", "gpt-image-1", "image"],
  ["/v1/audio/transcriptions", "whisper-1", "file"],
  ["/v1/audio/translations", "whisper-1", "file"],
];

/** Spellings of the limited model: the price file's, and others that the gateway may accept. */
const spellings = [
  "o1-pro",
  "o1-pro-2025-03-19",
  "O1-Pro",
  "openai/O1-Pro",
  "o1-pro:nitro",
  "O1-PRO ",
  "no-such-model",
];

function chatOf(content: string) {
  return { max_tokens: 10, messages: [{ role: "user", content }] };
}

function send(body: Body, options: WireOptions, key = bound): Promise<WireAnswer> {
  return fetchAnswer({ url: proxy.url, key }, body, options);
}

async function sendForm(path: string, parts: readonly (readonly [string, string | Blob])[], key = bound) {
  const form = new FormData();
  for (const [name, value] of parts) form.append(name, value);
  const encoded = new Response(form);
  const headers = { "content-type": encoded.headers.get("content-type") ?? "" };
  return send(Buffer.from(await encoded.arrayBuffer()), { path, headers }, key);
}

/** Checks that a request was refused because of the budget, and that the gateway billed nothing. */
async function expectRefused(answer: WireAnswer, what: string): Promise<void> {
  const text = answer.body.toString("utf8", 0, 300);
  expect([400, 402], `${what}: ${text}`).toContain(answer.status);
  const { error } = JSON.parse(answer.body.toString()) as { error: { code: string; message: string } };
  expect(["budget_exceeded", "model_not_priced", "cost_not_bounded", "invalid_request"], what).toContain(error.code);
  const charged = await newCharges.allSettled();
  expect(
    charged.filter(({ state }) => state !== "voided"),
    what,
  ).toEqual([]);
  expect(newCharges.billed(), what).toEqual([]);
}

describe("a hard budget that names models only", () => {
  it.each(requests)("refuses its model at %s, wherever the request names it", async (path, body) => {
    for (const name of spellings) await expectRefused(await send({ ...body, model: name }, { path }), name);
    const others: readonly (readonly [object, WireOptions?])[] = [
      ...spellings.map((name) => [{ models: [body.model, name] }] as const),
      [{ models: "O1-Pro" }],
      [{ fallbacks: [{ model: "O1-Pro" }] }],
      [{ wonder: { deep: ["O1-Pro"] } }],
      [{}, { path: `${path}?models=O1-Pro` }],
      [{}, { path: `${path}?model=o1-pro` }],
      [{}, { path: `${path}?x=openai/O1-Pro` }],
      [{}, { path, headers: { "openai-fallback": "openai/O1-Pro" } }],
    ];
    for (const [more, options = { path }] of others)
      await expectRefused(await send({ ...body, ...more }, options), JSON.stringify([more, options]));
    const allowed = await send(body, { path });
    expect(allowed.status, allowed.body.toString()).toBe(200);
    expect((await newCharges.settled()).key).not.toBe("");
    newCharges.billed();
  });

  it.each(forms)("refuses its model in a form to %s, even after the file", async (path, model, file) => {
    const fields = [["prompt", "x"]] as const;
    const [small, large] = [2_000, 200_000].map((size) => new Blob([Buffer.alloc(size, 7)])) as [Blob, Blob];
    for (const name of spellings) {
      await expectRefused(await sendForm(path, [["model", name], ...fields, [file, small]]), name);
      await expectRefused(await sendForm(path, [...fields, [file, large], ["model", name]]), `late ${name}`);
    }
    for (const field of ["models", "models[]", "fallbacks[0][model]", "wonder"]) {
      const named = [["model", model], ...fields] as const;
      await expectRefused(await sendForm(path, [...named, [field, "O1-Pro"], [file, small]]), field);
      await expectRefused(await sendForm(path, [...named, [file, large], [field, "O1-Pro"]]), `late ${field}`);
    }
    const allowed = await sendForm(path, [["model", model], ...fields, [file, large]]);
    expect(allowed.status, allowed.body.toString()).toBe(200);
    expect(await newCharges.settled()).toMatchObject({ state: "posted" });
    newCharges.billed();
  });

  it.each<[path: string, body: Body, options?: WireOptions]>([
    ["/v1/engines/O1-Pro/completions", { prompt: "hello" }],
    ["/openai/deployments/o1-pro/chat/completions?api-version=1", chatOf("hello")],
    ["/v1beta/models/o1-pro:generateContent", { contents: [] }],
    ["/v1/search?model=O1-Pro", { query: "x" }],
    ["/v1/anything", { model: "O1-Pro", ...chatOf("hello") }],
    ["/v1/anything", { model: "gpt-4o-mini", models: ["o1-pro"] }],
    ["/v1/moderations", { model: "gpt-4o-mini", input: "x" }],
    ["/v1/batches", { input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" }],
    ["/v1/files", "--x\r\nnot a form", { headers: { "content-type": "multipart/form-data; boundary=x" } }],
    ["/v1/anything", "model=o1-pro", { headers: { "content-type": "application/x-www-form-urlencoded" } }],
    ["/v1/anything", Buffer.alloc(200_000, 7), { method: "PUT" }],
  ])(
    "refuses a request to a path without a route, because its model cannot be known: %s %j",
    async (path, body, options = {}) => {
      await expectRefused(await send(body, { path, ...options }), path);
    },
  );

  it.each<[path: string, body: object]>([
    ["/api/v1/task", { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } }],
    ["/api/v1/task", { model: "Kling", task_type: "video_generation", input: { prompt: "a fox" } }],
    ["/api/v1/task", { model: "maker/kling", task_type: "video_generation", input: { prompt: "a fox" } }],
    ["/api/v1/task", { model: "no-such-model", task_type: "video_generation", input: { prompt: "a fox" } }],
    ["/api/kling/v1/video", { task_type: "video_generation", prompt: "a fox" }],
    ["/api/kling/v1/videos/text2video", { model_name: "KLING-v2", prompt: "a fox" }],
  ])("refuses a task of its model: %s %j", async (path, body) => {
    await expectRefused(await send(body, { path, headers: { "x-api-key": bound } }), path);
  });

  it("refuses nothing if it is soft or belongs to another key", async () => {
    for (const key of [soft, proxy.key]) {
      for (const model of ["O1-Pro", "no-such-model"]) {
        const answer = await send({ model, ...chatOf("hello") }, {}, key);
        expect(answer.status, answer.body.toString()).toBe(200);
        const charge = await newCharges.settled();
        expect([charge.models, charge.cost === null]).toEqual(
          model === "O1-Pro" ? [["o1-pro"], false] : [[model], true],
        );
      }
      const late = [
        ["model", "whisper-1"],
        ["file", new Blob([Buffer.alloc(200_000, 7)])],
        ["wonder", "x"],
      ] as const;
      expect((await sendForm("/v1/audio/transcriptions", late, key)).status).toBe(200);
      await newCharges.settled();
    }
    newCharges.billed();
  });
});
