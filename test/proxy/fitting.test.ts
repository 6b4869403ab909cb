import { describe, expect, it } from "vitest";
import { formatUsd, parseUsd, type PicoUsd } from "../../src/core/money.ts";
import { errorOf } from "../support/answers.ts";
import { answeringGateway, type AnsweringGateway, type ReceivedRequest } from "../support/answering-gateway.ts";
import { startPausedRelay } from "../support/paused-relay.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { patientClock } from "../support/patient-clock.ts";

/*
 * Tests of requests without a maximum under hard budgets that cannot pay for the model's whole maximum: a smaller maximum
 * is fitted to the budget and written into the request.
 */

const text = (amount: bigint) => formatUsd(amount as PicoUsd);
const usd = (amount: string) => parseUsd(amount) as bigint;
/** Output price of gpt-4o: USD 5 per million tokens. */
const perToken = usd("0.000005");

function chatAnswer(outputTokens: number): string {
  return JSON.stringify({
    id: "a",
    object: "chat.completion",
    model: "gpt-4o",
    choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 8, completion_tokens: outputTokens, total_tokens: outputTokens + 8 },
  });
}

/** Starts a gateway whose answers all have 100 tokens. */
async function hundredEach(): Promise<AnsweringGateway> {
  return answeringGateway(() => ({ body: chatAnswer(100) }));
}

const bodyOf = ({ body }: ReceivedRequest) => JSON.parse(body.toString()) as Record<string, unknown>;

/** Returns the hold of a request for 100 tokens. */
async function holdOfHundred(proxy: RunningProxy): Promise<bigint> {
  await (await proxy.chat({ max_tokens: 100 })).text();
  return (await proxy.charges()).at(-1)?.hold ?? 0n;
}

const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];

describe("a budget for 37 requests of 100 tokens", () => {
  it("pays for at least 25 of 100 parallel requests that state no maximum and retry after a 429", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const limit = (await holdOfHundred(proxy)) * 37n;
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:bob", text(limit), "1d");
    const waiters = new Set<() => void>();
    /** Waits until another request ends, instead of for retry-after. */
    const nextEnd = () => new Promise<void>((resolve) => waiters.add(resolve));
    const sendUntilAnswered = async (): Promise<number> => {
      for (;;) {
        const next = nextEnd();
        const response = await proxy.chat({}, { key: bob });
        if (response.status === 429) {
          expect(response.headers.get("retry-after")).toBe("1");
          await response.text();
          await Promise.race([next, proxy.serving.settled()]);
          continue;
        }
        await response.text();
        await proxy.serving.settled();
        for (const resolve of waiters) resolve();
        waiters.clear();
        return response.status;
      }
    };
    const statuses = await Promise.all(Array.from({ length: 100 }, sendUntilAnswered));
    const answered = statuses.filter((status) => status === 200).length;
    expect(answered).toBeGreaterThanOrEqual(25);
    expect(new Set(statuses)).toEqual(new Set([200, 402]));
    const [window] = await proxy.serving.ledger.windows(Date.now());
    expect(window?.held).toBe(0n);
    expect((window?.spent ?? 0n) <= limit).toBe(true);
    const fitted = (await proxy.charges()).filter(({ key, basis }) => key !== "" && basis?.fitted != null);
    expect(fitted).toHaveLength(answered);
  });
});

