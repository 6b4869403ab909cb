// @module-tag races
import { afterAll, describe, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import { parsePostgresUrl, type PostgresServer } from "../../../src/core/postgres-url.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import { knownSchema } from "../../../src/ledger/postgres/migrate.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { budget, holdOf, posting } from "../../support/ledger-fixtures.ts";
import { nextRelease, nextSchemaOf } from "../../support/next-release.ts";
import { query } from "../../support/postgres-client.ts";
import { LedgerProxy } from "../../support/postgres-proxies.ts";
import { runFarebox } from "../../support/farebox-process.ts";
import { newDatabase, type TestDatabase } from "../../support/shared-postgres.ts";

const known = knownSchema();
const next = nextSchemaOf("postgres");
const release = await nextRelease();
afterAll(() => release[Symbol.asyncDispose]());
const { program } = release;

function serverOf(url: string): PostgresServer {
  const parsed = parsePostgresUrl(url);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.server;
}

function on(url: string): Harness {
  const cli = harness();
  cli.env = { FAREBOX_DATABASE: url, FAREBOX_TIME_ZONE: "Europe/Berlin" };
  return cli;
}

/** Runs a command of the next release. */
const farebox = (url: string, ...args: string[]) =>
  runFarebox(args, { program, env: { FAREBOX_DATABASE: url, FAREBOX_TIME_ZONE: "Europe/Berlin" } });

/** Creates a ledger of this release with a key, a budget, a posted charge and a pending one. */
async function ledgerOfThisRelease(): Promise<TestDatabase> {
  const database = await newDatabase();
  using cli = on(database.url);
  expect((await cli.run("keys", "create", "alice")).code).toBe(0);
  await using proxy = await LedgerProxy.open(serverOf(database.url));
  await proxy.setBudget(budget(everyRequest, "1d", "9"));
  for (const id of ["posted", "pending"]) expect(await proxy.hold(holdOf(id, usd("1")))).toMatchObject({ ok: true });
  expect(await proxy.post("posted", posting(100, 10))).toMatchObject({ ok: true });
  return database;
}

/** Returns every row, function and sequence of a ledger. */
async function contentOf(url: string): Promise<unknown> {
  const tables = await query<{ name: string; sql: string }>(
    url,
    `select relname as name, format('select coalesce(jsonb_agg(to_jsonb(r) order by to_jsonb(r)::text), ''[]'') as rows from %I r', relname) as sql
     from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') order by relname`,
  );
  const functions = await query(
    url,
    `select proname, pg_get_functiondef(oid) as made from pg_proc where pronamespace = current_schema()::regnamespace order by proname`,
  );
  const sequences = await query(
    url,
    "select sequencename, last_value from pg_sequences where schemaname = current_schema() order by 1",
  );
  return {
    rows: await Promise.all(tables.map(async ({ name, sql }) => [name, await query(url, sql)])),
    functions,
    sequences,
  };
}

/** Schemas of Farebox in the database. An upgrade must not create one. */
const schemasOf = (url: string) => query(url, "select nspname from pg_namespace where nspname !~ '^pg_' order by 1");

describe("an upgrade of a PostgreSQL ledger", () => {
  it("changes the ledger in its place, and makes no backup", async () => {
    await using database = await ledgerOfThisRelease();
    const schemas = await schemasOf(database.url);
    const charges = await query(database.url, "select * from charges order by id");
    expect(charges).toMatchObject([
      { id: "pending", state: "pending" },
      { id: "posted", state: "posted" },
    ]);
    const place = database.url.replace(/:[^:/]+@/, "@");
    expect(await farebox(database.url, "keys", "create", "bob")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        `its schema version ${known} is older than ${next}; upgrade it with farebox db migrate or farebox serve\n`,
      ),
    });
    expect((await farebox(database.url, "doctor")).stdout).toContain(
      `stop all proxies and back it up with pg_dump; then farebox serve or farebox db migrate upgrades it to ${next}`,
    );
    expect(await farebox(database.url, "db", "migrate")).toMatchObject({
      code: 0,
      stdout: `migrated the ledger at ${place} from schema version ${known} to ${next}\n`,
    });
    expect(await query(database.url, "select name, nickname from keys")).toEqual([
      { name: "alice", nickname: "alice!" },
    ]);
    expect(await schemasOf(database.url)).toEqual(schemas);
    expect(await query(database.url, "select * from charges order by id")).toEqual(charges);
    expect(await farebox(database.url, "verify")).toMatchObject({
      code: 0,
      stdout: "2 charges checked, no difference\n",
    });
    const again = await farebox(database.url, "db", "migrate", "--no-backup", "--json");
    expect(JSON.parse(again.stdout)).toEqual({ from: next, to: next, backup: null, restore: null });
  });

  it("happens once when several processes start together", async () => {
    await using database = await ledgerOfThisRelease();
    const versions = () =>
      query<{ version: number }>(database.url, "select version::int from farebox_migrations order by 1");
    const before = await versions();
    expect(before.at(-1)).toEqual({ version: known });
    const ran = await Promise.all([1, 2, 3, 4].map(() => farebox(database.url, "db", "migrate")));
    expect(ran.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(ran.filter(({ stdout }) => stdout.startsWith("migrated"))).toHaveLength(1);
    expect(await versions()).toEqual([...before, { version: next }]);
  });

  it("is refused while a proxy runs on the ledger", async () => {
    await using database = await ledgerOfThisRelease();
    await query(
      database.url,
      "insert into owners (epoch, started_at, beat_at, serves) overriding system value values (7, 0, clock_timestamp() + interval '1 hour', 1)",
    );
    const before = await contentOf(database.url);
    expect(await farebox(database.url, "db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("farebox serve is using the ledger"),
    });
    expect(await contentOf(database.url)).toEqual(before);
  });

  it("leaves everything unchanged if a migration fails", async () => {
    await using database = await ledgerOfThisRelease();
    // The last statement of the migration fails, because its table already exists.
    await query(database.url, "create table next_release (note text)");
    const before = await contentOf(database.url);
    expect(await farebox(database.url, "db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('relation "next_release" already exists'),
    });
    expect(await contentOf(database.url)).toEqual(before);
  });

  it("names the objects that depend on a changed object and do not belong to Farebox", async () => {
    await using database = await ledgerOfThisRelease();
    await query(
      database.url,
      "create table next_release_view (a int); create view overview as select * from next_release_view",
    );
    const before = await contentOf(database.url);
    expect(await farebox(database.url, "db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        "objects that are not Farebox's depend on tables or functions that the upgrade changes: view overview depends on table next_release_view; drop these objects, and create them again after the upgrade\n",
      ),
    });
    expect(await contentOf(database.url)).toEqual(before);
  });
});

