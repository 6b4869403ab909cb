/**
 * Measures whether requests need more CPU on larger ledgers. Runs Farebox on ledgers with different numbers of charges, or of keys
 * that each have their own budget. Each round measures all ledgers in turn.
 *
 *   node bench/ledger-rows.ts 1m.db 1000000 && node bench/ledger-rows.ts 10m.db 10000000
 *   node bench/growth.ts --rows 1m.db,10m.db
 *   node bench/growth.ts --keys 1000,100000
 *
 * `--unverified` skips the verification of each ledger before and after, which takes minutes with ten million charges.
 */
import { statSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { checkAnswers } from "./check.ts";
import { Child } from "./child.ts";
import { runLoad, type Sample } from "./load.ts";
import { keyText } from "./many-keys.ts";
import type { LedgerFigures } from "./messages.ts";
import { machine } from "./report.ts";
import { pairedRatios, spreadOf, type Spread } from "./statistics.ts";
import { defaultParams, plainTarget, type Target } from "./targets.ts";
import { workloads } from "./workloads.ts";

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: { rows: text, keys: text, rounds: text, requests: text, json: text, unverified: { type: "boolean" } },
});
const rounds = Number(values.rounds ?? 5);
const requests = Number(values.requests ?? 2000);
/** Largest number of keys in use, except in the variant in which every request has a different key. */
const busyKeys = 1000;

/** Ledger to measure. */
interface Variant {
  readonly name: string;
  readonly database: string;
  readonly keys: number;
  /** Number of added keys that send requests; 0 to use the key that every variant has. */
  readonly inUse: number;
}

/** Figures of a ledger that is not verified. */
const unverified: LedgerFigures = {
  charges: Number.NaN,
  pending: 0,
  posted: 0,
  reported: 0,
  differences: 0,
  verifySeconds: Number.NaN,
  reportSeconds: Number.NaN,
};

const files = values.rows?.split(",") ?? [];
const counts = values.keys?.split(",").map(Number) ?? [];
const variants: Variant[] = [
  { name: "new ledger, one key", database: "", keys: 0, inUse: 0 },
  ...files.map((file) => ({
    name: `${file} (${Math.round(statSync(file).size / 1e6)} MB)`,
    database: file,
    keys: 0,
    inUse: 0,
  })),
  ...counts.map((keys) => ({
    name: `${keys} keys, ${Math.min(keys, busyKeys)} in turn`,
    database: "",
    keys,
    inUse: Math.min(keys, busyKeys),
  })),
  ...counts
    .filter((keys) => keys > busyKeys)
    .map((keys) => ({ name: `${keys} keys, a different one for each request`, database: "", keys, inUse: keys })),
];

interface Line {
  readonly name: string;
  readonly cpuUs: Spread;
  /** CPU divided by the CPU of the new ledger in the same round. */
  readonly ratio: Spread;
  readonly p50Us: Spread;
  readonly p99Us: Spread;
  readonly requestsPerSecond: Spread;
  readonly startSeconds: number;
  readonly scrapeMs: Spread;
  readonly verifySeconds: number;
  readonly reportSeconds: number;
  readonly charges: number;
}

const [plain, latency] = ["plain", "latency"].map((name) => workloads.find((each) => each.name === name));
if (plain === undefined || latency === undefined) throw new Error("a workload is missing");
await using owned = new AsyncDisposableStack();
const gateway = owned.use(await Child.start("gateway", defaultParams));
const direct: Target = { ...plainTarget("direct", gateway, false), figures: async () => null };
const targets: Target[] = [];
const before: LedgerFigures[] = [];
const startSeconds: number[] = [];
for (const { name, database, keys, inUse } of variants) {
  console.error(`${name}: start`);
  const startedAt = performance.now();
  const child = owned.use(
    await Child.start("farebox", { ...defaultParams, gatewayUrl: `http://127.0.0.1:${gateway.port}`, database, keys }),
  );
  startSeconds.push((performance.now() - startedAt) / 1000);
  const target = plainTarget(name, child, true);
  targets.push(inUse === 0 ? target : { ...target, keys: Array.from({ length: inUse }, (_, index) => keyText(index)) });
  before.push(values.unverified === true ? unverified : await child.query("ledger"));
}
await checkAnswers(plain, [direct, ...targets]);

