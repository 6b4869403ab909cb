import { rowsOf, write, type Query, type Statement, type Value } from "../queries/query.ts";

/** Method of a port, as a query for either database. */
export type Steps<Method> = Method extends (...args: infer Args) => Promise<infer Result>
  ? (...args: Args) => Query<Result>
  : never;

/** Small table, written once for both databases: the methods of its port as queries. */
export interface Table<Port, Write extends keyof Port> {
  /** Methods that read. Each statement has a snapshot of its own. */
  readonly queries: { readonly [Method in Exclude<keyof Port, Write>]: Steps<Port[Method]> };
  /** Methods that write, each in one transaction of the writer. */
  readonly writes: { readonly [Method in Write]: Steps<Port[Method]> };
  /** True if every process that caches keys, teams and sessions must reload them after a write. */
  readonly announces: boolean | ((result: unknown) => boolean);
  /** Results of writes when nothing could be written. A write that is missing here throws `LedgerUnavailable`. */
  readonly unavailable?: {
    readonly [Method in Write]?: Port[Method] extends (...args: never) => Promise<infer R> ? R : never;
  };
}

/** Returns the first row of a small table's statement; undefined for none. */
export function* one<R>(sql: string, ...values: readonly Value[]): Query<R | undefined> {
  return ((yield { sql, values, isSmall: true }) as readonly R[])[0];
}

/** Returns the first row, locked until the transaction ends. */
export function* locked<R>(
  lock: NonNullable<Statement["lock"]>,
  sql: string,
  ...values: readonly Value[]
): Query<R | undefined> {
  return (yield* rowsOf<R>({ sql, values, isSmall: true, lock }))[0];
}

/** Returns all rows of a small table's statement. */
export function all<R>(sql: string, ...values: readonly Value[]): Query<readonly R[]> {
  return rowsOf<R>({ sql, values, isSmall: true });
}

/** Inserts a row, given by its columns. Returns false where `unless` finds a conflict. */
export function* insert(table: string, row: Readonly<Record<string, Value>>, unless = ""): Query<boolean> {
  const columns = Object.keys(row);
  const sql = `insert into ${table} (${columns.join(", ")}) values (${marks(columns)}) ${unless} returning 1`;
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

/** Returns question marks for a list of values: "?, ?". */
export function marks(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}
