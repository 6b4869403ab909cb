import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "./dialects.ts";
import { rowsOf, type Query } from "./query.ts";

/** See the ledger's port. */
export function* readPrunedUntil(dialect: Dialect, calendar: Calendar): Query<number | null> {
  const [row] = yield* rowsOf<{ last: bigint | null }>({ sql: dialect.lastCarried, values: [] });
  return row === undefined || row.last === null ? null : calendar.spanOf("1d", Number(row.last)).end;
}
