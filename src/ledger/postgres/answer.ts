import { hash } from "node:crypto";
import { withNumbers, type BudgetStep, type Query, type Statement } from "../queries/query.ts";
import type { Sql, Statements } from "./connection.ts";
import { cursorOf, type Cursor } from "./cursor.ts";

/** Rows per part of a statement that is read in parts: some milliseconds of work that blocks this thread. */
const partRows = 500;

/** Answers a query, one statement at a time. A query with several statements, or one in parts, needs a snapshot. */
export async function answer<T>(
  db: Statements,
  query: Query<T>,
  budgets: (step: BudgetStep) => Promise<void> = onlyWriter,
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

function onlyWriter(): never {
  throw new Error("only the writer changes budgets");
}

async function rowsOf(db: Statements, { sql, values, isSmall = false, lock }: Statement): Promise<object[]> {
  const text = lock === undefined ? sql : `${sql} for ${lock}`;
  return isSmall ? (await db.rows(prepared(text), values)).map(withNumbers) : await db.rows(numbered(text), values);
}

/** Most named statements. Each connection keeps them prepared. */
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
