import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "./interfaces.ts";
import { samples } from "../tables/account-samples.ts";
import { readAudit } from "../tables/audit.ts";
import type { Steps } from "../tables/table.ts";
import { readCorrections, readTotals, readRawUnits } from "./account.ts";
import { readCharges } from "./charges.ts";
import type { Dialect } from "./dialects.ts";
import { readPostings } from "./postings.ts";
import { readPrunedUntil, readReport } from "./report.ts";
import type { Query } from "./query.ts";
import { readSpend } from "./spend.ts";

type SharedQueries = Omit<LongQueries, "recent" | "windows" | "windowsToAlert" | "verify" | "copy">;

/** Returns the long queries that both databases answer alike. */
export function sharedQueries(
  dialect: Dialect,
  calendar: Calendar,
  answer: <T>(query: Query<T>) => Promise<T>,
): SharedQueries {
  const steps: { readonly [Name in keyof SharedQueries]: Steps<SharedQueries[Name]> } = {
    charges: (query) => readCharges(dialect, query),
    report: (query) => readReport(dialect, calendar, query),
    spend: (query) => readSpend(calendar, query),
    rawUnits: readRawUnits,
    postings: (query, after) => readPostings(dialect, calendar, query, after),
    prunedUntil: () => readPrunedUntil(dialect, calendar),
    totals: readTotals,
    corrections: readCorrections,
    samples: samples.queries.list,
    audit: readAudit,
  };
  const answered = Object.entries(steps).map(([name, query]) => [
    name,
    (...args: unknown[]) => answer((query as (...all: unknown[]) => Query<unknown>)(...args)),
  ]);
  return Object.fromEntries(answered) as SharedQueries;
}
