import { limitOf, usedPercent, type BudgetWindow } from "../core/budget.ts";
import { hasSubjects, namedScope, namedSubject, parseScope } from "../core/scope.ts";
import type { Charge } from "../core/charge.ts";
import { formatUsd, type PicoUsd } from "../core/money.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import type { RefusalRow } from "../ports/refusals.ts";
import type { NameOf } from "../reporting/names.ts";
import type { WatchedRefusals, WatchedSums } from "../reporting/watched.ts";
import { counted, roundedUsd } from "./amounts.ts";
import { isUtf8Locale, limitBar } from "./bars.ts";
import { bold, styled, withoutControls, type Io, type Style } from "./io.ts";
import { aligned, cut, fitted, headingOf, widthOf, type Column, type ShownColumn } from "./table.ts";
import type { WatchOrder, WatchView } from "./watch-view.ts";

/** Contents of a screen. */
interface WatchFrame {
  readonly title: string;
  /** Formats a time of day. */
  readonly time: (at: number) => string;
  readonly now: number;
  readonly sums: WatchedSums;
  readonly charges: readonly Charge[];
  readonly refusals: WatchedRefusals;
  readonly nameOf: NameOf;
  readonly view: WatchView;
}

interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/**
 * Number of rows that are always shown: the rows above the budgets, the empty rows between parts, the titles and the
 * keys.
 */
const fixedRows = 8;

/**
 * Returns the number of budgets on a screen of this height: about a third of the rows, so that most rows show requests.
 */
function budgetRows({ rows }: ScreenSize): number {
  return Math.max(1, Math.min(12, Math.floor((rows - fixedRows) / 3)));
}

/** Returns the lines of one screen. No line is wider than the screen, and there are no more lines than it has rows. */
export function frameLines(io: Io, frame: WatchFrame, size: ScreenSize): string[] {
  const { columns, rows } = size;
  const budgets = frame.sums.budgets.slice(0, budgetRows(size));
  const top = [
    headLine(io, frame, size),
    ...spendLines(frame, size).map((line) => styled(io, "cyan", line)),
    "",
    ...(budgets.length === 0
      ? [styled(io, "dim", cut("No budgets yet: farebox budgets set all 50 --per 1mo", columns))]
      : budgetLines(io, budgets, frame, size)),
    "",
  ];
  const shown = rowsOf(frame);
  const columnsShown = fitted(
    requestColumns,
    shown.map(({ cells }) => cells),
    columns,
  );
  const room = Math.max(0, rows - top.length - 2);
  const requests =
    shown.length === 0
      ? [styled(io, "dim", cut(noRequests(frame.view), columns))]
      : shown.slice(0, room).map((row) => requestLine(io, row, columnsShown, columns));
  const body = [...top, bold(io, cut(headingOf(columnsShown), columns)), ...requests].slice(0, Math.max(0, rows - 1));
  const empty = Array.from({ length: Math.max(0, rows - 1 - body.length) }, () => "");
  return [...body, ...empty, keysLine(io, frame.view, size)];
}

function headLine(io: Io, { title, now, time, view }: WatchFrame, { columns }: ScreenSize): string {
  const right = `${view.isPaused ? "paused  " : ""}${time(now)}`;
  const left = cut(withoutControls(title), Math.max(0, columns - right.length - 2));
  return `${bold(io, left)}${" ".repeat(Math.max(0, columns - left.length - right.length))}${styled(io, view.isPaused ? "yellow" : "dim", cut(right, columns))}`;
}

