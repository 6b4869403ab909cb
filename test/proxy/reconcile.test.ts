import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd } from "../../src/core/money.ts";
import type { Reconciliation } from "../../src/core/reconciliation.ts";
import { runReconciliation } from "../../src/reporting/reconciliation.ts";
import type { SandboxOptions } from "../../src/sandbox/options.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { chatWith } from "../support/books.ts";
import { temporaryFolder } from "../support/farebox-process.ts";
import { openStore, utc } from "../support/ledger-fixtures.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../support/running-proxy.ts";

/** Ten millionths of a US dollar: the credits in which the sandbox states its counters. */
const credit = 100_000n;

const always = { since: 0, until: Number.MAX_SAFE_INTEGER };

/** Reconciles from the ledger's file, as a command next to the proxy does. */
async function compared(proxy: RunningProxy): Promise<Reconciliation> {
  await using store = await openStore({ path: proxy.database, calendar: utc, clock: systemClock(), access: "read" });
  const result = await runReconciliation(store, always);
  if (!result.ok) throw new Error(result.reason);
  return result.reconciliation;
}

/** Plain answers of 1,000 and 100 tokens, USD 0.00175 each: ten cost USD 0.0175. */
async function plain(proxy: RunningProxy, count = 10): Promise<void> {
  for (let index = 0; index < count; index++) await (await proxy.chat(chatWith("prompt:1000+tokens:100"))).text();
  await proxy.charges();
}

/** A stream that reports its usage. */
async function stream(proxy: RunningProxy, scenario: string, usage = true): Promise<void> {
  const more = { stream: true, ...(usage && { stream_options: { include_usage: true } }) };
  await (await proxy.chat(chatWith(scenario, more))).text();
  await proxy.charges();
}

/** A sample when all is settled. */
async function sample(proxy: RunningProxy): Promise<void> {
  await proxy.charges();
  expect(await proxy.serving.sampler.sample()).toBeDefined();
}

const named = ({ movements }: Reconciliation) =>
  Object.fromEntries(movements.map(({ kind, amount }) => [kind, formatUsd(amount)]));

describe("a gateway that bills correctly", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_STREAM_USAGE: "pass" } });
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  it("agrees to the last credit, plain and streamed, and the metric says so", async () => {
    expect(await proxy.metrics()).not.toMatch(/^farebox_reconciliation_difference_usd/m);
    await sample(proxy);
    await plain(proxy);
    await stream(proxy, "prompt:500+tokens:77+cached:3");
    await (await proxy.chat(chatWith("status:429"))).text();
    await sample(proxy);
    const found = await compared(proxy);
    expect(found).toMatchObject({ measure: "used_credits", requests: 11, agrees: true, movements: [], leftOut: [] });
    expect(found.ledger).toBe(proxy.sandbox.billed.cost);
    expect(found.difference).toBeGreaterThanOrEqual(-credit);
    expect(found.difference).toBeLessThanOrEqual(credit);
    expect(found.doubts.map(({ kind }) => kind)).toEqual(["rounding"]);
    const [, value] = /^farebox_reconciliation_difference_usd (\S+)$/m.exec(await proxy.metrics()) ?? [];
    expect(Math.abs(Number(value))).toBeLessThanOrEqual(1e-7);
    expect(await proxy.metrics()).toMatch(/^farebox_reconciliation_unexplained_usd 0$/m);
  });

  it("keeps no key and no secret in its samples", async () => {
    await using store = await openStore({ path: proxy.database, calendar: utc, clock: systemClock(), access: "read" });
    const kept = JSON.stringify(await store.samples.list(0, always.until), (_name, value: unknown) =>
      typeof value === "bigint" ? `${value}` : value,
    );
    expect(kept).toContain("used_credits");
    expect(kept).not.toMatch(/sk-|secret|hook|key/i);
  });

  it("names a top-up, an expiry, frozen credits and use by others, and takes none of them for a difference", async () => {
    const { sandbox } = proxy;
    sandbox.topUp("20");
    await plain(proxy, 2);
    await sample(proxy);
    sandbox.expire("1.50");
    sandbox.freeze("0.75");
    await plain(proxy, 2);
    await sample(proxy);
    sandbox.unfreeze("0.25");
    await sample(proxy);
    sandbox.useByOthers("3");
    await sample(proxy);
    const found = await compared(proxy);
    expect(named(found)).toEqual({ use_by_others: "3.00", top_up: "20.00", expired: "1.50", frozen: "0.50" });
    expect(found).toMatchObject({ agrees: true, leftOut: [] });
    expect(found.difference).toBeLessThanOrEqual(2n * credit);
  });

  it("treats a running stream as a doubt, and a counted charge too", async () => {
    const open = await proxy.chat(
      chatWith("tokens:400+slow:2", { stream: true, stream_options: { include_usage: true } }),
    );
    const reader = open.body?.getReader();
    await reader?.read();
    expect(await proxy.serving.sampler.sample()).toBeDefined();
    const pending = await compared(proxy);
    expect(pending.agrees).toBe(true);
    while ((await reader?.read())?.done === false);
    await stream(proxy, "tokens:50", false);
    await sample(proxy);
    const counted = await compared(proxy);
    expect(counted.doubts.map(({ kind }) => kind)).toEqual(["counted", "rounding"]);
    expect(counted.agrees).toBe(true);
  });
});

