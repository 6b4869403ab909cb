import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Parts of a dashboard's committed file that pictures and tests need. */
export interface DashboardFile {
  /** The file's name without its ending. */
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
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: {
    readonly defaults: {
      readonly unit: string;
      readonly decimals?: number;
      readonly max?: number;
      readonly noValue?: string;
      readonly mappings?: readonly { readonly options: Readonly<Record<string, { readonly text: string }>> }[];
      readonly thresholds?: { readonly steps: readonly { readonly value: number | null; readonly color: string }[] };
      readonly custom?: { readonly stacking?: { readonly mode: string } };
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
  /** True for an instant query, false for one over the time range. */
  readonly instant?: boolean;
  readonly datasource: { readonly uid: string };
}

/** SQL query of a panel on the ledger's tables. */
export type SqlPanelFile = Omit<PanelFile, "targets"> & { readonly targets: readonly SqlTargetFile[] };
export type SqlDashboardFile = Omit<DashboardFile, "panels"> & { readonly panels: readonly SqlPanelFile[] };

export interface SqlTargetFile {
  /** For SQLite's data source, with the columns that hold times. */
  readonly queryText?: string;
  readonly timeColumns?: readonly string[];
  /** For PostgreSQL's. */
  readonly rawSql?: string;
  readonly datasource: { readonly uid: string };
}

/** The files of a folder, by path. */
function committed(folder: string) {
  const path = fileURLToPath(new URL(folder, import.meta.url));
  const files = globSync("**/*.json", { cwd: path }).toSorted();
  return files.map((file) => ({
    name: file.replace(/\.json$/, ""),
    ...JSON.parse(readFileSync(`${path}/${file}`, "utf8")),
  }));
}

/** The committed dashboards over Prometheus, by name. */
export const committedDashboards = (): DashboardFile[] => committed("dashboards");

/** Those over the ledger's tables. */
export const committedExact = (): SqlDashboardFile[] => committed("exact");

/** Builds the query that Grafana sends with all variables at All. Durations are in seconds. */
export function substituted(
  expression: string,
  { rangeS, stepS, scrapeS }: { readonly rangeS: number; readonly stepS: number; readonly scrapeS: number },
): string {
  const values: Readonly<Record<string, string>> = {
    $__rate_interval: `${Math.max(stepS + scrapeS, 4 * scrapeS)}s`,
    $__range: `${Math.ceil(rangeS)}s`,
    $job: ".+",
    $instance: ".+",
  };
  return expression.replaceAll(/\$\w+/g, (variable) => values[variable] ?? variable);
}
