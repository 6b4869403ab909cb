import { defineConfig } from "vitest/config";
import { compileCache, nodeFlags } from "./test/support/node-flags.ts";

const env = { NODE_COMPILE_CACHE: compileCache };
// A time limit is for a test that hangs: a busy machine is no fault.
const shared = { testTimeout: 60_000, hookTimeout: 60_000, execArgv: nodeFlags, env };

export default defineConfig({
  test: {
    // Vitest leaves one core alone, which of two is half: many tests here wait for processes of their own.
    maxWorkers: 2,
    globalSetup: "test/support/shared-postgres.ts",
    projects: [
      { test: { ...shared, name: "farebox", include: ["test/**/*.test.ts"] } },
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
