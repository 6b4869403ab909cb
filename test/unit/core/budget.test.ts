import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  amountToHold,
  basisToHold,
  isPeriod,
  isRefusing,
  isUsedUp,
  limitOf,
  noRaises,
  noRooms,
  periods,
  raisedIn,
  raisesIn,
  raisedUntil,
  raisesByEnd,
  shortageOf,
  maySeeAmounts,
  ownViews,
  roomsOf,
  smallestRemaining,
  usedPercent,
  visibleRoom,
  worstShortage,
  type BudgetMode,
  type BudgetWindow,
  type Raise,
  type Shortage,
  type Span,
} from "../../../src/core/budget.ts";
import {
  formatScope,
  isOfSession,
  namedScope,
  parseScope,
  subjectsOf,
  anchorOf,
  anchorsOf,
  limitsOneKey,
  teamOfScope,
  appliesTo,
  type Caller,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  sessionScope,
  teamScope,
} from "../../../src/core/scope.ts";
import type { HoldBasis } from "../../../src/core/bounds.ts";
import type { PicoUsd } from "../../../src/core/money.ts";
import { runs } from "../../support/effort.ts";

const name = fc.constantFrom("a", "b", "c");
const team = fc.option(name, { nil: null });
const scope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constant<Scope>(everyRequest),
  name.map((each): Scope => teamScope(each)),
  name.map((each): Scope => keyScope(each)),
  fc.tuple(name, name).map(([key, session]): Scope => sessionScope(key, `run_${session}`)),
  team.map((each): Scope => eachKeyScope(each)),
);
const tags = fc.oneof(
  fc.constant({}),
  name.map((each) => ({ session: `run_${each}` })),
);
const caller: fc.Arbitrary<Caller> = fc.record({ key: fc.oneof(name, fc.constant("")), team, tags });

it("the anchors of a caller, under which its budgets are found, include that of every budget that applies", () => {
  fc.assert(
    fc.property(scope, caller, (each, who) => {
      fc.pre(appliesTo(each, who));
      expect(anchorsOf(who)).toContain(anchorOf(each));
    }),
    { numRuns: runs(500) },
  );
});

it("a key sees the amounts of budgets that only it spends from, and of all budgets with the view `all`", () => {
  fc.assert(
    fc.property(scope, caller, caller, (each, who, other) => {
      fc.pre(appliesTo(each, who));
      const isShared =
        other.key !== who.key &&
        appliesTo(each, other) &&
        String(subjectsOf(each, other)) === String(subjectsOf(each, who));
      if (who.key !== "" && isShared) expect(maySeeAmounts("own", each, who)).toBe(false);
      if (limitsOneKey(each)) expect(maySeeAmounts("own", each, who)).toBe(true);
      expect(maySeeAmounts("all", each, who)).toBe(true);
      expect(maySeeAmounts("own", each, { key: "" })).toBe(true);
    }),
    { numRuns: runs(500) },
  );
});

it("a formatted scope is parsed to the same scope", () => {
  fc.assert(
    fc.property(scope, (each) => {
      expect(parseScope(formatScope(each))).toEqual(each);
    }),
  );
});

const alice: Caller = { key: "alice", team: "red" };
const alone: Caller = { key: "bob", team: null };
const inSession: Caller = { ...alice, tags: { session: "run_1" } };
const open: Caller = { key: "", team: null };
const openInTeam: Caller = { key: "", team: "red" };

