import { describe, expect, it } from "vitest";
import { eachKeyScope, everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import type { NewRaiseRequest } from "../../src/ports/stores.ts";
import { bob, budget, holdOf, key, ledgerKinds, noon, type LedgerKind } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;
const midnight = noon + 12 * hourMs;

async function filled(kind: LedgerKind) {
  const owned = new AsyncDisposableStack();
  const home = owned.use(kind.newHome(manualClock(noon)));
  const store = owned.use(await home.open());
  for (const name of ["alice", "bob"]) await store.keys.create(key(name, { id: `k-${name}` }));
  await store.ledger.setBudget(budget(eachKeyScope(), "1d", "1"), noon);
  await store.ledger.setBudget(budget(everyRequest, "total", "9"), noon);
  return { ...store, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function newRequest(id: string, more: Partial<NewRaiseRequest> = {}): NewRaiseRequest {
  return {
    id,
    budget: { scope: eachKeyScope(), period: "1d" },
    subject: "k-alice",
    key: "k-alice",
    amount: usd("3"),
    why: "an evaluation",
    at: noon,
    lapsesAt: midnight,
    ...more,
  };
}

const undecided = { state: "open", decidedAt: null, decidedBy: null, granted: null, until: null } as const;

describe.each(ledgerKinds)("requests for raises: $name", (kind) => {
  it("are limited to one open request, and to one per hour, for each key and budget", async () => {
    await using store = await filled(kind);
    const { raiseRequests } = store;
    const results = await Promise.all(["a", "b", "c"].map((id) => raiseRequests.create(newRequest(id))));
    expect(results).toEqual([{ ok: true }, { ok: false, reason: "open" }, { ok: false, reason: "open" }]);
    const total = { scope: everyRequest, period: "total" } as const;
    expect(await raiseRequests.create(newRequest("d", { budget: total, lapsesAt: null }))).toEqual({ ok: true });
    expect(await raiseRequests.create(newRequest("e", { key: "k-bob", subject: "k-bob" }))).toEqual({ ok: true });
    expect(await raiseRequests.deny("a", noon + 1, "root")).toMatchObject({ ok: true, request: { state: "denied" } });
    const later = newRequest("f", { at: noon + hourMs - 1 });
    expect(await raiseRequests.create(later)).toEqual({ ok: false, reason: "too_soon" });
    expect(await raiseRequests.create({ ...later, at: noon + hourMs })).toEqual({ ok: true });
    const tomorrow = { at: midnight, lapsesAt: midnight + 24 * hourMs };
    expect(await raiseRequests.create(newRequest("g", tomorrow))).toEqual({ ok: true });
    const unknown = newRequest("h", { budget: { scope: everyRequest, period: "1h" } });
    expect(await raiseRequests.create(unknown)).toEqual({ ok: false, reason: "no_such_budget" });
    const list = async (query: object) =>
      (await raiseRequests.list({ at: midnight, limit: 10, ...query })).map(({ id }) => id);
    expect(await list({ key: "k-alice" })).toEqual(["g", "f", "d", "a"]);
    expect(await list({ isOpen: true })).toEqual(["g", "d"]);
    expect(await list({ limit: 2 })).toEqual(["g", "f"]);
    expect(await raiseRequests.find("d")).toEqual({
      ...newRequest("d", { budget: total, lapsesAt: null }),
      ...undecided,
    });
  });

  it("raise the window once when they are approved", async () => {
    await using store = await filled(kind);
    const { raiseRequests, ledger } = store;
    await raiseRequests.create(newRequest("a"));
    await raiseRequests.create(newRequest("b", { key: "k-bob", subject: "k-bob" }));
    expect(await ledger.hold(holdOf("one", usd("2")))).toMatchObject({ ok: false });
    const raise = { amount: usd("1.5"), from: noon - 12 * hourMs, until: noon + hourMs };
    const decided = {
      state: "approved",
      decidedAt: noon,
      decidedBy: "root",
      granted: usd("1.5"),
      until: noon + hourMs,
    };
    expect(await raiseRequests.approve("a", raise, noon, "root")).toEqual({
      ok: true,
      request: { ...newRequest("a"), ...decided },
    });
    expect(await raiseRequests.find("a")).toEqual({ ...newRequest("a"), ...decided });
    expect(await ledger.hold(holdOf("two", usd("2")))).toMatchObject({ ok: true, keyRoom: usd("0.5") });
    expect(await ledger.hold(holdOf("three", usd("2"), { caller: bob }))).toMatchObject({ ok: false });
    for (const again of [raiseRequests.approve("a", raise, noon, "root"), raiseRequests.deny("a", noon, "root")])
      expect(await again).toEqual({ ok: false, reason: "decided" });
    expect(await raiseRequests.deny("b", midnight, "root")).toEqual({ ok: false, reason: "lapsed" });
    expect(await raiseRequests.deny("none", noon, "root")).toEqual({ ok: false, reason: "no_such_request" });
    await raiseRequests.deny("b", noon, "root");
    const { entries } = await store.audit.entries({ limit: 2 });
    expect(entries.map(({ action, object, by }) => [action, object, by])).toEqual([
      ["raises.deny", "budget:each-key/1d", "root"],
      ["budgets.raise", "budget:each-key/1d", "root"],
    ]);
    await ledger.removeBudget("each-key", "1d", noon);
    expect(await raiseRequests.find("a")).toBeUndefined();
  });
});
