import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { RepairedRow } from "../../../src/ledger/audit/repair-row.ts";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import type { Store } from "../../../src/ledger/store.ts";
import { prune } from "../../../src/ledger/sqlite/prune.ts";
import { repair, type RepairOptions } from "../../../src/ledger/sqlite/repair.ts";
import { derivedRows, tamper } from "../../support/derived-rows.ts";
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
import { manualClock } from "../../support/manual-clock.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const clock = manualClock(noon);
const open = (path: string) => openStore({ path, calendar: utc, clock, access: "command" });

/** Charges in every state over some days, pending ones before budgets of every period, corrections and carried sums. */
async function fill(path: string): Promise<void> {
  await using store = await open(path);
  const { ledger } = store;
  for (const period of ["total", "1h", "1d", "1mo"] as const)
    await ledger.setBudget(budget({ kind: "all" }, period, "9000", "soft"), noon - 90 * dayMs);
  await ledger.setBudget(budget({ kind: "eachKey", team: null }, "1d", "9000", "soft"), noon - 90 * dayMs);
  for (let index = 0; index < 60; index++) {
    const at = index < 30 ? noon - 90 * dayMs + index * hourMs : noon - (60 - index) * hourMs;
    const id = `r${index}`;
    await ledger.hold(
      holdOf(id, index % 9 === 4 ? null : usd("0.10"), { at, caller: index % 3 === 0 ? bob : alice, retry: index % 2 }),
    );
    if (index % 9 === 4) await ledger.post(id, assumed(null), endAt(at));
    else if (index % 7 === 0) await ledger.void(id, "left", endAt(at));
    else if (index % 11 !== 0 || index < 30)
      await ledger.post(id, index % 5 === 1 ? assumed(usd("0.10")) : posting(100 + index, index), endAt(at));
  }
  await ledger.adjust("r50", { id: "fix", at: noon, amount: -usd("0.00001") as PicoUsd, why: "test", by: "root" });
  const db = connectToWrite(path);
  await prune(db, { calendar: utc, clock, olderThanMs: 60 * dayMs, pause: () => nextTurn() });
  db.close();
}

