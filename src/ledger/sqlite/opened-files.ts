import { statSync } from "node:fs";

/** A file as the disk knows it, whatever its name. */
interface Identity {
  readonly dev: number;
  readonly ino: number;
}

/** The files of a ledger by their paths, as they were when it was opened. Threads are told of them. */
export type OpenedFiles = Readonly<Record<string, Identity>>;

/** The ledger, its write-ahead log and the log's index, and the lock of the one proxy. */
const suffixes = ["", "-wal", "-shm", "-serve"] as const;
/** Those that charges are in. */
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
 * What is open is not what is at its path any more. SQLite writes on without a complaint, into a file that has no name: who opens
 * the ledger next does not see it.
 */
export class FileLost extends Error {
  /** Whether charges are in what has no name any more. */
  readonly holdsCharges: boolean;

  constructor(message: string, holdsCharges: boolean) {
    super(message);
    this.holdsCharges = holdsCharges;
  }
}

/** Which file has gone from its path, or has another one in its place; undefined for none. Takes some microseconds. */
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

/** A folder that is gone, or may not be looked into, has no file for us. */
function safely(path: string): Identity | undefined {
  try {
    return identityOf(path);
  } catch {
    return undefined;
  }
}
