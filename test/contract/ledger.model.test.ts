import { setImmediate as nextTurn } from "node:timers/promises";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Period } from "../../src/core/budget.ts";
import {
  formatScope,
  hasSubjects,
  type Caller,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  sessionScope,
  teamScope,
} from "../../src/core/scope.ts";
import type { PicoUsd } from "../../src/core/money.ts";
import type { Charge } from "../../src/core/charge.ts";
import type { ExtendResult, HoldResult, Ledger, SettleResult, Verification } from "../../src/ports/ledger.ts";
import { emptyState, ModelLedger } from "../model/ledger.ts";
import { repair } from "../../src/ledger/audit/repair-ledger.ts";
import { ledgerIn } from "../../src/ledger/sqlite/maintenance.ts";
import { calendarOf } from "../../src/platform/clock.ts";
import { derivedRows, tamper } from "../support/derived-rows.ts";
import {
  alice,
  assumed,
  bob,
  canonical,
  endAt,
  holdOf,
  inThreads,
  noon,
  onPostgres,
  postgresKind,
  posting,
  priceId,
  sqliteKind,
  threadsKind,
  utc,
  type LedgerKind,
} from "../support/ledger-fixtures.ts";
import { manualClock, type ManualClock } from "../support/manual-clock.ts";
import { callers, scopes, type KnownCaller } from "../support/scope-arbitraries.ts";
import { runs } from "../support/effort.ts";

/*
 * Tests that the model and the stores give the same answers to the same random steps. The model sums the charges each
 * time; SQLite and PostgreSQL keep sums, which their own verification must confirm.
 */

const carol: Caller = { key: "k-carol", team: null };
const keyless: Caller = { key: "", team: null };
const plainScopes: Scope[] = [
  everyRequest,
  teamScope("red"),
  keyScope("k-alice"),
  sessionScope("k-alice", "run_one"),
  eachKeyScope(),
  eachKeyScope("red"),
];
/** Small enough that most runs with each-user or each-tag budgets reach it. */
const subjectsMax = 5;
const periodsUsed: Period[] = ["total", "1h", "1d"];

type Step =
  | {
      readonly do: "hold";
      readonly id: string;
      readonly caller: Caller;
      readonly amount: PicoUsd | null;
      readonly bounded: boolean;
      readonly anyModel: boolean;
      readonly task: boolean;
      /** User, labels, tags and models of the request. */
      readonly stated: Pick<KnownCaller, "user" | "labels" | "tags" | "models">;
      readonly firstSlice?: PicoUsd | undefined;
    }
  | { readonly do: "extend"; readonly id: string; readonly atLeast: PicoUsd; readonly more: PicoUsd }
  | {
      readonly do: "post";
      readonly id: string;
      readonly tokens: number;
      readonly assumed: boolean;
      /** Selects which of the models answered; null if that is unknown. */
      readonly answered: number | null;
    }
  | { readonly do: "void"; readonly id: string }
  | { readonly do: "adjust"; readonly id: string; readonly fix: string; readonly amount: PicoUsd }
  | {
      readonly do: "setBudget";
      readonly scope: Scope;
      readonly period: Period;
      readonly limit: PicoUsd;
      readonly soft: boolean;
    }
  | {
      readonly do: "raise";
      readonly scope: Scope;
      readonly period: Period;
      readonly key: string;
      readonly amount: PicoUsd;
      /** Duration in minutes; null for the whole window. */
      readonly minutes: number | null;
    }
  | { readonly do: "removeBudget"; readonly scope: Scope; readonly period: Period }
  | { readonly do: "clock"; readonly by: number }
  | { readonly do: "restart"; readonly zone: string };

const id = fc.integer({ min: 0, max: 11 }).map((n) => `c${n}`);
const amount = fc.integer({ min: 0, max: 40 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd);
const scope = fc.oneof(fc.constantFrom(...plainScopes), scopes);
const period = fc.constantFrom(...periodsUsed);

const step = (zones: readonly string[]): fc.Arbitrary<Step> =>
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant("hold" as const),
        id,
        caller: fc.constantFrom(alice, bob, carol, keyless),
        amount: fc.option(amount, { freq: 12 }),
        bounded: fc.integer({ min: 0, max: 8 }).map((n) => n > 0),
        anyModel: fc.boolean(),
        task: fc.boolean(),
        stated: callers,
        firstSlice: fc.option(amount, { freq: 2, nil: undefined }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("extend" as const), id, atLeast: amount, more: amount }) },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant("post" as const),
        id,
        tokens: fc.integer({ min: 0, max: 50 }),
        assumed: fc.boolean(),
        answered: fc.option(fc.nat(2)),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("void" as const), id }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("adjust" as const),
        id,
        fix: fc.constantFrom("f1", "f2", "f3"),
        amount: fc.integer({ min: -20, max: 20 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("setBudget" as const),
        scope,
        period,
        limit: fc.integer({ min: 0, max: 150 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd),
        soft: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("removeBudget" as const), scope, period }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant("raise" as const),
        scope,
        period,
        key: fc.constantFrom("k-alice", "k-bob"),
        amount: fc.integer({ min: 1, max: 100 }).map((n) => (BigInt(n) * 1_000_000n) as PicoUsd),
        minutes: fc.constantFrom(null, 10, 90),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant("clock" as const),
        by: fc.integer({ min: -90, max: 200 }).map((n) => n * 60_000),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const), zone: fc.constantFrom(...zones) }) },
  );

