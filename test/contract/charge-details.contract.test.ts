import { describe, expect, it } from "vitest";
import { everyRequest } from "../../src/core/scope.ts";
import { costOf } from "../../src/core/cost.ts";
import { usd } from "../../src/core/money.ts";
import { canonicalPrice } from "../../src/core/price.ts";
import { contentId } from "../../src/wire/content-id.ts";
import { opened } from "../support/ledger-contract.ts";
import {
  alice,
  assumed,
  budget,
  endAt,
  holdOf,
  ledgerKinds,
  noon,
  posting,
  price,
  tokens,
} from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("details of charges in the ledger: $name", (kind) => {
  it("stores rare details of charges, reports amounts in doubt, and finds a charge for fewer tokens than were delivered", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "10"), noon);
    for (const id of ["plain", "served", "below", "held", "short"]) await ledger.hold(holdOf(id, usd("1")));
    const version = {
      ...price,
      model: "model-b",
      tiers: [{ ...price.tiers[0], charged: price.tiers[0].list }] as const,
    };
    const servedPrice = { id: contentId(canonicalPrice(version)), canonical: canonicalPrice(version), version };
    const doubts = ["served_model", "service_tier"] as const;
    const served = {
      ...posting(1000, 1000),
      cost: costOf(version, tokens(1000, 1000)).charged,
      servedPrice,
      doubts,
      billing: { serviceTier: "priority", calls: { web_search_call: 2 } },
    };
    const delivered = { input: 1000, output: 900 };
    await ledger.post("plain", posting(1000, 1000), endAt(noon));
    await ledger.post("served", served, endAt(noon));
    await ledger.post("below", { ...posting(1000, 1000), source: "counted", delivered }, endAt(noon));
    await ledger.post("held", { ...assumed(usd("0")), doubts: ["task_consumption"] }, endAt(noon));
    await ledger.post(
      "short",
      { ...posting(1000, 1000), source: "counted", delivered: { input: 1000, output: 1001 } },
      endAt(noon),
    );
    expect(await ledger.charge("served")).toMatchObject({
      servedPriceId: servedPrice.id,
      doubts,
      inDoubt: served.cost,
      billing: served.billing,
      delivered: null,
    });
    expect(await ledger.charge("below")).toMatchObject({
      servedPriceId: null,
      doubts: [],
      billing: { serviceTier: null, calls: {} },
      delivered,
    });
    expect(await ledger.charge("held")).toMatchObject({
      cost: usd("1"),
      doubts: ["task_consumption"],
      inDoubt: usd("1"),
    });
    expect(await ledger.price(servedPrice.id)).toEqual(version);
    const inDoubt = served.cost + usd("1");
    for (const by of [["day"], ["hour"], ["tag:feature"]] as const) {
      const rows = await ledger.report({ by, since: noon - 86_400_000, until: noon + 86_400_000 });
      expect(rows.reduce((sum, row) => sum + row.inDoubt, 0n)).toBe(inDoubt);
    }
    expect((await ledger.verify()).differences).toMatchObject([
      { kind: "charge", id: "short", expected: expect.stringContaining("for the delivered tokens") },
    ]);
  });

  it("compares a stated prompt with what was delivered in its own classes", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const [tier] = price.tiers;
    const charged = { ...tier.charged, cached_input: 100_000n as typeof tier.charged.cached_input };
    const version = { ...price, tiers: [{ ...tier, charged }] as const };
    const cached = { id: contentId(canonicalPrice(version)), canonical: canonicalPrice(version), version };
    const read = { ...tokens(0, 5), cached_input: 1000 };
    const { charged: cost, list: listCost } = costOf(version, read);
    for (const [id, output] of [
      ["right", 5],
      ["short", 6],
    ] as const) {
      await ledger.hold(holdOf(id, usd("1"), { price: cached }));
      const details = { source: "partial", tokens: read, cost, listCost, delivered: { input: 1000, output } } as const;
      await ledger.post(id, { ...posting(0, 5), ...details }, endAt(noon));
    }
    expect((await ledger.verify()).differences).toMatchObject([
      { kind: "charge", id: "short", expected: expect.stringContaining("for the delivered tokens") },
    ]);
  });

  it("stores the runs of a model with their prices, and finds runs that do not add up to the charge", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const version = {
      ...price,
      model: "advisor",
      tiers: [{ ...price.tiers[0], charged: price.tiers[0].list }] as const,
    };
    const own = { id: contentId(canonicalPrice(version)), canonical: canonicalPrice(version), version };
    const runs = [
      { tokens: tokens(600, 700), promptTokens: 300, price: null },
      { tokens: tokens(400, 300), promptTokens: 400, price: own },
    ];
    const billing = { serviceTier: null, calls: {}, runs };
    const { charged: cost, list: listCost } = costOf(price, tokens(1000, 1000), billing);
    for (const id of ["runs", "wrong"]) await ledger.hold(holdOf(id, usd("1")));
    await ledger.post("runs", { ...posting(1000, 1000), cost, listCost, billing }, endAt(noon));
    expect(await ledger.charge("runs")).toMatchObject({
      cost,
      billing: { serviceTier: null, calls: {} },
      runs: [
        { tokens: tokens(600, 700), promptTokens: 300, model: null, priceId: null },
        { tokens: tokens(400, 300), promptTokens: 400, model: "advisor", priceId: own.id },
      ],
    });
    expect(await ledger.price(own.id)).toEqual(version);
    expect((await ledger.verify()).differences).toEqual([]);
    await ledger.post("wrong", { ...posting(1001, 1000), cost, listCost, billing }, endAt(noon));
    expect((await ledger.verify()).differences).toMatchObject([
      { kind: "charge", id: "wrong", expected: "tokens of input 1000", found: "tokens of input 1001" },
    ]);
  });

  it("stores a request's user, labels and models, and then the model that answered", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const caller = { ...alice, user: "u 1%", labels: { env: "prod" } };
    const models = ["gpt-5", "gpt-4o"];
    for (const id of ["a", "b", "c"]) await ledger.hold(holdOf(id, usd("1"), { caller, models }));
    const counted = { user: "u 1%", labels: { env: "prod" } };
    expect(await ledger.charge("a")).toMatchObject({ ...counted, models });
    await ledger.post("a", { ...posting(1000, 1000), answered: "gpt-4o" }, endAt(noon));
    expect(await ledger.charge("a")).toMatchObject({ ...counted, models: ["gpt-4o"] });
    await ledger.post("b", posting(1000, 1000), endAt(noon));
    expect(await ledger.charge("b")).toMatchObject({ ...counted, models: ["gpt-5"] });
    await ledger.void("c", "refused", endAt(noon));
    expect(await ledger.charge("c")).toMatchObject({ models: ["gpt-5"] });
    await ledger.adjust("a", { id: "a-fix", at: noon, amount: usd("0.1"), why: "bill", by: "root" });
    expect(await ledger.charge("a-fix")).toMatchObject({ ...counted, models: ["gpt-4o"] });
    expect(await ledger.verify()).toEqual({ charges: 4, differences: [] });
    expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([{ requests: 2 }]);
  });

  it("stores the basis of a hold: the worst case, or the slice under a hard budget", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const basis = { by: "output_cap", outputTokens: 3000, outputCap: 1000, fitted: null };
    const growing = { firstSlice: usd("0.3"), sliceTokens: 64 };
    await ledger.hold(holdOf("a", usd("1"), { basis }));
    await ledger.hold(
      holdOf("b", usd("1"), { basis: { by: "model", outputTokens: null, outputCap: null, fitted: 7 } }),
    );
    await ledger.setBudget(budget(everyRequest, "1d", "9", "soft"), noon);
    await ledger.hold(holdOf("c", usd("1"), { basis, ...growing }));
    await ledger.setBudget(budget(everyRequest, "1d", "9"), noon);
    await ledger.hold(holdOf("d", usd("1"), { basis, ...growing }));
    await ledger.post("d", posting(1, 1), endAt(noon));
    const bases = await Promise.all(["a", "b", "c", "d"].map(async (id) => (await ledger.charge(id))?.basis));
    expect(bases).toEqual([
      basis,
      { by: "model", outputTokens: null, outputCap: null, fitted: 7 },
      basis,
      { ...basis, by: "slice", outputTokens: 64 },
    ]);
  });
});
