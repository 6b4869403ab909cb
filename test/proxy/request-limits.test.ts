import { describe, expect, it } from "vitest";
import { resumeKey, revokeKey, rotateKey, suspendKey, updateKey } from "../../src/admin/key-changes.ts";
import { createTeam, updateTeam } from "../../src/admin/team-changes.ts";
import type { RateLimitsChange } from "../../src/core/rate-limits.ts";
import { completionTotal, promptTotal } from "../../src/core/usage.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { errorOf } from "../support/answers.ts";
import { size } from "../support/effort.ts";
import { patientClock } from "../support/patient-clock.ts";
import { startPausedRelay } from "../support/paused-relay.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { delta, done, finish, scriptedGateway } from "../support/scripted-gateway.ts";
import { stillClock } from "../support/still-clock.ts";
import type { SeenRequest } from "../../src/sandbox/options.ts";

const toolsOf = ({ serving }: RunningProxy, clock: Clock = systemClock()) => ({
  keys: serving.keys,
  teams: serving.teams,
  clock,
  by: "test",
});

function rateLimits(response: Response): Record<string, string> {
  const found = [...response.headers].filter(([name]) => name.startsWith("x-ratelimit-"));
  return Object.fromEntries(found.map(([name, value]) => [name.slice("x-ratelimit-".length), value]));
}

interface Left {
  readonly remaining: number;
  readonly limit: number;
}

async function limitsOf(proxy: RunningProxy, key: string): Promise<Record<"rpm" | "tpm" | "parallel", Left | null>> {
  const response = await fetch(`${proxy.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${key}` } });
  return ((await response.json()) as { limits: Record<"rpm" | "tpm" | "parallel", Left | null> }).limits;
}

const small = { max_tokens: 5 };

/** Returns the sandbox's scenario for a request, taken from a header. */
const scenarioOf = ({ headers }: { readonly headers: Readonly<Record<string, unknown>> }) =>
  String(headers["x-client-request-id"] ?? "") || undefined;
const withScenario = (scenario: string) => ({ "x-client-request-id": scenario });

describe("the limit of requests per minute", () => {
  it("refuses with 429 and OpenAI's headers at no cost, and resets", async () => {
    const clock = stillClock();
    await using proxy = await startProxy({ clock });
    const key = await proxy.addKey("bob", { limits: { rpm: 3 } });
    for (const remaining of ["2", "1", "0"]) {
      const response = await proxy.chat(small, { key });
      expect(response.status).toBe(200);
      expect(rateLimits(response)).toMatchObject({
        "limit-requests": "3",
        "remaining-requests": remaining,
        "reset-requests": expect.stringMatching(/^1m[01]s$/),
      });
      await response.text();
    }
    const refused = await proxy.chat(small, { key });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("x-farebox-error")).toBe("rate_limit_exceeded");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(50);
    expect(rateLimits(refused)).toMatchObject({ "remaining-requests": "0" });
    expect(await errorOf(refused)).toMatchObject({
      type: "rate_limit_error",
      code: "rate_limit_exceeded",
      param: null,
      metadata: { scope: "key:bob", limit: "rpm", value: "3" },
    });
    expect(await proxy.charges()).toHaveLength(3);
    expect(proxy.sandbox.requests).toHaveLength(3);
    expect(await proxy.metrics()).toContain('farebox_refusals_total{code="rate_limit_exceeded"} 1');
    clock.forward(61_000);
    expect((await proxy.chat(small, { key })).status).toBe(200);
  });

  it("replaces the gateway's rate limit headers for a key with a limit, and forwards them for a key without one", async () => {
    await using gateway = await scriptedGateway();
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const key = await proxy.addKey("bob", { limits: { rpm: 9 } });
    const theirs = { "x-ratelimit-limit-requests": "10000", "X-RateLimit-Remaining-Tokens": "77", "retry-after": "3" };
    const chatRefusedByGateway = async (init: object) => {
      const response = proxy.chat(small, init);
      const received = await gateway.nextChat();
      received.response
        .writeHead(429, { "content-type": "application/json", ...theirs })
        .end('{"error":{"message":"slow down"}}');
      return await response;
    };
    const limited = await chatRefusedByGateway({ key });
    expect(rateLimits(limited)).toEqual({
      "limit-requests": "9",
      "remaining-requests": "8",
      "reset-requests": expect.any(String),
    });
    expect(limited.headers.get("retry-after")).toBe("3");
    expect(rateLimits(await chatRefusedByGateway({}))).toEqual({ "limit-requests": "10000", "remaining-tokens": "77" });
  });
});

