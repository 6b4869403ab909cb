import { larger, noMoney, type PicoUsd } from "../core/money.ts";
import { chartBar, isUtf8Locale } from "./bars.ts";
import { bold, styled, withoutControls, type Io } from "./io.ts";

interface ColumnStyle {
  /** Aligns figures to the right. */
  readonly align?: "right";
  /**
   * Change of the column on a terminal that is too narrow. `drop` drops the column, and `cut` cuts its texts. `last`
   * drops the column if the other changes are not enough.
   */
  readonly narrow?: "drop" | "cut" | "last";
}

export interface Column extends ColumnStyle {
  readonly title: string;
}

type TableCell = string | number | null;
type CellOf<R> = (row: R) => TableCell;
type RowColumn<R> = CellOf<R> | (ColumnStyle & { readonly cell: CellOf<R> });
/** Columns by their titles. */
export type RowColumns<R> = Readonly<Record<string, RowColumn<R>>>;

/**
 * Values of the bars to the right of a table. Value n belongs to row n; rows without a value have no bar. Each bar is
 * drawn relative to the largest value.
 */
type Chart = readonly PicoUsd[];

/** Number of spaces between columns. */
const gap = 2;
/** Smallest width of a cut column, in characters. */
const cutWidthMin = 8;

/** Widths of a chart in characters. Narrower bars cannot be compared; wider bars add nothing. */
const chartWidths = { min: 6, max: 30 };

/** Returns columns that show fields of the rows under the names of the fields. */
export function fieldColumns<const N extends string>(...names: readonly N[]) {
  const columns = names.map((name) => [name, (row: Readonly<Record<N, TableCell>>) => row[name]] as const);
  return Object.fromEntries(columns) as { readonly [Name in N]: CellOf<Readonly<Record<Name, TableCell>>> };
}

/** Returns a column that is aligned to the right, for figures. */
export function right<R>(cell: CellOf<R>, more: Pick<Column, "narrow"> = {}) {
  return { ...more, align: "right", cell } as const;
}

/**
 * Prints a table with one line for each row. On a terminal, the columns are aligned under bold titles. Elsewhere, tabs
 * separate the cells. Shows null as a dash.
 */
export function printRows<R>(io: Io, rows: readonly R[], columns: RowColumns<R>, chart: Chart = []): void {
  const titled = Object.entries(columns).map(([title, column]) =>
    typeof column === "function" ? { title, cell: column } : { title, ...column },
  );
  const body = rows.map((row) => titled.map(({ cell }) => cellText(cell(row))));
  if (!io.isTTY) {
    for (const line of [titled.map(({ title }) => title), ...body]) io.stdout.write(`${line.join("\t")}\n`);
    return;
  }
  const shown = fitted(titled, body, io.columns ?? 80);
  io.stdout.write(`${bold(io, headingOf(shown))}\n`);
  const bars = barsOf(io, chart, widthOf(shown));
  for (const [index, line] of body.entries()) {
    const bar = bars[index] ?? "";
    const text = aligned(shown, line);
    io.stdout.write(`${bar === "" ? text.trimEnd() : `${text}  ${styled(io, "cyan", bar)}`}\n`);
  }
}

/** Returns the text of a time in a table. On a terminal it has no milliseconds. */
export function timeText<T extends string | null>(io: Io, time: T): T | string {
  return time === null || !io.isTTY ? time : time.replace(/\.\d+Z$/, "Z");
}

/** Returns the text of a value in a table or a list; a dash for null. */
export function cellText(value: TableCell | boolean): string {
  return value === null ? "-" : withoutControls(String(value));
}

/** Column of a table after the table was fitted into a width. */
export interface ShownColumn extends Column {
  /** Index of the column among all columns of the table, including those that are not shown. */
  readonly index: number;
  readonly width: number;
}

/**
 * Fits columns with their titles into a width. Drops columns marked `drop`, the rightmost first, then cuts those marked
 * `cut`, the widest first. If that is not enough, drops columns marked `last`.
 */
export function fitted(
  columns: readonly Column[],
  lines: readonly (readonly string[])[],
  widthMax: number,
): ShownColumn[] {
  let shown: readonly ShownColumn[] = columns.map((column, index) => ({
    ...column,
    index,
    width: Math.max(column.title.length, ...lines.map((line) => line[index]?.length ?? 0)),
  }));
  const excess = (of: readonly ShownColumn[]) => widthOf(of) - gap - widthMax;
  for (const mark of ["drop", "last"] as const) {
    for (;;) {
      const isWide = excess(mark === "drop" ? shown : cutTo(shown, excess)) > 0;
      const dropped = isWide ? shown.findLast(({ narrow }) => narrow === mark) : undefined;
      if (dropped === undefined) break;
      shown = shown.filter((column) => column !== dropped);
    }
  }
  return cutTo(shown, excess);
}

/**
 * Returns copies of the columns. Columns marked `cut` become narrower, the widest first, until the table fits. `excess`
 * returns the number of characters by which columns are too wide.
 */
function cutTo(columns: readonly ShownColumn[], excess: (of: readonly ShownColumn[]) => number): ShownColumn[] {
  const shown = columns.map((column) => ({ ...column }));
  for (const column of shown.filter(({ narrow }) => narrow === "cut").toSorted((a, b) => b.width - a.width)) {
    column.width -= Math.max(0, Math.min(excess(shown), column.width - cutWidthMin));
  }
  return shown;
}

/** Returns the total width of these columns, including the gap after each. */
export function widthOf(shown: readonly ShownColumn[]): number {
  return shown.reduce((total, { width }) => total + width + gap, 0);
}

/** Returns the titles of these columns as one line. */
export function headingOf(shown: readonly ShownColumn[]): string {
  return shown
    .map((column) => padded(column.title, column))
    .join(" ".repeat(gap))
    .trimEnd();
}

/** Returns the cells of these columns as one line. */
export function aligned(shown: readonly ShownColumn[], cells: readonly string[]): string {
  return shown.map((column) => padded(cells[column.index] ?? "", column)).join(" ".repeat(gap));
}

function padded(text: string, { width, align }: ShownColumn): string {
  return align === "right" ? cut(text, width).padStart(width) : cut(text, width).padEnd(width);
}

/** Cuts a text to a width. A cut text ends with an ellipsis. */
export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`.slice(0, Math.max(0, width));
}

function barsOf(io: Io, chart: Chart, tableWidth: number): string[] {
  const width = Math.min(chartWidths.max, (io.columns ?? 80) - tableWidth);
  const widest = chart.reduce(larger, noMoney);
  // A single bar would always be as wide as the chart.
  if (chart.length < 2 || width < chartWidths.min) return [];
  return chart.map((part) => chartBar(part, widest, width, isUtf8Locale(io.env)));
}

export type Field = readonly [name: string, value: TableCell | boolean];

/** Prints the names and values of one object, one pair per line. */
export function printFields(io: Io, fields: readonly Field[]): void {
  const width = io.isTTY ? Math.max(...fields.map(([name]) => name.length)) : 0;
  const separator = io.isTTY ? "  " : "\t";
  for (const [name, value] of fields) {
    io.stdout.write(`${withoutControls(name).padEnd(width)}${separator}${cellText(value)}\n`);
  }
}
