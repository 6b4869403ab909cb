import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { refusalRowsMax, type RefusalQuery, type RefusalRow } from "../../src/ports/refusals.ts";
import { key, ledgerKinds, noon, openStore, tempFolder, utc } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";
import { isThorough } from "../support/effort.ts";

const minuteMs = 60_000;

function row(more: Partial<RefusalRow> = {}): RefusalRow {
  const minute = more.minute ?? noon;
  return {
    minute,
    key: "a1",
    team: "red",
    route: "/v1/chat/completions",
    model: "gpt-4o-mini",
    code: "budget_exceeded",
    scope: "key:a1",
    period: "1d",
    subject: null,
    count: 1,
    firstAt: minute + 1_000,
    lastAt: minute + 2_000,
    needed: usd("0.5"),
    ...more,
  };
}

describe.each(ledgerKinds)("the store of refusals: $name", (kind) => {
  const open = async () => {
    const home = kind.newHome(manualClock(noon));
    return { home, store: await home.open() };
  };

  it("merges equal refusals of a minute, with the first and last time and the largest amount", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    await refusals.add([row({ count: 2 }), row({ code: "rate_limit_exceeded", period: null, needed: null })]);
    await refusals.add([row({ count: 3, firstAt: noon + 500, lastAt: noon + 900, needed: usd("0.75") })]);
    await refusals.add([row({ firstAt: noon + 3_000, lastAt: noon + 9_000, needed: usd("9000000") })]);
    await refusals.add([row({ needed: null })]);
    expect(await refusals.list({ limit: 10, code: "budget_exceeded" })).toEqual({
      refusals: [row({ count: 7, firstAt: noon + 500, lastAt: noon + 9_000, needed: usd("9000000") })],
      next: null,
      examinedTo: null,
    });
    expect(await refusals.list({ limit: 10, code: "rate_limit_exceeded" })).toEqual({
      refusals: [row({ code: "rate_limit_exceeded", period: null, needed: null })],
      next: null,
      examinedTo: null,
    });
  });

  it("keeps refusals apart that differ in any field, including missing values", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const differing: Partial<RefusalRow>[] = [
      {},
      { minute: noon + minuteMs },
      { key: "" },
      { team: null },
      { team: "blue" },
      { route: "other" },
      { model: null },
      { model: "other" },
      { code: "budget_held" },
      { scope: null },
      { scope: "all" },
      { period: null },
      { period: "1mo" },
    ];
    const rows = differing.map(row);
    expect(await store.refusals.add(rows)).toBe(true);
    const page = await store.refusals.list({ limit: 100 });
    expect(page?.refusals).toHaveLength(rows.length);
    expect(page?.refusals).toEqual(expect.arrayContaining(rows));
  });

  it("lists refusals newest first, in pages and by each filter", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    const rows = Array.from({ length: 150 }, (_, n) =>
      row({
        minute: noon + (n % 10) * minuteMs,
        key: `k${n % 30}`,
        team: n % 2 === 0 ? "red" : null,
        model: `m${n % 50}`,
        code: n % 3 === 0 ? "budget_exceeded" : "model_not_allowed",
        count: n + 1,
      }),
    );
    await refusals.add(rows);
    const seen: RefusalRow[] = [];
    let cursor: string | undefined;
    do {
      const page = await refusals.list({ limit: 40, cursor });
      seen.push(...(page?.refusals ?? []));
      cursor = page?.next ?? undefined;
    } while (cursor !== undefined);
    expect(seen).toHaveLength(rows.length);
    expect(seen).toEqual(expect.arrayContaining(rows));
    expect(seen.map(({ minute }) => minute)).toEqual(rows.map(({ minute }) => minute).toSorted((a, b) => b - a));
    const matching = async (filter: Partial<RefusalRow>, query = filter as object) => {
      const page = await refusals.list({ limit: 1000, ...query });
      const expected = rows.filter((each) =>
        Object.entries(filter).every(([name, value]) => each[name as keyof RefusalRow] === value),
      );
      expect(page?.refusals).toHaveLength(expected.length);
      expect(page?.refusals).toEqual(expect.arrayContaining(expected));
    };
    await matching({ key: "k7" });
    await matching({ team: "red" });
    await matching({ model: "m9" });
    await matching({ code: "budget_exceeded" });
    await matching({ minute: noon + 4 * minuteMs }, { since: noon + 4 * minuteMs, until: noon + 5 * minuteMs });
    expect((await refusals.list({ limit: 9, since: noon + 9 * minuteMs + 2_001 }))?.refusals).toEqual([]);
    expect((await refusals.list({ limit: 9, until: noon + 1_000 }))?.refusals).toEqual([]);
    for (const wrong of ["", "x", "12", "12-abc", `${noon}-' or 1=1 --`])
      expect(await refusals.list({ limit: 9, cursor: wrong })).toBeUndefined();
  });

  it("searches parts of key names, key ids and other fields, in any letter case", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { keys, refusals } = store;
    await keys.create(key("Zoë_1", { id: "id-of-zoe" }));
    await keys.create(key("yan", { id: "id-of-yan" }));
    const rows = {
      zoe: row({ key: "id-of-zoe", team: "blue", scope: "each-key", subject: "id-of-zoe", code: "budget_held" }),
      yan: row({ key: "id-of-yan", team: null, model: "Llama-3%", scope: "team:red", period: "1w" }),
      user: row({ key: "gone", team: "green", model: null, scope: "each-user", subject: "u%2042%25" }),
      none: row({ key: "", team: null, model: null, code: "invalid_api_key", scope: null, period: null }),
    };
    await refusals.add(Object.values(rows));
    for (const [search, ...names] of [
      ["ZOË", "zoe"],
      ["_1", "zoe"],
      ["o_1"],
      ["of-yan", "yan"],
      ["BLU", "zoe"],
      ["llama", "yan"],
      ["3%", "yan"],
      ["HELD", "zoe"],
      ["team:r", "yan"],
      ["each-", "user", "zoe"],
      ["u 42%", "user"],
      ["gone", "user"],
      ["invalid", "none"],
      ["key\ninv"],
      ["_", "none", "user", "yan", "zoe"],
      ["", "none", "user", "yan", "zoe"],
    ]) {
      const found = (await refusals.list({ search, limit: 9 }))?.refusals ?? [];
      const nameOf = (one: RefusalRow) => Object.entries(rows).find(([, { key: id }]) => id === one.key)?.[0];
      expect([search, ...found.map(nameOf).toSorted()]).toEqual([search, ...names]);
    }
    expect((await refusals.list({ search: "zo", key: "id-of-yan", limit: 9 }))?.refusals).toEqual([]);
  });

  it("sorts by time, count and amount in stable pages, and refuses another order's cursor", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    const amounts = ["2", "0.5", "9000000"].map(usd);
    const rows = Array.from({ length: 40 }, (_, n) =>
      row({ minute: noon + (n % 8) * minuteMs, key: `k${n}`, count: 1 + (n % 5), needed: amounts[n % 4] ?? null }),
    );
    await refusals.add(rows);
    const measures = {
      time: ({ minute }: RefusalRow) => BigInt(minute),
      count: ({ count }: RefusalRow) => BigInt(count),
      needed: ({ needed }: RefusalRow) => needed ?? 0n,
    };
    for (const [sort, measure] of Object.entries(measures))
      for (const order of ["asc", "desc"] as const) {
        const query: RefusalQuery = { sort: sort as keyof typeof measures, order, limit: 7 };
        const seen: RefusalRow[] = [];
        let cursor: string | undefined;
        do {
          const page = await refusals.list({ ...query, cursor });
          seen.push(...(page?.refusals ?? []));
          cursor = page?.next ?? undefined;
          // A row that arrives between two pages shifts no other row.
          if (seen.length === 7)
            await refusals.add([row({ key: sort + order, minute: noon + 60 * minuteMs, count: 99 })]);
        } while (cursor !== undefined);
        const kept = seen.filter(({ key: id }) => id.startsWith("k"));
        expect([sort, order, new Set(kept).size, kept.length]).toEqual([sort, order, 40, 40]);
        const values = kept.map(measure);
        expect(values).toEqual(values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0) * (order === "asc" ? 1 : -1)));
        const first = await refusals.list(query);
        for (const other of [{ sort: "time" }, { sort: "count" }, { sort: "needed" }] as const)
          for (const direction of ["asc", "desc"] as const) {
            const isSame = other.sort === sort && direction === order;
            const page = await refusals.list({ ...other, order: direction, limit: 7, cursor: first?.next ?? "" });
            expect([sort, order, other.sort, direction, page !== undefined]).toEqual([
              sort,
              order,
              other.sort,
              direction,
              isSame,
            ]);
          }
      }
  });

  it("examines at most the given number of rows, and states where it stopped", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    await refusals.add(
      Array.from({ length: 8 }, (_, n) =>
        row({
          minute: noon + n * minuteMs,
          key: n % 2 === 0 ? "even" : "odd",
          model: n < 3 ? "rare" : "b",
          count: 8 - n,
        }),
      ),
    );
    const page = async (query: Partial<RefusalQuery>) => {
      const list = await refusals.list({ limit: 2, examinedMax: 3, ...query });
      if (list === undefined) throw new Error("the cursor is not one of this list");
      const minute = (at: number) => (at - noon) / minuteMs;
      const shown = [
        list.refusals.map((one) => minute(one.minute)).join(" "),
        list.examinedTo && minute(list.examinedTo),
      ];
      return { shown, cursor: list.next ?? undefined };
    };
    // By time, each page continues where the previous one stopped.
    for (const search of [{ model: "rare" }, { search: "RAR" }, { code: "budget_exceeded", model: "rare" }] as const) {
      const first = await page(search);
      expect(first.shown).toEqual(["", 5]);
      const second = await page({ ...search, cursor: first.cursor });
      expect(second.shown).toEqual(["2", 2]);
      const third = await page({ ...search, cursor: second.cursor });
      expect(third).toEqual({ shown: ["1 0", null], cursor: undefined });
      const oldest = await page({ ...search, order: "asc" });
      expect(oldest.shown).toEqual(["0 1", null]);
      expect((await page({ ...search, order: "asc", cursor: oldest.cursor })).shown).toEqual(["2", 4]);
    }
    // A query by key or team and time alone needs no bound.
    expect(await page({ key: "odd", limit: 4 })).toEqual({ shown: ["7 5 3 1", null], cursor: undefined });
    // By count, only the newest rows are sorted.
    const most = await page({ sort: "count" });
    expect(most.shown).toEqual(["5 6", 5]);
    expect(await page({ sort: "count", cursor: most.cursor })).toEqual({ shown: ["7", 5], cursor: undefined });
    expect((await page({ sort: "count", order: "asc" })).shown).toEqual(["7 6", 5]);
    expect((await page({ sort: "count", until: noon + 2 * minuteMs })).shown).toEqual(["0 1", null]);
    expect((await page({ sort: "count", key: "odd", examinedMax: 2 })).shown).toEqual(["5 7", 5]);
    expect((await page({ sort: "count", key: "odd", team: "blue" })).shown).toEqual(["", 3]);
    expect((await page({ sort: "count", examinedMax: undefined })).shown).toEqual(["0 1", null]);
  });

  it("sums refusals by cause, latest first, and examines at most the given number of rows", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    const user = (subject: string, more: Partial<RefusalRow> = {}) => row({ scope: "each-user", subject, ...more });
    await refusals.add([
      user("ann", { count: 2 }),
      user("ann", { count: 3, minute: noon + minuteMs, model: "m2", needed: usd("0.75") }),
      user("ann", { count: 1, minute: noon + minuteMs, team: "blue", needed: null }),
      user("bob", { count: 7 }),
      row({ code: "model_not_allowed", scope: null, period: null, needed: null, model: "m1", minute: noon - minuteMs }),
      row({ code: "model_not_allowed", scope: null, period: null, needed: null, model: "m2", minute: noon - minuteMs }),
      user("bob", { key: "b1", team: null, minute: noon - 2 * minuteMs }),
    ]);
    const cause = { key: "a1", code: "budget_exceeded", scope: "each-user", period: "1d", model: null } as const;
    const lastAt = noon + 2_000;
    const ann = { ...cause, subject: "ann", count: 6, lastAt: lastAt + minuteMs, needed: usd("0.75") };
    const bob = { ...cause, subject: "bob", count: 7, lastAt, needed: usd("0.5") };
    const all = await refusals.causes({ limit: 10 });
    expect(all).toMatchObject({ total: 5, examinedTo: null });
    expect(all.causes.slice(0, 2)).toEqual([ann, bob]);
    expect(
      all.causes
        .slice(2, 4)
        .map(({ model }) => model)
        .toSorted(),
    ).toEqual(["m1", "m2"]);
    expect(await refusals.causes({ limit: 1, key: "a1" })).toEqual({ causes: [ann], total: 4, examinedTo: null });
    expect((await refusals.causes({ limit: 9, team: "blue" })).causes).toEqual([{ ...ann, count: 1, needed: null }]);
    expect((await refusals.causes({ limit: 9, model: "m1" })).total).toBe(1);
    expect((await refusals.causes({ limit: 9, since: noon + minuteMs })).causes).toEqual([{ ...ann, count: 4 }]);
    expect(await refusals.causes({ limit: 9, until: noon - 3 * minuteMs })).toEqual({
      causes: [],
      total: 0,
      examinedTo: null,
    });
    expect(await refusals.causes({ limit: 9, examinedMax: 2 })).toEqual({
      causes: [{ ...ann, count: 4 }],
      total: 1,
      examinedTo: noon,
    });
    expect(await refusals.causes({ limit: 9, examinedMax: 7 })).toMatchObject({ total: 5, examinedTo: null });
  });

  it("counts refusals for each combination of the given columns", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    await refusals.add([
      row({ count: 5 }),
      row({ count: 7, minute: noon + 14 * minuteMs, model: "m2" }),
      row({ count: 11, minute: noon + 15 * minuteMs, key: "", team: null, scope: null, period: null }),
    ]);
    const span = { since: noon, until: noon + 30 * minuteMs };
    expect(await refusals.count({ by: [], ...span })).toEqual([{ count: 23 }]);
    expect(await refusals.count({ by: [], ...span, key: "a1" })).toEqual([{ count: 12 }]);
    expect(await refusals.count({ by: [], since: 0, until: noon })).toEqual([]);
    expect(await refusals.count({ by: ["key", "quarter"], ...span })).toEqual(
      expect.arrayContaining([
        { key: "a1", quarter: noon, count: 12 },
        { key: "", quarter: noon + 15 * minuteMs, count: 11 },
      ]),
    );
    expect(await refusals.count({ by: ["team", "model", "scope", "period"], ...span })).toEqual(
      expect.arrayContaining([
        { team: "red", model: "gpt-4o-mini", scope: "key:a1", period: "1d", count: 5 },
        { team: "red", model: "m2", scope: "key:a1", period: "1d", count: 7 },
        { team: null, model: "gpt-4o-mini", scope: null, period: null, count: 11 },
      ]),
    );
  });

  it("removes old rows in batches", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    const old = Array.from({ length: 501 }, (_, n) => row({ key: `k${n}`, minute: noon - minuteMs }));
    await refusals.add([...old, row()]);
    const upTo = { minute: noon, id: "" };
    expect(await refusals.remove({ minute: noon - minuteMs, id: "" })).toBe(0);
    expect(await refusals.remove(upTo)).toBe(500);
    expect((await refusals.list({ limit: 9 }))?.refusals).toHaveLength(2);
    expect(await refusals.remove(upTo)).toBe(1);
    expect(await refusals.remove(upTo)).toBe(0);
    expect((await refusals.list({ limit: 9 }))?.refusals).toEqual([row()]);
  });

  it("removes the oldest rows above a maximum, even if two proxies do so at once", async () => {
    const { home, store } = await open();
    await using _home = home;
    await using _store = store;
    const { refusals } = store;
    const rows = Array.from({ length: 30 }, (_, n) => row({ key: `k${n}`, minute: noon + (n % 10) * minuteMs }));
    await refusals.add(rows);
    expect(await refusals.excess(30)).toBeNull();
    const upTo = await refusals.excess(4);
    expect(upTo).toMatchObject({ minute: noon + 8 * minuteMs });
    if (upTo === null) throw new Error("26 rows exceed");
    const removed = await Promise.all([refusals.remove(upTo), refusals.remove(upTo)]);
    expect(removed[0] + removed[1]).toBe(26);
    expect(await refusals.excess(4)).toBeNull();
    expect(await refusals.excess(3)).not.toBeNull();
    expect((await refusals.list({ limit: 9 }))?.refusals.map(({ minute }) => (minute - noon) / minuteMs)).toEqual([
      9, 9, 9, 8,
    ]);
  });
});

