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
import { olderSchema } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { connectToRead, connectToWrite, createPrivateFile, isStorageFault, type Connection } from "./connection.ts";
import { isCurrent, knownSchema, migrate, schemaOf } from "./migrate.ts";
import { contentOf, isUnusable, lockForServe, storedCalendar } from "./open.ts";
import { connectUnderOneName } from "./one-name.ts";
import { verify } from "./verify.ts";

/** Pages to copy before other work in this process gets its turn. */
const stepPages = 2000;

export interface Copied {
  readonly file: string;
  /** The schema version of the copy. */
  readonly schema: number;
  readonly verification: Verification;
}

export type CopyFailure =
  | OpenFailure
  /** SQLite's integrity check failed on the copy. */
  | { readonly kind: "corrupt"; readonly message: string }
  /** Another process, such as a command or a backup, has the file open. */
  | { readonly kind: "busy" }
  /** The disk has no room for a backup. Sizes in bytes. */
  | { readonly kind: "no_room"; readonly needed: number; readonly free: number };

export type CopyResult =
  | { readonly ok: true; readonly copied: Copied }
  | { readonly ok: false; readonly failure: CopyFailure };

export interface BackupOptions {
  /** The ledger's path. */
  readonly path: string;
  /** Path of the copy. An existing file is replaced once the copy is complete and sound. */
  readonly file: string;
  /** Time zone for a ledger that stores none yet. */
  readonly calendar: Calendar;
  readonly onProgress?: (share: number) => void;
}

/** Copies a ledger as of now, while other processes may write to it, and checks the copy. */
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

export type RestoreResult =
  | {
      readonly ok: true;
      readonly copied: Copied;
      /** New path of the replaced ledger; null if there was none. */
      readonly replaced: string | null;
    }
  | { readonly ok: false; readonly failure: CopyFailure; readonly of: "ledger" | "file" }
  /** The file's sums do not match its charges. Nothing was replaced. */
  | { readonly ok: false; readonly verification: Verification };

export interface RestoreOptions extends BackupOptions {
  /** Distinguishes the replaced file: "2026-11-20T120000Z". */
  readonly stamp: string;
}

/** Replaces the ledger with a copy of a backup, only while no proxy runs on it. Does not change the backup. */
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
    const replaced = existsSync(target) ? setAside(target, `${target}.replaced-${stamp}`) : null;
    if (replaced === busy) return { ok: false, failure: { kind: "busy" }, of };
    moveIntoPlace(part, target);
    return { ok: true, copied: { ...copied.copied, file: target }, replaced };
  });
  return result.ok || "verification" in result ? result : { ...result, of };
}

export type MigrateResult =
  | {
      readonly ok: true;
      readonly from: number;
      readonly to: number;
      /** False if the schema was current already. */
      readonly changed: boolean;
      /** Path of the backup made first; null if none was made. */
      readonly backup: string | null;
    }
  | { readonly ok: false; readonly failure: CopyFailure };

export interface MigrateFileOptions {
  readonly path: string;
  /** Part of the backup's name: "2026-11-20T120000Z". */
  readonly stamp: string;
  readonly backup?: boolean;
}

/**
 * Upgrades a file of an earlier release to this release's schema, only while no proxy runs on it. Makes a backup next
 * to it first.
 */
export async function migrateFile({ path, stamp, backup = true }: MigrateFileOptions): Promise<MigrateResult> {
  return await guarded<MigrateResult>(async () => {
    const to = knownSchema();
    const opened = openKnown(path);
    if (!opened.ok) return opened;
    const isDone = isCurrent(opened.db);
    opened.db.close();
    const nothing = { ok: true, from: to, to, changed: false, backup: null } as const;
    if (isDone) return nothing;
    await using owned = new AsyncDisposableStack();
    const target = realpathSync(path);
    if (!lockForServe(target, owned)) return { ok: false, failure: { kind: "in_use" } };
    const db = owned.adopt(connectToWrite(target), (each) => void each.close());
    // Blocks commands of the earlier release: the backup would lack what they write after it.
    db.exec("begin immediate");
    owned.defer(() => void (db.inTransaction && db.exec("rollback")));
    // Another process may have migrated it in the meantime.
    if (isCurrent(db)) return nothing;
    const from = schemaOf(db);
    const made = backup ? await backUpBefore(target, `${target}.schema-${from}-${stamp}`) : null;
    if (made !== null && !made.ok) return made;
    try {
      migrate(db, { forward: true });
      db.exec("commit");
    } catch (error) {
      // The migration failed and changed nothing. Repeated attempts must not fill the disk with backups.
      if (made !== null) rmSync(made.file, { force: true });
      throw error;
    }
    return { ok: true, from, to, changed: true, backup: made?.file ?? null };
  });
}

