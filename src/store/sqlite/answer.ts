import type { BudgetStep, Reading, Statement } from "../reading/reading.ts";
import type { Connection, Statement as Prepared } from "./connection.ts";

/** Rows of a statement in parts that are handed over at once. */
const partRows = 500;

/** Answers a reading at once, from one snapshot. */
export function answer<T>(db: Connection, reading: Reading<T>): T {
  return db.transaction(() => answerEach(db, reading))();
}

/** Answers a reading at once, each of its statements by itself: one of a single statement, or within a transaction. */
export function answerEach<T>(
  db: Connection,
  reading: Reading<T>,
  budgets: (step: BudgetStep) => void = onlyWriter,
): T {
  const parts = new Map<Statement, Iterator<unknown>>();
  try {
    let step = reading.next([]);
    while (step.done !== true) {
      const asked = step.value;
      if ("budgets" in asked) budgets(asked);
      step = reading.next(
        "budgets" in asked ? [] : asked.inParts === true ? nextPart(db, parts, asked) : allRows(db, asked),
      );
    }
    return step.value;
  } finally {
    for (const rows of parts.values()) rows.return?.();
  }
}

function onlyWriter(): never {
  throw new Error("only the writer changes budgets");
}

function allRows(db: Connection, { sql, values, isSmall = false }: Statement): unknown[] {
  const statement = prepared(db, sql);
  if (statement.reader) return statement.safeIntegers(!isSmall).all(...values);
  statement.run(...values);
  return [];
}

/** Statements that a connection keeps prepared. */
const preparedMax = 500;
const kept = new WeakMap<Connection, Map<string, Prepared>>();

function prepared(db: Connection, sql: string): Prepared {
  let statements = kept.get(db);
  if (statements === undefined) kept.set(db, (statements = new Map()));
  let statement = statements.get(sql);
  if (statement === undefined) {
    statement = db.prepare(sql);
    if (statements.size >= preparedMax) statements.clear();
    statements.set(sql, statement);
  }
  return statement;
}

function nextPart(db: Connection, parts: Map<Statement, Iterator<unknown>>, asked: Statement): unknown[] {
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
