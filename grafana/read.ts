import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Parts of a dashboard's committed file that pictures and tests need. */
export interface DashboardFile {
  /** Name of the file without its extension. */
  readonly name: string;
  readonly title: string;
  readonly uid: string;
  readonly id: null;
  readonly panels: readonly PanelFile[];
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly query: unknown;
      readonly allValue?: string;
    }[];
  };
}

export interface PanelFile {
  readonly id: number;
  readonly type: "stat" | "bargauge" | "timeseries" | "table";
  readonly title: string;
  readonly description: string;
  readonly datasource: { readonly type: string; readonly uid: string };
  readonly timeFrom?: string;
  readonly interval?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: {
    readonly defaults: {
      readonly unit: string;
      readonly decimals?: number;
      readonly max?: number;
      readonly noValue?: string;
      readonly mappings?: readonly { readonly options: Readonly<Record<string, { readonly text: string }>> }[];
      readonly thresholds?: { readonly steps: readonly { readonly value: number | null; readonly color: string }[] };
      readonly custom?: { readonly drawStyle?: string; readonly stacking?: { readonly mode: string } };
    };
  };
  readonly transformations?: readonly {
    readonly id: string;
    readonly options: { readonly renameByName?: Readonly<Record<string, string>> };
  }[];
  readonly targets: readonly TargetFile[];
}

export interface TargetFile {
  readonly refId: string;
  readonly expr: string;
  readonly legendFormat: string;
  /** True for an instant query; false for a query over the time range. */
  readonly instant?: boolean;
  readonly datasource: { readonly uid: string };
}

/** SQL query of a panel on the ledger's tables. */
export type SqlPanelFile = Omit<PanelFile, "targets"> & { readonly targets: readonly SqlTargetFile[] };
export type SqlDashboardFile = Omit<DashboardFile, "panels"> & { readonly panels: readonly SqlPanelFile[] };

export interface SqlTargetFile {
  /** Query for SQLite's data source, with the columns that contain times. */
  readonly queryText?: string;
  readonly timeColumns?: readonly string[];
  /** Query for PostgreSQL's data source. */
  readonly rawSql?: string;
  readonly datasource: { readonly uid: string };
}

/** Returns the files of a folder, in the order of their paths. */
function committed(folder: string) {
  const path = fileURLToPath(new URL(folder, import.meta.url));
  const files = globSync("**/*.json", { cwd: path }).toSorted();
  return files.map((file) => ({
    name: file.replace(/\.json$/, ""),
    ...JSON.parse(readFileSync(`${path}/${file}`, "utf8")),
  }));
}

/** Returns the committed dashboards over Prometheus. */
export const committedDashboards = (): DashboardFile[] => committed("dashboards");

/** Returns the committed dashboards over the ledger's tables. */
export const committedExact = (): SqlDashboardFile[] => committed("exact");

/** Builds the query that Grafana sends with all variables at All. Durations are in seconds. */
export function substituted(
  expression: string,
  { rangeS, stepS, scrapeS }: { readonly rangeS: number; readonly stepS: number; readonly scrapeS: number },
): string {
  const values: Readonly<Record<string, string>> = {
    $__rate_interval: `${Math.max(stepS + scrapeS, 4 * scrapeS)}s`,
    $__range: `${Math.ceil(rangeS)}s`,
    $__interval: `${Math.max(stepS, 4 * scrapeS)}s`,
    $job: ".+",
    $instance: ".+",
    $team: ".*",
    $key: ".*",
    $model: ".*",
  };
  return expression.replaceAll(/\$\w+/g, (variable) => values[variable] ?? variable);
}
