import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { Calendar } from "../../ports/calendar.ts";
import { LedgerUnavailable, type Ledger } from "../../ports/ledger.ts";
import { calendarOf } from "../../platform/clock.ts";
import type { BatchChannel } from "../commands.ts";
import { Health, type StoreEvent } from "../queue.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { schemaProblem } from "../migrations.ts";
import { ChangeListeners, queuedStore, readOnlyChannel } from "../queued-store.ts";
import type { OpenFailure, OpenResult, QueuedStore, StoreOptions } from "../store.ts";
import { answerEach } from "./answer.ts";
import { WindowStore } from "./window-store.ts";
import {
  connectToRead,
  connectToWrite,
  createPrivateFile,
  isStorageFault,
  writeTransaction,
  type Connection,
} from "./connection.ts";
import { longQueries, sqliteShortQueries, streamCharges, streamOver } from "./queries.ts";
import { foreignFile, migrate, schemaOfFile } from "./migrate.ts";
import { lostFile, openedFiles, type OpenedFiles } from "./opened-files.ts";
import { cachedQueries } from "./cached-queries.ts";
import { rebuildDays } from "./rollups.ts";
import { ReaderThread, WriterThread, type CopyResult, type WatchListener } from "./threads.ts";
import { registerOwner, Writer } from "./writer.ts";
import { messageOf } from "../../core/fault.ts";

export interface OpenOptions extends StoreOptions {
  readonly path: string;
}

/**
 * Opens a store on an existing connection for one run of a proxy, with the writer on this thread. `through` returns the
 * channel to the writer. Only for simulations: their connection stays open when the proxy ends.
 */
export function openOver(
  db: Connection,
  options: Omit<OpenOptions, "path" | "access">,
  through: (writer: Writer, on: WatchListener) => BatchChannel,
): QueuedStore {
  const { calendar, clock } = options;
  applyTimeZone(db, calendar, clock.now());
  const owner = registerOwner(db, clock.now());
  return assemble({ ...options, path: ":memory:", access: "serve" }, new AsyncDisposableStack(), {
    db,
    calendar,
    channel: (on) => through(new Writer(db, calendar, owner, options), on),
    stream: (span) => streamOver(db, span),
    runningOwner: () => owner,
  });
}

/** Opens the store in an SQLite file. */
export async function openSqlite(options: OpenOptions): Promise<OpenResult> {
  // Closes everything opened so far if a later step fails.
  const opened = new AsyncDisposableStack();
  try {
    const result = options.access === "read" ? openToRead(options, opened) : openToWrite(options, opened);
    if (!result.ok) await opened.disposeAsync();
    return result;
  } catch (error) {
    await opened.disposeAsync();
    if (!isUnusable(error)) throw error;
    return { ok: false, failure: { kind: "unusable", message: pathProblem(options.path) ?? error.message } };
  }
}

/** Returns the problem with the ledger's path; null if there is none. SQLite's error would not name the problem. */
function pathProblem(path: string): string | null {
  const folder = dirname(path);
  if (!existsSync(folder))
    return `the folder ${folder} does not exist; create it, or name a file in an existing folder`;
  return folderProblem(path);
}

/** Returns the problem message if a path is a folder; null for any other path. */
export function folderProblem(path: string): string | null {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? `it is a folder; name a file in it, such as ${join(path, "farebox.db")}`
    : null;
}

/** Returns true if an error explains why the file cannot be used; false for any other error, which is a bug. */
export function isUnusable(error: unknown): error is Error {
  if (isStorageFault(error) || error instanceof LedgerUnavailable) return true;
  return error instanceof Error && "syscall" in error;
}

function openToRead(options: OpenOptions, opened: AsyncDisposableStack): OpenResult {
  if (!existsSync(options.path)) return { ok: false, failure: { kind: "missing" } };
  const db = opened.adopt(connectToRead(options.path), (each) => void each.close());
  const { schema: found, isEmpty } = contentOf(db);
  if (found === 0) return { ok: false, failure: isEmpty ? { kind: "missing" } : foreignFile };
  const failure = schemaProblem("sqlite", found);
  if (failure !== null) return { ok: false, failure };
  const calendar = storedCalendar(db, options.calendar);
  const runningOwner = ownerOfServe(db, options.path);
  return {
    ok: true,
    store: assemble(options, opened, { db, calendar, channel: () => readOnlyChannel, runningOwner }),
  };
}

