import { expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { createBalanceGuard } from "../../src/request/account.ts";
import type { AccountLookup } from "../../src/request/account.ts";
import { answeringGateway } from "../support/answering-gateway.ts";
import { captureLog } from "../support/captured-log.ts";
import { manualClock } from "../support/manual-clock.ts";
import { startProxy } from "../support/running-proxy.ts";
import { until } from "../support/until.ts";
import { patientClock } from "../support/patient-clock.ts";

it("the balance guard forwards nothing below its floor, and forwards again after a top-up", async () => {
  await using proxy = await startProxy({
    sandbox: { startingBalanceUsd: "0.50" },
    clock: patientClock(),
    env: { FAREBOX_BALANCE_FLOOR: "1.00" },
    adjust: (settings) => ({ ...settings, balance: { ...settings.balance, ttlMs: 1 } }),
  });
  const refused = await proxy.chat({ max_tokens: 5 });
  expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([503, "balance_floor"]);
  proxy.sandbox.topUp("5.00");
  // The cached record answers once more while it is refreshed.
  await (await proxy.chat({ max_tokens: 5 })).text();
  await proxy.sandbox.waitFor((sandbox) => sandbox.accountRequests.length >= 2);
  await until(async () => (await proxy.chat({ max_tokens: 5 })).status === 200);
});

it("the balance guard forwards requests while the balance is unknown", async () => {
  await using proxy = await startProxy({
    sandbox: { equivalentInUsd: "absent" },
    env: { FAREBOX_BALANCE_FLOOR: "1.00" },
  });
  expect((await proxy.chat({ max_tokens: 5 })).status).toBe(200);
});

it("the balance guard waits at most two seconds for a missing record, then forwards until a record arrives", async () => {
  const clock = manualClock();
  const log = captureLog();
  const lookUps: ((found: AccountLookup) => void)[] = [];
  const account = { lookUp: () => new Promise<AccountLookup>((resolve) => lookUps.push(resolve)) };
  const answerAll = (balance: string) => {
    for (const resolve of lookUps.splice(0))
      resolve({
        ok: true,
        record: { body: { equivalent_in_usd: balance }, bytes: Buffer.alloc(0), fetchedAt: 0 },
        freshness: "miss",
      });
  };
  const guard = createBalanceGuard({ account, clock, floor: usd("1"), log });
  const first = guard();
  clock.advance(1_999);
  expect(clock.waiting).toBe(1);
  clock.advance(1);
  expect(await first).toBeNull();
  expect(await guard()).toBeNull();
  answerAll("0.5");
  const second = guard();
  answerAll("0.5");
  await second;
  const third = guard();
  answerAll("0.99");
  expect(await third).toEqual({ code: "balance_floor" });
  const fourth = guard();
  answerAll("1.00");
  expect(await fourth).toBeNull();
  expect(log.lines.map(({ message }) => message)).toEqual(["the balance is under its floor"]);
  expect(clock.waiting).toBe(0);
});

it("the balance guard stays closed while the record cannot be read or states no balance", async () => {
  const answers = [
    '{"data":{"equivalent_in_usd":0.5}}',
    '{"code":401,"data":null}',
    '{"code":500,"data":{}}',
    '{"data":{"plan":"x"}}',
  ];
  let current = "";
  let reads = 0;
  await using gateway = await answeringGateway(
    () => ({ body: "{}" }),
    () => ({ body: (reads++, current) }),
  );
  await using proxy = await startProxy({
    gatewayUrl: gateway.url,
    clock: patientClock(),
    env: { FAREBOX_BALANCE_FLOOR: "1.00" },
    adjust: (settings) => ({ ...settings, balance: { ...settings.balance, ttlMs: 1 } }),
  });
  for (current of answers) {
    const before = reads;
    // Each request uses the cached record, and lets the next one be read.
    await until(async () => {
      expect((await proxy.chat({ max_tokens: 5 })).status).toBe(503);
      return reads > before + 1;
    });
  }
  current = '{"data":{"equivalent_in_usd":1}}';
  await until(async () => (await proxy.chat({ max_tokens: 5 })).status === 200);
});

it("the balance guard opens only for a known balance", async () => {
  const records = [
    { data: { funds: [{ equivalent_in_usd: "0.5" }] } },
    { data: { plan: "x" } },
    { equivalent_in_usd: 2 },
  ];
  const bodies = records.values();
  const account = {
    lookUp: () =>
      Promise.resolve<AccountLookup>({
        ok: true,
        record: { body: bodies.next().value ?? {}, bytes: Buffer.alloc(0), fetchedAt: 0 },
        freshness: "miss",
      }),
  };
  const guard = createBalanceGuard({ account, clock: manualClock(), floor: usd("1"), log: captureLog() });
  expect([await guard(), await guard(), await guard()]).toEqual([
    { code: "balance_floor" },
    { code: "balance_floor" },
    null,
  ]);
});
