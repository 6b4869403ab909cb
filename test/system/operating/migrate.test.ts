// @module-tag races
import { cpSync, readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { knownSchema } from "../../../src/ledger/sqlite/migrate.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { fillLedger } from "../../support/full-ledger.ts";
import { nextRelease, nextSchemaOf } from "../../support/next-release.ts";
import { mountSmallDisk, skipIfImpossible, whyNot } from "../crash/disks.ts";

const known = knownSchema();
const next = nextSchemaOf("sqlite");
const release = await nextRelease();
afterAll(() => release[Symbol.asyncDispose]());
const { program } = release;

/** Runs a command of the next release. */
const farebox = (database: string, ...args: string[]) =>
  runFarebox(args, { program, env: { FAREBOX_DATABASE: database } });

/** Creates a ledger of this release with charges in all states. */
const fill = (path: string) => fillLedger(path, 300);

/** Returns the version, tables and rows of a ledger. */
function contentOf(path: string): string {
  const db = new Database(path, { readonly: true });
  const tables = db.prepare("select name, sql from sqlite_schema where type = 'table' order by name").all() as {
    name: string;
  }[];
  const content = tables.map((table) => [table, db.prepare(`select * from ${table.name}`).raw().all()]);
  const version: unknown = db.pragma("user_version", { simple: true });
  db.close();
  return JSON.stringify([version, content]);
}

function rowsOf(path: string, sql: string): unknown {
  const db = new Database(path, { readonly: true });
  const rows = db.prepare(sql).raw().all();
  db.close();
  return rows;
}

/** Returns the names of the backups next to a ledger. */
function backupsOf(path: string): string[] {
  return readdirSync(dirname(path)).filter((name) => name.startsWith(`${basename(path)}.`));
}

const backupName = /^farebox\.db\.schema-\d+-\d{4}-\d\d-\d\dT\d{6}Z$/;

function schemaOf(path: string): unknown {
  const db = new Database(path, { readonly: true });
  const version = db.pragma("user_version", { simple: true });
  db.close();
  return version;
}

it("serve migrates the ledger of an earlier release after making a backup", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const before = contentOf(database);
  await using serve = await startServe({ program, database, gateway: sandbox });
  const [name = ""] = backupsOf(database);
  const backup = join(folder.path, name);
  expect(name).toMatch(backupName);
  await serve.printed(/to go back, .*\n/);
  expect(serve.stderr).toContain(
    `migrated the ledger at ${database} from schema version ${known} to ${next}\nbackup from before the migration: ${backup}; to go back, install the earlier release and run: farebox db restore --database ${database} ${backup}\n`,
  );
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  expect([contentOf(backup), schemaOf(database)]).toEqual([before, next]);
  serve.signal("SIGTERM");
  await serve.ended;

  // Nothing is left to migrate, so no backup is made.
  await using again = await startServe({ program, database, gateway: sandbox });
  expect(again.stderr).not.toContain("migrated");
  expect(backupsOf(database)).toEqual([name]);
});

it("serve makes no backup of a new ledger", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await using serve = await startServe({ database, gateway: sandbox });
  expect(serve.stderr).not.toContain("backup from before");
  expect(backupsOf(database)).toEqual([]);
});