function openToWrite(options: OpenOptions, opened: AsyncDisposableStack): OpenResult {
  // The running proxy may have lost its file. No empty file may take its name.
  if (options.access === "serve" && isServed(options.path)) return { ok: false, failure: { kind: "in_use" } };
  const isNewFile = createPrivateFile(options.path) === "created";
  // Resolves links, because every path to the file must use the same lock.
  const path = realpathSync(options.path);
  const refused = isNewFile ? null : schemaProblemOf(path);
  if (refused !== null) return { ok: false, failure: refused };
  const file = openedFiles(path, [""]);
  // Connects before the lock file is created, because connecting throws if the file is not a database.
  const db = opened.adopt(connectToWrite(path), (each) => void each.close());
  const content = contentOf(db);
  if (content.schema === 0 && !content.isEmpty) return { ok: false, failure: foreignFile };
  if (options.access === "serve" && !lockForServe(path, opened)) return { ok: false, failure: { kind: "in_use" } };
  const created = isNewFile || content.isEmpty;
  const migrated = migrate(db);
  if (!migrated.ok) return migrated;
  if (options.access === "serve") return { ok: true, store: openServed(options, opened, { path, file, db, created }) };
  const calendar = storedCalendar(db, options.calendar);
  applyTimeZone(db, calendar, options.clock.now());
  const channel = () => inProcessChannel(new Writer(db, calendar, null, options));
  const runningOwner = ownerOfServe(db, path);
  return { ok: true, store: assemble(options, opened, { db, calendar, channel, created, runningOwner }) };
}

/**
 * Returns the reason why the schema of a file cannot be used; null if it can or if the file has none. Only reads, because
 * a connection that writes moves the log into the file when it closes, and a refused ledger must stay unchanged.
 */
function schemaProblemOf(path: string): OpenFailure | null {
  const db = connectToRead(path);
  try {
    const found = schemaOfFile(db);
    return found === 0 ? null : schemaProblem("sqlite", found);
  } finally {
    db.close();
  }
}

/** Ledger file that a proxy has opened. */
interface ServedFile {
  readonly path: string;
  /** File at `path` before `db` opened it. */
  readonly file: OpenedFiles;
  readonly db: Connection;
  readonly created: boolean;
}

function openServed(
  options: OpenOptions,
  opened: AsyncDisposableStack,
  { path, file, db, created }: ServedFile,
): QueuedStore {
  const { calendar, clock } = options;
  applyTimeZone(db, calendar, clock.now());
  const owner = registerOwner(db, clock.now());
  const parts = { db, calendar, created, runningOwner: () => owner };
  if (options.threads === false) {
    const channel = () => inProcessChannel(new Writer(db, calendar, owner, options));
    return assemble(options, opened, { ...parts, channel });
  }
  // Only the writer's thread writes.
  db.pragma("query_only = on");
  const changes = Number(db.prepare("select changes from meta").pluck().get());
  const { subjectsMax } = options;
  const data = { path, timeZone: calendar.timeZone, owner, changes, subjectsMax, opened: openedFiles(path) };
  // A change of the time zone may take seconds. The threads must not open a file that replaced the ledger meanwhile.
  const lost = lostFile(file);
  if (lost !== undefined) throw lost;
  const reader = new ReaderThread(data, "read");
  opened.defer(() => reader.close());
  const figures = new ReaderThread(data, "figures");
  opened.defer(() => figures.close());
  return assemble(options, opened, {
    ...parts,
    channel: (on) => new WriterThread(data, on),
    long: cachedQueries(db, calendar, reader.queries),
    figureQueries: figures.queries,
  });
}

interface Parts {
  /** Connection for short queries. */
  readonly db: Connection;
  readonly calendar: Calendar;
  readonly channel: (on: WatchListener) => BatchChannel;
  /** Long queries that run on another thread. If missing, long queries run on this thread. */
  readonly long?: LongQueries;
  /** Queries for `FigureQueries` and `lists`, if a separate thread answers them. */
  readonly figureQueries?: LongQueries;
  /** Streams charges on `db`. If missing, each stream opens a separate connection. */
  readonly stream?: Ledger["stream"];
  readonly created?: boolean;
  /** Returns the epoch (id in `owners`) of the proxy that runs on the file; null if none runs. */
  readonly runningOwner: () => number | null;
}

