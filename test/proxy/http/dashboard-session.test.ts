import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Sessions, type Holder } from "../../../src/admin/sessions.ts";
import { codeMs, SignInCodes } from "../../../src/admin/sign-in-codes.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { sessionSchema } from "../../../src/reporting/shapes/keys.ts";
import { silentLog } from "../../support/captured-log.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import type { DashboardSessions } from "../../../src/ports/stores.ts";
import { startServing } from "../../../src/server/serving.ts";
import { addAdmin } from "../../support/admin-client.ts";
import { memoryStore } from "../../support/ledger-fixtures.ts";
import { manualClock, type ManualClock } from "../../support/manual-clock.ts";
import { only } from "../../support/only.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { isThorough } from "../../support/effort.ts";
import { until } from "../../support/until.ts";

/**
 * Simulates a browser on the dashboard page, which sends its origin and the page's header with changes and keeps its
 * cookie.
 */
function browser(proxy: RunningProxy) {
  let cookie = "";
  const headers = { origin: proxy.url, "x-farebox-dashboard": "1" };
  const call = async (
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
  const signIn = (token: string) => call("POST", "/dashboard/session", { body: { token } });
  return { call, signIn, cookie: () => cookie };
}

/** Advances the clock step by step until the condition holds. */
const advanceUntil = (clock: ManualClock, holds: () => boolean) => until(() => holds() || (clock.advance(250), false));

const settingsToken = "from-the-settings-0123456789";
const started = (clock?: Clock) => startProxy({ env: { FAREBOX_ADMIN_TOKEN: settingsToken }, ...(clock && { clock }) });

describe("a dashboard session", () => {
  it("begins with an admin token, can read and change through the admin API, and ends at sign-out", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    expect((await page.call("GET", "/dashboard/session")).json).toEqual({ kind: "none" });
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
    expect((await page.call("GET", "/admin/v1/whoami")).json).toMatchObject({ name: "env", role: "editor" });
    expect((await page.call("POST", "/admin/v1/keys", { body: { name: "bob" } })).status).toBe(201);
    const left = await page.call("DELETE", "/dashboard/session");
    expect(left).toMatchObject({ json: { kind: "none" }, set: expect.stringContaining("Max-Age=0") });
    expect((await page.call("GET", "/admin/v1/whoami")).status).toBe(401);
  });

  it("cannot be continued with a copied cookie after sign-out", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(settingsToken);
    const copied = page.cookie();
    await page.call("DELETE", "/dashboard/session");
    expect((await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { cookie: copied } })).status).toBe(401);
  });

  it("begun with a key shows only that key's figures, and nothing of the admin API", async () => {
    await using proxy = await started();
    await proxy.addKey("bob");
    const page = browser(proxy);
    expect((await page.signIn(proxy.key)).json).toMatchObject({ kind: "key", name: "alice", team: null, role: null });
    expect((await page.call("GET", "/v1/farebox/me")).json).toMatchObject({ key: { name: "alice" } });
    const refused = await page.call("GET", "/admin/v1/keys");
    expect(refused).toMatchObject({
      status: 401,
      json: { error: { message: expect.stringContaining("shows only that key's figures") } },
    });
    expect(refused.text).not.toContain("bob");
  });

  it("begun with a viewer's token can only read", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(await addAdmin(proxy.database, "vera", "viewer"));
    expect((await page.call("GET", "/admin/v1/keys")).status).toBe(200);
    expect(await page.call("POST", "/admin/v1/keys", { body: { name: "bob" } })).toMatchObject({
      status: 403,
      json: { error: { code: "read_only" } },
    });
    expect((await page.call("GET", "/v1/farebox/me")).status).toBe(401);
  });

  it("ends at once when the key that began it is revoked", async () => {
    await using proxy = await started();
    const admin = browser(proxy);
    await admin.signIn(settingsToken);
    const key = browser(proxy);
    await key.signIn(proxy.key);
    expect((await key.call("GET", "/v1/farebox/me")).status).toBe(200);
    expect((await admin.call("POST", "/admin/v1/keys/alice/revoke")).status).toBe(200);
    expect((await key.call("GET", "/v1/farebox/me")).status).toBe(401);
    expect((await key.call("GET", "/dashboard/session")).json).toEqual({ kind: "none" });
  });

  it("begun with a key ends once rotations have ended the secret that began it", async () => {
    await using proxy = await started();
    const [admin, key] = [browser(proxy), browser(proxy)];
    await admin.signIn(settingsToken);
    await key.signIn(proxy.key);
    await admin.call("POST", "/admin/v1/keys/alice/rotate", { body: { overlap: "1h" } });
    expect((await key.call("GET", "/v1/farebox/me")).status).toBe(200);
    await admin.call("POST", "/admin/v1/keys/alice/rotate", { body: { overlap: "1h" } });
    expect((await key.call("GET", "/v1/farebox/me")).status).toBe(401);
  });

  it.each<[string, Record<string, string>]>([
    ["without the page's header", { origin: "OWN" }],
    ["without an origin", { "x-farebox-dashboard": "1" }],
    ["from another port of the host", { origin: "http://127.0.0.1:1", "x-farebox-dashboard": "1" }],
    ["from a null origin", { origin: "null", "x-farebox-dashboard": "1" }],
    [
      "from another site according to the browser",
      { origin: "OWN", "x-farebox-dashboard": "1", "sec-fetch-site": "cross-site" },
    ],
  ])("cannot change anything %s", async (_name, given) => {
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
      expect([path, (await page.call(method, path, { ...body, headers })).status]).toEqual([path, 403]);
    }
    expect((await page.call("GET", "/admin/v1/keys")).text).not.toContain("bob");
  });

  it("has a secure cookie if the page uses https, even behind a proxy that changes the Host header", async () => {
    await using proxy = await started();
    const headers = {
      origin: "https://farebox.example.com",
      "sec-fetch-site": "same-origin",
      "x-farebox-dashboard": "1",
    };
    const began = await browser(proxy).call("POST", "/dashboard/session", { body: { token: settingsToken }, headers });
    const { port } = new URL(proxy.url);
    expect(began.set).toMatch(new RegExp(`^__Host-farebox_session_${port}=.*; HttpOnly; SameSite=Strict; Secure$`));
    const cookie = began.set?.split(";")[0] ?? "";
    expect((await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { cookie } })).status).toBe(200);
  });

  it("is not a key: its cookie gives no access to the API of the gateway", async () => {
    await using proxy = await started();
    const page = browser(proxy);
    await page.signIn(proxy.key);
    for (const path of ["/v1/models", "/account/info"])
      expect([path, (await page.call("GET", path)).status]).toEqual([path, 401]);
    expect((await page.call("POST", "/v1/chat/completions", { body: { model: "gpt-4o", messages: [] } })).status).toBe(
      401,
    );
    expect(await proxy.charges()).toEqual([]);
  });

  it("is not begun by a wrong token, and further attempts are delayed", async () => {
    const clock = manualClock(Date.now());
    await using proxy = await started(clock);
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
    expect(await page.call("POST", "/dashboard/session", { body: { token: 5 } })).toMatchObject({ status: 400 });
    expect(await page.call("POST", "/dashboard/session", { body: {} })).toMatchObject({ status: 400 });
    for (let index = 0; index < 2; index++) await page.signIn(`sk-fb-abc-012345678901234567890123456789${index}`);
    const before = clock.waiting;
    let isAnswered = false;
    const answered = page.signIn("sk-fb-abc-012345678901234567890123456789x").then(() => (isAnswered = true));
    await until(() => clock.waiting > before, "the attempt waits");
    expect(isAnswered).toBe(false);
    await advanceUntil(clock, () => isAnswered);
    await answered;
  });

  it("begins at once with a valid token or key while wrong ones from the same address wait", async () => {
    const clock = manualClock(Date.now());
    await using proxy = await started(clock);
    const page = browser(proxy);
    let answered = 0;
    const wrong = ["sk-fba", "sk-fb"].flatMap((kind) =>
      Array.from({ length: 7 }, (_, index) => page.signIn(`${kind}-abc-0123456789012345678901234567890${index}`)),
    );
    const all = Promise.all(wrong.map((each) => each.then(() => answered++)));
    for (const token of [settingsToken, proxy.key]) expect(await page.signIn(token)).toMatchObject({ status: 200 });
    expect(answered).toBeLessThan(wrong.length);
    await advanceUntil(clock, () => answered === wrong.length);
    await all;
  });
});

