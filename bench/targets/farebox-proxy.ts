import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { setBudget } from "../../src/admin/budget-changes.ts";
import { createKey } from "../../src/admin/key-changes.ts";
import { packageVersion } from "../../src/server/package.ts";
import { growUnderLoad, tuneRuntime } from "../../src/server/runtime.ts";
import { startServing, type Serving } from "../../src/server/serving.ts";
import type { Settings } from "../../src/config/settings.ts";
import { createLog } from "../../src/platform/log.ts";
import { connectToWrite, createPrivateFile } from "../../src/ledger/sqlite/connection.ts";
import { migrate } from "../../src/ledger/sqlite/migrate.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { settingsFrom } from "../../test/support/settings-from.ts";
import { addKeys } from "../many-keys.ts";
import type { LedgerFigures, StartParams } from "../messages.ts";
import { runProcess, type Running } from "./process.ts";

tuneRuntime();
const clock = systemClock();
const dayMs = 86_400_000;
const [keyName, teamName] = ["bench", "benchers"];

/** Farebox as `farebox serve` starts it. It has a ledger on disk, a key in a team, and three hard budgets that are never exhausted. */
await runProcess(async (params): Promise<Running> => {
  const settings = settingsFor(params);
  prepareLedger(params);
  const log = await createLog({ level: settings.logLevel, isTerminal: false });
  const started = await startServing(settings, { clock, log, version: packageVersion() });
  if (!started.ok) throw new Error(started.problems.join("; "));
  const { serving } = started;
  const created = await createKey({ keys: serving.keys, clock, by: "test" }, { name: keyName, team: teamName });
  if (!created.ok) throw new Error(JSON.stringify(created));
  await setHardBudget(serving, `key:${keyName}`);
  await setHardBudget(serving, `team:${teamName}`);
  await setHardBudget(serving, "all");
  growUnderLoad();
  return {
    port: Number(new URL(serving.url).port),
    key: created.text,
    ledger: () => ledgerFiguresOf(serving),
    async stop() {
      await serving[Symbol.asyncDispose]();
    },
  };
});

function settingsFor({ gatewayUrl, gatewayKey, folder, engine, workers = 1 }: StartParams): Settings {
  return settingsFrom({
    FAREBOX_GATEWAY_URL: gatewayUrl,
    FAREBOX_GATEWAY_API_KEY: gatewayKey,
    FAREBOX_DATABASE: databaseIn(folder),
    FAREBOX_PORT: "0",
    FAREBOX_ENGINE: engine,
    FAREBOX_LOG_LEVEL: "error",
    FAREBOX_WORKERS: String(workers),
  });
}

function databaseIn(folder: string): string {
  return join(folder, "farebox.db");
}

function prepareLedger({ folder, database, keys }: StartParams): void {
  const path = databaseIn(folder);
  if (database !== "") copyFileSync(database, path);
  if (keys === 0) return;
  createPrivateFile(path);
  const db = connectToWrite(path);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  db.transaction(() => addKeys(db, keys))();
  db.close();
}

async function setHardBudget({ ledger, keys }: Serving, scope: string): Promise<void> {
  const set = await setBudget(
    { ledger, keys, clock, by: "test" },
    { scope, period: "total", mode: "hard", limit: "1000000" },
  );
  if (!set.ok) throw new Error(JSON.stringify(set));
}

async function ledgerFiguresOf({ ledger, settled }: Serving): Promise<LedgerFigures> {
  await settled();
  const verifiedFrom = performance.now();
  const { charges, differences } = await ledger.verify();
  const verifySeconds = (performance.now() - verifiedFrom) / 1000;
  const { count: pending } = await ledger.pending();
  const until = clock.now() + dayMs;
  const rows = await ledger.report({ by: [], since: 0, until });
  const reportedFrom = performance.now();
  await ledger.report({ by: ["key", "model"], since: until - 31 * dayMs, until });
  const reportSeconds = (performance.now() - reportedFrom) / 1000;
  const posted = rows.reduce((sum, row) => sum + row.requests, 0);
  const reported = rows.reduce((sum, row) => sum + (row.bySource["reported"]?.requests ?? 0), 0);
  return { charges, pending, posted, reported, differences: differences.length, verifySeconds, reportSeconds };
}
