import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { setBudget } from "../../../src/admin/budget-changes.ts";
import { createKey } from "../../../src/admin/key-changes.ts";
import { formatScope } from "../../../src/core/scope.ts";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { digest, pick, randomFrom, type Random } from "../../../src/sandbox/random.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { openSqlite } from "../../../src/ledger/sqlite/open.ts";
import type { Store } from "../../../src/ports/stores.ts";
import { calendarOf, systemClock } from "../../../src/platform/clock.ts";
import { startFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { gatewayRequests, readFile } from "./ledger-snapshot.ts";
import { startLoad } from "./load.ts";
import { brokenPromises, type Death } from "./promises.ts";

/*
 * Runs the real process on a real file with a real gateway, and ends it repeatedly while clients send all kinds of requests:
 * by kill -9, by SIGTERM, by kill -9 while it drains, and by kill -9 while it starts. After each end it is started again,
 * and the file is compared with what clients saw and the gateway billed. The seed determines the requests, the ends and
 * their moments; how far each request has come by then depends on the machine.
 */

export interface CampaignOptions {
  readonly times: number;
  readonly seed: number;
  /** Clients that send one request after the other. */
  readonly clients: number;
  /** Returns false to play further rounds after the last one. Default: no further rounds. */
  readonly isEnough?: (sums: Sums) => boolean;
  /** Receives a line for each round. */
  readonly onRound?: (line: string) => void;
}

/** Numbers of requests of all rounds so far, as in `Campaign`. */
type Sums = Readonly<Pick<Campaign, "requests" | "refused" | "recovered" | "answeredWhole">>;

export interface Campaign {
  readonly rounds: number;
  /** Rounds by how they ended. */
  readonly ends: Readonly<Record<string, number>>;
  readonly requests: number;
  /** Requests that a budget refused. */
  readonly refused: number;
  /** Rows that an ended process left pending. */
  readonly recovered: number;
  readonly answeredWhole: number;
  readonly billedUsd: string;
  readonly bookedUsd: string;
  /** Each promise that did not hold, in words. */
  readonly broken: readonly string[];
}

const ends = [
  "kill",
  "kill",
  "kill",
  "terminate",
  "terminate",
  "terminate in a hurry",
  "kill while draining",
  "kill twice",
] as const;
type End = (typeof ends)[number];

/** FAREBOX_DRAIN of a round, in seconds. A long drain ends with the last request. */
const drains: Readonly<Record<End, number>> = {
  kill: 600,
  terminate: 600,
  "terminate in a hurry": 0,
  "kill while draining": 600,
  "kill twice": 600,
};
/** Approximate duration of a drain, in milliseconds. */
const drainMs = 3_000;
/** Most requests that the gateway sees before a round ends. */
const requestsMax = 250;
/** Time in which all tasks end, in milliseconds. */
const settlingMs = 150_000;
/** Approximate duration of a process's start, in milliseconds. */
const startMs = 900;
/** Scopes of Bob's budgets, one of each kind. Each round exhausts the next of them. */
const tightScopes = [
  "key:bob",
  "team:red",
  "label:env=prod",
  "user:vip",
  "tag:feature=search",
  "key:bob model:gpt-4o*",
] as const;
/** Most room of the exhausted budget when a round starts, and its room after the raise, in pico-USD. */
const tightRoom = 20_000_000_000;
/** Budgets that no round uses up. */
const wideScopes = ["all", "key:alice", "key:carol", "model:gpt-4o", "each-key", "each-model each-user"] as const;
const wideLimit = 1_000_000_000_000_000n;

export async function runCampaign(options: CampaignOptions): Promise<Campaign> {
  await using scene = await openScene(options);
  const broken: string[] = [];
  const counts: Record<string, number> = {};
  const { isEnough = () => true } = options;
  let rounds = 0;
  while (rounds < options.times || !isEnough(scene.sums)) {
    const round = ++rounds;
    const end = round <= ends.length ? (ends[round - 1] ?? "kill") : pick(scene.random, ends);
    const found = await playRound(scene, round, end);
    counts[end] = (counts[end] ?? 0) + 1;
    broken.push(...found.map((what) => `round ${round}, ${end}: ${what}`));
    options.onRound?.(
      `round ${round}: ${end}, ${scene.sums.requests} requests so far, ${broken.length} broken promises`,
    );
  }
  broken.push(...(await settleTasks(scene)));
  const { requests, refused, recovered, answeredWhole, booked } = scene.sums;
  return {
    rounds,
    ends: counts,
    requests,
    refused,
    recovered,
    answeredWhole,
    billedUsd: formatUsd(scene.sandbox.billed.cost),
    bookedUsd: formatUsd(booked as PicoUsd),
    broken,
  };
}

/** Prices of tasks: what the sandbox bills for one. */
export const taskPrices = `provider: sandbox
models:
  kling:
    tasks:
      video_generation: [{ from: 2026-01-01, source: "what the sandbox bills", per: task, official: "0.25", gateway: "0.25" }]
`;

interface Scene extends AsyncDisposable {
  readonly random: Random;
  readonly clients: number;
  readonly sandbox: Sandbox;
  readonly database: string;
  /** A second store on the file, as a command opens it. */
  readonly commandStore: Store;
  readonly keys: readonly string[];
  readonly taskKey: string;
  /** Folder with the prices of tasks. */
  readonly pricing: string;
  /** Acknowledged limits by stored scope. */
  readonly limits: Map<string, bigint>;
  /** Stored scopes by their text. */
  readonly stored: Map<string, string>;
  readonly sums: { requests: number; refused: number; recovered: number; answeredWhole: number; booked: bigint };
  running: { readonly serve: ServeProcess; readonly drainSeconds: number } | null;
}

async function openScene({ seed, clients }: CampaignOptions): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(await startSandbox({ keepRequests: 1_000_000, keepCalls: 1_000_000, seed }));
  const database = join(folder.path, "farebox.db");
  const pricing = join(folder.path, "pricing");
  await mkdir(pricing);
  await writeFile(join(pricing, "tasks.yaml"), taskPrices);
  const opened = await openSqlite({
    path: database,
    calendar: calendarOf("UTC"),
    clock: systemClock(),
    access: "command",
  });
  if (!opened.ok) throw new Error(opened.failure.kind);
  const commandStore = owned.use(opened.store);
  const keys: string[] = [];
  const limited = { team: "red", labels: { env: "prod" }, user: "vip", tags: { feature: "search" } };
  for (const key of [{ name: "alice" }, { name: "bob", ...limited }, { name: "carol" }]) {
    const created = await createKey({ keys: commandStore.keys, clock: systemClock(), by: "crash" }, key);
    if (!created.ok) throw new Error(JSON.stringify(created));
    keys.push(created.text);
  }
  const kept = owned.move();
  const taskKey = keys.pop() ?? "";
  const scene: Scene = {
    random: randomFrom(digest(seed, "crash")),
    clients,
    sandbox,
    database,
    commandStore,
    keys,
    taskKey,
    pricing,
    limits: new Map(),
    stored: new Map(),
    sums: { requests: 0, refused: 0, recovered: 0, answeredWhole: 0, booked: 0n },
    running: null,
    async [Symbol.asyncDispose]() {
      await scene.running?.serve[Symbol.asyncDispose]();
      await kept.disposeAsync();
    },
  };
  for (const scope of [...wideScopes, ...tightScopes]) await raise(scene, scope, wideLimit);
  return scene;
}

