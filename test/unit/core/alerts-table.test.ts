import { eachKeyScope, everyRequest, parseScope } from "../../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import {
  alertGroups,
  alertTypes,
  balanceAlerts,
  budgetAlerts,
  driftAlerts,
  raiseRequestAlerts,
  refusalAlerts,
  unsettledAlerts,
  type Alert,
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
    scope: eachKeyScope(),
    period: "1d",
    mode,
    limit: pico(limit),
    warnPercent,
  } as const;
  return { budget, subject: "k", start: 10, end: 20, spent: pico(spent), held: pico(held), raises: [] };
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
    ["are empty if nothing is spent", windowOf(0), []],
    ["are empty just below the warning threshold", windowOf(799), []],
    ["warn at the warning threshold", windowOf(800), ["warning"]],
    ["do not count holds towards the warning threshold", windowOf(0, 999), []],
    ["report a budget full of holds", windowOf(0, 1000), ["reached"]],
    ["report a budget that is spent and held in full", windowOf(500, 500), ["reached"]],
    ["warn about and report a spent budget", windowOf(1000), ["warning", "reached"]],
    ["only warn about a soft budget at its limit", windowOf(1000, 9, { mode: "soft" }), ["warning"]],
    [
      "warn about and report a soft budget above its limit",
      windowOf(1001, 0, { mode: "soft" }),
      ["warning", "reached"],
    ],
    ["are empty without a warning threshold", windowOf(999, 0, { warnPercent: null }), []],
    ["are empty for an unused budget of zero", windowOf(0, 0, { limit: 0, warnPercent: null }), []],
    ["report a budget of zero with a hold", windowOf(0, 1, { limit: 0, warnPercent: null }), ["reached"]],
    ["are empty for an unused budget of zero with a warning threshold", windowOf(0, 0, { limit: 0 }), []],
  ])("%s", (_, window, expected) => {
    const alerts = expected.map((each) => (each === "warning" ? warning(window) : reached(window)));
    expect(budgetAlerts([window])).toEqual(alerts);
  });

  it("cover every window", () => {
    const [one, other] = [windowOf(800), windowOf(0, 1000)];
    expect(budgetAlerts([one, windowOf(0), other])).toEqual([warning(one), reached(other)]);
  });

  it("are raised for a refusal only if waiting does not help", () => {
    const short = (window: BudgetWindow, exhausted: boolean) => ({ window, needed: pico(5), exhausted });
    expect(
      refusalAlerts([short(windowOf(999), true), short(windowOf(999), false), short(windowOf(1000), true)]),
    ).toEqual([
      { type: "budget_exhausted", window: windowOf(999), cause: "refused", needed: 5n, ...key("refused 1000") },
      reached(windowOf(1000)),
    ]);
  });
});

describe("alerts", () => {
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
  ])(
    "of the account are derived from a balance of %i, %i spent an hour, a floor of %j and a minimum of %j hours",
    (balance, burn, floor, hoursMin, alerts) => {
      expect(
        balanceAlerts(
          { balance: pico(balance), burnPerHour: pico(burn) },
          { floor: floor === null ? null : pico(floor), hoursMin },
          day,
        ),
      ).toEqual(alerts);
    },
  );

  it("state the unexplained difference and the unsettled charges", () => {
    expect(driftAlerts({ difference: pico(-5), unexplained: pico(0) }, day)).toEqual([]);
    expect(driftAlerts({ difference: pico(-5), unexplained: pico(1) }, day)).toEqual([
      { type: "reconciliation_drift", difference: -5n, unexplained: 1n, ...daily("reconciliation drifts") },
    ]);
    expect(unsettledAlerts([], 60, day)).toEqual([]);
    expect(unsettledAlerts([7, 3, 5], 60, day)).toEqual([
      { type: "charges_unsettled", count: 3, oldestAt: 3, ageMs: 60, ...daily("unsettled after 60") },
    ]);
  });

  it("have one of seven types", () => {
    expect(alertTypes).toEqual([
      "budget_warning",
      "budget_exhausted",
      "balance_low",
      "balance_ends_soon",
      "reconciliation_drift",
      "charges_unsettled",
      "raise_requested",
    ]);
  });

  it("are raised once for each raise request", () => {
    const budget = { scope: everyRequest, period: "1d" } as const;
    const request = { id: "raise_1", budget, subject: "", key: "k", amount: pico(5), why: "a demo", lapsesAt: 20 };
    const identity = { dedupeKey: "raise request raise_1", keyUntil: 20 };
    expect(raiseRequestAlerts([request])).toEqual([{ type: "raise_requested", request, ...identity }]);
  });
});

