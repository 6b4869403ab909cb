import { dashboardOf, evenly } from "./dashboard.ts";
import { barFor, dailyBars, figure, lines } from "./panels.ts";
import { chosen, eachInterval, ofLedger, overRange, perSecond, teamNamed } from "./queries.ts";

const cost = "farebox_cost_usd_total";
const list = "farebox_list_cost_usd_total";
const keyCost = "farebox_key_cost_usd_total";
const ofKeys = chosen("team", "key");
const ofModels = chosen("model");
const perHour = (query: string) => `${query} * 3600`;

/** Builds the dashboard Spend. */
export const spend = dashboardOf({
  uid: "farebox-spend",
  title: "Farebox: Spend",
  description:
    "Spend by model, team, key and source, compared with the list price. Exact sums are in the ledger (farebox report). The team and key filters apply to panels by team or key, the model filter to all others.",
  since: "now-24h",
  filters: ["team", "key", "model"],
  rows: [
    evenly(
      4,
      figure({
        title: "Spent today",
        description: "Charges of the chosen teams today, read from the ledger.",
        unit: "currencyUSD",
        queries: [[`sum(${ofLedger("farebox_spend_usd", "team", `period="day", ${chosen("team")}`)})`, "today"]],
        noValue: "$0",
      }),
      figure({
        title: "Spent this month",
        description: "Charges of the chosen teams in this calendar month, read from the ledger.",
        unit: "currencyUSD",
        queries: [[`sum(${ofLedger("farebox_spend_usd", "team", `period="month", ${chosen("team")}`)})`, "this month"]],
        noValue: "$0",
      }),
      figure({
        title: "Spend per hour",
        description: "Current spend of the chosen teams and keys, per hour.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(keyCost, "", ofKeys)), "per hour"]],
      }),
      figure({
        title: "Saving",
        description: "Part of the official list price that was not charged, over the time range.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`1 - ${overRange(cost, "", ofModels)} / (${overRange(list, "", ofModels)} > 0)`, "saved"]],
        limits: { yellow: 0.1, red: 0, goodWhen: "high" },
      }),
      figure({
        title: "Reported by the gateway",
        description:
          "Share of the spend over the time range whose tokens the gateway reported. For the rest, Farebox counted the tokens or assumed the hold.",
        unit: "percentunit",
        decimals: 1,
        queries: [
          [
            `${overRange(cost, "", `source="reported", ${ofModels}`)} / (${overRange(cost, "", ofModels)} > 0)`,
            "reported",
          ],
        ],
        limits: { yellow: 0.9, red: 0.5, goodWhen: "high" },
      }),
      figure({
        title: "Requests charged",
        description: "Charges of the chosen teams and keys over the time range.",
        unit: "short",
        decimals: 0,
        queries: [[overRange("farebox_key_requests_total", "", ofKeys), "requests"]],
      }),
    ),
    evenly(
      9,
      dailyBars({
        title: "Spend per day by team",
        description: "Charges of each of the last 30 days, by team. The last bar is today so far.",
        unit: "currencyUSD",
        queries: [[teamNamed(eachInterval(keyCost, "team", ofKeys)), "{{team}}"]],
      }),
      dailyBars({
        title: "Spend per day by model",
        description: "Charges of each of the last 30 days, by model. The last bar is today so far.",
        unit: "currencyUSD",
        queries: [[eachInterval(cost, "model", ofModels), "{{model}}"]],
      }),
    ),
    evenly(
      9,
      lines({
        title: "Spend per hour by model",
        description: "Spend rate of each model.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "model", ofModels)), "{{model}}"]],
        stacked: true,
      }),
      lines({
        title: "Spend per hour by team",
        description: "Spend rate of each team.",
        unit: "currencyUSD",
        queries: [[perHour(teamNamed(perSecond(keyCost, "team", ofKeys))), "{{team}}"]],
        stacked: true,
      }),
    ),
    evenly(
      8,
      barFor({
        title: "This month by team",
        description: "Charges of this calendar month by team, read from the ledger.",
        unit: "currencyUSD",
        queries: [
          [
            `sort_desc(${teamNamed(ofLedger("farebox_spend_usd", "team", `period="month", ${chosen("team")}`))})`,
            "{{team}}",
          ],
        ],
      }),
      barFor({
        title: "Top keys",
        description: "Ten keys with the highest spend over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange(keyCost, "key", ofKeys)}))`, "{{key}}"]],
      }),
      barFor({
        title: "Top models",
        description: "Ten models with the highest spend over the time range.",
        unit: "currencyUSD",
        queries: [[`sort_desc(topk(10, ${overRange(cost, "model", ofModels)}))`, "{{model}}"]],
      }),
      barFor({
        title: "USD per million tokens",
        description: "Cost of a million tokens of each model over the time range, all classes together.",
        unit: "currencyUSD",
        queries: [
          [
            `sort_desc(1e6 * ${overRange(cost, "model", ofModels)} / (${overRange("farebox_tokens_total", "model", ofModels)} > 0))`,
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
          [perHour(perSecond(list, "", ofModels)), "list price"],
          [perHour(perSecond(cost, "", ofModels)), "charged"],
        ],
      }),
      lines({
        title: "Spend by source, per hour",
        description:
          "reported: the gateway's usage. counted: Farebox's count of the whole answer. partial: Farebox's count of a cut answer. assumed: the hold.",
        unit: "currencyUSD",
        queries: [[perHour(perSecond(cost, "source", ofModels)), "{{source}}"]],
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
          "Charged tokens. Classes are disjoint: input excludes cached and written tokens, output excludes reasoning.",
        unit: "suffix: tok/s",
        queries: [[perSecond("farebox_tokens_total", "class", ofModels), "{{class}}"]],
        stacked: true,
      }),
    ),
  ],
});
