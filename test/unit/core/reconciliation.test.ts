import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { samplesToThin, type AccountSample, type LedgerTotals } from "../../../src/core/account.ts";
import { formatUsd, noMoney, usd, type PicoUsd } from "../../../src/core/money.ts";
import { reconcile, type LedgerCorrection, type Reconciliation } from "../../../src/core/reconciliation.ts";
import { ledgerTotals } from "./examples.ts";

const minuteMs = 60_000;
const perUsd = 10_000_000n;

/** Contents of the account record: both credits and balance, the balance alone in steps of a cent, or the wallet. */
type Shape = "credits" | "balance" | "wallet";

/** Simulates an account and a ledger. The gateway bills independently of the ledger. */
class World {
  readonly samples: AccountSample[] = [];
  readonly corrections: LedgerCorrection[] = [];
  readonly #shape: Shape;
  #at = Date.parse("2026-11-20T00:00:00Z");
  #account = "7";
  #credits = { total: usd("1000") as bigint, used: 0n, frozen: 0n, expired: 0n };
  #ledger = ledgerTotals();

  constructor(shape: Shape = "credits") {
    this.#shape = shape;
  }

  charge(
    amount: PicoUsd | null,
    {
      billed = amount ?? noMoney,
      source = "reported",
      doubted = false,
    }: { billed?: bigint; source?: keyof LedgerTotals["posted"]; doubted?: boolean } = {},
  ): this {
    const { posted, inDoubt, written, requests, unpriced } = this.#ledger;
    if (doubted)
      this.#ledger = {
        ...this.#ledger,
        inDoubt: { ...inDoubt, [source]: (inDoubt[source] + (amount ?? 0n)) as PicoUsd },
      };
    const cost = (posted[source] + (amount ?? 0n)) as PicoUsd;
    this.#ledger = {
      ...this.#ledger,
      posted: { ...posted, [source]: cost },
      written: written + 1,
      requests: requests + 1,
      unpriced: unpriced + (amount === null ? 1 : 0),
    };
    return this.use(billed);
  }

  /** Starts a request. `settle` posts its cost. */
  begin(hold: PicoUsd): this {
    const { written, pending, held } = this.#ledger;
    this.#ledger = { ...this.#ledger, written: written + 1, pending: pending + 1, held: (held + hold) as PicoUsd };
    return this;
  }

  settle(hold: PicoUsd, cost: PicoUsd): this {
    const { posted, pending, held, requests } = this.#ledger;
    const reported = (posted.reported + cost) as PicoUsd;
    this.#ledger = {
      ...this.#ledger,
      posted: { ...posted, reported },
      requests: requests + 1,
      pending: pending - 1,
      held: (held - hold) as PicoUsd,
    };
    return this;
  }

  correct(amount: PicoUsd, ofChargeAt: number): this {
    const { posted, written } = this.#ledger;
    this.#ledger = {
      ...this.#ledger,
      posted: { ...posted, reported: (posted.reported + amount) as PicoUsd },
      written: written + 1,
    };
    this.corrections.push({ madeAt: this.#at, ofChargeAt, amount });
    return this;
  }

  use(amount: bigint): this {
    this.#credits.used += amount;
    return this;
  }

  move(part: "total" | "frozen" | "expired", amount: string, sign = 1n): this {
    this.#credits[part] += sign * usd(amount);
    return this;
  }

  otherAccount(): this {
    this.#account = "8";
    this.#credits = { total: usd("3"), used: usd("500"), frozen: 0n, expired: 0n };
    return this;
  }

  get at(): number {
    return this.#at;
  }

  sample(): this {
    this.#at += minuteMs;
    const before = this.#ledger;
    this.samples.push({
      askedAt: this.#at,
      answeredAt: this.#at,
      account: this.#account,
      figures: this.#figures(),
      before,
      after: before,
    });
    this.#at += 1;
    return this;
  }

  #figures(): AccountSample["figures"] {
    const { total, used, frozen, expired } = this.#credits;
    const left = total - used - frozen - expired;
    const units = (amount: bigint) => ((amount * perUsd) / usd("1")).toString();
    switch (this.#shape) {
      case "credits":
        return {
          equivalent_in_usd: formatUsd(left as PicoUsd),
          total_credits: units(total),
          used_credits: units(used),
          frozen_credits: units(frozen),
          expired_credits: units(expired),
          inactive_credits: "0",
          available_credits: units(left),
        };
      case "wallet":
        return {
          equivalent_in_usd: formatUsd(left as PicoUsd),
          used_credits: "0",
          credit_remain: units(left),
          credit_used: units(used),
          credit_frozen: units(frozen),
        };
      case "balance":
        return { equivalent_in_usd: formatUsd((left - (left % usd("0.01"))) as PicoUsd) };
    }
  }

  outcome(): Reconciliation {
    const result = reconcile(this.samples, this.corrections);
    if (!result.ok) throw new Error(result.reason);
    return result.reconciliation;
  }
}