describe("a scope", () => {
  it.each<[Scope, string, string | null, readonly Caller[]]>([
    [everyRequest, "all", null, [alice, inSession, alone, open, openInTeam]],
    [teamScope("red"), "team:red", "red", [alice, inSession, openInTeam]],
    [teamScope("blue"), "team:blue", "blue", []],
    [keyScope("alice"), "key:alice", null, [alice, inSession]],
    [sessionScope("alice", "run_1"), "key:alice tag:session=run_1", null, [inSession]],
    [sessionScope("bob", "run_1"), "key:bob tag:session=run_1", null, []],
    [sessionScope("alice", "run_2"), "key:alice tag:session=run_2", null, []],
    [eachKeyScope(), "each-key", null, [alice, inSession, alone]],
    [eachKeyScope("red"), "team:red each-key", "red", [alice, inSession]],
  ])("%j is written %s, names the team %s, and applies to its callers", (each, text, team, callers) => {
    expect([formatScope(each), parseScope(text), teamOfScope(each)]).toEqual([text, each, team]);
    const all = [alice, inSession, alone, open, openInTeam];
    expect(all.filter((who) => appliesTo(each, who))).toEqual(callers);
  });

  it.each([
    "",
    "everything",
    "all:x",
    "all key:alice",
    "team",
    "team:",
    "key:",
    "each-key:",
    "each-team",
    "each-tag",
    "each-tag:A",
    "each-user:x",
    "label:env",
    "label:=prod",
    "tag:Feature=search",
    "tag:feature=",
    "1team:red",
    "1each-key",
    "key:a key:b",
    "key:a each-key",
    "tag:a=1 tag:a=2",
    "tag:a=1 each-tag:a",
    "each-key each-model each-user",
    "user:a\n",
  ])("is not parsed from %j", (text) => {
    expect(parseScope(text)).toBeUndefined();
  });

  it.each([
    ["each-key:red", "team:red each-key"],
    [" each-key  team:red ", "team:red each-key"],
    ["each-tag:session each-key", "each-key each-tag:session"],
    [
      "tag:b=2 user:u model:gpt-5* label:env=prod key:alice tag:a=1 team:red",
      "team:red key:alice label:env=prod model:gpt-5* user:u tag:a=1 tag:b=2",
    ],
    ["user:a%20b%25", "user:a%20b%25"],
  ])("%j is stored as %j", (text, stored) => {
    const read = parseScope(text);
    expect(read && formatScope(read)).toBe(stored);
  });

  it("has a window for each key only with each-key", () => {
    const scopes: Scope[] = [everyRequest, teamScope("red"), keyScope("alice"), eachKeyScope(), eachKeyScope("red")];
    expect(scopes.map((each) => subjectsOf(each, alice))).toEqual([[""], [""], [""], ["alice"], ["alice"]]);
  });

  it("shows a key's name, or its id if the key no longer exists", () => {
    const nameOf = (id: string) => (id === "k1" ? "alice" : null);
    expect(namedScope(keyScope("k1"), nameOf)).toBe("key:alice");
    expect(namedScope(keyScope("k2"), nameOf)).toBe("key:k2");
    expect(namedScope(keyScope("k2"), () => undefined)).toBe("key:k2");
    expect(namedScope(teamScope("k1"), nameOf)).toBe("team:k1");
    expect(namedScope(everyRequest, nameOf)).toBe("all");
  });
});

it("a period is total, 1h, 1d, 1w or 1mo", () => {
  expect(periods).toEqual(["total", "1h", "1d", "1w", "1mo"]);
  expect(["total", "1h", "1d", "1w", "1mo", "", "1m", "2d"].filter(isPeriod)).toEqual(periods);
});

function windowOf(spent: bigint, held: bigint, mode: BudgetMode = "hard", limit = 100n): BudgetWindow {
  const budget = {
    id: "b",
    scope: everyRequest,
    period: "1d",
    mode,
    limit: limit as PicoUsd,
    warnPercent: null,
  } as const;
  return { budget, subject: "", start: 0, end: 1, spent: spent as PicoUsd, held: held as PicoUsd, raises: [] };
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
  ])("with %i spent and %i held, for a request of %i, reports %s", (spent, held, amount, expected) => {
    const window = windowOf(spent, held);
    const needed = amount as PicoUsd;
    expect(shortageOf(window, needed)).toEqual(
      expected === "room" ? null : { window, needed, exhausted: expected === "exhausted" },
    );
    expect(shortageOf(windowOf(spent, held, "soft"), needed)).toBeNull();
  });
});

