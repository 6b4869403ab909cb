// @module-tag races
import { eachKeyScope, everyRequest, parseScope, teamScope } from "../../../src/core/scope.ts";
import { once } from "node:events";
import { connect as connectSocket, createServer, type AddressInfo } from "node:net";
import { describe, expect, it, vi } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import { usd } from "../../../src/core/money.ts";
import type { PostgresServer } from "../../../src/core/postgres-url.ts";
import { adjust } from "../../../src/ledger/adjustments.ts";
import { answer } from "../../../src/ledger/postgres/answer.ts";
import { applyBudgetStep } from "../../../src/ledger/postgres/budget-steps.ts";
import { connect, isConnectionLost, type Database } from "../../../src/ledger/postgres/connection.ts";
import { postgresDialect } from "../../../src/ledger/queries/dialects.ts";
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

/** Opens proxies on a new ledger, and a connection to read it. */
async function opened(count: number, options: ProxyOptions = {}) {
  await using owned = new AsyncDisposableStack();
  const { server } = owned.use(await newDatabase());
  const proxies: LedgerProxy[] = [];
  for (let n = 0; n < count; n++) proxies.push(owned.use(await LedgerProxy.open(server, options)));
  // The second heartbeat makes each proxy know all others, however long their starts took.
  for (let beats = 0; beats < 2; beats++) await Promise.all(proxies.map((proxy) => proxy.beat()));
  const reader = owned.use(connect(server, { applicationName: "a look", max: 2, statementMs: null }));
  const kept = owned.move();
  const [first = never()] = proxies;
  return { server, first, proxies, reader, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function never(): never {
  throw new Error("there is a proxy");
}

const sums = (reader: Database) =>
  reader.rows<{ spent: bigint; held: bigint }>("select spent, held from windows order by seq");

/** Returns a small pseudo-random generator with the same numbers in every run. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
}

describe("several proxies on one PostgreSQL", () => {
  it.each([
    { ends: "are posted with the held amount", costOf: () => 1_000_000 },
    {
      ends: "are posted below and above their holds",
      costOf: (n: number) => 1_000_000 + ((n * 7919) % 3 === 0 ? 150_000 : -((n * 104_729) % 400_000)),
    },
  ])(
    "admit nearly all that a budget allows, and never more, of 2,000 parallel holds that $ends",
    async ({ costOf }) => {
      await using ledger = await opened(4);
      const { first, proxies, reader } = ledger;
      const limit = usd("500");
      await first.setBudget(budget(everyRequest, "total", "500"));
      let highest = 0n;
      const over = new AbortController();
      const watching = (async () => {
        while (!over.signal.aborted) {
          const [row] = await reader.rows<{ out: bigint }>("select (w.spent + w.held)::bigint as out from windows w");
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
      // At most a few requests' worth is left.
      const [left] = await sums(reader);
      expect(left?.held).toBe(0n);
      expect(admitted).toBeGreaterThanOrEqual(495);
      expect(await differencesIn(reader)).toEqual([]);
    },
  );

  it("never deadlock, whatever budgets and charges overlap", async () => {
    await using ledger = await opened(4);
    const { first, proxies, reader } = ledger;
    const callers = [alice, bob, { key: "k-carol", team: "blue" }, { key: "k-dave", team: null }];
    for (const period of ["total", "1d", "1h"] as const) {
      await first.setBudget(budget(everyRequest, period, "30"));
      await first.setBudget(budget(teamScope("red"), period, "20", "soft"));
      await first.setBudget(budget(eachKeyScope(), period, "15"));
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
        // Another proxy may settle them, as after a crash.
        const settler = proxies[random(4)] ?? proxy;
        await Promise.all([
          ...ids.slice(0, 2).map((id) => settler.extend(id, usd("0.5"), usd("0.01"))),
          ...ids
            .slice(2)
            .map((id) => (random(2) === 0 ? settler.post(id, posting(random(900_000), 0)) : settler.void(id))),
        ]);
        await Promise.all(ids.slice(0, 2).map((id) => settler.post(id, assumed(usd("1")))));
        if (n === 6 && lane % 4 === 0) await proxy.setBudget(budget(everyRequest, "1d", String(25 + lane)));
      }
    };
    await Promise.all(proxies.flatMap((proxy, p) => [0, 1, 2].map((lane) => storm(proxy, p * 3 + lane))));
    const [counted] = await reader.rows<{ deadlocks: bigint }>(
      "select deadlocks from pg_stat_database where datname = current_database()",
    );
    expect(counted?.deadlocks).toBe(0n);
    expect((await sums(reader)).filter(({ held }) => held !== 0n)).toEqual([]);
    expect(await differencesIn(reader)).toEqual([]);
  });

  it("apply a raise at once, and admit no more than the limit when it has ended", async () => {
    await using ledger = await opened(4);
    const { proxies, first, reader } = ledger;
    await first.setBudget(budget(everyRequest, "total", "10"));
    const each = (id: (n: number) => string, count: number, amount: string, at: number) =>
      Promise.all(Array.from({ length: count }, (_, n) => proxies[n % 4]?.hold(holdOf(id(n), usd(amount), { at }))));
    const admitted = (results: readonly ({ readonly ok: boolean } | undefined)[]) =>
      results.filter((result) => result?.ok === true).length;
    await each((n) => `warm${n}`, 4, "0.001", noon);
    const raise = { scope: "all", period: "total", subject: "", amount: usd("90"), from: 0, until: noon + 1000 };
    await first.submit(["run", "budgets.raiseBudget", [{ ...raise, why: "load test" }, noon, "test"]]);
    expect(admitted(await each((n) => `raised${n}`, 520, "0.2", noon + 999))).toBe(499);
    await Promise.all(Array.from({ length: 520 }, (_, n) => proxies[n % 4]?.void(`raised${n}`)));
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, round) => each((n) => `ended${round}-${n}`, 40, "0.1", noon + 1000)),
    );
    expect(admitted(results.flat())).toBe(99);
    expect(await sums(reader)).toMatchObject([{ held: usd("9.904") }]);
    expect(await proxies[1]?.extend("warm1", usd("0.2"), usd("0.01"), noon + 1000)).toEqual({
      ok: true,
      granted: usd("0.096"),
    });
    expect(await differencesIn(reader)).toEqual([]);
  });

  it("record an amount posted above its hold", async () => {
    await using ledger = await opened(1);
    const { first, reader } = ledger;
    await first.setBudget(budget(everyRequest, "total", "100"));
    await first.setBudget(budget(everyRequest, "1d", "1", "soft"));
    await first.hold(holdOf("a", usd("1")));
    await first.post("a", posting(40_000_000, 0));
    expect(await sums(reader)).toEqual([
      { spent: usd("40"), held: 0n },
      { spent: usd("40"), held: 0n },
    ]);
    expect(await first.hold(holdOf("b", usd("61")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect(await first.hold(holdOf("c", usd("60")))).toMatchObject({ ok: true, room: 0n });
    // A soft budget that becomes hard includes what was held and spent before.
    await first.setBudget(budget(everyRequest, "1d", "101"));
    expect(await first.hold(holdOf("d", usd("0.01"), { caller: bob }))).toMatchObject({
      ok: false,
      shortage: { window: { budget: { period: "total" } } },
    });
    expect(await differencesIn(reader)).toEqual([]);
  });

  it("post the holds of a lost proxy once it has been silent for the longest life of a request", async () => {
    await using ledger = await opened(2);
    const [lost = never(), other = never()] = ledger.proxies;
    await other.setBudget(budget(everyRequest, "total", "100"));
    await lost.hold(holdOf("a", usd("1")));
    await lost.hold(holdOf("b", null, { caller: bob, bounded: true }));
    expect(await other.recover()).toBe(0);
    await ledger.reader.run("update owners set beat_at = beat_at - interval '61 seconds' where epoch = $1", [
      lost.owner.knownEpoch(),
    ]);
    expect(await other.recover()).toBe(1);
    expect(await sums(ledger.reader)).toEqual([{ spent: usd("1"), held: 0n }]);

    // The lost proxy wakes: its settlement becomes a correction, and new holds get another epoch.
    const before = lost.owner.knownEpoch();
    expect(await lost.post("a", posting(10, 0))).toMatchObject({ first: false, cost: usd("1") });
    expect(await lost.hold(holdOf("c", usd("1")))).toMatchObject({ ok: true });
    expect(lost.owner.knownEpoch()).not.toBe(before);
    expect(await sums(ledger.reader)).toEqual([{ spent: usd("0.00001"), held: usd("1") }]);
    expect(
      await ledger.reader.rows("select id from charges where state = 'pending' and owner = $1", [
        lost.owner.knownEpoch(),
      ]),
    ).toEqual([{ id: "c" }]);
    expect(await other.recover()).toBe(0);
    expect(await differencesIn(ledger.reader)).toEqual([]);
  });

  it("refuse only new subjects of a key beyond the daily maximum", async () => {
    await using ledger = await opened(2, { subjectsMax: 3 });
    const { reader, proxies } = ledger;
    const [first = never(), other = never()] = proxies;
    const scopeOf = (text: string) => parseScope(text) ?? never();
    for (const [text, period] of [
      ["team:red each-user", "1d"],
      ["team:red each-user", "1h"],
      ["each-key each-tag:session", "total"],
    ] as const)
      await first.setBudget(budget(scopeOf(text), period, "100"));
    const by = (user: string, tags = {}, caller = alice, at = noon) => ({ caller: { ...caller, user }, tags, at });
    const refused = { ok: false, reason: "too_many_subjects" };
    const taken = await Promise.all([
      first.hold(holdOf("a", usd("1"), by("u1"))),
      other.hold(holdOf("b", usd("1"), by("u1", { session: "s" }))),
      first.hold(holdOf("none", usd("1"), { caller: { key: "k-blue", team: "blue", user: "u9" } })),
    ]);
    expect(taken).toMatchObject([{ ok: true }, { ok: true }, { ok: true }]);
    // The user, and the sessions "s" and "" of the key, are three. Both proxies count them together.
    const batch = await Promise.all([
      other.hold(holdOf("c", usd("1"), by("u2"))),
      other.hold(holdOf("d", usd("1"), by("u1"))),
      other.hold(holdOf("e", usd("1"), by("u2", {}, bob))),
      first.hold(holdOf("f", usd("1"), by("u3"))),
    ]);
    expect(batch).toMatchObject([refused, { ok: true }, { ok: true }, refused]);
    expect(await reader.rows("select subject from windows where subject = 'u3'")).toEqual([]);
    // A known user may open the window of another hour, and the next day starts a new count.
    expect(await first.hold(holdOf("g", usd("1"), by("u1", {}, alice, noon + 3_600_000)))).toMatchObject({ ok: true });
    expect(await first.hold(holdOf("h", usd("1"), by("u3", {}, alice, noon + 86_400_000)))).toMatchObject({ ok: true });
    expect(await differencesIn(reader)).toEqual([]);
  });

  describe("ending a silent proxy", () => {
    const silence = (reader: Database, { owner }: LedgerProxy, seconds = 6) =>
      reader.run("update owners set beat_at = clock_timestamp() - $2::integer * interval '1 second' where epoch = $1", [
        owner.knownEpoch(),
        seconds,
      ]);
    /** Keeps a proxy alive, however slow this machine is. */
    const keepAlive = (reader: Database, proxy: LedgerProxy) => silence(reader, proxy, -3_600);
    const correctionsIn = (reader: Database) =>
      reader.rows<{ adjusts: string; cost: bigint; adjusted_by: string; reason: string }>(
        "select adjusts, cost, adjusted_by, reason from charges where adjusts is not null order by adjusts",
      );

    it("posts its holds and writes an audit entry in one step", async () => {
      await using ledger = await opened(2);
      const {
        reader,
        proxies: [lost = never(), other = never()],
      } = ledger;
      const runs = new PostgresProxies(reader, utc);
      for (const proxy of [lost, other]) await keepAlive(reader, proxy);
      await other.setBudget(budget(everyRequest, "total", "10"));
      for (let n = 0; n < 5; n++) await lost.hold(holdOf(`lost-${n}`, usd("1")));
      await lost.hold(holdOf("unpriced", null, { caller: bob, bounded: true }));
      await other.hold(holdOf("other", usd("1")));
      expect(await runs.end(String(lost.owner.knownEpoch()), noon, "os:ops")).toMatchObject({
        ok: false,
        reason: "live",
      });
      expect(await runs.end("nowhere/1", noon, "os:ops")).toEqual({ ok: false, reason: "unknown" });
      expect(await sums(reader)).toEqual([{ spent: 0n, held: usd("6") }]);

      await silence(reader, lost);
      const before = await runs.list();
      expect(before).toMatchObject([
        { run: lost.owner.knownEpoch(), state: "silent", holds: 5, held: usd("5") },
        { run: other.owner.knownEpoch(), state: "live", holds: 1 },
      ]);
      expect(await runs.end("test", noon, "os:ops")).toMatchObject({
        ok: true,
        ended: [{ run: lost.owner.knownEpoch(), holds: 5, held: usd("5") }],
      });
      expect(await sums(reader)).toEqual([{ spent: usd("5"), held: usd("1") }]);
      expect(
        await reader.rows("select made_by, action, object from audit_entries where action = 'proxies.end'"),
      ).toEqual([{ made_by: "os:ops", action: "proxies.end", object: "proxy:test" }]);
      expect((await runs.list()).map(({ run }) => run)).toEqual([other.owner.knownEpoch()]);
      expect(await runs.end(String(lost.owner.knownEpoch()), noon, "os:ops")).toEqual({
        ok: false,
        reason: "unknown",
      });
      expect(await other.hold(holdOf("next", usd("4")))).toMatchObject({ ok: true, room: 0n });
      expect(await differencesIn(reader)).toEqual([]);
    });

    it("turns each of its later settlements into one correction to the true amount", async () => {
      await using ledger = await opened(2);
      const {
        reader,
        proxies: [asleep = never(), other = never()],
      } = ledger;
      await other.setBudget(budget(everyRequest, "total", "100"));
      for (const id of ["down", "up", "void", "same", "unknown", "by-hand"]) await asleep.hold(holdOf(id, usd("1")));
      await keepAlive(reader, other);
      await silence(reader, asleep);
      expect(await new PostgresProxies(reader, utc).end("test", noon, "os:ops")).toMatchObject({
        ok: true,
        ended: [{ holds: 6 }],
      });
      const correction = {
        id: "adj-by-hand",
        at: noon,
        amount: -usd("0.5") as PicoUsd,
        why: "it was half",
        by: "os:ops",
      };
      await reader.transaction((db) =>
        answer(db, adjust(postgresDialect, utc, "by-hand", correction), (step) => applyBudgetStep(db, utc, step)),
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
      expect(await correctionsIn(reader)).toMatchObject([
        { adjusts: "by-hand", cost: -usd("0.5"), adjusted_by: "os:ops" },
        { adjusts: "by-hand", cost: -usd("0.25"), adjusted_by: "farebox" },
        {
          adjusts: "down",
          cost: -usd("0.75"),
          adjusted_by: "farebox",
          reason: "settled after its proxy was considered dead: reported",
        },
        { adjusts: "up", cost: usd("2"), adjusted_by: "farebox" },
        { adjusts: "void", cost: -usd("1"), adjusted_by: "farebox" },
      ]);
      expect(await sums(reader)).toEqual([{ spent: usd("5.5"), held: 0n }]);
      // A settlement's list cost is twice its cost; a charge without a correction has its hold as list cost.
      const total = { cost: usd("5.5"), list_cost: usd("9") };
      expect(
        await reader.rows("select sum(cost)::bigint as cost, sum(list_cost)::bigint as list_cost from charges"),
      ).toEqual([total]);
      expect(
        await reader.rows("select sum(cost)::bigint as cost, sum(list_cost)::bigint as list_cost from rollup_day"),
      ).toEqual([total]);
      expect(
        await reader.rows("select count(*)::integer as n from audit_entries where action = 'charges.adjust'"),
      ).toEqual([{ n: 5 }]);
      expect(await differencesIn(reader)).toEqual([]);
    });

    it("is what leads to corrections: a live proxy that settles twice makes none", async () => {
      await using ledger = await opened(1);
      await ledger.first.hold(holdOf("a", usd("1")));
      await ledger.first.post("a", posting(250_000, 0));
      await ledger.first.post("a", posting(750_000, 0));
      expect(await correctionsIn(ledger.reader)).toEqual([]);
    });

    it("spares a live proxy with the same name", async () => {
      await using ledger = await opened(2);
      const {
        reader,
        proxies: [old = never(), restarted = never()],
      } = ledger;
      await old.hold(holdOf("old", usd("1")));
      await restarted.hold(holdOf("new", usd("1")));
      await keepAlive(reader, restarted);
      await silence(reader, old);
      expect(await new PostgresProxies(reader, utc).end("test", noon, "os:ops")).toMatchObject({
        ok: true,
        ended: [{ run: old.owner.knownEpoch() }],
      });
      expect(await reader.rows("select id from charges where state = 'pending'")).toEqual([{ id: "new" }]);
    });

    it("places its late holds under another run or not at all", async () => {
      await using ledger = await opened(2);
      const {
        reader,
        proxies: [asleep = never(), other = never()],
      } = ledger;
      await other.setBudget(budget(everyRequest, "total", "100"));
      await asleep.hold(holdOf("held", usd("1")));
      const run = asleep.owner.knownEpoch();
      await keepAlive(reader, other);
      await silence(reader, asleep);
      const [ending] = await Promise.all([
        new PostgresProxies(reader, utc).end("test", noon, "os:ops"),
        ...Array.from({ length: 50 }, (_, n) => asleep.hold(holdOf(`late-${n}`, usd("1")))),
      ]);
      expect(ending).toMatchObject({ ok: true });
      expect(await reader.rows("select id from charges where state = 'pending' and owner = $1", [run])).toEqual([]);
      expect(await asleep.extend("held", usd("1"))).toMatchObject({ ok: false, reason: "not_pending" });
      expect(await differencesIn(reader)).toEqual([]);
    });
  });

  it("create the tables of the coming months while they run", async () => {
    await using ledger = await opened(1);
    const { first, reader } = ledger;
    first.clock.set(noon + 40 * 86_400_000);
    await first.beat();
    // The second heartbeat waits for the work of the first.
    await first.beat();
    expect(await reader.rows("select to_regclass('charges_2027_02')::text as month")).toEqual([
      { month: "charges_2027_02" },
    ]);
  });

  it("receive another process's change at once, without a heartbeat or a poll", async () => {
    await using database = await newDatabase();
    const open = (access: "serve" | "command") =>
      openPostgresStore({ url: database.url, calendar: utc, clock: manualClock(noon), access });
    await using running = await open("serve");
    await using beside = await open("command");
    await beside.keys.create(key("alice"));
    const revoked = async () => (await running.keys.findById("id-alice"))?.revokedAt === noon;
    const received = Promise.withResolvers<void>();
    running.changes.onChange(() => void revoked().then((known) => known && received.resolve()));
    await beside.keys.revoke("id-alice", noon);
    await received.promise;
  });

  it("apply another proxy's change of a budget from the next hold on", async () => {
    await using ledger = await opened(2);
    const [a = never(), b = never()] = ledger.proxies;
    await a.setBudget(budget(everyRequest, "total", "1000"));
    const holding = Promise.all(
      Array.from({ length: 300 }, (_, n) => (n % 2 === 0 ? a : b).hold(holdOf(`h${n}`, usd("1")))),
    );
    await Promise.all([
      a.setBudget(budget(teamScope("red"), "1d", "40")),
      b.setBudget(budget(everyRequest, "total", "50")),
    ]);
    await holding;
    const before = (await ledger.reader.rows("select 1 from charges")).length;
    expect(await b.hold(holdOf("late", usd("50")))).toMatchObject({ ok: false, reason: "no_room" });
    expect((await ledger.reader.rows("select 1 from charges")).length).toBe(before);
    expect(await differencesIn(ledger.reader)).toEqual([]);
    await b.submit(["run", "budgets.removeBudget", ["all", "total", noon, "test"]]);
    await b.submit(["run", "budgets.removeBudget", ["team:red", "1d", noon, "test"]]);
    expect(await a.hold(holdOf("free", usd("5000")))).toMatchObject({ ok: true, room: null });
  });
});

