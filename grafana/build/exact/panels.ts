import * as common from "@grafana/grafana-foundation-sdk/common";
import * as stat from "@grafana/grafana-foundation-sdk/stat";
import * as table from "@grafana/grafana-foundation-sdk/table";
import * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import { dressed, type Panel } from "../panels.ts";
import { chosen, type Dialect } from "./dialects.ts";

interface Wish {
  readonly title: string;
  readonly description: string;
  readonly sql: string;
  /** Text instead of "No data" if no data is normal. */
  readonly noValue?: string;
}

/** Shortest interval of charts: the ledger's sums are by quarter hour. */
const finest = "15m";

/** Builds a panel with one figure: an amount as exact text, or a count. */
export const figure =
  (dialect: Dialect, wish: Wish, unit: "string" | "short" = "string"): Panel =>
  (place) =>
    dressed(new stat.PanelBuilder(), { ...wish, unit }, place, chosen(dialect))
      .targets([dialect.query({ refId: "A", sql: wish.sql, shape: "table", times: [] })])
      // Grafana shows only numeric fields unless all are selected.
      .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]).fields("/.*/"))
      .graphMode(common.BigValueGraphMode.None)
      .textMode(common.BigValueTextMode.Value);

/** Builds a table of the query's rows. `times` are the columns with times. */
export const rows =
  (dialect: Dialect, wish: Wish, times: readonly string[] = []): Panel =>
  (place) =>
    dressed(new table.PanelBuilder(), { ...wish, unit: "string" }, place, chosen(dialect)).targets([
      dialect.query({ refId: "A", sql: wish.sql, shape: "table", times }),
    ]);

/** Builds a stacked chart of amounts in each interval. `label` is the column with the names of the series. */
export const bars =
  (dialect: Dialect, wish: Wish, label: string): Panel =>
  (place) =>
    dressed(new timeseries.PanelBuilder(), { ...wish, unit: "currencyUSD" }, place, chosen(dialect))
      .targets([dialect.query({ refId: "A", sql: wish.sql, shape: "series", times: ["time"] })])
      .interval(finest)
      .displayName(`\${__field.labels.${label}}`)
      .drawStyle(common.GraphDrawStyle.Bars)
      .fillOpacity(60)
      .lineWidth(1)
      .axisSoftMin(0)
      .stacking(new common.StackingConfigBuilder().group("A").mode(common.StackingMode.Normal));
