import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import { usd } from "../../../src/core/money.ts";
import type { PostgresServer } from "../../../src/core/postgres-url.ts";
import { adjust } from "../../../src/ledger/postgres/adjustments.ts";
import { connect, type Database } from "../../../src/ledger/postgres/connection.ts";
import { PostgresProxies } from "../../../src/ledger/postgres/proxies.ts";
import { startPostgres } from "../../support/postgres.ts";
import {
  alice,
  bob,
  budget,
  holdOf,
  key,
  noon,
  openPostgresStore,
  posting,
  assumed,
  utc,
} from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { differencesIn, LedgerProxy, type ProxyOptions } from "../../support/postgres-proxies.ts";
import { newDatabase } from "../../support/shared-postgres.ts";

/** Proxies on one new ledger, and a look into it beside them. */
async function opened(count: number, options: ProxyOptions = {}) {
  await using owned = new AsyncDisposableStack();
  const { server } = owned.use(await newDatabase());
  const proxies: LedgerProxy[] = [];
  for (let n = 0; n < count; n++) proxies.push(owned.use(await LedgerProxy.open(server, options)));
  // Each knows of all others.
  for (const proxy of proxies) await proxy.beat();
  const look = owned.use(connect(server, { applicationName: "a look", max: 2, statementMs: null }));
  const kept = owned.move();
  const [first = never()] = proxies;
  return { server, first, proxies, look, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function never(): never {
  throw new Error("there is a proxy");
}

const sums = (look: Database) =>
  look.rows<{ spent: bigint; held: bigint }>("select spent, held from windows order by seq");

/** A small generator of numbers that look random, the same in every run. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
}

describe("several proxies on one PostgreSQL", () => {
  it.each([
    { ends: "are posted as they were held", costOf: () => 1_000_000 },
    {
      ends: "are posted below and above their holds",
      costOf: (n: number) => 1_000_000 + ((n * 7919) % 3 === 0 ? 150_000 : -((n * 104_729) % 400_000)),
    },
  ])(
    "pays for what a budget pays for, and for nothing beyond: 2,000 holds at once by four, that $ends",
    { timeout: 60_000 },
    async ({ costOf }) => {
      await using ledger = await opened(4);
      const { first, proxies, look } = ledger;
      const limit = usd("500");
      await first.setBudget(budget({ kind: "all" }, "total", "500"));
      let highest = 0n;
      const over = new AbortController();
      const watching = (async () => {
        while (!over.signal.aborted) {
          const [row] = await look.rows<{ out: bigint }>("select (w.spent + w.held)::bigint as out from windows w");
          if (row !== undefined && row.out > highest) highest = row.out;
        }
      })();
      const exact = costOf(1) === 1_000_000 && costOf(2) === 1_000_000;
      let admitted = 0;
      const overspent: bigint[] = [];
      const one = async (n: number) => {
        const proxy = proxies[n % 4] ?? first;
        const result = await proxy.hold(holdOf(`h${n}`, usd("1")));
        if (!result.ok) return void expect(result).toMatchObject({ reason: "no_room" });
        admitted++;
        const cost = costOf(n);
        const settled = await proxy.post(`h${n}`, posting(cost, 0));
        if (settled.ok && settled.overage > 0n) overspent.push(settled.overage);
      };
      await Promise.all(Array.from({ length: 2_000 }, (_, n) => one(n)));
      over.abort();
      await watching;
      const overage = overspent.reduce((total, each) => total + each, 0n);
      expect(highest - overage).toBeLessThanOrEqual(limit);
      if (exact) expect(admitted).toBeLessThanOrEqual(500);
      // What is left is less than a few requests: nothing usable is stranded in anybody's lease.
      const [left] = await sums(look);
      expect(left?.held).toBe(0n);
      expect(admitted).toBeGreaterThanOrEqual(495);
      expect(await differencesIn(look)).toEqual([]);
    },
  );

  it("never waits in a circle, whatever overlaps", { timeout: 60_000 }, async () => {
    await using ledger = await opened(4, { leases: "always" });
    const { first, proxies, look } = ledger;
    const callers = [alice, bob, { key: "k-carol", team: "blue" }, { key: "k-dave", team: null }];
    for (const period of ["total", "1d", "1h"] as const) {
      await first.setBudget(budget({ kind: "all" }, period, "30"));
      await first.setBudget(budget({ kind: "team", team: "red" }, period, "20", "soft"));
      await first.setBudget(budget({ kind: "eachKey", team: null }, period, "15"));
    }
    const random = numbersFrom(7);
    const storm = async (proxy: LedgerProxy, lane: number) => {
      for (let n = 0; n < 12; n++) {
        const ids = Array.from({ length: 5 }, (_, k) => `s${lane}-${n}-${k}`);
        const at = noon - random(5) * 3_600_000;
        await Promise.all(
          ids.map((id) =>
            proxy.hold(
              holdOf(id, BigInt(random(900_000_000_000)) as PicoUsd, { at, caller: callers[random(4)] ?? alice }),
            ),
          ),
        );
        // Somebody else may end them, as after a crash.
        const ender = proxies[random(4)] ?? proxy;
        await Promise.all([
          ...ids.slice(0, 2).map((id) => ender.extend(id, usd("0.5"), usd("0.01"))),
          ...ids.slice(2).map((id) => (random(2) === 0 ? ender.post(id, posting(random(900_000), 0)) : ender.void(id))),
        ]);
        await Promise.all(ids.slice(0, 2).map((id) => ender.post(id, assumed(usd("1")))));
        if (n === 6 && lane % 4 === 0) await proxy.setBudget(budget({ kind: "all" }, "1d", String(25 + lane)));
      }
    };
    await Promise.all(proxies.flatMap((proxy, p) => [0, 1, 2].map((lane) => storm(proxy, p * 3 + lane))));
    const [counted] = await look.rows<{ deadlocks: bigint }>(
      "select deadlocks from pg_stat_database where datname = current_database()",
    );
    expect(counted?.deadlocks).toBe(0n);
    expect((await sums(look)).filter(({ held }) => held !== 0n)).toEqual([]);
    expect(await differencesIn(look)).toEqual([]);
  });

  it("takes back what another proxy has idle before it refuses", async () => {
    await using ledger = await opened(2, { leases: "always" });
    const [a, b] = ledger.proxies;
    await a?.setBudget(budget({ kind: "all" }, "total", "100"));
    await a?.hold(holdOf("small", usd("0.1")));
    const [lease] = await ledger.look.rows<{ granted: bigint }>("select granted from window_leases");
    expect(lease?.granted).toBe(usd("12.5"));
    // More than the window's own row has, less than the budget.
    expect(await b?.hold(holdOf("large", usd("99")))).toEqual({ ok: true, room: usd("0.9") });
    expect(await b?.hold(holdOf("larger", usd("0.91")))).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { exhausted: false, window: { spent: 0n, held: usd("99.1") } },
    });
    expect(await a?.hold(holdOf("last", usd("0.9")))).toEqual({ ok: true, room: 0n });
    await a?.void("small");
    expect(await b?.extend("large", usd("3"), usd("0.01"))).toEqual({ ok: true, granted: usd("0.1") });
    expect(await differencesIn(ledger.look)).toEqual([]);
  });

  it("books what is posted beyond a lease in the lease and in its window", async () => {
    await using ledger = await opened(1, { leases: "always" });
    const { first, look } = ledger;
    await first.setBudget(budget({ kind: "all" }, "total", "100"));
    await first.setBudget(budget({ kind: "all" }, "1d", "1", "soft"));
    await first.hold(holdOf("a", usd("1")));
    await first.post("a", posting(40_000_000, 0));
    expect(await look.rows("select spent, held, leased from budget_windows order by seq")).toEqual([
      { spent: 0n, held: 0n, leased: usd("40") },
      { spent: 0n, held: 0n, leased: 0n },
    ]);
    expect(await sums(look)).toEqual([
      { spent: usd("40"), held: 0n },
      { spent: usd("40"), held: 0n },
    ]);
    expect(await first.hold(holdOf("b", usd("61")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect(await first.hold(holdOf("c", usd("60")))).toEqual({ ok: true, room: 0n });
    // A soft budget that becomes a hard one knows what was held and spent while it was soft.
    await first.setBudget(budget({ kind: "all" }, "1d", "101"));
    expect(await first.hold(holdOf("d", usd("0.01"), { caller: bob }))).toMatchObject({
      ok: false,
      shortage: { window: { budget: { period: "total" } } },
    });
    expect(await differencesIn(look)).toEqual([]);
  });

  it("posts the holds of a proxy that is gone, once it has been silent for as long as a request may live", async () => {
    await using ledger = await opened(2, { leases: "always" });
    const [lost = never(), other = never()] = ledger.proxies;
    await other.setBudget(budget({ kind: "all" }, "total", "100"));
    await lost.hold(holdOf("a", usd("1")));
    await lost.hold(holdOf("b", null, { caller: bob, bounded: true }));
    expect(await other.recover()).toBe(0);
    await ledger.look.run("update owners set beat_at = beat_at - interval '61 seconds' where epoch = $1", [
      lost.owner.known(),
    ]);
    expect(await other.recover()).toBe(1);
    expect(await sums(ledger.look)).toEqual([{ spent: usd("1"), held: 0n }]);
    expect(await ledger.look.rows("select * from window_leases where owner = $1", [lost.owner.known()])).toEqual([]);

    // It wakes: what it held is answered as it ended and corrected, and it holds under another epoch only.
    const before = lost.owner.known();
    expect(await lost.post("a", posting(10, 0))).toMatchObject({ first: false, cost: usd("1") });
    expect(await lost.hold(holdOf("c", usd("1")))).toMatchObject({ ok: true });
    expect(lost.owner.known()).not.toBe(before);
    expect(await sums(ledger.look)).toEqual([{ spent: usd("0.00001"), held: usd("1") }]);
    expect(
      await ledger.look.rows("select id from charges where state = 'pending' and owner = $1", [lost.owner.known()]),
    ).toEqual([{ id: "c" }]);
    expect(await other.recover()).toBe(0);
    expect(await differencesIn(ledger.look)).toEqual([]);
  });

  describe("ends a silent proxy on command", () => {
    const silence = (look: Database, { owner }: LedgerProxy, seconds = 6) =>
      look.run("update owners set beat_at = clock_timestamp() - $2::integer * interval '1 second' where epoch = $1", [
        owner.known(),
        seconds,
      ]);
    const correctionsIn = (look: Database) =>
      look.rows<{ adjusts: string; cost: bigint; adjusted_by: string; reason: string }>(
        "select adjusts, cost, adjusted_by, reason from charges where adjusts is not null order by adjusts",
      );

    it.each(["always", "never"] as const)(
      "posts its holds, gives back its leases and writes an audit entry, in one step; leases: %s",
      async (leases) => {
        await using ledger = await opened(2, { leases });
        const {
          look,
          proxies: [lost = never(), other = never()],
        } = ledger;
        const runs = new PostgresProxies(look, utc);
        await other.setBudget(budget({ kind: "all" }, "total", "10"));
        for (let n = 0; n < 5; n++) await lost.hold(holdOf(`lost-${n}`, usd("1")));
        await lost.hold(holdOf("unpriced", null, { caller: bob, bounded: true }));
        await other.hold(holdOf("other", usd("1")));
        expect(await runs.end(String(lost.owner.known()), noon, "os:ops")).toMatchObject({ ok: false, reason: "live" });
        expect(await runs.end("nowhere/1", noon, "os:ops")).toEqual({ ok: false, reason: "unknown" });
        expect(await sums(look)).toEqual([{ spent: 0n, held: usd("6") }]);

        await silence(look, lost);
        const before = await runs.list();
        expect(before).toMatchObject([
          { run: lost.owner.known(), state: "silent", holds: 5, held: usd("5") },
          { run: other.owner.known(), state: "live", holds: 1 },
        ]);
        expect(await runs.end("test", noon, "os:ops")).toMatchObject({
          ok: true,
          ended: [{ run: lost.owner.known(), holds: 5, held: usd("5") }],
        });
        expect(await sums(look)).toEqual([{ spent: usd("5"), held: usd("1") }]);
        expect(await look.rows("select * from window_leases where owner = $1", [lost.owner.known()])).toEqual([]);
        expect(
          await look.rows("select made_by, action, object from audit_entries where action = 'proxies.end'"),
        ).toEqual([{ made_by: "os:ops", action: "proxies.end", object: "proxy:test" }]);
        expect((await runs.list()).map(({ run }) => run)).toEqual([other.owner.known()]);
        expect(await runs.end(String(lost.owner.known()), noon, "os:ops")).toEqual({ ok: false, reason: "unknown" });
        expect(await other.hold(holdOf("next", usd("4")))).toEqual({ ok: true, room: 0n });
        expect(await differencesIn(look)).toEqual([]);
      },
    );

    it("has what it settles later become one correction each, up or down to the true amount", async () => {
      await using ledger = await opened(2, { leases: "always" });
      const {
        look,
        proxies: [asleep = never(), other = never()],
      } = ledger;
      await other.setBudget(budget({ kind: "all" }, "total", "100"));
      for (const id of ["down", "up", "void", "same", "unknown", "by-hand"]) await asleep.hold(holdOf(id, usd("1")));
      await silence(look, asleep);
      expect(await new PostgresProxies(look, utc).end("test", noon, "os:ops")).toMatchObject({
        ok: true,
        ended: [{ holds: 6 }],
      });
      await look.transaction((db) =>
        adjust(db, utc, [
          "adjust",
          "by-hand",
          { id: "adj-by-hand", at: noon, amount: -usd("0.5") as PicoUsd, why: "it was half", by: "os:ops" },
        ]),
      );

      for (let time = 0; time < 2; time++) {
        expect(await asleep.post("down", posting(250_000, 0))).toMatchObject({
          ok: true,
          first: false,
          cost: usd("1"),
        });
        await asleep.post("up", posting(3_000_000, 0));
        await asleep.void("void");
        await asleep.post("same", posting(1_000_000, 0));
        await asleep.post("unknown", assumed(usd("1")));
        await asleep.post("by-hand", posting(250_000, 0));
      }
      expect(await correctionsIn(look)).toMatchObject([
        { adjusts: "by-hand", cost: -usd("0.5"), adjusted_by: "os:ops" },
        { adjusts: "by-hand", cost: -usd("0.25"), adjusted_by: "farebox" },
        {
          adjusts: "down",
          cost: -usd("0.75"),
          adjusted_by: "farebox",
          reason: "settled after its proxy was ended: reported",
        },
        { adjusts: "up", cost: usd("2"), adjusted_by: "farebox" },
        { adjusts: "void", cost: -usd("1"), adjusted_by: "farebox" },
      ]);
      expect(await sums(look)).toEqual([{ spent: usd("5.5"), held: 0n }]);
      // The list cost of each is that of its settlement, twice its cost; of what is not corrected, the hold.
      const total = { cost: usd("5.5"), list_cost: usd("9") };
      expect(
        await look.rows("select sum(cost)::bigint as cost, sum(list_cost)::bigint as list_cost from charges"),
      ).toEqual([total]);
      expect(
        await look.rows("select sum(cost)::bigint as cost, sum(list_cost)::bigint as list_cost from rollup_day"),
      ).toEqual([total]);
      expect(
        await look.rows("select count(*)::integer as n from audit_entries where action = 'charges.adjust'"),
      ).toEqual([{ n: 5 }]);
      expect(await differencesIn(look)).toEqual([]);
    });

    it("ends a settlement that was merely sent twice as before, without a correction", async () => {
      await using ledger = await opened(1);
      await ledger.first.hold(holdOf("a", usd("1")));
      await ledger.first.post("a", posting(250_000, 0));
      await ledger.first.post("a", posting(750_000, 0));
      expect(await correctionsIn(ledger.look)).toEqual([]);
    });

    it("takes no live proxy for it, though it has the name of a dead one", async () => {
      await using ledger = await opened(2);
      const {
        look,
        proxies: [old = never(), restarted = never()],
      } = ledger;
      await old.hold(holdOf("old", usd("1")));
      await restarted.hold(holdOf("new", usd("1")));
      await silence(look, old);
      expect(await new PostgresProxies(look, utc).end("test", noon, "os:ops")).toMatchObject({
        ok: true,
        ended: [{ run: old.owner.known() }],
      });
      expect(await look.rows("select id from charges where state = 'pending'")).toEqual([{ id: "new" }]);
    });

    it("fences it first: a hold that was on its way is placed under another run, or not at all", async () => {
      await using ledger = await opened(2, { leases: "always" });
      const {
        look,
        proxies: [asleep = never(), other = never()],
      } = ledger;
      await other.setBudget(budget({ kind: "all" }, "total", "100"));
      await asleep.hold(holdOf("held", usd("1")));
      const run = asleep.owner.known();
      await silence(look, asleep);
      const [ending] = await Promise.all([
        new PostgresProxies(look, utc).end("test", noon, "os:ops"),
        ...Array.from({ length: 50 }, (_, n) => asleep.hold(holdOf(`late-${n}`, usd("1")))),
      ]);
      expect(ending).toMatchObject({ ok: true });
      expect(await look.rows("select id from charges where state = 'pending' and owner = $1", [run])).toEqual([]);
      expect(await asleep.extend("held", usd("1"))).toMatchObject({ ok: false, reason: "not_pending" });
      expect(await differencesIn(look)).toEqual([]);
    });
  });

  it("gives its leases back when it closes", async () => {
    await using ledger = await opened(2, { leases: "always" });
    const [leaving = never(), staying = never()] = ledger.proxies;
    await staying.setBudget(budget({ kind: "all" }, "total", "100"));
    await leaving.hold(holdOf("a", usd("1")));
    await leaving.post("a", posting(2_000_000, 0));
    await leaving[Symbol.asyncDispose]();
    expect(await ledger.look.rows("select spent, held, leased from budget_windows")).toEqual([
      { spent: usd("2"), held: 0n, leased: 0n },
    ]);
    expect(await staying.hold(holdOf("b", usd("98")))).toEqual({ ok: true, room: 0n });
    expect(await differencesIn(ledger.look)).toEqual([]);
  });

  it("clears its leases of windows that are over, and makes the months to come, while it runs", async () => {
    await using ledger = await opened(1, { leases: "always" });
    const { first, look } = ledger;
    await first.setBudget(budget({ kind: "all" }, "1h", "100"));
    await first.hold(holdOf("a", usd("1")));
    await first.post("a", posting(500_000, 0));
    first.clock.set(noon + 40 * 86_400_000);
    await first.beat();
    // The next beat begins when what the one before had to do is done.
    await first.beat();
    expect(await look.rows("select spent, held, leased from budget_windows")).toEqual([
      { spent: usd("0.5"), held: 0n, leased: 0n },
    ]);
    expect(await look.rows("select to_regclass('charges_2027_02')::text as month")).toEqual([
      { month: "charges_2027_02" },
    ]);
    expect(await differencesIn(look)).toEqual([]);
  });

  it("learns at once of another process's change: its time stands still, so that it neither beats nor polls", async () => {
    await using database = await newDatabase();
    const open = (access: "serve" | "command") =>
      openPostgresStore({ url: database.url, calendar: utc, clock: manualClock(noon), access });
    await using running = await open("serve");
    await using beside = await open("command");
    await beside.keys.create(key("alice"));
    const revoked = async () => (await running.keys.findById("id-alice"))?.revokedAt === noon;
    const heard = Promise.withResolvers<void>();
    running.changes.onChange(() => void revoked().then((known) => known && heard.resolve()));
    await beside.keys.revoke("id-alice", noon);
    await heard.promise;
  });

  it("heeds a budget that another proxy changes, from the next hold on", async () => {
    await using ledger = await opened(2);
    const [a = never(), b = never()] = ledger.proxies;
    await a.setBudget(budget({ kind: "all" }, "total", "1000"));
    const holding = Promise.all(
      Array.from({ length: 300 }, (_, n) => (n % 2 === 0 ? a : b).hold(holdOf(`h${n}`, usd("1")))),
    );
    await Promise.all([
      a.setBudget(budget({ kind: "team", team: "red" }, "1d", "40")),
      b.setBudget(budget({ kind: "all" }, "total", "50")),
    ]);
    await holding;
    const before = (await ledger.look.rows("select 1 from charges")).length;
    expect(await b.hold(holdOf("late", usd("50")))).toMatchObject({ ok: false, reason: "no_room" });
    expect((await ledger.look.rows("select 1 from charges")).length).toBe(before);
    expect(await differencesIn(ledger.look)).toEqual([]);
    await b.submit(["run", "budgets.removeBudget", ["all", "total", noon, "test"]]);
    await b.submit(["run", "budgets.removeBudget", ["team:red", "1d", noon, "test"]]);
    expect(await a.hold(holdOf("free", usd("5000")))).toEqual({ ok: true, room: null });
  });
});

describe("a proxy on PostgreSQL", () => {
  it("writes what arrives together in one transaction and one round trip", async () => {
    await using ledger = await opened(1);
    const { first, look } = ledger;
    await first.setBudget(budget({ kind: "eachKey", team: null }, "1d", "100"));
    await first.setBudget(budget({ kind: "all" }, "1d", "100"));
    await first.hold(holdOf("warm", usd("0.1")));
    const statements = await statementsOf(first, async () => {
      await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          first.hold(holdOf(`h${n}`, usd("1"), { caller: n % 2 === 0 ? alice : bob })),
        ),
      );
      await Promise.all([
        ...Array.from({ length: 50 }, (_, n) => first.post(`h${n}`, posting(1_000, 10))),
        first.hold(holdOf("beside", usd("1"))),
      ]);
    });
    expect(statements).toEqual(["farebox_apply", "farebox_apply"]);
    const [row] = await look.rows<{ transactions: bigint }>(
      "select count(distinct xmin::text) as transactions from charges where state = 'posted'",
    );
    expect(row?.transactions).toBe(1n);
    expect(await differencesIn(look)).toEqual([]);
  });

  it("fails a sum beyond 64 bits, and only that command of its batch", async () => {
    await using ledger = await opened(1);
    const { first } = ledger;
    await first.setBudget(budget({ kind: "all" }, "total", "1", "soft"));
    const large = usd("9000000");
    const results = await Promise.allSettled(
      ["a", "b", "c"].map((id, n) => first.hold(holdOf(id, n === 2 ? usd("1") : large))),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await sums(ledger.look)).toEqual([{ spent: 0n, held: large + usd("1") }]);
  });

  it(
    "loses and doubles nothing when its connection is killed in the middle of batches",
    { timeout: 60_000 },
    async () => {
      await using ledger = await opened(2);
      const [first = never(), other = never()] = ledger.proxies;
      await first.setBudget(budget({ kind: "all" }, "total", "1000000"));
      const over = new AbortController();
      const killed = { connections: 0 };
      const killing = (async () => {
        while (!over.signal.aborted && killed.connections < 5) {
          const [row] = await ledger.look.rows<{ count: bigint }>(
            `select count(pg_terminate_backend(pid)) from pg_stat_activity
           where datname = current_database() and application_name = 'a proxy under test' and state = 'active' and query like 'select farebox_apply%'`,
          );
          killed.connections += Number(row?.count ?? 0n);
        }
      })();
      const outcomes = await Promise.all(
        Array.from({ length: 40 }, async (_, lane) => {
          let placed = 0;
          for (let n = 0; n < 10 || (killed.connections === 0 && n < 1_000); n++) {
            const id = `k${lane}-${n}`;
            const result = await (lane % 2 === 0 ? first : other).hold(holdOf(id, usd("1")));
            if (!result.ok) continue;
            placed++;
            // TryResult until it is acknowledged.
            await (lane % 2 === 0 ? first : other).post(id, posting(1_000_000, 0));
          }
          return placed;
        }),
      );
      over.abort();
      await killing;
      expect(killed.connections).toBeGreaterThan(0);
      const placed = outcomes.reduce((total, each) => total + each, 0);
      await first.queue.close();
      await other.queue.close();
      // What was not acknowledged is voided, or was never there.
      expect(await sums(ledger.look)).toEqual([{ spent: BigInt(placed) * usd("1"), held: 0n }]);
      expect(await differencesIn(ledger.look)).toEqual([]);
    },
  );

  it("makes the months of charges as they are needed", async () => {
    await using ledger = await opened(1);
    const { first, look } = ledger;
    const edge = Date.parse("2027-03-01T00:00:00Z");
    await Promise.all(
      [edge - 1, edge, edge + 40 * 86_400_000].map((at, n) => first.hold(holdOf(`m${n}`, usd("1"), { at }))),
    );
    expect(await look.rows("select tableoid::regclass::text as month, id from charges order by id")).toEqual([
      { month: "charges_2027_02", id: "m0" },
      { month: "charges_2027_03", id: "m1" },
      { month: "charges_2027_04", id: "m2" },
    ]);
    // Retention may have been there in between.
    await look.run("drop table charges_2027_04");
    expect(await first.hold(holdOf("again", usd("1"), { at: edge + 41 * 86_400_000 }))).toMatchObject({ ok: true });
  });
});

describe("a server that is away", () => {
  it(
    "refuses while the server is stopped, writes what waits when it is back, and is bounded by a server that hangs",
    { timeout: 60_000 },
    async () => {
      await using server = await startPostgres();
      const at: PostgresServer = await server.newDatabase();
      await using proxy = await LedgerProxy.open(at, { statementMs: 1_500 });
      await proxy.setBudget(budget({ kind: "all" }, "total", "100"));
      await proxy.hold(holdOf("a", usd("1")));
      await server.stop();
      expect(await proxy.hold(holdOf("b", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
      const settled = proxy.post("a", posting(1_000_000, 0));
      await server.start();
      expect(await settled).toMatchObject({ ok: true, state: "posted", cost: usd("1") });
      expect(await proxy.hold(holdOf("c", usd("1")))).toMatchObject({ ok: true });

      await using look = connect(at, { applicationName: "a look", max: 1, statementMs: null });
      const processes = await look.rows<{ pid: number }>(
        "select pid from pg_stat_activity where application_name = 'a proxy under test'",
      );
      for (const { pid } of processes) process.kill(pid, "SIGSTOP");
      try {
        const start = performance.now();
        expect(await proxy.hold(holdOf("d", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
        expect(performance.now() - start).toBeLessThan(5_000);
      } finally {
        for (const { pid } of processes) process.kill(pid, "SIGCONT");
      }
      await proxy.post("c", posting(1_000_000, 0));
      await proxy.queue.close();
      expect(await look.rows("select id from charges where state = 'pending'")).toEqual([]);
      expect(await differencesIn(look)).toEqual([]);
    },
  );
});

/** The statements that a proxy sends while the work is done, as the server has counted them. */
async function statementsOf(proxy: LedgerProxy, work: () => Promise<void>): Promise<string[]> {
  const sent: string[] = [];
  const watched = new Set<object>();
  const session = proxy.database.session.bind(proxy.database);
  proxy.database.session = async () => {
    const given = await session();
    if (watched.has(given.client)) return given;
    watched.add(given.client);
    const { query } = given.client;
    given.client.query = ((...asked: Parameters<typeof query>) => {
      const [statement] = asked as unknown as [string | { name?: string; text?: string }];
      const text = typeof statement === "string" ? statement : (statement.name ?? statement.text ?? "?");
      if (!/farebox_beat/.test(text)) sent.push(text);
      return (query as (...all: unknown[]) => unknown).apply(given.client, asked);
    }) as typeof query;
    return given;
  };
  await work();
  proxy.database.session = session;
  return sent;
}
