import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminRoutes } from "../../../src/server/http/admin/routes.ts";
import { addAdmin, askAdmin, stranger, type AdminReply } from "../../support/admin-client.ts";
import { captureLog } from "../../support/captured-log.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const settingsToken = "a-token-from-the-settings";

interface Change {
  /** Name of the route in the table. */
  readonly route: string;
  readonly path?: string;
  readonly body?: unknown;
  readonly action: string;
  readonly object: string;
}

/** Every route that changes anything, in an order in which each finds something to change. */
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
  { route: "DELETE /teams/{team}", path: "/teams/blue", action: "teams.delete", object: "team:blue" },
  {
    route: "PUT /budgets",
    body: { scope: "key:bob", period: "1d", limit_usd: "5", warn_percent: 80 },
    action: "budgets.set",
    object: "budget:key:bob/1d",
  },
  {
    route: "DELETE /budgets",
    path: "/budgets?scope=key:bob&period=1d",
    action: "budgets.remove",
    object: "budget:key:bob/1d",
  },
  { route: "POST /keys/{key}/revoke", path: "/keys/bob/revoke", action: "keys.revoke", object: "key:bob" },
  {
    route: "POST /charges/{request_id}/corrections",
    body: { amount_usd: "0.25", why: "late fee" },
    action: "charges.adjust",
    object: "charge:CHARGE",
  },
];

