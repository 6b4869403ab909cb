import { migrationsOf } from "../migrations.ts";
import type { Connection } from "./connection.ts";

interface Part {
  /** First version that should have it. */
  readonly since: number;
  readonly table: string;
  /** Null for the table itself. */
  readonly column: string | null;
  readonly sql: () => string;
}

const column = (since: number, table: string, name: string): Part => ({
  since,
  table,
  column: name,
  sql: () => `alter table ${table} add column ${name} integer not null default 0`,
});
const tableOf = (since: number, table: string, version: number): Part => ({
  since,
  table,
  column: null,
  sql: () =>
    migrationsOf("sqlite")
      .find((migration) => migration.version === version)
      ?.sql() ?? "",
});

const linkPending = `create table charge_windows (
    charge integer not null,
    window integer not null,
    primary key (charge, window)
  ) strict, without rowid;
  insert into charge_windows (charge, window)
  select charges.seq, windows.seq
  from charges join windows on admitted_at >= starts_at and (ends_at is null or admitted_at < ends_at) join budgets on budgets.seq = budget
  where state = 'pending' and case
    when scope = 'all' then true
    when scope like 'team:%' then team = substr(scope, 6)
    when scope like 'key:%' then key = substr(scope, 5)
    when scope = 'each-key' then key = subject
    else key = subject and team = substr(scope, 10)
  end`;

/**
 * Parts that a ledger may lack although its version has them: before the first release, 001 and 002 were edited, and
 * 004 and 008 were added after higher versions existed.
 */
const parts: readonly Part[] = [
  { since: 1, table: "charge_windows", column: null, sql: () => linkPending },
  column(1, "charges", "retry"),
  column(1, "rollup_quarter", "retries"),
  column(1, "rollup_day", "retries"),
  column(2, "carried", "retries"),
  tableOf(5, "account_samples", 4),
  tableOf(9, "teams", 8),
];

/** Returns the SQL for each part that a ledger of this version lacks. */
export function lackingParts(db: Connection, version: number): string[] {
  const has = db.prepare("select exists (select 1 from pragma_table_info(?) where ? is null or name = ?)").pluck();
  return parts
    .filter(({ since, table, column: name }) => since <= version && has.get(table, name, name) === 0)
    .map(({ sql }) => sql());
}
