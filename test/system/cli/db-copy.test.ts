// @module-tag races
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { openLedger } from "../../../src/server/ledger.ts";
import { database as databaseKind } from "../../../src/config/kinds.ts";
import { copiedTables } from "../../../src/ledger/copy/tables.ts";
import { startFarebox } from "../../support/farebox-process.ts";
import { tamper } from "../../support/derived-rows.ts";
import { fillLedger } from "../../support/full-ledger.ts";
import { tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

const owned = new AsyncDisposableStack();
/** A ledger with rows in every table; each test works on a copy of it. */
let full: string;
let h: Harness;

beforeAll(async () => {
  const folder = owned.use(tempFolder());
  full = folder.database;
  await fillLedger(full, 3000);
});
afterAll(() => owned.disposeAsync());
beforeEach(() => {
  h = harness();
  copyFileSync(full, h.database);
});
afterEach(() => h[Symbol.dispose]());

/** Creates an empty database, sets its address in the environment, and connects to it. */
async function emptyDatabase(): Promise<{ readonly url: string; readonly client: Client }> {
  const { url } = owned.use(await newDatabase("empty"));
  h.env = { FAREBOX_DATABASE: url };
  const client = new Client(url);
  await client.connect();
  owned.defer(() => client.end());
  return { url, client };
}

type Rows = readonly Readonly<Record<string, unknown>>[];
const digits = (rows: Rows) =>
  JSON.stringify(rows, (_, value: unknown) =>
    typeof value === "bigint" || typeof value === "number" ? `${value}` : value,
  );

/** Returns all rows of a table from both sides, with the columns that both have. */
async function bothSides(client: Client, { name, key }: (typeof copiedTables)[number]) {
  const db = new Database(h.database, { readonly: true });
  const columns = (db.pragma(`table_info(${name})`) as { name: string }[]).map((column) => column.name).join(", ");
  const from = db
    .prepare(`select ${columns} from ${name} order by ${key.join(", ")}`)
    .safeIntegers()
    .all() as Rows;
  db.close();
  const { rows } = await client.query(`select ${columns} from ${name} order by ${key.join(", ")}`);
  return { from: digits(from).replaceAll("\\u0000", "\uFFFD"), to: digits(rows as Rows), rows: from.length };
}

it("db copy copies every table and value, the windows of pending charges, and the sequences", async () => {
  const { client } = await emptyDatabase();
  const usersSince = 1_763_640_000_000;
  const upgraded = new Database(h.database);
  upgraded.prepare("update meta set users_since = ?").run(usersSince);
  upgraded.close();
  const copied = await h.run("db", "copy", h.database);
  expect(copied).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^copied \S+ to postgres:\/\/postgres@127\.0\.0\.1:\d+\/\w+: \d{4} rows, all compared, no difference\n2\d{3} charges with a cost of USD \d+\.\d+; \d\d pending charges with USD \d+\.\d+ held\n$/,
    ),
  });
  for (const table of copiedTables) {
    const { from, to, rows } = await bothSides(client, table);
    expect(rows, table.name).toBeGreaterThan(0);
    expect(to, table.name).toBe(from);
  }
  const db = new Database(h.database, { readonly: true });
  const links = db
    .prepare(
      "select id, json_group_array(window order by window) as windows from charges join charge_windows on charge = seq group by id order by id",
    )
    .all() as { id: string; windows: string }[];
  const newest = db.prepare("select max(seq) from charges").pluck().get() as number;
  db.close();
  const { rows: copiedLinks } = await client.query(
    "select id, array_to_json(windows)::text as windows from charges where windows <> '{}' order by id",
  );
  expect(copiedLinks).toEqual(links);
  expect((await client.query("select nextval('charges_seq') as next")).rows).toEqual([{ next: String(newest + 1) }]);
  const {
    rows: [meta],
  } = await client.query("select time_zone, quarters_from > '0' as pruned, users_since, budgets_version from meta");
  expect(meta).toEqual({ time_zone: "UTC", pruned: true, users_since: String(usersSince), budgets_version: "1" });
});

it("a copied ledger passes verify and has the same figures, and the next serve posts its pending holds", async () => {
  const { url } = await emptyDatabase();
  const figures = async () => {
    const asked = [
      ["verify"],
      ["report", "--by", "key,model,day", "--since", "300d"],
      ["report", "--by", "hour", "--since", "3d"],
      ["budgets", "list"],
      ["keys", "list"],
      ["charges"],
      ["audit"],
    ];
    return await Promise.all(asked.map((argv) => h.json<object>(...argv)));
  };
  h.env = { FAREBOX_DATABASE: h.database };
  const before = await figures();
  h.env = { FAREBOX_DATABASE: url };
  await h.json("db", "copy", h.database);
  expect(await figures()).toEqual(before);
  expect(before[0]).toMatchObject({ ok: true, differences: [] });
  const database = databaseKind.read(url);
  if (!database.ok) return expect.fail(database.problem);
  const opening = await openLedger(database.value, { calendar: utc, clock: h.clock, access: "serve" });
  if (!opening.ok) return expect.fail("not opened");
  await using store = opening.store;
  expect(await store.ledger.recover(h.clock.now())).toBe(5);
  expect(await store.ledger.verify()).toMatchObject({ differences: [] });
});

