// @module-tag races
import { writeFile } from "node:fs/promises";
import type { Agent } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { zstdCompressSync } from "node:zlib";
import Database from "better-sqlite3";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import { refusalListSchema } from "../../../src/reporting/shapes/charges.ts";
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { head, RawClient } from "../../support/raw-client.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { csvRecords } from "../../support/csv.ts";
import { answeringGateway } from "../../support/answering-gateway.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { startPausedRelay, type PausedRelay } from "../../support/paused-relay.ts";
import {
  changePricesUnderLoad,
  expectChargesOfTheirVersions,
  openChangingPrices,
} from "../../support/price-changes.ts";
import { messageAnswer, messageDelta, messageStart, messageStop, textBlock } from "../../support/messages-stream.ts";
import { oneModelFile, priceFolder, replaceFile } from "../../support/price-files.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import {
  fetchAnswer,
  open as openAnswer,
  type OpenAnswer,
  type WireAnswer,
  type WireOptions,
} from "../../support/wire-client.ts";
import { until } from "../../support/until.ts";
import { workerConnections } from "../../support/worker-connections.ts";

const adminToken = "from-the-settings-0123456789";

interface Scene extends AsyncDisposable {
  readonly serve: ServeProcess;
  readonly sandbox: Sandbox;
  readonly folder: string;
  readonly database: string;
  addKey(name: string, more?: object): Promise<string>;
  budget(scope: string, limit: string): Promise<void>;
}

interface SceneOptions {
  readonly env?: Record<string, string>;
  readonly sandbox?: SandboxOptions;
  /** Default: the sandbox's address. */
  readonly gatewayUrl?: string;
  readonly fromSources?: boolean;
}