const raised: fc.Arbitrary<Step> = fc.record({
  do: fc.constant("raise" as const),
  scope: fc.constantFrom(everyRequest, eachKeyScope()),
  period: fc.constant("1h" as const),
  key: fc.constant("k-alice"),
  amount: amount.map((n) => (n + 1n) as PicoUsd),
  minutes: fc.constantFrom(null, null, 10),
});

/** Extends a hold in the next or the previous window, with a raise in one or both windows. */
const lateExtension: fc.Arbitrary<readonly Step[]> = fc
  .record({
    limit: amount,
    scope: fc.constantFrom(everyRequest, eachKeyScope()),
    held: fc.record({ id, amount }),
    raises: fc.tuple(fc.option(raised, { freq: 3 }), fc.option(raised, { freq: 3 })),
    by: fc.constantFrom(59, 61, 125, -61).map((n) => n * 60_000),
    extended: fc.record({ atLeast: amount, more: amount }),
  })
  .map(({ limit, scope, held, raises: [before, after], by, extended }) => [
    { do: "setBudget", scope, period: "1h", limit, soft: false },
    ...(before === null ? [] : [before]),
    {
      do: "hold",
      ...held,
      caller: alice,
      bounded: true,
      anyModel: false,
      task: false,
      stated: { user: null, labels: {}, tags: {}, models: ["gpt-5"] },
    },
    { do: "clock", by },
    ...(after === null ? [] : [after]),
    { do: "extend", id: held.id, ...extended },
  ]);

/** Returns random steps: at most 60, or more if late extensions are among them. */
function randomSteps(zones: readonly string[], minLength: number): fc.Arbitrary<readonly Step[]> {
  const single = step(zones).map((each): readonly Step[] => [each]);
  const parts = fc.oneof({ weight: 24, arbitrary: single }, { weight: 1, arbitrary: lateExtension });
  return fc.array(parts, { minLength, maxLength: 60 }).map((each) => each.flat());
}

type Answer = HoldResult | ExtendResult | SettleResult | Charge | object | string | number | boolean | null;

/** Methods that the model and a store share; a store can also verify itself. */
type Compared = Pick<Ledger, keyof ModelLedger> & Partial<Pick<Ledger, "verify">>;

interface Home extends AsyncDisposable {
  open(zone?: string): Promise<{ readonly ledger: Compared } & AsyncDisposable>;
}

function modelHome(clock: ManualClock): Home {
  const state = emptyState();
  const disposable = { [Symbol.asyncDispose]: async () => {} };
  return {
    ...disposable,
    open: async (zone = "UTC") => ({
      ...disposable,
      ledger: new ModelLedger(calendarOf(zone), state, clock.now(), subjectsMax),
    }),
  };
}

class Replay {
  readonly #home: Home;
  readonly #clock: ManualClock;
  #store: Awaited<ReturnType<Home["open"]>>;

  private constructor(home: Home, clock: ManualClock, store: Awaited<ReturnType<Home["open"]>>) {
    this.#home = home;
    this.#clock = clock;
    this.#store = store;
  }

  static async begin(home: Home, clock: ManualClock): Promise<Replay> {
    return new Replay(home, clock, await home.open());
  }

