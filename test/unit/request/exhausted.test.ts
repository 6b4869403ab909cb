import { describe, expect, it } from "vitest";
import type { Budget, BudgetWindow } from "../../../src/core/budget.ts";
import { usd } from "../../../src/core/money.ts";
import { everyRequest, type Caller } from "../../../src/core/scope.ts";
import type { Catalogue } from "../../../src/ports/catalogue.ts";
import type { Exchange } from "../../../src/ports/exchange.ts";
import { LedgerUnavailable } from "../../../src/ports/ledger.ts";
import { createExhaustedCheck } from "../../../src/request/exhausted.ts";
import { plainUser, type StoredUser } from "../../../src/wire/headers.ts";
import { silentLog } from "../../support/captured-log.ts";
import { manualClock } from "../../support/manual-clock.ts";

const budget: Budget = {
  id: "b",
  scope: everyRequest,
  period: "total",
  mode: "hard",
  limit: usd("1"),
  warnPercent: null,
};
const windowOf = (spent: string, held = "0", more: Partial<Budget> = {}): BudgetWindow => ({
  budget: { ...budget, ...more },
  subject: "",
  start: 0,
  end: null,
  spent: usd(spent),
  held: usd(held),
  raises: [],
});

/** Checks a request with these headers under these windows. Returns the refusal and the caller whose windows were read. */
async function check(
  windows: readonly BudgetWindow[] | Error,
  headers: Readonly<Record<string, string>> = {},
  { isFree = false, storedUser = plainUser as StoredUser | null } = {},
) {
  let checked: Caller | undefined;
  const find = createExhaustedCheck({
    async windowsOf(caller) {
      checked = caller;
      if (windows instanceof Error) throw windows;
      return windows;
    },
    catalogue: () => ({ histories: () => [] }) as unknown as Catalogue,
    storedUser,
    tagHeaders: [{ header: "x-agent", tag: "agent" }],
    clock: manualClock(),
    log: silentLog,
    budgetNames: async () => ({ scopeName: "all", subjectName: null }),
    ownView: "all",
  });
  const exchange = { id: "1", header: (name: string) => headers[name] } as unknown as Exchange;
  const refusal = await find(exchange, { key: null, team: null, caller: { key: "k", team: "t" } }, isFree);
  return { refusal, checked };
}

describe("the check before a large body", () => {
  it.each([
    ["nothing left", [windowOf("1")], true],
    ["less than nothing left", [windowOf("1.01")], true],
    ["nothing left in one of two windows", [windowOf("0"), windowOf("1")], true],
    ["a little left", [windowOf("0.999999999999")], false],
    ["everything held", [windowOf("0", "1")], false],
    ["a soft budget", [windowOf("2", "0", { mode: "soft" })], false],
    ["no budget", [], false],
  ] as const)("with %s: refused is %s", async (_, windows, isRefused) => {
    const { refusal } = await check(windows);
    expect(refusal?.code).toBe(isRefused ? "budget_exceeded" : undefined);
  });

  it("admits a request that may be free unless the budget is overspent", async () => {
    expect((await check([windowOf("1")], {}, { isFree: true })).refusal).toBeNull();
    expect((await check([windowOf("1.01")], {}, { isFree: true })).refusal).not.toBeNull();
  });

  it("admits everything if the ledger does not answer, and leaves invalid headers to the later check", async () => {
    expect((await check(new LedgerUnavailable("no"))).refusal).toBeNull();
    expect(await check([windowOf("1")], { "x-farebox-tag": "=" })).toEqual({ refusal: null, asked: undefined });
  });

  it("knows no user if the body may name one, and no models", async () => {
    const caller = { key: "k", team: "t", tags: {} };
    expect((await check([])).checked).toEqual({ ...caller, user: undefined });
    expect((await check([], { "x-farebox-user": "u" })).checked).toEqual({ ...caller, user: "u" });
    expect((await check([], { "x-farebox-tag": "a=b" })).checked).toEqual({ ...caller, tags: { a: "b" } });
    expect((await check([], { "x-agent": "a1" })).checked).toEqual({ ...caller, tags: { agent: "a1" } });
    expect((await check([], {}, { storedUser: null })).checked).toEqual({ ...caller, user: null });
  });
});
