import { describe, expect, it } from "vitest";
import { AlertChecks } from "../../../simulation/alert-checks.ts";
import { budgetAlerts } from "../../../src/core/alerts.ts";
import type { BudgetWindow } from "../../../src/core/budget.ts";
import { usd } from "../../../src/core/money.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import { budget, endAt, holdOf, memoryStore, noon, posting } from "../../support/ledger-fixtures.ts";

const hourMs = 3_600_000;
const noKeys: ReadonlySet<string> = new Set();

describe("the check that each found alert is sent", () => {
  it("reports an alert of an ended window that no later evaluation covers", async () => {
    const { checks, ledger, evaluate } = await world();
    await evaluate(noon);
    await evaluate(noon + hourMs);
    expect(await checks.missing(ledger, noKeys)).toEqual(["all/1h "]);
  });

  it("accepts an alert that is in the outbox", async () => {
    const { checks, ledger, evaluate } = await world();
    const keys = budgetAlerts(await evaluate(noon)).map(({ dedupeKey }) => dedupeKey);
    expect(await checks.missing(ledger, new Set(keys))).toEqual([]);
  });

  it("accepts that an alert has lost its cause", async () => {
    const { checks, ledger, evaluate } = await world();
    await evaluate(noon);
    await ledger.setBudget(budget(everyRequest, "1h", "2"), noon);
    expect(await checks.missing(ledger, noKeys)).toEqual([]);
  });

  it("accepts that a charge is settled after the last evaluation of its window", async () => {
    const { checks, ledger, evaluate, spend } = await world("0.5");
    expect(await evaluate(noon)).toEqual([]);
    await evaluate(noon + hourMs);
    await spend("late", 500_000);
    expect(await ledger.windowsToAlert(noon, 10)).toHaveLength(1);
    expect(await checks.missing(ledger, noKeys)).toEqual([]);
  });
});

/** Creates a ledger whose only budget, of USD 1 per hour, is spent in part. */
async function world(spent = "1") {
  const { ledger } = memoryStore();
  const checks = new AlertChecks();
  const spend = async (id: string, tokens: number) => {
    await ledger.hold(holdOf(id, usd("0")));
    await ledger.post(id, posting(tokens, 0), endAt(noon));
  };
  await ledger.setBudget(budget(everyRequest, "1h", "1"), noon);
  await spend("first", Number(spent) * 1_000_000);
  const evaluate = async (at: number): Promise<readonly BudgetWindow[]> => {
    const windows = await ledger.windowsToAlert(at, 10);
    checks.onEvaluated(at, windows);
    return windows;
  };
  return { checks, ledger, evaluate, spend };
}
