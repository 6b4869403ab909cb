import { describe, expect, it } from "vitest";
import { add, formatUsd, parseUsd, sum, type PicoUsd } from "../../../src/core/money.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { until } from "../../support/until.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

/** An answer whose shape the test knows. */
type Answer = ReturnType<typeof JSON.parse>;

const token = "from-the-settings-0123456789";
const started = () => startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
const get = async (proxy: RunningProxy, path: string) => {
  const reply = await callAdmin(proxy.url, "GET", path, { token });
  expect(reply.status, reply.text).toBe(200);
  return reply.json as never as Answer;
};
const getAsKey = async (proxy: RunningProxy, path: string, key = proxy.key) => {
  const answer = await fetch(`${proxy.url}/v1/farebox${path}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: answer.status, json: (await answer.json()) as Answer };
};
const money = (texts: readonly string[]) => sum(texts.map((text) => parseUsd(text) ?? (0n as PicoUsd)));

describe("GET /overview", () => {
  it("equals the ledger's sums for every span and dimension", async () => {
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

  it("states that there is no live key", async () => {
    await using proxy = await started();
    expect((await get(proxy, "/overview")).empty).toEqual({ keys: false, charges: true });
    expect((await callAdmin(proxy.url, "POST", "/keys/alice/revoke", { token })).status).toBe(200);
    expect((await get(proxy, "/overview")).empty).toEqual({ keys: true, charges: true });
  });

  it("forecasts the month's cost and states the balance", async () => {
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
    await until(async () => (await get(proxy, "/overview")).balance !== null, "the balance is known");
    expect((await get(proxy, "/overview")).balance).toMatchObject({
      stale: false,
      balance_usd: expect.stringMatching(/^\d+\.\d\d/),
    });
  });

  it("sums a given span with filters, two dimensions and a comparison with the previous span", async () => {
    await using proxy = await started();
    await (await prepareMixedTraffic(proxy, 10)).round();
    const charges = (await proxy.charges()).filter(({ state }) => state === "posted");
    const { id: bob } = await get(proxy, "/keys/bob");
    const cost = sum(charges.filter(({ key }) => key === bob).map((charge) => charge.cost ?? (0n as PicoUsd)));
    const shown = await get(proxy, "/overview?since=today&key=bob&by=team&then_by=model&compare=previous");
    expect(shown.span).toMatchObject({
      name: null,
      since: shown.today.since,
      cost_usd: formatUsd(cost),
      previous: { requests: 0, cost_usd: "0.00" },
    });
    expect(Date.parse(shown.span.previous.since)).toBeLessThan(Date.parse(shown.span.since));
    expect(shown.series.rows).toMatchObject([{ name: "research", cost_usd: formatUsd(cost) }]);
    const [{ parts }] = shown.series.rows;
    expect(formatUsd(money(parts.map((part: { cost_usd: string }) => part.cost_usd)))).toBe(formatUsd(cost));
    for (const { name, cost_usd } of parts) {
      const { span: ofModel } = await get(proxy, `/overview?since=today&team=research&model=${name}&key=bob`);
      expect([name, ofModel.cost_usd]).toEqual([name, cost_usd]);
    }
  });

  it("starts a span of years at the first day of the ledger", async () => {
    await using proxy = await started();
    const empty = await get(proxy, "/overview?since=1970-01-01");
    expect(empty).toMatchObject({ span: { since: empty.today.since }, series: { bucket: "hour", rows: [] } });
    await (await prepareMixedTraffic(proxy, 10)).round();
    const costs = (await proxy.charges()).map((charge) => charge.cost ?? (0n as PicoUsd));
    const years = await get(proxy, "/overview?since=1970-01-01&by=key&then_by=model&compare=previous");
    expect(years.span).toMatchObject({ since: years.today.since, cost_usd: formatUsd(sum(costs)) });
    expect(years.series.bucket).toBe("hour");
    expect(years.series.rows.map(({ name }: { name: string }) => name)).toContain("bob");
    const early = await get(proxy, "/overview?since=1970-01-01&until=1980-01-01&compare=previous");
    expect(early.span).toMatchObject({
      since: "1979-12-31T00:00:00.000Z",
      until: "1980-01-01T00:00:00.000Z",
      requests: 0,
    });
  });

  it("shows the budgets at risk and the number of today's refusals", async () => {
    await using proxy = await started();
    const set = async (scope: string, period: string, limit_usd: string) =>
      callAdmin(proxy.url, "PUT", "/budgets", { token, body: { scope, period, limit_usd } });
    await set("all", "total", "1000");
    await set("key:alice", "1d", "0.000001");
    const bob = await proxy.addKey("bob");
    expect((await proxy.chat({})).status).toBe(402);
    await (await proxy.chat({}, { key: bob })).text();
    await until(async () => (await get(proxy, "/overview")).refused_today === 1);
    const { at_risk } = await get(proxy, "/overview");
    expect(at_risk).toMatchObject([{ scope: "key:alice", period: "1d", refusing: 1, fullest: [{ refusing: true }] }]);
    expect(await get(proxy, "/overview?key=bob")).toMatchObject({ refused_today: 0, at_risk: [] });
    expect(await get(proxy, "/overview?model=gpt-4o")).toMatchObject({ refused_today: 1, at_risk: [] });
    expect((await getAsKey(proxy, "/overview")).json).toMatchObject({ refused_today: 1, at_risk: [] });
    expect((await getAsKey(proxy, "/overview", bob)).json).toMatchObject({ refused_today: 0, at_risk: [] });
  });

  it("refuses invalid and unknown parameters", async () => {
    await using proxy = await started();
    for (const path of [
      "/overview?span=1d",
      "/overview?by=tag:a",
      "/overview?until=0s",
      "/overview?span=7d&since=7d",
      "/overview?since=0s",
      "/overview?since=1d&until=2d",
      "/overview?since=soon",
      "/overview?since=0001-01-01T00:00:00Z&until=1969-01-01T00:00:00Z",
      "/overview?by=team&then_by=team",
      "/overview?then_by=day",
      "/overview?compare=next",
      "/requests/live?after=x",
      "/requests/live?limit=0",
    ]) {
      expect([path, (await callAdmin(proxy.url, "GET", path, { token })).status]).toEqual([path, 400]);
    }
    expect((await callAdmin(proxy.url, "GET", "/requests/live?key=stranger", { token })).status).toBe(404);
    // Two thousand years of months would keep the proxy busy for seconds.
    const { span, today } = await get(proxy, "/overview?since=0001-01-01T00:00:00Z");
    expect(span.since).toBe(today.since);
  });

  it("shows a key only its own spending", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob");
    await (await proxy.chat({})).text();
    await (await proxy.chat({ model: "gpt-4o-mini" }, { key: bob })).text();
    await proxy.charges();
    const { json } = await getAsKey(proxy, "/overview?span=24h", bob);
    expect(json).toMatchObject({
      today: { requests: 1 },
      balance: null,
      series: { rows: [{ name: "gpt-4o-mini" }], other: null },
      top: { keys: [{ name: "bob" }], models: [{ name: "gpt-4o-mini" }] },
    });
    expect(JSON.stringify(json)).not.toMatch(/alice|gpt-4o"/);
    expect((await getAsKey(proxy, "/overview?by=key", bob)).status).toBe(400);
    const live = await getAsKey(proxy, "/requests/live", bob);
    expect(live.json.charges.map(({ key }: { key: string }) => key)).toEqual(["bob"]);
    expect((await getAsKey(proxy, "/requests/live?key=alice", bob)).status).toBe(400);
  });
});

describe("GET /requests/live", () => {
  it("follows a request from its hold to its settlement", async () => {
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

describe("GET /charges/{request_id}", () => {
  it("has items that add up to the cost, and explains the source", async () => {
    await using proxy = await started();
    await (await prepareMixedTraffic(proxy, 10)).round();
    for (const { id, cost, listCost, state, formula } of await proxy.charges()) {
      const shown = await get(proxy, `/charges/${id}`);
      const hasItems = formula === "tokens" || formula === "per_request";
      expect([id, shown.items.length > 0]).toEqual([id, hasItems]);
      if (hasItems)
        expect([
          money(shown.items.map((item: Record<string, string>) => item.cost_usd)),
          money(shown.items.map((item: Record<string, string>) => item.list_cost_usd)),
        ]).toEqual([cost, listCost]);
      expect(shown).toMatchObject({
        formula,
        known: expect.stringMatching(/\.$/),
        price: hasItems ? { model: shown.model, source: expect.any(String) } : expect.anything(),
      });
      if (state === "voided") expect(shown.known).toBe("It cost nothing.");
    }
    const [{ id } = { id: "" }] = await proxy.charges();
    const { json } = await getAsKey(proxy, `/charges/${id}`);
    expect(json.items.length).toBeGreaterThan(0);
  });
});

describe("GET /health", () => {
  it("shows holds, the gateway's errors by minute, and why nothing is reconciled yet", async () => {
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
  it("has every price of a model, under any of its names", async () => {
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
    expect((await callAdmin(proxy.url, "GET", "/prices/none/history", { token })).status).toBe(404);
  });
});

describe("long lists", () => {
  it("of keys and budgets contain each row once and in order, over all pages", async () => {
    await using proxy = await started();
    for (let index = 0; index < 6; index++) await proxy.addKey(`key-${index}`);
    await proxy.budget("each-key", "5", "1d");
    await proxy.budget("all", "50", "1mo");
    await callAdmin(proxy.url, "POST", "/keys/key-3/revoke", { token });
    for (const [path, list, count] of [
      ["/keys", "keys", 7],
      ["/keys?state=live", "keys", 6],
      ["/keys?state=live,revoked", "keys", 7],
      ["/keys?state=suspended", "keys", 0],
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
      expect((await callAdmin(proxy.url, "GET", `${path.split("?")[0]}?cursor=none`, { token })).status).toBe(400);
    }
  });
});
