import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { Calendar } from "../../ports/calendar.ts";
import type { Ledger, TimeSpan } from "../../ports/ledger.ts";
import { calendarOf } from "../../platform/clock.ts";
import type { BatchChannel } from "../commands.ts";
import { Health, type StoreEvent } from "../health.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { olderSchema } from "../migrations.ts";
import { ChangeListeners, queuedStore, refusing } from "../queued-store.ts";
import { CommandQueue } from "../queue.ts";
import type { OpenResult, QueuedStore, StoreOptions } from "../store.ts";
import { answerEach } from "./answer.ts";
import { WindowBook } from "./budgets.ts";
import {
  connectToRead,
  connectToWrite,
  createPrivateFile,
  isStorageFault,
  writeTransaction,
  type Connection,
} from "./connection.ts";
import { longQueries } from "./long-queries.ts";
import { knownSchema, migrate, schemaOf } from "./migrate.ts";
import { openedFiles } from "./opened-files.ts";
import { SqliteQueries } from "./short-queries.ts";
import { rebuildDays } from "./rollups.ts";
import { streamCharges, streamOver } from "./stream.ts";
import { ReaderThread, WriterThread, type Lost, type WatchListener } from "./threads.ts";
import { registerOwner, Writer } from "./writer.ts";

export interface OpenOptions extends StoreOptions {
  readonly path: string;
}

/**
 * Opens a store over an existing connection, with its writer on this thread, for one run of a proxy. `through` wraps
 * the writer's channel. For simulations, whose connections outlive the proxy as a file does.
 */
export function openOver(
  db: Connection,
  options: Omit<OpenOptions, "path" | "access">,
  through: (writer: Writer, on: WatchListener) => BatchChannel,
): QueuedStore {
  const { calendar, clock } = options;
  applyTimeZone(db, calendar, clock.now());
  const owner = registerOwner(db, clock.now());
  const channel = (on: WatchListener) => through(new Writer(db, calendar, owner), on);
  const parts = {
    db,
    calendar,
    channel,
    longQueries: longQueries(db, calendar),
    stream: (span: TimeSpan) => streamOver(db, span),
    created: false,
    runningOwner: () => owner,
  };
  return assemble({ ...options, path: ":memory:", access: "serve" }, new AsyncDisposableStack(), parts);
}

/** Opens the store in one SQLite file. */
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
    return { ok: false, failure: { kind: "unusable", message: misplaced(options.path) ?? error.message } };
  }
}

/** Returns what is wrong with the ledger's path, where SQLite would only report a disk fault; null for nothing. */
function misplaced(path: string): string | null {
  const folder = dirname(path);
  if (!existsSync(folder)) return `there is no folder ${folder}; make it first, or name a file in another one`;
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? `it is a folder; name a file in it, such as ${join(path, "farebox.db")}`
    : null;
}

/** Returns true for faults of the file, its folder or the disk, rather than of this program. */
export function isUnusable(error: unknown): error is Error {
  if (isStorageFault(error)) return true;
  return error instanceof Error && "syscall" in error;
}

const foreign: OpenResult = { ok: false, failure: { kind: "unusable", message: "not a Farebox database" } };

function openToRead(options: OpenOptions, opened: AsyncDisposableStack): OpenResult {
  if (!existsSync(options.path)) return { ok: false, failure: { kind: "missing" } };
  const db = opened.adopt(connectToRead(options.path), (each) => void each.close());
  const { schema: found, isEmpty } = contentOf(db);
  const known = knownSchema();
  if (found > known) return { ok: false, failure: { kind: "newer_schema", found, known } };
  if (found === 0 && isEmpty) return { ok: false, failure: { kind: "missing" } };
  if (found < known) return { ok: false, failure: olderSchema(found, known) };
  const calendar = storedCalendar(db, options.calendar);
  return {
    ok: true,
    store: assemble(options, opened, {
      db,
      calendar,
      channel: () => refusing,
      longQueries: longQueries(db, calendar),
      created: false,
      runningOwner: ownerOfServe(db, options.path),
    }),
  };
}

function openToWrite(options: OpenOptions, opened: AsyncDisposableStack): OpenResult {
  const isNewFile = createPrivateFile(options.path) === "created";
  // A file has one lock under all its links.
  const path = realpathSync(options.path);
  // A file that is no database fails here, before a lock file is created next to it.
  const db = opened.adopt(connectToWrite(path), (each) => void each.close());
  const content = contentOf(db);
  if (content.schema === 0 && !content.isEmpty) return foreign;
  if (options.access === "serve" && !lockForServe(path, opened)) return { ok: false, failure: { kind: "in_use" } };
  const created = isNewFile || content.isEmpty;
  const migrated = migrate(db);
  if (!migrated.ok) {
    if (migrated.reason === "foreign") return foreign;
    if (migrated.reason === "older_schema") return { ok: false, failure: olderSchema(migrated.found, migrated.known) };
    return { ok: false, failure: { kind: "newer_schema", found: migrated.found, known: migrated.known } };
  }
  if (options.access === "serve") return { ok: true, store: openServed(options, opened, path, db, created) };
  const calendar = storedCalendar(db, options.calendar);
  applyTimeZone(db, calendar, options.clock.now());
  const channel = inProcessChannel(new Writer(db, calendar, null));
  return {
    ok: true,
    store: assemble(options, opened, {
      db,
      calendar,
      channel: () => channel,
      longQueries: longQueries(db, calendar),
      created,
      runningOwner: ownerOfServe(db, path),
    }),
  };
}

