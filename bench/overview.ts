/**
 * Time that the overview's data takes, as the dashboard asks for it: the real proxy over HTTP on a ledger of
 * `bench/ledger-rows.ts`, each span and each split asked for the first time and then again.
 *
 *   node bench/ledger-rows.ts FILE 1000000 90
 *   node bench/overview.ts FILE
 *
 * The clock stands where those charges end. The file is copied first, and the copy served.
 */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { startServing } from "../src/server/serving.ts";
import { loadSettings } from "../src/config/load.ts";
import { silentLog } from "../src/platform/log.ts";
import { isTimeZone, systemClock } from "../src/platform/clock.ts";

const [path] = parseArgs({ allowPositionals: true }).positionals;
if (path === undefined) throw new Error("usage: node bench/overview.ts FILE");
const clock = { ...systemClock(), now: () => Date.parse("2026-11-19T20:07:00Z") };
const folder = mkdtempSync(join(tmpdir(), "farebox-overview-"));
const rounds = 5;

async function started(database: string) {
  const env = {
    FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
    FAREBOX_GATEWAY_API_KEY: "sk-bench",
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
    FAREBOX_ADMIN_TOKEN: "bench-token-0123456789",
  };
  const loaded = loadSettings({
    env,
    flags: {},
    readFile: () => ({ ok: false, code: "ENOENT" }),
    isTimeZone,
    uses: "all",
  });
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const serving = await startServing(loaded.settings, { clock, log: silentLog, version: "0.0.0-bench" });
  if (!serving.ok) throw new Error(serving.problems.join("; "));
  return serving.serving;
}

try {
  const database = join(folder, "farebox.db");
  copyFileSync(path, database);
  const [first, again]: [Map<string, number[]>, Map<string, number[]>] = [new Map(), new Map()];
  for (let round = 0; round < rounds; round++) {
    await using serving = await started(database);
    const ask = async (query: string, taken: Map<string, number[]>) => {
      const began = performance.now();
      const answer = await fetch(`${serving.url}/admin/v1/overview?${query}`, {
        headers: { authorization: "Bearer bench-token-0123456789" },
      });
      await answer.text();
      if (answer.status !== 200) throw new Error(`${answer.status}`);
      taken.set(query, [...(taken.get(query) ?? []), performance.now() - began]);
    };
    // The thread starts, and the file's pages come into memory.
    await ask("span=24h&by=group", new Map());
    for (const span of ["24h", "7d", "30d", "90d"]) {
      for (const by of ["model", "key", "team", "group"]) {
        await ask(`span=${span}&by=${by}`, first);
        await ask(`span=${span}&by=${by}`, again);
      }
    }
  }
  const median = (values: number[] = []) =>
    values
      .toSorted((a, b) => a - b)
      .at(values.length / 2)
      ?.toFixed(0)
      .padStart(5);
  for (const [query, taken] of first)
    console.log(`${query.padEnd(18)} first ${median(taken)} ms, again ${median(again.get(query))} ms`);
} finally {
  rmSync(folder, { recursive: true });
}
