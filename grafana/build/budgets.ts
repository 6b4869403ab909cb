import { dashboardOf, evenly } from "./dashboard.ts";
import { barFor, figure, lines, rowFor } from "./panels.ts";
import { chosen, ofLedger, overRange, perSecond } from "./queries.ts";

const gauge = (name: string, at = "") => ofLedger(`farebox_budget_${name}_usd`, "scope, period", "", at);
const part = (amount: string, at = "") => `${amount} / (${gauge("limit", at)} > 0)`;

const limit = gauge("limit");
const spent = gauge("spent");
const held = gauge("held");
const used = part(spent);

/** Selects the fullest windows at the end of the time range, because a budget for each key may have a thousand windows. */
const fullest = (count: number, amount: string) =>
  `(${amount}) and on (scope, period) topk(${count}, ${part(gauge("spent", "@ end()"), "@ end()")})`;
/** Selects an amount of the monthly budgets whose scope matches. */
const monthly = (name: string, scopes: string, at = "") =>
  ofLedger(`farebox_budget_${name}_usd`, "scope", `period="1mo", scope=~"${scopes}"`, at);
const ofTeams = "all|team:(?:$team)";
const ofKeys = "key:(?:$key)|each-key(?::[^=]+)?=(?:$key)";
/** Selects an amount of the 20 most used monthly budgets of the chosen keys. */
const monthlyOfKeys = (name: string) =>
  `(${monthly(name, ofKeys)}) and on (scope) topk(20, ${monthly("spent", ofKeys, "@ end()")} / (${monthly("limit", ofKeys, "@ end()")} > 0))`;
const byBudget = "{{scope}} per {{period}}";
const ofBudgets = 'code=~"budget_.+"';

/** Builds the dashboard Budgets. */
export const budgets = dashboardOf({
  uid: "farebox-budgets",
  title: "Farebox: Budgets",
  description:
    "Amounts spent, held and remaining in each budget's current window, and refusals. Amounts are read from the ledger. The team filter applies to Month against budget, the key filter to Refusals by key.",
  since: "now-24h",
  filters: ["team", "key"],
  rows: [
    evenly(
      4,
      figure({
        title: "Budgets",
        description: "Current budget windows.",
        unit: "short",
        queries: [[`count(${limit}) or vector(0)`, "budgets"]],
      }),
      figure({
        title: "Above 80 %",
        description: "Windows that have spent more than 80 % of their limit.",
        unit: "short",
        queries: [[`count(${used} > 0.8) or vector(0)`, "above 80 %"]],
        limits: { yellow: 1, red: 5 },
      }),
      figure({
        title: "Highest use",
        description: "Highest share of its limit that a window has spent.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`max(${used})`, "spent"]],
        limits: { yellow: 0.8, red: 0.95 },
      }),
      figure({
        title: "Budget refusals",
        description: "402 budget_exceeded and 429 budget_held, per minute.",
        unit: "suffix: /min",
        decimals: 1,
        queries: [[`60 * (${perSecond("farebox_refusals_total", "", ofBudgets)} or vector(0))`, "refused"]],
        limits: { yellow: 0.1, red: 10 },
      }),
    ),
    {
      height: 9,
      panels: [
        [
          14,
          lines({
            title: "Month against budget",
            description:
              "Spent amount and limit of monthly budgets over the last 31 days: for all requests, for the chosen teams, and for the 20 chosen keys that used the largest share. The spent amount resets to 0 each month.",
            unit: "currencyUSD",
            queries: [
              [monthly("spent", ofTeams), "{{scope}}: spent"],
              [monthly("limit", ofTeams), "{{scope}}: limit"],
              [monthlyOfKeys("spent"), "{{scope}}: spent"],
              [monthlyOfKeys("limit"), "{{scope}}: limit"],
            ],
            since: "31d",
            noValue: "no monthly budget",
          }),
        ],
        [
          10,
          barFor({
            title: "Refusals by key",
            description:
              "Refused requests over the time range, for the 20 pairs of a chosen key and an error code with the most. Includes refusals for other reasons than budgets.",
            unit: "short",
            decimals: 0,
            queries: [
              [
                `sort_desc(topk(20, ${overRange("farebox_key_refusals_total", "key, code", chosen("key"))} > 0))`,
                "{{key}}: {{code}}",
              ],
            ],
            noValue: "none",
          }),
        ],
      ],
    },
    {
      height: 10,
      panels: [
        [
          10,
          barFor({
            title: "Spent by window",
            description: "Share of the limit that is spent, for the 20 most used windows.",
            unit: "percentunit",
            decimals: 1,
            max: 1,
            queries: [[`sort_desc(topk(20, ${used}))`, byBudget]],
            limits: { yellow: 0.8, red: 0.95 },
          }),
        ],
        [
          14,
          rowFor({
            title: "Limits, spent, held, remaining",
            description:
              "Current windows of the 100 most used budgets. The next request may hold at most the remaining amount.",
            unit: "currencyUSD",
            columns: { scope: "Scope", period: "Period" },
            queries: [
              [fullest(100, limit), "Limit"],
              [fullest(100, spent), "Spent"],
              [fullest(100, held), "Held"],
              [fullest(100, `${limit} - ${spent} - ${held}`), "Remaining"],
            ],
          }),
        ],
      ],
    },
    evenly(
      8,
      lines({
        title: "Spent by window over time",
        description:
          "Share of the limit that is spent, for the 20 most used windows. It resets to 0 when a window begins.",
        unit: "percentunit",
        queries: [[fullest(20, used), byBudget]],
      }),
      lines({
        title: "Remaining",
        description:
          "Limit minus spent and held amounts, for the 20 most used windows. The next request may hold at most this amount.",
        unit: "currencyUSD",
        queries: [[fullest(20, `${limit} - ${spent} - ${held}`), byBudget]],
      }),
      lines({
        title: "Held",
        description: "Amounts held until requests settle, for the 20 most used windows.",
        unit: "currencyUSD",
        queries: [[fullest(20, held), byBudget]],
      }),
    ),
  ],
});
