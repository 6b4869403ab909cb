import { keyScope } from "../../../src/core/scope.ts";
import { array, assert, bigInt, constantFrom, integer, option, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  balanceAlerts,
  budgetAlerts,
  driftAlerts,
  isAlertDue,
  refusalAlerts,
  unsettledAlerts,
  type Alert,
} from "../../../src/core/alerts.ts";
import { shortageOf, type BudgetWindow } from "../../../src/core/budget.ts";
import { noMoney, usd, type PicoUsd } from "../../../src/core/money.ts";

const day = { start: 1000, end: 2000 };

function window(
  more: {
    limit?: string;
    spent?: string;
    held?: string;
    mode?: "hard" | "soft";
    warnPercent?: number | null;
    start?: number;
  } = {},
): BudgetWindow {
  const { limit = "5", spent = "0", held = "0", mode = "hard", warnPercent = 80, start = 0 } = more;
  return {
    budget: { id: "key:k/1d", scope: keyScope("k"), period: "1d", mode, limit: usd(limit), warnPercent },
    subject: "",
    start,
    end: start + 86_400_000,
    spent: usd(spent),
    held: usd(held),
    raises: [],
  };
}

const kinds = (alerts: readonly Alert[]) =>
  alerts.map((alert) => (alert.type === "budget_exhausted" ? alert.cause : alert.type));

describe("budget alerts", () => {
  it.each([
    ["raise nothing below the threshold", { spent: "3.999999999999" }, []],
    ["warn at the threshold", { spent: "4" }, ["budget_warning"]],
    ["do not count holds towards the threshold", { spent: "3.9", held: "1" }, []],
    ["report a budget full of holds", { spent: "3.9", held: "1.1" }, ["reached"]],
    ["report a budget that is used up", { spent: "5" }, ["budget_warning", "reached"]],
    ["report a budget with overage", { spent: "5.1" }, ["budget_warning", "reached"]],
    ["raise nothing without a threshold", { spent: "4.9", warnPercent: null }, []],
    ["raise nothing for a soft budget at its limit", { spent: "5", mode: "soft", warnPercent: null }, []],
    [
      "raise nothing for a soft budget whose holds exceed its limit",
      { spent: "5", held: "9", mode: "soft", warnPercent: null },
      [],
    ],
    ["report an overspent soft budget", { spent: "5.000000000001", mode: "soft", warnPercent: null }, ["reached"]],
    ["raise nothing for an unused budget of 0", { limit: "0" }, []],
    [
      "report a soft budget of 0 with spending",
      { limit: "0", spent: "0.01", mode: "soft" },
      ["budget_warning", "reached"],
    ],
    ["warn at a threshold of 100 percent", { spent: "5", warnPercent: 100 }, ["budget_warning", "reached"]],
  ] as const)("%s", (_what, more, expected) => {
    expect(kinds(budgetAlerts([window(more)]))).toEqual(expected);
  });

  it("report a refusal unless the request only had to wait for other holds", () => {
    const refused = (more: Parameters<typeof window>[0], needed: string) =>
      kinds(refusalAlerts([shortageOf(window(more), usd(needed))].filter((each) => each !== null)));
    expect(refused({ spent: "4.9" }, "0.2")).toEqual(["refused"]);
    expect(refused({ spent: "5" }, "0.2")).toEqual(["reached"]);
    expect(refused({ spent: "1", held: "3.9" }, "0.2")).toEqual([]);
  });

  it("have one dedupe key for each window, threshold and limit", () => {
    const keyOf = (more: Parameters<typeof window>[0]) => budgetAlerts([window(more)])[0]?.dedupeKey;
    expect(keyOf({ spent: "4" })).toBe(keyOf({ spent: "4.5" }));
    const others = [
      { spent: "4", start: 86_400_000 },
      { spent: "4.2", limit: "5.1" },
      { spent: "4", warnPercent: 70 },
    ].map(keyOf);
    expect(new Set([keyOf({ spent: "4" }), ...others]).size).toBe(4);
  });

  it("fire once for each window and threshold, at the first check that meets the threshold", () => {
    const step = record({
      spend: bigInt({ min: 0n, max: 400n }),
      hold: bigInt({ min: -300n, max: 300n }),
      needed: option(bigInt({ min: 1n, max: 900n })),
      next: integer({ min: 0, max: 9 }),
    });
    const story = record({
      limit: bigInt({ min: 0n, max: 1000n }),
      percent: option(integer({ min: 1, max: 100 })),
      mode: constantFrom("hard" as const, "soft" as const),
      steps: array(step, { maxLength: 40 }),
    });
    assert(
      property(story, ({ limit, percent, mode, steps }) => {
        const sent = new Set<string>();
        let [spent, held, start] = [0n, 0n, 0];
        for (const { spend, hold, needed, next } of steps) {
          if (next === 0) [spent, held, start] = [0n, 0n, start + 1];
          spent += spend;
          held = held + hold < 0n ? 0n : held + hold;
          const now: BudgetWindow = {
            ...window({ mode, warnPercent: percent, start }),
            spent: spent as PicoUsd,
            held: held as PicoUsd,
          };
          const here = { ...now, budget: { ...now.budget, limit: limit as PicoUsd } };
          const shortage = needed === null ? null : shortageOf(here, needed as PicoUsd);
          const alerts = [...budgetAlerts([here]), ...refusalAlerts(shortage === null ? [] : [shortage])];
          const fresh = alerts.filter(({ dedupeKey }) => !sent.has(dedupeKey));
          for (const { dedupeKey } of fresh) sent.add(dedupeKey);

          // The conditions, stated independently of the code.
          const warns = percent !== null && spent > 0n && spent * 100n >= limit * BigInt(percent);
          const full = mode === "hard" ? spent + held > 0n && spent + held >= limit : spent > limit;
          const refuses = mode === "hard" && needed !== null && spent + needed > limit && spent + held + needed > limit;
          expect(isAlertDue(here, () => false)).toBe(warns || full);
          expect(isAlertDue(here, (key) => sent.has(key))).toBe(false);
          const due = [warns && "warning", full && "reached", refuses && !full && "refused"].filter(
            (name) => name !== false,
          );
          expect(new Set(alerts.map(({ dedupeKey }) => dedupeKey)).size).toBe(due.length);
          for (const alert of fresh) expect(kinds([alert])[0]?.replace("budget_", "")).toBeOneOf(due);
          expect(sent.size).toBeLessThanOrEqual(3 * (start + 1));
        }
      }),
    );
  });
});

