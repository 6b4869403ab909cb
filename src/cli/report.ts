import { formatUsd, noMoney, parseSignedUsd, type PicoUsd } from "../core/money.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { isOfCharges, reportDimensions, type ReportDimension } from "../ports/ledger.ts";
import { reportCsv } from "../reporting/csv.ts";
import { isoTime } from "../core/time.ts";
import { keyNames } from "../reporting/names.ts";
import { runReport } from "../reporting/report.ts";
import type { FiguresJson, ReportFiguresJson, ReportJson, ReportRowJson } from "../reporting/shapes/figures.ts";
import { counted, hasNoPrice, roundedUsd } from "./amounts.ts";
import { dimensionsArgument, readSpan, wholeNumberArgument } from "./arguments.ts";
import { command } from "./command.ts";
import { note, printJson, printText, type Io } from "./io.ts";
import { printRows, right, type RowColumns } from "./table.ts";
import { ledgerSettings } from "./tools.ts";
import { dimensionColumns, reportWhatIf, type ReportFormat, type ShownRows } from "./what-if.ts";

const orders = ["cost", "saving", "requests", "tokens", "name"] as const;
type Order = (typeof orders)[number];

export const commands = [
  command("report", {
    options: {
      by: {
        value: "<dimensions>",
        help: `dimensions of the rows: ${reportDimensions.join(", ")}, tag:NAME, label:NAME`,
        parse: dimensionsArgument,
        default: ["model"],
        defaultShown: "model",
      },
      since: {
        value: "<when>",
        help: "start of the time span: 24h, 7d, an ISO instant, or the beginning of today, yesterday, week, month, last-month or 2026-11-20",
        default: "7d",
      },
      until: { value: "<when>", help: "end of the time span, in the same formats (default: now)" },
      sort: {
        value: "<order>",
        help: "sort by this figure, largest first, or by name (default: cost; days and hours by time)",
        choices: orders,
      },
      top: {
        value: "<count>",
        help: "largest number of rows; the total includes all rows",
        parse: wholeNumberArgument(1, 1_000_000),
      },
      format: { value: "<format>", help: "output format", choices: ["table", "csv", "json"], default: "table" },
      json: { help: "same as --format json" },
      whatIf: {
        value: "<folder>",
        help: "also show the cost under the price files of this folder, read after the shipped ones and the preset; the word shipped means these alone",
      },
    },
    ledger: "read",
    // The preset is for --what-if.
    settings: [...ledgerSettings, "preset"],
    examples: [
      "farebox report --by key,model --since month --top 10",
      "farebox report --by tag:feature,day --since 2026-11-01 --format csv",
    ],
    run: async (tools, { by, sort, top, whatIf, ...options }) => {
      const span = readSpan(tools, options);
      if (!span.ok) return span;
      const query = { by, since: span.since, until: span.until };
      const format = options.json ? "json" : options.format;
      const shown: ShownRows = (rows) => sorted(rows, by, sort).slice(0, top);
      if (whatIf !== undefined) return await reportWhatIf(tools, query, { folder: whatIf, format, shown });
      const { io, ledger } = tools;
      const report = await runReport({ ...tools, nameOf: await keyNames(tools.keys) }, query);
      print(io, report, format, shown(report.rows));
      const pruned = by.some(isOfCharges) ? await ledger.prunedUntil() : null;
      if (pruned !== null && pruned > query.since)
        note(io, `charges before ${isoTime(pruned)} were pruned, and their daily sums have no tags, labels or users`);
      return 0;
    },
  }),
];

/**
 * Sorts rows by a figure, largest first; `name` keeps their order. Default: `name` if days or hours are a dimension,
 * otherwise `cost`.
 */
function sorted<R extends FiguresJson>(
  rows: readonly R[],
  by: readonly ReportDimension[],
  sort: Order | undefined,
): readonly R[] {
  const isTimeline = by.includes("day") || by.includes("hour");
  const order = sort ?? (isTimeline ? "name" : "cost");
  if (order === "name") return rows;
  return rows.toSorted((a, b) => compare(figureOf[order](b), figureOf[order](a)));
}

