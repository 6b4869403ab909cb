import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminRoutes } from "../../../src/server/http/admin/routes.ts";
import { addAdmin, callAdmin, unusedAddress, type AdminReply } from "../../support/admin-client.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import { usd } from "../../../src/core/money.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { budget, noon, openStore, utc } from "../../support/ledger-fixtures.ts";
import { captureLog } from "../../support/captured-log.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const settingsToken = "a-token-from-the-settings";

interface Change {
  /** Method and path of the route in the table. */
  readonly route: string;
  readonly path?: string;
  readonly body?: unknown;
  readonly action: string;
  readonly object: string;
}

/** Every route that changes something, in an order in which each finds something to change. */
const changes: readonly Change[] = [
  {
    route: "POST /keys",
    body: { name: "bob", team: "red", expires: "30d", limits: { rpm: 60 } },
    action: "keys.create",
    object: "key:bob",
  },
  {
    route: "PATCH /keys/{key}",
    path: "/keys/bob",
    body: { limits: { rpm: null, tpm: 5000 } },
    action: "keys.update",
    object: "key:bob",
  },
  {
    route: "POST /keys/{key}/rotate",
    path: "/keys/bob/rotate",
    body: { overlap: "1h" },
    action: "keys.rotate",
    object: "key:bob",
  },
  { route: "POST /teams", body: { name: "blue" }, action: "teams.create", object: "team:blue" },
  {
    route: "PATCH /teams/{team}",
    path: "/teams/blue",
    body: { models: ["gpt-*"] },
    action: "teams.update",
    object: "team:blue",
  },
  { route: "DELETE /teams/{team}", path: "/teams/blue", action: "teams.remove", object: "team:blue" },
  {
    route: "PUT /budgets",
    body: { scope: "key:bob", period: "total", limit_usd: "5", warn_percent: 80 },
    action: "budgets.set",
    object: "budget:key:bob/total",
  },
  {
    route: "POST /budgets/raises",
    body: { scope: "key:bob", amount_usd: "2", why: "a demo", until: "1h" },
    action: "budgets.raise",
    object: "budget:key:bob/total",
  },
  {
    route: "DELETE /budgets",
    path: "/budgets?scope=key:bob&period=total",
    action: "budgets.remove",
    object: "budget:key:bob/total",
  },
  {
    route: "POST /raises/{raise}/approve",
    path: "/raises/raise_a/approve",
    body: { amount_usd: "2" },
    action: "budgets.raise",
    object: "budget:all/1d",
  },
  { route: "POST /raises/{raise}/deny", path: "/raises/raise_b/deny", action: "raises.deny", object: "budget:all/1w" },
  { route: "POST /admins", body: { name: "carol", role: "viewer" }, action: "admins.create", object: "admin:carol" },
  {
    route: "POST /admins/{admin}/revoke",
    path: "/admins/carol/revoke",
    action: "admins.revoke",
    object: "admin:carol",
  },
  { route: "POST /keys/{key}/suspend", path: "/keys/bob/suspend", action: "keys.suspend", object: "key:bob" },
  { route: "POST /keys/{key}/resume", path: "/keys/bob/resume", action: "keys.resume", object: "key:bob" },
  { route: "POST /keys/{key}/revoke", path: "/keys/bob/revoke", action: "keys.revoke", object: "key:bob" },
  {
    route: "POST /charges/{request_id}/corrections",
    body: { amount_usd: "0.25", why: "late fee" },
    action: "charges.adjust",
    object: "charge:CHARGE",
  },
];

