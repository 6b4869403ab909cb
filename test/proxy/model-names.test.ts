import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../src/core/charge.ts";
import { NewCharges } from "../support/new-charges.ts";
import { oneModelFile, priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";

/* Tests that a model has one price, and one place in budgets and in lists of models, under each spelling of its name. */

const spellings = ["GPT-4o-Mini", "openai/gpt-4o-mini", "OpenAI/GPT-4O-mini-2024-07-18", " gpt-4o-mini "];

let proxy: RunningProxy;
let newCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy());
  newCharges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

const chat = (model: string, more: object = {}) => ({
  model,
  max_tokens: 10,
  messages: [{ role: "user", content: "hello" }],
  ...more,
});
const send = (key: string, body: object, path = "/v1/chat/completions") =>
  fetchAnswer({ url: proxy.url, key }, body, { path });
const refusalOf = ({ status, body }: WireAnswer) => {
  const { code, message } = (JSON.parse(body.toString()) as { error: { code: string; message: string } }).error;
  return [status, code, message];
};

describe.each(spellings)("the spelling %j", (model) => {
  it("is charged like the model and counts in the budgets of its id, plain and streamed", async () => {
    const keyName = `counted-${spellings.indexOf(model)}`;
    const counted = await proxy.addKey(keyName);
    await proxy.budget(`key:${keyName} model:gpt-4o-mini`, "1");
    const charges: Charge[] = [];
    for (const name of ["gpt-4o-mini", model]) {
      for (const stream of [false, true]) {
        const answer = await send(counted, chat(name, { stream }));
        expect([answer.status, answer.headers["x-farebox-price"]]).toEqual([200, undefined]);
        charges.push(await newCharges.settled());
        expect(charges.at(-1)).toMatchObject({ state: "posted", model: name, doubts: [] });
      }
    }
    newCharges.billed();
    const figures = charges.map(({ cost, priceId }) => [cost, priceId]);
    expect(figures.slice(2)).toEqual(figures.slice(0, 2));
    const windows = await proxy.serving.ledger.windows(Date.now());
    const spent = charges.reduce((total, { cost }) => total + (cost ?? 0n), 0n);
    expect(spent).toBeGreaterThan(0n);
    expect(windows.map((window) => window.spent)).toContain(spent);
  });

  it("is refused by a budget and a list of models that refuse the id, and permitted by a list of the id", async () => {
    const index = spellings.indexOf(model);
    const poor = await proxy.addKey(`poor-${index}`);
    await proxy.budget(`key:poor-${index} model:gpt-4o-mini`, "0");
    const narrow = await proxy.addKey(`narrow-${index}`, { models: ["o3*", "cheap-*", "gpt-4o"] });
    const wide = await proxy.addKey(`wide-${index}`, { models: ["GPT-4o-mini"] });
    for (const name of ["gpt-4o-mini", model]) {
      expect(refusalOf(await send(poor, chat(name))).slice(0, 2)).toEqual([402, "budget_exceeded"]);
      expect(refusalOf(await send(narrow, chat(name))).slice(0, 2)).toEqual([403, "model_not_allowed"]);
      expect(refusalOf(await send(narrow, chat("o3", { models: [name] }))).slice(0, 2)).toEqual([
        403,
        "model_not_allowed",
      ]);
      expect((await send(wide, chat(name))).status).toBe(200);
      await newCharges.settled();
    }
    newCharges.billed();
  });
});

it("an invented provider satisfies no pattern without one", async () => {
  const cheap = await proxy.addKey("cheap", { models: ["cheap-*", "own/*"] });
  for (const name of ["cheap-x/gpt-4o", "cheap-x\uff0fgpt-4o", "cheap-x/no-such-model", "openai/gpt-4o"]) {
    expect(refusalOf(await send(cheap, chat(name))).slice(0, 2)).toEqual([403, "model_not_allowed"]);
  }
  expect((await send(cheap, chat("own/gpt-4o"))).status).toBe(200);
  expect(await newCharges.settled()).toMatchObject({ model: "own/gpt-4o", state: "posted" });
  newCharges.billed();
});