/** Copies the ledger if the disk has room for the copy. Removes an unsound copy. */
async function backUpBefore(
  path: string,
  wanted: string,
): Promise<{ readonly ok: true; readonly file: string } | Failed> {
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

function integrityFault(file: string): string | null {
  const db = new Database(file, { fileMustExist: true });
  try {
    const found = db.pragma("integrity_check(1)", { simple: true });
    return found === "ok" ? null : String(found);
  } finally {
    db.close();
  }
}

interface Failed {
  readonly ok: false;
  readonly failure: CopyFailure;
}

/** Returns faults of files and disks as a failure. */
export async function guarded<R>(work: () => Promise<R>): Promise<R | Failed> {
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
 * Opens a Farebox ledger of this release or an earlier one. A connection that may write leaves no empty log next to the
 * file when it closes.
 */
export function openKnown(path: string, access: "read" | "write" = "read"): OpenedLedger {
  if (!existsSync(path)) return { ok: false, failure: { kind: "missing" } };
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
    const known = knownSchema();
    const tables = db
      .prepare("select count(*) from sqlite_schema where name in ('meta', 'charges', 'windows')")
      .pluck()
      .get();
    if (found === 0 && isEmpty) return refused({ kind: "missing" });
    if (tables !== 3) return refused({ kind: "unusable", message: "not a Farebox database" });
    if (found > known) return refused({ kind: "newer_schema", found, known });
    return { ok: true, db, schema: found };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Opens a Farebox ledger of this release only. */
export function openCurrent(path: string): OpenedLedger {
  const opened = openKnown(path);
  const known = knownSchema();
  if (!opened.ok || opened.schema === known) return opened;
  opened.db.close();
  return { ok: false, failure: olderSchema(opened.schema, known) };
}

/** Copies into a new file, upgrades the copy to this release's schema and checks it. Removes an unsound copy. */
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
    const checked = check(file, calendar);
    isSound = checked.ok;
    return checked;
  } finally {
    if (!isSound) rmSync(file, { force: true });
  }
}

/** Copies one snapshot. The open transaction pins it, so that writers do not restart the copy. */
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

function check(file: string, calendar: Calendar): CopyResult {
  const fault = integrityFault(file);
  if (fault !== null) return { ok: false, failure: { kind: "corrupt", message: fault } };
  const db = new Database(file, { fileMustExist: true });
  try {
    migrate(db, { forward: true });
    const verification = verify(db, { calendar: storedCalendar(db, calendar) });
    return { ok: true, copied: { file, schema: schemaOf(db), verification } };
  } finally {
    db.close();
  }
}

const busy = Symbol("busy");

/**
 * Gives the ledger's file a second name before another file takes its first, so that a ledger exists at every moment.
 * Moves its write-ahead log into it; the log of a damaged file, which cannot be opened, is renamed along with it.
 * Returns the second name, or `busy` while another process has the file open.
 */
function setAside(path: string, kept: string): string | typeof busy {
  const name = freeName(kept);
  const log = { there: `${path}-wal`, kept: `${name}-wal` };
  // A connection that finds no database in the file deletes its log when it closes.
  if (existsSync(log.there)) linkSync(log.there, log.kept);
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
    rmSync(log.there, { force: true });
    rmSync(`${path}-shm`, { force: true });
  }
  linkSync(path, name);
  return name;
}

/** Keeps the owner of the file, so that the proxy's user can open what root restores. */
function keepOwner(file: string, like: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(like);
  chownSync(file, uid, gid);
}

/** Renames a file. The rename is durable on return. */
function moveIntoPlace(part: string, file: string): void {
  renameSync(part, file);
  const folder = openSync(dirname(file), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Returns the wanted name, with a number appended if such a file exists. */
function freeName(wanted: string): string {
  for (let number = 0; ; number++) {
    const name = number === 0 ? wanted : `${wanted}.${number}`;
    if (!existsSync(name)) return name;
  }
}
