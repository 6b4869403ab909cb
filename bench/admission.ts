/**
 * Measures how many requests per second the ledger admits and settles. In the first four variants, all requests use one key, to
 * which three hard budgets apply. Opens only the store, as `serve` does: with a writer thread and `synchronous = full`.
 *
 *   node bench/admission.ts [--rounds 5] [--seconds 2] [--json FILE]
 *
 * "exhausted": the budgets have no room, so the ledger refuses every hold. "100,000 keys": each key has its own hard budget.
 * "each-key" and "each-user": one hard budget has 100,000 subjects. In the last three variants, consecutive holds have different
 * keys or users.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  type Caller,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  parseScope,
  teamScope,
} from "../src/core/scope.ts";
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
const users: readonly Caller[] = many.map((_, index) => ({ key: "hot", team: null, user: `user-${index}` }));
const eachUser = parseScope("each-user");
if (eachUser === undefined) throw new Error("each-user is not a scope");
const scopes: readonly Scope[] = [everyRequest, teamScope("team"), keyScope("hot")];

const clock = systemClock();
const folder = mkdtempSync(join(tmpdir(), "farebox-admission-"));

async function openStore(name: string, limit: string, limited = scopes) {
  const result = await openSqlite({
    path: join(folder, `${name}.db`),
    calendar: calendarOf("UTC"),
    clock,
    access: "serve",
    settlePauseMs: 10,
    subjectsMax: manyKeys,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  const { store } = result;
  for (const scope of limited)
    await store.ledger.setBudget(
      { scope, period: "1mo", mode: "hard", limit: usd(limit), warnPercent: null },
      clock.now(),
    );
  return store;
}

async function openStoreWithKeys(name: string) {
  const path = join(folder, `${name}.db`);
  createPrivateFile(path);
  const db = connectToWrite(path);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  db.transaction(() => addKeys(db, manyKeys))();
  db.close();
  return openStore(name, "1000000");
}

try {
  await using plenty = await openStore("plenty", "1000000");
  await using none = await openStore("none", "0.001");
  await using crowded = await openStoreWithKeys("crowded");
  await using eachOfKeys = await openStore("each-key", "1000000", [eachKeyScope()]);
  await using eachOfUsers = await openStore("each-user", "1000000", [eachUser]);
  const variants = [
    { name: "1 at once", store: plenty, inFlight: 1, callers: hot },
    { name: "16 at once", store: plenty, inFlight: 16, callers: hot },
    { name: "256 at once", store: plenty, inFlight: 256, callers: hot },
    { name: "256 at once, exhausted", store: none, inFlight: 256, callers: hot },
    { name: "256 at once, 1,000 of 100,000 keys", store: crowded, inFlight: 256, callers: many.slice(0, 1000) },
    { name: "256 at once, 100,000 keys", store: crowded, inFlight: 256, callers: many },
    { name: "256 at once, each-key of 100,000", store: eachOfKeys, inFlight: 256, callers: many },
    { name: "256 at once, each-user of 100,000", store: eachOfUsers, inFlight: 256, callers: users },
  ];
  const samples = new Map<string, (LedgerSample & { readonly cpuUs: number })[]>(
    variants.map(({ name }) => [name, []]),
  );
  for (let round = -1; round < rounds; round++) {
    for (const { name, store, inFlight, callers } of variants) {
      const before = process.cpuUsage();
      const sample = await drive(store.ledger, { inFlight, seconds: round < 0 ? 1 : seconds, callers, prefix: "" });
      const { user, system } = process.cpuUsage(before);
      // The first round is a warm-up.
      if (round >= 0)
        samples.get(name)?.push({ ...sample, cpuUs: (user + system) / (sample.admitted + sample.refused) });
    }
  }
  for (const { ledger } of [plenty, none, eachOfUsers]) {
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