describe("several windows", () => {
  it.each<[string, readonly BudgetWindow[], bigint | null]>([
    ["none applies", [], null],
    ["only a soft one applies", [windowOf(0n, 0n, "soft")], null],
    ["one has an amount left", [windowOf(30n, 20n)], 50n],
    ["the first has the least", [windowOf(30n, 20n), windowOf(20n, 20n)], 50n],
    ["the last has the least", [windowOf(20n, 20n), windowOf(30n, 20n)], 50n],
    ["limits differ", [windowOf(0n, 0n), windowOf(900n, 51n, "hard", 1000n)], 49n],
    ["a soft one has less", [windowOf(0n, 100n, "soft"), windowOf(10n, 0n)], 90n],
    ["one is full", [windowOf(50n, 50n), windowOf(0n, 0n)], 0n],
    ["one is above its limit", [windowOf(100n, 20n), windowOf(0n, 0n)], 0n],
    ["one has a single pico-USD left", [windowOf(50n, 49n)], 1n],
  ])("leave the smallest remaining amount, or null without a hard one: %s", (_, windows, room) => {
    expect(smallestRemaining(windows)).toBe(room);
  });

  it("show a key with the view `own` the room of only those windows that limit no other key", () => {
    const own = windowOf(10n, 0n);
    const shared = windowOf(90n, 0n);
    const rooms = roomsOf([
      { ...own, budget: { ...own.budget, scope: eachKeyScope() } },
      { ...shared, budget: { ...shared.budget, scope: teamScope("a") } },
    ]);
    expect(rooms).toEqual({ room: 10n, keyRoom: 90n });
    expect([visibleRoom("own", rooms, { key: "a" }), visibleRoom("all", rooms, { key: "a" })]).toEqual([90n, 10n]);
    expect(visibleRoom("own", rooms, { key: "" })).toBe(10n);
  });

  it.each<[string, readonly BudgetWindow[], bigint | null, bigint | null, bigint | null]>([
    ["the worst case without a budget", [], 9n, 2n, 9n],
    ["the worst case under a soft budget", [windowOf(0n, 0n, "soft")], 9n, 2n, 9n],
    ["the first slice under a hard budget", [windowOf(0n, 0n, "soft"), windowOf(0n, 0n)], 9n, 2n, 2n],
    ["the worst case if the hold does not grow", [windowOf(0n, 0n)], 9n, null, 9n],
    ["null without a price", [windowOf(0n, 0n)], null, null, null],
    ["a slice that costs nothing", [windowOf(0n, 0n)], 9n, 0n, 0n],
  ])("set the hold to %s", (_, windows, whole, slice, expected) => {
    expect(amountToHold(windows, whole as PicoUsd | null, slice as PicoUsd | null)).toBe(expected);
  });

  const whole: HoldBasis = { by: "max_tokens", outputTokens: 900, outputCap: null, fitted: null };
  const ofSlice: HoldBasis = { ...whole, by: "slice", outputTokens: 64 };
  it.each<[string, readonly BudgetWindow[], HoldBasis | null, number | null, HoldBasis | null]>([
    ["the worst case without a budget", [], whole, 64, whole],
    ["the worst case under a soft budget", [windowOf(0n, 0n, "soft")], whole, 64, whole],
    ["the first slice under a hard budget", [windowOf(0n, 0n, "soft"), windowOf(0n, 0n)], whole, 64, ofSlice],
    ["the worst case if the hold does not grow", [windowOf(0n, 0n)], whole, null, whole],
    ["a request whose output is not limited", [windowOf(0n, 0n)], null, 64, null],
  ])("set the basis of the hold to that of %s", (_, windows, basis, tokens, expected) => {
    expect(basisToHold(windows, basis, tokens)).toEqual(expected);
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
    ["the one that spent more", [short(10n, 90n, 50n, false), short(11n, 90n, 50n, false)], 1],
    ["the one that holds more", [short(10n, 91n, 50n, false), short(10n, 90n, 50n, false)], 0],
    ["the one that needs more", [short(10n, 90n, 50n, true), short(10n, 90n, 51n, true)], 1],
    ["the one with the smaller limit", [short(10n, 90n, 50n, true, 99n), short(10n, 90n, 50n, true, 100n)], 0],
    ["the first of equal gaps", [short(10n, 90n, 50n, true), short(20n, 80n, 50n, true)], 0],
    ["the largest of three", [short(10n, 90n, 50n, true), short(10n, 90n, 90n, true), short(10n, 90n, 60n, true)], 1],
  ])("is %s", (_, shortages, expected) => {
    expect(worstShortage(shortages)).toBe(shortages[expected]);
  });
});