describe("the store of refusals in SQLite", () => {
  it.runIf(isThorough)("handles a million rows, and removes the oldest above that", async () => {
    using folder = tempFolder();
    const options = { path: folder.database, calendar: utc, clock: manualClock(noon), access: "serve" } as const;
    await (await openStore(options))[Symbol.asyncDispose]();
    const db = new Database(folder.database);
    db.prepare(
      `insert into refusals (minute, id, key, route, code, count, first_at, last_at)
       with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
       select ? + i * 60000, 'id' || i, 'k' || (i % 10000), '/v1/chat/completions', 'budget_exceeded', 1, 1, 1 from n`,
    ).run(refusalRowsMax + 3, noon);
    db.close();
    await using store = await openStore(options);
    const upTo = await store.refusals.excess(refusalRowsMax);
    expect(upTo).toEqual({ minute: noon + 3 * minuteMs, id: "id3" });
    expect(await store.refusals.remove(upTo ?? { minute: 0, id: "" })).toBe(3);
    expect(await store.refusals.excess(refusalRowsMax)).toBeNull();
    expect(await store.refusals.excess(refusalRowsMax - 1)).not.toBeNull();
    const [row] = (await store.refusals.list({ limit: 1, until: noon + 5 * minuteMs }))?.refusals ?? [];
    expect(row?.minute).toBe(noon + 4 * minuteMs);
  });
});
