import type { Sql, Statements } from "./connection.ts";
import type { Statement } from "../queries/query.ts";

/** Begins a transaction with one snapshot and no time limits, because its reader may be slow. */
export const keepsSnapshot: Sql = `begin isolation level repeatable read read only; set local statement_timeout = 0;
  set local idle_in_transaction_session_timeout = 0; set local cursor_tuple_fraction = 1`;

export interface Cursor<R> {
  /** Returns at most `count` more rows; none at the end. */
  next(count: number): Promise<R[]>;
}

/** Opens a cursor over a statement with $1 …, within a transaction whose end closes it. */
export async function cursorOf<R extends object>(
  db: Statements,
  name: string,
  { sql, values }: Statement,
): Promise<Cursor<R>> {
  await db.run(`declare ${name} no scroll cursor for ${sql}`, values);
  return { next: (count) => db.rows<R>(`fetch ${count} from ${name}`) };
}