describe("the admin API", () => {
  const log = captureLog();
  let proxy: RunningProxy;
  let editor: string;
  let chargeId: string;
  beforeAll(async () => {
    proxy = await startProxy({
      env: { FAREBOX_ADMIN_TOKEN: settingsToken, FAREBOX_CORS_ORIGINS: "https://app.example" },
      log,
    });
    editor = await addAdmin(proxy.database, "edward", "editor");
    await (await proxy.chat({})).arrayBuffer();
    chargeId = (await proxy.onlyCharge()).id;
    await using store = await openStore({
      path: proxy.database,
      calendar: utc,
      clock: systemClock(),
      access: "command",
    });
    for (const [id, period] of [
      ["raise_a", "1d"],
      ["raise_b", "1w"],
    ] as const) {
      const limited = budget(everyRequest, period, "1000");
      await store.ledger.setBudget(limited, noon);
      const asked = { id, budget: limited, subject: "", key: "k", amount: usd("5"), why: "a demo", at: noon };
      await store.raiseRequests.create({ ...asked, lapsesAt: null });
    }
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  const make = ({ route, path, body }: Change): Promise<AdminReply> => {
    const [method = "", template = ""] = route.split(" ");
    return callAdmin(proxy.url, method, (path ?? template).replace("{request_id}", chargeId), { token: editor, body });
  };

  it("has an example in this file for every route that requires an editor", () => {
    const declared = adminRoutes("1")
      .filter(({ role }) => role === "editor")
      .map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect(changes.map(({ route }) => route).sort()).toEqual(declared.sort());
  });

  it("answers changes by their schemas, audits them by admin, and leaks no secret to the audit, log or files", async () => {
    const secrets: string[] = [];
    for (const change of changes) {
      const reply = await make(change);
      const declared = adminRoutes("1").find(({ method, path }) => `${method.toUpperCase()} ${path}` === change.route);
      expect([change.route, reply.status, declared?.answer.safeParse(reply.json).error?.issues ?? []]).toEqual([
        change.route,
        declared?.status,
        [],
      ]);
      const { key, token } = reply.json as { key?: string; token?: string };
      const secret = token ?? key;
      if (secret?.startsWith("sk-") === true) secrets.push(secret);
      else expect(reply.text).not.toMatch(/sk-fb|digest/);
      const { entries } = (await callAdmin(proxy.url, "GET", "/audit?limit=1", { token: editor })).json as {
        entries: object[];
      };
      expect(entries[0]).toMatchObject({
        by: "edward",
        action: change.action,
        object: change.object.replace("CHARGE", chargeId),
      });
    }
    expect(secrets).toHaveLength(3);
    const everything = await callAdmin(proxy.url, "GET", "/audit?limit=1000", { token: settingsToken });
    const lists = await Promise.all(
      ["/keys", "/teams", "/budgets", "/charges", "/keys/bob", "/admins"].map((path) =>
        callAdmin(proxy.url, "GET", path, { token: editor }),
      ),
    );
    const output = [everything, ...lists].map(({ text }) => text).join("\n") + JSON.stringify(log.lines);
    const folder = dirname(proxy.database);
    const files = readdirSync(folder)
      .map((name) => readFileSync(join(folder, name)).toString("latin1"))
      .join("\n");
    for (const secret of [...secrets, editor, settingsToken, proxy.key]) {
      const secretPart = secret.split("-").slice(3).join("-");
      expect(output.includes(secretPart)).toBe(false);
      expect(files.includes(secretPart)).toBe(false);
    }
    expect(output).not.toContain("digest");
  });

  it("audits changes with the token of the settings as made by env", async () => {
    await callAdmin(proxy.url, "POST", "/teams", { token: settingsToken, body: { name: "green" } });
    const { json } = await callAdmin(proxy.url, "GET", "/audit?limit=1", { token: settingsToken });
    expect(json).toMatchObject({ entries: [{ by: "env", object: "team:green" }], next: expect.any(String) });
  });

  it("does not make or audit a change that it refuses", async () => {
    const before = (await callAdmin(proxy.url, "GET", "/audit", { token: editor })).text;
    const replies = [
      await callAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "alice" } }),
      await callAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "carol", expires: "yesterday" } }),
      await callAdmin(proxy.url, "PATCH", "/keys/bob", { token: editor, body: { limits: { rpm: 0 } } }),
      await callAdmin(proxy.url, "PUT", "/budgets", {
        token: editor,
        body: { scope: "key:stranger", period: "1d", limit_usd: "5" },
      }),
      await callAdmin(proxy.url, "PUT", "/budgets", {
        token: editor,
        body: { scope: "all", period: "1d", limit_usd: 5 },
      }),
      await callAdmin(proxy.url, "PUT", "/budgets", {
        token: editor,
        body: { scope: "all", period: "1d", limits_usd: "5" },
      }),
    ];
    expect(
      replies.map(({ status, json }) => [status, (json as { error: { param: string | null } }).error.param]),
    ).toEqual([
      [409, null],
      [400, "expires"],
      [400, "limits.rpm"],
      [404, null],
      [400, "limit_usd"],
      [400, "limits_usd"],
    ]);
    expect(replies[5]?.text).toContain("did you mean 'limit_usd'?");
    expect((await callAdmin(proxy.url, "GET", "/audit", { token: editor })).text).toBe(before);
  });

  it("applies changes of a key to its next request", async () => {
    const made = (await callAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "dora" } })).json as {
      key: string;
    };
    expect((await proxy.chat({}, { key: made.key })).status).toBe(200);
    await callAdmin(proxy.url, "POST", "/keys/dora/revoke", { token: editor });
    expect((await proxy.chat({}, { key: made.key })).status).toBe(401);
  });

  it("filters pages of charges by tag, user and label", async () => {
    for (const feature of ["a", "b", "a"])
      await (await proxy.chat({}, { headers: { "x-farebox-tag": `feature=${feature}` } })).arrayBuffer();
    await proxy.serving.settled();
    const page = async (query: string) =>
      (await callAdmin(proxy.url, "GET", `/charges${query}`, { token: editor })).json as {
        charges: { tags: object }[];
        next: string | null;
      };
    const first = await page("?tag=feature%3Da&limit=1");
    const second = await page(`?tag=feature%3Da&limit=1&cursor=${first.next}`);
    expect([first.charges, second.charges, second.next]).toMatchObject([
      [{ tags: { feature: "a" } }],
      [{ tags: { feature: "a" } }],
      null,
    ]);
    expect((await page("?tag=feature%3Dc")).charges).toEqual([]);
    await (await proxy.chat({ user: "u 1" })).arrayBuffer();
    await proxy.serving.settled();
    expect((await page("?user=u%201")).charges).toMatchObject([{ user: "u 1", labels: {} }]);
    expect((await page("?user=u%201&label=env%3Dprod")).charges).toEqual([]);
    expect((await callAdmin(proxy.url, "GET", "/charges?cursor=nothing", { token: editor })).status).toBe(400);
  });

  it("refuses requests from pages of other origins, even permitted ones", async () => {
    const asked = await callAdmin(proxy.url, "GET", "/keys", {
      token: editor,
      headers: { origin: "https://app.example" },
    });
    const preflight = await callAdmin(proxy.url, "OPTIONS", "/keys", {
      headers: { origin: "https://app.example", "access-control-request-method": "GET" },
    });
    expect(
      [asked, preflight].map(({ status, json }) => [status, (json as { error: { code: string } }).error.code]),
    ).toEqual([
      [403, "cross_site"],
      [403, "cross_site"],
    ]);
    expect([asked, preflight].map(({ headers }) => headers["access-control-allow-origin"])).toEqual([
      undefined,
      undefined,
    ]);
    expect((await callAdmin(proxy.url, "GET", "/keys", { token: editor, headers: { origin: proxy.url } })).status).toBe(
      200,
    );
  });

  it("answers 404 to an unknown path and 405 to a method that a path does not have", async () => {
    const patch = await callAdmin(proxy.url, "PATCH", "/keys", { token: editor });
    expect([patch.status, patch.headers["allow"], patch.json]).toMatchObject([
      405,
      "GET, POST",
      { error: { code: "method_not_allowed" } },
    ]);
    expect((await callAdmin(proxy.url, "GET", "/nothing", { token: editor })).status).toBe(404);
    expect((await callAdmin(proxy.url, "GET", "/nothing", { from: unusedAddress() })).status).toBe(401);
    expect((await callAdmin(proxy.url, "GET", "", { token: editor })).status).toBe(404);
    expect((await callAdmin(proxy.url, "GET", "/KEYS", { token: editor })).status).toBe(404);
  });

  it("counts failed authentications by reason", async () => {
    await callAdmin(proxy.url, "GET", "/keys", { from: unusedAddress() });
    await callAdmin(proxy.url, "GET", "/keys", { from: unusedAddress(), token: "wrong" });
    expect(await proxy.metrics()).toMatch(
      /farebox_admin_failures_total\{reason="missing"\} \d+\n(.*\n)*farebox_admin_failures_total\{reason="unknown"\} 1\n/,
    );
  });

  it("refuses a body of unknown length as soon as it is too large", async () => {
    const raw = `{"name":"${"x".repeat(2 * 1024 * 1024)}`;
    expect((await callAdmin(proxy.url, "POST", "/keys", { token: editor, raw, unended: true })).status).toBe(413);
  });
});
