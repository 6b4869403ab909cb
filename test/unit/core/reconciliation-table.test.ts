import { describe, expect, it } from "vitest";
import type { AccountFigures, AccountSample, LedgerTotals } from "../../../src/core/account.ts";
import { noMoney, usd, type PicoUsd } from "../../../src/core/money.ts";
import {
  comparisonOf,
  comparisons,
  reconcile,
  type LedgerCorrection,
  type Uncertainty,
  type Movement,
  type Reconciliation,
} from "../../../src/core/reconciliation.ts";
import { ledgerTotals, noAmounts } from "./examples.ts";

/** Table row for one sample. Amounts are cents: of the balance, or credits at 100 per dollar. */
interface Row {
  readonly at: number;
  /** Posted amount with the source reported, unless `totals` states another. */
  readonly ledger?: number;
  readonly balance?: number | null;
  readonly used?: number | null;
  readonly account?: string;
  readonly figures?: AccountFigures;
  readonly totals?: Partial<LedgerTotals>;
  readonly after?: Partial<LedgerTotals>;
}

const cents = (amount: number) => (BigInt(amount) * usd("0.01")) as PicoUsd;
const decimal = (amount: number) => (amount / 100).toFixed(2);

function samplesOf(rows: readonly Row[]): AccountSample[] {
  return rows.map(({ at, ledger = 0, balance = 10_000_000, used, account = "7", figures, totals, after }, index) => {
    const posted = { ...noAmounts, reported: cents(ledger) };
    const before = ledgerTotals({ written: index, posted, ...totals });
    const stated = {
      ...(balance !== null && { equivalent_in_usd: decimal(balance) }),
      ...(used != null && { used_credits: String(used), available_credits: String(balance) }),
      ...figures,
    };
    return { askedAt: at, answeredAt: at + 1, account, figures: stated, before, after: { ...before, ...after } };
  });
}

function outcome(rows: readonly Row[], corrections: readonly LedgerCorrection[] = []): Reconciliation {
  const result = reconcile(samplesOf(rows), corrections);
  if (!result.ok) throw new Error(result.reason);
  return result.reconciliation;
}

/** Uncertainties by their kind, in cents; null without a bound. */
const inCents = (uncertainties: readonly Uncertainty[]) =>
  Object.fromEntries(
    uncertainties.map(({ kind, below, above }) => [
      kind,
      [Number(below) / 1e10, above === null ? null : Number(above) / 1e10],
    ]),
  );
const movesOf = (movements: readonly Movement[]) =>
  movements.map(({ kind, amount, isEstimate }) => [kind, Number(amount) / 1e10, isEstimate]);

/** Returns five rows. Each posts a cent more than the row before, and its balance is a cent lower. */
const busy = (changes: Partial<Row>[] = []): Row[] =>
  [0, 1, 2, 3, 4].map((index) => ({ at: index * 100, ledger: index, balance: 10_000 - index, ...changes[index] }));