describe("a proxy on PostgreSQL", () => {
  it("applies batches without just-in-time compilation, which takes longer than a batch before version 18", async () => {
    await using ledger = await opened(1);
    // cspell:ignore proconfig
    const [row] = await ledger.reader.rows<{ settings: readonly string[] }>(
      "select proconfig as settings from pg_proc where proname = 'farebox_apply'",
    );
    expect(row?.settings).toContain("jit=off");
  });

  it("writes commands that arrive together in one transaction and one round trip", async () => {
    await using ledger = await opened(1);
    const { first, reader } = ledger;
    await first.setBudget(budget(eachKeyScope(), "1d", "100"));
    await first.setBudget(budget(everyRequest, "1d", "100"));
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
    const [row] = await reader.rows<{ transactions: bigint }>(
      "select count(distinct xmin::text) as transactions from charges where state = 'posted'",
    );
    expect(row?.transactions).toBe(1n);
    expect(await differencesIn(reader)).toEqual([]);
  });

  it("rejects a sum beyond 64 bits without failing the rest of its batch", async () => {
    await using ledger = await opened(1);
    const { first } = ledger;
    await first.setBudget(budget(everyRequest, "total", "1", "soft"));
    const large = usd("9000000");
    const results = await Promise.allSettled(
      ["a", "b", "c"].map((id, n) => first.hold(holdOf(id, n === 2 ? usd("1") : large))),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await sums(ledger.reader)).toEqual([{ spent: 0n, held: large + usd("1") }]);
  });

  it("loses and duplicates nothing when its connections are killed during batches", async () => {
    await using ledger = await opened(2);
    const [first = never(), other = never()] = ledger.proxies;
    await first.setBudget(budget(everyRequest, "total", "1000000"));
    const over = new AbortController();
    const killed = { connections: 0 };
    const killing = (async () => {
      while (!over.signal.aborted && killed.connections < 5) {
        const [row] = await ledger.reader.rows<{ count: bigint }>(
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
          // Retried until it is acknowledged.
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
    // An unacknowledged hold is voided or was never placed.
    expect(await sums(ledger.reader)).toEqual([{ spent: BigInt(placed) * usd("1"), held: 0n }]);
    expect(await differencesIn(ledger.reader)).toEqual([]);
  });

  it("creates the monthly tables of charges as they are needed", async () => {
    await using ledger = await opened(1);
    const { first, reader } = ledger;
    const edge = Date.parse("2027-03-01T00:00:00Z");
    await Promise.all(
      [edge - 1, edge, edge + 40 * 86_400_000].map((at, n) => first.hold(holdOf(`m${n}`, usd("1"), { at }))),
    );
    expect(await reader.rows("select tableoid::regclass::text as month, id from charges order by id")).toEqual([
      { month: "charges_2027_02", id: "m0" },
      { month: "charges_2027_03", id: "m1" },
      { month: "charges_2027_04", id: "m2" },
    ]);
    // Retention may drop a month in the meantime.
    await reader.run("drop table charges_2027_04");
    expect(await first.hold(holdOf("again", usd("1"), { at: edge + 41 * 86_400_000 }))).toMatchObject({ ok: true });
  });
});

describe("a pool of long queries", () => {
  it("waits without a limit for a free connection, but only a limited time for a silent server", async () => {
    await using owned = new AsyncDisposableStack();
    const { server } = owned.use(await newDatabase("empty"));
    const options = { applicationName: "long", max: 1, statementMs: null };
    const pool = owned.use(connect(server, options));
    const silent = createServer().listen(0, "127.0.0.1");
    owned.defer(() => void silent.close());
    const accepted = once(silent, "connection");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const unanswered = owned.use(connect({ ...server, port }, options));

    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    owned.defer(() => void vi.useRealTimers());
    const long = await pool.session();
    const next = pool.row<{ one: number }>("select 1 as one");
    const failed = expect(unanswered.row("select 1")).rejects.toThrow(/timeout/);
    await accepted;
    vi.advanceTimersByTime(600_000);
    await failed;
    await long[Symbol.asyncDispose]();
    expect(await next).toEqual({ one: 1 });
  });
});

it("a batch waits for a lock only once, however many parts it has", async () => {
  await using owned = new AsyncDisposableStack();
  const { server } = owned.use(await newDatabase());
  const proxy = owned.use(await LedgerProxy.open(server, { statementMs: 2_000 }));
  await proxy.setBudget(budget(everyRequest, "total", "100"));
  await proxy.hold(holdOf("a", usd("1")));
  const other = owned.use(connect(server, { applicationName: "another session", max: 1, statementMs: null }));
  await other.transaction(async (db) => {
    await db.run("lock table charges, budgets, meta in access exclusive mode");
    const statements = await statementsOf(proxy, async () => {
      const asked = [
        proxy.hold(holdOf("b", usd("1"))),
        ...Array.from({ length: 5 }, () => proxy.setBudget(budget(everyRequest, "1d", "100")).catch(() => null)),
        proxy.hold(holdOf("c", usd("1"))),
      ];
      expect((await Promise.all(asked)).filter((answer) => answer !== null && answer !== undefined)).toEqual([
        { ok: false, reason: "unavailable" },
        { ok: false, reason: "unavailable" },
      ]);
    });
    expect(statements).toEqual(["farebox_apply"]);
  });
  expect(await proxy.post("a", posting(1_000_000, 0))).toMatchObject({ ok: true, state: "posted" });
});

it("a connection that the server ends as soon as it is ready fails its statement, not the process", async () => {
  await using owned = new AsyncDisposableStack();
  const { server } = owned.use(await newDatabase("empty"));
  // The messages that end a connection may arrive together with the last one of its start.
  const ready = Buffer.from("Z\0\0\0\x05I", "latin1");
  const fields = ["S FATAL", "V FATAL", "C 57P01", "M terminating connection due to administrator command", "  "]
    .map((field) => `${field.replace(" ", "").trim()}\0`)
    .join("");
  const length = Buffer.alloc(4);
  length.writeInt32BE(length.length + fields.length);
  const ending = Buffer.concat([Buffer.from("E"), length, Buffer.from(fields, "latin1")]);
  const relay = createServer((socket) => {
    const onward = connectSocket(server.port, server.host);
    socket.on("error", () => socket.destroy()).pipe(onward);
    onward.on("error", () => onward.destroy());
    onward.on("data", (data) => {
      if (!data.includes(ready)) return void socket.write(data);
      socket.end(Buffer.concat([data, ending]));
      onward.destroy();
    });
  }).listen(0, "127.0.0.1");
  owned.defer(() => void relay.close());
  await once(relay, "listening");
  const { port } = relay.address() as AddressInfo;
  for (const statementMs of [5_000, null]) {
    const options = { applicationName: "ended", max: 1, statementMs };
    const database = owned.use(connect({ ...server, port }, options));
    const failure: unknown = await database.row("select 1").catch((error: unknown) => error);
    expect(isConnectionLost(failure)).toBe(true);
    // The next statement gets a new connection.
    expect(isConnectionLost(await database.row("select 1").catch((error: unknown) => error))).toBe(true);
  }
});

describe("a proxy whose database server is away", () => {
  it("refuses holds, writes waiting settlements when the server is back, and does not wait forever for a hanging server", async () => {
    await using server = await startPostgres();
    const at: PostgresServer = await server.newDatabase();
    await using proxy = await LedgerProxy.open(at, { statementMs: 5_000 });
    await proxy.setBudget(budget(everyRequest, "total", "100"));
    await proxy.hold(holdOf("a", usd("1")));
    await server.stop();
    expect(await proxy.hold(holdOf("b", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
    const settled = proxy.post("a", posting(1_000_000, 0));
    await server.start();
    expect(await settled).toMatchObject({ ok: true, state: "posted", cost: usd("1") });
    expect(await proxy.hold(holdOf("c", usd("1")))).toMatchObject({ ok: true });

    await using reader = connect(at, { applicationName: "a look", max: 1, statementMs: null });
    const processes = await reader.rows<{ pid: number }>(
      "select pid from pg_stat_activity where application_name = 'a proxy under test'",
    );
    for (const { pid } of processes) process.kill(pid, "SIGSTOP");
    try {
      expect(await proxy.hold(holdOf("d", usd("1")))).toEqual({ ok: false, reason: "unavailable" });
    } finally {
      for (const { pid } of processes) process.kill(pid, "SIGCONT");
    }
    await proxy.post("c", posting(1_000_000, 0));
    await proxy.queue.close();
    expect(await reader.rows("select id from charges where state = 'pending'")).toEqual([]);
    expect(await differencesIn(reader)).toEqual([]);
  });
});

/** Returns the statements that a proxy sends during the work, without heartbeats. */
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
