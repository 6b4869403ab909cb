import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  amountToHold,
  formatScope,
  isPeriod,
  namedScope,
  parseScope,
  periods,
  scopesApplyingTo,
  shortageOf,
  subjectOf,
  teamOfScope,
  tightestRoom,
  appliesTo,
  worstShortage,
  type BudgetMode,
  type BudgetWindow,
  type Caller,
  type Scope,
  type Shortage,
} from "../../../src/core/budget.ts";
import type { PicoUsd } from "../../../src/core/money.ts";
import { runs } from "../../support/effort.ts";

const name = fc.constantFrom("a", "b", "c");
const team = fc.option(name, { nil: null });
const scope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constant<Scope>({ kind: "all" }),
  name.map((each): Scope => ({ kind: "team", team: each })),
  name.map((each): Scope => ({ kind: "key", key: each })),
  fc.tuple(name, name).map(([key, session]): Scope => ({ kind: "key", key, session: `run_${session}` })),
  team.map((each): Scope => ({ kind: "eachKey", team: each })),
);
const session = fc.option(
  name.map((each) => `run_${each}`),
  { nil: null },
);
const caller: fc.Arbitrary<Caller> = fc.record({ key: fc.oneof(name, fc.constant("")), team, session });

it("the scopes that apply to a caller are those of which the rule says so", () => {
  fc.assert(
    fc.property(scope, caller, (each, who) => {
      expect(scopesApplyingTo(who).includes(formatScope(each))).toBe(appliesTo(each, who));
    }),
    { numRuns: runs(500) },
  );
});

it("a scope is read as it was written", () => {
  fc.assert(
    fc.property(scope, (each) => {
      expect(parseScope(formatScope(each))).toEqual(each);
    }),
  );
});

const alice: Caller = { key: "alice", team: "red" };
const alone: Caller = { key: "bob", team: null };
const inSession: Caller = { ...alice, session: "run_1" };
const open: Caller = { key: "", team: null };
const openInTeam: Caller = { key: "", team: "red" };

describe("a scope", () => {
  it.each<[Scope, string, string | null, readonly Caller[]]>([
    [{ kind: "all" }, "all", null, [alice, inSession, alone, open, openInTeam]],
    [{ kind: "team", team: "red" }, "team:red", "red", [alice, inSession, openInTeam]],
    [{ kind: "team", team: "blue" }, "team:blue", "blue", []],
    [{ kind: "key", key: "alice" }, "key:alice", null, [alice, inSession]],
    [{ kind: "key", key: "alice", session: "run_1" }, "key:alice tag:session=run_1", null, [inSession]],
    [{ kind: "key", key: "bob", session: "run_1" }, "key:bob tag:session=run_1", null, []],
    [{ kind: "key", key: "alice", session: "run_2" }, "key:alice tag:session=run_2", null, []],
    [{ kind: "eachKey", team: null }, "each-key", null, [alice, inSession, alone]],
    [{ kind: "eachKey", team: "red" }, "each-key:red", "red", [alice, inSession]],
  ])("%j is written %s, names the team %s, and applies to its callers", (each, text, team, callers) => {
    expect([formatScope(each), parseScope(text), teamOfScope(each)]).toEqual([text, each, team]);
    const all = [alice, inSession, alone, open, openInTeam];
    expect(all.filter((who) => appliesTo(each, who))).toEqual(callers);
    expect(all.filter((who) => scopesApplyingTo(who).includes(text))).toEqual(callers);
  });

  it.each([
    "",
    "everything",
    "all ",
    " all",
    "all:x",
    "team",
    "team:",
    "key:",
    "each-key:",
    "each-key ",
    "user:x",
    "1team:red",
    "1each-key",
    "key:alice tag:session=other",
    "key:alice tag:session=run_A",
  ])("is not %j", (text) => {
    expect(parseScope(text)).toBeUndefined();
  });

  it("is searched only among those that can apply", () => {
    expect([alice, inSession, alone, openInTeam, open].map(scopesApplyingTo)).toEqual([
      ["all", "key:alice", "each-key", "team:red", "each-key:red"],
      ["all", "key:alice", "each-key", "key:alice tag:session=run_1", "team:red", "each-key:red"],
      ["all", "key:bob", "each-key"],
      ["all", "team:red"],
      ["all"],
    ]);
  });

  it("has a window for each key only where each key has a budget of its own", () => {
    const scopes: Scope[] = [
      { kind: "all" },
      { kind: "team", team: "red" },
      { kind: "key", key: "alice" },
      { kind: "eachKey", team: null },
      { kind: "eachKey", team: "red" },
    ];
    expect(scopes.map((each) => subjectOf(each, alice))).toEqual(["", "", "", "alice", "alice"]);
  });

  it("names a key by its name, and by its id where it is gone", () => {
    const nameOf = (id: string) => (id === "k1" ? "alice" : null);
    expect(namedScope({ kind: "key", key: "k1" }, nameOf)).toBe("key:alice");
    expect(namedScope({ kind: "key", key: "k2" }, nameOf)).toBe("key:k2");
    expect(namedScope({ kind: "key", key: "k2" }, () => undefined)).toBe("key:k2");
    expect(namedScope({ kind: "team", team: "k1" }, nameOf)).toBe("team:k1");
    expect(namedScope({ kind: "all" }, nameOf)).toBe("all");
  });
});

it("a period is one of five words", () => {
  expect(periods).toEqual(["total", "1h", "1d", "1w", "1mo"]);
  expect(["total", "1h", "1d", "1w", "1mo", "", "1m", "2d"].filter(isPeriod)).toEqual(periods);
});

