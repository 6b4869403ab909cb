import * as echarts from "echarts";
import type { PanelFile } from "../read.ts";
import { namedSeries, type Named, type PanelResults } from "./results.ts";
import { colours, fitted, font, placed, rectangle, text, widthOf } from "./svg.ts";
import { withUnit } from "./units.ts";

const legendSize = 11;
const legendLine = 17;

/** Draws lines over time, with a legend below. */
export function drawLines(panel: PanelFile, results: PanelResults, width: number, height: number): string {
  const series = namedSeries(panel, results);
  const legend = legendRows(
    series.map(({ name }) => name),
    width,
  );
  const chartHeight = height - legend.length * legendLine - 4;
  const drawn = legend.flatMap((row, line) =>
    row.flatMap(({ name, index, x }) => {
      const y = chartHeight + 4 + line * legendLine;
      return [
        rectangle(x, y + 5, 12, 4, colourOf(index), { rx: 2 }),
        text(x + 17, y + 11, name, { size: legendSize, fill: colours.faint }),
      ];
    }),
  );
  return [placed(0, 0, width, chartHeight, chart(panel, series, width, chartHeight)), ...drawn].join("");
}

const colourOf = (index: number) => colours.series[index % colours.series.length] ?? colours.text;

interface LegendEntry {
  readonly name: string;
  readonly index: number;
  readonly x: number;
}

/** Arranges the names of the legend in rows. */
function legendRows(names: readonly string[], width: number): LegendEntry[][] {
  const rows: LegendEntry[][] = [];
  let x = width;
  for (const [index, full] of names.entries()) {
    const name = fitted(full, legendSize, width / 2);
    const wide = widthOf(name, legendSize) + 32;
    if (x + wide > width) {
      rows.push([]);
      x = 10;
    }
    rows.at(-1)?.push({ name, index, x });
    x += wide;
  }
  return rows;
}

function chart(panel: PanelFile, series: readonly Named[], width: number, height: number): string {
  const { unit, custom } = panel.fieldConfig.defaults;
  const stacked = custom?.stacking?.mode === "normal";
  const drawing = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  const axisText = { color: colours.faint, fontFamily: font, fontSize: 10.5 };
  drawing.setOption({
    animation: false,
    useUTC: true,
    textStyle: { fontFamily: font },
    grid: { left: 12, right: 18, top: 10, bottom: 4, containLabel: true },
    xAxis: {
      type: "time",
      splitNumber: Math.max(2, Math.floor(width / 110)),
      axisLine: { lineStyle: { color: colours.border } },
      axisTick: { show: false },
      axisLabel: {
        ...axisText,
        hideOverlap: true,
        showMinLabel: false,
        showMaxLabel: false,
        formatter: hasDays(series) ? "  {d} {MMM}  " : "{HH}:{mm}",
      },
      splitLine: { show: false },
    },
    yAxis: {
      type: "value",
      splitNumber: Math.max(2, Math.floor(height / 45)),
      ...(unit === "bytes" && byteSteps(series)),
      axisLabel: { ...axisText, formatter: (value: number) => withUnit(value, unit) },
      splitLine: { lineStyle: { color: colours.grid } },
    },
    series: series.map(({ name, samples }, index) => ({
      name,
      ...(custom?.drawStyle === "bars"
        ? { type: "bar", barWidth: "70%" }
        : {
            type: "line",
            symbol: "none",
            lineStyle: { width: stacked ? 1 : 1.8, color: colourOf(index) },
            ...(stacked && { areaStyle: { opacity: 0.55 } }),
          }),
      silent: true,
      itemStyle: { color: colourOf(index) },
      ...(stacked && { stack: "all" }),
      data: samples.map(([at, value]) => [at * 1000, Number.isFinite(value) ? value : null]),
    })),
  });
  const svg = drawing.renderToSVGString();
  drawing.dispose();
  return svg;
}

/** Returns true if the series cover more than two days. Their axis then shows dates instead of times of day. */
function hasDays(series: readonly Named[]): boolean {
  const times = series.flatMap(({ samples }) => samples.map(([at]) => at));
  return Math.max(...times) - Math.min(...times) > 2 * 86_400;
}

/** Returns grid steps that are a power of two, because decimal steps are not round in MiB. */
function byteSteps(series: readonly Named[]): { interval: number; max: number } {
  const largest = Math.max(1, ...series.flatMap(({ samples }) => samples.map(([, value]) => value)));
  const interval = 2 ** Math.ceil(Math.log2(largest / 4));
  return { interval, max: Math.ceil(largest / interval) * interval };
}