describe("the compared span", () => {
  it("is missing with fewer than two samples or without a figure in USD", () => {
    expect(reconcile(samplesOf([]))).toEqual({ ok: false, reason: "too_few" });
    expect(reconcile(samplesOf([{ at: 0 }]))).toEqual({ ok: false, reason: "too_few" });
    expect(
      reconcile(
        samplesOf([
          { at: 0, balance: null },
          { at: 1, balance: null },
        ]),
      ),
    ).toEqual({ ok: false, reason: "no_measure" });
    expect(reconcile(samplesOf([{ at: 0 }, { at: 1, balance: null }]))).toEqual({ ok: false, reason: "too_few" });
  });

  it("covers two samples with all their sums", () => {
    const [from, to] = samplesOf([
      { at: 0, totals: { requests: 3 } },
      { at: 100, ledger: 5, balance: 9_999_995, totals: { requests: 7 } },
    ]);
    expect(
      outcome([
        { at: 0, totals: { requests: 3 } },
        { at: 100, ledger: 5, balance: 9_999_995, totals: { requests: 7 } },
      ]),
    ).toEqual({
      first: from,
      last: to,
      samples: 2,
      measure: "equivalent_in_usd",
      ledger: cents(5),
      gateway: cents(5),
      difference: 0n,
      inDoubt: 0n,
      requests: 4,
      uncertainties: [{ kind: "rounding", below: cents(1) + 400_000n, above: cents(1) + 400_000n }],
      below: cents(1) + 400_000n,
      above: cents(1) + 400_000n,
      agrees: true,
      movements: [],
      leftOut: [],
    });
  });

  it("covers only samples of the last account", () => {
    expect(outcome(busy([{ account: "8" }, { account: "8" }]))).toMatchObject({
      samples: 3,
      ledger: cents(2),
      gateway: cents(2),
    });
    expect(outcome(busy([{}, { account: "8" }]))).toMatchObject({ samples: 3, ledger: cents(2) });
    expect(outcome(busy())).toMatchObject({ samples: 5, ledger: cents(4) });
  });

  it("covers only samples that have the figure", () => {
    expect(outcome(busy([{ balance: null }, {}, { balance: null }]))).toMatchObject({
      samples: 3,
      ledger: cents(3),
      gateway: cents(3),
      agrees: true,
    });
  });

  const held = (amount: number) => ({ after: { held: cents(amount) } });
  it.each<[string, Partial<Row>[], start: number, end: number]>([
    ["complete if nothing was held", [], 0, 400],
    ["shortened at the start, by up to a quarter, to where less was held", [held(5), held(4)], 100, 400],
    ["complete if as much was held after the start", [held(5), held(5)], 0, 400],
    ["complete if less was held only after the first quarter", [held(5), held(5), held(0)], 0, 400],
    ["shortened at the end, by up to a quarter, to where less was held", [{}, {}, {}, held(4), held(5)], 0, 300],
    ["complete if as much was held before the end", [{}, {}, {}, held(5), held(5)], 0, 400],
    ["complete if less was held only before the last quarter", [{}, {}, held(0), held(5), held(5)], 0, 400],
    ["shortened at both ends", [held(5), {}, held(9), {}, held(5)], 100, 300],
  ])("is %s", (_, changes, start, end) => {
    const { first, last } = outcome(busy(changes));
    expect([first.askedAt, last.askedAt]).toEqual([start, end]);
  });

  it("is missing if its start and end meet", () => {
    const rows: Row[] = [
      { at: 0, ...held(5) },
      { at: 1, ...held(5) },
    ];
    expect(outcome(rows).samples).toBe(2);
    expect(reconcile(samplesOf([{ at: 0, ...held(5) }, { at: 0 }, { at: 0, ...held(5) }]))).toEqual({
      ok: false,
      reason: "too_few",
    });
  });
});

