import { countTasks } from "../../src/core/tasks.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { combineEvents } from "../../src/ports/events.ts";
import type { LedgerFigures } from "../../src/server/metrics/ledger-gauges.ts";
import { createMetrics } from "../../src/server/metrics/metrics.ts";

/** Figures of an empty ledger. */
export const noFigures: LedgerFigures = {
  budgets: [],
  spend: [],
  pendingHolds: 0,
  outboxWaiting: 0,
  runningTasks: countTasks([]),
  reconciliation: null,
};

interface ExampleOptions extends Partial<Parameters<typeof createMetrics>[0]> {
  readonly figures?: LedgerFigures;
}

/** Creates the metrics of a proxy and their events, by default with an empty ledger and ten keys shown by name. */
export function metricsWith({ figures = noFigures, ...options }: ExampleOptions = {}) {
  const metrics = createMetrics({
    version: "0",
    keysMax: 10,
    subjectsMax: 0,
    otel: false,
    clock: systemClock(),
    pricesLoadedAt: 0,
    ...options,
  });
  metrics.showLedger(async () => figures);
  return { ...metrics, events: combineEvents(...metrics.listeners) };
}
