// @module-tag races
import { describe, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import { parsePostgresUrl, type PostgresServer } from "../../../src/core/postgres-url.ts";
import { connect } from "../../../src/ledger/postgres/connection.ts";
import { runMigrations } from "../../../src/ledger/postgres/schema.ts";
import { migrationsOf } from "../../../src/ledger/migrations.ts";
import { knownSchema } from "../../../src/ledger/postgres/migrate.ts";
import { migrateServer } from "../../../src/ledger/postgres/maintenance.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { bob, holdOf, noon, posting } from "../../support/ledger-fixtures.ts";
import { oldLedgerSql } from "../../support/old-ledgers.ts";
import { query } from "../../support/postgres-client.ts";
import { differencesIn, LedgerProxy } from "../../support/postgres-proxies.ts";
import { newDatabase, type TestDatabase } from "../../support/shared-postgres.ts";

const known = knownSchema();
const connectionOptions = { applicationName: "a test", max: 1, statementMs: 120_000, lockMs: 60_000 };

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

/** Creates a ledger of schema version 3 with charges, on which no proxy runs. */
async function oldDatabase(): Promise<TestDatabase> {
  const database = await newDatabase("empty");
  const ledger = oldLedgers.find(({ name }) => name === "postgres-03-plans");
  if (ledger !== undefined) await query(database.url, oldLedgerSql(ledger));
  await query(database.url, "update owners set beat_at = clock_timestamp() - interval '1 day'");
  return database;
}

/** Returns every row, function and sequence of a schema. */
async function contentOf(url: string, schema = "public"): Promise<unknown> {
  const within = `${url}?options=-c%20search_path%3D${schema}`;
  const tables = await query<{ name: string; sql: string }>(
    within,
    `select relname as name, format('select coalesce(jsonb_agg(to_jsonb(r) order by to_jsonb(r)::text), ''[]'') as rows from %I r', relname) as sql
     from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') order by relname`,
  );
  const functions = await query(
    within,
    `select proname, regexp_replace(pg_get_functiondef(oid), 'FUNCTION [a-z0-9_]+\\.', 'FUNCTION ') as made from pg_proc where pronamespace = current_schema()::regnamespace order by proname`,
  );
  const sequences = await query(
    within,
    "select sequencename, last_value from pg_sequences where schemaname = current_schema() order by 1",
  );
  return {
    rows: await Promise.all(tables.map(async ({ name, sql }) => [name, await query(within, sql)])),
    functions,
    sequences,
  };
}

async function backupsIn(url: string): Promise<string[]> {
  const rows = await query<{ name: string }>(
    url,
    "select nspname as name from pg_namespace where nspname like 'farebox_schema_%'",
  );
  return rows.map(({ name }) => name);
}

describe("an upgrade of a PostgreSQL ledger", () => {
  it("first copies the ledger into a separate schema as a complete ledger of the earlier version", async () => {
    await using database = await oldDatabase();
    const before = await contentOf(database.url);
    using cli = on(database.url);
    const place = database.url.replace(/:[^:/]+@/, "@");
    const { stdout } = await cli.run("db", "migrate");
    const [backup = ""] = await backupsIn(database.url);
    expect(backup).toMatch(/^farebox_schema_3_\d{8}t\d{9}z$/);
    expect(stdout).toBe(`migrated the ledger at ${place} from schema version 3 to ${known}
backup from before the migration: ${backup}
to go back, stop all proxies, install the earlier release and set its database to ${place}?options=-c%20search_path%3D${backup}; add the password and the other parameters of the current address
`);
    expect(await contentOf(database.url, backup)).toEqual(before);
    // The copy is an independent ledger: upgrading it does not change the other one.
    const after = await contentOf(database.url);
    using copy = on(`${database.url}?options=-c%20search_path%3D${backup}`);
    expect(await copy.json("db", "migrate")).toMatchObject({ from: 3, to: known });
    expect(await copy.json("verify")).toMatchObject({ differences: [] });
    expect(await contentOf(database.url)).toEqual(after);
  });

  it.each(migrationsOf("postgres").flatMap(({ version }) => (version < known ? [version] : [])))(
    "keeps a copy when it starts from schema version %i",
    async (version) => {
      await using database = await newDatabase("empty");
      await using connection = connect(serverOf(database.url), connectionOptions);
      await connection.transaction((db) => runMigrations(db, 0, version));
      const before = await contentOf(database.url);
      const migrated = await migrateServer(serverOf(database.url), { create: false });
      expect(migrated).toMatchObject({ ok: true, from: version, to: known });
      const [backup = ""] = await backupsIn(database.url);
      expect(await contentOf(database.url, backup)).toEqual(before);
      using cli = on(database.url);
      expect(await cli.json("verify")).toMatchObject({ differences: [] });
    },
  );

  it("happens once when several start together, and copies no new ledger", async () => {
    await using database = await oldDatabase();
    const migrated = await Promise.all(
      [1, 2, 3, 4].map(() => migrateServer(serverOf(database.url), { create: false })),
    );
    expect(migrated.map((each) => each.ok && each.changed).toSorted()).toEqual([false, false, false, true]);
    expect(await backupsIn(database.url)).toHaveLength(1);
    await using empty = await newDatabase("empty");
    expect(await migrateServer(serverOf(empty.url), { create: true })).toEqual({
      ok: true,
      from: 0,
      to: known,
      changed: true,
      backup: null,
    });
    expect(await backupsIn(empty.url)).toEqual([]);
  });

  it("needs a role that may create a schema, unless --no-backup is given", async () => {
    await using database = await oldDatabase();
    const role = `small_${database.url.split("/").at(-1)}`;
    const name = new URL(database.url).pathname.slice(1);
    await query(
      database.url,
      `create role ${role} login password 'small'; revoke create on database ${name} from public;
      alter schema public owner to ${role};
      do $$ declare each record; begin
        for each in select format('alter %s %s owner to ${role}', case relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, oid::regclass) as sql from pg_class
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'S')
            and not (relkind = 'S' and exists (select from pg_depend where objid = pg_class.oid and deptype = 'i')) loop execute each.sql; end loop;
        for each in select format('alter function %s owner to ${role}', oid::regprocedure) as sql from pg_proc where pronamespace = 'public'::regnamespace loop execute each.sql; end loop;
        alter type farebox_moves owner to ${role};
      end $$`,
    );
    const url = database.url.replace(/\/\/[^@]+@/, `//${role}:small@`);
    using cli = on(url);
    const before = await contentOf(database.url);
    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        `its role may not create a schema for the backup before the upgrade; run grant create on database "${name}" to "${role}" as an administrator, or back up with pg_dump and run farebox db migrate --no-backup\n`,
      ),
    });
    expect(await contentOf(database.url)).toEqual(before);
    expect(await cli.json("db", "migrate", "--no-backup")).toEqual({ from: 3, to: known, backup: null, restore: null });
    expect(await cli.json("verify")).toMatchObject({ differences: [] });
  });

  it("leaves everything unchanged and no copy if a migration fails", async () => {
    await using database = await oldDatabase();
    // The last statement of migration 004 fails, because its column already exists.
    await query(database.url, "alter table rollup_day add column in_doubt bigint");
    const before = await contentOf(database.url);
    await expect(migrateServer(serverOf(database.url), { create: false })).rejects.toThrow(
      'column "in_doubt" of relation "rollup_day" already exists',
    );
    expect([await contentOf(database.url), await backupsIn(database.url)]).toEqual([before, []]);
  });
});

