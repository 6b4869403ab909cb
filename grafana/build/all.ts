import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { budgets } from "./budgets.ts";
import { exactDashboards } from "./exact/dashboards.ts";
import { operations } from "./operations.ts";
import { spend } from "./spend.ts";

const fileOf = ([name, dashboard]: [string, Dashboard]) =>
  [`${name}.json`, `${JSON.stringify(dashboard, null, 2)}\n`] as const;

/** Committed files of grafana/dashboards, by name. `npm run grafana` writes exactly these files. */
export const dashboardFiles: ReadonlyMap<string, string> = new Map(
  Object.entries({ spend, budgets, operations }).map(fileOf),
);

/** Committed files of grafana/exact, by path. */
export const exactFiles: ReadonlyMap<string, string> = new Map(Object.entries(exactDashboards).map(fileOf));
