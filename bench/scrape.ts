/**
 * Measures how long a scrape takes, and how long it blocks the main thread. Scrapes the real proxy over HTTP. By default, its
 * ledger has 1,000 keys, 60 models and a month of charges.
 *
 *   node bench/scrape.ts [KEYS] [MODELS-PER-KEY] [DAYS] [CHARGES] [USERS]
 *
 * USERS is the number of windows of an each-user budget. The metrics do not show these windows.
 * "busy" is a scrape during a report of all charges.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { connectToWrite, createPrivateFile, type Connection } from "../src/ledger/sqlite/connection.ts";
import { migrate } from "../src/ledger/sqlite/migrate.ts";
import { rollupDimensions, rollupSums } from "../src/ledger/rollups.ts";
import { calendarOf, systemClock } from "../src/platform/clock.ts";
import { served } from "./served.ts";

const [keysText = "1000", perKeyText = "6", daysText = "31", chargesText = "1000000", usersText = "0"] = parseArgs({
  allowPositionals: true,
}).positionals;
const [keys, perKey, days, charges] = [Number(keysText), Number(perKeyText), Number(daysText), Number(chargesText)];
const users = Number(usersText);
const dayMs = 86_400_000;
const calendar = calendarOf("UTC");
const now = Date.now();

/** Writes the rows that a scrape reads, in the form in which the ledger's writer stores them. */
function fill(db: Connection): void {
  const keyRow = db.prepare("insert into keys (id, name, team, digest, models, created_at) values (?, ?, ?, ?, ?, ?)");
  const insert = (table: string, time: string) =>
    db.prepare(
      `insert into ${table} (${[time, ...rollupDimensions, ...rollupSums].join(", ")}) values (${[time, ...rollupDimensions, ...rollupSums].map(() => "?").join(", ")})`,
    );
  const [day, quarter] = [insert("rollup_day", "day"), insert("rollup_quarter", "starts_at")];
  const sums = rollupSums.map((_, index) => 1_000_000 + index);
  const identity = (key: number, step: number) =>
    [
      `key-${key}`,
      `team-${key % 40}`,
      `provider-model-${(key * 7 + step) % 60}`,
      `provider-model-${(key * 7 + step) % 60}`,
      `group-${step % 4}`,
      "reported",
    ] as const;
  for (let key = 0; key < keys; key++)
    keyRow.run(`key-${key}`, `service-account-${key}`, null, String(key).padStart(64, "0"), null, now);
  for (let past = 0; past < days; past++) {
    for (let key = 0; key < keys; key++) {
      for (let step = 0; step < perKey; step++)
        day.run(calendar.dateOf(calendar.spanOf("1mo", now).start + past * dayMs), ...identity(key, step), ...sums);
    }
  }
  const { start } = calendar.spanOf("1d", now);
  for (let at = start; at <= now; at += 900_000) {
    for (let key = 0; key < keys; key++) quarter.run(at, ...identity(key, 0), ...sums);
  }
  const charge = db.prepare(
    `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, route, model, stream, hold, cost, list_cost, formula, source, input, output, tags)
     values (?, 'request', 'posted', 1, ?, ?, ?, '/v1/chat/completions', ?, 0, 2000000, 1250000, 2500000, 'tokens', 'reported', 100, 50, '{"a":"b"}')`,
  );
  for (let index = 0; index < charges; index++) {
    const at = now - Math.floor((index * days * dayMs) / charges);
    charge.run(`charge-${index}`, at, at, `key-${index % keys}`, `provider-model-${index % 60}`);
  }
  const budget = db.prepare(
    "insert into budgets (scope, period, mode, amount_limit, warn_percent) values (?, ?, 'soft', 5000000000000, null) returning seq",
  );
  const window = db.prepare(
    "insert into windows (budget, subject, starts_at, ends_at, spent, held) values (?, ?, ?, ?, 123456789012, 0)",
  );
  for (const period of ["1d", "1mo"] as const) {
    const span = calendar.spanOf(period, now);
    const { seq } = budget.get("each-key", period) as { seq: number };
    for (let key = 0; key < keys; key++) window.run(seq, `key-${key}`, span.start, span.end);
  }
  const { seq } = budget.get("each-user", "1d") as { seq: number };
  const span = calendar.spanOf("1d", now);
  for (let user = 0; user < users; user++) window.run(seq, `user-${user}`, span.start, span.end);
}

const folder = mkdtempSync(join(tmpdir(), "farebox-scrape-"));
try {
  const path = join(folder, "farebox.db");
  createPrivateFile(path);
  const db = connectToWrite(path);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  db.transaction(() => fill(db))();
  db.close();
  await using serving = await served(path, systemClock());
  const { ledger } = serving;
  const scrape = async () => (await fetch(`${serving.url}/metrics`)).text();
  let running: Promise<unknown> | undefined;
  const parts = {
    windows: () => ledger.windows(Date.now()),
    keys: () => serving.keys.list(),
    day: () => ledger.report({ by: ["team"], since: calendar.spanOf("1d", now).start, until: Date.now() + 1 }),
    month: () => ledger.report({ by: ["team"], since: calendar.spanOf("1mo", now).start, until: Date.now() + 1 }),
    scrape,
    busy: async () => {
      running ??= ledger.report({ by: ["tag:a"], since: 0, until: Date.now() }).finally(() => (running = undefined));
      await scrape();
    },
  };
  for (const [name, read] of Object.entries(parts)) {
    const taken: number[] = [];
    const stalls = monitorEventLoopDelay({ resolution: 1 });
    for (let round = 0; round < 12; round++) {
      if (round === 2) stalls.enable();
      const began = performance.now();
      await read();
      if (round >= 2) taken.push(performance.now() - began);
    }
    stalls.disable();
    const sorted = taken.toSorted((a, b) => a - b);
    console.log(
      `${name.padEnd(8)} median ${sorted[5]?.toFixed(1)} ms, worst ${sorted.at(-1)?.toFixed(1)} ms, longest stall ${(stalls.max / 1e6).toFixed(1)} ms`,
    );
  }
  console.log(`page     ${Buffer.byteLength(await parts.scrape())} bytes`);
} finally {
  rmSync(folder, { recursive: true });
}
