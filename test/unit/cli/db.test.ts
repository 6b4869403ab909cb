import {
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { endAt, holdOf, posting } from "../../support/ledger-fixtures.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

let h: Harness;
beforeEach(() => {
  h = harness();
});
afterEach(() => h[Symbol.dispose]());

const dayMs = 86_400_000;

/** Adds three charges: from 500 days ago, 100 days ago, and now. */
async function fill(): Promise<void> {
  await using store = await h.open();
  for (const [index, days] of [500, 100, 0].entries()) {
    const at = h.clock.now() - days * dayMs;
    await store.ledger.hold(holdOf(`r${index}`, usd("0.01"), { at }));
    await store.ledger.post(`r${index}`, posting(1000, 1000), endAt(at));
  }
}

/** Runs SQL on a file, as a careless administrator would. */
function tamper(file: string, sql: string): void {
  const db = new Database(file);
  db.exec(sql);
  db.close();
}

/** Overwrites one page of a file, as a failing disk would. */
function overwriteIndex(file: string): void {
  const db = new Database(file);
  const page = db.prepare("select rootpage from sqlite_schema where name = 'charges_by_time'").pluck().get() as number;
  const size = db.pragma("page_size", { simple: true }) as number;
  db.close();
  const fd = openSync(file, "r+");
  writeSync(fd, Buffer.alloc(size, "spoilt"), 0, size, (page - 1) * size);
  closeSync(fd);
}

it("db backup makes a verified copy, which db restore puts back", async () => {
  await fill();
  const file = join(h.folder, "copy.db");
  expect(await h.run("db", "backup", file)).toEqual({
    code: 0,
    stdout: `backed up to ${file}: 3 charges verified, no difference\n`,
    stderr: "",
  });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  tamper(h.database, "delete from charges");
  const restored = await h.run("db", "restore", file);
  const replaced = `${h.database}.replaced-2026-11-20T120000Z`;
  expect(restored).toEqual({
    code: 0,
    stderr: "",
    stdout: `restored ${file} to ${h.database}: 3 charges verified, no difference\nthe previous ledger is kept at ${replaced}\n`,
  });
  expect(await h.json("verify")).toMatchObject({ ok: true, charges: 3 });
  // A second restore in the same second keeps both previous ledgers.
  expect(await h.json("db", "restore", file)).toMatchObject({ replaced: `${replaced}.1` });
});

it("db restore works without a ledger and over a damaged one, which it keeps", async () => {
  await fill();
  const file = join(h.folder, "copy.db");
  await h.json("db", "backup", file);
  expect(await h.json("db", "restore", file, "--database", join(h.folder, "other.db"))).toMatchObject({
    replaced: null,
    verify: { charges: 3 },
  });
  writeFileSync(h.database, "no database any more ".repeat(100));
  writeFileSync(`${h.database}-wal`, "its log");
  const { replaced } = await h.json<{ replaced: string }>("db", "restore", file);
  expect([existsSync(replaced), existsSync(`${replaced}-wal`)]).toEqual([true, true]);
  expect(await h.json("verify")).toMatchObject({ ok: true, charges: 3 });
});

it.runIf(process.getuid?.() === 0)("db restore as root keeps the owner of the ledger", async () => {
  await fill();
  const file = join(h.folder, "copy.db");
  await h.json("db", "backup", file);
  chownSync(h.database, 1234, 1234);
  await h.json("db", "restore", file);
  expect(statSync(h.database)).toMatchObject({ uid: 1234, gid: 1234 });
});

it("db restore refuses a file that is damaged, inconsistent or not a ledger", async () => {
  await fill();
  const copy = (name: string) => {
    const file = join(h.folder, name);
    copyFileSync(join(h.folder, "sound.db"), file);
    return file;
  };
  await h.json("db", "backup", join(h.folder, "sound.db"));
  const unsound = copy("unsound.db");
  tamper(unsound, "update charges set cost = cost + 1 where id = 'r0'");
  const newer = copy("newer.db");
  tamper(newer, "pragma user_version = 9999");
  const foreign = join(h.folder, "foreign.db");
  tamper(foreign, "create table t (a); pragma user_version = 1");
  const damaged = copy("damaged.db");
  overwriteIndex(damaged);
  const before = readdirSync(h.folder).sort();

  const tries: [string, number, RegExp][] = [
    [unsound, 1, /unsound\.db is inconsistent \(\d+ differences; [^\n]+\); the ledger is unchanged\n$/],
    [newer, 2, /newer\.db was written by a newer farebox; restore it with that version or a later one\n$/],
    [foreign, 2, /foreign\.db cannot be restored: not a Farebox database\n$/],
    [damaged, 1, /damaged\.db is damaged: [^\n]+; the ledger is unchanged\n$/],
    [join(h.folder, "none.db"), 2, /there is no ledger in \S+none\.db\n$/],
    [h.database, 2, /is the ledger itself; name a backup of it\n$/],
  ];
  for (const [file, code, stderr] of tries) {
    expect(await h.run("db", "restore", file)).toEqual({ code, stdout: "", stderr: expect.stringMatching(stderr) });
  }
  // Ignores the files that SQLite creates next to a file while it is read.
  expect(
    readdirSync(h.folder)
      .filter((name) => !/-(shm|wal)$/.test(name))
      .sort(),
  ).toEqual(before.filter((name) => !/-(shm|wal)$/.test(name)));
  expect(await h.json("verify")).toMatchObject({ ok: true, charges: 3 });
});

it("db backup reports why a file cannot be written", async () => {
  await fill();
  mkdirSync(join(h.folder, "folder"));
  const tries: [string, RegExp][] = [
    [h.database, /is the ledger itself; give the backup another name\n$/],
    [join(h.folder, "folder"), /is not a regular file; name another file for the backup\n$/],
    [join(h.folder, "no/such.db"), /there is no folder \S+no for the backup\n$/],
  ];
  for (const [file, stderr] of tries)
    expect(await h.run("db", "backup", file)).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(stderr) });
});