function assemble(
  options: OpenOptions,
  opened: AsyncDisposableStack,
  { db, calendar, channel, long, figureQueries, stream, created = false, runningOwner }: Parts,
): QueuedStore {
  const { onEvent = () => {} } = options;
  const changes = new ChangeListeners();
  const health = new Health(options.clock, onEvent);
  const on: WatchListener = {
    changed: () => changes.notify(),
    lost({ reason, hasCharges }, copy) {
      health.failed(reason);
      if (hasCharges) void copyNextTo(copy, options).then(onEvent);
    },
  };
  return queuedStore(options, opened, {
    channel: channel(on),
    health,
    short: sqliteShortQueries(db, calendar, runningOwner),
    query: async (query) => answerEach(db, query),
    longQueries: long ?? longQueries(db, calendar),
    figureQueries,
    stream: stream ?? ((span) => streamCharges(options.path, span)),
    changes,
    timeZone: calendar.timeZone,
    created,
  });
}

/** Copies a ledger whose open file was lost: when this process ends, the contents are gone. Returns the result. */
async function copyNextTo(
  copy: (file: string) => Promise<CopyResult>,
  { path, clock }: OpenOptions,
): Promise<StoreEvent> {
  const stamp = new Date(clock.now()).toISOString().replaceAll(":", "");
  try {
    return await copy(`${path}.saved-${stamp}`);
  } catch (error) {
    return { kind: "not_copied", reason: messageOf(error) };
  }
}

/** Returns a channel to a writer on this thread. */
export function inProcessChannel(writer: Writer): BatchChannel {
  return { apply: async (commands) => writer.apply(commands), close: async () => {} };
}

/**
 * Takes the lock of the running proxy, which is an exclusive transaction on a separate file. The kernel releases the
 * lock when the process ends. Returns false if another process has the lock.
 */
export function lockForServe(path: string, opened: AsyncDisposableStack): boolean {
  const lockPath = `${path}-serve`;
  createPrivateFile(lockPath);
  const lock = opened.adopt(new Database(lockPath, { timeout: 0 }), (each) => void each.close());
  try {
    lock.pragma("journal_mode = memory");
    lock.exec("begin exclusive");
    return true;
  } catch (error) {
    if (isStorageFault(error) && error.code.startsWith("SQLITE_BUSY")) return false;
    throw error;
  }
}

/** Returns true if a running proxy has the lock of a ledger. Does not create a lock file. */
export function isServed(path: string): boolean {
  const lockPath = `${path}-serve`;
  if (!existsSync(lockPath)) return false;
  const lock = new Database(lockPath, { readonly: true, timeout: 0, fileMustExist: true });
  try {
    lock.prepare("select count(*) from sqlite_schema").get();
    return false;
  } catch (error) {
    if (isStorageFault(error)) return error.code.startsWith("SQLITE_BUSY");
    throw error;
  } finally {
    lock.close();
  }
}

/** Returns a function that returns the epoch of the running proxy; null while no proxy runs. */
function ownerOfServe(db: Connection, path: string): () => number | null {
  const latest = db.prepare("select max(epoch) from owners").pluck();
  return () => (isServed(path) ? (latest.get() as number | null) : null);
}

/**
 * Returns the schema version. `isEmpty` is true if the file has no tables. Reads both in one snapshot, because another
 * process may be creating the tables.
 */
export function contentOf(db: Connection): { readonly schema: number; readonly isEmpty: boolean } {
  const tables = db.prepare("select count(*) from sqlite_schema").pluck();
  return db.transaction(() => ({ schema: schemaOfFile(db), isEmpty: tables.get() === 0 }))();
}

function storedTimeZone(db: Connection): string | null {
  return db.prepare("select time_zone from meta").pluck().get() as string | null;
}

/** Returns the calendar of the time zone that the ledger stores; `otherwise` if it stores none yet. */
export function storedCalendar(db: Connection, otherwise: Calendar): Calendar {
  const stored = storedTimeZone(db);
  return stored === null || stored === otherwise.timeZone ? otherwise : calendarOf(stored);
}

/** Stores the time zone. If it changes, rebuilds the windows and the rollup by days from the charges. */
function applyTimeZone(db: Connection, calendar: Calendar, at: number): void {
  if (storedTimeZone(db) === calendar.timeZone) return;
  writeTransaction(db, () => {
    db.prepare("update meta set time_zone = ?, changes = changes + 1").run(calendar.timeZone);
    rebuildDays(db, calendar);
    new WindowStore(db, calendar, () => undefined).rebuild(at);
  });
}
