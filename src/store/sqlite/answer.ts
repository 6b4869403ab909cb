import type { Reading, Statement } from "../reading/reading.ts";
import type { Connection } from "./connection.ts";

/** Rows of a statement in parts that are handed over at once. */
const partRows = 500;

/** Answers a reading at once, from one snapshot. */
export function answer<T>(db: Connection, reading: Reading<T>): T {
  return db.transaction(() => answered(db, reading))();
}

function answered<T>(db: Connection, reading: Reading<T>): T {
  const parts = new Map<Statement, Iterator<unknown>>();
  try {
    let step = reading.next([]);
    while (step.done !== true)
      step = reading.next(step.value.inParts === true ? nextPart(db, parts, step.value) : allRows(db, step.value));
    return step.value;
  } finally {
    for (const rows of parts.values()) rows.return?.();
  }
}

function allRows(db: Connection, { sql, values }: Statement): unknown[] {
  const statement = db.prepare(sql);
  if (statement.reader) return statement.safeIntegers().all(...values);
  statement.run(...values);
  return [];
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