/** Starts a proxy with two workers in front of a sandbox. */
async function startScene({ env = {}, sandbox: options = {}, gatewayUrl, ...from }: SceneOptions = {}): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(await startSandbox({ keepRequests: 10_000, ...options }));
  const database = join(folder.path, "farebox.db");
  const gateway = { url: gatewayUrl ?? sandbox.url, apiKey: sandbox.apiKey };
  const serve = owned.use(
    await startServe({
      database,
      gateway,
      args: ["--workers", "2"],
      env: { FAREBOX_ADMIN_TOKEN: adminToken, FAREBOX_LOG_LEVEL: "debug", ...env },
      ...from,
    }),
  );
  const change = async (method: string, path: string, body: object) => {
    const reply = await callAdmin(serve.url, method, path, { token: adminToken, body });
    if (reply.status >= 300) throw new Error(reply.text);
    return reply.json as { key: string };
  };
  const kept = owned.move();
  return {
    serve,
    sandbox,
    folder: folder.path,
    database,
    addKey: async (name, more = {}) => (await change("POST", "/keys", { name, ...more })).key,
    budget: async (scope, limit) =>
      void (await change("PUT", "/budgets", { scope, period: "total", mode: "hard", limit_usd: limit, shared: true })),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const body = (more: object = {}) => ({
  model: "gpt-4o",
  messages: [{ role: "user", content: "hello" }],
  max_tokens: 100,
  ...more,
});
/** Builds a body that asks the sandbox for a scenario. */
const sandboxed = (scenario: string, stream: boolean) => ({
  messages: [{ role: "user", content: `#sandbox ${scenario}` }],
  max_tokens: 5000,
  stream,
});
/** Sends a request on a new connection, which either worker may accept. */
const chat = (
  { serve: { url } }: Scene,
  key: string,
  more: object = {},
  options: WireOptions = {},
): Promise<WireAnswer> => fetchAnswer({ url, key }, body(more), options);
const countTokens = ({ serve: { url } }: Scene, key: string): Promise<WireAnswer> =>
  fetchAnswer({ url, key }, body(), {
    path: "/v1/messages/count_tokens",
    headers: { "anthropic-version": "2023-06-01" },
  });
const open = ({ serve: { url } }: Scene, key: string, more: object): Promise<OpenAnswer> =>
  openAnswer({ url, key }, body(more));
const statuses = (answers: readonly WireAnswer[]) =>
  Object.fromEntries(
    Map.groupBy(answers, ({ status }) => status)
      .entries()
      .map(([status, { length }]) => [status, length]),
  );

/** Counts the requests that each worker has logged. */
function answeredBy({ stderr }: ServeProcess, route: string): Record<string, number> {
  const lines = stderr
    .split("\n")
    .filter((line) => line.includes('"msg":"request"') && line.includes(`"route":"${route}"`));
  return Object.fromEntries(
    Map.groupBy(lines, (line) => /"worker":(\d)/.exec(line)?.[1] ?? "none")
      .entries()
      .map(([worker, { length }]) => [worker, length]),
  );
}

function workerPid({ stderr }: ServeProcess, worker: number): number {
  const pids = [...stderr.matchAll(new RegExp(`"worker":${worker},"pid":(\\d+),"msg":"a worker is ready"`, "g"))];
  return Number(pids.at(-1)?.[1]);
}

async function metric({ serve: { url } }: Scene, series: string): Promise<number | undefined> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const line = page.split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

interface Row {
  readonly state: string;
  readonly source: string | null;
  readonly reason: string | null;
  readonly hold: number;
  readonly cost: number | null;
}

function read<T>(database: string, sql: string): T[] {
  const db = new Database(database, { readonly: true });
  try {
    return db.prepare(sql).all() as T[];
  } finally {
    db.close();
  }
}

const rowsOf = (database: string) =>
  read<Row>(database, "select state, source, reason, hold, cost from charges order by seq");

function owning(client: Client): AsyncDisposable & { readonly client: Client } {
  return { client, [Symbol.asyncDispose]: () => client.end() };
}

async function fetchText(url: string, headers: Record<string, string>): Promise<string> {
  return await (await fetch(url, { headers })).text();
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("a proxy with two workers", () => {
  let relay: PausedRelay;
  let scene: Scene;
  beforeAll(async () => {
    relay = await startPausedRelay();
    scene = await startScene({
      gatewayUrl: relay.url,
      env: { FAREBOX_BODY_MEMORY: "1mb", FAREBOX_BODY_LIMIT: "600kb" },
    });
  });
  afterAll(async () => {
    await scene[Symbol.asyncDispose]();
    await relay[Symbol.asyncDispose]();
  });

  it("admits exactly the requests that overlapping budgets allow, and shows the metrics of both workers", async () => {
    const senders: { readonly key: string; readonly more: object }[] = [];
    for (const [name, settings, more = {}] of [
      ["a", { team: "red", labels: { env: "prod" } }],
      ["b", { team: "red" }],
      ["c", { user: "vip" }],
      ["d", { tags: { feature: "search" } }],
      ["e", {}],
      ["f", {}, { model: "gpt-4o-mini" }],
    ] as const)
      senders.push({ key: await scene.addKey(name, settings), more });
    const send = (sender = 0) => chat(scene, senders[sender]?.key ?? "", senders[sender]?.more);
    // Rows, because the proxy also asks the gateway for its account.
    const admitted = (count: number) =>
      until(() => rowsOf(scene.database).length === count, `${count} requests are admitted`);
    const first = send();
    await admitted(1);
    const firstMini = send(5);
    await admitted(2);
    const [hold = 0n, miniHold = 0n] = rowsOf(scene.database).map((row) => BigInt(row.hold));
    // The budget for everything admits 37 of gpt-4o, however many of the other model are held.
    expect(miniHold * 4n).toBeLessThan(hold / 2n);
    const text = (amount: bigint) => formatUsd(amount as PicoUsd);
    // Red alone would reach 20, and the user, the tag and the key 18; in any order, the budget for all stops gpt-4o at 37.
    const most = {
      all: 37n,
      "team:red": 20n,
      "each-key": 12n,
      "label:env=prod": 9n,
      "user:vip": 6n,
      "tag:feature=search": 5n,
      "key:e": 7n,
    };
    for (const [scope, count] of Object.entries(most)) await scene.budget(scope, text(hold * count + hold / 2n));
    await scene.budget("model:gpt-4o-mini", text(miniHold * 4n));

    const refusals = Promise.withResolvers<void>();
    let refused = 0;
    const others = Array.from({ length: 498 }, async (_, number) => {
      const answer = await send(number % senders.length);
      if (answer.status === 429 && ++refused === 459) refusals.resolve();
      return answer;
    });
    await Promise.all([admitted(41), refusals.promise]);
    const held = new Map(
      read<{ scope: string; held: number }>(
        scene.database,
        "select scope, max(held) held from windows join budgets on budgets.seq = windows.budget group by scope",
      ).map((row) => [row.scope.startsWith("key:") ? "key:e" : row.scope, BigInt(row.held)]),
    );
    expect(held.get("model:gpt-4o-mini")).toBe(miniHold * 4n);
    expect(held.get("all")).toBe(hold * 37n + miniHold * 4n);
    for (const [scope, count] of Object.entries(most).slice(1))
      expect(held.get(scope), scope).toBeLessThanOrEqual(hold * count);
    // These four would admit 38 requests; the budget for everything admits one fewer.
    const disjoint = ["team:red", "user:vip", "tag:feature=search", "key:e"];
    expect(disjoint.reduce((sum, scope) => sum + (held.get(scope) ?? 0n), 0n)).toBe(hold * 37n);
    relay.open(scene.sandbox.url);
    expect(statuses(await Promise.all([first, firstMini, ...others]))).toEqual({ 200: 41, 429: 459 });

    const requests = (model: string) =>
      metric(
        scene,
        `farebox_requests_total{route="/v1/chat/completions",model="${model}",status="200",stream="false"}`,
      );
    // The client receives its answer before the primary counts it.
    await until(async () => (await requests("gpt-4o")) === 37, "37 requests are counted");
    await until(async () => (await requests("gpt-4o-mini")) === 4, "4 requests are counted");
    await until(
      async () => (await metric(scene, 'farebox_refusals_total{code="budget_held"}')) === 459,
      "459 refusals are counted",
    );
    const recorded = async () => {
      const { json } = await callAdmin(scene.serve.url, "GET", "/refusals?code=budget_held", { token: adminToken });
      return refusalListSchema.parse(json).refusals;
    };
    await until(async () => (await recorded()).reduce((sum, { count }) => sum + count, 0) === 459);
    for (const row of await recorded())
      expect(row).toMatchObject({
        key: expect.stringMatching(/^[a-f]$/),
        route: "/v1/chat/completions",
        model: expect.stringMatching(/^gpt-4o(-mini)?$/),
      });
    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === 0);
    const key = 'key="a",team="red"';
    const isCounted = async (series: string) => ((await metric(scene, series)) ?? 0) > 0;
    await until(() => isCounted(`farebox_key_requests_total{${key}}`), "the key's requests are counted");
    await until(async () => (await metric(scene, "farebox_active_requests")) === 1, "only the scrape is active");
    for (const process of ["primary", "1", "2"])
      await until(() => isCounted(`process_resident_memory_bytes{worker="${process}"}`), `${process} has metrics`);
    const sharesOf = () => answeredBy(scene.serve, "/v1/chat/completions");
    await until(() => Object.values(sharesOf()).reduce((sum, count) => sum + count, 0) === 500, "500 lines are logged");
    expect(Object.keys(sharesOf())).toEqual(["1", "2"]);

    const odd = { model: "gpt-4o", messages: [{ role: "user", content: "x" }], wonder: 1, plugins: [] };
    for (let sent = 0; sent < 4; sent++)
      expect((await fetchAnswer({ url: scene.serve.url, key: senders[0]?.key ?? "" }, odd)).status).toBe(400);
    const unknown = 'farebox_unknown_fields_total{route="/v1/chat/completions",field="wonder"}';
    await until(async () => (await metric(scene, unknown)) === 4, "4 unknown fields are counted");
    expect((await runFarebox(["verify", "--database", scene.database])).code).toBe(0);
    for (const scope of [...Object.keys(most), "model:gpt-4o-mini"]) {
      const path = `/budgets?scope=${encodeURIComponent(scope)}&period=total`;
      expect((await callAdmin(scene.serve.url, "DELETE", path, { token: adminToken })).status).toBe(200);
    }
  });

  it("counts requests per minute, parallel requests and tokens per minute over both", async () => {
    const often = await scene.addKey("often", { limits: { rpm: 10 } });
    const burst = await Promise.all(Array.from({ length: 40 }, () => chat(scene, often)));
    expect(statuses(burst)).toEqual({ 200: 10, 429: 30 });

    const narrow = await scene.addKey("narrow", { limits: { parallel: 3 } });
    const streams = await Promise.all(
      Array.from({ length: 3 }, () => open(scene, narrow, sandboxed("endless:5", true))),
    );
    const extra = await Promise.all(Array.from({ length: 6 }, () => chat(scene, narrow)));
    expect(statuses(extra)).toEqual({ 429: 6 });
    const counting = await Promise.all(Array.from({ length: 4 }, () => countTokens(scene, narrow)));
    expect(statuses(counting)).toEqual({ 429: 4 });
    for (const { request } of streams) request.destroy();
    await until(async () => (await chat(scene, narrow)).status === 200);

    const wordy = await scene.addKey("wordy", { limits: { tpm: 5000 } });
    let used = 0;
    for (let number = 0; number < 4; number++) {
      const answer = await chat(scene, wordy);
      used += (JSON.parse(answer.body.toString()) as { usage: { total_tokens: number } }).usage.total_tokens;
    }
    const left = async () => {
      const me = await fetchAnswer({ url: scene.serve.url, key: wordy }, undefined, {
        method: "GET",
        path: "/v1/farebox/me",
      });
      return JSON.parse(me.body.toString()).limits as unknown;
    };
    await until(async () => JSON.stringify(await left()).includes(String(5000 - used)));
    expect((await chat(scene, wordy)).headers["x-ratelimit-limit-tokens"]).toBe("5000");
  });

  it("counts free requests over both, apart from other requests", async () => {
    const key = await scene.addKey("counting", { limits: { rpm: 1 } });
    expect(statuses(await Promise.all(Array.from({ length: 605 }, () => countTokens(scene, key))))).toEqual({
      200: 600,
      429: 5,
    });
    expect(statuses([await chat(scene, key), await chat(scene, key)])).toEqual({ 200: 1, 429: 1 });
    const answering = Object.keys(answeredBy(scene.serve, "/v1/messages/count_tokens"));
    expect(answering.toSorted()).toEqual(["1", "2"]);
  });

  it("writes the output cap at both, and the same fitted output for one idempotency key", async () => {
    const written = (answers: readonly WireAnswer[], header: string) => answers.map(({ headers }) => headers[header]);
    const capped = await scene.addKey("capped", { output_cap: 64 });
    const under = await Promise.all(Array.from({ length: 4 }, () => chat(scene, capped)));
    expect(written(under, "x-farebox-output-cap")).toEqual(["64", "64", "64", "64"]);

    const modest = await scene.addKey("modest");
    await scene.budget("key:modest", "0.05");
    const retried = { headers: { "idempotency-key": "once" } };
    const tries: WireAnswer[] = [];
    for (let number = 0; number < 4; number++)
      tries.push(await chat(scene, modest, { max_tokens: undefined }, retried));
    expect(statuses(tries)).toEqual({ 200: 4 });
    const [first] = written(tries, "x-farebox-fitted");
    expect(Number(first)).toBeGreaterThan(0);
    expect(written(tries, "x-farebox-fitted")).toEqual([first, first, first, first]);
  });

  it("stores the same digest of a user at both, with the key's labels and pinned tags", async () => {
    await using hashing = await startScene({ env: { FAREBOX_USERS: "hash" } });
    const key = await hashing.addKey("labelled", { labels: { env: "prod" }, tags: { team: "x" } });
    const answers = await Promise.all(Array.from({ length: 6 }, () => chat(hashing, key, { user: "u_1" })));
    expect(statuses(answers)).toEqual({ 200: 6 });
    let found: readonly { readonly user: string }[] = [];
    await until(async () => {
      const path = "/charges?state=posted&user=u_1&label=env%3Dprod&tag=team%3Dx";
      const reply = await callAdmin(hashing.serve.url, "GET", path, { token: adminToken });
      found = (reply.json as { charges: { user: string }[] }).charges;
      return found.length === 6;
    }, "all charges are posted");
    const users = [...new Set(found.map(({ user }) => user))];
    expect(users).toEqual([expect.stringMatching(/^hash_[0-9a-f]{32}$/)]);
  });

  it("accepts a dashboard session at both, and a revoked key at neither", async () => {
    const { url } = scene.serve;
    const key = await scene.addKey("leaver");
    const page = { origin: url, "x-farebox-dashboard": "1", "content-type": "application/json" };
    const began = await fetchAnswer(
      { url, key: "" },
      { token: adminToken },
      { path: "/dashboard/session", headers: { ...page, authorization: "" } },
    );
    const cookie = began.headers["set-cookie"]?.[0]?.split(";")[0] ?? "";
    const sessions = await Promise.all(
      Array.from({ length: 6 }, () => fetchText(`${url}/admin/v1/whoami`, { cookie })),
    );
    expect(sessions.map((text) => JSON.parse(text).role)).toEqual(Array.from({ length: 6 }, () => "editor"));

    expect(statuses(await Promise.all(Array.from({ length: 4 }, () => chat(scene, key))))).toEqual({ 200: 4 });
    const revokedAt = performance.now();
    expect((await callAdmin(url, "POST", "/keys/leaver/revoke", { token: adminToken })).status).toBeLessThan(300);
    // The answer waits at most a second for the workers.
    const isKnown = performance.now() - revokedAt < 1_000;
    const refused = async () => statuses(await Promise.all(Array.from({ length: 6 }, () => chat(scene, key))));
    if (!isKnown) await until(async () => (await refused())[401] === 6, "both workers know that the key is revoked");
    expect(await refused()).toEqual({ 401: 6 });
  });

  it("redirects a browser from / to the dashboard, and answers other requests with 404", async () => {
    const front = (accept: string) => fetch(scene.serve.url, { headers: { accept }, redirect: "manual" });
    const browser = await front("text/html");
    expect([browser.status, browser.headers.get("location")]).toEqual([302, "/dashboard"]);
    expect((await front("application/json")).status).toBe(404);
  });

  it("answers a list of more than one page as CSV", async () => {
    const names = Array.from({ length: 1_001 }, (_, index) => `csv-${index}`);
    for (let from = 0; from < names.length; from += 50)
      await Promise.all(names.slice(from, from + 50).map((name) => scene.addKey(name)));
    const read = (method: string) =>
      callAdmin(scene.serve.url, method, "/keys?q=csv-&format=csv", { token: adminToken });
    const { status, headers, text } = await read("GET");
    expect([status, headers["content-type"]]).toEqual([200, "text/csv; charset=utf-8"]);
    expect(
      csvRecords(text)
        .records.map(({ key }) => String(key))
        .sort(),
    ).toEqual(names.sort());
    expect(await read("HEAD")).toMatchObject({ status: 200, text: "" });
  });

  /** Begins a request whose body has 560 kB, on a new connection that either worker may accept. */
  const begin = (key: string, sent: string, path = "/v1/chat/completions") => {
    const client = new RawClient(scene.serve.url);
    const lines = [`Authorization: Bearer ${key}`, "Content-Length: 560000"];
    return client.send(head(scene.serve.url, `POST ${path}`, ...lines), sent);
  };
  const large = (bytes: number) => JSON.stringify(body()).padEnd(bytes, " ");

  it("shares the memory for bodies: what a key states occupies none, and what it sends makes room for others", async () => {
    const poor = await scene.addKey("poor");
    let others = 0;
    /** Sends a body with another key, of which no other body can be in memory. */
    const askOther = async (bytes: number) =>
      fetchAnswer({ url: scene.serve.url, key: await scene.addKey(`other-${++others}`) }, large(bytes));
    await using owned = new AsyncDisposableStack();
    for (let number = 0; number < 8; number++) owned.use(begin(poor, "{"));
    for (let number = 0; number < 4; number++) expect((await askOther(560_000)).status).toBe(200);

    // Together they need so much that another body of 400 kB does not fit, and less than it only if it fits.
    const clients = Array.from({ length: 4 }, () => owned.use(begin(poor, large(560_000).slice(0, 170_000))));
    const answers = clients.map((client) => client.answer());
    let refused: Awaited<(typeof answers)[number]> | null = null;
    void Promise.race(answers).then((first) => (refused = first));
    // Until the proxy has read all four, there is room.
    await until(async () => {
      expect((await askOther(400_000)).status).toBe(200);
      return refused !== null;
    }, "a body of the key is refused");
    const answer = await Promise.race(answers);
    expect(answer.status).toBe(503);
    expect(answer.body).toContain("more than a quarter of FAREBOX_BODY_MEMORY");
    for (const client of clients) client.send(large(560_000).slice(170_000));
    expect(new Set((await Promise.all(answers)).map(({ status }) => status))).toEqual(new Set([200, 503]));
    await until(async () => (await askOther(590_000)).status === 200, "all memory is free again");
  });

  it("refuses a large body under a budget with nothing left before it is read, at both and in the primary", async () => {
    const key = await scene.addKey("exhausted");
    await scene.budget("key:exhausted", "0");
    for (const path of ["/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions", "/api/v1/task"]) {
      using client = begin(key, "", path);
      const answer = await client.answer();
      expect([answer.status, answer.headers["x-farebox-error"]]).toEqual([402, ["budget_exceeded"]]);
      expect(JSON.parse(answer.body)).toMatchObject({ error: { metadata: { needed_usd: null } } });
    }
  });

  it("decodes bodies, also those that the primary reads", async () => {
    const key = await scene.addKey("encoder");
    const target = { url: scene.serve.url, key };
    const headers = { "content-encoding": "zstd" };
    const task = JSON.stringify({ model: "unheard-of", input: { prompt: "x" } });
    for (let number = 0; number < 4; number++) {
      expect((await fetchAnswer(target, zstdCompressSync(large(500_000)), { headers })).status).toBe(200);
      expect((await fetchAnswer(target, zstdCompressSync(Buffer.alloc(1_000_000)), { headers })).status).toBe(413);
      const plain = await fetchAnswer(target, task, { path: "/api/v1/task" });
      const encoded = await fetchAnswer(target, zstdCompressSync(task), { headers, path: "/api/v1/task" });
      expect([encoded.status, encoded.headers["x-farebox-error"]]).toEqual([
        plain.status,
        plain.headers["x-farebox-error"],
      ]);
      expect((await fetchAnswer(target, "plain", { headers, path: "/api/v1/task" })).status).toBe(400);
    }
  });
});

describe("two workers that listen on every address", () => {
  it("show metrics without a token only on loopback names, and delay only wrong admin tokens", async () => {
    await using scene = await startScene({ env: { FAREBOX_HOST: "0.0.0.0" } });
    const url = `http://127.0.0.1:${new URL(scene.serve.url).port}`;
    for (const [host, status] of [
      ["127.0.0.1", 200],
      ["localhost", 200],
      ["rebound.example", 404],
    ] as const) {
      using client = new RawClient(url);
      expect(await client.send(head(url, "GET /metrics", `Host: ${host}`)).answer(), host).toMatchObject({ status });
    }
    let answered = 0;
    const sentAt = performance.now();
    const wrong = Array.from({ length: 7 }, (_, index) =>
      callAdmin(url, "GET", "/whoami", { token: `wrong-${index}` }).then(() => answered++),
    );
    expect(await callAdmin(url, "GET", "/whoami", { token: adminToken })).toMatchObject({ status: 200 });
    // The last wrong token waits for 3.75 seconds.
    if (performance.now() - sentAt < 3_750) expect(answered).toBeLessThan(wrong.length);
    await Promise.all(wrong);
  });
});

describe("a worker that dies", () => {
  it("leaves its tasks on passed-through paths pending and readable by their key only", async () => {
    let made = 0;
    await using gateway = await answeringGateway(({ method, path }) =>
      method === "POST"
        ? { body: JSON.stringify([1, 2].map(() => ({ task_id: `t-${++made}`, status: "success" }))) }
        : { body: JSON.stringify({ code: 200, data: { task_id: path.split("/").at(-1), status: "processing" } }) },
    );
    await using scene = await startScene({ gatewayUrl: gateway.url, env: { FAREBOX_PASSTHROUGH: "all" } });
    const { serve, database } = scene;
    const [alice, bob] = [await scene.addKey("alice"), await scene.addKey("bob")];
    const at = (key: string, path: string, method: string) =>
      fetchAnswer({ url: serve.url, key }, method === "POST" ? { prompt: "a fox" } : undefined, { path, method });
    const paths = Array.from({ length: 6 }, () => ["/mj/v2/imagine", "/new/family"]).flat();
    expect(statuses(await Promise.all(paths.map((path) => at(alice, path, "POST"))))).toEqual({ 200: paths.length });
    const dying = workerPid(serve, 1);
    process.kill(dying, "SIGKILL");
    await until(() => workerPid(serve, 1) !== dying);
    // Each answer names two tasks.
    const ids = [...paths, ...paths].map((_, index) => `t-${index + 1}`);
    expect(statuses(await Promise.all(ids.map((id) => at(alice, `/api/v1/task/${id}`, "GET"))))).toEqual({
      200: ids.length,
    });
    expect(statuses(await Promise.all(ids.map((id) => at(bob, `/api/v1/task/${id}`, "GET"))))).toEqual({
      404: ids.length,
    });
    expect(
      statuses(await Promise.all(["/mj/v2/imagine/", "/MJ/v2/imagine"].map((path) => at(alice, path, "POST")))),
    ).toEqual({ 404: 2 });
    expect(rowsOf(database).map(({ state }) => state)).toEqual(ids.map(() => "pending"));
  });

  it("has its holds posted at once and is replaced while the other continues; no worker outlives the primary", async () => {
    await using scene = await startScene();
    const { serve, sandbox, database } = scene;
    const key = await scene.addKey("alice");
    await scene.budget("key:alice", "1000");
    using connections = workerConnections(serve, key);
    const openAt = async (worker: number) =>
      openAnswer({ url: serve.url, key }, body(sandboxed("endless:20", true)), { agent: await connections.to(worker) });
    const streams: OpenAnswer[] = [];
    for (const worker of [1, 2, 1, 2, 1, 2, 1, 2]) streams.push(await openAt(worker));
    const left = streams.length / 2;
    await sandbox.waitFor(({ requests }) => requests.filter(({ deltas }) => deltas > 3).length === streams.length);
    const dying = workerPid(serve, 1);
    process.kill(dying, "SIGKILL");
    await serve.printed(/a worker ended with requests in flight/);

    const ended = rowsOf(database).filter(({ state }) => state === "posted");
    expect(ended).toHaveLength(left);
    expect(ended).toMatchObject(ended.map(({ hold }) => ({ source: "assumed", reason: "crash", cost: hold })));
    await until(async () => (await metric(scene, "farebox_active_streams")) === left, "the ended streams are gone");
    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === left, "their holds are gone");
    const assumed = 'farebox_cost_usd_total{model="gpt-4o",group="large-general",source="assumed"}';
    await until(async () => ((await metric(scene, assumed)) ?? 0) > 0, "their costs are counted");
    const going = () => streams.filter(({ response }) => !response.destroyed);
    await until(() => going().length === left, "the clients of the worker that died know it");
    await Promise.all(going().map((stream) => stream.take(1)));

    await until(() => workerPid(serve, 1) !== dying);
    expect(statuses(await Promise.all(Array.from({ length: 6 }, () => chat(scene, key))))).toEqual({ 200: 6 });
    const workers = [1, 2].map((worker) => workerPid(serve, worker));
    // A terminal's and a service manager's signals reach every process of the group.
    for (const pid of workers) process.kill(pid, "SIGTERM");
    expect(statuses(await Promise.all(Array.from({ length: 2 }, () => chat(scene, key))))).toEqual({ 200: 2 });

    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === left);
    serve.signal("SIGKILL");
    await serve.ended;
    await until(() => !workers.some(isRunning));
    for (const { request } of streams) request.destroy();
    await using again = await startServe({ database, gateway: sandbox });
    await again.printed(new RegExp(`"recovered":${left}\\b`));
    expect(rowsOf(database).filter(({ state }) => state === "pending")).toEqual([]);
    expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
  });
});