describe("a one-time sign-in code", () => {
  const codeIn = (link: string) => /^http:\S+\/dashboard#sign-in=(fb-once-[\w-]{43})$/.exec(link)?.[1] ?? "";

  it("signs in once, as the token for which it was created", async () => {
    await using proxy = await started();
    const code = codeIn(proxy.serving.signInLink(settingsToken));
    expect(await browser(proxy).signIn(code)).toMatchObject({ status: 200, json: { kind: "admin", name: "env" } });
    expect(await browser(proxy).signIn(code)).toMatchObject({ status: 401, set: null });
    expect(await browser(proxy).signIn(`${codeIn(proxy.serving.signInLink(settingsToken))}x`)).toMatchObject({
      status: 401,
    });
    expect(await browser(proxy).signIn(codeIn(proxy.serving.signInLink(proxy.key)))).toMatchObject({
      json: { kind: "key", name: "alice" },
    });
    expect(await browser(proxy).signIn(codeIn(proxy.serving.signInLink("no-such-token")))).toMatchObject({
      status: 401,
    });
  });

  it("is valid for ten minutes, and only the 100 newest unused codes are kept", () => {
    const clock = manualClock("2026-11-20T12:00:00Z");
    const codes = new SignInCodes(clock);
    const [late, early] = [codes.create("t"), codes.create("t")];
    clock.advance(codeMs - 1);
    expect(codes.use(early)).toBe("t");
    clock.advance(1);
    expect(codes.use(late)).toBeUndefined();
    const many = Array.from({ length: 101 }, () => codes.create("t"));
    expect(many.map((code) => codes.use(code) !== undefined)).toEqual([
      false,
      ...Array.from({ length: 100 }, () => true),
    ]);
  });

  it("gives no access to the admin API", async () => {
    await using proxy = await started();
    const code = codeIn(proxy.serving.signInLink(settingsToken));
    const answer = await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { authorization: `Bearer ${code}` } });
    expect(answer.status).toBe(401);
  });
});