/** Runs the process, ends it and starts it again; returns the broken promises. */
async function playRound(scene: Scene, round: number, end: End): Promise<string[]> {
  const { random, sandbox, database } = scene;
  const tight = tightScopes[round % tightScopes.length] ?? "key:bob";
  const spent = readFile(database).windows.find(({ budget }) => budget === scene.stored.get(tight))?.spent ?? 0n;
  for (const scope of tightScopes)
    await raise(scene, scope, scope === tight ? spent + BigInt(Math.ceil(random() * tightRoom)) : wideLimit);
  const serve = await start(scene, drains[end]);
  const from = { request: sandbox.requests.length, call: sandbox.ledger.length };
  const lastSeq = readFile(database).rows.at(-1)?.seq ?? 0n;
  const load = startLoad({
    url: serve.url,
    keys: scene.keys,
    taskKey: scene.taskKey,
    name: `r${round}`,
    clients: scene.clients,
    random,
  });
  const moment = Math.ceil(random() * requestsMax);
  await sandbox.waitFor(({ requests }) => requests.length - from.request >= moment);
  const raising = raise(scene, tight, spent + BigInt(tightRoom));
  // A random delay, so that the end does not coincide with an event of the gateway.
  await pause(random() * 20);
  const wrong = await endProcess(scene, serve, end);
  await Promise.all([load.stop(), raising]);
  const pending = readFile(database, lastSeq).rows.filter(
    ({ state, task }) => state === "pending" && task === null,
  ).length;
  if (end === "kill twice") await killWhileStarting(scene);
  const next = await start(scene, drains[end]);
  const file = readFile(database, lastSeq);
  scene.sums.requests += load.sent.length;
  scene.sums.recovered += pending;
  scene.sums.refused += load.sent.filter(({ code, end }) => end === "refused" && code?.startsWith("budget_")).length;
  scene.sums.answeredWhole += load.sent.filter(({ end }) => end === "whole").length;
  scene.sums.booked += file.rows.reduce((sum, { cost, task }) => sum + (task === null ? (cost ?? 0n) : 0n), 0n);
  const line = /"recovered":(\d+)/;
  if (end !== "kill twice" && pending > 0) await next.printed(line);
  const verification = await scene.commandStore.ledger.verify();
  const recovered = Number(line.exec(next.stderr)?.[1] ?? 0);
  if (end !== "kill twice" && recovered !== pending)
    wrong.push(`${pending} were pending, and ${recovered} were recovered`);
  const death: Death = end === "terminate" ? "inPeace" : end === "terminate in a hurry" ? "hurried" : "killed";
  const gateway = gatewayRequests(sandbox, from);
  return [...wrong, ...brokenPromises({ death, sent: load.sent, file, gateway, verification, limits: scene.limits })];
}