describe("two workers on PostgreSQL", () => {
  it("charge messages by their runs at both, with the tags of an agent's headers", async () => {
    const run = (input_tokens: number, output_tokens: number, type = "message") => ({
      type,
      input_tokens,
      output_tokens,
    });
    const usage = { input_tokens: 140_000, output_tokens: 20 };
    const iterations = [run(150_000, 5, "compaction"), run(70_000, 10), run(70_000, 10)];
    const stream = [
      messageStart({ input_tokens: 70_000, output_tokens: 1 }, "tiered"),
      textBlock(["Hello"]),
      messageDelta({ ...usage, iterations }),
      messageStop,
    ].join("");
    const whole = JSON.stringify(messageAnswer({ model: "tiered", usage: { ...usage, iterations } }));
    await using gateway = await answeringGateway(({ body: sent }) =>
      sent.includes('"stream":true')
        ? { body: stream, headers: { "content-type": "text/event-stream" } }
        : { body: whole, headers: { "content-type": "application/json" } },
    );
    await using ledger = await newDatabase();
    await using prices = priceFolder(`provider: example
defaults: { tokenizer: null, error_factor: "2", tokens_per_byte: "1.5", context_tokens: 1000000, max_output_tokens: 1000, reasoning: false }
models:
  tiered:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up"
        official: { input: "1.00", output: "2.00" }
        tiers: [{ from_prompt_tokens: 100000, official: { input: "5.00", output: "10.00" } }]
`);
    const env = { FAREBOX_DATABASE: ledger.url, FAREBOX_PRICING: prices.path };
    await using scene = await startScene({ gatewayUrl: gateway.url, env });
    await using database = owning(new Client({ connectionString: ledger.url }));
    await database.client.connect();
    const key = await scene.addKey("alice");
    await scene.budget("key:alice", "100");
    using connections = workerConnections(scene.serve, key);
    for (const worker of [1, 2])
      for (const isStream of [false, true]) {
        const agent = await connections.to(worker);
        const message = {
          model: "tiered",
          max_tokens: 100,
          stream: isStream,
          messages: [{ role: "user", content: "x" }],
        };
        const headers = { "x-claude-code-session-id": "s1", "x-claude-code-agent-id": `agent-${worker}` };
        const answer = await fetchAnswer({ url: scene.serve.url, key }, message, {
          path: "/v1/messages",
          headers,
          agent,
        });
        expect([answer.status, answer.body.toString()]).toEqual([200, isStream ? stream : whole]);
      }
    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === 0);
    const { rows } = await database.client.query(
      "select tags, cost, runs is not null as has_runs from charges order by seq",
    );
    // 150,000 tokens of the compaction are in the second tier, and both other runs in the first.
    const cost = String((5n * 150_000n + 10n * 5n + 140_000n + 2n * 20n) * 1_000_000n);
    const ofAgent = (agent: string) => ({ cost, has_runs: true, tags: expect.stringContaining(agent) });
    expect(rows).toEqual(["agent-1", "agent-1", "agent-2", "agent-2"].map(ofAgent));
    expect(Object.keys(answeredBy(scene.serve, "/v1/messages"))).toEqual(["1", "2"]);
    const sessions = await callAdmin(scene.serve.url, "GET", "/sessions", { token: adminToken });
    expect(sessions.json).toMatchObject({ sessions: [{ id: "s1", requests: 4 }] });
    expect(await runFarebox(["verify"], { env })).toMatchObject({
      code: 0,
      stdout: "4 charges checked, no difference\n",
    });
  });

  it("admit exactly what one budget allows, and leave no hold pending when one of them dies", async () => {
    await using ledger = await newDatabase();
    await using relay = await startPausedRelay();
    await using scene = await startScene({ gatewayUrl: relay.url, env: { FAREBOX_DATABASE: ledger.url } });
    await using database = owning(new Client({ connectionString: ledger.url }));
    await database.client.connect();
    const sums = async () =>
      (await database.client.query("select spent, held from windows")).rows as { spent: string; held: string }[];
    const key = await scene.addKey("alice");
    // Rows, because the proxy also asks the gateway for its account.
    const admitted = (count: number) =>
      until(
        async () => (await database.client.query("select from charges where state = 'pending'")).rowCount === count,
        `${count} requests are admitted`,
      );
    using connections = workerConnections(scene.serve, key);
    // The worker that dies certainly has a request, and the other one, too.
    const first = chat(scene, key, {}, { agent: await connections.to(1) });
    await admitted(1);
    const second = chat(scene, key, {}, { agent: await connections.to(2) });
    await admitted(2);
    const hold = BigInt((await database.client.query("select hold from charges")).rows[0].hold);
    await scene.budget("all", formatUsd((hold * 37n) as PicoUsd));

    const refusals = Promise.withResolvers<void>();
    let refused = 0;
    const others = Array.from({ length: 198 }, async () => {
      let answer = await chat(scene, key);
      // On a busy machine the ledger may not answer all of them in time.
      while (answer.status === 503) answer = await pause(500).then(() => chat(scene, key));
      if (answer.status === 429 && ++refused === 163) refusals.resolve();
      return answer;
    });
    const ends = Promise.allSettled([first, second, ...others]);
    await Promise.all([admitted(37), refusals.promise]);
    expect(await sums()).toEqual([{ spent: "0", held: String(hold * 37n) }]);
    process.kill(workerPid(scene.serve, 1), "SIGKILL");
    await scene.serve.printed(/a worker ended with requests in flight/);
    relay.open(scene.sandbox.url);
    const answered = (await ends).filter((end) => end.status === "fulfilled" && end.value.status === 200).length;
    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === 0);
    const { rows } = await database.client.query(
      "select source, count(*)::int as count from charges group by source order by source",
    );
    const expected = [
      { source: "assumed", count: 37 - answered },
      { source: "reported", count: answered },
    ];
    expect(rows).toEqual(expected.filter(({ count }) => count > 0));
    expect((await runFarebox(["verify"], { env: { FAREBOX_DATABASE: ledger.url } })).code).toBe(0);
  });
});

