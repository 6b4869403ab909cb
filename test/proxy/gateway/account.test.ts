import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noOutbound } from "../../../src/config/outbound.ts";
import { Secret } from "../../../src/config/secret.ts";
import type { Settings } from "../../../src/config/settings.ts";
import { createGateway } from "../../../src/gateway/gateway.ts";
import { createAccountCache } from "../../../src/request/account.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { SandboxOptions } from "../../../src/sandbox/options.ts";
import { readAccountOnce } from "../../../src/server/account.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { captureLog } from "../../support/captured-log.ts";
import { metricsWith } from "../../support/example-metrics.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, errorCode, type WireAnswer } from "../../support/wire-client.ts";
import { stillClock } from "../../support/still-clock.ts";

function accountInfo(proxy: RunningProxy): Promise<WireAnswer> {
  return fetchAnswer(proxy, undefined, { path: "/account/info", method: "GET" });
}

/** Receives reports of the gateway's key, which these tests do not need. */
const keyWatch = { setRefused: () => undefined };

const jsonOf = ({ body }: WireAnswer) => JSON.parse(body.toString());

describe("the account record", () => {
  it("is fetched once, then cached, without its secrets", async () => {
    await using proxy = await startProxy({ clock: stillClock() });
    const first = await accountInfo(proxy);
    expect(first).toMatchObject({
      status: 200,
      headers: { "x-farebox-cache": "miss", age: "0", "content-type": "application/json" },
    });
    const second = await accountInfo(proxy);
    expect(second).toMatchObject({ status: 200, headers: { "x-farebox-cache": "hit" } });
    expect(second.body).toEqual(first.body);
    expect(proxy.sandbox.accountRequests).toHaveLength(1);
    expect(proxy.sandbox.accountRequests[0]?.headers["x-api-key"]).toBe("sk-sandbox");
    const { data } = jsonOf(first);
    expect(data).toMatchObject({
      api_key: "<hidden>",
      notification_hook_url: "<hidden>",
      equivalent_in_usd: 25,
      plan: "creator",
    });
    expect(data.credit_pack_info.available_credits).toBe(250_000_000);
    expect(first.body.toString()).not.toMatch(/sk-sandbox|hook-secret/);
    expect(await proxy.charges()).toEqual([]);
    expect(await proxy.metrics()).toMatch(/^farebox_balance_usd 25$/m);
  });

  it("is fetched once for concurrent misses", async () => {
    await using proxy = await startProxy({ sandbox: { latencyMs: 20 } });
    const answers = await Promise.all(Array.from({ length: 20 }, () => accountInfo(proxy)));
    expect(new Set(answers.map(({ headers }) => headers["x-farebox-cache"])).size).toBeLessThanOrEqual(2);
    for (const answer of answers) expect(jsonOf(answer).data.equivalent_in_usd).toBe(25);
    expect(proxy.sandbox.accountRequests).toHaveLength(1);
  });

  it("is served from the cache, with its age, during a refresh and while the gateway fails", async () => {
    const clock = manualClock();
    // Ages are measured from an instant above 0, as on every running machine.
    clock.advance(1);
    let scenario: string | undefined;
    await using sandbox = await startSandbox({ scenario: () => scenario });
    await using gateway = await createGateway("http-proxy-middleware", {
      baseUrl: sandbox.url,
      apiKey: sandbox.apiKey,
      clock: systemClock(),
    });
    const { events } = metricsWith({ clock });
    const account = createAccountCache({ gateway, clock, events, keyWatch, ttlMs: 60_000, silenceMs: 60_000 });
    const look = async () => {
      const found = await account.lookUp();
      if (!found.ok) throw new Error("no record");
      return {
        freshness: found.freshness,
        usd: (found.record.body["data"] as { equivalent_in_usd: number }).equivalent_in_usd,
        at: found.record.fetchedAt,
      };
    };
    const start = clock.now();
    expect(await look()).toEqual({ freshness: "miss", usd: 25, at: start });
    sandbox.topUp("5");
    clock.advance(59_999);
    expect(await look()).toMatchObject({ freshness: "hit", usd: 25 });

    scenario = "status:500";
    clock.advance(2);
    expect(await look()).toEqual({ freshness: "stale", usd: 25, at: start });
    await sandbox.waitFor(({ accountRequests: asked }) => asked.length === 2 && asked[1]?.ended === "answered");
    expect(await look()).toMatchObject({ freshness: "stale", usd: 25 });

    scenario = undefined;
    let last = await look();
    while (last.freshness === "stale") {
      await new Promise((resolve) => setImmediate(resolve));
      last = await look();
    }
    expect(last).toMatchObject({ usd: 30, at: start + 60_001 });
  });

  it("reaches waiting callers although a refresh answers first", async () => {
    const clock = manualClock();
    await using gateway = await scriptedGateway();
    await using engine = await createGateway("http-proxy-middleware", {
      baseUrl: gateway.url,
      apiKey: "sk-test",
      clock: systemClock(),
    });
    const { events } = metricsWith({ clock });
    const account = createAccountCache({ gateway: engine, clock, events, keyWatch, ttlMs: 60_000, silenceMs: 60_000 });
    const lookingUp = account.lookUp();
    const first = await gateway.next();
    const refreshing = account.refresh();
    const second = await gateway.next();
    second.response.end('{"data":{"equivalent_in_usd":2}}');
    expect(await refreshing).toMatchObject({ body: { data: { equivalent_in_usd: 2 } } });
    first.response.end('{"data":{"equivalent_in_usd":1}}');
    expect(await lookingUp).toMatchObject({ ok: true, record: { body: { data: { equivalent_in_usd: 1 } } } });
  });
});

