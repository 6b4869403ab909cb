import { statSync } from "node:fs";

/** Identity of a file on disk, independent of its name. */
interface Identity {
  readonly dev: number;
  readonly ino: number;
}

/** Files of a ledger by path, as of its opening. Threads receive them. */
export type OpenedFiles = Readonly<Record<string, Identity>>;

/** The ledger, its write-ahead log and the log's index, and the lock of the one proxy. */
const suffixes = ["", "-wal", "-shm", "-serve"] as const;
/** Suffixes of the files that contain charges. */
const suffixesWithCharges = new Set(["", "-wal"]);

function identityOf(path: string): Identity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && { dev: found.dev, ino: found.ino };
}

export function openedFiles(path: string): OpenedFiles {
  const found: Record<string, Identity> = {};
  for (const suffix of suffixes) {
    const identity = identityOf(path + suffix);
    if (identity !== undefined) found[path + suffix] = identity;
  }
  return found;
}

/**
 * The open file is no longer at its path. SQLite keeps writing to it without an error, and the next process that opens
 * the ledger does not see those writes.
 */
export class FileLost extends Error {
  /** True if the lost file contains charges. */
  readonly holdsCharges: boolean;

  constructor(message: string, holdsCharges: boolean) {
    super(message);
    this.holdsCharges = holdsCharges;
  }
}

/**
 * Returns an error for the first file that is missing from its path or replaced; undefined for none. Takes some
 * microseconds.
 */
export function lostFile(opened: OpenedFiles): FileLost | undefined {
  for (const path in opened) {
    const then = opened[path];
    const now = safely(path);
    if (now?.ino === then?.ino && now?.dev === then?.dev) continue;
    const holdsCharges = suffixesWithCharges.has(/(-wal|-shm|-serve)$/.exec(path)?.[0] ?? "");
    return new FileLost(
      now === undefined ? `${path} was deleted or moved away` : `another file replaced ${path}`,
      holdsCharges,
    );
  }
  return undefined;
}

/** Returns undefined for a file in a missing or unreadable folder. */
function safely(path: string): Identity | undefined {
  try {
    return identityOf(path);
  } catch {
    return undefined;
  }
}
