import { countTasks } from "../core/tasks.ts";
import type { LedgerFigures } from "./metrics/ledger-gauges.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import { beyondDoubt, runReconciliation } from "../reporting/reconciliation.ts";
import type { Store } from "../ledger/store.ts";
import { formatScope, isOfSession } from "../core/budget.ts";

const dayMs = 86_400_000;

/**
 * Returns a function that compares the ledger with the account samples of the last day. It computes again only if there is a
 * new sample.
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
      ? { difference: found.reconciliation.difference, unexplained: beyondDoubt(found.reconciliation) }
      : null;
    known = { askedAt: latest.askedAt, figures };
    return figures;
  };
}

interface FigureSources {
  readonly at: number;
  readonly spend: (at: number) => Promise<LedgerFigures["spend"]>;
  readonly difference: () => Promise<LedgerFigures["reconciliation"]>;
}

type FigureStore = Pick<Store, "ledger" | "keys" | "outbox" | "tasks">;

/** Returns the ledger's figures for a scrape; null while the database does not answer. */
export async function ledgerFigures(store: FigureStore, sources: FigureSources): Promise<LedgerFigures | null> {
  try {
    return await readFigures(store, sources);
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return null;
  }
}

async function readFigures(
  { ledger, keys, outbox, tasks }: FigureStore,
  { at, spend: spendAt, difference }: FigureSources,
): Promise<LedgerFigures> {
  const [windows, pending, allKeys, spend, reconciliation, outboxWaiting, runningTasks] = await Promise.all([
    ledger.windows(at),
    ledger.pending(),
    keys.list(),
    spendAt(at),
    difference(),
    outbox.waiting(),
    tasks.runningTasks(),
  ]);
  const names = new Map(allKeys.map((key) => [key.id, key.name]));
  const nameOf = (id: string) => names.get(id) ?? id;
  return {
    // Budgets of sessions are left out, because each session would add a label value.
    budgets: windows
      .filter(({ budget }) => !isOfSession(budget.scope))
      .map(({ budget: { scope, period, limit }, subject, spent, held }) => ({
        ...(scope.kind === "key"
          ? { scope: "key", key: nameOf(scope.key) }
          : { scope: formatScope(scope), key: subject === "" ? null : nameOf(subject) }),
        period,
        limit,
        spent,
        held,
      })),
    spend,
    pendingHolds: pending.count,
    runningTasks: countTasks(runningTasks),
    outboxWaiting,
    reconciliation,
  };
}
