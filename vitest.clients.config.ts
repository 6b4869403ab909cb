import { defineConfig } from "vitest/config";

/** `npm run test:clients`: tests with real clients, as their users run them. test/system/clients/install.ts installs the clients. */
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
    // These programs are not ours and may stall, so a failed test runs once more.
    retry: 1,
  },
});
