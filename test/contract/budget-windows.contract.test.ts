import { describe, expect, it } from "vitest";
import { periods } from "../../src/core/budget.ts";
import { parseScope, type Caller, eachKeyScope, everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { clean, opened, sums } from "../support/ledger-contract.ts";
import { bob, budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("windows of budgets in the ledger: $name", (kind) => {
  it("counts a hold against every budget that applies to its caller, including each-key budgets", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["all", "team:red", "team:blue", "key:k-bob", "each-key", "each-key:red", "each-key:blue"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1w", "9"), noon);
    }
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2"), { caller: bob }));
    await ledger.hold(holdOf("c", usd("4"), { caller: { key: "", team: null } }));
    expect((await sums(store)).map(({ id, subject, held }) => [id, subject, held])).toEqual([
      ["all/1w", "", usd("7")],
      ["team:red/1w", "", usd("3")],
      ["team:blue/1w", "", 0n],
      ["key:k-bob/1w", "", usd("2")],
      ["each-key/1w", "k-alice", usd("1")],
      ["each-key/1w", "k-bob", usd("2")],
      ["team:red each-key/1w", "k-alice", usd("1")],
      ["team:red each-key/1w", "k-bob", usd("2")],
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("links a hold to more windows than one statement can link", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const patterns = ["m*", "mo*", "mod*", "mode*", "model*", "model-*", "model-a"];
    const scopes = ["", "team:red ", "key:k-alice ", "each-key "].flatMap((who) =>
      patterns.map((of) => `${who}model:${of}`),
    );
    for (const scope of scopes.flatMap((text) => parseScope(text) ?? []))
      for (const period of periods) await ledger.setBudget(budget(scope, period, "9"), noon);
    const count = scopes.length * periods.length;
    expect(count).toBeGreaterThan(100);
    const held = async () => (await sums(store)).map((each) => each.held);
    expect(await ledger.hold(holdOf("a", usd("1"), { models: ["model-a"] }))).toMatchObject({ ok: true });
    expect(await held()).toEqual(Array<bigint>(count).fill(usd("1")));
    expect(await ledger.verify()).toMatchObject(clean);
    await ledger.post("a", posting(500_000, 0), endAt(noon));
    expect(await held()).toEqual(Array<bigint>(count).fill(0n));
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("shows a caller only the windows that apply to it, even before a hold opens them", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["all", "team:red", "team:blue", "key:k-bob", "each-key", "each-key:red", "each-key:blue"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1d", "9"), noon);
    }
    const seenBy = async (caller: Caller, at = noon) =>
      (await ledger.windowsOf(caller, at)).map(({ budget: { id }, subject, spent, held }) => [
        id,
        subject,
        spent,
        held,
      ]);
    const day = 86_400_000;
    expect(await seenBy(bob)).toEqual([
      ["all/1d", "", 0n, 0n],
      ["team:red/1d", "", 0n, 0n],
      ["key:k-bob/1d", "", 0n, 0n],
      ["each-key/1d", "k-bob", 0n, 0n],
      ["team:red each-key/1d", "k-bob", 0n, 0n],
    ]);
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2"), { caller: bob }));
    await ledger.post("b", posting(500_000, 0), endAt(noon));
    expect(await seenBy(bob)).toEqual([
      ["all/1d", "", usd("0.5"), usd("1")],
      ["team:red/1d", "", usd("0.5"), usd("1")],
      ["key:k-bob/1d", "", usd("0.5"), 0n],
      ["each-key/1d", "k-bob", usd("0.5"), 0n],
      ["team:red each-key/1d", "k-bob", usd("0.5"), 0n],
    ]);
    // A key that moves keeps its own spent amounts; the team that it leaves keeps the team's.
    expect(await seenBy({ key: "k-bob", team: "blue" })).toEqual([
      ["all/1d", "", usd("0.5"), usd("1")],
      ["team:blue/1d", "", 0n, 0n],
      ["key:k-bob/1d", "", usd("0.5"), 0n],
      ["each-key/1d", "k-bob", usd("0.5"), 0n],
      ["team:blue each-key/1d", "k-bob", 0n, 0n],
    ]);
    expect(await seenBy({ key: "", team: null }, noon + day)).toEqual([["all/1d", "", 0n, 0n]]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("charges a moved key's requests in flight to its old team, and later ones to the new team", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["team:red", "team:blue", "each-key", "each-key:blue", "key:k-bob"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1d", "2"), noon);
    }
    await ledger.hold(holdOf("before", usd("1"), { caller: bob }));
    const moved = { key: "k-bob", team: "blue" };
    expect(await ledger.hold(holdOf("after", usd("1"), { caller: moved }))).toMatchObject({ ok: true });
    // The key's own budgets follow it and are used up, although the new team's budget is not.
    const refused = await ledger.hold(holdOf("more", usd("0.5"), { caller: moved }));
    expect(refused).toMatchObject({ ok: false, reason: "no_room", shortage: { exhausted: false } });
    await ledger.post("before", posting(500_000, 0), endAt(noon));
    await ledger.post("after", posting(250_000, 0), endAt(noon));
    expect(await sums(store)).toEqual([
      { id: "team:red/1d", subject: "", spent: usd("0.5"), held: 0n },
      { id: "team:blue/1d", subject: "", spent: usd("0.25"), held: 0n },
      { id: "each-key/1d", subject: "k-bob", spent: usd("0.75"), held: 0n },
      { id: "team:blue each-key/1d", subject: "k-bob", spent: usd("0.25"), held: 0n },
      { id: "key:k-bob/1d", subject: "", spent: usd("0.75"), held: 0n },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("builds a new budget's window from existing charges, including pending ones", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2")));
    await ledger.post("a", posting(500_000, 0), endAt(noon));
    await ledger.setBudget(budget(eachKeyScope(), "1d", "3"), noon + 10);
    expect(await sums(store)).toEqual([{ id: "each-key/1d", subject: "k-alice", spent: usd("0.5"), held: usd("2") }]);
    await ledger.void("b", "left", endAt(noon));
    expect(await sums(store)).toEqual([{ id: "each-key/1d", subject: "k-alice", spent: usd("0.5"), held: 0n }]);
    const changed = await ledger.setBudget({ ...budget(eachKeyScope(), "1d", "0.6", "soft"), warnPercent: 80 }, noon);
    expect(await ledger.windows(noon)).toMatchObject([
      { budget: { ...changed, mode: "soft", limit: usd("0.6"), warnPercent: 80 }, spent: usd("0.5") },
    ]);
    expect(await ledger.removeBudget("each-key", "1d", noon)).toBe(true);
    expect(await ledger.removeBudget("each-key", "1d", noon)).toBe(false);
    expect(await sums(store)).toEqual([]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps a charge in the window of its admission, whenever it settles and however the clock changes", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(holdOf("early", usd("1"), { at: noon - 10 }));
    await ledger.setBudget(budget(everyRequest, "1h", "5"), noon);
    await ledger.hold(holdOf("a", usd("2"), { at: noon + 1 }));
    await ledger.hold(holdOf("b", usd("3"), { at: noon + hourMs }));
    expect(await ledger.extend("early", usd("0"), usd("0"), noon)).toEqual({ ok: true, granted: 0n });
    // The clock was set back into an hour without a window, in which a charge is pending.
    await ledger.hold(holdOf("c", usd("1"), { at: noon - 5 }));
    expect((await sums(store, noon - 1))[0]).toMatchObject({ spent: 0n, held: usd("2") });
    await ledger.post("early", posting(10, 0), endAt(noon + 2 * hourMs));
    await ledger.post("a", posting(20, 0), endAt(noon + 2 * hourMs));
    expect((await sums(store, noon - 1))[0]).toMatchObject({ spent: usd("0.00001"), held: usd("1") });
    expect((await sums(store, noon))[0]).toMatchObject({ spent: usd("0.00002"), held: 0n });
    expect((await sums(store, noon + hourMs))[0]).toMatchObject({ spent: 0n, held: usd("3") });
    expect((await sums(store, noon + 5 * hourMs))[0]).toMatchObject({ spent: 0n, held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps correct sums of a window that changes alternately with a later one", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1h", "5"), noon);
    await ledger.hold(holdOf("a", usd("2")));
    await ledger.hold(holdOf("b", usd("1"), { at: noon + hourMs }));
    await Promise.all([
      ledger.post("a", posting(10, 0), endAt(noon)),
      ledger.hold(holdOf("c", usd("3"), { at: noon + 9 })),
    ]);
    await Promise.all([ledger.void("b", "left", endAt(noon)), ledger.hold(holdOf("d", usd("1")))]);
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.00001"), held: usd("4") });
    expect((await sums(store, noon + hourMs))[0]).toMatchObject({ spent: 0n, held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps correct sums when the time zone changes", async () => {
    await using home = kind.newHome(manualClock("2026-11-20T23:30:00Z"));
    const at = Date.parse("2026-11-20T23:20:00Z");
    {
      await using utc = await home.open();
      await utc.ledger.setBudget(budget(everyRequest, "1d", "20"), at);
      await utc.ledger.setBudget(budget(eachKeyScope(), "1d", "20"), at);
      await utc.ledger.hold(holdOf("a", usd("1"), { at: at - 3 * hourMs }));
      await utc.ledger.hold(holdOf("b", usd("2"), { at, kind: "task" }));
      await utc.ledger.post("a", posting(1000, 0), endAt(at));
      expect((await sums(utc, at))[0]).toMatchObject({ spent: usd("0.001"), held: usd("2") });
    }
    const berlin = await home.open("Europe/Berlin");
    if (kind.name === "sqlite in process") {
      // A command uses the time zone of the database.
      expect((await sums(berlin, at))[0]).toMatchObject({ spent: usd("0.001"), held: usd("2") });
    } else {
      // It is past midnight in Berlin: the new day has only the task.
      expect(await sums(berlin, at)).toEqual([
        { id: "all/1d", subject: "", spent: 0n, held: usd("2") },
        { id: "each-key/1d", subject: "k-alice", spent: 0n, held: usd("2") },
      ]);
      const rows = await berlin.ledger.report({ by: ["day"], since: at - 48 * hourMs, until: at + 48 * hourMs });
      expect(rows.map(({ dimensions }) => dimensions.day)).toEqual(["2026-11-20"]);
      await berlin.ledger.post("b", posting(7, 0), endAt(at));
      expect((await sums(berlin, at))[1]).toMatchObject({ spent: usd("0.000007"), held: 0n });
    }
    expect(await berlin.ledger.verify()).toMatchObject(clean);
    await berlin[Symbol.asyncDispose]();
  });
});
