import { describe, expect, it } from "vitest";
import { everyRequest } from "../../src/core/scope.ts";
import { picoUsdMax, usd, type PicoUsd } from "../../src/core/money.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("corrections in the ledger: $name", (kind) => {
  it("adds a correction as a separate row", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "5"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    const correction = {
      id: "fix-1",
      at: noon + 3 * 24 * hourMs,
      amount: -usd("0.05") as PicoUsd,
      why: "double billed",
      by: "root",
    };
    expect(await ledger.adjust("nothing", correction)).toBe("no_such_charge");
    expect(await ledger.adjust("a", correction)).toBe("not_posted");
    await ledger.post("a", posting(100_000, 0), endAt(noon));
    expect(await ledger.adjust("a", correction)).toBe("ok");
    expect(await ledger.adjust("a", correction)).toBe("repeated");
    // A correction has the time of its charge, whenever it is made, so that it changes the charge's windows and days.
    expect(await ledger.charge("fix-1")).toMatchObject({
      state: "posted",
      formula: "adjustment",
      cost: -usd("0.05"),
      listCost: null,
      source: "reported",
      reason: "double billed",
      key: "k-alice",
      at: noon,
      endedAt: noon + 3 * 24 * hourMs,
      adjusts: "a",
      adjustedBy: "root",
    });
    const again = (amount: bigint) => ledger.adjust("a", { ...correction, id: "fix-2", amount: amount as PicoUsd });
    expect(await ledger.adjust("fix-1", { ...correction, id: "fix-2" })).toBe("is_adjustment");
    expect(await again(-usd("0.050000000001"))).toBe("below_zero");
    expect(await again(picoUsdMax)).toBe("too_large");
    await ledger.hold(holdOf("v", usd("1")));
    await ledger.void("v", "left", endAt(noon));
    expect(await ledger.adjust("v", { ...correction, id: "fix-2" })).toBe("not_posted");
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.05") });
    expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
      { dimensions: { model: "model-a" }, requests: 1, cost: usd("0.05"), listCost: usd("0.2") },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
