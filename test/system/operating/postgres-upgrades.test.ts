import { Client } from "pg";
import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import { parsePostgresUrl, type PostgresServer } from "../../../src/core/postgres-url.ts";
import { knownSchema } from "../../../src/ledger/postgres/migrate.ts";
import { migrateServer } from "../../../src/ledger/postgres/maintenance.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { holdOf } from "../../support/ledger-fixtures.ts";
import { oldLedgerSql } from "../../support/old-ledgers.ts";
import { LedgerProxy } from "../../support/postgres-proxies.ts";
import { newDatabase, type TestDatabase } from "../../support/shared-postgres.ts";

const known = knownSchema();

async function query<R>(url: string, sql: string): Promise<R[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows as R[];
  } finally {
    await client.end();
  }
}

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

/** A ledger of schema version 3, with charges; no proxy runs on it. */
async function oldDatabase(): Promise<TestDatabase> {
  const database = await newDatabase("empty");
  const ledger = oldLedgers.find(({ name }) => name === "postgres-03-plans");
  if (ledger !== undefined) await query(database.url, oldLedgerSql(ledger));
  await query(database.url, "update owners set beat_at = clock_timestamp() - interval '1 day'");
  return database;
}

/** Every row of every table, and every function, of a schema. */
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

describe("before the tables change", { timeout: 60_000 }, () => {
  it("the ledger is copied into a schema of its own, as a whole ledger of the earlier version", async () => {
    await using database = await oldDatabase();
    const before = await contentOf(database.url);
    using cli = on(database.url);
    const place = database.url.replace(/:[^:/]+@/, "@");
    const { stdout } = await cli.run("db", "migrate");
    const [backup = ""] = await backupsIn(database.url);
    expect(backup).toMatch(/^farebox_schema_3_\d{8}t\d{9}z$/);
    expect(stdout).toBe(`migrated the ledger at ${place} from schema version 3 to ${known}
as it was before: ${backup}
to go back, stop every farebox, install the earlier release and set its database to ${place}?options=-c%20search_path%3D${backup}, with the password and the other parameters of the present address
`);
    expect(await contentOf(database.url, backup)).toEqual(before);
    // It is a ledger by itself: it can be upgraded, and the other one does not change.
    const after = await contentOf(database.url);
    using copy = on(`${database.url}?options=-c%20search_path%3D${backup}`);
    expect(await copy.json("db", "migrate")).toMatchObject({ from: 3, to: known });
    expect(await copy.json("verify")).toMatchObject({ differences: [] });
    expect(await contentOf(database.url)).toEqual(after);
  });

  it("of several that start together, one makes a copy and migrates; a new ledger is not copied", async () => {
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

  it("a role that may not make a schema gets one sentence, unless no copy is wanted", async () => {
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
        `its role may not create the schema that a backup before the upgrade needs (as an administrator: grant create on database "${name}" to "${role}"); or back it up with pg_dump and run farebox db migrate --no-backup\n`,
      ),
    });
    expect(await contentOf(database.url)).toEqual(before);
    expect(await cli.json("db", "migrate", "--no-backup")).toEqual({ from: 3, to: known, backup: null, restore: null });
    expect(await cli.json("verify")).toMatchObject({ differences: [] });
  });

  it("a migration that fails leaves everything as it was", async () => {
    await using database = await oldDatabase();
    // The last statement of 004 finds its column there.
    await query(database.url, "alter table rollup_day add column in_doubt bigint");
    const before = await contentOf(database.url);
    await expect(migrateServer(serverOf(database.url), { create: false })).rejects.toThrow(
      'column "in_doubt" of relation "rollup_day" already exists',
    );
    expect([await contentOf(database.url), await backupsIn(database.url)]).toEqual([before, []]);
  });
});

/** Statement that leaves the ledger as a release with other functions on the same tables does. */
const otherRelease = `update farebox_migrations set functions = 'those of another release' where functions is not null;
  drop function farebox_slice; create function farebox_slice(room bigint, more text) returns bigint language sql as 'select 0::bigint'`;

describe("functions of another release on tables of this one", { timeout: 60_000 }, () => {
  it("are replaced by db migrate, without a backup, while no proxy runs; commands that write wait for that", async () => {
    await using database = await newDatabase();
    const before = await contentOf(database.url);
    await query(database.url, otherRelease);
    using cli = on(database.url);
    expect((await cli.run("keys", "list")).code).toBe(0);
    const said = "its functions are those of another release; farebox db migrate replaces them, as the next serve does";
    expect(await cli.run("keys", "create", "alice")).toMatchObject({ code: 2, stderr: expect.stringContaining(said) });
    expect((await cli.run("doctor")).stdout).toContain("has the functions of another release");

    await query(
      database.url,
      "insert into owners (epoch, started_at, beat_at, serves) overriding system value values (7, 0, clock_timestamp() + interval '1 hour', 1)",
    );
    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("a farebox serve runs on the ledger"),
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

  it("never read what a proxy of this one writes, even where that slept during the upgrade", async () => {
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
