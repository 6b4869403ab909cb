import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { formatUsd } from "../../src/core/money.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { temporaryFolder } from "../support/farebox-process.ts";
import { fastClock } from "../support/fast-clock.ts";
import { captureLog, type CapturedLog } from "../support/captured-log.ts";
import { changePricesUnderLoad, expectChargesOfTheirVersions, openChangingPrices } from "../support/price-changes.ts";
import { oneModelFile, replaceFile } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usageChunk,
  type OpenRequest,
  type ScriptedGateway,
} from "../support/scripted-gateway.ts";

/** Prices in USD per million tokens; the scripted usage is 9 tokens in and 3 out. */
const cheap = { from: "2026-01-01", input: "1", output: "4" };
const expensive = { from: "2026-01-01", input: "10", output: "40" };
const [cheapCost, expensiveCost] = ["0.000021", "0.00021"];

interface Scene extends AsyncDisposable {
  readonly folder: string;
  readonly gateway: ScriptedGateway;
  readonly proxy: RunningProxy;
  readonly log: CapturedLog;
  edit(text: string): Promise<void>;
}

async function scene(text: string, clock?: Clock): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const { path } = owned.use(await temporaryFolder());
  await writeFile(join(path, "mine.yaml"), text);
  const gateway = owned.use(await scriptedGateway());
  const log = captureLog();
  const proxy = owned.use(
    await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: path }, log, clock: clock ?? fastClock(5) }),
  );
  const kept = owned.move();
  return {
    folder: path,
    gateway,
    proxy,
    log,
    edit: (changed) => replaceFile(path, "mine.yaml", changed),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Begins a stream and waits for the client's first chunk. */
async function beginStream({ proxy, gateway }: Scene): Promise<{ received: OpenRequest; answer: Response }> {
  const answer = proxy.chat({ model: "mine", stream: true, max_tokens: 50 });
  const received = await gateway.nextChat();
  received.response.writeHead(200, { "content-type": "text/event-stream" });
  received.response.write(delta("first words", { model: "mine" }));
  return { received, answer: await answer };
}

async function endStream({ received, answer }: { received: OpenRequest; answer: Response }): Promise<void> {
  received.response.end(finish({ model: "mine" }) + usageChunk({ model: "mine" }) + done);
  await answer.text();
}

async function wholeStream(of: Scene): Promise<void> {
  await endStream(await beginStream(of));
}

const costs = async ({ proxy }: Scene) =>
  (await proxy.charges()).map(({ cost }) => (cost === null ? null : formatUsd(cost)));
const digest = async ({ proxy }: Scene) => {
  const answer = await fetch(`${proxy.url}/readyz`);
  return { status: answer.status, digest: ((await answer.json()) as { catalogue: string }).catalogue };
};
const metric = async ({ proxy }: Scene, name: string) =>
  (await proxy.metrics())
    .split("\n")
    .find((line) => line.startsWith(`${name} `))
    ?.split(" ")
    .at(-1);

const inForce = "new prices are in force";
const refused = "a price file is refused; the previous prices stay in force";

describe("a stream is charged at the prices of its admission", () => {
  it("if the price file changes while it runs", async () => {
    await using here = await scene(oneModelFile("mine", [cheap]));
    const before = await digest(here);
    const running = await beginStream(here);
    await here.edit(oneModelFile("mine", [expensive]));
    const [line] = await here.log.logged(inForce);
    const after = await digest(here);
    expect(after).toMatchObject({ status: 200 });
    expect(after.digest).not.toBe(before.digest);
    expect(line).toMatchObject({ level: "info", fields: { before: before.digest, digest: after.digest } });

    await endStream(running);
    await wholeStream(here);
    expect(await costs(here)).toEqual([cheapCost, expensiveCost]);
    expect(await here.proxy.serving.ledger.verify()).toMatchObject({ charges: 2, differences: [] });
    expect(await metric(here, 'farebox_price_reloads_total{result="ok"}')).toBe("1");
  });

  it("if new prices take effect at midnight while it runs", async () => {
    let now = Date.parse("2026-12-31T23:59:59.999Z");
    await using here = await scene(oneModelFile("mine", [cheap, { ...expensive, from: "2027-01-01" }]), {
      ...systemClock(),
      now: () => now,
    });
    const running = await beginStream(here);
    now += 1;
    await wholeStream(here);
    await endStream(running);
    expect(await costs(here)).toEqual([cheapCost, expensiveCost]);
    expect((await here.proxy.charges()).map(({ at }) => at)).toEqual([now - 1, now]);
  });

  it("if its model is removed while it runs, and the next request has no price", async () => {
    await using here = await scene(oneModelFile("mine", [cheap]));
    const running = await beginStream(here);
    await here.edit(oneModelFile("another", [expensive]));
    await here.log.logged(inForce);
    await endStream(running);
    await wholeStream(here);
    expect(await costs(here)).toEqual([cheapCost, null]);
  });
});

describe("a faulty price file", () => {
  it("is refused with a log line for each fault and a metric, and the previous prices stay in force", async () => {
    await using here = await scene(oneModelFile("mine", [cheap]));
    const before = await digest(here);
    expect(await metric(here, 'farebox_price_reloads_total{result="ok"}')).toBe("0");
    expect(await metric(here, 'farebox_price_reloads_total{result="refused"}')).toBe("0");
    expect(await metric(here, "farebox_price_last_reload_successful")).toBe("1");

    await here.edit(oneModelFile("mine", [{ ...cheap, input: "1.1234567" }]).replace("reasoning:", "reasonin:"));
    const lines = await here.log.logged(refused, 2);
    expect(lines[0]).toMatchObject({
      level: "warn",
      fields: {
        file: join(here.folder, "mine.yaml"),
        line: 7,
        fault: expect.stringContaining('did you mean "reasoning"?'),
      },
    });
    expect(lines[1]).toMatchObject({ fields: { fault: expect.stringContaining("six decimals") } });
    expect(await digest(here)).toEqual(before);
    expect(await metric(here, 'farebox_price_reloads_total{result="refused"}')).toBe("1");
    expect(await metric(here, "farebox_price_last_reload_successful")).toBe("0");
    await wholeStream(here);
    expect(await costs(here)).toEqual([cheapCost]);

    await here.edit(oneModelFile("mine", [expensive]));
    await here.log.logged(inForce);
    expect(await metric(here, "farebox_price_last_reload_successful")).toBe("1");
    await wholeStream(here);
    expect(await costs(here)).toEqual([cheapCost, expensiveCost]);
  });
});

it("requests, streams and tasks in flight keep the prices of their admission through valid, faulty and half-written price changes", async () => {
  await using folder = await temporaryFolder();
  await using prices = await openChangingPrices(folder.path);
  await using proxy = await startProxy({
    gatewayUrl: prices.gateway.url,
    env: { FAREBOX_PRICING: folder.path },
    clock: fastClock(5),
  });
  await proxy.budget("key:alice", "1000");
  await changePricesUnderLoad(prices, { url: proxy.url, key: proxy.key, folder: folder.path });
  await proxy.charges();
  expectChargesOfTheirVersions(proxy.database);
  expect(await proxy.serving.ledger.verify()).toMatchObject({ differences: [] });
});
