// @module-tag races
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PostgresServer } from "../../../src/core/postgres-url.ts";
import { reportDimensions, type RepairedRow } from "../../../src/ports/ledger.ts";
import { copyToPostgres } from "../../../src/ledger/copy/copy.ts";
import { connect, type Database } from "../../../src/ledger/postgres/connection.ts";
import { answer } from "../../../src/ledger/postgres/answer.ts";
import { longQueries, postgresShortQueries } from "../../../src/ledger/postgres/queries.ts";
import { applyBudgetStep } from "../../../src/ledger/postgres/budget-steps.ts";
import { readBudgets } from "../../../src/ledger/queries/windows.ts";
import { prune, pruneLedger } from "../../../src/ledger/pruning.ts";
import { repair } from "../../../src/ledger/audit/repair-ledger.ts";
import { ledgerOn, maintained } from "../../../src/ledger/postgres/maintenance.ts";
import { verify } from "../../../src/ledger/postgres/verify.ts";
import { fillEveryScope } from "../../support/every-scope.ts";
import { fillLedger } from "../../support/full-ledger.ts";
import { noon, openStore, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { newDatabase, type TestDatabase } from "../../support/shared-postgres.ts";

/*
 * Verification, repair and retention of a PostgreSQL ledger that was copied from a SQLite ledger after pruning.
 */

const dayMs = 86_400_000;
const clock = manualClock(noon);
const owned = new AsyncDisposableStack();
let sound: TestDatabase;

beforeAll(async () => {
  const folder = owned.use(tempFolder());
  await fillLedger(folder.database, 400);
  {
    await using store = await openStore({ path: folder.database, calendar: utc, clock, access: "command" });
    await fillEveryScope(store.ledger, ["1d", "1mo"]);
  }
  sound = owned.use(await newDatabase());
  {
    await using database = connect(sound.server, { applicationName: "test", max: 2, statementMs: null });
    await using session = await database.session();
    expect(await copyToPostgres({ path: folder.database, client: session.client })).toMatchObject({ ok: true });
  }
});
afterAll(() => owned.disposeAsync());

interface Copy extends AsyncDisposable {
  readonly database: Database;
  readonly server: PostgresServer;
}

/** Returns a copy of the sound database. */
async function copied(): Promise<Copy> {
  await using here = new AsyncDisposableStack();
  const { server } = here.use(await newDatabase({ like: sound }));
  const database = here.use(connect(server, { applicationName: "test", max: 2, statementMs: null }));
  const kept = here.move();
  return { database, server, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function derivedRows(database: Database) {
  const all = (sql: string) => database.rows(sql);
  const sums = (table: string) =>
    `select (jsonb_agg(to_jsonb(r) order by to_jsonb(r)::text))::text as rows from ${table} r`;
  return {
    windows: await all("select * from windows order by seq"),
    days: await all(sums("rollup_day")),
    quarters: await all(sums("rollup_quarter")),
    carried: await all("select * from carried order by charge"),
    charges: await all("select * from charges order by seq"),
  };
}

async function repaired(server: PostgresServer) {
  const rows: RepairedRow[] = [];
  const result = await repair(ledgerOn(server), {
    calendar: utc,
    clock,
    pause: () => nextTurn(),
    onRepaired: (each) => rows.push(each),
  });
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return { rows, verification: result.verification };
}

it("a copied ledger has no differences, and repair does not change it", async () => {
  await using copy = await copied();
  const shares: number[] = [];
  expect(await verify(copy.database, { calendar: utc, onProgress: (share) => shares.push(share) })).toMatchObject({
    differences: [],
  });
  expect(shares.at(-1)).toBeGreaterThan(0.9);
  const before = await derivedRows(copy.database);
  expect(await repaired(copy.server)).toMatchObject({ rows: [], verification: { differences: [] } });
  expect(await derivedRows(copy.database)).toEqual(before);
});

const oneDay = "day = (select max(day) from rollup_day) and source = 'reported'";
const pending = "(select seq from charges where state = 'pending' order by seq limit 1)";
const lastWindow = "seq = (select max(seq) from windows)";

it.each<[string, string, string]>([
  ["a wrong spent amount in every window", "update windows set spent = spent * 2 + 1", "window"],
  ["a wrong held amount in every window", "update windows set held = held * 2 + 1", "window"],
  ["a moved window", `update windows set starts_at = starts_at + 1 where ${lastWindow}`, "window"],
  ["a changed daily sum", `update rollup_day set cost = cost - 1 where ${oneDay}`, "rollup"],
  ["a missing daily sum", `delete from rollup_day where ${oneDay}`, "rollup"],
  [
    "changed daily sums, also of pruned days",
    "update rollup_day set requests = requests + 1 where day < '2026-08-15'",
    "rollup",
  ],
  ["missing quarter hours", "delete from rollup_quarter", "rollup"],
  ["missing links", `update charges set windows = '{}' where seq = ${pending}`, "link"],
  [
    "links to windows of other subjects",
    `update charges set windows = array(select coalesce((select max(other.seq) from windows other join windows mine using (budget, starts_at)
      where mine.seq = linked and other.subject <> mine.subject), linked) from unnest(windows) linked) where state = 'pending'`,
    "link",
  ],
  ["a link to a missing window", `update charges set windows = windows || 999::bigint where seq = ${pending}`, "link"],
  ["missing counts of carried sums", "delete from carried", "carried"],
  ["counts of a missing carried sum", "insert into carried values (99999, 1, 0, 0)", "carried"],
])("finds and repairs %s", async (_name, sql, kind) => {
  await using copy = await copied();
  const before = await derivedRows(copy.database);
  await copy.database.run(sql);
  expect((await verify(copy.database, { calendar: utc })).differences.map((each) => each.kind)).toContain(kind);
  const { rows, verification } = await repaired(copy.server);
  expect(rows.map((each) => each.kind)).toContain(kind);
  expect(rows.filter(({ from, to }) => from === to)).toEqual([]);
  expect(verification.differences).toEqual([]);
  const { windows, carried, charges } = await derivedRows(copy.database);
  expect({ windows, carried, charges }).toEqual({
    windows: before.windows,
    carried: before.carried,
    charges: before.charges,
  });
  expect((await repaired(copy.server)).rows).toEqual([]);
});

it("verify adds up sums in several shards, and repair merges them into one row", async () => {
  await using copy = await copied();
  await copy.database.run(`
    insert into rollup_day select row.* from (select * from rollup_day where ${oneDay}) old, jsonb_populate_record(null::rollup_day, to_jsonb(old) || (
      select jsonb_object_agg(name, 0) || '{"shard": 3, "requests": 1, "cost": 5}' from jsonb_each(to_jsonb(old)) as given (name, value)
      where jsonb_typeof(value) = 'number')) row;
    update rollup_day set requests = requests - 1, cost = cost - 5 where shard = 0 and ${oneDay}`);
  expect((await verify(copy.database, { calendar: utc })).differences).toEqual([]);
  await copy.database.run(`update rollup_day set cost = cost + 1 where shard = 3`);
  expect((await repaired(copy.server)).verification.differences).toEqual([]);
  expect(await copy.database.rows("select 1 from rollup_day where shard = 3")).toEqual([]);
});

it.each<[string, string, string]>([
  ["a changed cost of a charge", "update charges set cost = cost + 1 where id = 'r398'", "charge"],
  ["a changed price", "update price_versions set canonical = canonical || ' '", "price"],
  ["a missing task of a settled charge", "delete from tasks where settled_at is not null", "charge"],
  [
    "a settled task whose charge is pending",
    "update tasks set settled_at = 1, next_poll_at = null where settled_at is null",
    "task",
  ],
  ["a carried sum of another key", "update charges set key = 'k-missing' where route = 'carried'", "carried"],
  [
    "a budget with an invalid scope",
    "update budgets set scope = 'everybody' where scope = 'all' and period = '1mo'",
    "budget",
  ],
  ["a correction of a missing charge", "update charges set adjusts = 'missing' where adjusts is not null", "charge"],
])("reports %s, changes no charge, and makes the sums agree with the charges", async (_name, sql, kind) => {
  await using copy = await copied();
  await copy.database.run(sql);
  const { charges } = await derivedRows(copy.database);
  const { verification } = await repaired(copy.server);
  expect(new Set(verification.differences.map((difference) => difference.kind))).toEqual(new Set([kind]));
  expect((await derivedRows(copy.database)).charges).toEqual(charges);
});

it("verify lists 1,000 differences and counts the others", async () => {
  await using copy = await copied();
  await copy.database.run("insert into carried select 100000 + n, 1, 0, 0 from generate_series(1, 1500) n");
  expect(await verify(copy.database, { calendar: utc })).toMatchObject({
    differences: { length: 1000 },
    unlisted: 500,
  });
});

const span = { since: noon - 400 * dayMs, until: noon + dayMs };
/** Pruned charges have no hour and no user. */
const byAll = reportDimensions.filter((name) => name !== "hour" && name !== "user");

async function sums(database: Database) {
  const { windows, report } = longQueries(database, database, utc);
  return {
    windows: await windows(noon),
    parts: await report({ by: byAll, ...span }),
    // This report reads the charges; it must equal the rollups.
    untagged: await report({ by: [...byAll, "tag:none"], ...span }),
    pending: await postgresShortQueries(database, utc).pending(),
  };
}

it("pruning drops empty months and compacts large ones, but not while another session reads them", async () => {
  await using copy = await copied();
  const { database, server } = copy;
  const rules = { calendar: utc, clock, olderThanMs: 40 * dayMs, pause: () => nextTurn(), dryRun: false };
  const voided = (at: string) => `
    select farebox_ensure_partitions(extract(epoch from '${at}'::timestamptz)::bigint * 1000);
    insert into charges (id, kind, state, owner, admitted_at, ended_at, key, route, model, stream)
      select 'v-${at}-' || n, 'request', 'voided', 7, extract(epoch from '${at}'::timestamptz)::bigint * 1000 + n, 1, 'k', 'chat', 'm', 0 from generate_series(1, 2000) n`;
  await database.run(voided("2025-03-05"));
  await database.run(voided("2026-09-05"));
  const months = async () =>
    (
      await database.rows<{ name: string; bytes: bigint }>(
        "select relname as name, pg_relation_size(oid) as bytes from pg_class where relname in ('charges_2025_03', 'charges_2026_09') order by 1",
      )
    ).map(({ name, bytes }) => [name, bytes > 100_000n]);
  expect(await months()).toEqual([
    ["charges_2025_03", true],
    ["charges_2026_09", true],
  ]);
  const before = await sums(database);
  {
    await using reader = await database.session();
    await reader.run("begin");
    await reader.rows("select 1 from charges limit 1");
    expect(await prune(ledgerOn(server), rules)).toMatchObject({ ok: true });
    expect(await months()).toEqual([
      ["charges_2025_03", true],
      ["charges_2026_09", true],
    ]);
  }
  expect(await prune(ledgerOn(server), rules)).toMatchObject({ ok: true, pruned: { charges: 0 } });
  expect(await months()).toEqual([["charges_2026_09", false]]);
  expect((await verify(database, { calendar: utc })).differences).toEqual([]);
  expect(await sums(database)).toEqual(before);
  const indexes = await database.rows<{ of: string; count: bigint }>(
    "select relname as of, count(*) from pg_index join pg_class on pg_class.oid = indrelid where relname like 'charges\\_2026%' group by 1",
  );
  expect(new Set(indexes.map(({ count }) => count)).size).toBe(1);
});

it("pruning keeps every sum and all pending charges, and verify finds no difference after any step", async () => {
  await using copy = await copied();
  const { database, server } = copy;
  await database.run(
    `insert into budgets (scope, period, mode, amount_limit) values ('team:red each-user', 'total', 'soft', 9000), ('label:env=prod each-model', '1mo', 'soft', 9000)`,
  );
  await database.transaction(async (db) => {
    for (const budget of (await answer(db, readBudgets())).slice(-2))
      await applyBudgetStep(db, utc, { budgets: "open", budget, at: noon });
  });
  expect((await verify(database, { calendar: utc })).differences).toEqual([]);
  const before = await sums(database);
  expect(before.pending.count).toBeGreaterThan(1);
  const rules = { calendar: utc, clock, olderThanMs: 40 * dayMs, pause: () => nextTurn() };
  const dry = await prune(ledgerOn(server), { ...rules, dryRun: true });
  const unclean: unknown[] = [];
  const pause = async () => void unclean.push(...(await verify(database, { calendar: utc })).differences);
  const pruned = await pruneLedger(maintained(database, utc), { ...rules, pause });
  expect(unclean).toEqual([]);
  expect(dry).toEqual({ ok: true, pruned });
  expect(pruned.charges).toBeGreaterThan(30);
  expect(await database.row("select sums_version > 0 as has_risen from meta")).toEqual({ has_risen: true });
  expect(pruned.windows).toBeGreaterThan(10);
  expect(await sums(database)).toEqual(before);
  expect(await longQueries(database, database, utc).prunedUntil()).toBe(pruned.before);
  const left = await database.rows(
    "select distinct session from charges where admitted_at < $1 and state <> 'pending' and route <> 'carried'",
    [pruned.before],
  );
  // Charges of a session are kept as long as the session.
  expect(left).toEqual([{ session: "run_full" }]);
  const shares: number[] = [];
  expect(
    await prune(ledgerOn(server), { ...rules, dryRun: false, onProgress: (share) => shares.push(share) }),
  ).toMatchObject({ ok: true, pruned: { charges: 0, windows: 0, quarters: 0 } });
});
