import { sources } from "../core/charge.ts";
import { tokenClasses } from "../core/usage.ts";
import type { ReportJson, ReportRowJson } from "./shapes/figures.ts";
import type { WhatIfReport } from "./what-if.ts";

export type Cell = string | number | boolean | null;

/** Formats rows as CSV (RFC 4180) that is safe to open in a spreadsheet. */
export function csvOf(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/**
 * Puts an apostrophe before a cell that a spreadsheet would run as a formula, also one with full-width signs. Numbers stay
 * as they are.
 */
function csvCell(cell: Cell): string {
  const text = cell === null ? "" : String(cell);
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  const safe = !isNumber && /^\s*[=+\-@|%＝＋－＠]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Title of a column, and a function that returns its cell in a row. */
export type CsvColumn<R> = readonly [title: string, cell: (row: R) => Cell];

/** Returns the titles of the columns as CSV. */
export function csvHeader<R>(columns: readonly CsvColumn<R>[]): string {
  return csvOf([columns.map(([title]) => title)]);
}

export function csvRows<R>(columns: readonly CsvColumn<R>[], rows: readonly R[]): string {
  return csvOf(rows.map((row) => columns.map(([, cell]) => cell(row))));
}

/** Formats the report's rows as CSV, with one column for each token class and one for each source. */
export function reportCsv({ by, rows }: ReportJson): string {
  const columns = reportColumns(by);
  return csvHeader(columns) + csvRows(columns, rows);
}

/** Formats a report as CSV like `reportCsv`. The last columns contain each row's cost under other prices. */
export function whatIfCsv({ by, rows }: WhatIfReport): string {
  const columns: CsvColumn<WhatIfReport["rows"][number]>[] = [
    ...reportColumns(by),
    ["what_if_cost_usd", ({ what_if }) => what_if.cost_usd],
    ["what_if_list_cost_usd", ({ what_if }) => what_if.list_cost_usd],
    ["difference_usd", ({ what_if }) => what_if.difference_usd],
    ["not_recomputed_requests", ({ what_if }) => what_if.not_recomputed.requests],
    ["not_recomputed_cost_usd", ({ what_if }) => what_if.not_recomputed.cost_usd],
  ];
  return csvHeader(columns) + csvRows(columns, rows);
}

function reportColumns(by: ReportJson["by"]): CsvColumn<ReportRowJson>[] {
  return [
    ...by.map((name): CsvColumn<ReportRowJson> => [name, (row) => row[name] ?? null]),
    ["requests", ({ requests }) => requests],
    ...tokenClasses.map((name): CsvColumn<ReportRowJson> => [`${name}_tokens`, ({ tokens }) => tokens[name]]),
    ["cost_usd", ({ cost_usd }) => cost_usd],
    ["list_cost_usd", ({ list_cost_usd }) => list_cost_usd],
    ["saving_usd", ({ saving_usd }) => saving_usd],
    ...sources.map((source): CsvColumn<ReportRowJson> => [
      `${source}_cost_usd`,
      ({ by_source }) => by_source[source]?.cost_usd ?? "0.00",
    ]),
    ["unpriced_requests", (row) => row.unpriced_requests],
    ["retries", ({ retries }) => retries],
    ["cost_in_doubt_usd", (row) => row.cost_in_doubt_usd],
  ];
}
