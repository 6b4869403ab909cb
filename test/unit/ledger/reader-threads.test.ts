import { copyFileSync, renameSync, rmSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it, vi } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import { connectToRead, connectToWrite, createPrivateFile } from "../../../src/ledger/sqlite/connection.ts";
import { longQueries } from "../../../src/ledger/sqlite/queries.ts";
import { migrate } from "../../../src/ledger/sqlite/migrate.ts";
import { openSqlite } from "../../../src/ledger/sqlite/open.ts";
import { openedFiles } from "../../../src/ledger/sqlite/opened-files.ts";
import { cachedQueries } from "../../../src/ledger/sqlite/cached-queries.ts";
import { WriterThread, type CopyResult } from "../../../src/ledger/sqlite/threads.ts";
import { registerOwner } from "../../../src/ledger/sqlite/writer.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { LedgerUnavailable } from "../../../src/ports/ledger.ts";
import { budget, endAt, holdOf, noon, openStore, posting, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { until } from "../../support/until.ts";

const clock = systemClock();
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const open = (path: string, access: "serve" | "command") => openStore({ path, calendar: utc, clock, access });

/** Threads that this process has started and that have not ended. */
const threads = new Set<Worker>();
const onWorker = (worker: Worker) => {
  threads.add(worker);
  worker.once("exit", () => threads.delete(worker));
};
process.on("worker", onWorker);
afterEach(() => void vi.useRealTimers());

describe("the threads of a served ledger", () => {
  it("start with the first query, end when idle, and start again with the next query", async () => {
    using folder = tempFolder();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    await using store = await open(folder.database, "serve");
    await store.ledger.hold(holdOf("a", usd("1")));
    expect(threads.size, "the writer").toBe(1);
    expect(await store.ledger.totals()).toMatchObject({ pending: 1 });
    expect(threads.size).toBe(2);
    vi.advanceTimersByTime(29_000);
    await store.ledger.post("a", posting(1, 1), endAt(noon));
    expect(await store.ledger.totals()).toMatchObject({ pending: 0 });
    vi.advanceTimersByTime(29_000);
    expect(threads.size, "29 seconds after a query").toBe(2);
    vi.advanceTimersByTime(1_000);
    await until(() => threads.size === 1, "the reader has ended");
    expect(await store.ledger.totals()).toMatchObject({ pending: 0, requests: 1 });
    expect(threads.size, "an answer from memory").toBe(1);
    expect((await store.ledger.verify()).differences).toEqual([]);
    expect(threads.size).toBe(2);
  });

  it("do not open a file that replaced the ledger while they were stopped", async () => {
    using folder = tempFolder();
    const { database } = folder;
    await using store = await open(database, "serve");
    await store.ledger.hold(holdOf("a", usd("1")));
    copyFileSync(database, `${database}.other`);
    renameSync(`${database}.other`, database);
    await expect(store.ledger.verify()).rejects.toThrow(LedgerUnavailable);
    await expect(store.ledger.verify()).rejects.toThrow(/another file replaced .*ledger\.db/);
  });

  it("do not open a file that replaces the ledger while they start, and the writer saves what the ledger had", async () => {
    using folder = tempFolder();
    const { database: path } = folder;
    createPrivateFile(path);
    const db = connectToWrite(path);
    migrate(db);
    const owner = registerOwner(db, noon);
    const opened = openedFiles(path);
    const { promise: copied, resolve, reject } = Promise.withResolvers<CopyResult>();
    const writer = new WriterThread(
      { path, timeZone: "UTC", owner, changes: 0, opened },
      { changed: () => {}, lost: (_lost, copy) => void copy(`${path}.saved`).then(resolve, reject) },
    );
    expect(await writer.apply([["touch"]])).toMatchObject({ outcomes: [{ kind: "done" }] });
    copyFileSync(path, `${path}.other`);
    renameSync(`${path}.other`, path);
    for (const connect of [connectToRead, connectToWrite]) {
      expect(() => connect(path, opened)).toThrow(LedgerUnavailable);
      expect(() => connect(path, opened)).toThrow(/another file replaced .*ledger\.db/);
    }
    expect(await copied).toEqual({ kind: "copied", copy: `${path}.saved` });
    await writer.close();
    const copy = connectToRead(`${path}.saved`);
    expect(copy.prepare("select count(*) from owners").pluck().get()).toBe(1);
    copy.close();
    db.close();
  });

  it("do not start if a file replaces the ledger while it is opened", async () => {
    using folder = tempFolder();
    const { database: path } = folder;
    await (await open(path, "command"))[Symbol.asyncDispose]();
    const now = () => {
      copyFileSync(path, `${path}.other`);
      renameSync(`${path}.other`, path);
      return noon;
    };
    expect(await openSqlite({ path, calendar: utc, clock: { ...clock, now }, access: "serve" })).toEqual({
      ok: false,
      failure: { kind: "unusable", message: `another file replaced ${path}` },
    });
    expect(threads.size).toBe(0);
  });

  it("refuse commands at once while the writer copies a lost ledger", async () => {
    using folder = tempFolder();
    const { database: path } = folder;
    createPrivateFile(path);
    const db = connectToWrite(path);
    migrate(db);
    const data = { path, timeZone: "UTC", owner: registerOwner(db, noon), changes: 0, opened: openedFiles(path) };
    const order: string[] = [];
    const { promise: copied, resolve, reject } = Promise.withResolvers<CopyResult>();
    const writer = new WriterThread(data, {
      changed: () => {},
      lost(_lost, copy) {
        copy(`${path}.saved`)
          .finally(() => order.push("copied"))
          .then(resolve, reject);
        void writer.apply([["touch"]]).then(({ outcomes }) => order.push(JSON.stringify(outcomes)));
      },
    });
    expect(await writer.apply([["touch"]])).toMatchObject({ outcomes: [{ kind: "done" }] });
    rmSync(path);
    expect(await copied).toEqual({ kind: "copied", copy: `${path}.saved` });
    const refused = [{ kind: "unavailable", message: `${path} was deleted or moved away` }];
    expect(order).toEqual([JSON.stringify(refused), "copied"]);
    await writer.close();
    const copy = connectToRead(`${path}.saved`);
    expect(copy.prepare("select count(*) from owners").pluck().get()).toBe(1);
    copy.close();
    db.close();
  });
});

describe("answers that jobs get from memory", () => {
  it("are read again after writes of other connections, at the next hour, and when a raise begins or ends", async () => {
    using folder = tempFolder();
    const { database } = folder;
    await using writing = await open(database, "command");
    const { ledger } = writing;
    const db = connectToRead(database);
    const reader = longQueries(db, utc);
    const reads = {
      totals: vi.fn(reader.totals),
      spend: vi.fn(reader.spend),
      windowsToAlert: vi.fn(reader.windowsToAlert),
    };
    const remembered = cachedQueries(db, utc, { ...reader, ...reads });
    const span = { since: noon - hourMs, until: noon + hourMs };
    const queriesAt = async (at: number, by: readonly "key"[] = []) => {
      vi.clearAllMocks();
      const answers = {
        totals: await remembered.totals(),
        spend: await remembered.spend({ by, each: "all", ...span }),
        windowsToAlert: await remembered.windowsToAlert(at, 500),
      };
      const names = (Object.keys(reads) as (keyof typeof reads)[]).filter((name) => reads[name].mock.calls.length > 0);
      expect(answers, "the same as without memory").toEqual({
        totals: await reader.totals(),
        spend: await reader.spend({ by, each: "all", ...span }),
        windowsToAlert: await reader.windowsToAlert(at, 500),
      });
      return { names, due: answers.windowsToAlert.length };
    };
    const all = ["totals", "spend", "windowsToAlert"];

    await ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    await ledger.hold(holdOf("a", usd("0.9")));
    expect(await queriesAt(noon)).toEqual({ names: all, due: 0 });
    expect(await queriesAt(noon + minuteMs)).toEqual({ names: [], due: 0 });
    expect(await queriesAt(noon, ["key"])).toEqual({ names: ["spend"], due: 0 });
    expect(await queriesAt(noon + hourMs)).toEqual({ names: ["windowsToAlert"], due: 0 });
    await ledger.hold(holdOf("b", usd("0.1")));
    expect(await queriesAt(noon), "at the limit").toEqual({ names: all, due: 1 });
    expect(await queriesAt(noon), "still due").toEqual({ names: [], due: 1 });
    const raise = { scope: "all", period: "1d", subject: "", amount: usd("1"), why: "launch" };
    await ledger.raiseBudget({ ...raise, from: noon + 10 * minuteMs, until: noon + 20 * minuteMs }, noon);
    expect(await queriesAt(noon)).toEqual({ names: all, due: 1 });
    expect(await queriesAt(noon + 15 * minuteMs), "raised").toEqual({ names: ["windowsToAlert"], due: 0 });
    expect(await queriesAt(noon + 16 * minuteMs)).toEqual({ names: [], due: 0 });
    expect(await queriesAt(noon + 20 * minuteMs), "no longer raised").toEqual({ names: ["windowsToAlert"], due: 1 });
    expect(await queriesAt(noon + 15 * minuteMs), "the clock set back").toEqual({ names: ["windowsToAlert"], due: 0 });
    db.close();
  });
});
