import type { Builder } from "@grafana/grafana-foundation-sdk/cog";
import * as bars from "@grafana/grafana-foundation-sdk/bargauge";
import * as common from "@grafana/grafana-foundation-sdk/common";
import * as dashboards from "@grafana/grafana-foundation-sdk/dashboard";
import * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import * as stat from "@grafana/grafana-foundation-sdk/stat";
import * as table from "@grafana/grafana-foundation-sdk/table";
import * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";

/** Data source that the dashboard's first variable chooses. */
export const chosenSource: common.DataSourceRef = { type: "prometheus", uid: "${datasource}" };

/** Units that the dashboards use, by Grafana's names. */
export type Unit =
  | "currencyUSD"
  | "percentunit"
  | "short"
  | "reqps"
  | "ops"
  | "s"
  | "bytes"
  | "string"
  | "suffix: tok/s"
  | "suffix: /min";

/** Color thresholds: a value is red from `red` on. If high values are good, the order is reversed. */
export interface Limits {
  readonly yellow: number;
  readonly red: number;
  readonly goodWhen?: "low" | "high";
}

/** Query of a panel, and a template that names its series from labels. */
export type Query = readonly [expression: string, legend: string];

export interface PanelOptions {
  readonly title: string;
  /** Description in a sentence or two. */
  readonly description: string;
  readonly unit: Unit;
  readonly queries: readonly Query[];
  readonly decimals?: number;
  readonly limits?: Limits;
  /** Text instead of "No data" if no data is normal. */
  readonly noValue?: string;
  /** Bounds of an axis or bar. */
  readonly max?: number;
}

/** Panel without its position. `width` is in columns of the grid, which has 24; `height` is in rows. */
export type Panel = (place: {
  readonly id: number;
  readonly width: number;
  readonly height: number;
}) => Builder<dashboards.Panel>;

type Place = Parameters<Panel>[0];
type AnyPanel = stat.PanelBuilder | bars.PanelBuilder | table.PanelBuilder | timeseries.PanelBuilder;

/** Applies the options that all panels share. */
export function dressed<Kind extends AnyPanel>(
  panel: Kind,
  wish: Omit<PanelOptions, "queries">,
  place: Place,
  source = chosenSource,
): Kind {
  panel.id(place.id).title(wish.title).description(wish.description).unit(wish.unit).datasource(source);
  panel.height(place.height).span(place.width);
  if (wish.decimals !== undefined) panel.decimals(wish.decimals);
  if (wish.noValue !== undefined) panel.noValue(wish.noValue);
  if (wish.max !== undefined) panel.min(0).max(wish.max);
  return panel;
}

const query = ([expression, legend]: Query, index: number) =>
  new prometheus.DataqueryBuilder()
    .refId(String.fromCodePoint(65 + index))
    .datasource(chosenSource)
    .editorMode(prometheus.QueryEditorMode.Code)
    .expr(expression)
    .legendFormat(legend);

const now = (wish: PanelOptions) => wish.queries.map((each, index) => query(each, index).instant());

const newest = () => new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]);

function steps(limits: Limits | undefined): dashboards.ThresholdsConfigBuilder {
  const config = new dashboards.ThresholdsConfigBuilder().mode(dashboards.ThresholdsMode.Absolute);
  if (limits === undefined) return config.steps([{ value: null, color: "blue" }]);
  const { yellow, red, goodWhen = "low" } = limits;
  return goodWhen === "low"
    ? config.steps([
        { value: null, color: "green" },
        { value: yellow, color: "yellow" },
        { value: red, color: "red" },
      ])
    : config.steps([
        { value: null, color: "red" },
        { value: red, color: "yellow" },
        { value: yellow, color: "green" },
      ]);
}

const byThresholds = () => new dashboards.FieldColorBuilder().mode(dashboards.FieldColorModeId.Thresholds);

/** Builds a panel with one current figure. */
export const figure =
  (wish: PanelOptions & { readonly words?: Readonly<Record<string, string>> }): Panel =>
  (place) =>
    dressed(new stat.PanelBuilder(), wish, place)
      .targets(now(wish))
      .reduceOptions(newest())
      .graphMode(common.BigValueGraphMode.None)
      .colorScheme(byThresholds())
      .thresholds(steps(wish.limits))
      .mappings(wish.words === undefined ? [] : [wordsFor(wish.words)]);

