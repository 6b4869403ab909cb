import { add, noMoney, type PicoUsd } from "../core/money.ts";
import type { LedgerFigures } from "../metrics/ledger-gauges.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Ledger } from "../ports/ledger.ts";

/** How old the sums of the month's finished days may be before they are read anew. Milliseconds. */
const finishedMs = 60_000;

type ByTeam = ReadonlyMap<string | null, PicoUsd>;

/**
 * What each team spent since the day and the month began. Today is read as it is now. The finished days before it take
 * a large ledger a third of a second to add up, and only a correction or a settlement over midnight changes them: they
 * are read at most once a minute, and a scrape waits for them only when it has none.
 */
export function spendByTeam(ledger: Pick<Ledger, "report">, calendar: Calendar): (at: number) => Promise<LedgerFigures["spend"]> {
  let finished: { readonly until: number; readonly readAt: number; readonly sums: ByTeam } | null = null;
  let reading: Promise<ByTeam> | null = null;

  const sumsOf = async (since: number, until: number): Promise<ByTeam> => {
    if (since >= until) return new Map();
    const rows = await ledger.report({ by: ["team"], since, until });
    return new Map(rows.map(({ dimensions, cost }) => [dimensions.team ?? null, cost]));
  };
  const readFinished = async (until: number, at: number): Promise<ByTeam> => {
    try {
      const sums = await sumsOf(calendar.spanOf("1mo", at).start, until);
      finished = { until, readAt: at, sums };
      return sums;
    } finally {
      reading = null;
    }
  };
  const finishedBefore = async (today: number, at: number): Promise<ByTeam> => {
    if (finished?.until !== today) return readFinished(today, at);
    if (at - finished.readAt >= finishedMs && reading === null) {
      reading = readFinished(today, at);
      // What was known stays; the next scrape tries again.
      reading.catch(() => undefined);
    }
    return finished.sums;
  };

  return async (at) => {
    const { start, end } = calendar.spanOf("1d", at);
    // To the day's end, so that whole days are read: they are far fewer rows than quarter hours.
    const today = await sumsOf(start, end ?? at + 1);
    const month = new Map(await finishedBefore(start, at));
    for (const [team, spent] of today) month.set(team, add(month.get(team) ?? noMoney, spent));
    const rows = (period: "day" | "month", sums: ByTeam) => [...sums].map(([team, spent]) => ({ team, period, spent }));
    return [...rows("day", today), ...rows("month", month)];
  };
}