describe("a burst of 200 requests in which a worker is killed", () => {
  it("loses no request that reached the gateway, and settles every one", async () => {
    await using scene = await startScene();
    const { serve, sandbox, database } = scene;
    const key = await scene.addKey("alice");
    await scene.budget("key:alice", "1000");
    await scene.budget("all", "1000");
    using connections = workerConnections(serve, key);
    const isWhole = async (number: number, scenario: string, stream: boolean, agent?: Agent) => {
      const asked = { ...sandboxed(scenario, stream), max_tokens: 300, user: String(number) };
      const options = { headers: { "x-farebox-tag": `number=${number}` }, ...(agent && { agent }) };
      return await chat(scene, key, asked, options).then(
        ({ broken }) => broken === null,
        () => false,
      );
    };
    // The worker that dies certainly has a request, and the other one, too.
    const silent = isWhole(200, "silent", false, await connections.to(2));
    await sandbox.waitFor(({ requests }) => requests.length === 1);
    expect(await isWhole(201, "tokens:5", false, await connections.to(1))).toBe(true);
    const sent = Array.from({ length: 200 }, (_, number) => {
      const stream = number % 3 !== 0;
      return isWhole(number, stream ? "tokens:40+slow:10" : "latency:40", stream);
    });
    await sandbox.waitFor(({ requests }) => requests.length > 100);
    process.kill(workerPid(serve, 2), "SIGKILL");
    await Promise.all(sent);
    expect(await silent).toBe(false);
    await until(async () => (await metric(scene, "farebox_ledger_pending_holds")) === 0);

    const rows = read<Row & { number: string }>(
      database,
      "select json_extract(tags, '$.number') number, state, source, reason, hold, cost from charges",
    );
    const known = new Set(rows.map(({ number }) => number));
    expect(known.size).toBe(rows.length);
    const seen = sandbox.requests
      .filter((request) => request.body.length > 0)
      .map((request) => String(JSON.parse(request.body.toString()).user));
    expect(seen.filter((number) => !known.has(number))).toEqual([]);
    const crashed = rows.filter(({ reason }) => reason === "crash");
    expect(crashed.length).toBeGreaterThan(0);
    expect(crashed.filter(({ source, hold, cost }) => source !== "assumed" || cost !== hold)).toEqual([]);
    const spent = rows.reduce((sum, { cost }) => sum + (cost ?? 0), 0);
    expect(read(database, "select spent, held from windows")).toEqual([
      { spent, held: 0 },
      { spent, held: 0 },
    ]);
    expect(BigInt(spent)).toBeGreaterThanOrEqual(sandbox.billed.cost);
    expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
  });
});

