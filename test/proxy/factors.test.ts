import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answeringGateway, type Answering } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer } from "../support/wire-client.ts";

/** Rates of USD 1 and 2 per million tokens, so that a token costs 1 or 2 micro-USD. */
const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false }
models:
  quick:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up for a test"
        official: { input: "1.00", output: "2.00" }
        service_tiers: { batch: { official: { input: "0.50", output: "1.00" } } }
        factors: { speed: { fast: "3" }, inference_geo: { us: "1.1" } }
  plain:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
`;

let answer: Answering = {};
let proxy: RunningProxy;
let budgeted: string;
const everything = new AsyncDisposableStack();
beforeAll(async () => {
  const folder = everything.use(priceFolder(prices)).path;
  const gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } }));
  budgeted = await proxy.addKey("budgeted");
  await proxy.budget("key:budgeted", "100");
});
afterAll(() => everything.disposeAsync());

const chat = "/v1/chat/completions";
const messages = [{ role: "user", content: "hi" }];
const chatAnswer = (usage: object, more: object = {}): object => ({
  object: "chat.completion",
  model: "quick",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }],
  usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000, ...usage },
  ...more,
});
const responseOf = (usage: object): object => ({
  object: "response",
  status: "completed",
  model: "quick",
  output: [{ type: "message", content: [{ type: "output_text", text: "hi" }] }],
  usage: { input_tokens: 1000, output_tokens: 1000, total_tokens: 2000, ...usage },
});
const events = (list: readonly object[], end = ""): object => ({
  headers: { "content-type": "text/event-stream" },
  body: list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("") + end,
});

async function exchange(path: string, body: object, given: object, key = proxy.key) {
  answer = "body" in given ? (given as Answering) : { body: JSON.stringify(given) };
  const got = await fetchAnswer({ url: proxy.url, key }, body, { path });
  return { answer: got, charge: (await proxy.charges()).at(-1) };
}

describe("a charge has the rates of the speed and the region", () => {
  it.each<[what: string, model: string, asked: object, stated: object, micro: number, tier: string | null, boolean]>([
    ["of the request if the answer states none", "quick", { speed: "fast" }, {}, 9_000, "fast", false],
    ["of the request if the answer states null", "quick", { speed: "fast" }, { speed: null }, 9_000, "fast", false],
    ["of the answer, which was not fast", "quick", { speed: "fast" }, { speed: "standard" }, 3_000, null, false],
    ["of the answer, although the request states none", "quick", {}, { inference_geo: "us" }, 3_300, "us", false],
    [
      "of the answer, where a region cannot be chosen",
      "quick",
      { inference_geo: "us" },
      { inference_geo: "not_available" },
      3_000,
      null,
      false,
    ],
    ["both", "quick", { speed: "fast", inference_geo: "us" }, {}, 9_900, "fast+us", false],
    ["one of each", "quick", { speed: "fast" }, { inference_geo: "us" }, 9_900, "fast+us", false],
    ["in a service tier", "quick", { inference_geo: "us" }, { service_tier: "batch" }, 1_650, "batch+us", false],
    ["with a doubt for an unknown speed", "quick", { speed: "turbo" }, {}, 3_000, "speed:turbo", true],
    ["with a doubt for a speed named like a region", "quick", { speed: "us" }, {}, 3_000, "speed:us", true],
    [
      "with a doubt and the known factor",
      "quick",
      { service_tier: "priority" },
      { inference_geo: "us" },
      3_300,
      "priority+us",
      true,
    ],
    ["with a doubt for a model without factors", "plain", { speed: "fast" }, {}, 3_000, "fast", true],
    ["with a doubt for an unknown region", "plain", {}, { inference_geo: "eu" }, 3_000, "inference_geo:eu", true],
    [
      "without a doubt if both are standard",
      "plain",
      { speed: "standard", inference_geo: "global" },
      {},
      3_000,
      null,
      false,
    ],
  ])("%s", async (_, model, asked, stated, micro, serviceTier, isDoubted) => {
    const { charge } = await exchange(chat, { model, messages, ...asked }, chatAnswer(stated, { model }));
    expect(charge).toMatchObject({
      cost: BigInt(micro) * 1_000_000n,
      billing: { serviceTier, calls: {} },
      doubts: isDoubted ? ["service_tier"] : [],
    });
  });

  const long = "x".repeat(12_000);
  const chunk = (more: object) => ({ object: "chat.completion.chunk", model: "quick", choices: [], ...more });
  const delta = (content: string) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
  const usage = { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 };
  const terms = { speed: "fast", inference_geo: "us" };
  const finish = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
  it.each<[string, string, object, object]>([
    ["a plain answer", chat, { messages }, chatAnswer(terms)],
    [
      "a stream's usage",
      chat,
      { messages, stream: true },
      events([chunk(delta("hi")), chunk(finish), chunk({ usage: { ...usage, ...terms } })], "data: [DONE]\n\n"),
    ],
    [
      "a stream's first usage alone",
      chat,
      { messages, stream: true },
      events(
        [
          chunk({ ...delta("hi"), usage: { prompt_tokens: 1000, completion_tokens: 1, total_tokens: 1001, ...terms } }),
          chunk(delta(long)),
          chunk(finish),
          chunk({ usage }),
        ],
        "data: [DONE]\n\n",
      ),
    ],
    ["a response", "/v1/responses", { input: "hi" }, responseOf(terms)],
    [
      "a stream of responses",
      "/v1/responses",
      { input: "hi", stream: true },
      events([
        { type: "response.created", response: { model: "quick" } },
        { type: "response.completed", response: responseOf(terms) },
      ]),
    ],
    ["a completion", "/v1/completions", { prompt: "hi", ...terms }, chatAnswer({})],
    ["a request for embeddings", "/v1/embeddings", { input: "hi", ...terms }, { ...chatAnswer({}), data: [] }],
  ])("that are stated in %s", async (_, path, body, given) => {
    const { charge } = await exchange(path, { model: "quick", ...body }, given);
    expect(charge).toMatchObject({ cost: 9_900_000_000n, billing: { serviceTier: "fast+us" }, doubts: [] });
  });

  it("so that verify computes the same amounts again", async () => {
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});

describe("a hard budget", () => {
  const holdOf = async (more: object) => {
    const { charge } = await exchange(
      chat,
      { model: "quick", messages, max_tokens: 500, ...more },
      chatAnswer({}),
      budgeted,
    );
    return charge?.hold ?? 0n;
  };

  it("holds at the factors, also at those of a service tier that is cheaper than the standard one", async () => {
    const plain = await holdOf({});
    const bytes = (more: object) => BigInt(JSON.stringify(more).length - 1) * 1_000_000n;
    for (const [more, thousandths] of [
      [{ speed: "fast" }, 3000n],
      [{ inference_geo: "us" }, 1100n],
      [{ speed: "fast", inference_geo: "us" }, 3300n],
      [{ service_tier: "batch", inference_geo: "us" }, 1100n],
      [{ service_tier: "flex", inference_geo: "us" }, 1100n],
      [{ service_tier: "auto", speed: "fast" }, 3000n],
      [{ speed: "standard", inference_geo: "global" }, 1000n],
    ] as const)
      expect(await holdOf(more), JSON.stringify(more)).toBe(((plain + bytes(more)) * thousandths) / 1000n);
  });

  it.each([
    ["speed", "quick", { speed: "turbo" }],
    ["speed", "plain", { speed: "fast" }],
    ["inference_geo", "quick", { inference_geo: "eu" }],
    ["inference_geo", "plain", { inference_geo: "us" }],
  ])("refuses %s by name if %s has no rates for it: %j", async (param, model, more) => {
    const { answer: refused } = await exchange(chat, { model, messages, ...more }, chatAnswer({}), budgeted);
    const { error } = JSON.parse(refused.body.toString());
    expect([refused.status, error.param]).toEqual([400, param]);
    expect(error.message).toBe(
      `'${param}' can cost more than Farebox can bound for ${model}, so a key under a hard budget cannot use it: its price has no rates for this value.`,
    );
  });
});