const named = ({ movements }: Reconciliation) =>
  Object.fromEntries(movements.map(({ kind, amount }) => [kind, formatUsd(amount)]));

describe("the ledger compared with the account", () => {
  it.each(["credits", "wallet", "balance"] as const)(
    "agrees to the last digit if the gateway bills the same (%s)",
    (shape) => {
      const world = new World(shape)
        .sample()
        .charge(usd("1.25"))
        .charge(usd("0.75"))
        .sample()
        .charge(usd("2"))
        .sample();
      expect(world.outcome()).toMatchObject({
        ledger: usd("4"),
        gateway: usd("4"),
        difference: 0n,
        agrees: true,
        requests: 3,
        movements: [],
        leftOut: [],
      });
    },
  );

  it.each(["credits", "wallet", "balance"] as const)("finds a difference of 1%% in either direction (%s)", (shape) => {
    const more = new World(shape)
      .sample()
      .charge(usd("50"), { billed: usd("50.5") })
      .sample()
      .charge(usd("50"), { billed: usd("50.5") })
      .sample();
    expect(more.outcome()).toMatchObject({ difference: usd("1"), agrees: false });
    const less = new World(shape)
      .sample()
      .charge(usd("100"), { billed: usd("99") })
      .sample();
    expect(less.outcome()).toMatchObject({ difference: -usd("1"), agrees: false });
  });

  it("treats charges that are pending at either end as a doubt, whichever side counts them first", () => {
    const hold = usd("3");
    const running = new World()
      .begin(hold)
      .sample()
      .charge(usd("5"))
      .settle(hold, usd("2"))
      .begin(hold)
      .use(usd("1"))
      .sample();
    // The first was billed before the span, the second in it.
    expect(running.outcome()).toMatchObject({
      ledger: usd("7"),
      gateway: usd("6"),
      agrees: true,
      uncertainties: [{ kind: "pending", below: hold, above: hold }, { kind: "rounding" }],
    });
    expect(new World().sample().charge(usd("5")).begin(hold).use(usd("3.1")).sample().outcome()).toMatchObject({
      agrees: false,
    });
  });

  it("begins and ends at samples with less pending", () => {
    const world = new World().begin(usd("9")).sample().settle(usd("9"), usd("1")).use(usd("1")).sample();
    for (let index = 0; index < 10; index++) world.charge(usd("1")).sample();
    world.begin(usd("9")).sample();
    expect(world.outcome()).toMatchObject({
      ledger: usd("10"),
      gateway: usd("10"),
      difference: 0n,
      samples: 11,
      uncertainties: [{ kind: "rounding" }],
    });
  });

  it("assumed, partial and counted amounts are uncertain by their source, and a missing price without a bound", () => {
    const outcomeOf = (source: "assumed" | "partial" | "counted") =>
      new World()
        .sample()
        .charge(usd("10"), { source, billed: usd("10") })
        .sample()
        .outcome();
    expect(outcomeOf("assumed").uncertainties[0]).toEqual({ kind: "assumed", below: usd("10"), above: 0n });
    expect(outcomeOf("partial").uncertainties[0]).toEqual({ kind: "partial", below: usd("10"), above: usd("10") });
    expect(outcomeOf("counted").uncertainties[0]).toEqual({ kind: "counted", below: usd("5"), above: usd("1") });
    const unpriced = new World()
      .sample()
      .charge(usd("1"))
      .charge(null, { billed: usd("7") })
      .sample()
      .outcome();
    expect(unpriced).toMatchObject({
      difference: usd("7"),
      above: null,
      agrees: true,
      uncertainties: [{ kind: "unpriced", above: null }, { kind: "rounding" }],
    });
  });

  it.each([
    ["reported", usd("10"), usd("10")],
    ["counted", usd("10"), usd("10")],
    ["partial", usd("10"), usd("10")],
    ["assumed", usd("10"), usd("10")],
  ] as const)("may differ by the amount in doubt once, in either direction: %s", (source, below, above) => {
    const outcomeOf = (doubted: boolean) =>
      new World()
        .sample()
        .charge(usd("10"), { source, doubted, billed: usd("19") })
        .charge(usd("5"))
        .sample()
        .outcome();
    const [certain, doubtful] = [outcomeOf(false), outcomeOf(true)];
    const rounding = doubtful.uncertainties.find(({ kind }) => kind === "rounding")?.below ?? noMoney;
    expect([doubtful.below - rounding, (doubtful.above ?? noMoney) - rounding]).toEqual([below, above]);
    expect(doubtful).toMatchObject({ inDoubt: usd("10"), agrees: true });
    expect(certain).toMatchObject({ inDoubt: 0n, agrees: source === "partial" });
    expect(doubtful.below >= certain.below && (doubtful.above ?? 0n) >= (certain.above ?? 0n)).toBe(true);
  });

  it("names the movements of the account other than requests", () => {
    const world = new World()
      .sample()
      .charge(usd("5"))
      .sample()
      .sample()
      .use(usd("4"))
      .sample()
      .move("total", "20")
      .charge(usd("1"))
      .sample();
    world
      .move("expired", "2")
      .move("frozen", "0.5")
      .charge(usd("1"))
      .sample()
      .move("frozen", "0.2", -1n)
      .charge(usd("1"))
      .sample();
    const outcome = world.outcome();
    expect(outcome).toMatchObject({ ledger: usd("8"), difference: 0n, agrees: true, leftOut: [] });
    expect(named(outcome)).toEqual({ use_by_others: "4.00", top_up: "20.00", expired: "2.00", frozen: "0.30" });
  });

  it("attributes late billing to the earlier requests, not to use by others", () => {
    const late = new World()
      .sample()
      .charge(usd("5"), { billed: usd("3") })
      .sample()
      .use(usd("2"))
      .sample()
      .sample();
    expect(late.outcome()).toMatchObject({ difference: 0n, movements: [] });
  });

  it("leaves out the interval of a top-up if only the balance is known", () => {
    const world = new World("balance")
      .sample()
      .charge(usd("5"))
      .sample()
      .charge(usd("3"))
      .move("total", "100")
      .sample()
      .charge(usd("2"))
      .sample();
    const outcome = world.outcome();
    expect(outcome).toMatchObject({ ledger: usd("7"), difference: 0n, agrees: true, leftOut: [{ why: "topped_up" }] });
    expect(outcome.movements).toEqual([{ kind: "top_up", amount: usd("100"), isEstimate: true }]);
    const quiet = new World("balance")
      .sample()
      .charge(usd("5"))
      .sample()
      .sample()
      .move("total", "10")
      .sample()
      .use(usd("1"))
      .sample();
    expect(named(quiet.outcome())).toEqual({ top_up: "10.00", use_by_others: "1.00" });
    expect(quiet.outcome().difference).toBe(0n);
  });

  it("leaves out an interval in which the counter fell, such as when a pack ends", () => {
    const world = new World()
      .sample()
      .charge(usd("5"))
      .sample()
      .charge(usd("1"))
      .use(-usd("6"))
      .sample()
      .charge(usd("2"))
      .sample();
    expect(world.outcome()).toMatchObject({ ledger: usd("7"), difference: 0n, leftOut: [{ why: "counter_fell" }] });
  });

  it("counts a correction in the interval of its charge", () => {
    const world = new World().sample().charge(usd("5"), { billed: usd("6") });
    const billedAt = world.at;
    world.sample().correct(usd("1"), billedAt).charge(usd("2")).sample();
    expect(world.outcome()).toMatchObject({ ledger: usd("8"), difference: 0n });
    // Without the interval of its charge, the correction is not part of the sum.
    const [, ...later] = world.samples;
    expect(reconcile(later, world.corrections)).toMatchObject({ reconciliation: { ledger: usd("2"), difference: 0n } });
  });

  it("compares one account only, and states why it cannot compare", () => {
    const world = new World().sample().charge(usd("5")).sample().otherAccount().sample();
    expect(reconcile(world.samples)).toEqual({ ok: false, reason: "too_few" });
    expect(world.charge(usd("1")).sample().outcome()).toMatchObject({ ledger: usd("1"), difference: 0n });
    expect(reconcile([])).toEqual({ ok: false, reason: "too_few" });
    const withoutAmounts = world.samples.map((sample) => ({
      ...sample,
      account: null,
      figures: { used_credits: "5" },
    }));
    expect(reconcile(withoutAmounts)).toEqual({ ok: false, reason: "no_measure" });
  });
});

