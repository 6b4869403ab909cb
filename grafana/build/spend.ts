import { dashboardOf, evenly } from "./dashboard.ts";
import { barFor, figure, lines } from "./panels.ts";
import { ofLedger, overRange, perSecond, teamNamed } from "./queries.ts";

const cost = "farebox_cost_usd_total";
const list = "farebox_list_cost_usd_total";
const perHour = (query: string) => `${query} * 3600`;

/** Builds the dashboard Spend. */
export const spend = dashboardOf({
  uid: "farebox-spend",
  title: "Farebox: Spend",
  description:
    "Spend by model, team and key, compared with the list price, and by source. Exact sums are in the ledger (farebox report).",
  since: "now-6h",
  rows: [
    evenly(
      4,
      figure({
        title: "Spent today",
        description: "Charges of this day, read from the ledger.",
        unit: "currencyUSD",
        queries: [[`sum(${ofLedger("farebox_spend_usd", "team", 'period="day"')})`, "today"]],
        noValue: "$0",
      }),
      figure({
        title: "Spent this month",
        description: "Charges of this calendar month, read from the ledger.",
        unit: "currencyUSD",
        queries: [[`sum(${ofLedger("farebox_spend_usd", "team", 'period="month"')})`, "this month"]],
        noValue: "$0",
      }),
      figure({
        title: "Spend per hour",
        description: "Cost of an hour at the current rate.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost)), "per hour"]],
      }),
      figure({
        title: "Saving",
        description: "Part of the official list price that was not charged, over the time range.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`1 - ${overRange(cost)} / (${overRange(list)} > 0)`, "saved"]],
        limits: { yellow: 0.1, red: 0, goodWhen: "high" },
      }),
      figure({
        title: "Reported by the gateway",
        description:
          "Part of the spend over the time range whose tokens the gateway reported. The rest was counted, or assumed to be the hold.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`${overRange(cost, "", 'source="reported"')} / (${overRange(cost)} > 0)`, "reported"]],
        limits: { yellow: 0.9, red: 0.5, goodWhen: "high" },
      }),
      figure({
        title: "Requests charged",
        description: "Charges posted over the time range.",
        unit: "short",
        decimals: 0,
        queries: [[overRange("farebox_key_requests_total"), "requests"]],
      }),
    ),
    evenly(
      9,
      lines({
        title: "Spend per hour by model",
        description: "Spend rate of each model.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "model")), "{{model}}"]],
        stacked: true,
      }),
      lines({
        title: "Spend per hour by team",
        description: "Spend rate of each team.",
        unit: "currencyUSD",
        queries: [[perHour(teamNamed(perSecond("farebox_key_cost_usd_total", "team"))), "{{team}}"]],
        stacked: true,
      }),
    ),
    evenly(
      8,
      barFor({
        title: "This month by team",
        description: "Charges of this calendar month by team, read from the ledger.",
        unit: "currencyUSD",
        queries: [[`sort_desc(${teamNamed(ofLedger("farebox_spend_usd", "team", 'period="month"'))})`, "{{team}}"]],
      }),
      barFor({
        title: "Top keys",
        description: "Ten keys with the highest spend over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange("farebox_key_cost_usd_total", "key")}))`, "{{key}}"]],
      }),
      barFor({
        title: "Top models",
        description: "Ten models with the highest spend over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange(cost, "model")}))`, "{{model}}"]],
      }),
      barFor({
        title: "USD per million tokens",
        description: "Cost of a million tokens of each model over the time range, all classes together.",
        unit: "currencyUSD",
        queries: [
          [
            `sort_desc(1e6 * ${overRange(cost, "model")} / (${overRange("farebox_tokens_total", "model")} > 0))`,
            "{{model}}",
          ],
        ],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Charged and list price, per hour",
        description:
          "Cost at the gateway, and the same tokens at the official list price. The difference is the saving.",
        unit: "currencyUSD",
        queries: [
          [perHour(perSecond(list)), "list price"],
          [perHour(perSecond(cost)), "charged"],
        ],
      }),
      lines({
        title: "Spend by source, per hour",
        description:
          "reported: the gateway's usage. counted: our count of the whole answer. partial: our count up to a cut. assumed: the hold.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "source")), "{{source}}"]],
        stacked: true,
      }),
      barFor({
        title: "In doubt, by reason",
        description:
          "Cost over the time range of charges that the gateway may bill differently. A charge with two doubts counts in both.",
        unit: "currencyUSD",
        queries: [[`sort_desc(${overRange("farebox_cost_in_doubt_usd_total", "reason")})`, "{{reason}}"]],
      }),
      lines({
        title: "Tokens by class",
        description:
          "Tokens charged for. Classes are disjoint: input excludes cached and written tokens, output excludes reasoning.",
        unit: "suffix: tok/s",
        queries: [[perSecond("farebox_tokens_total", "class"), "{{class}}"]],
        stacked: true,
      }),
    ),
  ],
});
