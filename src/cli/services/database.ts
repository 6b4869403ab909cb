import { setTimeout as pause } from "node:timers/promises";
import { commandFailure } from "../io.ts";
import { isSameFile, outFileProblem } from "../out-file.ts";
import { shownDatabase, type DatabaseSetting } from "../../config/database.ts";
import type { Settings } from "../../config/settings.ts";
import type { Clock } from "../../ports/clock.ts";
import type { MoveFailure, RowDifference } from "../../ledger/copy/copy.ts";
import { backUp, restore, type CopyFailure } from "../../ledger/sqlite/backup.ts";
import { repair, type RepairOptions } from "../../ledger/audit/repair-ledger.ts";
import type { OpenLedger } from "../../ledger/maintenance.ts";
import { prune } from "../../ledger/pruning.ts";
import { ledgerIn } from "../../ledger/sqlite/maintenance.ts";
import { calendarOf } from "../../platform/clock.ts";
import { tuneRuntime } from "../../server/runtime.ts";
import { migrateLedger, restoreHint, serverOf, stampOf, storeProblem } from "../../server/ledger.ts";

export type PostgresSetting = Extract<DatabaseSetting, { readonly kind: "postgres" }>;
/** Receives the completed fraction of the work, from 0 to 1. */
type OnProgress = (share: number) => void;

type Done<W extends keyof Maintenance> = Extract<Awaited<ReturnType<Maintenance[W]>>, { readonly ok: true }>;

export type CopiedLedger = Done<"backUp">;
export type MovedLedger = Done<"move">;

