import type { Calendar } from "../ports/calendar.ts";
import type { Verification } from "../ports/ledger.ts";
import { repairLedger, type RepairLedgerOptions } from "./audit/repair-ledger.ts";
import type { VerifyOptions } from "./audit/verify-ledger.ts";
import { horizons, pruneLedger, prunePreview, type Pruned, type PruneOptions } from "./pruning.ts";
import type { Dialect } from "./queries/dialects.ts";
import type { Query } from "./queries/query.ts";
import type { CopyFailure } from "./sqlite/backup.ts";

/** Result that SQLite returns at once and PostgreSQL returns as a promise. */
type Later<T> = T | Promise<T>;

/** Ledger in either database, with its stored time zone. Proxies may run on the ledger. */
export interface MaintainedLedger {
  readonly dialect: Dialect;
  readonly calendar: Calendar;
  verify(on: Omit<VerifyOptions, "calendar">): Later<Verification>;
  /** Runs a query that only reads, in one snapshot. */
  read<T>(query: Query<T>): Later<T>;
  /** Runs a query that writes, in one transaction. A transaction that conflicts with others starts again. */
  write<T>(query: () => Query<T>): Later<T>;
  /**
   * Frees the disk space of deleted charges in PostgreSQL, for months that end before an instant. SQLite reuses the
   * space itself.
   */
  freeSpace(before: number): Later<void>;
}

interface MaintenanceFailure {
  readonly ok: false;
  readonly failure: CopyFailure;
}

/** Opens a ledger, runs `work` on it and closes it. `calendar` applies if the ledger does not store a time zone yet. */
export type OpenLedger = <R>(
  work: (ledger: MaintainedLedger) => Promise<R>,
  options: { readonly calendar: Calendar; readonly access: "read" | "write" },
) => Promise<R | MaintenanceFailure>;

export interface RepairOptions extends RepairLedgerOptions {
  readonly calendar: Calendar;
}

/** Repairs a ledger. Returns the verification of the repaired ledger. */
export function repair(
  open: OpenLedger,
  { calendar, ...options }: RepairOptions,
): Promise<{ readonly ok: true; readonly verification: Verification } | MaintenanceFailure> {
  const work = async (ledger: MaintainedLedger) =>
    ({ ok: true, verification: await repairLedger(ledger, options) }) as const;
  return open(work, { calendar, access: "write" });
}

export interface PruneLedgerOptions extends PruneOptions {
  readonly calendar: Calendar;
  /** True to count what would be deleted, without deleting it. */
  readonly dryRun: boolean;
  /** Receives the share of charges pruned, from 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

/** Prunes a ledger in its stored time zone. */
export function prune(
  open: OpenLedger,
  { calendar, dryRun, onProgress, ...options }: PruneLedgerOptions,
): Promise<{ readonly ok: true; readonly pruned: Pruned } | MaintenanceFailure> {
  const work = async (ledger: MaintainedLedger) => {
    const preview = await ledger.read(prunePreview(horizons(ledger.calendar, options)));
    const onStep = (charges: number) => onProgress?.(Math.min(charges / Math.max(preview.charges, 1), 1));
    return {
      ok: true,
      pruned: dryRun ? preview : await pruneLedger(ledger, { ...options, onProgress: onStep }),
    } as const;
  };
  return open(work, { calendar, access: dryRun ? "read" : "write" });
}