describe("the account record with FAREBOX_ACCOUNT_INFO", () => {
  it("set to balance has only the balance and the credits", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ACCOUNT_INFO: "balance" } });
    expect(jsonOf(await accountInfo(proxy))).toEqual({
      code: 200,
      data: {
        equivalent_in_usd: 25,
        credit_pack_info: {
          total_credits: 250_000_000,
          used_credits: 0,
          frozen_credits: 0,
          available_credits: 250_000_000,
        },
      },
      message: "success",
    });
  });

  it("set to admin is not found, and the gateway is not asked", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ACCOUNT_INFO: "admin" } });
    const answer = await accountInfo(proxy);
    expect(answer.status).toBe(404);
    expect(errorCode(answer)).toBe("not_found");
    expect(proxy.sandbox.accountRequests).toEqual([]);
  });

  it.each(["data", "root", "wallet", "credit_pack_info", "absent"] as const)(
    "set to balance has equivalent_in_usd where the gateway states it: %s",
    async (equivalentInUsd) => {
      await using proxy = await startProxy({ sandbox: { equivalentInUsd }, env: { FAREBOX_ACCOUNT_INFO: "balance" } });
      const record = jsonOf(await accountInfo(proxy));
      const { data } = record;
      expect({
        data: data.equivalent_in_usd,
        root: record.equivalent_in_usd,
        wallet: data.wallet?.equivalent_in_usd,
        credit_pack_info: data.credit_pack_info.equivalent_in_usd,
      }).toEqual(equivalentInUsd === "absent" ? {} : { [equivalentInUsd]: 25 });
      // Absent instead of 0 if it is unknown.
      expect(/^farebox_balance_usd /m.test(await proxy.metrics())).toBe(equivalentInUsd !== "absent");
    },
  );
});

