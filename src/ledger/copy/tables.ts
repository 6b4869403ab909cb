/** How the rows of one table of the SQLite ledger go into PostgreSQL, column by column of the same name. */
export interface CopiedTable {
  readonly name: string;
  /** Its name in PostgreSQL, where `windows` is a view over windows and leases. */
  readonly target: string;
  /** What tells its rows apart, the first as there is an index on it; in whose order they go over and are compared. */
  readonly key: readonly string[];
  /** Columns of the target that SQLite has in another form, as an expression over its row. */
  readonly formed?: Readonly<Record<string, string>>;
  /** Columns of the target that SQLite does not have, as an expression over the row that was given; not compared. */
  readonly added?: Readonly<Record<string, string>>;
  /** The column whose values a sequence hands out from now on, and that sequence where it does not belong to the column. */
  readonly counted?: string;
  readonly sequence?: string;
  /** A migration fills it in every ledger: rows of a new ledger give way to those that are copied. */
  readonly isSeeded?: true;
}

const rollupKey = ["key", "team", "model", "price_group", "source"];

/**
 * Every table but `meta`, the small ones first. `charge_windows` became a column of the charges. Every run of a
 * proxy has ended, so that the next serve finds the pending holds without an owner.
 */
export const copiedTables: readonly CopiedTable[] = [
  { name: "price_versions", target: "price_versions", key: ["id"] },
  { name: "teams", target: "teams", key: ["seq"], counted: "seq" },
  { name: "keys", target: "keys", key: ["seq"], counted: "seq" },
  { name: "admins", target: "admins", key: ["seq"], counted: "seq" },
  { name: "budgets", target: "budgets", key: ["seq"], counted: "seq" },
  {
    name: "owners",
    target: "owners",
    key: ["epoch"],
    counted: "epoch",
    added: { beat_at: "to_timestamp(started_at / 1000.0)", ended_at: "to_timestamp(started_at / 1000.0)" },
  },
  { name: "audit_entries", target: "audit_entries", key: ["id"], counted: "id" },
  { name: "account_samples", target: "account_samples", key: ["asked_at"] },
  { name: "outbox", target: "outbox", key: ["seq"], counted: "seq" },
  { name: "tasks", target: "tasks", key: ["seq"], counted: "seq" },
  { name: "task_callbacks", target: "task_callbacks", key: ["charge"] },
  { name: "written_limits", target: "written_limits", key: ["idempotency"] },
  { name: "run_sessions", target: "run_sessions", key: ["id"] },
  { name: "stream_bursts", target: "stream_bursts", key: ["model", "key"] },
  { name: "run_secret", target: "run_secret", key: ["id"], isSeeded: true },
  { name: "windows", target: "budget_windows", key: ["seq"], counted: "seq" },
  {
    name: "charges",
    target: "charges",
    key: ["admitted_at", "seq"],
    counted: "seq",
    sequence: "charges_seq",
    formed: {
      windows:
        "(select '{' || coalesce(group_concat(window, ',' order by window), '') || '}' from charge_windows where charge = charges.seq)",
    },
  },
  { name: "carried", target: "carried", key: ["charge"] },
  { name: "rollup_quarter", target: "rollup_quarter", key: ["starts_at", ...rollupKey], added: { shard: "0" } },
  { name: "rollup_day", target: "rollup_day", key: ["day", ...rollupKey], added: { shard: "0" } },
];
