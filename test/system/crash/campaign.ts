import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { setBudget } from "../../../src/admin/budgets.ts";
import { createKey } from "../../../src/admin/keys.ts";
import { formatScope } from "../../../src/core/budget.ts";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { digest, pick, randomFrom, type Random } from "../../../src/sandbox/random.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { openSqlite } from "../../../src/ledger/sqlite/open.ts";
import type { Store } from "../../../src/ledger/store.ts";
import { calendarOf, systemClock } from "../../../src/platform/clock.ts";
import { startFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { gatewayBooks, readFile } from "./books.ts";
import { startLoad } from "./load.ts";
import { brokenPromises, type Death } from "./promises.ts";

/*
 * The real process on a real file before a real gateway, ended again and again while clients send all kinds of requests:
 * by kill -9, by SIGTERM, by kill -9 while it drains, and by kill -9 while it starts. After each end it is started again, and
 * what its clients saw and what the gateway billed is held against the file. The seed chooses who asks for what, and
 * the ends and their moments; what has happened by then is up to the machine.
 */

export interface CampaignOptions {
  readonly times: number;
  readonly seed: number;
  /** Clients that send one request after the other. */
  readonly clients: number;
  /** Told of each round. */
  readonly tell?: (line: string) => void;
}

export interface Campaign {
  readonly rounds: number;
  /** Rounds by how they ended. */
  readonly ends: Readonly<Record<string, number>>;
  readonly requests: number;
  /** Rows that a dead process had left pending. */
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

/** FAREBOX_DRAIN of a round, in seconds. It ends with the last request: so long takes it on a machine that stands still only. */
const drains: Readonly<Record<End, number>> = {
  kill: 30,
  terminate: 30,
  "terminate in a hurry": 0,
  "kill while draining": 30,
  "kill twice": 30,
};
/** Approximate duration of a drain, in milliseconds. */
const drainMs = 3_000;
/** For what comes after the drain: last words, settlements, and a busy machine. Milliseconds. */
const afterDrainMs = 8_000;
/** A round ends when the gateway has seen so many requests at most. */
const requestsMax = 250;
/** All tasks have ended by then. Milliseconds. */
const settlingMs = 30_000;
/** Approximate duration of a process's start, in milliseconds. */
const startMs = 900;
/** A budget that is used up again and again is raised by so much, in pico-USD. */
const tightRoom = 20_000_000_000;

export async function runCampaign(options: CampaignOptions): Promise<Campaign> {
  await using scene = await openScene(options);
  const broken: string[] = [];
  const counts: Record<string, number> = {};
  for (let round = 1; round <= options.times; round++) {
    const end = round <= ends.length ? (ends[round - 1] ?? "kill") : pick(scene.random, ends);
    const found = await playRound(scene, `r${round}`, end);
    counts[end] = (counts[end] ?? 0) + 1;
    broken.push(...found.map((what) => `round ${round}, ${end}: ${what}`));
    options.tell?.(`round ${round}: ${end}, ${scene.sums.requests} requests so far, ${broken.length} broken promises`);
  }
  broken.push(...(await settleTasks(scene)));
  const { requests, recovered, answeredWhole, booked } = scene.sums;
  return {
    rounds: options.times,
    ends: counts,
    requests,
    recovered,
    answeredWhole,
    billedUsd: formatUsd(scene.sandbox.billed.cost),
    bookedUsd: formatUsd(booked as PicoUsd),
    broken,
  };
}

const taskPrices = `provider: sandbox
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
  /** Another process's view of the file: what a command would write. */
  readonly beside: Store;
  readonly keys: readonly string[];
  readonly taskKey: string;
  /** With a price of tasks: what the sandbox bills for one. */
  readonly pricing: string;
  /** Acknowledged limits by scope. */
  readonly limits: Map<string, bigint>;
  readonly sums: { requests: number; recovered: number; answeredWhole: number; booked: bigint };
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
  const beside = owned.use(opened.store);
  const keys: string[] = [];
  for (const name of ["alice", "bob", "carol"]) {
    const created = await createKey({ keys: beside.keys, clock: systemClock(), by: "crash" }, { name });
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
    beside,
    keys,
    taskKey,
    pricing,
    limits: new Map(),
    sums: { requests: 0, recovered: 0, answeredWhole: 0, booked: 0n },
    running: null,
    async [Symbol.asyncDispose]() {
      await scene.running?.serve[Symbol.asyncDispose]();
      await kept.disposeAsync();
    },
  };
  await raise(scene, "key:alice", 1_000_000_000_000_000n);
  await raise(scene, "key:carol", 1_000_000_000_000_000n);
  return scene;
}

/** One life of the process and its end, and the start after it; what it broke. */
async function playRound(scene: Scene, name: string, end: End): Promise<string[]> {
  const { random, sandbox, database } = scene;
  const spent = readFile(database).windows.reduce((most, { spent }) => (spent > most ? spent : most), 0n);
  await raise(scene, "key:bob", spent + BigInt(Math.ceil(random() * tightRoom)));
  const serve = await start(scene, drains[end]);
  const from = { request: sandbox.requests.length, call: sandbox.ledger.length };
  const lastSeq = readFile(database).rows.at(-1)?.seq ?? 0n;
  const load = startLoad({
    url: serve.url,
    keys: scene.keys,
    taskKey: scene.taskKey,
    name,
    clients: scene.clients,
    random,
  });
  const moment = Math.ceil(random() * requestsMax);
  await sandbox.waitFor(({ requests }) => requests.length - from.request >= moment, 30_000);
  const raising = raise(scene, "key:bob", spent + BigInt(tightRoom));
  // Away from the gateway's own events.
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
  scene.sums.answeredWhole += load.sent.filter(({ end }) => end === "whole").length;
  scene.sums.booked += file.rows.reduce((sum, { cost, task }) => sum + (task === null ? (cost ?? 0n) : 0n), 0n);
  const said = Number(/"recovered":(\d+)/.exec(next.stderr)?.[1] ?? 0);
  if (end !== "kill twice" && said !== pending) wrong.push(`${pending} were pending, and ${said} were recovered`);
  const verification = await scene.beside.ledger.verify();
  const death: Death = end === "terminate" ? "inPeace" : end === "terminate in a hurry" ? "hurried" : "killed";
  const gateway = gatewayBooks(sandbox, from);
  return [...wrong, ...brokenPromises({ death, sent: load.sent, file, gateway, verification, limits: scene.limits })];
}

/** Every task that any of the processes has left is asked for and charged as it was billed; what is wrong with that. */
async function settleTasks(scene: Scene): Promise<string[]> {
  const { sandbox, database } = scene;
  const { url } = await start(scene, drains.terminate);
  const running = () => readFile(database).rows.filter(({ state, task }) => state === "pending" && task !== null);
  const until = performance.now() + settlingMs;
  for (let left = running(); left.length > 0 && performance.now() < until; left = running()) {
    for (const { task } of left)
      await (await fetch(`${url}/api/v1/task/${task}`, { headers: { "x-api-key": scene.taskKey } })).text();
  }
  const bills = new Map(gatewayBooks(sandbox, { request: 0, call: 0 }).map(({ number, bill }) => [number, bill]));
  const tasks = readFile(database).rows.filter(({ task }) => task !== null);
  for (const { cost } of tasks) scene.sums.booked += cost ?? 0n;
  const wrong = tasks.filter(({ number, state, cost }) => state !== "posted" || cost !== bills.get(number ?? "")?.cost);
  return wrong.map(
    ({ number, task, state, cost }) =>
      `${number}: the task ${task} is ${state} with cost ${cost}, and was billed ${bills.get(number ?? "")?.cost}`,
  );
}

/** Ends the process in the given way; what is wrong with how it ended. */
async function endProcess(scene: Scene, serve: ServeProcess, end: End): Promise<string[]> {
  if (end === "kill" || end === "kill twice") {
    serve.signal("SIGKILL");
    await serve.ended;
    return [];
  }
  const signalledAt = performance.now();
  serve.signal("SIGTERM");
  if (end === "kill while draining") {
    await Promise.race([serve.ended, pause(scene.random() * drainMs)]);
    serve.signal("SIGKILL");
    await serve.ended;
    return [];
  }
  const { code, signal, stderr } = await serve.ended;
  const tookMs = performance.now() - signalledAt;
  const wrong: string[] = [];
  if (code !== 0) wrong.push(`SIGTERM was answered with exit code ${code}, signal ${signal}: ${stderr.slice(-2000)}`);
  if (tookMs > drains[end] * 1000 + afterDrainMs) wrong.push(`SIGTERM took ${Math.round(tookMs)} ms`);
  return wrong;
}

/** The process that runs, where it has this time to drain; else a new one. */
async function start(scene: Scene, drainSeconds: number): Promise<ServeProcess> {
  const { running } = scene;
  if (running?.drainSeconds === drainSeconds && !running.serve.hasEnded) return running.serve;
  await running?.serve[Symbol.asyncDispose]();
  const env = { FAREBOX_PRICING: scene.pricing, FAREBOX_DRAIN: `${drainSeconds}s`, FAREBOX_LOG_LEVEL: "warn" };
  const serve = await startServe({ database: scene.database, gateway: scene.sandbox, env });
  scene.running = { serve, drainSeconds };
  return serve;
}

/** A process that dies somewhere between its first line and its readiness: while it takes the lock, migrates or recovers. */
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

/** Sets a limit as a command beside the proxy does, and remembers that it was acknowledged. */
async function raise({ beside, limits }: Scene, scope: string, limit: bigint): Promise<void> {
  const tools = { ledger: beside.ledger, keys: beside.keys, clock: systemClock(), by: "crash" };
  const set = await setBudget(tools, { scope, limit: formatUsd(limit as PicoUsd), period: "total" });
  if (!set.ok) throw new Error(JSON.stringify(set));
  limits.set(formatScope(set.budget.scope), limit);
}
