import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { formatUsd, parseUsd, type PicoUsd } from "../../../src/core/money.ts";
import { digest, randomFrom } from "../../../src/sandbox/random.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Verification } from "../../../src/ports/ledger.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { startPostgres, type Postgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { gatewayRequests, readDatabase, readFile, type AtGateway, type Row } from "../crash/ledger-snapshot.ts";
import { taskPrices } from "../crash/campaign.ts";
import { startLoad, type Load, type Sent } from "../crash/load.ts";
import { brokenPromises } from "../crash/promises.ts";
import { grown, inspectorFlags, inspectorLine, measure, type Resources } from "./memory.ts";
import { mixedKinds, scenarios, type Scene } from "./scenarios.ts";

/*
 * Runs one proxy for a long time under all kinds of work: tasks, streams, sessions, reloads, sign-ins, scrapes, reports, lists and
 * refusals; a PostgreSQL database is killed and started again meanwhile. After each quarter all work stops, and the memory and
 * file descriptors of the proxy are measured. At the end every request is accounted for, by its client, the gateway and the ledger.
 */

export interface SoakOptions {
  readonly minutes: number;
  /** Clients that send one mixed request after the other. */
  readonly clients: number;
  /** Number of slow streams that are always open. */
  readonly streams: number;
  readonly seed: number;
  /** Non-null for a ledger in PostgreSQL, which is killed at this interval. */
  readonly postgres: { readonly killEveryMinutes: number } | null;
  /** Called with each line of progress. */
  readonly report: (line: string) => void;
}

export interface Soak {
  readonly sent: number;
  /** Numbers of requests and commands that ended in this way, by kind or reason. */
  readonly answered: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
  readonly quarters: readonly Resources[];
  /** Charges and the sums of ledger and gateway, by source. */
  readonly sums: Readonly<
    Record<string, { readonly charges: number; readonly ledgerUsd: string; readonly gatewayUsd: string }>
  >;
  readonly kills: number;
  /** Longest time from the start of the database until the proxy was ready, in milliseconds. */
  readonly slowestRecoveryMs: number;
  /** A sentence for each fault. */
  readonly broken: readonly string[];
  /** Log of the proxy. */
  readonly log: string;
}

type Counts = Record<string, number>;

/** Counts every request and command by how it ended. */
class Accounts {
  readonly answered: Counts = {};
  readonly refused: Counts = {};
  readonly failed: Counts = {};
  readonly broken: string[] = [];
  readonly outages: { readonly from: number; until: number }[] = [];

  get sent(): number {
    return [this.answered, this.refused, this.failed]
      .flatMap((counts) => Object.values(counts))
      .reduce((sum, count) => sum + count, this.broken.length);
  }

  add(counts: Counts, what: string): void {
    counts[what] = (counts[what] ?? 0) + 1;
  }

  /** True if the database was away at some instant between these times. */
  wasAway(startedAt: number, endedAt: number): boolean {
    return this.outages.some(({ from, until }) => startedAt <= until && endedAt >= from);
  }

  /** Accounts for a metered request. */
  request(one: Sent): void {
    const { kind, end, status, code } = one;
    if (end === "whole") return this.add(this.answered, kind);
    if (end === "left") return this.add(this.failed, "its client left");
    if (code === "budget_exceeded" || code === "budget_held") return this.add(this.refused, code);
    if (code === "ledger_unavailable" && this.wasAway(one.startedAt, one.endedAt))
      return this.add(this.failed, "the database was away");
    if (kind === "trouble" && end !== "open") return this.add(this.failed, "the gateway failed as it was asked to");
    this.broken.push(`${one.number} (${kind}) ended without a known reason: ${end}, status ${status}, code ${code}`);
  }
}

const adminToken = "soak-0123456789-soak-0123456789-soak";
const bearer = { authorization: `Bearer ${adminToken}` };
/** Time for which the database is away, in milliseconds. */
const awayMs = 3_000;
/** Longest time that the proxy may take to be ready again, in milliseconds. */
const recoveryMs = 20_000;
/** Shortest run, in minutes, that judges memory and recovery. In a shorter run, they depend on the machine. */
const judgedMinutesMin = 5;
/** Kinds of requests and commands of which each run has an answer. */
export const answeredKinds = [
  "plain",
  "stream",
  "held",
  "task",
  "farebox apply",
  "GET /metrics",
  "DELETE /dashboard/session",
] as const;

export async function runSoak(options: SoakOptions): Promise<Soak> {
  await using owned = new AsyncDisposableStack();
  const random = randomFrom(digest(options.seed, "soak"));
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(
    await startSandbox({
      keepRequests: 1_000_000,
      keepCalls: 1_000_000,
      seed: options.seed,
      startingBalanceUsd: "1000000",
    }),
  );
  const postgres = options.postgres === null ? null : owned.use(await startPostgres());
  const database = postgres === null ? join(folder.path, "farebox.db") : await postgres.create("soak");
  const pricing = join(folder.path, "pricing");
  await mkdir(pricing);
  await writeFile(join(pricing, "tasks.yaml"), taskPrices);
  const env = {
    FAREBOX_PRICING: pricing,
    FAREBOX_ADMIN_TOKEN: adminToken,
    FAREBOX_DRAIN: "30s",
    FAREBOX_LOG_LEVEL: "warn",
    NODE_OPTIONS: inspectorFlags,
  };
  const serve = owned.use(await startServe({ database, gateway: sandbox, env }));
  const [, inspector = ""] = await serve.printed(inspectorLine);
  const accounts = new Accounts();
  const loads: Load[] = [];
  const sessions: { readonly name: string; readonly stderr: string }[] = [];
  const call = callerOf(serve, accounts);
  const create = async (name: string, more: object = {}) => {
    const reply = await call("/admin/v1/keys", {
      method: "POST",
      headers: bearer,
      body: { name, ...more },
      status: 201,
    });
    return (JSON.parse(reply?.text ?? "{}") as { readonly key: string }).key;
  };
  await call("/admin/v1/teams", { method: "POST", headers: bearer, body: { name: "red" }, status: 201 });
  const keys = [await create("alice"), await create("bob", { team: "red" })];
  const taskKey = await create("carol");
  const narrowKey = await create("dora", { models: ["gpt-4o"] });
  const slowKey = await create("erin", { limits: { rpm: 1 } });
  for (const [scope, limit_usd] of [
    ["all", "1000000"],
    ["key:alice", "100000"],
    ["key:bob", "0.02"],
  ] as const)
    await call("/admin/v1/budgets", {
      method: "PUT",
      headers: bearer,
      body: { scope, period: "total", limit_usd },
    });
  const scene: Scene = {
    serve,
    database,
    pricing,
    adminToken,
    narrowKey,
    slowKey,
    random,
    call,
    ran(name, startedAt, { code, stderr }, expected) {
      const isRight = code === expected;
      if (isRight) accounts.add(accounts.answered, name);
      else if (accounts.wasAway(startedAt, performance.now()) && code !== null && stderr !== "")
        accounts.add(accounts.failed, "the database was away");
      else accounts.broken.push(`${name} ended with ${code}: ${stderr.slice(-300)}`);
      return isRight && !accounts.wasAway(startedAt, performance.now());
    },
    keep: (load) => void loads.push(load),
    sessionEnded: (name, stderr) => void sessions.push({ name, stderr }),
  };

  const portOf = (url: string) => Number(new URL(url).port);
  const ports = {
    own: portOf(serve.url),
    others: [sandbox.port, ...(postgres === null ? [] : [portOf(database)])],
  };
  const isJudged = options.minutes >= judgedMinutesMin;
  const quarterMs = (options.minutes * 60_000) / 4;
  const heldTokens = Math.max(2, Math.min(40, Math.round(quarterMs / 1_000)));
  const base = { url: serve.url, random, overMs: Math.min(10_000, quarterMs / 2) };
  const startLoads = (quarter: number): Load[] => [
    startLoad({ ...base, keys, taskKey, name: `q${quarter}`, clients: options.clients, kinds: mixedKinds }),
    startLoad({
      ...base,
      keys: keys.slice(0, 1),
      taskKey,
      name: `h${quarter}`,
      clients: options.streams,
      kinds: ["held"],
      heldTokens,
    }),
  ];
  const quarters: Resources[] = [];
  const turns = new Map(scenarios.map((scenario) => [scenario, 0]));
  let kills = 0;
  let slowestRecoveryMs = 0;
  for (let quarter = 1; quarter <= 4; quarter++) {
    const stopped = new AbortController();
    const running = startLoads(quarter);
    loads.push(...running);
    const besides = scenarios.map(async (scenario) => {
      while (!stopped.signal.aborted) {
        try {
          const turn = turns.get(scenario) ?? 0;
          turns.set(scenario, turn + 1);
          await scenario.run(scene, turn);
        } catch (error) {
          accounts.broken.push(`${scenario.name}: ${String(error)}`);
        }
        await pause(scenario.everyMs, undefined, { signal: stopped.signal }).catch(() => {});
      }
    });
    // Without this wait, a short run on a slow machine could end or lose its database before some kind is answered.
    if (quarter === 1) await until(() => hasAnswers(accounts, running), "every kind of request has been answered");
    const end = performance.now() + quarterMs;
    const everyMs = (options.postgres?.killEveryMinutes ?? Infinity) * 60_000;
    while (performance.now() < end) {
      const left = end - performance.now();
      await pause(Math.min(left, everyMs));
      if (postgres === null || left < everyMs) continue;
      const tookMs = await killAndStart(postgres, serve, accounts);
      if (tookMs > recoveryMs && isJudged)
        accounts.broken.push(`the proxy was ready ${Math.round(tookMs)} ms after its database`);
      slowestRecoveryMs = Math.max(slowestRecoveryMs, tookMs);
      kills++;
    }
    stopped.abort();
    await Promise.all([...running.map((load) => load.stop()), ...besides]);
    quarters.push(await measure(serve.pid, inspector, ports));
    options.report(`quarter ${quarter}: ${describe(quarters.at(-1))}, ${accounts.broken.length} faults`);
  }

  const sent = loads.flatMap((load) => load.sent);
  for (const one of sent) accounts.request(one);
  const readLedger = async () => (postgres === null ? readFile(database) : await readDatabase(database));
  await settleTasks(call, taskKey, async () => (await readLedger()).rows);
  serve.signal("SIGTERM");
  const { code, stderr } = await serve.ended;
  if (code !== 0) accounts.broken.push(`serve ended with ${code}: ${stderr.slice(-1000)}`);
  const file = await readLedger();
  const gateway = gatewayRequests(sandbox, { request: 0, call: 0 });
  const verified = await runFarebox(["verify", "--json"], { env: { FAREBOX_DATABASE: database } });
  const verification = JSON.parse(verified.stdout) as Verification;
  const death = postgres === null ? "inPeace" : "hurried";
  accounts.broken.push(
    ...brokenPromises({ death, sent, file, gateway, verification, limits: new Map() }),
    ...unaccounted(sent, file.rows, gateway),
    ...wrongSessions(sessions, file.rows),
    ...(isJudged ? grown(quarters) : []),
  );
  return {
    sent: accounts.sent,
    answered: accounts.answered,
    refused: accounts.refused,
    failed: accounts.failed,
    quarters,
    sums: sumsBySource(file.rows, gateway),
    kills,
    slowestRecoveryMs,
    broken: accounts.broken,
    log: stderr,
  };
}

/** Returns a function that sends a request and accounts for its answer. */
function callerOf({ url }: ServeProcess, accounts: Accounts): Scene["call"] {
  return async (path, { method = "GET", headers = {}, body, status = 200, refusals = [] } = {}) => {
    const startedAt = performance.now();
    const what = `${method} ${path.replace(/\?.*/, "")}`;
    const away = () => {
      accounts.add(accounts.failed, "the database was away");
      return null;
    };
    try {
      const response = await fetch(url + path, {
        method,
        headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
        ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const wasAway = accounts.wasAway(startedAt, performance.now());
      const found = response.headers.get("x-farebox-error");
      if (found === null ? response.status === status : refusals.includes(found)) {
        accounts.add(found === null ? accounts.answered : accounts.refused, found ?? what);
        const cookie = response.headers.get("set-cookie")?.split(";")[0] ?? null;
        return { text, cookie };
      }
      if (wasAway && response.status === 503 && (found === "ledger_unavailable" || path === "/readyz")) return away();
      const tookMs = Math.round(performance.now() - startedAt);
      accounts.broken.push(
        `${what} was answered with ${response.status} ${found} after ${tookMs} ms: ${text.slice(0, 300)}`,
      );
    } catch (error) {
      accounts.broken.push(`${what} was not answered: ${String(error)}`);
    }
    return null;
  };
}

/** Kills the database and starts it again; returns the time until the proxy was ready, in milliseconds. */
async function killAndStart(postgres: Postgres, { url }: ServeProcess, accounts: Accounts): Promise<number> {
  const outage = { from: performance.now(), until: Infinity };
  accounts.outages.push(outage);
  await postgres.kill();
  await pause(awayMs);
  await postgres.start();
  const startedAt = performance.now();
  await until(async () => (await fetch(`${url}/readyz`)).status === 200, "the proxy is ready again");
  outage.until = performance.now();
  return outage.until - startedAt;
}

function hasAnswers({ answered }: Accounts, loads: readonly Load[]): boolean {
  const whole = new Set(loads.flatMap(({ sent }) => sent.filter(({ end }) => end === "whole").map(({ kind }) => kind)));
  return answeredKinds.every((kind) => kind in answered || (whole as ReadonlySet<string>).has(kind));
}

/** Polls the pending tasks until every charge is settled. */
async function settleTasks(call: Scene["call"], taskKey: string, rows: () => Promise<readonly Row[]>): Promise<void> {
  await until(async () => {
    const pending = (await rows()).filter(({ state }) => state === "pending");
    for (const { task } of pending)
      if (task !== null) await call(`/api/v1/task/${task}`, { headers: { "x-api-key": taskKey } });
    return pending.length === 0;
  }, "every charge is settled");
}

/** Returns a sentence for each row without a request, and each charge for a request that the gateway has not seen. */
function unaccounted(sent: readonly Sent[], rows: readonly Row[], gateway: readonly AtGateway[]): string[] {
  const known = new Set(sent.map(({ number }) => number));
  const seen = new Set(gateway.map(({ number }) => number));
  return rows.flatMap(({ id, number, state, cost, source, reason }) => {
    if (number === null || !known.has(number)) return [`the charge ${id} belongs to no request`];
    if (state === "posted" && cost !== 0n && !seen.has(number))
      return [`${number} never reached the gateway, and costs ${cost} (${source}, ${reason})`];
    return [];
  });
}

/** Returns a sentence for each session whose printed sum does not match its charges, within the holds that it named as not settled. */
function wrongSessions(
  sessions: readonly { readonly name: string; readonly stderr: string }[],
  rows: readonly Row[],
): string[] {
  return sessions.flatMap(({ name, stderr }) => {
    const spent = rows
      .filter(({ number }) => number?.startsWith(`${name}-`))
      .reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
    const printed = parseUsd(/ tokens, USD ([\d.]+)/.exec(stderr)?.[1] ?? "");
    const held = parseUsd(/ not settled yet, with USD ([\d.]+) held/.exec(stderr)?.[1] ?? "0");
    if (printed != null && held != null && printed <= spent && spent <= printed + held) return [];
    return [`${name} cost USD ${formatUsd(spent as PicoUsd)}, and printed: ${stderr}`];
  });
}

function sumsBySource(rows: readonly Row[], gateway: readonly AtGateway[]): Soak["sums"] {
  const bills = new Map(gateway.map(({ number, bill }) => [number, bill?.cost ?? 0n]));
  const bySource = Map.groupBy(rows, ({ source, state }) => source ?? state);
  const sum = (amounts: readonly bigint[]) => formatUsd(amounts.reduce((all, each) => all + each, 0n) as PicoUsd);
  return Object.fromEntries(
    [...bySource].map(([source, charges]) => [
      source,
      {
        charges: charges.length,
        ledgerUsd: sum(charges.map(({ cost }) => cost ?? 0n)),
        gatewayUsd: sum(charges.map(({ number }) => bills.get(number ?? "") ?? 0n)),
      },
    ]),
  );
}

export function describe(held: Resources | undefined): string {
  if (held === undefined) return "nothing";
  const { heapMb, rssMb, descriptors } = held;
  return `heap ${heapMb.toFixed(1)} MB, resident ${rssMb.toFixed(0)} MB, ${descriptors} descriptors`;
}
