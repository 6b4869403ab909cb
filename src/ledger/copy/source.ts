import { realpathSync } from "node:fs";
import { storable } from "../postgres/connection.ts";
import { schemaProblem } from "../migrations.ts";
import { openCurrent, type CopyFailure } from "../sqlite/backup.ts";
import { connectToWrite, isStorageFault, type Connection } from "../sqlite/connection.ts";
import { schemaOfFile } from "../sqlite/migrate.ts";
import { lockForServe } from "../sqlite/open.ts";
import { copiedTables, type CopiedTable } from "./tables.ts";

/** Values of a row as text. Whole numbers are decimal digits, the same in both databases. */
export type Row = readonly (string | null)[];

/** Position of a row in the order of its table: the values of its key columns as text. */
export type Position = readonly string[];

export interface SourceTable {
  readonly table: CopiedTable;
  /** Columns that SQLite stores or computes, in the order of a row's values. */
  readonly columns: readonly string[];
  /**
   * Columns of fractional numbers. The two databases format such numbers differently, for example as 1e-7 and 1e-07.
   */
  readonly fractions: ReadonlySet<string>;
  readonly rows: number;
  /** Returns at most `count` rows after `position`. If `position` is null, returns the first rows. */
  after(position: Position | null, count: number): Row[];
  positionOf(row: Row): Position;
}

export interface Source {
  readonly tables: readonly SourceTable[];
  readonly meta: {
    readonly timeZone: string | null;
    readonly changes: string;
    readonly quartersFrom: string;
    readonly usersSince: string | null;
  };
  /** Text that changes whenever a proxy or a command changes the ledger. */
  readonly fingerprint: string;
  /** Start of each UTC month with charges, in milliseconds since 1970, oldest first. */
  readonly months: readonly number[];
}

type SourceResult =
  | { readonly ok: true; readonly source: Source }
  | { readonly ok: false; readonly failure: CopyFailure };

/**
 * Opens a ledger and locks it until `owned` is disposed of. Meanwhile, `serve` cannot start and commands cannot write.
 */
export function openSource(path: string, owned: AsyncDisposableStack): SourceResult {
  const checked = openCurrent(path);
  if (!checked.ok) return checked;
  checked.db.close();
  const file = realpathSync(path);
  if (!lockForServe(file, owned)) return { ok: false, failure: { kind: "in_use" } };
  const db = owned.adopt(connectToWrite(file), (each) => void each.close());
  try {
    db.exec("begin immediate");
  } catch (error) {
    if (isStorageFault(error) && /^SQLITE_(BUSY|LOCKED)/.test(error.code))
      return { ok: false, failure: { kind: "busy" } };
    throw error;
  }
  owned.defer(() => void db.exec("rollback"));
  // A later release may have upgraded the file before the lock was taken.
  const failure = schemaProblem("sqlite", schemaOfFile(db));
  if (failure !== null) return { ok: false, failure };
  const tables = copiedTables.map((table) => sourceTable(db, table));
  const meta = db
    .prepare("select time_zone, changes, quarters_from, users_since from meta")
    .safeIntegers()
    .raw()
    .get() as [string | null, bigint, bigint, bigint | null];
  return {
    ok: true,
    source: {
      tables,
      meta: {
        timeZone: meta[0],
        changes: String(meta[1]),
        quartersFrom: String(meta[2]),
        usersSince: meta[3] === null ? null : String(meta[3]),
      },
      fingerprint: fingerprintOf(db, tables, meta),
      months: monthsOf(db),
    },
  };
}

function sourceTable(db: Connection, table: CopiedTable): SourceTable {
  const { name, key, computed = {} } = table;
  const stored = db.pragma(`table_info(${name})`) as readonly { readonly name: string; readonly type: string }[];
  const columns = [...stored.map((column) => column.name), ...Object.keys(computed)];
  const selected = [...stored.map((column) => column.name), ...Object.values(computed)].join(", ");
  const order = key.join(", ");
  const isLater = `(${order}) > (${key.map(() => "?").join(", ")})`;
  const statement = (where: string) =>
    db.prepare(`select ${selected} from ${name} ${where} order by ${order} limit ?`).safeIntegers().raw();
  const first = statement("");
  const next = statement(`where ${isLater}`);
  const isWhole = key.map((part) => stored.find((column) => column.name === part)?.type === "INTEGER");
  const keyIndexes = key.map((part) => columns.indexOf(part));
  return {
    table,
    columns,
    fractions: new Set(stored.filter(({ type }) => type === "REAL").map((column) => column.name)),
    rows: db.prepare(`select count(*) from ${name}`).pluck().get() as number,
    after: (position, count) => {
      const bound = position?.map((part, index) => (isWhole[index] === true ? BigInt(part) : part));
      const rows = (bound === undefined ? first.all(count) : next.all(...bound, count)) as unknown[][];
      return rows.map((row) => row.map(textOf));
    },
    positionOf: (row) => keyIndexes.map((index) => row[index] ?? ""),
  };
}

function textOf(value: unknown): string | null {
  if (value === null) return null;
  return typeof value === "string" ? storable(value) : String(value);
}

function fingerprintOf(db: Connection, tables: readonly SourceTable[], meta: readonly unknown[]): string {
  const newest = tables.map(({ table: { name, key }, rows }) => [
    name,
    rows,
    String(
      db
        .prepare(`select max(${key.at(-1)}) from ${name}`)
        .pluck()
        .get(),
    ),
  ]);
  const pending = db.prepare("select count(*), total(hold) from charges where state = 'pending'").raw().get();
  return JSON.stringify([meta.map(String), newest, pending]);
}

function monthsOf(db: Connection): number[] {
  const nextFrom = db.prepare("select min(admitted_at) from charges where admitted_at >= ?").pluck();
  const months: number[] = [];
  for (let at = nextFrom.get(Number.MIN_SAFE_INTEGER) as number | null; at !== null;) {
    const date = new Date(at);
    months.push(Date.UTC(date.getUTCFullYear(), date.getUTCMonth()));
    at = nextFrom.get(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)) as number | null;
  }
  return months;
}
