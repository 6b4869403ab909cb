import { describe, expect, it } from "vitest";
import { budgetAlerts } from "../../src/core/alerts.ts";
import type { AccountSample } from "../../src/core/account.ts";
import {
  parseScope,
  type Caller,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  sessionScope,
  teamScope,
} from "../../src/core/scope.ts";
import { costOf } from "../../src/core/cost.ts";
import { picoUsdMax, usd, type PicoUsd } from "../../src/core/money.ts";
import { canonicalPrice } from "../../src/core/price.ts";
import { markKeptMs, markMs } from "../../src/core/slices.ts";
import { writtenKeptMs, type HoldResult } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/ports/store.ts";
import { contentId } from "../../src/wire/content-id.ts";
import {
  alice,
  assumed,
  bob,
  budget,
  endAt,
  holdOf,
  leasingKind,
  ledgerKinds,
  noon,
  onPostgres,
  posting,
  price,
  priceId,
  taskOf,
  tokens,
  type LedgerKind,
} from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;

/** Opens a store; disposing of it also disposes of its home. */
async function opened(kind: LedgerKind): Promise<Store> {
  const home = kind.newHome(manualClock(noon));
  const store = await home.open();
  return {
    ...store,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

async function sums({ ledger }: Store, at = noon) {
  return (await ledger.windows(at)).map(({ budget, subject, spent, held }) => ({
    id: budget.id,
    subject,
    spent,
    held,
  }));
}

const clean = { differences: [] };

describe.each(onPostgres ? [...ledgerKinds, leasingKind] : ledgerKinds)("the ledger: $name", (kind) => {
  it("admits one of two holds that together exceed the limit", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
    const results = await Promise.all([ledger.hold(holdOf("a", usd("0.60"))), ledger.hold(holdOf("b", usd("0.60")))]);
    expect(results[0]).toMatchObject({ ok: true, room: usd("0.40") });
    expect(results[1]).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.60"), exhausted: false },
    });
    expect(await ledger.hold(holdOf("c", usd("1.01")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect(await ledger.hold(holdOf("d", usd("0.40")))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("stays within the limit under 500 holds at once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "37"), noon);
    const results = await Promise.all(Array.from({ length: 500 }, (_, n) => ledger.hold(holdOf(`h${n}`, usd("1")))));
    expect(results.filter(({ ok }) => ok)).toHaveLength(37);
    expect(await sums(store)).toEqual([{ id: "all/1d", subject: "", spent: 0n, held: usd("37") }]);
    expect(await ledger.pending()).toEqual({ count: 37, oldestAt: noon });
  });

  it("states in each refusal the amount held at that moment, even for holds that arrive together", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
    const amounts = ["2", "3", "0.40", "2", "0.60", "2"];
    const results = await Promise.all(amounts.map((amount, n) => ledger.hold(holdOf(`h${n}`, usd(amount)))));
    expect(results.map((result) => ("shortage" in result ? result.shortage.window.held : result.ok))).toEqual([
      0n,
      0n,
      true,
      usd("0.40"),
      true,
      usd("1"),
    ]);
    expect(results[1]).toMatchObject({ shortage: { needed: usd("3"), exhausted: true } });
    await ledger.void("h2", "left", endAt(noon));
    expect(results[5]).toMatchObject({ shortage: { window: { held: usd("1") } } });
  });

  it("limits a key's requests of one session, and no others", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const inOne = { tags: { session: "run_one" } };
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "10"), noon);
    expect(await ledger.hold(holdOf("a", usd("0.60"), inOne))).toMatchObject({ ok: true, room: usd("0.40") });
    expect(await ledger.hold(holdOf("b", usd("0.60"), inOne))).toMatchObject({ ok: false, reason: "no_room" });
    const elsewhere = { tags: { session: "run_two" } };
    expect(await ledger.hold(holdOf("c", usd("2"), elsewhere))).toMatchObject({ ok: true, room: usd("7.40") });
    expect(await ledger.hold(holdOf("d", usd("2"), { caller: bob, ...inOne }))).toMatchObject({ ok: true, room: null });
    expect(await ledger.hold(holdOf("e", usd("2")))).toMatchObject({ ok: true, room: usd("5.40") });
    await ledger.post("a", posting(1000, 1000), endAt(noon));
    await ledger.adjust("a", { id: "a-fix", at: noon, amount: usd("0.1"), why: "bill", by: "root" });
    const spent = ((await ledger.charge("a"))?.cost ?? 0n) + usd("0.1");
    const id = "key:k-alice tag:session=run_one/total";
    expect((await sums(store))[0]).toEqual({ id, subject: "", spent, held: 0n });
    const inSession = await ledger.windowsOf({ ...alice, tags: { session: "run_one" } }, noon);
    expect(inSession.map((window) => window.budget.id)).toEqual([id, "key:k-alice/total"]);
    expect((await ledger.windowsOf(alice, noon)).map((window) => window.budget.id)).toEqual(["key:k-alice/total"]);
    expect(await ledger.verify()).toMatchObject(clean);
    expect(await ledger.removeBudget("key:k-alice tag:session=run_one", "total", noon)).toBe(true);
    expect(await ledger.hold(holdOf("f", usd("2"), inOne))).toMatchObject({ ok: true });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("builds a session's window from existing charges", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const tags = { session: "run_one", feature: "a b" };
    for (const id of ["posted", "held"]) await ledger.hold(holdOf(id, usd("1"), { tags }));
    await ledger.hold(holdOf("other", usd("1"), { tags: { feature: "run_one" } }));
    await ledger.post("posted", posting(1000, 1000), endAt(noon));
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "5"), noon);
    const spent = (await ledger.charge("posted"))?.cost;
    expect(await sums(store)).toMatchObject([{ spent, held: usd("1") }]);
    await ledger.void("held", "left", endAt(noon));
    expect(await sums(store)).toMatchObject([{ spent, held: 0n }]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("stays within a session's limit under 100 holds at once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(sessionScope("k-alice", "run_one"), "total", "7"), noon);
    const tags = { session: "run_one" };
    const holds = Array.from({ length: 100 }, (_, n) => ledger.hold(holdOf(`h${n}`, usd("1"), { tags })));
    expect((await Promise.all(holds)).filter(({ ok }) => ok)).toHaveLength(7);
    expect(await sums(store)).toMatchObject([{ spent: 0n, held: usd("7") }]);
  });

  it("stores rare details of charges, reports amounts in doubt, and finds a charge for fewer tokens than were delivered", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "10"), noon);
    for (const id of ["plain", "served", "below", "held", "short"]) await ledger.hold(holdOf(id, usd("1")));
    const version = {
      ...price,
      model: "model-b",
      tiers: [{ ...price.tiers[0], charged: price.tiers[0].list }] as const,
    };
    const servedPrice = { id: contentId(canonicalPrice(version)), canonical: canonicalPrice(version), version };
    const doubts = ["served_model", "service_tier"] as const;
    const served = {
      ...posting(1000, 1000),
      cost: costOf(version, tokens(1000, 1000)).charged,
      servedPrice,
      doubts,
      billing: { serviceTier: "priority", calls: { web_search_call: 2 } },
    };
    const delivered = { input: 1000, output: 900 };
    await ledger.post("plain", posting(1000, 1000), endAt(noon));
    await ledger.post("served", served, endAt(noon));
    await ledger.post("below", { ...posting(1000, 1000), source: "counted", delivered }, endAt(noon));
    await ledger.post("held", { ...assumed(usd("0")), doubts: ["task_consumption"] }, endAt(noon));
    await ledger.post(
      "short",
      { ...posting(1000, 1000), source: "counted", delivered: { input: 1000, output: 1001 } },
      endAt(noon),
    );
    expect(await ledger.charge("served")).toMatchObject({
      servedPriceId: servedPrice.id,
      doubts,
      inDoubt: served.cost,
      billing: served.billing,
      delivered: null,
    });
    expect(await ledger.charge("below")).toMatchObject({
      servedPriceId: null,
      doubts: [],
      billing: { serviceTier: null, calls: {} },
      delivered,
    });
    expect(await ledger.charge("held")).toMatchObject({
      cost: usd("1"),
      doubts: ["task_consumption"],
      inDoubt: usd("1"),
    });
    expect(await ledger.price(servedPrice.id)).toEqual(version);
    const inDoubt = served.cost + usd("1");
    for (const by of [["day"], ["hour"], ["tag:feature"]] as const) {
      const rows = await ledger.report({ by, since: noon - 86_400_000, until: noon + 86_400_000 });
      expect(rows.reduce((sum, row) => sum + row.inDoubt, 0n)).toBe(inDoubt);
    }
    expect((await ledger.verify()).differences).toMatchObject([
      { kind: "charge", id: "short", expected: expect.stringContaining("for the delivered tokens") },
    ]);
  });

  it("stores a request's user, labels and models, and then the model that answered", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const caller = { ...alice, user: "u 1%", labels: { env: "prod" } };
    const models = ["gpt-5", "gpt-4o"];
    for (const id of ["a", "b", "c"]) await ledger.hold(holdOf(id, usd("1"), { caller, models }));
    const counted = { user: "u 1%", labels: { env: "prod" } };
    expect(await ledger.charge("a")).toMatchObject({ ...counted, models });
    await ledger.post("a", { ...posting(1000, 1000), answered: "gpt-4o" }, endAt(noon));
    expect(await ledger.charge("a")).toMatchObject({ ...counted, models: ["gpt-4o"] });
    await ledger.post("b", posting(1000, 1000), endAt(noon));
    expect(await ledger.charge("b")).toMatchObject({ ...counted, models: ["gpt-5"] });
    await ledger.void("c", "refused", endAt(noon));
    expect(await ledger.charge("c")).toMatchObject({ models: ["gpt-5"] });
    await ledger.adjust("a", { id: "a-fix", at: noon, amount: usd("0.1"), why: "bill", by: "root" });
    expect(await ledger.charge("a-fix")).toMatchObject({ ...counted, models: ["gpt-4o"] });
    expect(await ledger.verify()).toEqual({ charges: 4, differences: [] });
    expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([{ requests: 2 }]);
  });

  it("moves a hold to spent when it is posted, and answers a repeat with the first result", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(teamScope("red"), "1mo", "10"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    expect(await ledger.post("a", posting(100_000, 25_000), endAt(noon + 5))).toEqual({
      ok: true,
      first: true,
      state: "posted",
      cost: usd("0.2"),
      overage: 0n,
    });
    expect(await ledger.post("a", posting(9, 9), endAt(noon + 9))).toEqual({
      ok: true,
      first: false,
      state: "posted",
      cost: usd("0.2"),
      overage: 0n,
    });
    expect(await ledger.void("a", "late", endAt(noon + 9))).toMatchObject({ first: false, state: "posted" });
    expect(await sums(store)).toEqual([{ id: "team:red/1mo", subject: "", spent: usd("0.2"), held: 0n }]);
    expect(await ledger.charge("a")).toEqual({
      adjusts: null,
      adjustedBy: null,
      consumption: null,
      id: "a",
      kind: "request",
      state: "posted",
      at: noon,
      endedAt: noon + 5,
      key: "k-alice",
      team: "red",
      route: "chat",
      model: "model-a",
      servedModel: "model-a-1",
      group: "general",
      stream: false,
      priceId,
      hold: usd("1"),
      basis: null,
      cost: usd("0.2"),
      listCost: usd("0.4"),
      overage: 0n,
      formula: "tokens",
      source: "reported",
      minimumApplied: false,
      clamped: false,
      tokens: posting(100_000, 25_000).tokens,
      status: 200,
      reason: null,
      gatewayRequestId: "gw-1",
      durationMs: 12.5,
      firstTokenMs: 3,
      tags: {},
      user: null,
      labels: {},
      models: ["model-a"],
      retry: 0,
      servedPriceId: null,
      billing: { serviceTier: null, calls: {} },
      doubts: [],
      inDoubt: 0n,
      delivered: null,
    });
    expect(await ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it("stores the basis of a hold: the worst case, or the slice under a hard budget", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const basis = { by: "output_cap", outputTokens: 3000, outputCap: 1000, fitted: null };
    const growing = { firstSlice: usd("0.3"), sliceTokens: 64 };
    await ledger.hold(holdOf("a", usd("1"), { basis }));
    await ledger.hold(
      holdOf("b", usd("1"), { basis: { by: "model", outputTokens: null, outputCap: null, fitted: 7 } }),
    );
    await ledger.setBudget(budget(everyRequest, "1d", "9", "soft"), noon);
    await ledger.hold(holdOf("c", usd("1"), { basis, ...growing }));
    await ledger.setBudget(budget(everyRequest, "1d", "9"), noon);
    await ledger.hold(holdOf("d", usd("1"), { basis, ...growing }));
    await ledger.post("d", posting(1, 1), endAt(noon));
    const bases = await Promise.all(["a", "b", "c", "d"].map(async (id) => (await ledger.charge(id))?.basis));
    expect(bases).toEqual([
      basis,
      { by: "model", outputTokens: null, outputCap: null, fitted: 7 },
      basis,
      { ...basis, by: "slice", outputTokens: 64 },
    ]);
  });

  it("stores the first value written for an idempotency key, for two days", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const written = (key: string, value: string | null, at = noon) => ledger.writtenFor(key, value, at);
    expect(await written("k", null)).toEqual({ ok: true, written: null });
    expect(await written("k", "one")).toEqual({ ok: true, written: "one" });
    expect(await written("k", "two")).toEqual({ ok: true, written: "one" });
    expect(await written("k", null)).toEqual({ ok: true, written: "one" });
    expect(await written("other", "two")).toEqual({ ok: true, written: "two" });
    expect(await written("third", "three", noon + writtenKeptMs)).toEqual({ ok: true, written: "three" });
    expect(await written("k", null)).toEqual({ ok: true, written: "one" });
    await written("fourth", "four", noon + writtenKeptMs + 1);
    expect(await written("k", "five")).toEqual({ ok: true, written: "five" });
    const both = await Promise.all([written("race", "a"), written("race", "b")]);
    expect(both).toEqual([both[0], both[0]]);
  });

  it("marks a model whose streams came in bursts: for the key, and after a second key's burst for all keys", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const saw = async (key: string, kindSeen: "live" | "burst", at = noon, model = "m") => {
      const result = await ledger.burstMarks({ key, model, kind: kindSeen }, at);
      return result.ok ? result.marks.map((mark) => `${mark.key} ${mark.model} ${mark.at - noon} ${mark.live}`) : [];
    };
    expect(await ledger.burstMarks(null, noon)).toEqual({ ok: true, marks: [] });
    expect(await saw("a", "live")).toEqual([]);
    expect(await saw("a", "burst")).toEqual(["a m 0 0"]);
    expect(await saw("b", "burst", noon, "other")).toEqual(["a m 0 0", "b other 0 0"]);
    expect(await saw("b", "burst", noon + 5)).toEqual(["* m 5 0", "a m 0 0", "b m 5 0", "b other 0 0"]);
    expect(await ledger.burstMarks(null, noon)).toEqual({
      ok: true,
      marks: [
        { key: "*", model: "m", at: noon + 5, live: 0 },
        { key: "a", model: "m", at: noon, live: 0 },
        { key: "b", model: "m", at: noon + 5, live: 0 },
        { key: "b", model: "other", at: noon, live: 0 },
      ],
    });
    await saw("b", "live", noon + 6);
    await saw("b", "live", noon + 7);
    expect(await saw("b", "live", noon + markMs + 5)).toEqual(["a m 0 0", "b other 0 0"]);
    expect(await saw("c", "burst", noon + markKeptMs + 1)).toEqual(["c m 2592000001 0"]);
    const raced = await Promise.all([saw("x", "burst", noon, "race"), saw("y", "burst", noon, "race")]);
    expect(raced.flat()).toContain("* race 0 0");
  });

  it("settles a charge whose names a database cannot store unchanged", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const odd = "a\0b\ud800 \\u0000";
    const results = await Promise.all([
      ledger.hold(holdOf("a", usd("0.1"), { model: odd })),
      ledger.hold(holdOf("b", usd("0.1"))),
    ]);
    expect(results.map(({ ok }) => ok)).toEqual([true, true]);
    const served = { ...endAt(noon), servedModel: odd, gatewayRequestId: odd };
    expect(await ledger.post("a", posting(100_000, 0), served)).toMatchObject({
      ok: true,
      first: true,
      cost: usd("0.1"),
    });
    expect((await ledger.charge("a"))?.servedModel?.endsWith("\\u0000")).toBe(true);
    expect(await ledger.charge("no\0such")).toBeUndefined();
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("counts cost above the hold as overage, even above the limit", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "0.1"), noon);
    await ledger.hold(holdOf("a", usd("0.1"), { tags: { job: "nightly" } }));
    expect(await ledger.post("a", posting(150_000, 0), endAt(noon))).toMatchObject({
      cost: usd("0.15"),
      overage: usd("0.05"),
    });
    expect(await sums(store)).toEqual([{ id: "all/total", subject: "", spent: usd("0.15"), held: 0n }]);
    expect(await ledger.hold(holdOf("b", usd("0")))).toMatchObject({ ok: false, shortage: { exhausted: true } });
    expect((await ledger.charge("a"))?.tags).toEqual({ job: "nightly" });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("releases the whole amount of a voided hold", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1h", "1"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    expect(await ledger.void("a", "gateway_400", endAt(noon))).toEqual({
      ok: true,
      first: true,
      state: "voided",
      cost: null,
      overage: 0n,
    });
    expect(await sums(store)).toEqual([{ id: "all/1h", subject: "", spent: 0n, held: 0n }]);
    expect(await ledger.post("a", posting(1, 1), endAt(noon))).toEqual({
      ok: true,
      first: false,
      state: "voided",
      cost: null,
      overage: 0n,
    });
    expect(await ledger.void("stranger", "x", endAt(noon))).toEqual({ ok: false, reason: "no_such_charge" });
    expect(await ledger.charge("a")).toMatchObject({
      state: "voided",
      reason: "gateway_400",
      cost: null,
      hold: usd("1"),
    });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("states the smallest remaining amount of all hard budgets, and of those that limit the key", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    await ledger.setBudget(budget(eachKeyScope(), "total", "5"), noon);
    await ledger.setBudget(budget(keyScope(alice.key), "1d", "0.1", "soft"), noon);
    const first = { ok: true, room: usd("0.7"), keyRoom: usd("4.7") };
    expect(await ledger.hold(holdOf("a", usd("0.3")))).toEqual(first);
    expect(await ledger.hold(holdOf("b", usd("0.2"), { caller: bob }))).toEqual({
      ok: true,
      room: usd("0.5"),
      keyRoom: usd("4.8"),
    });
    const keyless = holdOf("c", usd("0.1"), { caller: { key: "", team: null } });
    expect(await ledger.hold(keyless)).toEqual({ ok: true, room: usd("0.4"), keyRoom: null });
    await ledger.setBudget(budget(keyScope(alice.key), "1d", "0.7"), noon);
    expect(await ledger.hold(holdOf("d", usd("0.1")))).toEqual({ ok: true, room: usd("0.3"), keyRoom: usd("0.3") });
  });

  it("counts repeated holds of one id once", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const results = await Promise.all([1, 2, 3].map(() => ledger.hold(holdOf("a", usd("0.7")))));
    expect(results).toEqual([1, 2, 3].map((): HoldResult => ({ ok: true, room: usd("0.3"), keyRoom: null })));
    await ledger.post("a", posting(1000, 0), endAt(noon));
    expect(await ledger.hold(holdOf("a", usd("0.7")))).toMatchObject({ ok: true });
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.001"), held: 0n });
  });

  it("extends a hold by at most the remaining amount, and not at all if that is below the minimum", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    await ledger.hold(holdOf("a", usd("0.5")));
    expect(await ledger.extend("a", usd("0.2"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.2") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.3") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.1") },
    });
    expect(await ledger.extend("b", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: false, reason: "not_pending" });
    expect((await ledger.charge("a"))?.hold).toBe(usd("1"));
    // The cost of an assumed charge is its hold in the ledger.
    expect(await ledger.post("a", assumed(usd("0.5")), endAt(noon))).toMatchObject({ cost: usd("1"), overage: 0n });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), noon)).toEqual({ ok: false, reason: "not_pending" });
    expect((await sums(store))[0]).toMatchObject({ spent: usd("1"), held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("holds the first slice of a growing hold under a hard budget, and otherwise the whole", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const growing = (id: string) => holdOf(id, usd("5"), { firstSlice: usd("0.3") });
    await ledger.setBudget(budget(everyRequest, "1d", "1", "soft"), noon);
    expect(await ledger.hold(growing("a"))).toMatchObject({ ok: true, room: null });
    expect((await ledger.charge("a"))?.hold).toBe(usd("5"));
    await ledger.setBudget(budget(everyRequest, "total", "5.5"), noon);
    expect(await ledger.hold(growing("b"))).toMatchObject({ ok: true, room: usd("0.2") });
    expect((await ledger.charge("b"))?.hold).toBe(usd("0.3"));
    expect(await ledger.hold(growing("c"))).toMatchObject({
      ok: false,
      reason: "no_room",
      shortage: { needed: usd("0.3"), exhausted: false },
    });
    expect(await ledger.extend("b", usd("4.7"), usd("0.1"), noon)).toEqual({ ok: true, granted: usd("0.2") });
    expect(await ledger.post("b", assumed(usd("0.3")), endAt(noon))).toMatchObject({ cost: usd("0.5") });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("adds exactly the amount of a raise to the limit, and only in the raised window", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    await ledger.setBudget(budget(everyRequest, "1w", "2"), noon);
    const midnight = noon + 12 * hourMs;
    const raise = { scope: "all", period: "1d", subject: "", amount: usd("0.5"), from: noon - 12 * hourMs };
    expect(await ledger.hold(holdOf("a", usd("1.1")))).toMatchObject({ ok: false, reason: "no_room" });
    const given = { ...raise, until: midnight, why: "release day" };
    expect(await ledger.raiseBudget(given, noon)).toMatchObject({
      ok: true,
      budget: { id: "all/1d", limit: usd("1") },
    });
    expect(await ledger.hold(holdOf("a", usd("1.1")))).toMatchObject({ ok: true, room: usd("0.4") });
    expect(await ledger.hold(holdOf("b", usd("0.5")))).toMatchObject({
      ok: false,
      shortage: { exhausted: false, window: { held: usd("1.1"), raises: [{ amount: usd("0.5"), until: midnight }] } },
    });
    expect(await ledger.hold(holdOf("b", usd("0.41")))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("b", usd("0.4")))).toMatchObject({ ok: true, room: 0n });
    await ledger.void("a", "left", endAt(noon));
    expect(await ledger.hold(holdOf("c", usd("1.01"), { at: midnight }))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("c", usd("1"), { at: midnight }))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.hold(holdOf("d", usd("1.01"), { at: noon - 13 * hourMs }))).toMatchObject({ ok: false });
    const [day, week] = await ledger.windows(noon);
    expect([day?.raises, week?.raises]).toEqual([[{ amount: usd("0.5"), from: raise.from, until: midnight }], []]);
    expect(await ledger.windowsOf(alice, noon)).toEqual([day, week]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("ends a raise at its end time, for holds and extensions", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "total", "1"), noon);
    const raise = { scope: "all", period: "total", subject: "", amount: usd("1"), from: 0, why: "a demo" };
    await ledger.raiseBudget({ ...raise, until: noon + hourMs }, noon);
    await ledger.hold(holdOf("a", usd("0.9"), { at: noon + hourMs - 1 }));
    expect(await ledger.hold(holdOf("b", usd("0.2"), { at: noon + hourMs - 1 }))).toMatchObject({ room: usd("0.9") });
    expect(await ledger.hold(holdOf("c", usd("0.1"), { at: noon + hourMs }))).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("0.1"), usd("0.1"), noon + hourMs)).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("2"), usd("0.1"), noon + hourMs - 1)).toEqual({
      ok: true,
      granted: usd("0.9"),
    });
    await ledger.void("a", "left", endAt(noon + hourMs));
    expect(await ledger.hold(holdOf("c", usd("0.8"), { at: noon + hourMs }))).toMatchObject({ ok: true, room: 0n });
    await ledger.raiseBudget({ ...raise, amount: usd("3"), until: null }, noon + hourMs);
    expect(await ledger.hold(holdOf("d", usd("3"), { at: noon + 1e6 * hourMs }))).toMatchObject({ ok: true, room: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("refuses an unbounded hold that an unknown model may answer, under a hard budget on models", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const scopeOf = (text: string) => parseScope(text) ?? everyRequest;
    await ledger.setBudget(budget(scopeOf("key:k-alice model:gpt-5*"), "1d", "1"), noon);
    await ledger.setBudget(budget(scopeOf("key:k-bob model:gpt-5*"), "1d", "1", "soft"), noon);
    const unknown = { models: ["GPT-5"], anyModel: true, bounded: false } as const;
    const notBounded = { ok: false, reason: "not_bounded" };
    expect(await ledger.hold(holdOf("a", null, unknown))).toEqual(notBounded);
    expect(await ledger.hold(holdOf("a", usd("1"), unknown))).toEqual(notBounded);
    const answers = await Promise.all([
      ledger.hold(holdOf("b", null, { ...unknown, caller: bob })),
      ledger.hold(holdOf("c", null, { ...unknown, models: ["o3"], anyModel: false })),
      ledger.hold(holdOf("d", usd("1"), { ...unknown, bounded: true })),
      ledger.hold(holdOf("e", null, unknown)),
    ]);
    expect(answers.map(({ ok }) => ok)).toEqual([true, true, true, false]);
    // A budget that is set later does not make a repeated hold fail.
    await ledger.setBudget(budget(scopeOf("key:k-bob model:gpt-5*"), "1d", "1"), noon);
    expect(await ledger.hold(holdOf("b", null, { ...unknown, caller: bob }))).toMatchObject({ ok: true });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("states whether a hard budget may apply if a part of the request that is still to arrive names another model", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const limited = parseScope("key:k-alice model:gpt-5*") ?? everyRequest;
    await ledger.setBudget(budget(limited, "1d", "1"), noon);
    const open = { models: ["o3"], isOpen: true };
    const limits = { ok: true, limitsModels: true };
    expect(await ledger.hold(holdOf("a", usd("9"), open))).toMatchObject(limits);
    expect(await ledger.hold(holdOf("a", usd("9"), open))).toMatchObject(limits);
    expect(await ledger.hold(holdOf("b", usd("9"), { ...open, caller: bob }))).not.toHaveProperty("limitsModels");
    expect(await ledger.hold(holdOf("c", usd("9"), { models: ["o3"] }))).not.toHaveProperty("limitsModels");
  });

  it("extends a hold by the raises of its own windows, even after those windows end", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const midnight = noon + 12 * hourMs;
    const late = { at: midnight - 1000 };
    const next = midnight + 5000;
    await ledger.setBudget(budget(keyScope("k-alice"), "1d", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-bob"), "1d", "1"), noon);
    const raise = { period: "1d", subject: "", amount: usd("5"), why: "a demo" } as const;
    const today = { from: midnight - 24 * hourMs, until: midnight };
    const tomorrow = { from: midnight, until: midnight + 24 * hourMs };
    expect(await ledger.hold(holdOf("a", usd("1"), late))).toMatchObject({ ok: true, room: 0n });
    await ledger.raiseBudget({ ...raise, ...tomorrow, scope: "key:k-alice" }, next);
    expect(await ledger.extend("a", usd("3"), usd("0.1"), next)).toMatchObject({
      ok: false,
      shortage: { window: { start: today.from, held: usd("1"), raises: [] } },
    });
    await ledger.raiseBudget({ ...raise, ...today, scope: "key:k-bob" }, noon);
    expect(await ledger.hold(holdOf("b", usd("2"), { ...late, caller: bob }))).toMatchObject({ room: usd("4") });
    expect(await ledger.extend("b", usd("1"), usd("1"), midnight - 500)).toEqual({ ok: true, granted: usd("1") });
    // Batched with an admission of the next day, whose window has no raise.
    const [extended, held] = await Promise.all([
      ledger.extend("b", usd("9"), usd("1"), next),
      ledger.hold(holdOf("c", usd("1.01"), { at: next, caller: bob })),
    ]);
    expect(extended).toEqual({ ok: true, granted: usd("3") });
    expect(held).toMatchObject({ ok: false, shortage: { window: { start: midnight, raises: [] } } });
    expect(await ledger.extend("b", usd("1"), usd("1"), next)).toMatchObject({
      ok: false,
      shortage: { window: { start: today.from, raises: [{ amount: usd("5"), until: midnight }] } },
    });
    // The clock was set back to the previous day.
    await ledger.setBudget(budget(everyRequest, "1d", "1"), next);
    await ledger.raiseBudget({ ...raise, ...today, scope: "all" }, noon);
    expect(
      await ledger.hold(holdOf("d", usd("1"), { at: next, caller: { key: "k-carol", team: null } })),
    ).toMatchObject({ room: 0n });
    expect(await ledger.extend("d", usd("1"), usd("0.1"), noon)).toMatchObject({ ok: false });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("does not extend a hold by a raise that ended before the hold's window did", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const midnight = noon + 12 * hourMs;
    await ledger.setBudget(budget(everyRequest, "1d", "1"), noon);
    const raise = {
      scope: "all",
      period: "1d",
      subject: "",
      amount: usd("1"),
      from: noon - 12 * hourMs,
      why: "a demo",
    };
    await ledger.raiseBudget({ ...raise, until: noon + hourMs }, noon);
    expect(await ledger.hold(holdOf("a", usd("0.9")))).toMatchObject({ room: usd("1.1") });
    expect(await ledger.extend("a", usd("0.5"), usd("0.2"), midnight + 1)).toMatchObject({ ok: false });
    expect(await ledger.extend("a", usd("0.5"), usd("0.1"), midnight + 1)).toEqual({ ok: true, granted: usd("0.1") });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("raises an each-key budget for one key, even before that key's first request", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(eachKeyScope(), "1d", "1"), noon);
    const raise = { scope: "each-key", period: "1d", subject: "k-alice", amount: usd("4"), from: noon - 12 * hourMs };
    const given = { ...raise, until: noon + 12 * hourMs, why: "an evaluation" };
    expect(await ledger.raiseBudget({ ...given, scope: "all" }, noon)).toEqual({ ok: false, reason: "no_such_budget" });
    const tooMuch = { ...given, amount: (picoUsdMax - usd("0.5")) as PicoUsd };
    expect(await ledger.raiseBudget(tooMuch, noon)).toEqual({ ok: false, reason: "too_large" });
    expect(await ledger.raiseBudget(given, noon, "root")).toMatchObject({ ok: true });
    const large = usd("1.01");
    expect(await ledger.hold(holdOf("b", large, { caller: bob }))).toMatchObject({ ok: false });
    expect(await ledger.hold(holdOf("a", large))).toMatchObject({ ok: true, keyRoom: usd("3.99") });
    const { entries } = await store.audit.entries({ limit: 1 });
    expect(entries).toMatchObject([
      {
        at: noon,
        by: "root",
        action: "budgets.raise",
        object: "budget:each-key/1d",
        before: null,
        after: {
          limit_usd: "1.00",
          subject: "key=k-alice",
          amount_usd: "4.00",
          until: "2026-11-21T00:00:00.000Z",
          why: "an evaluation",
        },
      },
    ]);
  });

  it("keeps raises when a budget changes or the ledger reopens, and removes them with the budget", async () => {
    const home = kind.newHome(manualClock(noon));
    await using _ = home;
    {
      await using store = await home.open();
      await store.ledger.setBudget(budget(keyScope("k-alice"), "total", "1"), noon);
      const raise = { scope: "key:k-alice", period: "total", subject: "", amount: usd("1"), from: 0, until: null };
      await store.ledger.raiseBudget({ ...raise, why: "paid" }, noon);
      expect(await store.ledger.hold(holdOf("a", usd("1.5")))).toMatchObject({ ok: true });
    }
    await using store = await home.open();
    const { ledger } = store;
    expect(await ledger.hold(holdOf("b", usd("0.51")))).toMatchObject({ ok: false });
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "3"), noon);
    expect(await ledger.hold(holdOf("c", usd("2.5")))).toMatchObject({ ok: true, room: 0n });
    await ledger.removeBudget("key:k-alice", "total", noon);
    await ledger.setBudget(budget(keyScope("k-alice"), "total", "4"), noon);
    expect(await ledger.hold(holdOf("d", usd("0.01")))).toMatchObject({ ok: false });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("limits how many users a key may name for the first time on a day", async () => {
    await using home = kind.newHome(manualClock(noon), { subjectsMax: 3 });
    const hold = (store: Store, id: string, user: string | null, more: { at?: number; caller?: Caller } = {}) =>
      store.ledger.hold(holdOf(id, usd("0.1"), { ...more, caller: { ...(more.caller ?? alice), user } }));
    const tooMany = { ok: false, reason: "too_many_subjects" };
    {
      await using store = await home.open();
      await hold(store, "before", "u0");
      for (const scope of ["each-user", "each-key each-user"])
        await store.ledger.setBudget(budget(parseScope(scope) as Scope, "1h", "1", "soft"), noon);
      // A user of a charge from before the budget is known; a user without a budget does not count.
      expect(await hold(store, "known", "u0")).toMatchObject({ ok: true });
      expect(await hold(store, "a", "u1")).toMatchObject({ ok: true });
      expect(await hold(store, "b", "u2")).toEqual(tooMany);
      expect(await hold(store, "b", "u2", { caller: bob })).toMatchObject({ ok: true });
      expect((await store.ledger.windows(noon)).map(({ subject }) => subject)).not.toContain("k-alice u2");
    }
    await using store = await home.open();
    expect(await hold(store, "c", "u3")).toEqual(tooMany);
    // Neither another hour of a known user nor a repeated hold is new.
    expect(await hold(store, "d", "u1", { at: noon + hourMs })).toMatchObject({ ok: true });
    expect(await hold(store, "a", "u1")).toMatchObject({ ok: true });
    expect(await hold(store, "e", "u3", { at: noon + 24 * hourMs })).toMatchObject({ ok: true });
    expect(await hold(store, "f", "u4", { at: noon })).toEqual(tooMany);
    expect(await store.ledger.verify()).toMatchObject(clean);
  });

  it("opens no windows for unbounded requests of made-up models, and only a few for those above the limit", async () => {
    await using home = kind.newHome(manualClock(noon), { subjectsMax: 3 });
    await using store = await home.open();
    const { ledger } = store;
    const hold = (id: string, amount: PicoUsd | null, bounded = true) =>
      ledger.hold(holdOf(id, amount, { models: [`made-up-${id}`], bounded }));
    expect(await hold("early", null)).toMatchObject({ ok: true });
    await ledger.setBudget(budget(parseScope("key:k-alice each-model") as Scope, "1d", "1"), noon);
    const windows = async () => (await ledger.windows(noon)).map(({ subject }) => subject);
    expect(await windows()).toEqual(["made-up-early"]);
    const notBounded = { ok: false, reason: "not_bounded" };
    for (let index = 0; index < 6; index++) {
      expect(await hold(`m${index}`, null)).toEqual(notBounded);
      expect(await hold(`n${index}`, usd("0.1"), false)).toEqual(notBounded);
    }
    expect(await hold("early", null)).toEqual({ ok: true, room: null, keyRoom: null });
    expect(await windows()).toEqual(["made-up-early"]);
    for (let index = 0; index < 6; index++)
      expect(await hold(`r${index}`, usd("2"))).toMatchObject({ reason: index < 3 ? "no_room" : "too_many_subjects" });
    expect(await hold("last", null)).toEqual(notBounded);
    expect(await windows()).toHaveLength(4);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("refuses unbounded holds only under a hard budget", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "1", "soft"), noon);
    expect(await ledger.hold(holdOf("a", null))).toMatchObject({ ok: true, room: null });
    expect(await ledger.hold(holdOf("b", usd("5"), { bounded: false }))).toMatchObject({ ok: true, room: null });
    expect(await ledger.extend("a", usd("1"), usd("1"), noon)).toEqual({ ok: true, granted: usd("1") });
    await ledger.setBudget(budget(keyScope("k-alice"), "1d", "100"), noon);
    expect(await ledger.hold(holdOf("c", null))).toEqual({ ok: false, reason: "not_bounded" });
    expect(await ledger.hold(holdOf("d", usd("1"), { bounded: false }))).toEqual({ ok: false, reason: "not_bounded" });
    expect(await ledger.hold(holdOf("e", null, { caller: bob }))).toMatchObject({ ok: true, room: null });
    await ledger.post("a", assumed(null), endAt(noon));
    expect(await ledger.charge("a")).toMatchObject({ cost: null, formula: "unpriced", source: "assumed" });
    expect(await ledger.report({ by: [], since: noon, until: noon + 1 })).toMatchObject([
      { requests: 1, unpricedRequests: 1, cost: 0n },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("counts a hold against every budget that applies to its caller, including each-key budgets", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["all", "team:red", "team:blue", "key:k-bob", "each-key", "each-key:red", "each-key:blue"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1w", "9"), noon);
    }
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2"), { caller: bob }));
    await ledger.hold(holdOf("c", usd("4"), { caller: { key: "", team: null } }));
    expect((await sums(store)).map(({ id, subject, held }) => [id, subject, held])).toEqual([
      ["all/1w", "", usd("7")],
      ["team:red/1w", "", usd("3")],
      ["team:blue/1w", "", 0n],
      ["key:k-bob/1w", "", usd("2")],
      ["each-key/1w", "k-alice", usd("1")],
      ["each-key/1w", "k-bob", usd("2")],
      ["team:red each-key/1w", "k-alice", usd("1")],
      ["team:red each-key/1w", "k-bob", usd("2")],
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("shows a caller only the windows that apply to it, even before a hold opens them", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["all", "team:red", "team:blue", "key:k-bob", "each-key", "each-key:red", "each-key:blue"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1d", "9"), noon);
    }
    const seenBy = async (caller: Caller, at = noon) =>
      (await ledger.windowsOf(caller, at)).map(({ budget: { id }, subject, spent, held }) => [
        id,
        subject,
        spent,
        held,
      ]);
    const day = 86_400_000;
    expect(await seenBy(bob)).toEqual([
      ["all/1d", "", 0n, 0n],
      ["team:red/1d", "", 0n, 0n],
      ["key:k-bob/1d", "", 0n, 0n],
      ["each-key/1d", "k-bob", 0n, 0n],
      ["team:red each-key/1d", "k-bob", 0n, 0n],
    ]);
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2"), { caller: bob }));
    await ledger.post("b", posting(500_000, 0), endAt(noon));
    expect(await seenBy(bob)).toEqual([
      ["all/1d", "", usd("0.5"), usd("1")],
      ["team:red/1d", "", usd("0.5"), usd("1")],
      ["key:k-bob/1d", "", usd("0.5"), 0n],
      ["each-key/1d", "k-bob", usd("0.5"), 0n],
      ["team:red each-key/1d", "k-bob", usd("0.5"), 0n],
    ]);
    // A key that moves keeps its own spent amounts; the team that it leaves keeps the team's.
    expect(await seenBy({ key: "k-bob", team: "blue" })).toEqual([
      ["all/1d", "", usd("0.5"), usd("1")],
      ["team:blue/1d", "", 0n, 0n],
      ["key:k-bob/1d", "", usd("0.5"), 0n],
      ["each-key/1d", "k-bob", usd("0.5"), 0n],
      ["team:blue each-key/1d", "k-bob", 0n, 0n],
    ]);
    expect(await seenBy({ key: "", team: null }, noon + day)).toEqual([["all/1d", "", 0n, 0n]]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("charges a moved key's requests in flight to its old team, and later ones to the new team", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const scope of ["team:red", "team:blue", "each-key", "each-key:blue", "key:k-bob"]) {
      const parsed = parseScope(scope);
      if (parsed) await ledger.setBudget(budget(parsed, "1d", "2"), noon);
    }
    await ledger.hold(holdOf("before", usd("1"), { caller: bob }));
    const moved = { key: "k-bob", team: "blue" };
    expect(await ledger.hold(holdOf("after", usd("1"), { caller: moved }))).toMatchObject({ ok: true });
    // The key's own budgets follow it and are used up, although the new team's budget is not.
    const refused = await ledger.hold(holdOf("more", usd("0.5"), { caller: moved }));
    expect(refused).toMatchObject({ ok: false, reason: "no_room", shortage: { exhausted: false } });
    await ledger.post("before", posting(500_000, 0), endAt(noon));
    await ledger.post("after", posting(250_000, 0), endAt(noon));
    expect(await sums(store)).toEqual([
      { id: "team:red/1d", subject: "", spent: usd("0.5"), held: 0n },
      { id: "team:blue/1d", subject: "", spent: usd("0.25"), held: 0n },
      { id: "each-key/1d", subject: "k-bob", spent: usd("0.75"), held: 0n },
      { id: "team:blue each-key/1d", subject: "k-bob", spent: usd("0.25"), held: 0n },
      { id: "key:k-bob/1d", subject: "", spent: usd("0.75"), held: 0n },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("builds a new budget's window from existing charges, including pending ones", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.hold(holdOf("b", usd("2")));
    await ledger.post("a", posting(500_000, 0), endAt(noon));
    await ledger.setBudget(budget(eachKeyScope(), "1d", "3"), noon + 10);
    expect(await sums(store)).toEqual([{ id: "each-key/1d", subject: "k-alice", spent: usd("0.5"), held: usd("2") }]);
    await ledger.void("b", "left", endAt(noon));
    expect(await sums(store)).toEqual([{ id: "each-key/1d", subject: "k-alice", spent: usd("0.5"), held: 0n }]);
    const changed = await ledger.setBudget({ ...budget(eachKeyScope(), "1d", "0.6", "soft"), warnPercent: 80 }, noon);
    expect(await ledger.windows(noon)).toMatchObject([
      { budget: { ...changed, mode: "soft", limit: usd("0.6"), warnPercent: 80 }, spent: usd("0.5") },
    ]);
    expect(await ledger.removeBudget("each-key", "1d", noon)).toBe(true);
    expect(await ledger.removeBudget("each-key", "1d", noon)).toBe(false);
    expect(await sums(store)).toEqual([]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps a charge in the window of its admission, whenever it settles and however the clock changes", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(holdOf("early", usd("1"), { at: noon - 10 }));
    await ledger.setBudget(budget(everyRequest, "1h", "5"), noon);
    await ledger.hold(holdOf("a", usd("2"), { at: noon + 1 }));
    await ledger.hold(holdOf("b", usd("3"), { at: noon + hourMs }));
    expect(await ledger.extend("early", usd("0"), usd("0"), noon)).toEqual({ ok: true, granted: 0n });
    // The clock was set back into an hour without a window, in which a charge is pending.
    await ledger.hold(holdOf("c", usd("1"), { at: noon - 5 }));
    expect((await sums(store, noon - 1))[0]).toMatchObject({ spent: 0n, held: usd("2") });
    await ledger.post("early", posting(10, 0), endAt(noon + 2 * hourMs));
    await ledger.post("a", posting(20, 0), endAt(noon + 2 * hourMs));
    expect((await sums(store, noon - 1))[0]).toMatchObject({ spent: usd("0.00001"), held: usd("1") });
    expect((await sums(store, noon))[0]).toMatchObject({ spent: usd("0.00002"), held: 0n });
    expect((await sums(store, noon + hourMs))[0]).toMatchObject({ spent: 0n, held: usd("3") });
    expect((await sums(store, noon + 5 * hourMs))[0]).toMatchObject({ spent: 0n, held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps correct sums of a window that changes alternately with a later one", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1h", "5"), noon);
    await ledger.hold(holdOf("a", usd("2")));
    await ledger.hold(holdOf("b", usd("1"), { at: noon + hourMs }));
    await Promise.all([
      ledger.post("a", posting(10, 0), endAt(noon)),
      ledger.hold(holdOf("c", usd("3"), { at: noon + 9 })),
    ]);
    await Promise.all([ledger.void("b", "left", endAt(noon)), ledger.hold(holdOf("d", usd("1")))]);
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.00001"), held: usd("4") });
    expect((await sums(store, noon + hourMs))[0]).toMatchObject({ spent: 0n, held: 0n });
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("adds a correction as a separate row", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.setBudget(budget(everyRequest, "1d", "5"), noon);
    await ledger.hold(holdOf("a", usd("1")));
    const correction = {
      id: "fix-1",
      at: noon + 3 * 24 * hourMs,
      amount: -usd("0.05") as PicoUsd,
      why: "double billed",
      by: "root",
    };
    expect(await ledger.adjust("nothing", correction)).toBe("no_such_charge");
    expect(await ledger.adjust("a", correction)).toBe("not_posted");
    await ledger.post("a", posting(100_000, 0), endAt(noon));
    expect(await ledger.adjust("a", correction)).toBe("ok");
    expect(await ledger.adjust("a", correction)).toBe("repeated");
    // A correction has the time of its charge, whenever it is made, so that it changes the charge's windows and days.
    expect(await ledger.charge("fix-1")).toMatchObject({
      state: "posted",
      formula: "adjustment",
      cost: -usd("0.05"),
      listCost: null,
      source: "reported",
      reason: "double billed",
      key: "k-alice",
      at: noon,
      endedAt: noon + 3 * 24 * hourMs,
      adjusts: "a",
      adjustedBy: "root",
    });
    const again = (amount: bigint) => ledger.adjust("a", { ...correction, id: "fix-2", amount: amount as PicoUsd });
    expect(await ledger.adjust("fix-1", { ...correction, id: "fix-2" })).toBe("is_adjustment");
    expect(await again(-usd("0.050000000001"))).toBe("below_zero");
    expect(await again(picoUsdMax)).toBe("too_large");
    await ledger.hold(holdOf("v", usd("1")));
    await ledger.void("v", "left", endAt(noon));
    expect(await ledger.adjust("v", { ...correction, id: "fix-2" })).toBe("not_posted");
    expect((await sums(store))[0]).toMatchObject({ spent: usd("0.05") });
    expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
      { dimensions: { model: "model-a" }, requests: 1, cost: usd("0.05"), listCost: usd("0.2") },
    ]);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("posts holds whose owner, the process that placed them, is gone, except those of bound tasks", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.setBudget(budget(everyRequest, "1d", "20"), noon);
      await before.ledger.hold(holdOf("a", usd("1")));
      await before.ledger.hold(holdOf("b", usd("2"), { kind: "task" }));
      await before.tasks.bind(taskOf("b"));
      await before.ledger.hold(holdOf("unbound", usd("8"), { kind: "task" }));
      expect(await before.ledger.recover(noon)).toBe(0);
    }
    await using store = await home.open();
    await store.ledger.hold(holdOf("c", usd("4")));
    expect(await store.ledger.recover(noon + 7)).toBe(2);
    expect(await store.ledger.recover(noon + 7)).toBe(0);
    expect(await store.ledger.charge("unbound")).toMatchObject({
      state: "posted",
      cost: usd("8"),
      source: "assumed",
      reason: "crash",
    });
    expect(await store.ledger.charge("a")).toMatchObject({
      state: "posted",
      cost: usd("1"),
      formula: "assumed",
      source: "assumed",
      reason: "crash",
      endedAt: noon + 7,
    });
    expect(await store.ledger.charge("b")).toMatchObject({ state: "pending" });
    expect(await sums(store)).toEqual([{ id: "all/1d", subject: "", spent: usd("9"), held: usd("6") }]);
    expect(await store.ledger.verify()).toEqual({ charges: 4, differences: [] });
  });

  it("corrects the posted charge of an orphaned hold to a later settlement, once", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.setBudget(budget(everyRequest, "1d", "20"), noon);
      for (const id of ["down", "up", "void", "assumed", "reported"]) await before.ledger.hold(holdOf(id, usd("1")));
      await before.ledger.post("reported", posting(1_000_000, 0), endAt(noon));
    }
    await using store = await home.open();
    expect(await store.ledger.recover(noon + 7)).toBe(4);
    for (let time = 0; time < 2; time++) {
      expect(await store.ledger.post("down", posting(250_000, 0), endAt(noon + 9))).toMatchObject({
        ok: true,
        first: false,
        state: "posted",
        cost: usd("1"),
      });
      await store.ledger.post("up", posting(3_000_000, 0), endAt(noon + 9));
      await store.ledger.void("void", "left", endAt(noon + 9));
      await store.ledger.post("assumed", assumed(usd("1")), endAt(noon + 9));
      await store.ledger.post("reported", posting(2_000_000, 0), endAt(noon + 9));
    }
    expect(await store.ledger.corrections(noon, noon + 100)).toMatchObject(
      [-usd("0.75"), usd("2"), -usd("1")].map((amount) => ({ amount, madeAt: noon + 9 })),
    );
    expect(
      (await store.audit.entries({ limit: 10 })).entries
        .filter(({ action }) => action === "charges.adjust")
        .map(({ by, object }) => [by, object]),
    ).toEqual([
      ["farebox", "charge:void"],
      ["farebox", "charge:up"],
      ["farebox", "charge:down"],
    ]);
    // List costs are twice the costs; an assumed charge claims no saving.
    expect(await store.ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
      { requests: 5, cost: usd("5.25"), listCost: usd("9.5") },
    ]);
    expect(await sums(store)).toMatchObject([{ spent: usd("5.25"), held: 0n }]);
    expect(await store.ledger.verify()).toEqual({ charges: 8, differences: [] });
  });

  it("lists old holds, oldest first, and states whether their owner is gone", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using before = await home.open();
      await before.ledger.hold(holdOf("b", usd("2"), { at: noon - 5, kind: "task" }));
      await before.ledger.hold(holdOf("runs", usd("2"), { at: noon - 6, kind: "task" }));
      await before.tasks.bind(taskOf("runs"));
      await before.ledger.hold(holdOf("a", null, { at: noon - 9 }));
      await before.ledger.hold(holdOf("ended", usd("2"), { at: noon - 7 }));
      await before.ledger.void("ended", "left", endAt(noon));
    }
    await using store = await home.open();
    await store.ledger.hold(holdOf("c", usd("1"), { at: noon }));
    expect(await store.ledger.oldHolds(noon)).toEqual([
      { id: "a", kind: "request", at: noon - 9, key: "k-alice", amount: null, isOrphaned: true },
      { id: "b", kind: "task", at: noon - 5, key: "k-alice", amount: usd("2"), isOrphaned: true },
    ]);
    // A command is not a proxy, so the holds that it places have no owner.
    const isCommand = kind.name === "sqlite in process";
    expect((await store.ledger.oldHolds(noon + 1)).at(-1)).toMatchObject({ id: "c", isOrphaned: isCommand });
  });

  it("pages through charges, newest first", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const [n, caller] of [alice, bob, alice, alice, bob].entries()) {
      await ledger.hold(holdOf(`c${n}`, usd("1"), { caller, at: noon + Math.floor(n / 2) }));
    }
    await ledger.void("c3", "x", endAt(noon));
    const first = await ledger.charges({ limit: 2 });
    expect([first.charges.map(({ id }) => id), first.next]).toEqual([["c4", "c3"], "c3"]);
    const second = await ledger.charges({ limit: 3, after: "c3" });
    expect([second.charges.map(({ id }) => id), second.next]).toEqual([["c2", "c1", "c0"], null]);
    const ids = async (query: object) => (await ledger.charges({ limit: 10, ...query })).charges.map(({ id }) => id);
    expect(await ids({ key: "k-alice", state: "pending" })).toEqual(["c2", "c0"]);
    expect(await ids({ since: noon + 1, until: noon + 2 })).toEqual(["c3", "c2"]);
    expect(await ids({ model: "other" })).toEqual([]);
    expect(await ids({ after: "nothing" })).toEqual([]);
    expect(await ids({ state: "pending", after: "c2" })).toEqual(["c1", "c0"]);
    expect(await ids({ order: "asc", after: "c1", limit: 2 })).toEqual(["c2", "c3"]);
  });

  it("filters charges, and sorts them by cost across pages", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const inputs = [3000, 1000, 3000, 0, 2000, 3000, 1000];
    for (const [n, input] of inputs.entries()) {
      const id = `0000000${n}-request`;
      await ledger.hold(holdOf(id, usd("1"), { caller: n === 6 ? { key: "k-x", team: null } : alice, at: noon + n }));
      const more = { ...(n === 1 && { doubts: ["served_model", "hosted_tool"] as const }) };
      await ledger.post(id, { ...posting(input, 0), ...more }, { ...endAt(noon + n), status: n === 2 ? 429 : 200 });
    }
    await ledger.hold(holdOf("waiting-one", usd("1"), { at: noon + 9 }));
    const found = async (query: object) =>
      (await ledger.charges({ limit: 10, ...query })).charges.map(({ id }) => id.slice(7, 8));
    expect(await found({ team: "red", since: noon + 4 })).toEqual([..."-54"]);
    expect(await found({ without: "team", since: noon + 3 })).toEqual(["6"]);
    for (const none of [{ without: "key" }, { without: "group" }, { group: "other" }])
      expect(await found(none)).toEqual([]);
    expect(await found({ group: "general", without: "team", until: noon + 7 })).toEqual(["6"]);
    expect(await found({ status: [400, 499] })).toEqual(["2"]);
    expect(await found({ source: "assumed" })).toEqual([]);
    expect(await found({ source: "reported", order: "asc", until: noon + 2 })).toEqual([..."01"]);
    expect(await found({ doubt: true })).toEqual(["1"]);
    expect(await found({ doubt: "hosted_tool" })).toEqual(["1"]);
    expect(await found({ doubt: "time_based" })).toEqual([]);
    expect(await found({ minCost: usd("0.002"), maxCost: usd("0.002") })).toEqual(["4"]);
    expect(await found({ maxCost: usd("0.001") })).toEqual([..."631"]);
    expect(await found({ idPrefix: "0000000" })).toEqual([..."6543210"]);
    expect(await found({ idPrefix: "00000003-r" })).toEqual(["3"]);
    expect(await found({ idPrefix: "0000000_" })).toEqual([]);
    expect(await found({ idPrefix: "1" })).toEqual([]);

    // A pending charge and one without cost tie, as do charges of the same cost.
    for (const [order, expected] of [
      ["desc", "520461-3"],
      ["asc", "3-164025"],
    ] as const) {
      const shown: string[] = [];
      let after: string | undefined;
      do {
        const page = await ledger.charges({ sort: "cost", order, limit: 3, ...(after !== undefined && { after }) });
        shown.push(...page.charges.map(({ id }) => id.slice(7, 8)));
        after = page.next ?? undefined;
        expect(page.examinedTo).toBeNull();
      } while (after !== undefined);
      expect(shown.join("")).toBe(expected);
    }
  });

  it("examines at most the given number of charges, and states where it stopped", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    for (const n of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const caller = n % 2 === 0 ? alice : bob;
      await ledger.hold(
        holdOf(`c${n}`, usd("1"), { caller, at: noon + Math.floor(n / 2), model: n < 3 ? "rare" : "b" }),
      );
      await ledger.post(`c${n}`, posting(8000 - 1000 * n, 0), endAt(noon + n));
    }
    const page = async (query: object) => {
      const { charges, next, examinedTo } = await ledger.charges({ limit: 2, examinedMax: 3, ...query });
      return [charges.map(({ id }) => id).join(" "), next, examinedTo === null ? null : examinedTo - noon];
    };
    // By time, each page continues where the previous one stopped.
    expect(await page({ model: "rare" })).toEqual(["", "c5", 2]);
    expect(await page({ model: "rare", after: "c5" })).toEqual(["c2", "c2", 1]);
    expect(await page({ model: "rare", after: "c2" })).toEqual(["c1 c0", null, null]);
    expect(await page({ model: "rare", order: "asc" })).toEqual(["c0 c1", "c1", null]);
    expect(await page({ model: "rare", order: "asc", after: "c1" })).toEqual(["c2", "c4", 2]);
    expect(await page({ model: "rare", key: "k-alice", after: "c6" })).toEqual(["c2 c0", null, null]);
    // A query by key and time alone needs no bound.
    expect(await page({ key: "k-bob", limit: 4 })).toEqual(["c7 c5 c3 c1", null, null]);
    // By cost, only the newest charges are sorted.
    expect(await page({ sort: "cost" })).toEqual(["c5 c6", "c6", 2]);
    expect(await page({ sort: "cost", after: "c6" })).toEqual(["c7", null, 2]);
    expect(await page({ sort: "cost", until: noon + 1 })).toEqual(["c0 c1", null, null]);
    expect(await page({ sort: "cost", key: "k-bob", examinedMax: 2 })).toEqual(["c5 c7", null, 2]);
  });

  it("reports by several dimensions, with the same sums from quarter hours and from days", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open("Europe/Berlin");
    const { ledger } = store;
    const times = [noon - 30 * hourMs, noon - 3, noon, noon + 20 * 60_000, noon + 13 * hourMs, noon + 40 * hourMs];
    for (const [n, at] of times.entries()) {
      await ledger.hold(holdOf(`r${n}`, usd("1"), { at, caller: n % 2 === 0 ? alice : { key: "", team: null } }));
      await ledger.post(`r${n}`, n === 2 ? assumed(usd("1")) : posting(1000, n), endAt(at));
    }
    const rows = await ledger.report({ by: ["day"], since: noon - 40 * hourMs, until: noon + 60 * hourMs });
    expect(rows.map(({ dimensions, requests }) => [dimensions.day, requests])).toEqual([
      ["2026-11-19", 1],
      ["2026-11-20", 3],
      ["2026-11-21", 1],
      ["2026-11-22", 1],
    ]);
    expect(await ledger.report({ by: ["key", "team"], since: noon - 20 * 60_000, until: noon + 60_000 })).toEqual([
      {
        dimensions: { key: null, team: null },
        requests: 1,
        unpricedRequests: 0,
        retries: 0,
        tokens: posting(1000, 1).tokens,
        cost: posting(1000, 1).cost,
        listCost: posting(1000, 1).listCost,
        inDoubt: 0n,
        bySource: { reported: { requests: 1, cost: posting(1000, 1).cost } },
      },
      {
        dimensions: { key: "k-alice", team: "red" },
        requests: 1,
        unpricedRequests: 0,
        retries: 0,
        tokens: posting(0, 0).tokens,
        cost: usd("1"),
        listCost: usd("1"),
        inDoubt: 0n,
        bySource: { assumed: { requests: 1, cost: usd("1") } },
      },
    ]);
    const hours = await ledger.report({ by: ["hour", "group"], since: noon - hourMs, until: noon + hourMs });
    expect(hours.map(({ dimensions, requests }) => [dimensions, requests])).toEqual([
      [{ hour: "2026-11-20T11:00:00.000Z", group: "general" }, 1],
      [{ hour: "2026-11-20T12:00:00.000Z", group: "general" }, 2],
    ]);
    const whole = await ledger.report({ by: [], since: noon - 100 * hourMs, until: noon + 100 * hourMs });
    const byHour = await ledger.report({ by: ["hour"], since: noon - 100 * hourMs, until: noon + 100 * hourMs });
    expect(byHour.reduce((total, { cost }) => total + cost, 0n)).toBe(whole[0]?.cost);
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("counts each posted retry of a client once, whichever attempt it is", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using store = await home.open();
      const { ledger } = store;
      for (const retry of [0, 1, 2, 3, 4]) await ledger.hold(holdOf(`r${retry}`, usd("1"), { retry }));
      for (const retry of [0, 1, 2]) await ledger.post(`r${retry}`, posting(1000, 10), endAt(noon));
      await ledger.void("r3", "gateway_429", endAt(noon));
      await ledger.adjust("r2", { id: "fix", at: noon, amount: usd("0.01"), why: "test", by: "root" });
      expect(await ledger.charge("r2")).toMatchObject({ retry: 2 });
      expect(await ledger.charge("fix")).toMatchObject({ retry: 0 });
      expect(await ledger.report({ by: ["model"], since: noon, until: noon + 1 })).toMatchObject([
        { requests: 3, retries: 2 },
      ]);
    }
    // A hold whose owner is gone is known only by its row.
    await using store = await home.open("America/New_York");
    const { ledger } = store;
    expect((await ledger.pending()).count).toBe(1);
    await ledger.post("r4", posting(1000, 10), endAt(noon));
    for (const by of ["hour", "day"] as const) {
      expect(await ledger.report({ by: [by], since: noon - 24 * hourMs, until: noon + 24 * hourMs })).toMatchObject([
        { requests: 4, retries: 3 },
      ]);
    }
    expect(await ledger.verify()).toMatchObject(clean);
  });

  it("keeps correct sums when the time zone changes", async () => {
    await using home = kind.newHome(manualClock("2026-11-20T23:30:00Z"));
    const at = Date.parse("2026-11-20T23:20:00Z");
    {
      await using utc = await home.open();
      await utc.ledger.setBudget(budget(everyRequest, "1d", "20"), at);
      await utc.ledger.setBudget(budget(eachKeyScope(), "1d", "20"), at);
      await utc.ledger.hold(holdOf("a", usd("1"), { at: at - 3 * hourMs }));
      await utc.ledger.hold(holdOf("b", usd("2"), { at, kind: "task" }));
      await utc.ledger.post("a", posting(1000, 0), endAt(at));
      expect((await sums(utc, at))[0]).toMatchObject({ spent: usd("0.001"), held: usd("2") });
    }
    const berlin = await home.open("Europe/Berlin");
    if (kind.name === "sqlite in process") {
      // A command uses the time zone of the database.
      expect((await sums(berlin, at))[0]).toMatchObject({ spent: usd("0.001"), held: usd("2") });
    } else {
      // It is past midnight in Berlin: the new day has only the task.
      expect(await sums(berlin, at)).toEqual([
        { id: "all/1d", subject: "", spent: 0n, held: usd("2") },
        { id: "each-key/1d", subject: "k-alice", spent: 0n, held: usd("2") },
      ]);
      const rows = await berlin.ledger.report({ by: ["day"], since: at - 48 * hourMs, until: at + 48 * hourMs });
      expect(rows.map(({ dimensions }) => dimensions.day)).toEqual(["2026-11-20"]);
      await berlin.ledger.post("b", posting(7, 0), endAt(at));
      expect((await sums(berlin, at))[1]).toMatchObject({ spent: usd("0.000007"), held: 0n });
    }
    expect(await berlin.ledger.verify()).toMatchObject(clean);
    await berlin[Symbol.asyncDispose]();
  });

  it("fails only the faulty command of a batch", async () => {
    await using home = kind.newHome(manualClock(noon));
    {
      await using store = await home.open();
      const { ledger } = store;
      const bad = holdOf("bad", -1n as PicoUsd);
      const results = await Promise.allSettled([
        ledger.hold(holdOf("a", usd("1"))),
        ledger.hold(bad),
        ledger.hold(holdOf("b", usd("1"))),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      await ledger.post("a", posting(10, 10), endAt(noon));
      expect((await ledger.pending()).count).toBe(1);
      expect(await ledger.verify()).toEqual({ charges: 2, differences: [] });
    }
    // A restart gets a new owner, although the first transaction of the previous owner was rolled back.
    await using after = await home.open();
    await after.ledger.hold(holdOf("c", usd("1")));
    expect(await after.ledger.recover(noon)).toBe(1);
  });

  it("states whether it is writable, without changing anything", async () => {
    await using store = await opened(kind);
    await store.ledger.hold(holdOf("a", usd("1")));
    expect(await store.ledger.isWritable()).toBe(true);
    expect(await store.ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it("has totals of posted and pending charges since its creation, including corrections", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const nothing = await ledger.totals();
    const noAmounts = { reported: 0n, counted: 0n, partial: 0n, assumed: 0n };
    expect(nothing).toEqual({
      written: 0,
      posted: noAmounts,
      inDoubt: noAmounts,
      requests: 0,
      unpriced: 0,
      pending: 0,
      pendingUnpriced: 0,
      held: 0n,
    });
    for (const [index, id] of ["a", "b", "c", "d"].entries()) {
      await ledger.hold(holdOf(id, usd("1"), { at: noon - 90 * 24 * hourMs }));
      expect((await ledger.totals()).written).toBe(index + 1);
    }
    await ledger.hold(holdOf("e", null));
    await ledger.hold(holdOf("f", null));
    await ledger.post("a", posting(100_000, 0), endAt(noon));
    await ledger.post("b", { ...assumed(usd("1")), doubts: ["task_consumption", "time_based"] }, endAt(noon + 5));
    await ledger.post("e", assumed(null), endAt(noon + 6));
    await ledger.void("c", "gateway_400", endAt(noon));
    await ledger.adjust("a", { id: "fix", at: noon + 10, amount: usd("0.01"), why: "test", by: "root" });
    const { written, ...counted } = await ledger.totals();
    expect(written).toBeGreaterThanOrEqual(7);
    expect(counted).toEqual({
      posted: { reported: usd("0.11"), counted: 0n, partial: 0n, assumed: usd("1") },
      inDoubt: { ...noAmounts, assumed: usd("1") },
      requests: 3,
      unpriced: 1,
      pending: 2,
      pendingUnpriced: 1,
      held: usd("1"),
    });
    const fix = { madeAt: noon + 10, ofChargeAt: noon, amount: usd("0.01") };
    expect(await ledger.corrections(noon, noon + 1)).toEqual([fix]);
    expect(await ledger.corrections(noon + 10, noon + 11)).toEqual([fix]);
    expect(await ledger.corrections(noon + 1, noon + 10)).toEqual([]);
  });

  it("lists the windows that reached their threshold or limit, until their alerts are in the outbox", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const set = (more: Parameters<typeof budget>, warnPercent: number | null) =>
      ledger.setBudget({ ...budget(...more), warnPercent }, noon, "tester");
    await set([keyScope(alice.key), "1d", "1"], 50);
    await set([eachKeyScope(), "total", "0.4", "soft"], null);
    await set([everyRequest, "1mo", "2"], 30);
    const crossed = async (at = noon) =>
      (await ledger.windowsToAlert(at, 10)).map(({ budget: { id }, subject, spent }) => [id, subject, spent]);
    expect(await crossed()).toEqual([]);
    for (const caller of [alice, bob]) {
      await ledger.hold(holdOf(caller.key, usd("0.5"), { caller }));
      await ledger.post(caller.key, posting(caller === alice ? 500_000 : 100_000, 0), endAt(noon));
    }
    expect(await crossed()).toEqual([
      ["key:k-alice/1d", "", usd("0.5")],
      ["each-key/total", "k-alice", usd("0.5")],
      ["all/1mo", "", usd("0.6")],
    ]);
    expect(await crossed(noon + 86_400_000)).toEqual([
      ["each-key/total", "k-alice", usd("0.5")],
      ["all/1mo", "", usd("0.6")],
    ]);
    const putAlerts = async () => {
      const alerts = budgetAlerts(await ledger.windowsToAlert(noon, 10));
      await store.outbox.put(
        alerts.map(({ dedupeKey }) => ({
          id: dedupeKey,
          kind: "alert",
          target: null,
          dedupeKey,
          keyUntil: null,
          payload: "",
          createdAt: noon,
        })),
      );
      return alerts.length;
    };
    expect([await putAlerts(), await putAlerts()]).toEqual([3, 0]);
    await ledger.hold(holdOf("held", usd("0.5")));
    expect((await ledger.windowsToAlert(noon, 1))[0]).toMatchObject({ spent: usd("0.5"), held: usd("0.5") });
  });

  it("stores one account sample per instant until it is removed", async () => {
    await using home = kind.newHome(manualClock(noon));
    const { ledger, samples, ...store } = await home.open();
    await ledger.hold(holdOf("a", usd("9000000")));
    const before = await ledger.totals();
    const sample = (askedAt: number, more: Partial<AccountSample> = {}): AccountSample => ({
      askedAt,
      answeredAt: askedAt + 3,
      account: "7",
      figures: { equivalent_in_usd: "0.30000000000000004", used_credits: "123456789012345678901" },
      before,
      after: { ...before, posted: { ...before.posted, counted: usd("0.000000000001") } },
      ...more,
    });
    expect(await samples.latest()).toBeUndefined();
    expect(await samples.add(sample(noon + 2))).toBe(true);
    expect(await samples.add(sample(noon, { account: null, figures: {} }))).toBe(true);
    expect(await samples.add(sample(noon, { account: "8" }))).toBe(true);
    expect(await samples.list(noon, noon + 3)).toEqual([
      sample(noon, { account: null, figures: {} }),
      sample(noon + 2),
    ]);
    await store[Symbol.asyncDispose]();
    await using again = await home.open();
    expect(await again.samples.latest()).toEqual(sample(noon + 2));
    expect(await again.samples.list(noon + 1, noon + 2)).toEqual([]);
    await again.samples.remove(Array.from({ length: 500 }, (_, index) => noon + 2 + index));
    expect((await again.samples.list(0, noon * 2)).map(({ askedAt }) => askedAt)).toEqual([noon]);
  });
});
