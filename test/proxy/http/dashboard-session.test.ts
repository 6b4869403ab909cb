import { describe, expect, it } from "vitest";
import { Sessions, type Holder } from "../../../src/admin/sessions.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { sessionSchema } from "../../../src/reporting/shapes/keys.ts";
import { addAdmin } from "../../support/admin-client.ts";
import { fastClock } from "../../support/fast-clock.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

/** A browser on the dashboard's page: it sends its origin and the page's header with what it writes, and keeps its cookie. */
function browser(proxy: RunningProxy) {
  let cookie = "";
  const headers = { origin: proxy.url, "x-farebox-dashboard": "1" };
  const ask = async (
    method: string,
    path: string,
    { body, headers: own = headers }: { body?: unknown; headers?: Record<string, string> } = {},
  ) => {
    const sent = {
      ...(method !== "GET" && own),
      ...(cookie !== "" && { cookie }),
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const answer = await fetch(proxy.url + path, {
      method,
      headers: sent,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const set = answer.headers.get("set-cookie");
    if (set !== null) cookie = set.split(";")[0] ?? "";
    const text = await answer.text();
    if (path === "/dashboard/session" && answer.ok)
      expect(sessionSchema.safeParse(JSON.parse(text)).error?.issues).toBe(undefined);
    return { status: answer.status, set, json: JSON.parse(text) as never, text };
  };
  const signIn = (token: string) => ask("POST", "/dashboard/session", { body: { token } });
  return { ask, signIn, cookie: () => cookie };
}

const settingsToken = "from-the-settings-0123456789";
const started = (clock?: Clock) => startProxy({ env: { FAREBOX_ADMIN_TOKEN: settingsToken }, ...(clock && { clock }) });

describe("a session of the dashboard", () => {
  it("begins with an admin token, reads and writes the admin API, and ends at sign-out", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    expect((await page.ask("GET", "/dashboard/session")).json).toEqual({ kind: "none" });
    const began = await page.signIn(settingsToken);
    expect(began).toMatchObject({
      status: 200,
      json: { kind: "admin", name: "env", role: "editor", time_zone: "UTC", version: "0.0.0-test" },
    });
    const { port } = new URL(proxy.url);
    expect(began.set).toMatch(
      new RegExp(`^farebox_session_${port}=[\\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`),
    );
    expect(began.text).not.toContain(page.cookie().split("=")[1]);
    expect((await page.ask("GET", "/admin/v1/whoami")).json).toMatchObject({ name: "env", role: "editor" });
    expect((await page.ask("POST", "/admin/v1/keys", { body: { name: "bob" } })).status).toBe(201);
    const left = await page.ask("DELETE", "/dashboard/session");
    expect(left).toMatchObject({ json: { kind: "none" }, set: expect.stringContaining("Max-Age=0") });
    expect((await page.ask("GET", "/admin/v1/whoami")).status).toBe(401);
  });

  it("ends for good at sign-out: a copied cookie gives no access", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(settingsToken);
    const copied = page.cookie();
    await page.ask("DELETE", "/dashboard/session");
    expect((await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { cookie: copied } })).status).toBe(401);
  });

  it("shows who has a key that key's own figures, and nothing of the admin API", async () => {
    await using proxy = await started();
    await proxy.addKey("bob");
    const page = browser(proxy);
    expect((await page.signIn(proxy.key)).json).toMatchObject({ kind: "key", name: "alice", team: null, role: null });
    expect((await page.ask("GET", "/v1/farebox/me")).json).toMatchObject({ key: { name: "alice" } });
    const refused = await page.ask("GET", "/admin/v1/keys");
    expect(refused).toMatchObject({
      status: 401,
      json: { error: { message: expect.stringContaining("sees only that key's figures") } },
    });
    expect(refused.text).not.toContain("bob");
  });

  it("is a viewer's where the token is", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(await addAdmin(proxy.database, "vera", "viewer"));
    expect((await page.ask("GET", "/admin/v1/keys")).status).toBe(200);
    expect(await page.ask("POST", "/admin/v1/keys", { body: { name: "bob" } })).toMatchObject({
      status: 403,
      json: { error: { code: "read_only" } },
    });
    expect((await page.ask("GET", "/v1/farebox/me")).status).toBe(401);
  });

  it("ends with the token or the key that began it, at once", async () => {
    await using proxy = await started();
    const admin = browser(proxy);
    await admin.signIn(settingsToken);
    const key = browser(proxy);
    await key.signIn(proxy.key);
    expect((await key.ask("GET", "/v1/farebox/me")).status).toBe(200);
    expect((await admin.ask("POST", "/admin/v1/keys/alice/revoke")).status).toBe(200);
    expect((await key.ask("GET", "/v1/farebox/me")).status).toBe(401);
    expect((await key.ask("GET", "/dashboard/session")).json).toEqual({ kind: "none" });
  });

  it("of a key that is rotated lasts as long as its secret", async () => {
    await using proxy = await started();
    const [admin, key] = [browser(proxy), browser(proxy)];
    await admin.signIn(settingsToken);
    await key.signIn(proxy.key);
    await admin.ask("POST", "/admin/v1/keys/alice/rotate", { body: { overlap: "1h" } });
    expect((await key.ask("GET", "/v1/farebox/me")).status).toBe(200);
    await admin.ask("POST", "/admin/v1/keys/alice/rotate", { body: { overlap: "1h" } });
    expect((await key.ask("GET", "/v1/farebox/me")).status).toBe(401);
  });

  it.each<[string, Record<string, string>]>([
    ["without the page's header", { origin: "OWN" }],
    ["without an origin", { "x-farebox-dashboard": "1" }],
    ["from another port of the host", { origin: "http://127.0.0.1:1", "x-farebox-dashboard": "1" }],
    ["from no origin at all", { origin: "null", "x-farebox-dashboard": "1" }],
    [
      "from another site, as the browser says",
      { origin: "OWN", "x-farebox-dashboard": "1", "sec-fetch-site": "cross-site" },
    ],
  ])("writes nothing %s", async (_name, given) => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(settingsToken);
    const headers = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, value === "OWN" ? proxy.url : value]),
    );
    for (const [method, path] of [
      ["POST", "/admin/v1/keys"],
      ["DELETE", "/admin/v1/budgets?scope=all&period=1d"],
      ["POST", "/dashboard/session"],
      ["DELETE", "/dashboard/session"],
    ] as const) {
      const body = method === "POST" ? { body: { name: "bob" } } : {};
      expect([path, (await page.ask(method, path, { ...body, headers })).status]).toEqual([path, 403]);
    }
    expect((await page.ask("GET", "/admin/v1/keys")).text).not.toContain("bob");
  });

  it("is kept for https alone where the page is on https, also behind a proxy that changes the Host", async () => {
    await using proxy = await started();
    const headers = {
      origin: "https://farebox.example.com",
      "sec-fetch-site": "same-origin",
      "x-farebox-dashboard": "1",
    };
    const began = await browser(proxy).ask("POST", "/dashboard/session", { body: { token: settingsToken }, headers });
    const { port } = new URL(proxy.url);
    expect(began.set).toMatch(new RegExp(`^__Host-farebox_session_${port}=.*; HttpOnly; SameSite=Strict; Secure$`));
    const cookie = began.set?.split(";")[0] ?? "";
    expect((await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { cookie } })).status).toBe(200);
  });

  it("is not a key: no request is forwarded or answered for its cookie", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(proxy.key);
    for (const path of ["/v1/models", "/account/info"])
      expect([path, (await page.ask("GET", path)).status]).toEqual([path, 401]);
    expect((await page.ask("POST", "/v1/chat/completions", { body: { model: "gpt-4o", messages: [] } })).status).toBe(
      401,
    );
    expect(await proxy.charges()).toEqual([]);
  });

  it("is not begun by a wrong token, and trying takes longer each time", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    expect(await page.signIn("sk-fba-abc-0123456789012345678901234567890")).toMatchObject({
      status: 401,
      set: null,
      json: { error: { message: expect.stringContaining("unknown") } },
    });
    expect(await page.signIn("sk-fb-abc-0123456789012345678901234567890")).toMatchObject({
      status: 401,
      set: null,
      json: { error: { message: "This API key is unknown." } },
    });
    expect(await page.ask("POST", "/dashboard/session", { body: { token: 5 } })).toMatchObject({ status: 400 });
    expect(await page.ask("POST", "/dashboard/session", { body: {} })).toMatchObject({ status: 400 });
    for (let index = 0; index < 2; index++) await page.signIn(`sk-fb-abc-012345678901234567890123456789${index}`);
    const began = performance.now();
    await page.signIn("sk-fb-abc-012345678901234567890123456789x");
    expect(performance.now() - began).toBeGreaterThan(200);
  });

  it("is begun by a valid token or key at once, while wrong ones from the same address wait", async () => {
    await using proxy = await started(fastClock(5));
    const page = browser(proxy);
    let answered = 0;
    const wrong = ["sk-fba", "sk-fb"].flatMap((kind) =>
      Array.from({ length: 7 }, (_, index) => page.signIn(`${kind}-abc-0123456789012345678901234567890${index}`)),
    );
    const all = Promise.all(wrong.map((each) => each.then(() => answered++)));
    for (const token of [settingsToken, proxy.key]) expect(await page.signIn(token)).toMatchObject({ status: 200 });
    expect(answered).toBeLessThan(wrong.length);
    await all;
  });
});