it("begins and ends in the middle of streams, and the doubt is their possible cost", async () => {
  await using proxy = await startProxy();
  const begin = async () => {
    const reader = (
      await proxy.chat(chatWith("tokens:300+slow:3", { stream: true, stream_options: { include_usage: true } }))
    ).body?.getReader();
    await reader?.read();
    return async () => {
      while ((await reader?.read())?.done === false);
    };
  };
  const endFirst = await begin();
  await proxy.serving.sampler.sample();
  await endFirst();
  await plain(proxy, 3);
  const endLast = await begin();
  await proxy.serving.sampler.sample();
  const found = await compared(proxy);
  expect(found.doubts.map(({ kind }) => kind)).toEqual(["pending", "rounding"]);
  expect(found.doubts[0]?.above).toBeGreaterThan(0n);
  expect(found).toMatchObject({ requests: 4, agrees: true });
  await endLast();
});

describe("an error of 1% in the gateway's bill", () => {
  const cases: readonly {
    readonly error: NonNullable<SandboxOptions["billingErrors"]>[number];
    readonly sandbox?: SandboxOptions;
    readonly minimum?: string;
    readonly traffic: (proxy: RunningProxy) => Promise<void>;
    readonly percent: number;
  }[] = [
    { error: "wrong-fraction", traffic: (proxy) => plain(proxy), percent: 1 },
    {
      // Ten at USD 0.00175, and one of 10 and 1 tokens, USD 0.0000175, for which the minimum is ten times that.
      error: "no-minimum",
      minimum: "0.0001925",
      percent: -1,
      async traffic(proxy) {
        await plain(proxy);
        await (await proxy.chat(chatWith("prompt:10+tokens:1"))).text();
      },
    },
    {
      error: "uncounted-streams",
      percent: -1,
      async traffic(proxy) {
        await plain(proxy, 9);
        await stream(proxy, "prompt:100+tokens:3");
      },
    },
    // USD 0.00098 each becomes 0.001.
    {
      error: "rounded-up",
      percent: 2,
      traffic: async (proxy) => void (await (await proxy.chat(chatWith("prompt:704+tokens:20"))).text()),
    },
  ];

  it.each(cases)("$error is found, with its sign and size", async ({ error, minimum, traffic, percent }) => {
    await using folder = await temporaryFolder();
    if (minimum !== undefined) await writeFile(join(folder.path, "minimum.yaml"), withMinimum(minimum));
    const options: ProxyOptions = {
      sandbox: { billingErrors: [error], minimum: { usd: minimum ?? "0" } },
      env: minimum === undefined ? {} : { FAREBOX_PRICING: folder.path },
    };
    await using proxy = await startProxy(options);
    await sample(proxy);
    await traffic(proxy);
    await sample(proxy);
    const found = await compared(proxy);
    const wrong = Number((found.difference * 10_000n) / found.ledger) / 100;
    expect(found.agrees).toBe(false);
    expect(wrong).toBeGreaterThan(percent - 0.2);
    expect(wrong).toBeLessThan(percent + 0.2);
    const [, unexplained] = /^farebox_reconciliation_unexplained_usd (\S+)$/m.exec(await proxy.metrics()) ?? [];
    expect(Number(unexplained)).toBeGreaterThan(0);
  });

  function withMinimum(amount: string): string {
    return `provider: openai
models:
  gpt-4o:
    group: large-general
    tokenizer: o200k_base
    context_tokens: 128000
    max_output_tokens: 16384
    prices:
      - from: 2024-10-02
        source: "test"
        official: { input: "2.50", cached_input: "1.25", output: "10.00" }
        minimum: { usd: "${amount}" }
`;
  }
});

it("says that credits without a balance in USD cannot be compared", async () => {
  await using proxy = await startProxy({ sandbox: { equivalentInUsd: "absent" } });
  await sample(proxy);
  await plain(proxy, 1);
  await sample(proxy);
  await expect(compared(proxy)).rejects.toThrow("no_measure");
});
