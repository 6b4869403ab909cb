import type { Caller } from "../../../src/core/scope.ts";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf, standardBilling, type Billing } from "../../../src/core/cost.ts";
import type { Doubt, TokenCounts } from "../../../src/core/usage.ts";
import { add, formatUsd, noMoney, parseUsd, sum, usd, type PicoUsd } from "../../../src/core/money.ts";
import { canonicalPrice, type PriceVersion } from "../../../src/core/price.ts";
import { settlementFor } from "../../../src/core/settlement.ts";
import type { Ledger } from "../../../src/ports/ledger.ts";
import { focusColumns, type FocusVersion } from "../../../src/reporting/focus-columns.ts";
import { focusCsv } from "../../../src/reporting/focus.ts";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import { pruneLedger } from "../../../src/ledger/pruning.ts";
import { maintained } from "../../../src/ledger/sqlite/maintenance.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import { prices, tokenCounts } from "../../support/price-arbitraries.ts";
import { price, rates, tier } from "../../support/example-rates.ts";
import { csvRecords, type CsvRecord } from "../../support/csv.ts";
import { judge, type RulesModel } from "../../support/focus-rules.ts";
import {
  alice,
  assumed,
  bob,
  endAt,
  holdOf,
  memoryStore,
  noon,
  openStore,
  tempFolder,
} from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { runs } from "../../support/effort.ts";

const dayMs = 86_400_000;
const berlin = calendarOf("Europe/Berlin");
const span = { since: noon - 60 * dayMs, until: noon + dayMs };

/** Rules file, which is kept outside the repository. */
const rulesFile = new URL("../../../../shared/data/focus-rules-1.2.json", import.meta.url);
const rules: RulesModel | undefined = existsSync(rulesFile) ? JSON.parse(readFileSync(rulesFile, "utf8")) : undefined;
if (rules === undefined) {
  process.stderr.write(`\nWARNING: the FOCUS rules are NOT checked: there is no ${rulesFile.pathname}\n`);
}

/** Criteria of the rules that do not apply to this export, with the reason. */
const unsupported = {
  AVAILABILITY_ZONE_SUPPORTED: "a gateway has no zones that a client could choose",
  BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED: "requests are billed, nothing is provisioned",
  CAPACITY_RESERVATION_SUPPORTED: "the gateway sells no capacity",
  COMMITMENT_DISCOUNT_SUPPORTED: "the gateway has no commitments; its fraction is the contracted price",
  MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED: "an export is of one account",
  MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED: "all sub accounts are keys",
  PRICING_BILLING_CURRENCY_DIFFERENCES_SUPPORTED: "prices and bills are in USD",
  REGION_SUPPORTED: "the gateway names no regions",
  RESOURCE_TYPE_ASSIGNMENT_SUPPORTED: "nothing is provisioned",
  VIRTUAL_CURRENCY_SUPPORTED: "amounts are in USD, not in credits",
};

interface Exported {
  readonly columns: readonly string[];
  readonly records: readonly CsvRecord[];
  readonly leftOut: { readonly unpriced: number; readonly pending: number };
}

async function exported(ledger: Ledger, version: FocusVersion = "1.2", asked = span): Promise<Exported> {
  const leftOut = { unpriced: 0, pending: 0 };
  const nameOf = (id: string) => (id === "" ? null : `name of ${id}`);
  const options = { version, provider: "the gateway", billingAccount: "account 1", publisherOf: () => undefined };
  let text = "";
  for await (const part of focusCsv({ ledger, calendar: berlin, nameOf }, asked, options, leftOut)) text += part;
  return { ...csvRecords(text), leftOut };
}

function columnSum(records: readonly CsvRecord[], column: string): PicoUsd {
  const amountOf = (text: string) =>
    text.startsWith("-") ? (-(parseUsd(text.slice(1)) ?? Number.NaN) as unknown as PicoUsd) : parseUsd(text);
  return sum(records.map((record) => amountOf(record[column] ?? "") ?? noMoney));
}

