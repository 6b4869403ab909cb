import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import type { Connection } from "./connection.ts";

/**
 * Returns `queries`. Those that jobs repeat return their latest answer again until the ledger changes, so a proxy
 * without requests needs no thread for them. `db`: a connection that never writes.
 */
export function rememberedQueries(db: Connection, calendar: Calendar, queries: LongQueries): LongQueries {
  const dataVersion = db.prepare("pragma data_version").pluck();
  const nextRaise = db
    .prepare("select min(at) from (select starts_at as at from raises union all select until from raises) where at > ?")
    .pluck();
  /**
   * Returns a query that remembers its latest answer. `sameFor`: calls with the same text have the same answer until
   * the ledger changes; null for calls that are not remembered.
   */
  const remembered = <Args extends unknown[], Answer>(
    query: (...args: Args) => Promise<Answer>,
    sameFor: (...args: Args) => string | null,
  ) => {
    let last: { readonly version: unknown; readonly text: string; readonly answer: Answer } | null = null;
    return async (...args: Args): Promise<Answer> => {
      const text = sameFor(...args);
      if (text === null) return query(...args);
      // Reads the version before the answer: an answer may be newer than its version, but not older.
      const version = dataVersion.get();
      if (last !== null && last.version === version && last.text === text) return last.answer;
      const answer = await query(...args);
      last = { version, text, answer };
      return answer;
    };
  };
  return Object.assign(Object.create(queries) as LongQueries, {
    totals: remembered(queries.totals, () => ""),
    spend: remembered(queries.spend, ({ by, ...query }) => (by.length === 0 ? JSON.stringify(query) : null)),
    // The windows stay the same for a whole hour, and their raises stay the same until the next raise begins or ends.
    windowsToAlert: remembered(queries.windowsToAlert, (at, limit) =>
      [calendar.spanOf("1h", at).start, nextRaise.get(at), limit].join(" "),
    ),
  } satisfies Partial<LongQueries>);
}
