import { describe, expect, it } from "vitest";
import { everyRequest, teamScope } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { budget, endAt, holdOf, ledgerKinds, noon, posting, priceId } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("settlement in the ledger: $name", (kind) => {
  it("moves a hold to spent when it is posted, and answers a repeat with the first result", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(teamScope("red"), "1mo", "10"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    expect(await ledger.post("a", posting(100_000, 25_000), endAt(noon + 5))).toEqual({
      ok: true,
      first: true,
      state: "posted",
      cost: usd("0.2"),
      overage: 0n,
    });
    expect(await ledger.post("a", posting(9, 9), endAt(noon + 9))).toEqual({
      ok: true,
      first: false,
      state: "posted",
      cost: usd("0.2"),
      overage: 0n,
    });
    expect(await ledger.void("a", "late", endAt(noon + 9))).toMatchObject({ first: false, state: "posted" });
    expect(await sums(store)).toEqual([{ id: "team:red/1mo", subject: "", spent: usd("0.2"), held: 0n }]);
    expect(await ledger.charge("a")).toEqual({
      adjusts: null,
      adjustedBy: null,
      consumption: null,
      id: "a",
      kind: "request",
      state: "posted",
      at: noon,
      endedAt: noon + 5,
      key: "k-alice",
      team: "red",
      route: "chat",
      model: "model-a",
      servedModel: "model-a-1",
      group: "general",
      stream: false,
      priceId,
      hold: usd("1"),
      basis: null,
      cost: usd("0.2"),
      listCost: usd("0.4"),
      overage: 0n,
      formula: "tokens",
      source: "reported",
      minimumApplied: false,
      clamped: false,
      tokens: posting(100_000, 25_000).tokens,
      status: 200,
      reason: null,
      gatewayRequestId: "gw-1",
      durationMs: 12.5,
      firstTokenMs: 3,
      tags: {},
      user: null,
      labels: {},
      models: ["model-a"],
      retry: 0,
      servedPriceId: null,
      billing: { serviceTier: null, calls: {} },
      runs: [],
      doubts: [],
      inDoubt: 0n,
      delivered: null,
    });
    expect(await ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it("counts cost above the hold as overage, even above the limit", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "0.1"), noon);
    await ledger.hold(holdOf("a", usd("0.1"), { tags: { job: "nightly" } }));
    expect(await ledger.post("a", posting(150_000, 0), endAt(noon))).toMatchObject({
      cost: usd("0.15"),
      overage: usd("0.05"),
    });
    expect(await sums(store)).toEqual([{ id: "all/total", subject: "", spent: usd("0.15"), held: 0n }]);
    expect(await ledger.hold(holdOf("b", usd("0")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect((await ledger.charge("a"))?.tags).toEqual({ job: "nightly" });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("releases the whole amount of a voided hold", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1h", "1"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    expect(await ledger.void("a", "gateway_400", endAt(noon))).toEqual({
      ok: true,
      first: true,
      state: "voided",
      cost: null,
      overage: 0n,
    });
    expect(await sums(store)).toEqual([{ id: "all/1h", subject: "", spent: 0n, held: 0n }]);
    expect(await ledger.post("a", posting(1, 1), endAt(noon))).toEqual({
      ok: true,
      first: false,
      state: "voided",
      cost: null,
      overage: 0n,
    });
    expect(await ledger.void("stranger", "x", endAt(noon))).toEqual({ ok: false, reason: "no_such_charge" });
    expect(await ledger.charge("a")).toMatchObject({
      state: "voided",
      reason: "gateway_400",
      cost: null,
      hold: usd("1"),
    });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("settles a charge whose names a database cannot store unchanged", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const odd = "a\0b\ud800 \\u0000";
    const results = await Promise.all([
      ledger.hold(holdOf("a", usd("0.1"), { model: odd })),
      ledger.hold(holdOf("b", usd("0.1"))),
    ]);
    expect(results.map(({ ok }) => ok)).toEqual([true, true]);
    const served = { ...endAt(noon), servedModel: odd, gatewayRequestId: odd };
    expect(await ledger.post("a", posting(100_000, 0), served)).toMatchObject({
      ok: true,
      first: true,
      cost: usd("0.1"),
    });
    expect((await ledger.charge("a"))?.servedModel?.endsWith("\\u0000")).toBe(true);
    expect(await ledger.charge("no\0such")).toBeUndefined();
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
