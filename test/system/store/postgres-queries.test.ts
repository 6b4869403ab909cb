// @module-tag races
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { reportDimensions, type ChargeQuery, type ReportDimension, type TimeSpan } from "../../../src/ports/ledger.ts";
import { spendDimensions, type SpendQuery } from "../../../src/ports/spend.ts";
import { copyToPostgres } from "../../../src/ledger/copy/copy.ts";
import type { LongQueries, LongQuery } from "../../../src/ledger/queries/interfaces.ts";
import { answer } from "../../../src/ledger/postgres/answer.ts";
import { connect, type Database } from "../../../src/ledger/postgres/connection.ts";
import {
  postgresShortQueries,
  longQueries as longQueriesOfServer,
  streamCharges as streamFromPostgres,
} from "../../../src/ledger/postgres/queries.ts";
import { answerEach } from "../../../src/ledger/sqlite/answer.ts";
import { connectToRead, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import {
  longQueries as longQueriesOfFile,
  sqliteShortQueries,
  streamCharges,
} from "../../../src/ledger/sqlite/queries.ts";
import { samples } from "../../../src/ledger/tables/account-samples.ts";
import { fillLedger } from "../../support/full-ledger.ts";
import { alice, bob, noon, priceId, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { newDatabase } from "../../support/shared-postgres.ts";

/*
 * The same pruned ledger, with rows of every kind, in both databases: every query must return the same.
 */

const dayMs = 86_400_000;
const owned = new AsyncDisposableStack();
let path: string;
let sqlite: Connection;
let database: Database;
let sqliteLong: LongQueries;
let postgresLong: LongQueries;

beforeAll(async () => {
  const folder = owned.use(tempFolder());
  path = folder.database;
  await fillLedger(path, 500);
  const { server } = owned.use(await newDatabase());
  sqlite = owned.adopt(connectToRead(path), (db) => void db.close());
  database = owned.use(connect(server, { applicationName: "test", max: 2, statementMs: null }));
  {
    await using session = await database.session();
    expect(await copyToPostgres({ path, client: session.client })).toMatchObject({ ok: true });
  }
  sqliteLong = longQueriesOfFile(sqlite, utc);
  postgresLong = longQueriesOfServer(database, database, utc);
});
afterAll(() => owned.disposeAsync());

async function expectSame([name, ...args]: LongQuery): Promise<void> {
  const answer = (queries: LongQueries) => (queries[name] as (...all: unknown[]) => Promise<unknown>)(...args);
  expect(await answer(postgresLong), JSON.stringify([name, ...args])).toEqual(await answer(sqliteLong));
}

const instant = fc.integer({ min: noon - 210 * dayMs, max: noon + 3 * dayMs });
const quarter = fc.integer({ min: -210 * 96, max: 3 * 96 }).map((quarters) => noon + quarters * 900_000);
const spanOf = (edge: fc.Arbitrary<number>): fc.Arbitrary<TimeSpan> =>
  fc.tuple(edge, edge).map(([a, b]) => ({ since: Math.min(a, b), until: Math.max(a, b) }));
const some = <T>(values: readonly T[]) => fc.shuffledSubarray([...values]);
const maybe = <T>(values: readonly T[]) => fc.constantFrom(undefined, ...values);
const given = <Query extends object>(query: { readonly [Name in keyof Query]: Query[Name] | undefined }): Query =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Query;

const keys = [alice.key, bob.key, "stranger"];
const models = ["model-a", "model-b"];
const tags = ["feature", "other"];
const dimensions: readonly ReportDimension[] = [...reportDimensions, ...tags.map((name) => `tag:${name}` as const)];
const reportQuery = fc.tuple(some(dimensions), spanOf(instant)).map(([by, span]) => ({ by, ...span }));

const spend: fc.Arbitrary<LongQuery> = fc
  .tuple(
    some(spendDimensions),
    fc.constantFrom("hour", "all", "day"),
    spanOf(quarter),
    maybe(keys),
    maybe([[], [null], ["model-a"], [alice.key, null], ["red", "general"]]),
  )
  .map(([by, each, { since, until }, key, apart]) => {
    const edge = (at: number) => (each === "day" ? utc.spanOf("1d", at).start : at);
    return ["spend", given<SpendQuery>({ by, each, since: edge(since), until: edge(until), key, apart })];
  });

const charges: fc.Arbitrary<LongQuery> = fc
  .record({
    key: maybe(keys),
    model: maybe(models),
    state: maybe(["pending", "posted", "voided"] as const),
    adjusts: maybe(["r451"]),
    tag: maybe([
      { name: "feature", value: 'NULL, "a\\b" {c} été 東京\t\n' },
      { name: "none", value: "x" },
    ]),
    since: maybe([noon - 20 * dayMs]),
    until: maybe([noon - 10 * dayMs]),
    after: maybe(["r470", "r481", "r499", "unknown"]),
    limit: fc.integer({ min: 1, max: 60 }),
  })
  .map((query) => ["charges", given<ChargeQuery>(query)]);

const others: readonly LongQuery[] = [
  ["prunedUntil"],
  ["firstDay"],
  ["corrections", noon - 30 * dayMs, noon],
  ["corrections", 0, noon + 9 * dayMs],
  ["samples", 0, noon + 1],
  ["samples", 0, noon],
  ["audit", { limit: 5 }],
  ["audit", { limit: 3, after: 6, since: 0, until: noon }],
  ["windowsToAlert", noon, 10],
];

it("PostgreSQL and SQLite return the same reports, spending, charges and posted charges for any query", async () => {
  const postedCharges: fc.Arbitrary<LongQuery> = fc
    .tuple(
      reportQuery,
      maybe([
        { at: noon - 40 * dayMs, seq: 0 },
        { at: noon - 20 * dayMs, seq: 300 },
      ]),
    )
    .map(([query, after = null]) => ["postedCharges", query, after]);
  const reads = fc.oneof(
    reportQuery.map((query): LongQuery => ["report", query]),
    spend,
    charges,
    postedCharges,
  );
  await fc.assert(fc.asyncProperty(reads, expectSame), { numRuns: 300 });
});

it.each(others.map((query) => ({ name: query[0], query })))(
  "PostgreSQL and SQLite return the same $name",
  ({ query }) => expectSame(query),
);

it("PostgreSQL and SQLite return the same totals, except that each counts written rows in its own way", async () => {
  const { written, ...totals } = await postgresLong.totals();
  expect({ ...totals, written: null }).toEqual({
    ...(await sqliteLong.totals()),
    written: null,
  });
  expect(written).toBeGreaterThan(500);
});

it("PostgreSQL and SQLite return the same single charges, prices, pending charges, old holds, budgets and windows", async () => {
  const [sqliteShort, postgresShort] = [
    sqliteShortQueries(sqlite, utc, () => null),
    postgresShortQueries(database, utc),
  ];
  for (const id of ["r0", "r496", "r451-a", "unknown"])
    expect(await postgresShort.charge(id)).toEqual(await sqliteShort.charge(id));
  // PostgreSQL cannot store the character U+0000.
  expect(await sqliteShort.charge("r1")).toMatchObject({ servedModel: "a\0b" });
  expect(await postgresShort.charge("r1")).toEqual({ ...(await sqliteShort.charge("r1")), servedModel: "a\u{FFFD}b" });
  for (const id of [priceId, "unknown"]) expect(await postgresShort.price(id)).toEqual(await sqliteShort.price(id));
  expect(await postgresShort.pending()).toEqual(await sqliteShort.pending());
  expect((await postgresShort.oldHolds(noon + dayMs)).length).toBeGreaterThan(0);
  expect(await postgresShort.oldHolds(noon + dayMs)).toEqual(await sqliteShort.oldHolds(noon + dayMs));
  expect(await answer(database, samples.queries.latest())).toEqual(answerEach(sqlite, samples.queries.latest()));
  expect(await postgresShort.budgets()).toEqual(await sqliteShort.budgets());
  for (const at of [noon, noon - 3 * dayMs, noon - 300 * dayMs, noon + 40 * dayMs]) {
    await expectSame(["windows", at]);
    for (const caller of [alice, bob, { key: "k-new", team: "red" }, { key: "", team: null }])
      expect(await postgresShort.windowsOf(caller, at)).toEqual(await sqliteShort.windowsOf(caller, at));
  }
});

it("PostgreSQL and SQLite stream the same charges", async () => {
  const whole = async (parts: AsyncIterable<readonly Charge[]>) => {
    const all: Charge[] = [];
    for await (const part of parts) all.push(...part);
    return all;
  };
  const span = { since: noon - 100 * dayMs, until: noon + 1 };
  const streamed = await whole(streamFromPostgres(database, span));
  expect(streamed.length).toBeGreaterThan(200);
  expect(streamed).toEqual(await whole(streamCharges(path, span)));
});
