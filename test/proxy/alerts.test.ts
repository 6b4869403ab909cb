import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { setBudget } from "../../src/admin/budget-changes.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { size } from "../support/effort.ts";
import { fastClock } from "../support/fast-clock.ts";
import { captureLog } from "../support/captured-log.ts";
import { endAt, holdOf, posting } from "../support/ledger-fixtures.ts";
import { usd } from "../../src/core/money.ts";
import { startProxy } from "../support/running-proxy.ts";
import { alertIn, isSigned, startReceiver, status, webhookSecret, type Received } from "../support/webhook-receiver.ts";
import { until } from "../support/until.ts";

it("alerts report the threshold and then the refusal, signed and without the webhook address", async () => {
  await using receiver = await startReceiver();
  const log = captureLog();
  // The second attempt follows after up to five seconds of this clock.
  const clock = fastClock(10);
  await using proxy = await startProxy({
    log,
    clock,
    env: {
      FAREBOX_ALERT_WEBHOOK: `${receiver.url}/services/s3cret-path?t=s3cret-query`,
      FAREBOX_ALERT_SECRET: webhookSecret,
    },
  });
  const { serving } = proxy;
  const tools = { ledger: serving.ledger, keys: serving.keys, clock, by: "tester" };
  await setBudget(tools, { scope: "key:alice", limit: "0.001", period: "1d", warnPercent: 10 });
  expect((await proxy.chat({ max_tokens: 20 })).status).toBe(200);
  await serving.settled();
  // The first delivery fails once; later messages wait for it.
  receiver.answer(status(503, { "retry-after": "0" }));
  await receiver.waitFor(1);
  receiver.answer(status(200));
  expect((await proxy.chat({ max_tokens: 4000 })).status).toBe(402);
  const received = await receiver.waitFor(3);
  const [first, again, second] = received as [Received, Received, Received];
  expect(received.map((each) => alertIn(each).type)).toEqual(["budget_warning", "budget_warning", "budget_exhausted"]);
  expect(again.headers["webhook-id"]).toBe(first.headers["webhook-id"]);
  expect(alertIn(first)).toMatchObject({
    id: first.headers["webhook-id"],
    data: { scope: "key:alice", period: "1d", limit_usd: "0.001" },
  });
  expect(alertIn(second).data).toMatchObject({ cause: "refused" });
  expect(received.filter((each) => !isSigned(each))).toEqual([]);
  expect(isSigned({ ...second, body: second.body.replace("0.001", "0.002") })).toBe(false);

  await log.logged("a message was sent", 3);
  const metrics = await proxy.metrics();
  expect(metrics).toContain('farebox_alerts_total{type="budget_warning"} 1\n');
  expect(metrics).toContain('farebox_alerts_total{type="balance_low"} 0\n');
  expect(metrics).toContain('farebox_outbox_deliveries_total{kind="alert",result="delivered"} 2\n');
  expect(metrics).toContain('farebox_outbox_deliveries_total{kind="alert",result="failed"} 1\n');
  expect(metrics).toContain("farebox_outbox_waiting 0\n");
  const folder = dirname(proxy.database);
  const stored = readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), "latin1"))
    .join();
  for (const seen of [metrics, stored, JSON.stringify(log.lines)]) expect(seen).not.toMatch(/s3cret|whsec_|MfKQ9r8G/);
});

/** More than the 500 windows that one evaluation handles. */
const windows = size(1_000, 510);

it(`${windows} windows that reach a threshold at once are each reported without delaying holds`, async () => {
  await using receiver = await startReceiver();
  await using proxy = await startProxy({ env: { FAREBOX_ALERT_WEBHOOK: receiver.url } });
  const { ledger, keys, alerts } = proxy.serving;
  await setBudget(
    { ledger, keys, clock: systemClock(), by: "tester" },
    { scope: "each-key", limit: "1", period: "total", warnPercent: 10 },
  );
  const at = Date.now();
  const callers = Array.from({ length: windows }, (_, index) => ({ key: `k${index}`, team: null }));
  await Promise.all(
    callers.map(async (caller) => {
      await ledger.hold(holdOf(caller.key, usd("0.2"), { at, caller }));
      await ledger.post(caller.key, posting(150_000, 0), endAt(at));
    }),
  );
  const evaluating = { over: false };
  const evaluated = alerts.evaluate().then(() => (evaluating.over = true));
  let meanwhile = 0;
  for (; !evaluating.over; meanwhile++) {
    expect(
      (await ledger.hold(holdOf(`h${meanwhile}`, usd("0.000001"), { at, caller: { key: "k1", team: null } }))).ok,
    ).toBe(true);
  }
  await evaluated;
  await until(() => receiver.received.length === windows, "all are delivered");
  expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(windows);
  expect(new Set(receiver.received.map((each) => alertIn(each).data["key"])).size).toBe(windows);
  // 500 windows are evaluated at a time, in transactions of 100; holds proceed between them.
  expect(meanwhile).toBeGreaterThan(3);
});
