import { h } from "preact";
import { li, p, span, ul, type Children, type View } from "../dom.ts";
import { count } from "../format.ts";
import { addressOf } from "../location.ts";
import type { RankedBudgetJson } from "../types.ts";
import { amount, badge, budgetBar, Card, link, muted, timeAgo } from "../ui.ts";
import { isForEach, pageOfScope } from "../scopes.ts";
import { scopeName, softBadge, usedText } from "./budgets.ts";
import { periodWords, subjectOf } from "./labels.ts";

/** Shows the budgets that refuse requests, then those that are nearly used up. Shows nothing if there are none. */
export function atRisk(rows: readonly RankedBudgetJson[]): View | null {
  if (rows.length === 0) return null;
  return h(
    Card,
    { title: "Budgets at risk", actions: link(addressOf("budgets"), "All budgets", "button small") },
    ul({ class: "at-risk", "aria-label": "Budgets at risk" }, rows.map(rowOf)),
  );
}

function rowOf(budget: RankedBudgetJson): View {
  const { scope, period, windows, refusing, mode, fullest, resets_at: resets } = budget;
  const [first] = fullest;
  const isEach = isForEach(scope);
  return li(
    { key: `${scope} ${period}` },
    span({ class: "risk-name" }, nameOf(budget), muted(" ", amount(budget.limit_usd), ` ${periodWords[period].per}`)),
    span(
      { class: "risk-state" },
      refusing > 0 ? badge("bad", isEach ? `refuses ${count(refusing)} of ${count(windows)}` : "refusing") : null,
      mode === "soft" && softBadge(),
      span({ class: "num" }, usedText(budget.used_percent)),
    ),
    first !== undefined && budgetBar(first),
    p(
      { class: "hint" },
      isEach
        ? ["Most used: ", fullest.flatMap((window, at) => [at > 0 && ", ", subjectOf(window)])]
        : first !== undefined && [amount(first.spent_usd), " spent"],
      resets !== null && [" · ", "resets ", timeAgo(resets)],
    ),
  );
}

function nameOf({ scope, period }: RankedBudgetJson): Children {
  const page = pageOfScope(scope);
  const at =
    page === null || isForEach(scope) ? addressOf("budgets", { scope, period }) : addressOf([`${page[0]}s`, page[1]]);
  return link(at, scopeName(scope));
}
