import type { LedgerFigures } from "../metrics/ledger-gauges.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Store } from "../store/sqlite/open.ts";
import { namedScope } from "../core/budget.ts";

/** What a scrape shows of the ledger: budgets by their users' names, spend by team, holds that are not settled. */
export async function ledgerFigures(
  { ledger, keys }: Pick<Store, "ledger" | "keys">,
  calendar: Calendar,
  at: number,
): Promise<LedgerFigures> {
  const [windows, pending, allKeys, day, month] = await Promise.all([
    ledger.windows(at),
    ledger.pending(),
    keys.list(),
    ledger.report({ by: ["team"], since: calendar.spanOf("1d", at).start, until: at + 1 }),
    ledger.report({ by: ["team"], since: calendar.spanOf("1mo", at).start, until: at + 1 }),
  ]);
  const names = new Map(allKeys.map((key) => [key.id, key.name]));
  const nameOf = (id: string) => names.get(id) ?? id;
  return {
    budgets: windows.map(({ budget, subject, spent, held }) => ({
      scope:
        namedScope(budget.scope, nameOf) + (subject === "" ? "" : `=${nameOf(subject)}`),
      period: budget.period,
      limit: budget.limit,
      spent,
      held,
    })),
    spend: [
      ...day.map((row) => ({ team: row.dimensions.team ?? "", period: "day" as const, spent: row.cost })),
      ...month.map((row) => ({ team: row.dimensions.team ?? "", period: "month" as const, spent: row.cost })),
    ],
    pendingHolds: pending.count,
  };
}
