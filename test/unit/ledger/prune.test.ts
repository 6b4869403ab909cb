import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import { pruneAgeMsMin } from "../../../src/core/charge.ts";
import { reportDimensions, type ReportDimension } from "../../../src/ports/ledger.ts";
import { connectToWrite, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import type { Store } from "../../../src/ledger/store.ts";
import { horizons, prunePreview } from "../../../src/ledger/pruning.ts";
import { answer } from "../../../src/ledger/sqlite/answer.ts";
import { prune } from "../../../src/ledger/sqlite/prune.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import {
  alice,
  assumed,
  bob,
  budget,
  endAt,
  holdOf,
  key,
  noon,
  openStore,
  posting,
  tempFolder,
} from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const dayMs = 86_400_000;
const berlin = calendarOf("Europe/Berlin");
const clock = manualClock(noon);
const rules = { calendar: berlin, clock, olderThanMs: 60 * dayMs, pause: () => nextTurn() };
const span = { since: noon - 400 * dayMs, until: noon + dayMs };

const open = (path: string, calendar = berlin) => openStore({ path, calendar, clock, access: "command" });

/** A few hundred charges over 200 days in every state, before budgets of every period. */
async function fill({ ledger }: Store): Promise<void> {
  for (const period of ["total", "1h", "1d", "1w", "1mo"] as const)
    await ledger.setBudget(budget({ kind: "all" }, period, "9000", "soft"), noon - 200 * dayMs);
  await ledger.setBudget(budget({ kind: "eachKey", team: null }, "total", "9000", "soft"), noon - 200 * dayMs);
  await ledger.setBudget(budget({ kind: "team", team: "red" }, "1mo", "9000", "soft"), noon - 200 * dayMs);
  for (let index = 0; index < 600; index++) {
    const at = noon - 200 * dayMs + index * 8 * 3_600_000 + index * 60_000;
    const id = `r${index}`;
    const unpriced = index % 11 === 0;
    await ledger.hold(
      holdOf(id, unpriced ? null : usd("0.10"), {
        at,
        caller: index % 3 === 0 ? bob : alice,
        model: index % 5 === 0 ? "model-b" : "model-a",
        kind: index % 97 === 0 ? "task" : "request",
        retry: index % 4,
      }),
    );
    if (index % 97 === 0) continue;
    if (index % 7 === 0) await ledger.void(id, "not_sent", endAt(at));
    else if (unpriced) await ledger.post(id, assumed(null), endAt(at));
    else await ledger.post(id, index % 13 === 0 ? assumed(usd("0.10")) : posting(100 + index, index), endAt(at));
    if (index % 50 === 1)
      await ledger.adjust(id, { id: `${id}-a`, at: at + dayMs, amount: usd("0.01"), why: "debit", by: "root" });
    if (index % 100 === 1)
      await ledger.adjust(id, {
        id: `${id}-b`,
        at: at + 2 * dayMs,
        amount: -usd("0.002") as PicoUsd,
        why: "credit",
        by: "root",
      });
  }
  // A correction of today keeps what it corrects.
  await ledger.adjust("r1", { id: "r1-late", at: noon, amount: usd("0.5"), why: "debit", by: "root" });
}

async function sums({ ledger }: Store) {
  const by = (...dimensions: ReportDimension[]) => ledger.report({ by: dimensions, ...span });
  return {
    windows: await ledger.windows(noon),
    total: await by(),
    parts: await by(...reportDimensions.filter((name) => name !== "hour")),
    // Taken from the charges: as much as the rollups say.
    untagged: await by(...reportDimensions.filter((name) => name !== "hour"), "tag:feature"),
    // And so does what would be recomputed under other prices, which keeps the amount of a carried sum.
    whatIf: (
      await ledger.whatIf({ by: reportDimensions.filter((name) => name !== "hour"), ...span }, () => ({
        ok: false,
        why: "adjustment",
      }))
    ).map(({ whatIf, ...row }) => ({
      ...row,
      same: whatIf.cost === row.cost && whatIf.notRecomputed.adjustment?.requests === row.requests,
    })),
    pending: await ledger.pending(),
  };
}

function counts(db: Connection) {
  const count = (sql: string) => Number(db.prepare(sql).pluck().get());
  return {
    charges: count("select count(*) from charges where route <> 'carried'"),
    carried: count("select count(*) from carried"),
    links: count("select count(*) from charge_windows where charge not in (select seq from charges)"),
  };
}

