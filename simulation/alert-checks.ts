import { budgetAlerts } from "../src/core/alerts.ts";
import type { BudgetWindow } from "../src/core/budget.ts";
import type { BudgetStore } from "../src/ports/ledger.ts";

/** Largest number of windows in an answer; more than a run has. */
const windowsMax = 1_000;

/** Checks that each alert that one run of the proxy found is in the outbox at the end of the run. */
export class AlertChecks {
  /** Windows whose alerts the latest evaluation of the window found, by budget, start and subject. */
  readonly #due = new Map<string, { readonly window: BudgetWindow; readonly at: number }>();

  /** Called after each evaluation: `windows` have alerts that are not in the outbox; the other windows at `at` have none. */
  onEvaluated(at: number, windows: readonly BudgetWindow[]): void {
    for (const [name, { window }] of this.#due)
      if (window.start <= at && (window.end === null || at < window.end)) this.#due.delete(name);
    for (const window of windows) this.#due.set(nameOf(window), { window, at });
  }

  /**
   * Returns the windows with an alert that was found, is not in the outbox, and still has its cause. A charge that is
   * settled after the window's last evaluation causes no alert.
   */
  async missing(ledger: Pick<BudgetStore, "windowsToAlert">, outboxKeys: ReadonlySet<string>): Promise<string[]> {
    const missing: string[] = [];
    for (const [name, { window, at }] of this.#due) {
      const current = (await ledger.windowsToAlert(at, windowsMax)).filter((each) => nameOf(each) === name);
      const dueKeys = new Set(budgetAlerts(current).map(({ dedupeKey }) => dedupeKey));
      if (budgetAlerts([window]).some(({ dedupeKey }) => dueKeys.has(dedupeKey) && !outboxKeys.has(dedupeKey)))
        missing.push(`${window.budget.id} ${window.subject}`);
    }
    return missing;
  }
}

function nameOf({ budget, start, subject }: BudgetWindow): string {
  return `${budget.id} ${start} ${subject}`;
}
