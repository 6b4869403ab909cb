/**
 * Measures how long admissions wait while budgets are set on a large SQLite ledger. Creates the ledger if the file is missing.
 *
 *   node bench/opening.ts FILE [CHARGES] [USERS]
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { parseScope } from "../src/core/scope.ts";
import { usd } from "../src/core/money.ts";
import { unseenEnd, voidCommand } from "../src/ledger/commands.ts";
import { openSqlite } from "../src/ledger/sqlite/open.ts";
import { calendarOf, systemClock } from "../src/platform/clock.ts";
import { commandsOf, newLedger, random, writeCharges } from "./past-charges.ts";

const dayMs = 86_400_000;
const end = Date.parse("2026-11-20T12:00:00Z");
const keys = 200;
const scopes = [
  "key:key-1",
  "all",
  "team:team-1",
  "each-key",
  "each-model",
  "tag:feature=f1",
  "user:user-1",
  "each-user",
];

const { positionals } = parseArgs({ allowPositionals: true });
const [path, charges = "1000000", users = "10000"] = positionals;
if (path === undefined) throw new Error("usage: node bench/opening.ts FILE [CHARGES] [USERS]");

const pick = random(1);
const sender = () => {
  const index = Math.min(pick(keys), pick(keys));
  const user = `user-${pick(Number(users))}`;
  return { caller: { key: `key-${index}`, team: `team-${index % 20}`, user }, firstModel: index };
};
if (!existsSync(path)) {
  const start = end - 90 * dayMs;
  const ledger = newLedger(path, start);
  writeCharges(ledger, { rows: Number(charges), start, end, pick, sender });
  ledger.db.pragma("wal_checkpoint(truncate)");
  ledger.db.close();
}

const opened = await openSqlite({ path, calendar: calendarOf("UTC"), clock: systemClock(), access: "serve" });
if (!opened.ok) throw new Error(JSON.stringify(opened.failure));
await using store = opened.store;
const { ledger, commands } = store;

let count = Date.now();

/** Admits and voids requests, one after the other, until `until` resolves. Returns the sorted times of the admissions in ms. */
async function admit(until: Promise<unknown>): Promise<readonly number[]> {
  const stop = new AbortController();
  void until.then(() => stop.abort());
  const times: number[] = [];
  while (!stop.signal.aborted) {
    const { id, hold } = commandsOf(count++, end, pick, sender());
    const began = performance.now();
    const answer = await commands.submit(hold);
    times.push(performance.now() - began);
    if (!answer.ok || !answer.reply) throw new Error("a hold failed");
    await commands.submit(voidCommand(id, "left", unseenEnd(end)));
  }
  return times.sort((a, b) => a - b);
}

const shown = (times: readonly number[]) =>
  `median ${times[times.length >> 1]?.toFixed(1)} ms, longest ${times.at(-1)?.toFixed(1)} ms of ${times.length}`;
console.log(`admissions alone: ${shown(await admit(new Promise((resolve) => setTimeout(resolve, 3000))))}`);
for (const period of ["1mo", "total"] as const)
  for (const text of scopes) {
    const scope = parseScope(text);
    if (scope === undefined) throw new Error(text);
    const began = performance.now();
    const setting = ledger.setBudget({ scope, period, mode: "soft", limit: usd("9000"), warnPercent: null }, end);
    const times = await admit(setting);
    await setting;
    const seconds = (performance.now() - began) / 1000;
    const windows = (await ledger.windows(end)).filter(({ budget }) => budget.id === `${text}/${period}`).length;
    console.log(`${text} per ${period}: ${windows} windows in ${seconds.toFixed(2)} s; admissions: ${shown(times)}`);
    await ledger.removeBudget(text, period, end);
  }
