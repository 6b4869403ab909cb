import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import type { Connection } from "./connection.ts";

/**
 * Returns `queries` with a cache for those that jobs repeat: they return their latest answer until the ledger changes.
 * So a proxy without requests needs no thread for them. `db`: a connection that never writes.
 */
export function cachedQueries(db: Connection, calendar: Calendar, queries: LongQueries): LongQueries {
  const dataVersion = db.prepare("pragma data_version").pluck();
  const nextRaise = db
    .prepare("select min(at) from (select starts_at as at from raises union all select until from raises) where at > ?")
    .pluck();
  /**
   * Returns a query that caches its latest answer. `cacheKey`: calls with the same key have the same answer until the
   * ledger changes; null for calls that are not cached.
   */
  const cached = <Args extends unknown[], Answer>(
    query: (...args: Args) => Promise<Answer>,
    cacheKey: (...args: Args) => string | null,
  ) => {
    let last: { readonly version: unknown; readonly key: string; readonly answer: Answer } | null = null;
    return async (...args: Args): Promise<Answer> => {
      const key = cacheKey(...args);
      if (key === null) return query(...args);
      // Reads the version before the answer: an answer may be newer than its version, but not older.
      const version = dataVersion.get();
      if (last !== null && last.version === version && last.key === key) return last.answer;
      const answer = await query(...args);
      last = { version, key, answer };
      return answer;
    };
  };
  return Object.assign(Object.create(queries) as LongQueries, {
    totals: cached(queries.totals, () => ""),
    spend: cached(queries.spend, ({ by, ...query }) => (by.length === 0 ? JSON.stringify(query) : null)),
    // The windows stay the same for a whole hour, and their raises stay the same until the next raise begins or ends.
    windowsToAlert: cached(queries.windowsToAlert, (at, limit) =>
      [calendar.spanOf("1h", at).start, nextRaise.get(at), limit].join(" "),
    ),
  } satisfies Partial<LongQueries>);
}