describe("two workers", () => {
  it.each([true, false])(
    "charge each request and task at its own version of the prices while prices change (with SIGHUP: %s)",
    async (hangsUp) => {
      await using folder = await temporaryFolder();
      await using prices = await openChangingPrices(folder.path);
      await using scene = await startScene({ env: { FAREBOX_PRICING: folder.path }, gatewayUrl: prices.gateway.url });
      const { serve, database } = scene;
      const key = await scene.addKey("alice");
      await scene.budget("key:alice", "1000");
      const notice = hangsUp ? () => serve.signal("SIGHUP") : () => undefined;
      await changePricesUnderLoad(prices, { url: serve.url, key, folder: folder.path, notice });
      await until(async () => rowsOf(database).every(({ state }) => state !== "pending"));
      expectChargesOfTheirVersions(database);
      expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
    },
  );

  it("load new prices on SIGHUP, and finish their requests on SIGTERM", async () => {
    await using folder = await temporaryFolder();
    const price = (input: string) => oneModelFile("mine", [{ from: "2026-01-01", input, output: "0" }]);
    await writeFile(join(folder.path, "mine.yaml"), price("1"));
    await using scene = await startScene({
      env: { FAREBOX_PRICING: folder.path, FAREBOX_DRAIN: "10m" },
      // From sources, workers and the price thread are TypeScript files.
      fromSources: true,
    });
    const { serve, sandbox, database } = scene;
    const key = await scene.addKey("alice");
    const costs = async () => {
      const answers = await Promise.all(Array.from({ length: 4 }, () => chat(scene, key, { model: "mine" })));
      return new Set(answers.map(({ headers }) => headers["x-farebox-cost-usd"]));
    };
    const [cheap] = await costs();
    expect(Number(cheap)).toBeGreaterThan(0);
    await replaceFile(folder.path, "mine.yaml", price("3"));
    serve.signal("SIGHUP");
    await serve.printed(/new prices are in force/);
    await until(async () => {
      const found = [...(await costs())];
      return found.length === 1 && Number(found[0]) === 3 * Number(cheap);
    });

    const running = Array.from({ length: 4 }, () =>
      chat(scene, key, { ...sandboxed("tokens:60+slow:35", true), stream_options: { include_usage: true } }),
    );
    await sandbox.waitFor(({ requests }) => requests.filter(({ deltas }) => deltas > 3).length === 4);
    const workers = [1, 2].map((worker) => workerPid(serve, worker));
    const signalledAt = performance.now();
    serve.signal("SIGTERM");
    const late = async () => {
      await until(async () => (await fetch(`${serve.url}/readyz`)).status === 503);
      return (await chat(scene, key)).status;
    };
    const status = await late().catch(() => null);
    // The port is closed two seconds after the signal.
    if (status === null) expect(performance.now() - signalledAt).toBeGreaterThan(1_800);
    else expect(status).toBe(200);
    for (const answer of await Promise.all(running))
      expect(answer).toMatchObject({
        status: 200,
        broken: null,
        body: expect.toSatisfy((bytes: Buffer) => /\[DONE\]\s*$/.test(bytes.toString())),
      });
    expect(await serve.ended).toMatchObject({ code: 0, signal: null });
    expect(workers.filter(isRunning)).toEqual([]);
    expect(rowsOf(database).filter(({ state, source }) => state !== "posted" || source !== "reported")).toEqual([]);
  });
});

