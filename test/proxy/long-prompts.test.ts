import { describe, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../src/core/money.ts";
import { errorOf } from "../support/answers.ts";
import { answeringGateway } from "../support/answering-gateway.ts";
import { captureLog } from "../support/captured-log.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

/*
 * Tests of prompts to a model whose tokenizer is not published: their words are counted if the budget does not cover the
 * prompt's bytes, and a prompt that turns out to be longer returns its key and model to bytes for a day.
 */

const model = "claude-sonnet-4-6";
const prose = "The proxy holds the largest possible cost of a request before it sends the first byte. ".repeat(200);
const body = { model, max_tokens: 1, messages: [{ role: "user", content: prose }] };
const longPrompt =
  "a prompt had more tokens than the bound by words; prompts of this key to this model are held by their bytes for a day";

/** Starts a gateway that reports the stated number of prompt tokens. */
function gatewayWith(reported: { tokens: number }) {
  return answeringGateway(() => ({
    body: JSON.stringify({
      id: "a",
      object: "chat.completion",
      model,
      choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
      usage: { prompt_tokens: reported.tokens, completion_tokens: 1, total_tokens: reported.tokens + 1 },
    }),
  }));
}

async function latestHold(proxy: RunningProxy): Promise<bigint> {
  return (await proxy.charges()).at(-1)?.hold ?? 0n;
}

describe("a prompt of words to a model without a published tokenizer", () => {
  it("is held by its words if its bytes do not fit, until the gateway reports more tokens than that", async () => {
    const reported = { tokens: 4_000 };
    const log = captureLog();
    await using gateway = await gatewayWith(reported);
    await using proxy = await startProxy({ gatewayUrl: gateway.url, log });
    await (await proxy.chat(body)).text();
    const byBytes = await latestHold(proxy);
    const [bob, carol] = [await proxy.addKey("bob"), await proxy.addKey("carol")];
    const limit = formatUsd(((byBytes * 9n) / 10n) as PicoUsd);
    for (const name of ["bob", "carol"]) await proxy.budget(`key:${name}`, limit, "1d");

    expect((await proxy.chat(body, { key: bob })).status).toBe(200);
    const byWords = await latestHold(proxy);
    expect(Number((byWords * 100n) / byBytes)).toBeLessThan(45);
    expect((await proxy.charges()).at(-1)).toMatchObject({ source: "reported", overage: 0n });

    reported.tokens = 12_000;
    expect((await proxy.chat(body, { key: carol })).status).toBe(200);
    expect((await proxy.charges()).at(-1)?.overage).toBeGreaterThan(0n);
    const [warning] = await log.logged(longPrompt);
    expect(warning?.fields).toMatchObject({ model, reported_tokens: 12_000 });

    const again = await proxy.chat(body, { key: carol });
    expect([again.status, (await errorOf(again)).code], "only its bytes bound it now").toEqual([
      402,
      "budget_exceeded",
    ]);
    expect((await proxy.chat(body, { key: bob })).status, "another key").toBe(200);
  });

  it("is not refused as longer than a limit of tokens that only its bound by words exceeds", async () => {
    await using gateway = await gatewayWith({ tokens: 3_300 });
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    // The words have about 3,200 tokens, and at most half as many more at another tokenizer.
    const key = await proxy.addKey("bob", { limits: { tpm: 3_500 } });
    expect((await proxy.chat(body, { key })).status).toBe(200);
    const next = await proxy.chat(body, { key });
    expect([next.status, next.headers.get("x-should-retry")], "it fits again after a minute").toEqual([429, null]);
  });
});
