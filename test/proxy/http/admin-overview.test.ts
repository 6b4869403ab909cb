import { describe, expect, it } from "vitest";
import { add, formatUsd, parseUsd, sum, type PicoUsd } from "../../../src/core/money.ts";
import { askAdmin } from "../../support/admin-client.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

/** An answer, read as the test knows it to be. */
type Answer = ReturnType<typeof JSON.parse>;

const token = "from-the-settings-0123456789";
const started = () => startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
const get = async (proxy: RunningProxy, path: string) => {
  const reply = await askAdmin(proxy.url, "GET", path, { token });
  expect(reply.status, reply.text).toBe(200);
  return reply.json as never as Answer;
};
const own = async (proxy: RunningProxy, path: string, key = proxy.key) => {
  const answer = await fetch(`${proxy.url}/v1/farebox${path}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: answer.status, json: (await answer.json()) as Answer };
};
const money = (texts: readonly string[]) => sum(texts.map((text) => parseUsd(text) ?? (0n as PicoUsd)));

describe("GET /overview", () => {
  it("equals the ledger's sums, for every split and span", async () => {
    await using proxy = await started();
    const traffic = await prepareMixedTraffic(proxy, 10);
    await traffic.round();
    const charges = await proxy.charges();
    const cost = charges.reduce((total, charge) => add(total, charge.cost ?? (0n as PicoUsd)), 0n as PicoUsd);
    const requests = charges.filter(({ state }) => state === "posted").length;
    for (const span of ["24h", "7d", "30d", "90d"]) {
      for (const by of ["model", "key", "team", "group"]) {
        const { today, month, span: whole, series, top } = await get(proxy, `/overview?span=${span}&by=${by}`);
        for (const figures of [today, month, whole])
          expect([span, by, figures.cost_usd, figures.requests]).toEqual([span, by, formatUsd(cost), requests]);
        const lines = [...series.rows, ...(series.other === null ? [] : [series.other])] as {
          cost_usd: string;
          values: string[];
        }[];
        expect(formatUsd(money(lines.map(({ cost_usd }) => cost_usd)))).toBe(formatUsd(cost));
        for (const { cost_usd, values } of lines)
          expect([formatUsd(money(values)), values.length]).toEqual([cost_usd, series.starts.length]);
        expect(formatUsd(money(top.keys.map((each: { cost_usd: string }) => each.cost_usd)))).toBe(formatUsd(cost));
      }
    }
    const { series, top } = await get(proxy, "/overview?by=team");
    expect(new Set(series.rows.map(({ name }: { name: string | null }) => name))).toEqual(
      new Set(["research", "product", null]),
    );
    expect(top.keys.find(({ name }: { name: string }) => name === "bob")).toMatchObject({ team: "research" });
  });

  it("forecasts the month at this rate, and how long the balance lasts", async () => {
    await using proxy = await started();
    expect(await get(proxy, "/overview")).toMatchObject({
      forecast: null,
      empty: { keys: false, charges: true },
      today: { cost_usd: "0.00", yesterday_by_now_usd: "0.00" },
    });
    await (await proxy.chat({})).text();
    await proxy.charges();
    const { forecast, month, empty } = await get(proxy, "/overview");
    expect(empty).toEqual({ keys: false, charges: false });
    expect(money([forecast.month_end_usd])).toBeGreaterThanOrEqual(money([month.cost_usd]));
    expect((await get(proxy, "/overview")).balance).toMatchObject({
      stale: false,
      balance_usd: expect.stringMatching(/^\d+\.\d\d/),
    });
  });

  it("accepts known parameters and nothing else", async () => {
    await using proxy = await started();
    for (const path of [
      "/overview?span=1d",
      "/overview?by=tag:a",
      "/overview?since=7d",
      "/requests/live?after=x",
      "/requests/live?limit=0",
    ]) {
      expect([path, (await askAdmin(proxy.url, "GET", path, { token })).status]).toEqual([path, 400]);
    }
    expect((await askAdmin(proxy.url, "GET", "/requests/live?key=stranger", { token })).status).toBe(404);
  });

  it("shows a key its own spending and no other's", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob");
    await (await proxy.chat({})).text();
    await (await proxy.chat({ model: "gpt-4o-mini" }, { key: bob })).text();
    await proxy.charges();
    const { json } = await own(proxy, "/overview?span=24h", bob);
    expect(json).toMatchObject({
      today: { requests: 1 },
      balance: null,
      series: { rows: [{ name: "gpt-4o-mini" }], other: null },
      top: { keys: [{ name: "bob" }], models: [{ name: "gpt-4o-mini" }] },
    });
    expect(JSON.stringify(json)).not.toMatch(/alice|gpt-4o"/);
    expect((await own(proxy, "/overview?by=key", bob)).status).toBe(400);
    const live = await own(proxy, "/requests/live", bob);
    expect(live.json.charges.map(({ key }: { key: string }) => key)).toEqual(["bob"]);
    expect((await own(proxy, "/requests/live?key=alice", bob)).status).toBe(400);
  });
});

describe("GET /requests/live", () => {
  it("follows a request from its hold to its end", async () => {
    await using proxy = await started();
    const traffic = await prepareMixedTraffic(proxy, 10);
    const first = await get(proxy, "/requests/live");
    expect(first.charges).toEqual([]);
    let during = first;
    await traffic.whileStreaming(async () => {
      during = await get(proxy, `/requests/live?after=${first.cursor}`);
    });
    expect(during.charges).toMatchObject([
      { state: "pending", key: "alice", model: "gpt-4o", cost_usd: null, hold_usd: expect.stringMatching(/^0\.0/) },
    ]);
    await proxy.charges();
    const after = await get(proxy, `/requests/live?after=${during.cursor}&state=pending`);
    expect(after.charges).toMatchObject([
      { request_id: during.charges[0].request_id, state: "posted", source: "partial" },
    ]);
    expect((await get(proxy, "/requests/live?state=pending")).charges).toEqual([]);
    expect((await get(proxy, "/requests/live?key=alice&model=gpt-4o&limit=1")).charges).toHaveLength(1);
    expect((await get(proxy, "/requests/live?key=bob")).charges).toEqual([]);
  });
});

describe("a charge in its lines", () => {
  it("adds up to its cost, and names its source", async () => {
    await using proxy = await started();
    await (await prepareMixedTraffic(proxy, 10)).round();
    for (const { id, cost, listCost, state, formula } of await proxy.charges()) {
      const shown = await get(proxy, `/charges/${id}`);
      const hasLines = formula === "tokens" || formula === "per_request";
      expect([id, shown.items.length > 0]).toEqual([id, hasLines]);
      if (hasLines)
        expect([
          money(shown.items.map((item: Record<string, string>) => item.cost_usd)),
          money(shown.items.map((item: Record<string, string>) => item.list_cost_usd)),
        ]).toEqual([cost, listCost]);
      expect(shown).toMatchObject({
        formula,
        known: expect.stringMatching(/\.$/),
        price: hasLines ? { model: shown.model, source: expect.any(String) } : expect.anything(),
      });
      if (state === "voided") expect(shown.known).toBe("It cost nothing.");
    }
    const [{ id } = { id: "" }] = await proxy.charges();
    const { json } = await own(proxy, `/charges/${id}`);
    expect(json.items.length).toBeGreaterThan(0);
  });
});

describe("GET /health", () => {
  it("shows holds, the gateway's errors minute by minute, and what cannot be reconciled yet", async () => {
    await using proxy = await started();
    const traffic = await prepareMixedTraffic(proxy, 10);
    await traffic.round();
    await proxy.charges();
    await traffic.whileStreaming(async () => {
      const health = await get(proxy, "/health");
      expect(health).toMatchObject({
        ready: true,
        version: "0.0.0-test",
        reconciliation: null,
        reconciliation_missing: expect.stringContaining("fewer than two samples"),
        pending: { count: 1, oldest_at: expect.any(String), old: [] },
        alerts: { latest: expect.any(Array) },
        prices: { models: expect.any(Number) },
      });
      expect(health.gateway.by_status).toMatchObject({ 500: 1 });
      expect(health.gateway.last.map(({ status }: { status: number }) => status)).toContain(500);
      const { starts, requests, errors } = health.gateway.minutes;
      expect([starts.length, requests.length, errors.length]).toEqual([60, 60, 60]);
      expect(requests.reduce((total: number, count: number) => total + count, 0)).toBe(health.gateway.requests);
    });
  });
});

describe("GET /prices/{model}/history", () => {
  it("has every price that a model had, by any of its names", async () => {
    await using proxy = await started();
    const history = await get(proxy, "/prices/gpt-4o-2024-11-20/history");
    expect(history).toMatchObject({
      id: "gpt-4o",
      provider: "openai",
      aliases: expect.arrayContaining(["gpt-4o-2024-11-20"]),
    });
    expect(history.entries.filter(({ in_force }: { in_force: boolean }) => in_force)).toHaveLength(1);
    const { price } = await get(proxy, "/prices/gpt-4o");
    expect(history.entries.find(({ in_force }: { in_force: boolean }) => in_force).price).toEqual(price);
    expect((await askAdmin(proxy.url, "GET", "/prices/none/history", { token })).status).toBe(404);
  });
});

describe("long lists of keys and budgets", () => {
  it("come in pages, each of them once and in order", async () => {
    await using proxy = await started();
    for (let index = 0; index < 6; index++) await proxy.addKey(`key-${index}`);
    await proxy.budget("each-key", "5", "1d");
    await proxy.budget("all", "50", "1mo");
    await askAdmin(proxy.url, "POST", "/keys/key-3/revoke", { token });
    for (const [path, list, count] of [
      ["/keys", "keys", 7],
      ["/keys?state=live", "keys", 6],
      ["/keys?state=revoked", "keys", 1],
      ["/budgets", "budgets", 7],
    ] as const) {
      const whole = (await get(proxy, path))[list];
      expect(whole).toHaveLength(count);
      const paged: object[] = [];
      let cursor: string | null = null;
      do {
        const page: Answer = await get(
          proxy,
          `${path}${path.includes("?") ? "&" : "?"}limit=2${cursor === null ? "" : `&cursor=${cursor}`}`,
        );
        paged.push(...page[list]);
        cursor = page.next;
      } while (cursor !== null);
      expect(paged).toEqual(whole);
      expect((await askAdmin(proxy.url, "GET", `${path.split("?")[0]}?cursor=none`, { token })).status).toBe(400);
    }
  });
});