const cents = fc.integer({ min: 1, max: 500 }).map((count) => (BigInt(count) * usd("0.01")) as PicoUsd);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("charge" as const), amount: cents }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("sample" as const), amount: cents }) },
  fc.record({ kind: fc.constantFrom("top_up", "expire", "freeze", "others"), amount: cents }),
);

/** Returns a world after the steps. Others use the account only while no request runs. `percent`: billed part. */
function worldAfter(steps: readonly { kind: string; amount: PicoUsd }[], shape: Shape, percent = 100n): World {
  const world = new World(shape).sample();
  for (const { kind, amount } of steps) {
    if (kind === "charge") world.charge(amount, { billed: (amount * percent) / 100n });
    else if (kind === "sample") world.sample();
    else if (kind === "others") world.sample().sample().use(amount).sample();
    else if (shape === "credits" || kind === "top_up")
      world.move(kind === "top_up" ? "total" : kind === "expire" ? "expired" : "frozen", formatUsd(amount));
  }
  return world.sample();
}

describe("reconciliation", () => {
  it("agrees exactly with an honest gateway, whatever else moves the account", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const outcome = worldAfter(steps, "credits").outcome();
        expect(outcome).toMatchObject({ difference: 0n, agrees: true, leftOut: [] });
        const paid = steps.filter(({ kind }) => kind === "others").reduce((total, { amount }) => total + amount, 0n);
        expect(outcome.movements.find(({ kind }) => kind === "use_by_others")?.amount ?? 0n).toBe(paid);
        expect(outcome.movements.filter(({ kind }) => kind === "unexplained")).toEqual([]);
      }),
    );
  });

  it("finds the sign and size of a bill that is 1% too high or too low", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), fc.constantFrom(99n, 101n), (steps, percent) => {
        const outcome = worldAfter(steps, "credits", percent).outcome();
        fc.pre(outcome.ledger > 0n);
        expect(outcome).toMatchObject({ agrees: false, difference: (outcome.ledger * (percent - 100n)) / 100n });
      }),
    );
  });
});

