import { limitOf } from "../core/budget.ts";
import { countTasks } from "../core/tasks.ts";
import type { LedgerFigures } from "./metrics/ledger-gauges.ts";
import { LedgerUnavailable, type LedgerQueries } from "../ports/ledger.ts";
import { beyondUncertainty, runReconciliation } from "../reporting/reconciliation.ts";
import type { Store } from "../ports/stores.ts";
import { isOfSession, keyOfScope, keyOfSubject } from "../core/scope.ts";
import { add, noMoney, type PicoUsd } from "../core/money.ts";
import { dayMs } from "../core/time.ts";
import type { Calendar } from "../ports/calendar.ts";

/**
 * Returns a function that compares the ledger with the account samples of the last day. It computes again only if there
 * is a new sample.
 */
export function differenceOfDay({ ledger, samples }: Store["figures"]): () => Promise<LedgerFigures["reconciliation"]> {
  let known: { readonly askedAt: number; readonly figures: LedgerFigures["reconciliation"] } | null = null;
  return async () => {
    const latest = await samples.latest();
    if (latest === undefined) return null;
    if (known?.askedAt === latest.askedAt) return known.figures;
    const found = await runReconciliation(
      { ledger, samples },
      { since: latest.askedAt - dayMs, until: latest.askedAt + 1 },
    );
    const figures = found.ok
      ? { difference: found.reconciliation.difference, unexplained: beyondUncertainty(found.reconciliation) }
      : null;
    known = { askedAt: latest.askedAt, figures };
    return figures;
  };
}

interface FigureSources {
  readonly calendar: Calendar;
  /** True if budgets by user or tag have metrics. */
  readonly byUserOrTag: boolean;
  readonly drift: ReturnType<typeof differenceOfDay>;
}

/**
 * Returns a function that reads the ledger's figures for a scrape. Its result is null if the database does not answer.
 */
export function ledgerFigures(
  store: Pick<Store, "ledger" | "figures" | "keys" | "outbox" | "tasks">,
  sources: FigureSources,
): (at: number) => Promise<LedgerFigures | null> {
  const spendAt = spendByTeam({ atOnce: store.figures.ledger, later: store.ledger }, sources.calendar);
  return async (at) => {
    try {
      return await readFigures(store, { ...sources, spendAt }, at);
    } catch (error) {
      if (!(error instanceof LedgerUnavailable)) throw error;
      return null;
    }
  };
}

async function readFigures(
  { ledger, keys, outbox, tasks }: Parameters<typeof ledgerFigures>[0],
  { byUserOrTag, drift, spendAt }: FigureSources & { readonly spendAt: ReturnType<typeof spendByTeam> },
  at: number,
): Promise<LedgerFigures> {
  const [windows, pending, allKeys, spend, reconciliation, outboxWaiting, runningTasks] = await Promise.all([
    ledger.windows(at, { byUserOrTag }),
    ledger.pending(),
    keys.list(),
    spendAt(at),
    drift(),
    outbox.waiting(),
    tasks.runningTasks(),
  ]);
  const names = new Map(allKeys.map((key) => [key.id, key.name]));
  return {
    // Budgets of sessions are left out, because each session would add a label value.
    budgets: windows
      .filter(({ budget }) => !isOfSession(budget.scope))
      .map((window) => {
        const { budget, subject, spent, held } = window;
        const { scope, period } = budget;
        const id = keyOfScope(scope) ?? keyOfSubject(scope, subject);
        const key = id === null ? null : (names.get(id) ?? id);
        return { scope, subject, key, period, limit: limitOf(window), spent, held };
      }),
    spend,
    pendingHolds: pending.count,
    runningTasks: countTasks(runningTasks),
    outboxWaiting,
    reconciliation,
  };
}

/** Age at which the sums of the month's past days are read again, in milliseconds. */
const finishedMs = 60_000;

type ByTeam = ReadonlyMap<string | null, PicoUsd>;

/** Sums of the month's past days. */
interface Finished {
  /** Start of the month, in milliseconds since 1970 UTC. */
  readonly month: number;
  /** End of the days in `sums`, in milliseconds since 1970 UTC. */
  readonly until: number;
  readonly readAt: number;
  readonly sums: ByTeam;
}

/**
 * Returns a function that reads the spend of each team in the current day and month. It reads today's spend at every
 * call, and the month's past days at most once a minute. Reading the past days takes a third of a second in a large
 * ledger. Only a correction or a settlement over midnight changes them. A scrape waits for the past days only if none
 * are known. After midnight, the function adds the day that ended to the known days. A scrape waits for the queries of
 * `atOnce`. The queries of `later` run in the background, and may wait for reports.
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
  /**
   * Returns the known sums, extended by the days that have ended since. Reads all past days if none of this month are
   * known.
   */
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
      // The known sums are kept, and the next scrape tries again.
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
    // Reads until the end of the day, because the ledger sums a whole day in far fewer rows than its quarter hours.
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