describe("an interval between two samples", () => {
  const writtenTotals = (written: number) => ({ totals: { written } });

  it("without requests is not part of the bill", () => {
    const rows = busy([
      {},
      { ledger: 1 },
      { ledger: 1, balance: 9999 },
      { ledger: 1, balance: 9900 },
      { ledger: 2, balance: 9899 },
    ]);
    const quiet = rows.map((row, index) => ({ ...row, ...writtenTotals([0, 1, 1, 1, 2][index] ?? 0) }));
    const { ledger, gateway, movements } = outcome(quiet);
    expect([ledger, gateway]).toEqual([cents(2), cents(2)]);
    expect(movesOf(movements)).toEqual([["use_by_others", 99, false]]);
  });

  it("without requests right after a request may bill that request", () => {
    const rows = busy([
      {},
      { ledger: 9, balance: 10_000 },
      { ledger: 9, balance: 9991 },
      { ledger: 9, balance: 9991 },
      { ledger: 10, balance: 9990 },
    ]);
    const late = rows.map((row, index) => ({ ...row, ...writtenTotals([0, 1, 1, 1, 2][index] ?? 0) }));
    expect(outcome(late)).toMatchObject({ ledger: cents(10), gateway: cents(10), movements: [] });
  });

  it("without requests at the start is not part of the bill", () => {
    const rows = busy([
      {},
      { ledger: 0, balance: 9990 },
      { ledger: 1, balance: 9989 },
      { ledger: 2, balance: 9988 },
      { ledger: 3, balance: 9987 },
    ]);
    const first = rows.map((row, index) => ({ ...row, ...writtenTotals([0, 0, 1, 2, 3][index] ?? 0) }));
    const { ledger, gateway, movements } = outcome(first);
    expect([ledger, gateway, movesOf(movements)]).toEqual([cents(3), cents(3), [["use_by_others", 10, false]]]);
  });

  it("is left out as topped up if only the balance is known and rose", () => {
    const rows = busy([{}, {}, { balance: 10_498 }, { balance: 10_497 }, { balance: 10_496 }]);
    const { ledger, gateway, leftOut, movements } = outcome(rows);
    expect([ledger, gateway]).toEqual([cents(3), cents(3)]);
    expect(leftOut).toEqual([{ since: 100, until: 201, why: "topped_up" }]);
    expect(movesOf(movements)).toEqual([["top_up", 500, true]]);
  });

  it("is compared if the balance rose by one step at most", () => {
    expect(outcome(busy([{}, {}, { balance: 10_000 }, { balance: 9997 }, { balance: 9996 }]))).toMatchObject({
      leftOut: [],
      ledger: cents(4),
      gateway: cents(4),
    });
    expect(outcome(busy([{}, {}, { balance: 10_001 }, { balance: 9997 }, { balance: 9996 }])).leftOut).toHaveLength(1);
  });

  it("without requests but with a higher balance is a payment", () => {
    const rows = busy([
      { ledger: 1 },
      { ledger: 1, balance: 10_000 },
      { ledger: 1, balance: 10_500 },
      { ledger: 2, balance: 10_499 },
      { ledger: 3, balance: 10_498 },
    ]);
    const quiet = rows.map((row, index) => ({ ...row, ...writtenTotals([0, 0, 0, 1, 2][index] ?? 0) }));
    const { ledger, gateway, movements } = outcome(quiet);
    expect([ledger, gateway, movesOf(movements)]).toEqual([cents(2), cents(2), [["top_up", 500, false]]]);
  });

  it("includes the later correction of one of its charges", () => {
    const correction = (madeAt: number, ofChargeAt: number): LedgerCorrection => ({
      madeAt,
      ofChargeAt,
      amount: cents(3),
    });
    const rows = (more: number) => busy([{}, {}, {}, { ledger: 3 + more }, { ledger: 4 + more }]);
    const ledgerOf = (madeAt: number, ofChargeAt: number) => outcome(rows(3), [correction(madeAt, ofChargeAt)]).ledger;
    expect(ledgerOf(250, 50)).toBe(cents(7));
    expect(ledgerOf(200, 399)).toBe(cents(7));
    expect(ledgerOf(250, 400)).toBe(cents(4));
    expect(ledgerOf(250, -1)).toBe(cents(4));
    expect(ledgerOf(250, 0)).toBe(cents(7));
    expect(ledgerOf(400, 50)).toBe(cents(10));
    const dropped = busy([
      {},
      {},
      { balance: 20_000, ledger: 5 },
      { balance: 19_999, ledger: 6 },
      { balance: 19_998, ledger: 7 },
    ]);
    expect(outcome(dropped, [correction(150, 50)])).toMatchObject({
      ledger: cents(6),
      leftOut: [{ why: "topped_up" }],
    });
  });
});

