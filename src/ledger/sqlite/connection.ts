import { accessSync, closeSync, constants, openSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { LedgerUnavailable } from "../../ports/ledger.ts";
import { connectUnderOneName } from "./one-name.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";

export type Connection = Database.Database;
export type Statement = Database.Statement<unknown[]>;

/** Longest wait for a lock of another process, in milliseconds. */
const busyTimeoutMs = 5000;

/** Size of the write-ahead log at which a commit checkpoints it, in pages. Usually, the reader thread does so earlier. */
const autoCheckpointPages = 4000;

/**
 * Creates a missing file, to which only its owner has access. SQLite gives the -wal and -shm files the same mode.
 */
export function createPrivateFile(path: string): "created" | "exists" {
  try {
    // "wx" does not open an existing file: closing it would release all locks that this process has on the file.
    closeSync(openSync(path, "wx", 0o600));
    return "created";
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return "exists";
    throw error;
  }
}

/**
 * Opens a connection that may write. A commit is durable when it returns. A further connection of a process that has
 * the ledger open names the files in `opened`: see `openConnection`.
 */
export function connectToWrite(path: string, opened?: OpenedFiles): Connection {
  return openConnection(path, "write", opened, (db) => {
    db.pragma("journal_mode = wal");
    db.pragma("synchronous = full");
    db.pragma(`wal_autocheckpoint = ${autoCheckpointPages}`);
  });
}

/** Opens a read-only connection. It reads only committed transactions. `opened`: as for `connectToWrite`. */
export function connectToRead(path: string, opened?: OpenedFiles): Connection {
  return openConnection(path, "read", opened, (db) => {
    db.pragma("schema_version");
  });
}

/**
 * Opens a connection and reads from the file. If a permission is missing, the error names the path. Throws
 * `LedgerUnavailable` if one of the `opened` files is no longer at its path: the first read of a file that replaced the
 * ledger would apply the ledger's log to that file, and would reset the log's index under the connections that this
 * process has. SQLite opens the file here, and its log with the first read, so the check between them leaves no gap.
 */
function openConnection(
  path: string,
  access: "read" | "write",
  opened: OpenedFiles | undefined,
  read: (db: Connection) => void,
): Connection {
  const connect = () => {
    const db = new Database(path, { readonly: access === "read", timeout: busyTimeoutMs, fileMustExist: true });
    const lost = opened && lostFile(opened);
    if (lost === undefined) return db;
    db.close();
    throw lost;
  };
  let db: Connection | undefined;
  try {
    db = connectUnderOneName(path, access, connect);
    read(db);
    return db;
  } catch (error) {
    db?.close();
    if (!isStorageFault(error) || !/^SQLITE_(CANTOPEN|READONLY)/.test(error.code)) throw error;
    const why = notWritable(dirname(path)) ?? notWritable(path);
    throw why === null ? error : new Database.SqliteError(`${error.message}: ${why}`, error.code);
  }
}

/**
 * Returns the reason why a path cannot be written; null if it can. SQLite writes files next to the ledger even to read
 * it.
 */
function notWritable(path: string): string | null {
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch (error) {
    return `${path} cannot be written (${error instanceof Error && "code" in error ? error.code : error})`;
  }
}

/** Names of SQLite's error codes for faults of the file or the disk. */
const faults = [
  "FULL",
  "IOERR",
  "READONLY",
  "BUSY",
  "LOCKED",
  "CANTOPEN",
  "NOMEM",
  "PROTOCOL",
  "CORRUPT",
  "NOTADB",
  "PERM",
];

/** Returns true if the file could not be read or written; false for a faulty statement. */
export function isStorageFault(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return error instanceof Database.SqliteError && faults.some((fault) => error.code.startsWith(`SQLITE_${fault}`));
}

/** Returns the reason why the file cannot be written; null if the error is a bug. */
export function storageFault(error: unknown): string | null {
  if (error instanceof LedgerUnavailable) return error.message;
  return isStorageFault(error) ? `${error.message} (${error.code})` : null;
}

/** Runs `work` in a transaction that takes the write lock at its start. Rolls back if `work` throws. */
export function writeTransaction<T>(db: Connection, work: () => T): T {
  return db.transaction(work).immediate();
}
