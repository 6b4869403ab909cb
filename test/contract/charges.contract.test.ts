import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { opened } from "../support/ledger-contract.ts";
import { alice, bob, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("lists of charges in the ledger: $name", (kind) => {
  it("pages through charges, newest first", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const [n, caller] of [alice, bob, alice, alice, bob].entries()) {
      await ledger.hold(holdOf(`c${n}`, usd("1"), { caller, at: noon + Math.floor(n / 2) }));
    }
    await ledger.void("c3", "x", endAt(noon));
    const first = await ledger.charges({ limit: 2 });
    expect([first.charges.map(({ id }) => id), first.next]).toEqual([["c4", "c3"], "c3"]);
    const second = await ledger.charges({ limit: 3, after: "c3" });
    expect([second.charges.map(({ id }) => id), second.next]).toEqual([["c2", "c1", "c0"], null]);
    const ids = async (query: object) => (await ledger.charges({ limit: 10, ...query })).charges.map(({ id }) => id);
    expect(await ids({ key: "k-alice", state: "pending" })).toEqual(["c2", "c0"]);
    expect(await ids({ since: noon + 1, until: noon + 2 })).toEqual(["c3", "c2"]);
    expect(await ids({ model: "other" })).toEqual([]);
    expect(await ids({ after: "nothing" })).toEqual([]);
    expect(await ids({ state: "pending", after: "c2" })).toEqual(["c1", "c0"]);
    expect(await ids({ order: "asc", after: "c1", limit: 2 })).toEqual(["c2", "c3"]);
  });

  it("filters charges, and sorts them by cost across pages", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const inputs = [3000, 1000, 3000, 0, 2000, 3000, 1000];
    for (const [n, input] of inputs.entries()) {
      const id = `0000000${n}-request`;
      await ledger.hold(holdOf(id, usd("1"), { caller: n === 6 ? { key: "k-x", team: null } : alice, at: noon + n }));
      const more = { ...(n === 1 && { doubts: ["served_model", "hosted_tool"] as const }) };
      await ledger.post(id, { ...posting(input, 0), ...more }, { ...endAt(noon + n), status: n === 2 ? 429 : 200 });
    }
    await ledger.hold(holdOf("waiting-one", usd("1"), { at: noon + 9 }));
    const found = async (query: object) =>
      (await ledger.charges({ limit: 10, ...query })).charges.map(({ id }) => id.slice(7, 8));
    expect(await found({ team: "red", since: noon + 4 })).toEqual([..."-54"]);
    expect(await found({ without: "team", since: noon + 3 })).toEqual(["6"]);
    for (const none of [{ without: "key" }, { without: "group" }, { group: "other" }])
      expect(await found(none)).toEqual([]);
    expect(await found({ group: "general", without: "team", until: noon + 7 })).toEqual(["6"]);
    expect(await found({ status: [400, 499] })).toEqual(["2"]);
    expect(await found({ source: "assumed" })).toEqual([]);
    expect(await found({ source: "reported", order: "asc", until: noon + 2 })).toEqual([..."01"]);
    expect(await found({ doubt: true })).toEqual(["1"]);
    expect(await found({ doubt: "hosted_tool" })).toEqual(["1"]);
    expect(await found({ doubt: "time_based" })).toEqual([]);
    expect(await found({ minCost: usd("0.002"), maxCost: usd("0.002") })).toEqual(["4"]);
    expect(await found({ maxCost: usd("0.001") })).toEqual([..."631"]);
    expect(await found({ idPrefix: "0000000" })).toEqual([..."6543210"]);
    expect(await found({ idPrefix: "00000003-r" })).toEqual(["3"]);
    expect(await found({ idPrefix: "0000000_" })).toEqual([]);
    expect(await found({ idPrefix: "1" })).toEqual([]);

    // A pending charge and one without cost tie, as do charges of the same cost.
    for (const [order, expected] of [
      ["desc", "520461-3"],
      ["asc", "3-164025"],
    ] as const) {
      const shown: string[] = [];
      let after: string | undefined;
      do {
        const page = await ledger.charges({ sort: "cost", order, limit: 3, ...(after !== undefined && { after }) });
        shown.push(...page.charges.map(({ id }) => id.slice(7, 8)));
        after = page.next ?? undefined;
        expect(page.examinedTo).toBeNull();
      } while (after !== undefined);
      expect(shown.join("")).toBe(expected);
    }
  });

  it("examines at most the given number of charges, and states where it stopped", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const n of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const caller = n % 2 === 0 ? alice : bob;
      await ledger.hold(
        holdOf(`c${n}`, usd("1"), { caller, at: noon + Math.floor(n / 2), model: n < 3 ? "rare" : "b" }),
      );
      await ledger.post(`c${n}`, posting(8000 - 1000 * n, 0), endAt(noon + n));
    }
    const page = async (query: object) => {
      const { charges, next, examinedTo } = await ledger.charges({ limit: 2, examinedMax: 3, ...query });
      return [charges.map(({ id }) => id).join(" "), next, examinedTo === null ? null : examinedTo - noon];
    };
    // By time, each page continues where the previous one stopped.
    expect(await page({ model: "rare" })).toEqual(["", "c5", 2]);
    expect(await page({ model: "rare", after: "c5" })).toEqual(["c2", "c2", 1]);
    expect(await page({ model: "rare", after: "c2" })).toEqual(["c1 c0", null, null]);
    expect(await page({ model: "rare", order: "asc" })).toEqual(["c0 c1", "c1", null]);
    expect(await page({ model: "rare", order: "asc", after: "c1" })).toEqual(["c2", "c4", 2]);
    expect(await page({ model: "rare", key: "k-alice", after: "c6" })).toEqual(["c2 c0", null, null]);
    // A query by key and time alone needs no bound.
    expect(await page({ key: "k-bob", limit: 4 })).toEqual(["c7 c5 c3 c1", null, null]);
    // By cost, only the newest charges are sorted.
    expect(await page({ sort: "cost" })).toEqual(["c5 c6", "c6", 2]);
    expect(await page({ sort: "cost", after: "c6" })).toEqual(["c7", null, 2]);
    expect(await page({ sort: "cost", until: noon + 1 })).toEqual(["c0 c1", null, null]);
    expect(await page({ sort: "cost", key: "k-bob", examinedMax: 2 })).toEqual(["c5 c7", null, 2]);
  });
});
