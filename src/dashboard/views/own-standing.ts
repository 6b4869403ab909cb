import { h } from "preact";
import { ask, own } from "../api.ts";
import { div, h1, header, p, span, type View } from "../dom.ts";
import { count, instant } from "../format.ts";
import { useResource } from "../resource.ts";
import type { Me } from "../types.ts";
import { Card, empty, failure, waiting } from "../ui.ts";
import { budgetCard } from "./budgets.ts";

/** What the key that is signed in may do, and what its budgets have left. */
export function OwnStanding(): View {
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
                "No budget weighs on this key",
                p({ class: "hint" }, "It may spend what the gateway’s account has."),
              )
            : div(
                { class: "budgets" },
                data.budgets.map((standing) => budgetCard(standing, null)),
              ),
          h(Card, { title: "What this key may do" }, limits(data)),
        ),
  );
}

function limits({ key, limits: { rpm, tpm, parallel }, output_cap: cap, fitted }: Me): View {
  const lines = [
    key?.models === null || key === null ? "Every model that has a price." : `The models ${key.models.join(", ")}.`,
    rpm !== null && `${count(rpm.limit)} requests a minute, ${count(rpm.remaining)} of them left.`,
    tpm !== null && `${count(tpm.limit)} tokens a minute, ${count(tpm.remaining)} of them left.`,
    parallel !== null && `${count(parallel.limit)} requests at once.`,
    cap !== null && `${count(cap)} output tokens for each answer.`,
    fitted !== null &&
      `Fitted to a budget on ${instant(fitted.time, "moment")}: ${fitted.model}, at most ${count(fitted.max_output_tokens)} tokens.`,
    key?.expires_at !== null && key !== null && `Until ${instant(key.expires_at, "moment")}.`,
  ];
  return div(
    { class: "quiet" },
    lines.filter((line) => line !== false).map((line) => p({ key: line }, span(null, line))),
  );
}
