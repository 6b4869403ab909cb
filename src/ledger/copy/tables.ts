import { rollupDimensions } from "../rollups.ts";

/** Table of the SQLite ledger and of PostgreSQL. Its columns have the same names in both. */
export interface CopiedTable {
  readonly name: string;
  /** Columns that are unique together and indexed. The copy writes and compares rows in the order of these columns. */
  readonly key: readonly string[];
  /** Columns of the target that SQLite stores differently, with the SQLite expressions that compute them. */
  readonly computed?: Readonly<Record<string, string>>;
  /**
   * Columns of the target that SQLite lacks, with PostgreSQL expressions over the copied row. The copy does not compare
   * them.
   */
  readonly added?: Readonly<Record<string, string>>;
  /** Column whose values come from a sequence. */
  readonly counted?: string;
  /** Name of the sequence for `counted`, if the sequence does not belong to the column. */
  readonly sequence?: string;
  /** True if a migration fills the table in every ledger. The copied rows replace the rows of the migration. */
  readonly isSeeded?: true;
}

/**
 * All tables except `meta`, small tables first. `charge_windows` becomes a column of `charges`. The copy marks each
 * proxy run as ended, so the next `serve` settles the pending holds as orphans.
 */
export const copiedTables: readonly CopiedTable[] = [
  { name: "price_versions", key: ["id"] },
  { name: "teams", key: ["seq"], counted: "seq" },
  { name: "keys", key: ["seq"], counted: "seq" },
  { name: "admins", key: ["seq"], counted: "seq" },
  { name: "budgets", key: ["seq"], counted: "seq" },
  { name: "raises", key: ["seq"], counted: "seq" },
  { name: "new_subjects", key: ["key"] },
  { name: "raise_requests", key: ["seq"], counted: "seq" },
  {
    name: "owners",
    key: ["epoch"],
    counted: "epoch",
    added: { beat_at: "to_timestamp(started_at / 1000.0)", ended_at: "to_timestamp(started_at / 1000.0)" },
  },
  { name: "audit_entries", key: ["id"], counted: "id" },
  { name: "account_samples", key: ["asked_at"] },
  { name: "outbox", key: ["seq"], counted: "seq" },
  { name: "tasks", key: ["seq"], counted: "seq" },
  { name: "task_callbacks", key: ["charge"] },
  { name: "written_limits", key: ["idempotency"] },
  { name: "run_sessions", key: ["id"] },
  { name: "dashboard_sessions", key: ["seq"], counted: "seq" },
  { name: "stream_bursts", key: ["model", "key"] },
  { name: "refusals", key: ["minute", "id"] },
  { name: "run_secret", key: ["id"], isSeeded: true },
  { name: "windows", key: ["seq"], counted: "seq" },
  {
    name: "charges",
    key: ["admitted_at", "seq"],
    counted: "seq",
    sequence: "charges_seq",
    computed: {
      windows:
        "(select '{' || coalesce(group_concat(window, ',' order by window), '') || '}' from charge_windows where charge = charges.seq)",
    },
  },
  { name: "carried", key: ["charge"] },
  { name: "rollup_quarter", key: ["starts_at", ...rollupDimensions], added: { shard: "0" } },
  { name: "rollup_day", key: ["day", ...rollupDimensions], added: { shard: "0" } },
];
