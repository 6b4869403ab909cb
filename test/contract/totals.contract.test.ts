import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { opened } from "../support/ledger-contract.ts";
import { assumed, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("totals in the ledger: $name", (kind) => {
  it("has totals of posted and pending charges since its creation, including corrections", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const nothing = await ledger.totals();
    const noAmounts = { reported: 0n, counted: 0n, partial: 0n, assumed: 0n };
    expect(nothing).toEqual({
      written: 0,
      posted: noAmounts,
      inDoubt: noAmounts,
      requests: 0,
      unpriced: 0,
      pending: 0,
      pendingUnpriced: 0,
      held: 0n,
    });
    for (const [index, id] of ["a", "b", "c", "d"].entries()) {
      await ledger.hold(holdOf(id, usd("1"), { at: noon - 90 * 24 * hourMs }));
      expect((await ledger.totals()).written).toBe(index + 1);
    }
    await ledger.hold(holdOf("e", null));
    await ledger.hold(holdOf("f", null));
    await ledger.post("a", posting(100_000, 0), endAt(noon));
    await ledger.post("b", { ...assumed(usd("1")), doubts: ["task_consumption", "time_based"] }, endAt(noon + 5));
    await ledger.post("e", assumed(null), endAt(noon + 6));
    await ledger.void("c", "gateway_400", endAt(noon));
    await ledger.adjust("a", { id: "fix", at: noon + 10, amount: usd("0.01"), why: "test", by: "root" });
    const { written, ...counted } = await ledger.totals();
    expect(written).toBeGreaterThanOrEqual(7);
    expect(counted).toEqual({
      posted: { reported: usd("0.11"), counted: 0n, partial: 0n, assumed: usd("1") },
      inDoubt: { ...noAmounts, assumed: usd("1") },
      requests: 3,
      unpriced: 1,
      pending: 2,
      pendingUnpriced: 1,
      held: usd("1"),
    });
    const fix = { madeAt: noon + 10, ofChargeAt: noon, amount: usd("0.01") };
    expect(await ledger.corrections(noon, noon + 1)).toEqual([fix]);
    expect(await ledger.corrections(noon + 10, noon + 11)).toEqual([fix]);
    expect(await ledger.corrections(noon + 1, noon + 10)).toEqual([]);
  });
});