describe("a difference", () => {
  const two = (changes: Partial<Row>, first: Partial<Row> = {}): Row[] => [
    { at: 0, balance: 10_000, ...first },
    { at: 100, balance: 9000, ledger: 1000, ...changes },
  ];
  const posted = (source: keyof typeof noAmounts, amount: number, inDoubt = 0) => ({
    totals: { posted: { ...noAmounts, [source]: cents(amount) }, inDoubt: { ...noAmounts, [source]: cents(inDoubt) } },
  });

  it.each<[string, Row[], object]>([
    ["nothing but rounding", two({}), { rounding: [1, 1] }],
    [
      "rounding of each request",
      two({ totals: { posted: { ...noAmounts, reported: cents(1000) }, requests: 100_000 } }),
      { rounding: [2, 2] },
    ],
    ["a hold at the end", two({ after: { held: cents(7) } }), { pending: [0, 7], rounding: [1, 1] }],
    ["a hold at the start", two({}, { after: { held: cents(7) } }), { pending: [7, 0], rounding: [1, 1] }],
    [
      "a hold at the start, up to the posted amount",
      two({ ledger: 5 }, { after: { held: cents(7) } }),
      { pending: [5, 0], rounding: [1, 1] },
    ],
    [
      "nothing but rounding if the posted sum is negative",
      two({ ledger: -5 }, { after: { held: cents(7) } }),
      { rounding: [1, 1] },
    ],
    ["an assumed amount", two(posted("assumed", 1000)), { assumed: [1000, 0], rounding: [1, 1] }],
    ["a partial amount", two(posted("partial", 1000)), { partial: [1000, 1000], rounding: [1, 1] }],
    ["a counted amount", two(posted("counted", 1000)), { counted: [500, 100], rounding: [1, 1] }],
    [
      "nothing but rounding if a partial amount was corrected below zero",
      two(posted("partial", -1000)),
      { rounding: [1, 1] },
    ],
    ["a reported amount in doubt", two(posted("reported", 1000, 400)), { in_doubt: [400, 400], rounding: [1, 1] }],
    [
      "a counted amount in doubt",
      two(posted("counted", 1000, 400)),
      { counted: [500, 100], in_doubt: [200, 360], rounding: [1, 1] },
    ],
    [
      "an assumed amount in doubt",
      two(posted("assumed", 1000, 400)),
      { assumed: [1000, 0], in_doubt: [0, 400], rounding: [1, 1] },
    ],
    ["a partial amount in doubt", two(posted("partial", 1000, 400)), { partial: [1000, 1000], rounding: [1, 1] }],
    [
      "nothing but rounding if an amount in doubt was corrected",
      two(posted("reported", 1000, -400)),
      { rounding: [1, 1] },
    ],
    ["a model without a price", two({ after: { unpriced: 1 } }), { unpriced: [0, null], rounding: [1, 1] }],
    [
      "a model without a price that still runs",
      two({ after: { pendingUnpriced: 1 } }),
      { unpriced: [0, null], rounding: [1, 1] },
    ],
    [
      "nothing but rounding if a model without a price was used before",
      two({ totals: { unpriced: 4, posted: { ...noAmounts, reported: cents(1000) } } }, { totals: { unpriced: 4 } }),
      { rounding: [1, 1] },
    ],
  ])("may come from %s", (_, rows, uncertainties) => {
    expect(inCents(outcome(rows).uncertainties)).toEqual(uncertainties);
  });

  it.each<[gateway: number, more: Partial<Row>, agrees: boolean]>([
    [1000, {}, true],
    [1001, {}, true],
    [1002, {}, false],
    [999, {}, true],
    [998, {}, false],
    [1008, { after: { held: cents(7) } }, true],
    [1009, { after: { held: cents(7) } }, false],
    [5000, { after: { unpriced: 1 } }, true],
    [998, { after: { unpriced: 1 } }, false],
  ])("of %i billed for 1000 is explained or not (case %#)", (gateway, more, agrees) => {
    expect(outcome(two({ balance: 10_000 - gateway, ...more }))).toMatchObject({
      agrees,
      difference: cents(gateway - 1000),
    });
  });

  it("is rounded once if nothing was billed while no request ran", () => {
    const rows = busy([
      {},
      {},
      { ledger: 1, balance: 9999 },
      { ledger: 1, balance: 9999 },
      { ledger: 2, balance: 9998 },
    ]);
    const quiet = rows.map((row, index) => ({ ...row, totals: { written: [0, 1, 1, 1, 2][index] ?? 0 } }));
    expect(inCents(outcome(quiet).uncertainties)).toEqual({ rounding: [1, 1] });
  });

  it("has no bound if one of several runs of intervals has none", () => {
    const rows = busy([{}, {}, { balance: 20_000 }, { balance: 19_999 }, { balance: 19_998 }]);
    const unpriced = rows.map((row, index) => ({
      ...row,
      totals: { unpriced: index === 0 ? 0 : 1, posted: { ...noAmounts, reported: cents(index) } },
    }));
    expect(inCents(outcome(unpriced).uncertainties)).toEqual({ unpriced: [0, null], rounding: [2, 2] });
  });

  it("sums the uncertainties of every run of intervals, and the amounts in doubt of all sources", () => {
    const inDoubt = { reported: cents(1), counted: cents(2), partial: cents(4), assumed: cents(8) };
    expect(outcome(two({ totals: { posted: { ...noAmounts, reported: cents(1000) }, inDoubt } })).inDoubt).toBe(
      cents(15),
    );
    const held = { after: { held: cents(2) } };
    const topped = busy([{}, held, { balance: 20_000, ...held }, { balance: 19_999 }, { balance: 19_998 }]);
    expect(inCents(outcome(topped).uncertainties)).toEqual({ pending: [2, 2], rounding: [2, 2] });
    expect(outcome(topped)).toMatchObject({ below: cents(4), above: cents(4) });
  });
});

