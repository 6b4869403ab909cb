import { describe, expect, it } from "vitest";
import { everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { assumed, budget, endAt, holdOf, ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("extensions of holds in the ledger: $name", (kind) => {
  it("extends a hold by at most the remaining amount, and not at all if that is below the minimum", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    await ledger.hold(holdOf("a", usd("0.5")));
    expect(await ledger.extend("a", usd("0.2"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.2") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.3") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.1") },
    });
    expect(await ledger.extend("b", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: false, reason: "not_pending" });
    expect((await ledger.charge("a"))?.hold).toBe(usd("1"));
    // The cost of an assumed charge is its hold in the ledger.
    expect(await ledger.post("a", assumed(usd("0.5")), endAt(noon))).toMatchObject({ cost: usd("1"), overage: 0n });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: false, reason: "not_pending" });
    expect((await sums(store))[0]).toMatchObject({ spent: usd("1"), held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("holds the first slice of a growing hold under a hard budget, and otherwise the whole", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const growing = (id: string) => holdOf(id, usd("5"), { firstSlice: usd("0.3") });
    await ledger.setBudget(budget(everyRequest, "1d", "1", "soft"), noon);
    expect(await ledger.hold(growing("a"))).toMatchObject({ ok: true, room: null });
    expect((await ledger.charge("a"))?.hold).toBe(usd("5"));
    await ledger.setBudget(budget(everyRequest, "total", "5.5"), noon);
    expect(await ledger.hold(growing("b"))).toMatchObject({ ok: true, room: usd("0.2") });
    expect((await ledger.charge("b"))?.hold).toBe(usd("0.3"));
    expect(await ledger.hold(growing("c"))).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.3"), exhausted: false },
    });
    expect(await ledger.extend("b", usd("4.7"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.2") });
    expect(await ledger.post("b", assumed(usd("0.3")), endAt(noon))).toMatchObject({ cost: usd("0.5") });
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