it.each<[Scope, boolean]>([
  [sessionScope("k", "run_1"), true],
  [keyScope("k"), false],
  [everyRequest, false],
  [{ conditions: [...teamScope("t").conditions, ...sessionScope("k", "run_1").conditions] }, false],
])("the scope %j belongs to a session: %s", (each, expected) => {
  expect(isOfSession(each)).toBe(expected);
});

it.each(["x key:k tag:session=run_1", "key:k tag:session=run_1\n", "key:k tag:session="])(
  "the text %j is not the scope of a session",
  (text) => {
    const read = parseScope(text);
    expect(read === undefined || !isOfSession(read)).toBe(true);
  },
);

describe("a window of a budget", () => {
  const budget = { id: "b", scope: everyRequest, period: "1d", mode: "hard", warnPercent: null } as const;
  const started = 10_000_000;
  const used = (spent: bigint, held: bigint, limit: bigint, mode: BudgetMode = "hard") =>
    ({
      budget: { ...budget, mode, limit },
      subject: "",
      start: started,
      end: null,
      spent,
      held,
      raises: [],
    }) as unknown as BudgetWindow;

  it.each<[bigint, bigint, bigint, number, isUsedUp: boolean]>([
    [0n, 0n, 100n, 0, false],
    [60n, 39n, 100n, 99, false],
    [60n, 40n, 100n, 100, true],
    [61n, 40n, 100n, 101, true],
    [1n, 1n, 3000n, 0, false],
    [3n, 0n, 2000n, 0.1, false],
    [0n, 0n, 0n, 100, true],
    [5n, 0n, 0n, 100, true],
  ])("with %i spent and %i held of %i is %d percent used", (spent, held, limit, percent, isFull) => {
    expect(usedPercent(used(spent, held, limit))).toBe(percent);
    expect(isUsedUp(used(spent, held, limit))).toBe(isFull);
    expect(isUsedUp(used(spent, held, limit, "soft"))).toBe(false);
  });

  it("adds the raises in force to its limit in every rule", () => {
    const raise = (amount: bigint, from: number, until: number | null) => ({ amount: amount as PicoUsd, from, until });
    const raises = [raise(10n, 100, 200), raise(5n, 100, null), raise(1n, 300, 400)];
    const total = { start: 0, end: null };
    const amountsAt = (at: number, span: Span = total) => raisesIn(span, raises, at).map(({ amount }) => amount);
    expect([99, 100, 199, 200, 299, 300, 400].map((at) => amountsAt(at))).toEqual([
      [],
      [10n, 5n],
      [10n, 5n],
      [5n],
      [5n],
      [5n, 1n],
      [5n],
    ]);
    const amountsIn = (start: number, end: number) => [0, 1000].map((at) => amountsAt(at, { start, end }));
    expect(amountsIn(100, 200)).toEqual([
      [10n, 5n],
      [10n, 5n],
    ]);
    expect(amountsIn(100, 201)).toEqual([[10n, 5n], [5n]]);
    // The writer compares lists of raises by identity, so a window without raises must keep its list.
    expect(raisesIn(total, noRaises, 100)).toBe(noRaises);
    const window = { ...used(60n, 40n, 100n), raises: raisesIn(total, raises, 150) };
    expect([limitOf(window), raisedIn(window)]).toEqual([115n, 15n]);
    expect(shortageOf(window, 15n as PicoUsd)).toBeNull();
    expect(shortageOf(window, 16n as PicoUsd)).toMatchObject({ exhausted: false });
    expect(shortageOf({ ...window, spent: 100n as PicoUsd, held: 0n as PicoUsd }, 16n as PicoUsd)?.exhausted).toBe(
      true,
    );
    expect([usedPercent(window), isUsedUp(window), smallestRemaining([window])]).toEqual([86.9, false, 15n]);
    const fuller = { ...used(0n, 107n, 100n), raises: [] };
    const shortages = [window, fuller].map((each) => ({ window: each, needed: 20n as PicoUsd, exhausted: false }));
    expect(worstShortage(shortages)?.window).toBe(fuller);
  });

  const later = started + 3_600_000;
  const quarter = 15 * 60_000;
  it.each<[string, BudgetWindow, number | undefined, number, boolean]>([
    ["is not refusing with an amount left and no refusal", used(0n, 0n, 9n), undefined, later, false],
    ["is refusing with nothing left", used(9n, 0n, 9n), undefined, later, true],
    ["is refusing up to a quarter of an hour after a refusal", used(0n, 0n, 9n), later - quarter, later, true],
    [
      "is not refusing more than a quarter of an hour after a refusal",
      used(0n, 0n, 9n),
      later - quarter - 1,
      later,
      false,
    ],
    ["is refusing after a refusal at its start", used(0n, 0n, 9n), started, started + 1, true],
    ["is not refusing after a refusal before its start", used(0n, 0n, 9n), started - 1, started + 1, false],
    ["is never refusing if the budget is soft", used(9n, 0n, 9n, "soft"), later, later, false],
  ])("%s", (_, window, lastRefusal, at, expected) => {
    expect(isRefusing(window, lastRefusal, at)).toBe(expected);
  });
});