describe("fitting", () => {
  it("writes a quarter of the tightest budget's remaining amount if that is more than a slice", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    await proxy.budget("all", text(perToken * 10_000n));
    await proxy.budget("key:alice", text(perToken * 12_000n), "1d");
    const response = await proxy.chat({});
    expect(response.status).toBe(200);
    const tokens = Number(response.headers.get("x-farebox-fitted"));
    // 2,500 tokens for output and prompt together; the prompt is bounded by its bytes.
    expect(tokens).toBeGreaterThan(2400);
    expect(tokens).toBeLessThan(2500);
    const sent = gateway.received.at(-1)?.body.toString() ?? "";
    expect(sent).toBe(`{"max_tokens":${tokens},"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`);
    const charge = await proxy.onlyCharge();
    expect(charge.basis).toEqual({ by: "fitted", outputTokens: tokens, outputCap: null, fitted: tokens });
    expect((charge.hold ?? 0n) <= (perToken * 10_000n) / 4n + perToken * 20n).toBe(true);

    await (await proxy.chat({})).text();
    const me = await fetch(`${proxy.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${proxy.key}` } });
    const last = (await proxy.charges()).at(-1);
    expect(await me.json()).toMatchObject({
      output_cap: null,
      fitted: { request_id: last?.id, model: "gpt-4o", max_output_tokens: last?.basis?.fitted },
    });
    const charges = await fetch(`${proxy.url}/v1/farebox/charges`, {
      headers: { authorization: `Bearer ${proxy.key}` },
    });
    expect(await charges.json()).toMatchObject({
      charges: [
        { fitted: last?.basis?.fitted, held_for: { by: "fitted" } },
        { fitted: tokens, output_cap: null },
      ],
    });
  });

  it("holds the cost of the body that is sent, with the written maximum for each choice", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:bob", text(perToken * 9000n));
    const response = await proxy.chat({ n: 3 }, { key: bob });
    expect(response.headers.get("x-farebox-fitted")).toBe("1024");
    const sent = bodyOf(gateway.received.at(-1) as ReceivedRequest);
    expect(sent["max_tokens"]).toBe(1024);
    await response.text();
    const fitted = (await proxy.charges()).at(-1);
    await (await proxy.chat({ ...sent })).text();
    const stated = (await proxy.charges()).at(-1);
    expect(fitted?.hold).toBe(stated?.hold);
    expect(stated?.basis).toMatchObject({ by: "max_tokens", outputTokens: 3072 });
  });

  it.each([
    ["tools", { tools }, true],
    ["functions", { functions: [{ name: "f" }] }, true],
    ["a JSON format", { response_format: { type: "json_object" } }, true],
    ["a format of text", { response_format: { type: "text" } }, false],
    ["no tools", { tools: [] }, false],
  ])(
    "writes at least FAREBOX_FIT_MIN only if the answer must be complete: a request with %s",
    async (_, more, isWhole) => {
      await using gateway = await hundredEach();
      await using proxy = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_FIT_MIN: "5000" } });
      await proxy.budget("all", text(perToken * 5500n));
      const response = await proxy.chat(more);
      expect([response.status, response.headers.get("x-farebox-fitted")]).toEqual([
        200,
        isWhole ? "5000" : expect.stringMatching(/^1[0-3]\d\d$/),
      ]);
      await response.text();
      await proxy.budget("all", text(perToken * 4500n));
      await proxy.serving.settled();
      expect((await proxy.chat(more)).status).toBe(isWhole ? 402 : 200);
    },
  );

  it("writes at least FAREBOX_FIT_MIN into the field of a reasoning model, plain and streamed", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url, clock: patientClock() });
    await proxy.budget("all", "0.06");
    for (const stream of [false, true]) {
      const response = await proxy.chat({ model: "gpt-5", stream });
      expect([response.status, response.headers.get("x-farebox-fitted")]).toEqual([200, "8192"]);
      await response.text();
      expect(bodyOf(gateway.received.at(-1) as ReceivedRequest)["max_completion_tokens"]).toBe(8192);
    }
  });

  it.each([
    ["a stated maximum", { max_tokens: 16_000 }],
    ["an invalid maximum", { max_tokens: 0 }],
    ["a thinking budget", { thinking: { type: "enabled", budget_tokens: 2000 } }],
    ["a prediction", { prediction: { type: "content", content: "a" } }],
    ["an unknown field", { unheard_of: 1 }],
  ])("does not change a request with %s", async (_, more) => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    await proxy.budget("all", text(perToken * 9000n));
    const response = await proxy.chat(more);
    expect([response.status, (await errorOf(response)).code]).toEqual([402, "budget_exceeded"]);
    expect(gateway.received).toEqual([]);
  });

  it("does not change a Responses request that states a reasoning maximum", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    await proxy.budget("all", text(perToken * 12_000n));
    const createResponse = (more: object) =>
      fetch(`${proxy.url}/v1/responses`, {
        method: "POST",
        headers: { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "gpt-4o", input: "hello", ...more }),
      });
    expect((await createResponse({ reasoning: { max_tokens: 100 } })).status).toBe(402);
    const fitted = await createResponse({});
    expect(fitted.headers.get("x-farebox-fitted")).not.toBeNull();
    expect(bodyOf(gateway.received.at(-1) as ReceivedRequest)["max_output_tokens"]).toBe(
      Number(fitted.headers.get("x-farebox-fitted")),
    );
  });

  it("is disabled with FAREBOX_FIT=off", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_FIT: "off" } });
    await proxy.budget("all", text(perToken * 9000n));
    expect((await proxy.chat({})).status).toBe(402);
  });

  it("does not change requests whose full output fits, nor streams with a growing hold", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url, clock: patientClock() });
    await proxy.budget("all", text(perToken * 20_000n));
    const whole = await proxy.chat({});
    expect([whole.status, whole.headers.get("x-farebox-fitted")]).toEqual([200, null]);
    await whole.text();
    await proxy.serving.settled();
    await proxy.budget("all", text(perToken * 9000n));
    const stream = await proxy.chat({ stream: true });
    expect([stream.status, stream.headers.get("x-farebox-fitted")]).toEqual([200, null]);
    await stream.text();
    const bases = (await proxy.charges()).map(({ basis }) => [basis?.by, basis?.outputTokens]);
    expect(bases).toEqual([
      ["model", 16_384],
      ["slice", 1024],
    ]);
  });

  it("never exceeds the output cap, which is written if it fits", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_OUTPUT_CAP: "4000" } });
    await proxy.budget("all", text(perToken * 6000n));
    const capped = await proxy.chat({});
    expect([capped.headers.get("x-farebox-output-cap"), capped.headers.get("x-farebox-fitted")]).toEqual([
      "4000",
      null,
    ]);
    await capped.text();
    await proxy.serving.settled();
    await proxy.budget("all", text(perToken * 3000n));
    const fitted = await proxy.chat({});
    expect([fitted.headers.get("x-farebox-output-cap"), fitted.headers.get("x-farebox-fitted")]).toEqual([
      null,
      "1024",
    ]);
    expect(bodyOf(gateway.received.at(-1) as ReceivedRequest)["max_tokens"]).toBe(1024);
  });

  it("repeats the written maximum for an idempotency key even after the budget changes", async () => {
    await using gateway = await hundredEach();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    await proxy.budget("all", text(perToken * 9000n));
    const headers = { "idempotency-key": "once" };
    const first = await proxy.chat({}, { headers });
    const fitted = first.headers.get("x-farebox-fitted");
    await first.text();
    await proxy.budget("all", "10.00");
    const second = await proxy.chat({}, { headers });
    expect([second.status, second.headers.get("x-farebox-fitted")]).toEqual([200, fitted]);
    await second.text();
    const [one, other] = gateway.received;
    expect(other?.body.equals(one?.body ?? Buffer.alloc(0))).toBe(true);
    const free = await proxy.chat({}, { headers: { "idempotency-key": "other" } });
    expect(free.headers.get("x-farebox-fitted")).toBeNull();
    await free.text();
    await proxy.serving.settled();
    // A request that was first sent without a maximum is not fitted later; that would be a different request.
    await proxy.budget("all", text(perToken * 9000n));
    expect((await proxy.chat({}, { headers: { "idempotency-key": "other" } })).status).toBe(402);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});