describe("GET /account/info", () => {
  const sandboxed = (scenario: string): { sandbox: SandboxOptions } => ({ sandbox: { scenario: () => scenario } });
  const impatient: ProxyOptions = {
    adjust: (settings) => ({ ...settings, gateway: { ...settings.gateway, silenceMs: 150 } }),
  };

  it("requires a key", async () => {
    await using proxy = await startProxy();
    const answer = await fetchAnswer({ url: proxy.url, key: "sk-fb-none-xxxxxxxxxxxxxxxxxxxxxxxx" }, undefined, {
      path: "/account/info",
      method: "GET",
    });
    expect(answer.status).toBe(401);
    expect(proxy.sandbox.accountRequests).toEqual([]);
  });

  it("passes the gateway's errors, masked and uncached", async () => {
    let scenario: string | undefined = "status:403+echo-key";
    await using proxy = await startProxy({ sandbox: { scenario: () => scenario } });
    const answer = await accountInfo(proxy);
    expect(answer.status).toBe(403);
    expect(jsonOf(answer)).toMatchObject({ code: 403, data: null });
    expect(answer.body.toString()).not.toContain("sk-sandbox");
    scenario = "status:500";
    expect((await accountInfo(proxy)).status).toBe(500);
    scenario = undefined;
    expect((await accountInfo(proxy)).headers["x-farebox-cache"]).toBe("miss");
  });

  it.each([
    ["an HTML page", "html:200", 502, "gateway_unreachable"],
    ["an empty answer", "empty", 502, "gateway_unreachable"],
    ["incomplete JSON", "bad-json", 502, "gateway_unreachable"],
    ["a reset", "reset-before", 502, "gateway_unreachable"],
    ["a foreign redirect", "redirect-foreign", 502, "gateway_redirect"],
    ["a silent gateway", "silent", 504, "gateway_timeout"],
  ])("answers with Farebox's own error for %s", async (_what, scenario, status, code) => {
    await using proxy = await startProxy({ ...sandboxed(scenario), ...(scenario === "silent" && impatient) });
    const answer = await accountInfo(proxy);
    expect(answer.status).toBe(status);
    expect(errorCode(answer)).toBe(code);
  });

  describe("before a scripted gateway", () => {
    let gateway: ScriptedGateway;
    let proxy: RunningProxy;
    beforeAll(async () => {
      gateway = await scriptedGateway();
      proxy = await startProxy({ gatewayUrl: gateway.url });
    });
    afterAll(async () => {
      await proxy[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    });

    it("masks the key in a compressed error", async () => {
      const answering = accountInfo(proxy);
      const { response } = await gateway.next();
      const body = gzipSync(JSON.stringify({ code: 402, message: "key sk-sandbox" }));
      response
        .writeHead(402, { "content-type": "application/json", "content-encoding": "gzip", "x-echo": "sk-sandbox" })
        .end(body);
      const answer = await answering;
      expect(answer.status).toBe(402);
      expect(jsonOf(answer).message).toBe("key <hidden>");
      expect(answer.rawHeaders.join("\n")).not.toContain("sk-sandbox");
    });

    it.each([
      ["compressed", "gzip", gzipSync('{"id":1}')],
      ["after a byte order mark", "identity", Buffer.from('\ufeff{"id":1}')],
    ])("is read once for a command if it is %s", async (_how, encoding, body) => {
      const address = { origin: gateway.url, basePath: "" };
      const settings = {
        gateway: { address, apiKey: new Secret("sk"), engine: "undici", silenceMs: 5_000 },
        outbound: noOutbound,
      };
      const reading = readAccountOnce(settings as Settings, systemClock());
      const { response } = await gateway.next();
      response.writeHead(200, { "content-type": "application/json", "content-encoding": encoding }).end(body);
      expect(await reading).toMatchObject({ ok: true, record: { id: 1 } });
    });

    const fixture = readFileSync(new URL("../../fixtures/account-record.json", import.meta.url));

    it("passes the record unchanged except for its secrets, and sets the metrics", async () => {
      await using whole = await startProxy({ gatewayUrl: gateway.url });
      const answering = accountInfo(whole);
      const { request, response } = await gateway.next();
      expect(request.headers["x-api-key"]).toBe("sk-sandbox");
      response.writeHead(200, { "content-type": "application/json" }).end(fixture);
      const { body } = await answering;
      expect(body.toString()).toBe(
        fixture
          .toString()
          .replace('"<API_KEY>"', '"<hidden>"')
          .replace('"https://hooks.example.com/gateway?token=hook-secret"', '"<hidden>"'),
      );
      const page = await whole.metrics();
      for (const line of [
        "farebox_balance_usd 12.345675",
        'farebox_credits{kind="total"} 2500000',
        'farebox_credits{kind="used"} 1265332.5',
        'farebox_credits{kind="frozen"} 100',
        'farebox_credits{kind="available"} 1234567.5',
        'farebox_account_info{plan="creator",type="ppu"} 1',
      ])
        expect(page).toContain(`\n${line}\n`);
    });

    it("with FAREBOX_ACCOUNT_INFO=balance writes amounts as the gateway does", async () => {
      await using view = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_ACCOUNT_INFO: "balance" } });
      const answering = accountInfo(view);
      const { response } = await gateway.next();
      response.writeHead(200, { "content-type": "application/json" }).end(fixture);
      expect((await answering).body.toString()).toBe(
        '{"code":200,"data":{"equivalent_in_usd":12.3456750,"credit_pack_info":{"total_credits":2500000.00,"used_credits":1265332.5,"frozen_credits":100,"available_credits":1234567.50}},"message":"success"}',
      );
    });

    it("clears metrics of values that a later record omits, and replaces the plan", async () => {
      await using changing = await startProxy({ gatewayUrl: gateway.url });
      const read = async (data: object) => {
        const sampling = changing.serving.sampler.sample();
        const { response } = await gateway.next();
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ code: 200, data }));
        await sampling;
        const lines = (await changing.metrics())
          .split("\n")
          .filter((line) => /^farebox_(credits|account_info|balance_usd)/.test(line));
        return new Set(lines);
      };
      expect(await read({ plan: 'a "b"\n', credit_pack_info: { used_credits: 5, available_credits: 0 } })).toEqual(
        new Set([
          'farebox_credits{kind="used"} 5',
          'farebox_credits{kind="available"} 0',
          'farebox_account_info{plan="a \\"b\\" ",type=""} 1',
        ]),
      );
      expect(
        await read({ plan: "x".repeat(100), equivalent_in_usd: 3, credit_pack_info: { used_credits: 6 } }),
      ).toEqual(
        new Set([
          "farebox_balance_usd 3",
          'farebox_credits{kind="used"} 6',
          `farebox_account_info{plan="${"x".repeat(64)}",type=""} 1`,
        ]),
      );
      expect(await read({ id: 7 })).toEqual(new Set());
    });

    it.each([
      '{"code":401,"data":null}',
      '{"code":500,"data":{}}',
      '{"code":10001,"data":{"equivalent_in_usd":9}}',
      '{"code":200,"data":null}',
      '{"code":200,"message":"success","request_id":"r"}',
      '{"code":200,"data":{"error":"no"}}',
      '{"success":false,"data":{"plan":"x"}}',
      '{"error":{"message":"no"}}',
      '{"data":[]}',
      "{}",
    ])("keeps the last record, and sets the gauge to 0, after the answer 200 with %s", async (body) => {
      const log = captureLog();
      await using failing = await startProxy({ gatewayUrl: gateway.url, log });
      const sample = async (text: string) => {
        const sampling = failing.serving.sampler.sample();
        (await gateway.next()).response.writeHead(200, { "content-type": "application/json" }).end(text);
        return await sampling;
      };
      const gauges = async () =>
        (await failing.metrics()).split("\n").filter((line) => /^farebox_balance_(?:up|usd) /.test(line));
      await sample('{"code":200,"data":{"equivalent_in_usd":5}}');
      expect(await gauges()).toEqual(["farebox_balance_up 1", "farebox_balance_usd 5"]);
      expect([await sample(body), await sample(body)]).toEqual([undefined, undefined]);
      expect(await gauges()).toEqual(["farebox_balance_up 0", "farebox_balance_usd 5"]);
      expect(jsonOf(await accountInfo(failing)).data).toEqual({ equivalent_in_usd: 5 });
      expect(log.lines.filter(({ message }) => message.includes("account"))).toHaveLength(1);
      await sample('{"code":200,"data":{"equivalent_in_usd":6}}');
      expect(await gauges()).toEqual(["farebox_balance_up 1", "farebox_balance_usd 6"]);
    });

    it("is not read for a command if the answer states an error", async () => {
      const address = { origin: gateway.url, basePath: "" };
      const settings = {
        gateway: { address, apiKey: new Secret("sk"), engine: "undici", silenceMs: 5_000 },
        outbound: noOutbound,
      };
      for (const [body, message] of [
        ['{"code":401,"data":null}', "refuses the key of this proxy; check FAREBOX_GATEWAY_API_KEY"],
        ['{"code":200,"data":null}', "sent an answer that is not an account record"],
      ] as const) {
        const reading = readAccountOnce(settings as Settings, systemClock());
        (await gateway.next()).response.end(body);
        expect(await reading).toEqual({ ok: false, message: `the gateway at ${gateway.url} ${message}` });
      }
    });

    it("with FAREBOX_ACCOUNT_INFO=balance has the balance in any object of the record", async () => {
      await using view = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_ACCOUNT_INFO: "balance" } });
      const answering = accountInfo(view);
      const { response } = await gateway.next();
      response.end('{"code":200,"data":{"email":"a@b.example","funds":{"main":{"equivalent_in_usd":1.50,"a":1}}}}');
      expect((await answering).body.toString()).toBe(
        '{"code":200,"data":{"funds":{"main":{"equivalent_in_usd":1.50}}}}',
      );
    });

    it("answers 502 to a record that never ends", async () => {
      const answering = accountInfo(proxy);
      const { response, closed } = await gateway.next();
      response.writeHead(200, { "content-type": "application/json" });
      const fill = Buffer.alloc(1024 * 1024, " ");
      for (let written = 0; written < 6; written += 1) response.write(fill);
      const answer = await answering;
      expect(answer.status).toBe(502);
      await closed;
    });
  });
});
