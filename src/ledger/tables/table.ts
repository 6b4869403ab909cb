import { rowsOf, write, type Query, type Statement, type Value } from "../queries/query.ts";

/** Method of a port, written as a query that runs on either database. */
export type Steps<Method> = Method extends (...args: infer Args) => Promise<infer Result>
  ? (...args: Args) => Query<Result>
  : never;

/** Small table. It implements the methods of its port as queries that run on either database. */
export interface Table<Port, Write extends keyof Port> {
  /** Methods that read. Each statement reads a separate snapshot. */
  readonly queries: { readonly [Method in Exclude<keyof Port, Write>]: Steps<Port[Method]> };
  /** Methods that write. Each runs in one transaction of the writer. */
  readonly writes: { readonly [Method in Write]: Steps<Port[Method]> };
  /**
   * True if every process that caches keys and teams must reload them after a write. A function decides by
   * the write's result.
   */
  readonly announces: boolean | ((result: unknown) => boolean);
  /** Results of writes if the ledger cannot be written. A write that is not listed throws `LedgerUnavailable`. */
  readonly unavailable?: {
    readonly [Method in Write]?: Port[Method] extends (...args: never) => Promise<infer R> ? R : never;
  };
}

/** Returns the first row of a statement on a small table; undefined if there is no row. */
export function* one<R>(sql: string, ...values: readonly Value[]): Query<R | undefined> {
  return ((yield { sql, values, isSmall: true }) as readonly R[])[0];
}

/** Returns the first row of a statement and locks it until the transaction ends; undefined if there is no row. */
export function* locked<R>(
  lock: NonNullable<Statement["lock"]>,
  sql: string,
  ...values: readonly Value[]
): Query<R | undefined> {
  return (yield* rowsOf<R>({ sql, values, isSmall: true, lock }))[0];
}

/** Returns all rows of a statement on a small table. */
export function all<R>(sql: string, ...values: readonly Value[]): Query<readonly R[]> {
  return rowsOf<R>({ sql, values, isSmall: true });
}

/** Inserts a row. Returns false if `onConflict`, such as "on conflict do nothing", skipped the row. */
export function* insert(table: string, row: Readonly<Record<string, Value>>, onConflict = ""): Query<boolean> {
  const columns = Object.keys(row);
  const sql = `insert into ${table} (${columns.join(", ")}) values (${marks(columns)}) ${onConflict} returning 1`;
  return (yield* one(sql, ...Object.values(row))) !== undefined;
}

/** Sets columns of the rows that the condition selects. */
export function update(
  table: string,
  columns: Readonly<Record<string, Value>>,
  where: string,
  ...values: readonly Value[]
): Query<void> {
  const assignments = Object.keys(columns).map((column) => `${column} = ?`);
  return write(`update ${table} set ${assignments.join(", ")} where ${where}`, ...Object.values(columns), ...values);
}

/** Columns of a small table that store properties of an object, such as `created_at` for `createdAt`. */
export class Columns<Name extends string> {
  /** SQL select list that returns each column under the name of its property. */
  readonly select: string;
  readonly #columns: readonly (readonly [property: Name, column: string])[];

  constructor(...names: readonly Name[]) {
    this.#columns = names.map((name) => [name, name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)]);
    this.select = this.#columns.map(([name, column]) => (name === column ? name : `${column} as "${name}"`)).join(", ");
  }

  /** Returns the values of an object by column name. */
  rowOf(values: Readonly<Record<Name, Value>>): Readonly<Record<string, Value>> {
    return Object.fromEntries(this.#columns.map(([name, column]) => [column, values[name]]));
  }
}

/** Returns a question mark for each value, such as "?, ?". */
export function marks(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}