describe("a refusal for lack of room", () => {
  it("states a maximum that then fits", async () => {
    await using proxy = await startProxy();
    await proxy.budget("all", text(perToken * 900n));
    for (const [body, field] of [
      [{}, "max_tokens"],
      [{ max_tokens: 5000 }, "max_tokens"],
      [{ max_completion_tokens: 5000 }, "max_completion_tokens"],
      [{ n: 2 }, "max_tokens"],
    ] as const) {
      const refused = await proxy.chat(body);
      expect(refused.status).toBe(402);
      const { message, metadata } = await errorOf(refused);
      const tokens = metadata?.["affordable_output_tokens"];
      expect(message).toContain(`set ${field} to at most ${tokens}.`);
      expect(tokens).toBeGreaterThan("n" in body ? 400 : 800);
      const { max_tokens: _, ...rest } = { max_tokens: 0, ...body };
      const answer = await proxy.chat({ ...rest, [field]: tokens, messages: [{ role: "user", content: "hello" }] });
      expect([answer.status, field, tokens]).toEqual([200, field, tokens]);
      await answer.text();
      await proxy.serving.settled();
      await proxy.budget(
        "all",
        text(perToken * 900n + ((await proxy.serving.ledger.windows(Date.now()))[0]?.spent ?? 0n)),
      );
    }
  });

  it("counts a long prompt, so that the stated maximum fits and a slightly larger one does not", async () => {
    await using proxy = await startProxy();
    await proxy.budget("all", "0.05");
    const chatUpTo = (tokens: number) =>
      proxy.chat({ max_tokens: tokens, messages: [{ role: "user", content: " harbour".repeat(12_500) }] });
    const refused = await chatUpTo(16_000);
    expect(refused.status).toBe(402);
    const { metadata } = await errorOf(refused);
    // 100 kB are 12,500 tokens: USD 0.016. By its bytes, the prompt alone would cost USD 0.125.
    const tokens = Number(metadata?.["affordable_output_tokens"]);
    expect(tokens).toBeGreaterThan(6500);
    expect((await chatUpTo(tokens + 20)).status).toBe(402);
    const answer = await chatUpTo(tokens);
    expect(answer.status).toBe(200);
    await answer.text();
  });

  it("states what fits into a busy budget now, and nothing for unbounded output", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    await proxy.budget("all", text(perToken * 2000n));
    const running = proxy.chat({ max_tokens: 1500 });
    await relay.waitFor(1);
    const busy = await proxy.chat({ max_tokens: 1000 });
    expect(busy.status).toBe(429);
    const tokens = (await errorOf(busy)).metadata?.["affordable_output_tokens"];
    expect(tokens).toBeGreaterThan(400);
    expect(tokens).toBeLessThan(500);
    const hidden = await proxy.chat({ thinking: { type: "enabled" } });
    expect((await errorOf(hidden)).metadata).not.toHaveProperty("affordable_output_tokens");
    relay.open(proxy.sandbox.url);
    await (await running).text();
  });
});
