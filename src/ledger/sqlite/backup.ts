import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import type { Calendar } from "../../ports/calendar.ts";
import type { Verification } from "../../ports/ledger.ts";
import { schemaProblem, type MigrationResult } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { connectToRead, connectToWrite, createPrivateFile, isStorageFault, type Connection } from "./connection.ts";
import { foreignFile, knownSchema, migrate, schemaOfFile } from "./migrate.ts";
import { contentOf, folderProblem, isUnusable, lockForServe, storedCalendar } from "./open.ts";
import { connectUnderOneName } from "./one-name.ts";
import { verify } from "./verify.ts";

/** Number of pages copied in one step. Other work of this process runs between steps. */
const stepPages = 2000;

/** Completed copy of a ledger. */
interface LedgerCopy {
  readonly file: string;
  /** Schema version of the copy. */
  readonly schema: number;
  readonly verification: Verification;
}

export type CopyFailure =
  | OpenFailure
  /** SQLite's integrity check failed on the copy. */
  | { readonly kind: "corrupt"; readonly message: string }
  /** Another process, such as a command or a backup, has the file open. */
  | { readonly kind: "busy" }
  /** The disk has too little free space for a backup. `needed` and `free` are in bytes. */
  | { readonly kind: "no_room"; readonly needed: number; readonly free: number };

export type CopyResult =
  | { readonly ok: true; readonly copied: LedgerCopy }
  | { readonly ok: false; readonly failure: CopyFailure };

