import { realpathSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { crc32 } from "node:zlib";
import Database from "better-sqlite3";

/*
 * SQLite names the write-ahead log after the path: two processes that open one file under two names (a hard link, a
 * mount of the single file) use two logs and overwrite each other. So the file itself stores the name under which it is
 * open.
 */

/** Longest wait for other processes that open the file at the same moment, in milliseconds. */
const patienceMs = 1500;

/**
 * Opens a connection to a ledger. The file's header (`application_id`) holds a hash of the name in use; only a process
 * that has the file to itself changes it, because SQLite's locks are on the inode and hold for every name. Throws
 * SQLITE_BUSY if another process has the ledger open under another name.
 */
export function connectUnderOneName(
  path: string,
  access: "read" | "write",
  connect: () => Database.Database,
): Database.Database {
  const name = nameOf(path);
  const db = connect();
  try {
    // From here on the connection holds SQLite's shared lock: no one can change the name while it is open.
    if (storedName(db) === name) return db;
  } catch (error) {
    if (!isHalfWritten(error)) {
      db.close();
      throw error;
    }
  }
  db.close();
  const claim = claimName(path, name, access);
  try {
    return connect();
  } finally {
    claim?.close();
  }
}

/**
 * Returns true if the fault may be temporary: a process with the file open under another name may be copying its log
 * into it.
 */
function isHalfWritten(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_CORRUPT");
}

/** Returns a hash of the folder's identity on disk and the file's name in it. */
function nameOf(path: string): number {
  const real = realpathSync.native(path);
  const { dev, ino } = statSync(dirname(real), { bigint: true });
  return crc32(`${dev}:${ino}/${basename(real)}`) | 0;
}

function storedName(db: Database.Database): unknown {
  return db.pragma("application_id", { simple: true });
}

/**
 * Opens a connection that keeps the name while it is open; undefined for a file without a write-ahead log, or no
 * ledger.
 */
function claimName(path: string, name: number, access: "read" | "write"): Database.Database | undefined {
  const until = performance.now() + patienceMs;
  for (;;) {
    const db = new Database(path, { timeout: 0, fileMustExist: true });
    try {
      if (access === "write") db.pragma("journal_mode = wal");
      if (storedName(db) === name || writeName(db, name)) return db;
      db.close();
      return undefined;
    } catch (error) {
      db.close();
      if (!(error instanceof Database.SqliteError)) throw error;
      // A reader without write permission cannot harm the file.
      if (access === "read" && error.code.startsWith("SQLITE_READONLY")) return undefined;
      const isBusy = error.code.startsWith("SQLITE_BUSY");
      if (!isBusy && !isHalfWritten(error)) throw error;
      if (performance.now() > until) {
        if (!isBusy) throw error;
        throw new Database.SqliteError(
          "another process has it open under another name (a hard link, or a mount of the single file); use that name, or end that process",
          error.code,
        );
      }
    }
    // Randomness keeps two waiting processes from retrying in step.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 45);
  }
}

/**
 * Writes the name while this connection has the file to itself, under all its names. Returns false if it is no ledger's
 * file.
 */
function writeName(db: Database.Database, name: number): boolean {
  if (!isWal(db)) return false;
  // In this mode a transaction also locks the database file itself; afterwards the lock becomes a shared one without a gap.
  db.pragma("locking_mode = exclusive");
  db.exec("begin immediate");
  const ours = isLedgerOrEmpty(db);
  if (ours) db.pragma(`application_id = ${name}`);
  db.exec("commit");
  // Readers under other names see the database file, not this name's log.
  if (ours) db.pragma("wal_checkpoint(truncate)");
  db.pragma("locking_mode = normal");
  storedName(db);
  return ours;
}

function isWal(db: Database.Database): boolean {
  return db.pragma("journal_mode", { simple: true }) === "wal";
}

function isLedgerOrEmpty(db: Database.Database): boolean {
  const [tables, known] = db
    .prepare("select count(*), count(*) filter (where name in ('meta', 'charges', 'windows')) from sqlite_schema")
    .raw()
    .get() as [number, number];
  return tables === 0 || known === 3;
}