/** Expects the sums of the rows to equal the ledger's, and every rule of the specification to hold. */
async function expectExact(ledger: Ledger, asked = span): Promise<Exported> {
  const result = await exported(ledger, "1.2", asked);
  const rows = await ledger.report({ by: [], ...asked });
  const cost = rows.reduce((total, row) => add(total, row.cost), noMoney);
  const list = rows.reduce((total, row) => add(total, row.listCost), noMoney);
  for (const column of ["BilledCost", "EffectiveCost", "ContractedCost"])
    expect(formatUsd(columnSum(result.records, column))).toBe(formatUsd(cost));
  expect(formatUsd(columnSum(result.records, "ListCost"))).toBe(formatUsd(list));
  if (rules !== undefined) expect(judge(rules, result, unsupported).broken).toEqual([]);
  return result;
}

const idOf = (version: PriceVersion) => createHash("sha256").update(canonicalPrice(version)).digest("hex");

interface Request {
  readonly version: PriceVersion;
  readonly tokens: TokenCounts;
  readonly at: number;
  readonly who: Caller;
  readonly tags: Readonly<Record<string, string>>;
  readonly end: "posted" | "assumed" | "unpriced" | "voided" | "pending" | "corrected";
  readonly correction: PicoUsd;
}

async function send(ledger: Ledger, id: string, request: Request): Promise<void> {
  const { version, tokens, at, who, tags, end } = request;
  const pinned = end === "unpriced" ? null : { id: idOf(version), canonical: canonicalPrice(version) };
  const cost = costOf(version, tokens);
  const hold = end === "unpriced" ? null : cost.charged;
  await ledger.hold(
    holdOf(id, hold, { at, caller: who, tags, model: version.model, group: version.group, price: pinned }),
  );
  if (end === "pending") return;
  if (end === "voided") await ledger.void(id, "gateway_400", endAt(at));
  else if (end === "assumed" || end === "unpriced") await ledger.post(id, assumed(hold), endAt(at));
  else {
    const formula = version.perRequest === null ? "tokens" : "per_request";
    const { charged, list, minimumApplied } = cost;
    await ledger.post(
      id,
      {
        kind: "post",
        cost: charged,
        listCost: list,
        minimumApplied,
        tokens,
        clamped: false,
        formula,
        source: "reported",
        reason: null,
      },
      endAt(at),
    );
  }
  if (end === "corrected")
    await ledger.adjust(id, {
      id: `${id}-fix`,
      at: at + 20 * dayMs,
      amount: request.correction,
      why: "=late",
      by: "test",
    });
}

const requests = fc.array(prices, { minLength: 1, maxLength: 3 }).chain((versions) =>
  fc.array(
    fc.record<Request>({
      version: fc.constantFrom(...versions.map((version) => ({ ...version, model: `m ${version.model}` }))),
      tokens: tokenCounts,
      at: fc.integer({ min: span.since, max: noon }),
      who: fc.constantFrom<Caller>(alice, bob, { key: "", team: null }, { ...alice, user: "=u", labels: { a: "1" } }),
      tags: fc.constantFrom({}, { a: "1" }, { b: '"2"', a: "=1" }, { a: "=1", b: '"2"' }),
      end: fc.constantFrom("posted", "posted", "assumed", "unpriced", "voided", "pending", "corrected"),
      correction: fc.bigInt({ min: -1_000_000n, max: 1_000_000_000n }).map((amount) => amount as PicoUsd),
    }),
    { maxLength: 25 },
  ),
);

