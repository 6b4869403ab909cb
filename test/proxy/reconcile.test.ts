import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd } from "../../src/core/money.ts";
import type { Reconciliation } from "../../src/core/reconciliation.ts";
import { runReconciliation } from "../../src/reporting/reconciliation.ts";
import type { SandboxOptions } from "../../src/sandbox/options.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { chatWith } from "../support/new-charges.ts";
import { temporaryFolder } from "../support/farebox-process.ts";
import { openStore, utc } from "../support/ledger-fixtures.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../support/running-proxy.ts";
import { startSandbox } from "../../src/sandbox/server.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "../support/answering-gateway.ts";
import { until } from "../support/until.ts";

/** Value of one sandbox credit in pico-USD: a ten-millionth of a US dollar. */
const credit = 100_000n;

const always = { since: 0, until: Number.MAX_SAFE_INTEGER };

/** Reconciles from the ledger file, as a command next to the proxy does. */
async function reconcile(proxy: RunningProxy): Promise<Reconciliation> {
  await using store = await openStore({ path: proxy.database, calendar: utc, clock: systemClock(), access: "read" });
  const result = await runReconciliation(store, always);
  if (!result.ok) throw new Error(result.reason);
  return result.reconciliation;
}

/** Sends plain requests of 1,000 prompt and 100 output tokens that cost USD 0.00175 each. */
async function sendPlain(proxy: RunningProxy, count = 10): Promise<void> {
  for (let index = 0; index < count; index++) await (await proxy.chat(chatWith("prompt:1000+tokens:100"))).text();
  await proxy.charges();
}

/** Sends a stream that reports its usage unless stated otherwise. */
async function sendStream(proxy: RunningProxy, scenario: string, usage = true): Promise<void> {
  const more = { stream: true, ...(usage && { stream_options: { include_usage: true } }) };
  await (await proxy.chat(chatWith(scenario, more))).text();
  await proxy.charges();
}

/** Samples the account after all requests have settled. */
async function sample(proxy: RunningProxy): Promise<void> {
  await proxy.charges();
  expect(await proxy.serving.sampler.sample()).toBeDefined();
}

const movementsByKind = ({ movements }: Reconciliation) =>
  Object.fromEntries(movements.map(({ kind, amount }) => [kind, formatUsd(amount)]));

describe("reconciliation with a gateway that bills correctly", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_STREAM_USAGE: "pass" } });
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  it("agrees within one credit for plain and streamed requests, also in the metric", async () => {
    expect(await proxy.metrics()).not.toMatch(/^farebox_reconciliation_difference_usd/m);
    await sample(proxy);
    await sendPlain(proxy);
    await sendStream(proxy, "prompt:500+tokens:77+cached:3");
    await (await proxy.chat(chatWith("status:429"))).text();
    await sample(proxy);
    const found = await reconcile(proxy);
    expect(found).toMatchObject({ measure: "used_credits", requests: 11, agrees: true, movements: [], leftOut: [] });
    expect(found.ledger).toBe(proxy.sandbox.billed.cost);
    expect(found.difference).toBeGreaterThanOrEqual(-credit);
    expect(found.difference).toBeLessThanOrEqual(credit);
    expect(found.uncertainties.map(({ kind }) => kind)).toEqual(["rounding"]);
    const [, value] = /^farebox_reconciliation_difference_usd (\S+)$/m.exec(await proxy.metrics()) ?? [];
    expect(Math.abs(Number(value))).toBeLessThanOrEqual(1e-7);
    expect(await proxy.metrics()).toMatch(/^farebox_reconciliation_unexplained_usd 0$/m);
  });

  it("stores no key and no secret in its samples", async () => {
    await using store = await openStore({ path: proxy.database, calendar: utc, clock: systemClock(), access: "read" });
    const kept = JSON.stringify(await store.samples.list(0, always.until), (_name, value: unknown) =>
      typeof value === "bigint" ? `${value}` : value,
    );
    expect(kept).toContain("used_credits");
    expect(kept).not.toMatch(/sk-|secret|hook|key/i);
  });

  it("names top-ups, expired and frozen credits, and use by others, and does not count them as differences", async () => {
    const { sandbox } = proxy;
    sandbox.topUp("20");
    await sendPlain(proxy, 2);
    await sample(proxy);
    sandbox.expire("1.50");
    sandbox.freeze("0.75");
    await sendPlain(proxy, 2);
    await sample(proxy);
    sandbox.unfreeze("0.25");
    await sample(proxy);
    sandbox.useByOthers("3");
    await sample(proxy);
    const found = await reconcile(proxy);
    expect(movementsByKind(found)).toEqual({ use_by_others: "3.00", top_up: "20.00", expired: "1.50", frozen: "0.50" });
    expect(found).toMatchObject({ agrees: true, leftOut: [] });
    expect(found.difference).toBeLessThanOrEqual(2n * credit);
  });

  it("treats running streams and counted charges as doubts", async () => {
    const open = await proxy.chat(
      chatWith("tokens:400+slow:2", { stream: true, stream_options: { include_usage: true } }),
    );
    const reader = open.body?.getReader();
    await reader?.read();
    expect(await proxy.serving.sampler.sample()).toBeDefined();
    const pending = await reconcile(proxy);
    expect(pending.agrees).toBe(true);
    while ((await reader?.read())?.done === false);
    await sendStream(proxy, "tokens:50", false);
    await sample(proxy);
    const counted = await reconcile(proxy);
    expect(counted.uncertainties.map(({ kind }) => kind)).toEqual(["counted", "rounding"]);
    expect(counted.agrees).toBe(true);
  });
});

