import { describe, expect, it } from "vitest";
import { parseScope, everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { clean, opened } from "../support/ledger-contract.ts";
import { bob, budget, holdOf, ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("budgets on models in the ledger: $name", (kind) => {
  it("refuses an unbounded hold that an unknown model may answer, under a hard budget on models", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const scopeOf = (text: string) => parseScope(text) ?? everyRequest;
    await ledger.setBudget(budget(scopeOf("key:k-alice model:gpt-5*"), "1d", "1"), noon);
    await ledger.setBudget(budget(scopeOf("key:k-bob model:gpt-5*"), "1d", "1", "soft"), noon);
    const unknown = { models: ["GPT-5"], anyModel: true, bounded: false } as const;
    const notBounded = { ok: false, reason: "not_bounded" };
    expect(await ledger.hold(holdOf("a", null, unknown))).toEqual(notBounded);
    expect(await ledger.hold(holdOf("a", usd("1"), unknown))).toEqual(notBounded);
    const answers = await Promise.all([
      ledger.hold(holdOf("b", null, { ...unknown, caller: bob })),
      ledger.hold(holdOf("c", null, { ...unknown, models: ["o3"], anyModel: false })),
      ledger.hold(holdOf("d", usd("1"), { ...unknown, bounded: true })),
      ledger.hold(holdOf("e", null, unknown)),
    ]);
    expect(answers.map(({ ok }) => ok)).toEqual([true, true, true, false]);
    // A budget that is set later does not make a repeated hold fail.
    await ledger.setBudget(budget(scopeOf("key:k-bob model:gpt-5*"), "1d", "1"), noon);
    expect(await ledger.hold(holdOf("b", null, { ...unknown, caller: bob }))).toMatchObject({ ok: true });
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
