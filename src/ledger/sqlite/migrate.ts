import { knownSchemaOf, migrationsOf, olderSchema } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { writeTransaction, type Connection } from "./connection.ts";

export type MigrationResult = { readonly ok: true } | { readonly ok: false; readonly failure: OpenFailure };

/** Failure for a file that contains the tables of another program. */
export const foreign: OpenFailure = { kind: "unusable", message: "not a Farebox database" };

/** Returns the schema version of this release. */
export function knownSchema(): number {
  return knownSchemaOf("sqlite");
}

export function schemaOf(db: Connection): number {
  return Number(db.pragma("user_version", { simple: true }));
}

/** Returns true if the ledger has the complete schema of this release. */
export function isCurrent(db: Connection): boolean {
  const found = schemaOf(db);
  return found === knownSchema() && missingParts(db, found).length === 0;
}

/**
 * Creates this release's schema in an empty database. With `forward`, also upgrades an older schema. Makes all changes
 * in one transaction. Makes no backup; `migrateFile` does.
 */
export function migrate(db: Connection, { forward = false } = {}): MigrationResult {
  const known = knownSchema();
  if (forward ? isCurrent(db) : schemaOf(db) === known) return { ok: true };
  return writeTransaction(db, () => {
    const found = schemaOf(db);
    if (found > known) return { ok: false, failure: { kind: "newer_schema", found, known } };
    const tables = db.prepare("select count(*) from sqlite_schema").pluck().get();
    if (found === 0 && tables !== 0) return { ok: false, failure: foreign };
    if (found > 0 && found < known && !forward) return { ok: false, failure: olderSchema(found, known) };
    if (found > 0) for (const sql of missingParts(db, found)) db.exec(sql);
    for (const { version, sql } of migrationsOf("sqlite")) {
      if (version > found) db.exec(sql());
    }
    db.pragma(`user_version = ${known}`);
    return { ok: true };
  });
}

/** Table or column that an early ledger may lack. */
interface Part {
  /** First schema version that must have the part. */
  readonly since: number;
  readonly table: string;
  /** Name of the column; null if the part is the table itself. */
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
 * Parts that a ledger may lack although its version should have them. Before the first release, migrations 001 and 002
 * were edited, and 004 and 008 were added after higher versions existed.
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

/** Returns the SQL of each part that a ledger lacks although its version must have it. */
function missingParts(db: Connection, version: number): string[] {
  const has = db.prepare("select exists (select 1 from pragma_table_info(?) where ? is null or name = ?)").pluck();
  return parts
    .filter(({ since, table, column: name }) => since <= version && has.get(table, name, name) === 0)
    .map(({ sql }) => sql());
}
