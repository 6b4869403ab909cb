import {
  eachKeyScope,
  everyRequest,
  keyScope,
  teamScope,
  keyOfScope,
  parseScope,
  type Scope,
} from "../../../src/core/scope.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import { pruneAgeMsMin } from "../../../src/core/charge.ts";
import { reportDimensions, type ReportDimension } from "../../../src/ports/ledger.ts";
import { connectToWrite, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import type { Store } from "../../../src/ports/stores.ts";
import { horizons, pruneLedger, prunePreview } from "../../../src/ledger/pruning.ts";
import { answer } from "../../../src/ledger/sqlite/answer.ts";
import { longQueries } from "../../../src/ledger/sqlite/queries.ts";
import { maintained } from "../../../src/ledger/sqlite/maintenance.ts";
import { Writer } from "../../../src/ledger/sqlite/writer.ts";
import type { SpentBefore } from "../../../src/ledger/rows/budgets.ts";
import { runOverview } from "../../../src/reporting/overview.ts";
import { SpendMemory } from "../../../src/reporting/spend-memory.ts";
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
const rules = { clock, olderThanMs: 60 * dayMs, pause: () => nextTurn() };
const span = { since: noon - 400 * dayMs, until: noon + dayMs };

/** Pruned charges have no hour and no user. */
const kept = reportDimensions.filter((name) => name !== "hour" && name !== "user");

const open = (path: string, calendar = berlin) => openStore({ path, calendar, clock, access: "command" });

/** Scopes for which `fill` sets no budgets. */
const newScopes = ["all", "each-key", "label:env=test", "each-tag:part", "each-user each-model", "user:u%202"];

const filledScopes = [
  "user:u%201",
  "label:env=prod",
  "tag:part=f1",
  "model:model-*",
  "each-user",
  "each-model",
  "each-tag:part each-user",
  "team:red each-user",
];

/** Writes a few hundred charges in every state over 200 days, and then budgets of every period. */
async function fill({ ledger }: Store): Promise<void> {
  for (const period of ["total", "1h", "1d", "1w", "1mo"] as const)
    await ledger.setBudget(budget(everyRequest, period, "9000", "soft"), noon - 200 * dayMs);
  await ledger.setBudget(budget(eachKeyScope(), "total", "9000", "soft"), noon - 200 * dayMs);
  await ledger.setBudget(budget(teamScope("red"), "1mo", "9000", "soft"), noon - 200 * dayMs);
  for (const text of filledScopes)
    for (const period of ["1mo", "total"] as const)
      await ledger.setBudget(budget(parseScope(text) as Scope, period, "9000", "soft"), noon - 200 * dayMs);
  for (let index = 0; index < 600; index++) {
    const at = noon - 200 * dayMs + index * 8 * 3_600_000 + index * 60_000;
    const id = `r${index}`;
    const unpriced = index % 11 === 0;
    await ledger.hold(
      holdOf(id, unpriced ? null : usd("0.10"), {
        at,
        caller: {
          ...(index % 3 === 0 ? bob : alice),
          user: index % 4 === 0 ? null : `u ${index % 4}`,
          labels: index % 2 === 0 ? { env: "prod" } : {},
        },
        tags: index % 5 === 0 ? {} : { part: `f${index % 2}` },
        model: index % 5 === 0 ? "model-b" : "model-a",
        // A name whose entry changed, and requests of several models.
        ...(index % 4 > 0 && { models: index % 4 === 1 ? ["model-c"] : ["model-c", "model-d"] }),
        kind: index % 97 === 0 ? "task" : "request",
        retry: index % 4,
      }),
    );
    if (index % 97 === 0) continue;
    if (index % 7 === 0) await ledger.void(id, "not_sent", endAt(at));
    else if (unpriced) await ledger.post(id, assumed(null), endAt(at));
    else
      await ledger.post(
        id,
        index % 13 === 0
          ? assumed(usd("0.10"))
          : { ...posting(100 + index, index), ...(index % 4 === 3 && { answered: "model-d" }) },
        endAt(at),
      );
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
    parts: await by(...kept),
    // From the charges; must equal the sums from the rollups.
    untagged: await by(...kept, "tag:feature"),
    // Recomputed under other prices, which keeps the amount of a carried sum.
    whatIf: (
      await ledger.whatIf({ by: kept, ...span }, () => ({
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

it("pruning keeps every sum, leaves verify clean after each step, and touches nothing that is pending", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  await fill(store);
  const before = await sums(store);
  expect(before.pending.count).toBeGreaterThan(3);
  expect(before.total[0]?.retries).toBeGreaterThan(300);
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  const had = counts(db);

  const preview = answer(db, prunePreview(horizons(berlin, rules)));
  expect(counts(db)).toEqual(had);
  const unclean: unknown[] = [];
  const pause = async () => {
    const { differences } = await store.ledger.verify();
    unclean.push(...differences);
  };
  const pruned = await pruneLedger(maintained(db, berlin), { ...rules, pause });
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
  // The remaining old charges are pending or have a later correction.
  const old = await store.ledger.charges({ until: pruned.before, limit: 1000 });
  expect(
    old.charges.filter(({ state, route, id }) => state !== "pending" && route !== "carried" && id !== "r1"),
  ).toEqual([]);

  expect(await pruneLedger(maintained(db, berlin), rules)).toMatchObject({ charges: 0, windows: 0, quarters: 0 });
});

it("windows that are created after pruning, also in another time zone, include carried sums", async () => {
  using folder = tempFolder();
  await using owned = new AsyncDisposableStack();
  const store = owned.use(await open(folder.database));
  await fill(store);
  await store.ledger.setBudget(budget(keyScope(bob.key), "total", "9000"), noon);
  const expected = (await store.ledger.windows(noon)).find(({ budget: { scope } }) => keyOfScope(scope) !== null);
  await store.ledger.removeBudget(`key:${bob.key}`, "total", noon);
  const total = await store.ledger.report({ by: ["key", "model"], ...span });
  const db = connectToWrite(folder.database);
  owned.adopt(db, (each) => void each.close());
  await pruneLedger(maintained(db, berlin), rules);

  await store.ledger.setBudget(budget(keyScope(bob.key), "total", "9000"), noon);
  const found = (await store.ledger.windows(noon)).find(({ budget: { scope } }) => keyOfScope(scope) !== null);
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
  expect((await serve.ledger.windows(noon)).find(({ budget: { scope } }) => keyOfScope(scope) !== null)).toMatchObject({
    spent: expected?.spent,
  });
});

it("reports by hour have one row without an hour for each day whose hours were pruned", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  await fill(store);
  const inDay = { since: noon - 100 * dayMs - 3_600_000, until: noon };
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  await pruneLedger(maintained(db, berlin), { ...rules, olderThanMs: pruneAgeMsMin });
  const byHour = await store.ledger.report({ by: ["hour"], ...inDay });
  const whole = await store.ledger.report({ by: [], ...inDay });
  const byDay = await store.ledger.report({ by: ["day"], ...inDay });
  const cost = (rows: typeof whole) => rows.reduce((sum, row) => sum + row.cost, 0n);
  expect(byHour.filter(({ dimensions }) => dimensions.hour === null)).toHaveLength(1);
  expect(cost(byHour)).toBe(cost(whole));
  expect(cost(byDay)).toBe(cost(whole));
  expect(byDay[0]?.dimensions.day).toBe(berlin.dateOf(inDay.since));
});

it("overviews of fixed spans keep their sums after pruning", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  await fill(store);
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  const edge = berlin.spanOf("1d", noon - 60 * dayMs).start;
  const overview = async (since: number, until: number) => {
    const tools = { ...store, memory: new SpendMemory(store.ledger, clock), calendar: berlin };
    return await runOverview(tools, {
      span: { since, until },
      by: "model",
      thenBy: "key",
      compares: true,
      now: noon,
      filter: { team: "red" },
    });
  };
  const day = (count: number) => berlin.spanOf("1d", edge + count * dayMs + dayMs / 2).start;
  const spans = [
    [day(-20), day(-17)],
    [day(-40), day(30)],
    [day(2), day(4)],
    [day(40), day(42)],
    [day(-139), noon],
  ] as const;
  const before = await Promise.all(spans.map(([since, until]) => overview(since, until)));
  await pruneLedger(maintained(db, berlin), rules);
  const after = await Promise.all(spans.map(([since, until]) => overview(since, until)));
  expect(after.map(({ series }) => series.bucket)).toEqual(["day", "day", "day", "hour", "day"]);
  for (const [index, { span: whole, series }] of after.entries()) {
    expect(whole).toEqual(before[index]?.span);
    expect(series.rows.map(({ values: _values, ...row }) => row)).toEqual(
      before[index]?.series.rows.map(({ values: _values, ...row }) => row),
    );
    expect(Number(whole.cost_usd)).toBeGreaterThan(0);
    expect(Number(whole.previous?.cost_usd)).toBeGreaterThan(0);
  }
});

it("pruning keeps the charges of a session while its budget counts them", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  const { ledger, sessions, keys } = store;
  await keys.create(key("alice", { id: alice.key }));
  const at = noon - 200 * dayMs;
  const session = { id: "run_old", key: alice.key, tags: {}, budget: usd("5"), createdAt: at, expiresAt: at + dayMs };
  await sessions.create({ ...session, secret: null, endedAt: null }, null);
  for (const [id, tags] of [
    ["in", { session: "run_old" }],
    ["out", {}],
  ] as const) {
    await ledger.hold(holdOf(id, usd("1"), { at, tags }));
    await ledger.post(id, posting(1000, 1000), endAt(at));
  }
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  expect(answer(db, prunePreview(horizons(berlin, rules)))).toMatchObject({ charges: 1 });
  expect(await pruneLedger(maintained(db, berlin), rules)).toMatchObject({ charges: 1 });
  expect(await ledger.verify()).toMatchObject({ differences: [] });
  expect(await ledger.charge("in")).toBeDefined();
  expect(await sessions.tidy(noon)).toBe(1);
  expect(await pruneLedger(maintained(db, berlin), rules)).toMatchObject({ charges: 1 });
  expect(await ledger.verify()).toMatchObject({ differences: [] });
  expect(await ledger.charge("in")).toBeUndefined();
});

it("a new budget continues sums that were read before, unless pruning ran in between", async () => {
  using folder = tempFolder();
  await using store = await open(folder.database);
  await fill(store);
  const db = connectToWrite(folder.database);
  using _ = { [Symbol.dispose]: () => db.close() };
  const long = longQueries(db, berlin);
  const writer = new Writer(db, berlin, null);
  const total = (text: string) => budget(parseScope(text) as Scope, "total", "9000", "soft");
  const set = (text: string, before: SpentBefore | null) =>
    writer.apply([["run", "budgets.setBudget", [total(text), noon, "test", before]]]);
  const spent = () => db.prepare("select spent from windows order by seq desc limit 1").pluck().get();

  const read = await long.spentBefore(total("label:env=dev"), noon);
  expect(read).toMatchObject({ sumsVersion: 0 });
  set("label:env=dev", read && { ...read, spent: '[["", "7"]]' });
  expect(spent()).toBe(7);
  await store.ledger.removeBudget("label:env=dev", "total", noon);

  const before = await Promise.all(newScopes.map((text) => long.spentBefore(total(text), noon)));
  expect(await pruneLedger(maintained(db, berlin), rules)).toMatchObject({
    charges: expect.toSatisfy((count: number) => count > 0),
  });
  newScopes.forEach((text, index) => set(text, before[index] ?? null));
  expect((await store.ledger.verify()).differences).toEqual([]);
});
