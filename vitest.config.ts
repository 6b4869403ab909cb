import { statfsSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { compileCache, nodeFlags } from "./test/support/node-flags.ts";

const env = { NODE_COMPILE_CACHE: compileCache };
// A time limit is for a test that hangs: a busy machine is no fault.
const shared = { testTimeout: 60_000, hookTimeout: 60_000, execArgv: nodeFlags, env };
const database = { globalSetup: "test/support/shared-postgres.ts" };

/** The memory file system, where it has room: no test of the in-process tier is about what a disk does. */
function memoryFolder(): { readonly TMPDIR?: string } {
  try {
    const { bavail, bsize } = statfsSync("/dev/shm");
    return bavail * bsize > 2 ** 31 ? { TMPDIR: "/dev/shm" } : {};
  } catch {
    return {};
  }
}

export default defineConfig({
  test: {
    // Vitest leaves one core alone, which of two is half: many tests here wait for processes of their own.
    maxWorkers: 2,
    projects: [
      {
        // `npm test`. Its files share a process and what it has loaded: they change nothing that is global.
        test: {
          ...shared,
          name: "in-process",
          include: ["test/{unit,contract,proxy}/**/*.test.ts"],
          setupFiles: "test/support/in-process.ts",
          isolate: false,
          env: { ...env, ...memoryFolder(), TEST_LEDGER_THREADS: "0" },
        },
      },
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
      // What differs between the engines, with the other one.
      {
        test: {
          ...shared,
          name: "undici",
          include: ["test/proxy/engine/**/*.test.ts"],
          env: { ...env, TEST_ENGINE: "undici" },
        },
      },
    ],
  },
});
