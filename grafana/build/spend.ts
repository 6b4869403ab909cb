import { dashboardOf, evenly } from "./dashboard.ts";
import { barFor, figure, lines } from "./panels.ts";
import { ofLedger, overRange, perSecond, teamNamed } from "./queries.ts";

const cost = "farebox_cost_usd_total";
const list = "farebox_list_cost_usd_total";
const perHour = (query: string) => `${query} * 3600`;

/** Where does the money go? */
export const spend = dashboardOf({
  uid: "farebox-spend",
  title: "Farebox: Spend",
  description:
    "Where the money goes: by model, team and key, against list price, and how each amount is known. Exact sums are in the ledger (farebox report).",
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
        title: "Spend per hour, now",
        description: "What an hour costs at the present rate.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost)), "per hour"]],
      }),
      figure({
        title: "Saved against list price",
        description: "The part of the official list price that was not charged, over the time range.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`1 - ${overRange(cost)} / (${overRange(list)} > 0)`, "saved"]],
        limits: { yellow: 0.1, red: 0, goodWhen: "high" },
      }),
      figure({
        title: "Reported by the gateway",
        description:
          "The part of the spend over the time range whose tokens the gateway itself reported. The rest was counted, or assumed to be the hold.",
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
        description: "The rate at which each model costs.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "model")), "{{model}}"]],
        stacked: true,
      }),
      lines({
        title: "Spend per hour by team",
        description: "The rate at which each team spends.",
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
        title: "Dearest keys",
        description: "The ten keys that spent most over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange("farebox_key_cost_usd_total", "key")}))`, "{{key}}"]],
      }),
      barFor({
        title: "Dearest models",
        description: "The ten models that cost most over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange(cost, "model")}))`, "{{model}}"]],
      }),
      barFor({
        title: "USD per million tokens",
        description: "What a million tokens of each model did cost over the time range, all classes together.",
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
          "What the gateway charges, and the same tokens at the official list price. The distance is the saving.",
        unit: "currencyUSD",
        queries: [
          [perHour(perSecond(list)), "list price"],
          [perHour(perSecond(cost)), "charged"],
        ],
      }),
      lines({
        title: "How the spend is known, per hour",
        description:
          "reported: the gateway's usage. counted: our count of the whole answer. partial: our count up to a cut. assumed: the hold.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "source")), "{{source}}"]],
        stacked: true,
      }),
      barFor({
        title: "In doubt, by reason",
        description:
          "Cost over the time range of charges that the gateway may bill differently. A charge with two doubts is under both.",
        unit: "currencyUSD",
        queries: [[`sort_desc(${overRange("farebox_cost_in_doubt_usd_total", "reason")})`, "{{reason}}"]],
      }),
      lines({
        title: "Tokens by class",
        description:
          "Tokens charged for. Classes are disjoint: input is without cached and written ones, output without reasoning.",
        unit: "suffix: tok/s",
        queries: [[perSecond("farebox_tokens_total", "class"), "{{class}}"]],
        stacked: true,
      }),
    ),
  ],
});