const wordsFor = (words: Readonly<Record<string, string>>): dashboards.ValueMap => ({
  type: dashboards.MappingType.ValueToText,
  options: Object.fromEntries(Object.entries(words).map(([value, text], index) => [value, { text, index }])),
});

/** Builds a panel with one bar for each series, with current values or sums over the time range. */
export const barFor =
  (wish: PanelOptions): Panel =>
  (place) =>
    dressed(new bars.PanelBuilder(), wish, place)
      .targets(now(wish))
      .reduceOptions(newest())
      .orientation(common.VizOrientation.Horizontal)
      .displayMode(common.BarGaugeDisplayMode.Basic)
      .valueMode(common.BarGaugeValueMode.Text)
      .namePlacement(common.BarGaugeNamePlacement.Left)
      .min(0)
      .colorScheme(byThresholds())
      .thresholds(steps(wish.limits));

const legendBelow = () =>
  new common.VizLegendOptionsBuilder()
    .displayMode(common.LegendDisplayMode.List)
    .placement(common.LegendPlacement.Bottom)
    .showLegend(true)
    .calcs([]);

const everyValue = () =>
  new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending);

/**
 * Builds a chart of lines over time. `stacked`: the lines are parts of a whole. `exemplars`: single requests appear as points with
 * their ids. `since`: length of the panel's own time range, such as "31d", instead of the dashboard's range.
 */
export const lines =
  (wish: PanelOptions & { readonly stacked?: true; readonly exemplars?: true; readonly since?: string }): Panel =>
  (place) => {
    const panel = dressed(new timeseries.PanelBuilder(), wish, place)
      .targets(
        wish.queries.map((each, index) =>
          query(each, index)
            .range()
            .exemplar(wish.exemplars === true && index === 0),
        ),
      )
      .lineWidth(wish.stacked ? 1 : 2)
      .fillOpacity(wish.stacked ? 60 : 0)
      .showPoints(common.VisibilityMode.Never)
      .axisSoftMin(0)
      .stacking(
        new common.StackingConfigBuilder()
          .group("A")
          .mode(wish.stacked ? common.StackingMode.Normal : common.StackingMode.None),
      )
      .legend(legendBelow())
      .tooltip(everyValue());
    return wish.since === undefined ? panel : panel.timeFrom(wish.since);
  };

/** Builds a chart with a stacked bar for each of the last 30 days. Ignores the dashboard's time range. */
export const dailyBars =
  (wish: PanelOptions): Panel =>
  (place) =>
    dressed(new timeseries.PanelBuilder(), wish, place)
      .targets(wish.queries.map((each, index) => query(each, index).range()))
      .timeFrom("30d")
      .interval("1d")
      .drawStyle(common.GraphDrawStyle.Bars)
      .lineWidth(1)
      .fillOpacity(60)
      .axisSoftMin(0)
      .stacking(new common.StackingConfigBuilder().group("A").mode(common.StackingMode.Normal))
      .legend(legendBelow())
      .tooltip(everyValue());

/** Builds a table with one row for each set of labels, and one column for each query. The query's legend is the column's title. */
export const rowFor =
  (wish: PanelOptions & { readonly columns: Readonly<Record<string, string>> }): Panel =>
  (place) =>
    dressed(new table.PanelBuilder(), wish, place)
      .targets(wish.queries.map((each, index) => query(each, index).instant().format(prometheus.PromQueryFormat.Table)))
      .withTransformation({ id: "merge", options: {} })
      .withTransformation({
        id: "organize",
        options: {
          excludeByName: { Time: true },
          indexByName: Object.fromEntries(
            [...Object.keys(wish.columns), ...valueColumns(wish)].map((name, index) => [name, index]),
          ),
          renameByName: {
            ...wish.columns,
            ...Object.fromEntries(valueColumns(wish).map((name, index) => [name, wish.queries[index]?.[1] ?? name])),
          },
        },
      });

/** Returns Grafana's names for the value columns after several tables are merged into one. */
const valueColumns = (wish: PanelOptions) =>
  wish.queries.map((_, index) => `Value #${String.fromCodePoint(65 + index)}`);
