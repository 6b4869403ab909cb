import { describe, expect, it } from "vitest";
import { formatUsd, usd } from "../../../src/core/money.ts";
import { readScope } from "../../../src/core/scope.ts";
import {
  chargeDetailsSchema,
  chargeListSchema,
  liveSchema,
  refusalCausesSchema,
} from "../../../src/reporting/shapes/charges.ts";
import { overviewSchema } from "../../../src/reporting/shapes/figures.ts";
import { meSchema } from "../../../src/reporting/shapes/keys.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchRaw, expectRefusal, head } from "../../support/raw-client.ts";

const get = (proxy: RunningProxy, target: string, key: string | null = proxy.key, method = "GET") =>
  fetchRaw(
    proxy.url,
    head(proxy.url, `${method} ${target}`, ...(key === null ? [] : [`Authorization: Bearer ${key}`])),
  );

const schemas = [
  [/\/me$/, meSchema],
  [/\/overview/, overviewSchema],
  [/\/requests\/live/, liveSchema],
  [/\/charges(\?|$)/, chargeListSchema],
  [/\/charges\//, chargeDetailsSchema],
  [/\/refusals\/causes/, refusalCausesSchema],
] as const;

/** Reads an answer and checks it against its schema. */
const read = async (proxy: RunningProxy, target: string, key?: string) => {
  const answer = await get(proxy, target, key);
  expect(answer, answer.body).toMatchObject({
    status: 200,
    headers: { "content-type": ["application/json"], "cache-control": ["no-store"] },
  });
  const json = JSON.parse(answer.body) as never;
  const schema = schemas.find(([path]) => path.test(target))?.[1];
  expect([target, schema?.safeParse(json).error?.issues]).toEqual([target, undefined]);
  expect(schema?.safeParse("nothing").success).toBe(false);
  return json;
};

/** Sets a daily budget for a scope of any form. */
async function setBudget({ serving: { keys, ledger } }: RunningProxy, text: string, limit: string): Promise<void> {
  const all = await keys.list();
  const withIds = text.replace(/\bkey:(\w+)/, (_, name) => `key:${all.find((key) => key.name === name)?.id}`);
  const read = readScope(withIds);
  if (!read.ok) throw new Error(read.fault);
  const budget = { scope: read.scope, period: "1d", mode: "hard", limit: usd(limit), warnPercent: null } as const;
  await ledger.setBudget(budget, Date.now());
}

interface Page {
  readonly charges: readonly { readonly request_id: string; readonly key: string; readonly model: string }[];
  readonly next: string | null;
}

describe("GET /v1/farebox/me", () => {
  it("with FAREBOX_OWN_VIEW=all shows the key and exactly the budgets that apply to it", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_OWN_VIEW: "all" } });
    const bob = await proxy.addKey("bob", { team: "red", models: ["gpt-4o*"], limits: { rpm: 10, parallel: 2 } });
    await proxy.addKey("carol", { team: "red" });
    await proxy.budget("all", "60", "1mo");
    await proxy.budget("each-key:red", "5", "1d", "soft");
    await proxy.budget("team:red", "20", "1w");
    for (const scope of ["key:alice", "each-key:blue", "team:blue", "key:carol"]) await proxy.budget(scope, "1");
    const before = await read(proxy, "/v1/farebox/me", bob);
    expect(before).toEqual({
      key: {
        id: expect.stringMatching(/^[a-z2-7]{12}$/),
        name: "bob",
        team: "red",
        models: ["gpt-4o*"],
        labels: {},
        tags: {},
        user: null,
        requires: [],
        expires_at: null,
      },
      limits: {
        rpm: { scope: "key:bob", limit: 10, remaining: 10, resets_in_seconds: 0 },
        tpm: null,
        parallel: { scope: "key:bob", limit: 2, remaining: 2, resets_in_seconds: null },
      },
      output_cap: null,
      fitted: null,
      budgets: [
        ["all", null, "1mo", "hard", "60.00"],
        ["each-key:red", "bob", "1d", "soft", "5.00"],
        ["team:red", null, "1w", "hard", "20.00"],
      ].map(([scope, key, period, mode, limit]) => ({
        scope,
        key,
        subject: key === null ? null : `key=${key}`,
        period,
        mode,
        limit_usd: limit,
        raised_usd: "0.00",
        raised_until: null,
        raises: [],
        spent_usd: "0.00",
        held_usd: "0.00",
        remaining_usd: limit,
        warn_percent: null,
        starts_at: expect.stringMatching(/T00:00:00\.000Z$/),
        resets_at: expect.stringMatching(/T00:00:00\.000Z$/),
      })),
      blocked: [],
      raise_requests: [],
    });
    await (await proxy.chat({ max_tokens: 20 }, { key: bob })).text();
    const [charge] = await proxy.charges();
    const spent = formatUsd(charge?.cost ?? (0n as never));
    const { budgets } = (await read(proxy, "/farebox/me", bob)) as {
      budgets: { spent_usd: string; held_usd: string }[];
    };
    expect(budgets.map(({ spent_usd, held_usd }) => `${spent_usd} ${held_usd}`)).toEqual(
      Array(3).fill(`${spent} 0.00`),
    );
    expect(await read(proxy, "/v1/farebox/me")).toMatchObject({
      budgets: [{ scope: "all" }, { scope: "key:alice", resets_at: null }],
    });
  });

  it("shows the amounts of the key's own budgets, and of shared ones only that they block it", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob", { team: "red" });
    await proxy.budget("each-key:red", "5", "1d");
    await proxy.budget("key:bob", "0.000001", "1mo", "soft");
    await proxy.budget("all", "60", "1mo");
    await proxy.budget("team:red", "0.01", "1w", "soft");
    const own = [{ scope: "each-key:red", key: "bob", limit_usd: "5.00" }, { scope: "key:bob" }];
    expect(await read(proxy, "/v1/farebox/me", bob)).toMatchObject({ budgets: own, blocked: [] });
    await (await proxy.chat({ max_tokens: 20 }, { key: bob })).text();
    const [charge] = await proxy.charges();
    await proxy.budget("all", formatUsd(charge?.cost ?? (0n as never)), "1mo");
    const resets_at = expect.stringMatching(/-01T00:00:00\.000Z$/) as string;
    expect(await read(proxy, "/v1/farebox/me", bob)).toMatchObject({
      budgets: own,
      blocked: [{ scope: "all", period: "1mo", resets_at }],
    });
  });

  it("names a budget that refused the key in the last 15 minutes, with today's number of refusals", async () => {
    let now = Date.parse("2026-11-20T12:00:00Z");
    await using proxy = await startProxy({ clock: { ...systemClock(), now: () => now } });
    const [bob, carol] = [await proxy.addKey("bob", { team: "red" }), await proxy.addKey("carol", { team: "red" })];
    await proxy.budget("team:red", "0.01", "1d");
    await proxy.budget("key:bob", "5", "1mo");
    for (const key of [bob, bob, carol]) expect((await proxy.chat({ max_tokens: 4000 }, { key })).status).toBe(402);
    await proxy.serving.recorder.flush();
    const blocked = { scope: "team:red", period: "1d", resets_at: "2026-11-21T00:00:00.000Z" };
    expect(await read(proxy, "/v1/farebox/me", bob)).toMatchObject({ blocked: [{ ...blocked, refused_today: 2 }] });
    expect(await read(proxy, "/v1/farebox/me", carol)).toMatchObject({ blocked: [{ ...blocked, refused_today: 1 }] });
    const { causes, ...rest } = (await read(proxy, "/v1/farebox/refusals/causes?since=1d", bob)) as {
      readonly causes: readonly object[];
    };
    const cause = { key: "bob", code: "budget_exceeded", scope: "team:red", period: "1d", subject: null, model: null };
    expect([causes, rest]).toMatchObject([[{ ...cause, count: 2 }], { total: 1, examined_to: null }]);
    const dave = await proxy.addKey("dave", { team: "red" });
    expect(await read(proxy, "/v1/farebox/me", dave)).toMatchObject({ blocked: [] });
    now += 15 * 60_000 + 1;
    expect(await read(proxy, "/v1/farebox/me", bob)).toMatchObject({ blocked: [] });
  });

  it("shows the key's windows by user and session, and of shared budgets only windows that refused it", async () => {
    await using proxy = await startProxy();
    const [bob, carol] = [await proxy.addKey("bob", { team: "red" }), await proxy.addKey("carol", { team: "red" })];
    for (const [scope, limit] of [
      ["each-key each-user", "5"],
      ["team:red each-user", "0.01"],
      ["key:bob model:gpt-4o*", "7"],
      ["key:carol each-tag:session", "6"],
    ] as const)
      await setBudget(proxy, scope, limit);
    const chat = async (key: string, user: string, max_tokens: number) => {
      const answer = await proxy.chat({ user, max_tokens }, { key });
      const body = (await answer.json()) as { readonly error?: object };
      if (body.error !== undefined) refusals.push(body.error);
      return answer.status;
    };
    const refusals: object[] = [];
    expect([await chat(bob, "u 1", 20), await chat(carol, "u2", 20), await chat(bob, "u3", 4000)]).toEqual([
      200, 200, 402,
    ]);
    const message = /^The daily budget that each user of team red has for itself \(team:red each-user\) cannot pay/;
    expect(refusals).toMatchObject([
      { message: expect.stringMatching(message), metadata: { scope: "team:red each-user", subject: "user=u3" } },
    ]);
    await proxy.charges();
    await proxy.serving.recorder.flush();
    const me = (await read(proxy, "/v1/farebox/me", bob)) as {
      readonly budgets: readonly { readonly scope: string; readonly key: string; readonly subject: string }[];
      readonly blocked: readonly object[];
    };
    expect(me.budgets.map(({ scope, key, subject }) => [scope, key, subject])).toEqual([
      ["each-key each-user", "bob", "key=bob user=u%201"],
      ["each-key each-user", "bob", "key=bob user=u3"],
      ["key:bob model:gpt-4o*", null, null],
    ]);
    expect(me.blocked).toMatchObject([{ scope: "team:red each-user", subject: "user=u3", refused_today: 1 }]);
    expect(await read(proxy, "/v1/farebox/me", carol)).toMatchObject({
      budgets: [{ subject: "key=carol user=u2" }, { scope: "key:carol each-tag:session", subject: "no tag:session" }],
      blocked: [],
    });
  });

  it("requires a valid key and accepts no query", async () => {
    await using proxy = await startProxy();
    for (const path of ["/v1/farebox/me", "/v1/farebox/charges", "/v1/farebox/charges/x"]) {
      expectRefusal(await get(proxy, path, null), 401, "invalid_api_key");
      expectRefusal(await get(proxy, path, `${proxy.key}x`), 401, "invalid_api_key");
    }
    expectRefusal(await get(proxy, "/v1/farebox/me?verbose=1"), 400, "invalid_request");
    expectRefusal(await get(proxy, "/v1/farebox/charges/x?limit=1", proxy.key), 400, "invalid_request");
    expectRefusal(await get(proxy, "/v1/farebox/me", proxy.key, "POST"), 405, "method_not_allowed");
  });

  it("without a key in open mode shows the budgets that apply to every request", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_AUTH: "open" } });
    await proxy.budget("all", "1");
    await proxy.budget("each-key", "1");
    expect(JSON.parse((await get(proxy, "/v1/farebox/me", null)).body)).toMatchObject({
      key: null,
      limits: { rpm: null, tpm: null, parallel: null },
      budgets: [{ scope: "all" }],
    });
    await (await proxy.chat({ max_tokens: 5 })).text();
    await proxy.charges();
    expect(JSON.parse((await get(proxy, "/v1/farebox/charges", null)).body)).toEqual({
      charges: [],
      next: null,
      examined_to: null,
    });
  });
});