describe("the grouping of alerts", () => {
  const perUser = parseScope("each-user") ?? everyRequest;
  const subjectWindow = (
    subject: string,
    { scope = perUser, id = "b", start = 10 }: { scope?: typeof perUser; id?: string; start?: number } = {},
  ): BudgetWindow => {
    const window = windowOf(1000);
    return { ...window, budget: { ...window.budget, id, scope }, subject, start };
  };
  const identity = (window: BudgetWindow, threshold: string) => ({
    dedupeKey: `budget ${window.budget.id} ${window.subject} from ${window.start}: ${threshold}`,
    keyUntil: window.end,
  });
  const warned = (window: BudgetWindow, percent = 80): Alert => ({
    type: "budget_warning",
    window,
    percent,
    ...identity(window, `${percent}%`),
  });
  const reached = (window: BudgetWindow): Alert => ({
    type: "budget_exhausted",
    window,
    cause: "reached",
    ...identity(window, "reached"),
  });
  const refused = (window: BudgetWindow): Alert => ({
    type: "budget_exhausted",
    window,
    cause: "refused",
    needed: pico(5),
    ...identity(window, "refused"),
  });
  /** Returns alerts for `count` windows of one budget. */
  const many = (count: number, make: (window: BudgetWindow) => Alert, more: Parameters<typeof subjectWindow>[1] = {}) =>
    Array.from({ length: count }, (_, index) => make(subjectWindow(`u${index}`, more)));
  const balance = balanceAlerts({ balance: pico(1), burnPerHour: pico(0) }, { floor: pico(5), hoursMin: null }, day);

  it.each<[string, readonly Alert[], sizes: readonly number[]]>([
    ["nothing without alerts", [], []],
    ["a single alert alone", many(1, reached), [1]],
    ["five users of a budget separately", many(5, reached), [1, 1, 1, 1, 1]],
    ["six users of a budget together", many(6, reached), [6]],
    ["seven users of a budget together", many(7, reached), [7]],
    ["six refusals together", many(6, refused), [6]],
    ["six warnings together", many(6, warned), [6]],
    [
      "six keys separately, because clients cannot invent keys",
      many(6, reached, { scope: eachKeyScope() }),
      [1, 1, 1, 1, 1, 1],
    ],
    [
      "six windows of a scope without subjects separately",
      many(6, reached, { scope: everyRequest }),
      [1, 1, 1, 1, 1, 1],
    ],
    ["three alerts of each cause separately", [...many(3, reached), ...many(3, refused)], [1, 1, 1, 1, 1, 1]],
    ["six alerts of each cause in two groups", [...many(6, reached), ...many(6, refused)], [6, 6]],
    ["six alerts of each type in two groups", [...many(6, reached), ...many(6, warned)], [6, 6]],
    [
      "six alerts of each percentage in two groups",
      [...many(6, warned), ...many(6, (each) => warned(each, 90))],
      [6, 6],
    ],
    ["six alerts of each budget in two groups", [...many(6, reached), ...many(6, reached, { id: "c" })], [6, 6]],
    ["six alerts of each start in two groups", [...many(6, reached), ...many(6, reached, { start: 20 })], [6, 6]],
    [
      "three alerts of each start separately",
      [...many(3, reached), ...many(3, reached, { start: 20 })],
      [1, 1, 1, 1, 1, 1],
    ],
    ["alerts of the account separately", [...balance, ...many(6, reached)], [1, 6]],
  ])("sends %s", (_, alerts, sizes) => {
    const groups = alertGroups(alerts);
    expect(groups.map(({ others }) => 1 + others.length)).toStrictEqual(sizes);
    expect(groups.flatMap(({ alert, others }) => [alert, ...others])).toStrictEqual(alerts);
  });

  it("puts the first alert of each group first when groups are mixed", () => {
    const [one, other] = [many(6, reached), many(6, warned)];
    const mixed = one.flatMap((each, index) => [each, other[index]].filter((every) => every !== undefined));
    expect(alertGroups(mixed)).toStrictEqual([
      { alert: one[0], others: one.slice(1) },
      { alert: other[0], others: other.slice(1) },
    ]);
  });
});
