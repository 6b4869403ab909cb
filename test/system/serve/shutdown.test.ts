import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { startServing } from "../../../src/server/serving.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { silentLog } from "../../support/captured-log.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";

interface Scene extends AsyncDisposable {
  readonly serve: ServeProcess;
  readonly sandbox: Sandbox;
  readonly database: string;
}

/** Starts a proxy in front of a sandbox that requires no key. */
async function startScene(env: Record<string, string>, options: SandboxOptions = {}): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(await startSandbox(options));
  const database = join(folder.path, "farebox.db");
  const serve = owned.use(await startServe({ database, gateway: sandbox, env: { FAREBOX_AUTH: "open", ...env } }));
  const kept = owned.move();
  return { serve, sandbox, database, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function chat({ url }: { readonly url: string }, scenario: string, more: object = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "gpt-4o",
      messages: [{ role: "user", content: `#sandbox ${scenario}` }],
      max_tokens: 5000,
      ...more,
    }),
  });
}

interface Row {
  readonly state: string;
  readonly source: string | null;
  readonly reason: string | null;
  readonly status: number | null;
  readonly output: number;
}

function rowsOf(database: string): Row[] {
  const db = new Database(database, { readonly: true });
  try {
    return db.prepare("select state, source, reason, status, output from charges order by seq").all() as Row[];
  } finally {
    db.close();
  }
}

const readyz = ({ url }: ServeProcess) => fetch(`${url}/readyz`);
/** Polls readyz until connections are refused; returns the time of the last attempt. */
async function untilRefused(serve: ServeProcess): Promise<number> {
  let askedAt = 0;
  await until(() => {
    askedAt = performance.now();
    return readyz(serve).then(
      (response) => response.text().then(() => false),
      () => true,
    );
  }, "connections are refused");
  return askedAt;
}

