import type { Calendar } from "../ports/calendar.ts";
import type { Verification } from "../ports/ledger.ts";
import type { VerifyOptions } from "./audit/verify-ledger.ts";
import type { Dialect } from "./queries/dialects.ts";
import type { Query } from "./queries/query.ts";
import type { CopyFailure } from "./sqlite/backup.ts";

/** Result that SQLite returns at once and PostgreSQL returns as a promise. */
type Later<T> = T | Promise<T>;

/** Ledger in either database, with its stored time zone. Proxies may run on the ledger. */
export interface MaintainedLedger {
  readonly dialect: Dialect;
  readonly calendar: Calendar;
  verify(options: Omit<VerifyOptions, "calendar">): Later<Verification>;
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

export interface MaintenanceFailure<Failure = CopyFailure> {
  readonly ok: false;
  readonly failure: Failure;
}

/** Opens a ledger, runs `work` on it and closes it. `calendar` applies if the ledger does not store a time zone yet. */
export type OpenLedger = <R>(
  work: (ledger: MaintainedLedger) => Promise<R>,
  options: { readonly calendar: Calendar; readonly access: "read" | "write" },
) => Promise<R | MaintenanceFailure>;