it("a key's view of budgets is own or all", () => {
  expect(ownViews).toEqual(["own", "all"]);
});

describe("the raises of a window", () => {
  const raise = (amount: bigint, until: number | null): Raise => ({ amount: amount as PicoUsd, from: 0, until });
  const end = (amount: bigint, until: number | null) => ({ amount, until });

  it.each<[string, readonly Raise[], ReturnType<typeof end>[], next: number | null]>([
    ["none", [], [], null],
    ["one without an end", [raise(5n, null)], [end(5n, null)], null],
    ["one that ends with the window", [raise(5n, 1000)], [end(5n, 1000)], null],
    ["one that ends before it", [raise(5n, 999)], [end(5n, 999)], 999],
    ["one that ends at 0", [raise(5n, 0)], [end(5n, 0)], 0],
    ["two with one end", [raise(5n, 300), raise(7n, 300)], [end(12n, 300)], 300],
    ["two without an end", [raise(5n, null), raise(7n, null)], [end(12n, null)], null],
    ["two in the order of their ends", [raise(5n, 300), raise(7n, 400)], [end(5n, 300), end(7n, 400)], 300],
    ["two in the other order", [raise(7n, 400), raise(5n, 300)], [end(5n, 300), end(7n, 400)], 300],
    ["one without an end before another", [raise(5n, null), raise(7n, 400)], [end(7n, 400), end(5n, null)], 400],
    ["one without an end after another", [raise(7n, 400), raise(5n, null)], [end(7n, 400), end(5n, null)], 400],
    [
      "several",
      [raise(1n, 1000), raise(2n, null), raise(4n, 500), raise(8n, 1000), raise(16n, 700)],
      [end(4n, 500), end(16n, 700), end(9n, 1000), end(2n, null)],
      500,
    ],
  ])("that ends at 1000 are grouped by end: %s", (_, raises, byEnd, next) => {
    expect(raisesByEnd({ raises })).toStrictEqual(byEnd);
    expect(raisedUntil({ raises, end: 1000 })).toBe(next);
    expect(raisedIn({ raises })).toBe(raises.reduce((total, { amount }) => total + amount, 0n));
  });

  it("without an end change when the first raise ends", () => {
    expect(raisedUntil({ raises: [raise(5n, null), raise(5n, 1000)], end: null })).toBe(1000);
  });
});

it("noRaises is empty, and noRooms equals the rooms of no windows", () => {
  expect(noRaises).toStrictEqual([]);
  expect(noRooms).toStrictEqual({ room: null, keyRoom: null });
  expect(roomsOf([])).toStrictEqual(noRooms);
});
