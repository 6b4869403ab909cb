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
  /** Text if no data is normal. */
  readonly noValue?: string;
}

/** Quarter hours are the finest that the ledger's sums have. */
const finest = "15m";

/** One figure: an amount as exact text, or a count. */
export const figure =
  (dialect: Dialect, wish: Wish, unit: "string" | "short" = "string"): Panel =>
  (place) =>
    dressed(new stat.PanelBuilder(), { ...wish, unit }, place, chosen(dialect))
      .targets([dialect.query({ refId: "A", sql: wish.sql, shape: "table", times: [] })])
      // Grafana shows only numeric fields unless all are selected.
      .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]).fields("/.*/"))
      .graphMode(common.BigValueGraphMode.None)
      .textMode(common.BigValueTextMode.Value);

/** Rows as they come. `times` are columns that hold times. */
export const rows =
  (dialect: Dialect, wish: Wish, times: readonly string[] = []): Panel =>
  (place) =>
    dressed(new table.PanelBuilder(), { ...wish, unit: "string" }, place, chosen(dialect)).targets([
      dialect.query({ refId: "A", sql: wish.sql, shape: "table", times }),
    ]);

/** Amounts of each interval, stacked; `label` is the column that tells the series apart. */
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