function openServed(
  options: OpenOptions,
  opened: AsyncDisposableStack,
  path: string,
  db: Connection,
  created: boolean,
): QueuedStore {
  const { calendar, clock } = options;
  applyTimeZone(db, calendar, clock.now());
  const owner = registerOwner(db, clock.now());
  if (options.threads === false) {
    const channel = inProcessChannel(new Writer(db, calendar, owner));
    return assemble(options, opened, {
      db,
      calendar,
      channel: () => channel,
      longQueries: longQueries(db, calendar),
      created,
      runningOwner: () => owner,
    });
  }
  // From here on this thread only reads.
  db.pragma("query_only = on");
  const changes = Number(db.prepare("select changes from meta").pluck().get());
  const data = { path, timeZone: calendar.timeZone, owner, changes, opened: openedFiles(path) };
  const reader = new ReaderThread(data, "read");
  opened.defer(() => reader.close());
  const figures = new ReaderThread(data, "figures");
  opened.defer(() => figures.close());
  const channel = (on: WatchListener) => new WriterThread(data, on);
  return assemble(options, opened, {
    db,
    calendar,
    channel,
    longQueries: reader.queries,
    figureQueries: figures.queries,
    created,
    runningOwner: () => owner,
  });
}

interface Parts {
  /** Connection for short queries. */
  readonly db: Connection;
  readonly calendar: Calendar;
  readonly channel: (on: WatchListener) => BatchChannel;
  readonly longQueries: LongQueries;
  /** Queries of `FigureQueries`, if a separate thread answers them. */
  readonly figureQueries?: LongQueries;
  /** Replaces the snapshot on a separate connection. */
  readonly stream?: Ledger["stream"];
  readonly created: boolean;
  /** Returns the epoch of the proxy that runs on the file; null for none. */
  readonly runningOwner: () => number | null;
}

function assemble(options: OpenOptions, opened: AsyncDisposableStack, parts: Parts): QueuedStore {
  const listeners = new ChangeListeners();
  const changed = () => listeners.notify();
  const write = options.onWrite ?? (() => {});
  const onEvent = options.onEvent ?? (() => {});
  const health = new Health(options.clock, onEvent);
  const lost = ({ reason, holdsCharges }: Lost) => {
    health.failed(reason);
    if (holdsCharges) void copyNextTo(parts.longQueries, options).then(onEvent);
  };
  const queue = new CommandQueue(
    parts.channel({ changed, lost }),
    options.clock,
    { write, changed, health },
    options.settlePauseMs,
    options.afterTurn,
  );
  opened.defer(() => queue.close());
  const {
    db,
    longQueries,
    figureQueries,
    calendar: { timeZone },
    created,
  } = parts;
  return queuedStore({
    queue,
    short: new SqliteQueries(db, parts.calendar, parts.runningOwner),
    query: async (query) => answerEach(db, query),
    longQueries,
    figureQueries,
    stream: parts.stream ?? ((span) => streamCharges(options.path, span)),
    changes: listeners,
    timeZone,
    created,
    close: () => opened.disposeAsync(),
  });
}

/** Copies a ledger whose file was deleted: its content would be lost when this process ends. */
async function copyNextTo({ copy }: LongQueries, { path, clock }: OpenOptions): Promise<StoreEvent> {
  const stamp = new Date(clock.now()).toISOString().replaceAll(":", "");
  try {
    return { kind: "copied", copy: await copy(`${path}.saved-${stamp}`) };
  } catch (error) {
    return { kind: "not_copied", reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Returns a channel to a writer on this thread. */
export function inProcessChannel(writer: Writer): BatchChannel {
  return { apply: async (commands) => writer.apply(commands), close: async () => {} };
}

/**
 * Takes the lock of the one running proxy: an exclusive transaction on a side file, which the kernel releases when the
 * process ends. Returns false if another process holds it.
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

/** Returns true if a running proxy holds the lock. Only tries to read, and only an existing lock file. */
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

/** Returns a query for the latest registered run; it answers null while no proxy runs. */
function ownerOfServe(db: Connection, path: string): () => number | null {
  const latest = db.prepare("select max(epoch) from owners").pluck();
  return () => (isServed(path) ? (latest.get() as number | null) : null);
}

/**
 * Returns the schema version, and true if the file has no table, in one snapshot: another process may be creating the
 * tables.
 */
export function contentOf(db: Connection): { readonly schema: number; readonly isEmpty: boolean } {
  const tables = db.prepare("select count(*) from sqlite_schema").pluck();
  return db.transaction(() => ({ schema: schemaOf(db), isEmpty: tables.get() === 0 }))();
}

function storedTimeZone(db: Connection): string | null {
  return db.prepare("select time_zone from meta").pluck().get() as string | null;
}

export function storedCalendar(db: Connection, otherwise: Calendar): Calendar {
  const stored = storedTimeZone(db);
  return stored === null || stored === otherwise.timeZone ? otherwise : calendarOf(stored);
}

/** Stores the zone. If it changes, rebuilds windows and days from the charges. */
function applyTimeZone(db: Connection, calendar: Calendar, at: number): void {
  if (storedTimeZone(db) === calendar.timeZone) return;
  writeTransaction(db, () => {
    db.prepare("update meta set time_zone = ?, changes = changes + 1").run(calendar.timeZone);
    new WindowBook(db, calendar).rebuild(at);
    rebuildDays(db, calendar);
  });
}
