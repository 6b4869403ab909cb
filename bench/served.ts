import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../src/ports/clock.ts";
import { systemClock } from "../src/platform/clock.ts";
import { silentLog } from "../test/support/captured-log.ts";
import { settingsFrom } from "../test/support/settings-from.ts";
import { startServing } from "../src/server/serving.ts";

export const benchToken = "bench-token-0123456789";

/** Starts a proxy on a ledger, without a gateway. */
export async function served(database: string, clock: Clock) {
  const settings = settingsFrom({
    FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
    FAREBOX_GATEWAY_API_KEY: "sk-bench",
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
    FAREBOX_ADMIN_TOKEN: benchToken,
  });
  const serving = await startServing(settings, { clock, log: silentLog, version: "0.0.0-bench" });
  if (!serving.ok) throw new Error(serving.problems.join("; "));
  return serving.serving;
}

/** Copies a ledger's file to a new folder, because a proxy writes to its ledger. */
export function copyOfLedger(path: string): Disposable & { readonly database: string } {
  const folder = mkdtempSync(join(tmpdir(), "farebox-bench-"));
  const database = join(folder, "farebox.db");
  copyFileSync(path, database);
  return { database, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

/** Returns a clock that always shows the same time. Its timers and durations are real. */
export function clockAt(instant: number): Clock {
  return { ...systemClock(), now: () => instant };
}
