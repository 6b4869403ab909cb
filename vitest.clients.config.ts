import { defineConfig } from "vitest/config";
import { FlakyTests, retry } from "./test/support/retries.ts";

/** `npm run test:clients`: tests with real clients, as their users run them. test/system/clients/install.ts installs the clients. */
export default defineConfig({
  test: {
    include: [
      "test/system/clients/*.client.ts",
      ...(process.env["FAREBOX_TEST_CLIENTS"] === "all" ? ["test/system/clients/all/*.client.ts"] : []),
    ],
    setupFiles: ["test/system/clients/support/outside-guard.ts"],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    maxWorkers: 2,
    retry,
    reporters: ["default", new FlakyTests()],
  },
});
