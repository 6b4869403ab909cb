// @module-tag races
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { delta, done, finish, scriptedGateway, usage, usageChunk } from "../../support/scripted-gateway.ts";
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

const readyz = ({ url }: { readonly url: string }) => fetch(`${url}/readyz`);
/** Returns true once the proxy is not ready, or no longer listens. */
const isDraining = (serve: ServeProcess) =>
  readyz(serve).then(
    async (response) => (await response.text()) !== "" && response.status === 503,
    () => true,
  );
const untilRefused = (serve: { readonly url: string }) =>
  until(
    () =>
      readyz(serve).then(
        (response) => response.text().then(() => false),
        () => true,
      ),
    "connections are refused",
  );

describe.concurrent("a drain", () => {
  it("fails readyz at once, and accepts requests for two seconds, which count as part of FAREBOX_DRAIN", async () => {
    const clock = manualClock(Date.now());
    await using proxy = await startProxy({ clock, env: { FAREBOX_DRAIN: "30s" } });
    let hasEnded = false;
    const silent = proxy.chat({ messages: [{ role: "user", content: "#sandbox silent" }] });
    void silent.then(() => (hasEnded = true));
    await proxy.sandbox.waitFor(({ requests }) => requests.length === 1);
    const drained = proxy.serving.drain();
    const answer = await readyz(proxy);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ checks: { accepting: false, ledger: true } });
    clock.advance(1_999);
    const late = await proxy.chat({ max_tokens: 5 });
    expect(late.status).toBe(200);
    expect(late.headers.get("connection")).toBe("close");
    await late.text();
    clock.advance(1);
    await untilRefused(proxy);
    clock.advance(27_999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(hasEnded).toBe(false);
    clock.advance(1);
    expect((await silent).status).toBe(503);
    await drained;
  });

  it("breaks no request of a client that keeps its connection busy", async () => {
    const clock = manualClock(Date.now());
    await using proxy = await startProxy({ clock, env: { FAREBOX_DRAIN: "10s" } });
    using agents = new DisposableStack();
    const agent = agents.adopt(new Agent({ keepAlive: true, maxSockets: 1 }), (each) => each.destroy());
    let answered = 0;
    const sendOnce = () =>
      new Promise<"ok" | "refused">((resolve, reject) => {
        const headers = { authorization: `Bearer ${proxy.key}` };
        const request = httpRequest(
          `${proxy.url}/v1/chat/completions`,
          { method: "POST", agent, headers },
          (response) => {
            response
              .resume()
              .on("end", () => (answered++, resolve("ok")))
              .on("error", reject);
          },
        );
        // Closing the port resets connections that were not accepted yet; nothing of them was read.
        request.on("error", ({ code }: NodeJS.ErrnoException) => {
          if (code === "ECONNREFUSED" || (code === "ECONNRESET" && !request.reusedSocket)) resolve("refused");
          else reject(new Error(`the connection failed with ${code}`));
        });
        request.end(
          JSON.stringify({
            model: "gpt-4o",
            messages: [{ role: "user", content: "#sandbox tokens:3" }],
            max_tokens: 10,
          }),
        );
      });
    await sendOnce();
    const drained = proxy.serving.drain();
    const sending = (async () => {
      while ((await sendOnce()) !== "refused");
    })();
    await until(() => answered > 5, "the client has sent requests during the drain");
    clock.advance(2_000);
    await Promise.all([sending, drained]);
    const rows = rowsOf(proxy.database);
    expect(rows).toHaveLength(answered);
    expect(rows.filter(({ state, source }) => state !== "posted" || source !== "reported")).toEqual([]);
  });
});

describe.concurrent("SIGTERM", () => {
  it("closes the port, and lets running requests finish", async () => {
    await using folder = await temporaryFolder();
    await using gateway = await scriptedGateway();
    const database = join(folder.path, "farebox.db");
    await using serve = await startServe({
      database,
      gateway: { url: gateway.url, apiKey: "sk-gateway" },
      env: { FAREBOX_AUTH: "open", FAREBOX_DRAIN: "10m" },
    });
    const plain = chat(serve, "plain");
    const plainAsked = await gateway.nextChat();
    const opening = chat(serve, "stream", { stream: true, stream_options: { include_usage: true } });
    const streamAsked = await gateway.nextChat();
    streamAsked.response.writeHead(200, { "content-type": "text/event-stream" });
    streamAsked.response.write(delta("Hello"));
    const stream = await opening;
    serve.signal("SIGTERM");
    await untilRefused(serve);
    expect(serve.hasEnded).toBe(false);
    streamAsked.response.end(finish() + usageChunk() + done);
    const choices = [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }];
    plainAsked.response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ model: "gpt-4o", choices, usage }));

    expect((await plain).status).toBe(200);
    await (await plain).text();
    expect(await stream.text()).toMatch(/data: \[DONE\]\s*$/);
    expect(await serve.ended).toMatchObject({
      code: 0,
      signal: null,
      stdout: expect.stringMatching(
        /^farebox listening on \S+\ndashboard: \S+\/dashboard\nprices: preset piapi, .*\nnext step: create a token .*\n$/,
      ),
    });
    expect(rowsOf(database)).toEqual(
      Array.from({ length: 2 }, () => expect.objectContaining({ state: "posted", source: "reported", status: 200 })),
    );
  });

  it("ends requests that still run after FAREBOX_DRAIN with an error to their clients, and settles them", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "1s" });
    const { serve, sandbox, database } = scene;
    const stream = await chat(serve, "endless:5", { stream: true });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const reads = async () => {
      const { value, done: isOver = true } = (await reader?.read()) ?? {};
      text += value ?? "";
      return !isOver;
    };
    while (text.split("\n\n").length < 15 && (await reads()));
    const silent = chat(serve, "silent");
    await sandbox.waitFor(({ requests }) => requests.length === 2);
    const signalledAt = performance.now();
    serve.signal("SIGTERM");
    while (await reads());
    expect(performance.now() - signalledAt).toBeGreaterThan(950);
    const events = text.trimEnd().split("\n\n");
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

  it("does not wait beyond FAREBOX_DRAIN for a plain answer whose client has left", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "0s" });
    const { serve, sandbox, database } = scene;
    const left = new AbortController();
    const request = httpRequest(`${serve.url}/v1/chat/completions`, { method: "POST", signal: left.signal });
    request.on("error", () => undefined);
    request.end(
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
    const accountStatus = fetch(`${scene.serve.url}/account/info`).then(
      ({ status }) => status,
      () => "closed",
    );
    await scene.sandbox.waitFor(({ accountRequests }) => accountRequests.length === 1);
    scene.serve.signal("SIGTERM");
    expect(await scene.serve.ended).toMatchObject({ code: 0 });
    expect([503, "closed"]).toContain(await accountStatus);
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

  it("ends the proxy at once when it is sent twice, and the next start posts the pending holds", async () => {
    await using scene = await startScene({ FAREBOX_DRAIN: "1h" });
    const { serve, sandbox, database } = scene;
    const stream = await chat(serve, "endless:5", { stream: true });
    await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 3));
    serve.signal("SIGTERM");
    await until(() => isDraining(serve), "the first signal has arrived");
    serve.signal("SIGTERM");
    expect(await serve.ended).toMatchObject({ code: 130 });
    await expect(stream.text()).rejects.toThrow();
    expect(rowsOf(database)).toMatchObject([{ state: "pending" }]);
    await using again = await startServe({ database, gateway: sandbox });
    await again.printed(/"recovered":1\b/);
    expect(rowsOf(database)).toMatchObject([{ state: "posted", source: "assumed", reason: "crash" }]);
  });
});
