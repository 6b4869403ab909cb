import { describe, expect, it } from "vitest";
import { removeBudget, setBudget } from "../../src/admin/budgets.ts";
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
const weight = ({ spent, held }: BudgetWindow) => spent + held;

/** One size of request, so that every hold is the same. */
const request = { max_tokens: 100 };

async function holdOfOne(): Promise<bigint> {
  await using proxy = await startProxy();
  await (await proxy.chat(request)).text();
  return (await proxy.onlyCharge()).hold ?? 0n;
}

/** Keys of two teams: a and b are red, c and d blue. */
async function createKeysOfTeams(proxy: RunningProxy): Promise<string[]> {
  const keys: string[] = [];
  for (const [name, team] of [
    ["a", "red"],
    ["b", "red"],
    ["c", "blue"],
    ["d", "blue"],
  ] as const)
    keys.push(await proxy.addKey(name, { team }));
  return keys;
}

/** Number of requests, of which 37 fit. */
const burst = size(1_000, 200);

describe(`${burst} parallel requests of four keys under three budgets that overlap`, { timeout: 60_000 }, () => {
  it("never pass one of them, and use the tightest to what fits exactly", async () => {
    const hold = await holdOfOne();
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    const keys = await createKeysOfTeams(proxy);
    // Red alone would come to 20, blue to 24: in any order, everything together ends at 37.
    await proxy.budget("all", text(hold * 37n + hold / 2n), "1mo");
    await proxy.budget("team:red", text(hold * 20n), "1w");
    await proxy.budget("each-key", text(hold * 12n + 1n), "1d");
    await proxy.budget("each-key:blue", text(1n), "1h", "soft");

    const watch = watchWindows(proxy);
    const { promise: allRefused, resolve: refusedAll } = Promise.withResolvers<void>();
    let refused = 0;
    const answers = Array.from({ length: burst }, async (_, number) => {
      const response = await proxy.chat(request, { key: keys[number % 4] ?? "" });
      if (response.status === 429 && ++refused === burst - 37) refusedAll();
      await response.text();
      return response;
    });
    await Promise.all([relay.waitFor(37), allRefused]);
    const held = new Map(
      (await proxy.serving.ledger.windows(Date.now())).map((window) => [nameOfWindow(window), window.held]),
    );
    expect(held.get("all/1mo ")).toBe(hold * 37n);
    expect(held.get("team:red/1w ") ?? 0n).toBeLessThanOrEqual(hold * 20n);

    relay.open(proxy.sandbox.url);
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect([
      statuses.filter((status) => status === 200).length,
      statuses.filter((status) => status === 429).length,
    ]).toEqual([37, burst - 37]);
    const { looks, broken } = await watch.stop();
    expect(broken).toEqual([]);
    expect(looks).toBeGreaterThan(3);
    const charges = await proxy.charges();
    expect(charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n)).toBe(proxy.sandbox.billed.cost);
    for (const team of ["red", "blue"])
      expect(charges.filter((charge) => charge.team === team).length).toBeGreaterThan(0);
    expect(await proxy.serving.ledger.verify()).toMatchObject({ charges: 37, differences: [] });
  });
});

describe(
  "budgets that are made, changed and removed under load, from another process' connection",
  { timeout: 60_000 },
  () => {
    it("hold from the moment of the change, and every sum is right in the end", async () => {
      const hold = await holdOfOne();
      await using proxy = await startProxy();
      const keys = [proxy.key, ...(await createKeysOfTeams(proxy))];
      const clock = systemClock();
      const opening = await openSqlite({ path: proxy.database, calendar: calendarOf("UTC"), clock, access: "command" });
      if (!opening.ok) throw new Error(opening.failure.kind);
      await using beside = opening.store;
      const tools = { ledger: beside.ledger, keys: beside.keys, clock, by: "os:tester" };

      const seen = new Map<number, number>();
      const over = new AbortController();
      let wake = () => {};
      const senders = Array.from({ length: 20 }, async (_, number) => {
        while (!over.signal.aborted) {
          const response = await proxy.chat(request, { key: keys[number % keys.length] ?? "" });
          await response.text();
          seen.set(response.status, (seen.get(response.status) ?? 0) + 1);
          wake();
        }
      });
      const answersMore = async (count: number) => {
        for (let left = count; left > 0; left--) await new Promise<void>((resolve) => (wake = resolve));
      };

      const random = seeded(20_261_120);
      const scopes = ["all", "team:red", "each-key", "each-key:red", "key:a", "key:alice"];
      const periods: Period[] = ["total", "1d", "1mo"];
      /** Spent + held of each window when its budget was last changed: afterwards it must not exceed this or its limit. */
      const atChange = new Map<string, bigint>();
      const broken: string[] = [];
      for (let change = 0; change < size(60, 20); change++) {
        const scope = scopes[random(scopes.length)] ?? "all";
        const period = periods[random(periods.length)] ?? "total";
        if (random(4) === 0) await removeBudget(tools, { scope, period });
        else {
          // Around what is spent by now: some are far below it, some leave room for a few requests.
          const spent = await spentIn(proxy.serving.ledger);
          const limit = spent + hold * BigInt(random(30) - 8);
          const set = await setBudget(tools, {
            scope,
            period,
            limit: text(limit < 0n ? 0n : limit),
            mode: random(6) === 0 ? "soft" : "hard",
          });
          if (!set.ok) throw new Error(set.message);
          for (const window of await beside.ledger.windows(Date.now()))
            if (window.budget.id === set.budget.id) atChange.set(nameOfWindow(window), weight(window));
        }
        for (let look = 0; look < 4; look++) {
          await answersMore(5);
          for (const window of await proxy.serving.ledger.windows(Date.now())) {
            const before = atChange.get(nameOfWindow(window)) ?? 0n;
            const most = before > window.budget.limit ? before : window.budget.limit;
            if (window.budget.mode === "hard" && weight(window) > most)
              broken.push(`${nameOfWindow(window)} after change ${change}: ${weight(window)} > ${most}`);
          }
        }
      }
      over.abort();
      await Promise.all(senders);
      expect(broken).toEqual([]);
      // The load met both: room, and none.
      expect([...seen.keys()].toSorted().filter((status) => ![200, 402, 429].includes(status))).toEqual([]);
      expect(seen.get(200)).toBeGreaterThan(50);
      expect((seen.get(402) ?? 0) + (seen.get(429) ?? 0)).toBeGreaterThan(50);
      const charges = await proxy.charges();
      expect(charges.length >= 1000 || charges.length === seen.get(200)).toBe(true);
      expect(
        (await proxy.serving.ledger.report({ by: [], since: 0, until: Date.now() + 1 })).map(({ cost }) => cost),
      ).toEqual([proxy.sandbox.billed.cost]);
      expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
    });
  },
);

async function spentIn(ledger: Ledger): Promise<bigint> {
  return (await ledger.report({ by: [], since: 0, until: Date.now() + 1 }))[0]?.cost ?? 0n;
}

/** Whole numbers below a bound, the same in every run. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
