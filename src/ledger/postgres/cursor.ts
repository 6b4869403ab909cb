import type { Sql, Statements } from "./connection.ts";
import type { Statement } from "../queries/query.ts";

/** Begins a transaction that sees one moment for as long as it takes: whoever reads it may be slow. */
export const keepsSnapshot: Sql = `begin isolation level repeatable read read only; set local statement_timeout = 0;
  set local idle_in_transaction_session_timeout = 0; set local cursor_tuple_fraction = 1`;

export interface Cursor<R> {
  /** The next rows, so many at most; none at the end. */
  next(count: number): Promise<R[]>;
}

/** Rows of one statement with $1 … in it, some at a time, within a transaction; its end closes them. */
export async function cursorOf<R extends object>(
  db: Statements,
  name: string,
  { sql, values }: Statement,
): Promise<Cursor<R>> {
  await db.run(`declare ${name} no scroll cursor for ${sql}`, values);
  return { next: (count) => db.rows<R>(`fetch ${count} from ${name}`) };
}
