import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd } from "../../../src/core/money.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import {
  fetchFromSandbox,
  begin,
  chunksIn,
  completionIn,
  hello,
  helloStream,
  textOf,
} from "../../support/sandbox-client.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ startingBalanceUsd: "100000" });
});
afterAll(() => sandbox.close());

/** Sends a request; returns its bill. */
async function billFor(body: object, scenario: string, on = sandbox) {
  await fetchFromSandbox(on, body, { scenario });
  const call = on.ledger.at(-1);
  if (call === undefined) throw new Error("nothing was billed");
  return { ...call, usd: formatUsd(call.cost) };
}

describe("the sandbox's prices", () => {
  it.each([
    ["claude-opus-4-6", "22.50"],
    ["claude-sonnet-4-6", "13.50"],
    ["gemini-2.5-flash", "0.70"],
    ["gpt-4o", "6.25"],
    ["gpt-4o-2024-11-20", "6.25"],
    ["gpt-5", "5.625"],
    ["gpt-5.2", "7.875"],
    ["gpt-4o-mini", "0.5625"],
    ["gpt-4.1", "7.50"],
    ["gpt-4.1-mini", "1.50"],
    ["gpt-4.1-nano", "0.375"],
    ["no-such-model", "10.00"],
  ])("charge for 1M input and 1M output tokens of %s USD %s", async (model, usd) => {
    const scenario = "prompt:1000000+reasoning:999999+tokens:1";
    expect(await billFor({ ...hello, model }, scenario)).toMatchObject({ completionTokens: 1_000_000, usd });
  });

  it("can be configured, with cached input and a minimum", async () => {
    await using own = await startSandbox({
      prices: {
        "gpt-4o": { input: "2", cachedInput: "0.5", output: "8" },
        small: { input: "1", output: "1", minimumUsd: "0" },
      },
      minimum: { tokens: 100, usd: "0.005" },
    });
    expect(await billFor(hello, "prompt:1000000+cached:400000+tokens:1", own)).toMatchObject({
      usd: "1.400008",
      minimumApplied: false,
    });
    expect(await billFor(hello, "prompt:10+tokens:10", own)).toMatchObject({ usd: "0.005", minimumApplied: true });
    expect(await billFor({ ...hello, model: "small" }, "prompt:10+tokens:10", own)).toMatchObject({
      usd: "0.0001",
      minimumApplied: true,
    });
  });
});

describe("the sandbox's balance", () => {
  it("falls by exactly the billed cost, and rises by top-ups", async () => {
    await using own = await startSandbox({ startingBalanceUsd: "1.00" });
    await fetchFromSandbox(own, hello, { scenario: "prompt:1000+tokens:10" });
    expect(own.balanceUsd()).toBe("0.9987");
    expect(formatUsd(own.billed.cost)).toBe("0.0013");
    own.topUp("2");
    expect(own.balanceUsd()).toBe("2.9987");
  });
});

describe("the sandbox's bill", () => {
  it("equals the reported usage, plain or streamed, and exceeds it in the overbill scenario", async () => {
    const plain = await fetchFromSandbox(sandbox, hello, { scenario: "reasoning:20+cached:5" });
    const { usage } = completionIn(plain);
    expect(sandbox.ledger.at(-1)).toMatchObject({
      requestId: plain.headers["x-request-id"],
      completionId: completionIn(plain).id,
      promptTokens: usage?.prompt_tokens,
      cachedTokens: 5,
      completionTokens: usage?.completion_tokens,
      deliveredTokens: null,
      abortedByClient: false,
    });
    const streamed = chunksIn(await fetchFromSandbox(sandbox, helloStream)).at(-1)?.usage;
    expect(sandbox.ledger.at(-1)).toMatchObject({
      stream: true,
      completionTokens: streamed?.completion_tokens,
      deliveredTokens: streamed?.completion_tokens,
    });
    expect(await billFor(hello, "tokens:30+overbill:7")).toMatchObject({ completionTokens: 37 });
  });

  it("does not include errors and free answers, except an error with the billed scenario", async () => {
    const before = sandbox.billed.calls;
    for (const scenario of ["status:429", "status:500", "html", "empty", "redirect-loop", "free"])
      await fetchFromSandbox(sandbox, hello, { scenario });
    await fetchFromSandbox(sandbox, { model: "gpt-4o" });
    expect(sandbox.billed.calls).toBe(before);
    expect(await billFor(hello, "status:500+billed+tokens:12")).toMatchObject({ completionTokens: 12 });
  });

  it("includes the whole plain answer of a client that left", async () => {
    await using own = await startSandbox();
    const request = begin(own, hello, { scenario: "latency:60000+tokens:40" });
    await own.waitFor(({ requests }) => requests[0]?.body.length !== 0 && requests.length === 1);
    request.destroy();
    await own.waitFor(({ ledger }) => ledger.length === 1);
    expect(own.ledger[0]).toMatchObject({ completionTokens: 40, deliveredTokens: null, abortedByClient: true });
    expect(own.requests[0]?.ended).toBe("clientLeft");
  });

  it("includes what was written of a stream before its client left", async () => {
    await using own = await startSandbox();
    const request = begin(own, helloStream, { scenario: "tokens:500+slow:2+reasoning:9" });
    const [response] = await once(request, "response");
    response.on("error", () => undefined).resume();
    await own.waitFor(({ requests }) => (requests[0]?.deltas ?? 0) >= 5);
    request.destroy();
    await own.waitFor(({ ledger, activeStreams }) => ledger.length === 1 && activeStreams === 0);
    const call = own.ledger[0];
    expect(call).toMatchObject({ abortedByClient: true, cutByGateway: false });
    expect(call?.deliveredTokens).toBe(own.requests[0]?.deltas);
    expect(call?.completionTokens).toBe((call?.deliveredTokens ?? 0) + 9);
    expect(call?.deliveredTokens).toBeLessThan(500);
  });

  it("does not include a stream whose client left before its headers", async () => {
    await using own = await startSandbox({ latencyMs: 60_000 });
    const request = begin(own, helloStream);
    await own.waitFor(({ requests }) => (requests[0]?.body.length ?? 0) > 0);
    request.destroy();
    await own.waitFor(({ requests }) => requests[0]?.ended === "clientLeft");
    expect(own.billed.calls).toBe(0);
  });

  it("includes what was delivered of a cut stream", async () => {
    const seen = await fetchFromSandbox(sandbox, helloStream, { scenario: "cut:6" });
    expect(seen.broken).not.toBeNull();
    expect(textOf(chunksIn(seen)).length).toBeGreaterThan(0);
    expect(sandbox.ledger.at(-1)).toMatchObject({ completionTokens: 6, cutByGateway: true, abortedByClient: false });
  });
});
