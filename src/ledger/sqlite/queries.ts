import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { sharedQueries } from "../queries/shared.ts";
import { shortQueries, type ShortQueries } from "../queries/short.ts";
import { answer, answerEach, prepared } from "./answer.ts";
import { connectToRead, type Connection } from "./connection.ts";
import { verify } from "./verify.ts";
import type { Charge } from "../../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../../ports/spend.ts";
import { chargesToScan, recentConditions, writeDelayMsMax } from "../recent-charges.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { TimeSpan } from "../../ports/ledger.ts";

/**
 * Returns the short queries for a file. `runningOwner` returns the epoch of the file's running proxy; null if none
 * runs.
 */
export function sqliteShortQueries(
  db: Connection,
  calendar: Calendar,
  runningOwner: () => number | null,
): ShortQueries {
  return shortQueries({
    dialect: sqliteDialect,
    calendar,
    query: async (query) => answerEach(db, query),
    snapshot: async (query) => answer(db, query),
    isOrphaned: () => ({ sql: "owner is not ?", values: [runningOwner()] }),
  });
}

/** Returns the long queries for a file. Each runs on this thread and blocks it. */
export function longQueries(db: Connection, calendar: Calendar): LongQueries {
  return {
    ...sharedQueries(sqliteDialect, calendar, async (query) => answer(db, query)),
    recent: async (query) => readRecent(db, query),
    verify: async (onProgress) => verify(db, { calendar, onProgress }),
  };
}

/**
 * Implements `LedgerQueries.recent`. The scan needs no index, because the newest rows are stored next to each other.
 */
function readRecent(
  db: Connection,
  query: RecentQuery,
): { readonly charges: readonly Charge[]; readonly cursor: RecentCursor } {
  const where = recentConditions(query);
  if (query.after !== undefined)
    where.add("(seq > ? or ended_at >= ?)", query.after.written, query.after.endedAt - writeDelayMsMax);
  const last = "(select * from charges order by seq desc limit ?)";
  const scanned = chargesToScan(query);
  return db.transaction(() => {
    const rows = prepared(db, `select ${chargeColumns} from ${last} where ${where.sql} order by seq desc limit ?`).all(
      scanned,
      ...where.values,
      query.limit,
    ) as ShownChargeRow[];
    const latest = `select coalesce(max(seq), 0) as written, coalesce(max(ended_at), 0) as "endedAt" from ${last}`;
    return { charges: rows.map(chargeOf), cursor: prepared(db, latest, true).get(scanned) as RecentCursor };
  })();
}

/** Largest number of charges in a part of a stream. Reading a part takes a few milliseconds. */
const partCharges = 500;

/**
 * Yields the charges of a span in parts, oldest first. Reads all parts on a separate connection, in one snapshot.
 * SQLite cannot reset the write-ahead log until the last part is read.
 */
export async function* streamCharges(path: string, span: TimeSpan): AsyncGenerator<readonly Charge[]> {
  const db = connectToRead(path);
  try {
    yield* streamOver(db, span);
  } finally {
    db.close();
  }
}

/** Yields the charges of a span in parts, oldest first. The connection must not write until the last part is read. */
export async function* streamOver(db: Connection, { since, until }: TimeSpan): AsyncGenerator<readonly Charge[]> {
  const rows = db
    .prepare(
      `select ${chargeColumns} from charges where admitted_at >= ? and admitted_at < ? order by admitted_at, seq`,
    )
    .safeIntegers()
    .iterate(since, until) as IterableIterator<ShownChargeRow>;
  let part: Charge[] = [];
  for (const row of rows) {
    part.push(chargeOf(row));
    if (part.length < partCharges) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}
