/** Mapping of a table of the SQLite ledger to PostgreSQL. Columns keep their names. */
export interface CopiedTable {
  readonly name: string;
  /** Name of the table in PostgreSQL, where `windows` is a view of windows and leases. */
  readonly target: string;
  /** Unique, indexed columns. Rows are copied and compared in their order. */
  readonly key: readonly string[];
  /** Columns of the target that SQLite stores in another form, as SQLite expressions. */
  readonly formed?: Readonly<Record<string, string>>;
  /** Columns of the target that SQLite lacks, as PostgreSQL expressions over the copied row. They are not compared. */
  readonly added?: Readonly<Record<string, string>>;
  /** Column whose next values come from a sequence. `sequence`: its name, if it does not belong to the column. */
  readonly counted?: string;
  readonly sequence?: string;
  /** True if a migration fills the table in every ledger. The copied rows replace those rows. */
  readonly isSeeded?: true;
}

const rollupKey = ["key", "team", "model", "price_group", "source"];

/**
 * All tables except `meta`, small tables first. `charge_windows` becomes a column of `charges`. All copied runs of proxies
 * have ended, so that the next `serve` treats pending holds as orphaned.
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
