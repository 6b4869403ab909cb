import { parseScope, type Scope } from "../../src/core/scope.ts";
import type { Period } from "../../src/core/budget.ts";
import { usd } from "../../src/core/money.ts";
import type { HoldRequest, Ledger } from "../../src/ports/ledger.ts";
import { budget, endAt, holdOf, noon, posting } from "./ledger-fixtures.ts";

const hourMs = 3_600_000;
const longAgo = noon - 90 * 24 * hourMs;

/** Scopes with every condition, alone and combined, and with every kind of subject. */
export const everyScope: readonly Scope[] = [
  "all",
  "team:red",
  "key:k-1",
  "label:env=prod",
  "model:gpt-5*",
  "model:o3",
  "user:u%201",
  "tag:feature=search",
  "each-key",
  "each-model",
  "each-user",
  "each-tag:feature",
  "team:red each-key",
  "team:red each-user",
  "key:k-1 model:gpt-5*",
  "key:k-1 each-model",
  "each-key each-model",
  "each-key each-tag:feature",
  "label:env=prod user:u%201 each-model",
  "each-model each-user",
].map((text) => parseScope(text) as Scope);

/**
 * Returns the parts of a request that scopes distinguish. Each budget of `everyScope` applies to some of 12
 * consecutive requests.
 */
export function mixedRequest(index: number): Pick<HoldRequest, "caller" | "tags" | "model"> & {
  readonly models: readonly string[];
} {
  const key = index % 4;
  return {
    caller: {
      key: key === 3 ? "" : `k-${key}`,
      team: key === 2 ? "red" : null,
      labels: key === 1 ? { env: "prod" } : {},
      user: [null, "u 1", "u%2"][index % 3] ?? null,
    },
    tags: index % 5 === 0 ? {} : { feature: index % 2 === 0 ? "search" : "a b" },
    model: "alias",
    models: [["gpt-5"], ["gpt-5-mini", "o3"], ["o3"]][index % 3] ?? [],
  };
}

/** Sets budgets of every form of scope, with requests 90 days ago and in the last six hours, of which 12 are pending. */
export async function fillEveryScope(
  ledger: Pick<Ledger, "setBudget" | "hold" | "post">,
  periods: readonly Period[],
): Promise<void> {
  const budgets = everyScope.flatMap((scope) => periods.map((period) => budget(scope, period, "9000", "soft")));
  await Promise.all(budgets.map((each) => ledger.setBudget(each, longAgo)));
  const requests = Array.from({ length: 36 }, async (_, index) => {
    const at = index < 12 ? longAgo + index * hourMs : noon - (36 - index) * (hourMs / 4);
    const id = `mixed-${index}`;
    await ledger.hold(holdOf(id, usd("0.10"), { at, ...mixedRequest(index) }));
    if (index < 24) await ledger.post(id, posting(100 + index, index), endAt(at));
  });
  await Promise.all(requests);
}