describe("account alerts", () => {
  const rules = { floor: usd("10"), hoursMin: 24 };
  const types = (balance: string, burn: string, more: Partial<typeof rules> = {}) =>
    balanceAlerts({ balance: usd(balance), burnPerHour: usd(burn) }, { ...rules, ...more }, day).map(
      ({ type }) => type,
    );

  it("report a balance that is below the floor or ends too soon", () => {
    expect(types("10", "0")).toEqual([]);
    expect(types("9.99", "0")).toEqual(["balance_low"]);
    expect(types("24", "1")).toEqual([]);
    expect(types("23.999999999999", "1")).toEqual(["balance_ends_soon"]);
    expect(types("0", "0")).toEqual(["balance_low"]);
    expect(balanceAlerts({ balance: usd("0"), burnPerHour: usd("1") }, { floor: null, hoursMin: null }, day)).toEqual(
      [],
    );
    expect(balanceAlerts({ balance: -5n as PicoUsd, burnPerHour: usd("1") }, rules, day)).toHaveLength(2);
  });

  it("have one dedupe key a day", () => {
    const keyOf = (balance: string, of = day) =>
      balanceAlerts({ balance: usd(balance), burnPerHour: noMoney }, rules, of)[0];
    expect(keyOf("9")?.dedupeKey).toBe(keyOf("3")?.dedupeKey);
    expect(keyOf("9")?.dedupeKey).not.toBe(keyOf("9", { start: 2000, end: 3000 })?.dedupeKey);
    expect(keyOf("9")?.keyUntil).toBe(2000);
  });

  it("report drift only if part of the difference is unexplained", () => {
    expect(driftAlerts({ difference: usd("1"), unexplained: noMoney }, day)).toEqual([]);
    expect(driftAlerts({ difference: -1n as PicoUsd, unexplained: 1n as PicoUsd }, day)).toMatchObject([
      { type: "reconciliation_drift", difference: -1n },
    ]);
  });
});

it("unsettled charges are reported with their count and the time of the oldest", () => {
  expect(unsettledAlerts([], 60_000, day)).toEqual([]);
  expect(unsettledAlerts([7, 3, 5], 60_000, day)).toMatchObject([
    { type: "charges_unsettled", count: 3, oldestAt: 3, keyUntil: 2000 },
  ]);
});