function windowOf(spent: bigint, held: bigint, mode: BudgetMode = "hard", limit = 100n): BudgetWindow {
  const budget = {
    id: "b",
    scope: { kind: "all" },
    period: "1d",
    mode,
    limit: limit as PicoUsd,
    warnPercent: null,
  } as const;
  return { budget, subject: "", start: 0, end: 1, spent: spent as PicoUsd, held: held as PicoUsd };
}

describe("a budget of 100", () => {
  it.each<[spent: bigint, held: bigint, amount: bigint, expected: "room" | "busy" | "exhausted"]>([
    [0n, 0n, 0n, "room"],
    [0n, 0n, 100n, "room"],
    [0n, 0n, 101n, "exhausted"],
    [40n, 0n, 60n, "room"],
    [40n, 0n, 61n, "exhausted"],
    [0n, 40n, 60n, "room"],
    [0n, 40n, 61n, "busy"],
    [30n, 30n, 40n, "room"],
    [30n, 30n, 41n, "busy"],
    [30n, 30n, 70n, "busy"],
    [30n, 30n, 71n, "exhausted"],
    [100n, 0n, 0n, "room"],
    [100n, 0n, 1n, "exhausted"],
    [100n, 1n, 0n, "busy"],
    [101n, 0n, 0n, "exhausted"],
    [0n, 101n, 0n, "busy"],
  ])("of which %i is spent and %i held has for %i: %s", (spent, held, amount, expected) => {
    const window = windowOf(spent, held);
    const needed = amount as PicoUsd;
    expect(shortageOf(window, needed)).toEqual(
      expected === "room" ? null : { window, needed, exhausted: expected === "exhausted" },
    );
    expect(shortageOf(windowOf(spent, held, "soft"), needed)).toBeNull();
  });
});

describe("of several windows", () => {
  it.each<[string, readonly BudgetWindow[], bigint | null]>([
    ["none applies", [], null],
    ["only a soft one applies", [windowOf(0n, 0n, "soft")], null],
    ["one has this left", [windowOf(30n, 20n)], 50n],
    ["the first has the least", [windowOf(30n, 20n), windowOf(20n, 20n)], 50n],
    ["the last has the least", [windowOf(20n, 20n), windowOf(30n, 20n)], 50n],
    ["limits differ", [windowOf(0n, 0n), windowOf(900n, 51n, "hard", 1000n)], 49n],
    ["a soft one has less", [windowOf(0n, 100n, "soft"), windowOf(10n, 0n)], 90n],
    ["one has nothing", [windowOf(50n, 50n), windowOf(0n, 0n)], 0n],
    ["one has less than nothing", [windowOf(100n, 20n), windowOf(0n, 0n)], 0n],
    ["one has one left", [windowOf(50n, 49n)], 1n],
  ])("the tightest has room where %s", (_, windows, room) => {
    expect(tightestRoom(windows)).toBe(room);
  });

  it.each<[string, readonly BudgetWindow[], bigint | null, bigint | null, bigint | null]>([
    ["the whole without a budget", [], 9n, 2n, 9n],
    ["the whole under a soft one", [windowOf(0n, 0n, "soft")], 9n, 2n, 9n],
    ["the first slice under a hard one", [windowOf(0n, 0n, "soft"), windowOf(0n, 0n)], 9n, 2n, 2n],
    ["the whole where it does not grow", [windowOf(0n, 0n)], 9n, null, 9n],
    ["nothing without a price", [windowOf(0n, 0n)], null, null, null],
    ["a slice that is free", [windowOf(0n, 0n)], 9n, 0n, 0n],
  ])("a hold is %s", (_, windows, whole, slice, expected) => {
    expect(amountToHold(windows, whole as PicoUsd | null, slice as PicoUsd | null)).toBe(expected);
  });
});

describe("the shortage to report", () => {
  const short = (spent: bigint, held: bigint, needed: bigint, exhausted: boolean, limit = 100n): Shortage => ({
    window: windowOf(spent, held, "hard", limit),
    needed: needed as PicoUsd,
    exhausted,
  });
  const busy = short(10n, 90n, 50n, false);
  const exhausted = short(99n, 0n, 2n, true);

  it("is null without shortages", () => {
    expect(worstShortage([])).toBeNull();
  });

  it.each<[string, readonly Shortage[], number]>([
    ["the only one", [busy], 0],
    ["an exhausted budget before one with a larger gap that is merely busy", [exhausted, busy], 0],
    ["an exhausted budget after one with a larger gap that is merely busy", [busy, exhausted], 1],
    ["the larger gap by what is spent", [short(10n, 90n, 50n, false), short(11n, 90n, 50n, false)], 1],
    ["the larger gap by what is held", [short(10n, 91n, 50n, false), short(10n, 90n, 50n, false)], 0],
    ["the larger gap by what is needed", [short(10n, 90n, 50n, true), short(10n, 90n, 51n, true)], 1],
    ["the larger gap by its limit", [short(10n, 90n, 50n, true, 99n), short(10n, 90n, 50n, true, 100n)], 0],
    ["the first of equal gaps", [short(10n, 90n, 50n, true), short(20n, 80n, 50n, true)], 0],
    ["the largest of three", [short(10n, 90n, 50n, true), short(10n, 90n, 90n, true), short(10n, 90n, 60n, true)], 1],
  ])("is %s", (_, shortages, expected) => {
    expect(worstShortage(shortages)).toBe(shortages[expected]);
  });
});
