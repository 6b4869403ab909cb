import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { budgets } from "./budgets.ts";
import { operations } from "./operations.ts";
import { spend } from "./spend.ts";

const byName: Readonly<Record<string, Dashboard>> = { spend, budgets, operations };

/** The committed files, by name: exactly what `npm run grafana` writes into grafana/dashboards. */
export const dashboardFiles: ReadonlyMap<string, string> = new Map(
  Object.entries(byName).map(([name, dashboard]) => [`${name}.json`, `${JSON.stringify(dashboard, null, 2)}\n`]),
);
