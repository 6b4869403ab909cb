import { describe, expect, it } from "vitest";
import type { AccountSample } from "../../src/core/account.ts";
import { usd } from "../../src/core/money.ts";
import { holdOf, ledgerKinds, noon } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

describe.each(ledgerKinds)("account samples in the ledger: $name", (kind) => {
  it("stores one account sample per instant until it is removed", async () => {
    await using home = kind.newHome(manualClock(noon));
    const { ledger, samples, ...store } = await home.open();
    await ledger.hold(holdOf("a", usd("9000000")));
    const before = await ledger.totals();
    const sample = (askedAt: number, more: Partial<AccountSample> = {}): AccountSample => ({
      askedAt,
      answeredAt: askedAt + 3,
      account: "7",
      figures: { equivalent_in_usd: "0.30000000000000004", used_credits: "123456789012345678901" },
      before,
      after: { ...before, posted: { ...before.posted, counted: usd("0.000000000001") } },
      ...more,
    });
    expect(await samples.latest()).toBeUndefined();
    expect(await samples.add(sample(noon + 2))).toBe(true);
    expect(await samples.add(sample(noon, { account: null, figures: {} }))).toBe(true);
    expect(await samples.add(sample(noon, { account: "8" }))).toBe(true);
    expect(await samples.list(noon, noon + 3)).toEqual([
      sample(noon, { account: null, figures: {} }),
      sample(noon + 2),
    ]);
    await store[Symbol.asyncDispose]();
    await using again = await home.open();
    expect(await again.samples.latest()).toEqual(sample(noon + 2));
    expect(await again.samples.list(noon + 1, noon + 2)).toEqual([]);
    await again.samples.remove(Array.from({ length: 500 }, (_, index) => noon + 2 + index));
    expect((await again.samples.list(0, noon * 2)).map(({ askedAt }) => askedAt)).toEqual([noon]);
  });
});
