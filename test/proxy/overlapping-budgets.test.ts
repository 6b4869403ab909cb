import { describe, expect, it } from "vitest";
import { removeBudget, setBudget } from "../../src/admin/budget-changes.ts";
import type { BudgetWindow, Period } from "../../src/core/budget.ts";
import { formatUsd, type PicoUsd } from "../../src/core/money.ts";
import type { Ledger } from "../../src/ports/ledger.ts";
import { openSqlite } from "../../src/ledger/sqlite/open.ts";
import { calendarOf, systemClock } from "../../src/platform/clock.ts";
import { size } from "../support/effort.ts";
import { startPausedRelay } from "../support/paused-relay.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { watchWindows } from "../support/window-watch.ts";

const text = (amount: bigint) => formatUsd(amount as PicoUsd);
const nameOfWindow = ({ budget, subject }: BudgetWindow) => `${budget.id} ${subject}`;
const spentAndHeld = ({ spent, held }: BudgetWindow) => spent + held;

/** Fixed size of request, so that all holds are equal. */
const request = { max_tokens: 100 };

async function holdOfOne(): Promise<bigint> {
  await using proxy = await startProxy();
  await (await proxy.chat(request)).text();
  return (await proxy.onlyCharge()).hold ?? 0n;
}

/** Creates keys of two teams: a and b are red, c and d blue; a and c have a label. */
async function createKeysOfTeams(proxy: RunningProxy): Promise<string[]> {
  const keys: string[] = [];
  for (const [name, team] of [
    ["a", "red"],
    ["b", "red"],
    ["c", "blue"],
    ["d", "blue"],
  ] as const)
    keys.push(await proxy.addKey(name, { team, labels: name === "a" || name === "c" ? { env: "prod" } : {} }));
  return keys;
}

/** Number of parallel requests, of which 37 fit. */
const burst = size(1_000, 200);

/** Limits in holds of one request. In any order, at least 37 requests fit under the budgets other than `all`. */
const overlapping: readonly (readonly [
  string,
  readonly (readonly [scope: string, holds: bigint, period: Period])[],
])[] = [
  // Red alone would use 20, blue 24.
  [
    "keys and teams",
    [
      ["team:red", 20n, "1w"],
      ["each-key", 12n, "1d"],
    ],
  ],
  // Blue alone would use 38: 20 by d and at least 18 by c.
  [
    "users, tags, models and labels",
    [
      ["key:a model:gpt-4o*", 12n, "1d"],
      ["team:red each-user", 9n, "1w"],
      ["each-key each-tag:session", 5n, "1d"],
      ["label:env=prod", 30n, "1mo"],
    ],
  ],
];

describe(`${burst} parallel requests of four keys under overlapping budgets`, () => {
  it.each(overlapping)("stay within every budget on %s, and use the tightest one exactly", async (_name, budgets) => {
    const hold = await holdOfOne();
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    const keys = await createKeysOfTeams(proxy);
    await proxy.budget("all", text(hold * 37n + hold / 2n), "1mo");
    for (const [scope, holds, period] of budgets) await proxy.budget(scope, text(hold * holds + 1n), period);
    await proxy.budget("each-key:blue", text(1n), "1h", "soft");

    const watch = watchWindows(proxy);
    const { promise: allRefused, resolve: refusedAll } = Promise.withResolvers<void>();
    let refused = 0;
    const answers = Array.from({ length: burst }, async (_, number) => {
      const headers = {
        "x-farebox-tag": `session=s${Math.floor(number / 4) % 4}`,
        "x-farebox-user": `u${Math.floor(number / 16) % 3}`,
      };
      const response = await proxy.chat(request, { key: keys[number % 4] ?? "", headers });
      if (response.status === 429 && ++refused === burst - 37) refusedAll();
      await response.text();
      return response;
    });
    await Promise.all([relay.waitFor(37), allRefused]);
    const held = new Map(
      (await proxy.serving.ledger.windows(Date.now())).map((window) => [nameOfWindow(window), window.held]),
    );
    expect(held.get("all/1mo ")).toBe(hold * 37n);
    for (const { budget, subject, held: sum } of await proxy.serving.ledger.windows(Date.now()))
      if (budget.mode === "hard") expect(sum, `${budget.id} ${subject}`).toBeLessThanOrEqual(budget.limit);

    await watch.checked();
    relay.open(proxy.sandbox.url);
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect([
      statuses.filter((status) => status === 200).length,
      statuses.filter((status) => status === 429).length,
    ]).toEqual([37, burst - 37]);
    expect(await watch.stop()).toEqual([]);
    const charges = await proxy.charges();
    expect(charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n)).toBe(proxy.sandbox.billed.cost);
    for (const team of ["red", "blue"])
      expect(charges.filter((charge) => charge.team === team).length).toBeGreaterThan(0);
    expect(await proxy.serving.ledger.verify()).toMatchObject({ charges: 37, differences: [] });
  });
});