it("the amounts in leases of proxies return to their windows, and no charge counts twice", async () => {
  await using database = await newDatabase("empty");
  await using observer = connect(database.server, connectionOptions);
  const [day, end] = [Date.parse("2026-11-20"), Date.parse("2026-11-21")];
  const lease = (win: number, owner: number, granted: string | null, held: string, spent: string) =>
    `(${win}, ${owner}, ${granted === null ? "null" : usd(granted)}, ${usd(held)}, ${usd(spent)})`;
  const pending = (id: string, owner: number, key: string, hold: string, windows: string, leased: string) =>
    `('${id}', 'request', 'pending', ${owner}, ${noon}, '${key}', 'red', 'chat', 'model-a', 0, ${usd(hold)}, '${windows}', '${leased}')`;
  await observer.transaction(async (db) => {
    await runMigrations(db, 0, 15);
    // The first proxy is silent, the second has ended, and the third is unknown.
    await db.run(`
      create table charges_2026_11 partition of charges for values from (${Date.parse("2026-11-01")}) to (${Date.parse("2026-12-01")});
      insert into owners (epoch, started_at, beat_at, life_ms, ended_at, serves) overriding system value values
        (1, 0, clock_timestamp() - interval '1 minute', 4200000, null, 1), (2, 0, clock_timestamp() - interval '1 day', 60000, clock_timestamp(), 1);
      select setval('owners_epoch_seq', 3);
      insert into budgets (scope, period, mode, amount_limit, anchor, complete_from) values
        ('all', '1d', 'hard', ${usd("10")}, '', 0), ('key:k-alice', '1d', 'soft', ${usd("1")}, 'key:k-alice', 0);
      insert into budget_windows (budget, subject, starts_at, ends_at, spent, held, leased) values
        (1, '', ${day}, ${end}, ${usd("1")}, ${usd("0.5")}, ${usd("7")}), (2, '', ${day}, ${end}, 0, 0, 0);
      insert into window_leases (win, owner, granted, held, spent) values
        ${[lease(1, 1, "4", "1", "2"), lease(1, 2, "2", "0.25", "0"), lease(1, 3, "1", "0", "0"), lease(2, 1, null, "1", "2")].join(", ")};
      insert into charges (id, kind, state, owner, admitted_at, key, team, route, model, stream, hold, windows, leased) values
        ${[pending("row", 2, "k-bob", "0.5", "{1}", "{}"), pending("both", 1, "k-alice", "1", "{1,2}", "{1,2}"), pending("ended", 2, "k-bob", "0.25", "{1}", "{1}")].join(", ")};
      insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, stream, hold, cost, formula, source)
        select id, 'request', 'posted', 1, ${noon}, ${noon}, key, 'red', 'chat', 'model-a', 0, cost, cost, 'tokens', 'reported'
        from (values ('posted-1', 'k-alice', ${usd("2")}), ('posted-2', 'k-bob', ${usd("1")})) posted (id, key, cost);
      insert into rollup_day select '2026-11-20', key, team, model, '', source, 0, 1, ${Array.from({ length: 11 }, () => 0).join(", ")}, cost, 0, 0, 0, model
        from charges where state = 'posted'`);
  });
  expect(await migrateServer(database.server, { create: false })).toMatchObject({ ok: true, from: 15 });
  const windows = () => observer.rows("select spent, held from windows order by seq");
  expect(await windows()).toEqual([
    { spent: usd("3"), held: usd("1.75") },
    { spent: usd("2"), held: usd("1") },
  ]);
  expect(await differencesIn(observer)).toEqual([]);

  // The batch of a proxy that was suspended during the upgrade.
  const late = observer.row("select farebox_apply(1, 0, $1, $2)", [
    JSON.stringify({ leases: true, sharers: 2, collect: false, functions: "those of the earlier release" }),
    JSON.stringify({ ids: ["both"], settles: [{ id: "both", state: "voided" }], claims: [], tasks: [] }),
  ]);
  await expect(late).rejects.toThrow(/^another release of Farebox has upgraded the ledger; restart this process/);

  await using proxy = await LedgerProxy.open(database.server);
  expect(await proxy.hold(holdOf("rest", usd("5.25")))).toMatchObject({ ok: true, room: 0n });
  expect(await proxy.hold(holdOf("more", usd("0.01")))).toMatchObject({ ok: false, reason: "no_room" });
  expect(await proxy.post("both", posting(400_000, 0))).toMatchObject({ ok: true, first: true, cost: usd("0.4") });
  expect(await proxy.recover()).toBe(2);
  expect(await windows()).toEqual([
    { spent: usd("4.15"), held: usd("5.25") },
    { spent: usd("2.4"), held: usd("5.25") },
  ]);
  expect(await differencesIn(observer)).toEqual([]);
});

