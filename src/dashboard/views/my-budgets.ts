import { h } from "preact";
import { ownBase } from "../api.ts";
import { div, p, section, span, strong, type View } from "../dom.ts";
import { count, counted, instant } from "../format.ts";
import { icon } from "../icons.ts";
import { useAnswer } from "../resource.ts";
import { isWindowOf } from "../scopes.ts";
import type { Iso, MeJson, Usd } from "../types.ts";
import { amount, Card, empty, page, timeAgo } from "../ui.ts";
import { budgetCard, fullnessOf } from "./budgets.ts";
import { OwnRaises } from "./raises.ts";
import { causeText, useRefusedToday } from "./subject.ts";

/** Shows the limits of the signed-in key, and the remaining amounts of its budgets. */
export function MyBudgets(): View {
  const resource = useAnswer<MeJson>(`${ownBase}/me`, 5000);
  return page({
    title: "My budgets",
    resource,
    lines: 4,
    content: (data) =>
      div(
        { class: "stack" },
        h(Blocked, { me: data }),
        h(OwnRaises, { me: data, onAsked: resource.reload }),
        data.budgets.length === 0
          ? empty("No budget for this key alone", "Budgets of its team or of all requests may still apply.")
          : div(
              { class: "budgets" },
              data.budgets
                .toSorted((one, other) => fullnessOf(other) - fullnessOf(one))
                .map((standing) => budgetCard(standing)),
            ),
        h(Card, { title: "Limits" }, limits(data)),
      ),
  });
}

function limits({ key, limits: { rpm, tpm, parallel }, output_cap: cap, fitted }: MeJson): View {
  const lines = [
    key?.models === null || key === null ? "All models with a price." : `Models: ${key.models.join(", ")}.`,
    rpm !== null && `${count(rpm.limit)} requests a minute, ${count(rpm.remaining)} of them left.`,
    tpm !== null && `${count(tpm.limit)} tokens a minute, ${count(tpm.remaining)} of them left.`,
    parallel !== null && `${count(parallel.limit)} parallel requests.`,
    cap !== null && `${count(cap)} output tokens for each answer.`,
    fitted !== null &&
      `Last request fitted to a budget: ${fitted.model}, at most ${count(fitted.max_output_tokens)} tokens, on ${instant(fitted.time, "moment")}.`,
    key?.expires_at !== null && key !== null && `Expires ${instant(key.expires_at, "moment")}.`,
  ];
  return div(
    { class: "quiet" },
    lines.filter((line) => line !== false).map((line) => p({ key: line }, span(null, line))),
  );
}

/** Requests of the key that were refused today for one cause, or a budget that refuses its requests now. */
interface Block {
  readonly reason: string;
  readonly count: number;
  /** Limit of a budget that belongs to the key alone; null for a shared budget and for other causes. */
  readonly limit: Usd | null;
  readonly isShared: boolean;
  /**
   * Time at which the budget resets; null if it never resets, undefined if the cause is not a budget that `me` names.
   */
  readonly resetsAt: Iso | null | undefined;
}

const blocksMax = 5;

/** Shows the user of a key why its requests are refused, and until when. Returns null if none are refused. */
export function Blocked({ me: { key, budgets, blocked } }: { readonly me: MeJson }): View | null {
  const { data } = useRefusedToday(ownBase, {});
  const causes = data?.causes ?? [];
  const blocks: Block[] = [
    ...causes,
    ...blocked
      .filter((each) => !causes.some(isWindowOf(each)))
      .map((each) => ({ ...each, code: "budget_exceeded" as const, model: null, count: each.refused_today })),
  ].map((cause) => {
    const mine = budgets.find(isWindowOf(cause));
    return {
      reason: causeText({ ...cause, key: key?.name ?? null }),
      count: cause.count,
      limit: mine?.limit_usd ?? null,
      isShared: mine === undefined && cause.period !== null,
      resetsAt: (mine ?? blocked.find(isWindowOf(cause)))?.resets_at,
    };
  });
  blocks.sort((one, other) => other.count - one.count);
  if (blocks.length === 0) return null;
  return section({ "aria-label": "Refused requests" }, blocks.slice(0, blocksMax).map(blockLine));
}

function blockLine({ reason, count: refused, limit, isShared, resetsAt }: Block): View {
  const what = refused === 0 ? "Requests are refused: " : `${counted(refused, "request")} refused today: `;
  return div(
    { key: reason, class: "failure" },
    icon("warning"),
    p(
      null,
      strong(null, what),
      reason,
      limit !== null && [" (", amount(limit), ")"],
      ". ",
      resetsAt === null && "It never resets. ",
      typeof resetsAt === "string" && ["Resets ", timeAgo(resetsAt), ". "],
      isShared && "Ask an administrator if you need more before that.",
    ),
  );
}
