import { sources } from "../core/charge.ts";
import { tokenClasses } from "../core/usage.ts";
import type { DimensionsJson, FiguresJson, ReportJson, ReportRowJson } from "./shapes/figures.ts";
import type { WhatIfJson } from "./shapes/commands.ts";

export type Cell = string | number | boolean | null;

/** Formats rows as CSV (RFC 4180) that is safe to open in a spreadsheet. */
export function csvOf(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/**
 * Formats a cell. Adds an apostrophe to a text that a spreadsheet would run as a formula, including one with full-width
 * signs. Does not change numbers.
 */
function csvCell(cell: Cell): string {
  const text = cell === null ? "" : String(cell);
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  const safe = !isNumber && /^\s*[=+\-@|%＝＋－＠]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Title of a column, and a function that returns the column's cell in a row. */
export type CsvColumn<R> = readonly [title: string, cell: (row: R) => Cell];

type FieldOf<R> = { [Name in keyof R & string]: R[Name] extends Cell ? Name : never }[keyof R & string];

/** Returns a function that creates a column for each of the named fields. A column's title is the name of its field. */
export function fieldColumns<R>() {
  return (...names: readonly FieldOf<R>[]): CsvColumn<R>[] => names.map((name) => [name, (row) => row[name] as Cell]);
}

/** Returns the titles of the columns as CSV. */
export function csvHeader<R>(columns: readonly CsvColumn<R>[]): string {
  return csvOf([columns.map(([title]) => title)]);
}

export function csvRows<R>(columns: readonly CsvColumn<R>[], rows: readonly R[]): string {
  return csvOf(rows.map((row) => columns.map(([, cell]) => cell(row))));
}

/** Formats the report's rows as CSV, with one column for each token class and one for each source. */
export function reportCsv({ by, rows }: ReportJson): string {
  const columns: CsvColumn<ReportRowJson>[] = [
    ...reportColumns(by),
    ["refused_requests", (row) => row.refused_requests],
  ];
  return csvHeader(columns) + csvRows(columns, rows);
}

/** Formats a report as CSV like `reportCsv`. The last columns contain each row's cost under other prices. */
export function whatIfCsv({ by, rows }: WhatIfJson): string {
  const columns: CsvColumn<WhatIfJson["rows"][number]>[] = [
    ...reportColumns(by),
    ["what_if_cost_usd", ({ what_if }) => what_if.cost_usd],
    ["what_if_list_cost_usd", ({ what_if }) => what_if.list_cost_usd],
    ["difference_usd", ({ what_if }) => what_if.difference_usd],
    ["not_recomputed_requests", ({ what_if }) => what_if.not_recomputed.requests],
    ["not_recomputed_cost_usd", ({ what_if }) => what_if.not_recomputed.cost_usd],
  ];
  return csvHeader(columns) + csvRows(columns, rows);
}

const figure = fieldColumns<FiguresJson>();

function reportColumns(by: ReportJson["by"]): CsvColumn<DimensionsJson & FiguresJson>[] {
  return [
    ...by.map((name): CsvColumn<DimensionsJson & FiguresJson> => [name, (row) => row[name] ?? null]),
    ...figure("requests"),
    ...tokenClasses.map((name): CsvColumn<FiguresJson> => [`${name}_tokens`, ({ tokens }) => tokens[name]]),
    ...figure("cost_usd", "list_cost_usd", "saving_usd"),
    ...sources.map((source): CsvColumn<FiguresJson> => [
      `${source}_cost_usd`,
      ({ by_source }) => by_source[source]?.cost_usd ?? "0.00",
    ]),
    ...figure("unpriced_requests", "retries", "cost_in_doubt_usd"),
  ];
}
