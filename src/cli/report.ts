import { formatUsd, noMoney, parseSignedUsd, type PicoUsd } from "../core/money.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { isTagDimension, reportDimensions, type ReportDimension } from "../ports/ledger.ts";
import { reportCsv } from "../reporting/csv.ts";
import { isoTime, keyNames } from "../reporting/names.ts";
import { runReport } from "../reporting/report.ts";
import type { FiguresJson, ReportJson, ReportRowJson } from "../reporting/shapes/figures.ts";
import { rounded } from "./amounts.ts";
import { dimensionsArgument, readSpan, wholeNumberArgument } from "./arguments.ts";
import { command } from "./command.ts";
import { note, printJson, printText, type Io } from "./io.ts";
import { printRows, right, type RowColumns } from "./table.ts";
import { dimensionColumns, reportWhatIf, type ReportFormat, type ShownRows } from "./what-if.ts";

const orders = ["cost", "saving", "requests", "tokens", "name"] as const;
type Order = (typeof orders)[number];

export const commands = [
  command("report", {
    options: {
      by: {
        value: "<dimensions>",
        help: `a row for each of these: ${reportDimensions.join(", ")}, tag:NAME`,
        parse: dimensionsArgument,
        default: ["model"],
        defaultShown: "model",
      },
      since: {
        value: "<when>",
        help: "from then on: 24h, 7d, the beginning of today, yesterday, week, month, last-month or 2026-11-20, or an ISO instant",
        default: "7d",
      },
      until: { value: "<when>", help: "to before then, written likewise (default: now)" },
      sort: {
        value: "<order>",
        help: "sort order: the largest of these first, or names in their order (default: cost; days and hours by time)",
        choices: orders,
      },
      top: {
        value: "<count>",
        help: "at most this many rows; the total includes all",
        parse: wholeNumberArgument(1, 1_000_000),
      },
      format: { value: "<format>", help: "how to print it", choices: ["table", "csv", "json"], default: "table" },
      json: { help: "the same as --format json" },
      whatIf: {
        value: "<folder>",
        help: "also the cost under the shipped prices and those of this folder; shipped for none",
      },
    },
    ledger: "read",
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
      const report = await runReport({ ledger, nameOf: await keyNames(tools.keys) }, query);
      print(io, report, format, shown(report.rows));
      const pruned = by.some(isTagDimension) ? await ledger.prunedUntil() : null;
      if (pruned !== null && pruned > query.since)
        note(io, `charges before ${isoTime(pruned)} were pruned: what is left of them is sums without tags`);
      return 0;
    },
  }),
];

/** Sorts rows by a figure, largest first. The default is by time if days or hours are a dimension, otherwise by cost. */
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
  // Most reports have no retries. Without that column the table stays narrow.
  const hasRetries = report.total.retries > 0;
  const inDoubt = report.total.cost_in_doubt_usd;
  const hasDoubts = inDoubt !== formatUsd(noMoney);
  const usd = io.isTTY ? rounded : (exact: string) => exact;
  const columns: RowColumns<FiguresJson> = {
    ...dimensionColumns(report, { narrow: "cut" }),
    requests: right(({ requests }) => requests),
    ...(hasRetries && { retries: right(({ retries }: FiguresJson) => retries) }),
    "input tokens": right(({ tokens }) => promptTotal(tokens)),
    "output tokens": right(({ tokens }) => completionTotal(tokens)),
    cost: right(({ cost_usd }) => usd(cost_usd)),
    ...(hasDoubts && { "in doubt": right(({ cost_in_doubt_usd }: FiguresJson) => usd(cost_in_doubt_usd)) }),
    "list cost": right(({ list_cost_usd }) => usd(list_cost_usd), { narrow: "drop" }),
    saving: right(({ saving_usd }) => usd(saving_usd), { narrow: "drop" }),
  };
  printRows(io, [...shown, report.total], columns, shown.map(costOf));
  if (shown.length < report.rows.length)
    note(io, `${shown.length} of ${report.rows.length} rows; the total includes all`);
  if (io.isTTY) note(io, `USD, ${report.since} to ${report.until}`);
  const inexact = Object.entries(report.total.by_source).filter(([source]) => source !== "reported");
  for (const [source, { requests, cost_usd }] of inexact) {
    if (requests > 0)
      note(io, `of which ${source}: $${usd(cost_usd)} (${requests} request${requests === 1 ? "" : "s"})`);
  }
  if (hasDoubts)
    note(io, `of it in doubt: USD ${inDoubt}, which the gateway may bill differently; charges show says why`);
  if (report.total.unpriced_requests > 0) {
    note(io, `${report.total.unpriced_requests} requests have no price and are not in the cost`);
  }
  if (report.ceiling_price !== null) {
    const { cost_usd, requests } = report.ceiling_price;
    note(io, `of it at the ceiling price of unknown models: USD ${cost_usd} of ${requests} requests (group default)`);
  }
  for (const { unit_type, units, tasks } of report.raw_units) {
    note(
      io,
      `raw units of ${tasks} tasks: ${units} ${unit_type === "" ? "of no stated type" : unit_type}; task_units in a price file says what they are worth`,
    );
  }
  if (hasRetries)
    note(io, `${report.total.retries} of the requests were retries by the client, and each may have cost`);
}