describe.concurrent("SIGTERM", { timeout: 180_000 }, () => {
  it("fails readyz, accepts requests for two more seconds and lets running ones finish", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "20s" });
    const { serve, sandbox, database } = scene;
    const plain = chat(serve, "latency:3500");
    const stream = await chat(serve, "tokens:100+slow:35", { stream: true, stream_options: { include_usage: true } });
    await sandbox.waitFor(({ requests }) => requests.length === 2);
    const signalledAt = performance.now();
    serve.signal("SIGTERM");
    await until(async () => {
      const response = await readyz(serve);
      const { checks } = (await response.json()) as { checks: unknown };
      if (response.status === 503) expect(checks).toMatchObject({ accepting: false, ledger: true });
      return response.status === 503;
    });
    const late = await chat(serve, "tokens:5");
    expect(late.status).toBe(200);
    expect(late.headers.get("connection")).toBe("close");
    await late.text();
    expect((await untilRefused(serve)) - signalledAt).toBeGreaterThan(1500);

    expect((await plain).status).toBe(200);
    await (await plain).text();
    expect(await stream.text()).toMatch(/data: \[DONE\]\s*$/);
    expect(await serve.ended).toMatchObject({
      code: 0,
      signal: null,
      stdout: expect.stringMatching(
        /^farebox listening on \S+\ndashboard: \S+\/dashboard\nnext step: create a token .*\n$/,
      ),
    });
    expect(rowsOf(database)).toEqual(
      Array.from({ length: 3 }, () => expect.objectContaining({ state: "posted", source: "reported", status: 200 })),
    );
  });

  it("ends requests that still run after FAREBOX_DRAIN with an error to their clients, and settles them", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "1s" });
    const { serve, sandbox, database } = scene;
    const stream = await chat(serve, "endless:5", { stream: true });
    const silent = chat(serve, "silent");
    await sandbox.waitFor(({ requests }) => requests.length === 2 && requests.some(({ deltas }) => deltas > 10));
    const signalledAt = performance.now();
    serve.signal("SIGTERM");
    const events = (await stream.text()).trimEnd().split("\n\n");
    expect(performance.now() - signalledAt).toBeGreaterThan(950);
    const last = JSON.parse(events.at(-1)?.slice("data: ".length) ?? "");
    expect(last.error).toMatchObject({
      code: "gateway_stream_broken",
      message: "Farebox is shutting down.",
      param: null,
    });
    const cut = await silent;
    expect(cut.status).toBe(503);
    await cut.text();
    expect(await serve.ended).toMatchObject({ code: 0 });
    const [partial, assumed] = rowsOf(database);
    expect(partial).toMatchObject({ state: "posted", source: "partial", reason: "shutdown", status: 200 });
    expect(partial?.output).toBeGreaterThan(10);
    expect(assumed).toMatchObject({ state: "posted", source: "assumed", reason: "shutdown" });
    expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
  });

  it("counts the two seconds in which it still accepts requests as part of FAREBOX_DRAIN", async () => {
    const real = systemClock();
    const pauses: number[] = [];
    let draining = false;
    const clock: Clock = {
      ...real,
      after(ms, callback) {
        if (draining) pauses.push(ms);
        return real.after(draining ? 1 : ms, callback);
      },
    };
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    const env = {
      FAREBOX_GATEWAY_URL: sandbox.url,
      FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
      FAREBOX_AUTH: "open",
      FAREBOX_PORT: "0",
    };
    const loaded = loadSettings({
      env: { ...env, FAREBOX_DRAIN: "30s", FAREBOX_DATABASE: join(folder.path, "farebox.db") },
      flags: {},
      readFile: () => ({ ok: false, code: "ENOENT" }),
      uses: "all",
    });
    if (!loaded.ok) throw new Error(loaded.problems.join("; "));
    const started = await startServing(loaded.settings, { clock, log: silentLog, version: "0.0.0-test" });
    if (!started.ok) throw new Error(started.problems.join("; "));
    await using serving = started.serving;
    const silent = chat(serving, "silent");
    await sandbox.waitFor(({ requests }) => requests.length === 1);
    draining = true;
    await serving.drain();
    expect(pauses.slice(0, 2)).toEqual([2_000, 28_000]);
    expect((await silent).status).toBe(503);
  });

  it("does not wait beyond FAREBOX_DRAIN for a plain answer whose client has left", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "0s" });
    const { serve, sandbox, database } = scene;
    const left = new AbortController();
    const asked = httpRequest(`${serve.url}/v1/chat/completions`, { method: "POST", signal: left.signal });
    asked.on("error", () => undefined);
    asked.end(
      JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "#sandbox silent" }], max_tokens: 10 }),
    );
    await sandbox.waitFor(({ requests }) => requests.length === 1);
    left.abort();
    serve.signal("SIGTERM");
    expect(await serve.ended).toMatchObject({ code: 0 });
    expect(rowsOf(database)).toEqual([expect.objectContaining({ state: "posted", source: "assumed" })]);
  });

  it("does not wait beyond FAREBOX_DRAIN for the answer to an account request", async () => {
    const silentAccount = {
      scenario: ({ path }: { path: string }) => (path.startsWith("/account") ? "silent" : undefined),
    };
    await using scene = await startScene({ FAREBOX_DRAIN: "0s" }, silentAccount);
    const asked = fetch(`${scene.serve.url}/account/info`).then(
      ({ status }) => status,
      () => "closed",
    );
    await scene.sandbox.waitFor(({ accountRequests }) => accountRequests.length === 1);
    scene.serve.signal("SIGTERM");
    expect(await scene.serve.ended).toMatchObject({ code: 0 });
    expect([503, "closed"]).toContain(await asked);
  });

  it("settles every request of a burst, whatever step it had reached", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "0s" });
    const { serve, sandbox, database } = scene;
    const burst = Array.from({ length: 300 }, (_, index) =>
      chat(serve, ["silent", "endless:5", "tokens:5"][index % 3] ?? "", { stream: index % 3 === 1 }).then((answer) =>
        answer.text(),
      ),
    );
    const answers = Promise.allSettled(burst);
    await sandbox.waitFor(({ requests }) => requests.length > 30);
    serve.signal("SIGTERM");
    expect(await serve.ended).toMatchObject({ code: 0 });
    await answers;
    const rows = rowsOf(database);
    expect(rows.filter(({ state }) => state === "pending")).toEqual([]);
    expect(rows.length).toBeGreaterThanOrEqual(sandbox.requests.filter(({ body }) => body.length > 0).length);
    expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
  });

  it("has the same effect as SIGINT, which ends an idle proxy with code 0", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "0s" });
    scene.serve.signal("SIGINT");
    expect(await scene.serve.ended).toMatchObject({ code: 0, signal: null });
  });

  it("breaks no request of a client that keeps its connection busy", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "10s" });
    const { serve, database } = scene;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    let answered = 0;
    const sendOnce = () =>
      new Promise<"ok" | "refused">((resolve, reject) => {
        const asked = httpRequest(`${serve.url}/v1/chat/completions`, { method: "POST", agent }, (response) => {
          response
            .resume()
            .on("end", () => (answered++, resolve("ok")))
            .on("error", reject);
        });
        // Closing the port resets connections that were not accepted yet; nothing of them was read.
        asked.on("error", ({ code }: NodeJS.ErrnoException) => {
          if (code === "ECONNREFUSED" || (code === "ECONNRESET" && !asked.reusedSocket)) resolve("refused");
          else reject(new Error(`the connection failed with ${code}`));
        });
        asked.end(
          JSON.stringify({
            model: "gpt-4o",
            messages: [{ role: "user", content: "#sandbox tokens:3" }],
            max_tokens: 10,
          }),
        );
      });
    await sendOnce();
    serve.signal("SIGTERM");
    while ((await sendOnce()) !== "refused");
    agent.destroy();
    expect(await serve.ended).toMatchObject({ code: 0 });
    const rows = rowsOf(database);
    expect(rows).toHaveLength(answered);
    expect(rows.every(({ state, source }) => state === "posted" && source === "reported")).toBe(true);
  });

  it("ends the proxy at once when it is sent twice, and the next start posts the pending holds", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "1h" });
    const { serve, sandbox, database } = scene;
    const stream = await chat(serve, "endless:5", { stream: true });
    await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 3));
    serve.signal("SIGTERM");
    await until(async () => (await readyz(serve)).status === 503);
    serve.signal("SIGTERM");
    expect(await serve.ended).toMatchObject({ code: 130 });
    await expect(stream.text()).rejects.toThrow();
    expect(rowsOf(database)).toMatchObject([{ state: "pending" }]);
    await using again = await startServe({ database, gateway: sandbox });
    expect(rowsOf(database)).toMatchObject([{ state: "posted", source: "assumed", reason: "crash" }]);
    await again.printed(/"recovered":1\b/);
  });
});