describe("a movement of the account", () => {
  /** Credits at 100 per dollar, unchanged unless stated. */
  const pack = (
    at: number,
    figures: AccountFigures,
    left = 1_000_000,
    used = 0,
    totals: Partial<LedgerTotals> = {},
  ): Row => ({
    at,
    balance: left,
    used,
    figures: { total_credits: "2000000", frozen_credits: "0", expired_credits: "0", inactive_credits: "0", ...figures },
    totals: { written: at, ...totals },
  });
  const wallet = (at: number, left: number, used: number, frozen: number, balance = left): Row => ({
    at,
    balance,
    figures: { credit_remain: String(left), credit_used: String(used), credit_frozen: String(frozen) },
    totals: { written: at },
  });

  it.each<[string, Row[], unknown[]]>([
    ["nothing", [pack(0, {}), pack(100, {})], []],
    ["a payment", [pack(0, {}), pack(100, { total_credits: "2000500" }, 1_000_500)], [["top_up", 500, false]]],
    [
      "a withdrawn payment",
      [pack(0, {}), pack(100, { total_credits: "1999500" }, 999_499, 1)],
      [["withdrawn", 500, false]],
    ],
    [
      "a payment and its withdrawal",
      [pack(0, {}), pack(100, { total_credits: "2000500" }, 1_000_500), pack(200, {})],
      [
        ["top_up", 500, false],
        ["withdrawn", 500, false],
      ],
    ],
    [
      "expired, frozen and inactive credits",
      [
        pack(0, { frozen_credits: "50" }),
        pack(100, { expired_credits: "7", frozen_credits: "40", inactive_credits: "9" }, 1_000_000 - 6),
      ],
      [
        ["expired", 7, false],
        ["frozen", -10, false],
        ["inactive", 9, false],
      ],
    ],
    [
      "a balance that fell by more than the credits",
      [pack(0, {}), pack(100, {}, 999_900, 1)],
      [["unexplained", -99, false]],
    ],
    [
      "a balance that rose by more than the credits",
      [pack(0, {}), pack(100, {}, 1_000_100, 1)],
      [["unexplained", 101, false]],
    ],
    ["a balance within two cents", [pack(0, {}), pack(100, {}, 999_997, 1)], []],
    ["a balance just beyond two cents", [pack(0, {}), pack(100, {}, 999_996, 1)], [["unexplained", -3, false]]],
    ["a pack without a total", [pack(0, { total_credits: "" }), pack(100, {}, 999_000, 1)], []],
    ["a wallet that was filled", [wallet(0, 1_000_000, 5, 0), wallet(100, 1_000_499, 6, 0)], [["top_up", 500, false]]],
    [
      "a wallet that was frozen in part",
      [wallet(0, 1_000_000, 5, 10), wallet(100, 999_979, 6, 30)],
      [["frozen", 20, false]],
    ],
    [
      "a wallet without a frozen amount",
      [
        { at: 0, balance: 1_000_000, figures: { credit_remain: "1000000", credit_used: "5" }, totals: { written: 0 } },
        {
          at: 100,
          balance: 1_000_499,
          figures: { credit_remain: "1000499", credit_used: "6" },
          totals: { written: 1 },
        },
      ],
      [["top_up", 500, false]],
    ],
    [
      "nothing for a wallet that does not match its balance",
      [wallet(0, 1_000_000, 5, 0), wallet(100, 999_999, 6, 0, 999_900)],
      [],
    ],
  ])("is named: %s", (_, rows, expected) => {
    expect(movesOf(outcome(rows).movements)).toEqual(expected);
  });

  it("is named only from figures that the record has", () => {
    const bare = (at: number, figures: AccountFigures): Row => ({
      at,
      balance: null,
      figures,
      totals: { written: at },
    });
    const credits = (available: string, used: string, balance: string) => ({
      available_credits: available,
      used_credits: used,
      equivalent_in_usd: balance,
    });
    const silent = [bare(0, credits("1000000", "0", "10000.00")), bare(100, credits("999999", "1", "9999.99"))];
    expect(outcome(silent).movements).toEqual([]);
    const [first = bare(0, {})] = [pack(0, {})];
    const withoutBalance = [first, bare(100, { used_credits: "1", total_credits: "2000500" })];
    expect(movesOf(outcome(withoutBalance).movements)).toEqual([["top_up", 500, false]]);
    const withoutRest = [
      wallet(0, 1_000_000, 5, 0),
      bare(100, { credit_used: "6", credit_frozen: "0", equivalent_in_usd: "10004.99" }),
    ];
    expect(outcome(withoutRest).movements).toEqual([]);
  });

  it("is named only within the compared span", () => {
    const held = { after: { held: cents(5) } };
    const paid = (at: number, total: number) =>
      pack(at, { total_credits: String(2_000_000 + total) }, 1_000_000 + total - at / 100, at / 100);
    const rows = [
      { ...paid(0, 0), ...held },
      paid(100, 500),
      paid(200, 500),
      paid(300, 500),
      { ...paid(400, 900), ...held },
    ];
    expect(outcome(rows)).toMatchObject({ samples: 3, movements: [] });
  });

  it("is use by others or a refund if the counter moved while no request ran", () => {
    const still = { written: 5 };
    const rows = [
      pack(0, {}, 1_000_000, 100, still),
      pack(100, {}, 999_900, 200, still),
      pack(200, {}, 999_960, 140, still),
      pack(300, {}, 999_950, 150, { written: 6 }),
    ];
    expect(movesOf(outcome(rows).movements)).toEqual([
      ["use_by_others", 100, false],
      ["refund", 60, false],
    ]);
  });

  it("is left out with its interval if the counter fell while requests ran", () => {
    const rows = [
      pack(0, {}, 1_000_000, 100),
      pack(100, {}, 999_900, 200),
      pack(200, {}, 1_000_050, 50),
      pack(300, {}, 1_000_040, 60),
    ];
    expect(outcome(rows).leftOut).toEqual([{ since: 100, until: 201, why: "counter_fell" }]);
  });
});