it("roles that could read the windows can read them after the upgrade, and views of others must be dropped first", async () => {
  await using database = await newDatabase("empty");
  await using observer = connect(database.server, connectionOptions);
  await observer.transaction((db) => runMigrations(db, 0, 15));
  const reader = `Reader of ${new URL(database.url).pathname.slice(1)}`;
  await query(
    database.url,
    `create role "${reader}"; grant select on windows to "${reader}"; create view overview as select * from windows`,
  );
  using cli = on(database.url);
  expect(await cli.run("db", "migrate")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      "the upgrade changes what objects that are not Farebox's depend on: view overview depends on view windows; drop these objects, and create them again after the upgrade\n",
    ),
  });
  expect(await backupsIn(database.url)).toEqual([]);
  await query(database.url, "drop view overview");
  expect(await cli.json("db", "migrate")).toMatchObject({ from: 15, to: known });
  const may = (table: string) => observer.row(`select has_table_privilege('${reader}', '${table}', 'select') as may`);
  expect([await may("windows"), await may("charges")]).toEqual([{ may: true }, { may: false }]);
  await query(database.url, `drop owned by "${reader}"; drop role "${reader}"`);
});

/** Puts the ledger in the state of a release with other functions on the same tables. */
const otherRelease = `update farebox_migrations set functions = 'those of another release' where functions is not null;
  drop function farebox_counts_model; create function farebox_counts_model(scope text, more text) returns boolean language sql as 'select true'`;

