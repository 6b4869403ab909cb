import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Billing } from "../../../src/core/cost.ts";
import { doubts, unchanged } from "../../../src/core/usage.ts";
import { usd } from "../../../src/core/money.ts";
import { canonicalPrice, type PinnedPrice, type PriceVersion } from "../../../src/core/price.ts";
import { settlementFor, type Outcome } from "../../../src/core/settlement.ts";
import { doubtPhrases } from "../../../src/reporting/charges.ts";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import { contentId } from "../../../src/wire/content-id.ts";
import { csvRecords } from "../../support/csv.ts";
import { endAt, holdOf, noon, posting, price, tokens } from "../../support/ledger-fixtures.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

const pinned = (version: PriceVersion): PinnedPrice => ({
  id: contentId(canonicalPrice(version)),
  canonical: canonicalPrice(version),
  version,
});

/** A price with twice the rates of model-a and a fee for each search. */
const served = pinned({
  ...price,
  model: "model-b",
  source: "the list of model-b",
  tiers: [{ ...price.tiers[0], charged: price.tiers[0].list }],
  fees: { web_search_call: { charged: usd("0.01"), list: usd("0.02"), inputTokens: 0 } },
});
const searched: Billing = { serviceTier: "priority", calls: { web_search_call: 3 } };

let farebox: Harness;

/** Posts a charge without doubts, one served by another model, and one whose answer was cut. */
beforeEach(async () => {
  farebox = harness();
  await using store = await farebox.open();
  const post = async (id: string, outcome: Outcome, servedPrice: PinnedPrice | null = null) => {
    await store.ledger.hold(holdOf(id, usd("1"), { at: noon - 60_000 }));
    const settlement = settlementFor({ hold: usd("1"), price, servedPrice }, outcome);
    if (settlement.kind === "post") await store.ledger.post(id, settlement, endAt(noon - 30_000));
  };
  await post("plain", { kind: "reported", tokens: tokens(1000, 0), clamped: false });
  await post(
    "served",
    {
      kind: "reported",
      tokens: tokens(1000, 500),
      clamped: false,
      doubts: ["hosted_tool", "served_model"],
      billing: searched,
    },
    served,
  );
  const cut = {
    kind: "cut",
    promptTokens: 100,
    deliveredTokens: 50,
    reason: "gateway_reset",
    errorFactor: unchanged,
    hiddenTokens: 2000,
  } as const;
  await post("cut", { ...cut, doubts: ["time_based"] });
});

afterEach(() => farebox[Symbol.dispose]());

// 1,000 tokens at USD 2 and 500 at USD 8 per 1M, and three searches.
const servedCost = "0.036";
// 100 tokens at USD 1 and 2,000 at USD 4 per 1M.
const cutCost = "0.0081";
const inDoubt = "0.0441";