describe("a comparison", () => {
  const found = { agrees: true, ledger: cents(1_000), gateway: cents(900), below: noMoney, above: noMoney };

  it.each([
    ["finds a difference", { agrees: false }, "differs"],
    ["finds a difference even with unbounded uncertainty", { agrees: false, above: null }, "differs"],
    ["agrees without uncertainty", {}, "agree"],
    ["agrees with 5% uncertainty above", { above: cents(50) }, "agree"],
    ["agrees with 5% uncertainty below", { below: cents(50) }, "agree"],
    ["cannot tell with more than 5% uncertainty above", { above: cents(51) }, "cannot_tell"],
    ["cannot tell with more than 5% uncertainty below", { below: cents(51) }, "cannot_tell"],
    [
      "cannot tell with more than 5% uncertainty of the gateway's larger amount",
      { gateway: cents(2_000), above: cents(101) },
      "cannot_tell",
    ],
    [
      "agrees with 5% uncertainty of the gateway's larger amount",
      { gateway: cents(2_000), above: cents(100) },
      "agree",
    ],
    ["cannot tell with unbounded uncertainty", { above: null }, "cannot_tell"],
  ] as const)("%s", (_name, change, expected) => {
    expect(comparisonOf({ ...found, ...change })).toBe(expected);
    expect(comparisons).toContain(expected);
  });

  it("has three results", () => expect(comparisons).toEqual(["agree", "differs", "cannot_tell"]));
});
