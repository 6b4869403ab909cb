import type { Builder } from "@grafana/grafana-foundation-sdk/cog";
import * as dashboards from "@grafana/grafana-foundation-sdk/dashboard";
import { chosenSource, type Panel } from "./panels.ts";

export interface DashboardWish {
  /** Stable id. Links to the dashboard and imports over an older version use it. */
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  /** Start of the default time range, in Grafana's notation. */
  readonly since: string;
  readonly rows: readonly Row[];
  /** Further variables that filter panels, after data source, job and instance. */
  readonly filters?: readonly Filter[];
  /** Variables that replace all default variables and filters. */
  readonly variables?: readonly Builder<dashboards.VariableModel>[];
}

/** Labels by which users filter panels. Panels whose series do not have the label show everything. */
export type Filter = "team" | "key" | "model";

/** Series from which a filter takes the values of its label. The filter `key` offers only keys of the chosen teams. */
const filterSeries: Readonly<Record<Filter, string>> = {
  team: 'farebox_key_requests_total{job=~"$job"}',
  key: 'farebox_key_requests_total{job=~"$job", team=~"$team"}',
  model: 'farebox_requests_total{job=~"$job"}',
};

/** Panels side by side. `height` is in rows of Grafana's grid, 30 pixels each. The widths add up to 24 columns. */
export interface Row {
  readonly height: number;
  readonly panels: readonly (readonly [width: number, panel: Panel])[];
}

/** Returns a row of panels of equal width. */
export const evenly = (height: number, ...panels: Panel[]): Row => ({
  height,
  panels: panels.map((panel) => [24 / panels.length, panel]),
});

/** Builds a classic dashboard, which users can import by hand or provision. */
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
        ...(wish.filters ?? []).map((filter) => scraped(filter, filterSeries[filter], ".*")),
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

/** Returns a variable for the data source. The user chooses one of the sources of a type. */
export const sourceVariable = (type: string) =>
  new dashboards.DatasourceVariableBuilder("datasource").label("Data source").type(type);

/** Returns a variable with all values of a label. `all`: pattern of All; ".*" includes series without a value. */
const scraped = (label: string, series: string, all = ".+") =>
  new dashboards.QueryVariableBuilder(label)
    .label(label)
    .datasource(chosenSource)
    .query(`label_values(${series}, ${label})`)
    .refresh(dashboards.VariableRefresh.OnTimeRangeChanged)
    .sort(dashboards.VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue(all)
    .current({ selected: true, text: ["All"], value: ["$__all"] });
