import { describe, expect, it } from "vitest";
import { everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { sums } from "../support/ledger-contract.ts";
import { assumed, budget, endAt, holdOf, ledgerKinds, noon, posting, taskOf } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

describe.each(ledgerKinds)("orphaned holds in the ledger: $name", (kind) => {
  it("posts holds whose owner, the process that placed them, is gone, except those of bound tasks", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.setBudget(budget(everyRequest, "1d", "20"), noon);
      await before.ledger.hold(holdOf("a", usd("1")));
      await before.ledger.hold(holdOf("b", usd("2"), { kind: "task" }));
      await before.tasks.bind(taskOf("b"));
      await before.ledger.hold(holdOf("unbound", usd("8"), { kind: "task" }));
      expect(await before.ledger.recover(noon)).toBe(0);
    }
    await using store = await home.open();
    await store.ledger.hold(holdOf("c", usd("4")));
    expect(await store.ledger.recover(noon + 7)).toBe(2);
    expect(await store.ledger.recover(noon + 7)).toBe(0);
    expect(await store.ledger.charge("unbound")).toMatchObject({
      state: "posted",
      cost: usd("8"),
      source: "assumed",
      reason: "crash",
    });
    expect(await store.ledger.charge("a")).toMatchObject({
      state: "posted",
      cost: usd("1"),
      formula: "assumed",
      source: "assumed",
      reason: "crash",
      endedAt: noon + 7,
    });
    expect(await store.ledger.charge("b")).toMatchObject({ state: "pending" });
    expect(await sums(store)).toEqual([{ id: "all/1d", subject: "", spent: usd("9"), held: usd("6") }]);
    expect(await store.ledger.verify()).toEqual({ charges: 4, differences: [] });
  });

  it("never lowers the posted charge of an orphaned hold for an answer that was not read to its end", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      for (const id of ["less", "more"]) await before.ledger.hold(holdOf(id, usd("1")));
    }
    await using store = await home.open();
    expect(await store.ledger.recover(noon + 7)).toBe(2);
    const cut = (tokens: number) => ({ ...posting(tokens, 0), source: "partial", reason: "client_left" }) as const;
    await store.ledger.post("less", cut(250_000), endAt(noon + 9));
    await store.ledger.post("more", cut(3_000_000), endAt(noon + 9));
    expect(await store.ledger.corrections(noon, noon + 100)).toMatchObject([{ amount: usd("2") }]);
  });

  it("corrects the posted charge of an orphaned hold to a later settlement, once", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.setBudget(budget(everyRequest, "1d", "20"), noon);
      for (const id of ["down", "up", "void", "assumed", "reported"]) await before.ledger.hold(holdOf(id, usd("1")));
      await before.ledger.post("reported", posting(1_000_000, 0), endAt(noon));
    }
    await using store = await home.open();
    expect(await store.ledger.recover(noon + 7)).toBe(4);
    for (let time = 0; time < 2; time++) {
      expect(await store.ledger.post("down", posting(250_000, 0), endAt(noon + 9))).toMatchObject({
        ok: true,
        first: false,
        state: "posted",
        cost: usd("1"),
      });
      await store.ledger.post("up", posting(3_000_000, 0), endAt(noon + 9));
      await store.ledger.void("void", "left", endAt(noon + 9));
      await store.ledger.post("assumed", assumed(usd("1")), endAt(noon + 9));
      await store.ledger.post("reported", posting(2_000_000, 0), endAt(noon + 9));
    }
    expect(await store.ledger.corrections(noon, noon + 100)).toMatchObject(
      [-usd("0.75"), usd("2"), -usd("1")].map((amount) => ({ amount, madeAt: noon + 9 })),
    );
    expect(
      (await store.audit.entries({ limit: 10 })).entries
        .filter(({ action }) => action === "charges.adjust")
        .map(({ by, object }) => [by, object]),
    ).toEqual([
      ["farebox", "charge:void"],
      ["farebox", "charge:up"],
      ["farebox", "charge:down"],
    ]);
    // List costs are twice the costs; an assumed charge claims no saving.
    expect(await store.ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
      { requests: 5, cost: usd("5.25"), listCost: usd("9.5") },
    ]);
    expect(await sums(store)).toMatchObject([{ spent: usd("5.25"), held: 0n }]);
    expect(await store.ledger.verify()).toEqual({ charges: 8, differences: [] });
  });

  it("lists old holds, oldest first, and states whether their owner is gone", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.hold(holdOf("b", usd("2"), { at: noon - 5, kind: "task" }));
      await before.ledger.hold(holdOf("runs", usd("2"), { at: noon - 6, kind: "task" }));
      await before.tasks.bind(taskOf("runs"));
      await before.ledger.hold(holdOf("a", null, { at: noon - 9 }));
      await before.ledger.hold(holdOf("ended", usd("2"), { at: noon - 7 }));
      await before.ledger.void("ended", "left", endAt(noon));
    }
    await using store = await home.open();
    await store.ledger.hold(holdOf("c", usd("1"), { at: noon }));
    expect(await store.ledger.oldHolds(noon)).toEqual([
      { id: "a", kind: "request", at: noon - 9, key: "k-alice", amount: null, isOrphaned: true },
      { id: "b", kind: "task", at: noon - 5, key: "k-alice", amount: usd("2"), isOrphaned: true },
    ]);
    // A command is not a proxy, so the holds that it places have no owner.
    const isCommand = kind.name === "sqlite in process";
    expect((await store.ledger.oldHolds(noon + 1)).at(-1)).toMatchObject({ id: "c", isOrphaned: isCommand });
  });
});
