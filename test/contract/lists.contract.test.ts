import { describe, expect, it } from "vitest";
import {
  type Caller,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  readScope,
  sessionScope,
  teamScope,
} from "../../src/core/scope.ts";
import type { Key } from "../../src/core/keys.ts";
import { noRateLimits } from "../../src/core/rate-limits.ts";
import { formatUsd, usd } from "../../src/core/money.ts";
import { keySorts, windowSorts, type KeyListQuery, type ListPage, type ModelListQuery } from "../../src/ports/lists.ts";
import type { RefusalRow } from "../../src/ports/refusals.ts";
import { budget, endAt, holdOf, key, ledgerKinds, noon, posting, type LedgerKind } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";
import { until } from "../support/until.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const eachKey: Scope = eachKeyScope();

function scopeOf(text: string): Scope {
  const read = readScope(text);
  if (!read.ok) throw new Error(read.fault);
  return read.scope;
}

/**
 * Creates keys of two teams. This month, amber and basalt spent the same, cedar less and delta_x nothing; cedar spent
 * much more last month. elder is revoked.
 */
async function filled({ newHome }: LedgerKind) {
  const owned = new AsyncDisposableStack();
  const home = owned.use(newHome(manualClock(noon)));
  const { ledger, keys, teams, lists, refusals } = owned.use(await home.open());
  const keyed = (name: string, team: string | null, more: Partial<Key> = {}) =>
    keys.create(key(name, { id: `k-${name}`, team, ...more }));
  await keyed("amber", "red");
  await keyed("basalt", "red");
  await keyed("cedar", "blue");
  await keyed("delta_x", "blue");
  await keyed("delta~x", null);
  await keyed("elder", "red", { revokedAt: noon });
  await teams.create({
    name: "green",
    models: null,
    limits: noRateLimits,
    outputCap: null,
    hostedTools: null,
    createdAt: noon,
  });
  const teamOf = { amber: "red", basalt: "red", cedar: "blue" } as const;
  let count = 0;
  const spend = async (name: keyof typeof teamOf, at: number, input: number, model = "model-a") => {
    const id = `c${++count}`;
    await ledger.hold(holdOf(id, usd("1"), { at, model, caller: { key: `k-${name}`, team: teamOf[name] } }));
    await ledger.post(id, posting(input, 0), endAt(at + 5));
  };
  await spend("cedar", noon - 30 * dayMs, 900_000, "model-b");
  await spend("amber", noon - 2 * dayMs, 1000);
  await spend("amber", noon - 20 * 60_000, 2000, "Café-C");
  await spend("basalt", noon - 3 * hourMs, 3000);
  await spend("cedar", noon - hourMs, 1000, "model-b");
  /** Records that a budget refused requests of a key. */
  const refuse = (name: string, at: number, more: Partial<RefusalRow>) =>
    refusals.add([
      {
        minute: at - (at % 60_000),
        key: `k-${name}`,
        team: null,
        route: "chat",
        model: "model-a",
        code: "budget_exceeded",
        scope: null,
        period: null,
        subject: /(?:^| )each-key$/.test(more.scope ?? "") ? `k-${name}` : null,
        count: 1,
        firstAt: at,
        lastAt: at,
        needed: null,
        ...more,
      },
    ]);
  return { ledger, keys, lists, spend, keyed, refuse, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Reads all pages of a list. `between` is called after each page. */
async function paged<Row>(
  read: (after: string | undefined) => Promise<ListPage<Row>>,
  between: (page: number) => Promise<void> = async () => {},
): Promise<Row[]> {
  const rows: Row[] = [];
  let after: string | undefined;
  for (let page = 0; ; page++) {
    const list = await read(after);
    if (list === null) throw new Error("the cursor of a page must be accepted");
    rows.push(...list.rows);
    if (list.next === null) return rows;
    after = list.next;
    await between(page);
  }
}

const first = { at: noon, limit: 100 } as const;
const byName = { ...first, sort: "name", order: "asc" } as const;

describe.each(ledgerKinds)("the list of keys: $name", (kind) => {
  const names = async (lists: Awaited<ReturnType<typeof filled>>["lists"], query: Partial<KeyListQuery>) =>
    (await lists.listKeys({ ...byName, ...query }))?.rows.map((row) => row.key.name);

  it("is sorted by each column in both directions, with ties in a fixed order", async () => {
    await using all = await filled(kind);
    const { lists, ledger } = all;
    await ledger.setBudget(budget(keyScope("k-cedar"), "1d", "0.0012"), noon);
    await ledger.setBudget(budget(teamScope("red"), "1mo", "0.06"), noon);
    const sorted = async (sort: KeyListQuery["sort"]) => [
      await names(lists, { sort, order: "asc" }),
      (await names(lists, { sort, order: "desc" }))?.toReversed(),
    ];
    const created = ["amber", "basalt", "cedar", "delta_x", "delta~x", "elder"];
    expect(await sorted("created")).toEqual([created, created]);
    expect(await sorted("name")).toEqual([created, created]);
    const spent = ["delta_x", "delta~x", "elder", "cedar", "amber", "basalt"];
    expect(await sorted("spent")).toEqual([spent, spent]);
    const used = ["delta_x", "delta~x", "elder", "basalt", "cedar", "amber"];
    expect(await sorted("last_used")).toEqual([used, used]);
    const share = ["delta_x", "delta~x", "amber", "basalt", "elder", "cedar"];
    expect(await sorted("share")).toEqual([share, share]);
  });

  it("ranks keys by the budgets on their labels too", async () => {
    await using all = await filled(kind);
    const { ledger, lists, keyed } = all;
    const labels = {
      fig: { env: "prod" },
      grape: { env: "prod", region: "eu west" },
      hazel: { env: "dev" },
      iris: { env: "prod" },
    };
    const teamOf = { fig: "red", grape: "blue", hazel: "red", iris: "blue" };
    const spend = async (name: keyof typeof labels, input: number) => {
      const caller = { key: `k-${name}`, team: teamOf[name], labels: labels[name] };
      await ledger.hold(holdOf(`of-${name}`, usd("1"), { caller, models: ["gpt-5"] }));
      await ledger.post(`of-${name}`, posting(input, 0), endAt(noon));
    };
    for (const name of ["fig", "grape", "hazel", "iris"] as const)
      await keyed(name, teamOf[name], { labels: labels[name] });
    for (const scope of [
      "label:env=prod",
      "team:blue label:env=prod each-key",
      "label:env=prod label:region=eu%20west each-model",
      "label:env=dev key:k-hazel",
      "label:env=none",
      "label:env=prod each-user",
    ])
      await ledger.setBudget(budget(scopeOf(scope), "1d", "0.01", "soft"), noon);
    await spend("fig", 1000);
    await spend("grape", 3000);
    await spend("hazel", 2000);
    await spend("iris", 4500);
    await ledger.setBudget(budget(scopeOf("label:env=prod"), "1d", "0.1", "soft"), noon);
    const listed = (await lists.listKeys({ ...first, sort: "share", order: "desc" }))?.rows.slice(0, 5);
    expect(listed?.map(({ key: { name }, fullest }) => `${name}: ${fullest?.budget.id} ${fullest?.spent}`)).toEqual([
      "iris: team:blue label:env=prod each-key/1d 4500000000",
      "grape: label:env=prod label:region=eu%20west each-model/1d 3000000000",
      "hazel: key:k-hazel label:env=dev/1d 2000000000",
      "fig: label:env=prod/1d 8500000000",
      "elder: undefined undefined",
    ]);
  });

  it("states the usage of each key and its fullest window", async () => {
    await using all = await filled(kind);
    const { lists, ledger } = all;
    await ledger.setBudget(budget(everyRequest, "total", "1000"), noon);
    await ledger.setBudget(budget(eachKey, "1d", "0.004"), noon);
    await ledger.setBudget(budget(keyScope("k-cedar"), "1w", "0.001"), noon);
    await ledger.setBudget(budget(keyScope("k-basalt"), "1w", "0.001", "soft"), noon);
    const page = await lists.listKeys(byName);
    const rows = new Map(page?.rows.map((row) => [row.key.name, row]));
    expect(rows.get("amber")).toMatchObject({
      usage: { spent: usd("0.003"), requests: 2, lastUsedAt: noon - 20 * 60_000, refusedToday: 0 },
      fullest: { budget: { scope: eachKey }, subject: "k-amber", spent: usd("0.002"), held: 0n, refusing: false },
    });
    expect(rows.get("cedar")).toMatchObject({
      usage: { spent: usd("0.001"), requests: 1 },
      fullest: { budget: { period: "1w" }, spent: usd("0.001"), refusing: true },
    });
    expect(rows.get("basalt")).toMatchObject({ fullest: { budget: { period: "1w" }, refusing: false } });
    expect(rows.get("delta~x")).toMatchObject({
      usage: { spent: 0n, requests: 0, lastUsedAt: null },
      fullest: { budget: { scope: everyRequest }, spent: usd("0.907") },
    });
    expect(await lists.usageOf("k-amber", noon)).toEqual(rows.get("amber")?.usage);
    expect(await lists.usageOf("k-none", noon)).toMatchObject({ spent: 0n, requests: 0, lastUsedAt: null });
  });

  it("is searched by part of a name, literally and in any letter case", async () => {
    await using all = await filled(kind);
    const { lists, keyed } = all;
    for (const name of ["Zürich", "100%", String.raw`back\slash`]) await keyed(name, null);
    const found = (search: string) => names(lists, { search });
    expect(await found("del")).toEqual(["delta_x", "delta~x"]);
    expect(await found("TA~X")).toEqual(["delta~x"]);
    expect(await found("a_x")).toEqual(["delta_x"]);
    expect(await found("%")).toEqual(["100%"]);
    expect(await found(String.raw`\s`)).toEqual([String.raw`back\slash`]);
    expect(await found("zür")).toEqual(["Zürich"]);
    expect(await found("ZÜR")).toEqual(["Zürich"]);
    expect(await found("zur")).toEqual([]);
    expect(await found("' or 1=1")).toEqual([]);
    expect(await names(lists, { search: "e", team: "red" })).toEqual(["amber", "elder"]);
    expect(await names(lists, { states: ["revoked"] })).toEqual(["elder"]);
    expect(await names(lists, { states: ["revoked", "live"], team: "red" })).toEqual(["amber", "basalt", "elder"]);
    expect(await names(lists, { states: ["live"], team: "red" })).toEqual(["amber", "basalt"]);
    await all.keys.update("k-amber", { suspendedAt: noon }, noon);
    expect(await names(lists, { states: ["suspended"] })).toEqual(["amber"]);
    expect(await names(lists, { states: ["live"], team: "red" })).toEqual(["basalt"]);
  });

  it.each(keySorts)("has each key once in its pages by %s", async (sort) => {
    await using all = await filled(kind);
    await all.ledger.setBudget(budget(eachKey, "1d", "0.004"), noon);
    for (const order of ["asc", "desc"] as const) {
      const whole = await all.lists.listKeys({ ...first, sort, order });
      expect(await paged((after) => all.lists.listKeys({ at: noon, limit: 1, sort, order, after }))).toEqual(
        whole?.rows,
      );
    }
  });

  it("is sorted by share, including keys that a budget refuses before their first request", async () => {
    await using all = await filled(kind);
    const { lists, ledger, refuse } = all;
    await ledger.setBudget(budget(eachKey, "1d", "0.004"), noon);
    await ledger.setBudget(budget(eachKeyScope("blue"), "1h", "0"), noon);
    await refuse("delta~x", noon - 1000, { scope: "each-key", period: "1d" });
    const page = await lists.listKeys({ ...first, sort: "share", order: "desc" });
    expect(page?.rows.map((row) => [row.key.name, row.fullest?.refusing])).toEqual([
      ["delta_x", true],
      ["cedar", true],
      ["delta~x", true],
      ["basalt", false],
      ["amber", false],
      ["elder", false],
    ]);
  });

  it("neither skips nor repeats unchanged keys while other keys change", async () => {
    await using all = await filled(kind);
    const { lists, spend, keyed } = all;
    const rows = await paged(
      (after) => lists.listKeys({ at: noon, limit: 2, sort: "spent", order: "desc", after }),
      async (page) => {
        if (page !== 0) return;
        await spend("cedar", noon, 9000);
        await keyed("new", null);
      },
    );
    expect(rows.map((row) => row.key.name)).toEqual(["basalt", "amber", "new", "elder", "delta~x", "delta_x"]);
  });

  it("refuses a cursor of another order or an invalid one", async () => {
    await using all = await filled(kind);
    const page = await all.lists.listKeys({ at: noon, limit: 1, sort: "spent", order: "desc" });
    const after = page?.next ?? "";
    expect(await all.lists.listKeys({ ...first, sort: "spent", order: "asc", after })).toBeNull();
    expect(await all.lists.listKeys({ ...first, sort: "name", order: "desc", after })).toBeNull();
    const made = (parts: unknown) => Buffer.from(JSON.stringify(parts)).toString("base64url");
    for (const wrong of [
      "none",
      "",
      made(["spent", "desc"]),
      made(["spent", "desc", "1", "x"]),
      made(["spent", "desc", "1", 1]),
      made(["spent", "desc", "1", "99999999999999999999"]),
      made(["spent", "desc", "1", "9999999999999999999"]),
      made({ spent: 1 }),
    ])
      expect(await all.lists.listKeys({ ...first, sort: "spent", order: "desc", after: wrong })).toBeNull();
    for (const wrong of ["NaN", "", "Infinity"])
      expect(
        await all.lists.listKeys({
          ...first,
          sort: "share",
          order: "desc",
          after: made(["share", "desc", wrong, "1"]),
        }),
      ).toBeNull();
    expect(await all.lists.listKeys({ ...byName, after: made(["name", "asc", "a\0"]) })).toBeNull();
  });
});

describe.each(ledgerKinds)("the list of teams: $name", (kind) => {
  it("is sorted by each column, with the usage of its keys", async () => {
    await using all = await filled(kind);
    const { lists, ledger } = all;
    await ledger.setBudget(budget(teamScope("blue"), "1mo", "0.002"), noon);
    const sorted = async (sort: "name" | "spent" | "share" | "last_used" | "keys") =>
      (await lists.listTeams({ ...first, sort, order: "desc" }))?.rows.map(({ team }) => team.name);
    expect(await sorted("name")).toEqual(["red", "green", "blue"]);
    expect(await sorted("spent")).toEqual(["red", "blue", "green"]);
    expect(await sorted("share")).toEqual(["blue", "red", "green"]);
    expect(await sorted("last_used")).toEqual(["red", "blue", "green"]);
    expect(await sorted("keys")).toEqual(["red", "blue", "green"]);
    const lastUses = async (sort: "name" | "last_used") =>
      new Map(
        (await lists.listTeams({ ...byName, sort }))?.rows.map(({ team, usage }) => [team.name, usage.lastUsedAt]),
      );
    expect(await lastUses("last_used")).toEqual(await lastUses("name"));
    const rows = await paged((after) => lists.listTeams({ at: noon, limit: 1, sort: "keys", order: "asc", after }));
    expect(rows).toMatchObject([
      { team: { name: "green" }, liveKeys: [], usage: { spent: 0n, requests: 0, lastUsedAt: null }, fullest: null },
      {
        team: { name: "blue" },
        liveKeys: ["cedar", "delta_x"],
        usage: { spent: usd("0.001"), requests: 1, lastUsedAt: noon - hourMs },
        fullest: { budget: { scope: teamScope("blue") }, spent: usd("0.001") },
      },
      { team: { name: "red" }, liveKeys: ["amber", "basalt"], usage: { spent: usd("0.006"), requests: 3 } },
    ]);
    expect((await lists.listTeams({ ...byName, search: "RE" }))?.rows.map(({ team }) => team.name)).toEqual([
      "green",
      "red",
    ]);
    expect((await lists.listTeams({ ...byName, team: "blue" }))?.rows).toMatchObject([{ team: { name: "blue" } }]);
    expect((await lists.listTeams({ ...byName, team: "blu" }))?.rows).toEqual([]);
  });
});

describe.each(ledgerKinds)("the sums of past days: $name", (kind) => {
  it("are cached for a minute", async () => {
    await using all = await filled(kind);
    const { lists, spend } = all;
    const spent = async (at: number) =>
      (await lists.listTeams({ ...byName, at, search: "blue" }))?.rows[0]?.usage.spent;
    expect(await spent(noon)).toBe(usd("0.001"));
    await spend("cedar", noon - 2 * dayMs, 2000);
    await spend("cedar", noon, 4000);
    expect(await spent(noon)).toBe(usd("0.005"));
    await until(async () => (await spent(noon + 60_000)) === usd("0.007"), "the sums are read again");
    // Another day is a different past span.
    expect(await spent(noon + dayMs)).toBe(usd("0.007"));
  });

  it.each([
    ["no one asked for them for some minutes", 5 * 60_000],
    ["the clock was set back", -hourMs],
  ])("are not taken from the cache if %s", async (_why, later) => {
    await using all = await filled(kind);
    const { lists, spend } = all;
    const spent = async (at: number) =>
      (await lists.listTeams({ ...byName, at, search: "blue" }))?.rows[0]?.usage.spent;
    expect(await spent(noon)).toBe(usd("0.001"));
    await spend("cedar", noon - 2 * dayMs, 2000);
    expect(await spent(noon + later)).toBe(usd("0.003"));
  });
});

describe.each(ledgerKinds)("the list of models: $name", (kind) => {
  it("includes models with a price and models requested within 90 days", async () => {
    await using all = await filled(kind);
    const { lists, spend } = all;
    await spend("amber", noon - 91 * dayMs, 1000, "old");
    const priced = [
      ["model-a", "general"],
      ["unused", null],
    ] as const;
    const list = async (query: Partial<ModelListQuery>) =>
      (await lists.listModels({ ...byName, priced, ...query }))?.rows;
    expect(await list({})).toEqual([
      {
        model: "Café-C",
        group: "general",
        isPriced: false,
        usage: { spent: usd("0.002"), requests: 1, lastUsedAt: noon - 30 * 60_000, refusedToday: 0 },
      },
      {
        model: "model-a",
        group: "general",
        isPriced: true,
        usage: { spent: usd("0.004"), requests: 2, lastUsedAt: noon - 3 * hourMs, refusedToday: 0 },
      },
      {
        model: "model-b",
        group: "general",
        isPriced: false,
        usage: { spent: usd("0.001"), requests: 1, lastUsedAt: noon - hourMs, refusedToday: 0 },
      },
      {
        model: "unused",
        group: null,
        isPriced: true,
        usage: { spent: 0n, requests: 0, lastUsedAt: null, refusedToday: 0 },
      },
    ]);
    const names = async (query: Partial<ModelListQuery>) => (await list(query))?.map(({ model }) => model);
    expect(await names({ sort: "spent", order: "desc" })).toEqual(["model-a", "Café-C", "model-b", "unused"]);
    expect(await names({ sort: "requests", order: "desc" })).toEqual(["model-a", "model-b", "Café-C", "unused"]);
    expect(await names({ sort: "last_used", order: "desc" })).toEqual(["Café-C", "model-b", "model-a", "unused"]);
    for (const search of ["CAFÉ", "café-c", "Café-C"]) expect(await names({ search })).toEqual(["Café-C"]);
    expect(await names({ model: "model-b" })).toEqual(["model-b"]);
    expect(await names({ model: "old" })).toEqual([]);
    expect(
      await paged((after) => lists.listModels({ at: noon, limit: 1, sort: "last_used", order: "asc", priced, after })),
    ).toEqual(await list({ sort: "last_used", order: "asc" }));
  });
});

describe.each(ledgerKinds)("the lists of budgets: $name", (kind) => {
  async function withBudgets() {
    const all = await filled(kind);
    const { ledger } = all;
    await ledger.setBudget({ ...budget(eachKey, "1d", "0.004"), warnPercent: 50 }, noon);
    await ledger.setBudget(budget(eachKeyScope("blue"), "1mo", "0.001"), noon);
    await ledger.setBudget(budget(everyRequest, "1mo", "1"), noon);
    await ledger.setBudget(budget(keyScope("k-delta~x"), "1h", "0"), noon);
    await ledger.setBudget(budget(teamScope("red"), "1w", "0.001", "soft"), noon);
    return all;
  }

  it("include a window for each live key of an each-key budget, even if it spent nothing", async () => {
    await using all = await withBudgets();
    const page = await all.lists.listWindows({ ...first, sort: "created", order: "asc", scope: eachKey, period: "1d" });
    expect(page?.rows.map(({ subject, spent }) => [subject, spent])).toEqual([
      ["k-amber", usd("0.002")],
      ["k-basalt", usd("0.003")],
      ["k-cedar", usd("0.001")],
      ["k-delta_x", 0n],
      ["k-delta~x", 0n],
    ]);
    expect(page?.rows[0]).toMatchObject({ start: noon - 12 * hourMs, end: noon + 12 * hourMs, refusing: false });
  });

  it("include windows that no request has opened yet as empty", async () => {
    await using all = await withBudgets();
    const at = noon + dayMs;
    const rows = (await all.lists.listWindows({ at, limit: 100, sort: "created", order: "asc", period: "1d" }))?.rows;
    expect(rows).toMatchObject(Array.from({ length: 5 }, () => ({ spent: 0n, start: noon + 12 * hourMs })));
    const hours = (await all.lists.listWindows({ at, limit: 100, sort: "created", order: "asc", period: "1h" }))?.rows;
    expect(hours).toMatchObject([{ start: at, spent: 0n, refusing: true }]);
  });

  it.each(windowSorts)("include each window once in pages by %s", async (sort) => {
    await using all = await withBudgets();
    const whole = (await all.lists.listWindows({ ...first, sort, order: "desc" }))?.rows;
    expect(whole).toHaveLength(10);
    expect(await paged((after) => all.lists.listWindows({ at: noon, limit: 3, sort, order: "desc", after }))).toEqual(
      whole,
    );
  });

  it("are searched by scope and by key names, and filtered to windows that refuse requests", async () => {
    await using all = await withBudgets();
    const scopes = async (query: { readonly search?: string; readonly refusing?: boolean }) =>
      (await all.lists.listWindows({ ...first, sort: "created", order: "asc", ...query }))?.rows.map(
        ({ budget: { id }, subject }) => `${id} ${subject}`.trim(),
      );
    expect(await scopes({ search: "Delta" })).toEqual([
      "each-key/1d k-delta_x",
      "each-key/1d k-delta~x",
      "team:blue each-key/1mo k-delta_x",
      "key:k-delta~x/1h",
    ]);
    expect(await scopes({ search: "key:delta~x" })).toEqual(["key:k-delta~x/1h"]);
    expect(await scopes({ refusing: true })).toEqual(["team:blue each-key/1mo k-cedar", "key:k-delta~x/1h"]);
  });

  it("rank budgets with their fullest windows, refusing ones first", async () => {
    await using all = await withBudgets();
    const { lists, ledger } = all;
    const ranked = (await lists.listBudgets({ ...first, sort: "share", order: "desc" }))?.rows;
    expect(ranked?.map(({ budget: { id }, windows, refusing, spent }) => [id, windows, refusing, spent])).toEqual([
      ["key:k-delta~x/1h", 1, 1, 0n],
      ["team:blue each-key/1mo", 2, 1, usd("0.001")],
      ["team:red/1w", 1, 0, usd("0.006")],
      ["each-key/1d", 5, 0, usd("0.006")],
      ["all/1mo", 1, 0, usd("0.007")],
    ]);
    expect(ranked?.[3]?.fullest.map(({ subject }) => subject)).toEqual(["k-basalt", "k-amber", "k-cedar"]);
    const risky = await lists.listBudgets({ ...first, sort: "share", order: "desc", atRisk: true });
    expect(risky?.rows.map(({ budget: { id } }) => id)).toEqual([
      "key:k-delta~x/1h",
      "team:blue each-key/1mo",
      "team:red/1w",
      "each-key/1d",
    ]);
    for (const sort of ["share", "spent", "limit", "scope"] as const) {
      const whole = (await lists.listBudgets({ ...first, sort, order: "asc" }))?.rows;
      expect(await paged((after) => lists.listBudgets({ at: noon, limit: 1, sort, order: "asc", after }))).toEqual(
        whole,
      );
    }
    await ledger.setBudget(budget(eachKeyScope("green"), "1d", "1"), noon);
    const empty = await lists.listBudgets({ ...first, sort: "scope", order: "asc", search: "Green" });
    expect(empty?.rows).toMatchObject([
      { budget: { id: "team:green each-key/1d" }, windows: 0, spent: 0n, fullest: [] },
    ]);
    const one = { ...first, sort: "scope", order: "asc", scope: eachKey } as const;
    expect((await lists.listBudgets({ ...one, period: "1d" }))?.rows).toHaveLength(1);
    expect((await lists.listBudgets({ ...one, period: "1mo" }))?.rows).toEqual([]);
    const found = await lists.listBudgets({ ...first, sort: "scope", order: "asc", search: "basalt" });
    expect(found?.rows.map(({ budget: { id }, windows }) => [id, windows])).toEqual([["each-key/1d", 1]]);
    await ledger.setBudget(budget(sessionScope("k-cedar", "run_a1"), "total", "1"), noon);
    const session = await lists.listWindows({
      ...first,
      sort: "scope",
      order: "asc",
      search: "key:cedar tag:session=run_a1",
    });
    expect(session?.rows).toHaveLength(1);
  });

  it("count a budget as refusing for 15 minutes after a refusal in its current window", async () => {
    await using all = await withBudgets();
    const { lists, refuse } = all;
    const minuteMs = 60_000;
    const at = noon + 14 * minuteMs;
    await refuse("amber", at - 14 * minuteMs, { scope: "each-key", period: "1d", count: 2 });
    await refuse("basalt", at - 16 * minuteMs, { scope: "each-key", period: "1d" });
    await refuse("basalt", at, { scope: "team:red", period: "1w" });
    await refuse("basalt", at, { scope: "key:k-basalt" });
    await refuse("cedar", noon - 13 * hourMs, { scope: "all", period: "1mo", team: "blue" });
    const refusing = async (when: number) => {
      const page = await lists.listWindows({ at: when, limit: 100, sort: "scope", order: "asc", refusing: true });
      return page?.rows.map(({ budget: { id }, subject }) => `${id} ${subject}`.trim());
    };
    const always = ["team:blue each-key/1mo k-cedar", "key:k-delta~x/1h"];
    expect(await refusing(at)).toEqual(["each-key/1d k-amber", ...always]);
    expect(await refusing(at + 2 * minuteMs)).toEqual(always);
    const keys = (await lists.listKeys({ at, limit: 2, sort: "share", order: "desc" }))?.rows;
    expect(keys?.map((row) => row.key.name)).toEqual(["delta~x", "cedar"]);
    const amber = (await lists.listKeys({ ...byName, at, search: "amber" }))?.rows[0];
    expect(amber).toMatchObject({ usage: { refusedToday: 2 }, fullest: { subject: "k-amber", refusing: true } });
    expect((await lists.listTeams({ ...byName, at, search: "blue" }))?.rows[0]?.usage.refusedToday).toBe(0);
    const models = await lists.listModels({ ...byName, at, priced: [], search: "model-a" });
    expect(models?.rows[0]?.usage.refusedToday).toBe(5);
    const [window] = (await lists.listWindows({ ...byName, sort: "scope", at, search: "amber" }))?.rows ?? [];
    const { refusing: _refusing, ...plain } = window ?? ({} as never);
    expect(await lists.ranked([plain], at)).toEqual([{ ...plain, refusing: true }]);
    // A window that has ended refuses nothing.
    await all.ledger.setBudget(budget(keyScope("k-basalt"), "1h", "5"), at);
    await refuse("basalt", noon + hourMs - minuteMs, { scope: "key:k-basalt", period: "1h" });
    expect(await refusing(noon + hourMs - 1)).toContain("key:k-basalt/1h");
    expect(await refusing(noon + hourMs + 1)).not.toContain("key:k-basalt/1h");
  });

  it("include subjects of every kind, searched by value and ranked within their budget", async () => {
    await using all = await filled(kind);
    const { ledger, lists, refuse } = all;
    let count = 0;
    const request = async (name: "amber" | "basalt" | "cedar", user: string | null, tag: string, input: number) => {
      const id = `s${++count}`;
      const caller = { key: `k-${name}`, team: name === "cedar" ? "blue" : "red", user };
      const models = [input > 1000 ? "gpt-5" : "gpt-5-mini"];
      await ledger.hold(holdOf(id, usd("1"), { at: noon, caller, models, tags: { feature: tag } }));
      await ledger.post(id, posting(input, 0), endAt(noon + 5));
    };
    const scopes = [
      "team:red each-user",
      "each-key each-tag:feature",
      "key:k-amber model:gpt-5*",
      "team:red key:k-basalt model:gpt-5",
      "each-model",
      "team:blue user:u",
    ];
    const limitAll = async (limit: string) => {
      for (const scope of scopes) await ledger.setBudget(budget(scopeOf(scope), "1h", limit), noon);
    };
    await limitAll("100");
    await request("amber", "u 1", "search", 4000);
    await request("amber", null, "chat", 500);
    await request("basalt", "u 1", "search", 9500);
    await request("cedar", "u", "chat", 2000);
    await limitAll("0.01");
    const list = async (query: { readonly search?: string; readonly scope?: Scope; readonly refusing?: boolean }) =>
      (await lists.listWindows({ ...first, sort: "scope", order: "asc", ...query }))?.rows.map(
        ({ budget: { id }, subject, spent }) => `${id} ${subject}: ${formatUsd(spent)}`,
      );
    expect(await list({ scope: scopeOf("team:red each-user") })).toEqual([
      "team:red each-user/1h : 0.0005",
      "team:red each-user/1h u%201: 0.0135",
    ]);
    expect(await list({ search: "U 1" })).toEqual(["team:red each-user/1h u%201: 0.0135"]);
    expect(await list({ search: "key:amber model" })).toEqual(["key:k-amber model:gpt-5*/1h : 0.0045"]);
    expect(await list({ search: "team:red key:basalt" })).toEqual(["team:red key:k-basalt model:gpt-5/1h : 0.0095"]);
    expect(await list({ search: "basalt search" })).toEqual(["each-key each-tag:feature/1h k-basalt search: 0.0095"]);
    const ranked = (await lists.listBudgets({ ...first, sort: "share", order: "desc" }))?.rows;
    expect(
      ranked?.map(({ budget: { id }, windows, fullest }) => [id, windows, fullest.map(({ subject }) => subject)]),
    ).toEqual([
      ["each-model/1h", 2, ["gpt-5", "gpt-5-mini"]],
      ["team:red each-user/1h", 2, ["u%201", ""]],
      ["team:red key:k-basalt model:gpt-5/1h", 1, [""]],
      ["each-key each-tag:feature/1h", 4, ["k-basalt search", "k-amber search", "k-cedar chat"]],
      ["key:k-amber model:gpt-5*/1h", 1, [""]],
      ["team:blue user:u/1h", 1, [""]],
    ]);
    await refuse("amber", noon, { scope: "each-key each-tag:feature", period: "1h", subject: "k-amber chat" });
    expect(await list({ refusing: true })).toEqual([
      "each-key each-tag:feature/1h k-amber chat: 0.0005",
      "each-model/1h gpt-5: 0.0155",
      "team:red each-user/1h u%201: 0.0135",
    ]);
    const ofKeys = async () =>
      (await lists.listKeys({ ...first, sort: "share", order: "desc" }))?.rows.map(
        ({ key: { name }, fullest }) => `${name}: ${fullest?.budget.id} ${fullest?.subject}`,
      );
    const teams = (await lists.listTeams({ ...first, sort: "share", order: "desc" }))?.rows;
    expect(teams?.map(({ team: { name }, fullest }) => `${name}: ${fullest?.budget.id} ${fullest?.subject}`)).toEqual([
      "red: each-model/1h gpt-5",
      "green: each-model/1h gpt-5",
      "blue: each-model/1h gpt-5",
    ]);
    await ledger.removeBudget("each-model", "1h", noon);
    expect((await ofKeys())?.slice(0, 3)).toEqual([
      "amber: each-key each-tag:feature/1h k-amber chat",
      "basalt: each-key each-tag:feature/1h k-basalt search",
      "cedar: each-key each-tag:feature/1h k-cedar chat",
    ]);
    const red = (await lists.listTeams({ ...byName, team: "red" }))?.rows[0]?.fullest;
    expect(red).toMatchObject({ subject: "u%201", refusing: true });
    const ofRequests = async (caller: Caller) =>
      (await lists.requestWindows(caller, noon)).map(
        ({ budget: { id }, subject, refusing }) => `${id} ${subject}${refusing ? " refusing" : ""}`,
      );
    await ledger.setBudget(budget(scopeOf("key:k-amber user:u"), "1h", "1"), noon);
    await ledger.setBudget(budget(scopeOf("each-key model:gpt-9"), "1h", "1"), noon);
    expect(await ofRequests({ key: "k-amber", team: "red" })).toEqual([
      "each-key each-tag:feature/1h k-amber chat refusing",
      "each-key each-tag:feature/1h k-amber search",
      "key:k-amber model:gpt-5*/1h ",
      "key:k-amber user:u/1h ",
      "model:gpt-9 each-key/1h k-amber",
    ]);
    expect(await ofRequests({ key: "k-elder", team: null })).toEqual(["model:gpt-9 each-key/1h k-elder"]);
    expect(await ofRequests({ key: "", team: "red" })).toEqual([
      "team:red each-user/1h u%201 refusing",
      "team:red each-user/1h ",
    ]);
    expect(await ofRequests({ key: "", team: "blue" })).toEqual(["team:blue user:u/1h "]);
    const ofModel = async (...models: string[]) =>
      (await lists.modelWindows(models, noon)).map(({ budget: { id }, subject }) => `${id} ${subject}`.trim());
    await ledger.setBudget(budget(scopeOf("each-model"), "1h", "0.01"), noon);
    expect((await ofModel("gpt-5")).toSorted()).toEqual([
      "each-model/1h gpt-5",
      "key:k-amber model:gpt-5*/1h",
      "team:red key:k-basalt model:gpt-5/1h",
    ]);
    expect((await ofModel("gpt-5"))[0]).toBe("each-model/1h gpt-5");
    expect((await ofModel("gpt-5-mini")).toSorted()).toEqual([
      "each-model/1h gpt-5-mini",
      "key:k-amber model:gpt-5*/1h",
    ]);
    expect(await ofModel("other")).toEqual([]);
    await ledger.removeBudget("each-model", "1h", noon);
    for (const sort of ["share", "scope", "spent"] as const) {
      const whole = (await lists.listWindows({ ...first, sort, order: "asc" }))?.rows;
      expect(await paged((after) => lists.listWindows({ at: noon, limit: 2, sort, order: "asc", after }))).toEqual(
        whole,
      );
    }
    const past = async (scope: string, subject?: string) =>
      (await lists.pastWindows(scopeOf(scope), { period: "1h", at: noon, limit: 1, subject })).map(
        ({ spent, requests }) => `${formatUsd(spent)} ${requests}`,
      );
    expect(await past("team:red each-user", "u%201")).toEqual(["0.0135 2"]);
    expect(await past("team:red each-user", "")).toEqual(["0.0005 1"]);
    expect(await past("each-key each-tag:feature")).toEqual(["0.016 4"]);
    expect(await past("each-key each-tag:feature", "k-cedar chat")).toEqual(["0.002 1"]);
    expect(await past("key:k-amber model:gpt-5*")).toEqual(["0.0045 2"]);
    expect(await past("each-model", "gpt-5")).toEqual(["0.0155 3"]);
  });

  it("include the spending of past windows", async () => {
    await using all = await withBudgets();
    const past = async (scope: Scope, period: "1h" | "1d" | "1mo" | "total", subject?: string) =>
      (await all.lists.pastWindows(scope, { period, at: noon, limit: 3, subject })).map(
        ({ start, spent, requests }) => [(noon - start) / hourMs, spent, requests],
      );
    expect(await past(teamScope("red"), "1d")).toEqual([
      [12, usd("0.005"), 2],
      [36, 0n, 0],
      [60, usd("0.001"), 1],
    ]);
    expect(await past(eachKey, "1h", "k-cedar")).toEqual([
      [0, 0n, 0],
      [1, usd("0.001"), 1],
      [2, 0n, 0],
    ]);
    expect(await past(keyScope("k-cedar"), "1mo")).toEqual([
      [19 * 24 + 12, usd("0.001"), 1],
      [(19 + 31) * 24 + 12, usd("0.9"), 1],
      [(19 + 31 + 30) * 24 + 12, 0n, 0],
    ]);
    expect(await past(eachKeyScope("blue"), "total")).toEqual([[noon / hourMs, usd("0.901"), 2]]);
    expect(await past(sessionScope("k-cedar", "run_a1"), "1d")).toEqual([
      [12, 0n, 0],
      [36, 0n, 0],
      [60, 0n, 0],
    ]);
  });
});
