import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isUsedUp, limitOf, type Budget } from "../../src/core/budget.ts";
import { formatScope, parseScope, eachKeyScope } from "../../src/core/scope.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import {
  budgetSorts,
  type BudgetListQuery,
  type ListQueries,
  type RankedBudget,
  type RankedWindow,
} from "../../src/ports/lists.ts";
import { runs } from "../support/effort.ts";
import {
  endAt,
  holdOf,
  inThreads,
  key,
  ledgerKinds,
  noon,
  posting,
  servedKind,
  type LedgerKind,
} from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

/*
 * Tests that the list of budgets agrees with the list of all windows. The list of budgets counts the keys that have no
 * window, but does not read them.
 */

const scopes = ["all", "team:red", "key:k-0", "key:k-1", "each-key", "team:red each-key", "team:blue each-key"];
const someKey = fc.nat(5);
const minutesAgo = fc.constantFrom(1, 14, 17, 90);
const minuteMs = 60_000;
/** Late in an hour, so that the windows of the hour and of the day differ. */
const at = noon + 50 * minuteMs;

/** Random keys with budgets of all kinds, spending, credits and refusals. */
const setups = fc.record({
  keys: fc.array(
    fc.record({
      team: fc.constantFrom(null, "red", "blue"),
      /** Team of its charges. The key may have changed teams since. */
      spends: fc.constantFrom(null, "red", "blue"),
      expiresAt: fc.constantFrom(null, at - 1, at + 1),
      isRevoked: fc.boolean(),
    }),
    { maxLength: 5 },
  ),
  budgets: fc.uniqueArray(
    fc.record({
      scope: fc.constantFrom(...scopes),
      period: fc.constantFrom("1d", "1h"),
      limit: fc.constantFrom("0", "0.001", "0.002", "1"),
      mode: fc.constantFrom("hard", "soft"),
      warnPercent: fc.constantFrom(null, 10, 100),
    }),
    { selector: ({ scope, period }) => `${scope}/${period}`, maxLength: 8 },
  ),
  spends: fc.array(
    fc.record({ key: someKey, input: fc.integer({ min: 1, max: 2500 }), isCredited: fc.boolean(), minutesAgo }),
    { maxLength: 8 },
  ),
  refusals: fc.array(
    fc.record({ key: someKey, scope: fc.constantFrom(...scopes), period: fc.constantFrom("1d", "1h"), minutesAgo }),
    { maxLength: 5 },
  ),
  raises: fc.array(
    fc.record({ budget: fc.nat(7), key: someKey, amount: fc.constantFrom("0.001", "2"), isOver: fc.boolean() }),
    { maxLength: 4 },
  ),
});
type Setup = typeof setups extends fc.Arbitrary<infer T> ? T : never;

