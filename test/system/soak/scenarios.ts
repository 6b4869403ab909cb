import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { ServeProcess } from "../../support/farebox-process.ts";
import { runFarebox, startFarebox } from "../../support/farebox-process.ts";
import { oneModelFile, replaceFile } from "../../support/price-files.ts";
import { until } from "../../support/until.ts";
import { startLoad, type Kind, type Load, type LoadOptions } from "../crash/load.ts";

/** An answer to anything but a metered request. */
export interface Reply {
  readonly text: string;
  readonly cookie: string | null;
}

export interface Question {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; a string is sent unchanged. */
  readonly body?: unknown;
  /** Expected status. Default: 200. */
  readonly status?: number;
  /** Codes of the expected refusals; none if the request must not be refused. */
  readonly refusals?: readonly string[];
}

/** A scenario's view of the running soak. */
export interface Scene {
  readonly serve: ServeProcess;
  readonly database: string;
  readonly pricing: string;
  readonly adminToken: string;
  /** Key that may use gpt-4o only. */
  readonly narrowKey: string;
  /** Key with a limit of one request per minute. */
  readonly slowKey: string;
  readonly random: LoadOptions["random"];
  /** Sends a request and accounts for it; null if the proxy could not answer it and the reason is known. */
  call(path: string, question?: Question): Promise<Reply | null>;
  /** Accounts for a command: returns true if its exit code is the given one and the database was not away. */
  ran(
    command: string,
    startedAt: number,
    ended: { readonly code: number | null; readonly stderr: string },
    code: number,
  ): boolean;
  /** Keeps a load, whose requests are accounted for at the end. */
  keep(load: Load): void;
  /** Records what `farebox run` printed, to compare with the ledger at the end. */
  sessionEnded(name: string, stderr: string): void;
}

export interface Scenario {
  readonly name: string;
  /** Pause between two runs, in milliseconds. */
  readonly everyMs: number;
  run(scene: Scene, turn: number): Promise<void>;
}

const api = "/admin/v1";
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** An agent that prints its credential and runs until it is ended. */
const agent = `console.log("with " + process.env.OPENAI_API_KEY); setInterval(() => {}, 1000)`;
const sessionMs = 2_000;
const lists = [
  "keys",
  "teams",
  "budgets",
  "budgets/ranked",
  "charges?since=1h&limit=100",
  "refusals",
  "models",
  "tasks",
  "admins",
  "audit",
];

/** Mixed requests, each kind in proportion to how often it is listed. */
export const mixedKinds: readonly [Kind, ...Kind[]] = [
  "task",
  ...Array<Kind>(6).fill("plain"),
  ...Array<Kind>(4).fill("stream"),
  ...Array<Kind>(2).fill("growing"),
  ...(["large", "leaving", "trouble"] as const),
];

