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

/** With a thousand keys a budget for each is a thousand windows: only those that are fullest at the end of the time range. */
const fullest = (count: number, amount: string) =>
  `(${amount}) and on (scope, period) topk(${count}, ${part(gauge("spent", "@ end()"), "@ end()")})`;
const byBudget = "{{scope}} per {{period}}";
const ofBudgets = 'code=~"budget_.+"';

/** Who is near a limit? */
export const budgets = dashboardOf({
  uid: "farebox-budgets",
  title: "Farebox: Budgets",
  description:
    "What each budget's current window has spent, holds and has left, and who was refused. All amounts are read from the ledger.",
  since: "now-6h",
  rows: [
    evenly(
      4,
      figure({
        title: "Budgets",
        description: "Windows of budgets that are in force now.",
        unit: "short",
        queries: [[`count(${limit}) or vector(0)`, "budgets"]],
      }),
      figure({
        title: "Above 80 %",
        description: "Windows of which more than 80 % is spent.",
        unit: "short",
        queries: [[`count(${used} > 0.8) or vector(0)`, "above 80 %"]],
        limits: { yellow: 1, red: 5 },
      }),
      figure({
        title: "Fullest window",
        description: "The largest part that any window has spent.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`max(${used})`, "spent"]],
        limits: { yellow: 0.8, red: 0.95 },
      }),
      figure({
        title: "Refused for a budget",
        description: "402 budget_exceeded and 429 budget_held, a minute.",
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
            title: "Spent of each window",
            description: "The part of its limit that each budget's current window has spent, the 20 fullest.",
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
            description: "The current windows of the 100 fullest budgets. Remaining is what the next request may hold.",
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
        title: "Spent of each window over time",
        description: "The part of the limit that is spent, of the 20 fullest; falls to 0 where a new window begins.",
        unit: "percentunit",
        queries: [[fullest(20, used), byBudget]],
      }),
      lines({
        title: "Remaining",
        description: "Limit less spent less held: what the next request may hold. Of the 20 fullest windows.",
        unit: "currencyUSD",
        queries: [[fullest(20, `${limit} - ${spent} - ${held}`), byBudget]],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Held by running requests",
        description: "Reserved until the requests settle. Of the 20 fullest windows.",
        unit: "currencyUSD",
        queries: [[fullest(20, held), byBudget]],
      }),
      lines({
        title: "Refusals for a budget",
        description:
          "budget_exceeded: the budget cannot pay for the request. budget_held: it could, once running requests settle.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_refusals_total", "code", ofBudgets)}`, "{{code}}"]],
        noValue: "none",
      }),
      barFor({
        title: "Windows near their limit",
        description: "Windows of which more than 80 % is spent or held.",
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