describe("the FOCUS export", () => {
  it("adds up exactly to the ledger's cost and list cost, in rows that FOCUS allows", async () => {
    await fc.assert(
      fc.asyncProperty(requests, async (sent) => {
        const { ledger } = memoryStore({ calendar: berlin });
        for (const [index, request] of sent.entries()) await send(ledger, `r${index}`, request);
        const { leftOut } = await expectExact(ledger);
        const count = (end: Request["end"]) => sent.filter((request) => request.end === end).length;
        expect(leftOut).toEqual({ unpriced: count("unpriced"), pending: count("pending") });
      }),
      { numRuns: runs(60) },
    );
  });

  it.skipIf(rules === undefined)(
    "is checked against every rule that can be checked, and the check finds violations",
    async () => {
      const { ledger } = memoryStore({ calendar: berlin });
      const request = {
        version: price(),
        tokens: tokensOf(10, 5),
        at: noon,
        who: alice,
        tags: { a: "b" },
        correction: noMoney,
      };
      await send(ledger, "a", { ...request, end: "posted" });
      await send(ledger, "b", { ...request, at: noon - 40 * dayMs, end: "corrected", correction: usd("0.01") });
      const data = await exported(ledger);
      const known = rules as RulesModel;
      const verdict = judge(known, data, unsupported);
      expect(verdict.broken).toEqual([]);
      expect([...verdict.checked, ...Object.keys(verdict.listed)].toSorted()).toEqual(
        Object.keys(known.ModelRules).toSorted(),
      );
      const kinds = Object.groupBy(Object.values(verdict.listed), (reason) => reason.split(":")[0] ?? "");
      expect(
        Object.keys(kinds)
          .filter((kind) => !(kind in unsupported))
          .toSorted(),
      ).toEqual(["a format", "a permission, no demand", "prose"]);
      expect(verdict.checked.length).toBeGreaterThan(180);

      const broken = (change: (record: CsvRecord) => CsvRecord) =>
        judge(known, { ...data, records: data.records.map(change) }, unsupported).broken.map(
          (line) => line.split(":")[0],
        );
      expect(broken((record) => ({ ...record, ListCost: "0.01" }))).toContain("ListUnitPrice-C-010-C");
      expect(broken((record) => ({ ...record, BilledCost: "$1" }))).toContain("BilledCost-C-001-M");
      expect(broken((record) => ({ ...record, ServiceCategory: "AI" }))).toContain("ServiceCategory-C-003-M");
      expect(broken((record) => ({ ...record, ChargePeriodEnd: "2026-11-20" }))).toContain("ChargePeriodEnd-C-002-M");
      expect(broken((record) => ({ ...record, SkuPriceId: "one" }))).toContain("SkuPriceId-C-008-M");
      expect(broken((record) => ({ ...record, PricingUnit: null }))).toContain("PricingUnit-C-006-C");
      const fewer = { ...data, columns: data.columns.filter((name) => name !== "ChargeClass") };
      expect(judge(known, fewer, unsupported).broken.map((line) => line.split(":")[0])).toEqual([
        "CostAndUsage-D-026-M",
      ]);
    },
  );

  it("has one row for each day in the time zone, key, model, token class and price", async () => {
    const { ledger } = memoryStore({ calendar: berlin });
    const version = price({
      tierMode: "marginal",
      tiers: [tier(0, rates({ input: "1", output: "2" })), tier(100, rates({ input: "3", output: "4" }))],
      minimum: { tokens: 0, usd: usd("0.01") },
    });
    const request = {
      version,
      tokens: tokensOf(150, 5),
      who: alice,
      tags: {},
      end: "posted",
      correction: noMoney,
    } as const;
    const late = Date.parse("2026-11-20T22:59:00Z");
    for (const [index, at] of [noon, late, late + 60_000].entries())
      await send(ledger, `r${index}`, { ...request, at });
    const { records } = await expectExact(ledger, { since: noon - dayMs, until: noon + 2 * dayMs });
    const shown = records.map((row) => [
      row["ChargePeriodStart"],
      row["SkuMeter"],
      row["x_TierFromPromptTokens"],
      row["PricingQuantity"],
      row["PricingUnit"],
      row["ConsumedQuantity"],
    ]);
    const rowsOf = (start: string, times: number, fill: string) => [
      [start, "Input Tokens", "0", String(100 * times), "Tokens", String(100 * times)],
      [start, "Input Tokens", "100", String(50 * times), "Tokens", String(50 * times)],
      [start, "Minimum Charge", "100", fill, "USD", "0"],
      [start, "Output Tokens", "100", String(5 * times), "Tokens", String(5 * times)],
    ];
    expect(shown).toEqual([
      ...rowsOf("2026-11-19T23:00:00Z", 2, "0.01946"),
      ...rowsOf("2026-11-20T23:00:00Z", 1, "0.00973"),
    ]);
    expect(records[0]).toMatchObject({
      ChargePeriodEnd: "2026-11-20T23:00:00Z",
      BillingPeriodStart: "2026-10-31T23:00:00Z",
      BillingPeriodEnd: "2026-11-30T23:00:00Z",
      SubAccountId: "k-alice",
      SubAccountName: "name of k-alice",
      x_TokenClass: "input",
      x_Source: "reported",
      ChargeCategory: "Usage",
      ChargeClass: null,
    });
  });

  it("has rows for the price of the model that answered, its service tier and each hosted tool", async () => {
    const { ledger } = memoryStore({ calendar: berlin });
    const asked = price({ model: "asked", tiers: [tier(0, rates({ input: "1", output: "2" }))] });
    const fees = {
      search: { charged: usd("0.01"), list: usd("0.02"), inputTokens: 0 },
      code: { charged: usd("0.03"), list: usd("0.03"), inputTokens: 0 },
    };
    const answered = price({
      model: "answered",
      tiers: [tier(0, rates({ input: "3", output: "2" }))],
      serviceTiers: { priority: [tier(0, rates({ input: "6", output: "2" }))] },
      fees,
    });
    const pin = (version: PriceVersion) => ({ id: idOf(version), canonical: canonicalPrice(version), version });
    const send = async (
      id: string,
      servedPrice: PriceVersion,
      billing: Billing,
      doubts: readonly Doubt[] = ["served_model"],
    ) => {
      await ledger.hold(holdOf(id, usd("9"), { model: "asked", price: pin(asked) }));
      const reserved = { hold: usd("9"), price: asked, servedPrice: pin(servedPrice) };
      const settlement = settlementFor(reserved, {
        kind: "reported",
        tokens: tokensOf(1_000_000, 0),
        clamped: false,
        billing,
        doubts,
      });
      if (settlement.kind === "post") await ledger.post(id, settlement, endAt(noon));
    };
    await send("plain", answered, standardBilling);
    await send("priority", answered, { serviceTier: "priority", calls: { search: 2, code: 1 } });
    // The model that answered costs less, so the price of the requested model applies.
    await send(
      "cheaper",
      price({ model: "cheap", tiers: [tier(0, rates({ input: "0.5", output: "1" }))] }),
      standardBilling,
      ["served_model", "service_tier"],
    );
    const { records } = await expectExact(ledger);
    const shown = records.map((row) => [
      row["SkuId"],
      row["SkuMeter"],
      row["PricingQuantity"],
      row["PricingUnit"],
      row["ConsumedQuantity"],
      row["ConsumedUnit"],
      row["BilledCost"],
      row["x_Doubts"],
    ]);
    expect(shown.toSorted()).toEqual([
      ["answered/code", "Hosted Tool Calls", "1", "Requests", "1", "Requests", "0.03", "served_model"],
      ["answered/input", "Input Tokens", "1000000", "Tokens", "1000000", "Tokens", "3.00", "served_model"],
      ["answered/input", "Input Tokens", "1000000", "Tokens", "1000000", "Tokens", "6.00", "served_model"],
      ["answered/search", "Hosted Tool Calls", "2", "Requests", "2", "Requests", "0.02", "served_model"],
      ["asked/input", "Input Tokens", "1000000", "Tokens", "1000000", "Tokens", "1.00", "served_model service_tier"],
    ]);
    expect(new Set(records.map((row) => row["x_Model"]))).toEqual(new Set(["asked"]));
    expect(new Set(records.map((row) => row["x_PriceVersion"]))).toEqual(new Set([idOf(asked), idOf(answered)]));
    expect(new Set(records.map((row) => row["SkuPriceId"])).size).toBe(5);
    expect(
      records
        .map((row) => JSON.parse(row["SkuPriceDetails"] ?? ""))
        .filter((details) => details.x_ServiceTier === "priority"),
    ).toHaveLength(3);
  });

  it("marks a correction of an earlier month, which is billed in the month it was made", async () => {
    const { ledger } = memoryStore({ calendar: berlin });
    const request = {
      version: price(),
      tokens: tokensOf(1_000_000, 0),
      who: { ...alice, user: "u_1", labels: { env: "prod" } },
      tags: { a: "b", zone: "eu" },
      end: "corrected",
      correction: usd("0.5"),
    } as const;
    await send(ledger, "october", { ...request, at: noon - 30 * dayMs });
    await send(ledger, "november", { ...request, at: noon - 19 * dayMs, correction: -usd("0.25") as PicoUsd });
    const { records } = await expectExact(ledger);
    const corrections = records.filter((row) => row["ChargeCategory"] === "Adjustment");
    expect(
      corrections.map((row) => [
        row["BilledCost"],
        row["ChargeClass"],
        row["ChargePeriodStart"],
        row["BillingPeriodStart"],
      ]),
    ).toEqual([
      ["0.50", "Correction", "2026-10-20T22:00:00Z", "2026-10-31T23:00:00Z"],
      ["-0.25", null, "2026-10-31T23:00:00Z", "2026-10-31T23:00:00Z"],
    ]);
    for (const row of records)
      expect([row["Tags"], row["x_User"]]).toEqual(['{"a":"b","label:env":"prod","zone":"eu"}', "u_1"]);
  });

  it("has the columns of version 1.3 on request, and only the header for an empty span", async () => {
    const { ledger } = memoryStore({ calendar: berlin });
    const { columns, records } = await exported(ledger, "1.3");
    expect(records).toEqual([]);
    expect(columns).toEqual(focusColumns("1.3"));
    expect(columns.filter((name) => !focusColumns("1.2").includes(name))).toEqual([
      "HostProviderName",
      "ServiceProviderName",
    ]);
    // ColumnHandling: Pascal case without abbreviations; custom columns come last, with a prefix.
    const customFrom = columns.findIndex((name) => name.startsWith("x_"));
    expect(columns.slice(0, customFrom).filter((name) => !/^([A-Z][a-z]+)+$/.test(name) || name.length > 50)).toEqual(
      [],
    );
    expect(columns.slice(customFrom).filter((name) => !/^x_([A-Z][a-z]+)+$/.test(name))).toEqual([]);
  });

  it("keeps its sums when charges are pruned, with rows for the pruned usage", async () => {
    using folder = tempFolder();
    const clock = manualClock(noon);
    await using store = await openStore({ path: folder.database, calendar: berlin, clock, access: "command" });
    const version = price({ minimum: { tokens: 50, usd: usd("0.001") } });
    const ends = ["posted", "assumed", "unpriced", "voided", "corrected", "pending"] as const;
    for (let index = 0; index < 90; index++) {
      const at = noon - 59 * dayMs + index * 15 * 3_600_000;
      const end = ends[index % ends.length] ?? "posted";
      await send(store.ledger, `r${index}`, {
        version,
        tokens: tokensOf(index * 100, index),
        at,
        who: index % 2 ? alice : bob,
        tags: { n: `${index % 3}` },
        end,
        correction: usd("0.3"),
      });
    }
    const before = await expectExact(store.ledger);
    const db = connectToWrite(folder.database);
    await pruneLedger(maintained(db, berlin), { clock, olderThanMs: 40 * dayMs, pause: () => Promise.resolve() });
    db.close();
    const after = await expectExact(store.ledger);
    for (const column of ["BilledCost", "ListCost"])
      expect(columnSum(after.records, column)).toBe(columnSum(before.records, column));
    expect(after.records.filter((row) => row["SkuMeter"] === "Pruned Usage").length).toBeGreaterThan(5);
  });
});

function tokensOf(input: number, output: number): TokenCounts {
  return {
    input,
    output,
    cached_input: 0,
    cache_write: 0,
    cache_write_1h: 0,
    audio_input: 0,
    image_input: 0,
    reasoning: 0,
    audio_output: 0,
    image_output: 0,
  };
}