const figureOf: Readonly<Record<Exclude<Order, "name">, (row: FiguresJson) => bigint>> = {
  cost: costOf,
  saving: ({ saving_usd }) => parseSignedUsd(saving_usd) ?? noMoney,
  requests: ({ requests }) => BigInt(requests),
  tokens: ({ tokens }) => BigInt(promptTotal(tokens) + completionTotal(tokens)),
};

function costOf({ cost_usd }: FiguresJson): PicoUsd {
  return parseSignedUsd(cost_usd) ?? noMoney;
}

function compare(a: bigint, b: bigint): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function print(io: Io, report: ReportJson, format: ReportFormat, rows: readonly ReportRowJson[]): void {
  if (format === "json") printJson(io, { ...report, rows });
  else if (format === "csv") printText(io, reportCsv({ ...report, rows }));
  else printReport(io, report, rows);
}

function printReport(io: Io, report: ReportJson, shown: readonly ReportRowJson[]): void {
  // Most reports have no retries and no refusals. Without these columns the table stays narrow.
  const hasRetries = report.total.retries > 0;
  const inDoubt = report.total.cost_in_doubt_usd;
  const hasDoubts = inDoubt !== formatUsd(noMoney);
  const usd = io.isTTY ? roundedUsd : (exact: string) => exact;
  const hasRefusals = report.total.refused_requests !== 0;
  const columns: RowColumns<ReportFiguresJson> = {
    ...dimensionColumns(report, { narrow: "cut" }),
    requests: right(({ requests }) => requests),
    ...(hasRefusals && {
      refused: right(({ refused_requests }: ReportFiguresJson) => refused_requests, { narrow: "last" }),
    }),
    ...(hasRetries && { retries: right(({ retries }: FiguresJson) => retries, { narrow: "last" }) }),
    "input tokens": right(({ tokens }) => promptTotal(tokens)),
    "output tokens": right(({ tokens }) => completionTotal(tokens)),
    cost: right((row) => (hasNoPrice(row) ? "-" : usd(row.cost_usd))),
    ...(hasDoubts && {
      "in doubt": right(({ cost_in_doubt_usd }: FiguresJson) => usd(cost_in_doubt_usd), { narrow: "last" }),
    }),
    "list cost": right((row) => (hasNoPrice(row) ? "-" : usd(row.list_cost_usd)), { narrow: "drop" }),
    saving: right((row) => (hasNoPrice(row) ? "-" : usd(row.saving_usd)), { narrow: "drop" }),
  };
  printRows(io, [...shown, report.total], columns, shown.map(costOf));
  if (shown.length < report.rows.length)
    note(io, `${shown.length} of ${report.rows.length} rows; the total includes all rows`);
  if (io.isTTY) note(io, `USD, ${report.since} to ${report.until}`);
  const inexact = Object.entries(report.total.by_source).filter(([source]) => source !== "reported");
  for (const [source, { requests, cost_usd }] of inexact) {
    if (requests > 0) note(io, `of which ${source}: USD ${usd(cost_usd)} (${counted(requests, "request")})`);
  }
  if (hasDoubts)
    note(
      io,
      `of which in doubt: USD ${inDoubt}, which the gateway may bill differently; farebox charges show gives the reasons`,
    );
  if (report.total.unpriced_requests > 0) {
    note(io, `${report.total.unpriced_requests} requests have no price and are not in the cost`);
  }
  if (report.ceiling_price !== null) {
    const { cost_usd, requests } = report.ceiling_price;
    note(io, `of which at the ceiling price of unknown models: USD ${cost_usd} (${requests} requests, group default)`);
  }
  for (const { unit_type, units, tasks } of report.raw_units) {
    note(
      io,
      `${tasks} tasks used ${units} ${unit_type === "" ? "units without a type" : unit_type}, whose price is unknown; state it under task_units in a price file`,
    );
  }
  if (hasRetries)
    note(io, `${report.total.retries} of the requests were retries by the client, and each may have a cost`);
}
