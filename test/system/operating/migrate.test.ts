import { chmodSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { knownSchema } from "../../../src/store/sqlite/migrate.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";

const firstSchema = readFileSync(new URL("../../../src/store/migrations/sqlite/001-ledger.sql", import.meta.url), "utf8");
const known = knownSchema();

/** A ledger as the first release made it, with one key in it. */
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

function schemaOf(path: string): unknown {
  const db = new Database(path, { readonly: true });
  const version = db.pragma("user_version", { simple: true });
  db.close();
  return version;
}

it("serve brings the ledger of an earlier release forward, after a backup of its own", { timeout: 60_000 }, async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  firstLedger(database);
  await using serve = await startServe({ database, gateway: sandbox });
  const backup = `${database}.before-${known}`;
  expect(serve.stderr).toContain(`migrated the ledger at ${database} from schema version 1 to ${known}; as it was before: ${backup}\n`);
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  expect([schemaOf(backup), schemaOf(database)]).toEqual([1, known]);
  serve.signal("SIGTERM");
  await serve.ended;

  // Nothing is to migrate any more, so no backup is made.
  await using again = await startServe({ database, gateway: sandbox });
  expect(again.stderr).not.toContain("migrated");
  expect(existsSync(`${backup}.1`)).toBe(false);
});

it("commands leave it to db migrate, which says from where to where and keeps every backup", { timeout: 60_000 }, async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  firstLedger(database);
  const farebox = (...args: string[]) => runFarebox(args, { env: { FAREBOX_DATABASE: database } });
  for (const args of [["keys", "list"], ["keys", "create", "bob"], ["db", "backup", join(folder.path, "b.db")]]) {
    expect(await farebox(...args)).toMatchObject({
      code: 2,
      stderr: `farebox: the ledger at ${database} cannot be opened: its schema version 1 is older than ${known}; farebox db migrate brings it forward, as the next serve does\n`,
    });
  }
  const backup = `${database}.before-${known}`;
  expect(await farebox("db", "migrate")).toMatchObject({
    code: 0,
    stdout: `migrated the ledger at ${database} from schema version 1 to ${known}\nas it was before: ${backup}\n`,
  });
  expect(JSON.parse((await farebox("keys", "list", "--json")).stdout).keys).toMatchObject([{ name: "alice" }]);
  expect(JSON.parse((await farebox("db", "migrate", "--json")).stdout)).toEqual({ from: known, to: known, backup: null });

  // The backup is of an earlier release: restoring it brings the copy forward and leaves the file as it is.
  expect(await farebox("db", "restore", backup)).toMatchObject({ code: 0, stdout: expect.stringContaining("0 charges verified, no difference") });
  expect([schemaOf(backup), schemaOf(database)]).toEqual([1, known]);
});