describe("the limit of tokens per minute", () => {
  const used = async (proxy: RunningProxy) =>
    (await proxy.charges()).reduce((sum, { tokens }) => sum + promptTotal(tokens) + completionTotal(tokens), 0);

  it("reserves tokens at admission and replaces them with the answer's usage", async () => {
    await using proxy = await startProxy({ sandbox: { scenario: scenarioOf }, clock: stillClock() });
    const key = await proxy.addKey("bob", { limits: { tpm: 5000 } });
    const whole = await proxy.chat({ max_tokens: 50 }, { key });
    expect(Number(whole.headers.get("x-ratelimit-remaining-tokens"))).toBeLessThan(5000);
    await whole.text();
    await (await proxy.chat({ max_tokens: 50, stream: true }, { key })).text();
    await (await proxy.chat({ stream: true }, { key, headers: withScenario("cut:5") })).text().catch(() => undefined);
    await (await proxy.chat({ max_tokens: 50 }, { key, headers: withScenario("status:500") })).text();
    const all = await used(proxy);
    expect(all).toBeGreaterThan(100);
    expect((await limitsOf(proxy, key)).tpm?.remaining).toBe(5000 - all);
  });

  it("returns the tokens of a request that a budget refuses, and refuses without a charge", async () => {
    await using proxy = await startProxy({ clock: stillClock() });
    const key = await proxy.addKey("bob", { limits: { tpm: 2000, rpm: 100 } });
    await proxy.budget("key:bob", "0.0000001");
    expect((await proxy.chat(small, { key })).status).toBe(402);
    expect(await limitsOf(proxy, key)).toMatchObject({ tpm: { remaining: 2000 }, rpm: { remaining: 99 } });
    await proxy.budget("key:bob", "5");
    const words = (count: number) => ({ ...small, messages: [{ role: "user", content: "word ".repeat(count) }] });
    // 1,500 words are 7,500 bytes: above the limit if each byte is a token, below it once counted.
    await (await proxy.chat(words(1500), { key })).text();
    const later = await proxy.chat(words(1500), { key });
    expect([later.status, later.headers.get("x-should-retry")]).toEqual([429, null]);
    expect(await errorOf(later)).toMatchObject({
      code: "rate_limit_exceeded",
      metadata: { limit: "tpm", value: "2000" },
    });
    const never = await proxy.chat(words(3000), { key });
    expect([never.status, never.headers.get("x-should-retry")]).toEqual([429, "false"]);
    expect((await errorOf(never)).message).toMatch(
      /^The limit of key bob, 2000 tokens per minute, is below the 30\d\d tokens of this request's prompt alone\.$/,
    );
    expect(await proxy.charges()).toHaveLength(1);
    const left = 2000 - (await used(proxy));
    expect(await limitsOf(proxy, key)).toMatchObject({ tpm: { remaining: left }, rpm: { remaining: 98 } });
  });
});

