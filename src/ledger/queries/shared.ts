import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "./interfaces.ts";
import { samples } from "../tables/account-samples.ts";
import { readAudit } from "../tables/audit.ts";
import { countRefusals, readCauses, readExcess, readRefusals } from "../tables/refusals.ts";
import type { Steps } from "../tables/table.ts";
import { readCorrections, readTotals, readRawUnits } from "./account.ts";
import { readAgentSessions, readAgentSums } from "./agent-sessions.ts";
import { readCharges } from "./charges.ts";
import type { Dialect } from "./dialects.ts";
import { listQueries } from "./lists.ts";
import { readPostedCharges } from "./posted-charges.ts";
import { readFirstDay, readPrunedUntil, readReport } from "./report.ts";
import type { Query, RunQuery } from "./query.ts";
import { readSpend } from "./spend.ts";
import { PastUsage } from "./usage.ts";
import { readSpentBefore } from "./window-sums.ts";
import { readWindows, readWindowsToAlert } from "./windows.ts";

type SharedQueries = Omit<LongQueries, "recent" | "verify">;

/** Returns the long queries that are the same for both databases. `answer` runs a query and returns its result. */
export function sharedQueries(dialect: Dialect, calendar: Calendar, answer: RunQuery): SharedQueries {
  const steps: { readonly [Name in keyof SharedQueries]: Steps<SharedQueries[Name]> } = {
    charges: (query) => readCharges(dialect, query),
    report: (query) => readReport(dialect, calendar, query),
    spend: (query) => readSpend(calendar, query),
    agentSessions: (query) => readAgentSessions(dialect, query),
    agentSums: (query) => readAgentSums(dialect, query),
    rawUnits: readRawUnits,
    spentBefore: (budget, at, upTo) => readSpentBefore(dialect, calendar, budget, at, upTo),
    postedCharges: (query, after) => readPostedCharges(dialect, calendar, query, after),
    prunedUntil: () => readPrunedUntil(calendar),
    firstDay: () => readFirstDay(calendar),
    totals: readTotals,
    corrections: readCorrections,
    windows: (at, which) => readWindows(dialect, calendar, at, which),
    windowsToAlert: (at, limit) => readWindowsToAlert(dialect, calendar, at, limit),
    samples: samples.queries.list,
    audit: readAudit,
    refusals: readRefusals,
    refusalCauses: readCauses,
    refused: countRefusals,
    excessRefusals: readExcess,
    ...listQueries(dialect, calendar, new PastUsage(dialect, calendar, answer)),
  };
  const answered = Object.entries(steps).map(([name, query]) => [
    name,
    (...args: unknown[]) => answer((query as (...all: unknown[]) => Query<unknown>)(...args)),
  ]);
  return Object.fromEntries(answered) as SharedQueries;
}
