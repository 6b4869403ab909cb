import { describe, expect, it } from "vitest";
import type { Period } from "../../src/core/budget.ts";
import { usd } from "../../src/core/money.ts";
import { formatScope, isByUserOrTag } from "../../src/core/scope.ts";
import type { Store } from "../../src/ports/stores.ts";
import { everyScope, mixedRequest } from "../support/every-scope.ts";
import { budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const dayMs = 86_400_000;

const periods = ["1h", "1d", "1mo", "total"] as const;

/** Creates charges of several days in every state, with different keys, users, labels, tags and models. */
async function fill({ ledger }: Store): Promise<void> {
  for (let index = 0; index < 120; index++) {
    const at = noon - 5 * dayMs + index * 3_600_000;
    const id = `r${index}`;
    await ledger.hold(holdOf(id, usd("0.10"), { at, ...mixedRequest(index) }));
    if (index % 9 === 0) continue;
    if (index % 7 === 0) await ledger.void(id, "left", endAt(at));
    else
      await ledger.post(id, { ...posting(100 + index, index), ...(index % 2 === 0 && { answered: "o3" }) }, endAt(at));
    if (index % 20 === 1)
      await ledger.adjust(id, { id: `${id}-fix`, at, amount: usd("0.01"), why: "test", by: "root" });
  }
}

async function setAll({ ledger }: Store, at: number): Promise<void> {
  for (const scope of everyScope)
    for (const period of periods) await ledger.setBudget(budget(scope, period, "9000", "soft"), at);
}

describe.each(ledgerKinds)("budgets of every form of scope: $name", (kind) => {
  it("have the same windows whether they are set before or after the charges", async () => {
    await using homes = new AsyncDisposableStack();
    const [early, late] = [homes.use(kind.newHome(manualClock(noon))), homes.use(kind.newHome(manualClock(noon)))];
    await using before = await early.open();
    await setAll(before, noon - 6 * dayMs);
    await fill(before);
    expect(await before.ledger.verify()).toMatchObject({ differences: [] });
    await using after = await late.open();
    await fill(after);
    await setAll(after, noon);
    expect(await after.ledger.verify()).toMatchObject({ differences: [] });
    expect(await chargedWindows(after)).toEqual(await chargedWindows(before));
    const all = await after.ledger.windows(noon);
    const [byClients, others] = [true, false].map((is) =>
      all.filter(({ budget: { scope } }) => isByUserOrTag(scope) === is),
    );
    expect(byClients?.length).toBeGreaterThan(20);
    expect(await after.ledger.windows(noon, { byUserOrTag: false })).toEqual(others);
  });

  it("count holds, settlements and corrections that happen while they are set", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    await fill(store);
    // These changes happen between the reading of the sums and the opening of the windows.
    const changes = meanwhile(store);
    for (const scope of everyScope)
      for (const period of periods)
        await Promise.all([store.ledger.setBudget(budget(scope, period, "9000", "soft"), noon), changes.next()]);
    const { differences } = await store.ledger.verify();
    expect(differences).toEqual([]);
  });

  it.each<readonly Period[][]>([[["1h"]], [["1h", "1d"]]])(
    "admit known users but no more new ones after the clock was set back: %s",
    async (limited) => {
      await using home = kind.newHome(manualClock(noon), { subjectsMax: 2 });
      await using store = await home.open();
      const eachUser = everyScope.find((scope) => formatScope(scope) === "each-user");
      if (eachUser === undefined) throw new Error("each-user is one of them");
      for (const period of limited) await store.ledger.setBudget(budget(eachUser, period, "9000", "soft"), noon);
      const hold = async (user: string, at: number) => {
        const caller = { key: "k", team: null, user };
        return await store.ledger.hold(holdOf(`${user} ${at}`, usd("0.10"), { at, caller }));
      };
      // The clock was set back: windows of this hour are summed when they are opened.
      const earlier = noon - 3 * 3_600_000;
      expect(await hold("first", noon)).toMatchObject({ ok: true });
      expect(await hold("second", earlier)).toMatchObject({ ok: true });
      expect(await hold("first", earlier)).toMatchObject({ ok: true });
      expect(await hold("third", earlier)).toEqual({ ok: false, reason: "too_many_subjects" });
      expect(await hold("third", noon)).toEqual({ ok: false, reason: "too_many_subjects" });
    },
  );
});

/** Places, settles, corrects and voids charges, one per step. */
async function* meanwhile({ ledger }: Store): AsyncGenerator<void> {
  for (let index = 0; ; index++) {
    const id = `later${index}`;
    const caller = { key: `k-${index % 3}`, team: index % 2 === 0 ? "red" : null, user: `u ${index % 4}` };
    const at = noon - (index % 30) * 3_600_000;
    yield void (await ledger.hold(
      holdOf(id, usd("0.10"), { at, caller, tags: { feature: "search" }, models: ["gpt-5", "o3"], model: "alias" }),
    ));
    if (index % 2 === 0) yield void (await ledger.post(id, { ...posting(7, 1), answered: "o3" }, endAt(noon)));
    const old = `r${index * 9}`;
    if (index % 4 === 1) yield void (await ledger.void(old, "left", endAt(noon)));
    if (index % 4 === 3) yield void (await ledger.post(old, posting(11, 2), endAt(noon)));
    if (index % 3 === 0)
      yield void (await ledger.adjust(`r${index * 2 + 1}`, {
        id: `${id}-fix`,
        at: noon,
        amount: usd("0.02"),
        why: "test",
        by: "root",
      }));
  }
}

async function chargedWindows({ ledger }: Store): Promise<readonly string[]> {
  return (await ledger.windows(noon))
    .filter(({ spent, held }) => spent > 0n || held > 0n)
    .map(({ budget: { id }, subject, spent, held }) => `${id} ${subject}: ${spent}, ${held}`)
    .sort();
}
