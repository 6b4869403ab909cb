import { globSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";
import { memoryFolder } from "./test/support/memory-folder.ts";
import { compileCache, nodeFlags } from "./test/support/node-flags.ts";
import { FlakyTests, retry, tags } from "./test/support/retries.ts";

const env = { NODE_COMPILE_CACHE: compileCache };
/** Environment of tests that do not depend on the behavior of a disk. */
const inMemory = { ...env, TMPDIR: memoryFolder() };
// The time limits stop only tests that hang. A busy machine must not fail a test.
const limits = { testTimeout: 180_000, hookTimeout: 180_000 };
// Test files share a process and its loaded modules, because they change no global state.
const shared = { ...limits, execArgv: nodeFlags, isolate: false, env, setupFiles: "test/support/fixed-seeds.ts" };
const database = { globalSetup: "test/support/shared-postgres.ts" };

/** Returns the tests whose random cases, loads or sizes depend on TEST_EFFORT. These tests import `effort.ts`. */
function scaled(): string[] {
  const files = globSync("test/{unit,proxy}/**/*.test.ts", { cwd: import.meta.dirname });
  return files.filter((file) => readFileSync(file, "utf8").includes("/effort.ts"));
}

/** Tests that start programs. */
const programs = { ...shared, globalSetup: [database.globalSetup, "test/support/built-program.ts"] };

const inProcess = {
  ...shared,
  setupFiles: "test/support/in-process.ts",
  env: { ...inMemory, TEST_LEDGER_THREADS: "0" },
};

export default defineConfig({
  test: {
    // By default, Vitest would leave one of two cores unused. Many tests here only wait for processes that they started.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", new FlakyTests()],
    tags,
    projects: [
      {
        // `npm test`.
        test: { ...inProcess, name: "in-process", include: ["test/{unit,contract,proxy}/**/*.test.ts"] },
      },
      { test: { ...programs, name: "system", include: ["test/system/**/*.test.ts"], retry } },
      // What is no check of a change: releases, measuring tools, random searches.
      { test: { ...programs, name: "nightly", include: ["test/nightly/**/*.test.ts"] } },
      // Tests of `in-process` that try more cases with TEST_EFFORT=all. Nightly, like the next three projects at that effort.
      { test: { ...inProcess, name: "thorough", include: scaled() } },
      // Contract tests on PostgreSQL.
      {
        test: {
          ...shared,
          ...database,
          name: "postgres",
          include: ["test/contract/**/*.test.ts"],
          env: { ...env, TEST_STORE: "postgres" },
        },
      },
      // Contract tests on SQLite in threads, as `serve` runs it.
      {
        test: {
          ...shared,
          name: "threads",
          include: ["test/contract/**/*.test.ts"],
          env: { ...inMemory, TEST_STORE: "threads" },
        },
      },
      // Tests of the engine, with undici. Engines differ at the sockets, so these tests need no ledger threads.
      {
        test: {
          ...shared,
          setupFiles: "test/support/in-process.ts",
          name: "undici",
          include: ["test/proxy/engine/**/*.test.ts"],
          env: { ...inMemory, TEST_LEDGER_THREADS: "0", TEST_ENGINE: "undici" },
        },
      },
    ],
  },
});