/** Returns the totals in as many lines as they need. */
function spendLines({ sums, refusals }: WatchFrame, { columns }: ScreenSize): string[] {
  const { today, month, monthEnd, running } = sums;
  const parts = [
    `today USD ${shortUsd(today.cost)} (${counted(today.requests, "request")})`,
    `month USD ${shortUsd(month.cost)}`,
    ...(monthEnd === null ? [] : [`month end about USD ${shortUsd(monthEnd)}`]),
    `${running} running`,
    `${refusals.today} refused today`,
  ];
  const lines: string[] = [];
  for (const part of parts) {
    const longer = lines.length === 0 ? part : `${lines.at(-1)}   ${part}`;
    if (lines.length === 0 || longer.length > columns) lines.push(cut(part, columns));
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

function keysLine(io: Io, { order, filter, isTyping, isPaused }: WatchView, { columns }: ScreenSize): string {
  if (isTyping) return cut(`Filter: ${filter}_   Enter keeps it, Esc removes it`, columns);
  const filtered = filter === "" ? "/ filter" : `/ filter: ${filter}`;
  const keys = ["q quit", `s sort: ${order}`, `p ${isPaused ? "continue" : "pause"}`, filtered].join("   ");
  return styled(io, "dim", cut(keys, columns));
}

/** Largest width of a budget's bar, in characters. */
const barMax = 30;

const budgetColumns: readonly Column[] = [
  { title: "budget", narrow: "cut" },
  { title: "spent", align: "right" },
  { title: "held", align: "right" },
  { title: "limit", align: "right" },
  { title: "used", align: "right" },
];

function budgetLines(
  io: Io,
  budgets: readonly BudgetWindow[],
  { sums }: WatchFrame,
  { columns }: ScreenSize,
): string[] {
  const cells = budgets.map((window) => {
    const { budget, subject, spent, held } = window;
    return [
      budgetName(budget, subject, sums.nameOf),
      ...[spent, held, limitOf(window)].map(shortUsd),
      `${Math.floor(usedPercent(window))}%`,
    ];
  });
  const shown = fitted(budgetColumns, cells, columns);
  const left = columns - widthOf(shown);
  // A bar of fewer than five characters would add nothing to the percentage.
  const width = left < 5 ? 0 : Math.min(barMax, left);
  return [
    bold(io, cut(headingOf(shown), columns)),
    ...budgets.map((window, index) => {
      const line = cut(aligned(shown, cells[index] ?? []), columns);
      return width === 0 ? line : `${line}  ${budgetBar(io, window, width)}`;
    }),
  ];
}

function budgetName({ scope, period, mode }: BudgetWindow["budget"], subject: string, nameOf: NameOf): string {
  const of = hasSubjects(scope) ? ` (${namedSubject(scope, subject, nameOf)})` : "";
  return withoutControls(`${namedScope(scope, nameOf)}${of} ${period}${mode === "soft" ? " soft" : ""}`);
}

function budgetBar(io: Io, window: BudgetWindow, width: number): string {
  const percent = usedPercent(window);
  const style: Style = percent >= 100 ? "red" : percent >= (window.budget.warnPercent ?? 80) ? "yellow" : "green";
  const { spent, held } = window;
  const bar = limitBar({ spent, held, limit: limitOf(window) }, width, isUtf8Locale(io.env));
  return styled(io, style, bar.spent) + styled(io, "cyan", bar.held) + styled(io, "dim", bar.free);
}

const requestColumns: readonly Column[] = [
  { title: "time" },
  { title: "state" },
  { title: "key", narrow: "cut" },
  { title: "model", narrow: "cut" },
  { title: "cost USD", align: "right" },
  { title: "in", align: "right", narrow: "drop" },
  { title: "out", align: "right", narrow: "drop" },
  { title: "source", narrow: "drop" },
  { title: "ms", align: "right", narrow: "drop" },
];

/** Request or refusal in the list. */
interface Row {
  readonly cells: readonly string[];
  readonly style: Style;
  /**
   * Reasons of a refusal, the longest first. The first that fits is shown after the model, instead of further cells.
   */
  readonly reasons?: readonly string[];
  /** Values by which the list is sorted, largest first. An unknown value is -1. */
  readonly sortBy: Readonly<Record<WatchOrder, number | bigint>>;
}

/** Returns the rows that contain the filter, in the order of the view. */
function rowsOf({ charges, refusals, view, ...frame }: WatchFrame): Row[] {
  const rows = [
    ...charges.map((charge) => requestRow(charge, frame)),
    ...refusals.rows.map((refusal) => refusalRow(refusal, frame)),
  ];
  const wanted = view.filter.toLowerCase();
  const contains = ({ cells, reasons = [] }: Row) =>
    [...cells, ...reasons].some((text) => text.toLowerCase().includes(wanted));
  const { order } = view;
  return (wanted === "" ? rows : rows.filter(contains)).toSorted(
    (a, b) => descending(a.sortBy[order], b.sortBy[order]) || descending(a.sortBy.time, b.sortBy.time),
  );
}

const descending = (a: number | bigint, b: number | bigint) => (a < b ? 1 : a > b ? -1 : 0);

function noRequests({ filter }: WatchView): string {
  return filter === "" ? "No requests yet. They appear here as they arrive." : `No request contains "${filter}".`;
}

const stateStyles: Readonly<Record<Charge["state"], Style>> = { pending: "yellow", posted: "green", voided: "dim" };

function requestRow(charge: Charge, { time, nameOf }: Pick<WatchFrame, "time" | "nameOf">): Row {
  const { state, cost, tokens, durationMs, status } = charge;
  const hasEnded = state !== "pending";
  const shownState = state === "voided" ? String(status ?? "voided") : state === "pending" ? "running" : "posted";
  return {
    cells: [
      time(charge.at),
      shownState,
      withoutControls(nameOf(charge.key) ?? "-"),
      withoutControls(charge.model),
      cost === null ? "-" : shortUsd(cost),
      hasEnded ? String(promptTotal(tokens)) : "-",
      hasEnded ? String(completionTotal(tokens)) : "-",
      charge.source ?? "-",
      durationMs === null ? "-" : String(Math.round(durationMs)),
    ],
    style: stateStyles[state],
    sortBy: {
      time: charge.at,
      cost: cost ?? -1n,
      duration: durationMs ?? -1,
      tokens: promptTotal(tokens) + completionTotal(tokens),
    },
  };
}

function refusalRow(row: RefusalRow, { time, nameOf }: Pick<WatchFrame, "time" | "nameOf">): Row {
  const { code, count, period, lastAt } = row;
  const scope = row.scope === null ? undefined : parseScope(row.scope);
  const subject = row.subject === null || scope === undefined ? "" : ` (${namedSubject(scope, row.subject, nameOf)})`;
  const named = scope === undefined ? row.scope : `${namedScope(scope, nameOf)}${subject}`;
  const times = count === 1 ? "" : `, ${count} times`;
  const of = named === null ? "" : ` ${named}${period === null ? "" : ` ${period}`}`;
  return {
    cells: [
      time(lastAt),
      "refused",
      withoutControls(nameOf(row.key) ?? "-"),
      row.model === null ? "-" : withoutControls(row.model),
    ],
    style: "red",
    reasons: [`${code}${withoutControls(of)}${times}`, `${code}${times}`],
    sortBy: { time: lastAt, cost: -1n, duration: -1, tokens: -1 },
  };
}

function requestLine(io: Io, { cells, style, reasons }: Row, shown: readonly ShownColumn[], columns: number): string {
  const first = shown.filter(({ index }) => reasons === undefined || index < cells.length);
  const start = aligned(first, cells);
  const room = columns - start.length - 2;
  const reason = reasons?.find((text) => text.length <= room) ?? reasons?.at(-1);
  const text = cut((reason === undefined ? start : `${start}  ${cut(reason, room)}`).trimEnd(), columns);
  const from = (shown[0]?.width ?? 0) + 2;
  const to = from + (shown[1]?.width ?? 0);
  return `${text.slice(0, from)}${styled(io, style, text.slice(from, to))}${text.slice(to)}`;
}

/** Formats an amount for display. The ledger keeps all decimals. */
function shortUsd(amount: PicoUsd): string {
  return roundedUsd(formatUsd(amount));
}