async function companyOf(kind: LedgerKind, setup: Setup) {
  const owned = new AsyncDisposableStack();
  const home = owned.use(kind.newHome(manualClock(noon)));
  const { ledger, keys, lists, refusals } = owned.use(await home.open());
  for (const [index, { team, expiresAt, isRevoked }] of setup.keys.entries())
    await keys.create(
      key(`name-${index}`, { id: `k-${index}`, team, expiresAt, revokedAt: isRevoked ? at - 1 : null }),
    );
  for (const [index, spend] of setup.spends.entries()) {
    const spentAt = at - spend.minutesAgo * minuteMs;
    const caller = { key: `k-${spend.key}`, team: setup.keys[spend.key]?.spends ?? null };
    await ledger.hold(holdOf(`c${index}`, usd("1"), { at: spentAt, caller }));
    await ledger.post(`c${index}`, posting(spend.input, 0), endAt(spentAt));
    const credit = {
      id: `credit${index}`,
      at: spentAt,
      amount: -usd("0.00300000001") as PicoUsd,
      why: "credit",
      by: "root",
    };
    if (spend.isCredited) await ledger.adjust(`c${index}`, credit);
  }
  for (const { scope, ...rest } of setup.budgets) {
    const parsed = parseScope(scope);
    if (parsed === undefined) throw new Error(`${scope} must be a scope`);
    await ledger.setBudget({ ...rest, scope: parsed, limit: usd(rest.limit) } as Omit<Budget, "id">, at);
  }
  for (const { budget, key: subject, amount, isOver } of setup.raises) {
    const { scope, period } = setup.budgets[budget % setup.budgets.length] ?? {};
    if (scope === undefined || period === undefined) continue;
    const from = at - (at % 3_600_000);
    const raise = {
      scope,
      period,
      subject: scope.endsWith("each-key") ? `k-${subject}` : "",
      amount: usd(amount),
      from,
    };
    await ledger.raiseBudget({ ...raise, until: isOver ? at : at + 1, why: "test" }, at - 1);
  }
  for (const refusal of setup.refusals) {
    const refusedAt = at - refusal.minutesAgo * minuteMs;
    await refusals.add([
      {
        minute: refusedAt - (refusedAt % minuteMs),
        key: `k-${refusal.key}`,
        team: null,
        route: "chat",
        model: "model-a",
        code: "budget_exceeded",
        scope: refusal.scope,
        period: refusal.period,
        subject: /(?:^| )each-key/.test(refusal.scope) ? `k-${refusal.key}` : null,
        count: 1,
        firstAt: refusedAt,
        lastAt: refusedAt,
        needed: null,
      },
    ]);
  }
  return { lists, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

type RankedQuery = Pick<BudgetListQuery, "sort" | "search" | "scope" | "period" | "atRisk">;
const rankedQueries: readonly RankedQuery[] = [
  ...budgetSorts.map((sort) => ({ sort })),
  { sort: "share", atRisk: true },
  { sort: "share", search: "NAME-1" },
  { sort: "spent", search: "red" },
  { sort: "share", scope: eachKeyScope() },
  { sort: "share", period: "1h" },
];

const all = { at, limit: 1000 } as const;

const plainOf = ({ budget: { id }, windows, refusing, spent, fullest }: RankedBudget) => ({
  id,
  windows,
  refusing,
  spent,
  fullest: fullest.map(({ subject }) => subject),
});

/** Returns the expected result of `listBudgets`, computed from a list of all windows. */
async function rankedFromWindows(lists: ListQueries, { keys, budgets, raises }: Setup, query: RankedQuery) {
  const { sort, search, scope, period, atRisk = false } = query;
  const page = await lists.listWindows({ ...all, sort: "created", order: "asc", search, scope, period });
  const raised = new Set(
    raises.map(({ budget: index, key: subject }) => {
      const budget = budgets[index % budgets.length];
      return `${budget?.scope}/${budget?.period} k-${subject}`;
    }),
  );
  const byBudget = Map.groupBy(page?.rows ?? [], ({ budget: { id } }) => id);
  const rows = budgets.flatMap((budget, seq) => {
    const budgetWindows = byBudget.get(`${budget.scope}/${budget.period}`) ?? [];
    const isAsked =
      (scope === undefined || budget.scope === formatScope(scope)) &&
      (period === undefined || budget.period === period);
    const shown = budget.scope.replace(/^team:(.*) each-key$/, "each-key:$1");
    if (!isAsked || (budgetWindows.length === 0 && search !== undefined && !shown.includes(search))) return [];
    if (atRisk && !budgetWindows.some(isRisky)) return [];
    const id = `${budget.scope}/${budget.period}`;
    const spent = budgetWindows.reduce((total, window) => total + window.spent, 0n);
    const fullest = budgetWindows
      .filter(({ subject, spent: sum }) => subject === "" || sum !== 0n || raised.has(`${id} ${subject}`))
      .toSorted((a, b) => rankOf(b) - rankOf(a) || (a.subject < b.subject ? -1 : 1));
    const named = shown.replace(/^key:k-(\d)$/, (text, index: number) => (keys[index] ? `key:name-${index}` : text));
    const measure = {
      share: budgetWindows.length === 0 ? 0 : Math.max(...budgetWindows.map(rankOf)),
      spent,
      limit: usd(budget.limit),
      scope: `${named} ${budget.period}`,
    }[sort];
    const row = {
      id,
      windows: budgetWindows.length,
      refusing: budgetWindows.filter(({ refusing }) => refusing).length,
      spent,
      fullest: fullest.slice(0, 3).map(({ subject }) => subject),
    };
    return [{ row, measure, seq }];
  });
  return rows
    .toSorted((a, b) => (a.measure < b.measure ? 1 : a.measure > b.measure ? -1 : b.seq - a.seq))
    .map(({ row }) => row);
}

function shareOf(window: RankedWindow): number {
  const limit = limitOf(window);
  return limit === 0n ? 1 : Number(window.spent + window.held) / Number(limit);
}

function rankOf(window: RankedWindow): number {
  return (window.refusing ? 1e6 : 0) + Math.min(shareOf(window), 999_999);
}

function isRisky(window: RankedWindow): boolean {
  const { warnPercent } = window.budget;
  return window.refusing || shareOf(window) >= 0.8 || (warnPercent !== null && shareOf(window) * 100 >= warnPercent);
}

/** Threads only pass on the same results, so a few random cases suffice for them. */
const kinds = inThreads ? [...ledgerKinds, servedKind] : ledgerKinds;
const casesOf: Readonly<Record<string, number>> = { "sqlite in process": 200, "sqlite in threads": 5 };

describe.each(kinds)("the list of budgets: $name", (kind) => {
  it("counts, sums and ranks windows like the list of all windows", async () => {
    await fc.assert(
      fc.asyncProperty(setups, async (setup) => {
        await using filled = await companyOf(kind, setup);
        for (const query of rankedQueries) {
          const windows = await filled.lists.listWindows({ ...all, sort: "created", order: "asc" });
          const refusing = windows?.rows.filter((window) => window.refusing) ?? [];
          expect(refusing).toEqual(expect.arrayContaining(windows?.rows.filter(isUsedUp) ?? []));
          if (setup.refusals.length === 0) expect(refusing.filter((window) => !isUsedUp(window))).toEqual([]);
          const page = await filled.lists.listBudgets({ ...all, order: "desc", ...query });
          expect(page?.rows.map(plainOf)).toEqual(await rankedFromWindows(filled.lists, setup, query));
        }
      }),
      { numRuns: runs(casesOf[kind.name] ?? 30) },
    );
  });
});
