import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import type { AlertType } from "../../../src/core/alerts.ts";
import { startAlerts } from "../../../src/jobs/alerts.ts";
import { alwaysMine } from "../../../src/jobs/job-claims.ts";
import { listAlerts } from "../../../src/reporting/alerts.ts";
import { captureLog } from "../../support/captured-log.ts";
import { alice, budget, endAt, holdOf, memoryStore, noon, posting, utc } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const hourMs = 3_600_000;

/** The job over a ledger in memory. */
async function world(start = noon) {
  const clock = manualClock(start);
  const { ledger, samples, outbox } = memoryStore({ clock });
  const log = captureLog();
  const counts: AlertType[] = [];
  let serial = 0;
  const self = {
    clock,
    ledger,
    samples,
    outbox,
    log,
    counts,
    woken: 0,
    burn: usd("0"),
    drift: null as { difference: ReturnType<typeof usd>; unexplained: ReturnType<typeof usd> } | null,
    target: "hook" as string | null,
    start: () =>
      startAlerts({
        ledger,
        samples,
        outbox,
        calendar: utc,
        clock,
        log,
        target: self.target,
        rules: { balanceFloor: usd("10"), hoursMin: 24, unsettledMs: 2 * hourMs },
        newId: () => `m${++serial}`,
        names: async () => (id) => (id === "k-alice" ? "alice" : id),
        burnPerHour: async () => self.burn,
        drift: async () => self.drift,
        claim: alwaysMine,
        countAlert: (type) => void counts.push(type),
        wakeDelivery: () => void self.woken++,
      }),
    texts: async () => (await listAlerts({ outbox }, { limit: 100 })).alerts.map(({ text }) => text).toReversed(),
    /** USD 0.001 for each thousand of tokens. */
    async spend(id: string, tokens: number) {
      await ledger.hold(holdOf(id, usd("0"), { at: clock.now() }));
      await ledger.post(id, posting(tokens, 0), endAt(clock.now()));
    },
    sample: async (balance: string | undefined) => {
      const totals = await ledger.totals();
      await samples.add({
        askedAt: clock.now(),
        answeredAt: clock.now(),
        account: "1",
        figures: balance === undefined ? {} : { equivalent_in_usd: balance },
        before: totals,
        after: totals,
      });
    },
  };
  await ledger.setBudget({ ...budget({ kind: "key", key: alice.key }, "1d", "1"), warnPercent: 80 }, start);
  return self;
}

it("reports a threshold within a second of the spending, once, despite further spending and a restart", async () => {
  const self = await world();
  {
    await using alerts = self.start();
    await self.spend("a", 799_000);
    alerts.spent();
    self.clock.advance(1_000);
    await alerts.evaluate();
    expect(await self.texts()).toEqual([]);
    await self.spend("b", 2_000);
    alerts.spent();
    self.clock.advance(999);
    expect(self.woken).toBe(0);
    self.clock.advance(1);
    await self.log.logged("alerts raised");
    expect(await self.texts()).toEqual([
      "Farebox: the budget key:alice per 1d has reached 80 %. Spent: 0.801 of 1.00 USD. It resets at 2026-11-21T00:00:00.000Z.",
    ]);
    for (let index = 0; index < 5; index++) {
      await self.spend(`c${index}`, 1_000);
      alerts.spent();
      self.clock.advance(1_000);
      await alerts.evaluate();
    }
  }
  await using again = self.start();
  await again.evaluate();
  expect(self.counts).toEqual(["budget_warning"]);
  expect(self.woken).toBe(1);
  await self.spend("d", 900_000);
  await again.evaluate();
  expect((await self.texts())[1]).toMatch(
    /^Farebox: the budget key:alice per 1d is used up\. Spent: 1\.706 of 1\.00 USD\./,
  );
  // The next day's window is another one.
  self.clock.advance(24 * hourMs);
  await self.spend("e", 800_000);
  await again.evaluate();
  expect(self.counts).toEqual(["budget_warning", "budget_exhausted", "budget_warning"]);
});

it("checks the window that has just ended, too", async () => {
  const self = await world(Date.parse("2026-11-20T23:59:58Z"));
  await using alerts = self.start();
  await alerts.evaluate();
  self.clock.advance(1_500);
  await self.spend("late", 900_000);
  self.clock.advance(1_000);
  await alerts.evaluate();
  expect(self.counts).toEqual(["budget_warning"]);
});