it("a reconciliation that starts and ends in the middle of streams has their possible cost as its doubt", async () => {
  await using sandbox = await startSandbox();
  const waiting: (() => void)[] = [];
  const forwarded = async ({ method, path, headers, body }: ReceivedRequest): Promise<Answering> => {
    // The gateway bills a stream at its end, so its middle looks like its beginning.
    if (body.includes('"stream":true')) await new Promise<void>((resolve) => waiting.push(resolve));
    const sent = Object.entries(headers).filter(([name]) => /^(authorization|x-api-key|content-type)$/.test(name));
    const init = {
      method,
      headers: sent as [string, string][],
      ...(method === "POST" && { body: new Uint8Array(body) }),
    };
    const answer = await fetch(sandbox.url + path, init);
    const type = answer.headers.get("content-type") ?? "";
    return { status: answer.status, headers: { "content-type": type }, body: Buffer.from(await answer.arrayBuffer()) };
  };
  const accountOf = {
    method: "GET",
    path: "/account/info",
    headers: { "x-api-key": sandbox.apiKey },
    body: Buffer.alloc(0),
  };
  await using gateway = await answeringGateway(forwarded, () => forwarded(accountOf));
  await using proxy = await startProxy({ gatewayUrl: gateway.url });
  const begin = async () => {
    const running = proxy.chat(chatWith("tokens:300", { stream: true, stream_options: { include_usage: true } }));
    await until(() => waiting.length === 1, "the gateway has the stream");
    return async () => {
      waiting.shift()?.();
      await (await running).text();
    };
  };
  const endFirst = await begin();
  await proxy.serving.sampler.sample();
  await endFirst();
  await sendPlain(proxy, 3);
  const endLast = await begin();
  await proxy.serving.sampler.sample();
  const found = await reconcile(proxy);
  expect(found.uncertainties.map(({ kind }) => kind)).toEqual(["pending", "rounding"]);
  expect(found.uncertainties[0]?.above).toBeGreaterThan(0n);
  expect(found).toMatchObject({ requests: 4, agrees: true });
  await endLast();
});

describe("reconciliation with a gateway that bills incorrectly", () => {
  const cases: readonly {
    readonly error: NonNullable<SandboxOptions["billingErrors"]>[number];
    readonly sandbox?: SandboxOptions;
    readonly minimum?: string;
    readonly traffic: (proxy: RunningProxy) => Promise<void>;
    readonly percent: number;
  }[] = [
    { error: "wrong-fraction", traffic: (proxy) => sendPlain(proxy), percent: 1 },
    {
      // Ten at USD 0.00175, and one of 10 and 1 tokens at USD 0.0000175, whose minimum is ten times that amount.
      error: "no-minimum",
      minimum: "0.0001925",
      percent: -1,
      async traffic(proxy) {
        await sendPlain(proxy);
        await (await proxy.chat(chatWith("prompt:10+tokens:1"))).text();
      },
    },
    {
      error: "uncounted-streams",
      percent: -1,
      async traffic(proxy) {
        await sendPlain(proxy, 9);
        await sendStream(proxy, "prompt:100+tokens:3");
      },
    },
    // Each cost of USD 0.00098 is rounded up to 0.001.
    {
      error: "rounded-up",
      percent: 2,
      traffic: async (proxy) => void (await (await proxy.chat(chatWith("prompt:704+tokens:20"))).text()),
    },
  ];

  it.each(cases)(
    "finds the billing error $error with its sign and size",
    async ({ error, minimum, traffic, percent }) => {
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
      const found = await reconcile(proxy);
      const wrong = Number((found.difference * 10_000n) / found.ledger) / 100;
      expect(found.agrees).toBe(false);
      expect(wrong).toBeGreaterThan(percent - 0.2);
      expect(wrong).toBeLessThan(percent + 0.2);
      const [, unexplained] = /^farebox_reconciliation_unexplained_usd (\S+)$/m.exec(await proxy.metrics()) ?? [];
      expect(Number(unexplained)).toBeGreaterThan(0);
    },
  );

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

it("reconciliation reports that credits without a balance in USD cannot be compared", async () => {
  await using proxy = await startProxy({ sandbox: { equivalentInUsd: "absent" } });
  await sample(proxy);
  await sendPlain(proxy, 1);
  await sample(proxy);
  await expect(reconcile(proxy)).rejects.toThrow("no_measure");
});