it("workers rewrite an idempotency key as the primary does, and show no task of another key", async () => {
  await using gateway = await answeringGateway(() => ({
    body: '{"code":200,"data":{"task_id":"t-1","status":"pending"}}',
  }));
  await using scene = await startScene({ gatewayUrl: gateway.url });
  const [one, other] = [await scene.addKey("one"), await scene.addKey("other")];
  const headers = { "idempotency-key": "k" };
  const { url } = scene.serve;
  expect(
    (await fetchAnswer({ url, key: one }, '{"model":"kling","input":{}}', { path: "/api/v1/task", headers })).status,
  ).toBe(200);
  using connections = workerConnections(scene.serve, one);
  const agents = [await connections.to(1), await connections.to(2)];
  for (const key of [one, other]) {
    const answers: WireAnswer[] = [];
    for (const agent of [...agents, ...agents]) answers.push(await chat(scene, key, {}, { headers, agent }));
    expect(statuses(answers)).toEqual({ [key === one ? 200 : 404]: 4 });
  }
  const values = gateway.received.map((received) => received.headers["idempotency-key"]);
  expect(new Set(values.slice(0, 5)).size).toBe(1);
  expect(new Set(values.slice(5)).size).toBe(1);
  expect(values[5]).not.toBe(values[0]);
});

