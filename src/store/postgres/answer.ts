import type { Reading, Statement } from "../reading/reading.ts";
import type { Statements } from "./connection.ts";
import { cursorOf, type Cursor } from "./cursor.ts";

/** Rows of a statement in parts that are handed over at once: some milliseconds of work, in which nothing else is done. */
const partRows = 500;

/** Answers a reading, statement by statement: to be called in a snapshot where it has several, or one in parts. */
export async function answer<T>(db: Statements, reading: Reading<T>): Promise<T> {
  const cursors = new Map<Statement, Cursor<object>>();
  let step = reading.next([]);
  while (step.done !== true)
    step = reading.next(
      step.value.inParts === true ? await nextPart(db, cursors, step.value) : await rowsOf(db, step.value),
    );
  return step.value;
}

export function rowsOf<R extends object>(db: Statements, { sql, values }: Statement): Promise<R[]> {
  return db.rows<R>(numbered(sql), values);
}

async function nextPart(db: Statements, cursors: Map<Statement, Cursor<object>>, asked: Statement): Promise<object[]> {
  let cursor = cursors.get(asked);
  if (cursor === undefined) {
    cursor = await cursorOf(db, `part_${cursors.size + 1}`, { ...asked, sql: numbered(asked.sql) });
    cursors.set(asked, cursor);
  }
  return await cursor.next(partRows);
}

/** With $1, $2, … in the place of every `?`. */
export function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
}
