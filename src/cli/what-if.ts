import { completionTotal, promptTotal } from "../core/usage.ts";
import type { NotRecomputed } from "../core/what-if.ts";
import type { ReportQuery } from "../ports/ledger.ts";
import { whatIfCsv } from "../reporting/csv.ts";
import { keyNames } from "../reporting/names.ts";
import type { FiguresJson, ReportJson, DimensionsJson } from "../reporting/shapes/figures.ts";
import { runWhatIf } from "../reporting/what-if.ts";
import type { LeftoversJson, WhatIfJson } from "../reporting/shapes/commands.ts";
import type { PriceChoice } from "../server/price-folders.ts";
import { loadPrices } from "./price-files.ts";
import { hasNoPrice } from "./amounts.ts";
import { note, printJson, printText, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { progress } from "./progress.ts";
import { printRows, right, type Column, type RowColumns } from "./table.ts";
import type { LedgerTools } from "./tools.ts";

export type ReportFormat = "table" | "csv" | "json";

/** Word that selects the shipped prices and the preset alone. Write `./shipped` for a folder of that name. */
const shippedWord = "shipped";

/** Returns the price files to read: those of the folder after the shipped ones and the preset, or none for `shipped`. */
export function pricesNamed(word: string, { preset }: PriceChoice): PriceChoice {
  return { preset, folder: word === shippedWord ? null : word };
}

/** Selects and orders the rows to show. */
export type ShownRows = <R extends FiguresJson>(rows: readonly R[]) => R[];

/** Runs `report --what-if FOLDER`: recomputes the report's charges with the shipped prices and those of the folder. */
export async function reportWhatIf(
  { io, prices, ledger, keys, settings }: LedgerTools,
  query: ReportQuery,
  how: { readonly folder: string; readonly format: ReportFormat; readonly shown: ShownRows },
): Promise<CommandFailure | 0> {
  const loading = await loadPrices(prices, pricesNamed(how.folder, settings.pricing));
  if (!loading.ok) return commandFailure(loading.faults);
  const nameOf = await keyNames(keys);
  const bar = progress(io, "recomputed", how.format !== "json");
  const all = await runWhatIf({ ledger, nameOf, catalogue: loading.catalogue }, query, bar.show);
  bar.hide();
  const report = { ...all, rows: how.shown(all.rows) };
  if (how.format === "json") printJson(io, report);
  else if (how.format === "csv") printText(io, whatIfCsv(report));
  else printWhatIf(io, report);
  if (how.format !== "json") noteLeftovers(io, report);
  return 0;
}

function printWhatIf(io: Io, report: WhatIfJson): void {
  printRows<WhatIfJson["total"]>(io, [...report.rows, report.total], {
    ...dimensionColumns(report),
    requests: right(({ requests }) => requests),
    "input tokens": right(({ tokens }) => promptTotal(tokens)),
    "output tokens": right(({ tokens }) => completionTotal(tokens)),
    cost: right((row) => (hasNoPrice(row) ? "-" : row.cost_usd)),
    "what-if cost": right((row) => (staysUnpriced(row) ? "-" : row.what_if.cost_usd)),
    difference: right((row) => (staysUnpriced(row) ? "-" : row.what_if.difference_usd)),
  });
  if (io.isTTY) note(io, `USD, ${report.since} to ${report.until}`);
}

/** Returns true if none of a row's requests has a price under either prices. */
function staysUnpriced(row: WhatIfJson["total"]): boolean {
  return hasNoPrice(row) && row.what_if.not_recomputed.requests === row.requests;
}

/** Returns columns for the dimensions of a report. The first column labels the total row. */
export function dimensionColumns(
  { by, total }: Pick<ReportJson, "by"> & { readonly total: FiguresJson },
  more: Pick<Column, "narrow"> = {},
): RowColumns<FiguresJson> {
  return Object.fromEntries(
    by.map((name, index) => {
      const cell = (row: DimensionsJson) => (row === total ? (index === 0 ? "total" : "") : (row[name] ?? null));
      return [name, { ...more, cell }];
    }),
  );
}

const reasons: Readonly<Record<NotRecomputed, string>> = {
  assumed: "the whole hold was charged, so their tokens are unknown",
  no_usage: "no usage is known",
  task: "tasks, whose amount does not follow from tokens",
  adjustment: "corrections and pruned charges",
  unknown_model: "these prices do not include their model",
  no_price: "these prices have no price for their model at the time of the request",
  too_large: "the cost would exceed the largest possible amount",
};

/**
 * Prints notes on charges that kept their stored amount, and on charges that had no price before. `suffix` names the
 * prices that were used, such as " under A".
 */
export function noteLeftovers(io: Io, { not_recomputed, newly_priced }: LeftoversJson, suffix = ""): void {
  for (const [reason, left] of Object.entries(not_recomputed.by_reason)) {
    note(
      io,
      `not recomputed${suffix}: USD ${left.cost_usd} of ${left.requests} requests (${reasons[reason as NotRecomputed]})`,
    );
  }
  if (newly_priced.requests > 0) {
    note(
      io,
      `newly priced${suffix}: USD ${newly_priced.cost_usd} of ${newly_priced.requests} requests (they had no price when they were charged)`,
    );
  }
}
