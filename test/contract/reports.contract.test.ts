import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { clean } from "../support/ledger-contract.ts";
import { alice, assumed, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("reports in the ledger: $name", (kind) => {
  it("reports by several dimensions, with the same sums from quarter hours and from days", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open("Europe/Berlin");
    const { ledger } = store;
    const times = [noon - 30 * hourMs, noon - 3, noon, noon + 20 * 60_000, noon + 13 * hourMs, noon + 40 * hourMs];
    for (const [n, at] of times.entries()) {
      await ledger.hold(holdOf(`r${n}`, usd("1"), { at, caller: n % 2 === 0 ? alice : { key: "", team: null } }));
      await ledger.post(`r${n}`, n === 2 ? assumed(usd("1")) : posting(1000, n), endAt(at));
    }
    const rows = await ledger.report({ by: ["day"], since: noon - 40 * hourMs, until: noon + 60 * hourMs });
    expect(rows.map(({ dimensions, requests }) => [dimensions.day, requests])).toEqual([
      ["2026-11-19", 1],
      ["2026-11-20", 3],
      ["2026-11-21", 1],
      ["2026-11-22", 1],
    ]);
    expect(await ledger.report({ by: ["key", "team"], since: noon - 20 * 60_000, until: noon + 60_000 })).toEqual([
      {
        dimensions: { key: null, team: null },
        requests: 1,
        unpricedRequests: 0,
        retries: 0,
        tokens: posting(1000, 1).tokens,
        cost: posting(1000, 1).cost,
        listCost: posting(1000, 1).listCost,
        inDoubt: 0n,
        bySource: { reported: { requests: 1, cost: posting(1000, 1).cost } },
      },
      {
        dimensions: { key: "k-alice", team: "red" },
        requests: 1,
        unpricedRequests: 0,
        retries: 0,
        tokens: posting(0, 0).tokens,
        cost: usd("1"),
        listCost: usd("1"),
        inDoubt: 0n,
        bySource: { assumed: { requests: 1, cost: usd("1") } },
      },
    ]);
    const hours = await ledger.report({ by: ["hour", "group"], since: noon - hourMs, until: noon + hourMs });
    expect(hours.map(({ dimensions, requests }) => [dimensions, requests])).toEqual([
      [{ hour: "2026-11-20T11:00:00.000Z", group: "general" }, 1],
      [{ hour: "2026-11-20T12:00:00.000Z", group: "general" }, 2],
    ]);
    const whole = await ledger.report({ by: [], since: noon - 100 * hourMs, until: noon + 100 * hourMs });
    const byHour = await ledger.report({ by: ["hour"], since: noon - 100 * hourMs, until: noon + 100 * hourMs });
    expect(byHour.reduce((total, { cost }) => total + cost, 0n)).toBe(whole[0]?.cost);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("counts each posted retry of a client once, whichever attempt it is", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using store = await home.open();
      const { ledger } = store;
      for (const retry of [0, 1, 2, 3, 4]) await ledger.hold(holdOf(`r${retry}`, usd("1"), { retry }));
      for (const retry of [0, 1, 2]) await ledger.post(`r${retry}`, posting(1000, 10), endAt(noon));
      await ledger.void("r3", "gateway_429", endAt(noon));
      await ledger.adjust("r2", { id: "fix", at: noon, amount: usd("0.01"), why: "test", by: "root" });
      expect(await ledger.charge("r2")).toMatchObject({ retry: 2 });
      expect(await ledger.charge("fix")).toMatchObject({ retry: 0 });
      expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
        { requests: 3, retries: 2 },
      ]);
    }
    // The owner of this hold has ended, so that only the row states it.
    await using store = await home.open("America/New_York");
    const { ledger } = store;
    expect((await ledger.pending()).count).toBe(1);
    await ledger.post("r4", posting(1000, 10), endAt(noon));
    for (const by of ["hour", "day"] as const) {
      expect(await ledger.report({ by: [by], since: noon - 24 * hourMs, until: noon + 24 * hourMs })).toMatchObject([
        { requests: 4, retries: 3 },
      ]);
    }
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