const measured = targets.map(() => ({ many: [] as Sample[], one: [] as Sample[] }));
const sample = (target: Target, factor = 1) =>
  runLoad(plain, target, { requests: factor * requests, connections: factor * 16 });
for (const target of targets) await sample(target, 4);
for (let round = 0; round < rounds; round++) {
  console.error(`round ${round + 1} of ${rounds}`);
  for (let turn = 0; turn < targets.length; turn++) {
    const index = (turn + round) % targets.length;
    const [target, kept] = [targets[index], measured[index]];
    if (target === undefined || kept === undefined) continue;
    kept.many.push(await sample(target));
    kept.one.push(await runLoad(latency, target, { requests: Math.ceil(requests / 8), connections: 1 }));
  }
}

const cpu = (samples: readonly Sample[]) => samples.map((each) => (each.cpuUs ?? 0) / each.requests);
const range = ({ median, min, max }: Spread, digits = 0) =>
  `${median.toFixed(digits)} (${min.toFixed(digits)}-${max.toFixed(digits)})`;
// The verification below may take minutes, so these figures are printed first.
for (const [index, { name }] of targets.entries()) {
  const { many, one } = measured[index] ?? { many: [], one: [] };
  console.error(
    `${name}: CPU ${range(spreadOf(cpu(many)))} µs, p50 of one client ${range(spreadOf(one.map(({ p50Us }) => p50Us)))} µs`,
  );
}
const lines: Line[] = [];
for (const [index, target] of targets.entries()) {
  const [{ many, one } = { many: [], one: [] }, was] = [measured[index], before[index]];
  const scrapes: number[] = [];
  console.error(`${target.name}: scrapes and verification`);
  for (let scrape = 0; scrape < 3; scrape++) {
    const from = performance.now();
    await (await fetch(`http://127.0.0.1:${target.port}/metrics`)).text();
    scrapes.push(performance.now() - from);
  }
  if (was === undefined) throw new Error(`no earlier figures of ${target.name}`);
  const ledger = values.unverified === true ? null : await target.ledger();
  if (
    ledger === null
      ? values.unverified !== true
      : ledger.charges - was.charges !== target.sent || ledger.pending !== 0 || ledger.differences !== 0
  ) {
    throw new Error(`${target.name}: ${target.sent} requests were sent, but the ledger has ${JSON.stringify(ledger)}`);
  }
  lines.push({
    name: target.name,
    cpuUs: spreadOf(cpu(many)),
    ratio: spreadOf(pairedRatios(cpu(many), cpu(measured[0]?.many ?? []))),
    p50Us: spreadOf(one.map(({ p50Us }) => p50Us)),
    p99Us: spreadOf(one.map(({ p99Us }) => p99Us)),
    requestsPerSecond: spreadOf(many.map((each) => each.requests / each.seconds)),
    startSeconds: startSeconds[index] ?? 0,
    scrapeMs: spreadOf(scrapes),
    verifySeconds: was.verifySeconds,
    reportSeconds: was.reportSeconds,
    charges: was.charges,
  });
}
console.table(
  lines.map((line) => ({
    ledger: line.name,
    charges: line.charges,
    "CPU µs": range(line.cpuUs),
    ratio: range(line.ratio, 2),
    "p50 µs, one client": range(line.p50Us),
    "p99 µs": range(line.p99Us),
    "start s": line.startSeconds.toFixed(1),
    "scrape ms": range(line.scrapeMs),
    "verify s": line.verifySeconds.toFixed(1),
    "report ms": (line.reportSeconds * 1000).toFixed(0),
  })),
);
if (values.json !== undefined)
  writeFileSync(values.json, JSON.stringify({ machine: machine(), rounds, requests, lines }, null, 2));