it("a refusal suggests the most similar model that the key may use and that has a price", async () => {
  const poor = await proxy.addKey("poor", { models: ["gpt-4o-mini", "o3*", "gpt-4x"] });
  await proxy.budget("key:poor", "1");
  for (const [name, code, suggested] of [
    ["gpt-4o", "model_not_allowed", ""],
    ["gpt-4o-min", "model_not_allowed", " Did you mean 'gpt-4o-mini'?"],
    ["openai/GPT-4o-mimi", "model_not_allowed", " Did you mean 'gpt-4o-mini'?"],
    ["gpt-4x", "model_not_priced", ""],
    ["o3-mimi", "model_not_priced", " Did you mean 'o3-mini'?"],
    ["openai/gpt-4o-mini:free", "model_not_allowed", " Did you mean 'gpt-4o-mini'?"],
    ["o3-mini:nitro", "model_not_priced", " Did you mean 'o3-mini'?"],
  ] as const) {
    const [, found, message] = refusalOf(await send(poor, chat(name)));
    expect([name, found, /\.( Did you mean '.*'\?)?$/.exec(String(message))?.[1] ?? ""]).toEqual([
      name,
      code,
      suggested,
    ]);
  }
});

it("a refusal by FAREBOX_UNPRICED=refuse suggests a model", async () => {
  await using strict = await startProxy({ env: { FAREBOX_UNPRICED: "refuse" } });
  const answer = await fetchAnswer(strict, chat("gpt4o"));
  expect(refusalOf(answer)).toEqual([
    400,
    "model_not_priced",
    "The model 'gpt4o' has no price, and FAREBOX_UNPRICED=refuse does not allow such models. Did you mean 'gpt-4o'?",
  ]);
});

it("a list of one model permits no other model whose name differs only in letter case, and no spelling of both", async () => {
  const models = ["Foo", "foo"].map((id) => `  ${id}: { group: official, prices: [${price}] }`);
  using own = priceFolder(["provider: own", limits, "models:", ...models].join("\n"));
  await using both = await startProxy({ env: { FAREBOX_PRICING: own.path } });
  const key = await both.addKey("one", { models: ["foo"] });
  const statuses = ["foo", "Foo", "FOO", "x/foo"].map(
    async (model) => (await fetchAnswer({ url: both.url, key }, chat(model))).status,
  );
  expect(await Promise.all(statuses)).toEqual([200, 403, 403, 403]);
});

const limits = "defaults: { context_tokens: 100000, max_output_tokens: 1000 }";
const price = '{ from: 2026-01-01, source: "made up for a test", official: { input: "1", output: "2" } }';

it("a refusal suggests the same model of another provider, and the model of a variant", async () => {
  using own = priceFolder(oneModelFile("azure/own-model", [{ from: "2026-01-01", input: "1", output: "2" }]));
  await using strict = await startProxy({ env: { FAREBOX_UNPRICED: "refuse", FAREBOX_PRICING: own.path } });
  for (const name of ["own-model", "openai/OWN-model", "azure/own-model:free", "azure/own-mode"]) {
    const [, , message] = refusalOf(await fetchAnswer(strict, chat(name)));
    expect([name, message]).toEqual([name, expect.stringMatching(/ Did you mean 'azure\/own-model'\?$/)]);
  }
});

describe("a model without a price", () => {
  it.each<[string, object]>([
    ["/v1/chat/completions", chat("no-such-model")],
    ["/v1/chat/completions", chat("no-such-model", { stream: true })],
    ["/v1/responses", { model: "no-such-model", input: "hello" }],
    ["/v1/responses", { model: "no-such-model", input: "hello", stream: true }],
    ["/v1/embeddings", { model: "no-such-model", input: "hello" }],
    ["/api/v1/task", { model: "no-such-model", task_type: "video_generation", input: { prompt: "a fox" } }],
  ])("is marked in the answer of %s: %j", async (path, body) => {
    const key = proxy.key;
    const answer = await fetchAnswer({ url: proxy.url, key }, body, { path, headers: { "x-api-key": key } });
    expect([answer.status, answer.headers["x-farebox-price"], answer.headers["x-farebox-cost-usd"]]).toEqual([
      200,
      "none",
      undefined,
    ]);
  });
});