describe("a charge with doubts", () => {
  it("is listed with its doubts and its amount in doubt", async () => {
    const { charges } = await farebox.json<{ charges: Record<string, unknown>[] }>("charges");
    const shown = Object.fromEntries(charges.map((charge) => [charge["request_id"], charge]));
    expect(shown["plain"]).toMatchObject({
      doubts: [],
      cost_in_doubt_usd: "0.00",
      service_tier: null,
      tool_calls: {},
      delivered: null,
      served_price_version: null,
    });
    expect(shown["served"]).toMatchObject({
      doubts: ["served_model", "hosted_tool"],
      cost_usd: servedCost,
      cost_in_doubt_usd: servedCost,
      service_tier: "priority",
      tool_calls: searched.calls,
      served_price_version: served.id,
    });
    expect(shown["cut"]).toMatchObject({
      doubts: ["time_based"],
      cost_usd: cutCost,
      cost_in_doubt_usd: cutCost,
      delivered: { input: 100, output: 50 },
    });
  });

  it("is itemized by the price of the model that answered, with phrases for why the bill may differ", async () => {
    const details = await farebox.json<Record<string, unknown>>("charges", "show", "served");
    expect(details).toMatchObject({
      items: [
        { class: "input", tool: null, tokens: 1000, cost_usd: "0.002" },
        { class: "output", tokens: 500, cost_usd: "0.004" },
        {
          class: "fee",
          tool: "web_search_call",
          tokens: 3,
          usd_per_million: null,
          cost_usd: "0.03",
          list_cost_usd: "0.06",
        },
      ],
      price: { model: "model-a", source: "test" },
      served_price: { model: "model-b", source: "the list of model-b" },
      known:
        "The gateway reported these tokens. The bill may differ: a model other than the requested one answered; the fee of a hosted tool that was used, or the number of tokens that it added, is unknown.",
    });
    expect(await farebox.json("charges", "show", "plain")).toMatchObject({
      served_price: null,
      known: "The gateway reported these tokens.",
    });
    const { stdout } = await farebox.run("charges", "show", "served");
    const lines = stdout.split("\n");
    for (const line of [
      "cost web_search_call\t0.03",
      "calls web_search_call\t3",
      "doubt\tserved_model",
      "doubt\thosted_tool",
      "served_price\tmodel-b from 2026-01-01: the list of model-b",
    ]) {
      expect(lines).toContain(line);
    }
    expect((await farebox.run("charges", "show", "cut")).stdout).toContain("delivered output\t50\n");
    expect(stdout).not.toContain("[object");
  });

  it("adds to the amount in doubt of a report, which is omitted if it is zero", async () => {
    expect(await farebox.json("report")).toMatchObject({
      rows: [{ cost_in_doubt_usd: inDoubt }],
      total: { cost_usd: "0.0451", cost_in_doubt_usd: inDoubt },
    });
    const { records } = csvRecords((await farebox.run("report", "--format", "csv")).stdout);
    expect(records).toMatchObject([{ cost_usd: "0.0451", cost_in_doubt_usd: inDoubt }]);
    const table = await farebox.run("report");
    expect(table.stdout.split("\n")[0]).toMatch(/\tcost\tin doubt\tlist cost\t/);
    expect(table.stderr).toContain(`of which in doubt: USD ${inDoubt}, `);
    const before = await farebox.run("report", "--until", "2026-11-20");
    expect(before.stdout + before.stderr).not.toContain("in doubt");
  });

  it("has its doubts in every export", async () => {
    const { records } = csvRecords((await farebox.run("export")).stdout);
    expect(
      records.map((row) => [
        row["doubts"],
        row["cost_in_doubt_usd"],
        row["service_tier"],
        row["tool_calls"],
        row["delivered_input_tokens"],
        row["delivered_output_tokens"],
        row["served_price_version"],
      ]),
    ).toEqual([
      [null, "0.00", null, null, null, null, null],
      ["served_model hosted_tool", servedCost, "priority", '{"web_search_call":3}', null, null, served.id],
      ["time_based", cutCost, null, null, "100", "50", null],
    ]);
    const lines = (await farebox.run("export", "--format", "jsonl")).stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ doubts: of }) => of)).toEqual([[], ["served_model", "hosted_tool"], ["time_based"]]);
  });
});

it("reconcile adds the amount in doubt to its uncertainty, even with samples from before doubts existed", async () => {
  using empty = harness();
  {
    await using store = await empty.open();
    const sample = async (askedAt: number, balance: string) => {
      const totals = await store.ledger.totals();
      await store.samples.add({
        askedAt,
        answeredAt: askedAt,
        account: "7",
        figures: { equivalent_in_usd: balance },
        before: totals,
        after: totals,
      });
    };
    const post = async (id: string, more: object) => {
      await store.ledger.hold(holdOf(id, usd("1"), { at: noon - 60_000 }));
      await store.ledger.post(id, { ...posting(1_000_000, 0), ...more }, endAt(noon - 30_000));
    };
    await sample(noon - 90_000, "100.000000");
    await post("certain", {});
    await post("doubtful", { doubts: ["hosted_tool"] });
    await sample(noon - 1000, "97.100000");
  }
  const db = connectToWrite(empty.database);
  const changed = db
    .prepare("update account_samples set ledger_before = json_remove(ledger_before, '$.inDoubt') where asked_at = ?")
    .run(noon - 90_000);
  db.close();
  expect(changed.changes).toBe(1);
  expect(await empty.json("reconcile", "--no-sample")).toMatchObject({
    ok: true,
    ledger_usd: "2.00",
    cost_in_doubt_usd: "1.00",
    difference_usd: "0.90",
    uncertainty: { items: [{ kind: "in_doubt", below_usd: "1.00", above_usd: "1.00" }, { kind: "rounding" }] },
  });
  const { stdout } = await empty.run("reconcile", "--no-sample");
  expect(stdout).toContain("in doubt\tUSD 1.00\n");
  expect(stdout).toContain("in doubt: charges that the gateway may bill differently\t1.00\t1.00\n");
});

it("each doubt has its own phrase, which can follow a colon", () => {
  const phrases = doubts.map((doubt) => doubtPhrases[doubt]);
  expect(new Set(phrases).size).toBe(doubts.length);
  for (const phrase of phrases) expect(phrase).toMatch(/^[a-z][^.;:]+[^.;:]$/);
});