/** Operations on the whole ledger. The settings name the ledger. */
export class Maintenance {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
    // A verification creates millions of short-lived objects, which V8 must not allocate in the old generation.
    tuneRuntime();
  }

  /** Migrates the ledger to this release's schema. */
  async migrate({ database }: Settings, { backup }: { readonly backup: boolean }) {
    const result = await migrateLedger(database, { at: this.#clock.now(), create: true, backup });
    if (!result.ok) return ledgerFailure(result.failure, shownDatabase(database));
    return { ...result, restore: result.backup === null ? null : restoreHint(shownDatabase(database), result.backup) };
  }

  /** Copies the ledger, even while `serve` is running, and checks the copy. */
  async backUp(
    { database, timeZone }: Settings,
    file: string,
    { replace, onProgress }: { readonly replace: boolean; readonly onProgress: OnProgress },
  ) {
    if (database.kind === "postgres") return commandFailure(copiedByServer("backed up with pg_dump"));
    const { path } = database;
    const problem = outFileProblem(file, path, "backup", replace);
    if (problem !== null) return commandFailure(problem);
    const result = await backUp({ path, file, calendar: calendarOf(timeZone), onProgress });
    return result.ok ? { ok: true as const, ...result.copied } : ledgerFailure(result.failure, path);
  }

  /** Replaces the ledger with a checked copy of `file`. Returns the new path of the old ledger as `replaced`. */
  async restore({ database, timeZone }: Settings, file: string, onProgress: OnProgress) {
    if (database.kind === "postgres") return commandFailure(copiedByServer("restored with pg_restore"));
    const { path } = database;
    if (isSameFile(file, path)) return commandFailure(`${file} is the ledger itself; name a backup of it`);
    const result = await restore({
      path,
      file,
      calendar: calendarOf(timeZone),
      stamp: stampOf(this.#clock.now()),
      onProgress,
    });
    if (result.ok) return { ok: true as const, ...result.copied, replaced: result.replaced };
    if ("verification" in result) return commandFailure(unsound(file, result.verification.differences.length), 1);
    return result.of === "ledger" ? ledgerFailure(result.failure, path) : backupFailure(result.failure, file);
  }

  /**
   * Moves a ledger file into an empty PostgreSQL database and compares every row. No proxy may be running on the
   * ledger.
   */
  async move(
    from: string,
    to: PostgresSetting,
    on: { readonly onCopied: OnProgress; readonly onCompared: OnProgress },
  ) {
    const { moveToPostgres } = await import("../../ledger/copy/copy.ts");
    const result = await moveToPostgres({ path: from, server: serverOf(to), ...on });
    return result.ok
      ? result
      : commandFailure(movingProblem(result, from, to.shown), result.kind === "differs" ? 1 : 2);
  }

  /** Rebuilds derived sums that differ from the charges. `onRepaired` receives each change once it is durable. */
  async repair({ database, timeZone }: Settings, on: Pick<RepairOptions, "onRepaired" | "onProgress">) {
    const how = { calendar: calendarOf(timeZone), clock: this.#clock, pause, ...on };
    const result = await repair(await ledgerOf(database), how);
    return result.ok ? result : ledgerFailure(result.failure, shownDatabase(database));
  }

  /** Replaces the charges of past days with their sums. With `dryRun`, only counts the charges. */
  async prune(
    { database, timeZone }: Settings,
    options: { readonly olderThanMs: number; readonly dryRun: boolean; readonly onProgress: OnProgress },
  ) {
    const how = { calendar: calendarOf(timeZone), clock: this.#clock, pause, ...options };
    const result = await prune(await ledgerOf(database), how);
    return result.ok ? { ok: true as const, ...result.pruned } : ledgerFailure(result.failure, shownDatabase(database));
  }
}

async function ledgerOf(database: DatabaseSetting): Promise<OpenLedger> {
  if (database.kind === "sqlite") return ledgerIn(database.path);
  return (await import("../../ledger/postgres/maintenance.ts")).ledgerOn(serverOf(database));
}

function copiedByServer(how: string): string {
  return `a ledger in PostgreSQL is ${how}, as docs/backup.md says; this command is for a ledger in an SQLite file`;
}

/** Returns the reason why a command failed on the ledger, in one sentence. */
export function ledgerProblem(failure: CopyFailure, path: string): string {
  switch (failure.kind) {
    case "in_use":
      return `farebox serve is using the ledger at ${path}; stop it first`;
    case "busy":
      return `another process has the ledger at ${path} open; stop that process first`;
    case "corrupt":
      return `the copy of the ledger at ${path} is damaged, and the ledger may be damaged too: ${failure.message}`;
    case "no_room":
      return `the ledger at ${path} was not migrated: its backup needs ${megabytes(failure.needed)} in the same folder, but only ${megabytes(failure.free)} are free; free disk space, or back up the ledger elsewhere and run farebox db migrate --no-backup`;
    case "missing":
    case "newer_schema":
    case "unusable":
      return storeProblem(failure, path);
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}

function movingProblem(failure: MoveFailure, from: string, to: string): string {
  switch (failure.kind) {
    case "source":
      return failure.failure.kind === "missing"
        ? `there is no ledger in ${from}`
        : ledgerProblem(failure.failure, from);
    case "target":
      return storeProblem(failure.failure, to);
    case "target_in_use":
      return `another farebox db copy into ${to} is running; wait until it ends`;
    case "target_not_empty":
      return `${to} is not empty: its table ${failure.table} has rows; copy the ledger into an empty database or schema`;
    case "lost":
      return `the copy to ${to} stopped: ${failure.message}; run the same command again to continue`;
    case "differs":
      return `the copy in ${to} differs from the ledger in ${from}, so farebox refuses to use it: ${failure.differences.map(differenceText).join(", ")}; run the same command again to copy everything`;
  }
}

function differenceText({ table, row, column }: RowDifference): string {
  return column === null ? `${table} ${row} is in only one of them` : `${column} of ${table} ${row} differs`;
}

function backupProblem(failure: CopyFailure, file: string): string {
  switch (failure.kind) {
    case "missing":
      return `there is no ledger in ${file}`;
    case "newer_schema":
      return `${file} was written by a newer farebox; restore it with that version or a later one`;
    case "corrupt":
      return `${file} is damaged: ${failure.message}; the ledger is unchanged`;
    case "in_use":
    case "busy":
      return `another process has ${file} open; stop that process first`;
    case "unusable":
      return `${file} cannot be restored: ${failure.message}`;
    case "no_room":
      return `${file} cannot be restored: the disk is full`;
  }
}

function unsound(file: string, differences: number): string {
  return `${file} is inconsistent (${differences} differences; farebox verify --database shows them); the ledger is unchanged`;
}

function ledgerFailure(failure: CopyFailure, path: string) {
  return commandFailure(ledgerProblem(failure, path), failure.kind === "corrupt" ? 1 : 2);
}

function backupFailure(failure: CopyFailure, file: string) {
  return commandFailure(backupProblem(failure, file), failure.kind === "corrupt" ? 1 : 2);
}