describe.concurrent("a failing start with workers", () => {
  const variables = (folder: string) => ({
    FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
    FAREBOX_GATEWAY_API_KEY: "x",
    FAREBOX_DATABASE: join(folder, "farebox.db"),
  });

  it("ends with exit code 2 and one sentence when the workers exit at once", async () => {
    await using folder = await temporaryFolder();
    const bomb = join(folder.path, "bomb.mjs");
    await writeFile(bomb, 'import cluster from "node:cluster";\nif (cluster.isWorker) process.exit(7);\n');
    const env = { ...variables(folder.path), NODE_OPTIONS: `--import=${bomb}` };
    const { code, stdout, stderr } = await runFarebox(["serve", "--workers", "2", "--port", "0"], { env });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(
      "farebox: no worker can start: 3 in a row ended before they were ready, the last with exit code 7\n",
    );
  });

  it("ends with exit code 2 and one sentence when another program uses the port", async () => {
    await using folder = await temporaryFolder();
    await using relay = await startPausedRelay();
    const { code, stderr } = await runFarebox(["serve", "--workers", "2", "--port", new URL(relay.url).port], {
      env: variables(folder.path),
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^farebox: cannot listen on 127\.0\.0\.1:\d+: another program listens there; choose another --port, or 0 for a free one$/m,
    );
  });
});