it("reports a budget that refuses, and not one that only has no room now", async () => {
  const self = await world();
  await using alerts = self.start();
  await self.spend("a", 500_000);
  const refuse = async (id: string, amount: string) => {
    const result = await self.ledger.hold(holdOf(id, usd(amount), { at: self.clock.now() }));
    if (result.ok || result.reason !== "no_room") throw new Error("it fits");
    const { shortage } = result;
    alerts.refused({ code: shortage.exhausted ? "budget_exceeded" : "budget_held", shortage, scopeName: "key:alice" });
  };
  await self.ledger.hold(holdOf("running", usd("0.4")));
  await refuse("b", "0.2");
  await alerts.evaluate();
  expect(self.counts).toEqual([]);
  await refuse("c", "0.6");
  await refuse("d", "0.7");
  await alerts.evaluate();
  await refuse("e", "0.7");
  await alerts.evaluate();
  expect(self.counts).toEqual(["budget_exhausted"]);
  expect((await self.texts())[0]).toMatch(
    /^Farebox: the budget key:alice per 1d has refused a request\. The request may cost 0\.70 USD\. Spent: 0\.50, held: 0\.40, of 1\.00 USD\./,
  );
});

it("reports the account and unsettled charges once a day, and nothing that it does not know", async () => {
  const self = await world();
  await using alerts = self.start();
  await self.sample(undefined);
  await alerts.evaluate();
  expect(self.counts).toEqual([]);
  self.clock.advance(1_000);
  await self.sample("30.5");
  self.burn = usd("2");
  self.drift = { difference: usd("0.5"), unexplained: usd("0.25") };
  await self.ledger.hold(holdOf("stuck", usd("0.1")));
  await alerts.evaluate();
  expect(self.counts).toEqual(["balance_ends_soon", "reconciliation_drift"]);
  self.clock.advance(2 * hourMs);
  await self.sample("9.99");
  await alerts.evaluate();
  await alerts.evaluate();
  expect(self.counts.slice(2)).toEqual(["balance_low", "charges_unsettled"]);
  expect(await self.texts()).toEqual([
    "Farebox: the gateway's balance lasts for less than 24 hours. 30.50 USD are left for 15.2 hours at 2.00 USD an hour, the mean of the last 24.",
    "Farebox: the gateway billed more than the ledger says. Over the last 24 hours the difference is 0.50 USD, 0.25 USD beyond its uncertainty; farebox reconcile itemises it.",
    "Farebox: the gateway's balance is under 10.00 USD. 9.99 USD are left.",
    "Farebox: 1 charges are not settled. The oldest has been pending for 120 minutes; farebox charges --state pending lists them.",
  ]);
  // The next day; the sample is too old by then.
  self.clock.set(noon + 24 * hourMs);
  self.drift = null;
  await alerts.evaluate();
  expect(self.counts.slice(4)).toEqual(["charges_unsettled"]);
});

it("keeps alerts without a receiver for the record, and sends later what the outbox could not take", async () => {
  const self = await world();
  self.target = null;
  const put = self.outbox.put.bind(self.outbox);
  let works = false;
  self.outbox.put = async (messages) => (works ? await put(messages) : (undefined as never));
  await using alerts = self.start();
  await self.spend("a", 900_000);
  await alerts.evaluate();
  expect([self.counts, self.woken]).toEqual([[], 0]);
  works = true;
  await alerts.evaluate();
  expect(self.counts).toEqual(["budget_warning"]);
  const { alerts: listed, next } = await listAlerts({ outbox: self.outbox }, { limit: 1 });
  expect(listed).toMatchObject([
    {
      type: "budget_warning",
      time: "2026-11-20T12:00:00.000Z",
      severity: "warning",
      data: {
        scope: "key:alice",
        key: null,
        period: "1d",
        mode: "hard",
        limit_usd: "1.00",
        spent_usd: "0.90",
        held_usd: "0.00",
        starts_at: "2026-11-20T00:00:00.000Z",
        resets_at: "2026-11-21T00:00:00.000Z",
        warn_percent: 80,
      },
      delivery: { state: "unsent", tries: 0, last_error: null },
    },
  ]);
  expect(next).toBeNull();
});

it("continues after a failure, and ends with its timers, after a last check of what was spent", async () => {
  const self = await world();
  const alerts = self.start();
  const windowsToAlert = self.ledger.windowsToAlert.bind(self.ledger);
  self.ledger.windowsToAlert = () => Promise.reject(new Error("gone"));
  await alerts.evaluate();
  expect(self.log.lines.map(({ message }) => message)).toEqual(["alerts could not be evaluated"]);
  self.ledger.windowsToAlert = windowsToAlert;
  await self.spend("a", 900_000);
  alerts.spent();
  await alerts[Symbol.asyncDispose]();
  expect(self.counts).toEqual(["budget_warning"]);
  expect(self.clock.waiting).toBe(0);
});
