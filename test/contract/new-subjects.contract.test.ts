import { describe, expect, it } from "vitest";
import { parseScope, type Caller, type Scope } from "../../src/core/scope.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import type { Store } from "../../src/ports/stores.ts";
import { clean } from "../support/ledger-contract.ts";
import { alice, bob, budget, holdOf, ledgerKinds, noon } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("new subjects of budgets in the ledger: $name", (kind) => {
  it("limits how many users a key may name for the first time on a day", async () => {
    await using home = kind.newHome(manualClock(noon), { subjectsMax: 3 });
    const hold = (store: Store, id: string, user: string | null, more: { at?: number; caller?: Caller } = {}) =>
      store.ledger.hold(holdOf(id, usd("0.1"), { ...more, caller: { ...(more.caller ?? alice), user } }));
    const tooMany = { ok: false, reason: "too_many_subjects" };
    {
      await using store = await home.open();
      await hold(store, "before", "u0");
      for (const scope of ["each-user", "each-key each-user"])
        await store.ledger.setBudget(budget(parseScope(scope) as Scope, "1h", "1", "soft"), noon);
      // A user of a charge from before the budget is known; a user without a budget does not count.
      expect(await hold(store, "known", "u0")).toMatchObject({ ok: true });
      expect(await hold(store, "a", "u1")).toMatchObject({ ok: true });
      expect(await hold(store, "b", "u2")).toEqual(tooMany);
      expect(await hold(store, "b", "u2", { caller: bob })).toMatchObject({ ok: true });
      expect((await store.ledger.windows(noon)).map(({ subject }) => subject)).not.toContain("k-alice u2");
    }
    await using store = await home.open();
    expect(await hold(store, "c", "u3")).toEqual(tooMany);
    // Neither another hour of a known user nor a repeated hold is new.
    expect(await hold(store, "d", "u1", { at: noon + hourMs })).toMatchObject({ ok: true });
    expect(await hold(store, "a", "u1")).toMatchObject({ ok: true });
    expect(await hold(store, "e", "u3", { at: noon + 24 * hourMs })).toMatchObject({ ok: true });
    expect(await hold(store, "f", "u4", { at: noon })).toEqual(tooMany);
    expect(await store.ledger.verify()).toMatchObject(clean);
  });

  it("opens no windows for unbounded requests of made-up models, and only a few for those above the limit", async () => {
    await using home = kind.newHome(manualClock(noon), { subjectsMax: 3 });
    await using store = await home.open();
    const { ledger } = store;
    const hold = (id: string, amount: PicoUsd | null, bounded = true) =>
      ledger.hold(holdOf(id, amount, { models: [`made-up-${id}`], bounded }));
    expect(await hold("early", null)).toMatchObject({ ok: true });
    await ledger.setBudget(budget(parseScope("key:k-alice each-model") as Scope, "1d", "1"), noon);
    const windows = async () => (await ledger.windows(noon)).map(({ subject }) => subject);
    expect(await windows()).toEqual(["made-up-early"]);
    const notBounded = { ok: false, reason: "not_bounded" };
    for (let index = 0; index < 6; index++) {
      expect(await hold(`m${index}`, null)).toEqual(notBounded);
      expect(await hold(`n${index}`, usd("0.1"), false)).toEqual(notBounded);
    }
    expect(await hold("early", null)).toEqual({ ok: true, room: null, keyRoom: null });
    expect(await windows()).toEqual(["made-up-early"]);
    for (let index = 0; index < 6; index++)
      expect(await hold(`r${index}`, usd("2"))).toMatchObject({ reason: index < 3 ? "no_room" : "too_many_subjects" });
    expect(await hold("last", null)).toEqual(notBounded);
    expect(await windows()).toHaveLength(4);
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
