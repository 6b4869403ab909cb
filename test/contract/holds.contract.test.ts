import { describe, expect, it } from "vitest";
import { eachKeyScope, everyRequest, keyScope } from "../../src/core/scope.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import type { HoldResult } from "../../src/ports/ledger.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { alice, assumed, bob, budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

describe.each(ledgerKinds)("holds in the ledger: $name", (kind) => {
  it("admits one of two holds that together exceed the limit", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
    const results = await Promise.all([ledger.hold(holdOf("a", usd("0.60"))), ledger.hold(holdOf("b", usd("0.60")))]);
    expect(results[0]).toMatchObject({ ok: true, room: usd("0.40") });
    expect(results[1]).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.60"), exhausted: false },
    });
    expect(await ledger.hold(holdOf("c", usd("1.01")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect(await ledger.hold(holdOf("d", usd("0.40")))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("stays within the limit under 500 holds at once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "37"), noon);
    const results = await Promise.all(Array.from({ length: 500 }, (_, n) => ledger.hold(holdOf(`h${n}`, usd("1")))));
    expect(results.filter(({ ok }) => ok)).toHaveLength(37);
    expect(await sums(store)).toEqual([{ id: "all/1d", subject: "", spent: 0n, held: usd("37") }]);
    expect(await ledger.pending()).toEqual({ count: 37, oldestAt: noon });
  });

  it("states in each refusal the amount held at that moment, even for holds that arrive together", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
    const amounts = ["2", "3", "0.40", "2", "0.60", "2"];
    const results = await Promise.all(amounts.map((amount, n) => ledger.hold(holdOf(`h${n}`, usd(amount)))));
    expect(results.map((result) => ("shortage" in result ? result.shortage.window.held : result.ok))).toEqual([
      0n,
      0n,
      true,
      usd("0.40"),
      true,
      usd("1"),
    ]);
    expect(results[1]).toMatchObject({ shortage: { needed: usd("3"), exhausted: true } });
    await ledger.void("h2", "left", endAt(noon));
    expect(results[5]).toMatchObject({ shortage: { window: { held: usd("1") } } });
  });

  it("states the smallest remaining amount of all hard budgets, and of those that limit the key", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    await ledger.setBudget(budget(eachKeyScope(), "total", "5"), noon);
    await ledger.setBudget(budget(keyScope(alice.key), "1d", "0.1", "soft"), noon);
    const first = { ok: true, room: usd("0.7"), keyRoom: usd("4.7") };
    expect(await ledger.hold(holdOf("a", usd("0.3")))).toEqual(first);
    expect(await ledger.hold(holdOf("b", usd("0.2"), { caller: bob }))).toEqual({
      ok: true,
      room: usd("0.5"),
      keyRoom: usd("4.8"),
    });
    const keyless = holdOf("c", usd("0.1"), { caller: { key: "", team: null } });
    expect(await ledger.hold(keyless)).toEqual({ ok: true, room: usd("0.4"), keyRoom: null });
    await ledger.setBudget(budget(keyScope(alice.key), "1d", "0.7"), noon);
    expect(await ledger.hold(holdOf("d", usd("0.1")))).toEqual({ ok: true, room: usd("0.3"), keyRoom: usd("0.3") });
  });

  it("counts repeated holds of one id once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const results = await Promise.all([1, 2, 3].map(() => ledger.hold(holdOf("a", usd("0.7")))));
    expect(results).toEqual([1, 2, 3].map((): HoldResult => ({ ok: true, room: usd("0.3"), keyRoom: null })));
    await ledger.post("a", posting(1000, 0), endAt(noon));
    expect(await ledger.hold(holdOf("a", usd("0.7")))).toMatchObject({ ok: true });
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.001"), held: 0n });
  });

  it("writes a hold that is already owed above the limit, and admits others only once there is room again", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-alice"), "1d", "5"), noon);
    const owed = { isOwed: true };
    expect(await ledger.hold(holdOf("a", usd("0.60")))).toMatchObject({ ok: true, room: usd("0.40") });
    const results = await Promise.all(["b", "c"].map((id) => ledger.hold(holdOf(id, usd("0.60"), owed))));
    expect(results).toMatchObject([
      { ok: true, room: 0n },
      { ok: true, room: 0n },
    ]);
    expect(await ledger.hold(holdOf("b", usd("0.60"), owed))).toMatchObject({ ok: true });
    expect(await ledger.hold(holdOf("d", null, owed))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.hold(holdOf("e", usd("0.10"), { ...owed, bounded: false }))).toMatchObject({ ok: true });
    for (const amount of ["0", "0.01"])
      expect(await ledger.hold(holdOf("f", usd(amount)))).toMatchObject({ reason: "no_room" });
    expect(await ledger.charge("b")).toMatchObject({ state: "pending", hold: usd("0.60") });
    expect(await sums(store)).toEqual([
      { id: "all/total", subject: "", spent: 0n, held: usd("1.90") },
      { id: "key:k-alice/1d", subject: "", spent: 0n, held: usd("1.90") },
    ]);
    await ledger.post("a", assumed(usd("0.60")), endAt(noon));
    for (const id of ["b", "c", "e"]) await ledger.void(id, "left", endAt(noon));
    expect(await ledger.hold(holdOf("g", usd("0.40")))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("refuses unbounded holds only under a hard budget", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "1", "soft"), noon);
    expect(await ledger.hold(holdOf("a", null))).toMatchObject({ ok: true, room: null });
    expect(await ledger.hold(holdOf("b", usd("5"), { bounded: false }))).toMatchObject({ ok: true, room: null });
    expect(await ledger.extend("a", usd("1"), usd("1"), noon)).toEqual({ ok: true, granted: usd("1") });
    await ledger.setBudget(budget(keyScope("k-alice"), "1d", "100"), noon);
    expect(await ledger.hold(holdOf("c", null))).toEqual({ ok: false, reason: "not_bounded" });
    expect(await ledger.hold(holdOf("d", usd("1"), { bounded: false }))).toEqual({ ok: false, reason: "not_bounded" });
    expect(await ledger.hold(holdOf("e", null, { caller: bob }))).toMatchObject({ ok: true, room: null });
    await ledger.post("a", assumed(null), endAt(noon));
    expect(await ledger.charge("a")).toMatchObject({ cost: null, formula: "unpriced", source: "assumed" });
    expect(await ledger.report({ by: [], since: noon, until: noon + 1 })).toMatchObject([
      { requests: 1, unpricedRequests: 1, cost: 0n },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("fails only the faulty command of a batch", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using store = await home.open();
      const { ledger } = store;
      const bad = holdOf("bad", -1n as PicoUsd);
      const results = await Promise.allSettled([
        ledger.hold(holdOf("a", usd("1"))),
        ledger.hold(bad),
        ledger.hold(holdOf("b", usd("1"))),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      await ledger.post("a", posting(10, 10), endAt(noon));
      expect((await ledger.pending()).count).toBe(1);
      expect(await ledger.verify()).toEqual({ charges: 2, differences: [] });
    }
    // A restart gets a new owner, although the first transaction of the previous owner was rolled back.
    await using after = await home.open();
    await after.ledger.hold(holdOf("c", usd("1")));
    expect(await after.ledger.recover(noon)).toBe(1);
  });
});