describe("the limit of parallel requests", () => {
  it("admits 10 of 200 requests at once, and the others cost nothing", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    const key = await proxy.addKey("bob", { limits: { parallel: 10 } });
    let refused = 0;
    const allRefused = Promise.withResolvers<void>();
    const answers = Array.from({ length: 200 }, async (_, index) => {
      const response = await proxy.chat({ ...small, stream: index % 2 === 0 }, { key });
      if (response.status === 429 && ++refused === 190) allRefused.resolve();
      return [
        response.status,
        response.headers.get("x-farebox-error"),
        response.headers.get("retry-after"),
        (await response.text()).length > 0,
      ];
    });
    await allRefused.promise;
    expect((await limitsOf(proxy, key)).parallel).toMatchObject({ limit: 10, remaining: 0 });
    relay.open(proxy.sandbox.url);
    const outcomes = await Promise.all(answers);
    expect(outcomes.filter(([status]) => status === 200)).toHaveLength(10);
    expect(outcomes.filter(([status]) => status !== 200)).toEqual(
      Array.from({ length: 190 }, () => [429, "concurrency_limit", "1", true]),
    );
    expect(await proxy.charges()).toHaveLength(10);
    expect((await limitsOf(proxy, key)).parallel).toMatchObject({ remaining: 10 });
    expect(await proxy.metrics()).toContain('farebox_refusals_total{code="concurrency_limit"} 190');
  });

  it("does not count a stream whose client has received its end, even if the proxy still reads from the gateway", async () => {
    const clock = patientClock(0);
    await using gateway = await scriptedGateway();
    await using proxy = await startProxy({ gatewayUrl: gateway.url, clock });
    const key = await proxy.addKey("bob", { limits: { parallel: 1 } });
    const answering = async (body: string) => {
      const answer = proxy.chat({ stream: true }, { key });
      (await gateway.nextChat()).response.writeHead(200, { "content-type": "text/event-stream" }).end(body);
      return (await answer).text();
    };
    expect(await answering(delta("x".repeat(1000)).repeat(100) + finish() + done)).toContain("[DONE]");
    expect(clock.waiting).toBe(1);
    expect(await answering(finish() + done)).toContain("[DONE]");
    clock.runOut();
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(["posted", "posted"]);
    expect((await limitsOf(proxy, key)).parallel).toMatchObject({ remaining: 1 });
  });

  it("gets every slot back, however a request ends", async () => {
    let mostOpen = 0;
    const left = "slow:5+tokens:200";
    await using proxy = await startProxy({
      sandbox: {
        scenario: (request) => {
          // The sandbox may notice late that Farebox has canceled the requests of clients that disconnected.
          const isOpen = ({ ended, scenario }: SeenRequest) => ended === "open" && scenario !== left;
          mostOpen = Math.max(mostOpen, proxy.sandbox.requests.filter(isOpen).length);
          return scenarioOf(request);
        },
      },
      env: { FAREBOX_UNPRICED: "refuse" },
    });
    const key = await proxy.addKey("bob", { limits: { parallel: 7, tpm: 100_000_000 }, models: ["gpt-4o", "nowhere"] });
    const leave = async (body: object) => {
      const controller = new AbortController();
      const response = await proxy.chat(body, {
        key,
        headers: withScenario(left),
        signal: controller.signal,
      });
      controller.abort();
      return response;
    };
    const kinds: (() => Promise<unknown>)[] = [
      ...[
        "",
        "status:500",
        "status:429",
        "reset-before",
        "reset-after-headers",
        "html",
        "wrong-length",
        "bad-json",
        "redirect-foreign",
      ].map((scenario) => async () => (await proxy.chat(small, { key, headers: withScenario(scenario) })).text()),
      ...["", "cut:2", "stream-error:2", "no-finish", "gzip"].map(
        (scenario) => async () =>
          (await proxy.chat({ ...small, stream: true }, { key, headers: withScenario(scenario) })).text(),
      ),
      () => leave({ stream: true }),
      async () => (await proxy.chat({ model: "gpt-4.1" }, { key })).text(),
      async () => (await proxy.chat({ model: "nowhere" }, { key })).text(),
      async () => (await proxy.chat({ messages: "none" }, { key })).text(),
      async () => (await proxy.chat(small, { key, headers: { "x-farebox-tag": "not a tag" } })).text(),
      async () => (await proxy.chat(small, { key, headers: { "content-encoding": "gzip" } })).text(),
    ];
    await Promise.all(
      Array.from({ length: 200 }, (_, index) => kinds[index % kinds.length]?.().catch(() => undefined)),
    );
    for (const kind of kinds) await kind().catch(() => undefined);
    await proxy.serving.settled();
    expect(mostOpen).toBeGreaterThan(0);
    expect(mostOpen).toBeLessThanOrEqual(7);
    expect((await limitsOf(proxy, key)).parallel).toMatchObject({ remaining: 7 });
    expect((await proxy.charges()).filter(({ state }) => state === "pending")).toEqual([]);
  });
});

