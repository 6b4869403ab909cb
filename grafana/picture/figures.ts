import type { PanelFile } from "../read.ts";
import { colourAt, namedSeries, newest, type PanelResults } from "./results.ts";
import { colours, fitted, rectangle, text, widthOf } from "./svg.ts";
import { withUnit } from "./units.ts";

/** Draws one large figure. */
export function drawFigure(panel: PanelFile, results: PanelResults, width: number, height: number): string {
  const { unit, decimals, noValue = "No data", mappings = [] } = panel.fieldConfig.defaults;
  const [first] = namedSeries(panel, results);
  const value = first === undefined ? null : newest(first);
  const words =
    value === null ? noValue : (mappings[0]?.options[String(value)]?.text ?? withUnit(value, unit, decimals));
  const fill = (value === null ? null : colours.named[colourAt(panel, value)]) ?? colours.text;
  const size = Math.min(34, (width - 24) / (words.length * 0.62));
  return text(width / 2, height / 2 + size / 3 - 4, words, { size, fill, bold: true, anchor: "middle" });
}

const rowSize = 11.5;

/** Draws one bar for each series. The bars range from 0 to the panel's maximum or the largest value. */
export function drawBars(panel: PanelFile, results: PanelResults, width: number, height: number): string {
  const { unit, decimals, max } = panel.fieldConfig.defaults;
  const series = namedSeries(panel, results).map((each) => ({ name: each.name, value: newest(each) ?? 0 }));
  const step = Math.min(34, (height - 8) / Math.max(1, series.length));
  const nameWidth = Math.min(width * 0.42, Math.max(0, ...series.map(({ name }) => widthOf(name, rowSize))) + 8);
  const values = series.map(({ value }) => withUnit(value, unit, decimals));
  const valueWidth = Math.max(0, ...values.map((words) => widthOf(words, rowSize))) + 14;
  const room = width - nameWidth - valueWidth - 20;
  const largest = max ?? Math.max(Number.MIN_VALUE, ...series.map(({ value }) => value));
  return series
    .flatMap(({ name, value }, index) => {
      const y = 4 + index * step;
      const bar = Math.max(4, step - 9);
      const fill = colours.named[colourAt(panel, value)] ?? colours.text;
      const baseline = y + bar / 2 + 4;
      return [
        text(nameWidth + 4, baseline, fitted(name, rowSize, nameWidth), { size: rowSize, anchor: "end" }),
        rectangle(nameWidth + 12, y, room, bar, colours.track, { rx: 2 }),
        rectangle(nameWidth + 12, y, room * Math.min(1, Math.max(0, value / largest)), bar, fill, {
          rx: 2,
          "fill-opacity": 0.85,
        }),
        text(width - 8, baseline, values[index] ?? "", { size: rowSize, fill, anchor: "end" }),
      ];
    })
    .join("");
}

/** Draws a table with one row for each set of labels, and one column for each query. */
export function drawTable(panel: PanelFile, results: PanelResults, width: number, height: number): string {
  const { unit, decimals } = panel.fieldConfig.defaults;
  const renamed = panel.transformations?.find(({ id }) => id === "organize")?.options.renameByName ?? {};
  const labels = Object.keys(renamed).filter((name) => !name.startsWith("Value #"));
  const titles = [
    ...labels.map((name) => renamed[name] ?? name),
    ...panel.targets.map(({ legendFormat }) => legendFormat),
  ];
  const identity = (row: Readonly<Record<string, string>>) => labels.map((label) => row[label] ?? "");
  const rows = new Map<string, string[]>();
  for (const [column, series] of results.entries()) {
    for (const each of series) {
      const id = identity(each.labels).join("\n");
      const row = rows.get(id) ?? [...identity(each.labels), ...panel.targets.map(() => "–")];
      const value = newest(each);
      if (value !== null) row[labels.length + column] = withUnit(value, unit, decimals);
      rows.set(id, row);
    }
  }
  const step = Math.min(30, height / (rows.size + 1));
  const left = (column: number) =>
    column === 0 ? 14 : width * 0.3 + ((column - 1) * (width * 0.7)) / (titles.length - 1);
  const line = (cells: readonly string[], index: number) => [
    ...cells.map((cell, column) =>
      text(left(column), (index + 0.65) * step, fitted(cell, rowSize, width * 0.28), {
        size: rowSize,
        bold: index === 0,
        fill: index === 0 ? (colours.named["blue"] ?? colours.text) : colours.text,
      }),
    ),
    rectangle(8, (index + 1) * step - 1, width - 16, 1, colours.grid),
  ];
  return [titles, ...rows.values()].flatMap(line).join("");
}
