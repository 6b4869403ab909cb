import { describe, expect, it } from "vitest";
import { presets } from "../../../src/core/price.ts";
import { captureLog } from "../../support/captured-log.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchRaw, expectRefusal, head } from "../../support/raw-client.ts";

const get = (proxy: RunningProxy, target: string, ...lines: string[]) =>
  fetchRaw(proxy.url, head(proxy.url, `GET ${target}`, ...lines));

describe("the health endpoints", () => {
  it("answer JSON without a key", async () => {
    await using proxy = await startProxy();
    expect(await get(proxy, "/healthz")).toMatchObject({
      status: 200,
      headers: { "content-type": ["application/json"] },
      body: '{"status":"ok"}',
    });
    const ready = await get(proxy, "/readyz");
    expect(ready).toMatchObject({ status: 200, headers: { "content-type": ["application/json"] } });
    expect(JSON.parse(ready.body)).toEqual({
      status: "ready",
      checks: { accepting: true, ledger: true, prices: true },
      catalogue: expect.stringMatching(/^[0-9a-f]{16,}$/),
      prices: {
        preset: "piapi",
        preset_setting: "FAREBOX_PRESET",
        reviewed_on: "2026-11-22",
        age_days: expect.any(Number),
        review_due: expect.any(Boolean),
      },
    });
  });
});

it.each(presets)(
  "the preset %s is in the log at the start, in /readyz and in the health of the admin API",
  async (preset) => {
    const log = captureLog();
    await using proxy = await startProxy({
      env: { FAREBOX_PRESET: preset, FAREBOX_ADMIN_TOKEN: "preset-admin-token" },
      log,
    });
    const ready = JSON.parse((await get(proxy, "/readyz")).body);
    expect(ready.prices.preset).toBe(preset);
    const [line] = await log.logged("prices in force");
    expect(line).toMatchObject({ level: "info", fields: { preset, catalogue: ready.catalogue } });
    const health = await get(proxy, "/admin/v1/health", "Authorization: Bearer preset-admin-token");
    expect(JSON.parse(health.body).prices).toMatchObject({ preset, digest: ready.catalogue });
  },
);

describe("/metrics", () => {
  it("without a token is served only on this machine, not through a forwarder", async () => {
    await using proxy = await startProxy();
    expect((await get(proxy, "/metrics")).status).toBe(200);
    for (const line of [
      "X-Forwarded-For: 127.0.0.1",
      "Forwarded: for=1.2.3.4",
      "Via: 1.1 proxy",
      "X-Forwarded-Proto: https",
      "X-Real-IP: 10.0.0.1",
    ]) {
      expectRefusal(await get(proxy, "/metrics", line), 404, "not_found");
    }
  });

  it.each(["127.0.0.1", "0.0.0.0", "::"])(
    "without a token is served only under a loopback name, listening on %s",
    async (listenOn) => {
      await using proxy = await startProxy({ env: { FAREBOX_HOST: listenOn } });
      const { port } = new URL(proxy.url);
      const metrics = (...lines: string[]) =>
        fetchRaw(`http://127.0.0.1:${port}`, head(`http://127.0.0.1:${port}`, "GET /metrics", ...lines));
      for (const host of ["127.0.0.1", `localhost:${port}`, "[::1]"])
        expect(await metrics(`Host: ${host}`)).toMatchObject({ status: 200 });
      for (const host of ["rebound.example", `rebound.example:${port}`, "0.0.0.0", "localhost.rebound.example", ""]) {
        const answer = await metrics(`Host: ${host}`);
        expect([404, 421], host).toContain(answer.status);
        expect(answer.body).not.toContain("farebox_requests_total");
      }
    },
  );

  it("with a token is served to its bearer, from anywhere", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_METRICS_TOKEN: "scrape-me-please-1234567890" } });
    for (const lines of [
      [],
      ["Authorization: Bearer wrong"],
      [`Authorization: Bearer ${proxy.key}`],
      ["x-api-key: scrape-me-please-1234567890"],
      ["Authorization: Basic scrape-me-please-1234567890"],
    ]) {
      expectRefusal(await get(proxy, "/metrics", ...lines), 401, "invalid_api_key");
    }
    for (const lines of [[], ["X-Forwarded-For: 10.0.0.1"], ["Host: localhost"]]) {
      expect((await get(proxy, "/metrics", "Authorization: bearer scrape-me-please-1234567890", ...lines)).status).toBe(
        200,
      );
    }
  });

  it("has Prometheus' text format and counts each request and refusal", async () => {
    await using proxy = await startProxy();
    await (await proxy.chat({ max_tokens: 5 })).text();
    await (await proxy.chat({ n: 0 })).text();
    await proxy.serving.settled();
    const page = await get(proxy, "/metrics");
    expect(page.headers["content-type"]?.[0]).toMatch(/^text\/plain; version=0\.0\.4/);
    const sample =
      /^([a-z_0-9]+)(\{[a-z_]+="[^"\n]*"(?:,[a-z_]+="[^"\n]*")*\})? (-?[0-9.]+(?:e[+-]?\d+)?|[+-]Inf|NaN)$/;
    const kinds = new Map<string, string>();
    for (const line of page.body.split("\n").filter((text) => text !== "")) {
      const type = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line);
      if (type !== null) {
        expect(kinds.has(type[1] ?? ""), line).toBe(false);
        kinds.set(type[1] ?? "", type[2] ?? "");
      } else if (!/^# HELP \S+ \S/.test(line)) {
        const name = sample.exec(line)?.[1] ?? `no sample: ${line}`;
        expect(kinds.has(name) || kinds.has(name.replace(/_(?:bucket|sum|count)$/, "")), name).toBe(true);
      }
    }
    expect(kinds.get("farebox_requests_total")).toBe("counter");
    expect(page.body).toContain('farebox_refusals_total{code="invalid_request"} 1');
    expect(page.body).toMatch(
      /farebox_requests_total\{route="\/v1\/chat\/completions",model="gpt-4o",status="200",stream="false"\} 1/,
    );
    expect(page.body).not.toContain(proxy.key);
    expect(page.body).not.toContain(proxy.sandbox.apiKey);
  });
});