describe("retention of samples", () => {
  const dayMs = 86_400_000;

  it("is idempotent and keeps the difference over the remaining span", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.constantFrom(100n, 101n), (steps, percent) => {
        const { samples } = worldAfter(steps, "credits", percent);
        const last = samples.at(-1)?.askedAt ?? 0;
        expect(samplesToThin(samples, last + 6 * dayMs)).toEqual([]);
        for (const ageMs of [8 * dayMs, 200 * dayMs]) {
          const gone = new Set(samplesToThin(samples, last + ageMs));
          const kept = samples.filter(({ askedAt }) => !gone.has(askedAt));
          expect(samplesToThin(kept, last + ageMs)).toEqual([]);
          // The remaining span has the same difference as before.
          const before = reconcile(
            samples.filter(
              ({ askedAt }) => askedAt >= (kept[0]?.askedAt ?? 0) && askedAt <= (kept.at(-1)?.askedAt ?? 0),
            ),
          );
          const after = reconcile(kept);
          if (
            before.ok &&
            after.ok &&
            before.reconciliation.first === after.reconciliation.first &&
            before.reconciliation.last === after.reconciliation.last
          ) {
            expect(after.reconciliation.difference).toBe(before.reconciliation.difference);
          }
        }
      }),
    );
  });

  it("thins two weeks of samples a minute apart to a full week and an hourly week", () => {
    const world = new World();
    for (let index = 0; index < 14 * 1440; index++) world.charge(usd("0.001")).sample();
    const now = world.at;
    const left = world.samples.length - samplesToThin(world.samples, now).length;
    expect(left).toBeGreaterThan(7 * 1440 + 160);
    expect(left).toBeLessThan(7 * 1440 + 180);
  });
});