describe("GET /v1/farebox/charges", () => {
  it("has only the key's own charges, newest first, in pages and by model, state and time", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob");
    for (const model of ["gpt-4o", "gpt-4o-mini", "gpt-4o"]) {
      await (await proxy.chat({ model, max_tokens: 5 }, { key: bob })).text();
      await (await proxy.chat({ model, max_tokens: 5 })).text();
    }
    const all = await proxy.charges();
    const own = all
      .filter((_, index) => index % 2 === 0)
      .map(({ id }) => id)
      .toReversed();
    const ids = async (query: string, key = bob) =>
      ((await read(proxy, `/v1/farebox/charges${query}`, key)) as Page).charges.map(({ request_id }) => request_id);
    expect(await ids("")).toEqual(own);
    expect(await ids("?model=gpt-4o-mini")).toEqual([own[1]]);
    expect(await ids("?state=voided")).toEqual([]);
    expect(await ids("?state=posted&since=1h")).toEqual(own);
    expect(await ids(`?since=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);
    const first = (await read(proxy, "/farebox/charges?limit=2", bob)) as Page;
    expect([first.charges.map(({ request_id }) => request_id), first.next]).toEqual([own.slice(0, 2), own[1]]);
    expect(new Set(first.charges.map(({ key }) => key))).toEqual(new Set(["bob"]));
    expect(await read(proxy, `/v1/farebox/charges?limit=2&cursor=${first.next}`, bob)).toMatchObject({
      charges: [{ request_id: own[2] }],
      next: null,
    });

    const foreign = all.find((_, index) => index % 2 === 1)?.id;
    for (const id of [foreign, "nonsense", "%00"]) {
      expectRefusal(await get(proxy, `/v1/farebox/charges/${id}`, bob), 404, "not_found");
      expectRefusal(await get(proxy, `/v1/farebox/charges?cursor=${id}`, bob), 400, "invalid_request");
    }
    const [listed] = ((await read(proxy, "/v1/farebox/charges?limit=1", bob)) as Page).charges;
    expect(await read(proxy, `/v1/farebox/charges/${own[0]}`, bob)).toMatchObject({
      ...listed,
      corrections: [],
      total_usd: formatUsd(all[4]?.cost ?? (0n as never)),
      formula: "tokens",
      items: [{ class: "input" }, { class: "output" }],
    });
  });

  it.each([
    ["?limit=0", "limit", "'limit' must be a whole number from 1 to 1000."],
    ["?limit=1001", "limit", "'limit' must be a whole number from 1 to 1000."],
    ["?limit=1.5", "limit", "'limit' must be a whole number from 1 to 1000."],
    ["?limit=5&limit=6", "limit", "The parameter 'limit' is given twice."],
    ["?state=open", "state", "'state' must be pending, posted or voided."],
    [
      "?since=someday",
      "since",
      "'since' must be a span such as 24h or 7d, today, yesterday, week, month or last-month (their beginning), a date such as 2026-11-20, or an instant such as 2026-11-20T08:00:00Z.",
    ],
    ["?cursor=", "cursor", "Cursor must be the `next` of an earlier page of this list."],
    ["?key=bob", "key", "There is no parameter 'key'."],
  ])("refuses %s", async (query, param, message) => {
    await using proxy = await startProxy();
    const answer = await get(proxy, `/v1/farebox/charges${query}`);
    expectRefusal(answer, 400, "invalid_request");
    expect(JSON.parse(answer.body)).toMatchObject({ error: { param, message } });
  });
});

it.each(["/v1/farebox/overview", "/v1/farebox/requests/live"])("GET %s has the admin API's format", async (path) => {
  await using proxy = await startProxy();
  await (await proxy.chat({ max_tokens: 5 })).text();
  await proxy.charges();
  expect(await read(proxy, path)).toMatchObject(
    path.endsWith("live") ? { charges: [{ key: "alice" }] } : { month: { requests: 1 } },
  );
});

describe("a 402 answer", () => {
  it("names the budget that blocks, with the same figures as /v1/farebox/me", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob", { team: "red" });
    await proxy.budget("all", "60", "1mo");
    await proxy.budget("each-key:red", "0.0001", "1d");
    const answer = await proxy.chat({ max_tokens: 500 }, { key: bob });
    expect(answer.status).toBe(402);
    const { error } = (await answer.json()) as { error: { message: string; metadata: Record<string, string> } };
    const { budgets } = (await read(proxy, "/v1/farebox/me", bob)) as { budgets: Record<string, string>[] };
    const own = budgets.find(({ scope }) => scope === "each-key:red") ?? {};
    const { scope, subject, period, limit_usd, spent_usd, held_usd, resets_at } = own;
    expect(error.metadata).toEqual({
      scope,
      subject,
      period,
      limit_usd,
      spent_usd,
      held_usd,
      resets_at,
      needed_usd: expect.stringMatching(/^0\.\d+$/),
      affordable_output_tokens: 0,
    });
    expect(error.message).toMatch(
      /^The budget that each key of team red has for itself \(each-key:red, 0\.0001 USD a day\) has 0\.0001 USD left/,
    );
    // The budget does not block keys outside the team.
    expect((await proxy.chat({ max_tokens: 500 })).status).toBe(200);
  });
});