it("an interrupted copy continues and copies no row twice", async () => {
  const { url, client } = await emptyDatabase();
  await h.run("db", "migrate");
  // The copy waits for the locked table rollup_day, and is killed there.
  await client.query("begin; lock table rollup_day in share mode");
  await using killed = startFarebox(["db", "copy", h.database], { env: { FAREBOX_DATABASE: url } });
  // A second connection, because a transaction caches the server's activity.
  const observer = new Client(url);
  await observer.connect();
  owned.defer(() => observer.end());
  for (let isWaiting = false; !isWaiting;) {
    expect(killed.hasEnded, killed.stderr).toBe(false);
    const { rows } = await observer.query(
      "select from pg_stat_activity where datname = current_database() and application_name = 'farebox db copy' and wait_event_type = 'Lock'",
    );
    isWaiting = rows.length > 0;
  }
  killed.signal("SIGKILL");
  await killed.ended;
  const places = await client.query("select ctid::text, xmin::text, id from charges order by seq");
  expect(places.rows.length).toBeGreaterThan(2000);
  // No command uses an incomplete copy.
  expect(await h.run("db", "migrate")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /it contains an unfinished copy of a ledger; run the same farebox db copy again to complete it\n$/,
    ),
  });
  await client.query("commit");
  expect(await h.json("db", "copy", h.database)).toMatchObject({ resumed: true, begun_anew: false });
  expect((await client.query("select ctid::text, xmin::text, id from charges order by seq")).rows).toEqual(places.rows);
  for (const table of copiedTables) {
    const { from, to } = await bothSides(client, table);
    expect(to, table.name).toBe(from);
  }
});

it("an interrupted copy begins again if the ledger has changed since", async () => {
  const { client } = await emptyDatabase();
  await h.run("db", "migrate");
  await client.query("alter table rollup_day add constraint full_disk check (day < '2026-08')");
  await expect(h.run("db", "copy", h.database)).rejects.toThrow(/full_disk/);
  expect((await client.query("select from charges")).rowCount).toBeGreaterThan(1000);
  await client.query("alter table rollup_day drop constraint full_disk");
  tamper(h.database, "update charges set duration_ms = 99.5 where id = 'r1501'; update meta set changes = changes + 1");
  expect(await h.json("db", "copy", h.database)).toMatchObject({ begun_anew: true });
  for (const table of copiedTables) {
    const { from, to } = await bothSides(client, table);
    expect(to, table.name).toBe(from);
  }
});

it("a copy in which a value differs is reported, and cannot be used until everything is copied again", async () => {
  const { client } = await emptyDatabase();
  await h.run("db", "migrate");
  await client.query(`create function spoil() returns trigger language plpgsql as $$ begin new.first_token_ms := new.first_token_ms + 1e-9; return new; end $$;
    create trigger spoilt before insert on charges for each row when (new.id = 'r1501') execute function spoil()`);
  expect(await h.run("db", "copy", h.database)).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(
      /: first_token_ms of charges \d+ \d+ differs; run the same command again to copy everything\n$/,
    ),
  });
  expect((await h.run("db", "migrate")).code).toBe(2);
  await client.query("drop trigger spoilt on charges");
  expect(await h.json("db", "copy", h.database)).toMatchObject({ begun_anew: true });
});

it("db copy refuses a ledger in use, invalid addresses and a database with rows, each with the reason", async () => {
  const { url, client } = await emptyDatabase();
  const refusal = async (...args: string[]) => {
    const { code, stderr, stdout } = await h.run("db", "copy", ...args);
    expect([code, stdout]).toEqual([2, ""]);
    return stderr;
  };
  const shown = url.replace(/:[^:]+@/, "@");
  const served = await h.open();
  expect(await refusal(h.database)).toBe(
    `farebox: farebox serve is using the ledger at ${h.database}; stop it first\n`,
  );
  await served[Symbol.asyncDispose]();
  const writer = new Database(h.database);
  writer.exec("begin immediate");
  expect(await refusal(h.database)).toMatch(/another process has the ledger at \S+ open; stop that process first/);
  writer.close();
  expect(await refusal(join(h.folder, "none.db"))).toMatch(/there is no ledger in \S+none\.db/);
  expect(await refusal(url, url)).toMatch(/FROM must be the path of an SQLite ledger/);
  expect(await refusal(h.database, url)).toMatch(
    /TO must not contain a password, because other users of this machine could see/,
  );
  expect(await refusal(h.database, "mysql://localhost/x")).toMatch(
    /TO must be the path of an SQLite file, or a postgres:\/\/ address/,
  );
  expect(await refusal(h.database, h.database)).toMatch(/give the postgres:\/\/ address of the database to copy to/);
  expect(await refusal(h.database, "postgres://farebox@127.0.0.1:1/x")).toMatch(
    /no server accepts connections at this host and port/,
  );
  await client.query("insert into teams (name, created_at) values ('blue', 1)");
  expect(await refusal(h.database)).toBe(
    `farebox: ${shown} is not empty: its table teams has rows; copy the ledger into an empty database or schema\n`,
  );
  await client.query("delete from teams");
  // As if an earlier release had begun the copy.
  await client.query(
    "create table copy_progress (name text); update farebox_migrations set functions = 'earlier' where functions is not null",
  );
  const unfinished =
    /an unfinished copy that another release began; copy the ledger into an empty database or schema\n$/;
  expect(await refusal(h.database)).toMatch(unfinished);
  await client.query("update farebox_migrations set version = version - 1");
  expect(await refusal(h.database), "with an earlier schema").toMatch(unfinished);
  await client.query("drop schema public cascade; create schema public");
  const file = join(h.folder, "database.url");
  writeFileSync(file, `${url}\n`);
  h.env = {};
  expect(await h.json("db", "copy", h.database, "--to-file", file)).toMatchObject({
    resumed: false,
    charges: expect.any(Number),
  });
  expect(await refusal(h.database, "--to-file", file)).toMatch(/is not empty/);
});