it("commands refuse an old ledger; db migrate reports the versions, the backup and how to go back", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const charges = rowsOf(database, "select count(*) from charges");
  for (const args of [
    ["keys", "list"],
    ["keys", "create", "carol"],
    ["db", "backup", join(folder.path, "b.db")],
  ]) {
    expect(await farebox(database, ...args)).toMatchObject({
      code: 2,
      stderr: `farebox: the ledger at ${database} cannot be opened: its schema version ${known} is older than ${next}; upgrade it with farebox db migrate or farebox serve\n`,
    });
  }
  const migrated = await farebox(database, "db", "migrate");
  const [name = ""] = backupsOf(database);
  const backup = join(folder.path, name);
  expect(migrated).toMatchObject({
    code: 0,
    stdout: `migrated the ledger at ${database} from schema version ${known} to ${next}
backup from before the migration: ${backup}
to go back, install the earlier release and run: farebox db restore --database ${database} ${backup}
`,
  });
  expect(rowsOf(database, "select nickname from keys where name = 'alice'")).toEqual([["alice!"]]);
  expect(JSON.parse((await farebox(database, "db", "migrate", "--json")).stdout)).toEqual({
    from: next,
    to: next,
    backup: null,
    restore: null,
  });
  // This release refuses the newer ledger.
  expect(await runFarebox(["keys", "list"], { env: { FAREBOX_DATABASE: database } })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("was written by a newer farebox"),
  });

  // Restoring migrates the copy and leaves the backup file unchanged.
  expect(await farebox(database, "db", "restore", backup)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${String(charges)} charges verified, no difference`),
  });
  expect([schemaOf(backup), schemaOf(database)]).toEqual([known, next]);
});

it("a ledger from before the oldest schema is refused unchanged, with the commit that upgrades it", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const db = new Database(database);
  db.pragma("user_version = 19");
  db.pragma("journal_mode = delete");
  db.close();
  const [before, files] = [readFileSync(database), readdirSync(folder.path)];
  const env = { FAREBOX_DATABASE: database };
  const reason = `its schema version 19 is older than ${known}; upgrade it first with farebox db migrate of commit e4509c76\n`;
  for (const args of [
    ["db", "migrate"],
    ["serve", "--gateway-url", sandbox.url, "--port", "0"],
    ["keys", "list"],
    ["keys", "create", "carol"],
    ["db", "backup", join(folder.path, "b.db")],
    ["verify"],
  ]) {
    expect(await runFarebox(args, { env: { ...env, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey } })).toMatchObject({
      code: 2,
      stderr: `farebox: the ledger at ${database} cannot be opened: ${reason}`,
    });
    expect(readFileSync(database).equals(before)).toBe(true);
    expect(readdirSync(folder.path)).toEqual(files);
  }
  const other = { FAREBOX_DATABASE: join(folder.path, "other.db") };
  expect(await runFarebox(["db", "restore", database], { env: other })).toMatchObject({
    code: 2,
    stderr: `farebox: ${database} cannot be restored: ${reason}`,
  });
});

it("db migrate makes no backup with --no-backup", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const { stdout } = await farebox(database, "db", "migrate", "--no-backup", "--json");
  expect(JSON.parse(stdout)).toEqual({ from: known, to: next, backup: null, restore: null });
  expect([schemaOf(database), backupsOf(database)]).toEqual([next, []]);
});

it("only one of several parallel db migrate makes a backup and migrates", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const before = contentOf(database);
  const ran = await Promise.all([1, 2, 3, 4].map(() => farebox(database, "db", "migrate")));
  expect(ran.filter(({ stdout }) => stdout.startsWith("migrated"))).toHaveLength(1);
  // The others find nothing to migrate, or are refused while the first one runs.
  for (const { code, stdout, stderr } of ran)
    expect(code === 0 ? stdout : stderr).toMatch(/^migrated|nothing to migrate|farebox serve is using the ledger/);
  const [name = "", ...more] = backupsOf(database);
  expect([contentOf(join(folder.path, name)), more, schemaOf(database)]).toEqual([before, [], next]);
});

it("a migration that fails leaves the ledger unchanged and no backup", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  await fill(database);
  const spoiled = new Database(database);
  // The last statement of the migration fails, because its table already exists.
  spoiled.exec("create table next_release (note text)");
  spoiled.close();
  const before = contentOf(database);
  for (let tries = 0; tries < 2; tries++) {
    expect((await farebox(database, "db", "migrate")).code).not.toBe(0);
    expect([contentOf(database), backupsOf(database)]).toEqual([before, []]);
  }
});

const noMount = whyNot(() => mountSmallDisk(4 * 1024 * 1024)[Symbol.dispose]());

it.skipIf(skipIfImpossible("an upgrade on a full disk", noMount))(
  "db migrate leaves the ledger unchanged on a full disk, and migrates it when there is room",
  async () => {
    await using folder = await temporaryFolder();
    const old = join(folder.path, "old.db");
    await fill(old);
    const needed = statSync(old).size;
    using disk = mountSmallDisk(4 * 1024 * 1024);
    const database = join(disk.path, "farebox.db");
    cpSync(old, database);
    const before = contentOf(database);
    disk.fill();
    const filler = join(disk.path, "filler");
    const filled = statSync(filler).size;
    const migrate = () => farebox(database, "db", "migrate");
    const reasons = new Set<string>();
    // From no room at all to room for the backup, but not for SQLite's own files or the migration's log.
    for (const room of [0, 64 * 1024, needed, needed + 48 * 1024, needed + 80 * 1024]) {
      truncateSync(filler, filled - room);
      const ran = await migrate();
      if (ran.code === 0) break;
      expect(ran).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^farebox: the ledger at .+\n$/),
      });
      reasons.add(ran.stderr.includes("its backup needs") ? "no room for the backup" : "full");
      expect(backupsOf(database)).toEqual([]);
      expect(contentOf(database)).toBe(before);
    }
    expect([...reasons]).toContain("no room for the backup");
    disk.free();
    expect((await migrate()).code).toBe(0);
    expect([schemaOf(database), backupsOf(database).length]).toEqual([next, 1]);
  },
);
