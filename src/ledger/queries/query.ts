import type { StoredBudget } from "../rows/budgets.ts";

/*
 * Queries that SQLite and PostgreSQL answer alike are written once, as generators: each yields a statement and receives
 * its rows, at once from a file and later from a server.
 */

/** SQL statement with `?` for its values. Integers come back as bigint. A statement that writes has no rows. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly Value[];
  /** Returns its rows in parts: each time the same object is yielded, the next part; an empty part at the end. */
  readonly inParts?: true;
  /**
   * Statement on a small table: prepared once on each connection, and its integers come back as numbers. It must name
   * its columns, so that it stays valid on PostgreSQL when a later release adds some.
   */
  readonly isSmall?: boolean;
  /** Locks its rows until the transaction ends. SQLite ignores it, because it has one writer. */
  readonly lock?: "update" | "share";
}

export type Value = string | number | bigint | null;

/** Step on budgets, whose windows each database stores in its own way. Only within a transaction of the writer. */
export type BudgetStep =
  | { readonly budgets: "lock" }
  /** Opens the windows of a new or changed budget. */
  | { readonly budgets: "open"; readonly budget: StoredBudget; readonly at: number }
  /** Removes the windows of a budget that is about to be removed. */
  | { readonly budgets: "close"; readonly budget: StoredBudget };

/** Query as a generator. All its statements see one snapshot; a query that writes runs in a transaction. */
export type Query<T> = Generator<Statement | BudgetStep, T, readonly unknown[]>;

/** Returns the rows of a statement. */
export function* rowsOf<R>(statement: Statement): Query<readonly R[]> {
  return (yield statement) as readonly R[];
}

/** Returns the SQL of a sum of integers: 0 for no rows, an error beyond 64 bits. */
export const sumOf = (sql: string) => `cast(coalesce(sum(${sql}), 0) as bigint)`;

/** Returns the first row of a statement; undefined for none. */
export function* rowOf<R>(statement: Statement): Query<R | undefined> {
  return (yield* rowsOf<R>(statement))[0];
}

/** Runs a statement that writes. Needs a transaction that may write. */
export function* write(sql: string, ...values: readonly Value[]): Query<void> {
  yield { sql, values };
}

/** Row of a small table: its integers are times and counts, which fit a number. */
type WithNumbers<R> = { readonly [Name in keyof R]: R[Name] extends bigint ? number : R[Name] };

/** Converts a row's bigints to numbers. Not for amounts. */
export function withNumbers<R extends object>(row: R): WithNumbers<R> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
  ) as WithNumbers<R>;
}
