import { everyRequest, keyScope, parseScope } from "../../../src/core/scope.ts";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import type { AlertType } from "../../../src/core/alerts.ts";
import type { Period } from "../../../src/core/budget.ts";
import { startAlerts, type Alerts } from "../../../src/jobs/alerts.ts";
import { alwaysMine } from "../../../src/jobs/job-claims.ts";
import { listAlerts } from "../../../src/server/http/admin/alerts.ts";
import type { AlertMessage } from "../../../src/wire/alert-message.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import { captureLog } from "../../support/captured-log.ts";
import { alice, bob, budget, endAt, holdOf, memoryStore, noon, posting } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const hourMs = 3_600_000;

/** Creates the alerts job with a ledger in memory. */
async function world(start = noon) {
  const clock = manualClock(start);
  const { ledger, samples, outbox, raiseRequests } = memoryStore({ clock });
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
    drift: null as {
      difference: ReturnType<typeof usd>;
      unexplained: ReturnType<typeof usd>;
    } | null,
    target: "hook" as string | null,
    zone: "UTC",
    start: () =>
      startAlerts({
        ledger,
        samples,
        raiseRequests,
        outbox,
        calendar: calendarOf(self.zone),
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
    /** Posts a charge of USD 0.001 for each thousand tokens. */
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
  await ledger.setBudget({ ...budget(keyScope(alice.key), "1d", "1"), warnPercent: 80 }, start);
  return self;
}

it("reports a threshold once within a second of the spending, despite further spending and a restart", async () => {
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
      "Farebox: the budget key:alice per 1d has reached 80%. Spent: 0.801 of 1.00 USD. It resets on 21 November 2026 at 00:00 (UTC).",
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
  // The next day has a new window.
  self.clock.advance(24 * hourMs);
  await self.spend("e", 800_000);
  await again.evaluate();
  expect(self.counts).toEqual(["budget_warning", "budget_exhausted", "budget_warning"]);
});

it("logs neither users nor tag values", async () => {
  const self = await world();
  for (const text of ["user:jane", "each-user", "each-tag:session"])
    await self.ledger.setBudget(budget(parseScope(text) ?? everyRequest, "1d", "0.01", "soft"), noon);
  const caller = { ...bob, user: "jane" };
  await self.ledger.hold(holdOf("a", usd("0"), { caller, tags: { session: "secret-session" } }));
  await self.ledger.post("a", posting(50_000, 0), endAt(noon));
  await using alerts = self.start();
  await alerts.evaluate();
  expect((await self.texts()).join(" ")).toContain("jane");
  const logged = JSON.stringify(self.log.lines);
  expect(logged).not.toMatch(/jane|secret-session/);
  for (const scope of ["user:…", "each-user", "each-tag:session"])
    expect(logged).toContain(`{"type":"budget_exhausted","budget":"${scope} per 1d"}`);
});

it("sends one message for many windows of a budget, records the others, and repeats none after a restart", async () => {
  const self = await world();
  const eachUser = parseScope("each-user");
  if (eachUser === undefined) throw new Error("each-user is a scope");
  await self.ledger.setBudget({ ...budget(eachUser, "1d", "0.01"), warnPercent: 50 }, noon);
  const spend = async (user: string, tokens: number) => {
    const id = `${user}-${tokens}`;
    await self.ledger.hold(holdOf(id, usd("0"), { caller: { ...bob, user } }));
    await self.ledger.post(id, posting(tokens, 0), endAt(noon));
  };
  const messages = async () => {
    const newest = await self.outbox.list({ kind: "alert", limit: 1000 });
    const older = await self.outbox.list({
      kind: "alert",
      limit: 1000,
      after: newest.at(-1)?.id ?? "",
    });
    return [...newest, ...older].toReversed().map(({ payload, state }) => ({
      ...(JSON.parse(payload) as AlertMessage),
      state,
    }));
  };
  const sent = async () => (await messages()).filter(({ state }) => state === "waiting").map(({ text }) => text);
  const users = Array.from({ length: 612 }, (_, index) => `u${1000 + index}`);
  for (const user of users.slice(0, 6)) await spend(user, 6_000);
  {
    await using alerts = self.start();
    await alerts.evaluate();
    expect(await sent()).toEqual([
      "Farebox: the budget each-user per 1d of user=u1000 has reached 50%. Spent: 0.006 of 0.01 USD. It resets on 21 November 2026 at 00:00 (UTC). The same applies to 5 others: user=u1001, user=u1002, user=u1003, ….",
    ]);
    expect((await messages())[0]?.data).toMatchObject({
      subject: "user=u1000",
      others: 5,
      other_subjects: "user=u1001, user=u1002, user=u1003",
    });
    expect((await messages()).slice(1).map(({ data, state }) => [data["subject"], state])).toEqual(
      users.slice(1, 6).map((user) => [`user=${user}`, "unsent"]),
    );
  }
  for (const user of users) await spend(user, 20_000);
  await using again = self.start();
  // An evaluation covers at most 500 windows.
  await again.evaluate();
  await again.evaluate();
  await again.evaluate();
  const texts = await sent();
  expect(texts.map((text) => text.replace(/\. Spent.*The same/, ": the same"))).toEqual([
    expect.stringContaining("50%"),
    expect.stringContaining(
      "of user=u1000 is used up: the same applies to 499 others: user=u1001, user=u1002, user=u1003, ….",
    ),
    expect.stringContaining(
      "of user=u1006 has reached 50%: the same applies to 493 others: user=u1007, user=u1008, user=u1009, ….",
    ),
    expect.stringContaining("of user=u1500 has reached 50%: the same applies to 111 others"),
    expect.stringContaining("of user=u1500 is used up: the same applies to 111 others"),
  ]);
  const all = await messages();
  expect(
    all
      .filter(({ type }) => type === "budget_exhausted")
      .map(({ data }) => data["subject"])
      .sort(),
  ).toEqual(users.map((user) => `user=${user}`));
  expect(new Set(all.map(({ type, data }) => `${type} ${data["subject"]}`)).size).toBe(all.length);
  expect(all).toHaveLength(2 * users.length);
});

it("also checks the window that has just ended", async () => {
  const self = await world(Date.parse("2026-11-20T23:59:58Z"));
  await using alerts = self.start();
  await alerts.evaluate();
  self.clock.advance(1_500);
  await self.spend("late", 900_000);
  self.clock.advance(1_000);
  await alerts.evaluate();
  expect(self.counts).toEqual(["budget_warning"]);
});

it("also checks the windows of earlier hours until their alerts are written", async () => {
  const self = await world(Date.parse("2026-11-20T22:59:58Z"));
  await self.ledger.setBudget(budget(everyRequest, "1h", "1"), self.clock.now());
  const put = self.outbox.put.bind(self.outbox);
  self.outbox.put = async () => undefined as never;
  await using alerts = self.start();
  await self.spend("first hour", 1_000_000);
  await alerts.evaluate();
  // The first evaluation of the next hour cannot write the alerts either.
  self.clock.set(Date.parse("2026-11-20T23:30:00Z"));
  await self.spend("second hour", 1_000_000);
  await alerts.evaluate();
  self.clock.set(Date.parse("2026-11-21T00:00:01Z"));
  await alerts.evaluate();
  expect(self.counts).toEqual([]);
  self.outbox.put = put;
  await alerts.evaluate();
  await alerts.evaluate();
  const texts = await self.texts();
  expect(texts.map((text) => text.replace(/^Farebox: the budget | It resets .*$/g, ""))).toEqual([
    "key:alice per 1d has reached 80%. Spent: 2.00 of 1.00 USD.",
    "key:alice per 1d is used up. Spent: 2.00 of 1.00 USD.",
    "all per 1h is used up. Spent: 1.00 of 1.00 USD.",
    "all per 1h is used up. Spent: 1.00 of 1.00 USD.",
  ]);
});

it("covers the windows of the last 24 hours in which alerts could not be written", async () => {
  const self = await world();
  const put = self.outbox.put.bind(self.outbox);
  self.outbox.put = async () => undefined as never;
  const times: number[] = [];
  const windowsToAlert = self.ledger.windowsToAlert.bind(self.ledger);
  self.ledger.windowsToAlert = (at, limit) => {
    times.push(at);
    return windowsToAlert(at, limit);
  };
  await self.spend("a", 1_000_000);
  await using alerts = self.start();
  for (let hour = 0; hour < 30; hour++) {
    self.clock.set(noon + hour * hourMs);
    await self.spend(`in hour ${hour}`, 1_000_000);
    await alerts.evaluate();
  }
  const hoursOf = (last: number) => times.slice(-last).map((at) => (at - noon) / hourMs);
  expect(hoursOf(24)).toEqual(Array.from({ length: 24 }, (_, index) => index + 6));
  self.outbox.put = put;
  await alerts.evaluate();
  times.length = 0;
  await alerts.evaluate();
  expect(hoursOf(24)).toEqual([29]);
});

it("counts a window once that two hours share", async () => {
  const self = await world(Date.parse("2026-11-20T12:59:58Z"));
  await using alerts = self.start();
  await alerts.evaluate();
  await exhaustEachUser(self, "1d", 7);
  self.clock.advance(3_000);
  await alerts.evaluate();
  expect((await self.texts()).filter((text) => text.includes("others"))).toEqual([
    expect.stringContaining("The same applies to 6 others"),
  ]);
});

it("also checks more than 500 windows that have ended", async () => {
  const self = await world(Date.parse("2026-11-20T12:59:58Z"));
  await using alerts = self.start();
  await alerts.evaluate();
  await exhaustEachUser(self, "1h", 501);
  self.clock.advance(3_000);
  await alerts.evaluate();
  expect(self.counts).toHaveLength(500);
  await alerts.evaluate();
  expect(self.counts).toHaveLength(501);
});

/** Sets a budget for each user, and exhausts it for this many users. */
async function exhaustEachUser({ ledger, clock }: Awaited<ReturnType<typeof world>>, period: Period, users: number) {
  const eachUser = parseScope("each-user");
  if (eachUser === undefined) throw new Error("each-user is a scope");
  await ledger.setBudget(budget(eachUser, period, "0.01"), clock.now());
  for (let index = 0; index < users; index++) {
    const id = `u${index}`;
    await ledger.hold(holdOf(id, usd("0"), { caller: { ...bob, user: id }, at: clock.now() }));
    await ledger.post(id, posting(10_000, 0), endAt(clock.now()));
  }
}

/** Places a hold that does not fit, and reports its refusal. */
async function refuseHold(
  { ledger, clock }: Awaited<ReturnType<typeof world>>,
  alerts: Pick<Alerts, "refused">,
  id: string,
  amount: string,
) {
  const result = await ledger.hold(holdOf(id, usd(amount), { at: clock.now() }));
  if (result.ok || result.reason !== "no_room") throw new Error("it fits");
  const { shortage } = result;
  const code = shortage.exhausted ? "budget_exceeded" : "budget_held";
  alerts.refused({ code, shortage, scopeName: "key:alice", subjectName: null, showsAmounts: true });
}

it("reports a budget that is exhausted, but not one with room once holds are settled", async () => {
  const self = await world();
  await using alerts = self.start();
  await self.spend("a", 500_000);
  const refuse = (id: string, amount: string) => refuseHold(self, alerts, id, amount);
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

it.each(["write", "query", "last write"])("repeats the alert about a refusal after a failed %s", async (failing) => {
  const self = await world();
  const alerts = self.start();
  await self.spend("a", 500_000);
  const put = self.outbox.put.bind(self.outbox);
  const windowsToAlert = self.ledger.windowsToAlert.bind(self.ledger);
  if (failing === "query") self.ledger.windowsToAlert = () => Promise.reject(new Error("gone"));
  else self.outbox.put = async () => undefined as never;
  await refuseHold(self, alerts, "b", "0.6");
  await alerts.evaluate();
  expect(self.counts).toEqual([]);
  self.outbox.put = put;
  self.ledger.windowsToAlert = windowsToAlert;
  if (failing !== "last write") await alerts.evaluate();
  await alerts[Symbol.asyncDispose]();
  expect(self.counts).toEqual(["budget_exhausted"]);
  expect(self.clock.waiting).toBe(0);
});

it("writes tiny amounts with two significant digits, and times in the configured zone", async () => {
  const self = await world();
  self.zone = "America/New_York";
  await using alerts = self.start();
  await self.ledger.setBudget({ ...budget(everyRequest, "1d", "0.0000256"), warnPercent: 50 }, noon);
  await self.spend("a", 13);
  await self.ledger.setBudget(budget(everyRequest, "1h", "0.000000000009"), noon);
  await alerts.evaluate();
  expect(await self.texts()).toEqual([
    "Farebox: the budget all per 1d has reached 50%. Spent: 0.000013 of 0.000025 USD. It resets on 20 November 2026 at 19:00 (America/New_York).",
    "Farebox: the budget all per 1h is used up. Spent: 0.000013 of 0.000000000009 USD. It resets on 20 November 2026 at 08:00 (America/New_York).",
  ]);
});

it("reports the account and unsettled charges once a day, but nothing about unknown figures", async () => {
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
    "Farebox: the gateway's balance lasts for less than 24 hours. 30.50 USD remains, enough for 15.2 hours at 2.00 USD an hour, the mean of the last 24 hours.",
    "Farebox: the gateway billed more than the ledger says. Over the last 24 hours the difference is 0.50 USD, 0.25 USD beyond its uncertainty; farebox reconcile itemizes it.",
    "Farebox: the gateway's balance is under 10.00 USD. 9.99 USD remains.",
    "Farebox: one charge is not settled. It has been pending for 2 hours; farebox charges --state pending lists them.",
  ]);
  // The sample is too old on the next day.
  self.clock.set(noon + 24 * hourMs);
  self.drift = null;
  await alerts.evaluate();
  expect(self.counts.slice(4)).toEqual(["charges_unsettled"]);
});

it("records alerts without a receiver, and retries what the outbox could not store", async () => {
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

it("continues after a failure, and ends without timers after a last check of the spending", async () => {
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
