import { h } from "preact";
import { ask, own } from "../api.ts";
import { div, h1, header, p, span, type View } from "../dom.ts";
import { count, instant } from "../format.ts";
import { useResource } from "../resource.ts";
import type { Me } from "../types.ts";
import { Card, empty, failure, waiting } from "../ui.ts";
import { budgetCard } from "./budgets.ts";

/** Shows the limits of the signed-in key, and what its budgets have left. */
export function MyBudgets(): View {
  const { data, fault, reload } = useResource<Me>((signal) => ask(`${own}/me`, { signal }), "me", { everyMs: 5000 });
  return div(
    { class: "view" },
    header({ class: "view-head" }, h1(null, "My budgets")),
    fault !== null && failure({ fault, retry: reload }),
    data === null
      ? fault === null && waiting(4)
      : div(
          { class: "stack" },
          data.budgets.length === 0
            ? empty(
                "No budget applies to this key",
                p({ class: "hint" }, "It may spend the whole balance of the gateway’s account."),
              )
            : div(
                { class: "budgets" },
                data.budgets.map((standing) => budgetCard(standing, null)),
              ),
          h(Card, { title: "Limits" }, limits(data)),
        ),
  );
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