describe("stored dashboard sessions", () => {
  const holder = (name: string): Holder => ({ kind: "key", id: name, digest: Buffer.from(name) });
  const opened = (clock = manualClock("2026-11-20T12:00:00Z")) => {
    const { dashboardSessions: stored } = memoryStore({ clock });
    return { clock, stored, sessions: new Sessions({ clock, stored }) };
  };

  it("last twelve hours, or until their token expires", async () => {
    const { clock, sessions } = opened();
    const long = await sessions.begin(holder("a"), null);
    const short = await sessions.begin(holder("b"), clock.now() + 60_000);
    expect(long.session.expiresAt - clock.now()).toBe(12 * 3_600_000);
    clock.advance(60_000);
    expect([await sessions.find(long.token), await sessions.find(short.token)]).toEqual([long.session, undefined]);
    clock.advance(12 * 3_600_000 - 60_000);
    expect(await sessions.find(long.token)).toBeUndefined();
  });

  it.runIf(isThorough)("are limited per token and in total, by ending the oldest", async () => {
    const { sessions } = opened();
    const isOpen = async ({ token }: { token: string }) => (await sessions.find(token)) !== undefined;
    const other = await sessions.begin(holder("other"), null);
    const own: { token: string }[] = [];
    for (let index = 0; index < 21; index++) own.push(await sessions.begin(holder("own"), null));
    expect(await Promise.all(own.map(isOpen))).toEqual([false, ...Array.from({ length: 20 }, () => true)]);
    const last = await Promise.all(
      Array.from({ length: 9_979 }, (_, index) => sessions.begin(holder(`key-${index}`), null)),
    );
    expect(await isOpen(other)).toBe(true);
    await sessions.begin(holder("one more"), null);
    expect(await Promise.all([other, ...own.slice(1), ...last].map(isOpen))).toEqual([
      false,
      ...Array.from({ length: 20 + 9_979 }, () => true),
    ]);
  });

  it("that the ledger cannot store are valid in their own process", async () => {
    const { clock, stored, sessions: intact } = opened();
    const full: DashboardSessions = { ...stored, create: async () => "unavailable" };
    const sessions = new Sessions({ clock, stored: full });
    const { token, session } = await sessions.begin(holder("a"), null);
    const other = await intact.begin(holder("b"), null);
    await intact.end(other.token);
    expect([await sessions.find(token), await intact.find(token)]).toEqual([session, undefined]);
  });

  it("are not queried for a text that cannot be a session token", async () => {
    const { clock } = opened();
    const stored = only<DashboardSessions>({ find: () => Promise.reject(new Error("no query is needed")) });
    const sessions = new Sessions({ clock, stored });
    for (const text of ["", "x", "x".repeat(44), `${"x".repeat(42)}'`])
      expect(await sessions.find(text)).toBeUndefined();
  });
});

it("dashboard sessions survive a restart, and the ledger does not contain their tokens", async () => {
  await using proxy = await started();
  const [admin, key, signedOut] = [browser(proxy), browser(proxy), browser(proxy)];
  await admin.signIn(settingsToken);
  await key.signIn(proxy.key);
  await signedOut.signIn(proxy.key);
  const copied = signedOut.cookie();
  await signedOut.call("DELETE", "/dashboard/session");
  await proxy.serving[Symbol.asyncDispose]();
  const restarted = await startServing(proxy.settings, { clock: systemClock(), log: silentLog, version: "0.0.0-test" });
  if (!restarted.ok) throw new Error(restarted.problems.join());
  await using again = restarted.serving;
  // The name of the cookie contains the port, which has changed.
  const statusOf = async (cookie: string, path: string) => {
    const moved = cookie.replace(/^farebox_session_\d+/, `farebox_session_${new URL(again.url).port}`);
    return (await fetch(again.url + path, { headers: { cookie: moved } })).status;
  };
  expect(await statusOf(admin.cookie(), "/admin/v1/whoami")).toBe(200);
  expect(await statusOf(key.cookie(), "/v1/farebox/me")).toBe(200);
  expect(await statusOf(copied, "/v1/farebox/me")).toBe(401);
  const token = admin.cookie().split("=")[1] ?? "";
  const files = [proxy.database, `${proxy.database}-wal`].filter((path) => existsSync(path));
  expect(files.filter((path) => readFileSync(path).includes(token))).toEqual([]);
});
