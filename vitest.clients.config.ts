import { defineConfig } from "vitest/config";

/** `npm run test:clients`: clients as their users run them, installed from test/system/clients/package.json. */
export default defineConfig({
  test: {
    include: ["test/system/clients/*.client.ts"],
    setupFiles: ["test/system/clients/support/outside-guard.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
