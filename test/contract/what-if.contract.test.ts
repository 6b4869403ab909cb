import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../src/core/cost.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import { canonicalPrice, type PriceVersion } from "../../src/core/price.ts";
import { settlementFor, type Outcome } from "../../src/core/settlement.ts";
import { recomputeUnder, type PriceAt } from "../../src/core/what-if.ts";
import { reportDimensions, type ReportDimension } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/ports/stores.ts";
import { outcomes, prices, tokenCounts } from "../support/price-arbitraries.ts";
import { alice, assumed, bob, endAt, holdOf, ledgerKinds, noon, posting, price } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";
import { runs } from "../support/effort.ts";

const hourMs = 3_600_000;
const span = { since: noon - 48 * hourMs, until: noon + 48 * hourMs };

/** Plan of a charge: its time, caller, price and outcome. */
interface Plan {
  readonly at: number;
  readonly caller: typeof alice;
  readonly model: string;
  readonly outcome: Outcome;
}

const plans: fc.Arbitrary<readonly Plan[]> = fc.array(
  fc.record({
    at: fc.integer({ min: -40, max: 40 }).map((hours) => noon + hours * hourMs),
    caller: fc.constantFrom(alice, bob),
    model: fc.constantFrom("model-a", "model-b", "unpriced"),
    outcome: fc.oneof(
      {
        weight: 2,
        arbitrary: fc.record({ kind: fc.constant("reported" as const), tokens: tokenCounts, clamped: fc.boolean() }),
      },
      { weight: 1, arbitrary: outcomes },
    ),
  }),
  { maxLength: 25 },
);

/** Runs the plans as the proxy does: each charge is held and settled at the price of its model. */
async function fill(
  { ledger }: Store,
  planned: readonly Plan[],
  priceOf: Readonly<Record<string, PriceVersion>>,
): Promise<void> {
  for (const [index, { at, caller, model, outcome }] of planned.entries()) {
    const version = priceOf[model] ?? null;
    const hold = version === null ? null : usd("0.5");
    const canonical = version === null ? "" : canonicalPrice(version);
    const pinned = version === null ? null : { id: createHash("sha256").update(canonical).digest("hex"), canonical };
    await ledger.hold(holdOf(`c${index}`, hold, { at, caller, model, price: pinned, tags: { feature: model } }));
    const settlement = settlementFor({ hold, price: version }, outcome);
    if (settlement.kind === "void") await ledger.void(`c${index}`, settlement.reason, endAt(at));
    else await ledger.post(`c${index}`, settlement, endAt(at));
  }
}

describe.each(ledgerKinds)("what-if in the ledger: $name", (kind) => {
  it("equals the report for every dimension if the prices are the charged ones", async () => {
    const dimensions: readonly ReportDimension[] = [...reportDimensions, "tag:feature"];
    await fc.assert(
      fc.asyncProperty(plans, prices, prices, fc.subarray([...dimensions]), async (planned, a, b, by) => {
        await using home = kind.newHome(manualClock(noon));
        await using store = await home.open();
        const priceOf: Readonly<Record<string, PriceVersion>> = { "model-a": a, "model-b": b };
        await fill(store, planned, priceOf);
        const priceAt: PriceAt = (model) => priceOf[model] ?? "unknown_model";
        const rows = await store.ledger.whatIf({ by, ...span }, (charge) => recomputeUnder(charge, priceAt));
        expect(rows.map(({ whatIf: _whatIf, ...row }) => row)).toEqual(await store.ledger.report({ by, ...span }));
        for (const { cost, listCost, whatIf } of rows) {
          expect(whatIf).toMatchObject({ cost, listCost, newlyPriced: { requests: 0, cost: 0n } });
          expect(
            Object.keys(whatIf.notRecomputed).filter((why) => !["assumed", "unknown_model", "no_usage"].includes(why)),
          ).toEqual([]);
        }
      }),
      { numRuns: runs(12) },
    );
  });

  it("keeps stored amounts that cannot be recomputed, by reason, and counts newly priced charges", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    await ledger.hold(holdOf("tokens", usd("1")));
    await ledger.post("tokens", posting(1000, 100), endAt(noon));
    await ledger.hold(holdOf("assumed", usd("0.25")));
    await ledger.post("assumed", assumed(usd("0.25")), endAt(noon));
    await ledger.hold(holdOf("gone", usd("1"), { model: "model-gone" }));
    await ledger.post("gone", posting(5, 5), endAt(noon));
    await ledger.hold(holdOf("unpriced", null));
    await ledger.post(
      "unpriced",
      { ...posting(1000, 100), cost: null, listCost: null, formula: "unpriced" },
      endAt(noon),
    );
    await ledger.adjust("tokens", {
      id: "fix",
      at: noon,
      amount: -usd("0.0001") as PicoUsd,
      why: "credit",
      by: "root",
    });
    await ledger.hold(holdOf("pending", usd("1")));
    const twice: PriceVersion = {
      ...price,
      tiers: [{ fromPromptTokens: 0, charged: price.tiers[0].list, list: price.tiers[0].list }],
    };
    const [row] = await ledger.whatIf({ by: [], ...span }, (charge) =>
      recomputeUnder(charge, (model) => (model === "model-a" ? twice : "unknown_model")),
    );
    const expensive = costOf(twice, posting(1000, 100).tokens);
    const kept = usd("0.25") - usd("0.0001") + (posting(5, 5).cost ?? 0n);
    expect(row?.whatIf).toEqual({
      cost: 2n * expensive.charged + kept,
      listCost: 2n * expensive.list + usd("0.25") + (posting(5, 5).listCost ?? 0n),
      notRecomputed: {
        assumed: { requests: 1, cost: usd("0.25") },
        unknown_model: { requests: 1, cost: posting(5, 5).cost },
        adjustment: { requests: 0, cost: -usd("0.0001") },
      },
      newlyPriced: { requests: 1, cost: expensive.charged },
    });
    expect(row).toMatchObject({ requests: 4, unpricedRequests: 1 });
  });

  it("reads every charge once over many pages, even if many have the same time", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const count = 4_100;
    await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        // Most charges have the same time, some are earlier or later, and they are not written in order.
        const at = index % 10 === 0 ? noon - (index % 7) * hourMs : noon;
        await ledger.hold(holdOf(`c${index}`, usd("1"), { at }));
        await ledger.post(`c${index}`, posting(1, 0), endAt(at));
      }),
    );
    const seen: number[] = [];
    const rows = await ledger.whatIf({ by: [], ...span }, (charge) => {
      seen.push(charge.at);
      return { ok: false, why: "no_price" };
    });
    expect(rows).toMatchObject([{ requests: count, whatIf: { notRecomputed: { no_price: { requests: count } } } }]);
    expect(seen).toHaveLength(count);
  });
});
