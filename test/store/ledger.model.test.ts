import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatScope, type Caller, type Period, type Scope } from "../../src/core/budget.ts";
import type { PicoUsd } from "../../src/core/money.ts";
import type { Charge } from "../../src/core/charge.ts";
import type { ExtendResult, HoldResult, SettleResult } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/store/sqlite/open.ts";
import { alice, assumed, bob, endAt, holdOf, ledgerKinds, noon, posting, priceId, canonical, type LedgerHome } from "../support/ledger-fixtures.ts";
import { manualClock, type ManualClock } from "../support/manual-clock.ts";

/*
 * The same random story is told to the memory ledger, which adds every sum up from the charges, and to SQLite, which
 * keeps sums. All that they answer must agree, and SQLite's own verification must find nothing.
 */

const carol: Caller = { key: "k-carol", team: null };
const nobody: Caller = { key: "", team: null };
const scopes: Scope[] = [
  { kind: "all" }, { kind: "team", team: "red" }, { kind: "key", key: "k-alice" }, { kind: "eachKey", team: null }, { kind: "eachKey", team: "red" },
];
const periodsUsed: Period[] = ["total", "1h", "1d"];

type Step =
  | { readonly do: "hold"; readonly id: string; readonly caller: Caller; readonly amount: PicoUsd | null; readonly bounded: boolean; readonly task: boolean }
  | { readonly do: "extend"; readonly id: string; readonly atLeast: PicoUsd; readonly more: PicoUsd }
  | { readonly do: "post"; readonly id: string; readonly tokens: number; readonly assumed: boolean }
  | { readonly do: "void"; readonly id: string }
  | { readonly do: "adjust"; readonly id: string; readonly fix: string; readonly amount: PicoUsd }
  | { readonly do: "setBudget"; readonly scope: Scope; readonly period: Period; readonly limit: PicoUsd; readonly soft: boolean }
  | { readonly do: "removeBudget"; readonly scope: Scope; readonly period: Period }
  | { readonly do: "clock"; readonly by: number }
  | { readonly do: "restart"; readonly zone: string };

const id = fc.integer({ min: 0, max: 11 }).map((n) => `c${n}`);
const amount = fc.integer({ min: 0, max: 40 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd);
const scope = fc.constantFrom(...scopes);
const period = fc.constantFrom(...periodsUsed);

const step = (zones: readonly string[]): fc.Arbitrary<Step> => fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("hold" as const), id, caller: fc.constantFrom(alice, bob, carol, nobody), amount: fc.option(amount, { freq: 12 }), bounded: fc.integer({ min: 0, max: 12 }).map((n) => n > 0), task: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("extend" as const), id, atLeast: amount, more: amount }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("post" as const), id, tokens: fc.integer({ min: 0, max: 50 }), assumed: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("void" as const), id }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("adjust" as const), id, fix: fc.constantFrom("f1", "f2", "f3"), amount: fc.integer({ min: -20, max: 20 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("setBudget" as const), scope, period, limit: fc.integer({ min: 0, max: 150 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd), soft: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("removeBudget" as const), scope, period }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("clock" as const), by: fc.integer({ min: -90, max: 200 }).map((n) => n * 60_000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const), zone: fc.constantFrom(...zones) }) },
);

type Answer = HoldResult | ExtendResult | SettleResult | Charge | object | string | number | boolean | null;

class Told {
  readonly #home: LedgerHome;
  readonly #clock: ManualClock;
  #store: Store;

  private constructor(home: LedgerHome, clock: ManualClock, store: Store) {
    this.#home = home;
    this.#clock = clock;
    this.#store = store;
  }

  static async begin(home: LedgerHome, clock: ManualClock): Promise<Told> {
    return new Told(home, clock, await home.open());
  }

  async tell(step: Step): Promise<Answer> {
    const { ledger } = this.#store;
    const at = this.#clock.now();
    switch (step.do) {
      case "hold": {
        const kind = step.task ? "task" : "request";
        return ledger.hold(holdOf(step.id, step.amount, { at, caller: step.caller, bounded: step.bounded, kind, price: { id: priceId, canonical } }));
      }
      case "extend":
        return ledger.extend(step.id, (step.atLeast + step.more) as PicoUsd, step.atLeast);
      case "post": {
        const charge = await ledger.charge(step.id);
        const unpriced = charge?.hold === null;
        return ledger.post(step.id, step.assumed || unpriced ? assumed(charge?.hold ?? null) : posting(step.tokens, step.tokens), endAt(at));
      }
      case "void":
        return ledger.void(step.id, "left", endAt(at));
      case "adjust":
        return ledger.adjust(step.id, { id: step.fix, at, amount: step.amount, why: "test", by: "root" });
      case "setBudget":
        return ledger.setBudget({ scope: step.scope, period: step.period, mode: step.soft ? "soft" : "hard", limit: step.limit, warnPercent: null }, at);
      case "removeBudget":
        return ledger.removeBudget(formatScope(step.scope), step.period);
      case "clock":
        return null;
      case "restart":
        await this.#store[Symbol.asyncDispose]();
        this.#store = await this.#home.open(step.zone);
        return this.#store.ledger.recover(at);
    }
  }

  async standing(): Promise<Answer> {
    const at = this.#clock.now();
    return { windows: await this.#store.ledger.windows(at), pending: await this.#store.ledger.pending() };
  }

  async everything(): Promise<Answer> {
    const { ledger } = this.#store;
    const at = this.#clock.now();
    const span = { since: noon - 1e9, until: at + 1e9 };
    return {
      charges: await ledger.charges({ limit: 1000 }),
      byDay: await ledger.report({ by: ["day", "key"], ...span }),
      byHour: await ledger.report({ by: ["hour", "team"], ...span }),
      differences: (await ledger.verify()).differences,
    };
  }

  async end(): Promise<void> {
    await this.#store[Symbol.asyncDispose]();
    await this.#home[Symbol.asyncDispose]();
  }
}

async function compare(kindName: string, steps: readonly Step[]): Promise<void> {
  const clock = manualClock(noon);
  const homes = ledgerKinds.filter(({ name }) => name === "memory" || name === kindName).map((kind) => kind.newHome(clock));
  const [model, real] = await Promise.all(homes.map((home) => Told.begin(home, clock)));
  if (model === undefined || real === undefined) throw new Error("two ledgers are compared");
  try {
    for (const each of steps) {
      if (each.do === "clock") clock.set(clock.now() + each.by);
      expect(await real.tell(each)).toEqual(await model.tell(each));
      expect(await real.standing()).toEqual(await model.standing());
    }
    expect(await real.everything()).toEqual(await model.everything());
    expect(await real.everything()).toMatchObject({ differences: [] });
  } finally {
    await model.end();
    await real.end();
  }
}

describe("SQLite against the model", () => {
  it("agrees on every random story, in process", { timeout: 120_000 }, async () => {
    const stories = fc.array(step(["UTC"]), { minLength: 5, maxLength: 60 });
    await fc.assert(fc.asyncProperty(stories, (steps) => compare("sqlite in process", steps)), { numRuns: Number(process.env["MODEL_RUNS"] ?? 120) });
  });

  it("agrees on random stories, in threads and across time zones", { timeout: 120_000 }, async () => {
    const stories = fc.array(step(["UTC", "Europe/Berlin", "Asia/Kathmandu"]), { minLength: 20, maxLength: 60 });
    await fc.assert(fc.asyncProperty(stories, (steps) => compare("sqlite in threads", steps)), { numRuns: 8, endOnFailure: true });
  });
});
