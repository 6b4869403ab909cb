import { defineConfig } from "vitest/config";

/** `npm run test:clients`: clients as their users run them, installed by test/system/clients/install.ts. */
export default defineConfig({
  test: {
    include: [
      "test/system/clients/*.client.ts",
      ...(process.env["FAREBOX_TEST_CLIENTS"] === "all" ? ["test/system/clients/all/*.client.ts"] : []),
    ],
    setupFiles: ["test/system/clients/support/outside-guard.ts"],
    testTimeout: 180_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    // These programs are not ours: one that stalls is started once more.
    retry: 1,
  },
});
