import { statSync } from "node:fs";
import { LedgerUnavailable } from "../../ports/ledger.ts";

/** Identity of a file on disk, independent of its name. */
interface Identity {
  readonly dev: number;
  readonly ino: number;
}

/** Files that a ledger had when it was opened, by path. */
export type OpenedFiles = Readonly<Record<string, Identity>>;

/** Suffixes of the ledger, its write-ahead log, the log's index and the lock of the running proxy. */
const suffixes = ["", "-wal", "-shm", "-serve"] as const;
/** Suffixes of the files that contain charges. */
const suffixesWithCharges = new Set(["", "-wal"]);

function identityOf(path: string): Identity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && { dev: found.dev, ino: found.ino };
}

/** Returns the files of a ledger that exist now. `among`: suffixes of the files; all by default. */
export function openedFiles(path: string, among: readonly (typeof suffixes)[number][] = suffixes): OpenedFiles {
  const found: Record<string, Identity> = {};
  for (const suffix of among) {
    const identity = identityOf(path + suffix);
    if (identity !== undefined) found[path + suffix] = identity;
  }
  return found;
}

/**
 * Error for an open file that is no longer at its path. SQLite would continue to write to it without an error, but the
 * next process that opens the ledger would not see those writes.
 */
class FileLost extends LedgerUnavailable {
  /** True if the lost file contains charges. */
  readonly hasCharges: boolean;

  constructor(message: string, hasCharges: boolean) {
    super(message);
    this.hasCharges = hasCharges;
  }
}

/**
 * Returns an error for the first file that was replaced or is no longer at its path; undefined if there is none. Takes
 * a few microseconds.
 */
export function lostFile(opened: OpenedFiles): FileLost | undefined {
  for (const path in opened) {
    const before = opened[path];
    const now = identityOrMissing(path);
    if (now?.ino === before?.ino && now?.dev === before?.dev) continue;
    const hasCharges = suffixesWithCharges.has(/(-wal|-shm|-serve)$/.exec(path)?.[0] ?? "");
    return new FileLost(
      now === undefined ? `${path} was deleted or moved away` : `another file replaced ${path}`,
      hasCharges,
    );
  }
  return undefined;
}

/** Returns the identity of a file; undefined if it is missing or its folder cannot be read. */
function identityOrMissing(path: string): Identity | undefined {
  try {
    return identityOf(path);
  } catch {
    return undefined;
  }
}