interface BackupOptions {
  /** Path of the ledger. */
  readonly path: string;
  /** Path of the backup. A complete copy that passed its checks replaces an existing file. */
  readonly file: string;
  /** Calendar for a ledger that does not store a time zone yet. */
  readonly calendar: Calendar;
  /** Receives the copied share of the ledger, from 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

/** Copies a ledger and checks the copy. Other processes may write to the ledger meanwhile. */
export async function backUp({ path, file, calendar, onProgress }: BackupOptions): Promise<CopyResult> {
  return await guarded<CopyResult>(async () => {
    const opened = openCurrent(path);
    if (!opened.ok) return opened;
    using owned = new DisposableStack();
    const db = owned.adopt(opened.db, (each) => void each.close());
    const part = `${file}.part`;
    const copied = await copyAndCheck(db, part, calendar, onProgress);
    if (copied.ok) moveIntoPlace(part, file);
    return copied.ok ? { ok: true, copied: { ...copied.copied, file } } : copied;
  });
}

type RestoreResult =
  | {
      readonly ok: true;
      readonly copied: LedgerCopy;
      /** New path of the replaced ledger; null if there was none. */
      readonly replaced: string | null;
    }
  /** `of`: the ledger to replace, or the file of the backup. */
  | { readonly ok: false; readonly failure: CopyFailure; readonly of: "ledger" | "file" }
  /** The file's sums do not match its charges. Nothing was replaced. */
  | { readonly ok: false; readonly verification: Verification };

interface RestoreOptions extends BackupOptions {
  /** Path of the backup to restore. */
  readonly file: string;
  /** Part of the replaced file's new name, such as "2026-11-20T120000Z". */
  readonly stamp: string;
}

/** Replaces the ledger with a copy of a backup. Fails while a proxy runs on the ledger. Does not change the backup. */
export async function restore({ path, file, calendar, stamp, onProgress }: RestoreOptions): Promise<RestoreResult> {
  await using owned = new AsyncDisposableStack();
  const target = existsSync(path) ? realpathSync(path) : path;
  const part = `${target}.restoring`;
  owned.defer(() => rmSync(part, { force: true }));
  let of: "file" | "ledger" = "file";
  const result = await guarded<RestoreResult>(async () => {
    const opened = openKnown(file);
    if (!opened.ok) return { ...opened, of };
    const source = owned.adopt(opened.db, (each) => void each.close());
    of = "ledger";
    if (!lockForServe(target, owned)) return { ok: false, failure: { kind: "in_use" }, of };
    of = "file";
    const copied = await copyAndCheck(source, part, calendar, onProgress);
    if (!copied.ok) return { ...copied, of };
    const { verification } = copied.copied;
    if (verification.differences.length > 0) return { ok: false, verification };
    of = "ledger";
    keepOwner(part, existsSync(target) ? target : dirname(target));
    const replaced = existsSync(target) ? keepUnderSecondName(target, `${target}.replaced-${stamp}`) : null;
    if (replaced === busy) return { ok: false, failure: { kind: "busy" }, of };
    moveIntoPlace(part, target);
    return { ok: true, copied: { ...copied.copied, file: target }, replaced };
  });
  return result.ok || "verification" in result ? result : { ...result, of };
}

interface MigrateFileOptions {
  readonly path: string;
  /** Part of the backup's name, such as "2026-11-20T120000Z". */
  readonly stamp: string;
  readonly backup?: boolean;
}

/**
 * Upgrades the ledger of an earlier release to this release's schema. First makes a backup next to the file,
 * unless `backup` is false. Fails while a proxy runs on the file.
 */
export async function migrateFile({
  path,
  stamp,
  backup = true,
}: MigrateFileOptions): Promise<MigrationResult<CopyFailure>> {
  return await guarded<MigrationResult<CopyFailure>>(async () => {
    const to = knownSchema();
    const opened = openKnown(path);
    if (!opened.ok) return opened;
    const isDone = opened.schema === to;
    opened.db.close();
    const nothing = { ok: true, from: to, to, changed: false, backup: null } as const;
    if (isDone) return nothing;
    await using owned = new AsyncDisposableStack();
    const target = realpathSync(path);
    if (!lockForServe(target, owned)) return { ok: false, failure: { kind: "in_use" } };
    const db = owned.adopt(connectToWrite(target), (each) => void each.close());
    // Locks out commands of the earlier release, because the backup would lack their later writes.
    db.exec("begin immediate");
    owned.defer(() => void (db.inTransaction && db.exec("rollback")));
    // Another process may have upgraded the file before the lock was taken.
    if (schemaOfFile(db) === to) return nothing;
    const from = schemaOfFile(db);
    const made = backup ? await backUpBefore(target, `${target}.schema-${from}-${stamp}`) : null;
    if (made !== null && !made.ok) return made;
    let isMigrated = false;
    // Without a migration, the backup is useless. Repeated attempts would fill the disk with backups.
    owned.defer(() => void (made !== null && !isMigrated && rmSync(made.file, { force: true })));
    const migrated = migrate(db, { forward: true });
    if (!migrated.ok) return migrated;
    db.exec("commit");
    isMigrated = true;
    return { ...migrated, backup: made?.file ?? null };
  });
}

/** Makes a backup if the disk has enough free space. Removes the copy if it fails the integrity check. */
async function backUpBefore(
  path: string,
  wanted: string,
): Promise<{ readonly ok: true; readonly file: string } | CopyFailed> {
  const db = connectToRead(path);
  const part = `${wanted}.part`;
  try {
    const needed = Number(db.pragma("page_count", { simple: true })) * Number(db.pragma("page_size", { simple: true }));
    const { bavail, bsize } = statfsSync(dirname(path));
    if (needed > bavail * bsize) return { ok: false, failure: { kind: "no_room", needed, free: bavail * bsize } };
    await copy(db, part);
    const fault = integrityFault(part);
    if (fault !== null) return { ok: false, failure: { kind: "corrupt", message: fault } };
    keepOwner(part, path);
    const file = freeName(wanted);
    moveIntoPlace(part, file);
    return { ok: true, file };
  } finally {
    db.close();
    rmSync(part, { force: true });
  }
}

/** Returns the first fault that SQLite's integrity check finds in a file; null if there is none. */
function integrityFault(file: string): string | null {
  const db = new Database(file, { fileMustExist: true });
  try {
    const found = db.pragma("integrity_check(1)", { simple: true });
    return found === "ok" ? null : String(found);
  } finally {
    db.close();
  }
}

interface CopyFailed {
  readonly ok: false;
  readonly failure: CopyFailure;
}

/** Runs `work` and returns its result. Converts errors of files and disks to a failure. */
export async function guarded<R>(work: () => Promise<R>): Promise<R | CopyFailed> {
  try {
    return await work();
  } catch (error) {
    if (!isUnusable(error)) throw error;
    const isCorrupt = isStorageFault(error) && error.code.startsWith("SQLITE_CORRUPT");
    return { ok: false, failure: { kind: isCorrupt ? "corrupt" : "unusable", message: error.message } };
  }
}

type OpenedLedger =
  | { readonly ok: true; readonly db: Connection; readonly schema: number }
  | { readonly ok: false; readonly failure: OpenFailure };

/**
 * Opens a Farebox ledger of this or an earlier release. With the access `write`, the connection leaves no empty
 * write-ahead log next to the file when it closes.
 */
export function openKnown(path: string, access: "read" | "write" = "read"): OpenedLedger {
  if (!existsSync(path)) return { ok: false, failure: { kind: "missing" } };
  const message = folderProblem(path);
  if (message !== null) return { ok: false, failure: { kind: "unusable", message } };
  const db =
    access === "read"
      ? connectToRead(path)
      : connectUnderOneName(path, "write", () => new Database(path, { fileMustExist: true }));
  const refused = (failure: OpenFailure): OpenedLedger => {
    db.close();
    return { ok: false, failure };
  };
  try {
    const { schema: found, isEmpty } = contentOf(db);
    const tables = db
      .prepare("select count(*) from sqlite_schema where name in ('meta', 'charges', 'windows')")
      .pluck()
      .get();
    if (found === 0 && isEmpty) return refused({ kind: "missing" });
    if (tables !== 3) return refused(foreignFile);
    const problem = schemaProblem("sqlite", found, { forward: true });
    if (problem !== null) return refused(problem);
    return { ok: true, db, schema: found };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Opens a Farebox ledger of this release only. */
export function openCurrent(path: string): OpenedLedger {
  const opened = openKnown(path);
  const failure = opened.ok ? schemaProblem("sqlite", opened.schema) : null;
  if (!opened.ok || failure === null) return opened;
  opened.db.close();
  return { ok: false, failure };
}

/**
 * Copies a ledger to a new file, upgrades the copy to this release's schema and checks it. Removes a copy that fails.
 */
async function copyAndCheck(
  from: Connection,
  file: string,
  calendar: Calendar,
  onProgress?: (share: number) => void,
): Promise<CopyResult> {
  rmSync(file, { force: true });
  let isSound = false;
  try {
    await copy(from, file, onProgress);
    const checked = upgradeAndVerify(file, calendar);
    isSound = checked.ok;
    return checked;
  } finally {
    if (!isSound) rmSync(file, { force: true });
  }
}

/** Copies one snapshot of a ledger. Without the open transaction, each write to the ledger would restart the copy. */
async function copy(from: Connection, file: string, onProgress?: (share: number) => void): Promise<void> {
  createPrivateFile(file);
  from.exec("begin");
  try {
    from.prepare("select count(*) from sqlite_schema").get();
    await from.backup(file, {
      progress({ totalPages, remainingPages }) {
        if (totalPages > 0) onProgress?.(1 - remainingPages / totalPages);
        return stepPages;
      },
    });
  } finally {
    from.exec("rollback");
  }
  // Turns the copy into a single file without a log.
  const db = new Database(file, { fileMustExist: true });
  db.pragma("journal_mode = delete");
  db.close();
}

/** Checks a copy's integrity, upgrades the copy to this release's schema, and verifies its sums. */
function upgradeAndVerify(file: string, calendar: Calendar): CopyResult {
  const fault = integrityFault(file);
  if (fault !== null) return { ok: false, failure: { kind: "corrupt", message: fault } };
  const db = new Database(file, { fileMustExist: true });
  try {
    const migrated = migrate(db, { forward: true });
    if (!migrated.ok) return migrated;
    const verification = verify(db, { calendar: storedCalendar(db, calendar) });
    return { ok: true, copied: { file, schema: migrated.to, verification } };
  } finally {
    db.close();
  }
}

const busy = Symbol("busy");

/**
 * Gives the ledger's file a second name. The caller then moves another file to the first name, so a ledger exists at
 * every moment. First moves the write-ahead log into the file; if the file is too damaged to open, renames the log too.
 * Returns the second name, or `busy` if another process has the file open.
 */
function keepUnderSecondName(path: string, wanted: string): string | typeof busy {
  const name = freeName(wanted);
  const log = { original: `${path}-wal`, kept: `${name}-wal` };
  // Keeps the log, because a connection that finds no database in the file deletes the log when it closes.
  if (existsSync(log.original)) linkSync(log.original, log.kept);
  try {
    const db = connectToWrite(path);
    try {
      db.pragma("journal_mode = delete");
    } finally {
      db.close();
    }
    rmSync(log.kept, { force: true });
  } catch (error) {
    const isBusy = isStorageFault(error) && /^SQLITE_(BUSY|LOCKED)/.test(error.code);
    if (!isStorageFault(error) || isBusy) rmSync(log.kept, { force: true });
    if (isBusy) return busy;
    if (!isStorageFault(error)) throw error;
    rmSync(log.original, { force: true });
    rmSync(`${path}-shm`, { force: true });
  }
  linkSync(path, name);
  return name;
}

/** As root, gives a file the same owner as `like`, so that the proxy's user can open the file. */
function keepOwner(file: string, like: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(like);
  chownSync(file, uid, gid);
}

/** Renames a file durably. */
function moveIntoPlace(part: string, file: string): void {
  renameSync(part, file);
  const folder = openSync(dirname(file), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Returns the wanted name. Appends a number if a file with that name exists. */
function freeName(wanted: string): string {
  for (let number = 0; ; number++) {
    const name = number === 0 ? wanted : `${wanted}.${number}`;
    if (!existsSync(name)) return name;
  }
}