  async apply(step: Step): Promise<Answer> {
    const { ledger } = this.#store;
    const at = this.#clock.now();
    switch (step.do) {
      case "hold": {
        const kind = step.task ? "task" : "request";
        return ledger.hold(
          holdOf(step.id, step.amount, {
            at,
            caller: { ...step.caller, user: step.stated.user, labels: step.stated.labels },
            models: step.stated.models,
            bounded: step.bounded,
            anyModel: step.anyModel,
            kind,
            price: { id: priceId, canonical },
            tags: step.stated.tags,
            ...(step.firstSlice !== undefined && { firstSlice: step.firstSlice }),
          }),
        );
      }
      case "extend":
        return ledger.extend(step.id, (step.atLeast + step.more) as PicoUsd, step.atLeast, at);
      case "post": {
        const charge = await ledger.charge(step.id);
        const unpriced = charge?.hold === null;
        const answered = step.answered === null ? undefined : charge?.models[step.answered];
        const posted = step.assumed || unpriced ? assumed(charge?.hold ?? null) : posting(step.tokens, step.tokens);
        return ledger.post(step.id, { ...posted, ...(answered !== undefined && { answered }) }, endAt(at));
      }
      case "void":
        return ledger.void(step.id, "left", endAt(at));
      case "adjust":
        return ledger.adjust(step.id, { id: step.fix, at, amount: step.amount, why: "test", by: "root" });
      case "setBudget":
        return ledger.setBudget(
          {
            scope: step.scope,
            period: step.period,
            mode: step.soft ? "soft" : "hard",
            limit: step.limit,
            warnPercent: null,
          },
          at,
        );
      case "raise": {
        const { start, end } = utc.spanOf(step.period, at);
        const until = Math.min(end ?? Infinity, step.minutes === null ? Infinity : at + step.minutes * 60_000);
        return ledger.raiseBudget(
          {
            scope: formatScope(step.scope),
            period: step.period,
            subject: hasSubjects(step.scope) ? step.key : "",
            amount: step.amount,
            from: start,
            until: until === Infinity ? null : until,
            why: "test",
          },
          at,
        );
      }
      case "removeBudget":
        return ledger.removeBudget(formatScope(step.scope), step.period, at);
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

  async everything() {
    const { ledger } = this.#store;
    const at = this.#clock.now();
    const span = { since: noon - 1e9, until: at + 1e9 };
    return {
      charges: await ledger.charges({ limit: 1000 }),
      byDay: await ledger.report({ by: ["day", "key"], ...span }),
      byHour: await ledger.report({ by: ["hour", "team"], ...span }),
      bySession: await ledger.report({ by: ["tag:session"], ...span }),
      spend: await ledger.spend({ by: ["model"], each: "day", ...span }),
      totals: await ledger.totals(),
      corrections: await ledger.corrections(span.since, span.until),
      recent: await ledger.recent({ limit: 100 }),
    };
  }

  /** Verifies the store and returns the differences. */
  async differences(): Promise<Verification["differences"] | undefined> {
    return (await this.#store.ledger.verify?.())?.differences;
  }

  async end(): Promise<void> {
    await this.#store[Symbol.asyncDispose]();
    await this.#home[Symbol.asyncDispose]();
  }
}

/** Leaves out the counters of written rows on PostgreSQL, where transaction numbers advance them. */
function comparable(answers: Awaited<ReturnType<Replay["everything"]>>): object {
  if (!onPostgres) return answers;
  return { ...answers, totals: { ...answers.totals, written: 0 }, recent: answers.recent.charges };
}

async function compare(kind: LedgerKind, steps: readonly Step[]): Promise<void> {
  const clock = manualClock(noon);
  const model = await Replay.begin(modelHome(clock), clock);
  const real = await Replay.begin(kind.newHome(clock, { subjectsMax }), clock);
  try {
    for (const each of steps) {
      if (each.do === "clock") clock.set(clock.now() + each.by);
      expect(await real.apply(each)).toEqual(await model.apply(each));
      expect(await real.standing()).toEqual(await model.standing());
    }
    expect(comparable(await real.everything())).toEqual(comparable(await model.everything()));
    expect(await real.differences()).toEqual([]);
  } finally {
    await model.end();
    await real.end();
  }
}

/**
 * Statements that corrupt one derived row: `pick` selects the row, `by` is the change. None deletes a window, because a
 * missing window is no difference.
 */
const corruptions: readonly ((pick: number, by: number) => string)[] = [
  (pick, by) => `update windows set spent = spent + ${by} where seq = ${nth("windows", "seq", pick)}`,
  (pick, by) => `update windows set held = held + ${by} where seq = ${nth("windows", "seq", pick)}`,
  (pick, by) => `update or ignore windows set starts_at = starts_at + ${by} where seq = ${nth("windows", "seq", pick)}`,
  (pick) => `update windows set ends_at = 7 where seq = ${nth("windows", "seq", pick)}`,
  ...["rollup_day", "rollup_quarter"].flatMap((table) => {
    const columns = `(${table === "rollup_day" ? "day" : "starts_at"}, key, team, model, entry, price_group, source)`;
    const row = (pick: number) =>
      `${columns} = (select ${columns.slice(1, -1)} from ${table} limit 1 offset ${pick} % max((select count(*) from ${table}), 1))`;
    return [
      (pick: number, by: number) =>
        `update ${table} set cost = cost + ${by}, list_cost = list_cost - ${by} where ${row(pick)}`,
      (pick: number, by: number) =>
        `update ${table} set requests = requests + ${by}, output = output + ${by} where ${row(pick)}`,
      (pick: number, by: number) => `update ${table} set key = key || '${by}' where ${row(pick)}`,
      (pick: number, by: number) => `update or ignore ${table} set source = 'guessed${by}' where ${row(pick)}`,
      (pick: number, by: number) => `update or ignore ${table} set entry = entry || '${by}' where ${row(pick)}`,
      (pick: number) => `delete from ${table} where ${row(pick)}`,
    ];
  }),
  (pick) => `delete from charge_windows where charge = ${nth("charges", "seq", pick)}`,
  (pick, by) =>
    `insert or ignore into charge_windows select seq, ${by} from charges where seq = ${nth("charges", "seq", pick)} and state = 'pending'`,
  (pick, by) => `insert into charge_windows values (${1000 + pick}, ${by})`,
];

function nth(table: string, column: string, pick: number): string {
  return `(select ${column} from ${table} limit 1 offset ${pick} % max((select count(*) from ${table}), 1))`;
}

const corruption = fc
  .record({ which: fc.nat(corruptions.length - 1), pick: fc.nat(200), by: fc.integer({ min: 1, max: 999 }) })
  .map(({ which, pick, by }) => corruptions[which]?.(pick, by) ?? "");

/** Checks that a repair restores corrupted rows. */
async function repairsEverything(steps: readonly Step[], faults: readonly string[]): Promise<void> {
  const clock = manualClock(noon);
  const home = sqliteKind.newHome(clock);
  if (home.database === null) throw new Error("SQLite has a file");
  const path = home.database;
  const replay = await Replay.begin(home, clock);
  try {
    for (const each of steps) {
      if (each.do === "clock") clock.set(clock.now() + each.by);
      await replay.apply(each);
    }
    const sound = derivedRows(path);
    for (const fault of faults) tamper(path, fault);
    const result = await repair(ledgerIn(path), {
      calendar: utc,
      clock,
      pause: () => nextTurn(),
      onRepaired: () => {},
    });
    expect(result).toMatchObject({ ok: true, verification: { differences: [] } });
    expect(derivedRows(path)).toEqual(sound);
    // The open store continues with the repaired rows.
    await replay.apply({ do: "setBudget", scope: everyRequest, period: "1d", limit: 0n as PicoUsd, soft: true });
    await replay.apply({
      do: "hold",
      id: "last",
      caller: alice,
      amount: 5n as PicoUsd,
      bounded: true,
      anyModel: false,
      task: false,
      stated: { user: null, labels: {}, tags: {}, models: ["gpt-5"] },
    });
    expect(await replay.differences()).toEqual([]);
  } finally {
    await replay.end();
  }
}

describe.runIf(!onPostgres && !inThreads)("the ledger in SQLite", () => {
  it("answers random steps like the model, in process", async () => {
    const stories = randomSteps(["UTC"], 5);
    await fc.assert(
      fc.asyncProperty(stories, (steps) => compare(sqliteKind, steps)),
      { numRuns: runs(120) },
    );
  });

  it("is restored by a repair after random faults in derived rows", async () => {
    const stories = randomSteps(["UTC"], 20);
    const faults = fc.array(corruption, { minLength: 1, maxLength: 8 });
    await fc.assert(fc.asyncProperty(stories, faults, repairsEverything), {
      numRuns: runs(60),
    });
  });
});

describe.runIf(inThreads)("the ledger in SQLite", () => {
  it("answers random steps like the model, in threads and across time zones", async () => {
    const stories = randomSteps(["UTC", "Europe/Berlin", "Asia/Kathmandu"], 20);
    await fc.assert(
      fc.asyncProperty(stories, (steps) => compare(threadsKind, steps)),
      { numRuns: runs(8), endOnFailure: true },
    );
  });
});

describe.runIf(onPostgres)("the ledger in PostgreSQL", () => {
  it.each([postgresKind])("answers random steps like the model, across time zones: $name", async (kind) => {
    const stories = randomSteps(["UTC", "Europe/Berlin", "Asia/Kathmandu"], 20);
    await fc.assert(
      fc.asyncProperty(stories, (steps) => compare(kind, steps)),
      { numRuns: runs(6), endOnFailure: true },
    );
  });
});
