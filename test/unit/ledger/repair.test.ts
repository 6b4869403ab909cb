import { everyRequest, parseScope } from "../../../src/core/scope.ts";
import { copyFileSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { RepairedRow } from "../../../src/ports/ledger.ts";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import type { Store } from "../../../src/ports/stores.ts";
import { pruneLedger } from "../../../src/ledger/pruning.ts";
import { repair, type RepairOptions } from "../../../src/ledger/audit/repair-ledger.ts";
import { ledgerIn, maintained } from "../../../src/ledger/sqlite/maintenance.ts";
import { derivedRows, tamper } from "../../support/derived-rows.ts";
import { fillEveryScope, mixedRequest } from "../../support/every-scope.ts";
import {
  alice,
  assumed,
  bob,
  budget,
  endAt,
  holdOf,
  noon,
  openStore,
  posting,
  tempFolder,
  utc,
} from "../../support/ledger-fixtures.ts";
import { writeEmptyLedger } from "../../support/new-ledger.ts";
import { manualClock } from "../../support/manual-clock.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const clock = manualClock(noon);
const open = (path: string) => openStore({ path, calendar: utc, clock, access: "command" });

/** Writes charges in every state over some days, budgets of every period and scope, corrections and carried sums. */
async function fill(path: string, isPruned = true): Promise<void> {
  await using store = await open(path);
  const { ledger } = store;
  for (const period of ["total", "1h", "1d", "1mo"] as const)
    await ledger.setBudget(budget(everyRequest, period, "9000", "soft"), noon - 90 * dayMs);
  await fillEveryScope(ledger, ["1d", "total"]);
  for (let index = 0; index < 60; index++) {
    const at = index < 30 ? noon - 90 * dayMs + index * hourMs : noon - (60 - index) * hourMs;
    const id = `r${index}`;
    await ledger.hold(
      holdOf(id, index % 9 === 4 ? null : usd("0.10"), {
        at,
        caller: index % 3 === 0 ? bob : alice,
        models: [index % 2 === 0 ? "model-a" : "model-c"],
        retry: index % 2,
      }),
    );
    if (index % 9 === 4) await ledger.post(id, assumed(null), endAt(at));
    else if (index % 7 === 0) await ledger.void(id, "left", endAt(at));
    else if (index % 11 !== 0 || index < 30)
      await ledger.post(id, index % 5 === 1 ? assumed(usd("0.10")) : posting(100 + index, index), endAt(at));
  }
  await ledger.adjust("r50", { id: "fix", at: noon, amount: -usd("0.00001") as PicoUsd, why: "test", by: "root" });
  if (!isPruned) return;
  const db = connectToWrite(path);
  await pruneLedger(maintained(db, utc), { clock, olderThanMs: 60 * dayMs, pause: () => nextTurn() });
  db.close();
}

const filled = tempFolder();
beforeAll(() => fill(filled.database));
afterAll(() => filled[Symbol.dispose]());

async function repaired(path: string, more: Partial<RepairOptions> = {}) {
  const rows: RepairedRow[] = [];
  const result = await repair(ledgerIn(path), {
    calendar: utc,
    clock,
    pause: () => nextTurn(),
    onRepaired: (each) => rows.push(each),
    ...more,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return { rows, verification: result.verification };
}

function sumsVersion(path: string): number {
  const db = connectToWrite(path);
  try {
    return db.prepare("select sums_version from meta").pluck().get() as number;
  } finally {
    db.close();
  }
}

const oneDay = "day = (select max(day) from rollup_day) and source = 'reported'";
const pending = "(select seq from charges where state = 'pending' limit 1)";

it.each<[string, string, string, string]>([
  ["a changed spent sum of a window", "update windows set spent = spent + 7 where seq = 1", "window", "window"],
  ["changed spent sums of every window", "update windows set spent = spent * 2 + 1", "window", "window"],
  ["changed held sums of two windows", "update windows set held = held + 5 where seq in (1, 2)", "window", "window"],
  ["changed held sums of every window", "update windows set held = held * 2 + 1", "window", "window"],
  [
    "a moved window",
    "update windows set starts_at = starts_at + 1 where seq = (select max(seq) from windows)",
    "window",
    "window",
  ],
  [
    "a window with another end",
    "update windows set ends_at = ends_at + 1 where seq = (select max(seq) from windows)",
    "window",
    "window",
  ],
  ["a changed daily sum", `update rollup_day set cost = cost - 1 where ${oneDay}`, "rollup", "rollup"],
  ["a lost daily sum", `delete from rollup_day where ${oneDay}`, "rollup", "rollup"],
  ["a daily sum of an impossible date", `update rollup_day set day = '2026-11-31' where ${oneDay}`, "rollup", "rollup"],
  ["a daily sum of another key", `update rollup_day set key = key || '-not' where ${oneDay}`, "rollup", "rollup"],
  [
    "a daily sum with other tokens",
    `update rollup_day set reasoning = reasoning + 1, input = 0 where ${oneDay}`,
    "rollup",
    "rollup",
  ],
  [
    "changed daily sums, also of pruned days",
    "update rollup_day set requests = requests + 1 where day < '2026-09-15'",
    "rollup",
    "rollup",
  ],
  ["the loss of every quarter hour", "delete from rollup_quarter", "rollup", "rollup"],
  ["a misaligned quarter hour", "update rollup_quarter set starts_at = starts_at + 1", "rollup", "rollup"],
  [
    "a row of zeros",
    "insert into rollup_day select '2026-11-01', key, team, model, entry, price_group, source, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 from rollup_day limit 1",
    "rollup",
    "rollup",
  ],
  ["a daily sum of another model", `update rollup_day set entry = entry || '-x' where ${oneDay}`, "rollup", "rollup"],
  ["lost links", `delete from charge_windows where charge in ${pending}`, "link", "link"],
  [
    "links to windows of other subjects",
    `update or ignore charge_windows set window = coalesce((select max(other.seq) from windows other join windows mine using (budget, starts_at)
      where mine.seq = window and other.subject <> mine.subject), window)`,
    "link",
    "link",
  ],
  ["a link without a window", `insert into charge_windows values (${pending}, 999)`, "link", "link"],
  ["a link without a charge", "insert into charge_windows values (99999, 1)", "link", "link"],
  ["lost counts of carried sums", "delete from carried", "carried", "carried"],
  ["counts without a carried sum", "insert into carried values (99999, 1, 0, 0)", "carried", "carried"],
])("finds and repairs %s", async (_name, sql, found, repairedKind) => {
  using folder = tempFolder();
  copyFileSync(filled.database, folder.database);
  const sound = derivedRows(folder.database);
  tamper(folder.database, sql);
  const verified = async () => {
    await using store = await open(folder.database);
    return (await store.ledger.verify()).differences;
  };
  expect((await verified()).map(({ kind }) => kind)).toContain(found);
  const version = sumsVersion(folder.database);
  const { rows, verification } = await repaired(folder.database);
  expect(found !== "rollup" || sumsVersion(folder.database) > version).toBe(true);
  expect(rows.map(({ kind }) => kind)).toContain(repairedKind);
  expect(rows.filter(({ from, to }) => from === to)).toEqual([]);
  expect(verification.differences).toEqual([]);
  expect(await verified()).toEqual([]);
  expect(derivedRows(folder.database)).toEqual(sound);
  expect((await repaired(folder.database)).rows).toEqual([]);
});

it("removes a window without a budget, and a window that overlaps another", async () => {
  using folder = tempFolder();
  copyFileSync(filled.database, folder.database);
  tamper(
    folder.database,
    `delete from budgets where scope = 'all' and period = '1mo';
     insert into windows (budget, subject, starts_at, ends_at, spent, held) select budget, subject, starts_at + 5, ends_at, 1, 1 from windows where seq = (select max(seq) from windows)`,
  );
  const { rows, verification } = await repaired(folder.database);
  expect(rows.filter(({ to }) => to === "no window").length).toBeGreaterThan(1);
  expect(verification.differences).toEqual([]);
});

it.each([
  ["was lost", "delete from windows"],
  ["has another subject", "update windows set subject = 'x ' || subject where subject <> ''"],
])("a window that %s is created again by its next use, with the sums of its charges", async (_name, sql) => {
  using folder = tempFolder();
  // Only the windows of users, tags and labels have the sums of pruned charges, so nothing is pruned here.
  await fill(folder.database, false);
  const windows = async (store: Store) =>
    (await store.ledger.windows(noon))
      .filter(({ spent, held }) => spent > 0n || held > 0n)
      .map(({ budget: { id }, subject, spent, held }) => `${id} ${subject}: ${spent}, ${held}`)
      .sort();
  await using store = await open(folder.database);
  const expected = await windows(store);
  tamper(folder.database, sql);
  expect((await store.ledger.verify()).differences.map(({ kind }) => kind)).toContain("link");
  expect((await repaired(folder.database)).verification.differences).toEqual([]);
  const mixed = Array.from({ length: 36 }, (_, index) => mixedRequest(index));
  const models = ["model-a", "model-c"];
  for (const [index, sent] of [{ caller: alice, models }, { caller: bob, models }, ...mixed].entries()) {
    await store.ledger.hold(holdOf(`next-${index}`, usd("0"), sent));
    await store.ledger.void(`next-${index}`, "left", endAt(noon));
  }
  expect(await windows(store)).toEqual(expected);
  expect((await store.ledger.verify()).differences).toEqual([]);
});

it.each(["all", "each-key", "key:k-alice each-user", "each-model"])(
  "finds a lost window of settled charges in the scope %s, so that its budget is not spent twice",
  async (text) => {
    using folder = tempFolder();
    const scope = parseScope(text);
    if (scope === undefined) throw new Error(`not a scope: ${text}`);
    writeEmptyLedger(folder.database);
    await using store = await open(folder.database);
    const { ledger } = store;
    await ledger.setBudget(budget(scope, "1d", "9"), noon);
    const caller = { ...alice, user: "u_1" };
    await ledger.hold(holdOf("first", usd("1"), { caller }));
    await ledger.post("first", assumed(usd("1")), endAt(noon));
    tamper(folder.database, "delete from charge_windows; delete from windows");
    expect((await ledger.verify()).differences).toMatchObject([
      { kind: "window", expected: `spent ${usd("1")}, held 0`, found: "no window" },
    ]);
    const { rows, verification } = await repaired(folder.database);
    expect(rows).toMatchObject([{ kind: "window", from: "no window", to: "summed by the next request" }]);
    expect(verification.differences).toEqual([]);
    const asked = await ledger.hold(holdOf("next", usd("8.5"), { caller }));
    expect(asked).toMatchObject({ ok: false, reason: "no_room" });
  },
);

it.each<[string, string, string]>([
  ["a charge's cost", "update charges set cost = cost + 1 where id = 'r50'", "charge"],
  ["a charge's source", "update charges set source = 'assumed' where id = 'r50'", "charge"],
  ["an unknown source", "update charges set source = 'guessed' where id = 'r50'", "charge"],
  ["an unknown formula", "update charges set formula = 'guessed' where id = 'r50'", "charge"],
  ["an unpriced charge with a cost", "update charges set cost = 5, list_cost = 5 where formula = 'unpriced'", "charge"],
  ["a price with a changed text", "update price_versions set canonical = canonical || ' '", "price"],
  ["a carried sum of another key", "update charges set key = 'k-stranger' where route = 'carried'", "carried"],
  ["a carried sum of more retries than requests", "update carried set retries = requests + 1", "carried"],
  ["an unreadable budget", "update budgets set scope = 'everybody' where period = '1mo'", "budget"],
])("reports but does not change %s, and makes the sums agree with it", async (_name, sql, kind) => {
  using folder = tempFolder();
  copyFileSync(filled.database, folder.database);
  tamper(folder.database, sql);
  const { charges, carried } = derivedRows(folder.database);
  const { verification } = await repaired(folder.database);
  expect(new Set(verification.differences.map((difference) => difference.kind))).toEqual(new Set([kind]));
  expect(verification.differences.filter(({ id, expected, found }) => id === "" || expected === found)).toEqual([]);
  expect(derivedRows(folder.database)).toMatchObject({ charges, carried });
});

it("an interrupted repair leaves a ledger that the next repair completes", async () => {
  using folder = tempFolder();
  copyFileSync(filled.database, folder.database);
  const sound = derivedRows(folder.database);
  tamper(
    folder.database,
    "update windows set spent = spent + 1, held = held + 1; update rollup_day set cost = cost + 1; delete from rollup_quarter",
  );
  let left = 7;
  const dying = repaired(folder.database, {
    onRepaired: () => {
      if (left-- === 0) throw new Error("killed");
    },
  });
  await expect(dying).rejects.toThrow("killed");
  const halfway = await (await open(folder.database)).ledger.verify();
  expect(halfway.differences.length).toBeGreaterThan(0);
  expect((await repaired(folder.database)).verification.differences).toEqual([]);
  expect(derivedRows(folder.database)).toEqual(sound);
});

it("verification lists a thousand differences, and counts the rest", async () => {
  using folder = tempFolder();
  copyFileSync(filled.database, folder.database);
  tamper(
    folder.database,
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1500) insert into charge_windows select 100000 + i, i from n",
  );
  await using store = await open(folder.database);
  expect(await store.ledger.verify()).toMatchObject({ differences: { length: 1000 }, unlisted: 500 });
});

it("repair refuses a path without a ledger", async () => {
  using folder = tempFolder();
  expect(
    await repair(ledgerIn(folder.database), { calendar: utc, clock, pause: () => nextTurn(), onRepaired: () => {} }),
  ).toEqual({ ok: false, failure: { kind: "missing" } });
});
