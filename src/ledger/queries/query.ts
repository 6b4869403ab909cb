import type { SpentBefore, StoredBudget } from "../rows/budgets.ts";

/*
 * Queries that are the same for both databases are written once, as generators. A generator yields a statement and
 * receives the rows: immediately from SQLite, asynchronously from PostgreSQL.
 */

/**
 * SQL statement with a `?` for each value. Integers in its rows are bigints, except with `isSmall`. A statement that
 * writes returns no rows.
 */
export interface Statement {
  readonly sql: string;
  readonly values: readonly Value[];
  /** True to read the rows in parts. The query yields the same object once per part, until it receives no rows. */
  readonly inParts?: true;
  /**
   * True for a statement on a small table. Each connection prepares the statement once, and integers in its rows are
   * numbers. The statement must name its columns: on PostgreSQL, a prepared `select *` fails after a later release adds
   * a column.
   */
  readonly isSmall?: boolean;
  /** Locks the rows until the transaction ends. SQLite ignores `lock`, because a ledger file has only one writer. */
  readonly lock?: "update" | "update skip locked" | "share";
}

export type Value = string | number | bigint | null;

/**
 * Change to budgets and their windows. Each database has a separate implementation, because the databases store windows
 * differently. Must run in a transaction of the writer.
 */
export type BudgetStep =
  /** Locks all budgets until the transaction ends. */
  | { readonly budgets: "lock" }
  /** Opens the windows of a new or changed budget. `before`: sums computed before the transaction; null for none. */
  | {
      readonly budgets: "open";
      readonly budget: StoredBudget;
      readonly at: number;
      readonly before?: SpentBefore | null;
    }
  /** Opens the window that a new raise applies to. */
  | { readonly budgets: "raise"; readonly budget: StoredBudget; readonly subject: string; readonly at: number }
  /** Removes the windows of a budget that is about to be removed. */
  | { readonly budgets: "close"; readonly budget: StoredBudget };

/** Handles the budget steps of a query that is not run by the writer. */
export function refuseBudgetStep(): never {
  throw new Error("a query that changes budgets must be run by the writer, as a command");
}

/**
 * Query as a generator. The function that runs the query decides whether its statements read the same snapshot. A query
 * that writes runs in a transaction.
 */
export type Query<T> = Generator<Statement | BudgetStep, T, readonly unknown[]>;

/** Function that runs a query. */
export type RunQuery = <T>(query: Query<T>) => Promise<T>;

/** Returns the rows of a statement. */
export function* rowsOf<R>(statement: Statement): Query<readonly R[]> {
  return (yield statement) as readonly R[];
}

/**
 * Returns the SQL expression for a sum of integers. The sum is 0 for no rows. The statement fails if the sum exceeds 64
 * bits.
 */
export const sumSql = (sql: string) => `cast(coalesce(sum(${sql}), 0) as bigint)`;

/** Returns the first row of a statement; undefined if there is none. */
export function* rowOf<R>(statement: Statement): Query<R | undefined> {
  return (yield* rowsOf<R>(statement))[0];
}

/** Runs a statement that writes. Must run in a transaction of the writer. */
export function* write(sql: string, ...values: readonly Value[]): Query<void> {
  yield { sql, values };
}

/** Row with numbers instead of bigints. */
type WithNumbers<R> = { readonly [Name in keyof R]: R[Name] extends bigint ? number : R[Name] };

/**
 * Converts a row's bigints to numbers. Use it only for times and counts, because amounts may be too large for a number.
 */
export function withNumbers<R extends object>(row: R): WithNumbers<R> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
  ) as WithNumbers<R>;
}
