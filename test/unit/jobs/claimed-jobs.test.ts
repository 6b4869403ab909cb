import { keyScope } from "../../../src/core/scope.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import type { Task } from "../../../src/core/tasks.ts";
import { startDelivery } from "../../../src/jobs/delivery.ts";
import { startAlerts } from "../../../src/jobs/alerts.ts";
import type { JobClaim } from "../../../src/jobs/job-claims.ts";
import { startTaskPoller } from "../../../src/jobs/task-poller.ts";
import { silentLog } from "../../support/captured-log.ts";
import { alice, budget, holdOf, memoryStore, noon, utc } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** Creates a claim that the test grants and revokes. */
function someClaim(isMine: boolean): JobClaim & { isOwn: boolean; take(): void } {
  const listeners: (() => void)[] = [];
  const claim = {
    isOwn: isMine,
    isMine: () => claim.isOwn,
    onTaken: (listener: () => void) => void listeners.push(listener),
    take() {
      claim.isOwn = true;
      for (const listener of listeners) listener();
    },
  };
  return claim;
}

it("deliveries wait for the claim, and stop before the next message when it is lost", async () => {
  const clock = manualClock(noon);
  const { outbox } = memoryStore();
  const claim = someClaim(false);
  const sent: string[] = [];
  const { promise: lookedUp, resolve: lookUp } = Promise.withResolvers<void>();
  const { promise: asleep, resolve: fallAsleep } = Promise.withResolvers<void>();
  await using delivery = startDelivery({
    outbox,
    clock,
    log: silentLog,
    random: () => 0,
    countResult: () => {},
    claim,
    destinationOf: async ({ payload }) => {
      // The proxy sleeps here.
      if (payload === "slow") {
        fallAsleep();
        await lookedUp;
      }
      return { url: "http://somebody", rule: "administrator", body: payload, headers: () => ({}) };
    },
    sender: { send: async ({ body }) => (sent.push(body), { ok: true }), [Symbol.asyncDispose]: async () => {} },
  });
  const put = (id: string, target: string, payload: string) =>
    outbox.put([{ id, kind: "alert", target, dedupeKey: id, keyUntil: null, payload, createdAt: noon }]);
  await put("a", "red", "first");
  await delivery.idle();
  expect(sent).toEqual([]);
  claim.take();
  await delivery.idle();
  expect(sent).toEqual(["first"]);
  await put("b", "red", "slow");
  delivery.wake();
  await asleep;
  claim.isOwn = false;
  lookUp();
  await delivery.idle();
  expect(sent).toEqual(["first"]);
  expect(await outbox.waiting()).toBe(1);
});

it("the task poller reads and polls due tasks only with the claim", async () => {
  const claim = someClaim(false);
  const reads: number[] = [];
  const polls: string[] = [];
  const { promise: read, resolve: answer } = Promise.withResolvers<void>();
  const due = { taskId: "t", charge: "c" } as Task;
  await using poller = startTaskPoller({
    clock: manualClock(noon),
    log: silentLog,
    claim,
    poll: async ({ taskId }) => void polls.push(taskId),
    tasks: {
      async due() {
        reads.push(1);
        await read;
        return { tasks: [due], nextPollAt: null };
      },
    },
  });
  poller.wake();
  await nextTurn();
  expect(reads).toEqual([]);
  claim.take();
  expect(reads).toHaveLength(1);
  // Another proxy has the claim by the time the read is answered.
  claim.isOwn = false;
  answer();
  await nextTurn();
  await poller[Symbol.asyncDispose]();
  expect(polls).toEqual([]);
});

it("every proxy raises alerts of its own refusals, but other alerts only with the claim", async () => {
  const clock = manualClock(noon);
  const { ledger, outbox, samples, raiseRequests } = memoryStore();
  const claim = someClaim(false);
  const set = await ledger.setBudget({ ...budget(keyScope(alice.key), "1d", "1"), warnPercent: 80 }, noon);
  let serial = 0;
  await using alerts = startAlerts({
    ledger,
    outbox,
    raiseRequests,
    clock,
    claim,
    calendar: utc,
    log: silentLog,
    target: null,
    samples,
    rules: { balanceFloor: null, hoursMin: null, unsettledMs: 1_000 },
    newId: () => `m${++serial}`,
    names: async () => () => null,
    burnPerHour: async () => usd("0"),
    drift: async () => null,
    countAlert: () => {},
    wakeDelivery: () => {},
  });
  expect(set).toBeDefined();
  await ledger.hold(holdOf("old", usd("0.5"), { at: noon - 60_000 }));
  const types = async () =>
    (await outbox.list({ kind: "alert", limit: 10 })).map(
      ({ payload }) => (JSON.parse(payload) as { type: string }).type,
    );
  await alerts.evaluate();
  expect(await types()).toEqual([]);
  const refused = await ledger.hold(holdOf("expensive", usd("2"), { at: noon }));
  if (refused.ok || refused.reason !== "no_room") throw new Error("a hold beyond its budget is refused");
  alerts.refused({
    code: "budget_exceeded",
    shortage: refused.shortage,
    scopeName: "key:alice",
    subjectName: null,
    showsAmounts: true,
  });
  await alerts.evaluate();
  expect(await types()).toEqual(["budget_exhausted"]);
  claim.isOwn = true;
  await alerts.evaluate();
  expect((await types()).toSorted()).toEqual(["budget_exhausted", "charges_unsettled"]);
});
