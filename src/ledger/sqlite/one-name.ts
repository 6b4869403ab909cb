import { realpathSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { crc32 } from "node:zlib";
import Database from "better-sqlite3";

/*
 * SQLite derives the name of the write-ahead log from the path. Two processes that open a file under two names (a hard
 * link, a mount of the single file) use two logs and overwrite each other's data. To prevent this, the file itself
 * stores the name under which it is open.
 */

/** Longest wait for other processes that open the file at the same time, in milliseconds. */
const waitMsMax = 1500;

/**
 * Opens a connection to a ledger. The file's header (`application_id`) contains a hash of the name in use. A process
 * changes the hash only while it locks out all others. SQLite locks the inode, so its locks apply to every name. Throws
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
    // This query takes SQLite's shared lock, so no process can change the name while the connection is open.
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
 * Returns true if an error may be temporary: a process that has the file open under another name may be copying its
 * write-ahead log into the file.
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
 * Stores the name in the file, and returns a connection. No process can change the name while the connection is open.
 * Returns undefined if the file has no write-ahead log or is not a ledger, or if a reader may not write it.
 */
function claimName(path: string, name: number, access: "read" | "write"): Database.Database | undefined {
  const until = performance.now() + waitMsMax;
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
          "another process has the file open under another name (a hard link, or a mount of the single file); use that name, or end that process",
          error.code,
        );
      }
    }
    // A random pause, so that two waiting processes do not retry at the same times.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 45);
  }
}

/**
 * Writes the name while this connection locks out all others. Returns false if the file is not a ledger or has no
 * write-ahead log.
 */
function writeName(db: Database.Database, name: number): boolean {
  if (!isWal(db)) return false;
  // In this mode, a transaction locks the database file itself. Later the lock becomes a shared lock without a gap.
  db.pragma("locking_mode = exclusive");
  db.exec("begin immediate");
  const isOurs = isLedgerOrEmpty(db);
  if (isOurs) db.pragma(`application_id = ${name}`);
  db.exec("commit");
  // Moves the log into the file, because readers under other names cannot read the log of this name.
  if (isOurs) db.pragma("wal_checkpoint(truncate)");
  db.pragma("locking_mode = normal");
  storedName(db);
  return isOurs;
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