describe("sessions", () => {
  const holder = (name: string): Holder => ({ kind: "key", id: name, digest: Buffer.from(name) });

  it("last twelve hours, or as long as their token", () => {
    const clock = manualClock("2026-11-20T12:00:00Z");
    const sessions = new Sessions(clock);
    const long = sessions.begin(holder("a"), null);
    const short = sessions.begin(holder("b"), clock.now() + 60_000);
    expect(long.session.expiresAt - clock.now()).toBe(12 * 3_600_000);
    clock.advance(60_000);
    expect([sessions.find(long.token), sessions.find(short.token)]).toEqual([long.session, undefined]);
    clock.advance(12 * 3_600_000 - 60_000);
    expect(sessions.find(long.token)).toBeUndefined();
  });

  it("are bounded, for one token and for all, the oldest ending first", () => {
    const sessions = new Sessions(manualClock("2026-11-20T12:00:00Z"));
    const other = sessions.begin(holder("other"), null);
    const own = Array.from({ length: 21 }, () => sessions.begin(holder("own"), null));
    expect(own.map(({ token }) => sessions.find(token) !== undefined)).toEqual([
      false,
      ...Array.from({ length: 20 }, () => true),
    ]);
    for (let index = 0; index < 10_000; index++) sessions.begin(holder(`key-${index}`), null);
    expect(sessions.size).toBe(10_000);
    expect(sessions.find(other.token)).toBeUndefined();
  });
});
