import { add, noMoney, type PicoUsd } from "../core/money.ts";
import type { LedgerFigures } from "./metrics/ledger-gauges.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { LedgerQueries } from "../ports/ledger.ts";

/** Age at which the sums of the month's finished days are read again. Milliseconds. */
const finishedMs = 60_000;

type ByTeam = ReadonlyMap<string | null, PicoUsd>;

interface Finished {
  /** Start of their month. */
  readonly month: number;
  readonly until: number;
  readonly readAt: number;
  readonly sums: ByTeam;
}

/**
 * Reads the spend of each team in the present day and month. Today is read at every call. The finished days take a large
 * ledger a third of a second to add up, and only a correction or a settlement over midnight changes them: they are read at
 * most once a minute. A scrape waits for them only if none are known; at midnight it adds the day that ended. `atOnce`
 * answers queries that a scrape waits for, `later` all others, which may wait for other reports.
 */
export function spendByTeam(
  { atOnce, later }: { readonly atOnce: LedgerQueries; readonly later: LedgerQueries },
  calendar: Calendar,
): (at: number) => Promise<LedgerFigures["spend"]> {
  let finished: Finished | null = null;
  let reading: Promise<void> | null = null;

  const sumsOf = async (ledger: LedgerQueries, since: number, until: number): Promise<ByTeam> => {
    if (since >= until) return new Map();
    const rows = await ledger.report({ by: ["team"], since, until });
    return new Map(rows.map(({ dimensions, cost }) => [dimensions.team ?? null, cost]));
  };
  /** Returns the known sums with the days that ended since; reads everything if nothing is known. */
  const extendedTo = async (today: number, month: number, at: number): Promise<Finished> => {
    const known = finished;
    if (known === null || known.month !== month || known.until > today) {
      return { month, until: today, readAt: at, sums: await sumsOf(atOnce, month, today) };
    }
    return known.until === today
      ? known
      : { ...known, until: today, sums: together(known.sums, await sumsOf(atOnce, known.until, today)) };
  };
  const readAgain = async (today: number, month: number, at: number): Promise<void> => {
    try {
      finished = { month, until: today, readAt: at, sums: await sumsOf(later, month, today) };
    } catch {
      // The known sums stay; the next scrape tries again.
    } finally {
      reading = null;
    }
  };
  const finishedBefore = async (today: number, at: number): Promise<ByTeam> => {
    const month = calendar.spanOf("1mo", at).start;
    const known = await extendedTo(today, month, at);
    finished = known;
    if (at - known.readAt >= finishedMs) reading ??= readAgain(today, month, at);
    return known.sums;
  };

  return async (at) => {
    const { start, end } = calendar.spanOf("1d", at);
    // Until the day's end, so that whole days are read: far fewer rows than quarter hours.
    const today = await sumsOf(atOnce, start, end ?? at + 1);
    const month = together(await finishedBefore(start, at), today);
    const rows = (period: "day" | "month", sums: ByTeam) => [...sums].map(([team, spent]) => ({ team, period, spent }));
    return [...rows("day", today), ...rows("month", month)];
  };
}

function together(some: ByTeam, others: ByTeam): ByTeam {
  const sums = new Map(some);
  for (const [team, spent] of others) sums.set(team, add(sums.get(team) ?? noMoney, spent));
  return sums;
}