async function repaired(path: string, more: Partial<RepairOptions> = {}) {
  const rows: RepairedRow[] = [];
  const result = await repair({
    path,
    calendar: utc,
    clock,
    pause: () => nextTurn(),
    onRepaired: (each) => rows.push(each),
    ...more,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return { rows, verification: result.verification };
}

const oneDay = "day = (select max(day) from rollup_day) and source = 'reported'";
const pending = "(select seq from charges where state = 'pending' limit 1)";

it.each<[string, string, string, string]>([
  ["spent of a window", "update windows set spent = spent + 7 where seq = 1", "window", "window"],
  ["spent of every window", "update windows set spent = spent * 2 + 1", "window", "window"],
  ["held of a window", "update windows set held = held + 5 where seq in (1, 2)", "window", "window"],
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
  ["a changed day", `update rollup_day set cost = cost - 1 where ${oneDay}`, "rollup", "rollup"],
  ["a lost day", `delete from rollup_day where ${oneDay}`, "rollup", "rollup"],
  ["an invented day", `update rollup_day set day = '2026-11-31' where ${oneDay}`, "rollup", "rollup"],
  ["a day of another key", `update rollup_day set key = key || '-not' where ${oneDay}`, "rollup", "rollup"],
  [
    "a day with other tokens",
    `update rollup_day set reasoning = reasoning + 1, input = 0 where ${oneDay}`,
    "rollup",
    "rollup",
  ],
  [
    "a day of carried sums",
    "update rollup_day set requests = requests + 1 where day < '2026-09-15'",
    "rollup",
    "rollup",
  ],
  ["every quarter hour lost", "delete from rollup_quarter", "rollup", "rollup"],
  ["a quarter hour that is none", "update rollup_quarter set starts_at = starts_at + 1", "rollup", "rollup"],
  [
    "a row of zeros",
    "insert into rollup_day select '2026-11-01', key, team, model, price_group, source, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 from rollup_day limit 1",
    "rollup",
    "rollup",
  ],
  ["lost links", `delete from charge_windows where charge in ${pending}`, "link", "link"],
  ["a link to nothing", `insert into charge_windows values (${pending}, 999)`, "link", "link"],
  ["a link of no charge", "insert into charge_windows values (99999, 1)", "link", "link"],
  ["lost counts of carried sums", "delete from carried", "carried", "carried"],
  ["counts of no carried sum", "insert into carried values (99999, 1, 0, 0)", "carried", "carried"],
])("finds and repairs %s", async (_name, sql, found, repairedKind) => {
  using folder = tempFolder();
  await fill(folder.database);
  const sound = derivedRows(folder.database);
  tamper(folder.database, sql);
  const verified = async () => {
    await using store = await open(folder.database);
    return (await store.ledger.verify()).differences;
  };
  expect((await verified()).map(({ kind }) => kind)).toContain(found);
  const { rows, verification } = await repaired(folder.database);
  expect(rows.map(({ kind }) => kind)).toContain(repairedKind);
  expect(rows.every(({ from, to }) => from !== to)).toBe(true);
  expect(verification.differences).toEqual([]);
  expect(await verified()).toEqual([]);
  expect(derivedRows(folder.database)).toEqual(sound);
  expect((await repaired(folder.database)).rows).toEqual([]);
});

it("removes a window of no budget, and one in the place of another", async () => {
  using folder = tempFolder();
  await fill(folder.database);
  tamper(
    folder.database,
    `delete from budgets where scope = 'all' and period = '1mo';
     insert into windows (budget, subject, starts_at, ends_at, spent, held) select budget, subject, starts_at + 5, ends_at, 1, 1 from windows where seq = (select max(seq) from windows)`,
  );
  const { rows, verification } = await repaired(folder.database);
  expect(rows.filter(({ to }) => to === "no window").length).toBeGreaterThan(1);
  expect(verification.differences).toEqual([]);
});

it("a window that was lost is made by its next use, with the sums of its charges", async () => {
  using folder = tempFolder();
  await fill(folder.database);
  const windows = async (store: Store) =>
    (await store.ledger.windows(noon)).map(({ subject, spent, held }) => [subject, spent, held]);
  await using store = await open(folder.database);
  const expected = await windows(store);
  tamper(folder.database, "delete from windows");
  expect((await store.ledger.verify()).differences.map(({ kind }) => kind)).toContain("link");
  expect((await repaired(folder.database)).verification.differences).toEqual([]);
  for (const caller of [alice, bob]) {
    await store.ledger.hold(holdOf(`next-${caller.key}`, usd("0"), { caller }));
    await store.ledger.void(`next-${caller.key}`, "left", endAt(noon));
  }
  expect(await windows(store)).toEqual(expected);
  expect((await store.ledger.verify()).differences).toEqual([]);
});

it.each<[string, string, string]>([
  ["a charge's cost", "update charges set cost = cost + 1 where id = 'r50'", "charge"],
  ["a charge's source", "update charges set source = 'assumed' where id = 'r50'", "charge"],
  ["an unknown source", "update charges set source = 'guessed' where id = 'r50'", "charge"],
  ["an unknown formula", "update charges set formula = 'guessed' where id = 'r50'", "charge"],
  ["an unpriced charge with a cost", "update charges set cost = 5, list_cost = 5 where formula = 'unpriced'", "charge"],
  ["a price", "update price_versions set canonical = canonical || ' '", "price"],
  ["a carried sum of another key", "update charges set key = 'k-stranger' where route = 'carried'", "carried"],
  ["a carried sum of more retries than requests", "update carried set retries = requests + 1", "carried"],
  ["a budget", "update budgets set scope = 'everybody' where period = '1mo'", "budget"],
])("finds, names and leaves %s, and makes the sums agree with it", async (_name, sql, kind) => {
  using folder = tempFolder();
  await fill(folder.database);
  tamper(folder.database, sql);
  const { charges, carried } = derivedRows(folder.database);
  const { verification } = await repaired(folder.database);
  expect(new Set(verification.differences.map((difference) => difference.kind))).toEqual(new Set([kind]));
  expect(verification.differences.every(({ id, expected, found }) => id !== "" && expected !== found)).toBe(true);
  expect(derivedRows(folder.database)).toMatchObject({ charges, carried });
});

it("broken off anywhere, leaves a ledger that the next repair finishes", async () => {
  using folder = tempFolder();
  await fill(folder.database);
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

it("lists a thousand differences, and says how many more there are", async () => {
  using folder = tempFolder();
  await fill(folder.database);
  tamper(
    folder.database,
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1500) insert into charge_windows select 100000 + i, i from n",
  );
  await using store = await open(folder.database);
  expect(await store.ledger.verify()).toMatchObject({ differences: { length: 1000 }, unlisted: 500 });
});

it("refuses a path without a ledger", async () => {
  using folder = tempFolder();
  expect(
    await repair({ path: folder.database, calendar: utc, clock, pause: () => nextTurn(), onRepaired: () => {} }),
  ).toEqual({ ok: false, failure: { kind: "missing" } });
});
