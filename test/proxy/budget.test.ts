import { describe, expect, it } from "vitest";
import { formatUsd, parseUsd, type PicoUsd } from "../../src/core/money.ts";
import { errorOf } from "../support/answers.ts";
import { size } from "../support/effort.ts";
import { startPausedRelay } from "../support/paused-relay.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { watchWindows, windowsOnDisk } from "../support/window-watch.ts";

const burst = size(500, 200);
const admitted = 37;

/** Sends a request of fixed size, identified at the gateway by `user` and in the ledger by its tag. */
function send(proxy: RunningProxy, number: number, key: string): Promise<Response> {
  const name = String(number).padStart(4, "0");
  return proxy.chat({ max_tokens: 100, user: name }, { key, headers: { "x-farebox-tag": `number=${name}` } });
}

/** Sends one such request and returns its hold, which depends on the length of the body. */
async function holdOfOne(): Promise<bigint> {
  await using proxy = await startProxy();
  await (await send(proxy, 0, proxy.key)).text();
  const { hold } = await proxy.onlyCharge();
  if (hold === null) throw new Error("the probe has no hold");
  return hold;
}

const text = (amount: bigint) => formatUsd(amount as PicoUsd);
const usd = (amount: string) => parseUsd(amount) as bigint;

const numbersAtGateway = (proxy: RunningProxy) =>
  proxy.sandbox.requests.map(({ body }) => String(JSON.parse(body.toString()).user)).toSorted();

