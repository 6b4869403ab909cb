import { larger, noMoney, type PicoUsd } from "../core/money.ts";
import { chartBar, isUnicode } from "./bars.ts";
import { bold, styled, visible, type Io } from "./io.ts";

export interface Column {
  readonly title: string;
  /** Aligns figures to the right. */
  readonly align?: "right";
  /** Drops the column or cuts its texts on a terminal that is too narrow. */
  readonly narrow?: "drop" | "cut";
}

export type TableCell = string | number | null;

/**
 * Values of the bars to the right of a table, one for each of the first rows. Each bar is drawn relative to the largest value.
 */
export type Chart = readonly PicoUsd[];

/** Number of spaces between columns. */
const gap = 2;
/** Smallest width of a cut column, in characters. */
const cutWidthMin = 8;

/** Widths of a chart in characters. Narrower bars cannot be compared; wider bars add nothing. */
const chartWidths = { min: 6, max: 30 };

/** Returns a column of figures. */
export const figures = (title: string): Column => ({ title, align: "right" });

/** Prints a table, aligned under bold titles on a terminal and tab-separated elsewhere. Shows null as a dash. */
export function printTable(
  io: Io,
  titled: readonly (string | Column)[],
  rows: readonly (readonly TableCell[])[],
  chart: Chart = [],
): void {
  const columns = titled.map((column) => (typeof column === "string" ? { title: column } : column));
  const titles = columns.map(({ title }) => title);
  const body = rows.map((row) => row.map((cell) => (cell === null ? "-" : visible(String(cell)))));
  if (!io.isTTY) {
    for (const line of [titles, ...body]) io.stdout.write(`${line.join("\t")}\n`);
    return;
  }
  const shown = fitted(columns, [titles, ...body], io.columns ?? 80);
  const widths = shown.map(({ width }) => width);
  const aligned = (line: readonly string[]) =>
    shown.map(({ index, align, width }) => {
      const text = cut(line[index] ?? "", width);
      return align === "right" ? text.padStart(width) : text.padEnd(width);
    });
  io.stdout.write(`${bold(io, aligned(titles).join("  ").trimEnd())}\n`);
  const bars = barsOf(
    io,
    chart,
    widths.reduce((total, width) => total + width + gap, 0),
  );
  for (const [index, line] of body.entries()) {
    const bar = bars[index] ?? "";
    io.stdout.write(
      `${bar === "" ? aligned(line).join("  ").trimEnd() : `${aligned(line).join("  ")}  ${styled(io, "cyan", bar)}`}\n`,
    );
  }
}

type CellOf<R> = (row: R) => TableCell;
type RowColumn<R> = CellOf<R> | (Omit<Column, "title"> & { readonly cell: CellOf<R> });
/** Columns by their titles. */
export type RowColumns<R> = Readonly<Record<string, RowColumn<R>>>;

/** Returns a column of figures for `printRows`. */
export function right<R>(cell: CellOf<R>, more: Pick<Column, "narrow"> = {}) {
  return { ...more, align: "right", cell } as const;
}

/** Prints a table with one row for each item. */
export function printRows<R>(io: Io, rows: readonly R[], columns: RowColumns<R>, chart: Chart = []): void {
  const shown = Object.entries(columns).map(([title, column]) =>
    typeof column === "function" ? { title, cell: column } : { title, ...column },
  );
  printTable(
    io,
    shown,
    rows.map((row) => shown.map(({ cell }) => cell(row))),
    chart,
  );
}

interface ShownColumn extends Column {
  readonly index: number;
  readonly width: number;
}

/** Fits columns into a terminal's width: first drops columns, the last one first, then cuts texts. */
function fitted(columns: readonly Column[], lines: readonly (readonly string[])[], room: number): ShownColumn[] {
  let shown = columns.map((column, index) => ({
    ...column,
    index,
    width: Math.max(...lines.map((line) => line[index]?.length ?? 0)),
  }));
  const over = () => shown.reduce((total, { width }) => total + width + gap, -gap) - room;
  for (;;) {
    const dropped = over() > 0 ? shown.findLast(({ narrow }) => narrow === "drop") : undefined;
    if (dropped === undefined) break;
    shown = shown.filter((column) => column !== dropped);
  }
  for (const column of shown.filter(({ narrow }) => narrow === "cut").toSorted((a, b) => b.width - a.width)) {
    column.width -= Math.max(0, Math.min(over(), column.width - cutWidthMin));
  }
  return shown;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

function barsOf(io: Io, chart: Chart, tableWidth: number): string[] {
  const width = Math.min(chartWidths.max, (io.columns ?? 80) - tableWidth);
  const widest = chart.reduce(larger, noMoney);
  // A single bar would always be as wide as the chart.
  if (chart.length < 2 || width < chartWidths.min) return [];
  return chart.map((part) => chartBar(part, widest, width, isUnicode(io.env)));
}

export type Field = readonly [name: string, value: TableCell | boolean];

/** Prints the names and values of one object, one pair per line. */
export function printFields(io: Io, fields: readonly Field[]): void {
  const width = io.isTTY ? Math.max(...fields.map(([name]) => name.length)) : 0;
  const gap = io.isTTY ? "  " : "\t";
  for (const [name, value] of fields) {
    io.stdout.write(`${visible(name).padEnd(width)}${gap}${value === null ? "-" : visible(String(value))}\n`);
  }
}