it("a ledger from before the oldest schema is refused unchanged, with the commit that upgrades it", async () => {
  await using database = await newDatabase();
  await query(
    database.url,
    "delete from farebox_migrations where version > (select min(version) from farebox_migrations); update farebox_migrations set version = 15",
  );
  const before = await contentOf(database.url);
  using cli = on(database.url);
  for (const command of [["db", "migrate"], ["keys", "list"], ["keys", "create", "alice"], ["verify"]]) {
    expect(await cli.run(...command)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        `its schema version 15 is older than ${known}; upgrade it first with farebox db migrate of commit e4509c76\n`,
      ),
    });
  }
  expect((await cli.run("doctor")).stdout).toContain("upgrade it first with farebox db migrate of commit e4509c76");
  expect(await contentOf(database.url)).toEqual(before);
});

/** Puts the ledger in the state of a release with other functions on the same tables. */
const otherRelease = `update farebox_migrations set functions = 'those of another release' where functions is not null;
  drop function farebox_counts_model; create function farebox_counts_model(scope text, more text) returns boolean language sql as 'select true'`;

describe("a ledger with the functions of another release", () => {
  it("refuses commands that write until db migrate replaces the functions, without a backup", async () => {
    await using database = await newDatabase();
    const before = await contentOf(database.url);
    await query(database.url, otherRelease);
    using cli = on(database.url);
    expect((await cli.run("keys", "list")).code).toBe(0);
    const message = "its functions are those of another release; replace them with farebox db migrate or farebox serve";
    expect(await cli.run("keys", "create", "alice")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(message),
    });
    expect((await cli.run("doctor")).stdout).toContain("has the functions of another release");

    await query(
      database.url,
      "insert into owners (epoch, started_at, beat_at, serves) overriding system value values (7, 0, clock_timestamp() + interval '1 hour', 1)",
    );
    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("farebox serve is using the ledger"),
    });
    await query(database.url, "delete from owners");

    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(new RegExp(`^upgraded the ledger at .+; its schema version is still ${known}\n$`)),
    });
    expect(await contentOf(database.url)).toEqual(before);
    expect((await cli.run("keys", "create", "alice")).code).toBe(0);
  });

  it("accepts no writes from a proxy that started before they were replaced", async () => {
    await using database = await newDatabase();
    await using proxy = await LedgerProxy.open(serverOf(database.url));
    expect(await proxy.hold(holdOf("before", 5n as PicoUsd))).toMatchObject({ ok: true });
    await query(
      database.url,
      "update farebox_migrations set functions = 'those of a later release' where functions is not null",
    );
    const unavailable = { ok: false, reason: "unavailable" };
    expect(await proxy.hold(holdOf("after", 5n as PicoUsd))).toEqual(unavailable);
    expect(await proxy.extend("before", 1n as PicoUsd)).toEqual(unavailable);
    expect(await query(database.url, "select id, state, hold::text from charges")).toEqual([
      { id: "before", state: "pending", hold: "5" },
    ]);
  });
});