describe("a change under load", () => {
  const burst = size(60, 24);
  const statusesOf = async (proxy: RunningProxy, keys: readonly string[]) => {
    const found = await Promise.all(
      Array.from({ length: burst }, async (_, index) => {
        const response = await proxy.chat(
          { ...small, stream: index % 3 === 0 },
          { key: keys[index % keys.length] ?? "" },
        );
        await response.text();
        return response.status;
      }),
    );
    return [...new Set(found)];
  };

  it("that rotates a key keeps both secrets working until the overlap ends, as one key", async () => {
    const clock = stillClock();
    await using proxy = await startProxy({ clock });
    const tools = toolsOf(proxy, clock);
    const old = await proxy.addKey("bob", { limits: { rpm: 10_000 } });
    const before = statusesOf(proxy, [old]);
    const rotated = await rotateKey(tools, "bob", { overlapMs: 3_600_000 });
    if (!rotated.ok) throw new Error(rotated.message);
    const during = statusesOf(proxy, [old, rotated.text]);
    expect([await before, await during]).toEqual([[200], [200]]);
    expect((await limitsOf(proxy, rotated.text)).rpm).toMatchObject({ remaining: 10_000 - 2 * burst });
    clock.forward(3_600_000);
    expect(await statusesOf(proxy, [old])).toEqual([401]);
    expect(await statusesOf(proxy, [rotated.text])).toEqual([200]);
    const [first, ...others] = new Set((await proxy.charges()).map(({ key }) => key));
    expect([first, others]).toEqual([rotated.key.id, []]);
  });

  it("that suspends a key refuses its requests until it is resumed; running requests finish", async () => {
    await using proxy = await startProxy({ sandbox: { scenario: scenarioOf } });
    const tools = toolsOf(proxy);
    const key = await proxy.addKey("bob");
    const running = await proxy.chat({ stream: true }, { key, headers: withScenario("slow:10+tokens:40") });
    expect(await suspendKey(tools, "bob")).toMatchObject({ ok: true });
    const refused = await proxy.chat(small, { key });
    expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([401, "invalid_api_key"]);
    expect(await refused.json()).toMatchObject({
      error: { message: "This API key is suspended; an administrator can resume it." },
    });
    expect(await running.text()).toContain("[DONE]");
    expect(await resumeKey(tools, "bob")).toMatchObject({ ok: true });
    expect(await statusesOf(proxy, [key])).toEqual([200]);
  });

  it("that revokes a key refuses both secrets from the next request; running requests finish", async () => {
    await using proxy = await startProxy({ sandbox: { scenario: scenarioOf } });
    const tools = toolsOf(proxy);
    const old = await proxy.addKey("bob", { limits: { parallel: 100 } });
    const rotated = await rotateKey(tools, "bob");
    if (!rotated.ok) throw new Error(rotated.message);
    const running = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        proxy.chat(
          { stream: true },
          { key: index % 2 === 0 ? old : rotated.text, headers: withScenario("slow:10+tokens:40") },
        ),
      ),
    );
    await revokeKey(tools, "bob");
    expect(await statusesOf(proxy, [old, rotated.text])).toEqual([401]);
    const texts = await Promise.all(running.map((response) => response.text()));
    expect(texts.filter((text) => !text.includes("[DONE]"))).toEqual([]);
    expect((await proxy.charges()).map(({ state, source }) => [state, source])).toEqual(
      Array.from({ length: 20 }, () => ["posted", expect.any(String)]),
    );
  });

  it("to limits applies to the next requests and leaks no slot", async () => {
    await using proxy = await startProxy();
    const tools = toolsOf(proxy);
    const key = await proxy.addKey("bob", { team: "red" });
    const changes: RateLimitsChange[] = [
      { parallel: 3 },
      { rpm: 1_000_000 },
      { parallel: null },
      { tpm: 1_000_000_000 },
      { parallel: 5, rpm: null },
    ];
    const load = Promise.all(Array.from({ length: 5 }, () => statusesOf(proxy, [key])));
    for (const limits of changes) {
      await updateKey(tools, "bob", { limits });
      await updateTeam(tools, "red", { limits });
    }
    expect((await load).flat().filter((status) => status !== 200 && status !== 429)).toEqual([]);
    await proxy.serving.settled();
    expect((await limitsOf(proxy, key)).parallel).toMatchObject({ limit: 5, remaining: 5 });
  });
});

it("a model must be allowed by the key and by its team", async () => {
  await using proxy = await startProxy();
  await createTeam(toolsOf(proxy), { name: "red", models: ["gpt-4o*"] });
  const key = await proxy.addKey("bob", { team: "red", models: ["gpt-4o", "gpt-4.1"] });
  const answers = await Promise.all(
    ["gpt-4o", "gpt-4.1", "gpt-4o-mini"].map((model) => proxy.chat({ ...small, model }, { key })),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 403, 403]);
  const listed = await fetch(`${proxy.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  expect(((await listed.json()) as { data: { id: string }[] }).data.map(({ id }) => id)).toEqual(["gpt-4o"]);
});
