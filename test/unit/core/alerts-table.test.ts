import { describe, expect, it } from "vitest";
import {
  alertTypes,
  balanceAlerts,
  budgetAlerts,
  driftAlerts,
  refusalAlerts,
  unsettledAlerts,
} from "../../../src/core/alerts.ts";
import type { BudgetMode, BudgetWindow } from "../../../src/core/budget.ts";
import type { PicoUsd } from "../../../src/core/money.ts";

const pico = (amount: number) => BigInt(amount) as PicoUsd;
const windowOf = (
  spent: number,
  held = 0,
  changes: { mode?: BudgetMode; warnPercent?: number | null; limit?: number } = {},
): BudgetWindow => {
  const { mode = "hard", warnPercent = 80, limit = 1000 } = changes;
  const budget = {
    id: "b",
    scope: { kind: "eachKey", team: null },
    period: "1d",
    mode,
    limit: pico(limit),
    warnPercent,
  } as const;
  return { budget, subject: "k", start: 10, end: 20, spent: pico(spent), held: pico(held) };
};
const key = (threshold: string) => ({ dedupeKey: `budget b k from 10: ${threshold}`, keyUntil: 20 });
const day = { start: 100, end: 200 };
const daily = (threshold: string) => ({ dedupeKey: `day from 100: ${threshold}`, keyUntil: 200 });

describe("the alerts of a budget", () => {
  const warning = (window: BudgetWindow) => ({ type: "budget_warning", window, percent: 80, ...key("80% of 1000") });
  const reached = (window: BudgetWindow) => ({
    type: "budget_exhausted",
    window,
    cause: "reached",
    ...key(`reached ${window.budget.limit}`),
  });

  it.each<[string, BudgetWindow, readonly ("warning" | "reached")[]]>([
    ["nothing is spent", windowOf(0), []],
    ["one is missing to the warning", windowOf(799), []],
    ["the warning is due", windowOf(800), ["warning"]],
    ["what is held is no spending", windowOf(0, 999), []],
    ["it is full of holds", windowOf(0, 1000), ["reached"]],
    ["it is spent and held", windowOf(500, 500), ["reached"]],
    ["it is spent", windowOf(1000), ["warning", "reached"]],
    ["it is soft and spent", windowOf(1000, 9, { mode: "soft" }), ["warning"]],
    ["it is soft and spent beyond its limit", windowOf(1001, 0, { mode: "soft" }), ["warning", "reached"]],
    ["it warns of nothing", windowOf(999, 0, { warnPercent: null }), []],
    ["it is nothing and no one uses it", windowOf(0, 0, { limit: 0, warnPercent: null }), []],
    ["it is nothing and one is held", windowOf(0, 1, { limit: 0, warnPercent: null }), ["reached"]],
    ["it is nothing and warns", windowOf(0, 0, { limit: 0 }), []],
  ])("are due where %s", (_, window, expected) => {
    const alerts = expected.map((each) => (each === "warning" ? warning(window) : reached(window)));
    expect(budgetAlerts([window])).toEqual(alerts);
  });

  it("are those of every window", () => {
    const [one, other] = [windowOf(800), windowOf(0, 1000)];
    expect(budgetAlerts([one, windowOf(0), other])).toEqual([warning(one), reached(other)]);
  });

  it("of a refusal are due where waiting does not help", () => {
    const short = (window: BudgetWindow, exhausted: boolean) => ({ window, needed: pico(5), exhausted });
    expect(
      refusalAlerts([short(windowOf(999), true), short(windowOf(999), false), short(windowOf(1000), true)]),
    ).toEqual([
      { type: "budget_exhausted", window: windowOf(999), cause: "refused", needed: 5n, ...key("refused 1000") },
      reached(windowOf(1000)),
    ]);
  });
});

describe("the alerts of the account", () => {
  it.each<[balance: number, burn: number, floor: number | null, hoursMin: number | null, readonly object[]]>([
    [10, 1, null, null, []],
    [9, 0, 10, null, [{ type: "balance_low", balance: 9n, floor: 10n, ...daily("balance under 10") }]],
    [10, 0, 10, null, []],
    [
      9,
      1,
      null,
      10,
      [{ type: "balance_ends_soon", balance: 9n, burnPerHour: 1n, hoursMin: 10, ...daily("balance for 10 h") }],
    ],
    [10, 1, null, 10, []],
    [-1, 0, null, 10, []],
    [
      1,
      1,
      5,
      10,
      [
        { type: "balance_low", balance: 1n, floor: 5n, ...daily("balance under 5") },
        { type: "balance_ends_soon", balance: 1n, burnPerHour: 1n, hoursMin: 10, ...daily("balance for 10 h") },
      ],
    ],
  ])("with a balance of %i at %i an hour, a floor of %j and %j hours", (balance, burn, floor, hoursMin, alerts) => {
    expect(
      balanceAlerts(
        { balance: pico(balance), burnPerHour: pico(burn) },
        { floor: floor === null ? null : pico(floor), hoursMin },
        day,
      ),
    ).toEqual(alerts);
  });

  it("name what is unexplained, and what stays unsettled", () => {
    expect(driftAlerts({ difference: pico(-5), unexplained: pico(0) }, day)).toEqual([]);
    expect(driftAlerts({ difference: pico(-5), unexplained: pico(1) }, day)).toEqual([
      { type: "reconciliation_drift", difference: -5n, unexplained: 1n, ...daily("reconciliation drifts") },
    ]);
    expect(unsettledAlerts([], 60, day)).toEqual([]);
    expect(unsettledAlerts([7, 3, 5], 60, day)).toEqual([
      { type: "charges_unsettled", count: 3, oldestAt: 3, ageMs: 60, ...daily("unsettled after 60") },
    ]);
  });

  it("have types that webhooks name", () => {
    expect(alertTypes).toEqual([
      "budget_warning",
      "budget_exhausted",
      "balance_low",
      "balance_ends_soon",
      "reconciliation_drift",
      "charges_unsettled",
    ]);
  });
});
