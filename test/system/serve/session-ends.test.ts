// @module-tag races
import { expect, it } from "vitest";
import { rotateKey } from "../../../src/admin/key-changes.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { openPostgresStore, utc } from "../../support/ledger-fixtures.ts";
import { query } from "../../support/postgres-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { newDatabase } from "../../support/shared-postgres.ts";

const bearer = (text: string) => ({ authorization: `Bearer ${text}` });

interface Begun {
  readonly id: string;
  readonly api_key: string;
}

async function begin({ url }: Pick<RunningProxy, "url">, key: string): Promise<Begun> {
  const answer = await fetch(`${url}/v1/farebox/sessions`, { method: "POST", headers: bearer(key) });
  expect(answer.status).toBe(201);
  return (await answer.json()) as Begun;
}

/** Returns the statuses of a free and of a charged request. */
async function statuses(proxy: RunningProxy, credential: string): Promise<readonly number[]> {
  const me = await fetch(`${proxy.url}/v1/farebox/me`, { headers: bearer(credential) });
  const chat = await proxy.chat({ max_tokens: 5 }, { key: credential });
  await Promise.all([me.arrayBuffer(), chat.arrayBuffer()]);
  return [me.status, chat.status];
}

/** Begins or ends a session of the dashboard, or shows its kind. */
async function dashboard({ url }: RunningProxy, method: string, cookie = "", token?: string) {
  const answer = await fetch(`${url}/dashboard/session`, {
    method,
    headers: {
      origin: url,
      "x-farebox-dashboard": "1",
      "content-type": "application/json",
      cookie: cookie.replace(/^\w+=/, `farebox_session_${new URL(url).port}=`),
    },
    ...(token !== undefined && { body: JSON.stringify({ token }) }),
  });
  const { kind } = (await answer.json()) as { readonly kind: string };
  return { kind, cookie: answer.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

/** Clock whose long timers never fire: those of heartbeats and of attempts to reconnect. */
function clockWithoutLongTimers(): Clock {
  const clock = systemClock();
  return { ...clock, after: (ms, callback) => (ms < 250 ? clock.after(ms, callback) : { cancel() {} }) };
}

/**
 * Starts two proxies on one PostgreSQL ledger. The second one, the peer, receives no notice of a change: it sends no
 * heartbeats, and its connection for notices is closed.
 */
async function withPeerWithoutNotices(run: (proxy: RunningProxy, peer: RunningProxy, url: string) => Promise<void>) {
  await using database = await newDatabase();
  const env = { FAREBOX_DATABASE: database.url };
  await using peer = await startProxy({ env, clock: clockWithoutLongTimers() });
  const ended = await query(
    database.url,
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and application_name like 'farebox serve %, changes'",
  );
  expect(ended).toHaveLength(1);
  await using proxy = await startProxy({ env, keyName: "bob" });
  await run(proxy, peer, database.url);
}

it("a session that ends at one proxy is refused at once by another, even if no change reaches it", () =>
  withPeerWithoutNotices(async (proxy, peer, url) => {
    const { id, api_key: credential } = await begin(proxy, proxy.key);
    const left = await begin(proxy, proxy.key);
    expect(await statuses(peer, proxy.key)).toEqual([200, 200]);
    expect(await statuses(peer, credential)).toEqual([200, 200]);
    expect(await statuses(peer, left.api_key)).toEqual([200, 200]);
    const answer = await fetch(`${proxy.url}/v1/farebox/sessions/${id}`, {
      method: "DELETE",
      headers: bearer(credential),
    });
    expect(answer.status).toBe(200);
    expect(await statuses(peer, credential)).toEqual([401, 401]);
    expect(await statuses(proxy, credential)).toEqual([401, 401]);
    expect(await statuses(peer, left.api_key)).toEqual([200, 200]);

    // A command that has access to the ledger ends the other one.
    const clock = systemClock();
    await using store = await openPostgresStore({ url, calendar: utc, clock, access: "command" });
    await store.sessions.end(left.id, clock.now());
    expect(await statuses(peer, left.api_key)).toEqual([401, 401]);

    // The peer still has the key's old secret in its cache, but begins no session with it.
    const rotated = await rotateKey({ keys: proxy.serving.keys, clock, by: "test" }, "bob", { overlapMs: 0 });
    if (!rotated.ok) throw new Error(rotated.message);
    expect(await statuses(peer, proxy.key)).toEqual([200, 200]);
    const refused = await fetch(`${peer.url}/v1/farebox/sessions`, { method: "POST", headers: bearer(proxy.key) });
    expect(refused.status).toBe(409);
    expect(await statuses(peer, (await begin(proxy, rotated.text)).api_key)).toEqual([200, 200]);
  }));

it("a browser that signs out at one proxy is signed out at once at another, even if no change reaches it", () =>
  withPeerWithoutNotices(async (proxy, peer) => {
    const { cookie } = await dashboard(proxy, "POST", "", proxy.key);
    expect((await dashboard(peer, "GET", cookie)).kind).toBe("key");
    expect((await dashboard(proxy, "DELETE", cookie)).kind).toBe("none");
    expect((await dashboard(peer, "GET", cookie)).kind).toBe("none");
  }));

/** Command that sends requests over several connections, and prints its credential. */
const command = [
  "--",
  process.execPath,
  "--input-type=module",
  "-e",
  `const { OPENAI_BASE_URL: url, OPENAI_API_KEY: key } = process.env;
   const ask = async () => (await fetch(url + "/models", { headers: { authorization: "Bearer " + key, connection: "close" } })).status;
   console.log(key, (await Promise.all(Array.from({ length: 8 }, ask))).join());`,
];

it.each(["sqlite", "postgres"] as const)(
  "no worker accepts a session's credential after farebox run has returned, on %s",
  async (engine) => {
    await using owned = new AsyncDisposableStack();
    const folder = owned.use(await temporaryFolder());
    const sandbox = owned.use(await startSandbox());
    const database = engine === "sqlite" ? `${folder.path}/ledger.db` : owned.use(await newDatabase()).url;
    const key = (await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } })).stdout.trim();
    const serve = owned.use(await startServe({ database, gateway: sandbox, env: { FAREBOX_WORKERS: "2" } }));
    const { port } = new URL(serve.url);
    const ways = [
      { FAREBOX_PORT: port, FAREBOX_DATABASE: `${folder.path}/none.db`, FAREBOX_KEY: key },
      { FAREBOX_PORT: port, FAREBOX_DATABASE: database },
    ];
    for (const env of ways) {
      const ended = await runFarebox(["run", ...command], { env });
      expect(ended).toMatchObject({ code: 0 });
      const [credential = "", inside] = ended.stdout.trim().split(" ");
      const modelsStatus = async () => {
        const headers = { ...bearer(credential), connection: "close" };
        return (await fetch(`${serve.url}/v1/models`, { headers })).status;
      };
      expect(inside).toBe("200,200,200,200,200,200,200,200");
      expect(await Promise.all(Array.from({ length: 8 }, modelsStatus))).toEqual(Array.from({ length: 8 }, () => 401));
    }
  },
);