it(
  "pruning keeps every sum, leaves verify clean after each step, and touches nothing that is pending",
  { timeout: 60_000 },
  async () => {
    using folder = tempFolder();
    await using store = await open(folder.database);
    await fill(store);
    const before = await sums(store);
    expect(before.pending.count).toBeGreaterThan(3);
    expect(before.total[0]?.retries).toBeGreaterThan(300);
    const db = connectToWrite(folder.database);
    using _ = { [Symbol.dispose]: () => db.close() };
    const had = counts(db);

    const preview = answer(db, prunePreview(horizons(rules)));
    expect(counts(db)).toEqual(had);
    const unclean: unknown[] = [];
    const pause = async () => {
      const { differences } = await store.ledger.verify();
      unclean.push(...differences);
    };
    const pruned = await prune(db, { ...rules, pause });
    expect(unclean).toEqual([]);
    expect(pruned).toEqual(preview);
    expect(pruned.charges).toBeGreaterThan(300);
    expect(pruned.quarters).toBeGreaterThan(300);

    expect(await sums(store)).toEqual(before);
    expect(before.untagged).toEqual(
      before.parts.map((row) => ({ ...row, dimensions: { ...row.dimensions, "tag:feature": null } })),
    );
    expect(before.whatIf).toEqual(before.parts.map((row) => ({ ...row, same: true })));
    expect(await store.ledger.prunedUntil()).toBe(pruned.before);
    expect(await store.ledger.verify()).toMatchObject({ differences: [] });
    const left = counts(db);
    expect(left.links).toBe(0);
    expect(left.charges).toBe(had.charges - pruned.charges);
    expect(left.carried).toBeGreaterThan(0);
    // What stays of the old time is pending, or has a later correction.
    const old = await store.ledger.charges({ until: pruned.before, limit: 1000 });
    expect(
      old.charges.filter(({ state, route, id }) => state !== "pending" && route !== "carried" && id !== "r1"),
    ).toEqual([]);

    expect(await prune(db, rules)).toMatchObject({ charges: 0, windows: 0, quarters: 0 });
  },
);

it("windows that are made afterwards, and another time zone, count carried sums in", { timeout: 60_000 }, async () => {
  using folder = tempFolder();
  await using owned = new AsyncDisposableStack();
  const store = owned.use(await open(folder.database));
  await fill(store);
  await store.ledger.setBudget(budget({ kind: "key", key: bob.key }, "total", "9000"), noon);
  const expected = (await store.ledger.windows(noon)).find(({ budget: { scope } }) => scope.kind === "key");
  await store.ledger.removeBudget(`key:${bob.key}`, "total", noon);
  const total = await store.ledger.report({ by: ["key", "model"], ...span });
  const db = connectToWrite(folder.database);
  owned.adopt(db, (each) => void each.close());
  await prune(db, rules);

  await store.ledger.setBudget(budget({ kind: "key", key: bob.key }, "total", "9000"), noon);
  const found = (await store.ledger.windows(noon)).find(({ budget: { scope } }) => scope.kind === "key");
  expect(found).toMatchObject({ spent: expected?.spent, held: expected?.held });

  await store[Symbol.asyncDispose]();
  await using serve = await openStore({
    path: folder.database,
    calendar: calendarOf("America/New_York"),
    clock,
    access: "serve",
  });
  expect(await serve.ledger.verify()).toMatchObject({ differences: [] });
  expect(await serve.ledger.report({ by: ["key", "model"], ...span })).toEqual(total);
  expect((await serve.ledger.windows(noon)).find(({ budget: { scope } }) => scope.kind === "key")).toMatchObject({
    spent: expected?.spent,
  });
});

it("reports by hour give days of which no hours are left in one row without an hour", { timeout: 60_000 }, async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  await fill(store);
  const inDay = { since: noon - 100 * dayMs - 3_600_000, until: noon };
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  await prune(db, { ...rules, olderThanMs: pruneAgeMsMin });
  const byHour = await store.ledger.report({ by: ["hour"], ...inDay });
  const whole = await store.ledger.report({ by: [], ...inDay });
  const byDay = await store.ledger.report({ by: ["day"], ...inDay });
  const cost = (rows: typeof whole) => rows.reduce((sum, row) => sum + row.cost, 0n);
  expect(byHour.filter(({ dimensions }) => dimensions.hour === null)).toHaveLength(1);
  expect(cost(byHour)).toBe(cost(whole));
  expect(cost(byDay)).toBe(cost(whole));
  expect(byDay[0]?.dimensions.day).toBe(berlin.dateOf(inDay.since));
});

it("keeps the charges of a session as long as its budget counts them", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  const { ledger, sessions, keys } = store;
  await keys.create(key("alice", { id: alice.key }));
  const at = noon - 200 * dayMs;
  const session = { id: "run_old", key: alice.key, tags: {}, budget: usd("5"), createdAt: at, expiresAt: at + dayMs };
  await sessions.create({ ...session, endedAt: null }, null);
  for (const [id, tags] of [
    ["in", { session: "run_old" }],
    ["out", {}],
  ] as const) {
    await ledger.hold(holdOf(id, usd("1"), { at, tags }));
    await ledger.post(id, posting(1000, 1000), endAt(at));
  }
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  expect(answer(db, prunePreview(horizons(rules)))).toMatchObject({ charges: 1 });
  expect(await prune(db, rules)).toMatchObject({ charges: 1 });
  expect(await ledger.verify()).toMatchObject({ differences: [] });
  expect(await ledger.charge("in")).toBeDefined();
  expect(await sessions.tidy(noon)).toBe(1);
  expect(await prune(db, rules)).toMatchObject({ charges: 1 });
  expect(await ledger.verify()).toMatchObject({ differences: [] });
  expect(await ledger.charge("in")).toBeUndefined();
});
