import { defineConfig } from "vitest/config";

/** For `run.ts`: the tests that run against each mutant of one file. */
export default defineConfig({
  test: {
    include: (process.env["FAREBOX_MUTATION_TESTS"] ?? "").split(","),
    testTimeout: 20_000,
    env: { TEST_EFFORT: "all" },
  },
});