it.each([8, 9, 10])("upgraded windows of schema version %i contain all charges of the ledger", async (version) => {
  await using database = await newDatabase("empty");
  await using observer = connect(database.server, connectionOptions);
  const [day, yesterday] = [Date.parse("2026-11-20"), Date.parse("2026-11-19")];
  await observer.transaction(async (db) => {
    await runMigrations(db, 0, version);
    await db.run(
      `create table charges_2026_11 partition of charges for values from (${Date.parse("2026-11-01")}) to (${Date.parse("2026-12-01")})`,
    );
    for (const [id, key, at] of [
      ["a", "k-alice", noon],
      ["b", "k-bob", yesterday],
    ] as const)
      await db.run(
        `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, stream, cost, formula, source)
         values ($1, 'request', 'posted', 0, $2, $2, $3, 'red', 'chat', 'model-a', 0, $4, 'tokens', 'reported')`,
        [id, at, key, usd("2")],
      );
    const sums = `requests, unpriced, retries, input, cached_input, cache_write, cache_write_1h, audio_input, image_input,
      output, reasoning, audio_output, image_output, list_cost, in_doubt`;
    await db.run(
      `insert into rollup_day (day, key, team, model, price_group, source, shard, ${sums}, cost)
       select case key when 'k-bob' then '2026-11-19' else '2026-11-20' end, key, team, model, '', source, 0,
         1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, cost from charges`,
    );
    await db.run("insert into budgets (scope, period, mode, amount_limit) values ('each-key:red', '1d', 'hard', $1)", [
      usd("3"),
    ]);
    await db.run(
      "insert into budget_windows (budget, subject, starts_at, ends_at, spent, held) values (1, 'k-alice', $1, $2, $3, 0)",
      [day, day + 86_400_000, usd("2")],
    );
  });
  expect(await migrateServer(database.server, { create: false })).toMatchObject({ ok: true, from: version });
  await using proxy = await LedgerProxy.open(database.server);
  const refused = { ok: false, reason: "no_room" };
  expect(await proxy.hold(holdOf("c", usd("1.5")))).toMatchObject(refused);
  expect(await proxy.hold(holdOf("d", usd("3"), { caller: bob }))).toMatchObject({ ok: true });
  // This window is missing, but the key has spent in it.
  expect(await proxy.hold(holdOf("e", usd("1.5"), { caller: bob, at: yesterday }))).toMatchObject(refused);
  expect(
    await observer.rows("select subject, starts_at, spent, held from windows order by starts_at, subject"),
  ).toEqual([
    { subject: "k-bob", starts_at: BigInt(yesterday), spent: usd("2"), held: 0n },
    { subject: "k-alice", starts_at: BigInt(day), spent: usd("2"), held: 0n },
    { subject: "k-bob", starts_at: BigInt(day), spent: 0n, held: usd("3") },
  ]);
});

describe("a ledger with the functions of another release", () => {
  it("refuses commands that write until db migrate replaces the functions, without a backup", async () => {
    await using database = await newDatabase();
    const before = await contentOf(database.url);
    await query(database.url, otherRelease);
    using cli = on(database.url);
    expect((await cli.run("keys", "list")).code).toBe(0);
    const said = "its functions are those of another release; replace them with farebox db migrate or farebox serve";
    expect(await cli.run("keys", "create", "alice")).toMatchObject({ code: 2, stderr: expect.stringContaining(said) });
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
    expect(await backupsIn(database.url)).toEqual([]);
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