/** Polls every task of all rounds until it is settled; returns those not charged as they were billed. */
async function settleTasks(scene: Scene): Promise<string[]> {
  const { sandbox, database } = scene;
  const { url } = await start(scene, drains.terminate);
  const running = () => readFile(database).rows.filter(({ state, task }) => state === "pending" && task !== null);
  const until = performance.now() + settlingMs;
  for (let left = running(); left.length > 0 && performance.now() < until; left = running()) {
    for (const { task } of left)
      await (await fetch(`${url}/api/v1/task/${task}`, { headers: { "x-api-key": scene.taskKey } })).text();
  }
  const bills = new Map(gatewayRequests(sandbox, { request: 0, call: 0 }).map(({ number, bill }) => [number, bill]));
  const tasks = readFile(database).rows.filter(({ task }) => task !== null);
  for (const { cost } of tasks) scene.sums.booked += cost ?? 0n;
  const wrong = tasks.filter(({ number, state, cost }) => state !== "posted" || cost !== bills.get(number ?? "")?.cost);
  return wrong.map(
    ({ number, task, state, cost }) =>
      `${number}: the task ${task} is ${state} with cost ${cost}, and was billed ${bills.get(number ?? "")?.cost}`,
  );
}

/** Ends the process in the given way; returns what went wrong. */
async function endProcess(scene: Scene, serve: ServeProcess, end: End): Promise<string[]> {
  if (end === "kill" || end === "kill twice") {
    serve.signal("SIGKILL");
    await serve.ended;
    return [];
  }
  serve.signal("SIGTERM");
  if (end === "kill while draining") {
    await Promise.race([serve.ended, pause(scene.random() * drainMs)]);
    serve.signal("SIGKILL");
    await serve.ended;
    return [];
  }
  const { code, signal, stderr } = await serve.ended;
  const wrong: string[] = [];
  if (code !== 0) wrong.push(`SIGTERM was answered with exit code ${code}, signal ${signal}: ${stderr.slice(-2000)}`);
  return wrong;
}

/** Returns the running process if it has this drain time, otherwise a new one. */
async function start(scene: Scene, drainSeconds: number): Promise<ServeProcess> {
  const { running } = scene;
  if (running?.drainSeconds === drainSeconds && !running.serve.hasEnded) return running.serve;
  await running?.serve[Symbol.asyncDispose]();
  const env = { FAREBOX_PRICING: scene.pricing, FAREBOX_DRAIN: `${drainSeconds}s`, FAREBOX_LOG_LEVEL: "warn" };
  const serve = await startServe({ database: scene.database, gateway: scene.sandbox, env });
  scene.running = { serve, drainSeconds };
  return serve;
}

/** Kills a process during its start: while it takes the lock, migrates or recovers. */
async function killWhileStarting({ random, sandbox, database }: Scene): Promise<void> {
  const env = {
    FAREBOX_GATEWAY_URL: sandbox.url,
    FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
  };
  await using serve = startFarebox(["serve"], { env });
  await Promise.race([serve.ended, pause(startMs * (0.4 + 0.6 * random()))]);
}

/** Sets a limit as a command next to the proxy does, and records that it was acknowledged. */
async function raise({ commandStore, limits, stored }: Scene, scope: string, limit: bigint): Promise<void> {
  const tools = { ledger: commandStore.ledger, keys: commandStore.keys, clock: systemClock(), by: "crash" };
  const set = await setBudget(tools, { scope, limit: formatUsd(limit as PicoUsd), period: "total", shared: true });
  if (!set.ok) throw new Error(JSON.stringify(set));
  stored.set(scope, formatScope(set.budget.scope));
  limits.set(formatScope(set.budget.scope), limit);
}
