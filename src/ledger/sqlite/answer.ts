import { refuseBudgetStep, type BudgetStep, type Query, type Statement } from "../queries/query.ts";
import type { Connection, Statement as Prepared } from "./connection.ts";

type Parts = Map<Statement, Iterator<unknown>>;
const noRows: unknown[] = [];

/** Number of rows in each part of a result that is read in parts. */
const partRows = 500;

/** Runs the statements of a query in order, in one snapshot, and returns its result. */
export function answer<T>(db: Connection, query: Query<T>): T {
  return db.transaction(() => answerEach(db, query))();
}

/** Runs a query like `answer`, but begins no transaction: for a single statement, or inside a transaction. */
export function answerEach<T>(
  db: Connection,
  query: Query<T>,
  budgets: (step: BudgetStep) => void = refuseBudgetStep,
): T {
  let parts: Parts | undefined;
  try {
    let step = query.next(noRows);
    while (step.done !== true) {
      const asked = step.value;
      let rows: unknown[] = noRows;
      if ("budgets" in asked) budgets(asked);
      else if (asked.inParts === true) rows = nextPart(db, (parts ??= new Map()), asked);
      else rows = allRows(db, asked);
      step = query.next(rows);
    }
    return step.value;
  } finally {
    for (const rows of parts?.values() ?? []) rows.return?.();
  }
}

/** Accepts a lock of budgets without any action, because a transaction that writes locks out all others. */
export function acceptLock({ budgets }: BudgetStep): void {
  if (budgets !== "lock") refuseBudgetStep();
}

function allRows(db: Connection, { sql, values, isSmall = false }: Statement): unknown[] {
  const statement = prepared(db, sql, isSmall);
  if (statement.reader) return statement.all(...values);
  statement.run(...values);
  return noRows;
}

/** Largest number of prepared statements of each kind that a connection keeps. */
const preparedMax = 500;
type PreparedBySql = Map<string, Prepared>;
const preparedOf = new WeakMap<Connection, { readonly small: PreparedBySql; readonly large: PreparedBySql }>();

/** Returns a statement, which each connection prepares once. It returns integers as bigint unless `isSmall`. */
export function prepared(db: Connection, sql: string, isSmall = false): Prepared {
  let both = preparedOf.get(db);
  if (both === undefined) preparedOf.set(db, (both = { small: new Map(), large: new Map() }));
  const statements = isSmall ? both.small : both.large;
  let statement = statements.get(sql);
  if (statement === undefined) {
    // Adds 0, because SQLite prepares a statement again each time a value is bound to a bare `limit ?`.
    statement = db.prepare(sql.replaceAll("limit ?", "limit ? + 0"));
    if (!isSmall && statement.reader) statement = statement.safeIntegers();
    if (statements.size >= preparedMax) statements.clear();
    statements.set(sql, statement);
  }
  return statement;
}

function nextPart(db: Connection, parts: Parts, asked: Statement): unknown[] {
  let rows = parts.get(asked);
  if (rows === undefined) {
    rows = db
      .prepare(asked.sql)
      .safeIntegers()
      .iterate(...asked.values);
    parts.set(asked, rows);
  }
  const part: unknown[] = [];
  while (part.length < partRows) {
    const { done, value } = rows.next();
    if (done === true) break;
    part.push(value);
  }
  return part;
}
