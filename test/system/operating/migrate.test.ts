// @module-tag races
import { chmodSync, cpSync, readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { knownSchema } from "../../../src/ledger/sqlite/migrate.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { oldLedgerSql } from "../../support/old-ledgers.ts";
import { mountSmallDisk, skipIfImpossible, whyNot } from "../crash/disks.ts";

const firstSchema = readFileSync(
  new URL("../../../src/ledger/migrations/sqlite/001-ledger.sql", import.meta.url),
  "utf8",
);
const known = knownSchema();

/** Creates a ledger of the first release with one key. */
function firstLedger(path: string): void {
  const db = new Database(path);
  db.pragma("journal_mode = wal");
  db.exec(firstSchema);
  db.exec(`update meta set time_zone = 'UTC';
    insert into keys (id, name, digest, created_at) values ('k1', 'alice', 'no digest', 1)`);
  db.pragma("user_version = 1");
  db.close();
  chmodSync(path, 0o600);
}

/** Creates a ledger of schema version 12 with charges. */
function oldLedger(path: string): void {
  const ledger = oldLedgers.find(({ name }) => name === "sqlite-12-callbacks");
  const db = new Database(path);
  if (ledger !== undefined) db.exec(oldLedgerSql(ledger));
  db.close();
}

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
  firstLedger(database);
  const before = contentOf(database);
  await using serve = await startServe({ database, gateway: sandbox });
  const [name = ""] = backupsOf(database);
  const backup = join(folder.path, name);
  expect(name).toMatch(backupName);
  await serve.printed(/to go back, .*\n/);
  expect(serve.stderr).toContain(
    `migrated the ledger at ${database} from schema version 1 to ${known}\nbackup from before the migration: ${backup}; to go back, install the earlier release and run: farebox db restore --database ${database} ${backup}\n`,
  );
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  expect([contentOf(backup), schemaOf(database)]).toEqual([before, known]);
  serve.signal("SIGTERM");
  await serve.ended;

  // Nothing is left to migrate, so no backup is made.
  await using again = await startServe({ database, gateway: sandbox });
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
  firstLedger(database);
  const farebox = (...args: string[]) => runFarebox(args, { env: { FAREBOX_DATABASE: database } });
  for (const args of [
    ["keys", "list"],
    ["keys", "create", "bob"],
    ["db", "backup", join(folder.path, "b.db")],
  ]) {
    expect(await farebox(...args)).toMatchObject({
      code: 2,
      stderr: `farebox: the ledger at ${database} cannot be opened: its schema version 1 is older than ${known}; upgrade it with farebox db migrate or farebox serve\n`,
    });
  }
  const migrated = await farebox("db", "migrate");
  const [name = ""] = backupsOf(database);
  const backup = join(folder.path, name);
  expect(migrated).toMatchObject({
    code: 0,
    stdout: `migrated the ledger at ${database} from schema version 1 to ${known}
backup from before the migration: ${backup}
to go back, install the earlier release and run: farebox db restore --database ${database} ${backup}
`,
  });
  expect(JSON.parse((await farebox("keys", "list", "--json")).stdout).keys).toMatchObject([{ name: "alice" }]);
  expect(JSON.parse((await farebox("db", "migrate", "--json")).stdout)).toEqual({
    from: known,
    to: known,
    backup: null,
    restore: null,
  });

  // Restoring migrates the copy and leaves the backup file unchanged.
  expect(await farebox("db", "restore", backup)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("0 charges verified, no difference"),
  });
  expect([schemaOf(backup), schemaOf(database)]).toEqual([1, known]);
});

it("db migrate makes no backup with --no-backup", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  oldLedger(database);
  const { stdout } = await runFarebox(["db", "migrate", "--no-backup", "--json"], {
    env: { FAREBOX_DATABASE: database },
  });
  expect(JSON.parse(stdout)).toEqual({ from: 12, to: known, backup: null, restore: null });
  expect([schemaOf(database), backupsOf(database)]).toEqual([known, []]);
});

it("only one of several parallel db migrate makes a backup and migrates", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  oldLedger(database);
  const before = contentOf(database);
  const ran = await Promise.all(
    [1, 2, 3, 4].map(() => runFarebox(["db", "migrate"], { env: { FAREBOX_DATABASE: database } })),
  );
  expect(ran.filter(({ stdout }) => stdout.startsWith("migrated"))).toHaveLength(1);
  // The others find nothing to migrate, or are refused while the first one runs.
  for (const { code, stdout, stderr } of ran)
    expect(code === 0 ? stdout : stderr).toMatch(/^migrated|nothing to migrate|farebox serve is using the ledger/);
  const [name = "", ...more] = backupsOf(database);
  expect([contentOf(join(folder.path, name)), more, schemaOf(database)]).toEqual([before, [], known]);
});

it("a migration that fails leaves the ledger unchanged and no backup", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  oldLedger(database);
  const spoiled = new Database(database);
  // The last statement of migration 013 fails, because its column already exists.
  spoiled.exec("alter table rollup_day add column in_doubt integer");
  spoiled.close();
  const before = contentOf(database);
  for (let tries = 0; tries < 2; tries++) {
    expect((await runFarebox(["db", "migrate"], { env: { FAREBOX_DATABASE: database } })).code).not.toBe(0);
    expect([contentOf(database), backupsOf(database)]).toEqual([before, []]);
  }
});

const noMount = whyNot(() => mountSmallDisk(4 * 1024 * 1024)[Symbol.dispose]());

it.skipIf(skipIfImpossible("an upgrade on a full disk", noMount))(
  "db migrate leaves the ledger unchanged on a full disk, and migrates it when there is room",
  async () => {
    await using folder = await temporaryFolder();
    const old = join(folder.path, "old.db");
    oldLedger(old);
    const needed = statSync(old).size;
    using disk = mountSmallDisk(4 * 1024 * 1024);
    const database = join(disk.path, "farebox.db");
    cpSync(old, database);
    const before = contentOf(database);
    disk.fill();
    const filler = join(disk.path, "filler");
    const filled = statSync(filler).size;
    const migrate = () => runFarebox(["db", "migrate"], { env: { FAREBOX_DATABASE: database } });
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
    expect([schemaOf(database), backupsOf(database).length]).toEqual([known, 1]);
  },
);
