import { h } from "preact";
import { own } from "../api.ts";
import { div, p, span, type View } from "../dom.ts";
import { count, instant } from "../format.ts";
import { useAnswer } from "../resource.ts";
import type { Me } from "../types.ts";
import { Card, empty, page } from "../ui.ts";
import { budgetCard } from "./budgets.ts";

/** Shows the limits of the signed-in key, and what its budgets have left. */
export function MyBudgets(): View {
  return page({
    title: "My budgets",
    resource: useAnswer<Me>(`${own}/me`, 5000),
    lines: 4,
    content: (data) =>
      div(
        { class: "stack" },
        data.budgets.length === 0
          ? empty("No budget applies to this key", "It may spend the whole balance of the gateway’s account.")
          : div(
              { class: "budgets" },
              data.budgets.map((standing) => budgetCard(standing, null)),
            ),
        h(Card, { title: "Limits" }, limits(data)),
      ),
  });
}

function limits({ key, limits: { rpm, tpm, parallel }, output_cap: cap, fitted }: Me): View {
  const lines = [
    key?.models === null || key === null ? "All models with a price." : `Models: ${key.models.join(", ")}.`,
    rpm !== null && `${count(rpm.limit)} requests a minute, ${count(rpm.remaining)} of them left.`,
    tpm !== null && `${count(tpm.limit)} tokens a minute, ${count(tpm.remaining)} of them left.`,
    parallel !== null && `${count(parallel.limit)} parallel requests.`,
    cap !== null && `${count(cap)} output tokens for each answer.`,
    fitted !== null &&
      `Fitted to a budget on ${instant(fitted.time, "moment")}: ${fitted.model}, at most ${count(fitted.max_output_tokens)} tokens.`,
    key?.expires_at !== null && key !== null && `Expires ${instant(key.expires_at, "moment")}.`,
  ];
  return div(
    { class: "quiet" },
    lines.filter((line) => line !== false).map((line) => p({ key: line }, span(null, line))),
  );
}
