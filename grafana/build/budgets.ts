import { dashboardOf, evenly } from "./dashboard.ts";
import { barFor, figure, lines, rowFor } from "./panels.ts";
import { ofLedger, perSecond } from "./queries.ts";

const gauge = (name: string, at = "") => ofLedger(`farebox_budget_${name}_usd`, "scope, period", "", at);
const part = (amount: string, at = "") => `${amount} / (${gauge("limit", at)} > 0)`;

const limit = gauge("limit");
const spent = gauge("spent");
const held = gauge("held");
const used = part(spent);
const taken = part(`(${spent} + ${held})`);

/** Selects the fullest windows at the end of the time range: a budget for each key may have a thousand. */
const fullest = (count: number, amount: string) =>
  `(${amount}) and on (scope, period) topk(${count}, ${part(gauge("spent", "@ end()"), "@ end()")})`;
const byBudget = "{{scope}} per {{period}}";
const ofBudgets = 'code=~"budget_.+"';

/** Builds the dashboard Budgets. */
export const budgets = dashboardOf({
  uid: "farebox-budgets",
  title: "Farebox: Budgets",
  description:
    "Spent, held and remaining of each budget's current window, and refusals. All amounts are read from the ledger.",
  since: "now-6h",
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
        description: "Windows with more than 80 % spent.",
        unit: "short",
        queries: [[`count(${used} > 0.8) or vector(0)`, "above 80 %"]],
        limits: { yellow: 1, red: 5 },
      }),
      figure({
        title: "Fullest window",
        description: "Largest spent part of any window.",
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
      height: 10,
      panels: [
        [
          10,
          barFor({
            title: "Spent by window",
            description: "Spent part of the limit of the 20 fullest windows.",
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
            description: "Current windows of the 100 fullest budgets. Remaining is what the next request may hold.",
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
        description: "Spent part of the limit of the 20 fullest windows; resets to 0 when a window begins.",
        unit: "percentunit",
        queries: [[fullest(20, used), byBudget]],
      }),
      lines({
        title: "Remaining",
        description: "Limit less spent less held, which the next request may hold, for the 20 fullest windows.",
        unit: "currencyUSD",
        queries: [[fullest(20, `${limit} - ${spent} - ${held}`), byBudget]],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Held",
        description: "Amounts held until requests settle, for the 20 fullest windows.",
        unit: "currencyUSD",
        queries: [[fullest(20, held), byBudget]],
      }),
      lines({
        title: "Budget refusals by code",
        description:
          "budget_exceeded: the budget cannot pay for the request. budget_held: it could, once running requests settle.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_refusals_total", "code", ofBudgets)}`, "{{code}}"]],
        noValue: "none",
      }),
      barFor({
        title: "Windows near their limit",
        description: "Windows with more than 80 % spent or held.",
        unit: "percentunit",
        decimals: 1,
        max: 1,
        queries: [[`sort_desc(topk(20, ${taken} > 0.8))`, byBudget]],
        limits: { yellow: 0.8, red: 0.95 },
        noValue: "none",
      }),
    ),
  ],
});
