import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import type { LedgerQueries } from "../../../src/ports/ledger.ts";
import type { SpendQuery, SpendRow } from "../../../src/ports/spend.ts";
import { SpendMemory } from "../../../src/reporting/spend-memory.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { only } from "../../support/only.ts";

const query: SpendQuery = { by: ["team"], each: "day", since: 0, until: 200 };
const today = 100;

/** Returns a memory over a ledger whose answers for past days the test sets. */
function memoryWith() {
  const clock = manualClock();
  clock.advance(1);
  const queries: SpendQuery[] = [];
  const ledger = { past: (): Promise<readonly SpendRow[]> => Promise.resolve([rowOf(1)]) };
  const spend = (given: SpendQuery) => {
    queries.push(given);
    return given.until === today ? ledger.past() : Promise.resolve([rowOf(1000)]);
  };
  const memory = new SpendMemory(only<LedgerQueries>({ spend }), clock);
  const read = async () => (await memory.spend(query, today)).map(({ requests }) => requests);
  return { clock, ledger, read, pastReads: () => queries.filter(({ until }) => until === today).length };
}

function rowOf(requests: number): SpendRow {
  const none = usd("0");
  return { start: 0, names: [null], requests, unpricedRequests: 0, cost: none, listCost: none, inDoubt: none };
}

it("reads past days once a minute and today each time, and returns old sums during a refresh", async () => {
  const { clock, ledger, read, pastReads } = memoryWith();
  expect(await Promise.all([read(), read()])).toEqual([
    [1, 1000],
    [1, 1000],
  ]);
  clock.advance(59_000);
  expect(await read()).toEqual([1, 1000]);
  expect(pastReads()).toBe(1);

  const again = Promise.withResolvers<readonly SpendRow[]>();
  ledger.past = () => again.promise;
  clock.advance(2_000);
  expect(await read()).toEqual([1, 1000]);
  expect(await read()).toEqual([1, 1000]);
  expect(pastReads()).toBe(2);
  again.resolve([rowOf(2)]);
  await setImmediate();
  expect(await read()).toEqual([2, 1000]);
});

it("keeps known sums if a refresh fails, and does not cache a failure", async () => {
  const { clock, ledger, read } = memoryWith();
  const { past } = ledger;
  const fail = () => Promise.reject(new Error("the ledger does not answer"));
  ledger.past = fail;
  await expect(read()).rejects.toThrow("does not answer");
  ledger.past = past;
  expect(await read()).toEqual([1, 1000]);

  ledger.past = fail;
  clock.advance(61_000);
  expect(await read()).toEqual([1, 1000]);
  await setImmediate();
  ledger.past = () => Promise.resolve([rowOf(3)]);
  expect(await read()).toEqual([1, 1000]);
  await setImmediate();
  expect(await read()).toEqual([3, 1000]);
});

it("answers a query whose cache entry was evicted meanwhile", async () => {
  const clock = manualClock();
  const first = Promise.withResolvers<readonly SpendRow[]>();
  const spend = ({ since }: SpendQuery) => (since === 0 ? first.promise : Promise.resolve([rowOf(since)]));
  const memory = new SpendMemory(only<LedgerQueries>({ spend }), clock);
  const waiting = memory.spend({ ...query, until: 1000 }, 1000);
  for (let since = 1; since <= 300; since++) await memory.spend({ ...query, since, until: 1000 }, 1000);
  first.resolve([rowOf(7)]);
  expect((await waiting).map(({ requests }) => requests)).toEqual([7]);
});