describe("open mode", () => {
  it("requires no key from clients on this machine", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_AUTH: "open" } });
    for (const lines of [
      [],
      ["Authorization: Bearer sk-whatever-the-client-has"],
      ["x-api-key: x"],
      [`Authorization: Bearer ${proxy.key}`],
    ]) {
      expect(await get(proxy, "/v1/models", ...lines)).toMatchObject({ status: 200 });
    }
  });

  it("requires a key from clients behind a forwarder, and refuses wrong keys", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_AUTH: "open" } });
    for (const name of [
      "Forwarded",
      "X-Forwarded-For",
      "X-Forwarded-Host",
      "X-Forwarded-Proto",
      "X-Real-IP",
      "Via",
      "CF-Connecting-IP",
    ]) {
      expectRefusal(await get(proxy, "/v1/models", `${name}: x`), 401, "invalid_api_key");
      expect(await get(proxy, "/v1/models", `${name}: x`, `Authorization: Bearer ${proxy.key}`)).toMatchObject({
        status: 200,
      });
    }
    expectRefusal(
      await get(proxy, "/v1/models", `Authorization: Bearer sk-fb-aaaa-${"x".repeat(43)}`),
      401,
      "invalid_api_key",
    );
  });
});

describe("the list of models", () => {
  interface Model {
    readonly id: string;
    readonly object: string;
    readonly created: number;
    readonly owned_by: string;
  }

  it("has the models that the key may use, in OpenAI's format", async () => {
    await using proxy = await startProxy();
    const mini = await proxy.addKey("mini", { models: ["gpt-4o-mini", "claude-*"] });
    const listed = async (key: string) =>
      JSON.parse((await get(proxy, "/v1/models", `Authorization: Bearer ${key}`)).body) as {
        object: string;
        data: Model[];
      };
    const all = await listed(proxy.key);
    expect(all.object).toBe("list");
    expect(all.data.find(({ id }) => id === "gpt-4o")).toEqual({
      id: "gpt-4o",
      object: "model",
      created: expect.any(Number),
      owned_by: "openai",
    });
    // Day of the price in force, which changes with a new entry.
    const from = Date.parse("2020-01-01T00:00:00Z") / 1000;
    const isDated = ({ created }: Model) => Number.isInteger(created) && created >= from;
    expect(all.data.filter((model) => model.object !== "model" || !isDated(model))).toEqual([]);
    const few = (await listed(mini)).data.map(({ id }) => id);
    expect(few).toContain("gpt-4o-mini");
    expect(few.filter((id) => id !== "gpt-4o-mini" && !id.startsWith("claude-"))).toEqual([]);
  });

  it("does not include unknown models that the default price serves", async () => {
    using prices = priceFolder(
      "default: { context_tokens: 1000, max_output_tokens: 100, prices: [{ from: 2026-01-01, source: test, official: { input: '1', output: '2' }, gateway: { input: '1', output: '2' } }] }\n",
    );
    await using proxy = await startProxy({ env: { FAREBOX_PRICING: prices.path } });
    expect(await (await proxy.chat({ model: "unheard-of", max_tokens: 5 })).status).toBe(200);
    expect(await proxy.onlyCharge()).toMatchObject({ cost: expect.any(BigInt) });
    expectRefusal(await get(proxy, "/v1/models/unheard-of", `Authorization: Bearer ${proxy.key}`), 404, "not_found");
  });

  it("answers for one model by its id, an alias, an escaped name or another spelling", async () => {
    await using proxy = await startProxy();
    const one = (name: string, key = proxy.key) => get(proxy, `/v1/models/${name}`, `Authorization: Bearer ${key}`);
    for (const name of ["gpt-4o", "gpt-4o-2024-11-20", "gpt%2D4o", "%67pt-4o", "GPT-4o", "gpt-4o%20"]) {
      const answer = await one(name);
      expect(answer.status, name).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ id: "gpt-4o", object: "model" });
    }
    for (const name of ["unheard-of", "__proto__", "gpt-4o%00", "%E2%82%AC", "%22%3E"])
      expectRefusal(await one(name), 404, "not_found");
    const mini = await proxy.addKey("mini", { models: ["gpt-4o-mini"] });
    expect(await one("gpt-4o-mini", mini)).toMatchObject({ status: 200 });
    expectRefusal(await one("gpt-4o", mini), 404, "not_found");
    expectRefusal(await get(proxy, "/v1/models/gpt-4o"), 401, "invalid_api_key");
  });
});
