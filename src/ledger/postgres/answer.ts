import { hash } from "node:crypto";
import { refuseBudgetStep, withNumbers, type BudgetStep, type Query, type Statement } from "../queries/query.ts";
import type { Sql, Statements } from "./connection.ts";

/** Number of rows in each part of a result that is read in parts. A part blocks this thread for a few milliseconds. */
const partRows = 500;

/**
 * Runs a query's statements in order and returns its result. If the query has several statements or parts, `db` must be
 * in a transaction; for a read, in a snapshot. `budgets` performs the query's budget steps.
 */
export async function answer<T>(
  db: Statements,
  query: Query<T>,
  budgets: (step: BudgetStep) => Promise<void> = refuseBudgetStep,
): Promise<T> {
  const cursors = new Map<Statement, Cursor<object>>();
  let step = query.next([]);
  while (step.done !== true) {
    const asked = step.value;
    if ("budgets" in asked) await budgets(asked);
    step = query.next(
      "budgets" in asked ? [] : await (asked.inParts === true ? nextPart(db, cursors, asked) : rowsOf(db, asked)),
    );
  }
  return step.value;
}

async function rowsOf(db: Statements, { sql, values, isSmall = false, lock }: Statement): Promise<object[]> {
  const text = lock === undefined ? sql : `${sql} for ${lock}`;
  return isSmall ? (await db.rows(prepared(text), values)).map(withNumbers) : await db.rows(numbered(text), values);
}

/** Largest number of named statements. A limit, because each connection keeps every named statement prepared. */
const preparedMax = 500;
const named = new Map<string, Sql>();

function prepared(sql: string): Sql {
  let statement = named.get(sql);
  if (statement === undefined) {
    statement = { name: hash("sha1", sql), text: numbered(sql) };
    if (named.size < preparedMax) named.set(sql, statement);
    else return statement.text;
  }
  return statement;
}

async function nextPart(db: Statements, cursors: Map<Statement, Cursor<object>>, asked: Statement): Promise<object[]> {
  let cursor = cursors.get(asked);
  if (cursor === undefined) {
    cursor = await cursorOf(db, `part_${cursors.size + 1}`, { ...asked, sql: numbered(asked.sql) });
    cursors.set(asked, cursor);
  }
  return await cursor.next(partRows);
}

/** Replaces every `?` with $1, $2, …. */
export function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
}

/**
 * First statement of a snapshot that reads charges. It locks the table before the transaction takes its snapshot.
 * Otherwise retention could replace the table of a month in between, and the snapshot would see neither the old rows
 * nor their copies.
 */
export const lockChargesSql = "lock table charges in access share mode";

/** Statements that begin a transaction with one snapshot. It has no time limits, because its reader may be slow. */
export const beginSnapshotSql: Sql = `begin isolation level repeatable read read only; ${lockChargesSql}; set local statement_timeout = 0;
  set local idle_in_transaction_session_timeout = 0; set local cursor_tuple_fraction = 1`;

interface Cursor<R> {
  /** Returns at most `count` further rows; an empty list at the end. */
  next(count: number): Promise<R[]>;
}

/**
 * Opens a cursor for a statement with parameters $1, $2, …. Must run in a transaction. The end of the transaction
 * closes the cursor.
 */
export async function cursorOf<R extends object>(
  db: Statements,
  name: string,
  { sql, values }: Statement,
): Promise<Cursor<R>> {
  await db.run(`declare ${name} no scroll cursor for ${sql}`, values);
  return { next: (count) => db.rows<R>(`fetch ${count} from ${name}`) };
}