describe(`a budget for 37 requests that receives ${burst} parallel ones`, () => {
  it("admits exactly 37 while none has settled, and answers 429 budget_held to the others", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    const limit = (await holdOfOne()) * BigInt(admitted);
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:bob", text(limit), "1d");
    await proxy.budget("all", text(limit + 1n), "1mo");
    await proxy.budget("each-key", text(limit * 2n), "1h");

    const watch = watchWindows(proxy);
    const answers = Array.from({ length: burst }, (_, number) => send(proxy, number, bob));
    const refused: Response[] = [];
    const allRefused = new Promise<void>((resolve) => {
      for (const answer of answers) {
        void answer.then((response) => {
          if (response.status === 429 && refused.push(response) === burst - admitted) resolve();
        });
      }
    });
    await Promise.all([allRefused, relay.waitFor(admitted)]);

    expect(relay.arrived).toBe(admitted);
    const windows = await proxy.serving.ledger.windows(Date.now());
    expect(windows.map(({ spent, held }) => `${spent} ${held}`)).toEqual(Array(3).fill(`0 ${limit}`));
    expect(windowsOnDisk(proxy.database).map(({ held }) => held)).toEqual(Array(3).fill(limit));

    await watch.checked();
    relay.open(proxy.sandbox.url);
    const responses = await Promise.all(answers);
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(admitted);
    expect(await watch.stop()).toEqual([]);

    const [sample] = refused;
    expect(sample?.headers.get("x-farebox-error")).toBe("budget_held");
    expect(sample?.headers.get("retry-after")).toBe("1");
    expect(sample?.headers.get("x-should-retry")).toBeNull();
    expect(sample && (await errorOf(sample))).toEqual({
      message: expect.stringContaining("held by running requests"),
      type: "rate_limit_error",
      param: null,
      code: "budget_held",
      metadata: {
        scope: "key:bob",
        subject: null,
        period: "1d",
        limit_usd: text(limit),
        spent_usd: "0.00",
        held_usd: text(limit),
        needed_usd: expect.stringMatching(/^0\.\d+$/),
        affordable_output_tokens: expect.any(Number),
        resets_at: expect.stringMatching(/T00:00:00\.000Z$/),
      },
    });
    await Promise.all(responses.map((response) => response.bodyUsed || response.text()));

    const charges = await proxy.charges();
    expect(charges.map(({ tags }) => tags["number"]).toSorted()).toEqual(numbersAtGateway(proxy));
    expect(charges.filter(({ state, source }) => state !== "posted" || source !== "reported")).toEqual([]);
    const cost = charges.reduce((sum, charge) => sum + (charge.cost ?? 0n), 0n);
    expect(cost).toBe(proxy.sandbox.billed.cost);
    for (const window of await proxy.serving.ledger.windows(Date.now()))
      expect(window).toMatchObject({ spent: cost, held: 0n });
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("keeps every limit while holds settle between admissions, then answers 402", async () => {
    await using proxy = await startProxy();
    const limit = (await holdOfOne()) * BigInt(admitted);
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:bob", text(limit), "1mo");
    await proxy.budget("all", text(limit * 2n), "1d");
    await proxy.budget("key:bob", text(1n), "1h", "soft");
    const watch = watchWindows(proxy);
    const responses = await Promise.all(Array.from({ length: burst }, (_, number) => send(proxy, number, bob)));
    const bodies = await Promise.all(
      responses.map(async (response) => ({ response, body: JSON.parse(await response.text()) })),
    );
    expect(await watch.stop()).toEqual([]);

    const paid = bodies.filter(({ response }) => response.status === 200);
    expect(paid.length).toBeGreaterThanOrEqual(admitted);
    for (const { response, body } of bodies) {
      if (response.status === 200) continue;
      const code = response.status === 402 ? "budget_exceeded" : "budget_held";
      expect([402, 429]).toContain(response.status);
      expect(body.error.code).toBe(code);
      expect(response.headers.get("x-farebox-error")).toBe(code);
      const { limit_usd, spent_usd, held_usd, needed_usd } = body.error.metadata;
      expect(usd(spent_usd) + usd(held_usd) + usd(needed_usd)).toBeGreaterThan(usd(limit_usd));
      const fitsAlone = usd(spent_usd) + usd(needed_usd) <= usd(limit_usd);
      expect(code).toBe(fitsAlone ? "budget_held" : "budget_exceeded");
    }
    const charges = await proxy.charges();
    expect(charges.map(({ tags }) => tags["number"]).toSorted()).toEqual(numbersAtGateway(proxy));
    expect(charges).toHaveLength(paid.length);

    // Once nothing fits after sequential requests, the budget is exhausted, not busy.
    let last = await send(proxy, 1000, bob);
    for (let number = 1001; last.status === 200; number++) {
      await last.text();
      await proxy.serving.settled();
      last = await send(proxy, number, bob);
    }
    expect(last.status).toBe(402);
    expect(last.headers.get("x-farebox-error")).toBe("budget_exceeded");
    expect(last.headers.get("x-should-retry")).toBe("false");
    expect(last.headers.get("retry-after")).toBeNull();
    expect(await errorOf(last)).toMatchObject({
      type: "insufficient_quota",
      param: null,
      code: "budget_exceeded",
      metadata: { scope: "key:bob", period: "1mo", limit_usd: text(limit), held_usd: "0.00" },
    });
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});

describe("a single request", () => {
  it("gets 402 if it can never fit, and 429 if it fits after running requests settle", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    await proxy.budget("key:alice", "0.001");
    const running = proxy.chat({ max_tokens: 100 });
    await relay.waitFor(1);
    const busy = await proxy.chat({ max_tokens: 100 });
    expect([busy.status, (await errorOf(busy)).code]).toEqual([429, "budget_held"]);
    const never = await proxy.chat({ max_tokens: 1000 });
    expect([never.status, (await errorOf(never)).code]).toEqual([402, "budget_exceeded"]);
    relay.open(proxy.sandbox.url);
    expect((await running).status).toBe(200);
    await (await running).text();
    await proxy.serving.settled();
    expect((await proxy.chat({ max_tokens: 100 })).status).toBe(200);
  });

  it("is refused by the exhausted budget rather than by one that is only busy", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    await proxy.budget("all", "0.001", "1d");
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:bob", "0.0001", "1mo");
    const running = proxy.chat({ max_tokens: 100 });
    await relay.waitFor(1);
    const refused = await proxy.chat({ max_tokens: 100 }, { key: bob });
    expect(refused.status).toBe(402);
    expect((await errorOf(refused)).metadata).toMatchObject({ scope: "key:bob", period: "1mo" });
    relay.open(proxy.sandbox.url);
    await (await running).text();
  });

  it("is counted with the tokenizer only if its byte count does not fit", async () => {
    await using proxy = await startProxy();
    const prompt = "wonderful ".repeat(2000);
    const body = { max_tokens: 10, messages: [{ role: "user", content: prompt }] };
    await (await proxy.chat(body)).text();
    const [loose] = await proxy.charges();
    const bob = await proxy.addKey("bob");
    const limit = (loose?.hold ?? 0n) / 2n;
    await proxy.budget("key:bob", text(limit));

    const response = await proxy.chat(body, { key: bob });
    expect(response.status).toBe(200);
    await response.text();
    const tight = (await proxy.charges()).at(-1);
    expect(tight?.hold).toBeLessThanOrEqual(limit);
    expect(tight?.cost).toBe(loose?.cost);
    expect(tight?.hold).toBeGreaterThanOrEqual(tight?.cost ?? 0n);
    // The tokenizer counts 2,000 words of one token each; the byte bound is 20,000.
    const perToken = usd("0.00000125");
    const outputs = usd("0.00005");
    expect(Number(((tight?.hold ?? 0n) - outputs) / perToken)).toBeLessThan(2200);
    expect(Number(((loose?.hold ?? 0n) - outputs) / perToken)).toBeGreaterThan(20_000);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("for an unpriced model is refused under a hard budget and otherwise recorded without an amount", async () => {
    await using proxy = await startProxy();
    await proxy.budget("all", "1.00", "1d", "soft");
    const recorded = await proxy.chat({ model: "unknown-model" });
    expect(recorded.status).toBe(200);
    expect(recorded.headers.get("x-farebox-cost-usd")).toBeNull();
    await recorded.text();
    expect(await proxy.onlyCharge()).toMatchObject({
      state: "posted",
      cost: null,
      listCost: null,
      hold: null,
      formula: "unpriced",
    });
    await proxy.budget("key:alice", "100");
    const refused = await proxy.chat({ model: "unknown-model" });
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({
      code: "model_not_priced",
      param: "model",
      type: "invalid_request_error",
    });
    expect(proxy.sandbox.requests).toHaveLength(1);
    expect(await proxy.charges()).toHaveLength(1);
  });

  it("for an unpriced model is always refused with FAREBOX_UNPRICED=refuse", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_UNPRICED: "refuse" } });
    const refused = await proxy.chat({ model: "unknown-model" });
    expect(refused.status).toBe(400);
    expect(refused.headers.get("x-farebox-error")).toBe("model_not_priced");
    expect((await errorOf(refused)).message).toContain("FAREBOX_UNPRICED");
    expect(proxy.sandbox.requests).toHaveLength(0);
    expect(await proxy.charges()).toHaveLength(0);
  });

  it("passes an exceeded soft budget, which records its cost", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "0.000001", "1d", "soft");
    for (let time = 0; time < 3; time++) {
      const response = await proxy.chat({ max_tokens: 50 });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-farebox-budget-remaining-usd")).toBeNull();
      await response.text();
    }
    await proxy.serving.settled();
    const [window] = await proxy.serving.ledger.windows(Date.now());
    expect(window).toMatchObject({ spent: proxy.sandbox.billed.cost, held: 0n });
    expect(window?.spent).toBeGreaterThan(window?.budget.limit ?? 0n);
  });

  it("with unbounded fields is refused under a hard budget and forwarded without one", async () => {
    await using proxy = await startProxy();
    const body = { max_tokens: 10, web_search_options: {} };
    await (await proxy.chat(body)).text();
    await proxy.budget("key:alice", "100");
    const refused = await proxy.chat(body);
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({ code: "invalid_request", param: "web_search_options" });
    expect(await proxy.charges()).toHaveLength(1);
  });
});
