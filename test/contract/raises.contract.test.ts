import { describe, expect, it } from "vitest";
import { eachKeyScope, everyRequest, keyScope } from "../../src/core/scope.ts";
import { picoUsdMax, usd, type PicoUsd } from "../../src/core/money.ts";
import { clean, opened } from "../support/ledger-contract.ts";
import { alice, bob, budget, endAt, holdOf, ledgerKinds, noon } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;

describe.each(ledgerKinds)("raises in the ledger: $name", (kind) => {
  it("adds exactly the amount of a raise to the limit, and only in the raised window", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    await ledger.setBudget(budget(everyRequest, "1w", "2"), noon);
    const midnight = noon + 12 * hourMs;
    const raise = { scope: "all", period: "1d", subject: "", amount: usd("0.5"), from: noon - 12 * hourMs };
    expect(await ledger.hold(holdOf("a", usd("1.1")))).toMatchObject({ ok: false, reason: "no_room" });
    const given = { ...raise, until: midnight, why: "release day" };
    expect(await ledger.raiseBudget(given, noon)).toMatchObject({
      ok: true,
      budget: { id: "all/1d", limit: usd("1") },
    });
    expect(await ledger.hold(holdOf("a", usd("1.1")))).toMatchObject({ ok: true, room: usd("0.4") });
    expect(await ledger.hold(holdOf("b", usd("0.5")))).toMatchObject({
      ok: false,
      shortage: { exhausted: false, window: { held: usd("1.1"), raises: [{ amount: usd("0.5"), until: midnight }] } },
    });
    expect(await ledger.hold(holdOf("b", usd("0.41")))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("b", usd("0.4")))).toMatchObject({ ok: true, room: 0n });
    await ledger.void("a", "left", endAt(noon));
    expect(await ledger.hold(holdOf("c", usd("1.01"), { at: midnight }))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("c", usd("1"), { at: midnight }))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.hold(holdOf("d", usd("1.01"), { at: noon - 13 * hourMs }))).toMatchObject({ ok: false });
    const [day, week] = await ledger.windows(noon);
    expect([day?.raises, week?.raises]).toEqual([[{ amount: usd("0.5"), from: raise.from, until: midnight }], []]);
    expect(await ledger.windowsOf(alice, noon)).toEqual([day, week]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("ends a raise at its end time, for holds and extensions", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const raise = { scope: "all", period: "total", subject: "", amount: usd("1"), from: 0, why: "a demo" };
    await ledger.raiseBudget({ ...raise, until: noon + hourMs }, noon);
    await ledger.hold(holdOf("a", usd("0.9"), { at: noon + hourMs - 1 }));
    expect(await ledger.hold(holdOf("b", usd("0.2"), { at: noon + hourMs - 1 }))).toMatchObject({ room: usd("0.9") });
    expect(await ledger.hold(holdOf("c", usd("0.1"), { at: noon + hourMs }))).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("0.1"), usd("0.1"), noon + hourMs)).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("2"), usd("0.1"), noon + hourMs - 1)).toEqual({
      ok: true,
      granted: usd("0.9"),
    });
    await ledger.void("a", "left", endAt(noon + hourMs));
    expect(await ledger.hold(holdOf("c", usd("0.8"), { at: noon + hourMs }))).toMatchObject({ ok: true, room: 0n });
    await ledger.raiseBudget({ ...raise, amount: usd("3"), until: null }, noon + hourMs);
    expect(await ledger.hold(holdOf("d", usd("3"), { at: noon + 1e6 * hourMs }))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("extends a hold by the raises of its own windows, even after those windows end", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const midnight = noon + 12 * hourMs;
    const late = { at: midnight - 1000 };
    const next = midnight + 5000;
    await ledger.setBudget(budget(keyScope("k-alice"), "1d", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-bob"), "1d", "1"), noon);
    const raise = { period: "1d", subject: "", amount: usd("5"), why: "a demo" } as const;
    const today = { from: midnight - 24 * hourMs, until: midnight };
    const tomorrow = { from: midnight, until: midnight + 24 * hourMs };
    expect(await ledger.hold(holdOf("a", usd("1"), late))).toMatchObject({ ok: true, room: 0n });
    await ledger.raiseBudget({ ...raise, ...tomorrow, scope: "key:k-alice" }, next);
    expect(await ledger.extend("a", usd("3"), usd("0.1"), next)).toMatchObject({
      ok: false,
      shortage: { window: { start: today.from, held: usd("1"), raises: [] } },
    });
    await ledger.raiseBudget({ ...raise, ...today, scope: "key:k-bob" }, noon);
    expect(await ledger.hold(holdOf("b", usd("2"), { ...late, caller: bob }))).toMatchObject({ room: usd("4") });
    expect(await ledger.extend("b", usd("1"), usd("1"), midnight - 500)).toEqual({ ok: true, granted: usd("1") });
    // Batched with an admission of the next day, whose window has no raise.
    const [extended, held] = await Promise.all([
      ledger.extend("b", usd("9"), usd("1"), next),
      ledger.hold(holdOf("c", usd("1.01"), { at: next, caller: bob })),
    ]);
    expect(extended).toEqual({ ok: true, granted: usd("3") });
    expect(held).toMatchObject({ ok: false, shortage: { window: { start: midnight, raises: [] } } });
    expect(await ledger.extend("b", usd("1"), usd("1"), next)).toMatchObject({
      ok: false,
      shortage: { window: { start: today.from, raises: [{ amount: usd("5"), until: midnight }] } },
    });
    // The clock was set back to the previous day.
    await ledger.setBudget(budget(everyRequest, "1d", "1"), next);
    await ledger.raiseBudget({ ...raise, ...today, scope: "all" }, noon);
    expect(
      await ledger.hold(holdOf("d", usd("1"), { at: next, caller: { key: "k-carol", team: null } })),
    ).toMatchObject({ room: 0n });
    expect(await ledger.extend("d", usd("1"), usd("0.1"), noon)).toMatchObject({ ok: false });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("does not extend a hold by a raise that ended before the hold's window did", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const midnight = noon + 12 * hourMs;
    await ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    const raise = {
      scope: "all",
      period: "1d",
      subject: "",
      amount: usd("1"),
      from: noon - 12 * hourMs,
      why: "a demo",
    };
    await ledger.raiseBudget({ ...raise, until: noon + hourMs }, noon);
    expect(await ledger.hold(holdOf("a", usd("0.9")))).toMatchObject({ room: usd("1.1") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.2"), midnight + 1)).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), midnight + 1)).toEqual({ ok: true, granted: usd("0.1") });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("raises an each-key budget for one key, even before that key's first request", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(eachKeyScope(), "1d", "1"), noon);
    const raise = { scope: "each-key", period: "1d", subject: "k-alice", amount: usd("4"), from: noon - 12 * hourMs };
    const given = { ...raise, until: noon + 12 * hourMs, why: "an evaluation" };
    expect(await ledger.raiseBudget({ ...given, scope: "all" }, noon)).toEqual({ ok: false, reason: "no_such_budget" });
    const tooMuch = { ...given, amount: (picoUsdMax - usd("0.5")) as PicoUsd };
    expect(await ledger.raiseBudget(tooMuch, noon)).toEqual({ ok: false, reason: "too_large" });
    expect(await ledger.raiseBudget(given, noon, "root")).toMatchObject({ ok: true });
    const large = usd("1.01");
    expect(await ledger.hold(holdOf("b", large, { caller: bob }))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("a", large))).toMatchObject({ ok: true, keyRoom: usd("3.99") });
    const { entries } = await store.audit.entries({ limit: 1 });
    expect(entries).toMatchObject([
      {
        at: noon,
        by: "root",
        action: "budgets.raise",
        object: "budget:each-key/1d",
        before: null,
        after: {
          limit_usd: "1.00",
          subject: "key=k-alice",
          amount_usd: "4.00",
          until: "2026-11-21T00:00:00.000Z",
          why: "an evaluation",
        },
      },
    ]);
  });

  it("keeps raises when a budget changes or the ledger reopens, and removes them with the budget", async () => {
    const home = kind.newHome(manualClock(noon));
    await using _ = home;
    {
      await using store = await home.open();
      await store.ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
      const raise = { scope: "key:k-alice", period: "total", subject: "", amount: usd("1"), from: 0, until: null };
      await store.ledger.raiseBudget({ ...raise, why: "paid" }, noon);
      expect(await store.ledger.hold(holdOf("a", usd("1.5")))).toMatchObject({ ok: true });
    }
    await using store = await home.open();
    const { ledger } = store;
    expect(await ledger.hold(holdOf("b", usd("0.51")))).toMatchObject({ ok: false });
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "3"), noon);
    expect(await ledger.hold(holdOf("c", usd("2.5")))).toMatchObject({ ok: true, room: 0n });
    await ledger.removeBudget("key:k-alice", "total", noon);
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "4"), noon);
    expect(await ledger.hold(holdOf("d", usd("0.01")))).toMatchObject({ ok: false });
    expect(await ledger.verify()).toMatchObject(clean);
  });
});