describe("changes through the admin API", () => {
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
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  const make = ({ route, path, body }: Change): Promise<AdminReply> => {
    const [method = "", template = ""] = route.split(" ");
    return askAdmin(proxy.url, method, (path ?? template).replace("{request_id}", chargeId), { token: editor, body });
  };

  it("are all named in this test", () => {
    const declared = adminRoutes("1")
      .filter(({ role }) => role === "editor")
      .map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect(changes.map(({ route }) => route).sort()).toEqual(declared.sort());
  });

  it("answer as their schemas say, are each in the audit with the admin's name, and hold no secret there or in logs or in the file", async () => {
    const secrets: string[] = [];
    for (const change of changes) {
      const reply = await make(change);
      const declared = adminRoutes("1").find(({ method, path }) => `${method.toUpperCase()} ${path}` === change.route);
      expect([change.route, reply.status, declared?.answer.safeParse(reply.json).error?.issues ?? []]).toEqual([
        change.route,
        declared?.status,
        [],
      ]);
      const { key } = reply.json as { key?: string };
      if (typeof key === "string" && key.startsWith("sk-")) secrets.push(key);
      else expect(reply.text).not.toMatch(/sk-fb|digest/);
      const { entries } = (await askAdmin(proxy.url, "GET", "/audit?limit=1", { token: editor })).json as {
        entries: object[];
      };
      expect(entries[0]).toMatchObject({
        by: "edward",
        action: change.action,
        object: change.object.replace("CHARGE", chargeId),
      });
    }
    expect(secrets).toHaveLength(2);
    const everything = await askAdmin(proxy.url, "GET", "/audit?limit=1000", { token: settingsToken });
    const lists = await Promise.all(
      ["/keys", "/teams", "/budgets", "/charges", "/keys/bob"].map((path) =>
        askAdmin(proxy.url, "GET", path, { token: editor }),
      ),
    );
    const said = [everything, ...lists].map(({ text }) => text).join("\n") + JSON.stringify(log.lines);
    const folder = dirname(proxy.database);
    const files = readdirSync(folder)
      .map((name) => readFileSync(join(folder, name)).toString("latin1"))
      .join("\n");
    for (const secret of [...secrets, editor, settingsToken, proxy.key]) {
      const own = secret.split("-").slice(3).join("-");
      expect(said.includes(own)).toBe(false);
      expect(files.includes(own)).toBe(false);
    }
    expect(said).not.toContain("digest");
  });

  it("are made by env where the settings' token makes them", async () => {
    await askAdmin(proxy.url, "POST", "/teams", { token: settingsToken, body: { name: "green" } });
    const { json } = await askAdmin(proxy.url, "GET", "/audit?limit=1", { token: settingsToken });
    expect(json).toMatchObject({ entries: [{ by: "env", object: "team:green" }], next: expect.any(String) });
  });

  it("that were refused change nothing and are not in the audit", async () => {
    const before = (await askAdmin(proxy.url, "GET", "/audit", { token: editor })).text;
    const replies = [
      await askAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "alice" } }),
      await askAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "carol", expires: "yesterday" } }),
      await askAdmin(proxy.url, "PATCH", "/keys/bob", { token: editor, body: { limits: { rpm: 0 } } }),
      await askAdmin(proxy.url, "PUT", "/budgets", {
        token: editor,
        body: { scope: "key:stranger", period: "1d", limit_usd: "5" },
      }),
      await askAdmin(proxy.url, "PUT", "/budgets", {
        token: editor,
        body: { scope: "all", period: "1d", limit_usd: 5 },
      }),
      await askAdmin(proxy.url, "PUT", "/budgets", {
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
    expect((await askAdmin(proxy.url, "GET", "/audit", { token: editor })).text).toBe(before);
  });

  it("hold for the very next request of the key", async () => {
    const made = (await askAdmin(proxy.url, "POST", "/keys", { token: editor, body: { name: "dora" } })).json as {
      key: string;
    };
    expect((await proxy.chat({}, { key: made.key })).status).toBe(200);
    await askAdmin(proxy.url, "POST", "/keys/dora/revoke", { token: editor });
    expect((await proxy.chat({}, { key: made.key })).status).toBe(401);
  });

  it("pages through charges, by tag too", async () => {
    for (const feature of ["a", "b", "a"])
      await (await proxy.chat({}, { headers: { "x-farebox-tag": `feature=${feature}` } })).arrayBuffer();
    await proxy.serving.settled();
    const page = async (query: string) =>
      (await askAdmin(proxy.url, "GET", `/charges${query}`, { token: editor })).json as {
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
    expect((await askAdmin(proxy.url, "GET", "/charges?cursor=nothing", { token: editor })).status).toBe(400);
  });

  it("are refused to pages of other origins, even permitted ones", async () => {
    const asked = await askAdmin(proxy.url, "GET", "/keys", {
      token: editor,
      headers: { origin: "https://app.example" },
    });
    const preflight = await askAdmin(proxy.url, "OPTIONS", "/keys", {
      headers: { origin: "https://app.example", "access-control-request-method": "GET" },
    });
    expect(
      [asked, preflight].map(({ status, json }) => [status, (json as { error: { code: string } }).error.code]),
    ).toEqual([
      [403, "cross_site"],
      [403, "cross_site"],
    ]);
    expect([asked, preflight].some(({ headers }) => headers["access-control-allow-origin"] !== undefined)).toBe(false);
    expect((await askAdmin(proxy.url, "GET", "/keys", { token: editor, headers: { origin: proxy.url } })).status).toBe(
      200,
    );
  });

  it("knows its paths and their methods", async () => {
    const patch = await askAdmin(proxy.url, "PATCH", "/keys", { token: editor });
    expect([patch.status, patch.headers["allow"], patch.json]).toMatchObject([
      405,
      "GET, POST",
      { error: { code: "method_not_allowed" } },
    ]);
    expect((await askAdmin(proxy.url, "GET", "/nothing", { token: editor })).status).toBe(404);
    expect((await askAdmin(proxy.url, "GET", "/nothing", { from: stranger() })).status).toBe(401);
    expect((await askAdmin(proxy.url, "GET", "", { token: editor })).status).toBe(404);
    expect((await askAdmin(proxy.url, "GET", "/KEYS", { token: editor })).status).toBe(404);
  });

  it("counts failed tries by what was wrong", async () => {
    await askAdmin(proxy.url, "GET", "/keys", { from: stranger() });
    await askAdmin(proxy.url, "GET", "/keys", { from: stranger(), token: "wrong" });
    expect(await proxy.metrics()).toMatch(
      /farebox_admin_failures_total\{reason="missing"\} \d+\n(.*\n)*farebox_admin_failures_total\{reason="unknown"\} 1\n/,
    );
  });

  it("refuses a large body without a stated size as soon as it is too large", async () => {
    const raw = `{"name":"${"x".repeat(2 * 1024 * 1024)}`;
    expect((await askAdmin(proxy.url, "POST", "/keys", { token: editor, raw, unended: true })).status).toBe(413);
  });
});
