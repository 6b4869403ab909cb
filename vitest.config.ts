import { globSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";
import { memoryFolder } from "./test/support/memory-folder.ts";
import { compileCache, nodeFlags } from "./test/support/node-flags.ts";

const env = { NODE_COMPILE_CACHE: compileCache };
/** Of tests that are not about what a disk does. */
const inMemory = { ...env, TMPDIR: memoryFolder() };
// A time limit is for a test that hangs: a busy machine is no fault.
const limits = { testTimeout: 60_000, hookTimeout: 60_000 };
// Files share a process and what it has loaded: they change nothing that is global.
const shared = { ...limits, execArgv: nodeFlags, isolate: false, env };
const database = { globalSetup: "test/support/shared-postgres.ts" };

/** Tests whose random cases, loads or sizes depend on TEST_EFFORT: they import `effort.ts`. */
function scaled(): string[] {
  const files = globSync("test/{unit,proxy}/**/*.test.ts", { cwd: import.meta.dirname });
  return files.filter((file) => readFileSync(file, "utf8").includes("/effort.ts"));
}

const inProcess = {
  ...shared,
  setupFiles: "test/support/in-process.ts",
  env: { ...inMemory, TEST_LEDGER_THREADS: "0" },
};

export default defineConfig({
  test: {
    // Vitest leaves one core alone, which of two is half: many tests here wait for processes of their own.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        // `npm test`.
        test: { ...inProcess, name: "in-process", include: ["test/{unit,contract,proxy}/**/*.test.ts"] },
      },
      // Those of them that try more under TEST_EFFORT=all.
      { test: { ...inProcess, name: "thorough", include: scaled() } },
      { test: { ...shared, ...database, name: "system", include: ["test/system/**/*.test.ts"] } },
      // The same contracts, on PostgreSQL.
      {
        test: {
          ...shared,
          ...database,
          name: "postgres",
          include: ["test/contract/**/*.test.ts"],
          env: { ...env, TEST_STORE: "postgres" },
        },
      },
      // And on SQLite in threads, as `serve` has it.
      {
        test: {
          ...shared,
          name: "threads",
          include: ["test/contract/**/*.test.ts"],
          env: { ...inMemory, TEST_STORE: "threads" },
        },
      },
      // What differs between the engines, with the other one: that is at the sockets, and not in the ledger's threads.
      {
        test: {
          ...shared,
          name: "undici",
          include: ["test/proxy/engine/**/*.test.ts"],
          env: { ...inMemory, TEST_LEDGER_THREADS: "0", TEST_ENGINE: "undici" },
        },
      },
    ],
  },
});