/** Everything that runs next to the metered requests. */
export const scenarios: readonly Scenario[] = [
  {
    name: "a session of farebox run",
    everyMs: 4_000,
    async run(scene, turn) {
      const startedAt = performance.now();
      const { port } = new URL(scene.serve.url);
      const args = ["run", "--key", "alice", "--budget", "5", "--port", port, "--", process.execPath, "-e", agent];
      await using run = startFarebox(args, { env: { FAREBOX_DATABASE: scene.database } });
      const begun = await run.printed(/^with (\S+)$/m).catch(() => null);
      const name = `session${turn}`;
      if (begun !== null) {
        const keys = [begun[1] ?? ""];
        const { url } = scene.serve;
        const load = startLoad({ url, keys, taskKey: null, name, clients: 2, random: scene.random });
        await pause(sessionMs);
        await load.stop();
        scene.keep(load);
        run.signal("SIGTERM");
      }
      const ended = await run.ended;
      if (scene.ran("farebox run", startedAt, ended, 143)) scene.sessionEnded(name, ended.stderr);
    },
  },
  {
    name: "a reload of the prices",
    everyMs: 3_000,
    async run({ serve, pricing, call }, turn) {
      const before = (await call("/readyz"))?.text;
      // No one requests this model, so the prices of the requests stay the same.
      const text = oneModelFile("unused", [{ from: "2026-01-01", input: `0.${turn + 1}`, output: "1" }]);
      await replaceFile(pricing, "unused.yaml", text);
      serve.signal("SIGHUP");
      const isNew = async () => {
        const now = (await call("/readyz"))?.text;
        return before === undefined || now === undefined || catalogueIn(now) !== catalogueIn(before);
      };
      await until(isNew, "the new prices are in force");
    },
  },
  {
    name: "a change of settings",
    everyMs: 2_000,
    async run({ call, adminToken }, turn) {
      const headers = bearer(adminToken);
      await call(`${api}/keys/dora`, {
        method: "PATCH",
        headers,
        body: { limits: { parallel: 1 + (turn % 5) } },
      });
      // Streams and sessions exhaust the budget of bob repeatedly.
      const body = { scope: "key:bob", period: "total", limit_usd: ((turn + 1) * 0.02).toFixed(2) };
      await call(`${api}/budgets`, { method: "PUT", headers, body });
    },
  },
  {
    name: "farebox apply",
    everyMs: 15_000,
    async run({ database, pricing, ran }, turn) {
      const file = join(pricing, "..", "company.yaml");
      await writeFile(file, `teams:\n  red: { limits: { rpm: ${turn + 1_000_000} } }\n`);
      const startedAt = performance.now();
      ran("farebox apply", startedAt, await runFarebox(["apply", file], { env: { FAREBOX_DATABASE: database } }), 0);
    },
  },
  {
    name: "a sign-in to the dashboard",
    everyMs: 1_000,
    async run({ serve, call, adminToken }) {
      await call("/dashboard");
      const page = { origin: serve.url, "x-farebox-dashboard": "1" };
      const session = "/dashboard/session";
      const cookie = (await call(session, { method: "POST", headers: page, body: { token: adminToken } }))?.cookie;
      if (cookie == null) return;
      await call(`${api}/overview`, { headers: { cookie } });
      if ((await call(session, { method: "DELETE", headers: { ...page, cookie } })) === null) return;
      await call(`${api}/whoami`, { headers: { cookie }, refusals: ["invalid_api_key"] });
    },
  },
  {
    name: "a scrape",
    everyMs: 500,
    async run({ call }) {
      await call("/metrics");
    },
  },
  {
    name: "a report",
    everyMs: 1_000,
    async run({ call, adminToken }, turn) {
      const by = ["key,model", "day", "team", "hour"][turn % 4];
      await call(`${api}/usage?by=${by}&since=1d`, { headers: bearer(adminToken) });
    },
  },
  {
    name: "a list of the admin API",
    everyMs: 250,
    async run({ call, adminToken }, turn) {
      await call(`${api}/${lists[turn % lists.length]}`, { headers: bearer(adminToken) });
    },
  },
  {
    name: "a refusal",
    everyMs: 100,
    async run({ call, narrowKey, slowKey }, turn) {
      const hello = { model: "gpt-4o", messages: [{ role: "user", content: "hello" }] };
      const refused = [
        { key: "sk-fb-unknown", body: hello, refusals: ["invalid_api_key"] },
        { key: narrowKey, body: "{", refusals: ["invalid_json"] },
        { key: narrowKey, body: { ...hello, n: -1 }, refusals: ["invalid_request"] },
        { key: narrowKey, body: { ...hello, model: "gpt-4.1" }, refusals: ["model_not_allowed"] },
        { key: slowKey, body: "{", refusals: ["invalid_json", "rate_limit_exceeded"] },
      ];
      const { key, ...question } = refused[turn % refused.length] ?? {};
      await call("/v1/chat/completions", { method: "POST", headers: bearer(key ?? ""), ...question });
    },
  },
];

const catalogueIn = (readyz: string) => (JSON.parse(readyz) as { readonly catalogue?: string }).catalogue;
