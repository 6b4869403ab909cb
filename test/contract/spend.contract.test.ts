import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { otherNames, type RecentQuery } from "../../src/ports/spend.ts";
import { assumed, bob, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const midnight = noon - 12 * hourMs;

describe.each(ledgerKinds)("spending over time: $name", (kind) => {
  /**
   * Charges of today and of the day before yesterday: of alice with two models, of bob, and without a key. One is
   * unpriced, one voided, one corrected.
   */
  async function filled() {
    const owned = new AsyncDisposableStack();
    const home = owned.use(kind.newHome(manualClock(noon)));
    const { ledger } = owned.use(await home.open());
    const post = async (id: string, at: number, input: number, more: Parameters<typeof holdOf>[2] = {}) => {
      await ledger.hold(holdOf(id, usd("1"), { at, ...more }));
      await ledger.post(id, posting(input, 0), endAt(at + 5));
    };
    await post("a", noon - 2 * dayMs, 1000);
    await ledger.hold(holdOf("b", usd("1"), { at: noon - 90 * 60_000, model: "model-b" }));
    await ledger.post("b", { ...posting(2000, 0), doubts: ["served_model"] }, endAt(noon - 90 * 60_000 + 5));
    await post("c", noon - 20 * 60_000, 3000, { caller: bob });
    await post("d", noon, 4000, { caller: { key: "", team: null }, group: null });
    await ledger.hold(holdOf("e", null, { at: noon, model: "unknown" }));
    await ledger.post("e", { ...assumed(null), formula: "unpriced" }, endAt(noon + 1));
    await ledger.hold(holdOf("f", usd("1"), { at: noon }));
    await ledger.void("f", "gateway_429", endAt(noon + 1));
    await ledger.adjust("c", {
      id: "c-less",
      at: noon + 9,
      amount: -usd("0.001") as never,
      why: "too much",
      by: "test",
    });
    return { ledger, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it("is summed by day", async () => {
    await using filledOne = await filled();
    const rows = await filledOne.ledger.spend({
      by: [],
      each: "day",
      since: midnight - 2 * dayMs,
      until: midnight + dayMs,
    });
    expect(rows).toEqual([
      {
        start: midnight - 2 * dayMs,
        names: [],
        requests: 1,
        unpricedRequests: 0,
        cost: usd("0.001"),
        listCost: usd("0.002"),
        inDoubt: 0n,
      },
      {
        start: midnight,
        names: [],
        requests: 4,
        unpricedRequests: 1,
        cost: usd("0.008"),
        listCost: usd("0.018"),
        inDoubt: usd("0.002"),
      },
    ]);
  });

  it("is summed by hours that start at any quarter hour, split by model and key", async () => {
    await using filledOne = await filled();
    const rows = await filledOne.ledger.spend({
      by: ["model", "key"],
      each: "hour",
      since: noon - 90 * 60_000,
      until: noon + 30 * 60_000,
    });
    expect(rows.map(({ start, names, cost }) => [(start - noon) / 60_000, ...names, cost])).toEqual([
      [-90, "model-b", "k-alice", usd("0.002")],
      [-30, "model-a", null, usd("0.004")],
      [-30, "model-a", "k-bob", usd("0.002")],
      [-30, "unknown", "k-alice", 0n],
    ]);
  });

  it("is split into some names and one row for all others", async () => {
    await using filledOne = await filled();
    const rows = await filledOne.ledger.spend({
      by: ["key"],
      each: "day",
      since: midnight,
      until: midnight + dayMs,
      apart: ["k-bob", null],
    });
    expect(rows.map(({ names, requests, cost }) => [...names, requests, cost])).toEqual([
      [null, 1, usd("0.004")],
      [otherNames, 2, usd("0.002")],
      ["k-bob", 1, usd("0.002")],
    ]);
  });

  it("is summed over the whole span, with the same result if the span starts or ends within a day", async () => {
    await using filledOne = await filled();
    const { ledger } = filledOne;
    const days = await ledger.spend({
      by: ["team", "group"],
      each: "all",
      since: midnight - 2 * dayMs,
      until: midnight + dayMs,
    });
    const hours = await ledger.spend({
      by: ["team", "group"],
      each: "all",
      since: midnight - 2 * dayMs,
      until: midnight + dayMs - 15 * 60_000,
    });
    expect(hours).toEqual(days);
    expect(days.map(({ names, cost }) => [...names, cost])).toEqual([
      [null, null, usd("0.004")],
      ["red", "general", usd("0.005")],
    ]);
    const edged = await ledger.spend({
      by: ["team", "group"],
      each: "all",
      since: midnight - 2 * dayMs - 15 * 60_000,
      until: noon + 15 * 60_000,
    });
    expect(edged.map(({ start: _start, ...row }) => row)).toEqual(days.map(({ start: _start, ...row }) => row));
    expect(
      await ledger.spend({ by: [], each: "all", since: midnight, until: midnight + dayMs, key: "k-bob" }),
    ).toMatchObject([{ requests: 1, cost: usd("0.002") }]);
    expect(await ledger.spend({ by: [], each: "all", since: midnight - dayMs, until: midnight })).toEqual([]);
  });

  it("is summed by month, and filtered by team and model", async () => {
    await using filledOne = await filled();
    const { ledger } = filledOne;
    const span = { since: midnight - 40 * dayMs, until: midnight + dayMs };
    expect(await ledger.spend({ by: [], each: "month", ...span })).toMatchObject([
      { start: Date.UTC(2026, 10, 1), requests: 5, cost: usd("0.009") },
    ]);
    const inTeam = await ledger.spend({ by: ["model", "key"], each: "month", ...span, team: "red", model: "model-b" });
    expect(inTeam.map(({ names, requests, cost }) => [...names, requests, cost])).toEqual([
      ["model-b", "k-alice", 1, usd("0.002")],
    ]);
    expect(await ledger.spend({ by: [], each: "all", ...span, team: "blue" })).toEqual([]);
  });
});

describe.each(ledgerKinds)("the latest charges: $name", (kind) => {
  it("are returned newest first by the first poll; later polls return those created or settled since", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const poll = async (query: Omit<RecentQuery, "limit">) => {
      const { charges, cursor } = await ledger.recent({ limit: 100, ...query });
      return { ids: charges.map(({ id, state }) => `${id} ${state}`), cursor };
    };
    // With several writers, a poll repeats charges of transactions that were still open at the previous poll.
    const expectNews = (ids: readonly string[], news: readonly string[]) =>
      expect(ids).toEqual(kind.name === "postgres" ? expect.arrayContaining([...news]) : news);
    expect((await poll({})).ids).toEqual([]);
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("1"), { caller: bob, model: "model-b" }));
    const first = await poll({});
    expect(first.ids).toEqual(["b pending", "a pending"]);
    await ledger.post("a", posting(1, 1), endAt(noon + 10_000));
    const second = await poll({ after: first.cursor });
    expectNews(second.ids, ["a posted"]);
    await ledger.hold(holdOf("c", usd("1"), { at: noon + 20_000 }));
    await ledger.void("b", "gateway_429", endAt(noon + 20_000));
    const third = await poll({ after: second.cursor });
    expect(third.ids.slice(0, 2)).toEqual(["c pending", "b voided"]);
    expectNews(
      (await poll({ after: third.cursor })).ids.filter((id) => !id.startsWith("b ")),
      [],
    );
  });

  it("are filtered", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    for (let index = 0; index < 4; index++) await ledger.hold(holdOf(`a${index}`, usd("1")));
    await ledger.hold(holdOf("b", usd("1"), { caller: { key: "k-carol", team: "blue" }, model: "model-b" }));
    await ledger.post("a1", posting(1, 1), endAt(noon));
    const ids = async (query: RecentQuery) => (await ledger.recent(query)).charges.map(({ id }) => id);
    expect(await ids({ limit: 2 })).toEqual(["b", "a3"]);
    expect(await ids({ limit: 9, key: "k-alice", state: "pending" })).toEqual(["a3", "a2", "a0"]);
    for (const one of [{ team: "blue" }, { model: "model-b" }, { key: "k-carol" }])
      expect(await ids({ limit: 9, ...one })).toEqual(["b"]);
    expect(await ids({ limit: 9, team: "green" })).toEqual([]);
  });
});