describe("budgets that another process creates, changes and removes under load", () => {
  it("are enforced as soon as they change, with correct sums at the end", async () => {
    const hold = await holdOfOne();
    await using proxy = await startProxy();
    const keys = [proxy.key, ...(await createKeysOfTeams(proxy))];
    const clock = systemClock();
    const opening = await openSqlite({ path: proxy.database, calendar: calendarOf("UTC"), clock, access: "command" });
    if (!opening.ok) throw new Error(opening.failure.kind);
    await using commandStore = opening.store;
    const tools = { ledger: commandStore.ledger, keys: commandStore.keys, clock, by: "os:tester" };

    const countByStatus = new Map<number, number>();
    const loadEnded = new AbortController();
    let wake = () => {};
    const senders = Array.from({ length: 20 }, async (_, number) => {
      while (!loadEnded.signal.aborted) {
        const response = await proxy.chat(request, { key: keys[number % keys.length] ?? "" });
        await response.text();
        countByStatus.set(response.status, (countByStatus.get(response.status) ?? 0) + 1);
        wake();
      }
    });
    const answersMore = async (count: number) => {
      for (let left = count; left > 0; left--) await new Promise<void>((resolve) => (wake = resolve));
    };

    const random = seeded(20_261_120);
    const scopes = ["all", "team:red", "each-key", "each-key:red", "key:a", "key:alice"];
    const periods: Period[] = ["total", "1d", "1mo"];
    /**
     * Spent + held of each window when its budget last changed. Later values must not exceed the larger of this and
     * the limit.
     */
    const atChange = new Map<string, bigint>();
    const broken: string[] = [];
    const refused = () => (countByStatus.get(402) ?? 0) + (countByStatus.get(429) ?? 0);
    const areAllSeen = () => (countByStatus.get(200) ?? 0) > 50 && refused() > 50;
    for (let change = 0; change < size(60, 20) || !areAllSeen(); change++) {
      const scope = scopes[random(scopes.length)] ?? "all";
      const period = periods[random(periods.length)] ?? "total";
      if (random(4) === 0) await removeBudget(tools, { scope, period });
      else {
        // Limits close to the spent amount: some are far below it, some leave room for a few requests.
        const spent = await spentIn(proxy.serving.ledger);
        const limit = spent + hold * BigInt(random(30) - 8);
        const set = await setBudget(tools, {
          scope,
          period,
          limit: text(limit < 0n ? 0n : limit),
          mode: random(6) === 0 ? "soft" : "hard",
        });
        if (!set.ok) throw new Error(set.message);
        for (const window of await commandStore.ledger.windows(Date.now()))
          if (window.budget.id === set.budget.id) atChange.set(nameOfWindow(window), spentAndHeld(window));
      }
      for (let round = 0; round < 4; round++) {
        await answersMore(5);
        for (const window of await proxy.serving.ledger.windows(Date.now())) {
          const before = atChange.get(nameOfWindow(window)) ?? 0n;
          const most = before > window.budget.limit ? before : window.budget.limit;
          if (window.budget.mode === "hard" && spentAndHeld(window) > most)
            broken.push(`${nameOfWindow(window)} after change ${change}: ${spentAndHeld(window)} > ${most}`);
        }
      }
    }
    loadEnded.abort();
    await Promise.all(senders);
    expect(broken).toEqual([]);
    // The load lasts until some requests were admitted and some refused; none failed.
    expect([...countByStatus.keys()].toSorted().filter((status) => ![200, 402, 429].includes(status))).toEqual([]);
    const charges = await proxy.charges();
    expect(charges.length >= 1000 || charges.length === countByStatus.get(200)).toBe(true);
    expect(
      (await proxy.serving.ledger.report({ by: [], since: 0, until: Date.now() + 1 })).map(({ cost }) => cost),
    ).toEqual([proxy.sandbox.billed.cost]);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});

async function spentIn(ledger: Ledger): Promise<bigint> {
  return (await ledger.report({ by: [], since: 0, until: Date.now() + 1 }))[0]?.cost ?? 0n;
}

/** Returns a generator of whole numbers below a bound, the same in every run. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
