/**
 * Requests a second that the ledger admits and settles under one hot budget: three hard budgets apply to the one key of all
 * requests. The store as `serve` opens it (a writer's thread, synchronous FULL), and nothing else of the proxy.
 *
 *   node bench/admission.ts [--rounds 5] [--seconds 2] [--json FILE]
 *
 * "exhausted": the budget has no room, so that every hold is refused. "100,000 keys": each with a hard budget of its own, and
 * each hold for another one.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Caller, Scope } from "../src/core/budget.ts";
import { usd } from "../src/core/money.ts";
import { connectToWrite, createPrivateFile } from "../src/ledger/sqlite/connection.ts";
import { migrate } from "../src/ledger/sqlite/migrate.ts";
import { openSqlite } from "../src/ledger/sqlite/open.ts";
import { calendarOf, systemClock } from "../src/platform/clock.ts";
import { drive, type LedgerSample } from "./ledger-load.ts";
import { addKeys, keyId } from "./many-keys.ts";
import { machine } from "./report.ts";
import { spreadOf } from "./statistics.ts";

const text = { type: "string" } as const;
const { values } = parseArgs({ options: { rounds: text, seconds: text, json: text } });
const rounds = Number(values.rounds ?? 5);
const seconds = Number(values.seconds ?? 2);
const hot: readonly Caller[] = [{ key: "hot", team: "team" }];
const manyKeys = 100_000;
const many: readonly Caller[] = Array.from({ length: manyKeys }, (_, index) => ({ key: keyId(index), team: null }));
const scopes: readonly Scope[] = [{ kind: "all" }, { kind: "team", team: "team" }, { kind: "key", key: "hot" }];

const clock = systemClock();
const folder = mkdtempSync(join(tmpdir(), "farebox-admission-"));

async function opened(name: string, limit: string) {
  const result = await openSqlite({
    path: join(folder, `${name}.db`),
    calendar: calendarOf("UTC"),
    clock,
    access: "serve",
    settlePauseMs: 10,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  const { store } = result;
  for (const scope of scopes)
    await store.ledger.setBudget(
      { scope, period: "1mo", mode: "hard", limit: usd(limit), warnPercent: null },
      clock.now(),
    );
  return store;
}

async function openedWithKeys(name: string) {
  const path = join(folder, `${name}.db`);
  createPrivateFile(path);
  const db = connectToWrite(path);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  db.transaction(() => addKeys(db, manyKeys))();
  db.close();
  return opened(name, "1000000");
}

try {
  await using plenty = await opened("plenty", "1000000");
  await using none = await opened("none", "0.001");
  await using crowded = await openedWithKeys("crowded");
  const variants = [
    { name: "1 at once", store: plenty, inFlight: 1, callers: hot },
    { name: "16 at once", store: plenty, inFlight: 16, callers: hot },
    { name: "256 at once", store: plenty, inFlight: 256, callers: hot },
    { name: "256 at once, exhausted", store: none, inFlight: 256, callers: hot },
    { name: "256 at once, 1,000 of 100,000 keys", store: crowded, inFlight: 256, callers: many.slice(0, 1000) },
    { name: "256 at once, 100,000 keys", store: crowded, inFlight: 256, callers: many },
  ];
  const samples = new Map<string, (LedgerSample & { readonly cpuUs: number })[]>(
    variants.map(({ name }) => [name, []]),
  );
  for (let round = -1; round < rounds; round++) {
    for (const { name, store, inFlight, callers } of variants) {
      const before = process.cpuUsage();
      const sample = await drive(store.ledger, { inFlight, seconds: round < 0 ? 1 : seconds, callers, prefix: "" });
      const { user, system } = process.cpuUsage(before);
      // The first round only warms it up.
      if (round >= 0)
        samples.get(name)?.push({ ...sample, cpuUs: (user + system) / (sample.admitted + sample.refused) });
    }
  }
  for (const { ledger } of [plenty, none]) {
    const { differences } = await ledger.verify();
    if (differences.length > 0) throw new Error(JSON.stringify(differences[0]));
  }
  const figures = [...samples].map(([name, all]) => ({
    name,
    perSecond: spreadOf(all.map((each) => (each.admitted + each.refused) / each.seconds)),
    p50Us: spreadOf(all.map(({ p50Us }) => p50Us)),
    p99Us: spreadOf(all.map(({ p99Us }) => p99Us)),
    cpuUs: spreadOf(all.map(({ cpuUs }) => cpuUs)),
  }));
  console.table(
    figures.map(({ name, ...each }) => ({
      name,
      ...Object.fromEntries(
        Object.entries(each).map(([key, { median, min, max }]) => [
          key,
          `${median.toFixed(0)} (${min.toFixed(0)}-${max.toFixed(0)})`,
        ]),
      ),
    })),
  );
  if (values.json !== undefined)
    writeFileSync(values.json, JSON.stringify({ machine: machine(), rounds, seconds, figures }, null, 2));
} finally {
  rmSync(folder, { recursive: true });
}
