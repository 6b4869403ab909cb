import { describe, expect, it } from "vitest";
import { keyScope, sessionScope } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { alice, bob, budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("budgets of sessions in the ledger: $name", (kind) => {
  it("limits a key's requests of one session, and no others", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const inOne = { tags: { session: "run_one" } };
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "10"), noon);
    expect(await ledger.hold(holdOf("a", usd("0.60"), inOne))).toMatchObject({ ok: true, room: usd("0.40") });
    expect(await ledger.hold(holdOf("b", usd("0.60"), inOne))).toMatchObject({ ok: false, reason: "no_room" });
    const elsewhere = { tags: { session: "run_two" } };
    expect(await ledger.hold(holdOf("c", usd("2"), elsewhere))).toMatchObject({ ok: true, room: usd("7.40") });
    expect(await ledger.hold(holdOf("d", usd("2"), { caller: bob, ...inOne }))).toMatchObject({ ok: true, room: null });
    expect(await ledger.hold(holdOf("e", usd("2")))).toMatchObject({ ok: true, room: usd("5.40") });
    await ledger.post("a", posting(1000, 1000), endAt(noon));
    await ledger.adjust("a", { id: "a-fix", at: noon, amount: usd("0.1"), why: "bill", by: "root" });
    const spent = ((await ledger.charge("a"))?.cost ?? 0n) + usd("0.1");
    const id = "key:k-alice tag:session=run_one/total";
    expect((await sums(store))[0]).toEqual({ id, subject: "", spent, held: 0n });
    const inSession = await ledger.windowsOf({ ...alice, tags: { session: "run_one" } }, noon);
    expect(inSession.map((window) => window.budget.id)).toEqual([id, "key:k-alice/total"]);
    expect((await ledger.windowsOf(alice, noon)).map((window) => window.budget.id)).toEqual(["key:k-alice/total"]);
    expect(await ledger.verify()).toMatchObject(clean);
    expect(await ledger.removeBudget("key:k-alice tag:session=run_one", "total", noon)).toBe(true);
    expect(await ledger.hold(holdOf("f", usd("2"), inOne))).toMatchObject({ ok: true });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("builds a session's window from existing charges", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const tags = { session: "run_one", feature: "a b" };
    for (const id of ["posted", "held"]) await ledger.hold(holdOf(id, usd("1"), { tags }));
    await ledger.hold(holdOf("other", usd("1"), { tags: { feature: "run_one" } }));
    await ledger.post("posted", posting(1000, 1000), endAt(noon));
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "5"), noon);
    const spent = (await ledger.charge("posted"))?.cost;
    expect(await sums(store)).toMatchObject([{ spent, held: usd("1") }]);
    await ledger.void("held", "left", endAt(noon));
    expect(await sums(store)).toMatchObject([{ spent, held: 0n }]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("stays within a session's limit under 100 holds at once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "7"), noon);
    const tags = { session: "run_one" };
    const holds = Array.from({ length: 100 }, (_, n) => ledger.hold(holdOf(`h${n}`, usd("1"), { tags })));
    expect((await Promise.all(holds)).filter(({ ok }) => ok)).toHaveLength(7);
    expect(await sums(store)).toMatchObject([{ spent: 0n, held: usd("7") }]);
  });
});
