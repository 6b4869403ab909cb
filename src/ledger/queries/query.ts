import type { StoredBudget } from "../rows/budgets.ts";

/*
 * Reads that SQLite and PostgreSQL answer alike. Each is written once, as a generator: it asks one statement after the other
 * and is handed their rows, at once from a file and later from a server.
 */

/** A statement, with `?` for its values. Whole numbers come back as bigint. One that writes has no rows. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly Value[];
  /** Its rows are handed over some at a time: each time that this very statement is asked, the next of them; none at the end. */
  readonly inParts?: true;
  /**
   * Of a small table: prepared once on each connection, and its whole numbers come back as numbers. It names its columns, so
   * that it stays valid on PostgreSQL when a later release adds some.
   */
  readonly isSmall?: boolean;
  /** Its rows stay locked until the transaction ends. SQLite locks nothing for it: its writer is alone. */
  readonly lock?: "update" | "share";
}

export type Value = string | number | bigint | null;

/** A step on budgets, whose windows each database keeps in its own way; within a transaction of the writer. */
export type BudgetStep =
  | { readonly budgets: "lock" }
  /** Opens the windows of a budget that was added or changed. */
  | { readonly budgets: "open"; readonly budget: StoredBudget; readonly at: number }
  /** Removes the windows of a budget, before it is removed. */
  | { readonly budgets: "close"; readonly budget: StoredBudget };

/** All its statements are answered from one snapshot. One that writes is answered within a transaction. */
export type Query<T> = Generator<Statement | BudgetStep, T, readonly unknown[]>;

/** The rows of one statement. */
export function* rowsOf<R>(statement: Statement): Query<readonly R[]> {
  return (yield statement) as readonly R[];
}

/** A sum of whole numbers, 0 of none; beyond 64 bits it is an error in both. */
export const sumOf = (sql: string) => `cast(coalesce(sum(${sql}), 0) as bigint)`;

/** The first row of a statement; undefined for none. */
export function* rowOf<R>(statement: Statement): Query<R | undefined> {
  return (yield* rowsOf<R>(statement))[0];
}

/** Writes, where the query is answered within a transaction that may. */
export function* write(sql: string, ...values: readonly Value[]): Query<void> {
  yield { sql, values };
}

/** A row as the small tables are read: their integers are times and counts, which fit a number. */
type WithNumbers<R> = { readonly [Name in keyof R]: R[Name] extends bigint ? number : R[Name] };

/** The same row with numbers for bigints. Not for amounts. */
export function withNumbers<R extends object>(row: R): WithNumbers<R> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
  ) as WithNumbers<R>;
}
