import type { BudgetStep, Query, Statement } from "../queries/query.ts";
import type { Connection, Statement as Prepared } from "./connection.ts";

type Parts = Map<Statement, Iterator<unknown>>;
const noRows: unknown[] = [];

/** Rows per part of a statement that is read in parts. */
const partRows = 500;

/** Answers a query at once, from one snapshot. */
export function answer<T>(db: Connection, query: Query<T>): T {
  return db.transaction(() => answerEach(db, query))();
}

/** Answers a query at once without a snapshot of its own: for a single statement, or within a transaction. */
export function answerEach<T>(db: Connection, query: Query<T>, budgets: (step: BudgetStep) => void = onlyWriter): T {
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

function onlyWriter(): never {
  throw new Error("only the writer changes budgets");
}

function allRows(db: Connection, { sql, values, isSmall = false }: Statement): unknown[] {
  const statement = prepared(db, sql, isSmall);
  if (statement.reader) return statement.all(...values);
  statement.run(...values);
  return noRows;
}

/** Most prepared statements of each kind per connection. */
const preparedMax = 500;
type Kept = Map<string, Prepared>;
const kept = new WeakMap<Connection, { readonly small: Kept; readonly large: Kept }>();

function prepared(db: Connection, sql: string, isSmall: boolean): Prepared {
  let both = kept.get(db);
  if (both === undefined) kept.set(db, (both = { small: new Map(), large: new Map() }));
  const statements = isSmall ? both.small : both.large;
  let statement = statements.get(sql);
  if (statement === undefined) {
    statement = db.prepare(sql);
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
