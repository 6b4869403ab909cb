import { sources } from "../core/charge.ts";
import { tokenClasses } from "../core/usage.ts";
import type { ReportJson } from "./shapes/figures.ts";
import type { WhatIfReport } from "./what-if.ts";

export type Cell = string | number | boolean | null;

/** Rows as CSV (RFC 4180), safe to open in a spreadsheet. */
export function csvOf(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/** Puts an apostrophe before a cell that a spreadsheet would take for a formula, full-width signs included; numbers stay as they are. */
function csvCell(cell: Cell): string {
  const text = cell === null ? "" : String(cell);
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  const safe = !isNumber && /^\s*[=+\-@|%＝＋－＠]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The report's rows, one column a token class and one a source. */
export function reportCsv(report: ReportJson): string {
  return csvOf(reportCells(report));
}

/** With what other prices would have made of each row in the last columns. */
export function whatIfCsv(report: WhatIfReport): string {
  const titles = [
    "what_if_cost_usd",
    "what_if_list_cost_usd",
    "difference_usd",
    "not_recomputed_requests",
    "not_recomputed_cost_usd",
  ];
  const [header = [], ...rows] = reportCells(report);
  const more = report.rows.map(({ what_if }) => [
    what_if.cost_usd,
    what_if.list_cost_usd,
    what_if.difference_usd,
    what_if.not_recomputed.requests,
    what_if.not_recomputed.cost_usd,
  ]);
  return csvOf([[...header, ...titles], ...rows.map((row, index) => [...row, ...(more[index] ?? [])])]);
}

/** The titles, then the rows. */
function reportCells(report: Pick<ReportJson, "by" | "rows">): Cell[][] {
  const header = [
    ...report.by,
    "requests",
    ...tokenClasses.map((name) => `${name}_tokens`),
    "cost_usd",
    "list_cost_usd",
    "saving_usd",
    ...sources.map((source) => `${source}_cost_usd`),
    "unpriced_requests",
    "retries",
    "cost_in_doubt_usd",
  ];
  const rows = report.rows.map((row) => [
    ...report.by.map((name) => row[name] ?? null),
    row.requests,
    ...tokenClasses.map((name) => row.tokens[name]),
    row.cost_usd,
    row.list_cost_usd,
    row.saving_usd,
    ...sources.map((source) => row.by_source[source]?.cost_usd ?? "0.00"),
    row.unpriced_requests,
    row.retries,
    row.cost_in_doubt_usd,
  ]);
  return [header, ...rows];
}