it("db backup copies an inconsistent ledger, reports it and ends with 1", async () => {
  await fill();
  tamper(h.database, "update charges set cost = cost + 1 where id = 'r0'");
  const ran = await h.run("db", "backup", join(h.folder, "copy.db"));
  expect(ran).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(
      /3 charges verified, \d+ differences that the ledger also has \(farebox verify shows them\)\n$/,
    ),
  });
  expect(existsSync(join(h.folder, "copy.db"))).toBe(true);
});

it("db prune deletes older charges but keeps every sum, and --dry-run only counts them", async () => {
  await fill();
  const total = () => h.json<{ total: object }>("report", "--since", "600d");
  const before = (await total()).total;
  expect(await h.json("db", "prune", "--older-than", "400d", "--dry-run")).toEqual({
    before: "2025-10-16T00:00:00.000Z",
    charges: 1,
    windows: 0,
    quarter_rollups: 2,
    dry_run: true,
  });
  expect((await h.json<{ charges: unknown[] }>("charges")).charges).toHaveLength(3);
  expect(await h.run("db", "prune", "--older-than", "400d")).toEqual({
    code: 0,
    stderr: "",
    stdout: "pruned 1 charges from before 2025-10-16T00:00:00.000Z into daily sums\n",
  });
  expect(
    (await h.json<{ charges: { request_id: string }[] }>("charges")).charges.map(({ request_id }) => request_id),
  ).toEqual(["r2", "r1", expect.stringMatching(/^carried-2025-07-08-[0-9a-f]{16}$/)]);
  expect((await total()).total).toEqual(before);
  expect(await h.json("verify")).toMatchObject({ ok: true });
});

it.each([
  [[], /required option '--older-than <age>' not specified/],
  [["--older-than", "10d"], /at least 36d/],
  [["--older-than", "soon"], /must be a duration/],
])("db prune %j is refused", async (args, stderr) => {
  expect(await h.run("db", "prune", ...args)).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(stderr) });
});

it("db backup shows its progress on a terminal", async () => {
  await fill();
  h.isTTY = true;
  const { stderr } = await h.run("db", "backup", join(h.folder, "copy.db"));
  expect(stderr).toMatch(/^\r\d+% copied \[#*-*\]/);
});
