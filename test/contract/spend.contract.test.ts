import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { otherNames, type RecentQuery } from "../../src/ports/spend.ts";
import { assumed, bob, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const midnight = noon - 12 * hourMs;

describe.each(ledgerKinds)("what was spent over time: $name", (kind) => {
  /** Over three days: alice with two models, bob with one, one charge without a price, one voided, one corrected. */
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
  const cents = (text: string) => usd(text);

  it("by days", async () => {
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
        cost: cents("0.001"),
        listCost: cents("0.002"),
        inDoubt: 0n,
      },
      {
        start: midnight,
        names: [],
        requests: 4,
        unpricedRequests: 1,
        cost: cents("0.008"),
        listCost: cents("0.018"),
        inDoubt: cents("0.002"),
      },
    ]);
  });

  it("by hours from any quarter on, split by what is asked for", async () => {
    await using filledOne = await filled();
    const rows = await filledOne.ledger.spend({
      by: ["model", "key"],
      each: "hour",
      since: noon - 90 * 60_000,
      until: noon + 30 * 60_000,
    });
    expect(rows.map(({ start, names, cost }) => [(start - noon) / 60_000, ...names, cost])).toEqual([
      [-90, "model-b", "k-alice", cents("0.002")],
      [-30, "model-a", null, cents("0.004")],
      [-30, "model-a", "k-bob", cents("0.002")],
      [-30, "unknown", "k-alice", 0n],
    ]);
  });

  it("with only some names separate", async () => {
    await using filledOne = await filled();
    const rows = await filledOne.ledger.spend({
      by: ["key"],
      each: "day",
      since: midnight,
      until: midnight + dayMs,
      apart: ["k-bob", null],
    });
    expect(rows.map(({ names, requests, cost }) => [...names, requests, cost])).toEqual([
      [null, 1, cents("0.004")],
      [otherNames, 2, cents("0.002")],
      ["k-bob", 1, cents("0.002")],
    ]);
  });

  it("all in one, the same from days as from hours", async () => {
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
      [null, null, cents("0.004")],
      ["red", "general", cents("0.005")],
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
    ).toMatchObject([{ requests: 1, cost: cents("0.002") }]);
    expect(await ledger.spend({ by: [], each: "all", since: midnight - dayMs, until: midnight })).toEqual([]);
  });
});

describe.each(ledgerKinds)("the latest charges: $name", (kind) => {
  it("are the newest first, then those that were created or settled since", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const look = async (query: Omit<RecentQuery, "limit">) => {
      const { charges, cursor } = await ledger.recent({ limit: 100, ...query });
      return { ids: charges.map(({ id, state }) => `${id} ${state}`), cursor };
    };
    // Where several write, a look shows again what a transaction wrote that began before the last look and was not over then.
    const expectNews = (ids: readonly string[], news: readonly string[]) =>
      expect(ids).toEqual(kind.name === "postgres" ? expect.arrayContaining([...news]) : news);
    expect((await look({})).ids).toEqual([]);
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("1"), { caller: bob, model: "model-b" }));
    const first = await look({});
    expect(first.ids).toEqual(["b pending", "a pending"]);
    await ledger.post("a", posting(1, 1), endAt(noon + 10_000));
    const second = await look({ after: first.cursor });
    expectNews(second.ids, ["a posted"]);
    await ledger.hold(holdOf("c", usd("1"), { at: noon + 20_000 }));
    await ledger.void("b", "gateway_429", endAt(noon + 20_000));
    const third = await look({ after: second.cursor });
    expect(third.ids.slice(0, 2)).toEqual(["c pending", "b voided"]);
    expectNews(
      (await look({ after: third.cursor })).ids.filter((id) => !id.startsWith("b ")),
      [],
    );
  });

  it("are those that match the filter", async () => {
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
