import { everyRequest, keyScope } from "../../../src/core/scope.ts";
import { existsSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, vi } from "vitest";
import { picoUsdMax, usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { connectToWrite, createPrivateFile, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import { answerEach } from "../../../src/ledger/sqlite/answer.ts";
import { bind, queuedLedger } from "../../../src/ledger/queued-store.ts";
import { LedgerUnavailable, type HoldResult } from "../../../src/ports/ledger.ts";
import { longQueries, sqliteShortQueries, streamCharges } from "../../../src/ledger/sqlite/queries.ts";
import { knownSchema, migrate } from "../../../src/ledger/sqlite/migrate.ts";
import { inProcessChannel, openSqlite } from "../../../src/ledger/sqlite/open.ts";
import { CommandQueue } from "../../../src/ledger/queue.ts";
import { WriterThread } from "../../../src/ledger/sqlite/threads.ts";
import { registerOwner, Writer } from "../../../src/ledger/sqlite/writer.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { holdCommand, type BatchChannel } from "../../../src/ledger/commands.ts";
import {
  alice,
  budget,
  endAt,
  holdOf,
  key,
  noon,
  openStore,
  posting,
  tempFolder,
  utc,
  type TempFolder,
} from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const clock = systemClock();

const serve = (path: string) => openStore({ path, calendar: utc, clock, access: "serve" });
const command = (path: string) => openStore({ path, calendar: utc, clock, access: "command" });

/** Returns a ledger over parts that the test can control. */
function ledgerOver(db: Connection, channel: BatchChannel, by: Clock = clock) {
  const queue = new CommandQueue(channel, by, { write: () => {}, changed: () => {} });
  const long = longQueries(db, utc);
  const short = sqliteShortQueries(db, utc, () => null);
  return {
    queue,
    ledger: queuedLedger({ queue, short, long, figures: long, stream: (span) => streamCharges(db.name, span) }),
    keys: bind("keys", async (query) => answerEach(db, query), queue),
  };
}

function freshDatabase(folder: TempFolder): Connection {
  createPrivateFile(folder.database);
  const db = connectToWrite(folder.database);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  return db;
}

describe("opening a database", () => {
  it("creates the database and the files next to it for the owner only", async () => {
    using folder = tempFolder();
    await using store = await serve(folder.database);
    expect(store.created).toBe(true);
    await store.ledger.hold(holdOf("a", usd("1")));
    const modes = readdirSync(folder.path).map((name) => [name, statSync(join(folder.path, name)).mode & 0o777]);
    expect(modes).toEqual([
      ["ledger.db", 0o600],
      ["ledger.db-serve", 0o600],
      ["ledger.db-shm", 0o600],
      ["ledger.db-wal", 0o600],
    ]);
    await using again = await command(folder.database);
    expect(again.created).toBe(false);
  });

  it("does not create a missing database for reading, and refuses writes to a read-only one", async () => {
    using folder = tempFolder();
    const options = { path: folder.database, calendar: utc, clock, access: "read" } as const;
    expect(await openSqlite(options)).toEqual({ ok: false, failure: { kind: "missing" } });
    expect(existsSync(folder.database)).toBe(false);
    {
      await using writing = await command(folder.database);
      await writing.ledger.setBudget(budget(everyRequest, "1d", "3"), noon);
      await writing.ledger.hold(holdOf("a", usd("1")));
    }
    await using store = await openStore(options);
    expect(await store.ledger.windows(noon)).toMatchObject([{ held: usd("1") }]);
    expect(await store.ledger.hold(holdOf("b", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
    await expect(store.ledger.setBudget(budget(everyRequest, "1d", "3"), noon)).rejects.toThrow(LedgerUnavailable);
    expect(await store.ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it.each(["serve", "command", "read"] as const)("refuses a newer schema for %s", async (access) => {
    using folder = tempFolder();
    const db = freshDatabase(folder);
    db.pragma(`user_version = ${knownSchema() + 4}`);
    db.close();
    expect(await openSqlite({ path: folder.database, calendar: utc, clock, access })).toEqual({
      ok: false,
      failure: { kind: "newer_schema", found: knownSchema() + 4, known: knownSchema() },
    });
  });

  it("refuses files that are not databases, that are another program's, or whose folder is missing", async () => {
    using folder = tempFolder();
    const text = join(folder.path, "text.db");
    writeFileSync(text, "not a database, but long enough to be looked at as one ".repeat(20));
    const foreign = join(folder.path, "foreign.db");
    const other = new Database(foreign);
    other.exec("create table photos (name text)");
    other.close();
    for (const path of [text, foreign, join(folder.path, "no", "where.db"), folder.path]) {
      expect(await openSqlite({ path, calendar: utc, clock, access: "serve" })).toMatchObject({
        ok: false,
        failure: { kind: "unusable" },
      });
      expect(existsSync(`${path}-serve`)).toBe(false);
    }
  });

  it("accepts a ledger whose tables another process creates meanwhile", async () => {
    const { pragma } = Database.prototype;
    for (const access of ["command", "serve"] as const) {
      using folder = tempFolder();
      createPrivateFile(folder.database);
      const other = connectToWrite(folder.database);
      let isMade = false;
      using _ = vi.spyOn(Database.prototype, "pragma").mockImplementation(function (this: Connection, ...asked) {
        const answer = pragma.apply(this, asked);
        if (asked[0] === "user_version" && !isMade) {
          isMade = true;
          migrate(other);
          other.close();
        }
        return answer;
      });
      await using store = await openStore({ path: folder.database, calendar: utc, clock, access });
      expect(await store.ledger.verify()).toMatchObject({ differences: [] });
      expect(isMade).toBe(true);
    }
  });

  it("allows one serve on a file, also through a link, and commands next to it", async () => {
    using folder = tempFolder();
    const first = await serve(folder.database);
    const link = join(folder.path, "link.db");
    symlinkSync(folder.database, link);
    for (const path of [folder.database, link]) {
      expect(await openSqlite({ path, calendar: utc, clock, access: "serve" })).toEqual({
        ok: false,
        failure: { kind: "in_use" },
      });
    }
    await using beside = await command(folder.database);
    await beside.keys.create(key("beside"));
    await first[Symbol.asyncDispose]();
    await using second = await serve(folder.database);
    expect(await second.keys.find("beside")).toEqual(key("beside"));
  });
});

describe("the grouping of commands", () => {
  it("puts commands that arrive during a transaction into the next one", async () => {
    using folder = tempFolder();
    const transactions: number[] = [];
    await using store = await openStore({
      path: folder.database,
      calendar: utc,
      clock,
      access: "serve",
      onWrite: (_seconds, calls) => transactions.push(calls),
    });
    await store.ledger.setBudget(budget(everyRequest, "1d", "37"), noon);
    const results = await Promise.all(
      Array.from({ length: 500 }, (_, n) => store.ledger.hold(holdOf(`h${n}`, usd("1")))),
    );
    expect(results.filter(({ ok }) => ok)).toHaveLength(37);
    expect(transactions.reduce((total, calls) => total + calls, 0)).toBe(501);
    expect(transactions.length).toBeLessThanOrEqual(4);
  });

  it("settles holds before it places new ones in the same transaction", async () => {
    using folder = tempFolder();
    await using store = await command(folder.database);
    await store.ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    await store.ledger.hold(holdOf("a", usd("1")));
    const [held, ended] = await Promise.all([
      store.ledger.hold(holdOf("b", usd("1"))),
      store.ledger.void("a", "left", endAt(noon)),
    ]);
    expect([held.ok, ended.ok]).toEqual([true, true]);
  });

  it("refuses holds of a batch with one copy of the window until it changes", () => {
    using folder = tempFolder();
    const db = freshDatabase(folder);
    const writer = new Writer(db, utc, registerOwner(db, noon));
    writer.apply([["run", "budgets.setBudget", [budget(everyRequest, "1d", "1"), noon]]]);
    const { outcomes } = writer.apply(
      ["2", "3", "0.40", "2"].map((amount, n) => holdCommand(holdOf(`h${n}`, usd(amount)), true)),
    );
    const windows = outcomes.flatMap((outcome) => {
      const reply = outcome.kind === "done" ? (outcome.reply as HoldResult) : null;
      return reply !== null && "shortage" in reply ? [reply.shortage.window] : [];
    });
    expect(windows.map(({ held }) => held)).toEqual([0n, 0n, usd("0.40")]);
    expect(windows[1]).toBe(windows[0]);
    db.close();
  });

  it("rejects only amounts and sums above 64 bits", async () => {
    using folder = tempFolder();
    await using store = await command(folder.database);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "1", "soft"), noon);
    await ledger.hold(holdOf("a", usd("5000000")));
    const results = await Promise.allSettled([
      ledger.hold(holdOf("b", picoUsdMax)),
      ledger.hold(holdOf("c", usd("1"))),
      ledger.void("a", "left", endAt(noon)),
      ledger.hold(holdOf("d", usd("9000000"))),
      ledger.hold(holdOf("e", usd("900000"))),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "rejected",
      "fulfilled",
      "fulfilled",
      "fulfilled",
      "rejected",
    ]);
    expect(await ledger.windows(noon)).toMatchObject([{ held: usd("9000001") }]);
    expect(await ledger.verify()).toEqual({ charges: 3, differences: [] });
  });
});

describe("the command queue", () => {
  it.each<[string, (db: Connection) => void, (db: Connection) => void]>([
    [
      "full disk",
      (db) => db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`),
      (db) => db.pragma("max_page_count = 100000"),
    ],
    ["read-only file", (db) => db.pragma("query_only = on"), (db) => db.pragma("query_only = off")],
  ])(
    "refuses holds as unavailable, and keeps settlements waiting, because of a %s",
    async (_name, breakIt, repairIt) => {
      using folder = tempFolder();
      const db = freshDatabase(folder);
      const manual = manualClock(noon);
      const { queue, ledger, keys } = ledgerOver(db, inProcessChannel(new Writer(db, utc, null)), manual);
      await ledger.setBudget(budget(everyRequest, "1d", "1000"), noon);
      const ids = Array.from({ length: 200 }, (_, n) => `h${n}`);
      await Promise.all(ids.map((id) => ledger.hold(holdOf(id, usd("1")))));
      expect(await ledger.isWritable()).toBe(true);
      breakIt(db);
      const tags = { long: "x".repeat(20_000) };
      const before = await ledger.windows(noon);
      expect(await Promise.all(["x", "y"].map((id) => ledger.hold(holdOf(id, usd("1"), { tags }))))).toEqual([
        { ok: false, reason: "unavailable" },
        { ok: false, reason: "unavailable" },
      ]);
      // Larger than the remaining pages, so that it does not fit.
      const settled = Promise.all(
        ids.map((id) => ledger.post(id, { ...posting(1, 1), reason: "r".repeat(2000) }, endAt(noon))),
      );
      await ledger.extend("h0", usd("1"), usd("1"), noon);
      await expect(keys.create(key("name", { models: ["m".repeat(20_000)] }))).rejects.toThrow(LedgerUnavailable);
      expect(await ledger.windows(noon)).toEqual(before);
      expect(await ledger.verify()).toEqual({ charges: 200, differences: [] });
      expect(manual.waiting).toBe(1);
      manual.advance(200);
      repairIt(db);
      manual.advance(10_000);
      expect((await settled).filter((result) => !result.ok || !result.first)).toEqual([]);
      expect(await ledger.windows(noon)).toMatchObject([{ held: 0n }]);
      expect(await ledger.verify()).toEqual({ charges: 200, differences: [] });
      await queue.close();
      db.close();
    },
  );

  it("restarts a dead writer: settlements continue, and no refused hold stays pending", async () => {
    using folder = tempFolder();
    const db = freshDatabase(folder);
    const thread = new WriterThread(
      { path: folder.database, timeZone: "UTC", owner: registerOwner(db, noon), changes: 0, opened: {} },
      { changed: () => {}, lost: () => {} },
    );
    const { queue, ledger } = ledgerOver(db, thread);
    await ledger.setBudget(budget(everyRequest, "1d", "1000"), noon);
    const ids = Array.from({ length: 100 }, (_, n) => `h${n}`);
    await Promise.all(ids.map((id) => ledger.hold(holdOf(id, usd("1")))));
    const settled = ids.map((id) => ledger.post(id, posting(1, 1), endAt(noon)));
    const held = ids.map((id) => ledger.hold(holdOf(`new-${id}`, usd("1"))));
    await Promise.resolve();
    await thread.stop();
    expect((await Promise.all(settled)).filter(({ ok }) => !ok)).toEqual([]);
    const admitted = (await Promise.all(held)).filter(({ ok }) => ok).length;
    await ledger.hold(holdOf("after", usd("1")));
    await queue.close();
    expect((await ledger.pending()).count).toBe(admitted + 1);
    expect((await ledger.verify()).differences).toEqual([]);
    db.close();
  });

  it("voids a hold whose writer died between its commit and its answer", async () => {
    using folder = tempFolder();
    const db = freshDatabase(folder);
    const writer = new Writer(db, utc, null);
    let isDying = true;
    const dying: BatchChannel = {
      async apply(commands) {
        const result = writer.apply(commands);
        if (isDying) throw new Error("died");
        return result;
      },
      close: async () => {},
    };
    const manual = manualClock(noon);
    const { ledger } = ledgerOver(db, dying, manual);
    expect(await ledger.hold(holdOf("a", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
    expect(await ledger.charge("a")).toMatchObject({ state: "pending" });
    isDying = false;
    manual.advance(1000);
    expect(await ledger.hold(holdOf("b", usd("1")))).toMatchObject({ ok: true });
    expect(await ledger.charge("a")).toMatchObject({ state: "voided", reason: "not_sent" });
    db.close();
  });

  it("returns unavailable after it is closed", async () => {
    using folder = tempFolder();
    const store = await serve(folder.database);
    await store[Symbol.asyncDispose]();
    expect(await store.ledger.hold(holdOf("a", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
    expect(await store.ledger.post("a", posting(1, 1), endAt(noon))).toEqual({ ok: false, reason: "unavailable" });
  });

  it("writes waiting commands before it closes", async () => {
    using folder = tempFolder();
    const store = await serve(folder.database);
    const held = Array.from({ length: 600 }, (_, n) => store.ledger.hold(holdOf(`h${n}`, usd("1"))));
    await store[Symbol.asyncDispose]();
    expect((await Promise.all(held)).filter(({ ok }) => !ok)).toEqual([]);
    await using again = await serve(folder.database);
    expect((await again.ledger.pending()).count).toBe(600);
  });
});

describe("changes of keys and budgets", () => {
  it("are seen by a serve on the same ledger without a request", async () => {
    using folder = tempFolder();
    await using running = await serve(folder.database);
    await using beside = await command(folder.database);
    const names = ["alice", "bob"];
    for (const name of names) await beside.keys.create(key(name));
    // Starts the threads, so that they report earlier changes first.
    await running.ledger.hold(holdOf("a", usd("1")));
    for (const name of names) {
      const changed = new Promise<void>((resolve) => running.changes.onChange(resolve));
      await beside.keys.revoke(`id-${name}`, noon);
      await changed;
      expect((await running.keys.findById(`id-${name}`))?.revokedAt).toBe(noon);
    }
  });

  it("are reported once by the process that makes them, even if another command fails", async () => {
    using folder = tempFolder();
    await using store = await command(folder.database);
    let reports = 0;
    store.changes.onChange(() => reports++);
    const failing = store.ledger.hold(holdOf("bad", -1n as PicoUsd));
    await Promise.allSettled([store.keys.create(key("alice")), failing]);
    expect(reports).toBe(1);
  });

  it("apply to the next admission, which reads budgets in its transaction", async () => {
    using folder = tempFolder();
    await using running = await serve(folder.database);
    await using beside = await command(folder.database);
    expect(await running.ledger.hold(holdOf("a", usd("1")))).toMatchObject({ ok: true, room: null });
    await beside.ledger.setBudget(budget(keyScope(alice.key), "1d", "1.5"), noon);
    expect(await running.ledger.hold(holdOf("b", usd("1")))).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { window: { held: usd("1") } },
    });
    await running.ledger.post("a", posting(1_000_000, 0), endAt(noon));
    expect(
      await beside.ledger.adjust("a", { id: "fix", at: noon, amount: usd("0.25"), why: "late fee", by: "root" }),
    ).toBe("ok");
    expect(await running.ledger.hold(holdOf("c", usd("0.25")))).toMatchObject({ ok: true, room: 0n });
    await beside.ledger.removeBudget(`key:${alice.key}`, "1d", noon);
    expect(await running.ledger.hold(holdOf("d", usd("9")))).toMatchObject({ ok: true, room: null });
    expect((await running.ledger.verify()).differences).toEqual([]);
  });
});

describe("verification", () => {
  it.each<[string, string, string]>([
    ["a changed cost", "update charges set cost = cost + 1 where id = 'a'", "charge"],
    ["a changed list cost", "update charges set list_cost = list_cost - 1 where id = 'a'", "charge"],
    ["a changed token count", "update charges set output = output + 1 where id = 'a'", "charge"],
    ["a minimum that did not apply", "update charges set minimum_applied = 1 where id = 'a'", "charge"],
    ["a changed overage", "update charges set overage = 5 where id = 'a'", "charge"],
    ["a changed price", "update price_versions set canonical = replace(canonical, '4000000', '4000001')", "charge"],
    ["a lost price", "delete from price_versions", "charge"],
    ["an unreadable price", "update price_versions set canonical = '{'", "charge"],
    ["an assumed cost that is not the hold", "update charges set hold = hold + 1 where id = 'b'", "charge"],
    [
      "a settled charge without an end",
      "pragma ignore_check_constraints = on; update charges set ended_at = null where id = 'a'",
      "charge",
    ],
    [
      "a voided charge with a cost",
      "pragma ignore_check_constraints = on; update charges set cost = 5 where id = 'v'",
      "charge",
    ],
    ["an adjustment without a charge", "update charges set adjusts = 'stranger' where id = 'fix'", "charge"],
    ["a lost charge", "delete from charges where id = 'a'", "window"],
    [
      "a settled charge that is pending again",
      "update charges set state = 'pending', ended_at = null, cost = null, list_cost = null, formula = null, source = null where id = 'a'",
      "window",
    ],
    ["changed spent sums", "update windows set spent = spent + 1", "window"],
    ["changed held sums", "update windows set held = held + 1", "window"],
    ["a moved window", "update windows set starts_at = starts_at + 1", "window"],
    ["a window without a budget", "pragma foreign_keys = off; delete from budgets", "budget"],
    ["a changed quarter hour", "update rollup_quarter set requests = requests + 1", "rollup"],
    ["a hold without a link to its window", "delete from charge_windows", "link"],
    ["a lost quarter hour", "delete from rollup_quarter", "rollup"],
    ["changed daily sums", "update rollup_day set cost = cost - 1", "rollup"],
    ["a quarter hour with other retries", "update rollup_quarter set retries = retries + 1", "rollup"],
    ["daily sums with other retries", "update rollup_day set retries = 0", "rollup"],
    ["a changed retry", "update charges set retry = 0 where id = 'a'", "rollup"],
    ["daily sums of another day", "update rollup_day set day = '2026-11-19'", "rollup"],
  ])("finds %s", async (_name, sql, kind) => {
    using folder = tempFolder();
    await using store = await command(folder.database);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "100"), noon);
    for (const id of ["a", "b", "p", "v"]) await ledger.hold(holdOf(id, usd("1"), { retry: id === "a" ? 1 : 0 }));
    await ledger.post("a", posting(1000, 10), endAt(noon));
    await ledger.post(
      "b",
      { ...posting(0, 0), formula: "assumed", source: "assumed", cost: usd("1"), listCost: usd("1") },
      endAt(noon),
    );
    await ledger.void("v", "left", endAt(noon));
    await ledger.adjust("a", { id: "fix", at: noon, amount: usd("0.01"), why: "test", by: "root" });
    expect(await ledger.verify()).toEqual({ charges: 5, differences: [] });
    const db = new Database(folder.database);
    db.exec(sql);
    db.close();
    const { differences } = await ledger.verify();
    expect(differences.map((difference) => difference.kind)).toContain(kind);
  });
});
