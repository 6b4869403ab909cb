import { describe, expect, it } from "vitest";
import { digestOfKey, rotateKey } from "../../../src/admin/key-changes.ts";
import { beginSession, newSessionSchema } from "../../../src/admin/run-sessions.ts";
import { Secret } from "../../../src/config/secret.ts";
import { startServing } from "../../../src/server/serving.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { silentLog } from "../../support/captured-log.ts";
import { openStore, utc } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

type Send = (init: RequestInit & { readonly path?: string }) => Promise<Response>;

const sender =
  ({ url }: Pick<RunningProxy, "url">): Send =>
  ({ path = "/v1/farebox/me", ...init }) =>
    fetch(url + path, init);

const bearer = (text: string) => ({ authorization: `Bearer ${text}` });

/** Begins a session through the proxy and returns its credential; null if it is refused. */
async function begin(send: Send, secret: string): Promise<string | null> {
  const answer = await send({ path: "/v1/farebox/sessions", method: "POST", headers: bearer(secret) });
  return answer.status === 201 ? ((await answer.json()) as { readonly api_key: string }).api_key : null;
}

/** Signs a browser in and returns its cookie; null if it is refused. */
async function signIn({ url }: Pick<RunningProxy, "url">, token: string): Promise<string | null> {
  const answer = await fetch(`${url}/dashboard/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: url, "x-farebox-dashboard": "1" },
    body: JSON.stringify({ token }),
  });
  return answer.headers.get("set-cookie")?.split(";")[0] ?? null;
}

/** Credentials that a secret has begun, by what they are. */
interface Begun {
  readonly what: string;
  readonly headers: Record<string, string>;
}

const overlapMs = 60_000;

/** A key and what happens to it in time, with everything that its secrets have begun. */
async function openScene(proxy: RunningProxy, clock: ReturnType<typeof manualClock>, name: string) {
  const send = sender(proxy);
  const { keys, sessions } = proxy.serving;
  const secrets = [await proxy.addKey(name)];
  const begun = new Map<string, Begun[]>();
  const passes = async (headers: Record<string, string>) => (await send({ headers })).status === 200;
  return {
    secrets,
    /** Begins a session of each kind with each secret that opens the key, and one in the ledger. */
    async beginAll() {
      for (const [number, secret] of secrets.entries()) {
        if (!(await passes(bearer(secret)))) continue;
        const credential = (await begin(send, secret)) ?? expect.fail("a valid secret begins a session");
        const cookie = (await signIn(proxy, secret)) ?? expect.fail("a valid secret signs in");
        const ofSecret = begun.get(secret) ?? [];
        begun.set(secret, ofSecret);
        ofSecret.push({ what: `session of secret ${number}`, headers: bearer(credential) });
        ofSecret.push({ what: `dashboard of secret ${number}`, headers: { cookie } });
      }
      const key = (await keys.find(name)) ?? expect.fail("the key exists");
      const inLedger = await beginSession({ sessions, clock }, key, newSessionSchema.parse({}), { by: "os:root" });
      if (!inLedger.ok) throw new Error(inLedger.message);
      const newest = begun.get(secrets.at(-1) ?? "");
      newest?.push({ what: "session begun in the ledger", headers: bearer(inLedger.credential) });
    },
    async rotate(ms: number) {
      const rotated = await rotateKey({ keys, clock, by: "test" }, name, { overlapMs: ms });
      secrets.push(rotated.ok ? rotated.text : expect.fail(rotated.message));
    },
    /** Returns which secrets open the key. Expects that everything they began lives exactly as long. */
    async open(when = "") {
      const open: boolean[] = [];
      for (const secret of secrets) {
        const isOpen = await passes(bearer(secret));
        open.push(isOpen);
        for (const { what, headers } of begun.get(secret) ?? [])
          expect([when, what, await passes(headers)]).toEqual([when, what, isOpen]);
      }
      return open;
    },
  };
}

const openedAt = "2026-11-20T12:00:00Z";

describe("sessions of a rotated key", () => {
  it("live exactly as long as the secret that began them, after any three rotations and pauses", async () => {
    const clock = manualClock(openedAt);
    await using proxy = await startProxy({ clock });
    const steps = {
      "rotate without overlap": { rotate: 0, pass: 0 },
      "rotate with an overlap": { rotate: overlapMs, pass: 0 },
      "wait until just before the end of the overlap": { rotate: null, pass: overlapMs - 1 },
      "wait a millisecond": { rotate: null, pass: 1 },
    } as const;
    const names = Object.keys(steps) as (keyof typeof steps)[];
    let count = 0;
    for (const first of names.slice(0, 2))
      for (const second of names)
        for (const third of names) {
          const scene = await openScene(proxy, clock, `k${count++}`);
          await scene.beginAll();
          const done: string[] = [];
          for (const name of [first, second, third]) {
            const { rotate, pass } = steps[name];
            if (rotate !== null) await scene.rotate(rotate);
            clock.advance(pass);
            done.push(name);
            await scene.open(done.join(", "));
            await scene.beginAll();
          }
        }
  });

  it("end at the exact end of the overlap", async () => {
    const clock = manualClock(openedAt);
    await using proxy = await startProxy({ clock });
    const scene = await openScene(proxy, clock, "bob");
    await scene.beginAll();
    await scene.rotate(overlapMs);
    // Another session of the previous secret, begun after the rotation.
    await scene.beginAll();
    clock.advance(overlapMs - 1);
    expect(await scene.open()).toEqual([true, true]);
    clock.advance(1);
    expect(await scene.open()).toEqual([false, true]);
  });

  it("end at once without an overlap, and are not revived by a later rotation with an overlap", async () => {
    const clock = manualClock(openedAt);
    await using proxy = await startProxy({ clock });
    const scene = await openScene(proxy, clock, "bob");
    await scene.beginAll();
    await scene.rotate(0);
    expect(await scene.open()).toEqual([false, true]);
    clock.advance(1000);
    await scene.rotate(overlapMs);
    expect(await scene.open()).toEqual([false, true, true]);
  });

  it("end when a second rotation replaces the previous secret before its overlap ends", async () => {
    const clock = manualClock(openedAt);
    await using proxy = await startProxy({ clock });
    const scene = await openScene(proxy, clock, "bob");
    await scene.beginAll();
    await scene.rotate(overlapMs);
    await scene.beginAll();
    await scene.rotate(overlapMs);
    expect(await scene.open()).toEqual([false, true, true]);
  });

  it("state that the key has a new secret, also for requests that cost money", async () => {
    await using proxy = await startProxy();
    const credential = (await begin(sender(proxy), proxy.key)) ?? "";
    expect((await proxy.chat({}, { key: credential })).status).toBe(200);
    const rotated = await rotateKey({ keys: proxy.serving.keys, clock: systemClock(), by: "test" }, "alice", {
      overlapMs: 0,
    });
    const refused = await proxy.chat({}, { key: credential });
    expect([refused.status, await refused.json()]).toEqual([
      401,
      {
        error: expect.objectContaining({ message: "The key of this session has a new secret; begin another session." }),
      },
    ]);
    if (!rotated.ok) throw new Error(rotated.message);
    expect(await proxy.charges()).toHaveLength(1);
  });

  it("cannot be begun with a secret that was replaced after the request was authenticated", async () => {
    await using proxy = await startProxy();
    const { keys, sessions } = proxy.serving;
    const clock = systemClock();
    const key = (await keys.find("alice")) ?? expect.fail("the key exists");
    await rotateKey({ keys, clock, by: "test" }, "alice", { overlapMs: 0 });
    const wish = newSessionSchema.parse({});
    expect(await beginSession({ sessions, clock }, key, wish, { secret: digestOfKey(proxy.key) })).toMatchObject({
      ok: false,
      message: "alice is no longer a live key, or it has a new secret",
    });
  });

  it("are not begun by a sign-in code of a secret that was replaced", async () => {
    await using proxy = await startProxy();
    const code = (text: string) => proxy.serving.signInLink(text).split("sign-in=")[1] ?? "";
    const [first, second] = [code(proxy.key), code(proxy.key)];
    expect(await signIn(proxy, first)).not.toBeNull();
    await rotateKey({ keys: proxy.serving.keys, clock: systemClock(), by: "test" }, "alice", { overlapMs: 0 });
    expect(await signIn(proxy, second)).toBeNull();
  });
});

describe("the end of a session", () => {
  it("is in force at once when a command ends it in the ledger", async () => {
    await using proxy = await startProxy();
    const send = sender(proxy);
    const credentials = await Promise.all(Array.from({ length: 5 }, () => begin(send, proxy.key)));
    const clock = systemClock();
    await using store = await openStore({ path: proxy.database, calendar: utc, clock, access: "command" });
    for (const credential of credentials) {
      const headers = bearer(credential ?? "");
      expect((await send({ headers })).status).toBe(200);
      await store.sessions.end(/run_[a-z0-9]+/.exec(credential ?? "")?.[0] ?? "", clock.now());
      expect((await send({ headers })).status).toBe(401);
    }
  });

  it("is in force at once when a browser signs out in another process", async () => {
    await using proxy = await startProxy();
    const clock = systemClock();
    await using store = await openStore({ path: proxy.database, calendar: utc, clock, access: "command" });
    const cookie = (await signIn(proxy, proxy.key)) ?? "";
    const send = sender(proxy);
    expect((await send({ headers: { cookie } })).status).toBe(200);
    expect(await store.dashboardSessions.end(digestOfKey(cookie.split("=")[1] ?? ""))).toBe(true);
    expect((await send({ headers: { cookie } })).status).toBe(401);
  });
});

it("a dashboard session of FAREBOX_ADMIN_TOKEN ends when the proxy starts with another token", async () => {
  const token = (number: number) => `admin-token-${number}-0123456789`;
  await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token(1) } });
  const cookie = (await signIn(proxy, token(1))) ?? expect.fail("the token signs in");
  const { settings } = proxy;
  await proxy.serving[Symbol.asyncDispose]();
  const statusWith = async (changed: typeof settings) => {
    const started = await startServing(changed, { clock: systemClock(), log: silentLog, version: "0.0.0-test" });
    if (!started.ok) throw new Error(started.problems.join());
    await using again = started.serving;
    const moved = cookie.replace(/^farebox_session_\d+/, `farebox_session_${new URL(again.url).port}`);
    return (await fetch(`${again.url}/admin/v1/whoami`, { headers: { cookie: moved } })).status;
  };
  expect(await statusWith(settings)).toBe(200);
  expect(await statusWith({ ...settings, access: { ...settings.access, adminToken: new Secret(token(2)) } })).toBe(401);
});
