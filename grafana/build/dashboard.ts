import type { Builder } from "@grafana/grafana-foundation-sdk/cog";
import * as dashboards from "@grafana/grafana-foundation-sdk/dashboard";
import { chosenSource, type Panel } from "./panels.ts";

export interface DashboardWish {
  /** Stable id: links to the dashboard and imports over an older one use it. */
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  /** A span of time until now, as Grafana writes it. */
  readonly since: string;
  readonly rows: readonly Row[];
  /** Variables; by default data source, job and instance. */
  readonly variables?: readonly Builder<dashboards.VariableModel>[];
}

/** Panels side by side. `height` in rows of Grafana's grid, 30 pixels each; `widths` add up to 24 columns. */
export interface Row {
  readonly height: number;
  readonly panels: readonly (readonly [width: number, panel: Panel])[];
}

/** Panels of equal width. */
export const evenly = (height: number, ...panels: Panel[]): Row => ({
  height,
  panels: panels.map((panel) => [24 / panels.length, panel]),
});

/** A classic dashboard, ready for an import by hand and for provisioning alike. */
export function dashboardOf(wish: DashboardWish): dashboards.Dashboard {
  const builder = new dashboards.DashboardBuilder(wish.title)
    .id(null)
    .uid(wish.uid)
    .description(wish.description)
    .tags(["farebox"])
    .timezone("browser")
    .time({ from: wish.since, to: "now" })
    .refresh("1m")
    .tooltip(dashboards.DashboardCursorSync.Crosshair)
    .variables([
      ...(wish.variables ?? [
        sourceVariable("prometheus"),
        scraped("job", "farebox_build_info"),
        scraped("instance", 'farebox_build_info{job=~"$job"}'),
      ]),
    ])
    .link(
      new dashboards.DashboardLinkBuilder("Farebox")
        .type(dashboards.DashboardLinkType.Dashboards)
        .tags(["farebox"])
        .keepTime(true)
        .includeVars(true),
    );
  let id = 0;
  for (const { height, panels } of wish.rows) {
    for (const [width, panel] of panels) builder.withPanel(panel({ id: ++id, width, height }));
  }
  return builder.build();
}

/** Chooses among the data sources of a type. */
export const sourceVariable = (type: string) =>
  new dashboards.DatasourceVariableBuilder("datasource").label("Data source").type(type);

/** All values of a label that scraping gives. */
const scraped = (label: string, series: string) =>
  new dashboards.QueryVariableBuilder(label)
    .label(label)
    .datasource(chosenSource)
    .query(`label_values(${series}, ${label})`)
    .refresh(dashboards.VariableRefresh.OnTimeRangeChanged)
    .sort(dashboards.VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue(".+")
    .current({ selected: true, text: ["All"], value: ["$__all"] });
