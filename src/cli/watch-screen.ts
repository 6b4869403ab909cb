import { namedScope, type BudgetWindow } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import { formatUsd, stepsOf, type PicoUsd } from "../core/money.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import type { NameOf } from "../reporting/names.ts";
import type { WatchedSums } from "../reporting/watched.ts";
import { isUnicode, limitBar } from "./bars.ts";
import { bold, styled, visible, type Io, type Style } from "./io.ts";

/** Contents of a screen. */
export interface WatchFrame {
  readonly title: string;
  /** Formats a time of day. */
  readonly time: (at: number) => string;
  readonly now: number;
  readonly sums: WatchedSums;
  /** Charges to show, newest first. */
  readonly charges: readonly Charge[];
  readonly nameOf: NameOf;
}

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/** Number of rows that are always shown: the rows above the budgets, the empty rows between parts, and the titles. */
const fixedRows = 7;

/** Returns how many budgets a screen of this height shows. Budgets get about a third, so that most rows show requests. */
export function budgetRows({ rows }: ScreenSize): number {
  return Math.max(1, Math.min(12, Math.floor((rows - fixedRows) / 3)));
}

/** Returns the lines of one screen. No line is wider than the screen, and there are at most as many as its rows. */
export function frameLines(io: Io, frame: WatchFrame, size: ScreenSize): string[] {
  const { sums } = frame;
  const budgets = sums.budgets.slice(0, budgetRows(size));
  const top = [
    headLine(io, frame, size),
    spendLine(io, sums, size),
    "",
    ...(budgets.length === 0
      ? [styled(io, "dim", cut("No budgets yet: farebox budgets set all 50 --per 1mo", size.columns))]
      : [
          bold(io, cut(budgetTitles(size), size.columns)),
          ...budgets.map((window) => budgetLine(io, window, frame, size)),
        ]),
    "",
    bold(io, cut(requestCells(titles).join("  ").trimEnd(), size.columns)),
  ];
  const room = Math.max(0, size.rows - top.length);
  const requests = frame.charges.slice(0, room).map((charge) => requestLine(io, charge, frame, size));
  const empty =
    requests.length === 0
      ? [styled(io, "dim", cut("No requests yet. They show here as they arrive.", size.columns))]
      : requests;
  return [...top, ...empty].slice(0, size.rows);
}

function headLine(io: Io, { title, now, time }: WatchFrame, { columns }: ScreenSize): string {
  const right = `${time(now)}  q quits`;
  const left = cut(visible(title), Math.max(0, columns - right.length - 2));
  return `${bold(io, left)}${" ".repeat(Math.max(2, columns - left.length - right.length))}${styled(io, "dim", right)}`;
}

function spendLine(io: Io, { today, month, monthEnd, running }: WatchedSums, { columns }: ScreenSize): string {
  const parts = [
    `today USD ${shortUsd(today.cost)} (${today.requests} requests)`,
    `month USD ${shortUsd(month.cost)}`,
    ...(monthEnd === null ? [] : [`by its end about USD ${shortUsd(monthEnd)}`]),
    `${running} running`,
  ];
  return styled(io, "cyan", cut(parts.join("   "), columns));
}

const barMax = 30;
const amountWidth = 11;
const scopeWidth = 26;

function barWidth({ columns }: ScreenSize): number {
  return Math.max(0, Math.min(barMax, columns - scopeWidth - 3 * (amountWidth + 1) - 8));
}

function budgetTitles(size: ScreenSize): string {
  const amounts = ["spent", "held", "limit"].map((title) => title.padStart(amountWidth)).join(" ");
  return `${"budget".padEnd(scopeWidth)} ${"".padEnd(barWidth(size))} ${amounts}`;
}

function budgetLine(
  io: Io,
  { budget, subject, spent, held }: BudgetWindow,
  { sums }: WatchFrame,
  size: ScreenSize,
): string {
  const name = `${namedScope(budget.scope, sums.nameOf)}${subject === "" ? "" : ` (${sums.nameOf(subject)})`} ${budget.period}`;
  const { limit } = budget;
  const width = barWidth(size);
  const bar = limitBar({ spent, held, limit }, width, isUnicode(io.env));
  const percent = stepsOf((spent + held) as PicoUsd, limit, 1000) / 10;
  const warnAt = budget.warnPercent ?? 80;
  const style: Style = percent >= 100 ? "red" : percent >= warnAt ? "yellow" : "green";
  const drawn =
    width < 4
      ? " ".repeat(width)
      : styled(io, style, bar.spent) + styled(io, "cyan", bar.held) + styled(io, "dim", bar.rest);
  const amounts = [spent, held, limit].map((amount) => shortUsd(amount).padStart(amountWidth)).join(" ");
  const left = cut(visible(name), scopeWidth).padEnd(scopeWidth);
  const used = scopeWidth + width + 2 + amounts.length;
  const share = used + 5 <= size.columns ? `${Math.floor(percent)}%`.padStart(5) : "";
  return used > size.columns
    ? cut(`${left} ${amounts}`, size.columns)
    : `${left} ${drawn} ${amounts}${styled(io, style, share)}`;
}

const titles = ["time", "state", "key", "model", "cost USD", "in", "out", "how", "ms"] as const;
const widths = [8, 8, 14, 24, 12, 7, 7, 8, 7] as const;
const rightAligned = new Set([4, 5, 6, 8]);

function requestCells(cells: readonly string[]): string[] {
  return cells.map((cell, index) => {
    const width = widths[index] ?? 0;
    const text = cut(cell, width);
    return rightAligned.has(index) ? text.padStart(width) : text.padEnd(width);
  });
}

const stateStyles: Readonly<Record<Charge["state"], Style>> = { pending: "yellow", posted: "green", voided: "dim" };

function requestLine(io: Io, charge: Charge, { time, nameOf }: WatchFrame, { columns }: ScreenSize): string {
  const { state, cost, tokens, durationMs } = charge;
  const isOver = state !== "pending";
  const cells = [
    time(charge.at),
    state === "voided"
      ? charge.status === null
        ? "voided"
        : String(charge.status)
      : state === "pending"
        ? "running"
        : "posted",
    visible(nameOf(charge.key) ?? "-"),
    visible(charge.model),
    cost === null ? (state === "posted" ? "no price" : "-") : shortUsd(cost),
    isOver ? String(promptTotal(tokens)) : "-",
    isOver ? String(completionTotal(tokens)) : "-",
    charge.source ?? "-",
    durationMs === null ? "-" : String(Math.round(durationMs)),
  ];
  const text = cut(requestCells(cells).join("  ").trimEnd(), columns);
  const from = (widths[0] ?? 0) + 2;
  const to = from + (widths[1] ?? 0);
  return `${text.slice(0, from)}${styled(io, stateStyles[state], text.slice(from, to))}${text.slice(to)}`;
}

/** Formats an amount with six decimals, enough for display. The ledger keeps all decimals. */
function shortUsd(amount: PicoUsd): string {
  return formatUsd(amount).replace(/(\.\d{6})\d+$/, "$1");
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : text.slice(0, Math.max(0, width));
}
